/* SPDX-License-Identifier: MIT
 *
 * Where bytes leave: the writing half of a connection or pipe. Small messages are put
 * together in the scratch buffer of the loop and handed to the kernel with one call; only
 * what the kernel does not take is copied and left to libuv. Whoever writes is told when
 * something had to wait, and stops until it has drained: so what waits stays bounded. */
#ifndef TDG_NET_OUTLET_H
#define TDG_NET_OUTLET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

typedef struct tdg__net tdg__net_t; /* net.h */
typedef struct tdg__outlet tdg__outlet_t;

/* What the owner of an outlet (connection or line) is told. */
typedef struct tdg__outlet_calls {
    /* `queued` is 0 again; also when broken. From the loop only. */
    void (*drained)(tdg__outlet_t *outlet);
    /* It has just broken; also from inside a write. May be NULL. */
    void (*broke)(tdg__outlet_t *outlet);
} tdg__outlet_calls_t;

struct tdg__outlet {
    tdg__net_t *net;
    uv_stream_t *stream; /* NULL: a file, written in place */
    const tdg__outlet_calls_t *calls;
    size_t queued;        /* bytes that libuv holds, when last looked */
    uint64_t written_ms;  /* loop time of the last write, for keep-alive */
    uint64_t progress_ms; /* loop time at which the kernel last took some of `queued` */
    int fd;
    unsigned in_flight; /* uv_write requests */
    bool socket;        /* send() rather than write() */
    bool chunked;       /* pieces are framed as HTTP chunks */
    bool broken;        /* takes nothing more: writing has failed, or it is closing */
};

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

#endif
