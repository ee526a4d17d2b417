/* SPDX-License-Identifier: MIT
 *
 * What a client does, without its thread, its sockets and its clock: finding the era,
 * requests and their answers, keeping subscriptions through all losses, telling what
 * changed. Drive one core from one thread. Wires (wire.h) carry the messages; time and
 * chance are given, so tests simulate both.
 *
 *     connect.c    connect, reconnect, end; handshake.c: which era the server speaks
 *     calls.c      requests: ids, time-outs, sending; carried.c: how they end
 *     messages.c   what arrives, and where it goes; input.c: questions of the server
 *     lists.c      lists by pages; tools.c: calls, with the headers that tools ask for
 *     compose.c    messages as each era wants them; failure.c: why something failed
 *     subs.c       what is wanted, and what the server has acknowledged; with it those
 *                  that subs_internal.h lists
 *     listen.c     modern: streams, replaced without a gap
 *     session.c    legacy: subscribe requests and the GET stream
 *     updates.c    notifications: order, repetition, gaps; events
 *     reread.c     reading after updates, and polling
 *
 * Calls to whoever owns the core never come from inside of tdg__core_...() functions that
 * have a `done`, except of `done` itself with TDG_ENOMEM or TDG_EAGAIN (10,000 requests
 * are under way), where there is nothing left to remember it with, and of a tool's call
 * with TDG_EINVAL (an argument that cannot go into a header); but the owner may call
 * any function from inside of a call, except destroy. */
#ifndef TDG_CLIENT_CORE_H
#define TDG_CLIENT_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidings/client.h>

#include "client/wire.h"

typedef struct tdg__core tdg__core_t;

typedef enum tdg__wire_kind {
    TDG__WIRE_HTTP,
    TDG__WIRE_SSE,
    TDG__WIRE_STDIO,
} tdg__wire_kind_t;

typedef struct tdg__core_opts {
    const tdg_client_opts_t *client; /* with defaults filled in; borrowed for its life */

    int64_t (*now)(void *user); /* milliseconds that never go back */
    uint64_t (*random)(void *user);

    /* Stores a new wire in *ret, as the functions in wire.h. */
    int (*make_wire)(void *user, tdg__wire_kind_t kind, const tdg__wire_calls_t *calls,
                     void *wire_user, tdg__wire_t **ret);

    void (*event)(void *user, tdg_event_t *event); /* stolen; to be told now. NULL: there
                                                      was no memory for one */
    void (*forget)(void *user, const char *uri);   /* events that wait for it are void */
    void (*log)(void *user, tdg_client_log_level_t level, const char *line);
    json_t *(*input)(void *user, const char *method, const json_t *params); /* or NULL */
    void (*progress)(void *user, const json_t *params);                     /* or NULL */
    void *user;
} tdg__core_opts_t;

/* Returns 0 or TDG_ENOMEM. Nothing happens before tdg__core_connect(). */
int tdg__core_create(const tdg__core_opts_t *opts, tdg__core_t **ret);

/* Frees it; only when stopped, or never connected. */
void tdg__core_destroy(tdg__core_t *core);

/* How something ended: `code` 0 and perhaps a result, or a failure; both borrowed. */
typedef void (*tdg__core_done_fn)(void *user, int code, json_t *result,
                                  const tdg_failure_t *failure);

/* Connects; `done` once, at the latest after connect_timeout_ms. */
void tdg__core_connect(tdg__core_t *core, tdg__core_done_fn done, void *user);

/* Says goodbye within 5 s; everything under way ends with TDG_EENDED first. `done` when
 * the wires are closed. */
void tdg__core_stop(tdg__core_t *core, void (*done)(void *user), void *user);

/* Does what is due. Call it at tdg__core_deadline() (INT64_MAX: never), which may change
 * with every call of the core or a wire. */
void tdg__core_tick(tdg__core_t *core);
int64_t tdg__core_deadline(const tdg__core_t *core);

/* A request; `params` is stolen. Waits for the connection where there is none now, as
 * long as its time allows. Where memory is out, `done` is still called. */
void tdg__core_request(tdg__core_t *core, const char *method, json_t *params,
                       uint32_t timeout_ms, tdg__core_done_fn done, void *user);

/* All pages of a list: the result is an array. */
void tdg__core_list(tdg__core_t *core, tdg_list_t list, tdg__core_done_fn done,
                    void *user);

/* tools/call with the headers that the tool asks for. `arguments` is stolen. */
void tdg__core_call(tdg__core_t *core, const char *tool, json_t *arguments,
                    uint32_t timeout_ms, tdg__core_done_fn done, void *user);

/* `codes`, of `count` elements, is borrowed until `done` and gets the outcome of each;
 * may be NULL. `uris` and `opts` are borrowed for the call. */
void tdg__core_subscribe(tdg__core_t *core, const char *const *uris, size_t count,
                         const tdg_subscribe_opts_t *opts, int *codes,
                         tdg__core_done_fn done, void *user);

/* Nothing is told any more once this returned; `done` comes when the server knows it, or
 * does not matter any more. */
void tdg__core_unsubscribe(tdg__core_t *core, const char *uri, tdg__core_done_fn done,
                           void *user);

void tdg__core_watch_lists(tdg__core_t *core, unsigned lists, tdg__core_done_fn done,
                           void *user);

json_t *tdg__core_subscriptions(const tdg__core_t *core); /* new array; NULL: no memory */
bool tdg__core_is_subscribed(const tdg__core_t *core, const char *uri);

/* Strings are borrowed and live until the core connects anew or goes. */
int tdg__core_facts(const tdg__core_t *core, tdg_server_facts_t *ret);
void tdg__core_count(const tdg__core_t *core, tdg_client_counts_t *ret);

#endif
