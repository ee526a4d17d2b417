/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "config/node.h"

enum { READ_TIMEOUT_MS = 10000 }; /* for a pipe that says nothing */

int tdg__node_read_text(const char *text, size_t len, tdg__problems_t *problems,
                        tdg__node_t **ret) {
    if (len > TDG__NODE_MAX_BYTES) {
        tdg__problems_add(problems, 0, 0, "the file is larger than 8 MiB");
        return TDG_EINVAL;
    }
    return tdg__node_parse(text, len, problems, ret);
}

/* Reads up to `room` bytes. A pipe is waited for, but not for ever. */
static int read_all(int fd, char *out, size_t room, size_t *ret_len) {
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    size_t len = 0;

    while (len < room) {
        ssize_t count;

        if (poll(&poll_fd, 1, READ_TIMEOUT_MS) == 0) {
            errno = ETIMEDOUT;
            return TDG_ESYSTEM;
        }
        count = read(fd, out + len, room - len);
        if (count == 0)
            break;
        if (count < 0 && errno != EINTR && errno != EAGAIN)
            return TDG_ESYSTEM;
        len += count > 0 ? (size_t)count : 0;
    }
    *ret_len = len;
    return 0;
}

int tdg__node_read_file(const char *path, tdg__problems_t *problems, tdg__node_t **ret) {
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rv;
    char *text;
    size_t len;

    if (fd < 0) {
        tdg__problems_add(problems, 0, 0, "cannot open it: %s", strerror(errno));
        return TDG_ESYSTEM;
    }
    text = tdg__malloc(TDG__NODE_MAX_BYTES + 1);
    if (text == NULL) {
        rv = TDG_ENOMEM;
        goto done;
    }
    rv = read_all(fd, text, TDG__NODE_MAX_BYTES + 1, &len);
    if (rv < 0)
        tdg__problems_add(problems, 0, 0, "cannot read it: %s", strerror(errno));
    else
        rv = tdg__node_read_text(text, len, problems, ret);
    tdg__free(text);

done:
    if (!is_stdin)
        close(fd);
    return rv;
}
