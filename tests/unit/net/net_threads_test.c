/* SPDX-License-Identifier: MIT
 *
 * Connections that wander between two loops in two threads. */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/conn.h"
#include "net/net.h"
#include "support.h"

enum { MAX_PARCELS = 64, CLIENTS = 8, ROUNDS = 200 };

/* A loop in a thread. It answers paths that begin with its name, and sends others over.
 */
struct worker {
    char name; /* 'a' or 'b' */
    struct worker *other;
    uv_loop_t loop;
    uv_async_t wake;
    tdg__net_t *net;
    pthread_t thread;
    pthread_mutex_t lock;
    tdg__parcel_t *parcels[MAX_PARCELS];
    size_t parcel_count;
    bool stop;
    int requests, moved, closed; /* read after the join */
};

static void hand_over(struct worker *to, tdg__parcel_t *parcel) {
    bool full;

    pthread_mutex_lock(&to->lock);
    full = to->parcel_count == MAX_PARCELS || to->stop;
    if (!full) {
        to->parcels[to->parcel_count++] = parcel;
        uv_async_send(&to->wake); /* under the lock: afterwards it may be closing */
    }
    pthread_mutex_unlock(&to->lock);
    if (full)
        tdg__parcel_destroy(parcel);
}

static void on_request(void *user, tdg__conn_t *conn,
                       const tdg__http_request_t *request) {
    struct worker *worker = user;
    tdg__parcel_t *parcel;

    worker->requests++;
    if (request->path[1] != worker->name && tdg__conn_move(conn, &parcel) == 0) {
        worker->moved++;
        hand_over(worker->other, parcel);
        return;
    }
    tdg__conn_respond(conn, 200, "text/plain", NULL, request->path,
                      strlen(request->path));
}

static void on_drained(void *user, tdg__conn_t *conn) {
    (void)user;
    (void)conn;
}

static void on_closed(void *user, tdg__conn_t *conn) {
    struct worker *worker = user;

    (void)conn;
    worker->closed++;
}

static void on_wake(uv_async_t *wake) {
    struct worker *worker = wake->data;
    tdg__parcel_t *parcels[MAX_PARCELS];
    size_t count;
    bool stop;

    pthread_mutex_lock(&worker->lock);
    count = worker->parcel_count;
    memcpy(parcels, worker->parcels, sizeof(parcels));
    worker->parcel_count = 0;
    stop = worker->stop;
    pthread_mutex_unlock(&worker->lock);

    for (size_t i = 0; i < count; i++)
        (void)tdg__net_adopt(worker->net, parcels[i]);
    if (stop && !uv_is_closing((uv_handle_t *)wake)) {
        uv_close((uv_handle_t *)wake, NULL);
        tdg__net_close(worker->net, NULL, NULL);
    }
}

static void *run(void *arg) {
    struct worker *worker = arg;

    return uv_run(&worker->loop, UV_RUN_DEFAULT) == 0 ? NULL : arg;
}

static void worker_init(struct worker *worker, char name, struct worker *other) {
    tdg__net_opts_t opts = {
        .calls = {.request = on_request, .drained = on_drained, .closed = on_closed},
        .user = worker,
        .limits = {.max_header_bytes = 16 * 1024,
                   .max_fields = 100,
                   .max_body_bytes = 65536},
        .request_timeout_ms = 60000,
        .idle_timeout_ms = 60000,
        .write_timeout_ms = 60000,
        .max_connections = 1000,
    };

    *worker = (struct worker){.name = name, .other = other};
    assert_int_equal(pthread_mutex_init(&worker->lock, NULL), 0);
    assert_int_equal(uv_loop_init(&worker->loop), 0);
    assert_int_equal(uv_async_init(&worker->loop, &worker->wake, on_wake), 0);
    worker->wake.data = worker;
    assert_int_equal(tdg__net_create(&worker->loop, &opts, &worker->net), 0);
}

static void worker_start(struct worker *worker) {
    assert_int_equal(pthread_create(&worker->thread, NULL, run, worker), 0);
}

static void worker_stop(struct worker *worker) {
    pthread_mutex_lock(&worker->lock);
    worker->stop = true;
    uv_async_send(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
}

static void worker_join(struct worker *worker) {
    void *wrong;

    assert_int_equal(pthread_join(worker->thread, &wrong), 0);
    assert_null(wrong);
}

/* When both have ended: one may hand over to the other until then. */
static void worker_done(struct worker *worker) {
    assert_int_equal(uv_loop_close(&worker->loop), 0);
    pthread_mutex_destroy(&worker->lock);
    while (worker->parcel_count > 0)
        tdg__parcel_destroy(worker->parcels[--worker->parcel_count]);
}

/* ---- Clients ------------------------------------------------------------ */

static int connect_to(uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval patience = {30, 0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)),
                     0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Two requests in one send: one for each worker, so that the second is left over when the
 * connection moves for the first. */
static void ask(int fd, char first, char second, int round) {
    char text[160];
    int len = snprintf(text, sizeof(text),
                       "GET /%c%d HTTP/1.1\r\nHost: x\r\n\r\n"
                       "GET /%c%d HTTP/1.1\r\nHost: x\r\n\r\n",
                       first, round, second, round);

    assert_int_equal(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
}

static void expect(int fd, char name, int round) {
    char text[512] = "", wanted[32];
    size_t len = 0, wanted_len;

    wanted_len = (size_t)snprintf(wanted, sizeof(wanted), "\r\n\r\n/%c%d", name, round);
    while (len < wanted_len || strcmp(text + len - wanted_len, wanted) != 0) {
        ssize_t n = recv(fd, text + len, 1, 0);

        assert_int_equal(n, 1);
        len++;
        assert_true(len < sizeof(text) - 1);
    }
    assert_int_equal(strncmp(text, "HTTP/1.1 200 OK\r\n", 17), 0);
}

static void moves_connections_to_and_fro(void **state) {
    struct worker a, b;
    int fds[CLIENTS], fd;
    uint16_t port;

    (void)state;
    worker_init(&a, 'a', &b);
    worker_init(&b, 'b', &a);
    assert_int_equal(tdg__net_bind("127.0.0.1", 0, false, &fd, &port), 0);
    assert_int_equal(tdg__net_listen(a.net, fd, NULL), 0);
    worker_start(&a);
    worker_start(&b);
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = connect_to(port);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++)
            ask(fds[i], i % 2 == 0 ? 'b' : 'a', i % 2 == 0 ? 'a' : 'b', round);
        for (int i = 0; i < CLIENTS; i++) {
            expect(fds[i], i % 2 == 0 ? 'b' : 'a', round);
            expect(fds[i], i % 2 == 0 ? 'a' : 'b', round);
        }
    }
    for (int i = 0; i < CLIENTS; i += 2)
        close(fds[i]);
    worker_stop(&a);
    worker_stop(&b);
    worker_join(&a);
    worker_join(&b);
    worker_done(&a);
    worker_done(&b);
    for (int i = 1; i < CLIENTS; i += 2)
        close(fds[i]);
    assert_int_equal(a.closed + b.closed, CLIENTS);
    assert_true(a.moved + b.moved >= CLIENTS * ROUNDS);
    assert_int_equal(a.requests + b.requests, 2 * CLIENTS * ROUNDS + a.moved + b.moved);
}

/* Both are stopped in the middle of it: every connection ends, nothing is left. */
static void stops_while_connections_move(void **state) {
    struct worker a, b;
    int fds[CLIENTS], fd;
    uint16_t port;

    (void)state;
    worker_init(&a, 'a', &b);
    worker_init(&b, 'b', &a);
    assert_int_equal(tdg__net_bind("127.0.0.1", 0, false, &fd, &port), 0);
    assert_int_equal(tdg__net_listen(a.net, fd, NULL), 0);
    worker_start(&a);
    worker_start(&b);
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = connect_to(port);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < CLIENTS; i++)
            ask(fds[i], 'b', 'a', round);
    }
    expect(fds[0], 'b', 0);
    worker_stop(&b);
    worker_stop(&a);
    worker_join(&b);
    worker_join(&a);
    worker_done(&b);
    worker_done(&a);
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_connections_to_and_fro),
        cmocka_unit_test(stops_while_connections_move),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("net_threads", tests, NULL, NULL);
}
