/* SPDX-License-Identifier: MIT
 *
 * URI templates: from text (template_read.c) to steps, which
 * template_match.c runs.
 *
 * What an expression stands for in a URI:
 *
 *   {x}      one or more characters: unreserved ones, percent-encoded ones, and any byte
 *            of 0x80 and above, since a URI is taken as the string it is
 *   {+x}     the same with reserved characters too
 *   {#x}     '#', then any number of such characters; or nothing at all
 *   {.x}     '.' and one or more characters as in {x}; or nothing. A '.' is unreserved,
 * so the value may contain some
 *   {/x}     '/' and one or more characters as in {x}; or nothing
 *   {;x}     ';x' or ';x=' and any number of characters as in {x}; or nothing
 *   {?x}     '?x=' and any number of characters as in {x}; or nothing
 *   {&x}     '&x=' likewise
 *   {x,y}    values in the order of the template with ',' between them (or what the
 *            operator puts there: {/x,y} is /1/2, {?x,y} is ?x=1&y=2). Any may be absent,
 *            as undefined variables are; but of {x,y} at least one is there
 *   {x:3}    at most three characters. A percent-encoded character counts as one, also
 *            where UTF-8 makes several triplets of it
 *   {x*}     a comma list; {/x*} one or more segments, {.x*} labels, {;x*} {?x*} {&x*}
 *            pairs of any names. An item may be name=value, as for an associative array;
 *            behind '?' and '&' it must be. The value is all of it: "a/b" for /a/b
 *
 * A variable is a string unless it is exploded: {x} does not match the "1,2" that a list
 * would give, and an empty string matches only where the table says "any number". Where a
 * URI can be cut in several ways, earlier variables take as much as they can: of
 * {.x,y} and ".a.b", x takes "a.b"; of {+x}{?y}, x takes the query too.
 *
 * Refused because no cut would be better than another: two expressions side by side where
 * the second starts with no character of its own ({a}{b}); {+x,y} and {#x,y}, since a
 * comma is part of the value; {x*,y}; the same variable twice. */
#include "base/template.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/template_draft.h"
#include "base/template_internal.h"

static void add_step(tdg__template_draft_t *d, const tdg__template_step_t *step) {
    assert(d->step_count < TDG__TEMPLATE_MAX_STEPS);
    d->steps[d->step_count++] = *step;
}

static void add_literal(tdg__template_draft_t *d, const tdg__template_piece_t *piece) {
    tdg__template_step_t step = {
        .slice = {(uint16_t)piece->at, (uint16_t)piece->len},
        .then = (uint16_t)(d->step_count + 1),
        .skip = TDG__TEMPLATE_NO_STEP,
        .flags = TDG__STEP_LITERAL,
    };

    add_step(d, &step);
}

/* All of a step but where it leads. */
static tdg__template_step_t value_step(const tdg__template_draft_t *d,
                                       const tdg__template_piece_t *piece, size_t index) {
    const tdg__template_variable_t *variable = &d->variables[index];
    unsigned from = piece->op->flags;
    tdg__template_step_t step = {
        .slice = variable->name,
        .max_chars = variable->max_chars,
        .name = (uint8_t)index,
        .separator = piece->op->separator,
    };

    /* An exploded list of reserved characters is no different from one long value. */
    if (variable->exploded && !(from & TDG__OP_RESERVED)) {
        step.flags = TDG__STEP_LIST;
        if ((from & TDG__OP_NAMED) && !(from & TDG__OP_BARE))
            step.flags |= TDG__STEP_PAIRS;
        return step;
    }

    if (from & TDG__OP_NAMED)
        step.flags |= TDG__STEP_NAMED;
    if (from & TDG__OP_BARE)
        step.flags |= TDG__STEP_BARE;
    if (from & TDG__OP_RESERVED)
        step.flags |= TDG__STEP_RESERVED;
    if (from & TDG__OP_EMPTY)
        step.flags |= TDG__STEP_EMPTY;
    return step;
}

/* The first value that is present has another lead than the rest ({?x,y}: '?', then '&';
 * {x,y}: nothing, then ','), and any may be the first. So each variable but the first
 * has two steps: one as the first, then one as a further value. */
static void add_list(tdg__template_draft_t *d, const tdg__template_piece_t *piece) {
    size_t end = d->step_count + 2 * piece->count - 1;

    for (size_t i = 0; i < piece->count; i++) {
        bool last = i + 1 == piece->count;
        tdg__template_step_t step = value_step(d, piece, piece->first + i);
        size_t as_first = i == 0 ? d->step_count + 1 : d->step_count + 2;
        size_t as_further = as_first + 1;

        step.lead = piece->op->lead;
        step.then = (uint16_t)(last ? end : as_further);
        step.skip = (uint16_t)(last ? end : as_first);
        if (last && !(piece->op->flags & TDG__OP_OPTIONAL))
            step.skip = TDG__TEMPLATE_NO_STEP;
        add_step(d, &step);

        if (i > 0) {
            step.lead = piece->op->separator;
            step.skip = step.then;
            add_step(d, &step);
        }
    }
}

/* Every value has the same lead, so each variable is there or not by itself. */
static void add_row(tdg__template_draft_t *d, const tdg__template_piece_t *piece) {
    for (size_t i = 0; i < piece->count; i++) {
        tdg__template_step_t step = value_step(d, piece, piece->first + i);

        step.lead = piece->op->lead;
        step.then = step.skip = (uint16_t)(d->step_count + 1);
        add_step(d, &step);
    }
}

/* The literals at both ends are compared directly and get no step. */
static void make_steps(tdg__template_draft_t *d) {
    for (size_t i = 0; i < d->piece_count; i++) {
        const tdg__template_piece_t *piece = &d->pieces[i];

        if (piece->op != NULL && piece->op->lead == piece->op->separator)
            add_row(d, piece);
        else if (piece->op != NULL)
            add_list(d, piece);
        else if (i > 0 && i + 1 < d->piece_count)
            add_literal(d, piece);
    }
}

static tdg__template_part_t coarse_part(const tdg__template_piece_t *piece) {
    tdg__template_part_t part = {
        .at = (uint16_t)piece->at,
        .len = (uint16_t)piece->len,
        .kind = TDG__PART_LITERAL,
    };

    if (piece->op != NULL) {
        part.kind = piece->op->symbol == 0 ? TDG__PART_WORD : TDG__PART_ANY;
        part.lead = piece->op->lead;
    }
    return part;
}

/* One block: the template, its arrays in the order of their alignment, its text. */
static tdg__template_t *allocate(const tdg__template_draft_t *d) {
    tdg__template_step_t *steps;
    tdg__template_part_t *parts;
    tdg__template_slice_t *names;
    tdg__template_t *t;
    char *text;

    t = tdg__calloc(1, sizeof(*t) + d->step_count * sizeof(*steps) +
                           d->piece_count * sizeof(*parts) +
                           d->variable_count * sizeof(*names) + d->len + 1);
    if (t == NULL)
        return NULL;

    steps = (tdg__template_step_t *)(t + 1);
    parts = (tdg__template_part_t *)(steps + d->step_count);
    names = (tdg__template_slice_t *)(parts + d->piece_count);
    text = (char *)(names + d->variable_count);

    memcpy(steps, d->steps, d->step_count * sizeof(*steps));
    for (size_t i = 0; i < d->piece_count; i++)
        parts[i] = coarse_part(&d->pieces[i]);
    for (size_t i = 0; i < d->variable_count; i++)
        names[i] = d->variables[i].name;
    memcpy(text, d->text, d->len);

    t->steps = steps;
    t->parts = parts;
    t->names = names;
    t->text = text;
    return t;
}

static tdg__template_t *build(const tdg__template_draft_t *d) {
    const tdg__template_part_t *last;
    tdg__template_t *t;

    t = allocate(d);
    if (t == NULL)
        return NULL;

    t->len = (uint16_t)d->len;
    t->step_count = (uint8_t)d->step_count;
    t->part_count = (uint8_t)d->piece_count;
    t->name_count = (uint8_t)d->variable_count;
    for (size_t i = 0; i < d->piece_count; i++)
        if (t->parts[i].kind == TDG__PART_LITERAL)
            t->literal_len += t->parts[i].len;

    last = &t->parts[t->part_count - 1];
    if (t->parts[0].kind == TDG__PART_LITERAL)
        t->prefix_len = t->parts[0].len;
    if (last->kind == TDG__PART_LITERAL)
        t->suffix_len = last->len;
    return t;
}

int tdg__template_parse(const char *text, size_t len, tdg__template_t **ret,
                        tdg__parse_error_t *error) {
    tdg__template_draft_t d; /* 2 KiB, of which only what the counts cover is ever read */
    tdg__template_t *t;
    int rv;

    d.text = text;
    d.len = len;
    d.at = d.piece_count = d.variable_count = d.step_count = 0;
    d.error = error;

    rv = tdg__template_read(&d);
    if (rv < 0)
        return rv;

    make_steps(&d);
    t = build(&d);
    if (t == NULL)
        return tdg__parse_fail(error, TDG_ENOMEM, 0, "out of memory");
    *ret = t;
    return 0;
}

void tdg__template_destroy(tdg__template_t *template_) {
    tdg__free(template_);
}

const char *tdg__template_text(const tdg__template_t *template_, size_t *ret_len) {
    *ret_len = template_->len;
    return template_->text;
}

static bool is_escaped_brace(const char *at, size_t left) {
    return left >= 3 && at[0] == '%' && at[1] == '7' &&
           ((at[2] | 0x20) == 'b' || (at[2] | 0x20) == 'd');
}

size_t tdg__template_unescape(const char *text, size_t len, char *out) {
    size_t out_len = 0;

    for (size_t i = 0; i < len; out_len++) {
        bool brace = is_escaped_brace(text + i, len - i);

        out[out_len] = !brace ? text[i] : (text[i + 2] | 0x20) == 'b' ? '{' : '}';
        i += brace ? 3 : 1;
    }
    return out_len;
}

size_t tdg__template_literal_len(const tdg__template_t *template_) {
    return template_->literal_len;
}
