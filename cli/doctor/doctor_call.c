/* SPDX-License-Identifier: MIT
 *
 * Sends requests as each era defines them, over HTTP or to a program, waits for the
 * responses, and describes them in words. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>
#include <tidings/tidings.h>

#include "base/alloc.h"
#include "doctor/doctor.h"
#include "mcp/request.h"

enum { SLACK_MS = 1000 }; /* so that libcurl ends an exchange and says why */

/* ---- Waiting ----------------------------------------------------------------------- */

uint64_t doctor_now_us(void) {
    return uv_hrtime() / 1000;
}

double doctor_ms(uint64_t from_us, uint64_t to_us) {
    return to_us > from_us ? (double)(to_us - from_us) / 1000 : 0;
}

static void on_alarm(uv_timer_t *timer) {
    (void)timer; /* has ended the turn of the loop; that is all */
}

bool doctor_until(doctor_t *doctor, bool (*met)(void *arg), void *arg, int64_t ms) {
    uint64_t end_us = doctor_now_us() + (uint64_t)ms * 1000, now_us;

    if (end_us > doctor->end_us)
        end_us = doctor->end_us;
    while (met == NULL || !met(arg)) {
        now_us = doctor_now_us();
        if (now_us >= end_us)
            return false;
        uv_update_time(&doctor->loop);
        uv_timer_start(&doctor->alarm, on_alarm, (end_us - now_us + 999) / 1000, 0);
        uv_run(&doctor->loop, UV_RUN_ONCE);
    }
    return true;
}

int64_t doctor_left_ms(const doctor_t *doctor) {
    uint64_t now_us = doctor_now_us();

    return doctor->end_us > now_us ? (int64_t)(doctor->end_us - now_us + 999) / 1000 : 0;
}

uint32_t doctor_patience(const doctor_t *doctor) {
    int64_t ms = doctor->options->answer_ms, left_ms = doctor_left_ms(doctor);

    return left_ms >= ms ? (uint32_t)ms : left_ms > 0 ? (uint32_t)left_ms : 1;
}

bool doctor_wait(doctor_call_t *call, bool (*met)(void *call)) {
    bool is_limited = call->program == NULL && !call->stream;
    int64_t ms = (int64_t)doctor_patience(call->doctor) + (is_limited ? SLACK_MS : 0);

    return doctor_until(call->doctor, met, call, ms);
}

bool doctor_is_answered(void *call) {
    const doctor_call_t *seen = call;

    return seen->over || seen->message != NULL;
}

bool doctor_is_headed(void *call) {
    const doctor_call_t *seen = call;

    return seen->over || seen->headed;
}

bool doctor_has_bytes(void *call) {
    const doctor_call_t *seen = call;

    return seen->over || seen->bytes > 0;
}

bool doctor_is_acknowledged(void *call) {
    const doctor_call_t *seen = call;

    return seen->over || (seen->headed && !seen->is_stream) ||
           doctor_acknowledgement(seen) != NULL;
}

/* ---- Messages ---------------------------------------------------------------------- */

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

static bool begins_session(const doctor_request_t *request) {
    return request->method != NULL && strcmp(request->method, "initialize") == 0;
}

/* The text of the message, new; NULL: no memory. Steals the params. */
static char *compose(const doctor_request_t *request, const char *version,
                     json_int_t id) {
    json_t *message =
        json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", request->method);
    bool has_meta = request->era == DOCTOR_MODERN && !request->notify;
    json_t *params = request->params;
    char *text = NULL;

    if (id != 0)
        json_object_set_new(message, "id", json_integer(id));
    if (params == NULL && (has_meta || begins_session(request)))
        params = json_object();
    if (begins_session(request)) {
        json_object_set_new(params, "protocolVersion", json_string(version));
        json_object_set_new(params, "clientInfo", identity());
        json_object_set_new(params, "capabilities", json_object());
    } else if (has_meta) {
        put_meta(params, version);
    }
    if (params != NULL)
        json_object_set_new(message, "params", params);
    if (message != NULL)
        text = json_dumps(message, JSON_COMPACT);
    json_decref(message);
    return text;
}

/* ---- Sending ----------------------------------------------------------------------- */

static doctor_call_t *add_call(doctor_t *doctor, bool stream) {
    doctor_call_t *call = tdg__calloc(1, sizeof(*call));

    if (call == NULL) {
        call = &doctor->no_call;
        *call = (doctor_call_t){.code = TDG_ENOMEM, .over = true};
    } else {
        call->next = doctor->calls;
        doctor->calls = call;
    }
    call->doctor = doctor;
    call->stream = stream;
    call->began_us = doctor_now_us();
    return call;
}

static void fail(doctor_call_t *call, int code) {
    call->code = code;
    call->over = true;
    snprintf(call->error, sizeof(call->error), "%s", tdg_strerror(code));
}

static void send_to_program(doctor_call_t *call, doctor_program_t *program,
                            const char *text) {
    int rv = program->started ? 0 : doctor_start(call->doctor, program);

    call->program = program;
    if (rv == 0)
        rv = tdg__child_send(program->child, text, strlen(text));
    if (rv == TDG_EENDED)
        call->over = program->ended; /* else the loop is about to report why */
    else if (rv < 0)
        fail(call, rv);
}

static void send_over_http(doctor_call_t *call, const doctor_request_t *request,
                           const char *version, const char *name, const char *text) {
    doctor_t *doctor = call->doctor;
    bool modern = request->era == DOCTOR_MODERN;
    const char *mcp_method =
        request->mcp_method != NULL ? request->mcp_method : request->method;
    const char *session = request->session != NULL ? request->session : doctor->session;
    const tdg__web_field_t fields[] = {
        {"MCP-Protocol-Version", begins_session(request) ? "" : version},
        {"Mcp-Method", modern && mcp_method != NULL ? mcp_method : ""},
        {"Mcp-Name", name != NULL ? name : ""},
        {"Mcp-Session-Id", modern || begins_session(request) ? "" : session},
        {request->extra_name != NULL ? request->extra_name : "Accept",
         request->extra_value != NULL ? request->extra_value : ""},
    };
    const char *body = request->body != NULL ? request->body : text;
    int rv;
    const tdg__web_request_t exchange = {
        .method = request->http,
        .url = doctor->url,
        .accept = request->http == TDG__WEB_GET ? "text/event-stream"
                                                : "application/json, text/event-stream",
        .fields = fields,
        .field_count = sizeof(fields) / sizeof(fields[0]),
        .body = body,
        .body_len = body != NULL ? strlen(body) : 0,
        .content_type = request->content_type,
        .head_timeout_ms = doctor_patience(doctor),
        .total_timeout_ms = request->stream ? 0 : doctor_patience(doctor),
    };

    rv = doctor_begin_exchange(call, &exchange);
    if (rv < 0)
        fail(call, rv);
}

/* What the header Mcp-Name says, new; NULL: it has none. */
static char *mcp_name(const doctor_request_t *request) {
    const char *field =
        request->method != NULL ? tdg__mcp_name_field(request->method) : NULL;
    const char *name =
        field != NULL ? json_string_value(json_object_get(request->params, field)) : NULL;

    return name != NULL && request->era == DOCTOR_MODERN ? tdg__mcp_header_value(name)
                                                         : NULL;
}

doctor_call_t *doctor_send(doctor_t *doctor, const doctor_request_t *request) {
    doctor_call_t *call = add_call(doctor, request->stream);
    const char *version = request->version != NULL        ? request->version
                          : request->era == DOCTOR_MODERN ? DOCTOR_MODERN_VERSION
                                                          : doctor->legacy_version;
    char *name = mcp_name(request), *text = NULL;

    assert(request->method != NULL || doctor->url != NULL);
    if (request->method != NULL && !request->notify && request->body == NULL)
        call->id = ++doctor->last_id;
    if (request->method != NULL)
        text = compose(request, version, call->id);
    if (call == &doctor->no_call || (request->method != NULL && text == NULL))
        fail(call, TDG_ENOMEM);
    else if (doctor->url != NULL)
        send_over_http(call, request, version, name, text);
    else
        send_to_program(call, doctor->programs[request->era], text);
    tdg__free(name);
    tdg__free(text);
    return call;
}

doctor_call_t *doctor_send_and_wait(doctor_t *doctor, const doctor_request_t *request) {
    doctor_call_t *call = doctor_send(doctor, request);

    /* a program does not answer a notification */
    if (!(request->notify && doctor->url == NULL) &&
        !doctor_wait(call, doctor_is_answered) && call->code == 0)
        call->code = TDG_ETIMEDOUT;
    return call;
}

doctor_call_t *doctor_ask(doctor_t *doctor, doctor_era_t era, const char *method,
                          json_t *params) {
    return doctor_send_and_wait(
        doctor, &(doctor_request_t){.era = era, .method = method, .params = params});
}

doctor_call_t *doctor_ping(doctor_t *doctor) {
    return doctor_ask(doctor, doctor->era,
                      doctor->era == DOCTOR_MODERN ? "server/discover" : "ping", NULL);
}

doctor_call_t *doctor_ping_in(doctor_t *doctor, const char *session) {
    return doctor_send_and_wait(
        doctor,
        &(doctor_request_t){.era = DOCTOR_LEGACY, .method = "ping", .session = session});
}

doctor_call_t *doctor_listen(doctor_t *doctor, json_t *uris, const char *cursor) {
    json_t *wanted = uris != NULL
                         ? json_pack("{s:O}", "resourceSubscriptions", uris)
                         : json_pack("{s:b, s:b, s:b}", "resourcesListChanged", 1,
                                     "toolsListChanged", 1, "promptsListChanged", 1);
    json_t *params = json_pack("{s:o}", "notifications", wanted);

    if (cursor != NULL)
        json_object_set_new(params, "_meta",
                            json_pack("{s:s}", "dev.tidings/cursor", cursor));
    return doctor_send(doctor, &(doctor_request_t){.era = DOCTOR_MODERN,
                                                   .method = "subscriptions/listen",
                                                   .params = params,
                                                   .stream = true});
}

doctor_call_t *doctor_get(doctor_t *doctor, const char *session, const char *after) {
    return doctor_send(
        doctor, &(doctor_request_t){.era = DOCTOR_LEGACY,
                                    .http = TDG__WEB_GET,
                                    .session = session,
                                    .extra_name = after != NULL ? "Last-Event-ID" : NULL,
                                    .extra_value = after,
                                    .stream = true});
}

doctor_call_t *doctor_overhear(doctor_t *doctor, doctor_era_t era) {
    doctor_call_t *call = add_call(doctor, true);

    call->program = doctor->programs[era];
    return call;
}

void doctor_end(doctor_call_t *call) {
    doctor_call_t **link;

    if (call == NULL || call == &call->doctor->no_call)
        return;
    for (link = &call->doctor->calls; *link != call;)
        link = &(*link)->next;
    *link = call->next;
    if (call->exchange != NULL)
        tdg__web_exchange_cancel(call->exchange);
    doctor_drop_heard(call);
    tdg__free(call);
}

void doctor_end_calls(doctor_t *doctor) {
    doctor_call_t *next;

    for (doctor_call_t *call = doctor->calls; call != NULL; call = next) {
        next = call->next;
        if (!call->kept)
            doctor_end(call);
    }
}

/* ---- Sessions ---------------------------------------------------------------------- */

bool doctor_new_session(doctor_t *doctor, char ret[TDG__WEB_MAX_SESSION + 1]) {
    const doctor_call_t *call = doctor_ask(doctor, DOCTOR_LEGACY, "initialize", NULL);

    snprintf(ret, TDG__WEB_MAX_SESSION + 1, "%s", call->session);
    if (call->result == NULL)
        return false;
    doctor_send_and_wait(doctor,
                         &(doctor_request_t){.era = DOCTOR_LEGACY,
                                             .method = "notifications/initialized",
                                             .session = ret,
                                             .notify = true});
    return true;
}

int doctor_delete(doctor_t *doctor, const char *session) {
    doctor_call_t *call;
    int status;

    if (doctor->url == NULL || session[0] == '\0')
        return 0;
    call = doctor_send(doctor, &(doctor_request_t){.era = DOCTOR_LEGACY,
                                                   .http = TDG__WEB_DELETE,
                                                   .session = session});
    doctor_wait(call, doctor_is_headed);
    status = call->status;
    doctor_end(call);
    return status;
}

/* ---- In words ---------------------------------------------------------------------- */

const char *doctor_why(const doctor_call_t *call) {
    if (call->program != NULL && call->program->ended)
        return call->program->why;
    return call->error[0] != '\0' ? call->error : "it has not answered in time";
}

const char *doctor_describe(const doctor_call_t *call) {
    const char *message = json_string_value(json_object_get(call->trouble, "message"));
    char *out = call->doctor->description, status[32] = "";
    size_t size = sizeof(call->doctor->description);

    if (call->status != 0 && call->status != 200)
        snprintf(status, sizeof(status), "HTTP %d%s", call->status,
                 call->trouble != NULL || call->result != NULL ? " and " : "");
    if (call->message == NULL && !call->headed)
        snprintf(out, size, "no answer: %s", doctor_why(call));
    else if (call->trouble != NULL)
        snprintf(out, size, "%serror %d (%.200s)", status, (int)call->rpc_code,
                 message != NULL ? message : "no message");
    else if (call->result != NULL)
        snprintf(out, size, "%sa result", status);
    else
        snprintf(out, size, "%s",
                 status[0] != '\0' ? status : "HTTP 200 without a message");
    return out;
}
