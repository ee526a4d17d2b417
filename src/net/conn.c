/* SPDX-License-Identifier: MIT
 *
 * The life cycle of a connection: its bytes become requests, one at a time, until either
 * side closes it. Bytes that arrive while a request is being answered, or while the
 * response waits for a slow reader, are kept up to a limit; then we stop reading. */
#include "net/conn.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "net/internal.h"

static uint64_t in_ms(const tdg__net_t *net, uint32_t timeout_ms) {
    return timeout_ms == 0 ? UINT64_MAX : uv_now(net->loop) + timeout_ms;
}

/* ---- Kept input --------------------------------------------------------- */

/* Appends a copy of bytes. `input` may be NULL, and may move. NULL when memory is out:
 * `input` is as it was then. */
static struct input *append_input(struct input *input, const char *data, size_t len) {
    struct input *bigger = input;
    size_t size;

    if (input != NULL && input->start > 0) { /* or it would creep upwards for ever */
        memmove(input->data, input->data + input->start, input->end - input->start);
        input->end -= input->start;
        input->start = 0;
    }
    if (input == NULL || len > input->size - input->end) {
        size = (input == NULL ? 0 : input->end) + len;
        bigger = tdg__realloc(input, sizeof(*input) + size);
        if (bigger == NULL)
            return NULL;
        if (input == NULL)
            bigger->start = bigger->end = 0;
        bigger->size = size;
    }
    memcpy(bigger->data + bigger->end, data, len);
    bigger->end += len;
    return bigger;
}

static void skip_input(tdg__conn_t *conn, size_t len) {
    conn->input->start += len;
    if (conn->input->start == conn->input->end) {
        tdg__free(conn->input);
        conn->input = NULL;
    }
}

static void pause_reading(tdg__conn_t *conn) {
    conn->paused = true;
    uv_read_stop((uv_stream_t *)&conn->tcp);
}

/* What is kept is behind the request that is being reported, where one is. */
bool tdg__conn_keeps_much(const tdg__conn_t *conn) {
    const tdg__net_t *net = conn->outlet.net;
    size_t kept = conn->input == NULL ? 0 : conn->input->end - conn->input->start;

    for (const struct pump *pump = net->pump; pump != NULL; pump = pump->outer) {
        if (pump->conn == conn)
            kept = pump->rest_len;
    }
    return kept >= net->opts.limits.max_header_bytes;
}

/* Keeps what cannot be read as a request now. A client that sends much while a stream is
 * open expects something that we do not do. */
static void keep_input(tdg__conn_t *conn, const char *data, size_t len) {
    struct input *input = append_input(conn->input, data, len);

    if (input == NULL) {
        tdg__conn_abort(conn);
        return;
    }
    conn->input = input;
    if (!tdg__conn_keeps_much(conn))
        return;
    if (conn->phase == STREAMING) {
        tdg__conn_abort(conn);
    } else {
        pause_reading(conn);
    }
}

/* ---- From bytes to requests --------------------------------------------- */

/* One request at a time, and none while an answer still waits for its reader. */
static bool wants_request(const tdg__conn_t *conn) {
    return conn->phase <= READING && !conn->outlet.in_flight;
}

static void report(tdg__conn_t *conn, const char *rest, size_t rest_len) {
    tdg__net_t *net = conn->outlet.net;
    const tdg__http_request_t *request = tdg__http_reader_request(conn->reader);
    struct pump pump = {conn, rest, rest_len, net->pump};

    conn->phase = ANSWERING;
    conn->reported = true;
    conn->deserved = false;
    conn->keep_alive = request->keep_alive;
    conn->head = request->method == TDG__HTTP_HEAD;
    conn->old = request->minor == 0;

    net->pump = &pump;
    net->opts.calls.request(net->opts.user, conn, request);
    net->pump = pump.outer;

    tdg__net_give_reader(net, conn->reader);
    conn->reader = NULL;
}

/* Whether the owner wants the body of the request whose head is there. If not, it has
 * answered. */
static bool admit_head(tdg__conn_t *conn) {
    tdg__net_t *net = conn->outlet.net;
    const tdg__http_request_t *request = tdg__http_reader_request(conn->reader);

    if (net->opts.calls.head == NULL)
        return true;

    conn->phase = ANSWERING;
    conn->keep_alive = false;
    conn->lingers = true;
    conn->head = request->method == TDG__HTTP_HEAD;
    conn->old = request->minor == 0;
    if (net->opts.calls.head(net->opts.user, conn, request)) {
        conn->phase = READING;
        conn->lingers = false;
        return true;
    }
    assert(conn->phase >= FINISHING);
    tdg__net_give_reader(net, conn->reader);
    conn->reader = NULL;
    return false;
}

static void begin_reading(tdg__conn_t *conn) {
    tdg__net_t *net = conn->outlet.net;

    if (conn->phase == WAITING && tdg__http_reader_begun(conn->reader)) {
        conn->phase = READING;
        conn->deadline_ms = in_ms(net, net->opts.request_timeout_ms);
    }
}

/* Reads requests as long as they may come, and others need not wait. Returns how many
 * bytes were used. */
static size_t consume(tdg__conn_t *conn, const char *data, size_t len) {
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    tdg__net_t *net = conn->outlet.net;
    int left = tdg__turn_requests(conn);
    size_t all = 0;

    while (all < len && left > 0 && wants_request(conn)) {
        size_t used = 0;

        if (conn->reader == NULL)
            conn->reader = tdg__net_take_reader(net);
        if (conn->reader == NULL) {
            tdg__conn_abort(conn);
            break;
        }
        switch (tdg__http_reader_feed(conn->reader, data + all, len - all, &used)) {
        case TDG__HTTP_MORE:
            all = len;
            begin_reading(conn);
            break;
        case TDG__HTTP_HEADED:
            all += used;
            begin_reading(conn);
            if (admit_head(conn) && tdg__http_reader_expects(conn->reader))
                tdg__outlet_write(&conn->outlet, go_on, sizeof(go_on) - 1);
            break;
        case TDG__HTTP_READY:
            all += used;
            left--;
            report(conn, data + all, len - all);
            break;
        case TDG__HTTP_REFUSED:
            all = len;
            tdg__conn_refuse(conn, tdg__http_reader_status(conn->reader),
                             tdg__http_reader_reason(conn->reader));
            break;
        }
    }
    return all;
}

/* ---- Reading ------------------------------------------------------------ */

/* The client sends no more. It may still wait for the answer, but nobody listens to a
 * stream with a closed mouth: there it is how clients leave. */
static void on_end(tdg__conn_t *conn) {
    tdg__net_t *net = conn->outlet.net;

    conn->eof = true;
    if (conn->phase == STREAMING || conn->phase == LINGERING ||
        (wants_request(conn) && conn->input == NULL)) /* else what is kept comes first */
        tdg__conn_abort(conn);
    else if (conn->phase == ANSWERING && net->opts.calls.half_closed != NULL)
        net->opts.calls.half_closed(net->opts.user, conn);
}

static void discard(tdg__conn_t *conn, size_t len) {
    conn->discarded += (uint32_t)len;
    if (conn->discarded < LINGER_BYTES)
        return;
    if (conn->phase == LINGERING)
        tdg__conn_abort(conn);
    else
        uv_read_stop((uv_stream_t *)&conn->tcp);
}

static void take(tdg__conn_t *conn, const char *data, size_t len) {
    /* Behind what is kept: its turn comes before. */
    size_t used = conn->input == NULL ? consume(conn, data, len) : 0;

    if (conn->phase == FINISHING || conn->phase == LINGERING)
        discard(conn, len);
    else if (used < len && conn->phase != CLOSED)
        keep_input(conn, data + used, len - used);
    if (conn->input != NULL && wants_request(conn))
        tdg__turn_wait(conn);
}

/* What is read behind a request has to be kept, by each that waits. */
static size_t room_for(const tdg__conn_t *conn) {
    bool reads = conn->phase <= READING;
    size_t beyond = conn->proven && reads ? PROVEN_BYTES : STRANGER_BYTES;
    uint64_t missing =
        reads && conn->reader != NULL ? tdg__http_reader_missing(conn->reader) : 0;

    if (conn->phase >= FINISHING || missing > READ_BYTES - beyond)
        return READ_BYTES;
    return beyond + (size_t)missing;
}

/* Where it is not its turn: no room, so that libuv does not read. While somebody waits
 * for an answer, or has a stream, little is read, and that he leaves has to be noticed.
 */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret) {
    tdg__conn_t *conn = handle->data;
    bool may_read =
        conn->phase == ANSWERING || conn->phase == STREAMING || tdg__turn_has(conn);

    (void)suggested;
    *ret = may_read ? uv_buf_init(conn->outlet.net->input, (unsigned)room_for(conn))
                    : uv_buf_init(NULL, 0);
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf) {
    tdg__conn_t *conn = stream->data;
    uint64_t began_ns = uv_hrtime();
    bool proven = conn->proven;

    if (nread == UV_ENOBUFS) {
        pause_reading(conn);
        tdg__turn_wait(conn);
    } else if (nread == UV_EOF) {
        on_end(conn);
    } else if (nread < 0) {
        tdg__conn_abort(conn);
    } else {
        take(conn, buf->base, (size_t)nread);
    }
    tdg__turn_count(conn->outlet.net, proven, began_ns);
}

static bool start_reading(tdg__conn_t *conn) {
    conn->paused = false;
    if (uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) == 0)
        return true;
    tdg__conn_abort(conn);
    return false;
}

/* Reads again what was paused; at once, as the loop would find it in its next turn only,
 * in which it may have to wait again. */
static void read_on(tdg__conn_t *conn) {
    tdg__net_t *net = conn->outlet.net;
    ssize_t n;

    if (!start_reading(conn))
        return;
    n = recv(conn->outlet.fd, net->input, room_for(conn), MSG_DONTWAIT);
    if (n > 0) {
        take(conn, net->input, (size_t)n);
    } else if (n == 0) {
        uv_read_stop((uv_stream_t *)&conn->tcp);
        on_end(conn);
    } else if (errno != EAGAIN && errno != EINTR) {
        tdg__conn_abort(conn);
    }
}

/* That a client leaves has to be noticed while it waits for an answer, or has a stream.
 */
static void watch_for_its_end(tdg__conn_t *conn) {
    if (conn->paused && (conn->phase == ANSWERING || conn->phase == STREAMING) &&
        !tdg__conn_keeps_much(conn))
        (void)start_reading(conn);
}

/* Time in a lane is ours, not the client's. */
static void give_back_wait(tdg__conn_t *conn) {
    if (conn->phase <= READING && conn->deadline_ms != UINT64_MAX)
        conn->deadline_ms += uv_now(conn->outlet.net->loop) - conn->waits_since_ms;
}

/* Goes on in what is kept; where nothing is, with what comes. */
void tdg__conn_go_on(tdg__conn_t *conn) {
    give_back_wait(conn);
    if (conn->phase >= FINISHING) {
        if (conn->paused)
            read_on(conn); /* to discard it */
        return;
    }
    if (conn->input != NULL && wants_request(conn)) {
        const char *data = conn->input->data + conn->input->start;

        skip_input(conn, consume(conn, data, conn->input->end - conn->input->start));
    }
    watch_for_its_end(conn);
    if (!wants_request(conn))
        return;
    if (conn->input != NULL)
        tdg__turn_wait(conn);
    else if (conn->eof)
        tdg__conn_abort(conn);
    else if (conn->paused)
        read_on(conn);
    if (conn->outlet.net->finishing && conn->phase == WAITING && !tdg__turn_waits(conn))
        tdg__conn_finish(conn);
}

void tdg__conn_resume(tdg__conn_t *conn) {
    if (conn->phase == CLOSED) /* gone while its request was reported */
        return;
    if (conn->input != NULL || conn->eof || conn->paused)
        tdg__turn_wait(conn); /* else there is nothing to go on with but what comes */
}

/* ---- Beginning and end -------------------------------------------------- */

static tdg__conn_t *conn_of(tdg__outlet_t *outlet) {
    return (tdg__conn_t *)(void *)((char *)outlet - offsetof(tdg__conn_t, outlet));
}

static void give_back(tdg__conn_t *conn, uint64_t ms) {
    conn->outlet.progress_ms += ms;
    conn->outlet.pace.since_ms += ms;
    conn->waits_since_ms += ms;
    if (conn->deadline_ms != UINT64_MAX)
        conn->deadline_ms += ms;
}

/* A loop that was kept from its work has not seen yet what its clients did meanwhile:
 * that time is ours, not theirs. */
static void on_tick(uv_timer_t *timer) {
    tdg__net_t *net = timer->data;
    uint64_t now_ms = uv_now(net->loop);
    uint64_t late_ms = now_ms > net->tick_due_ms ? now_ms - net->tick_due_ms : 0;
    tdg__conn_t *next;

    net->tick_due_ms = now_ms + net->tick_ms;
    for (tdg__conn_t *conn = tdg__net_next(net, NULL); conn != NULL; conn = next) {
        next = tdg__net_next(net, conn);
        give_back(conn, late_ms);
        tdg__conn_tick(conn);
    }
}

static void start_ticker(tdg__net_t *net) {
    net->tick_due_ms = uv_now(net->loop) + net->tick_ms;
    uv_timer_start(&net->ticker, on_tick, net->tick_ms, net->tick_ms);
}

static void join_net(tdg__conn_t *conn) {
    tdg__net_t *net = conn->outlet.net;

    if (tdg__queue_is_empty(&net->conns))
        start_ticker(net);
    tdg__queue_prepend(&net->conns, &conn->link);
    if (conn->refused)
        net->refusals++;
    else
        net->connections++;
    if (!conn->refused && net->opts.total != NULL)
        atomic_fetch_add_explicit(net->opts.total, 1, memory_order_relaxed);
    tdg__net_hold(net);
}

static void leave_net(tdg__conn_t *conn) {
    tdg__net_t *net = conn->outlet.net;

    tdg__turn_leave(conn);
    if (net->visits == conn)
        net->visits = tdg__net_next(net, conn);
    tdg__queue_remove(&conn->link);
    if (tdg__queue_is_empty(&net->conns))
        uv_timer_stop(&net->ticker);
    if (conn->refused)
        net->refusals--;
    else
        net->connections--;
    if (!conn->refused && net->opts.total != NULL)
        atomic_fetch_sub_explicit(net->opts.total, 1, memory_order_relaxed);
}

int tdg__conn_create(tdg__net_t *net, int fd, void *tag, bool refused,
                     tdg__conn_t **ret) {
    tdg__conn_t *conn = tdg__calloc(1, sizeof(*conn));

    if (conn == NULL) {
        tdg__net_close_fd(fd);
        return TDG_ENOMEM;
    }
    if (uv_tcp_init(net->loop, &conn->tcp) < 0) {
        tdg__net_close_fd(fd);
        tdg__free(conn);
        return TDG_ESYSTEM;
    }
    conn->tcp.data = conn;
    conn->outlet.net = net;
    conn->outlet.stream = (uv_stream_t *)&conn->tcp;
    conn->outlet.calls = &tdg__conn_exchange_ops.outlet;
    conn->outlet.fd = fd;
    conn->outlet.socket = true;
    conn->outlet.takes_turns = true;
    conn->tag = tag;
    conn->refused = refused;
    conn->deadline_ms = in_ms(net, net->opts.request_timeout_ms);
    join_net(conn);

    if (uv_tcp_open(&conn->tcp, fd) < 0) {
        tdg__net_close_fd(fd);
        tdg__conn_abort(conn);
        return TDG_ESYSTEM;
    }
    if (uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read) < 0) {
        tdg__conn_abort(conn);
        return TDG_ESYSTEM;
    }
    *ret = conn;
    return 0;
}

static void on_closed(uv_handle_t *handle) {
    tdg__conn_t *conn = handle->data;
    tdg__net_t *net = conn->outlet.net;

    if (conn->reported)
        net->opts.calls.closed(net->opts.user, conn);
    if (conn->reader != NULL)
        tdg__net_give_reader(net, conn->reader);
    tdg__free(conn->input);
    tdg__free(conn);
    tdg__net_release(net);
}

void tdg__conn_abort(tdg__conn_t *conn) {
    if (conn->phase == CLOSED)
        return;
    conn->phase = CLOSED;
    tdg__outlet_close(&conn->outlet);
    leave_net(conn);
    uv_close((uv_handle_t *)&conn->tcp, on_closed);
}

/* Whether there is something that was sent and not read. */
static bool has_unread(const tdg__conn_t *conn) {
    int len = 0;

    return ioctl(conn->outlet.fd, FIONREAD, &len) == 0 && len > 0;
}

/* All is with the kernel. Closing a socket with unread input makes the kernel send a
 * reset, which can overtake the answer. So where the client may be sending, say that no
 * more comes, and wait for its end. */
static void part(tdg__conn_t *conn) {
    if (conn->eof || (!conn->lingers && conn->input == NULL && !has_unread(conn)) ||
        shutdown(conn->outlet.fd, SHUT_WR) < 0) {
        tdg__conn_abort(conn);
        return;
    }
    conn->phase = LINGERING;
    conn->deadline_ms = in_ms(conn->outlet.net, LINGER_MS);
    if (conn->paused)
        (void)start_reading(conn);
}

void tdg__conn_finish(tdg__conn_t *conn) {
    if (conn->phase >= FINISHING)
        return;
    conn->phase = FINISHING;
    conn->outlet.broken = true;
    if (!conn->outlet.in_flight)
        part(conn);
}

void tdg__conn_drained(tdg__outlet_t *outlet) {
    tdg__conn_t *conn = conn_of(outlet);
    tdg__net_t *net = outlet->net;

    if (conn->phase == STREAMING ||
        (conn->exchange.user != NULL && conn->phase != CLOSED))
        net->opts.calls.drained(net->opts.user, conn);
    if (outlet->in_flight) /* the owner has written more */
        return;
    if (conn->phase == FINISHING) {
        part(conn);
    } else if (conn->phase <= READING) {
        if (conn->phase == WAITING)
            conn->deadline_ms = in_ms(net, net->opts.idle_timeout_ms);
        tdg__conn_resume(conn);
    }
}

void tdg__conn_broke(tdg__outlet_t *outlet) {
    tdg__conn_abort(conn_of(outlet));
}

void tdg__conn_tick(tdg__conn_t *conn) {
    tdg__net_t *net = conn->outlet.net;
    bool due = uv_now(net->loop) >= conn->deadline_ms;

    if (conn->outlet.in_flight) {
        if (tdg__outlet_stuck(&conn->outlet, net->opts.write_timeout_ms) ||
            tdg__outlet_in_the_way(&conn->outlet, net->opts.pace_window_ms,
                                   net->opts.pace_min_bytes))
            tdg__conn_abort(conn);
    } else if (tdg__turn_waits(conn) && conn->phase <= READING) {
        return; /* for us */
    } else if (due && conn->phase == READING) {
        tdg__conn_refuse(conn, 408, "the request was not complete in time");
    } else if (due && (conn->phase == WAITING || conn->phase == LINGERING)) {
        tdg__conn_abort(conn);
    }
}

/* ---- For the owner ------------------------------------------------------ */

void *tdg__conn_user(const tdg__conn_t *conn) {
    return conn->exchange.user;
}

tdg__exchange_t *tdg__conn_exchange(tdg__conn_t *conn) {
    return &conn->exchange;
}

void *tdg__conn_tag(const tdg__conn_t *conn) {
    return conn->tag;
}
