/* SPDX-License-Identifier: MIT */
#include "source/process.h"

#include <signal.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum {
    READ_BYTES = 32 * 1024,
    GRACE_MS = 2000,           /* between SIGTERM and SIGKILL; for output after the end */
    WASTE_BYTES = 1024 * 1024, /* that nobody needs; more of them within WASTE_MS, and */
    WASTE_MS = 100,            /* nothing is read for as long: the pipe gets full */
};

/* What was read and thrown away. */
struct waste {
    uint64_t since_ms;
    size_t bytes;
};

struct tdg__process {
    const tdg__process_ops_t *ops;
    void *user;
    uv_process_t child;
    uv_pipe_t out, err;
    uv_timer_t grace, rest, err_rest;
    struct waste out_waste, err_waste;
    unsigned handles; /* that are not closed yet */
    bool out_ended, err_ended;
    bool exited, stopping, closing;
    uint64_t started_ns;
    tdg__process_end_t end;
    char line[TDG__PROCESS_LINE + 1]; /* of standard error, so far */
    size_t line_len;
    char buffer[READ_BYTES];
};

/* ---- The end ------------------------------------------------------------ */

static void on_closed(uv_handle_t *handle) {
    tdg__process_t *process = handle->data;

    if (--process->handles > 0)
        return;
    process->ops->ended(process->user, &process->end);
    tdg__free(process);
}

static void close_all(tdg__process_t *process) {
    uv_handle_t *handles[] = {
        (uv_handle_t *)&process->child, (uv_handle_t *)&process->out,
        (uv_handle_t *)&process->err,   (uv_handle_t *)&process->grace,
        (uv_handle_t *)&process->rest,  (uv_handle_t *)&process->err_rest,
    };

    if (process->closing)
        return;
    process->closing = true;
    for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++)
        if (handles[i]->data != NULL)
            uv_close(handles[i], on_closed);
}

/* The group has the number of the program. As long as one of its members lives the
 * number is not given to another; where none does, the signal finds nobody. */
static void signal_group(const tdg__process_t *process, int number) {
    if (process->child.pid > 0)
        (void)kill(-process->child.pid, number);
}

static void on_grace_over(uv_timer_t *timer) {
    tdg__process_t *process = timer->data;

    signal_group(process, SIGKILL);
    if (process->exited)
        close_all(process); /* whoever left the group may hold the pipes for ever */
}

/* Ends once the program is gone and its output is complete. */
static void check_ended(tdg__process_t *process) {
    if (!process->exited || process->closing)
        return;
    if (process->stopping || (process->out_ended && process->err_ended)) {
        signal_group(process, SIGKILL);
        close_all(process);
    }
}

static void on_exit(uv_process_t *child, int64_t exit_status, int number) {
    tdg__process_t *process = child->data;

    process->exited = true;
    process->end.exit_status = (int)exit_status;
    process->end.signal = number;
    process->end.duration_ms = (int64_t)((uv_hrtime() - process->started_ns) / 1000000);
    uv_timer_start(&process->grace, on_grace_over, GRACE_MS, 0);
    check_ended(process);
}

void tdg__process_stop(tdg__process_t *process) {
    if (process->stopping)
        return;
    process->stopping = true;
    if (process->closing)
        return;
    if (!process->exited) {
        signal_group(process, SIGTERM);
        signal_group(process, SIGCONT); /* one that is stopped could not end */
        uv_timer_start(&process->grace, on_grace_over, GRACE_MS, 0);
    }
    check_ended(process);
}

/* ---- What it writes ----------------------------------------------------- */

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *ret) {
    tdg__process_t *process = handle->data;

    (void)wanted;
    *ret = uv_buf_init(process->buffer, sizeof(process->buffer));
}

static void on_output(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf) {
    tdg__process_t *process = stream->data;

    if (len > 0 && !process->stopping)
        process->ops->output(process->user, buf->base, (size_t)len);
    if (len >= 0)
        return;
    uv_read_stop(stream);
    process->out_ended = true;
    check_ended(process);
}

/* Counts it, and says whether that is too much. */
static bool is_too_much(tdg__process_t *process, struct waste *waste, size_t bytes) {
    uint64_t now = uv_now(process->rest.loop);

    if (now - waste->since_ms >= WASTE_MS)
        *waste = (struct waste){.since_ms = now};
    waste->bytes += bytes;
    return waste->bytes > WASTE_BYTES;
}

static void on_error_output(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf);

static void on_error_rested(uv_timer_t *timer) {
    tdg__process_t *process = timer->data;

    if (!process->closing && !process->err_ended)
        uv_read_start((uv_stream_t *)&process->err, on_room, on_error_output);
}

static void end_line(tdg__process_t *process) {
    if (process->line_len == 0)
        return;
    process->line[process->line_len] = '\0';
    process->line_len = 0;
    process->ops->said(process->user, process->line);
}

static void on_error_output(uv_stream_t *stream, ssize_t len, const uv_buf_t *buf) {
    tdg__process_t *process = stream->data;

    for (ssize_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)buf->base[i];

        if (byte == '\n')
            end_line(process);
        else if (process->line_len < TDG__PROCESS_LINE)
            process->line[process->line_len++] =
                (char)(byte < ' ' || byte == 127 ? ' ' : byte);
    }
    if (len >= 0) {
        if (is_too_much(process, &process->err_waste, (size_t)len)) {
            uv_read_stop(stream);
            uv_timer_start(&process->err_rest, on_error_rested, WASTE_MS, 0);
        }
        return;
    }
    end_line(process);
    uv_read_stop(stream);
    process->err_ended = true;
    check_ended(process);
}

static void on_rested(uv_timer_t *timer) {
    tdg__process_t *process = timer->data;

    if (!process->closing && !process->out_ended)
        uv_read_start((uv_stream_t *)&process->out, on_room, on_output);
}

void tdg__process_rest(tdg__process_t *process, uint64_t ms) {
    if (process->closing || process->out_ended)
        return;
    uv_read_stop((uv_stream_t *)&process->out);
    uv_timer_start(&process->rest, on_rested, ms, 0);
}

void tdg__process_wasted(tdg__process_t *process, size_t bytes) {
    if (is_too_much(process, &process->out_waste, bytes))
        tdg__process_rest(process, WASTE_MS);
}

/* ---- The beginning ------------------------------------------------------ */

static void close_fd(uv_file *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Pipes rather than what libuv would make, which are sockets: those cannot be opened by
 * the name of /dev/stdout. */
static int spawn(tdg__process_t *process, uv_loop_t *loop,
                 const tdg__process_opts_t *opts) {
    uv_file out[2] = {-1, -1}, err[2] = {-1, -1};
    uv_stdio_container_t stdio[3] = {{.flags = UV_IGNORE}};
    uv_process_options_t how = {
        .exit_cb = on_exit,
        .file = opts->argv[0],
        .args = (char **)(uintptr_t)opts->argv,
        .env = (char **)(uintptr_t)opts->env,
        .cwd = opts->cwd,
        .flags = UV_PROCESS_DETACHED,
        .stdio_count = 3,
        .stdio = stdio,
    };
    int rv;

    if ((rv = uv_pipe(out, UV_NONBLOCK_PIPE, 0)) < 0 ||
        (rv = uv_pipe(err, UV_NONBLOCK_PIPE, 0)) < 0)
        goto done;
    stdio[1] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = out[1]};
    stdio[2] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = err[1]};

    rv = uv_spawn(loop, &process->child, &how);
    process->child.data = process; /* to be closed, also where it was not started */
    process->handles++;
    if (rv < 0) {
        process->child.pid = 0;
        goto done;
    }

    if ((rv = uv_pipe_open(&process->out, out[0])) == 0)
        out[0] = -1;
    if (rv == 0 && (rv = uv_pipe_open(&process->err, err[0])) == 0)
        err[0] = -1;
    if (rv == 0)
        rv = uv_read_start((uv_stream_t *)&process->out, on_room, on_output);
    if (rv == 0)
        rv = uv_read_start((uv_stream_t *)&process->err, on_room, on_error_output);
    if (rv < 0) {
        process->stopping = true;
        signal_group(process, SIGKILL);
    }

done:
    close_fd(&out[0]);
    close_fd(&out[1]);
    close_fd(&err[0]);
    close_fd(&err[1]);
    return rv;
}

int tdg__process_start(uv_loop_t *loop, const tdg__process_opts_t *opts,
                       tdg__process_t **ret) {
    tdg__process_t *process = tdg__calloc(1, sizeof(*process));
    if (process == NULL)
        return TDG_ENOMEM;

    process->ops = opts->ops;
    process->user = opts->user;
    uv_pipe_init(loop, &process->out, 0);
    uv_pipe_init(loop, &process->err, 0);
    uv_timer_init(loop, &process->grace);
    uv_timer_init(loop, &process->rest);
    uv_timer_init(loop, &process->err_rest);
    process->out.data = process->err.data = process;
    process->grace.data = process->rest.data = process->err_rest.data = process;
    process->handles = 5;
    process->started_ns = uv_hrtime();

    process->end.error = spawn(process, loop, opts);
    if (process->end.error < 0 && process->child.pid == 0)
        close_all(process); /* what does run is waited for, so that nothing stays */
    *ret = process;
    return 0;
}
