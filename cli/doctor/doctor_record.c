/* SPDX-License-Identifier: MIT
 *
 * Records what a server sends, in the call that it belongs to: everything of an HTTP
 * exchange; of the lines of a program, the response, or, for a stream, the notifications.
 * The records are limited: a number of messages per call, and a total size, beyond which
 * only responses are kept. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/json.h"
#include "doctor/doctor.h"

enum {
    MAX_HEARD = 4096,      /* messages and comments of a call */
    MAX_WEIGHT = 64 << 20, /* bytes, about, of the messages of all calls */
    MAX_FIELDS = 100,      /* of a head */
};

static const tdg__json_limits_t limits = {DOCTOR_MAX_BODY, 64, DOCTOR_MAX_BODY / 32};

/* ---- Messages ---------------------------------------------------------------------- */

static const char *method_of(const json_t *message) {
    const char *method = json_string_value(json_object_get(message, "method"));

    return method != NULL ? method : "";
}

static bool has_id(const json_t *message, json_int_t id) {
    const json_t *given = json_object_get(message, "id");

    return json_is_integer(given) && json_integer_value(given) == id;
}

/* An error about the whole message has no id, or null. */
static bool is_answer(const doctor_call_t *call, const json_t *message) {
    if (message == NULL)
        return false;
    if (call->id != 0 && has_id(message, call->id))
        return method_of(message)[0] == '\0';
    return call->count == 0 && !call->stream &&
           (call->id == 0 || json_object_get(message, "error") != NULL);
}

static int make_room(doctor_call_t *call) {
    size_t room = call->room == 0 ? 16 : call->room * 2;
    doctor_heard_t *more;

    if (call->count < call->room)
        return 0;
    more = tdg__reallocarray(call->heard, room, sizeof(*more));
    if (more == NULL)
        return TDG_ENOMEM;
    call->heard = more;
    call->room = room;
    return 0;
}

/* `message` is stolen; NULL: a comment. */
static void hear(doctor_call_t *call, json_t *message) {
    size_t weight = message != NULL ? tdg__json_weigh(message) : 0;
    bool answers = is_answer(call, message);

    if (call->count == MAX_HEARD ||
        (call->doctor->weight + weight > MAX_WEIGHT && !answers) || make_room(call) < 0) {
        call->full = true;
        json_decref(message);
        return;
    }
    call->heard[call->count++] = (doctor_heard_t){doctor_now_us(), message};
    call->weight += weight;
    call->doctor->weight += weight;
    if (answers) {
        call->message = message;
        call->result = json_object_get(message, "result");
        call->trouble = json_object_get(message, "error");
        call->rpc_code = json_integer_value(json_object_get(call->trouble, "code"));
        call->answered_us = doctor_now_us();
    }
}

/* New; NULL: it is no message. */
static json_t *parse(const char *text, size_t len) {
    json_t *message = NULL;

    if (tdg__json_parse(text, len, &limits, &message, NULL) == 0 &&
        (json_is_object(message) || json_is_array(message)))
        return message;
    json_decref(message);
    return NULL;
}

static void hear_text(doctor_call_t *call, const char *text, size_t len) {
    json_t *message = parse(text, len);

    if (message != NULL)
        hear(call, message);
}

void doctor_drop_heard(doctor_call_t *call) {
    assert(call->doctor->weight >= call->weight);
    call->doctor->weight -= call->weight;
    for (size_t i = 0; i < call->count; i++)
        json_decref(call->heard[i].message);
    tdg__free(call->heard);
    if (call->is_stream)
        tdg__sse_reader_done(&call->sse);
    tdg__text_done(&call->body);
    json_decref(call->fields);
}

const doctor_heard_t *doctor_acknowledgement(const doctor_call_t *call) {
    for (size_t i = 0; i < call->count; i++)
        if (strcmp(method_of(call->heard[i].message), DOCTOR_ACKNOWLEDGED) == 0)
            return &call->heard[i];
    return NULL;
}

/* ---- Exchanges --------------------------------------------------------------------- */

static void on_line(void *user, const char *line, size_t len) {
    doctor_call_t *call = user;
    char name[64];
    size_t colon = 0, at;

    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
        len--;
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        json_object_clear(call->fields);
        return;
    }
    while (colon < len && line[colon] != ':')
        colon++;
    if (colon == len || colon >= sizeof(name) ||
        json_object_size(call->fields) >= MAX_FIELDS)
        return;
    for (size_t i = 0; i < colon; i++)
        name[i] = (char)(line[i] >= 'A' && line[i] <= 'Z' ? line[i] | 0x20 : line[i]);
    name[colon] = '\0';
    for (at = colon + 1; at < len && (line[at] == ' ' || line[at] == '\t');)
        at++;
    if (tdg__utf8_is_valid(name, colon))
        json_object_set_new_nocheck(call->fields, name,
                                    json_stringn_nocheck(line + at, len - at));
}

const char *doctor_field(const doctor_call_t *call, const char *name) {
    return json_string_value(json_object_get(call->fields, name));
}

static void on_event(void *user, const tdg__sse_reader_event_t *event) {
    doctor_call_t *call = user;

    if (event->id != NULL)
        snprintf(call->last_id, sizeof(call->last_id), "%s", event->id);
    if (event->has_data && event->len > 0)
        hear_text(call, event->data, event->len);
}

static void on_comment(void *user) {
    hear(user, NULL);
}

static void on_head(void *user, const tdg__web_head_t *head) {
    static const tdg__sse_reader_calls_t sse_calls = {.event = on_event,
                                                      .comment = on_comment};
    doctor_call_t *call = user;

    call->headed = true;
    call->head_us = doctor_now_us();
    call->status = head->status;
    call->hops = head->hops;
    call->resolved_us = head->resolved_us;
    call->connected_us = head->connected_us;
    call->secured_us = head->secured_us;
    snprintf(call->type, sizeof(call->type), "%s", head->content_type);
    snprintf(call->session, sizeof(call->session), "%s",
             head->session != NULL ? head->session : "");
    call->is_stream = strcmp(call->type, "text/event-stream") == 0;
    if (call->is_stream)
        tdg__sse_reader_init(&call->sse, DOCTOR_MAX_BODY, &sse_calls, call);
}

static void on_data(void *user, const char *data, size_t len) {
    doctor_call_t *call = user;

    if (call->bytes == 0)
        call->first_us = doctor_now_us();
    call->bytes += len;
    if (call->is_stream) /* after a failure it takes no more */
        tdg__sse_reader_feed(&call->sse, data, len);
    else if (call->body.len + len <= call->body.max)
        tdg__text_add(&call->body, data, len);
}

static void on_done(void *user, const tdg__web_end_t *end) {
    doctor_call_t *call = user;

    call->exchange = NULL;
    call->over = true;
    call->over_us = doctor_now_us();
    call->code = end->code;
    snprintf(call->error, sizeof(call->error), "%s",
             end->error != NULL ? end->error : "");
    if (!call->is_stream && call->body.len > 0)
        hear_text(call, call->body.data, call->body.len);
}

int doctor_begin_exchange(doctor_call_t *call, const tdg__web_request_t *request) {
    static const tdg__web_exchange_calls_t calls = {on_head, on_data, on_done};
    doctor_t *doctor = call->doctor;
    tdg__web_request_t recorded = *request;

    recorded.line = on_line;
    call->fields = json_object();
    tdg__text_init(&call->body, DOCTOR_MAX_BODY);
    uv_update_time(&doctor->loop);
    return tdg__web_exchange_begin(doctor->web, &recorded, &calls, call, &call->exchange);
}

/* ---- Programs ---------------------------------------------------------------------- */

/* Gives an answer to the call that waits for it, anything else to the streams. */
static void hand_over(doctor_program_t *program, json_t *message) {
    bool is_reply = json_object_get(message, "method") == NULL;

    for (doctor_call_t *call = program->doctor->calls; call != NULL; call = call->next)
        if (call->program == program &&
            (is_reply ? call->id != 0 && has_id(message, call->id) : call->stream))
            hear(call, json_incref(message));
    json_decref(message);
}

static void on_program_line(void *user, const char *data, size_t len) {
    doctor_program_t *program = user;
    json_t *message = data != NULL ? parse(data, len) : NULL;

    if (message != NULL)
        hand_over(program, message);
    else if (data != NULL && program->nonsense++ == 0)
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
    for (doctor_call_t *call = program->doctor->calls; call != NULL; call = call->next)
        if (call->program == program)
            call->over = true;
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
