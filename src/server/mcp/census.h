/* SPDX-License-Identifier: MIT
 *
 * The legacy sessions of all workers: their number, in total and per address, and which
 * of them may be replaced. Any thread; one lock, which is taken when a session starts or
 * ends and when its state changes. Everything takes constant time, whatever the number of
 * sessions.
 *
 *     FRESH --> QUIET --> SETTLED       FRESH, QUIET: may give way
 *        \________\______________       LEAVING: another has its place; its worker
 *                                \      ends it soon
 *                                 `--> LEAVING
 *
 * A replaced session stops counting at once, so the limits apply to the others; it exists
 * until its worker's next turn. There are at most a quarter of the limit and eight of
 * such sessions. */
#ifndef TDG_SERVER_CENSUS_H
#define TDG_SERVER_CENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/network.h"

typedef struct tdg__census tdg__census_t;

enum { TDG__CENSUS_WORKERS = 64 }; /* at most */

/* Returns 0, TDG_ENOMEM or TDG_ESYSTEM. As many per address as in all is no limit. */
int tdg__census_create(uint32_t max_sessions, uint32_t max_per_address,
                       tdg__census_t **ret);
void tdg__census_destroy(tdg__census_t *census); /* NULL is accepted */

typedef enum tdg__standing {
    TDG__FRESH,   /* its client has not finished the handshake: the first to give way */
    TDG__QUIET,   /* it has, and nothing since: gives way where none is fresh */
    TDG__SETTLED, /* does not give way */
    TDG__LEAVING, /* has given way */
} tdg__standing_t;

typedef struct tdg__arrival {
    const tdg__address_t *address; /* NULL: counts for none */
    unsigned worker;               /* where the session lives, ... */
    uint32_t session;              /* ... and its number there, not 0 */
    tdg__standing_t standing;      /* any but LEAVING */
} tdg__arrival_t;

typedef enum tdg__admission {
    TDG__ADMITTED,
    TDG__FULL,            /* max_sessions is reached, and none gives way */
    TDG__FULL_OF_ADDRESS, /* the same for max_sessions_per_address */
    TDG__NO_MEMORY,
} tdg__admission_t;

/* Which session gave way: its worker has to end it. */
typedef struct tdg__eviction {
    int worker;       /* -1: none */
    uint32_t session; /* its number there */
} tdg__eviction_t;

/* One more session. Where a limit is reached, the oldest gives way to it, of the same
 * address if that is the limit. *ret_id names the session from now on. */
tdg__admission_t tdg__census_enter(tdg__census_t *census, const tdg__arrival_t *arrival,
                                   uint32_t *ret_id, tdg__eviction_t *ret_eviction);

/* The session has ended. */
void tdg__census_leave(tdg__census_t *census, uint32_t id);

/* Its standing is another now; not LEAVING. One that is leaving goes on to do so. */
void tdg__census_settle(tdg__census_t *census, uint32_t id, tdg__standing_t standing);

/* The number of a session of this worker that is leaving, and has to be ended; 0: none.
 * On the worker's thread, on which its sessions end. */
uint32_t tdg__census_leaving(tdg__census_t *census, unsigned worker);

#endif
