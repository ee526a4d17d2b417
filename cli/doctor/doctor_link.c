/* SPDX-License-Identifier: MIT
 *
 * What goes to a server and comes from it: exchanges over HTTP with all that is seen of
 * them, and the lines of a program. Both are recorded on tapes. */
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/json.h"
#include "doctor/doctor.h"
#include "mcp/request.h"

static const tdg__json_limits_t limits = {DOCTOR_MAX_BODY, 64, DOCTOR_MAX_BODY / 32};

/* ---- Time ------------------------------------------------------------------ */

uint64_t doctor_now_us(void) {
    return uv_hrtime() / 1000;
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

void doctor_rest(doctor_t *doctor, int64_t ms) {
    doctor_until(doctor, NULL, NULL, ms);
}

bool doctor_headed(void *exchange) {
    const doctor_exchange_t *seen = exchange;

    return seen->headed || seen->over;
}

bool doctor_over(void *exchange) {
    return ((const doctor_exchange_t *)exchange)->over;
}

bool doctor_first_byte(void *exchange) {
    const doctor_exchange_t *seen = exchange;

    return seen->bytes > 0 || seen->over;
}

/* ---- Tapes ----------------------------------------------------------------- */

/* `message` is stolen. */
static void tape_add(doctor_tape_t *tape, json_t *message) {
    doctor_heard_t *more;
    size_t room;

    if (message == NULL)
        tape->comments++;
    if (tape->count == tape->room) {
        room = tape->room == 0 ? 16 : tape->room * 2;
        more = room > DOCTOR_MAX_HEARD
                   ? NULL
                   : tdg__realloc(tape->heard, room * sizeof(tape->heard[0]));
        if (more == NULL) {
            tape->full = true;
            json_decref(message);
            return;
        }
        tape->heard = more;
        tape->room = room;
    }
    tape->heard[tape->count++] = (doctor_heard_t){doctor_now_us(), message};
}

static void tape_done(doctor_tape_t *tape) {
    for (size_t i = 0; i < tape->count; i++)
        json_decref(tape->heard[i].message);
    tdg__free(tape->heard);
    *tape = (doctor_tape_t){.heard = NULL};
}

/* Returns whether it is JSON. */
static bool tape_read(doctor_tape_t *tape, const char *text, size_t len) {
    json_t *message = NULL;

    if (tdg__json_parse(text, len, &limits, &message, NULL) == 0 &&
        (json_is_object(message) || json_is_array(message))) {
        tape_add(tape, message);
        return true;
    }
    json_decref(message);
    tape->nonsense++;
    return false;
}

static const char *method_of(const json_t *message) {
    const char *method = json_string_value(json_object_get(message, "method"));

    return method != NULL ? method : "";
}

const doctor_heard_t *doctor_find_method(const doctor_tape_t *tape, size_t from,
                                         const char *method) {
    for (size_t i = from; i < tape->count; i++)
        if (strcmp(method_of(tape->heard[i].message), method) == 0)
            return &tape->heard[i];
    return NULL;
}

json_t *doctor_find_answer(const doctor_tape_t *tape, json_int_t id) {
    for (size_t i = 0; i < tape->count; i++) {
        json_t *message = tape->heard[i].message, *given = json_object_get(message, "id");

        if (json_is_integer(given) && json_integer_value(given) == id &&
            method_of(message)[0] == '\0')
            return message;
    }
    return NULL;
}

const char *doctor_updated_uri(const json_t *message) {
    const char *method = method_of(message);

    /* the second is the name in the erlmcp dialect */
    if (strcmp(method, "notifications/resources/updated") != 0 &&
        strcmp(method, "resources/updated") != 0)
        return NULL;
    return json_string_value(json_object_get(json_object_get(message, "params"), "uri"));
}

/* ---- Exchanges --------------------------------------------------------------- */

static void on_line(void *user, const char *line, size_t len) {
    doctor_exchange_t *seen = user;
    char name[64];
    size_t colon = 0, at;

    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
        len--;
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        json_object_clear(seen->fields);
        return;
    }
    while (colon < len && line[colon] != ':')
        colon++;
    if (colon == len || colon >= sizeof(name) || json_object_size(seen->fields) >= 100)
        return;
    for (size_t i = 0; i < colon; i++)
        name[i] = (char)(line[i] >= 'A' && line[i] <= 'Z' ? line[i] | 0x20 : line[i]);
    name[colon] = '\0';
    for (at = colon + 1; at < len && (line[at] == ' ' || line[at] == '\t');)
        at++;
    if (tdg__utf8_is_valid(name, colon))
        json_object_set_new_nocheck(seen->fields, name,
                                    json_stringn_nocheck(line + at, len - at));
}

const char *doctor_field(const doctor_exchange_t *exchange, const char *name) {
    return json_string_value(json_object_get(exchange->fields, name));
}

static void on_event(void *user, const tdg__sse_reader_event_t *event) {
    doctor_exchange_t *seen = user;

    if (event->id != NULL)
        snprintf(seen->last_id, sizeof(seen->last_id), "%s", event->id);
    if (event->has_data && event->len > 0)
        tape_read(&seen->tape, event->data, event->len);
}

static void on_comment(void *user) {
    tape_add(&((doctor_exchange_t *)user)->tape, NULL);
}

static const tdg__sse_reader_calls_t sse_calls = {.event = on_event,
                                                  .comment = on_comment};

static void on_head(void *user, const tdg__web_head_t *head) {
    doctor_exchange_t *seen = user;

    seen->headed = true;
    seen->head_us = doctor_now_us();
    seen->status = head->status;
    seen->hops = head->hops;
    seen->resolved_us = head->resolved_us;
    seen->connected_us = head->connected_us;
    seen->secured_us = head->secured_us;
    snprintf(seen->type, sizeof(seen->type), "%s", head->content_type);
    snprintf(seen->session, sizeof(seen->session), "%s",
             head->session != NULL ? head->session : "");
    snprintf(seen->url, sizeof(seen->url), "%.*s", (int)strcspn(head->url, "?#"),
             head->url);
    seen->is_stream = strcmp(seen->type, "text/event-stream") == 0;
    if (seen->is_stream)
        tdg__sse_reader_init(&seen->sse, DOCTOR_MAX_BODY, &sse_calls, seen);
}

static void on_data(void *user, const char *data, size_t len) {
    doctor_exchange_t *seen = user;

    if (seen->bytes == 0)
        seen->first_us = doctor_now_us();
    seen->bytes += len;
    seen->chunks++;
    if (seen->is_stream)
        tdg__sse_reader_feed(&seen->sse, data,
                             len); /* after a failure it takes no more */
    else if (seen->body.len + len <= seen->body.max)
        tdg__text_add(&seen->body, data, len);
}

static void on_done(void *user, const tdg__web_end_t *end) {
    doctor_exchange_t *seen = user;

    seen->exchange = NULL;
    seen->over = true;
    seen->over_us = doctor_now_us();
    seen->code = end->code;
    snprintf(seen->error, sizeof(seen->error), "%s",
             end->error != NULL ? end->error : "");
    if (!seen->is_stream && seen->body.len > 0)
        tape_read(&seen->tape, seen->body.data, seen->body.len);
}

static const tdg__web_exchange_calls_t exchange_calls = {on_head, on_data, on_done};

enum { MAX_FIELDS = 6 };

static size_t put_fields(const doctor_request_t *request, const char *name,
                         tdg__web_field_t fields[MAX_FIELDS]) {
    const tdg__web_field_t all[MAX_FIELDS] = {
        {"MCP-Protocol-Version", request->version},
        {"Mcp-Method", request->rpc_method},
        {"Mcp-Name", name},
        {"Mcp-Session-Id", request->session},
        {request->extra_name, request->extra_value},
    };
    size_t count = 0;

    for (size_t i = 0; i < MAX_FIELDS; i++)
        if (all[i].name != NULL && all[i].value != NULL && all[i].value[0] != '\0')
            fields[count++] = all[i];
    return count;
}

uint32_t doctor_patience(const doctor_t *doctor) {
    int64_t ms = doctor->options->answer_ms, left_ms = doctor_left_ms(doctor);

    return left_ms >= ms ? (uint32_t)ms : left_ms > 0 ? (uint32_t)left_ms : 1;
}

int doctor_begin(doctor_t *doctor, const doctor_request_t *request,
                 doctor_exchange_t *ret) {
    char *name =
        request->rpc_name != NULL ? tdg__mcp_header_value(request->rpc_name) : NULL;
    tdg__web_field_t fields[MAX_FIELDS];
    tdg__web_request_t wish = {
        .method = request->method,
        .url = doctor->url,
        .accept = request->method == TDG__WEB_GET ? "text/event-stream"
                                                  : "application/json, text/event-stream",
        .fields = fields,
        .field_count = put_fields(request, name, fields),
        .body = request->body,
        .body_len = request->body != NULL ? strlen(request->body) : 0,
        .content_type = request->content_type,
        .head_timeout_ms =
            request->head_ms > 0 ? request->head_ms : doctor_patience(doctor),
        .total_timeout_ms = request->stream ? 0 : doctor_patience(doctor),
        .line = on_line,
    };
    int rv;

    *ret = (doctor_exchange_t){.doctor = doctor, .begun = true};
    ret->fields = json_object();
    ret->began_us = doctor_now_us();
    tdg__text_init(&ret->body, DOCTOR_MAX_BODY);
    uv_update_time(&doctor->loop);
    rv =
        tdg__web_exchange_begin(doctor->web, &wish, &exchange_calls, ret, &ret->exchange);
    if (rv < 0) {
        ret->exchange = NULL;
        ret->over = true;
        ret->code = rv;
        snprintf(ret->error, sizeof(ret->error), "%s", tdg_strerror(rv));
    }
    tdg__free(name);
    return rv;
}

void doctor_end(doctor_exchange_t *exchange) {
    if (!exchange->begun)
        return;
    if (exchange->exchange != NULL)
        tdg__web_exchange_cancel(exchange->exchange);
    if (exchange->is_stream)
        tdg__sse_reader_done(&exchange->sse);
    tdg__text_done(&exchange->body);
    json_decref(exchange->fields);
    tape_done(&exchange->tape);
    *exchange = (doctor_exchange_t){.begun = false};
}

/* ---- Programs ------------------------------------------------------------------ */

static void on_program_line(void *user, const char *data, size_t len) {
    doctor_program_t *program = user;

    if (data != NULL && tape_read(&program->tape, data, len))
        return;
    if (program->tape.nonsense == 1 && data != NULL)
        snprintf(program->nonsense_first, sizeof(program->nonsense_first), "%.*s",
                 (int)(len < 100 ? len : 100), data);
}

static void on_program_said(void *user, const char *line) {
    doctor_program_t *program = user;

    if (program->said++ == 0)
        snprintf(program->said_first, sizeof(program->said_first), "%s", line);
    if (program->doctor->options->target.verbose)
        fprintf(stderr, "| %s\n", line);
}

static void on_program_ended(void *user, const char *why) {
    doctor_program_t *program = user;

    program->ended = true;
    snprintf(program->why, sizeof(program->why), "%s", why);
}

static void on_program_gone(void *user) {
    doctor_program_t *program = user;

    program->gone = true;
    program->gone_us = doctor_now_us();
}

int doctor_start(doctor_t *doctor, doctor_program_t *program) {
    static const tdg__child_calls_t calls = {on_program_line, on_program_said,
                                             on_program_ended, on_program_gone};
    const tdg__child_opts_t opts = {
        .argv = (const char *const *)doctor->options->target.program,
        .max_line_bytes = DOCTOR_MAX_BODY,
        .grace_ms = 5000, /* more than the two seconds that a check asks for */
    };
    int rv;

    *program = (doctor_program_t){.doctor = doctor};
    rv = tdg__child_start(&doctor->loop, &opts, &calls, program, &program->child);
    program->started = rv == 0;
    return rv;
}

static bool is_gone(void *program) {
    return ((const doctor_program_t *)program)->gone;
}

void doctor_stop(doctor_program_t *program, uint32_t wait_ms) {
    if (!program->started)
        return;
    if (!program->stopped) {
        program->stopped = true;
        program->stopped_us = doctor_now_us();
        tdg__child_stop(program->child);
    }
    doctor_until(program->doctor, is_gone, program, wait_ms);
}

void doctor_program_done(doctor_program_t *program) {
    tape_done(&program->tape);
}
