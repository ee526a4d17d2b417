/* SPDX-License-Identifier: MIT */
#include "source/common/turns.h"

#include <assert.h>
#include <stddef.h>

static const uint32_t OWN = UINT32_MAX; /* no identifier of the pool */

#define RING offsetof(tdg__lane_t, ring)

/* ---- Lanes -------------------------------------------------------------- */

static tdg__lane_t *lane_at(const tdg__turns_t *turns, uint32_t id) {
    return id == OWN ? (tdg__lane_t *)(uintptr_t)&turns->own
                     : tdg__pool_get(&turns->lanes, id);
}

static uint32_t hash_of(uint64_t client) {
    return (uint32_t)(client ^ client >> 32);
}

static bool is_of(const void *ctx, uint32_t id, const void *client) {
    return lane_at(ctx, id)->client == *(const uint64_t *)client;
}

static tdg__lane_t *find(const tdg__turns_t *turns, uint64_t client) {
    uint32_t id =
        client == TDG__NO_CLIENT
            ? OWN
            : tdg__map_find(&turns->by_client, hash_of(client), is_of, turns, &client);

    return id != 0 ? lane_at(turns, id) : NULL;
}

static tdg__lane_t *find_or_add(tdg__turns_t *turns, uint64_t client) {
    tdg__lane_t *lane = find(turns, client);
    uint32_t id;

    if (lane != NULL)
        return lane;
    lane = tdg__map_reserve(&turns->by_client) == 0 ? tdg__pool_alloc(&turns->lanes, &id)
                                                    : NULL;
    if (lane == NULL)
        return lane_at(turns, OWN);
    lane->id = id;
    lane->client = client;
    tdg__queue_init(&lane->waiting);
    tdg__map_insert(&turns->by_client, hash_of(client), id);
    tdg__list_append(&turns->ring, &turns->lanes, RING, id);
    return lane;
}

/* The lane of nobody stays. */
static void remove_if_empty(tdg__turns_t *turns, tdg__lane_t *lane) {
    if (lane->count > 0 || lane->id == OWN)
        return;
    tdg__list_remove(&turns->ring, &turns->lanes, RING, lane->id);
    tdg__map_remove(&turns->by_client, hash_of(lane->client), lane->id);
    tdg__pool_free(&turns->lanes, lane->id);
}

/* ---- Life --------------------------------------------------------------- */

void tdg__turns_init(tdg__turns_t *turns) {
    *turns = (tdg__turns_t){.own.id = OWN};
    tdg__queue_init(&turns->own.waiting);
    tdg__pool_init(&turns->lanes, sizeof(tdg__lane_t));
    tdg__map_init(&turns->by_client);
}

void tdg__turns_done(tdg__turns_t *turns) {
    tdg__map_done(&turns->by_client);
    tdg__pool_done(&turns->lanes);
}

/* ---- Coming and going --------------------------------------------------- */

void tdg__turns_put(tdg__turns_t *turns, tdg__turn_t *turn, uint64_t client) {
    tdg__lane_t *lane = find_or_add(turns, client);

    assert(turn->lane == 0);
    *turn = (tdg__turn_t){.lane = lane->id};
    tdg__queue_append(&lane->waiting, &turn->link);
    lane->count++;
}

void tdg__turns_leave(tdg__turns_t *turns, tdg__turn_t *turn) {
    tdg__lane_t *lane = lane_at(turns, turn->lane);

    assert(lane->count > 0);
    tdg__queue_remove(&turn->link);
    turn->lane = 0;
    lane->count--;
    remove_if_empty(turns, lane);
}

void tdg__turns_also(tdg__turns_t *turns, tdg__turn_t *turn, uint64_t client) {
    const tdg__lane_t *mine = find(turns, client), *now = lane_at(turns, turn->lane);

    if (mine == now || (mine != NULL ? mine->count : 0) + 1 >= now->count)
        return;
    tdg__turns_leave(turns, turn);
    tdg__turns_put(turns, turn, client);
}

/* ---- Whose turn it is --------------------------------------------------- */

static tdg__lane_t *next_lane(const tdg__turns_t *turns) {
    tdg__lane_t *own = lane_at(turns, OWN);

    if (turns->ring.first != 0 && (own->count == 0 || turns->own_was_last))
        return lane_at(turns, turns->ring.first);
    return own;
}

tdg__turn_t *tdg__turns_next(const tdg__turns_t *turns) {
    const tdg__lane_t *lane = next_lane(turns);

    return lane->count > 0 ? (tdg__turn_t *)lane->waiting.next : NULL;
}

tdg__turn_t *tdg__turns_take(tdg__turns_t *turns) {
    tdg__turn_t *turn = tdg__turns_next(turns);
    tdg__lane_t *lane;

    if (turn == NULL)
        return NULL;
    lane = lane_at(turns, turn->lane);
    turns->own_was_last = lane->id == OWN;
    if (lane->id != OWN) {
        tdg__list_remove(&turns->ring, &turns->lanes, RING, lane->id);
        tdg__list_append(&turns->ring, &turns->lanes, RING, lane->id);
    }
    tdg__turns_leave(turns, turn);
    return turn;
}

tdg__turn_t *tdg__turns_last_of_longest(const tdg__turns_t *turns, uint64_t client) {
    const tdg__lane_t *mine = find(turns, client), *longest = lane_at(turns, OWN);

    for (uint32_t id = turns->ring.first; id != 0; id = lane_at(turns, id)->ring.next)
        if (lane_at(turns, id)->count > longest->count)
            longest = lane_at(turns, id);
    return (mine != NULL ? mine->count : 0) < longest->count
               ? (tdg__turn_t *)longest->waiting.prev
               : NULL;
}
