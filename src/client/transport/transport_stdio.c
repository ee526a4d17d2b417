/* SPDX-License-Identifier: MIT
 *
 * A message is a line of a program's input or output. Deliveries end with the response of
 * their id; the program's other output goes to the log. */
#include "client/transport/transport.h"

#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/transport/child.h"
#include "client/transport/transport_base.h"

/* So that a program that ignores everything is gone within the time of a goodbye. */
enum { GRACE_MS = 2000 };

struct stdio {
    tdg__transport_base_t base; /* first */
    tdg__child_t *child;        /* NULL: not started yet, or gone */
};

/* ---- The program -------------------------------------------------------- */

static void leave(tdg__transport_base_t *base) {
    struct stdio *transport = (struct stdio *)base;

    if (transport->child != NULL)
        tdg__child_stop(transport->child);
}

static void on_line(void *user, const char *data, size_t len) {
    struct stdio *transport = user;

    if (data == NULL)
        tdg__transport_base_warn(&transport->base,
                                 "a message of more than %zu bytes was skipped",
                                 transport->base.opts.max_message_bytes);
    else if (!transport->base.over &&
             tdg__transport_base_read(&transport->base, data, len) < 0)
        tdg__transport_base_lose(&transport->base, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
}

static void on_said(void *user, const char *line) {
    struct stdio *transport = user;

    if (!transport->base.closing)
        transport->base.base.calls->said(transport->base.base.user, line);
}

static void on_ended(void *user, const char *why) {
    tdg__transport_base_lose(user, TDG_EUNREACHABLE, why);
}

static void on_gone(void *user) {
    struct stdio *transport = user;

    transport->child = NULL;
    if (transport->base.closing) {
        tdg__transport_base_done(&transport->base);
        return;
    }
    tdg__transport_base_break(&transport->base, "the session was ended");
    tdg__transport_base_tell_ended(&transport->base);
}

static const tdg__child_calls_t child_calls = {on_line, on_said, on_ended, on_gone};

/* ---- The table ---------------------------------------------------------- */

static void on_soon(tdg__transport_base_t *base) {
    struct stdio *transport = (struct stdio *)base;

    if (base->opening != NULL)
        tdg__transport_base_tell_opened(base, 0, "");
    else if (transport->child == NULL)
        tdg__transport_base_tell_ended(base);
}

static int open_(tdg__transport_t *base,
                 void (*opened)(void *user, int code, const char *why)) {
    struct stdio *transport = (struct stdio *)base;
    tdg__child_opts_t opts = {
        .argv = transport->base.opts.argv,
        .env = transport->base.opts.env,
        .cwd = transport->base.opts.cwd,
        .max_line_bytes = transport->base.opts.max_message_bytes,
        .grace_ms = GRACE_MS,
    };
    int rv;

    if (transport->child != NULL || transport->base.over)
        return TDG_EINVAL;
    rv = tdg__child_start(transport->base.timer.loop, &opts, &child_calls, transport,
                          &transport->child);
    if (rv < 0)
        return rv;
    if (tdg__child_pid(transport->child) != 0) { /* else the failure follows as `lost` */
        transport->base.opening = opened;
        tdg__transport_base_soon(&transport->base);
    }
    return 0;
}

static int send_(tdg__transport_t *base, const tdg__outgoing_t *out,
                 const tdg__delivery_calls_t *calls, void *user, tdg__delivery_t **ret) {
    struct stdio *transport = (struct stdio *)base;
    tdg__delivery_t *delivery;
    int rv;

    rv = tdg__delivery_create(&transport->base, out, calls, user, &delivery);
    if (rv < 0)
        return rv;
    rv = transport->child != NULL && !transport->base.over
             ? tdg__child_send(transport->child, out->text, out->len)
             : TDG_EENDED;
    if (rv == TDG_ENOMEM) {
        tdg__delivery_drop(delivery);
        return rv;
    }
    if (rv == 0)
        tdg__delivery_sent(delivery, TDG__DELIVERY_DONE, "");
    else
        tdg__delivery_sent(delivery, TDG__DELIVERY_BROKEN,
                           rv == TDG_ETOOLARGE ? "the program does not read its input"
                                               : "the program's input is closed");
    *ret = delivery;
    return 0;
}

static void close_(tdg__transport_t *base, void (*closed)(void *arg), void *arg) {
    struct stdio *transport = (struct stdio *)base;

    tdg__transport_base_silence(&transport->base, closed, arg);
    if (transport->child != NULL)
        tdg__child_stop(transport->child);
    else
        tdg__transport_base_done(&transport->base);
}

const tdg__transport_base_kind_t tdg__transport_stdio = {
    .ops =
        {
            .name = "stdio",
            .shared = true,
            .open = open_,
            .send = send_,
            .cancel = tdg__transport_base_cancel,
            .end_session = tdg__transport_base_end_session,
            .close = close_,
        },
    .size = sizeof(struct stdio),
    .delivery_size = sizeof(tdg__delivery_t),
    .soon = on_soon,
    .leave = leave,
};
