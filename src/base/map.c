/* SPDX-License-Identifier: MIT */
#include "base/map.h"

#include <assert.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { MIN_SLOTS = 16 };

void tdg__map_init(tdg__map_t *map) {
    *map = (tdg__map_t){0};
}

void tdg__map_done(tdg__map_t *map) {
    tdg__free(map->slots);
    *map = (tdg__map_t){0};
}

static void place(tdg__map_slot_t *slots, size_t mask, tdg__map_slot_t slot) {
    size_t i = slot.hash & mask;

    while (slots[i].value != 0)
        i = (i + 1) & mask;
    slots[i] = slot;
}

static int resize(tdg__map_t *map, size_t n_slots) {
    tdg__map_slot_t *slots = tdg__calloc(n_slots, sizeof(*slots));

    if (slots == NULL)
        return TDG_ENOMEM;

    if (map->slots != NULL)
        for (size_t i = 0; i <= map->mask; i++)
            if (map->slots[i].value != 0)
                place(slots, n_slots - 1, map->slots[i]);

    tdg__free(map->slots);
    map->slots = slots;
    map->mask = n_slots - 1;
    return 0;
}

int tdg__map_reserve(tdg__map_t *map) {
    size_t n_slots = map->slots == NULL ? 0 : map->mask + 1;

    if (n_slots != 0 && map->count + 1 <= n_slots / 4 * 3)
        return 0;
    return resize(map, n_slots == 0 ? MIN_SLOTS : n_slots * 2);
}

void tdg__map_insert(tdg__map_t *map, uint32_t hash, uint32_t value) {
    assert(value != 0 && map->slots != NULL && map->count < map->mask);

    place(map->slots, map->mask, (tdg__map_slot_t){hash, value});
    map->count++;
}

static tdg__map_slot_t *find_value(const tdg__map_t *map, uint32_t hash, uint32_t value) {
    if (map->slots == NULL)
        return NULL;

    for (size_t i = hash & map->mask; map->slots[i].value != 0; i = (i + 1) & map->mask)
        if (map->slots[i].value == value)
            return &map->slots[i];
    return NULL;
}

/* Closes the hole at `hole`: a following slot that could no longer be found, because the
 * hole lies between its home and its place, moves into the hole, which moves on. */
static void close_hole(tdg__map_t *map, size_t hole) {
    for (size_t i = (hole + 1) & map->mask; map->slots[i].value != 0;
         i = (i + 1) & map->mask) {
        size_t home = map->slots[i].hash & map->mask;

        if (((i - home) & map->mask) >= ((i - hole) & map->mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (tdg__map_slot_t){0};
}

void tdg__map_remove(tdg__map_t *map, uint32_t hash, uint32_t value) {
    tdg__map_slot_t *slot = find_value(map, hash, value);

    if (slot == NULL)
        return;

    close_hole(map, (size_t)(slot - map->slots));
    map->count--;

    /* Without memory to shrink into, the larger table serves as well. */
    if (map->count == 0)
        tdg__map_done(map);
    else if (map->mask + 1 > 2 * MIN_SLOTS && map->count < (map->mask + 1) / 8)
        (void)resize(map, (map->mask + 1) / 4);
}

void tdg__map_replace(tdg__map_t *map, uint32_t hash, uint32_t value, uint32_t by) {
    tdg__map_slot_t *slot = find_value(map, hash, value);

    assert(slot != NULL && by != 0);
    slot->value = by;
}

size_t tdg__map_bytes(const tdg__map_t *map) {
    return map->slots == NULL ? 0 : (map->mask + 1) * sizeof(*map->slots);
}
