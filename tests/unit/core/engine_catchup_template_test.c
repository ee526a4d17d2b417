/* SPDX-License-Identifier: MIT
 *
 * Coming back to a template with a cursor: the history names what changed since; beyond
 * it, every listed match counts as changed, and the subscriber is told that it is not
 * sure. */
#include "unit/core/fixture.h"

static int setup_short_history(void **state) {
    return fixture_create(
        state,
        &(tdg__engine_opts_t){.calls = calls_pushed, .defaults = at_once, .history = 4});
}

static void list_resource(struct fixture *f, const char *template_, const char *uri) {
    assert_true(f->n_listed < sizeof(f->listed) / sizeof(f->listed[0]));
    f->listed[f->n_listed].template_ = template_;
    f->listed[f->n_listed].uri = uri;
    f->n_listed++;
}

static void come_back(struct fixture *f, tdg__stream_t s, const char *uri,
                      uint64_t number) {
    tdg__sub_opts_t opts = after(number);

    subscribe_with(f, s, URI(uri), &opts);
}

static bool come_back_to_template(struct fixture *f, tdg__stream_t s,
                                  const char *template_, uint64_t number) {
    tdg__sub_opts_t opts = after(number);
    bool resumed = subscribe_only(f, s, TEMPLATE(template_), &opts).resumed;

    acknowledge(f, s);
    return resumed;
}

/* Takes one assumed change for each of the URIs, in any order, and no more. */
static void expect_assumed_set(struct fixture *f, tdg__stream_t s, size_t count,
                               const char *const *uris) {
    bool seen[8] = {false};

    for (size_t i = 0; i < count; i++) {
        tdg__note_t note = take(f, s);
        size_t at = 0;

        while (at < count && strcmp(uris[at], note.change->name) != 0)
            at++;
        assert_true(at < count);
        assert_false(seen[at]);
        assert_true(note.change->assumed);
        seen[at] = true;
    }
    expect_nothing(f, s);
}

static tdg__sub_opts_t foreign(void) {
    return (tdg__sub_opts_t){.has_cursor = true, .cursor = {EPOCH + 1, 3}};
}

/* ---- A template --------------------------------------------------------- */

static void a_template_is_told_of_every_match_that_changed_since(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "b:1", NULL);
    changed(f, "a:3", NULL);
    changed(f, "a:2", NULL);
    assert_true(come_back_to_template(f, s, "a:{x}", 1));
    expect_cursor(f, s, 1);
    expect_assumed_set(f, s, 2, (const char *const[]){"a:2", "a:3"});
    expect_silence(f);
    expect_cursor(f, s, 5);
}

static void a_template_is_told_once_of_what_changed_often(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    for (int i = 0; i < 10; i++)
        changed(f, "a:1", NULL);
    assert_true(come_back_to_template(f, s, "a:{x}", 0));
    expect_assumed(f, s, "a:1", 10);
    expect_silence(f);
}

static void a_template_that_missed_nothing_is_told_of_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    assert_true(come_back_to_template(f, s, "a:{x}", 1));
    expect_silence(f);
}

static void a_template_is_not_told_of_lists(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    list_changed(f, "tools");
    assert_true(come_back_to_template(f, s, "{x}", 0));
    expect_silence(f);
}

static void a_template_is_told_only_of_what_its_owner_may_read(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->forbidden = "a:secret";
    list_resource(f, "a:{x}", "a:secret");
    changed(f, "a:secret", NULL);
    changed(f, "a:1", NULL);
    assert_true(come_back_to_template(f, s, "a:{x}", 0));
    expect_assumed(f, s, "a:1", 2);
    expect_silence(f);
}

static void listed_matches_are_told_only_to_who_may_read_them(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    f->forbidden = "a:secret";
    list_resource(f, "a:{x}", "a:secret");
    list_resource(f, "a:{x}", "a:1");
    for (int i = 0; i < 5; i++)
        changed(f, "b:1", NULL);
    assert_false(come_back_to_template(f, s, "a:{x}", 0));
    expect_assumed_set(f, s, 1, (const char *const[]){"a:1"});
}

static void beyond_the_history_a_template_is_told_of_every_listed_match(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    list_resource(f, "a:{x}", "a:1");
    list_resource(f, "a:{x}", "a:2");
    list_resource(f, "other:{x}", "other:1");
    for (int i = 0; i < 5; i++)
        changed(f, "b:1", NULL); /* 1 has left the history */
    assert_false(come_back_to_template(f, s, "a:{x}", 0));
    expect_assumed_set(f, s, 2, (const char *const[]){"a:1", "a:2"});
}

static void a_cursor_at_the_edge_of_the_history_is_exact(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    list_resource(f, "a:{x}", "a:9");
    changed(f, "b:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "b:1", NULL);
    changed(f, "b:1", NULL);
    changed(f, "b:1", NULL); /* the history holds 2 to 5 */
    assert_true(come_back_to_template(f, s, "a:{x}", 1));
    expect_assumed(f, s, "a:2", 5);
    expect_silence(f);
}

static void a_cursor_between_what_the_history_dropped_is_too_old(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    list_resource(f, "a:{x}", "a:1");
    changed(f, "b:1", NULL);
    changed(f, "b:1", NULL);
    changed(f, "a:1", NULL); /* 3 */
    for (int i = 0; i < 5; i++)
        changed(f, "b:1", NULL); /* the history holds 5 to 8 */
    assert_false(come_back_to_template(f, s, "a:{x}", 2));
    expect_assumed(f, s, "a:1", 8);
    assert_false(come_back_to_template(f, open_stream(f), "a:{x}", 3));
    assert_true(come_back_to_template(f, open_stream(f), "a:{x}", 4));
}

static void what_is_listed_and_in_the_history_is_told_once(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    list_resource(f, "a:{x}", "a:1");
    list_resource(f, "a:{x}", "a:2");
    for (int i = 0; i < 5; i++)
        changed(f, "a:1", NULL);
    assert_false(come_back_to_template(f, s, "a:{x}", 0));
    expect_assumed_set(f, s, 2, (const char *const[]){"a:1", "a:2"});
}

static void what_is_listed_but_does_not_match_is_not_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    list_resource(f, "a:{x}", "other:1");
    list_resource(f, "a:{x}", "a:1");
    for (int i = 0; i < 5; i++)
        changed(f, "b:1", NULL);
    assert_false(come_back_to_template(f, s, "a:{x}", 0));
    expect_assumed_set(f, s, 1, (const char *const[]){"a:1"});
}

static void matches_deleted_meanwhile_are_told_of_as_deleted(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    deleted(f, "a:1");
    assert_true(come_back_to_template(f, s, "a:{x}", 0));
    assert_true(take(f, s).change->deleted);
}

static void a_template_with_a_cursor_of_another_epoch_is_told_of_all(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = foreign();

    list_resource(f, "a:{x}", "a:1");
    changed(f, "a:2", NULL);
    assert_false(subscribe_only(f, s, TEMPLATE("a:{x}"), &opts).resumed);
    acknowledge(f, s);
    expect_foreign_cursor(f, s);
    expect_assumed_set(f, s, 2, (const char *const[]){"a:1", "a:2"});
    expect_cursor(f, s, 1);
}

static int setup_few_listed(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_pushed,
                                                       .defaults = at_once,
                                                       .history = 4,
                                                       .max_listed = 2});
}

static void not_more_listed_matches_are_told_than_allowed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    list_resource(f, "a:{x}", "a:1");
    list_resource(f, "a:{x}", "a:2");
    list_resource(f, "a:{x}", "a:3");
    list_resource(f, "a:{x}", "a:4");
    for (int i = 0; i < 5; i++)
        changed(f, "b:1", NULL);
    assert_false(come_back_to_template(f, s, "a:{x}", 0));
    assert_true(f->visited <= 3); /* the listing is stopped */
    expect_assumed_set(f, s, 2, (const char *const[]){"a:1", "a:2"});
}

static void listed_matches_nobody_may_read_count_too(void **state) {
    struct fixture *f = *state; /* two may be listed */
    tdg__stream_t s = open_stream(f);

    f->forbidden = "a:secret";
    list_resource(f, "a:{x}", "a:secret");
    list_resource(f, "a:{x}", "a:1");
    list_resource(f, "a:{x}", "a:2");
    for (int i = 0; i < 5; i++)
        changed(f, "b:1", NULL);
    assert_false(come_back_to_template(f, s, "a:{x}", 0));
    expect_assumed_set(f, s, 1, (const char *const[]){"a:1"});
}

static int setup_few_pending(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_pushed,
                                                       .defaults = at_once,
                                                       .max_pending = 2});
}

static void coming_back_never_ends_a_stream_for_too_much_pending(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    changed(f, "a:3", NULL);
    assert_false(come_back_to_template(f, s, "a:{x}", 0));
    expect_assumed_set(f, s, 2, (const char *const[]){"a:2", "a:3"}); /* the newest */
    expect_state(f, s, TEMPLATE("a:{x}"), TDG__SUBSCRIBED);
    changed(f, "a:4", NULL);
    expect_note(f, s, "a:4", 4, 0);
}

static int setup_no_calls(void **state) {
    return fixture_create(state,
                          &(tdg__engine_opts_t){.defaults = at_once, .history = 4});
}

static void where_nothing_is_listed_only_the_history_is_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    for (int i = 0; i < 5; i++)
        changed(f, "b:1", NULL);
    changed(f, "a:1", NULL);
    assert_false(come_back_to_template(f, s, "a:{x}", 0));
    expect_assumed(f, s, "a:1", 6);
    expect_silence(f);
}

static void template_and_resource_that_come_back_give_one_notification(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    changed(f, "a:1", NULL);
    come_back(f, s, "a:1", 0);
    assert_true(come_back_to_template(f, s, "a:{x}", 0));
    expect_assumed(f, s, "a:1", 1);
    expect_silence(f);
    expect_cursor(f, s, 1);
}

/* ---- Known from and lately ---------------------------------------------- */

static void a_templates_first_watcher_cannot_know_what_was_before(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    list_resource(f, "a:{x}", "a:1");
    assert_false(come_back_to_template(f, s, "a:{x}", 0));
    expect_assumed(f, s, "a:1", counters(f).last_number);
}

static void a_template_that_returns_quickly_misses_nothing(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__cursor_t cursor;

    list_resource(f, "a:{x}", "a:1");
    subscribe_template(f, s, "a:{x}");
    assert_int_equal(tdg__engine_cursor(f->engine, s, &cursor), 0);
    tdg__engine_close(f->engine, s);
    advance(f, 100);
    s = open_stream(f);
    assert_true(come_back_to_template(f, s, "a:{x}", cursor.number));
    expect_silence(f);
}

static void whether_a_template_is_resumed_is_said_when_it_is_settled(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    tdg__sub_opts_t opts = after(0);

    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, TEMPLATE("a:{x}"), &opts);
    subscribe_only(f, t, TEMPLATE("a:{x}"), NULL);
    expect_watch(f, TEMPLATE("a:{x}"));
    watch_done(f, TEMPLATE("a:{x}"), TDG__WATCH_ARMED, 0);
    expect_settled_not_resumed(f, s, TEMPLATE("a:{x}"));
    expect_settled(f, t, TEMPLATE("a:{x}"), 0);
}

static void a_template_can_ask_for_what_changed_lately(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = {.since_ms = 1000};

    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    advance(f, 600);
    changed(f, "a:3", NULL);
    changed(f, "a:2", NULL);
    changed(f, "b:1", NULL);
    advance(f, 600);
    assert_true(subscribe_only(f, s, TEMPLATE("a:{x}"), &opts).resumed);
    acknowledge(f, s);
    expect_cursor(f, s, 2); /* 3 and 4 are found */
    expect_assumed_set(f, s, 2, (const char *const[]){"a:2", "a:3"});
    expect_cursor(f, s, 5);
}

static void the_time_asked_for_is_included(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t opts = {.since_ms = 1000};

    changed(f, "a:1", NULL);
    advance(f, 1);
    changed(f, "a:2", NULL);
    advance(f, 1000);
    subscribe_with(f, s, TEMPLATE("a:{x}"), &opts);
    expect_assumed(f, s, "a:2", 2);
    expect_silence(f);
}

/* ---- After too much was pending ----------------------------------------- */

static void who_was_ended_for_too_much_pending_comes_back_exactly(void **state) {
    struct fixture *f = *state; /* max_pending is 2 */
    tdg__stream_t s = open_stream(f);
    tdg__note_t note;

    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:2", NULL);
    changed(f, "a:3", NULL);
    changed(f, "a:4", NULL); /* one too much */
    note = take(f, s);
    assert_int_equal(note.kind, TDG__NOTE_END);
    assert_int_equal(note.reason, TDG_EPENDING);
    tdg__engine_close(f->engine, s);

    s = open_stream(f);
    come_back(f, s, "a:1", note.cursor.number);
    come_back(f, s, "a:2", note.cursor.number);
    come_back(f, s, "a:3", note.cursor.number);
    come_back(f, s, "a:4", note.cursor.number);
    expect_assumed_set(f, s, 3, (const char *const[]){"a:2", "a:3", "a:4"});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_template_is_told_of_every_match_that_changed_since, setup_at_once),
        TEST(a_template_is_told_once_of_what_changed_often, setup_at_once),
        TEST(a_template_that_missed_nothing_is_told_of_nothing, setup_at_once),
        TEST(a_template_is_not_told_of_lists, setup_at_once),
        TEST(a_template_is_told_only_of_what_its_owner_may_read, setup_at_once),
        TEST(listed_matches_are_told_only_to_who_may_read_them, setup_short_history),
        TEST(beyond_the_history_a_template_is_told_of_every_listed_match,
             setup_short_history),
        TEST(a_cursor_at_the_edge_of_the_history_is_exact, setup_short_history),
        TEST(a_cursor_between_what_the_history_dropped_is_too_old, setup_short_history),
        TEST(what_is_listed_and_in_the_history_is_told_once, setup_short_history),
        TEST(what_is_listed_but_does_not_match_is_not_told, setup_short_history),
        TEST(matches_deleted_meanwhile_are_told_of_as_deleted, setup_at_once),
        TEST(a_template_with_a_cursor_of_another_epoch_is_told_of_all, setup_at_once),
        TEST(not_more_listed_matches_are_told_than_allowed, setup_few_listed),
        TEST(listed_matches_nobody_may_read_count_too, setup_few_listed),
        TEST(coming_back_never_ends_a_stream_for_too_much_pending, setup_few_pending),
        TEST(where_nothing_is_listed_only_the_history_is_told, setup_no_calls),
        TEST(template_and_resource_that_come_back_give_one_notification, setup_at_once),
        TEST(a_templates_first_watcher_cannot_know_what_was_before, setup_watched),
        TEST(a_template_that_returns_quickly_misses_nothing, setup_watched),
        TEST(whether_a_template_is_resumed_is_said_when_it_is_settled, setup_watched),
        TEST(a_template_can_ask_for_what_changed_lately, setup_at_once),
        TEST(the_time_asked_for_is_included, setup_at_once),
        TEST(who_was_ended_for_too_much_pending_comes_back_exactly, setup_few_pending),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_catchup_template", tests, NULL, NULL);
}
