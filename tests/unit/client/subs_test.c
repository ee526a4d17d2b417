/* SPDX-License-Identifier: MIT
 *
 * Subscriptions as both eras share them: limits, refusals that pass, the end in every
 * state, and memory that runs out. */
#include <stdio.h>

#include <tidings/error.h>

#include "client/subs/subs.h"
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
                fake_broken(f, listen != NULL ? listen : get, TDG__DELIVERY_BROKEN, true);
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

            fake_init(f, TDG__TRANSPORT_HTTP);
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
                fake_broken(f, listen, TDG__DELIVERY_BROKEN, true);
        }
        for (int i = 0; i < 4 && fake_seek(f, "resources/subscribe") != NULL; i++)
            fake_result(f, fake_find(f, "resources/subscribe"), "{}");
        if (fake_seek(f, "GET") != NULL) {
            fake_opened(f, fake_find(f, "GET"));
            play_update(f, fake_find(f, "GET"), round % 2 == 0 ? "b:7" : "a:1", "");
            if (round == 3 && fake_seek(f, "GET") != NULL)
                fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_NO_SESSION, true);
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

        fake_init(f, TDG__TRANSPORT_HTTP);
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

/* ---- Refused for now ---------------------------------------------------- */

/* What a server answers, and whether that may pass. */
static const struct refusal {
    int status, rpc_code;
    bool passing;
    int code;
} refusals[] = {
    {0, -32006, true, TDG_EREFUSED},       {0, -32603, true, TDG_EREFUSED},
    {503, 0, true, TDG_EUNREACHABLE},      {429, 0, true, TDG_EUNREACHABLE},
    {503, -32603, true, TDG_EUNREACHABLE}, {0, -32002, false, TDG_ENOTFOUND},
    {0, -32602, false, TDG_EREFUSED},      {0, -32000, false, TDG_EREFUSED},
    {401, 0, false, TDG_EREFUSED},         {403, 0, false, TDG_EREFUSED},
};

static void refuse_with(struct fake *f, struct fake_sent *sent,
                        const struct refusal *refusal) {
    char body[64];

    if (refusal->status == 0) {
        fake_error(f, sent, refusal->rpc_code, "no", NULL);
        return;
    }
    snprintf(body, sizeof(body), "{'code':%d,'message':'no'}", refusal->rpc_code);
    fake_status(f, sent, refusal->status, refusal->rpc_code != 0 ? body : NULL);
}

static void refused(struct fake *f, tdg_era_t era, const struct refusal *refusal) {
    const char *method = era == TDG_ERA_MODERN ? LISTEN : "resources/subscribe";
    struct fake_note *note;

    fake_up(f, era);
    note = play_subscribe(f, "a:1", NULL);
    if (era == TDG_ERA_LEGACY)
        fake_opened(f, fake_find(f, "GET"));
    refuse_with(f, fake_find(f, method), refusal);
    if (!refusal->passing) {
        assert_int_equal(fake_code(note), refusal->code);
        fake_pass(f, 60000);
        assert_int_equal(fake_count(f, method), 1);
        return;
    }
    assert_int_equal(note->calls, 0);
    assert_int_equal(f->core->counts.retrying, 1);
    assert_true(fake_logged(f, "a:1 is temporarily refused, retrying"));
    fake_pass(f, 1000);
    if (era == TDG_ERA_MODERN)
        play_ack(f, fake_find(f, method), NULL, "");
    else
        fake_result(f, fake_find(f, method), "{}");
    assert_int_equal(fake_code(note), 0);
    assert_int_equal(f->core->counts.retrying, 0);
    assert_told(f, "");
}

static void each_refusal(tdg_era_t era) {
    for (size_t i = 0; i < COUNT(refusals); i++) {
        void *state;

        fake_setup_http(&state);
        refused(state, era, &refusals[i]);
        fake_teardown(&state);
    }
}

static void a_passing_refusal_is_retried_in_the_modern_era(void **state) {
    (void)state;
    each_refusal(TDG_ERA_MODERN);
}

static void a_passing_refusal_is_retried_in_the_legacy_era(void **state) {
    (void)state;
    each_refusal(TDG_ERA_LEGACY);
}

/* Refuses every attempt, until `note` has its outcome or the time is over. Returns how
 * many there were. */
static int refuse_all(struct fake *f, const char *method, const struct fake_note *note,
                      int64_t ms) {
    int64_t last = f->now, end = f->now + ms;
    int tries = 0;

    do {
        struct fake_sent *sent = fake_seek(f, method);

        if (sent != NULL) {
            assert_true(tries < 2 || sent->at_ms - last >= 250);
            last = sent->at_ms;
            tries++;
            fake_error(f, sent, -32603, "starting", NULL);
        }
    } while ((note == NULL || note->calls == 0) && fake_next(f, end - f->now) >= 0);
    return tries;
}

/* As reconnects are: growing, with jitter, and no more than 20 a minute. What was live
 * once is retried for as long as it takes. */
static void retries_are_bounded(void **state) {
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_NO_SESSION, true);
    fake_pass(f, 1000);
    fake_opened(f, fake_find(f, "GET"));
    assert_in_range(refuse_all(f, "resources/subscribe", NULL, 600000), 20, 60);
    assert_int_equal(f->core->counts.subscriptions, 1);
    assert_int_equal(f->core->counts.retrying, 1);
}

/* Who waits for the first outcome hears of a refusal in time, and why. */
static void a_refusal_is_reported_in_time(void **state) {
    (void)state;
    for (int era = TDG_ERA_MODERN; era <= TDG_ERA_LEGACY; era++) {
        const char *method = era == TDG_ERA_MODERN ? LISTEN : "resources/subscribe";
        struct fake_note *note;
        struct fake *f;
        int64_t began;
        void *fake;

        fake_setup_http(&fake);
        f = fake;
        f->client.timeout_ms = 60000;
        fake_up(f, (tdg_era_t)era);
        note = play_subscribe(f, "a:1", NULL);
        if (era == TDG_ERA_LEGACY)
            fake_opened(f, fake_find(f, "GET"));
        began = f->now;
        assert_in_range(refuse_all(f, method, note, 60000), 3, 8);
        assert_int_equal(f->now - began, 6000);
        assert_int_equal(fake_code(note), TDG_EREFUSED);
        assert_int_equal(note->rpc_code, -32603);
        assert_true(note->passing);
        assert_int_equal(f->core->counts.subscriptions, 0);
        assert_int_equal(f->core->counts.retrying, 0);
        fake_pass(f, 60000);
        assert_null(fake_seek(f, method)); /* nobody wants it any more */
        fake_teardown(&fake);
    }
}

/* The request that names it, and that has no answer yet; NULL: none. */
static struct fake_sent *seek_about(const struct fake *f, const char *uri) {
    for (size_t i = 0; i < f->sent_count; i++) {
        struct fake_sent *sent = f->sent[i];

        if (!sent->over && !sent->cancelled && sent->text != NULL &&
            strstr(sent->text, uri) != NULL)
            return sent;
    }
    return NULL;
}

static struct fake_sent *find_about(const struct fake *f, const char *uri) {
    struct fake_sent *sent = seek_about(f, uri);

    if (sent == NULL)
        fail_msg("nothing was sent about %s", uri);
    return sent;
}

/* The rest of the call has its time, and each has the reason of its own. */
static void a_refusal_hurries_nobody_else(void **state) {
    const char *const uris[] = {"a:1", "a:2", "a:3"};
    struct fake *f = *state;
    struct fake_sent *sent[3];
    struct fake_note *note;
    int codes[3] = {1, 1, 1};

    f->client.timeout_ms = 60000;
    fake_up(f, TDG_ERA_LEGACY);
    note = fake_note(f);
    tdg__core_subscribe(f->core, uris, 3, NULL, codes, fake_done, note);
    fake_run(f);
    fake_opened(f, fake_find(f, "GET"));
    for (int i = 0; i < 3; i++)
        sent[i] = find_about(f, uris[i]);
    fake_error(f, sent[0], -32603, "first", NULL);
    fake_status(f, sent[1], 503, NULL);
    fake_pass(f, 50);
    fake_pass(f, 6000);
    assert_int_equal(codes[0], TDG_EREFUSED);
    assert_int_equal(codes[1], TDG_EUNREACHABLE);
    assert_int_equal(note->calls, 0);
    fake_result(f, sent[2], "{}");
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    assert_int_equal(codes[2], 0);
    assert_int_equal(note->rpc_code, -32603);
    assert_non_null(strstr(note->message, "first"));
    assert_int_equal(f->core->counts.subscriptions, 1);
}

/* Answers every request about a URI with a refusal that may pass, until a time. Returns
 * how many there were. */
static int refuse_about(struct fake *f, const char *uri, int64_t until) {
    int tries = 0;

    do {
        struct fake_sent *sent = seek_about(f, uri);

        if (sent != NULL) {
            tries++;
            fake_error(f, sent, -32006, "starting", NULL);
        }
    } while (f->now < until && fake_next(f, until - f->now) >= 0);
    fake_pass(f, until - f->now);
    return tries;
}

/* Each URI of a call is retried for its own tenth of the time, however early another one
 * was refused. */
static void a_refusal_does_not_cut_the_retries_of_another_short(void **state) {
    const char *const uris[] = {"a:1", "a:2"};
    struct fake *f = *state;
    struct fake_sent *late;
    struct fake_note *note;
    int codes[2] = {1, 1};
    int64_t began;

    f->client.timeout_ms = 60000;
    fake_up(f, TDG_ERA_LEGACY);
    note = fake_note(f);
    tdg__core_subscribe(f->core, uris, 2, NULL, codes, fake_done, note);
    fake_run(f);
    fake_opened(f, fake_find(f, "GET"));
    began = f->now;
    late = find_about(f, "a:2");
    refuse_about(f, "a:1", began + 5900);
    fake_error(f, late, -32006, "busy", NULL);
    refuse_about(f, "a:1", began + 6000);
    assert_int_equal(codes[0], TDG_EREFUSED);
    assert_int_equal(codes[1], 1);
    assert_int_equal(f->core->counts.retrying, 1);

    /* the steps have grown with the tries before */
    assert_in_range(refuse_about(f, "a:2", began + 11899), 1, 8);
    assert_int_equal(note->calls, 0);
    refuse_about(f, "a:2", began + 11900);
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    assert_int_equal(codes[1], TDG_EREFUSED);
    assert_int_equal(f->core->counts.subscriptions, 0);
}

/* One is refused for good; the retries of the other go on until it is live. */
static void a_refusal_for_good_leaves_the_retries_of_another(void **state) {
    const char *const uris[] = {"a:1", "a:2"};
    struct fake *f = *state;
    struct fake_note *note = fake_note(f);
    int codes[2] = {1, 1};

    f->client.timeout_ms = 60000;
    fake_up(f, TDG_ERA_LEGACY);
    tdg__core_subscribe(f->core, uris, 2, NULL, codes, fake_done, note);
    fake_run(f);
    fake_opened(f, fake_find(f, "GET"));
    fake_error(f, find_about(f, "a:2"), -32006, "starting", NULL);
    fake_error(f, find_about(f, "a:1"), -32002, "no such thing", NULL);
    assert_int_equal(codes[0], TDG_ENOTFOUND);
    assert_in_range(refuse_about(f, "a:2", f->now + 2000), 1, 5);
    while (seek_about(f, "a:2") == NULL)
        assert_true(fake_next(f, 4000) >= 0);
    assert_int_equal(note->calls, 0);
    fake_result(f, find_about(f, "a:2"), "{}");
    assert_int_equal(fake_code(note), TDG_ENOTFOUND);
    assert_int_equal(codes[1], 0);
    assert_int_equal(f->core->counts.subscriptions, 1);
}

static struct fake_sent *listen_after(struct fake *f, const struct fake_sent *last) {
    while (fake_find(f, LISTEN) == last)
        assert_true(fake_next(f, 6000) >= 0);
    return fake_find(f, LISTEN);
}

/* The same on a stream, whose acknowledgement leaves both out. */
static void left_out_for_good_leaves_the_retries_of_another(void **state) {
    const char *const uris[] = {"a:1", "a:2"};
    struct fake *f = *state;
    struct fake_note *note = fake_note(f);
    struct fake_sent *listen;
    int codes[2] = {1, 1};
    char params[256];

    f->client.timeout_ms = 60000;
    fake_up(f, TDG_ERA_MODERN);
    tdg__core_subscribe(f->core, uris, 2, NULL, codes, fake_done, note);
    fake_run(f);
    listen = fake_find(f, LISTEN);
    fake_opened(f, listen);
    snprintf(params, sizeof(params),
             "{'notifications':{},'_meta':{'dev.tidings/refused':{'a:1':'not_found',"
             "'a:2':'subscription_failed'},"
             "'io.modelcontextprotocol/subscriptionId':%s}}",
             listen->id);
    play_notify(f, listen, "notifications/subscriptions/acknowledged", params);
    assert_int_equal(codes[0], TDG_ENOTFOUND);
    assert_int_equal(note->calls, 0);
    assert_int_equal(f->core->counts.retrying, 1);
    for (int i = 0; i < 2; i++) {
        listen = listen_after(f, listen);
        play_ack(f, listen, "a:2", "'dev.tidings/refused':{'a:2':'subscription_failed'}");
    }
    listen = listen_after(f, listen);
    assert_int_equal(note->calls, 0);
    play_ack(f, listen, NULL, "");
    assert_int_equal(fake_code(note), TDG_ENOTFOUND);
    assert_int_equal(codes[1], 0);
}

/* One of a stream; the others are live. What it misses until then nobody can say. */
static void one_of_a_stream_is_retried(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    note = play_subscribe(f, "a:2", NULL);
    play_ack(f, fake_find(f, LISTEN), "a:2",
             "'dev.tidings/refused':{'a:2':'subscription_failed'}");
    assert_int_equal(note->calls, 0);
    assert_int_equal(f->core->counts.retrying, 1);
    play_update(f, fake_find(f, LISTEN), "a:1", "");
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(note), 0);
    assert_told(f, "UPDATED a:1\n");

    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), "a:2",
             "'dev.tidings/refused':{'a:2':'subscription_failed'}");
    assert_told(f, "DOWN\nUPDATED a:1 maybe\n");
    fake_pass(f, 2000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "UP\nUPDATED a:2 maybe\n");
}

/* One that was live is left out when another joins: nobody watches it until a retry. */
static void a_live_one_that_is_left_out_is_retried(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    note = play_subscribe(f, "a:2", NULL);
    play_ack(f, fake_find(f, LISTEN), "a:1",
             "'dev.tidings/refused':{'a:1':'subscription_failed'}");
    assert_int_equal(fake_code(note), 0);
    assert_int_equal(f->core->counts.retrying, 1);
    fake_pass(f, 1000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(f->core->counts.retrying, 0);
    assert_told(f, "UPDATED a:1 maybe\n");
}

/* A server that ends every stream before it acknowledges it gives no reason. */
static void a_stream_that_only_ends_is_no_success(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    note = play_subscribe(f, "a:1", NULL);
    while (note->calls == 0) {
        struct fake_sent *sent = fake_seek(f, LISTEN);

        if (sent != NULL)
            fake_result(f, sent, "{}");
        fake_next(f, 600000);
    }
    assert_int_equal(fake_code(note), TDG_ETIMEDOUT);
    assert_int_equal(f->core->counts.subscriptions, 0);
    assert_int_equal(f->core->counts.retrying, 0);
}

/* Refused for a reason that may pass, and given up while a retry is under way, it is
 * polled from then on; then the retry is acknowledged. */
static void is_polled_while_a_retry_is_under_way(struct fake *f, struct fake_note *note,
                                                 const char *method) {
    assert_int_equal(note->calls, 0);
    fake_pass(f, 5000);
    assert_non_null(fake_seek(f, method));
    fake_pass(f, 2000);
    assert_int_equal(note->calls, 1);
    assert_int_equal(note->code, TDG_ENOTSUP);
}

static void a_late_answer_makes_a_polled_one_live(void **state) {
    const tdg_subscribe_opts_t opts = {.poll_ms = 10000};
    struct fake *f = *state;
    struct fake_note *note;

    f->client.timeout_ms = 60000;
    fake_up(f, TDG_ERA_LEGACY);
    note = play_subscribe(f, "a:1", &opts);
    fake_opened(f, fake_find(f, "GET"));
    fake_error(f, fake_find(f, "resources/subscribe"), -32603, "starting",
               "{'error_type':'not_subscribable'}");
    is_polled_while_a_retry_is_under_way(f, note, "resources/subscribe");
    fake_result(f, fake_find(f, "resources/subscribe"), "{}");
    fake_pass(f, 1000);
    assert_int_equal(f->core->counts.subscriptions, 1);
}

static void a_late_acknowledgement_makes_a_polled_one_live(void **state) {
    const tdg_subscribe_opts_t opts = {.poll_ms = 10000};
    struct fake *f = *state;
    struct fake_note *note;

    f->client.timeout_ms = 60000;
    fake_up(f, TDG_ERA_MODERN);
    note = play_subscribe(f, "a:1", &opts);
    fake_status(f, fake_find(f, LISTEN), 409, "{'code':-32601,'message':'no'}");
    is_polled_while_a_retry_is_under_way(f, note, LISTEN);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    fake_pass(f, 1000);
    assert_int_equal(f->core->counts.subscriptions, 1);
}

/* ---- Retry-After -------------------------------------------------------- */

static const tdg_subscribe_opts_t other_stream = {.batch_ms = 7};

static struct fake_sent *next_about(struct fake *f, const char *uri, int64_t within_ms) {
    const int64_t end = f->now + within_ms;

    while (seek_about(f, uri) == NULL && fake_next(f, end - f->now) >= 0) {
    }
    return find_about(f, uri);
}

/* Nothing is sent about it for so long; then it is, at once or a little later. */
static struct fake_sent *wait_out(struct fake *f, const char *uri, int64_t ms) {
    fake_pass(f, ms - 1);
    assert_null(seek_about(f, uri));
    return next_about(f, uri, 200);
}

/* One stream is refused, and a little later, while it waits, the other one for a
 * minute. */
static void refuse_two_streams(struct fake *f, struct fake_note *notes[2]) {
    f->client.timeout_ms = 900000;
    fake_up(f, TDG_ERA_MODERN);
    notes[0] = play_subscribe(f, "a:1", NULL);
    notes[1] = play_subscribe(f, "b:1", &other_stream);
    fake_status(f, find_about(f, "a:1"), 503, NULL);
    fake_pass(f, 50);
    fake_retry_after(f, find_about(f, "b:1"), 503, 60000);
}

static void a_stream_waits_for_its_own_retry_after(void **state) {
    struct fake *f = *state;
    struct fake_note *notes[2];
    int64_t refused_at;

    refuse_two_streams(f, notes);
    refused_at = f->now;
    play_ack(f, next_about(f, "a:1", 500), NULL, "");
    assert_int_equal(fake_code(notes[0]), 0);
    play_ack(f, wait_out(f, "b:1", refused_at + 60000 - f->now), NULL, "");
    assert_int_equal(fake_code(notes[1]), 0);
    assert_int_equal(f->core->subs->retry.timer.pos, 0);
}

static void retry_after_of_one_stream_holds_up_no_other(void **state) {
    struct fake *f = *state;
    struct fake_note *notes[2];

    refuse_two_streams(f, notes);
    fake_status(f, next_about(f, "a:1", 500), 503, NULL);
    fake_status(f, next_about(f, "a:1", 1000), 503, NULL);
    play_ack(f, next_about(f, "a:1", 2000), NULL, "");
    assert_int_equal(fake_code(notes[0]), 0);
    assert_null(seek_about(f, "b:1"));
}

static void each_legacy_subscription_waits_for_its_own_retry_after(void **state) {
    struct fake *f = *state;
    int64_t refused_at;

    f->client.timeout_ms = 900000;
    fake_up(f, TDG_ERA_LEGACY);
    play_subscribe(f, "a:1", NULL);
    play_subscribe(f, "a:2", NULL);
    fake_opened(f, fake_find(f, "GET"));
    fake_status(f, find_about(f, "a:1"), 503, NULL);
    fake_pass(f, 50);
    refused_at = f->now;
    fake_retry_after(f, find_about(f, "a:2"), 503, 60000);
    play_subscribe(f, "a:2", NULL); /* who asks again waits as well */
    fake_status(f, next_about(f, "a:1", 500), 503, NULL);
    fake_result(f, next_about(f, "a:1", 1000), "{}");
    fake_result(f, wait_out(f, "a:2", refused_at + 60000 - f->now), "{}");
    assert_int_equal(f->core->counts.retrying, 0);
    assert_int_equal(f->core->subs->retry.timer.pos, 0);
}

/* Refuses what is sent about a:1, in either era, and wants a minute of rest. */
static void refuse_for_a_minute(struct fake *f) {
    fake_retry_after(f, find_about(f, "a:1"), 503, 60000);
}

static void assert_refused_for_now(const struct fake_note *note) {
    assert_int_equal(fake_code(note), TDG_EUNREACHABLE);
    assert_int_equal(note->http_status, 503);
    assert_true(note->passing);
}

/* Each call returns after its own tenth, and none of them hurries the server. */
static void who_joins_a_wait_hears_of_the_refusal(struct fake *f, tdg_era_t era) {
    struct fake_note *first, *second;

    fake_up(f, era);
    first = play_subscribe(f, "a:1", NULL);
    if (era == TDG_ERA_LEGACY)
        fake_opened(f, fake_find(f, "GET"));
    refuse_for_a_minute(f);
    fake_pass(f, 3000);
    second = play_subscribe(f, "a:1", NULL);
    assert_null(seek_about(f, "a:1"));
    fake_pass(f, 3000);
    assert_refused_for_now(first);
    fake_pass(f, 2999);
    assert_int_equal(second->calls, 0);
    fake_pass(f, 1);
    assert_refused_for_now(second);
    assert_null(seek_about(f, "a:1"));
    assert_int_equal(f->core->counts.subscriptions, 0);
    assert_int_equal(f->core->counts.retrying, 0);
}

/* The same where nobody was waiting when the server refused it: it was live before, and
 * is retried whatever a call returns. */
static void who_joins_a_reconnect_hears_of_the_refusal(struct fake *f, tdg_era_t era) {
    struct fake_note *note;
    int64_t refused_at;

    fake_up(f, era);
    play_live(f, "a:1", NULL, "");
    fake_broken(f, fake_find(f, era == TDG_ERA_LEGACY ? "GET" : LISTEN),
                era == TDG_ERA_LEGACY ? TDG__DELIVERY_NO_SESSION : TDG__DELIVERY_BROKEN,
                true);
    fake_pass(f, 1000);
    if (era == TDG_ERA_LEGACY)
        fake_opened(f, fake_find(f, "GET"));
    refuse_for_a_minute(f);
    refused_at = f->now;
    fake_pass(f, 1000);
    note = play_subscribe(f, "a:1", NULL);
    fake_pass(f, 5999);
    assert_int_equal(note->calls, 0);
    fake_pass(f, 1);
    assert_refused_for_now(note);
    assert_int_equal(f->core->counts.subscriptions, 1);
    assert_int_equal(f->core->counts.retrying, 1);
    wait_out(f, "a:1", refused_at + 60000 - f->now);
}

/* Two more of the stream that is refused: one during the wait, one during the request. */
static void who_joins_a_stream_that_waits_hears_of_the_refusal(void **state) {
    struct fake *f = *state;
    struct fake_note *during, *before;

    f->client.timeout_ms = 60000;
    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "b:1", &other_stream, "");
    play_subscribe(f, "a:1", NULL);
    before = play_subscribe(f, "a:2", NULL);
    refuse_for_a_minute(f);
    fake_pass(f, 3000);
    during = play_subscribe(f, "a:3", NULL);
    assert_int_equal(f->core->counts.retrying, 3);
    fake_pass(f, 3000);
    assert_refused_for_now(before);
    fake_pass(f, 2999);
    assert_int_equal(during->calls, 0);
    fake_pass(f, 1);
    assert_refused_for_now(during);
    assert_int_equal(f->core->counts.subscriptions, 1);
    assert_int_equal(f->core->counts.retrying, 0);

    play_subscribe(f, "a:4", NULL); /* nobody wants the stream by now: another attempt */
    assert_non_null(seek_about(f, "a:4"));
}

static void in_both_eras(void (*play)(struct fake *f, tdg_era_t era)) {
    for (int era = TDG_ERA_MODERN; era <= TDG_ERA_LEGACY; era++) {
        void *fake;

        fake_setup_http(&fake);
        ((struct fake *)fake)->client.timeout_ms = 60000;
        play(fake, (tdg_era_t)era);
        fake_teardown(&fake);
    }
}

static void a_call_during_retry_after_returns_in_time(void **state) {
    (void)state;
    in_both_eras(who_joins_a_wait_hears_of_the_refusal);
    in_both_eras(who_joins_a_reconnect_hears_of_the_refusal);
}

/* UP is about what was live before. */
static void a_first_subscription_that_waits_does_not_delay_up(void **state) {
    struct fake *f = *state;

    f->client.timeout_ms = 900000;
    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    play_subscribe(f, "a:2", NULL);
    fake_retry_after(f, find_about(f, "a:2"), 503, 60000);
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 1000);
    fake_opened(f, fake_find(f, "GET"));
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\n");
}

static void the_get_stream_waits_for_its_own_retry_after(void **state) {
    struct fake *f = *state;

    f->client.timeout_ms = 900000;
    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:1", NULL, "");
    play_subscribe(f, "a:2", NULL);
    fake_broken(f, fake_find(f, "GET"), TDG__DELIVERY_BROKEN, true);
    fake_pass(f, 500);
    fake_status(f, find_about(f, "a:2"), 503, NULL);
    fake_retry_after(f, fake_find(f, "GET"), 503, 60000);
    fake_pass(f, 59999);
    assert_null(fake_seek(f, "GET"));
    fake_pass(f, 200);
    fake_opened(f, fake_find(f, "GET"));
    fake_result(f, find_about(f, "a:2"), "{}");
    assert_int_equal(f->core->subs->retry.timer.pos, 0);
}

int main(void) {
#define HTTP(name) cmocka_unit_test_setup_teardown(name, fake_setup_http, fake_teardown)
    const struct CMUnitTest tests[] = {
        HTTP(a_late_answer_makes_a_polled_one_live),
        HTTP(a_late_acknowledgement_makes_a_polled_one_live),
        HTTP(bad_ones_are_refused_one_by_one),
        HTTP(no_uris_are_fine),
        HTTP(there_is_a_limit),
        HTTP(subscribing_twice_is_one_subscription),
        cmocka_unit_test(it_can_end_in_every_state),
        HTTP(after_the_end_everything_is_over),
        cmocka_unit_test(a_passing_refusal_is_retried_in_the_modern_era),
        cmocka_unit_test(a_passing_refusal_is_retried_in_the_legacy_era),
        HTTP(retries_are_bounded),
        cmocka_unit_test(a_refusal_is_reported_in_time),
        HTTP(a_refusal_hurries_nobody_else),
        HTTP(a_refusal_does_not_cut_the_retries_of_another_short),
        HTTP(a_refusal_for_good_leaves_the_retries_of_another),
        HTTP(left_out_for_good_leaves_the_retries_of_another),
        HTTP(one_of_a_stream_is_retried),
        HTTP(a_live_one_that_is_left_out_is_retried),
        HTTP(a_stream_that_only_ends_is_no_success),
        HTTP(a_stream_waits_for_its_own_retry_after),
        HTTP(retry_after_of_one_stream_holds_up_no_other),
        HTTP(each_legacy_subscription_waits_for_its_own_retry_after),
        cmocka_unit_test(a_call_during_retry_after_returns_in_time),
        HTTP(who_joins_a_stream_that_waits_hears_of_the_refusal),
        HTTP(a_first_subscription_that_waits_does_not_delay_up),
        HTTP(the_get_stream_waits_for_its_own_retry_after),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(memory_may_run_out_in_a_session),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("subs", tests, NULL, NULL);
}
