/* SPDX-License-Identifier: MIT
 *
 * Pipes, sockets and terminals are read by the loop, files by its thread pool. Output
 * goes to libuv only where it has to wait; a file never waits. */
#include "net/line.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "net/internal.h"

/* One direction of a line: a descriptor of any kind as something that libuv can read or
 * write. All holders of a pipe share its blocking mode, so the previous mode is restored
 * at the end. */
struct end {
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

struct tdg__line {
    tdg__net_t *net;
    tdg__line_calls_t calls;
    void *user;
    struct end input, output;
    tdg__outlet_t outlet;
    uv_fs_t read; /* of a file */
    uv_timer_t patience;
    size_t max_bytes;
    char *data; /* what was read and not reported: from `start` to `end` */
    size_t start, end, size;
    size_t searched; /* up to here there is no newline */
    bool skipping;   /* the end of a line that was too long */
    bool fs_reading;
    ssize_t late; /* what a read brought that was under way when paused; 0: nothing */
    bool eof;
    bool ended; /* was reported */
    bool paused;
    bool reporting;
    bool closing;
    bool timer_open;
    void (*done)(void *arg);
    void *done_arg;
    char chunk[READ_BYTES];
};

/* ---- One end ------------------------------------------------------------ */

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

/* Duplicates `fd`, and finds out what it is. To be done for both ends, which may be one
 * socket, before either is opened. Returns 0 or TDG_ESYSTEM (nothing has happened). */
static int end_prepare(struct end *end, int fd) {
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
static int open_tty(struct end *end, uv_loop_t *loop) {
    int fd = end->fd;

    if (uv_tty_init(loop, &end->tty, fd, 0) < 0) {
        close(fd);
        return TDG_ESYSTEM;
    }
    if (uv_fileno(&end->handle, &end->fd) == 0 && end->fd != fd)
        close(fd);
    return 0;
}

/* `data` is that of the handle. Returns 0 or TDG_ESYSTEM: the descriptor is closed then,
 * and `on_closed` follows where `open` is set. */
static int end_open(struct end *end, uv_loop_t *loop, void *data, uv_close_cb on_closed) {
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

/* Does nothing where it is not open or closing already. `on_closed` follows, except for a
 * file. */
static void end_close(struct end *end, uv_close_cb on_closed) {
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

/* ---- Lines from bytes --------------------------------------------------- */

static void report(tdg__line_t *line, const char *data, size_t len) {
    if (len > 0 && data[len - 1] == '\r')
        len--;
    if (len > line->max_bytes)
        line->calls.line(line->user, NULL, 0);
    else if (len > 0)
        line->calls.line(line->user, data, len);
}

static void begin_skipping(tdg__line_t *line) {
    line->start = line->end = line->searched = 0;
    line->skipping = true;
    line->calls.line(line->user, NULL, 0);
}

/* Makes room for a chunk. A line that memory is too short for is treated like one that is
 * too long. */
static void make_room(tdg__line_t *line, size_t len) {
    size_t used = line->end - line->start;
    char *bigger;

    memmove(line->data, line->data + line->start, used);
    line->searched -= line->start;
    line->start = 0;
    line->end = used;
    if (len <= line->size - used)
        return;

    bigger = tdg__realloc(line->data, 2 * line->size);
    if (bigger == NULL) {
        begin_skipping(line);
        return;
    }
    line->data = bigger;
    line->size *= 2;
}

/* Gives back what a long line needed. */
static void shrink(tdg__line_t *line) {
    char *smaller;

    if (line->start < line->end)
        return;
    line->start = line->end = line->searched = 0;
    if (line->size == READ_BYTES)
        return;
    smaller = tdg__realloc(line->data, READ_BYTES);
    if (smaller == NULL)
        return;
    line->data = smaller;
    line->size = READ_BYTES;
}

/* Takes one line, or the end of one that is skipped, from what was read. Returns false
 * where there is none. */
static bool take_line(tdg__line_t *line) {
    char *begin = line->data + line->start;
    char *newline = memchr(line->data + line->searched, '\n', line->end - line->searched);
    bool skipped = line->skipping;

    if (newline == NULL) {
        line->searched = line->end;
        if (skipped)
            line->start = line->end;
        else if (line->end - line->start > line->max_bytes + 1) /* and a "\r" */
            begin_skipping(line);
        return false;
    }
    line->start = line->searched = (size_t)(newline + 1 - line->data);
    line->skipping = false;
    if (!skipped)
        report(line, begin, (size_t)(newline - begin));
    return true;
}

/* What a last newline is missing behind; then the end. */
static void end_input(tdg__line_t *line) {
    size_t start = line->start, end = line->end;

    line->start = line->searched = line->end;
    if (start < end && !line->skipping)
        report(line, line->data + start, end - start);
    if (line->paused || line->closing)
        return;
    line->ended = true;
    line->calls.ended(line->user);
}

static bool may_report(const tdg__line_t *line) {
    return !line->paused && !line->closing && !line->ended;
}

/* Reports what there is, unless the owner has had enough. From inside a report it does
 * nothing: the outer one goes on. */
static void run_lines(tdg__line_t *line) {
    if (line->reporting)
        return;
    line->reporting = true;
    while (may_report(line) && take_line(line))
        ;
    if (line->eof && may_report(line))
        end_input(line);
    line->reporting = false;
    if (!line->closing)
        shrink(line);
}

/* ---- Reading ------------------------------------------------------------ */

static void maybe_free(tdg__line_t *line);
static void on_handle_closed(uv_handle_t *handle);
static void read_on(tdg__line_t *line);

static void on_bytes(tdg__line_t *line, ssize_t nread) {
    size_t len = nread > 0 ? (size_t)nread : 0;

    if (line->closing)
        return;
    if (nread < 0)
        line->eof = true;
    line->reporting = true;
    if (len > 0)
        make_room(line, len);
    line->reporting = false;
    if (line->closing)
        return;
    memcpy(line->data + line->end, line->chunk, len);
    line->end += len;
    run_lines(line);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret) {
    tdg__line_t *line = handle->data;

    (void)suggested;
    *ret = uv_buf_init(line->chunk, READ_BYTES);
}

static void on_stream_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf) {
    tdg__line_t *line = stream->data;

    (void)buf;
    if (nread < 0)
        uv_read_stop(stream);
    on_bytes(line, nread);
}

static void on_file_read(uv_fs_t *read) {
    tdg__line_t *line = read->data;
    ssize_t nread = read->result;

    uv_fs_req_cleanup(read);
    line->fs_reading = false;
    if (line->closing) {
        end_close(&line->input, on_handle_closed);
        maybe_free(line);
        return;
    }
    line->late = nread == 0 ? UV_EOF : nread;
    read_on(line);
}

static int start_reading(tdg__line_t *line) {
    uv_buf_t buf = uv_buf_init(line->chunk, READ_BYTES);
    int rv;

    if (line->input.type != UV_FILE) {
        rv = uv_read_start(&line->input.stream, on_alloc, on_stream_read);
        return rv == UV_EALREADY ? 0 : rv;
    }
    if (line->fs_reading)
        return 0;
    rv = uv_fs_read(line->net->loop, &line->read, line->input.fd, &buf, 1, -1,
                    on_file_read);
    line->fs_reading = rv >= 0;
    return rv;
}

/* Reads, unless it does already or must not. */
static void read_on(tdg__line_t *line) {
    ssize_t late = line->late;
    int rv;

    if (!line->paused && !line->closing && late != 0) {
        line->late = 0;
        on_bytes(line, late);
    }
    if (line->eof || line->paused || line->closing)
        return;
    rv = start_reading(line);
    if (rv < 0)
        on_bytes(line, rv);
}

void tdg__line_pause(tdg__line_t *line, bool paused) {
    if (line->closing || line->paused == paused)
        return;
    line->paused = paused;
    if (paused) {
        if (line->input.type != UV_FILE)
            uv_read_stop(&line->input.stream);
        return;
    }
    run_lines(line);
    if (!line->reporting)
        read_on(line);
}

/* ---- Beginning ---------------------------------------------------------- */

static void on_drained(tdg__outlet_t *outlet);

static const tdg__outlet_calls_t outlet_calls = {.drained = on_drained};

static void open_outlet(tdg__line_t *line) {
    struct stat st;
    bool file = line->output.type == UV_FILE;

    line->outlet = (tdg__outlet_t){
        .net = line->net,
        .stream = file ? NULL : &line->output.stream,
        .calls = &outlet_calls,
        .fd = line->output.fd,
        .socket = fstat(line->output.fd, &st) == 0 && S_ISSOCK(st.st_mode),
    };
}

static int create(tdg__net_t *net, tdg__line_t **ret) {
    tdg__line_t *line = tdg__calloc(1, sizeof(*line));

    if (line == NULL)
        return TDG_ENOMEM;
    line->data = tdg__malloc(READ_BYTES);
    if (line->data == NULL) {
        tdg__free(line);
        return TDG_ENOMEM;
    }
    line->size = READ_BYTES;
    line->net = net;
    line->read.data = line->patience.data = line;
    *ret = line;
    return 0;
}

static void destroy(tdg__line_t *line) {
    tdg__free(line->data);
    tdg__free(line);
}

int tdg__line_open(tdg__net_t *net, int input, int output, size_t max_bytes,
                   const tdg__line_calls_t *calls, void *user, tdg__line_t **ret) {
    tdg__line_t *line;
    int rv;

    rv = create(net, &line);
    if (rv < 0)
        return rv;
    line->max_bytes = max_bytes;
    line->calls = *calls;
    line->user = user;

    rv = end_prepare(&line->input, input);
    if (rv < 0)
        goto fail_line;
    rv = end_prepare(&line->output, output);
    if (rv < 0)
        goto fail_input;

    uv_timer_init(net->loop, &line->patience);
    line->timer_open = true;
    tdg__net_hold(net);
    rv = end_open(&line->input, net->loop, line, on_handle_closed);
    if (rv < 0) {
        close(line->output.fd);
        goto fail_open;
    }
    rv = end_open(&line->output, net->loop, line, on_handle_closed);
    if (rv < 0)
        goto fail_open;

    open_outlet(line);
    if (start_reading(line) < 0) {
        rv = TDG_ESYSTEM;
        goto fail_open;
    }
    *ret = line;
    return 0;

fail_open:
    tdg__line_close(line, 0, NULL, NULL);
    return rv;
fail_input:
    close(line->input.fd);
fail_line:
    destroy(line);
    return rv;
}

tdg__outlet_t *tdg__line_outlet(tdg__line_t *line) {
    return &line->outlet;
}

/* ---- End ---------------------------------------------------------------- */

static void maybe_free(tdg__line_t *line) {
    void (*done)(void *arg) = line->done;
    void *arg = line->done_arg;
    tdg__net_t *net = line->net;

    if (line->input.open || line->output.open || line->timer_open || line->fs_reading)
        return;
    destroy(line);
    if (done != NULL)
        done(arg);
    tdg__net_release(net);
}

static void on_handle_closed(uv_handle_t *handle) {
    tdg__line_t *line = handle->data;

    if (handle == &line->input.handle)
        line->input.open = false;
    else if (handle == &line->output.handle)
        line->output.open = false;
    else
        line->timer_open = false;
    maybe_free(line);
}

/* Both ends at once: they may be one socket, which must not block before all is out. */
static void close_ends(tdg__line_t *line) {
    line->outlet.broken = true;
    if (!line->fs_reading)
        end_close(&line->input, on_handle_closed);
    end_close(&line->output, on_handle_closed);
    if (!uv_is_closing((uv_handle_t *)&line->patience))
        uv_close((uv_handle_t *)&line->patience, on_handle_closed);
}

static void on_impatient(uv_timer_t *timer) {
    close_ends(timer->data);
}

static void on_drained(tdg__outlet_t *outlet) {
    tdg__line_t *line =
        (tdg__line_t *)(void *)((char *)outlet - offsetof(tdg__line_t, outlet));

    if (line->closing)
        close_ends(line);
    else
        line->calls.drained(line->user);
}

void tdg__line_close(tdg__line_t *line, uint32_t timeout_ms, void (*done)(void *arg),
                     void *arg) {
    assert(!line->closing);
    line->closing = true;
    line->done = done;
    line->done_arg = arg;
    if (line->fs_reading)
        (void)uv_cancel((uv_req_t *)&line->read);
    else if (line->input.open && line->input.type != UV_FILE)
        uv_read_stop(&line->input.stream);
    if (!line->outlet.in_flight || timeout_ms == 0)
        close_ends(line);
    else
        uv_timer_start(&line->patience, on_impatient, timeout_ms, 0);
}
