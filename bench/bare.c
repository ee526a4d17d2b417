/* SPDX-License-Identifier: MIT */
#include "bare.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

struct text_key {
    const char *text;
    size_t len;
};

static bool text_eq(const void *ctx, uint32_t value, const void *key) {
    const struct bare_record *record = &((const bare_t *)ctx)->records[value];
    const struct text_key *wanted = key;

    return record->len == wanted->len &&
           memcmp(record->text, wanted->text, wanted->len) == 0;
}

static bool number_eq(const void *ctx, uint32_t value, const void *key) {
    return ((const bare_t *)ctx)->records[value].number == *(const uint64_t *)key;
}

void bare_init(bare_t *bare) {
    *bare = (bare_t){.key = {0x0706050403020100, 0x0f0e0d0c0b0a0908}, .count = 1};
    tdg__map_init(&bare->map);
}

void bare_done_numbers(bare_t *bare) {
    tdg__map_done(&bare->map);
    free(bare->records);
    bare->records = NULL;
}

void bare_done_texts(bare_t *bare) {
    for (uint32_t i = 1; i < bare->count; i++)
        free(bare->records[i].text);
    bare_done_numbers(bare);
}

static uint32_t new_record(bare_t *bare) {
    uint32_t id = bare->free;

    if (id != 0) {
        bare->free = bare->records[id].next;
        return id;
    }
    if (bare->count >= bare->room) {
        bare->room = bare->room == 0 ? 64 : bare->room * 2;
        bare->records = realloc(bare->records, bare->room * sizeof(bare->records[0]));
        if (bare->records == NULL)
            bench_fail("out of memory");
    }
    return bare->count++;
}

static void insert(bare_t *bare, uint32_t hash, uint32_t id) {
    bare->records[id].hash = hash;
    bench_check(tdg__map_reserve(&bare->map), "bare map");
    tdg__map_insert(&bare->map, hash, id);
}

uint32_t bare_find_text(const bare_t *bare, const char *text, size_t len) {
    struct text_key key = {text, len};

    return tdg__map_find(&bare->map, (uint32_t)tdg__hash(&bare->key, text, len), text_eq,
                         bare, &key);
}

uint32_t bare_find_number(const bare_t *bare, uint64_t number) {
    return tdg__map_find(&bare->map,
                         (uint32_t)tdg__hash(&bare->key, &number, sizeof(number)),
                         number_eq, bare, &number);
}

uint32_t bare_add_text(bare_t *bare, const char *text, size_t len) {
    struct text_key key = {text, len};
    uint32_t hash = (uint32_t)tdg__hash(&bare->key, text, len);
    uint32_t id = tdg__map_find(&bare->map, hash, text_eq, bare, &key);

    if (id != 0)
        return id;

    id = new_record(bare);
    bare->records[id].text = malloc(len + 1);
    if (bare->records[id].text == NULL)
        bench_fail("out of memory");
    memcpy(bare->records[id].text, text, len);
    bare->records[id].text[len] = '\0';
    bare->records[id].len = (uint32_t)len;
    insert(bare, hash, id);
    return id;
}

uint32_t bare_add_number(bare_t *bare, uint64_t number) {
    uint32_t hash = (uint32_t)tdg__hash(&bare->key, &number, sizeof(number));
    uint32_t id = tdg__map_find(&bare->map, hash, number_eq, bare, &number);

    if (id != 0)
        return id;

    id = new_record(bare);
    bare->records[id].number = number;
    insert(bare, hash, id);
    return id;
}

void bare_remove_number(bare_t *bare, uint32_t id) {
    if (id == 0)
        return;
    tdg__map_remove(&bare->map, bare->records[id].hash, id);
    bare->records[id].next = bare->free;
    bare->free = id;
}

void bare_remove_text(bare_t *bare, uint32_t id) {
    if (id == 0)
        return;
    free(bare->records[id].text);
    bare->records[id].text = NULL;
    bare_remove_number(bare, id);
}
