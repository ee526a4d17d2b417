/* SPDX-License-Identifier: MIT
 *
 * Streams that are open and silent: dead where the server has announced signs of life,
 * checked where it has not. */
#include <stdio.h>

#include <tidings/error.h>

#include "unit/client/play.h"

#define READ "resources/read"
#define SUBSCRIBE "resources/subscribe"
#define OURS "'dev.tidings/cursor':'ab-1','dev.tidings/keepAliveMs':15000"

enum { QUIET_MS = 60000, MOST_MS = 600000, CHECK_MS = 10000 };

static int setup(void **state) {
    struct fake *f = state_create(state, sizeof(*f));

    fake_init(f, TDG__TRANSPORT_HTTP);
    f->client.quiet_ms = QUIET_MS;
    return 0;
}

static int pipe_setup(void **state) {
    struct fake *f = state_create(state, sizeof(*f));

    fake_init(f, TDG__TRANSPORT_STDIO);
    f->client.quiet_ms = QUIET_MS;
    return 0;
}

/* A legacy server of ours: it announces 15 s. */
static void announcing_server(struct fake *f, struct fake_sent *sent) {
    if (strcmp(sent->method, "initialize") == 0)
        fake_result(f, sent,
                    "{'protocolVersion':'2025-11-25','capabilities':"
                    "{'resources':{'subscribe':true,'listChanged':true}},"
                    "'serverInfo':{'name':'ours','version':'1'},"
                    "'_meta':{'dev.tidings/keepAliveMs':15000}}");
    else
        fake_legacy_server(f, sent);
}

/* Servers that speak only 2024-11-05. */
static void old_server(struct fake *f, struct fake_sent *sent) {
    if (sent->transport->kind == TDG__TRANSPORT_HTTP)
        fake_status(f, sent, 405, NULL);
    else
        fake_legacy_server(f, sent);
}

static void old_announcing_server(struct fake *f, struct fake_sent *sent) {
    if (sent->transport->kind == TDG__TRANSPORT_HTTP)
        fake_status(f, sent, 405, NULL);
    else
        announcing_server(f, sent);
}

static void answer_read(struct fake *f, const char *text) {
    char result[100];

    snprintf(result, sizeof(result), "{'contents':[{'uri':'a:1','text':'%s'}]}", text);
    fake_result(f, fake_find(f, READ), result);
}

/* The owner reads it, and so knows what it is. */
static void know(struct fake *f, const char *text) {
    tdg__core_request(f->core, READ, json_pack("{s:s}", "uri", "a:1"), 0, fake_done,
                      fake_note(f));
    fake_run(f);
    answer_read(f, text);
}

/* Subscribed, and what it is is known. */
static void up_and_known(struct fake *f, tdg_era_t era) {
    fake_up(f, era);
    play_live(f, "a:1", NULL, "");
    know(f, "1");
}

/* The n-th of those that are open, from the oldest. */
static struct fake_sent *open_one(struct fake *f, const char *method, int n) {
    for (size_t i = 0; i < f->sent_count; i++) {
        struct fake_sent *sent = f->sent[i];

        if (!sent->over && !sent->cancelled && strcmp(sent->method, method) == 0 &&
            n-- == 0)
            return sent;
    }
    fail_msg("not so many %s", method);
    return NULL;
}

/* ---- 2026-07-28 --------------------------------------------------------- */

static void ours_is_dead_after_three_intervals(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, OURS);
    fake_pass(f, 44999);
    assert_told(f, "");
    fake_pass(f, 2);
    assert_told(f, "DOWN\n");
    assert_int_equal(fake_transport(f)->distrusted, 1);
    fake_pass(f, 1000);
    listen = fake_find(f, LISTEN);
    assert_non_null(strstr(listen->text, "\"dev.tidings/cursor\":\"ab-1\""));
    play_ack(f, listen, NULL, OURS ",'dev.tidings/resumed':true");
    assert_told(f, "UP\n");
    assert_int_equal(fake_count(f, READ), 0);
}

static void ours_is_dead_although_it_was_busy(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, OURS);
    for (int i = 0; i < 50; i++) {
        play_update(f, fake_find(f, LISTEN), "a:1", "");
        fake_pass(f, 10);
    }
    free(fake_told(f));
    fake_pass(f, 44980);
    assert_told(f, "");
    fake_pass(f, 20);
    assert_told(f, "DOWN\n");
}

static void every_byte_is_a_sign_of_life(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, OURS);
    listen = fake_find(f, LISTEN);
    for (int i = 0; i < 20; i++) {
        fake_pass(f, 44000);
        fake_alive(f, listen);
    }
    assert_told(f, "");
    assert_int_equal(fake_count(f, LISTEN), 1);
    assert_int_equal(f->core->counts.keepalives, 19);
}

static void pieces_of_a_message_are_no_keep_alives(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    listen = fake_find(f, LISTEN);
    for (int i = 0; i < 20; i++) {
        fake_pass(f, i % 4 == 0 ? 5000 : 20);
        fake_alive(f, listen);
        if (i % 4 == 3)
            play_update(f, listen, "a:1", "");
    }
    assert_int_equal(f->core->counts.keepalives, 0);
}

/* Waits for the check, and answers it. */
static void checked(struct fake *f, int64_t wait_ms, const char *found) {
    size_t before = fake_count(f, LISTEN);

    fake_pass(f, wait_ms - 1);
    assert_int_equal(fake_count(f, LISTEN), before);
    fake_pass(f, 2);
    assert_int_equal(play_open(f, LISTEN), 2);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    answer_read(f, found);
    fake_pass(f, 100); /* the one before is listened to for as long */
    assert_int_equal(play_open(f, LISTEN), 1);
    f->now -= 100; /* so that the next wait is counted from the acknowledgement */
}

static void others_are_checked_ever_more_seldom(void **state) {
    static const int64_t waits[] = {60000, 120000, 240000, 480000, 600000, 600000};
    struct fake *f = *state;

    up_and_known(f, TDG_ERA_MODERN);
    for (size_t i = 0; i < COUNT(waits); i++)
        checked(f, waits[i], "1");
    assert_told(f, "");
}

static void what_was_missed_is_told(void **state) {
    struct fake *f = *state;

    up_and_known(f, TDG_ERA_MODERN);
    checked(f, QUIET_MS, "1");
    checked(f, 2 * QUIET_MS, "2");
    assert_told(f, "UPDATED a:1\n");
    checked(f, QUIET_MS, "2"); /* as often as at first */
    assert_told(f, "");
}

static void what_nobody_knows_may_have_been_missed(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    checked(f, QUIET_MS, "1");
    assert_told(f, "UPDATED a:1 maybe\n");
    checked(f, QUIET_MS, "1"); /* what was found then is known */
    assert_told(f, "");
    checked(f, 2 * QUIET_MS, "1");
}

/* Although the comparison comes too early to find it. */
static void what_the_new_stream_brings_was_missed(void **state) {
    struct fake *f = *state;

    up_and_known(f, TDG_ERA_MODERN);
    checked(f, QUIET_MS, "1");
    fake_pass(f, 2 * QUIET_MS + 1);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    play_update(f, fake_find(f, LISTEN), "a:1", "");
    answer_read(f, "1");
    fake_pass(f, 200);
    free(fake_told(f));
    f->now -= 200;
    checked(f, QUIET_MS, "2");
}

/* What our servers repeat after a cursor is news only where the old stream was dead. */
static void what_our_server_catches_up_with_was_missed(void **state) {
    struct fake *f = *state;
    const char *resumed = "'dev.tidings/cursor':'ab-1','dev.tidings/resumed':true";

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "'dev.tidings/cursor':'ab-1'");
    fake_pass(f, QUIET_MS + 1);
    play_ack(f, fake_find(f, LISTEN), NULL, resumed);
    fake_pass(f, 2 * QUIET_MS + 1);
    play_ack(f, fake_find(f, LISTEN), NULL, resumed);
    play_update(f, fake_find(f, LISTEN), "a:1",
                "'dev.tidings/cursor':'ab-2','dev.tidings/version':2");
    assert_told(f, "UPDATED a:1\n");
    fake_pass(f, QUIET_MS + 1);
    assert_int_equal(play_open(f, LISTEN), 2);
}

static void a_stream_that_brings_a_change_is_checked_as_at_first(void **state) {
    struct fake *f = *state;

    up_and_known(f, TDG_ERA_MODERN);
    checked(f, QUIET_MS, "1");
    checked(f, 2 * QUIET_MS, "1");
    fake_pass(f, 1000);
    play_update(f, fake_find(f, LISTEN), "a:1", "");
    assert_told(f, "UPDATED a:1\n");
    checked(f, QUIET_MS, "2");
}

static void a_stream_that_brings_only_signs_of_life_is_not(void **state) {
    struct fake *f = *state;

    up_and_known(f, TDG_ERA_MODERN);
    checked(f, QUIET_MS, "1");
    fake_pass(f, 1000);
    fake_alive(f, fake_find(f, LISTEN));
    checked(f, 2 * QUIET_MS, "1");
}

/* An update says that what is known is not true any more. */
static void what_was_told_is_not_known(void **state) {
    struct fake *f = *state;

    up_and_known(f, TDG_ERA_MODERN);
    play_update(f, fake_find(f, LISTEN), "a:1", "");
    assert_told(f, "UPDATED a:1\n");
    checked(f, QUIET_MS, "2");
    assert_told(f, "UPDATED a:1 maybe\n");
}

static void a_template_cannot_be_compared(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:{n}", NULL, "");
    fake_pass(f, QUIET_MS + 1);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "UPDATED a:{n} maybe\n");
    assert_int_equal(fake_count(f, READ), 0);
}

static void a_check_that_nobody_answers_is_a_loss(void **state) {
    struct fake *f = *state;

    up_and_known(f, TDG_ERA_MODERN);
    fake_pass(f, QUIET_MS + 1);
    assert_int_equal(play_open(f, LISTEN), 2);
    fake_pass(f, CHECK_MS - 1);
    assert_told(f, "");
    fake_pass(f, 1);
    assert_told(f, "DOWN\n");
    assert_int_equal(play_open(f, LISTEN), 0);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "UP\n");
    answer_read(f, "2");
    assert_told(f, "UPDATED a:1\n");
}

static void a_check_that_is_refused_closes_the_first(void **state) {
    struct fake *f = *state;

    up_and_known(f, TDG_ERA_MODERN);
    fake_pass(f, QUIET_MS + 1);
    fake_error(f, fake_find(f, LISTEN), -32603, "one stream at a time", NULL);
    assert_int_equal(play_open(f, LISTEN), 0);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    answer_read(f, "1");
    assert_told(f, "DOWN\nUP\n");

    /* Nothing was missed, so the next check takes its time. */
    assert_int_equal(fake_count(f, LISTEN), 3);
    fake_pass(f, 2 * QUIET_MS - 1);
    assert_int_equal(fake_count(f, LISTEN), 3);
    fake_pass(f, 2);
    assert_int_equal(play_open(f, LISTEN), 2);
}

/* A server that allows one stream has refused nothing but the second one. */
static void a_refused_check_ends_no_one_life(void **state) {
    struct fake *f = *state;

    f->client.flags = TDG_CLIENT_ONE_LIFE;
    up_and_known(f, TDG_ERA_MODERN);
    fake_pass(f, QUIET_MS + 1);
    fake_status(f, fake_find(f, LISTEN), 503, NULL);
    assert_int_equal(play_open(f, LISTEN), 0);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    answer_read(f, "2");
    assert_told(f, "UPDATED a:1\n");

    fake_pass(f, QUIET_MS + 1);
    fake_error(f, fake_find(f, LISTEN), -32603, "one stream at a time", NULL);
    fake_pass(f, 1000);
    fake_error(f, fake_find(f, LISTEN), -32603, "still one at a time", NULL);
    assert_told(f, "DOWN\nCLOSED\n"); /* now there is none */
}

static void a_check_without_an_answer_ends_one_life(void **state) {
    struct fake *f = *state;

    f->client.flags = TDG_CLIENT_ONE_LIFE;
    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    fake_pass(f, QUIET_MS + 1);
    fake_pass(f, CHECK_MS);
    assert_told(f, "DOWN\nCLOSED\n");
}

static void ours_that_announces_nothing_goes_on_from_the_cursor(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "'dev.tidings/cursor':'ab-1'");
    fake_pass(f, QUIET_MS + 1);
    assert_int_equal(play_open(f, LISTEN), 2);
    play_ack(f, fake_find(f, LISTEN), NULL,
             "'dev.tidings/cursor':'ab-1','dev.tidings/resumed':true");
    assert_int_equal(play_open(f, LISTEN), 1);
    assert_int_equal(fake_count(f, READ), 0);
    assert_told(f, "");
}

/* ---- 2025: the GET stream ----------------------------------------------- */

static void our_session_notices_after_three_intervals(void **state) {
    struct fake *f = *state;

    f->answer = announcing_server;
    fake_start(f);
    play_live(f, "a:1", NULL, "");
    fake_event_id(f, fake_find(f, "GET"), "g1.1.ab-5");
    for (int i = 0; i < 50; i++) {
        play_update(f, fake_find(f, "GET"), "a:1", "");
        fake_pass(f, 10);
    }
    free(fake_told(f));
    fake_pass(f, 44980);
    assert_told(f, "");
    fake_pass(f, 20);
    assert_told(f, "DOWN\n");
    assert_int_equal(play_open(f, "GET"), 0);
    fake_pass(f, 1000);
    assert_string_equal(fake_find(f, "GET")->text, "g1.1.ab-5");
    fake_opened(f, fake_find(f, "GET"));
    assert_told(f, "UP\n");
}

/* Until the second stream is asked for. */
static void legacy_check(struct fake *f) {
    up_and_known(f, TDG_ERA_LEGACY);
    fake_pass(f, QUIET_MS - 1);
    assert_int_equal(play_open(f, "GET"), 1);
    fake_pass(f, 2);
    assert_int_equal(play_open(f, "GET"), 2);
}

static void the_first_stream_goes_when_all_is_compared(void **state) {
    struct fake *f = *state;
    struct fake_sent *first, *second;

    legacy_check(f);
    first = open_one(f, "GET", 0);
    second = open_one(f, "GET", 1);
    fake_opened(f, second);
    assert_false(first->cancelled);
    answer_read(f, "1");
    assert_true(first->cancelled);
    assert_told(f, "");
    fake_pass(f, 2 * QUIET_MS - 1);
    assert_int_equal(play_open(f, "GET"), 1);
    fake_pass(f, 2);
    assert_int_equal(play_open(f, "GET"), 2);
}

static void what_the_second_stream_brings_was_missed(void **state) {
    struct fake *f = *state;

    legacy_check(f);
    fake_opened(f, open_one(f, "GET", 1));
    play_update(f, open_one(f, "GET", 1), "a:1", "");
    answer_read(f, "1");
    fake_pass(f, QUIET_MS - 1);
    assert_int_equal(play_open(f, "GET"), 1);
    fake_pass(f, 2);
    assert_int_equal(play_open(f, "GET"), 2);
}

static void what_the_session_has_missed_is_told(void **state) {
    struct fake *f = *state;

    legacy_check(f);
    fake_opened(f, open_one(f, "GET", 1));
    answer_read(f, "2");
    assert_told(f, "UPDATED a:1\n");
    fake_pass(f, QUIET_MS + 1);
    assert_int_equal(play_open(f, "GET"), 2);
}

static void a_second_stream_that_is_refused_closes_the_first(void **state) {
    struct fake *f = *state;

    legacy_check(f);
    fake_status(f, open_one(f, "GET", 1), 409, NULL);
    assert_int_equal(play_open(f, "GET"), 0);
    fake_pass(f, 1000);
    fake_opened(f, fake_find(f, "GET"));
    answer_read(f, "2");
    assert_told(f, "UPDATED a:1\n");
    assert_int_equal(fake_count(f, "initialize"), 1);
}

/* Servers that allow one stream are checked as seldom as others. */
static void a_refused_check_that_finds_nothing_doubles_the_wait(void **state) {
    struct fake *f = *state;
    size_t count;

    legacy_check(f);
    for (int64_t wait_ms = QUIET_MS; wait_ms <= 4 * QUIET_MS; wait_ms *= 2) {
        fake_status(f, open_one(f, "GET", 1), 409, NULL);
        fake_pass(f, 1000);
        fake_opened(f, fake_find(f, "GET"));
        answer_read(f, "1");
        count = fake_count(f, "GET");
        fake_pass(f, 2 * wait_ms - 1);
        assert_int_equal(fake_count(f, "GET"), count);
        fake_pass(f, 2);
        assert_int_equal(play_open(f, "GET"), 2);
    }
    assert_told(f, "");
}

/* The server cannot see that a frozen connection was closed. */
static void refused_again_it_takes_a_new_session(void **state) {
    struct fake *f = *state;

    legacy_check(f);
    fake_status(f, open_one(f, "GET", 1), 409, NULL);
    fake_pass(f, 1000);
    fake_status(f, fake_find(f, "GET"), 409, NULL);
    assert_told(f, "DOWN\n");
    fake_pass(f, 5000);
    assert_int_equal(fake_count(f, "initialize"), 2);
    fake_opened(f, fake_find(f, "GET"));
    fake_result(f, fake_find(f, SUBSCRIBE), "{}");
    assert_told(f, "UP\n");
    answer_read(f, "2");
    assert_told(f, "UPDATED a:1\n");
}

static void a_session_that_does_not_answer_is_a_loss(void **state) {
    struct fake *f = *state;

    legacy_check(f);
    fake_pass(f, CHECK_MS - 1);
    assert_told(f, "");
    fake_pass(f, 1);
    assert_told(f, "DOWN\n");
    fake_pass(f, 1000);
    fake_opened(f, fake_find(f, "GET"));
    answer_read(f, "1");
    assert_told(f, "UP\n");
}

static void a_server_with_late_heads_is_checked_all_the_same(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live_late(f, "a:1");
    know(f, "1");
    fake_pass(f, QUIET_MS + 1);
    assert_int_equal(play_open(f, "GET"), 2);
    fake_pass(f, 2000);
    answer_read(f, "2");
    assert_told(f, "UPDATED a:1\n");
    assert_int_equal(play_open(f, "GET"), 1);
}

static void the_first_stream_may_break_meanwhile(void **state) {
    struct fake *f = *state;

    legacy_check(f);
    fake_broken(f, open_one(f, "GET", 0), TDG__DELIVERY_BROKEN, true);
    assert_int_equal(play_open(f, "GET"), 0);
    assert_told(f, "DOWN\n");
    fake_pass(f, 1000);
    fake_opened(f, fake_find(f, "GET"));
    assert_told(f, "UP\nUPDATED a:1 maybe\n");
}

static void the_session_may_end_at_a_check(void **state) {
    struct fake *f = *state;

    legacy_check(f);
    fake_broken(f, open_one(f, "GET", 1), TDG__DELIVERY_NO_SESSION, true);
    assert_told(f, "DOWN\n");
    fake_pass(f, 5000);
    assert_int_equal(fake_count(f, "initialize"), 2);
}

/* A stream that lives for days outlives many tokens. */
static void a_check_that_is_fine_allows_for_another_new_token(void **state) {
    struct fake *f = *state;

    f->token = true;
    legacy_check(f);
    fake_status(f, open_one(f, "GET", 1), 401, NULL);
    fake_pass(f, 2 * QUIET_MS + 1);
    fake_opened(f, open_one(f, "GET", 1));
    answer_read(f, "1");
    fake_pass(f, 4 * QUIET_MS + 1);
    fake_status(f, open_one(f, "GET", 1), 401, NULL);
    assert_int_equal(f->renewed, 2);
    assert_told(f, "");

    /* The new token does not do either. */
    fake_pass(f, 8 * QUIET_MS + 1);
    fake_status(f, open_one(f, "GET", 1), 401, NULL);
    assert_told(f, "DOWN\nCLOSED\n");
}

/* ---- 2024-11-05: the stream is the session ------------------------------ */

static void our_old_session_notices_after_three_intervals(void **state) {
    struct fake *f = *state;

    f->answer = old_announcing_server;
    fake_start(f);
    play_live(f, "a:1", NULL, "");
    for (int i = 0; i < 10; i++) {
        fake_pass(f, 44000);
        fake_alive(f, NULL);
    }
    assert_told(f, "");
    fake_pass(f, 45001);
    assert_told(f, "DOWN\n");
    fake_pass(f, 5000);
    assert_int_equal(fake_count(f, "initialize"), 3); /* one by POST to nobody */
}

static void an_old_session_is_pinged(void **state) {
    struct fake *f = *state;

    f->answer = old_server;
    fake_start(f);
    play_live(f, "a:1", NULL, "");
    know(f, "1");
    fake_pass(f, QUIET_MS + 1);
    fake_alive(f, NULL); /* the answer comes by the stream */
    fake_result(f, fake_find(f, "ping"), "{}");
    fake_pass(f, 2 * QUIET_MS - CHECK_MS);
    assert_int_equal(fake_count(f, "ping"), 1);
    fake_pass(f, CHECK_MS + 1);
    assert_int_equal(fake_count(f, "ping"), 2);
    assert_told(f, "");

    fake_pass(f, CHECK_MS);
    assert_told(f, "DOWN\n");
    fake_pass(f, 5000);
    fake_result(f, fake_find(f, SUBSCRIBE), "{}");
    assert_told(f, "UP\n");
    answer_read(f, "2");
    assert_told(f, "UPDATED a:1\n");
}

static void an_old_session_that_brings_a_change_is_pinged_as_at_first(void **state) {
    struct fake *f = *state;

    f->answer = old_server;
    fake_start(f);
    play_live(f, "a:1", NULL, "");
    fake_pass(f, QUIET_MS + 1);
    fake_alive(f, NULL);
    fake_result(f, fake_find(f, "ping"), "{}");
    fake_alive(f, NULL);
    play_update(f, NULL, "a:1", "");
    assert_told(f, "UPDATED a:1\n");
    fake_pass(f, QUIET_MS + 1);
    assert_int_equal(fake_count(f, "ping"), 2);
}

/* ---- A pipe ------------------------------------------------------------- */

static void a_pipe_may_be_silent(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    fake_pass(f, 24 * 3600 * 1000);
    assert_told(f, "");
    assert_int_equal(fake_count(f, LISTEN), 1);
    assert_int_equal(fake_count(f, "ping"), 0);
}

static void a_refusal_beside_a_check_is_of_what_is_new(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    up_and_known(f, TDG_ERA_MODERN);
    fake_pass(f, QUIET_MS - 1000);
    note = play_subscribe(f, "a:2", NULL);
    fake_pass(f, 1100); /* the first is silent: that listen is to show it */
    fake_error(f, fake_find(f, LISTEN), -32602, "no such", NULL);
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    answer_read(f, "1");
    assert_told(f, "");
}

int main(void) {
#define HTTP(name) cmocka_unit_test_setup_teardown(name, setup, fake_teardown)
#define PIPE(name) cmocka_unit_test_setup_teardown(name, pipe_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        HTTP(a_refusal_beside_a_check_is_of_what_is_new),
        HTTP(ours_is_dead_after_three_intervals),
        HTTP(ours_is_dead_although_it_was_busy),
        HTTP(every_byte_is_a_sign_of_life),
        HTTP(pieces_of_a_message_are_no_keep_alives),
        HTTP(others_are_checked_ever_more_seldom),
        HTTP(what_was_missed_is_told),
        HTTP(what_nobody_knows_may_have_been_missed),
        HTTP(what_the_new_stream_brings_was_missed),
        HTTP(what_our_server_catches_up_with_was_missed),
        HTTP(a_stream_that_brings_a_change_is_checked_as_at_first),
        HTTP(a_stream_that_brings_only_signs_of_life_is_not),
        HTTP(what_was_told_is_not_known),
        HTTP(a_template_cannot_be_compared),
        HTTP(a_check_that_nobody_answers_is_a_loss),
        HTTP(a_check_that_is_refused_closes_the_first),
        HTTP(a_refused_check_ends_no_one_life),
        HTTP(a_check_without_an_answer_ends_one_life),
        HTTP(ours_that_announces_nothing_goes_on_from_the_cursor),
        HTTP(our_session_notices_after_three_intervals),
        HTTP(the_first_stream_goes_when_all_is_compared),
        HTTP(what_the_second_stream_brings_was_missed),
        HTTP(what_the_session_has_missed_is_told),
        HTTP(a_second_stream_that_is_refused_closes_the_first),
        HTTP(a_refused_check_that_finds_nothing_doubles_the_wait),
        HTTP(refused_again_it_takes_a_new_session),
        HTTP(a_session_that_does_not_answer_is_a_loss),
        HTTP(a_server_with_late_heads_is_checked_all_the_same),
        HTTP(the_first_stream_may_break_meanwhile),
        HTTP(the_session_may_end_at_a_check),
        HTTP(a_check_that_is_fine_allows_for_another_new_token),
        HTTP(our_old_session_notices_after_three_intervals),
        HTTP(an_old_session_is_pinged),
        HTTP(an_old_session_that_brings_a_change_is_pinged_as_at_first),
        PIPE(a_pipe_may_be_silent),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client_silence", tests, NULL, NULL);
}
