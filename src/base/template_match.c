/* SPDX-License-Identifier: MIT
 *
 * Tells whether a URI is an expansion of a template, and which values it has.
 *
 * First backwards: for each step of the template, the last one first, and each position
 * in the URI, one bit says whether the rest of the template can match the rest of the
 * URI. A bit depends on bits of later steps and on bits a character further on, so each
 * takes constant time, and no template is hostile: steps times length is all the work
 * there is (and the comparing of literals, where the bit behind them is set). Then, for
 * the values, forwards: each variable takes the longest value behind which the bits say
 * that the rest still matches.
 *
 * Before that, most URIs of other templates are turned away in one pass over them, by the
 * literals that they lack.
 *
 * Nothing is allocated. The bits are on the stack, 45 KiB for the largest template and
 * URI; memory that a shorter URI does not need is not touched. */
#include "base/template.h"

#include <assert.h>
#include <string.h>

#include "base/template_internal.h"
#include "base/text.h"

enum {
    WORD_BITS = 64,
    ROW_WORDS = TDG__TEMPLATE_MAX_LEN / WORD_BITS + 1,
    ROWS = TDG__TEMPLATE_MAX_STEPS + 1, /* and one for the end */

    /* U+10FFFF as four triplets. */
    MAX_CHAR = 12,
    /* Backwards, a few values are remembered for the positions just behind; a power of
     * two above MAX_CHAR. */
    WINDOW = 16,
};

enum {
    CHAR_BYTES = 0x0f,    /* mask: how long the character is; 0 where there is none */
    CHAR_RESERVED = 0x10, /* it is a reserved one */
};

/* Between the literals at both ends of the template; positions count from there. */
struct span {
    const tdg__template_t *template_;
    const char *text;
    size_t len;
    size_t row_words;
    unsigned values_of;         /* the variable that `values` is about */
    uint64_t values[ROW_WORDS]; /* whether a value that starts here leads to a match */
    uint64_t bits[ROWS * ROW_WORDS];
    uint8_t chars[TDG__TEMPLATE_MAX_LEN + 1]; /* the one that starts at each position */
};

static uint64_t *row(struct span *s, size_t step) {
    return s->bits + step * s->row_words;
}

static void set_bit(uint64_t *bits, size_t at) {
    bits[at / WORD_BITS] |= UINT64_C(1) << (at % WORD_BITS);
}

static bool get_bit(const uint64_t *bits, size_t at) {
    return bits[at / WORD_BITS] >> (at % WORD_BITS) & 1;
}

/* Triplets that make up one UTF-8 sequence are one character. */
static uint8_t encoded_char(const char *text, size_t len) {
    char bytes[MAX_CHAR / 3];
    size_t count = 0, size;

    while (count < sizeof(bytes) && tdg__is_triplet(text + 3 * count, len - 3 * count)) {
        const char *digits = text + 3 * count + 1;

        bytes[count++] =
            (char)(tdg__hex_value(digits[0]) << 4 | tdg__hex_value(digits[1]));
    }
    size = tdg__utf8_length(bytes, count);
    if (count == 0)
        return 0;
    return (uint8_t)(size > 0 ? 3 * size : 3);
}

static bool is_reserved(unsigned char c) {
    return c == '!' || c == '#' || c == '$' || (c >= '&' && c <= ',') || c == '/' ||
           c == ':' || c == ';' || c == '=' || c == '?' || c == '@' || c == '[' ||
           c == ']';
}

static uint8_t classify(const char *text, size_t len) {
    unsigned char byte = (unsigned char)text[0];

    if (tdg__is_unreserved(byte))
        return 1;
    if (byte == '%')
        return encoded_char(text, len);
    if (byte >= 0x80) {
        size_t size = tdg__utf8_length(text, len);

        return (uint8_t)(size > 0 ? size : 1);
    }
    return is_reserved(byte) ? 1 | CHAR_RESERVED : 0;
}

/* Looks beyond the end of the span, so that a character cut by the last literal is none:
 * a value ends between characters only. */
static void classify_all(struct span *s, size_t behind) {
    for (size_t at = 0; at < s->len; at++) {
        s->chars[at] = classify(s->text + at, s->len + behind - at);
        if ((s->chars[at] & CHAR_BYTES) > s->len - at)
            s->chars[at] = 0;
    }
    s->chars[s->len] = 0;
}

/* How long the character is that a value of this step may have here, or 0. */
static size_t char_at(const struct span *s, const tdg__template_step_t *step, size_t at) {
    uint8_t c = s->chars[at];

    if ((c & CHAR_RESERVED) && !(step->flags & TDG__STEP_RESERVED))
        return 0;
    return c & CHAR_BYTES;
}

static bool byte_is(const struct span *s, size_t at, char byte) {
    return at < s->len && s->text[at] == byte;
}

static bool slice_is_at(const struct span *s, tdg__template_slice_t slice, size_t at) {
    return s->len - at >= slice.len &&
           memcmp(s->text + at, s->template_->text + slice.at, slice.len) == 0;
}

/* The first place from `at` on where the byte stands, or len. */
static size_t find_byte(const struct span *s, size_t at, char byte) {
    const char *found;

    if (byte_is(s, at, byte)) /* nothing but such bytes is the worst case */
        return at;

    found = at < s->len ? memchr(s->text + at, byte, s->len - at) : NULL;
    return found != NULL ? (size_t)(found - s->text) : s->len;
}

/* Returns whether there is any place for it. */
static bool fill_literal(struct span *s, const tdg__template_step_t *step,
                         uint64_t *own) {
    const uint64_t *then = row(s, step->then);
    char first = s->template_->text[step->slice.at];
    bool any = false;

    for (size_t at = find_byte(s, 0, first); at + step->slice.len <= s->len;
         at = find_byte(s, at + 1, first))
        if (get_bit(then, at + step->slice.len) && slice_is_at(s, step->slice, at)) {
            set_bit(own, at);
            any = true;
        }
    return any;
}

/* Where a value of one or more characters may start. */
static void find_long_values(struct span *s, const tdg__template_step_t *step) {
    const uint64_t *then = row(s, step->then);

    for (size_t at = s->len; at-- > 0;) {
        size_t size = char_at(s, step, at);

        if (size > 0 && (get_bit(then, at + size) || get_bit(s->values, at + size)))
            set_bit(s->values, at);
    }
}

/* The same where their number is limited: then the fewest that are needed decide. */
static void find_short_values(struct span *s, const tdg__template_step_t *step) {
    const uint64_t *then = row(s, step->then);
    uint16_t fewest[WINDOW] = {0}; /* characters to a bit of `then`; 0 is none in reach */

    for (size_t at = s->len; at-- > 0;) {
        size_t size = char_at(s, step, at), next = (at + size) % WINDOW;
        uint16_t count = 0;

        if (size > 0 && get_bit(then, at + size))
            count = 1;
        else if (size > 0 && fewest[next] > 0)
            count = (uint16_t)(fewest[next] + 1);
        fewest[at % WINDOW] = count;
        if (count > 0 && count <= step->max_chars)
            set_bit(s->values, at);
    }
}

/* Where a list may start. In an item stands a name or a lone value, then perhaps a '='
 * and any number of characters. */
static void find_lists(struct span *s, const tdg__template_step_t *step) {
    const uint64_t *then = row(s, step->then);
    bool in_name[WINDOW] = {0}; /* the rest fits, at least one character was read */
    bool in_value[WINDOW] = {0};

    for (size_t at = s->len + 1; at-- > 0;) {
        size_t size = char_at(s, step, at), next = (at + size) % WINDOW;
        bool ends = get_bit(then, at) ||
                    (byte_is(s, at, step->separator) && get_bit(s->values, at + 1));
        bool equals = byte_is(s, at, '=') && in_value[(at + 1) % WINDOW];

        if (size > 0 && in_name[next])
            set_bit(s->values, at);
        in_name[at % WINDOW] = (ends && !(step->flags & TDG__STEP_PAIRS)) || equals ||
                               (size > 0 && in_name[next]);
        in_value[at % WINDOW] = ends || (size > 0 && in_value[next]);
    }
}

/* Whether what the step puts before its value stands here, all of it but for the '='
 * behind a name. Moves *at behind it. */
static bool skip_lead(const struct span *s, const tdg__template_step_t *step,
                      size_t *at) {
    size_t to = *at;

    if (step->lead != 0 && !byte_is(s, to++, step->lead))
        return false;
    if (step->flags & TDG__STEP_NAMED) {
        if (!slice_is_at(s, step->slice, to))
            return false;
        to += step->slice.len;
    }
    *at = to;
    return true;
}

static bool is_present(struct span *s, const tdg__template_step_t *step, size_t at) {
    if (!skip_lead(s, step, &at))
        return false;
    if ((step->flags & TDG__STEP_BARE) && get_bit(row(s, step->then), at))
        return true;
    if ((step->flags & TDG__STEP_NAMED) && !byte_is(s, at++, '='))
        return false;
    return get_bit(s->values, at);
}

static void merge(uint64_t *into, const uint64_t *from, size_t words) {
    for (size_t i = 0; i < words; i++)
        into[i] |= from[i];
}

static void find_values(struct span *s, const tdg__template_step_t *step) {
    /* A variable has at most two steps, side by side, that differ in their lead only. */
    if (s->values_of == step->name)
        return;
    s->values_of = step->name;

    memset(s->values, 0, s->row_words * sizeof(*s->values));
    if (step->flags & TDG__STEP_LIST)
        find_lists(s, step);
    else if (step->max_chars > 0)
        find_short_values(s, step);
    else
        find_long_values(s, step);
    if (step->flags & TDG__STEP_EMPTY)
        merge(s->values, row(s, step->then), s->row_words);
}

static void fill_value(struct span *s, const tdg__template_step_t *step, uint64_t *own) {
    find_values(s, step);
    if (step->skip != TDG__TEMPLATE_NO_STEP)
        merge(own, row(s, step->skip), s->row_words);

    if (step->lead == 0)
        merge(own, s->values, s->row_words);
    else
        for (size_t at = find_byte(s, 0, step->lead); at < s->len;
             at = find_byte(s, at + 1, step->lead))
            if (is_present(s, step, at))
                set_bit(own, at);
}

/* Whether the template matches; fills the bits. */
static bool fill_bits(struct span *s) {
    const tdg__template_t *t = s->template_;

    s->row_words = s->len / WORD_BITS + 1;
    memset(s->bits, 0, (t->step_count + 1u) * s->row_words * sizeof(*s->bits));
    set_bit(row(s, t->step_count), s->len);
    s->values_of = TDG__TEMPLATE_MAX_NAMES; /* none yet */

    for (size_t i = t->step_count; i-- > 0;) {
        const tdg__template_step_t *step = &t->steps[i];

        if (!(step->flags & TDG__STEP_LITERAL))
            fill_value(s, step, row(s, i));
        else if (!fill_literal(s, step, row(s, i)))
            return false; /* no way leads around a literal */
    }
    return get_bit(row(s, 0), 0);
}

/* Whether the literals are in the span, one behind the other, with at least a byte for
 * each expression that needs one: no match is without that. Each is taken where it first
 * stands, which leaves the most for the rest. */
static bool literals_stand(const struct span *s) {
    const tdg__template_t *t = s->template_;
    size_t first = t->prefix_len > 0 ? 1 : 0, at = 0;
    size_t end = t->part_count - (t->suffix_len > 0 ? 1u : 0u);

    for (size_t i = first; i < end; i++) {
        const tdg__template_part_t *part = &t->parts[i];

        if (part->kind == TDG__PART_LITERAL) {
            const char *found =
                memmem(s->text + at, s->len - at, t->text + part->at, part->len);

            if (found == NULL)
                return false;
            at = (size_t)(found - s->text) + part->len;
        } else if (part->lead == 0 && at++ == s->len) {
            return false;
        }
    }
    return true;
}

static bool match(struct span *s, const tdg__template_t *t, const char *uri, size_t len) {
    if (len > TDG__TEMPLATE_MAX_LEN || len < (size_t)t->prefix_len + t->suffix_len ||
        memcmp(uri, t->text, t->prefix_len) != 0 ||
        memcmp(uri + len - t->suffix_len, t->text + t->len - t->suffix_len,
               t->suffix_len) != 0)
        return false;

    s->template_ = t;
    s->text = uri + t->prefix_len;
    s->len = len - t->prefix_len - t->suffix_len;
    if (!literals_stand(s))
        return false;

    classify_all(s, t->suffix_len);
    return fill_bits(s);
}

bool tdg__template_match(const tdg__template_t *template_, const char *uri, size_t len) {
    struct span s;

    return match(&s, template_, uri, len);
}

/* The longest value from `start` on; false where there is none. */
static bool take_value(struct span *s, const tdg__template_step_t *step, size_t start,
                       size_t *ret_end) {
    const uint64_t *then = row(s, step->then);
    bool found = (step->flags & TDG__STEP_EMPTY) && get_bit(then, start);
    size_t at = start, end = start, count = 0, size;

    while ((size = char_at(s, step, at)) > 0 &&
           (step->max_chars == 0 || count < step->max_chars)) {
        at += size;
        count++;
        if (get_bit(then, at)) {
            end = at;
            found = true;
        }
    }
    if (found)
        *ret_end = end;
    return found;
}

/* As take_value. Where the separator is also a character of the items, as a '.' is, the
 * reading is in several places of the grammar at once. */
static bool take_list(struct span *s, const tdg__template_step_t *step, size_t start,
                      size_t *ret_end) {
    enum { FRESH = 1, NAME = 2, VALUE = 4 };
    const unsigned complete = step->flags & TDG__STEP_PAIRS ? VALUE : NAME | VALUE;
    const uint64_t *then = row(s, step->then);
    unsigned states = FRESH;
    bool found = false;
    size_t at = start;

    while (states != 0) {
        size_t size = char_at(s, step, at);
        unsigned next = 0;

        if ((states & complete) && get_bit(then, at)) {
            *ret_end = at;
            found = true;
        }
        if (size > 0)
            next = (states & (FRESH | NAME) ? NAME : 0) | (states & VALUE);
        if ((states & complete) && byte_is(s, at, step->separator))
            next |= FRESH;
        if ((states & NAME) && byte_is(s, at, '='))
            next |= VALUE;
        at += size > 0 ? size : 1;
        states = next;
    }
    return found;
}

/* Whether the step's variable is there, at *at; then sets *value and moves *at. */
static bool take(struct span *s, const tdg__template_step_t *step, size_t *at,
                 tdg__template_value_t *value) {
    size_t start = *at, end;
    bool found;

    if (!skip_lead(s, step, &start))
        return false;

    if (!(step->flags & TDG__STEP_NAMED))
        found = step->flags & TDG__STEP_LIST ? take_list(s, step, start, &end)
                                             : take_value(s, step, start, &end);
    else
        found = byte_is(s, start, '=') && take_value(s, step, start + 1, &end);

    if (found && (step->flags & TDG__STEP_NAMED)) {
        start++;
    } else if (!found) {
        if (!(step->flags & TDG__STEP_BARE) || !get_bit(row(s, step->then), start))
            return false;
        end = start;
    }

    value->text = s->text + start;
    value->len = end - start;
    *at = end;
    return true;
}

bool tdg__template_extract(const tdg__template_t *template_, const char *uri, size_t len,
                           tdg__template_value_t *values, size_t *ret_count) {
    struct span s;
    size_t at = 0, next;

    if (!match(&s, template_, uri, len))
        return false;

    for (size_t i = 0; i < template_->name_count; i++)
        values[i] = (tdg__template_value_t){
            .name = template_->text + template_->names[i].at,
            .name_len = template_->names[i].len,
        };

    for (size_t i = 0; i < template_->step_count; i = next) {
        const tdg__template_step_t *step = &template_->steps[i];

        assert(get_bit(row(&s, i), at));
        next = step->then;
        if (step->flags & TDG__STEP_LITERAL)
            at += step->slice.len;
        else if (!take(&s, step, &at, &values[step->name]))
            next = step->skip;
    }
    *ret_count = template_->name_count;
    return true;
}
