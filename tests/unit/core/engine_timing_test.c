/* SPDX-License-Identifier: MIT
 *
 * When somebody is told: immediate, batch, debounce, throttle; and time itself. */
#include "unit/core/fixture.h"

/* Changes a resource every `step_ms` for `ms` and takes what comes. Returns how much that
 * was. */
static size_t storm(struct fixture *f, const char *uri, int64_t step_ms, int64_t ms) {
    size_t notes = 0;

    for (int64_t t = 0; t < ms; t += step_ms) {
        changed(f, uri, NULL);
        advance(f, step_ms);
        notes += drain(f);
    }
    return notes;
}

/* ---- Immediate ---------------------------------------------------------- */

static void immediate_tells_of_every_change_at_once(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", at_once);
    for (uint64_t number = 1; number <= 5; number++) {
        changed(f, "a:1", NULL);
        expect_note(f, s, "a:1", number, 0);
    }
    expect_silence(f);
}

static void a_window_of_0_means_immediate_whatever_the_mode(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f), u = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(0));
    subscribe_settings(f, t, "a:1", debounce(0, 0));
    subscribe_settings(f, u, "a:1", throttle(0));
    for (uint64_t number = 1; number <= 2; number++) {
        changed(f, "a:1", NULL);
        expect_note(f, s, "a:1", number, 0);
        expect_note(f, t, "a:1", number, 0);
        expect_note(f, u, "a:1", number, 0);
    }
}

/* ---- Batch -------------------------------------------------------------- */

/* Defect 3 of erlmcp: a "batch" does not coalesce. */
static void changes_in_one_window_make_one_notification(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", "{'seq': 1}");
    changed(f, "a:1", "{'seq': 2}");
    changed(f, "a:1", "{'seq': 3}");
    expect_silence(f);
    advance(f, 100);
    expect_note(f, s, "a:1", 3, 2);
    expect_silence(f);
}

static void the_default_is_a_batch_of_100_ms(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    advance(f, 99);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 1, 0);
}

static void the_newest_metadata_of_a_window_is_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", "{'seq': 1}");
    changed(f, "a:1", "{'seq': 2}");
    advance(f, 100);
    note = take(f, s);
    assert_int_equal(json_integer_value(json_object_get(note.change->metadata, "seq")),
                     2);
}

static void a_window_runs_from_its_first_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 99);
    changed(f, "a:1", NULL);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 1);
}

static void the_first_change_after_a_window_opens_the_next(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 70);
    changed(f, "a:1", NULL);
    advance(f, 99);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

/* Defect 1 of erlmcp: its own stress test delivered nothing for 11 s. */
static void changes_faster_than_the_window_starve_nobody(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    assert_int_equal(storm(f, "a:1", 10, 11000), 110);
}

/* Defect 1 of erlmcp: a quiet resource waited because another one was busy. */
static void a_busy_resource_never_delays_a_quiet_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    uint64_t number;

    subscribe_settings(f, s, "busy:1", batch(100));
    subscribe_settings(f, t, "quiet:1", batch(100));
    storm(f, "busy:1", 5, 500);
    number = changed(f, "quiet:1", NULL);
    for (int i = 0; i < 9; i++) {
        changed(f, "busy:1", NULL);
        advance(f, 10);
        expect_nothing(f, t);
    }
    changed(f, "busy:1", NULL);
    advance(f, 10);
    expect_note(f, t, "quiet:1", number, 0);
}

static void every_resource_of_a_stream_has_its_own_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_settings(f, s, "a:2", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 60);
    changed(f, "a:2", NULL);
    advance(f, 40);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
    advance(f, 60);
    expect_note(f, s, "a:2", 2, 0);
}

/* Defect 3 of erlmcp: they arrive newest first. */
static void windows_that_end_together_are_told_in_the_order_of_their_ends(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    static const char *const uris[] = {"a:3", "a:1", "a:4", "a:2", "a:5"};

    for (size_t i = 0; i < 5; i++)
        subscribe_settings(f, s, uris[i], batch(100));
    for (size_t i = 0; i < 5; i++) {
        changed(f, uris[i], NULL);
        advance(f, 1);
    }
    advance(f, 1000);
    for (size_t i = 0; i < 5; i++)
        expect_note(f, s, uris[i], i + 1, 0);
}

/* Defect 3 of erlmcp, within one millisecond. */
static void changes_of_one_moment_are_told_in_their_order(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    static const char *const uris[] = {"a:3", "a:1", "a:4", "a:2", "a:5", "a:7", "a:6"};

    for (size_t i = 0; i < 7; i++)
        subscribe_settings(f, s, uris[i], batch(100));
    for (size_t i = 0; i < 7; i++)
        changed(f, uris[i], NULL);
    advance(f, 100);
    for (size_t i = 0; i < 7; i++)
        expect_note(f, s, uris[i], i + 1, 0);
}

static void a_notification_not_yet_taken_takes_in_the_next_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 150); /* ready, but nobody takes it */
    changed(f, "a:1", NULL);
    advance(f, 10);
    expect_note(f, s, "a:1", 2, 1);
    advance(f, 1000);
    expect_silence(f);
}

static void what_was_taken_early_leaves_its_window_running(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 150);
    changed(f, "a:1", NULL); /* its window ends 100 ms from here */
    expect_note(f, s, "a:1", 2, 1);
    advance(f, 50);
    changed(f, "a:1", NULL);
    advance(f, 49);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 3, 0);
}

/* ---- Debounce ----------------------------------------------------------- */

static void debounce_waits_for_quiet(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(500, 5000));
    changed(f, "a:1", NULL);
    advance(f, 300);
    changed(f, "a:1", NULL);
    advance(f, 300);
    changed(f, "a:1", NULL);
    advance(f, 499);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 3, 2);
    expect_silence(f);
}

static void debounce_tells_of_a_single_change_after_its_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(500, 5000));
    changed(f, "a:1", NULL);
    advance(f, 499);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 1, 0);
}

static void debounce_reports_a_busy_resource_after_the_longest_wait(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(100, 250));
    for (int i = 0; i < 5; i++) {
        changed(f, "a:1", NULL);
        advance(f, i < 4 ? 50 : 49);
        expect_silence(f);
    }
    advance(f, 1);
    expect_note(f, s, "a:1", 5, 4);
}

static void
the_longest_wait_is_counted_from_the_first_change_of_each_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(100, 250));
    assert_int_equal(storm(f, "a:1", 50, 1000), 4); /* at 250, 500, 750, 1000 */
}

static void the_longest_wait_is_ten_windows_where_nothing_is_said(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(100, 0));
    assert_int_equal(storm(f, "a:1", 50, 950), 0);
    advance(f, 49);
    expect_silence(f);
    changed(f, "a:1", NULL);
    advance(f, 1);
    expect_note(f, s, "a:1", 20, 19);
}

static void a_longest_wait_of_one_window_makes_a_batch(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(100, 100));
    changed(f, "a:1", NULL);
    advance(f, 99);
    changed(f, "a:1", NULL);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 1);
}

static void a_hundred_changes_a_second_are_one_notification_when_quiet(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(500, 5000));
    assert_int_equal(storm(f, "a:1", 10, 1000), 0);
    advance(f, 490);
    expect_note(f, s, "a:1", 100, 99);
    expect_silence(f);
}

static void a_busy_debounced_resource_never_delays_a_quiet_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    uint64_t number;

    subscribe_settings(f, s, "busy:1", debounce(100, 1000));
    subscribe_settings(f, t, "quiet:1", debounce(100, 1000));
    number = changed(f, "quiet:1", NULL);
    for (int i = 0; i < 10; i++) {
        expect_nothing(f, t);
        changed(f, "busy:1", NULL);
        advance(f, 10);
    }
    expect_note(f, t, "quiet:1", number, 0);
}

/* ---- Throttle ----------------------------------------------------------- */

static void throttle_tells_of_the_first_change_at_once(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", throttle(100));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
}

static void throttle_tells_of_the_last_change_when_the_window_is_over(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", throttle(100));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 10);
    changed(f, "a:1", NULL);
    advance(f, 40);
    changed(f, "a:1", NULL);
    advance(f, 49);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 3, 1);
    expect_silence(f);
}

static void throttle_lets_a_change_pass_exactly_one_window_later(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", throttle(100));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 100);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
}

static void throttle_holds_a_change_one_millisecond_before_that(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", throttle(100));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 99);
    changed(f, "a:1", NULL);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void the_next_window_of_throttle_runs_from_the_last_firing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", throttle(100));
    changed(f, "a:1", NULL); /* fires at 0 */
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 30);
    changed(f, "a:1", NULL); /* fires at 100 */
    advance(f, 70);
    expect_note(f, s, "a:1", 2, 0);
    advance(f, 50);
    changed(f, "a:1", NULL); /* fires at 200 */
    advance(f, 49);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 3, 0);
}

static void throttle_makes_ten_a_second_of_a_hundred(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", throttle(100));
    assert_int_equal(storm(f, "a:1", 10, 1000), 11); /* both edges */
}

static void throttle_is_measured_from_firing_not_from_taking(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", throttle(100));
    changed(f, "a:1", NULL);
    advance(f, 90);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 10);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
}

static void who_joins_a_throttled_resource_shares_its_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), late = open_stream(f);

    subscribe_settings(f, s, "a:1", throttle(100));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 10);
    subscribe_settings(f, late, "a:1", throttle(100));
    advance(f, 10);
    changed(f, "a:1", NULL);
    expect_silence(f);
    advance(f, 80);
    expect_note(f, s, "a:1", 2, 0);
    expect_note(f, late, "a:1", 2, 0);
}

/* ---- Several timings on one resource ------------------------------------ */

static void subscribers_with_different_timings_are_told_at_different_times(void **state) {
    struct fixture *f = *state;
    tdg__stream_t now = open_stream(f), soon = open_stream(f), quiet = open_stream(f);

    subscribe_settings(f, now, "a:1", at_once);
    subscribe_settings(f, soon, "a:1", batch(100));
    subscribe_settings(f, quiet, "a:1", debounce(500, 5000));
    changed(f, "a:1", NULL);
    expect_note(f, now, "a:1", 1, 0);
    expect_silence(f);
    advance(f, 60);
    changed(f, "a:1", NULL);
    expect_note(f, now, "a:1", 2, 0);
    advance(f, 40);
    expect_note(f, soon, "a:1", 2, 1);
    expect_silence(f);
    advance(f, 459);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, quiet, "a:1", 2, 1);
}

/* ---- Deletions ---------------------------------------------------------- */

static void a_deletion_skips_the_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f), u = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_settings(f, t, "a:1", debounce(500, 5000));
    subscribe_settings(f, u, "a:1", throttle(100));
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, t, "a:1", 1, 0);
    expect_note(f, u, "a:1", 1, 0);
}

static void a_deletion_ends_the_window_that_runs(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 50);
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 2, 1);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
    advance(f, 50);
    expect_silence(f);
}

static void a_deletion_ends_the_quiet_wait_of_debounce(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(500, 5000));
    changed(f, "a:1", NULL);
    advance(f, 50);
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 2, 1);
    advance(f, 10000);
    expect_silence(f);
}

static void a_resource_created_again_opens_a_new_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 20);
    changed(f, "a:1", "{'change_type': 'created'}");
    advance(f, 99);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void
delete_and_create_within_one_window_is_one_update_with_the_newest_metadata(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", "{'size': 1}");
    deleted(f, "a:1");
    changed(f, "a:1", "{'change_type': 'created', 'size': 3}");
    note = take(f, s);
    assert_int_equal(note.change->number, 3);
    assert_int_equal(note.merged, 2);
    assert_false(note.change->deleted);
    assert_int_equal(json_integer_value(json_object_get(note.change->metadata, "size")),
                     3);
    advance(f, 1000);
    expect_silence(f);
}

static void a_deletion_counts_as_a_firing_for_throttle(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", throttle(100));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 50);
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 2, 0);
    advance(f, 10);
    changed(f, "a:1", NULL);
    advance(f, 89);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 3, 0);
}

/* ---- New wishes --------------------------------------------------------- */

static void what_waited_for_the_old_window_has_waited_enough(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(500, 5000));
    changed(f, "a:1", NULL);
    advance(f, 10);
    expect_silence(f);
    subscribe_settings(f, s, "a:1", batch(100));
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_note(f, s, "a:1", 2, 0);
}

static void the_same_wishes_again_leave_the_window_alone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 50);
    subscribe_settings(f, s, "a:1", batch(100));
    expect_silence(f);
    advance(f, 50);
    expect_note(f, s, "a:1", 1, 0);
}

static void one_subscribers_new_wishes_leave_the_others_in_their_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_settings(f, t, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 50);
    subscribe_settings(f, s, "a:1", at_once);
    expect_note(f, s, "a:1", 1, 0);
    expect_nothing(f, t);
    advance(f, 50);
    expect_note(f, t, "a:1", 1, 0);
}

static void who_moves_to_a_group_with_a_newer_change_is_told_of_that_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    json_t *large = json_from("{'metadata.size': {'gt': 10}}");
    tdg__sub_opts_t opts = {.settings = batch(100), .filter = large};

    subscribe_with(f, s, URI("a:1"), &opts);
    json_decref(large);
    subscribe_settings(f, t, "a:1", batch(1000));
    changed(f, "a:1", "{'size': 20}");
    changed(f, "a:1", "{'size': 1}"); /* for t only */
    subscribe_settings(f, s, "a:1", batch(1000));
    assert_int_equal(take(f, s).change->number, 2);
    expect_silence(f);
    advance(f, 1000);
    expect_note(f, t, "a:1", 2, 1);
    expect_silence(f);
}

/* ---- Time --------------------------------------------------------------- */

static void the_next_deadline_is_the_end_of_the_earliest_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
    subscribe_settings(f, s, "a:1", batch(300));
    subscribe_settings(f, s, "a:2", batch(100));
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_next_deadline(f->engine), START_MS + 300);
    changed(f, "a:2", NULL);
    assert_int_equal(tdg__engine_next_deadline(f->engine), START_MS + 100);
    advance(f, 100);
    assert_int_equal(tdg__engine_next_deadline(f->engine), START_MS + 300);
    advance(f, 200);
    assert_int_equal(drain(f), 2);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
}

static void debounce_moves_the_next_deadline(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(100, 250));
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_next_deadline(f->engine), START_MS + 100);
    advance(f, 90);
    changed(f, "a:1", NULL);
    assert_true(tdg__engine_next_deadline(f->engine) <= START_MS + 190);
    advance(f, 90);
    changed(f, "a:1", NULL);
    assert_true(tdg__engine_next_deadline(f->engine) <= START_MS + 250);
}

static void an_advance_that_comes_late_does_all_that_was_due(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_settings(f, s, "a:2", debounce(500, 5000));
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    advance(f, 24 * 3600 * 1000);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, s, "a:2", 2, 0);
}

static void advancing_by_nothing_does_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    for (int i = 0; i < 1000; i++)
        advance(f, 0);
    expect_silence(f);
}

static void a_clock_that_goes_backwards_stands_still(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    tdg__engine_advance(f->engine, f->now_ms - 500, f->wall_ms);
    assert_int_equal(tdg__engine_next_deadline(f->engine), f->now_ms + 100);
    changed(f, "a:1", NULL);
    advance(f, 99);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 1);
}

/* Defect 14 of erlmcp: limits measured with the wall clock. */
static void the_time_of_day_moves_no_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    f->wall_ms += 24 * 3600 * 1000;
    advance(f, 50);
    expect_silence(f);
    f->wall_ms -= 2 * 24 * 3600 * 1000;
    advance(f, 49);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 1, 0);
}

static void updated_at_is_the_time_of_day(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", at_once);
    f->wall_ms = 1800000000123;
    advance(f, 0);
    changed(f, "a:1", NULL);
    expect_metadata(take(f, s).change, "{'updated_at': 1800000000123, 'version': 1,"
                                       " 'change_type': 'content_update'}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(immediate_tells_of_every_change_at_once, setup_default),
        TEST(a_window_of_0_means_immediate_whatever_the_mode, setup_default),

        TEST(changes_in_one_window_make_one_notification, setup_at_once),
        TEST(the_default_is_a_batch_of_100_ms, setup_default),
        TEST(the_newest_metadata_of_a_window_is_told, setup_at_once),
        TEST(a_window_runs_from_its_first_change, setup_at_once),
        TEST(the_first_change_after_a_window_opens_the_next, setup_at_once),
        TEST(changes_faster_than_the_window_starve_nobody, setup_at_once),
        TEST(a_busy_resource_never_delays_a_quiet_one, setup_at_once),
        TEST(every_resource_of_a_stream_has_its_own_window, setup_at_once),
        TEST(windows_that_end_together_are_told_in_the_order_of_their_ends,
             setup_at_once),
        TEST(changes_of_one_moment_are_told_in_their_order, setup_at_once),
        TEST(a_notification_not_yet_taken_takes_in_the_next_window, setup_at_once),
        TEST(what_was_taken_early_leaves_its_window_running, setup_at_once),

        TEST(debounce_waits_for_quiet, setup_at_once),
        TEST(debounce_tells_of_a_single_change_after_its_window, setup_at_once),
        TEST(debounce_reports_a_busy_resource_after_the_longest_wait, setup_at_once),
        TEST(the_longest_wait_is_counted_from_the_first_change_of_each_window,
             setup_at_once),
        TEST(the_longest_wait_is_ten_windows_where_nothing_is_said, setup_at_once),
        TEST(a_longest_wait_of_one_window_makes_a_batch, setup_at_once),
        TEST(a_hundred_changes_a_second_are_one_notification_when_quiet, setup_at_once),
        TEST(a_busy_debounced_resource_never_delays_a_quiet_one, setup_at_once),

        TEST(throttle_tells_of_the_first_change_at_once, setup_at_once),
        TEST(throttle_tells_of_the_last_change_when_the_window_is_over, setup_at_once),
        TEST(throttle_lets_a_change_pass_exactly_one_window_later, setup_at_once),
        TEST(throttle_holds_a_change_one_millisecond_before_that, setup_at_once),
        TEST(the_next_window_of_throttle_runs_from_the_last_firing, setup_at_once),
        TEST(throttle_makes_ten_a_second_of_a_hundred, setup_at_once),
        TEST(throttle_is_measured_from_firing_not_from_taking, setup_at_once),
        TEST(who_joins_a_throttled_resource_shares_its_window, setup_at_once),

        TEST(subscribers_with_different_timings_are_told_at_different_times,
             setup_at_once),

        TEST(a_deletion_skips_the_window, setup_at_once),
        TEST(a_deletion_ends_the_window_that_runs, setup_at_once),
        TEST(a_deletion_ends_the_quiet_wait_of_debounce, setup_at_once),
        TEST(a_resource_created_again_opens_a_new_window, setup_at_once),
        TEST(delete_and_create_within_one_window_is_one_update_with_the_newest_metadata,
             setup_at_once),
        TEST(a_deletion_counts_as_a_firing_for_throttle, setup_at_once),

        TEST(what_waited_for_the_old_window_has_waited_enough, setup_at_once),
        TEST(the_same_wishes_again_leave_the_window_alone, setup_at_once),
        TEST(one_subscribers_new_wishes_leave_the_others_in_their_window, setup_at_once),
        TEST(who_moves_to_a_group_with_a_newer_change_is_told_of_that_one, setup_at_once),

        TEST(the_next_deadline_is_the_end_of_the_earliest_window, setup_at_once),
        TEST(debounce_moves_the_next_deadline, setup_at_once),
        TEST(an_advance_that_comes_late_does_all_that_was_due, setup_at_once),
        TEST(advancing_by_nothing_does_nothing, setup_at_once),
        TEST(a_clock_that_goes_backwards_stands_still, setup_at_once),
        TEST(the_time_of_day_moves_no_window, setup_at_once),
        TEST(updated_at_is_the_time_of_day, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_timing", tests, NULL, NULL);
}
