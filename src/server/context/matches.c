/* SPDX-License-Identifier: MIT
 *
 * How many subscriptions match some URIs: each worker counts for itself, on its own
 * thread, and the last one answers. */
#include <stdatomic.h>
#include <string.h>

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
    size_t count;
    const char **uris;
    atomic_uint_fast64_t *sums;
    uint64_t *counts;
    struct part parts[]; /* behind them the arrays, then the strings */
};

static void conclude(struct count *whole) {
    for (size_t i = 0; i < whole->count; i++)
        whole->counts[i] = atomic_load_explicit(&whole->sums[i], memory_order_relaxed);
    whole->done(whole->arg, whole->counts, whole->count);
    tdg__free(whole);
}

static void part_done(struct count *whole) {
    /* acq_rel: the last one reads what the others have added. */
    if (atomic_fetch_sub_explicit(&whole->left, 1, memory_order_acq_rel) == 1)
        conclude(whole);
}

static void run(tdg__task_t *task, bool here) {
    struct part *part = (struct part *)(void *)task;
    struct count *whole = part->whole;

    for (size_t i = 0; here && i < whole->count; i++) {
        tdg__target_t target = tdg__target_uri(whole->uris[i]);
        uint64_t own = tdg__engine_count_subscribers(part->worker->engine, &target);

        atomic_fetch_add_explicit(&whole->sums[i], own, memory_order_relaxed);
    }
    part_done(whole);
}

static struct count *create(const char *const *uris, size_t count, unsigned parts) {
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += strlen(uris[i]) + 1;

    struct count *whole =
        tdg__calloc(1, sizeof(*whole) + parts * sizeof(struct part) +
                           count * (sizeof(*whole->uris) + sizeof(*whole->sums) +
                                    sizeof(*whole->counts)) +
                           bytes);
    if (whole == NULL)
        return NULL;
    char *at = (char *)&whole->parts[parts];
    whole->sums = (void *)at;
    whole->counts = (void *)(at += count * sizeof(*whole->sums));
    whole->uris = (void *)(at += count * sizeof(*whole->counts));
    at += count * sizeof(*whole->uris);
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(uris[i]) + 1;

        whole->uris[i] = memcpy(at, uris[i], size);
        atomic_init(&whole->sums[i], 0);
        at += size;
    }
    whole->count = count;
    return whole;
}

int tdg__server_count_matches(tdg_server_t *server, const char *const *uris, size_t count,
                              tdg__matches_fn done, void *arg) {
    unsigned parts = 0;

    while (tdg__server_worker(server, (int)parts) != NULL)
        parts++;

    struct count *whole = create(uris, count, parts);
    if (whole == NULL)
        return TDG_ENOMEM;
    whole->done = done;
    whole->arg = arg;
    atomic_init(&whole->left, parts + 1); /* one is ours, until all are posted */
    for (unsigned i = 0; i < parts; i++) {
        struct part *part = &whole->parts[i];

        part->task.run = run;
        part->whole = whole;
        part->worker = tdg__server_worker(server, (int)i);
        tdg__inbox_post(part->worker->inbox, &part->task);
    }
    part_done(whole);
    return 0;
}
