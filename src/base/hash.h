/* SPDX-License-Identifier: MIT
 *
 * A keyed hash (SipHash-1-3), so that a client that chooses URIs cannot choose
 * collisions, and the randomness for its key. */
#ifndef TDG_BASE_HASH_H
#define TDG_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct tdg__hash_key {
    uint64_t k0;
    uint64_t k1;
} tdg__hash_key_t;

uint64_t tdg__hash(const tdg__hash_key_t *key, const void *data, size_t len);

/* Fills `data` from the operating system's generator. Returns 0 or TDG_ESYSTEM. */
int tdg__random(void *data, size_t len);

#endif
