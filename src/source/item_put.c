/* SPDX-License-Identifier: MIT
 *
 * Content that is pushed: checked and copied first, which may fail, then taken over,
 * which cannot. So several can be taken over all or none. */
#include "source/item_internal.h"

#include <string.h>

#include "base/alloc.h"

struct tdg__prepared {
    tdg__item_t *item; /* held */
    struct seen seen;
    struct kept kept;
};

static int check_limits(const tdg__source_t *source, const tdg__item_t *item,
                        size_t len) {
    const struct tdg__items *items = source->items;
    size_t had = item->kept.data != NULL ? item->kept.len : 0;

    if (len > (size_t)source->entry.max_size)
        return TDG_ETOOLARGE;
    if (source->max_total > 0 &&
        items->kept_bytes - had + len > (size_t)source->max_total)
        return TDG_ETOTAL;
    if (source->max_items > 0 && item->kept.data == NULL &&
        items->kept_count >= (size_t)source->max_items)
        return TDG_ETOTAL;
    return 0;
}

static int copy(tdg__prepared_t *prepared, const tdg__content_t *content) {
    int rv = check_limits(prepared->item->source, prepared->item, content->len);

    if (rv == 0)
        rv = tdg__checksum(content->data, content->len, prepared->seen.checksum);
    if (rv < 0)
        return rv;

    json_t *metadata = tdg__item_metadata(content, prepared->seen.checksum, NULL);
    if (metadata == NULL)
        return TDG_ENOMEM;
    rv = tdg__kept_copy(prepared->item->source, content, metadata, &prepared->kept);
    json_decref(metadata);
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
        item->held--;
        tdg__item_release(item);
    }
    tdg__free(prepared);
}

void tdg__source_abandon(tdg__prepared_t *prepared) {
    tdg__kept_done(&prepared->kept);
    let_go(prepared);
}

const json_t *tdg__prepared_metadata(const tdg__prepared_t *prepared) {
    return prepared->kept.metadata;
}

/* Lists what has come, and takes from the list what has gone, where a template stands for
 * many; one resource of its own is always listed. */
static void list(tdg__source_t *source, const tdg__item_t *item, enum known before) {
    if (source->template_ == NULL || before == item->seen.known)
        return;
    if (item->seen.known == PRESENT)
        tdg__source_list(source, &(tdg__listed_t){.uri = item->uri,
                                                  .mime_type = item->kept.mime_type,
                                                  .size = item->kept.len});
    else if (before == PRESENT)
        source->host.ops->unlist(source->host.user, source, item->uri, true);
}

void tdg__source_commit(tdg__prepared_t *prepared) {
    tdg__item_t *item = prepared->item;
    enum known before = item->seen.known;

    item->seen = prepared->seen;
    tdg__item_forget_kept(item);
    if (prepared->kept.data != NULL)
        tdg__item_take_kept(item, &prepared->kept);
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
        rv = tdg__item_tell(item, &before, content, true, always);
        item->held--;
        tdg__item_release(item);
    }
    json_decref(content->metadata);
    return rv;
}
