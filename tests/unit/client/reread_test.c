/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include <tidings/error.h>

#include "client/subs/subs.h"
#include "unit/client/play.h"

#define READ "resources/read"

static const tdg_subscribe_opts_t reread = {.reread = true};
static const tdg_subscribe_opts_t poll = {.poll_ms = 10000};

static const char one[] =
    "{'resultType':'complete','contents':[{'uri':'a:1','text':'1'}]}";
static const char two[] =
    "{'resultType':'complete','contents':[{'uri':'a:1','text':'2'}]}";

static struct fake_sent *up(struct fake *f, const tdg_subscribe_opts_t *opts) {
    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", opts, "");
    return fake_find(f, LISTEN);
}

/* ---- After updates ------------------------------------------------------ */

static void an_update_is_told_with_its_contents(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, &reread);

    play_update(f, listen, "a:1", "'dev.tidings/version':4");
    assert_told(f, "");
    fake_result(f, fake_find(f, READ), one);
    assert_int_equal(f->event_count, 1);
    assert_int_equal(f->events[0]->version, 4);
    assert_json_equal(f->events[0]->contents, "[{'uri':'a:1','text':'1'}]");
    assert_told(f, "UPDATED a:1\n");
}

static void an_answer_without_contents_is_told_as_such(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, &reread);

    play_update(f, listen, "a:1", "");
    fake_result(f, fake_find(f, READ), "{'resultType':'complete','contents':'none'}");
    assert_int_equal(f->event_count, 1);
    assert_int_equal(f->events[0]->code, TDG_EJSON);
    assert_non_null(f->events[0]->message);
    assert_null(f->events[0]->contents);
}

static void updates_meanwhile_make_one_more_read(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, &reread);

    for (int i = 0; i < 5; i++)
        play_update(f, listen, "a:1", "");
    assert_int_equal(fake_count(f, READ), 1);
    fake_result(f, fake_find(f, READ), one);
    assert_told(f, "UPDATED a:1\n");
    assert_int_equal(fake_count(f, READ), 2);
    fake_result(f, fake_find(f, READ), two);
    assert_int_equal(f->events[0]->merged, 3);
    assert_told(f, "UPDATED a:1\n");
    assert_int_equal(fake_count(f, READ), 2);
    assert_int_equal(f->core->counts.reads, 2);
}

static void sixteen_reads_at_a_time(void **state) {
    struct fake *f = *state;
    enum { MANY = 40 };
    char texts[MANY][16];
    const char *uris[MANY];
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof(texts[i]), "a:%d", i);
        uris[i] = texts[i];
    }
    note = fake_note(f);
    tdg__core_subscribe(f->core, uris, MANY, &reread, NULL, fake_done, note);
    fake_run(f);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    for (int i = 0; i < MANY; i++)
        play_update(f, fake_find(f, LISTEN), texts[i], "");
    assert_int_equal(play_open(f, READ), 16);
    for (int i = 0; i < MANY; i++)
        fake_result(f, fake_find(f, READ), one);
    assert_int_equal(f->event_count, MANY);
    assert_int_equal(play_open(f, READ), 0);
}

static void what_cannot_be_read_is_told_all_the_same(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, &reread);

    play_update(f, listen, "a:1", "");
    fake_error(f, fake_find(f, READ), -32603, "trouble", NULL);
    assert_int_equal(f->events[0]->code, TDG_EREFUSED);
    assert_non_null(f->events[0]->message);
    assert_null(f->events[0]->contents);
    assert_told(f, "UPDATED a:1\n");

    play_update(f, listen, "a:1", "");
    fake_error(f, fake_find(f, READ), -32602, "gone", "{'uri':'a:1'}");
    assert_told(f, "DELETED a:1\n");
}

static void a_deletion_needs_no_read(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, &reread);

    play_update(f, listen, "a:1", "");
    play_notify(f, listen, "resources/deleted", "{'uri':'a:1'}");
    assert_int_equal(play_open(f, READ), 0);
    assert_told(f, "DELETED a:1\n");
}

static void the_same_after_a_gap_is_not_told(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, &reread);

    play_update(f, listen, "a:1", "");
    fake_result(f, fake_find(f, READ), one);
    assert_told(f, "UPDATED a:1\n");
    for (int i = 0; i < 2; i++) {
        fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
        fake_pass(f, 10000);
        play_ack(f, fake_find(f, LISTEN), NULL, "");
        fake_result(f, fake_find(f, READ), i == 0 ? one : two);
        assert_told(f, i == 0 ? "DOWN\nUP\n" : "DOWN\nUP\nUPDATED a:1 maybe\n");
    }
}

static void unsubscribing_drops_the_read(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, &reread);
    struct fake_sent *read;

    play_update(f, listen, "a:1", "");
    read = fake_find(f, READ);
    play_unsubscribe(f, "a:1");
    assert_true(read->cancelled);
    assert_told(f, "");
}

static void a_template_reads_what_it_matches(void **state) {
    struct fake *f = *state;
    json_t *params;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:{x}", &reread, "");
    play_update(f, fake_find(f, LISTEN), "a:7", "");
    params = fake_params(fake_find(f, READ));
    assert_string_equal(json_string_value(json_object_get(params, "uri")), "a:7");
    json_decref(params);
    fake_result(f, fake_find(f, READ), one);
    assert_told(f, "UPDATED a:7\n");
}

/* Only the first sixteen are being read; metadata beyond the bound is left out, which the
 * update says when it is told. */
static void metadata_that_waits_for_a_read_is_bounded(void **state) {
    enum { LONG = 1 << 20, MANY = TDG__SUBS_MAX_HELD_BYTES / LONG + 8 };
    struct fake *f = *state;
    char *more = malloc(LONG + 100), uri[16];
    size_t lacking = 0;

    assert_non_null(more);
    snprintf(more, LONG + 100, "'dev.tidings/metadata':{'long':'%0*d'}", LONG, 0);
    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:{x}", &reread, "");
    for (int i = 0; i < MANY; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        play_update(f, fake_find(f, LISTEN), uri, more);
    }
    assert_true(f->core->subs->held_bytes > TDG__SUBS_MAX_HELD_BYTES / 2);
    assert_true(f->core->subs->held_bytes <= TDG__SUBS_MAX_HELD_BYTES);
    while (fake_seek(f, READ) != NULL)
        fake_result(f, fake_find(f, READ), one);
    assert_int_equal(f->event_count, MANY);
    assert_int_equal(f->core->subs->held_bytes, 0);
    for (size_t i = 0; i < f->event_count; i++) {
        assert_non_null(f->events[i]->contents);
        assert_int_equal(f->events[i]->code,
                         f->events[i]->metadata != NULL ? 0 : TDG_ETOOLARGE);
        lacking += f->events[i]->metadata == NULL;
    }
    assert_in_range(lacking, 8, MANY / 2);
    free(more);
}

/* It may have changed: that takes over what is known of the change that waits. */
static void what_is_compared_takes_over_what_is_held(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen;

    f->client.quiet_ms = 5000;
    listen = up(f, &reread);
    play_update(f, listen, "a:1", ""); /* is read */
    play_notify(f, listen, "notifications/resources/updated",
                "{'uri':'a:1','metadata':{'by':'somebody'}}"); /* waits for that */
    assert_true(f->core->subs->held_bytes > 0);
    fake_pass(f, 5001); /* the silent stream is checked */
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_true(f->core->subs->held_bytes > 0);

    fake_result(f, fake_find(f, READ), one);
    assert_told(f, "UPDATED a:1\n");
    fake_result(f, fake_find(f, READ), two);
    assert_int_equal(f->event_count, 1);
    assert_json_equal(f->events[0]->metadata, "{'by':'somebody'}");
    assert_told(f, "UPDATED a:1\n");
    assert_int_equal(f->core->subs->held_bytes, 0);
}

/* ---- By the clock ------------------------------------------------------- */

static void polling_finds_what_was_not_told(void **state) {
    struct fake *f = *state;

    up(f, &poll);
    fake_result(f, fake_find(f, READ), one);
    fake_pass(f, 10000);
    fake_result(f, fake_find(f, READ), one);
    assert_told(f, "");
    fake_pass(f, 10000);
    fake_result(f, fake_find(f, READ), two);
    assert_true(f->events[0]->polled);
    assert_null(f->events[0]->contents);
    assert_told(f, "UPDATED a:1\n");
    fake_pass(f, 10000);
    fake_error(f, fake_find(f, READ), -32603, "trouble", NULL);
    assert_told(f, "");
    fake_pass(f, 10000);
    fake_error(f, fake_find(f, READ), -32602, "gone", "{'uri':'a:1'}");
    assert_told(f, "DELETED a:1\n");
    fake_pass(f, 10000);
    fake_result(f, fake_find(f, READ), two);
    assert_told(f, "UPDATED a:1\n");
}

static void what_is_heard_of_is_not_polled(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, &poll);

    fake_result(f, fake_find(f, READ), one);
    for (int i = 0; i < 20; i++) {
        fake_pass(f, 5000);
        play_update(f, listen, "a:1", "");
    }
    assert_int_equal(fake_count(f, READ), 1);
}

/* What was told is not told again because a poll finds it; what comes after that is. */
static void a_poll_does_not_tell_what_was_told(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", &poll, "");
    listen = fake_find(f, LISTEN);
    fake_result(f, fake_find(f, READ), one);
    play_update(f, listen, "a:1", "");
    assert_told(f, "UPDATED a:1\n");
    fake_pass(f, 10000);
    fake_result(f, fake_find(f, READ), two);
    assert_told(f, "");

    /* This read may have been answered before or after the update. */
    fake_pass(f, 10000);
    play_update(f, listen, "a:1", "");
    assert_told(f, "UPDATED a:1\n");
    fake_result(f, fake_find(f, READ), two);
    fake_pass(f, 10000);
    fake_result(f, fake_find(f, READ), one);
    assert_told(f, "");

    fake_pass(f, 10000);
    fake_result(f, fake_find(f, READ), two);
    assert_told(f, "UPDATED a:1\n");
}

static void without_subscriptions_it_is_polled_only(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    json_object_clear(f->core->capabilities);
    note = play_subscribe(f, "a:1", &poll);
    assert_int_equal(note->calls, 0);
    fake_result(f, fake_find(f, READ), one);
    assert_int_equal(fake_code(note), 0);
    assert_int_equal(fake_count(f, LISTEN), 0);
    fake_pass(f, 10000);
    fake_result(f, fake_find(f, READ), two);
    assert_told(f, "UPDATED a:1\n");
    assert_int_equal(fake_code(play_unsubscribe(f, "a:1")), 0);
    fake_pass(f, 60000);
    assert_int_equal(play_open(f, READ), 0);

    note = play_subscribe(f, "a:2", &poll);
    fake_error(f, fake_find(f, READ), -32602, "no such", "{'uri':'a:2'}");
    assert_int_equal(fake_code(note), TDG_ENOTFOUND);
    assert_int_equal(f->core->counts.subscriptions, 0);
}

static void a_legacy_server_without_a_stream_is_polled(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_LEGACY);
    note = play_subscribe(f, "a:1", &poll);
    fake_status(f, fake_find(f, "GET"), 405, NULL);
    fake_result(f, fake_find(f, READ), one);
    assert_int_equal(fake_code(note), 0);
    fake_pass(f, 10000);
    fake_result(f, fake_find(f, READ), two);
    assert_told(f, "UPDATED a:1\n");
}

static void what_is_polled_after_all_is_not_retried(void **state) {
    static const char subscribe[] = "resources/subscribe";
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_LEGACY);
    note = play_subscribe(f, "a:1", &poll);
    fake_opened(f, fake_find(f, "GET"));
    fake_error(f, fake_find(f, subscribe), -32603, "starting", NULL);
    assert_int_equal(f->core->counts.retrying, 1);
    fake_pass(f, 1000);
    fake_error(f, fake_find(f, subscribe), -32601, "Method not found", NULL);
    fake_result(f, fake_find(f, READ), one);
    assert_int_equal(fake_code(note), 0);
    assert_int_equal(f->core->counts.retrying, 0);
}

/* Whoever refuses it again after a reconnect has not said what happened meanwhile. */
static void what_is_polled_is_compared_after_a_reconnect(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_subscribe(f, "a:1", &poll);
    fake_status(f, fake_find(f, "GET"), 405, NULL);
    fake_result(f, fake_find(f, READ), one);
    fake_pass(f, 10000);
    fake_broken(f, fake_find(f, READ), TDG__DELIVERY_NO_SESSION, true);
    fake_pass(f, 1000);
    fake_status(f, fake_find(f, "GET"), 405, NULL);
    fake_result(f, fake_find(f, READ), two);
    assert_true(f->events[f->event_count - 1]->polled);
    assert_told(f, "DOWN\nUP\nUPDATED a:1\n");
}

/* Live, lost, and refused when the stream is opened again. */
static void lose_and_refuse(struct fake *f) {
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), "a:1",
             "'dev.tidings/refused':{'a:1':'not_subscribable'}");
    assert_told(f, "DOWN\nUP\n");
}

static void what_was_live_is_compared_when_it_is_polled_only(void **state) {
    struct fake *f = *state;

    up(f, &poll);
    fake_result(f, fake_find(f, READ), one);
    lose_and_refuse(f);
    fake_result(f, fake_find(f, READ), two);
    assert_told(f, "UPDATED a:1\n");
    fake_pass(f, 10000);
    fake_result(f, fake_find(f, READ), two);
    assert_told(f, "");
}

static void what_was_live_and_is_the_same_is_not_told(void **state) {
    struct fake *f = *state;

    up(f, &poll);
    fake_result(f, fake_find(f, READ), one);
    lose_and_refuse(f);
    fake_result(f, fake_find(f, READ), one);
    assert_told(f, "");
}

/* The update was told, but its content was not read: what came after it nobody knows. */
static void what_was_live_and_is_unknown_may_have_changed(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, &poll);

    fake_result(f, fake_find(f, READ), one);
    play_update(f, listen, "a:1", "");
    assert_told(f, "UPDATED a:1\n");
    lose_and_refuse(f);
    fake_result(f, fake_find(f, READ), two);
    assert_told(f, "UPDATED a:1 maybe\n");
    fake_pass(f, 10000);
    fake_result(f, fake_find(f, READ), one);
    assert_told(f, "UPDATED a:1\n");
}

/* a:1 is refused for good, asked for again while its first read is under way, and then
 * refused for now. */
static struct fake_sent *
ask_again_during_the_first_read(struct fake *f, const tdg_subscribe_opts_t *opts) {
    struct fake_sent *read;

    fake_up(f, TDG_ERA_MODERN);
    play_subscribe(f, "a:1", &poll);
    play_ack(f, fake_find(f, LISTEN), "a:1",
             "'dev.tidings/refused':{'a:1':'not_subscribable'}");
    read = fake_find(f, READ);
    fake_pass(f, 1000);
    play_subscribe(f, "a:1", opts);
    play_ack(f, fake_find(f, LISTEN), "a:1",
             "'dev.tidings/refused':{'a:1':'subscription_failed'}");
    return read;
}

static void a_first_read_that_is_late_does_not_end_the_retries(void **state) {
    struct fake *f = *state;
    struct fake_sent *read = ask_again_during_the_first_read(f, &poll);

    fake_result(f, read, one);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    fake_pass(f, 1000);
    assert_int_equal(f->core->subs->put_off, 0);
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\n");
}

static void a_first_read_that_fails_late_is_not_repeated(void **state) {
    struct fake *f = *state;
    struct fake_sent *read = ask_again_during_the_first_read(f, NULL);
    size_t before = fake_count(f, READ);

    fake_status(f, read, 500, NULL);
    fake_pass(f, 10000);
    assert_int_equal(fake_count(f, READ), before);
}

static void many_polls_do_not_fall_together(void **state) {
    struct fake *f = *state;
    enum { MANY = 200 };
    char texts[MANY][16];
    const char *uris[MANY];
    size_t most = 0;

    fake_up(f, TDG_ERA_MODERN);
    for (int i = 0; i < MANY; i++) {
        snprintf(texts[i], sizeof(texts[i]), "a:%d", i);
        uris[i] = texts[i];
    }
    tdg__core_subscribe(f->core, uris, MANY, &poll, NULL, fake_done, fake_note(f));
    fake_run(f);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    while (fake_seek(f, READ) != NULL)
        fake_result(f, fake_find(f, READ), one);
    for (int ms = 0; ms < 20000; ms += 100) {
        size_t before = fake_count(f, READ);

        fake_pass(f, 100);
        while (fake_seek(f, READ) != NULL)
            fake_result(f, fake_find(f, READ), one);
        if (fake_count(f, READ) - before > most)
            most = fake_count(f, READ) - before;
    }
    assert_true(fake_count(f, READ) >= 2 * MANY);
    assert_true(most < MANY / 5);
    assert_told(f, "");
}

int main(void) {
#define HTTP(name) cmocka_unit_test_setup_teardown(name, fake_setup_http, fake_teardown)
    const struct CMUnitTest tests[] = {
        HTTP(an_update_is_told_with_its_contents),
        HTTP(an_answer_without_contents_is_told_as_such),
        HTTP(updates_meanwhile_make_one_more_read),
        HTTP(sixteen_reads_at_a_time),
        HTTP(what_cannot_be_read_is_told_all_the_same),
        HTTP(a_deletion_needs_no_read),
        HTTP(the_same_after_a_gap_is_not_told),
        HTTP(unsubscribing_drops_the_read),
        HTTP(a_template_reads_what_it_matches),
        HTTP(metadata_that_waits_for_a_read_is_bounded),
        HTTP(what_is_compared_takes_over_what_is_held),
        HTTP(polling_finds_what_was_not_told),
        HTTP(what_is_heard_of_is_not_polled),
        HTTP(a_poll_does_not_tell_what_was_told),
        HTTP(without_subscriptions_it_is_polled_only),
        HTTP(a_legacy_server_without_a_stream_is_polled),
        HTTP(what_is_polled_after_all_is_not_retried),
        HTTP(what_is_polled_is_compared_after_a_reconnect),
        HTTP(what_was_live_is_compared_when_it_is_polled_only),
        HTTP(what_was_live_and_is_the_same_is_not_told),
        HTTP(what_was_live_and_is_unknown_may_have_changed),
        HTTP(a_first_read_that_is_late_does_not_end_the_retries),
        HTTP(a_first_read_that_fails_late_is_not_repeated),
        HTTP(many_polls_do_not_fall_together),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("reread", tests, NULL, NULL);
}
