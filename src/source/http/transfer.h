/* SPDX-License-Identifier: MIT
 *
 * HTTP requests of sources, on the loop (web/curl_loop.h). GET only, http and https only,
 * certificates always verified, nothing taken from the environment (no proxy, no .netrc,
 * no cookies).
 *
 * Redirects are followed here and not by libcurl, because the configured headers are
 * secrets: libcurl would keep back Authorization and Cookie from another host and send
 * all the rest. Nothing of them leaves the scheme, host and port that they were written
 * for. */
#ifndef TDG_SOURCE_TRANSFER_H
#define TDG_SOURCE_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/text.h"
#include "web/curl_loop.h"

typedef struct tdg__transfer tdg__transfer_t; /* one request, with its redirects */

enum {
    TDG__TRANSFER_MAX_REDIRECTS = 5,
    TDG__TRANSFER_MAX_HEADERS = 256 * 1024, /* bytes that an answer's headers may have */
    TDG__TRANSFER_MAX_FIELD = 1024,         /* bytes of a header that we remember */
};

typedef enum tdg__transfer_follow {
    TDG__FOLLOW_NONE,
    TDG__FOLLOW_SAME_HOST,
    TDG__FOLLOW_ANY, /* never from https to http */
} tdg__transfer_follow_t;

/* Everything is copied. */
typedef struct tdg__transfer_request {
    const char *url;
    const json_t *headers; /* object of strings; may be NULL; is to live as long as the
                              transfer */
    const char *etag, *last_modified; /* of what is known already; may be NULL. Asked at
                                         `known_url` only */
    const char *known_url;
    const char *ca_file; /* NULL: the system's certificates */
    const char *proxy;   /* NULL: none */
    size_t max_bytes;    /* of the body, decoded */
    int64_t timeout_ms;  /* a second line: whoever asks has a time limit as well */
    tdg__transfer_follow_t follow;
    bool keep_open; /* the connection, for the next request */
} tdg__transfer_request_t;

typedef struct tdg__transfer_answer {
    int result;        /* 0: the server answered, see `status`. TDG_EAWAY: it did not;
                          TDG_ETOOLARGE: with too much; TDG_EINVAL: it redirects to where we do
                          not go; TDG_ENOMEM */
    const char *error; /* one line, where result is not 0 */
    long status;
    tdg__text_t *body; /* where the status is 2xx, else empty; its data may be taken */
    const char *url;   /* that gave the answer */
    const char *etag, *last_modified, *content_type; /* NULL: not said */
    int64_t modified_ms;                             /* last_modified; 0: not said */
    int64_t date_ms;                                 /* the server's clock; 0: not said */
    int64_t retry_after_ms;                          /* -1: not said */
} tdg__transfer_answer_t;

/* The transfer is gone when this returns. */
typedef void (*tdg__transfer_done_fn)(void *arg, tdg__transfer_answer_t *answer);

/* Begins a transfer. `done` is called once, from the loop, never from inside. Returns 0
 * or TDG_ENOMEM. */
int tdg__transfer_begin(tdg__curl_t *curl, const tdg__transfer_request_t *wish,
                        tdg__transfer_done_fn done, void *arg, tdg__transfer_t **ret);

/* Ends it now; `done` is not called. */
void tdg__transfer_cancel(tdg__transfer_t *transfer);

/* Whether a header of the config can be sent; else *ret_why says what is wrong. */
bool tdg__transfer_header_is_fine(const char *name, const char *value,
                                  const char **ret_why);

#endif
