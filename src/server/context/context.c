/* SPDX-License-Identifier: MIT */
#include "server/context/context.h"

#include <assert.h>

#include "base/clock.h"

static _Thread_local tdg__worker_t *current;

tdg__worker_t *tdg__worker_current(void) {
    return current;
}

void tdg__worker_set_current(tdg__worker_t *worker) {
    current = worker;
}

void tdg__worker_refresh(tdg__worker_t *worker) {
    int64_t now = tdg__worker_now(worker);

    assert(now >= worker->advanced_ms);
    if (now == worker->advanced_ms)
        return;
    worker->advanced_ms = now;
    tdg__engine_advance(worker->engine, now, tdg__wall_ms());
}
