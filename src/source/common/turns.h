/* SPDX-License-Identifier: MIT
 *
 * Turns between clients. Each client has its own queue, and queues take turns: a client
 * that reads a thousand URIs waits for them, and other clients do not. Fetches on behalf
 * of subscribers have a queue, too, and every other turn. */
#ifndef TDG_SOURCE_TURNS_H
#define TDG_SOURCE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/queue.h"

/* Not of any client: a look on behalf of those who watch. */
enum { TDG__NO_CLIENT = 0 };

/* Embedded in what waits, which stays where it is meanwhile. */
typedef struct tdg__turn {
    tdg__queue_t link; /* first */
    uint32_t lane;     /* 0: it does not wait */
} tdg__turn_t;

typedef struct tdg__lane {
    uint32_t id;
    unsigned count;
    uint64_t client;
    tdg__queue_t waiting; /* turns */
    tdg__link_t ring;
} tdg__lane_t;

typedef struct tdg__turns {
    tdg__pool_t lanes; /* of clients */
    tdg__lane_t own;   /* of nobody; also takes what there is no memory for */
    tdg__map_t by_client;
    tdg__list_t ring; /* lanes of clients with something in them, the next one first */
    bool own_was_last;
} tdg__turns_t;

void tdg__turns_init(tdg__turns_t *turns);
void tdg__turns_done(tdg__turns_t *turns); /* all zero is accepted */

/* Puts one behind those of its client; never fails. */
void tdg__turns_put(tdg__turns_t *turns, tdg__turn_t *turn, uint64_t client);

/* It waits already, and another client wants it, too: it goes to the lane in which its
 * turn comes sooner. */
void tdg__turns_also(tdg__turns_t *turns, tdg__turn_t *turn, uint64_t client);

/* The one whose turn it is; NULL: none waits. The second takes it out. */
tdg__turn_t *tdg__turns_next(const tdg__turns_t *turns);
tdg__turn_t *tdg__turns_take(tdg__turns_t *turns);

/* Takes out one that waits, before its turn; the lanes keep their order. */
void tdg__turns_leave(tdg__turns_t *turns, tdg__turn_t *turn);

/* The one that gives way to one more of `client` where no more may wait: the last in the
 * longest lane. NULL: that is the client's own. */
tdg__turn_t *tdg__turns_last_of_longest(const tdg__turns_t *turns, uint64_t client);

#endif
