/* SPDX-License-Identifier: MIT
 *
 * The common part of the transports: their start and end, the list of their deliveries,
 * alarms, and deferred calls for reports that must not be made inside a function; for
 * those over HTTP, the creation of exchanges; and for those that carry everything over
 * one channel (stdio, the endpoints of 2024-11-05), the delivery that a response belongs
 * to, and the end of all deliveries when the channel is lost. */
#ifndef TDG_CLIENT_TRANSPORT_BASE_H
#define TDG_CLIENT_TRANSPORT_BASE_H

#include "base/heap.h"
#include "base/queue.h"
#include "client/transport/transport.h"

typedef struct tdg__transport_base tdg__transport_base_t;

struct tdg__delivery {
    tdg__queue_t in_deliveries; /* in the order of sending */
    tdg__timer_t alarm;
    tdg__delivery_calls_t calls;
    void *user;
    bool told_opened;
    bool gone;     /* nothing of it is reported any more */
    unsigned busy; /* its memory stays until this is 0 */
    /* As far as it is known. With an `end` other than DONE it ends so
     * at its next turn. */
    tdg__delivery_report_t report;
    tdg__web_exchange_t *exchange; /* that carries it; NULL: none, or it has ended */
    tdg__transport_base_t *base;
    char id[TDG__RPC_MAX_ID + 1]; /* JSON text; "": no response is waited for */
};

/* How the deliveries of a transport differ. */
typedef struct tdg__transport_base_kind {
    tdg__transport_ops_t ops;
    size_t size;          /* of a struct that begins with a base */
    size_t delivery_size; /* of a struct that begins with a delivery */
    bool http;            /* it needs a URL and `web`; else a program */
    void (*soon)(tdg__transport_base_t *base);  /* see tdg__transport_base_soon() */
    void (*leave)(tdg__transport_base_t *base); /* one channel: it is over; or NULL */
    void (*turn)(tdg__delivery_t *delivery);    /* its alarm; NULL: as for one channel */
    void (*release)(tdg__delivery_t *delivery); /* frees what is its own; may be NULL */
    void (*done)(tdg__transport_base_t *base);  /* likewise */
} tdg__transport_base_kind_t;

extern const tdg__transport_base_kind_t tdg__transport_http, tdg__transport_sse,
    tdg__transport_stdio;

struct tdg__transport_base {
    tdg__transport_t base; /* first */
    tdg__transport_opts_t opts;
    tdg__web_t *web; /* NULL: not over HTTP */
    uv_timer_t timer;
    tdg__heap_t alarms;
    tdg__timer_t soon;
    const tdg__transport_base_kind_t *kind;
    tdg__queue_t deliveries;
    bool closing; /* nothing is reported any more */
    bool over;    /* one channel: it is lost, or nobody wants it any more */
    void (*opening)(void *user, int code, const char *why); /* until it was called */
    void (*ending)(void *user);                             /* likewise */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* Drops all deliveries; nothing is reported any more. closed(arg) is called at the very
 * end. */
void tdg__transport_base_silence(tdg__transport_base_t *base, void (*closed)(void *arg),
                                 void *arg);

/* After that, or for a transport that nobody has seen: closes its handle and destroys it.
 */
void tdg__transport_base_done(tdg__transport_base_t *base);

/* Calls `opened` of open(), or `done` of end_session(), where it waits to be called. */
void tdg__transport_base_tell_opened(tdg__transport_base_t *base, int code,
                                     const char *why);
void tdg__transport_base_tell_ended(tdg__transport_base_t *base);

/* For the table: the `cancel` of all of them, and what those over HTTP share. */
void tdg__transport_base_cancel(tdg__transport_t *transport, tdg__delivery_t *delivery);
void tdg__transport_base_end_session(tdg__transport_t *transport, bool say_so,
                                     void (*done)(void *user)); /* of one channel */
void tdg__transport_base_distrust(tdg__transport_t *transport);
bool tdg__transport_base_renew(tdg__transport_t *transport);
void tdg__transport_base_close(tdg__transport_t *transport, void (*closed)(void *arg),
                               void *arg);

/* A delivery of this message. Returns 0 or TDG_ENOMEM. */
int tdg__delivery_create(tdg__transport_base_t *base, const tdg__outgoing_t *out,
                         const tdg__delivery_calls_t *calls, void *user,
                         tdg__delivery_t **ret);

/* It was written, or will never be (`fate` other than DONE): its next turn comes soon. */
void tdg__delivery_sent(tdg__delivery_t *delivery, tdg__delivery_end_t fate,
                        const char *why);

/* Its exchange was begun, or could not be: where memory is out, it is dropped; else that
 * is reported soon. Returns 0 or TDG_ENOMEM. */
int tdg__delivery_begun(tdg__delivery_t *delivery, int rv, tdg__delivery_t **ret);

/* What the failure of its exchange means to it. */
tdg__delivery_end_t tdg__delivery_failure(const tdg__delivery_t *delivery, int code);

/* Its next turn comes then. */
void tdg__delivery_alarm(tdg__delivery_t *delivery, uint64_t at_ms);
uint64_t tdg__transport_base_now(void); /* milliseconds that never go back */

/* Reports that it ended so, with what else is in `report`, and frees it. */
void tdg__delivery_end(tdg__delivery_t *delivery, tdg__delivery_end_t end,
                       const char *why);

/* Frees it without a word. */
void tdg__delivery_drop(tdg__delivery_t *delivery);

/* Around calls of its owner, who may drop it then: only after the second its memory is
 * freed. False: the delivery is gone. */
void tdg__delivery_enter(tdg__delivery_t *delivery);
bool tdg__delivery_leave(tdg__delivery_t *delivery);

/* A message that came with it. False: the delivery is gone. */
bool tdg__delivery_message(tdg__delivery_t *delivery, tdg__rpc_message_t *message);

/* Likewise: its answer has begun. */
bool tdg__delivery_opened(tdg__delivery_t *delivery, int status);

/* on_soon() comes at the next turn of the loop. */
void tdg__transport_base_soon(tdg__transport_base_t *base);

/* Bytes of one message, or of a batch: responses end their deliveries, all else goes to
 * the transport's `message`. What is no message is warned of. Returns 0, or TDG_ENOMEM: a
 * message is lost, so the channel is. */
int tdg__transport_base_read(tdg__transport_base_t *base, const char *text, size_t len);

/* All deliveries end as BROKEN. */
void tdg__transport_base_break(tdg__transport_base_t *base, const char *why);

/* The one channel is lost, or could not be opened. Once: all that is under way ends with
 * it. `code` says why it could not be opened. */
void tdg__transport_base_lose(tdg__transport_base_t *base, int code, const char *why);

void tdg__transport_base_warn(const tdg__transport_base_t *base, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
