/* SPDX-License-Identifier: MIT
 *
 * Subscriptions as both eras share them: limits, the end in every state, and memory that
 * runs out. */
#include <stdio.h>

#include <tidings/error.h>

#include "unit/client/play.h"

static void bad_ones_are_refused_one_by_one(void **state) {
    struct fake *f = *state;
    char *endless = test_malloc(70001);
    const char *uris[] = {"a:1", "", NULL, endless, "a:2"};
    int codes[5] = {0};
    struct fake_note *note;

    memset(endless, 'x', 70000);
    endless[70000] = '\0';
    fake_up(f, TDG_ERA_MODERN);
    note = fake_note(f);
    tdg__core_subscribe(f->core, uris, 5, NULL, codes, fake_done, note);
    fake_run(f);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(note), TDG_EINVAL);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], TDG_EINVAL);
    assert_int_equal(codes[2], TDG_EINVAL);
    assert_int_equal(codes[3], TDG_EURILEN);
    assert_int_equal(codes[4], 0);
    test_free(endless);
}

static void no_uris_are_fine(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    note = fake_note(f);
    tdg__core_subscribe(f->core, NULL, 0, NULL, NULL, fake_done, note);
    fake_run(f);
    assert_int_equal(fake_code(note), 0);
}

static void there_is_a_limit(void **state) {
    struct fake *f = *state;

    f->client.max_subscriptions = 1;
    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    assert_int_equal(fake_code(play_subscribe(f, "a:2", NULL)), TDG_ESUBSCRIPTIONS);
    assert_int_equal(fake_code(play_subscribe(f, "a:1", NULL)), 0);
}

static void subscribing_twice_is_one_subscription(void **state) {
    struct fake *f = *state;
    const char *uris[] = {"a:1", "a:1"};
    struct fake_note *note, *other;

    fake_up(f, TDG_ERA_MODERN);
    note = fake_note(f);
    tdg__core_subscribe(f->core, uris, 2, NULL, NULL, fake_done, note);
    other = play_subscribe(f, "a:1", NULL);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(note), 0);
    assert_int_equal(fake_code(other), 0);
    assert_int_equal(f->core->counts.subscriptions, 1);
}

/* ---- The end in every state --------------------------------------------- */

/* Stops after so many steps; fake_end() wants every `done` to have been called. */
static void play_until(struct fake *f, bool modern, int steps) {
    const tdg_subscribe_opts_t opts = {.reread = true, .poll_ms = 5000};
    const tdg_subscribe_opts_t other = {.batch_ms = 7};

    if (steps-- == 0)
        return;
    fake_up(f, modern ? TDG_ERA_MODERN : TDG_ERA_LEGACY);
    for (int step = 0; step < steps; step++) {
        struct fake_sent *listen = fake_seek(f, LISTEN), *get = fake_seek(f, "GET");
        struct fake_sent *request = fake_seek(f, "resources/subscribe");

        switch (step) {
        case 0:
            play_subscribe(f, "a:1", &opts);
            break;
        case 1:
            play_subscribe(f, "a:{x}", NULL);
            break;
        case 3:
            play_lists(f, 1u << TDG_LIST_RESOURCES);
            play_subscribe(f, "a:2", &other);
            break;
        case 5:
            if (listen != NULL || get != NULL)
                play_update(f, listen != NULL ? listen : get, "a:1", "");
            break;
        case 6:
            play_unsubscribe(f, "a:2");
            break;
        case 7:
            if (listen != NULL || get != NULL)
                fake_broken(f, listen != NULL ? listen : get, TDG__CARRY_BROKEN, true);
            break;
        case 8:
            fake_pass(f, 2000);
            break;
        case 10:
            play_unsubscribe(f, "a:1");
            break;
        default:
            if (listen != NULL)
                play_ack(f, listen, NULL, "");
            if (get != NULL)
                fake_opened(f, get);
            if (request != NULL)
                fake_result(f, request, "{}");
        }
    }
}

static void it_can_end_in_every_state(void **state) {
    (void)state;
    for (int modern = 0; modern < 2; modern++) {
        for (int steps = 0; steps < 14; steps++) {
            void *inner = NULL;
            struct fake *f = state_create(&inner, sizeof(*f));

            fake_init(f, TDG__WIRE_HTTP);
            play_until(f, modern != 0, steps);
            fake_end(f);
            state_destroy(&inner);
        }
    }
}

static void after_the_end_everything_is_over(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    tdg__connect_give_up(f->core, TDG_EREFUSED, "no more");
    fake_run(f);
    assert_int_equal(fake_code(play_subscribe(f, "a:2", NULL)), TDG_EENDED);
    assert_int_equal(fake_code(play_unsubscribe(f, "a:1")), TDG_EENDED);
    assert_int_equal(fake_code(play_lists(f, 1)), TDG_EENDED);
}

/* ---- Memory ------------------------------------------------------------- */

static void scenario(struct fake *f) {
    const tdg_subscribe_opts_t opts = {.reread = true, .batch_ms = 5};
    static const char *const uris[] = {"a:1", "b:{x}", "c:3"};
    int codes[3];

    for (int i = 0; i < 3; i++) {
        struct fake_note *note = fake_note(f);

        tdg__core_subscribe(f->core, &uris[i], 1, i == 0 ? &opts : NULL, &codes[i],
                            fake_done, note);
        fake_run(f);
    }
    for (int round = 0; round < 6; round++) {
        struct fake_sent *listen;

        for (int i = 0; i < 4 && (listen = fake_seek(f, LISTEN)) != NULL; i++) {
            if (i % 2 == 0)
                play_ack(f, listen, NULL, "'dev.tidings/cursor':'a-1'");
            if (fake_seek(f, LISTEN) == listen)
                play_update(f, listen, i == 0 ? "b:7" : "a:1", "");
            if (round == 2 && fake_seek(f, LISTEN) == listen)
                fake_broken(f, listen, TDG__CARRY_BROKEN, true);
        }
        for (int i = 0; i < 4 && fake_seek(f, "resources/subscribe") != NULL; i++)
            fake_result(f, fake_find(f, "resources/subscribe"), "{}");
        if (fake_seek(f, "GET") != NULL) {
            fake_opened(f, fake_find(f, "GET"));
            play_update(f, fake_find(f, "GET"), round % 2 == 0 ? "b:7" : "a:1", "");
            if (round == 3 && fake_seek(f, "GET") != NULL)
                fake_broken(f, fake_find(f, "GET"), TDG__CARRY_NO_SESSION, true);
        }
        if (fake_seek(f, "resources/read") != NULL)
            fake_result(f, fake_find(f, "resources/read"), "{'contents':[]}");
        fake_pass(f, 3000);
    }
    for (int i = 0; i < 3; i++) {
        struct fake_note *note = fake_note(f);

        tdg__core_unsubscribe(f->core, uris[i], fake_done, note);
        fake_run(f);
    }
    fake_pass(f, 61000);
}

/* Whatever allocation fails, every `done` is called once and nothing is leaked. */
static void run_short_of_memory(tdg_era_t era) {
    bool failed = true;

    for (size_t nth = 1; failed && nth < 3000; nth++) {
        void *inner = NULL;
        struct fake *f = state_create(&inner, sizeof(*f));

        fake_init(f, TDG__WIRE_HTTP);
        fake_up(f, era);
        memory_fail(nth, MEMORY_ONCE);
        scenario(f);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        fake_end(f);
        state_destroy(&inner);
    }
    assert_false(failed);
}

static void memory_may_run_out(void **state) {
    (void)state;
    run_short_of_memory(TDG_ERA_MODERN);
}

static void memory_may_run_out_in_a_session(void **state) {
    (void)state;
    run_short_of_memory(TDG_ERA_LEGACY);
}

int main(void) {
#define HTTP(name) cmocka_unit_test_setup_teardown(name, fake_setup_http, fake_teardown)
    const struct CMUnitTest tests[] = {
        HTTP(bad_ones_are_refused_one_by_one),
        HTTP(no_uris_are_fine),
        HTTP(there_is_a_limit),
        HTTP(subscribing_twice_is_one_subscription),
        cmocka_unit_test(it_can_end_in_every_state),
        HTTP(after_the_end_everything_is_over),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(memory_may_run_out_in_a_session),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("subs", tests, NULL, NULL);
}
