/* SPDX-License-Identifier: MIT
 *
 * Requests. Each is stored until it has ended, because it may have to be sent again: it
 * waits for the session, its session was lost, it needs a new token, or the server
 * requests input before it answers (input.c). Every sending has its own id.
 *
 * A request is repeated automatically only if it cannot have been processed, or if
 * processing it twice does no harm (`repeatable`), and only once.
 *
 * Time-outs are counted here, not in the transports: they include the wait for the
 * session. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/session/requests.h"

enum {
    LINGER_MS = 5000,       /* for a transport to end what has been answered */
    MAX_REQUEST = 64 << 20, /* bytes */
};

int tdg__client_requests_init(tdg__core_t *core) {
    core->requests = tdg__calloc(1, sizeof(*core->requests));
    if (core->requests == NULL)
        return TDG_ENOMEM;
    tdg__queue_init(&core->requests->all);
    return 0;
}

/* ---- The list of what is under way -------------------------------------- */

static tdg__client_request_t *request_at(const tdg__queue_t *link) {
    return TDG__RECORD(tdg__client_request_t, in_requests, link);
}

static void free_request(tdg__client_request_t *request) {
    json_decref(request->params);
    json_decref(request->answers);
    tdg__tool_headers_done(&request->headers);
    tdg__free(request->method);
    tdg__free(request->fail_why);
    tdg__free(request);
}

/* Nothing more is expected: of whoever asked, and of the transport. */
void tdg__client_request_remove(tdg__client_request_t *request) {
    if (request->state != TDG__CLIENT_REQUEST_OVER)
        request->core->requests->count--;
    tdg__queue_remove(&request->in_requests);
    tdg__core_timer_done(request->core, &request->timer);
    free_request(request);
}

void tdg__client_requests_done(tdg__core_t *core) {
    if (core->requests == NULL)
        return;

    while (!tdg__queue_is_empty(&core->requests->all))
        tdg__client_request_remove(request_at(core->requests->all.next));
    tdg__free(core->requests);
    core->requests = NULL;
}

/* ---- The end of a request ----------------------------------------------- */

bool tdg__client_request_modern(const tdg__client_request_t *request) {
    return tdg__version_modern(request->early ? request->version
                                              : request->core->version);
}

static void let_go(tdg__client_request_t *request) {
    if (request->delivery != NULL)
        request->transport->ops->cancel(request->transport, request->delivery);
    request->delivery = NULL;
}

void tdg__client_request_finish(tdg__client_request_t *request,
                                const tdg__outcome_t *outcome) {
    tdg__core_t *core = request->core;
    tdg__outcome_fn done = request->done;
    void *user = request->user;
    bool early = request->early;

    if (request->delivery == NULL) {
        tdg__client_request_remove(request);
    } else {
        request->state = TDG__CLIENT_REQUEST_OVER;
        core->requests->count--;
        tdg__core_timer_at(core, &request->timer, tdg__core_now(core) + LINGER_MS);
    }

    done(user, outcome);
    if (outcome->code != 0 && !early)
        tdg__doubt_outcome(core, outcome);
}

void tdg__client_request_failed(tdg__client_request_t *request,
                                const tdg_failure_t *failure, tdg__delivery_end_t end,
                                int64_t retry_after_ms) {
    const tdg__outcome_t outcome = {.code = failure->code,
                                    .failure = failure,
                                    .end = end,
                                    .retry_after_ms = retry_after_ms};

    tdg__client_request_finish(request, &outcome);
}

/* From the next tick, as whoever asked must not be called from inside. */
static void fail_later(tdg__client_request_t *request, int code, const char *why) {
    request->state = TDG__CLIENT_REQUEST_FAILED;
    request->fail_code = code;
    request->fail_why = tdg__strdup(why); /* without memory the code says it */
    tdg__core_timer_at(request->core, &request->timer, tdg__core_now(request->core));
}

/* The server is notified that nobody waits any more. Over HTTP, closing the connection
 * does that in the modern era, but not in the legacy one. What comes before the session
 * is up is not worth upsetting a server that does not expect notifications then. */
void tdg__client_request_tell_cancelled(tdg__client_request_t *request,
                                        const char *reason) {
    json_t *params;

    if (request->early || request->delivery == NULL ||
        (!request->transport->ops->shared && tdg__client_request_modern(request)))
        return;

    params = json_pack("{s:I, s:s}", "requestId",
                       (json_int_t)strtoll(request->id, NULL, 10), "reason", reason);
    if (params != NULL)
        tdg__core_notify(request->core, "notifications/cancelled", params,
                         request->core->version);
}

static void time_out(tdg__client_request_t *request) {
    tdg_failure_t failure;

    tdg__failure_set(&failure, TDG_ETIMEDOUT, "%s: no answer within %" PRIu32 " ms",
                     request->method, request->timeout_ms);
    tdg__client_request_tell_cancelled(request, "timed out");
    let_go(request);
    tdg__client_request_failed(request, &failure, TDG__DELIVERY_TIMEOUT, -1);
}

/* ---- Sending ------------------------------------------------------------ */

/* The modern era has no ping. */
static const char *method_for(const tdg__client_request_t *request,
                              tdg__version_t version) {
    if (tdg__version_modern(version) && strcmp(request->method, "ping") == 0)
        return "server/discover";
    return request->method;
}

static int compose(tdg__client_request_t *request, tdg__version_t version,
                   tdg__text_t *text) {
    json_t *params = json_incref(request->params);

    if (request->answers != NULL) {
        json_decref(params);
        params = tdg__compose_copy(request->params);
        if (params == NULL || json_object_update(params, request->answers) < 0) {
            json_decref(params);
            return TDG_ENOMEM;
        }
    }

    tdg__compose_request(request->core, text, request->id, method_for(request, version),
                         params, version);
    json_decref(params);
    return text->error;
}

static int send_text(tdg__client_request_t *request, tdg__version_t version,
                     const tdg__text_t *text) {
    tdg__core_t *core = request->core;
    const char *method = method_for(request, version);
    const tdg__outgoing_t out = {
        .id = request->id,
        .method = method,
        .name = tdg__version_modern(version) ? tdg__compose_name(method, request->params)
                                             : NULL,
        .params = request->headers.fields,
        .param_count = tdg__version_modern(version) ? request->headers.count : 0,
        .text = text->data,
        .len = text->len,
        .version = version,
        .stream = request->stream != NULL,
    };

    request->transport = core->transport;
    return core->transport->ops->send(core->transport, &out,
                                      &tdg__client_request_delivery_calls, request,
                                      &request->delivery);
}

static int try_to_send(tdg__client_request_t *request) {
    tdg__core_t *core = request->core;
    tdg__version_t version = request->early ? request->version : core->version;
    tdg__text_t text;
    int rv;

    if (core->transport == NULL)
        return TDG_EUNREACHABLE;

    snprintf(request->id, sizeof(request->id), "%" PRIu64, ++core->requests->next_id);
    tdg__text_init(&text, MAX_REQUEST);
    rv = compose(request, version, &text);
    if (rv == 0)
        rv = send_text(request, version, &text);
    tdg__text_done(&text);
    if (rv == 0)
        core->counts.requests++;
    return rv;
}

/* A channel that all share may be lost before that is reported: then it waits for the
 * next. */
void tdg__client_request_send(tdg__client_request_t *request) {
    int rv = try_to_send(request);

    if (rv == 0)
        request->state = TDG__CLIENT_REQUEST_SENT;
    else if (rv == TDG_EUNREACHABLE && !request->early && request->stream == NULL)
        request->state = TDG__CLIENT_REQUEST_WAITING;
    else
        fail_later(request, rv, tdg_strerror(rv));
}

void tdg__client_request_start_time(tdg__client_request_t *request) {
    request->deadline = tdg__core_now(request->core) + request->timeout_ms;
    tdg__core_timer_at(request->core, &request->timer, request->deadline);
}

static void on_due(tdg__core_t *core, tdg__core_timer_t *timer) {
    tdg__client_request_t *request =
        (void *)((char *)timer - offsetof(tdg__client_request_t, timer));
    tdg_failure_t failure;

    (void)core;
    switch (request->state) {
    case TDG__CLIENT_REQUEST_WAITING:
    case TDG__CLIENT_REQUEST_SENT:
        time_out(request);
        break;
    case TDG__CLIENT_REQUEST_ROUND: /* the transport did not let go in time */
        let_go(request);
        tdg__client_request_start_time(request);
        tdg__client_request_send(request);
        break;
    case TDG__CLIENT_REQUEST_FAILED:
        tdg__failure_set(&failure, request->fail_code, "%s: %s", request->method,
                         request->fail_why != NULL ? request->fail_why
                                                   : tdg_strerror(request->fail_code));
        tdg__client_request_failed(request, &failure, TDG__DELIVERY_AWAY, -1);
        break;
    case TDG__CLIENT_REQUEST_OVER:
        let_go(request);
        tdg__client_request_remove(request);
        break;
    }
}

/* ---- Asking ------------------------------------------------------------- */

/* A request that is written down but not begun; NULL: no memory. */
static tdg__client_request_t *make_request(tdg__core_t *core,
                                           const tdg__client_request_opts_t *wanted) {
    tdg__client_request_t *request = tdg__calloc(1, sizeof(*request));

    if (request == NULL)
        return NULL;

    request->core = core;
    request->method = tdg__strdup(wanted->method);
    request->stream = wanted->stream;
    request->timeout_ms =
        wanted->timeout_ms != 0 ? wanted->timeout_ms : core->client->timeout_ms;
    request->version = wanted->version;
    request->early = wanted->early;
    if (request->method == NULL ||
        tdg__core_timer_init(core, &request->timer, on_due) < 0) {
        free_request(request);
        return NULL;
    }

    tdg__queue_append(&core->requests->all, &request->in_requests);
    core->requests->count++;
    return request;
}

int tdg__client_request_begin(tdg__core_t *core, const tdg__client_request_opts_t *wanted,
                              tdg__outcome_fn done, void *user,
                              tdg__client_request_t **ret) {
    bool full = core->requests->count >= TDG__REQUESTS_MAX && !wanted->early;
    tdg__client_request_t *request = full ? NULL : make_request(core, wanted);

    if (request == NULL) {
        json_decref(wanted->params);
        if (wanted->headers != NULL)
            tdg__tool_headers_done(wanted->headers);
        return full ? TDG_EAGAIN : TDG_ENOMEM;
    }
    request->params = wanted->params;
    if (wanted->headers != NULL)
        request->headers = *wanted->headers;
    request->done = done;
    request->user = user;

    tdg__client_request_start_time(request);
    if (core->state >= TDG__CORE_STOPPING)
        fail_later(request, TDG_EENDED, "the client is being closed");
    else if (request->early || tdg__client_requests_go(core))
        tdg__client_request_send(request);
    else
        request->state = TDG__CLIENT_REQUEST_WAITING;
    if (ret != NULL)
        *ret = request;
    return 0;
}

void tdg__client_request_drop(tdg__client_request_t *request) {
    if (request->state == TDG__CLIENT_REQUEST_SENT)
        tdg__client_request_tell_cancelled(request, "no longer needed");
    let_go(request);
    tdg__client_request_remove(request);
}

const char *tdg__client_request_id(const tdg__client_request_t *request) {
    return request->id;
}

/* ---- All of them -------------------------------------------------------- */

void tdg__client_requests_fail(tdg__core_t *core, int code, const char *why,
                               bool waiting_too) {
    for (tdg__queue_t *at = core->requests->all.next; at != &core->requests->all;
         at = at->next) {
        tdg__client_request_t *request = request_at(at);

        if (request->early || request->state == TDG__CLIENT_REQUEST_FAILED ||
            request->state == TDG__CLIENT_REQUEST_OVER ||
            (request->state == TDG__CLIENT_REQUEST_WAITING && !waiting_too))
            continue;
        let_go(request);
        fail_later(request, code, why);
    }
}

/* A transport goes: what it still carries for nobody goes with it. */
void tdg__client_requests_forget_wire(tdg__core_t *core,
                                      const tdg__transport_t *transport) {
    tdg__queue_t *next;

    core->requests->loose = 0;
    for (tdg__queue_t *at = core->requests->all.next; at != &core->requests->all;
         at = next) {
        tdg__client_request_t *request = request_at(at);

        next = at->next;
        if (request->delivery == NULL || request->transport != transport)
            continue;
        let_go(request);
        if (request->state == TDG__CLIENT_REQUEST_OVER)
            tdg__client_request_remove(request);
        else if (request->state == TDG__CLIENT_REQUEST_ROUND)
            request->state = TDG__CLIENT_REQUEST_WAITING;
        else if (request->state == TDG__CLIENT_REQUEST_SENT)
            fail_later(request, TDG_EUNREACHABLE, "the connection was closed");
    }
}

bool tdg__client_requests_go(const tdg__core_t *core) {
    return core->state == TDG__CORE_UP && !core->requests->held;
}

void tdg__client_requests_hold(tdg__core_t *core) {
    core->requests->held = true;
}

void tdg__client_requests_release(tdg__core_t *core) {
    if (!core->requests->held)
        return;
    core->requests->held = false;
    for (tdg__queue_t *at = core->requests->all.next; at != &core->requests->all;
         at = at->next) {
        if (request_at(at)->state == TDG__CLIENT_REQUEST_WAITING)
            tdg__client_request_send(request_at(at));
    }
}

/* ---- Requests of whoever owns the core ---------------------------------- */

struct request {
    tdg__core_t *core;
    json_t *uri; /* of a read; else NULL */
    tdg__core_done_fn done;
    void *user;
};

static void on_answered(void *user, const tdg__outcome_t *outcome) {
    struct request *request = user;

    if (outcome->code == 0 && request->uri != NULL)
        request->core->opts.upper->read_noted(
            request->core, json_string_value(request->uri),
            json_object_get(outcome->result, "contents"));
    request->done(request->user, outcome->code, outcome->result, outcome->failure);
    json_decref(request->uri);
    tdg__free(request);
}

void tdg__core_refuse(tdg__core_done_fn done, void *user, int code) {
    tdg_failure_t failure;

    done(user, code, NULL,
         tdg__failure_set(&failure, code, "%s",
                          code == TDG_EAGAIN ? "too many requests are waiting"
                                             : tdg_strerror(code)));
}

void tdg__core_request(tdg__core_t *core, const char *method, json_t *params,
                       uint32_t timeout_ms, tdg__core_done_fn done, void *user) {
    const tdg__client_request_opts_t wanted = {
        .method = method, .params = params, .timeout_ms = timeout_ms};
    struct request *request = tdg__malloc(sizeof(*request));
    json_t *uri =
        strcmp(method, "resources/read") == 0 ? json_object_get(params, "uri") : NULL;
    int rv = TDG_ENOMEM;

    uri = json_is_string(uri) ? json_incref(uri) : NULL;
    if (uri != NULL)
        core->opts.upper->read_begun(core, json_string_value(uri));
    if (request == NULL) {
        json_decref(params);
    } else {
        *request = (struct request){core, uri, done, user};
        rv = tdg__client_request_begin(core, &wanted, on_answered, request, NULL);
    }
    if (rv < 0) {
        json_decref(uri);
        tdg__free(request);
        tdg__core_refuse(done, user, rv);
    }
}
