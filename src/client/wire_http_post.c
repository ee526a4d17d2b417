/* SPDX-License-Identifier: MIT
 *
 * Streamable HTTP, of both eras. Every message is a POST of its own; the answer is JSON
 * or a stream of events. Which answer a carry gets, and what that means:
 *
 *     2xx, JSON            all messages, the response among them
 *     2xx, events          likewise, one after the other; the stream may be broken off,
 *                          and legacy ones go on by GET after the last event's id
 *     2xx, anything else   fine for a notification, nonsense for a request
 *     other statuses       reported, with a JSON-RPC error from the body
 *
 * The session id of a legacy server comes with the answer to initialize and goes with
 * everything after it. Modern requests have none; some of their fields are mirrored in
 * headers. */
#include "client/wire_http.h"

#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "mcp/request.h"

enum {
    ERROR_BYTES = 64 * 1024, /* of the body of another status than 2xx */
    ERROR_BODY_MS = 10000,   /* for it to arrive */
    RETRY_MS = 1000,         /* before a stream goes on, where it says nothing else */
    MAX_RETRY_MS = 10 * 60 * 1000,
    MAX_RESUMES = 10, /* of one request */
    MAX_FIELDS = 64,
    WHY_BYTES = 300,
};

static tdg__http_t *wire_of(const tdg__post_t *post) {
    return (tdg__http_t *)post->base.conduit;
}

/* ---- The end of a carry ------------------------------------------------- */

/* The exchange ends where the carry does; a connection that is still busy is closed. */
void tdg__post_stop(tdg__carry_t *carry) {
    tdg__post_t *post = (tdg__post_t *)carry;

    if (post->exchange != NULL)
        tdg__exchange_cancel(post->exchange);
    post->exchange = NULL;
    post->gone = true;
    if (post->reading)
        tdg__sse_stop(&post->sse);
}

void tdg__post_release(tdg__carry_t *carry) {
    tdg__post_t *post = (tdg__post_t *)carry;

    if (post->reading)
        return; /* comes again */
    tdg__text_done(&post->text);
    tdg__sse_done(&post->sse);
    tdg__free(post->new_session);
    tdg__free(post->authenticate);
    tdg__free(post->last_id);
    tdg__free(post);
}

static void end_with(tdg__post_t *post, tdg__carry_end_t end, int code, const char *why,
                     const tdg__rpc_message_t *body) {
    tdg__carry_report_t report = {
        .end = end,
        .code = code,
        .status = post->status,
        .body = body,
        .error = why,
        .authenticate = post->authenticate,
        .retry_after_ms = post->retry_after_ms,
        .sent = post->base.sent,
    };

    tdg__conduit_end(&post->base, &report);
}

static void end_as(tdg__post_t *post, tdg__carry_end_t end, const char *why) {
    end_with(post, end, 0, why, NULL);
}

static void end_as_too_large(tdg__post_t *post, const char *why) {
    end_with(post, TDG__CARRY_NONSENSE, TDG_ETOOLARGE, why, NULL);
}

/* ---- Messages ----------------------------------------------------------- */

static void adopt_session(tdg__post_t *post, const tdg__rpc_message_t *message) {
    tdg__http_t *wire = wire_of(post);

    if (!post->initialize || json_object_get(message->root, "result") == NULL)
        return;
    tdg__free(wire->session);
    wire->session = post->new_session;
    post->new_session = NULL;
}

static void on_message(void *arg, tdg__rpc_message_t *message) {
    tdg__post_t *post = arg;

    if (post->gone)
        return;
    post->even = true;
    if (message->kind != TDG__RPC_RESPONSE || post->listen) {
        tdg__conduit_tell(&post->base, message);
        return;
    }
    /* An error without an id can be about nothing else. */
    if (message->id[0] == '\0')
        strcpy(message->id, post->base.id);
    if (strcmp(message->id, post->base.id) != 0) {
        tdg__conduit_warn(post->base.conduit, "a response with another id: %.60s",
                          message->id);
        return;
    }
    adopt_session(post, message);
    if (tdg__conduit_tell(&post->base, message))
        end_as(post, TDG__CARRY_DONE, "");
}

/* The bytes of one message or a batch. What is wrong with them is in `why`. */
static int read_text(tdg__post_t *post, const char *text, size_t len,
                     char why[WHY_BYTES]) {
    int rv = tdg__wire_read(&post->base.conduit->base, text, len, on_message, post, why,
                            WHY_BYTES);

    if (rv == 0 || post->gone)
        return 0;
    if (rv == TDG_ENOMEM)
        post->failed = rv;
    post->odd = true;
    tdg__conduit_warn(post->base.conduit, "the server sent what is no message: %s", why);
    return rv;
}

/* ---- Streams of events -------------------------------------------------- */

/* An empty one takes the last one back. */
static void keep_id(tdg__post_t *post, const char *id) {
    if (post->last_id != NULL && strcmp(post->last_id, id) == 0)
        return;
    tdg__free(post->last_id);
    post->last_id = NULL;
    if (id[0] != '\0' && (post->last_id = tdg__strdup(id)) == NULL)
        post->failed = TDG_ENOMEM;
}

static void on_event(void *user, const tdg__sse_event_t *event) {
    tdg__post_t *post = user;
    char why[WHY_BYTES];

    if (event->has_data && event->len > 0 && strcmp(event->name, "message") == 0 &&
        read_text(post, event->data, event->len, why) == TDG_ENOMEM) {
        /* The message is lost here, but not for the next stream, which begins after the
         * last id or cursor: none of what follows may be read. */
        tdg__sse_stop(&post->sse);
        return;
    }
    /* After the message: who goes on behind an id has seen what came with it. */
    if (post->gone || event->id == NULL)
        return;
    keep_id(post, event->id);
    if (post->event_id != NULL)
        post->event_id(post->base.user, event->id);
}

static void on_retry(void *user, uint32_t ms) {
    tdg__post_t *post = user;

    post->retry_ms = ms < MAX_RETRY_MS ? ms : MAX_RETRY_MS;
    if (!post->gone && post->base.calls.retry != NULL)
        post->base.calls.retry(post->base.user, ms);
}

static const tdg__sse_calls_t sse_calls = {.event = on_event, .retry = on_retry};

/* A new connection is a new stream, whose first id is yet to come. */
static void begin_events(tdg__post_t *post) {
    tdg__sse_done(&post->sse);
    tdg__sse_init(&post->sse, post->base.conduit->base.max_message_bytes, &sse_calls,
                  post);
}

static void feed(tdg__post_t *post, const char *data, size_t len) {
    int rv;

    post->reading = true;
    if (post->base.calls.alive != NULL)
        post->base.calls.alive(post->base.user);
    rv = post->gone ? 0 : tdg__sse_feed(&post->sse, data, len);
    post->reading = false;

    if (post->gone) {
        tdg__post_release(&post->base);
        return;
    }
    if (rv == TDG_ENOMEM || post->failed != 0)
        end_as(post, TDG__CARRY_NO_MEMORY, tdg_strerror(TDG_ENOMEM));
    else if (rv < 0)
        end_as_too_large(post, "an event that is too large");
}

/* ---- The answer --------------------------------------------------------- */

static const tdg__exchange_calls_t exchange_calls;

static bool is_success(int status) {
    return status >= 200 && status < 300;
}

/* What an answer with this head can be. `why` is set where it makes no sense. */
static tdg__post_body_t body_of(const tdg__post_t *post, const tdg__web_head_t *head,
                                const char **why) {
    if (!is_success(head->status))
        return TDG__POST_OF_ERROR;
    if (post->base.id[0] == '\0' && !post->listen)
        return TDG__POST_OF_NO_INTEREST;
    if (head->status == 202)
        *why = "a request was answered with 202";
    else if (strcmp(head->content_type, "text/event-stream") == 0)
        return TDG__POST_EVENTS;
    else if (strcmp(head->content_type, "application/json") != 0 || post->listen ||
             post->resuming)
        *why = "an answer of a type that is neither JSON nor a stream of events";
    return TDG__POST_JSON;
}

static void on_head(void *user, const tdg__web_head_t *head) {
    tdg__post_t *post = user;
    const char *why = NULL;

    post->base.sent = true;
    post->status = head->status;
    post->retry_after_ms = head->retry_after_ms;
    post->body = body_of(post, head, &why);
    if (why != NULL) {
        end_as(post, TDG__CARRY_NONSENSE, why);
        return;
    }
    tdg__free(post->authenticate);
    tdg__free(post->new_session);
    post->authenticate = post->new_session = NULL;
    if (!tdg__copy(head->authenticate, &post->authenticate) ||
        !tdg__copy(head->session, &post->new_session)) {
        end_as(post, TDG__CARRY_NO_MEMORY, tdg_strerror(TDG_ENOMEM));
        return;
    }
    if (post->body == TDG__POST_EVENTS)
        begin_events(post);
    if (post->body == TDG__POST_OF_ERROR)
        tdg__conduit_alarm(&post->base, tdg__conduit_now() + ERROR_BODY_MS);
    else
        tdg__conduit_opened(&post->base, head->status);
}

static void end_with_status(tdg__post_t *post);

static void on_data(void *user, const char *data, size_t len) {
    tdg__post_t *post = user;

    if (post->body == TDG__POST_EVENTS) {
        feed(post, data, len);
        return;
    }
    if (post->body == TDG__POST_OF_NO_INTEREST)
        return;
    post->text.max = post->body == TDG__POST_OF_ERROR
                         ? ERROR_BYTES
                         : post->base.conduit->base.max_message_bytes;
    tdg__text_add(&post->text, data, len);
    if (post->text.error == 0)
        return;
    if (post->text.error == TDG_ENOMEM)
        end_as(post, TDG__CARRY_NO_MEMORY, tdg_strerror(TDG_ENOMEM));
    else if (post->body == TDG__POST_OF_ERROR)
        end_with_status(post);
    else
        end_as_too_large(post, "an answer that is too large");
}

/* ---- Requests ----------------------------------------------------------- */

void tdg__post_init(tdg__post_t *post, const tdg__parcel_out_t *out) {
    post->version = out->version;
    post->stream = out->stream;
    post->initialize = out->method != NULL && strcmp(out->method, "initialize") == 0;
    post->retry_ms = RETRY_MS;
    post->retry_after_ms = -1;
    tdg__text_init(&post->text, 0);
    begin_events(post);
}

struct fields {
    tdg__web_field_t list[MAX_FIELDS];
    size_t count;
};

static void put(struct fields *fields, const char *name, const char *value) {
    if (value != NULL && fields->count < MAX_FIELDS)
        fields->list[fields->count++] = (tdg__web_field_t){name, value};
}

static void put_common(struct fields *fields, tdg__post_t *post) {
    tdg__http_t *wire = wire_of(post);
    bool legacy = !tdg__version_modern(post->version);

    if (post->version != TDG__V_UNKNOWN) {
        put(fields, "MCP-Protocol-Version", tdg__version_text(post->version));
        wire->version = post->version;
    }
    post->with_session = legacy && !post->initialize && wire->session != NULL;
    if (post->with_session)
        put(fields, "Mcp-Session-Id", wire->session);
}

/* How much of its time is left; 0: it has no limit; at least 1. */
static uint32_t time_left(const tdg__post_t *post) {
    uint64_t until = post->base.began_ms + post->base.timeout_ms;
    uint64_t now = tdg__conduit_now();

    if (post->base.timeout_ms == 0)
        return 0;
    return until > now ? (uint32_t)(until - now) : 1;
}

static int begin(tdg__post_t *post, tdg__web_wish_t *wish, const struct fields *fields) {
    tdg__http_t *wire = wire_of(post);

    wish->url = wire->url;
    wish->fields = fields->list;
    wish->field_count = fields->count;
    return tdg__web_begin(wire->web, wish, &exchange_calls, post, &post->exchange);
}

int tdg__post_begin_get(tdg__post_t *post, const char *after, uint32_t head_timeout_ms,
                        uint32_t total_timeout_ms) {
    struct fields fields = {.count = 0};
    tdg__web_wish_t wish = {
        .method = TDG__WEB_GET,
        .accept = "text/event-stream",
        .head_timeout_ms = head_timeout_ms,
        .total_timeout_ms = total_timeout_ms,
    };

    put_common(&fields, post);
    put(&fields, "Last-Event-ID", after);
    return begin(post, &wish, &fields);
}

int tdg__post_begin(tdg__post_t *post, const tdg__parcel_out_t *out) {
    struct fields fields = {.count = 0};
    tdg__web_wish_t wish = {
        .method = TDG__WEB_POST,
        .accept = "application/json, text/event-stream",
        .body = out->text,
        .body_len = out->len,
        .head_timeout_ms = out->stream ? out->timeout_ms : 0,
        .total_timeout_ms = out->stream ? 0 : out->timeout_ms,
    };
    char *name = NULL;
    int rv;

    put_common(&fields, post);
    if (tdg__version_modern(out->version)) {
        if (out->name != NULL && (name = tdg__mcp_header_value(out->name)) == NULL)
            return TDG_ENOMEM;
        put(&fields, "Mcp-Method", out->method);
        put(&fields, "Mcp-Name", name);
        for (size_t i = 0; i < out->param_count; i++)
            put(&fields, out->params[i].name, out->params[i].value);
    }
    rv = begin(post, &wish, &fields);
    tdg__free(name);
    return rv;
}

/* ---- A stream that goes on ---------------------------------------------- */

/* Whether the rest of a broken stream is to be fetched. */
static bool may_resume(const tdg__post_t *post) {
    return post->last_id != NULL && !post->listen && !post->stream &&
           !tdg__version_modern(post->version) && post->resumes < MAX_RESUMES;
}

/* A millisecond more, because both ends of the wait are rounded down. */
static void resume_later(tdg__post_t *post) {
    uint64_t at = tdg__conduit_now() + post->retry_ms + 1;

    if (post->base.timeout_ms != 0 && at > post->base.began_ms + post->base.timeout_ms)
        at = post->base.began_ms + post->base.timeout_ms;
    post->resumes++;
    post->resuming = true;
    post->body = TDG__POST_NO_HEAD;
    tdg__conduit_alarm(&post->base, at);
}

/* The alarm: the body of an error does not come, or it is time to go on. */
void tdg__post_turn(tdg__carry_t *carry) {
    tdg__post_t *post = (tdg__post_t *)carry;
    int rv;

    if (post->body == TDG__POST_OF_ERROR) {
        end_with_status(post);
        return;
    }
    if (carry->fate != TDG__CARRY_DONE) {
        end_as(post, carry->fate, carry->why);
        return;
    }
    if (time_left(post) == 1) {
        end_as(post, TDG__CARRY_TIMEOUT, "no response in time");
        return;
    }
    rv = tdg__post_begin_get(post, post->last_id, 0, time_left(post));
    if (rv < 0)
        end_as(post, TDG__CARRY_NO_MEMORY, tdg_strerror(rv));
}

/* ---- The end of an answer ----------------------------------------------- */

static void take_error(void *arg, tdg__rpc_message_t *message) {
    tdg__rpc_message_t *ret = arg;

    if (message->kind != TDG__RPC_RESPONSE || ret->root != NULL)
        return;
    *ret = *message;
    json_incref(ret->root);
}

static void end_with_status(tdg__post_t *post) {
    tdg__wire_t limits = {.max_message_bytes = ERROR_BYTES};
    tdg__rpc_message_t message = {0};
    tdg__carry_end_t end = TDG__CARRY_STATUS;
    char why[WHY_BYTES];

    if (post->resuming) {
        snprintf(why, sizeof(why), "the rest of a broken stream is refused with %d",
                 post->status);
        end_as(post, TDG__CARRY_BROKEN, why);
        return;
    }
    if (post->status == 404 && post->with_session)
        end = TDG__CARRY_NO_SESSION;
    /* What is no JSON-RPC says nothing; memory that is out costs the error's text. */
    if (post->text.error == 0 && post->text.len > 0)
        tdg__wire_read(&limits, post->text.data, post->text.len, take_error, &message,
                       why, sizeof(why));
    snprintf(why, sizeof(why), "the server answered with status %d", post->status);
    end_with(post, end, 0, why, message.root != NULL ? &message : NULL);
    tdg__rpc_message_done(&message);
}

static void end_of_json(tdg__post_t *post) {
    char why[WHY_BYTES] = "";

    post->reading = true; /* it may end inside */
    if (post->text.len > 0)
        read_text(post, post->text.data, post->text.len, why);
    post->reading = false;
    if (post->gone)
        tdg__post_release(&post->base);
    else if (post->failed != 0)
        end_as(post, TDG__CARRY_NO_MEMORY, tdg_strerror(TDG_ENOMEM));
    else if (post->text.len == 0)
        end_as(post, TDG__CARRY_NONSENSE, "an empty answer");
    else
        end_as(post, TDG__CARRY_NONSENSE, why[0] != '\0' ? why : "no response came");
}

/* It was complete, or it broke off: both can happen before the response. */
static void end_of_events(tdg__post_t *post, bool complete, const char *why) {
    if (complete && (post->listen || post->stream))
        end_as(post, TDG__CARRY_DONE, "");
    else if (may_resume(post))
        resume_later(post);
    else if (complete && post->odd && !post->even)
        end_as(post, TDG__CARRY_NONSENSE, "a stream with nothing but nonsense");
    else
        end_as(post, TDG__CARRY_BROKEN,
               complete ? "the stream ended before the response" : why);
}

static tdg__carry_end_t end_of_code(const tdg__post_t *post, int code) {
    switch (code) {
    case TDG_ETIMEDOUT:
        return TDG__CARRY_TIMEOUT;
    case TDG_EINVAL:
    case TDG_EREFUSED:
        return TDG__CARRY_REFUSED;
    case TDG_ENOMEM:
        return TDG__CARRY_NO_MEMORY;
    default:
        return post->base.sent ? TDG__CARRY_BROKEN : TDG__CARRY_AWAY;
    }
}

static void on_failure(tdg__post_t *post, const tdg__web_end_t *end) {
    post->base.sent = post->base.sent || end->sent;
    if (post->body == TDG__POST_OF_ERROR)
        end_with_status(post);
    else if (end->code == TDG_EAWAY && post->body == TDG__POST_EVENTS)
        end_of_events(post, false, end->error);
    else if (end->code == TDG_EAWAY && post->resuming && may_resume(post))
        resume_later(post);
    else
        end_as(post, end_of_code(post, end->code), end->error);
}

static void on_done(void *user, const tdg__web_end_t *end) {
    tdg__post_t *post = user;

    post->exchange = NULL;
    if (end->code != 0)
        on_failure(post, end);
    else if (post->body == TDG__POST_OF_ERROR)
        end_with_status(post);
    else if (post->body == TDG__POST_JSON)
        end_of_json(post);
    else if (post->body == TDG__POST_EVENTS)
        end_of_events(post, true, "");
    else
        end_as(post, TDG__CARRY_DONE, "");
}

static const tdg__exchange_calls_t exchange_calls = {on_head, on_data, on_done};
