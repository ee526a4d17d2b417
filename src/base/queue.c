/* SPDX-License-Identifier: MIT */
#include "base/queue.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <tidings/error.h>

#include "base/alloc.h"

struct tdg__queue {
    pthread_mutex_t lock;
    tdg__queue_wake_fn wake;
    void *user;
    size_t max;
    size_t first;
    size_t count;
    bool closed;
    void *items[]; /* a ring of `max` */
};

int tdg__queue_create(size_t max, tdg__queue_wake_fn wake, void *user,
                      tdg__queue_t **ret) {
    tdg__queue_t *queue;

    if (max == 0 || max > (SIZE_MAX - sizeof(*queue)) / sizeof(void *))
        return TDG_EINVAL;

    queue = tdg__calloc(1, sizeof(*queue) + max * sizeof(void *));
    if (queue == NULL)
        return TDG_ENOMEM;

    if (pthread_mutex_init(&queue->lock, NULL) != 0) {
        tdg__free(queue);
        return TDG_ESYSTEM;
    }

    queue->wake = wake;
    queue->user = user;
    queue->max = max;
    *ret = queue;
    return 0;
}

void tdg__queue_destroy(tdg__queue_t *queue) {
    if (queue == NULL)
        return;
    pthread_mutex_destroy(&queue->lock);
    tdg__free(queue);
}

int tdg__queue_push(tdg__queue_t *queue, void *item) {
    bool was_empty = false;
    int rv = 0;

    pthread_mutex_lock(&queue->lock);
    if (queue->closed) {
        rv = TDG_EENDED;
    } else if (queue->count == queue->max) {
        rv = TDG_EAGAIN;
    } else {
        was_empty = queue->count == 0;
        queue->items[(queue->first + queue->count++) % queue->max] = item;
    }
    pthread_mutex_unlock(&queue->lock);

    if (was_empty && queue->wake != NULL)
        queue->wake(queue->user);
    return rv;
}

size_t tdg__queue_take(tdg__queue_t *queue, void **items, size_t max) {
    size_t n = 0;

    pthread_mutex_lock(&queue->lock);
    while (n < max && queue->count > 0) {
        items[n++] = queue->items[queue->first];
        queue->first = (queue->first + 1) % queue->max;
        queue->count--;
    }
    pthread_mutex_unlock(&queue->lock);
    return n;
}

void tdg__queue_close(tdg__queue_t *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_mutex_unlock(&queue->lock);
}
