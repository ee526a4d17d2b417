/* SPDX-License-Identifier: MIT
 *
 * A server that costs its client nothing: it knows as much MCP over HTTP as a client
 * needs for subscribing, in both eras, and then writes updates as fast as they are taken.
 * They are encoded beforehand, one per resource in turn, as tidings encodes them; only
 * the numbers that have to grow are written anew. So what is measured is the client. (A
 * real server merges updates that its client is too slow for: nothing to count, then.)
 *
 * It is for a client that behaves. Lines on its input:
 *   flood MS     writes to the newest stream for so long; answers "sent COUNT"
 *   cut COUNT    closes everything and forgets the session; answers "back" once there is
 * a stream again, and so many subscriptions GET /raw/COUNT is a stream for who speaks no
 * MCP, with so many resources. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <jansson.h>

#include "../common.h"
#include "../process.h"

enum {
    MAX_CONNS = 512,
    MAX_INPUT = 8 << 20,
    CHUNK_UPDATES = 128, /* that leave in one write, some 60 KiB */
    MAX_UPDATE = 640,
    DIGITS = 13, /* of a number, from the first one on */
    TIMEOUT_S = 30,
};

#define EPOCH "6e9bcb76f8024891"
static const uint64_t first_number = UINT64_C(1000000000000);

struct conn {
    int fd; /* -1: free */
    char *in;
    size_t len, room;
};

/* One write: CHUNK_UPDATES updates, or fewer at the end of a turn. */
struct chunk {
    char *text;
    size_t len;
    size_t updates;
    size_t *numbers; /* where they are, `per_update` of each update in turn */
};

static struct {
    struct conn conns[MAX_CONNS];
    int stream;  /* the newest one: a descriptor, or -1 */
    bool legacy; /* the stream is */
    char *id;    /* of the listen, as JSON */
    char session[32];
    unsigned sessions;
    size_t subscribed; /* through the session, or by the listen */
    size_t resources;  /* whose updates are encoded */
    size_t awaited;    /* subscriptions; 0: nobody waits */

    struct chunk *chunks;
    size_t chunk_count, next_chunk, per_update;
    uint64_t number;
} flood = {.stream = -1};

/* ---- Updates ------------------------------------------------------------ */

static void forget_chunks(void) {
    for (size_t i = 0; i < flood.chunk_count; i++) {
        free(flood.chunks[i].text);
        free(flood.chunks[i].numbers);
    }
    free(flood.chunks);
    flood.chunks = NULL;
    flood.chunk_count = flood.next_chunk = 0;
}

/* Appends to the chunk; a "#" is a place for a number. */
static void put(struct chunk *chunk, size_t *numbers, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text != '#') {
            chunk->text[chunk->len++] = *text;
            continue;
        }
        chunk->numbers[(*numbers)++] = chunk->len;
        memset(chunk->text + chunk->len, '0', DIGITS);
        chunk->len += DIGITS;
    }
}

static void put_update(struct chunk *chunk, size_t *numbers, size_t resource) {
    static const char metadata[] =
        "{\"seq\":2,\"t\":36176413230374,\"updated_at\":1794809725173,"
        "\"change_type\":\"content_update\",\"version\":18}";
    char text[MAX_UPDATE], own[128] = "";

    if (!flood.legacy)
        snprintf(own, sizeof(own), ",\"io.modelcontextprotocol/subscriptionId\":%s",
                 flood.id);
    snprintf(text, sizeof(text),
             "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\","
             "\"params\":{\"uri\":\"bench://resource/%zu\",\"metadata\":%s,"
             "\"_meta\":{\"dev.tidings/version\":#,\"dev.tidings/metadata\":%s,"
             "\"dev.tidings/cursor\":\"" EPOCH "-#\"%s}}}\n%s\n",
             resource, metadata, metadata, own,
             flood.legacy ? "id: g1.1." EPOCH "-#\n" : "");
    put(chunk, numbers, text);
}

static void encode_chunk(struct chunk *chunk, size_t first, size_t count) {
    size_t numbers = 0, head = 0;
    char size[16];

    chunk->updates = count;
    chunk->text = bench_alloc(count + 1, MAX_UPDATE);
    chunk->numbers = bench_alloc(count * flood.per_update, sizeof(chunk->numbers[0]));
    head = chunk->len = 6; /* the size in four digits, and its CRLF */
    for (size_t i = 0; i < count; i++)
        put_update(chunk, &numbers, (first + i) % flood.resources);
    snprintf(size, sizeof(size), "%04zx\r\n", chunk->len - head);
    memcpy(chunk->text, size, head);
    memcpy(chunk->text + chunk->len, "\r\n", 2);
    chunk->len += 2;
}

/* All resources in turn, several times where there are few. */
static void encode(void) {
    size_t turns, updates;

    forget_chunks();
    flood.resources = flood.subscribed > 0 ? flood.subscribed : 1;
    flood.per_update = flood.legacy ? 3 : 2;
    turns = (CHUNK_UPDATES + flood.resources - 1) / flood.resources;
    updates = turns * flood.resources;
    flood.chunks = bench_alloc(updates / CHUNK_UPDATES + 1, sizeof(flood.chunks[0]));
    for (size_t first = 0; first < updates; first += CHUNK_UPDATES)
        encode_chunk(&flood.chunks[flood.chunk_count++], first,
                     updates - first < CHUNK_UPDATES ? updates - first : CHUNK_UPDATES);
}

static void write_numbers(struct chunk *chunk) {
    const size_t *place = chunk->numbers;
    char digits[32];

    for (size_t i = 0; i < chunk->updates; i++) {
        uint64_t rest = first_number + ++flood.number;

        for (int k = DIGITS; k-- > 0; rest /= 10)
            digits[k] = (char)('0' + rest % 10);
        for (size_t k = 0; k < flood.per_update; k++)
            memcpy(chunk->text + *place++, digits, DIGITS);
    }
}

static void run_flood(unsigned ms) {
    uint64_t until = bench_now_ns() + ms * (uint64_t)1000000;
    size_t sent = 0;

    if (flood.stream < 0)
        bench_fail("there is no stream to write to");
    if (flood.chunks == NULL)
        encode();
    do {
        struct chunk *chunk = &flood.chunks[flood.next_chunk];

        flood.next_chunk = (flood.next_chunk + 1) % flood.chunk_count;
        write_numbers(chunk);
        bench_send_all(flood.stream, chunk->text, chunk->len);
        sent += chunk->updates;
    } while (bench_now_ns() < until);
    printf("sent %zu\n", sent);
    fflush(stdout);
}

/* ---- Connections -------------------------------------------------------- */

static void close_conn(struct conn *conn) {
    if (conn->fd == flood.stream)
        flood.stream = -1;
    close(conn->fd);
    conn->fd = -1;
    free(conn->in);
    conn->in = NULL;
    conn->len = conn->room = 0;
}

static void accept_conn(int listener) {
    struct timeval timeout = {.tv_sec = TIMEOUT_S};
    int fd = accept(listener, NULL, NULL), on = 1;
    size_t i = 0;

    if (fd < 0)
        return;
    while (i < MAX_CONNS && flood.conns[i].fd >= 0)
        i++;
    if (i == MAX_CONNS)
        bench_fail("too many connections");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    flood.conns[i].fd = fd;
}

static void note_back(void) {
    if (flood.awaited == 0 || flood.stream < 0 || flood.subscribed < flood.awaited)
        return;
    flood.awaited = 0;
    printf("back\n");
    fflush(stdout);
}

static void cut(size_t awaited) {
    flood.awaited = awaited;
    flood.subscribed = 0;
    flood.session[0] = '\0';
    for (size_t i = 0; i < MAX_CONNS; i++)
        if (flood.conns[i].fd >= 0)
            close_conn(&flood.conns[i]);
}

/* ---- Answers ------------------------------------------------------------ */

struct request {
    const char *method, *path; /* not ended by NUL */
    const char *session;       /* not ended by NUL, or NULL */
    const char *body;
    size_t body_len;
};

static void answer(struct conn *conn, const char *status, const char *headers,
                   const char *body) {
    size_t size = strlen(body) + strlen(headers) + 256;
    char *text = bench_alloc(1, size);
    int len = snprintf(text, size,
                       "HTTP/1.1 %s\r\nConnection: keep-alive\r\n%s"
                       "Content-Length: %zu\r\n\r\n%s",
                       status, headers, strlen(body), body);

    bench_send_all(conn->fd, text, (size_t)len);
    free(text);
}

static void answer_result(struct conn *conn, const char *headers, const char *id,
                          const char *result) {
    char text[1024], all[256];

    snprintf(all, sizeof(all), "Content-Type: application/json\r\n%s", headers);
    snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", id,
             result);
    answer(conn, "200 OK", all, text);
}

static void begin_stream(struct conn *conn, bool legacy) {
    static const char head[] = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"
                               "Content-Type: text/event-stream\r\n"
                               "Cache-Control: no-cache, no-transform\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";

    bench_send_all(conn->fd, head, sizeof(head) - 1);
    flood.stream = conn->fd;
    flood.legacy = legacy;
    forget_chunks();
}

static void on_discover(struct conn *conn, const char *id, const json_t *params) {
    (void)params;
    answer_result(conn, "", id,
                  "{\"supportedVersions\":[\"2026-07-28\",\"2025-11-25\"],"
                  "\"capabilities\":{\"resources\":{\"subscribe\":true}},"
                  "\"resultType\":\"complete\",\"_meta\":{\"io.modelcontextprotocol/"
                  "serverInfo\":{\"name\":\"flood\",\"version\":\"1\"}},\"ttlMs\":0,"
                  "\"cacheScope\":\"public\"}");
}

static void on_initialize(struct conn *conn, const char *id, const json_t *params) {
    char header[80];

    (void)params;
    snprintf(flood.session, sizeof(flood.session), "session-%u", ++flood.sessions);
    snprintf(header, sizeof(header), "Mcp-Session-Id: %s\r\n", flood.session);
    answer_result(conn, header, id,
                  "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"resources\":"
                  "{\"subscribe\":true}},\"serverInfo\":{\"name\":\"flood\","
                  "\"version\":\"1\"}}");
}

static void on_subscribe(struct conn *conn, const char *id, const json_t *params) {
    (void)params;
    answer_result(conn, "", id, "{}");
    flood.subscribed++;
    forget_chunks();
    note_back();
}

static void on_unsubscribe(struct conn *conn, const char *id, const json_t *params) {
    (void)params;
    answer_result(conn, "", id, "{}");
}

static void on_listen(struct conn *conn, const char *id, const json_t *params) {
    json_t *wanted = json_object_get(params, "notifications");
    json_t *uris = json_object_get(wanted, "resourceSubscriptions");
    json_t *about = json_loads(id, JSON_DECODE_ANY, NULL);
    json_t *ack =
        json_pack("{s:s, s:s, s:{s:O, s:{s:s, s:o}}}", "jsonrpc", "2.0", "method",
                  "notifications/subscriptions/acknowledged", "params", "notifications",
                  wanted, "_meta", "dev.tidings/cursor", EPOCH "-1",
                  "io.modelcontextprotocol/subscriptionId", about);
    char *text = ack != NULL ? json_dumps(ack, JSON_COMPACT) : NULL;
    char size[32];

    if (text == NULL)
        bench_fail("a listen that cannot be answered");
    begin_stream(conn, false);
    snprintf(size, sizeof(size), "%zx\r\ndata: ", strlen(text) + 8);
    bench_send_all(conn->fd, size, strlen(size));
    bench_send_all(conn->fd, text, strlen(text));
    bench_send_all(conn->fd, "\n\n\r\n", 4);
    free(text);
    json_decref(ack);

    free(flood.id);
    flood.id = strdup(id);
    flood.subscribed = json_array_size(uris);
    note_back();
}

static const struct method {
    const char *name;
    void (*handle)(struct conn *conn, const char *id, const json_t *params);
    bool in_session;
} methods[] = {
    {"server/discover", on_discover, false},
    {"initialize", on_initialize, false},
    {"resources/subscribe", on_subscribe, true},
    {"resources/unsubscribe", on_unsubscribe, true},
    {"subscriptions/listen", on_listen, false},
};

static bool in_session(const struct request *request) {
    size_t len = strlen(flood.session);

    return len > 0 && request->session != NULL &&
           strncmp(request->session, flood.session, len) == 0;
}

static void on_post(struct conn *conn, const struct request *request) {
    json_t *message = json_loadb(request->body, request->body_len, 0, NULL);
    const char *name = json_string_value(json_object_get(message, "method"));
    json_t *id_value = json_object_get(message, "id");
    char *id = id_value != NULL ? json_dumps(id_value, JSON_ENCODE_ANY) : NULL;
    size_t i = 0;

    while (i < sizeof(methods) / sizeof(methods[0]) && name != NULL &&
           strcmp(methods[i].name, name) != 0)
        i++;
    if (name == NULL || id == NULL)
        answer(conn, "202 Accepted", "", "");
    else if (i == sizeof(methods) / sizeof(methods[0]))
        bench_fail("a client asks for %s", name);
    else if (methods[i].in_session && !in_session(request))
        answer(conn, "404 Not Found", "", "");
    else
        methods[i].handle(conn, id, json_object_get(message, "params"));
    free(id);
    json_decref(message);
}

static void on_get(struct conn *conn, const struct request *request) {
    unsigned resources;

    if (sscanf(request->path, "/raw/%u", &resources) == 1) {
        flood.subscribed = resources;
        begin_stream(conn, true);
    } else if (in_session(request)) {
        begin_stream(conn, true);
        note_back();
    } else {
        answer(conn, "404 Not Found", "", "");
    }
}

/* ---- Requests ----------------------------------------------------------- */

static const char *field_of(const char *head, const char *end, const char *name) {
    size_t len = strlen(name);
    const char *line = strstr(head, "\r\n");

    for (; line != NULL && line < end; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, len) == 0 && line[2 + len] == ':')
            return line + 3 + len + strspn(line + 3 + len, " ");
    return NULL;
}

/* Takes one whole request from the connection's input; false: there is none yet. */
static bool take_request(struct conn *conn) {
    const char *end = strstr(conn->in, "\r\n\r\n"), *length;
    struct request request = {.method = conn->in};
    size_t head, body;

    if (end == NULL)
        return false;
    head = (size_t)(end + 4 - conn->in);
    length = field_of(conn->in, end, "Content-Length");
    body = length != NULL ? strtoul(length, NULL, 10) : 0;
    if (conn->len < head + body)
        return false;

    request.path = conn->in + strcspn(conn->in, " ") + 1;
    request.session = field_of(conn->in, end, "Mcp-Session-Id");
    request.body = conn->in + head;
    request.body_len = body;
    if (strncmp(request.method, "POST", 4) == 0)
        on_post(conn, &request);
    else if (strncmp(request.method, "GET", 3) == 0)
        on_get(conn, &request);
    else
        answer(conn, "200 OK", "", ""); /* DELETE */

    conn->len -= head + body;
    memmove(conn->in, conn->in + head + body, conn->len + 1);
    return true;
}

static void receive(struct conn *conn) {
    ssize_t got;

    if (conn->room - conn->len < 65536) {
        conn->room = conn->room * 2 + 131072;
        conn->in = conn->room <= MAX_INPUT ? realloc(conn->in, conn->room) : NULL;
        if (conn->in == NULL)
            bench_fail("a request is too large");
    }
    got = recv(conn->fd, conn->in + conn->len, conn->room - conn->len - 1, 0);
    if (got <= 0) {
        close_conn(conn);
        return;
    }
    conn->len += (size_t)got;
    conn->in[conn->len] = '\0';
    while (conn->fd >= 0 && take_request(conn))
        ;
}

/* ---- Commands ----------------------------------------------------------- */

static bool obey(void) {
    char line[128];
    unsigned value;

    if (fgets(line, sizeof(line), stdin) == NULL)
        return false;
    if (sscanf(line, "flood %u", &value) == 1)
        run_flood(value);
    else if (sscanf(line, "cut %u", &value) == 1)
        cut(value);
    return true;
}

static int listen_somewhere(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 ||
        listen(fd, 1024) < 0 || getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        bench_fail("cannot listen: %s", strerror(errno));
    printf("port %u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(void) {
    struct pollfd polled[MAX_CONNS + 2];
    int listener;

    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdin, NULL, _IONBF, 0); /* a line that waits is seen by poll() */
    for (size_t i = 0; i < MAX_CONNS; i++)
        flood.conns[i].fd = -1;
    listener = listen_somewhere();
    for (;;) {
        polled[0] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
        polled[1] = (struct pollfd){.fd = listener, .events = POLLIN};
        for (size_t i = 0; i < MAX_CONNS; i++)
            polled[i + 2] = (struct pollfd){.fd = flood.conns[i].fd, .events = POLLIN};
        if (poll(polled, MAX_CONNS + 2, -1) < 0)
            bench_fail("poll: %s", strerror(errno));
        for (size_t i = 0; i < MAX_CONNS; i++)
            if (polled[i + 2].revents != 0 && polled[i + 2].fd == flood.conns[i].fd)
                receive(&flood.conns[i]);
        if (polled[1].revents != 0)
            accept_conn(listener);
        if (polled[0].revents != 0 && !obey())
            return 0;
    }
}
