/* SPDX-License-Identifier: MIT
 *
 * The error of a parser that refuses its input: the position, and what was expected
 * there. */
#ifndef TDG_BASE_PARSE_ERROR_H
#define TDG_BASE_PARSE_ERROR_H

#include <stddef.h>

typedef struct tdg__parse_error {
    size_t at;      /* offset in the input, in bytes; 0 where an offset makes no sense */
    char text[192]; /* a sentence for people, NUL-terminated, cut where too long */
} tdg__parse_error_t;

/* Fills *error like printf; `error` may be NULL. Returns `code`, so that a parser can
 * say `return tdg__parse_fail(error, TDG_EURI, at, "…")`. */
int tdg__parse_fail(tdg__parse_error_t *error, int code, size_t at, const char *format,
                    ...) __attribute__((format(printf, 4, 5)));

#endif
