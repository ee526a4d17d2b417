/* SPDX-License-Identifier: MIT */
#include "mcp/cursor.h"

#include <tidings/error.h>

#include "base/text.h"

enum { DECIMAL = 10, HEXADECIMAL = 16 };

/* ---- Writing ------------------------------------------------------------ */

size_t tdg__cursor_put(char *out, uint64_t epoch, uint64_t number) {
    size_t len = tdg__u64_hex(out, epoch);

    out[len++] = '-';
    return len + tdg__u64_digits(out + len, number);
}

size_t tdg__event_id_put(char *out, const tdg__event_id_t *id) {
    size_t len = 0;

    out[len++] = id->post ? 'p' : 'g';
    len += tdg__u64_digits(out + len, id->stream);
    out[len++] = '.';
    len += tdg__u64_digits(out + len, id->event);
    if (id->post)
        return len;

    out[len++] = '.';
    return len + tdg__cursor_put(out + len, id->epoch, id->number);
}

/* ---- Reading ------------------------------------------------------------ */

/* The value of a digit as we write it (hexadecimal in lower case), or `base`. */
static unsigned digit(char c, unsigned base) {
    unsigned value = base;

    if (c >= '0' && c <= '9')
        value = (unsigned)(c - '0');
    else if (c >= 'a' && c <= 'f')
        value = (unsigned)(c - 'a') + 10;
    return value < base ? value : base;
}

/* Reads a number that has no leading zeros and fits. Returns what comes after it; NULL
 * where there is no such number, or where `text` is NULL already. */
static const char *read_number(const char *text, unsigned base, uint64_t *ret) {
    uint64_t number = 0;
    const char *at;

    if (text == NULL)
        return NULL;

    for (at = text; digit(*at, base) < base; at++) {
        if (__builtin_mul_overflow(number, base, &number) ||
            __builtin_add_overflow(number, digit(*at, base), &number))
            return NULL;
    }
    if (at == text || (text[0] == '0' && at != text + 1))
        return NULL;

    *ret = number;
    return at;
}

static const char *read_mark(const char *text, char mark) {
    return text != NULL && *text == mark ? text + 1 : NULL;
}

static const char *read_cursor(const char *text, uint64_t *ret_epoch,
                               uint64_t *ret_number) {
    text = read_number(text, HEXADECIMAL, ret_epoch);
    text = read_mark(text, '-');
    return read_number(text, DECIMAL, ret_number);
}

int tdg__cursor_read(const char *text, uint64_t *ret_epoch, uint64_t *ret_number) {
    uint64_t epoch, number;

    text = read_cursor(text, &epoch, &number);
    if (text == NULL || *text != '\0')
        return TDG_EINVAL;

    *ret_epoch = epoch;
    *ret_number = number;
    return 0;
}

int tdg__event_id_read(const char *text, tdg__event_id_t *ret) {
    tdg__event_id_t id = {0};

    if (text == NULL || (*text != 'p' && *text != 'g'))
        return TDG_EINVAL;

    id.post = *text == 'p';
    text = read_number(text + 1, DECIMAL, &id.stream);
    text = read_mark(text, '.');
    text = read_number(text, DECIMAL, &id.event);
    if (!id.post) {
        text = read_mark(text, '.');
        text = read_cursor(text, &id.epoch, &id.number);
    }
    if (text == NULL || *text != '\0')
        return TDG_EINVAL;

    *ret = id;
    return 0;
}
