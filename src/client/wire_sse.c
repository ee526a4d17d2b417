/* SPDX-License-Identifier: MIT
 *
 * The pair of endpoints of 2024-11-05: a GET stream that stays open, whose first event
 * (`endpoint`) says where messages are POSTed to, and on which all answers come. That
 * place has to be where the stream is; nothing goes anywhere else. */
#include "client/wire.h"

#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/conduit.h"
#include "client/sse.h"
#include "client/web_url.h"

enum { OPENING_MS = 30000, WHY_BYTES = 300 };

struct pair {
    tdg__conduit_t conduit; /* first */
    tdg__web_t *web;
    char *url;
    char *answered; /* the URL of the stream, after redirects */
    char *endpoint; /* NULL: not known yet */
    tdg__exchange_t *stream;
    tdg__sse_t sse;
    bool over; /* the stream is lost, or nobody wants it any more */
    void (*opening)(void *user, int code, const char *why); /* until it was called */
    void (*ending)(void *user);                             /* to be called soon */
};

struct post {
    tdg__carry_t base; /* first */
    tdg__exchange_t *exchange;
};

/* ---- The stream --------------------------------------------------------- */

static void leave_stream(struct pair *wire) {
    wire->over = true;
    tdg__sse_stop(&wire->sse);
    if (wire->stream != NULL)
        tdg__exchange_cancel(wire->stream);
    wire->stream = NULL;
}

/* Once: it could not be opened, or everything that was under way ends with it. */
static void lose(struct pair *wire, int code, const char *why) {
    void (*opening)(void *user, int code, const char *why) = wire->opening;
    const tdg__wire_t *base = &wire->conduit.base;

    if (wire->over || wire->conduit.closing)
        return;
    leave_stream(wire);
    wire->opening = NULL;
    tdg__conduit_break(&wire->conduit, why);
    if (wire->conduit.closing)
        return;
    if (opening != NULL)
        opening(base->user, code, why);
    else
        base->calls->lost(base->user, why);
}

static void on_endpoint(struct pair *wire, const char *text) {
    void (*opening)(void *user, int code, const char *why) = wire->opening;
    tdg__web_url_t home = {0}, there = {0};
    const char *why = "";
    int rv;

    if (wire->endpoint != NULL)
        return;
    rv = tdg__web_url_read(wire->answered, NULL, &home, &why);
    if (rv == 0)
        rv = tdg__web_url_read(text, wire->answered, &there, &why);
    if (rv == 0 && !tdg__web_url_near(&home, &there)) {
        rv = TDG_EREFUSED;
        why = "the server wants messages to be sent to another place than its own";
    }
    if (rv == 0 && (wire->endpoint = tdg__strdup(there.url)) == NULL)
        rv = TDG_ENOMEM;
    tdg__web_url_done(&home);
    tdg__web_url_done(&there);
    if (rv < 0) {
        lose(wire, rv, rv == TDG_ENOMEM ? tdg_strerror(rv) : why);
        return;
    }
    wire->opening = NULL;
    tdg__exchange_set_quiet(wire->stream, 0); /* the core looks after it now */
    opening(wire->conduit.base.user, 0, "");
}

static void on_event(void *user, const tdg__sse_event_t *event) {
    struct pair *wire = user;

    if (!event->has_data || wire->over || wire->conduit.closing)
        return;
    if (strcmp(event->name, "endpoint") == 0)
        on_endpoint(wire, event->data);
    else if (event->len > 0 && strcmp(event->name, "message") == 0 &&
             tdg__conduit_read(&wire->conduit, event->data, event->len) < 0)
        lose(wire, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
}

static void on_retry(void *user, uint32_t ms) {
    struct pair *wire = user;

    if (!wire->over && !wire->conduit.closing)
        wire->conduit.base.calls->retry(wire->conduit.base.user, ms);
}

static const tdg__sse_calls_t sse_calls = {.event = on_event, .retry = on_retry};

/* What a status means to who opens; a stream that is none has another protocol. */
static int code_of(int status) {
    if (status == 401 || status == 403)
        return TDG_EREFUSED;
    return status == 429 || status >= 500 ? TDG_EAWAY : TDG_ENOTSUP;
}

static void on_stream_head(void *user, const tdg__web_head_t *head) {
    struct pair *wire = user;
    char why[WHY_BYTES];

    if (head->status == 200 && strcmp(head->content_type, "text/event-stream") == 0) {
        wire->answered = tdg__strdup(head->url);
        if (wire->answered == NULL)
            lose(wire, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
        return;
    }
    snprintf(why, sizeof(why), "no stream of events, but status %d", head->status);
    lose(wire, code_of(head->status), why);
}

static void on_stream_data(void *user, const char *data, size_t len) {
    struct pair *wire = user;
    int rv;

    wire->conduit.base.calls->alive(wire->conduit.base.user);
    if (wire->over || wire->conduit.closing)
        return;
    rv = tdg__sse_feed(&wire->sse, data, len);
    if (rv < 0)
        lose(wire, rv, tdg_strerror(rv));
}

static void on_stream_done(void *user, const tdg__web_end_t *end) {
    struct pair *wire = user;

    wire->stream = NULL;
    if (end->code == 0)
        lose(wire, TDG_EAWAY, "the server has ended the stream");
    else
        lose(wire, end->code, end->error);
}

/* ---- Messages ----------------------------------------------------------- */

static void end_post(struct post *post, tdg__carry_end_t end, const char *why,
                     const tdg__web_head_t *head) {
    tdg__carry_report_t report = {
        .end = end,
        .status = head != NULL ? head->status : 0,
        .error = why,
        .authenticate = head != NULL ? head->authenticate : NULL,
        .retry_after_ms = head != NULL ? head->retry_after_ms : -1,
        .sent = post->base.sent,
    };

    tdg__conduit_end(&post->base, &report);
}

/* Whoever is answered waits for its response on the stream from now on. */
static void on_post_head(void *user, const tdg__web_head_t *head) {
    struct post *post = user;
    char why[WHY_BYTES];

    post->base.sent = true;
    if (head->status >= 200 && head->status < 300) {
        tdg__conduit_opened(&post->base, head->status);
        return;
    }
    snprintf(why, sizeof(why), "the server answered with status %d", head->status);
    end_post(post, TDG__CARRY_STATUS, why, head);
}

static void on_post_data(void *user, const char *data, size_t len) {
    (void)user; /* "Accepted" and such */
    (void)data;
    (void)len;
}

static void on_post_done(void *user, const tdg__web_end_t *end) {
    struct post *post = user;
    tdg__carry_end_t how = TDG__CARRY_AWAY;

    post->exchange = NULL;
    post->base.sent = post->base.sent || end->sent;
    if (end->code == 0) {
        if (post->base.id[0] == '\0')
            end_post(post, TDG__CARRY_DONE, "", NULL);
        return;
    }
    if (end->code == TDG_ETIMEDOUT)
        how = TDG__CARRY_TIMEOUT;
    else if (end->code == TDG_ENOMEM)
        how = TDG__CARRY_NO_MEMORY;
    else if (end->code == TDG_EREFUSED || end->code == TDG_EINVAL)
        how = TDG__CARRY_REFUSED;
    else if (post->base.sent)
        how = TDG__CARRY_BROKEN;
    end_post(post, how, end->error, NULL);
}

static void on_turn(tdg__carry_t *carry) {
    struct post *post = (struct post *)carry;

    if (carry->fate != TDG__CARRY_DONE)
        end_post(post, carry->fate, carry->why, NULL);
    else
        end_post(post, TDG__CARRY_TIMEOUT, "no response in time", NULL);
}

static void stop(tdg__carry_t *carry) {
    struct post *post = (struct post *)carry;

    if (post->exchange != NULL)
        tdg__exchange_cancel(post->exchange);
    post->exchange = NULL;
}

/* ---- The table ---------------------------------------------------------- */

static void on_soon(tdg__conduit_t *conduit) {
    struct pair *wire = (struct pair *)conduit;
    void (*ending)(void *user) = wire->ending;

    wire->ending = NULL;
    tdg__conduit_break(conduit, "the session was ended");
    if (ending != NULL && !conduit->closing)
        ending(conduit->base.user);
}

static int open_(tdg__wire_t *base,
                 void (*opened)(void *user, int code, const char *why)) {
    static const tdg__exchange_calls_t calls = {on_stream_head, on_stream_data,
                                                on_stream_done};
    struct pair *wire = (struct pair *)base;
    tdg__web_wish_t wish = {
        .method = TDG__WEB_GET,
        .url = wire->url,
        .accept = "text/event-stream",
        .head_timeout_ms = OPENING_MS,
        .quiet_timeout_ms = OPENING_MS,
    };
    int rv;

    if (wire->opening != NULL || wire->stream != NULL || wire->over)
        return TDG_EINVAL;
    rv = tdg__web_begin(wire->web, &wish, &calls, wire, &wire->stream);
    if (rv == 0)
        wire->opening = opened;
    return rv;
}

static int begin_post(struct pair *wire, struct post *post,
                      const tdg__parcel_out_t *out) {
    static const tdg__exchange_calls_t calls = {on_post_head, on_post_data, on_post_done};
    /* Later versions than that of this transport name themselves. */
    tdg__web_field_t version = {"MCP-Protocol-Version", tdg__version_text(out->version)};
    tdg__web_wish_t wish = {
        .method = TDG__WEB_POST,
        .url = wire->endpoint,
        .accept = "application/json, text/event-stream",
        .fields = &version,
        .field_count = out->version > TDG__V2024_11_05 ? 1 : 0,
        .body = out->text,
        .body_len = out->len,
        .total_timeout_ms = out->timeout_ms,
    };

    return tdg__web_begin(wire->web, &wish, &calls, post, &post->exchange);
}

static int send_(tdg__wire_t *base, const tdg__parcel_out_t *out,
                 const tdg__carry_calls_t *calls, void *user, tdg__carry_t **ret) {
    struct pair *wire = (struct pair *)base;
    tdg__carry_t *carry;
    int rv;

    rv = tdg__conduit_add(&wire->conduit, out, calls, user, &carry);
    if (rv < 0)
        return rv;
    *ret = carry;
    if (wire->over || wire->endpoint == NULL) {
        tdg__conduit_sent(carry, TDG__CARRY_BROKEN, "there is no stream");
        return 0;
    }
    rv = begin_post(wire, (struct post *)carry, out);
    if (rv == TDG_ENOMEM) {
        tdg__conduit_drop(carry);
        return rv;
    }
    if (rv < 0)
        tdg__conduit_sent(carry, TDG__CARRY_REFUSED, "a URL that cannot be used");
    else if (carry->timeout_ms != 0)
        tdg__conduit_alarm(carry, carry->began_ms + carry->timeout_ms);
    return 0;
}

static void cancel(tdg__wire_t *base, tdg__carry_t *carry) {
    (void)base;
    tdg__conduit_drop(carry);
}

static void end_session(tdg__wire_t *base, bool say_so, void (*done)(void *user)) {
    struct pair *wire = (struct pair *)base;

    (void)say_so;
    leave_stream(wire);
    wire->opening = NULL;
    wire->ending = done;
    tdg__conduit_soon(&wire->conduit);
}

static void distrust(tdg__wire_t *base) {
    tdg__web_distrust(((struct pair *)base)->web);
}

static bool renew(tdg__wire_t *base) {
    return tdg__web_renew_token(((struct pair *)base)->web);
}

static void destroy(tdg__conduit_t *conduit) {
    struct pair *wire = (struct pair *)conduit;

    tdg__sse_done(&wire->sse);
    tdg__free(wire->url);
    tdg__free(wire->answered);
    tdg__free(wire->endpoint);
    tdg__free(wire);
}

static void on_web_closed(void *arg) {
    struct pair *wire = arg;

    tdg__conduit_done(&wire->conduit);
}

static void close_(tdg__wire_t *base, void (*closed)(void *arg), void *arg) {
    struct pair *wire = (struct pair *)base;

    leave_stream(wire);
    tdg__conduit_silence(&wire->conduit, closed, arg);
    tdg__web_close(wire->web, on_web_closed, wire);
}

static const tdg__conduit_kind_t kind = {
    .ops =
        {
              .name = "sse",
              .shared = true,
              .open = open_,
              .send = send_,
              .cancel = cancel,
              .end_session = end_session,
              .distrust = distrust,
              .renew = renew,
              .close = close_,
              },
    .carry_size = sizeof(struct post),
    .soon = on_soon,
    .destroy = destroy,
    .turn = on_turn,
    .stop = stop,
};

int tdg__wire_sse_create(uv_loop_t *loop, const char *url, const tdg__web_opts_t *opts,
                         const tdg__wire_calls_t *calls, void *user,
                         size_t max_message_bytes, tdg__wire_t **ret) {
    struct pair *wire;
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
    tdg__sse_init(&wire->sse, max_message_bytes, &sse_calls, wire);
    rv = tdg__web_create(loop, opts, &wire->web);
    if (rv < 0) {
        tdg__conduit_done(&wire->conduit); /* frees it */
        return rv;
    }
    *ret = &wire->conduit.base;
    return 0;
}
