/* SPDX-License-Identifier: MIT
 *
 * A treap keeps itself balanced by chance: it is a search tree by sequence and a heap by
 * priority, and priorities are hashes under a random key, so nobody can choose a bad
 * order. New places always come last, at the right end. */
#include "server/catalogue/entry_list.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

enum { BY_AGE = offsetof(tdg__entry_slot_t, by_age) };

void tdg__entry_list_init(tdg__entry_list_t *list, const tdg__hash_key_t *hash_key) {
    *list = (tdg__entry_list_t){.hash_key = *hash_key};
    tdg__pool_init(&list->slots, sizeof(tdg__entry_slot_t));
    tdg__map_init(&list->by_key);
}

void tdg__entry_list_done(tdg__entry_list_t *list) {
    tdg__map_done(&list->by_key);
    tdg__pool_done(&list->slots);
}

/* ---- By key ------------------------------------------------------------- */

struct key {
    const char *text;
    size_t len;
};

static bool has_key(const void *ctx, uint32_t id, const void *arg) {
    const tdg__entry_t *entry = tdg__entry_list_at(ctx, id)->entry;
    const struct key *key = arg;

    return entry->len == key->len && memcmp(entry->key, key->text, key->len) == 0;
}

uint32_t tdg__entry_list_find(const tdg__entry_list_t *list, const char *key,
                              size_t len) {
    uint32_t hash = (uint32_t)tdg__hash(&list->hash_key, key, len);

    return tdg__map_find(&list->by_key, hash, has_key, list, &(struct key){key, len});
}

/* ---- By sequence -------------------------------------------------------- */

/* The new one goes where the first with a smaller priority is on the way along the right
 * end, and takes that branch under it. */
static void grow(tdg__entry_list_t *list, uint32_t id) {
    tdg__entry_slot_t *slot = tdg__entry_list_at(list, id);
    uint32_t *link = &list->root;

    while (*link != 0 && tdg__entry_list_at(list, *link)->priority >= slot->priority)
        link = &tdg__entry_list_at(list, *link)->right;
    slot->left = *link;
    *link = id;
}

/* Joins two branches, all of `left` before all of `right`, at *link. */
static void join(tdg__entry_list_t *list, uint32_t *link, uint32_t left, uint32_t right) {
    while (left != 0 && right != 0) {
        tdg__entry_slot_t *l = tdg__entry_list_at(list, left),
                          *r = tdg__entry_list_at(list, right);

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

static void prune(tdg__entry_list_t *list, uint32_t id) {
    const tdg__entry_slot_t *slot = tdg__entry_list_at(list, id);
    uint32_t *link = &list->root;

    while (*link != id) {
        tdg__entry_slot_t *above = tdg__entry_list_at(list, *link);

        link = slot->sequence < above->sequence ? &above->left : &above->right;
    }
    join(list, link, slot->left, slot->right);
}

uint32_t tdg__entry_list_after(const tdg__entry_list_t *list, uint64_t sequence) {
    uint32_t id = list->root, best = 0;

    while (id != 0) {
        const tdg__entry_slot_t *slot = tdg__entry_list_at(list, id);

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

int tdg__entry_list_add(tdg__entry_list_t *list, tdg__entry_t *entry, uint32_t *ret_id) {
    tdg__entry_slot_t *slot;
    uint32_t id;

    assert(tdg__entry_list_find(list, entry->key, entry->len) == 0);
    if (tdg__map_reserve(&list->by_key) < 0)
        return TDG_ENOMEM;
    slot = tdg__pool_alloc(&list->slots, &id);
    if (slot == NULL)
        return TDG_ENOMEM;

    *slot = (tdg__entry_slot_t){.sequence = ++list->last, .entry = entry};
    slot->hash = (uint32_t)tdg__hash(&list->hash_key, entry->key, entry->len);
    slot->priority =
        (uint32_t)tdg__hash(&list->hash_key, &slot->sequence, sizeof(slot->sequence));
    tdg__map_insert(&list->by_key, slot->hash, id);
    tdg__list_append(&list->by_age, &list->slots, BY_AGE, id);
    grow(list, id);

    *ret_id = id;
    return 0;
}

tdg__entry_t *tdg__entry_list_remove(tdg__entry_list_t *list, uint32_t id) {
    tdg__entry_slot_t *slot = tdg__entry_list_at(list, id);
    tdg__entry_t *entry = slot->entry;

    assert(entry != NULL);
    prune(list, id);
    tdg__list_remove(&list->by_age, &list->slots, BY_AGE, id);
    tdg__map_remove(&list->by_key, slot->hash, id);
    tdg__pool_free(&list->slots, id);
    return entry;
}
