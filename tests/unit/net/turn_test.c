/* SPDX-License-Identifier: MIT
 *
 * Whose turn it is: those who send much, those who are many, and large answers do not
 * keep others waiting. */
#include <linux/sockios.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "net/internal.h"
#include "unit/net/fixture.h"

enum {
    STRANGERS_COUNT = 30,
    LONGER_THAN_A_SLICE_NS = 1500000,
    LONG_NS = 12000000, /* so that all of them take longer than a time-out */
    TIMEOUT_MS = 200,
};

/* The requests in the order in which they were served; a letter each. */
static struct {
    char order[1024];
    size_t count;
} served;

static void note(const tdg__http_request_t *request) {
    if (served.count + 1 < sizeof(served.order))
        served.order[served.count++] = request->path[1];
    served.order[served.count] = '\0';
}

static void burn(uint64_t ns) {
    uint64_t until_ns = uv_hrtime() + ns;

    while (uv_hrtime() < until_ns)
        ;
}

/* /p proves itself; /s costs all the time that strangers have in a turn, /t more; /r is
 * refused; /h is held, and /b begins a stream. */
static void answer_noted(struct world *w, tdg__conn_t *conn,
                         const tdg__http_request_t *request) {
    char letter = request->path[1];

    note(request);
    if (letter == 'p')
        tdg__exchange_prove(tdg__conn_exchange(conn));
    if (letter == 's' || letter == 't')
        burn(letter == 's' ? LONGER_THAN_A_SLICE_NS : LONG_NS);
    if (letter == 'r')
        tdg__exchange_respond(tdg__conn_exchange(conn), 404, NULL, NULL, NULL, 0);
    else if (letter == 'h')
        answer_never(w, conn, request);
    else if (letter == 'b')
        answer_stream(w, conn, request);
    else
        answer_path(w, conn, request);
}

static int setup(void **state) {
    struct world *world = state_create(state, sizeof(*world));
    tdg__net_opts_t opts = world_opts(world);

    world->answer = answer_noted;
    world_open(world, &opts);
    served.count = 0;
    return 0;
}

static int setup_hasty(void **state) {
    struct world *world;

    setup(state);
    world = *state;
    world->net->opts.request_timeout_ms = TIMEOUT_MS;
    world->net->tick_ms = TIMEOUT_MS / 4;
    return 0;
}

static int teardown(void **state) {
    world_close(*state);
    return state_destroy(state);
}

static size_t place_of(char letter) {
    const char *found = strchr(served.order, letter);

    assert_non_null(found);
    return (size_t)(found - served.order);
}

/* What was sent is with the other side, which has not looked yet. On a busy machine the
 * kernel may deliver it late, even here. */
static void wait_for_arrival(const struct client *client) {
    uint64_t limit_ns = uv_hrtime() + UINT64_C(1000000) * PATIENCE_MS;
    int left = 1;

    while (left > 0) {
        assert_true(uv_hrtime() < limit_ns);
        assert_int_equal(ioctl(client->fd, SIOCOUTQ, &left), 0);
    }
}

#define ONE "GET /s HTTP/1.1\r\nHost: h\r\n\r\n"
#define SOME ONE ONE ONE ONE ONE

/* ---- Reading ------------------------------------------------------------ */

static void one_that_sends_much_waits_for_the_others(void **state) {
    struct world *w = *state;
    struct client *much = client_open(w), *little = client_open(w);
    char *requests = many_requests(500);

    RUN_UNTIL(w, tdg__net_connections(w->net) == 2);
    client_send(w, much, requests);
    client_get(w, little, "/x");
    wait_for_arrival(little);
    RUN_UNTIL(w, w->requests == 501);
    assert_true(place_of('x') < 5);
    expect_paths(w, much, 0, 500);
    free(requests);
}

/* It may send some at once, but not all. */
static void so_does_one_that_has_proven_itself(void **state) {
    struct world *w = *state;
    struct client *much = client_open(w), *little = client_open(w);

    client_get(w, much, "/p");
    client_reply(w, much, true, NULL);
    RUN_UNTIL(w, tdg__net_connections(w->net) == 2);
    for (int i = 0; i < 20; i++)
        client_send(w, much, SOME);
    client_get(w, little, "/x");
    wait_for_arrival(little);
    RUN_UNTIL(w, w->requests == 102);
    assert_true(place_of('x') < 50);
    for (int i = 0; i < 100; i++)
        assert_int_equal(client_reply(w, much, true, NULL), 200);
}

static void send_path_from_strangers(struct world *w, const char *path,
                                     struct client *ret[STRANGERS_COUNT]) {
    size_t before = tdg__net_connections(w->net);

    for (int i = 0; i < STRANGERS_COUNT; i++)
        ret[i] = client_open(w);
    RUN_UNTIL(w, tdg__net_connections(w->net) == before + STRANGERS_COUNT);
    for (int i = 0; i < STRANGERS_COUNT; i++)
        client_get(w, ret[i], path);
    RUN_UNTIL(w, strchr(served.order, path[1]) != NULL); /* from now on others wait */
}

static void send_from_strangers(struct world *w, struct client *ret[STRANGERS_COUNT]) {
    send_path_from_strangers(w, "/s", ret);
}

static void strangers_wait_for_one_that_has_proven_itself(void **state) {
    struct world *w = *state;
    struct client *strangers[STRANGERS_COUNT], *proven = client_open(w);

    client_get(w, proven, "/p");
    client_reply(w, proven, true, NULL);
    send_from_strangers(w, strangers);
    client_get(w, proven, "/x");
    wait_for_arrival(proven);
    RUN_UNTIL(w, w->requests == STRANGERS_COUNT + 2);
    assert_true(place_of('x') < 5);
    for (int i = 0; i < STRANGERS_COUNT; i++)
        assert_int_equal(client_reply(w, strangers[i], true, NULL), 200);
}

/* Anybody can prove himself with one request. */
static void many_that_have_proven_themselves_take_turns(void **state) {
    struct world *w = *state;
    struct client *many[STRANGERS_COUNT], *proven = client_open(w);
    struct client *stranger = client_open(w);
    size_t before;

    RUN_UNTIL(w, tdg__net_connections(w->net) == 2);
    send_path_from_strangers(w, "/p", many);
    client_get(w, proven, "/p");
    RUN_UNTIL(w, w->requests == STRANGERS_COUNT + 1);
    for (int i = 0; i < STRANGERS_COUNT; i++)
        client_send(w, many[i], SOME SOME SOME SOME);
    RUN_UNTIL(w, strchr(served.order, 's') != NULL);
    before = served.count;
    client_get(w, proven, "/y");
    client_get(w, stranger, "/x");
    wait_for_arrival(proven);
    wait_for_arrival(stranger);
    RUN_UNTIL(w, strchr(served.order, 'x') != NULL && strchr(served.order, 'y') != NULL);
    assert_true(place_of('x') < before + 10);
    assert_true(place_of('y') < before + STRANGERS_COUNT + 10); /* one of each */
}

static void one_that_is_refused_is_a_stranger_again(void **state) {
    struct world *w = *state;
    struct client *strangers[STRANGERS_COUNT], *refused = client_open(w);

    client_get(w, refused, "/p");
    client_reply(w, refused, true, NULL);
    client_get(w, refused, "/r");
    client_reply(w, refused, true, NULL);
    send_from_strangers(w, strangers);
    client_get(w, refused, "/x");
    RUN_UNTIL(w, w->requests == STRANGERS_COUNT + 3);
    assert_true(place_of('x') > STRANGERS_COUNT / 2);
}

/* Nothing is read from those that wait, so that they left is found in their turn. */
static void those_that_leave_while_they_wait_are_noticed(void **state) {
    struct world *w = *state;
    struct client *strangers[STRANGERS_COUNT];

    send_from_strangers(w, strangers);
    for (int i = 0; i < STRANGERS_COUNT; i++) {
        if (i % 3 == 0)
            client_close(strangers[i]);
        else if (i % 3 == 1)
            client_reset(strangers[i]);
    }
    RUN_UNTIL(w, tdg__net_connections(w->net) == STRANGERS_COUNT / 3);
    for (int i = 2; i < STRANGERS_COUNT; i += 3)
        assert_int_equal(client_reply(w, strangers[i], true, NULL), 200);
}

static size_t discarded(const struct world *w) {
    size_t all = 0;

    for (const tdg__conn_t *conn = NULL; (conn = tdg__net_next(w->net, conn)) != NULL;)
        all += conn->discarded;
    return all;
}

/* It goes on sending, which is discarded in its turn, while it can read its answer. */
static void one_that_is_refused_waits_for_its_turn(void **state) {
    static const char wrong[] = "no request\r\n\r\n";
    struct world *w = *state;
    struct client *strangers[STRANGERS_COUNT], *refused = client_open(w);
    static char much[64 * 1024];

    memset(much, 'x', sizeof(much) - 1);
    RUN_UNTIL(w, tdg__net_connections(w->net) == 1);
    send_from_strangers(w, strangers);
    for (int i = 0; i < STRANGERS_COUNT; i++) /* they are busy all the time */
        client_send(w, strangers[i], SOME SOME SOME SOME);
    client_send(w, refused, wrong);
    assert_int_equal(client_reply(w, refused, true, NULL), 400);
    client_send(w, refused, much);
    RUN_UNTIL(w, discarded(w) == strlen(wrong) + strlen(much));
}

static int count_phase(const struct world *w, enum phase phase) {
    int count = 0;

    for (const tdg__conn_t *conn = NULL; (conn = tdg__net_next(w->net, conn)) != NULL;)
        count += conn->phase == phase;
    return count;
}

/* The answers come too late for the time-out, which is not the fault of the clients. */
static void time_that_is_waited_is_not_the_clients(void **state) {
    struct world *w = *state;
    struct client *strangers[STRANGERS_COUNT], *half = client_open(w);

    client_send(w, half, "GET /x HTTP/1.1\r\nHost: ");
    RUN_UNTIL(w, count_phase(w, READING) == 1);
    send_path_from_strangers(w, "/t", strangers);
    client_send(w, half, "h\r\n\r\n");
    for (int i = 0; i < STRANGERS_COUNT; i++)
        assert_int_equal(client_reply(w, strangers[i], true, NULL), 200);
    assert_int_equal(client_reply(w, half, true, NULL), 200);
}

/* More than is read of a stranger at once: /s, a request, and one with a long field. */
static void send_more_than_is_read(struct world *w, struct client *c, const char *path) {
    char text[8192];
    int len = snprintf(text, sizeof(text),
                       "GET /s HTTP/1.1\r\nHost: h\r\n\r\n"
                       "GET %s HTTP/1.1\r\nHost: h\r\n\r\n"
                       "GET /y HTTP/1.1\r\nHost: h\r\nField: %06000d\r\n\r\n",
                       path, 0);

    client_send_bytes(w, c, text, (size_t)len);
}

/* That it is not read for a turn is no reason to refuse a stream. */
static void what_is_behind_a_stream_waits_for_its_end(void **state) {
    struct world *w = *state;
    struct client *strangers[STRANGERS_COUNT], *c = client_open(w);
    struct reply reply;

    RUN_UNTIL(w, tdg__net_connections(w->net) == 1);
    send_from_strangers(w, strangers);
    send_more_than_is_read(w, c, "/b");
    assert_int_equal(client_reply(w, c, true, NULL), 200);
    client_expect_head(w, c, 200, NULL);
    RUN_UNTIL(w, w->held_count == 1);
    tdg__exchange_end(tdg__conn_exchange(unhold(w)));
    client_expect(w, c, "0\r\n\r\n");
    assert_int_equal(client_reply(w, c, true, &reply), 200);
    assert_string_equal(reply.body, "/y");
}

static void one_that_leaves_while_it_is_answered_is_noticed(void **state) {
    struct world *w = *state;
    struct client *strangers[STRANGERS_COUNT], *c = client_open(w);

    RUN_UNTIL(w, tdg__net_connections(w->net) == 1);
    send_from_strangers(w, strangers);
    send_more_than_is_read(w, c, "/h");
    RUN_UNTIL(w, w->held_count == 1);
    client_reset(c);
    RUN_UNTIL(w, w->closed == 1);
}

/* It is refused while it has a turn ahead: what it sends goes on to be discarded. */
static void one_that_is_refused_with_a_turn_ahead_lingers(void **state) {
    struct world *w = *state;
    struct client *c = client_open(w);
    static char much[256 * 1024];
    size_t before;

    client_get(w, c, "/p");
    client_reply(w, c, true, NULL);
    for (int i = 0; i < 20; i++)
        client_get(w, c, "/x");
    client_send(w, c, "no request\r\n\r\n");
    memset(much, 'x', sizeof(much) - 1);
    client_send(w, c, much);
    for (int i = 0; i < 20; i++)
        assert_int_equal(client_reply(w, c, true, NULL), 200);
    assert_int_equal(client_reply(w, c, true, NULL), 400);
    client_expect_end(w, c);
    for (int i = 0; i < 10; i++)
        world_step(w);
    before = discarded(w);
    client_send(w, c, "more");
    RUN_UNTIL(w, discarded(w) > before);
}

/* One of them has sent more than was read, which must not make the end a reset. */
static void those_that_wait_are_served_before_the_end(void **state) {
    struct world *w = *state;
    struct client *strangers[STRANGERS_COUNT], *idle = client_open(w);
    struct client *more = client_open(w);
    struct reply reply;

    RUN_UNTIL(w, tdg__net_connections(w->net) == 2);
    send_from_strangers(w, strangers);
    send_more_than_is_read(w, more, "/y");
    tdg__net_finish(w->net);
    client_expect_end(w, idle);
    for (int i = 0; i < STRANGERS_COUNT; i++) {
        assert_int_equal(client_reply(w, strangers[i], true, &reply), 200);
        if (strstr(reply.head, "Connection: close") != NULL)
            client_expect_end(w, strangers[i]);
    }
    if (more->len > 0)
        assert_int_equal(client_reply(w, more, true, &reply), 200);
    client_expect_end(w, more);
    client_close(more);
    RUN_UNTIL(w, tdg__net_connections(w->net) == 0);
}

/* Returns true. */
static bool look_what_is_kept(const struct world *w, size_t *most) {
    for (const tdg__conn_t *conn = NULL; (conn = tdg__net_next(w->net, conn)) != NULL;) {
        if (conn->input != NULL && conn->input->size > *most)
            *most = conn->input->size;
    }
    return true;
}

/* Whether the body of a request is under way, or it has proven itself. */
static void little_is_kept_of_one_that_waits(void **state) {
    struct world *w = *state;
    char *requests = many_requests(2000);

    for (int proven = 0; proven < 2; proven++) {
        struct client *c = client_open(w);
        size_t most = 0;

        client_get(w, c, proven ? "/p" : "/x");
        client_reply(w, c, true, NULL);
        client_send(w, c, "POST /y HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc");
        RUN_UNTIL(w, count_phase(w, READING) == 1);
        client_send(w, c, "defghi");
        client_send(w, c, requests);
        w->requests = 0;
        RUN_UNTIL(w, look_what_is_kept(w, &most) && w->requests == 2001);
        assert_in_range(most, 1000, proven ? PROVEN_BYTES : STRANGER_BYTES);
        client_close(c);
        RUN_UNTIL(w, tdg__net_connections(w->net) == 0);
    }
    free(requests);
}

static void the_net_can_be_closed_while_they_wait(void **state) {
    struct world *w = *state;
    struct client *strangers[STRANGERS_COUNT];

    send_from_strangers(w, strangers);
    RUN_UNTIL(w, w->requests > 0);
    world_close_net(w);
    assert_true(w->requests < STRANGERS_COUNT);
}

/* ---- Writing ------------------------------------------------------------ */

enum { READERS = 32, LARGE_BYTES = 1 << 20 };

/* Answers all that are held with the same buffer, within one turn. */
static void answer_large(struct world *w) {
    tdg__buf_t *buf = tdg__buf_create(NULL, LARGE_BYTES);
    tdg__rope_t rope;

    assert_non_null(buf);
    memset(buf->data, 'x', buf->len);
    tdg__rope_init(&rope, SIZE_MAX);
    tdg__rope_splice(&rope, buf);
    while (w->held_count > 0)
        tdg__exchange_respond_rope(tdg__conn_exchange(unhold(w)), 200, "text/plain", NULL,
                                   &rope);
    tdg__rope_done(&rope);
    tdg__buf_unref(buf);
}

static void open_readers(struct world *w, struct client *ret[READERS]) {
    w->answer = answer_never;
    for (int i = 0; i < READERS; i++) {
        ret[i] = client_open(w);
        ret[i]->deaf = true;
        client_get(w, ret[i], "/l");
    }
    RUN_UNTIL(w, w->held_count == READERS);
}

/* What the kernel has taken for the readers. */
static size_t taken(struct client *const readers[READERS]) {
    size_t all = 0;

    for (int i = 0; i < READERS; i++) {
        int here = 0;

        assert_int_equal(ioctl(readers[i]->fd, FIONREAD, &here), 0);
        all += (size_t)here;
    }
    return all;
}

static void large_answers_take_turns(void **state) {
    struct world *w = *state;
    struct client *readers[READERS], *other;

    open_readers(w, readers);
    other = client_open(w);
    RUN_UNTIL(w, tdg__net_connections(w->net) == READERS + 1);
    w->answer = answer_path;
    answer_large(w);
    assert_true(taken(readers) < 2 * LARGE_BYTES);
    client_get(w, other, "/x");
    client_reply(w, other, true, NULL);
    for (int i = 0; i < READERS; i++)
        readers[i]->deaf = false;
    for (int i = 0; i < READERS; i++) {
        struct reply reply;

        assert_int_equal(client_reply(w, readers[i], true, &reply), 200);
        assert_int_equal(reply.body_len, LARGE_BYTES);
    }
}

static void readers_may_leave_before_their_turn(void **state) {
    struct world *w = *state;
    struct client *readers[READERS];

    open_readers(w, readers);
    answer_large(w);
    for (int i = 0; i < READERS; i += 2)
        client_reset(readers[i]);
    RUN_UNTIL(w, w->closed == READERS / 2);
    world_close_net(w); /* the rest waits, and is let go of */
    assert_int_equal(w->closed, READERS);
}

static void answer_and_close_all(struct world *w, tdg__conn_t *conn,
                                 const tdg__http_request_t *request) {
    (void)conn, (void)request;
    answer_large(w);
    for (tdg__conn_t *each; (each = tdg__net_next(w->net, NULL)) != NULL;)
        tdg__conn_abort(each);
}

/* The kernel has taken slices, which libuv has not reported yet, when it is closed. */
static void none_waits_once_it_is_closed(void **state) {
    struct world *w = *state;
    struct client *readers[READERS];

    open_readers(w, readers);
    w->answer = answer_and_close_all;
    client_get(w, client_open(w), "/x");
    RUN_UNTIL(w, w->closed == READERS + 1);
    assert_true(tdg__queue_is_empty(&w->net->writers));
}

static void nor_once_the_net_is_closed(void **state) {
    struct world *w = *state;
    struct client *readers[READERS];

    open_readers(w, readers);
    answer_large(w);
    world_close_net(w);
    assert_int_equal(w->closed, READERS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_that_sends_much_waits_for_the_others, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(so_does_one_that_has_proven_itself, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(strangers_wait_for_one_that_has_proven_itself,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(many_that_have_proven_themselves_take_turns,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_refused_is_a_stranger_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(those_that_leave_while_they_wait_are_noticed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_refused_waits_for_its_turn, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(time_that_is_waited_is_not_the_clients,
                                        setup_hasty, teardown),
        cmocka_unit_test_setup_teardown(what_is_behind_a_stream_waits_for_its_end, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_that_leaves_while_it_is_answered_is_noticed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_refused_with_a_turn_ahead_lingers,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(those_that_wait_are_served_before_the_end, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(little_is_kept_of_one_that_waits, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_net_can_be_closed_while_they_wait, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(large_answers_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_may_leave_before_their_turn, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(none_waits_once_it_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(nor_once_the_net_is_closed, setup, teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("turn", tests, NULL, NULL);
}
