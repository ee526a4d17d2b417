/* SPDX-License-Identifier: MIT */
#include "base/pool.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { MIN_ROOM = 4, MAX_CHUNKS = UINT32_MAX / TDG__POOL_CHUNK };

void tdg__pool_init(tdg__pool_t *pool, size_t size) {
    assert(size >= 8 && size % 8 == 0);
    *pool = (tdg__pool_t){.size = (uint32_t)size};
}

void tdg__pool_done(tdg__pool_t *pool) {
    for (uint32_t i = 0; i < pool->n_chunks; i++)
        tdg__free(pool->chunks[i]);
    tdg__free(pool->chunks);
    tdg__pool_init(pool, pool->size);
}

static void *record_at(const tdg__pool_t *pool, tdg__pool_chunk_t *chunk, uint32_t slot) {
    return chunk->records + (size_t)slot * pool->size;
}

static void link_partial(tdg__pool_t *pool, uint32_t number) {
    tdg__pool_chunk_t *chunk = pool->chunks[number - 1];

    chunk->prev = 0;
    chunk->next = pool->partial;
    if (chunk->next != 0)
        pool->chunks[chunk->next - 1]->prev = number;
    pool->partial = number;
}

static void unlink_partial(tdg__pool_t *pool, uint32_t number) {
    tdg__pool_chunk_t *chunk = pool->chunks[number - 1];

    if (chunk->prev != 0)
        pool->chunks[chunk->prev - 1]->next = chunk->next;
    else
        pool->partial = chunk->next;
    if (chunk->next != 0)
        pool->chunks[chunk->next - 1]->prev = chunk->prev;
}

/* The place for a new chunk: one that was given back, or one more at the end. */
static int find_place(tdg__pool_t *pool, uint32_t *ret) {
    if (pool->vacant != 0) {
        uint32_t i = 0;

        while (pool->chunks[i] != NULL)
            i++;
        *ret = i;
        return 0;
    }

    if (pool->n_chunks == MAX_CHUNKS)
        return TDG_ENOMEM;
    if (pool->n_chunks == pool->room) {
        uint32_t room = pool->room == 0 ? MIN_ROOM : pool->room * 2;
        tdg__pool_chunk_t **chunks =
            tdg__reallocarray(pool->chunks, room, sizeof(*chunks));

        if (chunks == NULL)
            return TDG_ENOMEM;
        pool->chunks = chunks;
        pool->room = room;
    }

    *ret = pool->n_chunks;
    return 0;
}

static int add_chunk(tdg__pool_t *pool) {
    tdg__pool_chunk_t *chunk;
    uint32_t place;

    if (find_place(pool, &place) < 0)
        return TDG_ENOMEM;

    chunk = tdg__calloc(1, sizeof(*chunk) + (size_t)TDG__POOL_CHUNK * pool->size);
    if (chunk == NULL)
        return TDG_ENOMEM;

    for (uint32_t i = 0; i + 1 < TDG__POOL_CHUNK; i++) {
        uint32_t next = i + 2;

        memcpy(record_at(pool, chunk, i), &next, sizeof(next));
    }
    chunk->free = 1;

    if (place == pool->n_chunks)
        pool->n_chunks++;
    else
        pool->vacant--;
    pool->chunks[place] = chunk;
    link_partial(pool, place + 1);
    return 0;
}

void *tdg__pool_alloc(tdg__pool_t *pool, uint32_t *ret_id) {
    tdg__pool_chunk_t *chunk;
    uint32_t slot;
    void *record;

    if (pool->partial == 0 && add_chunk(pool) < 0)
        return NULL;

    chunk = pool->chunks[pool->partial - 1];
    slot = chunk->free - 1;
    record = record_at(pool, chunk, slot);
    *ret_id = (pool->partial - 1) * TDG__POOL_CHUNK + slot + 1;

    memcpy(&chunk->free, record, sizeof(chunk->free));
    memset(record, 0, sizeof(chunk->free));
    chunk->used++;
    pool->count++;
    if (chunk->free == 0)
        unlink_partial(pool, pool->partial);
    return record;
}

/* Gives an empty chunk back, unless it is the only one with room: then the next record
 * would ask for it again. */
static void release_chunk(tdg__pool_t *pool, uint32_t number) {
    tdg__pool_chunk_t *chunk = pool->chunks[number - 1];

    if (pool->count == 0) {
        tdg__pool_done(pool); /* with the empty one that may have been kept before */
        return;
    }
    if (chunk->next == 0 && chunk->prev == 0)
        return;

    unlink_partial(pool, number);
    tdg__free(chunk);
    pool->chunks[number - 1] = NULL;
    pool->vacant++;

    while (pool->chunks[pool->n_chunks - 1] == NULL) {
        pool->n_chunks--;
        pool->vacant--;
    }
}

void tdg__pool_free(tdg__pool_t *pool, uint32_t id) {
    uint32_t number = ((id - 1) >> TDG__POOL_CHUNK_BITS) + 1;
    tdg__pool_chunk_t *chunk = pool->chunks[number - 1];
    uint32_t slot = (id - 1) & (TDG__POOL_CHUNK - 1);
    void *record = record_at(pool, chunk, slot);

    assert(chunk->used > 0 && pool->count > 0);
    memset(record, 0, pool->size);
    memcpy(record, &chunk->free, sizeof(chunk->free));
    if (chunk->free == 0)
        link_partial(pool, number);
    chunk->free = slot + 1;
    chunk->used--;
    pool->count--;
    if (chunk->used == 0)
        release_chunk(pool, number);
}

size_t tdg__pool_bytes(const tdg__pool_t *pool) {
    size_t chunk = sizeof(tdg__pool_chunk_t) + (size_t)TDG__POOL_CHUNK * pool->size;

    return (pool->n_chunks - pool->vacant) * chunk + pool->room * sizeof(*pool->chunks);
}
