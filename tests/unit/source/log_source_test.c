/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "source/log/log_tail.h"
#include "support.h"
#include "unit/source/folder.h"
#include "unit/source/harness.h"
#include "unit/source/namespace.h"
#include "unit/targets.h"

struct fixture {
    struct folder folder;
    struct harness harness;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));

    folder_create(&f->folder);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    folder_destroy(&f->folder);
    free(f);
    return 0;
}

/* Opens the log NAME of the folder as log:x, with more options. */
static void open_log(struct fixture *f, const char *name, const char *more) {
    char text[2048];

    snprintf(text, sizeof(text), "log: %s/%s\nuri: log:x\n%s", f->folder.path, name,
             more);
    harness_open(&f->harness, text);
}

static json_int_t number_of(const json_t *metadata, const char *name) {
    return json_integer_value(json_object_get(metadata, name));
}

/* Waits until a read gives the text; changes may have been told before. */
static void until_text(struct fixture *f, const char *text) {
    struct reading reading = harness_read(&f->harness, "log:x");
    bool same = reading.status == 0 && strcmp(reading.data, text) == 0;

    reading_done(&reading);
    if (!same)
        harness_wait_for_text(&f->harness, "log:x", text);
}

static void the_last_complete_lines(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    folder_write(&f->folder, "a.log", "one\ntwo\nthree\nfour\nfi");
    open_log(f, "a.log", "lines: 2\n");
    reading = harness_read(&f->harness, "log:x");
    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data, "three\nfour\n");
    assert_int_equal(number_of(reading.metadata, "lines"), 2);
    assert_int_equal(number_of(reading.metadata, "offset"), 19);
    assert_int_equal(number_of(reading.metadata, "rotations"), 0);
    assert_true(number_of(reading.metadata, "inode") > 0);
    reading_done(&reading);

    harness_watch(&f->harness, "log:x");
    folder_append(&f->folder, "a.log", "ve");
    harness_expect(&f->harness, "log:x", "three\nfour\n");
    folder_append(&f->folder, "a.log", "\n");
    harness_wait_for_text(&f->harness, "log:x", "four\nfive\n");
    assert_int_equal(harness_count(&f->harness, CHANGED, NULL), 0);
    harness_close(&f->harness);
}

static void the_last_of_many_appends_is_told(void **state) {
    struct fixture *f = *state;
    char line[32];

    folder_write(&f->folder, "a.log", "");
    open_log(f, "a.log", "lines: 1\n");
    harness_watch(&f->harness, "log:x");
    for (int i = 1; i <= 10000; i++) {
        snprintf(line, sizeof(line), "%d\n", i);
        folder_append(&f->folder, "a.log", line);
        if (i % 100 == 0)
            uv_run(&f->harness.loop, UV_RUN_NOWAIT);
    }
    harness_wait_for_text(&f->harness, "log:x", "10000\n");
    harness_close(&f->harness);
}

static void rotation_by_rename(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    folder_write(&f->folder, "a.log", "old\n");
    open_log(f, "a.log", "");
    harness_watch(&f->harness, "log:x");
    harness_expect(&f->harness, "log:x", "old\n");
    for (int i = 0; i < 5; i++) {
        char text[32];

        folder_rename(&f->folder, "a.log", "a.log.1");
        for (int turn = 0; turn < 10; turn++) { /* it is looked for meanwhile */
            usleep(1000);
            uv_run(&f->harness.loop, UV_RUN_NOWAIT);
        }
        folder_append(&f->folder, "a.log.1", "not seen any more\n");
        snprintf(text, sizeof(text), "new %d\n", i);
        folder_write(&f->folder, "a.log", text);
        until_text(f, text);
        folder_append(&f->folder, "a.log", "more\n");
        strcat(text, "more\n");
        until_text(f, text);
    }
    reading = harness_read(&f->harness, "log:x");
    assert_int_equal(number_of(reading.metadata, "rotations"), 5);
    reading_done(&reading);
    /* In between it was missing for a moment, which is nobody's business. */
    assert_int_equal(harness_count(&f->harness, DELETED, NULL), 0);
    harness_close(&f->harness);
}

static void rotation_by_copying_and_truncating(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    folder_write(&f->folder, "a.log", "old\nold\n");
    open_log(f, "a.log", "");
    harness_watch(&f->harness, "log:x");
    folder_write(&f->folder, "a.log", "");
    until_text(f, "");
    folder_append(&f->folder, "a.log", "new\n");
    until_text(f, "new\n");
    reading = harness_read(&f->harness, "log:x");
    assert_int_equal(number_of(reading.metadata, "rotations"), 1);
    reading_done(&reading);
    harness_close(&f->harness);
}

static void deleted_and_made_anew(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "a.log", "one\n");
    open_log(f, "a.log", "");
    harness_watch(&f->harness, "log:x");
    folder_remove(&f->folder, "a.log");
    harness_wait(&f->harness, DELETED, "log:x");
    folder_write(&f->folder, "a.log", "two\n");
    assert_string_equal(
        json_string_value(json_object_get(
            harness_wait(&f->harness, CHANGED, "log:x")->metadata, "change_type")),
        "created");
    until_text(f, "two\n");
    harness_close(&f->harness);
}

static void missing_at_the_start_with_its_folder(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    open_log(f, "later/a.log", "");
    reading = harness_read(&f->harness, "log:x");
    assert_int_equal(reading.status, TDG_ENOTFOUND);
    assert_non_null(strstr(reading.error, "does not exist"));
    reading_done(&reading);
    harness_wait(&f->harness, LOGGED, "the file does not exist yet");
    harness_watch(&f->harness, "log:x");
    reading = harness_read(&f->harness, "log:x");
    reading_done(&reading);
    assert_int_equal(harness_count(&f->harness, LOGGED, "not exist yet"), 0); /* once */
    folder_mkdir(&f->folder, "later");
    folder_write(&f->folder, "later/a.log", "here\n");
    harness_wait_for_text(&f->harness, "log:x", "here\n");
    folder_append(&f->folder, "later/a.log", "again\n");
    harness_wait_for_text(&f->harness, "log:x", "here\nagain\n");
    harness_close(&f->harness);
}

static void a_missing_file_that_is_watched_is_logged(void **state) {
    struct fixture *f = *state;

    open_log(f, "a.lgo", "");
    harness_watch(&f->harness, "log:x");
    harness_wait(&f->harness, LOGGED, "the file does not exist yet");
    harness_close(&f->harness);
}

static void links_are_followed(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "1");
    folder_mkdir(&f->folder, "2");
    folder_write(&f->folder, "1/a.log", "one\n");
    folder_write(&f->folder, "2/a.log", "two\n");
    folder_link(&f->folder, "1/a.log", "current");
    open_log(f, "current", "");
    harness_watch(&f->harness, "log:x");
    harness_expect(&f->harness, "log:x", "one\n");
    folder_append(&f->folder, "1/a.log", "more\n");
    harness_wait_for_text(&f->harness, "log:x", "one\nmore\n");
    folder_link(&f->folder, "2/a.log", "next");
    folder_rename(&f->folder, "next", "current");
    harness_wait_for_text(&f->harness, "log:x", "two\n");
    folder_append(&f->folder, "2/a.log", "more\n");
    harness_wait_for_text(&f->harness, "log:x", "two\nmore\n");
    harness_close(&f->harness);
}

/* The folder on the way is a link: inotify says nothing of it. */
static void a_link_on_the_way(void **state) {
    struct fixture *f = *state;

    folder_mkdir(&f->folder, "1");
    folder_mkdir(&f->folder, "2");
    folder_write(&f->folder, "1/a.log", "one\n");
    folder_write(&f->folder, "2/a.log", "two\n");
    folder_link(&f->folder, "1", "current");
    open_log(f, "current/a.log", "");
    harness_watch(&f->harness, "log:x");
    folder_link(&f->folder, "2", "next");
    folder_rename(&f->folder, "next", "current");
    harness_wait_for_text(&f->harness, "log:x", "two\n");
    folder_append(&f->folder, "2/a.log", "more\n");
    harness_wait_for_text(&f->harness, "log:x", "two\nmore\n");
    harness_close(&f->harness);
}

static void a_huge_file_is_read_from_its_end(void **state) {
    struct fixture *f = *state;
    char path[FOLDER_PATH];
    tdg__log_tail_t tail;
    int error;

    folder_write(&f->folder, "a.log", "begin\n");
    folder_path(&f->folder, "a.log", path);
    assert_int_equal(truncate(path, (off_t)1 << 30), 0);
    folder_append(&f->folder, "a.log", "\none\ntwo\n");
    assert_int_equal(tdg__log_tail_read(path, 2, 4 << 20, &tail, &error), 0);
    assert_int_equal(tail.len, 8);
    assert_memory_equal(tail.data + tail.start, "one\ntwo\n", 8);
    assert_true(tail.bytes_read <= 64 * 1024);
    tdg__free(tail.data);

    /* A line of a gigabyte: its end, and not more read than there is room for. */
    assert_int_equal(tdg__log_tail_read(path, 5, 4 << 20, &tail, &error), 0);
    assert_int_equal(tail.lines, 2);
    assert_true(tail.bytes_read <= 2 * (4 << 20));
    tdg__free(tail.data);

    open_log(f, "a.log", "lines: 2\n");
    harness_expect(&f->harness, "log:x", "one\ntwo\n");
    harness_close(&f->harness);
}

/* Against a naive reading of the whole, for many sizes. */
static void the_tail_is_right(void **state) {
    struct fixture *f = *state;
    struct dice dice = dice_from_env();
    char path[FOLDER_PATH], *whole = malloc(400001);

    folder_path(&f->folder, "a.log", path);
    for (int round = 0; round < 300; round++) {
        size_t len = roll(&dice, round % 3 == 0 ? 400000 : 2000);
        uint32_t rare = 1 + roll(&dice, 300);
        uint64_t lines = 1 + roll(&dice, 200);
        size_t max = 1 + roll(&dice, round % 2 ? 300000 : 3000);
        tdg__log_tail_t tail;
        int error;

        for (size_t i = 0; i < len; i++)
            whole[i] = (char)(roll(&dice, rare) == 0 ? '\n' : 'a' + roll(&dice, 26));
        whole[len] = '\0';
        folder_write(&f->folder, "a.log", whole);
        assert_int_equal(tdg__log_tail_read(path, lines, max, &tail, &error), 0);

        size_t end = len, start;

        while (end > 0 && whole[end - 1] != '\n')
            end--;
        start = end;
        for (uint64_t n = 0; n < lines && start > 0; n++) {
            size_t before = start - 1;

            while (before > 0 && whole[before - 1] != '\n')
                before--;
            if (n > 0 && end - before > max)
                break;
            start = before;
        }
        if (end - start > max)
            start = end - max;
        if (tail.len != end - start ||
            (tail.len > 0 && memcmp(tail.data + tail.start, whole + start, tail.len)))
            fail_msg("seed %llu, round %d: %zu instead of %zu bytes",
                     (unsigned long long)dice.seed, round, tail.len, end - start);
        assert_int_equal(tail.offset, end);
        tdg__free(tail.data);
    }
    free(whole);
}

static void any_bytes_are_served(void **state) {
    struct fixture *f = *state;
    static const char bytes[] = "\xff\xfe\0\x01 binary\n";
    struct reading reading;
    char path[FOLDER_PATH];
    int fd;

    folder_path(&f->folder, "a.log", path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, bytes, sizeof(bytes) - 1), sizeof(bytes) - 1);
    close(fd);
    open_log(f, "a.log", "");
    reading = harness_read(&f->harness, "log:x");
    assert_int_equal(reading.status, 0);
    assert_int_equal(reading.len, sizeof(bytes) - 1);
    assert_memory_equal(reading.data, bytes, sizeof(bytes) - 1);
    reading_done(&reading);
    harness_close(&f->harness);
}

static void a_long_line_is_cut_between_characters(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    folder_write(&f->folder, "a.log", "short\naaaaaaaaaa\xc3\xa4zzz\n");
    open_log(f, "a.log", "max-size: 5\n");
    reading = harness_read(&f->harness, "log:x");
    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data, "zzz\n");
    assert_true(json_is_true(json_object_get(reading.metadata, "cut")));
    reading_done(&reading);
    harness_close(&f->harness);
}

static void what_is_no_file_says_so(void **state) {
    struct fixture *f = *state;
    struct reading reading;
    int guard = folder_guard_fifo(&f->folder, "fifo");

    open_log(f, "fifo", "");
    reading = harness_read(&f->harness, "log:x");
    assert_false(folder_was_opened(guard));
    assert_int_equal(reading.status, TDG_EINVAL);
    assert_non_null(strstr(reading.error, "not a regular file"));
    reading_done(&reading);
    harness_close(&f->harness);
    harness_refuses("log: /x\nuri: 'log:{x}'\n", "not a template");
    harness_refuses("log: /x\nuri: log:x\nlines: 10001\n", "out of range");
}

static void closing_at_any_moment(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    folder_write(&f->folder, "a.log", "one\n");
    for (int turns = 0; turns < 12; turns++) {
        open_log(f, "a.log", "");
        harness_start_read(&f->harness, "log:x", &reading);
        (void)tdg__source_watch(f->harness.source, FOR_URI("log:x"), NULL);
        for (int i = 0; i < turns; i++)
            uv_run(&f->harness.loop, UV_RUN_NOWAIT);
        if (turns % 2 == 0) {
            tdg__source_unwatch(f->harness.source, FOR_URI("log:x"));
            (void)tdg__source_watch(f->harness.source, FOR_URI("log:x"), NULL);
        }
        harness_close(&f->harness);
        assert_true(reading.done);
        reading_done(&reading);
    }
}

/* ---- In a namespace ----------------------------------------------------- */

static void without_inotify_inside(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "a.log", "one\n");
    open_log(f, "a.log", "");
    harness_watch(&f->harness, "log:x");
    assert_int_equal(harness_count(&f->harness, LOGGED, "inotify does not work"), 1);
    folder_append(&f->folder, "a.log", "two\n");
    harness_wait_for_text(&f->harness, "log:x", "one\ntwo\n");
    folder_rename(&f->folder, "a.log", "a.log.1");
    folder_write(&f->folder, "a.log", "new\n");
    harness_wait_for_text(&f->harness, "log:x", "new\n");
    folder_remove(&f->folder, "a.log");
    harness_wait(&f->harness, DELETED, "log:x");
    assert_int_equal(harness_count(&f->harness, LOGGED, "inotify does not work"), 1);
    harness_close(&f->harness);
}

static void polling_helps_without_instances(void **state) {
    (void)state;
    in_namespace("without_inotify_inside", 0, "/proc/sys/user/max_inotify_instances",
                 "0");
}

static void polling_helps_without_watches(void **state) {
    (void)state;
    in_namespace("without_inotify_inside", 0, "/proc/sys/user/max_inotify_watches", "0");
}

static uv_sem_t release;

static void hang(uv_work_t *work) {
    (void)work;
    uv_sem_wait(&release);
}

static void on_released(uv_work_t *work, int status) {
    (void)work, (void)status;
}

static bool has_no_work(void *arg) {
    const struct harness *harness = arg;

    return harness->loop.active_reqs.count == 0;
}

static int read_status(struct fixture *f) {
    struct reading reading = harness_read(&f->harness, "log:x");
    int status = reading.status;

    reading_done(&reading);
    return status;
}

/* As on a file system that does not answer: one reading waits there, not one per try. */
static void what_hangs_takes_one_thread(void **state) {
    struct fixture *f = *state;
    uv_work_t work[64]; /* more than there are threads */
    int statuses[3], status = TDG_EUNREACHABLE;
    unsigned waiting;

    assert_int_equal(uv_sem_init(&release, 0), 0);
    folder_write(&f->folder, "a.log", "one\n");
    open_log(f, "a.log", "timeout: 100ms\n");
    for (size_t i = 0; i < COUNT(work); i++)
        assert_int_equal(uv_queue_work(&f->harness.loop, &work[i], hang, on_released), 0);
    for (size_t i = 0; i < COUNT(statuses); i++)
        statuses[i] = read_status(f);
    waiting = f->harness.loop.active_reqs.count;
    for (size_t i = 0; i < COUNT(work); i++)
        uv_sem_post(&release);
    harness_until(&f->harness, has_no_work, &f->harness);

    /* Not before: a program whose threads hang does not end. */
    for (size_t i = 0; i < COUNT(statuses); i++)
        assert_int_equal(statuses[i], TDG_EUNREACHABLE);
    assert_int_equal(waiting, COUNT(work) + 1);
    /* A busy machine takes longer. */
    for (int i = 0; i < 100 && status == TDG_EUNREACHABLE; i++)
        status = read_status(f);
    assert_int_equal(status, 0);
    harness_close(&f->harness);
    uv_sem_destroy(&release);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(the_last_complete_lines),
        CASE(the_last_of_many_appends_is_told),
        CASE(rotation_by_rename),
        CASE(rotation_by_copying_and_truncating),
        CASE(deleted_and_made_anew),
        CASE(missing_at_the_start_with_its_folder),
        CASE(a_missing_file_that_is_watched_is_logged),
        CASE(links_are_followed),
        CASE(a_link_on_the_way),
        CASE(a_huge_file_is_read_from_its_end),
        CASE(the_tail_is_right),
        CASE(any_bytes_are_served),
        CASE(a_long_line_is_cut_between_characters),
        CASE(what_is_no_file_says_so),
        CASE(closing_at_any_moment),
        CASE(what_hangs_takes_one_thread),
        cmocka_unit_test(polling_helps_without_instances),
        cmocka_unit_test(polling_helps_without_watches),
    };
    const struct CMUnitTest inside[] = {
        CASE(without_inotify_inside),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return is_in_namespace()
               ? cmocka_run_group_tests_name("log_inside", inside, NULL, NULL)
               : cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
