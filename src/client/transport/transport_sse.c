/* SPDX-License-Identifier: MIT
 *
 * The pair of endpoints of 2024-11-05: a GET stream that stays open, whose first event
 * (`endpoint`) names the URL to which messages are POSTed, and on which all responses
 * arrive. That URL must be on the same server as the stream; nothing is sent anywhere
 * else. */
#include "client/transport/transport_base.h"

#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/transport/sse_reader.h"
#include "web/web_url.h"

enum { OPENING_MS = 30000, WHY_BYTES = 300 };

struct sse_transport {
    tdg__transport_base_t base; /* first */
    char *answered;             /* the URL of the stream, after redirects */
    char *endpoint;             /* NULL: not known yet */
    tdg__web_exchange_t *stream;
    tdg__sse_reader_t sse;
};

/* ---- The stream --------------------------------------------------------- */

static void leave(tdg__transport_base_t *base) {
    struct sse_transport *transport = (struct sse_transport *)base;

    tdg__sse_reader_stop(&transport->sse);
    if (transport->stream != NULL)
        tdg__web_exchange_cancel(transport->stream);
    transport->stream = NULL;
}

static void on_endpoint(struct sse_transport *transport, const char *text) {
    tdg__web_url_t home = {0}, there = {0};
    const char *why = "";
    int rv;

    if (transport->endpoint != NULL)
        return;
    rv = tdg__web_url_read(transport->answered, NULL, &home, &why);
    if (rv == 0)
        rv = tdg__web_url_read(text, transport->answered, &there, &why);
    if (rv == 0 && !tdg__web_url_near(&home, &there)) {
        rv = TDG_EREFUSED;
        why = "the server names an endpoint at another address than its own";
    }
    if (rv == 0 && (transport->endpoint = tdg__strdup(there.url)) == NULL)
        rv = TDG_ENOMEM;
    tdg__web_url_done(&home);
    tdg__web_url_done(&there);
    if (rv < 0) {
        tdg__transport_base_lose(&transport->base, rv,
                                 rv == TDG_ENOMEM ? tdg_strerror(rv) : why);
        return;
    }
    tdg__web_exchange_set_quiet(transport->stream, 0); /* the core looks after it now */
    tdg__transport_base_tell_opened(&transport->base, 0, "");
}

static void on_event(void *user, const tdg__sse_reader_event_t *event) {
    struct sse_transport *transport = user;

    if (!event->has_data || transport->base.over || transport->base.closing)
        return;
    if (strcmp(event->name, "endpoint") == 0)
        on_endpoint(transport, event->data);
    else if (event->len > 0 && strcmp(event->name, "message") == 0 &&
             tdg__transport_base_read(&transport->base, event->data, event->len) < 0)
        tdg__transport_base_lose(&transport->base, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
}

static void on_retry(void *user, uint32_t ms) {
    struct sse_transport *transport = user;

    if (!transport->base.over && !transport->base.closing)
        transport->base.base.calls->retry(transport->base.base.user, ms);
}

static const tdg__sse_reader_calls_t sse_calls = {.event = on_event, .retry = on_retry};

/* What a status means to who opens; a stream that is none has another protocol. */
static int code_of(int status) {
    if (status == 401 || status == 403)
        return TDG_EREFUSED;
    return status == 429 || status >= 500 ? TDG_EUNREACHABLE : TDG_ENOTSUP;
}

static void on_stream_head(void *user, const tdg__web_head_t *head) {
    struct sse_transport *transport = user;
    char why[WHY_BYTES];

    if (head->status == 200 && strcmp(head->content_type, "text/event-stream") == 0) {
        transport->answered = tdg__strdup(head->url);
        if (transport->answered == NULL)
            tdg__transport_base_lose(&transport->base, TDG_ENOMEM,
                                     tdg_strerror(TDG_ENOMEM));
        return;
    }
    snprintf(why, sizeof(why), "expected an event stream, got status %d", head->status);
    tdg__transport_base_lose(&transport->base, code_of(head->status), why);
}

static void on_stream_data(void *user, const char *data, size_t len) {
    struct sse_transport *transport = user;
    int rv;

    transport->base.base.calls->alive(transport->base.base.user);
    if (transport->base.over || transport->base.closing)
        return;
    rv = tdg__sse_reader_feed(&transport->sse, data, len);
    if (rv < 0)
        tdg__transport_base_lose(&transport->base, rv, tdg_strerror(rv));
}

static void on_stream_done(void *user, const tdg__web_end_t *end) {
    struct sse_transport *transport = user;

    transport->stream = NULL;
    if (end->code == 0)
        tdg__transport_base_lose(&transport->base, TDG_EUNREACHABLE,
                                 "the server has ended the stream");
    else
        tdg__transport_base_lose(&transport->base, end->code, end->error);
}

/* ---- Messages ----------------------------------------------------------- */

/* Whoever is answered waits for its response on the stream from now on. */
static void on_post_head(void *user, const tdg__web_head_t *head) {
    tdg__delivery_t *post = user;
    char why[WHY_BYTES];

    post->report.sent = true;
    if (head->status >= 200 && head->status < 300) {
        tdg__delivery_opened(post, head->status);
        return;
    }
    post->report.status = head->status;
    post->report.retry_after_ms = head->retry_after_ms;
    snprintf(why, sizeof(why), "the server answered with status %d", head->status);
    tdg__delivery_end(post, TDG__DELIVERY_STATUS, why);
}

static void on_post_done(void *user, const tdg__web_end_t *end) {
    tdg__delivery_t *post = user;

    post->exchange = NULL;
    post->report.sent = post->report.sent || end->sent;
    if (end->code != 0)
        tdg__delivery_end(post, tdg__delivery_failure(post, end->code), end->error);
    else if (post->id[0] == '\0')
        tdg__delivery_end(post, TDG__DELIVERY_DONE, "");
}

/* ---- The table ---------------------------------------------------------- */

static void on_soon(tdg__transport_base_t *base) {
    tdg__transport_base_break(base, "the session was ended");
    tdg__transport_base_tell_ended(base);
}

static int open_(tdg__transport_t *base,
                 void (*opened)(void *user, int code, const char *why)) {
    static const tdg__web_exchange_calls_t calls = {on_stream_head, on_stream_data,
                                                    on_stream_done};
    struct sse_transport *transport = (struct sse_transport *)base;
    tdg__web_request_t request = {
        .method = TDG__WEB_GET,
        .url = transport->base.opts.url,
        .accept = "text/event-stream",
        .head_timeout_ms = OPENING_MS,
        .quiet_timeout_ms = OPENING_MS,
    };
    int rv;

    if (transport->base.opening != NULL || transport->stream != NULL ||
        transport->base.over)
        return TDG_EINVAL;
    tdg__sse_reader_init(&transport->sse, transport->base.opts.max_message_bytes,
                         &sse_calls, transport);
    rv = tdg__web_exchange_begin(transport->base.web, &request, &calls, transport,
                                 &transport->stream);
    if (rv == 0)
        transport->base.opening = opened;
    return rv;
}

static int begin_post(struct sse_transport *transport, tdg__delivery_t *post,
                      const tdg__outgoing_t *out) {
    static const tdg__web_exchange_calls_t calls = {
        .head = on_post_head, /* "Accepted" and such are not read */
        .done = on_post_done};
    /* Later versions than that of this transport name themselves. */
    tdg__web_field_t version = {"MCP-Protocol-Version", tdg__version_text(out->version)};
    tdg__web_request_t request = {
        .method = TDG__WEB_POST,
        .url = transport->endpoint,
        .accept = "application/json, text/event-stream",
        .fields = &version,
        .field_count = out->version > TDG__V2024_11_05 ? 1 : 0,
        .body = out->text,
        .body_len = out->len,
        .total_timeout_ms = out->timeout_ms,
    };

    return tdg__web_exchange_begin(transport->base.web, &request, &calls, post,
                                   &post->exchange);
}

static int send_(tdg__transport_t *base, const tdg__outgoing_t *out,
                 const tdg__delivery_calls_t *calls, void *user, tdg__delivery_t **ret) {
    struct sse_transport *transport = (struct sse_transport *)base;
    tdg__delivery_t *delivery;
    int rv;

    rv = tdg__delivery_create(&transport->base, out, calls, user, &delivery);
    if (rv < 0)
        return rv;
    if (transport->base.over || transport->endpoint == NULL) {
        tdg__delivery_sent(delivery, TDG__DELIVERY_BROKEN, "the stream is not open");
        *ret = delivery;
        return 0;
    }
    return tdg__delivery_begun(delivery, begin_post(transport, delivery, out), ret);
}

static void done(tdg__transport_base_t *base) {
    struct sse_transport *transport = (struct sse_transport *)base;

    tdg__sse_reader_done(&transport->sse);
    tdg__free(transport->answered);
    tdg__free(transport->endpoint);
}

const tdg__transport_base_kind_t tdg__transport_sse = {
    .ops =
        {
            .name = "sse",
            .shared = true,
            .open = open_,
            .send = send_,
            .cancel = tdg__transport_base_cancel,
            .end_session = tdg__transport_base_end_session,
            .distrust = tdg__transport_base_distrust,
            .renew = tdg__transport_base_renew,
            .close = tdg__transport_base_close,
        },
    .size = sizeof(struct sse_transport),
    .delivery_size = sizeof(tdg__delivery_t),
    .http = true,
    .soon = on_soon,
    .leave = leave,
    .done = done,
};
