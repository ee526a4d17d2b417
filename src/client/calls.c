/* SPDX-License-Identifier: MIT
 *
 * Requests. Each is written down until it has ended, because it may have to be sent more
 * than once: it waits for the session, is refused with a session that is gone, needs a
 * fresh token, or the server asks for more before it answers (input.c). Every sending
 * gets an id of its own.
 *
 * A request is sent again by itself only where it cannot have been processed, or where
 * doing it twice does no harm (`repeatable`), and then once.
 *
 * Time-outs are counted here, not in the wires: they include the wait for the session. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/calls_internal.h"

enum {
    LINGER_MS = 5000,       /* for a wire to end what has been answered */
    MAX_REQUEST = 64 << 20, /* bytes */
};

int tdg__calls_init(tdg__core_t *core) {
    core->calls = tdg__calloc(1, sizeof(*core->calls));
    return core->calls != NULL ? 0 : TDG_ENOMEM;
}

/* ---- The list of what is under way -------------------------------------- */

static void link_asked(struct tdg__calls *calls, tdg__asked_t *asked) {
    asked->prev = calls->last;
    if (calls->last != NULL)
        calls->last->next = asked;
    else
        calls->first = asked;
    calls->last = asked;
    calls->count++;
}

static void unlink_asked(struct tdg__calls *calls, tdg__asked_t *asked) {
    if (asked->prev != NULL)
        asked->prev->next = asked->next;
    else
        calls->first = asked->next;
    if (asked->next != NULL)
        asked->next->prev = asked->prev;
    else
        calls->last = asked->prev;
}

static void free_asked(tdg__asked_t *asked) {
    json_decref(asked->params);
    json_decref(asked->answers);
    tdg__tool_headers_done(&asked->headers);
    tdg__free(asked->method);
    tdg__free(asked->fail_why);
    tdg__free(asked);
}

/* Nothing more is expected: of whoever asked, and of the wire. */
void tdg__asked_remove(tdg__asked_t *asked) {
    struct tdg__calls *calls = asked->core->calls;

    if (asked->state != TDG__ASKED_OVER)
        calls->count--;
    unlink_asked(calls, asked);
    tdg__core_timer_done(asked->core, &asked->timer);
    free_asked(asked);
}

void tdg__calls_done(tdg__core_t *core) {
    if (core->calls == NULL)
        return;

    while (core->calls->first != NULL)
        tdg__asked_remove(core->calls->first);
    tdg__free(core->calls);
    core->calls = NULL;
}

/* ---- The end of a request ----------------------------------------------- */

bool tdg__asked_modern(const tdg__asked_t *asked) {
    return tdg__version_modern(asked->early ? asked->version : asked->core->version);
}

static void let_go(tdg__asked_t *asked) {
    if (asked->carry != NULL)
        asked->wire->ops->cancel(asked->wire, asked->carry);
    asked->carry = NULL;
}

void tdg__asked_finish(tdg__asked_t *asked, const tdg__outcome_t *outcome) {
    tdg__core_t *core = asked->core;
    tdg__asked_fn done = asked->done;
    void *user = asked->user;
    bool early = asked->early;

    if (asked->carry == NULL) {
        tdg__asked_remove(asked);
    } else {
        asked->state = TDG__ASKED_OVER;
        core->calls->count--;
        tdg__core_timer_at(core, &asked->timer, tdg__core_now(core) + LINGER_MS);
    }

    done(user, outcome);
    if (outcome->code != 0 && !early)
        tdg__connect_doubt(core, outcome);
}

void tdg__asked_failed(tdg__asked_t *asked, const tdg_failure_t *failure,
                       tdg__carry_end_t end, int64_t retry_after_ms) {
    const tdg__outcome_t outcome = {.code = failure->code,
                                    .failure = failure,
                                    .end = end,
                                    .retry_after_ms = retry_after_ms};

    tdg__asked_finish(asked, &outcome);
}

/* From the next tick, as whoever asked must not be called from inside. */
static void fail_later(tdg__asked_t *asked, int code, const char *why) {
    asked->state = TDG__ASKED_FAILED;
    asked->fail_code = code;
    asked->fail_why = tdg__strdup(why); /* without memory the code says it */
    tdg__core_timer_at(asked->core, &asked->timer, tdg__core_now(asked->core));
}

/* The server is told that nobody waits any more. Over HTTP, closing the connection does
 * that in the modern era, but not in the legacy one. What comes before the session is up
 * is not worth upsetting a server that does not expect notifications then. */
void tdg__asked_tell_cancelled(tdg__asked_t *asked, const char *reason) {
    json_t *params;

    if (asked->early || asked->carry == NULL ||
        (!asked->wire->ops->shared && tdg__asked_modern(asked)))
        return;

    params = json_pack("{s:I, s:s}", "requestId",
                       (json_int_t)strtoll(asked->id, NULL, 10), "reason", reason);
    if (params != NULL)
        tdg__core_notify(asked->core, "notifications/cancelled", params,
                         asked->core->version);
}

static void time_out(tdg__asked_t *asked) {
    tdg_failure_t failure;

    tdg__failure_set(&failure, TDG_ETIMEDOUT, "%s: no answer within %" PRIu32 " ms",
                     asked->method, asked->timeout_ms);
    tdg__asked_tell_cancelled(asked, "timed out");
    let_go(asked);
    tdg__asked_failed(asked, &failure, TDG__CARRY_TIMEOUT, -1);
}

/* ---- Sending ------------------------------------------------------------ */

/* The modern era has no ping. */
static const char *method_for(const tdg__asked_t *asked, tdg__version_t version) {
    if (tdg__version_modern(version) && strcmp(asked->method, "ping") == 0)
        return "server/discover";
    return asked->method;
}

static int compose(tdg__asked_t *asked, tdg__version_t version, tdg__text_t *text) {
    json_t *params = json_incref(asked->params);

    if (asked->answers != NULL) {
        json_decref(params);
        params = tdg__compose_copy(asked->params);
        if (params == NULL || json_object_update(params, asked->answers) < 0) {
            json_decref(params);
            return TDG_ENOMEM;
        }
    }

    tdg__compose_request(asked->core, text, asked->id, method_for(asked, version), params,
                         version);
    json_decref(params);
    return text->error;
}

static int send_text(tdg__asked_t *asked, tdg__version_t version,
                     const tdg__text_t *text) {
    tdg__core_t *core = asked->core;
    int64_t left = asked->deadline - tdg__core_now(core);
    const char *method = method_for(asked, version);
    const tdg__parcel_out_t out = {
        .id = asked->id,
        .method = method,
        .name = tdg__version_modern(version) ? tdg__compose_name(method, asked->params)
                                             : NULL,
        .params = asked->headers.fields,
        .param_count = tdg__version_modern(version) ? asked->headers.count : 0,
        .text = text->data,
        .len = text->len,
        .version = version,
        .stream = asked->stream != NULL,
        .timeout_ms = (uint32_t)(left > 0 ? left : 1),
    };

    asked->wire = core->wire;
    return core->wire->ops->send(core->wire, &out, &tdg__carried_calls, asked,
                                 &asked->carry);
}

static int try_to_send(tdg__asked_t *asked) {
    tdg__core_t *core = asked->core;
    tdg__version_t version = asked->early ? asked->version : core->version;
    tdg__text_t text;
    int rv;

    if (core->wire == NULL)
        return TDG_EAWAY;

    snprintf(asked->id, sizeof(asked->id), "%" PRIu64, ++core->calls->next_id);
    tdg__text_init(&text, MAX_REQUEST);
    rv = compose(asked, version, &text);
    if (rv == 0)
        rv = send_text(asked, version, &text);
    tdg__text_done(&text);
    if (rv == 0)
        core->counts.requests++;
    return rv;
}

/* A channel that all share may be lost before that is told: then it waits for the next.
 */
void tdg__asked_send(tdg__asked_t *asked) {
    int rv = try_to_send(asked);

    if (rv == 0)
        asked->state = TDG__ASKED_SENT;
    else if (rv == TDG_EAWAY && !asked->early && asked->stream == NULL)
        asked->state = TDG__ASKED_WAITING;
    else
        fail_later(asked, rv, tdg_strerror(rv));
}

void tdg__asked_start_time(tdg__asked_t *asked) {
    asked->deadline = tdg__core_now(asked->core) + asked->timeout_ms;
    tdg__core_timer_at(asked->core, &asked->timer, asked->deadline);
}

static void on_due(tdg__core_t *core, tdg__core_timer_t *timer) {
    tdg__asked_t *asked = (void *)((char *)timer - offsetof(tdg__asked_t, timer));
    tdg_failure_t failure;

    (void)core;
    switch (asked->state) {
    case TDG__ASKED_WAITING:
    case TDG__ASKED_SENT:
        time_out(asked);
        break;
    case TDG__ASKED_ROUND: /* the wire did not let go in time */
        let_go(asked);
        tdg__asked_start_time(asked);
        tdg__asked_send(asked);
        break;
    case TDG__ASKED_FAILED:
        tdg__failure_set(&failure, asked->fail_code, "%s: %s", asked->method,
                         asked->fail_why != NULL ? asked->fail_why
                                                 : tdg_strerror(asked->fail_code));
        tdg__asked_failed(asked, &failure, TDG__CARRY_AWAY, -1);
        break;
    case TDG__ASKED_OVER:
        let_go(asked);
        tdg__asked_remove(asked);
        break;
    }
}

/* ---- Asking ------------------------------------------------------------- */

static int copy_headers(tdg__asked_t *asked, const tdg__ask_t *ask) {
    for (size_t i = 0; i < ask->header_count; i++) {
        tdg__web_field_t *field = &asked->headers.fields[asked->headers.count++];

        field->name = tdg__strdup(ask->headers[i].name);
        field->value = tdg__strdup(ask->headers[i].value);
        if (field->name == NULL || field->value == NULL)
            return TDG_ENOMEM;
    }
    return 0;
}

/* A request that is written down but not begun; NULL: no memory. */
static tdg__asked_t *make_asked(tdg__core_t *core, const tdg__ask_t *ask) {
    tdg__asked_t *asked = tdg__calloc(1, sizeof(*asked));

    if (asked == NULL)
        return NULL;

    asked->core = core;
    asked->method = tdg__strdup(ask->method);
    asked->stream = ask->stream;
    asked->timeout_ms = ask->timeout_ms != 0 ? ask->timeout_ms : core->client->timeout_ms;
    asked->version = ask->version;
    asked->early = ask->early;
    if (asked->method == NULL || copy_headers(asked, ask) < 0 ||
        tdg__core_timer_init(core, &asked->timer, on_due) < 0) {
        free_asked(asked);
        return NULL;
    }

    link_asked(core->calls, asked);
    return asked;
}

int tdg__ask(tdg__core_t *core, const tdg__ask_t *ask, tdg__asked_fn done, void *user,
             tdg__asked_t **ret) {
    bool over = core->state >= TDG__CORE_STOPPING;
    tdg__asked_t *asked;

    assert(ask->header_count <= TDG__TOOL_MAX_HEADERS);
    if (core->calls->count >= TDG__CALLS_MAX && !ask->early) {
        json_decref(ask->params);
        return TDG_EAGAIN;
    }

    asked = make_asked(core, ask);
    if (asked == NULL) {
        json_decref(ask->params);
        return TDG_ENOMEM;
    }
    asked->params = ask->params;
    asked->done = done;
    asked->user = user;

    tdg__asked_start_time(asked);
    if (over)
        fail_later(asked, TDG_EENDED, "the client is being closed");
    else if (asked->early || tdg__calls_go(core))
        tdg__asked_send(asked);
    else
        asked->state = TDG__ASKED_WAITING;
    if (ret != NULL)
        *ret = asked;
    return 0;
}

void tdg__asked_drop(tdg__core_t *core, tdg__asked_t *asked) {
    (void)core;
    if (asked->state == TDG__ASKED_SENT)
        tdg__asked_tell_cancelled(asked, "not wanted any more");
    let_go(asked);
    tdg__asked_remove(asked);
}

const char *tdg__asked_id(const tdg__asked_t *asked) {
    return asked->id;
}

/* ---- All of them -------------------------------------------------------- */

void tdg__calls_fail(tdg__core_t *core, int code, const char *why, bool waiting_too) {
    for (tdg__asked_t *asked = core->calls->first; asked != NULL; asked = asked->next) {
        if (asked->early || asked->state == TDG__ASKED_FAILED ||
            asked->state == TDG__ASKED_OVER ||
            (asked->state == TDG__ASKED_WAITING && !waiting_too))
            continue;
        let_go(asked);
        fail_later(asked, code, why);
    }
}

/* A wire goes: what it still carries for nobody goes with it. */
void tdg__calls_forget_wire(tdg__core_t *core, const tdg__wire_t *wire) {
    tdg__asked_t *next;

    core->calls->loose = 0;
    for (tdg__asked_t *asked = core->calls->first; asked != NULL; asked = next) {
        next = asked->next;
        if (asked->carry == NULL || asked->wire != wire)
            continue;
        let_go(asked);
        if (asked->state == TDG__ASKED_OVER)
            tdg__asked_remove(asked);
        else if (asked->state == TDG__ASKED_ROUND)
            asked->state = TDG__ASKED_WAITING;
        else if (asked->state == TDG__ASKED_SENT)
            fail_later(asked, TDG_EAWAY, "the connection was closed");
    }
}

bool tdg__calls_go(const tdg__core_t *core) {
    return core->state == TDG__CORE_UP && !core->calls->held;
}

void tdg__calls_hold(tdg__core_t *core) {
    core->calls->held = true;
}

void tdg__calls_release(tdg__core_t *core) {
    if (!core->calls->held)
        return;
    core->calls->held = false;
    for (tdg__asked_t *asked = core->calls->first; asked != NULL; asked = asked->next) {
        if (asked->state == TDG__ASKED_WAITING)
            tdg__asked_send(asked);
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
    struct request request = *(struct request *)user;

    tdg__free(user);
    if (outcome->code == 0 && request.uri != NULL)
        tdg__reread_noted(request.core, json_string_value(request.uri),
                          json_object_get(outcome->result, "contents"));
    json_decref(request.uri);
    request.done(request.user, outcome->code, outcome->result, outcome->failure);
}

void tdg__core_refuse(tdg__core_done_fn done, void *user, int code) {
    tdg_failure_t failure;

    tdg__failure_set(&failure, code, "%s",
                     code == TDG_EAGAIN ? "too many requests are under way"
                                        : tdg_strerror(code));
    done(user, code, NULL, &failure);
}

void tdg__core_request(tdg__core_t *core, const char *method, json_t *params,
                       uint32_t timeout_ms, tdg__core_done_fn done, void *user) {
    const tdg__ask_t ask = {.method = method, .params = params, .timeout_ms = timeout_ms};
    struct request *request = tdg__malloc(sizeof(*request));
    json_t *uri =
        strcmp(method, "resources/read") == 0 ? json_object_get(params, "uri") : NULL;
    int rv = TDG_ENOMEM;

    uri = json_is_string(uri) ? json_incref(uri) : NULL;
    if (uri != NULL)
        tdg__reread_begun(core, json_string_value(uri));
    if (request == NULL) {
        json_decref(params);
    } else {
        *request = (struct request){core, uri, done, user};
        rv = tdg__ask(core, &ask, on_answered, request, NULL);
    }
    if (rv < 0) {
        json_decref(uri);
        tdg__free(request);
        tdg__core_refuse(done, user, rv);
    }
}
