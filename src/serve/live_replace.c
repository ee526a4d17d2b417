/* SPDX-License-Identifier: MIT */
#include "serve/live_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "server/worker.h"
#include "source/checksum.h"

static void put_node(tdg__text_t *text, const tdg__node_t *node) {
    if (node->kind == TDG__NODE_SCALAR) {
        tdg__text_put(text, node->plain ? "p" : "q");
        tdg__text_put_quoted(text, node->text, strlen(node->text));
        return;
    }
    tdg__text_put(text, node->kind == TDG__NODE_MAP ? "{" : "[");
    for (const tdg__node_t *child = node->first; child != NULL; child = child->next) {
        if (child->key != NULL)
            tdg__text_put_quoted(text, child->key, strlen(child->key));
        put_node(text, child);
    }
    tdg__text_put(text, "}");
}

char *tdg__live_identity(const tdg__node_t *entry) {
    tdg__text_t text;

    tdg__text_init(&text, SIZE_MAX);
    put_node(&text, entry); /* as deep as the reader of the file allows */
    if (text.error == 0)
        return text.data;
    tdg__text_done(&text);
    return NULL;
}

static void destroy_entry(tdg__live_entry_t *entry) {
    tdg__free(entry->identity);
    tdg__source_destroy(entry->source);
}

void tdg__live_free_entries(tdg__live_entry_t *entries, size_t count) {
    for (size_t i = 0; i < count; i++)
        destroy_entry(&entries[i]);
    tdg__free(entries);
}

/* ---- A new list, beside the old one ------------------------------------- */

struct plan {
    tdg__live_entry_t *entries;
    struct slot **slots; /* of the entries; new ones have no source yet */
    size_t count;
    tdg__roster_t *roster;
};

static struct slot *slot_of(const tdg__source_t *source) {
    return source->host.user;
}

/* A served slot whose entry says the same. One URI is one entry, so that is the one with
 * this URI; the few kinds that have none are never the same. */
static struct slot *find_same(tdg__live_t *live, const tdg__live_entry_t *entry) {
    const char *uri = entry->source->entry.uri;
    tdg__source_t *named = uri != NULL ? tdg__roster_named(live->roster, uri) : NULL;
    struct slot *slot = named != NULL ? slot_of(named) : NULL;

    return slot != NULL && !slot->stays && strcmp(slot->identity, entry->identity) == 0
               ? slot
               : NULL;
}

static int make_slot(tdg__live_t *live, const tdg__live_entry_t *entry,
                     struct slot **ret) {
    struct slot *same = find_same(live, entry);

    if (same != NULL) {
        same->stays = true;
        *ret = same;
        return 0;
    }
    *ret = tdg__calloc(1, sizeof(**ret));
    if (*ret == NULL)
        return TDG_ENOMEM;
    (*ret)->live = live;
    (*ret)->listing = tdg__listing_create(live);
    if ((*ret)->listing == NULL)
        return TDG_ENOMEM;
    return live->ops.prepare(live->user, entry->source, &(*ret)->prepared);
}

static void forget(tdg__live_t *live, struct plan *plan) {
    for (size_t i = 0; plan->slots != NULL && i < plan->count; i++) {
        if (plan->slots[i] == NULL || plan->slots[i]->stays)
            continue;
        live->ops.abandoned(live->user, plan->slots[i]->prepared);
        tdg__listing_unref(plan->slots[i]->listing);
        tdg__free(plan->slots[i]);
    }
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        slot->stays = false;
    for (size_t i = 0; i < plan->count; i++)
        destroy_entry(&plan->entries[i]);
    tdg__roster_destroy(plan->roster);
    tdg__free(plan->slots);
}

/* Everything that may fail for want of memory. */
static int prepare(tdg__live_t *live, struct plan *plan) {
    int rv = 0;

    plan->slots = tdg__calloc(plan->count + 1, sizeof(*plan->slots));
    plan->roster = tdg__roster_create(plan->count);
    if (plan->slots == NULL || plan->roster == NULL)
        return TDG_ENOMEM;
    for (size_t i = 0; i < plan->count && rv == 0; i++) {
        rv = make_slot(live, &plan->entries[i], &plan->slots[i]);
        if (rv == 0)
            rv = tdg__roster_add(plan->roster, plan->slots[i]->stays
                                                   ? plan->slots[i]->source
                                                   : plan->entries[i].source);
    }
    return rv;
}

/* ---- What is watched moves ---------------------------------------------- */

static void pass_on(void *arg, const char *uri) {
    tdg__live_pass_on(arg, uri);
}

/* Nobody has it any more: not the template, that is; of its URIs somebody may. */
static void pass_on_all(tdg__live_t *live, tdg__source_t *before,
                        const tdg_target_t *target) {
    if (target->kind == TDG_TARGET_TEMPLATE)
        tdg__source_each(before, pass_on, live);
    else if (tdg__source_may_have(before, target->name))
        tdg__live_pass_on(live, target->name);
}

static void move_watch(tdg__live_t *live, tdg__wanted_t *watch) {
    tdg__source_t *before = watch->source;
    tdg__source_t *now = tdg__live_watcher_of(live, watch->target);

    if (watch->again) { /* memory was missing for the last move */
        tdg__live_begin_again(live, watch);
        return;
    }
    if (now == before)
        return;
    if (!watch->answered) { /* nobody is subscribed yet: there is no past */
        tdg__source_unwatch(before, watch->target);
        tdg__live_begin_watch(live, watch, NULL);
        return; /* it may be gone */
    }
    tdg__live_begin_watch(live, watch, &(tdg__past_t){.source = before});
    if (before == NULL)
        return;
    if (now == NULL)
        pass_on_all(live, before, watch->target);
    tdg__source_unwatch(before, watch->target);
}

/* Begins anew, so that all are asked once, whoever has not answered yet. */
static void move_lists(tdg__live_t *live, tdg__wanted_t *watch) {
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        if (!slot->is_new && (slot->source->kind->flags & TDG__SOURCE_LISTS) != 0)
            tdg__source_unwatch(slot->source, watch->target);
    tdg__live_watch_lists(live, watch);
}

static void move_watches(tdg__live_t *live) {
    tdg__wanted_t *watch = tdg__wanted_next(&live->watches, 0);

    while (watch != NULL) {
        uint32_t id = watch->id;

        if (watch->target->kind == TDG_TARGET_LIST)
            move_lists(live, watch);
        else
            move_watch(live, watch);
        watch = tdg__wanted_next(&live->watches, id);
    }
}

/* ---- Replacing ---------------------------------------------------------- */

/* A source that goes on with the list of the one before it has what that one listed. */
static void succeed(struct slot *slot, tdg__source_t *before) {
    tdg__listing_t *listing = slot->listing;

    if (before == NULL || slot_of(before)->stays ||
        !tdg__source_succeeds(slot->source, before))
        return;
    slot->before = slot_of(before);
    if (slot->source->template_ != NULL && slot->source->kind->inherit != NULL) {
        slot->listing = slot->before->listing;
        slot->before->listing = listing;
    }
}

/* Returns false where it cannot work. */
static bool enter(struct slot *slot, const tdg__live_entry_t *entry,
                  const tdg__roster_t *roster_before) {
    const char *uri = entry->source->entry.uri;

    slot->source = entry->source;
    slot->identity = entry->identity;
    slot->is_new = true;
    if (uri != NULL)
        succeed(slot, tdg__roster_named(roster_before, uri));
    return tdg__slot_enter(slot);
}

static void inherit(tdg__live_t *live) {
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next) {
        if (slot->before != NULL)
            tdg__source_inherit(slot->source, slot->before->source);
        slot->before = NULL;
    }
}

/* Takes over the new list: opens what is new, moves what is watched, closes what is not
 * in it any more. */
static void take_over(tdg__live_t *live, const struct plan *plan) {
    struct slot *old = live->slots, *failed = NULL, **last = &live->slots;
    tdg__roster_t *roster_before = live->roster;

    for (struct slot **at = &old; *at != NULL;) /* what stays is taken out of it */
        if ((*at)->stays)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    live->slots = NULL;
    live->roster = plan->roster;
    live->waits_for_ready = false; /* some are ready at once; that is for later */
    for (size_t i = 0; i < plan->count; i++) {
        struct slot *slot = plan->slots[i];
        bool works = true;

        slot->is_new = false;
        if (slot->stays)
            destroy_entry(&plan->entries[i]);
        else
            works = enter(slot, &plan->entries[i], roster_before);
        slot->next = NULL;
        if (works) {
            *last = slot;
            last = &slot->next;
        } else { /* it is freed as soon as it is closed */
            tdg__roster_remove(live->roster, slot->source);
            slot->next = failed;
            failed = slot;
        }
    }
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        slot->stays = false;
    tdg__slots_leave(failed);
    live->overlaps =
        tdg__roster_overlaps(roster_before) || tdg__roster_overlaps(live->roster);
    inherit(live);
    move_watches(live);
    tdg__slots_leave(old);
    tdg__roster_destroy(roster_before);
    live->waits_for_ready = true;
    live->has_outdated = live->has_outdated || live->overlaps;
    tdg__live_check_ready(live);
    /* Not only once all are ready: one may never be. */
    tdg__live_drop_outdated(live);
}

int tdg__live_replace(tdg__live_t *live, tdg__live_entry_t *entries, size_t count) {
    struct plan plan = {.entries = entries, .count = count};

    int rv = prepare(live, &plan);
    if (rv < 0) {
        forget(live, &plan);
        return rv;
    }
    take_over(live, &plan);
    tdg__free(plan.slots);
    return 0;
}

void tdg__live_each(tdg__live_t *live, void (*visit)(void *arg, tdg__source_t *source),
                    void *arg) {
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        visit(arg, slot->source);
}
