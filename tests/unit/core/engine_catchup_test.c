/* SPDX-License-Identifier: MIT
 *
 * Coming back with a cursor: an ordinary update for each resource that changed since;
 * where the engine cannot know, it counts as changed. */
#include <stdio.h>

#include "unit/core/fixture.h"

enum { LINGER_MS = 5000 };

static int setup_short_history(void **state) {
    return fixture_create(
        state,
        &(tdg__engine_opts_t){.calls = calls_pushed, .defaults = at_once, .history = 4});
}

static void come_back(struct fixture *f, tdg__stream_t s, const char *uri,
                      uint64_t number) {
    tdg__sub_opts_t opts = after(number);

    subscribe_with(f, s, URI(uri), &opts);
}

/* Takes one assumed change for each of the URIs, in any order, and no more. */
static void expect_assumed_set(struct fixture *f, tdg__stream_t s, size_t count,
                               const char *const *uris) {
    bool seen[8] = {false};

    for (size_t i = 0; i < count; i++) {
        tdg__note_t note = take(f, s);
        size_t at = 0;

        while (at < count && strcmp(uris[at], note.change->name) != 0)
            at++;
        assert_true(at < count);
        assert_false(seen[at]);
        assert_true(note.change->assumed);
        seen[at] = true;
    }
    expect_nothing(f, s);
}

/* ---- A resource --------------------------------------------------------- */

static void who_comes_back_is_told_of_what_changed_since(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    come_back(f, s, "a:1", 1);
    expect_cursor(f, s, 1);
    expect_assumed(f, s, "a:1", 3);
    expect_silence(f);
    expect_cursor(f, s, 3);
}

static void who_comes_back_is_not_told_of_what_did_not_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    come_back(f, s, "a:1", 1);
    expect_silence(f);
    expect_cursor(f, s, 2);
}

static void who_comes_back_without_a_cursor_is_told_of_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    subscribe(f, s, "a:1");
    expect_silence(f);
    expect_cursor(f, s, 1);
}

static void a_resource_that_never_changed_is_not_told_of(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:2", NULL);
    come_back(f, s, "a:1", 0);
    expect_silence(f);
}

static void the_whole_round_loses_and_repeats_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__cursor_t cursor;

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    subscribe(f, s, "a:3");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    expect_note(f, s, "a:1", 1, 0);
    assert_int_equal(tdg__engine_cursor(f->engine, s, &cursor), 0);
    tdg__engine_close(f->engine, s); /* 2 was never written */
    changed(f, "a:3", NULL);

    s = open_stream(f);
    come_back(f, s, "a:1", cursor.number);
    come_back(f, s, "a:2", cursor.number);
    come_back(f, s, "a:3", cursor.number);
    expect_assumed_set(f, s, 2, (const char *const[]){"a:2", "a:3"});
    expect_cursor(f, s, 3);
}

static void what_was_missed_waits_for_the_acknowledgement(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = after(0);

    changed(f, "a:1", NULL);
    subscribe_only(f, s, URI("a:1"), &opts);
    expect_nothing(f, s);
    expect_silence(f);
    acknowledge(f, s);
    expect_assumed(f, s, "a:1", 1);
}

static void what_was_missed_skips_filter_window_and_limit(void **state) {
    struct fixture *f = *state; /* batch of 100 ms, limit of 1,000 ms */
    tdg__stream_t s = open_stream(f);
    json_t *filter = json_from("{'metadata.size': {'gt': 10}}");
    tdg__sub_opts_t opts = after(0);

    changed(f, "a:1", "{'size': 1}");
    opts.filter = filter;
    subscribe_with(f, s, URI("a:1"), &opts);
    json_decref(filter);
    expect_assumed(f, s, "a:1", 1);
}

static void what_was_missed_starts_the_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = after(0);

    changed(f, "a:1", NULL);
    opts.settings = rate_limit(1000);
    subscribe_with(f, s, URI("a:1"), &opts);
    expect_assumed(f, s, "a:1", 1);
    changed(f, "a:1", NULL);
    expect_silence(f);
    advance(f, 1000);
    expect_note(f, s, "a:1", 2, 0);
}

static void an_assumed_change_carries_no_metadata_of_the_source(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    changed(f, "a:1", "{'size': 1, 'author': 'me'}");
    advance(f, 5000);
    come_back(f, s, "a:1", 0);
    note = take(f, s);
    expect_metadata(note.change,
                    "{'change_type': 'content_update', 'updated_at': 1750000000,"
                    " 'version': 1}");
}

static void a_resource_deleted_meanwhile_is_told_of_as_deleted(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    changed(f, "a:1", NULL);
    deleted(f, "a:1");
    come_back(f, s, "a:1", 1);
    note = take(f, s);
    assert_true(note.change->deleted);
    assert_string_equal(tdg__change_type(note.change), "deleted");
}

static void a_resource_deleted_and_created_meanwhile_is_told_of_as_changed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    deleted(f, "a:1");
    changed(f, "a:1", NULL);
    come_back(f, s, "a:1", 1);
    assert_false(take(f, s).change->deleted);
}

static void a_change_after_coming_back_takes_the_place_of_the_assumed_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    come_back(f, s, "a:1", 0);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0); /* the assumed one is not counted as merged */
    expect_silence(f);
    expect_cursor(f, s, 2);
}

/* Nobody gave it out. */
static void a_cursor_from_the_future_is_foreign(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t next = after(2);

    changed(f, "a:1", NULL);
    come_back(f, s, "a:1", 1);
    expect_silence(f);
    assert_false(subscribe_only(f, s, URI("a:2"), &next).resumed);
    acknowledge(f, s);
    expect_foreign_cursor(f, s);
    expect_assumed(f, s, "a:2", 1);
    expect_cursor(f, s, 1);
    come_back(f, s, "a:3", UINT64_MAX);
    expect_assumed(f, s, "a:3", 1);
    expect_silence(f);
}

/* Also where the number is given out until it is settled. */
static void a_cursor_from_the_future_stays_foreign_while_it_waits(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t next = after(1);

    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:1"), &next);
    expect_foreign_cursor(f, s);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    acknowledge(f, s);
    expect_foreign_cursor(f, s);
    expect_assumed(f, s, "a:1", 1);
    expect_cursor(f, s, 1);
}

static void a_cursor_steps_back_when_a_subscribe_brings_an_older_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:2", NULL);
    expect_cursor(f, s, 3);
    come_back(f, s, "a:2", 2);
    expect_cursor(f, s, 2);
    come_back(f, s, "a:1", 0);
    expect_cursor(f, s, 0);
    assert_int_equal(drain(f), 2);
    expect_cursor(f, s, 3);
}

static void the_cursor_moves_on_only_when_all_that_was_missed_is_taken(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:3", NULL);
    come_back(f, s, "a:1", 0);
    come_back(f, s, "a:2", 0);
    come_back(f, s, "a:3", 0);
    take(f, s);
    expect_cursor(f, s, 0);
    take(f, s);
    expect_cursor(f, s, 0);
    take(f, s);
    expect_cursor(f, s, 3);
}

static void a_newer_cursor_brought_later_does_not_move_the_old_one_up(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    come_back(f, s, "a:1", 0);
    come_back(f, s, "a:2", 1);
    expect_cursor(f, s, 0);
    assert_int_equal(drain(f), 2);
    expect_cursor(f, s, 2);
}

static void what_was_missed_and_what_changes_hold_the_cursor_together(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL); /* 1 */
    changed(f, "a:2", NULL); /* 2 */
    subscribe(f, s, "b:1");
    subscribe(f, s, "b:2");
    come_back(f, s, "a:2", 1);
    changed(f, "b:1", NULL); /* 3 */
    come_back(f, s, "a:1", 0);
    changed(f, "b:2", NULL); /* 4 */
    expect_cursor(f, s, 0);
    unsubscribe(f, s, "a:1");
    expect_cursor(f, s, 1);
    unsubscribe(f, s, "b:2");
    expect_cursor(f, s, 1);
    expect_assumed(f, s, "a:2", 2);
    expect_cursor(f, s, 2);
    changed(f, "b:1", NULL); /* 5 */
    expect_cursor(f, s, 2);
    expect_note(f, s, "b:1", 5, 1);
    expect_silence(f);
    expect_cursor(f, s, 5);
}

static void versions_do_not_go_back_when_somebody_comes_back(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    come_back(f, s, "a:1", 0);
    expect_assumed(f, s, "a:1", 2);
    unsubscribe(f, s, "a:1");
    come_back(f, s, "a:1", 0);
    assert_true(take(f, s).change->number >= 2);
}

/* ---- What is not remembered --------------------------------------------- */

static void a_cursor_below_the_floor_counts_as_changed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    for (int i = 0; i < 4; i++)
        changed(f, "b:1", NULL); /* pushes 1 out of the history: the floor is 1 */
    come_back(f, s, "a:1", 0);
    expect_assumed(f, s, "a:1", 5);
    come_back(f, s, "never:1",
              0); /* over-reported: it might have been the one forgotten */
    expect_assumed(f, s, "never:1", 5);
}

static void a_cursor_at_the_floor_is_exact(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    for (int i = 0; i < 4; i++)
        changed(f, "b:1", NULL);
    come_back(f, s, "a:1", 1);
    come_back(f, s, "never:1", 1);
    expect_silence(f);
}

static void what_left_the_history_is_remembered_while_it_has_a_subscriber(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), other = open_stream(f);

    subscribe(f, other, "a:1");
    changed(f, "a:1", NULL);
    for (int i = 0; i < 20; i++)
        changed(f, "b:1", NULL);
    expect_note(f, other, "a:1", 1, 0);
    come_back(f, s, "a:1", 1);
    expect_silence(f);
    unsubscribe(f, s, "a:1");
    come_back(f, s, "a:1", 0);
    expect_assumed(f, s, "a:1", 21);
}

static void the_floor_rises_when_a_subscriber_goes_too(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), other = open_stream(f);

    subscribe(f, other, "a:1");
    changed(f, "b:1", NULL);
    changed(f, "a:1", NULL);
    for (int i = 0; i < 20; i++)
        changed(f, "b:1", NULL);
    tdg__engine_close(f->engine, other); /* forgotten now: the floor is 2 */
    come_back(f, s, "a:1", 1);
    expect_assumed(f, s, "a:1", 22);
    come_back(f, s, "c:1", 2);
    expect_silence(f);
}

static int setup_first_number(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_pushed,
                                                       .defaults = at_once,
                                                       .first_number = 1000});
}

static void a_cursor_from_before_the_first_number_counts_as_changed(void **state) {
    struct fixture *f = *state; /* what the numbers below 1,000 were, nobody here knows */
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = after(998);

    come_back(f, s, "a:1", 998);
    expect_assumed(f, s, "a:1", 999);
    assert_false(subscribe_only(f, s, TEMPLATE("b:{x}"), &opts).resumed);
    come_back(f, s, "a:2", 999);
    expect_silence(f);
    opts = after(999);
    assert_true(subscribe_only(f, s, TEMPLATE("c:{x}"), &opts).resumed);
}

static void the_history_is_bounded(void **state) {
    struct fixture *f = *state;
    char uri[32];

    for (int i = 0; i < 1000; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        changed(f, uri, NULL);
    }
    assert_true(counters(f).resources <= 4);
}

/* ---- Another epoch ------------------------------------------------------ */

static tdg__sub_opts_t foreign(void) {
    return (tdg__sub_opts_t){.has_cursor = true, .cursor = {EPOCH + 1, 3}};
}

static void with_a_cursor_of_another_epoch_everything_counts_as_changed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = foreign();

    for (int i = 0; i < 5; i++)
        changed(f, "b:1", NULL);
    subscribe_with(f, s, URI("a:1"), &opts);
    expect_assumed(f, s, "a:1", 5);
    expect_silence(f);
}

static void a_cursor_of_another_epoch_is_not_resumed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = foreign();

    assert_false(subscribe_only(f, s, URI("a:1"), &opts).resumed);
    assert_false(subscribe_only(f, s, LIST("tools"), &opts).resumed);
}

/* Known changes are no reason; what counts as changed for want of knowledge is. */
static void a_resource_is_resumed_where_nothing_had_to_be_assumed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    uint64_t before = changed(f, "b:1", NULL);
    tdg__sub_opts_t opts = after(before);

    changed(f, "a:1", NULL);
    assert_true(subscribe_only(f, s, URI("a:1"), &opts).resumed);
    assert_true(subscribe_only(f, s, URI("b:1"), &opts).resumed);
    for (int i = 0; i < 70000; i++) /* b:1 leaves the history */
        changed(f, "c:1", NULL);
    assert_true(subscribe_only(f, s, URI("b:1"), &opts).resumed);
    unsubscribe(f, s, "b:1");
    changed(f, "c:1", NULL);
    opts.cursor.number = 0;
    assert_false(subscribe_only(f, s, URI("z:1"), &opts).resumed);
}

static void what_nobody_watched_is_not_resumed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts;
    tdg__cursor_t cursor;

    subscribe(f, s, "a:1");
    tdg__engine_cursor(f->engine, s, &cursor);
    opts = after(cursor.number);
    unsubscribe(f, s, "a:1");
    assert_true(subscribe_only(f, s, URI("a:1"), &opts).resumed); /* it lingered */
    unsubscribe(f, s, "a:1");
    advance(f, 60000);
    assert_false(subscribe_only(f, s, URI("a:1"), &opts).resumed);
}

static void the_cursor_is_foreign_until_all_of_it_is_taken(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = foreign();

    changed(f, "b:1", NULL);
    subscribe_with(f, s, URI("a:1"), &opts);
    subscribe_with(f, s, URI("a:2"), &opts);
    expect_foreign_cursor(f, s);
    changed(f, "a:3", NULL);
    expect_foreign_cursor(f, s);
    take(f, s);
    expect_foreign_cursor(f, s);
    take(f, s);
    expect_cursor(f, s, 2);
}

static void a_foreign_cursor_handed_out_counts_as_foreign_again(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = {.has_cursor = true, .cursor = {0, 0}};

    changed(f, "b:1", NULL);
    subscribe_with(f, s, URI("a:1"), &opts);
    expect_foreign_cursor(f, s);
    expect_assumed(f, s, "a:1", 1);
    expect_cursor(f, s, 1);
}

static void a_foreign_cursor_on_a_fresh_engine_is_told_of_number_0(void **state) {
    struct fixture *f =
        *state; /* the server was restarted, and nothing has happened yet */
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = foreign();

    subscribe_with(f, s, URI("a:1"), &opts);
    expect_assumed(f, s, "a:1", 0);
    expect_cursor(f, s, 0);
}

static void an_ended_streams_cursor_may_be_foreign(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = foreign();
    tdg__note_t note;

    changed(f, "a:1", NULL);
    subscribe_with(f, s, URI("a:1"), &opts);
    assert_int_equal(tdg__engine_end(f->engine, s, 0), 0);
    note = take(f, s);
    assert_int_equal(note.kind, TDG__NOTE_END);
    assert_int_equal(note.cursor.epoch, 0);
    assert_int_equal(note.cursor.number, 0);
}

/* ---- Known from --------------------------------------------------------- */

static void a_quick_return_finds_the_watcher_and_misses_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__cursor_t cursor;

    subscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_cursor(f->engine, s, &cursor), 0);
    tdg__engine_close(f->engine, s);
    advance(f, LINGER_MS - 1);
    s = open_stream(f);
    come_back(f, s, "a:1", cursor.number);
    expect_silence(f);
}

static void a_change_while_the_watcher_lingers_is_not_missed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__cursor_t cursor;
    uint64_t number;

    subscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_cursor(f->engine, s, &cursor), 0);
    tdg__engine_close(f->engine, s);
    number = changed(f, "a:1", NULL);
    s = open_stream(f);
    come_back(f, s, "a:1", cursor.number);
    expect_assumed(f, s, "a:1", number);
}

static void what_nobody_watched_meanwhile_counts_as_changed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__cursor_t cursor;

    subscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_cursor(f->engine, s, &cursor), 0);
    tdg__engine_close(f->engine, s);
    advance(f, LINGER_MS);
    s = open_stream(f);
    come_back(f, s, "a:1", cursor.number);
    expect_assumed(f, s, "a:1", counters(f).last_number);
}

/* Watches a:1, changes it, lets the watcher go and comes back while it arms again. */
static tdg__stream_t come_back_unwatched(struct fixture *f, bool with_change) {
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts;
    tdg__cursor_t cursor;

    subscribe(f, s, "a:1");
    if (with_change) {
        changed(f, "a:1", NULL);
        assert_int_equal(drain(f), 1);
    }
    assert_int_equal(tdg__engine_cursor(f->engine, s, &cursor), 0);
    tdg__engine_close(f->engine, s);
    advance(f, LINGER_MS);
    changed(f, "b:1", NULL);
    f->next_call = f->n_calls;

    s = open_stream(f);
    opts = after(cursor.number);
    f->watch_answer = TDG_EAGAIN;
    assert_int_equal(subscribe_only(f, s, URI("a:1"), &opts).state, TDG__SUBSCRIBING);
    expect_watch(f, URI("a:1"));
    return s;
}

static void a_watcher_that_proves_nothing_changed_tells_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = come_back_unwatched(f, true);

    watch_done(f, URI("a:1"), TDG__WATCH_UNCHANGED, 0);
    expect_settled(f, s, URI("a:1"), 0);
    acknowledge(f, s);
    expect_silence(f);
}

static void a_watcher_that_cannot_prove_it_counts_as_changed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = come_back_unwatched(f, true);

    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled_not_resumed(f, s, URI("a:1"));
    acknowledge(f, s);
    expect_assumed(f, s, "a:1", counters(f).last_number);
}

static void unchanged_since_when_helps_only_while_that_is_remembered(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = come_back_unwatched(f, false); /* never changed, so forgotten */

    watch_done(f, URI("a:1"), TDG__WATCH_UNCHANGED, 0);
    acknowledge(f, s);
    expect_assumed(f, s, "a:1", counters(f).last_number);
}

static void a_change_pushed_meanwhile_beats_unchanged(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = come_back_unwatched(f, true);
    uint64_t number = changed(f, "a:1", NULL);

    watch_done(f, URI("a:1"), TDG__WATCH_UNCHANGED, 0);
    acknowledge(f, s);
    expect_note(f, s, "a:1", number, 0);
    expect_silence(f);
}

static void a_change_while_it_arms_will_do_for_what_was_missed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = come_back_unwatched(f, true);
    uint64_t number = changed(f, "a:1", NULL);

    expect_cursor(f, s, 2); /* what it came back with: the arming was 1, the change 2 */
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_cursor(f, s, 2);
    acknowledge(f, s);
    expect_note(f, s, "a:1", number, 0);
    expect_silence(f);
    expect_cursor(f, s, counters(f).last_number);
}

static void while_a_watcher_is_late_any_cursor_is_too_old(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:1"), NULL);
    advance(f, 10000);
    come_back(f, t, "a:1", counters(f).last_number);
    expect_assumed(f, t, "a:1", counters(f).last_number);
}

static void a_cursor_from_the_future_of_a_late_watcher_is_foreign(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    uint64_t last;

    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:1"), NULL);
    advance(f, 10000);
    changed(f, "b:1", NULL);
    last = counters(f).last_number;
    come_back(f, t, "a:1", UINT64_MAX);
    expect_foreign_cursor(f, t);
    expect_assumed(f, t, "a:1", last);
    expect_cursor(f, t, last);
}

static void a_watcher_armed_at_once_has_proven_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__cursor_t cursor;

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    assert_int_equal(drain(f), 1);
    assert_int_equal(tdg__engine_cursor(f->engine, s, &cursor), 0);
    tdg__engine_close(f->engine, s);
    advance(f, LINGER_MS); /* remembered, but not watched */
    s = open_stream(f);
    come_back(f, s, "a:1", cursor.number);
    expect_assumed(f, s, "a:1", counters(f).last_number);
}

/* ---- In the last so many ms --------------------------------------------- */

static tdg__sub_opts_t since(int64_t ms) {
    return (tdg__sub_opts_t){.since_ms = ms};
}

static void a_late_subscriber_can_ask_for_what_changed_lately(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = since(1000);

    changed(f, "b:1", NULL);
    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    advance(f, 1000);
    subscribe_with(f, s, URI("a:1"), &opts);
    expect_cursor(f, s, 1);
    expect_assumed(f, s, "a:1", 3);
    expect_silence(f);
}

static void what_changed_longer_ago_is_not_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = since(1000);

    changed(f, "a:1", NULL);
    advance(f, 1001);
    subscribe_with(f, s, URI("a:1"), &opts);
    expect_silence(f);
    expect_cursor(f, s, 1);
}

static void a_cursor_beats_since(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = after(1);

    changed(f, "a:1", NULL);
    opts.since_ms = 1000;
    subscribe_with(f, s, URI("a:1"), &opts);
    expect_silence(f);
}

static void since_a_negative_time_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = since(-1);

    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"), &opts, NULL),
                     TDG_EINVAL);
}

static void since_the_beginning_of_time_is_fine(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = since(INT64_MAX);

    changed(f, "a:1", NULL);
    subscribe_with(f, s, URI("a:1"), &opts);
    expect_assumed(f, s, "a:1", 1);
    subscribe_with(f, s, TEMPLATE("b:{x}"), &opts);
    expect_silence(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(who_comes_back_is_told_of_what_changed_since, setup_at_once),
        TEST(who_comes_back_is_not_told_of_what_did_not_change, setup_at_once),
        TEST(who_comes_back_without_a_cursor_is_told_of_nothing, setup_at_once),
        TEST(a_resource_that_never_changed_is_not_told_of, setup_at_once),
        TEST(the_whole_round_loses_and_repeats_nothing, setup_at_once),
        TEST(what_was_missed_waits_for_the_acknowledgement, setup_at_once),
        TEST(what_was_missed_skips_filter_window_and_limit, setup_default),
        TEST(what_was_missed_starts_the_limit, setup_at_once),
        TEST(an_assumed_change_carries_no_metadata_of_the_source, setup_at_once),
        TEST(a_resource_deleted_meanwhile_is_told_of_as_deleted, setup_at_once),
        TEST(a_resource_deleted_and_created_meanwhile_is_told_of_as_changed,
             setup_at_once),
        TEST(a_change_after_coming_back_takes_the_place_of_the_assumed_one,
             setup_at_once),
        TEST(a_cursor_from_the_future_is_foreign, setup_at_once),
        TEST(a_cursor_from_the_future_stays_foreign_while_it_waits, setup_watched),
        TEST(a_cursor_steps_back_when_a_subscribe_brings_an_older_one, setup_at_once),
        TEST(the_cursor_moves_on_only_when_all_that_was_missed_is_taken, setup_at_once),
        TEST(a_newer_cursor_brought_later_does_not_move_the_old_one_up, setup_at_once),
        TEST(what_was_missed_and_what_changes_hold_the_cursor_together, setup_at_once),
        TEST(versions_do_not_go_back_when_somebody_comes_back, setup_at_once),

        TEST(a_cursor_below_the_floor_counts_as_changed, setup_short_history),
        TEST(a_cursor_at_the_floor_is_exact, setup_short_history),
        TEST(what_left_the_history_is_remembered_while_it_has_a_subscriber,
             setup_short_history),
        TEST(the_floor_rises_when_a_subscriber_goes_too, setup_short_history),
        TEST(a_cursor_from_before_the_first_number_counts_as_changed, setup_first_number),
        TEST(the_history_is_bounded, setup_short_history),

        TEST(with_a_cursor_of_another_epoch_everything_counts_as_changed, setup_at_once),
        TEST(a_cursor_of_another_epoch_is_not_resumed, setup_at_once),
        TEST(a_resource_is_resumed_where_nothing_had_to_be_assumed, setup_at_once),
        TEST(what_nobody_watched_is_not_resumed, setup_watched),
        TEST(the_cursor_is_foreign_until_all_of_it_is_taken, setup_at_once),
        TEST(a_foreign_cursor_handed_out_counts_as_foreign_again, setup_at_once),
        TEST(a_foreign_cursor_on_a_fresh_engine_is_told_of_number_0, setup_at_once),
        TEST(an_ended_streams_cursor_may_be_foreign, setup_at_once),

        TEST(a_quick_return_finds_the_watcher_and_misses_nothing, setup_watched),
        TEST(a_change_while_the_watcher_lingers_is_not_missed, setup_watched),
        TEST(what_nobody_watched_meanwhile_counts_as_changed, setup_watched),
        TEST(a_watcher_that_proves_nothing_changed_tells_nothing, setup_watched),
        TEST(a_watcher_that_cannot_prove_it_counts_as_changed, setup_watched),
        TEST(unchanged_since_when_helps_only_while_that_is_remembered, setup_watched),
        TEST(a_change_pushed_meanwhile_beats_unchanged, setup_watched),
        TEST(a_change_while_it_arms_will_do_for_what_was_missed, setup_watched),
        TEST(while_a_watcher_is_late_any_cursor_is_too_old, setup_watched),
        TEST(a_cursor_from_the_future_of_a_late_watcher_is_foreign, setup_watched),
        TEST(a_watcher_armed_at_once_has_proven_nothing, setup_watched),

        TEST(a_late_subscriber_can_ask_for_what_changed_lately, setup_at_once),
        TEST(what_changed_longer_ago_is_not_told, setup_at_once),
        TEST(a_cursor_beats_since, setup_at_once),
        TEST(since_a_negative_time_is_refused, setup_at_once),
        TEST(since_the_beginning_of_time_is_fine, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_catchup", tests, NULL, NULL);
}
