/* SPDX-License-Identifier: MIT
 *
 * A treap keeps itself balanced by chance: it is a search tree by sequence and a heap by
 * priority, and priorities are hashes under a random key, so nobody can choose a bad
 * order. New places always come last, at the right end. */
#include "server/shelf.h"

#include <string.h>

#include <tidings/error.h>

enum { BY_AGE = offsetof(tdg__slot_t, by_age) };

void tdg__shelf_init(tdg__shelf_t *shelf, const tdg__hash_key_t *hash_key) {
    *shelf = (tdg__shelf_t){.hash_key = *hash_key};
    tdg__pool_init(&shelf->slots, sizeof(tdg__slot_t));
    tdg__map_init(&shelf->by_key);
}

void tdg__shelf_done(tdg__shelf_t *shelf) {
    tdg__map_done(&shelf->by_key);
    tdg__pool_done(&shelf->slots);
}

/* ---- By key ------------------------------------------------------------- */

struct key {
    const char *text;
    size_t len;
};

static bool has_key(const void *ctx, uint32_t id, const void *arg) {
    const tdg__entry_t *entry = tdg__shelf_at(ctx, id)->entry;
    const struct key *key = arg;

    return entry->len == key->len && memcmp(entry->key, key->text, key->len) == 0;
}

uint32_t tdg__shelf_find(const tdg__shelf_t *shelf, const char *key, size_t len) {
    uint32_t hash = (uint32_t)tdg__hash(&shelf->hash_key, key, len);

    return tdg__map_find(&shelf->by_key, hash, has_key, shelf, &(struct key){key, len});
}

/* ---- By sequence -------------------------------------------------------- */

/* The new one goes where the first with a smaller priority is on the way along the right
 * end, and takes that branch under it. */
static void grow(tdg__shelf_t *shelf, uint32_t id) {
    tdg__slot_t *slot = tdg__shelf_at(shelf, id);
    uint32_t *link = &shelf->root;

    while (*link != 0 && tdg__shelf_at(shelf, *link)->priority >= slot->priority)
        link = &tdg__shelf_at(shelf, *link)->right;
    slot->left = *link;
    *link = id;
}

/* Joins two branches, all of `left` before all of `right`, at *link. */
static void join(tdg__shelf_t *shelf, uint32_t *link, uint32_t left, uint32_t right) {
    while (left != 0 && right != 0) {
        tdg__slot_t *l = tdg__shelf_at(shelf, left), *r = tdg__shelf_at(shelf, right);

        if (l->priority >= r->priority) {
            *link = left;
            link = &l->right;
            left = *link;
        } else {
            *link = right;
            link = &r->left;
            right = *link;
        }
    }
    *link = left != 0 ? left : right;
}

static void prune(tdg__shelf_t *shelf, uint32_t id) {
    const tdg__slot_t *slot = tdg__shelf_at(shelf, id);
    uint32_t *link = &shelf->root;

    while (*link != id) {
        tdg__slot_t *above = tdg__shelf_at(shelf, *link);

        link = slot->sequence < above->sequence ? &above->left : &above->right;
    }
    join(shelf, link, slot->left, slot->right);
}

uint32_t tdg__shelf_after(const tdg__shelf_t *shelf, uint64_t sequence) {
    uint32_t id = shelf->root, best = 0;

    while (id != 0) {
        const tdg__slot_t *slot = tdg__shelf_at(shelf, id);

        if (slot->sequence > sequence) {
            best = id;
            id = slot->left;
        } else {
            id = slot->right;
        }
    }
    return best;
}

/* ---- Both --------------------------------------------------------------- */

int tdg__shelf_add(tdg__shelf_t *shelf, tdg__entry_t *entry, uint32_t *ret_id) {
    tdg__slot_t *slot;
    uint32_t id;

    if (tdg__map_reserve(&shelf->by_key) < 0)
        return TDG_ENOMEM;
    slot = tdg__pool_alloc(&shelf->slots, &id);
    if (slot == NULL)
        return TDG_ENOMEM;

    *slot = (tdg__slot_t){.sequence = ++shelf->last, .entry = entry};
    slot->hash = (uint32_t)tdg__hash(&shelf->hash_key, entry->key, entry->len);
    slot->priority =
        (uint32_t)tdg__hash(&shelf->hash_key, &slot->sequence, sizeof(slot->sequence));
    tdg__map_insert(&shelf->by_key, slot->hash, id);
    tdg__list_append(&shelf->by_age, &shelf->slots, BY_AGE, id);
    grow(shelf, id);

    *ret_id = id;
    return 0;
}

tdg__entry_t *tdg__shelf_remove(tdg__shelf_t *shelf, uint32_t id) {
    tdg__slot_t *slot = tdg__shelf_at(shelf, id);
    tdg__entry_t *entry = slot->entry;

    prune(shelf, id);
    tdg__list_remove(&shelf->by_age, &shelf->slots, BY_AGE, id);
    tdg__map_remove(&shelf->by_key, slot->hash, id);
    tdg__pool_free(&shelf->slots, id);
    return entry;
}
