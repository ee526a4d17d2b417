/* SPDX-License-Identifier: MIT */
#include "watch/watch.h"

#include "base/alloc.h"
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
    *item = (watch_item_t){kinds[event->kind], event->merged, event, false};
    return item;
}

watch_item_t *watch_item_found(watch_kind_t kind, tdg_list_kind_t list, const char *uri,
                               json_t *contents) {
    tdg_event_t *event =
        tdg__event_create(TDG_EVENT_UPDATED, uri, NULL, contents, 0, NULL);
    watch_item_t *item = event != NULL ? watch_item_from(event) : NULL;

    json_decref(contents);
    if (item != NULL) {
        item->kind = kind;
        item->is_found = true;
        event->list = list;
    }
    return item;
}

void watch_item_free(watch_item_t *item) {
    if (item == NULL)
        return;
    tdg_event_free(item->event);
    tdg__free(item);
}
