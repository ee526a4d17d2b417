/* SPDX-License-Identifier: MIT
 *
 * Whose turn it is: those who send much, those who are many, and large answers do not
 * keep others waiting. */
#include <sys/ioctl.h>

#include "net/internal.h"
#include "unit/net/fixture.h"

enum {
    STRANGERS_COUNT = 30,
    LONGER_THAN_A_SLICE_NS = 1500000,
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

/* /p proves itself; /s costs all the time that strangers have in a turn; /r is refused.
 */
static void answer_noted(struct world *w, tdg__conn_t *conn,
                         const tdg__http_request_t *request) {
    uint64_t until_ns = uv_hrtime() + LONGER_THAN_A_SLICE_NS;

    note(request);
    if (request->path[1] == 'p')
        tdg__conn_prove(conn);
    while (request->path[1] == 's' && uv_hrtime() < until_ns)
        ;
    if (request->path[1] == 'r')
        tdg__conn_respond(conn, 404, NULL, NULL, NULL, 0);
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

static int teardown(void **state) {
    world_close(*state);
    return state_destroy(state);
}

static size_t place_of(char letter) {
    const char *found = strchr(served.order, letter);

    assert_non_null(found);
    return (size_t)(found - served.order);
}

/* ---- Reading ------------------------------------------------------------ */

static void one_that_sends_much_waits_for_the_others(void **state) {
    struct world *w = *state;
    struct client *much = client_open(w), *little = client_open(w);
    char *requests = many_requests(500);

    RUN_UNTIL(w, tdg__net_connections(w->net) == 2);
    client_send(w, much, requests);
    client_get(w, little, "/x");
    RUN_UNTIL(w, w->requests == 501);
    assert_true(place_of('x') < 5);
    expect_paths(w, much, 0, 500);
    free(requests);
}

/* It may send some at once, but not all. */
static void so_does_one_that_has_proven_itself(void **state) {
    struct world *w = *state;
    struct client *much = client_open(w), *little = client_open(w);
    char *requests = many_requests(500);

    client_get(w, much, "/p");
    client_reply(w, much, true, NULL);
    RUN_UNTIL(w, tdg__net_connections(w->net) == 2);
    client_send(w, much, requests);
    client_get(w, little, "/x");
    RUN_UNTIL(w, w->requests == 502);
    assert_true(place_of('x') < 50);
    expect_paths(w, much, 0, 500);
    free(requests);
}

static void send_from_strangers(struct world *w, struct client *ret[STRANGERS_COUNT]) {
    size_t before = tdg__net_connections(w->net);

    for (int i = 0; i < STRANGERS_COUNT; i++)
        ret[i] = client_open(w);
    RUN_UNTIL(w, tdg__net_connections(w->net) == before + STRANGERS_COUNT);
    for (int i = 0; i < STRANGERS_COUNT; i++)
        client_get(w, ret[i], "/s");
    RUN_UNTIL(w, strchr(served.order, 's') != NULL); /* the others wait from now on */
}

static void strangers_wait_for_one_that_has_proven_itself(void **state) {
    struct world *w = *state;
    struct client *strangers[STRANGERS_COUNT], *proven = client_open(w);

    client_get(w, proven, "/p");
    client_reply(w, proven, true, NULL);
    send_from_strangers(w, strangers);
    client_get(w, proven, "/x");
    RUN_UNTIL(w, w->requests == STRANGERS_COUNT + 2);
    assert_true(place_of('x') < 5);
    for (int i = 0; i < STRANGERS_COUNT; i++)
        assert_int_equal(client_reply(w, strangers[i], true, NULL), 200);
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

#define ONE "GET /s HTTP/1.1\r\nHost: h\r\n\r\n"
#define SOME ONE ONE ONE ONE ONE

static size_t discarded(const struct world *w) {
    size_t all = 0;

    for (const tdg__conn_t *conn = w->net->conns; conn != NULL; conn = conn->next)
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
        tdg__conn_respond_rope(unhold(w), 200, "text/plain", NULL, &rope);
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
    while (w->net->conns != NULL)
        tdg__conn_abort(w->net->conns);
}

/* The kernel has taken slices, which libuv has not reported yet, when it is closed. */
static void none_waits_once_it_is_closed(void **state) {
    struct world *w = *state;
    struct client *readers[READERS];

    open_readers(w, readers);
    w->answer = answer_and_close_all;
    client_get(w, client_open(w), "/x");
    RUN_UNTIL(w, w->closed == READERS + 1);
    assert_null(w->net->writers.first);
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
        cmocka_unit_test_setup_teardown(one_that_is_refused_is_a_stranger_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(those_that_leave_while_they_wait_are_noticed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_refused_waits_for_its_turn, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_net_can_be_closed_while_they_wait, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(large_answers_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_may_leave_before_their_turn, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(none_waits_once_it_is_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(nor_once_the_net_is_closed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
