/* SPDX-License-Identifier: MIT
 *
 * A load client is a process of its own that holds the streams to one server. It does
 * what it is told over a socket, and answers. It publishes, reads what comes out of the
 * streams, and finds in each event the number and the time of publishing ("seq" and "t").
 *
 * While it waits for events it asks the kernel again and again instead of sleeping:
 * waking it would be work that the server's send() does, and a client elsewhere costs no
 * such work. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fanout.h"

enum {
    READ_MAX = 262144,
    EVENT_MAX = 65536, /* of which the beginning has come */
    BATCH = 512,
    TIMEOUT_S = 30,
    ORDER_TIMEOUT_S = 600,
    PUBLISHER = INT32_MAX, /* in epoll, beside the numbers of streams */
};

enum order_kind { CONNECT, SIZE, DRIVE };

struct order {
    enum order_kind kind;
    uint32_t number;
    fanout_drive_t drive;
};

struct stream {
    int fd;
    uint32_t received; /* events in this drive */
    uint64_t sum;      /* of their numbers */
    uint64_t last;     /* number that was seen */
    char *rest;        /* the beginning of an event, or NULL */
    size_t rest_len;
};

struct client {
    fanout_server_t server;
    fanout_speech_t speech;
    uint32_t resources;
    int epoll;
    struct stream *streams;
    uint32_t stream_count;
    char *buffer; /* EVENT_MAX for the rest of last time, then READ_MAX */

    int publisher;     /* connection that publishes where lines do not; or -1 */
    size_t body_bytes; /* of the last message, and what the server put around it */
    size_t frame_bytes;
    size_t wish_bytes; /* on the wire; 0: as short as can be */

    uint64_t published;       /* since the start: the last number */
    uint64_t received, bytes; /* in this drive */
    size_t seq_hint;          /* where the last event had its number */
    uint64_t *times;          /* of events in this drive, or NULL */
};

/* ---- Events ------------------------------------------------------------- */

static uint64_t number_at(const char *at) {
    uint64_t number = 0;

    at += strspn(at, " \"");
    for (; *at >= '0' && *at <= '9'; at++)
        number = number * 10 + (uint64_t)(*at - '0');
    return number;
}

/* Where the number stands in the event, or NULL; mostly where it stood last time. */
static const char *find_number(struct client *client, const char *event, size_t len) {
    static const char key[] = "\"seq\":";
    const size_t key_len = sizeof(key) - 1;
    const char *at;

    if (client->seq_hint + key_len < len &&
        memcmp(event + client->seq_hint, key, key_len) == 0)
        return event + client->seq_hint + key_len;
    at = memmem(event, len, key, key_len);
    if (at == NULL)
        return NULL;
    client->seq_hint = (size_t)(at - event);
    return at + key_len;
}

static void on_event(struct client *client, struct stream *stream, const char *event,
                     size_t len) {
    const char *at, *time;
    uint64_t number;

    if (len > 2 && event[0] == '\r') { /* the end of the chunk before */
        event += 2;
        len -= 2;
    }
    at = find_number(client, event, len);
    if (at == NULL)
        return; /* an acknowledgement, a sign of life */
    number = number_at(at);
    if (client->resources == 1 && number <= stream->last)
        bench_fail("%s: number %llu came after %llu",
                   fanout_peer_names[client->server.peer], (unsigned long long)number,
                   (unsigned long long)stream->last);
    stream->last = number;
    stream->sum += number;
    stream->received++;

    if (client->times != NULL) {
        time = memmem(at, len - (size_t)(at - event), "\"t\":", 4);
        client->times[client->received] =
            time != NULL ? bench_now_ns() - number_at(time + 4) : 0;
    }
    client->received++;
}

static void keep_rest(struct stream *stream, const char *rest, size_t len) {
    if (len > EVENT_MAX)
        bench_fail("an event is too long");
    /* The end of a chunk belongs to no event. */
    if (len == 0 || (len == 2 && memcmp(rest, "\r\n", 2) == 0)) {
        stream->rest_len = 0;
        return;
    }
    if (stream->rest == NULL)
        stream->rest = bench_alloc(1, EVENT_MAX);
    memcpy(stream->rest, rest, len);
    stream->rest_len = len;
}

/* Reads what there is, and returns whether there may be more. */
static bool read_stream(struct client *client, struct stream *stream) {
    char *read_at = client->buffer + EVENT_MAX, *start = read_at - stream->rest_len, *end,
         *at = read_at;
    ssize_t got = recv(stream->fd, read_at, READ_MAX, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0)
        bench_fail("%s closed a stream", fanout_peer_names[client->server.peer]);
    client->bytes += (uint64_t)got;
    end = read_at + got;
    *end = '\0'; /* numbers end somewhere */
    if (stream->rest_len > 0) {
        memcpy(start, stream->rest, stream->rest_len);
        at--; /* the first line feed of two may be there already */
    }

    while (at < end && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        if (at + 1 < end && at[1] == '\n') {
            on_event(client, stream, start, (size_t)(at - start));
            start = ++at + 1;
        }
        at++;
    }
    keep_rest(stream, start, (size_t)(end - start));
    return got == READ_MAX;
}

/* Answers to what was published: not of interest. */
static void read_publisher(struct client *client) {
    while (recv(client->publisher, client->buffer, READ_MAX, MSG_DONTWAIT) > 0)
        ;
}

static void turn(struct client *client, int timeout_ms) {
    struct epoll_event events[BATCH];
    int count = epoll_wait(client->epoll, events, BATCH, timeout_ms);

    for (int i = 0; i < count; i++) {
        if (events[i].data.u32 == PUBLISHER)
            read_publisher(client);
        else
            while (read_stream(client, &client->streams[events[i].data.u32]))
                ;
    }
}

/* ---- Publishing --------------------------------------------------------- */

/* Appends a request that publishes one message to `text`. Returns its length. */
static size_t put_post(struct client *client, char *text, size_t size) {
    char body[EVENT_MAX / 8];
    size_t len = (size_t)snprintf(
        body, sizeof(body), "{\"seq\":%llu,\"t\":%llu,\"pad\":\"",
        (unsigned long long)++client->published, (unsigned long long)bench_now_ns());

    while (len + 2 + client->frame_bytes < client->wish_bytes && len + 3 < sizeof(body))
        body[len++] = '.';
    memcpy(body + len, "\"}", 3);
    client->body_bytes = len + 2;
    return (size_t)snprintf(text, size,
                            "POST /publish HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Type: application/json\r\n"
                            "Content-Length: %zu\r\n\r\n%s",
                            client->body_bytes, body);
}

static void post_messages(struct client *client, uint32_t count) {
    char text[EVENT_MAX * 2];
    size_t len = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (sizeof(text) - len < EVENT_MAX / 4)
            bench_fail("too many messages at once");
        len += put_post(client, text + len, sizeof(text) - len);
    }
    bench_send_all(client->publisher, text, len);
}

static void publish(struct client *client, uint32_t count) {
    char line[64];
    int len;

    if (client->publisher >= 0) {
        post_messages(client, count);
        return;
    }
    client->published += count;
    len = snprintf(line, sizeof(line), "publish %u\n", count);
    bench_send_all(client->server.child.input, line, (size_t)len);
}

/* ---- Orders ------------------------------------------------------------- */

static void add_stream(struct client *client) {
    uint32_t index = client->stream_count;
    int fd = fanout_speak(client->speech, client->server.port, client->resources);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = index};

    client->streams[index].fd = fd;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (epoll_ctl(client->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        bench_fail("epoll: %s", strerror(errno));
    client->stream_count++;
}

static void connect_streams(struct client *client, uint32_t count) {
    client->streams = realloc(client->streams, count * sizeof(client->streams[0]));
    if (client->streams == NULL)
        bench_fail("out of memory");
    memset(client->streams + client->stream_count, 0,
           (count - client->stream_count) * sizeof(client->streams[0]));
    while (client->stream_count < count)
        add_stream(client);
}

static void set_size(struct client *client, uint32_t bytes) {
    char line[64];
    int len = snprintf(line, sizeof(line), "size %u\n", bytes);

    client->wish_bytes = bytes;
    if (client->publisher < 0)
        bench_send_all(client->server.child.input, line, (size_t)len);
}

/* Everybody got each update once: so many, and the sum of their numbers is right. */
static void check_streams(const struct client *client, uint64_t first, uint32_t count) {
    uint64_t sum = (uint64_t)count * first + (uint64_t)count * (count - 1) / 2;

    for (uint32_t i = 0; i < client->stream_count; i++)
        if (client->streams[i].received != count || client->streams[i].sum != sum)
            bench_fail("%s: stream %u got %u of %u updates%s",
                       fanout_peer_names[client->server.peer], i,
                       client->streams[i].received, count,
                       client->streams[i].received == count ? ", not the right ones"
                                                            : "");
}

static void await_all(struct client *client, uint64_t count) {
    uint64_t deadline = bench_now_ns() + TIMEOUT_S * UINT64_C(1000000000);

    while (client->received < count) {
        turn(client, 0);
        if (bench_now_ns() > deadline)
            bench_fail("%s: lost: %llu of %llu updates arrived",
                       fanout_peer_names[client->server.peer],
                       (unsigned long long)client->received, (unsigned long long)count);
    }
}

static uint64_t server_cpu(const struct client *client) {
    return bench_process_cpu_ns(client->server.child.pid) +
           bench_process_cpu_ns(client->server.worker);
}

static void drive(struct client *client, const fanout_drive_t *order,
                  fanout_driven_t *ret) {
    uint32_t each = order->updates * order->burst;
    uint64_t all = (uint64_t)each * client->stream_count, first = client->published + 1;
    uint64_t start, cpu, next, wall;

    if (order->interval_us > 0)
        client->times = bench_alloc(all + 1, sizeof(client->times[0]));
    client->received = client->bytes = 0;
    for (uint32_t i = 0; i < client->stream_count; i++)
        client->streams[i].received = 0, client->streams[i].sum = 0;

    cpu = server_cpu(client);
    start = next = bench_now_ns();
    for (uint64_t i = 1; i <= order->updates; i++) {
        while (bench_now_ns() < next)
            turn(client, 0);
        publish(client, order->burst);
        await_all(client, i * order->burst * client->stream_count);
        next += order->interval_us * UINT64_C(1000);
    }
    wall = bench_now_ns() - start;
    cpu = server_cpu(client) - cpu;
    check_streams(client, first, each);

    *ret = (fanout_driven_t){.deliveries = all,
                             .cpu_ns = (double)cpu / (double)all,
                             .wall_ns = (double)wall / (double)all,
                             .bytes = (double)client->bytes / (double)all};
    if (client->times != NULL) {
        bench_spread_t spread = bench_spread(client->times, all);

        ret->p50 = spread.p50;
        ret->p99 = spread.p99;
        free(client->times);
        client->times = NULL;
    }
}

static void open_publisher(struct client *client) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = PUBLISHER};

    client->publisher = fanout_connect(client->server.port);
    if (client->publisher < 0 ||
        epoll_ctl(client->epoll, EPOLL_CTL_ADD, client->publisher, &event) < 0)
        bench_fail("cannot connect to publish: %s", strerror(errno));
}

_Noreturn static void serve_orders(struct client *client, int channel) {
    struct order order;

    while (recv(channel, &order, sizeof(order), 0) == (ssize_t)sizeof(order)) {
        fanout_driven_t driven = {0};

        switch (order.kind) {
        case CONNECT:
            connect_streams(client, order.number);
            break;
        case SIZE:
            set_size(client, order.number);
            break;
        case DRIVE:
            drive(client, &order.drive, &driven);
            if (client->publisher >= 0)
                client->frame_bytes = (size_t)driven.bytes - client->body_bytes;
            break;
        }
        if (send(channel, &driven, sizeof(driven), MSG_NOSIGNAL) < 0)
            break;
    }
    _exit(0);
}

/* ---- From outside ------------------------------------------------------- */

void fanout_load_start(fanout_load_t *load, const fanout_server_t *server,
                       fanout_speech_t speech, uint32_t resources) {
    struct client client = {
        .server = *server, .speech = speech, .resources = resources, .publisher = -1};
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        bench_fail("cannot make a pair of sockets: %s", strerror(errno));
    load->pid = fork();
    if (load->pid < 0)
        bench_fail("cannot start a load client: %s", strerror(errno));
    if (load->pid > 0) {
        close(pair[1]);
        load->channel = pair[0];
        return;
    }

    close(pair[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    bench_pin(FANOUT_LOAD_CORE);
    client.epoll = epoll_create1(EPOLL_CLOEXEC);
    client.buffer = bench_alloc(1, EVENT_MAX + READ_MAX + 1);
    if (client.epoll < 0)
        bench_fail("epoll: %s", strerror(errno));
    if (server->child.input < 0)
        open_publisher(&client);
    serve_orders(&client, pair[1]);
}

static void tell(const fanout_load_t *load, const struct order *order,
                 fanout_driven_t *ret) {
    struct pollfd polled = {.fd = load->channel, .events = POLLIN};

    if (!bench_interrupted &&
        send(load->channel, order, sizeof(*order), MSG_NOSIGNAL) < 0)
        bench_fail("the load client has gone");
    if (bench_interrupted || (poll(&polled, 1, ORDER_TIMEOUT_S * 1000) < 0))
        bench_fail("interrupted");
    if (polled.revents == 0)
        bench_fail("the load client does not answer");
    if (recv(load->channel, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
        bench_fail("the load client gave up");
}

void fanout_load_connect(const fanout_load_t *load, uint32_t streams) {
    fanout_driven_t ignored;

    tell(load, &(struct order){.kind = CONNECT, .number = streams}, &ignored);
}

void fanout_load_size(const fanout_load_t *load, uint32_t bytes) {
    fanout_driven_t ignored;

    tell(load, &(struct order){.kind = SIZE, .number = bytes}, &ignored);
}

void fanout_load_drive(const fanout_load_t *load, const fanout_drive_t *drive_order,
                       fanout_driven_t *ret) {
    tell(load, &(struct order){.kind = DRIVE, .drive = *drive_order}, ret);
}

void fanout_load_stop(fanout_load_t *load) {
    if (load->pid <= 0)
        return;
    close(load->channel);
    kill(load->pid, SIGKILL);
    waitpid(load->pid, NULL, 0);
    load->pid = 0;
}
