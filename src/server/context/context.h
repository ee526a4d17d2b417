/* SPDX-License-Identifier: MIT
 *
 * The records of the server that all rooms use: the one that all workers share, and the
 * one of one worker. Both are part of larger, private records in api/server.c and
 * loop/worker.c.
 *
 * A worker is one event loop with its connections, its engine and its sessions. Other
 * threads use only its inbox. */
#ifndef TDG_SERVER_CONTEXT_H
#define TDG_SERVER_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include <tidings/server.h>

#include "base/budget.h"
#include "core/engine.h"
#include "mcp/result.h"
#include "net/net.h"
#include "server/catalogue/catalogue.h"
#include "server/hub/hub.h"
#include "server/hub/inbox.h"

typedef struct tdg__worker tdg__worker_t;
typedef struct tdg__front tdg__front_t; /* front.h */

enum { TDG__MAX_WORKERS = 64 };

/* ---- What all workers share --------------------------------------------- */

/* Nothing of it changes while the server runs but for the atomics; catalogue, hub, routes
 * and census have locks of their own. */
struct tdg_server {
    tdg_server_opts_t opts;     /* complete copies, which are ours */
    struct tdg__log *log;       /* log.h */
    struct tdg__census *census; /* census.h */
    struct tdg__routes *routes; /* route.h */
    tdg__catalogue_t *catalogue;
    tdg__hub_t *hub;
    tdg__budget_t *answers;          /* bytes of large ones (limits.h) */
    tdg__budget_t *small_answers;    /* bytes of small ones that wait for a slow client */
    tdg__budget_t *parallel_reads;   /* their number */
    tdg__budget_t *forwards;         /* memory of requests on their way between workers */
    tdg__budget_t *strange_forwards; /* the part of those without a session */
    tdg__tally_t tally;              /* of all engines */
    atomic_size_t connections;       /* of all workers */
    atomic_uint_fast64_t streams;    /* that have been opened so far */
    atomic_bool stopping;
    tdg__worker_t *workers[TDG__MAX_WORKERS];
    atomic_uint worker_count; /* 0: not started; set once they are all there */
};

static inline bool tdg__server_stopping(const tdg_server_t *server) {
    return atomic_load(&server->stopping);
}

/* The interval that clients are given; 0: there are no keep-alives. */
static inline uint32_t tdg__options_keepalive(const tdg_server_opts_t *opts) {
    return opts->keepalive_ms != TDG_NONE ? opts->keepalive_ms : 0;
}

/* NULL: there is none with this index. */
static inline tdg__worker_t *tdg__server_worker(const tdg_server_t *server, int index) {
    return index >= 0 && (unsigned)index < server->worker_count ? server->workers[index]
                                                                : NULL;
}

/* What is advertised now. */
void tdg__server_describe(const tdg_server_t *server, tdg__server_info_t *ret);

/* ---- One worker --------------------------------------------------------- */

struct tdg__worker {
    tdg_server_t *server;
    unsigned index;
    uv_loop_t *loop;
    tdg__inbox_t *inbox;
    tdg__engine_t *engine;          /* NULL once the worker is closing */
    struct tdg__sessions *sessions; /* session.h */
    struct tdg__forwards *forwards; /* forward.h; NULL once its front is closing */
    tdg__front_t *fronts;           /* how clients reach it; the last that opened first */
    tdg__net_t *net;     /* of the HTTP front; all write through its scratch buffer */
    json_t *info;        /* name, version, title; one per worker, since threads should
                             not share a count */
    uint64_t requests;   /* that have come so far */
    size_t kept_bytes;   /* of messages that are kept for clients that resume */
    int64_t advanced_ms; /* the engine's time */
};

/* The worker whose thread this is; NULL on other threads. Of several that share a loop
 * only the last. The second says so, for this thread. */
tdg__worker_t *tdg__worker_current(void);
void tdg__worker_set_current(tdg__worker_t *worker);

/* ms, of this turn of the loop */
static inline int64_t tdg__worker_now(const tdg__worker_t *worker) {
    return (int64_t)uv_now(worker->loop);
}

/* Brings the engine's time up to date. Each callback of the loop calls this first. */
void tdg__worker_refresh(tdg__worker_t *worker);

#endif
