/* SPDX-License-Identifier: MIT
 *
 * HTTP: access control (Host, Origin), paths, and the way from a request to its message
 * and its session. */
#ifndef TDG_SERVER_HTTP_H
#define TDG_SERVER_HTTP_H

#include <stdbool.h>

#include "net/conn.h"
#include "server/context/context.h"
#include "server/http/caller.h"

/* One address that is listened on; the tag of its connections. Shared by all workers. */
typedef struct tdg__listener {
    char **hosts;   /* allowed Host values, ends in NULL; NULL: as its address says */
    char **origins; /* allowed Origin values, ends in NULL; NULL: the same */
    bool loopback;  /* it is bound to an address of this machine only */
    bool erlmcp;
    tdg__proxies_t proxies;
    char machine[256]; /* its name; "": not known */
} tdg__listener_t;

/* Whether a Host or Origin value is allowed. */
bool tdg__listener_allows_host(const tdg__listener_t *listener, const char *host);
bool tdg__listener_allows_origin(const tdg__listener_t *listener, const char *origin);

/* Opens HTTP on a worker, with a network that listens nowhere yet: see tdg__net_listen(),
 * where `tag` is a tdg__listener_t. Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__http_open(tdg__worker_t *worker);

/* How much body a request may have; `server` is a tdg_server_t. From any thread. */
size_t tdg__http_body_limit(void *server, const tdg__http_request_t *head);

/* Calls of the network, whose user is the worker (net.h). Whether the body of a request
 * is to be read: refuses those whose caller, path, method, key or type is wrong. */
bool tdg__http_admit(void *worker, tdg__conn_t *conn, const tdg__http_request_t *head);

/* Serves a request. */
void tdg__http_serve(void *worker, tdg__conn_t *conn, const tdg__http_request_t *request);

#endif
