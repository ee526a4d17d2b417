/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include <tidings/error.h>

#include "client/subs/cover.h"
#include "client/subs/subs.h"
#include "unit/client/play.h"

static const char seven[] =
    "{'resultType':'complete','contents':[{'uri':'a:7','text':'7'}]}";

static struct fake_sent *up(struct fake *f, const char *uri) {
    fake_up(f, TDG_ERA_MODERN);
    play_live(f, uri, NULL, "");
    return fake_find(f, LISTEN);
}

static void all_dialects_are_understood(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "a:1");

    play_notify(f, listen, "resources/updated", "{'uri':'a:1'}");
    play_notify(f, listen, "resources/deleted", "{'uri':'a:1'}");
    play_notify(f, listen, "notifications/resources/deleted", "{'uri':'a:1'}");
    play_notify(f, listen, "notifications/resources/updated",
                "{'uri':'a:1','metadata':{'change_type':'deleted'}}");
    play_notify(
        f, listen, "notifications/resources/updated",
        "{'uri':'a:1','_meta':{'dev.tidings/metadata':{'change_type':'deleted'}}}");
    assert_told(f, "UPDATED a:1\nDELETED a:1\nDELETED a:1\nDELETED a:1\nDELETED a:1\n");
}

static void an_update_has_version_metadata_and_count(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "a:1");
    const tdg_event_t *event;

    play_notify(f, listen, "notifications/resources/updated",
                "{'uri':'a:1','metadata':{'size':3},'_meta':{'dev.tidings/version':7,"
                "'dev.tidings/merged':2,'dev.tidings/cursor':'a-7'}}");
    assert_int_equal(f->event_count, 1);
    event = f->events[0];
    assert_int_equal(event->version, 7);
    assert_int_equal(event->merged, 2);
    assert_false(event->maybe);
    assert_json_equal(event->metadata, "{'size':3}");
    assert_int_equal(f->core->counts.updates, 1);
}

static void nonsense_is_ignored(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "a:1");
    static const char *const params[] = {
        "{}",
        "{'uri':7}",
        "{'uri':''}",
        "{'uri':'a:2'}",
        "{'uri':'a:12'}",
        "{'uri':null,'_meta':7}",
    };

    for (size_t i = 0; i < COUNT(params); i++)
        play_notify(f, listen, "notifications/resources/updated", params[i]);
    play_notify(f, listen, "notifications/nobody/knows", "{'uri':'a:1'}");
    play_notify(f, listen, "notifications/subscriptions/acknowledged", "{}");
    play_notify(f, listen, "notifications/cancelled", "{'requestId':[1]}");
    play_notify(f, listen, "notifications/progress", "{'progressToken':1}");
    play_notify(f, listen, "notifications/tools/list_changed", "{}");
    assert_told(f, "");
    play_notify(f, listen, "notifications/resources/updated",
                "{'uri':'a:1','metadata':[1],'_meta':{'dev.tidings/version':'x',"
                "'dev.tidings/cursor':'nonsense','dev.tidings/merged':-1}}");
    assert_told(f, "UPDATED a:1\n");
    assert_false(f->core->ours);
}

static void a_template_tells_what_it_matches(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "w://city/{name}");

    play_update(f, listen, "w://city/oslo",
                "'dev.tidings/version':3,'dev.tidings/cursor':'a-3'");
    play_update(f, listen, "w://city/oslo",
                "'dev.tidings/version':3,'dev.tidings/cursor':'a-3'");
    play_update(f, listen, "w://country/norway", "");
    play_update(f, listen, "w://city/rome",
                "'dev.tidings/version':3,'dev.tidings/cursor':'a-3'");
    assert_told(f, "UPDATED w://city/oslo\nUPDATED w://city/rome\n");
    assert_int_equal(f->core->counts.subscriptions, 1);
    assert_null(tdg__subs_find(f->core, "w://city/oslo"));

    /* Events that wait go with the template. */
    play_update(f, listen, "w://city/oslo",
                "'dev.tidings/version':4,'dev.tidings/cursor':'a-4'");
    play_unsubscribe(f, "w://city/{name}");
    assert_told(f, "");
}

/* A server that has begun anew may count from 1 again: without the cursor that shows it,
 * versions say nothing. Nor do they beside the cursor of no epoch, which servers of ours
 * show while they tell what was missed before they began. */
static void versions_without_an_epoch_drop_nothing(void **state) {
    static const char *const metas[] = {
        "'dev.tidings/version':9000000000000000000",
        "'dev.tidings/version':1",
        "'dev.tidings/version':5,'dev.tidings/cursor':'0-0'",
        "'dev.tidings/version':2,'dev.tidings/cursor':'0-0'",
        "'dev.tidings/version':2,'dev.tidings/cursor':'b-2'",
    };
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "a:1");

    for (size_t i = 0; i < sizeof(metas) / sizeof(metas[0]); i++) {
        play_update(f, listen, "a:1", metas[i]);
        assert_told(f, "UPDATED a:1\n");
    }
    play_update(f, listen, "a:1", "'dev.tidings/version':2,'dev.tidings/cursor':'b-3'");
    assert_told(f, "");
}

/* Long ones, as a server may invent them. The one that was heard of first is forgotten,
 * so its version is not known any more. */
static void what_a_template_tells_is_bounded(void **state) {
    enum { LONG = 8000, MANY = TDG__COVER_MAX_BYTES / LONG + 10 };
    static const char meta[] = "'dev.tidings/version':3,'dev.tidings/cursor':'a-3'";
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "w://city/{name}");
    char uri[LONG + 1], first[LONG + 1];

    memset(uri, 'x', LONG);
    uri[LONG] = '\0';
    for (int i = 0; i < MANY; i++) {
        memcpy(uri, "w://city/", 9);
        snprintf(uri + LONG - 8, 9, "%08d", i);
        if (i == 0)
            memcpy(first, uri, sizeof(first));
        play_update(f, listen, uri, meta);
        assert_true(f->core->subs->heard_bytes <= TDG__COVER_MAX_BYTES);
        free(fake_told(f)); /* not all at once: the text would be copied for each */
    }
    assert_true(f->core->subs->heard_count < MANY);
    play_update(f, listen, uri, meta);
    assert_told(f, "");
    play_update(f, listen, first, meta);
    assert_int_equal(f->event_count, 1);

    play_unsubscribe(f, "w://city/{name}");
    assert_int_equal(f->core->subs->heard_count, 0);
    assert_int_equal(f->core->subs->heard_bytes, 0);
}

static void a_template_may_be_spelled_in_two_ways(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    note = play_subscribe(f, "w://city/%7Bname%7D", NULL);
    play_notify(f, fake_find(f, LISTEN), "notifications/subscriptions/acknowledged",
                "{'notifications':{'resourceSubscriptions':['w://city/{name}']}}");
    assert_int_equal(fake_code(note), 0);
    play_update(f, fake_find(f, LISTEN), "w://city/oslo", "");
    assert_told(f, "UPDATED w://city/oslo\n");
}

static void template_and_resource_tell_once(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen;

    up(f, "w://city/{name}");
    play_live(f, "w://city/oslo", NULL, "");
    fake_pass(f, 1000);
    listen = fake_find(f, LISTEN);
    play_update(f, listen, "w://city/oslo", "");
    assert_told(f, "UPDATED w://city/oslo\n");
    play_unsubscribe(f, "w://city/oslo");
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    fake_pass(f, 1000);
    play_update(f, fake_find(f, LISTEN), "w://city/oslo", "");
    assert_told(f, "UPDATED w://city/oslo\n");
}

/* An update that a template has brought waits for something when its URI is subscribed to
 * by itself, which begins after the update. */
static void what_waits_for_a_read_outlives_its_own_subscribe(void **state) {
    static const tdg_subscribe_opts_t reread = {.reread = true};
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:{x}", &reread, "");
    play_update(f, fake_find(f, LISTEN), "a:7", "");
    note = play_subscribe(f, "a:7", &reread);
    assert_int_equal(f->core->counts.subscriptions, 2);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(note), 0);
    fake_result(f, fake_find(f, "resources/read"), seven);
    assert_told(f, "UPDATED a:7\n");
    assert_int_equal(f->core->subs->heard_count, 0);
    assert_int_equal(f->core->subs->heard_bytes, 0);
}

static void what_is_collected_outlives_its_own_subscribe(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "a:{x}");

    play_live(f, "b:1", NULL, "");
    play_update(f, listen, "a:7", "");
    play_subscribe(f, "a:7", NULL);
    fake_pass(f, 1000);
    assert_told(f, "UPDATED a:7\n");
}

/* The read for the update is not the one that decides whether it can be polled. */
static void what_waits_for_a_read_outlives_being_polled(void **state) {
    static const tdg_subscribe_opts_t reread = {.reread = true};
    static const tdg_subscribe_opts_t poll = {.poll_ms = 3600000};
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:{x}", &reread, "");
    play_update(f, fake_find(f, LISTEN), "a:7", "");
    note = play_subscribe(f, "a:7", &poll);
    play_ack(f, fake_find(f, LISTEN), "a:7",
             "'dev.tidings/refused':{'a:7':'not_subscribable'}");
    fake_result(f, fake_find(f, "resources/read"), seven);
    assert_told(f, "UPDATED a:7\n");
    fake_result(f, fake_find(f, "resources/read"), seven);
    assert_int_equal(fake_code(note), 0);
    assert_told(f, "");
}

static void what_waits_for_a_read_outlives_a_refusal(void **state) {
    static const tdg_subscribe_opts_t reread = {.reread = true};
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:{x}", &reread, "");
    play_update(f, fake_find(f, LISTEN), "a:7", "");
    note = play_subscribe(f, "a:7", NULL);
    play_ack(f, fake_find(f, LISTEN), "a:7", "");
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    fake_result(f, fake_find(f, "resources/read"), seven);
    assert_int_equal(f->event_count, 1);
    assert_non_null(f->events[0]->contents);
    assert_told(f, "UPDATED a:7\n");
    assert_int_equal(f->core->counts.subscriptions, 1);
}

/* With timers that nobody arms, so that the one of its polls is the first without room.
 */
static void what_is_collected_outlives_a_lack_of_memory(void **state) {
    static const tdg_subscribe_opts_t poll = {.poll_ms = 10000};
    bool failed = true;

    (void)state;
    for (size_t nth = 1; failed && nth < 1000; nth++) {
        void *inner = NULL;
        struct fake *f = state_create(&inner, sizeof(*f));
        tdg__heap_t *timers;
        tdg__timer_t spare;
        size_t spares = 0;
        struct fake_sent *listen;

        fake_init(f, TDG__TRANSPORT_HTTP);
        listen = up(f, "a:{x}");
        play_live(f, "b:1", NULL, "");
        play_update(f, listen, "a:7", "");
        for (timers = &f->core->timers; timers->timers + 1 < timers->room; spares++)
            assert_int_equal(tdg__heap_add(timers, &spare, 0), 0);
        memory_fail(nth, MEMORY_ONCE);
        play_subscribe(f, "a:7", &poll);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        fake_pass(f, 1000);
        assert_told(f, "UPDATED a:7\n");
        for (; spares > 0; spares--)
            tdg__heap_remove(timers, &spare);
        fake_end(f);
        state_destroy(&inner);
    }
    assert_false(failed);
}

/* In a legacy session, where the record lives on until the server has answered. */
static void a_template_tells_what_is_being_unsubscribed_from(void **state) {
    struct fake *f = *state;
    struct fake_sent *get, *unsubscribe;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:{x}", NULL, "");
    play_live(f, "a:7", NULL, "");
    play_live(f, "b:7", NULL, "");
    get = fake_find(f, "GET");
    play_update(f, get, "a:7", "'dev.tidings/cursor':'a-1','dev.tidings/version':1");
    assert_told(f, "UPDATED a:7\n");

    play_unsubscribe(f, "b:7");
    play_unsubscribe(f, "a:7");
    unsubscribe = fake_find(f, "resources/unsubscribe");
    play_update(f, get, "b:7", "");
    play_update(f, get, "a:7", "'dev.tidings/cursor':'a-1','dev.tidings/version':1");
    assert_told(f, "");
    play_update(f, get, "a:7", "'dev.tidings/cursor':'a-2','dev.tidings/version':2");
    assert_told(f, "UPDATED a:7\n");

    fake_result(f, unsubscribe, "{}");
    play_update(f, get, "a:7", "");
    assert_told(f, "UPDATED a:7\n");
}

/* There is no record that could wait for the read. */
static void what_is_being_unsubscribed_from_is_not_read(void **state) {
    const tdg_subscribe_opts_t reread = {.reread = true};
    struct fake *f = *state;

    fake_up(f, TDG_ERA_LEGACY);
    play_live(f, "a:{x}", &reread, "");
    play_live(f, "a:7", &reread, "");
    play_unsubscribe(f, "a:7");
    play_update(f, fake_find(f, "GET"), "a:7", "");
    assert_told(f, "UPDATED a:7\n");
    assert_int_equal(fake_count(f, "resources/read"), 0);
    fake_result(f, fake_find(f, "resources/unsubscribe"), "{}");
    play_update(f, fake_find(f, "GET"), "a:7", "");
    assert_int_equal(fake_count(f, "resources/read"), 1);
}

static void what_is_below_is_told_as_well(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "file:///project");

    play_update(f, listen, "file:///project/src/main.c", "");
    play_update(f, listen, "file:///project2/main.c", "");
    play_update(f, listen, "file:///project", "");
    assert_told(f, "UPDATED file:///project/src/main.c\nUPDATED file:///project\n");
    play_update(f, listen, "file:///project/src/main.c", "");
    play_unsubscribe(f, "file:///project");
    assert_told(f, "");
}

static void only_wanted_lists_are_told(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    note = play_lists(f, 1u << TDG_LIST_TOOLS);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(note), 0);
    play_notify(f, fake_find(f, LISTEN), "notifications/tools/list_changed", "{}");
    play_notify(f, fake_find(f, LISTEN), "prompts/list_changed", "{}");
    assert_int_equal(f->event_count, 1);
    assert_int_equal(f->events[0]->list, TDG_LIST_TOOLS);
    assert_told(f, "LIST_CHANGED\n");

    note = play_lists(f, 0);
    assert_int_equal(fake_code(note), 0);
    assert_int_equal(play_open(f, LISTEN), 0);
    assert_int_equal(fake_code(play_lists(f, 1u << 9)), TDG_EINVAL);
}

static void a_list_that_is_not_acknowledged_is_not_supported(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    note = play_lists(f, 1u << TDG_LIST_TOOLS | 1u << TDG_LIST_PROMPTS);
    play_notify(f, fake_find(f, LISTEN), "notifications/subscriptions/acknowledged",
                "{'notifications':{'toolsListChanged':true}}");
    assert_int_equal(fake_code(note), TDG_ENOTSUP);
}

static void asking_for_the_same_lists_again(void **state) {
    const unsigned lists = 1u << TDG_LIST_TOOLS | 1u << TDG_LIST_PROMPTS;
    struct fake *f = *state;
    struct fake_note *first, *second;

    fake_up(f, TDG_ERA_MODERN);
    first = play_lists(f, lists);
    second = play_lists(f, lists);
    assert_int_equal(second->calls, 0); /* nothing is acknowledged */
    for (int i = 0; i < 2; i++) {
        play_notify(f, fake_find(f, LISTEN), "notifications/subscriptions/acknowledged",
                    "{'notifications':{'toolsListChanged':true}}");
        fake_pass(f, 1000);
    }
    assert_int_equal(fake_code(first), TDG_ENOTSUP);
    assert_int_equal(fake_code(second), TDG_ENOTSUP);

    second = play_lists(f, lists); /* the server may have changed its mind */
    assert_int_equal(second->calls, 0);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(second), 0);
    fake_pass(f, 1000);
    assert_int_equal(fake_code(play_lists(f, lists)), 0);
    assert_int_equal(fake_count(f, LISTEN), 3); /* all is acknowledged */
    assert_int_equal(play_open(f, LISTEN), 1);
}

static void log_messages_are_told_where_wanted(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen;

    f->client.flags = TDG_CLIENT_LOGS;
    listen = up(f, "a:1");
    play_notify(f, listen, "notifications/message", "{'level':'info','data':'hello'}");
    assert_int_equal(f->event_count, 1);
    assert_json_equal(f->events[0]->metadata, "{'level':'info','data':'hello'}");
    assert_told(f, "MESSAGE\n");
    f->client.flags = 0;
    play_notify(f, listen, "notifications/message", "{'level':'info','data':'hello'}");
    assert_told(f, "");
}

static void what_is_subscribed_can_be_listed(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "w://city/{name}");
    json_t *uris;

    play_update(f, listen, "w://city/oslo", "");
    uris = tdg__core_subscriptions(f->core);
    assert_json_equal(uris, "['w://city/{name}']");
    json_decref(uris);
}

/* ---- Servers that number by metadata.version only ----------------------- */

static void play_number(struct fake *f, struct fake_sent *listen, const char *number) {
    char params[100];

    snprintf(params, sizeof(params), "{'uri':'a:1','metadata':{'version':%s}}", number);
    play_notify(f, listen, "notifications/resources/updated", params);
}

/* The one event that was told. */
static void expect_number(struct fake *f, const char *metadata, bool older) {
    assert_int_equal(f->event_count, 1);
    assert_json_equal(f->events[0]->metadata, metadata);
    assert_int_equal(f->events[0]->older, older);
    free(fake_told(f));
}

static void an_older_one_is_told_and_marked(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "a:1");

    play_number(f, listen, "9");
    expect_number(f, "{'version':9}", false);
    play_number(f, listen, "8");
    expect_number(f, "{'version':8}", true);
    play_number(f, listen, "8");
    expect_number(f, "{'version':8}", false);
    play_number(f, listen, "8.5");
    expect_number(f, "{'version':8.5}", false);
    play_number(f, listen, "'7'");
    expect_number(f, "{'version':'7'}", false);
    play_number(f, listen, "9007199254740993");
    expect_number(f, "{'version':9007199254740993}", false);
    play_number(f, listen, "9007199254740992");
    expect_number(f, "{'version':9007199254740992}", true);
    assert_int_equal(f->core->counts.older, 2);
    assert_int_equal(f->core->counts.repeated, 0);
}

static void with_versions_of_ours_the_number_is_the_applications(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "a:1");

    for (int i = 9; i > 7; i--) {
        char params[200];

        snprintf(params, sizeof(params),
                 "{'uri':'a:1','metadata':{'version':%d},'_meta':"
                 "{'dev.tidings/version':%d,'dev.tidings/cursor':'a-%d'}}",
                 i, 20 - i, 20 - i);
        play_notify(f, listen, "notifications/resources/updated", params);
    }
    assert_int_equal(f->event_count, 2);
    assert_false(f->events[1]->older);
    assert_int_equal(f->core->counts.older, 0);
}

/* While two streams are open, what arrives is told once: the higher one. */
static void the_higher_one_is_told_where_streams_overlap(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "a:1");

    play_subscribe(f, "a:2", NULL);
    play_number(f, listen, "9");
    play_number(f, listen, "8");
    assert_int_equal(f->event_count, 0);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    fake_pass(f, 1000);
    expect_number(f, "{'version':9}", false);
}

static void what_is_held_for_a_read_is_the_higher_one(void **state) {
    const tdg_subscribe_opts_t reread = {.reread = true};
    struct fake *f = *state;
    struct fake_sent *listen;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", &reread, "");
    listen = fake_find(f, LISTEN);
    play_number(f, listen, "1");
    play_number(f, listen, "9");
    play_number(f, listen, "8");
    fake_result(f, fake_find(f, "resources/read"), "{'contents':[{'text':'1'}]}");
    expect_number(f, "{'version':1}", false);
    fake_result(f, fake_find(f, "resources/read"), "{'contents':[{'text':'9'}]}");
    assert_int_equal(f->events[0]->merged, 1);
    expect_number(f, "{'version':9}", false);

    /* The one that comes late is read, too. */
    play_number(f, listen, "7");
    fake_result(f, fake_find(f, "resources/read"), "{'contents':[{'text':'9'}]}");
    expect_number(f, "{'version':7}", true);
    assert_int_equal(fake_count(f, "resources/read"), 3);
}

static void a_list_that_is_refused_is_not_request_for_again(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    note = play_lists(f, 1u << TDG_LIST_PROMPTS);
    fake_error(f, fake_find(f, LISTEN), -32602, "no", NULL);
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    play_subscribe(f, "a:1", NULL);
    assert_null(strstr(fake_find(f, LISTEN)->text, "promptsListChanged"));
}

/* Its owner has not fetched it yet. */
static void a_refused_subscribe_keeps_what_a_template_brought(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen = up(f, "a:{x}");
    struct fake_note *note;

    play_update(f, listen, "a:7", "");
    note = play_subscribe(f, "a:7", NULL);
    play_ack(f, fake_find(f, LISTEN), "a:7", "");
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    assert_told(f, "UPDATED a:7\n");
}

static void a_refused_list_costs_no_subscription(void **state) {
    struct fake *f = *state;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_live(f, "a:1", NULL, "");
    fake_broken(f, fake_find(f, LISTEN), TDG__DELIVERY_BROKEN, true);
    note = play_lists(f, 1u << TDG_LIST_PROMPTS);
    fake_pass(f, 1000);
    fake_error(f, fake_find(f, LISTEN), -32602, "no", NULL);
    assert_int_equal(fake_code(note), TDG_EREFUSED);
    fake_pass(f, 5000);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_told(f, "DOWN\nUP\nUPDATED a:1 maybe\n");
}

/* It was not part of the listen that is refused. */
static void a_list_is_request_for_before_it_is_refused(void **state) {
    struct fake *f = *state;
    struct fake_sent *listen;
    struct fake_note *note;

    fake_up(f, TDG_ERA_MODERN);
    play_subscribe(f, "a:2", NULL);
    listen = fake_find(f, LISTEN);
    note = play_lists(f, 1u << TDG_LIST_TOOLS);
    fake_error(f, listen, -32602, "no", NULL);
    assert_int_equal(note->calls, 0);
    play_ack(f, fake_find(f, LISTEN), NULL, "");
    assert_int_equal(fake_code(note), 0);
}

int main(void) {
#define HTTP(name) cmocka_unit_test_setup_teardown(name, fake_setup_http, fake_teardown)
    const struct CMUnitTest tests[] = {
        HTTP(a_refused_list_costs_no_subscription),
        HTTP(a_list_is_request_for_before_it_is_refused),
        HTTP(a_refused_subscribe_keeps_what_a_template_brought),
        HTTP(a_list_that_is_refused_is_not_request_for_again),
        HTTP(all_dialects_are_understood),
        HTTP(an_update_has_version_metadata_and_count),
        HTTP(nonsense_is_ignored),
        HTTP(a_template_tells_what_it_matches),
        HTTP(versions_without_an_epoch_drop_nothing),
        HTTP(what_a_template_tells_is_bounded),
        HTTP(a_template_may_be_spelled_in_two_ways),
        HTTP(template_and_resource_tell_once),
        HTTP(what_waits_for_a_read_outlives_its_own_subscribe),
        HTTP(what_is_collected_outlives_its_own_subscribe),
        HTTP(what_waits_for_a_read_outlives_being_polled),
        HTTP(what_waits_for_a_read_outlives_a_refusal),
        cmocka_unit_test(what_is_collected_outlives_a_lack_of_memory),
        HTTP(a_template_tells_what_is_being_unsubscribed_from),
        HTTP(what_is_being_unsubscribed_from_is_not_read),
        HTTP(what_is_below_is_told_as_well),
        HTTP(only_wanted_lists_are_told),
        HTTP(a_list_that_is_not_acknowledged_is_not_supported),
        HTTP(asking_for_the_same_lists_again),
        HTTP(log_messages_are_told_where_wanted),
        HTTP(what_is_subscribed_can_be_listed),
        HTTP(an_older_one_is_told_and_marked),
        HTTP(with_versions_of_ours_the_number_is_the_applications),
        HTTP(the_higher_one_is_told_where_streams_overlap),
        HTTP(what_is_held_for_a_read_is_the_higher_one),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client_updates", tests, NULL, NULL);
}
