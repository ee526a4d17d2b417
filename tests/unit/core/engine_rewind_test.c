/* SPDX-License-Identifier: MIT
 *
 * Going back: a stream whose reader may have lost what was written is taken back to an
 * older cursor, and is told again of what it was told after that; of that, and no more.
 */
#include "unit/core/fixture.h"

static int setup_short_history(void **state) {
    return fixture_create(
        state,
        &(tdg__engine_opts_t){.calls = calls_pushed, .defaults = at_once, .history = 4});
}

static int setup_slow_watchers(void **state) {
    int rv = setup_watched(state);

    if (rv == 0)
        ((struct fixture *)*state)->watch_answer = TDG_EAGAIN;
    return rv;
}

static void list_resource(struct fixture *f, const char *template_, const char *uri) {
    assert_true(f->n_listed < COUNT(f->listed));
    f->listed[f->n_listed].template_ = template_;
    f->listed[f->n_listed].uri = uri;
    f->n_listed++;
}

/* Returns whether it was complete. */
static bool rewind_to(struct fixture *f, tdg__stream_t s, uint64_t number) {
    tdg__cursor_t cursor = {EPOCH, number};
    bool complete = false;

    assert_int_equal(tdg__engine_rewind(f->engine, s, cursor, &complete), 0);
    return complete;
}

static bool rewind_to_elsewhere(struct fixture *f, tdg__stream_t s) {
    tdg__cursor_t cursor = {EPOCH + 1, 3};
    bool complete = false;

    assert_int_equal(tdg__engine_rewind(f->engine, s, cursor, &complete), 0);
    return complete;
}

/* ---- What was told ------------------------------------------------------ */

static void what_was_taken_after_the_cursor_is_told_again(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    subscribe_list(f, s, "tools");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    list_changed(f, "tools");
    assert_int_equal(drain(f), 3);
    expect_cursor(f, s, 3);

    assert_true(rewind_to(f, s, 1));
    expect_cursor(f, s, 1);
    expect_assumed(f, s, "a:2", 3);
    assert_string_equal(take(f, s).change->name, "tools");
    expect_silence(f);
    expect_cursor(f, s, 3);
}

static void others_are_told_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__stream_t other = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, other, "a:1");
    changed(f, "a:1", NULL);
    drain(f);
    assert_true(rewind_to(f, s, 0));
    expect_nothing(f, other);
    expect_cursor(f, other, 1);
    expect_assumed(f, s, "a:1", 1);
}

static void what_waits_already_is_told_once_and_with_all_it_says(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    drain(f);
    changed(f, "a:1", "{'n':2}");
    changed(f, "a:1", "{'n':3}");
    assert_true(rewind_to(f, s, 0));
    assert_true(rewind_to(f, s, 0));
    expect_cursor(f, s, 0);
    tdg__note_t note = take(f, s);
    assert_int_equal(note.change->number, 3);
    assert_int_equal(note.merged, 1);
    assert_false(note.change->assumed);
    expect_silence(f);
}

static void it_is_past_window_and_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    subscribe_settings(f, s, "a:2", batch(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL); /* waits for its limit */
    changed(f, "a:2", NULL); /* waits for its window */
    expect_silence(f);
    assert_true(rewind_to(f, s, 0));
    expect_note(f, s, "a:1", 2, 0);
    expect_note(f, s, "a:2", 3, 0);
    advance(f, 5000);
    expect_silence(f);
}

static void a_change_that_a_filter_kept_away_may_be_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size':{'gt':10}}");
    changed(f, "a:1", "{'size':1}");
    expect_silence(f);
    assert_true(rewind_to(f, s, 0));
    expect_assumed(f, s, "a:1", 1);
}

static void a_blocked_stream_stays_blocked(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    drain(f);
    tdg__engine_block(f->engine, s, true);
    assert_true(rewind_to(f, s, 0));
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), 0);
    tdg__engine_block(f->engine, s, false);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), s);
}

/* ---- No further than where it began ------------------------------------- */

static void what_changed_before_the_subscription_is_not_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    subscribe(f, s, "a:1");
    subscribe_template(f, s, "b:{x}");
    assert_true(rewind_to(f, s, 0));
    expect_silence(f);
    expect_cursor(f, s, 2);
}

static void arming_a_watcher_is_nothing_to_be_told_of(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");            /* armed at 1 */
    subscribe_template(f, s, "b:{x}"); /* armed at 2 */
    list_resource(f, "b:{x}", "b:1");
    assert_true(rewind_to(f, s, 0));
    expect_silence(f);

    changed(f, "a:1", NULL);
    changed(f, "b:2", NULL);
    drain(f);
    assert_true(rewind_to(f, s, 0));
    expect_assumed(f, s, "a:1", 4);
    expect_assumed(f, s, "b:2", 4);
    expect_silence(f);
}

/* The cursor is from before the subscribe, which brought an older one: what it caught up
 * with is above its cursor, not above the stream's. */
static void what_it_caught_up_with_is_told_again(void **state) {
    struct fixture *f = *state;
    tdg__sub_opts_t opts = after(1);
    tdg__stream_t s;

    changed(f, "a:1", NULL);
    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    changed(f, "b:2", NULL);
    changed(f, "c:1", NULL);
    s = open_stream(f); /* at 5 */
    subscribe_with(f, s, URI("a:1"), &opts);
    subscribe_with(f, s, TEMPLATE("b:{x}"), &opts);
    assert_int_equal(drain(f), 3);

    assert_true(rewind_to(f, s, 5));
    expect_assumed(f, s, "a:1", 5);
    expect_assumed(f, s, "b:2", 5);
    expect_assumed(f, s, "b:1", 5);
    expect_silence(f);
    changed(f, "d:1", NULL);
    assert_true(rewind_to(f, s, 6)); /* which it has had since */
    expect_silence(f);
}

/* Until it is told again, no cursor may claim that it was: another stream may come with
 * it. */
static void the_cursor_goes_back_behind_what_it_caught_up_from(void **state) {
    struct fixture *f = *state;
    tdg__sub_opts_t opts = after(1);
    tdg__cursor_t cursor;
    tdg__stream_t s, next;

    changed(f, "x:1", NULL);
    changed(f, "a:1", NULL);
    changed(f, "x:1", NULL);
    s = open_stream(f);
    subscribe_with(f, s, URI("a:1"), &opts);
    drain(f);
    assert_true(rewind_to(f, s, 3));
    assert_int_equal(tdg__engine_cursor(f->engine, s, &cursor), 0);

    next = open_stream(f);
    opts.cursor = cursor;
    subscribe_with(f, next, URI("a:1"), &opts);
    expect_assumed(f, next, "a:1", 3);
}

static void since_is_told_again(void **state) {
    struct fixture *f = *state;
    tdg__sub_opts_t opts = {.since_ms = 100};
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    advance(f, 200);
    changed(f, "b:2", NULL);
    changed(f, "a:2", NULL);
    subscribe_with(f, s, URI("a:1"), &opts);
    subscribe_with(f, s, URI("a:2"), &opts);
    subscribe_with(f, s, TEMPLATE("b:{x}"), &opts);
    assert_int_equal(drain(f), 2);
    assert_true(rewind_to(f, s, 0));
    expect_assumed(f, s, "a:2", 4);
    expect_assumed(f, s, "b:2", 4);
    expect_silence(f);
}

/* ---- Templates ---------------------------------------------------------- */

static void a_template_is_told_again_of_what_the_history_holds(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "b:1", NULL);
    drain(f);
    list_resource(f, "a:{x}", "a:7");
    assert_true(rewind_to(f, s, 1));
    expect_assumed(f, s, "a:2", 3);
    expect_silence(f);
}

static void a_template_and_a_uri_give_one_notification(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    drain(f);
    assert_true(rewind_to(f, s, 0));
    expect_assumed(f, s, "a:1", 1);
    expect_silence(f);
}

static void beyond_the_history_it_is_not_complete(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    list_resource(f, "a:{x}", "a:7");
    subscribe_template(f, s, "a:{x}");
    for (int i = 0; i < 5; i++)
        changed(f, i == 4 ? "a:2" : "a:1", NULL);
    drain(f);
    assert_true(rewind_to(f, s, 1)); /* the history of 4 has dropped 1 */
    drain(f);
    assert_false(rewind_to(f, s, 0));
    expect_assumed(f, s, "a:2", 5);
    expect_assumed(f, s, "a:1", 5);
    expect_assumed(f, s, "a:7", 5);
    expect_silence(f);
}

/* What has left the history was nothing that it was told of. */
static void what_was_dropped_before_it_began_does_not_matter(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = after(0);

    for (int i = 0; i < 8; i++)
        changed(f, "a:1", NULL);
    subscribe_template(f, s, "a:{x}");
    assert_true(rewind_to(f, s, 0));
    expect_silence(f);

    /* Said when it was subscribed to: the history did not reach back even then. */
    list_resource(f, "b:{x}", "b:7");
    assert_false(subscribe_only(f, s, TEMPLATE("b:{x}"), &opts).resumed);
    acknowledge(f, s);
    drain(f);
    assert_true(rewind_to(f, s, 0));
    expect_assumed(f, s, "b:7", 8);
    expect_silence(f);
}

/* ---- Watchers that take their time -------------------------------------- */

/* The template has told of the change for both; then it goes. */
static void one_whose_watcher_is_being_armed_goes_back_too(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->watch_answer = 0;
    subscribe_template(f, s, "a:{x}"); /* armed at 1 */
    f->watch_answer = TDG_EAGAIN;
    assert_int_equal(subscribe_only(f, s, URI("a:1"), NULL).state, TDG__SUBSCRIBING);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{x}")), 0);

    assert_true(rewind_to(f, s, 0));
    expect_nothing(f, s); /* it is not acknowledged */
    expect_cursor(f, s, 1);
    f->next_call = f->n_calls;
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled(f, s, URI("a:1"), 0);
    acknowledge(f, s);
    expect_assumed(f, s, "a:1", 2);
    expect_silence(f);
}

static void one_that_waits_with_a_cursor_still_catches_up(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = after(0);

    changed(f, "a:1", NULL);
    subscribe_only(f, s, TEMPLATE("a:{x}"), &opts);
    assert_true(rewind_to(f, s, 0));
    expect_nothing(f, s);
    expect_cursor(f, s, 0);
    f->next_call = f->n_calls;
    watch_done(f, TEMPLATE("a:{x}"), TDG__WATCH_ARMED, 0);
    expect_settled_not_resumed(f, s, TEMPLATE("a:{x}"));
    acknowledge(f, s);
    expect_assumed(f, s, "a:1", 2);
    expect_silence(f);
}

static void a_late_watcher_loses_nothing_by_it(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    list_resource(f, "b:{x}", "b:7");
    subscribe_only(f, s, URI("a:1"), NULL);
    subscribe_only(f, s, TEMPLATE("b:{x}"), NULL);
    advance(f, 10000); /* both are late now */
    acknowledge(f, s);
    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    drain(f);
    assert_true(rewind_to(f, s, 0));
    expect_assumed(f, s, "a:1", 2);
    expect_assumed(f, s, "b:1", 2);
    expect_silence(f);

    /* What they may have missed is told when they are armed, and after that again. */
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    watch_done(f, TEMPLATE("b:{x}"), TDG__WATCH_ARMED, 0);
    assert_int_equal(drain(f), 2);
    assert_true(rewind_to(f, s, 2));
    expect_assumed(f, s, "a:1", 4);
    expect_assumed(f, s, "b:7", 4);
    expect_silence(f);
    assert_true(rewind_to(f, s, 4));
    expect_silence(f);
}

static void one_that_is_not_acknowledged_keeps_it(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe_only(f, s, URI("a:1"), NULL);
    changed(f, "a:1", NULL);
    drain(f); /* serves both */
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{x}")), 0);
    assert_true(rewind_to(f, s, 0));
    expect_silence(f);
    acknowledge(f, s);
    expect_assumed(f, s, "a:1", 1);
}

/* All that it has to tell still waits, however short the history is. */
static void a_template_that_has_told_nothing_is_complete(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, TEMPLATE("a:{x}"), NULL);
    changed(f, "a:1", NULL);
    for (int i = 0; i < 8; i++)
        changed(f, "a:2", NULL);
    assert_true(rewind_to(f, s, 0));
    acknowledge(f, s);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, s, "a:2", 9, 7);
    expect_silence(f);

    /* Another one has told for it. */
    subscribe_only(f, s, TEMPLATE("{+any}"), NULL);
    changed(f, "a:1", NULL);
    drain(f);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{x}")), 0);
    assert_true(rewind_to(f, s, 0));
    for (int i = 0; i < 8; i++)
        changed(f, "a:2", NULL);
    assert_false(rewind_to(f, s, 0));
    acknowledge(f, s);
    assert_int_equal(drain(f), 2);
}

/* ---- Odd cursors -------------------------------------------------------- */

static void another_epoch_counts_everything_as_changed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    list_resource(f, "b:{x}", "b:7");
    changed(f, "b:1", NULL);
    subscribe(f, s, "a:1");
    subscribe_template(f, s, "b:{x}");
    assert_true(rewind_to_elsewhere(f, s));
    expect_foreign_cursor(f, s);
    expect_assumed(f, s, "a:1", 1);
    expect_assumed(f, s, "b:1", 1);
    expect_foreign_cursor(f, s);
    expect_assumed(f, s, "b:7", 1);
    expect_silence(f);
    expect_cursor(f, s, 1);
}

static void a_cursor_of_the_future_is_foreign(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    drain(f);
    assert_true(rewind_to(f, s, 1));
    expect_silence(f);
    rewind_to(f, s, 2);
    expect_foreign_cursor(f, s);
    expect_assumed(f, s, "a:1", 1);
    rewind_to(f, s, UINT64_MAX);
    expect_assumed(f, s, "a:1", 1);
    expect_silence(f);
    expect_cursor(f, s, 1);
}

static void only_a_stream_that_lives_can_go_back(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__cursor_t cursor = {EPOCH, 0};
    bool complete;

    subscribe(f, s, "a:1");
    tdg__engine_end(f->engine, s, TDG_ESTREAMS);
    assert_int_equal(tdg__engine_rewind(f->engine, s, cursor, &complete), TDG_EENDED);
    tdg__engine_close(f->engine, s);
    assert_int_equal(tdg__engine_rewind(f->engine, s, cursor, &complete), TDG_ENOTFOUND);
}

/* ---- Memory ------------------------------------------------------------- */

static void calling_again_does_what_memory_was_missing_for(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__cursor_t cursor = {EPOCH, 0};
    bool complete = false;
    int failures = 0;

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "b:{x}");
    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    changed(f, "b:2", NULL);
    drain(f);
    for (size_t nth = 1;; nth++) {
        memory_fail(nth, MEMORY_ONCE);
        int rv = tdg__engine_rewind(f->engine, s, cursor, &complete);
        memory_fail(0, MEMORY_ONCE);
        if (rv == 0)
            break;
        assert_int_equal(rv, TDG_ENOMEM);
        assert_true(nth < 100);
        failures++;
    }
    assert_true(failures > 0);
    assert_true(complete);
    expect_assumed(f, s, "a:1", 3);
    expect_assumed(f, s, "b:2", 3);
    expect_assumed(f, s, "b:1", 3);
    expect_silence(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_was_taken_after_the_cursor_is_told_again, setup_at_once),
        TEST(others_are_told_nothing, setup_at_once),
        TEST(what_waits_already_is_told_once_and_with_all_it_says, setup_at_once),
        TEST(it_is_past_window_and_limit, setup_at_once),
        TEST(a_change_that_a_filter_kept_away_may_be_told, setup_at_once),
        TEST(a_blocked_stream_stays_blocked, setup_at_once),
        TEST(what_changed_before_the_subscription_is_not_told, setup_at_once),
        TEST(arming_a_watcher_is_nothing_to_be_told_of, setup_watched),
        TEST(what_it_caught_up_with_is_told_again, setup_at_once),
        TEST(the_cursor_goes_back_behind_what_it_caught_up_from, setup_at_once),
        TEST(since_is_told_again, setup_at_once),
        TEST(a_template_is_told_again_of_what_the_history_holds, setup_at_once),
        TEST(a_template_and_a_uri_give_one_notification, setup_at_once),
        TEST(beyond_the_history_it_is_not_complete, setup_short_history),
        TEST(what_was_dropped_before_it_began_does_not_matter, setup_short_history),
        TEST(one_whose_watcher_is_being_armed_goes_back_too, setup_slow_watchers),
        TEST(one_that_waits_with_a_cursor_still_catches_up, setup_slow_watchers),
        TEST(a_late_watcher_loses_nothing_by_it, setup_slow_watchers),
        TEST(one_that_is_not_acknowledged_keeps_it, setup_at_once),
        TEST(a_template_that_has_told_nothing_is_complete, setup_short_history),
        TEST(another_epoch_counts_everything_as_changed, setup_at_once),
        TEST(a_cursor_of_the_future_is_foreign, setup_at_once),
        TEST(only_a_stream_that_lives_can_go_back, setup_at_once),
        TEST(calling_again_does_what_memory_was_missing_for, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_rewind", tests, NULL, NULL);
}
