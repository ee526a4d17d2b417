/* SPDX-License-Identifier: MIT
 *
 * Timing and rate limit at their three levels (engine, resource or template,
 * subscription) and how they change while running. */
#include "unit/core/fixture.h"

static void set_defaults(struct fixture *f, tdg__settings_t settings) {
    assert_int_equal(tdg__engine_set_defaults(f->engine, &settings), 0);
}

/* Leaves the rest of what is configured as it is. */
static void set_rate_limit(struct fixture *f, const tdg__target_t *target, int32_t ms) {
    tdg__settings_t settings = tdg__engine_configured(f->engine, target);

    settings.rate_limit_ms = ms;
    assert_int_equal(tdg__engine_configure(f->engine, target, &settings), 0);
}

/* How long after a change a resource is told of, with everything drained before. */
static int64_t delay_of(struct fixture *f, const char *uri) {
    changed(f, uri, NULL);
    for (int64_t ms = 0; ms <= 10000; ms++) {
        if (drain(f) != 0)
            return ms;
        advance(f, 1);
    }
    return -1;
}

/* As delay_of(), for a second change at once after a first one was told. */
static int64_t limit_of(struct fixture *f, const char *uri) {
    advance(f, 10000); /* no limit runs any more */
    assert_true(delay_of(f, uri) >= 0);
    return delay_of(f, uri);
}

/* ---- Three levels ------------------------------------------------------- */

static void the_engines_defaults_hold_where_nothing_else_is_said(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, batch(30));
    subscribe(f, s, "a:1");
    assert_int_equal(delay_of(f, "a:1"), 30);
}

static void what_is_configured_for_a_resource_beats_the_defaults(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, batch(30));
    configure(f, URI("a:1"), batch(40));
    subscribe(f, s, "a:1");
    assert_int_equal(delay_of(f, "a:1"), 40);
}

static void what_a_subscription_wishes_beats_what_is_configured(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(40));
    subscribe_settings(f, s, "a:1", batch(50));
    assert_int_equal(delay_of(f, "a:1"), 50);
}

static void what_is_configured_for_a_template_holds_for_its_uris(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, batch(30));
    configure(f, TEMPLATE("a:{x}"), batch(40));
    subscribe(f, s, "a:1");
    subscribe(f, s, "b:1");
    assert_int_equal(delay_of(f, "a:1"), 40);
    assert_int_equal(delay_of(f, "b:1"), 30);
}

static void what_is_configured_for_a_resource_beats_a_template(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(40));
    configure(f, TEMPLATE("a:{x}"), batch(50));
    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    assert_int_equal(delay_of(f, "a:1"), 40);
    assert_int_equal(delay_of(f, "a:2"), 50);
}

static void of_two_templates_the_one_with_more_literal_characters_wins(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, TEMPLATE("a:{x}"), batch(40));
    configure(f, TEMPLATE("a:b/{x}"), batch(50));
    configure(f, TEMPLATE("a:{+rest}"), batch(60));
    subscribe(f, s, "a:b/1");
    assert_int_equal(delay_of(f, "a:b/1"), 50);
}

static void of_two_templates_alike_the_one_configured_first_wins(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, TEMPLATE("a:{x}"), batch(40));
    configure(f, TEMPLATE("a:{+x}"), batch(50));
    subscribe(f, s, "a:1");
    assert_int_equal(delay_of(f, "a:1"), 40);
    configure(f, TEMPLATE("a:{x}"), batch(45)); /* keeps its place */
    assert_int_equal(delay_of(f, "a:1"), 45);
}

static void
the_order_of_configuring_does_not_matter_for_the_more_literal_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    static const char *const templates[] = {"a:b/{x}", "a:{+rest}", "{scheme}:b/1"};

    subscribe(f, s, "a:b/1"); /* literal: 4, 2 and 4 characters */
    for (int first = 0; first < 3; first++) {
        for (uint32_t i = 0; i < 3; i++)
            configure(f, TEMPLATE(templates[(first + (int)i) % 3]), batch(40 + i));
        /* Of the two that are alike the one that came first. */
        assert_int_equal(limit_of(f, "a:b/1"), first == 1 ? 41 : 40);
        for (int i = 0; i < 3; i++)
            configure(f, TEMPLATE(templates[i]), (tdg__settings_t){0});
    }
    configure(f, URI("a:b/1"), batch(0));
    assert_int_equal(limit_of(f, "a:b/1"), 0);
}

static void what_is_configured_comes_and_goes(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    configure(f, URI("a:2"), batch(77));
    for (uint32_t i = 1; i <= 20; i++) {
        configure(f, URI("a:1"), batch(i));
        assert_int_equal(limit_of(f, "a:1"), i);
        configure(f, URI("a:1"), (tdg__settings_t){0});
        assert_int_equal(limit_of(f, "a:2"), 77);
    }
    assert_int_equal(limit_of(f, "a:1"), 1000); /* the built-in limit */
}

static void a_template_removed_makes_room_for_the_next(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, TEMPLATE("a:{x}"), batch(40));
    configure(f, TEMPLATE("a:{+x}"), batch(50));
    subscribe(f, s, "a:1");
    configure(f, TEMPLATE("a:{x}"), (tdg__settings_t){0});
    assert_int_equal(delay_of(f, "a:1"), 50);
}

static void what_the_best_template_does_not_say_is_the_default(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, TEMPLATE("a:{x}"), batch(40));
    configure(f, TEMPLATE("a:b/{x}"), (tdg__settings_t){.rate_limit_ms = 700});
    subscribe(f, s, "a:b/1");
    assert_int_equal(delay_of(f, "a:b/1"), 100); /* not the 40 of the other template */
    assert_int_equal(delay_of(f, "a:b/1"), 700);
}

static void timing_and_limit_are_inherited_each_by_itself(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, (tdg__settings_t){
                        .timing = {TDG__TIMING_BATCH, 30, 0},
                        .rate_limit_ms = 500,
                    });
    configure(f, URI("a:1"), (tdg__settings_t){.rate_limit_ms = 700});
    configure(f, TEMPLATE("a:{x}"),
              (tdg__settings_t){.timing = {TDG__TIMING_BATCH, 40, 0}});
    subscribe(f, s, "a:1");
    assert_int_equal(delay_of(f, "a:1"), 40);
    assert_int_equal(delay_of(f, "a:1"), 700);
}

static void a_subscription_may_wish_for_one_and_inherit_the_other(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, (tdg__settings_t){
                        .timing = {TDG__TIMING_BATCH, 30, 0},
                        .rate_limit_ms = 500,
                    });
    subscribe_settings(f, s, "a:1", (tdg__settings_t){.rate_limit_ms = 800});
    assert_int_equal(delay_of(f, "a:1"), 30);
    assert_int_equal(delay_of(f, "a:1"), 800);
}

static void
what_is_configured_for_a_uri_holds_through_a_template_subscription(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(40));
    configure(f, TEMPLATE("a:{x}"), batch(60));
    subscribe_template(f, s, "{scheme}:{x}");
    assert_int_equal(delay_of(f, "a:1"), 40);
    assert_int_equal(delay_of(f, "a:2"), 60);
    assert_int_equal(delay_of(f, "b:1"), 100); /* the built-in batch */
}

static void a_template_subscriptions_wish_beats_what_is_configured(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(40));
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(70)});
    assert_int_equal(delay_of(f, "a:1"), 70);
}

static void what_is_configured_before_anybody_subscribes_holds_later(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s;

    configure(f, URI("a:1"), batch(40));
    advance(f, 100000);
    s = open_stream(f);
    subscribe(f, s, "a:1");
    assert_int_equal(delay_of(f, "a:1"), 40);
    unsubscribe(f, s, "a:1");
    subscribe(f, s, "a:1");
    assert_int_equal(delay_of(f, "a:1"), 40);
}

static void what_is_configured_is_no_resource(void **state) {
    struct fixture *f = *state;

    configure(f, URI("a:1"), batch(40));
    configure(f, TEMPLATE("a:{x}"), batch(40));
    expect_empty(f);
}

/* ---- Off ---------------------------------------------------------------- */

static void each_level_can_turn_the_limit_off(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, rate_limit(1000));
    configure(f, URI("off:1"), rate_limit(TDG__RATE_OFF));
    subscribe(f, s, "on:1");
    subscribe(f, s, "off:1");
    subscribe_settings(f, s, "wish:1", rate_limit(TDG__RATE_OFF));
    assert_int_equal(limit_of(f, "on:1"), 1000);
    assert_int_equal(limit_of(f, "off:1"), 0);
    assert_int_equal(limit_of(f, "wish:1"), 0);
    set_defaults(f, rate_limit(TDG__RATE_OFF));
    assert_int_equal(limit_of(f, "on:1"), 0);
}

static void each_level_can_turn_the_window_off(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("off:1"), batch(0));
    subscribe(f, s, "on:1");
    subscribe(f, s, "off:1");
    subscribe_settings(f, s, "wish:1", batch(0));
    assert_int_equal(delay_of(f, "on:1"), 100);
    assert_int_equal(delay_of(f, "off:1"), 0);
    assert_int_equal(delay_of(f, "wish:1"), 0);
    set_defaults(f, batch(0));
    assert_int_equal(limit_of(f, "on:1"), 0);
}

static void a_subscription_can_turn_on_what_is_off(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, at_once);
    subscribe_settings(f, s, "a:1", rate_limit(300));
    assert_int_equal(limit_of(f, "a:1"), 300);
}

/* ---- The rate limit of a target ----------------------------------------- */

/* Defect 4 of erlmcp: it changes every subscription. */
static void a_rate_limit_set_for_one_resource_leaves_the_others_alone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    set_defaults(f, rate_limit(1000));
    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    subscribe(f, t, "a:3");
    set_rate_limit(f, URI("a:1"), 2000);
    assert_int_equal(limit_of(f, "a:1"), 2000);
    assert_int_equal(limit_of(f, "a:2"), 1000);
    assert_int_equal(limit_of(f, "a:3"), 1000);
}

static void a_rate_limit_set_for_a_resource_holds_for_all_its_subscribers(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, t, "a:1");
    configure(f, URI("a:1"), at_once);
    set_rate_limit(f, URI("a:1"), 400);
    changed(f, "a:1", NULL);
    assert_int_equal(drain(f), 2);
    changed(f, "a:1", NULL);
    advance(f, 399);
    expect_silence(f);
    advance(f, 1);
    assert_int_equal(drain(f), 2);
}

static void
a_rate_limit_set_for_a_resource_does_not_beat_a_subscribers_own(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(300));
    set_rate_limit(f, URI("a:1"), 2000);
    assert_int_equal(limit_of(f, "a:1"), 300);
}

/* Defect 4 of erlmcp: 0 restores the default. Here "off" is off, and "inherit" restores.
 */
static void a_rate_limit_can_be_set_off_and_back(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, rate_limit(1000));
    subscribe(f, s, "a:1");
    set_rate_limit(f, URI("a:1"), TDG__RATE_OFF);
    assert_int_equal(limit_of(f, "a:1"), 0);
    set_rate_limit(f, URI("a:1"), TDG__RATE_INHERIT);
    assert_int_equal(limit_of(f, "a:1"), 1000);
}

static void a_rate_limit_can_be_set_for_a_template(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, rate_limit(1000));
    subscribe(f, s, "a:1");
    subscribe(f, s, "b:1");
    set_rate_limit(f, TEMPLATE("a:{x}"), 250);
    assert_int_equal(limit_of(f, "a:1"), 250);
    assert_int_equal(limit_of(f, "b:1"), 1000);
}

static void setting_the_rate_limit_leaves_the_timing_alone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(40));
    set_rate_limit(f, URI("a:1"), 500);
    subscribe(f, s, "a:1");
    assert_int_equal(delay_of(f, "a:1"), 40);
    assert_int_equal(delay_of(f, "a:1"), 500);
    set_rate_limit(f, URI("a:1"), TDG__RATE_INHERIT);
    assert_int_equal(limit_of(f, "a:1"), 1000); /* the built-in limit */
    set_rate_limit(f, URI("a:1"), TDG__RATE_OFF);
    assert_int_equal(limit_of(f, "a:1"), 40);
}

static void a_shorter_limit_lets_go_what_waits_for_the_old_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, rate_limit(1000));
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    advance(f, 300);
    set_rate_limit(f, URI("a:1"), 400); /* from the last notification: until 400 */
    advance(f, 99);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void a_shorter_limit_that_is_over_is_noticed_at_the_next_advance(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, rate_limit(1000));
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    advance(f, 300);
    set_rate_limit(f, URI("a:1"), TDG__RATE_OFF);
    assert_true(tdg__engine_next_deadline(f->engine) <= f->now_ms);
    advance(f, 0);
    expect_note(f, s, "a:1", 2, 0);
}

/* The limit of the first was over and runs again, as it is longer now; that of the second
 * ends later, though it is the first to wait. */
static void a_longer_limit_is_over_for_each_when_its_own_time_is(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    set_defaults(f, rate_limit(200));
    subscribe(f, t, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, t, "a:1", 1, 0);
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
    advance(f, 200);
    expect_note(f, t, "a:1", 2, 0);

    set_defaults(f, rate_limit(1000));
    changed(f, "a:1", NULL);
    advance(f, 799);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 3, 0);
    expect_silence(f);
    advance(f, 200);
    expect_note(f, t, "a:1", 3, 0);
}

static void a_longer_limit_holds_what_waits(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, rate_limit(1000));
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    set_rate_limit(f, URI("a:1"), 3000);
    advance(f, 2999);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void a_limit_turned_on_is_measured_from_the_last_notification(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, at_once);
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 100);
    set_rate_limit(f, URI("a:1"), 1000);
    changed(f, "a:1", NULL);
    advance(f, 899);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void a_limit_set_while_running_changes_nothing_that_is_ready(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, at_once);
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL); /* ready */
    set_rate_limit(f, URI("a:1"), 1000);
    expect_note(f, s, "a:1", 2, 0);
}

/* ---- Windows while they run --------------------------------------------- */

static void a_shorter_batch_is_measured_from_the_windows_first_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(1000));
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    advance(f, 100);
    changed(f, "a:1", NULL);
    configure(f, URI("a:1"), batch(150));
    advance(f, 49);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 1);
}

static void a_longer_batch_is_measured_from_the_windows_first_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(100));
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    advance(f, 50);
    configure(f, URI("a:1"), batch(300));
    advance(f, 249);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 1, 0);
}

static void a_batch_that_becomes_a_debounce_waits_for_quiet(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(100));
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    advance(f, 80);
    changed(f, "a:1", NULL);
    configure(f, URI("a:1"), debounce(100, 1000));
    advance(f, 99);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 1);
}

static void a_debounce_keeps_its_longest_wait_from_the_first_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), debounce(100, 1000));
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    advance(f, 90);
    changed(f, "a:1", NULL);
    configure(f, URI("a:1"), debounce(100, 150));
    advance(f, 59);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 1);
}

static void a_throttle_is_measured_from_the_last_firing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), throttle(100));
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    advance(f, 50);
    changed(f, "a:1", NULL);
    configure(f, URI("a:1"), throttle(300));
    advance(f, 249);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void a_window_turned_off_fires_at_the_next_advance(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(1000));
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    advance(f, 10);
    configure(f, URI("a:1"), at_once);
    assert_true(tdg__engine_next_deadline(f->engine) <= f->now_ms);
    advance(f, 0);
    expect_note(f, s, "a:1", 1, 0);
}

static void
a_window_that_is_over_by_new_settings_ends_with_the_next_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(1000));
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    advance(f, 100);
    configure(f, URI("a:1"), batch(50));
    changed(f, "a:1", NULL);
    advance(f, 0);
    expect_note(f, s, "a:1", 2, 1);
}

static void new_defaults_measure_running_windows_anew(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "b:{x}");
    subscribe_list(f, s, "tools");
    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    list_changed(f, "tools");
    set_defaults(f, batch(20));
    advance(f, 19);
    expect_silence(f);
    advance(f, 1);
    assert_int_equal(drain(f), 3);
}

static void new_defaults_leave_wishes_and_configured_resources_alone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(40));
    subscribe(f, s, "a:1");
    subscribe_settings(f, s, "a:2", batch(50));
    set_defaults(f, at_once);
    assert_int_equal(delay_of(f, "a:1"), 40);
    assert_int_equal(delay_of(f, "a:2"), 50);
}

static void defaults_that_inherit_take_the_built_in_ones(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    set_defaults(f, batch(20));
    set_defaults(f, (tdg__settings_t){0});
    subscribe(f, s, "a:1");
    assert_int_equal(delay_of(f, "a:1"), 100);
    assert_int_equal(delay_of(f, "a:1"), 1000);
}

static void a_configured_template_measures_the_windows_of_its_uris_anew(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "{scheme}:{x}");
    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    configure(f, TEMPLATE("a:{x}"), batch(20));
    advance(f, 20);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
    advance(f, 80);
    expect_note(f, s, "b:1", 2, 0);
}

static void configuring_one_resource_leaves_the_windows_of_others_alone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    configure(f, URI("a:1"), batch(500));
    advance(f, 100);
    expect_note(f, s, "a:2", 2, 0);
    expect_silence(f);
    advance(f, 400);
    expect_note(f, s, "a:1", 1, 0);
}

static void removing_what_is_configured_returns_to_the_defaults(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, URI("a:1"), batch(500));
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    configure(f, URI("a:1"), (tdg__settings_t){0});
    advance(f, 100);
    expect_note(f, s, "a:1", 1, 0);
    configure(f, URI("never:1"), (tdg__settings_t){0}); /* nothing to remove */
}

/* ---- Bad settings ------------------------------------------------------- */

static void settings_out_of_range_are_refused_and_change_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    const tdg__settings_t bad[] = {
        {.rate_limit_ms = -2},
        {.rate_limit_ms = TDG__MAX_WINDOW_MS + 1},
        {.timing = {TDG__TIMING_BATCH, TDG__MAX_WINDOW_MS + 1, 0}},
        {.timing = {TDG__TIMING_DEBOUNCE, 5, TDG__MAX_WINDOW_MS + 1}},
        {.timing = {(tdg__timing_mode_t)99, 5, 0}},
        {.timing = {(tdg__timing_mode_t)-1, 5, 0}},
    };

    configure(f, URI("a:1"), batch(40));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tdg__engine_configure(f->engine, URI("a:1"), &bad[i]),
                         TDG_EINVAL);
        assert_int_equal(tdg__engine_configure(f->engine, TEMPLATE("a:{x}"), &bad[i]),
                         TDG_EINVAL);
        assert_int_equal(tdg__engine_set_defaults(f->engine, &bad[i]), TDG_EINVAL);
    }
    assert_int_equal(tdg__engine_configure(f->engine, URI("a:1"),
                                           &(tdg__settings_t){.rate_limit_ms = -2}),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_configure(
                         f->engine, URI("a:1"),
                         &(tdg__settings_t){.rate_limit_ms = TDG__MAX_WINDOW_MS + 1}),
                     TDG_EINVAL);
    subscribe(f, s, "a:1");
    subscribe(f, s, "b:1");
    assert_int_equal(delay_of(f, "a:1"), 40);
    assert_int_equal(delay_of(f, "b:1"), 100);
}

static void the_longest_settings_are_accepted(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__settings_t longest = {
        {TDG__TIMING_DEBOUNCE, TDG__MAX_WINDOW_MS, TDG__MAX_WINDOW_MS},
        TDG__MAX_WINDOW_MS,
        TDG__MAX_WINDOW_MS,
        TDG__MAX_WINDOW_MS,
    };

    subscribe_settings(f, s, "a:1", longest);
    configure(f, URI("a:2"), longest);
    changed(f, "a:1", NULL);
    advance(f, TDG__MAX_WINDOW_MS - 1);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 1, 0);
}

static void ten_windows_of_the_longest_debounce_are_ten_days(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(TDG__MAX_WINDOW_MS, 0));
    for (int day = 0; day < 10; day++) {
        changed(f, "a:1", NULL);
        advance(f, TDG__MAX_WINDOW_MS - 1);
        expect_silence(f);
    }
    changed(f, "a:1", NULL);
    advance(f, 10);
    expect_note(f, s, "a:1", 11, 10);
}

static void a_bad_target_cannot_be_configured(void **state) {
    struct fixture *f = *state;
    tdg__settings_t settings = batch(40);

    assert_int_equal(tdg__engine_configure(f->engine, URI(""), &settings), TDG_EINVAL);
    assert_int_equal(tdg__engine_configure(f->engine, LIST("things"), &settings),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_configure(f->engine, TEMPLATE("a:{"), &settings),
                     TDG_ETEMPLATE);
    assert_int_equal(tdg__engine_configure(f->engine, TEMPLATE("a:{x}{y}"), &settings),
                     TDG_EAMBIGUOUS);
    assert_int_equal(
        tdg__engine_configure(f->engine, URI(""), &(tdg__settings_t){.rate_limit_ms = 5}),
        TDG_EINVAL);
    assert_int_equal(tdg__engine_configure(f->engine, TEMPLATE("a:{"),
                                           &(tdg__settings_t){.rate_limit_ms = 5}),
                     TDG_ETEMPLATE);
}

static void a_longest_wait_below_the_window_is_one_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(100, 50));
    assert_int_equal(delay_of(f, "a:1"), 100);
}

/* ---- The operator's floor ----------------------------------------------- */

static void no_wish_undercuts_the_floor_of_the_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    assert_int_equal(
        tdg__engine_set_defaults(f->engine, &(tdg__settings_t){.min_rate_limit_ms = 500}),
        0);
    subscribe_settings(f, s, "a:1", at_once); /* no limit */
    subscribe_settings(f, t, "a:1", rate_limit(700));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, t, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    advance(f, 499);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
    advance(f, 199);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, t, "a:1", 2, 0); /* above the floor a wish counts */
}

static void no_wish_undercuts_the_floor_of_the_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    tdg__settings_t floor = {.min_window_ms = 300};

    configure(f, TEMPLATE("a:{x}"), floor);
    subscribe_settings(f, s, "a:1", at_once);
    subscribe_settings(f, s, "b:1", at_once);
    subscribe_settings(f, t, "a:1", debounce(50, 60));
    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    expect_note(f, s, "b:1", 2, 0);
    advance(f, 299);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, t, "a:1", 1, 0);
    deleted(f, "a:1"); /* which waits for nothing */
    expect_note(f, s, "a:1", 3, 0);
    expect_note(f, t, "a:1", 3, 0);
}

static void the_floor_of_a_resource_comes_first(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(tdg__engine_set_defaults(
                         f->engine, &(tdg__settings_t){.min_window_ms = 1000,
                                                       .min_rate_limit_ms = 1000}),
                     0);
    configure(f, TEMPLATE("a:{x}"), (tdg__settings_t){.min_window_ms = 100});
    configure(f, URI("a:1"),
              (tdg__settings_t){.min_window_ms = TDG__FLOOR_OFF,
                                .min_rate_limit_ms = TDG__FLOOR_OFF});
    subscribe_settings(f, s, "a:1", at_once);
    subscribe_settings(f, s, "a:2", at_once);
    for (uint64_t n = 1; n < 4; n++) {
        changed(f, "a:1", NULL);
        expect_note(f, s, "a:1", n, 0);
    }
    changed(f, "a:2", NULL);
    expect_silence(f);
    advance(f, 100);
    expect_note(f, s, "a:2", 4, 0);
    changed(f, "a:2", NULL);
    advance(f, 999);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:2", 5, 0);
}

static void a_new_floor_holds_for_what_waits(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    configure(f, URI("a:1"), (tdg__settings_t){.min_window_ms = 200});
    advance(f, 199);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 1, 0);
}

static void a_floor_that_makes_no_sense_is_refused(void **state) {
    static const tdg__settings_t wrong[] = {
        {.min_window_ms = -2},
        {.min_rate_limit_ms = -2},
        {.min_window_ms = TDG__MAX_WINDOW_MS + 1},
        {.min_rate_limit_ms = TDG__MAX_WINDOW_MS + 1},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(tdg__engine_configure(f->engine, URI("a:1"), &wrong[i]),
                         TDG_EINVAL);
        assert_int_equal(tdg__engine_set_defaults(f->engine, &wrong[i]), TDG_EINVAL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_engines_defaults_hold_where_nothing_else_is_said, setup_default),
        TEST(what_is_configured_for_a_resource_beats_the_defaults, setup_default),
        TEST(what_a_subscription_wishes_beats_what_is_configured, setup_default),
        TEST(what_is_configured_for_a_template_holds_for_its_uris, setup_default),
        TEST(what_is_configured_for_a_resource_beats_a_template, setup_default),
        TEST(of_two_templates_the_one_with_more_literal_characters_wins, setup_default),
        TEST(of_two_templates_alike_the_one_configured_first_wins, setup_default),
        TEST(the_order_of_configuring_does_not_matter_for_the_more_literal_one,
             setup_default),
        TEST(what_is_configured_comes_and_goes, setup_default),
        TEST(a_template_removed_makes_room_for_the_next, setup_default),
        TEST(what_the_best_template_does_not_say_is_the_default, setup_default),
        TEST(timing_and_limit_are_inherited_each_by_itself, setup_default),
        TEST(a_subscription_may_wish_for_one_and_inherit_the_other, setup_default),
        TEST(what_is_configured_for_a_uri_holds_through_a_template_subscription,
             setup_default),
        TEST(a_template_subscriptions_wish_beats_what_is_configured, setup_default),
        TEST(what_is_configured_before_anybody_subscribes_holds_later, setup_default),
        TEST(what_is_configured_is_no_resource, setup_default),

        TEST(each_level_can_turn_the_limit_off, setup_default),
        TEST(each_level_can_turn_the_window_off, setup_default),
        TEST(a_subscription_can_turn_on_what_is_off, setup_default),

        TEST(a_rate_limit_set_for_one_resource_leaves_the_others_alone, setup_default),
        TEST(a_rate_limit_set_for_a_resource_holds_for_all_its_subscribers,
             setup_default),
        TEST(a_rate_limit_set_for_a_resource_does_not_beat_a_subscribers_own,
             setup_default),
        TEST(a_rate_limit_can_be_set_off_and_back, setup_default),
        TEST(a_rate_limit_can_be_set_for_a_template, setup_default),
        TEST(setting_the_rate_limit_leaves_the_timing_alone, setup_default),
        TEST(a_shorter_limit_lets_go_what_waits_for_the_old_one, setup_default),
        TEST(a_shorter_limit_that_is_over_is_noticed_at_the_next_advance, setup_default),
        TEST(a_longer_limit_is_over_for_each_when_its_own_time_is, setup_default),
        TEST(a_longer_limit_holds_what_waits, setup_default),
        TEST(a_limit_turned_on_is_measured_from_the_last_notification, setup_default),
        TEST(a_limit_set_while_running_changes_nothing_that_is_ready, setup_default),

        TEST(a_shorter_batch_is_measured_from_the_windows_first_change, setup_default),
        TEST(a_longer_batch_is_measured_from_the_windows_first_change, setup_default),
        TEST(a_batch_that_becomes_a_debounce_waits_for_quiet, setup_default),
        TEST(a_debounce_keeps_its_longest_wait_from_the_first_change, setup_default),
        TEST(a_throttle_is_measured_from_the_last_firing, setup_default),
        TEST(a_window_turned_off_fires_at_the_next_advance, setup_default),
        TEST(a_window_that_is_over_by_new_settings_ends_with_the_next_change,
             setup_default),
        TEST(new_defaults_measure_running_windows_anew, setup_default),
        TEST(new_defaults_leave_wishes_and_configured_resources_alone, setup_default),
        TEST(defaults_that_inherit_take_the_built_in_ones, setup_default),
        TEST(a_configured_template_measures_the_windows_of_its_uris_anew, setup_default),
        TEST(configuring_one_resource_leaves_the_windows_of_others_alone, setup_default),
        TEST(removing_what_is_configured_returns_to_the_defaults, setup_default),

        TEST(settings_out_of_range_are_refused_and_change_nothing, setup_default),
        TEST(the_longest_settings_are_accepted, setup_default),
        TEST(ten_windows_of_the_longest_debounce_are_ten_days, setup_default),
        TEST(a_bad_target_cannot_be_configured, setup_default),
        TEST(a_longest_wait_below_the_window_is_one_window, setup_default),
        TEST(no_wish_undercuts_the_floor_of_the_limit, setup_default),
        TEST(no_wish_undercuts_the_floor_of_the_window, setup_default),
        TEST(the_floor_of_a_resource_comes_first, setup_default),
        TEST(a_new_floor_holds_for_what_waits, setup_default),
        TEST(a_floor_that_makes_no_sense_is_refused, setup_default),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_settings", tests, NULL, NULL);
}
