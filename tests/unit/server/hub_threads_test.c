/* SPDX-License-Identifier: MIT
 *
 * The hub between threads: publishers, workers that come and go, and watchers that are
 * started and stopped from all sides. Also runs under TSan. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "server/hub/hub.h"
#include "support.h"

#define URI(text) (&(const tdg__target_t){TDG__TARGET_URI, (text), strlen(text)})

enum { WORKERS = 3, PUBLISHERS = 3, CHANGES = 2000, ALL = PUBLISHERS * CHANGES };
enum { WAIT_SECONDS = 60, MAX_SPINS = 100000000 };

/* ---- An event to wait for ----------------------------------------------- */

struct event {
    pthread_mutex_t lock;
    pthread_cond_t happened;
    bool is_set;
};

#define EVENT_INIT                                                                       \
    { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false }

static void event_set(void *arg) {
    struct event *event = arg;

    pthread_mutex_lock(&event->lock);
    event->is_set = true;
    pthread_cond_signal(&event->happened);
    pthread_mutex_unlock(&event->lock);
}

/* Waits, and resets it. Other threads than the first must not fail a test: abort. */
static void event_wait(struct event *event) {
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    pthread_mutex_lock(&event->lock);
    while (!event->is_set)
        if (pthread_cond_timedwait(&event->happened, &event->lock, &until) != 0)
            abort();
    event->is_set = false;
    pthread_mutex_unlock(&event->lock);
}

/* ---- Publishers and workers --------------------------------------------- */

struct worker {
    pthread_t thread;
    tdg__hub_t *hub;
    tdg__inbox_t *inbox;
    struct event woken;
    uint64_t seen[ALL]; /* numbers, in the order of taking */
    size_t n_seen;
    size_t unfiltered;
    uint64_t last_of[PUBLISHERS]; /* the number last seen of each publisher's URI */
};

struct publisher {
    pthread_t thread;
    tdg__hub_t *hub;
    char uri[8];
    atomic_size_t refused; /* how often it had to try again */
    int error;
};

static void publish_one(struct publisher *p) {
    int rv;

    while ((rv = tdg__hub_publish(p->hub, URI(p->uri), NULL, false)) == TDG_EAGAIN) {
        atomic_fetch_add(&p->refused, 1);
        sched_yield();
    }
    if (rv < 0)
        p->error = rv;
}

static void *publish_all(void *arg) {
    struct publisher *p = arg;

    for (int i = 0; i < CHANGES; i++)
        publish_one(p);
    return NULL;
}

static void note_change(struct worker *w, const tdg__inbox_entry_t *entry) {
    w->seen[w->n_seen++] = entry->number;
    w->unfiltered += entry->unfiltered ? 1 : 0;
    w->last_of[entry->change->name[2] - '0'] = entry->number;
    tdg__change_unref(entry->change);
}

/* Takes until the last number was seen. */
static void *take_all(void *arg) {
    struct worker *w = arg;

    while (w->n_seen == 0 || w->seen[w->n_seen - 1] < ALL) {
        tdg__inbox_entry_t entries[16];
        size_t n;

        event_wait(&w->woken);
        while ((n = tdg__inbox_take(w->inbox, entries, COUNT(entries))) > 0)
            for (size_t i = 0; i < n; i++)
                note_change(w, &entries[i]);
    }
    return NULL;
}

static struct worker workers[WORKERS];
static struct publisher publishers[PUBLISHERS];

static void join(struct worker *w, tdg__hub_t *hub, size_t room) {
    static const struct worker fresh = {.woken = EVENT_INIT};
    uint64_t number;

    *w = fresh;
    w->hub = hub;
    assert_int_equal(tdg__inbox_create(room, event_set, &w->woken, &w->inbox), 0);
    assert_int_equal(tdg__hub_join(hub, w->inbox, &number), 0);
    assert_int_equal(number, 0);
}

static void start_publishers(tdg__hub_t *hub) {
    for (int i = 0; i < PUBLISHERS; i++) {
        publishers[i].hub = hub;
        publishers[i].error = 0;
        atomic_store(&publishers[i].refused, 0);
        snprintf(publishers[i].uri, sizeof(publishers[i].uri), "a:%d", i);
        assert_int_equal(
            pthread_create(&publishers[i].thread, NULL, publish_all, &publishers[i]), 0);
    }
}

static void end_publishers(void) {
    for (int i = 0; i < PUBLISHERS; i++) {
        pthread_join(publishers[i].thread, NULL);
        assert_int_equal(publishers[i].error, 0);
    }
}

/* Publishes everything to all workers, with inboxes of this size. */
static void run_all(size_t room) {
    tdg__hub_t *hub;

    assert_int_equal(tdg__hub_create(NULL, &hub), 0);
    for (int i = 0; i < WORKERS; i++) {
        join(&workers[i], hub, room);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, take_all, &workers[i]),
                         0);
    }
    start_publishers(hub);
    end_publishers();
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    assert_int_equal(tdg__hub_last_number(hub), ALL);
    for (int i = 0; i < WORKERS; i++) {
        tdg__hub_leave(hub, workers[i].inbox);
        tdg__inbox_unref(workers[i].inbox);
    }
    tdg__hub_destroy(hub);
}

static void every_worker_sees_all_changes_in_the_same_order(void **state) {
    (void)state;
    run_all(ALL);
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(workers[i].n_seen, ALL);
        assert_int_equal(workers[i].unfiltered, 0);
        for (size_t k = 0; k < ALL; k++)
            assert_int_equal(workers[i].seen[k], k + 1);
        for (int p = 0; p < PUBLISHERS; p++)
            assert_int_equal(workers[i].last_of[p], workers[0].last_of[p]);
    }
}

static void with_small_inboxes_order_and_the_last_of_each_resource_stay(void **state) {
    (void)state;
    run_all(4);
    for (int i = 0; i < WORKERS; i++) {
        for (size_t k = 1; k < workers[i].n_seen; k++)
            assert_true(workers[i].seen[k] > workers[i].seen[k - 1]);
        for (int p = 0; p < PUBLISHERS; p++)
            assert_int_equal(workers[i].last_of[p], workers[0].last_of[p]);
        if (workers[i].n_seen < ALL) /* a gap is never without a sign */
            assert_true(workers[i].unfiltered > 0);
    }
}

static void take_until_last(tdg__inbox_t *inbox, uint64_t last) {
    tdg__inbox_entry_t entry = {.number = 0};

    for (size_t spins = 0; spins < MAX_SPINS && entry.number < last; spins++) {
        if (tdg__inbox_take(inbox, &entry, 1) == 1)
            tdg__change_unref(entry.change);
        else
            sched_yield();
    }
    assert_int_equal(entry.number, last);
}

static void publishers_try_again_until_a_full_inbox_is_taken_from(void **state) {
    tdg__hub_t *hub;

    (void)state;
    assert_int_equal(tdg__hub_create(NULL, &hub), 0);
    join(&workers[0], hub, 1);
    assert_int_equal(tdg__hub_publish(hub, URI("a:9"), NULL, false), 0);
    start_publishers(hub);
    for (int i = 0; i < PUBLISHERS; i++)
        for (size_t spins = 0; atomic_load(&publishers[i].refused) == 0; spins++) {
            assert_true(spins < MAX_SPINS);
            sched_yield();
        }
    assert_int_equal(tdg__hub_last_number(hub), 1);
    take_until_last(workers[0].inbox, ALL + 1);
    end_publishers();
    tdg__hub_leave(hub, workers[0].inbox);
    tdg__inbox_unref(workers[0].inbox);
    tdg__hub_destroy(hub);
}

/* ---- Coming and going --------------------------------------------------- */

struct visitor {
    pthread_t thread;
    tdg__hub_t *hub;
    bool complete; /* saw every number from joining on, without a gap */
    atomic_size_t visits;
    atomic_bool *over;
};

static bool visit(struct visitor *v) {
    struct event woken = EVENT_INIT;
    tdg__inbox_t *inbox;
    tdg__inbox_entry_t entry;
    uint64_t number;
    bool complete = true;

    if (tdg__inbox_create(ALL, event_set, &woken, &inbox) < 0 ||
        tdg__hub_join(v->hub, inbox, &number) < 0)
        abort();
    for (int i = 0; i < 3 && !atomic_load(v->over); i++)
        sched_yield();
    tdg__hub_leave(v->hub, inbox);
    tdg__inbox_close(inbox); /* `woken` goes now */
    while (tdg__inbox_take(inbox, &entry, 1) == 1) {
        complete &= entry.number == ++number;
        tdg__change_unref(entry.change);
    }
    tdg__inbox_unref(inbox);
    return complete;
}

static void *visit_often(void *arg) {
    struct visitor *v = arg;

    v->complete = true;
    while (!atomic_load(v->over)) {
        v->complete &= visit(v);
        atomic_fetch_add(&v->visits, 1);
    }
    return NULL;
}

static void workers_come_and_go_while_others_publish(void **state) {
    struct visitor visitors[2];
    atomic_bool over = false;
    tdg__hub_t *hub;

    (void)state;
    assert_int_equal(tdg__hub_create(NULL, &hub), 0);
    for (int i = 0; i < 2; i++) {
        visitors[i].hub = hub;
        visitors[i].over = &over;
        atomic_init(&visitors[i].visits, 0);
        assert_int_equal(
            pthread_create(&visitors[i].thread, NULL, visit_often, &visitors[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        while (atomic_load(&visitors[i].visits) == 0)
            sched_yield(); /* or all could be published before it has come at all */
    start_publishers(hub);
    end_publishers();
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(visitors[i].thread, NULL);
        assert_true(visitors[i].complete);
    }
    tdg__hub_destroy(hub);
}

/* ---- Watching while it stops, forced ------------------------------------ */

struct slow {
    tdg__hub_t *hub;
    tdg__inbox_t *inboxes[2];
    struct event inside, go_on;
    bool slow_start, slow_stop;
    int start_answer;
    atomic_int running;
    int log; /* +1, -1, +1, …: as digits 1 and 2 */
};

static void run_slowly(struct slow *s, bool slowly, int digit) {
    if (atomic_fetch_add(&s->running, 1) != 0)
        abort();
    if (slowly) {
        event_set(&s->inside);
        event_wait(&s->go_on);
    }
    s->log = s->log * 10 + digit;
    atomic_fetch_sub(&s->running, 1);
}

static int start_slowly(void *user, const tdg__target_t *target) {
    struct slow *s = user;

    (void)target;
    run_slowly(s, s->slow_start, 1);
    return s->start_answer;
}

static void stop_slowly(void *user, const tdg__target_t *target) {
    struct slow *s = user;

    (void)target;
    run_slowly(s, s->slow_stop, 2);
}

static void slow_setup(struct slow *s) {
    tdg__hub_opts_t opts = {.start = start_slowly, .stop = stop_slowly, .user = s};
    uint64_t number;

    assert_int_equal(tdg__hub_create(&opts, &s->hub), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tdg__inbox_create(4, NULL, NULL, &s->inboxes[i]), 0);
        assert_int_equal(tdg__hub_join(s->hub, s->inboxes[i], &number), 0);
    }
}

static void slow_done(struct slow *s) {
    tdg__hub_destroy(s->hub);
    for (int i = 0; i < 2; i++)
        tdg__inbox_unref(s->inboxes[i]);
}

static void expect_answer(tdg__inbox_t *inbox, int error) {
    tdg__inbox_entry_t entry;

    assert_int_equal(tdg__inbox_take(inbox, &entry, 1), 1);
    assert_null(entry.change);
    assert_int_equal(entry.error, error);
    tdg__free((char *)(uintptr_t)entry.target.name);
}

static void expect_nothing(tdg__inbox_t *inbox) {
    tdg__inbox_entry_t entry;

    assert_int_equal(tdg__inbox_take(inbox, &entry, 1), 0);
}

static void *unwatch_first(void *arg) {
    struct slow *s = arg;

    tdg__hub_unwatch(s->hub, s->inboxes[0], URI("w:1"));
    return NULL;
}

static void *watch_first(void *arg) {
    struct slow *s = arg;

    return (void *)(intptr_t)tdg__hub_watch(s->hub, s->inboxes[0], URI("w:1"));
}

static void a_watch_that_comes_while_it_stops_starts_it_again(void **state) {
    struct slow s = {.inside = EVENT_INIT, .go_on = EVENT_INIT, .slow_stop = true};
    pthread_t thread;

    (void)state;
    slow_setup(&s);
    assert_int_equal((intptr_t)watch_first(&s), TDG_EAGAIN);
    expect_answer(s.inboxes[0], 0);
    assert_int_equal(pthread_create(&thread, NULL, unwatch_first, &s), 0);
    event_wait(&s.inside);
    assert_int_equal(tdg__hub_watch(s.hub, s.inboxes[1], URI("w:1")), TDG_EAGAIN);
    expect_nothing(s.inboxes[1]);
    s.slow_stop = false;
    event_set(&s.go_on);
    pthread_join(thread, NULL);
    assert_int_equal(s.log, 121);
    expect_answer(s.inboxes[1], 0);
    expect_nothing(s.inboxes[0]);
    slow_done(&s);
    assert_int_equal(s.log, 1212);
}

static void a_watch_that_is_taken_back_while_it_stops_starts_nothing(void **state) {
    struct slow s = {.inside = EVENT_INIT, .go_on = EVENT_INIT, .slow_stop = true};
    pthread_t thread;

    (void)state;
    slow_setup(&s);
    assert_int_equal((intptr_t)watch_first(&s), TDG_EAGAIN);
    assert_int_equal(pthread_create(&thread, NULL, unwatch_first, &s), 0);
    event_wait(&s.inside);
    assert_int_equal(tdg__hub_watch(s.hub, s.inboxes[1], URI("w:1")), TDG_EAGAIN);
    tdg__hub_unwatch(s.hub, s.inboxes[1], URI("w:1"));
    event_set(&s.go_on);
    pthread_join(thread, NULL);
    slow_done(&s);
    assert_int_equal(s.log, 12);
}

static void who_comes_while_it_starts_gets_the_same_answer(void **state) {
    static const int errors[] = {0, TDG_ENOTSUP};

    (void)state;
    for (size_t i = 0; i < COUNT(errors); i++) {
        struct slow s = {.inside = EVENT_INIT,
                         .go_on = EVENT_INIT,
                         .slow_start = true,
                         .start_answer = errors[i]};
        pthread_t thread;
        void *rv;

        slow_setup(&s);
        assert_int_equal(pthread_create(&thread, NULL, watch_first, &s), 0);
        event_wait(&s.inside);
        assert_int_equal(tdg__hub_watch(s.hub, s.inboxes[1], URI("w:1")), TDG_EAGAIN);
        expect_nothing(s.inboxes[1]);
        event_set(&s.go_on);
        pthread_join(thread, &rv);
        assert_int_equal((intptr_t)rv, errors[i] == 0 ? TDG_EAGAIN : errors[i]);
        expect_answer(s.inboxes[1], errors[i]);
        if (errors[i] == 0)
            expect_answer(s.inboxes[0], 0);
        expect_nothing(s.inboxes[0]);
        slow_done(&s);
        assert_int_equal(s.log, errors[i] == 0 ? 12 : 1);
    }
}

static void an_answer_from_another_thread_may_be_faster_than_start(void **state) {
    struct slow s = {.inside = EVENT_INIT,
                     .go_on = EVENT_INIT,
                     .slow_start = true,
                     .start_answer = TDG_EAGAIN};
    pthread_t thread;

    (void)state;
    slow_setup(&s);
    assert_int_equal(pthread_create(&thread, NULL, watch_first, &s), 0);
    event_wait(&s.inside);
    assert_int_equal(tdg__hub_publish(s.hub, URI("a:1"), NULL, false), 0);
    assert_int_equal(tdg__hub_watch_done(s.hub, URI("w:1"), 0), 0);
    event_set(&s.go_on);
    pthread_join(thread, NULL);

    tdg__inbox_entry_t entry;
    assert_int_equal(tdg__inbox_take(s.inboxes[0], &entry, 1), 1);
    assert_int_equal(entry.number, 1);
    tdg__change_unref(entry.change);
    expect_answer(s.inboxes[0], 0);
    slow_done(&s);
    assert_int_equal(s.log, 12);
}

/* ---- Storm -------------------------------------------------------------- */

enum { TARGETS = 4, STEPS = 10000, STARTS = 50 };

static const char *const names[TARGETS] = {"w:0", "w:1", "w:2", "w:3"};

/* A source that checks that it is called as promised. A thread of its own answers what
 * start() has left open. */
struct source {
    tdg__hub_t *hub;
    struct {
        atomic_int inside; /* callbacks that run now */
        atomic_bool on;    /* started, and not stopped */
        atomic_bool open;  /* an answer is due */
        atomic_uint starts;
    } targets[TARGETS];
    atomic_bool over;
    atomic_int faults;
};

static size_t index_of(const tdg__target_t *target) {
    return (size_t)(target->name[2] - '0');
}

static void check(struct source *s, bool good) {
    if (!good)
        atomic_fetch_add(&s->faults, 1);
}

/* Every way to answer, one after the other. */
static int storm_start(void *user, const tdg__target_t *target) {
    struct source *s = user;
    size_t i = index_of(target);
    unsigned turn = atomic_fetch_add(&s->targets[i].starts, 1);
    int rv = 0;

    check(s, atomic_fetch_add(&s->targets[i].inside, 1) == 0);
    check(s, !atomic_load(&s->targets[i].on));
    switch (turn % 5) {
    case 0:
        atomic_store(&s->targets[i].on, true);
        break;
    case 1:
        rv = TDG_ENOTSUP;
        break;
    case 2: /* at once */
        atomic_store(&s->targets[i].on, true);
        check(s, tdg__hub_publish(s->hub, target, NULL, false) == 0);
        check(s, tdg__hub_watch_done(s->hub, target, 0) == 0);
        rv = TDG_EAGAIN;
        break;
    default: /* later, from elsewhere */
        atomic_store(&s->targets[i].open, true);
        rv = TDG_EAGAIN;
    }
    sched_yield();
    check(s, atomic_fetch_sub(&s->targets[i].inside, 1) == 1);
    return rv;
}

static void storm_stop(void *user, const tdg__target_t *target) {
    struct source *s = user;
    size_t i = index_of(target);

    check(s, atomic_fetch_add(&s->targets[i].inside, 1) == 0);
    check(s, atomic_exchange(&s->targets[i].on, false));
    sched_yield();
    check(s, atomic_fetch_sub(&s->targets[i].inside, 1) == 1);
}

/* Takes its time, so that many change their minds while it starts. */
static void *answer_open(void *arg) {
    struct dice dice = {5, 5};
    struct source *s = arg;
    unsigned turn = 0;

    for (;;) {
        bool over = atomic_load(&s->over), idle = true;

        for (size_t i = 0; i < TARGETS; i++) {
            int error = turn % 3 == 0 ? TDG_ENOTSUP : 0;

            if ((!over && roll(&dice, 8) != 0) ||
                !atomic_exchange(&s->targets[i].open, false))
                continue;
            idle = false;
            turn++;
            if (error == 0)
                atomic_store(&s->targets[i].on, true);
            check(s, tdg__hub_watch_done(s->hub, URI(names[i]), error) == 0);
        }
        if (over && idle)
            return NULL;
        sched_yield();
    }
}

/* A worker that wants things and changes its mind. */
struct fickle {
    pthread_t thread;
    struct source *source;
    tdg__inbox_t *inbox;
    struct event woken;
    uint64_t seed;
    enum { NO, WAITS, YES } has[TARGETS];
    uint64_t last_number;
    size_t answers;
};

static void fickle_take(struct fickle *f) {
    tdg__inbox_entry_t entry;

    while (tdg__inbox_take(f->inbox, &entry, 1) == 1) {
        if (entry.change != NULL) {
            check(f->source, entry.number > f->last_number);
            f->last_number = entry.number;
        } else if (entry.error == 0) {
            /* A target that somebody else has had armed before: an older number. */
            check(f->source, entry.number > 0);
        }
        if (entry.change == NULL) {
            size_t i = index_of(&entry.target);

            check(f->source, f->has[i] == WAITS); /* none that is outdated */
            f->has[i] = entry.error == 0 ? YES : NO;
            f->answers++;
            if (entry.error == 0)
                check(f->source, atomic_load(&f->source->targets[i].on));
            tdg__free((char *)(uintptr_t)entry.target.name);
        }
        tdg__change_unref(entry.change);
    }
}

static void fickle_step(struct fickle *f, size_t i) {
    tdg__hub_t *hub = f->source->hub;

    if (f->has[i] == NO) {
        int rv = tdg__hub_watch(hub, f->inbox, URI(names[i]));

        check(f->source, rv == TDG_EAGAIN || rv == TDG_ENOTSUP);
        f->has[i] = rv == TDG_EAGAIN ? WAITS : NO;
    } else {
        tdg__hub_unwatch(hub, f->inbox, URI(names[i]));
        f->has[i] = NO;
    }
}

static bool waits(const struct fickle *f) {
    for (size_t i = 0; i < TARGETS; i++)
        if (f->has[i] == WAITS)
            return true;
    return false;
}

static bool busy_enough(struct source *s) {
    for (size_t i = 0; i < TARGETS; i++)
        if (atomic_load(&s->targets[i].starts) < STARTS)
            return false;
    return true;
}

static void *be_fickle(void *arg) {
    struct fickle *f = arg;
    struct dice dice = {f->seed, f->seed};

    for (int step = 0; step < STEPS || (step < MAX_SPINS && !busy_enough(f->source));
         step++) {
        fickle_step(f, roll(&dice, TARGETS));
        if (roll(&dice, 3) == 0)
            fickle_take(f);
        if (roll(&dice, 4) == 0)
            sched_yield(); /* let answers come */
    }

    /* Whoever waits is answered in the end. */
    fickle_take(f);
    while (waits(f)) {
        event_wait(&f->woken);
        fickle_take(f);
    }
    if (f->seed % 2 == 0)
        for (size_t i = 0; i < TARGETS; i++)
            if (f->has[i] != NO)
                fickle_step(f, i);
    tdg__hub_leave(f->source->hub, f->inbox);
    return NULL;
}

static void in_a_storm_start_and_stop_take_turns_and_all_are_answered(void **state) {
    static struct source source;
    struct fickle fickles[WORKERS];
    tdg__hub_opts_t opts = {.start = storm_start, .stop = storm_stop, .user = &source};
    pthread_t answerer;
    uint64_t number;

    (void)state;
    assert_int_equal(tdg__hub_create(&opts, &source.hub), 0);
    assert_int_equal(pthread_create(&answerer, NULL, answer_open, &source), 0);
    for (int i = 0; i < WORKERS; i++) {
        fickles[i] = (struct fickle){
            .source = &source, .woken = EVENT_INIT, .seed = 17 + (uint64_t)i};
        assert_int_equal(
            tdg__inbox_create(1 << 16, event_set, &fickles[i].woken, &fickles[i].inbox),
            0);
        assert_int_equal(tdg__hub_join(source.hub, fickles[i].inbox, &number), 0);
    }
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&fickles[i].thread, NULL, be_fickle, &fickles[i]),
                         0);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(fickles[i].thread, NULL);
        assert_true(fickles[i].answers > 0);
        tdg__inbox_unref(fickles[i].inbox);
    }
    atomic_store(&source.over, true);
    pthread_join(answerer, NULL);

    assert_int_equal(atomic_load(&source.faults), 0);
    for (size_t i = 0; i < TARGETS; i++) {
        assert_true(atomic_load(&source.targets[i].starts) >= STARTS);
        assert_false(atomic_load(&source.targets[i].on));
        assert_int_equal(atomic_load(&source.targets[i].inside), 0);
    }
    tdg__hub_destroy(source.hub);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_worker_sees_all_changes_in_the_same_order),
        cmocka_unit_test(with_small_inboxes_order_and_the_last_of_each_resource_stay),
        cmocka_unit_test(publishers_try_again_until_a_full_inbox_is_taken_from),
        cmocka_unit_test(workers_come_and_go_while_others_publish),
        cmocka_unit_test(a_watch_that_comes_while_it_stops_starts_it_again),
        cmocka_unit_test(a_watch_that_is_taken_back_while_it_stops_starts_nothing),
        cmocka_unit_test(who_comes_while_it_starts_gets_the_same_answer),
        cmocka_unit_test(an_answer_from_another_thread_may_be_faster_than_start),
        cmocka_unit_test(in_a_storm_start_and_stop_take_turns_and_all_are_answered),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("hub_threads", tests, NULL, NULL);
}
