/* SPDX-License-Identifier: MIT
 *
 * Filters at work in the engine; tests/unit/base/filter_test.c has the language itself.
 */
#include <stdio.h>

#include "unit/core/fixture.h"

/* ---- What passes -------------------------------------------------------- */

static void a_filter_by_size_passes_large_changes_only(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10000}}");
    changed(f, "a:1", "{'size': 10000}");
    expect_silence(f);
    changed(f, "a:1", "{'size': 10001}");
    expect_note(f, s, "a:1", 2, 0);
}

static void a_filter_by_kind_of_change_passes_those_kinds_only(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1",
                     "{'metadata.change_type': {'in': ['created', 'deleted']}}");
    changed(f, "a:1", "{'change_type': 'created'}");
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL); /* content_update */
    expect_silence(f);
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 3, 0);
}

static void a_filter_by_time_passes_old_or_new_changes_only(void **state) {
    struct fixture *f = *state;
    tdg__stream_t old = open_stream(f), fresh = open_stream(f);

    subscribe_filter(f, old, "a:1", "{'age_ms': {'gt': 5000}}");
    subscribe_filter(f, fresh, "a:1", "{'age_ms': {'lte': 5000}}");
    changed(f, "a:1", "{'updated_at': 1749994999}"); /* 5,001 ms before noon */
    expect_note(f, old, "a:1", 1, 0);
    expect_silence(f);
    changed(f, "a:1", "{'updated_at': 1749995000}");
    expect_note(f, fresh, "a:1", 2, 0);
    expect_silence(f);
}

static void age_is_measured_when_the_change_arrives(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'age_ms': {'lt': 100}}");
    advance(f, 1000000);
    changed(f, "a:1", NULL); /* updated_at is now */
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", "{'updated_at': 1750000000}");
    expect_silence(f);
}

static void a_filter_by_uri_is_for_templates(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    json_t *filter = json_from("{'uri': {'glob': '*.md'}}");
    tdg__sub_opts_t opts = {.filter = filter};

    subscribe_with(f, s, TEMPLATE("file:///{name}"), &opts);
    json_decref(filter);
    changed(f, "file:///a.txt", NULL);
    expect_silence(f);
    changed(f, "file:///a.md", NULL);
    expect_note(f, s, "file:///a.md", 2, 0);
}

static void a_missing_field_does_not_pass(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 1}}");
    subscribe_filter(f, t, "a:1", "{'metadata.size': {'ne': 1}}");
    changed(f, "a:1", NULL);
    expect_silence(f);
}

static void a_field_of_the_wrong_type_does_not_pass(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 1}}");
    changed(f, "a:1", "{'size': 'large'}");
    changed(f, "a:1", "{'size': [2]}");
    changed(f, "a:1", "{'size': null}");
    changed(f, "a:1", "{'size': {'gt': 2}}");
    expect_silence(f);
    changed(f, "a:1", "{'size': 2}");
    expect_note(f, s, "a:1", 5, 0);
}

static void conditions_can_be_joined(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1",
                     "{'any': [{'metadata.size': {'gt': 100}},"
                     "         {'not': {'metadata.author': {'eq': 'me'}}}]}");
    changed(f, "a:1", "{'size': 1, 'author': 'me'}");
    expect_silence(f);
    changed(f, "a:1", "{'size': 101, 'author': 'me'}");
    expect_note(f, s, "a:1", 2, 0);
    changed(f, "a:1", "{'size': 1, 'author': 'you'}");
    expect_note(f, s, "a:1", 3, 0);
}

static void what_is_filled_in_can_be_asked_for(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1",
                     "{'metadata.version': {'gt': 1},"
                     " 'metadata.updated_at': {'exists': true},"
                     " 'metadata.change_type': {'eq': 'content_update'}}");
    changed(f, "a:1", NULL);
    expect_silence(f);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
}

static void the_empty_filter_passes_everything(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{}");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 2, 0);
}

static void the_filter_is_the_callers_again_after_subscribe(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    json_t *filter = json_from("{'metadata.size': {'gt': 10}}");
    tdg__sub_opts_t opts = {.filter = filter};

    subscribe_with(f, s, URI("a:1"), &opts);
    json_object_clear(json_object_get(filter, "metadata.size"));
    json_object_clear(filter);
    json_decref(filter);
    changed(f, "a:1", "{'size': 1}");
    expect_silence(f);
    changed(f, "a:1", "{'size': 11}");
    expect_note(f, s, "a:1", 2, 0);
}

/* ---- As if it had not happened ------------------------------------------ */

/* Defect 5 of erlmcp: filters are stored and never applied; or one that does not match
 * kills the manager and everybody's subscriptions. */
static void a_filter_that_does_not_match_harms_nobody(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.never': {'eq': 1}}");
    subscribe(f, t, "a:1");
    for (uint64_t number = 1; number <= 3; number++) {
        changed(f, "a:1", NULL);
        expect_nothing(f, s);
        expect_note(f, t, "a:1", number, 0);
    }
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBED);
}

static void every_subscriber_has_its_own_filter(void **state) {
    struct fixture *f = *state;
    tdg__stream_t small = open_stream(f), large = open_stream(f);

    subscribe_filter(f, small, "a:1", "{'metadata.size': {'lt': 10}}");
    subscribe_filter(f, large, "a:1", "{'metadata.size': {'gte': 10}}");
    changed(f, "a:1", "{'size': 9}");
    expect_note(f, small, "a:1", 1, 0);
    expect_silence(f);
    changed(f, "a:1", "{'size': 10}");
    expect_note(f, large, "a:1", 2, 0);
    expect_silence(f);
}

static void equal_filters_spelled_differently_do_the_same(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.a': {'eq': 1}, 'metadata.b': {'eq': 2}}");
    subscribe_filter(f, t, "a:1", "{ 'metadata.b':{'eq':2},'metadata.a':{'eq':1} }");
    changed(f, "a:1", "{'a': 1}");
    expect_silence(f);
    changed(f, "a:1", "{'a': 1, 'b': 2}");
    expect_note(f, s, "a:1", 2, 0);
    expect_note(f, t, "a:1", 2, 0);
}

static void what_does_not_pass_opens_no_window(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}"); /* batch of 100 ms */
    changed(f, "a:1", "{'size': 1}");
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
    advance(f, 60);
    changed(f, "a:1", "{'size': 11}");
    advance(f, 99);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
}

static void what_does_not_pass_is_neither_newest_nor_merged(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}"); /* batch of 100 ms */
    changed(f, "a:1", "{'size': 11}");
    changed(f, "a:1", "{'size': 1}");
    changed(f, "a:1", "{'size': 12}");
    changed(f, "a:1", "{'size': 2}");
    advance(f, 100);
    expect_note(f, s, "a:1", 3, 1);
}

static void what_does_not_pass_prolongs_no_debounce(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    json_t *filter = json_from("{'metadata.size': {'gt': 10}}");
    tdg__sub_opts_t opts = {.settings = debounce(100, 1000), .filter = filter};

    subscribe_with(f, s, URI("a:1"), &opts);
    json_decref(filter);
    changed(f, "a:1", "{'size': 11}");
    advance(f, 90);
    changed(f, "a:1", "{'size': 1}");
    advance(f, 10);
    expect_note(f, s, "a:1", 1, 0);
}

static void a_deletion_that_does_not_pass_does_not_fire(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.change_type': {'ne': 'deleted'}}");
    changed(f, "a:1", NULL); /* batch of 100 ms */
    deleted(f, "a:1");
    expect_silence(f);
    advance(f, 100);
    expect_note(f, s, "a:1", 1, 0);
}

static void what_does_not_pass_moves_the_cursor_on(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}");
    changed(f, "a:1", "{'size': 1}");
    expect_cursor(f, s, 1);
    changed(f, "a:1", "{'size': 11}");
    expect_cursor(f, s, 1);
    changed(f, "a:1", "{'size': 2}");
    expect_cursor(f, s, 1);
    expect_note(f, s, "a:1", 2, 0);
    expect_cursor(f, s, 3);
}

static void what_a_filter_kept_away_is_counted_per_subscription(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f), u = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}");
    subscribe_filter(f, t, "a:1", "{'metadata.size': {'gt': 10}}");
    subscribe(f, u, "a:1");
    changed(f, "a:1", "{'size': 1}");
    assert_int_equal(counters(f).filtered, 2);
    changed(f, "a:1", "{'size': 11}");
    assert_int_equal(counters(f).filtered, 2);
}

static void what_a_filter_kept_away_is_counted_through_templates_too(void **state) {
    struct fixture *f = *state;
    json_t *filter = json_from("{'metadata.size': {'gt': 10}}");
    tdg__sub_opts_t opts = {.filter = filter};

    subscribe_with(f, open_stream(f), TEMPLATE("a:{x}"), &opts);
    subscribe_with(f, open_stream(f), TEMPLATE("a:{x}"), &opts);
    json_decref(filter);
    changed(f, "a:1", "{'size': 1}");
    assert_int_equal(counters(f).filtered, 2);
    expect_silence(f);
}

/* ---- Passing them over -------------------------------------------------- */

static void apply_unfiltered(struct fixture *f, const char *uri, const char *metadata,
                             uint64_t number) {
    json_t *json = json_from(metadata);
    tdg__change_t *change;

    assert_int_equal(tdg__change_create(URI(uri), json, false, NOON_MS, 1000, &change),
                     0);
    json_decref(json);
    assert_int_equal(tdg__engine_apply_unfiltered(f->engine, change), TDG_EINVAL);
    assert_int_equal(tdg__change_stamp(change, number), 0);
    assert_int_equal(tdg__engine_apply_unfiltered(f->engine, change), 0);
    assert_int_equal(tdg__engine_apply_unfiltered(f->engine, change), TDG_EORDER);
    tdg__change_unref(change);
}

static void a_change_that_stands_for_others_passes_every_filter(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    json_t *filter = json_from("{'metadata.size': {'gt': 10}}");
    tdg__sub_opts_t opts = {.filter = filter};

    subscribe_with(f, s, URI("a:1"), &opts);
    subscribe_with(f, t, TEMPLATE("a:{x}"), &opts);
    json_decref(filter);
    apply_unfiltered(f, "a:1", "{'size': 1}", 5);
    expect_note(f, s, "a:1", 5, 0);
    expect_note(f, t, "a:1", 5, 0);
    expect_silence(f);
    assert_int_equal(counters(f).filtered, 0);
}

static void after_a_change_that_passes_every_filter_filters_hold_again(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}");
    apply_unfiltered(f, "a:1", "{'size': 1}", 5);
    expect_note(f, s, "a:1", 5, 0);
    changed(f, "a:1", "{'size': 1}");
    expect_silence(f);
    assert_int_equal(counters(f).filtered, 1);
}

static void a_change_that_passes_every_filter_keeps_to_window_and_limit(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}"); /* batch of 100 ms */
    changed(f, "a:1", "{'size': 11}");
    apply_unfiltered(f, "a:1", "{'size': 1}", 2);
    advance(f, 99);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 1);
    apply_unfiltered(f, "a:1", "{'size': 1}", 3);
    advance(f, 999);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 3, 0);
}

/* ---- New filters -------------------------------------------------------- */

static void a_new_filter_replaces_the_old_one(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}");
    subscribe_filter(f, s, "a:1", "{'metadata.size': {'lt': 5}}");
    changed(f, "a:1", "{'size': 11}");
    expect_silence(f);
    changed(f, "a:1", "{'size': 1}");
    expect_note(f, s, "a:1", 2, 0);
    assert_int_equal(counters(f).subscriptions, 1);
}

static void subscribing_again_without_a_filter_removes_it(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}");
    subscribe(f, s, "a:1");
    changed(f, "a:1", "{'size': 1}");
    expect_note(f, s, "a:1", 1, 0);
}

static void a_new_filter_loses_nothing_that_is_pending(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", "{'size': 1}");
    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}");
    expect_note(f, s, "a:1", 1, 0);
}

static void
the_last_change_that_passed_the_old_filter_is_told_until_a_newer_passes(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    changed(f, "a:1", "{'size': 1}");
    subscribe_filter(f, s, "a:1", "{'metadata.size': {'gt': 10}}");
    changed(f, "a:1", "{'size': 2}");
    changed(f, "a:1", "{'size': 11}");
    changed(f, "a:1", "{'size': 3}");
    expect_note(f, s, "a:1", 3, 1);
    expect_silence(f);
}

/* ---- Bad filters -------------------------------------------------------- */

static void a_bad_filter_is_refused_and_names_the_offending_part(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    json_t *filter = json_from("{'any': [{}, {'metadata.size': {'gt': true}}]}");
    tdg__parse_error_t error = {0};
    tdg__sub_opts_t opts = {.filter = filter, .error = &error};

    assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"), &opts, NULL),
                     TDG_EFILTER);
    assert_non_null(strstr(error.text, "metadata.size"));
    assert_non_null(strstr(error.text, "gt"));
    json_decref(filter);
}

static void a_bad_filter_changes_nothing(void **state) {
    struct fixture *f = *state;
    static const char *const texts[] = {
        "[]",
        "1",
        "null",
        "{'size': {'gt': 1}}",
        "{'metadata.size': 1}",
        "{'metadata.size': {}}",
        "{'metadata.size': {'above': 1}}",
        "{'metadata.size': {'in': 1}}",
        "{'any': {}}",
        "{'any': []}",
    };
    tdg__stream_t s = open_stream(f);

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        json_t *filter = json_from(texts[i]);
        tdg__sub_opts_t opts = {.filter = filter};

        assert_int_equal(tdg__engine_subscribe(f->engine, s, URI("a:1"), &opts, NULL),
                         TDG_EFILTER);
        json_decref(filter);
    }
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    assert_int_equal(counters(f).subscriptions, 0);
    assert_int_equal(counters(f).resources, 0);
    expect_no_call(f);
}

static void a_list_takes_no_filter(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    json_t *filter = json_from("{'metadata.size': {'gt': 1}}");
    tdg__sub_opts_t opts = {.filter = filter};

    assert_int_equal(tdg__engine_subscribe(f->engine, s, LIST("tools"), &opts, NULL),
                     TDG_EINVAL);
    assert_int_equal(counters(f).subscriptions, 0);
    json_decref(filter);
}

static void filters_go_with_their_subscriptions(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    size_t live = 0;
    char filter[64];

    for (int i = 0; i < 200; i++) {
        snprintf(filter, sizeof(filter), "{'metadata.size': {'gt': %d}}", i);
        subscribe_filter(f, s, "a:1", filter);
        snprintf(filter, sizeof(filter), "{'metadata.size': {'lt': %d}}", i);
        subscribe_filter(f, s, "a:1", filter);
        unsubscribe(f, s, "a:1");
        if (i == 10)
            live = memory_live();
    }
    assert_true(memory_live() <= live);
}

/* ---- Shared by many subscribes ------------------------------------------ */

static tdg__shared_filter_t *get_filter(struct fixture *f, const char *text) {
    tdg__shared_filter_t *filter = NULL;
    json_t *json = json_from(text);

    assert_int_equal(tdg__engine_filter_get(f->engine, json, NULL, &filter), 0);
    json_decref(json);
    return filter;
}

static void a_shared_filter_works_as_its_text_does(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = {.shared = get_filter(f, "{'metadata.n': {'gt': 5}}")};

    subscribe_with(f, s, URI("a:1"), &opts);
    subscribe_with(f, s, URI("a:2"), &opts);
    tdg__engine_filter_unref(f->engine, opts.shared); /* the subscriptions hold it */
    changed(f, "a:1", "{'n': 5}");
    expect_silence(f);
    changed(f, "a:2", "{'n': 6}");
    expect_note(f, s, "a:2", 2, 0);
}

static void filters_of_one_text_are_one(void **state) {
    struct fixture *f = *state;
    tdg__shared_filter_t *one = get_filter(
                             f, "{'uri': {'eq': 'a'}, 'metadata.n': {'eq': 1}}"),
                         *two = get_filter(
                             f, "{'metadata.n': {'eq': 1}, 'uri': {'eq': 'a'}}");

    assert_ptr_equal(one, two);
    assert_null(get_filter(f, "{}"));
    tdg__engine_filter_unref(f->engine, one);
    tdg__engine_filter_unref(f->engine, two);
}

static void lists_take_no_shared_filter(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = {.shared = get_filter(f, "{'metadata.n': {'gt': 5}}")};

    assert_int_equal(tdg__engine_subscribe(f->engine, s, LIST("tools"), &opts, NULL),
                     TDG_EINVAL);
    tdg__engine_filter_unref(f->engine, opts.shared);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_filter_by_size_passes_large_changes_only, setup_at_once),
        TEST(a_filter_by_kind_of_change_passes_those_kinds_only, setup_at_once),
        TEST(a_filter_by_time_passes_old_or_new_changes_only, setup_at_once),
        TEST(age_is_measured_when_the_change_arrives, setup_at_once),
        TEST(a_filter_by_uri_is_for_templates, setup_at_once),
        TEST(a_missing_field_does_not_pass, setup_at_once),
        TEST(a_field_of_the_wrong_type_does_not_pass, setup_at_once),
        TEST(conditions_can_be_joined, setup_at_once),
        TEST(what_is_filled_in_can_be_asked_for, setup_at_once),
        TEST(the_empty_filter_passes_everything, setup_at_once),
        TEST(the_filter_is_the_callers_again_after_subscribe, setup_at_once),

        TEST(a_filter_that_does_not_match_harms_nobody, setup_at_once),
        TEST(every_subscriber_has_its_own_filter, setup_at_once),
        TEST(equal_filters_spelled_differently_do_the_same, setup_at_once),
        TEST(what_does_not_pass_opens_no_window, setup_default),
        TEST(what_does_not_pass_is_neither_newest_nor_merged, setup_default),
        TEST(what_does_not_pass_prolongs_no_debounce, setup_default),
        TEST(a_deletion_that_does_not_pass_does_not_fire, setup_default),
        TEST(what_does_not_pass_moves_the_cursor_on, setup_at_once),
        TEST(what_a_filter_kept_away_is_counted_per_subscription, setup_at_once),
        TEST(what_a_filter_kept_away_is_counted_through_templates_too, setup_at_once),

        TEST(a_change_that_stands_for_others_passes_every_filter, setup_at_once),
        TEST(after_a_change_that_passes_every_filter_filters_hold_again, setup_at_once),
        TEST(a_change_that_passes_every_filter_keeps_to_window_and_limit, setup_default),

        TEST(a_new_filter_replaces_the_old_one, setup_at_once),
        TEST(subscribing_again_without_a_filter_removes_it, setup_at_once),
        TEST(a_new_filter_loses_nothing_that_is_pending, setup_at_once),
        TEST(the_last_change_that_passed_the_old_filter_is_told_until_a_newer_passes,
             setup_at_once),

        TEST(a_bad_filter_is_refused_and_names_the_offending_part, setup_at_once),
        TEST(a_bad_filter_changes_nothing, setup_watched),
        TEST(a_list_takes_no_filter, setup_at_once),
        TEST(filters_go_with_their_subscriptions, setup_at_once),
        TEST(a_shared_filter_works_as_its_text_does, setup_at_once),
        TEST(filters_of_one_text_are_one, setup_at_once),
        TEST(lists_take_no_shared_filter, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_filter", tests, NULL, NULL);
}
