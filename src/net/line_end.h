/* SPDX-License-Identifier: MIT
 *
 * One direction of a line: a descriptor of any kind as something that libuv can read or
 * write. All holders of a pipe share its blocking mode, so the previous mode is restored
 * at the end. */
#ifndef TDG_NET_LINE_END_H
#define TDG_NET_LINE_END_H

#include <stdbool.h>

#include <uv.h>

struct line_end {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tty_t tty;
    };
    uv_handle_type type; /* UV_NAMED_PIPE also for sockets; UV_FILE: there is no handle */
    int fd;              /* ours */
    int flags;           /* of the open file, before; -1: unknown */
    bool open; /* until the close callback, which resets it; of a file: the fd */
};

/* Duplicates `fd`, and finds out what it is. To be done for both ends, which may be one
 * socket, before either is opened. Returns 0 or TDG_ESYSTEM (nothing has happened). */
int tdg__line_end_prepare(struct line_end *end, int fd);

/* `data` is that of the handle. Returns 0 or TDG_ESYSTEM: the descriptor is closed then,
 * and `on_closed` follows where `open` is set. */
int tdg__line_end_open(struct line_end *end, uv_loop_t *loop, void *data,
                       uv_close_cb on_closed);

/* Does nothing where it is not open or closing already. `on_closed` follows, except for a
 * file. */
void tdg__line_end_close(struct line_end *end, uv_close_cb on_closed);

#endif
