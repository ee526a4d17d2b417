/* SPDX-License-Identifier: MIT
 *
 * A limit in bytes that several threads share. A caller takes bytes before it allocates
 * something large, and returns them when that is freed. Reference-counted, because they
 * may be returned after the owner of the budget has released it. */
#ifndef TDG_BASE_BUDGET_H
#define TDG_BASE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tdg__budget tdg__budget_t;

/* A new budget of so many bytes (at least 1), with one reference; NULL when memory is
 * out. */
tdg__budget_t *tdg__budget_create(size_t max_bytes);
tdg__budget_t *tdg__budget_ref(tdg__budget_t *budget); /* returns `budget` */
void tdg__budget_unref(tdg__budget_t *budget);         /* NULL is accepted */

/* Gives `before` back and takes `bytes`, in one step. What nobody has to share with is
 * granted whatever its size. False: there is no room, and `before` is still held. */
bool tdg__budget_exchange(tdg__budget_t *budget, size_t before, size_t bytes);

bool tdg__budget_take(tdg__budget_t *budget, size_t bytes);
void tdg__budget_give(tdg__budget_t *budget, size_t bytes);

/* Takes whether there is room or not: for what exists already, so that others wait. */
void tdg__budget_overdraw(tdg__budget_t *budget, size_t bytes);

size_t tdg__budget_used(tdg__budget_t *budget);

/* Reserves room for what will perhaps exist, at a time that nobody knows. Together with
 * what is used, reservations stay within the budget when they are made. They only keep
 * other reservations away: taking does not count them, so that one which is held for ever
 * refuses no caller that needs the room now. A reservation of 0 bytes only asks whether
 * the budget is used up. False: there is no room. */
bool tdg__budget_reserve(tdg__budget_t *budget, size_t bytes);
void tdg__budget_unreserve(tdg__budget_t *budget, size_t bytes);

size_t tdg__budget_reserved(tdg__budget_t *budget);

/* How often there was no room. A waiter retries: where the number does not change, there
 * is none. */
unsigned tdg__budget_refusals(tdg__budget_t *budget);

#endif
