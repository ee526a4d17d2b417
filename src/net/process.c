/* SPDX-License-Identifier: MIT */
#include "net/process.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum {
    READ_BYTES = 32 * 1024,
    GRACE_MS = 2000,           /* where nothing else is said */
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
    uv_pipe_t in, out, err;
    uv_timer_t grace, rest, err_rest;
    uint64_t grace_ms;
    size_t max_input;
    struct waste out_waste, err_waste;
    unsigned handles; /* that are not closed yet */
    bool in_ended, out_ended, err_ended;
    bool exited, finishing, stopping, closing;
    uint64_t started_ns;
    tdg__process_end_t end;
    char line[TDG__PROCESS_LONG_LINE + 1]; /* of standard error, so far */
    size_t line_len, line_max;
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
        (uv_handle_t *)&process->child,    (uv_handle_t *)&process->in,
        (uv_handle_t *)&process->out,      (uv_handle_t *)&process->err,
        (uv_handle_t *)&process->grace,    (uv_handle_t *)&process->rest,
        (uv_handle_t *)&process->err_rest,
    };

    if (process->closing)
        return;
    process->closing = true;
    for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++)
        if (handles[i]->data != NULL && !uv_is_closing(handles[i]))
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
    if (process->stopping || process->finishing ||
        (process->out_ended && process->err_ended)) {
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
    uv_timer_start(&process->grace, on_grace_over, process->grace_ms, 0);
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
        uv_timer_start(&process->grace, on_grace_over, process->grace_ms, 0);
    }
    check_ended(process);
}

bool tdg__process_exited(const tdg__process_t *process, tdg__process_end_t *ret) {
    *ret = process->end;
    return process->exited;
}

int tdg__process_pid(const tdg__process_t *process) {
    return process->child.pid;
}

/* ---- What it reads ------------------------------------------------------ */

struct input {
    uv_write_t write;
    char data[];
};

static void close_input(tdg__process_t *process) {
    process->in_ended = true;
    if (!process->closing && !uv_is_closing((uv_handle_t *)&process->in))
        uv_close((uv_handle_t *)&process->in, on_closed);
}

static void on_written(uv_write_t *write, int status) {
    tdg__process_t *process = write->handle->data;

    tdg__free(write->data);
    if (status < 0 || (process->finishing &&
                       uv_stream_get_write_queue_size((uv_stream_t *)&process->in) == 0))
        close_input(process);
}

int tdg__process_write_line(tdg__process_t *process, const char *line, size_t len) {
    uv_stream_t *stream = (uv_stream_t *)&process->in;
    struct input *input;
    uv_buf_t buf;

    if (process->in_ended || process->finishing || process->stopping || process->closing)
        return TDG_EENDED;
    if (len >= process->max_input ||
        uv_stream_get_write_queue_size(stream) >= process->max_input - len)
        return TDG_ETOOLARGE;

    input = tdg__malloc(sizeof(*input) + len + 1);
    if (input == NULL)
        return TDG_ENOMEM;
    memcpy(input->data, line, len);
    input->data[len] = '\n';
    input->write.data = input;
    buf = uv_buf_init(input->data, (unsigned)len + 1);
    if (uv_write(&input->write, stream, &buf, 1, on_written) == 0)
        return 0;
    tdg__free(input);
    close_input(process);
    return TDG_EENDED;
}

static void on_finish_over(uv_timer_t *timer) {
    tdg__process_stop(timer->data);
}

void tdg__process_finish(tdg__process_t *process) {
    if (process->finishing || process->stopping)
        return;
    process->finishing = true;
    if (process->closing)
        return;
    if (uv_stream_get_write_queue_size((uv_stream_t *)&process->in) == 0)
        close_input(process);
    if (!process->exited)
        uv_timer_start(&process->grace, on_finish_over, process->grace_ms, 0);
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

    bool heard = !process->stopping && !process->finishing;

    if (len > 0 && heard)
        process->ops->output(process->user, buf->base, (size_t)len);
    if (len >= 0)
        return;
    uv_read_stop(stream);
    process->out_ended = true;
    if (heard && process->ops->output_ended != NULL)
        process->ops->output_ended(process->user);
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
        else if (process->line_len < process->line_max)
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
 * the name of /dev/stdout. `pair` gets our end first; that of the program blocks. */
static int make_pipe(uv_file pair[2], bool we_write) {
    uv_file ends[2];
    int rv = we_write ? uv_pipe(ends, 0, UV_NONBLOCK_PIPE)
                      : uv_pipe(ends, UV_NONBLOCK_PIPE, 0);

    if (rv < 0)
        return rv;
    pair[0] = ends[we_write];
    pair[1] = ends[!we_write];
    return 0;
}

/* The pipe is the handle's from now on. */
static int open_pipe(uv_pipe_t *pipe, uv_file *fd) {
    int rv = uv_pipe_open(pipe, *fd);

    if (rv == 0)
        *fd = -1;
    return rv;
}

static int open_pipes(tdg__process_t *process, uv_file pipes[3][2]) {
    int rv = 0;

    if (process->max_input > 0)
        rv = open_pipe(&process->in, &pipes[0][0]);
    if (rv == 0)
        rv = open_pipe(&process->out, &pipes[1][0]);
    if (rv == 0)
        rv = open_pipe(&process->err, &pipes[2][0]);
    if (rv == 0)
        rv = uv_read_start((uv_stream_t *)&process->out, on_room, on_output);
    if (rv == 0)
        rv = uv_read_start((uv_stream_t *)&process->err, on_room, on_error_output);
    if (rv < 0) {
        process->stopping = true;
        signal_group(process, SIGKILL);
    }
    return rv;
}

static int spawn(tdg__process_t *process, uv_loop_t *loop,
                 const tdg__process_opts_t *opts) {
    uv_file pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
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
    int rv = 0;

    for (int i = process->max_input > 0 ? 0 : 1; i < 3; i++) {
        if ((rv = make_pipe(pipes[i], i == 0)) < 0)
            goto done;
        stdio[i] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = pipes[i][1]};
    }

    rv = uv_spawn(loop, &process->child, &how);
    process->child.data = process; /* to be closed, also where it was not started */
    process->handles++;
    if (rv < 0)
        process->child.pid = 0;
    else
        rv = open_pipes(process, pipes);

done:
    for (int i = 0; i < 3; i++) {
        close_fd(&pipes[i][0]);
        close_fd(&pipes[i][1]);
    }
    return rv;
}

int tdg__process_start(uv_loop_t *loop, const tdg__process_opts_t *opts,
                       tdg__process_t **ret) {
    tdg__process_t *process = tdg__calloc(1, sizeof(*process));
    if (process == NULL)
        return TDG_ENOMEM;

    process->ops = opts->ops;
    process->user = opts->user;
    process->max_input = opts->max_input;
    process->in_ended = opts->max_input == 0;
    process->line_max = opts->line_bytes != 0 ? opts->line_bytes : TDG__PROCESS_LINE;
    process->grace_ms = opts->grace_ms != 0 ? opts->grace_ms : GRACE_MS;
    uv_pipe_init(loop, &process->in, 0);
    uv_pipe_init(loop, &process->out, 0);
    uv_pipe_init(loop, &process->err, 0);
    uv_timer_init(loop, &process->grace);
    uv_timer_init(loop, &process->rest);
    uv_timer_init(loop, &process->err_rest);
    process->in.data = process->out.data = process->err.data = process;
    process->grace.data = process->rest.data = process->err_rest.data = process;
    process->handles = 6;
    process->started_ns = uv_hrtime();

    process->end.error = spawn(process, loop, opts);
    if (process->end.error < 0 && process->child.pid == 0)
        close_all(process); /* what does run is waited for, so that nothing stays */
    *ret = process;
    return 0;
}
