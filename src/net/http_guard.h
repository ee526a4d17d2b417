/* SPDX-License-Identifier: MIT
 *
 * The guard in front of llhttp. It sees every byte of a request first and accepts only
 * unambiguous requests: what two parsers could read as two different requests is refused.
 * It copies nothing and allocates nothing, and it sees each byte once, however the input
 * is split.
 *
 * It refuses: bare CR or LF and other control characters; folded lines; names that are
 * empty or not a token, blanks before the colon; targets other than a path (or `*` for
 * OPTIONS), with a fragment or a byte that is not visible ASCII; versions other than
 * HTTP/1.0 and HTTP/1.1; a missing or invalid Host; a Content-Length that is not a
 * number or is combined with Transfer-Encoding; Transfer-Encoding in HTTP/1.0 or other
 * than `chunked`; Expect with anything but `100-continue`; a second field of a name
 * that may appear only once; chunk extensions and trailers; and everything longer than
 * the limits. */
#ifndef TDG_NET_HTTP_GUARD_H
#define TDG_NET_HTTP_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http_request.h"

/* Why a request is not accepted. Every function below returns one, or NULL. */
typedef struct tdg__http_refusal {
    int status;
    const char *reason; /* a sentence without a full stop */
} tdg__http_refusal_t;

typedef struct tdg__http_guard {
    const tdg__http_limits_t *limits;
    size_t lines;    /* of the head, the request line included */
    unsigned seen;   /* which fields of the table in http_guard.c: 1 << index */
    int minor;       /* HTTP/1.minor */
    bool after_cr;   /* the last byte of the head was a CR */
    bool coded;      /* Transfer-Encoding is chunked */
    bool expects;    /* a body comes, after "100 Continue" */
    bool unexpected; /* Expect asks for something else */
    uint8_t place;   /* in the body */
    uint8_t digits;  /* of the chunk's size, so far */
    uint64_t length; /* Content-Length; what is left of the body or the chunk */
    uint64_t room;   /* chunked: how much more the limit allows */
} tdg__http_guard_t;

/* `limits` is borrowed for as long as the guard is used. */
void tdg__http_guard_init(tdg__http_guard_t *guard, const tdg__http_limits_t *limits);

/* Looks at bytes of the head, up to the end of a line. *ret_len tells how many;
 * *ret_ended whether the last of them ends a line. Both are written only where nothing is
 * refused. */
const tdg__http_refusal_t *tdg__http_guard_bytes(tdg__http_guard_t *guard,
                                                 const char *data, size_t len,
                                                 size_t *ret_len, bool *ret_ended);

/* A whole line, without CR LF: first the request line, then fields; none is empty. */
const tdg__http_refusal_t *tdg__http_guard_line(tdg__http_guard_t *guard,
                                                const char *line, size_t len);

/* The empty line: the head as a whole. From here on `expects` is valid. */
const tdg__http_refusal_t *tdg__http_guard_head(tdg__http_guard_t *guard);

/* After the head: makes the limit of the body smaller, for this request. */
const tdg__http_refusal_t *tdg__http_guard_limit(tdg__http_guard_t *guard, size_t max);

/* The fields as they were split: names that may not come twice and are in no table. */
const tdg__http_refusal_t *tdg__http_guard_fields(const tdg__http_field_t *fields,
                                                  size_t count);

/* Looks at bytes after the head. *ret_len tells how many of them belong to the body; it
 * is written only where nothing is refused. */
const tdg__http_refusal_t *tdg__http_guard_body(tdg__http_guard_t *guard,
                                                const char *data, size_t len,
                                                size_t *ret_len);

/* After the head: whether the body is complete. */
bool tdg__http_guard_done(const tdg__http_guard_t *guard);

/* Whether the client goes on after the response, by its version and Connection fields.
 * Not as llhttp sees it, which takes "close" with a tab behind it for another word. */
bool tdg__http_keeps_alive(const tdg__http_request_t *request);

/* ASCII only, whatever the locale. */
static inline char tdg__http_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

#endif
