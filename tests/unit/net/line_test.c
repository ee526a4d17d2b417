/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include "net/internal.h"
#include "unit/net/fixture.h"

enum { MAX_LINE = 1000 };

struct fixture {
    struct world world;
    tdg__line_t *line;
    int in, out;          /* what the line was opened on */
    int to, from;         /* the other sides */
    char text[64 * 1024]; /* lines that were reported, each with "|" behind it */
    size_t text_len;
    int lines, too_long, ended, drained, done;
    size_t longest;
    bool pause_after_each;
    bool close_in_line;
};

static void on_done(void *arg) {
    struct fixture *f = arg;

    f->done++;
    f->line = NULL;
}

static void on_line(void *user, const char *data, size_t len) {
    struct fixture *f = user;

    assert_int_equal(f->ended, 0);
    if (data == NULL) {
        f->too_long++;
    } else {
        f->lines++;
        assert_true(len > 0);
        if (len > f->longest)
            f->longest = len;
        if (f->text_len + len + 1 < sizeof(f->text)) {
            memcpy(f->text + f->text_len, data, len);
            f->text_len += len;
            f->text[f->text_len++] = '|';
            f->text[f->text_len] = '\0';
        }
    }
    if (f->pause_after_each)
        tdg__line_pause(f->line, true);
    if (f->close_in_line)
        tdg__line_close(f->line, 1000, on_done, f);
}

static void on_drained(void *user) {
    struct fixture *f = user;

    f->drained++;
}

static void on_ended(void *user) {
    struct fixture *f = user;

    f->ended++;
}

static const tdg__line_calls_t calls = {on_line, on_drained, on_ended};

/* ---- Kinds of descriptors ----------------------------------------------- */

static struct fixture *create(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));
    tdg__net_opts_t opts = world_opts(&f->world);

    world_open(&f->world, &opts);
    f->in = f->out = f->to = f->from = -1;
    return f;
}

static void open_line(struct fixture *f, size_t max_bytes) {
    assert_int_equal(
        tdg__line_open(f->world.net, f->in, f->out, max_bytes, &calls, f, &f->line), 0);
}

static void make_pipes(struct fixture *f) {
    int in[2], out[2];

    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    f->in = in[0];
    f->to = in[1];
    f->from = out[0];
    f->out = out[1];
}

static int setup_pipes(void **state) {
    struct fixture *f = create(state);

    make_pipes(f);
    open_line(f, MAX_LINE);
    return 0;
}

/* One socket for both directions. */
static int setup_socket(void **state) {
    struct fixture *f = create(state);
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    f->in = fds[0];
    f->out = dup(fds[0]);
    f->to = fds[1];
    f->from = dup(fds[1]);
    open_line(f, MAX_LINE);
    return 0;
}

static int setup_nothing(void **state) {
    create(state);
    return 0;
}

static void finish_line(struct fixture *f) {
    if (f->line != NULL)
        tdg__line_close(f->line, 0, on_done, f);
    RUN_UNTIL(&f->world, f->line == NULL);
}

static int teardown(void **state) {
    struct fixture *f = *state;
    const int fds[] = {f->in, f->out, f->to, f->from};

    finish_line(f);
    for (size_t i = 0; i < COUNT(fds); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    world_close(&f->world);
    return state_destroy(state);
}

static void say(struct fixture *f, const char *text) {
    assert_int_equal(write(f->to, text, strlen(text)), strlen(text));
}

static void hang_up(struct fixture *f) {
    if (shutdown(f->to, SHUT_WR) < 0)
        assert_int_equal(errno, ENOTSOCK);
    close(f->to);
    f->to = -1;
}

static void expect_lines(struct fixture *f, const char *text) {
    RUN_UNTIL(&f->world, f->text_len >= strlen(text));
    assert_string_equal(f->text, text);
}

/* ---- Lines -------------------------------------------------------------- */

static void reports_lines(void **state) {
    struct fixture *f = *state;

    say(f, "one\ntwo\r\n\n\r\nthree\n");
    expect_lines(f, "one|two|three|");
    assert_int_equal(f->lines, 3);
}

static void puts_lines_together_from_single_bytes(void **state) {
    static const char text[] = "{\"a\":1}\r\n\nsecond\nthi";
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        assert_int_equal(write(f->to, text + i, 1), 1);
        world_step(&f->world);
    }
    expect_lines(f, "{\"a\":1}|second|");
    say(f, "rd\n");
    expect_lines(f, "{\"a\":1}|second|third|");
}

static void reports_what_came_before_the_end(void **state) {
    struct fixture *f = *state;

    say(f, "one\nlast");
    hang_up(f);
    RUN_UNTIL(&f->world, f->ended == 1);
    assert_string_equal(f->text, "one|last|");
    assert_int_equal(tdg__outlet_write(tdg__line_outlet(f->line), "ok\n", 3), 0);
    world_run_ms(&f->world, 10);
    assert_int_equal(f->ended, 1);
}

static void ends_without_a_line(void **state) {
    struct fixture *f = *state;

    hang_up(f);
    RUN_UNTIL(&f->world, f->ended == 1);
    assert_int_equal(f->lines, 0);
}

/* `count` times "x", then `end`. */
static void say_long(struct fixture *f, size_t count, const char *end) {
    char block[4096];

    memset(block, 'x', sizeof(block));
    while (count > 0) {
        size_t len = count < sizeof(block) ? count : sizeof(block);
        ssize_t n = write(f->to, block, len);

        assert_true(n > 0);
        count -= (size_t)n;
        world_step(&f->world);
    }
    say(f, end);
}

static void skips_a_line_that_is_too_long(void **state) {
    static const char *const ends[] = {"\n", "\r\n"};
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(ends); i++) {
        f->longest = 0;
        f->text_len = 0;
        f->too_long = 0;
        say_long(f, MAX_LINE, ends[i]); /* just fits */
        RUN_UNTIL(&f->world, f->longest == MAX_LINE);
        assert_int_equal(f->too_long, 0);
        f->text_len = 0;
        say_long(f, MAX_LINE + 1, ends[i]);
        say(f, "next\n");
        expect_lines(f, "next|");
        assert_int_equal(f->too_long, 1);
        f->text_len = 0;
        say_long(f, 200000, ends[i]);
        say(f, "again\n");
        expect_lines(f, "again|");
        assert_int_equal(f->too_long, 2);
    }
}

static void says_too_long_before_the_end_of_the_line(void **state) {
    struct fixture *f = *state;

    say_long(f, MAX_LINE + 5, "");
    RUN_UNTIL(&f->world, f->too_long == 1);
    say_long(f, 100000, "");
    hang_up(f);
    RUN_UNTIL(&f->world, f->ended == 1);
    assert_int_equal(f->too_long, 1);
    assert_int_equal(f->lines, 0);
}

static void takes_a_line_of_megabytes(void **state) {
    struct fixture *f = *state;
    size_t len = 5 << 20;

    make_pipes(f);
    open_line(f, len);
    say_long(f, len, "\n");
    RUN_UNTIL(&f->world, f->longest == len);
    say(f, "short\n");
    expect_lines(f, "short|");
    say_long(f, len + 1, "\nshort\n");
    expect_lines(f, "short|short|");
    assert_int_equal(f->too_long, 1);
}

/* ---- Pausing ------------------------------------------------------------ */

static void reports_nothing_while_paused(void **state) {
    struct fixture *f = *state;

    f->pause_after_each = true;
    say(f, "one\ntwo\nthree\nfour");
    hang_up(f);
    expect_lines(f, "one|");
    world_run_ms(&f->world, 10);
    expect_lines(f, "one|");
    tdg__line_pause(f->line, false);
    expect_lines(f, "one|two|");
    tdg__line_pause(f->line, false);
    expect_lines(f, "one|two|three|");
    world_run_ms(&f->world, 10);
    assert_int_equal(f->ended, 0);
    tdg__line_pause(f->line, false);
    expect_lines(f, "one|two|three|four|");
    world_run_ms(&f->world, 10);
    assert_int_equal(f->ended, 0);
    tdg__line_pause(f->line, false);
    RUN_UNTIL(&f->world, f->ended == 1);
}

static void does_not_read_while_paused(void **state) {
    struct fixture *f = *state;
    char block[4096];
    int idle = 0;
    size_t sent = 0;

    memset(block, '\n', sizeof(block));
    tdg__line_pause(f->line, true);
    assert_int_equal(fcntl(f->to, F_SETFL, O_NONBLOCK), 0);
    while (idle < 20) {
        ssize_t n = write(f->to, block, sizeof(block));

        idle = n < 0 ? idle + 1 : 0;
        sent += n < 0 ? 0 : (size_t)n;
        assert_true(sent < 16 << 20);
        world_step(&f->world);
    }
    tdg__line_pause(f->line, false);
    RUN_UNTIL(&f->world, write(f->to, "go on\n", 6) == 6);
    expect_lines(f, "go on|");
}

/* ---- Writing ------------------------------------------------------------ */

static char *read_all(struct fixture *f, size_t len) {
    char *data = malloc(len + 1);
    uint64_t limit = uv_hrtime() + UINT64_C(1000000) * PATIENCE_MS;
    size_t all = 0;

    assert_non_null(data);
    assert_int_equal(fcntl(f->from, F_SETFL, O_NONBLOCK), 0);
    while (all < len) {
        ssize_t n = read(f->from, data + all, len - all);

        assert_true(uv_hrtime() < limit);
        if (n > 0)
            all += (size_t)n;
        else
            world_step(&f->world);
    }
    data[len] = '\0';
    return data;
}

static void writes_messages(void **state) {
    struct fixture *f = *state;
    tdg__outlet_t *outlet = tdg__line_outlet(f->line);
    char *text;

    memcpy(tdg__net_scratch(f->world.net), "hello\n", 6);
    assert_int_equal(tdg__outlet_flush(outlet, 6), 0);
    assert_int_equal(tdg__outlet_piece(outlet, "you\n", 4), 0);
    text = read_all(f, 10);
    assert_string_equal(text, "hello\nyou\n");
    free(text);
}

enum { LARGE = 2 << 20 };

/* Returns the bytes that were written, all 'x'. */
static size_t block_output(struct fixture *f) {
    char *large = malloc(LARGE);

    assert_non_null(large);
    memset(large, 'x', LARGE);
    assert_int_equal(tdg__outlet_write(tdg__line_outlet(f->line), large, LARGE),
                     TDG_EAGAIN);
    free(large);
    return LARGE;
}

static void waits_for_a_reader_that_is_blocked(void **state) {
    struct fixture *f = *state;
    size_t len = block_output(f);
    char *text;

    say(f, "still read\n");
    expect_lines(f, "still read|");
    assert_int_equal(f->drained, 0);
    assert_int_equal(tdg__outlet_write(tdg__line_outlet(f->line), "end", 3), TDG_EAGAIN);
    text = read_all(f, len + 3);
    assert_string_equal(text + len - 2, "xxend");
    free(text);
    RUN_UNTIL(&f->world, f->drained == 1);
}

static void tells_of_a_reader_that_is_gone(void **state) {
    struct fixture *f = *state;

    block_output(f);
    hang_up(f); /* which is the same socket, or another pipe */
    close(f->from);
    f->from = -1;
    RUN_UNTIL(&f->world, f->drained == 1);
    assert_int_equal(tdg__outlet_write(tdg__line_outlet(f->line), "x", 1), TDG_EENDED);
}

/* ---- Closing ------------------------------------------------------------ */

static void closes_when_all_is_written(void **state) {
    struct fixture *f = *state;
    size_t len = block_output(f);
    char *text;

    say(f, "never reported\n");
    tdg__line_close(f->line, PATIENCE_MS, on_done, f);
    world_run_ms(&f->world, 20);
    assert_int_equal(f->done, 0);
    text = read_all(f, len);
    free(text);
    RUN_UNTIL(&f->world, f->done == 1);
    assert_int_equal(f->lines, 0);
    assert_int_equal(f->drained, 0);
}

static void closes_when_the_time_is_over(void **state) {
    struct fixture *f = *state;

    block_output(f);
    tdg__line_close(f->line, 50, on_done, f);
    RUN_UNTIL(&f->world, f->done == 1);
    assert_int_equal(f->drained, 0);
}

static void closes_from_inside_a_line(void **state) {
    struct fixture *f = *state;

    f->close_in_line = true;
    say(f, "one\ntwo\n");
    RUN_UNTIL(&f->world, f->done == 1);
    assert_int_equal(f->lines, 1);
}

/* Writes what counts as much as all connections may write in a turn. */
static tdg__buf_t *write_shared(struct fixture *f) {
    tdg__buf_t *buf = tdg__buf_create(NULL, LARGE);
    tdg__rope_t rope;

    assert_non_null(buf);
    memset(buf->data, 'x', buf->len);
    tdg__rope_init(&rope, SIZE_MAX);
    tdg__rope_splice(&rope, buf);
    f->world.net->shared = LARGE;
    assert_int_equal(tdg__outlet_write_rope(tdg__line_outlet(f->line), &rope),
                     TDG_EAGAIN);
    tdg__rope_done(&rope);
    return buf;
}

static void lets_go_of_shared_buffers_when_it_closes(void **state) {
    struct fixture *f = *state;
    tdg__buf_t *buf = write_shared(f);

    tdg__line_close(f->line, 0, on_done, f);
    RUN_UNTIL(&f->world, f->done == 1);
    assert_int_equal(atomic_load(&buf->refs), 1);
    tdg__buf_unref(buf);
}

static void writes_shared_buffers_when_its_net_is_closing(void **state) {
    struct fixture *f = *state;
    tdg__buf_t *buf = write_shared(f);
    tdg__net_t *net = f->world.net;

    f->world.net = NULL;
    tdg__net_close(net, NULL, NULL);
    free(read_all(f, LARGE));
    RUN_UNTIL(&f->world, f->drained == 1);
    assert_int_equal(atomic_load(&buf->refs), 1);
    tdg__buf_unref(buf);
}

static void leaves_the_descriptors_as_they_were(void **state) {
    struct fixture *f = *state;

    assert_true(fcntl(f->in, F_GETFL) & O_NONBLOCK); /* since it is shared */
    finish_line(f);
    assert_false(fcntl(f->in, F_GETFL) & O_NONBLOCK);
    assert_false(fcntl(f->out, F_GETFL) & O_NONBLOCK);
    say(f, "x");
    assert_int_equal(write(f->out, "x", 1), 1);
}

static void is_outlived_by_nothing_of_its_net(void **state) {
    struct fixture *f = *state;
    tdg__net_t *net = f->world.net;

    f->world.net = NULL;
    tdg__net_close(net, NULL, NULL); /* waits for the line */
    world_run_ms(&f->world, 10);
    say(f, "one\n");
    expect_lines(f, "one|");
}

/* ---- Files and terminals ------------------------------------------------ */

static int temporary_file(const char *text) {
    int fd = memfd_create("line_test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static void reads_and_writes_files(void **state) {
    struct fixture *f = *state;
    char text[64] = "";

    f->in = temporary_file("one\ntwo\r\nlast");
    f->out = temporary_file("");
    open_line(f, MAX_LINE);
    assert_int_equal(tdg__outlet_write(tdg__line_outlet(f->line), "answer\n", 7), 0);
    assert_int_equal(pread(f->out, text, sizeof(text), 0), 7);
    assert_string_equal(text, "answer\n");
    RUN_UNTIL(&f->world, f->ended == 1);
    assert_string_equal(f->text, "one|two|last|");
}

static void pauses_while_reading_a_file(void **state) {
    struct fixture *f = *state;

    f->in = temporary_file("one\ntwo\nlast");
    f->out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    open_line(f, MAX_LINE);
    tdg__line_pause(f->line, true); /* while a read is under way */
    world_run_ms(&f->world, 30);
    assert_int_equal(f->lines, 0);
    f->pause_after_each = true;
    for (int i = 1; i <= 3; i++) {
        tdg__line_pause(f->line, false);
        RUN_UNTIL(&f->world, f->lines == i);
    }
    assert_int_equal(f->ended, 0);
    tdg__line_pause(f->line, false);
    RUN_UNTIL(&f->world, f->ended == 1);
    assert_string_equal(f->text, "one|two|last|");
}

static void closes_while_reading_a_file(void **state) {
    struct fixture *f = *state;

    f->in = temporary_file("one\n");
    f->out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    open_line(f, MAX_LINE);
    tdg__line_close(f->line, 1000, on_done, f);
    RUN_UNTIL(&f->world, f->done == 1);
    assert_int_equal(f->lines, 0);
}

static void ends_at_once_on_the_null_device(void **state) {
    struct fixture *f = *state;

    f->in = f->out = open("/dev/null", O_RDWR | O_CLOEXEC);
    open_line(f, MAX_LINE);
    f->out = -1;
    RUN_UNTIL(&f->world, f->ended == 1);
    assert_int_equal(tdg__outlet_write(tdg__line_outlet(f->line), "x", 1), 0);
}

static void breaks_when_the_disk_is_full(void **state) {
    struct fixture *f = *state;

    f->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    f->out = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (f->out < 0)
        skip();
    open_line(f, MAX_LINE);
    assert_int_equal(tdg__outlet_write(tdg__line_outlet(f->line), "x", 1), TDG_EENDED);
}

static void talks_to_a_terminal(void **state) {
    struct fixture *f = *state;
    struct termios mode;
    int far, near;
    char *text;

    if (openpty(&far, &near, NULL, NULL, NULL) < 0)
        skip();
    assert_int_equal(tcgetattr(near, &mode), 0);
    cfmakeraw(&mode);
    assert_int_equal(tcsetattr(near, TCSANOW, &mode), 0);
    f->in = near;
    f->out = dup(near);
    f->to = far;
    f->from = dup(far);
    open_line(f, MAX_LINE);
    assert_false(fcntl(near, F_GETFL) & O_NONBLOCK); /* a terminal is opened anew */
    say(f, "typed\n");
    expect_lines(f, "typed|");
    assert_int_equal(tdg__outlet_write(tdg__line_outlet(f->line), "shown\n", 6), 0);
    text = read_all(f, 6);
    assert_string_equal(text, "shown\n");
    free(text);
}

/* ---- Failures ----------------------------------------------------------- */

static int open_descriptors(void) {
    int count = 0;

    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void refuses_what_cannot_be_opened(void **state) {
    struct fixture *f = *state;
    tdg__net_t *net = f->world.net;
    int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int before;

    make_pipes(f);
    open_line(f, MAX_LINE); /* libuv takes a descriptor for itself */
    finish_line(f);
    before = open_descriptors();
    assert_int_equal(tdg__line_open(net, 9999, f->out, 9, &calls, f, &f->line),
                     TDG_ESYSTEM);
    assert_int_equal(tdg__line_open(net, f->in, 9999, 9, &calls, f, &f->line),
                     TDG_ESYSTEM);
    assert_int_equal(tdg__line_open(net, folder, f->out, 9, &calls, f, &f->line),
                     TDG_ESYSTEM);
    assert_int_equal(tdg__line_open(net, f->to, f->out, 9, &calls, f, &f->line),
                     TDG_ESYSTEM); /* cannot be read from */
    assert_null(f->line);
    world_run_ms(&f->world, 10);
    assert_int_equal(open_descriptors(), before);
    close(folder);
}

static void needs_memory_to_open(void **state) {
    struct fixture *f = *state;
    int before;

    make_pipes(f);
    before = open_descriptors();
    for (size_t nth = 1; nth <= 2; nth++) {
        memory_fail(nth, MEMORY_ONCE);
        assert_int_equal(
            tdg__line_open(f->world.net, f->in, f->out, 9, &calls, f, &f->line),
            TDG_ENOMEM);
    }
    assert_int_equal(open_descriptors(), before);
}

static void skips_a_line_that_memory_is_too_short_for(void **state) {
    struct fixture *f = *state;

    make_pipes(f);
    open_line(f, 1 << 20);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    say_long(f, 500000, "\nnext\n");
    expect_lines(f, "next|");
    assert_int_equal(f->too_long, 1);
    memory_fail(0, MEMORY_ONCE);
    f->text_len = 0;
    say_long(f, 500000, "\nnext\n");
    expect_lines(f, "next|");
    assert_int_equal(f->longest, 500000);
}

#define BOTH(function)                                                                   \
    cmocka_unit_test_setup_teardown(function, setup_pipes, teardown),                    \
        cmocka_unit_test_setup_teardown(function, setup_socket, teardown)
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup_nothing, teardown)

int main(void) {
    /* clang-format off: version 14 crashes on a table with a macro in it */
    const struct CMUnitTest tests[] = {
        BOTH(reports_lines),
        BOTH(puts_lines_together_from_single_bytes),
        BOTH(reports_what_came_before_the_end),
        BOTH(ends_without_a_line),
        BOTH(skips_a_line_that_is_too_long),
        BOTH(says_too_long_before_the_end_of_the_line),
        TEST(takes_a_line_of_megabytes),
        BOTH(reports_nothing_while_paused),
        BOTH(does_not_read_while_paused),
        BOTH(writes_messages),
        BOTH(waits_for_a_reader_that_is_blocked),
        BOTH(tells_of_a_reader_that_is_gone),
        BOTH(closes_when_all_is_written),
        BOTH(closes_when_the_time_is_over),
        BOTH(closes_from_inside_a_line),
        BOTH(lets_go_of_shared_buffers_when_it_closes),
        BOTH(writes_shared_buffers_when_its_net_is_closing),
        BOTH(leaves_the_descriptors_as_they_were),
        BOTH(is_outlived_by_nothing_of_its_net),
        TEST(reads_and_writes_files),
        TEST(pauses_while_reading_a_file),
        TEST(closes_while_reading_a_file),
        TEST(ends_at_once_on_the_null_device),
        TEST(breaks_when_the_disk_is_full),
        TEST(talks_to_a_terminal),
        TEST(refuses_what_cannot_be_opened),
        TEST(needs_memory_to_open),
        TEST(skips_a_line_that_memory_is_too_short_for),
    };
    /* clang-format on */

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("line", tests, NULL, NULL);
}
