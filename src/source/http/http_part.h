/* SPDX-License-Identifier: MIT
 *
 * One part of a JSON document, as content of its own. */
#ifndef TDG_SOURCE_HTTP_PART_H
#define TDG_SOURCE_HTTP_PART_H

#include <stddef.h>

#include "base/parse_error.h"
#include "base/text.h"

enum { TDG__HTTP_PART_VALUES = 500000 }; /* that a document may have */

/* Appends the part that a checked JSON Pointer names: without blanks, members in the
 * order of their names, numbers as short as they can be. So the same values have the same
 * checksum, however a server happens to write them. Returns 0; TDG_ENOTFOUND: there is no
 * such part; TDG_EJSON, TDG_ENUMBER or TDG_ETOOLARGE with *error filled; TDG_ENOMEM. May
 * take long; for any thread. */
int tdg__http_part(const char *data, size_t len, const char *pointer, tdg__text_t *out,
                   tdg__parse_error_t *error);

#endif
