/* SPDX-License-Identifier: MIT
 *
 * Routes are reference-counted and immutable: one is replaced by another. A request has
 * two holders: its connection, on the worker's thread, and the handler until it answers.
 * An answer from another thread is a task for the worker, like those of calls. */
#include "server/http/route.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/queue.h"
#include "base/text.h"
#include "server/http/occupant.h"
#include "server/http/visit.h"

struct tdg__route_entry {
    atomic_size_t refs;
    tdg__route_t route; /* its path is ours */
    size_t path_len;
    bool prefix;
    char path[];
};

/* Held by the server, and by requests, which may outlive it. */
struct tdg__routes {
    atomic_size_t refs;
    pthread_mutex_t lock;
    tdg__route_entry_t *entries[TDG__ROUTE_MAX]; /* adding one needs no memory */
    size_t count;
    atomic_size_t unanswered; /* requests that handlers have */
};

/* An answer on its way to the worker. */
struct reply {
    int status;
    const char *content_type, *fields; /* NULL: none */
    const void *body;
    size_t len;
    char data[];
};

struct tdg__route_request {
    tdg__task_t task; /* first: the answer's way to the worker */
    tdg__occupant_t occupant;
    atomic_uint refs;
    atomic_bool answered;
    tdg__route_entry_t *entry;
    tdg__routes_t *routes;
    tdg__worker_t *worker; /* may be gone: for comparing, and while `exchange` is there */
    tdg__inbox_t *inbox;
    tdg__exchange_t *exchange; /* of the worker's thread; NULL: answered, or gone */
    struct reply *reply;
    tdg__http_request_t *http; /* ours: the connection's own is gone when the handler
                                  returns */
    char peer[TDG__ADDRESS_TEXT];
    char cors[sizeof(((tdg__visit_t *)0)->fields)];
};

/* ---- Entries ------------------------------------------------------------ */

static tdg__route_entry_t *entry_ref(tdg__route_entry_t *entry) {
    atomic_fetch_add_explicit(&entry->refs, 1, memory_order_relaxed);
    return entry;
}

static void entry_unref(tdg__route_entry_t *entry) {
    if (entry == NULL ||
        atomic_fetch_sub_explicit(&entry->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (entry->route.release != NULL)
        entry->route.release(entry->route.user);
    tdg__free(entry);
}

static tdg__route_entry_t *entry_create(const tdg__route_t *route) {
    size_t len = strlen(route->path);
    tdg__route_entry_t *entry = tdg__malloc(sizeof(*entry) + len + 1);

    if (entry == NULL)
        return NULL;
    atomic_init(&entry->refs, 1);
    memcpy(entry->path, route->path, len + 1);
    entry->route = *route;
    entry->route.path = entry->path;
    if (entry->route.timeout_ms == 0)
        entry->route.timeout_ms = TDG__ROUTE_TIMEOUT_MS;
    entry->path_len = len;
    entry->prefix = entry->path[len - 1] == '/';
    return entry;
}

/* ---- Registering -------------------------------------------------------- */

int tdg__routes_create(tdg__routes_t **ret) {
    tdg__routes_t *routes = tdg__calloc(1, sizeof(*routes));

    if (routes == NULL)
        return TDG_ENOMEM;
    if (pthread_mutex_init(&routes->lock, NULL) != 0) {
        tdg__free(routes);
        return TDG_ESYSTEM;
    }
    atomic_init(&routes->refs, 1);
    *ret = routes;
    return 0;
}

static tdg__routes_t *routes_ref(tdg__routes_t *routes) {
    atomic_fetch_add_explicit(&routes->refs, 1, memory_order_relaxed);
    return routes;
}

static void routes_unref(tdg__routes_t *routes) {
    if (atomic_fetch_sub_explicit(&routes->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&routes->lock);
    tdg__free(routes);
}

void tdg__routes_destroy(tdg__routes_t *routes) {
    if (routes == NULL)
        return;
    for (size_t i = 0; i < routes->count; i++)
        entry_unref(routes->entries[i]);
    routes_unref(routes);
}

/* With the lock. Its place; `count` where it is not there. */
static size_t place_of(const tdg__routes_t *routes, const char *path) {
    size_t i = 0;

    while (i < routes->count && strcmp(routes->entries[i]->path, path) != 0)
        i++;
    return i;
}

/* With the lock. *ret_before is what was there, or NULL. */
static int put(tdg__routes_t *routes, tdg__route_entry_t *entry,
               tdg__route_entry_t **ret_before) {
    size_t at = place_of(routes, entry->path);

    if (at == TDG__ROUTE_MAX)
        return TDG_EINVAL;
    *ret_before = NULL;
    if (at == routes->count)
        routes->count++;
    else
        *ret_before = routes->entries[at];
    routes->entries[at] = entry;
    return 0;
}

int tdg__route_prepare(const tdg__route_t *route, tdg__route_entry_t **ret) {
    if (route->path == NULL || route->path[0] != '/' || route->handler == NULL ||
        route->methods == 0 || route->max_body_bytes > TDG__ROUTE_MAX_BODY)
        return TDG_EINVAL;

    tdg__route_entry_t *entry = entry_create(route);
    if (entry == NULL)
        return TDG_ENOMEM;
    *ret = entry;
    return 0;
}

void tdg__route_abandon(tdg__route_entry_t *entry) {
    entry_unref(entry);
}

int tdg__server_put_route(tdg_server_t *server, tdg__route_entry_t *entry) {
    tdg__routes_t *routes = server->routes;
    tdg__route_entry_t *before = NULL;

    pthread_mutex_lock(&routes->lock);
    int rv = put(routes, entry, &before);
    pthread_mutex_unlock(&routes->lock);
    entry_unref(before); /* calls back, so without the lock */
    return rv;
}

int tdg__server_route(tdg_server_t *server, const tdg__route_t *route) {
    tdg__route_entry_t *entry;

    int rv = tdg__route_prepare(route, &entry);
    if (rv < 0)
        return rv;

    rv = tdg__server_put_route(server, entry);
    if (rv < 0)
        tdg__free(entry); /* `release` is not called */
    return rv;
}

int tdg__server_unroute(tdg_server_t *server, const char *path) {
    tdg__routes_t *routes = server->routes;
    tdg__route_entry_t *entry = NULL;

    pthread_mutex_lock(&routes->lock);
    size_t at = place_of(routes, path);
    if (at < routes->count) {
        entry = routes->entries[at];
        routes->entries[at] = routes->entries[--routes->count];
    }
    pthread_mutex_unlock(&routes->lock);
    entry_unref(entry);
    return entry != NULL ? 0 : TDG_ENOTFOUND;
}

/* ---- Finding ------------------------------------------------------------ */

static bool matches(const tdg__route_entry_t *entry, const char *path) {
    return entry->prefix ? strncmp(entry->path, path, entry->path_len) == 0
                         : strcmp(entry->path, path) == 0;
}

/* A reference to the entry of the longest path that matches; NULL: none. */
static tdg__route_entry_t *find(tdg__routes_t *routes, const char *path) {
    tdg__route_entry_t *best = NULL;

    pthread_mutex_lock(&routes->lock);
    for (size_t i = 0; i < routes->count; i++) {
        tdg__route_entry_t *entry = routes->entries[i];

        if (matches(entry, path) && (best == NULL || entry->path_len > best->path_len))
            best = entry;
    }
    if (best != NULL)
        entry_ref(best);
    pthread_mutex_unlock(&routes->lock);
    return best;
}

bool tdg__routes_body_limit(tdg__routes_t *routes, const char *path, size_t *ret) {
    tdg__route_entry_t *entry = find(routes, path);

    if (entry == NULL)
        return false;
    *ret = entry->route.max_body_bytes;
    entry_unref(entry);
    return true;
}

/* ---- Life of a request -------------------------------------------------- */

static void unref(tdg__route_request_t *request) {
    if (atomic_fetch_sub_explicit(&request->refs, 1, memory_order_acq_rel) != 1)
        return;
    entry_unref(request->entry);
    routes_unref(request->routes);
    tdg__inbox_unref(request->inbox);
    tdg__free(request->reply);
    tdg__free(request->http);
    tdg__free(request);
}

/* The connection has no more to do with it. */
static void leave(tdg__route_request_t *request) {
    assert(request->exchange->user == &request->occupant);
    request->exchange->user = NULL;
    request->exchange = NULL;
}

/* On the worker's thread. */
static void respond(tdg__route_request_t *request, const struct reply *reply) {
    tdg__exchange_t *exchange = request->exchange;
    char fields[sizeof(request->cors) + TDG__ROUTE_MAX_FIELDS + 1];

    if (exchange == NULL)
        return;
    leave(request);
    snprintf(fields, sizeof(fields), "%s%s", request->cors,
             reply->fields != NULL ? reply->fields : "");
    tdg__exchange_prove(exchange); /* which a refusal takes back */
    tdg__exchange_respond(exchange, reply->status, reply->content_type, fields,
                          reply->body, reply->len);
    unref(request);
}

static void respond_plainly(tdg__route_request_t *request, int status) {
    struct reply reply = {.status = status};

    respond(request, &reply);
}

/* ---- What happens to its connection ------------------------------------- */

static tdg__route_request_t *occupies(tdg__occupant_t *occupant) {
    return TDG__RECORD(tdg__route_request_t, occupant, occupant);
}

static void closed(tdg__occupant_t *occupant) {
    tdg__route_request_t *request = occupies(occupant);

    request->exchange = NULL;
    unref(request);
}

static void tick(tdg__occupant_t *occupant, int64_t now_ms) {
    tdg__route_request_t *request = occupies(occupant);

    if (now_ms - occupant->started_ms >= request->entry->route.timeout_ms)
        respond_plainly(request, 504);
}

static void give_up(tdg__occupant_t *occupant) {
    respond_plainly(occupies(occupant), 503);
}

static const tdg__occupant_ops_t occupant_ops = {
    .closed = closed, .tick = tick, .give_up = give_up};

static tdg__route_request_t *create(const tdg__visit_t *visit,
                                    tdg__route_entry_t *entry) {
    tdg__route_request_t *request = tdg__calloc(1, sizeof(*request));

    if (request == NULL)
        return NULL;
    request->http = tdg__http_request_copy(visit->http);
    if (request->http == NULL) {
        tdg__free(request);
        return NULL;
    }
    atomic_init(&request->refs, 2);
    atomic_init(&request->answered, false);
    tdg__occupant_init(&request->occupant, &occupant_ops, visit->worker, false);
    request->entry = entry_ref(entry);
    request->routes = routes_ref(visit->worker->server->routes);
    request->worker = visit->worker;
    request->inbox = tdg__inbox_ref(visit->worker->inbox);
    request->exchange = visit->exchange;
    tdg__visit_address(visit, request->peer);
    memcpy(request->cors, visit->fields, sizeof(request->cors));
    visit->exchange->user = &request->occupant;
    return request;
}

bool tdg__routes_busy(const tdg__routes_t *routes) {
    return atomic_load(&routes->unanswered) > 0;
}

/* Counted first: whoever sees that the server stops, and nothing counted, knows that no
 * handler is going to publish anything. */
static void handle(tdg__route_entry_t *entry, tdg__route_request_t *request) {
    atomic_fetch_add(&request->routes->unanswered, 1);
    if (tdg__server_stopping(request->worker->server))
        tdg__route_reply(request, 503, NULL, "Retry-After: 1\r\n", NULL, 0);
    else
        entry->route.handler(entry->route.user, request);
}

static int admit(tdg__visit_t *visit, const tdg__route_t *route) {
    char fields[sizeof(visit->fields) + TDG__ROUTE_MAX_FIELDS + 1];
    char peer[TDG__ADDRESS_TEXT];
    tdg__route_refusal_t why;

    if (route->admit == NULL)
        return 0;
    tdg__visit_address(visit, peer);
    if (route->admit(route->user, visit->http, peer, &why))
        return 0;
    snprintf(fields, sizeof(fields), "%s%s", visit->fields,
             why.fields != NULL ? why.fields : "");
    tdg__exchange_respond(visit->exchange, why.status, why.content_type, fields, why.body,
                          why.body != NULL ? strlen(why.body) : 0);
    return TDG_EINVAL;
}

/* The route of a visit, a reference in *ret; else returns as tdg__routes_serve(). */
static int find_for(const tdg__visit_t *visit, unsigned *ret_methods,
                    tdg__route_entry_t **ret) {
    tdg__route_entry_t *entry = find(visit->worker->server->routes, visit->http->path);

    if (entry == NULL)
        return TDG_ENOTFOUND;
    if ((entry->route.methods & 1u << visit->http->method) == 0) {
        *ret_methods = entry->route.methods;
        entry_unref(entry);
        return TDG_ENOTSUP;
    }
    *ret = entry;
    return 0;
}

int tdg__routes_admit(tdg__visit_t *visit, unsigned *ret_methods) {
    tdg__route_entry_t *entry;
    int rv = find_for(visit, ret_methods, &entry);
    if (rv < 0)
        return rv;

    rv = admit(visit, &entry->route);
    entry_unref(entry);
    return rv;
}

int tdg__routes_serve(tdg__visit_t *visit, unsigned *ret_methods) {
    tdg__route_entry_t *entry;
    int rv = find_for(visit, ret_methods, &entry);
    if (rv < 0)
        return rv;

    tdg__route_request_t *request = create(visit, entry);
    if (request != NULL)
        handle(entry, request);
    else
        tdg__visit_respond(visit, 503, NULL);
    entry_unref(entry);
    return 0;
}

const tdg__http_request_t *tdg__route_http(const tdg__route_request_t *request) {
    return request->http;
}

const char *tdg__route_peer(const tdg__route_request_t *request) {
    return request->peer;
}

/* ---- Answering ---------------------------------------------------------- */

static struct reply *copy_reply(const struct reply *reply) {
    size_t type_len = reply->content_type != NULL ? strlen(reply->content_type) : 0;
    size_t fields_len = reply->fields != NULL ? strlen(reply->fields) : 0;
    struct reply *ret =
        tdg__malloc(sizeof(*ret) + type_len + fields_len + reply->len + 3);

    if (ret == NULL)
        return NULL;
    char *at = ret->data;
    *ret = *reply;
    if (reply->content_type != NULL)
        ret->content_type = tdg__text_pack(&at, reply->content_type, type_len);
    if (reply->fields != NULL)
        ret->fields = tdg__text_pack(&at, reply->fields, fields_len);
    if (reply->body != NULL)
        ret->body = tdg__text_pack(&at, reply->body, reply->len);
    return ret;
}

static void run_reply(tdg__task_t *task, bool here) {
    tdg__route_request_t *request = (tdg__route_request_t *)(void *)task;

    if (here && request->reply != NULL)
        respond(request, request->reply);
    else if (here)
        respond_plainly(request, 500);
    unref(request);
}

void tdg__route_reply(tdg__route_request_t *request, int status, const char *content_type,
                      const char *fields, const void *body, size_t len) {
    struct reply reply = {.status = status,
                          .content_type = content_type,
                          .fields = fields,
                          .body = body,
                          .len = body != NULL ? len : 0};
    bool twice = atomic_exchange_explicit(&request->answered, true, memory_order_relaxed);

    assert(!twice && "a request is answered once");
    assert(fields == NULL || strlen(fields) <= TDG__ROUTE_MAX_FIELDS);
    (void)twice;
    atomic_fetch_sub(&request->routes->unanswered, 1);
    if (tdg__worker_current() == request->worker) {
        respond(request, &reply);
        unref(request);
        return;
    }
    request->reply = copy_reply(&reply);
    request->task.run = run_reply;
    tdg__inbox_post(request->inbox, &request->task);
}
