/* SPDX-License-Identifier: MIT
 *
 * The heap of timers alone, and beside a list on random cases. TDG_SEED=n tries one seed.
 */
#include "base/heap.h"
#include "support.h"

enum { TIMERS = 300 };

struct fixture {
    tdg__heap_t heap;
    tdg__timer_t timers[TIMERS];
    struct { /* the naive list, by the place of the timer above */
        bool exists;
        bool armed;
        int64_t at;
        uint64_t order;
    } naive[TIMERS];
    uint64_t order;
    struct dice dice;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    f->dice = dice_from_env();
    tdg__heap_init(&f->heap);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tdg__heap_done(&f->heap);
    return state_destroy(state);
}

static void add(struct fixture *f, size_t i) {
    assert_int_equal(tdg__heap_add(&f->heap, &f->timers[i], (uint32_t)i), 0);
    f->naive[i].exists = true;
}

static void add_many(struct fixture *f, size_t count) {
    for (size_t i = 0; i < count; i++)
        add(f, i);
}

static void arm(struct fixture *f, size_t i, int64_t at) {
    tdg__heap_arm(&f->heap, &f->timers[i], at);
    f->naive[i].armed = true;
    f->naive[i].at = at;
    f->naive[i].order = f->order++;
}

static void disarm(struct fixture *f, size_t i) {
    tdg__heap_disarm(&f->heap, &f->timers[i]);
    f->naive[i].armed = false;
}

static void remove_timer(struct fixture *f, size_t i) {
    tdg__heap_remove(&f->heap, &f->timers[i]);
    f->naive[i].armed = false;
    f->naive[i].exists = false;
}

/* The place of the earliest timer; TIMERS when none is armed. */
static size_t naive_first(const struct fixture *f) {
    size_t first = TIMERS;

    for (size_t i = 0; i < TIMERS; i++)
        if (f->naive[i].armed &&
            (first == TIMERS || f->naive[i].at < f->naive[first].at ||
             (f->naive[i].at == f->naive[first].at &&
              f->naive[i].order < f->naive[first].order)))
            first = i;
    return first;
}

/* Pops once; fails unless it is what the list says. Returns whether one was due. */
static bool expect_pop(struct fixture *f, int64_t now) {
    size_t first = naive_first(f);
    bool due = first < TIMERS && f->naive[first].at <= now;
    tdg__timer_t *timer = tdg__heap_pop(&f->heap, now);

    if (timer != (due ? &f->timers[first] : NULL))
        fail_msg("seed %llu, time %lld: %s popped instead of timer %zu",
                 (unsigned long long)f->dice.seed, (long long)now,
                 timer == NULL ? "none was" : "another was", first);
    if (due)
        f->naive[first].armed = false;
    return due;
}

static void expect_state(struct fixture *f) {
    size_t first = naive_first(f);
    size_t armed = 0, existing = 0;

    for (size_t i = 0; i < TIMERS; i++) {
        armed += f->naive[i].armed;
        existing += f->naive[i].exists;
        if (f->naive[i].exists &&
            (f->timers[i].kind != i || (f->timers[i].pos != 0) != f->naive[i].armed))
            fail_msg("seed %llu: timer %zu: kind %u, place %u",
                     (unsigned long long)f->dice.seed, i, (unsigned)f->timers[i].kind,
                     (unsigned)f->timers[i].pos);
    }
    if (f->heap.count != armed || f->heap.timers != existing || f->heap.room < existing ||
        tdg__heap_next(&f->heap) != (armed == 0 ? INT64_MAX : f->naive[first].at))
        fail_msg("seed %llu: %zu of %zu armed, room for %zu, next at %lld",
                 (unsigned long long)f->dice.seed, f->heap.count, f->heap.timers,
                 f->heap.room, (long long)tdg__heap_next(&f->heap));
}

/* ---- Beside a list ------------------------------------------------------ */

/* One random step: due times below `times`, few of them to have many equal ones. Timers
 * exist below `most`. */
static void step(struct fixture *f, size_t times, size_t most) {
    size_t i = roll(&f->dice, TIMERS);

    if (!f->naive[i].exists) {
        if (i < most)
            add(f, i);
        return;
    }

    switch (roll(&f->dice, 8)) {
    case 0:
        disarm(f, i); /* armed or not */
        break;
    case 1:
        expect_pop(f, (int64_t)roll(&f->dice, times));
        break;
    case 2:
        if (i >= most || roll(&f->dice, 4) == 0)
            remove_timer(f, i);
        break;
    default:
        arm(f, i, (int64_t)roll(&f->dice, times));
    }
}

static void beside_a_list(struct fixture *f, size_t times) {
    static const size_t most[] = {5, 20, TIMERS, 40, 17, 200, 1, TIMERS};

    for (size_t phase = 0; phase < sizeof(most) / sizeof(most[0]); phase++) {
        for (int i = 0; i < 4000; i++) {
            step(f, times, most[phase]);
            expect_state(f);
        }
        if (phase % 2 == 1)
            while (expect_pop(f, INT64_MAX))
                expect_state(f);
    }
    for (size_t i = 0; i < TIMERS; i++)
        if (f->naive[i].exists)
            remove_timer(f, i);
    assert_int_equal(memory_live(), 0);
}

static void agrees_with_a_list_when_many_times_are_equal(void **state) {
    beside_a_list(*state, 4);
}

static void agrees_with_a_list_when_few_times_are_equal(void **state) {
    beside_a_list(*state, 1000000);
}

static void agrees_with_a_list_when_all_times_are_equal(void **state) {
    beside_a_list(*state, 1);
}

/* Whichever of the armed ones goes, the rest comes in order. */
static void keeps_the_order_when_any_one_is_disarmed(void **state) {
    struct fixture *f = *state;

    add_many(f, 40);
    for (size_t gone = 0; gone < 40; gone++) {
        for (size_t i = 0; i < 40; i++)
            arm(f, i, (int64_t)roll(&f->dice, 50));
        disarm(f, gone);
        while (expect_pop(f, INT64_MAX))
            continue;
    }
}

static void keeps_the_order_when_any_one_is_moved_anywhere(void **state) {
    struct fixture *f = *state;

    add_many(f, 24);
    for (size_t moved = 0; moved < 24; moved++) {
        for (int64_t at = -1; at <= 24; at++) {
            for (size_t i = 0; i < 24; i++)
                arm(f, i, (int64_t)(i * 7 % 24));
            arm(f, moved, at);
            while (expect_pop(f, INT64_MAX))
                continue;
        }
    }
}

/* ---- One thing at a time ------------------------------------------------ */

static void has_nothing_due_while_it_is_empty(void **state) {
    struct fixture *f = *state;

    assert_int_equal(tdg__heap_next(&f->heap), INT64_MAX);
    assert_null(tdg__heap_pop(&f->heap, INT64_MAX));
}

static void has_nothing_due_while_none_is_armed(void **state) {
    struct fixture *f = *state;

    add_many(f, 3);
    assert_int_equal(tdg__heap_next(&f->heap), INT64_MAX);
    assert_null(tdg__heap_pop(&f->heap, INT64_MAX));
}

static void gives_a_timer_from_its_due_time_on(void **state) {
    struct fixture *f = *state;

    add(f, 0);
    arm(f, 0, 100);
    assert_int_equal(tdg__heap_next(&f->heap), 100);
    assert_null(tdg__heap_pop(&f->heap, 99));
    assert_ptr_equal(tdg__heap_pop(&f->heap, 100), &f->timers[0]);
    assert_null(tdg__heap_pop(&f->heap, 100));
}

static void gives_timers_of_one_time_in_the_order_of_arming(void **state) {
    struct fixture *f = *state;

    add_many(f, TIMERS);
    for (size_t i = 0; i < TIMERS; i++)
        tdg__heap_arm(&f->heap, &f->timers[i * 7 % TIMERS], 5);
    for (size_t i = 0; i < TIMERS; i++)
        assert_ptr_equal(tdg__heap_pop(&f->heap, 5), &f->timers[i * 7 % TIMERS]);
}

static void puts_a_timer_armed_again_behind_the_others(void **state) {
    struct fixture *f = *state;

    add_many(f, 3);
    for (size_t i = 0; i < 3; i++)
        tdg__heap_arm(&f->heap, &f->timers[i], 5);
    tdg__heap_arm(&f->heap, &f->timers[0], 5);
    assert_ptr_equal(tdg__heap_pop(&f->heap, 5), &f->timers[1]);
    assert_ptr_equal(tdg__heap_pop(&f->heap, 5), &f->timers[2]);
    assert_ptr_equal(tdg__heap_pop(&f->heap, 5), &f->timers[0]);
}

static void moves_an_armed_timer_rather_than_doubling_it(void **state) {
    struct fixture *f = *state;

    add(f, 0);
    tdg__heap_arm(&f->heap, &f->timers[0], 5);
    tdg__heap_arm(&f->heap, &f->timers[0], 9);
    assert_int_equal(f->heap.count, 1);
    assert_int_equal(tdg__heap_next(&f->heap), 9);
    tdg__heap_arm(&f->heap, &f->timers[0], 2);
    assert_int_equal(tdg__heap_next(&f->heap), 2);
    assert_ptr_equal(tdg__heap_pop(&f->heap, 10), &f->timers[0]);
    assert_null(tdg__heap_pop(&f->heap, 10));
}

static void disarms_what_it_pops(void **state) {
    struct fixture *f = *state;

    add_many(f, 2);
    arm(f, 0, 1);
    arm(f, 1, 2);
    assert_ptr_equal(tdg__heap_pop(&f->heap, 1), &f->timers[0]);
    assert_int_equal(f->timers[0].pos, 0);
    tdg__heap_disarm(&f->heap, &f->timers[0]); /* nothing happens */
    assert_int_equal(f->heap.count, 1);
    assert_int_equal(tdg__heap_next(&f->heap), 2);
}

static void takes_times_from_the_first_to_the_last(void **state) {
    static const int64_t times[] = {INT64_MAX, INT64_MIN, 0, -1, 1};
    struct fixture *f = *state;

    add_many(f, 5);
    for (size_t i = 0; i < 5; i++)
        arm(f, i, times[i]);
    assert_int_equal(tdg__heap_next(&f->heap), INT64_MIN);
    assert_ptr_equal(tdg__heap_pop(&f->heap, INT64_MIN), &f->timers[1]);
    assert_null(tdg__heap_pop(&f->heap, -2));
    assert_ptr_equal(tdg__heap_pop(&f->heap, -1), &f->timers[3]);
    assert_ptr_equal(tdg__heap_pop(&f->heap, 1), &f->timers[2]);
    assert_ptr_equal(tdg__heap_pop(&f->heap, 1), &f->timers[4]);
    assert_null(tdg__heap_pop(&f->heap, INT64_MAX - 1));
    assert_ptr_equal(tdg__heap_pop(&f->heap, INT64_MAX), &f->timers[0]);
}

static void makes_a_timer_that_is_not_armed_and_knows_its_kind(void **state) {
    struct fixture *f = *state;

    memset(&f->timers[0], 0xa5, sizeof(f->timers[0]));
    assert_int_equal(tdg__heap_add(&f->heap, &f->timers[0], 77), 0);
    assert_int_equal(f->timers[0].pos, 0);
    assert_int_equal(f->timers[0].kind, 77);
    arm(f, 0, 1);
    assert_int_equal(tdg__heap_pop(&f->heap, 1)->kind, 77);
}

static void forgets_an_armed_timer_that_goes(void **state) {
    struct fixture *f = *state;

    add_many(f, 3);
    for (size_t i = 0; i < 3; i++)
        arm(f, i, (int64_t)i);
    remove_timer(f, 0);
    memset(&f->timers[0], 0xa5, sizeof(f->timers[0])); /* its owner is gone */
    assert_int_equal(f->heap.timers, 2);
    assert_ptr_equal(tdg__heap_pop(&f->heap, 9), &f->timers[1]);
    assert_ptr_equal(tdg__heap_pop(&f->heap, 9), &f->timers[2]);
    assert_null(tdg__heap_pop(&f->heap, 9));
}

/* ---- Memory ------------------------------------------------------------- */

static void takes_no_memory_before_the_first_timer(void **state) {
    struct fixture *f = *state;

    assert_int_equal(tdg__heap_bytes(&f->heap), 0);
    assert_int_equal(memory_live(), 0);
}

static void arms_every_timer_without_allocating(void **state) {
    struct fixture *f = *state;

    for (size_t count = 1; count <= TIMERS; count++) {
        size_t calls;

        add(f, count - 1);
        calls = memory_calls();
        for (size_t i = 0; i < count; i++)
            arm(f, i, (int64_t)i % 10);
        for (size_t i = 0; i < count; i += 2)
            arm(f, i, 3);
        for (size_t i = 0; i < count; i += 3)
            disarm(f, i);
        while (tdg__heap_pop(&f->heap, 9) != NULL)
            continue;
        assert_int_equal(memory_calls(), calls);
    }
}

static void keeps_room_for_those_that_stay_when_others_go(void **state) {
    struct fixture *f = *state;

    add_many(f, TIMERS);
    for (size_t i = 0; i < TIMERS; i++)
        arm(f, i, (int64_t)i);
    for (size_t gone = 0; gone < TIMERS; gone++) {
        remove_timer(f, gone);
        for (size_t i = gone + 1; i < TIMERS; i += 5)
            arm(f, i, (int64_t)(TIMERS - i));
        expect_state(f);
    }
}

static void shrinks_when_most_timers_are_gone(void **state) {
    struct fixture *f = *state;
    size_t bytes;

    add_many(f, TIMERS);
    bytes = tdg__heap_bytes(&f->heap);
    for (size_t i = 0; i < TIMERS - 10; i++)
        remove_timer(f, i);
    assert_true(tdg__heap_bytes(&f->heap) <= bytes / 8);
    assert_int_equal(memory_live(), 1);
}

/* At any number of timers, one coming and going for ever must not resize each time. */
static void does_not_resize_back_and_forth(void **state) {
    struct fixture *f = *state;

    add(f, 0);
    for (size_t count = 1; count < TIMERS; count++) {
        size_t calls;

        add(f, count);
        remove_timer(f, count);
        calls = memory_calls();
        for (int i = 0; i < 3; i++) {
            add(f, count);
            remove_timer(f, count);
        }
        assert_int_equal(memory_calls(), calls);
        add(f, count);
    }
}

static void tells_how_many_bytes_it_has(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < TIMERS; i++) {
        add(f, i);
        assert_int_equal(tdg__heap_bytes(&f->heap),
                         f->heap.room * sizeof(tdg__heap_entry_t));
        assert_true(tdg__heap_bytes(&f->heap) >= (i + 1) * sizeof(tdg__heap_entry_t));
    }
}

static void gives_all_memory_back_when_the_last_timer_goes(void **state) {
    struct fixture *f = *state;

    for (int round = 0; round < 2; round++) { /* and can be used again */
        add_many(f, TIMERS);
        for (size_t i = 0; i < TIMERS; i++)
            arm(f, i, (int64_t)i);
        for (size_t i = 0; i < TIMERS; i++)
            remove_timer(f, i);
        assert_int_equal(memory_live(), 0);
        assert_int_equal(tdg__heap_bytes(&f->heap), 0);
        assert_int_equal(tdg__heap_next(&f->heap), INT64_MAX);
    }
}

static void gives_all_memory_back_when_done(void **state) {
    struct fixture *f = *state;

    add_many(f, 20);
    arm(f, 3, 1);
    tdg__heap_done(&f->heap);
    assert_int_equal(memory_live(), 0);
    assert_int_equal(tdg__heap_next(&f->heap), INT64_MAX);
}

static void is_intact_when_there_is_no_memory_for_a_timer(void **state) {
    struct fixture *f = *state;
    size_t failures = 0;

    for (size_t i = 0; i < TIMERS; i++) {
        memory_fail(1, MEMORY_ONCE);
        if (f->heap.timers == f->heap.room) {
            assert_int_equal(tdg__heap_add(&f->heap, &f->timers[i], 0), TDG_ENOMEM);
            failures++;
        }
        memory_fail(0, MEMORY_ONCE);
        expect_state(f);
        add(f, i);
        arm(f, i, (int64_t)roll(&f->dice, 100));
    }
    assert_true(failures > 1); /* the first room, and more of it */
    while (expect_pop(f, INT64_MAX))
        continue;
}

static void stays_large_when_there_is_no_memory_to_shrink(void **state) {
    struct fixture *f = *state;
    size_t bytes;

    add_many(f, TIMERS);
    bytes = tdg__heap_bytes(&f->heap);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    for (size_t i = 0; i < TIMERS - 1; i++) {
        remove_timer(f, i);
        expect_state(f);
    }
    assert_true(memory_failed());
    assert_int_equal(tdg__heap_bytes(&f->heap), bytes);
    arm(f, TIMERS - 1, 1);
    assert_true(expect_pop(f, 1));
    remove_timer(f, TIMERS - 1);
    assert_int_equal(memory_live(), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(agrees_with_a_list_when_many_times_are_equal),
        TEST(agrees_with_a_list_when_few_times_are_equal),
        TEST(agrees_with_a_list_when_all_times_are_equal),
        TEST(keeps_the_order_when_any_one_is_disarmed),
        TEST(keeps_the_order_when_any_one_is_moved_anywhere),
        TEST(has_nothing_due_while_it_is_empty),
        TEST(has_nothing_due_while_none_is_armed),
        TEST(gives_a_timer_from_its_due_time_on),
        TEST(gives_timers_of_one_time_in_the_order_of_arming),
        TEST(puts_a_timer_armed_again_behind_the_others),
        TEST(moves_an_armed_timer_rather_than_doubling_it),
        TEST(disarms_what_it_pops),
        TEST(takes_times_from_the_first_to_the_last),
        TEST(makes_a_timer_that_is_not_armed_and_knows_its_kind),
        TEST(forgets_an_armed_timer_that_goes),
        TEST(takes_no_memory_before_the_first_timer),
        TEST(arms_every_timer_without_allocating),
        TEST(keeps_room_for_those_that_stay_when_others_go),
        TEST(shrinks_when_most_timers_are_gone),
        TEST(does_not_resize_back_and_forth),
        TEST(tells_how_many_bytes_it_has),
        TEST(gives_all_memory_back_when_the_last_timer_goes),
        TEST(gives_all_memory_back_when_done),
        TEST(is_intact_when_there_is_no_memory_for_a_timer),
        TEST(stays_large_when_there_is_no_memory_to_shrink),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
