/* SPDX-License-Identifier: MIT */
#include "server/census.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/pool.h"

enum { MAX_WORKERS = 64 };

struct inhabitant {
    uint32_t hash; /* a pool keeps its own link here while the record is free */
    uint32_t sessions;
    tdg__address_t address;
};

struct tdg__census {
    pthread_mutex_t lock;
    uint32_t max_sessions, max_per_address;
    uint32_t sessions;
    tdg__pool_t pool;
    tdg__map_t by_address;
    tdg__hash_key_t key;
    atomic_int tentative[MAX_WORKERS];
};

/* ---- Life --------------------------------------------------------------- */

int tdg__census_create(uint32_t max_sessions, uint32_t max_per_address,
                       tdg__census_t **ret) {
    tdg__census_t *census = tdg__calloc(1, sizeof(*census));
    if (census == NULL)
        return TDG_ENOMEM;

    if (tdg__random(&census->key, sizeof(census->key)) < 0 ||
        pthread_mutex_init(&census->lock, NULL) != 0) {
        tdg__free(census);
        return TDG_ESYSTEM;
    }
    census->max_sessions = max_sessions;
    census->max_per_address = max_per_address;
    tdg__pool_init(&census->pool, sizeof(struct inhabitant));
    tdg__map_init(&census->by_address);
    *ret = census;
    return 0;
}

void tdg__census_destroy(tdg__census_t *census) {
    if (census == NULL)
        return;
    tdg__map_done(&census->by_address);
    tdg__pool_done(&census->pool);
    pthread_mutex_destroy(&census->lock);
    tdg__free(census);
}

/* ---- Counting ----------------------------------------------------------- */

static bool has_address(const void *ctx, uint32_t id, const void *address) {
    const tdg__census_t *census = ctx;
    const struct inhabitant *one = tdg__pool_get(&census->pool, id);

    return tdg__address_equal(&one->address, address);
}

static uint32_t hash_of(const tdg__census_t *census, const tdg__address_t *address) {
    return (uint32_t)tdg__hash(&census->key, address->bytes, sizeof(address->bytes));
}

static uint32_t find(const tdg__census_t *census, const tdg__address_t *address) {
    return tdg__map_find(&census->by_address, hash_of(census, address), has_address,
                         census, address);
}

/* With the lock; NULL: memory is out. */
static struct inhabitant *get(tdg__census_t *census, const tdg__address_t *address) {
    uint32_t id = find(census, address);
    struct inhabitant *one;

    if (id != 0)
        return tdg__pool_get(&census->pool, id);
    if (tdg__map_reserve(&census->by_address) < 0)
        return NULL;
    one = tdg__pool_alloc(&census->pool, &id);
    if (one == NULL)
        return NULL;
    one->hash = hash_of(census, address);
    one->address = *address;
    tdg__map_insert(&census->by_address, one->hash, id);
    return one;
}

/* How many there may be where others are about to go: enough for those who come until
 * another worker has its turn. */
static uint64_t relax(uint32_t max, bool beyond) {
    return beyond ? (uint64_t)max + 8 + max / 4 : max;
}

/* With the lock. */
static tdg__admission_t enter(tdg__census_t *census, const tdg__address_t *address,
                              bool beyond) {
    uint32_t id = address != NULL ? find(census, address) : 0;
    struct inhabitant *one = id != 0 ? tdg__pool_get(&census->pool, id) : NULL;

    if (one != NULL && census->max_per_address < census->max_sessions &&
        one->sessions >= relax(census->max_per_address, beyond))
        return TDG__FULL_OF_ADDRESS;
    if (census->sessions >= relax(census->max_sessions, beyond))
        return TDG__FULL;
    if (address != NULL) {
        one = get(census, address);
        if (one == NULL)
            return TDG__NO_MEMORY;
        one->sessions++;
    }
    census->sessions++;
    return TDG__ADMITTED;
}

tdg__admission_t tdg__census_enter(tdg__census_t *census, const tdg__address_t *address,
                                   bool beyond) {
    pthread_mutex_lock(&census->lock);
    tdg__admission_t admission = enter(census, address, beyond);
    pthread_mutex_unlock(&census->lock);
    return admission;
}

void tdg__census_leave(tdg__census_t *census, const tdg__address_t *address) {
    pthread_mutex_lock(&census->lock);
    uint32_t id = address != NULL ? find(census, address) : 0;

    census->sessions--;
    if (id != 0) {
        struct inhabitant *one = tdg__pool_get(&census->pool, id);

        if (--one->sessions == 0) {
            tdg__map_remove(&census->by_address, one->hash, id);
            tdg__pool_free(&census->pool, id);
        }
    }
    pthread_mutex_unlock(&census->lock);
}

/* ---- Those that may give way -------------------------------------------- */

void tdg__census_tentative(tdg__census_t *census, unsigned worker, int change) {
    atomic_fetch_add_explicit(&census->tentative[worker], change, memory_order_relaxed);
}

int tdg__census_most_tentative(tdg__census_t *census, unsigned own) {
    int best = -1, most = 0;

    for (unsigned i = 0; i < MAX_WORKERS; i++) {
        int count =
            i != own ? atomic_load_explicit(&census->tentative[i], memory_order_relaxed)
                     : 0;

        if (count > most) {
            most = count;
            best = (int)i;
        }
    }
    return best;
}
