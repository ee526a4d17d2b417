/* SPDX-License-Identifier: MIT
 *
 * The checksum of large content, in the thread pool, because all sources share the loop.
 * The fetch continues when the checksum is known. */
#include "source/common/item_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "source/common/heavy.h"

struct digest {
    tdg__heavy_job_t job;
    tdg__item_t *item;
    tdg__content_t content; /* of our own, all of it */
    char *mime_type;
    int rv;
    char checksum[TDG__CHECKSUM + 1];
};

static void run(tdg__heavy_job_t *job) {
    struct digest *digest = (struct digest *)job;

    digest->rv =
        tdg__checksum(digest->content.data, digest->content.len, digest->checksum);
}

static void done(tdg__heavy_job_t *job) {
    struct digest *digest = (struct digest *)job;
    tdg__item_t *item = digest->item;
    tdg__buf_t *bytes = digest->content.bytes;

    assert(item->look == DIGESTING);
    digest->content.checksum = digest->checksum;
    if (digest->rv == 0 && !item->source->closing) {
        tdg__fetch_done(&item->fetch, &digest->content);
    } else {
        json_decref(digest->content.metadata);
        tdg__fetch_failed(
            &item->fetch, digest->rv == 0 ? TDG_EUNREACHABLE : TDG_ENOMEM, "%s",
            digest->rv == 0 ? "the source is being closed" : tdg_strerror(TDG_ENOMEM));
    }
    tdg__buf_unref(bytes);
    tdg__free(digest->mime_type);
    tdg__free(digest);
}

static struct digest *create(tdg__item_t *item, const tdg__content_t *content) {
    struct digest *digest = tdg__calloc(1, sizeof(*digest));

    if (digest == NULL)
        return NULL;
    digest->item = item;
    digest->content = *content;
    digest->content.bytes = tdg__buf_create(content->data, content->len);
    if (digest->content.bytes == NULL ||
        !tdg__copy(content->mime_type, &digest->mime_type)) {
        tdg__buf_unref(digest->content.bytes);
        tdg__free(digest);
        return NULL;
    }
    digest->content.data = digest->content.bytes->data;
    digest->content.mime_type = digest->mime_type;
    return digest;
}

bool tdg__item_digest(tdg__item_t *item, const tdg__content_t *content) {
    const tdg__source_t *source = item->source;
    struct digest *digest;

    if (source->host.heavy == NULL || content->status != 0 || content->checksum != NULL ||
        content->len <= TDG__HEAVY_BYTES || content->len > (size_t)source->entry.max_size)
        return false;
    digest = create(item, content);
    if (digest == NULL)
        return false;

    assert(item->look == FETCHING);
    item->look = DIGESTING;
    tdg__records_disarm(&source->items->all, &item->record); /* the kind has answered */
    digest->job.run = run;
    digest->job.done = done;
    tdg__heavy_do(source->host.heavy, &digest->job);
    return true;
}
