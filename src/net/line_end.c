/* SPDX-License-Identifier: MIT */
#include "net/line_end.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <tidings/error.h>

/* What we can read or write, by what libuv takes a descriptor for. */
static uv_handle_type type_of(int fd) {
    switch (uv_guess_handle(fd)) {
    case UV_TTY:
        return UV_TTY;
    case UV_FILE:
        return UV_FILE;
    case UV_NAMED_PIPE:
    case UV_TCP: /* libuv treats them alike once they are open */
        return UV_NAMED_PIPE;
    default:
        return UV_UNKNOWN_HANDLE;
    }
}

int tdg__line_end_prepare(struct line_end *end, int fd) {
    end->type = type_of(fd);
    if (end->type == UV_UNKNOWN_HANDLE) {
        errno = EINVAL;
        return TDG_ESYSTEM;
    }
    end->flags = fcntl(fd, F_GETFL);
    end->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* libuv does not close 0, 1 and 2 */
    return end->fd < 0 ? TDG_ESYSTEM : 0;
}

/* libuv opens a terminal anew, so that ours may be non-blocking and others' not; then the
 * duplicate is not needed. */
static int open_tty(struct line_end *end, uv_loop_t *loop) {
    int fd = end->fd;

    if (uv_tty_init(loop, &end->tty, fd, 0) < 0) {
        close(fd);
        return TDG_ESYSTEM;
    }
    if (uv_fileno(&end->handle, &end->fd) == 0 && end->fd != fd)
        close(fd);
    return 0;
}

int tdg__line_end_open(struct line_end *end, uv_loop_t *loop, void *data,
                       uv_close_cb on_closed) {
    if (end->type == UV_TTY && open_tty(end, loop) < 0)
        return TDG_ESYSTEM;
    if (end->type == UV_NAMED_PIPE)
        uv_pipe_init(loop, &end->pipe, 0);
    if (end->type != UV_FILE)
        end->handle.data = data;

    end->open = true;
    if (end->type == UV_NAMED_PIPE && uv_pipe_open(&end->pipe, end->fd) < 0) {
        close(end->fd);
        uv_close(&end->handle, on_closed);
        return TDG_ESYSTEM;
    }
    return 0;
}

void tdg__line_end_close(struct line_end *end, uv_close_cb on_closed) {
    if (!end->open || (end->type != UV_FILE && uv_is_closing(&end->handle)))
        return;
    if (end->type == UV_FILE) {
        close(end->fd);
        end->open = false;
        return;
    }
    if (end->type == UV_NAMED_PIPE && end->flags >= 0 && !(end->flags & O_NONBLOCK))
        (void)fcntl(end->fd, F_SETFL, end->flags);
    uv_close(&end->handle, on_closed);
}
