/* SPDX-License-Identifier: MIT
 *
 * What call.c, request.c and the methods share: the inside of a call.
 *
 * A call exists while it has a holder: the application until it has answered, and every
 * note (progress, log) that waits in the inbox. While notes wait, everything of that call
 * goes through the inbox, even from the worker's thread: so messages leave in the order
 * in which they were sent, the answer last. */
#ifndef TDG_SERVER_CALL_INTERNAL_H
#define TDG_SERVER_CALL_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/variables.h"
#include "server/mcp/call.h"

struct tdg_request {
    tdg__task_t task; /* the answer, when it comes from another thread */

    /* Worker's thread only. */
    tdg__channel_t *channel; /* NULL: the client has cancelled or left */
    tdg__queue_t link;       /* in the channel's `calls` */
    void *mark;
    double progress; /* the last that was sent */

    /* Written when the call begins. */
    const tdg__worker_t *worker; /* only to compare with: it may have gone */
    tdg_server_t *server;        /* may have gone, too, once the channel has */
    tdg__inbox_t *inbox;         /* a reference */
    tdg__entry_t *entry;         /* a reference: what was asked for; NULL: none */
    tdg__variables_t *variables; /* of a read through a template; NULL: none */
    json_t *progress_token;      /* our own; NULL: none */
    json_t *client; /* a reference: who calls, as it said itself; NULL: it did not */
    tdg__budget_t *budget; /* a reference, once its callback was let run; NULL: not so */
    size_t reserved;       /* bytes there, for its answer */
    tdg__budget_t *parallel; /* a reference, where it is one there; NULL: not so */
    const char *target;      /* URI or name that was asked for; "" */
    uint64_t client_id;
    uint8_t method, version;
    int8_t log_from; /* the lowest level that is wanted, or LOG_BY_CHANNEL */
    bool erlmcp;

    /* The answer on its way to the worker: one of them, none where memory was out. */
    json_t *result;
    tdg__buf_t *member; /* of a large read, whose `result` is the rest of its item */
    tdg__rpc_error_t *error;

    atomic_uint refs;
    atomic_bool cancelled, answered;
    char id[]; /* JSON text; behind it the target */
};

enum { TDG__LOG_BY_CHANNEL = -1, TDG__LOG_NEVER = TDG_LOG_EMERGENCY + 1 };

/* Whether to act at once: on the worker's thread, and no note waits. */
bool tdg__call_is_here(const tdg__call_t *call);

void tdg__call_ref(tdg__call_t *call);
void tdg__call_unref(tdg__call_t *call);

/* Answers at once or by way of the inbox. `result` is stolen; `error` (NULL: `result`
 * counts) is emptied. */
void tdg__call_conclude(tdg__call_t *call, json_t *result, tdg__rpc_error_t *error);

/* What was asked for does not exist, in the words of its method and era. */
void tdg__call_set_not_found(const tdg__call_t *call, tdg__rpc_error_t *error);

/* Whether the callback of a tool or prompt may run. What has run may have had an effect,
 * so its answer is never refused for want of room; a request that arrives when there is
 * none is refused before. Room is reserved for as much as answers before it have needed.
 * That keeps away other callbacks only, not reads: it may run for ever, and answer
 * little. */
bool tdg__call_admit(tdg__call_t *call);

/* Whether a read may run beside other requests of its batch or old stream. A few always
 * may, so that reads of others that hang keep no client from reading. */
bool tdg__call_admit_read(tdg__call_t *call);

/* There is no room for its answer now. */
void tdg__call_set_busy(const tdg__call_t *call, tdg__rpc_error_t *error);

#endif
