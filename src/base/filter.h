/* SPDX-License-Identifier: MIT
 *
 * Filters as data, so that a client may send one:
 *
 *     {"metadata.size": {"gt": 10000},
 *      "metadata.change_type": {"in": ["content_update", "deleted"]}}
 *
 * A filter is an object; all of its members must hold. A member is a condition on a field
 * (`uri`, `age_ms`, `metadata.NAME`, `metadata.NAME.NAME`…) or one of
 * `all: [filter…]`, `any: [filter…]`, `not: filter`. A condition is an object of
 * operators that must all hold:
 *
 *     eq ne        any JSON value; numbers compare by value and exactly, so 1 equals
 *                  1.0, but 9007199254740993 does not equal 9007199254740992.0
 *     gt gte lt lte  a number with numbers, a string with strings (bytewise)
 *     in nin       an array of at least one value
 *     exists       true or false; a field that is null exists
 *     contains     a string in a string field, or a value in an array field
 *     glob         a pattern for string fields: * any run, also of slashes, ? one
 *                  character (of UTF-8), \ takes the next character as it is. Between
 *                  two stars, what holds a ? or \ takes at most
 *                  TDG__FILTER_PIECE_BYTES; before the first and after the last star,
 *                  and where there is neither ? nor \, any length will do
 *
 * A missing field or a wrong type does not match, whatever the operator; `exists: false`
 * alone asks for absence. For `eq ne in nin` there is no wrong type: values of different
 * types are different, so `ne` and `nin` pass on them, but need the field to be there.
 * `not` is plain negation, so it passes where its filter fails for a missing field.
 *
 * A dot in a field's name always goes one object deeper: keys of metadata that hold a dot
 * themselves cannot be addressed, nor can an empty key or the elements of an array. A
 * json_t has no key twice, so a caller that loads a filter from text refuses duplicates
 * there (JSON_REJECT_DUPLICATES).
 *
 * The empty filter passes everything; an empty condition, `all`, `any`, `in` or `nin` is
 * an error. Parsing checks everything once; evaluation neither allocates nor fails. It
 * reads a string field once per operator, also for `contains` and `glob`: a pattern costs
 * in proportion to its length plus that of the text, not to their product. (In a URI that
 * is not UTF-8, what follows the last star may be compared again for each character with
 * more bytes than it should have.) */
#ifndef TDG_BASE_FILTER_H
#define TDG_BASE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/parse_error.h"

typedef struct tdg__filter tdg__filter_t; /* immutable once parsed */

enum {
    TDG__FILTER_MAX_BYTES = 1 << 20, /* whatever the limits allow */
    TDG__FILTER_MAX_DEPTH = 64,      /* whatever the limits allow */
    TDG__FILTER_VALUE_DEPTH = 16,    /* arrays and objects inside each other in an
                                        operand, the list of `in` included;
                                        TDG_EFILTERDEPTH */
    TDG__FILTER_PIECE_BYTES = 32,    /* of a pattern between two stars, escapes included,
                                        where it holds a ? or \; TDG_EFILTER */
};

typedef struct tdg__filter_limits {
    size_t max_bytes; /* of the canonical text; over it TDG_EFILTERSIZE */
    size_t max_depth; /* of nested all/any/not, 1 for a plain filter; TDG_EFILTERDEPTH */
} tdg__filter_limits_t;

/* Stores a new filter in *ret. `json` is borrowed and copied as far as needed; it may be
 * any value (NULL included) of any size, depth or sharing, with strings of UTF-8 (jansson
 * makes no others unless told not to check). Returns 0, TDG_EFILTER, TDG_EFILTERSIZE,
 * TDG_EFILTERDEPTH or TDG_ENOMEM; error->text is one line of UTF-8 that names the
 * offending part by its path, such as `any[1]["metadata.size"].gt: expected a number or a
 * string`. `error` may be NULL. */
int tdg__filter_parse(const json_t *json, const tdg__filter_limits_t *limits,
                      tdg__filter_t **ret, tdg__parse_error_t *error);
void tdg__filter_destroy(tdg__filter_t *filter); /* NULL is accepted */

/* A text that equal filters share (keys sorted, compact): what to compare or hash by.
 * Filters that only mean the same, such as by 1 and 1.0, have texts of their own.
 * Borrowed. */
const tdg__buf_t *tdg__filter_text(const tdg__filter_t *filter);

/* The memory that it takes: a few times its text. */
size_t tdg__filter_bytes(const tdg__filter_t *filter);

/* What three fields of the metadata are where the application gave none. */
typedef struct tdg__filter_known {
    int64_t updated_at;
    uint64_t version;
    const char *change_type;
    bool deleted; /* then this is the change_type, whatever the application gave */
} tdg__filter_known_t;

/* What a filter looks at. */
typedef struct tdg__filter_input {
    const char *uri; /* any bytes, not NULL */
    size_t uri_len;
    const json_t *metadata; /* an object, or NULL */
    int64_t wall_ms;        /* now; age_ms is this minus metadata.updated_at: negative
                               for a time ahead, missing where that is not a number */
    const tdg__filter_known_t *known; /* NULL: nothing is filled in */
} tdg__filter_input_t;

/* Whether the filter passes. Any number of threads may ask one filter at once. */
bool tdg__filter_match(const tdg__filter_t *filter, const tdg__filter_input_t *input);

#endif
