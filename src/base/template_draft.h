/* SPDX-License-Identifier: MIT
 *
 * A template between its text and its steps: template_read.c fills a draft from the text,
 * template.c makes the template from it. No other file includes this. */
#ifndef TDG_BASE_TEMPLATE_DRAFT_H
#define TDG_BASE_TEMPLATE_DRAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/template_internal.h"

/* What an operator does. */
enum {
    TDG__OP_OPTIONAL = 1 << 0, /* may expand to nothing */
    TDG__OP_RESERVED = 1 << 1, /* lets reserved characters through */
    TDG__OP_NAMED = 1 << 2,    /* writes name=value */
    TDG__OP_BARE = 1 << 3,     /* writes only the name of an empty value */
    TDG__OP_EMPTY = 1 << 4,    /* a value may be empty */
};

typedef struct tdg__template_op {
    char symbol;    /* behind the '{'; 0 is no operator */
    char lead;      /* before the first value; 0 is nothing */
    char separator; /* before each further one */
    unsigned flags;
} tdg__template_op_t;

typedef struct tdg__template_variable {
    tdg__template_slice_t name;
    uint16_t max_chars;
    bool exploded;
} tdg__template_variable_t;

typedef struct tdg__template_piece {
    size_t at;
    size_t len;
    const tdg__template_op_t *op; /* NULL for a literal */
    size_t first;                 /* of its variables */
    size_t count;
} tdg__template_piece_t;

typedef struct tdg__template_draft {
    const char *text;
    size_t len;
    size_t at; /* the next byte to read */
    size_t piece_count;
    size_t variable_count;
    size_t step_count;
    tdg__template_piece_t pieces[TDG__TEMPLATE_MAX_PARTS];
    tdg__template_variable_t variables[TDG__TEMPLATE_MAX_NAMES];
    tdg__template_step_t steps[TDG__TEMPLATE_MAX_STEPS];
    tdg__parse_error_t *error;
} tdg__template_draft_t;

/* Fills pieces and variables from d->text. The cursor and all counts must be 0. Returns
 * 0, TDG_ETEMPLATE or TDG_EAMBIGUOUS. */
int tdg__template_read(tdg__template_draft_t *d);

#endif
