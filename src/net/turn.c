/* SPDX-License-Identifier: MIT
 *
 * Fair shares of a turn of the event loop. Each turn first serves connections whose last
 * request was served, then all others, each for a slice of time and in the order of
 * arrival; the rest wait for the next turn, and are not read meanwhile. So however many
 * there are, and whatever they send, updates wait for at most two slices, and new
 * connections do not wait for everything that served ones send. */
#include "net/internal.h"

static const uint64_t slices_ns[LANES] = {[PROVEN] = 1000000, [STRANGERS] = 300000};

static struct lane *lane_of(const tdg__conn_t *conn) {
    return &conn->outlet.net->lanes[conn->waits_proven ? PROVEN : STRANGERS];
}

static bool has_time(const tdg__net_t *net, int lane) {
    return net->lanes[lane].spent_ns < slices_ns[lane];
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
}

bool tdg__turn_has(const tdg__conn_t *conn) {
    const tdg__net_t *net = conn->outlet.net;
    int lane = conn->proven ? PROVEN : STRANGERS;

    return net->lanes[lane].first == NULL && has_time(net, lane);
}

int tdg__turn_requests(const tdg__conn_t *conn) {
    bool alone = conn->outlet.net->lanes[PROVEN].first == NULL;

    return conn->proven && alone ? REQUESTS_AT_ONCE : 1;
}

void tdg__turn_count(tdg__net_t *net, bool proven, uint64_t began_ns) {
    net->lanes[proven ? PROVEN : STRANGERS].spent_ns += uv_hrtime() - began_ns;
}

/* One that has more to say is behind the others afterwards. */
static void serve(tdg__net_t *net, int lane) {
    net->lanes[lane].spent_ns = 0;
    while (net->lanes[lane].first != NULL && has_time(net, lane)) {
        tdg__conn_t *conn = net->lanes[lane].first;
        uint64_t began_ns = uv_hrtime();

        tdg__turn_leave(conn);
        tdg__conn_go_on(conn);
        tdg__turn_count(net, lane == PROVEN, began_ns);
    }
}

/* Only the loop calls this: an owner that answers must not meet the next request while it
 * is still busy with the last. */
static void on_turn(uv_idle_t *turner) {
    tdg__net_t *net = turner->data;

    serve(net, PROVEN);
    serve(net, STRANGERS);
    tdg__outlets_write(net);
    if (net->lanes[PROVEN].first == NULL && net->lanes[STRANGERS].first == NULL &&
        net->writers.first == NULL)
        uv_idle_stop(turner);
}
