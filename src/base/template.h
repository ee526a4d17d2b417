/* SPDX-License-Identifier: MIT
 *
 * URI templates (RFC 6570) in reverse: they do not generate URIs, but match them. */
#ifndef TDG_BASE_TEMPLATE_H
#define TDG_BASE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/parse_error.h"

typedef struct tdg__template tdg__template_t; /* immutable once parsed */

/* Matching costs variables times length of the URI, and a client may have many templates
 * that one change is compared with. So the limit is not what could be built but what
 * people write: more than a handful of variables is rare. */
enum {
    TDG__TEMPLATE_MAX_NAMES = 16, /* variables in one template */
    TDG__TEMPLATE_MAX_PARTS = 33, /* literals and expressions in one template: 16 with one
                                     variable each, and literals around them */
    TDG__TEMPLATE_MAX_LEN = 8192, /* bytes: longer templates are refused, and longer URIs
                                     match none */
};

/* Stores a new template in *ret. A template without any expression is TDG_ETEMPLATE: it
 * is a plain URI. Returns 0, TDG_ETEMPLATE (malformed), TDG_EAMBIGUOUS (well-formed but
 * matching is not well defined) or TDG_ENOMEM; *error says where and why. */
int tdg__template_parse(const char *text, size_t len, tdg__template_t **ret,
                        tdg__parse_error_t *error);
void tdg__template_destroy(tdg__template_t *template_); /* NULL is accepted */

/* The text as it was given. Borrowed. */
const char *tdg__template_text(const tdg__template_t *template_, size_t *ret_len);

/* How many bytes are literal: of two templates that match, the larger is the more
 * specific one. */
size_t tdg__template_literal_len(const tdg__template_t *template_);

/* Writes a template that was spelled with %7B and %7D, as some URI libraries do, with
 * braces; `out` has room for `len` bytes and gets no NUL. Returns its length: `len` where
 * there was nothing to do. */
size_t tdg__template_unescape(const char *text, size_t len, char *out);

/* Whether some values of the variables expand to exactly this URI. */
bool tdg__template_match(const tdg__template_t *template_, const char *uri, size_t len);

/* What a variable stands for in a URI: a slice of it, not decoded. Borrowed from both. */
typedef struct tdg__template_value {
    const char *name;
    size_t name_len;
    const char *text; /* NULL where the variable is absent, as an optional one may be */
    size_t len;
} tdg__template_value_t;

/* As tdg__template_match, and on success fills `values` (room for
 * TDG__TEMPLATE_MAX_NAMES) in the order of the template, and *ret_count. Where a URI can
 * be cut in several ways, earlier variables take as much as they can. */
bool tdg__template_extract(const tdg__template_t *template_, const char *uri, size_t len,
                           tdg__template_value_t *values, size_t *ret_count);

#endif
