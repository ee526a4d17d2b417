/* SPDX-License-Identifier: MIT */
#include "source/common/inotify.h"

#include <errno.h>
#include <unistd.h>

enum { READ_BYTES = 32 * 1024 };

int tdg__inotify_open(uv_loop_t *loop, uv_poll_t *poll, uv_poll_cb readable) {
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

    if (fd < 0)
        return -errno;
    if (uv_poll_init(loop, poll, fd) < 0) {
        close(fd);
        return -EMFILE;
    }
    uv_poll_start(poll, UV_READABLE, readable);
    return fd;
}

bool tdg__inotify_read(int fd, int reads,
                       bool (*visit)(void *user, const struct inotify_event *event),
                       void *user) {
    union {
        struct inotify_event align;
        char bytes[READ_BYTES];
    } buf;

    while (reads-- > 0) {
        ssize_t len = read(fd, buf.bytes, sizeof(buf.bytes));

        if (len <= 0)
            return true;
        for (const char *at = buf.bytes; at < buf.bytes + len;) {
            const struct inotify_event *event =
                (const struct inotify_event *)(const void *)at;

            if (!visit(user, event))
                return false;
            at += sizeof(*event) + event->len;
        }
    }
    return false;
}
