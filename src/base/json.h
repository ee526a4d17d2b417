/* SPDX-License-Identifier: MIT
 *
 * Untrusted JSON into jansson's values. Bytes, nesting and the number of values are
 * limited while reading, because a megabyte of `{},` takes 77 MB of memory otherwise.
 * Duplicate keys, text that is not UTF-8, and U+0000 in strings are refused as well. */
#ifndef TDG_BASE_JSON_H
#define TDG_BASE_JSON_H

#include <stddef.h>

#include <jansson.h>

#include "base/parse_error.h"

enum { TDG__JSON_MAX_DEPTH = 128 };

typedef struct tdg__json_limits {
    size_t max_bytes;
    size_t max_depth;  /* at most TDG__JSON_MAX_DEPTH; 64 is plenty */
    size_t max_values; /* strings, numbers, literals, keys, objects and arrays */
} tdg__json_limits_t;

/* Stores a new value in *ret: any JSON value. `data` needs no NUL. Returns 0, TDG_EJSON
 * (with *error where given: position and what is wrong), TDG_ETOOLARGE (bytes, depth or
 * values; *error says which), TDG_ENUMBER (a number that does not fit: whole ones have 64
 * bits) or TDG_ENOMEM. Without recursion. */
int tdg__json_parse(const char *data, size_t len, const tdg__json_limits_t *limits,
                    json_t **ret, tdg__parse_error_t *error);

/* The same, and writes down where each value and key begins, as an offset: in the order
 * of the text, which is also that of jansson's objects.
 * `places` has room for max_values. */
int tdg__json_parse_placed(const char *data, size_t len, const tdg__json_limits_t *limits,
                           size_t *places, json_t **ret, tdg__parse_error_t *error);

/* About the memory that a value takes. As deep as values are that tdg__json_parse()
 * makes; NULL takes none. */
size_t tdg__json_weigh(const json_t *value);

#endif
