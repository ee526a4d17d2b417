/* SPDX-License-Identifier: MIT
 *
 * Subscriptions whose acknowledgement has been answered but not written yet: the engine
 * is informed afterwards, so that no notification precedes it. An empty list is NULL. */
#ifndef TDG_SERVER_ACKS_H
#define TDG_SERVER_ACKS_H

#include <stdbool.h>

#include "core/engine.h"

typedef struct tdg__acked tdg__acked_t;

/* Adds a copy of the target; false: memory is out. */
bool tdg__acks_add(tdg__acked_t **acks, const tdg__target_t *target);

/* Removes a target: its subscription has ended, and the answer that acknowledges it must
 * not acknowledge another one of the same target. */
void tdg__acks_remove(tdg__acked_t **acks, const tdg__target_t *target);

/* The acknowledgements have left: passes them to the engine (NULL: to nobody), and
 * empties the list. */
void tdg__acks_settle(tdg__acked_t **acks, tdg__engine_t *engine, tdg__stream_t stream);

/* Empties the list without passing them on. */
void tdg__acks_drop(tdg__acked_t **acks);

#endif
