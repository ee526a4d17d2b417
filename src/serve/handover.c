/* SPDX-License-Identifier: MIT */
#include "serve/handover.h"

#include <tidings/error.h>

static void run_all(tdg__handover_t *handover, bool refuse) {
    tdg__errand_t *task;

    pthread_mutex_lock(&handover->lock);
    task = handover->first;
    handover->first = NULL;
    handover->last = &handover->first;
    pthread_mutex_unlock(&handover->lock);

    while (task != NULL) {
        tdg__errand_t *next = task->next;

        task->refused = refuse;
        task->run(task);
        task = next;
    }
}

static void on_async(uv_async_t *async) {
    run_all(async->data, false);
}

int tdg__handover_init(tdg__handover_t *handover, uv_loop_t *loop) {
    *handover = (tdg__handover_t){.last = &handover->first};
    if (pthread_mutex_init(&handover->lock, NULL) != 0)
        return TDG_ESYSTEM;
    if (uv_async_init(loop, &handover->async, on_async) != 0) {
        pthread_mutex_destroy(&handover->lock);
        return TDG_ESYSTEM;
    }
    handover->async.data = handover;
    return 0;
}

void tdg__handover_post(tdg__handover_t *handover, tdg__errand_t *task) {
    bool closed;

    task->next = NULL;
    pthread_mutex_lock(&handover->lock);
    closed = handover->closed;
    if (!closed) {
        *handover->last = task;
        handover->last = &task->next;
        uv_async_send(&handover->async); /* under the lock: it is not closed meanwhile */
    }
    pthread_mutex_unlock(&handover->lock);
    if (closed) {
        task->refused = true;
        task->run(task);
    }
}

void tdg__handover_close(tdg__handover_t *handover) {
    pthread_mutex_lock(&handover->lock);
    handover->closed = true;
    pthread_mutex_unlock(&handover->lock);
    run_all(handover, true);
    uv_close((uv_handle_t *)&handover->async, NULL);
}

void tdg__handover_done(tdg__handover_t *handover) {
    pthread_mutex_destroy(&handover->lock);
}
