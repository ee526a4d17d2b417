/* SPDX-License-Identifier: MIT
 *
 * Streamable HTTP, of both eras: the wire, and the session of a legacy server. */
#include "client/wire_http.h"

#include <tidings/error.h>

#include "base/alloc.h"

enum {
    LISTEN_MS = 30000, /* for the head of a GET stream */
    GOODBYE_MS = 2000, /* for the answer to DELETE */
};

/* ---- The table ---------------------------------------------------------- */

static void on_soon(tdg__conduit_t *conduit) {
    tdg__http_t *wire = (tdg__http_t *)conduit;
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
    tdg__http_t *wire = (tdg__http_t *)base;

    wire->opening = opened;
    tdg__conduit_soon(&wire->conduit);
    return 0;
}

static int add(tdg__http_t *wire, const tdg__parcel_out_t *out,
               const tdg__carry_calls_t *calls, void *user, tdg__post_t **ret) {
    tdg__carry_t *carry;
    tdg__post_t *post;
    int rv;

    rv = tdg__conduit_add(&wire->conduit, out, calls, user, &carry);
    if (rv < 0)
        return rv;
    post = (tdg__post_t *)carry;
    tdg__post_init(post, out);
    *ret = post;
    return 0;
}

/* What cannot be begun for another reason than memory ends as refused. */
static int begun(tdg__post_t *post, int rv, tdg__carry_t **ret) {
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
    tdg__post_t *post;
    int rv;

    rv = add((tdg__http_t *)base, out, calls, user, &post);
    if (rv < 0)
        return rv;
    return begun(post, tdg__post_begin(post, out), ret);
}

static int listen_(tdg__wire_t *base, const char *after, tdg__version_t version,
                   void (*event_id)(void *user, const char *id),
                   const tdg__carry_calls_t *calls, void *user, tdg__carry_t **ret) {
    tdg__parcel_out_t out = {.version = version, .stream = true};
    tdg__post_t *post;
    int rv;

    rv = add((tdg__http_t *)base, &out, calls, user, &post);
    if (rv < 0)
        return rv;
    post->listen = true;
    post->event_id = event_id;
    return begun(post, tdg__post_begin_get(post, after, LISTEN_MS, 0), ret);
}

static void cancel(tdg__wire_t *base, tdg__carry_t *carry) {
    (void)base;
    tdg__conduit_drop(carry);
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
    tdg__http_t *wire = user;

    (void)end;
    wire->goodbye = NULL;
    on_soon(&wire->conduit);
}

static void say_goodbye(tdg__http_t *wire) {
    static const tdg__exchange_calls_t calls = {on_goodbye_head, on_goodbye_data,
                                                on_goodbye_done};
    tdg__web_field_t fields[] = {
        {"Mcp-Session-Id",       wire->session                   },
        {"MCP-Protocol-Version", tdg__version_text(wire->version)},
    };
    tdg__web_wish_t wish = {
        .method = TDG__WEB_DELETE,
        .url = wire->url,
        .accept = "application/json",
        .fields = fields,
        .field_count = wire->version != TDG__V_UNKNOWN ? 2 : 1,
        .total_timeout_ms = GOODBYE_MS,
    };

    if (tdg__web_begin(wire->web, &wish, &calls, wire, &wire->goodbye) < 0)
        wire->goodbye = NULL; /* the server finds out by itself */
}

static void end_session(tdg__wire_t *base, bool say_so, void (*done)(void *user)) {
    tdg__http_t *wire = (tdg__http_t *)base;

    wire->ending = done;
    if (say_so && wire->session != NULL && wire->goodbye == NULL)
        say_goodbye(wire);
    tdg__free(wire->session);
    wire->session = NULL;
    if (wire->goodbye == NULL)
        tdg__conduit_soon(&wire->conduit);
}

static bool renew(tdg__wire_t *base) {
    return tdg__web_renew_token(((tdg__http_t *)base)->web);
}

static void distrust(tdg__wire_t *base) {
    tdg__web_distrust(((tdg__http_t *)base)->web);
}

static void destroy(tdg__conduit_t *conduit) {
    tdg__http_t *wire = (tdg__http_t *)conduit;

    tdg__free(wire->url);
    tdg__free(wire->session);
    tdg__free(wire);
}

static void on_web_closed(void *arg) {
    tdg__http_t *wire = arg;

    tdg__conduit_done(&wire->conduit);
}

static void close_(tdg__wire_t *base, void (*closed)(void *arg), void *arg) {
    tdg__http_t *wire = (tdg__http_t *)base;

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
              .end_session = end_session,
              .distrust = distrust,
              .renew = renew,
              .close = close_,
              },
    .carry_size = sizeof(tdg__post_t),
    .soon = on_soon,
    .destroy = destroy,
    .turn = tdg__post_turn,
    .stop = tdg__post_stop,
    .release = tdg__post_release,
};

int tdg__wire_http_create(uv_loop_t *loop, const char *url, const tdg__web_opts_t *opts,
                          const tdg__wire_calls_t *calls, void *user,
                          size_t max_message_bytes, tdg__wire_t **ret) {
    tdg__http_t *wire;
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
