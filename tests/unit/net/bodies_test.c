/* SPDX-License-Identifier: MIT
 *
 * The budget that the large bodies of a net share. */
#include <errno.h>
#include <sys/socket.h>

#include "net/internal.h"
#include "unit/net/fixture.h"

enum {
    BODY = 1 << 20,
    ROOM = BODY + 1, /* what one takes, when more than half of it is there */
    FIT = 3,
    BUDGET = FIT * ROOM + BODY / 2,
    CROWD = 40,
};

static const char head[] =
    "POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n";
static char zeros[BODY];

static int setup(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    opts.max_body_total = BUDGET;
    world_open(world, &opts);
    return 0;
}

static int teardown(void **state) {
    world_close(*state);
    return state_destroy(state);
}

/* ---- Connections -------------------------------------------------------- */

static size_t used(const struct world *w) {
    return w->net->bodies.used_bytes;
}

/* How many requests are being read: each holds what was sent of it. */
static size_t being_read(const struct world *w) {
    size_t count = 0;

    for (const tdg__conn_t *conn = NULL; (conn = tdg__net_next(w->net, conn)) != NULL;)
        count += conn->reader != NULL;
    return count;
}

/* Sends all of a large request but its last byte, or what is taken until it is refused.
 */
static struct client *begin_large(struct world *w) {
    struct client *c = client_open(w);
    size_t sent = 0;

    client_send(w, c, head);
    while (sent < BODY - 1 && c->len == 0) {
        ssize_t n = send(c->fd, zeros, BODY - 1 - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0)
            sent += (size_t)n;
        else if (errno != EAGAIN)
            break; /* refused: the step reads why */
        world_step(w);
    }
    return c;
}

static void expect_503(struct world *w, struct client *c) {
    struct reply reply;

    assert_int_equal(client_reply(w, c, true, &reply), 503);
    assert_non_null(strstr(reply.head, "\r\nRetry-After: 1\r\n"));
    assert_non_null(strstr(reply.head, "\r\nConnection: close\r\n"));
    assert_string_equal(reply.body, "too many large requests are being read\n");
}

static void fill_budget(struct world *w, struct client *ret[FIT]) {
    for (size_t i = 0; i < FIT; i++) {
        ret[i] = begin_large(w);
        RUN_UNTIL(w, used(w) == (i + 1) * ROOM);
    }
}

static void bounds_what_all_bodies_take(void **state) {
    struct world *w = *state;
    struct client *large[FIT];

    fill_budget(w, large);
    for (size_t i = FIT; i < CROWD; i++) {
        expect_503(w, begin_large(w));
        assert_int_equal(used(w), FIT * ROOM); /* while it lingers, too */
        assert_int_equal(being_read(w), FIT);
    }
    for (size_t i = 0; i < FIT; i++) { /* unharmed */
        client_send(w, large[i], "x");
        assert_int_equal(client_reply(w, large[i], true, NULL), 200);
        assert_int_equal(used(w), (FIT - 1 - i) * ROOM);
    }
    assert_int_equal(w->requests, FIT);
}

static void serves_small_requests_all_the_time(void **state) {
    static const char small[] =
        "POST /small HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n";
    struct world *w = *state;
    struct client *large[FIT], *c;

    fill_budget(w, large);
    c = client_open(w);
    for (int i = 0; i < 10; i++) {
        client_send(w, c, small);
        client_send_bytes(w, c, zeros, TDG__HTTP_SMALL_BODY);
        assert_int_equal(client_reply(w, c, true, NULL), 200);
        assert_int_equal(used(w), FIT * ROOM);
    }
    expect_503(w, begin_large(w));
}

static void gets_back_what_clients_leave(void **state) {
    struct world *w = *state;
    struct client *large[FIT], *c;

    fill_budget(w, large);
    client_close(large[0]);
    client_reset(large[1]);
    RUN_UNTIL(w, used(w) == ROOM);

    c = begin_large(w);
    RUN_UNTIL(w, used(w) == 2 * ROOM);
    client_send(w, c, "x");
    assert_int_equal(client_reply(w, c, true, NULL), 200);
    client_close(large[2]);
    RUN_UNTIL(w, used(w) == 0);
}

/* ---- Readers ------------------------------------------------------------ */

static tdg__http_reader_t *reader_for(tdg__http_budget_t *budget) {
    const tdg__http_limits_t limits = {
        .max_header_bytes = 1024, .max_fields = 10, .max_body_bytes = BODY};
    tdg__http_reader_t *reader;

    assert_int_equal(tdg__http_reader_create(&limits, &reader), 0);
    tdg__http_reader_charge(reader, budget);
    return reader;
}

static tdg__http_step_t feed(tdg__http_reader_t *reader, const char *data, size_t len) {
    size_t ignored;

    return tdg__http_reader_feed(reader, data, len, &ignored);
}

/* Whatever the limits are, or nobody could ever send a body as large as allowed. */
static void reads_any_body_that_is_alone(void **state) {
    tdg__http_budget_t budget = {.max_bytes = 1000};
    tdg__http_reader_t *reader = reader_for(&budget), *second = reader_for(&budget);

    (void)state;
    assert_int_equal(feed(reader, head, strlen(head)), TDG__HTTP_HEADED);
    assert_int_equal(feed(reader, zeros, BODY - 1), TDG__HTTP_MORE);
    assert_int_equal(feed(second, head, strlen(head)), TDG__HTTP_HEADED);
    assert_int_equal(feed(second, zeros, TDG__HTTP_SMALL_BODY), TDG__HTTP_MORE);
    assert_int_equal(feed(second, zeros, 1), TDG__HTTP_REFUSED);
    assert_int_equal(tdg__http_reader_status(second), 503);
    assert_int_equal(feed(reader, zeros, 1), TDG__HTTP_READY);
    assert_int_equal(budget.used_bytes, ROOM);

    tdg__http_reader_destroy(second);
    tdg__http_reader_reset(reader);
    assert_int_equal(budget.used_bytes, 0);
    tdg__http_reader_destroy(reader);
    assert_int_equal(budget.used_bytes, 0);
}

/* In chunks nobody knows how much comes: the room doubles, but not beyond what is small.
 */
static void does_not_take_a_small_body_for_a_large_one(void **state) {
    static const char coded[] =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nFFFF\r\n";
    tdg__http_budget_t budget = {.max_bytes = 1000, .used_bytes = 1000};
    tdg__http_reader_t *reader = reader_for(&budget);

    (void)state;
    assert_int_equal(feed(reader, coded, strlen(coded)), TDG__HTTP_HEADED);
    assert_int_equal(feed(reader, zeros, 40000), TDG__HTTP_MORE);
    assert_int_equal(feed(reader, zeros, 0xFFFF - 40000), TDG__HTTP_MORE);
    assert_int_equal(feed(reader, "\r\n0\r\n\r\n", 7), TDG__HTTP_READY);
    assert_int_equal(tdg__http_reader_request(reader)->body_len, 0xFFFF);
    tdg__http_reader_destroy(reader);
    assert_int_equal(budget.used_bytes, 1000);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(bounds_what_all_bodies_take),
        TEST(serves_small_requests_all_the_time),
        TEST(gets_back_what_clients_leave),
        cmocka_unit_test(reads_any_body_that_is_alone),
        cmocka_unit_test(does_not_take_a_small_body_for_a_large_one),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("bodies", tests, NULL, NULL);
}
