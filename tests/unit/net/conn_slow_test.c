/* SPDX-License-Identifier: MIT
 *
 * Clients that leave, are slow, or want too much; and a server without memory. */
#include <errno.h>
#include <sys/socket.h>

#include "net/internal.h"
#include "unit/net/fixture.h"

enum { IMPATIENT_MS = 400 };

static int setup(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    world_open(world, &opts);
    return 0;
}

static int setup_impatient(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    opts.write_timeout_ms = IMPATIENT_MS;
    world_open(world, &opts);
    return 0;
}

enum { HASTE_MS = 1000 };

static int setup_hasty(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    opts.request_timeout_ms = HASTE_MS;
    opts.idle_timeout_ms = HASTE_MS;
    opts.write_timeout_ms = HASTE_MS;
    world_open(world, &opts);
    return 0;
}

static int teardown(void **state) {
    world_close(*state);
    return state_destroy(state);
}

/* ---- Clients that leave ------------------------------------------------- */

static void notices_a_client_that_leaves_a_stream(void **state) {
    struct world *w = *state;

    w->answer = answer_stream;
    for (int how = 0; how < 3; how++) {
        struct client *c = client_open(w);

        client_get(w, c, "/s");
        client_expect_head(w, c, 200, NULL);
        if (how == 0)
            client_close(c);
        else if (how == 1)
            client_reset(c);
        else
            assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
        RUN_UNTIL(w, w->closed == how + 1);
    }
    assert_int_equal(w->half_closed, 0);
}

static void fails_to_write_to_a_client_that_left(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    tdg__outlet_t *outlet;
    int rv = 0;

    w->answer = answer_stream;
    client_get(w, c, "/s");
    client_expect_head(w, c, 200, NULL);
    outlet = &w->held[0]->outlet;
    client_reset(c);
    for (int i = 0; i < 1000 && rv == 0; i++) /* until the reset is here */
        rv = flush(outlet, "data\n\n");
    assert_int_equal(rv, TDG_EENDED);
    assert_int_equal(w->closed, 0); /* not from inside the call */
    assert_int_equal(flush(outlet, "data\n\n"), TDG_EENDED);
    tdg__exchange_end(tdg__conn_exchange(w->held[0])); /* does nothing */
    RUN_UNTIL(w, w->closed == 1);
}

static void notices_a_reset_while_answering(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);

    w->answer = answer_never;
    client_get(w, c, "/x");
    RUN_UNTIL(w, w->held_count == 1);
    client_reset(c);
    RUN_UNTIL(w, w->closed == 1);
}

static void answers_a_client_that_only_listens_now(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    struct reply reply;

    w->answer = answer_never;
    client_get(w, c, "/0");
    client_get(w, c, "/1");
    client_send(w, c, "GET /unfinished");
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    RUN_UNTIL(w, w->half_closed == 1);
    for (int i = 0; i < 2; i++) { /* all that were complete */
        RUN_UNTIL(w, w->held_count == 1);
        assert_int_equal(w->closed, 0);
        answer_held_path(w, i);
        assert_int_equal(client_reply(w, c, true, &reply), 200);
    }
    assert_string_equal(reply.body, "/1");
    client_expect_end(w, c);
    RUN_UNTIL(w, w->closed == 1);
    assert_int_equal(w->requests, 2);
}

static void begins_no_stream_for_a_client_that_left(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);

    w->answer = answer_never;
    client_get(w, c, "/0");
    RUN_UNTIL(w, w->held_count == 1);
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    RUN_UNTIL(w, w->half_closed == 1);
    assert_int_equal(tdg__exchange_begin(tdg__conn_exchange(w->held[0]), NULL, NULL, 0),
                     TDG_EENDED);
    RUN_UNTIL(w, w->closed == 1);
}

/* ---- Clients that are slow ---------------------------------------------- */

static void answers_a_slow_reader_to_the_end(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    char *body = huge_body();
    size_t live;

    w->answer = answer_never;
    client_get(w, c, "/huge");
    client_get(w, c, "/next");
    RUN_UNTIL(w, w->held_count == 1);
    live = memory_live();
    c->deaf = true;
    tdg__exchange_respond(tdg__conn_exchange(unhold(w)), 200, "text/plain", NULL, body,
                          HUGE_BYTES);
    free(body); /* it was copied */
    client_get(w, c, "/third");
    world_run_ms(w, 50);
    assert_true(memory_live() <= live + 1); /* the rest, in one piece */
    assert_int_equal(w->requests, 1);       /* the next one waits until all is out */

    c->deaf = false;
    client_expect_head(w, c, 200, NULL);
    RUN_UNTIL(w, c->len >= HUGE_BYTES);
    is_huge(c->data);
    RUN_UNTIL(w, w->requests == 2);
    assert_int_equal(w->drained, 0);
}

static void streams_to_a_slow_reader_in_order(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    char *body = huge_body();
    tdg__outlet_t *outlet;
    int waits = 0;

    w->answer = answer_stream;
    client_get(w, c, "/s");
    client_expect_head(w, c, 200, NULL);
    outlet = &w->held[0]->outlet;
    c->deaf = true;
    outlet->chunked = false; /* so that the bytes can be compared */
    for (size_t sent = 0; sent < HUGE_BYTES; sent += 16384) {
        int rv = tdg__outlet_piece(outlet, body + sent, 16384);

        assert_true(rv == 0 || rv == TDG_EAGAIN);
        waits += rv == TDG_EAGAIN;
    }
    free(body);
    assert_true(waits > 1);
    assert_true(outlet->queued > 0);
    assert_int_equal(w->drained, 0);
    c->deaf = false;
    RUN_UNTIL(w, w->drained == 1);
    assert_int_equal(outlet->queued, 0);
    RUN_UNTIL(w, c->len == HUGE_BYTES);
    is_huge(c->data);
    assert_int_equal(flush(outlet, "the end"), 0);
    RUN_UNTIL(w, c->len == HUGE_BYTES + 7);
}

static void write_more_and_close(void *user, tdg__conn_t *conn) {
    struct world *w = user;

    if (w->drained++ > 0)
        return;
    conn->outlet.chunked = false;
    assert_int_equal(tdg__outlet_piece(&conn->outlet, w->arg, HUGE_BYTES), TDG_EAGAIN);
    tdg__exchange_close(tdg__conn_exchange(conn));
}

static void writes_what_is_added_when_drained_before_it_closes(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);

    w->net->opts.calls.drained = write_more_and_close;
    w->answer = answer_stream;
    w->arg = huge_body();
    client_get(w, c, "/s");
    client_expect_head(w, c, 200, NULL);
    c->deaf = true;
    w->held[0]->outlet.chunked = false;
    assert_int_equal(tdg__outlet_piece(&w->held[0]->outlet, w->arg, HUGE_BYTES),
                     TDG_EAGAIN);
    c->deaf = false;
    RUN_UNTIL(w, c->eof || c->error != 0);
    free(w->arg);
    assert_int_equal(c->len, 2 * HUGE_BYTES);
    is_huge(c->data + HUGE_BYTES);
    RUN_UNTIL(w, w->closed == 1);
}

static void closes_on_a_reader_that_never_reads(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w), *other = client_open(w);
    char *body = huge_body();

    w->answer = answer_never;
    c->deaf = true;
    client_get(w, c, "/huge");
    RUN_UNTIL(w, w->held_count == 1);
    tdg__exchange_respond(tdg__conn_exchange(unhold(w)), 200, "text/plain", NULL, body,
                          HUGE_BYTES);
    RUN_UNTIL(w, w->closed == 1);

    c = client_open(w);
    c->deaf = true;
    w->answer = answer_stream;
    client_get(w, c, "/s");
    RUN_UNTIL(w, w->held_count == 1);
    assert_int_equal(tdg__outlet_piece(&w->held[0]->outlet, body, HUGE_BYTES),
                     TDG_EAGAIN);
    RUN_UNTIL(w, w->closed == 2);
    assert_int_equal(w->drained, 0);
    free(body);

    w->answer = answer_path;
    client_get(w, other, "/fine");
    assert_int_equal(client_reply(w, other, true, NULL), 200);
}

/* Reads now and then for three time-outs. Returns the longest time without, in ms: this
 * process may have to wait for the machine. */
static uint64_t read_a_little(struct world *w, const struct client *c) {
    uint64_t now = uv_hrtime(), last = now, longest = 0;
    uint64_t limit = now + UINT64_C(3000000) * IMPATIENT_MS;

    for (; now < limit; now = uv_hrtime()) {
        char bytes[32768];

        longest = now - last > longest ? now - last : longest;
        last = now;
        (void)!recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        world_step(w);
    }
    return (now - last > longest ? now - last : longest) / 1000000;
}

/* Returns the longest time without a read, in ms. */
static uint64_t get_huge_body_slowly(struct world *w) {
    struct client *c = client_open(w);
    char *body = huge_body();
    int some = 65536;

    assert_int_equal(setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &some, sizeof(some)), 0);
    w->answer = answer_never;
    c->deaf = true;
    client_get(w, c, "/huge");
    RUN_UNTIL(w, w->held_count == 1);
    /* Or the kernel takes nothing until a third of megabytes is read. */
    assert_int_equal(
        setsockopt(w->held[0]->outlet.fd, SOL_SOCKET, SO_SNDBUF, &some, sizeof(some)), 0);
    tdg__exchange_respond(tdg__conn_exchange(unhold(w)), 200, "text/plain", NULL, body,
                          HUGE_BYTES);
    free(body);
    return read_a_little(w, c);
}

/* Slow is not stuck: the time-out counts from the last byte that the kernel took. A
 * reader that was kept from reading for half of it has to try again. */
static void is_patient_with_a_reader_that_reads_a_little(void **state) {
    struct world *w = *state;
    int spoiled = 0;

    while (get_huge_body_slowly(w) >= IMPATIENT_MS / 2) {
        assert_true(++spoiled < 50);
        RUN_UNTIL(w, w->closed == spoiled); /* it does not read any more */
    }
    assert_int_equal(w->closed, spoiled);
}

/* ---- Readers in the way of others --------------------------------------- */

enum { PACE_MS = 400, PACE_BYTES = 256 << 10 };

/* An answer that waits for its reader and takes all of a budget. */
struct held {
    struct client *client;
    tdg__budget_t *budget;
    tdg__outlet_t *outlet;
};

static int setup_paced(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    opts.write_timeout_ms = 0; /* or that may be what cuts */
    opts.pace_window_ms = PACE_MS;
    opts.pace_min_bytes = PACE_BYTES;
    world_open(world, &opts);
    return 0;
}

static struct held hold_budget(struct world *w) {
    struct held held = {client_open(w), tdg__budget_create(HUGE_BYTES), NULL};
    char *body = huge_body();
    tdg__buf_t *buf = tdg__buf_create(body, HUGE_BYTES);
    tdg__rope_t rope;

    assert_true(tdg__buf_charge(buf, held.budget, 0));
    tdg__rope_init(&rope, SIZE_MAX);
    tdg__rope_splice(&rope, buf);
    w->answer = answer_never;
    held.client->deaf = true;
    client_get(w, held.client, "/huge");
    RUN_UNTIL(w, w->held_count == 1);
    held.outlet = &w->held[0]->outlet;
    tdg__exchange_respond_rope(tdg__conn_exchange(unhold(w)), 200, "text/plain", NULL,
                               &rope);
    tdg__rope_done(&rope);
    tdg__buf_unref(buf);
    free(body);
    return held;
}

static ssize_t take(const struct held *held, size_t len) {
    static char bytes[65536];

    return recv(held->client->fd, bytes, len, MSG_DONTWAIT);
}

/* Somebody wants bytes, and there are none. Returns false. */
static bool ask_in_vain(tdg__budget_t *budget) {
    if (tdg__budget_used(budget) > 0)
        assert_false(tdg__budget_take(budget, 1));
    return false;
}

static void a_reader_that_trickles_is_cut_when_others_wait(void **state) {
    struct world *w = *state;
    struct held held = hold_budget(w);
    uint64_t window_ms;

    RUN_UNTIL(w, take(&held, 1) != 0 && held.outlet->pace.slow);
    window_ms = held.outlet->pace.since_ms;
    RUN_UNTIL(w, take(&held, 1) != 0 && held.outlet->pace.since_ms != window_ms);
    assert_true(held.outlet->pace.slow);
    assert_int_equal(w->closed, 0); /* nobody waits */
    assert_int_equal(tdg__budget_used(held.budget), HUGE_BYTES);

    RUN_UNTIL(w, w->closed == 1 || ask_in_vain(held.budget));
    assert_int_equal(tdg__budget_used(held.budget), 0);
    tdg__budget_unref(held.budget);
}

static void a_reader_that_takes_enough_is_not_cut(void **state) {
    struct world *w = *state;
    struct held held = hold_budget(w);
    uint64_t begun = uv_hrtime(), windows = 0, window_ms = 0;
    size_t all = 0;

    /* 8 MB/s: ten times what is asked for, in many windows */
    while (w->closed == 0 && tdg__budget_used(held.budget) > 0) {
        ssize_t n = all < (uv_hrtime() - begun) / 125 ? take(&held, 65536) : 0;

        all += n > 0 ? (size_t)n : 0;
        ask_in_vain(held.budget);
        windows += held.outlet->pace.since_ms != window_ms;
        window_ms = held.outlet->pace.since_ms;
        world_step(w);
    }
    assert_int_equal(w->closed, 0);
    assert_true(windows > 2);
    held.client->deaf = false;
    RUN_UNTIL(w, all + held.client->len >= HUGE_BYTES);
    tdg__budget_unref(held.budget);
}

/* ---- A server that was busy elsewhere ----------------------------------- */

/* What a client reads while nobody runs the loop; returns how much. */
static size_t read_while_busy(const struct client *c) {
    uint64_t limit = uv_hrtime() + UINT64_C(1000000) * 2 * HASTE_MS;
    char bytes[65536];
    size_t all = 0;

    while (uv_hrtime() < limit) {
        ssize_t n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (n > 0)
            all += (size_t)n;
        else
            uv_sleep(1);
    }
    return all;
}

static void does_not_blame_a_reader_for_its_own_delay(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    char *body = huge_body();
    size_t seen;

    w->answer = answer_never;
    client_get(w, c, "/huge");
    RUN_UNTIL(w, w->held_count == 1);
    tdg__exchange_respond(tdg__conn_exchange(unhold(w)), 200, "text/plain", NULL, body,
                          HUGE_BYTES);
    free(body);
    seen = read_while_busy(c);
    assert_true(seen > 0);
    RUN_UNTIL(w, seen + c->len >= HUGE_BYTES || c->eof || c->error != 0);
    assert_true(seen + c->len >= HUGE_BYTES);
}

static void does_not_blame_a_sender_for_its_own_delay(void **state) {
    struct world *w = *state;
    struct client *waiting = client_open(w), *reading = client_open(w);
    struct reply reply;

    client_get(w, waiting, "/0");
    client_send(w, reading, "GET /2 HTTP/1.1\r\nHo");
    assert_int_equal(client_reply(w, waiting, true, NULL), 200);
    const tdg__conn_t *first = tdg__net_next(w->net, NULL);
    RUN_UNTIL(w,
              first->phase == READING || tdg__net_next(w->net, first)->phase == READING);
    client_get(w, waiting, "/1"); /* in time, while nobody looks */
    client_send(w, reading, "st: a\r\n\r\n");
    uv_sleep(2 * HASTE_MS);
    assert_int_equal(client_reply(w, waiting, true, &reply), 200);
    assert_string_equal(reply.body, "/1");
    assert_int_equal(client_reply(w, reading, true, &reply), 200);
    assert_string_equal(reply.body, "/2");
}

/* ---- Greedy clients ----------------------------------------------------- */

static void does_not_read_for_ever_while_answering(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    char *text = many_requests(100000);
    tdg__conn_t *conn;

    w->answer = answer_never;
    (void)!send(c->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
    free(text);
    RUN_UNTIL(w, w->held_count == 1);
    conn = w->held[0];
    RUN_UNTIL(w, conn->paused);
    world_run_ms(w, 20);
    assert_int_equal(w->requests, 1);
    assert_true(conn->input->end <= 16 * 1024 + STRANGER_BYTES);

    w->answer = answer_path; /* and goes on when it may */
    answer_held_path(w, 0);
    expect_paths(w, c, 0, 4000);
}

static void closes_on_a_client_that_floods_a_stream(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    char *text = many_requests(1000);

    w->answer = answer_stream;
    client_send(w, c, text);
    free(text);
    RUN_UNTIL(w, w->closed == 1);
    assert_int_equal(w->requests, 1);
}

/* Kept input moves down again, however long some of it is always there. */
static void keeps_no_more_than_it_must(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    const struct input *input;
    size_t kept;

    w->answer = answer_never;
    client_get(w, c, "/first");
    client_get(w, c, "/second");
    for (int i = 0; i < 500; i++) {
        RUN_UNTIL(w, w->held_count == 1 && w->held[0]->input != NULL);
        input = w->held[0]->input;
        assert_true(input->size < 512);
        kept = input->end - input->start;
        client_get(w, c, "/another");
        RUN_UNTIL(w, w->held[0]->input->end - w->held[0]->input->start > kept);
        tdg__exchange_respond(tdg__conn_exchange(unhold(w)), 200, NULL, NULL, NULL, 0);
        client_reply(w, c, true, NULL);
    }
}

/* ---- Memory ------------------------------------------------------------- */

static void answer_both_ways(struct world *w, tdg__conn_t *conn,
                             const tdg__http_request_t *request) {
    if (request->path[1] == 's')
        answer_stream(w, conn, request);
    else if (request->path[1] == 'h')
        tdg__exchange_respond(tdg__conn_exchange(conn), 200, NULL, NULL, w->arg,
                              HUGE_BYTES);
    else
        answer_path(w, conn, request);
}

static bool is_over(const struct client *c) {
    return c->fd < 0 || c->eof || c->error != 0;
}

static bool try_send(struct client *c, const char *text) {
    return send(c->fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* Everything that allocates, with whatever outcome: each client gets its bytes or an end.
 */
static void run_everything(struct world *w) {
    struct client *plain = client_open(w), *huge = client_open(w),
                  *stream = client_open(w);

    try_send(plain,
             "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    RUN_UNTIL(w, is_over(plain) || (plain->len > 0 && strstr(plain->data, "/b") != NULL));
    try_send(huge,
             "GET /h HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    RUN_UNTIL(w, is_over(huge) || huge->len >= HUGE_BYTES);
    try_send(stream,
             "GET /s HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    RUN_UNTIL(w, is_over(stream) || stream->len > 0);
    if (w->held_count > 0) {
        stream->deaf = true;
        (void)tdg__outlet_piece(&w->held[0]->outlet, w->arg, HUGE_BYTES);
    }
    if (w->held_count > 0)
        tdg__exchange_end(tdg__conn_exchange(unhold(w)));
    stream->deaf = false;
    RUN_UNTIL(w, is_over(stream) || stream->len > HUGE_BYTES);
    client_close(plain);
    client_close(huge);
    client_close(stream);
    RUN_UNTIL(w, tdg__net_connections(w->net) == 0);
    w->client_count = 0;
}

static void survives_when_memory_is_out(void **state) {
    struct world *w = *state;
    size_t nth;

    w->arg = huge_body();
    w->answer = answer_both_ways;
    for (int how = MEMORY_ONCE; how <= MEMORY_FROM_THEN_ON; how++) {
        for (nth = 1; nth < 100; nth++) {
            memory_fail(nth, how);
            run_everything(w);
            if (!memory_failed())
                break;
        }
        assert_in_range(nth, 5, 99);
        memory_fail(0, MEMORY_ONCE);
        run_everything(w); /* and works again */
    }
    free(w->arg);
}

/* ---- Chance ------------------------------------------------------------- */

enum { CROWD = 12, STEPS = 4000 };

/* What a crowd of clients and an owner without a plan do to each other. */
struct chaos {
    struct world *world;
    struct dice dice;
    tdg__conn_t *known[MAX_HELD]; /* answers that are due, or streams */
    bool streams[MAX_HELD];
    size_t known_count;
    int reported; /* connections that had a request and are not closed */
    bool over;    /* whoever asks is answered */
};

static void remember(struct chaos *chaos, tdg__conn_t *conn, bool stream) {
    assert_true(chaos->known_count < MAX_HELD);
    chaos->streams[chaos->known_count] = stream;
    chaos->known[chaos->known_count++] = conn;
}

static void begin_by_chance(struct chaos *chaos, tdg__conn_t *conn) {
    int rv = tdg__exchange_begin(tdg__conn_exchange(conn), NULL, "hello",
                                 roll(&chaos->dice, 6));

    if (rv == 0 || rv == TDG_EAGAIN)
        remember(chaos, conn, true);
}

static void answer_by_chance(struct world *w, tdg__conn_t *conn,
                             const tdg__http_request_t *request) {
    struct chaos *chaos = w->arg;

    if (tdg__conn_user(conn) == NULL)
        chaos->reported++;
    tdg__conn_exchange(conn)->user = chaos;
    switch (chaos->over ? 7 : roll(&chaos->dice, 8)) {
    case 0:
        tdg__exchange_close(tdg__conn_exchange(conn));
        break;
    case 1:
    case 2:
        remember(chaos, conn, false);
        break;
    case 3:
    case 4:
        begin_by_chance(chaos, conn);
        break;
    default:
        answer_path(w, conn, request);
    }
}

static void forget(struct chaos *chaos, size_t i) {
    chaos->known_count--;
    chaos->known[i] = chaos->known[chaos->known_count];
    chaos->streams[i] = chaos->streams[chaos->known_count];
}

static void forget_closed(void *user, tdg__conn_t *conn) {
    struct chaos *chaos = ((struct world *)user)->arg;

    assert_ptr_equal(tdg__conn_user(conn), chaos);
    chaos->reported--;
    for (size_t i = 0; i < chaos->known_count; i++) {
        if (chaos->known[i] == conn) {
            forget(chaos, i);
            return;
        }
    }
}

static void act_as_owner(struct chaos *chaos) {
    static char large[1 << 20];
    size_t i;
    tdg__conn_t *conn;

    if (chaos->known_count == 0)
        return;
    i = roll(&chaos->dice, (uint32_t)chaos->known_count);
    conn = chaos->known[i];
    if (!chaos->streams[i]) {
        forget(chaos, i);
        if (roll(&chaos->dice, 3) == 0)
            begin_by_chance(chaos, conn);
        else
            tdg__exchange_respond(tdg__conn_exchange(conn), 200, NULL, NULL, large,
                                  roll(&chaos->dice, 1 << 20));
    } else if (roll(&chaos->dice, 4) == 0) {
        forget(chaos, i);
        if (roll(&chaos->dice, 2) == 0)
            tdg__exchange_end(tdg__conn_exchange(conn));
        else
            tdg__exchange_close(tdg__conn_exchange(conn));
    } else {
        (void)tdg__outlet_piece(&conn->outlet, large,
                                roll(&chaos->dice, 1 << (4 + roll(&chaos->dice, 16))));
    }
}

static void act_as_client(struct chaos *chaos, struct client *c) {
    static const char text[] = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
                               "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
                               "Expect: 100-continue\r\n\r\nxyz"
                               "GET /c HTTP/1.1\r\nHost: a\r\n\r\n";
    size_t len = sizeof(text) - 1;

    switch (roll(&chaos->dice, 14)) {
    case 0:
        client_close(c);
        break;
    case 1:
        client_reset(c);
        break;
    case 2:
        (void)shutdown(c->fd, SHUT_WR);
        break;
    case 3:
        c->deaf = !c->deaf;
        break;
    case 4:
        (void)!send(c->fd, "\r\nnonsense", 10, MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
    case 5:
        len = roll(&chaos->dice, (uint32_t)len); /* a part, which spoils what follows */
        /* fall through */
    default:
        (void)!send(c->fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static void revive(struct world *w, struct client *c) {
    size_t count = w->client_count;

    client_close(c);
    w->client_count = (size_t)(c - w->clients);
    (void)client_open(w);
    w->client_count = count;
}

static void stays_sane_whatever_happens(void **state) {
    struct world *w = *state;
    struct chaos chaos = {.world = w, .dice = dice_from_env()};

    w->net->opts.calls.closed = forget_closed;
    w->arg = &chaos;
    w->answer = answer_by_chance;
    for (int i = 0; i < CROWD; i++)
        (void)client_open(w);
    for (int i = 0; i < STEPS; i++) {
        struct client *c = &w->clients[roll(&chaos.dice, CROWD)];

        if (c->fd < 0 || c->eof || c->error != 0)
            revive(w, c);
        c->len = 0;
        act_as_client(&chaos, c);
        if (roll(&chaos.dice, 2) == 0)
            act_as_owner(&chaos);
        if (roll(&chaos.dice, 3) == 0)
            world_step(w);
    }
    assert_true(w->requests > STEPS / 10);
    chaos.over = true;
    for (int i = 0; i < CROWD; i++)
        client_close(&w->clients[i]);
    while (chaos.known_count > 0)
        tdg__exchange_close(tdg__conn_exchange(chaos.known[--chaos.known_count]));
    RUN_UNTIL(w, tdg__net_connections(w->net) == 0 && chaos.reported == 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
#define IMPATIENT(function)                                                              \
    cmocka_unit_test_setup_teardown(function, setup_impatient, teardown)
#define PACED(function) cmocka_unit_test_setup_teardown(function, setup_paced, teardown)
#define HASTY(function) cmocka_unit_test_setup_teardown(function, setup_hasty, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(notices_a_client_that_leaves_a_stream),
        TEST(fails_to_write_to_a_client_that_left),
        TEST(notices_a_reset_while_answering),
        TEST(answers_a_client_that_only_listens_now),
        TEST(begins_no_stream_for_a_client_that_left),
        TEST(answers_a_slow_reader_to_the_end),
        TEST(streams_to_a_slow_reader_in_order),
        TEST(writes_what_is_added_when_drained_before_it_closes),
        IMPATIENT(closes_on_a_reader_that_never_reads),
        IMPATIENT(is_patient_with_a_reader_that_reads_a_little),
        PACED(a_reader_that_trickles_is_cut_when_others_wait),
        PACED(a_reader_that_takes_enough_is_not_cut),
        HASTY(does_not_blame_a_reader_for_its_own_delay),
        HASTY(does_not_blame_a_sender_for_its_own_delay),
        TEST(does_not_read_for_ever_while_answering),
        TEST(closes_on_a_client_that_floods_a_stream),
        TEST(keeps_no_more_than_it_must),
        TEST(survives_when_memory_is_out),
        TEST(stays_sane_whatever_happens),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("conn_slow", tests, NULL, NULL);
}
