/* SPDX-License-Identifier: MIT
 *
 * Ends subscriptions to targets that have become not subscribable: a worker goes through
 * its subscriptions, some per turn of its loop, and those that it would refuse now end as
 * if their watcher had failed. However often this is requested meanwhile, it goes through
 * them once more. A request of the catalogue is due in the turn after the worker has
 * applied all changes that were published before (such as the deletion of the resource),
 * nothing ends while a resource is being removed and that is not due yet, and a stream's
 * ready notifications are written before one of its subscriptions ends. So the deletion
 * comes first, except for subscribers who do not read or wait for a window. */
#ifndef TDG_SERVER_RECHECK_H
#define TDG_SERVER_RECHECK_H

#include <stdatomic.h>

#include "server/catalogue/catalogue.h"
#include "server/context/context.h"

/* Part of a worker. */
typedef struct tdg__recheck {
    tdg__task_t task;
    tdg__worker_t *worker;
    atomic_bool posted;   /* the task waits in the inbox, to wake the worker */
    tdg__announced_t due; /* what a round may begin for */
    unsigned begun;       /* `due` when this round began */
    unsigned done;        /* `due` when the last round that is over began */
    uint32_t position;    /* in the engine; 0: a round begins */
} tdg__recheck_t;

void tdg__recheck_init(tdg__recheck_t *recheck, tdg__worker_t *worker);

/* The catalogue has announced something. From any thread. */
void tdg__recheck_ask(tdg__recheck_t *recheck);

/* For the worker, at the beginning of a turn: goes on with what is due. Returns what is
 * to be passed on, once all changes have been applied that are in the inbox by now. */
tdg__announced_t tdg__recheck_turn(tdg__recheck_t *recheck);
void tdg__recheck_let(tdg__recheck_t *recheck, tdg__announced_t announced);

#endif
