/* SPDX-License-Identifier: MIT
 *
 * The loop of a worker: in each turn it serves requests, applies changes, and writes
 * ready notifications; and its life cycle, from create to destroy. context.h has the part
 * of a worker that other rooms use. */
#ifndef TDG_SERVER_WORKER_H
#define TDG_SERVER_WORKER_H

#include "server/context/context.h"
#include "server/loop/configured.h"

typedef struct tdg__worker_opts {
    tdg_server_t *server;
    unsigned index;
    uv_loop_t *loop; /* NULL: one of its own, and a thread */
    tdg__configured_t *configured;
    void (*closed)(tdg__worker_t *worker); /* all its handles are closed; on its thread */
} tdg__worker_opts_t;

/* A worker without a front (front.h), which others add before it starts. Returns 0,
 * TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__worker_create(const tdg__worker_opts_t *opts, tdg__worker_t **ret);

/* Starts the thread, where it has one of its own. Returns 0 or TDG_ESYSTEM. */
int tdg__worker_start(tdg__worker_t *worker);

/* Wakes it, from any thread: it looks whether the server stops, and into its inbox. */
void tdg__worker_wake(tdg__worker_t *worker);

/* Some resource or template is no longer subscribable: subscriptions to it end. From any
 * thread. */
void tdg__worker_recheck(tdg__worker_t *worker);

void tdg__worker_join(tdg__worker_t *worker); /* waits for its thread */

/* Closes one that was never started, from the thread that creates it. */
void tdg__worker_close(tdg__worker_t *worker);

/* Frees a worker that is closed and joined, or that was never started. NULL is fine. */
void tdg__worker_destroy(tdg__worker_t *worker);

/* Whether this is the thread of a worker that runs. Of several that share a loop,
 * tdg__worker_current() names only the last. */
bool tdg__worker_is_here(const tdg__worker_t *worker);

/* Adds up what all workers count; from any thread. */
void tdg__workers_count(const tdg_server_t *server, tdg_server_counters_t *ret);

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

#endif
