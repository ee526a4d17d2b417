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
#include "client/wire.h"

#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/conduit.h"
#include "client/sse.h"
#include "mcp/request.h"

enum {
    ERROR_BYTES = 64 * 1024, /* of the body of another status than 2xx */
    ERROR_BODY_MS = 10000,   /* for it to arrive */
    LISTEN_MS = 30000,       /* for the head of a GET stream */
    GOODBYE_MS = 2000,       /* for the answer to DELETE */
    RETRY_MS = 1000,         /* before a stream goes on, where it says nothing else */
    MAX_RETRY_MS = 10 * 60 * 1000,
    MAX_RESUMES = 10, /* of one request */
    MAX_FIELDS = 64,
    WHY_BYTES = 300,
};

struct http {
    tdg__conduit_t conduit; /* first */
    tdg__web_t *web;
    char *url, *session;    /* session: NULL where there is none */
    tdg__version_t version; /* spoken last, for DELETE */
    tdg__exchange_t *goodbye;
    void (*opening)(void *user, int code, const char *why); /* to be called soon */
    void (*ending)(void *user); /* likewise, or after DELETE */
};

/* What the body of the answer is. */
enum body { NO_HEAD, JSON, EVENTS, OF_ERROR, OF_NO_INTEREST };

struct post {
    tdg__carry_t base; /* first */
    tdg__exchange_t *exchange;
    tdg__version_t version;
    bool initialize, stream, listen;
    bool with_session; /* the last request of it carried one */
    char *new_session; /* from the answer to initialize, until that has succeeded */
    uint32_t quiet_ms;

    enum body body;
    tdg__text_t text; /* JSON, or the body of an error */
    tdg__sse_t sse;
    int status;
    char *authenticate;
    int64_t retry_after_ms;

    char *last_id; /* of the stream; NULL: none */
    void (*event_id)(void *user, const char *id);
    uint32_t retry_ms;
    unsigned resumes;
    bool resuming; /* the exchange is a GET for the rest of a stream */
    bool odd;      /* something came that is no message */
    bool even;     /* and something that is */
    int failed;    /* while messages were read: TDG_ENOMEM */
    bool reading;  /* events are being read: its memory must stay */
    bool gone;     /* and goes after that */
};

static struct http *wire_of(const struct post *post) {
    return (struct http *)post->base.conduit;
}

/* ---- The end of a carry ------------------------------------------------- */

/* The exchange ends where the carry does; a connection that is still busy is closed. */
static void stop(tdg__carry_t *carry) {
    struct post *post = (struct post *)carry;

    if (post->exchange != NULL)
        tdg__exchange_cancel(post->exchange);
    post->exchange = NULL;
    post->gone = true;
    if (post->reading)
        tdg__sse_stop(&post->sse);
}

static void release(tdg__carry_t *carry) {
    struct post *post = (struct post *)carry;

    if (post->reading)
        return; /* comes again */
    tdg__text_done(&post->text);
    tdg__sse_done(&post->sse);
    tdg__free(post->new_session);
    tdg__free(post->authenticate);
    tdg__free(post->last_id);
    tdg__free(post);
}

static void end_with(struct post *post, tdg__carry_end_t end, const char *why,
                     const tdg__rpc_message_t *body) {
    tdg__carry_report_t report = {
        .end = end,
        .status = post->status,
        .body = body,
        .error = why,
        .authenticate = post->authenticate,
        .retry_after_ms = post->retry_after_ms,
        .sent = post->base.sent,
    };

    tdg__conduit_end(&post->base, &report);
}

static void end_as(struct post *post, tdg__carry_end_t end, const char *why) {
    end_with(post, end, why, NULL);
}

/* ---- Messages ----------------------------------------------------------- */

static void adopt_session(struct post *post, const tdg__rpc_message_t *message) {
    struct http *wire = wire_of(post);

    if (!post->initialize || json_object_get(message->root, "result") == NULL)
        return;
    tdg__free(wire->session);
    wire->session = post->new_session;
    post->new_session = NULL;
}

static void on_message(void *arg, tdg__rpc_message_t *message) {
    struct post *post = arg;

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
static int read_text(struct post *post, const char *text, size_t len,
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
static void keep_id(struct post *post, const char *id) {
    if (post->last_id != NULL && strcmp(post->last_id, id) == 0)
        return;
    tdg__free(post->last_id);
    post->last_id = NULL;
    if (id[0] != '\0' && (post->last_id = tdg__strdup(id)) == NULL)
        post->failed = TDG_ENOMEM;
}

static void on_event(void *user, const tdg__sse_event_t *event) {
    struct post *post = user;
    char why[WHY_BYTES];

    if (event->has_data && event->len > 0 && strcmp(event->name, "message") == 0)
        read_text(post, event->data, event->len, why);
    /* After the message: who goes on behind an id has seen what came with it. */
    if (post->gone || event->id == NULL)
        return;
    keep_id(post, event->id);
    if (post->event_id != NULL)
        post->event_id(post->base.user, event->id);
}

static void on_retry(void *user, uint32_t ms) {
    struct post *post = user;

    post->retry_ms = ms < MAX_RETRY_MS ? ms : MAX_RETRY_MS;
    if (!post->gone && post->base.calls.retry != NULL)
        post->base.calls.retry(post->base.user, ms);
}

static const tdg__sse_calls_t sse_calls = {.event = on_event, .retry = on_retry};

/* A new connection is a new stream, whose first id is yet to come. */
static void begin_events(struct post *post) {
    tdg__sse_done(&post->sse);
    tdg__sse_init(&post->sse, post->base.conduit->base.max_message_bytes, &sse_calls,
                  post);
}

static void feed(struct post *post, const char *data, size_t len) {
    int rv;

    post->reading = true;
    if (post->base.calls.alive != NULL)
        post->base.calls.alive(post->base.user);
    rv = post->gone ? 0 : tdg__sse_feed(&post->sse, data, len);
    post->reading = false;

    if (post->gone) {
        release(&post->base);
        return;
    }
    if (rv == TDG_ENOMEM || post->failed != 0)
        end_as(post, TDG__CARRY_NO_MEMORY, tdg_strerror(TDG_ENOMEM));
    else if (rv < 0)
        end_as(post, TDG__CARRY_NONSENSE, "an event that is too large");
}

/* ---- The answer --------------------------------------------------------- */

static const tdg__exchange_calls_t exchange_calls;

static bool is_success(int status) {
    return status >= 200 && status < 300;
}

/* What an answer with this head can be. `why` is set where it makes no sense. */
static enum body body_of(const struct post *post, const tdg__web_head_t *head,
                         const char **why) {
    if (!is_success(head->status))
        return OF_ERROR;
    if (post->base.id[0] == '\0' && !post->listen)
        return OF_NO_INTEREST;
    if (head->status == 202)
        *why = "a request was answered with 202";
    else if (strcmp(head->content_type, "text/event-stream") == 0)
        return EVENTS;
    else if (strcmp(head->content_type, "application/json") != 0 || post->listen ||
             post->resuming)
        *why = "an answer of a type that is neither JSON nor a stream of events";
    return JSON;
}

static void on_head(void *user, const tdg__web_head_t *head) {
    struct post *post = user;
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
    if (post->body == EVENTS)
        begin_events(post);
    if (post->body == OF_ERROR)
        tdg__conduit_alarm(&post->base, tdg__conduit_now() + ERROR_BODY_MS);
    else
        tdg__conduit_opened(&post->base, head->status);
}

static void end_with_status(struct post *post);

static void on_data(void *user, const char *data, size_t len) {
    struct post *post = user;

    if (post->body == EVENTS) {
        feed(post, data, len);
        return;
    }
    if (post->body == OF_NO_INTEREST)
        return;
    post->text.max =
        post->body == OF_ERROR ? ERROR_BYTES : post->base.conduit->base.max_message_bytes;
    tdg__text_add(&post->text, data, len);
    if (post->text.error == 0)
        return;
    if (post->text.error == TDG_ENOMEM)
        end_as(post, TDG__CARRY_NO_MEMORY, tdg_strerror(TDG_ENOMEM));
    else if (post->body == OF_ERROR)
        end_with_status(post);
    else
        end_as(post, TDG__CARRY_NONSENSE, "an answer that is too large");
}

/* ---- Requests ----------------------------------------------------------- */

struct fields {
    tdg__web_field_t list[MAX_FIELDS];
    size_t count;
};

static void put(struct fields *fields, const char *name, const char *value) {
    if (value != NULL && fields->count < MAX_FIELDS)
        fields->list[fields->count++] = (tdg__web_field_t){name, value};
}

static void put_common(struct fields *fields, struct post *post) {
    struct http *wire = wire_of(post);
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
static uint32_t time_left(const struct post *post) {
    uint64_t until = post->base.began_ms + post->base.timeout_ms;
    uint64_t now = tdg__conduit_now();

    if (post->base.timeout_ms == 0)
        return 0;
    return until > now ? (uint32_t)(until - now) : 1;
}

static int begin(struct post *post, tdg__web_wish_t *wish, const struct fields *fields) {
    struct http *wire = wire_of(post);

    wish->url = wire->url;
    wish->fields = fields->list;
    wish->field_count = fields->count;
    wish->quiet_timeout_ms = post->quiet_ms;
    return tdg__web_begin(wire->web, wish, &exchange_calls, post, &post->exchange);
}

static int begin_get(struct post *post, const char *after, uint32_t head_timeout_ms,
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

static int begin_post(struct post *post, const tdg__parcel_out_t *out) {
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
static bool may_resume(const struct post *post) {
    return post->last_id != NULL && !post->listen && !post->stream &&
           !tdg__version_modern(post->version) && post->resumes < MAX_RESUMES;
}

/* A millisecond more, because both ends of the wait are rounded down. */
static void resume_later(struct post *post) {
    uint64_t at = tdg__conduit_now() + post->retry_ms + 1;

    if (post->base.timeout_ms != 0 && at > post->base.began_ms + post->base.timeout_ms)
        at = post->base.began_ms + post->base.timeout_ms;
    post->resumes++;
    post->resuming = true;
    post->body = NO_HEAD;
    tdg__conduit_alarm(&post->base, at);
}

/* The alarm: the body of an error does not come, or it is time to go on. */
static void on_turn(tdg__carry_t *carry) {
    struct post *post = (struct post *)carry;
    int rv;

    if (post->body == OF_ERROR) {
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
    rv = begin_get(post, post->last_id, 0, time_left(post));
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

static void end_with_status(struct post *post) {
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
    end_with(post, end, why, message.root != NULL ? &message : NULL);
    tdg__rpc_message_done(&message);
}

static void end_of_json(struct post *post) {
    char why[WHY_BYTES] = "";

    post->reading = true; /* it may end inside */
    if (post->text.len > 0)
        read_text(post, post->text.data, post->text.len, why);
    post->reading = false;
    if (post->gone)
        release(&post->base);
    else if (post->failed != 0)
        end_as(post, TDG__CARRY_NO_MEMORY, tdg_strerror(TDG_ENOMEM));
    else if (post->text.len == 0)
        end_as(post, TDG__CARRY_NONSENSE, "an empty answer");
    else
        end_as(post, TDG__CARRY_NONSENSE, why[0] != '\0' ? why : "no response came");
}

/* It was complete, or it broke off: both can happen before the response. */
static void end_of_events(struct post *post, bool complete, const char *why) {
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

static tdg__carry_end_t end_of_code(const struct post *post, int code) {
    switch (code) {
    case TDG_ETIMEDOUT:
        return post->body == EVENTS && (post->listen || post->stream)
                   ? TDG__CARRY_QUIET
                   : TDG__CARRY_TIMEOUT;
    case TDG_EINVAL:
    case TDG_EREFUSED:
        return TDG__CARRY_REFUSED;
    case TDG_ENOMEM:
        return TDG__CARRY_NO_MEMORY;
    default:
        return post->base.sent ? TDG__CARRY_BROKEN : TDG__CARRY_AWAY;
    }
}

static void on_failure(struct post *post, const tdg__web_end_t *end) {
    post->base.sent = post->base.sent || end->sent;
    if (post->body == OF_ERROR)
        end_with_status(post);
    else if (end->code == TDG_EAWAY && post->body == EVENTS)
        end_of_events(post, false, end->error);
    else if (end->code == TDG_EAWAY && post->resuming && may_resume(post))
        resume_later(post);
    else
        end_as(post, end_of_code(post, end->code), end->error);
}

static void on_done(void *user, const tdg__web_end_t *end) {
    struct post *post = user;

    post->exchange = NULL;
    if (end->code != 0)
        on_failure(post, end);
    else if (post->body == OF_ERROR)
        end_with_status(post);
    else if (post->body == JSON)
        end_of_json(post);
    else if (post->body == EVENTS)
        end_of_events(post, true, "");
    else
        end_as(post, TDG__CARRY_DONE, "");
}

static const tdg__exchange_calls_t exchange_calls = {on_head, on_data, on_done};

/* ---- The table ---------------------------------------------------------- */

static void on_soon(tdg__conduit_t *conduit) {
    struct http *wire = (struct http *)conduit;
    void (*opening)(void *user, int code, const char *why) = wire->opening;
    void (*ending)(void *user) = wire->ending;

    wire->opening = NULL;
    if (opening != NULL)
        opening(conduit->base.user, 0, "");
    if (conduit->closing || ending == NULL || wire->goodbye != NULL)
        return;
    wire->ending = NULL;
    ending(conduit->base.user);
}

static int open_(tdg__wire_t *base,
                 void (*opened)(void *user, int code, const char *why)) {
    struct http *wire = (struct http *)base;

    wire->opening = opened;
    tdg__conduit_soon(&wire->conduit);
    return 0;
}

static int add(struct http *wire, const tdg__parcel_out_t *out,
               const tdg__carry_calls_t *calls, void *user, struct post **ret) {
    tdg__carry_t *carry;
    struct post *post;
    int rv;

    rv = tdg__conduit_add(&wire->conduit, out, calls, user, &carry);
    if (rv < 0)
        return rv;
    post = (struct post *)carry;
    post->version = out->version;
    post->stream = out->stream;
    post->quiet_ms = out->stream ? out->quiet_ms : 0;
    post->initialize = out->method != NULL && strcmp(out->method, "initialize") == 0;
    post->retry_ms = RETRY_MS;
    post->retry_after_ms = -1;
    tdg__text_init(&post->text, 0);
    begin_events(post);
    *ret = post;
    return 0;
}

/* What cannot be begun for another reason than memory ends as refused. */
static int begun(struct post *post, int rv, tdg__carry_t **ret) {
    if (rv == TDG_ENOMEM) {
        tdg__conduit_drop(&post->base);
        return rv;
    }
    if (rv < 0)
        tdg__conduit_sent(&post->base, TDG__CARRY_REFUSED,
                          "a URL or header that cannot be sent");
    *ret = &post->base;
    return 0;
}

static int send_(tdg__wire_t *base, const tdg__parcel_out_t *out,
                 const tdg__carry_calls_t *calls, void *user, tdg__carry_t **ret) {
    struct post *post;
    int rv;

    rv = add((struct http *)base, out, calls, user, &post);
    if (rv < 0)
        return rv;
    return begun(post, begin_post(post, out), ret);
}

static int listen_(tdg__wire_t *base, const char *after, uint32_t quiet_ms,
                   tdg__version_t version, void (*event_id)(void *user, const char *id),
                   const tdg__carry_calls_t *calls, void *user, tdg__carry_t **ret) {
    tdg__parcel_out_t out = {.version = version, .stream = true, .quiet_ms = quiet_ms};
    struct post *post;
    int rv;

    rv = add((struct http *)base, &out, calls, user, &post);
    if (rv < 0)
        return rv;
    post->listen = true;
    post->event_id = event_id;
    return begun(post, begin_get(post, after, LISTEN_MS, 0), ret);
}

static void cancel(tdg__wire_t *base, tdg__carry_t *carry) {
    (void)base;
    tdg__conduit_drop(carry);
}

static void set_quiet(tdg__wire_t *base, tdg__carry_t *carry, uint32_t quiet_ms) {
    struct post *post = (struct post *)carry;

    (void)base;
    post->quiet_ms = quiet_ms;
    if (post->exchange != NULL)
        tdg__exchange_set_quiet(post->exchange, quiet_ms);
}

static void on_goodbye_head(void *user, const tdg__web_head_t *head) {
    (void)user;
    (void)head;
}

static void on_goodbye_data(void *user, const char *data, size_t len) {
    (void)user;
    (void)data;
    (void)len;
}

static void on_goodbye_done(void *user, const tdg__web_end_t *end) {
    struct http *wire = user;

    (void)end;
    wire->goodbye = NULL;
    on_soon(&wire->conduit);
}

static void say_goodbye(struct http *wire) {
    static const tdg__exchange_calls_t calls = {on_goodbye_head, on_goodbye_data,
                                                on_goodbye_done};
    struct fields fields = {.count = 0};
    tdg__web_wish_t wish = {
        .method = TDG__WEB_DELETE,
        .url = wire->url,
        .accept = "application/json",
        .fields = fields.list,
        .total_timeout_ms = GOODBYE_MS,
    };

    put(&fields, "Mcp-Session-Id", wire->session);
    if (wire->version != TDG__V_UNKNOWN)
        put(&fields, "MCP-Protocol-Version", tdg__version_text(wire->version));
    wish.field_count = fields.count;
    if (tdg__web_begin(wire->web, &wish, &calls, wire, &wire->goodbye) < 0)
        wire->goodbye = NULL; /* the server finds out by itself */
}

static void end_session(tdg__wire_t *base, bool say_so, void (*done)(void *user)) {
    struct http *wire = (struct http *)base;

    wire->ending = done;
    if (say_so && wire->session != NULL && wire->goodbye == NULL)
        say_goodbye(wire);
    tdg__free(wire->session);
    wire->session = NULL;
    if (wire->goodbye == NULL)
        tdg__conduit_soon(&wire->conduit);
}

static bool renew(tdg__wire_t *base) {
    return tdg__web_renew_token(((struct http *)base)->web);
}

static void destroy(tdg__conduit_t *conduit) {
    struct http *wire = (struct http *)conduit;

    tdg__free(wire->url);
    tdg__free(wire->session);
    tdg__free(wire);
}

static void on_web_closed(void *arg) {
    struct http *wire = arg;

    tdg__conduit_done(&wire->conduit);
}

static void close_(tdg__wire_t *base, void (*closed)(void *arg), void *arg) {
    struct http *wire = (struct http *)base;

    tdg__conduit_silence(&wire->conduit, closed, arg);
    tdg__web_close(wire->web, on_web_closed, wire);
}

static const tdg__conduit_kind_t kind = {
    .ops =
        {
              .name = "http",
              .open = open_,
              .send = send_,
              .listen = listen_,
              .cancel = cancel,
              .set_quiet = set_quiet,
              .end_session = end_session,
              .renew = renew,
              .close = close_,
              },
    .carry_size = sizeof(struct post),
    .soon = on_soon,
    .destroy = destroy,
    .turn = on_turn,
    .stop = stop,
    .release = release,
};

int tdg__wire_http_create(uv_loop_t *loop, const char *url, const tdg__web_opts_t *opts,
                          const tdg__wire_calls_t *calls, void *user,
                          size_t max_message_bytes, tdg__wire_t **ret) {
    struct http *wire;
    int rv;

    if (url == NULL)
        return TDG_EINVAL;
    wire = tdg__calloc(1, sizeof(*wire));
    if (wire == NULL)
        return TDG_ENOMEM;
    if (!tdg__copy(url, &wire->url) ||
        tdg__conduit_init(&wire->conduit, loop, &kind, calls, user, max_message_bytes) <
            0) {
        tdg__free(wire->url);
        tdg__free(wire);
        return TDG_ENOMEM;
    }
    rv = tdg__web_create(loop, opts, &wire->web);
    if (rv < 0) {
        tdg__conduit_done(&wire->conduit); /* frees it */
        return rv;
    }
    *ret = &wire->conduit.base;
    return 0;
}
