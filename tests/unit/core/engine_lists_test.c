/* SPDX-License-Identifier: MIT
 *
 * List changes: tools, prompts and resources, coalesced like everything else, to who
 * asked for them. */
#include "unit/core/fixture.h"

static const char *const lists[] = {"tools", "prompts", "resources"};

/* ---- Who is told -------------------------------------------------------- */

static void a_subscriber_of_a_list_is_told_when_it_changes(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < 3; i++) { /* prompt, resource and tool notifications */
        tdg__stream_t s = open_stream(f);

        subscribe_list(f, s, lists[i]);
        list_changed(f, lists[i]);
        expect_list_note(f, s, lists[i], i + 1, 0);
        expect_silence(f);
        tdg__engine_close(f->engine, s);
    }
}

static void a_list_notification_has_no_metadata(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe_list(f, s, "tools");
    list_changed(f, "tools");
    note = take(f, s);
    assert_int_equal(note.kind, TDG__NOTE_LIST);
    assert_int_equal(note.change->kind, TDG__TARGET_LIST);
    assert_null(note.change->metadata);
    assert_false(note.change->deleted);
}

static void a_list_change_reaches_only_who_asked_for_that_list(void **state) {
    struct fixture *f = *state;
    tdg__stream_t tools = open_stream(f), prompts = open_stream(f), none = open_stream(f);

    subscribe_list(f, tools, "tools");
    subscribe_list(f, prompts, "prompts");
    subscribe(f, none, "a:1");
    list_changed(f, "prompts");
    expect_list_note(f, prompts, "prompts", 1, 0);
    expect_nothing(f, tools);
    expect_nothing(f, none);
    expect_silence(f);
}

static void several_clients_of_one_list_are_all_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[10];

    for (int i = 0; i < 10; i++) {
        s[i] = open_stream(f);
        subscribe_list(f, s[i], "tools");
    }
    list_changed(f, "tools");
    for (int i = 0; i < 10; i++)
        expect_list_note(f, s[i], "tools", 1, 0);
    expect_silence(f);
}

static void one_client_may_ask_for_all_lists(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    for (size_t i = 0; i < 3; i++)
        subscribe_list(f, s, lists[i]);
    for (size_t i = 0; i < 3; i++)
        list_changed(f, lists[i]);
    for (size_t i = 0; i < 3; i++)
        expect_list_note(f, s, lists[i], i + 1, 0);
    expect_silence(f);
}

static void a_list_change_without_subscribers_is_fine(void **state) {
    struct fixture *f = *state;

    assert_int_equal(list_changed(f, "tools"), 1);
    expect_silence(f);
}

static void the_change_of_a_resource_is_no_list_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_list(f, s, "resources");
    changed(f, "a:1", NULL);
    deleted(f, "a:1");
    expect_silence(f);
}

static void a_template_does_not_match_a_list(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "{x}");
    list_changed(f, "tools");
    expect_silence(f);
}

static void subscribing_to_a_list_twice_is_one_subscription(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_list(f, s, "tools");
    subscribe_list(f, s, "tools");
    assert_int_equal(counters(f).subscriptions, 1);
    list_changed(f, "tools");
    expect_list_note(f, s, "tools", 1, 0);
    expect_silence(f);
}

static void a_list_that_does_not_exist_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    uint64_t number = 7;

    assert_int_equal(tdg__engine_subscribe(f->engine, s, LIST("things"), NULL, NULL),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_subscribe(f->engine, s, LIST(""), NULL, NULL),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_publish(f->engine, LIST("things"), NULL, false, &number),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_publish(f->engine, LIST("things"), NULL, true, &number),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, LIST("things")),
                     TDG_ENOTFOUND);
    assert_int_equal(number, 7);
    assert_int_equal(counters(f).last_number, 0);
}

/* ---- Leaving ------------------------------------------------------------ */

static void unsubscribing_from_a_list_is_silent_from_then_on(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_list(f, s, "tools");
    subscribe_list(f, s, "prompts");
    subscribe_list(f, t, "tools");
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, LIST("tools")), 0);
    list_changed(f, "tools");
    list_changed(f, "prompts");
    expect_list_note(f, t, "tools", 1, 0);
    expect_list_note(f, s, "prompts", 2, 0);
    expect_silence(f);
}

static void unsubscribing_from_a_list_that_was_not_asked_for_is_not_found(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, LIST("tools")), TDG_ENOTFOUND);
}

static void a_client_that_goes_leaves_no_list_subscription_behind(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    for (size_t i = 0; i < 3; i++)
        subscribe_list(f, s, lists[i]);
    subscribe_list(f, t, "tools");
    tdg__engine_close(f->engine, s);
    assert_int_equal(subscribers(f, LIST("tools"), false), 1);
    assert_int_equal(subscribers(f, LIST("prompts"), false), 0);
    list_changed(f, "tools");
    expect_list_note(f, t, "tools", 1, 0);
    expect_silence(f);
}

/* get_subscribers of seed 003. */
static void the_subscribers_of_a_list_can_be_named(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    assert_int_equal(subscribers(f, LIST("tools"), false), 0);
    subscribe_list(f, s, "tools");
    subscribe_list(f, t, "tools");
    subscribe_list(f, t, "prompts");
    assert_int_equal(subscribers(f, LIST("tools"), false), 2);
    assert_int_equal(subscribers(f, LIST("prompts"), false), 1);
    assert_int_equal(subscribers(f, LIST("resources"), false), 0);
}

/* ---- Timing ------------------------------------------------------------- */

static void list_changes_of_one_window_make_one_notification(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_list(f, s, "tools");
    for (int i = 0; i < 50; i++) { /* fifty tools are added */
        list_changed(f, "tools");
        advance(f, 1);
    }
    expect_silence(f);
    advance(f, 50);
    expect_list_note(f, s, "tools", 50, 49);
    expect_silence(f);
}

static void list_changes_are_rate_limited_like_everything_else(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_list(f, s, "tools");
    list_changed(f, "tools");
    advance(f, 100);
    expect_list_note(f, s, "tools", 1, 0);
    list_changed(f, "tools");
    advance(f, 999);
    expect_silence(f);
    advance(f, 1);
    expect_list_note(f, s, "tools", 2, 0);
}

static void one_list_does_not_delay_another(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_list(f, s, "tools");
    subscribe_list(f, s, "prompts");
    list_changed(f, "tools");
    advance(f, 60);
    list_changed(f, "prompts");
    advance(f, 40);
    expect_list_note(f, s, "tools", 1, 0);
    expect_silence(f);
    advance(f, 60);
    expect_list_note(f, s, "prompts", 2, 0);
}

static void a_list_subscription_may_have_its_own_timing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_with(f, s, LIST("tools"), &(tdg__sub_opts_t){.settings = at_once});
    for (uint64_t number = 1; number <= 3; number++) {
        list_changed(f, "tools");
        expect_list_note(f, s, "tools", number, 0);
    }
}

static void a_list_can_be_configured(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    configure(f, LIST("tools"), at_once);
    subscribe_list(f, s, "tools");
    subscribe(f, s, "tools"); /* a resource of that name is another thing */
    list_changed(f, "tools");
    expect_list_note(f, s, "tools", 1, 0);
    changed(f, "tools", NULL);
    expect_silence(f);
}

static void a_list_subscription_has_a_priority(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe_with(f, s, LIST("tools"), &(tdg__sub_opts_t){.priority = 1});
    changed(f, "a:1", NULL);
    list_changed(f, "tools");
    advance(f, 100);
    expect_list_note(f, s, "tools", 2, 0);
    expect_note(f, s, "a:1", 1, 0);
}

/* ---- Order, cursor, coming back ----------------------------------------- */

static void a_list_change_before_the_acknowledgement_is_kept(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, LIST("tools"), NULL);
    list_changed(f, "tools");
    expect_silence(f);
    acknowledge(f, s);
    expect_list_note(f, s, "tools", 1, 0);
}

static void a_list_change_in_flight_holds_the_cursor(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_list(f, s, "tools");
    list_changed(f, "prompts");
    list_changed(f, "tools");
    expect_cursor(f, s, 1);
    expect_list_note(f, s, "tools", 2, 0);
    expect_cursor(f, s, 2);
}

static void who_comes_back_is_told_of_a_list_that_changed_meanwhile(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = after(1);
    tdg__note_t note;

    list_changed(f, "prompts"); /* 1 */
    list_changed(f, "tools");   /* 2 */
    subscribe_with(f, s, LIST("tools"), &opts);
    subscribe_with(f, s, LIST("prompts"), &opts);
    note = take(f, s);
    assert_int_equal(note.kind, TDG__NOTE_LIST);
    assert_string_equal(note.change->name, "tools");
    assert_true(note.change->assumed);
    assert_null(note.change->metadata);
    expect_silence(f);
}

static void listening_to_a_list_is_watching(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_list(f, s, "resources");
    expect_watch(f, LIST("resources"));
    tdg__engine_close(f->engine, s);
    advance(f, 5000);
    expect_unwatch(f, LIST("resources"));
    expect_empty(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_subscriber_of_a_list_is_told_when_it_changes, setup_at_once),
        TEST(a_list_notification_has_no_metadata, setup_at_once),
        TEST(a_list_change_reaches_only_who_asked_for_that_list, setup_at_once),
        TEST(several_clients_of_one_list_are_all_told, setup_at_once),
        TEST(one_client_may_ask_for_all_lists, setup_at_once),
        TEST(a_list_change_without_subscribers_is_fine, setup_at_once),
        TEST(the_change_of_a_resource_is_no_list_change, setup_at_once),
        TEST(a_template_does_not_match_a_list, setup_at_once),
        TEST(subscribing_to_a_list_twice_is_one_subscription, setup_at_once),
        TEST(a_list_that_does_not_exist_is_refused, setup_at_once),

        TEST(unsubscribing_from_a_list_is_silent_from_then_on, setup_at_once),
        TEST(unsubscribing_from_a_list_that_was_not_asked_for_is_not_found,
             setup_at_once),
        TEST(a_client_that_goes_leaves_no_list_subscription_behind, setup_at_once),
        TEST(the_subscribers_of_a_list_can_be_named, setup_at_once),

        TEST(list_changes_of_one_window_make_one_notification, setup_default),
        TEST(list_changes_are_rate_limited_like_everything_else, setup_default),
        TEST(one_list_does_not_delay_another, setup_default),
        TEST(a_list_subscription_may_have_its_own_timing, setup_default),
        TEST(a_list_can_be_configured, setup_default),
        TEST(a_list_subscription_has_a_priority, setup_default),

        TEST(a_list_change_before_the_acknowledgement_is_kept, setup_at_once),
        TEST(a_list_change_in_flight_holds_the_cursor, setup_at_once),
        TEST(who_comes_back_is_told_of_a_list_that_changed_meanwhile, setup_at_once),
        TEST(listening_to_a_list_is_watching, setup_watched),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_lists", tests, NULL, NULL);
}
