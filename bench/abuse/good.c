/* SPDX-License-Identifier: MIT
 *
 * Subscribers that read at once, a publisher, and a reader of a small resource; one
 * thread, which sleeps when nothing happens. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../fanout/fanout.h"
#include "abuse.h"

enum {
    EVERY_MS = 20, /* a publish and a read */
    LAST_MS = 30000,
    WINDOW_S = 2,
    MAX_WINDOWS = 300,
    BUFFER = 65536,
};

struct subscriber {
    int fd;        /* -1: it was cut off */
    uint64_t last; /* sequence number */
    char rest[64]; /* the end of what was read, where a number may be cut */
};

struct abuse_good {
    const abuse_plan_t *plan;
    struct subscriber *subscribers;
    int epoll, publisher, reader;
    uint64_t sequence;
    bool publishing;           /* the last publish is not answered yet */
    uint64_t *updates, *reads; /* ns */
    size_t update_count, read_count, room;
    uint64_t read_began_ns; /* 0: none is under way */
};

abuse_good_t *abuse_good_open(const abuse_plan_t *plan) {
    abuse_good_t *good = bench_alloc(1, sizeof(*good));

    good->plan = plan;
    good->subscribers = bench_alloc(plan->good, sizeof(*good->subscribers));
    good->room = (plan->seconds * 1000 / EVERY_MS + 100) * plan->good;
    good->updates = bench_alloc(good->room, sizeof(uint64_t));
    good->reads = bench_alloc(good->room, sizeof(uint64_t));
    good->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < plan->good; i++) {
        struct subscriber *one = &good->subscribers[i];
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};

        one->fd = fanout_speak(SPEAK_MODERN, plan->port, 1);
        fcntl(one->fd, F_SETFL, O_NONBLOCK);
        if (epoll_ctl(good->epoll, EPOLL_CTL_ADD, one->fd, &event) < 0)
            bench_fail("epoll: %s", strerror(errno));
    }
    good->publisher = abuse_connect(plan->port, true);
    good->reader = abuse_connect(plan->port, true);
    if (good->publisher < 0 || good->reader < 0)
        bench_fail("cannot connect: %s", strerror(errno));
    for (size_t i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = plan->good + i};
        int fd = i == 0 ? good->publisher : good->reader;

        fcntl(fd, F_SETFL, O_NONBLOCK);
        if (epoll_ctl(good->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
            bench_fail("epoll: %s", strerror(errno));
    }
    return good;
}

/* ---- What arrives ------------------------------------------------------- */

static void note(abuse_good_t *good, uint64_t *times, size_t *count, uint64_t ns) {
    if (*count < good->room)
        times[(*count)++] = ns;
}

/* Every update has "t":NANOSECONDS and "seq":NUMBER once each in its params. */
static void look_at(abuse_good_t *good, struct subscriber *one, const char *text) {
    uint64_t now = bench_now_ns();

    for (const char *at = text; (at = strstr(at, "\"mark\":\"")) != NULL;) {
        unsigned long long sequence, sent;

        at += 8;
        if (sscanf(at, "%llu-%llu\"", &sequence, &sent) != 2 || sequence <= one->last)
            continue;
        one->last = sequence;
        note(good, good->updates, &good->update_count, now - sent);
    }
}

/* A mark that is cut is looked at with what follows it. */
static void read_updates(abuse_good_t *good, struct subscriber *one) {
    static char text[sizeof(one->rest) + BUFFER + 1];
    size_t kept = strlen(one->rest);
    ssize_t n;

    memcpy(text, one->rest, kept);
    n = recv(one->fd, text + kept, BUFFER, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        close(one->fd);
        one->fd = -1;
        return;
    }
    if (n < 0)
        return;
    text[kept + (size_t)n] = '\0';
    look_at(good, one, text);

    size_t len = kept + (size_t)n, tail = len < 63 ? len : 63;

    memcpy(one->rest, text + len - tail, tail);
    one->rest[tail] = '\0';
}

static void drain(int fd) {
    char data[4096];

    while (recv(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
        ;
}

static void take_published(abuse_good_t *good) {
    good->publishing = false;
    drain(good->publisher);
}

/* The answers are small, and come in one piece. */
static void read_answer(abuse_good_t *good) {
    if (good->read_began_ns != 0)
        note(good, good->reads, &good->read_count, bench_now_ns() - good->read_began_ns);
    good->read_began_ns = 0;
    drain(good->reader);
}

static void serve_events(abuse_good_t *good, int timeout_ms) {
    struct epoll_event events[64];
    int count = epoll_wait(good->epoll, events, 64, timeout_ms);

    for (int i = 0; i < count; i++) {
        size_t which = (size_t)events[i].data.u64;

        if (which < good->plan->good)
            read_updates(good, &good->subscribers[which]);
        else if (which == good->plan->good)
            take_published(good);
        else
            read_answer(good);
    }
}

/* ---- What is sent ------------------------------------------------------- */

static void publish(abuse_good_t *good) {
    char body[256], text[ABUSE_REQUEST_MAX];

    if (good->publishing) /* one at a time */
        return;
    good->publishing = true;
    snprintf(body, sizeof(body),
             "{\"uri\":\"bench://resource/0\",\"metadata\":{\"mark\":\"%llu-%llu\"}}",
             (unsigned long long)++good->sequence, (unsigned long long)bench_now_ns());
    bench_send_all(good->publisher, text,
                   abuse_put_post(text, "/publish",
                                  "Authorization: Bearer " ABUSE_KEY "\r\n", body));
}

static void read_small(abuse_good_t *good) {
    char uri[256], params[300], text[ABUSE_REQUEST_MAX];
    size_t len;

    if (good->read_began_ns != 0) /* one at a time */
        return;
    snprintf(uri, sizeof(uri), "file://%s/small", good->plan->folder);
    snprintf(params, sizeof(params), "\"uri\":\"%s\"", uri);
    len = abuse_put_modern(text, "resources/read", uri, params);
    good->read_began_ns = bench_now_ns();
    bench_send_all(good->reader, text, len);
}

static size_t behind(const abuse_good_t *good) {
    size_t count = 0;

    for (size_t i = 0; i < good->plan->good; i++)
        count +=
            good->subscribers[i].fd < 0 || good->subscribers[i].last != good->sequence;
    return count;
}

/* The median of the p99s of equal parts, one for each two seconds, so that the moments in
 * which a virtual machine stands still do not stand for the rest. */
static double typical_p99(uint64_t *times, size_t count, size_t seconds) {
    size_t parts = seconds / WINDOW_S;
    uint64_t p99[MAX_WINDOWS];

    if (count == 0)
        return 0;
    parts = parts > count ? count : parts;
    parts = parts == 0 ? 1 : parts > MAX_WINDOWS ? MAX_WINDOWS : parts;
    for (size_t i = 0; i < parts; i++) {
        size_t from = count * i / parts, to = count * (i + 1) / parts;

        p99[i] = (uint64_t)bench_spread(times + from, to - from).p99;
    }
    return bench_spread(p99, parts).p50;
}

static abuse_times_t times_of(uint64_t *times, size_t count, size_t seconds) {
    double typical = typical_p99(times, count, seconds); /* first: the next sorts them */
    bench_spread_t all = count > 0 ? bench_spread(times, count) : (bench_spread_t){0};

    return (abuse_times_t){.p50 = all.p50, .p99 = all.p99, .typical_p99 = typical};
}

void abuse_good_measure(abuse_good_t *good, abuse_measured_t *ret) {
    uint64_t end_ns = bench_now_ns() + good->plan->seconds * UINT64_C(1000000000);
    uint64_t due_ns = bench_now_ns(), last_ns;

    good->update_count = good->read_count = 0;
    while (bench_now_ns() < end_ns && !bench_interrupted) {
        if (bench_now_ns() >= due_ns) {
            publish(good);
            read_small(good);
            due_ns += EVERY_MS * UINT64_C(1000000);
        }
        serve_events(good, 1);
    }
    last_ns = bench_now_ns() + LAST_MS * UINT64_C(1000000);
    while ((behind(good) > 0 || good->read_began_ns != 0) && bench_now_ns() < last_ns &&
           !bench_interrupted)
        serve_events(good, 10);

    *ret = (abuse_measured_t){
        .updates = good->update_count, .reads = good->read_count, .lost = behind(good)};
    ret->update = times_of(good->updates, good->update_count, good->plan->seconds);
    ret->read = times_of(good->reads, good->read_count, good->plan->seconds);
}
