/* SPDX-License-Identifier: MIT
 *
 * In four steps: the texts become lines; equal lines get equal numbers, so that lines are
 * compared by number; the search marks removed and added lines; runs of marked lines are
 * written with three lines of context. */
#include "watch/diff.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "terminal.h"

enum {
    CONTEXT = 3,
    MAX_EDITS = 2048,    /* lines that went and came; the memory grows with its square */
    MAX_LINES = 1 << 20, /* of a text; and of what differs in both, for a search */
    MAX_WORK = 30 << 20, /* comparisons */
    NOWHERE = -1,        /* a diagonal that no path within the texts reaches */
};

typedef struct line {
    const char *text;
    size_t len;      /* with its line end, which the last one may lack */
    uint32_t number; /* the same for equal lines */
    bool marked;     /* it is only on this side */
} line_t;

typedef struct lines {
    line_t *list;
    size_t count;
} lines_t;

/* ---- Lines -------------------------------------------------------------- */

static int split(const diff_side_t *side, lines_t *lines) {
    const char *at = side->len > 0 ? side->text : "", *end = at + side->len;
    size_t count = 0;

    for (const char *c = at; c < end; c++)
        count += *c == '\n';
    if (side->len > 0 && end[-1] != '\n')
        count++;
    if (count > MAX_LINES) /* a line takes far more memory than an empty one's text */
        return TDG_ETOOLARGE;
    lines->count = count;
    lines->list = tdg__calloc(count > 0 ? count : 1, sizeof(*lines->list));
    if (lines->list == NULL)
        return TDG_ENOMEM;

    for (size_t i = 0; i < count; i++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        stop = stop != NULL ? stop + 1 : end;
        lines->list[i].text = at;
        lines->list[i].len = (size_t)(stop - at);
        at = stop;
    }
    return 0;
}

static bool same_text(const line_t *one, const line_t *other) {
    return one->len == other->len && memcmp(one->text, other->text, one->len) == 0;
}

/* Gives a line the number of the first one that equals it. */
static void number_line(line_t *line, const tdg__hash_key_t *key, line_t **slots,
                        size_t mask, uint32_t *next) {
    size_t i = (size_t)tdg__hash(key, line->text, line->len) & mask;

    while (slots[i] != NULL && !same_text(slots[i], line))
        i = (i + 1) & mask;
    if (slots[i] == NULL) {
        slots[i] = line;
        line->number = (*next)++;
    } else {
        line->number = slots[i]->number;
    }
}

static int number_lines(lines_t *a, lines_t *b) {
    size_t total = a->count + b->count, mask = 15;
    tdg__hash_key_t key;
    uint32_t next = 0;
    line_t **slots;

    while (mask < 2 * total)
        mask = mask * 2 + 1;
    slots = tdg__calloc(mask + 1, sizeof(line_t *));
    if (slots == NULL)
        return TDG_ENOMEM;
    if (tdg__random(&key, sizeof(key)) < 0)
        key = (tdg__hash_key_t){1, 2}; /* slower against chosen lines, not wrong */

    for (size_t i = 0; i < a->count; i++)
        number_line(&a->list[i], &key, slots, mask, &next);
    for (size_t i = 0; i < b->count; i++)
        number_line(&b->list[i], &key, slots, mask, &next);
    tdg__free(slots);
    return 0;
}

/* ---- The search --------------------------------------------------------- */

/* The part of the texts between what they have in common at their start and end. Going
 * right drops a line of `a`, going down takes one of `b`, and equal lines are a diagonal
 * step. Row d of `trace` has, for each diagonal (right less down) that d edits reach, how
 * far right the best path comes. */
typedef struct search {
    const line_t *a, *b;
    int32_t width, height; /* lines of a and b */
    int32_t *trace;
    size_t room, work;
} search_t;

static int32_t *row_at(const search_t *search, int32_t d) {
    return search->trace + (size_t)d * ((size_t)d + 1) / 2;
}

/* How far right a path of d edits starts on a diagonal, before its equal lines; *ret_down
 * is whether its last edit took a line of `b`. */
static int32_t start_of(const search_t *search, int32_t d, int32_t diagonal,
                        bool *ret_down) {
    const int32_t *row = row_at(search, d - 1);
    int32_t i = (diagonal + d) / 2; /* of this diagonal's lower neighbour, plus one */
    int32_t right = NOWHERE, down = NOWHERE;

    if (i > 0 && row[i - 1] != NOWHERE && row[i - 1] < search->width)
        right = row[i - 1] + 1;
    if (i < d && row[i] != NOWHERE && row[i] - diagonal <= search->height)
        down = row[i];
    *ret_down = down >= right;
    return *ret_down ? down : right;
}

static int32_t follow_equal(search_t *search, int32_t x, int32_t diagonal) {
    int32_t y = x - diagonal;

    while (x < search->width && y < search->height &&
           search->a[x].number == search->b[y].number) {
        x++;
        y++;
        search->work++;
    }
    return x;
}

static int make_room(search_t *search, int32_t d) {
    size_t needed = ((size_t)d + 1) * ((size_t)d + 2) / 2;

    if (needed <= search->room)
        return 0;
    size_t room = 2 * needed + 64;
    int32_t *trace = tdg__reallocarray(search->trace, room, sizeof(*trace));
    if (trace == NULL)
        return TDG_ENOMEM;
    search->trace = trace;
    search->room = room;
    return 0;
}

/* Finds the fewest edits. Stores their number; TDG_ETOOLARGE: more than we look for. */
static int find_edits(search_t *search, int32_t *ret) {
    int32_t goal = search->width - search->height;

    for (int32_t d = 0; d <= MAX_EDITS && search->work < MAX_WORK; d++) {
        if (make_room(search, d) < 0)
            return TDG_ENOMEM;
        for (int32_t diagonal = -d; diagonal <= d; diagonal += 2) {
            bool down;
            int32_t x = d == 0 ? 0 : start_of(search, d, diagonal, &down);

            if (x != NOWHERE)
                x = follow_equal(search, x, diagonal);
            row_at(search, d)[(diagonal + d) / 2] = x;
            search->work++;
            if (diagonal == goal && x == search->width) {
                *ret = d;
                return 0;
            }
        }
    }
    return TDG_ETOOLARGE;
}

/* Walks the path back and marks the lines of its edits. */
static void mark_edits(const search_t *search, line_t *a, line_t *b, int32_t d) {
    int32_t diagonal = search->width - search->height;

    for (; d > 0; d--) {
        bool down;
        int32_t x = start_of(search, d, diagonal, &down);

        if (down) {
            b[x - diagonal - 1].marked = true;
            diagonal++;
        } else {
            a[x - 1].marked = true;
            diagonal--;
        }
    }
}

static int mark_differences(lines_t *a, lines_t *b) {
    size_t first = 0, a_end = a->count, b_end = b->count;

    while (first < a_end && first < b_end && same_text(&a->list[first], &b->list[first]))
        first++;
    while (a_end > first && b_end > first &&
           same_text(&a->list[a_end - 1], &b->list[b_end - 1])) {
        a_end--;
        b_end--;
    }

    int rv = TDG_ETOOLARGE;
    if (a_end - first + b_end - first <= MAX_LINES) {
        search_t search = {.a = a->list + first,
                           .b = b->list + first,
                           .width = (int32_t)(a_end - first),
                           .height = (int32_t)(b_end - first)};
        int32_t edits;

        rv = number_lines(a, b);
        if (rv == 0)
            rv = find_edits(&search, &edits);
        if (rv == 0)
            mark_edits(&search, a->list + first, b->list + first, edits);
        tdg__free(search.trace);
    }
    if (rv == TDG_ETOOLARGE) {
        for (size_t i = first; i < a_end; i++)
            a->list[i].marked = true;
        for (size_t i = first; i < b_end; i++)
            b->list[i].marked = true;
        rv = 0;
    }
    return rv;
}

/* ---- Writing ------------------------------------------------------------ */

static void put_line(tdg__text_t *out, char sign, const line_t *line) {
    tdg__text_add(out, &sign, 1);
    tdg__text_add(out, line->text, line->len);
    if (line->text[line->len - 1] != '\n')
        tdg__text_put(out, "\n\\ No newline at end of file\n");
}

/* "12,3"; one line has no count, and no lines are those after the line named. */
static void put_range(tdg__text_t *out, char sign, size_t start, size_t count) {
    char text[64];

    if (count == 1)
        snprintf(text, sizeof(text), "%c%zu", sign, start + 1);
    else
        snprintf(text, sizeof(text), "%c%zu,%zu", sign, count == 0 ? start : start + 1,
                 count);
    tdg__text_put(out, text);
}

/* A place in both texts. */
typedef struct place {
    size_t a, b;
} place_t;

static bool is_edit(const lines_t *a, const lines_t *b, place_t at) {
    return (at.a < a->count && a->list[at.a].marked) ||
           (at.b < b->count && b->list[at.b].marked);
}

static place_t skip_edit(const lines_t *a, const lines_t *b, place_t at) {
    while (at.a < a->count && a->list[at.a].marked)
        at.a++;
    while (at.b < b->count && b->list[at.b].marked)
        at.b++;
    return at;
}

/* Where the hunk ends whose first edit is at `at`: after the last edit that is so near to
 * the one before it that their contexts touch, and the context behind it. */
static place_t end_of_hunk(const lines_t *a, const lines_t *b, place_t at) {
    for (;;) {
        size_t equal = 0;

        at = skip_edit(a, b, at);
        place_t next = at;
        while (next.a < a->count && !is_edit(a, b, next) && equal < 2 * CONTEXT + 1) {
            next.a++;
            next.b++;
            equal++;
        }
        if (equal <= 2 * CONTEXT && is_edit(a, b, next)) {
            at = next;
            continue;
        }
        equal = equal < CONTEXT ? equal : CONTEXT;
        return (place_t){at.a + equal, at.b + equal};
    }
}

static void put_hunk(const lines_t *a, const lines_t *b, place_t at, place_t end,
                     tdg__text_t *out) {
    tdg__text_put(out, "@@ ");
    put_range(out, '-', at.a, end.a - at.a);
    tdg__text_put(out, " ");
    put_range(out, '+', at.b, end.b - at.b);
    tdg__text_put(out, " @@\n");

    while (at.a < end.a || at.b < end.b) {
        if (!is_edit(a, b, at)) {
            put_line(out, ' ', &a->list[at.a++]);
            at.b++;
            continue;
        }
        while (at.a < a->count && a->list[at.a].marked)
            put_line(out, '-', &a->list[at.a++]);
        while (at.b < b->count && b->list[at.b].marked)
            put_line(out, '+', &b->list[at.b++]);
    }
}

static void put_hunks(const lines_t *a, const lines_t *b, tdg__text_t *out) {
    place_t at = {0, 0};
    size_t equal = 0; /* lines before `at` that are not in a hunk */

    while (at.a < a->count || at.b < b->count) {
        if (!is_edit(a, b, at)) {
            at.a++;
            at.b++;
            equal++;
            continue;
        }
        size_t before = equal < CONTEXT ? equal : CONTEXT;
        place_t end = end_of_hunk(a, b, at);

        put_hunk(a, b, (place_t){at.a - before, at.b - before}, end, out);
        at = end;
        equal = 0;
    }
}

static void put_name(tdg__text_t *out, const char *sign, const char *name) {
    tdg__text_put(out, sign);
    cli_put_plain(out, name, strlen(name), false);
    tdg__text_put(out, "\n");
}

int diff_unified(const diff_side_t *before, const diff_side_t *after, tdg__text_t *out) {
    lines_t a = {0}, b = {0};
    int rv;

    if (before->len == after->len &&
        (before->len == 0 || memcmp(before->text, after->text, before->len) == 0))
        return 0;

    rv = split(before, &a);
    if (rv == 0)
        rv = split(after, &b);
    if (rv == 0)
        rv = mark_differences(&a, &b);
    if (rv == 0) {
        put_name(out, "--- ", before->name);
        put_name(out, "+++ ", after->name);
        put_hunks(&a, &b, out);
    }
    tdg__free(a.list);
    tdg__free(b.list);
    return rv;
}
