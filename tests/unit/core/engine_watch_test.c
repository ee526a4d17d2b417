/* SPDX-License-Identifier: MIT
 *
 * Watchers: the first subscription of a target starts one and is settled when it is
 * armed; some time after the last one is gone it stops. */
#include "unit/core/fixture.h"

enum { LINGER_MS = 5000, TIME_OUT_MS = 10000 }; /* the engine's defaults */

static tdg__stream_t subscribing(struct fixture *f, const tdg__target_t *target) {
    tdg__stream_t s = open_stream(f);

    f->watch_answer = TDG_EAGAIN;
    assert_int_equal(subscribe_only(f, s, target, NULL).state, TDG__SUBSCRIBING);
    return s;
}

/* ---- Starting ----------------------------------------------------------- */

static void the_first_subscriber_starts_the_watcher(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, s, "a:1");
    expect_watch(f, URI("a:1"));
    subscribe(f, t, "a:1");
    expect_no_call(f);
    assert_int_equal(counters(f).watchers, 1);
}

static void a_watcher_that_is_armed_at_once_needs_no_settling(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(subscribe_only(f, s, URI("a:1"), NULL).state, TDG__ARMED);
    expect_watch(f, URI("a:1"));
    expect_no_call(f);
}

static void every_resource_has_its_own_watcher(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    expect_watch(f, URI("a:1"));
    expect_watch(f, URI("a:2"));
    assert_int_equal(counters(f).watchers, 2);
}

static void a_template_and_a_list_are_watched_like_a_resource(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe_list(f, s, "resources");
    expect_watch(f, TEMPLATE("a:{x}"));
    expect_watch(f, LIST("resources"));
    expect_no_call(f);
}

static void a_change_through_a_template_starts_no_watcher_of_its_uri(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    expect_watch(f, TEMPLATE("a:{x}"));
    changed(f, "a:1", NULL);
    expect_no_call(f);
    assert_int_equal(drain(f), 1);
}

static void a_template_does_not_spare_a_concrete_subscription_its_watcher(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe(f, s, "a:1");
    expect_watch(f, TEMPLATE("a:{x}"));
    expect_watch(f, URI("a:1"));
}

static void a_refused_watch_refuses_the_subscribe_and_leaves_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    const tdg__target_t *const targets[] = {URI("a:1"), TEMPLATE("a:{x}"), LIST("tools")};

    f->watch_answer = TDG_ENOTSUP;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tdg__engine_subscribe(f->engine, s, targets[i], NULL, NULL),
                         TDG_ENOTSUP);
        expect_watch(f, targets[i]);
        expect_state(f, s, targets[i], TDG__NOT_SUBSCRIBED);
    }
    tdg__engine_close(f->engine, s);
    expect_empty(f);
    expect_no_call(f);
}

static void a_refused_watch_is_tried_again_by_the_next_subscriber(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->watch_answer = TDG_ENOTFOUND;
    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"), NULL, NULL),
                     TDG_ENOTFOUND);
    expect_watch(f, URI("a:1"));
    f->watch_answer = 0;
    subscribe(f, s, "a:1");
    expect_watch(f, URI("a:1"));
}

static void the_same_subscription_again_starts_no_second_watcher(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:1");
    expect_watch(f, URI("a:1"));
    expect_no_call(f);
    unsubscribe(f, s, "a:1");
    advance(f, LINGER_MS);
    expect_unwatch(f, URI("a:1"));
}

/* ---- Arming ------------------------------------------------------------- */

static void a_subscribe_is_acknowledged_only_once_its_watcher_is_armed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    expect_no_call(f);
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBING);
    assert_int_equal(tdg__engine_acknowledge(f->engine, s, URI("a:1")), TDG_EAGAIN);

    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled(f, s, URI("a:1"), 0);
    expect_state(f, s, URI("a:1"), TDG__ARMED);
    assert_int_equal(tdg__engine_acknowledge(f->engine, s, URI("a:1")), 0);
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBED);
}

static void acknowledging_all_leaves_out_what_is_still_arming(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, URI("a:1"), NULL);
    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:2"), NULL);
    acknowledge(f, s);
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBED);
    expect_state(f, s, URI("a:2"), TDG__SUBSCRIBING);
}

static void all_who_wait_for_a_watcher_are_settled_in_their_order(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1")),
                  u = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    expect_no_call(f);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled(f, s, URI("a:1"), 0);
    expect_settled(f, t, URI("a:1"), 0);
    expect_settled(f, u, URI("a:1"), 0);
    expect_no_call(f);
}

static void who_comes_after_the_arming_is_armed_at_once(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = open_stream(f);

    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_watch(f, URI("a:1"));
    expect_settled(f, s, URI("a:1"), 0);
    assert_int_equal(subscribe_only(f, t, URI("a:1"), NULL).state, TDG__ARMED);
    expect_no_call(f);
}

/* The first race of seed 004, with a watcher that takes its time. */
static void
a_change_while_the_watcher_arms_is_kept_and_sent_after_the_acknowledgement(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));
    uint64_t number = changed(f, "a:1", NULL);

    expect_silence(f);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_silence(f);
    acknowledge(f, s);
    expect_note(f, s, "a:1", number, 0);
    expect_silence(f);
}

static void templates_and_lists_arm_like_resources(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, TEMPLATE("a:{x}")),
                  t = subscribing(f, LIST("tools"));

    expect_watch(f, TEMPLATE("a:{x}"));
    expect_watch(f, LIST("tools"));
    watch_done(f, LIST("tools"), TDG__WATCH_ARMED, 0);
    expect_settled(f, t, LIST("tools"), 0);
    watch_done(f, TEMPLATE("a:{x}"), TDG__WATCH_ARMED, 0);
    expect_settled(f, s, TEMPLATE("a:{x}"), 0);
    expect_no_call(f);
}

static void an_answer_that_nobody_waits_for_is_ignored(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    watch_done(f, TEMPLATE("a:{x}"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    subscribe(f, s, "a:1");
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    watch_done(f, URI("a:1"), TDG__WATCH_UNCHANGED, 0);
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    expect_watch(f, URI("a:1"));
    expect_no_call(f);
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBED);
    expect_silence(f);
}

static void an_answer_that_makes_no_sense_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    assert_int_equal(tdg__engine_watch_done(f->engine, URI("a:1"), TDG__WATCH_FAILED, 0),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_watch_done(f->engine, URI("a:1"), TDG__WATCH_FAILED, 5),
                     TDG_EINVAL);
    assert_int_equal(
        tdg__engine_watch_done(f->engine, URI("a:1"), (tdg__watch_result_t)9, 0),
        TDG_EINVAL);
    assert_int_equal(tdg__engine_watch_done(f->engine, URI(""), TDG__WATCH_ARMED, 0),
                     TDG_EINVAL);
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBING);
}

static void unsubscribing_while_the_watcher_arms_is_never_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    unsubscribe(f, s, "a:1");
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_no_call(f);
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
}

static void a_stream_that_closes_while_the_watcher_arms_is_never_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    tdg__engine_close(f->engine, s);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled(f, t, URI("a:1"), 0);
    expect_no_call(f);
}

static void a_stream_that_ends_while_the_watcher_arms_is_never_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    assert_int_equal(tdg__engine_end(f->engine, s, 0), 0);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_no_call(f);
}

static void new_wishes_while_the_watcher_arms_are_settled_once(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));
    tdg__sub_opts_t opts = {.settings = batch(100)};
    uint64_t number;

    assert_int_equal(subscribe_only(f, s, URI("a:1"), &opts).state, TDG__SUBSCRIBING);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_watch(f, URI("a:1"));
    expect_settled(f, s, URI("a:1"), 0);
    expect_no_call(f);
    acknowledge(f, s);
    number = changed(f, "a:1", NULL);
    expect_silence(f);
    advance(f, 100);
    expect_note(f, s, "a:1", number, 0);
}

/* ---- Time-out ----------------------------------------------------------- */

static void a_watcher_that_does_not_arm_settles_with_a_time_out(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    assert_int_equal(tdg__engine_next_deadline(f->engine), START_MS + TIME_OUT_MS);
    advance(f, TIME_OUT_MS - 1);
    expect_no_call(f);
    advance(f, 1);
    expect_settled(f, s, URI("a:1"), TDG_ETIMEDOUT);
    expect_state(f, s, URI("a:1"), TDG__ARMED);
    acknowledge(f, s);
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBED);
}

static void the_time_out_runs_from_the_first_subscriber(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t;

    advance(f, TIME_OUT_MS - 10);
    t = subscribing(f, URI("a:1"));
    advance(f, 10);
    expect_watch(f, URI("a:1"));
    expect_settled(f, s, URI("a:1"), TDG_ETIMEDOUT);
    expect_settled(f, t, URI("a:1"), TDG_ETIMEDOUT);
}

static void who_comes_after_the_time_out_is_settled_at_once(void **state) {
    struct fixture *f = *state;
    tdg__stream_t t;

    subscribing(f, URI("a:1"));
    advance(f, TIME_OUT_MS);
    t = open_stream(f);
    assert_int_equal(subscribe_only(f, t, URI("a:1"), NULL).state, TDG__ARMED);
}

static void changes_are_told_though_the_watcher_is_late(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));
    uint64_t number;

    advance(f, TIME_OUT_MS);
    acknowledge(f, s);
    number = changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", number, 0);
}

static void a_late_watcher_tells_of_an_assumed_change_when_it_is_armed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = open_stream(f);

    advance(f, TIME_OUT_MS);
    acknowledge(f, s);
    subscribe(f, t, "a:1"); /* settled with the time-out as well */
    expect_silence(f);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_assumed(f, s, "a:1", counters(f).last_number);
    expect_assumed(f, t, "a:1", counters(f).last_number);
    expect_silence(f);
}

static void what_a_late_watcher_tells_waits_for_the_acknowledgement_too(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    advance(f, TIME_OUT_MS);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_silence(f);
    acknowledge(f, s);
    expect_assumed(f, s, "a:1", counters(f).last_number);
}

static void what_a_late_watcher_tells_skips_window_and_filter(void **state) {
    struct fixture *f = *state;
    json_t *filter = json_from("{'metadata.size': {'gt': 1}}");
    tdg__sub_opts_t opts = {.settings = batch(1000), .filter = filter};
    tdg__stream_t s = open_stream(f);

    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:1"), &opts);
    json_decref(filter);
    advance(f, TIME_OUT_MS);
    acknowledge(f, s);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_assumed(f, s, "a:1", counters(f).last_number);
}

static void a_late_watcher_that_saw_no_change_tells_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    advance(f, TIME_OUT_MS);
    acknowledge(f, s);
    watch_done(f, URI("a:1"), TDG__WATCH_UNCHANGED, 0);
    expect_silence(f);
}

static void a_late_watcher_frees_what_waits_for_window_or_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1"));
    uint64_t number;

    subscribe_only(f, s, URI("a:1"), &(tdg__sub_opts_t){.settings = batch(1000)});
    subscribe_only(f, t, URI("a:1"), &(tdg__sub_opts_t){.settings = rate_limit(1000)});
    advance(f, TIME_OUT_MS);
    acknowledge(f, s);
    acknowledge(f, t);
    number = changed(f, "a:1", NULL);
    expect_note(f, t, "a:1", number, 0);
    number = changed(f, "a:1", NULL); /* s waits for its window, t for its limit */
    expect_silence(f);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_note(f, s, "a:1", number, 1); /* a change in flight will do */
    expect_note(f, t, "a:1", number, 0);
    advance(f, 2000);
    expect_silence(f);
}

static void who_comes_after_a_late_arming_is_told_of_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t;

    advance(f, TIME_OUT_MS);
    acknowledge(f, s);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    assert_int_equal(drain(f), 1);
    t = open_stream(f);
    subscribe(f, t, "a:1");
    expect_silence(f);
}

static void a_template_armed_late_tells_of_every_listed_match(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, TEMPLATE("a:{x}"));

    f->listed[0].template_ = "a:{x}";
    f->listed[0].uri = "a:1";
    f->listed[1].template_ = "a:{x}";
    f->listed[1].uri = "a:2";
    f->n_listed = 2;
    advance(f, TIME_OUT_MS);
    acknowledge(f, s);
    watch_done(f, TEMPLATE("a:{x}"), TDG__WATCH_ARMED, 0);
    expect_assumed(f, s, "a:1", counters(f).last_number);
    expect_assumed(f, s, "a:2", counters(f).last_number);
    expect_silence(f);
}

static void a_list_armed_late_tells_of_an_assumed_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, LIST("resources"));
    tdg__note_t note;

    advance(f, TIME_OUT_MS);
    acknowledge(f, s);
    watch_done(f, LIST("resources"), TDG__WATCH_ARMED, 0);
    note = take(f, s);
    assert_int_equal(note.kind, TDG__NOTE_LIST);
    assert_string_equal(note.change->name, "resources");
    assert_true(note.change->assumed);
}

static void a_watcher_armed_in_time_leaves_no_timer(void **state) {
    struct fixture *f = *state;

    subscribing(f, URI("a:1"));
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
}

static int setup_short_times(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_watched,
                                                       .defaults = at_once,
                                                       .watch_timeout_ms = 200,
                                                       .linger_ms = 50});
}

static void the_time_out_and_the_linger_time_can_be_chosen(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    advance(f, 199);
    expect_no_call(f);
    advance(f, 1);
    expect_settled(f, s, URI("a:1"), TDG_ETIMEDOUT);
    unsubscribe(f, s, "a:1");
    advance(f, 49);
    expect_no_call(f);
    advance(f, 1);
    expect_unwatch(f, URI("a:1"));
}

/* ---- Failure ------------------------------------------------------------ */

static void a_watcher_that_fails_ends_its_subscriptions_with_the_error(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    expect_settled(f, s, URI("a:1"), TDG_ESYSTEM);
    expect_settled(f, t, URI("a:1"), TDG_ESYSTEM);
    expect_no_call(f);
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    assert_int_equal(counters(f).subscriptions, 0);
    assert_int_equal(counters(f).watchers, 0);
    advance(f, 60000);
    expect_no_call(f); /* no unwatch for what never watched */
}

static void a_watcher_that_fails_after_its_time_out_ends_them_too(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    advance(f, TIME_OUT_MS);
    expect_settled(f, s, URI("a:1"), TDG_ETIMEDOUT);
    acknowledge(f, s);
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    expect_settled(f, s, URI("a:1"), TDG_ESYSTEM);
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    changed(f, "a:1", NULL);
    expect_silence(f);
}

static void what_was_kept_for_a_watcher_that_failed_is_gone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    changed(f, "a:1", NULL);
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    acknowledge(f, s);
    expect_silence(f);
    assert_int_equal(counters(f).pending, 0);
    expect_cursor(f, s, counters(f).last_number);
}

static void one_watchers_failure_leaves_the_other_subscriptions_alone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));
    uint64_t number;

    f->watch_answer = 0;
    subscribe(f, s, "a:2");
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    number = changed(f, "a:2", NULL);
    expect_note(f, s, "a:2", number, 0);
}

static void after_a_failure_the_next_subscriber_tries_anew(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    expect_settled(f, s, URI("a:1"), TDG_ESYSTEM);
    f->watch_answer = 0;
    subscribe(f, s, "a:1");
    expect_watch(f, URI("a:1"));
}

static void a_templates_watcher_may_fail_with_matches_in_flight(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, TEMPLATE("a:{x}"));

    expect_watch(f, TEMPLATE("a:{x}"));
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    watch_done(f, TEMPLATE("a:{x}"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    expect_settled(f, s, TEMPLATE("a:{x}"), TDG_ESYSTEM);
    expect_silence(f);
    assert_int_equal(counters(f).templates, 0);
    assert_int_equal(counters(f).pending, 0);
}

static void an_answer_after_the_arming_is_ignored(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_watch(f, URI("a:1"));
    expect_settled(f, s, URI("a:1"), 0);
    acknowledge(f, s);
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_no_call(f);
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBED);
    expect_silence(f);
}

static void those_who_wait_may_leave_in_any_order(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[5];

    for (int i = 0; i < 5; i++)
        s[i] = subscribing(f, URI("a:1"));
    expect_watch(f, URI("a:1"));
    unsubscribe(f, s[2], "a:1"); /* from the middle, the front and the back */
    unsubscribe(f, s[0], "a:1");
    unsubscribe(f, s[4], "a:1");
    s[2] = subscribing(f, URI("a:1"));
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled(f, s[1], URI("a:1"), 0);
    expect_settled(f, s[3], URI("a:1"), 0);
    expect_settled(f, s[2], URI("a:1"), 0);
    expect_no_call(f);
}

static void three_who_wait_are_told_of_a_failure_in_their_order(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[3];

    for (int i = 0; i < 3; i++)
        s[i] = subscribing(f, URI("a:1"));
    expect_watch(f, URI("a:1"));
    changed(f, "a:1", NULL);
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    for (int i = 0; i < 3; i++)
        expect_settled(f, s[i], URI("a:1"), TDG_ESYSTEM);
    expect_no_call(f);
}

/* ---- Stopping ----------------------------------------------------------- */

static void a_watcher_lingers_after_its_last_subscriber(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, t, "a:1");
    expect_watch(f, URI("a:1"));
    unsubscribe(f, s, "a:1");
    advance(f, 2 * LINGER_MS);
    expect_no_call(f);
    unsubscribe(f, t, "a:1");
    assert_int_equal(tdg__engine_next_deadline(f->engine), f->now_ms + LINGER_MS);
    advance(f, LINGER_MS - 1);
    expect_no_call(f);
    assert_int_equal(counters(f).watchers, 1);
    advance(f, 1);
    expect_unwatch(f, URI("a:1"));
    expect_no_call(f);
    assert_int_equal(counters(f).watchers, 0);
}

static void a_quick_return_does_not_restart_the_watcher(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    expect_watch(f, URI("a:1"));
    tdg__engine_close(f->engine, s);
    advance(f, LINGER_MS - 1);
    s = open_stream(f);
    subscribe(f, s, "a:1");
    advance(f, 10 * LINGER_MS);
    expect_no_call(f);
    unsubscribe(f, s, "a:1");
    advance(f, LINGER_MS);
    expect_unwatch(f, URI("a:1"));
}

static void closing_and_ending_a_stream_let_its_watchers_linger(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, t, "b:{x}");
    expect_watch(f, URI("a:1"));
    expect_watch(f, TEMPLATE("b:{x}"));
    tdg__engine_close(f->engine, s);
    advance(f, 1);
    assert_int_equal(tdg__engine_end(f->engine, t, 0), 0);
    expect_no_call(f);
    advance(f, LINGER_MS);
    expect_unwatch(f, URI("a:1"));
    expect_unwatch(f, TEMPLATE("b:{x}"));
}

static int setup_no_linger(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_watched,
                                                       .defaults = at_once,
                                                       .linger_ms = TDG__NO_LINGER});
}

static void without_a_linger_time_a_watcher_stops_at_once(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "a:{x}");
    expect_watch(f, URI("a:1"));
    expect_watch(f, TEMPLATE("a:{x}"));
    unsubscribe(f, s, "a:1");
    advance(f, 0);
    expect_unwatch(f, URI("a:1"));
    tdg__engine_close(f->engine, s);
    advance(f, 0);
    expect_unwatch(f, TEMPLATE("a:{x}"));
    expect_empty(f);
}

static void a_watcher_still_arming_lingers_as_well(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    unsubscribe(f, s, "a:1");
    advance(f, LINGER_MS - 1);
    expect_no_call(f);
    advance(f, 1);
    expect_unwatch(f, URI("a:1"));
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_no_call(f);
    advance(f, 2 * TIME_OUT_MS);
    expect_no_call(f);
}

static void a_watcher_that_is_armed_while_it_lingers_serves_who_comes_back(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    unsubscribe(f, s, "a:1");
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    advance(f, 100);
    assert_int_equal(subscribe_only(f, s, URI("a:1"), NULL).state, TDG__ARMED);
    expect_no_call(f);
    unsubscribe(f, s, "a:1");
    advance(f, LINGER_MS);
    expect_unwatch(f, URI("a:1"));
}

static void who_comes_back_while_it_arms_waits_for_it(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    unsubscribe(f, s, "a:1");
    advance(f, 100);
    assert_int_equal(subscribe_only(f, s, URI("a:1"), NULL).state, TDG__SUBSCRIBING);
    expect_no_call(f);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled(f, s, URI("a:1"), 0);
}

static void the_time_out_runs_on_while_nobody_waits(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    advance(f, TIME_OUT_MS - 1000);
    unsubscribe(f, s, "a:1");
    advance(f, 2000); /* it lingers, and its time runs out meanwhile */
    assert_int_equal(subscribe_only(f, s, URI("a:1"), NULL).state, TDG__ARMED);
    acknowledge(f, s);
    expect_silence(f);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_assumed(f, s, "a:1", counters(f).last_number);
}

static void the_time_out_counts_from_the_start_for_who_comes_back(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    advance(f, 1000);
    unsubscribe(f, s, "a:1");
    advance(f, 1000);
    subscribe_only(f, s, URI("a:1"), NULL);
    advance(f, TIME_OUT_MS - 2001);
    expect_no_call(f);
    advance(f, 1);
    expect_settled(f, s, URI("a:1"), TDG_ETIMEDOUT);
}

static void a_watcher_that_was_rejoined_stays_armed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    tdg__sub_opts_t back;

    subscribe(f, s, "a:1");
    unsubscribe(f, s, "a:1");
    advance(f, 100);
    subscribe(f, s, "a:1");
    advance(f, 10 * LINGER_MS);
    back = after(counters(f).last_number);
    subscribe_with(f, t, URI("a:1"), &back); /* nothing was missed */
    expect_silence(f);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_silence(f);
}

static void a_watcher_that_fails_while_it_lingers_is_not_unwatched(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    tdg__engine_close(f->engine, s);
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    advance(f, 2 * LINGER_MS);
    expect_no_call(f);
    expect_empty(f);
}

static void a_watcher_starts_again_after_it_has_stopped(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    unsubscribe(f, s, "a:1");
    advance(f, LINGER_MS);
    expect_watch(f, URI("a:1"));
    expect_unwatch(f, URI("a:1"));
    subscribe(f, s, "a:1");
    expect_watch(f, URI("a:1"));
}

static void an_entry_that_nobody_watches_any_more_is_gone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "a:{x}");
    subscribe_list(f, s, "tools");
    tdg__engine_close(f->engine, s);
    assert_int_equal(counters(f).watchers, 3);
    advance(f, LINGER_MS);
    expect_empty(f);
}

static void destroying_the_engine_stops_all_watchers(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "b:{x}");
    subscribe(f, s, "c:1");
    unsubscribe(f, s, "c:1"); /* lingers */
    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, LIST("tools"), NULL);
    f->next_call = f->n_calls;

    tdg__engine_destroy(f->engine);
    f->engine = NULL;
    assert_int_equal(f->n_calls - f->next_call, 4);
    for (size_t i = f->next_call; i < f->n_calls; i++)
        assert_int_equal(f->calls[i].what, CALL_UNWATCH);
}

static void thousands_of_watchers_stop_when_their_streams_drop_at_once(void **state) {
    enum { STREAMS = 2000 };
    struct fixture *f = *state;
    tdg__stream_t s[STREAMS];
    char uri[] = "a:0000";

    for (int i = 0; i < STREAMS; i++) {
        s[i] = open_stream(f);
        for (int digit = 0, n = i; digit < 4; digit++, n /= 10)
            uri[5 - digit] = (char)('0' + n % 10);
        subscribe(f, s[i], uri);
    }
    assert_int_equal(counters(f).watchers, STREAMS);
    for (int i = 0; i < STREAMS; i++)
        tdg__engine_close(f->engine, s[i]);
    advance(f, LINGER_MS);
    assert_int_equal(f->n_calls, 2 * STREAMS);
    expect_empty(f);
}

static void an_engine_with_no_call_outs_at_all_works(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "b:{x}");
    changed(f, "a:1", NULL);
    changed(f, "b:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, s, "b:1", 2, 0);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    tdg__engine_close(f->engine, s);
    assert_int_equal(counters(f).watchers, 0);
}

static int setup_no_calls(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.defaults = at_once});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_first_subscriber_starts_the_watcher, setup_watched),
        TEST(a_watcher_that_is_armed_at_once_needs_no_settling, setup_watched),
        TEST(every_resource_has_its_own_watcher, setup_watched),
        TEST(a_template_and_a_list_are_watched_like_a_resource, setup_watched),
        TEST(a_change_through_a_template_starts_no_watcher_of_its_uri, setup_watched),
        TEST(a_template_does_not_spare_a_concrete_subscription_its_watcher,
             setup_watched),
        TEST(a_refused_watch_refuses_the_subscribe_and_leaves_nothing, setup_watched),
        TEST(a_refused_watch_is_tried_again_by_the_next_subscriber, setup_watched),
        TEST(the_same_subscription_again_starts_no_second_watcher, setup_watched),

        TEST(a_subscribe_is_acknowledged_only_once_its_watcher_is_armed, setup_watched),
        TEST(acknowledging_all_leaves_out_what_is_still_arming, setup_watched),
        TEST(all_who_wait_for_a_watcher_are_settled_in_their_order, setup_watched),
        TEST(who_comes_after_the_arming_is_armed_at_once, setup_watched),
        TEST(a_change_while_the_watcher_arms_is_kept_and_sent_after_the_acknowledgement,
             setup_watched),
        TEST(templates_and_lists_arm_like_resources, setup_watched),
        TEST(an_answer_that_nobody_waits_for_is_ignored, setup_watched),
        TEST(an_answer_that_makes_no_sense_is_refused, setup_watched),
        TEST(unsubscribing_while_the_watcher_arms_is_never_settled, setup_watched),
        TEST(a_stream_that_closes_while_the_watcher_arms_is_never_settled, setup_watched),
        TEST(a_stream_that_ends_while_the_watcher_arms_is_never_settled, setup_watched),
        TEST(new_wishes_while_the_watcher_arms_are_settled_once, setup_watched),

        TEST(a_watcher_that_does_not_arm_settles_with_a_time_out, setup_watched),
        TEST(the_time_out_runs_from_the_first_subscriber, setup_watched),
        TEST(who_comes_after_the_time_out_is_settled_at_once, setup_watched),
        TEST(changes_are_told_though_the_watcher_is_late, setup_watched),
        TEST(a_late_watcher_tells_of_an_assumed_change_when_it_is_armed, setup_watched),
        TEST(what_a_late_watcher_tells_waits_for_the_acknowledgement_too, setup_watched),
        TEST(what_a_late_watcher_tells_skips_window_and_filter, setup_watched),
        TEST(a_late_watcher_that_saw_no_change_tells_nothing, setup_watched),
        TEST(a_late_watcher_frees_what_waits_for_window_or_limit, setup_watched),
        TEST(who_comes_after_a_late_arming_is_told_of_nothing, setup_watched),
        TEST(a_template_armed_late_tells_of_every_listed_match, setup_watched),
        TEST(a_list_armed_late_tells_of_an_assumed_change, setup_watched),
        TEST(a_watcher_armed_in_time_leaves_no_timer, setup_watched),
        TEST(the_time_out_and_the_linger_time_can_be_chosen, setup_short_times),

        TEST(a_watcher_that_fails_ends_its_subscriptions_with_the_error, setup_watched),
        TEST(a_watcher_that_fails_after_its_time_out_ends_them_too, setup_watched),
        TEST(what_was_kept_for_a_watcher_that_failed_is_gone, setup_watched),
        TEST(one_watchers_failure_leaves_the_other_subscriptions_alone, setup_watched),
        TEST(after_a_failure_the_next_subscriber_tries_anew, setup_watched),
        TEST(a_templates_watcher_may_fail_with_matches_in_flight, setup_watched),

        TEST(an_answer_after_the_arming_is_ignored, setup_watched),
        TEST(those_who_wait_may_leave_in_any_order, setup_watched),
        TEST(three_who_wait_are_told_of_a_failure_in_their_order, setup_watched),

        TEST(a_watcher_lingers_after_its_last_subscriber, setup_watched),
        TEST(a_quick_return_does_not_restart_the_watcher, setup_watched),
        TEST(closing_and_ending_a_stream_let_its_watchers_linger, setup_watched),
        TEST(without_a_linger_time_a_watcher_stops_at_once, setup_no_linger),
        TEST(a_watcher_still_arming_lingers_as_well, setup_watched),
        TEST(a_watcher_that_is_armed_while_it_lingers_serves_who_comes_back,
             setup_watched),
        TEST(who_comes_back_while_it_arms_waits_for_it, setup_watched),
        TEST(the_time_out_runs_on_while_nobody_waits, setup_watched),
        TEST(the_time_out_counts_from_the_start_for_who_comes_back, setup_watched),
        TEST(a_watcher_that_was_rejoined_stays_armed, setup_watched),
        TEST(a_watcher_that_fails_while_it_lingers_is_not_unwatched, setup_watched),
        TEST(a_watcher_starts_again_after_it_has_stopped, setup_watched),
        TEST(an_entry_that_nobody_watches_any_more_is_gone, setup_watched),
        TEST(destroying_the_engine_stops_all_watchers, setup_watched),
        TEST(thousands_of_watchers_stop_when_their_streams_drop_at_once, setup_watched),
        TEST(an_engine_with_no_call_outs_at_all_works, setup_no_calls),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_watch", tests, NULL, NULL);
}
