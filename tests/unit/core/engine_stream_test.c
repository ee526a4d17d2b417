/* SPDX-License-Identifier: MIT
 *
 * Streams: how they come and go, and that nothing stays behind. */
#include <stdio.h>

#include "unit/core/fixture.h"

/* ---- Streams ------------------------------------------------------------ */

static void a_stream_knows_its_user(void **state) {
    struct fixture *f = *state;
    int mine;
    tdg__stream_t s = 0;

    assert_int_equal(tdg__engine_open(f->engine, &mine, &s), 0);
    assert_ptr_equal(tdg__engine_stream_user(f->engine, s), &mine);
    tdg__engine_close(f->engine, s);
    assert_null(tdg__engine_stream_user(f->engine, s));
}

static void closing_a_stream_removes_all_its_subscriptions(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    subscribe_template(f, s, "b:{x}");
    subscribe_list(f, s, "tools");
    subscribe_only(f, s, URI("a:3"), NULL);
    tdg__engine_close(f->engine, s);
    expect_empty(f);
}

static void a_session_that_ends_leaves_no_subscriber_behind(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "data://metrics");
    tdg__engine_close(f->engine, s);
    assert_int_equal(subscribers(f, URI("data://metrics"), true), 0);
}

static void a_change_after_the_session_is_gone_is_silently_skipped(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    tdg__engine_close(f->engine, s);
    changed(f, "a:1", NULL);
    expect_silence(f);
}

static void closing_drops_what_is_pending_in_every_stage(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "ready:1");
    subscribe_settings(f, s, "window:1", batch(100));
    subscribe_settings(f, s, "limit:1", rate_limit(1000));
    changed(f, "limit:1", NULL);
    expect_note(f, s, "limit:1", 1, 0);
    changed(f, "limit:1", NULL);
    changed(f, "ready:1", NULL);
    changed(f, "window:1", NULL);
    tdg__engine_close(f->engine, s);
    assert_int_equal(counters(f).pending, 0);
    advance(f, 10000);
    expect_silence(f);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
}

static void one_stream_closing_does_not_affect_the_others(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, t, "a:1");
    changed(f, "a:1", NULL);
    tdg__engine_close(f->engine, s);
    expect_note(f, t, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    expect_note(f, t, "a:1", 2, 0);
}

static void
a_stream_closed_in_the_middle_of_its_window_leaves_the_others_in_it(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_settings(f, t, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 50);
    tdg__engine_close(f->engine, s);
    advance(f, 50);
    expect_note(f, t, "a:1", 1, 0);
}

static void closing_twice_is_ignored(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    tdg__engine_close(f->engine, s);
    tdg__engine_close(f->engine, s);
    tdg__engine_close(f->engine, 0);
    assert_int_equal(counters(f).streams, 0);
}

static void expect_not_open(struct fixture *f, tdg__stream_t s) {
    tdg__cursor_t cursor;
    tdg__note_t note;
    size_t count = 0;

    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"), NULL, NULL),
                     TDG_ENOTFOUND);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, URI("a:1")), TDG_ENOTFOUND);
    assert_int_equal(tdg__engine_acknowledge(f->engine, s, URI("a:1")), TDG_ENOTFOUND);
    assert_int_equal(tdg__engine_acknowledge(f->engine, s, NULL), TDG_ENOTFOUND);
    assert_int_equal(tdg__engine_end(f->engine, s, 0), TDG_ENOTFOUND);
    assert_int_equal(tdg__engine_cursor(f->engine, s, &cursor), TDG_ENOTFOUND);
    assert_int_equal(tdg__engine_take(f->engine, s, &note), TDG_ENOTFOUND);
    assert_int_equal(tdg__engine_block(f->engine, s, true), TDG_ENOTFOUND);
    assert_int_equal(tdg__engine_each_subscription(f->engine, s, count_visit, &count),
                     TDG_ENOTFOUND);
    assert_null(tdg__engine_stream_user(f->engine, s));
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
}

static void a_handle_of_a_closed_stream_is_noticed_everywhere(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    tdg__engine_close(f->engine, s);
    expect_not_open(f, s);
}

static void a_handle_that_never_was_is_noticed_everywhere(void **state) {
    struct fixture *f = *state;

    open_stream(f);
    expect_not_open(f, 0);
    expect_not_open(f, UINT64_MAX);
    expect_not_open(f, 12345);
}

static void an_old_handle_does_not_reach_the_stream_in_its_place(void **state) {
    struct fixture *f = *state;
    tdg__stream_t old = open_stream(f), fresh;

    tdg__engine_close(f->engine, old);
    fresh = open_stream(f);
    assert_true(fresh != old);
    subscribe(f, fresh, "a:1");
    changed(f, "a:1", NULL);
    expect_not_open(f, old);
    tdg__engine_close(f->engine, old);
    expect_note(f, fresh, "a:1", 1, 0);
}

static void handles_stay_apart_over_many_reuses(void **state) {
    struct fixture *f = *state;
    tdg__stream_t first = open_stream(f), last = first;

    for (int i = 0; i < 1000; i++) {
        tdg__engine_close(f->engine, last);
        last = open_stream(f);
        assert_true(last != first);
    }
    expect_not_open(f, first);
    assert_int_equal(counters(f).streams, 1);
}

static void a_new_stream_inherits_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t;

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    tdg__engine_block(f->engine, s, true);
    tdg__engine_close(f->engine, s);
    t = open_stream(f);
    expect_nothing(f, t);
    expect_cursor(f, t, 1);
    subscribe(f, t, "a:1");
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), t);
    expect_note(f, t, "a:1", 2, 0);
}

/* Defect 13 of erlmcp: state is kept per server, so a second connection gets nowhere. */
static void a_second_stream_does_not_depend_on_the_first(void **state) {
    struct fixture *f = *state;
    tdg__stream_t first = open_stream(f), second;

    subscribe_only(f, first, URI("a:1"), NULL);
    assert_int_equal(tdg__engine_block(f->engine, first, true), 0);
    second = open_stream(f);
    expect_state(f, second, URI("a:1"), TDG__NOT_SUBSCRIBED);
    subscribe(f, second, "a:1");
    expect_state(f, first, URI("a:1"), TDG__ARMED);
    changed(f, "a:1", NULL);
    expect_note(f, second, "a:1", 1, 0);
    expect_cursor(f, second, 1);
    expect_cursor(f, first, 0);
    assert_int_equal(tdg__engine_end(f->engine, first, 0), 0);
    changed(f, "a:1", NULL);
    expect_note(f, second, "a:1", 2, 0);
}

static void a_stream_may_close_while_the_ready_ones_are_walked(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f), u = open_stream(f), next;

    subscribe(f, s, "a:1");
    subscribe(f, t, "a:1");
    subscribe(f, u, "a:1");
    changed(f, "a:1", NULL);
    next = tdg__engine_next_ready(f->engine, 0);
    assert_int_equal(next, s);
    tdg__engine_close(f->engine, s);
    tdg__engine_close(f->engine, t);
    assert_int_equal(tdg__engine_next_ready(f->engine, next), u);
    assert_int_equal(tdg__engine_next_ready(f->engine, u), 0);
}

/* ---- Ending ------------------------------------------------------------- */

static void an_ended_stream_has_its_end_to_take_and_nothing_else(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_end(f->engine, s, TDG_ETIMEDOUT), 0);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), s);
    expect_end(f, s, TDG_ETIMEDOUT, 0);
    expect_nothing(f, s);
    expect_silence(f);
}

static void the_end_carries_the_cursor_to_come_back_with(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    expect_note(f, s, "a:1", 1, 0);
    assert_int_equal(tdg__engine_end(f->engine, s, 0), 0);
    changed(f, "a:1", NULL);
    expect_cursor(f, s, 1);
    expect_end(f, s, 0, 1);
}

static void ending_removes_the_subscriptions(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "b:{x}");
    assert_int_equal(tdg__engine_end(f->engine, s, 0), 0);
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    assert_int_equal(counters(f).subscriptions, 0);
    assert_int_equal(counters(f).templates, 0);
    assert_int_equal(counters(f).streams, 1);
    changed(f, "a:1", NULL);
    expect_end(f, s, 0, 0);
    expect_nothing(f, s);
}

static void ending_twice_keeps_the_first_reason(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(tdg__engine_end(f->engine, s, 11), 0);
    assert_int_equal(tdg__engine_end(f->engine, s, 22), 0);
    expect_end(f, s, 11, 0);
    assert_int_equal(tdg__engine_end(f->engine, s, 33), 0);
    expect_nothing(f, s);
}

static void an_ended_stream_takes_no_more_subscriptions(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(tdg__engine_end(f->engine, s, 0), 0);
    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"), NULL, NULL),
                     TDG_EENDED);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, URI("a:1")), TDG_ENOTFOUND);
    tdg__engine_close(f->engine, s);
    expect_empty(f);
}

/* ---- Death -------------------------------------------------------------- */

static void thousands_of_streams_dropping_at_once_leave_nothing(void **state) {
    enum { STREAMS = 10000 };
    struct fixture *f = *state;
    tdg__stream_t *s = calloc(STREAMS, sizeof(*s));
    char uri[32];

    assert_non_null(s);
    for (int i = 0; i < STREAMS; i++) {
        s[i] = open_stream(f);
        snprintf(uri, sizeof(uri), "own:%d", i);
        subscribe(f, s[i], uri);
        subscribe_settings(f, s[i], "shared:1", batch(100));
    }
    assert_int_equal(counters(f).subscriptions, 2 * STREAMS);
    assert_int_equal(counters(f).resources, STREAMS + 1);

    for (int i = 0; i < STREAMS; i++)
        tdg__engine_close(f->engine, s[(i * 7919) % STREAMS]);
    expect_empty(f);
    free(s);
}

static void streams_dropping_with_everything_pending_leave_nothing(void **state) {
    enum { STREAMS = 1000 };
    struct fixture *f = *state;
    tdg__stream_t s[STREAMS];

    for (int i = 0; i < STREAMS; i++) {
        s[i] = open_stream(f);
        subscribe(f, s[i], "a:1");
        subscribe_template(f, s[i], "a:{x}");
        subscribe_settings(f, s[i], "a:2", debounce(500, 5000));
    }
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:3", NULL);
    for (int i = 0; i < STREAMS; i++)
        tdg__engine_close(f->engine, s[i]);
    assert_int_equal(counters(f).streams, 0);
    assert_int_equal(counters(f).subscriptions, 0);
    assert_int_equal(counters(f).templates, 0);
    assert_int_equal(counters(f).pending, 0);
    expect_silence(f);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
}

static size_t work_of_closing(struct fixture *f, tdg__stream_t s) {
    size_t before = memory_calls();

    tdg__engine_close(f->engine, s);
    return memory_calls() - before;
}

/* Defect 8 of erlmcp. Work is counted in calls of the allocator, so that no clock
 * decides. One that looks at all resources would also be noticed by its time: see the
 * next test. */
static void dropping_a_stream_costs_its_own_subscriptions_only(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), crowd = open_stream(f);
    size_t alone, in_a_crowd;
    char uri[32];

    subscribe(f, s, "mine:1");
    subscribe(f, s, "mine:2");
    alone = work_of_closing(f, s);

    for (int i = 0; i < 9000; i++) {
        snprintf(uri, sizeof(uri), "other:%d", i);
        subscribe(f, crowd, uri);
    }
    s = open_stream(f);
    subscribe(f, s, "mine:1");
    subscribe(f, s, "mine:2");
    in_a_crowd = work_of_closing(f, s);
    assert_true(in_a_crowd <= alone + 4);
    assert_int_equal(counters(f).subscriptions, 9000);
}

/* With 200,000 subscriptions, work per drop in proportion to all resources means 10^10
 * steps: the test does not end. */
static void dropping_streams_one_by_one_is_linear_in_all(void **state) {
    enum { STREAMS = 20, EACH = 10000 };
    struct fixture *f = *state;
    tdg__stream_t s[STREAMS];
    char uri[32];

    for (int i = 0; i < STREAMS; i++) {
        s[i] = open_stream(f);
        for (int j = 0; j < EACH; j++) {
            snprintf(uri, sizeof(uri), "a:%d/%d", i, j);
            subscribe(f, s[i], uri);
        }
    }
    assert_int_equal(counters(f).subscriptions, STREAMS * EACH);
    for (int i = 0; i < STREAMS; i++)
        tdg__engine_close(f->engine, s[i]);
    expect_empty(f);
}

static void a_stream_with_very_many_subscriptions_drops_them_all(void **state) {
    enum { EACH = 10000 };
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    char uri[32];

    for (int i = 0; i < EACH; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        subscribe(f, s, uri);
        changed(f, uri, NULL);
    }
    assert_int_equal(counters(f).pending, EACH);
    tdg__engine_close(f->engine, s);
    assert_int_equal(counters(f).pending, 0);
    assert_int_equal(counters(f).subscriptions, 0);
    expect_silence(f);
}

/* Defect 9 of erlmcp, its other half. */
static void bookkeeping_does_not_grow_for_what_nobody_subscribed_to(void **state) {
    struct fixture *f = *state;
    size_t live = 0;
    char uri[32];

    for (int i = 0; i < 5000; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        changed(f, uri, NULL);
        if (i == 1000)
            live = memory_live();
    }
    assert_true(counters(f).resources <= 16); /* the history of this engine */
    assert_true(memory_live() <= live);
}

static int setup_short_history(void **state) {
    return fixture_create(
        state,
        &(tdg__engine_opts_t){.calls = calls_pushed, .defaults = at_once, .history = 16});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_stream_knows_its_user, setup_at_once),
        TEST(closing_a_stream_removes_all_its_subscriptions, setup_at_once),
        TEST(a_session_that_ends_leaves_no_subscriber_behind, setup_at_once),
        TEST(a_change_after_the_session_is_gone_is_silently_skipped, setup_at_once),
        TEST(closing_drops_what_is_pending_in_every_stage, setup_at_once),
        TEST(one_stream_closing_does_not_affect_the_others, setup_at_once),
        TEST(a_stream_closed_in_the_middle_of_its_window_leaves_the_others_in_it,
             setup_at_once),
        TEST(closing_twice_is_ignored, setup_at_once),
        TEST(a_handle_of_a_closed_stream_is_noticed_everywhere, setup_at_once),
        TEST(a_handle_that_never_was_is_noticed_everywhere, setup_at_once),
        TEST(an_old_handle_does_not_reach_the_stream_in_its_place, setup_at_once),
        TEST(handles_stay_apart_over_many_reuses, setup_at_once),
        TEST(a_new_stream_inherits_nothing, setup_at_once),
        TEST(a_second_stream_does_not_depend_on_the_first, setup_at_once),
        TEST(a_stream_may_close_while_the_ready_ones_are_walked, setup_at_once),

        TEST(an_ended_stream_has_its_end_to_take_and_nothing_else, setup_at_once),
        TEST(the_end_carries_the_cursor_to_come_back_with, setup_at_once),
        TEST(ending_removes_the_subscriptions, setup_at_once),
        TEST(ending_twice_keeps_the_first_reason, setup_at_once),
        TEST(an_ended_stream_takes_no_more_subscriptions, setup_at_once),

        TEST(thousands_of_streams_dropping_at_once_leave_nothing, setup_at_once),
        TEST(streams_dropping_with_everything_pending_leave_nothing, setup_at_once),
        TEST(dropping_a_stream_costs_its_own_subscriptions_only, setup_at_once),
        TEST(dropping_streams_one_by_one_is_linear_in_all, setup_at_once),
        TEST(a_stream_with_very_many_subscriptions_drops_them_all, setup_at_once),
        TEST(bookkeeping_does_not_grow_for_what_nobody_subscribed_to,
             setup_short_history),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_stream", tests, NULL, NULL);
}
