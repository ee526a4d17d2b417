/* SPDX-License-Identifier: MIT
 *
 * Events that were written on a stream, kept for a client that reconnects and continues
 * after the last one that it received. Limited, per stream and per worker. */
#ifndef TDG_SERVER_REPLAY_H
#define TDG_SERVER_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rope.h"
#include "net/outlet.h"
#include "server/context/context.h"

typedef struct tdg__kept tdg__kept_t;

typedef struct tdg__replay {
    tdg__worker_t *worker;
    tdg__kept_t *first, *last; /* oldest first */
    size_t bytes;
} tdg__replay_t;

void tdg__replay_init(tdg__replay_t *replay, tdg__worker_t *worker);
void tdg__replay_done(tdg__replay_t *replay);

/* Keeps a copy of an event, whose number is larger than those before. False: a bound is
 * reached, or memory is out. */
bool tdg__replay_keep(tdg__replay_t *replay, uint64_t number, const tdg__rope_t *event);

/* Writes those after `number`. */
void tdg__replay_write(const tdg__replay_t *replay, uint64_t number,
                       tdg__outlet_t *outlet);

#endif
