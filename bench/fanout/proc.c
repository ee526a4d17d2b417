/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fanout.h"

int fanout_cores(void) {
    cpu_set_t allowed;

    return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

void fanout_pin(int which) {
    cpu_set_t allowed, one;

    if (fanout_cores() < 2 || sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
        return;
    CPU_ZERO(&one);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed) || which-- > 0)
            continue;
        CPU_SET(core, &one);
        break;
    }
    if (sched_setaffinity(0, sizeof(one), &one) < 0)
        bench_fail("cannot stay on one core: %s", strerror(errno));
}

uint64_t fanout_cpu_ns(pid_t pid) {
    struct timespec time;
    clockid_t clock;

    if (pid == 0)
        return 0;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) < 0)
        bench_fail("process %d has gone", (int)pid);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

double fanout_memory(pid_t pid) {
    char path[64], line[256];
    unsigned long kib = 0;
    FILE *file;

    if (pid == 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    file = fopen(path, "r");
    if (file == NULL)
        bench_fail("cannot read %s", path);
    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "Pss: %lu kB", &kib) == 1)
            break;
    fclose(file);
    return (double)kib * 1024;
}

/* What a connected socket and its place in an epoll set are made of. Names of files
 * (dentries, 192 bytes a socket) are left out: every program on the machine makes some.
 */
static bool of_sockets(const char *name) {
    static const char *const names[] = {"TCP", "sock_inode_cache", "filp",
                                        "eventpoll_epi", "eventpoll_pwq"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

double fanout_kernel_memory(void) {
    char line[512], name[64];
    unsigned long active, total, size;
    FILE *file = fopen("/proc/slabinfo", "r");
    double sum = 0;

    if (file == NULL)
        return 0;
    while (fgets(line, sizeof(line), file) != NULL)
        if (sscanf(line, "%63s %lu %lu %lu", name, &active, &total, &size) == 4 &&
            of_sockets(name))
            sum += (double)active * (double)size;
    fclose(file);
    return sum;
}
