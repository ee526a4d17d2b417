/* SPDX-License-Identifier: MIT
 *
 * Whose turn it is. Each turn of the loop first serves the connections that have proven
 * themselves, then strangers for a slice of time, in the order in which they came; those
 * that are left wait for the next turn, and nothing is read from them meanwhile. So
 * however many strangers there are, and whatever they send, updates and those who were
 * served before wait for a slice, not for all of them. */
#include "net/internal.h"

enum { SLICE_NS = 1000000 };

static struct lane *lane_of(const tdg__conn_t *conn) {
    return &conn->outlet.net->lanes[conn->waits_proven ? PROVEN : STRANGERS];
}

static void on_turn(uv_idle_t *turner);

void tdg__turn_request(tdg__net_t *net) {
    uv_idle_start(&net->turner, on_turn);
}

void tdg__turn_wait(tdg__conn_t *conn) {
    tdg__net_t *net = conn->outlet.net;
    struct lane *lane;

    tdg__turn_request(net);
    if (conn->waits)
        return;
    conn->waits = true;
    conn->waits_since_ms = uv_now(net->loop);
    conn->waits_proven = conn->proven;
    lane = lane_of(conn);
    conn->turn_next = NULL;
    conn->turn_prev = lane->last;
    if (lane->last != NULL)
        lane->last->turn_next = conn;
    else
        lane->first = conn;
    lane->last = conn;
    lane->count++;
}

void tdg__turn_leave(tdg__conn_t *conn) {
    struct lane *lane = lane_of(conn);

    if (!conn->waits)
        return;
    conn->waits = false;
    if (conn->turn_prev != NULL)
        conn->turn_prev->turn_next = conn->turn_next;
    else
        lane->first = conn->turn_next;
    if (conn->turn_next != NULL)
        conn->turn_next->turn_prev = conn->turn_prev;
    else
        lane->last = conn->turn_prev;
    lane->count--;
}

bool tdg__turn_has(const tdg__conn_t *conn) {
    const tdg__net_t *net = conn->outlet.net;

    return conn->proven ||
           (net->lanes[STRANGERS].first == NULL && net->strangers_ns < SLICE_NS);
}

void tdg__turn_count(tdg__net_t *net, uint64_t began_ns) {
    net->strangers_ns += uv_hrtime() - began_ns;
}

/* Each once: one that has more to say is behind the others afterwards. */
static void serve_proven(tdg__net_t *net) {
    struct lane *lane = &net->lanes[PROVEN];
    size_t count = lane->count;

    while (count-- > 0 && lane->first != NULL) {
        tdg__conn_t *conn = lane->first;

        tdg__turn_leave(conn);
        tdg__conn_go_on(conn);
    }
}

static void serve_strangers(tdg__net_t *net) {
    struct lane *lane = &net->lanes[STRANGERS];

    net->strangers_ns = 0;
    while (lane->first != NULL && net->strangers_ns < SLICE_NS) {
        tdg__conn_t *conn = lane->first;
        uint64_t began_ns = uv_hrtime();

        tdg__turn_leave(conn);
        tdg__conn_go_on(conn);
        tdg__turn_count(net, began_ns);
    }
}

/* Only the loop calls this: an owner that answers must not meet the next request while it
 * is still busy with the last. */
static void on_turn(uv_idle_t *turner) {
    tdg__net_t *net = turner->data;

    serve_proven(net);
    serve_strangers(net);
    tdg__outlets_write(net);
    if (net->lanes[PROVEN].first == NULL && net->lanes[STRANGERS].first == NULL &&
        net->writers.first == NULL)
        uv_idle_stop(turner);
}
