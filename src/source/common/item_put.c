/* SPDX-License-Identifier: MIT
 *
 * Pushed content: checked and copied first, which may fail, then applied, which cannot.
 * So several can be applied all or none. */
#include "source/common/item_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

struct tdg__prepared {
    tdg__item_t *item; /* held */
    struct seen seen;
    struct kept kept;
    int64_t bytes, count; /* what it adds to the source */
};

/* Those that are prepared and not committed yet count as well, so that many at once do
 * not come to more than is allowed. What the first of a URI replaces, the second does not
 * replace again. */
static int check_limits(tdg__prepared_t *prepared, size_t len) {
    const tdg__item_t *item = prepared->item;
    const tdg__source_t *source = item->source;
    const struct tdg__items *items = source->items;
    bool replaces = item->kept.data != NULL && item->prepared == 0;

    if (len > (size_t)source->entry.max_size)
        return TDG_ETOOLARGE;
    prepared->bytes = (int64_t)len - (replaces ? (int64_t)item->kept.len : 0);
    prepared->count = item->kept.data == NULL && item->prepared == 0;
    if (source->max_total > 0 &&
        (int64_t)items->kept_bytes + items->prepared_bytes + prepared->bytes >
            source->max_total)
        return TDG_ETOTAL;
    if (source->max_items > 0 && prepared->count > 0 &&
        (int64_t)items->kept_count + items->prepared_count >= source->max_items)
        return TDG_ETOTAL;
    return 0;
}

/* Once nothing can fail any more. */
static void count_in(tdg__prepared_t *prepared) {
    struct tdg__items *items = prepared->item->source->items;

    items->prepared_bytes += prepared->bytes;
    items->prepared_count += prepared->count;
    prepared->item->prepared++;
}

static void count_out(tdg__prepared_t *prepared) {
    struct tdg__items *items;

    if (prepared->kept.data == NULL)
        return;
    assert(prepared->item->prepared > 0);
    items = prepared->item->source->items;
    items->prepared_bytes -= prepared->bytes;
    items->prepared_count -= prepared->count;
    prepared->item->prepared--;
}

static int copy(tdg__prepared_t *prepared, const tdg__content_t *content) {
    int rv = check_limits(prepared, content->len);

    if (rv == 0)
        rv = tdg__checksum(content->data, content->len, prepared->seen.checksum);
    if (rv < 0)
        return rv;

    json_t *metadata = tdg__item_metadata(content, prepared->seen.checksum, NULL);
    if (metadata == NULL)
        return TDG_ENOMEM;
    rv = tdg__kept_copy(prepared->item->source, content, metadata, &prepared->kept);
    json_decref(metadata);
    if (rv == 0)
        count_in(prepared);
    return rv;
}

int tdg__source_prepare(tdg__source_t *source, const char *uri,
                        const tdg__content_t *content, tdg__prepared_t **ret) {
    if (source->closing)
        return TDG_EENDED;

    tdg__prepared_t *prepared = tdg__calloc(1, sizeof(*prepared));
    if (prepared == NULL)
        return TDG_ENOMEM;

    int rv = TDG_ENOMEM;
    prepared->item = tdg__item_make(source, uri);
    if (prepared->item == NULL)
        goto fail;
    prepared->item->held++;
    tdg__item_recall(prepared->item); /* what is remembered may be forgotten any time */
    prepared->seen.known = content->status == 0 ? PRESENT : ABSENT;
    rv = content->status == 0 ? copy(prepared, content) : 0;
    if (rv < 0)
        goto fail;
    *ret = prepared;
    return 0;

fail:
    tdg__source_abandon(prepared);
    return rv;
}

static void let_go(tdg__prepared_t *prepared) {
    tdg__item_t *item = prepared->item;

    if (item != NULL) {
        assert(item->held > 0);
        item->held--;
        tdg__item_release(item);
    }
    tdg__free(prepared);
}

void tdg__source_abandon(tdg__prepared_t *prepared) {
    count_out(prepared);
    tdg__kept_done(&prepared->kept);
    let_go(prepared);
}

const json_t *tdg__prepared_metadata(const tdg__prepared_t *prepared) {
    return prepared->kept.metadata;
}

static bool is_same_text(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Whether the list says of it already what it would say afterwards. */
static bool is_listed_so(const tdg__item_t *item, const tdg__prepared_t *prepared) {
    return item->seen.known == prepared->seen.known &&
           item->kept.len == prepared->kept.len &&
           is_same_text(item->kept.mime_type, prepared->kept.mime_type);
}

/* Lists what has come, corrects what the list says of it, and takes from the list what
 * has gone, where a template stands for many; one resource of its own is always listed.
 */
static void list(tdg__source_t *source, const tdg__item_t *item, enum known before) {
    if (source->template_ == NULL)
        return;
    if (item->seen.known == PRESENT)
        tdg__source_list(source, &(tdg__listed_t){.uri = item->record.name,
                                                  .mime_type = item->kept.mime_type,
                                                  .size = item->kept.len});
    else if (before == PRESENT)
        source->host.ops->unlist(source->host.user, source, item->record.name, true);
}

void tdg__source_list_again(tdg__source_t *source) {
    const tdg__item_t *item;

    if (source->kind->list_again != NULL)
        source->kind->list_again(source);
    if (!tdg__source_is_pushed(source))
        return;
    for (uint32_t at = 0; (item = tdg__items_next(source, &at)) != NULL;)
        list(source, item, UNKNOWN);
}

void tdg__source_commit(tdg__prepared_t *prepared) {
    tdg__item_t *item = prepared->item;
    enum known before = item->seen.known;
    bool is_listed = is_listed_so(item, prepared);

    count_out(prepared);
    item->seen = prepared->seen;
    tdg__item_forget_kept(item);
    if (prepared->kept.data != NULL)
        tdg__item_take_kept(item, &prepared->kept);
    if (!is_listed)
        list(item->source, item, before);
    let_go(prepared);
}

int tdg__source_put(tdg__source_t *source, const char *uri, const tdg__content_t *content,
                    bool always) {
    tdg__prepared_t *prepared;

    int rv = tdg__source_prepare(source, uri, content, &prepared);
    if (rv == 0) {
        tdg__item_t *item = prepared->item;
        struct seen before = item->seen;

        item->held++;
        tdg__source_commit(prepared);
        rv = tdg__item_publish(item, &before, content, true, always);
        if (rv < 0) /* the same content put again is still a change */
            item->seen = before;
        item->held--;
        tdg__item_release(item);
    }
    json_decref(content->metadata);
    return rv;
}

/* When it was put first, which reads go on to say. */
static int64_t updated_ms(const struct kept *kept) {
    return json_integer_value(json_object_get(kept->metadata, "updated_at"));
}

void tdg__items_adopt(tdg__source_t *source, tdg__source_t *from) {
    const tdg__item_t *item;

    for (uint32_t at = 0; (item = tdg__items_next(from, &at)) != NULL;) {
        tdg__prepared_t *prepared;

        if (item->kept.data == NULL)
            continue;

        tdg__content_t content = tdg__kept_content(&item->kept);

        content.updated_ms = updated_ms(&item->kept);
        if (tdg__source_prepare(source, item->record.name, &content, &prepared) == 0)
            tdg__source_commit(prepared);
    }
}
