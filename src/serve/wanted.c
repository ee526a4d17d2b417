/* SPDX-License-Identifier: MIT */
#include "serve/wanted.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

int tdg__wanted_init(tdg__wanted_set_t *watches) {
    tdg__pool_init(&watches->pool, sizeof(tdg__wanted_t));
    tdg__map_init(&watches->by_target);
    return tdg__random(&watches->key, sizeof(watches->key));
}

void tdg__wanted_done(tdg__wanted_set_t *watches) {
    tdg__wanted_t *watch;

    while ((watch = tdg__wanted_next(watches, 0)) != NULL)
        tdg__wanted_remove(watches, watch);
    tdg__map_done(&watches->by_target);
    tdg__pool_done(&watches->pool);
}

static bool has_target(const void *ctx, uint32_t id, const void *target) {
    const tdg__wanted_set_t *watches = ctx;
    const tdg__wanted_t *watch = tdg__pool_get(&watches->pool, id);

    return tdg__same_target(watch->target, target);
}

static uint32_t hash_of(const tdg__wanted_set_t *watches, const tdg_target_t *target) {
    return (uint32_t)tdg__hash(&watches->key, target->name, strlen(target->name)) +
           (uint32_t)target->kind;
}

tdg__wanted_t *tdg__wanted_find(const tdg__wanted_set_t *watches,
                                const tdg_target_t *target) {
    uint32_t hash = hash_of(watches, target);
    uint32_t id = tdg__map_find(&watches->by_target, hash, has_target, watches, target);

    return id != 0 ? tdg__pool_get(&watches->pool, id) : NULL;
}

tdg__wanted_t *tdg__wanted_add(tdg__wanted_set_t *watches, const tdg_target_t *target) {
    tdg__wanted_t *watch;
    uint32_t id;

    if (tdg__map_reserve(&watches->by_target) < 0)
        return NULL;
    watch = tdg__pool_alloc(&watches->pool, &id);
    if (watch == NULL)
        return NULL;
    watch->target = tdg__copy_target(target);
    if (watch->target == NULL) {
        tdg__pool_free(&watches->pool, id);
        return NULL;
    }
    watch->id = id;
    watch->hash = hash_of(watches, target);
    tdg__map_insert(&watches->by_target, watch->hash, id);
    return watch;
}

void tdg__wanted_remove(tdg__wanted_set_t *watches, tdg__wanted_t *watch) {
    assert(watch->target != NULL && tdg__pool_get(&watches->pool, watch->id) == watch);
    tdg__map_remove(&watches->by_target, watch->hash, watch->id);
    tdg__free(watch->target);
    tdg__pool_free(&watches->pool, watch->id);
}

tdg__wanted_t *tdg__wanted_next(const tdg__wanted_set_t *watches, uint32_t after) {
    for (uint32_t id = after + 1; id < tdg__pool_end(&watches->pool); id++) {
        tdg__wanted_t *watch = tdg__pool_get(&watches->pool, id);

        if (watch != NULL && watch->target != NULL)
            return watch;
    }
    return NULL;
}
