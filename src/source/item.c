/* SPDX-License-Identifier: MIT
 *
 *      touch, read, first watch              PARALLEL at a time
 *     IDLE ───────────────────▶ QUEUED ──────────────────────▶ FETCHING
 *      ▲                          ▲                              │
 *      │                          └── asked again meanwhile ─────┤
 *      └──────────────────── settled ────────────────────────────┘
 *
 * An item stays while it is watched, wanted by a reader, or has content: for a kind that
 * has it pushed, or in the cache for when the backend is away (stale.h). While the
 * source's template is watched, items that were told of are remembered, within a limit,
 * so that the next look at them can be compared. */
#include "source/item_internal.h"

#include <string.h>

#include "base/alloc.h"

bool tdg__source_is_pushed(const tdg__source_t *source) {
    return (source->kind->flags & TDG__SOURCE_PUSHED) != 0;
}

/* ---- Records ------------------------------------------------------------ */

static uint32_t hash_of(const struct tdg__items *items, const char *uri) {
    return (uint32_t)tdg__hash(&items->key, uri, strlen(uri));
}

static bool has_uri(const void *ctx, uint32_t id, const void *uri) {
    const tdg__item_t *item = tdg__pool_get(&((const struct tdg__items *)ctx)->pool, id);

    return strcmp(item->uri, uri) == 0;
}

tdg__item_t *tdg__item_find(const tdg__source_t *source, const char *uri) {
    const struct tdg__items *items = source->items;
    uint32_t id = tdg__map_find(&items->by_uri, hash_of(items, uri), has_uri, items, uri);

    return id != 0 ? tdg__pool_get(&items->pool, id) : NULL;
}

tdg__item_t *tdg__item_make(tdg__source_t *source, const char *uri) {
    struct tdg__items *items = source->items;
    tdg__item_t *item = tdg__item_find(source, uri);
    uint32_t id;

    if (item != NULL)
        return item;
    if (tdg__map_reserve(&items->by_uri) < 0)
        return NULL;
    item = tdg__pool_alloc(&items->pool, &id);
    if (item == NULL)
        return NULL;
    item->uri = tdg__strdup(uri);
    if (item->uri == NULL || tdg__heap_add(&items->timers, &item->timer, 0) < 0) {
        tdg__free(item->uri);
        tdg__pool_free(&items->pool, id);
        return NULL;
    }
    item->id = id;
    item->hash = hash_of(items, uri);
    item->source = source;
    tdg__map_insert(&items->by_uri, item->hash, id);
    return item;
}

/* ---- What is kept ------------------------------------------------------- */

static void cache_add(tdg__stale_t *stale, tdg__item_t *item) {
    item->older = stale->newest;
    item->newer = NULL;
    *(stale->newest != NULL ? &stale->newest->newer : &stale->oldest) = item;
    stale->newest = item;
    stale->bytes += item->kept.len;
    stale->count++;
}

static void cache_remove(tdg__stale_t *stale, tdg__item_t *item) {
    *(item->older != NULL ? &item->older->newer : &stale->oldest) = item->newer;
    *(item->newer != NULL ? &item->newer->older : &stale->newest) = item->older;
    item->older = item->newer = NULL;
    stale->bytes -= item->kept.len;
    stale->count--;
}

void tdg__item_forget_kept(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    if (item->kept.data == NULL)
        return;
    if (!tdg__source_is_pushed(item->source))
        cache_remove(items->stale, item);
    items->kept_bytes -= item->kept.len;
    items->kept_count--;
    tdg__kept_done(&item->kept);
}

bool tdg__item_may_keep(const tdg__item_t *item, size_t len) {
    size_t max_bytes = item->source->items->stale->max_bytes;

    return max_bytes > 0 && len <= max_bytes / TDG__STALE_PARTS;
}

void tdg__item_destroy(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    tdg__item_forget_kept(item);
    if (item->remembered) {
        tdg__list_remove(&items->by_use, &items->pool, LINK(by_use), item->id);
        items->remembered--;
    }
    tdg__heap_remove(&items->timers, &item->timer);
    tdg__map_remove(&items->by_uri, item->hash, item->id);
    tdg__free(item->uri);
    tdg__pool_free(&items->pool, item->id);
}

/* One that is touched is owed a look that it will not get: it counts as changed. */
static void forget_oldest(tdg__source_t *source) {
    struct tdg__items *items = source->items;
    tdg__item_t *item = tdg__pool_get(&items->pool, items->by_use.first);

    if (item->touched && !source->closing)
        source->host.ops->changed(source->host.user, source, item->uri, NULL);
    tdg__item_destroy(item);
}

/* Remembers an item that only a watched template is interested in; the oldest goes. */
static void remember(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    if (item->remembered)
        tdg__list_remove(&items->by_use, &items->pool, LINK(by_use), item->id);
    else
        items->remembered++;
    item->remembered = true;
    tdg__list_append(&items->by_use, &items->pool, LINK(by_use), item->id);
    if (items->remembered > REMEMBERED)
        forget_oldest(item->source);
}

void tdg__item_recall(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    if (!item->remembered)
        return;
    item->remembered = false;
    items->remembered--;
    tdg__list_remove(&items->by_use, &items->pool, LINK(by_use), item->id);
}

/* Nobody watches it: what it was compared with does not count any more. */
static void stop_observing(tdg__item_t *item) {
    item->seen = (struct seen){.known = UNKNOWN};
    item->touched = item->came = item->only_read = false;
    item->tries = 0;
}

void tdg__item_release(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;
    bool is_kept = item->kept.data != NULL;

    if (item->held > 0 || item->watched || item->state != IDLE ||
        item->next_readers != NULL || (tdg__source_is_pushed(item->source) && is_kept))
        return;
    if (items->template_watched && (item->seen.known != UNKNOWN || item->touched))
        remember(item);
    else if (is_kept)
        stop_observing(item);
    else
        tdg__item_destroy(item);
}

int tdg__kept_copy(const tdg__source_t *source, const tdg__content_t *content,
                   json_t *metadata, struct kept *ret) {
    const char *mime_type = tdg__item_mime(source, content);
    struct kept kept = {.bytes = content->bytes != NULL
                                     ? tdg__buf_ref(content->bytes)
                                     : tdg__buf_create(content->data, content->len),
                        .len = content->len,
                        .mime_type = tdg__strdup(mime_type),
                        .metadata = json_incref(metadata),
                        .updated_ms = content->updated_ms};

    if (kept.bytes == NULL || (mime_type != NULL && kept.mime_type == NULL)) {
        tdg__kept_done(&kept);
        return TDG_ENOMEM;
    }
    kept.data = kept.bytes->data;
    *ret = kept;
    return 0;
}

void tdg__kept_done(struct kept *kept) {
    tdg__buf_unref(kept->bytes);
    tdg__free(kept->mime_type);
    json_decref(kept->metadata);
    *kept = (struct kept){0};
}

/* What only the cache has goes with its content. */
static void make_room(tdg__stale_t *stale) {
    while (stale->bytes > stale->max_bytes || stale->count > TDG__STALE_COUNT) {
        tdg__item_t *item = stale->oldest;

        tdg__item_forget_kept(item);
        if (!item->remembered)
            tdg__item_release(item);
    }
}

void tdg__item_take_kept(tdg__item_t *item, struct kept *kept) {
    struct tdg__items *items = item->source->items;

    tdg__item_forget_kept(item);
    item->kept = *kept;
    *kept = (struct kept){0};
    items->kept_bytes += item->kept.len;
    items->kept_count++;
    if (tdg__source_is_pushed(item->source)) /* nobody else has it */
        return;
    cache_add(items->stale, item);
    make_room(items->stale);
}

/* ---- Life --------------------------------------------------------------- */

int tdg__items_create(tdg__source_t *source) {
    struct tdg__items *items = tdg__calloc(1, sizeof(*items));
    if (items == NULL)
        return TDG_ENOMEM;

    int rv = tdg__random(&items->key, sizeof(items->key));
    if (rv < 0) {
        tdg__free(items);
        return rv;
    }
    tdg__pool_init(&items->pool, sizeof(tdg__item_t));
    tdg__map_init(&items->by_uri);
    tdg__heap_init(&items->timers);
    tdg__turns_init(&items->turns);
    items->own_stale.max_bytes = TDG__STALE_BYTES;
    items->stale = &items->own_stale;
    source->items = items;
    return 0;
}

void tdg__items_open(tdg__source_t *source) {
    uv_timer_init(source->host.loop, &source->items->timer);
    source->items->timer.data = source;
    if (source->host.stale != NULL)
        source->items->stale = source->host.stale;
}

void tdg__items_close(tdg__source_t *source, void (*done)(tdg__source_t *source)) {
    struct tdg__items *items = source->items;

    items->closed = done;
    for (uint32_t id = 1; id < tdg__pool_end(&items->pool); id++) {
        tdg__item_t *item = tdg__pool_get(&items->pool, id);

        if (item == NULL || item->uri == NULL)
            continue;

        struct reader *waiting = item->next_readers;

        item->next_readers = NULL;
        tdg__readers_answer(waiting,
                            &(tdg__content_t){.status = TDG_EAWAY,
                                              .error = "the source is being closed",
                                              .public = "the source is being closed"});
        if (item->state == FETCHING && !item->digesting && source->kind->cancel != NULL) {
            item->fetch.cancelled = true;
            source->kind->cancel(source, &item->fetch);
        }
    }
}

static void timer_closed(uv_handle_t *handle) {
    tdg__source_t *source = handle->data;

    source->items->closed(source);
}

void tdg__items_check_closed(tdg__source_t *source) {
    struct tdg__items *items = source->items;

    if (!items->kind_closed || items->fetching > 0 || items->timer_closing)
        return;
    items->timer_closing = true;
    uv_close((uv_handle_t *)&items->timer, timer_closed);
}

void tdg__items_kind_closed(tdg__source_t *source) {
    source->items->kind_closed = true;
    tdg__items_check_closed(source);
}

void tdg__items_destroy(tdg__source_t *source) {
    struct tdg__items *items = source->items;

    if (items == NULL)
        return;
    for (uint32_t id = 1; id < tdg__pool_end(&items->pool); id++) {
        tdg__item_t *item = tdg__pool_get(&items->pool, id);

        if (item != NULL && item->uri != NULL)
            tdg__item_destroy(item);
    }
    tdg__turns_done(&items->turns);
    tdg__heap_done(&items->timers);
    tdg__map_done(&items->by_uri);
    tdg__pool_done(&items->pool);
    tdg__free(items);
    source->items = NULL;
}
