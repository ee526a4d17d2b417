/* SPDX-License-Identifier: MIT */
#include "server/catalogue/catalogue.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/template_index.h"
#include "base/text.h"
#include "server/catalogue/entry_list.h"

struct tdg__catalogue {
    tdg__hash_key_t key; /* never changes, like the next two */
    void (*taken_back)(void *user);
    void *user;

    atomic_uint announced;                    /* how often; counted round */
    atomic_uint removals, announced_removals; /* that take something back */

    pthread_mutex_t lock; /* for all that follows */
    tdg__entry_list_t lists[TDG__KIND_COUNT];
    tdg__template_index_t *templates; /* slots of their list */
    size_t completing;                /* entries that complete arguments */
    size_t closed_templates;          /* that are not subscribable */
    bool ever_had[TDG__KIND_COUNT];   /* at least one was added at some time */
};

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

/* As tdg__catalogue_find(), for text that need not end in NUL. */
static tdg__entry_t *find_slice(tdg__catalogue_t *catalogue, tdg__kind_t kind,
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
    return find_slice(catalogue, kind, key, strlen(key));
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

/* ---- Pages -------------------------------------------------------------- */

/* A cursor is the sequence number that the page ended with, and a seal: a hash under the
 * key of this catalogue. So one from another list, another server or another start of
 * this one is none, and nobody makes one up. */
enum { MAX_CURSOR = TDG__U64_HEX + 1 + TDG__U64_HEX };

static void put_cursor(const tdg__catalogue_t *catalogue, tdg__kind_t kind,
                       uint64_t sequence, char out[MAX_CURSOR + 1]) {
    const uint64_t sealed[] = {(uint64_t)kind, sequence};
    size_t len = tdg__u64_hex(out, sequence);

    out[len++] = '.';
    len += tdg__u64_hex(out + len, tdg__hash(&catalogue->key, sealed, sizeof(sealed)));
    out[len] = '\0';
}

/* A text is a cursor if it is what we would write for the number that it begins with. */
static int read_cursor(const tdg__catalogue_t *catalogue, tdg__kind_t kind,
                       const char *text, uint64_t *ret_sequence) {
    char expected[MAX_CURSOR + 1];
    uint64_t sequence = 0;

    for (const char *at = text; *at != '.'; at++) {
        unsigned digit = *at >= '0' && *at <= '9'   ? (unsigned)(*at - '0')
                         : *at >= 'a' && *at <= 'f' ? (unsigned)(*at - 'a') + 10
                                                    : 16;

        if (digit == 16 || at - text == TDG__U64_HEX)
            return TDG_EINVAL;
        sequence = sequence << 4 | digit;
    }

    put_cursor(catalogue, kind, sequence, expected);
    if (strcmp(text, expected) != 0)
        return TDG_EINVAL;
    *ret_sequence = sequence;
    return 0;
}

/* Appends definitions behind `*at`, and moves that on. Returns whether more follow, or
 * TDG_ENOMEM. With the lock. */
static int fill(const tdg__entry_list_t *list, uint64_t *at, size_t max, json_t *items) {
    uint32_t id = tdg__entry_list_after(list, *at);

    for (; id != 0 && max > 0; id = tdg__entry_list_next(list, id), max--) {
        const tdg__entry_slot_t *slot = tdg__entry_list_at(list, id);

        if (json_array_append(items, slot->entry->definition) < 0)
            return TDG_ENOMEM;
        *at = slot->sequence;
    }
    return id != 0;
}

int tdg__catalogue_page(tdg__catalogue_t *catalogue, tdg__kind_t kind, const char *cursor,
                        size_t max, json_t **ret_items, json_t **ret_next) {
    char next_text[MAX_CURSOR + 1];
    json_t *items, *next = NULL;
    uint64_t at = 0;
    int more;

    assert(max > 0);
    if (cursor != NULL && read_cursor(catalogue, kind, cursor, &at) < 0)
        return TDG_EINVAL;

    items = json_array();
    if (items == NULL)
        return TDG_ENOMEM;

    pthread_mutex_lock(&catalogue->lock);
    more = fill(&catalogue->lists[kind], &at, max, items);
    pthread_mutex_unlock(&catalogue->lock);

    if (more > 0) {
        put_cursor(catalogue, kind, at, next_text);
        next = json_string(next_text);
    }
    if (more < 0 || (more > 0 && next == NULL)) {
        json_decref(items);
        return TDG_ENOMEM;
    }

    *ret_items = items;
    *ret_next = next;
    return 0;
}

/* ---- Visits ------------------------------------------------------------- */

/* How many entries are looked at, and how many are handed over, in one go with the lock.
 */
enum { LOOKED_AT = 256, HANDED_OVER = 64 };

struct batch {
    uint64_t at; /* sequence of the last entry that was looked at */
    bool more;
    size_t count;
    tdg__entry_t *entries[HANDED_OVER];
};

/* `only` NULL: all. */
static void next_batch(tdg__catalogue_t *catalogue, tdg__kind_t kind,
                       const tdg__template_t *only, struct batch *batch) {
    const tdg__entry_list_t *list = &catalogue->lists[kind];
    uint32_t id;

    batch->count = 0;
    pthread_mutex_lock(&catalogue->lock);
    id = tdg__entry_list_after(list, batch->at);
    for (size_t i = 0; id != 0 && i < LOOKED_AT && batch->count < HANDED_OVER; i++) {
        const tdg__entry_slot_t *slot = tdg__entry_list_at(list, id);
        tdg__entry_t *entry = slot->entry;

        if (only == NULL || tdg__template_match(only, entry->key, entry->len))
            batch->entries[batch->count++] = tdg__entry_ref(entry);
        batch->at = slot->sequence;
        id = tdg__entry_list_next(list, id);
    }
    batch->more = id != 0;
    pthread_mutex_unlock(&catalogue->lock);
}

static void visit_all(tdg__catalogue_t *catalogue, tdg__kind_t kind,
                      const tdg__template_t *only, tdg__entry_visit_fn visit, void *arg) {
    struct batch batch = {.more = true};
    bool go_on = true;

    while (batch.more && go_on) {
        next_batch(catalogue, kind, only, &batch);
        for (size_t i = 0; i < batch.count; i++) {
            go_on = go_on && visit(arg, batch.entries[i]);
            tdg__entry_unref(batch.entries[i]);
        }
    }
}

void tdg__catalogue_each(tdg__catalogue_t *catalogue, tdg__kind_t kind,
                         tdg__entry_visit_fn visit, void *arg) {
    visit_all(catalogue, kind, NULL, visit, arg);
}

struct uri_visit {
    bool (*visit)(void *arg, const tdg__target_t *uri);
    void *arg;
};

static bool visit_uri(void *arg, tdg__entry_t *entry) {
    const struct uri_visit *uri = arg;
    const tdg__target_t target = {TDG__TARGET_URI, entry->key, entry->len};

    return uri->visit(uri->arg, &target);
}

int tdg__catalogue_list_matches(tdg__catalogue_t *catalogue,
                                const tdg__target_t *template_,
                                bool (*visit)(void *arg, const tdg__target_t *uri),
                                void *arg) {
    struct uri_visit uri = {visit, arg};
    tdg__template_t *parsed = NULL;
    tdg__entry_t *listed;
    int rv = 0;

    /* A listed one is parsed already, so memory cannot run out. */
    listed = find_slice(catalogue, TDG__TEMPLATE, template_->name, template_->len);
    if (listed == NULL)
        rv = tdg__template_parse(template_->name, template_->len, &parsed, NULL);
    if (rv == 0)
        visit_all(catalogue, TDG__RESOURCE, listed != NULL ? listed->parsed : parsed,
                  visit_uri, &uri);

    tdg__template_destroy(parsed);
    tdg__entry_unref(listed);
    return rv;
}
