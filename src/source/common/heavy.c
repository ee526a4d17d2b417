/* SPDX-License-Identifier: MIT */
#include "source/common/heavy.h"

#include <assert.h>

static void start(tdg__heavy_t *heavy);

static void run(uv_work_t *work) {
    tdg__heavy_job_t *job = work->data;

    job->run(job);
}

static void after(uv_work_t *work, int status) {
    tdg__heavy_job_t *job = work->data;
    tdg__heavy_t *heavy = job->heavy;

    (void)status; /* never cancelled */
    assert(heavy->running > 0);
    heavy->running--;
    start(heavy);
    job->done(job);
}

static void start(tdg__heavy_t *heavy) {
    tdg__queue_t *link;

    while (heavy->running < TDG__HEAVY_AT_ONCE &&
           (link = tdg__queue_take(&heavy->waiting)) != NULL) {
        tdg__heavy_job_t *job = TDG__RECORD(tdg__heavy_job_t, link, link);

        heavy->running++;
        (void)uv_queue_work(heavy->loop, &job->work, run, after);
    }
}

void tdg__heavy_init(tdg__heavy_t *heavy, uv_loop_t *loop) {
    *heavy = (tdg__heavy_t){.loop = loop};
    tdg__queue_init(&heavy->waiting);
}

void tdg__heavy_do(tdg__heavy_t *heavy, tdg__heavy_job_t *job) {
    job->work.data = job;
    job->heavy = heavy;
    tdg__queue_append(&heavy->waiting, &job->link);
    start(heavy);
}
