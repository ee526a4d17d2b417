/* SPDX-License-Identifier: MIT
 *
 * The writing half of a connection or pipe. Small messages are joined in the scratch
 * buffer of the loop and passed to the kernel with one call; only what the kernel does
 * not accept is copied and left to libuv. The writer is informed when something has to
 * wait, and stops until it has drained: so the waiting data is bounded. Shared buffers
 * wait without a copy, and are written in slices, some in each turn of the loop: neither
 * one large response nor a thousand block other clients. */
#ifndef TDG_NET_OUTLET_H
#define TDG_NET_OUTLET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/rope.h"

typedef struct tdg__net tdg__net_t; /* net.h */
typedef struct tdg__outlet tdg__outlet_t;

/* What the owner of an outlet (connection or line) is told. */
typedef struct tdg__outlet_calls {
    /* `queued` is 0 again; also when broken. From the loop only. */
    void (*drained)(tdg__outlet_t *outlet);
    /* It has just broken; also from inside a write. May be NULL. */
    void (*broke)(tdg__outlet_t *outlet);

    /* NULL: the bytes leave by `stream` or `fd`. Else the outlet has neither, and hands
     * them over here: a shared buffer by reference, other bytes to be copied. Keeps
     * `queued`, `waiting` and `in_flight`; returns as tdg__outlet_write(). */
    int (*take)(tdg__outlet_t *outlet, const char *data, size_t len, tdg__buf_t *shared);
} tdg__outlet_calls_t;

/* How fast the reader takes what counts in a budget (buf.h), in windows of time. */
typedef struct tdg__pace {
    uint64_t since_ms; /* of the loop: when the window began */
    size_t left;       /* bytes that the reader had not taken then, and those since */
    unsigned refusals; /* of the budget, when last looked */
    bool measured;     /* a window has begun */
    bool slow;         /* in the last window that is over */
} tdg__pace_t;

struct tdg__outlet {
    tdg__net_t *net;
    uv_stream_t *stream; /* NULL: a file, written in place */
    const tdg__outlet_calls_t *calls;
    struct tdg__rest *first, *last; /* what waits, in order; libuv has the first */
    size_t waiting;                 /* bytes of it that libuv has not been given; or that
                                       were copied, where `take` has them */
    size_t queued;                  /* bytes that wait in all, when last looked */
    uint64_t written_ms;            /* loop time of the last write, for keep-alive */
    uint64_t progress_ms; /* loop time at which the kernel last took some of `queued` */
    tdg__pace_t pace;
    int fd;
    bool in_flight : 1;   /* something waits: libuv has a request of ours, or will have */
    bool takes_turns : 1; /* one of many: writes slices of shared buffers in its turn */
    bool waits : 1;       /* libuv has none: others write their slices first */
    bool socket : 1;      /* send() rather than write() */
    bool chunked : 1;     /* pieces are framed as HTTP chunks */
    bool broken : 1;      /* takes nothing more: writing has failed, or it is closing */
    bool prompt : 1;      /* its owner waits for `drained` also while there is room:
                             where that comes from afar, it comes at once */
};

/* Bytes of memory beside shared buffers that what waits takes. Walks through what waits:
 * for outlets whose owner bounds that. */
size_t tdg__outlet_copied(const tdg__outlet_t *outlet);

/* Writes the first `len` bytes of the scratch buffer (net.h) as one piece: where the
 * outlet is chunked, as one chunk. Nothing is written for 0 bytes. Returns 0 when the
 * kernel has it all; TDG_EAGAIN when some had to wait (it will be written; `drained`
 * follows); TDG_EENDED when the outlet is broken; TDG_ENOMEM (the outlet is broken then,
 * since a part may be out). */
int tdg__outlet_flush(tdg__outlet_t *outlet, size_t len);

/* Writes bytes as they are, without framing. Returns the same. */
int tdg__outlet_write(tdg__outlet_t *outlet, const void *data, size_t len);

/* Writes bytes of any length as one piece: where the outlet is chunked, as one chunk. */
int tdg__outlet_piece(tdg__outlet_t *outlet, const void *data, size_t len);

/* Writes a rope without framing, and as one piece. What waits of its buffers is held by
 * reference. */
int tdg__outlet_write_rope(tdg__outlet_t *outlet, const tdg__rope_t *rope);
int tdg__outlet_piece_rope(tdg__outlet_t *outlet, const tdg__rope_t *rope);

#endif
