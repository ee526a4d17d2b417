/* SPDX-License-Identifier: MIT
 *
 * Streamable HTTP, of both eras. Every message is a POST; the response is JSON or an
 * event stream. The kinds of responses, and their meaning:
 *
 *     2xx, JSON            all messages, the response among them
 *     2xx, events          likewise, one after the other; the stream may be broken off,
 *                          and legacy ones go on by GET after the last event's id
 *     2xx, anything else   fine for a notification, nonsense for a request
 *     other statuses       reported, with a JSON-RPC error from the body
 *
 * The session id of a legacy server arrives with the response to initialize and is sent
 * with everything after it. Modern requests have none; some of their fields are mirrored
 * in headers. */
#include "client/transport/transport_base.h"

#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/transport/sse_reader.h"
#include "mcp/request.h"

enum {
    ERROR_BYTES = 64 * 1024, /* of the body of another status than 2xx */
    ERROR_BODY_MS = 10000,   /* for it to arrive */
    RETRY_MS = 1000,         /* before a stream goes on, where it says nothing else */
    MAX_RETRY_MS = 10 * 60 * 1000,
    MAX_RESUMES = 10, /* of one request */
    MAX_FIELDS = 64,
    WHY_BYTES = 300,
    LISTEN_MS = 30000, /* for the head of a GET stream */
    GOODBYE_MS = 2000, /* for the answer to DELETE */
};

struct http_transport {
    tdg__transport_base_t base; /* first */
    char *session;              /* NULL where there is none */
    tdg__version_t version;     /* spoken last, for DELETE */
    tdg__web_exchange_t *goodbye;
};

/* What the body of the answer is. */
enum body {
    BODY_NO_HEAD,
    BODY_JSON,
    BODY_EVENTS,
    BODY_OF_ERROR,
    BODY_OF_NO_INTEREST,
};

struct http_delivery {
    tdg__delivery_t base; /* first */
    tdg__version_t version;
    bool initialize, stream, listen;
    bool with_session; /* the last request of it carried one */
    char *new_session; /* from the answer to initialize, until that has succeeded */

    enum body body;
    tdg__text_t text; /* JSON, or the body of an error */
    tdg__sse_reader_t sse;

    char *last_id; /* of the stream; NULL: none */
    void (*event_id)(void *user, const char *id);
    uint32_t retry_ms;
    unsigned resumes;
    bool resuming; /* the exchange is a GET for the rest of a stream */
    bool odd;      /* something came that is no message */
    bool even;     /* and something that is */
    int failed;    /* while messages were read: TDG_ENOMEM */
};

static struct http_transport *transport_of(const struct http_delivery *delivery) {
    return (struct http_transport *)delivery->base.base;
}

/* ---- The end of a delivery ---------------------------------------------- */

static void release(tdg__delivery_t *base) {
    struct http_delivery *delivery = (struct http_delivery *)base;

    tdg__text_done(&delivery->text);
    tdg__sse_reader_done(&delivery->sse);
    tdg__free(delivery->new_session);
    tdg__free(delivery->last_id);
}

static void end_as(struct http_delivery *delivery, tdg__delivery_end_t end,
                   const char *why) {
    tdg__delivery_end(&delivery->base, end, why);
}

static void end_as_too_large(struct http_delivery *delivery, const char *why) {
    delivery->base.report.code = TDG_ETOOLARGE;
    end_as(delivery, TDG__DELIVERY_NONSENSE, why);
}

/* ---- Messages ----------------------------------------------------------- */

static void adopt_session(struct http_delivery *delivery,
                          const tdg__rpc_message_t *message) {
    struct http_transport *transport = transport_of(delivery);

    if (!delivery->initialize || json_object_get(message->root, "result") == NULL)
        return;
    tdg__free(transport->session);
    transport->session = delivery->new_session;
    delivery->new_session = NULL;
}

static void on_message(void *arg, tdg__rpc_message_t *message) {
    struct http_delivery *delivery = arg;

    if (delivery->base.gone)
        return;
    delivery->even = true;
    if (message->kind != TDG__RPC_RESPONSE || delivery->listen) {
        tdg__delivery_message(&delivery->base, message);
        return;
    }
    /* An error without an id can be about nothing else. */
    if (message->id[0] == '\0')
        strcpy(message->id, delivery->base.id);
    if (strcmp(message->id, delivery->base.id) != 0) {
        tdg__transport_base_warn(delivery->base.base, "a response with another id: %.60s",
                                 message->id);
        return;
    }
    adopt_session(delivery, message);
    if (tdg__delivery_message(&delivery->base, message))
        end_as(delivery, TDG__DELIVERY_DONE, "");
}

/* The bytes of one message or a batch. What is wrong with them is in `why`. */
static int read_text(struct http_delivery *delivery, const char *text, size_t len,
                     char why[WHY_BYTES]) {
    int rv = tdg__transport_parse(delivery->base.base->opts.max_message_bytes, text, len,
                                  on_message, delivery, why, WHY_BYTES);

    if (rv == 0 || delivery->base.gone)
        return 0;
    if (rv == TDG_ENOMEM)
        delivery->failed = rv;
    delivery->odd = true;
    tdg__transport_base_warn(delivery->base.base,
                             "the server sent an invalid message: %s", why);
    return rv;
}

/* ---- Streams of events -------------------------------------------------- */

/* An empty one takes the last one back. */
static void keep_id(struct http_delivery *delivery, const char *id) {
    if (delivery->last_id != NULL && strcmp(delivery->last_id, id) == 0)
        return;
    tdg__free(delivery->last_id);
    delivery->last_id = NULL;
    if (id[0] != '\0' && (delivery->last_id = tdg__strdup(id)) == NULL)
        delivery->failed = TDG_ENOMEM;
}

static void on_event(void *user, const tdg__sse_reader_event_t *event) {
    struct http_delivery *delivery = user;
    char why[WHY_BYTES];

    /* A message for which there is no memory is lost here, but not for the next stream,
     * which begins after the last id or cursor: none of what follows may be read. */
    if (delivery->base.gone ||
        (event->has_data && event->len > 0 && strcmp(event->name, "message") == 0 &&
         read_text(delivery, event->data, event->len, why) == TDG_ENOMEM)) {
        tdg__sse_reader_stop(&delivery->sse);
        return;
    }
    /* After the message: who goes on behind an id has seen what came with it. */
    if (delivery->base.gone || event->id == NULL)
        return;
    keep_id(delivery, event->id);
    if (delivery->event_id != NULL)
        delivery->event_id(delivery->base.user, event->id);
}

static void on_retry(void *user, uint32_t ms) {
    struct http_delivery *delivery = user;

    delivery->retry_ms = ms < MAX_RETRY_MS ? ms : MAX_RETRY_MS;
    if (!delivery->base.gone && delivery->base.calls.retry != NULL)
        delivery->base.calls.retry(delivery->base.user, ms);
}

static const tdg__sse_reader_calls_t sse_calls = {.event = on_event, .retry = on_retry};

/* A new connection is a new stream, whose first id is yet to come. */
static void begin_events(struct http_delivery *delivery) {
    tdg__sse_reader_done(&delivery->sse);
    tdg__sse_reader_init(&delivery->sse, delivery->base.base->opts.max_message_bytes,
                         &sse_calls, delivery);
}

static void feed(struct http_delivery *delivery, const char *data, size_t len) {
    int rv;

    tdg__delivery_enter(&delivery->base);
    if (delivery->base.calls.alive != NULL)
        delivery->base.calls.alive(delivery->base.user);
    rv = delivery->base.gone ? 0 : tdg__sse_reader_feed(&delivery->sse, data, len);
    if (!tdg__delivery_leave(&delivery->base))
        return;
    if (rv == TDG_ENOMEM || delivery->failed != 0)
        end_as(delivery, TDG__DELIVERY_NO_MEMORY, tdg_strerror(TDG_ENOMEM));
    else if (rv < 0)
        end_as_too_large(delivery, "an event that is too large");
}

/* ---- The answer --------------------------------------------------------- */

static const tdg__web_exchange_calls_t exchange_calls;

static bool is_success(int status) {
    return status >= 200 && status < 300;
}

/* What an answer with this head can be. `why` is set where it makes no sense. */
static enum body body_of(const struct http_delivery *delivery,
                         const tdg__web_head_t *head, const char **why) {
    if (!is_success(head->status))
        return BODY_OF_ERROR;
    if (delivery->base.id[0] == '\0' && !delivery->listen)
        return BODY_OF_NO_INTEREST;
    if (head->status == 202)
        *why = "a request was answered with 202";
    else if (strcmp(head->content_type, "text/event-stream") == 0)
        return BODY_EVENTS;
    else if (strcmp(head->content_type, "application/json") != 0 || delivery->listen ||
             delivery->resuming)
        *why = "a response that is neither JSON nor an event stream";
    return BODY_JSON;
}

/* The rest of a stream belongs to the session that its beginning has named. */
static bool keep_session(struct http_delivery *delivery, const char *session) {
    if (session == NULL && delivery->resuming)
        return true;
    tdg__free(delivery->new_session);
    return tdg__copy(session, &delivery->new_session);
}

static void on_head(void *user, const tdg__web_head_t *head) {
    struct http_delivery *delivery = user;
    const char *why = NULL;

    delivery->base.report.sent = true;
    delivery->base.report.status = head->status;
    delivery->base.report.retry_after_ms = head->retry_after_ms;
    delivery->body = body_of(delivery, head, &why);
    if (why != NULL) {
        end_as(delivery, TDG__DELIVERY_NONSENSE, why);
        return;
    }
    if (!keep_session(delivery, head->session)) {
        end_as(delivery, TDG__DELIVERY_NO_MEMORY, tdg_strerror(TDG_ENOMEM));
        return;
    }
    if (delivery->body == BODY_EVENTS)
        begin_events(delivery);
    if (delivery->body == BODY_OF_ERROR)
        tdg__delivery_alarm(&delivery->base, tdg__transport_base_now() + ERROR_BODY_MS);
    else
        tdg__delivery_opened(&delivery->base, head->status);
}

static void end_with_status(struct http_delivery *delivery);

static void on_data(void *user, const char *data, size_t len) {
    struct http_delivery *delivery = user;

    if (delivery->body == BODY_EVENTS) {
        feed(delivery, data, len);
        return;
    }
    if (delivery->body == BODY_OF_NO_INTEREST)
        return;
    delivery->text.max = delivery->body == BODY_OF_ERROR
                             ? ERROR_BYTES
                             : delivery->base.base->opts.max_message_bytes;
    tdg__text_add(&delivery->text, data, len);
    if (delivery->text.error == 0)
        return;
    if (delivery->text.error == TDG_ENOMEM)
        end_as(delivery, TDG__DELIVERY_NO_MEMORY, tdg_strerror(TDG_ENOMEM));
    else if (delivery->body == BODY_OF_ERROR)
        end_with_status(delivery);
    else
        end_as_too_large(delivery, "a response that is too large");
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

static void put_common(struct fields *fields, struct http_delivery *delivery) {
    struct http_transport *transport = transport_of(delivery);
    const char *session =
        delivery->initialize ? delivery->new_session : transport->session;

    if (delivery->version != TDG__V_UNKNOWN) {
        put(fields, "MCP-Protocol-Version", tdg__version_text(delivery->version));
        transport->version = delivery->version;
    }
    delivery->with_session = !tdg__version_modern(delivery->version) && session != NULL;
    if (delivery->with_session)
        put(fields, "Mcp-Session-Id", session);
}

static int begin(struct http_delivery *delivery, tdg__web_request_t *request,
                 const struct fields *fields) {
    struct http_transport *transport = transport_of(delivery);

    request->url = transport->base.opts.url;
    request->fields = fields->list;
    request->field_count = fields->count;
    return tdg__web_exchange_begin(transport->base.web, request, &exchange_calls,
                                   delivery, &delivery->base.exchange);
}

static int begin_get(struct http_delivery *delivery, const char *after,
                     uint32_t head_timeout_ms) {
    struct fields fields = {.count = 0};
    tdg__web_request_t request = {
        .method = TDG__WEB_GET,
        .accept = "text/event-stream",
        .head_timeout_ms = head_timeout_ms,
    };

    put_common(&fields, delivery);
    put(&fields, "Last-Event-ID", after);
    return begin(delivery, &request, &fields);
}

static int begin_post(struct http_delivery *delivery, const tdg__outgoing_t *out) {
    struct fields fields = {.count = 0};
    tdg__web_request_t request = {
        .method = TDG__WEB_POST,
        .accept = "application/json, text/event-stream",
        .body = out->text,
        .body_len = out->len,
        .total_timeout_ms = out->timeout_ms,
    };
    char *name = NULL;
    int rv;

    put_common(&fields, delivery);
    if (tdg__version_modern(out->version)) {
        if (out->name != NULL && (name = tdg__mcp_header_value(out->name)) == NULL)
            return TDG_ENOMEM;
        put(&fields, "Mcp-Method", out->method);
        put(&fields, "Mcp-Name", name);
        for (size_t i = 0; i < out->param_count; i++)
            put(&fields, out->params[i].name, out->params[i].value);
    }
    rv = begin(delivery, &request, &fields);
    tdg__free(name);
    return rv;
}

/* ---- A stream that goes on ---------------------------------------------- */

/* Whether the rest of a broken stream is to be fetched. */
static bool may_resume(const struct http_delivery *delivery) {
    return delivery->last_id != NULL && !delivery->listen && !delivery->stream &&
           !tdg__version_modern(delivery->version) && delivery->resumes < MAX_RESUMES;
}

/* A millisecond more, because both ends of the wait are rounded down. */
static void resume_later(struct http_delivery *delivery) {
    delivery->resumes++;
    delivery->resuming = true;
    delivery->body = BODY_NO_HEAD;
    tdg__delivery_alarm(&delivery->base,
                        tdg__transport_base_now() + delivery->retry_ms + 1);
}

/* The alarm: the body of an error does not come, or it is time to go on. */
static void on_turn(tdg__delivery_t *base) {
    struct http_delivery *delivery = (struct http_delivery *)base;
    int rv;

    if (delivery->body == BODY_OF_ERROR) {
        end_with_status(delivery);
        return;
    }
    if (base->report.end != TDG__DELIVERY_DONE) {
        end_as(delivery, base->report.end, base->report.error);
        return;
    }
    rv = begin_get(delivery, delivery->last_id, 0);
    if (rv < 0)
        end_as(delivery, TDG__DELIVERY_NO_MEMORY, tdg_strerror(rv));
}

/* ---- The end of an answer ----------------------------------------------- */

static void take_error(void *arg, tdg__rpc_message_t *message) {
    tdg__rpc_message_t *ret = arg;

    if (message->kind != TDG__RPC_RESPONSE || ret->root != NULL)
        return;
    *ret = *message;
    json_incref(ret->root);
}

static void end_with_status(struct http_delivery *delivery) {
    tdg__rpc_message_t message = {0};
    int status = delivery->base.report.status;
    char why[WHY_BYTES];

    if (delivery->resuming) {
        snprintf(why, sizeof(why), "resuming a broken stream was refused with %d",
                 status);
        end_as(delivery, TDG__DELIVERY_BROKEN, why);
        return;
    }
    /* What is no JSON-RPC says nothing; memory that is out costs the error's text. */
    if (delivery->text.error == 0 && delivery->text.len > 0)
        tdg__transport_parse(ERROR_BYTES, delivery->text.data, delivery->text.len,
                             take_error, &message, why, sizeof(why));
    snprintf(why, sizeof(why), "the server answered with status %d", status);
    delivery->base.report.body = message.root != NULL ? &message : NULL;
    end_as(delivery,
           status == 404 && delivery->with_session ? TDG__DELIVERY_NO_SESSION
                                                   : TDG__DELIVERY_STATUS,
           why);
    tdg__rpc_message_done(&message);
}

static void end_of_json(struct http_delivery *delivery) {
    char why[WHY_BYTES] = "";

    tdg__delivery_enter(&delivery->base);
    if (delivery->text.len > 0)
        read_text(delivery, delivery->text.data, delivery->text.len, why);
    if (!tdg__delivery_leave(&delivery->base))
        return;
    if (delivery->failed != 0)
        end_as(delivery, TDG__DELIVERY_NO_MEMORY, tdg_strerror(TDG_ENOMEM));
    else if (delivery->text.len == 0)
        end_as(delivery, TDG__DELIVERY_NONSENSE, "an empty response");
    else
        end_as(delivery, TDG__DELIVERY_NONSENSE,
               why[0] != '\0' ? why : "no response arrived");
}

/* It was complete, or it broke off: both can happen before the response. */
static void end_of_events(struct http_delivery *delivery, bool complete,
                          const char *why) {
    if (complete && (delivery->listen || delivery->stream))
        end_as(delivery, TDG__DELIVERY_DONE, "");
    else if (may_resume(delivery))
        resume_later(delivery);
    else if (complete && delivery->odd && !delivery->even)
        end_as(delivery, TDG__DELIVERY_NONSENSE, "a stream without a valid message");
    else
        end_as(delivery, TDG__DELIVERY_BROKEN,
               complete ? "the stream ended before the response" : why);
}

static void on_failure(struct http_delivery *delivery, const tdg__web_end_t *end) {
    delivery->base.report.sent = delivery->base.report.sent || end->sent;
    if (delivery->body == BODY_OF_ERROR)
        end_with_status(delivery);
    else if (end->code == TDG_EUNREACHABLE && delivery->body == BODY_EVENTS)
        end_of_events(delivery, false, end->error);
    else if (end->code == TDG_EUNREACHABLE && delivery->resuming && may_resume(delivery))
        resume_later(delivery);
    else
        end_as(delivery, tdg__delivery_failure(&delivery->base, end->code), end->error);
}

static void on_done(void *user, const tdg__web_end_t *end) {
    struct http_delivery *delivery = user;

    delivery->base.exchange = NULL;
    if (end->code != 0)
        on_failure(delivery, end);
    else if (delivery->body == BODY_OF_ERROR)
        end_with_status(delivery);
    else if (delivery->body == BODY_JSON)
        end_of_json(delivery);
    else if (delivery->body == BODY_EVENTS)
        end_of_events(delivery, true, "");
    else
        end_as(delivery, TDG__DELIVERY_DONE, "");
}

static const tdg__web_exchange_calls_t exchange_calls = {on_head, on_data, on_done};

/* ---- The table ---------------------------------------------------------- */

static void on_soon(tdg__transport_base_t *base) {
    struct http_transport *transport = (struct http_transport *)base;
    bool ends = base->ending != NULL && transport->goodbye == NULL;

    tdg__transport_base_tell_opened(base, 0, "");
    if (ends)
        tdg__transport_base_tell_ended(base);
}

static int open_(tdg__transport_t *base,
                 void (*opened)(void *user, int code, const char *why)) {
    struct http_transport *transport = (struct http_transport *)base;

    transport->base.opening = opened;
    tdg__transport_base_soon(&transport->base);
    return 0;
}

static int add(tdg__transport_t *base, const tdg__outgoing_t *out,
               const tdg__delivery_calls_t *calls, void *user,
               struct http_delivery **ret) {
    struct http_delivery *delivery;
    tdg__delivery_t *added;
    int rv;

    rv = tdg__delivery_create((tdg__transport_base_t *)base, out, calls, user, &added);
    if (rv < 0)
        return rv;
    delivery = (struct http_delivery *)added;
    delivery->version = out->version;
    delivery->stream = out->stream;
    delivery->initialize = out->method != NULL && strcmp(out->method, "initialize") == 0;
    delivery->retry_ms = RETRY_MS;
    tdg__text_init(&delivery->text, 0);
    begin_events(delivery);
    *ret = delivery;
    return 0;
}

static int send_(tdg__transport_t *base, const tdg__outgoing_t *out,
                 const tdg__delivery_calls_t *calls, void *user, tdg__delivery_t **ret) {
    struct http_delivery *delivery;
    int rv;

    rv = add(base, out, calls, user, &delivery);
    if (rv < 0)
        return rv;
    return tdg__delivery_begun(&delivery->base, begin_post(delivery, out), ret);
}

static int listen_(tdg__transport_t *base, const char *after, tdg__version_t version,
                   void (*event_id)(void *user, const char *id),
                   const tdg__delivery_calls_t *calls, void *user,
                   tdg__delivery_t **ret) {
    tdg__outgoing_t out = {.version = version, .stream = true};
    struct http_delivery *delivery;
    int rv;

    rv = add(base, &out, calls, user, &delivery);
    if (rv < 0)
        return rv;
    delivery->listen = true;
    delivery->event_id = event_id;
    return tdg__delivery_begun(&delivery->base, begin_get(delivery, after, LISTEN_MS),
                               ret);
}

static void on_goodbye_done(void *user, const tdg__web_end_t *end) {
    struct http_transport *transport = user;

    (void)end;
    transport->goodbye = NULL;
    on_soon(&transport->base);
}

static void say_goodbye(struct http_transport *transport) {
    static const tdg__web_exchange_calls_t calls = {.done = on_goodbye_done};
    tdg__web_field_t fields[] = {
        {"Mcp-Session-Id", transport->session},
        {"MCP-Protocol-Version", tdg__version_text(transport->version)},
    };
    tdg__web_request_t request = {
        .method = TDG__WEB_DELETE,
        .url = transport->base.opts.url,
        .accept = "application/json",
        .fields = fields,
        .field_count = transport->version != TDG__V_UNKNOWN ? 2 : 1,
        .total_timeout_ms = GOODBYE_MS,
    };

    if (tdg__web_exchange_begin(transport->base.web, &request, &calls, transport,
                                &transport->goodbye) < 0)
        transport->goodbye = NULL; /* the server finds out by itself */
}

static void end_session(tdg__transport_t *base, bool say_so, void (*done)(void *user)) {
    struct http_transport *transport = (struct http_transport *)base;

    transport->base.ending = done;
    if (say_so && transport->session != NULL && transport->goodbye == NULL)
        say_goodbye(transport);
    tdg__free(transport->session);
    transport->session = NULL;
    if (transport->goodbye == NULL)
        tdg__transport_base_soon(&transport->base);
}

static void done(tdg__transport_base_t *base) {
    tdg__free(((struct http_transport *)base)->session);
}

const tdg__transport_base_kind_t tdg__transport_http = {
    .ops =
        {
            .name = "http",
            .open = open_,
            .send = send_,
            .listen = listen_,
            .cancel = tdg__transport_base_cancel,
            .end_session = end_session,
            .distrust = tdg__transport_base_distrust,
            .renew = tdg__transport_base_renew,
            .close = tdg__transport_base_close,
        },
    .size = sizeof(struct http_transport),
    .delivery_size = sizeof(struct http_delivery),
    .http = true,
    .soon = on_soon,
    .done = done,
    .turn = on_turn,
    .release = release,
};
