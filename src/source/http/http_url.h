/* SPDX-License-Identifier: MIT
 *
 * The URL of an http source. It may contain variables of the source's URI template, as
 * {id}. A value that a client chose is percent-encoded, and can change neither scheme nor
 * host nor the structure of the path: variables are allowed after the host only, and a
 * value that would make an empty segment, "." or ".." matches nothing (also after an
 * encoded slash, which many servers decode). */
#ifndef TDG_SOURCE_HTTP_URL_H
#define TDG_SOURCE_HTTP_URL_H

#include <stdbool.h>

#include "base/parse_error.h"
#include "base/template.h"
#include "base/text.h"

enum { TDG__HTTP_URL_MAX = 8192 }; /* bytes, with the values put in */

/* Whether a URL of the config can be used: http or https, a host, no user name, no
 * fragment, no dot segments, and only variables that `template_` has (NULL: none).
 * Returns 0, TDG_EINVAL with *error filled, or TDG_ENOMEM. */
int tdg__http_url_check(const char *url, const tdg__template_t *template_,
                        tdg__parse_error_t *error);

/* The decoded value of a variable; NULL where there is none. */
typedef const char *(*tdg__http_url_value_fn)(void *arg, const char *name);

/* Appends a checked URL with its values to `out`. Returns 0; TDG_ENOTFOUND where the
 * values make no URL as above; TDG_ETOOLARGE or TDG_ENOMEM. */
int tdg__http_url_expand(const char *url, tdg__http_url_value_fn value, void *arg,
                         tdg__text_t *out);

#endif
