/* SPDX-License-Identifier: MIT
 *
 * The common part of the commands that read a config file. */
#ifndef TDG_CLI_CONFIG_H
#define TDG_CLI_CONFIG_H

#include <stdio.h>

#include "config/file.h"
#include "config/reference.h"

/* Where none is named. */
#ifdef TDG_WITHOUT_YAML
#define CLI_CONFIG_FILE "tidings.json"
#else
#define CLI_CONFIG_FILE "tidings.yaml"
#endif

/* Says all of them, sorted, one per line: "file:line:column: text". */
void cli_print_problems(tdg__problems_t *problems, FILE *out);

/* What a config file may hold. Returns an exit code. */
int cli_print_reference(tdg__reference_format_t format);

#endif
