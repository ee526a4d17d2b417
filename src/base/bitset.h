/* SPDX-License-Identifier: MIT
 *
 * A set of small numbers that is cheap to walk in order, however sparse: every level has
 * a bit for each word below it that is not zero. */
#ifndef TDG_BASE_BITSET_H
#define TDG_BASE_BITSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TDG__BITSET_LEVELS = 4, TDG__BITSET_MAX = 1 << 24 };

typedef struct tdg__bitset {
    uint64_t *levels[TDG__BITSET_LEVELS]; /* levels[0] holds the set itself */
    uint32_t room;                        /* numbers below this fit */
} tdg__bitset_t;                          /* all zero at first */

void tdg__bitset_done(tdg__bitset_t *set); /* all zero again */

/* Makes room for the numbers below `room` (at most TDG__BITSET_MAX). Returns 0,
 * TDG_EINVAL or TDG_ENOMEM. */
int tdg__bitset_reserve(tdg__bitset_t *set, uint32_t room);

/* Numbers must be below the room. */
void tdg__bitset_add(tdg__bitset_t *set, uint32_t number);
void tdg__bitset_remove(tdg__bitset_t *set, uint32_t number);

/* The smallest number in the set that is `from` or larger; UINT32_MAX: none. */
uint32_t tdg__bitset_next(const tdg__bitset_t *set, uint32_t from);

size_t tdg__bitset_bytes(const tdg__bitset_t *set);

#endif
