/* SPDX-License-Identifier: MIT
 *
 * Input that a server requests. A legacy server sends requests of its own; a modern one
 * answers "input_required", and gets the input with a repeated request. In both cases
 * `opts.input` is called; without it, the client does not advertise the capability. */
#include <string.h>

#include <tidings/error.h>

#include "client/session/requests.h"

enum {
    MAX_ROUNDS = 8,        /* of one request */
    MAX_QUESTIONS = 32,    /* of one round */
    MAX_ANSWER = 16 << 20, /* bytes */
    DECLINED = -1,         /* the error code of the protocol for it */
};

static const struct question {
    const char *method;
    bool polite; /* declining is a result, not an error */
} questions[] = {
    {"elicitation/create", true},
    {"roots/list", false},
    {"sampling/createMessage", false},
};

static const struct question *find_question(const char *method) {
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        if (method != NULL && strcmp(questions[i].method, method) == 0)
            return &questions[i];
    }
    return NULL;
}

/* Asks; stores a new result in *ret. Returns 0, TDG_EREFUSED (declined) or TDG_ENOMEM. */
static int find_out(tdg__core_t *core, const struct question *question,
                    const json_t *params, json_t **ret) {
    json_t *result = core->opts.input(core->opts.user, question->method, params);

    if (result == NULL && !question->polite)
        return TDG_EREFUSED;
    if (result == NULL)
        result = json_pack("{s:s}", "action", "decline");
    if (result == NULL)
        return TDG_ENOMEM;

    *ret = result;
    return 0;
}

/* ---- Legacy: requests of the server ------------------------------------- */

static void refuse(tdg__text_t *text, const char *id, int code, const char *message) {
    tdg__rpc_error_t error = {0};

    tdg__rpc_error_set(&error, code, NULL, "%s", message);
    tdg__rpc_put_error(text, id, &error);
}

static void answer_question(tdg__core_t *core, const struct question *question,
                            const tdg__rpc_message_t *message, tdg__text_t *text) {
    json_t *result = NULL;
    int rv;

    rv = find_out(core, question, message->params, &result);
    if (rv == 0)
        tdg__rpc_put_result(text, message->id, result);
    else if (rv == TDG_EREFUSED)
        refuse(text, message->id, DECLINED, "declined");
    else
        refuse(text, message->id, TDG__RPC_INTERNAL, "out of memory");
    json_decref(result);
}

void tdg__input_request(tdg__core_t *core, const tdg__rpc_message_t *message) {
    const struct question *question = find_question(message->method);
    json_t *empty = NULL;
    tdg__text_t text;

    tdg__text_init(&text, MAX_ANSWER);
    if (strcmp(message->method, "ping") == 0) {
        empty = json_object();
        tdg__rpc_put_result(&text, message->id, empty);
    } else if (question != NULL && core->opts.input != NULL) {
        answer_question(core, question, message, &text);
    } else {
        tdg__core_odd(core, TDG__ODD_REQUEST, "refused a request of the server: %.64s",
                      message->method);
        refuse(&text, message->id, TDG__RPC_METHOD_NOT_FOUND, "Method not found");
    }
    tdg__core_respond(core, &text);
    tdg__text_done(&text);
    json_decref(empty);
}

/* ---- Modern: rounds ----------------------------------------------------- */

/* One of a round's questions: its answer goes into `responses` under the same key. */
static int answer_one(tdg__core_t *core, const char *key, const json_t *request,
                      json_t *responses) {
    const struct question *question =
        find_question(json_string_value(json_object_get(request, "method")));
    json_t *result;
    int rv;

    if (question == NULL)
        return TDG_ENOTSUP;

    rv = find_out(core, question, json_object_get(request, "params"), &result);
    if (rv < 0)
        return rv;
    return json_object_set_new(responses, key, result) == 0 ? 0 : TDG_ENOMEM;
}

/* *ret is NULL where nothing is asked. */
static int answer_all(tdg__core_t *core, json_t *requests, json_t **ret) {
    json_t *responses, *request;
    const char *key;
    int rv = 0;

    *ret = NULL;
    if (requests == NULL)
        return 0;
    if (core->opts.input == NULL)
        return TDG_ENOTSUP;
    if (!json_is_object(requests) || json_object_size(requests) > MAX_QUESTIONS)
        return TDG_EJSON;

    responses = json_object();
    if (responses == NULL)
        return TDG_ENOMEM;
    json_object_foreach(requests, key, request) {
        rv = answer_one(core, key, request, responses);
        if (rv < 0)
            break;
    }
    if (rv < 0)
        json_decref(responses);
    else
        *ret = responses;
    return rv;
}

static int make_answers(tdg__client_request_t *request, const json_t *result,
                        json_t **ret) {
    json_t *requests = json_object_get(result, "inputRequests");
    json_t *state = json_object_get(result, "requestState");
    json_t *responses;
    int rv;

    if (requests == NULL && state == NULL)
        return TDG_EJSON;
    if (request->rounds == MAX_ROUNDS)
        return TDG_EREFUSED;

    rv = answer_all(request->core, requests, &responses);
    if (rv < 0)
        return rv;
    *ret = json_pack("{s:o*, s:O*}", "inputResponses", responses, "requestState", state);
    return *ret != NULL ? 0 : TDG_ENOMEM;
}

int tdg__input_round(tdg__client_request_t *request, const json_t *result,
                     tdg_failure_t *failure) {
    static const struct reason {
        int code;
        const char *text;
    } reasons[] = {
        {TDG_EJSON, "the server requests input, but the request is not valid MCP"},
        {TDG_ENOTSUP, "the server requests input that this client does not support"},
        {TDG_EREFUSED, "input was declined, or requested too often"},
    };
    json_t *answers;
    int rv;

    rv = make_answers(request, result, &answers);
    if (rv < 0) {
        tdg__failure_set(failure, rv, "%s: %s", request->method, tdg_strerror(rv));
        for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
            if (reasons[i].code == rv)
                tdg__failure_set(failure, rv, "%s: %s", request->method, reasons[i].text);
        }
        return rv;
    }

    json_decref(request->answers);
    request->answers = answers;
    request->rounds++;
    return 0;
}
