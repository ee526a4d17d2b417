/* SPDX-License-Identifier: MIT
 *
 * An item is in three states at once. The first: its fetch, one at a time:
 *
 *             touched, read,              PARALLEL           large content
 *             watched, retried            at a time          from the kind
 *     IDLE ───────────────────▶ QUEUED ────────────▶ FETCHING ───────────▶ DIGESTING
 *      ▲ ▲                       │  ▲                    ▼                     │
 *      │ └─ everybody has left ──┘  └─ asked meanwhile ─ SETTLING ◀────────────┘
 *      └──────────────────────── nobody asked ──────────┘
 *
 * The second: whether its own URI is watched. Pushed content needs no look; the template
 * and the list of a source start in the same way:
 *
 *                watch                first look
 *     UNWATCHED ──────▶ AWAITS_BOTH ────────────▶ AWAITS_KIND ◀─── watch, without a look
 *         ▲                 │ the kind is ready       │
 *         │                 ▼        first look       ▼ the kind is ready
 *         │             AWAITS_LOOK ────────────▶ WATCHING: the host is called
 *         └── unwatch, or the kind refuses; from any of them
 *
 * The third: the hint that its watchers wait for. The fetch that begins after a hint
 * takes it. If that fetch failed, saw incomplete content, or nobody could be notified, it
 * is a hint again:
 *
 *     NO_HINT ── touch ──▶ TOUCHED ── came ──▶ CAME      a fetch begins: taken = hint,
 *        ▲                                      │                       hint = NO_HINT
 *        └── reported, or the same as before ───┘
 *
 * An item exists while it is watched, wanted by a reader, or has content: pushed content,
 * or a copy for when the backend is unreachable (stale.h). While the source's template is
 * watched, published items are remembered, within a limit, so that their next look can be
 * compared. */
#include "source/common/item_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

bool tdg__source_is_pushed(const tdg__source_t *source) {
    return (source->kind->flags & TDG__SOURCE_PUSHED) != 0;
}

/* ---- Records ------------------------------------------------------------ */

tdg__item_t *tdg__item_find(const tdg__source_t *source, const char *uri) {
    return tdg__records_find(&source->items->all, uri);
}

tdg__item_t *tdg__item_make(tdg__source_t *source, const char *uri) {
    tdg__item_t *item = tdg__item_find(source, uri);

    if (item != NULL)
        return item;
    item = tdg__records_add(&source->items->all, uri);
    if (item != NULL)
        item->source = source;
    return item;
}

tdg__item_t *tdg__items_next(const tdg__source_t *source, uint32_t *at) {
    return tdg__records_next(&source->items->all, at);
}

/* ---- What is kept ------------------------------------------------------- */

void tdg__item_forget_kept(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    if (item->kept.data == NULL)
        return;
    if (tdg__queue_has(&item->cached)) {
        tdg__queue_remove(&item->cached);
        items->stale->bytes -= item->kept.len;
        items->stale->count--;
    }
    items->kept_bytes -= item->kept.len;
    items->kept_count--;
    tdg__kept_done(&item->kept);
}

bool tdg__item_may_keep(const tdg__item_t *item, size_t len) {
    size_t max_bytes = item->source->items->stale->max_bytes;

    return max_bytes > 0 && len <= max_bytes / TDG__STALE_PARTS;
}

static void destroy(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    assert(!tdg__item_is_fetched(item) && item->readers == NULL && item->held == 0);
    tdg__item_forget_kept(item);
    tdg__item_recall(item);
    tdg__records_remove(&items->all, &item->record);
}

/* A touched item is owed a look that it will not get: it is published as changed. */
static void forget_oldest(tdg__source_t *source) {
    struct tdg__items *items = source->items;
    tdg__item_t *item = tdg__pool_get(&items->all.pool, items->by_use.first);

    if (item->hint != NO_HINT && !source->closing)
        source->host.ops->changed(source->host.user, source, item->record.name, NULL);
    destroy(item);
}

/* Remembers an item that only a watched template needs; the oldest is forgotten. */
static void remember(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    assert(item->look == IDLE && !tdg__item_is_watched(item));
    tdg__item_recall(item);
    item->remembered = true;
    items->remembered++;
    tdg__list_append(&items->by_use, &items->all.pool, LINK(by_use), item->record.id);
    if (items->remembered > REMEMBERED)
        forget_oldest(item->source);
}

void tdg__item_recall(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    if (!item->remembered)
        return;
    item->remembered = false;
    items->remembered--;
    tdg__list_remove(&items->by_use, &items->all.pool, LINK(by_use), item->record.id);
}

/* It is not watched: what it was compared with does not count any more. */
static void stop_observing(tdg__item_t *item) {
    item->seen = (struct seen){.known = UNKNOWN};
    item->hint = NO_HINT;
    item->tries = 0;
}

void tdg__item_release(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;
    bool is_kept = item->kept.data != NULL;

    if (item->held > 0 || tdg__item_is_watched(item) || item->look != IDLE ||
        item->next_readers != NULL || (tdg__source_is_pushed(item->source) && is_kept))
        return;
    if (items->template_ != UNWATCHED &&
        (item->seen.known != UNKNOWN || item->hint != NO_HINT))
        remember(item);
    else if (is_kept)
        stop_observing(item);
    else
        destroy(item);
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

tdg__content_t tdg__kept_content(const struct kept *kept) {
    return (tdg__content_t){.bytes = kept->bytes,
                            .data = kept->data,
                            .len = kept->len,
                            .mime_type = kept->mime_type,
                            .metadata = kept->metadata,
                            .updated_ms = kept->updated_ms};
}

/* An item that only the cache needs is destroyed with its content. */
static void make_room(tdg__stale_t *stale) {
    while (stale->bytes > stale->max_bytes || stale->count > TDG__STALE_COUNT) {
        assert(!tdg__queue_is_empty(&stale->items));
        tdg__item_t *item = TDG__RECORD(tdg__item_t, cached, stale->items.next);

        tdg__item_forget_kept(item);
        if (!item->remembered)
            tdg__item_release(item);
    }
}

void tdg__item_take_kept(tdg__item_t *item, struct kept *kept) {
    struct tdg__items *items = item->source->items;

    assert(kept->data != NULL);
    tdg__item_forget_kept(item);
    item->kept = *kept;
    *kept = (struct kept){0};
    items->kept_bytes += item->kept.len;
    items->kept_count++;
    if (tdg__source_is_pushed(item->source)) /* nobody else has it */
        return;
    tdg__queue_append(&items->stale->items, &item->cached);
    items->stale->bytes += item->kept.len;
    items->stale->count++;
    make_room(items->stale);
}

/* ---- Life --------------------------------------------------------------- */

int tdg__items_create(tdg__source_t *source) {
    struct tdg__items *items = tdg__calloc(1, sizeof(*items));
    if (items == NULL)
        return TDG_ENOMEM;

    int rv = tdg__records_init(&items->all, sizeof(tdg__item_t), tdg__item_due, source);
    if (rv < 0) {
        tdg__free(items);
        return rv;
    }
    tdg__turns_init(&items->turns);
    tdg__stale_init(&items->own_stale);
    items->stale = &items->own_stale;
    source->items = items;
    return 0;
}

void tdg__items_open(tdg__source_t *source) {
    tdg__records_open(&source->items->all, source->host.loop);
    source->items->all.timer.data = source;
    if (source->host.stale != NULL)
        source->items->stale = source->host.stale;
}

void tdg__items_close(tdg__source_t *source) {
    tdg__item_t *item;

    for (uint32_t at = 0; (item = tdg__items_next(source, &at)) != NULL;) {
        struct reader *waiting = item->next_readers;

        item->next_readers = NULL;
        tdg__readers_answer(waiting,
                            &(tdg__content_t){.status = TDG_EUNREACHABLE,
                                              .error = "the source is being closed",
                                              .public = "the source is being closed"});
        tdg__item_cancel(item);
    }
}

static void timer_closed(uv_handle_t *handle) {
    tdg__source_t *source = handle->data;

    source->items->closed(source);
}

void tdg__items_end(tdg__source_t *source, void (*done)(tdg__source_t *source)) {
    assert(source->items->fetching == 0);
    source->items->closed = done;
    uv_close((uv_handle_t *)&source->items->all.timer, timer_closed);
}

void tdg__items_destroy(tdg__source_t *source) {
    struct tdg__items *items = source->items;
    tdg__item_t *item;

    if (items == NULL)
        return;
    assert(items->fetching == 0);
    for (uint32_t at = 0; (item = tdg__items_next(source, &at)) != NULL;)
        destroy(item);
    tdg__turns_done(&items->turns);
    tdg__records_done(&items->all);
    tdg__free(items);
    source->items = NULL;
}
