/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/internal.h"
#include "unit/net/fixture.h"

static int setup(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    opts.max_connections = 3000;
    world_open(world, &opts);
    return 0;
}

static int setup_hasty(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    opts.request_timeout_ms = 200;
    world_open(world, &opts);
    return 0;
}

static int setup_restless(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    opts.idle_timeout_ms = 200;
    world_open(world, &opts);
    return 0;
}

static int setup_full(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    opts.max_connections = 3;
    world_open(world, &opts);
    return 0;
}

static int teardown(void **state) {
    world_close(*state);
    return state_destroy(state);
}

/* ---- Binding ------------------------------------------------------------ */

static void binds_to_addresses_only(void **state) {
    static const char *const hosts[] = {"",          "example.org", "1.2.3",
                                        "1.2.3.4.5", "::g",         "127.0.0.1:80"};
    int fd = -7;
    uint16_t port = 7;

    (void)state;
    for (size_t i = 0; i < COUNT(hosts); i++)
        assert_int_equal(tdg__net_bind(hosts[i], 0, false, &fd, &port), TDG_EINVAL);
    assert_int_equal(fd, -7);
    assert_int_equal(port, 7);
}

static void binds_to_a_free_port(void **state) {
    static const char *const hosts[] = {"127.0.0.1", "localhost", "::1", "0.0.0.0", "::"};

    (void)state;
    for (size_t i = 0; i < COUNT(hosts); i++) {
        uint16_t port = 0;
        int fd = -1;
        int rv = tdg__net_bind(hosts[i], 0, false, &fd, &port);

        if (rv < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL))
            continue; /* a machine without IPv6 */
        assert_int_equal(rv, 0);
        assert_true(fd >= 0 && port != 0);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
        close(fd);
    }
}

static void shares_a_port_only_when_asked_to(void **state) {
    uint16_t port, same;
    int first, second;

    (void)state;
    assert_int_equal(tdg__net_bind("127.0.0.1", 0, false, &first, &port), 0);
    errno = 0;
    assert_int_equal(tdg__net_bind("127.0.0.1", port, true, &second, &same), TDG_ESYSTEM);
    assert_int_equal(errno, EADDRINUSE);
    close(first);

    assert_int_equal(tdg__net_bind("127.0.0.1", 0, true, &first, &port), 0);
    assert_int_equal(tdg__net_bind("127.0.0.1", port, true, &second, &same), 0);
    assert_int_equal(same, port);
    close(first);
    close(second);
}

static unsigned tcp_option(int fd, int name) {
    unsigned value = 0;
    socklen_t len = sizeof(value);

    assert_int_equal(getsockopt(fd, IPPROTO_TCP, name, &value, &len), 0);
    return value;
}

static void gives_connections_what_the_listener_has(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    int fd;

    w->answer = answer_never;
    client_get(w, c, "/x");
    RUN_UNTIL(w, w->held_count == 1);
    fd = w->held[0]->outlet.fd;
    assert_true(tcp_option(fd, TCP_NODELAY) != 0);
    assert_int_equal(tcp_option(fd, TCP_USER_TIMEOUT), 60000);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

/* ---- Time-outs ---------------------------------------------------------- */

static void closes_silently_when_nothing_is_asked(void **state) {
    struct world *w = *state;
    struct client *silent = client_open(w), *blank = client_open(w);
    uint64_t start = uv_hrtime();

    client_send(w, blank, "\r\n");
    client_expect_end(w, silent);
    client_expect_end(w, blank);
    assert_true(uv_hrtime() - start >= UINT64_C(190000000));
    assert_int_equal(w->closed, 0);
}

static void answers_408_when_a_request_does_not_end(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w), *slow = client_open(w);
    struct reply reply;

    client_send(w, c, "GET / HTTP/1.1\r\nHo");
    client_send(w, slow, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n");
    for (int i = 0; i < 1000 && slow->len == 0;
         i++) { /* a byte now and then is no help */
        (void)!send(slow->fd, "x", 1, MSG_NOSIGNAL);
        world_run_ms(w, 5);
    }
    assert_int_equal(client_reply(w, slow, true, &reply), 408);
    assert_int_equal(client_reply(w, c, true, &reply), 408);
    assert_non_null(strstr(reply.head, "\r\nConnection: close\r\n"));
    client_expect_end(w, c);
    assert_int_equal(w->requests, 0);
}

static void gives_an_answer_all_the_time_it_takes(void **state) {
    struct world *w = *state;
    struct client *plain = client_open(w), *stream = client_open(w);

    w->answer = answer_never;
    client_get(w, plain, "/x");
    RUN_UNTIL(w, w->held_count == 1);
    w->answer = answer_stream;
    client_get(w, stream, "/s");
    client_expect_head(w, stream, 200, NULL);
    world_run_ms(w, 500);
    assert_int_equal(w->closed, 0);
    tdg__exchange_respond(tdg__conn_exchange(unhold(w)), 200, NULL, NULL, NULL, 0);
    assert_int_equal(client_reply(w, plain, true, NULL), 200);
}

static void closes_an_idle_connection_silently(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w), *stream = client_open(w);
    uint64_t start;

    w->answer = answer_stream;
    client_get(w, stream, "/s");
    client_expect_head(w, stream, 200, NULL);
    w->answer = answer_path;
    start = uv_hrtime();
    client_get(w, c, "/x");
    assert_int_equal(client_reply(w, c, true, NULL), 200);
    client_expect_end(w, c);
    assert_true(uv_hrtime() - start >= UINT64_C(190000000));
    RUN_UNTIL(w, w->closed == 1);
    assert_false(stream->eof);
}

/* ---- Many connections --------------------------------------------------- */

static void refuses_connections_above_the_limit(void **state) {
    struct world *w = *state;
    struct client *c[3], *late;
    struct reply reply;

    for (size_t i = 0; i < COUNT(c); i++) {
        c[i] = client_open(w);
        client_get(w, c[i], "/x");
        assert_int_equal(client_reply(w, c[i], true, NULL), 200);
    }
    for (int i = 0; i < 10; i++) {
        late = client_open(w);
        client_get(w, late, "/x");
        assert_int_equal(client_reply(w, late, true, &reply), 503);
        assert_non_null(strstr(reply.head, "\r\nConnection: close\r\n"));
        client_expect_end(w, late);
    }
    assert_int_equal(tdg__net_connections(w->net), 3);
    assert_int_equal(w->requests, 3);

    client_close(c[0]); /* makes room for one */
    RUN_UNTIL(w, tdg__net_connections(w->net) == 2);
    late = client_open(w);
    client_get(w, late, "/x");
    assert_int_equal(client_reply(w, late, true, NULL), 200);
    client_get(w, c[1], "/x"); /* the others are unharmed */
    assert_int_equal(client_reply(w, c[1], true, NULL), 200);
}

static int connect_to(uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        assert_int_equal(errno, EINPROGRESS);
    return fd;
}

static bool allow_descriptors(rlim_t count) {
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count;
    return count <= limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

enum { SILENT = 2000 };

static void serves_others_while_thousands_say_nothing(void **state) {
    struct world *w = *state;
    struct client *c;
    int fds[SILENT];
    size_t before;

    if (!allow_descriptors(2 * SILENT + 200))
        skip();
    before = memory_live();
    for (int i = 0; i < SILENT; i++) {
        fds[i] = connect_to(w->port);
        assert_true(fds[i] >= 0);
        if (i % 50 == 0)
            world_step(w);
    }
    RUN_UNTIL(w, tdg__net_connections(w->net) == SILENT);
    assert_int_equal(memory_live(), before + SILENT); /* one each */
    c = client_open(w);
    client_get(w, c, "/x");
    assert_int_equal(client_reply(w, c, true, NULL), 200);
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
    RUN_UNTIL(w, tdg__net_connections(w->net) == 1);
    assert_int_equal(w->closed, 0);
}

static void goes_on_when_descriptors_are_there_again(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w), *late;
    struct rlimit limit;
    uint64_t limit_ns;
    int steps = 0;

    client_get(w, c, "/x");
    assert_int_equal(client_reply(w, c, true, NULL), 200);
    late = client_open(w); /* has its descriptor; the server must find one */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(allow_descriptors(3));
    client_get(w, late, "/late");

    for (limit_ns = uv_hrtime() + 400000000; uv_hrtime() < limit_ns; steps++)
        world_step(w);
    assert_int_equal(w->requests, 1);
    assert_in_range(steps, 1,
                    1000); /* one for each pulse: it does not try all the time */
    client_get(w, c, "/x");
    assert_int_equal(client_reply(w, c, true, NULL), 200);

    assert_true(allow_descriptors(limit.rlim_cur));
    assert_int_equal(client_reply(w, late, true, NULL), 200);
}

static void count_visit(void *arg, tdg__exchange_t *exchange) {
    int *count = arg;

    ++*count;
    tdg__exchange_close(exchange);
}

static void visits_those_that_had_a_request(void **state) {
    struct world *w = *state;
    int count = 0;

    w->answer = answer_stream;
    (void)client_open(w);
    for (int i = 0; i < 5; i++) {
        struct client *c = client_open(w);

        client_get(w, c, "/x");
        client_expect_head(w, c, 200, NULL);
    }
    assert_int_equal(tdg__net_connections(w->net), 6);
    tdg__net_each(w->net, count_visit, &count);
    assert_int_equal(count, 5);
    tdg__net_each(w->net, count_visit, &count);
    assert_int_equal(count, 5);
    RUN_UNTIL(w, w->closed == 5);
}

static void close_others(void *arg, tdg__exchange_t *exchange) {
    struct world *w = arg;

    for (size_t i = 0; i < w->held_count; i++)
        if (&w->held[i]->exchange != exchange)
            tdg__exchange_close(&w->held[i]->exchange);
}

/* As where they belong to a session that ends. */
static void a_visitor_may_close_the_others(void **state) {
    struct world *w = *state;
    int count = 0;

    w->answer = answer_stream;
    for (int i = 0; i < 5; i++) {
        struct client *c = client_open(w);

        client_get(w, c, "/x");
        client_expect_head(w, c, 200, NULL);
    }
    tdg__net_each(w->net, close_others, w);
    RUN_UNTIL(w, w->closed == 4);
    tdg__net_each(w->net, count_visit, &count);
    assert_int_equal(count, 1);
}

/* ---- The end ------------------------------------------------------------ */

static void accepts_no_more_when_told_so(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    int fd;

    client_get(w, c, "/x");
    assert_int_equal(client_reply(w, c, true, NULL), 200);
    tdg__net_stop_listening(w->net);
    tdg__net_stop_listening(w->net);
    fd = connect_to(w->port);
    world_run_ms(w, 20);
    assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    client_get(w, c, "/x"); /* who is here may stay */
    assert_int_equal(client_reply(w, c, true, NULL), 200);
}

static void finishes_what_is_being_done(void **state) {
    struct world *w = *state;
    struct client *idle = client_open(w), *silent = client_open(w),
                  *plain = client_open(w), *partly = client_open(w),
                  *stream = client_open(w);
    struct reply reply;
    tdg__conn_t *streaming;

    client_get(w, idle, "/x");
    assert_int_equal(client_reply(w, idle, true, NULL), 200);
    w->answer = answer_stream;
    client_get(w, stream, "/s");
    client_expect_head(w, stream, 200, NULL);
    streaming = unhold(w);
    w->answer = answer_never;
    client_get(w, plain, "/p");
    client_send(w, partly, "GET /q HTTP/1.1\r\n");
    RUN_UNTIL(w, w->held_count == 1);
    RUN_UNTIL(w, tdg__net_connections(w->net) == 5);
    world_run_ms(w, 10);

    tdg__net_finish(w->net);
    client_expect_end(w, idle);
    client_expect_end(w, silent);
    assert_int_equal(tdg__outlet_piece(&streaming->outlet, "x", 1), 0);
    client_expect(w, stream, "1\r\nx\r\n");
    tdg__exchange_respond(tdg__conn_exchange(unhold(w)), 200, NULL, NULL, NULL, 0);
    assert_int_equal(client_reply(w, plain, true, &reply), 200);
    assert_non_null(strstr(reply.head, "\r\nConnection: close\r\n"));
    client_expect_end(w, plain);
    w->answer = answer_path;
    client_send(w, partly, "Host: a\r\n\r\n");
    assert_int_equal(client_reply(w, partly, true, NULL), 200);
    client_expect_end(w, partly);
    tdg__exchange_end(tdg__conn_exchange(streaming));
    client_expect(w, stream, "0\r\n\r\n");
    client_expect_end(w, stream);
    RUN_UNTIL(w, tdg__net_connections(w->net) == 0);
}

static void on_closed_inside(void *arg) {
    ((struct world *)arg)->net_done = true;
}

static void close_net(struct world *w, tdg__conn_t *conn,
                      const tdg__http_request_t *request) {
    tdg__net_t *net = w->net;

    (void)conn;
    w->net = NULL;
    tdg__net_close(net, on_closed_inside, w);
    assert_string_equal(request->path, "/close");
}

static void closes_from_inside_a_request(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);

    w->answer = close_net;
    client_get(w, c, "/close");
    client_get(w, c, "/never");
    RUN_UNTIL(w, w->net_done);
    assert_int_equal(w->requests, 1);
    assert_int_equal(w->closed, 1);
}

static void closes_at_any_moment(void **state) {
    struct world *w = *state;
    static char large[8 << 20];

    w->answer = answer_stream;
    for (int i = 0; i < 5; i++) {
        struct client *c = client_open(w);

        client_get(w, c, "/s");
        client_expect_head(w, c, 200, NULL);
        c->deaf = true;
        if (i < 2)
            assert_int_equal(tdg__outlet_piece(&w->held[i]->outlet, large, sizeof(large)),
                             TDG_EAGAIN);
        if (i == 1)
            tdg__exchange_close(tdg__conn_exchange(w->held[i])); /* when all is written */
        if (i == 2)
            client_send(w, c, "GET /kept HTTP/1.1\r\n");
    }
    w->answer = answer_never;
    client_get(w, client_open(w), "/answering");
    client_send(w, client_open(w), "GET /reading");
    client_send(w, client_open(w), "refused\r\n\r\n");
    (void)client_open(w);
    RUN_UNTIL(w, w->requests == 6 && tdg__net_connections(w->net) == 9);
    world_run_ms(w, 10);
    (void)client_open(w); /* waits in the kernel */
    world_close_net(w);
    assert_int_equal(w->closed, 6);
}

static void starts_and_listens_or_not_at_all(void **state) {
    struct world *w = *state;
    tdg__net_opts_t opts = world_opts(w);
    tdg__net_t *net = NULL;
    uint16_t port;
    int fd;

    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__net_create(&w->loop, &opts, &net), TDG_ENOMEM);
    assert_null(net);
    assert_int_equal(tdg__net_bind("127.0.0.1", 0, false, &fd, &port), 0);
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__net_listen(w->net, fd, NULL), TDG_ENOMEM);
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* stolen */
    assert_int_equal(tdg__net_listen(w->net, fd, NULL), TDG_ESYSTEM);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
#define WITH(how, function) cmocka_unit_test_setup_teardown(function, how, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binds_to_addresses_only),
        cmocka_unit_test(binds_to_a_free_port),
        cmocka_unit_test(shares_a_port_only_when_asked_to),
        TEST(gives_connections_what_the_listener_has),
        WITH(setup_hasty, closes_silently_when_nothing_is_asked),
        WITH(setup_hasty, answers_408_when_a_request_does_not_end),
        WITH(setup_hasty, gives_an_answer_all_the_time_it_takes),
        WITH(setup_restless, closes_an_idle_connection_silently),
        WITH(setup_full, refuses_connections_above_the_limit),
        TEST(serves_others_while_thousands_say_nothing),
        TEST(goes_on_when_descriptors_are_there_again),
        TEST(visits_those_that_had_a_request),
        TEST(a_visitor_may_close_the_others),
        TEST(accepts_no_more_when_told_so),
        TEST(finishes_what_is_being_done),
        TEST(closes_from_inside_a_request),
        TEST(closes_at_any_moment),
        TEST(starts_and_listens_or_not_at_all),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
