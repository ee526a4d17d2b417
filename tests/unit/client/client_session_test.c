/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include <tidings/error.h>

#include "unit/client/play.h"

#define SUBSCRIBE "resources/subscribe"
#define UNSUBSCRIBE "resources/unsubscribe"

static int pipe_setup(void **state) {
    struct fake *f = state_create(state, sizeof(*f));

    fake_init(f, TDG__TRANSPORT_STDIO);
    return 0;
}

static struct fake_note *play_call(struct fake *f) {
    struct fake_note *note = fake_note(f);

    tdg__core_request(f->core, "tools/call", json_pack("{s:s}", "name", "test"), 0,
                      fake_done, note);
    fake_run(f);
    return note;
}

/* ---- Subscribing -------------------------------------------------------- */

static void the_stream_is_open_before_it_returns(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_LEGACY);
    note = play_subscribe(f, "a:1", NULL);
    assert_non_null(fake_find(f, "GET"));
    assert_int_equal(fake_count(f, SUBSCRIBE), 0);
    fake_opened(f, fake_find(f, "GET"));
    assert_int_equal(note->calls, 0);
    fake_result(f, fake_find(f, SUBSCRIBE), "{}");
    assert_int_equal(fake_code(note), 0);
    play_update(f, fake_find(f, "GET"), "a:1", "");
    assert_told(f, "UPDATED a:1\n");
}

static void a_stream_whose_head_is_late_counts_as_open(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live_late(f, "a:1");
    assert_told(f, "");

    /* Nobody knows since when the server has had it. */
    fake_opened(f, fake_find(f, "GET"));
    assert_told(f, "UPDATED a:1 maybe\n");
    play_update(f, fake_find(f, "GET"), "a:1", "");
    assert_told(f, "UPDATED a:1\n");
}

/* Also when it is opened again: what was missed is reported, and no event has to come. */
static void a_late_head_after_a_loss_counts_as_open(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live_late(f, "a:1");
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_BROKEN, true);
    assert_told(f, "DOWN\n");
    fake_pass(f, 1000);
    assert_int_equal(play_open(f, "GET"), 1);
    fake_pass(f, 2000);
    assert_told(f, "UP\nUPDATED a:1 maybe\n");
}

/* A call right after connecting, of a client that the server may ask something. */
static struct fake_note *up_with_a_call(struct fake *f) {
    f->inputs = true;
    fake_up(f, TDG_ERA_LEGACY);
    return play_call(f);
}

/* A server that asks something while a call runs asks it on the stream. */
static void the_first_call_waits_for_the_stream(void **state) {
    struct fake *f = *state;
    struct fake_note *first, *second;

    first = up_with_a_call(f);
    second = play_call(f);
    assert_non_null(fake_find(f, "GET"));
    assert_int_equal(fake_count(f, "tools/call"), 0);
    fake_opened(f, fake_find(f, "GET"));
    assert_int_equal(play_open(f, "tools/call"), 2);
    fake_result(f, fake_find(f, "tools/call"), "{}");
    fake_result(f, fake_find(f, "tools/call"), "{}");
    assert_int_equal(fake_code(first), 0);
    assert_int_equal(fake_code(second), 0);

    /* Later ones do not wait for anything. */
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_BROKEN, true);
    play_call(f);
    fake_result(f, fake_find(f, "tools/call"), "{}");
    fake_pass(f, 1000);
    assert_non_null(fake_find(f, "GET"));
    play_call(f);
    fake_result(f, fake_find(f, "tools/call"), "{}");
}

static void a_call_does_not_wait_for_a_stream_that_is_refused(void **state) {
    struct fake *f = *state;

    up_with_a_call(f);
    fake_status(f, fake_find(f, "GET"), 405, NULL);
    fake_result(f, fake_find(f, "tools/call"), "{}");
}

static void a_call_does_not_wait_for_a_stream_that_is_busy(void **state) {
    struct fake *f = *state;

    up_with_a_call(f);
    fake_status(f, fake_find(f, "GET"), 503, NULL);
    fake_result(f, fake_find(f, "tools/call"), "{}");
}

static void a_call_waits_no_longer_than_two_seconds(void **state) {
    struct fake *f = *state;

    up_with_a_call(f);
    fake_pass(f, 1999);
    assert_int_equal(fake_count(f, "tools/call"), 0);
    fake_pass(f, 1);
    fake_result(f, fake_find(f, "tools/call"), "{}");
}

static void the_call_of_a_new_session_waits_for_its_stream(void **state) {
    struct fake *f = *state;

    f->inputs = true;
    fake_up(f, TDG_ERA_LEGACY);
    fake_opened(f, fake_find(f, "GET"));
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_NO_SESSION, true);
    play_call(f);
    fake_pass(f, 1000);
    assert_non_null(fake_find(f, "GET"));
    assert_int_equal(fake_count(f, "tools/call"), 0);
    fake_opened(f, fake_find(f, "GET"));
    fake_result(f, fake_find(f, "tools/call"), "{}");
}

static void a_call_does_not_wait_where_nobody_needs_the_stream(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_call(f);
    fake_result(f, fake_find(f, "tools/call"), "{}");
    assert_int_equal(fake_count(f, "GET"), 0);
}

static void without_a_stream_there_are_no_subscriptions(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_LEGACY);
    note = play_subscribe(f, "a:1", NULL);
    fake_status(f, fake_find(f, "GET"), 405, NULL);
    assert_int_equal(fake_code(note), TDG_ENOTSUP);
    assert_int_equal(fake_count(f, SUBSCRIBE), 0);
    assert_int_equal(fake_code(play_subscribe(f, "a:2", NULL)), TDG_ENOTSUP);
    assert_int_equal(f->core->counts.subscriptions, 0);
}

static void thirty_two_at_a_time(void **state) {
    struct fake *f = *state;
    enum { MANY = 100 };
    char texts[MANY][16];
    const char *uris[MANY];
    int codes[MANY];
    struct fake_note *note;

    fake_up(f, TDG_ERA_LEGACY);
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof(texts[i]), "a:%d", i);
        uris[i] = texts[i];
    }
    note = fake_note(f);
    tdg__core_subscribe(f->core, uris, MANY, NULL, codes, fake_done, note);
    fake_run(f);
    fake_opened(f, fake_find(f, "GET"));
    assert_int_equal(play_open(f, SUBSCRIBE), 32);
    for (int i = 0; i < MANY; i++) {
        struct fake_sent *sent = fake_find(f, SUBSCRIBE);

        assert_true(play_open(f, SUBSCRIBE) <= 32);
        if (i == 50)
            fake_error(f, sent, -32002, "not found", NULL);
        else
            fake_result(f, sent, "{}");
    }
    assert_int_equal(fake_code(note), TDG_ENOTFOUND);
    assert_int_equal(f->core->counts.subscriptions, MANY - 1);
}

static void options_go_with_the_request(void **state) {
    struct fake *f = *state;
    const tdg_subscribe_opts_t slow = {.debounce_ms = 5};
    json_t *params;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    params = fake_params(fake_last(f));
    assert_json_equal(params, "{'uri':'a:1'}");
    json_decref(params);

    play_live(f, "a:1", &slow, "");
    params = fake_params(fake_last(f));
    assert_json_equal(params,
                      "{'uri':'a:1','_meta':{'dev.tidings/options':{'debounceMs':5}}}");
    json_decref(params);
    assert_int_equal(f->core->counts.subscriptions, 1);
}

static void what_does_not_exist_yet_is_request_for(void **state) {
    const tdg_subscribe_opts_t plain = {.await_creation = true},
                               slow = {.await_creation = true, .debounce_ms = 5};
    struct fake *f = *state;
    json_t *params;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", &plain, "");
    params = fake_params(fake_last(f));
    assert_json_equal(params, "{'uri':'a:1','_meta':{'dev.tidings/options':"
                              "{'awaitCreation':true}}}");
    json_decref(params);
    play_live(f, "a:2", &slow, "");
    params = fake_params(fake_last(f));
    assert_json_equal(params, "{'uri':'a:2','_meta':{'dev.tidings/options':"
                              "{'debounceMs':5,'awaitCreation':true}}}");
    json_decref(params);
    play_live(f, "a:3", NULL, "");
    params = fake_params(fake_last(f));
    assert_json_equal(params, "{'uri':'a:3'}");
    json_decref(params);
}

static void refused_options_leave_it_as_it_was(void **state) {
    struct fake *f = *state;
    const tdg_subscribe_opts_t slow = {.debounce_ms = 5};
    struct fake_note *note;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    note = play_subscribe(f, "a:1", &slow);
    fake_error(f, fake_find(f, SUBSCRIBE), -32602, "no", NULL);
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    play_update(f, fake_find(f, "GET"), "a:1", "");
    assert_told(f, "UPDATED a:1\n");
}

static void refused_options_are_not_request_for_in_the_next_session(void **state) {
    const tdg_subscribe_opts_t slow = {.debounce_ms = 5}, slower = {.debounce_ms = 7};
    struct fake *f = *state;
    json_t *params;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    play_live(f, "a:1", &slow, "");
    play_subscribe(f, "a:1", &slower);
    fake_error(f, fake_find(f, SUBSCRIBE), -32602, "no", NULL);
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_NO_SESSION, true);
    fake_pass(f, 1000);
    fake_opened(f, fake_find(f, "GET"));
    params = fake_params(fake_find(f, SUBSCRIBE));
    assert_json_equal(json_object_get(params, "_meta"),
                      "{'dev.tidings/options':{'awaitCreation':true,'debounceMs':5}}");
    json_decref(params);
    fake_result(f, fake_find(f, SUBSCRIBE), "{}");
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\n");
}

static void options_are_request_for_until_there_is_an_answer(void **state) {
    struct fake *f = *state;
    const tdg_subscribe_opts_t slow = {.debounce_ms = 5};
    struct fake_note *first, *second;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    first = play_subscribe(f, "a:1", &slow);
    second = play_subscribe(f, "a:1", &slow);
    assert_int_equal(second->calls, 0);
    fake_status(f, fake_find(f, SUBSCRIBE), 503, NULL);
    assert_null(fake_seek(f, SUBSCRIBE));
    fake_pass(f, 2000);
    fake_result(f, fake_find(f, SUBSCRIBE), "{}");
    assert_int_equal(fake_code(first), 0);
    assert_int_equal(fake_code(second), 0);
    assert_told(f, "");
}

/* "Since the last run" is another option each time; there may be 64 at once. */
static void options_that_nothing_has_any_more_are_forgotten(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    for (int i = 1; i <= 100; i++) {
        const tdg_subscribe_opts_t since = {.since_ms = i},
                                   other = {.since_ms = 1000 + i};

        play_live(f, "a:2", &since, "");
        play_unsubscribe(f, "a:2");
        fake_result(f, fake_find(f, UNSUBSCRIBE), "{}");

        play_live(f, "a:1", &since, "");
        play_subscribe(f, "a:1", &other);
        fake_error(f, fake_find(f, SUBSCRIBE), -32602, "no", NULL);
    }
}

/* ---- Unsubscribing ------------------------------------------------------ */

static void unsubscribing_is_silent_at_once(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    play_live(f, "a:2", NULL, "");
    play_update(f, fake_find(f, "GET"), "a:1", "");
    note = play_unsubscribe(f, "a:1");
    play_update(f, fake_find(f, "GET"), "a:1", "");
    assert_told(f, "");
    fake_error(f, fake_find(f, UNSUBSCRIBE), -32006, "never heard of it", NULL);
    assert_int_equal(fake_code(note), 0);
    assert_int_equal(f->core->counts.subscriptions, 1);
}

static void subscribing_again_waits_for_the_unsubscribe(void **state) {
    struct fake *f = *state;
    struct fake_note *gone, *again;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    play_live(f, "a:2", NULL, "");
    gone = play_unsubscribe(f, "a:1");
    again = play_subscribe(f, "a:1", NULL);
    assert_int_equal(fake_code(gone), 0);
    assert_null(fake_seek(f, SUBSCRIBE));
    fake_result(f, fake_find(f, UNSUBSCRIBE), "{}");
    fake_result(f, fake_find(f, SUBSCRIBE), "{}");
    assert_int_equal(fake_code(again), 0);
}

/* Counted as retried no longer, or a modern stream would never be told as UP. */
static void unsubscribing_ends_the_retries(void **state) {
    const tdg_subscribe_opts_t slow = {.debounce_ms = 5};
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    play_live(f, "a:2", NULL, ""); /* so that the stream stays */
    play_subscribe(f, "a:1", &slow);
    fake_status(f, fake_find(f, SUBSCRIBE), 503, NULL);
    assert_int_equal(f->core->counts.retrying, 1);
    play_unsubscribe(f, "a:1");
    assert_int_equal(f->core->counts.retrying, 0);
    note = play_subscribe(f, "a:1", NULL);
    fake_result(f, fake_find(f, UNSUBSCRIBE), "{}");
    fake_result(f, fake_find(f, SUBSCRIBE), "{}");
    assert_int_equal(fake_code(note), 0);

    f->answer = fake_modern_server;
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_NO_SESSION, true);
    fake_pass(f, 2000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\nUPDATED a:2 maybe\n");
}

static void doubts_are_not_told_after_an_unsubscribe(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    play_live(f, "a:2", NULL, "");
    play_unsubscribe(f, "a:2");
    assert_non_null(fake_seek(f, UNSUBSCRIBE));
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 1000);
    fake_opened(f, fake_find(f, "GET"));
    fake_result(f, fake_find(f, UNSUBSCRIBE), "{}");
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\n");
}

static void unsubscribing_while_it_is_request_for(void **state) {
    struct fake *f = *state;
    struct fake_note *note, *gone;

    fake_up(f, TDG_ERA_LEGACY);
    note = play_subscribe(f, "a:1", NULL);
    fake_opened(f, fake_find(f, "GET"));
    gone = play_unsubscribe(f, "a:1");
    assert_int_equal(fake_code(note), TDG_EENDED);
    assert_int_equal(gone->calls, 0);
    fake_result(f, fake_find(f, SUBSCRIBE), "{}");
    fake_result(f, fake_find(f, UNSUBSCRIBE), "{}");
    assert_int_equal(fake_code(gone), 0);
    assert_int_equal(play_open(f, "GET"), 0);
}

/* ---- Losses ------------------------------------------------------------- */

static void the_stream_goes_on_after_the_last_event(void **state) {
    struct fake *f = *state;
    struct fake_sent *get;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    get = fake_find(f, "GET");
    assert_null(get->text);
    fake_event_id(f, get, "g1.1.ab-5");
    assert_true(f->core->ours);
    fake_broken(f, get, TDG__DELIVERY_BROKEN, true);
    assert_told(f, "DOWN\n");
    fake_pass(f, 1000);
    get = fake_find(f, "GET");
    assert_string_equal(get->text, "g1.1.ab-5");
    fake_opened(f, get);
    assert_told(f, "UP\n");
    assert_int_equal(fake_count(f, SUBSCRIBE), 1);
}

static void a_foreign_stream_leaves_doubts(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    assert_int_equal(fake_code(play_lists(f, 1u << TDG_LIST_RESOURCES)), 0);
    fake_event_id(f, fake_find(f, "GET"), "17");
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_DONE, true);
    fake_pass(f, 1000);
    assert_string_equal(fake_find(f, "GET")->text, "17");
    fake_opened(f, fake_find(f, "GET"));
    assert_told(f, "DOWN\nUP\nLIST_CHANGED maybe\nUPDATED a:1 maybe\n");
}

static void a_lost_session_is_made_again_from_the_cursor(void **state) {
    struct fake *f = *state;
    json_t *params;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    play_live(f, "a:2", NULL, "");
    play_update(f, fake_find(f, "GET"), "a:1",
                "'dev.tidings/version':5,'dev.tidings/cursor':'ab-5'");
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_NO_SESSION, true);
    assert_told(f, "UPDATED a:1\nDOWN\n");
    fake_pass(f, 1000);
    assert_null(fake_find(f, "GET")->text);
    fake_opened(f, fake_find(f, "GET"));
    params = fake_params(fake_find(f, SUBSCRIBE));
    assert_json_equal(params, "{'uri':'a:2','_meta':{'dev.tidings/cursor':'ab-5',"
                              "'dev.tidings/options':{'awaitCreation':true}}}");
    json_decref(params);
    fake_result(f, fake_find(f, SUBSCRIBE), "{'_meta':{'dev.tidings/resumed':false}}");
    assert_told(f, "");
    fake_result(f, fake_find(f, SUBSCRIBE), "{'_meta':{'dev.tidings/resumed':true}}");
    assert_told(f, "UP\n");
    play_update(f, fake_find(f, "GET"), "a:2",
                "'dev.tidings/version':1,'dev.tidings/cursor':'ac-1'");
    assert_told(f, "UPDATED a:2\n"); /* once: the server tells of it itself */
}

/* The next session, with its stream; `cursor` is what a:1 is subscribed to with. */
static void come_back(struct fake *f, const char *cursor) {
    char expected[160];
    json_t *params;

    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_NO_SESSION, true);
    fake_pass(f, 60000);
    fake_opened(f, fake_find(f, "GET"));
    snprintf(expected, sizeof(expected),
             "{'uri':'a:1','_meta':{'dev.tidings/cursor':'%s',"
             "'dev.tidings/options':{'awaitCreation':true}}}",
             cursor);
    params = fake_params(fake_find(f, SUBSCRIBE));
    assert_json_equal(params, expected);
    json_decref(params);
}

/* The stream of the next session begins with its own cursor, which knows nothing of what
 * a:1 has missed. */
static void what_was_missed_is_request_for_until_it_was_heard(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    fake_event_id(f, fake_find(f, "GET"), "g1.0.ab-5");
    come_back(f, "ab-5");
    fake_event_id(f, fake_find(f, "GET"), "g1.0.ab-9");
    fake_result(f, fake_find(f, SUBSCRIBE), "{'_meta':{'dev.tidings/resumed':true}}");
    assert_told(f, "DOWN\nUP\n");

    come_back(f, "ab-5");
    fake_event_id(f, fake_find(f, "GET"), "g1.0.ab-12");
    fake_result(f, fake_find(f, SUBSCRIBE), "{'_meta':{'dev.tidings/resumed':true}}");
    play_update(f, fake_find(f, "GET"), "a:1",
                "'dev.tidings/version':12,'dev.tidings/cursor':'ab-12'");
    assert_told(f, "DOWN\nUP\nUPDATED a:1\n");
    come_back(f, "ab-12");
}

static void another_server_in_its_place_leaves_doubts(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    fake_event_id(f, fake_find(f, "GET"), "g1.0.ab-5");
    come_back(f, "ab-5");
    fake_result(f, fake_find(f, SUBSCRIBE), "{}");
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\n");
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 2000);
    fake_opened(f, fake_find(f, "GET"));
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\n");
}

/* What looked like a server of the other era was none. */
static void lists_leave_doubts_where_the_era_was_in_doubt(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_lists(f, 1u << TDG_LIST_RESOURCES);
    fake_opened(f, fake_find(f, "GET"));
    tdg__core_request(f->core, "prompts/list", NULL, 0, fake_done, fake_note(f));
    fake_run(f);
    fake_status(f, fake_find(f, "prompts/list"), 400,
                "{'code':-32020,'message':'headers'}");
    assert_told(f, "DOWN\n");
    fake_pass(f, 2000);
    assert_int_equal(f->core->era, TDG_ERA_LEGACY);
    fake_opened(f, fake_find(f, "GET"));
    assert_told(f, "UP\nLIST_CHANGED maybe\n");
}

static void refused_after_a_return_is_lost(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_NO_SESSION, true);
    fake_pass(f, 1000);
    fake_opened(f, fake_find(f, "GET"));
    fake_error(f, fake_find(f, SUBSCRIBE), -32002, "gone", NULL);
    assert_told(f, "DOWN\nLOST a:1\nUP\n");
    assert_int_equal(f->core->counts.subscriptions, 0);
}

static void trouble_on_return_is_retried(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_NO_SESSION, true);
    fake_pass(f, 1000);
    fake_opened(f, fake_find(f, "GET"));
    fake_error(f, fake_find(f, SUBSCRIBE), -32603, "starting", NULL);
    assert_told(f, "DOWN\n");
    assert_null(fake_seek(f, SUBSCRIBE));
    fake_pass(f, 5000);
    fake_result(f, fake_find(f, SUBSCRIBE), "{}");
    assert_told(f, "UP\nUPDATED a:1 maybe\n");
}

static void a_program_that_ends_is_started_again(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    assert_int_equal(fake_count(f, "GET"), 0);
    play_update(f, NULL, "a:1", "");
    fake_lost(f, "it has ended");
    assert_told(f, "UPDATED a:1\nDOWN\n");
    fake_pass(f, 10000);
    fake_result(f, fake_find(f, SUBSCRIBE), "{}");
    assert_told(f, "UP\nUPDATED a:1 maybe\n");
}

static void lists_need_a_server_that_tells(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_LEGACY);
    note = play_lists(f, 1u << TDG_LIST_TOOLS);
    fake_opened(f, fake_find(f, "GET"));
    assert_int_equal(fake_code(note), TDG_ENOTSUP);
    assert_int_equal(fake_code(play_lists(f, 1u << TDG_LIST_TOOLS)), TDG_ENOTSUP);
    note = play_lists(f, 1u << TDG_LIST_TEMPLATES);
    assert_int_equal(fake_code(note), 0);
    assert_int_equal(fake_code(play_lists(f, 1u << TDG_LIST_TEMPLATES)), 0);
    play_notify(f, fake_find(f, "GET"), "notifications/resources/list_changed", "{}");
    play_notify(f, fake_find(f, "GET"), "notifications/tools/list_changed", "{}");
    assert_told(f, "LIST_CHANGED\n");
}

/* The answer to what was wanted before says nothing of what is wanted now. */
static void a_refusal_of_earlier_options_is_none_of_later_ones(void **state) {
    static const char subscribe[] = "resources/subscribe";
    const tdg_subscribe_opts_t slow = {.batch_ms = 200};
    struct fake *f = *state;
    struct fake_note *note;
    struct fake_sent *first;

    fake_up(f, TDG_ERA_LEGACY);
    play_subscribe(f, "a:1", NULL);
    fake_opened(f, fake_find(f, "GET"));
    first = fake_find(f, subscribe);
    note = play_subscribe(f, "a:1", &slow);
    fake_error(f, first, -32602, "no", NULL);
    assert_int_equal(note->calls, 0);
    fake_result(f, fake_find(f, subscribe), "{}");
    assert_int_equal(fake_code(note), 0);
}

int main(void) {
#define HTTP(name) cmocka_unit_test_setup_teardown(name, fake_setup_http, fake_teardown)
#define PIPE(name) cmocka_unit_test_setup_teardown(name, pipe_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        HTTP(a_refusal_of_earlier_options_is_none_of_later_ones),
        HTTP(the_stream_is_open_before_it_returns),
        HTTP(a_stream_whose_head_is_late_counts_as_open),
        HTTP(a_late_head_after_a_loss_counts_as_open),
        HTTP(the_first_call_waits_for_the_stream),
        HTTP(a_call_does_not_wait_for_a_stream_that_is_refused),
        HTTP(a_call_does_not_wait_for_a_stream_that_is_busy),
        HTTP(a_call_waits_no_longer_than_two_seconds),
        HTTP(the_call_of_a_new_session_waits_for_its_stream),
        HTTP(a_call_does_not_wait_where_nobody_needs_the_stream),
        HTTP(without_a_stream_there_are_no_subscriptions),
        HTTP(thirty_two_at_a_time),
        HTTP(options_go_with_the_request),
        HTTP(what_does_not_exist_yet_is_request_for),
        HTTP(refused_options_leave_it_as_it_was),
        HTTP(refused_options_are_not_request_for_in_the_next_session),
        HTTP(options_are_request_for_until_there_is_an_answer),
        HTTP(options_that_nothing_has_any_more_are_forgotten),
        HTTP(unsubscribing_is_silent_at_once),
        HTTP(subscribing_again_waits_for_the_unsubscribe),
        HTTP(unsubscribing_while_it_is_request_for),
        HTTP(unsubscribing_ends_the_retries),
        HTTP(doubts_are_not_told_after_an_unsubscribe),
        HTTP(the_stream_goes_on_after_the_last_event),
        HTTP(a_foreign_stream_leaves_doubts),
        HTTP(a_lost_session_is_made_again_from_the_cursor),
        HTTP(what_was_missed_is_request_for_until_it_was_heard),
        HTTP(another_server_in_its_place_leaves_doubts),
        HTTP(lists_leave_doubts_where_the_era_was_in_doubt),
        HTTP(refused_after_a_return_is_lost),
        HTTP(trouble_on_return_is_retried),
        PIPE(a_program_that_ends_is_started_again),
        HTTP(lists_need_a_server_that_tells),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client_session", tests, NULL, NULL);
}
