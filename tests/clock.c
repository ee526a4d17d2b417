/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum { LOOK_MS = 2 }; /* how often a waiting loop looks at the clock */

typedef int (*epoll_pwait_fn)(int fd, struct epoll_event *events, int max, int timeout_ms,
                              const sigset_t *mask);

static _Atomic int64_t ahead_ms;
static atomic_bool hurries;

void clock_pass(uint32_t ms) {
    atomic_fetch_add(&ahead_ms, ms);
}

void clock_hurry(bool on) {
    atomic_store(&hurries, on);
}

/* ---- In the place of the C library's ------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *ret) {
    long rv = syscall(SYS_clock_gettime, clock, ret);

    if (rv == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)) {
        int64_t ms = atomic_load(&ahead_ms);

        ret->tv_sec += ms / 1000;
        ret->tv_nsec += ms % 1000 * 1000000;
        if (ret->tv_nsec >= 1000000000) {
            ret->tv_sec++;
            ret->tv_nsec -= 1000000000;
        }
    }
    return (int)rv;
}

static int64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The next one after us: the C library's, or a sanitizer's. */
static epoll_pwait_fn real_epoll_pwait(void) {
    static _Atomic(epoll_pwait_fn) found;
    epoll_pwait_fn real = atomic_load(&found);

    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "epoll_pwait");
        if (real == NULL)
            abort();
        atomic_store(&found, real);
    }
    return real;
}

int epoll_pwait(int fd, struct epoll_event *events, int max, int timeout_ms,
                const sigset_t *mask) {
    epoll_pwait_fn real = real_epoll_pwait();
    int64_t until_ms = now_ms() + timeout_ms;

    if (timeout_ms <= 0)
        return real(fd, events, max, timeout_ms, mask);
    for (;;) {
        int64_t left_ms = until_ms - now_ms();
        int look_ms = left_ms <= 0 ? 0 : left_ms < LOOK_MS ? (int)left_ms : LOOK_MS;
        int n = real(fd, events, max, look_ms, mask);

        if (n != 0 || left_ms <= 0)
            return n;
        left_ms = until_ms - now_ms();
        if (atomic_load(&hurries) && left_ms > 0)
            clock_pass((uint32_t)left_ms);
    }
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms) {
    return epoll_pwait(fd, events, max, timeout_ms, NULL);
}
