/* SPDX-License-Identifier: MIT
 *
 * A hash table of 32-bit values (identifiers of records that live in a pool). It stores
 * no keys: the caller hashes (with tdg__hash, against chosen keys) and compares a record
 * with the key. Open addressing, linear probing, no tombstones; it grows at three
 * quarters and shrinks at one eighth. */
#ifndef TDG_BASE_MAP_H
#define TDG_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tdg__map_slot {
    uint32_t hash;
    uint32_t value; /* 0: empty */
} tdg__map_slot_t;

typedef struct tdg__map {
    tdg__map_slot_t *slots; /* NULL while empty */
    size_t mask;            /* number of slots, a power of two, less one */
    size_t count;
} tdg__map_t;

/* Whether the record behind `value` has `key`. */
typedef bool (*tdg__map_eq_fn)(const void *ctx, uint32_t value, const void *key);

void tdg__map_init(tdg__map_t *map);
void tdg__map_done(tdg__map_t *map);

/* Makes room for one more, so that the next insert cannot fail. Returns 0 or TDG_ENOMEM.
 */
int tdg__map_reserve(tdg__map_t *map);

/* Inserts a value (not 0) that is not there yet. Needs room: see tdg__map_reserve(). */
void tdg__map_insert(tdg__map_t *map, uint32_t hash, uint32_t value);

/* Removes exactly this value if it is there. */
void tdg__map_remove(tdg__map_t *map, uint32_t hash, uint32_t value);

/* Puts another value in the place of one that is there, under the same hash. */
void tdg__map_replace(tdg__map_t *map, uint32_t hash, uint32_t value, uint32_t by);

size_t tdg__map_bytes(const tdg__map_t *map);

/* The value with this key, or 0. In the header so that `eq` is inlined. */
static inline uint32_t tdg__map_find(const tdg__map_t *map, uint32_t hash,
                                     tdg__map_eq_fn eq, const void *ctx,
                                     const void *key) {
    if (map->slots == NULL)
        return 0;

    for (size_t i = hash & map->mask;; i = (i + 1) & map->mask) {
        const tdg__map_slot_t *slot = &map->slots[i];

        if (slot->value == 0)
            return 0;
        if (slot->hash == hash && eq(ctx, slot->value, key))
            return slot->value;
    }
}

#endif
