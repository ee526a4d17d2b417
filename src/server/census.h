/* SPDX-License-Identifier: MIT
 *
 * How many legacy sessions there are, in all workers and per address, and how many of
 * them may give way to others. Any thread; one lock, which is taken when a session comes
 * or goes. */
#ifndef TDG_SERVER_CENSUS_H
#define TDG_SERVER_CENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/network.h"

typedef struct tdg__census tdg__census_t;

/* Returns 0, TDG_ENOMEM or TDG_ESYSTEM. As many per address as in all is no limit. */
int tdg__census_create(uint32_t max_sessions, uint32_t max_per_address,
                       tdg__census_t **ret);
void tdg__census_destroy(tdg__census_t *census); /* NULL is accepted */

typedef enum tdg__admission {
    TDG__ADMITTED,
    TDG__FULL,            /* max_sessions is reached */
    TDG__FULL_OF_ADDRESS, /* max_sessions_per_address is */
    TDG__NO_MEMORY,
} tdg__admission_t;

/* One more session. `address` NULL counts for none. With `beyond` some more than the
 * limits are admitted: another worker was asked to end one, and may find that all of its
 * are in use. */
tdg__admission_t tdg__census_enter(tdg__census_t *census, const tdg__address_t *address,
                                   bool beyond);
void tdg__census_leave(tdg__census_t *census, const tdg__address_t *address);

/* ---- Those that may give way -------------------------------------------- */

/* One more of a worker's sessions may give way, or one less. */
void tdg__census_tentative(tdg__census_t *census, unsigned worker, int change);

/* The worker with the most of them but for `own`; -1: no other has any. */
int tdg__census_most_tentative(tdg__census_t *census, unsigned own);

#endif
