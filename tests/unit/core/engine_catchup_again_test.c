/* SPDX-License-Identifier: MIT
 *
 * Subscribing again with a cursor: compared and notified as by a first subscribe,
 * whatever the subscription has been notified of meanwhile. */
#include "unit/core/fixture.h"

static tdg__sub_opts_t lately(int64_t ms) {
    return (tdg__sub_opts_t){.since_ms = ms};
}

static tdg__sub_opts_t foreign(void) {
    return (tdg__sub_opts_t){.has_cursor = true, .cursor = {EPOCH + 1, 5}};
}

/* Subscribes again. Returns `resumed`. */
static bool again(struct fixture *f, tdg__stream_t s, const tdg__target_t *target,
                  tdg__sub_opts_t opts) {
    return subscribe_only(f, s, target, &opts).resumed;
}

/* ---- A resource --------------------------------------------------------- */

static void a_change_since_the_cursor_is_notified_again(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    assert_true(again(f, s, URI("a:1"), after(0)));
    expect_cursor(f, s, 0);
    expect_assumed(f, s, "a:1", 1);
    expect_silence(f);
    expect_cursor(f, s, 1);
}

static void nothing_since_the_cursor_is_resumed_in_silence(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:2", NULL);
    assert_true(again(f, s, URI("a:1"), after(1)));
    assert_true(again(f, s, URI("a:1"), (tdg__sub_opts_t){0}));
    expect_silence(f);
    expect_cursor(f, s, 2);
}

static void a_cursor_of_another_epoch_is_not_resumed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    assert_false(again(f, s, URI("a:1"), foreign()));
    expect_foreign_cursor(f, s);
    expect_assumed(f, s, "a:1", 0);
    expect_silence(f);
}

static void a_cursor_from_the_future_is_not_resumed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    assert_true(again(f, s, URI("a:1"), after(1)));
    expect_silence(f);
    assert_false(again(f, s, URI("a:1"), after(2)));
    expect_assumed(f, s, "a:1", 1);
}

static void what_nobody_watched_before_is_not_resumed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    subscribe(f, s, "a:1"); /* watched from number 2 on */
    assert_false(again(f, s, URI("a:1"), after(1)));
    expect_assumed(f, s, "a:1", 2);
    assert_true(again(f, s, URI("a:1"), after(2)));
    expect_silence(f);
}

static void what_is_in_flight_will_do(void **state) {
    struct fixture *f = *state; /* batch of 100 ms, limit of 1,000 ms */
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_silence(f);
    assert_true(again(f, s, URI("a:1"), after(0))); /* past the window */
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 5000);
    expect_silence(f);
}

/* The cursor stands where the time of the last notification is kept. */
static void the_limit_goes_on_where_it_was(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 400);
    tdg__sub_opts_t opts = after(1);
    opts.settings = rate_limit(1000);
    assert_true(again(f, s, URI("a:1"), opts));
    changed(f, "a:1", NULL);
    advance(f, 599);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void what_changed_lately_can_be_asked_for_again(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 1000);
    assert_true(again(f, s, URI("a:1"), lately(999)));
    expect_silence(f);
    assert_true(again(f, s, URI("a:1"), lately(1000)));
    expect_assumed(f, s, "a:1", 1);
}

static void new_wishes_come_with_the_cursor(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    json_t *filter = json_from("{'metadata.size': {'gt': 10}}");
    tdg__sub_opts_t opts = after(0);

    subscribe(f, s, "a:1");
    changed(f, "a:1", "{'size': 1}");
    expect_note(f, s, "a:1", 1, 0);
    opts.filter = filter;
    assert_true(again(f, s, URI("a:1"), opts));
    json_decref(filter);
    expect_assumed(f, s, "a:1", 1); /* what was missed skips the filter */
    changed(f, "a:1", "{'size': 1}");
    expect_silence(f);
}

static void a_list_is_compared_too(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_list(f, s, "tools");
    list_changed(f, "tools");
    expect_list_note(f, s, "tools", 1, 0);
    assert_true(again(f, s, LIST("tools"), after(0)));
    tdg__note_t note = take(f, s);
    assert_int_equal(note.kind, TDG__NOTE_LIST);
    assert_true(note.change->assumed);
    expect_silence(f);
}

/* What was notified for the second cursor is lost with the connection like the rest. */
static void a_stream_that_goes_back_is_notified_of_it_again(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    bool complete = false;

    changed(f, "a:1", NULL);
    subscribe(f, s, "a:1");
    changed(f, "a:2", NULL);
    assert_true(again(f, s, URI("a:1"), after(0)));
    expect_assumed(f, s, "a:1", 2);
    assert_int_equal(
        tdg__engine_rewind(f->engine, s, (tdg__cursor_t){EPOCH, 2}, &complete), 0);
    expect_assumed(f, s, "a:1", 2);
}

/* ---- A template --------------------------------------------------------- */

static void a_template_is_notified_of_every_match_since(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    subscribe_template(f, s, "a:{x}");
    changed(f, "a:2", NULL);
    expect_note(f, s, "a:2", 2, 0);
    assert_true(again(f, s, TEMPLATE("a:{x}"), after(0)));
    assert_int_equal(drain(f), 2);
    assert_true(again(f, s, TEMPLATE("a:{x}"), after(1)));
    expect_assumed(f, s, "a:2", 2);
    expect_silence(f);
}

static void a_template_that_goes_back_remembers_the_oldest_match(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    bool complete = false;

    changed(f, "a:1", NULL);
    subscribe_template(f, s, "a:{x}");
    assert_true(again(f, s, TEMPLATE("a:{x}"), after(0)));
    expect_assumed(f, s, "a:1", 1);
    assert_int_equal(
        tdg__engine_rewind(f->engine, s, (tdg__cursor_t){EPOCH, 1}, &complete), 0);
    assert_true(complete);
    expect_assumed(f, s, "a:1", 1);
}

/* ---- While the watcher is being armed ----------------------------------- */

static void a_cursor_brought_while_it_waits_counts_when_it_is_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:1"), NULL);
    again(f, s, URI("a:1"), after(0));
    expect_cursor(f, s, 0); /* held back */
    expect_watch(f, URI("a:1"));
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled(f, s, URI("a:1"), 0); /* once, and resumed: the change is known */
    expect_no_call(f);
    acknowledge(f, s);
    expect_assumed(f, s, "a:1", 2);
    expect_cursor(f, s, 2);
}

static void of_two_cursors_the_older_counts(void **state) {
    static const uint64_t cursors[][2] = {{1, 3}, {3, 1}};

    for (size_t i = 0; i < 2; i++) {
        struct fixture *f = *state;
        tdg__stream_t s = open_stream(f);
        tdg__sub_opts_t first = after(cursors[i][0]);
        const char *uri = i == 0 ? "a:1" : "b:1";

        while (counters(f).last_number < 3)
            changed(f, "other:1", NULL);
        f->watch_answer = TDG_EAGAIN;
        subscribe_only(f, s, URI(uri), &first);
        again(f, s, URI(uri), after(cursors[i][1]));
        expect_cursor(f, s, 1);
        watch_done(f, URI(uri), TDG__WATCH_ARMED, 0);
        acknowledge(f, s);
        expect_cursor(f, s, 1);
        assert_int_equal(drain(f), 1);
        tdg__engine_close(f->engine, s);
    }
}

/* There is room for one of them: then everything counts as changed. */
static void a_cursor_and_a_time_together_assume_a_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    tdg__sub_opts_t time = lately(10), cursor = after(1);

    changed(f, "other:1", NULL);
    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:1"), &time);
    again(f, s, URI("a:1"), cursor);
    subscribe_only(f, t, URI("a:1"), &cursor);
    again(f, t, URI("a:1"), time);
    expect_foreign_cursor(f, s);
    expect_foreign_cursor(f, t);
    expect_watch(f, URI("a:1"));
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled_not_resumed(f, s, URI("a:1"));
    expect_settled_not_resumed(f, t, URI("a:1"));
    acknowledge(f, s);
    acknowledge(f, t);
    expect_assumed(f, s, "a:1", 2);
    expect_assumed(f, t, "a:1", 2);
}

static void who_leaves_while_it_waits_holds_nothing_back(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = after(0);

    changed(f, "a:1", NULL);
    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:1"), &opts);
    again(f, s, URI("a:1"), after(0)); /* holds once, not twice */
    expect_cursor(f, s, 0);
    unsubscribe(f, s, "a:1");
    expect_cursor(f, s, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_change_since_the_cursor_is_notified_again, setup_at_once),
        TEST(nothing_since_the_cursor_is_resumed_in_silence, setup_at_once),
        TEST(a_cursor_of_another_epoch_is_not_resumed, setup_at_once),
        TEST(a_cursor_from_the_future_is_not_resumed, setup_at_once),
        TEST(what_nobody_watched_before_is_not_resumed, setup_watched),
        TEST(what_is_in_flight_will_do, setup_default),
        TEST(the_limit_goes_on_where_it_was, setup_at_once),
        TEST(what_changed_lately_can_be_asked_for_again, setup_at_once),
        TEST(new_wishes_come_with_the_cursor, setup_at_once),
        TEST(a_list_is_compared_too, setup_at_once),
        TEST(a_stream_that_goes_back_is_notified_of_it_again, setup_at_once),

        TEST(a_template_is_notified_of_every_match_since, setup_at_once),
        TEST(a_template_that_goes_back_remembers_the_oldest_match, setup_at_once),

        TEST(a_cursor_brought_while_it_waits_counts_when_it_is_settled, setup_watched),
        TEST(of_two_cursors_the_older_counts, setup_watched),
        TEST(a_cursor_and_a_time_together_assume_a_change, setup_watched),
        TEST(who_leaves_while_it_waits_holds_nothing_back, setup_watched),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_catchup_again", tests, NULL, NULL);
}
