/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

#include "net/internal.h"
#include "unit/net/fixture.h"

static int setup(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    world_open(world, &opts);
    return 0;
}

static int setup_impatient(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    opts.write_timeout_ms = 200;
    world_open(world, &opts);
    return 0;
}

static int teardown(void **state) {
    world_close(*state);
    return state_destroy(state);
}

/* `count` requests for /0, /1, ... in one text; for free(). */
static char *many_requests(size_t count) {
    char *text = malloc(count * 64 + 1);
    size_t len = 0;

    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, 64, "GET /%zu HTTP/1.1\r\nHost: a\r\n\r\n", i);
    return text;
}

static void expect_paths(struct world *w, struct client *c, size_t from, size_t to) {
    struct reply reply;
    char path[32];

    for (size_t i = from; i < to; i++) {
        assert_int_equal(client_reply(w, c, true, &reply), 200);
        snprintf(path, sizeof(path), "/%zu", i);
        assert_string_equal(reply.body, path);
    }
}

/* ---- Responses ---------------------------------------------------------- */

static void answers_one_request_after_the_other(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    struct reply reply;

    for (int i = 0; i < 3; i++) {
        client_get(w, c, "/one");
        assert_int_equal(client_reply(w, c, true, &reply), 200);
        assert_string_equal(reply.body, "/one");
        assert_non_null(strstr(reply.head, "HTTP/1.1 200 OK\r\n"));
        assert_non_null(strstr(reply.head, "\r\nDate: "));
        assert_non_null(strstr(reply.head, "\r\nConnection: keep-alive\r\n"));
        assert_non_null(strstr(reply.head, "\r\nContent-Type: text/plain\r\n"));
        assert_non_null(strstr(reply.head, "\r\nContent-Length: 4\r\n"));
    }
    assert_int_equal(w->requests, 3);
    assert_int_equal(tdg__net_connections(w->net), 1);
    client_close(c);
    RUN_UNTIL(w, w->closed == 1);
    assert_int_equal(tdg__net_connections(w->net), 0);
}

static void answers_a_request_that_comes_byte_by_byte(void **state) {
    static const char text[] = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    struct world *w = *state;
    struct client *c = client_open(w);
    struct reply reply;

    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        assert_int_equal(w->requests, 0);
        client_send_bytes(w, c, text + i, 1);
        world_step(w);
    }
    assert_int_equal(client_reply(w, c, true, &reply), 200);
    assert_string_equal(reply.body, "/p");
}

static void answers_pipelined_requests_in_order(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    char *text = many_requests(100);

    client_send(w, c, text);
    free(text);
    expect_paths(w, c, 0, 100);
    assert_int_equal(w->requests, 100);
}

static void answer_held_path(struct world *w, int number) {
    char path[32];
    int len = snprintf(path, sizeof(path), "/%d", number);

    tdg__conn_respond(unhold(w), 200, "text/plain", NULL, path, (size_t)len);
}

static void reports_the_next_request_after_the_answer(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    char *text = many_requests(100);

    w->answer = answer_never;
    client_send(w, c, text);
    free(text);
    for (int i = 0; i < 100; i++) {
        RUN_UNTIL(w, w->held_count > 0);
        world_step(w);
        assert_int_equal(w->requests, i + 1);
        answer_held_path(w, i);
    }
    expect_paths(w, c, 0, 100);
}

enum { DEEP = 3000, STACK_BYTES = 16 * 1024 };

static void does_not_pile_up_requests_on_the_stack(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    char *text = many_requests(DEEP);

    client_send(w, c, text);
    free(text);
    expect_paths(w, c, 0, DEEP);
    assert_true(w->highest - w->lowest < STACK_BYTES);
}

/* Answers whoever waited, then waits itself. */
static void answer_the_other(struct world *w, tdg__conn_t *conn,
                             const tdg__http_request_t *request) {
    while (w->held_count > 0)
        tdg__conn_respond(unhold(w), 200, NULL, NULL, NULL, 0);
    answer_never(w, conn, request);
}

static void does_not_pile_up_connections_on_the_stack(void **state) {
    struct world *w = *state;
    struct client *c[50];

    w->answer = answer_never;
    for (size_t i = 0; i < COUNT(c); i++) {
        c[i] = client_open(w);
        client_get(w, c[i], "/a");
        client_get(w, c[i], "/b");
    }
    RUN_UNTIL(w, w->held_count == COUNT(c));
    world_run_ms(w, 20); /* the second requests are kept now */
    w->answer = answer_the_other;
    w->lowest = w->highest = NULL;
    tdg__conn_respond(unhold(w), 200, NULL, NULL, NULL, 0);
    RUN_UNTIL(w, w->requests == (int)(2 * COUNT(c)));
    assert_true(w->highest - w->lowest < STACK_BYTES);
    for (size_t i = 0; i < COUNT(c); i++)
        assert_int_equal(client_reply(w, c[i], true, NULL), 200);
}

static void answer_by_path(struct world *w, tdg__conn_t *conn,
                           const tdg__http_request_t *request) {
    (void)w;
    tdg__conn_respond(conn, atoi(request->path + 1), "text/plain", "X-More: yes\r\n",
                      request->query[0] == '\0' ? NULL : request->query,
                      strlen(request->query));
}

static void leaves_out_what_a_status_forbids(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    struct reply reply;

    w->answer = answer_by_path;
    client_get(w, c, "/202");
    assert_int_equal(client_reply(w, c, true, &reply), 202);
    assert_non_null(strstr(reply.head, "\r\nContent-Length: 0\r\n"));
    assert_null(strstr(reply.head, "Content-Type"));
    assert_non_null(strstr(reply.head, "\r\nX-More: yes\r\n"));

    client_get(w, c, "/204?never");
    assert_int_equal(client_reply(w, c, false, &reply), 204);
    assert_null(strstr(reply.head, "Content-Length"));

    client_get(w, c, "/404?gone");
    assert_int_equal(client_reply(w, c, true, &reply), 404);
    assert_non_null(strstr(reply.head, "HTTP/1.1 404 Not Found\r\n"));
    assert_string_equal(reply.body, "gone");

    client_get(w, c, "/299?x");
    assert_int_equal(client_reply(w, c, true, &reply), 299);
}

static void answers_head_without_the_body(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    struct reply reply;

    client_send(w, c, "HEAD /long HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_int_equal(client_reply(w, c, false, &reply), 200);
    assert_non_null(strstr(reply.head, "\r\nContent-Length: 5\r\n"));
    client_get(w, c, "/next");
    assert_int_equal(client_reply(w, c, true, &reply), 200);
    assert_string_equal(reply.body, "/next");
}

static void closes_where_the_client_asks_for_it(void **state) {
    static const char *const requests[] = {
        "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /x HTTP/1.0\r\nHost: a\r\n\r\n",
    };
    struct world *w = *state;
    struct reply reply;

    for (size_t i = 0; i < COUNT(requests); i++) {
        struct client *c = client_open(w);

        client_send(w, c, requests[i]);
        assert_int_equal(client_reply(w, c, true, &reply), 200);
        assert_non_null(strstr(reply.head, "\r\nConnection: close\r\n"));
        client_expect_end(w, c);
    }
    RUN_UNTIL(w, w->closed == (int)COUNT(requests));
}

static void says_go_on_to_a_client_that_waits_for_it(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    struct reply reply;

    client_send(w, c,
                "POST /big HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
                "Expect: 100-continue\r\n\r\n");
    client_expect(w, c, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(w->requests, 0);
    client_send(w, c, "body");
    assert_int_equal(client_reply(w, c, true, &reply), 200);
    assert_string_equal(reply.body, "/big");
}

/* ---- Refusals ----------------------------------------------------------- */

static void refuses_what_is_no_request(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    struct reply reply;

    client_send(w, c, "this is not HTTP\r\n\r\n");
    assert_int_equal(client_reply(w, c, true, &reply), 400);
    assert_non_null(strstr(reply.head, "\r\nConnection: close\r\n"));
    assert_non_null(strstr(reply.head, "\r\nContent-Type: text/plain"));
    assert_true(reply.body_len > 1);
    client_expect_end(w, c);
    client_close(c);
    RUN_UNTIL(w, memory_live() <= 6); /* the connection is gone for good */
    assert_int_equal(w->requests, 0);
    assert_int_equal(w->closed, 0); /* the owner has never seen it */
}

/* Were the socket closed at once, the client would be reset in the middle of sending, and
 * the answer could be lost. */
static void lets_a_client_that_goes_on_sending_see_the_refusal(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    char *body = calloc(1, 4 << 20);

    assert_non_null(body);
    client_send(w, c, "POST /big HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\n");
    client_send_bytes(w, c, body, 4 << 20);
    free(body);
    assert_int_equal(client_reply(w, c, true, NULL), 413);
    client_expect_end(w, c);
    assert_int_equal(tdg__net_connections(w->net), 1);
    client_close(c);
    RUN_UNTIL(w, tdg__net_connections(w->net) == 0);
}

static void answers_what_came_before_the_mistake(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);

    client_send(w, c, "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET b\r\n\r\nGET /c HTTP/1.1\r\n\r\n");
    assert_int_equal(client_reply(w, c, true, NULL), 200);
    assert_int_equal(client_reply(w, c, true, NULL), 400);
    client_expect_end(w, c);
    assert_int_equal(w->requests, 1);
}

/* ---- Streams ------------------------------------------------------------ */

static int flush(tdg__outlet_t *outlet, const char *text) {
    memcpy(tdg__net_scratch(outlet->net), text, strlen(text));
    return tdg__outlet_flush(outlet, strlen(text));
}

static void begin_with_text(struct world *w, tdg__conn_t *conn,
                            const tdg__http_request_t *request) {
    assert_int_equal(tdg__conn_begin(conn, "Mcp-Session-Id: 7\r\n", ": hello\n\n", 9), 0);
    answer_never(w, conn, request);
}

static void writes_a_stream_in_chunks(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    struct reply reply;
    tdg__outlet_t *outlet;

    w->answer = begin_with_text;
    client_get(w, c, "/stream");
    client_expect_head(w, c, 200, &reply);
    assert_non_null(strstr(reply.head, "\r\nContent-Type: text/event-stream\r\n"));
    assert_non_null(strstr(reply.head, "\r\nCache-Control: no-cache, no-transform\r\n"));
    assert_non_null(strstr(reply.head, "\r\nX-Accel-Buffering: no\r\n"));
    assert_non_null(strstr(reply.head, "\r\nTransfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(reply.head, "\r\nMcp-Session-Id: 7\r\n"));
    assert_null(strstr(reply.head, "Content-Length"));
    client_expect(w, c, "9\r\n: hello\n\n\r\n");

    outlet = tdg__conn_outlet(w->held[0]);
    assert_int_equal(flush(outlet, "data: a message\n\n"), 0);
    assert_int_equal(tdg__outlet_flush(outlet, 0), 0); /* is no end */
    assert_int_equal(tdg__outlet_piece(outlet, "xyz", 3), 0);
    client_expect(w, c, "11\r\ndata: a message\n\n\r\n3\r\nxyz\r\n");

    w->answer = answer_path;
    tdg__conn_end(unhold(w));
    client_expect(w, c, "0\r\n\r\n");
    client_get(w, c, "/after");
    assert_int_equal(client_reply(w, c, true, &reply), 200);
    assert_string_equal(reply.body, "/after");
}

static void writes_a_stream_to_old_clients_without_chunks(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    struct reply reply;

    w->answer = begin_with_text;
    client_send(w, c, "GET /stream HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    client_expect_head(w, c, 200, &reply);
    assert_null(strstr(reply.head, "chunked"));
    assert_non_null(strstr(reply.head, "\r\nConnection: close\r\n"));
    client_expect(w, c, ": hello\n\n");
    assert_int_equal(flush(tdg__conn_outlet(w->held[0]), "data\n\n"), 0);
    client_expect(w, c, "data\n\n");
    tdg__conn_end(unhold(w));
    client_expect_end(w, c);
}

static void gives_only_the_head_of_a_stream_to_head(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);

    w->answer = answer_stream;
    client_send(w, c, "HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    client_expect_head(w, c, 200, NULL);
    client_expect_end(w, c);
    RUN_UNTIL(w, w->closed == 1);
}

static void keeps_requests_behind_a_stream_for_later(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    struct reply reply;

    w->answer = answer_stream;
    client_send(w, c,
                "GET /s HTTP/1.1\r\nHost: a\r\n\r\n"
                "GET /b HTTP/1.1\r\nHost: a\r\n\r\nGET /c HT");
    client_expect_head(w, c, 200, NULL);
    client_send(w, c, "TP/1.1\r\nHost: a\r\n\r\n");
    world_run_ms(w, 20);
    assert_int_equal(w->requests, 1);
    w->answer = answer_path;
    tdg__conn_end(unhold(w));
    client_expect(w, c, "0\r\n\r\n");
    assert_int_equal(client_reply(w, c, true, &reply), 200);
    assert_string_equal(reply.body, "/b");
    assert_int_equal(client_reply(w, c, true, &reply), 200);
    assert_string_equal(reply.body, "/c");
}

static void costs_one_small_allocation_while_idle(void **state) {
    struct world *w = *state;
    struct client *c[10];
    size_t before;

    w->answer = answer_stream;
    c[0] = client_open(w); /* fills the pool of readers */
    client_get(w, c[0], "/s");
    client_expect_head(w, c[0], 200, NULL);
    before = memory_live();
    for (size_t i = 1; i < COUNT(c); i++) {
        c[i] = client_open(w);
        client_get(w, c[i], "/s");
        client_expect_head(w, c[i], 200, NULL);
    }
    assert_int_equal(memory_live(), before + COUNT(c) - 1);
    assert_true(sizeof(struct tdg__conn) < 448);
    print_message("# a connection has %zu bytes\n", sizeof(struct tdg__conn));
}

static void writes_small_pieces_without_allocating(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    size_t calls;

    w->answer = answer_stream;
    client_get(w, c, "/s");
    client_expect_head(w, c, 200, NULL);
    calls = memory_calls();
    for (int i = 0; i < 100; i++)
        assert_int_equal(flush(tdg__conn_outlet(w->held[0]), "data: x\n\n"), 0);
    assert_int_equal(memory_calls(), calls);
    for (int i = 0; i < 100; i++)
        client_expect(w, c, "9\r\ndata: x\n\n\r\n");
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
    outlet = tdg__conn_outlet(w->held[0]);
    client_reset(c);
    for (int i = 0; i < 1000 && rv == 0; i++) /* until the reset is here */
        rv = flush(outlet, "data\n\n");
    assert_int_equal(rv, TDG_EENDED);
    assert_int_equal(w->closed, 0); /* not from inside the call */
    assert_int_equal(flush(outlet, "data\n\n"), TDG_EENDED);
    tdg__conn_end(w->held[0]); /* does nothing */
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
    assert_int_equal(tdg__conn_begin(w->held[0], NULL, NULL, 0), TDG_EENDED);
    RUN_UNTIL(w, w->closed == 1);
}

/* ---- Clients that are slow or greedy ------------------------------------ */

enum { HUGE_BYTES = 24 << 20 };

static char *huge_body(void) {
    char *body = malloc(HUGE_BYTES);

    assert_non_null(body);
    for (size_t i = 0; i < HUGE_BYTES; i++)
        body[i] = (char)(i % 251);
    return body;
}

static void is_huge(const char *data) {
    for (size_t i = 0; i < HUGE_BYTES; i++) {
        if (data[i] != (char)(i % 251))
            fail_msg("wrong byte at %zu", i);
    }
}

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
    tdg__conn_respond(unhold(w), 200, "text/plain", NULL, body, HUGE_BYTES);
    free(body); /* it was copied */
    world_run_ms(w, 50);
    assert_true(memory_live() <= live + 1); /* the rest, in one piece */
    assert_int_equal(w->requests, 1); /* the next one waits until all is out */

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
    outlet = tdg__conn_outlet(w->held[0]);
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

static void closes_on_a_reader_that_never_reads(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w), *other = client_open(w);
    char *body = huge_body();

    w->answer = answer_never;
    c->deaf = true;
    client_get(w, c, "/huge");
    RUN_UNTIL(w, w->held_count == 1);
    tdg__conn_respond(unhold(w), 200, "text/plain", NULL, body, HUGE_BYTES);
    RUN_UNTIL(w, w->closed == 1);

    c = client_open(w);
    c->deaf = true;
    w->answer = answer_stream;
    client_get(w, c, "/s");
    RUN_UNTIL(w, w->held_count == 1);
    assert_int_equal(tdg__outlet_piece(tdg__conn_outlet(w->held[0]), body, HUGE_BYTES),
                     TDG_EAGAIN);
    RUN_UNTIL(w, w->closed == 2);
    assert_int_equal(w->drained, 0);
    free(body);

    w->answer = answer_path;
    client_get(w, other, "/fine");
    assert_int_equal(client_reply(w, other, true, NULL), 200);
}

/* Slow is not stuck: the time-out counts from the last byte that the kernel took. */
static void is_patient_with_a_reader_that_reads_a_little(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    char *body = huge_body();
    uint64_t limit;
    int some = 65536;

    assert_int_equal(
        setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &some, sizeof(some)), 0);
    w->answer = answer_never;
    c->deaf = true;
    client_get(w, c, "/huge");
    RUN_UNTIL(w, w->held_count == 1);
    tdg__conn_respond(unhold(w), 200, "text/plain", NULL, body, HUGE_BYTES);
    free(body);
    limit = uv_hrtime() + UINT64_C(1000000) * 700;
    while (uv_hrtime() < limit) {
        char bytes[32768];

        (void)!recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        world_step(w);
    }
    assert_int_equal(w->closed, 0);
}

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
    assert_true(conn->input->end <= 16 * 1024 + READ_BYTES);

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

    w->answer = answer_never;
    client_get(w, c, "/first");
    client_get(w, c, "/second");
    for (int i = 0; i < 2000; i++) {
        RUN_UNTIL(w, w->held_count == 1 && w->held[0]->input != NULL);
        assert_true(w->held[0]->input->size < 512);
        client_get(w, c, "/another");
        tdg__conn_respond(unhold(w), 200, NULL, NULL, NULL, 0);
        client_reply(w, c, true, NULL);
    }
}

/* ---- Closing ------------------------------------------------------------ */

static void close_at_once(struct world *w, tdg__conn_t *conn,
                          const tdg__http_request_t *request) {
    (void)w;
    tdg__conn_close(conn);
    assert_string_equal(request->path, "/x"); /* still there */
    tdg__conn_close(conn);
    tdg__conn_respond(conn, 200, NULL, NULL, NULL, 0); /* does nothing */
    assert_int_equal(tdg__conn_begin(conn, NULL, NULL, 0), TDG_EENDED);
    assert_int_equal(tdg__outlet_write(tdg__conn_outlet(conn), "x", 1), TDG_EENDED);
}

static void closes_from_inside_a_request(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);

    w->answer = close_at_once;
    client_get(w, c, "/x");
    client_get(w, c, "/y");
    RUN_UNTIL(w, w->closed == 1 || c->error != 0);
    RUN_UNTIL(w, c->eof || c->error != 0);
    client_close(c);
    RUN_UNTIL(w, w->closed == 1);
    assert_int_equal(w->requests, 1);
}

static void closes_after_what_is_queued_is_out(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    char *body = huge_body();
    tdg__conn_t *conn;

    w->answer = answer_stream;
    client_get(w, c, "/s");
    client_expect_head(w, c, 200, NULL);
    conn = w->held[0];
    c->deaf = true;
    tdg__conn_outlet(conn)->chunked = false;
    assert_int_equal(tdg__outlet_piece(tdg__conn_outlet(conn), body, HUGE_BYTES),
                     TDG_EAGAIN);
    free(body);
    tdg__conn_close(conn);
    assert_int_equal(tdg__outlet_write(tdg__conn_outlet(conn), "x", 1), TDG_EENDED);
    world_run_ms(w, 20);
    assert_int_equal(w->closed, 0);
    c->deaf = false;
    RUN_UNTIL(w, c->eof || c->error != 0);
    assert_int_equal(c->len, HUGE_BYTES);
    is_huge(c->data);
    RUN_UNTIL(w, w->closed == 1);
}

static void remembers_user_and_tag(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    int mine;

    w->answer = answer_never;
    client_get(w, c, "/x");
    RUN_UNTIL(w, w->held_count == 1);
    assert_null(tdg__conn_user(w->held[0]));
    tdg__conn_set_user(w->held[0], &mine);
    assert_ptr_equal(tdg__conn_user(w->held[0]), &mine);
    assert_ptr_equal(tdg__conn_tag(w->held[0]), &w->tag);
}

/* ---- Memory ------------------------------------------------------------- */

static void answer_both_ways(struct world *w, tdg__conn_t *conn,
                             const tdg__http_request_t *request) {
    if (request->path[1] == 's')
        answer_stream(w, conn, request);
    else if (request->path[1] == 'h')
        tdg__conn_respond(conn, 200, NULL, NULL, w->arg, HUGE_BYTES);
    else
        answer_path(w, conn, request);
}

static bool is_over(const struct client *c) {
    return c->fd < 0 || c->eof || c->error != 0;
}

static bool try_send(struct client *c, const char *text) {
    return send(c->fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

/* Everything that allocates, with whatever outcome: each client gets its bytes or an end. */
static void run_everything(struct world *w) {
    struct client *plain = client_open(w), *huge = client_open(w),
                  *stream = client_open(w);

    try_send(plain, "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    RUN_UNTIL(w, is_over(plain) || (plain->len > 0 && strstr(plain->data, "/b") != NULL));
    try_send(huge, "GET /h HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    RUN_UNTIL(w, is_over(huge) || huge->len >= HUGE_BYTES);
    try_send(stream, "GET /s HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    RUN_UNTIL(w, is_over(stream) || stream->len > 0);
    if (w->held_count > 0) {
        stream->deaf = true;
        (void)tdg__outlet_piece(tdg__conn_outlet(w->held[0]), w->arg, HUGE_BYTES);
    }
    if (w->held_count > 0)
        tdg__conn_end(unhold(w));
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

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
#define IMPATIENT(function)                                                              \
    cmocka_unit_test_setup_teardown(function, setup_impatient, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(answers_one_request_after_the_other),
        TEST(answers_a_request_that_comes_byte_by_byte),
        TEST(answers_pipelined_requests_in_order),
        TEST(reports_the_next_request_after_the_answer),
        TEST(does_not_pile_up_requests_on_the_stack),
        TEST(does_not_pile_up_connections_on_the_stack),
        TEST(leaves_out_what_a_status_forbids),
        TEST(answers_head_without_the_body),
        TEST(closes_where_the_client_asks_for_it),
        TEST(says_go_on_to_a_client_that_waits_for_it),
        TEST(refuses_what_is_no_request),
        TEST(lets_a_client_that_goes_on_sending_see_the_refusal),
        TEST(answers_what_came_before_the_mistake),
        TEST(writes_a_stream_in_chunks),
        TEST(writes_a_stream_to_old_clients_without_chunks),
        TEST(gives_only_the_head_of_a_stream_to_head),
        TEST(keeps_requests_behind_a_stream_for_later),
        TEST(costs_one_small_allocation_while_idle),
        TEST(writes_small_pieces_without_allocating),
        TEST(notices_a_client_that_leaves_a_stream),
        TEST(fails_to_write_to_a_client_that_left),
        TEST(notices_a_reset_while_answering),
        TEST(answers_a_client_that_only_listens_now),
        TEST(begins_no_stream_for_a_client_that_left),
        TEST(answers_a_slow_reader_to_the_end),
        TEST(streams_to_a_slow_reader_in_order),
        IMPATIENT(closes_on_a_reader_that_never_reads),
        IMPATIENT(is_patient_with_a_reader_that_reads_a_little),
        TEST(does_not_read_for_ever_while_answering),
        TEST(closes_on_a_client_that_floods_a_stream),
        TEST(keeps_no_more_than_it_must),
        TEST(closes_from_inside_a_request),
        TEST(closes_after_what_is_queued_is_out),
        TEST(remembers_user_and_tag),
        TEST(survives_when_memory_is_out),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("conn", tests, NULL, NULL);
}
