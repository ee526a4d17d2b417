/* SPDX-License-Identifier: MIT
 *
 * Calls about subscriptions that wait for their outcome, and what they wait for. */
#ifndef TDG_CLIENT_PENDING_H
#define TDG_CLIENT_PENDING_H

#include "base/queue.h"
#include "client/session/core_internal.h"

typedef struct tdg__pending tdg__pending_t;
typedef struct tdg__waiter tdg__waiter_t;

/* One of the things that a call waits for. Lives inside its call. */
struct tdg__waiter {
    tdg__pending_t *pending;
    tdg__waiter_t *next;  /* of those that wait for the same thing */
    tdg__waiter_t **list; /* that it is in; NULL: it has its outcome */
    uint32_t sub;         /* subscribe: the record */
    int code;
    int64_t give_up_ms; /* if the server refuses it still; INT64_MAX: it does not */
};

typedef enum tdg__pending_kind {
    TDG__PENDING_SUBSCRIBE,
    TDG__PENDING_UNSUBSCRIBE,
    TDG__PENDING_LISTS,
} tdg__pending_kind_t;

struct tdg__pending {
    tdg__queue_t in_calls; /* those that are not finished, or those that are */
    tdg__core_timer_t timeout;
    int64_t end_ms; /* its time is over then */
    int64_t due_ms; /* of the timer: then, or before for those that are refused */
    tdg__pending_kind_t kind;
    tdg__core_done_fn done;
    void *user;
    int *codes; /* the caller's, or NULL */
    size_t count, left;
    size_t failed_at; /* the first that failed; `count`: none did */
    tdg_failure_t failure;
    tdg__waiter_t waiters[];
};

/* NULL when memory is out: then `done` is called with that, later. */
tdg__pending_t *tdg__pending_create(tdg__core_t *core, tdg__pending_kind_t kind,
                                    size_t count, tdg__core_done_fn done, void *user);
void tdg__pending_late(tdg__core_t *core, int code, tdg__core_done_fn done, void *user);

void tdg__waiter_add(tdg__waiter_t **list, tdg__waiter_t *waiter);
void tdg__waiter_settle(tdg__core_t *core, tdg__waiter_t *waiter, int code,
                        const tdg_failure_t *failure);
void tdg__waiters_settle(tdg__core_t *core, tdg__waiter_t **list, int code,
                         const tdg_failure_t *failure);
void tdg__waiters_move(tdg__waiter_t **from, tdg__waiter_t **to);

/* They wait for what was refused for now: each does so for a part of its call's time,
 * from the first refusal on. */
void tdg__waiters_put_off(tdg__core_t *core, tdg__waiter_t *list);

void tdg__pending_flush(tdg__core_t *core); /* calls `done` of those that finished */
void tdg__pending_end(tdg__core_t *core);   /* all that wait: TDG_EENDED */

#endif
