/* SPDX-License-Identifier: MIT
 *
 * A worker is one event loop with its connections, its engine and its sessions. Nothing
 * of it is touched by other threads but its inbox. */
#ifndef TDG_SERVER_WORKER_H
#define TDG_SERVER_WORKER_H

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
#include "server/catalogue.h"
#include "server/hub.h"
#include "server/inbox.h"

typedef struct tdg__worker tdg__worker_t;
typedef struct tdg__sessions tdg__sessions_t; /* session.h */

/* The worker whose thread this is; NULL on other threads. */
tdg__worker_t *tdg__worker_current(void);

/* Whether this is the thread of a worker that runs. Of several that share a loop,
 * tdg__worker_current() names only the last. */
bool tdg__worker_is_here(const tdg__worker_t *worker);

/* ---- What the parts of a worker ask of it ------------------------------- */

tdg_server_t *tdg__worker_server(const tdg__worker_t *worker);
tdg__inbox_t *tdg__worker_inbox(const tdg__worker_t *worker);
tdg__engine_t *tdg__worker_engine(const tdg__worker_t *worker);
tdg__net_t *tdg__worker_net(const tdg__worker_t *worker);
tdg__sessions_t *tdg__worker_sessions(const tdg__worker_t *worker);
json_t *tdg__worker_info(const tdg__worker_t *worker); /* name, version, title */
int64_t tdg__worker_now(const tdg__worker_t *worker);  /* ms, of this turn of the loop */

/* Brings the engine's time up to date. Whoever is called by the loop calls this first. */
void tdg__worker_refresh(tdg__worker_t *worker);

void tdg__worker_count_request(tdg__worker_t *worker);

/* Memory for messages of streams that clients may come back to: bounded for all of them
 * together. False: it is used up. */
bool tdg__worker_keep(tdg__worker_t *worker, size_t bytes);
void tdg__worker_unkeep(tdg__worker_t *worker, size_t bytes);

/* Work in libuv's thread pool, so that the loop goes on meanwhile. Embedded in what it is
 * about; `done` is called on the worker's thread, also where the worker is closing, which
 * waits for it. From the worker's thread only. */
typedef struct tdg__job tdg__job_t;
struct tdg__job {
    uv_work_t work;
    tdg__worker_t *worker;
    void (*run)(tdg__job_t *job); /* in a thread of the pool */
    void (*done)(tdg__job_t *job);
};
void tdg__worker_do(tdg__worker_t *worker, tdg__job_t *job);

/* The client on the pipe has gone, or cannot be served any more: the server stops. */
void tdg__worker_pipe_ended(tdg__worker_t *worker);

/* ---- For the server ----------------------------------------------------- */

/* A worker on `loop`; NULL: with a loop and thread of its own. Returns 0, TDG_ENOMEM or
 * TDG_ESYSTEM. */
int tdg__worker_create(tdg_server_t *server, unsigned index, struct uv_loop_s *loop,
                       tdg__worker_t **ret);

/* Serves: `fd` is a listening socket, stolen. `tag` is a tdg__listener_t. */
int tdg__worker_listen(tdg__worker_t *worker, int fd, void *tag);
int tdg__worker_pipe(tdg__worker_t *worker, int input, int output, bool erlmcp);

/* Starts the thread, where it has one of its own. Returns 0 or TDG_ESYSTEM. */
int tdg__worker_start(tdg__worker_t *worker);

/* Wakes it, from any thread: it looks whether the server stops, and into its inbox. */
void tdg__worker_wake(tdg__worker_t *worker);

/* Some resource or template is not subscribable any more: subscriptions to it end. From
 * any thread. */
void tdg__worker_recheck(tdg__worker_t *worker);

bool tdg__worker_closed(const tdg__worker_t *worker); /* all handles are closed */
void tdg__worker_join(tdg__worker_t *worker);         /* waits for its thread */

/* Closes one that was never started, from the thread that creates it. */
void tdg__worker_close(tdg__worker_t *worker);

/* Frees a worker that is closed and joined, or that was never started. NULL is fine. */
void tdg__worker_destroy(tdg__worker_t *worker);

/* Adds what this worker counts; from any thread. */
void tdg__worker_add_counters(const tdg__worker_t *worker, tdg_counters_t *sum);

/* ---- What all workers share --------------------------------------------- */

/* None of it changes while the server runs; catalogue and routes have their own lock. */
const tdg_server_opts_t *tdg__server_opts(const tdg_server_t *server); /* complete */
tdg__catalogue_t *tdg__server_catalogue(const tdg_server_t *server);
tdg__hub_t *tdg__server_hub(const tdg_server_t *server);
struct tdg__routes *tdg__server_routes(const tdg_server_t *server); /* route.h */
tdg__budget_t *tdg__server_answers(const tdg_server_t *server);     /* of large answers */
tdg__budget_t *tdg__server_small_answers(const tdg_server_t *server);  /* limits.h */
tdg__budget_t *tdg__server_parallel_reads(const tdg_server_t *server); /* their number */
tdg__worker_t *tdg__server_worker(const tdg_server_t *server, int index); /* or NULL */

/* What is advertised now. */
void tdg__server_describe(const tdg_server_t *server, tdg__server_info_t *ret);

/* Whether the server is to stop; and a worker's word that it has. */
bool tdg__server_stopping(const tdg_server_t *server);
void tdg__server_worker_closed(tdg_server_t *server, tdg__worker_t *worker);

/* A number for a stream that is being opened; no other one ever gets it. */
uint64_t tdg__server_next_stream(tdg_server_t *server);

tdg__tally_t *tdg__server_tally(tdg_server_t *server);        /* of all engines */
atomic_size_t *tdg__server_connections(tdg_server_t *server); /* of all workers */

struct tdg__census *tdg__server_census(const tdg_server_t *server); /* census.h */

/* As tdg_server_remove_resource(), for one whose subscribers know already. */
int tdg__server_unlist(tdg_server_t *server, const char *uri);

/* Hands the settings made so far to a new engine. */
int tdg__server_configure_engine(tdg_server_t *server, tdg__engine_t *engine);

#endif
