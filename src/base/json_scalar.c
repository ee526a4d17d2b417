/* SPDX-License-Identifier: MIT */
#include "base/json_scalar.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/text.h"

static int fail(const tdg__json_input_t *in, int code, const char *text) {
    return tdg__parse_fail(in->error, code, in->at, "%s", text);
}

static int out_of_memory(const tdg__json_input_t *in) {
    return fail(in, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
}

/* The next byte, or NUL at the end; a NUL in the input is as unwelcome as the end. */
static char peek(const tdg__json_input_t *in) {
    return in->at < in->len ? in->data[in->at] : '\0';
}

void tdg__json_skip_blanks(tdg__json_input_t *in) {
    for (; in->at < in->len; in->at++) {
        char c = in->data[in->at];

        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            return;
    }
}

/* ---- Strings ------------------------------------------------------------ */

void tdg__json_string_done(tdg__json_string_t *string) {
    tdg__free(string->own);
    *string = (tdg__json_string_t){0};
}

/* Four hexadecimal digits; -1: they are none. */
static int32_t read_hex(tdg__json_input_t *in) {
    int32_t number = 0;

    for (int i = 0; i < 4; i++, in->at++) {
        int digit = tdg__hex_value(peek(in));

        if (digit < 0)
            return -1;
        number = number << 4 | digit;
    }
    return number;
}

static size_t put_utf8(char *out, int32_t code) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* Undoes one \u escape, or two that make one character, from behind the u on. Writes at
 * most as many bytes as it reads. */
static int read_unicode(tdg__json_input_t *in, char *out, size_t *len) {
    int32_t code = read_hex(in), low;

    if (code < 0)
        return fail(in, TDG_EJSON, "expected four hexadecimal digits");
    if (code == 0)
        return fail(in, TDG_EJSON, "U+0000 is not allowed");
    if (code >= 0xdc00 && code <= 0xdfff)
        return fail(in, TDG_EJSON, "half a surrogate pair");

    if (code >= 0xd800 && code <= 0xdbff) {
        if (in->len - in->at < 2 || memcmp(in->data + in->at, "\\u", 2) != 0)
            return fail(in, TDG_EJSON, "half a surrogate pair");
        in->at += 2;
        low = read_hex(in);
        if (low < 0xdc00 || low > 0xdfff)
            return fail(in, TDG_EJSON, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *len += put_utf8(out + *len, code);
    return 0;
}

/* Undoes one escape, from behind the backslash on. */
static int read_escape(tdg__json_input_t *in, char *out, size_t *len) {
    static const char letters[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    char c = peek(in);
    const char *found = c != '\0' ? strchr(letters, c) : NULL;

    if (found == NULL && c != 'u')
        return fail(in, TDG_EJSON, "unknown escape");

    in->at++;
    if (c == 'u')
        return read_unicode(in, out, len);
    out[(*len)++] = plain[found - letters];
    return 0;
}

/* Finds the closing quote of a string from behind the opening one on. */
static int find_end(tdg__json_input_t *in, bool *ret_escaped, size_t *ret_end) {
    const unsigned char *data = (const unsigned char *)in->data;
    size_t start = in->at, at = start;
    unsigned char all = 0; /* every bit that is set somewhere */

    *ret_escaped = false;
    for (; at < in->len && data[at] != '"'; at++) {
        in->at = at;
        if (data[at] < 0x20)
            return fail(in, TDG_EJSON, "control character in a string");
        if (data[at] == '\\') {
            *ret_escaped = true;
            in->at = ++at; /* what follows is no closing quote, whatever it is */
            if (at == in->len || data[at] < 0x20)
                return fail(in, TDG_EJSON, "unknown escape");
        }
        all |= data[at];
    }
    in->at = at;
    if (at == in->len)
        return fail(in, TDG_EJSON, "the string has no end");

    *ret_end = at;
    in->at = start;
    if (all >= 0x80 && !tdg__utf8_is_valid(in->data + start, at - start))
        return fail(in, TDG_EJSON, "the string is not UTF-8");
    return 0;
}

static int undo_escapes(tdg__json_input_t *in, size_t end, tdg__json_string_t *ret) {
    char *own = tdg__malloc(end - in->at + 1);
    size_t len = 0;
    int rv;

    if (own == NULL)
        return out_of_memory(in);

    while (in->at < end) {
        if (in->data[in->at] != '\\') {
            own[len++] = in->data[in->at++];
            continue;
        }
        in->at++;
        rv = read_escape(in, own, &len);
        if (rv < 0) {
            tdg__free(own);
            return rv;
        }
    }
    *ret = (tdg__json_string_t){.text = own, .len = len, .own = own};
    return 0;
}

int tdg__json_string(tdg__json_input_t *in, tdg__json_string_t *ret) {
    bool escaped = false;
    size_t end = 0;
    int rv;

    in->at++;
    rv = find_end(in, &escaped, &end);
    if (rv < 0)
        return rv;

    if (escaped) {
        rv = undo_escapes(in, end, ret);
        if (rv < 0)
            return rv;
    } else {
        *ret = (tdg__json_string_t){.text = in->data + in->at, .len = end - in->at};
    }
    in->at = end + 1;
    return 0;
}

/* ---- Numbers ------------------------------------------------------------ */

static size_t skip_digits(tdg__json_input_t *in) {
    size_t start = in->at;

    while (peek(in) >= '0' && peek(in) <= '9')
        in->at++;
    return in->at - start;
}

/* Steps over a number and says whether it is a whole one, that is without fraction and
 * exponent. */
static int scan_number(tdg__json_input_t *in, bool *ret_whole) {
    *ret_whole = true;
    if (peek(in) == '-')
        in->at++;

    if (peek(in) == '0')
        in->at++; /* and no digit behind it */
    else if (skip_digits(in) == 0)
        return fail(in, TDG_EJSON, "expected a digit");

    if (peek(in) == '.') {
        *ret_whole = false;
        in->at++;
        if (skip_digits(in) == 0)
            return fail(in, TDG_EJSON, "expected a digit");
    }
    if (peek(in) == 'e' || peek(in) == 'E') {
        *ret_whole = false;
        in->at++;
        if (peek(in) == '+' || peek(in) == '-')
            in->at++;
        if (skip_digits(in) == 0)
            return fail(in, TDG_EJSON, "expected a digit");
    }
    return 0;
}

/* So many characters always fit into 64 bits. */
enum { SURE_DIGITS = 18 };

/* False where it does not fit. Counts downwards, since there is one more negative one. */
static bool to_integer(const char *text, size_t len, json_int_t *ret) {
    bool negative = text[0] == '-';
    int64_t number = 0;

    for (size_t i = negative; i < len; i++) {
        int digit = text[i] - '0';

        if (i >= SURE_DIGITS && number < (INT64_MIN + digit) / 10)
            return false;
        number = number * 10 - digit;
    }
    if (!negative && number == INT64_MIN)
        return false;
    *ret = negative ? number : -number;
    return true;
}

/* Other locales of the embedder write 1,5. */
static locale_t plain_locale;

static void make_locale(void) {
    plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static int to_real(const tdg__json_input_t *in, const char *text, size_t len,
                   double *ret) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char room[64], *copy = room;

    pthread_once(&once, make_locale);
    if (plain_locale == (locale_t)0)
        return out_of_memory(in);

    if (len >= sizeof(room))
        copy = tdg__malloc(len + 1);
    if (copy == NULL)
        return out_of_memory(in);
    memcpy(copy, text, len);
    copy[len] = '\0';
    *ret = strtod_l(copy, NULL, plain_locale);
    if (copy != room)
        tdg__free(copy);
    return isinf(*ret) ? fail(in, TDG_ENUMBER, "the number is too large") : 0;
}

static int read_number(tdg__json_input_t *in, json_t **ret) {
    size_t start = in->at;
    json_int_t integer = 0;
    double real = 0;
    bool whole;
    int rv;

    rv = scan_number(in, &whole);
    if (rv < 0)
        return rv;

    if (whole) {
        if (!to_integer(in->data + start, in->at - start, &integer))
            return fail(in, TDG_ENUMBER, "a whole number exceeds 64 bits");
        *ret = json_integer(integer);
    } else {
        rv = to_real(in, in->data + start, in->at - start, &real);
        if (rv < 0)
            return rv;
        *ret = json_real(real);
    }
    return *ret != NULL ? 0 : out_of_memory(in);
}

/* ---- Scalars ------------------------------------------------------------ */

static int read_string(tdg__json_input_t *in, json_t **ret) {
    tdg__json_string_t string = {0};
    int rv;

    rv = tdg__json_string(in, &string);
    if (rv < 0)
        return rv;

    *ret = json_stringn_nocheck(string.text, string.len);
    tdg__json_string_done(&string);
    return *ret != NULL ? 0 : out_of_memory(in);
}

static bool take_word(tdg__json_input_t *in, const char *word) {
    size_t len = strlen(word);

    if (in->len - in->at < len || memcmp(in->data + in->at, word, len) != 0)
        return false;
    in->at += len;
    return true;
}

int tdg__json_scalar(tdg__json_input_t *in, json_t **ret) {
    char c = peek(in);

    if (c == '"')
        return read_string(in, ret);
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(in, ret);

    if (take_word(in, "true"))
        *ret = json_true();
    else if (take_word(in, "false"))
        *ret = json_false();
    else if (take_word(in, "null"))
        *ret = json_null();
    else
        return fail(in, TDG_EJSON, "expected a value");
    return 0;
}
