/* SPDX-License-Identifier: MIT */
#include "net/net.h"

#include <assert.h>
#include <stdio.h>
#include <time.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "net/internal.h"

/* ---- Beginning and end -------------------------------------------------- */

/* A quarter of the shortest time-out: late by that much at most. */
static uint32_t tick_of(const tdg__net_opts_t *opts) {
    const uint32_t times[] = {opts->request_timeout_ms, opts->idle_timeout_ms,
                              opts->write_timeout_ms, opts->pace_window_ms};
    uint32_t tick_ms = 1000;

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        if (times[i] != 0 && times[i] / 4 < tick_ms)
            tick_ms = times[i] / 4;
    }
    return tick_ms < 50 ? 50 : tick_ms;
}

int tdg__net_create(uv_loop_t *loop, const tdg__net_opts_t *opts, tdg__net_t **ret) {
    tdg__net_t *net;

    assert(opts->calls.request != NULL && opts->calls.drained != NULL &&
           opts->calls.closed != NULL);
    net = tdg__calloc(1, sizeof(*net));
    if (net == NULL)
        return TDG_ENOMEM;

    net->loop = loop;
    net->opts = *opts;
    net->tick_ms = tick_of(opts);
    net->bodies.max_bytes = opts->max_body_total;
    net->date_s = -1;
    tdg__queue_init(&net->conns);
    tdg__queue_init(&net->writers);
    for (int lane = 0; lane < LANES; lane++)
        tdg__queue_init(&net->lanes[lane].waiting);
    if (uv_timer_init(loop, &net->ticker) < 0) {
        tdg__free(net);
        return TDG_ESYSTEM;
    }
    uv_idle_init(loop, &net->turner);
    net->ticker.data = net->turner.data = net;
    tdg__net_hold(net); /* one for each handle */
    tdg__net_hold(net);
    *ret = net;
    return 0;
}

void tdg__net_hold(tdg__net_t *net) {
    net->holders++;
}

void tdg__net_release(tdg__net_t *net) {
    void (*done)(void *arg) = net->done;
    void *arg = net->done_arg;

    if (--net->holders > 0)
        return;
    while (net->spare_count > 0)
        tdg__http_reader_destroy(net->spare[--net->spare_count]);
    tdg__free(net);
    if (done != NULL)
        done(arg);
}

static void on_handle_closed(uv_handle_t *handle) {
    tdg__net_release(handle->data);
}

void tdg__net_close(tdg__net_t *net, void (*done)(void *arg), void *arg) {
    assert(!net->closing);
    net->closing = true;
    net->done = done;
    net->done_arg = arg;
    tdg__net_stop_listening(net);
    for (tdg__conn_t *conn; (conn = tdg__net_next(net, NULL)) != NULL;)
        tdg__conn_abort(conn);
    uv_close((uv_handle_t *)&net->ticker, on_handle_closed);
    uv_close((uv_handle_t *)&net->turner, on_handle_closed);
}

/* ---- What connections share --------------------------------------------- */

char *tdg__net_scratch(tdg__net_t *net) {
    return net->output + CHUNK_HEAD_BYTES;
}

void tdg__net_close_fd(int fd) {
    uv_fs_t request;

    (void)uv_fs_close(NULL, &request, fd, NULL);
    uv_fs_req_cleanup(&request);
}

tdg__http_reader_t *tdg__net_take_reader(tdg__net_t *net) {
    tdg__http_reader_t *reader;

    if (net->spare_count > 0)
        return net->spare[--net->spare_count];
    if (tdg__http_reader_create(&net->opts.limits, &reader) < 0)
        return NULL;
    tdg__http_reader_charge(reader, &net->bodies);
    return reader;
}

void tdg__net_give_reader(tdg__net_t *net, tdg__http_reader_t *reader) {
    if (net->spare_count == SPARE_READERS) {
        tdg__http_reader_destroy(reader);
        return;
    }
    tdg__http_reader_reset(reader);
    net->spare[net->spare_count++] = reader;
}

/* By hand, since strftime() speaks the language of the process. */
const char *tdg__net_date(tdg__net_t *net) {
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct timespec now;
    struct tm tm;

    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (now.tv_sec == net->date_s)
        return net->date;

    net->date_s = now.tv_sec;
    gmtime_r(&now.tv_sec, &tm);
    snprintf(net->date, sizeof(net->date), "%s, %02u %s %04u %02u:%02u:%02u GMT",
             days[tm.tm_wday], (unsigned)tm.tm_mday % 100, months[tm.tm_mon],
             (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
             (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
    return net->date;
}

/* ---- All connections ---------------------------------------------------- */

/* Whether it waits for its turn with a request, probably. */
static bool has_sent(const tdg__conn_t *conn) {
    return tdg__turn_waits(conn) && !conn->outlet.in_flight;
}

void tdg__net_finish(tdg__net_t *net) {
    tdg__conn_t *next;

    net->finishing = true;
    for (tdg__conn_t *conn = tdg__net_next(net, NULL); conn != NULL; conn = next) {
        next = tdg__net_next(net, conn);
        if (conn->phase == WAITING && !has_sent(conn))
            tdg__conn_finish(conn);
    }
}

void tdg__net_each(tdg__net_t *net, void (*visit)(void *arg, tdg__exchange_t *exchange),
                   void *arg) {
    assert(net->visits == NULL);
    for (tdg__conn_t *conn = tdg__net_next(net, NULL); conn != NULL; conn = net->visits) {
        net->visits = tdg__net_next(net, conn);
        if (conn->reported && conn->phase < FINISHING)
            visit(arg, &conn->exchange);
    }
}

bool tdg__net_has_more(const tdg__net_t *net) {
    return uv_is_active((const uv_handle_t *)&net->turner);
}

size_t tdg__net_connections(const tdg__net_t *net) {
    return net->connections;
}
