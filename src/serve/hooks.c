/* SPDX-License-Identifier: MIT */
#include "serve/hooks.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "serve/handover.h"
#include "server/route.h"
#include "source/webhook.h"

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
    tdg__route_reply(request, status, "text/plain; charset=utf-8", fields, body,
                     strlen(body));
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

/* On a worker's thread. */
static void on_request(void *user, tdg__route_request_t *request) {
    struct visit *visit = tdg__malloc(sizeof(*visit));

    if (visit == NULL) {
        answer(request, 503, "Retry-After: 1\r\n", "out of memory; try again");
        return;
    }
    *visit = (struct visit){.task.run = run_visit, .live = user, .request = request};
    tdg__live_post(user, &visit->task);
}

/* ---- Endpoints come and go ---------------------------------------------- */

int tdg__hooks_add(tdg__live_t *live, tdg_server_t *server, tdg__source_t *source) {
    const struct tdg__hook_ops *hook = source->kind->hook;

    if (hook == NULL)
        return 0;

    tdg__route_t route = {.path = hook->path(source),
                          .methods = 1u << TDG__HTTP_POST,
                          .max_body_bytes = hook->max_body(source),
                          .handler = on_request,
                          .user = live};

    return tdg__server_route(server, &route);
}

void tdg__hooks_remove(tdg__live_t *live, tdg_server_t *server, tdg__source_t *source) {
    const struct tdg__hook_ops *hook = source->kind->hook;
    const tdg__source_t *owner =
        hook != NULL ? tdg__live_hook(live, hook->path(source)) : NULL;

    if (hook != NULL && (owner == NULL || owner == source))
        tdg__server_unroute(server, hook->path(source));
}
