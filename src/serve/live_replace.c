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

static struct slot *find_same(tdg__live_t *live, const char *identity) {
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        if (!slot->stays && strcmp(slot->identity, identity) == 0)
            return slot;
    return NULL;
}

/* Makes a slot for each entry; those that stay are marked and take NULL. */
static int make_slots(tdg__live_t *live, tdg__live_entry_t *entries, size_t count,
                      struct slot **slots) {
    for (size_t i = 0; i < count; i++) {
        struct slot *same = find_same(live, entries[i].identity);

        if (same != NULL) {
            same->stays = true;
            slots[i] = same;
            continue;
        }
        slots[i] = tdg__calloc(1, sizeof(*slots[i]));
        if (slots[i] == NULL)
            return TDG_ENOMEM;
        slots[i]->live = live;
        slots[i]->listing = tdg__listing_create(live);
        if (slots[i]->listing == NULL)
            return TDG_ENOMEM;
    }
    return 0;
}

static void undo_slots(tdg__live_t *live, struct slot **slots, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (slots[i] == NULL || slots[i]->stays)
            continue;
        tdg__listing_unref(slots[i]->listing);
        tdg__free(slots[i]);
    }
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        slot->stays = false;
}

/* Nobody has it any more. What is listed is told as deleted when it leaves the list; this
 * is for what a template stood for. */
static void tell_gone(tdg__live_t *live, const tdg__source_t *before, const char *uri) {
    tdg__entry_t *entry =
        tdg__catalogue_find(tdg__server_catalogue(live->server), TDG__RESOURCE, uri);

    if (entry == NULL && tdg_server_notify_deleted(live->server, uri, NULL) < 0)
        tdg__live_log(live, before, TDG_LOG_ERROR, "that it is gone could not be told");
    tdg__entry_unref(entry);
}

/* Lets what is watched move to whoever has it now, with the checksum of what was told.
 * Where that was nothing, all that is found is news. */
static void move_watch(tdg__live_t *live, tdg__wanted_t *watch) {
    struct slot *slot = tdg__live_slot_of(live, watch->target);
    tdg__source_t *before = watch->source;
    const char *checksum;
    char told[TDG__CHECKSUM + 1] = "";

    if ((slot != NULL ? slot->source : NULL) == before)
        return;
    if (before != NULL) {
        bool is_template = watch->target->kind == TDG_TARGET_TEMPLATE;

        checksum = is_template ? NULL : tdg__source_checksum(before, watch->target->name);
        if (checksum != NULL)
            memcpy(told, checksum, sizeof(told));
        if (slot == NULL || !is_template)
            tdg__source_unwatch(before, watch->target);
        if (slot == NULL && told[0] != '\0')
            tell_gone(live, before, watch->target->name);
    }
    tdg__live_begin_watch(live, watch, watch->answered ? told : NULL);
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

/* What was pushed to a source that leaves is nowhere else. */
static void adopt(tdg__live_t *live, struct slot *leaving) {
    const tdg__source_t *from = leaving->source;

    if ((from->kind->flags & TDG__SOURCE_PUSHED) == 0 || from->entry.uri == NULL)
        return;
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        if (slot->source->kind == from->kind && slot->source->entry.uri != NULL &&
            strcmp(slot->source->entry.uri, from->entry.uri) == 0)
            tdg__source_adopt(slot->source, leaving->source);
}

/* Takes over the new list: opens what is new, moves what is watched, closes what is not
 * in it any more. */
static void take_over(tdg__live_t *live, tdg__live_entry_t *entries, struct slot **slots,
                      size_t count) {
    struct slot *old = live->slots, *failed = NULL, **last = &live->slots;

    for (struct slot **at = &old; *at != NULL;) /* what stays is taken out of it */
        if ((*at)->stays)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    live->slots = NULL;
    live->waits_for_ready = false; /* some are ready at once; that is for later */
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = slots[i];
        bool works = true;

        slot->is_new = !slot->stays;
        if (slot->stays) {
            destroy_entry(&entries[i]);
        } else {
            slot->source = entries[i].source;
            slot->identity = entries[i].identity;
            works = tdg__slot_enter(slot);
        }
        slot->stays = false;
        slot->next = NULL;
        if (works) {
            *last = slot;
            last = &slot->next;
        } else {
            slot->next = failed;
            failed = slot;
        }
    }
    for (struct slot *list = old; list != NULL; list = list->next)
        adopt(live, list);
    move_watches(live);
    tdg__slots_leave(live->retiring); /* of a reload before */
    live->retiring = NULL;
    for (struct slot *slot = old, *next; slot != NULL; slot = next) {
        next = slot->next;
        if (tdg__slot_has_to_stay(live, slot)) {
            slot->next = live->retiring;
            live->retiring = slot;
        } else {
            tdg__slot_leave(slot);
        }
    }
    tdg__slots_leave(failed);
    live->waits_for_ready = true;
    tdg__live_check_ready(live);
    tdg__live_check_retiring(live);
}

int tdg__live_replace(tdg__live_t *live, tdg__live_entry_t *entries, size_t count) {
    struct slot **slots = tdg__calloc(count + 1, sizeof(*slots));

    int rv = slots != NULL ? make_slots(live, entries, count, slots) : TDG_ENOMEM;
    if (rv == 0) {
        take_over(live, entries, slots, count);
    } else {
        if (slots != NULL)
            undo_slots(live, slots, count);
        for (size_t i = 0; i < count; i++)
            destroy_entry(&entries[i]);
    }
    tdg__free(slots);
    return rv;
}

void tdg__live_each(tdg__live_t *live, void (*visit)(void *arg, tdg__source_t *source),
                    void *arg) {
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        visit(arg, slot->source);
}
