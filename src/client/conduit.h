/* SPDX-License-Identifier: MIT
 *
 * What the wires have in common: the list of their carries, alarms, and turns of the loop
 * for what must not be told from inside of a function. And for those that carry
 * everything over one channel (stdio, the pair of 2024-11-05): which carry a response
 * belongs to, time-outs, and the end of all when the channel is lost. */
#ifndef TDG_CLIENT_CONDUIT_H
#define TDG_CLIENT_CONDUIT_H

#include "base/heap.h"
#include "client/wire.h"

typedef struct tdg__conduit tdg__conduit_t;

struct tdg__carry {
    tdg__carry_t *next, **self; /* in the order of sending */
    tdg__timer_t alarm;
    tdg__carry_calls_t calls;
    void *user;
    uint64_t began_ms;
    uint32_t timeout_ms; /* 0: none */
    bool told_opened, written;
    bool sent;             /* the server may have got it */
    tdg__carry_end_t fate; /* BROKEN and such: ends so at its next turn; DONE: waits */
    const char *why;       /* with it */
    tdg__conduit_t *conduit;
    char id[TDG__RPC_MAX_ID + 1]; /* JSON text; "": no response is waited for */
};

/* How the carries of a wire differ. */
typedef struct tdg__conduit_kind {
    tdg__wire_ops_t ops;
    size_t carry_size;                     /* of a struct that begins with a carry */
    void (*soon)(tdg__conduit_t *conduit); /* see tdg__conduit_soon() */
    void (*turn)(tdg__carry_t *carry);     /* its alarm; NULL: as for one channel */
    void (*stop)(tdg__carry_t *carry);     /* nothing is to come any more; may be NULL */
    void (*release)(tdg__carry_t *carry);  /* frees it; NULL: memory is all it has */
    void (*destroy)(tdg__conduit_t *conduit); /* frees the wire */
} tdg__conduit_kind_t;

struct tdg__conduit {
    tdg__wire_t base; /* first */
    uv_timer_t timer;
    tdg__heap_t alarms;
    tdg__timer_t soon;
    const tdg__conduit_kind_t *kind;
    tdg__carry_t *first, **last;
    tdg__carry_t *current; /* whose call runs; NULL again when it was dropped meanwhile */
    bool closing;          /* nothing is told any more */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* The memory is the caller's, all zero. Returns 0 or TDG_ENOMEM (nothing to undo). */
int tdg__conduit_init(tdg__conduit_t *conduit, uv_loop_t *loop,
                      const tdg__conduit_kind_t *kind, const tdg__wire_calls_t *calls,
                      void *user, size_t max_message_bytes);

/* Drops all carries; nothing is told any more. closed(arg) is called at the very end. */
void tdg__conduit_silence(tdg__conduit_t *conduit, void (*closed)(void *arg), void *arg);

/* After that, or for a wire that nobody has seen: closes its handle and destroys it. */
void tdg__conduit_done(tdg__conduit_t *conduit);

/* A carry for this message. Returns 0 or TDG_ENOMEM. */
int tdg__conduit_add(tdg__conduit_t *conduit, const tdg__parcel_out_t *out,
                     const tdg__carry_calls_t *calls, void *user, tdg__carry_t **ret);

/* It was written, or will never be (`fate` other than DONE): its next turn comes soon. */
void tdg__conduit_sent(tdg__carry_t *carry, tdg__carry_end_t fate, const char *why);

/* Its next turn comes then. */
void tdg__conduit_alarm(tdg__carry_t *carry, uint64_t at_ms);
uint64_t tdg__conduit_now(void); /* milliseconds that never go back */

/* Tells how it ended, and frees it. */
void tdg__conduit_end(tdg__carry_t *carry, const tdg__carry_report_t *report);

/* Frees it without a word. */
void tdg__conduit_drop(tdg__carry_t *carry);

/* A message that came with it. False: the carry is gone. */
bool tdg__conduit_tell(tdg__carry_t *carry, tdg__rpc_message_t *message);

/* Likewise: its answer has begun. */
bool tdg__conduit_opened(tdg__carry_t *carry, int status);

/* on_soon() comes at the next turn of the loop. */
void tdg__conduit_soon(tdg__conduit_t *conduit);

/* Bytes of one message, or of a batch: responses end their carries, all else goes to the
 * wire's `message`. What is no message is warned of. Returns 0, or TDG_ENOMEM: a message
 * is lost, so the channel is. */
int tdg__conduit_read(tdg__conduit_t *conduit, const char *text, size_t len);

/* All carries end as BROKEN. */
void tdg__conduit_break(tdg__conduit_t *conduit, const char *why);

void tdg__conduit_warn(const tdg__conduit_t *conduit, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
