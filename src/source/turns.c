/* SPDX-License-Identifier: MIT */
#include "source/item_internal.h"

#include <string.h>

/* The lane of nobody; it always exists, and also takes what there is no memory for. */
enum { OWN = 1 };

struct lane {
    uint32_t id;
    unsigned count;
    uint64_t client;
    tdg__list_t queue;
    tdg__link_t ring;
};

static struct lane *lane_at(const tdg__turns_t *turns, uint32_t id) {
    return tdg__pool_get(&turns->lanes, id);
}

static uint32_t hash_of(uint64_t client) {
    return (uint32_t)(client ^ client >> 32);
}

static bool is_of(const void *ctx, uint32_t id, const void *client) {
    return lane_at(ctx, id)->client == *(const uint64_t *)client;
}

static struct lane *find(const tdg__turns_t *turns, uint64_t client) {
    uint32_t id =
        client == TDG__NO_CLIENT
            ? OWN
            : tdg__map_find(&turns->by_client, hash_of(client), is_of, turns, &client);

    return id != 0 ? lane_at(turns, id) : NULL;
}

static struct lane *find_or_add(tdg__turns_t *turns, uint64_t client) {
    struct lane *lane = find(turns, client);
    uint32_t id;

    if (lane != NULL)
        return lane;
    lane = tdg__map_reserve(&turns->by_client) == 0 ? tdg__pool_alloc(&turns->lanes, &id)
                                                    : NULL;
    if (lane == NULL)
        return lane_at(turns, OWN);
    lane->id = id;
    lane->client = client;
    tdg__map_insert(&turns->by_client, hash_of(client), id);
    tdg__list_append(&turns->ring, &turns->lanes, offsetof(struct lane, ring), id);
    return lane;
}

int tdg__turns_init(tdg__turns_t *turns, tdg__pool_t *items) {
    uint32_t id;

    *turns = (tdg__turns_t){.items = items};
    tdg__pool_init(&turns->lanes, sizeof(struct lane));
    tdg__map_init(&turns->by_client);

    struct lane *own = tdg__pool_alloc(&turns->lanes, &id);
    if (own == NULL) {
        tdg__turns_done(turns);
        return TDG_ENOMEM;
    }
    own->id = id; /* the first of a pool is OWN */
    return 0;
}

void tdg__turns_done(tdg__turns_t *turns) {
    tdg__map_done(&turns->by_client);
    tdg__pool_done(&turns->lanes);
}

static void leave(tdg__turns_t *turns, tdg__item_t *item) {
    struct lane *lane = lane_at(turns, item->lane);

    tdg__list_remove(&lane->queue, turns->items, LINK(queue), item->id);
    item->lane = 0;
    if (--lane->count > 0 || lane->id == OWN)
        return;
    tdg__list_remove(&turns->ring, &turns->lanes, offsetof(struct lane, ring), lane->id);
    tdg__map_remove(&turns->by_client, hash_of(lane->client), lane->id);
    tdg__pool_free(&turns->lanes, lane->id);
}

void tdg__turns_put(tdg__turns_t *turns, tdg__item_t *item, uint64_t client) {
    struct lane *lane = find_or_add(turns, client);

    item->lane = lane->id;
    tdg__list_append(&lane->queue, turns->items, LINK(queue), item->id);
    lane->count++;
}

void tdg__turns_also(tdg__turns_t *turns, tdg__item_t *item, uint64_t client) {
    const struct lane *mine = find(turns, client), *now = lane_at(turns, item->lane);

    if (mine == now || (mine != NULL ? mine->count : 0) + 1 >= now->count)
        return;
    leave(turns, item);
    tdg__turns_put(turns, item, client);
}

tdg__item_t *tdg__turns_take(tdg__turns_t *turns) {
    struct lane *own = lane_at(turns, OWN), *lane = own;

    if (turns->ring.first != 0 && (own->count == 0 || turns->own_was_last)) {
        lane = lane_at(turns, turns->ring.first);
        tdg__list_remove(&turns->ring, &turns->lanes, offsetof(struct lane, ring),
                         lane->id);
        tdg__list_append(&turns->ring, &turns->lanes, offsetof(struct lane, ring),
                         lane->id);
    }
    if (lane->count == 0)
        return NULL;
    turns->own_was_last = lane == own;

    tdg__item_t *item = tdg__pool_get(turns->items, lane->queue.first);

    leave(turns, item);
    return item;
}
