/* SPDX-License-Identifier: MIT
 *
 * Ends subscriptions to what has become not subscribable: a worker goes through its
 * subscriptions, some per turn of its loop, and those that it would refuse by now end as
 * if their watcher had failed. However often it is asked meanwhile, it goes through them
 * once more. A round begins one turn late, so that changes which were published before
 * (the deletion of the resource, say) reach the subscribers first. */
#ifndef TDG_SERVER_RECHECK_H
#define TDG_SERVER_RECHECK_H

#include <stdatomic.h>

#include "server/worker.h"

/* Part of a worker. */
typedef struct tdg__recheck {
    tdg__task_t task;
    tdg__worker_t *worker;
    atomic_uint asked;  /* how often, counted round */
    atomic_bool posted; /* the task waits in the inbox, or runs */
    unsigned begun;     /* `asked` when this round began */
    bool waited;        /* a turn, before this round */
    uint32_t position;  /* in the engine; 0: a round begins */
} tdg__recheck_t;

void tdg__recheck_init(tdg__recheck_t *recheck, tdg__worker_t *worker);

/* Some URI or template is not subscribable any more. From any thread. */
void tdg__recheck_ask(tdg__recheck_t *recheck);

#endif
