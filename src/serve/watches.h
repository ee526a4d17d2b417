/* SPDX-License-Identifier: MIT
 *
 * What clients watch, and which source watches it for them. */
#ifndef TDG_SERVE_WATCHES_H
#define TDG_SERVE_WATCHES_H

#include "base/hash.h"
#include "base/map.h"
#include "base/pool.h"
#include "source/source.h"

typedef struct tdg__watch {
    uint32_t id, hash;
    tdg__source_t *source; /* NULL: nobody has it at present */
    bool answered;         /* the server knows that it is watched */
    unsigned pending;      /* "list:...": sources that have not answered yet */
    char *target;
} tdg__watch_t;

typedef struct tdg__watches {
    tdg__pool_t pool;
    tdg__map_t by_target;
    tdg__hash_key_t key;
} tdg__watches_t;

int tdg__watches_init(tdg__watches_t *watches); /* 0 or TDG_ESYSTEM */
void tdg__watches_done(tdg__watches_t *watches);

tdg__watch_t *tdg__watches_find(const tdg__watches_t *watches, const char *target);
tdg__watch_t *tdg__watches_add(tdg__watches_t *watches, const char *target); /* or NULL */
void tdg__watches_remove(tdg__watches_t *watches, tdg__watch_t *watch);

/* Walks them: start with 0; NULL at the end. The one at hand may be removed. */
tdg__watch_t *tdg__watches_next(const tdg__watches_t *watches, uint32_t after);

#endif
