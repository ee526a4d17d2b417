/* SPDX-License-Identifier: MIT
 *
 * A phase: new servers, and for every source one thread that makes changes at random
 * moments and one per client. It ends when every client has seen the last change,
 * and fails where one was lost. */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "sources.h"

static const uint64_t second_ns = 1000000000, least_gap_ns = 20000000;

static const uint64_t poll_ns[CLIENTS] = {[POLL_1S] = 1000000000, [POLL_5S] = 5000000000};

/* The thread that makes the changes of a source. */
struct changer {
    pthread_t thread;
    sources_track_t track;
    _Atomic uint64_t begin; /* 0: wait */
    _Atomic bool ready, finished;
};

struct phase {
    const sources_plan_t *plan;
    const sources_world_t *world;
    _Atomic bool stop;
    struct changer changers[KINDS];
    sources_client_t clients[KINDS][CLIENTS];
    pthread_t threads[KINDS][CLIENTS];
};

/* ---- Changes ------------------------------------------------------------ */

static void *make_changes(void *arg) {
    struct changer *changer = arg;
    sources_track_t *track = &changer->track;
    sources_wire_t wires[AUDIENCES];

    for (int audience = 0; audience < AUDIENCES; audience++)
        sources_wire_open(&wires[audience], track->world->ports[audience]);
    track->kind->change(track->world, wires, track->first - 1); /* so that it exists */
    changer->ready = true;
    while (changer->begin == 0)
        sources_sleep_until(bench_now_ns() + 1000000);
    for (size_t i = 0; i < track->count; i++) {
        sources_sleep_until(changer->begin + track->due[i]);
        track->changes[i].made = bench_now_ns();
        track->kind->change(track->world, wires, track->first + (uint32_t)i);
    }
    for (int audience = 0; audience < AUDIENCES; audience++)
        sources_wire_close(&wires[audience]);
    changer->finished = true;
    return NULL;
}

/* A number above 0, up to 1. */
static double draw_share(bench_random_t *random) {
    return (double)((bench_random(random) >> 11) + 1) / 9007199254740992.0;
}

/* Waits of a Poisson process, after a least one. */
static void draw_times(const sources_plan_t *plan, bench_random_t *random,
                       sources_track_t *track) {
    double mean = (double)(plan->gap_ns - least_gap_ns);
    uint64_t at = 0;

    for (size_t i = 0; i < track->count; i++) {
        at += least_gap_ns + (uint64_t)(-log(draw_share(random)) * mean);
        track->due[i] = at;
    }
}

static void prepare_track(struct phase *phase, int id) {
    static uint32_t numbers[KINDS]; /* they only grow, from phase to phase */
    sources_track_t *track = &phase->changers[id].track;
    bench_random_t random = {phase->plan->seed * KINDS + (uint64_t)id};

    *track = (sources_track_t){.world = phase->world,
                               .kind = &sources_kinds[id],
                               .first = numbers[id] + 2,
                               .count = phase->plan->changes,
                               .stop = &phase->stop};
    numbers[id] += (uint32_t)track->count + 1;
    track->changes = bench_alloc(track->count, sizeof(*track->changes));
    track->due = bench_alloc(track->count, sizeof(*track->due));
    draw_times(phase->plan, &random, track);
}

/* ---- Threads ------------------------------------------------------------ */

static void start_thread(pthread_t *thread, void *(*run)(void *), void *arg) {
    if (pthread_create(thread, NULL, run, arg) != 0)
        sources_fail("cannot start a thread");
}

static void await(const _Atomic bool *flag, uint64_t end, const char *who,
                  const char *what) {
    while (!*flag) {
        if (bench_now_ns() > end)
            sources_fail("%s: %s", who, what);
        sources_sleep_until(bench_now_ns() + 1000000);
    }
}

static uint64_t patience(void) {
    return bench_now_ns() + SOURCES_PATIENCE_S * second_ns;
}

static void start_clients(struct phase *phase, bench_random_t *random) {
    for (int id = 0; id < KINDS; id++)
        for (int c = 0; c < CLIENTS; c++) {
            sources_client_t *client = &phase->clients[id][c];

            if (!phase->world->used[id])
                continue;
            *client = (sources_client_t){.track = &phase->changers[id].track,
                                         .id = (sources_audience_t)c,
                                         .every_ns = poll_ns[c]};
            client->first_ns = bench_now_ns() +
                               (uint64_t)(draw_share(random) * (double)client->every_ns);
            start_thread(&phase->threads[id][c],
                         c == SUBSCRIBER ? sources_subscribe : sources_poll, client);
        }
    for (int id = 0; id < KINDS; id++)
        for (int c = 0; c < CLIENTS; c++)
            if (phase->world->used[id])
                await(&phase->clients[id][c].ready, patience(), sources_kinds[id].name,
                      "a client could not subscribe");
}

static void stop_clients(struct phase *phase) {
    phase->stop = true;
    for (int id = 0; id < KINDS; id++)
        for (int c = 0; c < CLIENTS; c++)
            if (phase->world->used[id])
                pthread_join(phase->threads[id][c], NULL);
}

/* Until the last change of a source has reached everybody. */
static void await_last(const struct phase *phase, int id, uint64_t end) {
    const sources_track_t *track = &phase->changers[id].track;
    const sources_change_t *last;

    if (track->count == 0)
        return;
    last = &track->changes[track->count - 1];
    for (int c = 0; c < CLIENTS; c++)
        while (last->known[c] == 0 || (c == SUBSCRIBER && last->told == 0)) {
            if (bench_now_ns() > end)
                sources_fail("%s: the last change was lost for: %s", track->kind->name,
                             sources_audience_names[c]);
            sources_sleep_until(bench_now_ns() + 1000000);
        }
}

static void run_changes(struct phase *phase) {
    const sources_plan_t *plan = phase->plan;
    uint64_t begin = bench_now_ns(), last = 0, end;

    for (int id = 0; id < KINDS; id++) {
        const sources_track_t *track = &phase->changers[id].track;

        if (phase->world->used[id] && track->count > 0 &&
            track->due[track->count - 1] > last)
            last = track->due[track->count - 1];
        phase->changers[id].begin = begin;
    }
    end = begin + last + SOURCES_PATIENCE_S * second_ns;
    for (int id = 0; id < KINDS; id++) {
        if (!phase->world->used[id])
            continue;
        await(&phase->changers[id].finished, end, sources_kinds[id].name,
              "its changes take too long");
        pthread_join(phase->changers[id].thread, NULL);
        await_last(phase, id, end);
    }
    sources_sleep_until(begin + plan->lasts_ns);
}

/* ---- Results ------------------------------------------------------------ */

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static sources_spread_t spread(uint64_t *times, size_t count) {
    if (count == 0)
        return (sources_spread_t){0};
    qsort(times, count, sizeof(times[0]), compare);
    return (sources_spread_t){.p50 = (double)times[count / 2],
                              .p95 = (double)times[count - 1 - count / 20],
                              .max = (double)times[count - 1]};
}

static void collect(const struct phase *phase, int id, int c, sources_seen_t *ret) {
    const sources_track_t *track = &phase->changers[id].track;
    uint64_t *times = bench_alloc(track->count, sizeof(*times));

    for (size_t i = 0; i < track->count; i++)
        times[i] = track->changes[i].known[c] - track->changes[i].made;
    ret->known = spread(times, track->count);
    if (c == SUBSCRIBER) {
        for (size_t i = 0; i < track->count; i++)
            times[i] = track->changes[i].told - track->changes[i].made;
        ret->told = spread(times, track->count);
    }
    ret->requests = phase->clients[id][c].requests;
    ret->bytes = phase->clients[id][c].bytes;
    ret->opening_bytes = phase->clients[id][c].opening_bytes;
    free(times);
}

static void finish(struct phase *phase, sources_outcome_t *ret) {
    for (int id = 0; id < KINDS; id++) {
        sources_track_t *track = &phase->changers[id].track;

        if (!phase->world->used[id])
            continue;
        for (int c = 0; c < CLIENTS; c++)
            collect(phase, id, c, &ret->seen[id][c]);
        free(track->changes);
        free(track->due);
    }
    free(phase);
}

static void start_changers(struct phase *phase) {
    for (int id = 0; id < KINDS; id++) {
        struct changer *changer = &phase->changers[id];

        if (!phase->world->used[id])
            continue;
        prepare_track(phase, id);
        start_thread(&changer->thread, make_changes, changer);
        await(&changer->ready, patience(), sources_kinds[id].name,
              "its first change takes too long");
    }
}

void sources_run_phase(sources_world_t *world, const sources_plan_t *plan,
                       sources_outcome_t *ret) {
    struct phase *phase = bench_alloc(1, sizeof(*phase));
    bench_random_t random = {plan->seed};
    uint64_t began, cpu[AUDIENCES];
    pid_t servers[AUDIENCES];

    phase->plan = plan;
    phase->world = world;
    for (int i = 0; i < AUDIENCES; i++)
        servers[i] = sources_serve(world, (sources_audience_t)i, plan->settings);
    start_changers(phase);
    start_clients(phase, &random);

    began = bench_now_ns();
    for (int i = 0; i < AUDIENCES; i++)
        cpu[i] = sources_cpu_ns(servers[i]);
    run_changes(phase);
    for (int i = 0; i < AUDIENCES; i++)
        ret->cpu_ns[i] = (double)(sources_cpu_ns(servers[i]) - cpu[i]);
    ret->minutes = (double)(bench_now_ns() - began) / 60e9;
    ret->changes = plan->changes;

    stop_clients(phase);
    for (int i = 0; i < AUDIENCES; i++)
        sources_stop(servers[i], SIGTERM);
    finish(phase, ret);
}
