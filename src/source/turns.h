/* SPDX-License-Identifier: MIT
 *
 * Items that wait to be fetched, and whose turn it is. Each client has a lane of its own,
 * and lanes take turns: who asks for a thousand things waits for them, and nobody else
 * does. What is looked at for subscribers has a lane, too, and every other turn. */
#ifndef TDG_SOURCE_TURNS_H
#define TDG_SOURCE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"

/* Not of any client: a look on behalf of those who watch. */
enum { TDG__NO_CLIENT = 0 };

typedef struct tdg__turns {
    tdg__pool_t lanes;
    tdg__map_t by_client;
    tdg__list_t ring;   /* lanes of clients with something in them, the next one first */
    tdg__pool_t *items; /* borrowed */
    bool own_was_last;
} tdg__turns_t;

struct tdg__item;

/* Returns 0 or TDG_ENOMEM. `items` is where the items are. */
int tdg__turns_init(tdg__turns_t *turns, tdg__pool_t *items);
void tdg__turns_done(tdg__turns_t *turns); /* all zero is accepted */

/* Puts an item behind those of its client; never fails. */
void tdg__turns_put(tdg__turns_t *turns, struct tdg__item *item, uint64_t client);

/* The item waits already, and another client wants it, too: it goes to the lane in which
 * its turn comes sooner. */
void tdg__turns_also(tdg__turns_t *turns, struct tdg__item *item, uint64_t client);

/* Takes the item whose turn it is; NULL: none waits. */
struct tdg__item *tdg__turns_take(tdg__turns_t *turns);

#endif
