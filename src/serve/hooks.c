/* SPDX-License-Identifier: MIT */
#include "serve/hooks.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "serve/handover.h"
#include "server/route.h"
#include "source/webhook.h"

#define TEXT "text/plain; charset=utf-8"

/* What a route has: all that is judged without the source, which may go any time. */
struct endpoint {
    tdg__live_t *live;
    tdg__hook_key_t key;
    const tdg__hook_answer_t *refusal;
    char body[]; /* of the refusal */
};

/* ---- A request ---------------------------------------------------------- */

struct visit {
    tdg__errand_t task;
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
static void run_visit(tdg__errand_t *task) {
    struct visit *visit = (struct visit *)task;
    const tdg__http_request_t *http = tdg__route_http(visit->request);
    tdg__source_t *source =
        task->refused ? NULL : tdg__live_hook(visit->live, http->path);

    if (task->refused) {
        answer(visit->request, 503, "Retry-After: 1\r\n", "the server is stopping");
    } else if (source == NULL) {
        answer(visit->request, 404, NULL, "there is nothing here any more");
    } else {
        tdg__hook_call_t call = {.body = http->body,
                                 .len = http->body_len,
                                 .field = field,
                                 .arg = http,
                                 .peer = tdg__route_peer(visit->request)};
        tdg__hook_answer_t said;

        source->kind->hook->handle(source, &call, &said);
        answer(visit->request, said.status, said.fields, said.text);
    }
    tdg__free(visit);
}

/* On a worker's thread, as those below. */
static void on_request(void *user, tdg__route_request_t *request) {
    const struct endpoint *endpoint = user;
    struct visit *visit = tdg__malloc(sizeof(*visit));

    if (visit == NULL) {
        answer(request, 503, "Retry-After: 1\r\n", "out of memory; try again");
        return;
    }
    *visit =
        (struct visit){.task.run = run_visit, .live = endpoint->live, .request = request};
    tdg__live_post(endpoint->live, &visit->task);
}

/* ---- A head ------------------------------------------------------------- */

/* The source hears of a request that was refused, for the log. */
struct note {
    tdg__errand_t task;
    tdg__live_t *live;
    char *path; /* behind the peer */
    char peer[];
};

static void run_note(tdg__errand_t *task) {
    struct note *note = (struct note *)task;
    tdg__source_t *source = task->refused ? NULL : tdg__live_hook(note->live, note->path);

    if (source != NULL)
        source->kind->hook->refused(source, note->peer);
    tdg__free(note);
}

/* Without memory for it, the log says less. */
static void report_refused(tdg__live_t *live, const char *path, const char *peer) {
    size_t peer_size = strlen(peer) + 1, path_size = strlen(path) + 1;
    struct note *note = tdg__malloc(sizeof(*note) + peer_size + path_size);

    if (note == NULL)
        return;
    note->task = (tdg__errand_t){.run = run_note};
    note->live = live;
    memcpy(note->peer, peer, peer_size);
    note->path = memcpy(note->peer + peer_size, path, path_size);
    tdg__live_post(live, &note->task);
}

static bool admit(void *user, const tdg__http_request_t *head, const char *peer,
                  tdg__route_refusal_t *ret_why) {
    const struct endpoint *endpoint = user;
    int fits = tdg__hook_key_fits(&endpoint->key, tdg__http_field(head, "authorization"));

    if (fits > 0)
        return true;
    *ret_why = (tdg__route_refusal_t){.status = 503, .fields = "Retry-After: 1\r\n"};
    if (fits == 0) {
        *ret_why = (tdg__route_refusal_t){.status = endpoint->refusal->status,
                                          .content_type = TEXT,
                                          .fields = endpoint->refusal->fields,
                                          .body = endpoint->body};
        report_refused(endpoint->live, head->path, peer);
    }
    return false;
}

/* ---- Endpoints come and go ---------------------------------------------- */

static int create_endpoint(tdg__live_t *live, const tdg__source_t *source,
                           struct endpoint **ret) {
    const struct tdg__hook_ops *hook = source->kind->hook;
    size_t len = strlen(hook->refusal->text);
    struct endpoint *endpoint = tdg__malloc(sizeof(*endpoint) + len + 2);

    if (endpoint == NULL)
        return TDG_ENOMEM;
    endpoint->live = live;
    endpoint->refusal = hook->refusal;
    sprintf(endpoint->body, "%s\n", hook->refusal->text);
    if (hook->key(source, &endpoint->key) < 0) {
        tdg__free(endpoint);
        return TDG_ENOMEM;
    }
    *ret = endpoint;
    return 0;
}

int tdg__hooks_add(tdg__live_t *live, tdg_server_t *server, tdg__source_t *source) {
    const struct tdg__hook_ops *hook = source->kind->hook;

    if (hook == NULL)
        return 0;

    struct endpoint *endpoint;
    int rv = create_endpoint(live, source, &endpoint);
    if (rv < 0)
        return rv;

    tdg__route_t route = {.path = hook->path(source),
                          .methods = 1u << TDG__HTTP_POST,
                          .max_body_bytes = hook->max_body(source),
                          .admit = admit,
                          .handler = on_request,
                          .release = tdg__free,
                          .user = endpoint};

    rv = tdg__server_route(server, &route);
    if (rv < 0)
        tdg__free(endpoint);
    return rv;
}

void tdg__hooks_remove(tdg__live_t *live, tdg_server_t *server, tdg__source_t *source) {
    const struct tdg__hook_ops *hook = source->kind->hook;
    const tdg__source_t *owner =
        hook != NULL ? tdg__live_hook(live, hook->path(source)) : NULL;

    if (hook != NULL && (owner == NULL || owner == source))
        tdg__server_unroute(server, hook->path(source));
}
