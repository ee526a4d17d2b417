/* SPDX-License-Identifier: MIT */
#include "source/common/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

int tdg__regular_open(int path_fd, const struct stat *st) {
    char name[64];

    if (!S_ISREG(st->st_mode))
        return -EINVAL;
    /* Through /proc, so that what is opened is what was looked at. */
    snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);

    int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

    /* A file that was deleted meanwhile is still there: it is /proc that is not. */
    return fd >= 0 ? fd : errno == ENOENT ? -ENOSYS : -errno;
}
