/* SPDX-License-Identifier: MIT
 *
 * The user of a connection between a request and the end of its response: a POST that is
 * being answered, a listen, a legacy stream. It receives the events of the connection. */
#ifndef TDG_SERVER_OCCUPANT_H
#define TDG_SERVER_OCCUPANT_H

#include "net/conn.h"
#include "server/context/context.h"

typedef struct tdg__occupant tdg__occupant_t;

typedef struct tdg__occupant_ops {
    /* All that was written is with the kernel. May be NULL. */
    void (*drained)(tdg__occupant_t *occupant);

    /* The connection has gone; it must not be used any more. */
    void (*closed)(tdg__occupant_t *occupant);

    /* The client sends no more, and has probably left. May be NULL. */
    void (*half_closed)(tdg__occupant_t *occupant);

    /* It has said nothing for as long as a stream may be silent: proxies may give up
     * soon. May be NULL. */
    void (*late)(tdg__occupant_t *occupant);

    /* Comes by every so often while it does not stream, in the place of `late`; for
     * time-outs of its own. May be NULL. */
    void (*tick)(tdg__occupant_t *occupant, int64_t now_ms);

    /* Whether a notification waits to be written, so that a server that stops has to wait
     * before it ends the stream. NULL: no. */
    bool (*has_more)(const tdg__occupant_t *occupant);

    /* The server stops, or the time of the stream is over: end it in the way of its
     * protocol. NULL: it ends by itself. */
    void (*finish)(tdg__occupant_t *occupant);

    /* The time to stop is over, and the connection is closed after this: the last chance
     * to say so. NULL: the close says it. */
    void (*give_up)(tdg__occupant_t *occupant);
} tdg__occupant_ops_t;

struct tdg__occupant {
    const tdg__occupant_ops_t *ops;
    bool streaming; /* signs of life are written when it is silent */
    int64_t started_ms;
};

static inline void tdg__occupant_init(tdg__occupant_t *occupant,
                                      const tdg__occupant_ops_t *ops,
                                      const tdg__worker_t *worker, bool streaming) {
    *occupant = (tdg__occupant_t){ops, streaming, tdg__worker_now(worker)};
}

#endif
