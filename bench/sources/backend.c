/* SPDX-License-Identifier: MIT
 *
 * What the source http polls: a server with one document, which has an ETag. It answers
 * one request per connection, on a thread of its own. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "sources.h"

static _Atomic uint32_t current;
static int listener;
static uint16_t port;

/* Whether a whole request header came. */
static bool read_request(int fd, char *request, size_t size) {
    size_t len = 0;

    while (len < size - 1) {
        ssize_t got = recv(fd, request + len, size - 1 - len, 0);

        if (got <= 0)
            return false;
        len += (size_t)got;
        request[len] = '\0';
        if (strstr(request, "\r\n\r\n") != NULL)
            return true;
    }
    return false;
}

static void answer(int fd) {
    char request[8192], etag[32], text[SOURCES_CONTENT + 1], whole[2 * SOURCES_CONTENT];
    uint32_t number = current;
    int len;

    if (!read_request(fd, request, sizeof(request)))
        return;
    snprintf(etag, sizeof(etag), "\"%u\"", number);
    sources_content(number, text, sizeof(text));
    if (strstr(request, etag) != NULL)
        len = snprintf(whole, sizeof(whole),
                       "HTTP/1.1 304 Not Modified\r\nETag: %s\r\n"
                       "Connection: close\r\n\r\n",
                       etag);
    else
        len = snprintf(whole, sizeof(whole),
                       "HTTP/1.1 200 OK\r\nETag: %s\r\nContent-Type: text/plain\r\n"
                       "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                       etag, strlen(text), text);
    if (send(fd, whole, (size_t)len, MSG_NOSIGNAL) != len)
        return; /* it will ask again */
}

static void *serve(void *arg) {
    struct timeval timeout = {.tv_sec = 1};

    (void)arg;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
        answer(fd);
        close(fd);
    }
    return NULL;
}

void sources_backend_prepare(const sources_world_t *world) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    pthread_t thread;

    (void)world;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, len) < 0 ||
        listen(listener, 16) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) < 0)
        sources_fail("cannot listen: %s", strerror(errno));
    port = ntohs(address.sin_port);
    if (pthread_create(&thread, NULL, serve, NULL) != 0)
        sources_fail("cannot start a thread");
}

void sources_backend_configure(const sources_world_t *world, FILE *config) {
    (void)world;
    fprintf(config,
            "  - http: http://127.0.0.1:%u/note\n    every: 1s\n    uri: bench://http\n",
            port);
}

void sources_backend_change(const sources_world_t *world, sources_wire_t *wires,
                            uint32_t number) {
    (void)world, (void)wires;
    current = number;
}
