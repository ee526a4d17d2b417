/* SPDX-License-Identifier: MIT
 *
 * Template subscriptions, and what they share with the others of their stream: per stream
 * and URI there is at most one notification. */
#include <stdio.h>

#include "unit/core/fixture.h"

/* ---- Matching -------------------------------------------------------------------- */

/* Defect 6 of erlmcp: templates never match, metadata is dropped on the way. */
static void one_template_subscription_matches_all_its_uris(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe_template(f, s, "user://{username}");
    changed(f, "user://alice", "{'size': 5}");
    changed(f, "user://bob", NULL);
    changed(f, "user://charlie", NULL);
    note = take(f, s);
    assert_string_equal(note.change->name, "user://alice");
    assert_int_equal(json_integer_value(json_object_get(note.change->metadata, "size")),
                     5);
    expect_note(f, s, "user://bob", 2, 0);
    expect_note(f, s, "user://charlie", 3, 0);
    expect_silence(f);
}

static void a_template_tells_of_nothing_that_it_does_not_match(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "user://{username}");
    changed(f, "user://alice/photos", NULL); /* notify on an exact match only */
    changed(f, "users://alice", NULL);
    changed(f, "weather://city/paris", NULL);
    expect_silence(f);
}

static void templates_may_have_several_parameters(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "db://{table}/{id}");
    changed(f, "db://orders/42", NULL);
    expect_note(f, s, "db://orders/42", 1, 0);
    changed(f, "db://orders", NULL);
    expect_silence(f);
}

static void a_reserved_expression_spans_slashes(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "file:///{+path}");
    changed(f, "file:///a/b/c.txt", NULL);
    expect_note(f, s, "file:///a/b/c.txt", 1, 0);
}

static void of_many_templates_only_those_that_match_are_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[300];
    char text[32];

    for (int i = 0; i < 300; i++) {
        s[i] = open_stream(f);
        snprintf(text, sizeof(text), "t%d://{x}", i);
        subscribe_template(f, s[i], text);
    }
    changed(f, "t7://one", NULL);
    changed(f, "t250://two", NULL);
    expect_note(f, s[7], "t7://one", 1, 0);
    expect_note(f, s[250], "t250://two", 2, 0);
    expect_silence(f);
}

static void many_streams_share_one_template(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[20];

    for (int i = 0; i < 20; i++) {
        s[i] = open_stream(f);
        subscribe_template(f, s[i], "a:{x}");
    }
    assert_int_equal(counters(f).templates, 1);
    changed(f, "a:1", NULL);
    for (int i = 0; i < 20; i++)
        expect_note(f, s[i], "a:1", 1, 0);
}

static void a_template_subscription_survives_deletions(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    deleted(f, "a:1");
    assert_true(take(f, s).change->deleted);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
}

static void a_malformed_template_is_refused_and_says_where(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__parse_error_t error = {0};
    tdg__sub_opts_t opts = {.error = &error};

    assert_int_equal(tdg__engine_subscribe(f->engine, s, TEMPLATE("a:{x"), &opts, NULL),
                     TDG_ETEMPLATE);
    assert_true(error.text[0] != '\0');
    assert_true(error.at <= 4);
    assert_int_equal(tdg__engine_subscribe(f->engine, s, TEMPLATE("a:{}"), NULL, NULL),
                     TDG_ETEMPLATE);
    assert_int_equal(tdg__engine_subscribe(f->engine, s, TEMPLATE(""), NULL, NULL),
                     TDG_EINVAL);
    assert_int_equal(counters(f).templates, 0);
    assert_int_equal(counters(f).subscriptions, 0);
}

static void a_template_without_an_expression_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(tdg__engine_subscribe(f->engine, s, TEMPLATE("a:1"), NULL, NULL),
                     TDG_ETEMPLATE);
}

static void an_ambiguous_template_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(
        tdg__engine_subscribe(f->engine, s, TEMPLATE("a:{x}{y}"), NULL, NULL),
        TDG_EAMBIGUOUS);
    assert_int_equal(counters(f).templates, 0);
}

static void unsubscribing_a_template_is_silent_from_then_on(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{x}")), 0);
    expect_nothing(f, s);
    changed(f, "a:3", NULL);
    expect_silence(f);
    expect_cursor(f, s, 3);
    assert_int_equal(counters(f).templates, 0);
    assert_int_equal(counters(f).pending, 0);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{x}")),
                     TDG_ENOTFOUND);
}

static void unsubscribing_a_uri_that_only_a_template_covers_is_not_found(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, URI("a:1")), TDG_ENOTFOUND);
    expect_note(f, s, "a:1", 1, 0);
}

static void subscribing_a_template_twice_is_one_subscription(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    assert_int_equal(subscribe_only(f, s, TEMPLATE("a:{x}"), NULL).state,
                     TDG__SUBSCRIBED);
    assert_int_equal(counters(f).subscriptions, 1);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
}

static void nothing_about_a_template_is_told_before_its_acknowledgement(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, TEMPLATE("a:{x}"), NULL);
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:1", NULL);
    expect_nothing(f, s);
    expect_silence(f);
    assert_int_equal(tdg__engine_acknowledge(f->engine, s, TEMPLATE("a:{x}")), 0);
    expect_note(f, s, "a:1", 3, 1);
    expect_note(f, s, "a:2", 2, 0);
    expect_silence(f);
}

static void what_a_template_told_of_leaves_nothing_behind(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    size_t live = 0;
    char uri[32];

    subscribe_template(f, s, "a:{x}");
    for (int i = 0; i < 3000; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        changed(f, uri, NULL);
        expect_note(f, s, uri, (uint64_t)i + 1, 0);
        if (i == 1000)
            live = memory_live();
    }
    assert_true(memory_live() <= live);
    assert_true(counters(f).resources <= 16); /* the history of this engine */
}

static int setup_short_history(void **state) {
    return fixture_create(
        state,
        &(tdg__engine_opts_t){.calls = calls_pushed, .defaults = at_once, .history = 16});
}

/* ---- Timing per URI -------------------------------------------------------------- */

static void every_uri_of_a_template_has_its_own_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(100)});
    changed(f, "a:1", NULL);
    advance(f, 50);
    changed(f, "a:2", NULL);
    changed(f, "a:1", NULL);
    advance(f, 50);
    expect_note(f, s, "a:1", 3, 1);
    expect_silence(f);
    advance(f, 50);
    expect_note(f, s, "a:2", 2, 0);
}

static void a_busy_uri_of_a_template_never_delays_a_quiet_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    uint64_t number;

    subscribe_with(f, s, TEMPLATE("a:{x}"),
                   &(tdg__sub_opts_t){.settings = debounce(100, 1000)});
    number = changed(f, "a:quiet", NULL);
    for (int i = 0; i < 10; i++) {
        expect_silence(f);
        changed(f, "a:busy", NULL);
        advance(f, 10);
    }
    expect_note(f, s, "a:quiet", number, 0);
    expect_silence(f);
}

static void every_uri_of_a_template_has_its_own_rate_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_with(f, s, TEMPLATE("a:{x}"),
                   &(tdg__sub_opts_t){.settings = rate_limit(1000)});
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    expect_note(f, s, "a:2", 3, 0);
    expect_silence(f);
    advance(f, 999);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void throttle_holds_for_every_uri_of_a_template_by_itself(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_with(f, s, TEMPLATE("a:{x}"),
                   &(tdg__sub_opts_t){.settings = throttle(100)});
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 40);
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    expect_note(f, s, "a:2", 3, 0);
    expect_silence(f);
    advance(f, 60);
    expect_note(f, s, "a:1", 2, 0);
}

static void a_deletion_skips_window_and_limit_through_a_template(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}"); /* batch of 100 ms, limit of 1,000 ms */
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 3, 1);
}

static void who_joins_a_template_during_a_window_shares_it(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), late = open_stream(f);
    tdg__sub_opts_t opts = {.settings = batch(100)};

    subscribe_with(f, s, TEMPLATE("a:{x}"), &opts);
    changed(f, "a:1", NULL);
    advance(f, 50);
    subscribe_with(f, late, TEMPLATE("a:{x}"), &opts);
    advance(f, 20);
    changed(f, "a:1", NULL);
    advance(f, 30);
    expect_note(f, s, "a:1", 2, 1);
    expect_note(f, late, "a:1", 2, 0);
}

static void who_joins_a_template_later_is_told_of_the_next_change_only(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), late = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    subscribe_template(f, late, "a:{x}");
    expect_nothing(f, late);
    changed(f, "a:1", NULL);
    expect_note(f, late, "a:1", 2, 0);
    expect_note(f, s, "a:1", 2, 1);
}

static void new_wishes_for_a_template_lose_nothing_that_is_pending(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_with(f, s, TEMPLATE("a:{x}"),
                   &(tdg__sub_opts_t){.settings = debounce(500, 5000)});
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:1", NULL);
    expect_silence(f);
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(100)});
    expect_note(f, s, "a:1", 3, 1);
    expect_note(f, s, "a:2", 2, 0);
    expect_silence(f);
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_note(f, s, "a:1", 4, 0);
    expect_silence(f);
}

static void leaving_a_template_leaves_the_others_in_their_windows(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    tdg__sub_opts_t opts = {.settings = batch(100)};

    subscribe_with(f, s, TEMPLATE("a:{x}"), &opts);
    subscribe_with(f, t, TEMPLATE("a:{x}"), &opts);
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{x}")), 0);
    advance(f, 100);
    expect_note(f, t, "a:1", 1, 0);
    expect_silence(f);
}

/* ---- Template and concrete subscription of one stream ---------------------------- */

static void template_and_concrete_subscription_give_one_notification(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
    changed(f, "a:2", NULL);
    expect_note(f, s, "a:2", 2, 0);
    expect_silence(f);
}

static void several_templates_on_one_uri_give_one_notification(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe_template(f, s, "{scheme}:1");
    subscribe_template(f, s, "a:{+rest}");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
}

static void several_templates_of_several_streams_give_one_each(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe_template(f, t, "{scheme}:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, t, "a:1", 1, 0);
    expect_silence(f);
}

static void dropping_the_template_keeps_the_concrete_subscription(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{x}")), 0);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
}

static void dropping_the_concrete_subscription_keeps_the_template(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    unsubscribe(f, s, "a:1");
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
}

static void dropping_one_of_several_templates_keeps_the_others(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe_template(f, s, "{scheme}:1");
    subscribe_template(f, s, "a:{+rest}");
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("{scheme}:1")), 0);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{x}")), 0);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{+rest}")), 0);
    changed(f, "a:1", NULL);
    expect_silence(f);
}

static void whichever_is_due_first_takes_the_other_along(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", at_once);
    subscribe_with(f, s, TEMPLATE("a:{x}"),
                   &(tdg__sub_opts_t){.settings = debounce(500, 5000)});
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_cursor(f, s, 1);
    advance(f, 1000);
    expect_silence(f);
}

static void the_template_may_be_the_one_that_is_due_first(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(500, 5000));
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(100)});
    changed(f, "a:1", NULL);
    advance(f, 50);
    changed(f, "a:1", NULL);
    advance(f, 50);
    expect_note(f, s, "a:1", 2, 1);
    advance(f, 1000);
    expect_silence(f);
}

static void it_is_enough_that_either_passes(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}");
    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", "{'size': 1}");
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", "{'size': 11}");
    expect_note(f, s, "a:1", 2, 0);
    expect_silence(f);
}

static void the_newest_change_that_passed_either_is_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}");
    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", "{'size': 11}");
    changed(f, "a:1", "{'size': 1}");
    expect_note(f, s, "a:1", 2, 1);
    expect_silence(f);
}

static void a_change_still_in_a_siblings_window_is_told_as_the_newest(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t slow = {.settings = batch(1000)};

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}"); /* at once */
    subscribe_with(f, s, TEMPLATE("a:{x}"), &slow);
    changed(f, "a:1", "{'size': 11}"); /* ready at once */
    changed(f, "a:1", "{'size': 1}");  /* waits in the template's window */
    expect_note(f, s, "a:1", 2, 1);
    advance(f, 5000);
    expect_silence(f);
}

static void merged_is_the_most_that_any_sibling_had(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}");
    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", "{'size': 11}");
    changed(f, "a:1", "{'size': 1}");
    changed(f, "a:1", "{'size': 12}");
    expect_note(f, s, "a:1", 3, 2);
    assert_int_equal(counters(f).merged, 2);
    assert_int_equal(counters(f).delivered, 1);
}

static void a_notification_starts_the_limits_of_all_it_stood_for(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(500));
    subscribe_with(f, s, TEMPLATE("a:{x}"),
                   &(tdg__sub_opts_t){.settings = rate_limit(1000)});
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 100);
    changed(f, "a:1", NULL);
    expect_silence(f);
    advance(f, 400); /* the shorter one is due first and takes the other along */
    expect_note(f, s, "a:1", 2, 0);
    advance(f, 500);
    expect_silence(f);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 3, 0);
}

static void a_sibling_not_acknowledged_is_told_nothing_twice(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_only(f, s, TEMPLATE("a:{x}"), NULL);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_cursor(f, s, 1);
    acknowledge(f, s);
    expect_silence(f);
}

static void a_sibling_not_acknowledged_keeps_a_newer_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}");
    subscribe_only(f, s, TEMPLATE("a:{x}"), NULL);
    changed(f, "a:1", "{'size': 11}");
    changed(f, "a:1", "{'size': 1}");
    assert_int_equal(take(f, s).change->number, 1);
    expect_silence(f);
    acknowledge(f, s);
    assert_int_equal(take(f, s).change->number, 2);
    expect_cursor(f, s, 2);
    expect_silence(f);
}

static void a_note_that_is_not_acknowledged_does_not_leave_with_a_sibling(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, URI("a:1"), NULL);
    subscribe_template(f, s, "b:{x}");
    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    expect_note(f, s, "b:1", 2, 0);
    expect_silence(f);
}

static void a_concrete_subscription_that_comes_later_shares_what_follows(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(100)});
    changed(f, "a:1", NULL);
    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_note(f, s, "a:1", 2, 1);
    expect_silence(f);
}

static void a_template_that_comes_later_shares_what_follows(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(300)});
    advance(f, 50);
    changed(f, "a:1", NULL);
    advance(f, 50);
    expect_note(f, s, "a:1", 2, 1);
    advance(f, 1000);
    expect_silence(f);
}

/* ---- May read -------------------------------------------------------------------- */

static void a_template_tells_nothing_of_what_its_owner_may_not_read(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->forbidden = "a:secret";
    subscribe_template(f, s, "a:{x}");
    changed(f, "a:secret", NULL);
    deleted(f, "a:secret");
    expect_silence(f);
    expect_cursor(f, s, 2);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 3, 0);
}

static void who_may_read_is_told_beside_who_may_not(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f), u = open_stream(f);

    f->forbidden = "a:1";
    f->forbidden_to = t;
    subscribe_template(f, s, "a:{x}");
    subscribe_template(f, t, "a:{x}");
    subscribe_template(f, u, "a:{x}");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, u, "a:1", 1, 0);
    expect_silence(f);
}

static void a_concrete_subscription_was_authorised_when_it_was_made(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->forbidden = "a:1";
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    assert_int_equal(f->asked, 0);
}

static void a_forbidden_template_match_does_not_hold_the_concrete_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->forbidden = "a:1";
    subscribe(f, s, "a:1");
    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
}

static void a_forbidden_uri_never_counts_as_pending(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->forbidden = "a:1";
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(100)});
    changed(f, "a:1", NULL);
    assert_int_equal(counters(f).pending, 0);
    advance(f, 100);
    expect_silence(f);
}

static void a_window_runs_even_if_nobody_may_read(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    tdg__sub_opts_t opts = {.settings = batch(100)};

    f->forbidden = "a:1";
    f->forbidden_to = s;
    subscribe_with(f, s, TEMPLATE("a:{x}"), &opts);
    changed(f, "a:1", NULL);
    advance(f, 60);
    subscribe_with(f, t, TEMPLATE("a:{x}"), &opts);
    changed(f, "a:1", NULL);
    advance(f, 39);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, t, "a:1", 2, 0);
    expect_silence(f);
}

static void a_right_given_holds_from_the_next_change_on(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->forbidden = "a:1";
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(100)});
    changed(f, "a:1", NULL);
    advance(f, 60);
    f->forbidden = NULL;
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_note(f, s, "a:1", 2, 0);
}

static void a_right_taken_away_holds_from_the_next_change_on(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    f->forbidden = "a:1";
    changed(f, "a:1", NULL);
    expect_silence(f);
}

static void a_right_taken_away_while_a_limit_runs_is_noticed_too(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_with(f, s, TEMPLATE("a:{x}"),
                   &(tdg__sub_opts_t){.settings = rate_limit(1000)});
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    f->forbidden = "a:1";
    changed(f, "a:1", NULL);
    advance(f, 1000);
    expect_nothing(f, s);
    expect_silence(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(one_template_subscription_matches_all_its_uris, setup_at_once),
        TEST(a_template_tells_of_nothing_that_it_does_not_match, setup_at_once),
        TEST(templates_may_have_several_parameters, setup_at_once),
        TEST(a_reserved_expression_spans_slashes, setup_at_once),
        TEST(of_many_templates_only_those_that_match_are_told, setup_at_once),
        TEST(many_streams_share_one_template, setup_at_once),
        TEST(a_template_subscription_survives_deletions, setup_at_once),
        TEST(a_malformed_template_is_refused_and_says_where, setup_at_once),
        TEST(a_template_without_an_expression_is_refused, setup_at_once),
        TEST(an_ambiguous_template_is_refused, setup_at_once),
        TEST(unsubscribing_a_template_is_silent_from_then_on, setup_at_once),
        TEST(unsubscribing_a_uri_that_only_a_template_covers_is_not_found, setup_at_once),
        TEST(subscribing_a_template_twice_is_one_subscription, setup_at_once),
        TEST(nothing_about_a_template_is_told_before_its_acknowledgement, setup_at_once),
        TEST(what_a_template_told_of_leaves_nothing_behind, setup_short_history),

        TEST(every_uri_of_a_template_has_its_own_window, setup_at_once),
        TEST(a_busy_uri_of_a_template_never_delays_a_quiet_one, setup_at_once),
        TEST(every_uri_of_a_template_has_its_own_rate_limit, setup_at_once),
        TEST(throttle_holds_for_every_uri_of_a_template_by_itself, setup_at_once),
        TEST(a_deletion_skips_window_and_limit_through_a_template, setup_default),
        TEST(who_joins_a_template_during_a_window_shares_it, setup_at_once),
        TEST(who_joins_a_template_later_is_told_of_the_next_change_only, setup_at_once),
        TEST(new_wishes_for_a_template_lose_nothing_that_is_pending, setup_at_once),
        TEST(leaving_a_template_leaves_the_others_in_their_windows, setup_at_once),

        TEST(template_and_concrete_subscription_give_one_notification, setup_at_once),
        TEST(several_templates_on_one_uri_give_one_notification, setup_at_once),
        TEST(several_templates_of_several_streams_give_one_each, setup_at_once),
        TEST(dropping_the_template_keeps_the_concrete_subscription, setup_at_once),
        TEST(dropping_the_concrete_subscription_keeps_the_template, setup_at_once),
        TEST(dropping_one_of_several_templates_keeps_the_others, setup_at_once),
        TEST(whichever_is_due_first_takes_the_other_along, setup_at_once),
        TEST(the_template_may_be_the_one_that_is_due_first, setup_at_once),
        TEST(it_is_enough_that_either_passes, setup_at_once),
        TEST(the_newest_change_that_passed_either_is_told, setup_at_once),
        TEST(a_change_still_in_a_siblings_window_is_told_as_the_newest, setup_at_once),
        TEST(merged_is_the_most_that_any_sibling_had, setup_at_once),
        TEST(a_notification_starts_the_limits_of_all_it_stood_for, setup_at_once),
        TEST(a_sibling_not_acknowledged_is_told_nothing_twice, setup_at_once),
        TEST(a_sibling_not_acknowledged_keeps_a_newer_change, setup_at_once),
        TEST(a_note_that_is_not_acknowledged_does_not_leave_with_a_sibling,
             setup_at_once),
        TEST(a_concrete_subscription_that_comes_later_shares_what_follows, setup_at_once),
        TEST(a_template_that_comes_later_shares_what_follows, setup_at_once),

        TEST(a_template_tells_nothing_of_what_its_owner_may_not_read, setup_at_once),
        TEST(who_may_read_is_told_beside_who_may_not, setup_at_once),
        TEST(a_concrete_subscription_was_authorised_when_it_was_made, setup_at_once),
        TEST(a_forbidden_template_match_does_not_hold_the_concrete_one, setup_at_once),
        TEST(a_forbidden_uri_never_counts_as_pending, setup_at_once),
        TEST(a_window_runs_even_if_nobody_may_read, setup_at_once),
        TEST(a_right_given_holds_from_the_next_change_on, setup_at_once),
        TEST(a_right_taken_away_holds_from_the_next_change_on, setup_at_once),
        TEST(a_right_taken_away_while_a_limit_runs_is_noticed_too, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_template", tests, NULL, NULL);
}
