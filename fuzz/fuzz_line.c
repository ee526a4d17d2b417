/* SPDX-License-Identifier: MIT
 *
 * Any bytes as what comes on stdio. The first byte of the input says in which pieces they
 * come, the second from what kind of descriptor, whether the reader pauses after each
 * line, and how long a line may be. What is reported is what a plain reading of all bytes
 * gives. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "net/line.h"

enum { SHORT = 16, LONG = 100 * 1000, MANY = 40, MAX_BYTES = 4096 };

enum { PIPE, SOCKET, FILE_, KINDS };

struct run {
    uv_loop_t loop;
    tdg__net_t *net;
    tdg__line_t *line;
    FILE *seen;
    char *text;
    size_t len;
    int input, output, other; /* the line's two, and our end of the first */
    size_t max_bytes;
    bool pauses, paused, ended, closed;
};

/* ---- The line ----------------------------------------------------------- */

static void put_line(FILE *seen, const char *data, size_t len) {
    if (data == NULL) {
        fputs("too long\n", seen);
    } else {
        fprintf(seen, "%zu ", len);
        fwrite(data, 1, len, seen);
        fputc('\n', seen);
    }
}

static void on_line(void *user, const char *data, size_t len) {
    struct run *run = user;

    require(!run->ended && !run->paused);
    require(data == NULL || (len > 0 && len <= run->max_bytes));
    put_line(run->seen, data, len);
    if (run->pauses) {
        run->paused = true;
        tdg__line_pause(run->line, true);
    }
}

static void on_drained(void *user) {
    (void)user;
}

static void on_ended(void *user) {
    struct run *run = user;

    require(!run->ended && !run->paused);
    run->ended = true;
}

static void on_closed(void *arg) {
    ((struct run *)arg)->closed = true;
}

/* ---- What comes --------------------------------------------------------- */

static void open_input(struct run *run, int kind, const uint8_t *data, size_t size,
                       size_t times) {
    int fds[2] = {-1, -1};

    if (kind == FILE_) {
        fds[0] = memfd_create("line", MFD_CLOEXEC);
        for (size_t i = 0; i < times; i++)
            require(write(fds[0], data, size) == (ssize_t)size);
        require(lseek(fds[0], 0, SEEK_SET) == 0);
    } else if (kind == PIPE) {
        require(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
    } else {
        require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) ==
                0);
    }
    run->input = fds[0];
    run->other = fds[1];
}

static void turn(struct run *run) {
    uv_run(&run->loop, UV_RUN_NOWAIT);
    if (run->paused) {
        run->paused = false;
        tdg__line_pause(run->line, false);
    }
}

static void send_piece(struct run *run, const uint8_t *data, size_t len) {
    while (len > 0) {
        ssize_t n = write(run->other, data, len);

        require(n > 0 || errno == EAGAIN);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
        turn(run);
    }
}

static void send_all(struct run *run, const uint8_t *data, size_t size, size_t piece) {
    for (size_t at = 0; at < size; at += piece)
        send_piece(run, data + at, piece < size - at ? piece : size - at);
}

/* ---- The plain reading -------------------------------------------------- */

static void read_plainly(FILE *seen, const char *data, size_t size, size_t max_bytes) {
    for (const char *end = data + size; data < end;) {
        const char *newline = memchr(data, '\n', (size_t)(end - data));
        const char *stop = newline != NULL ? newline : end;
        size_t len = (size_t)(stop - data);

        if (len > 0 && stop[-1] == '\r')
            len--;
        if (len > 0)
            put_line(seen, len <= max_bytes ? data : NULL, len);
        data = stop + 1;
    }
}

static void check_seen(struct run *run, const uint8_t *data, size_t size, size_t times) {
    char *all = malloc(size * times + 1), *text = NULL;
    size_t len = 0;
    FILE *seen = open_memstream(&text, &len);

    require(all != NULL && seen != NULL);
    for (size_t i = 0; i < times; i++)
        memcpy(all + i * size, data, size);
    read_plainly(seen, all, size * times, run->max_bytes);
    fclose(seen);
    fflush(run->seen);
    require(run->len == len && memcmp(run->text, text, len) == 0);
    free(text);
    free(all);
}

/* ---- All ---------------------------------------------------------------- */

static void on_request(void *user, tdg__conn_t *conn,
                       const tdg__http_request_t *request) {
    (void)user;
    (void)conn;
    (void)request;
    abort(); /* nobody listens */
}

static void on_conn(void *user, tdg__conn_t *conn) {
    (void)user;
    (void)conn;
    abort();
}

static void begin(struct run *run) {
    static const tdg__line_calls_t calls = {on_line, on_drained, on_ended};
    const tdg__net_opts_t opts = {
        .calls = {.request = on_request, .drained = on_conn, .closed = on_conn},
        .limits = {.max_header_bytes = 1024, .max_fields = 10},
        .max_connections = 1};

    run->output = memfd_create("output", MFD_CLOEXEC);
    run->seen = open_memstream(&run->text, &run->len);
    require(run->output >= 0 && run->seen != NULL);
    require(uv_loop_init(&run->loop) == 0);
    require(tdg__net_create(&run->loop, &opts, &run->net) == 0);
    require(tdg__line_open(run->net, run->input, run->output, run->max_bytes, &calls, run,
                           &run->line) == 0);
}

static void end(struct run *run) {
    tdg__line_close(run->line, 0, on_closed, run);
    while (!run->closed)
        uv_run(&run->loop, UV_RUN_ONCE);
    tdg__net_close(run->net, NULL, NULL);
    uv_run(&run->loop, UV_RUN_DEFAULT);
    require(uv_loop_close(&run->loop) == 0);
    close(run->input);
    close(run->output);
    fclose(run->seen);
    free(run->text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct run run = {.other = -1};
    size_t piece, times;
    int kind;

    if (size < 2 || size > MAX_BYTES)
        return 0;
    piece = data[0] + 1U;
    kind = data[1] % KINDS;
    run.pauses = (data[1] & 64) != 0;
    run.max_bytes = (data[1] & 128) != 0 ? LONG : SHORT;
    data += 2;
    size -= 2;
    /* Lines that are longer than a read brings at once, now and then. */
    times = piece == 256 && size > 1000 ? MANY : 1;
    if (times > 1) {
        piece = size;
        run.pauses = false;
    }

    open_input(&run, kind, data, size, times);
    begin(&run);
    for (size_t i = 0; i < times && kind != FILE_; i++)
        send_all(&run, data, size, piece);
    if (kind != FILE_)
        close(run.other);
    while (!run.ended)
        turn(&run);
    check_seen(&run, data, size, times);
    end(&run);
    return 0;
}
