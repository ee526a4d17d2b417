/* SPDX-License-Identifier: MIT
 *
 * The headers that a user configures, and a token in a file. Errors are reported in one
 * line for people, which never contains a value. */
#ifndef TDG_WEB_HEADER_H
#define TDG_WEB_HEADER_H

#include <stdbool.h>
#include <stddef.h>

enum { TDG__WEB_MAX_TOKEN = 16 * 1024 }; /* bytes of the file */

/* Whether it can be the name of a header. */
bool tdg__web_is_token(const char *name, size_t len);

/* What is wrong with a header, behind the words "the header"; NULL: nothing. `own` are
 * names that are set elsewhere, beside those of every exchange; ends with NULL. */
const char *tdg__web_wrong_header(const char *name, size_t len, const char *value,
                                  const char *const *own);

/* The same for "Name: value", for who speaks MCP. */
bool tdg__web_header_is_fine(const char *line, char *why, size_t why_size);

/* Whether a field of our own can be sent: a name, and a value of one line. */
bool tdg__web_field_is_fine(const char *name, const char *value);

/* Stores the file's first line, without blanks around it, in *ret. Returns 0, TDG_EINVAL
 * (with `why`) or TDG_ENOMEM. */
int tdg__web_token_read(const char *file, char **ret, char *why, size_t why_size);

#endif
