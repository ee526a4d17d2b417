/* SPDX-License-Identifier: MIT
 *
 * Real programs: sh, and what every system has. Whether a process is gone is found out
 * by a lock that it and all it started hold on a file (flock goes with the last holder).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "unit/source/folder.h"
#include "unit/source/harness.h"
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

/* The same, with all memory counted. */
static int counted_setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    folder_create(&f->folder);
    return 0;
}

static int counted_teardown(void **state) {
    struct fixture *f = *state;

    folder_destroy(&f->folder);
    return state_destroy(state);
}

static int teardown(void **state) {
    struct fixture *f = *state;

    folder_destroy(&f->folder);
    free(f);
    return 0;
}

/* Opens an entry that runs in the folder. */
static void open_in(struct fixture *f, const char *yaml) {
    char text[4096];

    snprintf(text, sizeof(text), "%s\ncwd: %s\n", yaml, f->folder.path);
    harness_open(&f->harness, text);
}

static void expect_failure(struct fixture *f, const char *uri, int status,
                           const char *part) {
    struct reading reading = harness_read(&f->harness, uri);

    if (reading.status != status || reading.error == NULL ||
        strstr(reading.error, part) == NULL)
        fail_msg("%d %s", reading.status, reading.error != NULL ? reading.error : "-");
    reading_done(&reading);
}

/* Reads until it is this text. */
static void until_text(struct fixture *f, const char *uri, const char *text) {
    for (int i = 0; i < 60000; i++) {
        struct reading reading = harness_read(&f->harness, uri);
        bool same = reading.status == 0 && strcmp(reading.data, text) == 0;

        reading_done(&reading);
        if (same)
            return;
        usleep(1000);
    }
    fail_msg("%s is never %s", uri, text);
}

static bool file_is_there(const struct fixture *f, const char *name) {
    char path[FOLDER_PATH];

    folder_path(&f->folder, name, path);
    return access(path, F_OK) == 0;
}

struct file_wait {
    struct fixture *f;
    const char *name;
};

static bool is_there(void *arg) {
    const struct file_wait *wait = arg;

    return file_is_there(wait->f, wait->name);
}

static void wait_for_file(struct fixture *f, const char *name) {
    harness_ask_until(&f->harness, is_there, &(struct file_wait){f, name});
}

/* Whether nobody holds the lock of the file any more. */
static bool lock_is_free(void *arg) {
    const struct file_wait *wait = arg;
    int fd = folder_open(&wait->f->folder, wait->name);
    bool is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;

    close(fd);
    return is_free;
}

static void wait_until_free(struct fixture *f, const char *name) {
    harness_ask_until(&f->harness, lock_is_free, &(struct file_wait){f, name});
}

/* The same without a loop. SIGKILL was sent to all, but what the program had started is
 * no child of ours: nobody tells when it is dead. */
static void wait_until_killed(struct fixture *f, const char *name) {
    for (int i = 0; i < 60000 && !lock_is_free(&(struct file_wait){f, name}); i++)
        usleep(1000);
    assert_true(lock_is_free(&(struct file_wait){f, name}));
}

static size_t open_fds(void) {
    DIR *dir = opendir("/proc/self/fd");
    size_t count = 0;

    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static void no_children_are_left(void) {
    errno = 0;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* A script that holds the lock, and whose child does, too. */
#define HOLDER "exec 9>lock; flock 9; touch here; "

/* ---- Programs that run and end ------------------------------------------ */

static void a_read_runs_it(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    open_in(f, "command: [printf, '%s|', one, 'two words', '$HOME', '*']\nuri: c:x\n");
    reading = harness_read(&f->harness, "c:x");
    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data, "one|two words|$HOME|*|");
    assert_int_equal(json_integer_value(json_object_get(reading.metadata, "exit_status")),
                     0);
    assert_true(json_is_integer(json_object_get(reading.metadata, "duration_ms")));
    reading_done(&reading);
    harness_close(&f->harness);
    no_children_are_left();
}

static void a_shell_only_when_asked(void **state) {
    struct fixture *f = *state;

    open_in(f, "command: 'X=${NAME:-none}; echo $X | tr a-z A-Z; pwd'\nshell: true\n"
               "env: {NAME: abc}\nuri: c:x\n");

    char expected[256];

    snprintf(expected, sizeof(expected), "ABC\n%s\n", f->folder.path);
    harness_expect(&f->harness, "c:x", expected);
    harness_close(&f->harness);
}

static void its_input_is_empty_and_its_descriptors_are_three(void **state) {
    struct fixture *f = *state;
    int leak = open("/dev/null", O_RDONLY | O_CLOEXEC);

    /* Without a pipe: the shell itself has one end of it for a moment. */
    open_in(f, "command: 'cat; ls /proc/$$/fd; "
               "echo x > /dev/stdout; ps -o pgid= -p $$ | tr -d \" \" | "
               "grep -qx $$ && echo leader'\n"
               "shell: true\nuri: c:x\n");
    harness_expect(&f->harness, "c:x", "0\n1\n2\nx\nleader\n");
    harness_close(&f->harness);
    close(leak);
}

static void variables_are_arguments_or_environment(void **state) {
    struct fixture *f = *state;

    open_in(f, "command: [printf, '<%s>', 'id={id}', '{id}{x}', '{other}']\n"
               "uri: 'c:{id}/{x}'\n");
    harness_expect(&f->harness, "c:a%20b/%3Btouch%20evil",
                   "<id=a b><a b;touch evil><{other}>");
    /* It would be taken for an option. */
    expect_failure(f, "c:-x/1", TDG_ENOTFOUND, "cannot be passed");
    harness_close(&f->harness);

    open_in(f, "command: 'echo \"$TIDINGS_id:{id}\" $TIDINGS_URI'\nshell: true\n"
               "uri: 'c:{id}'\n");
    harness_expect(&f->harness, "c:%22%3Btouch%20evil%3B%24%28touch%20evil%29",
                   "\";touch evil;$(touch evil):{id} "
                   "c:%22%3Btouch%20evil%3B%24%28touch%20evil%29\n");
    harness_close(&f->harness);
    assert_false(file_is_there(f, "evil"));
}

static void a_failure_is_no_content(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "ok", "");
    open_in(f, "command: 'echo seen; test -e ok || { echo no disk >&2; echo more >&2; "
               "exit 3; }'\nshell: true\nuri: c:x\nretry: 10ms\nretry-max: 20ms\n"
               "every: 20ms\n");
    harness_watch(&f->harness, "c:x");
    harness_expect(&f->harness, "c:x", "seen\n");
    folder_remove(&f->folder, "ok");
    harness_wait(&f->harness, LOGGED, "exit status 3: no disk");

    struct reading reading = harness_read(&f->harness, "c:x");

    assert_int_equal(reading.status, 0);
    assert_true(json_is_true(json_object_get(reading.metadata, "stale")));
    reading_done(&reading);
    folder_write(&f->folder, "ok", "");
    harness_wait(&f->harness, LOGGED, "reachable again");
    assert_int_equal(harness_count(&f->harness, CHANGED, NULL), 0);
    harness_close(&f->harness);
}

static void what_cannot_be_started_says_so(void **state) {
    struct fixture *f = *state;

    open_in(f, "command: [no-such-program-anywhere]\nuri: c:x\n");
    expect_failure(f, "c:x", TDG_EUNREACHABLE,
                   "no-such-program-anywhere cannot be started");
    harness_close(&f->harness);
    open_in(f, "command: [sh, -c, 'kill -KILL $$']\nuri: c:x\n");
    expect_failure(f, "c:x", TDG_EUNREACHABLE, "signal 9");
    harness_close(&f->harness);
    no_children_are_left();
}

static void changes_are_told_and_the_same_is_not(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "in", "one");
    open_in(f, "command: 'cat in; echo x >> runs'\nshell: true\nuri: c:x\nevery: 10ms\n");
    harness_watch(&f->harness, "c:x");
    for (int i = 0; i < 20; i++)
        harness_expect(&f->harness, "c:x", "one");
    assert_int_equal(harness_count(&f->harness, CHANGED, NULL), 0);
    folder_replace(&f->folder, "in", "two");
    harness_wait_for_text(&f->harness, "c:x", "two");
    tdg__source_unwatch(f->harness.source, FOR_URI("c:x"));
    harness_close(&f->harness);
}

static void nothing_runs_while_nobody_watches(void **state) {
    struct fixture *f = *state;

    open_in(f, "command: [touch, here]\nuri: c:x\nevery: 10ms\n");
    harness_watch(&f->harness, "c:x");
    wait_for_file(f, "here");
    tdg__source_unwatch(f->harness.source, FOR_URI("c:x"));
    harness_expect(&f->harness, "c:x", ""); /* whatever ran has ended */
    folder_remove(&f->folder, "here");
    for (int i = 0; i < 30; i++) { /* thrice the interval and more */
        usleep(1000);
        uv_run(&f->harness.loop, UV_RUN_NOWAIT);
    }
    assert_false(file_is_there(f, "here"));
    harness_close(&f->harness);
}

/* ---- Ending them -------------------------------------------------------- */

/* On a busy machine it may be killed before it has begun: then it gets more time. */
static void what_hangs_is_killed_with_its_group(void **state) {
    struct fixture *f = *state;
    char config[256], failure[64];

    folder_write(&f->folder, "lock", "");
    for (unsigned ms = 300; ms < 100000 && !file_is_there(f, "here"); ms *= 4) {
        snprintf(config, sizeof(config),
                 "command: '" HOLDER "trap \"\" TERM; (trap \"\" TERM; sleep 1000) & "
                 "sleep 1000; wait'\nshell: true\nuri: c:x\ntimeout: %ums\n",
                 ms);
        snprintf(failure, sizeof(failure), "no answer within %u ms", ms);
        open_in(f, config);
        expect_failure(f, "c:x", TDG_EUNREACHABLE, failure);
        wait_until_free(f, "lock");
        harness_close(&f->harness);
        no_children_are_left();
    }
    assert_true(file_is_there(f, "here"));
}

static void whatever_it_left_behind_is_killed(void **state) {
    struct fixture *f = *state;

    /* Its output stays open through the child: what was written counts all the same. */
    open_in(f, "command: '" HOLDER "sleep 1000 & echo done'\nshell: true\nuri: c:x\n");
    harness_expect(&f->harness, "c:x", "done\n");
    wait_until_free(f, "lock");
    harness_close(&f->harness);
    /* And with a child that holds nothing of ours. */
    open_in(f, "command: '" HOLDER "sleep 1000 >/dev/null 2>&1 & echo done'\n"
               "shell: true\nuri: c:x\n");
    harness_expect(&f->harness, "c:x", "done\n");
    wait_until_free(f, "lock");
    harness_close(&f->harness);
}

static void endless_output_is_cut(void **state) {
    struct fixture *f = *state;

    open_in(f, "command: '" HOLDER "yes'\nshell: true\nuri: c:x\nmax-size: 100KiB\n");
    expect_failure(f, "c:x", TDG_ETOOLARGE, "larger than max-size");
    wait_until_free(f, "lock");
    harness_close(&f->harness);

    open_in(f, "command: [head, -c, '1000', /dev/zero]\nuri: c:x\nmax-size: 1000\n");

    struct reading reading = harness_read(&f->harness, "c:x");

    assert_int_equal(reading.status, 0);
    assert_int_equal(reading.len, 1000);
    reading_done(&reading);
    harness_close(&f->harness);

    /* Errors without end are drained, and logged once. */
    open_in(f, "command: 'yes \"oh no\" | head -c 1200000 >&2; echo fine'\n"
               "shell: true\nuri: c:x\n");
    harness_expect(&f->harness, "c:x", "fine\n");
    assert_int_equal(harness_count(&f->harness, LOGGED, "oh no"), 1);
    harness_close(&f->harness);
}

static void closing_ends_what_runs(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    open_in(f, "command: '" HOLDER "sleep 1000'\nshell: true\nuri: c:x\n");
    harness_start_read(&f->harness, "c:x", &reading);
    wait_for_file(f, "here");
    harness_close(&f->harness);
    assert_int_equal(reading.status, TDG_EUNREACHABLE);
    reading_done(&reading);
    wait_until_killed(f, "lock");
    no_children_are_left();
}

static void many_runs_leave_nothing(void **state) {
    struct fixture *f = *state;
    size_t before;

    open_in(f, "command: [echo, '{n}']\nuri: 'c:{n}'\n");
    harness_expect(&f->harness, "c:0", "0\n");
    before = open_fds();
    for (int i = 0; i < 15; i++) {
        struct reading readings[20];
        char uri[32], text[32];

        for (size_t j = 0; j < COUNT(readings); j++) {
            snprintf(uri, sizeof(uri), "c:%zu", j);
            harness_start_read(&f->harness, uri, &readings[j]);
        }
        for (size_t j = 0; j < COUNT(readings); j++) {
            snprintf(uri, sizeof(uri), "c:%zu", j);
            snprintf(text, sizeof(text), "%zu\n", j);
            harness_expect(&f->harness, uri, text);
            assert_true(readings[j].done);
            reading_done(&readings[j]);
        }
    }
    assert_int_equal(open_fds(), before);
    harness_close(&f->harness);
    no_children_are_left();
}

/* No more than two are between their beginning and their end at any time. */
static void max_programs_is_kept_to(void **state) {
    struct fixture *f = *state;
    struct reading readings[9];
    char uri[32];

    open_in(f, "command: 'mkdir a 2>/dev/null && D=a || { mkdir b && D=b; } || exit 1; "
               "sleep 0.02; rmdir $D; echo fine'\nshell: true\nuri: 'c:{n}'\n"
               "max-programs: 2\n");
    for (size_t i = 0; i < COUNT(readings); i++) {
        snprintf(uri, sizeof(uri), "c:%zu", i);
        harness_start_read(&f->harness, uri, &readings[i]);
    }
    for (size_t i = 0; i < COUNT(readings); i++) {
        snprintf(uri, sizeof(uri), "c:%zu", i);
        harness_expect(&f->harness, uri, "fine\n");
        assert_true(readings[i].done);
        assert_int_equal(readings[i].status, 0);
        reading_done(&readings[i]);
    }
    harness_close(&f->harness);
    no_children_are_left();
}

static size_t runs(struct fixture *f) {
    char path[FOLDER_PATH], text[8192];
    FILE *file;
    size_t len;

    folder_path(&f->folder, "runs", path);
    file = fopen(path, "re");
    assert_non_null(file);
    len = fread(text, 1, sizeof(text), file);
    fclose(file);
    return len;
}

static bool is_read(void *arg) {
    return ((struct reading *)arg)->done;
}

/* A thousand reads of one client wait; another's is answered after some programs. */
static void who_reads_much_lets_others_read(void **state) {
    enum { MANY = 1000 };
    struct fixture *f = *state;
    struct reading *readings = calloc(MANY, sizeof(*readings)), mine;
    char uri[32];

    open_in(f, "command: 'printf x >>runs; echo fine'\nshell: true\nuri: 'c:{n}'\n"
               "max-programs: 1\n");
    for (int i = 0; i < MANY; i++) {
        snprintf(uri, sizeof(uri), "c:%d", i);
        harness_start_read_as(&f->harness, 7, uri, &readings[i]);
    }
    harness_start_read_as(&f->harness, 8, "c:mine", &mine);
    harness_until(&f->harness, is_read, &mine);
    assert_int_equal(mine.status, 0);
    assert_true(runs(f) <= 8);
    reading_done(&mine);
    harness_close(&f->harness);
    for (int i = 0; i < MANY; i++)
        reading_done(&readings[i]);
    free(readings);
}

/* The next one does not begin before the one that was told to end is gone. The lock is
 * held by the shell alone, which waits without a child: one that it has just forked would
 * hold the lock as well, and nobody tells when that is dead. */
static void who_will_not_end_still_counts(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    open_in(f, "command: 'test $TIDINGS_n = 1 || exec echo two; trap \"\" TERM; "
               "mkfifo endless 2>&-; exec 8<>endless; " HOLDER
               "echo much too long; while :; do read -r line <&8; done'\n"
               "shell: true\nuri: 'c:{n}'\nmax-programs: 1\nmax-size: 10\n");
    expect_failure(f, "c:1", TDG_ETOOLARGE, "max-size");
    assert_false(lock_is_free(&(struct file_wait){f, "lock"}));
    harness_expect(&f->harness, "c:2", "two\n");
    assert_true(lock_is_free(&(struct file_wait){f, "lock"}));

    /* And what waits when all is closed is answered. */
    expect_failure(f, "c:1", TDG_ETOOLARGE, "max-size");
    harness_start_read(&f->harness, "c:2", &reading);
    harness_close(&f->harness);
    assert_int_equal(reading.status, TDG_EUNREACHABLE);
    reading_done(&reading);
    no_children_are_left();
}

/* ---- Lines -------------------------------------------------------------- */

/* Reads the first line of a program that is watched. On a busy machine that may come
 * later than whoever watches waits for it: then it is a change. */
static void expect_first_line(struct fixture *f, const char *uri, const char *text) {
    struct reading reading = harness_read(&f->harness, uri);
    bool is_late =
        reading.status == TDG_ENOTFOUND && strstr(reading.error, "no line yet") != NULL;

    reading_done(&reading);
    if (is_late)
        harness_wait_for_text(&f->harness, uri, text);
    else
        harness_expect(&f->harness, uri, text);
}

/* A program that writes what comes through a FIFO. */
static int open_fifo(struct fixture *f, const char *yaml) {
    char path[FOLDER_PATH];
    int fd;

    folder_path(&f->folder, "fifo", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    open_in(f, yaml);
    return fd;
}

static void say(int fd, const char *text, size_t len) {
    while (len > 0) {
        ssize_t done = write(fd, text, len);

        assert_true(done > 0);
        text += done;
        len -= (size_t)done;
    }
}

static void every_line_is_an_update(void **state) {
    struct fixture *f = *state;
    int fd = open_fifo(f, "command: [cat, fifo]\nmode: lines\nuri: c:x\n");
    struct happening *told;

    /* Does not wait for a line for ever, nor is it known not to exist. */
    assert_int_equal(tdg__source_watch(f->harness.source, TDG__URI_TARGET("c:x"), NULL),
                     TDG_EAGAIN);
    assert_int_equal(harness_wait(&f->harness, WATCHED, "c:x")->existence, 0);
    expect_failure(f, "c:x", TDG_ENOTFOUND, "no line yet");
    say(fd, "one\n", 4);
    told = harness_wait(&f->harness, CHANGED, "c:x");
    assert_int_equal(json_integer_value(json_object_get(told->metadata, "line")), 1);
    harness_expect(&f->harness, "c:x", "one");
    say(fd, "tw", 2);
    say(fd, "o\nth", 4);
    harness_wait(&f->harness, CHANGED, "c:x");
    harness_expect(&f->harness, "c:x", "two");
    say(fd, "ree\nfour\n\nfive\n", 15);
    for (int i = 0; i < 4; i++)
        told = harness_wait(&f->harness, CHANGED, "c:x");
    assert_int_equal(json_integer_value(json_object_get(told->metadata, "line")), 6);
    harness_expect(&f->harness, "c:x", "five");
    /* The same again is not told. */
    say(fd, "five\nfive\nsix\n", 14);
    told = harness_wait(&f->harness, CHANGED, "c:x");
    assert_int_equal(json_integer_value(json_object_get(told->metadata, "line")), 9);
    assert_int_equal(harness_count(&f->harness, CHANGED, NULL), 0);
    harness_close(&f->harness);
    close(fd);
    no_children_are_left();
}

static void nul_bytes_separate_as_well(void **state) {
    struct fixture *f = *state;
    int fd = open_fifo(f, "command: [cat, fifo]\nmode: nul\nuri: c:x\n");

    say(fd, "a\nb", 4);
    harness_watch(&f->harness, "c:x");
    expect_first_line(f, "c:x", "a\nb");
    say(fd, "c", 2);
    harness_wait_for_text(&f->harness, "c:x", "c");
    harness_close(&f->harness);
    close(fd);
}

static void a_line_too_long_says_so(void **state) {
    struct fixture *f = *state;
    int fd = open_fifo(f, "command: [cat, fifo]\nmode: lines\nuri: c:x\nmax-size: 10\n");
    char *line = malloc(1000000);

    say(fd, "0123456789\n", 11);
    harness_watch(&f->harness, "c:x");
    expect_first_line(f, "c:x", "0123456789");
    memset(line, 'x', 1000000);
    for (size_t i = 0; i < 1000000; i += 4000) { /* a FIFO holds 64 KiB */
        say(fd, line, 4000);
        uv_run(&f->harness.loop, UV_RUN_NOWAIT);
        usleep(500);
    }
    say(fd, "\n", 1);
    harness_wait(&f->harness, CHANGED, "c:x");
    expect_failure(f, "c:x", TDG_ETOOLARGE, "longer than max-size");
    say(fd, "short\n", 6);
    harness_wait_for_text(&f->harness, "c:x", "short");
    harness_close(&f->harness);
    free(line);
    close(fd);
}

static void a_flood_of_lines_ends_with_the_last(void **state) {
    struct fixture *f = *state;

    open_in(f, "command: 'seq 200000; exec sleep 1000'\nshell: true\nmode: lines\n"
               "uri: c:x\n");
    harness_watch(&f->harness, "c:x");
    harness_wait_for_text(&f->harness, "c:x", "200000");
    harness_close(&f->harness);
    no_children_are_left();
}

/* Eight times what is read without a pause: no program gets rid of it in less. */
enum { MUCH = 8 << 20, MUCH_MS = 500 };

static void what_nobody_needs_is_read_slowly(void **state) {
    struct fixture *f = *state;
    char yaml[512];
    uint64_t start = uv_hrtime();

    snprintf(yaml, sizeof(yaml),
             "command: 'head -c %d /dev/zero; echo; echo done; exec sleep 1000'\n"
             "shell: true\nmode: lines\nuri: c:x\nmax-size: 100\n",
             MUCH);
    open_in(f, yaml);
    harness_watch(&f->harness, "c:x");
    until_text(f, "c:x", "done");
    assert_true(uv_hrtime() - start >= (uint64_t)MUCH_MS * 1000000);
    harness_close(&f->harness);

    snprintf(yaml, sizeof(yaml),
             "command: 'yes | head -c %d >&2; echo done'\nshell: true\nuri: c:x\n"
             "timeout: 10m\n",
             MUCH);
    open_in(f, yaml);
    start = uv_hrtime();
    harness_expect(&f->harness, "c:x", "done\n");
    assert_true(uv_hrtime() - start >= (uint64_t)MUCH_MS * 1000000);
    harness_close(&f->harness);
    no_children_are_left();
}

static void it_is_started_again(void **state) {
    struct fixture *f = *state;

    open_in(f, "command: 'echo x >> runs; wc -l < runs; printf partial; "
               "test $(wc -l < runs) -ne 3 || { echo broken >&2; exit 7; }'\n"
               "shell: true\nmode: lines\nuri: c:x\nretry: 10ms\nretry-max: 300ms\n");
    harness_watch(&f->harness, "c:x");
    harness_wait(&f->harness, LOGGED, "restarting it in");
    harness_wait(&f->harness, LOGGED, "exit status 7: broken");
    harness_wait(&f->harness, LOGGED, "reachable again");
    /* The end of the program is the end of a line. */
    harness_wait_for_text(&f->harness, "c:x", "partial");
    harness_close(&f->harness);
    no_children_are_left();
}

/* A run that ends well is the end of the failure, also where it writes nothing. */
static void an_end_without_a_line_is_well_again(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    open_in(f, "command: 'test -e ran || echo one; touch ran; test -e well'\n"
               "shell: true\nmode: lines\nuri: c:x\nretry: 10ms\nretry-max: 20ms\n");
    harness_watch(&f->harness, "c:x");
    harness_wait(&f->harness, LOGGED, "exit status 1");
    folder_write(&f->folder, "well", "");
    harness_wait(&f->harness, LOGGED, "reachable again");
    reading = harness_read(&f->harness, "c:x");
    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data, "one");
    assert_null(json_object_get(reading.metadata, "stale"));
    reading_done(&reading);
    harness_close(&f->harness);
    no_children_are_left();
}

static void a_read_takes_the_first_line(void **state) {
    struct fixture *f = *state;

    open_in(f, "command: '" HOLDER "echo first; sleep 1000'\nshell: true\nmode: lines\n"
               "uri: c:x\ntimeout: 20s\n");
    harness_expect(&f->harness, "c:x", "first");
    wait_until_free(f, "lock");
    harness_expect(&f->harness, "c:x", "first");
    harness_close(&f->harness);

    open_in(f, "command: '" HOLDER "sleep 1000'\nshell: true\nmode: lines\nuri: c:x\n"
               "timeout: 200ms\n");
    expect_failure(f, "c:x", TDG_EUNREACHABLE, "no answer within");
    wait_until_free(f, "lock");
    harness_close(&f->harness);

    open_in(f, "command: 'true'\nmode: lines\nuri: c:x\n");
    expect_failure(f, "c:x", TDG_EUNREACHABLE, "without a line");
    harness_close(&f->harness);
}

static void unwatching_ends_it(void **state) {
    struct fixture *f = *state;

    open_in(f, "command: '" HOLDER "echo one; sleep 1000'\nshell: true\nmode: lines\n"
               "uri: c:x\n");
    harness_watch(&f->harness, "c:x");
    expect_first_line(f, "c:x", "one");
    tdg__source_unwatch(f->harness.source, FOR_URI("c:x"));
    wait_until_free(f, "lock");
    harness_watch(&f->harness, "c:x");
    expect_first_line(f, "c:x", "one");
    harness_close(&f->harness);
    wait_until_killed(f, "lock");
}

static void a_template_of_feeds(void **state) {
    struct fixture *f = *state;

    open_in(f, "command: [sh, -c, 'echo \"$1\"; exec sleep 1000', sh, 'is {n}']\n"
               "mode: lines\nuri: 'c:{n}'\n");
    harness_watch(&f->harness, "c:1");
    harness_watch(&f->harness, "c:2");
    expect_first_line(f, "c:2", "is 2");
    expect_first_line(f, "c:1", "is 1");
    assert_int_equal(tdg__source_watch(f->harness.source, FOR_TEMPLATE("c:{n}"), NULL),
                     TDG_ENOTSUP);
    harness_close(&f->harness);
    no_children_are_left();
}

static void more_feeds_than_max_programs_are_refused(void **state) {
    struct fixture *f = *state;

    /* They do not end when they are asked to. */
    open_in(f, "command: 'trap \"\" TERM; exec 9>lock$TIDINGS_n; flock 9; "
               "echo is $TIDINGS_n; while :; do sleep 0.1 9>&-; done'\nshell: true\n"
               "mode: lines\nuri: 'c:{n}'\nmax-programs: 2\n");
    harness_watch(&f->harness, "c:1");
    harness_watch(&f->harness, "c:2");
    expect_first_line(f, "c:1", "is 1");
    expect_first_line(f, "c:2", "is 2");
    assert_int_equal(tdg__source_watch(f->harness.source, FOR_URI("c:3"), NULL),
                     TDG_ETOTAL);
    expect_failure(f, "c:3", TDG_EUNREACHABLE, "max-programs");
    harness_expect(&f->harness, "c:1", "is 1"); /* what runs already can be read */

    /* There is a place now, but the program waits until the one before is gone. */
    tdg__source_unwatch(f->harness.source, FOR_URI("c:1"));
    assert_int_equal(tdg__source_watch(f->harness.source, FOR_URI("c:3"), NULL),
                     TDG_EAGAIN);
    assert_false(lock_is_free(&(struct file_wait){f, "lock1"}));
    assert_int_equal(harness_wait(&f->harness, WATCHED, "c:3")->status, 0);
    assert_true(lock_is_free(&(struct file_wait){f, "lock1"}));
    expect_first_line(f, "c:3", "is 3");

    /* Nobody wants it any more while it waits, and all is closed. */
    tdg__source_unwatch(f->harness.source, FOR_URI("c:2"));
    assert_int_equal(tdg__source_watch(f->harness.source, FOR_URI("c:4"), NULL),
                     TDG_EAGAIN);
    tdg__source_unwatch(f->harness.source, FOR_URI("c:4"));
    harness_close(&f->harness);
    no_children_are_left();
}

/* ---- No memory ---------------------------------------------------------- */

/* Whatever fails, a read is answered, nothing stays, and the next one works. */
static void any_allocation_of_a_read_may_fail(void **state) {
    struct fixture *f = *state;

    for (size_t nth = 1;; nth++) {
        struct reading reading;
        bool failed;

        open_in(f, "command: [echo, 'is {n}']\nuri: 'c:{n}'\nenv: {A: b}\n");
        memory_fail(nth, MEMORY_ONCE);
        reading = harness_read(&f->harness, "c:1");
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        if (reading.status == 0)
            assert_string_equal(reading.data, "is 1\n");
        else
            assert_int_equal(reading.status, TDG_ENOMEM);
        reading_done(&reading);
        harness_expect(&f->harness, "c:1", "is 1\n");
        harness_close(&f->harness);
        if (!failed)
            return;
    }
}

/* A line that there was no memory for is lost, and says so until the next one. */
static void any_allocation_of_a_feed_may_fail(void **state) {
    struct fixture *f = *state;

    for (size_t nth = 1;; nth++) {
        bool failed;
        int rv;

        open_in(f, "command: [sh, -c, 'echo one; while sleep 0.02; do echo two; done']\n"
                   "mode: lines\nuri: c:x\nretry: 1ms\nretry-max: 5ms\n");
        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__source_watch(f->harness.source, FOR_URI("c:x"), NULL);
        if (rv == TDG_EAGAIN)
            rv = harness_wait(&f->harness, WATCHED, "c:x")->status;
        if (rv == 0)
            until_text(f, "c:x", "two");
        else
            assert_int_equal(rv, TDG_ENOMEM);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        harness_close(&f->harness);
        if (!failed)
            return;
    }
}

/* ---- Configuration ------------------------------------------------------ */

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    harness_refuses("command: []\nuri: c:x\n", "the program is missing");
    harness_refuses("command: df -h\nuri: c:x\n", "is a list");
    harness_refuses("command: [df, -h]\nshell: true\nuri: c:x\n", "one text");
    harness_refuses("command: ['{x}', -h]\nuri: c:{x}\n", "cannot be a variable");
    harness_refuses("command: [a]\nmode: lines\nevery: 1s\nuri: c:x\n", "interval");
    harness_refuses("command: [a]\nenv: {'A=B': c}\nuri: c:x\n", "contain =");
    harness_refuses("command: [a]\nmax-programs: 0\nuri: c:x\n", "max-programs");
    harness_refuses("command: [a]\n", "needs a uri");
}

#define MEMORY(name)                                                                     \
    cmocka_unit_test_setup_teardown(name, counted_setup, counted_teardown)
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_read_runs_it),
        CASE(a_shell_only_when_asked),
        CASE(its_input_is_empty_and_its_descriptors_are_three),
        CASE(variables_are_arguments_or_environment),
        CASE(a_failure_is_no_content),
        CASE(what_cannot_be_started_says_so),
        CASE(changes_are_told_and_the_same_is_not),
        CASE(nothing_runs_while_nobody_watches),
        CASE(what_hangs_is_killed_with_its_group),
        CASE(whatever_it_left_behind_is_killed),
        CASE(endless_output_is_cut),
        CASE(closing_ends_what_runs),
        CASE(many_runs_leave_nothing),
        CASE(max_programs_is_kept_to),
        CASE(who_reads_much_lets_others_read),
        CASE(who_will_not_end_still_counts),
        CASE(every_line_is_an_update),
        CASE(nul_bytes_separate_as_well),
        CASE(a_line_too_long_says_so),
        CASE(a_flood_of_lines_ends_with_the_last),
        CASE(what_nobody_needs_is_read_slowly),
        CASE(it_is_started_again),
        CASE(an_end_without_a_line_is_well_again),
        CASE(a_read_takes_the_first_line),
        CASE(unwatching_ends_it),
        CASE(a_template_of_feeds),
        CASE(more_feeds_than_max_programs_are_refused),
        MEMORY(any_allocation_of_a_read_may_fail),
        MEMORY(any_allocation_of_a_feed_may_fail),
        CASE(what_makes_no_sense_is_refused),
    };

    /* What whoever started us left open is none of our doing. */
    for (int fd = 3; fd < 1024; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("command", tests, NULL, NULL);
}
