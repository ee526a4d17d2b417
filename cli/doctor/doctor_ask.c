/* SPDX-License-Identifier: MIT
 *
 * Requests in the way of each era, over HTTP or to a program, and their answers; and what
 * to say of them. */
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>
#include <tidings/tidings.h>

#include "base/alloc.h"
#include "doctor/doctor.h"
#include "mcp/request.h"

/* ---- Messages -------------------------------------------------------------------- */

json_int_t doctor_next_id(doctor_t *doctor) {
    return ++doctor->last_id;
}

static json_t *identity(void) {
    return json_pack("{s:s, s:s}", "name", "tidings-doctor", "version", tdg_version());
}

/* Adds the `_meta` of a modern request to `params`, which may have one already. */
static void put_meta(json_t *params, const char *version) {
    json_t *meta = json_object_get(params, "_meta");

    if (meta == NULL) {
        meta = json_object();
        json_object_set_new(params, "_meta", meta);
    }
    json_object_set_new(meta, DOCTOR_META "protocolVersion", json_string(version));
    json_object_set_new(meta, DOCTOR_META "clientInfo", identity());
    json_object_set_new(meta, DOCTOR_META "clientCapabilities", json_object());
}

char *doctor_compose(doctor_era_t era, const char *version, json_int_t id,
                     const char *method, json_t *params) {
    json_t *message = json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", method);
    char *text = NULL;

    if (id != 0)
        json_object_set_new(message, "id", json_integer(id));
    if (params == NULL && (era == DOCTOR_MODERN || strcmp(method, "initialize") == 0))
        params = json_object();
    if (strcmp(method, "initialize") == 0) {
        json_object_set_new(params, "protocolVersion", json_string(version));
        json_object_set_new(params, "clientInfo", identity());
        json_object_set_new(params, "capabilities", json_object());
    } else if (era == DOCTOR_MODERN) {
        put_meta(params, version);
    }
    if (params != NULL)
        json_object_set_new(message, "params", params);
    if (message != NULL)
        text = json_dumps(message, JSON_COMPACT);
    json_decref(message);
    return text;
}

/* ---- Asking ------------------------------------------------------------------------ */

void doctor_answer_done(doctor_answer_t *answer) {
    json_decref(answer->message);
    *answer = (doctor_answer_t){.code = 0};
}

/* `message` is borrowed; NULL: there is none. */
static void take_answer(doctor_answer_t *answer, json_t *message) {
    answer->message = json_incref(message);
    answer->result = json_object_get(message, "result");
    answer->trouble = json_object_get(message, "error");
    answer->rpc_code = json_integer_value(json_object_get(answer->trouble, "code"));
}

struct expected {
    doctor_tape_t *tape;
    json_int_t id;
    const bool *over;
};

static bool is_answered(void *arg) {
    const struct expected *expected = arg;

    return *expected->over || doctor_find_answer(expected->tape, expected->id) != NULL;
}

/* An error that concerns the whole message has no id, or null. */
static json_t *only_message(const doctor_tape_t *tape) {
    return tape->count == 1 && json_object_get(tape->heard[0].message, "error") != NULL
               ? tape->heard[0].message
               : NULL;
}

static void ask_http(doctor_t *doctor, const doctor_request_t *request, json_int_t id,
                     doctor_answer_t *answer) {
    doctor_exchange_t seen;
    struct expected expected = {&seen.tape, id, &seen.over};
    json_t *message;

    doctor_begin(doctor, request, &seen);
    doctor_until(doctor, is_answered, &expected, (int64_t)doctor_patience(doctor) + 1000);
    answer->us = doctor_now_us() - seen.began_us;
    answer->status = seen.status;
    snprintf(answer->session, sizeof(answer->session), "%s", seen.session);
    message = doctor_find_answer(&seen.tape, id);
    take_answer(answer, message != NULL ? message : only_message(&seen.tape));
    if (!seen.headed) {
        answer->code = seen.code != 0 ? seen.code : TDG_ETIMEDOUT;
        snprintf(answer->error, sizeof(answer->error), "%s",
                 seen.error[0] != '\0' ? seen.error : "it has not answered in time");
    }
    doctor_end(&seen);
}

static void ask_program(doctor_t *doctor, doctor_era_t era, const char *text,
                        json_int_t id, doctor_answer_t *answer) {
    doctor_program_t *program = doctor->programs[era];
    struct expected expected = {&program->tape, id, &program->ended};
    uint64_t began_us = doctor_now_us();
    int rv = 0;

    if (!program->started)
        rv = doctor_start(doctor, program);
    if (rv == 0)
        rv = tdg__child_send(program->child, text, strlen(text));
    if (rv == 0 && id != 0 &&
        !doctor_until(doctor, is_answered, &expected, doctor_patience(doctor)))
        rv = TDG_ETIMEDOUT;
    answer->us = doctor_now_us() - began_us;
    if (id == 0)
        return;
    take_answer(answer, doctor_find_answer(&program->tape, id));
    if (answer->message == NULL) {
        answer->code = rv != 0 ? rv : TDG_EENDED;
        snprintf(answer->error, sizeof(answer->error), "%s",
                 program->ended ? program->why : "it has not answered in time");
    }
}

void doctor_ask_as(doctor_t *doctor, doctor_era_t era, const char *version,
                   const char *session, const char *method, json_t *params,
                   doctor_answer_t *ret) {
    json_int_t id = doctor_next_id(doctor);
    bool begins = strcmp(method, "initialize") == 0, modern = era == DOCTOR_MODERN;
    const char *field = tdg__mcp_name_field(method);
    const char *name = modern && field != NULL
                           ? json_string_value(json_object_get(params, field))
                           : NULL;
    char *copy = name != NULL ? tdg__strdup(name) : NULL, *text;

    *ret = (doctor_answer_t){.code = 0};
    text = doctor_compose(era, version, id, method, params);
    if (text == NULL) {
        ret->code = TDG_ENOMEM;
        snprintf(ret->error, sizeof(ret->error), "%s", tdg_strerror(TDG_ENOMEM));
    } else if (doctor->url == NULL) {
        ask_program(doctor, era, text, id, ret);
    } else {
        const doctor_request_t request = {
            .method = TDG__WEB_POST,
            .era = era,
            .body = text,
            .rpc_method = modern ? method : NULL,
            .rpc_name = copy,
            .version = begins ? NULL : version,
            .session = modern || begins ? NULL : session,
        };

        ask_http(doctor, &request, id, ret);
    }
    tdg__free(copy);
    tdg__free(text);
}

void doctor_ask(doctor_t *doctor, doctor_era_t era, const char *method, json_t *params,
                doctor_answer_t *ret) {
    const char *version =
        era == DOCTOR_MODERN ? DOCTOR_MODERN_VERSION : doctor->legacy_version;

    doctor_ask_as(doctor, era, version, doctor->session, method, params, ret);
}

void doctor_notify(doctor_t *doctor, doctor_era_t era, const char *session,
                   const char *method) {
    doctor_answer_t answer = {.code = 0};
    const char *version =
        era == DOCTOR_MODERN ? DOCTOR_MODERN_VERSION : doctor->legacy_version;
    char *text = doctor_compose(DOCTOR_LEGACY, NULL, 0, method, NULL);
    const doctor_request_t request = {
        .method = TDG__WEB_POST,
        .era = era,
        .body = text,
        .rpc_method = era == DOCTOR_MODERN ? method : NULL,
        .version = version,
        .session = session,
    };

    if (text != NULL && doctor->url == NULL)
        ask_program(doctor, era, text, 0, &answer);
    else if (text != NULL)
        ask_http(doctor, &request, -1, &answer);
    doctor_answer_done(&answer);
    tdg__free(text);
}

bool doctor_new_session(doctor_t *doctor, char *ret, size_t size) {
    doctor_answer_t answer;
    bool fine;

    doctor_ask_as(doctor, DOCTOR_LEGACY, doctor->legacy_version, NULL, "initialize", NULL,
                  &answer);
    fine = answer.result != NULL;
    snprintf(ret, size, "%s", answer.session);
    doctor_answer_done(&answer);
    if (fine)
        doctor_notify(doctor, DOCTOR_LEGACY, ret, "notifications/initialized");
    return fine;
}

int doctor_delete(doctor_t *doctor, const char *session) {
    const doctor_request_t request = {.method = TDG__WEB_DELETE,
                                      .era = DOCTOR_LEGACY,
                                      .version = doctor->legacy_version,
                                      .session = session};
    doctor_exchange_t seen;
    int status;

    if (doctor->url == NULL || session[0] == '\0')
        return 0;
    doctor_begin(doctor, &request, &seen);
    doctor_until(doctor, doctor_headed, &seen, doctor_patience(doctor));
    status = seen.status;
    doctor_end(&seen);
    return status;
}

int doctor_listen(doctor_t *doctor, json_t *uris, const char *cursor, json_int_t *ret_id,
                  doctor_exchange_t *ret) {
    json_int_t id = doctor_next_id(doctor);
    json_t *wanted = uris != NULL
                         ? json_pack("{s:O}", "resourceSubscriptions", uris)
                         : json_pack("{s:b, s:b, s:b}", "resourcesListChanged", 1,
                                     "toolsListChanged", 1, "promptsListChanged", 1);
    json_t *params = json_pack("{s:o}", "notifications", wanted);
    char *text;
    int rv = TDG_ENOMEM;

    if (cursor != NULL)
        json_object_set_new(params, "_meta",
                            json_pack("{s:s}", "dev.tidings/cursor", cursor));
    text = doctor_compose(DOCTOR_MODERN, DOCTOR_MODERN_VERSION, id,
                          "subscriptions/listen", params);
    *ret_id = id;
    *ret = (doctor_exchange_t){.doctor = doctor, .over = true}; /* until it begins */
    if (text != NULL && doctor->url == NULL) {
        const doctor_program_t *program = doctor->programs[DOCTOR_MODERN];

        rv = program->started ? tdg__child_send(program->child, text, strlen(text))
                              : TDG_EENDED;
    } else if (text != NULL) {
        const doctor_request_t request = {
            .method = TDG__WEB_POST,
            .era = DOCTOR_MODERN,
            .body = text,
            .rpc_method = "subscriptions/listen",
            .version = DOCTOR_MODERN_VERSION,
            .stream = true,
        };

        rv = doctor_begin(doctor, &request, ret);
    }
    tdg__free(text);
    return rv;
}

int doctor_get(doctor_t *doctor, const char *session, const char *after,
               doctor_exchange_t *ret) {
    const doctor_request_t request = {
        .method = TDG__WEB_GET,
        .era = DOCTOR_LEGACY,
        .version = doctor->legacy_version,
        .session = session,
        .extra_name = after != NULL ? "Last-Event-ID" : NULL,
        .extra_value = after,
        .stream = true,
    };

    return doctor_begin(doctor, &request, ret);
}

/* ---- In words ------------------------------------------------------------------------
 */

const char *doctor_describe(doctor_t *doctor, const doctor_answer_t *answer) {
    const char *message = json_string_value(json_object_get(answer->trouble, "message"));
    char *out = doctor->description, status[32] = "";
    size_t size = sizeof(doctor->description);

    if (answer->status != 0 && answer->status != 200)
        snprintf(status, sizeof(status), "HTTP %d%s", answer->status,
                 answer->message != NULL ? " and " : "");
    if (answer->code != 0)
        snprintf(out, size, "no answer: %s", answer->error);
    else if (answer->trouble != NULL)
        snprintf(out, size, "%serror %d (%.200s)", status, (int)answer->rpc_code,
                 message != NULL ? message : "no message");
    else if (answer->result != NULL)
        snprintf(out, size, "%sa result", status);
    else
        snprintf(out, size, "%s",
                 status[0] != '\0' ? status : "HTTP 200 without a message");
    return out;
}

const char *doctor_describe_exchange(doctor_t *doctor,
                                     const doctor_exchange_t *exchange) {
    doctor_answer_t answer = {.code = exchange->headed ? 0 : TDG_ETIMEDOUT,
                              .status = exchange->status};

    snprintf(answer.error, sizeof(answer.error), "%s",
             exchange->error[0] != '\0' ? exchange->error
                                        : "it has not answered in time");
    take_answer(&answer,
                exchange->tape.count > 0 ? exchange->tape.heard[0].message : NULL);
    doctor_describe(doctor, &answer);
    doctor_answer_done(&answer);
    return doctor->description;
}
