/* SPDX-License-Identifier: MIT
 *
 * Fair shares of a turn of the event loop. Each turn first serves connections whose last
 * request was served, then all others, each for a slice of time and in the order of
 * arrival; the rest wait for the next turn, and are not read meanwhile. So however many
 * there are, and whatever they send, updates wait for at most two slices, and new
 * connections do not wait for everything that served ones send. */
#include "net/internal.h"

static const uint64_t slices_ns[LANES] = {[PROVEN] = 1000000, [STRANGERS] = 300000};

static bool is_empty(const tdg__net_t *net, int lane) {
    return tdg__queue_is_empty(&net->lanes[lane].waiting);
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
    int lane = conn->proven ? PROVEN : STRANGERS;

    tdg__turn_request(net);
    if (tdg__turn_waits(conn))
        return;
    conn->waits_since_ms = uv_now(net->loop);
    tdg__queue_append(&net->lanes[lane].waiting, &conn->turn);
}

void tdg__turn_leave(tdg__conn_t *conn) {
    if (tdg__turn_waits(conn))
        tdg__queue_remove(&conn->turn);
}

bool tdg__turn_has(const tdg__conn_t *conn) {
    const tdg__net_t *net = conn->outlet.net;
    int lane = conn->proven ? PROVEN : STRANGERS;

    return is_empty(net, lane) && has_time(net, lane);
}

int tdg__turn_requests(const tdg__conn_t *conn) {
    return conn->proven && is_empty(conn->outlet.net, PROVEN) ? REQUESTS_AT_ONCE : 1;
}

void tdg__turn_count(tdg__net_t *net, bool proven, uint64_t began_ns) {
    net->lanes[proven ? PROVEN : STRANGERS].spent_ns += uv_hrtime() - began_ns;
}

/* One that has more to say is behind the others afterwards. */
static void serve(tdg__net_t *net, int lane) {
    net->lanes[lane].spent_ns = 0;
    while (!is_empty(net, lane) && has_time(net, lane)) {
        tdg__queue_t *turn = tdg__queue_take(&net->lanes[lane].waiting);
        uint64_t began_ns = uv_hrtime();

        tdg__conn_go_on(TDG__RECORD(tdg__conn_t, turn, turn));
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
    if (is_empty(net, PROVEN) && is_empty(net, STRANGERS) &&
        tdg__queue_is_empty(&net->writers))
        uv_idle_stop(turner);
}
