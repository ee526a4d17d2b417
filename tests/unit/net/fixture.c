/* SPDX-License-Identifier: MIT */
#include "unit/net/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- The server --------------------------------------------------------- */

static void on_request(void *user, tdg__conn_t *conn,
                       const tdg__http_request_t *request) {
    struct world *world = user;
    char *here = __builtin_frame_address(0); /* a local may be elsewhere under ASan */

    world->requests++;
    if (world->lowest == NULL || here < world->lowest)
        world->lowest = here;
    if (world->highest == NULL || here > world->highest)
        world->highest = here;
    snprintf(world->path, sizeof(world->path), "%s", request->path);
    world->answer(world, conn, request);
}

static void on_drained(void *user, tdg__conn_t *conn) {
    struct world *world = user;

    (void)conn;
    world->drained++;
}

static void on_closed(void *user, tdg__conn_t *conn) {
    struct world *world = user;
    size_t kept = 0;

    world->closed++;
    for (size_t i = 0; i < world->held_count; i++) {
        if (world->held[i] != conn)
            world->held[kept++] = world->held[i];
    }
    world->held_count = kept;
}

static void on_half_closed(void *user, tdg__conn_t *conn) {
    struct world *world = user;

    (void)conn;
    world->half_closed++;
}

void answer_path(struct world *world, tdg__conn_t *conn,
                 const tdg__http_request_t *request) {
    (void)world;
    tdg__exchange_respond(tdg__conn_exchange(conn), 200, "text/plain", NULL,
                          request->path, strlen(request->path));
}

void answer_never(struct world *world, tdg__conn_t *conn,
                  const tdg__http_request_t *request) {
    (void)request;
    assert_true(world->held_count < MAX_HELD);
    world->held[world->held_count++] = conn;
}

void answer_stream(struct world *world, tdg__conn_t *conn,
                   const tdg__http_request_t *request) {
    if (tdg__exchange_begin(tdg__conn_exchange(conn), NULL, NULL, 0) != TDG_EENDED)
        answer_never(world, conn, request);
}

tdg__conn_t *unhold(struct world *world) {
    tdg__conn_t *conn = world->held[0];

    assert_true(world->held_count > 0);
    memmove(world->held, world->held + 1, --world->held_count * sizeof(world->held[0]));
    return conn;
}

/* ---- The world ---------------------------------------------------------- */

tdg__net_opts_t world_opts(struct world *world) {
    return (tdg__net_opts_t){
        .calls = {.request = on_request,
                  .drained = on_drained,
                  .closed = on_closed,
                  .half_closed = on_half_closed},
        .user = world,
        .limits = {.max_header_bytes = 16 * 1024,
                   .max_fields = 100,
                   .max_body_bytes = 1024 * 1024},
        .request_timeout_ms = 60000,
        .idle_timeout_ms = 60000,
        .write_timeout_ms = 60000,
        .max_connections = 10000,
    };
}

static void on_pulse(uv_timer_t *timer) {
    (void)timer;
}

void world_open(struct world *world, const tdg__net_opts_t *opts) {
    int fd;

    signal(SIGPIPE, SIG_IGN); /* libuv writes to sockets with write() */
    assert_int_equal(uv_loop_init(&world->loop), 0);
    assert_int_equal(uv_timer_init(&world->loop, &world->pulse), 0);
    assert_int_equal(uv_timer_start(&world->pulse, on_pulse, 1, 1), 0);
    assert_int_equal(tdg__net_create(&world->loop, opts, &world->net), 0);
    assert_int_equal(tdg__net_bind("127.0.0.1", 0, false, &fd, &world->port), 0);
    assert_int_equal(tdg__net_listen(world->net, fd, &world->tag), 0);
    if (world->answer == NULL)
        world->answer = answer_path;
}

static void on_net_done(void *arg) {
    struct world *world = arg;

    world->net_done = true;
}

void world_close_net(struct world *world) {
    tdg__net_close(world->net, on_net_done, world);
    world->net = NULL;
    RUN_UNTIL(world, world->net_done);
}

void world_close(struct world *world) {
    memory_fail(0, MEMORY_ONCE);
    if (world->net != NULL)
        world_close_net(world);
    uv_close((uv_handle_t *)&world->pulse, NULL);
    assert_int_equal(uv_run(&world->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&world->loop), 0);
    for (size_t i = 0; i < world->client_count; i++)
        client_close(&world->clients[i]);
}

static void client_read(struct client *client) {
    ssize_t n;

    while (client->fd >= 0 && !client->deaf && !client->eof && client->error == 0) {
        if (client->size - client->len < 65536) {
            client->size = client->size * 2 + 65536;
            client->data = realloc(client->data, client->size);
            assert_non_null(client->data);
        }
        n = recv(client->fd, client->data + client->len, client->size - client->len - 1,
                 MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0)
            client->error = errno;
        else if (n == 0)
            client->eof = true;
        else
            client->len += (size_t)n;
        client->data[client->len] = '\0';
    }
}

void world_step(struct world *world) {
    uv_run(&world->loop, UV_RUN_ONCE);
    for (size_t i = 0; i < world->client_count; i++)
        client_read(&world->clients[i]);
}

void world_run_ms(struct world *world, uint64_t ms) {
    uint64_t limit = uv_hrtime() + ms * 1000000;

    do
        world_step(world);
    while (uv_hrtime() < limit);
}

/* ---- Clients ------------------------------------------------------------ */

struct client *client_open(struct world *world) {
    struct client *client = &world->clients[world->client_count];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(world->port)};
    int flags;

    assert_true(world->client_count < MAX_CLIENTS);
    world->client_count++;
    *client = (struct client){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_true(client->fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(client->fd, (struct sockaddr *)&address, sizeof(address)),
                     0);
    flags = fcntl(client->fd, F_GETFL);
    assert_int_equal(fcntl(client->fd, F_SETFL, flags | O_NONBLOCK), 0);
    return client;
}

void client_send_bytes(struct world *world, struct client *client, const char *data,
                       size_t len) {
    uint64_t limit = uv_hrtime() + UINT64_C(1000000) * PATIENCE_MS;

    while (len > 0) {
        ssize_t n = send(client->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n > 0) {
            data += n;
            len -= (size_t)n;
        } else {
            assert_int_equal(errno, EAGAIN);
            assert_true(uv_hrtime() < limit);
            world_step(world);
        }
    }
}

void client_send(struct world *world, struct client *client, const char *text) {
    client_send_bytes(world, client, text, strlen(text));
}

void client_get(struct world *world, struct client *client, const char *path) {
    char text[256];

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    client_send(world, client, text);
}

void client_close(struct client *client) {
    if (client->fd >= 0)
        close(client->fd);
    free(client->data);
    *client = (struct client){.fd = -1};
}

void client_reset(struct client *client) {
    const struct linger now = {1, 0};

    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    client_close(client);
}

static void take(struct client *client, size_t len) {
    client->len -= len;
    memmove(client->data, client->data + len, client->len + 1);
}

static bool has_head(const struct client *client) {
    return client->len > 0 && strstr(client->data, "\r\n\r\n") != NULL;
}

void client_expect_head(struct world *world, struct client *client, int status,
                        struct reply *ret) {
    struct reply unused;
    size_t len;

    if (ret == NULL)
        ret = &unused;
    RUN_UNTIL(world, has_head(client) || client->eof || client->error != 0);
    assert_true(has_head(client));
    len = (size_t)(strstr(client->data, "\r\n\r\n") + 4 - client->data);
    assert_true(len < sizeof(ret->head));
    memcpy(ret->head, client->data, len);
    ret->head[len] = '\0';
    assert_int_equal(sscanf(ret->head, "HTTP/1.1 %d ", &ret->status), 1);
    take(client, len);
    if (status != 0)
        assert_int_equal(ret->status, status);
}

int client_reply(struct world *world, struct client *client, bool has_body,
                 struct reply *ret) {
    struct reply own;
    const char *length;
    size_t shown;

    if (ret == NULL)
        ret = &own;
    client_expect_head(world, client, 0, ret);
    length = strstr(ret->head, "Content-Length: ");
    ret->body_len = length == NULL || !has_body ? 0 : strtoul(length + 16, NULL, 10);
    RUN_UNTIL(world, client->len >= ret->body_len || client->eof || client->error != 0);
    assert_true(client->len >= ret->body_len);
    shown = ret->body_len < sizeof(ret->body) ? ret->body_len : sizeof(ret->body) - 1;
    memcpy(ret->body, client->data, shown);
    ret->body[shown] = '\0';
    take(client, ret->body_len);
    return ret->status;
}

void client_expect(struct world *world, struct client *client, const char *text) {
    size_t len = strlen(text);

    RUN_UNTIL(world, client->len >= len || client->eof || client->error != 0);
    assert_true(client->len >= len);
    assert_memory_equal(client->data, text, len);
    take(client, len);
}

void client_expect_end(struct world *world, struct client *client) {
    RUN_UNTIL(world, client->eof || client->error != 0 || client->len > 0);
    if (client->len > 0)
        print_error("came before the end: %s\n", client->data);
    assert_int_equal(client->len, 0);
    assert_int_equal(client->error, 0);
}

/* ---- Texts -------------------------------------------------------------- */

char *many_requests(size_t count) {
    char *text = malloc(count * 64 + 1);
    size_t len = 0;

    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        len +=
            (size_t)snprintf(text + len, 64, "GET /%zu HTTP/1.1\r\nHost: a\r\n\r\n", i);
    return text;
}

void expect_paths(struct world *w, struct client *c, size_t from, size_t to) {
    struct reply reply;
    char path[32];

    for (size_t i = from; i < to; i++) {
        assert_int_equal(client_reply(w, c, true, &reply), 200);
        snprintf(path, sizeof(path), "/%zu", i);
        assert_string_equal(reply.body, path);
    }
}

void answer_held_path(struct world *w, int number) {
    char path[32];
    int len = snprintf(path, sizeof(path), "/%d", number);

    tdg__exchange_respond(tdg__conn_exchange(unhold(w)), 200, "text/plain", NULL, path,
                          (size_t)len);
}

int flush(tdg__outlet_t *outlet, const char *text) {
    memcpy(tdg__net_scratch(outlet->net), text, strlen(text));
    return tdg__outlet_flush(outlet, strlen(text));
}

char *huge_body(void) {
    char *body = malloc(HUGE_BYTES);

    assert_non_null(body);
    for (size_t i = 0; i < HUGE_BYTES; i++)
        body[i] = (char)(i % 251);
    return body;
}

void is_huge(const char *data) {
    for (size_t i = 0; i < HUGE_BYTES; i++) {
        if (data[i] != (char)(i % 251))
            fail_msg("wrong byte at %zu", i);
    }
}
