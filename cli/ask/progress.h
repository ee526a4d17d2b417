/* SPDX-License-Identifier: MIT
 *
 * Shows the elapsed time and the server's progress in a line on standard error, once a
 * call takes longer than a second. Only if standard error is a terminal, and without
 * --verbose, whose lines would mix with it. Once per process. */
#ifndef TDG_CLI_PROGRESS_H
#define TDG_CLI_PROGRESS_H

#include <jansson.h>

#include "ask/target.h"

/* `what` is borrowed until the end. Where no thread can be had, nothing is shown. */
void cli_progress_begin(const cli_target_t *target, const char *what);
void cli_progress_end(void); /* takes the line away; without a begin does nothing */

/* As tdg_progress_fn. */
void cli_progress_report(void *user, const json_t *params);

#endif
