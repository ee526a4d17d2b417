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

static int teardown(void **state) {
    world_close(*state);
    return state_destroy(state);
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
    static const char text[] =
        "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
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

/* Requests come from reading and from the idle handle; between those two lies the array
 * of events of libuv's poll, 12 KiB. Piled up, 3,000 requests would take ten times the
 * limit. */
enum { DEEP = 3000, STACK_BYTES = 64 * 1024 };

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
        tdg__exchange_respond(tdg__conn_exchange(unhold(w)), 200, NULL, NULL, NULL, 0);
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
    tdg__exchange_respond(tdg__conn_exchange(unhold(w)), 200, NULL, NULL, NULL, 0);
    RUN_UNTIL(w, w->requests == (int)(2 * COUNT(c)));
    assert_true(w->highest - w->lowest < STACK_BYTES);
    for (size_t i = 0; i < COUNT(c); i++)
        assert_int_equal(client_reply(w, c[i], true, NULL), 200);
}

/* Holds /0; /free lets it go, from inside the loop, before the loop sees what came since.
 */
static void answer_when_free(struct world *w, tdg__conn_t *conn,
                             const tdg__http_request_t *request) {
    if (strcmp(request->path, "/0") == 0) {
        answer_never(w, conn, request);
        return;
    }
    if (strcmp(request->path, "/free") == 0)
        answer_held_path(w, 0);
    answer_path(w, conn, request);
}

/* A client whose first request is answered while `kept` of its second is kept. What it
 * does next is seen in the same turn of the loop. */
static struct client *client_that_waits(struct world *w, const char *kept) {
    struct client *c = client_open(w), *other = client_open(w);

    w->answer = answer_when_free;
    client_get(w, other, "/x");
    assert_int_equal(client_reply(w, other, true, NULL), 200);
    client_get(w, c, "/0");
    RUN_UNTIL(w, w->held_count == 1);
    client_send(w, c, kept);
    RUN_UNTIL(w, w->held[0]->input != NULL);
    world_step(w); /* or epoll would still have it in front of the other */
    client_get(w, other, "/free");
    return c;
}

static void reads_what_it_kept_before_what_comes(void **state) {
    struct world *w = *state;
    struct client *c = client_that_waits(w, "GET /1 HT");

    client_send(w, c, "TP/1.1\r\nHost: a\r\n\r\n");
    expect_paths(w, c, 0, 2);
}

static void answers_what_it_kept_before_it_sees_the_end(void **state) {
    struct world *w = *state;
    struct client *c = client_that_waits(w, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");

    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    expect_paths(w, c, 0, 2);
    client_expect_end(w, c);
}

static void answer_by_path(struct world *w, tdg__conn_t *conn,
                           const tdg__http_request_t *request) {
    (void)w;
    tdg__exchange_respond(tdg__conn_exchange(conn), atoi(request->path + 1), "text/plain",
                          "X-More: yes\r\n",
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
    RUN_UNTIL(w, tdg__net_connections(w->net) == 0);
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

    client_send(w, c,
                "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET b\r\n\r\nGET /c HTTP/1.1\r\n\r\n");
    assert_int_equal(client_reply(w, c, true, NULL), 200);
    assert_int_equal(client_reply(w, c, true, NULL), 400);
    client_expect_end(w, c);
    assert_int_equal(w->requests, 1);
}

/* ---- Streams ------------------------------------------------------------ */

static void begin_with_text(struct world *w, tdg__conn_t *conn,
                            const tdg__http_request_t *request) {
    assert_int_equal(tdg__exchange_begin(tdg__conn_exchange(conn),
                                         "Mcp-Session-Id: 7\r\n", ": hello\n\n", 9),
                     0);
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

    outlet = &w->held[0]->outlet;
    assert_int_equal(flush(outlet, "data: a message\n\n"), 0);
    assert_int_equal(tdg__outlet_flush(outlet, 0), 0); /* is no end */
    assert_int_equal(tdg__outlet_piece(outlet, "xyz", 3), 0);
    client_expect(w, c, "11\r\ndata: a message\n\n\r\n3\r\nxyz\r\n");

    w->answer = answer_path;
    tdg__exchange_end(tdg__conn_exchange(unhold(w)));
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
    client_send(w, c,
                "GET /stream HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    client_expect_head(w, c, 200, &reply);
    assert_null(strstr(reply.head, "chunked"));
    assert_non_null(strstr(reply.head, "\r\nConnection: close\r\n"));
    client_expect(w, c, ": hello\n\n");
    assert_int_equal(flush(&w->held[0]->outlet, "data\n\n"), 0);
    client_expect(w, c, "data\n\n");
    tdg__exchange_end(tdg__conn_exchange(unhold(w)));
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
    tdg__exchange_end(tdg__conn_exchange(unhold(w)));
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
        assert_int_equal(flush(&w->held[0]->outlet, "data: x\n\n"), 0);
    assert_int_equal(memory_calls(), calls);
    for (int i = 0; i < 100; i++)
        client_expect(w, c, "9\r\ndata: x\n\n\r\n");
}

/* ---- Closing ------------------------------------------------------------ */

static void close_at_once(struct world *w, tdg__conn_t *conn,
                          const tdg__http_request_t *request) {
    (void)w;
    tdg__exchange_close(tdg__conn_exchange(conn));
    assert_string_equal(request->path, "/x"); /* still there */
    tdg__exchange_close(tdg__conn_exchange(conn));
    tdg__exchange_respond(tdg__conn_exchange(conn), 200, NULL, NULL, NULL,
                          0); /* does nothing */
    assert_int_equal(tdg__exchange_begin(tdg__conn_exchange(conn), NULL, NULL, 0),
                     TDG_EENDED);
    assert_int_equal(tdg__outlet_write(&conn->outlet, "x", 1), TDG_EENDED);
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
    conn->outlet.chunked = false;
    assert_int_equal(tdg__outlet_piece(&conn->outlet, body, HUGE_BYTES), TDG_EAGAIN);
    free(body);
    tdg__exchange_close(tdg__conn_exchange(conn));
    assert_int_equal(tdg__outlet_write(&conn->outlet, "x", 1), TDG_EENDED);
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
    tdg__conn_exchange(w->held[0])->user = &mine;
    assert_ptr_equal(tdg__conn_user(w->held[0]), &mine);
    assert_ptr_equal(tdg__conn_tag(w->held[0]), &w->tag);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(answers_one_request_after_the_other),
        TEST(answers_a_request_that_comes_byte_by_byte),
        TEST(answers_pipelined_requests_in_order),
        TEST(reports_the_next_request_after_the_answer),
        TEST(does_not_pile_up_requests_on_the_stack),
        TEST(does_not_pile_up_connections_on_the_stack),
        TEST(reads_what_it_kept_before_what_comes),
        TEST(answers_what_it_kept_before_it_sees_the_end),
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
        TEST(closes_from_inside_a_request),
        TEST(closes_after_what_is_queued_is_out),
        TEST(remembers_user_and_tag),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("conn", tests, NULL, NULL);
}
