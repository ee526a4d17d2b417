/* SPDX-License-Identifier: MIT
 *
 * What may be done from inside the call-out `settled`: everything but destroying the
 * engine. */
#include "unit/core/fixture.h"

enum { LINGER_MS = 5000, TIME_OUT_MS = 10000 }; /* the engine's defaults */

static tdg__stream_t subscribing(struct fixture *f, const tdg__target_t *target) {
    tdg__stream_t s = open_stream(f);

    f->watch_answer = TDG_EAGAIN;
    assert_int_equal(subscribe_only(f, s, target, NULL).state, TDG__SUBSCRIBING);
    return s;
}

/* ---- From inside `settled` ---------------------------------------------- */

static void acknowledge_it(struct fixture *f, tdg__stream_t stream,
                           const tdg__target_t *target, int status) {
    if (status == 0)
        assert_int_equal(tdg__engine_acknowledge(f->engine, stream, target), 0);
}

static void a_subscription_may_be_acknowledged_from_inside_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1"));
    uint64_t number = changed(f, "a:1", NULL);

    f->on_settled = acknowledge_it;
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_note(f, s, "a:1", number, 0);
    expect_note(f, t, "a:1", number, 0);
}

static void close_it(struct fixture *f, tdg__stream_t stream, const tdg__target_t *target,
                     int status) {
    (void)target;
    (void)status;
    tdg__engine_close(f->engine, stream);
}

static void a_stream_may_be_closed_from_inside_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1")),
                  u = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    f->on_settled = close_it;
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled(f, s, URI("a:1"), 0);
    expect_settled(f, t, URI("a:1"), 0);
    expect_settled(f, u, URI("a:1"), 0);
    expect_no_call(f);
    advance(f, LINGER_MS);
    expect_unwatch(f, URI("a:1"));
    expect_empty(f);
}

static void a_stream_may_be_closed_from_inside_settled_of_a_failure(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    f->on_settled = close_it;
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    expect_settled(f, s, URI("a:1"), TDG_ESYSTEM);
    expect_settled(f, t, URI("a:1"), TDG_ESYSTEM);
    expect_no_call(f);
    expect_empty(f);
}

static void a_stream_may_be_closed_from_inside_settled_of_a_time_out(void **state) {
    struct fixture *f = *state;

    subscribing(f, URI("a:1"));
    subscribing(f, URI("a:1"));
    f->on_settled = close_it;
    advance(f, TIME_OUT_MS);
    assert_int_equal(counters(f).streams, 0);
    advance(f, LINGER_MS);
    expect_empty(f);
}

static void close_the_other(struct fixture *f, tdg__stream_t stream,
                            const tdg__target_t *target, int status) {
    (void)stream;
    (void)target;
    (void)status;
    tdg__engine_close(f->engine, f->other);
}

static void another_stream_that_waits_may_be_closed_from_inside_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1")),
                  u = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    f->on_settled = close_the_other;
    f->other = t;
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled(f, s, URI("a:1"), 0);
    expect_settled(f, u, URI("a:1"), 0);
    expect_no_call(f);
}

static void unsubscribe_it(struct fixture *f, tdg__stream_t stream,
                           const tdg__target_t *target, int status) {
    if (status == 0)
        assert_int_equal(tdg__engine_unsubscribe(f->engine, stream, target), 0);
}

static void a_subscription_may_be_given_up_from_inside_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1"));

    f->on_settled = unsubscribe_it;
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    changed(f, "a:1", NULL);
    expect_silence(f);
}

static void subscribe_elsewhere(struct fixture *f, tdg__stream_t stream,
                                const tdg__target_t *target, int status) {
    (void)target;
    (void)status;
    f->on_settled = NULL;
    subscribe_only(f, stream, URI("a:2"), NULL);
    changed(f, "a:2", NULL);
}

static void something_else_may_be_subscribed_from_inside_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    f->on_settled = subscribe_elsewhere;
    f->watch_answer = 0;
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled(f, s, URI("a:1"), 0);
    expect_watch(f, URI("a:2"));
    expect_settled(f, t, URI("a:1"), 0);
    acknowledge(f, s);
    assert_string_equal(take(f, s).change->name, "a:2");
}

static void subscribe_again(struct fixture *f, tdg__stream_t stream,
                            const tdg__target_t *target, int status) {
    if (status == TDG_ESYSTEM)
        subscribe_only(f, stream, target, NULL);
}

static void it_may_be_subscribed_again_from_inside_settled_of_a_failure(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1"));

    expect_watch(f, URI("a:1"));
    f->on_settled = subscribe_again;
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    expect_settled(f, s, URI("a:1"), TDG_ESYSTEM);
    expect_watch(f, URI("a:1"));
    expect_settled(f, t, URI("a:1"), TDG_ESYSTEM);
    expect_no_call(f);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_settled(f, s, URI("a:1"), 0);
    expect_settled(f, t, URI("a:1"), 0);
}

static void take_from_the_other(struct fixture *f, tdg__stream_t stream,
                                const tdg__target_t *target, int status) {
    (void)stream;
    (void)target;
    if (status == TDG_ESYSTEM)
        expect_nothing(f, f->other);
}

static void nothing_is_told_of_what_failed_while_the_others_are_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1"));

    advance(f, TIME_OUT_MS);
    acknowledge(f, s);
    acknowledge(f, t);
    changed(f, "a:1", NULL); /* ready for both */
    f->on_settled = take_from_the_other;
    f->other = t; /* when s is told that it failed, t has failed as well */
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    expect_silence(f);
    assert_int_equal(counters(f).subscriptions, 0);
    assert_int_equal(counters(f).pending, 0);
}

static void change_it(struct fixture *f, tdg__stream_t stream,
                      const tdg__target_t *target, int status) {
    (void)stream;
    (void)status;
    assert_int_equal(tdg__engine_publish(f->engine, target, NULL, false, NULL), 0);
}

static void it_may_change_from_inside_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1"));

    f->on_settled = change_it;
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    acknowledge(f, s);
    acknowledge(f, t);
    assert_int_equal(take(f, s).merged, 1);
    assert_int_equal(take(f, t).merged, 1);
    expect_silence(f);
}

static void it_may_change_from_inside_settled_of_a_failure(void **state) {
    struct fixture *f = *state;

    subscribing(f, URI("a:1"));
    subscribing(f, URI("a:1"));
    f->on_settled = change_it;
    watch_done(f, URI("a:1"), TDG__WATCH_FAILED, TDG_ESYSTEM);
    expect_silence(f);
    assert_int_equal(counters(f).subscriptions, 0);
    assert_int_equal(counters(f).changes, 2);
}

static void rewish_it(struct fixture *f, tdg__stream_t stream,
                      const tdg__target_t *target, int status) {
    if (status == 0)
        subscribe_only(f, stream, target, &(tdg__sub_opts_t){.settings = batch(100)});
}

static void wishes_may_change_from_inside_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = subscribing(f, URI("a:1")), t = subscribing(f, URI("a:1"));
    uint64_t number;

    f->on_settled = rewish_it;
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_watch(f, URI("a:1"));
    expect_settled(f, s, URI("a:1"), 0);
    expect_settled(f, t, URI("a:1"), 0);
    expect_no_call(f);
    acknowledge(f, s);
    acknowledge(f, t);
    number = changed(f, "a:1", NULL);
    expect_silence(f);
    advance(f, 100);
    expect_note(f, s, "a:1", number, 0);
    expect_note(f, t, "a:1", number, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_subscription_may_be_acknowledged_from_inside_settled, setup_watched),
        TEST(a_stream_may_be_closed_from_inside_settled, setup_watched),
        TEST(a_stream_may_be_closed_from_inside_settled_of_a_failure, setup_watched),
        TEST(a_stream_may_be_closed_from_inside_settled_of_a_time_out, setup_watched),
        TEST(another_stream_that_waits_may_be_closed_from_inside_settled, setup_watched),
        TEST(a_subscription_may_be_given_up_from_inside_settled, setup_watched),
        TEST(something_else_may_be_subscribed_from_inside_settled, setup_watched),
        TEST(it_may_be_subscribed_again_from_inside_settled_of_a_failure, setup_watched),
        TEST(nothing_is_told_of_what_failed_while_the_others_are_told, setup_watched),
        TEST(it_may_change_from_inside_settled, setup_watched),
        TEST(it_may_change_from_inside_settled_of_a_failure, setup_watched),
        TEST(wishes_may_change_from_inside_settled, setup_watched),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_settled", tests, NULL, NULL);
}
