/* SPDX-License-Identifier: MIT
 *
 * What subscribers are told, when, and in which words: metadata, settings, signs of life;
 * and what the server tells of itself. */
#include <stdio.h>

#include "served.h"
#include "server/context/context.h"
#include "unit/targets.h"

struct fixture {
    struct served served;
    struct client one, two, get;
};

static struct fixture *open_with(void **state, const tdg_server_opts_t *opts) {
    struct fixture *f = *state;

    served_open(&f->served, opts, NULL);
    served_client(&f->served, &f->one);
    served_client(&f->served, &f->two);
    served_client(&f->served, &f->get);
    return f;
}

static int setup(void **state) {
    *state = calloc(1, sizeof(struct fixture));
    return *state == NULL;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    client_done(&f->one);
    client_done(&f->two);
    client_done(&f->get);
    served_close(&f->served);
    free(f);
    return 0;
}

/* ---- Words -------------------------------------------------------------- */

static void both_eras_get_the_same_change(void **state) {
    struct fixture *f = open_with(state, NULL);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1']}");
    legacy_initialize(&f->two, LATEST_LEGACY);
    legacy_join(&f->get, &f->two);
    assert_int_equal(legacy_get(&f->get, NULL), 200);
    legacy_subscribe(&f->two, "a:1");
    assert_int_equal(tdg_server_notify_updated(f->served.server, "a:1",
                                               json_pack("{s:i}", "size", 42)),
                     0);
    client_expect(&f->one, "'size':42");
    assert_true(has(f->one.event, "io.modelcontextprotocol/subscriptionId"));
    assert_true(has(f->one.event, "'dev.tidings/metadata':"));
    assert_true(has(f->one.event, "'metadata':"));
    client_expect(&f->get, "'size':42");
    assert_true(has(f->get.event, "\nid: "));
}

static void metadata_can_be_left_out_of_either_place(void **state) {
    static const unsigned flags[] = {TDG_NO_PARAMS_METADATA, TDG_NO_META_METADATA};
    static const char *const absent[] = {",'metadata':", "'dev.tidings/metadata':"};
    static const char *const present[] = {"'dev.tidings/metadata':", "'metadata':"};

    for (size_t i = 0; i < COUNT(flags); i++) {
        const tdg_server_opts_t opts = {.flags = flags[i]};
        struct served served;
        struct client client;

        served_open(&served, &opts, NULL);
        served_client(&served, &client);
        modern_listen(&client, "{'resourceSubscriptions':['a:1']}");
        assert_int_equal(
            tdg_server_notify_updated(served.server, "a:1", json_pack("{s:i}", "n", 1)),
            0);
        client_expect(&client, present[i]);
        assert_false(has(client.event, absent[i]));
        client_done(&client);
        served_close(&served);
    }
    open_with(state, NULL);
}

static uint64_t last_number(const struct fixture *f) {
    return tdg__hub_last_number(f->served.server->hub);
}

static void a_deletion_says_so(void **state) {
    struct fixture *f = open_with(state, NULL);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1','a:2']}");
    assert_int_equal(tdg_server_notify_deleted(f->served.server, "a:1", NULL), 0);
    client_expect(&f->one, "'change_type':'deleted'");
    assert_int_equal(tdg_server_remove_resource(f->served.server, "a:2"), 0);
    client_expect(&f->one, "'change_type':'deleted'");
    assert_true(has(f->one.event, "'uri':'a:2'"));
    served_change(&f->served, "a:2"); /* the subscription stays */
    client_expect(&f->one, "'uri':'a:2'");
    uint64_t told = last_number(f);
    assert_int_equal(tdg_server_remove_resource(f->served.server, "a:2"), TDG_ENOTFOUND);
    assert_int_equal(last_number(f), told);
}

struct remover {
    tdg_server_t *server;
    int removed;
};

static void *remove_it(void *arg) {
    struct remover *remover = arg;

    for (int i = 0; i < 200; i++)
        remover->removed += tdg_server_remove_resource(remover->server, "a:2") == 0;
    return NULL;
}

static void read_nothing(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    (void)uri;
    tdg_request_fail_not_found(request);
}

/* Lists are switched off here: every change is a deletion. */
static void of_two_removers_one_tells(void **state) {
    const tdg_server_opts_t opts = {.flags = TDG_NO_LIST_CHANGED};
    const tdg_resource_t again = {.uri = "a:2", .name = "n", .read = read_nothing};
    struct fixture *f = open_with(state, &opts);
    struct remover removers[3];
    pthread_t threads[COUNT(removers)];
    uint64_t removed = 0;

    for (size_t i = 0; i < COUNT(removers); i++) {
        removers[i] = (struct remover){.server = f->served.server};
        assert_int_equal(pthread_create(&threads[i], NULL, remove_it, &removers[i]), 0);
    }
    for (int i = 0; i < 200; i++)
        assert_int_equal(tdg_server_add_resource(f->served.server, &again), 0);
    for (size_t i = 0; i < COUNT(removers); i++) {
        pthread_join(threads[i], NULL);
        removed += (uint64_t)removers[i].removed;
    }
    assert_in_range(removed, 1, 201);
    assert_int_equal(last_number(f), removed);
}

static void read_new(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    (void)uri;
    tdg_request_reply_text(request, "new");
}

static void a_resource_that_is_changed_keeps_its_subscribers(void **state) {
    const tdg_resource_t changed = {.uri = "a:1", .name = "new", .read = read_new};
    struct fixture *f = open_with(state, NULL);

    modern_listen(&f->one,
                  "{'resourceSubscriptions':['a:1'],'resourcesListChanged':true}");
    legacy_initialize(&f->two, LATEST_LEGACY);
    legacy_join(&f->get, &f->two);
    assert_int_equal(legacy_get(&f->get, NULL), 200);
    legacy_subscribe(&f->two, "a:1");

    assert_int_equal(tdg_server_add_resource(f->served.server, &changed), 0);
    client_expect(&f->one, "notifications/resources/list_changed");
    client_expect(&f->get, "notifications/resources/list_changed");
    served_change(&f->served, "a:1");
    client_expect(&f->one, "'uri':'a:1'");
    client_expect(&f->get, "'uri':'a:1'");
    assert_int_equal(modern_post(&f->two, "resources/read", "a:1", "'uri':'a:1'"), 200);
    assert_body(&f->two, "'text':'new'");
}

/* However many come at once: one per window and limit, and the last one arrives. */
static void many_additions_are_few_list_changes(void **state) {
    enum { MANY = 10000 };
    const tdg_server_opts_t opts = {.settings =
                                        &(tdg_settings_t){.timing = TDG_TIMING_BATCH,
                                                          .window_ms = 100,
                                                          .rate_limit_ms = 1000},
                                    .workers = 2};
    struct fixture *f = open_with(state, &opts);
    tdg_resource_t resource = {.name = "n", .read = read_new};
    char uri[32];
    uint64_t began = now_ms();

    modern_listen(&f->one, "{'resourcesListChanged':true}");
    resource.uri = uri;
    for (int i = 0; i < MANY; i++) {
        snprintf(uri, sizeof(uri), "m:%d", i);
        assert_int_equal(tdg_server_add_resource(f->served.server, &resource), 0);
    }
    client_expect(&f->one, "notifications/resources/list_changed");
    WAIT_COUNTER(&f->served, &f->one, pending, 0);
    assert_true(served_counters(&f->served).delivered <= 2 + (now_ms() - began) / 1000);

    for (int i = 0; i < MANY; i++) {
        snprintf(uri, sizeof(uri), "m:%d", i);
        assert_int_equal(tdg_server_remove_resource(f->served.server, uri), 0);
    }
    client_expect(&f->one, "notifications/resources/list_changed");
}

static void refuses_what_is_no_change(void **state) {
    struct fixture *f = open_with(state, NULL);
    tdg_server_t *server = f->served.server;
    char *large = malloc(20000);

    assert_non_null(large);
    memset(large, 'x', 19999);
    large[19999] = '\0';
    assert_int_equal(tdg_server_notify_updated(server, "", NULL), TDG_EINVAL);
    assert_int_equal(tdg_server_notify_updated(server, NULL, json_object()), TDG_EINVAL);
    assert_int_equal(tdg_server_notify_updated(NULL, "a:1", json_object()), TDG_EINVAL);
    assert_int_equal(tdg_server_notify_updated(server, "a:1", json_array()), TDG_EINVAL);
    assert_int_equal(tdg_server_notify_updated(server, large, NULL), TDG_EURILEN);
    assert_int_equal(
        tdg_server_notify_updated(server, "a:1", json_pack("{s:s}", "m", large)),
        TDG_EMETADATA);
    free(large);
}

static void a_callback_tells_with_one_call(void **state) {
    struct fixture *f = open_with(state, NULL);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1']}");
    modern_send(&f->two, "tools/call", "hold", "'name':'hold'");
    tdg_request_t *request = served_take(&f->served, &f->two);
    assert_ptr_equal(tdg_request_server(request), f->served.server);
    assert_int_equal(tdg_request_notify_updated(request, "a:1", NULL), 0);
    tdg_request_reply_text(request, "told");
    client_expect(&f->one, "'uri':'a:1'");
    assert_int_equal(client_response(&f->two), 200);
}

/* ---- When --------------------------------------------------------------- */

static void a_resource_has_settings_of_its_own(void **state) {
    const tdg_settings_t none = {.timing = TDG_TIMING_INHERIT};
    const tdg_settings_t slow = {
        .timing = TDG_TIMING_DEBOUNCE, .window_ms = 60000, .rate_limit_ms = TDG_RATE_OFF};
    struct fixture *f = open_with(state, NULL);
    tdg_server_t *server = f->served.server;

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1','a:2']}");
    assert_int_equal(tdg_server_configure(server, FOR_URI("a:1"), &slow), 0);
    served_change(&f->served, "a:1");
    served_change(&f->served, "a:2");
    client_expect(&f->one, "'uri':'a:2'");
    WAIT_COUNTER(&f->served, &f->two, pending, 1);
    assert_int_equal(tdg_server_configure(server, FOR_URI("a:1"), &none), 0);
    served_change(&f->served, "a:1");
    client_expect(&f->one, "'uri':'a:1'");
}

static void bad_settings_are_refused(void **state) {
    const tdg_settings_t bad = {.timing = (tdg_timing_mode_t)77};
    const tdg_settings_t good = {.timing = TDG_TIMING_IMMEDIATE};
    struct fixture *f = open_with(state, NULL);
    tdg_server_t *server = f->served.server;

    assert_int_equal(tdg_server_configure(server, FOR_URI("a:1"), &bad), TDG_EINVAL);
    assert_int_equal(tdg_server_configure(server, FOR_URI(""), &good), TDG_EINVAL);
    assert_int_equal(tdg_server_configure(server, NULL, &good), TDG_EINVAL);
    assert_int_equal(tdg_server_configure(server, FOR_URI("a:1"), NULL), TDG_EINVAL);
    assert_int_equal(tdg_server_configure(NULL, FOR_URI("a:1"), &good), TDG_EINVAL);
    assert_int_equal(tdg_server_configure(server, FOR_TEMPLATE("x:{"), &good),
                     TDG_ETEMPLATE);
}

static void no_freeing(void *user) {
    (void)user;
    fail_msg("`user` is the caller's where adding fails");
}

static void read_it(void *user, tdg_request_t *request, const char *uri) {
    (void)user;
    tdg_request_reply_text(request, uri);
}

static void a_resource_added_again_has_the_settings_of_the_last_time(void **state) {
    struct fixture *f = open_with(state, NULL);
    tdg_resource_t slow = {
        .uri = "a:1",
        .name = "one",
        .read = read_it,
        .settings = &(tdg_settings_t){.timing = TDG_TIMING_BATCH, .window_ms = 3600000}};
    const tdg_resource_t plain = {.uri = "a:1", .name = "one", .read = read_it};

    assert_int_equal(tdg_server_add_resource(f->served.server, &slow), 0);
    assert_int_equal(tdg_server_add_resource(f->served.server, &plain), 0);
    modern_listen(&f->one, "{'resourceSubscriptions':['a:1']}");
    served_change(&f->served, "a:1");
    client_expect(&f->one, "'uri':'a:1'"); /* and not in an hour */
}

static void adding_with_bad_settings_adds_nothing(void **state) {
    const tdg_resource_t resource = {
        .uri = "b:1",
        .name = "b",
        .read = read_it,
        .user_free = no_freeing,
        .settings = &(tdg_settings_t){.timing = (tdg_timing_mode_t)77}};
    const tdg_template_t template_ = {.uri_template = "b:{x}",
                                      .name = "b",
                                      .read = read_it,
                                      .user_free = no_freeing,
                                      .settings = &(tdg_settings_t){.rate_limit_ms = -5}};
    struct fixture *f = open_with(state, NULL);

    assert_int_equal(tdg_server_add_resource(f->served.server, &resource), TDG_EINVAL);
    assert_int_equal(tdg_server_add_template(f->served.server, &template_), TDG_EINVAL);
    assert_int_equal(modern_post(&f->one, "resources/list", NULL, NULL), 200);
    assert_false(body_has(&f->one, "b:1"));
    assert_int_equal(tdg_server_remove_template(f->served.server, "b:{x}"),
                     TDG_ENOTFOUND);
}

/* One that cannot be added leaves the settings as they were. */
static void settings_stay_where_adding_fails(void **state) {
    const tdg_settings_t slow = {.timing = TDG_TIMING_DEBOUNCE, .window_ms = 60000};
    const tdg_resource_t nameless = {
        .uri = "a:1",
        .read = read_it,
        .settings = &(tdg_settings_t){.timing = TDG_TIMING_IMMEDIATE}};
    struct fixture *f = open_with(state, NULL);

    assert_int_equal(tdg_server_configure(f->served.server, FOR_URI("a:1"), &slow), 0);
    assert_int_equal(tdg_server_add_resource(f->served.server, &nameless), TDG_EINVAL);
    modern_listen(&f->one, "{'resourceSubscriptions':['a:1','a:2']}");
    served_change(&f->served, "a:1");
    served_change(&f->served, "a:2");
    client_expect(&f->one, "'uri':'a:2'"); /* a:1 waits */
}

/* ---- Signs of life ------------------------------------------------------ */

static void silent_streams_show_that_they_live(void **state) {
    const tdg_server_opts_t opts = {.keepalive_ms = 40};
    struct fixture *f = open_with(state, &opts);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1']}");
    legacy_initialize(&f->two, LATEST_LEGACY);
    legacy_join(&f->get, &f->two);
    assert_int_equal(legacy_get(&f->get, NULL), 200);
    client_event(&f->get); /* its opening */
    for (int i = 0; i < 3; i++) {
        assert_string_equal(client_event(&f->one), ":\n");
        assert_string_equal(client_event(&f->get), ":\n");
    }
}

/* ---- Looking inside ----------------------------------------------------- */

static void counts_what_happens(void **state) {
    const tdg_server_opts_t opts = {.workers = 3};
    struct fixture *f = open_with(state, &opts);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1','a:2']}");
    legacy_initialize(&f->two, LATEST_LEGACY);
    served_change(&f->served, "a:1");
    client_expect(&f->one, "'uri':'a:1'");
    WAIT_COUNTER(&f->served, &f->two, connections, 3);
    WAIT_COUNTER(&f->served, &f->two, sessions, 1);
    WAIT_COUNTER(&f->served, &f->two, streams, 2);
    WAIT_COUNTER(&f->served, &f->two, subscriptions, 5); /* three are lists */
    WAIT_COUNTER(&f->served, &f->two, delivered, 1);
    WAIT_COUNTER(&f->served, &f->two, requests, 3);
}

static void shows_who_is_subscribed(void **state) {
    const tdg_server_opts_t opts = {.workers = 3};
    struct fixture *f = open_with(state, &opts);

    modern_listen(&f->one, "{'resourceSubscriptions':['a:1','t:{x}']}");
    legacy_initialize(&f->two, LATEST_LEGACY);
    legacy_subscribe(&f->two, "a:2");
    json_t *all = served_subscriptions(&f->served, NULL);
    assert_int_equal(json_array_size(all), 6); /* three are lists */
    char *text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
    assert_true(has(text, "'era':'modern','kind':'uri'"));
    assert_true(has(text, "'target':'t:{x}'"));
    assert_true(has(text, "'target':'a:2'"));
    free(text);
    json_decref(all);
    all = served_subscriptions(&f->served, &(tdg_subscription_query_t){.max = 2});
    assert_int_equal(json_array_size(all), 2);
    json_decref(all);
}

static void lists_come_in_pages(void **state) {
    const tdg_server_opts_t opts = {.page_size = 1};
    struct fixture *f = open_with(state, &opts);
    char params[256];

    assert_int_equal(modern_post(&f->one, "resources/list", NULL, NULL), 200);
    assert_body(&f->one, "a:1");
    assert_false(body_has(&f->one, "a:2"));
    char *cursor = strstr(f->one.body, "\"nextCursor\":\"");
    assert_non_null(cursor);
    cursor += strlen("\"nextCursor\":\"");
    snprintf(params, sizeof(params), "'cursor':'%.*s'", (int)strcspn(cursor, "\""),
             cursor);
    assert_int_equal(modern_post(&f->one, "resources/list", NULL, params), 200);
    assert_body(&f->one, "a:2");
    assert_false(body_has(&f->one, "nextCursor"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(both_eras_get_the_same_change),
        CASE(metadata_can_be_left_out_of_either_place),
        CASE(a_deletion_says_so),
        CASE(of_two_removers_one_tells),
        CASE(a_resource_that_is_changed_keeps_its_subscribers),
        CASE(many_additions_are_few_list_changes),
        CASE(refuses_what_is_no_change),
        CASE(a_callback_tells_with_one_call),
        CASE(a_resource_has_settings_of_its_own),
        CASE(a_resource_added_again_has_the_settings_of_the_last_time),
        CASE(bad_settings_are_refused),
        CASE(adding_with_bad_settings_adds_nothing),
        CASE(settings_stay_where_adding_fails),
        CASE(silent_streams_show_that_they_live),
        CASE(counts_what_happens),
        CASE(shows_who_is_subscribed),
        CASE(lists_come_in_pages),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("feed", tests, NULL, NULL);
}
