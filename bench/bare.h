/* SPDX-License-Identifier: MIT
 *
 * The yardstick: the engine's own hash map and hash function with nothing around them but
 * the keys, in an array of records. A text is copied when it is inserted, as by every map
 * that owns its keys. What memory latency costs at some size, it costs here too. */
#ifndef TDG_BENCH_BARE_H
#define TDG_BENCH_BARE_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/map.h"

struct bare_record {
    union {
        char *text;
        uint64_t number;
    };
    uint32_t len; /* of the text */
    union {
        uint32_t hash; /* of the key */
        uint32_t next; /* of the records that are free */
    };
    uint64_t value; /* what the map is asked for, where it is asked for something */
};

typedef struct bare {
    tdg__hash_key_t key;
    tdg__map_t map;
    struct bare_record *records; /* [0] is not used, as in the engine's pools */
    uint32_t count, room, free;
} bare_t;

/* Memory that runs out ends the program. */
void bare_init(bare_t *bare);
void bare_done_texts(bare_t *bare);
void bare_done_numbers(bare_t *bare);

/* The record with this key, or 0. */
uint32_t bare_find_text(const bare_t *bare, const char *text, size_t len);
uint32_t bare_find_number(const bare_t *bare, uint64_t number);

/* Looks up, and inserts what is not there. */
uint32_t bare_add_text(bare_t *bare, const char *text, size_t len);
uint32_t bare_add_number(bare_t *bare, uint64_t number);

/* Removes a record that was found, without looking at its key again; 0 is accepted. */
void bare_remove_text(bare_t *bare, uint32_t id);
void bare_remove_number(bare_t *bare, uint32_t id);

#endif
