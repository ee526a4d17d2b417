/* SPDX-License-Identifier: MIT
 *
 * What a reload means to those who are subscribed: what stays, what is compared and what
 * goes; queries with channels; requests in flight. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "serve/live_internal.h"
#include "server/context/context.h"
#include "unit/serve/scene.h"
#include "unit/source/pg_server.h"

static const tdg_server_opts_t short_linger = {.linger_ms = 1};

/* ---- Replacing ---------------------------------------------------------- */

static void what_stays_keeps_its_subscribers_and_is_not_opened_again(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, &short_linger, ONE TWO MARK);
    scene_listen(&scene, &client, "'a:1'");

    struct script *before = scene_script(&scene, "a:1");

    scene_replace(&scene, MARK "- script: three\n  uri: a:3\n" ONE);
    assert_ptr_equal(scene_script(&scene, "a:1"), before);
    assert_int_equal(before->watches, 1);
    assert_int_equal(before->unwatches, 0);
    assert_int_equal(scene.opened, 4);
    assert_int_equal(scene.closing, 1);
    client_expect(&client, "notifications/resources/list_changed"); /* a:2, a:3 */
    scene_change(&scene, "a:1", "uno");
    for (;;) { /* a second list change may come before */
        const char *event = client_message(&client);

        assert_non_null(event);
        if (has(event, "'uri':'a:1'"))
            break;
        assert_true(has(event, "list_changed"));
    }
    scene_expect(&scene, "a:3", "three");
    scene_expect(&scene, "a:2", NULL);
    client_done(&client);
    scene_close(&scene);
}

static void lists_are_watched_once_however_often_it_is_replaced(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, &short_linger, "- lister: some\n  uri: 'l:{x}'\n" MARK);

    struct script *script = scene_script(&scene, "l:1");

    scene_listen(&scene, &client, "'mark:1'");
    SCENE_UNTIL(&scene, script->watches == 1);
    scene_replace(&scene, "- lister: some\n  uri: 'l:{x}'\n" MARK ONE);
    scene_replace(&scene, "- lister: some\n  uri: 'l:{x}'\n" MARK);
    assert_ptr_equal(scene_script(&scene, "l:1"), script);
    assert_int_equal(script->watches - script->unwatches, 1);
    client_done(&client);
    SCENE_UNTIL(&scene, script->watches == script->unwatches);
    scene_close(&scene);
}

static void an_equal_config_changes_nothing(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, ONE TWO MARK);
    scene_listen(&scene, &client, "'a:1'");
    scene_replace(&scene, TWO MARK ONE);
    scene_expect_marker(&scene, &client);
    assert_int_equal(scene.opened, 3);
    client_done(&client);
    scene_close(&scene);
}

/* The source is another one, but what it holds may be the same. */
static void a_changed_entry_is_compared_with_what_was_told(void **state) {
    struct client client;
    struct scene scene;
    bool told = false;

    (void)state;
    scene_open_listening(&scene, &client, ONE MARK, "'a:1'");
    scene_replace(&scene, "- script: one\n  uri: a:1\n  timeout: 7s\n" MARK);
    SCENE_UNTIL(&scene, scene_script(&scene, "a:1")->watches == 1);
    scene_expect_marker(&scene, &client);
    scene_replace(&scene, "- script: other\n  uri: a:1\n" MARK);
    scene_expect_update(&client, "a:1");
    told = has(client.event, "'change_type':'content_update'");
    assert_true(told);
    scene_expect(&scene, "a:1", "other");
    scene_change(&scene, "a:1", "more"); /* and it is watched on */
    scene_expect_update(&client, "a:1");
    client_done(&client);
    scene_close(&scene);
}

/* The next update; list changes may come before it. */
static void expect_update(struct client *client, const char *uri) {
    char text[256];

    snprintf(text, sizeof(text), "'uri':'%s'", uri);
    for (;;) {
        const char *event = client_message(client);

        assert_non_null(event);
        if (has(event, "list_changed"))
            continue;
        assert_true(has(event, text));
        return;
    }
}

static void what_is_removed_is_told_as_deleted(void **state) {
    bool listed = false, deleted = false;
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, ONE TWO MARK);
    scene_listen(&scene, &client, "'a:1'");
    scene_replace(&scene, TWO MARK);
    while (!listed || !deleted) {
        const char *event = client_message(&client);

        assert_non_null(event);
        listed = listed || has(event, "notifications/resources/list_changed");
        deleted = deleted ||
                  (has(event, "'uri':'a:1'") && has(event, "'change_type':'deleted'"));
    }
    scene_expect(&scene, "a:1", NULL);

    /* who stays subscribed hears that it is there again, and of what happens then */
    scene_replace(&scene, ONE TWO MARK);
    expect_update(&client, "a:1");
    assert_true(has(client.event, "'change_type':'created'"));
    scene_change(&scene, "a:1", "back");
    expect_update(&client, "a:1");
    assert_true(has(client.event, "'change_type':'content_update'"));
    client_done(&client);
    scene_close(&scene);
}

/* Neither of a URI nor of a template, nor about the list. */
static void a_source_that_was_replaced_says_nothing_any_more(void **state) {
    tdg__listed_t listed = {.uri = "t:1", .name = "first"};
    struct client client;
    struct scene scene;

    (void)state;
    scene_open_listening(&scene, &client, "- lister: one\n  uri: 't:{x}'\n" MARK,
                         "'t:{x}','t:1'");

    struct script *old = scene_script(&scene, "t:1");

    assert_int_equal(tdg__source_list(&old->source, &listed), 0);
    old->manual = true;
    tdg__source_touch(&old->source, "t:1");
    assert_int_equal(old->waiting_count, 1);
    assert_int_equal(
        scene_try_replace(&scene, "- lister: one\n  uri: 't:{x}'\n  timeout: 7s\n" MARK),
        0);

    struct script *now = scene_script(&scene, "t:1");

    assert_ptr_not_equal(now, old);
    assert_int_equal(tdg__source_list(&now->source, &listed), 0);
    tdg__source_unlist(&old->source, "t:1"); /* which is not freed before the loop runs */
    tdg__source_touch(&old->source, "t:2");
    scene_expect_update(&client,
                        "t:1"); /* the new one looks at what the old one was to */
    assert_false(has(client.event, "'change_type':'deleted'"));
    scene_expect_marker(&scene, &client);
    client_done(&client);
    scene_client(&scene, &client);
    modern_post(&client, "resources/list", NULL, NULL);
    assert_body(&client, "'uri':'t:1'");
    client_done(&client);
    scene_close(&scene);
}

/* A template, of whose resources one has changed. */
static void open_changed_template(struct scene *scene, struct client *client) {
    scene_open_listening(scene, client, "- script: one\n  uri: 't:{x}'\n" MARK,
                         "'t:{x}'");
    scene_change(scene, "t:1", "one");
    scene_expect_update(client, "t:1");
}

/* The old one was about to look; the new one does. What it saw before is compared. */
static void what_a_template_stands_for_is_compared_after_a_reload(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    open_changed_template(&scene, &client);
    scene_script(&scene, "t:2")->manual = true;
    tdg__source_touch(&scene_script(&scene, "t:2")->source, "t:2");

    scene_replace(&scene, "- script: one\n  uri: 't:{x}'\n  timeout: 7s\n" MARK);
    scene_expect_update(&client, "t:2");
    scene_expect_marker(&scene, &client); /* t:1 is the same */
    scene_replace(&scene, "- script: two\n  uri: 't:{x}'\n" MARK);
    scene_expect_update(&client, "t:1");
    scene_expect_update(&client, "t:2");
    scene_replace(&scene, MARK); /* and what it stood for is gone with it */
    scene_expect_update(&client, "t:1");
    assert_true(has(client.event, "'change_type':'deleted'"));
    scene_expect_update(&client, "t:2");
    client_done(&client);
    scene_close(&scene);
}

static void a_kind_that_takes_the_place_of_another_is_compared_with_it(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    open_changed_template(&scene, &client);
    scene_replace(&scene, "- memory: 't:{x}'\n" MARK);
    scene_expect_update(&client, "t:1");
    assert_true(has(client.event, "'change_type':'deleted'"));
    scene_replace(&scene, "- script: one\n  uri: 't:{x}'\n" MARK);
    scene_expect_update(&client, "t:1");
    assert_true(has(client.event, "'change_type':'created'"));
    client_done(&client);
    scene_close(&scene);
}

/* Its new source refuses to watch it, at first: the server counts it as watched all the
 * time. What was missed meanwhile is published with the first look. */
static void what_is_refused_after_a_reload_is_watched_later(void **state) {
    static const char *const uris[] = {"t:1", "t:{x}"};

    (void)state;
    for (size_t i = 0; i < COUNT(uris); i++) {
        char quoted[32];
        struct client client;
        struct scene scene;

        snprintf(quoted, sizeof(quoted), "'%s'", uris[i]);
        scene_open_listening(&scene, &client, "- script: one\n  uri: 't:{x}'\n" MARK,
                             quoted);
        scene_replace(&scene, "- script: full\n  uri: 't:{x}'\n" MARK);

        struct script *script = scene_script(&scene, "t:1");

        SCENE_UNTIL(&scene, script->watches > 1);
        script->holds = "missed";
        script->accepts = true;
        SCENE_UNTIL(&scene, strcmp(script->watched, uris[i]) == 0);
        if (i == 0)
            scene_expect_update(&client, "t:1");
        scene_change(&scene, "t:1", "more");
        scene_expect_update(&client, "t:1");
        assert_non_null(strstr(scene.log, "retrying with growing waits"));
        assert_non_null(strstr(scene.log, "is watched again"));
        scene_expect_marker(&scene, &client);
        client_done(&client);
        scene_close(&scene);
    }
}

/* It begins to watch, and finds out later that it cannot. */
static void so_is_what_is_refused_late(void **state) {
    static const tdg_target_t target = {TDG_TARGET_TEMPLATE, "t:{x}"};
    struct client client;
    struct scene scene;

    (void)state;
    scene_open_listening(&scene, &client, "- script: one\n  uri: 't:{x}'\n" MARK,
                         "'t:{x}'");
    scene_replace(&scene, "- script: slow\n  uri: 't:{x}'\n" MARK);

    struct script *script = scene_script(&scene, "t:1");

    for (unsigned i = 1; i < 4; i++) {
        SCENE_UNTIL(&scene, script->watches == i);
        tdg__source_watched(&script->source, &target, TDG_EREFUSED);
    }
    SCENE_UNTIL(&scene, script->watches == 4);
    tdg__source_watched(&script->source, &target, 0);
    scene_change(&scene, "t:1", "more");
    scene_expect_update(&client, "t:1");
    client_done(&client);
    scene_close(&scene);
}

/* Then nothing is left of it. */
static void what_is_refused_may_be_left(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, &short_linger, "- script: one\n  uri: 't:{x}'\n" MARK);
    scene_client(&scene, &client);
    modern_listen(&client, "{'resourceSubscriptions':['t:{x}']}");
    scene_replace(&scene, "- script: full\n  uri: 't:{x}'\n" MARK);
    SCENE_UNTIL(&scene, scene_script(&scene, "t:1")->watches == 2);
    client_done(&client);
    SCENE_UNTIL(&scene, tdg__wanted_next(&scene.live->watches, 0) == NULL);
    assert_int_equal(scene_script(&scene, "t:1")->unwatches, 0);
    scene_close(&scene);
}

/* Its kind cannot watch it, now or later. */
static void what_a_kind_cannot_watch_is_not_asked_for_again(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open_listening(&scene, &client, "- script: one\n  uri: 't:{x}'\n" MARK,
                         "'t:{x}'");
    scene_replace(&scene, "- script: unable\n  uri: 't:{x}'\n" MARK);
    SCENE_UNTIL(&scene, strstr(scene.log, "are not notified of changes") != NULL);
    assert_int_equal(scene_script(&scene, "t:1")->watches, 1);
    assert_false(uv_is_active((uv_handle_t *)&scene.live->again));
    scene_replace(&scene, "- script: two\n  uri: 't:{x}'\n" MARK);
    SCENE_UNTIL(&scene, strcmp(scene_script(&scene, "t:1")->watched, "t:{x}") == 0);
    scene_change(&scene, "t:1", "more");
    scene_expect_update(&client, "t:1");
    client_done(&client);
    scene_close(&scene);
}

/* ---- Replacing a query -------------------------------------------------- */

static const char *query_yaml_at(const struct pg_server *server, int port,
                                 const char *more) {
    static char yaml[1024];

    snprintf(yaml, sizeof(yaml),
             "- postgres: %s\n  query: SELECT v FROM t WHERE id = :id\n  channel: c\n"
             "  uri: 'q:{id}'\n%s" MARK,
             pg_conninfo(server, "postgres", port), more);
    return yaml;
}

static const char *query_yaml(const struct pg_server *server, const char *more) {
    return query_yaml_at(server, 0, more);
}

/* The rows of a query are nowhere listed: what its channel says during a reload is all
 * that there is, and it says that to the old connection. */
static void what_a_channel_says_during_a_reload_is_heard(void **state) {
    struct pg_server server;
    struct client client;
    struct scene scene;

    (void)state;
    pg_server_create(&server);
    pg_run(&server, "CREATE TABLE t (id int PRIMARY KEY, v text);"
                    "INSERT INTO t SELECT n, 'one' FROM generate_series(1, 9) n");
    scene_open_listening(&scene, &client, query_yaml(&server, ""), "'q:{id}'");
    pg_run(&server, "NOTIFY c, '1'");
    assert_int_equal(scene_try_replace(&scene, query_yaml(&server, "  title: a\n")), 0);
    pg_run(&server, "NOTIFY c, '2'");
    uv_run(&scene.loop, UV_RUN_NOWAIT);
    assert_int_equal(scene_try_replace(&scene, query_yaml(&server, "  title: b\n")), 0);
    pg_run(&server, "NOTIFY c, '3'");
    scene_expect_update(&client, "q:1");
    scene_expect_update(&client, "q:2");
    scene_expect_update(&client, "q:3");

    /* The old connections are gone then, and the new one listens. */
    SCENE_UNTIL(&scene, pg_number(&server, "SELECT count(*) FROM pg_stat_activity "
                                           "WHERE backend_type = 'client backend'") == 2);
    pg_run(&server, "NOTIFY c, '4'");
    scene_expect_update(&client, "q:4");
    scene_expect_marker(&scene, &client);
    client_done(&client);
    scene_close(&scene);
    pg_server_destroy(&server);
}

/* The last of three listens long before the first one hears what was said before that. */
static void what_a_slow_connection_hears_after_two_reloads_is_told(void **state) {
    struct pg_server server;
    struct pg_proxy proxy;
    struct client client;
    struct scene scene;

    (void)state;
    pg_server_create(&server);
    pg_run(&server, "CREATE TABLE t (id int PRIMARY KEY, v text);"
                    "INSERT INTO t VALUES (1, 'one')");
    pg_proxy_start(&proxy, &server);
    scene_open_listening(&scene, &client,
                         query_yaml_at(&server, proxy.port, "  probe: 10m\n"),
                         "'q:{id}'");
    kill(proxy.pid, SIGSTOP);
    assert_int_equal(scene_try_replace(&scene, query_yaml(&server, "  title: a\n")), 0);
    uv_run(&scene.loop, UV_RUN_NOWAIT);
    assert_int_equal(scene_try_replace(&scene, query_yaml(&server, "  title: b\n")), 0);
    pg_run(&server, "NOTIFY c, '1'");
    SCENE_UNTIL(&scene, pg_number(&server, "SELECT count(*) FROM pg_stat_activity WHERE "
                                           "query ~ '^LISTEN' AND state = 'idle'") == 2);
    for (int i = 0; i < 10; i++) /* it has the time to close what is still needed */
        scene_expect_marker(&scene, &client);
    kill(proxy.pid, SIGCONT);
    scene_expect_update(&client, "q:1");
    SCENE_UNTIL(&scene, pg_number(&server, "SELECT count(*) FROM pg_stat_activity "
                                           "WHERE backend_type = 'client backend'") == 2);
    client_done(&client);
    scene_close(&scene);
    pg_proxy_stop(&proxy);
    pg_server_destroy(&server);
}

/* The new one is polled and never listens itself: so the old one does not, either. */
static void a_query_that_loses_its_channel_lets_the_old_connection_go(void **state) {
    char yaml[1024], old[128];
    struct pg_server server;
    struct client client;
    struct scene scene;

    (void)state;
    pg_server_create(&server);
    pg_run(&server, "CREATE TABLE t (id int PRIMARY KEY, v text)");
    scene_open_listening(&scene, &client, query_yaml(&server, ""), "'q:{id}'");
    snprintf(old, sizeof(old), "SELECT count(*) FROM pg_stat_activity WHERE pid = %d",
             (int)pg_number(&server, "SELECT pid FROM pg_stat_activity "
                                     "WHERE client_addr IS NOT NULL")); /* not our own */
    assert_int_equal(pg_number(&server, old), 1);
    snprintf(yaml, sizeof(yaml),
             "- postgres: %s\n  query: SELECT v FROM t WHERE id = :id\n"
             "  uri: 'q:{id}'\n" MARK,
             pg_conninfo(&server, "postgres", 0));
    assert_int_equal(scene_try_replace(&scene, yaml), 0);
    SCENE_UNTIL(&scene, pg_number(&server, old) == 0);
    client_done(&client);
    scene_close(&scene);
    pg_server_destroy(&server);
}

/* A resource of its own, what a source has listed, and what a template stands for without
 * listing it. */
static void what_goes_while_the_worker_lags_is_told_as_deleted(void **state) {
    static const char *const uris[] = {"a:1", "l:1", "t:1"};
    static const char listed[] = "- lister: some\n  uri: 'l:{x}'\n";
    bool deleted[COUNT(uris)] = {false};
    struct scene_jam jam;
    struct client client;
    struct scene scene;
    char yaml[256];

    (void)state;
    snprintf(yaml, sizeof(yaml), "%s- script: many\n  uri: 't:{x}'\n" ONE TWO MARK,
             listed);
    scene_open(&scene, NULL, yaml);
    assert_int_equal(tdg__source_list(&scene_script(&scene, "l:1")->source,
                                      &(tdg__listed_t){.uri = "l:1", .name = "first"}),
                     0);
    scene_client(&scene, &client);
    modern_listen(&client, "{'resourceSubscriptions':['a:1','l:1','t:1','mark:1']}");
    scene_jam(&scene, &jam);
    scene_replace(&scene, TWO MARK);
    scene_clear(&jam);
    for (size_t left = COUNT(uris); left > 0; left--) {
        const char *event = client_message(&client);

        assert_true(has(event, "'change_type':'deleted'"));
        for (size_t i = 0; i < COUNT(uris); i++) {
            char text[64];

            snprintf(text, sizeof(text), "'uri':'%s'", uris[i]);
            if (has(event, text)) {
                assert_false(deleted[i]);
                deleted[i] = true;
            }
        }
    }
    for (size_t i = 0; i < COUNT(uris); i++) {
        assert_true(deleted[i]);
        scene_expect_listed(&scene, uris[i], false);
    }
    scene_expect_marker(&scene, &client);
    client_done(&client);
    scene_close(&scene);
}

static const char *table_yaml(const struct pg_server *server, const char *more) {
    static char yaml[1024];

    snprintf(yaml, sizeof(yaml),
             "- postgres: %s\n  table: t\n  key: id\n  uri: 'q:{id}'\n%s" MARK,
             pg_conninfo(server, "postgres", 0), more);
    return yaml;
}

/* Others may come before it: what was missed is not known. */
static void wait_for_update(struct client *client, const char *text) {
    do
        assert_non_null(client_message(client));
    while (!has(client->event, text));
}

/* A migration goes on meanwhile. */
static void a_table_that_a_reload_misses_is_watched_once_it_is_there(void **state) {
    struct pg_server server;
    struct client client;
    struct scene scene;

    (void)state;
    pg_server_create(&server);
    pg_run(&server, "CREATE TABLE t (id int PRIMARY KEY, v text);"
                    "INSERT INTO t VALUES (1, 'one')");
    pg_install(&server, "t", "id", NULL);
    scene_open_listening(&scene, &client, table_yaml(&server, ""), "'q:{id}'");
    pg_run(&server, "UPDATE t SET v = 'two'");
    scene_expect_update(&client, "q:1");
    pg_run(&server, "ALTER TABLE t RENAME TO u");
    assert_int_equal(scene_try_replace(&scene, table_yaml(&server, "  title: a\n")), 0);
    SCENE_UNTIL(&scene, strstr(scene.log, "q:{id} can no longer be watched") != NULL);
    pg_run(&server, "ALTER TABLE u RENAME TO t; INSERT INTO t VALUES (2, 'new')");
    wait_for_update(&client, "'uri':'q:2'");
    pg_run(&server, "INSERT INTO t VALUES (3, 'new')");
    wait_for_update(&client, "'uri':'q:3'");
    client_done(&client);
    scene_close(&scene);
    pg_server_destroy(&server);
}

/* It is in no list, so nothing leaves one. */
static void what_a_removed_template_stood_for_is_told_as_deleted(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, "- script: many\n  uri: 't:{x}'\n" MARK);
    scene_listen(&scene, &client, "'t:1'");
    scene_replace(&scene, MARK);
    expect_update(&client, "t:1");
    assert_true(has(client.event, "'change_type':'deleted'"));
    scene_replace(&scene, "- script: many\n  uri: 't:{x}'\n" MARK);
    expect_update(&client, "t:1");
    assert_true(has(client.event, "'change_type':'created'"));
    client_done(&client);
    scene_close(&scene);
}

/* The new one is ready at once, before the old one has left. */
static void what_leaves_is_not_listed_any_more(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, ONE TWO);
    scene_replace(&scene, "- script: three\n  uri: a:3\n" TWO);
    scene_client(&scene, &client);
    modern_post(&client, "resources/list", NULL, NULL);
    assert_false(body_has(&client, "'uri':'a:1'"));
    assert_body(&client, "'uri':'a:2'");
    assert_body(&client, "'uri':'a:3'");
    client_done(&client);
    scene_close(&scene);
}

/* A source that has no list yet, perhaps never, holds up what it may list, and nothing
 * else. */
static void what_leaves_does_not_wait_for_sources_of_other_uris(void **state) {
    struct client client;
    struct scene scene;
    char yaml[256];

    (void)state;
    scene_open(&scene, NULL,
               "- lister: now\n  uri: 'h:{x}'\n- script: 0\n  uri: s:0\n" MARK);
    assert_int_equal(tdg__source_list(&scene_script(&scene, "h:1")->source,
                                      &(tdg__listed_t){.uri = "h:1", .name = "held"}),
                     0);
    scene_listen(&scene, &client, "'s:0'");
    for (int i = 1; i <= 20; i++) {
        char gone[16];

        snprintf(yaml, sizeof(yaml),
                 "- lister: later\n  title: %d\n  uri: 'h:{x}'\n"
                 "- script: x\n  uri: s:%d\n" MARK,
                 i, i);
        assert_int_equal(scene_try_replace(&scene, yaml), 0);
        snprintf(gone, sizeof(gone), "s:%d", i - 1);
        scene_expect_listed(&scene, gone, false);
        assert_true(scene_lists(&scene, "h:1"));
    }
    expect_update(&client, "s:0");
    assert_true(has(client.event, "'change_type':'deleted'"));
    strcat(yaml, "- lister: later\n  uri: 'never:{x}'\n");
    assert_int_equal(scene_try_replace(&scene, yaml), 0);
    tdg__source_ready(&scene_script(&scene, "h:1")->source);
    scene_expect_listed(&scene, "h:1", false);
    client_done(&client);
    scene_close(&scene);
}

static void what_is_listed_again_was_never_away(void **state) {
    tdg__listed_t listed = {.uri = "l:1", .name = "first"};
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, "- lister: some\n  uri: 'l:{x}'\n" MARK);
    assert_int_equal(tdg__source_list(&scene_script(&scene, "l:1")->source, &listed), 0);
    scene_client(&scene, &client);
    modern_listen(&client, "{'resourceSubscriptions':['l:1','mark:1']}");

    unsigned ready = scene.ready;

    assert_int_equal(scene_try_replace(&scene, "- lister: later\n  uri: 'l:{x}'\n" MARK),
                     0);

    struct script *script = scene_script(&scene, "l:1");

    script->holds = "some";
    assert_int_equal(tdg__source_list(&script->source, &listed), 0);
    assert_int_equal(scene.ready, ready);
    tdg__source_ready(&script->source);
    SCENE_UNTIL(&scene, scene.ready > ready);
    scene_expect(&scene, "l:1", "some");
    client_done(&client);
    scene_close(&scene);
}

static void an_entry_that_cannot_work_does_not_hold_up_the_others(void **state) {
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL,
               "- script: broken\n  uri: b:1\n- script: broken\n  uri: 'c:{x}'\n" ONE);
    scene_expect(&scene, "a:1", "one");
    assert_int_equal(scene.opened, 1);
    assert_int_equal(scene.closing, 2);

    /* They are freed by now, and nobody asks them. */
    scene_expect(&scene, "b:1", NULL);
    scene_expect(&scene, "c:1", NULL);
    scene_replace(&scene,
                  "- script: now\n  uri: b:1\n- script: now\n  uri: 'c:{x}'\n" ONE);
    scene_expect(&scene, "b:1", "now");
    scene_expect(&scene, "c:1", "now");
    scene_close(&scene);
}

/* ---- The end ------------------------------------------------------------ */

/* Reads a:1, whose source does not answer before the entries are replaced. */
static void expect_after_replace(const char *yaml, const char *answer) {
    struct client client;
    struct scene scene;

    scene_open(&scene, NULL, ONE TWO);

    struct script *script = scene_script(&scene, "a:1");

    script->manual = true;
    scene_client(&scene, &client);
    modern_send(&client, "resources/read", "a:1", "'uri':'a:1'");
    SCENE_UNTIL(&scene, script->waiting_count == 1);
    scene_replace(&scene, yaml);
    assert_int_equal(client_response(&client), 200);
    assert_body(&client, answer);
    client_done(&client);
    scene_close(&scene);
}

static void reads_in_flight_go_where_their_resource_went(void **state) {
    (void)state;
    expect_after_replace("- {script: other, uri: 'a:1'}\n" TWO, "'text':'other'");
    expect_after_replace(TWO, "'code':-32602");
}

static bool is_readable(int fd) {
    struct pollfd wanted = {.fd = fd, .events = POLLIN};

    return poll(&wanted, 1, 0) > 0;
}

/* However often the source is replaced before it answers. */
static void a_read_does_not_begin_anew_for_ever(void **state) {
    uint64_t deadline = now_ms() + CLIENT_PATIENCE_MS;
    struct client client;
    struct scene scene;
    char yaml[128];

    (void)state;
    scene_open(&scene, NULL, ONE);
    scene_script(&scene, "a:1")->manual = true;
    scene_client(&scene, &client);
    modern_send(&client, "resources/read", "a:1", "'uri':'a:1'");
    for (int i = 0; !is_readable(client.fd); i++) {
        const struct script *script = scene_script(&scene, "a:1");

        SCENE_UNTIL(&scene, script->waiting_count == 1 || is_readable(client.fd));
        assert_true(now_ms() < deadline);
        snprintf(yaml, sizeof(yaml),
                 "- script: one\n  uri: a:1\n  timeout: 1s\n  title: %d\n", i);
        assert_int_equal(scene_try_replace(&scene, yaml), 0);
        scene_script(&scene, "a:1")->manual = true;
    }
    assert_int_equal(client_response(&client), 200);
    assert_body(&client, "reloaded repeatedly");
    client_done(&client);
    scene_close(&scene);
}

/* A client subscribes to what takes long to be watched: it is not answered yet. */
static void listen_to_slow(struct scene *scene, struct client *ret) {
    scene_client(scene, ret);
    modern_send(ret, "subscriptions/listen", NULL,
                "'notifications':{'resourceSubscriptions':['a:9']}");
    SCENE_UNTIL(scene, strcmp(scene_script(scene, "a:9")->watched, "a:9") == 0);
}

static void what_is_not_watched_yet_may_be_removed(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, "- script: slow\n  uri: a:9\n" ONE);
    listen_to_slow(&scene, &client);
    scene_replace(&scene, ONE);
    assert_int_equal(client_response(&client), 200);
    client_expect(&client, "not_found"); /* refused in the acknowledgement */
    client_done(&client);
    scene_close(&scene);
}

static void what_is_not_watched_yet_does_not_outlive_the_sources(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, "- script: slow\n  uri: a:9\n" ONE);
    listen_to_slow(&scene, &client);
    client_done(&client);
    scene_close(&scene); /* the server is destroyed after the sources */
}

/* Waits until a read gives this text. */
static void wait_for_text(struct scene *scene, const char *uri, const char *text) {
    uint64_t deadline = now_ms() + CLIENT_PATIENCE_MS;
    char params[64], expected[64];
    struct client client;
    bool same = false;

    snprintf(params, sizeof(params), "'uri':'%s'", uri);
    snprintf(expected, sizeof(expected), "'text':'%s'", text);
    while (!same) {
        assert_true(now_ms() < deadline);
        scene_client(scene, &client);
        modern_post(&client, "resources/read", uri, params);
        same = body_has(&client, expected);
        client_done(&client);
    }
}

/* Makes the n-th allocation of a reload fail. True: one has failed. */
static bool reload_without_memory(struct scene *scene, size_t nth, const char *yaml,
                                  int *ret) {
    memory_fail(nth, MEMORY_ONCE);
    *ret = scene_try_replace(scene, yaml);

    bool failed = memory_failed();

    memory_fail(0, MEMORY_ONCE);
    return failed;
}

/* One thread, so that memory can be made to fail. Either nothing has changed, or all is
 * there in the end, and who is subscribed goes on hearing. */
static void memory_may_run_out_in_a_reload(void **state) {
    static const char *const configs[] = {ONE MARK,
                                          "- script: new\n  uri: a:1\n" TWO MARK};
    static const char *const texts[] = {"one", "new"};
    size_t refused = 0, taken = 0;
    struct client client;
    struct scene scene;
    bool failed = true;
    int at = 0;

    (void)state;
    memory_count();
    scene_attach(&scene, configs[at]);
    scene_client(&scene, &client);
    modern_listen(&client, "{'resourceSubscriptions':['a:1']}");
    for (size_t nth = 1; failed; nth++) {
        struct script *before = scene_script(&scene, "a:1");
        int rv;

        assert_true(nth < 1000);
        failed = reload_without_memory(&scene, nth, configs[1 - at], &rv);
        if (rv < 0) {
            refused++;
            assert_ptr_equal(scene_script(&scene, "a:1"), before);
            assert_int_equal(before->watches, 1);
            continue;
        }
        taken++;
        at = 1 - at;
        wait_for_text(&scene, "a:1", texts[at]);
        if (at == 1)
            wait_for_text(&scene, "a:2", "two");
        SCENE_UNTIL(&scene, scene_script(&scene, "a:1")->watches == 1);
        do /* its own news comes before or after */
            scene_change(&scene, "a:1", "changed");
        while (!has(client_message(&client), "'size':7"));
        scene_script(&scene, "a:1")->holds = texts[at];
        tdg__source_touch(&scene_script(&scene, "a:1")->source, "a:1");
        while (!has(client_message(&client), "'size':3"))
            ;
    }
    printf("# %zu refused, %zu taken\n", refused, taken);
    assert_true(refused > 10);
    assert_true(taken > 10);
    client_done(&client);
    scene_close(&scene);
}

/* Who is subscribed is notified of what is there, not of a change of what is gone. */
static void memory_may_run_out_when_a_resource_goes(void **state) {
    static const char here[] = "- script: one\n  uri: a:1\n",
                      gone[] = "- script: gone\n  uri: a:1\n";
    struct client client;
    struct scene scene;
    bool failed = true;

    (void)state;
    scene_attach(&scene, here);
    scene_client(&scene, &client);
    modern_listen(&client, "{'resourceSubscriptions':['a:1']}");
    for (size_t nth = 1; failed; nth++) {
        int rv;

        assert_true(nth < 1000);
        failed = reload_without_memory(&scene, nth, gone, &rv);
        if (rv < 0)
            continue;
        assert_true(has(client_message(&client), "'change_type':'deleted'"));
        scene_replace(&scene, here);
        while (!has(client_message(&client), "'size':3")) {
        }
    }
    client_done(&client);
    scene_close(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_stays_keeps_its_subscribers_and_is_not_opened_again),
        cmocka_unit_test(lists_are_watched_once_however_often_it_is_replaced),
        cmocka_unit_test(an_equal_config_changes_nothing),
        cmocka_unit_test(a_changed_entry_is_compared_with_what_was_told),
        cmocka_unit_test(a_source_that_was_replaced_says_nothing_any_more),
        cmocka_unit_test(what_a_template_stands_for_is_compared_after_a_reload),
        cmocka_unit_test(a_kind_that_takes_the_place_of_another_is_compared_with_it),
        cmocka_unit_test(what_is_refused_after_a_reload_is_watched_later),
        cmocka_unit_test(so_is_what_is_refused_late),
        cmocka_unit_test(what_is_refused_may_be_left),
        cmocka_unit_test(what_a_kind_cannot_watch_is_not_asked_for_again),
        cmocka_unit_test(a_table_that_a_reload_misses_is_watched_once_it_is_there),
        cmocka_unit_test(what_a_channel_says_during_a_reload_is_heard),
        cmocka_unit_test(what_a_slow_connection_hears_after_two_reloads_is_told),
        cmocka_unit_test(a_query_that_loses_its_channel_lets_the_old_connection_go),
        cmocka_unit_test(what_is_removed_is_told_as_deleted),
        cmocka_unit_test(what_goes_while_the_worker_lags_is_told_as_deleted),
        cmocka_unit_test(what_a_removed_template_stood_for_is_told_as_deleted),
        cmocka_unit_test(what_leaves_is_not_listed_any_more),
        cmocka_unit_test(what_leaves_does_not_wait_for_sources_of_other_uris),
        cmocka_unit_test(what_is_listed_again_was_never_away),
        cmocka_unit_test(an_entry_that_cannot_work_does_not_hold_up_the_others),
        cmocka_unit_test(what_is_not_watched_yet_may_be_removed),
        cmocka_unit_test(what_is_not_watched_yet_does_not_outlive_the_sources),
        cmocka_unit_test(reads_in_flight_go_where_their_resource_went),
        cmocka_unit_test(a_read_does_not_begin_anew_for_ever),
        cmocka_unit_test(memory_may_run_out_in_a_reload), /* counts memory from here on */
        cmocka_unit_test(memory_may_run_out_when_a_resource_goes),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("live_replace", tests, NULL, NULL);
}
