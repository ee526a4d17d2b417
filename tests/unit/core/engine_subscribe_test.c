/* SPDX-License-Identifier: MIT
 *
 * Who is told: subscribing and unsubscribing, and the order of acknowledgement and
 * notification. */
#include <stdio.h>

#include "unit/core/fixture.h"

/* ---- Subscribing -------------------------------------------------------- */

static void a_subscriber_is_told_of_a_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "db://orders/42");
    changed(f, "db://orders/42", NULL);
    expect_note(f, s, "db://orders/42", 1, 0);
    expect_silence(f);
}

static void subscribe_creates_a_subscription(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    expect_state(f, s, URI("db://orders/42"), TDG__NOT_SUBSCRIBED);
    subscribe(f, s, "db://orders/42");
    expect_state(f, s, URI("db://orders/42"), TDG__SUBSCRIBED);
    assert_int_equal(subscribers(f, URI("db://orders/42"), false), 1);
    assert_int_equal(counters(f).subscriptions, 1);
}

static void subscribe_answers_armed_where_nothing_needs_watching(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__subscribed_t answer = subscribe_only(f, s, URI("a:1"), NULL);

    assert_int_equal(answer.state, TDG__ARMED);
    assert_true(answer.resumed);
    expect_state(f, s, URI("a:1"), TDG__ARMED);
}

static void the_answer_of_subscribe_may_be_left_out(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"), NULL, NULL), 0);
    expect_state(f, s, URI("a:1"), TDG__ARMED);
}

static void many_subscribers_of_one_resource_are_all_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[50];

    for (size_t i = 0; i < 50; i++) {
        s[i] = open_stream(f);
        subscribe(f, s[i], "a:1");
    }
    changed(f, "a:1", NULL);
    for (size_t i = 0; i < 50; i++)
        expect_note(f, s[i], "a:1", 1, 0);
    expect_silence(f);
}

static void many_resources_of_one_subscriber_are_all_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    char uri[32];

    for (int i = 0; i < 50; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        subscribe(f, s, uri);
    }
    for (int i = 0; i < 50; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        changed(f, uri, NULL);
    }
    for (int i = 0; i < 50; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        expect_note(f, s, uri, (uint64_t)i + 1, 0);
    }
    expect_silence(f);
}

static void several_resources_may_change_at_once(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, t, "a:2");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, t, "a:2", 2, 0);
    expect_silence(f);
}

static void notifications_go_only_to_subscribers(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), bystander = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, bystander, "a:2");
    changed(f, "a:1", NULL);
    expect_nothing(f, bystander);
    expect_note(f, s, "a:1", 1, 0);
}

/* Defect 10 of erlmcp: the server subscribes itself, so everybody is told. */
static void a_stream_that_never_subscribed_is_never_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    deleted(f, "a:1");
    list_changed(f, "resources");
    advance(f, 10000);
    expect_nothing(f, s);
    expect_silence(f);
}

static void a_change_that_concerns_nobody_is_fine(void **state) {
    struct fixture *f = *state;

    assert_int_equal(changed(f, "a:1", NULL), 1);
    assert_int_equal(changed(f, "a:1", NULL), 2);
    expect_silence(f);
}

static void a_change_before_the_subscribe_is_not_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    subscribe(f, s, "a:1");
    advance(f, 10000);
    expect_silence(f);
}

static void the_notification_includes_the_metadata(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe(f, s, "a:1");
    changed(f, "a:1", "{'updated_at': 5, 'version': '2', 'size': 1024, 'author': 'me'}");
    note = take(f, s);
    expect_metadata(note.change,
                    "{'updated_at': 5, 'version': '2', 'size': 1024, 'author': 'me',"
                    " 'change_type': 'content_update'}");
}

static void time_kind_and_version_are_filled_in(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    note = take(f, s);
    expect_metadata(note.change,
                    "{'updated_at': 1750000000, 'change_type': 'content_update',"
                    " 'version': 1}");
}

static void a_taken_change_can_be_kept(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__change_t *kept;

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    kept = tdg__change_ref(take(f, s).change);
    tdg__engine_close(f->engine, s);
    changed(f, "a:2", NULL);
    assert_string_equal(kept->name, "a:1");
    tdg__change_unref(kept);
}

/* Defect 14: the notification is built again for every subscriber. */
static void all_subscribers_share_one_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    tdg__change_t *first;

    subscribe(f, s, "a:1");
    subscribe(f, t, "a:1");
    changed(f, "a:1", NULL);
    first = tdg__change_ref(take(f, s).change);
    assert_ptr_equal(take(f, t).change, first);
    tdg__change_unref(first);
}

static void a_very_long_uri_is_told_in_full(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    char uri[4097];

    memset(uri, 'x', 4096);
    memcpy(uri, "a:", 2);
    uri[4096] = '\0';
    subscribe(f, s, uri);
    changed(f, uri, NULL);
    expect_note(f, s, uri, 1, 0);
}

static void a_uri_may_be_unicode(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "notes://Grüße/日本/🙂");
    changed(f, "notes://Grüße/日本/🙂", NULL);
    expect_note(f, s, "notes://Grüße/日本/🙂", 1, 0);
}

static void every_scheme_is_taken(void **state) {
    struct fixture *f = *state;
    static const char *const uris[] = {"file:///document.txt", "http://example.org/x",
                                       "https://example.org/x", "weather://city/paris",
                                       "urn:isbn:0451450523"};
    tdg__stream_t s = open_stream(f);

    for (size_t i = 0; i < 5; i++)
        subscribe(f, s, uris[i]);
    for (size_t i = 0; i < 5; i++) {
        changed(f, uris[i], NULL);
        expect_note(f, s, uris[i], i + 1, 0);
    }
}

static void a_uri_is_the_string_it_is(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "HTTP://Example.org/a/../b");
    changed(f, "http://example.org/b", NULL);
    expect_silence(f);
    changed(f, "HTTP://Example.org/a/../b", NULL);
    expect_note(f, s, "HTTP://Example.org/a/../b", 2, 0);
}

static void a_name_without_a_scheme_is_taken_by_the_engine(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "stress/test");
    changed(f, "stress/test", NULL);
    expect_note(f, s, "stress/test", 1, 0);
}

static void a_uri_with_braces_is_no_template(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:{id}");
    changed(f, "a:1", NULL);
    expect_silence(f);
    changed(f, "a:{id}", NULL);
    expect_note(f, s, "a:{id}", 2, 0);
}

static void a_name_need_not_end_in_nul(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_with(f, s, (&(tdg__target_t){TDG__TARGET_URI, "a:1/tail", 3}), NULL);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
}

static void a_uri_and_a_list_of_one_name_are_two_things(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "tools");
    list_changed(f, "tools");
    expect_silence(f);
    changed(f, "tools", NULL);
    expect_note(f, s, "tools", 2, 0);
}

static void an_empty_uri_is_refused_and_changes_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI(""), NULL, NULL),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_publish(f->engine, URI(""), NULL, false, NULL),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_publish(f->engine, URI(""), NULL, true, NULL),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, URI("")), TDG_ENOTFOUND);
    assert_int_equal(counters(f).subscriptions, 0);
    assert_int_equal(counters(f).resources, 0);
    assert_int_equal(counters(f).last_number, 0);
}

static void settings_out_of_range_are_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    const tdg__settings_t bad[] = {
        {.rate_limit_ms = -2},
        {.rate_limit_ms = TDG__MAX_WINDOW_MS + 1},
        {.timing = {TDG__TIMING_BATCH, TDG__MAX_WINDOW_MS + 1, 0}},
        {.timing = {TDG__TIMING_DEBOUNCE, 1, TDG__MAX_WINDOW_MS + 1}},
        {.timing = {(tdg__timing_mode_t)99, 1, 0}},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tdg__sub_opts_t opts = {.settings = bad[i]};

        assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"), &opts, NULL),
                         TDG_EINVAL);
    }
    assert_int_equal(counters(f).subscriptions, 0);
}

static void a_priority_out_of_range_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"),
                                           &(tdg__sub_opts_t){.priority = 2}, NULL),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"),
                                           &(tdg__sub_opts_t){.priority = -2}, NULL),
                     TDG_EINVAL);
    assert_int_equal(counters(f).subscriptions, 0);
}

static void subscribing_to_what_its_watcher_does_not_know_fails(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->watch_answer = TDG_ENOTFOUND; /* defect 12: it succeeds in erlmcp */
    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"), NULL, NULL),
                     TDG_ENOTFOUND);
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    assert_int_equal(counters(f).resources, 0);
}

static void subscribing_to_what_is_not_subscribable_fails(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->watch_answer = TDG_ENOTSUP;
    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"), NULL, NULL),
                     TDG_ENOTSUP);
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    assert_int_equal(counters(f).resources, 0);
}

/* ---- The same twice ----------------------------------------------------- */

static void a_duplicate_subscribe_is_idempotent(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    assert_int_equal(subscribe_only(f, s, URI("a:1"), NULL).state, TDG__SUBSCRIBED);
    assert_int_equal(counters(f).subscriptions, 1);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
}

/* Defect 7 of erlmcp. */
static void subscribing_twice_and_unsubscribing_once_is_silent(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:1");
    unsubscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_silence(f);
    assert_int_equal(counters(f).subscriptions, 0);
}

/* Defect 7 of erlmcp, its other half. */
static void subscribing_again_and_again_does_not_leak(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    size_t live;

    subscribe(f, s, "a:1");
    live = memory_live();
    for (int i = 0; i < 1000; i++)
        subscribe(f, s, "a:1");
    assert_int_equal(memory_live(), live);
    assert_int_equal(counters(f).subscriptions, 1);
}

static void subscribing_again_keeps_what_is_pending(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    subscribe(f, s, "a:1");
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
}

static void subscribing_again_before_the_acknowledgement_stays_armed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, URI("a:1"), NULL);
    assert_int_equal(subscribe_only(f, s, URI("a:1"), NULL).state, TDG__ARMED);
    changed(f, "a:1", NULL);
    expect_silence(f);
    acknowledge(f, s);
    expect_note(f, s, "a:1", 1, 0);
}

static void a_refused_second_subscribe_leaves_the_first_alone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    json_t *bad = json_from("{'metadata.size': {'larger': 1}}");
    tdg__sub_opts_t opts = {.filter = bad};

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"), &opts, NULL),
                     TDG_EFILTER);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
    json_decref(bad);
}

static void subscribe_and_unsubscribe_many_times_leaves_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    size_t live = 0;

    for (int i = 0; i < 1000; i++) {
        subscribe(f, s, "a:1");
        unsubscribe(f, s, "a:1");
        if (i == 0)
            live = memory_live();
    }
    assert_int_equal(memory_live(), live);
    assert_int_equal(counters(f).subscriptions, 0);
    assert_int_equal(counters(f).resources, 0);
}

/* ---- Unsubscribing ------------------------------------------------------ */

static void unsubscribe_removes_the_subscription(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    unsubscribe(f, s, "a:1");
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    assert_int_equal(subscribers(f, URI("a:1"), false), 0);
}

static void silent_after_unsubscribe(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    unsubscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    advance(f, 10000);
    expect_silence(f);
}

/* The second race of seed 004. */
static void nothing_is_sent_after_unsubscribe_though_it_was_ready(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), s);
    unsubscribe(f, s, "a:1");
    expect_nothing(f, s);
    expect_silence(f);
}

/* The second race of seed 004, with the change still in its window. */
static void nothing_is_sent_after_unsubscribe_though_a_window_runs(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 50);
    unsubscribe(f, s, "a:1");
    advance(f, 1000);
    expect_silence(f);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
}

/* The second race of seed 004, with the change held back by the rate limit. */
static void nothing_is_sent_after_unsubscribe_though_a_rate_limit_runs(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    unsubscribe(f, s, "a:1");
    advance(f, 2000);
    expect_silence(f);
}

/* The second race of seed 004, before the acknowledgement. */
static void nothing_is_sent_after_unsubscribing_what_was_not_acknowledged(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, URI("a:1"), NULL);
    changed(f, "a:1", NULL);
    unsubscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_acknowledge(f->engine, s, URI("a:1")), TDG_ENOTFOUND);
    acknowledge(f, s);
    expect_silence(f);
}

static void what_unsubscribe_dropped_does_not_hold_the_cursor(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_cursor(f, s, 0);
    unsubscribe(f, s, "a:1");
    expect_cursor(f, s, 1);
}

/* Defect 11 of erlmcp: it kills the server and with it every client. */
static void unsubscribing_what_is_not_subscribed_harms_nobody(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, t, "a:1");
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, URI("a:1")), TDG_ENOTFOUND);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, URI("a:2")), TDG_ENOTFOUND);
    changed(f, "a:1", NULL);
    expect_note(f, t, "a:1", 1, 0);
}

static void unsubscribing_twice_is_not_found(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    unsubscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, URI("a:1")), TDG_ENOTFOUND);
}

static void one_client_unsubscribing_does_not_affect_the_others(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f), u = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, t, "a:1");
    subscribe(f, u, "a:1");
    unsubscribe(f, t, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, u, "a:1", 1, 0);
    expect_silence(f);
}

static void unsubscribing_one_resource_leaves_the_others(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    subscribe(f, s, "a:3");
    unsubscribe(f, s, "a:2");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:3", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_note(f, s, "a:3", 3, 0);
    expect_silence(f);
}

/* Defect 9 of erlmcp. */
static void an_entry_without_subscribers_disappears(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, t, "a:1");
    unsubscribe(f, s, "a:1");
    assert_int_equal(counters(f).resources, 1);
    unsubscribe(f, t, "a:1");
    assert_int_equal(counters(f).resources, 0);
}

static void a_new_subscription_after_unsubscribe_starts_afresh(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    unsubscribe(f, s, "a:1");
    subscribe(f, s, "a:1");
    expect_silence(f);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
}

/* ---- Acknowledged first ------------------------------------------------- */

/* The first race of seed 004. */
static void a_change_between_subscribe_and_acknowledgement_is_kept_and_sent_right_after(
    void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, URI("a:1"), NULL);
    changed(f, "a:1", NULL);
    expect_nothing(f, s);
    expect_silence(f);
    assert_int_equal(tdg__engine_acknowledge(f->engine, s, URI("a:1")), 0);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
}

static void changes_before_the_acknowledgement_merge(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, URI("a:1"), NULL);
    changed(f, "a:1", NULL);
    changed(f, "a:1", NULL);
    changed(f, "a:1", NULL);
    acknowledge(f, s);
    expect_note(f, s, "a:1", 3, 2);
    expect_silence(f);
}

static void a_window_that_runs_at_the_acknowledgement_runs_on(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = {.settings = batch(100)};

    subscribe_only(f, s, URI("a:1"), &opts);
    changed(f, "a:1", NULL);
    advance(f, 40);
    acknowledge(f, s);
    expect_silence(f);
    advance(f, 59);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 1, 0);
}

static void a_window_that_ended_before_the_acknowledgement_is_over(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = {.settings = batch(100)};

    subscribe_only(f, s, URI("a:1"), &opts);
    changed(f, "a:1", NULL);
    advance(f, 500);
    expect_silence(f);
    acknowledge(f, s);
    expect_note(f, s, "a:1", 1, 0);
}

static void a_deletion_before_the_acknowledgement_is_kept_too(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, URI("a:1"), NULL);
    deleted(f, "a:1");
    expect_silence(f);
    acknowledge(f, s);
    assert_true(take(f, s).change->deleted);
}

static void one_acknowledgement_does_not_release_another_subscription(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, URI("a:1"), NULL);
    subscribe_only(f, s, URI("a:2"), NULL);
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    assert_int_equal(tdg__engine_acknowledge(f->engine, s, URI("a:2")), 0);
    expect_note(f, s, "a:2", 2, 0);
    expect_silence(f);
    expect_cursor(f, s, 0);
    assert_int_equal(tdg__engine_acknowledge(f->engine, s, URI("a:1")), 0);
    expect_note(f, s, "a:1", 1, 0);
    expect_cursor(f, s, 2);
}

static void one_call_acknowledges_all_that_is_armed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, URI("a:1"), NULL);
    subscribe_only(f, s, TEMPLATE("b:{x}"), NULL);
    subscribe_only(f, s, LIST("tools"), NULL);
    acknowledge(f, s);
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBED);
    expect_state(f, s, TEMPLATE("b:{x}"), TDG__SUBSCRIBED);
    expect_state(f, s, LIST("tools"), TDG__SUBSCRIBED);
}

static void acknowledging_twice_is_fine(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_acknowledge(f->engine, s, URI("a:1")), 0);
    acknowledge(f, s);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
}

static void acknowledging_what_is_not_subscribed_is_not_found(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(tdg__engine_acknowledge(f->engine, s, URI("a:1")), TDG_ENOTFOUND);
    acknowledge(f, s); /* all of none */
}

/* ---- Subscribes and unsubscribes in between ----------------------------- */

static void a_stream_that_joins_during_a_window_is_told_of_the_next_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), late = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 50);
    subscribe_settings(f, late, "a:1", batch(100));
    advance(f, 50);
    expect_note(f, s, "a:1", 1, 0);
    expect_nothing(f, late);
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_note(f, s, "a:1", 2, 0);
    expect_note(f, late, "a:1", 2, 0);
}

static void
a_stream_that_joins_during_a_window_shares_it_from_the_next_change_on(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), late = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 50);
    subscribe_settings(f, late, "a:1", batch(100));
    advance(f, 30);
    changed(f, "a:1", NULL);
    advance(f, 20);
    expect_note(f, s, "a:1", 2, 1);
    expect_note(f, late, "a:1", 2, 0);
}

static void leaving_during_a_fan_out_leaves_the_rest_of_it(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f), u = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, t, "a:1");
    subscribe(f, u, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    unsubscribe(f, t, "a:1");
    expect_note(f, u, "a:1", 1, 0);
    expect_silence(f);
}

static void joining_and_leaving_in_turns_tells_exactly_those_who_are_there(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[8];

    for (int i = 0; i < 8; i++)
        s[i] = open_stream(f);
    for (int round = 0; round < 64; round++) {
        uint64_t number;

        for (int i = 0; i < 8; i++) {
            bool is_there = tdg__engine_state(f->engine, s[i], URI("a:1")) != 0;

            if (((round >> (i % 6)) & 1) == is_there)
                continue;
            if (is_there)
                unsubscribe(f, s[i], "a:1");
            else
                subscribe(f, s[i], "a:1");
        }
        number = changed(f, "a:1", NULL);
        for (int i = 0; i < 8; i++) {
            if ((round >> (i % 6)) & 1)
                expect_note(f, s[i], "a:1", number, 0);
        }
        expect_silence(f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_subscriber_is_told_of_a_change, setup_at_once),
        TEST(subscribe_creates_a_subscription, setup_at_once),
        TEST(subscribe_answers_armed_where_nothing_needs_watching, setup_at_once),
        TEST(the_answer_of_subscribe_may_be_left_out, setup_at_once),
        TEST(many_subscribers_of_one_resource_are_all_told, setup_at_once),
        TEST(many_resources_of_one_subscriber_are_all_told, setup_at_once),
        TEST(several_resources_may_change_at_once, setup_at_once),
        TEST(notifications_go_only_to_subscribers, setup_at_once),
        TEST(a_stream_that_never_subscribed_is_never_told, setup_at_once),
        TEST(a_change_that_concerns_nobody_is_fine, setup_at_once),
        TEST(a_change_before_the_subscribe_is_not_told, setup_at_once),
        TEST(the_notification_includes_the_metadata, setup_at_once),
        TEST(time_kind_and_version_are_filled_in, setup_at_once),
        TEST(a_taken_change_can_be_kept, setup_at_once),
        TEST(all_subscribers_share_one_change, setup_at_once),
        TEST(a_very_long_uri_is_told_in_full, setup_at_once),
        TEST(a_uri_may_be_unicode, setup_at_once),
        TEST(every_scheme_is_taken, setup_at_once),
        TEST(a_uri_is_the_string_it_is, setup_at_once),
        TEST(a_name_without_a_scheme_is_taken_by_the_engine, setup_at_once),
        TEST(a_uri_with_braces_is_no_template, setup_at_once),
        TEST(a_name_need_not_end_in_nul, setup_at_once),
        TEST(a_uri_and_a_list_of_one_name_are_two_things, setup_at_once),
        TEST(an_empty_uri_is_refused_and_changes_nothing, setup_at_once),
        TEST(settings_out_of_range_are_refused, setup_at_once),
        TEST(a_priority_out_of_range_is_refused, setup_at_once),
        TEST(subscribing_to_what_its_watcher_does_not_know_fails, setup_watched),
        TEST(subscribing_to_what_is_not_subscribable_fails, setup_watched),

        TEST(a_duplicate_subscribe_is_idempotent, setup_at_once),
        TEST(subscribing_twice_and_unsubscribing_once_is_silent, setup_at_once),
        TEST(subscribing_again_and_again_does_not_leak, setup_at_once),
        TEST(subscribing_again_keeps_what_is_pending, setup_at_once),
        TEST(subscribing_again_before_the_acknowledgement_stays_armed, setup_at_once),
        TEST(a_refused_second_subscribe_leaves_the_first_alone, setup_at_once),
        TEST(subscribe_and_unsubscribe_many_times_leaves_nothing, setup_at_once),

        TEST(unsubscribe_removes_the_subscription, setup_at_once),
        TEST(silent_after_unsubscribe, setup_at_once),
        TEST(nothing_is_sent_after_unsubscribe_though_it_was_ready, setup_at_once),
        TEST(nothing_is_sent_after_unsubscribe_though_a_window_runs, setup_at_once),
        TEST(nothing_is_sent_after_unsubscribe_though_a_rate_limit_runs, setup_at_once),
        TEST(nothing_is_sent_after_unsubscribing_what_was_not_acknowledged,
             setup_at_once),
        TEST(what_unsubscribe_dropped_does_not_hold_the_cursor, setup_at_once),
        TEST(unsubscribing_what_is_not_subscribed_harms_nobody, setup_at_once),
        TEST(unsubscribing_twice_is_not_found, setup_at_once),
        TEST(one_client_unsubscribing_does_not_affect_the_others, setup_at_once),
        TEST(unsubscribing_one_resource_leaves_the_others, setup_at_once),
        TEST(an_entry_without_subscribers_disappears, setup_at_once),
        TEST(a_new_subscription_after_unsubscribe_starts_afresh, setup_at_once),

        TEST(a_change_between_subscribe_and_acknowledgement_is_kept_and_sent_right_after,
             setup_at_once),
        TEST(changes_before_the_acknowledgement_merge, setup_at_once),
        TEST(a_window_that_runs_at_the_acknowledgement_runs_on, setup_at_once),
        TEST(a_window_that_ended_before_the_acknowledgement_is_over, setup_at_once),
        TEST(a_deletion_before_the_acknowledgement_is_kept_too, setup_at_once),
        TEST(one_acknowledgement_does_not_release_another_subscription, setup_at_once),
        TEST(one_call_acknowledges_all_that_is_armed, setup_at_once),
        TEST(acknowledging_twice_is_fine, setup_at_once),
        TEST(acknowledging_what_is_not_subscribed_is_not_found, setup_at_once),

        TEST(a_stream_that_joins_during_a_window_is_told_of_the_next_change,
             setup_at_once),
        TEST(a_stream_that_joins_during_a_window_shares_it_from_the_next_change_on,
             setup_at_once),
        TEST(leaving_during_a_fan_out_leaves_the_rest_of_it, setup_at_once),
        TEST(joining_and_leaving_in_turns_tells_exactly_those_who_are_there,
             setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_subscribe", tests, NULL, NULL);
}
