/* SPDX-License-Identifier: MIT
 *
 * Sources behind a server, from a client's side: reading, watching, changes and lists. */
#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#include "server/context/context.h"
#include "server/context/limits.h"
#include "unit/serve/scene.h"

static const tdg_server_opts_t short_linger = {.linger_ms = 1};

/* ---- Large answers ------------------------------------------------------ */

static atomic_int refusals_logged;

static void count_refusals(void *user, tdg_log_level_t level, const char *message) {
    (void)user;
    (void)level;
    if (strstr(message, "large responses") != NULL)
        atomic_fetch_add(&refusals_logged, 1);
}

static void leave(struct scene *scene, struct client *client) {
    client_done(client);
    while (scene_connections(scene) > 0)
        poll(NULL, 0, 1);
}

/* Asks, waits until the request is in the queue to the loop, which stands still, and
 * leaves. */
static void read_and_leave(struct scene *scene, const char *uri, const char *params) {
    struct pollfd woken = {.fd = uv_backend_fd(&scene->loop), .events = POLLIN};
    struct client client;

    scene_client(scene, &client);
    scene_step(scene);
    assert_int_equal(poll(&woken, 1, 0), 0);
    modern_send(&client, "resources/read", uri, params);
    assert_int_equal(poll(&woken, 1, CLIENT_PATIENCE_MS), 1);
    leave(scene, &client);
}

/* Asks, and leaves before the source has found this. */
static void leave_while_it_is_fetched(struct scene *scene, const char *uri,
                                      const char *params, tdg__content_t content) {
    struct script *script = scene_script(scene, uri);
    struct client client;

    script->manual = true;
    scene_client(scene, &client);
    modern_send(&client, "resources/read", uri, params);
    SCENE_UNTIL(scene, script->waiting_count == 1);
    leave(scene, &client);
    script->manual = false;
    script->waiting_count = 0;
    tdg__fetch_done(script->waiting[0], &content);
}

static void only_who_is_still_there_is_logged_as_refused(void **state) {
    const tdg_server_opts_t opts = {.log = count_refusals};
    struct client client;
    struct scene scene;
    char *large = malloc(100001);

    (void)state;
    assert_non_null(large);
    memset(large, 'x', 100000);
    large[100000] = '\0';
    atomic_store(&refusals_logged, 0);
    scene_open(&scene, &opts, ONE);
    scene_script(&scene, "a:1")->holds = large;

    tdg__budget_t *budget = scene.server->answers;
    assert_true(tdg__budget_take(budget, TDG__ANSWERS_MAX));
    leave_while_it_is_fetched(&scene, "a:1", "'uri':'a:1'",
                              (tdg__content_t){.data = large, .len = 100000});
    SCENE_UNTIL(&scene, tdg__budget_refusals(budget) == 1);
    assert_int_equal(atomic_load(&refusals_logged), 0);

    scene_client(&scene, &client);
    modern_post(&client, "resources/read", "a:1", "'uri':'a:1'");
    assert_body(&client, "'error_type':'busy'");
    assert_int_equal(atomic_load(&refusals_logged), 1);
    client_done(&client);
    tdg__budget_give(budget, TDG__ANSWERS_MAX);
    scene_close(&scene);
    free(large);
}

/* ---- Reading and watching ----------------------------------------------- */

static void a_read_goes_to_the_source(void **state) {
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, ONE TWO "- script: many\n  uri: 't:{x}'\n");
    scene_expect(&scene, "a:1", "one");
    scene_expect(&scene, "a:2", "two");
    scene_expect(&scene, "t:anything", "many");
    scene_expect(&scene, "a:3", NULL);
    scene_script(&scene, "a:1")->holds = NULL;
    scene_expect(&scene, "a:1", NULL);
    assert_int_equal(scene_script(&scene, "a:2")->watches, 0);
    scene_close(&scene);
}

static void a_read_of_a_client_that_has_left_takes_no_turn(void **state) {
    struct client client;
    struct script *script;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, "- script: many\n  uri: 't:{x}'\n");
    script = scene_script(&scene, "t:1");
    script->manual = true;
    read_and_leave(&scene, "t:1", "'uri':'t:1'");
    scene_client(&scene, &client);
    modern_send(&client, "resources/read", "t:2", "'uri':'t:2'");
    SCENE_UNTIL(&scene, script->waiting_count > 0);
    assert_string_equal(script->waiting[0]->uri, "t:2");
    client_done(&client);
    scene_close(&scene);
}

static void a_uri_of_its_own_goes_before_a_template(void **state) {
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL,
               "- script: many\n  uri: 'a:{x}'\n- script: more\n  uri: 'a:{y}'\n" ONE);
    scene_expect(&scene, "a:1", "one");
    scene_expect(&scene, "a:2", "many");
    scene_close(&scene);
}

static void watching_lasts_as_long_as_somebody_is_subscribed(void **state) {
    struct client first, second;
    struct scene scene;
    struct script *script;

    (void)state;
    scene_open(&scene, &short_linger, ONE MARK);
    script = scene_script(&scene, "a:1");
    assert_int_equal(script->watches, 0);
    scene_listen(&scene, &first, "'a:1'");
    assert_int_equal(script->watches, 1);
    assert_string_equal(script->watched, "a:1");
    scene_listen(&scene, &second, "'a:1'");
    client_done(&first);
    scene_change(&scene, "a:1", "uno");
    scene_expect_update(&second, "a:1");
    assert_int_equal(script->watches, 1);
    assert_int_equal(script->unwatches, 0);
    client_done(&second);
    SCENE_UNTIL(&scene, script->unwatches == 1);
    assert_string_equal(script->watched, "");

    scene_listen(&scene, &first, "'a:1'"); /* and again */
    assert_int_equal(script->watches, 2);
    scene_change(&scene, "a:1", "dos");
    scene_expect_update(&first, "a:1");
    client_done(&first);
    scene_close(&scene);
}

static void a_change_reaches_both_eras(void **state) {
    struct client modern, legacy, stream;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, ONE MARK);
    scene_listen(&scene, &modern, "'a:1'");
    scene_client(&scene, &legacy);
    legacy_initialize(&legacy, LATEST_LEGACY);
    scene_client(&scene, &stream);
    legacy_join(&stream, &legacy);
    assert_int_equal(legacy_get(&stream, NULL), 200);
    legacy_subscribe(&legacy, "a:1");
    scene_change(&scene, "a:1", "uno");
    scene_expect_update(&modern, "a:1");
    assert_true(has(modern.event, "'change_type':'content_update'"));
    assert_true(has(modern.event, "'checksum':'sha256:"));
    scene_expect_update(&stream, "a:1");
    scene_expect(&scene, "a:1", "uno");

    scene_change(&scene, "a:1", "uno"); /* the same again is no news */
    scene_expect_marker(&scene, &modern);
    scene_change(&scene, "a:1", NULL);
    scene_expect_update(&modern, "a:1");
    assert_true(has(modern.event, "'change_type':'deleted'"));
    client_done(&modern);
    client_done(&legacy);
    client_done(&stream);
    scene_close(&scene);
}

static void a_template_is_watched_too(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, "- script: many\n  uri: 't:{x}'\n" MARK);
    scene_listen(&scene, &client, "'t:{x}'");
    assert_string_equal(scene_script(&scene, "t:1")->watched, "t:{x}");
    scene_change(&scene, "t:1", "new");
    scene_expect_update(&client, "t:1");
    client_done(&client);
    scene_close(&scene);
}

/* A URI is what it is, whatever it begins with. */
static void a_resource_may_look_like_a_list(void **state) {
    struct client modern, legacy, stream;
    struct scene scene;
    struct script *script;

    (void)state;
    scene_open(
        &scene, &short_linger,
        "- script: one\n  uri: list:resources\n- lister: some\n  uri: 'l:{x}'\n" MARK);
    script = scene_script(&scene, "list:resources");
    scene_listen(&scene, &modern, "'list:resources'");
    assert_true(has(modern.event, "'resourceSubscriptions':['list:resources','mark:1']"));
    assert_string_equal(script->watched, "list:resources");
    SCENE_UNTIL(&scene, strcmp(scene_script(&scene, "l:1")->watched, "resources") == 0);
    scene_client(&scene, &legacy);
    legacy_initialize(&legacy, LATEST_LEGACY);
    scene_client(&scene, &stream);
    legacy_join(&stream, &legacy);
    assert_int_equal(legacy_get(&stream, NULL), 200);
    legacy_subscribe(&legacy, "list:resources");
    scene_change(&scene, "list:resources", "uno");
    scene_expect_update(&modern, "list:resources");
    scene_expect_update(&stream, "list:resources");
    client_done(&modern);
    client_done(&legacy);
    client_done(&stream);
    scene_close(&scene);
}

static void what_a_source_lists_is_listed(void **state) {
    tdg__listed_t listed = {.uri = "l:1", .name = "first", .size = 7};
    struct client client, reader;
    struct scene scene;

    (void)state;
    scene_open(&scene, &short_linger, "- lister: some\n  uri: 'l:{x}'\n" MARK);

    struct script *script = scene_script(&scene, "l:1");

    scene_listen(&scene, &client, "'mark:1'");
    SCENE_UNTIL(&scene, strcmp(script->watched, "resources") == 0);
    assert_int_equal(tdg__source_list(&script->source, &listed), 0);
    client_expect(&client, "notifications/resources/list_changed");
    scene_client(&scene, &reader);
    modern_post(&reader, "resources/list", NULL, NULL);
    assert_body(&reader, "'uri':'l:1'");
    assert_body(&reader, "'size':7");
    scene_expect(&scene, "l:1", "some");
    tdg__source_unlist(&script->source, "l:1");
    client_expect(&client, "notifications/resources/list_changed");
    modern_post(&reader, "resources/list", NULL, NULL);
    assert_false(body_has(&reader, "'uri':'l:1'"));
    client_done(&reader);
    client_done(&client);
    SCENE_UNTIL(&scene, script->watched[0] == '\0');
    scene_close(&scene);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_who_is_still_there_is_logged_as_refused),
        cmocka_unit_test(a_read_goes_to_the_source),
        cmocka_unit_test(a_read_of_a_client_that_has_left_takes_no_turn),
        cmocka_unit_test(a_uri_of_its_own_goes_before_a_template),
        cmocka_unit_test(watching_lasts_as_long_as_somebody_is_subscribed),
        cmocka_unit_test(a_change_reaches_both_eras),
        cmocka_unit_test(a_template_is_watched_too),
        cmocka_unit_test(a_resource_may_look_like_a_list),
        cmocka_unit_test(what_a_source_lists_is_listed),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
