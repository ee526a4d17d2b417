/* SPDX-License-Identifier: MIT */
#include "server/mcp/census.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"

/* Those that may give way: the fresh ones and the quiet ones, oldest first. */
struct yielding {
    tdg__list_t lists[2];
};

/* A pool keeps its own link in the first four bytes of a free record. */
struct resident {
    uint32_t session; /* its number in its worker */
    uint32_t origin;  /* 0: it counts for no address */
    uint32_t worker;
    uint32_t standing;
    tdg__link_t in_all;    /* of census->yielding, or of census->leaving_of */
    tdg__link_t in_origin; /* of origin->yielding */
};

/* An address that has sessions. */
struct origin {
    uint32_t hash;
    uint32_t sessions; /* that count */
    uint32_t leaving;  /* that are leaving */
    tdg__address_t address;
    struct yielding yielding;
    uint32_t unused; /* the size is a multiple of eight */
};

struct tdg__census {
    pthread_mutex_t lock;
    uint32_t max_sessions, max_per_address;
    uint32_t sessions, leaving;
    tdg__pool_t residents, origins;
    tdg__map_t by_address;
    tdg__hash_key_t key;
    struct yielding yielding;
    tdg__list_t leaving_of[TDG__CENSUS_WORKERS];
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
    tdg__pool_init(&census->residents, sizeof(struct resident));
    tdg__pool_init(&census->origins, sizeof(struct origin));
    tdg__map_init(&census->by_address);
    *ret = census;
    return 0;
}

void tdg__census_destroy(tdg__census_t *census) {
    if (census == NULL)
        return;
    tdg__map_done(&census->by_address);
    tdg__pool_done(&census->origins);
    tdg__pool_done(&census->residents);
    pthread_mutex_destroy(&census->lock);
    tdg__free(census);
}

/* The functions up to the last part are called with the lock. */

static struct resident *resident_of(const tdg__census_t *census, uint32_t id) {
    return tdg__pool_get(&census->residents, id);
}

/* NULL for 0. */
static struct origin *origin_of(const tdg__census_t *census, uint32_t id) {
    return id != 0 ? tdg__pool_get(&census->origins, id) : NULL;
}

/* ---- Addresses ---------------------------------------------------------- */

static bool has_address(const void *ctx, uint32_t id, const void *address) {
    return tdg__address_equal(&origin_of(ctx, id)->address, address);
}

/* Returns 0 when memory is out. */
static uint32_t get_origin(tdg__census_t *census, const tdg__address_t *address) {
    uint32_t hash =
        (uint32_t)tdg__hash(&census->key, address->bytes, sizeof(address->bytes));
    uint32_t id = tdg__map_find(&census->by_address, hash, has_address, census, address);

    if (id != 0)
        return id;
    if (tdg__map_reserve(&census->by_address) < 0)
        return 0;

    struct origin *origin = tdg__pool_alloc(&census->origins, &id);
    if (origin == NULL)
        return 0;
    origin->hash = hash;
    origin->address = *address;
    tdg__map_insert(&census->by_address, hash, id);
    return id;
}

static void drop_unused_origin(tdg__census_t *census, uint32_t id) {
    struct origin *origin = origin_of(census, id);

    if (origin == NULL || origin->sessions > 0 || origin->leaving > 0)
        return;
    tdg__map_remove(&census->by_address, origin->hash, id);
    tdg__pool_free(&census->origins, id);
}

/* ---- Eviction ----------------------------------------------------------- */

#define IN_ALL offsetof(struct resident, in_all)
#define IN_ORIGIN offsetof(struct resident, in_origin)

static bool yields(tdg__standing_t standing) {
    return standing == TDG__FRESH || standing == TDG__QUIET;
}

/* Puts it where its standing belongs. */
static void set_standing(tdg__census_t *census, uint32_t id, tdg__standing_t standing) {
    struct resident *one = resident_of(census, id);
    struct origin *origin = origin_of(census, one->origin);

    one->standing = standing;
    if (standing == TDG__LEAVING)
        tdg__list_append(&census->leaving_of[one->worker], &census->residents, IN_ALL,
                         id);
    if (!yields(standing))
        return;
    tdg__list_append(&census->yielding.lists[standing], &census->residents, IN_ALL, id);
    if (origin != NULL)
        tdg__list_append(&origin->yielding.lists[standing], &census->residents, IN_ORIGIN,
                         id);
}

/* Takes it out of all lists. */
static void unset_standing(tdg__census_t *census, uint32_t id) {
    struct resident *one = resident_of(census, id);
    struct origin *origin = origin_of(census, one->origin);

    if (one->standing == TDG__LEAVING)
        tdg__list_remove(&census->leaving_of[one->worker], &census->residents, IN_ALL,
                         id);
    if (!yields(one->standing))
        return;
    tdg__list_remove(&census->yielding.lists[one->standing], &census->residents, IN_ALL,
                     id);
    if (origin != NULL)
        tdg__list_remove(&origin->yielding.lists[one->standing], &census->residents,
                         IN_ORIGIN, id);
}

static uint32_t oldest(const struct yielding *yielding) {
    return yielding->lists[TDG__FRESH].first != 0 ? yielding->lists[TDG__FRESH].first
                                                  : yielding->lists[TDG__QUIET].first;
}

static tdg__eviction_t give_way(tdg__census_t *census, uint32_t id) {
    const struct resident *one = resident_of(census, id);
    struct origin *origin = origin_of(census, one->origin);

    assert(yields((tdg__standing_t)one->standing));
    unset_standing(census, id);
    set_standing(census, id, TDG__LEAVING);
    census->sessions--;
    census->leaving++;
    if (origin != NULL) {
        origin->sessions--;
        origin->leaving++;
    }
    return (tdg__eviction_t){.worker = (int)one->worker, .session = one->session};
}

/* ---- Room --------------------------------------------------------------- */

/* Whether one more may wait for its worker to end it, which may be busy for long. */
static bool may_wait(uint32_t leaving, uint32_t max) {
    return leaving < 8 + (uint64_t)max / 4;
}

/* Whether one more of `origin` (NULL: of no address) may come to `worker`, and which one
 * gives way to it; 0: none has to. */
static tdg__admission_t find_room(const tdg__census_t *census,
                                  const struct origin *origin, unsigned worker,
                                  uint32_t *ret_gives_way) {
    bool crowded = origin != NULL && census->max_per_address < census->max_sessions &&
                   origin->sessions >= census->max_per_address;
    bool full = census->sessions >= census->max_sessions;
    uint32_t id = 0;

    if (crowded)
        id = oldest(&origin->yielding);
    else if (full)
        id = oldest(&census->yielding);
    /* The caller's own worker ends it at once. */
    if (id != 0 && resident_of(census, id)->worker != worker &&
        (!may_wait(census->leaving, census->max_sessions) ||
         (crowded && !may_wait(origin->leaving, census->max_per_address))))
        id = 0;
    if (id == 0 && (crowded || full))
        return crowded ? TDG__FULL_OF_ADDRESS : TDG__FULL;
    *ret_gives_way = id;
    return TDG__ADMITTED;
}

static tdg__admission_t enter(tdg__census_t *census, const tdg__arrival_t *arrival,
                              uint32_t origin_id, uint32_t *ret_id,
                              tdg__eviction_t *ret_eviction) {
    struct origin *origin = origin_of(census, origin_id);
    uint32_t gives_way = 0, id;

    tdg__admission_t admission = find_room(census, origin, arrival->worker, &gives_way);
    if (admission != TDG__ADMITTED)
        return admission;

    struct resident *one = tdg__pool_alloc(&census->residents, &id);
    if (one == NULL)
        return TDG__NO_MEMORY;
    one->session = arrival->session;
    one->origin = origin_id;
    one->worker = arrival->worker;
    set_standing(census, id, arrival->standing);
    census->sessions++;
    if (origin != NULL)
        origin->sessions++;
    *ret_eviction =
        gives_way != 0 ? give_way(census, gives_way) : (tdg__eviction_t){.worker = -1};
    *ret_id = id;
    return TDG__ADMITTED;
}

static void leave(tdg__census_t *census, uint32_t id) {
    struct resident *one = resident_of(census, id);
    struct origin *origin = origin_of(census, one->origin);
    bool leaving = one->standing == TDG__LEAVING;
    uint32_t origin_id = one->origin;

    assert((leaving ? census->leaving : census->sessions) > 0);
    unset_standing(census, id);
    *(leaving ? &census->leaving : &census->sessions) -= 1;
    if (origin != NULL)
        *(leaving ? &origin->leaving : &origin->sessions) -= 1;
    tdg__pool_free(&census->residents, id);
    drop_unused_origin(census, origin_id);
}

/* ---- With the lock ------------------------------------------------------ */

tdg__admission_t tdg__census_enter(tdg__census_t *census, const tdg__arrival_t *arrival,
                                   uint32_t *ret_id, tdg__eviction_t *ret_eviction) {
    tdg__admission_t admission = TDG__NO_MEMORY;
    uint32_t origin_id = 0;

    assert(arrival->worker < TDG__CENSUS_WORKERS && arrival->session != 0 &&
           arrival->standing != TDG__LEAVING);
    pthread_mutex_lock(&census->lock);
    if (arrival->address != NULL)
        origin_id = get_origin(census, arrival->address);
    if (origin_id != 0 || arrival->address == NULL) {
        admission = enter(census, arrival, origin_id, ret_id, ret_eviction);
        drop_unused_origin(census, origin_id);
    }
    pthread_mutex_unlock(&census->lock);
    return admission;
}

void tdg__census_leave(tdg__census_t *census, uint32_t id) {
    pthread_mutex_lock(&census->lock);
    leave(census, id);
    pthread_mutex_unlock(&census->lock);
}

void tdg__census_settle(tdg__census_t *census, uint32_t id, tdg__standing_t standing) {
    assert(standing != TDG__LEAVING);
    pthread_mutex_lock(&census->lock);
    if (resident_of(census, id)->standing != TDG__LEAVING) {
        unset_standing(census, id);
        set_standing(census, id, standing);
    }
    pthread_mutex_unlock(&census->lock);
}

uint32_t tdg__census_leaving(tdg__census_t *census, unsigned worker) {
    assert(worker < TDG__CENSUS_WORKERS);
    pthread_mutex_lock(&census->lock);
    uint32_t id = census->leaving_of[worker].first;
    uint32_t session = id != 0 ? resident_of(census, id)->session : 0;
    pthread_mutex_unlock(&census->lock);
    return session;
}
