/* SPDX-License-Identifier: MIT
 *
 * A front is one way in which clients reach a worker: HTTP, stdio. A new one is a file or
 * folder of its own with one of these tables; api/server.c opens it, and the worker uses
 * nothing else of it.
 *
 *     open ──▶ serving ──▶ stop: takes no further request
 *                          finish, finish, ...: streams end, answers leave
 *                          give_up: the time is over
 *                     ──▶ close ──▶ done: it is freed
 *
 * Everything is called on the worker's thread. Any function but `busy` and `close` may be
 * NULL. */
#ifndef TDG_SERVER_FRONT_H
#define TDG_SERVER_FRONT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/context/context.h"

typedef struct tdg__front_ops {
    /* Comes by every so often: signs of life, old streams, time-outs. */
    void (*tick)(tdg__front_t *front, int64_t now_ms);

    /* All that is ready was written, and the loop is about to wait. */
    void (*turn_ends)(tdg__front_t *front);

    /* The server stops: no further client or request is taken. */
    void (*stop)(tdg__front_t *front);

    /* Whether a request is being answered that may still publish something. Once the
     * server stops, no new one comes. */
    bool (*may_publish)(const tdg__front_t *front);

    /* Ends the streams that have nothing more to write. Requests that were on their way
     * may have begun streams since the last call. */
    void (*finish)(tdg__front_t *front);

    /* How many clients are still being answered, or written to. */
    size_t (*busy)(const tdg__front_t *front);

    /* The time to stop is over, and `close` follows: the last chance to say so. */
    void (*give_up)(tdg__front_t *front);

    /* Closes at once, and frees the front; done(arg) follows when it is gone. */
    void (*close)(tdg__front_t *front, void (*done)(void *arg), void *arg);

    const char *alone; /* how the log calls its one client; NULL: it counts connections */
} tdg__front_ops_t;

/* The first member of a front's own record. */
struct tdg__front {
    const tdg__front_ops_t *ops;
    tdg__worker_t *worker;
    tdg__front_t *next;
};

static inline void tdg__front_join(tdg__front_t *front, const tdg__front_ops_t *ops,
                                   tdg__worker_t *worker) {
    assert(ops->busy != NULL && ops->close != NULL);
    *front = (tdg__front_t){.ops = ops, .worker = worker, .next = worker->fronts};
    worker->fronts = front;
}

#endif
