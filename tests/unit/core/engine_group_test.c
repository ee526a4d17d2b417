/* SPDX-License-Identifier: MIT
 *
 * Those who asked for the same share a window and a limit. Here members come, go and
 * change their wishes, and nobody's notification is lost, doubled or left behind. */
#include "unit/core/fixture.h"

enum { MANY = 40 };

static void open_many(struct fixture *f, tdg__stream_t *s, int count) {
    for (int i = 0; i < count; i++)
        s[i] = open_stream(f);
}

/* ---- Who shares --------------------------------------------------------- */

static void windows_of_different_length_are_kept_apart(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_settings(f, t, "a:1", batch(200));
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_note(f, s, "a:1", 1, 0);
    expect_silence(f);
    advance(f, 100);
    expect_note(f, t, "a:1", 1, 0);
}

static void modes_of_the_same_length_are_kept_apart(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f), u = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_settings(f, t, "a:1", throttle(100));
    subscribe_settings(f, u, "a:1", debounce(100, 0));
    changed(f, "a:1", NULL);
    expect_note(f, t, "a:1", 1, 0);
    expect_silence(f);
    advance(f, 50);
    changed(f, "a:1", NULL);
    advance(f, 50);
    expect_note(f, s, "a:1", 2, 1);
    expect_note(f, t, "a:1", 2, 0);
    expect_silence(f);
    advance(f, 50);
    expect_note(f, u, "a:1", 2, 1);
}

static void debounces_of_different_longest_wait_are_kept_apart(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_settings(f, s, "a:1", debounce(100, 150));
    subscribe_settings(f, t, "a:1", debounce(100, 1000));
    changed(f, "a:1", NULL);
    advance(f, 80);
    changed(f, "a:1", NULL);
    advance(f, 70);
    expect_note(f, s, "a:1", 2, 1);
    expect_silence(f);
    advance(f, 30);
    expect_note(f, t, "a:1", 2, 1);
}

static void equal_wishes_with_filters_are_kept_once(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[MANY];
    size_t live;

    open_many(f, s, MANY);
    subscribe_filter(f, s[0], "a:1", "{'metadata.size': {'gt': 1}}");
    live = memory_live();
    for (int i = 1; i < MANY; i++)
        subscribe_filter(f, s[i], "a:1", "{'metadata.size':{'gt':1}}");
    assert_true(memory_live() <=
                live + 2); /* room for the members, nothing of their own */
    changed(f, "a:1", "{'size': 2}");
    assert_int_equal(drain(f), MANY);
}

static void what_nobody_waits_for_any_more_is_let_go(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    tdg__change_t *kept;

    subscribe(f, s, "a:1");
    subscribe(f, t, "a:1");
    changed(f, "a:1", "{'size': 1}");
    kept = tdg__change_ref(take(f, s).change);
    expect_note(f, t, "a:1", 1, 0);
    subscribe(f, s, "a:2");
    changed(f, "a:2", NULL);
    expect_note(f, s, "a:2", 2, 0); /* what take() lent before is given back */
    assert_int_equal(atomic_load(&kept->refs), 1);
    tdg__change_unref(kept);
}

static void what_a_leaver_waited_for_is_let_go(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    tdg__change_t *change = NULL;

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_filter(f, t, "a:1", "{'metadata.size': {'gt': 1}}");
    assert_int_equal(tdg__change_create(URI("a:1"), NULL, false, 0, 64, &change), 0);
    assert_int_equal(tdg__change_stamp(change, 1), 0);
    assert_int_equal(tdg__engine_apply(f->engine, change), 0);
    assert_true(atomic_load(&change->refs) > 1);
    unsubscribe(f, s, "a:1");
    assert_int_equal(atomic_load(&change->refs), 1);
    tdg__change_unref(change);
}

/* ---- Who comes and goes ------------------------------------------------- */

static void many_come_and_go_while_a_window_runs(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[MANY];

    open_many(f, s, MANY);
    for (int i = 0; i < MANY; i++)
        subscribe_settings(f, s[i], "a:1", batch(100));
    changed(f, "a:1", NULL);
    for (int i = 0; i < MANY; i += 3)
        unsubscribe(f, s[i], "a:1");
    for (int i = 0; i < MANY; i += 6) /* back, but too late for the first change */
        subscribe_settings(f, s[i], "a:1", batch(100));
    advance(f, 100);
    for (int i = 0; i < MANY; i++) {
        if (i % 3 == 0)
            expect_nothing(f, s[i]);
        else
            expect_note(f, s[i], "a:1", 1, 0);
    }
    changed(f, "a:1", NULL);
    advance(f, 100);
    for (int i = 0; i < MANY; i++) {
        if (i % 3 == 0 && i % 6 != 0)
            expect_nothing(f, s[i]);
        else
            expect_note(f, s[i], "a:1", 2, 0);
    }
}

static void who_was_served_early_is_called_in_by_the_next_change_only(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[4];

    open_many(f, s, 4);
    for (int i = 0; i < 4; i++)
        subscribe_settings(f, s[i], "a:1", batch(100));
    changed(f, "a:1", NULL);
    advance(f, 100); /* ready for all four */
    changed(f, "a:1", NULL);
    expect_note(f, s[1], "a:1", 2, 1); /* takes the second along */
    expect_note(f, s[2], "a:1", 2, 1);
    advance(f, 100);
    expect_nothing(f, s[1]);
    expect_nothing(f, s[2]);
    expect_note(f, s[0], "a:1", 2, 1);
    expect_note(f, s[3], "a:1", 2, 1);
}

static void members_of_a_template_come_and_go_in_any_order(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[5];
    static const int order[] = {2, 0, 4, 1}; /* from the middle, the front and the back */
    uint64_t number;

    open_many(f, s, 5);
    for (int i = 0; i < 5; i++)
        subscribe_template(f, s[i], "a:{x}");
    for (size_t gone = 0; gone < 4; gone++) {
        assert_int_equal(
            tdg__engine_unsubscribe(f->engine, s[order[gone]], TEMPLATE("a:{x}")), 0);
        number = changed(f, "a:1", NULL);
        assert_int_equal(drain(f), 4 - gone);
    }
    for (size_t gone = 0; gone < 4; gone++)
        subscribe_template(f, s[order[gone]], "a:{x}");
    number = changed(f, "a:1", NULL);
    for (int i = 0; i < 5; i++)
        expect_note(f, s[i], "a:1", number, 0);
}

static void templates_that_nobody_wants_are_gone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    size_t live = 0;
    char text[] = "a000:{x}";

    for (int i = 0; i < 500; i++) {
        text[1] = (char)('0' + i / 100);
        text[2] = (char)('0' + i / 10 % 10);
        text[3] = (char)('0' + i % 10);
        subscribe_template(f, s, text);
        assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE(text)), 0);
        if (i == 10)
            live = memory_live();
    }
    assert_true(memory_live() <= live);
}

/* ---- Who changes wishes ------------------------------------------------- */

static void many_move_to_one_group_and_are_all_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[MANY];

    open_many(f, s, MANY);
    for (int i = 0; i < MANY; i++)
        subscribe_settings(f, s[i], "a:1", i % 2 == 0 ? batch(100) : batch(200));
    for (int i = 0; i < MANY; i += 2)
        subscribe_settings(f, s[i], "a:1", batch(200));
    changed(f, "a:1", NULL);
    advance(f, 100);
    expect_silence(f);
    advance(f, 100);
    for (int i = 0; i < MANY; i++)
        expect_note(f, s[i], "a:1", 1, 0);
}

static void many_move_through_a_template_and_are_all_told(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[MANY];
    tdg__sub_opts_t slow = {.settings = batch(1000)}, fast = {.settings = batch(50)};

    open_many(f, s, MANY);
    for (int i = 0; i < MANY; i++)
        subscribe_with(f, s[i], TEMPLATE("a:{x}"), i % 2 == 0 ? &slow : &fast);
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    for (int i = 0; i < MANY; i += 2) {
        subscribe_with(f, s[i], TEMPLATE("a:{x}"), &fast);
        expect_note(f, s[i], "a:1", 1, 0); /* they have waited enough */
        expect_note(f, s[i], "a:2", 2, 0);
    }
    advance(f, 50);
    for (int i = 1; i < MANY; i += 2) {
        expect_note(f, s[i], "a:1", 1, 0);
        expect_note(f, s[i], "a:2", 2, 0);
    }
    expect_silence(f);
    changed(f, "a:1", NULL);
    advance(f, 50);
    assert_int_equal(drain(f), MANY);
}

static void who_moves_out_of_the_middle_of_a_template_leaves_the_others(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[3];
    tdg__sub_opts_t slow = {.settings = batch(300)};

    for (int mover = 0; mover < 3; mover++) {
        uint64_t number;

        open_many(f, s, 3);
        for (int i = 0; i < 3; i++)
            subscribe_template(f, s[i], "a:{x}");
        subscribe_with(f, s[mover], TEMPLATE("a:{x}"), &slow);
        number = changed(f, "a:1", NULL);
        for (int i = 0; i < 3; i++) {
            if (i != mover)
                expect_note(f, s[i], "a:1", number, 0);
        }
        expect_silence(f);
        advance(f, 300);
        expect_note(f, s[mover], "a:1", number, 0);
        for (int i = 0; i < 3; i++)
            tdg__engine_close(f->engine, s[i]);
        assert_int_equal(counters(f).templates, 0);
    }
}

static void who_moves_keeps_its_limit_among_the_others(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), before = open_stream(f), behind = open_stream(f);

    subscribe_settings(f, before, "a:1", rate_limit(1000));
    subscribe_settings(f, s, "a:1", rate_limit(500));
    subscribe_settings(f, behind, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, before, "a:1", 1, 0); /* limit until 1,000 */
    advance(f, 50);
    expect_note(f, s, "a:1", 1, 0); /* by its new wishes until 1,050 */
    advance(f, 50);
    expect_note(f, behind, "a:1", 1, 0); /* until 1,100 */
    changed(f, "a:1", NULL);
    subscribe_settings(f, s, "a:1", rate_limit(1000));
    advance(f, 899);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, before, "a:1", 2, 0);
    expect_silence(f);
    advance(f, 49);
    expect_silence(f);
    advance(f, 1);
    expect_note(f, s, "a:1", 2, 0);
    expect_silence(f);
    advance(f, 50);
    expect_note(f, behind, "a:1", 2, 0);
    expect_silence(f);
}

static void who_moves_while_limited_leaves_the_others_to_theirs(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    subscribe_settings(f, t, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    assert_int_equal(drain(f), 2);
    changed(f, "a:1", NULL);
    subscribe_settings(f, s, "a:1", rate_limit(400));
    advance(f, 400);
    expect_note(f, s, "a:1", 2, 0);
    expect_silence(f);
    advance(f, 600);
    expect_note(f, t, "a:1", 2, 0);
    advance(f, 1000);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
}

static void who_leaves_while_limited_leaves_no_timer(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    changed(f, "a:1", NULL);
    expect_note(f, s, "a:1", 1, 0);
    changed(f, "a:1", NULL);
    subscribe_settings(f, t, "a:1", rate_limit(1000));
    unsubscribe(f, s, "a:1");
    advance(f, 1000);
    expect_silence(f);
    assert_true(tdg__engine_next_deadline(f->engine) == INT64_MAX);
    changed(f, "a:1", NULL);
    expect_note(f, t, "a:1", 3, 0);
}

static void what_is_pending_survives_any_number_of_moves(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_only(f, s, URI("a:1"), NULL);
    changed(f, "a:1", NULL);
    for (uint32_t i = 1; i < 20; i++)
        subscribe_only(f, s, URI("a:1"), &(tdg__sub_opts_t){.settings = batch(i)});
    changed(f, "a:1", NULL);
    for (uint32_t i = 1; i < 20; i++)
        subscribe_only(f, s, URI("a:1"), &(tdg__sub_opts_t){.settings = throttle(i)});
    expect_cursor(f, s, 0);
    acknowledge(f, s);
    expect_note(f, s, "a:1", 2, 1);
    expect_silence(f);
}

static void an_assumed_change_survives_a_move(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t back = after(0);

    changed(f, "a:1", NULL);
    subscribe_with(f, s, URI("a:1"), &back);
    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_settings(f, s, "a:1", debounce(100, 0));
    expect_assumed(f, s, "a:1", 1);
    expect_silence(f);
}

static void changing_wishes_again_and_again_does_not_leak(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    size_t live = 0;

    for (uint32_t i = 1; i <= 500; i++) {
        tdg__sub_opts_t opts = {.settings = batch(i)};

        subscribe_with(f, s, URI("a:1"), &opts);
        subscribe_with(f, s, TEMPLATE("a:{x}"), &opts);
        changed(f, "a:1", NULL);
        changed(f, "a:2", NULL);
        if (i == 50)
            live = memory_live();
    }
    assert_true(memory_live() <= live + 4);
    advance(f, 1000);
    assert_int_equal(drain(f), 2);
}

static void a_templates_new_priority_moves_what_is_ready(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "b:1");
    subscribe_template(f, s, "a:{x}");
    changed(f, "b:1", NULL);
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    subscribe_with(f, s, TEMPLATE("a:{x}"),
                   &(tdg__sub_opts_t){.priority = TDG__PRIORITY_HIGH});
    expect_note(f, s, "a:1", 2, 0);
    expect_note(f, s, "a:2", 3, 0);
    expect_note(f, s, "b:1", 1, 0);
}

/* Whoever is subscribed when a resource changes is told of it, whatever the wishes. */
static void wishes_change_at_random_and_everybody_is_told(void **state) {
    struct fixture *f = *state;
    const tdg__settings_t wishes[] = {
        at_once,     batch(100),       batch(200),      throttle(100),
        throttle(5), debounce(100, 0), rate_limit(100), rate_limit(300),
    };
    tdg__stream_t s[6];
    bool there[6] = {false};
    uint32_t random = 12345;

    open_many(f, s, 6);
    for (int round = 0; round < 1000; round++) {
        uint64_t number;

        for (int i = 0; i < 3; i++) {
            uint32_t who, what;

            random = random * 1664525 + 1013904223;
            who = (random >> 16) % 6;
            what = (random >> 8) % 10;
            if (what < 8)
                subscribe_settings(f, s[who], "a:1", wishes[what]);
            else if (there[who])
                unsubscribe(f, s[who], "a:1");
            there[who] = what < 8;
        }
        number = changed(f, "a:1", NULL);
        advance(f, 1000);
        for (int i = 0; i < 6; i++) {
            if (there[i])
                assert_int_equal(take(f, s[i]).change->number, number);
            expect_nothing(f, s[i]);
        }
        advance(f, 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(windows_of_different_length_are_kept_apart, setup_at_once),
        TEST(modes_of_the_same_length_are_kept_apart, setup_at_once),
        TEST(debounces_of_different_longest_wait_are_kept_apart, setup_at_once),
        TEST(equal_wishes_with_filters_are_kept_once, setup_at_once),
        TEST(what_nobody_waits_for_any_more_is_let_go, setup_at_once),
        TEST(what_a_leaver_waited_for_is_let_go, setup_at_once),

        TEST(many_come_and_go_while_a_window_runs, setup_at_once),
        TEST(who_was_served_early_is_called_in_by_the_next_change_only, setup_at_once),
        TEST(members_of_a_template_come_and_go_in_any_order, setup_at_once),
        TEST(templates_that_nobody_wants_are_gone, setup_at_once),

        TEST(many_move_to_one_group_and_are_all_told, setup_at_once),
        TEST(many_move_through_a_template_and_are_all_told, setup_at_once),
        TEST(who_moves_out_of_the_middle_of_a_template_leaves_the_others, setup_at_once),
        TEST(who_moves_keeps_its_limit_among_the_others, setup_at_once),
        TEST(who_moves_while_limited_leaves_the_others_to_theirs, setup_at_once),
        TEST(who_leaves_while_limited_leaves_no_timer, setup_at_once),
        TEST(what_is_pending_survives_any_number_of_moves, setup_at_once),
        TEST(an_assumed_change_survives_a_move, setup_at_once),
        TEST(changing_wishes_again_and_again_does_not_leak, setup_at_once),
        TEST(a_templates_new_priority_moves_what_is_ready, setup_at_once),
        TEST(wishes_change_at_random_and_everybody_is_told, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_group", tests, NULL, NULL);
}
