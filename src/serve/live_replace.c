/* SPDX-License-Identifier: MIT */
#include "serve/live_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "server/context/context.h"
#include "source/common/checksum.h"

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

/* ---- The next set, beside this one --------------------------------------- */

struct plan {
    tdg__live_entry_t *entries;
    struct served **served; /* of the entries: PREPARED, or SERVING in both sets */
    size_t count;
    tdg__roster_t *roster;
};

static struct served *served_of(const tdg__source_t *source) {
    return source->host.user;
}

/* One that is served whose entry says the same. One URI is one entry, so that is the one
 * with this URI; the few kinds that have none are never the same. */
static struct served *find_same(tdg__live_t *live, const tdg__live_entry_t *entry) {
    const char *uri = entry->source->entry.uri;
    tdg__source_t *named = uri != NULL ? tdg__roster_named(live->roster, uri) : NULL;
    struct served *served = named != NULL ? served_of(named) : NULL;

    return served != NULL && served->last_set == live->set &&
                   strcmp(served->identity, entry->identity) == 0
               ? served
               : NULL;
}

static int prepare_one(tdg__live_t *live, const tdg__live_entry_t *entry,
                       struct served **ret) {
    struct served *same = find_same(live, entry);

    if (same != NULL) {
        same->last_set = live->set + 1;
        *ret = same;
        return 0;
    }
    *ret = tdg__calloc(1, sizeof(**ret));
    if (*ret == NULL)
        return TDG_ENOMEM;
    (*ret)->live = live;
    (*ret)->first_set = (*ret)->last_set = live->set + 1;
    (*ret)->listing = tdg__listing_create(live);
    if ((*ret)->listing == NULL)
        return TDG_ENOMEM;
    return tdg__hooks_prepare(live, entry->source, &(*ret)->endpoint);
}

static void forget_one(struct served *served) {
    tdg__live_t *live = served->live;

    if (served->state == SERVING) {
        served->last_set = live->set;
        return;
    }
    tdg__route_abandon(served->endpoint);
    tdg__listing_unref(served->listing);
    tdg__free(served);
}

static void forget(struct plan *plan) {
    for (size_t i = 0; plan->served != NULL && i < plan->count; i++)
        if (plan->served[i] != NULL)
            forget_one(plan->served[i]);
    for (size_t i = 0; i < plan->count; i++)
        destroy_entry(&plan->entries[i]);
    tdg__roster_destroy(plan->roster);
    tdg__free(plan->served);
}

/* Everything that may fail for want of memory. */
static int prepare(tdg__live_t *live, struct plan *plan) {
    int rv = 0;

    plan->served = tdg__calloc(plan->count + 1, sizeof(*plan->served));
    plan->roster = tdg__roster_create(plan->count);
    if (plan->served == NULL || plan->roster == NULL)
        return TDG_ENOMEM;
    for (size_t i = 0; i < plan->count && rv == 0; i++) {
        rv = prepare_one(live, &plan->entries[i], &plan->served[i]);
        if (rv == 0)
            rv = tdg__roster_add(plan->roster, plan->served[i]->state == SERVING
                                                   ? plan->served[i]->source
                                                   : plan->entries[i].source);
    }
    return rv;
}

/* ---- What is watched moves ---------------------------------------------- */

static void pass_on(void *arg, const char *uri) {
    tdg__live_pass_on(arg, uri);
}

/* No source has the target any more; of a template, others may have some of its URIs. */
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

    if (watch->state == TDG__WANTED_OWED) { /* since the last move */
        watch->tries = 0;
        tdg__live_begin_again(live, watch);
        return;
    }
    if (now == before)
        return;
    if (watch->state ==
        TDG__WANTED_ASKED) { /* there are no subscribers yet, so there is no past */
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

/* Begins again, so that each source is asked once, also those that have not answered. */
static void move_lists(tdg__live_t *live, tdg__wanted_t *watch) {
    tdg__live_unwatch_lists(live, watch->target);
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

static bool is_in_this_set(const struct served *served) {
    return served->last_set == served->live->set;
}

/* A source that goes on with the list of the one before it has what that one listed. */
static void succeed(struct served *served, tdg__source_t *before) {
    tdg__listing_t *listing = served->listing;

    if (before == NULL || is_in_this_set(served_of(before)) ||
        !tdg__source_succeeds(served->source, before))
        return;
    served->before = served_of(before);
    if (served->source->template_ != NULL && served->source->kind->inherit != NULL) {
        served->listing = served->before->listing;
        served->before->listing = listing;
    }
}

/* Returns false where it cannot work. */
static bool enter(struct served *served, const tdg__live_entry_t *entry,
                  const tdg__roster_t *roster_before) {
    const char *uri = entry->source->entry.uri;

    served->source = entry->source;
    served->identity = entry->identity;
    if (uri != NULL)
        succeed(served, tdg__roster_named(roster_before, uri));
    return tdg__served_enter(served);
}

/* Opens what is new in the set, which replaces the one before it. */
static void enter_all(tdg__live_t *live, const struct plan *plan,
                      const tdg__roster_t *roster_before) {
    live->set++;
    live->served = plan->served;
    live->count = 0;
    live->roster = plan->roster;
    live->waits_for_ready = false; /* some are ready at once; that is for later */
    for (size_t i = 0; i < plan->count; i++) {
        struct served *served = plan->served[i];

        if (served->state == SERVING) {
            destroy_entry(&plan->entries[i]);
        } else if (!enter(served, &plan->entries[i], roster_before)) {
            tdg__roster_remove(live->roster, served->source);
            tdg__served_leave(served);
            continue;
        }
        live->served[live->count++] = served;
    }
}

static void inherit_all(tdg__live_t *live) {
    for (size_t i = 0; i < live->count; i++) {
        struct served *served = live->served[i];

        if (served->before != NULL)
            tdg__source_inherit(served->source, served->before->source);
        served->before = NULL;
    }
}

/* Takes over the next set: opens what is new, moves what is watched, closes what is not
 * in it any more. */
static void take_over(tdg__live_t *live, const struct plan *plan) {
    struct served **served_before = live->served;
    size_t count_before = live->count;
    tdg__roster_t *roster_before = live->roster;

    enter_all(live, plan, roster_before);
    live->overlaps =
        tdg__roster_overlaps(roster_before) || tdg__roster_overlaps(live->roster);
    inherit_all(live);
    move_watches(live);
    for (size_t i = 0; i < count_before; i++)
        if (!is_in_this_set(served_before[i]))
            tdg__served_leave(served_before[i]);
    tdg__free(served_before);
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
    if (rv < 0)
        forget(&plan);
    else
        take_over(live, &plan);
    return rv;
}

void tdg__live_each(tdg__live_t *live, void (*visit)(void *arg, tdg__source_t *source),
                    void *arg) {
    for (size_t i = 0; i < live->count; i++)
        visit(arg, live->served[i]->source);
}
