/* SPDX-License-Identifier: MIT
 *
 * Looking into the engine: who is subscribed to what, counters, memory. */
#include <stdio.h>

#include "unit/core/fixture.h"

enum { MAX_SEEN = 64 };

/* What was visited: copies, because what it points to is borrowed. */
struct seen {
    size_t count;
    size_t stop_after; /* 0: never */
    tdg__stream_t stream[MAX_SEEN];
    tdg__target_kind_t kind[MAX_SEEN];
    char name[MAX_SEEN][32];
    tdg__sub_info_t last;
    char filter[64];
};

static bool see(void *arg, const tdg__sub_info_t *info) {
    struct seen *seen = arg;

    assert_true(seen->count < MAX_SEEN);
    seen->stream[seen->count] = info->stream;
    seen->kind[seen->count] = info->target.kind;
    snprintf(seen->name[seen->count], sizeof(seen->name[0]), "%.*s",
             (int)info->target.len, info->target.name);
    seen->last = *info;
    snprintf(seen->filter, sizeof(seen->filter), "%s",
             info->filter == NULL ? "none" : info->filter);
    seen->count++;
    return seen->count != seen->stop_after;
}

static bool has_seen(const struct seen *seen, tdg__stream_t stream, const char *name) {
    for (size_t i = 0; i < seen->count; i++) {
        if (seen->stream[i] == stream && strcmp(seen->name[i], name) == 0)
            return true;
    }
    return false;
}

static struct seen subscribers_of(struct fixture *f, const tdg__target_t *target,
                                  bool through_templates) {
    struct seen seen = {0};

    tdg__engine_each_subscriber(f->engine, target, through_templates, SIZE_MAX, see,
                                &seen);
    return seen;
}

static struct seen subscriptions_of(struct fixture *f, tdg__stream_t s) {
    struct seen seen = {0};

    assert_int_equal(tdg__engine_each_subscription(f->engine, s, see, &seen), 0);
    return seen;
}

/* ---- Subscribers of a resource ------------------------------------------ */

static void a_resource_nobody_subscribed_to_has_no_subscribers(void **state) {
    struct fixture *f = *state;

    changed(f, "a:1", NULL);
    assert_int_equal(subscribers(f, URI("a:1"), true), 0);
    assert_int_equal(subscribers(f, TEMPLATE("a:{x}"), true), 0);
    assert_int_equal(subscribers(f, LIST("tools"), true), 0);
    assert_int_equal(subscribers(f, URI(""), true), 0);
}

static void the_subscribers_of_a_resource_can_be_named(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f), u = open_stream(f);
    struct seen seen;

    subscribe(f, s, "a:1");
    subscribe_settings(f, t, "a:1", batch(100));
    subscribe(f, u, "a:2");
    seen = subscribers_of(f, URI("a:1"), false);
    assert_int_equal(seen.count, 2);
    assert_true(has_seen(&seen, s, "a:1"));
    assert_true(has_seen(&seen, t, "a:1"));
}

static void subscribers_through_templates_are_named_where_asked_for(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    struct seen seen;

    subscribe(f, s, "a:1");
    subscribe_template(f, s, "a:{x}");
    subscribe_template(f, t, "{scheme}:1");
    subscribe_template(f, t, "b:{x}");
    assert_int_equal(subscribers(f, URI("a:1"), false), 1);
    seen = subscribers_of(f, URI("a:1"), true);
    assert_int_equal(seen.count, 3);
    assert_true(has_seen(&seen, s, "a:1"));
    assert_true(has_seen(&seen, s, "a:{x}")); /* what was subscribed to */
    assert_true(has_seen(&seen, t, "{scheme}:1"));
}

static void a_uri_that_never_changed_has_subscribers_through_templates(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    assert_int_equal(subscribers(f, URI("a:never"), true), 1);
    assert_int_equal(subscribers(f, URI("a:never"), false), 0);
}

static void what_a_template_has_in_flight_is_no_subscription_of_its_own(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    changed(f, "a:1", NULL);
    changed(f, "a:2", NULL);
    assert_int_equal(subscribers(f, URI("a:1"), false), 0);
    assert_int_equal(subscribers(f, URI("a:1"), true), 1);
    assert_int_equal(subscriptions_of(f, s).count, 1);
    assert_int_equal(counters(f).subscriptions, 1);
}

static void the_subscribers_of_a_template_can_be_named(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_template(f, s, "a:{x}");
    subscribe_template(f, t, "a:{x}");
    subscribe_template(f, t, "a:{+x}");
    assert_int_equal(subscribers(f, TEMPLATE("a:{x}"), false), 2);
    assert_int_equal(subscribers(f, TEMPLATE("a:{+x}"), true), 1);
}

static void a_visit_can_be_stopped(void **state) {
    struct fixture *f = *state;
    struct seen seen = {.stop_after = 2};
    tdg__stream_t s = 0;

    for (int i = 0; i < 5; i++) {
        s = open_stream(f);
        subscribe(f, s, "a:1");
        subscribe_template(f, s, "a:{x}");
        subscribe_template(f, s, "{y}:1");
    }
    tdg__engine_each_subscriber(f->engine, URI("a:1"), true, SIZE_MAX, see, &seen);
    assert_int_equal(seen.count, 2);
    seen = (struct seen){.stop_after = 6};
    tdg__engine_each_subscriber(f->engine, URI("a:1"), true, SIZE_MAX, see, &seen);
    assert_int_equal(seen.count, 6);
    seen = (struct seen){.stop_after = 1};
    tdg__engine_each_subscriber(f->engine, TEMPLATE("a:{x}"), false, SIZE_MAX, see,
                                &seen);
    assert_int_equal(seen.count, 1);
    seen = (struct seen){.stop_after = 1};
    assert_int_equal(tdg__engine_each_subscription(f->engine, s, see, &seen), 0);
    assert_int_equal(seen.count, 1);
}

/* ---- Subscriptions of a stream ------------------------------------------ */

static void the_subscriptions_of_a_stream_can_be_listed(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    struct seen seen;

    assert_int_equal(subscriptions_of(f, s).count, 0);
    subscribe(f, s, "data://metrics");
    subscribe(f, s, "data://logs");
    subscribe_template(f, s, "data://{x}");
    subscribe_list(f, s, "tools");
    subscribe(f, t, "data://other");
    seen = subscriptions_of(f, s);
    assert_int_equal(seen.count, 4);
    assert_true(has_seen(&seen, s, "data://metrics"));
    assert_true(has_seen(&seen, s, "data://logs"));
    assert_true(has_seen(&seen, s, "data://{x}"));
    assert_true(has_seen(&seen, s, "tools"));
    unsubscribe(f, s, "data://logs");
    assert_int_equal(subscriptions_of(f, s).count, 3);
}

static void the_subscriptions_of_a_stream_that_is_not_open_are_not_found(void **state) {
    struct fixture *f = *state;
    struct seen seen = {0};

    assert_int_equal(tdg__engine_each_subscription(f->engine, 5, see, &seen),
                     TDG_ENOTFOUND);
    assert_int_equal(seen.count, 0);
}

static void a_subscription_is_shown_with_all_it_wished_for(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    json_t *filter = json_from("{'metadata.size': {'gt': 1}, 'age_ms': {'lt': 5}}");
    tdg__sub_opts_t opts = {
        .settings = {.timing = {TDG__TIMING_DEBOUNCE, 20, 90}, .rate_limit_ms = 700},
        .filter = filter,
        .priority = TDG__PRIORITY_HIGH};
    struct seen seen;

    subscribe_only(f, s, TEMPLATE("a:{x}"), &opts);
    json_decref(filter);
    seen = subscriptions_of(f, s);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.last.stream, s);
    assert_int_equal(seen.last.target.kind, TDG__TARGET_TEMPLATE);
    assert_int_equal(seen.last.state, TDG__ARMED);
    assert_int_equal(seen.last.settings.timing.mode, TDG__TIMING_DEBOUNCE);
    assert_int_equal(seen.last.settings.timing.window_ms, 20);
    assert_int_equal(seen.last.settings.timing.longest_ms, 90);
    assert_int_equal(seen.last.settings.rate_limit_ms, 700);
    assert_int_equal(seen.last.priority, TDG__PRIORITY_HIGH);
    assert_false(seen.last.pending);
    assert_string_equal(seen.filter,
                        "{\"age_ms\":{\"lt\":5},\"metadata.size\":{\"gt\":1}}");
}

static void a_subscription_without_wishes_is_shown_without(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    struct seen seen;

    configure(f, URI("a:1"), batch(40)); /* not a wish */
    subscribe(f, s, "a:1");
    seen = subscriptions_of(f, s);
    assert_int_equal(seen.last.settings.timing.mode, TDG__TIMING_INHERIT);
    assert_int_equal(seen.last.settings.rate_limit_ms, TDG__RATE_INHERIT);
    assert_int_equal(seen.last.state, TDG__SUBSCRIBED);
    assert_int_equal(seen.last.priority, TDG__PRIORITY_NORMAL);
    assert_string_equal(seen.filter, "none");
}

static void whether_something_is_pending_is_shown(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_template(f, t, "a:{x}");
    changed(f, "a:1", NULL);
    assert_true(subscriptions_of(f, s).last.pending);
    assert_true(subscriptions_of(f, t).last.pending);
    advance(f, 100);
    assert_true(subscriptions_of(f, s).last.pending);
    assert_int_equal(drain(f), 2);
    assert_false(subscriptions_of(f, s).last.pending);
    assert_false(subscriptions_of(f, t).last.pending);
}

static void new_wishes_are_shown(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe_settings(f, s, "a:1", batch(100));
    subscribe_with(f, s, URI("a:1"), &(tdg__sub_opts_t){.priority = TDG__PRIORITY_LOW});
    assert_int_equal(subscriptions_of(f, s).last.settings.timing.mode,
                     TDG__TIMING_INHERIT);
    assert_int_equal(subscriptions_of(f, s).last.priority, TDG__PRIORITY_LOW);
}

static void every_state_of_a_subscription_is_shown(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    f->watch_answer = TDG_EAGAIN;
    subscribe_only(f, s, URI("a:1"), NULL);
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBING);
    assert_int_equal(subscriptions_of(f, s).last.state, TDG__SUBSCRIBING);
    watch_done(f, URI("a:1"), TDG__WATCH_ARMED, 0);
    expect_state(f, s, URI("a:1"), TDG__ARMED);
    acknowledge(f, s);
    expect_state(f, s, URI("a:1"), TDG__SUBSCRIBED);
    assert_int_equal(subscriptions_of(f, s).last.state, TDG__SUBSCRIBED);
    unsubscribe(f, s, "a:1");
    expect_state(f, s, URI("a:1"), TDG__NOT_SUBSCRIBED);
    expect_state(f, s, URI(""), TDG__NOT_SUBSCRIBED);
    expect_state(f, s, TEMPLATE("a:{"), TDG__NOT_SUBSCRIBED);
}

/* ---- All, page by page -------------------------------------------------- */

static void an_empty_engine_has_one_empty_page(void **state) {
    struct fixture *f = *state;
    tdg__sub_info_t page[4];
    uint32_t position = 0;

    assert_int_equal(tdg__engine_page(f->engine, &position, NULL, false, page, 4), 0);
    assert_int_equal(position, 0);
}

static void all_subscriptions_come_page_by_page(void **state) {
    struct fixture *f = *state;
    tdg__sub_info_t page[7];
    uint32_t position = 0;
    size_t total = 0, pages = 0;
    char uri[32];

    for (int i = 0; i < 10; i++) {
        tdg__stream_t s = open_stream(f);

        snprintf(uri, sizeof(uri), "a:%d", i);
        subscribe(f, s, uri);
        subscribe_template(f, s, "a:{x}");
        subscribe_list(f, s, "tools");
        changed(f, uri, NULL); /* what is in flight must not be among them */
    }
    do {
        total += tdg__engine_page(f->engine, &position, NULL, false, page, 7);
        pages++;
    } while (position != 0);
    assert_int_equal(total, 30);
    assert_true(pages >= 5); /* some look at what is in flight */
}

static void what_is_subscribed_throughout_appears_exactly_once(void **state) {
    enum { EACH = 60 };
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), churn = open_stream(f);
    tdg__sub_info_t page[5];
    uint32_t position = 0;
    unsigned seen[EACH] = {0};
    size_t count;
    char uri[32];
    int round = 0;

    for (int i = 0; i < EACH; i++) {
        snprintf(uri, sizeof(uri), "a:%02d", i);
        subscribe(f, s, uri);
        subscribe(f, churn, uri);
    }
    do {
        count = tdg__engine_page(f->engine, &position, NULL, false, page, 5);
        for (size_t i = 0; i < count; i++) {
            if (page[i].stream == s)
                seen[strtol(page[i].target.name + 2, NULL, 10)]++;
        }
        /* Meanwhile others leave and come, and those who stay change their wishes. */
        for (int i = 0; i < 3; i++) {
            snprintf(uri, sizeof(uri), "a:%02d", (round * 7 + i) % EACH);
            if (tdg__engine_state(f->engine, churn, URI(uri)) != TDG__NOT_SUBSCRIBED)
                unsubscribe(f, churn, uri);
            else
                subscribe(f, churn, uri);
            subscribe_settings(f, s, uri, batch(100));
        }
        round++;
    } while (position != 0);
    for (int i = 0; i < EACH; i++)
        assert_int_equal(seen[i], 1);
}

/* What each_subscriber() visits, found page by page. */
static size_t page_through(struct fixture *f, const tdg__target_t *target,
                           bool through_templates) {
    tdg__sub_info_t page[3];
    uint32_t position = 0;
    size_t total = 0;

    do
        total +=
            tdg__engine_page(f->engine, &position, target, through_templates, page, 3);
    while (position != 0);
    return total;
}

static void the_subscribers_of_a_target_come_page_by_page(void **state) {
    struct fixture *f = *state;

    for (int i = 0; i < 20; i++) {
        tdg__stream_t s = open_stream(f);

        subscribe(f, s, i % 2 == 0 ? "a:1" : "a:2");
        subscribe_template(f, s, i % 4 == 0 ? "a:{x}" : "b:{x}");
        subscribe_template(f, s, "{y}:1");
        subscribe_list(f, s, "tools");
    }
    assert_int_equal(page_through(f, URI("a:1"), false), 10);
    assert_int_equal(page_through(f, URI("a:1"), true), 10 + 5 + 20);
    assert_int_equal(page_through(f, URI("b:9"), true), 15);
    assert_int_equal(page_through(f, TEMPLATE("a:{x}"), true), 5);
    assert_int_equal(page_through(f, LIST("tools"), true), 20);
    assert_int_equal(page_through(f, URI("c:1"), false), 0);
    assert_int_equal(page_through(f, URI(""), true), 0);
}

/* However little of it is meant: a stream may have thousands of URIs in flight. */
static void a_page_looks_at_so_many_records_and_no_more(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);
    tdg__sub_info_t page[4];
    uint32_t position = 0;
    size_t pages = 0, total = 0;
    char uri[32];

    subscribe_with(f, t, TEMPLATE("a:{x}"), &(tdg__sub_opts_t){.settings = batch(100)});
    for (int i = 0; i < 40; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        changed(f, uri, NULL);
    }
    subscribe(f, s, "b:1");
    do {
        total += tdg__engine_page(f->engine, &position, NULL, false, page, 4);
        pages++;
    } while (position != 0);
    assert_int_equal(total, 2);
    assert_true(pages >= 42 / 4);
}

static void a_visit_gives_up_where_it_takes_too_many_steps(void **state) {
    struct fixture *f = *state;
    size_t visited = 0;

    for (int i = 0; i < 10; i++) {
        tdg__stream_t s = open_stream(f);

        subscribe_settings(f, s, "a:1", batch((uint32_t)i + 1)); /* a group for each */
        subscribe_template(f, s, "a:{x}");
    }
    assert_false(tdg__engine_each_subscriber(f->engine, URI("a:1"), true, 15, count_visit,
                                             &visited));
    assert_true(visited < 15);
    assert_true(tdg__engine_each_subscriber(f->engine, URI("a:1"), true, 100, count_visit,
                                            &visited));
    assert_true(tdg__engine_each_subscriber(f->engine, URI("b:1"), true, 0, count_visit,
                                            &visited));
}

/* ---- Counters ----------------------------------------------------------- */

static void a_new_engine_counts_nothing(void **state) {
    struct fixture *f = *state;
    tdg__counters_t now = counters(f);

    expect_empty(f);
    assert_int_equal(now.changes, 0);
    assert_int_equal(now.delivered, 0);
    assert_int_equal(now.merged, 0);
    assert_int_equal(now.filtered, 0);
    assert_int_equal(now.rate_limited, 0);
    assert_int_equal(now.ended, 0);
    assert_int_equal(now.last_number, 0);
    assert_int_equal(now.epoch, EPOCH);
}

static void what_there_is_is_counted(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe(f, s, "a:1");
    subscribe(f, s, "a:2");
    subscribe(f, t, "a:1");
    subscribe_template(f, t, "b:{x}");
    subscribe_template(f, s, "b:{x}");
    subscribe_list(f, t, "tools");
    assert_int_equal(counters(f).streams, 2);
    assert_int_equal(counters(f).subscriptions, 6);
    assert_int_equal(counters(f).resources, 3); /* the list is one */
    assert_int_equal(counters(f).templates, 1);
    tdg__engine_close(f->engine, t);
    assert_int_equal(counters(f).streams, 1);
    assert_int_equal(counters(f).subscriptions, 3);
    assert_int_equal(counters(f).resources, 2);
    assert_int_equal(counters(f).templates, 1);
}

static void what_happened_is_counted(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f), t = open_stream(f);

    subscribe_settings(f, s, "a:1", rate_limit(1000));
    subscribe_filter(f, t, "a:1", "{'metadata.size': {'gt': 10}}");
    changed(f, "a:1", NULL); /* to s; filtered for t */
    assert_int_equal(counters(f).pending, 1);
    assert_int_equal(drain(f), 1);
    changed(f, "a:1", "{'size': 11}"); /* to t; s is held by its limit */
    changed(f, "a:1", "{'size': 12}"); /* merges for both */
    assert_int_equal(counters(f).pending, 2);
    assert_int_equal(drain(f), 1);
    advance(f, 1000);
    assert_int_equal(drain(f), 1);
    changed(f, "x:1", NULL);
    list_changed(f, "tools");

    assert_int_equal(counters(f).changes, 5);
    assert_int_equal(counters(f).delivered, 3);
    assert_int_equal(counters(f).merged, 2);
    assert_int_equal(counters(f).filtered, 1);
    assert_int_equal(counters(f).rate_limited, 1);
    assert_int_equal(counters(f).pending, 0);
    assert_int_equal(counters(f).last_number, 5);
}

static void pending_counts_every_stage(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);

    subscribe(f, s, "ready:1");
    subscribe_settings(f, s, "window:1", batch(100));
    subscribe_settings(f, s, "limit:1", rate_limit(1000));
    subscribe_only(f, s, URI("ack:1"), NULL);
    changed(f, "limit:1", NULL);
    assert_int_equal(drain(f), 1);
    changed(f, "limit:1", NULL);
    changed(f, "ready:1", NULL);
    changed(f, "window:1", NULL);
    changed(f, "ack:1", NULL);
    assert_int_equal(counters(f).pending, 4);
    unsubscribe(f, s, "window:1");
    unsubscribe(f, s, "limit:1");
    unsubscribe(f, s, "ready:1");
    unsubscribe(f, s, "ack:1");
    assert_int_equal(counters(f).pending, 0);
}

static void everything_returns_to_zero(void **state) {
    struct fixture *f = *state;
    char uri[32];

    for (int round = 0; round < 3; round++) {
        tdg__stream_t s[50];

        for (int i = 0; i < 50; i++) {
            s[i] = open_stream(f);
            snprintf(uri, sizeof(uri), "a:%d", i);
            subscribe(f, s[i], uri);
            subscribe_filter(f, s[i], "a:x", "{'metadata.size': {'gt': 1}}");
            subscribe_template(f, s[i], "a:{x}");
            subscribe_list(f, s[i], "tools");
        }
        for (int i = 0; i < 50; i += 2)
            assert_int_equal(tdg__engine_end(f->engine, s[i], 0), 0);
        for (int i = 0; i < 50; i++)
            tdg__engine_close(f->engine, s[i]);
        expect_empty(f);
    }
}

/* ---- Memory ------------------------------------------------------------- */

#define LONG_URI "db://tenants/0123456789/orders/0123456789/items/0123456789"

static void memory_is_shown_by_what_it_is_for(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__memory_t before, now;
    char uri[32];

    tdg__engine_memory(f->engine, &before);
    assert_true(before.history > 0);
    for (int i = 0; i < 5000; i++) {
        snprintf(uri, sizeof(uri), "a:%d", i);
        subscribe(f, s, uri);
    }
    tdg__engine_memory(f->engine, &now);
    assert_true(now.subscriptions > before.subscriptions);
    assert_true(now.resources > before.resources);
    assert_int_equal(now.names, before.names); /* short ones stand in their resource */
    assert_int_equal(now.history, before.history);

    subscribe(f, s, LONG_URI);
    tdg__engine_memory(f->engine, &now);
    assert_int_equal(now.names, before.names + sizeof(LONG_URI));
}

static void names_are_given_back(void **state) {
    struct fixture *f = *state;
    tdg__stream_t s = open_stream(f);
    tdg__memory_t before, now;

    tdg__engine_memory(f->engine, &before);
    subscribe(f, s, LONG_URI);
    subscribe_list(f, s, "tools");
    tdg__engine_close(f->engine, s);
    tdg__engine_memory(f->engine, &now);
    assert_int_equal(now.names, before.names);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_resource_nobody_subscribed_to_has_no_subscribers, setup_at_once),
        TEST(the_subscribers_of_a_resource_can_be_named, setup_at_once),
        TEST(subscribers_through_templates_are_named_where_asked_for, setup_at_once),
        TEST(a_uri_that_never_changed_has_subscribers_through_templates, setup_at_once),
        TEST(what_a_template_has_in_flight_is_no_subscription_of_its_own, setup_at_once),
        TEST(the_subscribers_of_a_template_can_be_named, setup_at_once),
        TEST(a_visit_can_be_stopped, setup_at_once),

        TEST(the_subscriptions_of_a_stream_can_be_listed, setup_at_once),
        TEST(the_subscriptions_of_a_stream_that_is_not_open_are_not_found, setup_at_once),
        TEST(a_subscription_is_shown_with_all_it_wished_for, setup_at_once),
        TEST(a_subscription_without_wishes_is_shown_without, setup_at_once),
        TEST(whether_something_is_pending_is_shown, setup_at_once),
        TEST(new_wishes_are_shown, setup_at_once),
        TEST(every_state_of_a_subscription_is_shown, setup_watched),

        TEST(an_empty_engine_has_one_empty_page, setup_at_once),
        TEST(all_subscriptions_come_page_by_page, setup_at_once),
        TEST(the_subscribers_of_a_target_come_page_by_page, setup_at_once),
        TEST(a_page_looks_at_so_many_records_and_no_more, setup_at_once),
        TEST(a_visit_gives_up_where_it_takes_too_many_steps, setup_at_once),
        TEST(what_is_subscribed_throughout_appears_exactly_once, setup_at_once),

        TEST(a_new_engine_counts_nothing, setup_at_once),
        TEST(what_there_is_is_counted, setup_at_once),
        TEST(what_happened_is_counted, setup_at_once),
        TEST(pending_counts_every_stage, setup_at_once),
        TEST(everything_returns_to_zero, setup_at_once),

        TEST(memory_is_shown_by_what_it_is_for, setup_at_once),
        TEST(names_are_given_back, setup_at_once),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("engine_introspect", tests, NULL, NULL);
}
