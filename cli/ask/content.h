/* SPDX-License-Identifier: MIT
 *
 * Prints the content of tool results and prompts: texts, pictures, sounds, resources. */
#ifndef TDG_CLI_CONTENT_H
#define TDG_CLI_CONTENT_H

#include <jansson.h>

/* Prints one content block on standard output, ended by a line break: a text as it is
 * (safe_text.h), of anything else one line that says what it is. */
void cli_print_block(const json_t *block);

#endif
