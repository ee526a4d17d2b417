/* SPDX-License-Identifier: MIT
 *
 * The grammar of RFC 6570, and what is refused beyond it (template.c lists it, with
 * reasons). Syntax comes first: a template that is both malformed and ambiguous is
 * malformed. */
#include "base/template_draft.h"

#include <string.h>

#include <tidings/error.h>

static const tdg__template_op_t operators[] = {
    {0, 0, ',', 0},
    {'+', 0, ',', TDG__OP_RESERVED},
    {'#', '#', ',', TDG__OP_OPTIONAL | TDG__OP_RESERVED | TDG__OP_EMPTY},
    {'.', '.', '.', TDG__OP_OPTIONAL},
    {'/', '/', '/', TDG__OP_OPTIONAL},
    {';', ';', ';', TDG__OP_OPTIONAL | TDG__OP_NAMED | TDG__OP_BARE | TDG__OP_EMPTY},
    {'?', '?', '&', TDG__OP_OPTIONAL | TDG__OP_NAMED | TDG__OP_EMPTY},
    {'&', '&', '&', TDG__OP_OPTIONAL | TDG__OP_NAMED | TDG__OP_EMPTY},
};

/* The byte at the cursor; 0 at the end, which no rule of the grammar takes. */
static char peek(const tdg__template_draft_t *d) {
    return d->at < d->len ? d->text[d->at] : '\0';
}

#define FAIL(d, code, at, ...) tdg__parse_fail((d)->error, code, at, __VA_ARGS__)

static int fail_byte(const tdg__template_draft_t *d, const char *where) {
    unsigned char byte = (unsigned char)peek(d);

    if (d->at == d->len)
        return FAIL(d, TDG_ETEMPLATE, d->at, "the template ends within %s", where);
    if (byte > ' ' && byte < 0x7f)
        return FAIL(d, TDG_ETEMPLATE, d->at, "'%c' is not allowed in %s", byte, where);
    return FAIL(d, TDG_ETEMPLATE, d->at, "byte 0x%02x is not allowed in %s", byte, where);
}

/* How many bytes the literal character at the cursor has, 0 where it is none. */
static size_t literal_char(const tdg__template_draft_t *d) {
    const char *text = d->text + d->at;
    unsigned char byte = (unsigned char)text[0];
    size_t size;

    if (byte == '%')
        return tdg__is_triplet(text, d->len - d->at) ? 3 : 0;
    if (byte >= 0x80) {
        size = tdg__utf8_length(text, d->len - d->at);
        if (size == 2 && byte == 0xc2 && (unsigned char)text[1] < 0xa0)
            return 0; /* a C1 control */
        return size;
    }
    return byte > ' ' && byte < 0x7f && strchr("\"'<>\\^`{|}", byte) == NULL;
}

static int read_literal(tdg__template_draft_t *d, tdg__template_piece_t *piece) {
    while (d->at < d->len && d->text[d->at] != '{') {
        size_t size = literal_char(d);

        if (size == 0 && d->text[d->at] == '}')
            return FAIL(d, TDG_ETEMPLATE, d->at, "this '}' has no matching '{'");
        if (size == 0 && d->text[d->at] == '%')
            return FAIL(d, TDG_ETEMPLATE, d->at, "two hex digits must follow a '%%'");
        if (size == 0)
            return fail_byte(d, "a template; percent-encode it");
        d->at += size;
    }
    piece->len = d->at - piece->at;
    return 0;
}

static int read_operator(tdg__template_draft_t *d, tdg__template_piece_t *piece) {
    char symbol = peek(d);

    piece->op = &operators[0];
    for (size_t i = 1; i < sizeof(operators) / sizeof(operators[0]); i++)
        if (symbol == operators[i].symbol) {
            piece->op = &operators[i];
            d->at++;
            return 0;
        }

    if (symbol != '\0' && strchr("=,!@|", symbol) != NULL)
        return FAIL(d, TDG_ETEMPLATE, d->at, "the operator '%c' is reserved by RFC 6570",
                    symbol);
    return 0;
}

/* Letters, digits, '_' and triplets, with single dots between them. */
static int read_name(tdg__template_draft_t *d, tdg__template_slice_t *ret) {
    size_t start = d->at, part = d->at;

    for (;;) {
        char c = peek(d);

        if (tdg__is_alnum((unsigned char)c) || c == '_')
            d->at++;
        else if (tdg__is_triplet(d->text + d->at, d->len - d->at))
            d->at += 3;
        else if (c == '.' && d->at > part)
            part = ++d->at;
        else
            break;
    }

    if (d->at == part)
        return fail_byte(d, "a variable's name");
    *ret = (tdg__template_slice_t){(uint16_t)start, (uint16_t)(d->at - start)};
    return 0;
}

static int read_prefix(tdg__template_draft_t *d, tdg__template_variable_t *variable) {
    size_t start = d->at;
    unsigned value = 0;

    while (peek(d) >= '0' && peek(d) <= '9' && d->at - start < 4)
        value = value * 10 + (unsigned)(d->text[d->at++] - '0');

    if (d->at == start || d->text[start] == '0')
        return FAIL(d, TDG_ETEMPLATE, start,
                    "a prefix length is a number from 1 to 9999");
    variable->max_chars = (uint16_t)value;
    return 0;
}

static int read_variable(tdg__template_draft_t *d) {
    tdg__template_variable_t *variable = &d->variables[d->variable_count];
    int rv;

    if (d->variable_count == TDG__TEMPLATE_MAX_NAMES)
        return FAIL(d, TDG_ETEMPLATE, d->at, "more than %d variables",
                    TDG__TEMPLATE_MAX_NAMES);

    *variable = (tdg__template_variable_t){0};
    rv = read_name(d, &variable->name);
    if (rv < 0)
        return rv;

    if (peek(d) == '*') {
        variable->exploded = true;
        d->at++;
    } else if (peek(d) == ':') {
        d->at++;
        rv = read_prefix(d, variable);
        if (rv < 0)
            return rv;
    }
    d->variable_count++;
    return 0;
}

static int read_expression(tdg__template_draft_t *d, tdg__template_piece_t *piece) {
    int rv;

    d->at++; /* the '{' */
    rv = read_operator(d, piece);
    if (rv < 0)
        return rv;

    piece->first = d->variable_count;
    for (;;) {
        rv = read_variable(d);
        if (rv < 0)
            return rv;
        if (peek(d) != ',')
            break;
        d->at++;
    }

    if (peek(d) != '}')
        return fail_byte(d, "an expression");
    d->at++;
    piece->count = d->variable_count - piece->first;
    piece->len = d->at - piece->at;
    return 0;
}

static int read_pieces(tdg__template_draft_t *d) {
    while (d->at < d->len) {
        tdg__template_piece_t *piece = &d->pieces[d->piece_count];
        int rv;

        if (d->piece_count == TDG__TEMPLATE_MAX_PARTS)
            return FAIL(d, TDG_ETEMPLATE, d->at, "more than %d literals and expressions",
                        TDG__TEMPLATE_MAX_PARTS);

        *piece = (tdg__template_piece_t){.at = d->at};
        rv = d->text[d->at] == '{' ? read_expression(d, piece) : read_literal(d, piece);
        if (rv < 0)
            return rv;
        d->piece_count++;
    }

    if (d->variable_count == 0)
        return FAIL(d, TDG_ETEMPLATE, 0, "no expression in it: this is a plain URI");
    return 0;
}

static int check_names_differ(const tdg__template_draft_t *d) {
    for (size_t i = 1; i < d->variable_count; i++)
        for (size_t j = 0; j < i; j++) {
            tdg__template_slice_t a = d->variables[i].name, b = d->variables[j].name;

            if (a.len == b.len && memcmp(d->text + a.at, d->text + b.at, a.len) == 0)
                return FAIL(d, TDG_EAMBIGUOUS, a.at,
                            "the variable '%.*s' appears twice; each name can be used "
                            "once",
                            (int)a.len, d->text + a.at);
        }
    return 0;
}

static int check_piece(const tdg__template_draft_t *d,
                       const tdg__template_piece_t *piece) {
    if (piece > d->pieces && piece[-1].op != NULL && piece->op->lead == 0)
        return FAIL(d, TDG_EAMBIGUOUS, piece->at,
                    "the end of the preceding expression is ambiguous; put a "
                    "literal between them");
    if (piece->count > 1 && (piece->op->flags & TDG__OP_RESERVED))
        return FAIL(d, TDG_EAMBIGUOUS, piece->at,
                    "with '%c' a comma is part of the value, so only one variable can "
                    "stand here",
                    piece->op->symbol);

    for (size_t i = piece->first; i < piece->first + piece->count; i++)
        if (piece->count > 1 && d->variables[i].exploded)
            return FAIL(
                d, TDG_EAMBIGUOUS, d->variables[i].name.at,
                "a variable with '*' takes all values, so it must be the only one "
                "of its expression");
    return 0;
}

/* Only templates without a syntax error come here: "malformed" is the better message. */
static int check_ambiguity(const tdg__template_draft_t *d) {
    for (size_t i = 0; i < d->piece_count; i++)
        if (d->pieces[i].op != NULL) {
            int rv = check_piece(d, &d->pieces[i]);

            if (rv < 0)
                return rv;
        }
    return check_names_differ(d);
}

int tdg__template_read(tdg__template_draft_t *d) {
    int rv;

    if (d->len > TDG__TEMPLATE_MAX_LEN)
        return FAIL(d, TDG_ETEMPLATE, TDG__TEMPLATE_MAX_LEN,
                    "a template has at most %d bytes", TDG__TEMPLATE_MAX_LEN);

    rv = read_pieces(d);
    if (rv < 0)
        return rv;
    return check_ambiguity(d);
}
