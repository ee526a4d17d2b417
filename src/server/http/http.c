/* SPDX-License-Identifier: MIT
 *
 * From a request to its handler: access control, paths, and the era of the request. */
#include "server/http/http.h"

#include <stdio.h>
#include <string.h>

#include "server/http/forward.h"
#include "server/http/route.h"
#include "server/http/visit.h"

/* ---- POST --------------------------------------------------------------- */

/* Modern is what says so, in the body or in the header. */
static bool is_modern(tdg__visit_t *visit, const tdg__rpc_message_t *message) {
    const char *version = tdg__http_field(visit->http, "mcp-protocol-version");

    if (tdg__visit_era_is_off(visit, TDG_NO_LEGACY))
        return true;
    if (tdg__visit_era_is_off(visit, TDG_NO_MODERN) || message->kind == TDG__RPC_RESPONSE)
        return false;
    return tdg__mcp_is_modern(message) ||
           (version != NULL && tdg__version_modern(tdg__version_from_text(version)));
}

/* A version in the header that is not spoken here is an error in every request of a
 * session. Modern ones are compared with their bodies first. */
static bool version_is_fine(tdg__visit_t *visit, const char *id) {
    const char *text = tdg__http_field(visit->http, "mcp-protocol-version");
    tdg__version_t version = tdg__version_from_text(text);

    if (text == NULL ||
        (version != TDG__V_UNKNOWN &&
         !(tdg__version_modern(version) && tdg__visit_era_is_off(visit, TDG_NO_MODERN))))
        return true;
    tdg__visit_refuse_version(visit, id, text);
    return false;
}

static void serve_message(tdg__visit_t *visit) {
    tdg__rpc_message_t message;

    if (!tdg__visit_read_message(visit, &message))
        return;
    visit->worker->requests++;
    if (is_modern(visit, &message))
        tdg__visit_serve_modern(visit, &message);
    else if (version_is_fine(visit, message.id))
        tdg__visit_serve_legacy(visit, &message);
    tdg__rpc_message_done(&message);
}

static void on_post(tdg__visit_t *visit) {
    if (!tdg__visit_read_body(visit))
        return;
    if (!json_is_array(visit->body))
        serve_message(visit);
    else if (tdg__visit_era_is_off(visit, TDG_NO_LEGACY))
        tdg__visit_refuse(visit, 400, TDG__RPC_INVALID_REQUEST,
                          "No batches in this version");
    else if (version_is_fine(visit, NULL))
        tdg__visit_serve_batch(visit);
}

/* ---- For those who only look whether somebody is there ------------------ */

static void on_head(tdg__visit_t *visit) {
    tdg__visit_respond(visit, 200, NULL);
}

/* Who has a connection left while the server stops should look for another. */
static void on_health(tdg__visit_t *visit) {
    bool stops = tdg__server_stopping(visit->worker->server);
    const char *text = stops ? "stopping\n" : "ok\n";
    char fields[sizeof(visit->fields) + 32];

    snprintf(fields, sizeof(fields), "%sCache-Control: no-store\r\n", visit->fields);
    tdg__exchange_respond(visit->exchange, stops ? 503 : 200, "text/plain", fields, text,
                          strlen(text));
}

/* ---- Routes ------------------------------------------------------------- */

enum {
    LEGACY = 1 << 0,    /* not there when legacy is switched off */
    VERSIONED = 1 << 1, /* the version in the header must be one that is spoken here */
};

static const struct route {
    const char *path;
    tdg__http_method_t method;
    void (*serve)(tdg__visit_t *visit);
    unsigned flags;
} routes[] = {
    {"/mcp", TDG__HTTP_POST, on_post, 0},
    {"/mcp", TDG__HTTP_GET, tdg__visit_get, LEGACY | VERSIONED},
    {"/mcp", TDG__HTTP_DELETE, tdg__visit_delete, LEGACY | VERSIONED},
    {"/mcp", TDG__HTTP_HEAD, on_head, 0},
    {"/health", TDG__HTTP_GET, on_health, 0},
    {"/health", TDG__HTTP_HEAD, on_health, 0},
    {"/sse", TDG__HTTP_GET, tdg__visit_sse, LEGACY},
    {"/events", TDG__HTTP_GET, tdg__visit_sse, LEGACY},
    {"/messages", TDG__HTTP_POST, tdg__visit_messages, LEGACY},
};

static const struct {
    tdg__http_method_t method;
    const char *name;
} methods_by_name[] = {
    {TDG__HTTP_POST, "POST"}, {TDG__HTTP_GET, "GET"}, {TDG__HTTP_DELETE, "DELETE"},
    {TDG__HTTP_HEAD, "HEAD"}, {TDG__HTTP_PUT, "PUT"},
};

/* What a browser asks before it sends a request of another origin. */
static void respond_preflight(tdg__visit_t *visit, const char *allow) {
    char fields[256];

    snprintf(fields, sizeof(fields),
             "Allow: %s\r\n"
             "Access-Control-Allow-Methods: %s\r\n"
             "Access-Control-Allow-Headers: *, Authorization\r\n"
             "Access-Control-Max-Age: 86400\r\n",
             allow, allow);
    char all[sizeof(visit->fields) + sizeof(fields)];
    snprintf(all, sizeof(all), "%s%s", visit->fields, fields);
    tdg__exchange_respond(visit->exchange, 204, NULL, all, NULL, 0);
}

/* The path is served, but not with this method; `methods` has 1 << method for each. */
static void respond_allowed(tdg__visit_t *visit, unsigned methods) {
    char allow[64] = "", fields[80];

    for (size_t i = 0; i < sizeof(methods_by_name) / sizeof(methods_by_name[0]); i++) {
        if ((methods & 1u << methods_by_name[i].method) != 0)
            strcat(strcat(allow, methods_by_name[i].name), ", "); /* all would fit */
    }
    strcat(allow, "OPTIONS");
    if (visit->http->method == TDG__HTTP_OPTIONS) {
        respond_preflight(visit, allow);
    } else {
        snprintf(fields, sizeof(fields), "Allow: %s\r\n", allow);
        tdg__visit_respond(visit, 405, fields);
    }
}

/* The row that serves a request; NULL: none. *ret_methods are those of its path. */
static const struct route *find_route(const tdg_server_t *server,
                                      const tdg__http_request_t *http,
                                      unsigned *ret_methods) {
    bool legacy = (server->opts.flags & TDG_NO_LEGACY) == 0;
    const struct route *found = NULL;

    *ret_methods = 0;
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        const struct route *at = &routes[i];

        if (strcmp(at->path, http->path) != 0 || ((at->flags & LEGACY) != 0 && !legacy))
            continue;
        *ret_methods |= 1u << at->method;
        if (at->method == http->method)
            found = at;
    }
    return found;
}

size_t tdg__http_body_limit(void *user, const tdg__http_request_t *head) {
    const tdg_server_t *server = user;
    unsigned methods;
    size_t max;

    find_route(server, head, &methods);
    if (methods == 0 && tdg__routes_body_limit(server->routes, head->path, &max))
        return max;
    return server->opts.max_message_bytes;
}

/* Nobody serves the request: the path is unknown, or the method is, there. */
static void refuse_route(tdg__visit_t *visit, int rv, unsigned methods) {
    if (rv == TDG_ENOTSUP)
        respond_allowed(visit, methods);
    else
        tdg__visit_refuse(visit, 404, TDG__RPC_INVALID_REQUEST,
                          "Nothing is served at this path; the endpoint is /mcp");
}

static void route(tdg__visit_t *visit) {
    unsigned methods;
    const struct route *found = find_route(visit->worker->server, visit->http, &methods);
    int rv = TDG_ENOTSUP;

    if (found != NULL) {
        if ((found->flags & VERSIONED) == 0 || version_is_fine(visit, NULL))
            found->serve(visit);
        return;
    }
    if (methods == 0)
        rv = tdg__routes_serve(visit, &methods);
    if (rv < 0)
        refuse_route(visit, rv, methods);
}

/* The same by the head alone. */
static bool admit_route(tdg__visit_t *visit) {
    unsigned methods;
    const struct route *found = find_route(visit->worker->server, visit->http, &methods);
    int rv = TDG_ENOTSUP;

    if (found != NULL)
        return visit->http->method != TDG__HTTP_POST || tdg__visit_brings_json(visit);
    if (methods == 0)
        rv = tdg__routes_admit(visit, &methods);
    if (rv == TDG_ENOTSUP || rv == TDG_ENOTFOUND)
        refuse_route(visit, rv, methods);
    return rv == 0;
}

/* Refuses callers that have no business here. A request without an Origin is no page. */
static bool may_call(tdg__visit_t *visit) {
    const char *host = tdg__http_field(visit->http, "host");
    const char *origin = tdg__http_field(visit->http, "origin");

    if (host != NULL && !tdg__listener_allows_host(visit->listener, host)) {
        tdg__visit_refuse(
            visit, 403, TDG__RPC_INVALID_REQUEST,
            visit->listener->hosts == NULL && !visit->listener->loopback
                ? "This Host is not allowed here (protection against DNS rebinding): "
                  "call "
                  "by an address or by the machine's own name, or add the name to "
                  "allowed-hosts"
                : "This Host is not allowed here (protection against DNS rebinding): add "
                  "it to allowed-hosts");
        return false;
    }
    if (origin == NULL)
        return true;
    if (strlen(origin) > TDG__MAX_ORIGIN ||
        !tdg__listener_allows_origin(visit->listener, origin)) {
        tdg__visit_refuse(visit, 403, TDG__RPC_INVALID_REQUEST,
                          "This Origin is not allowed here: add it to allowed-origins");
        return false;
    }
    snprintf(visit->fields, sizeof(visit->fields),
             "Access-Control-Allow-Origin: %s\r\n"
             "Access-Control-Expose-Headers: Mcp-Session-Id\r\n"
             "Vary: Origin\r\n",
             origin);
    return true;
}

static tdg__visit_t begin_visit(tdg__worker_t *worker, tdg__conn_t *conn,
                                const tdg__http_request_t *request) {
    tdg__worker_refresh(worker);
    return (tdg__visit_t){
        .worker = worker,
        .exchange = tdg__conn_exchange(conn),
        .http = request,
        .listener = tdg__conn_tag(conn),
    };
}

bool tdg__http_admit(void *worker, tdg__conn_t *conn, const tdg__http_request_t *head) {
    tdg__visit_t visit = begin_visit(worker, conn, head);

    return may_call(&visit) && admit_route(&visit);
}

void tdg__http_serve(void *worker, tdg__conn_t *conn,
                     const tdg__http_request_t *request) {
    tdg__visit_t visit = begin_visit(worker, conn, request);

    if (may_call(&visit))
        route(&visit);
    if (visit.forward != NULL)
        tdg__forward_send(&visit);
    json_decref(visit.body);
}
