/* SPDX-License-Identifier: MIT
 *
 * Our client for bench/client, through nothing but its public API; and a reader without
 * protocol, which shows what receiving alone costs.
 *
 *     client-ours PORT next|callback|raw legacy|modern
 *
 * Says "ready" once it is connected. Lines on its input, as for bench/peers/client-*.mjs:
 *   subscribe COUNT   to the resources 0 … COUNT-1; answers "subscribed"
 *   await TOTAL       answers "reached COUNT" once there were so many updates in all
 *   settle            answers "settled": memory is about to be read */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tidings/client.h>

#include "../common.h"
#include "../process.h"

enum { URI_SIZE = 48, READ_SIZE = 65536 };

/* How updates are got. */
struct way {
    const char *name;
    void (*connect)(uint16_t port, tdg_era_t era);
    void (*subscribe)(uint32_t count);
    void *(*read)(void *); /* a thread that gets updates for ever, or NULL */
};

static tdg_client_t *client;
static int raw_fd;
static _Atomic uint64_t seen;                 /* updates, so far */
static _Atomic uint64_t awaited = UINT64_MAX; /* so many wake who waits */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reached = PTHREAD_COND_INITIALIZER;

static void check(int rv, const tdg_failure_t *failure, const char *what) {
    if (rv != 0)
        bench_fail("%s: %s", what,
                   failure->message[0] != '\0' ? failure->message : tdg_strerror(rv));
}

/* ---- Counting ----------------------------------------------------------- */

static void count(uint64_t updates) {
    seen += updates;
    if (seen < awaited)
        return;
    pthread_mutex_lock(&lock);
    pthread_cond_signal(&reached);
    pthread_mutex_unlock(&lock);
}

/* Until there were so many in all. */
static void await(uint64_t total) {
    pthread_mutex_lock(&lock);
    awaited = total; /* before `seen` is looked at: one of the two sees the other */
    while (seen < total)
        pthread_cond_wait(&reached, &lock);
    awaited = UINT64_MAX;
    pthread_mutex_unlock(&lock);
}

/* ---- Our client --------------------------------------------------------- */

/* How many updates an event stands for. After a gap it may stand for none. */
static uint64_t updates_in(const tdg_event_t *event) {
    return event->kind == TDG_EVENT_UPDATED && !event->maybe ? event->merged + 1 : 0;
}

static void connect_with(uint16_t port, tdg_era_t era, tdg_event_fn on_event) {
    tdg_failure_t failure = {0};
    char url[64];
    tdg_client_opts_t opts = {
        .url = url,
        .era = era,
        .on_event = on_event,
        .retry_ms = 1, /* what a reconnect costs is measured, not the wait before it */
        .retry_per_minute = 120,
    };

    snprintf(url, sizeof(url), "http://127.0.0.1:%u/mcp", port);
    check(tdg_client_connect(&opts, &client, &failure), &failure, "connect");
}

static void subscribe_all(uint32_t count) {
    char(*texts)[URI_SIZE] = bench_alloc(count, URI_SIZE);
    const char **uris = bench_alloc(count, sizeof(uris[0]));
    tdg_failure_t failure = {0};

    for (uint32_t i = 0; i < count; i++) {
        snprintf(texts[i], URI_SIZE, "bench://resource/%u", i);
        uris[i] = texts[i];
    }
    check(tdg_client_subscribe_all(client, uris, count, NULL, NULL, &failure), &failure,
          "subscribe");
    free(texts);
    free(uris);
}

static void connect_next(uint16_t port, tdg_era_t era) {
    connect_with(port, era, NULL);
}

static void *read_next(void *unused) {
    tdg_event_t *event;
    int rv;

    while ((rv = tdg_client_next(client, -1, &event)) == 0) {
        count(updates_in(event));
        tdg_event_free(event);
    }
    if (rv != TDG_EENDED)
        bench_fail("next: %s", tdg_strerror(rv));
    return unused;
}

static void on_event(void *user, tdg_client_t *from, const tdg_event_t *event) {
    (void)user;
    (void)from;
    count(updates_in(event));
}

static void connect_callback(uint16_t port, tdg_era_t era) {
    connect_with(port, era, on_event);
}

/* ---- A reader without protocol ------------------------------------------ */

static void connect_raw(uint16_t port, tdg_era_t era) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    (void)era;
    raw_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (raw_fd < 0 || connect(raw_fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        bench_fail("cannot connect");
}

/* Reads until the end of the head, which nothing follows yet. */
static void subscribe_raw(uint32_t count) {
    char text[1024];
    size_t len = 0;

    snprintf(text, sizeof(text), "GET /raw/%u HTTP/1.1\r\nHost: localhost\r\n\r\n",
             count);
    bench_send_all(raw_fd, text, strlen(text));
    do {
        ssize_t got = recv(raw_fd, text + len, sizeof(text) - 1 - len, 0);

        if (got <= 0)
            bench_fail("the server has gone");
        len += (size_t)got;
        text[len] = '\0';
    } while (strstr(text, "\r\n\r\n") == NULL);
}

/* An event ends with an empty line. */
static void *read_raw(void *unused) {
    static char text[READ_SIZE];
    bool after_end = false;

    for (;;) {
        ssize_t got = recv(raw_fd, text, sizeof(text), 0);
        const char *at = text, *end = text + got;
        uint64_t events = 0;

        if (got <= 0)
            return unused;
        while (at < end) {
            events += after_end && *at == '\n';
            after_end = false;
            at = memchr(at, '\n', (size_t)(end - at));
            if (at == NULL)
                break;
            after_end = true;
            at++;
        }
        count(events);
    }
}

/* ---- Commands ----------------------------------------------------------- */

static const struct way ways[] = {
    {"next", connect_next, subscribe_all, read_next},
    {"callback", connect_callback, subscribe_all, NULL},
    {"raw", connect_raw, subscribe_raw, read_raw},
};

static void say(const char *text) {
    puts(text);
    fflush(stdout);
}

static void obey(const struct way *way, const char *line) {
    unsigned long number;
    pthread_t thread;

    if (sscanf(line, "subscribe %lu", &number) == 1) {
        way->subscribe((uint32_t)number);
        if (way->read != NULL && pthread_create(&thread, NULL, way->read, NULL) != 0)
            bench_fail("cannot start a thread");
        say("subscribed");
    } else if (sscanf(line, "await %lu", &number) == 1) {
        await(number);
        printf("reached %lu\n", (unsigned long)seen);
        fflush(stdout);
    } else if (strncmp(line, "settle", 6) == 0) {
        say("settled");
    }
}

int main(int argc, char **argv) {
    const struct way *way = NULL;
    char line[128];

    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && argc == 4; i++)
        if (strcmp(ways[i].name, argv[2]) == 0)
            way = &ways[i];
    if (way == NULL)
        bench_fail("it takes a port, next, callback or raw, and legacy or modern");
    way->connect((uint16_t)atoi(argv[1]),
                 strcmp(argv[3], "modern") == 0 ? TDG_ERA_MODERN : TDG_ERA_LEGACY);
    say("ready");
    while (fgets(line, sizeof(line), stdin) != NULL)
        obey(way, line);
    _exit(0); /* without a goodbye: the server ends as well */
}
