/* SPDX-License-Identifier: MIT
 *
 * Real programs: sh, cat and what every system has. Whether processes are gone is found
 * out by a pipe that they all hold (its end comes with the last holder). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "client/transport/child.h"
#include "support.h"

enum { PATIENCE_MS = 60000, LINE = 1000, MAX_LINES = 20000 };

struct fixture {
    uv_loop_t loop;
    uv_timer_t pulse;
    tdg__child_t *child;
    char *last; /* line; NULL: none, or one that was too long */
    size_t lines, too_long, bytes, said, ended, gone;
    char words[8][TDG__CHILD_ERROR_LINE + 1];
    char why[512];
    bool stop_in_line, stop_in_ended, stop_in_said;
    int held; /* the reading end of what a child's group holds; -1: none */
};

/* ---- Calls -------------------------------------------------------------- */

static void on_line(void *user, const char *data, size_t len) {
    struct fixture *f = user;

    assert_int_equal(f->ended, 0);
    free(f->last);
    f->last = NULL;
    if (data == NULL) {
        f->too_long++;
    } else {
        assert_int_not_equal(len, 0);
        assert_null(memchr(data, '\n', len));
        f->last = strndup(data, len);
        f->lines++;
        f->bytes += len;
    }
    if (f->stop_in_line)
        tdg__child_stop(f->child);
}

static void on_said(void *user, const char *line) {
    struct fixture *f = user;

    assert_int_equal(f->gone, 0);
    snprintf(f->words[f->said++ % COUNT(f->words)], sizeof(f->words[0]), "%s", line);
    if (f->stop_in_said)
        tdg__child_stop(f->child);
}

static void on_ended(void *user, const char *why) {
    struct fixture *f = user;

    f->ended++;
    assert_null(strchr(why, '\n'));
    snprintf(f->why, sizeof(f->why), "%s", why);
    if (f->stop_in_ended)
        tdg__child_stop(f->child);
}

static void on_gone(void *user) {
    struct fixture *f = user;

    f->gone++;
}

static const tdg__child_calls_t calls = {on_line, on_said, on_ended, on_gone};

/* ---- The world ---------------------------------------------------------- */

static void on_pulse(uv_timer_t *timer) {
    (void)timer;
}

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    f->held = -1;
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->pulse);
    uv_timer_start(&f->pulse, on_pulse, 10, 10);
    return 0;
}

#define RUN_UNTIL(f, condition)                                                          \
    do {                                                                                 \
        uint64_t limit_ = uv_hrtime() + UINT64_C(1000000) * PATIENCE_MS;                 \
                                                                                         \
        while (!(condition)) {                                                           \
            if (uv_hrtime() > limit_)                                                    \
                fail_msg("never happened: %s", #condition);                              \
            uv_run(&(f)->loop, UV_RUN_ONCE);                                             \
        }                                                                                \
    } while (0)

static void stop(struct fixture *f) {
    size_t lines = f->lines, ended = f->ended, gone = f->gone;

    tdg__child_stop(f->child);
    tdg__child_stop(f->child); /* does no harm */
    assert_int_equal(f->gone, gone);
    RUN_UNTIL(f, f->gone == 1);
    assert_int_equal(f->lines, lines);
    assert_int_equal(f->ended, ended);
    f->child = NULL;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    if (f->child != NULL && f->gone == 0)
        stop(f);
    uv_close((uv_handle_t *)&f->pulse, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f->last);
    if (f->held >= 0)
        close(f->held);
    return state_destroy(state);
}

static tdg__child_opts_t opts_of(const char *const *argv, uint32_t grace_ms) {
    return (tdg__child_opts_t){
        .argv = argv, .max_line_bytes = LINE, .grace_ms = grace_ms};
}

static void start_with_grace(struct fixture *f, const char *script, uint32_t grace_ms) {
    const char *const argv[] = {"sh", "-c", script, NULL};
    tdg__child_opts_t opts = opts_of(argv, grace_ms);

    assert_int_equal(tdg__child_start(&f->loop, &opts, &calls, f, &f->child), 0);
}

static void start(struct fixture *f, const char *script) {
    start_with_grace(f, script, PATIENCE_MS);
}

/* The same, and whoever of it lives holds a pipe. */
static void start_held(struct fixture *f, const char *script, uint32_t grace_ms) {
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    f->held = ends[0];
    assert_int_equal(fcntl(ends[0], F_SETFD, FD_CLOEXEC), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    start_with_grace(f, script, grace_ms);
    close(ends[1]);
}

static bool all_gone(const struct fixture *f) {
    char byte;

    return read(f->held, &byte, 1) == 0;
}

static void put(struct fixture *f, const char *line) {
    assert_int_equal(tdg__child_send(f->child, line, strlen(line)), 0);
}

/* ---- Lines -------------------------------------------------------------- */

static void lines_go_in_and_come_out(void **state) {
    struct fixture *f = *state;

    start(f, "exec cat");
    assert_int_not_equal(tdg__child_pid(f->child), 0);
    put(f, "{\"a\":1}");
    RUN_UNTIL(f, f->lines == 1);
    assert_string_equal(f->last, "{\"a\":1}");
    put(f, ""); /* is not reported */
    put(f, "b");
    RUN_UNTIL(f, f->lines == 2);
    assert_string_equal(f->last, "b");
    stop(f);
    assert_int_equal(f->ended, 0);
}

static void thousands_of_lines_keep_their_order(void **state) {
    struct fixture *f = *state;
    char line[32];
    size_t bytes = 0;

    start(f, "exec cat");
    for (int i = 0; i < MAX_LINES; i++) {
        snprintf(line, sizeof(line), "line %d", i);
        bytes += strlen(line);
        put(f, line);
    }
    RUN_UNTIL(f, f->lines == MAX_LINES);
    assert_string_equal(f->last, "line 19999");
    assert_int_equal(f->bytes, bytes);
}

static void a_line_may_be_as_long_as_allowed(void **state) {
    struct fixture *f = *state;
    char line[LINE + 2];

    start(f, "exec cat");
    memset(line, 'x', sizeof(line));
    line[LINE] = '\0';
    put(f, line);
    RUN_UNTIL(f, f->lines == 1);
    assert_string_equal(f->last, line);

    line[LINE] = '\r'; /* belongs to its end */
    line[LINE + 1] = '\0';
    put(f, line);
    RUN_UNTIL(f, f->lines == 2);
    assert_int_equal(strlen(f->last), LINE);
    assert_int_equal(f->too_long, 0);
}

static void a_longer_line_is_skipped_and_said(void **state) {
    struct fixture *f = *state;
    size_t len = 3 << 20;
    char *line = malloc(len + 1);

    memset(line, 'x', len);
    line[len] = '\0';
    start(f, "exec cat");
    put(f, line);
    put(f, "next");
    RUN_UNTIL(f, f->lines == 1);
    assert_int_equal(f->too_long, 1);
    assert_string_equal(f->last, "next");

    line[LINE + 1] = '\0'; /* by a single byte */
    put(f, line);
    put(f, "again");
    RUN_UNTIL(f, f->lines == 2);
    assert_int_equal(f->too_long, 2);
    assert_string_equal(f->last, "again");
    free(line);
}

static void a_last_line_needs_no_end(void **state) {
    struct fixture *f = *state;

    start(f, "printf 'one\\r\\n\\n\\r\\ntwo'");
    RUN_UNTIL(f, f->ended == 1);
    assert_int_equal(f->lines, 2);
    assert_string_equal(f->last, "two");
}

static void a_program_that_writes_without_end_is_read_and_ended(void **state) {
    struct fixture *f = *state;

    start_with_grace(f, "exec yes 'for ever'", 50);
    RUN_UNTIL(f, f->lines > 100000);
    f->stop_in_line = true;
    RUN_UNTIL(f, f->gone == 1);
}

/* ---- Standard error ----------------------------------------------------- */

static void what_it_says_is_passed_on(void **state) {
    struct fixture *f = *state;

    start(f, "printf 'first\\nse\\tcond\\n' >&2; exec cat");
    RUN_UNTIL(f, f->said == 2);
    assert_string_equal(f->words[0], "first");
    assert_string_equal(f->words[1], "se cond");
    assert_int_equal(f->lines, 0);
}

static void what_it_says_is_cut_and_made_utf8(void **state) {
    struct fixture *f = *state;

    start(f, "{ head -c 999 /dev/zero | tr '\\0' x; printf '\\303\\244\\303\\244\\n';"
             "printf 'a\\377b\\377\\377\\377\\377c\\n'; } >&2; exec cat");
    RUN_UNTIL(f, f->said == 2);
    assert_int_equal(strlen(f->words[0]), 999); /* a half character is none */
    assert_string_equal(f->words[1], "a?b????c");
}

/* ---- Ends --------------------------------------------------------------- */

static void an_exit_is_told_with_its_status(void **state) {
    struct fixture *f = *state;

    start(f, "echo bye; exit 7");
    RUN_UNTIL(f, f->ended == 1);
    assert_int_equal(f->lines, 1);
    assert_non_null(strstr(f->why, "exit status 7"));
    assert_int_equal(tdg__child_send(f->child, "x", 1), TDG_EENDED);
    stop(f);
}

static void a_signal_is_told(void **state) {
    struct fixture *f = *state;

    start(f, "kill -9 $$");
    RUN_UNTIL(f, f->ended == 1);
    assert_non_null(strstr(f->why, "signal 9"));
}

static void a_program_that_is_not_there_is_told(void **state) {
    struct fixture *f = *state;
    const char *const argv[] = {"no-such-program-here", NULL};
    tdg__child_opts_t opts = opts_of(argv, PATIENCE_MS);

    assert_int_equal(tdg__child_start(&f->loop, &opts, &calls, f, &f->child), 0);
    assert_int_equal(f->ended, 0); /* not from inside */
    assert_int_equal(tdg__child_pid(f->child), 0);
    RUN_UNTIL(f, f->ended == 1);
    assert_non_null(strstr(f->why, "no-such-program-here"));
    assert_non_null(strstr(f->why, "no such file"));
    assert_int_equal(tdg__child_send(f->child, "x", 1), TDG_EENDED);
    stop(f);
}

static void a_folder_that_is_not_there_is_told(void **state) {
    struct fixture *f = *state;
    const char *const argv[] = {"sh", "-c", "pwd", NULL};
    tdg__child_opts_t opts = opts_of(argv, PATIENCE_MS);

    opts.cwd = "/no/such/folder";
    assert_int_equal(tdg__child_start(&f->loop, &opts, &calls, f, &f->child), 0);
    RUN_UNTIL(f, f->ended == 1);
    assert_non_null(strstr(f->why, "/no/such/folder"));
}

static void folder_and_environment_are_as_given(void **state) {
    struct fixture *f = *state;
    const char *const argv[] = {"/bin/sh", "-c", "echo \"$PWD $WORD\"", NULL};
    const char *const env[] = {"WORD=yes", NULL};
    tdg__child_opts_t opts = opts_of(argv, PATIENCE_MS);

    opts.cwd = "/";
    opts.env = env;
    assert_int_equal(tdg__child_start(&f->loop, &opts, &calls, f, &f->child), 0);
    RUN_UNTIL(f, f->ended == 1);
    assert_string_equal(f->last, "/ yes");
}

static void an_output_that_ends_is_an_end_though_it_lives(void **state) {
    struct fixture *f = *state;

    start(f, "exec >&-; exec cat >&2");
    RUN_UNTIL(f, f->ended == 1);
    assert_non_null(strstr(f->why, "closed its standard output"));
    put(f, "still there");
    RUN_UNTIL(f, f->said == 1);
    stop(f);
}

static void an_input_that_is_closed_is_found_out(void **state) {
    struct fixture *f = *state;
    int rv = 0;

    start(f, "exec <&-; echo closed; exec sleep 1000");
    RUN_UNTIL(f, f->lines == 1);
    for (int i = 0; i < 1000 && rv == 0; i++) {
        rv = tdg__child_send(f->child, "x", 1);
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(rv, TDG_EENDED);
    kill(tdg__child_pid(f->child), SIGTERM);
    RUN_UNTIL(f, f->ended == 1);
}

static void what_waits_for_a_program_that_does_not_read_is_bounded(void **state) {
    struct fixture *f = *state;
    size_t len = 1 << 20, sent = 0;
    char *line = malloc(len);
    int rv;

    memset(line, 'x', len);
    start_with_grace(f, "exec sleep 1000", 50);
    while ((rv = tdg__child_send(f->child, line, len)) == 0)
        sent += len;
    assert_int_equal(rv, TDG_ETOOLARGE);
    assert_true(sent > TDG__CHILD_MAX_QUEUED / 2 && sent < TDG__CHILD_MAX_QUEUED + len);
    assert_int_equal(tdg__child_send(f->child, line, TDG__CHILD_MAX_QUEUED),
                     TDG_ETOOLARGE);
    free(line);
    stop(f);
}

/* ---- Stopping ----------------------------------------------------------- */

static void the_end_of_its_input_is_enough(void **state) {
    struct fixture *f = *state;

    /* The grace is as long as the test waits, so no signal was needed. */
    start(f, "trap 'echo signal >&2' TERM; cat; echo in peace >&2");
    put(f, "x");
    RUN_UNTIL(f, f->lines == 1);
    stop(f);
    assert_int_equal(f->said, 1);
    assert_string_equal(f->words[0], "in peace");
}

static void what_was_sent_before_the_end_arrives(void **state) {
    struct fixture *f = *state;
    size_t len = 1 << 20;
    char *line = malloc(len), count[32];

    memset(line, 'x', len);
    start(f, "wc -c >&2");
    for (int i = 0; i < 8; i++)
        assert_int_equal(tdg__child_send(f->child, line, len), 0);
    free(line);
    stop(f);
    snprintf(count, sizeof(count), "%zu", 8 * (len + 1));
    assert_int_equal(f->said, 1);
    assert_non_null(strstr(f->words[0], count));
}

static bool has_said(const struct fixture *f, const char *last) {
    return f->said > 0 && strcmp(f->words[f->said - 1], last) == 0;
}

static void then_comes_a_signal(void **state) {
    struct fixture *f = *state;
    uint32_t grace_ms = 50;

    /* On a busy machine the shell may be killed before it has come to its trap: then it
     * gets more time. */
    do {
        f->lines = f->gone = f->said = 0;
        start_with_grace(
            f, "trap 'echo term >&2; exit' TERM; echo up; while :; do sleep 0.01; done",
            grace_ms);
        RUN_UNTIL(f, f->lines == 1);
        stop(f);
        grace_ms *= 4;
    } while (!has_said(f, "term") && grace_ms < PATIENCE_MS);
    assert_in_range(f->said, 1, 2); /* some shells tell what became of `sleep` first */
    assert_true(has_said(f, "term"));
}

static void who_ignores_that_is_killed(void **state) {
    struct fixture *f = *state;

    start_held(f, "trap '' TERM; echo up; while :; do sleep 1; done", 50);
    RUN_UNTIL(f, f->lines == 1);
    stop(f);
    RUN_UNTIL(f, all_gone(f));
}

static void what_it_started_goes_with_it(void **state) {
    struct fixture *f = *state;

    start_held(f, "sleep 1000 & sh -c 'trap \"\" TERM; sleep 1000; :' & echo up; cat",
               PATIENCE_MS);
    RUN_UNTIL(f, f->lines == 1);
    assert_false(all_gone(f));
    stop(f);
    RUN_UNTIL(f, all_gone(f));
}

static void may_be_stopped_at_once(void **state) {
    struct fixture *f = *state;

    start(f, "echo never heard; cat");
    stop(f);
    assert_int_equal(f->lines, 0);
}

static void may_be_stopped_before_its_failure_is_told(void **state) {
    struct fixture *f = *state;
    const char *const argv[] = {"no-such-program-here", NULL};
    tdg__child_opts_t opts = opts_of(argv, PATIENCE_MS);

    assert_int_equal(tdg__child_start(&f->loop, &opts, &calls, f, &f->child), 0);
    stop(f);
    assert_int_equal(f->ended, 0);
}

static void may_be_stopped_from_each_call(void **state) {
    struct fixture *f = *state;

    f->stop_in_line = true;
    start(f, "echo one; echo two; cat");
    RUN_UNTIL(f, f->gone == 1);
    assert_int_equal(f->lines, 1);
    assert_int_equal(f->ended, 0);

    f->stop_in_line = false;
    f->stop_in_ended = true;
    f->gone = 0;
    start(f, "exit 1");
    RUN_UNTIL(f, f->gone == 1);
    assert_int_equal(f->ended, 1);

    f->stop_in_ended = false;
    f->stop_in_said = true;
    f->gone = 0;
    start(f, "echo one >&2; cat");
    RUN_UNTIL(f, f->gone == 1);
    assert_int_equal(f->ended, 1);
}

/* ---- Memory ------------------------------------------------------------- */

static void memory_may_run_out(void **state) {
    struct fixture *f = *state;
    const char *const argv[] = {"cat", NULL};
    tdg__child_opts_t opts = opts_of(argv, PATIENCE_MS);
    size_t n;

    for (n = 1; n < 100; n++) {
        int rv, sent = TDG_ENOMEM;

        memory_fail(n, MEMORY_ONCE);
        rv = tdg__child_start(&f->loop, &opts, &calls, f, &f->child);
        if (rv == 0) {
            sent = tdg__child_send(f->child, "a", 1);
            if (sent == 0)
                RUN_UNTIL(f, f->lines + f->ended > 0);
            stop(f);
        } else {
            assert_int_equal(rv, TDG_ENOMEM);
        }
        f->gone = f->lines = f->ended = 0;
        if (!memory_failed())
            break;
    }
    memory_fail(0, MEMORY_ONCE);
    assert_in_range(n, 3, 99);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(lines_go_in_and_come_out),
        TEST(thousands_of_lines_keep_their_order),
        TEST(a_line_may_be_as_long_as_allowed),
        TEST(a_longer_line_is_skipped_and_said),
        TEST(a_last_line_needs_no_end),
        TEST(a_program_that_writes_without_end_is_read_and_ended),
        TEST(what_it_says_is_passed_on),
        TEST(what_it_says_is_cut_and_made_utf8),
        TEST(an_exit_is_told_with_its_status),
        TEST(a_signal_is_told),
        TEST(a_program_that_is_not_there_is_told),
        TEST(a_folder_that_is_not_there_is_told),
        TEST(folder_and_environment_are_as_given),
        TEST(an_output_that_ends_is_an_end_though_it_lives),
        TEST(an_input_that_is_closed_is_found_out),
        TEST(what_waits_for_a_program_that_does_not_read_is_bounded),
        TEST(the_end_of_its_input_is_enough),
        TEST(what_was_sent_before_the_end_arrives),
        TEST(then_comes_a_signal),
        TEST(who_ignores_that_is_killed),
        TEST(what_it_started_goes_with_it),
        TEST(may_be_stopped_at_once),
        TEST(may_be_stopped_before_its_failure_is_told),
        TEST(may_be_stopped_from_each_call),
        TEST(memory_may_run_out),
#undef TEST
    };

    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}
