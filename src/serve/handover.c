/* SPDX-License-Identifier: MIT */
#include "serve/handover.h"

#include <assert.h>

#include <tidings/error.h>

static void run_all(tdg__handover_t *handover, bool refuse) {
    tdg__queue_t tasks, *link;

    tdg__queue_init(&tasks);
    pthread_mutex_lock(&handover->lock);
    while ((link = tdg__queue_take(&handover->tasks)) != NULL)
        tdg__queue_append(&tasks, link);
    pthread_mutex_unlock(&handover->lock);

    while ((link = tdg__queue_take(&tasks)) != NULL) {
        tdg__handover_task_t *task = (tdg__handover_task_t *)link;

        task->refused = refuse;
        task->run(task);
    }
}

static void on_async(uv_async_t *async) {
    run_all(async->data, false);
}

int tdg__handover_init(tdg__handover_t *handover, uv_loop_t *loop) {
    *handover = (tdg__handover_t){.closed = false};
    tdg__queue_init(&handover->tasks);
    if (pthread_mutex_init(&handover->lock, NULL) != 0)
        return TDG_ESYSTEM;
    if (uv_async_init(loop, &handover->async, on_async) != 0) {
        pthread_mutex_destroy(&handover->lock);
        return TDG_ESYSTEM;
    }
    handover->async.data = handover;
    return 0;
}

void tdg__handover_post(tdg__handover_t *handover, tdg__handover_task_t *task) {
    bool closed;

    pthread_mutex_lock(&handover->lock);
    closed = handover->closed;
    if (!closed) {
        tdg__queue_append(&handover->tasks, &task->link);
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
    assert(!handover->closed);
    handover->closed = true;
    pthread_mutex_unlock(&handover->lock);
    run_all(handover, true);
    uv_close((uv_handle_t *)&handover->async, NULL);
}

void tdg__handover_done(tdg__handover_t *handover) {
    pthread_mutex_destroy(&handover->lock);
}
