/* SPDX-License-Identifier: MIT
 *
 * Text that grows, up to a limit given at the start. Failure is sticky: append at will,
 * then ask once. */
#ifndef TDG_BASE_TEXT_H
#define TDG_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

typedef struct tdg__text {
    char *data; /* ends in NUL once something was appended; NULL before */
    size_t len;
    size_t room;
    size_t max;
    int error; /* 0, TDG_ENOMEM or TDG_ETOOLARGE */
} tdg__text_t;

void tdg__text_init(tdg__text_t *text, size_t max_bytes);
void tdg__text_done(tdg__text_t *text);  /* frees; init again to use it again */
void tdg__text_clear(tdg__text_t *text); /* empty, and no error; keeps its memory */

void tdg__text_add(tdg__text_t *text, const void *data, size_t len);
void tdg__text_put(tdg__text_t *text, const char *string);
void tdg__text_put_u64(tdg__text_t *text, uint64_t number);

/* As printf. Not for what runs for every delivery: it formats twice. */
void tdg__text_format(tdg__text_t *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A string (UTF-8) with quotes and escapes; a value in compact form, without line breaks.
 * A value that is NULL counts as one that there was no memory for. */
void tdg__text_put_quoted(tdg__text_t *text, const char *string, size_t len);
void tdg__text_put_json(tdg__text_t *text, const json_t *value);

/* Writes one byte as it stands inside a JSON string, escaped or as it is, without NUL.
 * Returns how many bytes that are. */
enum { TDG__JSON_ESCAPE_MAX = 6 };
size_t tdg__json_escape(char *out, char byte);

/* Copies bytes and a NUL behind them to *at, which moves on, in memory that has room for
 * them. Returns the copy. */
const char *tdg__text_pack(char **at, const char *data, size_t len);

/* Strict: nothing overlong, no surrogates, nothing beyond U+10FFFF. How many bytes the
 * character has that begins here; 0: there is none. */
bool tdg__utf8_is_valid(const char *data, size_t len);
size_t tdg__utf8_length(const char *text, size_t left);

/* Whether a byte belongs to the character of the byte before it. */
static inline bool tdg__utf8_goes_on(char byte) {
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Where to cut a text, at `at` or before it, so that no character is cut in two. Looks at
 * text[at], too. */
size_t tdg__utf8_cut(const char *text, size_t at);

/* The value of a hexadecimal digit, of either case; -1: it is none. */
int tdg__hex_value(char digit);

/* Writes decimal (at most 20) or hexadecimal digits (at most 16, without padding) and no
 * NUL. Returns how many. */
enum { TDG__U64_DIGITS = 20, TDG__U64_HEX = 16 };
size_t tdg__u64_digits(char *out, uint64_t number);
size_t tdg__u64_hex(char *out, uint64_t number);

#endif
