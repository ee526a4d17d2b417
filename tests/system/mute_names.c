/* SPDX-License-Identifier: MIT
 *
 * Preloaded into a program, it never finds out what a name stands for: a name server that
 * does not answer, for longer than any test waits. */
#include <netdb.h>
#include <unistd.h>

__attribute__((visibility("default"))) int getaddrinfo(const char *name,
                                                       const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **ret) {
    (void)name, (void)service, (void)hints, (void)ret;
    for (;;)
        pause();
}
