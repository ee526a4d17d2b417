/* SPDX-License-Identifier: MIT */
#include "client/session/event.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "support.h"

enum { PATIENCE_MS = 60000 };

struct box {
    tdg__events_t *events;
};

static int setup(void **state) {
    struct box *b = state_create(state, sizeof(*b));

    return tdg__events_create(&b->events);
}

static int teardown(void **state) {
    struct box *b = *state;

    memory_fail(0, MEMORY_ONCE);
    tdg__events_destroy(b->events);
    return state_destroy(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void put(tdg__events_t *events, tdg_event_kind_t kind, const char *uri) {
    tdg_event_t *event = tdg__event_create(kind, uri, NULL, NULL, 0, NULL);

    assert_non_null(event);
    assert_int_equal(tdg__events_put(events, event), 0);
}

/* As put(), with what tells events of one resource apart. */
static void put_version(tdg__events_t *events, const char *uri, int64_t version,
                        bool maybe, const char *metadata) {
    json_t *json = json_from(metadata);
    tdg_event_t *event = tdg__event_create(TDG_EVENT_UPDATED, uri, json, NULL, 0, NULL);

    assert_non_null(event);
    event->version = version;
    event->maybe = maybe;
    json_decref(json);
    assert_int_equal(tdg__events_put(events, event), 0);
}

static void put_list(tdg__events_t *events, tdg_list_kind_t list) {
    tdg_event_t *event =
        tdg__event_create(TDG_EVENT_LIST_CHANGED, NULL, NULL, NULL, 0, NULL);

    assert_non_null(event);
    event->list = list;
    assert_int_equal(tdg__events_put(events, event), 0);
}

static tdg_event_t *next(tdg__events_t *events) {
    tdg_event_t *event = NULL;

    assert_int_equal(tdg__events_next(events, 0, &event), 0);
    assert_non_null(event);
    return event;
}

/* Fails unless the next event is this one. */
static void expect(tdg__events_t *events, tdg_event_kind_t kind, const char *uri,
                   uint32_t merged) {
    tdg_event_t *event = next(events);

    assert_int_equal(event->kind, kind);
    if (uri != NULL)
        assert_string_equal(event->uri, uri);
    else
        assert_null(event->uri);
    assert_int_equal(event->merged, merged);
    tdg_event_free(event);
}

static void expect_nothing(tdg__events_t *events) {
    tdg_event_t *event = NULL;

    assert_int_equal(tdg__events_next(events, 0, &event), TDG_ETIMEDOUT);
    assert_null(event);
    assert_int_equal(tdg__events_waiting(events), 0);
}

static bool readable(tdg__events_t *events) {
    struct pollfd fd = {.fd = tdg__events_fd(events), .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

/* ---- What an event holds ------------------------------------------------ */

static void an_event_holds_copies_and_references(void **state) {
    char uri[] = "a:1", message[] = "why";
    json_t *metadata = json_from("{'n': 1}"), *contents = json_from("['text']");
    int64_t before = tdg__wall_ms();
    tdg_event_t *event =
        tdg__event_create(TDG_EVENT_LOST, uri, metadata, contents, TDG_EREFUSED, message);

    (void)state;
    assert_non_null(event);
    uri[0] = message[0] = 'x';
    json_decref(metadata);
    json_decref(contents);
    assert_string_equal(event->uri, "a:1");
    assert_string_equal(event->message, "why");
    assert_int_equal(event->code, TDG_EREFUSED);
    assert_json_equal(event->metadata, "{'n': 1}");
    assert_json_equal(event->contents, "['text']");
    assert_true(event->at_ms >= before && event->at_ms <= tdg__wall_ms());
    tdg_event_free(event);
    tdg_event_free(NULL);
}

static void an_event_may_hold_nothing(void **state) {
    tdg_event_t *event = tdg__event_create(TDG_EVENT_UP, NULL, NULL, NULL, 0, NULL);

    (void)state;
    assert_non_null(event);
    assert_null(event->uri);
    assert_null(event->message);
    assert_null(event->metadata);
    assert_null(event->contents);
    assert_int_equal(event->version, 0);
    assert_int_equal(event->merged, 0);
    assert_false(event->maybe);
    tdg_event_free(event);
}

/* ---- Order and merging -------------------------------------------------- */

static void events_come_out_as_they_went_in(void **state) {
    struct box *b = *state;

    put(b->events, TDG_EVENT_UPDATED, "a:1");
    put(b->events, TDG_EVENT_DOWN, NULL);
    put(b->events, TDG_EVENT_UPDATED, "a:2");
    put_list(b->events, TDG_LIST_TOOLS);
    put(b->events, TDG_EVENT_MESSAGE, NULL);
    assert_int_equal(tdg__events_waiting(b->events), 5);
    expect(b->events, TDG_EVENT_UPDATED, "a:1", 0);
    expect(b->events, TDG_EVENT_DOWN, NULL, 0);
    expect(b->events, TDG_EVENT_UPDATED, "a:2", 0);
    expect(b->events, TDG_EVENT_LIST_CHANGED, NULL, 0);
    expect(b->events, TDG_EVENT_MESSAGE, NULL, 0);
    expect_nothing(b->events);
}

static void one_event_waits_per_resource_at_the_place_of_the_first(void **state) {
    struct box *b = *state;
    tdg_event_t *event;

    put_version(b->events, "a:1", 1, false, "{'n': 1}");
    put(b->events, TDG_EVENT_UPDATED, "a:2");
    put_version(b->events, "a:1", 2, false, "{'n': 2}");
    put_version(b->events, "a:1", 3, false, NULL);
    assert_int_equal(tdg__events_waiting(b->events), 2);
    event = next(b->events);
    assert_string_equal(event->uri, "a:1");
    assert_int_equal(event->version, 3);
    assert_int_equal(event->merged, 2);
    assert_null(event->metadata); /* the newest has none */
    tdg_event_free(event);
    expect(b->events, TDG_EVENT_UPDATED, "a:2", 0);
    expect_nothing(b->events);
}

static void what_was_fetched_does_not_merge_any_more(void **state) {
    struct box *b = *state;

    put(b->events, TDG_EVENT_UPDATED, "a:1");
    expect(b->events, TDG_EVENT_UPDATED, "a:1", 0);
    put(b->events, TDG_EVENT_UPDATED, "a:1");
    expect(b->events, TDG_EVENT_UPDATED, "a:1", 0);
    expect_nothing(b->events);
}

static void counts_of_what_was_merged_before_add_up(void **state) {
    struct box *b = *state;
    tdg_event_t *event;

    put(b->events, TDG_EVENT_UPDATED, "a:1");
    event = tdg__event_create(TDG_EVENT_UPDATED, "a:1", NULL, NULL, 0, NULL);
    event->merged = 5; /* as the core's own collecting gives */
    assert_int_equal(tdg__events_put(b->events, event), 0);
    expect(b->events, TDG_EVENT_UPDATED, "a:1", 6);
}

static void the_newer_kind_wins(void **state) {
    struct box *b = *state;

    put(b->events, TDG_EVENT_UPDATED, "a:1");
    put(b->events, TDG_EVENT_DELETED, "a:1");
    put(b->events, TDG_EVENT_DELETED, "a:2");
    put(b->events, TDG_EVENT_UPDATED, "a:2");
    put(b->events, TDG_EVENT_UPDATED, "a:3");
    put(b->events, TDG_EVENT_LOST, "a:3");
    expect(b->events, TDG_EVENT_DELETED, "a:1", 1);
    expect(b->events, TDG_EVENT_UPDATED, "a:2", 1);
    expect(b->events, TDG_EVENT_LOST, "a:3", 1);
    expect_nothing(b->events);
}

static void maybe_stays_only_while_all_are(void **state) {
    static const struct {
        bool first, second, both;
    } cases[] = {
        {true, true, true},
        {true, false, false},
        {false, true, false},
        {false, false, false},
    };
    struct box *b = *state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg_event_t *event;

        put_version(b->events, "a:1", 0, cases[i].first, NULL);
        put_version(b->events, "a:1", 0, cases[i].second, NULL);
        event = next(b->events);
        assert_int_equal(event->maybe, cases[i].both);
        tdg_event_free(event);
    }
}

static void maybe_takes_nothing_away_from_what_is_known(void **state) {
    struct box *b = *state;
    tdg_event_t *event;

    put_version(b->events, "a:1", 7, false, "{'n': 7}");
    put_version(b->events, "a:1", 0, true, NULL);
    event = next(b->events);
    assert_false(event->maybe);
    assert_int_equal(event->version, 7);
    assert_json_equal(event->metadata, "{'n': 7}");
    tdg_event_free(event);
}

static void polled_stays_only_while_all_are(void **state) {
    struct box *b = *state;
    tdg_event_t *event;

    for (int told = 0; told < 2; told++) {
        for (int i = 0; i < 2; i++) {
            event = tdg__event_create(TDG_EVENT_UPDATED, "a:1", NULL, NULL, 0, NULL);
            event->polled = i == 0 || told == 0;
            assert_int_equal(tdg__events_put(b->events, event), 0);
        }
        event = next(b->events);
        assert_int_equal(event->polled, told == 0);
        tdg_event_free(event);
    }
}

static void put_number(tdg__events_t *events, tdg_event_kind_t kind, int number,
                       int64_t version, const char *text) {
    json_t *metadata = json_pack("{s:i}", "version", number);
    json_t *contents = text != NULL ? json_pack("[s]", text) : NULL;
    tdg_event_t *event = tdg__event_create(kind, "a:1", metadata, contents, 0, NULL);

    assert_non_null(event);
    event->version = version;
    event->older = number < 9;
    assert_int_equal(tdg__events_put(events, event), 0);
    json_decref(metadata);
    json_decref(contents);
}

static void expect_number(tdg__events_t *events, int number, bool older,
                          const char *text) {
    tdg_event_t *event = next(events);

    assert_int_equal(json_integer_value(json_object_get(event->metadata, "version")),
                     number);
    assert_int_equal(event->merged, 1);
    assert_int_equal(event->older, older);
    if (text != NULL)
        assert_string_equal(json_string_value(json_array_get(event->contents, 0)), text);
    tdg_event_free(event);
    expect_nothing(events);
}

/* Where a server numbers by metadata.version only. What was read later is newer whatever
 * its number; what was made anew counts anew; and ours have versions. */
static void the_higher_number_wins(void **state) {
    struct box *b = *state;

    put_number(b->events, TDG_EVENT_UPDATED, 9, 0, NULL);
    put_number(b->events, TDG_EVENT_UPDATED, 8, 0, NULL);
    expect_number(b->events, 9, false, NULL);
    put_number(b->events, TDG_EVENT_UPDATED, 8, 0, NULL);
    put_number(b->events, TDG_EVENT_UPDATED, 9, 0, NULL);
    expect_number(b->events, 9, false, NULL);
    put_number(b->events, TDG_EVENT_UPDATED, 8, 0, NULL);
    put_number(b->events, TDG_EVENT_UPDATED, 7, 0, NULL);
    expect_number(b->events, 8, true, NULL);
    put_number(b->events, TDG_EVENT_UPDATED, 9, 0, "first");
    put_number(b->events, TDG_EVENT_UPDATED, 8, 0, "second");
    expect_number(b->events, 9, false, "second");
    put_number(b->events, TDG_EVENT_DELETED, 9, 0, NULL);
    put_number(b->events, TDG_EVENT_UPDATED, 1, 0, NULL);
    expect_number(b->events, 1, false, NULL);
    put_number(b->events, TDG_EVENT_UPDATED, 9, 4, NULL);
    put_number(b->events, TDG_EVENT_UPDATED, 8, 5, NULL);
    expect_number(b->events, 8, false, NULL);
}

static void one_event_waits_per_list(void **state) {
    struct box *b = *state;

    put_list(b->events, TDG_LIST_RESOURCES);
    put_list(b->events, TDG_LIST_TOOLS);
    put_list(b->events, TDG_LIST_RESOURCES);
    for (int i = 0; i < 2; i++) {
        tdg_event_t *event = next(b->events);

        assert_int_equal(event->list, i == 0 ? TDG_LIST_RESOURCES : TDG_LIST_TOOLS);
        assert_int_equal(event->merged, i == 0 ? 1 : 0);
        tdg_event_free(event);
    }
    expect_nothing(b->events);
}

static void down_and_up_replace_each_other(void **state) {
    struct box *b = *state;

    put(b->events, TDG_EVENT_DOWN, NULL);
    put(b->events, TDG_EVENT_UPDATED, "a:1");
    put(b->events, TDG_EVENT_UP, NULL);
    expect(b->events, TDG_EVENT_UP, NULL, 1);
    expect(b->events, TDG_EVENT_UPDATED, "a:1", 0);
    put(b->events, TDG_EVENT_UP, NULL);
    put(b->events, TDG_EVENT_DOWN, NULL);
    expect(b->events, TDG_EVENT_DOWN, NULL, 1);
    expect_nothing(b->events);
}

static void closed_comes_last(void **state) {
    struct box *b = *state;

    put(b->events, TDG_EVENT_DOWN, NULL);
    put(b->events, TDG_EVENT_UPDATED, "a:1");
    put(b->events, TDG_EVENT_CLOSED, NULL);
    expect(b->events, TDG_EVENT_UPDATED, "a:1", 0);
    expect(b->events, TDG_EVENT_CLOSED, NULL, 0);
    expect_nothing(b->events);
}

static void of_too_many_messages_the_oldest_go(void **state) {
    struct box *b = *state;
    char text[16];

    put(b->events, TDG_EVENT_UPDATED, "a:1");
    for (int i = 0; i < TDG__EVENTS_MAX_MESSAGES + 3; i++) {
        tdg_event_t *event;

        snprintf(text, sizeof(text), "%d", i);
        event = tdg__event_create(TDG_EVENT_MESSAGE, NULL, NULL, NULL, 0, text);
        assert_int_equal(tdg__events_put(b->events, event), 0);
    }
    assert_int_equal(tdg__events_waiting(b->events), TDG__EVENTS_MAX_MESSAGES + 1);
    expect(b->events, TDG_EVENT_UPDATED, "a:1", 0);
    for (int i = 3; i < TDG__EVENTS_MAX_MESSAGES + 3; i++) {
        tdg_event_t *event = next(b->events);

        snprintf(text, sizeof(text), "%d", i);
        assert_string_equal(event->message, text);
        tdg_event_free(event);
    }
    expect_nothing(b->events);
}

/* Every second one is merged, forgotten or fetched, at random; a plain array knows what
 * has to come. */
static void a_random_walk_agrees_with_the_model(void **state) {
    enum { URIS = 300, STEPS = 30000 };
    struct {
        uint32_t waiting; /* changes; 0: none */
        uint32_t place;
    } model[URIS] = {0};
    struct box *b = *state;
    struct dice dice = dice_from_env();
    uint32_t place = 0;

    for (int step = 0; step < STEPS; step++) {
        uint32_t which = roll(&dice, URIS), first = URIS;
        char uri[16];

        snprintf(uri, sizeof(uri), "a:%u", which);
        switch (roll(&dice, 4)) {
        case 0:
        case 1:
            put(b->events, TDG_EVENT_UPDATED, uri);
            if (model[which].waiting++ == 0)
                model[which].place = place++;
            break;
        case 2:
            tdg__events_forget(b->events, uri);
            model[which].waiting = 0;
            break;
        default:
            for (uint32_t i = 0; i < URIS; i++) {
                if (model[i].waiting > 0 &&
                    (first == URIS || model[i].place < model[first].place))
                    first = i;
            }
            if (first == URIS) {
                expect_nothing(b->events);
                break;
            }
            snprintf(uri, sizeof(uri), "a:%u", first);
            expect(b->events, TDG_EVENT_UPDATED, uri, model[first].waiting - 1);
            model[first].waiting = 0;
        }
        assert_int_equal(readable(b->events), tdg__events_waiting(b->events) > 0);
    }
}

static void ten_thousand_resources_wait_at_once(void **state) {
    enum { MANY = 10000 };
    struct box *b = *state;
    char uri[32];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            snprintf(uri, sizeof(uri), "many://resource/%d", i);
            put(b->events, TDG_EVENT_UPDATED, uri);
        }
    }
    assert_int_equal(tdg__events_waiting(b->events), MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(uri, sizeof(uri), "many://resource/%d", i);
        expect(b->events, TDG_EVENT_UPDATED, uri, 1);
    }
    expect_nothing(b->events);
}

/* ---- Forgetting and the end --------------------------------------------- */

static void what_is_forgotten_does_not_come(void **state) {
    struct box *b = *state;

    put(b->events, TDG_EVENT_UPDATED, "a:1");
    put(b->events, TDG_EVENT_UPDATED, "a:2");
    tdg__events_forget(b->events, "a:1");
    tdg__events_forget(b->events, "a:3"); /* never heard of */
    expect(b->events, TDG_EVENT_UPDATED, "a:2", 0);
    expect_nothing(b->events);
    put(b->events, TDG_EVENT_UPDATED, "a:2");
    tdg__events_forget(b->events, "a:2");
    assert_false(readable(b->events));
    expect_nothing(b->events);
}

static void what_waits_is_fetched_before_the_end(void **state) {
    struct box *b = *state;
    tdg_event_t *event = NULL;

    put(b->events, TDG_EVENT_UPDATED, "a:1");
    tdg__events_end(b->events);
    put(b->events, TDG_EVENT_UPDATED, "a:2"); /* too late */
    expect(b->events, TDG_EVENT_UPDATED, "a:1", 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tdg__events_next(b->events, -1, &event), TDG_EENDED);
    assert_null(event);
}

static void what_is_not_fetched_goes_with_the_queue(void **state) {
    struct box *b = *state;

    put_version(b->events, "a:1", 1, false, "{'n': 1}");
    put(b->events, TDG_EVENT_DOWN, NULL);
    put_list(b->events, TDG_LIST_PROMPTS);
    put(b->events, TDG_EVENT_MESSAGE, NULL); /* the teardown counts */
}

/* ---- The descriptor ----------------------------------------------------- */

static void the_descriptor_is_readable_exactly_while_something_waits(void **state) {
    struct box *b = *state;

    assert_false(readable(b->events));
    put(b->events, TDG_EVENT_UPDATED, "a:1");
    assert_true(readable(b->events));
    put(b->events, TDG_EVENT_UPDATED, "a:1");
    put(b->events, TDG_EVENT_UPDATED, "a:2");
    expect(b->events, TDG_EVENT_UPDATED, "a:1", 1);
    assert_true(readable(b->events));
    expect(b->events, TDG_EVENT_UPDATED, "a:2", 0);
    assert_false(readable(b->events));
    tdg__events_end(b->events); /* who polls has to learn of it */
    assert_true(readable(b->events));
}

/* ---- Size --------------------------------------------------------------- */

enum { LARGE = 8 << 20, LARGE_FIT = TDG__EVENTS_MAX_BYTES / LARGE };

/* An event about the n-th resource; its contents share one large text. */
static void put_large(tdg__events_t *events, int n, json_t *contents, const char *note) {
    json_t *metadata = json_from(note);
    tdg_event_t *event;
    char uri[16];

    snprintf(uri, sizeof(uri), "a:%d", n);
    event = tdg__event_create(TDG_EVENT_UPDATED, uri, metadata, contents, 0, NULL);
    assert_non_null(event);
    json_decref(metadata);
    assert_int_equal(tdg__events_put(events, event), 0);
}

static json_t *large_contents(void) {
    char *text = malloc(LARGE);
    json_t *contents;

    assert_non_null(text);
    memset(text, 'x', LARGE);
    contents = json_pack("[{s:s%}]", "text", text, (size_t)LARGE);
    assert_non_null(contents);
    free(text);
    return contents;
}

static void expect_large(tdg__events_t *events, bool complete) {
    tdg_event_t *event = NULL;

    assert_int_equal(tdg__events_next(events, 0, &event), 0);
    assert_int_equal(event->contents != NULL, complete);
    assert_int_equal(event->code, complete ? 0 : TDG_ETOOLARGE);
    assert_int_equal(event->message != NULL, !complete);
    assert_json_equal(event->metadata, "{'n': 1}");
    tdg_event_free(event);
}

/* Long URIs count as well; what does not fit is counted, and reported once. */
static void events_of_many_resources_are_bounded_in_bytes(void **state) {
    enum { LONG = 100000, PUT = 2 * TDG__EVENTS_MAX_OWN_BYTES / LONG };
    struct box *b = *state;
    char *uri = malloc(LONG + 1);
    tdg_event_t *event;
    size_t kept = 0;

    assert_non_null(uri);
    memset(uri, 'x', LONG);
    uri[LONG] = '\0';
    for (int n = 0; n < PUT; n++) {
        snprintf(uri, 16, "a:%012d", n);
        uri[14] = 'x';
        event = tdg__event_create(TDG_EVENT_UPDATED, uri, NULL, NULL, 0, NULL);
        assert_non_null(event);
        kept += tdg__events_put(b->events, event) == 0;
    }
    assert_true(kept * LONG <= TDG__EVENTS_MAX_OWN_BYTES);
    assert_true((kept + 2) * LONG > TDG__EVENTS_MAX_OWN_BYTES - 1000000);
    assert_int_equal(tdg__events_lost(b->events), PUT - kept);
    assert_int_equal(tdg__events_next(b->events, 0, &event), TDG_ENOMEM);
    for (size_t n = 0; n < kept; n++) {
        assert_int_equal(tdg__events_next(b->events, 0, &event), 0);
        tdg_event_free(event);
    }
    put(b->events, TDG_EVENT_UPDATED, "a:1"); /* there is room again */
    expect(b->events, TDG_EVENT_UPDATED, "a:1", 0);
    free(uri);
}

static void what_waits_is_bounded_in_bytes(void **state) {
    struct box *b = *state;
    json_t *contents = large_contents();

    for (int n = 0; n < 2 * LARGE_FIT; n++)
        put_large(b->events, n, contents, "{'n': 1}");
    put_large(b->events, 0, contents, "{'n': 1}"); /* in the place of another */
    for (int n = 0; n < 2 * LARGE_FIT; n++)
        expect_large(b->events, n < LARGE_FIT - 1);

    for (int round = 0; round < 2 * LARGE_FIT; round++) { /* all was given back */
        put_large(b->events, 1, contents, "{'n': 1}");
        expect_large(b->events, true);
    }
    put_large(b->events, 1, contents, "{'n': 1}");
    tdg__events_forget(b->events, "a:1");
    for (int n = 0; n < LARGE_FIT - 1; n++)
        put_large(b->events, n, contents, "{'n': 1}");
    for (int n = 0; n < LARGE_FIT - 1; n++)
        expect_large(b->events, true);
    json_decref(contents);
}

static void one_alone_may_have_any_size(void **state) {
    struct box *b = *state;
    json_t *contents = large_contents(), *much = json_array();
    tdg_event_t *event = NULL;

    for (int i = 0; i < 2 * LARGE_FIT; i++)
        assert_int_equal(json_array_append(much, contents), 0);
    put_large(b->events, 1, much, "{'n': 1}");
    put_large(b->events, 2, NULL, "{'n': 1}"); /* not even a little fits beside it */
    expect_large(b->events, true);
    assert_int_equal(tdg__events_next(b->events, 0, &event), 0);
    assert_null(event->metadata);
    assert_int_equal(event->code, TDG_ETOOLARGE);
    tdg_event_free(event);
    json_decref(much);
    json_decref(contents);
}

static void counts_of_what_was_merged_do_not_begin_anew(void **state) {
    struct box *b = *state;
    tdg_event_t *event = tdg__event_create(TDG_EVENT_UPDATED, "a:1", NULL, NULL, 0, NULL);

    assert_non_null(event);
    event->merged = UINT32_MAX - 1;
    assert_int_equal(tdg__events_put(b->events, event), 0);
    for (int i = 0; i < 3; i++)
        put(b->events, TDG_EVENT_UPDATED, "a:1");
    assert_int_equal(tdg__events_next(b->events, 0, &event), 0);
    assert_int_equal(event->merged, UINT32_MAX);
    tdg_event_free(event);
}

/* ---- Without memory ----------------------------------------------------- */

static void without_memory_a_queue_is_not_made(void **state) {
    tdg__events_t *events = NULL;
    size_t failures = 0;

    (void)state;
    for (size_t nth = 1;; nth++) {
        memory_fail(nth, MEMORY_ONCE);
        if (tdg__events_create(&events) == 0)
            break;
        assert_true(memory_failed());
        assert_null(events);
        failures++;
    }
    memory_fail(0, MEMORY_ONCE);
    assert_true(failures >= 2);
    tdg__events_destroy(events);
}

static void without_memory_an_event_is_not_made(void **state) {
    json_t *metadata = json_from("{}");

    (void)state;
    memory_fail(1, MEMORY_ONCE);
    assert_null(
        tdg__event_create(TDG_EVENT_UPDATED, "a:1", metadata, metadata, 0, "text"));
    memory_fail(0, MEMORY_ONCE);
    json_decref(metadata);
}

static void a_loss_is_told_once(void **state) {
    struct box *b = *state;
    tdg_event_t *event = NULL;

    put(b->events, TDG_EVENT_UPDATED, "a:1");
    assert_int_equal(tdg__events_put(b->events, NULL), TDG_ENOMEM);
    assert_int_equal(tdg__events_put(b->events, NULL), TDG_ENOMEM);
    assert_int_equal(tdg__events_next(b->events, 0, &event), TDG_ENOMEM);
    assert_null(event);
    expect(b->events, TDG_EVENT_UPDATED, "a:1", 0);
    expect_nothing(b->events);

    assert_int_equal(tdg__events_put(b->events, NULL), TDG_ENOMEM);
    assert_true(readable(b->events));
    assert_int_equal(tdg__events_next(b->events, -1, &event), TDG_ENOMEM);
    assert_false(readable(b->events));
}

static void without_memory_for_the_table_nothing_is_lost(void **state) {
    enum { MANY = 500 };
    struct box *b = *state;
    tdg_event_t *events[MANY];
    char uri[16];

    for (int i = 0; i < MANY; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        events[i] = tdg__event_create(TDG_EVENT_UPDATED, uri, NULL, NULL, 0, NULL);
        assert_non_null(events[i]);
    }
    memory_fail(1, MEMORY_FROM_THEN_ON);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(tdg__events_put(b->events, events[i]), 0);
    assert_true(memory_failed());
    memory_fail(0, MEMORY_ONCE);
    for (int i = 0; i < MANY; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        expect(b->events, TDG_EVENT_UPDATED, uri, 0);
    }
}

/* ---- Waiting; these have threads, and memory is not counted -------------- */

static int uncounted(void **state) {
    (void)state;
    assert_int_equal(tdg_set_allocator(NULL), 0);
    return 0;
}

static int64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void waiting_ends_with_the_time(void **state) {
    tdg__events_t *events;
    tdg_event_t *event = NULL;
    int64_t began;

    (void)state;
    assert_int_equal(tdg__events_create(&events), 0);
    began = now_ms();
    assert_int_equal(tdg__events_next(events, 1100, &event), TDG_ETIMEDOUT);
    assert_true(now_ms() - began >= 1100);
    assert_null(event);
    tdg__events_destroy(events);
}

struct waiter {
    tdg__events_t *events;
    int timeout_ms;
    pthread_t thread;
    int rv;
    tdg_event_t *event;
};

static void *wait_for_one(void *arg) {
    struct waiter *waiter = arg;

    waiter->rv = tdg__events_next(waiter->events, waiter->timeout_ms, &waiter->event);
    return NULL;
}

static void whoever_waits_gets_the_event(void **state) {
    static const int timeouts[] = {-1, PATIENCE_MS};

    (void)state;
    for (size_t i = 0; i < COUNT(timeouts); i++) {
        struct waiter waiter = {.timeout_ms = timeouts[i]};

        assert_int_equal(tdg__events_create(&waiter.events), 0);
        assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_one, &waiter), 0);
        put(waiter.events, TDG_EVENT_UPDATED, "a:1");
        tdg__events_wake(waiter.events);
        pthread_join(waiter.thread, NULL);
        assert_int_equal(waiter.rv, 0);
        assert_string_equal(waiter.event->uri, "a:1");
        tdg_event_free(waiter.event);
        tdg__events_destroy(waiter.events);
    }
}

static void the_end_wakes_all_who_wait(void **state) {
    enum { WAITERS = 8 };
    struct waiter waiters[WAITERS];
    tdg__events_t *events;

    (void)state;
    assert_int_equal(tdg__events_create(&events), 0);
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (struct waiter){.events = events, .timeout_ms = -1};
        assert_int_equal(
            pthread_create(&waiters[i].thread, NULL, wait_for_one, &waiters[i]), 0);
    }
    tdg__events_end(events);
    for (int i = 0; i < WAITERS; i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].rv, TDG_EENDED);
    }
    tdg__events_destroy(events);
}

static void who_defers_wakes_all_at_once(void **state) {
    struct waiter waiters[2];
    tdg__events_t *events;
    int fd;

    (void)state;
    assert_int_equal(tdg__events_create(&events), 0);
    fd = tdg__events_fd(events);
    for (size_t i = 0; i < COUNT(waiters); i++) {
        waiters[i] = (struct waiter){.events = events, .timeout_ms = PATIENCE_MS};
        assert_int_equal(
            pthread_create(&waiters[i].thread, NULL, wait_for_one, &waiters[i]), 0);
    }
    put(events, TDG_EVENT_UPDATED, "a:1");
    put(events, TDG_EVENT_UPDATED, "a:2");
    tdg__events_wake(events);
    for (size_t i = 0; i < COUNT(waiters); i++) {
        pthread_join(waiters[i].thread, NULL);
        assert_int_equal(waiters[i].rv, 0);
        tdg_event_free(waiters[i].event);
    }

    put(events, TDG_EVENT_UPDATED, "a:1");
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 0);
    tdg__events_wake(events);
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 0), 1);
    tdg__events_destroy(events);
}

static void many_events_wake_by_themselves(void **state) {
    struct waiter waiter = {.timeout_ms = PATIENCE_MS};

    (void)state;
    assert_int_equal(tdg__events_create(&waiter.events), 0);
    assert_int_equal(pthread_create(&waiter.thread, NULL, wait_for_one, &waiter), 0);
    for (int i = 0; i < 64; i++)
        put(waiter.events, TDG_EVENT_UPDATED, "a:1");
    pthread_join(waiter.thread, NULL);
    assert_int_equal(waiter.rv, 0);
    tdg_event_free(waiter.event);
    tdg__events_destroy(waiter.events);
}

/* The descriptor that was asked for once shows what comes later. */
static void a_descriptor_is_kept_up(void **state) {
    struct box *b = *state;
    tdg__events_t *events = b->events;
    struct pollfd fd = {.fd = tdg__events_fd(events), .events = POLLIN};
    tdg_event_t *event;

    assert_int_equal(poll(&fd, 1, 0), 0);
    put(events, TDG_EVENT_UPDATED, "a:1");
    tdg__events_wake(events);
    assert_int_equal(poll(&fd, 1, 0), 1);
    assert_int_equal(tdg__events_next(events, 0, &event), 0);
    tdg_event_free(event);
    assert_int_equal(poll(&fd, 1, 0), 0);
}

enum { WRITERS = 4, READERS = 3, CHANGES = 5000, SHARED = 50 };

struct crowd {
    tdg__events_t *events;
    atomic_uint next_writer;
    atomic_uint told; /* changes that came out, merged ones counted */
};

static void *write_changes(void *arg) {
    struct crowd *crowd = arg;
    unsigned writer = atomic_fetch_add(&crowd->next_writer, 1);
    char uri[16];

    for (unsigned i = 0; i < CHANGES; i++) {
        snprintf(uri, sizeof(uri), "a:%u", (i + writer) % SHARED);
        put(crowd->events, TDG_EVENT_UPDATED, uri);
    }
    tdg__events_wake(crowd->events);
    return NULL;
}

static void *read_changes(void *arg) {
    struct crowd *crowd = arg;
    tdg_event_t *event;

    while (tdg__events_next(crowd->events, -1, &event) == 0) {
        atomic_fetch_add(&crowd->told, 1 + event->merged);
        tdg_event_free(event);
    }
    return NULL;
}

static void many_threads_lose_nothing(void **state) {
    struct crowd crowd = {0};
    pthread_t writers[WRITERS], readers[READERS];

    (void)state;
    assert_int_equal(tdg__events_create(&crowd.events), 0);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_changes, &crowd), 0);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, write_changes, &crowd), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    tdg__events_end(crowd.events);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    assert_int_equal(atomic_load(&crowd.told), WRITERS * CHANGES);
    tdg__events_destroy(crowd.events);
}

static void poll_and_next_meet(void **state) {
    struct crowd crowd = {0};
    pthread_t writer;
    unsigned told = 0;

    (void)state;
    assert_int_equal(tdg__events_create(&crowd.events), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_changes, &crowd), 0);
    while (told < CHANGES) {
        struct pollfd fd = {.fd = tdg__events_fd(crowd.events), .events = POLLIN};
        tdg_event_t *event;

        assert_int_equal(poll(&fd, 1, PATIENCE_MS), 1);
        assert_int_equal(tdg__events_next(crowd.events, 0, &event), 0);
        told += 1 + event->merged;
        tdg_event_free(event);
    }
    pthread_join(writer, NULL);
    assert_int_equal(told, CHANGES);
    assert_false(readable(crowd.events));
    tdg__events_destroy(crowd.events);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_event_holds_copies_and_references),
        TEST(an_event_may_hold_nothing),

        TEST(events_come_out_as_they_went_in),
        TEST(one_event_waits_per_resource_at_the_place_of_the_first),
        TEST(what_was_fetched_does_not_merge_any_more),
        TEST(counts_of_what_was_merged_before_add_up),
        TEST(the_newer_kind_wins),
        TEST(maybe_stays_only_while_all_are),
        TEST(maybe_takes_nothing_away_from_what_is_known),
        TEST(polled_stays_only_while_all_are),
        TEST(the_higher_number_wins),
        TEST(one_event_waits_per_list),
        TEST(down_and_up_replace_each_other),
        TEST(closed_comes_last),
        TEST(of_too_many_messages_the_oldest_go),
        TEST(a_random_walk_agrees_with_the_model),
        TEST(ten_thousand_resources_wait_at_once),

        TEST(what_is_forgotten_does_not_come),
        TEST(what_waits_is_fetched_before_the_end),
        TEST(what_is_not_fetched_goes_with_the_queue),
        TEST(the_descriptor_is_readable_exactly_while_something_waits),

        TEST(events_of_many_resources_are_bounded_in_bytes),
        TEST(what_waits_is_bounded_in_bytes),
        TEST(one_alone_may_have_any_size),
        TEST(counts_of_what_was_merged_do_not_begin_anew),
        TEST(without_memory_a_queue_is_not_made),
        TEST(without_memory_an_event_is_not_made),
        TEST(a_loss_is_told_once),
        TEST(without_memory_for_the_table_nothing_is_lost),

        cmocka_unit_test_setup(waiting_ends_with_the_time, uncounted),
        cmocka_unit_test_setup(whoever_waits_gets_the_event, uncounted),
        cmocka_unit_test_setup(who_defers_wakes_all_at_once, uncounted),
        cmocka_unit_test_setup(many_events_wake_by_themselves, uncounted),
        TEST(a_descriptor_is_kept_up),
        cmocka_unit_test_setup(the_end_wakes_all_who_wait, uncounted),
        cmocka_unit_test_setup(many_threads_lose_nothing, uncounted),
        cmocka_unit_test_setup(poll_and_next_meet, uncounted),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
