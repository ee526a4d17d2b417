/* SPDX-License-Identifier: MIT
 *
 * A message is a line of a program's input or output. Deliveries end with the response of
 * their id; what the program says beside goes to the log. */
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
    uv_loop_t *loop;
    char **argv, **env, *cwd; /* env, cwd: may be NULL */
    tdg__child_t *child;      /* NULL: not started yet, or gone */
    bool over;                /* its output has ended, or nobody wants it any more */
};

/* ---- Lists of strings --------------------------------------------------- */

static void free_strings(char **strings) {
    for (size_t i = 0; strings != NULL && strings[i] != NULL; i++)
        tdg__free(strings[i]);
    tdg__free(strings);
}

static bool copy_strings(const char *const *strings, char ***ret) {
    size_t count = 0;
    char **copy;

    *ret = NULL;
    if (strings == NULL)
        return true;
    while (strings[count] != NULL)
        count++;
    copy = tdg__calloc(count + 1, sizeof(*copy));
    for (size_t i = 0; copy != NULL && i < count; i++) {
        copy[i] = tdg__strdup(strings[i]);
        if (copy[i] == NULL) {
            free_strings(copy);
            return false;
        }
    }
    *ret = copy;
    return copy != NULL;
}

/* ---- The program -------------------------------------------------------- */

/* The channel is lost: once, and everything ends. */
static void lose(struct stdio *transport, const char *why) {
    if (transport->over || transport->base.closing)
        return;
    transport->over = true;
    transport->base.opening = NULL;
    tdg__transport_base_break(&transport->base, why);
    if (!transport->base.closing)
        transport->base.base.calls->lost(transport->base.base.user, why);
}

static void on_line(void *user, const char *data, size_t len) {
    struct stdio *transport = user;

    if (data == NULL)
        tdg__transport_base_warn(&transport->base,
                                 "a message of more than %zu bytes was skipped",
                                 transport->base.base.max_message_bytes);
    else if (!transport->over &&
             tdg__transport_base_read(&transport->base, data, len) < 0)
        lose(transport, tdg_strerror(TDG_ENOMEM));
}

static void on_said(void *user, const char *line) {
    struct stdio *transport = user;

    if (!transport->base.closing)
        transport->base.base.calls->said(transport->base.base.user, line);
}

static void on_ended(void *user, const char *why) {
    lose(user, why);
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
        .argv = (const char *const *)transport->argv,
        .env = (const char *const *)transport->env,
        .cwd = transport->cwd,
        .max_line_bytes = base->max_message_bytes,
        .grace_ms = GRACE_MS,
    };
    int rv;

    if (transport->child != NULL || transport->over)
        return TDG_EINVAL;
    rv = tdg__child_start(transport->loop, &opts, &child_calls, transport,
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
    rv = transport->child != NULL && !transport->over
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

static void end_session(tdg__transport_t *base, bool say_so, void (*done)(void *user)) {
    struct stdio *transport = (struct stdio *)base;

    (void)say_so;
    transport->over = true;
    transport->base.opening = NULL;
    transport->base.ending = done;
    if (transport->child != NULL)
        tdg__child_stop(transport->child);
    else
        tdg__transport_base_soon(&transport->base);
}

static bool renew(tdg__transport_t *base) {
    (void)base;
    return false;
}

static void done(tdg__transport_base_t *base) {
    struct stdio *transport = (struct stdio *)base;

    free_strings(transport->argv);
    free_strings(transport->env);
    tdg__free(transport->cwd);
}

static void close_(tdg__transport_t *base, void (*closed)(void *arg), void *arg) {
    struct stdio *transport = (struct stdio *)base;

    tdg__transport_base_silence(&transport->base, closed, arg);
    if (transport->child != NULL)
        tdg__child_stop(transport->child);
    else
        tdg__transport_base_done(&transport->base);
}

static const tdg__transport_base_kind_t kind = {
    .ops =
        {
            .name = "stdio",
            .shared = true,
            .open = open_,
            .send = send_,
            .cancel = tdg__transport_base_cancel,
            .end_session = end_session,
            .renew = renew,
            .close = close_,
        },
    .size = sizeof(struct stdio),
    .delivery_size = sizeof(tdg__delivery_t),
    .soon = on_soon,
    .done = done,
};

int tdg__transport_stdio_create(uv_loop_t *loop, const char *const *argv,
                                const char *const *env, const char *cwd,
                                const tdg__transport_calls_t *calls, void *user,
                                size_t max_message_bytes, tdg__transport_t **ret) {
    tdg__transport_base_t *base;
    struct stdio *transport;

    if (argv == NULL || argv[0] == NULL)
        return TDG_EINVAL;
    base = tdg__transport_base_create(&kind, loop, calls, user, max_message_bytes);
    if (base == NULL)
        return TDG_ENOMEM;
    transport = (struct stdio *)base;
    transport->loop = loop;
    if (!copy_strings(argv, &transport->argv) || !copy_strings(env, &transport->env) ||
        !tdg__copy(cwd, &transport->cwd)) {
        tdg__transport_base_done(base); /* frees it */
        return TDG_ENOMEM;
    }
    *ret = &base->base;
    return 0;
}
