/* SPDX-License-Identifier: MIT
 *
 * Folders that misbehave: floods of changes, lost events, a root that goes and comes,
 * limits of the kernel, no memory. Limits and mounts are tried in namespaces of their
 * own, in which this program runs itself again. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "source/files/files.h"
#include "support.h"
#include "unit/source/folder.h"
#include "unit/source/harness.h"
#include "unit/source/namespace.h"
#include "unit/targets.h"

struct fixture {
    struct folder folder;
    struct harness harness;
    bool is_open;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    folder_create(&f->folder);
    folder_mkdir(&f->folder, "root");
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    if (f->is_open)
        harness_close(&f->harness);
    folder_destroy(&f->folder);
    return state_destroy(state);
}

static void open_root(struct fixture *f, const char *options) {
    char yaml[1024];

    snprintf(yaml, sizeof(yaml), "files: %s/root\n%s", f->folder.path, options);
    harness_open(&f->harness, yaml);
    f->is_open = true;
}

static void serve(struct fixture *f, const char *options) {
    open_root(f, options);
    harness_wait(&f->harness, READY, NULL);
}

static const char *uri(struct fixture *f, const char *name) {
    static char uris[4][FOLDER_PATH];
    static unsigned next;
    char *out = uris[next++ % COUNT(uris)];

    snprintf(out, sizeof(uris[0]), "file://%s/root/%s", f->folder.path, name);
    return out;
}

/* ---- Floods ------------------------------------------------------------- */

enum { REPLACES = 2000 };

struct writer {
    struct fixture *fixture;
    atomic_bool stop, done;
};

static void *replace_often(void *arg) {
    struct writer *w = arg;
    char name[FOLDER_PATH], other[FOLDER_PATH];

    folder_path(&w->fixture->folder, "root/a.txt", name);
    folder_path(&w->fixture->folder, "root/a.txt~", other);
    for (unsigned i = 1; i <= often(REPLACES); i++) {
        int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0644);

        dprintf(fd, "%u", i);
        close(fd);
        rename(other, name);
    }
    atomic_store(&w->done, true);
    return NULL;
}

static void the_last_of_many_replaces_is_told(void **state) {
    struct fixture *f = *state;
    struct writer w = {.fixture = f};
    char last[16];
    pthread_t thread;

    folder_write(&f->folder, "root/a.txt", "0");
    serve(f, "");
    harness_watch(&f->harness, uri(f, "a.txt"));
    snprintf(last, sizeof(last), "%u", often(REPLACES));
    assert_int_equal(pthread_create(&thread, NULL, replace_often, &w), 0);
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), last);
    pthread_join(thread, NULL);
    assert_true(atomic_load(&w.done));
}

static void *write_for_ever(void *arg) {
    struct writer *w = arg;
    char name[FOLDER_PATH];
    int fd;

    folder_path(&w->fixture->folder, "root/a.txt", name);
    fd = open(name, O_WRONLY);
    for (unsigned i = 0; !atomic_load(&w->stop); i++) {
        char text[16];

        snprintf(text, sizeof(text), "%08u", i);
        (void)!pwrite(fd, text, 8, 0);
    }
    close(fd);
    return NULL;
}

static void a_file_that_is_never_closed_is_told_all_the_same(void **state) {
    struct fixture *f = *state;
    struct writer w = {.fixture = f};
    pthread_t thread;

    folder_write(&f->folder, "root/a.txt", "--------");
    folder_write(&f->folder, "root/b.txt", "b");
    serve(f, "settle: 20ms\n");
    harness_watch(&f->harness, uri(f, "a.txt"));
    harness_watch(&f->harness, uri(f, "b.txt"));
    assert_int_equal(pthread_create(&thread, NULL, write_for_ever, &w), 0);
    for (int i = 0; i < 20; i++)
        harness_wait(&f->harness, CHANGED, uri(f, "a.txt"));
    /* And holds up nobody else. */
    folder_write(&f->folder, "root/b.txt", "c");
    harness_wait_for_text(&f->harness, uri(f, "b.txt"), "c");
    folder_write(&f->folder, "root/new.txt", "n");
    harness_wait(&f->harness, LISTED, uri(f, "new.txt"));
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
}

static long queued_events(void) {
    FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
    long value = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld", &value), 1);
    fclose(file);
    return value;
}

/* The loop stands still while more happens than the kernel keeps. */
static void lost_events_lose_nothing(void **state) {
    struct fixture *f = *state;
    long limit = queued_events();

    if (limit > 200000)
        skip(); /* takes too long to reach */
    folder_mkdir(&f->folder, "root/sub/gone");
    folder_write(&f->folder, "root/a.txt", "a");
    folder_write(&f->folder, "root/b.txt", "b");
    folder_write(&f->folder, "root/sub/c.txt", "c");
    folder_write(&f->folder, "root/sub/quiet.txt", "q");
    folder_write(&f->folder, "root/sub/gone/d.txt", "d");
    serve(f, "");
    harness_watch(&f->harness, uri(f, "sub/c.txt"));
    harness_watch_template(&f->harness, f->harness.source->entry.uri);
    for (long i = 0; i < limit / 2 + 100; i++) { /* by turns: equal ones are merged */
        folder_append(&f->folder, "root/a.txt", "x");
        folder_append(&f->folder, "root/b.txt", "x");
    }
    folder_write(&f->folder, "root/sub/c.txt", "changed");
    folder_write(&f->folder, "root/sub/e.txt", "new");
    folder_mkdir(&f->folder, "root/fresh/deep");
    folder_write(&f->folder, "root/fresh/deep/f.txt", "new");
    folder_remove(&f->folder, "root/sub/gone");

    harness_wait(&f->harness, LOGGED, "max_queued_events");
    harness_wait_for_text(&f->harness, uri(f, "sub/c.txt"), "changed");
    harness_wait(&f->harness, LISTED, uri(f, "sub/e.txt"));
    harness_wait(&f->harness, LISTED, uri(f, "fresh/deep/f.txt"));
    harness_wait(&f->harness, CHANGED, uri(f, "fresh/deep/f.txt"));
    harness_wait(&f->harness, UNLISTED, uri(f, "sub/gone/d.txt"));

    /* And the new folder is watched. */
    folder_write(&f->folder, "root/fresh/deep/g.txt", "later");
    harness_wait_for_text(&f->harness, uri(f, "fresh/deep/g.txt"), "later");
}

/* ---- The root goes and comes -------------------------------------------- */

static void expect_stale(struct fixture *f, const char *name, const char *text) {
    struct reading reading = harness_read(&f->harness, uri(f, name));

    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data, text);
    assert_true(json_is_true(json_object_get(reading.metadata, "stale")));
    reading_done(&reading);
}

static bool is_here(void *arg) {
    return !((const tdg__source_t *)arg)->away;
}

static void a_root_that_moves_away_is_stale_until_it_is_back(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/sub");
    folder_write(&f->folder, "root/sub/a.txt", "one");
    folder_write(&f->folder, "root/sub/gone.txt", "x");
    serve(f, "retry: 10ms\n");
    harness_watch(&f->harness, uri(f, "sub/a.txt"));
    folder_rename(&f->folder, "root", "elsewhere");
    harness_wait(&f->harness, LOGGED, "unreachable");
    expect_stale(f, "sub/a.txt", "one");

    folder_mkdir(&f->folder, "root/sub");
    folder_write(&f->folder, "root/sub/a.txt", "two");
    harness_until(&f->harness, is_here, f->harness.source);
    harness_wait_for_text(&f->harness, uri(f, "sub/a.txt"), "two");
    harness_wait(&f->harness, UNLISTED, uri(f, "sub/gone.txt"));

    /* The new one is watched, the old one is not. */
    folder_write(&f->folder, "elsewhere/sub/wrong.txt", "x");
    folder_write(&f->folder, "root/sub/right.txt", "x");
    harness_wait(&f->harness, LISTED, uri(f, "sub/right.txt"));
    assert_int_equal(harness_count(&f->harness, LISTED, uri(f, "sub/wrong.txt")), 0);
}

static void a_root_that_is_deleted_and_made_anew_is_served_again(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "root/a.txt", "one");
    serve(f, "retry: 10ms\n");
    harness_watch(&f->harness, uri(f, "a.txt"));
    for (int i = 0; i < 5; i++) {
        char text[16];

        folder_remove(&f->folder, "root");
        harness_wait(&f->harness, LOGGED, "unreachable");
        snprintf(text, sizeof(text), "again %d", i);
        folder_mkdir(&f->folder, "root");
        folder_write(&f->folder, "root/a.txt", text);
        harness_wait_for_text(&f->harness, uri(f, "a.txt"), text);
        harness_until(&f->harness, is_here, f->harness.source);
    }
}

static void a_root_that_comes_later_is_served_then(void **state) {
    struct fixture *f = *state;

    folder_remove(&f->folder, "root");
    open_root(f, "retry: 10ms\n");
    harness_watch(&f->harness, uri(f, "a.txt")); /* at once, although nobody can look */
    harness_wait(&f->harness, READY, NULL);
    harness_wait(&f->harness, LOGGED,
                 "the folder does not exist; it will be served once");
    folder_mkdir(&f->folder, "beside");
    folder_write(&f->folder, "beside/a.txt", "here");
    folder_rename(&f->folder, "beside", "root");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "here");
    harness_wait(&f->harness, LISTED, uri(f, "a.txt"));
    assert_int_equal(harness_count(&f->harness, LOGGED, "stale"), 0);
    assert_int_equal(harness_count(&f->harness, LOGGED, "does not exist"), 0);
}

static void a_root_that_is_replaced_at_once_is_noticed(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "root/a.txt", "one");
    folder_mkdir(&f->folder, "next");
    folder_write(&f->folder, "next/a.txt", "two");
    serve(f, "retry: 10ms\n");
    harness_watch(&f->harness, uri(f, "a.txt"));
    folder_rename(&f->folder, "root", "before");
    folder_rename(&f->folder, "next", "root");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "two");
    folder_write(&f->folder, "root/a.txt", "three");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "three");
}

/* As those deploy who switch a link. */
static void a_root_that_is_a_link_may_lead_elsewhere(void **state) {
    struct fixture *f = *state;

    folder_remove(&f->folder, "root");
    folder_mkdir(&f->folder, "v1");
    folder_mkdir(&f->folder, "v2");
    folder_write(&f->folder, "v1/a.txt", "one");
    folder_write(&f->folder, "v2/a.txt", "two");
    folder_link(&f->folder, "v1", "root");
    serve(f, "");
    harness_watch(&f->harness, uri(f, "a.txt"));
    folder_link(&f->folder, "v2", "link");
    folder_rename(&f->folder, "link", "root");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "two");
    folder_write(&f->folder, "v2/a.txt", "three");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "three");
}

/* ---- Life --------------------------------------------------------------- */

static void closes_at_any_time(void **state) {
    struct fixture *f = *state;

    for (int i = 0; i < 300; i++) {
        char name[32];

        snprintf(name, sizeof(name), "root/%d/x", i);
        folder_mkdir(&f->folder, name);
        snprintf(name, sizeof(name), "root/%d/x/file", i);
        folder_write(&f->folder, name, "text");
    }
    for (int turns = 0; turns < 40; turns++) {
        struct reading readings[4];
        char name[32];

        open_root(f, "");
        (void)tdg__source_watch(f->harness.source, FOR_URI(uri(f, "1/x/file")), NULL);
        (void)tdg__source_watch(f->harness.source, FOR_LIST("resources"), NULL);
        for (int i = 0; i < turns; i++)
            uv_run(&f->harness.loop, UV_RUN_NOWAIT);
        for (size_t i = 0; i < COUNT(readings); i++) {
            snprintf(name, sizeof(name), "%zu/x/file", i);
            harness_start_read(&f->harness, uri(f, name), &readings[i]);
        }
        snprintf(name, sizeof(name), "root/%d", turns);
        folder_remove(&f->folder, name);
        harness_close(&f->harness);
        f->is_open = false;
        for (size_t i = 0; i < COUNT(readings); i++) {
            assert_true(readings[i].done);
            reading_done(&readings[i]);
        }
    }
}

/* Whatever allocation fails, what has changed is told in the end. */
static void a_lack_of_memory_loses_nothing(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "root/a.txt", "start");
    serve(f, "retry: 1ms\nretry-max: 2ms\nsettle: 2ms\n");
    harness_watch(&f->harness, uri(f, "a.txt"));
    for (int nth = 1; nth <= 80; nth++) {
        char text[16], name[32];

        memory_fail((size_t)nth, MEMORY_ONCE);
        snprintf(text, sizeof(text), "%d", nth);
        folder_replace(&f->folder, "root/a.txt", text);
        snprintf(name, sizeof(name), "root/%d/x", nth);
        folder_mkdir(&f->folder, name);
        snprintf(name, sizeof(name), "root/%d/x/n", nth);
        folder_write(&f->folder, name, "x");
        harness_wait(&f->harness, LISTED, uri(f, name + 5));
        memory_fail(0, MEMORY_ONCE);
        for (;;) { /* a change may be told without metadata; the text is what counts */
            struct reading reading = harness_read(&f->harness, uri(f, "a.txt"));
            bool same = reading.status == 0 && strcmp(reading.data, text) == 0;

            reading_done(&reading);
            if (same)
                break;
        }
        harness_wait(&f->harness, CHANGED, uri(f, "a.txt"));
        while (harness_count(&f->harness, CHANGED, uri(f, "a.txt")) > 0)
            harness_wait(&f->harness, CHANGED, uri(f, "a.txt"));
    }
}

/* A list is watched in all sources, and the end of that is reported to all of them. */
static void watching_a_list_needs_no_memory(void **state) {
    struct fixture *f = *state;
    const tdg__source_t *source;

    open_root(f, "");
    source = f->harness.source;
    memory_fail(1, MEMORY_FROM_THEN_ON);
    assert_int_equal(tdg__source_watch(f->harness.source, FOR_LIST("resources"), NULL),
                     TDG_EAGAIN);
    assert_false(memory_failed());
    memory_fail(0, MEMORY_ONCE);
    harness_wait(&f->harness, WATCHED, "resources");
    assert_true(tdg__source_is_watched(source));
    tdg__source_unwatch(f->harness.source, FOR_LIST("resources"));
    assert_false(tdg__source_is_watched(source));
}

/* Who was subscribed before a reload hears what the first walk finds, and nothing can
 * prevent that. */
static void watching_a_template_after_a_reload_needs_no_memory(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "root/a.txt", "one");
    open_root(f, "settle: 2ms\n");
    memory_fail(1, MEMORY_FROM_THEN_ON);
    assert_int_equal(tdg__source_watch(f->harness.source,
                                       FOR_TEMPLATE(f->harness.source->entry.uri),
                                       &(tdg__past_t){.source = NULL}),
                     TDG_EAGAIN);
    assert_false(memory_failed());
    memory_fail(0, MEMORY_ONCE);
    harness_wait(&f->harness, CHANGED, uri(f, "a.txt"));
}

/* ---- In a namespace ----------------------------------------------------- */

static void too_few_watches_inside(void **state) {
    struct fixture *f = *state;

    for (int i = 0; i < 10; i++) {
        char name[32];

        snprintf(name, sizeof(name), "root/%d", i);
        folder_mkdir(&f->folder, name);
        snprintf(name, sizeof(name), "root/%d/a.txt", i);
        folder_write(&f->folder, name, "one");
    }
    serve(f, "");
    harness_wait(&f->harness, LOGGED, "fs.inotify.max_user_watches");
    assert_int_equal(harness_count(&f->harness, LOGGED, "walked every 2000 ms"), 0);
    assert_int_equal(harness_count(&f->harness, LOGGED, NULL), 0); /* once is enough */
    for (int i = 0; i < 10; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%d/a.txt", i);
        harness_wait(&f->harness, LISTED, uri(f, name));
    }
    harness_watch(&f->harness, uri(f, "9/a.txt"));
    harness_watch(&f->harness, uri(f, "0/a.txt"));
    folder_write(&f->folder, "root/9/a.txt", "two");
    folder_write(&f->folder, "root/0/a.txt", "two");
    folder_write(&f->folder, "root/5/b.txt", "new");
    harness_wait_for_text(&f->harness, uri(f, "9/a.txt"), "two");
    harness_wait_for_text(&f->harness, uri(f, "0/a.txt"), "two");
    harness_wait(&f->harness, LISTED, uri(f, "5/b.txt"));
}

static void too_few_watches_are_said_and_polling_helps(void **state) {
    (void)state;
    in_namespace("too_few_watches_inside", 0, "/proc/sys/user/max_inotify_watches", "4");
}

static void no_instance_inside(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "root/a.txt", "one");
    serve(f, "");
    harness_wait(&f->harness, LOGGED, "fs.inotify.max_user_instances");
    harness_watch(&f->harness, uri(f, "a.txt"));
    folder_write(&f->folder, "root/a.txt", "two");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "two");
}

static void no_instance_is_said_and_polling_helps(void **state) {
    (void)state;
    in_namespace("no_instance_inside", 0, "/proc/sys/user/max_inotify_instances", "0");
}

static void unmount_inside(void **state) {
    struct fixture *f = *state;
    char root[FOLDER_PATH], sub[FOLDER_PATH];

    folder_path(&f->folder, "root", root);
    folder_path(&f->folder, "root/sub", sub);
    assert_int_equal(mount("none", root, "tmpfs", 0, NULL), 0);
    folder_write(&f->folder, "root/a.txt", "one");
    folder_mkdir(&f->folder, "root/sub");
    assert_int_equal(mount("none", sub, "tmpfs", 0, NULL), 0);
    folder_write(&f->folder, "root/sub/b.txt", "b");
    serve(f, "retry: 10ms\n");
    harness_watch(&f->harness, uri(f, "a.txt"));
    harness_wait(&f->harness, LISTED, uri(f, "sub/b.txt"));
    harness_expect(&f->harness, uri(f, "a.txt"), "one");

    /* Nothing of ours holds it. */
    assert_int_equal(umount(sub), 0);
    harness_wait(&f->harness, UNLISTED, uri(f, "sub/b.txt"));
    assert_int_equal(umount(root), 0);
    harness_wait(&f->harness, UNLISTED, uri(f, "a.txt"));

    assert_int_equal(mount("none", root, "tmpfs", 0, NULL), 0);
    folder_write(&f->folder, "root/a.txt", "two");
    harness_wait_for_text(&f->harness, uri(f, "a.txt"), "two");
    harness_close(&f->harness);
    f->is_open = false;
    assert_int_equal(umount(root), 0);
}

static void unmounting_is_not_hindered_and_noticed(void **state) {
    (void)state;
    in_namespace("unmount_inside", CLONE_NEWNS, NULL, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- From inside -------------------------------------------------------- */

static void one_walk_of_everything_serves_all_who_ask(void **state) {
    struct fixture *f = *state;

    open_root(f, "");

    tdg__files_t *files = (tdg__files_t *)f->harness.source;

    assert_true(files->piece == TDG__FILES_WALKING); /* the first one */
    for (int i = 0; i < 3; i++)
        tdg__files_rescan(files);
    assert_int_equal(files->queue.count, 1);
    harness_wait(&f->harness, READY, NULL);
    assert_int_equal(files->queue.count, 0);
    assert_false(files->rescan_waits);
}

/* Its number would soon be somebody else's. */
static void a_walk_that_runs_keeps_its_inotify(void **state) {
    struct fixture *f = *state;

    open_root(f, "");

    tdg__files_t *files = (tdg__files_t *)f->harness.source;
    int fd = files->notify_fd;

    assert_true(files->piece == TDG__FILES_WALKING);
    tdg__source_close(f->harness.source);
    assert_int_not_equal(fcntl(fd, F_GETFD), -1);
    harness_close(&f->harness);
    f->is_open = false;
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_last_of_many_replaces_is_told),
        TEST(a_file_that_is_never_closed_is_told_all_the_same),
        TEST(lost_events_lose_nothing),
        TEST(a_root_that_moves_away_is_stale_until_it_is_back),
        TEST(a_root_that_is_deleted_and_made_anew_is_served_again),
        TEST(a_root_that_comes_later_is_served_then),
        TEST(a_root_that_is_replaced_at_once_is_noticed),
        TEST(a_root_that_is_a_link_may_lead_elsewhere),
        TEST(closes_at_any_time),
        TEST(a_lack_of_memory_loses_nothing),
        TEST(watching_a_list_needs_no_memory),
        TEST(watching_a_template_after_a_reload_needs_no_memory),
        TEST(one_walk_of_everything_serves_all_who_ask),
        TEST(a_walk_that_runs_keeps_its_inotify),
        cmocka_unit_test(too_few_watches_are_said_and_polling_helps),
        cmocka_unit_test(no_instance_is_said_and_polling_helps),
        cmocka_unit_test(unmounting_is_not_hindered_and_noticed),
    };
    const struct CMUnitTest inside[] = {
        TEST(too_few_watches_inside),
        TEST(no_instance_inside),
        TEST(unmount_inside),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return is_in_namespace()
               ? cmocka_run_group_tests_name("files_inside", inside, NULL, NULL)
               : cmocka_run_group_tests_name("files_faults", tests, NULL, NULL);
}
