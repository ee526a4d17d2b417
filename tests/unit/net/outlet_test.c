/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/internal.h"
#include "unit/net/fixture.h"

/* An outlet of our own on one end of a pipe or socket pair, and the other end. */
struct fixture {
    struct world world;
    tdg__outlet_t outlet;
    uv_pipe_t pipe;
    int far;
    int drained, broke;
};

static struct fixture *fixture_of(tdg__outlet_t *outlet) {
    return (struct fixture *)(void *)((char *)outlet - offsetof(struct fixture, outlet));
}

static void on_drained(tdg__outlet_t *outlet) {
    fixture_of(outlet)->drained++;
}

static void on_broke(tdg__outlet_t *outlet) {
    fixture_of(outlet)->broke++;
}

static const tdg__outlet_calls_t calls = {.drained = on_drained, .broke = on_broke};

static void open_outlet(struct fixture *f, int near, int far, bool socket) {
    assert_int_equal(uv_pipe_init(&f->world.loop, &f->pipe, 0), 0);
    assert_int_equal(uv_pipe_open(&f->pipe, near), 0);
    f->far = far;
    assert_int_equal(fcntl(far, F_SETFL, O_NONBLOCK), 0);
    f->outlet = (tdg__outlet_t){.net = f->world.net,
                                .stream = (uv_stream_t *)&f->pipe,
                                .calls = &calls,
                                .fd = near,
                                .takes_turns = socket,
                                .socket = socket};
}

static struct fixture *create(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));
    tdg__net_opts_t opts = world_opts(&f->world);

    world_open(&f->world, &opts);
    return f;
}

static int setup_socket(void **state) {
    struct fixture *f = create(state);
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    open_outlet(f, fds[0], fds[1], true);
    return 0;
}

static int setup_pipe(void **state) {
    struct fixture *f = create(state);
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    open_outlet(f, fds[1], fds[0], false);
    return 0;
}

static void on_closed(uv_handle_t *handle) {
    *(bool *)handle->data = true;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    bool closed = false;

    f->pipe.data = &closed;
    uv_close((uv_handle_t *)&f->pipe, on_closed);
    RUN_UNTIL(&f->world, closed);
    if (f->far >= 0)
        close(f->far);
    world_close(&f->world);
    return state_destroy(state);
}

static void expect(struct fixture *f, const char *text) {
    char data[256];
    ssize_t n = read(f->far, data, sizeof(data));

    assert_int_equal(n, strlen(text));
    assert_memory_equal(data, text, strlen(text));
}

/* Writes until the kernel takes no more. */
static size_t fill(struct fixture *f) {
    char block[1000];
    size_t written = 0;
    int rv = 0;

    memset(block, 'x', sizeof(block));
    while (rv == 0) {
        rv = tdg__outlet_write(&f->outlet, block, sizeof(block));
        written += sizeof(block);
        assert_true(written < 64 << 20);
    }
    assert_int_equal(rv, TDG_EAGAIN);
    assert_true(f->outlet.queued > 0);
    return written;
}

static size_t drain(struct fixture *f, size_t len, char *last) {
    uint64_t limit = uv_hrtime() + UINT64_C(1000000) * PATIENCE_MS;
    char data[65536];
    size_t all = 0;

    while (all < len) {
        ssize_t n = read(f->far, data, sizeof(data));

        assert_true(uv_hrtime() < limit);
        if (n > 0) {
            all += (size_t)n;
            *last = data[n - 1];
        } else {
            assert_int_equal(errno, EAGAIN);
            world_step(&f->world);
        }
    }
    return all;
}

static void writes_at_once_what_the_kernel_takes(void **state) {
    struct fixture *f = *state;
    size_t calls_before = memory_calls();

    assert_int_equal(flush(&f->outlet, "one"), 0);
    expect(f, "one");
    assert_int_equal(tdg__outlet_write(&f->outlet, "two", 3), 0);
    assert_int_equal(tdg__outlet_piece(&f->outlet, "three", 5), 0);
    expect(f, "twothree");
    assert_int_equal(f->outlet.queued, 0);
    assert_int_equal(memory_calls(), calls_before);
}

static size_t read_some(struct fixture *f, char *data, size_t size, size_t *all) {
    ssize_t n = read(f->far, data + *all, size - *all);

    *all += n > 0 ? (size_t)n : 0;
    return *all;
}

static void frames_pieces_as_chunks(void **state) {
    struct fixture *f = *state;
    char *scratch = tdg__net_scratch(f->world.net);
    static char read_back[TDG__NET_SCRATCH + 16];
    size_t all = 0;

    f->outlet.chunked = true;
    assert_int_equal(flush(&f->outlet, "0123456789abcdef"), 0);
    expect(f, "10\r\n0123456789abcdef\r\n");
    assert_int_equal(tdg__outlet_piece(&f->outlet, "0123456789", 10), 0);
    expect(f, "a\r\n0123456789\r\n");
    assert_int_equal(tdg__outlet_write(&f->outlet, "raw", 3), 0);
    expect(f, "raw");
    assert_int_equal(tdg__outlet_flush(&f->outlet, 0), 0);
    assert_int_equal(tdg__outlet_piece(&f->outlet, "", 0), 0);
    assert_int_equal(read(f->far, read_back, sizeof(read_back)), -1);

    memset(scratch, 'z', TDG__NET_SCRATCH); /* as much as there is room for */
    assert_true(tdg__outlet_flush(&f->outlet, TDG__NET_SCRATCH) <= 0);
    RUN_UNTIL(&f->world,
              read_some(f, read_back, sizeof(read_back), &all) == TDG__NET_SCRATCH + 9);
    assert_memory_equal(read_back, "10000\r\nzzz", 10);
    assert_memory_equal(read_back + TDG__NET_SCRATCH + 6, "z\r\n", 3);
}

static void keeps_the_order_when_some_has_to_wait(void **state) {
    struct fixture *f = *state;
    size_t len = fill(f);
    char last;

    assert_int_equal(flush(&f->outlet, "abc"), TDG_EAGAIN);
    assert_int_equal(tdg__outlet_piece(&f->outlet, "z", 1), TDG_EAGAIN);
    assert_int_equal(f->drained, 0);
    assert_int_equal(drain(f, len + 4, &last), len + 4);
    assert_int_equal(last, 'z');
    RUN_UNTIL(&f->world, f->drained == 1);
    assert_int_equal(f->outlet.queued, 0);
    assert_int_equal(f->outlet.in_flight, false);
    assert_int_equal(flush(&f->outlet, "direct again"), 0);
    expect(f, "direct again");
}

static void knows_whether_the_reader_makes_progress(void **state) {
    struct fixture *f = *state;
    char *large = calloc(1, 4 << 20);
    size_t len = 4 << 20;
    char last;

    assert_non_null(large);
    assert_int_equal(tdg__outlet_write(&f->outlet, large, len), TDG_EAGAIN);
    free(large);
    assert_false(tdg__outlet_stuck(&f->outlet, 100));
    world_run_ms(&f->world, 120);
    assert_false(tdg__outlet_stuck(&f->outlet, 0)); /* never */
    assert_true(tdg__outlet_stuck(&f->outlet, 100));
    len -= drain(f, 1 << 20, &last);
    world_run_ms(&f->world, 5);
    assert_false(tdg__outlet_stuck(&f->outlet, 100));
    world_run_ms(&f->world, 120);
    assert_true(tdg__outlet_stuck(&f->outlet, 100));
    drain(f, len, &last);
    RUN_UNTIL(&f->world, f->drained == 1);
}

/* However much waits, it is in memory once; and it leaves in order. */
static void shared_buffers_wait_without_a_copy(void **state) {
    struct fixture *f = *state;
    tdg__buf_t *buf = tdg__buf_create(NULL, 4 << 20);
    tdg__rope_t rope;
    size_t len, got = 0;
    char *all;

    assert_non_null(buf);
    memset(buf->data, 's', buf->len);
    tdg__rope_init(&rope, SIZE_MAX);
    tdg__text_put(&rope.text, "<");
    tdg__rope_splice(&rope, buf);
    tdg__text_put(&rope.text, ">");
    len = tdg__rope_len(&rope);
    assert_int_equal(tdg__outlet_write_rope(&f->outlet, &rope), TDG_EAGAIN);
    f->outlet.chunked = true;
    assert_int_equal(tdg__outlet_piece_rope(&f->outlet, &rope), TDG_EAGAIN);
    tdg__rope_done(&rope);
    assert_true(f->outlet.queued > len);
    assert_true(f->outlet.queued < 2 * len);
    assert_int_equal(atomic_load(&buf->refs), 3);

    all = malloc(2 * len + 11);
    assert_non_null(all);
    RUN_UNTIL(&f->world, read_some(f, all, 2 * len + 11, &got) == 2 * len + 10);
    assert_memory_equal(all, "<sss", 4);
    assert_memory_equal(all + len - 2, "s>400002\r\n<ss", 13);
    assert_memory_equal(all + 2 * len + 6, "s>\r\n", 4);
    free(all);
    RUN_UNTIL(&f->world, f->drained == 1);
    assert_int_equal(f->outlet.queued, 0);
    assert_int_equal(atomic_load(&buf->refs), 1);
    tdg__buf_unref(buf);
}

static void lets_go_of_shared_buffers_when_it_breaks(void **state) {
    struct fixture *f = *state;
    tdg__buf_t *buf = tdg__buf_create(NULL, 4 << 20);
    tdg__rope_t rope;

    assert_non_null(buf);
    memset(buf->data, 's', buf->len);
    tdg__rope_init(&rope, SIZE_MAX);
    tdg__rope_splice(&rope, buf);
    tdg__rope_splice(&rope, buf);
    assert_int_equal(tdg__outlet_write_rope(&f->outlet, &rope), TDG_EAGAIN);
    tdg__rope_done(&rope);
    close(f->far);
    f->far = -1;
    RUN_UNTIL(&f->world, f->drained == 1);
    assert_int_equal(f->broke, 1);
    assert_int_equal(atomic_load(&buf->refs), 1);
    tdg__buf_unref(buf);
}

static void let_time_pass(struct fixture *f, uint64_t ms) {
    uint64_t from_ms = uv_now(&f->world.loop);

    while (uv_now(&f->world.loop) < from_ms + ms)
        uv_update_time(&f->world.loop);
}

/* Others have written as much as there is for a turn. */
static void wait_for_a_turn(struct fixture *f, tdg__buf_t *buf) {
    tdg__rope_t rope;

    memset(buf->data, 's', buf->len);
    tdg__rope_init(&rope, SIZE_MAX);
    tdg__rope_splice(&rope, buf);
    f->world.net->shared = 1 << 20;
    assert_int_equal(tdg__outlet_write_rope(&f->outlet, &rope), TDG_EAGAIN);
    assert_true(f->outlet.waits);
    tdg__rope_done(&rope);
}

/* A reader that was given nothing cannot be stuck, or too slow for others. */
static void does_not_blame_a_reader_for_waiting_for_a_turn(void **state) {
    struct fixture *f = *state;
    tdg__budget_t *budget = tdg__budget_create(4 << 20);
    tdg__buf_t *buf = tdg__buf_create(NULL, 4 << 20);
    char last;

    assert_non_null(budget);
    assert_non_null(buf);
    assert_true(tdg__buf_charge(buf, budget, 0));
    wait_for_a_turn(f, buf);
    for (int i = 0; i < 2; i++) {
        let_time_pass(f, 30);
        assert_false(tdg__budget_take(budget, 1));
        assert_false(tdg__outlet_stuck(&f->outlet, 20));
        assert_false(tdg__outlet_in_the_way(&f->outlet, 20, 1));
    }
    tdg__outlets_write(f->world.net);
    assert_false(f->outlet.waits);
    assert_false(tdg__outlet_stuck(&f->outlet, 20));
    assert_false(tdg__outlet_in_the_way(&f->outlet, 20, 1));
    let_time_pass(f, 30); /* now it is up to the reader */
    assert_true(tdg__outlet_stuck(&f->outlet, 20));
    drain(f, buf->len, &last);
    RUN_UNTIL(&f->world, f->drained == 1);
    tdg__buf_unref(buf);
    tdg__budget_unref(budget);
}

static void breaks_when_nobody_is_there_any_more(void **state) {
    struct fixture *f = *state;

    close(f->far);
    f->far = -1;
    assert_int_equal(flush(&f->outlet, "x"), TDG_EENDED);
    assert_int_equal(f->broke, 1);
    assert_true(f->outlet.broken);
    assert_int_equal(flush(&f->outlet, "x"), TDG_EENDED);
    assert_int_equal(tdg__outlet_flush(&f->outlet, 0), TDG_EENDED);
    assert_int_equal(f->broke, 1);
}

static void breaks_when_the_reader_leaves_what_waits(void **state) {
    struct fixture *f = *state;

    fill(f);
    flush(&f->outlet, "more");
    close(f->far);
    f->far = -1;
    RUN_UNTIL(&f->world, f->drained == 1);
    assert_int_equal(f->broke, 1);
    assert_int_equal(flush(&f->outlet, "x"), TDG_EENDED);
}

static void breaks_when_memory_is_out(void **state) {
    struct fixture *f = *state;

    fill(f);
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(flush(&f->outlet, "lost"), TDG_ENOMEM);
    assert_int_equal(f->broke, 1);
    assert_int_equal(flush(&f->outlet, "x"), TDG_EENDED);
}

static void remembers_when_it_wrote(void **state) {
    struct fixture *f = *state;

    world_run_ms(&f->world, 5);
    assert_int_equal(flush(&f->outlet, "x"), 0);
    assert_int_equal(f->outlet.written_ms, uv_now(&f->world.loop));
}

#define BOTH(function)                                                                   \
    cmocka_unit_test_setup_teardown(function, setup_socket, teardown),                   \
        cmocka_unit_test_setup_teardown(function, setup_pipe, teardown)

int main(void) {
    /* clang-format off: version 14 crashes on a table with a macro in it */
    const struct CMUnitTest tests[] = {
        BOTH(writes_at_once_what_the_kernel_takes),
        BOTH(frames_pieces_as_chunks),
        BOTH(keeps_the_order_when_some_has_to_wait),
        BOTH(knows_whether_the_reader_makes_progress),
        BOTH(shared_buffers_wait_without_a_copy),
        BOTH(lets_go_of_shared_buffers_when_it_breaks),
        cmocka_unit_test_setup_teardown(does_not_blame_a_reader_for_waiting_for_a_turn,
                                        setup_socket, teardown),
        BOTH(breaks_when_nobody_is_there_any_more),
        BOTH(breaks_when_the_reader_leaves_what_waits),
        BOTH(breaks_when_memory_is_out),
        BOTH(remembers_when_it_wrote),
    };
    /* clang-format on */

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("outlet", tests, NULL, NULL);
}
