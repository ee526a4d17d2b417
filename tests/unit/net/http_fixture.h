/* SPDX-License-Identifier: MIT
 *
 * Reading requests in any pieces, and telling results apart, for the tests of HTTP. */
#ifndef TDG_TESTS_HTTP_FIXTURE_H
#define TDG_TESTS_HTTP_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "net/http_request.h"

extern const tdg__http_limits_t http_wide; /* 4 KiB head, 20 fields, 4 KiB body */

/* What became of some bytes. */
struct outcome {
    tdg__http_step_t step; /* never HEADED */
    int status;            /* where it was refused, else 0 */
    const char *reason;    /* the same, else "" */
    size_t used;           /* of the bytes, in all; 0 where they were refused */
    unsigned continues;    /* how often "100 Continue" was due */
    char *text;            /* where it is ready: the request in full; see http_text() */
};

/* Text with "|" for each CR LF as bytes, new, for free(). Ends in a NUL. */
char *http_wire(const char *text);

/* Feeds the bytes until the reader wants no more: first `cut` of them, then `piece` at a
 * time. Each piece is a block of its own that is gone afterwards. */
struct outcome http_feed(tdg__http_reader_t *reader, const char *data, size_t len,
                         size_t cut, size_t piece);

/* The same with a reader of its own; in one piece. */
struct outcome http_read(const tdg__http_limits_t *limits, const char *data, size_t len);

void outcome_done(struct outcome *outcome);

/* Fails unless both are the same; `name` is what to print. */
void assert_same_outcome(const char *name, const struct outcome *is,
                         const struct outcome *expected);

/* Fails unless the bytes have the same outcome in whatever pieces they come: byte by
 * byte, in threes, and cut once at every place. */
void assert_cuts_do_not_matter(const tdg__http_limits_t *limits, const char *name,
                               const char *data, size_t len);

/* A request as one text, new, for free(): "GET /path?query 1.1|name=value|", then the
 * body with "|" for CR LF and \xx for other odd bytes. " close" follows the version where
 * the client goes. */
char *http_text(const tdg__http_request_t *request);

/* A request as bytes that mean the same, new, for free(). Chunked becomes Content-Length.
 */
char *http_bytes(const tdg__http_request_t *request, size_t *ret_len);

#endif
