/* SPDX-License-Identifier: MIT
 *
 * A client without its thread, its sockets and its clock: it detects the era of the
 * server, makes requests, keeps subscriptions across reconnects and reports changes.
 * Drive one core from one thread. Transports (transport.h) carry the messages; time and
 * random bits are arguments, so tests simulate both. The upper half of the core, which
 * keeps the subscriptions, is client/subs; this half calls it through a table.
 *
 * A function with a `done` never calls back from inside, with two exceptions: `done`
 * itself, where there is nothing left to remember it with (TDG_ENOMEM, or TDG_EAGAIN
 * because 10,000 requests are under way), and `done` of a tool call whose argument cannot
 * go into a header (TDG_EINVAL). A callback may call any function but destroy. */
#ifndef TDG_CLIENT_CORE_H
#define TDG_CLIENT_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidings/client.h>

#include "client/transport/transport.h"

typedef struct tdg__core tdg__core_t;

typedef struct tdg__core_upper tdg__core_upper_t; /* core_internal.h */

typedef struct tdg__core_opts {
    const tdg__core_upper_t *upper;  /* tdg__core_subs (subs/subscribing.h) */
    const tdg_client_opts_t *client; /* with defaults filled in; borrowed for its life */

    int64_t (*now)(void *user); /* milliseconds that never go back */
    uint64_t (*random)(void *user);

    /* Stores a new transport in *ret, as the functions in transport.h. */
    int (*make_transport)(void *user, tdg__transport_kind_t kind,
                          const tdg__transport_calls_t *calls, void *transport_user,
                          tdg__transport_t **ret);

    void (*event)(void *user, tdg_event_t *event); /* stolen; NULL: no memory for one */
    void (*forget)(void *user, const char *uri);   /* events that wait for it are void */
    void (*log)(void *user, tdg_log_level_t level, const char *line);
    void (*program_line)(void *user, const char *line); /* of its standard error */
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
 * the transports are closed. */
void tdg__core_stop(tdg__core_t *core, void (*done)(void *user), void *user);

/* Does what is due. Call it at tdg__core_deadline() (INT64_MAX: never), which may change
 * with every call of the core or a transport. */
void tdg__core_tick(tdg__core_t *core);
int64_t tdg__core_deadline(const tdg__core_t *core);

/* A request; `params` is stolen. Waits for the connection where there is none now, as
 * long as its time allows. Where memory is out, `done` is still called. */
void tdg__core_request(tdg__core_t *core, const char *method, json_t *params,
                       uint32_t timeout_ms, tdg__core_done_fn done, void *user);

/* All pages of a list: the result is an array. */
void tdg__core_list(tdg__core_t *core, tdg_list_kind_t list, tdg__core_done_fn done,
                    void *user);

/* tools/call with the headers that the tool asks for. `arguments` is stolen. */
void tdg__core_call(tdg__core_t *core, const char *tool, json_t *arguments,
                    uint32_t timeout_ms, tdg__core_done_fn done, void *user);

/* Strings are borrowed and live until the core connects anew or goes. */
int tdg__core_facts(const tdg__core_t *core, tdg_server_facts_t *ret);
void tdg__core_count(const tdg__core_t *core, tdg_client_counters_t *ret);

#endif
