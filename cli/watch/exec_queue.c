/* SPDX-License-Identifier: MIT */
#include "watch/exec_queue.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

typedef struct entry {
    tdg__link_t link; /* in `ready`, while there is a payload */
    char *uri;
    void *payload; /* what waits; NULL: nothing */
    size_t bytes;
    uint64_t running;
} entry_t;

static bool has_uri(const void *queue, uint32_t id, const void *uri) {
    const exec_queue_t *own = queue;
    const entry_t *entry = tdg__pool_get(&own->uris, id);

    return strcmp(entry->uri, uri) == 0;
}

static uint32_t hash_of(const exec_queue_t *queue, const char *uri) {
    return (uint32_t)tdg__hash(&queue->key, uri, strlen(uri));
}

void exec_queue_init(exec_queue_t *queue, size_t max_running, size_t max_per_uri,
                     size_t max_bytes, size_t (*merge)(void *older, void *newer),
                     void (*release)(void *payload)) {
    *queue = (exec_queue_t){
        .max_running = max_running,
        .max_per_uri = max_per_uri,
        .max_bytes = max_bytes,
        .merge = merge,
        .release = release,
    };
    tdg__pool_init(&queue->uris, sizeof(entry_t));
    tdg__map_init(&queue->by_uri);
    if (tdg__random(&queue->key, sizeof(queue->key)) < 0)
        queue->key = (tdg__hash_key_t){3, 4}; /* slower against chosen URIs, not wrong */
}

void exec_queue_done(exec_queue_t *queue) {
    exec_queue_drop(queue);
    for (uint32_t id = 1; id < tdg__pool_end(&queue->uris); id++) {
        entry_t *entry = tdg__pool_get(&queue->uris, id);

        if (entry != NULL)
            tdg__free(entry->uri);
    }
    tdg__map_done(&queue->by_uri);
    tdg__pool_done(&queue->uris);
}

static int make_entry(exec_queue_t *queue, const char *uri, uint32_t *ret) {
    uint32_t id;

    if (tdg__map_reserve(&queue->by_uri) < 0)
        return TDG_ENOMEM;
    entry_t *entry = tdg__pool_alloc(&queue->uris, &id);
    if (entry == NULL)
        return TDG_ENOMEM;
    entry->uri = tdg__strdup(uri);
    if (entry->uri == NULL) {
        tdg__pool_free(&queue->uris, id);
        return TDG_ENOMEM;
    }
    tdg__map_insert(&queue->by_uri, hash_of(queue, uri), id);
    *ret = id;
    return 0;
}

/* Forgets a URI about which nothing runs and nothing waits. */
static void forget_if_idle(exec_queue_t *queue, uint32_t id) {
    entry_t *entry = tdg__pool_get(&queue->uris, id);

    if (entry->running > 0 || entry->payload != NULL)
        return;
    tdg__map_remove(&queue->by_uri, hash_of(queue, entry->uri), id);
    tdg__free(entry->uri);
    entry->uri = NULL;
    tdg__pool_free(&queue->uris, id);
}

/* Takes what waits out of the queue. */
static void *take_payload(exec_queue_t *queue, uint32_t id) {
    entry_t *entry = tdg__pool_get(&queue->uris, id);
    void *payload = entry->payload;

    assert(payload != NULL && queue->waiting > 0 && queue->bytes >= entry->bytes);
    tdg__list_remove(&queue->ready, &queue->uris, offsetof(entry_t, link), id);
    queue->waiting--;
    queue->bytes -= entry->bytes;
    entry->payload = NULL;
    entry->bytes = 0;
    return payload;
}

int exec_queue_add(exec_queue_t *queue, const char *uri, void *payload, size_t bytes) {
    uint32_t id = tdg__map_find(&queue->by_uri, hash_of(queue, uri), has_uri, queue, uri);

    if (id == 0 && make_entry(queue, uri, &id) < 0) {
        queue->release(payload);
        return TDG_ENOMEM;
    }
    entry_t *entry = tdg__pool_get(&queue->uris, id);
    if (entry->payload != NULL) {
        bytes = queue->merge(entry->payload, payload);
        queue->release(entry->payload);
        queue->bytes -= entry->bytes;
    } else {
        tdg__list_append(&queue->ready, &queue->uris, offsetof(entry_t, link), id);
        queue->waiting++;
    }
    entry->payload = payload;
    entry->bytes = bytes;
    queue->bytes += bytes;
    return 0;
}

bool exec_queue_is_full(const exec_queue_t *queue) {
    return queue->bytes > queue->max_bytes;
}

void *exec_queue_next(exec_queue_t *queue, uint32_t *ret_id) {
    if (queue->running >= queue->max_running)
        return NULL;

    /* Those that may not run now have something running: they are few. */
    for (uint32_t id = queue->ready.first; id != 0;) {
        entry_t *entry = tdg__pool_get(&queue->uris, id);

        if (entry->running < queue->max_per_uri) {
            *ret_id = id;
            entry->running++;
            queue->running++;
            return take_payload(queue, id);
        }
        id = entry->link.next;
    }
    return NULL;
}

void exec_queue_over(exec_queue_t *queue, uint32_t id) {
    entry_t *entry = tdg__pool_get(&queue->uris, id);

    assert(entry->running > 0 && queue->running > 0);
    entry->running--;
    queue->running--;
    forget_if_idle(queue, id);
}

void exec_queue_drop(exec_queue_t *queue) {
    while (queue->ready.first != 0) {
        uint32_t id = queue->ready.first;

        queue->release(take_payload(queue, id));
        forget_if_idle(queue, id);
    }
}
