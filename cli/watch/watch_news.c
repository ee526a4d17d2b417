/* SPDX-License-Identifier: MIT
 *
 * Filters changes while the list of resources is followed. The server notifies of the
 * list and of its resources independently, in any order: a new resource may be updated
 * before it is known to be listed, and a deleted one also leaves the list. A server may
 * also count a resource as changed only because it starts to watch it. Each change is
 * shown once. */
#include "watch/watch.h"

#include "base/hash.h"

/* Resources of each kind that are remembered. A server may notify of any number of them
 * below one that it lists; those beyond are shown as if nothing were known. */
enum { MAX_NOTED = 200000 };

/* Notes it, `value` stolen, where there is room. Returns whether it is noted. */
static bool note(json_t *notes, const char *uri, json_t *value) {
    if (json_object_size(notes) >= MAX_NOTED) {
        json_decref(value);
        return false;
    }
    return json_object_set_new(notes, uri, value) == 0;
}

static json_int_t hash_of(const watch_t *watch, const json_t *contents) {
    body_t body;

    body_init(&body, contents);
    uint64_t hash = tdg__hash(&watch->exec.queue.key, body.data, body.len);
    body_done(&body);
    return (json_int_t)(hash >> 1);
}

static void remember_content(watch_t *watch, const watch_item_t *item) {
    if (item->event->contents != NULL)
        note(watch->hashes, item->event->uri,
             json_integer(hash_of(watch, item->event->contents)));
}

/* Whether it is what was shown when it was new. Asked once. */
static bool is_as_listed(watch_t *watch, const watch_item_t *item) {
    const json_t *hash = json_object_get(watch->hashes, item->event->uri);
    bool same = hash != NULL && item->event->contents != NULL &&
                json_integer_value(hash) == hash_of(watch, item->event->contents);

    json_object_del(watch->hashes, item->event->uri);
    return same;
}

/* New in the list, by whichever way we hear of it first. */
static bool is_listed_news(watch_t *watch, watch_item_t *item) {
    json_object_del(watch->deleted, item->event->uri);
    if (json_object_get(watch->listed, item->event->uri) != NULL)
        return item->kind == WATCH_UPDATED && !is_as_listed(watch, item);
    if (note(watch->listed, item->event->uri, json_true())) {
        item->kind = WATCH_LISTED;
        remember_content(watch, item);
    }
    return true;
}

bool watch_is_news(watch_t *watch, watch_item_t *item) {
    if (watch->uri_count > 0 || item->event->uri == NULL)
        return true;
    switch (item->kind) {
    case WATCH_UPDATED:
    case WATCH_LISTED:
        return is_listed_news(watch, item);
    case WATCH_DELETED:
        json_object_del(watch->hashes, item->event->uri);
        note(watch->deleted, item->event->uri, json_true());
        return true;
    case WATCH_UNLISTED:
        json_object_del(watch->hashes, item->event->uri);
        json_object_del(watch->listed, item->event->uri);
        if (json_object_del(watch->deleted, item->event->uri) < 0)
            return true;
        watch_forget_base(watch, item->event->uri);
        return false;
    default:
        return true;
    }
}
