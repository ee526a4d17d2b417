/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/queue.h"
#include "support.h"

enum { BOUND = 3 };

struct fixture {
    tdg__queue_t *queue;
    int items[16]; /* things to push */
    size_t wakes;
    pthread_t woken_on;
    void *taken_inside; /* by a wake function that looks into the queue */
};

static void count_wake(void *user) {
    struct fixture *f = user;

    f->wakes++;
    f->woken_on = pthread_self();
}

/* Counts memory in spite of the threads: only create and destroy allocate, always on this
 * thread. */
static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    return tdg__queue_create(BOUND, count_wake, f, &f->queue);
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tdg__queue_destroy(f->queue);
    return state_destroy(state);
}

/* Pushes the items numbered from `first` on. */
static void push(struct fixture *f, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        assert_int_equal(tdg__queue_push(f->queue, &f->items[i % 16]), 0);
}

/* Takes at most `max` and fails unless they are `count` items from number `first` on. */
static void expect_taken(struct fixture *f, size_t max, size_t first, size_t count) {
    void *items[16] = {NULL};

    assert_int_equal(tdg__queue_take(f->queue, items, max), count);
    for (size_t i = 0; i < count; i++)
        assert_ptr_equal(items[i], &f->items[(first + i) % 16]);
    for (size_t i = count; i < 16; i++)
        assert_null(items[i]);
}

/* ---- One thread --------------------------------------------------------- */

static void gives_nothing_while_it_is_empty(void **state) {
    expect_taken(*state, 16, 0, 0);
}

static void gives_items_oldest_first(void **state) {
    struct fixture *f = *state;

    push(f, 0, 3);
    expect_taken(f, 16, 0, 3);
    expect_taken(f, 16, 0, 0);
}

static void gives_no_more_than_asked_for(void **state) {
    struct fixture *f = *state;

    push(f, 0, 3);
    expect_taken(f, 0, 0, 0);
    expect_taken(f, 2, 0, 2);
    expect_taken(f, 2, 2, 1);
}

static void keeps_the_order_however_often_it_goes_round(void **state) {
    struct fixture *f = *state;

    for (size_t fill = 1; fill <= BOUND; fill++) {
        push(f, 0, fill);
        for (size_t i = 0; i < 50; i++) { /* `fill` stay inside */
            if (fill == BOUND)
                expect_taken(f, 1, i, 1);
            push(f, i + fill, 1);
            if (fill < BOUND)
                expect_taken(f, 1, i, 1);
        }
        expect_taken(f, 16, 50, fill);
    }
}

static void says_when_it_is_full(void **state) {
    struct fixture *f = *state;

    for (size_t round = 0; round < 4; round++) { /* wherever the ring begins */
        push(f, 0, BOUND);
        assert_int_equal(tdg__queue_push(f->queue, &f->items[9]), TDG_EAGAIN);
        assert_int_equal(tdg__queue_push(f->queue, &f->items[9]), TDG_EAGAIN);
        expect_taken(f, 1, 0, 1);
        push(f, BOUND, 1);
        assert_int_equal(tdg__queue_push(f->queue, &f->items[9]), TDG_EAGAIN);
        expect_taken(f, 16, 1, BOUND); /* and has not taken what it refused */
        push(f, 5, 1);
        expect_taken(f, 1, 5, 1);
    }
}

static void may_hold_only_one(void **state) {
    struct fixture *f = *state;
    tdg__queue_t *one;
    void *item;

    assert_int_equal(tdg__queue_create(1, NULL, NULL, &one), 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tdg__queue_push(one, &f->items[i]), 0);
        assert_int_equal(tdg__queue_push(one, &f->items[9]), TDG_EAGAIN);
        assert_int_equal(tdg__queue_take(one, &item, 1), 1);
        assert_ptr_equal(item, &f->items[i]);
    }
    tdg__queue_destroy(one);
}

static void takes_nothing_more_once_closed(void **state) {
    struct fixture *f = *state;

    tdg__queue_close(f->queue);
    assert_int_equal(tdg__queue_push(f->queue, &f->items[0]), TDG_EENDED);
    expect_taken(f, 16, 0, 0);
    tdg__queue_close(f->queue); /* again does no harm */
    assert_int_equal(tdg__queue_push(f->queue, &f->items[0]), TDG_EENDED);
}

static void gives_what_it_has_once_closed(void **state) {
    struct fixture *f = *state;

    push(f, 0, 2);
    tdg__queue_close(f->queue);
    expect_taken(f, 1, 0, 1);
    expect_taken(f, 16, 1, 1);
}

/* Waiting for room would be in vain. */
static void says_closed_rather_than_full(void **state) {
    struct fixture *f = *state;

    push(f, 0, BOUND);
    tdg__queue_close(f->queue);
    assert_int_equal(tdg__queue_push(f->queue, &f->items[9]), TDG_EENDED);
}

static void wakes_only_when_it_was_empty(void **state) {
    struct fixture *f = *state;

    push(f, 0, 1);
    assert_int_equal(f->wakes, 1);
    push(f, 1, 2);
    assert_int_equal(f->wakes, 1);
    expect_taken(f, 2, 0, 2);
    push(f, 3, 1); /* one is still there: the taking thread has not seen the end */
    assert_int_equal(f->wakes, 1);
    expect_taken(f, 16, 2, 2);
    assert_int_equal(f->wakes, 1);
    push(f, 4, 1);
    assert_int_equal(f->wakes, 2);
}

static void does_not_wake_for_an_item_that_it_refuses(void **state) {
    struct fixture *f = *state;

    push(f, 0, BOUND);
    assert_int_equal(tdg__queue_push(f->queue, &f->items[9]), TDG_EAGAIN);
    assert_int_equal(f->wakes, 1);
    expect_taken(f, 16, 0, BOUND);
    tdg__queue_close(f->queue);
    assert_int_equal(tdg__queue_push(f->queue, &f->items[9]), TDG_EENDED);
    assert_int_equal(f->wakes, 1);
}

static void *push_one(void *arg) {
    struct fixture *f = arg;

    return tdg__queue_push(f->queue, &f->items[0]) == 0 ? NULL : arg;
}

static void wakes_on_the_pushing_thread(void **state) {
    struct fixture *f = *state;
    pthread_t thread;
    void *wrong;

    assert_int_equal(pthread_create(&thread, NULL, push_one, f), 0);
    assert_int_equal(pthread_join(thread, &wrong), 0);
    assert_null(wrong);
    assert_int_equal(f->wakes, 1);
    assert_true(pthread_equal(f->woken_on, thread));
}

static void take_one(void *user) {
    struct fixture *f = user;

    f->wakes++;
    tdg__queue_take(f->queue, &f->taken_inside, 1);
}

/* It is called without the lock, and after the item is there. */
static void lets_the_wake_function_use_the_queue(void **state) {
    struct fixture *f = *state;

    tdg__queue_destroy(f->queue);
    assert_int_equal(tdg__queue_create(BOUND, take_one, f, &f->queue), 0);
    push(f, 6, 1);
    assert_ptr_equal(f->taken_inside, &f->items[6]);
    push(f, 7, 1);
    assert_ptr_equal(f->taken_inside, &f->items[7]);
    assert_int_equal(f->wakes, 2);
}

static void works_without_a_wake_function(void **state) {
    struct fixture *f = *state;

    tdg__queue_destroy(f->queue);
    assert_int_equal(tdg__queue_create(BOUND, NULL, f, &f->queue), 0);
    push(f, 0, 2);
    expect_taken(f, 16, 0, 2);
    assert_int_equal(f->wakes, 0);
}

static void refuses_a_bound_that_makes_no_sense(void **state) {
    struct fixture *f = *state;
    tdg__queue_t *untouched = f->queue;
    size_t calls = memory_calls();

    assert_int_equal(tdg__queue_create(0, NULL, NULL, &untouched), TDG_EINVAL);
    assert_int_equal(tdg__queue_create(SIZE_MAX, NULL, NULL, &untouched), TDG_EINVAL);
    assert_int_equal(tdg__queue_create(SIZE_MAX / sizeof(void *), NULL, NULL, &untouched),
                     TDG_EINVAL);
    assert_ptr_equal(untouched, f->queue);
    assert_int_equal(memory_calls(), calls);
}

static void is_not_created_when_memory_is_out(void **state) {
    struct fixture *f = *state;
    tdg__queue_t *untouched = f->queue;

    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__queue_create(BOUND, NULL, NULL, &untouched), TDG_ENOMEM);
    assert_ptr_equal(untouched, f->queue);
    assert_int_equal(memory_live(), 1);
}

static void does_not_allocate_after_it_is_created(void **state) {
    struct fixture *f = *state;
    size_t calls = memory_calls();

    for (size_t i = 0; i < 20; i++) {
        push(f, i, BOUND);
        expect_taken(f, 16, i, BOUND);
    }
    tdg__queue_close(f->queue);
    assert_int_equal(memory_calls(), calls);
}

static void is_destroyed_with_items_inside(void **state) {
    struct fixture *f = *state;

    push(f, 0, 2);
    tdg__queue_destroy(f->queue);
    f->queue = NULL;
    assert_int_equal(memory_live(), 0);
    tdg__queue_destroy(NULL);
}

/* ---- Many threads ------------------------------------------------------- */

enum { PRODUCERS = 4, EACH = 5000, MANY = PRODUCERS * EACH, PATIENCE = 1 << 22 };

struct traffic {
    tdg__queue_t *queue;
    struct item {
        size_t producer;
        size_t number; /* among its producer's */
    } items[PRODUCERS][EACH];
    size_t accepted[PRODUCERS]; /* written by the producer, read after the join */
    size_t taken[PRODUCERS];
    size_t wrong;
    atomic_size_t finished;
    atomic_size_t wakes;
    sem_t woken; /* posted for each wake, and once when all producers have finished */
};

struct producer {
    struct traffic *traffic;
    size_t number;
};

static void post(void *user) {
    struct traffic *t = user;

    atomic_fetch_add(&t->wakes, 1);
    sem_post(&t->woken);
}

/* Pushes until there is room. Gives up when the queue is closed, or stays full so long
 * that something must be wrong. */
static bool push_patiently(tdg__queue_t *queue, void *item) {
    int rv = TDG_EAGAIN;

    for (int i = 0; i < PATIENCE && rv == TDG_EAGAIN; i++) {
        rv = tdg__queue_push(queue, item);
        if (rv == TDG_EAGAIN)
            sched_yield();
    }
    return rv == 0;
}

static void *produce(void *arg) {
    const struct producer *producer = arg;
    struct traffic *t = producer->traffic;
    size_t n = 0;

    while (n < EACH) {
        struct item *item = &t->items[producer->number][n];

        /* The taking thread reads this without a lock of its own. */
        *item = (struct item){producer->number, n};
        if (!push_patiently(t->queue, item))
            break;
        n++;
    }
    t->accepted[producer->number] = n;
    if (atomic_fetch_add(&t->finished, 1) + 1 == PRODUCERS)
        sem_post(&t->woken);
    return NULL;
}

/* Notes items that were taken; one that is not the next of its producer is wrong. */
static void note(struct traffic *t, void *const *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct item *item = items[i];

        if (item == NULL || item->number != t->taken[item->producer])
            t->wrong++;
        else
            t->taken[item->producer]++;
    }
}

/* Takes all there is, in handfuls of changing size. Returns how many. */
static size_t drain(struct traffic *t) {
    void *items[7];
    size_t all = 0, n, max = 1;

    while (t->wrong == 0 && (n = tdg__queue_take(t->queue, items, max)) > 0) {
        note(t, items, n);
        all += n;
        max = max % 7 + 1;
    }
    return all;
}

static void spin(struct traffic *t) {
    bool finished;

    do { /* once more after the last producer has finished */
        finished = atomic_load(&t->finished) == PRODUCERS;
        if (drain(t) == 0)
            sched_yield();
    } while (!finished && t->wrong == 0);
}

/* Looks into the queue only after a wake. When one is lost, the producers lose patience
 * in the end, and the last of them posts without a wake. */
static void wait_for_wakes(struct traffic *t) {
    size_t taken = 0, seen = 0;

    while (taken < MANY && t->wrong == 0) {
        assert_int_equal(sem_wait(&t->woken), 0);
        if (atomic_load(&t->wakes) == seen) {
            print_error("no wake came\n");
            return;
        }
        seen++;
        taken += drain(t);
    }
}

static void close_halfway(struct traffic *t) {
    size_t taken = 0;

    while (taken < MANY / 2 && atomic_load(&t->finished) < PRODUCERS && t->wrong == 0) {
        taken += drain(t);
        sched_yield();
    }
    tdg__queue_close(t->queue);
    spin(t);
}

/* Lets all producers push into a queue of `max` while `take` takes on this thread. Fails
 * unless what was taken is what was accepted, in the order of each producer. Returns how
 * much that was. */
static size_t run_traffic(size_t max, tdg__queue_wake_fn wake,
                          void (*take)(struct traffic *t)) {
    struct traffic *t = calloc(1, sizeof(*t));
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    size_t taken = 0;

    assert_non_null(t);
    assert_int_equal(sem_init(&t->woken, 0, 0), 0);
    assert_int_equal(tdg__queue_create(max, wake, t, &t->queue), 0);
    for (size_t i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){t, i};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    take(t);
    tdg__queue_close(t->queue); /* for producers that wait when something went wrong */
    for (size_t i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);

    assert_int_equal(t->wrong, 0);
    for (size_t i = 0; i < PRODUCERS; i++) {
        assert_int_equal(t->taken[i], t->accepted[i]);
        taken += t->taken[i];
    }
    tdg__queue_destroy(t->queue);
    sem_destroy(&t->woken);
    free(t);
    return taken;
}

static void loses_and_doubles_nothing_between_threads(void **state) {
    (void)state;
    assert_int_equal(run_traffic(64, NULL, spin), MANY);
}

static void loses_and_doubles_nothing_when_always_full(void **state) {
    (void)state;
    assert_int_equal(run_traffic(1, NULL, spin), MANY);
}

static void wakes_often_enough_for_a_thread_that_sleeps(void **state) {
    (void)state;
    assert_int_equal(run_traffic(64, post, wait_for_wakes), MANY);
}

static void gives_all_it_accepted_when_closed_between_pushes(void **state) {
    size_t taken;

    (void)state;
    taken = run_traffic(64, NULL, close_halfway);
    assert_in_range(taken, MANY / 2, MANY);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(gives_nothing_while_it_is_empty),
        TEST(gives_items_oldest_first),
        TEST(gives_no_more_than_asked_for),
        TEST(keeps_the_order_however_often_it_goes_round),
        TEST(says_when_it_is_full),
        TEST(may_hold_only_one),
        TEST(takes_nothing_more_once_closed),
        TEST(gives_what_it_has_once_closed),
        TEST(says_closed_rather_than_full),
        TEST(wakes_only_when_it_was_empty),
        TEST(does_not_wake_for_an_item_that_it_refuses),
        TEST(wakes_on_the_pushing_thread),
        TEST(lets_the_wake_function_use_the_queue),
        TEST(works_without_a_wake_function),
        TEST(refuses_a_bound_that_makes_no_sense),
        TEST(is_not_created_when_memory_is_out),
        TEST(does_not_allocate_after_it_is_created),
        TEST(is_destroyed_with_items_inside),
        TEST(loses_and_doubles_nothing_between_threads),
        TEST(loses_and_doubles_nothing_when_always_full),
        TEST(wakes_often_enough_for_a_thread_that_sleeps),
        TEST(gives_all_it_accepted_when_closed_between_pushes),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
