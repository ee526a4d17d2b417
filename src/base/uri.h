/* SPDX-License-Identifier: MIT
 *
 * URIs by RFC 3986, on uriparser. The engine takes a URI as the string it is; the
 * protocol refuses malformed ones with this module. */
#ifndef TDG_BASE_URI_H
#define TDG_BASE_URI_H

#include <stddef.h>

#include "base/parse_error.h"

/* Whether the bytes are an absolute URI: a scheme, only characters RFC 3986 allows, every
 * '%' followed by two hex digits. A NUL inside is an error like any other bad byte.
 * Returns 0, TDG_EURI (with *error filled where not NULL) or TDG_ENOMEM. */
int tdg__uri_check(const char *uri, size_t len, tdg__parse_error_t *error);

/* Writes a piece of a URI with its percent-encodings undone; `out` has room for `len`
 * bytes and gets no NUL. A '%' without two hex digits stays as it is. What comes out may
 * be any bytes, NUL among them. Returns its length. */
size_t tdg__uri_decode(const char *text, size_t len, char *out);

#endif
