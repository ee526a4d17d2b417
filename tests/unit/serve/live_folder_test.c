/* SPDX-License-Identifier: MIT
 *
 * A reload of folders, for those who are subscribed: nothing that happens in one
 * meanwhile is missed, and each URI belongs to one entry. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "source/files/files.h"
#include "unit/serve/scene.h"
#include "unit/source/folder.h"

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
    scene_open_listening(&scene, &client, folder_yaml(&folder, ""), "'f:{+path}'");

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
    scene_expect_marker(&scene, &client); /* and nothing contradicts it */
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
    scene_expect_update(client, uri);
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
    scene_expect_update(&client, "f:a");
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
    scene_open_listening(&scene, &client, file_yaml(&folder, ""), "'one:a'");
    fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(fd, "half", 4), 4);
    scene_expect(&scene, "one:a", "half");
    scene_replace(&scene, file_yaml(&folder, "  description: other\n"));
    scene_expect(&scene, "one:a", "half");
    scene_expect_marker(&scene, &client);
    assert_int_equal(write(fd, " whole", 6), 6);
    close(fd);
    scene_expect_update(&client, "one:a");
    assert_true(has(client.event, "'size':10"));

    folder_remove(&folder, "a");
    scene_expect(&scene, "one:a", NULL);
    scene_replace(&scene, file_yaml(&folder, "  description: more\n"));
    scene_expect(&scene, "one:a", NULL);
    scene_expect_marker(&scene, &client);
    folder_write(&folder, "a", "anew");
    scene_expect_update(&client, "one:a");
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
    scene_open_listening(&scene, &client, folder_yaml(&folder, ""),
                         "'f:{+path}','f:old'");
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
    scene_open_listening(&scene, &client, folder_yaml(&folder, "  settle: 2s\n"),
                         "'f:{+path}'");
    folder_remove(&folder, "gone");
    for (int i = 0; scene_lists(&scene, "f:gone"); i++) {
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

static bool holds(struct scene *scene, const char *uri, const char *path) {
    tdg__source_t *source = tdg__live_owner(scene->live, uri);

    assert_string_equal(source->kind->name, "files");
    return tdg__files_has((tdg__files_t *)source, path);
}

/* The worker takes nothing while the folder is found to be without the file. */
static void delete_while_the_worker_lags(const char *uris, bool is_told) {
    static const char *const gone[] = {"f:s/gone deleted"};
    struct scene_jam jam;
    struct folder folder;
    struct client client;
    struct scene scene;

    folder_create(&folder);
    folder_mkdir(&folder, "s");
    folder_write(&folder, "s/gone", "one");
    scene_open_listening(&scene, &client, folder_yaml(&folder, ""), uris);
    scene_jam(&scene, &jam);
    folder_remove(&folder, "s");
    SCENE_UNTIL(&scene, strstr(scene.log, "cannot be notified now") != NULL ||
                            !holds(&scene, "f:s/gone", "s/gone"));
    scene_clear(&jam);
    if (is_told)
        expect_last(&client, gone, 1);
    scene_expect_listed(&scene, "f:s/gone", false);
    SCENE_UNTIL(&scene, !holds(&scene, "f:s/gone", "s/gone"));
    scene_expect_marker(&scene, &client); /* and it is told once */
    client_done(&client);
    scene_close(&scene);
    folder_destroy(&folder);
}

static void a_deletion_is_not_lost_while_the_worker_lags(void **state) {
    (void)state;
    delete_while_the_worker_lags("'f:s/gone'", true);
    delete_while_the_worker_lags("'f:{+path}'", true);
    delete_while_the_worker_lags("'mark:1'", false);
}

static unsigned times_logged(const struct scene *scene, const char *text) {
    unsigned times = 0;

    for (const char *at = scene->log; (at = strstr(at, text)) != NULL; at++)
        times++;
    return times;
}

/* It is retried ten times a second. */
static void a_deletion_that_waits_is_logged_once(void **state) {
    static const char *const gone[] = {"f:s/gone deleted"};
    struct scene_jam jam;
    struct folder folder;
    struct client client;
    struct scene scene;

    (void)state;
    folder_create(&folder);
    folder_mkdir(&folder, "s");
    folder_write(&folder, "s/gone", "one");
    scene_open_listening(&scene, &client, folder_yaml(&folder, "  settle: 0s\n"),
                         "'f:s/gone'");
    scene_jam(&scene, &jam);
    folder_remove(&folder, "s");
    SCENE_UNTIL(&scene, times_logged(&scene, "could not notify") > 0);

    uint64_t until = now_ms() + 1000;

    while (now_ms() < until)
        scene_step(&scene);
    scene_clear(&jam);
    expect_last(&client, gone, 1);
    assert_int_equal(times_logged(&scene, "could not notify"), 1);
    assert_int_equal(times_logged(&scene, "cannot be notified now"), 1);
    assert_int_equal(times_logged(&scene, "reachable again"), 0);
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
    scene_open_listening(&scene, &client, folder_yaml(&folder, ""), "'f:{+path}'");
    scene_replace(&scene, folder_yaml(&folder, "  include: ['*.md']\n"));
    expect_last(&client, gone, 1);
    scene_expect_listed(&scene, "f:b.txt", false);
    scene_expect_listed(&scene, "f:a.md", true);
    scene_replace(&scene, folder_yaml(&folder, ""));
    expect_last(&client, back, 1);
    scene_expect_listed(&scene, "f:b.txt", true);
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
    scene_open_listening(&scene, &client, LOSER WINNER MARK, "'t:1','t:{x}'");

    struct script *loser = scene_script(&scene, "t:other");
    assert_true(&loser->source != tdg__live_owner(scene.live, "t:1"));
    assert_int_equal(tdg__source_list(&loser->source, &listed), 0);
    assert_true(has_title(&scene, "Winner"));
    for (int i = 0; i < 3; i++) {
        static const char *const contents[] = {"one", "two", NULL};

        loser->holds = contents[i];
        tdg__source_touch(&loser->source, "t:1");
        scene_expect_marker(&scene, &client);
    }
    tdg__source_unlist(&loser->source, "t:1");
    scene_expect_marker(&scene, &client);
    assert_true(has_title(&scene, "Winner"));
    scene_expect(&scene, "t:1", "win");
    scene_change(&scene, "t:1", "more");
    scene_expect_update(&client, "t:1");
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
    scene_open_listening(&scene, &client, folder_and(&folder, "", ""), "'f:{+path}'");
    scene_replace(&scene,
                  folder_and(&folder, "", "- script: win\n  uri: f:a\n  title: W\n"));
    scene_expect(&scene, "f:a", "win");
    assert_true(has_title(&scene, "W"));
    scene_replace(&scene, folder_and(&folder, "", ""));
    expect_last(&client, one, 1);
    scene_expect_listed(&scene, "f:a", true);
    scene_expect(&scene, "f:a", "file");
    assert_false(has_title(&scene, "W"));

    scene_replace(&scene, folder_and(&folder, "- memory: 'f:s/{x}'\n", ""));
    expect_last(&client, gone, 1);
    scene_expect_listed(&scene, "f:s/b", false);
    scene_expect_listed(&scene, "f:a", true);
    scene_replace(&scene, folder_and(&folder, "", ""));
    expect_last(&client, back, 1);
    scene_expect_listed(&scene, "f:s/b", true);
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
    scene_expect_listed(&scene, "m:a1", false);
    scene_expect(&scene, "m:a1", NULL);
    scene_listen(&scene, &client, "'m:{x}','m:a{y}'");
    push(&scene, "m:a1", "two");
    scene_expect_listed(&scene, "m:a1", true);
    scene_replace(&scene, "- memory: 'm:{x}'\n" MARK);
    scene_expect(&scene, "m:a1", "one");
    scene_expect_listed(&scene, "m:a1", true);
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
    scene_listen(&scene, &modern,
                 "'f:a.md','f:b.txt','f:none.txt','f:../a.md','f:%61.md'");
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
        while (files->absent.pool.count > 0)
            uv_run(&scene.loop, UV_RUN_NOWAIT);
    } while (files->n_absent == 0);
    assert_int_equal(scene_try_replace(&scene, folder_yaml(&folder, "  settle: 1s\n")),
                     0);
    scene_expect_listed(&scene, "f:gone", false);
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
    scene_open_listening(&again->scene, &again->client, folder_yaml(folder, options),
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
    scene_expect_update(&again.client, "f:deep/again");
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

int main(void) {
    const struct CMUnitTest tests[] = {
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
        cmocka_unit_test(a_deletion_is_not_lost_while_the_worker_lags),
        cmocka_unit_test(a_deletion_that_waits_is_logged_once),
        cmocka_unit_test(a_folder_with_other_limits_is_listed_anew),
        cmocka_unit_test(what_a_folder_cannot_have_is_not_found),
        cmocka_unit_test(only_the_owner_of_a_uri_speaks_for_it),
        cmocka_unit_test(a_folder_has_its_files_back_from_others),
        cmocka_unit_test(what_was_published_is_back_when_another_entry_goes),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("live_folder", tests, NULL, NULL);
}
