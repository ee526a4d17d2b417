/* SPDX-License-Identifier: MIT
 *
 * What was tried against the engine in a review by somebody who meant it harm. Each of
 * these once worked. */
#include <stdio.h>

#include "unit/core/fixture.h"

enum { TIME_OUT_MS = 10000 };

static int setup_no_linger(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_watched,
                                                       .defaults = at_once,
                                                       .linger_ms = TDG__NO_LINGER});
}

static int setup_default_watched(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_watched});
}

/* ---- From inside `settled` ---------------------------------------------- */

static void delete_it(struct fixture *f, tdg__stream_t stream,
                      const tdg__target_t *target, int status) {
    (void)stream;
    (void)status;
    f->on_settled = NULL;
    assert_int_equal(tdg__engine_publish(f->engine, target, NULL, true, NULL), 0);
}

static void change_it(struct fixture *f, tdg__stream_t stream,
                      const tdg__target_t *target, int status) {
    (void)stream;
    (void)status;
    f->on_settled = NULL;
    assert_int_equal(tdg__engine_publish(f->engine, target, NULL, false, NULL), 0);
}

/* Four that are settled by time-out and acknowledged; then their watcher fails. */
static void fail_watcher_of_four(struct fixture *f) {
    tdg__stream_t s[4];

    f->watch_answer = TDG_EAGAIN;
    for (size_t i = 0; i < COUNT(s); i++) {
        s[i] = open_stream(f);
        subscribe_only(f, s[i], URI("a:1"), NULL);
    }
    advance(f, TIME_OUT_MS);
    for (size_t i = 0; i < COUNT(s); i++)
        acknowledge(f, s[i]);
    changed(f, "a:1", NULL);
    drain(f);
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    for (size_t i = 0; i < COUNT(s); i++)
        expect_state(f, s[i], URI("a:1"), TDG__NOT_SUBSCRIBED);
}

static void nobody_survives_a_failure_by_a_deletion_meanwhile(void **state) {
    struct fixture *f = *state;

    f->on_settled = NULL;
    fail_watcher_of_four(f);
    f->on_settled = delete_it;
    fail_watcher_of_four(f);
    assert_int_equal(counters(f).subscriptions, 0);
}

static void nobody_survives_a_failure_by_a_change_meanwhile(void **state) {
    struct fixture *f = *state;
    tdg__stream_t victim;

    fail_watcher_of_four(f);
    f->on_settled = change_it;
    fail_watcher_of_four(f);

    victim = open_stream(f);
    f->watch_answer = 0;
    subscribe(f, victim, "other:1");
    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, open_stream(f), URI("a:1"), NULL);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_state(f, victim, URI("other:1"), TDG__SUBSCRIBED);
    assert_int_equal(counters(f).pending, 0);
}

static void replace_it(struct fixture *f, tdg__stream_t stream,
                       const tdg__target_t *target, int status) {
    (void)status;
    f->on_settled = NULL;
    assert_int_equal(tdg__engine_unsubscribe(f->engine, stream, target), 0);
    assert_int_equal(subscribe_only(f, f->other, target, NULL).state, TDG__SUBSCRIBING);
}

static void who_comes_from_inside_settled_waits_for_the_new_watcher(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->other = open_stream(f);
    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:1"), NULL);
    f->on_settled = replace_it;
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_state(f, f->other, URI("a:1"), TDG__SUBSCRIBING);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_state(f, f->other, URI("a:1"), TDG__ARMED);
}

static void join_the_other(struct fixture *f, tdg__stream_t stream,
                           const tdg__target_t *target, int status) {
    (void)stream;
    (void)target;
    (void)status;
    f->on_settled = NULL;
    subscribe_only(f, f->other, URI("b:1"), NULL);
}

static void a_time_out_is_not_lost_when_somebody_joins_just_then(void **state) {
    struct fixture *f = *state;
    tdg__stream_t first = open_stream(f), victim = open_stream(f);

    f->other = open_stream(f);
    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, first, URI("a:1"), NULL);
    subscribe_only(f, victim, URI("b:1"), NULL);
    f->on_settled = join_the_other;
    advance(f, TIME_OUT_MS);
    advance(f, 1);
    expect_state(f, victim, URI("b:1"), TDG__ARMED);
    expect_state(f, f->other, URI("b:1"), TDG__ARMED);
}

static void a_time_out_that_ran_out_of_memory_is_not_lost_by_a_join(void **state) {
    struct fixture *f = *state;
    tdg__stream_t victim = open_stream(f), other = open_stream(f);
    tdg__sub_opts_t old = after(0);

    changed(f, "a:1", NULL);
    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, victim, URI("a:1"), &old);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    advance(f, TIME_OUT_MS);
    memory_fail(0, MEMORY_ONCE);
    expect_state(f, victim, URI("a:1"), TDG__SUBSCRIBING);
    subscribe_only(f, other, URI("a:1"), NULL);
    advance(f, 1000);
    expect_state(f, victim, URI("a:1"), TDG__ARMED);
    expect_state(f, other, URI("a:1"), TDG__ARMED);
}

/* ---- Cursors that claim too much ---------------------------------------- */

static void a_cursor_does_not_pass_what_is_not_caught_up_yet(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t back;
    uint64_t away;

    f->watch_answer = 0;
    subscribe(f, s, "a:1");
    away = changed(f, "b:1", NULL);
    back = after(away);
    changed(f, "a:1", NULL);
    tdg__engine_close(f->engine, s);

    advance(f, 5000); /* nobody watches any more */
    s = open_stream(f);
    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:1"), &back);
    f->watch_answer = 0;
    subscribe(f, s, "c:1");
    changed(f, "c:1", NULL);
    assert_int_equal(take(f, s).cursor.number, away);
    expect_cursor(f, s, away);
    assert_int_equal(tdg__engine_end(f->engine, s, 0), 0);
    expect_end(f, s, 0, away);
}

static void an_assumed_change_has_the_time_of_the_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t back = after(0);
    tdg__change_t *change;

    assert_int_equal(tdg__change_create(URI("a:1"), NULL, false, 12345, 100, &change), 0);
    assert_int_equal(tdg__change_stamp(change, 1), 0);
    assert_int_equal(tdg__engine_apply(f->engine, change), 0);
    tdg__change_unref(change);
    subscribe_with(f, s, URI("a:1"), &back);
    assert_int_equal(take(f, s).change->wall_ms, 12345);
}

/* ---- Handles, options, metadata ----------------------------------------- */

static void a_small_number_is_no_stream(void **state) {
    struct fixture *f = *state;
    tdg__note_t note;

    open_stream(f);
    for (tdg__stream_t s = 0; s < 300; s++) {
        assert_int_equal(tdg__engine_take(f->engine, s, &note), TDG_ENOTFOUND);
        tdg__engine_close(f->engine, s);
    }
    assert_int_equal(counters(f).streams, 1);
}

static void names_that_no_template_could_match_are_refused(void **state) {
    tdg__engine_opts_t opts = {.max_name_bytes = 8193};
    tdg__engine_t *engine;

    (void)state;
    assert_int_equal(tdg__engine_create(&opts, &engine), TDG_EINVAL);
    opts.max_name_bytes = 8192;
    assert_int_equal(tdg__engine_create(&opts, &engine), 0);
    tdg__engine_destroy(engine);
}

static void metadata_of_many_small_values_is_too_large(void **state) {
    struct fixture *f = *state;
    json_t *metadata = json_object(), *many = json_array();

    for (int i = 0; i < 5000; i++)
        json_array_append_new(many, json_object());
    json_object_set_new(metadata, "a", many);
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), metadata, false, NULL),
                     TDG_EMETADATA);
    json_decref(metadata);
}

static void metadata_nested_too_deeply_is_too_large(void **state) {
    struct fixture *f = *state;
    json_t *metadata = json_object();

    for (int i = 0; i < 40; i++) {
        json_t *outer = json_object();

        json_object_set_new(outer, "a", metadata);
        metadata = outer;
    }
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), metadata, false, NULL),
                     TDG_EMETADATA);
    json_decref(metadata);
}

static void metadata_that_is_no_text_is_refused_for_good(void **state) {
    struct fixture *f = *state;
    json_t *metadata = json_object();

    json_object_set_new(metadata, "a", json_stringn_nocheck("\xff\xfe", 2));
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), metadata, false, NULL),
                     TDG_EINVAL);
    json_decref(metadata);
}

/* ---- Growing without limit ---------------------------------------------- */

static int setup_few_linger(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_watched,
                                                       .defaults = at_once,
                                                       .max_lingering = 3});
}

static void watchers_that_linger_are_bounded(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    char name[32];

    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "a:%d", i);
        subscribe(f, s, name);
        unsubscribe(f, s, name);
        snprintf(name, sizeof(name), "t%d:{x}", i);
        subscribe_template(f, s, name);
        assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE(name)), 0);
    }
    assert_int_equal(counters(f).watchers, 6);
    advance(f, 5000);
    assert_int_equal(counters(f).watchers, 0);
    tdg__engine_close(f->engine, s);
    expect_empty(f);
}

static void the_oldest_that_lingers_goes_first(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    for (char name[] = "a:1"; name[2] <= '4'; name[2]++) {
        subscribe(f, s, name);
        expect_watch(f, URI(name));
        unsubscribe(f, s, name);
    }
    expect_unwatch(f, URI("a:1"));
    subscribe(f, s, "a:2"); /* still watched */
    expect_no_call(f);
}

/* A window or throttle on a URI where nobody is left must not be kept for each URI. */
static void windows_that_nobody_waits_for_are_bounded(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = {.settings = throttle(24 * 60 * 60 * 1000)};
    char name[32];

    subscribe_with(f, s, TEMPLATE("a:{x}"), &opts);
    for (int i = 0; i < 30000; i++) {
        snprintf(name, sizeof(name), "a:%d", i);
        changed(f, name, NULL);
        drain(f);
    }
    /* Those in the history are remembered too, which is bounded for itself. */
    assert_true(counters(f).resources < 16384 + 8192 + 100);
    tdg__engine_close(f->engine, s);
}

/* What a template's catch-up may cost is bounded; beyond that it is not resumed. */
static void catching_up_with_long_names_is_bounded(void **state) {
    static const int counts[] = {100, 6000};
    struct fixture *f = *state;
    tdg__sub_opts_t back = after(0);
    char name[4001];

    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    for (size_t i = 0; i < COUNT(counts); i++) {
        tdg__stream_t s = open_stream(f);

        for (int n = 0; n < counts[i]; n++) {
            name[snprintf(name, sizeof(name), "a:%06d", n)] = 'x';
            changed(f, name, NULL);
        }
        assert_int_equal(subscribe_only(f, s, TEMPLATE("a:{+x}"), &back).resumed, i == 0);
        tdg__engine_close(f->engine, s);
    }
}

static void times_and_numbers_at_their_ends_do_not_overflow(void **state) {
    struct fixture *f = *state;
    tdg__engine_opts_t opts = {.first_number = UINT64_C(1) << 62};
    tdg__stream_t s = open_stream(f);
    tdg__engine_t *engine;

    assert_int_equal(tdg__engine_create(&opts, &engine), TDG_EINVAL);
    tdg__engine_advance(f->engine, INT64_MAX, 0);
    subscribe_settings(f, s, "a:1", batch(100));
    changed(f, "a:1", NULL);
    assert_true(tdg__engine_next_deadline(f->engine) < INT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(nobody_survives_a_failure_by_a_deletion_meanwhile, setup_default_watched),
        TEST(nobody_survives_a_failure_by_a_change_meanwhile, setup_default_watched),
        TEST(who_comes_from_inside_settled_waits_for_the_new_watcher, setup_no_linger),
        TEST(a_time_out_is_not_lost_when_somebody_joins_just_then, setup_watched),
        TEST(a_time_out_that_ran_out_of_memory_is_not_lost_by_a_join, setup_watched),
        TEST(a_cursor_does_not_pass_what_is_not_caught_up_yet, setup_watched),
        TEST(an_assumed_change_has_the_time_of_the_change, setup_at_once),
        TEST(a_small_number_is_no_stream, setup_at_once),
        cmocka_unit_test(names_that_no_template_could_match_are_refused),
        TEST(metadata_of_many_small_values_is_too_large, setup_at_once),
        TEST(metadata_nested_too_deeply_is_too_large, setup_at_once),
        TEST(metadata_that_is_no_text_is_refused_for_good, setup_at_once),
        TEST(watchers_that_linger_are_bounded, setup_few_linger),
        TEST(the_oldest_that_lingers_goes_first, setup_few_linger),
        TEST(windows_that_nobody_waits_for_are_bounded, setup_at_once),
        TEST(catching_up_with_long_names_is_bounded, setup_at_once),
        TEST(times_and_numbers_at_their_ends_do_not_overflow, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_hostile", tests, NULL, NULL);
}
