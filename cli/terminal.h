/* SPDX-License-Identifier: MIT
 *
 * Output to a terminal: colours if enabled, and texts from servers without the control
 * characters that could move the cursor or rename the window. */
#ifndef TDG_CLI_TERMINAL_H
#define TDG_CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

#define CLI_BOLD "\033[1m"
#define CLI_DIM "\033[2m"
#define CLI_RED "\033[31m"
#define CLI_GREEN "\033[32m"
#define CLI_YELLOW "\033[33m"
#define CLI_CYAN "\033[36m"
#define CLI_OFF "\033[0m"

/* For an option --color WHEN: the position in the list is its value. */
enum { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER };
extern const char *const cli_colors[];

/* Whether to write in colours to this descriptor. AUTO: if it is a terminal that is not
 * "dumb", and NO_COLOR is not set. */
bool cli_wants_color(int when, int fd);

/* Stores the size of the terminal behind a descriptor;
 * what is not known stays as it is. */
void cli_terminal_size(int fd, int *ret_columns, int *ret_lines);

/* Decodes the character at the start of a text (UTF-8) and stores its length. What is cut
 * off or no UTF-8 counts as one byte, and as 0x80, which is no character. */
uint32_t cli_decode(const char *text, size_t len, size_t *ret_len);

/* Appends a text (UTF-8) so that a terminal only shows it: control characters become
 * visible (^[ for escape, <U+009B> and such), and so do those that turn the direction of
 * writing. `lines`: line ends and tabs stay; else it stays one line. */
void cli_put_plain(tdg__text_t *out, const char *text, size_t len, bool lines);

#endif
