/* SPDX-License-Identifier: MIT
 *
 * A real HTTP server on 127.0.0.1 for the tests of those who ask one: it writes down what
 * it is asked and answers as told, also badly. It has threads of its own; every function
 * may be called at any time. */
#ifndef TDG_TESTS_SOURCE_HTTP_SERVER_H
#define TDG_TESTS_SOURCE_HTTP_SERVER_H

#include <stddef.h>
#include <stdint.h>

typedef struct http_server http_server_t;

enum manner {
    PROPERLY, /* with a Content-Length; the connection stays open */
    RAW,      /* head and body as they are, then the end of the connection */
    HANG,     /* as RAW, and then nothing, until the other side gives up */
    DRIP,     /* as RAW, and then a byte every 20 ms, for ever */
    FLOOD,    /* as RAW, and then the body again and again, for ever */
};

struct page {
    enum manner manner;
    const char *status;  /* "200 OK"; NULL is that */
    const char *headers; /* lines that end in \r\n; NULL: none */
    const char *etag;    /* with it, a request that has it gets 304 */
    const char *body;    /* NULL: empty */
    size_t len;          /* 0: the body is text */
};

http_server_t *http_server_start(void);
void http_server_stop(http_server_t *server);
int http_server_port(const http_server_t *server);

/* What a path (with its query) answers from now on; copied. All others: 404. */
void http_server_set(http_server_t *server, const char *path, const struct page *page);

/* How often a path was asked for (NULL: any). How often it said 304. */
size_t http_server_count(http_server_t *server, const char *path);
size_t http_server_not_modified(http_server_t *server);

/* The n-th request for a path from 0, as it came: new, for free(). Fails the test where
 * there was none. When it came, in ms of the monotonic clock. */
char *http_server_request(http_server_t *server, const char *path, size_t n);
int64_t http_server_time(http_server_t *server, const char *path, size_t n);

/* How many connections are open. */
size_t http_server_open(http_server_t *server);

#endif
