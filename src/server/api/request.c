/* SPDX-License-Identifier: MIT
 *
 * The public functions of a request, from any thread. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/text.h"
#include "mcp/content.h"
#include "mcp/notice.h"
#include "server/context/limits.h"
#include "server/log/log.h"
#include "server/loop/worker.h"
#include "server/mcp/call.h"

enum {
    MAX_NOTE_BYTES = 1 << 20,
    MAX_NOTES = 256,  /* of one call that wait in the inbox; more are dropped */
    MAX_VALUES = 100, /* of one completion, says the protocol */
};

/* ---- Notes: what is said before the answer ------------------------------ */

enum note_kind { NOTE_PROGRESS, NOTE_LOG, NOTE_RELEASE };

struct note {
    tdg__task_t task;
    tdg__call_t *call; /* a reference */
    enum note_kind kind;
    int level;       /* of a log message */
    double progress; /* of progress */
    size_t len;
    char text[];
};

/* On the worker's thread. */
static bool is_wanted(tdg__call_t *call, const struct note *note) {
    int from = call->log_from;

    if (call->channel == NULL)
        return false;

    switch (note->kind) {
    case NOTE_PROGRESS:
        if (note->progress <= call->progress)
            return false;
        call->progress = note->progress;
        return true;
    case NOTE_LOG:
        if (from == TDG__LOG_BY_CHANNEL)
            from = call->channel->log_level;
        return note->level >= (from < 0 ? (int)TDG_LOG_INFO : from);
    case NOTE_RELEASE:
        return call->channel->ops->release != NULL;
    }
    return false;
}

static void pass_on(tdg__call_t *call, const struct note *note, const char *text) {
    tdg__channel_t *channel = call->channel;

    if (!is_wanted(call, note))
        return;
    if (note->kind == NOTE_RELEASE)
        channel->ops->release(channel, call);
    else
        channel->ops->notify(channel, call, text, note->len);
}

static void run_note(tdg__task_t *task, bool here) {
    struct note *note = (struct note *)(void *)task;

    if (here)
        pass_on(note->call, note, note->text);
    tdg__call_unref(note->call);
    tdg__free(note);
}

/* By way of the inbox. Dropped where memory is out, or too much waits already. */
static void post(tdg__call_t *call, const struct note *head, const char *text) {
    struct note *note;

    if (atomic_load_explicit(&call->refs, memory_order_relaxed) > MAX_NOTES)
        return;

    note = tdg__malloc(sizeof(*note) + head->len);
    if (note == NULL)
        return;
    *note = *head;
    note->task.run = run_note;
    note->call = call;
    if (text != NULL)
        memcpy(note->text, text, head->len);

    tdg__call_ref(call);
    tdg__inbox_post(call->inbox, &note->task);
}

/* Sends a note with a text, which is emptied. */
static void send_note(tdg__call_t *call, struct note *head, tdg__text_t *text) {
    head->len = text->len;
    if (text->error == 0 && tdg__call_is_here(call))
        pass_on(call, head, text->data);
    else if (text->error == 0)
        post(call, head, text->data);
    tdg__text_done(text);
}

/* Only what is UTF-8 may go out. NULL is fine. */
static bool is_utf8(const char *string) {
    json_t *value = string != NULL ? json_string(string) : NULL;

    json_decref(value);
    return string == NULL || value != NULL;
}

void tdg_request_progress(tdg_request_t *request, double progress, double total,
                          const char *message) {
    struct note head = {.kind = NOTE_PROGRESS, .progress = progress};
    tdg__text_t text;

    if (request->progress_token == NULL || tdg_request_cancelled(request) ||
        !isfinite(progress) || !is_utf8(message))
        return;

    tdg__text_init(&text, MAX_NOTE_BYTES);
    tdg__put_progress(&text, request->progress_token, progress, total, message);
    send_note(request, &head, &text);
}

void tdg_request_log(tdg_request_t *request, tdg_log_level_t level, const char *logger,
                     json_t *data) {
    struct note head = {.kind = NOTE_LOG, .level = (int)level};
    tdg__text_t text;

    if (data == NULL || (int)level < request->log_from ||
        head.level > TDG_LOG_EMERGENCY || head.level < 0 ||
        tdg_request_cancelled(request) || !is_utf8(logger)) {
        json_decref(data);
        return;
    }

    tdg__text_init(&text, MAX_NOTE_BYTES);
    tdg__put_log(&text, (int)level, logger, data);
    send_note(request, &head, &text);
    json_decref(data);
}

void tdg_request_release_connection(tdg_request_t *request) {
    const struct note head = {.kind = NOTE_RELEASE};

    if (tdg__call_is_here(request))
        pass_on(request, &head, NULL);
    else
        post(request, &head, NULL);
}

/* ---- Properties of a request -------------------------------------------- */

bool tdg_request_cancelled(const tdg_request_t *request) {
    return atomic_load_explicit(&request->cancelled, memory_order_acquire);
}

tdg_server_t *tdg_request_server(const tdg_request_t *request) {
    return request->server;
}

const json_t *tdg_request_client(const tdg_request_t *request) {
    return request->client;
}

const char *tdg_request_variable(const tdg_request_t *request, const char *name) {
    if (request->variables == NULL || name == NULL)
        return NULL;
    return tdg__variables_get(request->variables, name);
}

int tdg_request_notify_updated(tdg_request_t *request, const char *uri,
                               json_t *metadata) {
    return tdg_server_notify_updated(request->server, uri, metadata);
}

/* ---- Errors ------------------------------------------------------------- */

void tdg_request_fail(tdg_request_t *request, int code, const char *message,
                      json_t *data) {
    tdg__rpc_error_t error;

    if (message == NULL || !is_utf8(message))
        message = "Internal error";
    tdg__rpc_error_set(&error, code, data, "%s", message);
    tdg__call_conclude(request, NULL, &error);
}

void tdg_request_fail_not_found(tdg_request_t *request) {
    tdg__rpc_error_t error;

    tdg__call_set_not_found(request, &error);
    tdg__call_conclude(request, NULL, &error);
}

/* The application answers in a way that the method has not. */
static void fail_wrong_kind(tdg_request_t *request) {
    tdg_request_fail(request, TDG__RPC_INTERNAL, "The response does not match the method",
                     NULL);
}

/* ---- Results ------------------------------------------------------------ */

void tdg_request_reply(tdg_request_t *request, json_t *result) {
    tdg__call_conclude(request, result, NULL);
}

/* A field of what was asked for, borrowed; NULL: none. A value rather than a string, so
 * that no memory is needed, and an optional field is not lost for want of it. */
static json_t *defined(const tdg_request_t *request, const char *field) {
    if (request->entry == NULL)
        return NULL;
    return json_object_get(request->entry->definition, field);
}

/* `value` is stolen. */
static void reply_contents(tdg_request_t *request, const char *key, json_t *value) {
    tdg_request_reply(request, json_pack("{s:[{s:s, s:O*, s:o}]}", "contents", "uri",
                                         request->target, "mimeType",
                                         defined(request, "mimeType"), key, value));
}

/* `text` is stolen. */
static json_t *text_block(json_t *text) {
    return json_pack("{s:s, s:o}", "type", "text", "text", text);
}

static void fail_encoding(tdg_request_t *request) {
    tdg_request_fail(request, TDG__RPC_INTERNAL, "The response cannot be encoded", NULL);
}

/* A large content on its way to text. */
struct encoding {
    tdg__job_t job;
    tdg_request_t *request;
    tdg__buf_t *bytes, *member;
    bool blob;
};

static void encode(tdg__job_t *job) {
    struct encoding *encoding = (struct encoding *)(void *)job;
    const tdg__buf_t *bytes = encoding->bytes;

    if (encoding->blob)
        encoding->member = tdg__content_blob(bytes->data, bytes->len);
    else if (tdg__content_is_text(bytes->data, bytes->len))
        encoding->member = tdg__content_member(bytes->data, bytes->len);
}

static void finish_encoding(tdg__job_t *job) {
    struct encoding *encoding = (struct encoding *)(void *)job;
    tdg_request_t *request = encoding->request;

    tdg__buf_unref(encoding->bytes); /* which makes room for the member */
    if (encoding->member != NULL)
        tdg__request_reply_contents(request,
                                    json_pack("{s:s, s:O*}", "uri", request->target,
                                              "mimeType", defined(request, "mimeType")),
                                    encoding->member);
    else
        fail_encoding(request);
    tdg__buf_unref(encoding->member);
    tdg__free(encoding);
}

/* Any number of them may wait for a thread, so they count from here on. */
static void encode_elsewhere(tdg__worker_t *here, struct encoding *encoding) {
    tdg_server_t *server = here->server;

    if (tdg__buf_charge(encoding->bytes, server->answers, 0)) {
        tdg__worker_do(here, &encoding->job);
        return;
    }
    if (!tdg_request_cancelled(encoding->request))
        tdg__server_log_event(server, TDG__EVENT_ANSWER_REFUSED, NULL);
    tdg__request_fail_busy(encoding->request);
    tdg__buf_unref(encoding->bytes);
    tdg__free(encoding);
}

/* Replies to a read with large content. On the worker's thread a thread of the pool
 * encodes it, so that other clients do not wait. */
static void reply_large(tdg_request_t *request, const char *data, size_t len, bool blob) {
    struct encoding *encoding = tdg__calloc(1, sizeof(*encoding));
    tdg__worker_t *here = tdg__worker_current();

    if (encoding != NULL)
        encoding->bytes = tdg__buf_create(data, len);
    if (encoding == NULL || encoding->bytes == NULL) {
        tdg__free(encoding);
        tdg_request_reply(request, NULL);
        return;
    }
    encoding->request = request;
    encoding->blob = blob;
    encoding->job.run = encode;
    encoding->job.done = finish_encoding;
    if (here != NULL && here == request->worker) {
        encode_elsewhere(here, encoding);
    } else {
        encode(&encoding->job);
        finish_encoding(&encoding->job);
    }
}

static bool is_large_read(const tdg_request_t *request, size_t len) {
    return request->method == TDG__M_READ && len > TDG__SMALL_ANSWER;
}

void tdg_request_reply_text(tdg_request_t *request, const char *text) {
    if (text != NULL && is_large_read(request, strlen(text))) {
        reply_large(request, text, strlen(text), false);
        return;
    }

    json_t *string = text != NULL ? json_string(text) : NULL;

    if (string == NULL) {
        fail_encoding(request);
        return;
    }

    switch (request->method) {
    case TDG__M_READ:
        reply_contents(request, "text", string);
        break;
    case TDG__M_CALL:
        tdg_request_reply(request, json_pack("{s:[o]}", "content", text_block(string)));
        break;
    case TDG__M_PROMPT:
        tdg_request_reply(request,
                          json_pack("{s:O*, s:[{s:s, s:o}]}", "description",
                                    defined(request, "description"), "messages", "role",
                                    "user", "content", text_block(string)));
        break;
    default:
        json_decref(string);
        fail_wrong_kind(request);
    }
}

void tdg_request_reply_blob(tdg_request_t *request, const void *data, size_t len) {
    char *encoded;

    if (request->method != TDG__M_READ) {
        fail_wrong_kind(request);
        return;
    }

    if (is_large_read(request, len)) {
        reply_large(request, data, len, true);
        return;
    }
    encoded = tdg__base64_encode(data, len);
    reply_contents(request, "blob", encoded != NULL ? json_string(encoded) : NULL);
    tdg__free(encoded);
}

void tdg_request_reply_tool_error(tdg_request_t *request, const char *text) {
    json_t *string;

    if (request->method != TDG__M_CALL) {
        tdg_request_fail(request, TDG__RPC_INTERNAL, text, NULL);
        return;
    }

    string = text != NULL ? json_string(text) : NULL;
    if (string == NULL)
        fail_encoding(request);
    else
        tdg_request_reply(request, json_pack("{s:[o], s:b}", "content",
                                             text_block(string), "isError", true));
}

static bool are_strings(const json_t *values) {
    for (size_t i = 0; i < json_array_size(values); i++) {
        if (!json_is_string(json_array_get(values, i)))
            return false;
    }
    return json_is_array(values);
}

/* The first ones, in an array of our own, because the application may hold the original.
 * NULL: memory is out. */
static json_t *first_values(const json_t *values) {
    json_t *first = json_array();

    for (size_t i = 0; i < json_array_size(values) && i < MAX_VALUES; i++) {
        if (json_array_append(first, json_array_get(values, i)) < 0) {
            json_decref(first);
            return NULL;
        }
    }
    return first;
}

static json_t *completion(const json_t *values, uint32_t total, bool has_more) {
    size_t count = json_array_size(values);

    if (count > MAX_VALUES)
        has_more = true;
    if (count > MAX_VALUES && total < count)
        total = (uint32_t)count;
    if (total == 0)
        return json_pack("{s:{s:o, s:b}}", "completion", "values", first_values(values),
                         "hasMore", has_more);
    return json_pack("{s:{s:o, s:I, s:b}}", "completion", "values", first_values(values),
                     "total", (json_int_t)total, "hasMore", has_more);
}

void tdg_request_reply_completion(tdg_request_t *request, json_t *values, uint32_t total,
                                  bool has_more) {
    if (values == NULL)
        tdg_request_reply(request, NULL);
    else if (request->method != TDG__M_COMPLETE || !are_strings(values))
        fail_wrong_kind(request);
    else
        tdg_request_reply(request, completion(values, total, has_more));
    json_decref(values);
}
