/* SPDX-License-Identifier: MIT
 *
 * JSON Pointer (RFC 6901): names one part of a JSON value. "" is the whole, "/a/0" the
 * first item of the member "a"; in a name, ~1 stands for '/' and ~0 for '~'. */
#ifndef TDG_BASE_JSON_POINTER_H
#define TDG_BASE_JSON_POINTER_H

#include <jansson.h>

#include "base/parse_error.h"

enum { TDG__JSON_POINTER_MAX = 1024 }; /* bytes of a pointer */

/* Whether the text is a pointer. Returns 0, or TDG_EINVAL with *error filled where not
 * NULL. */
int tdg__json_pointer_check(const char *pointer, tdg__parse_error_t *error);

/* The part that a checked pointer names; NULL where there is none: a member that is
 * missing, an index beyond the end or not written as one ("01", "-"), a step into what
 * has no parts. Borrowed from `value`. Allocates nothing. */
json_t *tdg__json_pointer_get(json_t *value, const char *pointer);

#endif
