/* SPDX-License-Identifier: MIT
 *
 * Template subscriptions, and what they share with the others of their stream: per stream
 * and URI there is at most one notification. */
#include <stdio.h>

#include "unit/core/fixture.h"

/* ---- Matching ----------------------------------------------------------- */

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

/* ---- Timing per URI ----------------------------------------------------- */

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

/* ---- What is remembered per URI ----------------------------------------- */

static int setup_history_of_one(void **state) {
    return fixture_create(
        state,
        &(tdg__engine_opts_t){.calls = calls_pushed, .defaults = at_once, .history = 1});
}

static void subscribe_template_with(struct fixture *f, tdg__stream_t s,
                                    tdg__settings_t settings) {
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = settings});
}

static void a_limit_through_a_template_is_forgotten_when_it_is_over(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_template_with(f, s, rate_limit(1000));
    subscribe_template_with(f, t, rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "x:1", NULL); /* a:1 has left the history */
    advance(f, 400);
    expect_note(f, t, "a:1", 1, 0);
    assert_int_equal(counters(f).resources, 2);
    advance(f, 600);
    assert_int_equal(counters(f).resources, 2); /* for t */
    advance(f, 400);
    assert_int_equal(counters(f).resources, 1);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
}

static void a_throttle_through_a_template_is_forgotten_when_it_is_over(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template_with(f, s, throttle(100));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "x:1", NULL);
    assert_int_equal(counters(f).resources, 2);
    advance(f, 100);
    assert_int_equal(counters(f).resources, 1);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
}

static void a_window_through_a_template_is_forgotten_when_it_is_over(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1"); /* at once, and takes the template's along */
    subscribe_template_with(f, s, batch(100));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    unsubscribe(f, s, "a:1");
    changed(f, "x:1", NULL);
    assert_int_equal(counters(f).resources, 2); /* the window still runs */
    advance(f, 100);
    expect_silence(f);
    assert_int_equal(counters(f).resources, 1);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
}

static void a_template_that_goes_takes_its_windows_and_limits_along(void **state) {
    struct fixture *f = *state;
    const tdg__settings_t settings[] = {throttle(100), rate_limit(1000), batch(100)};

    for (size_t i = 0; i < 3; i++) {
        tdg__stream_t s = open_stream(f);

        subscribe_template_with(f, s, settings[i]);
        changed(f, "a:1", NULL);
        changed(f, "a:2", NULL);
        drain(f);
        changed(f, "x:1", NULL);
        assert_int_equal(counters(f).resources, 3);
        tdg__engine_close(f->engine, s);
        assert_int_equal(counters(f).resources, 1);
        assert_int_equal(counters(f).templates, 0);
        assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
    }
}

/* ---- May read ----------------------------------------------------------- */

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

static void a_right_taken_away_ends_all_that_templates_have_on_the_uri(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe_template(f, s, "{y}:1");
    subscribe_template_with(f, s, batch(100));
    subscribe_template(f, s, "a:{+z}");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    f->forbidden = "a:1";
    expect_note(f, s, "a:2", 2, 0);
    expect_nothing(f, s);
    expect_cursor(f, s, 2);
    assert_int_equal(counters(f).pending, 0);
    advance(f, 1000);
    expect_silence(f);
}

static void a_right_taken_away_from_a_template_leaves_the_concrete_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_template(f, s, "a:{x}"); /* at once */
    subscribe_template(f, s, "{y}:1");
    changed(f, "a:1", NULL);
    f->forbidden = "a:1";
    expect_nothing(f, s);
    advance(f, 100);
    expect_note(f, s, "a:1", 1, 0);
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

        TEST(a_limit_through_a_template_is_forgotten_when_it_is_over,
             setup_history_of_one),
        TEST(a_throttle_through_a_template_is_forgotten_when_it_is_over,
             setup_history_of_one),
        TEST(a_window_through_a_template_is_forgotten_when_it_is_over,
             setup_history_of_one),
        TEST(a_template_that_goes_takes_its_windows_and_limits_along,
             setup_history_of_one),

        TEST(a_template_tells_nothing_of_what_its_owner_may_not_read, setup_at_once),
        TEST(who_may_read_is_told_beside_who_may_not, setup_at_once),
        TEST(a_concrete_subscription_was_authorised_when_it_was_made, setup_at_once),
        TEST(a_forbidden_template_match_does_not_hold_the_concrete_one, setup_at_once),
        TEST(a_forbidden_uri_never_counts_as_pending, setup_at_once),
        TEST(a_window_runs_even_if_nobody_may_read, setup_at_once),
        TEST(a_right_given_holds_from_the_next_change_on, setup_at_once),
        TEST(a_right_taken_away_holds_from_the_next_change_on, setup_at_once),
        TEST(a_right_taken_away_while_a_limit_runs_is_noticed_too, setup_at_once),
        TEST(a_right_taken_away_ends_all_that_templates_have_on_the_uri, setup_at_once),
        TEST(a_right_taken_away_from_a_template_leaves_the_concrete_one, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_template", tests, NULL, NULL);
}
