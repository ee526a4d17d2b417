/* SPDX-License-Identifier: MIT */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "sources.h"

enum { TEXT_MAX = 262144, REQUEST_MAX = 16384, GLANCE_US = 100000 };

#define VERSION "2026-07-28"
#define META                                                                             \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" VERSION "\","            \
    "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"bench\",\"version\":\"1\"},"     \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

static void set_timeout(int fd, time_t seconds, suseconds_t us) {
    struct timeval timeout = {.tv_sec = seconds, .tv_usec = us};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
}

void sources_wire_open(sources_wire_t *wire, uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;

    *wire = (sources_wire_t){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                             .text = bench_alloc(TEXT_MAX, 1)};
    if (wire->fd < 0 ||
        connect(wire->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        sources_fail("cannot connect: %s", strerror(errno));
    set_timeout(wire->fd, SOURCES_PATIENCE_S, 0);
    setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void sources_wire_close(sources_wire_t *wire) {
    close(wire->fd);
    free(wire->text);
}

/* ---- Requests ----------------------------------------------------------- */

static void send_post(sources_wire_t *wire, const char *path, const char *headers,
                      const char *body) {
    char request[REQUEST_MAX];
    int len = snprintf(request, sizeof(request),
                       "POST %s HTTP/1.1\r\nHost: localhost\r\n"
                       "Content-Type: application/json\r\n"
                       "Accept: application/json, text/event-stream\r\n"
                       "%sContent-Length: %zu\r\n\r\n%s",
                       path, headers, strlen(body), body);

    if (len < 0 || (size_t)len >= sizeof(request))
        sources_fail("a request is too long");
    if (send(wire->fd, request, (size_t)len, MSG_NOSIGNAL) != len)
        sources_fail("cannot send: %s", strerror(errno));
    wire->requests++;
    wire->bytes += (uint64_t)len;
    wire->len = 0;
    wire->text[0] = '\0';
}

/* False where nothing came in time. */
static bool receive(sources_wire_t *wire) {
    ssize_t got;

    if (wire->len == TEXT_MAX - 1)
        sources_fail("an answer is too long");
    got = recv(wire->fd, wire->text + wire->len, TEXT_MAX - 1 - wire->len, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0)
        sources_fail("the server closed; it said: %s", wire->text);
    wire->len += (size_t)got;
    wire->bytes += (uint64_t)got;
    wire->text[wire->len] = '\0';
    return true;
}

static void receive_or_fail(sources_wire_t *wire) {
    if (!receive(wire))
        sources_fail("the server is silent; it said: %s", wire->text);
}

/* The body of a complete answer, or NULL. Nothing follows it: there is no pipelining
 * here. */
static const char *complete_body(const sources_wire_t *wire) {
    const char *end = strstr(wire->text, "\r\n\r\n"), *length;

    if (end == NULL)
        return NULL;
    length = strcasestr(wire->text, "\r\nContent-Length:");
    if (length != NULL && length < end)
        return strlen(end + 4) >= strtoul(length + 17, NULL, 10) ? end + 4 : NULL;
    return wire->len >= 5 && strcmp(wire->text + wire->len - 5, "0\r\n\r\n") == 0
               ? end + 4
               : NULL;
}

static bool is_success(const sources_wire_t *wire) {
    return strncmp(wire->text, "HTTP/1.1 2", 10) == 0 &&
           strstr(wire->text, "\"error\":") == NULL;
}

static void exchange(sources_wire_t *wire, const char *path, const char *headers,
                     const char *body) {
    send_post(wire, path, headers, body);
    while (complete_body(wire) == NULL)
        receive_or_fail(wire);
}

void sources_wire_post(sources_wire_t *wire, const char *path, const char *headers,
                       const char *body) {
    exchange(wire, path, headers, body);
    if (!is_success(wire))
        sources_fail("the server refused: %s", wire->text);
}

uint32_t sources_wire_read(sources_wire_t *wire, const char *uri) {
    char headers[512], body[1024];

    snprintf(headers, sizeof(headers),
             "MCP-Protocol-Version: " VERSION "\r\n"
             "Mcp-Method: resources/read\r\nMcp-Name: %s\r\n",
             uri);
    snprintf(body, sizeof(body),
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{"
             "\"uri\":\"%s\"," META "}}",
             uri);
    exchange(wire, "/mcp", headers, body);
    if (!is_success(wire) && strstr(wire->text, "\"code\":-32602") == NULL)
        sources_fail("the server refused to read %s: %s", uri, wire->text);
    return sources_number(wire->text);
}

/* ---- The stream --------------------------------------------------------- */

/* Drops the events that are complete; whether `needle` was in one of them. */
static bool take_events(sources_wire_t *wire, const char *needle) {
    char *end = wire->text, *next;
    bool found;

    while ((next = strstr(end, "\n\n")) != NULL)
        end = next + 2;
    if (end == wire->text)
        return false;
    next = strstr(wire->text, needle);
    found = next != NULL && next < end;
    wire->len -= (size_t)(end - wire->text);
    memmove(wire->text, end, wire->len + 1);
    return found;
}

void sources_wire_listen(sources_wire_t *wire, const char *uri) {
    char body[1024];
    bool acknowledged = false;

    snprintf(body, sizeof(body),
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\","
             "\"params\":{" META ",\"notifications\":{\"resourceSubscriptions\":"
             "[\"%s\"]}}}",
             uri);
    send_post(wire, "/mcp",
              "MCP-Protocol-Version: " VERSION "\r\n"
              "Mcp-Method: subscriptions/listen\r\n",
              body);
    while (!acknowledged) {
        receive_or_fail(wire);
        if (strncmp(wire->text, "HTTP/1.1 4", 10) == 0)
            sources_fail("the server refused: %s", wire->text);
        if (strstr(wire->text, "\n\n") != NULL &&
            strstr(wire->text, "\"resourceSubscriptions\":[]") != NULL)
            sources_fail("the server does not serve %s", uri);
        acknowledged = take_events(wire, "subscriptions/acknowledged");
    }
    set_timeout(wire->fd, 0, GLANCE_US);
}

bool sources_wire_told(sources_wire_t *wire) {
    return receive(wire) && take_events(wire, "notifications/resources/updated");
}
