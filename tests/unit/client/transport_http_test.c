/* SPDX-License-Identifier: MIT
 *
 * Against a server that says what the test wrote down for it, most of it wrong. That our
 * own server is understood is told in wire_real_test.c. */
#include <signal.h>
#include <stdio.h>

#include "peer.h"
#include "transports.h"

enum { MESSAGE = 4000, MAX_ANSWERS = 8 };

/* What the server does, request by request; the last one again and again. */
enum { CLOSE, STAY, HANG };
struct answer {
    const char *text; /* head and body as they are */
    size_t len;       /* 0: all of it */
    int then;
};

static struct {
    struct answer answers[MAX_ANSWERS];
    size_t count, next;
} script;

struct fixture {
    struct transports w;
    peer_t *peer;
    char url[64]; /* lives as long as the transport */
};

#define HEAD(status, type) "HTTP/1.1 " status "\r\nContent-Type: " type "\r\n"
#define LENGTH(n) "Connection: close\r\nContent-Length: " #n "\r\n\r\n"
#define EVENTS HEAD("200 OK", "text/event-stream") "\r\n"
#define JSON HEAD("200 OK", "application/json")
#define RESULT "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"
#define NOTICE "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}"
#define ERROR                                                                            \
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32022,\"message\":\"m\"}}"
#define EVENT(data) "data: " data "\n\n"

static bool on_request(peer_visit_t *visit, const char *path, const char *head,
                       const char *body) {
    struct answer answer =
        script.answers[script.next < script.count ? script.next : script.count - 1];

    (void)path;
    (void)head;
    (void)body;
    script.next++;
    peer_send_bytes(visit, answer.text,
                    answer.len > 0 ? answer.len : strlen(answer.text));
    if (answer.then == HANG)
        peer_wait(visit);
    return answer.then == STAY;
}

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    transports_init(&f->w);
    f->peer = peer_start(on_request, false);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    transports_done(&f->w);
    peer_stop(f->peer);
    return state_destroy(state);
}

static int create(struct fixture *f) {
    tdg__transport_opts_t opts = {.url = f->url,
                                  .web.connect_timeout_ms = TRANSPORTS_PATIENCE_MS,
                                  .max_message_bytes = MESSAGE};

    snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%d/mcp", peer_port(f->peer));
    return tdg__transport_create(TDG__TRANSPORT_HTTP, &f->w.loop, &opts,
                                 &transports_calls, &f->w, &f->w.transport);
}

static void say(struct answer answer) {
    script.answers[0] = answer;
    script.count = 1;
    script.next = 0;
}

static void then_say(struct answer answer) {
    script.answers[script.count++] = answer;
}

static void open_transport(struct fixture *f) {
    assert_int_equal(create(f), 0);
    f->w.opened = 0;
    transports_open(&f->w);
}

/* One request, answered like this, and how that ends. */
static void expect(struct fixture *f, const char *answer, tdg__delivery_end_t end,
                   struct note *note) {
    say((struct answer){.text = answer});
    if (f->w.transport == NULL)
        open_transport(f);
    transports_ask(&f->w, note, 1, "x", NULL);
    transports_expect(note, end, NULL);
}

static bool request(struct fixture *f, size_t n, const char *part) {
    char *text = peer_request(f->peer, "/mcp", n);
    bool found = strcasestr(text, part) != NULL;

    free(text);
    return found;
}

/* ---- Good answers ------------------------------------------------------- */

static void json_is_understood(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    expect(f, JSON LENGTH(37) RESULT " ", TDG__DELIVERY_DONE, &note);
    assert_int_equal(note.messages, 1);
    assert_int_equal(note.opened, 1);
    assert_int_equal(note.open_status, 200);
    expect(f, JSON "\r\n[" NOTICE "," RESULT "]", TDG__DELIVERY_DONE, &note);
    assert_int_equal(note.messages, 2);
    assert_true(request(f, 0, "POST /mcp "));
    assert_true(request(f, 0, "\r\nAccept: application/json, text/event-stream\r\n"));
    assert_true(request(f, 0, "\r\nContent-Type: application/json\r\n"));
    assert_true(request(f, 0, "\r\nMCP-Protocol-Version: 2025-11-25\r\n"));
    assert_false(request(f, 0, "Mcp-Method"));
    assert_false(request(f, 0, "Mcp-Session-Id"));
}

static void events_are_understood(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    expect(f,
           EVENTS ": hello\n\n" EVENT(NOTICE) "event: other\n" EVENT("x") EVENT("")
               EVENT(RESULT) EVENT(NOTICE),
           TDG__DELIVERY_DONE, &note);
    assert_int_equal(note.messages, 2);
    assert_true(note.alive > 0);
    assert_int_equal(f->w.warned, 0);
}

static void a_response_ends_a_stream_that_stays_open(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    say((struct answer){.text = EVENTS EVENT(RESULT), .then = HANG});
    open_transport(f);
    transports_ask(&f->w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_DONE, "'result'");
    RUN_UNTIL(&f->w, peer_alone(f->peer)); /* its connection was closed */
}

static void a_notification_is_taken_with_any_2xx(void **state) {
    static const char *const answers[] = {
        "HTTP/1.1 202 Accepted\r\n" LENGTH(0),
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        JSON LENGTH(2) "{}",
        EVENTS EVENT("nonsense"),
    };
    struct fixture *f = *state;
    tdg__outgoing_t out = transports_parcel(NULL, "notifications/x", "{}");
    struct note note = {0};

    open_transport(f);
    for (size_t i = 0; i < COUNT(answers); i++) {
        say((struct answer){.text = answers[i]});
        transports_send(&f->w, &note, &out);
        transports_expect(&note, TDG__DELIVERY_DONE, NULL);
        assert_int_equal(note.messages, 0);
    }
    expect(f, "HTTP/1.1 400 Bad Request\r\n" LENGTH(0), TDG__DELIVERY_STATUS, &note);
}

static void a_modern_request_is_mirrored_in_headers(void **state) {
    struct fixture *f = *state;
    tdg__web_field_t params[] = {{"Mcp-Param-Region", "eu"}};
    tdg__outgoing_t out = transports_parcel("1", "tools/call", "{}");
    struct note note = {0};

    out.version = TDG__V_MODERN;
    out.name = "caf\xc3\xa9";
    out.params = params;
    out.param_count = 1;
    say((struct answer){.text = JSON LENGTH(36) RESULT});
    open_transport(f);
    transports_send(&f->w, &note, &out);
    transports_expect(&note, TDG__DELIVERY_DONE, NULL);
    assert_true(request(f, 0, "\r\nMCP-Protocol-Version: 2026-07-28\r\n"));
    assert_true(request(f, 0, "\r\nMcp-Method: tools/call\r\n"));
    assert_true(request(f, 0, "\r\nMcp-Name: =?base64?Y2Fmw6k=?=\r\n"));
    assert_true(request(f, 0, "\r\nMcp-Param-Region: eu\r\n"));
}

/* ---- Sessions ----------------------------------------------------------- */

#define SESSION JSON "Mcp-Session-Id: s-1\r\n" LENGTH(36) RESULT

static void initialize(struct fixture *f, const char *answer) {
    tdg__outgoing_t out = transports_parcel("1", "initialize", "{}");
    struct note note = {0};

    out.version = TDG__V_UNKNOWN;
    say((struct answer){.text = answer});
    if (f->w.transport == NULL)
        open_transport(f);
    transports_send(&f->w, &note, &out);
    transports_expect(&note, TDG__DELIVERY_DONE, NULL);
}

static void a_session_goes_with_everything_but_initialize(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    initialize(f, SESSION);
    assert_false(request(f, 0, "MCP-Protocol-Version"));
    expect(f, JSON LENGTH(36) RESULT, TDG__DELIVERY_DONE, &note);
    assert_true(request(f, 1, "\r\nMcp-Session-Id: s-1\r\n"));
    initialize(f, JSON "Mcp-Session-Id: s-2\r\n" LENGTH(36) RESULT);
    assert_false(request(f, 2, "Mcp-Session-Id"));
    expect(f, JSON LENGTH(36) RESULT, TDG__DELIVERY_DONE, &note);
    assert_true(request(f, 3, "\r\nMcp-Session-Id: s-2\r\n"));
}

static void a_failed_initialize_makes_no_session(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    initialize(f, JSON "Mcp-Session-Id: s-1\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,"
                       "\"error\":{\"code\":1,\"message\":\"m\"}}");
    expect(f, JSON LENGTH(36) RESULT, TDG__DELIVERY_DONE, &note);
    assert_false(request(f, 1, "Mcp-Session-Id"));
}

static void a_404_ends_a_session_but_only_one_that_is(void **state) {
    static const char not_found[] = HEAD("404 Not Found", "text/plain") LENGTH(4) "gone";
    struct fixture *f = *state;
    struct note note = {0};

    expect(f, not_found, TDG__DELIVERY_STATUS, &note);
    assert_int_equal(note.status, 404);
    initialize(f, SESSION);
    expect(f, not_found, TDG__DELIVERY_NO_SESSION, &note);
    transports_listen(&f->w, &note, NULL, TDG__V_LATEST_LEGACY);
    transports_expect(&note, TDG__DELIVERY_NO_SESSION, NULL);
}

static void a_session_is_ended_by_delete(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    initialize(f, SESSION);
    expect(f, JSON LENGTH(36) RESULT, TDG__DELIVERY_DONE, &note);
    say((struct answer){.text = "HTTP/1.1 200 OK\r\n" LENGTH(0)});
    f->w.transport->ops->end_session(f->w.transport, true, transports_session_ended);
    RUN_UNTIL(&f->w, f->w.sessions_ended == 1);
    assert_true(request(f, 2, "DELETE /mcp "));
    assert_true(request(f, 2, "\r\nMcp-Session-Id: s-1\r\n"));
    assert_true(request(f, 2, "\r\nMCP-Protocol-Version: 2025-11-25\r\n"));

    f->w.transport->ops->end_session(f->w.transport, true,
                                     transports_session_ended); /* none is left */
    RUN_UNTIL(&f->w, f->w.sessions_ended == 2);
    assert_int_equal(peer_count(f->peer, NULL), 3);

    initialize(f, SESSION);
    say((struct answer){.text = "", .then = HANG}); /* is not waited for */
    f->w.transport->ops->end_session(f->w.transport, true, transports_session_ended);
    RUN_UNTIL(&f->w, f->w.sessions_ended == 3);
}

/* ---- Bad answers -------------------------------------------------------- */

static void what_is_no_mcp_is_nonsense(void **state) {
    static const char *const answers[] = {
        HEAD("200 OK", "text/html") LENGTH(4) "<p/>",
        HEAD("200 OK", "text/plain") LENGTH(36) RESULT,
        "HTTP/1.1 200 OK\r\n" LENGTH(0),
        JSON LENGTH(0),
        JSON LENGTH(2) "{}",
        JSON LENGTH(1) "{",
        JSON "\r\n" NOTICE, /* and no response */
        JSON "\r\n{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}",
        JSON "\r\n{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}",
        "HTTP/1.1 202 Accepted\r\n" LENGTH(0),
        HEAD("202 Accepted", "application/json") LENGTH(36) RESULT,
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
        EVENTS EVENT("x") EVENT("{}") EVENT("[]"),
    };
    struct fixture *f = *state;
    struct note note = {0};

    for (size_t i = 0; i < COUNT(answers); i++) {
        expect(f, answers[i], TDG__DELIVERY_NONSENSE, &note);
        assert_true(note.sent);
    }
}

/* The server may still be sending when the client has seen enough and all is over. */
static void an_answer_that_is_too_large_is_nonsense(void **state) {
    static char json[3 * MESSAGE], events[3 * MESSAGE];
    struct fixture *f = *state;
    struct note note = {0};

    memset(json, ' ', sizeof(json) - 1);
    memcpy(json, JSON "\r\n", strlen(JSON "\r\n"));
    expect(f, json, TDG__DELIVERY_NONSENSE, &note);
    memset(events, 'x', sizeof(events) - 1);
    memcpy(events, EVENTS "data: ", strlen(EVENTS "data: "));
    expect(f, events, TDG__DELIVERY_NONSENSE, &note);
}

static void nonsense_between_messages_is_survived(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    expect(f,
           EVENTS EVENT("what?") EVENT("{}") EVENT(NOTICE)
               EVENT("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}") EVENT(RESULT),
           TDG__DELIVERY_DONE, &note);
    assert_int_equal(note.messages, 2);
    assert_int_equal(f->w.warned, 3);
}

static void the_first_of_two_responses_counts(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    expect(f, EVENTS EVENT(RESULT) EVENT(RESULT), TDG__DELIVERY_DONE, &note);
    assert_int_equal(note.messages, 1);
    expect(f, JSON "\r\n[" RESULT "," RESULT "]", TDG__DELIVERY_DONE, &note);
    assert_int_equal(note.messages, 1);
}

static void an_error_without_an_id_is_the_response(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    expect(f, JSON "\r\n" ERROR, TDG__DELIVERY_DONE, &note);
    assert_int_equal(note.messages, 1);
}

static void a_status_is_told_with_its_error(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    expect(f, HEAD("400 Bad Request", "application/json") "\r\n" ERROR,
           TDG__DELIVERY_STATUS, &note);
    assert_int_equal(note.status, 400);
    assert_true(transports_has(note.body, "-32022"));
    assert_int_equal(note.retry_after_ms, -1);
    assert_int_equal(note.opened, 0);

    expect(f, HEAD("503 Busy", "text/html") "Retry-After: 7\r\n\r\n<p>",
           TDG__DELIVERY_STATUS, &note);
    assert_string_equal(note.body, "");
    assert_int_equal(note.retry_after_ms, 7000);

    expect(f, HEAD("401 No", "text/plain") "WWW-Authenticate: Bearer x=\"y\"\r\n\r\n",
           TDG__DELIVERY_STATUS, &note);
    assert_int_equal(note.status, 401);

    expect(f, HEAD("400 Bad Request", "application/json") "\r\n" NOTICE,
           TDG__DELIVERY_STATUS, &note);
    assert_string_equal(note.body, "");
}

static void the_body_of_an_error_is_bounded(void **state) {
    static char text[200 * 1024];
    struct fixture *f = *state;
    struct note note = {0};

    memset(text, ' ', sizeof(text) - 1);
    memcpy(text, HEAD("500 Bad", "application/json") "\r\n",
           strlen(HEAD("500 Bad", "application/json") "\r\n"));
    expect(f, text, TDG__DELIVERY_STATUS, &note);
    assert_string_equal(note.body, "");

    /* One that is cut off is still a status. */
    expect(f, HEAD("500 Bad", "application/json") LENGTH(100) "{", TDG__DELIVERY_STATUS,
           &note);
}

static void a_notification_is_bounded(void **state) {
    static const char *const beginnings[] = {"", "HTTP/1.1 200", JSON LENGTH(36) "{",
                                             EVENTS EVENT(NOTICE)};
    struct fixture *f = *state;
    tdg__outgoing_t out = transports_parcel(NULL, "notifications/x", "{}");
    struct note note = {0};

    open_transport(f);
    out.timeout_ms = 50;
    for (size_t i = 0; i < COUNT(beginnings); i++) {
        say((struct answer){.text = beginnings[i], .then = HANG});
        transports_send(&f->w, &note, &out);
        transports_expect(&note, TDG__DELIVERY_TIMEOUT, NULL);
    }
}

static void nobody_there_is_away(void **state) {
    struct fixture *f = *state;
    struct note note = {0};
    tdg__transport_opts_t opts = {.url = "http://127.0.0.1:1/",
                                  .web.connect_timeout_ms = TRANSPORTS_PATIENCE_MS,
                                  .max_message_bytes = MESSAGE};

    assert_int_equal(tdg__transport_create(TDG__TRANSPORT_HTTP, &f->w.loop, &opts,
                                           &transports_calls, &f->w, &f->w.transport),
                     0);
    transports_open(&f->w);
    transports_ask(&f->w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_AWAY, NULL);
    assert_false(note.sent);
}

/* ---- Streams that break ------------------------------------------------- */

/* Cut at every byte, of the head, too; never is there half a message, nor another end. */
static void a_stream_may_be_cut_anywhere(void **state) {
    static const char text[] = EVENTS ": hi\n\nid:\ndata: {\"jsonrpc\":\"2.0\",\ndata: "
                                      "\"method\":\"n\"}\r\n\r\n" EVENT(RESULT);
    struct fixture *f = *state;
    struct note note = {0};

    open_transport(f);
    for (size_t len = 1; len < sizeof(text); len++) {
        bool whole = len == sizeof(text) - 1;

        say((struct answer){.text = text, .len = len});
        transports_ask(&f->w, &note, 1, "x", NULL);
        transports_expect(&note, whole ? TDG__DELIVERY_DONE : TDG__DELIVERY_BROKEN, NULL);
        assert_true(note.sent);
        assert_in_range(note.messages, whole ? 2 : 0, whole ? 2 : 1);
    }
    assert_int_equal(f->w.warned, 0);
}

static void a_legacy_stream_goes_on_after_its_retry(void **state) {
    struct fixture *f = *state;
    struct note note = {0};
    uint64_t began, took;

    initialize(f, SESSION);
    say((struct answer){.text = EVENTS "retry: 300\nid: e-1\ndata:\n\n" EVENT(NOTICE)});
    then_say(
        (struct answer){.text = EVENTS "id: e-2\n" EVENT(NOTICE) "id: e-3\ndata: x"});
    then_say((struct answer){.text = EVENTS EVENT(RESULT)});
    began = uv_hrtime();
    transports_ask(&f->w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_DONE, "'result'");
    took = (uv_hrtime() - began) / 1000000;
    assert_true(took >= 600);
    assert_int_equal(note.messages, 3);
    assert_int_equal(note.opened, 1);
    assert_int_equal(note.retry_ms, 300);
    assert_true(request(f, 2, "GET /mcp "));
    assert_true(request(f, 2, "\r\nLast-Event-ID: e-1\r\n"));
    assert_true(request(f, 2, "\r\nAccept: text/event-stream\r\n"));
    assert_true(request(f, 2, "\r\nMcp-Session-Id: s-1\r\n"));
    assert_true(request(f, 3, "\r\nLast-Event-ID: e-2\r\n")); /* e-3 was cut */
}

/* The id of the session comes with the first head, and the response with a later one. */
static void a_stream_of_initialize_goes_on_in_its_session(void **state) {
    struct fixture *f = *state;
    tdg__outgoing_t out = transports_parcel("1", "initialize", "{}");
    struct note note = {0};

    out.version = TDG__V_UNKNOWN;
    say((struct answer){
        .text =
            HEAD("200 OK", "text/event-stream") "Mcp-Session-Id: s-1"
                                                "\r\n\r\nretry: 1\nid: e-1\ndata:\n\n"});
    then_say((struct answer){.text = EVENTS "id: e-2\n" EVENT(NOTICE)});
    then_say((struct answer){.text = EVENTS EVENT(RESULT)});
    open_transport(f);
    transports_send(&f->w, &note, &out);
    transports_expect(&note, TDG__DELIVERY_DONE, "'result'");
    assert_false(request(f, 0, "Mcp-Session-Id"));
    assert_true(request(f, 1, "GET /mcp "));
    assert_true(request(f, 1, "\r\nMcp-Session-Id: s-1\r\n"));
    assert_true(request(f, 2, "\r\nMcp-Session-Id: s-1\r\n"));
    expect(f, JSON LENGTH(36) RESULT, TDG__DELIVERY_DONE, &note);
    assert_true(request(f, 3, "\r\nMcp-Session-Id: s-1\r\n"));
}

static void it_goes_on_ten_times_and_no_more(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    expect(f, EVENTS "retry: 1\nid: e\n" EVENT(NOTICE), TDG__DELIVERY_BROKEN, &note);
    assert_int_equal(note.messages, 11);
    assert_int_equal(peer_count(f->peer, NULL), 11);
}

static void it_does_not_go_on_where_that_is_refused(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    open_transport(f);
    say((struct answer){.text = EVENTS "retry: 1\nid: e\n" EVENT(NOTICE)});
    then_say((struct answer){.text = HEAD("405 No", "text/plain") "\r\n"});
    transports_ask(&f->w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_BROKEN, NULL);
    assert_int_equal(peer_count(f->peer, NULL), 2);
}

static void a_modern_stream_never_goes_on(void **state) {
    struct fixture *f = *state;
    tdg__outgoing_t out = transports_parcel("1", "x", "{}");
    struct note note = {0};

    out.version = TDG__V_MODERN;
    say((struct answer){.text = EVENTS "retry: 1\nid: e\n" EVENT(NOTICE)});
    open_transport(f);
    transports_send(&f->w, &note, &out);
    transports_expect(&note, TDG__DELIVERY_BROKEN, NULL);
    assert_int_equal(peer_count(f->peer, NULL), 1);
}

/* ---- Long streams ------------------------------------------------------- */

static void a_get_stream_tells_messages_and_ids(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    say((struct answer){.text = EVENTS "retry: 5\n: x\n\nid: 7\n" EVENT(
                            NOTICE) "id: 8\n\n" EVENT(RESULT)});
    open_transport(f);
    transports_listen(&f->w, &note, "6", TDG__V_LATEST_LEGACY);
    transports_expect(&note, TDG__DELIVERY_DONE, NULL);
    assert_int_equal(note.messages, 2); /* what belongs to nobody is told, too */
    assert_string_equal(f->w.last_id, "8");
    assert_int_equal(note.retry_ms, 5);
    assert_true(request(f, 0, "\r\nLast-Event-ID: 6\r\n"));
    transports_run_ms(&f->w, 50);
    assert_int_equal(peer_count(f->peer, NULL), 1); /* coming back is for others */

    say((struct answer){.text = HEAD("405 No", "text/plain") "\r\n"});
    transports_listen(&f->w, &note, NULL, TDG__V_LATEST_LEGACY);
    transports_expect(&note, TDG__DELIVERY_STATUS, NULL);
    assert_int_equal(note.status, 405);

    say((struct answer){.text = JSON LENGTH(36) RESULT});
    transports_listen(&f->w, &note, NULL, TDG__V_LATEST_LEGACY);
    transports_expect(&note, TDG__DELIVERY_NONSENSE, NULL);

    say((struct answer){.text = HEAD("200 OK", "text/event-stream") LENGTH(99) ":\n"});
    transports_listen(&f->w, &note, NULL, TDG__V_LATEST_LEGACY);
    transports_expect(&note, TDG__DELIVERY_BROKEN, NULL);
}

static void a_long_stream_may_be_silent(void **state) {
    struct fixture *f = *state;
    tdg__outgoing_t out = transports_parcel("1", "subscriptions/listen", "{}");
    struct note note = {0};

    out.version = TDG__V_MODERN;
    out.stream = true;
    out.timeout_ms = 0;
    say((struct answer){.text = EVENTS EVENT(NOTICE), .then = HANG});
    open_transport(f);
    transports_send(&f->w, &note, &out);
    RUN_UNTIL(&f->w, note.messages == 1);
    transports_run_ms(&f->w, 100);
    assert_int_equal(note.ended, 0);
    transports_cancel(&note);

    say((struct answer){.text = EVENTS EVENT(NOTICE) EVENT(RESULT), .then = HANG});
    transports_send(&f->w, &note, &out);
    transports_expect(&note, TDG__DELIVERY_DONE, "'result'");
    say((struct answer){.text = EVENTS EVENT(NOTICE)});
    transports_send(&f->w, &note, &out);
    transports_expect(&note, TDG__DELIVERY_DONE, "'n'");
}

/* ---- Cancelling and closing --------------------------------------------- */

#define ALL_OF_IT EVENTS "retry: 9\nid: 3\n" EVENT(NOTICE) EVENT(NOTICE) EVENT(RESULT)

static void may_be_cancelled_from_each_call(void **state) {
    static const enum moment moments[] = {IN_OPENED, IN_ALIVE, IN_RETRY, IN_MESSAGE};
    struct fixture *f = *state;

    open_transport(f);
    for (size_t i = 0; i < COUNT(moments); i++) {
        struct note note = {.cancel_at = moments[i]}, other = {0};

        say((struct answer){.text = ALL_OF_IT});
        transports_ask(&f->w, &note, 1, "x", NULL);
        RUN_UNTIL(&f->w, note.delivery == NULL);
        expect(f, ALL_OF_IT, TDG__DELIVERY_DONE, &other);
        assert_int_equal(note.ended, 0);
        assert_in_range(note.messages, 0, 1);
    }
}

static void may_be_cancelled_before_and_while_waiting(void **state) {
    struct fixture *f = *state;
    struct note note = {0}, other = {0};

    say((struct answer){.text = EVENTS "retry: 100\nid: 3\n" EVENT(NOTICE)});
    open_transport(f);
    transports_ask(&f->w, &note, 1, "x", NULL);
    transports_cancel(&note);
    transports_ask(&f->w, &other, 1, "x", NULL);
    RUN_UNTIL(&f->w, other.messages == 1);
    transports_run_ms(&f->w, 20); /* it waits to go on now */
    transports_cancel(&other);
    transports_run_ms(&f->w, 200);
    assert_int_equal(note.opened + note.ended + other.ended, 0);
}

static void may_be_closed_from_each_call(void **state) {
    static const enum moment moments[] = {IN_OPENED, IN_ALIVE, IN_RETRY, IN_MESSAGE,
                                          IN_ENDED};
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(moments); i++) {
        struct note notes[3] = {{0}};

        say((struct answer){.text = ALL_OF_IT});
        open_transport(f);
        f->w.close_at = moments[i];
        for (int n = 0; n < 3; n++)
            transports_ask(&f->w, &notes[n], 1, "x", NULL);
        RUN_UNTIL(&f->w, f->w.transport == NULL);
        f->w.close_at = NEVER;
    }
}

static void may_be_closed_while_things_run(void **state) {
    struct fixture *f = *state;
    struct note notes[3] = {{0}};

    initialize(f, SESSION);
    say((struct answer){.text = EVENTS EVENT(NOTICE), .then = HANG});
    for (int n = 0; n < 3; n++)
        transports_ask(&f->w, &notes[n], 1, "x", NULL);
    RUN_UNTIL(&f->w, notes[0].messages + notes[1].messages + notes[2].messages > 0);
    f->w.transport->ops->end_session(f->w.transport, true, transports_session_ended);
    transports_close(&f->w);
    assert_int_equal(f->w.sessions_ended, 0);
    assert_int_equal(notes[0].ended + notes[1].ended + notes[2].ended, 0);
}

/* ---- Memory ------------------------------------------------------------- */

static void memory_may_run_out(void **state) {
    static const char *const answers[] = {
        EVENTS "retry: 1\nid: 3\n" EVENT(NOTICE) EVENT(RESULT),
        JSON "\r\n[" NOTICE "," RESULT "]",
        HEAD("400 Bad Request", "application/json") "\r\n" ERROR,
    };
    struct fixture *f = *state;
    struct note note = {0};
    size_t n;

    for (size_t i = 0; i < COUNT(answers); i++) {
        for (n = 1; n < 300; n++) {
            int rv;

            say((struct answer){.text = answers[i]});
            memory_fail(n, MEMORY_ONCE);
            rv = create(f);
            if (rv == 0) {
                transports_ask(&f->w, &note, 1, "x", NULL);
                RUN_UNTIL(&f->w, note.ended == 1);
                transports_close(&f->w);
            } else {
                assert_int_equal(rv, TDG_ENOMEM);
                uv_run(&f->w.loop, UV_RUN_NOWAIT);
            }
            if (!memory_failed())
                break;
        }
        memory_fail(0, MEMORY_ONCE);
        assert_in_range(n, 10, 299);
        assert_int_equal(note.end, i < 2 ? TDG__DELIVERY_DONE : TDG__DELIVERY_STATUS);
    }
}

/* Whoever resumes after the last id would never get a message that was lost before it. */
static void nothing_behind_a_lost_message_is_read(void **state) {
#define NUMBERED(n) "id: " n "\n" EVENT("{\"jsonrpc\":\"2.0\",\"method\":\"" n "\"}")
    struct fixture *f = *state;
    struct note note = {0};
    size_t n;

    open_transport(f);
    for (n = 1; n < 300; n++) {
        say((struct answer){.text = EVENTS NUMBERED("1") NUMBERED("2") NUMBERED("3")});
        f->w.ids = 0;
        f->w.last_id[0] = '\0';
        transports_listen(&f->w, &note, NULL, TDG__V_LATEST_LEGACY);
        memory_fail(n, MEMORY_ONCE);
        RUN_UNTIL(&f->w, note.ended == 1);
        if (!memory_failed())
            break;
        memory_fail(0, MEMORY_ONCE);
        assert_true(f->w.ids <= note.messages);
        assert_int_equal(atoi(f->w.last_id), f->w.ids);
    }
    memory_fail(0, MEMORY_ONCE);
    assert_in_range(n, 10, 299);
    assert_int_equal(note.messages, 3);
#undef NUMBERED
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(json_is_understood),
        TEST(events_are_understood),
        TEST(a_response_ends_a_stream_that_stays_open),
        TEST(a_notification_is_taken_with_any_2xx),
        TEST(a_modern_request_is_mirrored_in_headers),
        TEST(a_session_goes_with_everything_but_initialize),
        TEST(a_failed_initialize_makes_no_session),
        TEST(a_404_ends_a_session_but_only_one_that_is),
        TEST(a_session_is_ended_by_delete),
        TEST(what_is_no_mcp_is_nonsense),
        TEST(an_answer_that_is_too_large_is_nonsense),
        TEST(nonsense_between_messages_is_survived),
        TEST(the_first_of_two_responses_counts),
        TEST(an_error_without_an_id_is_the_response),
        TEST(a_status_is_told_with_its_error),
        TEST(the_body_of_an_error_is_bounded),
        TEST(a_notification_is_bounded),
        TEST(nobody_there_is_away),
        TEST(a_stream_may_be_cut_anywhere),
        TEST(a_legacy_stream_goes_on_after_its_retry),
        TEST(a_stream_of_initialize_goes_on_in_its_session),
        TEST(it_goes_on_ten_times_and_no_more),
        TEST(it_does_not_go_on_where_that_is_refused),
        TEST(a_modern_stream_never_goes_on),
        TEST(a_get_stream_tells_messages_and_ids),
        TEST(a_long_stream_may_be_silent),
        TEST(may_be_cancelled_from_each_call),
        TEST(may_be_cancelled_before_and_while_waiting),
        TEST(may_be_closed_from_each_call),
        TEST(may_be_closed_while_things_run),
        TEST(memory_may_run_out),
        TEST(nothing_behind_a_lost_message_is_read),
#undef TEST
    };

    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("wire_http", tests, NULL, NULL);
}
