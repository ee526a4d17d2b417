/* SPDX-License-Identifier: MIT
 *
 * Sources behind a server, from a client's side: reading, watching, changes and lists;
 * and what a reload means to those who are subscribed. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "server/context/context.h"
#include "server/context/limits.h"
#include "source/files/files.h"
#include "unit/serve/scene.h"
#include "unit/source/folder.h"
#include "unit/source/pg_server.h"

#define ONE "- script: one\n  uri: a:1\n"
#define TWO "- script: two\n  uri: a:2\n"

static const tdg_server_opts_t short_linger = {.linger_ms = 1};

static void expect_change(struct client *client, const char *uri) {
    char text[256];

    snprintf(text, sizeof(text), "'uri':'%s'", uri);
    client_expect(client, text);
    assert_true(has(client->event, "notifications/resources/updated"));
}

/* Nothing came in between: the next that comes is this one. */
static void expect_marker(struct scene *scene, struct client *client) {
    assert_int_equal(tdg_server_notify_updated(scene->server, "mark:1", NULL), 0);
    expect_change(client, "mark:1");
}

/* A scene whose client listens to some URIs, and to the marker. */
static void open_listening(struct scene *scene, struct client *client, const char *yaml,
                           const char *uris) {
    char filter[512];

    scene_open(scene, NULL, yaml);
    scene_client(scene, client);
    snprintf(filter, sizeof(filter), "{'resourceSubscriptions':[%s,'mark:1']}", uris);
    modern_listen(client, filter);
}

/* Listens to some URIs, to the marker and to lists. */
static void listen_to(struct scene *scene, struct client *client, const char *uris) {
    char filter[512];

    scene_client(scene, client);
    snprintf(filter, sizeof(filter),
             "{'resourceSubscriptions':[%s,'mark:1'],'resourcesListChanged':true}", uris);
    modern_listen(client, filter);
}

#define MARK "- script: mark\n  uri: mark:1\n"

/* ---- Large answers ------------------------------------------------------ */

static atomic_int refusals_logged;

static void count_refusals(void *user, tdg_log_level_t level, const char *message) {
    (void)user;
    (void)level;
    if (strstr(message, "large answers") != NULL)
        atomic_fetch_add(&refusals_logged, 1);
}

static uint64_t connections(struct scene *scene) {
    tdg_server_counters_t counters;

    tdg_server_counters(scene->server, &counters);
    return counters.connections;
}

static void leave(struct scene *scene, struct client *client) {
    client_done(client);
    while (connections(scene) > 0)
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
    listen_to(&scene, &first, "'a:1'");
    assert_int_equal(script->watches, 1);
    assert_string_equal(script->watched, "a:1");
    listen_to(&scene, &second, "'a:1'");
    client_done(&first);
    scene_change(&scene, "a:1", "uno");
    expect_change(&second, "a:1");
    assert_int_equal(script->watches, 1);
    assert_int_equal(script->unwatches, 0);
    client_done(&second);
    SCENE_UNTIL(&scene, script->unwatches == 1);
    assert_string_equal(script->watched, "");

    listen_to(&scene, &first, "'a:1'"); /* and again */
    assert_int_equal(script->watches, 2);
    scene_change(&scene, "a:1", "dos");
    expect_change(&first, "a:1");
    client_done(&first);
    scene_close(&scene);
}

static void a_change_reaches_both_eras(void **state) {
    struct client modern, legacy, stream;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, ONE MARK);
    listen_to(&scene, &modern, "'a:1'");
    scene_client(&scene, &legacy);
    legacy_initialize(&legacy, LATEST_LEGACY);
    scene_client(&scene, &stream);
    legacy_join(&stream, &legacy);
    assert_int_equal(legacy_get(&stream, NULL), 200);
    legacy_subscribe(&legacy, "a:1");
    scene_change(&scene, "a:1", "uno");
    expect_change(&modern, "a:1");
    assert_true(has(modern.event, "'change_type':'content_update'"));
    assert_true(has(modern.event, "'checksum':'sha256:"));
    expect_change(&stream, "a:1");
    scene_expect(&scene, "a:1", "uno");

    scene_change(&scene, "a:1", "uno"); /* the same again is no news */
    expect_marker(&scene, &modern);
    scene_change(&scene, "a:1", NULL);
    expect_change(&modern, "a:1");
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
    listen_to(&scene, &client, "'t:{x}'");
    assert_string_equal(scene_script(&scene, "t:1")->watched, "t:{x}");
    scene_change(&scene, "t:1", "new");
    expect_change(&client, "t:1");
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
    listen_to(&scene, &modern, "'list:resources'");
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
    expect_change(&modern, "list:resources");
    expect_change(&stream, "list:resources");
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

    listen_to(&scene, &client, "'mark:1'");
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

/* ---- Replacing ---------------------------------------------------------- */

static void what_stays_keeps_its_subscribers_and_is_not_opened_again(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, &short_linger, ONE TWO MARK);
    listen_to(&scene, &client, "'a:1'");

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

    listen_to(&scene, &client, "'mark:1'");
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
    listen_to(&scene, &client, "'a:1'");
    scene_replace(&scene, TWO MARK ONE);
    expect_marker(&scene, &client);
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
    open_listening(&scene, &client, ONE MARK, "'a:1'");
    scene_replace(&scene, "- script: one\n  uri: a:1\n  timeout: 7s\n" MARK);
    SCENE_UNTIL(&scene, scene_script(&scene, "a:1")->watches == 1);
    expect_marker(&scene, &client);
    scene_replace(&scene, "- script: other\n  uri: a:1\n" MARK);
    expect_change(&client, "a:1");
    told = has(client.event, "'change_type':'content_update'");
    assert_true(told);
    scene_expect(&scene, "a:1", "other");
    scene_change(&scene, "a:1", "more"); /* and it is watched on */
    expect_change(&client, "a:1");
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
    listen_to(&scene, &client, "'a:1'");
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
    open_listening(&scene, &client, "- lister: one\n  uri: 't:{x}'\n" MARK,
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
    expect_change(&client, "t:1"); /* the new one looks at what the old one was to */
    assert_false(has(client.event, "'change_type':'deleted'"));
    expect_marker(&scene, &client);
    client_done(&client);
    scene_client(&scene, &client);
    modern_post(&client, "resources/list", NULL, NULL);
    assert_body(&client, "'uri':'t:1'");
    client_done(&client);
    scene_close(&scene);
}

/* A template, of whose resources one has changed. */
static void open_changed_template(struct scene *scene, struct client *client) {
    open_listening(scene, client, "- script: one\n  uri: 't:{x}'\n" MARK, "'t:{x}'");
    scene_change(scene, "t:1", "one");
    expect_change(client, "t:1");
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
    expect_change(&client, "t:2");
    expect_marker(&scene, &client); /* t:1 is the same */
    scene_replace(&scene, "- script: two\n  uri: 't:{x}'\n" MARK);
    expect_change(&client, "t:1");
    expect_change(&client, "t:2");
    scene_replace(&scene, MARK); /* and what it stood for is gone with it */
    expect_change(&client, "t:1");
    assert_true(has(client.event, "'change_type':'deleted'"));
    expect_change(&client, "t:2");
    client_done(&client);
    scene_close(&scene);
}

static void a_kind_that_takes_the_place_of_another_is_compared_with_it(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    open_changed_template(&scene, &client);
    scene_replace(&scene, "- memory: 't:{x}'\n" MARK);
    expect_change(&client, "t:1");
    assert_true(has(client.event, "'change_type':'deleted'"));
    scene_replace(&scene, "- script: one\n  uri: 't:{x}'\n" MARK);
    expect_change(&client, "t:1");
    assert_true(has(client.event, "'change_type':'created'"));
    client_done(&client);
    scene_close(&scene);
}

/* ---- Replacing a folder ------------------------------------------------- */

#define FILES "- files: %s\n  uri: 'f:{+path}'\n"

/* An entry for the folder; `more` makes it another one. */
static const char *folder_yaml(const struct folder *folder, const char *more) {
    static char yaml[512];

    snprintf(yaml, sizeof(yaml), FILES "%s" MARK, folder->path, more);
    return yaml;
}

/* Waits until each of these was last notified so: "f:a present", "f:b deleted". */
static void expect_last(struct client *client, const char *const *wanted, size_t count) {
    bool right[8] = {false};
    size_t left = count;

    while (left > 0) {
        const char *event = client_message(client);

        assert_non_null(event);
        left = 0;
        for (size_t i = 0; i < count; i++) {
            const char *space = strchr(wanted[i], ' ');
            char uri[64];

            snprintf(uri, sizeof(uri), "'uri':'%.*s'", (int)(space - wanted[i]),
                     wanted[i]);
            if (has(event, uri))
                right[i] = has(event, "'change_type':'deleted'") ==
                           (strcmp(space + 1, "deleted") == 0);
            left += !right[i];
        }
    }
}

/* What happens right before a reload is in the kernel's queue still, and the old source
 * never hears of it. A new folder takes it longest to find. */
static void nothing_in_a_folder_is_missed_by_a_reload(void **state) {
    static const char *const wanted[] = {
        "f:new/deep/file present", "f:changed present", "f:gone deleted",
        "f:again present",         "f:late present",
    };
    struct folder folder;
    struct client client;
    struct scene scene;

    (void)state;
    folder_create(&folder);
    folder_write(&folder, "changed", "one");
    folder_write(&folder, "gone", "one");
    folder_write(&folder, "again", "one");
    open_listening(&scene, &client, folder_yaml(&folder, ""), "'f:{+path}'");

    folder_mkdir(&folder, "new/deep");
    folder_write(&folder, "new/deep/file", "new");
    folder_replace(&folder, "changed", "two");
    folder_remove(&folder, "gone");
    folder_remove(&folder, "again");
    assert_int_equal(
        scene_try_replace(&scene, folder_yaml(&folder, "  description: other\n")), 0);
    folder_write(&folder, "late", "new");
    folder_write(&folder, "again", "two");
    expect_last(&client, wanted, COUNT(wanted));

    SCENE_UNTIL(&scene, scene.ready == 2);
    expect_marker(&scene, &client); /* and nothing contradicts it */
    client_done(&client);
    scene_close(&scene);
    folder_destroy(&folder);
}

/* The next change is that of a file that is written for this, and closed: all that
 * happened before has been noticed. */
static void expect_only(const struct folder *folder, struct client *client,
                        const char *name) {
    char uri[64];

    snprintf(uri, sizeof(uri), "f:%s", name);
    folder_write(folder, name, "mark");
    expect_change(client, uri);
}

/* The writer is waited for longer than this test may take. */
static void a_save_goes_on_during_a_reload(void **state) {
    struct folder folder;
    struct client client;
    struct scene scene;
    char path[FOLDER_PATH];
    uint64_t until;
    int fd;

    (void)state;
    folder_create(&folder);
    folder_write(&folder, "a", "old");
    folder_path(&folder, "a", path);
    scene_open(&scene, NULL, folder_yaml(&folder, "  settle: 60s\n"));
    scene_client(&scene, &client);
    modern_listen(&client, "{'resourceSubscriptions':['f:{+path}','f:a']}");
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(fd, "half", 4), 4);
    expect_only(&folder, &client, "before");
    scene_replace(&scene, folder_yaml(&folder, "  settle: 60s\n  description: other\n"));
    until = now_ms() + 300; /* a file that a walk meets is looked at within 100 ms */
    SCENE_UNTIL(&scene, now_ms() > until);
    expect_only(&folder, &client, "after");
    assert_int_equal(write(fd, " whole", 6), 6);
    close(fd);
    expect_change(&client, "f:a");
    assert_true(has(client.event, "'size':10"));
    client_done(&client);
    scene_close(&scene);
    folder_destroy(&folder);
}

/* An entry for one file, that is waited for longer than this test may take. */
static const char *file_yaml(const struct folder *folder, const char *more) {
    static char yaml[512];

    snprintf(yaml, sizeof(yaml), "- files: %s/a\n  uri: one:a\n  settle: 60s\n%s" MARK,
             folder->path, more);
    return yaml;
}

/* The save of a single file goes on, too: nobody is notified of how it is meanwhile. */
static void so_does_that_of_a_single_file(void **state) {
    struct folder folder;
    struct client client;
    struct scene scene;
    char path[FOLDER_PATH];
    int fd;

    (void)state;
    folder_create(&folder);
    folder_write(&folder, "a", "old");
    folder_path(&folder, "a", path);
    open_listening(&scene, &client, file_yaml(&folder, ""), "'one:a'");
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(fd, "half", 4), 4);
    scene_expect(&scene, "one:a", "half");
    scene_replace(&scene, file_yaml(&folder, "  description: other\n"));
    scene_expect(&scene, "one:a", "half");
    expect_marker(&scene, &client);
    assert_int_equal(write(fd, " whole", 6), 6);
    close(fd);
    expect_change(&client, "one:a");
    assert_true(has(client.event, "'size':10"));

    folder_remove(&folder, "a");
    scene_expect(&scene, "one:a", NULL);
    scene_replace(&scene, file_yaml(&folder, "  description: more\n"));
    scene_expect(&scene, "one:a", NULL);
    expect_marker(&scene, &client);
    folder_write(&folder, "a", "anew");
    expect_change(&client, "one:a");
    assert_true(has(client.event, "'size':4"));
    client_done(&client);
    scene_close(&scene);
    folder_destroy(&folder);
}

/* Twice in a row, while the first walk of the first reload runs. */
static void a_reload_during_a_reload_misses_nothing(void **state) {
    static const char *const wanted[] = {"f:a/b/1 present", "f:a/b/2 present",
                                         "f:old deleted"};
    struct folder folder;
    struct client client;
    struct scene scene;

    (void)state;
    folder_create(&folder);
    folder_write(&folder, "old", "one");
    open_listening(&scene, &client, folder_yaml(&folder, ""), "'f:{+path}','f:old'");
    folder_mkdir(&folder, "a/b");
    folder_write(&folder, "a/b/1", "new");
    assert_int_equal(
        scene_try_replace(&scene, folder_yaml(&folder, "  description: other\n")), 0);
    uv_run(&scene.loop, UV_RUN_NOWAIT);
    folder_write(&folder, "a/b/2", "new");
    folder_remove(&folder, "old");
    assert_int_equal(
        scene_try_replace(&scene, folder_yaml(&folder, "  description: more\n")), 0);
    expect_last(&client, wanted, COUNT(wanted));
    SCENE_UNTIL(&scene, scene.ready > 1);
    scene_expect(&scene, "f:a/b/2", "new");
    client_done(&client);
    scene_close(&scene);
    folder_destroy(&folder);
}

static bool is_listed(struct scene *scene, const char *uri) {
    struct client client;
    char text[64];
    bool found;

    snprintf(text, sizeof(text), "'uri':'%s'", uri);
    scene_client(scene, &client);
    modern_post(&client, "resources/list", NULL, NULL);
    found = body_has(&client, text);
    client_done(&client);
    return found;
}

/* Waits until it is in the list, or is not. */
static void expect_listed(struct scene *scene, const char *uri, bool listed) {
    uint64_t deadline = now_ms() + CLIENT_PATIENCE_MS;

    while (is_listed(scene, uri) != listed)
        assert_true(now_ms() < deadline);
}

/* Each of them comes sooner than `settle` after the one before. */
static void reloads_in_a_row_do_not_put_off_a_deletion(void **state) {
    static const char *const gone[] = {"f:gone deleted"};
    uint64_t deadline = now_ms() + CLIENT_PATIENCE_MS;
    struct folder folder;
    struct client client;
    struct scene scene;

    (void)state;
    folder_create(&folder);
    folder_write(&folder, "gone", "one");
    open_listening(&scene, &client, folder_yaml(&folder, "  settle: 2s\n"),
                   "'f:{+path}'");
    folder_remove(&folder, "gone");
    for (int i = 0; is_listed(&scene, "f:gone"); i++) {
        assert_true(now_ms() < deadline);
        scene_replace(&scene,
                      folder_yaml(&folder, i % 2 == 0 ? "  settle: 2s\n  title: x\n"
                                                      : "  settle: 2s\n"));
    }
    expect_last(&client, gone, 1);
    client_done(&client);
    scene_close(&scene);
    folder_destroy(&folder);
}

/* What is left out now is gone; what was left out has come. */
static void a_folder_with_other_limits_is_listed_anew(void **state) {
    static const char *const gone[] = {"f:b.txt deleted"}, *const back[] = {
                                                               "f:b.txt present"};
    struct folder folder;
    struct client client;
    struct scene scene;

    (void)state;
    folder_create(&folder);
    folder_write(&folder, "a.md", "one");
    folder_write(&folder, "b.txt", "one");
    open_listening(&scene, &client, folder_yaml(&folder, ""), "'f:{+path}'");
    scene_replace(&scene, folder_yaml(&folder, "  include: ['*.md']\n"));
    expect_last(&client, gone, 1);
    expect_listed(&scene, "f:b.txt", false);
    expect_listed(&scene, "f:a.md", true);
    scene_replace(&scene, folder_yaml(&folder, ""));
    expect_last(&client, back, 1);
    expect_listed(&scene, "f:b.txt", true);
    scene_replace(&scene, folder_yaml(&folder, "  max-files: 1\n"));
    SCENE_UNTIL(&scene, strstr(scene.log, "more than 1 files") != NULL);
    client_done(&client);
    scene_close(&scene);
    folder_destroy(&folder);
}

/* ---- URIs that two entries could have ------------------------------------ */

#define WINNER "- script: win\n  uri: t:1\n  title: Winner\n"
#define LOSER "- lister: many\n  uri: 't:{x}'\n"

static bool has_title(struct scene *scene, const char *title) {
    struct client client;
    char text[64];

    snprintf(text, sizeof(text), "'title':'%s'", title);
    scene_client(scene, &client);
    modern_post(&client, "resources/list", NULL, NULL);

    bool found = body_has(&client, text);
    client_done(&client);
    return found;
}

/* The source of the template notices what happens at t:1, which is not its own. */
static void only_the_owner_of_a_uri_speaks_for_it(void **state) {
    tdg__listed_t listed = {.uri = "t:1", .name = "loser"};
    struct client client;
    struct scene scene;

    (void)state;
    open_listening(&scene, &client, LOSER WINNER MARK, "'t:1','t:{x}'");

    struct script *loser = scene_script(&scene, "t:other");
    assert_true(&loser->source != tdg__live_owner(scene.live, "t:1"));
    assert_int_equal(tdg__source_list(&loser->source, &listed), 0);
    assert_true(has_title(&scene, "Winner"));
    for (int i = 0; i < 3; i++) {
        static const char *const contents[] = {"one", "two", NULL};

        loser->holds = contents[i];
        tdg__source_touch(&loser->source, "t:1");
        expect_marker(&scene, &client);
    }
    tdg__source_unlist(&loser->source, "t:1");
    expect_marker(&scene, &client);
    assert_true(has_title(&scene, "Winner"));
    scene_expect(&scene, "t:1", "win");
    scene_change(&scene, "t:1", "more");
    expect_change(&client, "t:1");
    client_done(&client);
    scene_close(&scene);
}

static const char *folder_and(const struct folder *folder, const char *first,
                              const char *last) {
    static char yaml[512];

    snprintf(yaml, sizeof(yaml), "%s" FILES "%s" MARK, first, folder->path, last);
    return yaml;
}

/* Whatever wins a URI of the folder, a resource of its own or an earlier template. */
static void a_folder_has_its_files_back_from_others(void **state) {
    static const char *const gone[] = {"f:s/b deleted"}, *const back[] = {
                                                             "f:s/b present"};
    static const char *const one[] = {"f:a present"};
    struct folder folder;
    struct client client;
    struct scene scene;

    (void)state;
    folder_create(&folder);
    folder_write(&folder, "a", "file");
    folder_mkdir(&folder, "s");
    folder_write(&folder, "s/b", "file");
    open_listening(&scene, &client, folder_and(&folder, "", ""), "'f:{+path}'");
    scene_replace(&scene,
                  folder_and(&folder, "", "- script: win\n  uri: f:a\n  title: W\n"));
    scene_expect(&scene, "f:a", "win");
    assert_true(has_title(&scene, "W"));
    scene_replace(&scene, folder_and(&folder, "", ""));
    expect_last(&client, one, 1);
    expect_listed(&scene, "f:a", true);
    scene_expect(&scene, "f:a", "file");
    assert_false(has_title(&scene, "W"));

    scene_replace(&scene, folder_and(&folder, "- memory: 'f:s/{x}'\n", ""));
    expect_last(&client, gone, 1);
    expect_listed(&scene, "f:s/b", false);
    expect_listed(&scene, "f:a", true);
    scene_replace(&scene, folder_and(&folder, "", ""));
    expect_last(&client, back, 1);
    expect_listed(&scene, "f:s/b", true);
    scene_expect(&scene, "f:s/b", "file");
    client_done(&client);
    scene_close(&scene);
    folder_destroy(&folder);
}

static void push(struct scene *scene, const char *uri, const char *text) {
    tdg__content_t content = {.data = text, .len = strlen(text)};

    assert_int_equal(
        tdg__source_put(tdg__live_owner(scene->live, uri), uri, &content, false), 0);
}

/* Nobody subscribes to the URI itself, so that nobody compares. */
static void what_was_published_is_back_when_another_entry_goes(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, "- memory: 'm:{x}'\n" MARK);
    push(&scene, "m:a1", "one");
    scene_replace(&scene, "- memory: 'm:a{y}'\n- memory: 'm:{x}'\n" MARK);
    expect_listed(&scene, "m:a1", false);
    scene_expect(&scene, "m:a1", NULL);
    listen_to(&scene, &client, "'m:{x}','m:a{y}'");
    push(&scene, "m:a1", "two");
    expect_listed(&scene, "m:a1", true);
    scene_replace(&scene, "- memory: 'm:{x}'\n" MARK);
    scene_expect(&scene, "m:a1", "one");
    expect_listed(&scene, "m:a1", true);
    tdg_server_notify_updated(scene.server, "mark:1", NULL);

    unsigned updates = 0; /* that it was published, and that it is another one */
    while (!has(client_message(&client), "'uri':'mark:1'"))
        updates += has(client.event, "'uri':'m:a1'");
    assert_int_equal(updates, 2);
    client_done(&client);
    scene_close(&scene);
}

static void expect_refused(struct client *modern, struct client *legacy,
                           const char *uri) {
    char message[256], reason[256];

    snprintf(message, sizeof(message),
             "{'jsonrpc':'2.0','id':5,'method':'resources/subscribe',"
             "'params':{'uri':'%s'}}",
             uri);
    assert_int_equal(legacy_post(legacy, message), 200);
    assert_body(legacy, "'code':-32002");
    snprintf(reason, sizeof(reason), "'%s':'not_found'", uri);
    assert_true(has(modern->event, reason));
}

/* Of what the folder leaves out, and of other spellings, nobody would ever be notified.
 */
static void what_a_folder_cannot_have_is_not_found(void **state) {
    static const char *const gone[] = {"f:a.md deleted"}, *const back[] = {
                                                              "f:a.md present"};
    struct client modern, legacy;
    struct folder folder;
    struct scene scene;

    (void)state;
    folder_create(&folder);
    folder_write(&folder, "a.md", "one");
    folder_write(&folder, "b.txt", "one");
    scene_open(&scene, NULL, folder_yaml(&folder, "  include: ['*.md']\n"));
    scene_client(&scene, &legacy);
    legacy_initialize(&legacy, LATEST_LEGACY);
    listen_to(&scene, &modern, "'f:a.md','f:b.txt','f:none.txt','f:../a.md','f:%61.md'");
    expect_refused(&modern, &legacy, "f:b.txt");
    expect_refused(&modern, &legacy, "f:none.txt");
    expect_refused(&modern, &legacy, "f:../a.md");
    expect_refused(&modern, &legacy, "f:%61.md");

    /* What was watched before it is left out stays watched. */
    scene_replace(&scene, folder_yaml(&folder, "  include: ['*.txt']\n"));
    expect_last(&modern, gone, 1);
    assert_null(strstr(scene.log, "cannot be watched"));
    scene_replace(&scene, folder_yaml(&folder, ""));
    expect_last(&modern, back, 1);
    client_done(&modern);
    client_done(&legacy);
    scene_close(&scene);
    folder_destroy(&folder);
}

/* Right when that was believed, and about to be looked at once more. */
static void a_reload_that_waits_longer_does_not_forget_a_deletion(void **state) {
    const tdg__files_t *files;
    struct folder folder;
    struct scene scene;

    (void)state;
    folder_create(&folder);
    folder_write(&folder, "gone", "one");
    scene_open(&scene, NULL, folder_yaml(&folder, "  settle: 20ms\n"));
    files = (const tdg__files_t *)tdg__live_owner(scene.live, "f:gone");
    do { /* until the look has not come to its end */
        folder_write(&folder, "gone", "one");
        SCENE_UNTIL(&scene, files->tree.files == 1 && files->n_absent == 0);
        folder_remove(&folder, "gone");
        SCENE_UNTIL(&scene, files->n_absent == 1 || files->tree.files == 0);
        while (files->absent.count > 0)
            uv_run(&scene.loop, UV_RUN_NOWAIT);
    } while (files->n_absent == 0);
    assert_int_equal(scene_try_replace(&scene, folder_yaml(&folder, "  settle: 1s\n")),
                     0);
    expect_listed(&scene, "f:gone", false);
    scene_close(&scene);
    folder_destroy(&folder);
}

/* ---- A file that comes back unheard of ----------------------------------- */

/* deep/again is there, and its folder is watched. It comes back in a folder that is not
 * watched yet, while the server is kept from its work: some look at it comes before that
 * of its folder, and must not make it known. */
struct again {
    struct folder folder;
    struct client client;
    struct scene scene;
};

static void again_open(struct again *again, const char *options) {
    struct folder *folder = &again->folder;

    folder_create(folder);
    folder_mkdir(folder, "deep");
    folder_write(folder, "deep/again", "one");
    open_listening(&again->scene, &again->client, folder_yaml(folder, options),
                   "'f:{+path}'");
}

static void again_is_missed(struct again *again) {
    const tdg__files_t *files =
        (const tdg__files_t *)tdg__live_owner(again->scene.live, "f:deep/again");

    folder_remove(&again->folder, "deep/again");
    SCENE_UNTIL(&again->scene, files->n_absent == 1);
}

static void again_in_another_folder(struct again *again) {
    folder_remove(&again->folder, "deep");
    folder_mkdir(&again->folder, "deep");
    folder_write(&again->folder, "deep/again", "two");
}

/* Keeps the server from its work: as long as the file is young, every look finds it
 * changed. */
static void again_stall(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void again_is_notified(struct again *again) {
    static const char *const wanted[] = {"f:deep/again present"};

    expect_last(&again->client, wanted, COUNT(wanted));
    client_done(&again->client);
    scene_close(&again->scene);
    folder_destroy(&again->folder);
}

/* The look that its deletion asks for. */
static void what_came_back_before_its_deletion_was_noticed_is_compared(void **state) {
    struct again again;

    (void)state;
    again_open(&again, "");
    folder_remove(&again.folder, "deep/again");
    again_in_another_folder(&again);
    again_stall(200);
    again_is_notified(&again);
}

/* The one by which the list follows a change. */
static void what_came_back_after_a_change_is_compared(void **state) {
    struct again again;

    (void)state;
    again_open(&again, "");
    folder_write(&again.folder, "deep/again", "more");
    expect_change(&again.client, "f:deep/again");
    folder_remove(&again.folder, "deep/again");
    again_in_another_folder(&again);
    again_stall(400);
    again_is_notified(&again);
}

/* The one that is to confirm its deletion; in a source that watches nothing yet ... */
static void what_came_back_during_a_reload_is_compared(void **state) {
    struct again again;

    (void)state;
    again_open(&again, "  settle: 60s\n");
    again_is_missed(&again);
    folder_write(&again.folder, "deep/again", "two");
    again_stall(200);
    scene_replace(&again.scene, folder_yaml(&again.folder, "  settle: 20ms\n"));
    again_is_notified(&again);
}

/* ... and in another folder. */
static void what_came_back_in_another_folder_is_compared(void **state) {
    struct again again;

    (void)state;
    again_open(&again, "  settle: 150ms\n");
    again_is_missed(&again);
    again_in_another_folder(&again);
    again_stall(200);
    again_is_notified(&again);
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
    open_listening(&scene, &client, query_yaml(&server, ""), "'q:{id}'");
    pg_run(&server, "NOTIFY c, '1'");
    assert_int_equal(scene_try_replace(&scene, query_yaml(&server, "  title: a\n")), 0);
    pg_run(&server, "NOTIFY c, '2'");
    uv_run(&scene.loop, UV_RUN_NOWAIT);
    assert_int_equal(scene_try_replace(&scene, query_yaml(&server, "  title: b\n")), 0);
    pg_run(&server, "NOTIFY c, '3'");
    expect_change(&client, "q:1");
    expect_change(&client, "q:2");
    expect_change(&client, "q:3");

    /* The old connections are gone then, and the new one listens. */
    SCENE_UNTIL(&scene, pg_number(&server, "SELECT count(*) FROM pg_stat_activity "
                                           "WHERE backend_type = 'client backend'") == 2);
    pg_run(&server, "NOTIFY c, '4'");
    expect_change(&client, "q:4");
    expect_marker(&scene, &client);
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
    open_listening(&scene, &client, query_yaml_at(&server, proxy.port, "  probe: 10m\n"),
                   "'q:{id}'");
    kill(proxy.pid, SIGSTOP);
    assert_int_equal(scene_try_replace(&scene, query_yaml(&server, "  title: a\n")), 0);
    uv_run(&scene.loop, UV_RUN_NOWAIT);
    assert_int_equal(scene_try_replace(&scene, query_yaml(&server, "  title: b\n")), 0);
    pg_run(&server, "NOTIFY c, '1'");
    SCENE_UNTIL(&scene, pg_number(&server, "SELECT count(*) FROM pg_stat_activity WHERE "
                                           "query ~ '^LISTEN' AND state = 'idle'") == 2);
    for (int i = 0; i < 10; i++) /* it has the time to close what is still needed */
        expect_marker(&scene, &client);
    kill(proxy.pid, SIGCONT);
    expect_change(&client, "q:1");
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
    open_listening(&scene, &client, query_yaml(&server, ""), "'q:{id}'");
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

/* It is in no list, so nothing leaves one. */
static void what_a_removed_template_stood_for_is_told_as_deleted(void **state) {
    struct client client;
    struct scene scene;

    (void)state;
    scene_open(&scene, NULL, "- script: many\n  uri: 't:{x}'\n" MARK);
    listen_to(&scene, &client, "'t:1'");
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
    listen_to(&scene, &client, "'s:0'");
    for (int i = 1; i <= 20; i++) {
        char gone[16];

        snprintf(yaml, sizeof(yaml),
                 "- lister: later\n  title: %d\n  uri: 'h:{x}'\n"
                 "- script: x\n  uri: s:%d\n" MARK,
                 i, i);
        assert_int_equal(scene_try_replace(&scene, yaml), 0);
        snprintf(gone, sizeof(gone), "s:%d", i - 1);
        expect_listed(&scene, gone, false);
        assert_true(is_listed(&scene, "h:1"));
    }
    expect_update(&client, "s:0");
    assert_true(has(client.event, "'change_type':'deleted'"));
    strcat(yaml, "- lister: later\n  uri: 'never:{x}'\n");
    assert_int_equal(scene_try_replace(&scene, yaml), 0);
    tdg__source_ready(&scene_script(&scene, "h:1")->source);
    expect_listed(&scene, "h:1", false);
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
        cmocka_unit_test(only_who_is_still_there_is_logged_as_refused),
        cmocka_unit_test(a_read_goes_to_the_source),
        cmocka_unit_test(a_read_of_a_client_that_has_left_takes_no_turn),
        cmocka_unit_test(a_uri_of_its_own_goes_before_a_template),
        cmocka_unit_test(watching_lasts_as_long_as_somebody_is_subscribed),
        cmocka_unit_test(a_change_reaches_both_eras),
        cmocka_unit_test(a_template_is_watched_too),
        cmocka_unit_test(a_resource_may_look_like_a_list),
        cmocka_unit_test(what_a_source_lists_is_listed),
        cmocka_unit_test(what_stays_keeps_its_subscribers_and_is_not_opened_again),
        cmocka_unit_test(lists_are_watched_once_however_often_it_is_replaced),
        cmocka_unit_test(an_equal_config_changes_nothing),
        cmocka_unit_test(a_changed_entry_is_compared_with_what_was_told),
        cmocka_unit_test(a_source_that_was_replaced_says_nothing_any_more),
        cmocka_unit_test(what_a_template_stands_for_is_compared_after_a_reload),
        cmocka_unit_test(a_kind_that_takes_the_place_of_another_is_compared_with_it),
        cmocka_unit_test(nothing_in_a_folder_is_missed_by_a_reload),
        cmocka_unit_test(a_save_goes_on_during_a_reload),
        cmocka_unit_test(so_does_that_of_a_single_file),
        cmocka_unit_test(a_reload_during_a_reload_misses_nothing),
        cmocka_unit_test(reloads_in_a_row_do_not_put_off_a_deletion),
        cmocka_unit_test(a_reload_that_waits_longer_does_not_forget_a_deletion),
        cmocka_unit_test(what_came_back_before_its_deletion_was_noticed_is_compared),
        cmocka_unit_test(what_came_back_after_a_change_is_compared),
        cmocka_unit_test(what_came_back_during_a_reload_is_compared),
        cmocka_unit_test(what_came_back_in_another_folder_is_compared),
        cmocka_unit_test(a_folder_with_other_limits_is_listed_anew),
        cmocka_unit_test(what_a_folder_cannot_have_is_not_found),
        cmocka_unit_test(only_the_owner_of_a_uri_speaks_for_it),
        cmocka_unit_test(a_folder_has_its_files_back_from_others),
        cmocka_unit_test(what_was_published_is_back_when_another_entry_goes),
        cmocka_unit_test(what_a_channel_says_during_a_reload_is_heard),
        cmocka_unit_test(what_a_slow_connection_hears_after_two_reloads_is_told),
        cmocka_unit_test(a_query_that_loses_its_channel_lets_the_old_connection_go),
        cmocka_unit_test(what_is_removed_is_told_as_deleted),
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
    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
