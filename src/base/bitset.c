/* SPDX-License-Identifier: MIT */
#include "base/bitset.h"

#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { BITS = 6, MIN_ROOM = 1 << 10 };

void tdg__bitset_done(tdg__bitset_t *set) {
    tdg__free(set->levels[0]);
    *set = (tdg__bitset_t){0};
}

static size_t words_of_level(uint32_t room, int level) {
    int shift = BITS * (level + 1);

    return (((size_t)room - 1) >> shift) + 1;
}

static size_t all_words(uint32_t room) {
    size_t words = 0;

    for (int level = 0; level < TDG__BITSET_LEVELS; level++)
        words += words_of_level(room, level);
    return words;
}

int tdg__bitset_reserve(tdg__bitset_t *set, uint32_t room) {
    uint32_t size = set->room == 0 ? MIN_ROOM : set->room;
    tdg__bitset_t larger = {0};
    uint64_t *words;

    if (room <= set->room)
        return 0;
    if (room > TDG__BITSET_MAX)
        return TDG_EINVAL;

    while (size < room)
        size *= 2;
    words = tdg__calloc(all_words(size), sizeof(*words));
    if (words == NULL)
        return TDG_ENOMEM;

    larger.room = size;
    for (int level = 0; level < TDG__BITSET_LEVELS; level++) {
        larger.levels[level] = words;
        if (set->room != 0)
            memcpy(words, set->levels[level],
                   words_of_level(set->room, level) * sizeof(*words));
        words += words_of_level(size, level);
    }

    tdg__free(set->levels[0]);
    *set = larger;
    return 0;
}

void tdg__bitset_add(tdg__bitset_t *set, uint32_t number) {
    for (int level = 0; level < TDG__BITSET_LEVELS; level++) {
        uint64_t *word = &set->levels[level][number >> BITS];
        uint64_t before = *word;

        *word = before | UINT64_C(1) << (number & 63);
        if (before != 0)
            return; /* the levels above know already */
        number >>= BITS;
    }
}

void tdg__bitset_remove(tdg__bitset_t *set, uint32_t number) {
    for (int level = 0; level < TDG__BITSET_LEVELS; level++) {
        uint64_t *word = &set->levels[level][number >> BITS];

        *word &= ~(UINT64_C(1) << (number & 63));
        if (*word != 0)
            return;
        number >>= BITS;
    }
}

/* Down from a bit of `level` to the smallest number under it. */
static uint32_t descend(const tdg__bitset_t *set, int level, uint32_t number) {
    while (level-- > 0)
        number = number << BITS | (uint32_t)__builtin_ctzll(set->levels[level][number]);
    return number;
}

uint32_t tdg__bitset_next(const tdg__bitset_t *set, uint32_t from) {
    uint32_t number = from;
    uint32_t room = set->room;

    if (from >= room)
        return UINT32_MAX;

    for (int level = 0; level < TDG__BITSET_LEVELS; level++) {
        uint64_t word =
            set->levels[level][number >> BITS] & (~UINT64_C(0) << (number & 63));

        if (word != 0)
            return descend(set, level,
                           (number & ~(uint32_t)63) | (uint32_t)__builtin_ctzll(word));

        number = (number >> BITS) + 1; /* the next word, one level up */
        room = ((room - 1) >> BITS) + 1;
        if (number >= room)
            return UINT32_MAX;
    }
    return UINT32_MAX;
}

size_t tdg__bitset_bytes(const tdg__bitset_t *set) {
    return set->room == 0 ? 0 : all_words(set->room) * sizeof(uint64_t);
}
