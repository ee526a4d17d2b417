/* SPDX-License-Identifier: MIT */
#include "unit/source/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

enum { MAX_PAGES = 512, MAX_REQUESTS = 20000, MAX_HEAD = 65536, TURN_MS = 20 };

struct stored {
    char *path, *status, *headers, *etag, *body;
    size_t len;
    enum manner manner;
};

struct request {
    char *path, *text;
    int64_t at_ms;
};

struct http_server {
    pthread_mutex_t lock;
    pthread_cond_t idle; /* no connection is left */
    pthread_t acceptor;
    int fd, port;
    bool stopping;
    size_t open, not_modified;
    struct stored *pages[MAX_PAGES];
    size_t page_count;
    struct request requests[MAX_REQUESTS];
    size_t request_count;
};

struct visit {
    http_server_t *server;
    int fd;
};

static int64_t monotonic_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Pages -------------------------------------------------------------- */

static char *copy_or(const char *text, const char *other) {
    return strdup(text != NULL ? text : other);
}

static struct stored *store(const char *path, const struct page *page) {
    struct stored *stored = calloc(1, sizeof(*stored));
    const char *body = page->body != NULL ? page->body : "";

    stored->path = strdup(path);
    stored->status = copy_or(page->status, "200 OK");
    stored->headers = copy_or(page->headers, "");
    stored->etag = copy_or(page->etag, "");
    stored->len = page->len > 0 ? page->len : strlen(body);
    stored->body = malloc(stored->len + 1);
    memcpy(stored->body, body, stored->len);
    stored->body[stored->len] = '\0';
    stored->manner = page->manner;
    return stored;
}

static void discard(struct stored *stored) {
    free(stored->path);
    free(stored->status);
    free(stored->headers);
    free(stored->etag);
    free(stored->body);
    free(stored);
}

static struct stored *copy_page(http_server_t *server, const char *path) {
    struct page missing = {.status = "404 Not Found", .body = "none"};
    struct stored *copy = NULL;

    pthread_mutex_lock(&server->lock);
    for (size_t i = 0; i < server->page_count && copy == NULL; i++) {
        const struct stored *page = server->pages[i];

        if (strcmp(page->path, path) == 0)
            copy = store(path, &(struct page){page->manner, page->status, page->headers,
                                              page->etag, page->body, page->len});
    }
    pthread_mutex_unlock(&server->lock);
    return copy != NULL ? copy : store(path, &missing);
}

void http_server_set(http_server_t *server, const char *path, const struct page *page) {
    struct stored *stored = store(path, page);
    size_t at = 0;

    pthread_mutex_lock(&server->lock);
    while (at < server->page_count && strcmp(server->pages[at]->path, path) != 0)
        at++;
    if (at < server->page_count)
        discard(server->pages[at]);
    else
        server->page_count++;
    server->pages[at] = stored;
    pthread_mutex_unlock(&server->lock);
    assert_true(at < MAX_PAGES);
}

/* ---- Answering ---------------------------------------------------------- */

static bool is_stopping(http_server_t *server) {
    pthread_mutex_lock(&server->lock);

    bool stopping = server->stopping;

    pthread_mutex_unlock(&server->lock);
    return stopping;
}

/* Waits until the socket is ready. Returns false where the server stops. */
static bool wait_for(struct visit *visit, short events) {
    struct pollfd poller = {.fd = visit->fd, .events = events};

    while (!is_stopping(visit->server))
        if (poll(&poller, 1, TURN_MS) > 0)
            return true;
    return false;
}

static bool send_all(struct visit *visit, const char *data, size_t len) {
    while (len > 0) {
        if (!wait_for(visit, POLLOUT))
            return false;

        ssize_t n = send(visit->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

/* Until the other side has closed. */
static void linger(struct visit *visit, bool drip) {
    char byte;

    for (;;) {
        struct pollfd poller = {.fd = visit->fd, .events = POLLIN};

        if (is_stopping(visit->server))
            return;
        if (poll(&poller, 1, TURN_MS) > 0 && recv(visit->fd, &byte, 1, MSG_DONTWAIT) <= 0)
            return;
        if (drip && send(visit->fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) <= 0)
            return;
    }
}

static void write_down(http_server_t *server, const char *path, const char *text) {
    pthread_mutex_lock(&server->lock);
    if (server->request_count < MAX_REQUESTS)
        server->requests[server->request_count++] =
            (struct request){strdup(path), strdup(text), monotonic_ms()};
    pthread_mutex_unlock(&server->lock);
}

/* Returns whether the connection stays. */
static bool answer(struct visit *visit, const char *path, const char *request) {
    struct stored *page = copy_page(visit->server, path);
    char condition[256], date[64];
    size_t room = strlen(page->headers) + 1024;
    char *head = malloc(room);
    time_t now = time(NULL);
    struct tm utc;
    bool same, ok;

    /* From here on a test may know of it, and set another page for the next. */
    write_down(visit->server, path, request);
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &utc));
    snprintf(condition, sizeof(condition), "If-None-Match: %s\r\n", page->etag);
    same = page->etag[0] != '\0' && strstr(request, condition) != NULL;
    if (same) {
        pthread_mutex_lock(&visit->server->lock);
        visit->server->not_modified++;
        pthread_mutex_unlock(&visit->server->lock);
    }
    snprintf(head, room, "HTTP/1.1 %s\r\n%s%s%s%s%s%s",
             same ? "304 Not Modified" : page->status,
             strstr(page->headers, "Date:") == NULL ? "Date: " : "",
             strstr(page->headers, "Date:") == NULL ? date : "",
             strstr(page->headers, "Date:") == NULL ? "\r\n" : "", page->headers,
             page->etag[0] != '\0' ? "ETag: " : "", page->etag);
    if (page->etag[0] != '\0')
        strcat(head, "\r\n");
    if (page->manner == PROPERLY && !same)
        sprintf(head + strlen(head), "Content-Length: %zu\r\n", page->len);
    strcat(head, "\r\n");
    ok = send_all(visit, head, strlen(head));
    free(head);
    if (ok && !same)
        ok = send_all(visit, page->body, page->len);
    if (page->manner == HANG || page->manner == DRIP)
        linger(visit, page->manner == DRIP);
    while (ok && page->manner == FLOOD)
        ok = send_all(visit, page->body, page->len);
    ok = ok && page->manner == PROPERLY;
    discard(page);
    return ok;
}

/* Reads one request. Returns false at the end of the connection. */
static bool read_request(struct visit *visit, char *text) {
    size_t len = 0;

    text[0] = '\0';
    while (strstr(text, "\r\n\r\n") == NULL) {
        if (len + 1 >= MAX_HEAD || !wait_for(visit, POLLIN))
            return false;

        ssize_t n = recv(visit->fd, text + len, MAX_HEAD - len - 1, MSG_DONTWAIT);

        if (n <= 0)
            return false;
        len += (size_t)n;
        text[len] = '\0';
    }
    return true;
}

static void *serve(void *arg) {
    struct visit *visit = arg;
    http_server_t *server = visit->server;
    char *text = malloc(MAX_HEAD), path[2048];

    while (read_request(visit, text) && sscanf(text, "GET %2047s", path) == 1) {
        if (!answer(visit, path, text))
            break;
    }
    free(text);
    close(visit->fd);
    free(visit);
    pthread_mutex_lock(&server->lock);
    if (--server->open == 0)
        pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->lock);
    return NULL;
}

static void *accept_all(void *arg) {
    http_server_t *server = arg;
    struct visit listener = {server, server->fd};
    int on = 1;

    while (wait_for(&listener, POLLIN)) {
        int fd = accept(server->fd, NULL, NULL);
        struct visit *visit = fd >= 0 ? malloc(sizeof(*visit)) : NULL;
        pthread_t thread;

        if (visit == NULL)
            continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        *visit = (struct visit){server, fd};
        pthread_mutex_lock(&server->lock);
        server->open++;
        pthread_mutex_unlock(&server->lock);
        if (pthread_create(&thread, NULL, serve, visit) != 0)
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

/* ---- Life --------------------------------------------------------------- */

http_server_t *http_server_start(void) {
    http_server_t *server = calloc(1, sizeof(*server));
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);

    assert_non_null(server);
    pthread_mutex_init(&server->lock, NULL);
    pthread_cond_init(&server->idle, NULL);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(server->fd, 1024), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &len), 0);
    server->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&server->acceptor, NULL, accept_all, server), 0);
    return server;
}

void http_server_stop(http_server_t *server) {
    pthread_mutex_lock(&server->lock);
    server->stopping = true;
    pthread_mutex_unlock(&server->lock);
    pthread_join(server->acceptor, NULL);
    pthread_mutex_lock(&server->lock);
    while (server->open > 0)
        pthread_cond_wait(&server->idle, &server->lock);
    pthread_mutex_unlock(&server->lock);
    close(server->fd);
    for (size_t i = 0; i < server->page_count; i++)
        discard(server->pages[i]);
    for (size_t i = 0; i < server->request_count; i++) {
        free(server->requests[i].path);
        free(server->requests[i].text);
    }
    pthread_mutex_destroy(&server->lock);
    pthread_cond_destroy(&server->idle);
    free(server);
}

int http_server_port(const http_server_t *server) {
    return server->port;
}

/* ---- What was asked ----------------------------------------------------- */

/* The n-th for a path, under the lock; NULL: there is none. */
static const struct request *nth(http_server_t *server, const char *path, size_t n) {
    for (size_t i = 0; i < server->request_count; i++)
        if ((path == NULL || strcmp(server->requests[i].path, path) == 0) && n-- == 0)
            return &server->requests[i];
    return NULL;
}

size_t http_server_count(http_server_t *server, const char *path) {
    size_t count = 0;

    pthread_mutex_lock(&server->lock);
    for (size_t i = 0; i < server->request_count; i++)
        count += path == NULL || strcmp(server->requests[i].path, path) == 0;
    pthread_mutex_unlock(&server->lock);
    return count;
}

char *http_server_request(http_server_t *server, const char *path, size_t n) {
    pthread_mutex_lock(&server->lock);

    const struct request *request = nth(server, path, n);
    char *text = request != NULL ? strdup(request->text) : NULL;

    pthread_mutex_unlock(&server->lock);
    assert_non_null(text);
    return text;
}

int64_t http_server_time(http_server_t *server, const char *path, size_t n) {
    pthread_mutex_lock(&server->lock);

    const struct request *request = nth(server, path, n);
    int64_t at = request != NULL ? request->at_ms : -1;

    pthread_mutex_unlock(&server->lock);
    assert_true(at >= 0);
    return at;
}

size_t http_server_not_modified(http_server_t *server) {
    pthread_mutex_lock(&server->lock);

    size_t count = server->not_modified;

    pthread_mutex_unlock(&server->lock);
    return count;
}

size_t http_server_open(http_server_t *server) {
    pthread_mutex_lock(&server->lock);

    size_t count = server->open;

    pthread_mutex_unlock(&server->lock);
    return count;
}
