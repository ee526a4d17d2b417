/* SPDX-License-Identifier: MIT
 *
 * The content of a resource as bytes, from the `contents` of a resources/read. Several
 * parts are joined in order. */
#ifndef TDG_CLI_BODY_H
#define TDG_CLI_BODY_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

typedef struct body {
    const char *data; /* ends in NUL, which `len` does not count */
    size_t len;
    bool is_text;          /* every part is text (and valid UTF-8) */
    const char *mime_type; /* of the first part; "" where it does not say */
    char *owned;           /* NULL: `data` is borrowed from the JSON */
} body_t;

/* The bytes of one part: borrowed text, or new ones in *ret_own, else NULL. Returns 0,
 * TDG_ENOTFOUND (it has neither text nor a blob), TDG_EINVAL (the blob is not base64) or
 * TDG_ENOMEM. */
int body_part(const json_t *part, const char **ret, size_t *ret_len, char **ret_own);

/* `contents` is borrowed for as long as the body is used; NULL and what is no array
 * give an empty text. Returns 0, TDG_EINVAL (a blob is not base64) or TDG_ENOMEM; *ret is
 * an empty text then. */
int body_init(body_t *ret, const json_t *contents);
void body_done(body_t *body);

#endif
