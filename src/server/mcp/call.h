/* SPDX-License-Identifier: MIT
 *
 * A call is one request of a client that is being answered: the tdg_request_t of the
 * public header. A channel is the destination of its answer: an HTTP exchange, a pipe, an
 * old SSE session. Calls and channels belong to one worker's thread; only the functions
 * of the public header may be used on other threads, and they post a task to the worker.
 *
 * A call exists while it has a holder: the application until it has answered, and every
 * note (progress, log) that waits in the inbox. While notes wait, everything of that call
 * goes through the inbox, even from the worker's thread: so messages leave in the order
 * in which they were sent, the answer last. The channel may end before the answer. Then
 * the call is cancelled, and its answer is dropped. */
#ifndef TDG_SERVER_CALL_H
#define TDG_SERVER_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidings/server.h>

#include "base/queue.h"
#include "base/rope.h"
#include "base/variables.h"
#include "mcp/request.h"
#include "mcp/rpc.h"
#include "server/catalogue/catalogue.h"
#include "server/hub/inbox.h"

typedef struct tdg__worker tdg__worker_t; /* worker.h */
typedef struct tdg__channel tdg__channel_t;
typedef struct tdg_request tdg__call_t;

typedef struct tdg__channel_ops {
    /* A message about a call that is still unanswered (progress, log). */
    void (*notify)(tdg__channel_t *channel, tdg__call_t *call, const char *text,
                   size_t len);

    /* The answer: a result or error as one JSON-RPC message, borrowed; what is large in
     * it is shared. `code` is 0 or the code of the error. The call has left the channel's
     * list already, and is freed after this. The channel may free itself in here. */
    void (*answer)(tdg__channel_t *channel, tdg__call_t *call, const tdg__rope_t *message,
                   int code);

    /* tdg_request_release_connection(); may be NULL. */
    void (*release)(tdg__channel_t *channel, tdg__call_t *call);

    /* The answer to this call, which comes next, acknowledges a subscription: returns
     * true where the channel will acknowledge it to the engine once that has left. False:
     * the caller does so at once, because notifications stay behind the answer anyway, or
     * memory is out. May be NULL: always at once. */
    bool (*acknowledges)(tdg__channel_t *channel, const tdg__call_t *call,
                         const tdg__target_t *target);

    /* A call was cancelled and will not be answered; its mark is `mark`. May be NULL. */
    void (*cancelled)(tdg__channel_t *channel, void *mark);

    /* Bytes of earlier answers that wait for the same client and count in no budget. May
     * be NULL: none. */
    size_t (*uncounted)(const tdg__channel_t *channel);

    /* Whether so much waits for the client that it has to take some of it before it gets
     * more than little. May be NULL: never. */
    bool (*crowded)(const tdg__channel_t *channel);
} tdg__channel_ops_t;

struct tdg__channel {
    const tdg__channel_ops_t *ops;
    tdg__worker_t *worker;
    tdg__queue_t calls; /* unanswered, newest first */
    unsigned call_count;
    bool erlmcp;
    int log_level;   /* legacy: what logging/setLevel said; -1: nothing yet, so all from
                        info */
    void *mark;      /* for the owner of the channel */
    uint64_t client; /* the same for all channels of one client, as far as can be known */
};

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
    tdg__method_t method;
    tdg__version_t version;
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

/* Folds bytes into a number (not collision-resistant). */
uint64_t tdg__number_of_bytes(uint64_t number, const void *bytes, size_t len);

void tdg__channel_init(tdg__channel_t *channel, const tdg__channel_ops_t *ops,
                       tdg__worker_t *worker, bool erlmcp);

/* The channel goes: its calls are cancelled, and cut loose from it. Every channel of a
 * worker must be done before its inbox is closed. */
void tdg__channel_done(tdg__channel_t *channel);

/* Sends an error that belongs to no call; `error` is emptied. `id` may be NULL. */
void tdg__channel_refuse(tdg__channel_t *channel, const char *id,
                         tdg__rpc_error_t *error);

/* The same, made from a code and a message; for a call, too. */
void tdg__channel_refuse_plainly(tdg__channel_t *channel, const char *id, int code,
                                 const char *message);
void tdg__call_refuse_plainly(tdg__call_t *call, int code, const char *message);

/* The error that needs no memory: writes it to `ret` and returns its length. `id` is JSON
 * text; NULL or "": unknown, and left out. */
enum { TDG__OUT_OF_MEMORY_MAX = TDG__RPC_MAX_ID + 100 };
size_t tdg__out_of_memory(const char *id, char ret[TDG__OUT_OF_MEMORY_MAX]);

/* Begins a call; everything needed later is copied from `request`. NULL: out of memory.
 */
tdg__call_t *tdg__call_create(tdg__channel_t *channel, const tdg__mcp_request_t *request);

/* The unanswered call of that id (JSON text), or NULL; the newest one, or NULL. */
tdg__call_t *tdg__channel_find(const tdg__channel_t *channel, const char *id);
tdg__call_t *tdg__channel_newest(const tdg__channel_t *channel);

/* The client has cancelled the request: the call leaves the channel without an answer,
 * which is informed, and tdg_request_cancelled() says so. */
void tdg__call_cancel(tdg__call_t *call);

/* Answers on the worker's thread, from inside or outside of a callback; the call is gone
 * then. `result` is stolen (NULL: out of memory) and finished as its era demands; `error`
 * is emptied. */
void tdg__call_answer(tdg__call_t *call, json_t *result);
void tdg__call_refuse(tdg__call_t *call, tdg__rpc_error_t *error);

/* ---- Large answers, from any thread ------------------------------------- */

/* Replies to a read as tdg_request_reply() does. `item` is the one in `contents` without
 * the member that carries the content (uri, mimeType, _meta); stolen; NULL: out of
 * memory. `member` is that one as text (mcp/content.h), shared by all who read the same;
 * a reference is taken. */
void tdg__request_reply_contents(tdg_request_t *request, json_t *item,
                                 tdg__buf_t *member);

/* There is no room for the answer now: an error that says when to retry. */
void tdg__request_fail_busy(tdg_request_t *request);

/* The listed size of a resource that is being read; 0: not known. */
uint64_t tdg__request_size(const tdg_request_t *request);

/* The client, as a number: the same for requests of one client, and not 0. Over HTTP that
 * is a session, or what comes from one address under one name. For taking turns, not for
 * rights. */
uint64_t tdg__request_client(const tdg_request_t *request);

/* ---- Methods ------------------------------------------------------------ */

/* Handles the methods that only need the catalogue: lists, read, tool, prompt,
 * completion. The call is answered now or later. For tools/call over modern HTTP,
 * `find_header` (may be NULL) gives the request's header fields for the Mcp-Param-*
 * check. Returns false for any other method. */
bool tdg__call_handle(tdg__call_t *call, const tdg__mcp_request_t *request,
                      const char *(*find_header)(void *user, const char *name),
                      void *user);

/* The same for a checked request of a modern client that is not a listen: every request
 * stands for itself. The answer goes to `channel`. */
void tdg__modern_serve(tdg__channel_t *channel, const tdg__mcp_request_t *request,
                       const char *(*find_header)(void *user, const char *name),
                       void *user);

/* ---- For request.c and methods.c ---------------------------------------- */

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
