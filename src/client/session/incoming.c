/* SPDX-License-Identifier: MIT
 *
 * Dispatches arriving messages: responses to their requests, requests of the server to
 * input.c, notifications to their stream or to updates.c. Also sends messages that get no
 * response. */
#include <stdlib.h>
#include <string.h>

#include <tidings/error.h>

#include "client/session/requests.h"

enum {
    MAX_TEXT = 64 << 20, /* bytes of a notification or response of ours */
    LOOSE_TIMEOUT_MS = 10000,
};

/* ---- Answers ------------------------------------------------------------ */

static void finish_with_failure(tdg__client_request_t *request,
                                const tdg_failure_t *failure) {
    tdg__client_request_failed(request, failure, TDG__DELIVERY_DONE, -1);
}

static void ask_once_more(tdg__client_request_t *request, const json_t *result) {
    tdg_failure_t failure;
    int rv;

    rv = tdg__input_round(request, result, &failure);
    if (rv < 0) {
        finish_with_failure(request, &failure);
        return;
    }

    /* Sent when the transport has let go of the answer; or soon, where it does not. */
    request->state = TDG__CLIENT_REQUEST_ROUND;
    tdg__core_timer_at(request->core, &request->timer,
                       tdg__core_now(request->core) + 100);
}

static void finish_with_result(tdg__client_request_t *request, json_t *result) {
    const tdg__outcome_t outcome = {
        .result = result, .end = TDG__DELIVERY_DONE, .retry_after_ms = -1};
    const json_t *type = json_object_get(result, "resultType");
    const char *name = json_string_value(type);
    tdg_failure_t failure;

    if (!json_is_object(result)) {
        finish_with_failure(request, tdg__failure_set(&failure, TDG_EJSON,
                                                      "%s: the result is not an object",
                                                      request->method));
    } else if (!tdg__client_request_modern(request) || type == NULL ||
               (name != NULL && strcmp(name, "complete") == 0)) {
        tdg__client_request_finish(request, &outcome);
    } else if (name != NULL && strcmp(name, "input_required") == 0) {
        ask_once_more(request, result);
    } else {
        finish_with_failure(request, tdg__failure_set(&failure, TDG_EJSON,
                                                      "%s: a result of an unknown type",
                                                      request->method));
    }
}

static tdg__client_request_t *find_request(tdg__core_t *core, tdg__client_request_t *on,
                                           const char *id) {
    if (on != NULL && on->state == TDG__CLIENT_REQUEST_SENT && strcmp(on->id, id) == 0)
        return on;
    for (tdg__queue_t *at = core->requests->all.next; at != &core->requests->all;
         at = at->next) {
        tdg__client_request_t *request =
            TDG__RECORD(tdg__client_request_t, in_requests, at);

        if (request->state == TDG__CLIENT_REQUEST_SENT && strcmp(request->id, id) == 0)
            return request;
    }
    return NULL;
}

static void take_response(tdg__core_t *core, tdg__client_request_t *on,
                          const tdg__rpc_message_t *message) {
    json_t *result = json_object_get(message->root, "result");
    tdg__client_request_t *request = find_request(core, on, message->id);
    tdg_failure_t failure;

    /* An error without an id can only be about what it came with. */
    if (request == NULL && result == NULL && message->id[0] == '\0' && on != NULL &&
        on->state == TDG__CLIENT_REQUEST_SENT)
        request = on;
    if (request == NULL) {
        tdg__core_odd(core, TDG__ODD_ANSWER, "ignored a response without a request");
        return;
    }

    if (result != NULL) {
        finish_with_result(request, result);
        return;
    }
    tdg__failure_rpc(&failure, request->method, json_object_get(message->root, "error"));
    finish_with_failure(request, &failure);
}

/* ---- Notifications ------------------------------------------------------ */

/* On a channel that all share, the subscription's id says which stream is meant. */
static tdg__client_request_t *find_stream(tdg__core_t *core, tdg__client_request_t *on,
                                          const tdg__rpc_message_t *message) {
    const json_t *meta = json_object_get(message->params, "_meta");
    const json_t *value = json_object_get(meta, "io.modelcontextprotocol/subscriptionId");
    char id[TDG__RPC_MAX_ID + 1];
    tdg__client_request_t *request;

    if (on != NULL)
        return on->stream != NULL && on->state == TDG__CLIENT_REQUEST_SENT ? on : NULL;
    if (value == NULL || tdg__rpc_id_text(value, id) != NULL)
        return NULL;

    request = find_request(core, NULL, id);
    return request != NULL && request->stream != NULL ? request : NULL;
}

void tdg__incoming_message(tdg__core_t *core, tdg__client_request_t *on,
                           tdg__rpc_message_t *message) {
    tdg__client_request_t *stream;

    switch (message->kind) {
    case TDG__RPC_RESPONSE:
        take_response(core, on, message);
        break;
    case TDG__RPC_REQUEST:
        tdg__input_request(core, message);
        break;
    case TDG__RPC_NOTIFICATION:
        stream = find_stream(core, on, message);
        if (stream != NULL)
            stream->stream->message(stream->user, message);
        else
            core->opts.upper->notification(core, on, message);
        break;
    }
}

/* ---- Messages of ours without an answer --------------------------------- */

void tdg__incoming_loose(void *core, tdg__rpc_message_t *message) {
    tdg__incoming_message(core, NULL, message);
}

static void loose_ended(void *user, const tdg__delivery_report_t *report) {
    tdg__core_t *core = user;

    (void)report;
    core->requests->loose--;
}

static void send_loose(tdg__core_t *core, const char *method, const tdg__text_t *text,
                       tdg__version_t version) {
    static const tdg__delivery_calls_t calls = {.message = tdg__incoming_loose,
                                                .ended = loose_ended};
    const tdg__outgoing_t out = {
        .method = method,
        .text = text->data,
        .len = text->len,
        .version = version,
        .timeout_ms = LOOSE_TIMEOUT_MS,
    };
    tdg__delivery_t *delivery;

    if (text->error != 0 || core->transport == NULL ||
        core->requests->loose >= TDG__REQUESTS_MAX_LOOSE) {
        tdg__core_odd(core, TDG__ODD_REQUEST, "could not send %s",
                      method != NULL ? method : "an answer");
        return;
    }
    if (core->transport->ops->send(core->transport, &out, &calls, core, &delivery) == 0)
        core->requests->loose++;
}

void tdg__core_notify(tdg__core_t *core, const char *method, json_t *params,
                      tdg__version_t version) {
    tdg__text_t text;

    tdg__text_init(&text, MAX_TEXT);
    tdg__rpc_put_notification(&text, method, params);
    send_loose(core, method, &text, version);
    tdg__text_done(&text);
    json_decref(params);
}

void tdg__core_respond(tdg__core_t *core, const tdg__text_t *text) {
    send_loose(core, NULL, text, core->version);
}
