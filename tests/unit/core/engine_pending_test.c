/* SPDX-License-Identifier: MIT
 *
 * Level-triggered delivery: what waits on a stream, in which order it is taken, and the
 * cursor as the low-water mark of what has been. */
#include "unit/core/fixture.h"

/* ---- One per stream and resource ---------------------------------------- */

static void changes_not_yet_taken_merge_into_the_newest(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe(f, s, "a:1");
    changed(f, "a:1", "{'seq': 1}");
    changed(f, "a:1", "{'seq': 2}");
    changed(f, "a:1", "{'seq': 3}");
    note = take(f, s);
    assert_int_equal(note.change->number, 3);
    assert_int_equal(note.merged, 2);
    assert_int_equal(json_integer_value(json_object_get(note.change->metadata, "seq")),
                     3);
    expect_silence(f);
}

static void the_last_change_always_arrives(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    uint64_t last = 0, told = 0;

    subscribe(f, s, "a:1"); /* built-in settings */
    for (int i = 0; i < 500; i++) {
        last = changed(f, "a:1", NULL);
        advance(f, (i * 37) % 211);
        if (i % 3 == 0 && tdg__engine_next_ready(f->engine, 0) == s)
            told = take(f, s).change->number;
    }
    for (int i = 0; i < 100 && told != last; i++) {
        advance(f, 100);
        if (tdg__engine_next_ready(f->engine, 0) == s)
            told = take(f, s).change->number;
    }
    assert_int_equal(told, last);
    expect_cursor(f, s, last);
}

static void versions_never_go_backwards(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    uint64_t before = 0;

    subscribe_settings(f, s, "a:1", batch(30));
    subscribe_template(f, s, "a:{x}");
    subscribe_with(f, s, TEMPLATE("{x}:1"), &(tdg__sub_opts_t){.settings = throttle(70)});
    for (int i = 0; i < 300; i++) {
        changed(f, "a:1", NULL);
        advance(f, i % 17);
        while (i % 5 == 0 && tdg__engine_next_ready(f->engine, 0) == s) {
            uint64_t number = take(f, s).change->number;

            assert_true(number > before);
            before = number;
        }
    }
}

static void a_slow_reader_does_not_hold_the_others(void **state) {
    struct fixture *f = *state;
    tdg__stream_t slow = open_stream(f), fast = open_stream(f);

    subscribe(f, slow, "a:1");
    subscribe(f, fast, "a:1");
    for (uint64_t number = 1; number <= 100; number++) {
        changed(f, "a:1", NULL);
        expect_note(f, fast, "a:1", number, 0);
    }
    expect_note(f, slow, "a:1", 100, 99);
}

/* Defect 14 of erlmcp: no bound on any queue. */
static void a_slow_reader_costs_bounded_memory(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    size_t live;

    subscribe(f, s, "a:1");
    changed(f, "a:1", "{'size': 1}");
    live = memory_live();
    for (int i = 0; i < 10000; i++)
        changed(f, "a:1", "{'size': 1}");
    assert_true(memory_live() <= live);
    assert_int_equal(counters(f).pending, 1);
    expect_note(f, s, "a:1", 10001, 10000);
}

static void every_resource_waits_by_itself(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:1", NULL);
    assert_int_equal(counters(f).pending, 2);
    expect_note(f, s, "a:1", 3, 1);
    expect_note(f, s, "a:2", 2, 0);
}

static void nothing_is_taken_where_nothing_is_ready(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note = {.reason = 77};

    assert_int_equal(tdg__engine_take(f->engine, s, &note), 0);
    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_take(f->engine, s, &note), 0);
    assert_int_equal(note.reason, 77);
}

/* ---- Order -------------------------------------------------------------- */

static void what_became_ready_first_is_taken_first(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:slow", batch(100));
    subscribe_settings(f, s, "a:fast", batch(10));
    subscribe(f, s, "a:now");
    changed(f, "a:slow", NULL);
    changed(f, "a:fast", NULL);
    changed(f, "a:now", NULL);
    advance(f, 10);
    advance(f, 90);
    expect_note(f, s, "a:now", 3, 0);
    expect_note(f, s, "a:fast", 2, 0);
    expect_note(f, s, "a:slow", 1, 0);
}

static void merging_keeps_the_place_in_the_queue(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 3, 1);
    expect_note(f, s, "a:2", 2, 0);
}

static void a_deletion_keeps_the_place_in_the_queue(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 3, 1);
    expect_note(f, s, "a:2", 2, 0);
}

static void what_is_kept_for_the_acknowledgement_keeps_its_order(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    static const char *const uris[] = {"a:2", "a:1", "a:3"};

    subscribe_only(f, s, URI("a:1"), NULL);
    subscribe_only(f, s, URI("a:2"), NULL);
    subscribe_only(f, s, URI("a:3"), NULL);
    for (size_t i = 0; i < 3; i++)
        changed(f, uris[i], NULL);
    acknowledge(f, s);
    for (size_t i = 0; i < 3; i++)
        expect_note(f, s, uris[i], i + 1, 0);
}

static void subscribe_priority(struct fixture *f, tdg__stream_t s, const char *uri,
                               int priority) {
    subscribe_with(f, s, URI(uri), &(tdg__sub_opts_t){.priority = priority});
}

static void priority_decides_what_of_a_stream_is_taken_first(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_priority(f, s, "a:low", TDG__PRIORITY_LOW);
    subscribe_priority(f, s, "a:normal", TDG__PRIORITY_NORMAL);
    subscribe_priority(f, s, "a:high", TDG__PRIORITY_HIGH);
    changed(f, "a:low", NULL);
    changed(f, "a:normal", NULL);
    changed(f, "a:high", NULL);
    expect_note(f, s, "a:high", 3, 0);
    expect_note(f, s, "a:normal", 2, 0);
    expect_note(f, s, "a:low", 1, 0);
}

static void within_a_priority_the_order_is_kept(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_priority(f, s, "a:1", TDG__PRIORITY_HIGH);
    subscribe_priority(f, s, "a:2", TDG__PRIORITY_HIGH);
    subscribe(f, s, "a:3");
    subscribe(f, s, "a:4");
    changed(f, "a:4", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:3", NULL);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:2", 2, 0);
    expect_note(f, s, "a:1", 4, 0);
    expect_note(f, s, "a:4", 1, 0);
    expect_note(f, s, "a:3", 3, 0);
}

static void priority_has_a_say_in_its_own_stream_only(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_priority(f, t, "a:1", TDG__PRIORITY_HIGH);
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), s);
    assert_int_equal(tdg__engine_next_ready(f->engine, s), t);
}

static void those_of_different_priority_share_a_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    tdg__sub_opts_t high = {.settings = throttle(100), .priority = TDG__PRIORITY_HIGH};
    tdg__sub_opts_t low = {.settings = throttle(100), .priority = TDG__PRIORITY_LOW};

    subscribe_with(f, s, URI("a:1"), &high);
    changed(f, "a:1", NULL);
    assert_int_equal(drain(f), 1);
    advance(f, 10);
    subscribe_with(f, t, URI("a:1"), &low);
    changed(f, "a:1", NULL);
    expect_silence(f); /* t is held by the window that s opened */
    advance(f, 90);
    assert_int_equal(drain(f), 2);
}

static void a_low_priority_waits_but_is_not_lost(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_priority(f, s, "a:low", TDG__PRIORITY_LOW);
    subscribe_priority(f, s, "a:high", TDG__PRIORITY_HIGH);
    changed(f, "a:low", NULL);
    for (uint64_t number = 2; number < 50; number++) {
        changed(f, "a:high", NULL);
        expect_note(f, s, "a:high", number, 0);
        expect_cursor(f, s, 0);
    }
    expect_note(f, s, "a:low", 1, 0);
    expect_cursor(f, s, 49);
}

static void a_templates_priority_holds_for_its_uris(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "b:1");
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.priority = 1});
    changed(f, "b:1", NULL);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
    expect_note(f, s, "b:1", 1, 0);
}

static void a_new_priority_holds_from_then_on(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_priority(f, s, "a:1", TDG__PRIORITY_LOW);
    subscribe(f, s, "a:2");
    subscribe_priority(f, s, "a:1", TDG__PRIORITY_HIGH);
    changed(f, "a:2", NULL);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
    expect_note(f, s, "a:2", 1, 0);
}

static void what_is_ready_goes_to_the_end_of_a_new_priority(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_priority(f, s, "a:1", TDG__PRIORITY_HIGH);
    subscribe(f, s, "a:2");
    subscribe(f, s, "a:3");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    subscribe_priority(f, s, "a:1", TDG__PRIORITY_NORMAL);
    changed(f, "a:3", NULL);
    expect_note(f, s, "a:2", 2, 0);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, s, "a:3", 3, 0);
}

/* ---- Ready streams ------------------------------------------------------ */

static void ready_streams_come_in_the_order_of_their_handles(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[200], next = 0;

    for (int i = 0; i < 200; i++)
        s[i] = open_stream(f);
    for (int i = 199; i >= 0; i -= 2)
        subscribe(f, s[i], "a:1");
    changed(f, "a:1", NULL);
    for (int i = 1; i < 200; i += 2) {
        next = tdg__engine_next_ready(f->engine, next);
        assert_int_equal(next, s[i]);
    }
    assert_int_equal(tdg__engine_next_ready(f->engine, next), 0);
}

static void a_stream_is_ready_until_its_last_notification_is_taken(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), s);
    expect_note(f, s, "a:1", 1, 0);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), s);
    expect_note(f, s, "a:2", 2, 0);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), 0);
}

static void a_blocked_stream_is_not_among_the_ready_ones(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, t, "a:1");
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_block(f->engine, s, true), 0);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), t);
    expect_note(f, t, "a:1", 1, 0);
    expect_silence(f);
    changed(f, "a:1", NULL);
    expect_note(f, t, "a:1", 2, 0);
    assert_int_equal(tdg__engine_block(f->engine, s, false), 0);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), s);
    expect_note(f, s, "a:1", 2, 1);
}

static void a_stream_may_be_blocked_before_anything_is_ready(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(tdg__engine_block(f->engine, s, true), 0);
    assert_int_equal(tdg__engine_block(f->engine, s, true), 0);
    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_silence(f);
    assert_int_equal(tdg__engine_block(f->engine, s, false), 0);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
}

static void unblocking_a_stream_with_nothing_ready_is_silent(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_block(f->engine, s, true), 0);
    unsubscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_block(f->engine, s, false), 0);
    expect_silence(f);
}

static void the_end_of_a_blocked_stream_waits_for_it(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(tdg__engine_block(f->engine, s, true), 0);
    assert_int_equal(tdg__engine_end(f->engine, s, 5), 0);
    expect_silence(f);
    assert_int_equal(tdg__engine_block(f->engine, s, false), 0);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), s);
    expect_end(f, s, 5, 0);
}

/* ---- The cursor --------------------------------------------------------- */

static void a_new_streams_cursor_is_the_last_number(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    expect_cursor(f, s, 0);
    changed(f, "a:1", NULL);
    changed(f, "a:1", NULL);
    expect_cursor(f, s, 2);
    expect_cursor(f, open_stream(f), 2);
}

static void what_concerns_others_moves_the_cursor_on(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:2", NULL);
    changed(f, "a:3", NULL);
    expect_cursor(f, s, 2);
}

static void the_cursor_stays_below_the_oldest_that_is_in_flight(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    changed(f, "x:1", NULL); /* 1 */
    changed(f, "a:1", NULL); /* 2 */
    changed(f, "x:1", NULL); /* 3 */
    changed(f, "a:2", NULL); /* 4 */
    changed(f, "a:1", NULL); /* 5 */
    expect_cursor(f, s, 1);
    expect_note(f, s, "a:1", 5, 1);
    expect_cursor(f, s, 3); /* 4 is not written yet, though 5 is */
    expect_note(f, s, "a:2", 4, 0);
    expect_cursor(f, s, 5);
}

static void taking_out_of_order_moves_the_cursor_by_the_oldest_left(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_priority(f, s, "a:low", TDG__PRIORITY_LOW);
    subscribe(f, s, "a:mid");
    subscribe_priority(f, s, "a:high", TDG__PRIORITY_HIGH);
    changed(f, "a:mid", NULL);
    changed(f, "a:low", NULL);
    changed(f, "a:high", NULL);
    expect_note(f, s, "a:high", 3, 0);
    expect_cursor(f, s, 0);
    expect_note(f, s, "a:mid", 1, 0);
    expect_cursor(f, s, 1);
    expect_note(f, s, "a:low", 2, 0);
    expect_cursor(f, s, 3);
}

static void what_waits_for_a_window_holds_the_cursor(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:slow", batch(1000));
    subscribe(f, s, "a:fast");
    changed(f, "a:slow", NULL);
    for (uint64_t number = 2; number <= 5; number++) {
        changed(f, "a:fast", NULL);
        expect_note(f, s, "a:fast", number, 0);
        expect_cursor(f, s, 0);
    }
    advance(f, 1000);
    expect_note(f, s, "a:slow", 1, 0);
    expect_cursor(f, s, 5);
}

static void what_waits_for_a_limit_holds_the_cursor(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    subscribe(f, s, "a:2");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_cursor(f, s, 1);
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    expect_note(f, s, "a:2", 3, 0);
    expect_cursor(f, s, 1);
    advance(f, 1000);
    expect_note(f, s, "a:1", 2, 0);
    expect_cursor(f, s, 3);
}

static void what_waits_for_the_acknowledgement_holds_the_cursor(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_only(f, s, URI("a:2"), NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
    expect_cursor(f, s, 0);
    acknowledge(f, s);
    expect_note(f, s, "a:2", 1, 0);
    expect_cursor(f, s, 2);
}

static void merging_does_not_move_the_cursor(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "x:1", NULL);
    changed(f, "a:1", NULL);
    changed(f, "a:1", NULL);
    changed(f, "a:1", NULL);
    expect_cursor(f, s, 1);
}

static void a_change_right_after_taking_is_above_the_cursor(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "x:1", NULL);
    changed(f, "a:1", NULL);
    expect_cursor(f, s, 2);
}

static void dropping_the_oldest_in_flight_moves_the_cursor_to_the_next(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    subscribe(f, s, "a:3");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:3", NULL);
    unsubscribe(f, s, "a:2"); /* from the middle */
    expect_cursor(f, s, 0);
    unsubscribe(f, s, "a:1");
    expect_cursor(f, s, 2);
}

static void a_template_holds_the_cursor_by_each_of_its_uris(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:1", NULL);
    expect_cursor(f, s, 0);
    expect_note(f, s, "a:1", 3, 1);
    expect_cursor(f, s, 1);
    expect_note(f, s, "a:2", 2, 0);
    expect_cursor(f, s, 3);
}

static void a_sibling_taken_along_does_not_hold_the_cursor(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(1000)});
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_cursor(f, s, 1);
    advance(f, 1000);
    expect_note(f, s, "a:2", 2, 0);
    expect_cursor(f, s, 2);
}

static void
what_was_taken_at_or_below_the_cursor_is_all_that_concerned_the_stream(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    static const char *const uris[] = {"a:0", "a:1", "a:2", "x:0"};
    uint64_t told[4] = {0}, last[4] = {0};

    subscribe_settings(f, s, "a:0", batch(50));
    subscribe_settings(f, s, "a:1", rate_limit(120));
    subscribe_settings(f, s, "a:2", debounce(40, 200));
    for (unsigned i = 0; i < 2000; i++) {
        unsigned n = (i * 2654435761u) >> 16;
        tdg__cursor_t cursor;

        if (n % 3 != 0)
            last[n % 4] = changed(f, uris[n % 4], NULL);
        advance(f, n % 29);
        if (n % 5 == 0 && tdg__engine_next_ready(f->engine, 0) == s) {
            tdg__note_t note = take(f, s);

            told[note.change->name[2] - '0'] = note.change->number;
        }
        assert_int_equal(tdg__engine_cursor(f->engine, s, &cursor), 0);
        for (int j = 0; j < 3; j++)
            assert_true(told[j] == last[j] || cursor.number < last[j]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(changes_not_yet_taken_merge_into_the_newest, setup_at_once),
        TEST(the_last_change_always_arrives, setup_default),
        TEST(versions_never_go_backwards, setup_default),
        TEST(a_slow_reader_does_not_hold_the_others, setup_at_once),
        TEST(a_slow_reader_costs_bounded_memory, setup_at_once),
        TEST(every_resource_waits_by_itself, setup_at_once),
        TEST(nothing_is_taken_where_nothing_is_ready, setup_at_once),

        TEST(what_became_ready_first_is_taken_first, setup_at_once),
        TEST(merging_keeps_the_place_in_the_queue, setup_at_once),
        TEST(a_deletion_keeps_the_place_in_the_queue, setup_at_once),
        TEST(what_is_kept_for_the_acknowledgement_keeps_its_order, setup_at_once),
        TEST(priority_decides_what_of_a_stream_is_taken_first, setup_at_once),
        TEST(within_a_priority_the_order_is_kept, setup_at_once),
        TEST(priority_has_a_say_in_its_own_stream_only, setup_at_once),
        TEST(those_of_different_priority_share_a_window, setup_at_once),
        TEST(a_low_priority_waits_but_is_not_lost, setup_at_once),
        TEST(a_templates_priority_holds_for_its_uris, setup_at_once),
        TEST(a_new_priority_holds_from_then_on, setup_at_once),
        TEST(what_is_ready_goes_to_the_end_of_a_new_priority, setup_at_once),

        TEST(ready_streams_come_in_the_order_of_their_handles, setup_at_once),
        TEST(a_stream_is_ready_until_its_last_notification_is_taken, setup_at_once),
        TEST(a_blocked_stream_is_not_among_the_ready_ones, setup_at_once),
        TEST(a_stream_may_be_blocked_before_anything_is_ready, setup_at_once),
        TEST(unblocking_a_stream_with_nothing_ready_is_silent, setup_at_once),
        TEST(the_end_of_a_blocked_stream_waits_for_it, setup_at_once),

        TEST(a_new_streams_cursor_is_the_last_number, setup_at_once),
        TEST(what_concerns_others_moves_the_cursor_on, setup_at_once),
        TEST(the_cursor_stays_below_the_oldest_that_is_in_flight, setup_at_once),
        TEST(taking_out_of_order_moves_the_cursor_by_the_oldest_left, setup_at_once),
        TEST(what_waits_for_a_window_holds_the_cursor, setup_at_once),
        TEST(what_waits_for_a_limit_holds_the_cursor, setup_at_once),
        TEST(what_waits_for_the_acknowledgement_holds_the_cursor, setup_at_once),
        TEST(merging_does_not_move_the_cursor, setup_at_once),
        TEST(a_change_right_after_taking_is_above_the_cursor, setup_at_once),
        TEST(dropping_the_oldest_in_flight_moves_the_cursor_to_the_next, setup_at_once),
        TEST(a_template_holds_the_cursor_by_each_of_its_uris, setup_at_once),
        TEST(a_sibling_taken_along_does_not_hold_the_cursor, setup_at_once),
        TEST(what_was_taken_at_or_below_the_cursor_is_all_that_concerned_the_stream,
             setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_pending", tests, NULL, NULL);
}
