/* SPDX-License-Identifier: MIT
 *
 * The parts of a parsed template: shared by template.c (which builds it),
 * template_match.c (which runs it) and template_index.c (which indexes it). No other file
 * includes this. */
#ifndef TDG_BASE_TEMPLATE_INTERNAL_H
#define TDG_BASE_TEMPLATE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/template.h"
#include "base/text.h"

enum {
    /* A name needs up to two steps, and there are no two literals without an expression,
     * that is a name, between them. */
    TDG__TEMPLATE_MAX_STEPS = 2 * TDG__TEMPLATE_MAX_NAMES + 1,
    TDG__TEMPLATE_NO_STEP = UINT16_MAX,
};

/* The coarse view, for the index. */
typedef enum tdg__template_part_kind {
    TDG__PART_LITERAL,
    TDG__PART_WORD, /* one or more of tdg__is_word_byte */
    TDG__PART_ANY,  /* any bytes, the first of them `lead` unless that is 0; or nothing */
} tdg__template_part_kind_t;

typedef struct tdg__template_part {
    uint16_t at; /* slice of the text */
    uint16_t len;
    uint8_t kind;
    char lead;
} tdg__template_part_t;

typedef struct tdg__template_slice {
    uint16_t at;
    uint16_t len;
} tdg__template_slice_t;

enum {
    TDG__STEP_LITERAL = 1 << 0,  /* the bytes of `slice`, nothing else */
    TDG__STEP_NAMED = 1 << 1,    /* the name in `slice` and '=' stand before the value */
    TDG__STEP_BARE = 1 << 2,     /* the name may stand alone, for an empty value */
    TDG__STEP_RESERVED = 1 << 3, /* reserved characters are part of the value */
    TDG__STEP_EMPTY = 1 << 4,    /* the value may be empty */
    TDG__STEP_LIST = 1 << 5,     /* exploded: items with `separator` between them */
    TDG__STEP_PAIRS = 1 << 6,    /* each item of the list has a '=' */
};

/* The exact view, for matching. A step is a literal, or one way for one variable to be
 * written. Steps refer only to later ones; behind the last comes the end of the URI. */
typedef struct tdg__template_step {
    tdg__template_slice_t slice; /* the literal, or the variable's name */
    uint16_t then;               /* the step behind this one */
    uint16_t skip;               /* where to go on without this one; or NO_STEP */
    uint16_t max_chars;          /* in the value; 0 is no limit */
    uint8_t flags;
    uint8_t name;   /* index of the variable */
    char lead;      /* stands before all else; 0 is nothing */
    char separator; /* between the items of a list */
} tdg__template_step_t;

struct tdg__template {
    const char *text;
    const tdg__template_part_t *parts;
    const tdg__template_step_t *steps; /* without the literals at both ends */
    const tdg__template_slice_t *names;
    uint16_t len;
    uint16_t literal_len;
    uint16_t prefix_len; /* the literal at the start of the text */
    uint16_t suffix_len; /* the literal at its end */
    uint8_t part_count;
    uint8_t step_count;
    uint8_t name_count;
};

static inline bool tdg__is_alnum(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Whether a character begins here that is percent-encoded. */
static inline bool tdg__is_triplet(const char *text, size_t len) {
    return len >= 3 && text[0] == '%' && tdg__hex_value(text[1]) >= 0 &&
           tdg__hex_value(text[2]) >= 0;
}

static inline bool tdg__is_unreserved(unsigned char c) {
    return tdg__is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

/* What a simple expression can expand to, a list or pairs included. */
static inline bool tdg__is_word_byte(unsigned char c) {
    return tdg__is_unreserved(c) || c == '%' || c == ',' || c == '=' || c >= 0x80;
}

#endif
