/* SPDX-License-Identifier: MIT
 *
 * Work on large data (checksums, encoding) in libuv's thread pool: a few jobs at a time,
 * in order, so that the pool has threads left for small urgent jobs. One per loop, used
 * from its thread. */
#ifndef TDG_SOURCE_HEAVY_H
#define TDG_SOURCE_HEAVY_H

#include <stddef.h>

#include <uv.h>

#include "base/queue.h"

enum {
    TDG__HEAVY_BYTES = 64 * 1024, /* what has fewer is done at once */
    TDG__HEAVY_AT_ONCE = 2,
};

typedef struct tdg__heavy tdg__heavy_t;
typedef struct tdg__heavy_job tdg__heavy_job_t;

/* Embedded in what the work is about, which stays until `done`. */
struct tdg__heavy_job {
    void (*run)(tdg__heavy_job_t *job);  /* in a thread of the pool */
    void (*done)(tdg__heavy_job_t *job); /* on the loop; may free the job */
    uv_work_t work;
    tdg__heavy_t *heavy;
    tdg__queue_t link;
};

struct tdg__heavy {
    uv_loop_t *loop;
    tdg__queue_t waiting; /* jobs */
    unsigned running;
};

void tdg__heavy_init(tdg__heavy_t *heavy, uv_loop_t *loop);

/* Never fails. Every job is done before the loop ends by itself. */
void tdg__heavy_do(tdg__heavy_t *heavy, tdg__heavy_job_t *job);

#endif
