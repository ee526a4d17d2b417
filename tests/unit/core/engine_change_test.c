/* SPDX-License-Identifier: MIT
 *
 * Changes themselves: deletion, numbers, changes stamped elsewhere, several engines. */
#include "unit/core/fixture.h"

/* ---- Deletion ----------------------------------------------------------- */

static void a_deletion_is_an_update_that_says_deleted(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe(f, s, "a:1");
    deleted(f, "a:1");
    note = take(f, s);
    assert_int_equal(note.kind, TDG__NOTE_UPDATED);
    assert_true(note.change->deleted);
    assert_string_equal(tdg__change_type(note.change), "deleted");
}

static void a_deletion_carries_its_metadata(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    json_t *metadata = json_from("{'author': 'me', 'change_type': 'moved'}");
    tdg__note_t note;
    uint64_t number;

    subscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), metadata, true, &number),
                     0);
    json_decref(metadata);
    note = take(f, s);
    assert_int_equal(note.change->number, number);
    expect_metadata(note.change,
                    "{'author': 'me', 'change_type': 'deleted', 'version': 1,"
                    " 'updated_at': 1750000000}");
}

static void subscriptions_survive_the_deletion_of_their_resource(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    deleted(f, "a:1");
    expect_note(f, s, "a:1", 1, 0);
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBED);
    advance(f, 60000);
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 2, 0);
}

static void delete_and_create_before_it_is_taken_is_one_update_with_the_newest_metadata(
    void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe(f, s, "a:1");
    deleted(f, "a:1");
    changed(f, "a:1", "{'change_type': 'created', 'size': 7}");
    note = take(f, s);
    assert_false(note.change->deleted);
    assert_int_equal(note.merged, 1);
    expect_metadata(note.change, "{'change_type': 'created', 'size': 7, 'version': 2,"
                                 " 'updated_at': 1750000000}");
    expect_silence(f);
}

static void deleting_what_nobody_knows_is_fine(void **state) {
    struct fixture *f = *state;

    assert_int_equal(deleted(f, "a:1"), 1);
    assert_int_equal(deleted(f, "a:1"), 2);
    expect_silence(f);
}

/* ---- Numbers and several engines ---------------------------------------- */

static void numbers_grow_by_one_over_all_resources_and_lists(void **state) {
    struct fixture *f = *state;

    assert_int_equal(changed(f, "a:1", NULL), 1);
    assert_int_equal(changed(f, "a:2", NULL), 2);
    assert_int_equal(list_changed(f, "tools"), 3);
    assert_int_equal(deleted(f, "a:1"), 4);
    assert_int_equal(counters(f).last_number, 4);
}

static void the_number_of_a_change_may_be_left_out(void **state) {
    struct fixture *f = *state;

    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), NULL, false, NULL), 0);
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), NULL, true, NULL), 0);
    assert_int_equal(tdg__engine_publish(f->engine, LIST("tools"), NULL, false, NULL), 0);
    assert_int_equal(counters(f).last_number, 3);
}

static int setup_first_number(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_pushed,
                                                       .defaults = at_once,
                                                       .first_number = 1000});
}

static void the_first_number_can_be_chosen(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    expect_cursor(f, s, 999);
    subscribe(f, s, "a:1");
    assert_int_equal(changed(f, "a:1", NULL), 1000);
    expect_note(f, s, "a:1", 1000, 0);
    expect_cursor(f, s, 1000);
}

static void a_change_refused_uses_up_no_number_and_tells_nobody(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    json_t *bad = json_from("[1]");
    uint64_t number = 77;

    subscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), bad, false, &number),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), bad, true, &number),
                     TDG_EINVAL);
    assert_int_equal(
        tdg__engine_publish(f->engine, TEMPLATE("a:{x}"), NULL, false, &number),
        TDG_EINVAL);
    assert_int_equal(tdg__engine_publish(f->engine, LIST("no"), NULL, false, &number),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_publish(f->engine, NULL, NULL, false, &number),
                     TDG_EINVAL);
    assert_int_equal(tdg__engine_publish(f->engine, LIST("tools"), NULL, true, &number),
                     TDG_EINVAL);
    assert_int_equal(number, 77);
    expect_silence(f);
    assert_int_equal(changed(f, "a:1", NULL), 1);
    json_decref(bad);
}

static tdg__change_t *stamped(const tdg__target_t *target, uint64_t number) {
    tdg__change_t *change = NULL;

    assert_int_equal(tdg__change_create(target, NULL, false, NOON_MS, 1024, &change), 0);
    if (number != 0)
        assert_int_equal(tdg__change_stamp(change, number), 0);
    return change;
}

static void a_change_stamped_elsewhere_keeps_its_number(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__change_t *change = stamped(URI("a:1"), 50);

    subscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_apply(f->engine, change), 0);
    assert_int_equal(atomic_load(&change->refs) > 1, true);
    tdg__change_unref(change);
    expect_note(f, s, "a:1", 50, 0);
    expect_cursor(f, s, 50);
    assert_int_equal(changed(f, "a:1", NULL), 51);
}

static void a_list_change_stamped_elsewhere_is_applied_too(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__change_t *change = stamped(LIST("tools"), 3);

    subscribe_list(f, s, "tools");
    assert_int_equal(tdg__engine_apply(f->engine, change), 0);
    tdg__change_unref(change);
    expect_list_note(f, s, "tools", 3, 0);
}

static void a_change_out_of_order_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__change_t *five = stamped(URI("a:1"), 5), *four = stamped(URI("a:1"), 4);

    subscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_apply(f->engine, five), 0);
    assert_int_equal(tdg__engine_apply(f->engine, five), TDG_EORDER);
    assert_int_equal(tdg__engine_apply(f->engine, four), TDG_EORDER);
    expect_note(f, s, "a:1", 5, 0);
    expect_silence(f);
    assert_int_equal(counters(f).last_number, 5);
    tdg__change_unref(five);
    tdg__change_unref(four);
}

static void a_change_without_a_stamp_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__change_t *change = stamped(URI("a:1"), 0);

    assert_int_equal(tdg__engine_apply(f->engine, change), TDG_EINVAL);
    assert_int_equal(counters(f).last_number, 0);
    tdg__change_unref(change);
}

static int setup_shared_numbers(void **state) {
    tdg__engine_opts_t opts = {
        .calls = calls_watched, .defaults = at_once, .shared_numbers = true};

    return fixture_create(state, &opts);
}

static void apply(struct fixture *f, const char *uri, uint64_t number) {
    tdg__change_t *change = stamped(URI(uri), number);

    assert_int_equal(tdg__engine_apply(f->engine, change), 0);
    tdg__change_unref(change);
}

static void with_shared_numbers_an_engine_makes_none_itself(void **state) {
    struct fixture *f = *state;

    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), NULL, false, NULL),
                     TDG_ENOTSUP);
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), NULL, true, NULL),
                     TDG_ENOTSUP);
    assert_int_equal(tdg__engine_publish(f->engine, LIST("tools"), NULL, false, NULL),
                     TDG_ENOTSUP);
    assert_int_equal(counters(f).last_number, 0);
}

static void with_shared_numbers_an_arming_has_the_number_that_was_reached(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), back = open_stream(f);
    tdg__sub_opts_t back_to;

    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:1"), NULL);
    apply(f, "b:1", 100);
    tdg__engine_reach(f->engine, 101);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    acknowledge(f, s);
    expect_cursor(f, s, 101);

    tdg__engine_close(f->engine, s);
    back_to = after(101);
    subscribe_with(f, back, URI("a:1"), &back_to);
    expect_silence(f); /* nothing was missed */
    apply(f, "a:1", 102);
    expect_note(f, back, "a:1", 102, 0);
}

static void a_watcher_that_was_armed_before_counts_from_then(void **state) {
    struct fixture *f = *state;
    tdg__stream_t early = open_stream(f), late = open_stream(f);
    tdg__sub_opts_t before = after(96), since = after(98);

    f->watch_answer = TDG_EAGAIN;
    apply(f, "b:1", 100);
    subscribe_only(f, early, URI("a:1"), &before);
    subscribe_only(f, late, URI("a:1"), &since);
    tdg__engine_armed_at(f->engine, 97);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    acknowledge(f, early);
    acknowledge(f, late);
    expect_assumed(f, early, "a:1", 100);
    expect_silence(f);
}

static void with_shared_numbers_an_arming_without_one_is_not_silent(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t back_to;

    apply(f, "a:1", 100);
    back_to = after(100);
    subscribe_with(f, s, URI("a:1"), &back_to);
    expect_assumed(f, s, "a:1", 100);
    expect_cursor(f, s, 100);
}

/* Another engine has given it out. What is in between comes here, too. */
static void with_shared_numbers_a_cursor_may_be_ahead(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t ahead = after(102);
    tdg__cursor_t cursor = {EPOCH, 102};
    bool complete = false;

    subscribe(f, s, "a:1"); /* armed */
    apply(f, "a:1", 100);
    drain(f);
    assert_true(subscribe_only(f, s, URI("a:1"), &ahead).resumed);
    expect_silence(f);
    assert_int_equal(tdg__engine_rewind(f->engine, s, cursor, &complete), 0);
    expect_silence(f);
    expect_cursor(f, s, 100);
    apply(f, "a:1", 101);
    expect_note(f, s, "a:1", 101, 0);
}

static void reaching_a_number_that_is_passed_changes_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    apply(f, "a:1", 100);
    tdg__engine_reach(f->engine, 99);
    tdg__engine_reach(f->engine, 100);
    expect_cursor(f, s, 100);
    tdg__engine_reach(f->engine, 105);
    expect_cursor(f, s, 105);
}

static void several_engines_live_side_by_side(void **state) {
    struct fixture *f = *state, *g;
    void *other = NULL;
    tdg__stream_t s, t;
    tdg__change_t *change = stamped(URI("a:1"), 9);

    setup_at_once(&other);
    g = other;
    s = open_stream(f);
    t = open_stream(g);
    subscribe(f, s, "a:1");
    subscribe(g, t, "a:1");

    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(g);

    assert_int_equal(tdg__engine_apply(f->engine, change), 0);
    assert_int_equal(tdg__engine_apply(g->engine, change), 0);
    tdg__change_unref(change);
    expect_note(f, s, "a:1", 9, 0);
    expect_note(g, t, "a:1", 9, 0);

    tdg__engine_destroy(g->engine);
    g->engine = NULL;
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 10, 0);
    g->live = memory_live(); /* the first engine has moved on meanwhile */
    assert_int_equal(teardown(&other), 0);
}

static void an_engine_without_options_works(void **state) {
    tdg__engine_t *engine = NULL, *another = NULL;
    tdg__counters_t one, two;

    (void)state;
    assert_int_equal(tdg__engine_create(NULL, &engine), 0);
    assert_int_equal(tdg__engine_create(NULL, &another), 0);
    tdg__engine_counters(engine, &one);
    tdg__engine_counters(another, &two);
    assert_true(one.epoch != 0);
    assert_true(one.epoch != two.epoch); /* random, 64 bits */
    tdg__engine_destroy(engine);
    tdg__engine_destroy(another);
}

static void an_engine_is_not_created_with_settings_that_make_no_sense(void **state) {
    tdg__engine_opts_t opts = {.defaults = {.rate_limit_ms = -5}};
    tdg__engine_t *engine = NULL;

    (void)state;
    assert_int_equal(tdg__engine_create(&opts, &engine), TDG_EINVAL);
    opts.defaults =
        (tdg__settings_t){.timing = {TDG__TIMING_BATCH, TDG__MAX_WINDOW_MS + 1, 0}};
    assert_int_equal(tdg__engine_create(&opts, &engine), TDG_EINVAL);
    assert_null(engine);
}

static void destroying_nothing_is_fine(void **state) {
    (void)state;
    tdg__engine_destroy(NULL);
}

static void an_engine_is_destroyed_with_everything_in_it(void **state) {
    struct fixture *f = *state;

    for (int i = 0; i < 100; i++) {
        tdg__stream_t s = open_stream(f);

        subscribe(f, s, "a:1");
        subscribe_template(f, s, "a:{x}");
        subscribe_list(f, s, "tools");
        subscribe_settings(f, s, "a:2", batch(100));
        subscribe_only(f, s, URI("a:3"), NULL);
    }
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:3", NULL);
    list_changed(f, "tools");
    /* teardown looks at the memory */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_deletion_is_an_update_that_says_deleted, setup_at_once),
        TEST(a_deletion_carries_its_metadata, setup_at_once),
        TEST(subscriptions_survive_the_deletion_of_their_resource, setup_at_once),
        TEST(delete_and_create_before_it_is_taken_is_one_update_with_the_newest_metadata,
             setup_at_once),
        TEST(deleting_what_nobody_knows_is_fine, setup_at_once),

        TEST(numbers_grow_by_one_over_all_resources_and_lists, setup_at_once),
        TEST(the_number_of_a_change_may_be_left_out, setup_at_once),
        TEST(the_first_number_can_be_chosen, setup_first_number),
        TEST(a_change_refused_uses_up_no_number_and_tells_nobody, setup_at_once),
        TEST(a_change_stamped_elsewhere_keeps_its_number, setup_at_once),
        TEST(a_list_change_stamped_elsewhere_is_applied_too, setup_at_once),
        TEST(a_change_out_of_order_is_refused, setup_at_once),
        TEST(a_change_without_a_stamp_is_refused, setup_at_once),
        TEST(with_shared_numbers_an_engine_makes_none_itself, setup_shared_numbers),
        TEST(a_watcher_that_was_armed_before_counts_from_then, setup_shared_numbers),
        TEST(with_shared_numbers_an_arming_has_the_number_that_was_reached,
             setup_shared_numbers),
        TEST(with_shared_numbers_an_arming_without_one_is_not_silent,
             setup_shared_numbers),
        TEST(with_shared_numbers_a_cursor_may_be_ahead, setup_shared_numbers),
        TEST(reaching_a_number_that_is_passed_changes_nothing, setup_shared_numbers),
        TEST(several_engines_live_side_by_side, setup_at_once),
        TEST(an_engine_without_options_works, setup_at_once),
        TEST(an_engine_is_not_created_with_settings_that_make_no_sense, setup_at_once),
        TEST(destroying_nothing_is_fine, setup_at_once),
        TEST(an_engine_is_destroyed_with_everything_in_it, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_change", tests, NULL, NULL);
}
