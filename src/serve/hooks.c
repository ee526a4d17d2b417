/* SPDX-License-Identifier: MIT */
#include "serve/hooks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/network.h"
#include "source/push/webhook.h"

#define TEXT "text/plain; charset=utf-8"

/* What a route has: all that is judged without the source, which may go any time. */
struct endpoint {
    tdg__task_t report; /* first; on its way while `refused` is not 0 */
    atomic_size_t refs; /* the route, and the report on its way */
    tdg__live_t *live;
    char *path; /* behind the body */
    tdg__hook_key_t key;

    pthread_mutex_t lock;         /* for these two, which all workers write */
    uint64_t refused;             /* calls, by their heads, since the last report */
    char peer[TDG__ADDRESS_TEXT]; /* of the last of them */
    char body[];                  /* of the refusal */
};

static void endpoint_unref(struct endpoint *endpoint) {
    if (atomic_fetch_sub_explicit(&endpoint->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&endpoint->lock);
    tdg__free(endpoint);
}

/* ---- A request ---------------------------------------------------------- */

struct visit {
    tdg__task_t task;
    tdg__live_t *live;
    tdg__route_request_t *request;
};

static void answer(tdg__route_request_t *request, int status, const char *fields,
                   const char *text) {
    char body[200];

    snprintf(body, sizeof(body), "%s\n", text);
    tdg__route_reply(request, status, TEXT, fields, body, strlen(body));
}

static const char *field(const void *arg, const char *name) {
    return tdg__http_field(arg, name);
}

/* On the loop of the sources; or, refused, anywhere. */
static void run_visit(tdg__task_t *task, bool here) {
    struct visit *visit = (struct visit *)task;
    const tdg__http_request_t *http = tdg__route_http(visit->request);
    tdg__source_t *source = here ? tdg__live_hook(visit->live, http->path) : NULL;

    if (!here) {
        answer(visit->request, 503, "Retry-After: 1\r\n", "the server is stopping");
    } else if (source == NULL) {
        answer(visit->request, 404, NULL, "this endpoint was removed");
    } else {
        tdg__hook_call_t call = {.body = http->body,
                                 .len = http->body_len,
                                 .field = field,
                                 .arg = http,
                                 .peer = tdg__route_peer(visit->request)};
        tdg__hook_answer_t reply = tdg__webhook_handle(source, &call);

        answer(visit->request, reply.status, reply.fields, reply.text);
    }
    tdg__free(visit);
}

/* On a worker's thread, as those below. */
static void on_request(void *user, tdg__route_request_t *request) {
    const struct endpoint *endpoint = user;
    struct visit *visit = tdg__malloc(sizeof(*visit));

    if (visit == NULL) {
        answer(request, 503, "Retry-After: 1\r\n", "out of memory; retry");
        return;
    }
    *visit =
        (struct visit){.task.run = run_visit, .live = endpoint->live, .request = request};
    tdg__live_post(endpoint->live, &visit->task);
}

/* ---- A head ------------------------------------------------------------- */

/* The source logs the calls that were refused. On the loop of the
 * sources; or, refused, anywhere. A reload may have removed the route meanwhile. */
static void run_report(tdg__task_t *task, bool here) {
    struct endpoint *endpoint = (struct endpoint *)task;
    char peer[TDG__ADDRESS_TEXT];

    pthread_mutex_lock(&endpoint->lock);
    uint64_t count = endpoint->refused;
    endpoint->refused = 0;
    memcpy(peer, endpoint->peer, sizeof(peer));
    pthread_mutex_unlock(&endpoint->lock);

    tdg__source_t *source = here ? tdg__live_hook(endpoint->live, endpoint->path) : NULL;
    if (source != NULL)
        tdg__webhook_refused(source, count, peer);
    endpoint_unref(endpoint);
}

/* One report for all calls that are refused before it runs: the loop may be busy, and
 * callers do not wait for it. */
static void report_refused(struct endpoint *endpoint, const char *peer) {
    pthread_mutex_lock(&endpoint->lock);
    bool first = endpoint->refused++ == 0;
    snprintf(endpoint->peer, sizeof(endpoint->peer), "%s", peer);
    pthread_mutex_unlock(&endpoint->lock);

    if (first) {
        atomic_fetch_add_explicit(&endpoint->refs, 1, memory_order_relaxed);
        tdg__live_post(endpoint->live, &endpoint->report);
    }
}

static bool admit(void *user, const tdg__http_request_t *head, const char *peer,
                  tdg__route_refusal_t *ret_why) {
    struct endpoint *endpoint = user;
    int fits = tdg__hook_key_fits(&endpoint->key, tdg__http_field(head, "authorization"),
                                  tdg__http_field(head, "x-hub-signature-256"));

    if (fits > 0)
        return true;
    *ret_why = (tdg__route_refusal_t){.status = 503, .fields = "Retry-After: 1\r\n"};
    if (fits == 0) {
        *ret_why = (tdg__route_refusal_t){.status = tdg__webhook_refusal.status,
                                          .content_type = TEXT,
                                          .fields = tdg__webhook_refusal.fields,
                                          .body = endpoint->body};
        report_refused(endpoint, peer);
    }
    return false;
}

/* ---- Endpoints come and go ---------------------------------------------- */

static int create_endpoint(tdg__live_t *live, const tdg__source_t *source,
                           struct endpoint **ret) {
    const char *path = tdg__webhook_path(source);
    size_t body_size = strlen(tdg__webhook_refusal.text) + 2;
    struct endpoint *endpoint =
        tdg__malloc(sizeof(*endpoint) + body_size + strlen(path) + 1);

    if (endpoint == NULL)
        return TDG_ENOMEM;
    *endpoint = (struct endpoint){.report.run = run_report, .live = live};
    atomic_init(&endpoint->refs, 1);
    sprintf(endpoint->body, "%s\n", tdg__webhook_refusal.text);
    endpoint->path = strcpy(endpoint->body + body_size, path);
    if (tdg__webhook_key(source, &endpoint->key) < 0 ||
        pthread_mutex_init(&endpoint->lock, NULL) != 0) {
        tdg__free(endpoint);
        return TDG_ENOMEM;
    }
    *ret = endpoint;
    return 0;
}

static void release_endpoint(void *user) {
    endpoint_unref(user);
}

int tdg__hooks_prepare(tdg__live_t *live, const tdg__source_t *source,
                       tdg__route_entry_t **ret) {
    const char *path = tdg__webhook_path(source);

    if (path == NULL) {
        *ret = NULL;
        return 0;
    }

    struct endpoint *endpoint;
    int rv = create_endpoint(live, source, &endpoint);
    if (rv < 0)
        return rv;

    tdg__route_t route = {.path = path,
                          .methods = 1u << TDG__HTTP_POST,
                          .max_body_bytes = (size_t)source->entry.max_size,
                          .admit = admit,
                          .handler = on_request,
                          .release = release_endpoint,
                          .user = endpoint};

    rv = tdg__route_prepare(&route, ret);
    if (rv < 0)
        endpoint_unref(endpoint);
    return rv;
}

int tdg__hooks_add(tdg_server_t *server, tdg__route_entry_t *prepared) {
    int rv = prepared != NULL ? tdg__server_put_route(server, prepared) : 0;

    if (rv < 0)
        tdg__route_abandon(prepared);
    return rv;
}

void tdg__hooks_remove(tdg__live_t *live, tdg_server_t *server, tdg__source_t *source) {
    const char *path = tdg__webhook_path(source);
    const tdg__source_t *owner = path != NULL ? tdg__live_hook(live, path) : NULL;

    if (path != NULL && (owner == NULL || owner == source))
        tdg__server_unroute(server, path);
}
