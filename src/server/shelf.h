/* SPDX-License-Identifier: MIT
 *
 * The entries of one kind, by key and in the order in which they came. Every place has a
 * sequence number that only grows, so "what comes behind number N" has an answer even
 * when the entry with that number has gone. Adding, removing and seeking take O(log n),
 * going on takes O(1). Not safe for threads: whoever has a shelf has a lock. */
#ifndef TDG_SERVER_SHELF_H
#define TDG_SERVER_SHELF_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "server/entry.h"

/* One place; in a pool. */
typedef struct tdg__slot {
    uint64_t sequence; /* from 1 on */
    tdg__entry_t *entry;
    uint32_t hash;        /* of the key */
    uint32_t priority;    /* larger than that of both branches; as good as random */
    uint32_t left, right; /* branches: smaller and larger numbers */
    tdg__link_t by_age;
} tdg__slot_t;

typedef struct tdg__shelf {
    tdg__hash_key_t hash_key;
    tdg__pool_t slots;
    tdg__map_t by_key;
    tdg__list_t by_age;
    uint32_t root; /* of a tree by sequence (a treap) */
    uint64_t last; /* sequence that was given */
} tdg__shelf_t;

void tdg__shelf_init(tdg__shelf_t *shelf, const tdg__hash_key_t *hash_key);
void tdg__shelf_done(tdg__shelf_t *shelf); /* leaves the entries to the caller */

/* The slot with this key, or 0. */
uint32_t tdg__shelf_find(const tdg__shelf_t *shelf, const char *key, size_t len);

/* Puts an entry, whose key is not there yet, behind all others; the reference is stolen
 * on success. Returns 0 or TDG_ENOMEM. */
int tdg__shelf_add(tdg__shelf_t *shelf, tdg__entry_t *entry, uint32_t *ret_id);

/* Takes a slot away. Its entry is the caller's. */
tdg__entry_t *tdg__shelf_remove(tdg__shelf_t *shelf, uint32_t id);

/* The first slot with a larger sequence number, or 0. */
uint32_t tdg__shelf_after(const tdg__shelf_t *shelf, uint64_t sequence);

static inline tdg__slot_t *tdg__shelf_at(const tdg__shelf_t *shelf, uint32_t id) {
    return tdg__pool_get(&shelf->slots, id);
}

static inline uint32_t tdg__shelf_next(const tdg__shelf_t *shelf, uint32_t id) {
    return tdg__shelf_at(shelf, id)->by_age.next;
}

#endif
