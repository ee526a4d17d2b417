/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "fanout.h"

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
