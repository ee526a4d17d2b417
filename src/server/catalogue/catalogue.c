/* SPDX-License-Identifier: MIT */
#include "server/catalogue/catalogue_internal.h"

#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

/* ---- Beginning and end -------------------------------------------------- */

int tdg__catalogue_create(void (*taken_back)(void *user), void *user,
                          tdg__catalogue_t **ret) {
    tdg__catalogue_t *catalogue = tdg__calloc(1, sizeof(*catalogue));
    int rv;

    if (catalogue == NULL)
        return TDG_ENOMEM;
    catalogue->taken_back = taken_back;
    catalogue->user = user;

    rv = tdg__random(&catalogue->key, sizeof(catalogue->key));
    if (rv < 0)
        goto fail_catalogue;

    rv = tdg__template_index_create(&catalogue->templates);
    if (rv < 0)
        goto fail_catalogue;

    if (pthread_mutex_init(&catalogue->lock, NULL) != 0) {
        rv = TDG_ESYSTEM;
        goto fail_index;
    }
    for (int kind = 0; kind < TDG__KIND_COUNT; kind++)
        tdg__entry_list_init(&catalogue->lists[kind], &catalogue->key);

    *ret = catalogue;
    return 0;

fail_index:
    tdg__template_index_destroy(catalogue->templates);
fail_catalogue:
    tdg__free(catalogue);
    return rv;
}

void tdg__catalogue_destroy(tdg__catalogue_t *catalogue) {
    if (catalogue == NULL)
        return;

    /* First, because it refers to the entries. */
    tdg__template_index_destroy(catalogue->templates);
    for (int kind = 0; kind < TDG__KIND_COUNT; kind++) {
        tdg__entry_list_t *list = &catalogue->lists[kind];

        for (uint32_t id = list->by_age.first; id != 0;
             id = tdg__entry_list_next(list, id))
            tdg__entry_unref(tdg__entry_list_at(list, id)->entry);
        tdg__entry_list_done(list);
    }
    pthread_mutex_destroy(&catalogue->lock);
    tdg__free(catalogue);
}

/* ---- Looking up; with the lock ------------------------------------------ */

static tdg__entry_t *find(const tdg__catalogue_t *catalogue, tdg__kind_t kind,
                          const char *key, size_t len) {
    const tdg__entry_list_t *list = &catalogue->lists[kind];
    uint32_t id = tdg__entry_list_find(list, key, len);

    return id != 0 ? tdg__entry_list_at(list, id)->entry : NULL;
}

struct best {
    const tdg__entry_list_t *list;
    const tdg__entry_slot_t *slot; /* NULL: none yet */
};

static void on_match(void *user, uint32_t id) {
    struct best *best = user;
    const tdg__entry_slot_t *slot = tdg__entry_list_at(best->list, id);
    size_t own, other;

    if (best->slot != NULL) {
        own = tdg__template_literal_len(best->slot->entry->parsed);
        other = tdg__template_literal_len(slot->entry->parsed);
        if (other < own || (other == own && slot->sequence > best->slot->sequence))
            return;
    }
    best->slot = slot;
}

static tdg__entry_t *match(tdg__catalogue_t *catalogue, const char *uri, size_t len) {
    struct best best = {&catalogue->lists[TDG__TEMPLATE], NULL};

    tdg__template_index_match(catalogue->templates, uri, len, on_match, &best);
    return best.slot != NULL ? best.slot->entry : NULL;
}

/* ---- Changing it; with the lock ----------------------------------------- */

static void index_remove(tdg__catalogue_t *catalogue, const tdg__entry_t *entry,
                         uint32_t id) {
    if (entry->parsed != NULL)
        tdg__template_index_remove(catalogue->templates, entry->parsed, id);
}

static int index_add(tdg__catalogue_t *catalogue, const tdg__entry_t *entry,
                     uint32_t id) {
    if (entry->parsed == NULL)
        return 0;
    return tdg__template_index_add(catalogue->templates, entry->parsed, id);
}

static int insert(tdg__catalogue_t *catalogue, tdg__entry_t *entry) {
    tdg__entry_list_t *list = &catalogue->lists[entry->kind];
    uint32_t id;
    int rv = tdg__entry_list_add(list, entry, &id);
    if (rv < 0)
        return rv;

    rv = index_add(catalogue, entry, id);
    if (rv < 0)
        tdg__entry_list_remove(list, id);
    return rv;
}

/* Stores the one that had the place in *ret_old. */
static int replace(tdg__catalogue_t *catalogue, tdg__entry_t *entry, uint32_t id,
                   tdg__entry_t **ret_old) {
    tdg__entry_slot_t *slot = tdg__entry_list_at(&catalogue->lists[entry->kind], id);
    int rv = index_add(catalogue, entry, id);
    if (rv < 0)
        return rv;

    index_remove(catalogue, slot->entry, id);
    *ret_old = slot->entry;
    slot->entry = entry;
    return 0;
}

static bool is_closed_template(const tdg__entry_t *entry) {
    return entry->kind == TDG__TEMPLATE && entry->not_subscribable;
}

static void count_in(tdg__catalogue_t *catalogue, const tdg__entry_t *entry) {
    catalogue->completing += entry->complete != NULL;
    catalogue->closed_templates += is_closed_template(entry);
}

static void count_out(tdg__catalogue_t *catalogue, const tdg__entry_t *entry) {
    catalogue->completing -= entry->complete != NULL;
    catalogue->closed_templates -= is_closed_template(entry);
}

static int put(tdg__catalogue_t *catalogue, tdg__entry_t *entry, tdg__entry_t **ret_old) {
    uint32_t id =
        tdg__entry_list_find(&catalogue->lists[entry->kind], entry->key, entry->len);
    int rv = id == 0 ? insert(catalogue, entry) : replace(catalogue, entry, id, ret_old);

    if (rv < 0)
        return rv;
    catalogue->ever_had[entry->kind] = true;
    count_in(catalogue, entry);
    if (*ret_old != NULL)
        count_out(catalogue, *ret_old);
    return 0;
}

/* Whether an entry makes something not subscribable that nothing else does already. */
static bool takes_back(tdg__catalogue_t *catalogue, const tdg__entry_t *entry) {
    const tdg__entry_t *before;

    if (!entry->not_subscribable)
        return false;
    before = find(catalogue, entry->kind, entry->key, entry->len);
    if (before == NULL && entry->kind == TDG__RESOURCE)
        before = match(catalogue, entry->key, entry->len);
    return before == NULL || !before->not_subscribable;
}

/* Whether URIs of an entry that was removed belong to a template now which is not
 * subscribable. Which URIs a template had is not known, so any such template counts. */
static bool leaves_to_closed(tdg__catalogue_t *catalogue, const tdg__entry_t *removed) {
    const tdg__entry_t *heir;

    if (removed->not_subscribable || catalogue->closed_templates == 0)
        return false;
    if (removed->kind != TDG__RESOURCE)
        return removed->kind == TDG__TEMPLATE;
    heir = match(catalogue, removed->key, removed->len);
    return heir != NULL && heir->not_subscribable;
}

static tdg__entry_t *take(tdg__catalogue_t *catalogue, tdg__kind_t kind, uint32_t id) {
    tdg__entry_list_t *list = &catalogue->lists[kind];
    tdg__entry_t *entry = tdg__entry_list_at(list, id)->entry;

    index_remove(catalogue, entry, id);
    count_out(catalogue, entry);
    return tdg__entry_list_remove(list, id);
}

/* ---- Changing it; references are dropped without the lock --------------- */

static void announce(tdg__catalogue_t *catalogue) {
    atomic_fetch_add(&catalogue->announced, 1);
    if (catalogue->taken_back != NULL)
        catalogue->taken_back(catalogue->user);
}

int tdg__catalogue_add(tdg__catalogue_t *catalogue, tdg__entry_t *entry) {
    tdg__entry_t *old = NULL;
    bool taken_back;
    int rv;

    pthread_mutex_lock(&catalogue->lock);
    taken_back = takes_back(catalogue, entry);
    rv = put(catalogue, entry, &old);
    pthread_mutex_unlock(&catalogue->lock);

    if (rv < 0)
        tdg__entry_discard(entry);
    else if (taken_back)
        announce(catalogue);
    tdg__entry_unref(old);
    return rv;
}

int tdg__catalogue_take(tdg__catalogue_t *catalogue, tdg__kind_t kind, const char *key,
                        tdg__entry_t **ret, bool *ret_taken_back) {
    uint32_t id;

    if (key == NULL)
        return TDG_EINVAL;

    pthread_mutex_lock(&catalogue->lock);
    id = tdg__entry_list_find(&catalogue->lists[kind], key, strlen(key));
    if (id != 0) {
        *ret = take(catalogue, kind, id);
        *ret_taken_back = leaves_to_closed(catalogue, *ret);
        if (*ret_taken_back)
            atomic_fetch_add(&catalogue->removals, 1);
    }
    pthread_mutex_unlock(&catalogue->lock);
    return id != 0 ? 0 : TDG_ENOTFOUND;
}

int tdg__catalogue_remove(tdg__catalogue_t *catalogue, tdg__kind_t kind,
                          const char *key) {
    tdg__entry_t *entry = NULL;
    bool taken_back = false;
    int rv = tdg__catalogue_take(catalogue, kind, key, &entry, &taken_back);

    if (taken_back)
        tdg__catalogue_announce_removal(catalogue);
    tdg__entry_unref(entry);
    return rv;
}

/* A reader that sees the announcement sees the removal, too: counted first, and read
 * last. */
void tdg__catalogue_announce_removal(tdg__catalogue_t *catalogue) {
    atomic_fetch_add(&catalogue->announced_removals, 1);
    announce(catalogue);
}

tdg__announced_t tdg__catalogue_announced(tdg__catalogue_t *catalogue) {
    tdg__announced_t announced;

    announced.all = atomic_load(&catalogue->announced);
    announced.removals = atomic_load(&catalogue->announced_removals);
    return announced;
}

unsigned tdg__catalogue_removals(tdg__catalogue_t *catalogue) {
    return atomic_load(&catalogue->removals);
}

/* ---- Looking up --------------------------------------------------------- */

tdg__entry_t *tdg__catalogue_find_slice(tdg__catalogue_t *catalogue, tdg__kind_t kind,
                                        const char *key, size_t len) {
    char braces[TDG__ENTRY_MAX_KEY * 3];
    size_t braces_len = len;
    tdg__entry_t *entry;

    if (kind == TDG__TEMPLATE && len <= sizeof(braces))
        braces_len = tdg__template_unescape(key, len, braces);

    pthread_mutex_lock(&catalogue->lock);
    entry = find(catalogue, kind, key, len);
    if (entry == NULL && braces_len < len)
        entry = find(catalogue, kind, braces, braces_len);
    if (entry != NULL)
        tdg__entry_ref(entry);
    pthread_mutex_unlock(&catalogue->lock);
    return entry;
}

tdg__entry_t *tdg__catalogue_find(tdg__catalogue_t *catalogue, tdg__kind_t kind,
                                  const char *key) {
    return tdg__catalogue_find_slice(catalogue, kind, key, strlen(key));
}

int tdg__catalogue_match(tdg__catalogue_t *catalogue, const char *uri,
                         tdg__entry_t **ret) {
    tdg__entry_t *entry;

    pthread_mutex_lock(&catalogue->lock);
    entry = match(catalogue, uri, strlen(uri));
    if (entry != NULL)
        *ret = tdg__entry_ref(entry);
    pthread_mutex_unlock(&catalogue->lock);
    return entry != NULL ? 0 : TDG_ENOTFOUND;
}

static int may_watch(const tdg__entry_t *entry) {
    if (entry == NULL)
        return TDG_ENOTFOUND;
    return entry->not_subscribable ? TDG_ENOTSUP : 0;
}

int tdg__catalogue_may_watch(tdg__catalogue_t *catalogue, const char *uri) {
    size_t len = strlen(uri);
    tdg__entry_t *entry;
    int rv;

    pthread_mutex_lock(&catalogue->lock);
    entry = find(catalogue, TDG__RESOURCE, uri, len);
    if (entry == NULL)
        entry = match(catalogue, uri, len);
    rv = may_watch(entry);
    pthread_mutex_unlock(&catalogue->lock);
    return rv;
}

int tdg__catalogue_may_watch_template(tdg__catalogue_t *catalogue, const char *text) {
    tdg__entry_t *entry = tdg__catalogue_find(catalogue, TDG__TEMPLATE, text);
    int rv = may_watch(entry);

    tdg__entry_unref(entry);
    return rv;
}

size_t tdg__catalogue_count(tdg__catalogue_t *catalogue, tdg__kind_t kind) {
    size_t count;

    pthread_mutex_lock(&catalogue->lock);
    count = catalogue->lists[kind].slots.count;
    pthread_mutex_unlock(&catalogue->lock);
    return count;
}

bool tdg__catalogue_ever_had(tdg__catalogue_t *catalogue, tdg__kind_t kind) {
    bool ever;

    pthread_mutex_lock(&catalogue->lock);
    ever = catalogue->ever_had[kind];
    pthread_mutex_unlock(&catalogue->lock);
    return ever;
}

bool tdg__catalogue_completes(tdg__catalogue_t *catalogue) {
    bool completes;

    pthread_mutex_lock(&catalogue->lock);
    completes = catalogue->completing > 0;
    pthread_mutex_unlock(&catalogue->lock);
    return completes;
}
