/* SPDX-License-Identifier: MIT
 *
 * Several engines in several threads share changes and one numbering, each fed through a
 * queue of its own: what the workers of a server do. Also runs under TSan. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "core/engine.h"
#include "support.h"

enum { WORKERS = 3, CHANGES = 2000, STREAMS = 5, ROOM = 64 };

static const char uri_text[] = "db://orders/42";

struct worker {
    pthread_t thread;
    pthread_mutex_t lock; /* for the queue */
    pthread_cond_t changed;
    tdg__change_t *queue[ROOM];
    size_t queued;

    size_t delivered;
    uint64_t last[STREAMS]; /* the number last told to each stream */
    bool in_order;
    int error; /* of the first call that failed */
};

/* Waits where the queue is full, and where it is empty. */
static void push(struct worker *worker, tdg__change_t *change) {
    pthread_mutex_lock(&worker->lock);
    while (worker->queued == ROOM)
        pthread_cond_wait(&worker->changed, &worker->lock);
    worker->queue[worker->queued++] = change;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}

static size_t take_all(struct worker *worker, tdg__change_t **changes) {
    pthread_mutex_lock(&worker->lock);
    while (worker->queued == 0)
        pthread_cond_wait(&worker->changed, &worker->lock);
    size_t count = worker->queued;
    memcpy(changes, worker->queue, count * sizeof(changes[0]));
    worker->queued = 0;
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    return count;
}

static void note_error(struct worker *worker, int rv) {
    if (rv < 0 && worker->error == 0)
        worker->error = rv;
}

static void drain(struct worker *worker, tdg__engine_t *engine) {
    tdg__note_t note;

    for (tdg__stream_t s = tdg__engine_next_ready(engine, 0); s != 0;
         s = tdg__engine_next_ready(engine, s))
        while (tdg__engine_take(engine, s, &note) == 1) {
            uint64_t *last = tdg__engine_stream_user(engine, s);

            worker->in_order &= note.change->number > *last;
            *last = note.change->number;
            worker->delivered++;
        }
}

static void set_up(struct worker *worker, tdg__engine_t *engine) {
    tdg__target_t uri = tdg__target_uri(uri_text);

    for (int i = 0; i < STREAMS; i++) {
        tdg__stream_t stream;

        note_error(worker, tdg__engine_open(engine, &worker->last[i], &stream));
        note_error(worker, tdg__engine_subscribe(engine, stream, &uri, NULL, NULL));
        note_error(worker, tdg__engine_acknowledge(engine, stream, NULL));
    }
}

/* Takes what was queued until the change with the last number has been applied. */
static void *work(void *arg) {
    struct worker *worker = arg;
    tdg__engine_opts_t opts = {
        .defaults = {.timing = {.mode = TDG__TIMING_IMMEDIATE},
                     .rate_limit_ms = TDG__RATE_OFF},
        .shared_numbers = true,
        .epoch = 1,
    };
    tdg__engine_t *engine;
    uint64_t reached = 0;

    note_error(worker, tdg__engine_create(&opts, &engine));
    if (worker->error != 0)
        return NULL;
    set_up(worker, engine);
    while (reached < CHANGES) {
        tdg__change_t *changes[ROOM];
        size_t n = take_all(worker, changes);

        for (size_t i = 0; i < n; i++) {
            tdg__change_t *change = changes[i];

            note_error(worker, tdg__engine_apply(engine, change));
            reached = change->number;
            tdg__change_unref(change);
            drain(worker, engine);
        }
    }
    tdg__engine_destroy(engine);
    return NULL;
}

/* One stamped change for all; the queues are short, so this often has to wait for them.
 */
static void publish(struct worker *workers, uint64_t number) {
    tdg__target_t uri = tdg__target_uri(uri_text);
    json_t *metadata = json_pack("{s:I}", "size", (json_int_t)number);
    tdg__change_t *change;

    assert_int_equal(tdg__change_create(&uri, metadata, false, 0, 1000, &change), 0);
    json_decref(metadata);
    assert_int_equal(tdg__change_stamp(change, number), 0);
    for (int i = 0; i < WORKERS; i++) {
        push(&workers[i], tdg__change_ref(change));
    }
    tdg__change_unref(change);
}

static void engines_in_several_threads_share_changes(void **state) {
    static struct worker workers[WORKERS];

    (void)state;
    for (int i = 0; i < WORKERS; i++) {
        workers[i].in_order = true;
        pthread_mutex_init(&workers[i].lock, NULL);
        pthread_cond_init(&workers[i].changed, NULL);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint64_t number = 1; number <= CHANGES; number++)
        publish(workers, number);

    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].error, 0);
        assert_true(workers[i].in_order);
        assert_int_equal(workers[i].delivered, (size_t)CHANGES * STREAMS);
        for (int s = 0; s < STREAMS; s++)
            assert_int_equal(workers[i].last[s], CHANGES);
        pthread_cond_destroy(&workers[i].changed);
        pthread_mutex_destroy(&workers[i].lock);
    }
}

/* ---- Limits for all of them together ------------------------------------ */

enum { LIMIT = 40, ROUNDS = 300, WANTED = 25 };

struct crowd {
    pthread_t thread;
    tdg__tally_t *tally;
    uint64_t most; /* subscriptions that all had together, as far as it has seen */
    size_t refused;
    int error;
};

static int wish(tdg__engine_t *engine, tdg__stream_t stream, int number, bool wanted) {
    char text[16];
    tdg__target_t uri;

    snprintf(text, sizeof(text), "a:%d", number);
    uri = tdg__target_uri(text);
    return wanted ? tdg__engine_subscribe(engine, stream, &uri, NULL, NULL)
                  : tdg__engine_unsubscribe(engine, stream, &uri);
}

/* Subscribes and leaves, over and over; at the end the engine goes with what is left. */
static void *come_and_go(void *arg) {
    struct crowd *crowd = arg;
    tdg__engine_opts_t opts = {.max_total = LIMIT, .tally = crowd->tally};
    tdg__engine_t *engine;
    tdg__stream_t stream;

    crowd->error = tdg__engine_create(&opts, &engine);
    if (crowd->error != 0)
        return NULL;
    crowd->error = tdg__engine_open(engine, NULL, &stream);
    for (int i = 0; i < ROUNDS * WANTED && crowd->error == 0; i++) {
        uint64_t now = atomic_load(&crowd->tally->subscriptions);
        int rv = wish(engine, stream, i % WANTED, i / WANTED % 2 == 0);

        crowd->most = now > crowd->most ? now : crowd->most;
        crowd->refused += rv == TDG_ETOTAL;
        if (rv < 0 && rv != TDG_ETOTAL && rv != TDG_ENOTFOUND)
            crowd->error = rv;
    }
    tdg__engine_destroy(engine);
    return NULL;
}

static void engines_in_several_threads_share_their_limits(void **state) {
    tdg__tally_t tally = {0};
    struct crowd crowds[WORKERS] = {0};

    (void)state;
    for (int i = 0; i < WORKERS; i++) {
        crowds[i].tally = &tally;
        assert_int_equal(pthread_create(&crowds[i].thread, NULL, come_and_go, &crowds[i]),
                         0);
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(crowds[i].thread, NULL), 0);
        assert_int_equal(crowds[i].error, 0);
        assert_true(crowds[i].most <= LIMIT);
    }
    assert_int_equal(atomic_load(&tally.subscriptions), 0);
    assert_int_equal(atomic_load(&tally.bytes), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engines_in_several_threads_share_changes),
        cmocka_unit_test(engines_in_several_threads_share_their_limits),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_threads", tests, NULL, NULL);
}
