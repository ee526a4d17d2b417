/* SPDX-License-Identifier: MIT
 *
 * How many subscriptions match some URIs: each worker counts for itself, on its own
 * thread, and the last one answers. */
#include <stdatomic.h>

#include "base/alloc.h"
#include "server/context/matches.h"

struct part {
    tdg__task_t task; /* first */
    struct count *whole;
    tdg__worker_t *worker;
};

struct count {
    atomic_uint left; /* parts that have not said theirs */
    tdg__matches_fn done;
    void *arg;
    tdg__change_t *const *changes;
    size_t count;
    struct part *parts; /* behind the sums */
    tdg__matches_t sums[];
};

static void part_done(struct count *whole) {
    /* acq_rel: the last one reads what the others have added. */
    if (atomic_fetch_sub_explicit(&whole->left, 1, memory_order_acq_rel) != 1)
        return;
    whole->done(whole->arg, whole->sums, whole->count);
    tdg__free(whole);
}

static void run(tdg__task_t *task, bool here) {
    struct part *part = (struct part *)(void *)task;
    struct count *whole = part->whole;

    for (size_t i = 0; here && i < whole->count; i++) {
        tdg__target_t target = tdg__target_uri(whole->changes[i]->name);
        uint64_t own = tdg__engine_count_subscribers(part->worker->engine, &target);

        atomic_fetch_add_explicit(&whole->sums[i], own, memory_order_relaxed);
    }
    part_done(whole);
}

int tdg__server_count_matches(tdg_server_t *server, tdg__change_t *const *changes,
                              size_t count, tdg__matches_fn done, void *arg) {
    unsigned parts = server->worker_count;
    struct count *whole = tdg__calloc(1, sizeof(*whole) + count * sizeof(whole->sums[0]) +
                                             parts * sizeof(struct part));

    if (whole == NULL)
        return TDG_ENOMEM;
    whole->done = done;
    whole->arg = arg;
    whole->changes = changes;
    whole->count = count;
    whole->parts = (struct part *)(uintptr_t)&whole->sums[count];
    for (size_t i = 0; i < count; i++)
        atomic_init(&whole->sums[i], 0);
    atomic_init(&whole->left, parts + 1); /* one is ours, until all are posted */
    for (unsigned i = 0; i < parts; i++) {
        struct part *part = &whole->parts[i];

        part->task.run = run;
        part->whole = whole;
        part->worker = server->workers[i];
        tdg__inbox_post(part->worker->inbox, &part->task);
    }
    part_done(whole);
    return 0;
}
