/* SPDX-License-Identifier: MIT
 *
 * Further paths on the listeners of a server: /publish, webhooks. A path is registered
 * with a handler; the handler gets a request on the thread of the worker that has the
 * connection, and answers it once, immediately or later, from any thread. Host and Origin
 * are checked before, as for /mcp; a body that is too large is refused before it is read.
 *
 * The handler holds the request until it has answered. If the connection or the server
 * ends before that, the answer is dropped. A request that takes too long is answered with
 * 504, and with 503 when stop_timeout_ms has expired. */
#ifndef TDG_SERVER_ROUTE_H
#define TDG_SERVER_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidings/server.h>

#include "net/http_request.h"

enum {
    TDG__ROUTE_TIMEOUT_MS = 30000,
    TDG__ROUTE_MAX = 1024,          /* per server */
    TDG__ROUTE_MAX_BODY = 64 << 20, /* that a route can allow */
    TDG__ROUTE_MAX_FIELDS = 512,    /* bytes of further header lines in an answer */
};

typedef struct tdg__route_request tdg__route_request_t;

/* ---- Registering -------------------------------------------------------- */

/* All of it is constant; all but the status may be NULL. */
typedef struct tdg__route_refusal {
    int status;
    const char *content_type;
    const char *fields; /* further header lines, each "Name: value\r\n" */
    const char *body;
} tdg__route_refusal_t;

typedef struct tdg__route {
    const char *path; /* "/publish"; with a "/" at its end every path that begins so */
    unsigned methods; /* 1u << TDG__HTTP_POST, …; any other gets 405 */
    size_t max_body_bytes;
    uint32_t timeout_ms; /* for the answer; 0: TDG__ROUTE_TIMEOUT_MS */

    /* May be NULL. Judges a request by its head, before its body is read: returns whether
     * it is admitted; if not, *ret_why says how to refuse it. `peer` is its address, or
     * "". Called as `handler` is, which has to judge as well: a request that comes in one
     * piece does not come here. */
    bool (*admit)(void *user, const tdg__http_request_t *head, const char *peer,
                  tdg__route_refusal_t *ret_why);

    /* Called on a worker's thread, on several at a time. Must not block. */
    void (*handler)(void *user, tdg__route_request_t *request);
    void *user;

    /* The route was removed or replaced, or the server is gone, and the last request to
     * it was answered: `user` is needed no more. Any thread. May be NULL. */
    void (*release)(void *user);
} tdg__route_t;

/* Adds a route, or replaces the one of the same path; of several that match, the longest
 * path counts. Before the start or while the server runs, from any thread. `route` is
 * copied. Paths of the protocol (/mcp, ...) are not reached. Returns 0, TDG_EINVAL (no
 * path, no handler, no method, too large a body, too many routes) or TDG_ENOMEM: then
 * `release` is not called. */
int tdg__server_route(tdg_server_t *server, const tdg__route_t *route);

/* The same in two steps, for those who cannot go back once they have begun: a route with
 * the memory that it needs, and then the rest. Returns as above, but for the number of
 * routes. */
typedef struct tdg__route_entry tdg__route_entry_t;
int tdg__route_prepare(const tdg__route_t *route, tdg__route_entry_t **ret);

/* The prepared route is in force from now on. Returns 0; or TDG_EINVAL where there are
 * too many, which cannot be where it replaces one: then it is still the caller's. */
int tdg__server_put_route(tdg_server_t *server, tdg__route_entry_t *entry);

/* It is not needed: `release` is called. NULL is accepted. */
void tdg__route_abandon(tdg__route_entry_t *entry);

/* Requests that are being answered are not touched. Returns 0 or TDG_ENOTFOUND. */
int tdg__server_unroute(tdg_server_t *server, const char *path);

/* ---- A request ---------------------------------------------------------- */

/* All of it is borrowed until the request is answered. */
const tdg__http_request_t *tdg__route_http(const tdg__route_request_t *request);
const char *tdg__route_peer(const tdg__route_request_t *request); /* address, or "" */

/* Answers, once, from any thread; the request is gone then. `content_type` and `body` may
 * be NULL; `fields` are further header lines, each "Name: value\r\n", or NULL. All are
 * copied where need be; without memory for that the client gets 500. */
void tdg__route_reply(tdg__route_request_t *request, int status, const char *content_type,
                      const char *fields, const void *body, size_t len);

/* ---- For the server ----------------------------------------------------- */

typedef struct tdg__routes tdg__routes_t;
struct tdg__visit; /* visit.h */

int tdg__routes_create(tdg__routes_t **ret);
void tdg__routes_destroy(tdg__routes_t *routes); /* NULL is accepted */

/* Whether there is a route for the path, and how much body it takes. */
bool tdg__routes_body_limit(tdg__routes_t *routes, const char *path, size_t *ret);

/* Whether a request is being answered that its handler may publish something for. Once
 * the server stops, none comes any more. */
bool tdg__routes_busy(const tdg__routes_t *routes);

/* Whether the body of a visit is to be read. Returns 0, TDG_EINVAL (it has been refused),
 * TDG_ENOTSUP or TDG_ENOTFOUND as below. */
int tdg__routes_admit(struct tdg__visit *visit, unsigned *ret_methods);

/* Serves a visit, if there is a route for it. Returns 0 (answered, or going to be),
 * TDG_ENOTSUP (not with this method; *ret_methods are the ones that it has) or
 * TDG_ENOTFOUND. */
int tdg__routes_serve(struct tdg__visit *visit, unsigned *ret_methods);

#endif
