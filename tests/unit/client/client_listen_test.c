/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include <tidings/error.h>

#include "unit/client/play.h"

#define CURSOR(n) "'dev.tidings/cursor':'a-" #n "'"
#define RESUMED(yes) "'dev.tidings/resumed':" #yes
#define VERSION(n) "'dev.tidings/version':" #n

static const unsigned all_lists =
    1u << TDG_LIST_RESOURCES | 1u << TDG_LIST_TOOLS | 1u << TDG_LIST_PROMPTS;

/* ---- Subscribing -------------------------------------------------------- */

static void returns_when_it_is_acknowledged(void **state) {
    struct fake *f = *state;
    struct fake_note *note;
    json_t *params;

    fake_up(f, TDG_ERA_MODERN);
    note = play_subscribe(f, "a:1", NULL);
    params = fake_params(fake_find(f, LISTEN));
    assert_json_equal(json_object_get(params, "notifications"),
                      "{'resourceSubscriptions':['a:1']}");
    json_decref(params);
    assert_int_equal(note->calls, 0);

    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(note), 0);
    play_update(f, fake_find(f, LISTEN), "a:1", "");
    assert_told(f, "UPDATED a:1\n");
    assert_int_equal(f->core->counts.subscriptions, 1);
}

static void what_is_left_out_is_refused(void **state) {
    struct fake *f = *state;
    const char *uris[] = {"a:1", "a:2", "a:3"};
    int codes[3] = {9, 9, 9};
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    note = fake_note(f);
    tdg__core_subscribe(f->core, uris, 3, NULL, codes, fake_done, note);
    fake_run(f);
    play_ack(f, fake_find(f, LISTEN), "a:2", "");
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], TDG_EREFUSED);
    assert_int_equal(codes[2], 0);
    assert_int_equal(f->core->counts.subscriptions, 2);
    assert_null(tdg__subs_find(f->core, "a:2"));
    assert_told(f, "");
}

static void what_is_left_out_has_the_code_of_its_reason(void **state) {
    static const struct {
        const char *refused;
        int code;
    } cases[] = {
        {"{'a:1':'not_found'}", TDG_ENOTFOUND},
        {"{'a:1':'not_subscribable'}", TDG_ENOTSUP},
        {"{'a:1':'invalid_uri_format'}", TDG_EURI},
        {"{'a:1':'for a reason'}", TDG_EREFUSED},
        {"{'a:1':{}}", TDG_EREFUSED},
        {"{'a:2':'not_found'}", TDG_EREFUSED},
        {"['a:1']", TDG_EREFUSED},
        {"null", TDG_EREFUSED},
    };
    struct fake *f = *state;
    char meta[128];

    fake_up(f, TDG_ERA_MODERN);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fake_note *note = play_subscribe(f, "a:1", NULL);

        snprintf(meta, sizeof(meta), "'dev.tidings/refused':%s", cases[i].refused);
        play_ack(f, fake_find(f, LISTEN), "a:1", meta);
        assert_int_equal(fake_code(note), cases[i].code);
        assert_null(tdg__subs_find(f->core, "a:1"));
        fake_run(f);
    }
}

static void many_cost_one_listen(void **state) {
    struct fake *f = *state;
    enum { MANY = 10000 };
    const char **uris = test_calloc(MANY, sizeof(*uris));
    char(*texts)[16] = test_calloc(MANY, sizeof(*texts));
    struct fake_note *note;
    size_t work;

    fake_up(f, TDG_ERA_MODERN);
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof(texts[i]), "a:%d", i);
        uris[i] = texts[i];
    }
    note = fake_note(f);
    tdg__core_subscribe(f->core, uris, MANY, NULL, NULL, fake_done, note);
    fake_run(f);
    assert_int_equal(fake_count(f, LISTEN), 1);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(note), 0);
    assert_int_equal(f->core->counts.subscriptions, MANY);

    /* An update costs the same as with one subscription. */
    work = memory_calls();
    play_update(f, fake_find(f, LISTEN), "a:77", "");
    assert_true(memory_calls() - work < 200);
    assert_told(f, "UPDATED a:77\n");
    test_free(uris);
    test_free(texts);
}

static void a_server_without_subscriptions_is_not_supported(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    json_object_clear(f->core->capabilities);
    note = play_subscribe(f, "a:1", NULL);
    assert_int_equal(fake_code(note), TDG_ENOTSUP);
    assert_int_equal(fake_count(f, LISTEN), 0);
}

static void an_error_refuses_what_is_new(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    note = play_subscribe(f, "a:2", NULL);
    fake_error(f, fake_find(f, LISTEN), -32602, "no such option", NULL);
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    assert_int_equal(note->rpc_code, -32602);
    assert_told(f, "");
    play_update(f, fake_find(f, LISTEN), "a:1", "");
    fake_pass(f, 2000);
    assert_told(f, "UPDATED a:1\n");
}

static void it_gives_up_when_nobody_acknowledges(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    note = play_subscribe(f, "a:1", NULL);
    fake_pass(f, 61000);
    assert_int_equal(fake_code(note), TDG_ETIMEDOUT);
    assert_int_equal(f->core->counts.subscriptions, 0);
    fake_pass(f, 600000);
    assert_int_equal(play_open(f, LISTEN), 0);
}

static void subscribing_before_the_connection_waits_for_it(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    assert_int_equal(fake_create(f), 0);
    note = fake_note(f);
    tdg__core_subscribe(f->core, (const char *[]){"a:1"}, 1, NULL, NULL, fake_done, note);
    fake_up(f, TDG_ERA_MODERN);
    assert_int_equal(note->calls, 0);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(note), 0);
}

/* ---- Options ------------------------------------------------------------ */

static void options_make_groups(void **state) {
    struct fake *f = *state;
    json_t *filter = json_from("{'metadata.size':{'gt':10}}");
    const tdg_subscribe_opts_t slow = {.batch_ms = 200, .rate_limit_ms = -1};
    const tdg_subscribe_opts_t again = {
        .throttle_ms = -1, .filter = filter, .since_ms = 60000};
    const tdg_subscribe_opts_t both = {.batch_ms = 1, .debounce_ms = 1};
    struct fake_note *note;
    json_t *params;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    play_live(f, "a:2", &slow, "");
    params = fake_params(fake_find(f, LISTEN));
    assert_json_equal(json_object_get(params, "notifications"),
                      "{'resourceSubscriptions':['a:2']}");
    assert_json_equal(
        json_object_get(json_object_get(params, "_meta"), "dev.tidings/options"),
        "{'batchMs':200,'rateLimitMs':0}");
    json_decref(params);
    assert_int_equal(play_open(f, LISTEN), 2);

    play_live(f, "a:3", &again, "");
    params = fake_params(fake_find(f, LISTEN));
    assert_json_equal(
        json_object_get(json_object_get(params, "_meta"), "dev.tidings/options"),
        "{'throttleMs':0,'filter':{'metadata.size':{'gt':10}}}");
    assert_json_equal(
        json_object_get(json_object_get(params, "_meta"), "dev.tidings/sinceMs"),
        "60000");
    json_decref(params);
    assert_int_equal(play_open(f, LISTEN), 3);

    note = play_subscribe(f, "a:4", &both);
    assert_int_equal(fake_code(note), TDG_EINVAL);
    json_decref(filter);
}

static void other_options_move_it_without_a_gap(void **state) {
    struct fake *f = *state;
    const tdg_subscribe_opts_t slow = {.batch_ms = 200};
    struct fake_sent *first, *second;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    first = fake_find(f, LISTEN);
    note = play_subscribe(f, "a:1", &slow);
    second = fake_find(f, LISTEN);
    assert_ptr_not_equal(first, second);
    assert_false(first->cancelled);
    play_ack(f, second, NULL, "");
    assert_int_equal(fake_code(note), 0);
    fake_pass(f, 1000);
    assert_true(first->cancelled);
    assert_int_equal(play_open(f, LISTEN), 1);
    assert_told(f, "");
}

static void refused_options_leave_those_it_had(void **state) {
    struct fake *f = *state;
    const tdg_subscribe_opts_t slow = {.batch_ms = 200};
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    note = play_subscribe(f, "a:1", &slow);
    fake_error(f, fake_find(f, LISTEN), -32602, "no", NULL);
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    fake_pass(f, 1000);
    play_update(f, fake_find(f, LISTEN), "a:1", "");
    fake_pass(f, 2000);
    assert_told(f, "UPDATED a:1\n");
    assert_int_equal(f->core->counts.subscriptions, 1);
}

/* On its way to other options it turns out that it can be polled only: the stream that
 * had it is asked for the rest, and may go before it. */
static void what_is_polled_leaves_the_stream_that_had_it(void **state) {
    struct fake *f = *state;
    const tdg_subscribe_opts_t slow = {.batch_ms = 200};
    const tdg_subscribe_opts_t polled = {.batch_ms = 300, .poll_ms = 10000};
    struct fake_note *note;
    json_t *params;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", &slow, "");
    play_live(f, "a:2", &slow, "");
    fake_pass(f, 1000);
    note = play_subscribe(f, "a:1", &polled);
    play_ack(f, fake_find(f, LISTEN), "a:1",
             "'dev.tidings/refused':{'a:1':'not_subscribable'}");
    fake_result(f, fake_find(f, "resources/read"),
                "{'resultType':'complete','contents':[{'uri':'a:1','text':'1'}]}");
    assert_int_equal(fake_code(note), 0);
    fake_pass(f, 1000);
    params = fake_params(fake_find(f, LISTEN));
    assert_json_equal(json_object_get(params, "notifications"),
                      "{'resourceSubscriptions':['a:2']}");
    json_decref(params);
    play_ack(f, fake_find(f, LISTEN), NULL, "");

    play_unsubscribe(f, "a:2");
    fake_pass(f, 1000);
    play_unsubscribe(f, "a:1");
    fake_pass(f, 1000);
    assert_int_equal(play_open(f, LISTEN), 0);
}

/* The server has acknowledged the stream, but not the only subscription in it. */
static void refused_options_leave_no_empty_stream(void **state) {
    const tdg_subscribe_opts_t slow = {.batch_ms = 200};
    struct fake *f = *state;
    struct fake_sent *first;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    first = fake_find(f, LISTEN);
    note = play_subscribe(f, "a:1", &slow);
    play_ack(f, fake_find(f, LISTEN), "a:1", "");
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    assert_int_equal(play_open(f, LISTEN), 1);
    assert_int_equal(fake_count(f, LISTEN), 2);
    play_update(f, first, "a:1", "");
    fake_pass(f, 1000);
    assert_told(f, "UPDATED a:1\n");
}

/* ---- Replacing ---------------------------------------------------------- */

static void the_old_stream_stays_until_the_new_one_is_acknowledged(void **state) {
    struct fake *f = *state;
    struct fake_sent *first, *second;
    json_t *params;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, CURSOR(5));
    first = fake_find(f, LISTEN);
    play_subscribe(f, "a:2", NULL);
    second = fake_find(f, LISTEN);
    params = fake_params(second);
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(params, "_meta"), "dev.tidings/cursor")),
                        "a-5");
    json_decref(params);

    /* What comes meanwhile waits for the next replacement. */
    play_subscribe(f, "a:3", NULL);
    play_subscribe(f, "a:4", NULL);
    assert_int_equal(fake_count(f, LISTEN), 2);
    assert_false(first->cancelled);
    play_ack(f, second, NULL, CURSOR(5) "," RESUMED(true));
    assert_true(first->cancelled);
    assert_int_equal(fake_count(f, LISTEN), 3);
    play_ack(f, fake_find(f, LISTEN), NULL, CURSOR(5) "," RESUMED(true));
    assert_true(second->cancelled);
    assert_int_equal(play_open(f, LISTEN), 1);
    assert_told(f, "");
}

static void a_new_listen_says_what_its_cursor_does_not_hold_for(void **state) {
    struct fake *f = *state;
    json_t *params;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, CURSOR(5));
    play_subscribe(f, "a:2", NULL);
    play_ack(f, fake_find(f, LISTEN), NULL, CURSOR(5) "," RESUMED(true));
    play_subscribe(f, "a:3", NULL);
    params = fake_params(fake_find(f, LISTEN));
    assert_json_equal(
        json_object_get(json_object_get(params, "_meta"), "dev.tidings/fresh"),
        "{'resourceSubscriptions':['a:3']}");
    json_decref(params);
    play_ack(f, fake_find(f, LISTEN), NULL, CURSOR(5) "," RESUMED(true));

    play_lists(f, 1u << TDG_LIST_TOOLS);
    params = fake_params(fake_find(f, LISTEN));
    assert_json_equal(
        json_object_get(json_object_get(params, "_meta"), "dev.tidings/fresh"),
        "{'toolsListChanged':true}");
    json_decref(params);
    play_ack(f, fake_find(f, LISTEN), NULL, CURSOR(5) "," RESUMED(true));

    play_unsubscribe(f, "a:3");
    params = fake_params(fake_find(f, LISTEN));
    assert_null(json_object_get(json_object_get(params, "_meta"), "dev.tidings/fresh"));
    json_decref(params);
}

static void both_streams_tell_once_by_version(void **state) {
    struct fake *f = *state;
    struct fake_sent *first, *second;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, CURSOR(5));
    first = fake_find(f, LISTEN);
    play_subscribe(f, "a:2", NULL);
    second = fake_find(f, LISTEN);
    play_update(f, first, "a:1", VERSION(6) "," CURSOR(6));
    play_ack(f, second, NULL, CURSOR(5) "," RESUMED(true));
    play_update(f, second, "a:1", VERSION(6) "," CURSOR(6));
    play_update(f, second, "a:1", VERSION(5) "," CURSOR(6));
    assert_told(f, "UPDATED a:1\n");
    assert_int_equal(f->core->counts.repeated, 2);
    play_update(f, second, "a:1", VERSION(7) "," CURSOR(7));
    assert_told(f, "UPDATED a:1\n");
    /* Another life of the server counts from the beginning. */
    play_update(f, second, "a:1", VERSION(2) ",'dev.tidings/cursor':'b-2'");
    assert_told(f, "UPDATED a:1\n");
}

static void both_streams_tell_once_without_versions(void **state) {
    struct fake *f = *state;
    struct fake_sent *first, *second;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    first = fake_find(f, LISTEN);
    play_subscribe(f, "a:2", NULL);
    second = fake_find(f, LISTEN);
    play_update(f, first, "a:1", "");
    assert_told(f, "");
    play_ack(f, second, NULL, "");
    play_update(f, second, "a:1", "");
    assert_false(first->cancelled);
    play_update(f, first, "a:1", "");
    fake_pass(f, 500);
    assert_true(first->cancelled);
    assert_told(f, "UPDATED a:1\n");
    play_update(f, second, "a:1", "");
    play_update(f, second, "a:1", "");
    assert_told(f, "UPDATED a:1\nUPDATED a:1\n");
}

static void a_slow_acknowledgement_delays_no_update(void **state) {
    struct fake *f = *state;
    struct fake_sent *first;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    first = fake_find(f, LISTEN);
    play_subscribe(f, "a:2", NULL);
    play_update(f, first, "a:1", "");
    fake_pass(f, 1000);
    assert_told(f, "UPDATED a:1\n");
}

/* It broke, or ended after all that it had to say. */
static void a_replaced_stream_that_breaks_leaves_doubts(void **state) {
    struct fake *f = *state;
    struct fake_sent *first, *second;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    first = fake_find(f, LISTEN);
    play_live(f, "a:2", NULL, "");
    second = fake_find(f, LISTEN);
    assert_false(first->cancelled);
    fake_broken(f, first, TDG__DELIVERY_BROKEN, true);
    assert_told(f, "UPDATED a:1 maybe\nUPDATED a:2 maybe\n");
    fake_pass(f, 1000);

    play_live(f, "a:3", NULL, "");
    assert_false(second->cancelled);
    fake_result(f, second, "{'resultType':'complete'}");
    fake_pass(f, 1000);
    assert_told(f, "");
    assert_int_equal(play_open(f, LISTEN), 1);
}

/* a:3 waits for the replaced stream to go, which the server ends before we do. */
static void a_replaced_stream_that_ends_lets_the_next_begin(void **state) {
    struct fake *f = *state;
    struct fake_sent *first;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    first = fake_find(f, LISTEN);
    play_live(f, "a:2", NULL, "");
    note = play_subscribe(f, "a:3", NULL);
    assert_int_equal(fake_count(f, LISTEN), 2);
    fake_result(f, first, "{'resultType':'complete'}");
    assert_int_equal(fake_count(f, LISTEN), 3);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(note), 0);
    assert_told(f, "");
}

/* a:1 is named for as long as it is on its way to other options, and comes back before
 * the acknowledgement, which leaves it out. */
static void there_and_back_while_a_listen_is_under_way(void **state) {
    struct fake *f = *state;
    const tdg_subscribe_opts_t slow = {.batch_ms = 200};
    struct fake_sent *slow_listen, *listen;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    play_subscribe(f, "a:1", &slow);
    slow_listen = fake_find(f, LISTEN);
    play_subscribe(f, "a:2", NULL);
    listen = fake_find(f, LISTEN);
    assert_ptr_not_equal(listen, slow_listen);
    assert_int_equal(fake_code(play_subscribe(f, "a:1", NULL)), 0);
    play_ack(f, listen, "a:1", "");
    fake_pass(f, 1000);
    assert_ptr_not_equal(fake_find(f, LISTEN), listen);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "UPDATED a:1 maybe\n");
    assert_int_equal(f->core->counts.subscriptions, 2);
}

static void the_last_unsubscribe_ends_the_stream(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    note = play_unsubscribe(f, "a:1");
    assert_int_equal(fake_code(note), 0);
    assert_int_equal(play_open(f, LISTEN), 0);
    assert_int_equal(fake_count(f, LISTEN), 1);
    assert_int_equal(fake_code(play_unsubscribe(f, "a:1")), TDG_ENOTFOUND);
}

static void nothing_is_told_after_an_unsubscribe(void **state) {
    struct fake *f = *state;
    struct fake_sent *first;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    play_live(f, "a:2", NULL, "");
    fake_pass(f, 1000);
    first = fake_find(f, LISTEN);
    play_update(f, first, "a:1", "");
    note = play_unsubscribe(f, "a:1");
    play_update(f, first, "a:1", "");
    play_update(f, first, "a:2", "");
    assert_int_equal(note->calls, 0);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(note), 0);
    fake_pass(f, 1000);
    assert_told(f, "UPDATED a:2\n");
}

static void unsubscribing_ends_a_subscribe_that_waits(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    note = play_subscribe(f, "a:1", NULL);
    assert_int_equal(fake_code(play_unsubscribe(f, "a:1")), 0);
    assert_int_equal(fake_code(note), TDG_EENDED);
    assert_int_equal(play_open(f, LISTEN), 0);
}

/* ---- Losses ------------------------------------------------------------- */

static void a_foreign_server_leaves_doubts_after_a_break(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    assert_int_equal(play_lists(f, all_lists)->calls, 0);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    fake_pass(f, 1000);
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    assert_told(f, "DOWN\n");
    assert_int_equal(play_open(f, LISTEN), 0);
    fake_pass(f, 1000);
    assert_int_equal(play_open(f, LISTEN), 1);
    assert_told(f, "");
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "UP\nLIST_CHANGED maybe\nLIST_CHANGED maybe\nLIST_CHANGED maybe\n"
                   "UPDATED a:1 maybe\n");
    assert_int_equal(f->core->counts.reconnects, 1);
}

static void our_server_tells_exactly(void **state) {
    struct fake *f = *state;
    json_t *params;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, CURSOR(5));
    play_update(f, fake_find(f, LISTEN), "a:1", VERSION(8) "," CURSOR(8));
    fake_result(f, fake_find(f, LISTEN), "{'resultType':'complete'}");
    assert_told(f, "UPDATED a:1\nDOWN\n");
    fake_pass(f, 1000);
    params = fake_params(fake_find(f, LISTEN));
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(params, "_meta"), "dev.tidings/cursor")),
                        "a-8");
    json_decref(params);
    play_ack(f, fake_find(f, LISTEN), NULL, CURSOR(8) "," RESUMED(true));
    assert_told(f, "UP\n");
    play_update(f, fake_find(f, LISTEN), "a:1", VERSION(9) "," CURSOR(9));
    assert_told(f, "UPDATED a:1\n");
    assert_true(f->core->ours);
}

/* After a restart, say. What templates match, the server cannot always name. */
static void not_resumed_leaves_doubts(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, CURSOR(5));
    play_live(f, "a:{x}", NULL, CURSOR(5) "," RESUMED(true));
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), NULL, "'dev.tidings/cursor':'b-1'," RESUMED(false));
    assert_told(f, "DOWN\nUP\nUPDATED a:{x} maybe\n");
    play_update(f, fake_find(f, LISTEN), "a:1", "'dev.tidings/version':1");
    assert_told(f, "UPDATED a:1\n"); /* once: the server tells of each URI itself */
}

static void refused_after_a_return_is_lost(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    play_live(f, "a:2", NULL, "");
    fake_pass(f, 1000);
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), "a:1", "");
    assert_told(f, "DOWN\nUP\nLOST a:1\nUPDATED a:2 maybe\n");
    assert_int_equal(f->core->counts.subscriptions, 1);
}

static void trouble_on_return_is_retried(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 60000);
    fake_error(f, fake_find(f, LISTEN), -32603, "starting", NULL);
    fake_pass(f, 60000);
    fake_status(f, fake_find(f, LISTEN), 503, NULL);
    fake_pass(f, 60000);
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_AWAY, false);
    fake_pass(f, 60000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\n");
}

static void refuse_listens(struct fake *f, struct fake_sent *sent) {
    if (strcmp(sent->method, LISTEN) == 0)
        fake_broken(f, sent, TDG__DELIVERY_AWAY, false);
    else
        fake_modern_server(f, sent);
}

static void one_timer_and_no_storm(void **state) {
    struct fake *f = *state;
    const tdg_subscribe_opts_t slow = {.batch_ms = 200}, slower = {.batch_ms = 300};
    size_t before;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    play_live(f, "a:2", &slow, "");
    play_live(f, "a:3", &slower, "");
    f->answer = refuse_listens;
    for (int i = 0; i < 3; i++)
        fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    assert_told(f, "DOWN\n");
    before = fake_count(f, LISTEN);
    fake_pass(f, 60000);
    assert_true(fake_count(f, LISTEN) - before <= 3 * 20);
    assert_true(fake_count(f, LISTEN) - before >= 3);
    assert_int_equal((fake_count(f, LISTEN) - before) % 3, 0);
    assert_told(f, "");
}

static void a_server_that_ends_streams_at_once_meets_no_storm(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    for (int64_t end = f->now + 60000; f->now < end;) {
        struct fake_sent *listen = fake_seek(f, LISTEN);

        if (listen != NULL) {
            play_ack(f, listen, NULL, "");
            fake_result(f, listen, "{'resultType':'complete'}");
        } else {
            fake_pass(f, 100);
        }
    }
    assert_true(fake_count(f, LISTEN) <= 22);
}

static void retry_after_holds_for_one_wait(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 1000);
    fake_retry_after(f, fake_find(f, LISTEN), 503, 30000);
    fake_pass(f, 29999);
    assert_null(fake_seek(f, LISTEN));
    fake_pass(f, 1);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\n");

    fake_pass(f, 10000);
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\n");
}

static void who_is_barred_on_return_gives_up(void **state) {
    struct fake *f = *state;
    char *told;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 1000);
    fake_status(f, fake_find(f, LISTEN), 403, NULL);
    told = fake_told(f);
    assert_non_null(strstr(told, "CLOSED"));
    free(told);
    assert_int_equal(fake_code(play_subscribe(f, "a:2", NULL)), TDG_EENDED);
}

/* ---- Silence ------------------------------------------------------------ */

/* ---- One channel for everything ----------------------------------------- */

static int stdio_setup(void **state) {
    struct fake *f = state_create(state, sizeof(*f));

    fake_init(f, TDG__TRANSPORT_STDIO);
    return 0;
}

static void on_a_pipe_the_id_says_which_stream_it_is(void **state) {
    struct fake *f = *state;
    struct fake_sent *first;
    char meta[100];

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, CURSOR(1));
    first = fake_find(f, LISTEN);
    snprintf(meta, sizeof(meta), "'io.modelcontextprotocol/subscriptionId':%s",
             first->id);
    play_update(f, NULL, "a:1", meta);
    assert_told(f, "UPDATED a:1\n");
    play_update(f, NULL, "a:1", "'io.modelcontextprotocol/subscriptionId':'other'");
    assert_told(f, "");

    fake_lost(f, "the program has ended");
    assert_told(f, "DOWN\n");
    fake_pass(f, 30000);
    play_ack(f, fake_find(f, LISTEN), NULL, "'dev.tidings/cursor':'b-1'," RESUMED(false));
    assert_told(f, "UP\n"); /* the server tells of each URI itself */
}

static void a_cancelled_stream_is_over(void **state) {
    struct fake *f = *state;
    char params[100];

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    snprintf(params, sizeof(params), "{'requestId':%s}", fake_find(f, LISTEN)->id);
    play_notify(f, NULL, "notifications/cancelled", params);
    assert_told(f, "DOWN\n");
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "UP\nUPDATED a:1 maybe\n");
}

/* The record of the last one goes, and with it those of all. */
static void given_up_beside_what_is_refused(void **state) {
    static const char *const uris[] = {"a:1", "a:2"};
    struct fake *f = *state;
    struct fake_note *note;
    int codes[2] = {0};

    fake_up(f, TDG_ERA_MODERN);
    note = fake_note(f);
    tdg__core_subscribe(f->core, uris, 2, NULL, codes, fake_done, note);
    fake_run(f);
    play_notify(f, fake_find(f, LISTEN), "notifications/subscriptions/acknowledged",
                "{'notifications':{},'_meta':{'dev.tidings/refused':"
                "{'a:1':'subscription_failed','a:2':'not_found'}}}");
    f->answer = NULL;
    fake_pass(f, 61000); /* nobody acknowledges the next listens */
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    assert_int_equal(codes[1], TDG_ENOTFOUND);
}

static void an_unsubscribe_does_not_fail(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    play_live(f, "a:2", NULL, "");
    fake_pass(f, 1000);
    note = play_unsubscribe(f, "a:1");
    fake_error(f, fake_find(f, LISTEN), -32602, "no", NULL);
    assert_int_equal(fake_code(note), 0);
}

/* Servers of the Python SDK answer so to a request without a session. */
static void a_legacy_server_in_its_place_loses_nothing(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    f->answer = fake_legacy_server;
    fake_pass(f, 1000);
    fake_status(f, fake_find(f, LISTEN), 400,
                "{'code':-32600,'message':'Bad Request: Missing session ID'}");
    fake_pass(f, 5000);
    fake_opened(f, fake_find(f, "GET"));
    fake_result(f, fake_find(f, "resources/subscribe"), "{}");
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\n");
}

static void options_that_are_given_up_are_not_retried(void **state) {
    const tdg_subscribe_opts_t slow = {.batch_ms = 200};
    struct fake *f = *state;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    play_subscribe(f, "a:1", &slow);
    fake_error(f, fake_find(f, LISTEN), -32603, "starting", NULL);
    assert_int_equal(f->core->counts.retrying, 1);
    assert_int_equal(fake_code(play_subscribe(f, "a:1", NULL)), 0);
    assert_int_equal(f->core->counts.retrying, 0);
}

int main(void) {
#define HTTP(name) cmocka_unit_test_setup_teardown(name, fake_setup_http, fake_teardown)
#define PIPE(name) cmocka_unit_test_setup_teardown(name, stdio_setup, fake_teardown)
    const struct CMUnitTest tests[] = {
        HTTP(options_that_are_given_up_are_not_retried),
        HTTP(a_legacy_server_in_its_place_loses_nothing),
        HTTP(an_unsubscribe_does_not_fail),
        HTTP(returns_when_it_is_acknowledged),
        HTTP(what_is_left_out_is_refused),
        HTTP(what_is_left_out_has_the_code_of_its_reason),
        HTTP(given_up_beside_what_is_refused),
        HTTP(many_cost_one_listen),
        HTTP(a_server_without_subscriptions_is_not_supported),
        HTTP(an_error_refuses_what_is_new),
        HTTP(it_gives_up_when_nobody_acknowledges),
        HTTP(subscribing_before_the_connection_waits_for_it),
        HTTP(options_make_groups),
        HTTP(other_options_move_it_without_a_gap),
        HTTP(refused_options_leave_those_it_had),
        HTTP(what_is_polled_leaves_the_stream_that_had_it),
        HTTP(refused_options_leave_no_empty_stream),
        HTTP(the_old_stream_stays_until_the_new_one_is_acknowledged),
        HTTP(a_new_listen_says_what_its_cursor_does_not_hold_for),
        HTTP(both_streams_tell_once_by_version),
        HTTP(both_streams_tell_once_without_versions),
        HTTP(a_slow_acknowledgement_delays_no_update),
        HTTP(a_replaced_stream_that_breaks_leaves_doubts),
        HTTP(a_replaced_stream_that_ends_lets_the_next_begin),
        HTTP(there_and_back_while_a_listen_is_under_way),
        HTTP(the_last_unsubscribe_ends_the_stream),
        HTTP(nothing_is_told_after_an_unsubscribe),
        HTTP(unsubscribing_ends_a_subscribe_that_waits),
        HTTP(a_foreign_server_leaves_doubts_after_a_break),
        HTTP(our_server_tells_exactly),
        HTTP(not_resumed_leaves_doubts),
        HTTP(refused_after_a_return_is_lost),
        HTTP(trouble_on_return_is_retried),
        HTTP(one_timer_and_no_storm),
        HTTP(a_server_that_ends_streams_at_once_meets_no_storm),
        HTTP(retry_after_holds_for_one_wait),
        HTTP(who_is_barred_on_return_gives_up),
        PIPE(on_a_pipe_the_id_says_which_stream_it_is),
        PIPE(a_cancelled_stream_is_over),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("listen", tests, NULL, NULL);
}
