/* SPDX-License-Identifier: MIT
 *
 * Texts from servers in lines, columns and paragraphs. They pass through cli_put_plain()
 * of terminal.h, so they have no effect on a terminal.
 *
 * Columns are those of a terminal: wide characters have two, as the locale says. */
#ifndef TDG_CLI_SAFE_TEXT_H
#define TDG_CLI_SAFE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Writes a text in one line: line ends and tabs become a space. */
void cli_put_line(FILE *out, const char *text);

/* The same into `columns` columns: cut with "…" where it is longer, filled up with spaces
 * where it is shorter. */
void cli_put_cell(FILE *out, const char *text, int columns);

/* The columns that cli_put_line() would take. */
int cli_columns(const char *text);

/* Writes a text of `len` bytes with its line ends and tabs where `out` is a terminal;
 * elsewhere the bytes as they are. */
void cli_put_content(FILE *out, const char *text, size_t len);

/* Writes words, parted by spaces, into lines of `width` columns. The first one begins in
 * the column `indent`, where the output has to be already; the others are indented. */
void cli_put_wrapped(FILE *out, const char *text, int indent, int width);

/* Whether nothing in a text would be shown otherwise than it is. */
bool cli_is_plain(const char *text);

#endif
