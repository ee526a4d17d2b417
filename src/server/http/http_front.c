/* SPDX-License-Identifier: MIT
 *
 * HTTP as a front of a worker: its network, and the events of its connections. The user
 * of a connection is its occupant (occupant.h). */
#include "server/http/http.h"

#include <assert.h>

#include "base/alloc.h"
#include "net/conn.h"
#include "server/context/front.h"
#include "server/context/limits.h"
#include "server/http/forward.h"
#include "server/http/occupant.h"
#include "server/http/route.h"
#include "server/log/log.h"

/* ---- Connections -------------------------------------------------------- */

/* What occupies a connection, once that is not over by now. */
static tdg__occupant_t *occupant_of(void *user, tdg__conn_t *conn) {
    tdg__worker_refresh(user); /* first: it may end the occupant */
    return tdg__conn_user(conn);
}

static void on_drained(void *user, tdg__conn_t *conn) {
    tdg__occupant_t *occupant = occupant_of(user, conn);

    if (occupant != NULL && occupant->ops->drained != NULL)
        occupant->ops->drained(occupant);
}

static void on_closed(void *user, tdg__conn_t *conn) {
    tdg__occupant_t *occupant = occupant_of(user, conn);

    if (occupant != NULL)
        occupant->ops->closed(occupant);
}

static void on_half_closed(void *user, tdg__conn_t *conn) {
    tdg__occupant_t *occupant = occupant_of(user, conn);

    if (occupant != NULL && occupant->ops->half_closed != NULL)
        occupant->ops->half_closed(occupant);
}

static void on_not_taken(void *user, int error) {
    const tdg__worker_t *worker = user;
    char why[100];

    if (error == 0)
        tdg__server_log_event(worker->server, TDG__EVENT_CONNECTION_REFUSED, NULL);
    else
        tdg__server_log_event(worker->server, TDG__EVENT_NOT_ACCEPTED,
                              uv_strerror_r(error, why, sizeof(why)));
}

static int create_net(tdg__worker_t *worker) {
    const tdg_server_opts_t *opts = &worker->server->opts;
    tdg__net_opts_t net = {
        .calls = {.request = tdg__http_serve,
                  .head = tdg__http_admit,
                  .drained = on_drained,
                  .closed = on_closed,
                  .half_closed = on_half_closed,
                  .not_taken = on_not_taken},
        .user = worker,
        .limits = {.max_header_bytes = opts->max_header_bytes,
                   .max_fields = 100,
                   .max_body_bytes = SIZE_MAX,
                   .body_limit = tdg__http_body_limit,
                   .user = worker->server},
        .request_timeout_ms = opts->request_timeout_ms,
        .idle_timeout_ms = opts->idle_timeout_ms,
        .write_timeout_ms = opts->request_timeout_ms,
        .pace_window_ms = TDG__PACE_WINDOW_MS,
        .pace_min_bytes = TDG__PACE_MIN_BYTES,
        .max_connections = (opts->max_connections - 1) / opts->workers + 1,
        .total = &worker->server->connections,
        .max_total = opts->max_connections,
        .max_body_total = TDG__BODIES_MAX,
    };

    return tdg__net_create(worker->loop, &net, &worker->net);
}

/* ---- Ticks: signs of life, old streams ---------------------------------- */

struct tick {
    const tdg_server_opts_t *opts;
    int64_t now_ms;
};

static void tick_exchange(void *arg, tdg__exchange_t *exchange) {
    const struct tick *tick = arg;
    tdg__occupant_t *occupant = exchange->user;
    tdg__outlet_t *outlet = &exchange->outlet;

    if (occupant == NULL)
        return;
    if (!occupant->streaming) {
        if (occupant->ops->tick != NULL)
            occupant->ops->tick(occupant, tick->now_ms);
        else if (occupant->ops->late != NULL &&
                 tick->now_ms - occupant->started_ms >= tick->opts->keepalive_ms)
            occupant->ops->late(occupant);
        return;
    }
    if (tick->opts->stream_lifetime_ms > 0 && occupant->ops->finish != NULL &&
        tick->now_ms - occupant->started_ms >= tick->opts->stream_lifetime_ms) {
        occupant->ops->finish(occupant);
        if (exchange->user != occupant)
            return;
        /* It goes on: what occupies its twin has no lifetime, or has not ended yet. */
    }
    if (outlet->queued == 0 &&
        tick->now_ms - outlet->written_ms >= tick->opts->keepalive_ms)
        tdg__outlet_piece(outlet, ":\n\n", 3);
}

static void tick(tdg__front_t *front, int64_t now_ms) {
    struct tick tick = {&front->worker->server->opts, now_ms};

    tdg__net_each(front->worker->net, tick_exchange, &tick);
}

/* ---- The end ------------------------------------------------------------ */

static void stop(tdg__front_t *front) {
    tdg__net_stop_listening(front->worker->net);
    tdg__net_finish(front->worker->net);
}

static bool may_publish(const tdg__front_t *front) {
    return tdg__routes_busy(front->worker->server->routes);
}

struct walk {
    void (*visit)(tdg__occupant_t *occupant);
};

static void visit_exchange(void *arg, tdg__exchange_t *exchange) {
    if (exchange->user != NULL)
        ((const struct walk *)arg)->visit(exchange->user);
}

/* Visits what occupies connections, of this worker or, on a twin, of others. */
static void each_occupant(tdg__front_t *front, void (*visit)(tdg__occupant_t *occupant)) {
    struct walk walk = {visit};

    tdg__net_each(front->worker->net, visit_exchange, &walk);
    tdg__forwards_each(front->worker->forwards, visit_exchange, &walk);
}

/* A stream with something to write ends when that is with the kernel. */
static void finish_one(tdg__occupant_t *occupant) {
    if (occupant->ops->finish != NULL &&
        (occupant->ops->has_more == NULL || !occupant->ops->has_more(occupant)))
        occupant->ops->finish(occupant);
}

static void finish(tdg__front_t *front) {
    each_occupant(front, finish_one);
}

static void give_up_one(tdg__occupant_t *occupant) {
    if (occupant->ops->give_up != NULL)
        occupant->ops->give_up(occupant);
}

static void give_up(tdg__front_t *front) {
    each_occupant(front, give_up_one);
}

static size_t busy(const tdg__front_t *front) {
    return tdg__net_connections(front->worker->net) +
           tdg__forwards_count(front->worker->forwards);
}

static void turn_ends(tdg__front_t *front) {
    tdg__forwards_send(front->worker->forwards);
}

static void close_front(tdg__front_t *front, void (*done)(void *arg), void *arg) {
    tdg__forwards_destroy(front->worker->forwards);
    front->worker->forwards = NULL; /* from now on none is taken */
    tdg__net_close(front->worker->net, done, arg);
    tdg__free(front);
}

static const tdg__front_ops_t ops = {
    .tick = tick,
    .turn_ends = turn_ends,
    .stop = stop,
    .may_publish = may_publish,
    .finish = finish,
    .busy = busy,
    .give_up = give_up,
    .close = close_front,
};

int tdg__http_open(tdg__worker_t *worker) {
    assert(worker->net == NULL);
    tdg__front_t *front = tdg__malloc(sizeof(*front));
    if (front == NULL)
        return TDG_ENOMEM;

    int rv = tdg__forwards_create(worker, &worker->forwards);
    if (rv < 0)
        goto fail_front;

    rv = create_net(worker);
    if (rv < 0)
        goto fail_forwards;
    tdg__front_join(front, &ops, worker);
    return 0;

fail_forwards:
    tdg__forwards_destroy(worker->forwards);
    worker->forwards = NULL;
fail_front:
    tdg__free(front);
    return rv;
}
