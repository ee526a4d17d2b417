/* SPDX-License-Identifier: MIT
 *
 * Timers by due time, and among those due at the same time by the order of arming. A
 * timer lives inside its owner; room for it is made when the owner is made, so that
 * arming never fails. */
#ifndef TDG_BASE_HEAP_H
#define TDG_BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct tdg__timer {
    uint32_t pos;  /* place in the heap, counted from 1; 0: not armed */
    uint32_t kind; /* the owner's, to distinguish its timers */
} tdg__timer_t;

typedef struct tdg__heap_entry {
    int64_t at;
    uint64_t order;
    tdg__timer_t *timer;
} tdg__heap_entry_t;

typedef struct tdg__heap {
    tdg__heap_entry_t *entries;
    size_t count;  /* armed timers */
    size_t timers; /* timers that exist */
    size_t room;
    uint64_t order; /* how often a timer was armed */
} tdg__heap_t;

void tdg__heap_init(tdg__heap_t *heap);
void tdg__heap_done(tdg__heap_t *heap);

/* A timer comes into being, not armed. Returns 0 or TDG_ENOMEM. */
int tdg__heap_add(tdg__heap_t *heap, tdg__timer_t *timer, uint32_t kind);
/* A timer that was added goes; it is disarmed. */
void tdg__heap_remove(tdg__heap_t *heap, tdg__timer_t *timer);

void tdg__heap_arm(tdg__heap_t *heap, tdg__timer_t *timer, int64_t at); /* or moves it */
void tdg__heap_disarm(tdg__heap_t *heap, tdg__timer_t *timer);          /* if armed */

/* When the next one is due; INT64_MAX when none is armed. */
int64_t tdg__heap_next(const tdg__heap_t *heap);
/* Disarms and returns the earliest timer if it is due at `now`, else NULL. */
tdg__timer_t *tdg__heap_pop(tdg__heap_t *heap, int64_t now);

size_t tdg__heap_bytes(const tdg__heap_t *heap);

#endif
