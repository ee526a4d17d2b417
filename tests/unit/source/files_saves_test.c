/* SPDX-License-Identifier: MIT
 *
 * Files that are saved in steps, as `>`, editors and cp do it. Where nothing may be told
 * before the last step, the wait for it is half a minute: no machine is that slow. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "support.h"
#include "unit/source/folder.h"
#include "unit/source/harness.h"

#define PATIENT "settle: 30s\n"
#define HASTY "settle: 50ms\n"

enum { DEFAULT_SETTLE_MS = 500 };

struct fixture {
    struct folder folder;
    struct harness harness;
    bool is_open;
    unsigned marks;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    folder_create(&f->folder);
    folder_mkdir(&f->folder, "root");
    folder_write(&f->folder, "root/mark", "");
    folder_write(&f->folder, "root/a.txt", "old");
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    if (f->is_open)
        harness_close(&f->harness);
    folder_destroy(&f->folder);
    return state_destroy(state);
}

static void serve(struct fixture *f, const char *options) {
    char yaml[1024];

    snprintf(yaml, sizeof(yaml), "files: %s/root\nuri: f:/{+path}\n%s", f->folder.path,
             options);
    harness_open(&f->harness, yaml);
    f->is_open = true;
    harness_wait(&f->harness, READY, NULL);
    harness_watch(&f->harness, "f:/mark");
}

static void serve_and_watch(struct fixture *f, const char *options) {
    serve(f, options);
    harness_watch(&f->harness, "f:/a.txt");
}

static void let_somebody_read(struct fixture *f) {
    struct reading reading = harness_read(&f->harness, "f:/a.txt");

    reading_done(&reading);
}

static void make_mark(struct fixture *f) {
    char text[16];

    snprintf(text, sizeof(text), "%u", ++f->marks);
    folder_replace(&f->folder, "root/mark", text);
}

/* Everything that has happened so far has been noticed, and looked at by a reader. */
static void let_it_be_noticed(struct fixture *f) {
    make_mark(f);
    harness_wait(&f->harness, CHANGED, "f:/mark");
    let_somebody_read(f);
}

static int begin(struct fixture *f, const char *name, int flags) {
    char path[FOLDER_PATH];
    int fd;

    folder_path(&f->folder, name, path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
    assert_true(fd >= 0);
    return fd;
}

static void expect_nothing_told(struct fixture *f) {
    let_somebody_read(f);
    assert_int_equal(harness_count(&f->harness, CHANGED, "f:/a.txt"), 0);
    assert_int_equal(harness_count(&f->harness, DELETED, "f:/a.txt"), 0);
    assert_int_equal(harness_count(&f->harness, UNLISTED, "f:/a.txt"), 0);
}

static void expect_nothing(struct fixture *f) {
    let_it_be_noticed(f);
    expect_nothing_told(f);
}

static json_int_t size_of(const struct happening *told) {
    return json_integer_value(json_object_get(told->metadata, "size"));
}

static void expect_once(struct fixture *f, json_int_t size, const char *change_type) {
    struct happening *told = harness_wait(&f->harness, CHANGED, "f:/a.txt");

    assert_int_equal(size_of(told), size);
    assert_string_equal(json_string_value(json_object_get(told->metadata, "change_type")),
                        change_type);
    expect_nothing(f);
}

static void write_in_steps(struct fixture *f, int fd) {
    expect_nothing(f);
    assert_int_equal(write(fd, "one ", 4), 4);
    expect_nothing(f);
    assert_int_equal(write(fd, "two ", 4), 4);
    expect_nothing(f);
    assert_int_equal(write(fd, "three", 5), 5);
    expect_nothing(f);
    close(fd);
}

static void a_save_in_steps_is_told_once_with_all_of_it(void **state) {
    struct fixture *f = *state;

    serve_and_watch(f, PATIENT);
    write_in_steps(f, begin(f, "root/a.txt", O_TRUNC));
    expect_once(f, 13, "content_update");
}

static void so_it_is_to_who_watches_the_template(void **state) {
    struct fixture *f = *state;

    folder_remove(&f->folder, "root/a.txt");
    serve(f, PATIENT);
    harness_watch_template(&f->harness, "f:/{+path}");
    write_in_steps(f, begin(f, "root/a.txt", 0));
    expect_once(f, 13, "created");
}

static void so_it_is_to_who_begins_to_watch_meanwhile(void **state) {
    struct fixture *f = *state;
    int fd;

    serve(f, PATIENT);
    fd = begin(f, "root/a.txt", O_TRUNC);
    let_it_be_noticed(f);
    harness_watch(&f->harness, "f:/a.txt");
    write_in_steps(f, fd);
    expect_once(f, 13, "content_update");
}

static void append(struct fixture *f, const char *text) {
    int fd = begin(f, "root/a.txt", O_APPEND);

    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* As `: >a.txt; cat >>a.txt` does it. */
static void a_file_that_is_emptied_and_closed_may_be_written_later(void **state) {
    struct fixture *f = *state;

    serve_and_watch(f, PATIENT);
    close(begin(f, "root/a.txt", O_TRUNC));
    expect_nothing(f);
    append(f, "whole");
    expect_once(f, 5, "content_update");
}

/* The loop is late by more than a second, which is less than `settle`. */
static void so_may_one_that_is_looked_at_late(void **state) {
    struct fixture *f = *state;

    serve_and_watch(f, PATIENT);
    close(begin(f, "root/a.txt", O_TRUNC));
    usleep(1100 * 1000);
    expect_nothing(f);
    append(f, "whole");
    expect_once(f, 5, "content_update");
}

static int64_t since_ms(uint64_t began_ns) {
    return (int64_t)((uv_hrtime() - began_ns) / 1000000);
}

/* Returns false where this machine was slower than the pause that is allowed. */
static bool saves_in_two_steps(struct fixture *f, const char *text) {
    uint64_t began_ns = uv_hrtime();

    close(begin(f, "root/a.txt", O_TRUNC));
    let_it_be_noticed(f);
    append(f, text);
    if (since_ms(began_ns) >= DEFAULT_SETTLE_MS) {
        while (size_of(harness_wait(&f->harness, CHANGED, "f:/a.txt")) == 0) {
        }
        return false;
    }
    expect_once(f, (json_int_t)strlen(text), "content_update");
    return true;
}

static void with_the_default_settings_a_save_is_told_once(void **state) {
    struct fixture *f = *state;
    char text[32];

    serve_and_watch(f, "");
    for (int turn = 0; turn < 50; turn++) {
        snprintf(text, sizeof(text), "whole %d", turn);
        if (saves_in_two_steps(f, text))
            return;
    }
    skip(); /* too slow for that */
}

static void with_them_a_file_that_stays_empty_is_told_after_settle(void **state) {
    struct fixture *f = *state;
    uint64_t began_ns;

    serve_and_watch(f, "");
    began_ns = uv_hrtime();
    close(begin(f, "root/a.txt", O_TRUNC));
    assert_int_equal(size_of(harness_wait(&f->harness, CHANGED, "f:/a.txt")), 0);
    assert_true(since_ms(began_ns) >= DEFAULT_SETTLE_MS - 10);
    expect_nothing(f);
}

/* The list follows a write that nobody has closed after some 300 ms: whatever was written
 * before has that age then. */
static void let_time_pass(struct fixture *f) {
    int fd = begin(f, "root/mark", O_APPEND);

    assert_int_equal(write(fd, "age", 3), 3);
    while (harness_wait(&f->harness, LISTED, "f:/mark")->size != 3) {
    }
    close(fd);
}

/* Nobody listens to the first half; the pause began before the folder came. */
static void half_a_file_that_comes_with_its_folder_is_not_told(void **state) {
    struct fixture *f = *state;
    struct happening *told;
    int fd;

    folder_mkdir(&f->folder, "new");
    serve(f, PATIENT);
    harness_watch_template(&f->harness, "f:/{+path}");
    fd = begin(f, "new/b.txt", 0);
    assert_int_equal(write(fd, "half", 4), 4);
    let_time_pass(f);
    folder_rename(&f->folder, "new", "root/new");
    harness_wait(&f->harness, LISTED, "f:/new/b.txt");
    let_it_be_noticed(f);
    assert_int_equal(harness_count(&f->harness, CHANGED, "f:/new/b.txt"), 0);
    assert_int_equal(write(fd, " whole", 6), 6);
    close(fd);
    told = harness_wait(&f->harness, CHANGED, "f:/new/b.txt");
    assert_int_equal(size_of(told), 10);
    assert_string_equal(json_string_value(json_object_get(told->metadata, "change_type")),
                        "created");
}

static void a_writer_that_keeps_the_file_open_is_not_waited_for(void **state) {
    struct fixture *f = *state;
    int fd;

    serve_and_watch(f, HASTY);
    fd = begin(f, "root/a.txt", O_TRUNC);
    assert_int_equal(size_of(harness_wait(&f->harness, CHANGED, "f:/a.txt")), 0);
    assert_int_equal(write(fd, "line", 4), 4);
    harness_wait_for_text(&f->harness, "f:/a.txt", "line");
    assert_int_equal(write(fd, " more", 5), 5);
    harness_wait_for_text(&f->harness, "f:/a.txt", "line more");
    close(fd);
}

static void replacing_by_rename_is_told_at_once(void **state) {
    struct fixture *f = *state;
    int fd;

    serve_and_watch(f, "settle: 1m\n"); /* longer than any test waits */
    fd = begin(f, "root/a.txt", O_TRUNC);
    expect_nothing(f);
    folder_replace(&f->folder, "root/a.txt", "another");
    expect_once(f, 7, "content_update");
    close(fd);
}

static void deleting_and_making_anew_is_one_update(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    serve_and_watch(f, PATIENT);
    folder_remove(&f->folder, "root/a.txt");
    expect_nothing(f);
    reading = harness_read(&f->harness, "f:/a.txt");
    assert_int_equal(reading.status, TDG_ENOTFOUND);
    reading_done(&reading);
    write_in_steps(f, begin(f, "root/a.txt", O_EXCL));
    expect_once(f, 13, "content_update");
}

static void so_is_moving_away_and_making_anew(void **state) {
    struct fixture *f = *state;

    serve(f, PATIENT);
    harness_watch_template(&f->harness, "f:/{+path}");
    folder_rename(&f->folder, "root/a.txt", "root/a.bak");
    expect_nothing(f);
    write_in_steps(f, begin(f, "root/a.txt", O_EXCL));
    expect_once(f, 13, "content_update");
}

static void a_folder_that_is_made_anew_deletes_nothing(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/sub/deep");
    folder_write(&f->folder, "root/sub/deep/b.txt", "old");
    serve(f, PATIENT);
    harness_watch(&f->harness, "f:/sub/deep/b.txt");
    folder_remove(&f->folder, "root/sub");
    let_it_be_noticed(f);
    folder_mkdir(&f->folder, "root/sub/deep");
    folder_write(&f->folder, "root/sub/deep/probe", "");
    harness_wait(&f->harness, LISTED, "f:/sub/deep/probe"); /* it is watched */
    folder_replace(&f->folder, "root/sub/deep/b.txt", "another");
    harness_wait_for_text(&f->harness, "f:/sub/deep/b.txt", "another");
    assert_int_equal(harness_count(&f->harness, UNLISTED, NULL), 0);
    assert_int_equal(harness_count(&f->harness, DELETED, NULL), 0);
}

static void what_stays_away_is_told_as_deleted(void **state) {
    struct fixture *f = *state;

    serve_and_watch(f, HASTY);
    folder_remove(&f->folder, "root/a.txt");
    assert_false(harness_wait(&f->harness, UNLISTED, "f:/a.txt")->told);
    folder_write(&f->folder, "root/a.txt", "again");
    assert_string_equal(
        json_string_value(json_object_get(
            harness_wait(&f->harness, CHANGED, "f:/a.txt")->metadata, "change_type")),
        "created");
}

/* A folder is no resource. */
static void a_folder_that_goes_is_told_by_its_files(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "root/sub");
    folder_write(&f->folder, "root/sub/b.txt", "old");
    serve(f, HASTY);
    harness_watch_template(&f->harness, "f:/{+path}");
    folder_remove(&f->folder, "root/sub");
    harness_wait(&f->harness, UNLISTED, "f:/sub/b.txt");
    folder_remove(&f->folder, "root/a.txt"); /* is missed after the folder was */
    harness_wait(&f->harness, UNLISTED, "f:/a.txt");
    let_it_be_noticed(f);
    assert_int_equal(harness_count(&f->harness, DELETED, "f:/sub"), 0);
}

/* ---- Where nobody hears of the writing ---------------------------------- */

/* a.txt leads to where nothing is watched. */
static void make_link(struct fixture *f) {
    folder_mkdir(&f->folder, "root/.store");
    folder_rename(&f->folder, "root/a.txt", "root/.store/a");
    folder_link(&f->folder, ".store/a", "root/a.txt");
}

/* Writes, until a look has met what is written. */
static void write_half(struct fixture *f, int fd, const char *text, uint64_t size) {
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    let_somebody_read(f);
    make_mark(f); /* an event, after which links are looked at */
    while (harness_wait(&f->harness, LISTED, "f:/a.txt")->size != size) {
    }
    expect_nothing_told(f);
}

static void expect_nothing_of_halves(struct fixture *f, const char *name) {
    int fd = begin(f, name, O_TRUNC);

    write_half(f, fd, "one ", 4);
    write_half(f, fd, "two ", 8);
    write_half(f, fd, "three", 13);
    close(fd);
}

static void nobody_is_told_of_half_a_file_behind_a_link(void **state) {
    struct fixture *f = *state;

    make_link(f);
    serve_and_watch(f, PATIENT);
    expect_nothing_of_halves(f, "root/.store/a");
}

/* Rarely enough that a walk meets writers that paused. */
static void nor_of_half_a_file_that_a_walk_meets(void **state) {
    struct fixture *f = *state;

    serve_and_watch(f, PATIENT "poll: 400ms\n");
    expect_nothing_of_halves(f, "root/a.txt");
}

static void behind_a_link_a_save_is_told_once_it_is_calm(void **state) {
    struct fixture *f = *state;

    make_link(f);
    serve_and_watch(f, HASTY);
    folder_write(&f->folder, "root/.store/a", "another");
    expect_once(f, 7, "content_update");
}

struct busy {
    struct fixture *fixture;
    const char *name;
    atomic_bool stops;
};

static void *write_on_and_on(void *arg) {
    struct busy *busy = arg;
    int fd = begin(busy->fixture, busy->name, O_TRUNC);

    while (!atomic_load(&busy->stops)) {
        assert_int_equal(write(fd, ".", 1), 1);
        usleep(1000);
    }
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, "the end", 7, 0), 7);
    close(fd);
    return NULL;
}

/* Each of the first three is waited for; the last one comes after a pause. */
static void expect_writer_to_be_told(struct fixture *f, const char *name) {
    struct busy busy = {.fixture = f, .name = name};
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, write_on_and_on, &busy), 0);
    for (int i = 0; i < 3; i++)
        harness_wait(&f->harness, CHANGED, "f:/a.txt");
    atomic_store(&busy.stops, true);
    harness_wait_for_text(&f->harness, "f:/a.txt", "the end");
    pthread_join(thread, NULL);
}

static void behind_a_link_a_writer_that_never_pauses_is_told_too(void **state) {
    struct fixture *f = *state;

    make_link(f);
    serve_and_watch(f, HASTY);
    expect_writer_to_be_told(f, "root/.store/a");
}

static void so_is_one_that_walks_meet(void **state) {
    struct fixture *f = *state;

    serve_and_watch(f, HASTY "poll: 20ms\n");
    expect_writer_to_be_told(f, "root/a.txt");
}

/* ---- Many --------------------------------------------------------------- */

enum { SAVES = 300, PARTS = 20 };

static void *save_often(void *arg) {
    struct fixture *f = arg;

    for (int i = 1; i <= SAVES; i++) {
        int fd = begin(f, "root/a.txt", O_TRUNC);

        for (int part = 0; part < PARTS; part++)
            dprintf(fd, "%08d", i);
        close(fd);
    }
    return NULL;
}

static void of_many_saves_no_half_is_told(void **state) {
    struct fixture *f = *state;
    char last[PARTS * 8 + 1] = "";
    pthread_t thread;

    serve_and_watch(f, PATIENT);
    assert_int_equal(pthread_create(&thread, NULL, save_often, f), 0);
    for (int part = 0; part < PARTS; part++)
        snprintf(last + part * 8, 9, "%08d", SAVES);
    harness_wait_for_text(&f->harness, "f:/a.txt", last);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < f->harness.count; i++) {
        const struct happening *told = &f->harness.happenings[i];

        if (told->kind == CHANGED && strcmp(told->uri, "f:/a.txt") == 0)
            assert_int_equal(size_of(told), PARTS * 8);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_save_in_steps_is_told_once_with_all_of_it),
        TEST(so_it_is_to_who_watches_the_template),
        TEST(so_it_is_to_who_begins_to_watch_meanwhile),
        TEST(a_file_that_is_emptied_and_closed_may_be_written_later),
        TEST(so_may_one_that_is_looked_at_late),
        TEST(with_the_default_settings_a_save_is_told_once),
        TEST(with_them_a_file_that_stays_empty_is_told_after_settle),
        TEST(half_a_file_that_comes_with_its_folder_is_not_told),
        TEST(a_writer_that_keeps_the_file_open_is_not_waited_for),
        TEST(replacing_by_rename_is_told_at_once),
        TEST(deleting_and_making_anew_is_one_update),
        TEST(so_is_moving_away_and_making_anew),
        TEST(a_folder_that_is_made_anew_deletes_nothing),
        TEST(what_stays_away_is_told_as_deleted),
        TEST(a_folder_that_goes_is_told_by_its_files),
        TEST(nobody_is_told_of_half_a_file_behind_a_link),
        TEST(nor_of_half_a_file_that_a_walk_meets),
        TEST(behind_a_link_a_save_is_told_once_it_is_calm),
        TEST(behind_a_link_a_writer_that_never_pauses_is_told_too),
        TEST(so_is_one_that_walks_meet),
        TEST(of_many_saves_no_half_is_told),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("files_saves", tests, NULL, NULL);
}
