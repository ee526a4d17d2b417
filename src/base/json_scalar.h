/* SPDX-License-Identifier: MIT
 *
 * The parts of JSON without structure: strings, numbers, literals. For json.c. */
#ifndef TDG_BASE_JSON_SCALAR_H
#define TDG_BASE_JSON_SCALAR_H

#include <stddef.h>

#include <jansson.h>

#include "base/parse_error.h"

typedef struct tdg__json_input {
    const char *data;
    size_t len;
    size_t at; /* what comes next; after an error, where it is */
    tdg__parse_error_t *error;
} tdg__json_input_t;

/* The text of a string: borrowed from the input, or its own where escapes were undone. */
typedef struct tdg__json_string {
    const char *text;
    size_t len;
    char *own;
} tdg__json_string_t;

void tdg__json_string_done(tdg__json_string_t *string);

void tdg__json_skip_blanks(tdg__json_input_t *in);

/* Reads the string whose opening quote comes next. Returns 0, TDG_EJSON or TDG_ENOMEM. */
int tdg__json_string(tdg__json_input_t *in, tdg__json_string_t *ret);

/* Reads the value that comes next, which is no container, into a new one. Returns 0,
 * TDG_EJSON, TDG_ENUMBER or TDG_ENOMEM. */
int tdg__json_scalar(tdg__json_input_t *in, json_t **ret);

#endif
