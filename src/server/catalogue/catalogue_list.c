/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/text.h"
#include "server/catalogue/catalogue_internal.h"

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
    listed = tdg__catalogue_find_slice(catalogue, TDG__TEMPLATE, template_->name,
                                       template_->len);
    if (listed == NULL)
        rv = tdg__template_parse(template_->name, template_->len, &parsed, NULL);
    if (rv == 0)
        visit_all(catalogue, TDG__RESOURCE, listed != NULL ? listed->parsed : parsed,
                  visit_uri, &uri);

    tdg__template_destroy(parsed);
    tdg__entry_unref(listed);
    return rv;
}
