/* SPDX-License-Identifier: MIT
 *
 * Everything that grows has a limit, and each limit its own error. */
#include <stdio.h>

#include "unit/core/fixture.h"

static int setup_small(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){
                                     .calls = calls_pushed,
                                     .defaults = at_once,
                                     .max_streams = 3,
                                     .max_subscriptions = 4,
                                     .max_templates = 2,
                                     .max_total = 6,
                                     .max_name_bytes = 8,
                                     .max_metadata_bytes = 32,
                                     .max_filter_bytes = 40,
                                     .max_filter_depth = 2,
                                     .max_pending = 3,
                                 });
}

static int subscribe_rv(struct fixture *f, tdg__stream_t s, const tdg__target_t *target) {
    return tdg__engine_subscribe(f->engine, s, target, NULL, NULL);
}

/* ---- Streams and subscriptions ------------------------------------------ */

static void one_stream_too_many_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t first = open_stream(f), another = 77;

    open_stream(f);
    open_stream(f);
    assert_int_equal(tdg__engine_open(f->engine, NULL, &another), TDG_ESTREAMS);
    assert_int_equal(another, 77);
    assert_int_equal(counters(f).streams, 3);
    tdg__engine_close(f->engine, first);
    open_stream(f);
}

static void an_ended_stream_counts_until_it_is_closed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), another;

    open_stream(f);
    open_stream(f);
    assert_int_equal(tdg__engine_end(f->engine, s, 0), 0);
    assert_int_equal(tdg__engine_open(f->engine, NULL, &another), TDG_ESTREAMS);
}

static void one_subscription_too_many_on_a_stream_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    subscribe_template(f, s, "a:{x}");
    subscribe_list(f, s, "tools");
    assert_int_equal(subscribe_rv(f, s, URI("a:3")), TDG_ESUBSCRIPTIONS);
    assert_int_equal(subscribe_rv(f, s, TEMPLATE("b:{x}")), TDG_ESUBSCRIPTIONS);
    assert_int_equal(subscribe_rv(f, s, LIST("prompts")), TDG_ESUBSCRIPTIONS);
    expect_state(f, s, URI("a:3"), TDG__NOT_SUBSCRIBED);
    assert_int_equal(counters(f).subscriptions, 4);
    assert_int_equal(counters(f).resources, 3);
    unsubscribe(f, s, "a:1");
    subscribe(f, s, "a:3");
}

static void the_same_subscription_again_is_not_one_more(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    subscribe(f, s, "a:3");
    subscribe(f, s, "a:4");
    subscribe_settings(f, s, "a:4", batch(100));
}

static void one_template_too_many_on_a_stream_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe_template(f, s, "b:{x}");
    assert_int_equal(subscribe_rv(f, s, TEMPLATE("c:{x}")), TDG_ETEMPLATES);
    assert_int_equal(counters(f).templates, 2);
    subscribe(f, s, "c:1");
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, TEMPLATE("a:{x}")), 0);
    subscribe_template(f, s, "c:{x}");
}

static void one_subscription_too_many_in_all_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    subscribe(f, s, "a:3");
    subscribe(f, t, "a:1");
    subscribe(f, t, "a:2");
    subscribe(f, t, "a:3");
    assert_int_equal(subscribe_rv(f, t, URI("a:4")), TDG_ETOTAL);
    assert_int_equal(counters(f).subscriptions, 6);
    tdg__engine_close(f->engine, s);
    subscribe(f, t, "a:4");
}

/* ---- Names, metadata, filters ------------------------------------------- */

static void a_name_as_long_as_the_limit_is_accepted(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:345678");
    subscribe_template(f, s, "a:{5678}");
    changed(f, "a:345678", NULL);
    expect_note(f, s, "a:345678", 1, 0);
}

static void a_name_one_byte_longer_is_refused_everywhere(void **state) {
    struct fixture *f = *state;
    const tdg__target_t *uri = URI("a:3456789"), *template_ = TEMPLATE("a:{56789}");
    tdg__settings_t settings = batch(40);
    tdg__stream_t s = open_stream(f);
    tdg__change_t *change = NULL;
    uint64_t number = 77;

    assert_int_equal(subscribe_rv(f, s, uri), TDG_EURILEN);
    assert_int_equal(subscribe_rv(f, s, template_), TDG_EURILEN);
    assert_int_equal(tdg__engine_publish(f->engine, uri, NULL, false, &number),
                     TDG_EURILEN);
    assert_int_equal(tdg__engine_publish(f->engine, uri, NULL, true, &number),
                     TDG_EURILEN);
    assert_int_equal(tdg__engine_configure(f->engine, uri, &settings), TDG_EURILEN);
    assert_int_equal(tdg__engine_configure(f->engine, template_, &settings), TDG_EURILEN);
    assert_int_equal(
        tdg__engine_configure(f->engine, uri, &(tdg__settings_t){.rate_limit_ms = 5}),
        TDG_EURILEN);
    assert_int_equal(tdg__change_create(uri, NULL, false, 0, 32, &change), 0);
    assert_int_equal(tdg__change_stamp(change, 5), 0);
    assert_int_equal(tdg__engine_apply(f->engine, change), TDG_EURILEN);
    tdg__change_unref(change);
    assert_int_equal(number, 77);
    assert_int_equal(counters(f).last_number, 0);
    assert_int_equal(counters(f).resources, 0);
}

static void the_names_of_lists_are_not_measured(void **state) {
    struct fixture *f = *state; /* "resources" has nine bytes */
    tdg__stream_t s = open_stream(f);

    subscribe_list(f, s, "resources");
    list_changed(f, "resources");
    expect_list_note(f, s, "resources", 1, 0);
}

static void metadata_too_large_is_refused_and_tells_nobody(void **state) {
    struct fixture *f = *state;
    json_t *fits = json_from("{'text': '345678901234567890123'}");   /* 32 bytes */
    json_t *large = json_from("{'text': '3456789012345678901234'}"); /* 33 bytes */
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), large, false, NULL),
                     TDG_EMETADATA);
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), large, true, NULL),
                     TDG_EMETADATA);
    expect_silence(f);
    assert_int_equal(counters(f).last_number, 0);
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), fits, false, NULL), 0);
    expect_note(f, s, "a:1", 1, 0);
    json_decref(fits);
    json_decref(large);
}

static int subscribe_filter_rv(struct fixture *f, tdg__stream_t s, const char *text) {
    json_t *filter = json_from(text);
    tdg__sub_opts_t opts = {.filter = filter};
    int rv = tdg__engine_subscribe(f->engine, s, URI("a:1"), &opts, NULL);

    json_decref(filter);
    return rv;
}

static void a_filter_too_large_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(/* 41 bytes */
                     subscribe_filter_rv(f, s,
                                         "{'metadata.title':{'eq':'56789012345678'}}"),
                     TDG_EFILTERSIZE);
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    assert_int_equal(/* 40 bytes */
                     subscribe_filter_rv(f, s,
                                         "{'metadata.title':{'eq':'567890123456'}}"),
                     0);
}

static void a_filter_nested_too_deeply_is_refused(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    assert_int_equal(subscribe_filter_rv(f, s, "{'not':{'not':{'uri':{'eq':'a'}}}}"),
                     TDG_EFILTERDEPTH);
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    assert_int_equal(subscribe_filter_rv(f, s, "{'not':{'uri':{'eq':'a'}}}"), 0);
}

static void the_built_in_limits_are_as_documented(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    char name[4098], *text = calloc(1, 16500);
    json_t *metadata = json_object();

    memset(name, 'x', 4097);
    name[4097] = '\0';
    assert_int_equal(subscribe_rv(f, s, URI(name)), TDG_EURILEN);
    name[4096] = '\0';
    assert_int_equal(subscribe_rv(f, s, URI(name)), 0);

    assert_non_null(text);
    memset(text, 'x', 16384 - strlen("{\"t\":\"\"}"));
    json_object_set_new(metadata, "t", json_string(text));
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), metadata, false, NULL),
                     0);
    json_decref(metadata);
    metadata = json_object();
    strcat(text, "x");
    json_object_set_new(metadata, "t", json_string(text));
    assert_int_equal(tdg__engine_publish(f->engine, URI("a:1"), metadata, false, NULL),
                     TDG_EMETADATA);
    json_decref(metadata);
    free(text);

    for (int i = 0; i < 9999; i++) {
        snprintf(name, sizeof(name), "a:%d", i);
        subscribe(f, s, name);
    }
    assert_int_equal(subscribe_rv(f, s, URI("b:1")), TDG_ESUBSCRIPTIONS);

    s = open_stream(f);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof(name), "t%d:{x}", i);
        subscribe_template(f, s, name);
    }
    assert_int_equal(subscribe_rv(f, s, TEMPLATE("b:{x}")), TDG_ETEMPLATES);
}

/* ---- Too much pending --------------------------------------------------- */

static void change_each(struct fixture *f, int from, int to) {
    char uri[16];

    for (int i = from; i <= to; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        changed(f, uri, NULL);
    }
}

static void too_many_uris_pending_through_a_template_end_the_stream(void **state) {
    struct fixture *f = *state; /* three may wait */
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe(f, s, "b:1");
    change_each(f, 1, 3);
    expect_state(f, s, TEMPLATE("a:{x}"), TDG__SUBSCRIBED);
    assert_int_equal(counters(f).ended, 0);
    change_each(f, 4, 4);
    assert_int_equal(counters(f).ended, 1);
    assert_int_equal(counters(f).pending, 0);
    assert_int_equal(counters(f).subscriptions, 0);
    expect_state(f, s, URI("b:1"), TDG__NOT_SUBSCRIBED);
    assert_int_equal(tdg__engine_next_ready(f->engine, 0), s);
    expect_end(f, s, TDG_EPENDING, 0);
    expect_silence(f);
    assert_int_equal(subscribe_rv(f, s, URI("b:1")), TDG_EENDED);
}

static void the_cursor_is_what_it_was_before_the_change_that_was_too_much(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    change_each(f, 1, 2);
    assert_int_equal(drain(f), 2);
    changed(f, "x:1", NULL); /* 3 */
    change_each(f, 1, 3);    /* 4 to 6 */
    expect_cursor(f, s, 3);
    change_each(f, 4, 4);
    expect_end(f, s, TDG_EPENDING, 3);
}

static void the_same_uri_again_is_not_one_more(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    for (int i = 0; i < 10; i++)
        change_each(f, 1, 3);
    assert_int_equal(counters(f).ended, 0);
    assert_int_equal(drain(f), 3);
}

static void what_is_taken_makes_room(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    for (int i = 0; i < 100; i++) {
        change_each(f, 3 * i, 3 * i + 2);
        assert_int_equal(drain(f), 3);
    }
    assert_int_equal(counters(f).ended, 0);
}

static void what_waits_for_window_limit_or_acknowledgement_counts(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f), u = open_stream(f);
    tdg__sub_opts_t slow = {.settings = batch(100)};
    tdg__sub_opts_t seldom = {.settings = rate_limit(1000)};

    subscribe_with(f, s, TEMPLATE("a:{x}"), &slow);
    subscribe_only(f, t, TEMPLATE("a:{x}"), NULL);
    subscribe_with(f, u, TEMPLATE("a:{x}"), &seldom);
    change_each(f, 1, 3);
    assert_int_equal(drain(f), 3); /* of u */
    change_each(f, 1, 3);
    assert_int_equal(counters(f).ended, 0);
    change_each(f, 4, 4);
    assert_int_equal(counters(f).ended, 3);
    assert_int_equal(drain(f), 3);
}

static void each_template_subscription_counts_by_itself(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe_template(f, s, "a:{+x}");
    change_each(f, 1, 1); /* two wait */
    assert_int_equal(counters(f).ended, 0);
    change_each(f, 2, 2);
    expect_end(f, s, TDG_EPENDING, 0);
}

static void a_stream_with_too_much_in_several_templates_ends_once(void **state) {
    struct fixture *f = *state; /* two may wait */
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe_template(f, s, "a:{+x}");
    subscribe_template(f, t, "a:{x}");
    change_each(f, 1, 2);
    assert_int_equal(counters(f).ended, 1);
    expect_end(f, s, TDG_EPENDING, 0);
    expect_note(f, t, "a:1", 1, 0);
    expect_note(f, t, "a:2", 2, 0);
}

static int setup_two_pending(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_pushed,
                                                       .defaults = at_once,
                                                       .max_pending = 2});
}

static void concrete_subscriptions_do_not_count(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    subscribe(f, s, "a:3");
    subscribe(f, s, "a:4");
    change_each(f, 1, 4);
    assert_int_equal(counters(f).ended, 0);
    assert_int_equal(drain(f), 4);
}

static void the_end_of_one_stream_leaves_the_others_alone(void **state) {
    struct fixture *f = *state;
    tdg__stream_t slow = open_stream(f), fast = open_stream(f);
    tdg__note_t note;
    size_t notes = 0;
    char uri[16];

    subscribe_template(f, slow, "a:{x}");
    subscribe_template(f, fast, "a:{x}");
    for (int i = 0; i < 10; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        changed(f, uri, NULL);
        while (tdg__engine_take(f->engine, fast, &note) == 1)
            notes++;
    }
    assert_int_equal(notes, 10);
    assert_int_equal(counters(f).ended, 1);
    expect_end(f, slow, TDG_EPENDING, 0);
}

static void many_streams_may_be_ended_by_one_change(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s[3];

    for (int i = 0; i < 3; i++) {
        s[i] = open_stream(f);
        subscribe_template(f, s[i], "a:{x}");
    }
    change_each(f, 1, 4);
    assert_int_equal(counters(f).ended, 3);
    for (int i = 0; i < 3; i++)
        expect_end(f, s[i], TDG_EPENDING, 0);
}

static void a_deletion_can_be_the_one_too_much(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    change_each(f, 1, 3);
    deleted(f, "a:4");
    expect_end(f, s, TDG_EPENDING, 0);
}

static void remembered_limits_are_bounded(void **state) {
    struct fixture *f = *state; /* three are remembered */
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t seldom = {.settings = rate_limit(60000)};
    size_t live = 0;
    char uri[16];

    subscribe_with(f, s, TEMPLATE("a:{x}"), &seldom);
    for (int i = 0; i < 5000; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        changed(f, uri, NULL);
        expect_note(f, s, uri, (uint64_t)i + 1, 0);
        if (i == 1000)
            live = memory_live();
    }
    assert_true(memory_live() <= live);
    assert_int_equal(counters(f).ended, 0);
}

static void as_many_limits_are_remembered_as_may_wait(void **state) {
    struct fixture *f = *state; /* three */
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t seldom = {.settings = rate_limit(1000)};

    subscribe_with(f, s, TEMPLATE("a:{x}"), &seldom);
    change_each(f, 1, 3);
    assert_int_equal(drain(f), 3);
    change_each(f, 3, 3);
    expect_silence(f);
    change_each(f, 4, 4);
    assert_int_equal(drain(f), 1);
    change_each(f, 4, 4);
    assert_int_equal(drain(f), 1); /* one more than is remembered */
    advance(f, 1000);
    expect_note(f, s, "a:3", 4, 0);
}

static void limits_that_are_over_make_room_for_others(void **state) {
    struct fixture *f = *state; /* three are remembered */
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t seldom = {.settings = rate_limit(1000)};

    subscribe_with(f, s, TEMPLATE("a:{x}"), &seldom);
    for (int i = 1; i <= 9; i++) {
        change_each(f, i, i);
        assert_int_equal(drain(f), 1);
        change_each(f, i, i);
        expect_silence(f); /* its limit is kept */
        advance(f, 1000);
        assert_int_equal(drain(f), 1);
        advance(f, 1000);
    }
}

static void beyond_the_remembered_limits_a_change_is_sooner_but_not_lost(void **state) {
    struct fixture *f = *state; /* three are remembered, three may wait */
    tdg__stream_t s = open_stream(f);
    tdg__sub_opts_t seldom = {.settings = rate_limit(1000)};
    uint64_t told[6] = {0};

    subscribe_with(f, s, TEMPLATE("a:{x}"), &seldom);
    for (int i = 1; i <= 5; i++) {
        change_each(f, i, i);
        assert_int_equal(drain(f), 1);
    }
    change_each(f, 3, 5); /* 6 to 8 */
    for (int i = 0; i < 2; i++) {
        while (tdg__engine_next_ready(f->engine, 0) == s) {
            tdg__note_t note = take(f, s);

            told[note.change->name[2] - '0'] = note.change->number;
        }
        advance(f, 1000);
    }
    assert_int_equal(told[3], 6);
    assert_int_equal(told[4], 7);
    assert_int_equal(told[5], 8);
    expect_cursor(f, s, 8);
}

static int setup_few_bytes(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_pushed,
                                                       .defaults = at_once,
                                                       .max_total_bytes = 10});
}

/* Each name counts once, however many are subscribed to it, and until the last leaves. */
static void the_bytes_of_names_are_bounded_in_all(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    assert_int_equal(subscribe_rv(f, s, URI("a:12")), 0);
    assert_int_equal(subscribe_rv(f, t, URI("a:12")), 0);
    assert_int_equal(subscribe_rv(f, s, URI("b:1234")), 0);
    assert_int_equal(subscribe_rv(f, s, URI("c:1")), TDG_ETOTAL);
    assert_int_equal(subscribe_rv(f, t, URI("b:1234")), 0);
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, URI("a:12")), 0);
    assert_int_equal(subscribe_rv(f, s, URI("c:1")), TDG_ETOTAL);
    tdg__engine_close(f->engine, t);
    assert_int_equal(subscribe_rv(f, s, URI("c:1")), 0);
}

static int setup_few_kilobytes(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){.calls = calls_pushed,
                                                       .defaults = at_once,
                                                       .max_total_bytes = 2000});
}

static int subscribe_with_filter(struct fixture *f, tdg__stream_t s,
                                 const tdg__target_t *target, int number) {
    json_t *filter = json_pack("{s:{s:i}}", "metadata.size", "gt", number);
    tdg__sub_opts_t opts = {.filter = filter};
    int rv = tdg__engine_subscribe(f->engine, s, target, &opts, NULL);

    json_decref(filter);
    return rv;
}

/* Each filter counts once as well, with the memory that it takes, and until nobody has
 * it. */
static void the_bytes_of_filters_are_bounded_in_all(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    int many = 0;

    while (many < 100 && subscribe_with_filter(f, s, URI("a:1"), many) == 0 &&
           subscribe_with_filter(f, t, URI("a:1"), many) == 0)
        many++; /* new wishes replace the old ones */
    assert_int_equal(many, 100);

    char uri[] = "b:00";
    for (many = 0; many < 99; many++) {
        snprintf(uri, sizeof(uri), "b:%02d", many);
        int rv = subscribe_with_filter(f, s, URI(uri), 1000 + many);
        if (rv != 0) {
            assert_int_equal(rv, TDG_ETOTAL);
            break;
        }
    }
    assert_in_range(many, 2, 20);
    assert_int_equal(subscribe_with_filter(f, s, URI(uri), 1000), 0); /* that is there */
    assert_int_equal(tdg__engine_unsubscribe(f->engine, s, URI("b:01")), 0);
    assert_int_equal(subscribe_with_filter(f, s, URI("b:01"), 1000 + many), 0);
}

static int setup_small_history(void **state) {
    return fixture_create(state, &(tdg__engine_opts_t){
                                     .calls = calls_pushed,
                                     .defaults = at_once,
                                     .max_streams = 3,
                                     .max_subscriptions = 4,
                                     .max_name_bytes = 8,
                                     .max_pending = 3,
                                     .history = 8,
                                 });
}

/* ---- In all of several engines ------------------------------------------ */

/* Subscribes in another engine than the fixture's. */
static int subscribe_there(tdg__engine_t *engine, tdg__stream_t s, const char *uri) {
    return tdg__engine_subscribe(engine, s, URI(uri), NULL, NULL);
}

/* A name that both have counts twice: each keeps it for itself. */
static void engines_can_have_their_limits_together(void **state) {
    tdg__tally_t tally = {0};
    tdg__engine_opts_t opts = {.max_total = 4, .max_total_bytes = 12, .tally = &tally};
    tdg__engine_t *one, *two;
    tdg__stream_t s, t;

    (void)state;
    assert_int_equal(tdg__engine_create(&opts, &one), 0);
    assert_int_equal(tdg__engine_create(&opts, &two), 0);
    assert_int_equal(tdg__engine_open(one, NULL, &s), 0);
    assert_int_equal(tdg__engine_open(two, NULL, &t), 0);
    assert_int_equal(subscribe_there(one, s, "a:1"), 0);
    assert_int_equal(subscribe_there(two, t, "a:1"), 0);
    assert_int_equal(atomic_load(&tally.bytes), 6);
    assert_int_equal(subscribe_there(two, t, "a:23456"), TDG_ETOTAL); /* 7 bytes */
    assert_int_equal(subscribe_there(two, t, "a:2"), 0);
    assert_int_equal(subscribe_there(one, s, "b"), 0);
    assert_int_equal(subscribe_there(one, s, "c"), TDG_ETOTAL); /* the fifth */
    assert_int_equal(subscribe_there(one, s, "b"), 0);          /* is there already */
    assert_int_equal(tdg__engine_unsubscribe(two, t, URI("a:2")), 0);
    assert_int_equal(subscribe_there(one, s, "c"), 0);
    tdg__engine_destroy(two);
    assert_int_equal(atomic_load(&tally.subscriptions), 3);
    assert_int_equal(atomic_load(&tally.bytes), 5);
    assert_int_equal(subscribe_there(one, s, "d:45678"), 0);
    tdg__engine_destroy(one);
    assert_int_equal(atomic_load(&tally.subscriptions), 0);
    assert_int_equal(atomic_load(&tally.bytes), 0);
}

/* What could not be subscribed to for want of memory leaves nothing behind. */
static void without_memory_nothing_is_counted(void **state) {
    tdg__tally_t tally = {0};
    tdg__engine_opts_t opts = {.max_total_bytes = 100000, .tally = &tally};
    json_t *filter = json_from("{'metadata.size': {'gt': 10}}");
    tdg__sub_opts_t wishes = {.filter = filter};
    tdg__engine_t *engine;
    tdg__stream_t s;
    int rv = TDG_ENOMEM;

    (void)state;
    assert_int_equal(tdg__engine_create(&opts, &engine), 0);
    assert_int_equal(tdg__engine_open(engine, NULL, &s), 0);
    for (size_t nth = 1; rv == TDG_ENOMEM; nth++) {
        assert_int_equal(atomic_load(&tally.subscriptions), 0);
        assert_int_equal(atomic_load(&tally.bytes), 0);
        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__engine_subscribe(engine, s, TEMPLATE("a:{x}"), &wishes, NULL);
        memory_fail(0, MEMORY_ONCE);
    }
    assert_int_equal(rv, 0);
    assert_int_equal(atomic_load(&tally.subscriptions), 1);
    assert_int_equal(tdg__engine_unsubscribe(engine, s, TEMPLATE("a:{x}")), 0);
    assert_int_equal(atomic_load(&tally.bytes), 0);
    tdg__engine_destroy(engine);
    json_decref(filter);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(one_stream_too_many_is_refused, setup_small),
        TEST(an_ended_stream_counts_until_it_is_closed, setup_small),
        TEST(one_subscription_too_many_on_a_stream_is_refused, setup_small),
        TEST(the_same_subscription_again_is_not_one_more, setup_small),
        TEST(one_template_too_many_on_a_stream_is_refused, setup_small),
        TEST(one_subscription_too_many_in_all_is_refused, setup_small),
        TEST(the_bytes_of_names_are_bounded_in_all, setup_few_bytes),
        TEST(the_bytes_of_filters_are_bounded_in_all, setup_few_kilobytes),
        cmocka_unit_test(engines_can_have_their_limits_together),
        cmocka_unit_test(without_memory_nothing_is_counted),

        TEST(a_name_as_long_as_the_limit_is_accepted, setup_small),
        TEST(a_name_one_byte_longer_is_refused_everywhere, setup_small),
        TEST(the_names_of_lists_are_not_measured, setup_small),
        TEST(metadata_too_large_is_refused_and_tells_nobody, setup_small),
        TEST(a_filter_too_large_is_refused, setup_small),
        TEST(a_filter_nested_too_deeply_is_refused, setup_small),
        TEST(the_built_in_limits_are_as_documented, setup_at_once),

        TEST(too_many_uris_pending_through_a_template_end_the_stream, setup_small),
        TEST(the_cursor_is_what_it_was_before_the_change_that_was_too_much, setup_small),
        TEST(the_same_uri_again_is_not_one_more, setup_small),
        TEST(what_is_taken_makes_room, setup_small),
        TEST(what_waits_for_window_limit_or_acknowledgement_counts, setup_small),
        TEST(each_template_subscription_counts_by_itself, setup_small),
        TEST(a_stream_with_too_much_in_several_templates_ends_once, setup_two_pending),
        TEST(concrete_subscriptions_do_not_count, setup_small),
        TEST(the_end_of_one_stream_leaves_the_others_alone, setup_small),
        TEST(many_streams_may_be_ended_by_one_change, setup_small),
        TEST(a_deletion_can_be_the_one_too_much, setup_small),
        TEST(remembered_limits_are_bounded, setup_small_history),
        TEST(as_many_limits_are_remembered_as_may_wait, setup_small),
        TEST(limits_that_are_over_make_room_for_others, setup_small),
        TEST(beyond_the_remembered_limits_a_change_is_sooner_but_not_lost, setup_small),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_limits", tests, NULL, NULL);
}
