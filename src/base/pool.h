/* SPDX-License-Identifier: MIT
 *
 * Records of one size under 32-bit identifiers: half the size of a pointer, stable, and
 * close together in memory. Whole chunks that are free go back to the allocator. */
#ifndef TDG_BASE_POOL_H
#define TDG_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

enum { TDG__POOL_CHUNK_BITS = 8, TDG__POOL_CHUNK = 1 << TDG__POOL_CHUNK_BITS };

typedef struct tdg__pool_chunk tdg__pool_chunk_t;

typedef struct tdg__pool {
    tdg__pool_chunk_t **chunks; /* by identifier; NULL where a chunk was given back */
    uint32_t n_chunks;
    uint32_t room;    /* of `chunks` */
    uint32_t partial; /* first of the chunks with a free record, counted from 1 */
    uint32_t vacant;  /* how many of `chunks` are NULL */
    uint32_t count;   /* records in use */
    uint32_t size;    /* of a record */
} tdg__pool_t;

struct tdg__pool_chunk {
    uint32_t used;
    uint32_t free;       /* first free record of the chunk, counted from 1 */
    uint32_t next, prev; /* among the partial ones, counted from 1 */
    char records[];      /* aligned to 16: the head is as long */
};

/* `size`, at least 8 and a multiple of 8, is that of a record. */
void tdg__pool_init(tdg__pool_t *pool, size_t size);
void tdg__pool_done(tdg__pool_t *pool); /* frees all records, without looking at them */

/* A zeroed record and its identifier (from 1 on); NULL when memory is out. */
void *tdg__pool_alloc(tdg__pool_t *pool, uint32_t *ret_id);
/* Gives a record back: it is zeroed but for its first four bytes. */
void tdg__pool_free(tdg__pool_t *pool, uint32_t id);

/* One above the largest identifier that can be in use. */
static inline uint32_t tdg__pool_end(const tdg__pool_t *pool) {
    return pool->n_chunks * TDG__POOL_CHUNK + 1;
}

/* The record of an identifier from 1 to below tdg__pool_end(). One that is not in use
 * gives a record that is zero but for its first four bytes, or NULL. */
static inline void *tdg__pool_get(const tdg__pool_t *pool, uint32_t id) {
    tdg__pool_chunk_t *chunk = pool->chunks[(id - 1) >> TDG__POOL_CHUNK_BITS];

    if (__builtin_expect(chunk == NULL, 0))
        return NULL;
    return chunk->records + (size_t)((id - 1) & (TDG__POOL_CHUNK - 1)) * pool->size;
}

size_t tdg__pool_bytes(const tdg__pool_t *pool);

#endif
