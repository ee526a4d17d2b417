/* SPDX-License-Identifier: MIT
 *
 * What the files of the http source share: http.c (options, life cycle), http_poll.c
 * (watched URIs, and when they are requested) and http_fetch.c (requests). */
#ifndef TDG_SOURCE_HTTP_SOURCE_H
#define TDG_SOURCE_HTTP_SOURCE_H

#include "source/common/records.h"
#include "source/common/source.h"
#include "web/web.h"

enum { TDG__HTTP_DAY_MS = 24 * 60 * 60 * 1000 };

/* What a 2xx answer brought. Counted, because whoever is told of it may end the watching
 * that keeps it. */
struct found {
    unsigned refs;
    int status; /* 0, or TDG_ENOTFOUND: there is no such part */
    char *data;
    size_t len;
    char *mime_type, *etag, *last_modified; /* NULL: not said */
    bool sure;             /* last_modified alone tells whether it has changed */
    char *url, *shown_url; /* shown: without the query, where secrets may be */
    int http_status;
    int64_t updated_ms;
};

/* A URI that is watched. */
struct poll {
    tdg__record_t record;  /* its name is the URI, its time that of the next request */
    bool begun;            /* the first interval was a random part */
    int64_t not_before_ms; /* Retry-After, in the loop's time; 0: none */
    struct found *kept;
};

struct http {
    tdg__source_t source;
    char *url, *pointer, *ca_file, *proxy;
    int64_t every_ms;
    int follow;
    json_t *headers;
    tdg__web_field_t *secrets; /* the same, for the requests */

    tdg__web_t *web;
    tdg__records_t polls; /* of struct poll */
    size_t kept_bytes;
};

/* ---- http_poll.c -------------------------------------------------------- */

struct found *tdg__http_found_ref(struct found *found);
void tdg__http_found_unref(struct found *found); /* NULL is accepted */

/* The time of a URI has come. */
void tdg__http_poll_due(tdg__record_t *record, void *user);

/* Keeps what was found for the next request, if the server can be asked whether it is
 * still the same, and within a limit; forgets it. */
void tdg__http_keep(struct http *http, struct poll *poll, struct found *found);
void tdg__http_forget(struct http *http, struct poll *poll);

/* No connection stays open for nobody. */
void tdg__http_rest(struct http *http);

/* When a URI is asked for next, after an answer. */
void tdg__http_schedule(struct http *http, struct poll *poll);

/* The same where the server is away. The common half tries again, but a time that the
 * server itself has named (-1: it has not) counts more. */
void tdg__http_postpone(struct http *http, struct poll *poll, int64_t retry_after_ms);

/* ---- http_fetch.c ------------------------------------------------------- */

void tdg__http_fetch(tdg__source_t *source, tdg__fetch_t *fetch);
void tdg__http_cancel(tdg__source_t *source, tdg__fetch_t *fetch);

#endif
