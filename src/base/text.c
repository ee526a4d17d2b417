/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { FIRST_ROOM = 64, DUMP_FLAGS = JSON_COMPACT | JSON_ENCODE_ANY };

void tdg__text_init(tdg__text_t *text, size_t max_bytes) {
    *text = (tdg__text_t){.max = max_bytes};
}

void tdg__text_done(tdg__text_t *text) {
    tdg__free(text->data);
    *text = (tdg__text_t){.max = text->max};
}

void tdg__text_clear(tdg__text_t *text) {
    text->len = 0;
    text->error = 0;
    if (text->data != NULL)
        text->data[0] = '\0';
}

/* Makes room for `extra` bytes and a NUL. Returns NULL where that fails, now or before;
 * otherwise where they go. */
static char *reserve(tdg__text_t *text, size_t extra) {
    size_t need, room;
    char *data;

    if (text->error < 0)
        return NULL;
    if (extra > text->max - text->len || text->len + extra == SIZE_MAX) {
        text->error = TDG_ETOOLARGE;
        return NULL;
    }

    need = text->len + extra + 1;
    if (need > text->room) {
        room = text->room < FIRST_ROOM ? FIRST_ROOM : text->room;
        while (room < need)
            room = room > SIZE_MAX / 2 ? need : room * 2;

        data = tdg__realloc(text->data, room);
        if (data == NULL) {
            text->error = TDG_ENOMEM;
            return NULL;
        }
        text->data = data;
        text->room = room;
    }
    return text->data + text->len;
}

static void advance(tdg__text_t *text, size_t by) {
    text->len += by;
    text->data[text->len] = '\0';
}

void tdg__text_add(tdg__text_t *text, const void *data, size_t len) {
    char *end = reserve(text, len);

    if (end == NULL)
        return;

    if (len > 0)
        memcpy(end, data, len);
    advance(text, len);
}

void tdg__text_put(tdg__text_t *text, const char *string) {
    tdg__text_add(text, string, strlen(string));
}

void tdg__text_put_u64(tdg__text_t *text, uint64_t number) {
    char digits[TDG__U64_DIGITS];

    tdg__text_add(text, digits, tdg__u64_digits(digits, number));
}

void tdg__text_format(tdg__text_t *text, const char *format, ...) {
    va_list args, again;
    char *end = NULL;
    int len;

    va_start(args, format);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, args);
    if (len >= 0)
        end = reserve(text, (size_t)len);
    if (end != NULL) {
        vsnprintf(end, (size_t)len + 1, format, again);
        advance(text, (size_t)len);
    }
    va_end(again);
    va_end(args);
}

size_t tdg__json_escape(char *out, char byte) {
    static const char hex[] = "0123456789abcdef";
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found;

    if ((unsigned char)byte >= 0x20 && byte != '"' && byte != '\\') {
        out[0] = byte;
        return 1;
    }

    out[0] = '\\';
    found = byte != '\0' ? strchr(plain, byte) : NULL;
    if (found != NULL) {
        out[1] = letters[found - plain];
        return 2;
    }

    memcpy(out + 1, "u00", 3);
    out[4] = hex[(unsigned char)byte >> 4];
    out[5] = hex[byte & 0xf];
    return 6;
}

void tdg__text_put_quoted(tdg__text_t *text, const char *string, size_t len) {
    char escaped[TDG__JSON_ESCAPE_MAX];
    size_t start = 0, size;

    tdg__text_add(text, "\"", 1);
    for (size_t i = 0; i < len && text->error == 0; i++) {
        size = tdg__json_escape(escaped, string[i]);
        if (size == 1)
            continue;

        tdg__text_add(text, string + start, i - start);
        tdg__text_add(text, escaped, size);
        start = i + 1;
    }
    tdg__text_add(text, string + start, len - start);
    tdg__text_add(text, "\"", 1);
}

static int add_dumped(const char *data, size_t len, void *user) {
    tdg__text_t *text = user;

    tdg__text_add(text, data, len);
    return text->error < 0 ? -1 : 0;
}

void tdg__text_put_json(tdg__text_t *text, const json_t *value) {
    if (text->error < 0)
        return;

    /* Beside the limit, jansson fails for lack of memory only: values have no cycles
     * here. */
    if ((value == NULL || json_dump_callback(value, add_dumped, text, DUMP_FLAGS) < 0) &&
        text->error == 0)
        text->error = TDG_ENOMEM;
}

const char *tdg__text_pack(char **at, const char *data, size_t len) {
    char *copied = *at;

    memcpy(copied, data, len);
    copied[len] = '\0';
    *at += len + 1;
    return copied;
}

size_t tdg__utf8_length(const char *text, size_t left) {
    const unsigned char *at = (const unsigned char *)text;
    static const struct {
        unsigned char first_from, first_to, second_from, second_to, len;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
        {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };

    if (left == 0 || at[0] < 0x80)
        return left > 0;

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (at[0] < forms[i].first_from || at[0] > forms[i].first_to)
            continue;
        if (left < forms[i].len || at[1] < forms[i].second_from ||
            at[1] > forms[i].second_to)
            return 0;
        for (size_t k = 2; k < forms[i].len; k++)
            if (!tdg__utf8_goes_on(text[k]))
                return 0;
        return forms[i].len;
    }
    return 0;
}

bool tdg__utf8_is_valid(const char *data, size_t len) {
    size_t at = 0, size;

    while (at < len) {
        size = tdg__utf8_length(data + at, len - at);
        if (size == 0)
            return false;
        at += size;
    }
    return true;
}

size_t tdg__utf8_cut(const char *text, size_t at) {
    while (at > 0 && tdg__utf8_goes_on(text[at]))
        at--;
    return at;
}

size_t tdg__u64_digits(char *out, uint64_t number) {
    char digits[TDG__U64_DIGITS];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);

    memcpy(out, digits + at, sizeof(digits) - at);
    return sizeof(digits) - at;
}

size_t tdg__u64_hex(char *out, uint64_t number) {
    static const char hex[] = "0123456789abcdef";
    size_t len = 1;

    for (uint64_t rest = number >> 4; rest > 0; rest >>= 4)
        len++;
    for (size_t i = len; i > 0; i--) {
        out[i - 1] = hex[number & 0xf];
        number >>= 4;
    }
    return len;
}

int tdg__hex_value(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)(digit | 0x20);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}
