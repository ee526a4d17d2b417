/* SPDX-License-Identifier: MIT
 *
 * Tasks from the server's threads to the loop of the sources: they run there, in the
 * order of posting. */
#ifndef TDG_SERVE_HANDOVER_H
#define TDG_SERVE_HANDOVER_H

#include <pthread.h>
#include <stdbool.h>

#include <uv.h>

#include "base/queue.h"

typedef struct tdg__handover_task tdg__handover_task_t;
struct tdg__handover_task {
    tdg__queue_t link; /* first */

    /* Owns the task; with `refused` it is not done. */
    void (*run)(tdg__handover_task_t *task);
    bool refused; /* the handover is closed */
};

typedef struct tdg__handover {
    pthread_mutex_t lock;
    tdg__queue_t tasks;
    bool closed;
    uv_async_t async;
} tdg__handover_t;

/* Returns 0 or TDG_ESYSTEM. */
int tdg__handover_init(tdg__handover_t *handover, uv_loop_t *loop);

/* From any thread. A task that comes after tdg__handover_close() is run at once, refused.
 */
void tdg__handover_post(tdg__handover_t *handover, tdg__handover_task_t *task);

/* From the loop: runs what has been posted, refused, and lets go of the loop; free the
 * memory once the loop has run to its end. */
void tdg__handover_close(tdg__handover_t *handover);
void tdg__handover_done(tdg__handover_t *handover);

#endif
