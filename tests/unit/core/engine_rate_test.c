/* SPDX-License-Identifier: MIT
 *
 * The rate limit per subscription and resource: leading edge at once, trailing edge
 * guaranteed. */
#include "unit/core/fixture.h"

static void the_first_notification_is_at_once(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
}

/* Defect 2 of erlmcp: it is dropped for ever, so the client stays stale. */
static void
a_change_that_hits_the_rate_limit_arrives_when_the_limit_is_over(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 300);
    changed(f, "a:1", NULL);
    expect_silence(f);
    advance(f, 699);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
    expect_silence(f);
}

static void changes_during_the_limit_merge_into_the_newest(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", "{'seq': 2}");
    advance(f, 400);
    changed(f, "a:1", "{'seq': 3}");
    advance(f, 400);
    changed(f, "a:1", "{'seq': 4}");
    advance(f, 200);
    note = take(f, s);
    assert_int_equal(note.change->number, 4);
    assert_int_equal(note.merged, 2);
    assert_int_equal(json_integer_value(json_object_get(note.change->metadata, "seq")),
                     4);
    expect_silence(f);
}

static void the_default_limit_is_one_a_second(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    advance(f, 100); /* the batch window */
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 50);
    changed(f, "a:1", NULL);
    advance(f, 949);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void a_change_after_the_limit_is_at_once_again(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 1000);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
}

static void a_change_one_millisecond_before_the_end_waits_one_millisecond(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 999);
    changed(f, "a:1", NULL);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void the_trailing_notification_starts_a_limit_of_its_own(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    advance(f, 1000);
    expect_note(f, s, "a:1", 2, 0);
    advance(f, 10);
    changed(f, "a:1", NULL);
    advance(f, 989);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 3, 0);
}

static void the_limit_runs_from_when_a_notification_is_taken(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    advance(f, 300); /* a slow reader */
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 100);
    changed(f, "a:1", NULL);
    advance(f, 899);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void what_is_ready_takes_in_changes_whatever_the_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    changed(f, "a:1", NULL);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 3, 2);
    expect_silence(f);
}

static void a_storm_is_told_once_per_limit_and_its_last_change_arrives(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    size_t notes = 0;

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    for (int i = 0; i < 1000; i++) {
        changed(f, "a:1", NULL);
        notes += drain(f);
        advance(f, 10);
        if (i < 999)
            notes += drain(f);
    }
    assert_int_equal(notes, 10); /* at 0, 1000, … 9000 */
    expect_note(f, s, "a:1", 1000, 99);
    advance(f, 10000);
    expect_silence(f);
}

/* The stress test of seed 000: 1,000 subscribers, 100 changes a second. erlmcp delivered
 * nothing at all (defect 1). */
static void a_storm_with_a_thousand_subscribers_tells_each_once_per_limit(void **state) {
    enum { SUBSCRIBERS = 1000, CHANGES = 1000 };
    struct fixture *f = *state; /* batch of 100 ms, limit of 1,000 ms */
    tdg__stream_t last = 0;
    size_t notes = 0;

    for (int i = 0; i < SUBSCRIBERS; i++) {
        last = open_stream(f);
        subscribe(f, last, "stress/test");
    }
    for (int i = 0; i < CHANGES; i++) {
        changed(f, "stress/test", NULL);
        advance(f, 10);
        notes += drain(f);
    }
    assert_int_equal(notes, 10 * SUBSCRIBERS); /* at 100, 1,100, … 9,100 */
    advance(f, 1000);
    assert_int_equal(take(f, last).change->number, CHANGES);
    assert_int_equal(drain(f), SUBSCRIBERS - 1);
    expect_silence(f);
}

static void window_first_then_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__settings_t both = {
        .timing = {TDG__TIMING_BATCH, 100, 0},
        .rate_limit_ms = 150,
    };

    subscribe_settings(f, s, "a:1", both);
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL); /* window until 200, limit until 250 */
    advance(f, 100);
    expect_silence(f);
    advance(f, 49);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
    advance(f, 60);
    changed(f, "a:1", NULL); /* window until 410, limit until 400 */
    advance(f, 99);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 3, 0);
}

static void the_limit_of_one_subscriber_does_not_hold_another(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    subscribe_settings(f, t, "a:1", rate_limit(1000));
    advance(f, 500);
    changed(f, "a:1", NULL);
    expect_note(f, t, "a:1", 2, 0);
    expect_nothing(f, s);
    advance(f, 100);
    changed(f, "a:1", NULL);
    advance(f, 400);
    expect_note(f, s, "a:1", 3, 1);
    expect_nothing(f, t);
    advance(f, 500);
    expect_note(f, t, "a:1", 3, 0);
}

/* Defect 4 of erlmcp: the first subscriber's value holds for all. */
static void every_subscriber_has_the_limit_it_asked_for(void **state) {
    struct fixture *f = *state;
    tdg__stream_t slow = open_stream(f), fast = open_stream(f), free_ = open_stream(f);

    subscribe_settings(f, slow, "a:1", rate_limit(1000));
    subscribe_settings(f, fast, "a:1", rate_limit(100));
    subscribe_settings(f, free_, "a:1", rate_limit(TDG__RATE_OFF));
    changed(f, "a:1", NULL);
    assert_int_equal(drain(f), 3);
    changed(f, "a:1", NULL);
    expect_note(f, free_, "a:1", 2, 0);
    expect_silence(f);
    advance(f, 100);
    expect_note(f, fast, "a:1", 2, 0);
    expect_silence(f);
    advance(f, 900);
    expect_note(f, slow, "a:1", 2, 0);
}

static void the_limit_on_one_resource_does_not_hold_another(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    subscribe_settings(f, s, "a:2", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    expect_note(f, s, "a:2", 3, 0);
    expect_silence(f);
}

/* Defect 4 of erlmcp: 0 restores the default. */
static void a_limit_that_is_off_is_off_whatever_the_default(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(TDG__RATE_OFF));
    for (uint64_t number = 1; number <= 10; number++) {
        changed(f, "a:1", NULL);
        expect_note(f, s, "a:1", number, 0);
    }
}

static void the_filter_comes_before_the_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    json_t *large = json_from("{'metadata.size': {'gt': 10}}");
    tdg__sub_opts_t opts = {.settings = rate_limit(1000), .filter = large};

    subscribe_with(f, s, URI("a:1"), &opts);
    json_decref(large);
    changed(f, "a:1", "{'size': 1}"); /* must not use the limit up */
    changed(f, "a:1", "{'size': 20}");
    expect_note(f, s, "a:1", 2, 0);
    changed(f, "a:1", "{'size': 30}");
    changed(f, "a:1", "{'size': 2}"); /* must not take the place of 3 */
    advance(f, 1000);
    expect_note(f, s, "a:1", 3, 0);
}

static void a_deletion_skips_the_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 10);
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 2, 0);
}

static void a_deletion_takes_along_what_waited_for_the_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    expect_silence(f);
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 3, 1);
    advance(f, 1000);
    expect_silence(f);
}

static void a_deletion_skips_window_and_limit_together(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 10);
    changed(f, "a:1", NULL);
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 3, 1);
}

static void a_deletion_starts_the_limit_anew(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 400);
    changed(f, "a:1", "{'change_type': 'created'}");
    advance(f, 599);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

/* Defect 14 of erlmcp. */
static void steps_of_the_clock_do_not_matter(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    tdg__engine_advance(f->engine, f->now_ms, f->wall_ms + 3600000);
    expect_silence(f);
    tdg__engine_advance(f->engine, f->now_ms - 700, f->wall_ms - 3600000);
    expect_silence(f);
    advance(f, 999);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void the_next_deadline_is_the_end_of_the_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 400);
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_next_deadline(f->engine), START_MS + 1000);
}

static void a_limit_that_is_over_leaves_no_timer(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 1000);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
}

static void a_new_subscription_starts_without_a_limit_running(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    unsubscribe(f, s, "a:1");
    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
}

static void what_waits_for_the_limit_is_measured_by_a_new_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    subscribe_settings(f, s, "a:1", rate_limit(300));
    advance(f, 299);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void a_new_limit_that_is_over_already_lets_it_go(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    advance(f, 500);
    subscribe_settings(f, s, "a:1", rate_limit(300));
    advance(f, 0);
    expect_note(f, s, "a:1", 2, 0);
}

static void a_longer_limit_holds_what_waits_for_longer(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(300));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    subscribe_settings(f, s, "a:1", rate_limit(1000));
    advance(f, 999);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void what_waited_for_a_window_goes_on_to_the_new_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL); /* waits for the window */
    subscribe_settings(f, s, "a:1", rate_limit(600));
    expect_silence(f);
    advance(f, 599);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void changes_kept_for_the_acknowledgement_know_no_limit_before(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = {.settings = rate_limit(1000)};

    subscribe_only(f, s, URI("a:1"), &opts);
    changed(f, "a:1", NULL);
    changed(f, "a:1", NULL);
    acknowledge(f, s);
    expect_note(f, s, "a:1", 2, 1);
    changed(f, "a:1", NULL);
    expect_silence(f);
    advance(f, 1000);
    expect_note(f, s, "a:1", 3, 0);
}

static void a_limited_stream_does_not_hold_its_cursor_once_it_is_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_cursor(f, s, 1);
    changed(f, "a:1", NULL);
    changed(f, "a:1", NULL);
    expect_cursor(f, s, 1);
    advance(f, 1000);
    expect_note(f, s, "a:1", 3, 1);
    expect_cursor(f, s, 3);
}

static void many_subscribers_leave_their_limits_each_in_its_time(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[20];

    for (int i = 0; i < 20; i++) {
        s[i] = open_stream(f);
        subscribe_settings(f, s[i], "a:1", rate_limit(1000));
    }
    changed(f, "a:1", NULL);
    for (int i = 0; i < 20; i++) { /* each reader takes it 10 ms after the one before */
        expect_note(f, s[(i * 7) % 20], "a:1", 1, 0);
        advance(f, 10);
    }
    changed(f, "a:1", NULL);
    advance(f, 799);
    expect_silence(f);
    advance(f, 1);
    for (int i = 0; i < 20; i++) {
        expect_note(f, s[(i * 7) % 20], "a:1", 2, 0);
        expect_silence(f);
        advance(f, 10);
    }
}

static void the_limit_runs_from_the_taking_time(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    tdg__engine_set_taking_time(f->engine, f->now_ms + 700);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    advance(f, 1699);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void without_a_limit_the_taking_time_holds_nothing_up(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(TDG__RATE_OFF));
    changed(f, "a:1", NULL);
    tdg__engine_set_taking_time(f->engine, f->now_ms + 700);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
}

/* The time may jump by much more than the limit, whenever a busy machine lets us. */
static void late_advances_do_not_bring_more_notifications(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    int64_t last_ms = 0, jump_ms = 0;
    int taken = 0;

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    for (int i = 0; i < 5000; i++) {
        tdg__note_t note;

        changed(f, "a:1", NULL);
        jump_ms = (jump_ms * 7 + 13) % 2003;
        if (i % 3 == 0)
            advance(f, jump_ms);
        if (i % 2 == 0)
            tdg__engine_set_taking_time(f->engine, f->now_ms + jump_ms / 2);
        while (tdg__engine_take(f->engine, s, &note) == 1) {
            assert_true(taken++ == 0 || f->now_ms - last_ms >= 1000);
            last_ms = f->now_ms;
        }
    }
    assert_true(taken > 100);
}

/* ---- The end of all windows --------------------------------------------- */

static void all_windows_and_limits_can_be_ended(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    subscribe_settings(f, s, "a:2", debounce(500, 5000));
    subscribe_settings(f, s, "a:3", throttle(500));
    subscribe_template(f, t, "a:{x}"); /* a batch, then a limit */
    changed(f, "a:1", NULL);
    changed(f, "a:3", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, s, "a:3", 2, 0);
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:3", NULL);
    expect_silence(f);
    assert_false(tdg__engine_has_note(f->engine, s));
    tdg__engine_block(f->engine, t, true);
    tdg__engine_end_windows(f->engine);
    expect_note(f, s, "a:1", 3, 0);
    expect_note(f, s, "a:2", 4, 0);
    expect_note(f, s, "a:3", 5, 0);
    assert_true(tdg__engine_has_note(f->engine, t)); /* blocked or not */
    tdg__engine_block(f->engine, t, false);
    for (int i = 0; i < 3; i++)
        take(f, t);
    expect_silence(f);
}

/* Ending what runs switches nothing off. */
static void what_comes_after_the_end_of_all_windows_waits_as_ever(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    tdg__engine_end_windows(f->engine);
    expect_note(f, s, "a:1", 2, 0);
    changed(f, "a:1", NULL);
    tdg__engine_end_windows(f->engine);
    expect_note(f, s, "a:1", 3, 0);
    changed(f, "a:1", NULL);
    advance(f, 999);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 4, 0);
}

static void what_is_not_acknowledged_waits_through_the_end_of_all_windows(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, URI("a:1"), NULL);
    changed(f, "a:1", NULL);
    tdg__engine_end_windows(f->engine);
    assert_false(tdg__engine_has_note(f->engine, s));
    expect_silence(f);
    acknowledge(f, s);
    expect_note(f, s, "a:1", 1, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_first_notification_is_at_once, setup_default),
        TEST(a_change_that_hits_the_rate_limit_arrives_when_the_limit_is_over,
             setup_default),
        TEST(changes_during_the_limit_merge_into_the_newest, setup_default),
        TEST(the_default_limit_is_one_a_second, setup_default),
        TEST(a_change_after_the_limit_is_at_once_again, setup_default),
        TEST(a_change_one_millisecond_before_the_end_waits_one_millisecond,
             setup_default),
        TEST(the_trailing_notification_starts_a_limit_of_its_own, setup_default),
        TEST(the_limit_runs_from_when_a_notification_is_taken, setup_default),
        TEST(what_is_ready_takes_in_changes_whatever_the_limit, setup_default),
        TEST(a_storm_is_told_once_per_limit_and_its_last_change_arrives, setup_default),
        TEST(a_storm_with_a_thousand_subscribers_tells_each_once_per_limit,
             setup_default),
        TEST(window_first_then_limit, setup_default),
        TEST(the_limit_of_one_subscriber_does_not_hold_another, setup_default),
        TEST(every_subscriber_has_the_limit_it_asked_for, setup_default),
        TEST(the_limit_on_one_resource_does_not_hold_another, setup_default),
        TEST(a_limit_that_is_off_is_off_whatever_the_default, setup_default),
        TEST(the_filter_comes_before_the_limit, setup_default),
        TEST(a_deletion_skips_the_limit, setup_default),
        TEST(a_deletion_takes_along_what_waited_for_the_limit, setup_default),
        TEST(a_deletion_skips_window_and_limit_together, setup_default),
        TEST(a_deletion_starts_the_limit_anew, setup_default),
        TEST(steps_of_the_clock_do_not_matter, setup_default),
        TEST(the_next_deadline_is_the_end_of_the_limit, setup_default),
        TEST(a_limit_that_is_over_leaves_no_timer, setup_default),
        TEST(a_new_subscription_starts_without_a_limit_running, setup_default),
        TEST(what_waits_for_the_limit_is_measured_by_a_new_one, setup_default),
        TEST(a_new_limit_that_is_over_already_lets_it_go, setup_default),
        TEST(a_longer_limit_holds_what_waits_for_longer, setup_default),
        TEST(what_waited_for_a_window_goes_on_to_the_new_limit, setup_default),
        TEST(changes_kept_for_the_acknowledgement_know_no_limit_before, setup_default),
        TEST(a_limited_stream_does_not_hold_its_cursor_once_it_is_told, setup_default),
        TEST(many_subscribers_leave_their_limits_each_in_its_time, setup_default),
        TEST(the_limit_runs_from_the_taking_time, setup_default),
        TEST(without_a_limit_the_taking_time_holds_nothing_up, setup_default),
        TEST(late_advances_do_not_bring_more_notifications, setup_default),
        TEST(all_windows_and_limits_can_be_ended, setup_default),
        TEST(what_comes_after_the_end_of_all_windows_waits_as_ever, setup_default),
        TEST(what_is_not_acknowledged_waits_through_the_end_of_all_windows,
             setup_default),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_rate", tests, NULL, NULL);
}
