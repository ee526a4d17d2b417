/* SPDX-License-Identifier: MIT */
#include "client/session/backoff.h"

#include "support.h"

enum { FIRST = 500, MOST = 30000, MANY = 20000 };

static tdg__backoff_t fresh(uint32_t per_minute) {
    tdg__backoff_t backoff;

    tdg__backoff_init(&backoff, FIRST, MOST, per_minute);
    return backoff;
}

static void waits_double_between_half_and_all_up_to_the_longest(void **state) {
    (void)state;
    for (uint64_t random = 0; random < 3000; random += 7) {
        tdg__backoff_t backoff = fresh(TDG__BACKOFF_MAX_PER_MINUTE);
        int64_t now = 0, wait = FIRST;

        for (int i = 0; i < 12; i++) {
            int64_t at = tdg__backoff_next(&backoff, now, random);

            assert_in_range(at - now, wait / 2, wait);
            now = at;
            wait = wait * 2 < MOST ? wait * 2 : MOST;
        }
    }
}

static void jitter_reaches_both_ends(void **state) {
    int64_t least = INT64_MAX, most = 0;

    (void)state;
    for (uint64_t random = 0; random < 1000; random++) {
        tdg__backoff_t backoff = fresh(10);
        int64_t at = tdg__backoff_next(&backoff, 0, random);

        least = at < least ? at : least;
        most = at > most ? at : most;
    }
    assert_int_equal(least, FIRST / 2);
    assert_int_equal(most, FIRST);
}

static void never_sooner_than_the_server_asks(void **state) {
    tdg__backoff_t backoff = fresh(100);

    (void)state;
    tdg__backoff_floor(&backoff, 5000);
    assert_int_equal(tdg__backoff_next(&backoff, 1000, 0), 6000);
    assert_int_equal(tdg__backoff_next(&backoff, 6000, 0), 11000);
    tdg__backoff_floor(&backoff, 0);
    assert_int_equal(tdg__backoff_next(&backoff, 11000, 0), 12000);
}

static void the_longer_wait_that_it_asks_for_counts(void **state) {
    tdg__backoff_t backoff = fresh(100);

    (void)state;
    assert_int_equal(tdg__backoff_earliest(&backoff, 1001, -1), 1001);
    assert_int_equal(tdg__backoff_earliest(&backoff, 1000, 5000), 6000);
    tdg__backoff_floor(&backoff, 3000);
    assert_int_equal(tdg__backoff_earliest(&backoff, 1000, 5000), 6000);
    assert_int_equal(tdg__backoff_earliest(&backoff, 1000, 2000), 4000);
    assert_int_equal(tdg__backoff_earliest(&backoff, 1000, -1), 4000);
}

static void waits_that_it_asks_for_one_after_the_other_end_together(void **state) {
    tdg__backoff_t backoff = fresh(100);

    (void)state;
    for (int64_t now = 1001; now <= 1100; now++)
        assert_int_equal(tdg__backoff_earliest(&backoff, now, 5000), 6100);
}

static void the_servers_wish_is_bounded_to_ten_minutes(void **state) {
    tdg__backoff_t backoff = fresh(100);

    (void)state;
    tdg__backoff_floor(&backoff, UINT32_MAX);
    assert_int_equal(tdg__backoff_next(&backoff, 0, 0), 600000);
    tdg__backoff_floor(&backoff, 0);
    assert_int_equal(tdg__backoff_earliest(&backoff, 0, UINT32_MAX), 600000);
}

static void short_again_only_after_it_was_steady(void **state) {
    static const struct {
        int64_t lasted;
        bool is_short;
    } cases[] = {
        {0, false},
        {TDG__BACKOFF_STEADY_MS - 1, false},
        {TDG__BACKOFF_STEADY_MS, true},
        {3600000, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__backoff_t backoff = fresh(100);
        int64_t now = 0;

        for (int k = 0; k < 10; k++)
            now = tdg__backoff_next(&backoff, now, 0);
        tdg__backoff_up(&backoff, now);
        tdg__backoff_up(&backoff, now + 1); /* told twice: the first time counts */
        now += cases[i].lasted;
        assert_int_equal(tdg__backoff_next(&backoff, now, 0) - now,
                         cases[i].is_short ? FIRST / 2 : MOST / 2);
    }
}

static void a_server_that_accepts_and_closes_meets_growing_waits(void **state) {
    tdg__backoff_t backoff = fresh(100);
    int64_t now = 0, at = 0;

    (void)state;
    for (int i = 0; i < 10; i++) {
        tdg__backoff_up(&backoff, now);
        at = tdg__backoff_next(&backoff, now, 0);
        tdg__backoff_up(&backoff, at); /* works, is lost at once */
        assert_true(i == 0 || at - now >= FIRST);
        now = at;
    }
    assert_int_equal(tdg__backoff_next(&backoff, now, 0) - now, MOST / 2);
}

static int by_time(const void *a, const void *b) {
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;

    return (one > other) - (one < other);
}

/* Ups, losses, floors that come and go, and several that wait at once: whatever happens,
 * no window of 60 s has more attempts than are allowed. */
static void no_minute_has_more_attempts_than_allowed(void **state) {
    static const uint32_t limits[] = {1, 2, 20, TDG__BACKOFF_MAX_PER_MINUTE, 1000, 0};
    static int64_t attempts[MANY];
    struct dice dice = dice_from_env();

    (void)state;
    for (size_t k = 0; k < COUNT(limits); k++) {
        tdg__backoff_t backoff;
        uint32_t most = limits[k] == 0 ? 1 : limits[k];
        int64_t now = 5;

        most = most > TDG__BACKOFF_MAX_PER_MINUTE ? TDG__BACKOFF_MAX_PER_MINUTE : most;
        tdg__backoff_init(&backoff, 1, 2000, limits[k]);
        for (size_t i = 0; i < MANY; i++) {
            if (roll(&dice, 50) == 0)
                tdg__backoff_floor(&backoff, roll(&dice, 3) * roll(&dice, 200000));
            if (roll(&dice, 3) == 0)
                tdg__backoff_up(&backoff, now);
            now += roll(&dice, 4) == 0 ? roll(&dice, 20000) : 0;
            attempts[i] = tdg__backoff_next(&backoff, now, roll(&dice, 1U << 30));
            assert_true(attempts[i] >= now);
            if (roll(&dice, 2) == 0) /* else another one is lost meanwhile */
                now = attempts[i];
        }
        qsort(attempts, MANY, sizeof(attempts[0]), by_time);
        for (size_t i = most; i < MANY; i++)
            if (attempts[i] - attempts[i - most] < 60000)
                fail_msg("limit %u, seed %llu: attempt %zu", most,
                         (unsigned long long)dice.seed, i);
    }
}

static void odd_settings_still_wait(void **state) {
    tdg__backoff_t backoff;

    (void)state;
    tdg__backoff_init(&backoff, 0, 0, 10);
    assert_in_range(tdg__backoff_next(&backoff, 100, UINT64_MAX), 100, 101);
    tdg__backoff_init(&backoff, 1000, 10, 10); /* the longest is not below the first */
    assert_int_equal(tdg__backoff_next(&backoff, 0, 0), 500);
    tdg__backoff_init(&backoff, UINT32_MAX, UINT32_MAX, 10);
    for (int i = 0; i < 5; i++)
        assert_in_range(tdg__backoff_next(&backoff, 0, 0), UINT32_MAX / 2, UINT32_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_double_between_half_and_all_up_to_the_longest),
        cmocka_unit_test(jitter_reaches_both_ends),
        cmocka_unit_test(never_sooner_than_the_server_asks),
        cmocka_unit_test(the_longer_wait_that_it_asks_for_counts),
        cmocka_unit_test(waits_that_it_asks_for_one_after_the_other_end_together),
        cmocka_unit_test(the_servers_wish_is_bounded_to_ten_minutes),
        cmocka_unit_test(short_again_only_after_it_was_steady),
        cmocka_unit_test(a_server_that_accepts_and_closes_meets_growing_waits),
        cmocka_unit_test(no_minute_has_more_attempts_than_allowed),
        cmocka_unit_test(odd_settings_still_wait),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
