/* SPDX-License-Identifier: MIT */
#include "server/loop/trim.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum {
    LOOK_MS = 5000,
    WAIT_MS = 20000, /* between two tries, ... */
    WAIT_MAX_MS = 600000,
    WORTHWHILE = 16 << 20, /* bytes above the least there were */
    CALM = 1 << 20,        /* it grows by less than that */
};

/* 0 where that is not known. */
static size_t resident_bytes(void) {
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    char text[128];
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    const char *second;

    if (fd >= 0)
        close(fd);
    if (len <= 0)
        return 0;
    text[len] = '\0';
    second = strchr(text, ' '); /* pages: in all, resident */
    return second != NULL ? strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* The result of the last try decides when the next may be. */
static void judge_last(tdg__trim_t *trim, size_t bytes) {
    if (trim->then_bytes == 0)
        return;
    if (bytes + WORTHWHILE <= trim->then_bytes)
        trim->wait_ms = WAIT_MS;
    else if (trim->wait_ms < WAIT_MAX_MS)
        trim->wait_ms *= 2;
    trim->try_ms = trim->look_ms + trim->wait_ms;
    trim->then_bytes = 0;
}

bool tdg__trim_is_due(tdg__trim_t *trim, int64_t now_ms, size_t bytes, uint64_t load) {
    bool calm = bytes <= trim->last_bytes + CALM;

    trim->look_ms = now_ms;
    trim->last_bytes = bytes;
    judge_last(trim, bytes);
    if (trim->low_bytes == 0 || bytes < trim->low_bytes)
        trim->low_bytes = bytes;
    if (2 * load < trim->then_load)
        trim->try_ms = now_ms;
    if (!calm || now_ms < trim->try_ms ||
        bytes - trim->low_bytes < WORTHWHILE + trim->low_bytes / 4)
        return false;

    if (trim->wait_ms == 0)
        trim->wait_ms = WAIT_MS;
    trim->then_bytes = bytes;
    trim->then_load = load;
    return true;
}

static void run(void *arg) {
    (void)arg;
    tdg__memory_trim();
}

/* Signals go to other threads. */
static int start_thread(uv_thread_t *ret) {
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rv = uv_thread_create(ret, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rv;
}

void tdg__trim_tick(tdg__trim_t *trim, int64_t now_ms, uint64_t load) {
    size_t bytes;

    if (trim->low_bytes != 0 && now_ms < trim->look_ms + LOOK_MS)
        return;
    bytes = resident_bytes();
    if (bytes == 0 || !tdg__trim_is_due(trim, now_ms, bytes, load))
        return;
    tdg__trim_done(trim);
    trim->has_thread = start_thread(&trim->thread) == 0;
}

void tdg__trim_done(tdg__trim_t *trim) {
    if (trim->has_thread)
        uv_thread_join(&trim->thread);
    trim->has_thread = false;
}
