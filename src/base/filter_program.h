/* SPDX-License-Identifier: MIT
 *
 * What filter_check.c sizes, filter_parse.c writes and filter_match.c runs: a filter as a
 * flat list of tests. Each test looks at one field and says where to go next, so `all`,
 * `any` and `not` are gone once a filter is parsed and matching is a loop without
 * recursion. Everything lies in one block of memory that nobody writes to after parsing.
 */
#ifndef TDG_BASE_FILTER_PROGRAM_H
#define TDG_BASE_FILTER_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/filter.h"
#include "base/text.h"

/* A JSON value that the filter was given. */
typedef struct tdg__filter_value {
    json_type type;
    size_t len; /* bytes of a string, elements of an array, members of an object */
    union {
        json_int_t integer;
        double real;
        const char *bytes;
        const struct tdg__filter_value *items; /* of an object: key, value, key, value… */
    } as;
} tdg__filter_value_t;

/* A JSON value that the filter looks at. Not a json_t, because `uri` and `age_ms` are
 * none and must not be allocated to become one. */
typedef struct tdg__filter_subject {
    json_type type;
    size_t len; /* bytes of a string */
    union {
        json_int_t integer;
        double real;
        const char *bytes;
        const json_t *json; /* an array or an object */
    } as;
} tdg__filter_subject_t;

typedef bool (*tdg__filter_test_fn)(const tdg__filter_value_t *operand,
                                    const tdg__filter_subject_t *subject);

typedef struct tdg__filter_operator {
    const char *name;
    tdg__filter_test_fn test; /* called only when the field is there */
    unsigned accepts;         /* types of the operand: bits 1 << json_type */
    const char *expected;     /* the same for people */
    const char *(*check)(const json_t *operand); /* more to ask of an operand of the right
                                                    type: NULL or what is wrong */
    bool asks_presence; /* an operand of false passes when the field is missing */
} tdg__filter_operator_t;

/* NULL where there is no such operator. */
const tdg__filter_operator_t *tdg__filter_operator_find(const char *name, size_t len);

typedef struct tdg__filter_name {
    const char *bytes;
    size_t len;
} tdg__filter_name_t;

typedef enum tdg__filter_source {
    TDG__FILTER_URI,
    TDG__FILTER_AGE,
    TDG__FILTER_METADATA,
} tdg__filter_source_t;

typedef struct tdg__filter_field {
    tdg__filter_source_t source;
    size_t count; /* names below metadata, outermost first */
    const tdg__filter_name_t *names;
} tdg__filter_field_t;

/* Where to go next. Steps only ever lead to smaller numbers, so a program ends. */
enum {
    TDG__FILTER_FAIL,
    TDG__FILTER_PASS,
    TDG__FILTER_FIRST_STEP, /* the number of steps[0] */
};

typedef struct tdg__filter_step {
    tdg__filter_test_fn test;
    const tdg__filter_field_t
        *field; /* one per condition: equal pointers, equal fields */
    tdg__filter_value_t operand;
    uint32_t pass;
    uint32_t fail;
    bool if_missing; /* the outcome where the field is missing */
} tdg__filter_step_t;

/* How much room a program needs. */
typedef struct tdg__filter_counts {
    size_t steps;
    size_t fields;
    size_t names;
    size_t values; /* inside operands */
    size_t bytes;  /* of strings and names */
} tdg__filter_counts_t;

/* Checks all of the JSON against the rules of filter.h and counts. Returns 0,
 * TDG_EFILTER, TDG_EFILTERSIZE or TDG_EFILTERDEPTH with *error filled. Within the limits
 * may still mean a text that is too long: escapes are not counted. */
int tdg__filter_check(const json_t *json, const tdg__filter_limits_t *limits,
                      tdg__filter_counts_t *ret, tdg__parse_error_t *error);

/* Fills *error and returns TDG_EFILTERSIZE. */
int tdg__filter_refuse_size(const tdg__filter_limits_t *limits,
                            tdg__parse_error_t *error);

bool tdg__filter_is_name(const char *name, size_t len, const char *literal);

/* What follows "metadata." in the name of a field, or NULL. Walk it with
 * tdg__filter_next_name: takes the name up to the next dot or the end, and moves *names
 * behind the dot, or sets it to NULL after the last one. */
const char *tdg__filter_names(const char *field, size_t len);
tdg__filter_name_t tdg__filter_next_name(const char **names, const char *end);

/* jansson iterates over objects by a pointer to non-const, though it only reads. */
static inline json_t *tdg__filter_iterable(const json_t *json) {
    return (json_t *)(uintptr_t)json;
}

struct tdg__filter {
    tdg__buf_t *text;
    size_t size; /* of this block */
    uint32_t entry;
    tdg__filter_step_t steps[]; /* then fields, names, values and bytes */
};

#endif
