/* SPDX-License-Identifier: MIT
 *
 * Template and concrete subscriptions of one stream: per stream and URI there is at most
 * one notification, whichever is due first, if either passes; dropping one keeps the
 * others. */
#include "unit/core/fixture.h"

/* ---- Template and concrete subscription of one stream ------------------- */

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

static void a_sibling_not_acknowledged_leaves_nothing_behind(void **state) {
    struct fixture *f = *state; /* one change is remembered */
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_only(f, s, TEMPLATE("a:{x}"), NULL);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    assert_int_equal(counters(f).pending, 0);
    unsubscribe(f, s, "a:1");
    changed(f, "x:1", NULL);
    assert_int_equal(counters(f).resources, 1); /* x:1 */
}

static int setup_history_of_one(void **state) {
    return fixture_create(
        state,
        &(tdg__engine_opts_t){.calls = calls_pushed, .defaults = at_once, .history = 1});
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

/* ---- Coming and going with something pending ---------------------------- */

static void changes_merge_after_the_concrete_subscription_is_gone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    unsubscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 1);
    expect_silence(f);
}

static void changes_merge_after_the_template_is_gone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe(f, s, "a:1");
    changed(f, "a:1", NULL);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{x}")), 0);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 1);
    expect_silence(f);
}

/* All orders in which four subscriptions on one URI can go, with a change after each. */
static void siblings_may_go_in_any_order(void **state) {
    struct fixture *f = *state;
    const tdg__target_t *const targets[] = {URI("a:1"), TEMPLATE("a:{x}"),
                                            TEMPLATE("{y}:1"), TEMPLATE("a:{+z}")};
    int orders = 0;

    for (int code = 0; code < 256; code++) {
        int order[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3};
        tdg__stream_t s;
        uint64_t number;

        if ((1 << order[0] | 1 << order[1] | 1 << order[2] | 1 << order[3]) != 15)
            continue;
        orders++;
        s = open_stream(f);
        for (int i = 0; i < 4; i++)
            subscribe_with(f, s, targets[i], NULL);
        number = changed(f, "a:1", NULL);
        for (uint32_t gone = 0; gone < 3; gone++) {
            assert_int_equal(tdg__engine_unsubscribe(f->engine, s, targets[order[gone]]),
                             0);
            number = changed(f, "a:1", NULL);
        }
        expect_note(f, s, "a:1", number, 3);
        expect_nothing(f, s);
        assert_int_equal(tdg__engine_unsubscribe(f->engine, s, targets[order[3]]), 0);
        changed(f, "a:1", NULL);
        expect_nothing(f, s);
        tdg__engine_close(f->engine, s);
    }
    assert_int_equal(orders, 24);
}

static void a_sibling_that_goes_takes_its_due_time_along(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1"); /* at once */
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(100)});
    changed(f, "a:1", NULL);
    unsubscribe(f, s, "a:1"); /* the template's window still runs */
    expect_silence(f);
    expect_cursor(f, s, 0);
    advance(f, 99);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 1, 0);
}

static void a_higher_priority_of_a_sibling_counts(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "b:1");
    subscribe(f, s, "a:1");
    subscribe_with(f, s, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.priority = 1});
    changed(f, "b:1", NULL);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
    expect_note(f, s, "b:1", 1, 0);
    expect_silence(f);
}

static void what_a_sibling_missed_and_a_change_are_one_notification(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t back = after(0);

    changed(f, "a:1", NULL);
    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    subscribe_with(f, s, URI("a:1"), &back); /* missed both */
    expect_cursor(f, s, 0);
    expect_note(f, s, "a:1", 2, 0);
    expect_silence(f);
    expect_cursor(f, s, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
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
        TEST(a_sibling_not_acknowledged_leaves_nothing_behind, setup_history_of_one),
        TEST(a_sibling_not_acknowledged_keeps_a_newer_change, setup_at_once),
        TEST(a_note_that_is_not_acknowledged_does_not_leave_with_a_sibling,
             setup_at_once),
        TEST(a_concrete_subscription_that_comes_later_shares_what_follows, setup_at_once),
        TEST(a_template_that_comes_later_shares_what_follows, setup_at_once),
        TEST(changes_merge_after_the_concrete_subscription_is_gone, setup_at_once),
        TEST(changes_merge_after_the_template_is_gone, setup_at_once),
        TEST(siblings_may_go_in_any_order, setup_at_once),
        TEST(a_sibling_that_goes_takes_its_due_time_along, setup_at_once),
        TEST(a_higher_priority_of_a_sibling_counts, setup_at_once),
        TEST(what_a_sibling_missed_and_a_change_are_one_notification, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_sibling", tests, NULL, NULL);
}
