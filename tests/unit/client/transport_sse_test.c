/* SPDX-License-Identifier: MIT
 *
 * The pair of 2024-11-05 against a server that says what the test wrote down: the answer
 * to GET in pieces, each after the next POST was answered. */
#include <signal.h>
#include <stdio.h>

#include "peer.h"
#include "transports.h"

enum { MESSAGE = 4000, MAX_PIECES = 4 };

#define EVENTS "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
#define ENDPOINT "event: endpoint\ndata: /post?s=1\n\n"
#define ACCEPTED "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
#define RESULT "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"
#define NOTICE "data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n"

static struct {
    const char *pieces[MAX_PIECES]; /* NULL: the end */
    size_t first_len;               /* of the first one; 0: all of it */
    bool ends;                      /* the stream, after the last piece */
    const char *posted;             /* the answer to POST */
    peer_t *peer;
} script;

struct fixture {
    struct transports w;
    peer_t *peer;
    char url[64]; /* lives as long as the transport */
};

static bool on_request(peer_visit_t *visit, const char *path, const char *head,
                       const char *body) {
    (void)path;
    (void)body;
    if (strncmp(head, "POST", 4) == 0) {
        bool ok = peer_send(visit, script.posted);

        peer_let(script.peer, 1);
        return ok;
    }
    for (size_t i = 0; i < MAX_PIECES && script.pieces[i] != NULL; i++) {
        const char *piece = script.pieces[i];

        if (i > 0 && !peer_wait(visit))
            return false;
        if (!peer_send_bytes(visit, piece,
                             i == 0 && script.first_len > 0 ? script.first_len
                                                            : strlen(piece)))
            return false;
    }
    if (!script.ends)
        while (peer_wait(visit))
            ;
    return false;
}

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    transports_init(&f->w);
    f->peer = peer_start(on_request, false);
    memset(&script, 0, sizeof(script));
    script.peer = f->peer;
    script.posted = ACCEPTED;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    transports_done(&f->w);
    peer_stop(f->peer);
    return state_destroy(state);
}

/* For a round of its own: what is left of the one before, on a connection that is noticed
 * late, neither answers nor lets anything go on. */
static void next_round(struct fixture *f) {
    peer_stop(f->peer);
    f->peer = peer_start(on_request, false);
    script.peer = f->peer;
}

static int create(struct fixture *f) {
    tdg__transport_opts_t opts = {.url = f->url,
                                  .web.connect_timeout_ms = TRANSPORTS_PATIENCE_MS,
                                  .max_message_bytes = MESSAGE};

    snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%d/sse", peer_port(f->peer));
    f->w.opened = 0;
    return tdg__transport_create(TDG__TRANSPORT_SSE, &f->w.loop, &opts, &transports_calls,
                                 &f->w, &f->w.transport);
}

static void open_transport(struct fixture *f, const char *first, const char *second) {
    script.pieces[0] = first;
    script.pieces[1] = second;
    assert_int_equal(create(f), 0);
    transports_open(&f->w);
}

/* Opens in vain; with this code. */
static void fail_to_open(struct fixture *f, const char *first, bool ends, int code) {
    script.pieces[0] = first;
    script.ends = ends;
    assert_int_equal(create(f), 0);
    assert_int_equal(f->w.transport->ops->open(f->w.transport, transports_opened), 0);
    RUN_UNTIL(&f->w, f->w.opened == 1);
    assert_int_equal(f->w.open_code, code);
    assert_string_not_equal(f->w.why, "");
    transports_close(&f->w);
    assert_int_equal(f->w.lost, 0);
}

/* ---- Good ones ---------------------------------------------------------- */

static void a_response_comes_on_the_stream(void **state) {
    struct fixture *f = *state;
    struct note note = {0};
    char *text;

    open_transport(f, EVENTS "retry: 7\n\n" ENDPOINT, NOTICE RESULT);
    assert_int_equal(f->w.retry_ms, 7);
    transports_ask(&f->w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_DONE, "'result'");
    assert_int_equal(note.messages, 1);
    assert_int_equal(f->w.messages, 1);
    assert_true(f->w.alive > 0);
    text = peer_request(f->peer, "/post?s=1", 0);
    assert_non_null(strstr(text, "\"method\":\"x\""));
    free(text);
}

static void a_notification_is_done_with_its_post(void **state) {
    struct fixture *f = *state;
    tdg__outgoing_t out = transports_parcel(NULL, "notifications/x", "{}");
    struct note note = {0};

    open_transport(f, EVENTS ENDPOINT, NULL);
    transports_send(&f->w, &note, &out);
    transports_expect(&note, TDG__DELIVERY_DONE, NULL);
    assert_int_equal(note.open_status, 202);
}

static void an_endpoint_may_be_a_whole_url(void **state) {
    struct fixture *f = *state;
    struct note note = {0};
    char first[200];

    snprintf(first, sizeof(first),
             EVENTS "event: endpoint\ndata: http://127.0.0.1:%d/p\n\n",
             peer_port(f->peer));
    open_transport(f, first, RESULT);
    transports_ask(&f->w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_DONE, NULL);
    assert_int_equal(peer_count(f->peer, "/p"), 1);
}

/* ---- Bad ones ----------------------------------------------------------- */

static void an_endpoint_elsewhere_is_refused(void **state) {
    struct fixture *f = *state;

    fail_to_open(f, EVENTS "event: endpoint\ndata: http://127.0.0.2:80/p\n\n", false,
                 TDG_EREFUSED);
    fail_to_open(f, EVENTS "event: endpoint\ndata: //127.0.0.2/p\n\n", false,
                 TDG_EREFUSED);
    fail_to_open(f, EVENTS "event: endpoint\ndata: file:///etc/passwd\n\n", false,
                 TDG_EINVAL);
}

static void what_is_no_stream_does_not_open(void **state) {
    struct fixture *f = *state;

    fail_to_open(f, "HTTP/1.1 405 No\r\n\r\n", true, TDG_ENOTSUP);
    fail_to_open(f, "HTTP/1.1 401 No\r\n\r\n", true, TDG_EREFUSED);
    fail_to_open(f, "HTTP/1.1 503 No\r\n\r\n", true, TDG_EUNREACHABLE);
    fail_to_open(f, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>", true,
                 TDG_ENOTSUP);
    fail_to_open(f, EVENTS, true, TDG_EUNREACHABLE);
    fail_to_open(f, "", true, TDG_EUNREACHABLE);
}

static void a_stream_may_be_cut_anywhere(void **state) {
    static const char text[] = EVENTS ENDPOINT NOTICE;
    struct fixture *f = *state;
    size_t opened = strlen(EVENTS ENDPOINT);

    script.pieces[0] = text;
    script.ends = true;
    for (size_t len = 1; len < sizeof(text); len++) {
        size_t lost = f->w.lost, messages = f->w.messages;

        script.first_len = len;
        assert_int_equal(create(f), 0);
        assert_int_equal(f->w.transport->ops->open(f->w.transport, transports_opened), 0);
        RUN_UNTIL(&f->w, f->w.lost > lost || (f->w.opened == 1 && f->w.open_code != 0));
        assert_int_equal(f->w.lost - lost, len >= opened);
        assert_int_equal(f->w.messages - messages, len == sizeof(text) - 1);
        transports_close(&f->w);
    }
}

static void the_end_of_the_stream_breaks_all(void **state) {
    struct fixture *f = *state;
    struct note note = {0}, late = {0};

    script.ends = true;
    open_transport(f, EVENTS ENDPOINT, "data: cut");
    transports_ask(&f->w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_BROKEN, NULL);
    RUN_UNTIL(&f->w, f->w.lost == 1);
    transports_ask(&f->w, &late, 2, "x", NULL);
    transports_expect(&late, TDG__DELIVERY_BROKEN, NULL);
    assert_false(late.sent);
}

static void a_refused_post_is_a_status(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    script.posted = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
    open_transport(f, EVENTS ENDPOINT, NULL);
    transports_ask(&f->w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_STATUS, NULL);
    assert_int_equal(note.status, 404);
    assert_int_equal(f->w.lost, 0);
}

static void a_notification_is_bounded(void **state) {
    struct fixture *f = *state;
    tdg__outgoing_t out = transports_parcel(NULL, "notifications/x", "{}");
    struct note note = {0};

    open_transport(f, EVENTS ENDPOINT, NULL);
    script.posted = "";
    out.timeout_ms = 50;
    transports_send(&f->w, &note, &out);
    transports_expect(&note, TDG__DELIVERY_TIMEOUT, NULL);
    assert_int_equal(f->w.lost, 0);
}

static void nonsense_is_survived(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    open_transport(f, EVENTS "event: odd\ndata: x\n\n" ENDPOINT "data: what?\n\n",
                   "event: endpoint\ndata: /other\n\ndata: {}\n\n" RESULT);
    transports_ask(&f->w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_DONE, NULL);
    assert_int_equal(f->w.warned, 2);
}

/* ---- Cancelling and closing --------------------------------------------- */

static void may_be_cancelled_from_each_call(void **state) {
    static const enum moment moments[] = {NEVER, IN_OPENED, IN_MESSAGE};
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(moments); i++) {
        struct note note = {.cancel_at = moments[i]};

        next_round(f);
        open_transport(f, EVENTS ENDPOINT, RESULT NOTICE);
        transports_ask(&f->w, &note, 1, "x", NULL);
        if (i == 0)
            transports_cancel(&note);
        else
            RUN_UNTIL(&f->w, note.delivery == NULL || note.ended == 1);
        transports_run_ms(&f->w, 20);
        /* The response may be faster than the answer to the POST. */
        assert_true(note.ended == 0 || (moments[i] == IN_OPENED && note.opened == 0));
        transports_close(&f->w);
    }
}

static void may_be_closed_from_each_call(void **state) {
    static const enum moment moments[] = {IN_OPENED, IN_ALIVE, IN_MESSAGE, IN_ENDED,
                                          IN_LOST};
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(moments); i++) {
        struct note notes[2] = {{0}};

        next_round(f);
        script.ends = true;
        script.pieces[0] = EVENTS ENDPOINT;
        script.pieces[1] = NOTICE RESULT NOTICE;
        assert_int_equal(create(f), 0);
        f->w.close_at = moments[i];
        assert_int_equal(f->w.transport->ops->open(f->w.transport, transports_opened), 0);
        RUN_UNTIL(&f->w, f->w.opened == 1 || f->w.transport == NULL);
        for (int n = 0; n < 2 && f->w.transport != NULL && !f->w.closing; n++)
            transports_ask(&f->w, &notes[n], n + 1, "x", NULL);
        RUN_UNTIL(&f->w, f->w.transport == NULL);
        f->w.close_at = NEVER;
    }
}

static void a_session_ends_with_the_stream(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    open_transport(f, EVENTS ENDPOINT, NULL);
    transports_ask(&f->w, &note, 1, "x", NULL);
    f->w.transport->ops->end_session(f->w.transport, true, transports_session_ended);
    RUN_UNTIL(&f->w, f->w.sessions_ended == 1);
    transports_expect(&note, TDG__DELIVERY_BROKEN, NULL);
    assert_int_equal(f->w.lost, 0);
}

/* ---- Memory ------------------------------------------------------------- */

static void memory_may_run_out(void **state) {
    struct fixture *f = *state;
    struct note note = {0};
    size_t n;

    script.pieces[0] = EVENTS ENDPOINT;
    script.pieces[1] = NOTICE RESULT;
    for (n = 1; n < 300; n++) {
        int rv;

        next_round(f);
        memory_fail(n, MEMORY_ONCE);
        rv = create(f);
        if (rv == 0)
            rv = f->w.transport->ops->open(f->w.transport, transports_opened);
        if (rv == 0) {
            RUN_UNTIL(&f->w, f->w.opened == 1);
            transports_ask(&f->w, &note, 1, "x", NULL);
            RUN_UNTIL(&f->w, note.ended == 1);
        }
        if (f->w.transport != NULL)
            transports_close(&f->w);
        uv_run(&f->w.loop, UV_RUN_NOWAIT);
        if (!memory_failed())
            break;
    }
    memory_fail(0, MEMORY_ONCE);
    assert_in_range(n, 10, 299);
    assert_int_equal(note.end, TDG__DELIVERY_DONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(a_response_comes_on_the_stream),
        TEST(a_notification_is_done_with_its_post),
        TEST(an_endpoint_may_be_a_whole_url),
        TEST(an_endpoint_elsewhere_is_refused),
        TEST(what_is_no_stream_does_not_open),
        TEST(a_stream_may_be_cut_anywhere),
        TEST(the_end_of_the_stream_breaks_all),
        TEST(a_refused_post_is_a_status),
        TEST(a_notification_is_bounded),
        TEST(nonsense_is_survived),
        TEST(may_be_cancelled_from_each_call),
        TEST(may_be_closed_from_each_call),
        TEST(a_session_ends_with_the_stream),
        TEST(memory_may_run_out),
#undef TEST
    };

    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("wire_sse", tests, NULL, NULL);
}
