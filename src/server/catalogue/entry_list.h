/* SPDX-License-Identifier: MIT
 *
 * The entries of one kind, by key and in the order in which they came. Every place has a
 * sequence number that only grows, so "what comes behind number N" has an answer even
 * when the entry with that number has gone. Adding, removing and seeking take O(log n),
 * going on takes O(1). Not safe for threads: the owner of a list has a lock. */
#ifndef TDG_SERVER_ENTRY_LIST_H
#define TDG_SERVER_ENTRY_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "server/catalogue/entry.h"

/* One place; in a pool. */
typedef struct tdg__entry_slot {
    uint64_t sequence; /* from 1 on */
    tdg__entry_t *entry;
    uint32_t hash;        /* of the key */
    uint32_t priority;    /* larger than that of both branches; as good as random */
    uint32_t left, right; /* branches: smaller and larger numbers */
    tdg__link_t by_age;
} tdg__entry_slot_t;

typedef struct tdg__entry_list {
    tdg__hash_key_t hash_key;
    tdg__pool_t slots;
    tdg__map_t by_key;
    tdg__list_t by_age;
    uint32_t root; /* of a tree by sequence (a treap) */
    uint64_t last; /* sequence that was given */
} tdg__entry_list_t;

void tdg__entry_list_init(tdg__entry_list_t *list, const tdg__hash_key_t *hash_key);
void tdg__entry_list_done(tdg__entry_list_t *list); /* leaves the entries to the caller */

/* The slot with this key, or 0. */
uint32_t tdg__entry_list_find(const tdg__entry_list_t *list, const char *key, size_t len);

/* Puts an entry, whose key is not there yet, behind all others; the reference is stolen
 * on success. Returns 0 or TDG_ENOMEM. */
int tdg__entry_list_add(tdg__entry_list_t *list, tdg__entry_t *entry, uint32_t *ret_id);

/* Takes a slot away. Its entry is the caller's. */
tdg__entry_t *tdg__entry_list_remove(tdg__entry_list_t *list, uint32_t id);

/* The first slot with a larger sequence number, or 0. */
uint32_t tdg__entry_list_after(const tdg__entry_list_t *list, uint64_t sequence);

static inline tdg__entry_slot_t *tdg__entry_list_at(const tdg__entry_list_t *list,
                                                    uint32_t id) {
    return tdg__pool_get(&list->slots, id);
}

static inline uint32_t tdg__entry_list_next(const tdg__entry_list_t *list, uint32_t id) {
    return tdg__entry_list_at(list, id)->by_age.next;
}

#endif
