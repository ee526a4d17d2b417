/* SPDX-License-Identifier: MIT
 *
 * Opens streams, one after the other and waiting for each answer: simple, and it shows
 * the server's memory without a crowd of half-open requests. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "fanout.h"

enum { REPLY_MAX = 65536, REQUEST_MAX = 16384, TIMEOUT_S = 30 };

#define MODERN_VERSION "2026-07-28"
#define LEGACY_VERSION "2025-11-25"

struct reply {
    char text[REPLY_MAX];
    size_t len;
    size_t head; /* bytes of the header block; 0: not complete yet */
    int status;
};

int fanout_connect(uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval timeout = {.tv_sec = TIMEOUT_S};
    struct linger reset = {.l_onoff = 1}; /* leaves no port behind in TIME_WAIT */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0)
        bench_fail("cannot open a socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* ---- Replies ------------------------------------------------------------ */

/* The value of a header field, or NULL. */
static const char *field_of(const struct reply *reply, const char *name) {
    const char *line = strstr(reply->text, "\r\n");
    size_t len = strlen(name);

    for (; line != NULL && line < reply->text + reply->head;
         line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1 + strspn(line + len + 1, " ");
    }
    return NULL;
}

static bool chunked(const struct reply *reply) {
    const char *encoding = field_of(reply, "Transfer-Encoding");

    return encoding != NULL && strncasecmp(encoding, "chunked", 7) == 0;
}

/* Whether the whole answer is there. Nothing follows it: there is no pipelining here. */
static bool complete(const struct reply *reply) {
    const char *length = field_of(reply, "Content-Length");

    if (chunked(reply))
        return reply->len >= reply->head + 5 &&
               memcmp(reply->text + reply->len - 5, "0\r\n\r\n", 5) == 0;
    return length == NULL ||
           reply->len >= reply->head + (size_t)strtoul(length, NULL, 10);
}

static void receive(int fd, struct reply *reply) {
    ssize_t got;

    if (reply->len == REPLY_MAX - 1)
        bench_fail("an answer is too long");
    got = recv(fd, reply->text + reply->len, REPLY_MAX - 1 - reply->len, 0);
    if (got <= 0)
        bench_fail("the server closed or was silent for too long; it said: %.*s",
                   (int)reply->len, reply->text);
    reply->len += (size_t)got;
    reply->text[reply->len] = '\0';
    if (reply->head == 0) {
        const char *end = strstr(reply->text, "\r\n\r\n");

        if (end != NULL) {
            reply->head = (size_t)(end + 4 - reply->text);
            reply->status = atoi(reply->text + strcspn(reply->text, " "));
        }
    }
}

static void receive_head(int fd, struct reply *reply) {
    reply->len = reply->head = 0;
    while (reply->head == 0)
        receive(fd, reply);
    if (reply->status / 100 != 2)
        bench_fail("the server refused: %.*s", (int)reply->len, reply->text);
}

/* ---- Requests ----------------------------------------------------------- */

static void post(int fd, const char *headers, const char *body) {
    char request[REQUEST_MAX];
    int len = snprintf(request, sizeof(request),
                       "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
                       "Content-Type: application/json\r\n"
                       "Accept: application/json, text/event-stream\r\n"
                       "%sContent-Length: %zu\r\n\r\n%s",
                       headers, strlen(body), body);

    if (len < 0 || (size_t)len >= sizeof(request))
        bench_fail("a request is too long");
    bench_send_all(fd, request, (size_t)len);
}

static void call(int fd, const char *headers, const char *body, struct reply *reply) {
    post(fd, headers, body);
    receive_head(fd, reply);
    while (!complete(reply))
        receive(fd, reply);
    if (strstr(reply->text + reply->head, "\"error\"") != NULL)
        bench_fail("the server refused: %s", reply->text + reply->head);
}

static void speak_eventsource(int fd, struct reply *reply) {
    static const char request[] = "GET /news HTTP/1.1\r\nHost: localhost\r\n"
                                  "Accept: text/event-stream\r\n\r\n";

    bench_send_all(fd, request, sizeof(request) - 1);
    receive_head(fd, reply);
}

static void speak_legacy(int fd, uint32_t resources, struct reply *reply) {
    char headers[512], body[1024];
    const char *session;

    call(fd, "",
         "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{"
         "\"protocolVersion\":\"" LEGACY_VERSION "\",\"capabilities\":{},"
         "\"clientInfo\":{\"name\":\"fanout\",\"version\":\"1\"}}}",
         reply);
    session = field_of(reply, "Mcp-Session-Id");
    if (session == NULL)
        bench_fail("the server opened no session: %s", reply->text);
    snprintf(headers, sizeof(headers),
             "Mcp-Session-Id: %.*s\r\nMCP-Protocol-Version: " LEGACY_VERSION "\r\n",
             (int)strcspn(session, "\r"), session);

    call(fd, headers, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
         reply);
    for (uint32_t i = 0; i < resources; i++) {
        snprintf(body, sizeof(body),
                 "{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"resources/subscribe\","
                 "\"params\":{\"uri\":\"bench://resource/%u\"}}",
                 i + 2, i);
        call(fd, headers, body, reply);
    }

    snprintf(body, sizeof(body),
             "GET /mcp HTTP/1.1\r\nHost: localhost\r\n"
             "Accept: text/event-stream\r\n%s\r\n",
             headers);
    bench_send_all(fd, body, strlen(body));
    receive_head(fd, reply);
}

static void speak_modern(int fd, uint32_t resources, struct reply *reply) {
    char body[8192];
    size_t len = (size_t)snprintf(
        body, sizeof(body),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{"
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" MODERN_VERSION "\","
        "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"fanout\",\"version\":\"1\"},"
        "\"io.modelcontextprotocol/clientCapabilities\":{}},"
        "\"notifications\":{\"resourceSubscriptions\":[");

    for (uint32_t i = 0; i < resources && len < sizeof(body) - 64; i++)
        len += (size_t)snprintf(body + len, sizeof(body) - len,
                                "%s\"bench://resource/%u\"", i > 0 ? "," : "", i);
    snprintf(body + len, sizeof(body) - len, "]}}}");

    post(fd,
         "MCP-Protocol-Version: " MODERN_VERSION "\r\n"
         "Mcp-Method: subscriptions/listen\r\n",
         body);
    receive_head(fd, reply);
    while (strstr(reply->text, "subscriptions/acknowledged") == NULL ||
           strcmp(reply->text + reply->len - 2, "\r\n") != 0)
        receive(fd, reply);
}

int fanout_speak(fanout_speech_t speech, uint16_t port, uint32_t resources) {
    static struct reply reply;
    int fd = fanout_connect(port);

    if (fd < 0)
        bench_fail("cannot connect: %s", strerror(errno));
    switch (speech) {
    case SPEAK_ABSENT:
    case SPEAK_NOTHING:
        break;
    case SPEAK_EVENTSOURCE:
        speak_eventsource(fd, &reply);
        break;
    case SPEAK_LEGACY:
        speak_legacy(fd, resources, &reply);
        break;
    case SPEAK_MODERN:
        speak_modern(fd, resources, &reply);
        break;
    }
    return fd;
}
