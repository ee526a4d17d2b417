/* SPDX-License-Identifier: MIT
 *
 * From values to a URI: the way back from matching, for templates of plain variables.
 * Only `{x}` and `{+x}` can be expanded, one variable each: then a URI names its values
 * and values name one URI, and expanding what tdg__template_extract() and
 * tdg__uri_decode() gave leads back to the same text. (Therefore a '%' in a value is
 * always encoded, also in `{+x}`, where RFC 6570 would keep "%20" as it is.) */
#ifndef TDG_BASE_TEMPLATE_EXPAND_H
#define TDG_BASE_TEMPLATE_EXPAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/template.h"
#include "base/text.h"

/* The name of the i-th variable, from 0; NULL behind the last. Borrowed, ends without
 * NUL. */
const char *tdg__template_name(const tdg__template_t *template_, size_t i,
                               size_t *ret_len);

/* Whether it has a variable of that name; NULL has none. */
bool tdg__template_has_name(const tdg__template_t *template_, const char *wanted);

bool tdg__template_can_expand(const tdg__template_t *template_);

/* The value of a variable and its length; NULL where there is none. Borrowed until the
 * next call. */
typedef const char *(*tdg__template_value_fn)(void *arg, const char *name,
                                              size_t name_len, size_t *ret_len);

/* Appends the URI to `out`; ask it for its error afterwards. Returns 0; TDG_ENOTSUP where
 * the template cannot be expanded; TDG_ENOTFOUND where a value is missing or empty, since
 * the template would not match the result. */
int tdg__template_expand(const tdg__template_t *template_, tdg__template_value_fn value,
                         void *arg, tdg__text_t *out);

#endif
