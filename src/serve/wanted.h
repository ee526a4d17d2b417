/* SPDX-License-Identifier: MIT
 *
 * The targets that clients watch, and the source that watches each.
 *
 *     watcher.start ──▶ ASKED ── its source has answered, ──▶ ANSWERED ◀── begun again
 *                         │      or none has it                 │  ▲            │
 *                         ▼                                     │  └─ moves ────┤
 *                      refused: gone                            ▼               │
 *                              its source cannot watch it now ──▶ OWED ─────────┘
 *                                                        after a wait, or at a reload
 *
 * Where its source cannot watch it at all (TDG_ENOTSUP), it stays ANSWERED and has no
 * source until a reload, as if none had it. It goes with watcher.stop from any state. */
#ifndef TDG_SERVE_WANTED_H
#define TDG_SERVE_WANTED_H

#include "base/hash.h"
#include "base/map.h"
#include "base/pool.h"
#include "source/common/source.h"

typedef enum tdg__wanted_state {
    TDG__WANTED_ASKED,    /* the server waits for an answer */
    TDG__WANTED_ANSWERED, /* and counts it as watched, also where no source has it, or
                             the one that has it cannot watch it at all */
    TDG__WANTED_OWED,     /* but no source watches it: that is retried, with growing
                             waits */
} tdg__wanted_state_t;

typedef struct tdg__wanted {
    uint32_t id, hash;
    tdg__wanted_state_t state;
    tdg__source_t *source; /* that was asked to watch it. NULL: none has it at present,
                              the one that has it refused, or it is a list */
    unsigned pending;      /* a list: sources that have not answered yet */
    unsigned tries;        /* refusals in a row that made it OWED; from 0 again once it is
                              watched, and where a reload finds it OWED */
    uint64_t due_ms;       /* OWED: the next one, in the time of the loop */
    tdg_target_t *target;  /* owned */
} tdg__wanted_t;

typedef struct tdg__wanted_set {
    tdg__pool_t pool;
    tdg__map_t by_target;
    tdg__hash_key_t key;
} tdg__wanted_set_t;

int tdg__wanted_init(tdg__wanted_set_t *watches); /* 0 or TDG_ESYSTEM */
void tdg__wanted_done(tdg__wanted_set_t *watches);

tdg__wanted_t *tdg__wanted_find(const tdg__wanted_set_t *watches,
                                const tdg_target_t *target);
tdg__wanted_t *tdg__wanted_add(tdg__wanted_set_t *watches,
                               const tdg_target_t *target); /* or NULL */
void tdg__wanted_remove(tdg__wanted_set_t *watches, tdg__wanted_t *watch);

/* Walks them: start with 0; NULL at the end. The one at hand may be removed. */
tdg__wanted_t *tdg__wanted_next(const tdg__wanted_set_t *watches, uint32_t after);

#endif
