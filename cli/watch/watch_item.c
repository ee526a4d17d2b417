/* SPDX-License-Identifier: MIT */
#include "watch/watch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/session/event.h"

static const char *const kind_names[] = {
    [WATCH_UPDATED] = "updated",   [WATCH_DELETED] = "deleted",
    [WATCH_LISTED] = "listed",     [WATCH_UNLISTED] = "unlisted",
    [WATCH_LIST_CHANGED] = "list", [WATCH_LOST] = "lost",
    [WATCH_DOWN] = "down",         [WATCH_UP] = "up",
    [WATCH_CLOSED] = "closed",     [WATCH_MESSAGE] = "message",
};

static const watch_kind_t kinds[] = {
    [TDG_EVENT_UPDATED] = WATCH_UPDATED, [TDG_EVENT_DELETED] = WATCH_DELETED,
    [TDG_EVENT_LOST] = WATCH_LOST,       [TDG_EVENT_LIST_CHANGED] = WATCH_LIST_CHANGED,
    [TDG_EVENT_DOWN] = WATCH_DOWN,       [TDG_EVENT_UP] = WATCH_UP,
    [TDG_EVENT_MESSAGE] = WATCH_MESSAGE, [TDG_EVENT_CLOSED] = WATCH_CLOSED,
};

const char *watch_kind_name(watch_kind_t kind) {
    return kind_names[kind];
}

const char *watch_list_name(tdg_list_kind_t list) {
    static const char *const names[] = {
        [TDG_LIST_RESOURCES] = "resources",
        [TDG_LIST_TEMPLATES] = "templates",
        [TDG_LIST_TOOLS] = "tools",
        [TDG_LIST_PROMPTS] = "prompts",
    };

    return names[list];
}

watch_item_t *watch_item_from(tdg_event_t *event) {
    watch_item_t *item = tdg__calloc(1, sizeof(*item));

    if (item == NULL) {
        tdg_event_free(event);
        return NULL;
    }
    item->kind = kinds[event->kind];
    item->merged = event->merged;
    item->facts = item->event = event;
    return item;
}

void watch_item_merge(watch_item_t *older, watch_item_t *newer) {
    /* what is found by following the list has no version to compare */
    if (older->event != NULL && newer->event != NULL)
        tdg__event_merge(older->event, newer->event);
}

watch_item_t *watch_item_found(watch_kind_t kind, tdg_list_kind_t list, const char *uri,
                               json_t *contents) {
    watch_item_t *item = tdg__calloc(1, sizeof(*item));
    char *own = tdg__strdup(uri);

    if (item == NULL || (uri != NULL && own == NULL)) {
        tdg__free(item);
        tdg__free(own);
        json_decref(contents);
        return NULL;
    }
    item->kind = kind;
    item->own = (tdg_event_t){
        .list = list, .uri = own, .at_ms = tdg__wall_ms(), .contents = contents};
    item->facts = &item->own;
    return item;
}

void watch_item_free(watch_item_t *item) {
    if (item == NULL)
        return;
    tdg_event_free(item->event);
    tdg__free((char *)(uintptr_t)item->own.uri);
    json_decref((json_t *)(uintptr_t)item->own.contents);
    tdg__free(item);
}

bool watch_item_is_change(const watch_item_t *item) {
    return item->kind <= WATCH_LIST_CHANGED;
}
