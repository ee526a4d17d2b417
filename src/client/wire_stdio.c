/* SPDX-License-Identifier: MIT
 *
 * A message is a line of a program's input or output. Carries end with the response of
 * their id; what the program says beside goes to the log. */
#include "client/wire.h"

#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/child.h"
#include "client/conduit.h"

/* So that a program that ignores everything is gone within the time of a goodbye. */
enum { GRACE_MS = 2000 };

struct stdio {
    tdg__conduit_t conduit; /* first */
    uv_loop_t *loop;
    char **argv, **env, *cwd; /* env, cwd: may be NULL */
    tdg__child_t *child;      /* NULL: not started yet, or gone */
    bool over;                /* its output has ended, or nobody wants it any more */
    void (*opening)(void *user, int code, const char *why); /* to be called soon */
    void (*ending)(void *user); /* to be called when it is gone */
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
static void lose(struct stdio *wire, const char *why) {
    if (wire->over || wire->conduit.closing)
        return;
    wire->over = true;
    wire->opening = NULL;
    tdg__conduit_break(&wire->conduit, why);
    if (!wire->conduit.closing)
        wire->conduit.base.calls->lost(wire->conduit.base.user, why);
}

static void on_line(void *user, const char *data, size_t len) {
    struct stdio *wire = user;

    if (data == NULL)
        tdg__conduit_warn(&wire->conduit, "a message of more than %zu bytes was skipped",
                          wire->conduit.base.max_message_bytes);
    else if (!wire->over && tdg__conduit_read(&wire->conduit, data, len) < 0)
        lose(wire, tdg_strerror(TDG_ENOMEM));
}

static void on_said(void *user, const char *line) {
    struct stdio *wire = user;

    if (!wire->conduit.closing)
        wire->conduit.base.calls->said(wire->conduit.base.user, line);
}

static void on_ended(void *user, const char *why) {
    lose(user, why);
}

static void finish_close(struct stdio *wire);

static void on_gone(void *user) {
    struct stdio *wire = user;
    void (*ending)(void *user) = wire->ending;

    wire->child = NULL;
    wire->ending = NULL;
    if (wire->conduit.closing) {
        finish_close(wire);
        return;
    }
    tdg__conduit_break(&wire->conduit, "the session was ended");
    if (ending != NULL && !wire->conduit.closing)
        ending(wire->conduit.base.user);
}

static const tdg__child_calls_t child_calls = {on_line, on_said, on_ended, on_gone};

/* ---- The table ---------------------------------------------------------- */

static void on_soon(tdg__conduit_t *conduit) {
    struct stdio *wire = (struct stdio *)conduit;
    void (*opening)(void *user, int code, const char *why) = wire->opening;
    void (*ending)(void *user) = wire->ending;

    wire->opening = NULL;
    if (opening != NULL) {
        opening(conduit->base.user, 0, "");
    } else if (ending != NULL && wire->child == NULL) {
        wire->ending = NULL;
        ending(conduit->base.user);
    }
}

static int open_(tdg__wire_t *base,
                 void (*opened)(void *user, int code, const char *why)) {
    struct stdio *wire = (struct stdio *)base;
    tdg__child_opts_t opts = {
        .argv = (const char *const *)wire->argv,
        .env = (const char *const *)wire->env,
        .cwd = wire->cwd,
        .max_line_bytes = base->max_message_bytes,
        .grace_ms = GRACE_MS,
    };
    int rv;

    if (wire->child != NULL || wire->over)
        return TDG_EINVAL;
    rv = tdg__child_start(wire->loop, &opts, &child_calls, wire, &wire->child);
    if (rv < 0)
        return rv;
    if (tdg__child_pid(wire->child) != 0) { /* else the failure follows as `lost` */
        wire->opening = opened;
        tdg__conduit_soon(&wire->conduit);
    }
    return 0;
}

static int send_(tdg__wire_t *base, const tdg__parcel_out_t *out,
                 const tdg__carry_calls_t *calls, void *user, tdg__carry_t **ret) {
    struct stdio *wire = (struct stdio *)base;
    tdg__carry_t *carry;
    int rv;

    rv = tdg__conduit_add(&wire->conduit, out, calls, user, &carry);
    if (rv < 0)
        return rv;
    rv = wire->child != NULL && !wire->over
             ? tdg__child_send(wire->child, out->text, out->len)
             : TDG_EENDED;
    if (rv == TDG_ENOMEM) {
        tdg__conduit_drop(carry);
        return rv;
    }
    if (rv == 0)
        tdg__conduit_sent(carry, TDG__CARRY_DONE, "");
    else
        tdg__conduit_sent(carry, TDG__CARRY_BROKEN,
                          rv == TDG_ETOOLARGE ? "the program does not read its input"
                                              : "the program's input is closed");
    *ret = carry;
    return 0;
}

static void cancel(tdg__wire_t *base, tdg__carry_t *carry) {
    (void)base;
    tdg__conduit_drop(carry);
}

static void end_session(tdg__wire_t *base, bool say_so, void (*done)(void *user)) {
    struct stdio *wire = (struct stdio *)base;

    (void)say_so;
    wire->over = true;
    wire->opening = NULL;
    wire->ending = done;
    if (wire->child != NULL)
        tdg__child_stop(wire->child);
    else
        tdg__conduit_soon(&wire->conduit);
}

static bool renew(tdg__wire_t *base) {
    (void)base;
    return false;
}

static void destroy(tdg__conduit_t *conduit) {
    struct stdio *wire = (struct stdio *)conduit;

    free_strings(wire->argv);
    free_strings(wire->env);
    tdg__free(wire->cwd);
    tdg__free(wire);
}

static void finish_close(struct stdio *wire) {
    tdg__conduit_done(&wire->conduit);
}

static void close_(tdg__wire_t *base, void (*closed)(void *arg), void *arg) {
    struct stdio *wire = (struct stdio *)base;

    tdg__conduit_silence(&wire->conduit, closed, arg);
    if (wire->child != NULL)
        tdg__child_stop(wire->child);
    else
        finish_close(wire);
}

static const tdg__conduit_kind_t kind = {
    .ops =
        {
              .name = "stdio",
              .shared = true,
              .open = open_,
              .send = send_,
              .cancel = cancel,
              .end_session = end_session,
              .renew = renew,
              .close = close_,
              },
    .carry_size = sizeof(tdg__carry_t),
    .soon = on_soon,
    .destroy = destroy,
};

int tdg__wire_stdio_create(uv_loop_t *loop, const char *const *argv,
                           const char *const *env, const char *cwd,
                           const tdg__wire_calls_t *calls, void *user,
                           size_t max_message_bytes, tdg__wire_t **ret) {
    struct stdio *wire;

    if (argv == NULL || argv[0] == NULL)
        return TDG_EINVAL;
    wire = tdg__calloc(1, sizeof(*wire));
    if (wire == NULL)
        return TDG_ENOMEM;
    if (!copy_strings(argv, &wire->argv) || !copy_strings(env, &wire->env) ||
        !tdg__copy(cwd, &wire->cwd) ||
        tdg__conduit_init(&wire->conduit, loop, &kind, calls, user, max_message_bytes) <
            0) {
        free_strings(wire->argv);
        free_strings(wire->env);
        tdg__free(wire->cwd);
        tdg__free(wire);
        return TDG_ENOMEM;
    }
    wire->loop = loop;
    *ret = &wire->conduit.base;
    return 0;
}
