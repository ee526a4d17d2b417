/* SPDX-License-Identifier: MIT
 *
 * The HTTP transports against our own server, which runs in threads beside: both eras,
 * and the pair of 2024-11-05. */
#include <signal.h>
#include <stdio.h>

#include "unit/server/served.h"

#include "transports.h"

enum { MESSAGE = 1 << 20 };

struct fixture {
    struct transports w;
    struct served served;
    char url[64]; /* lives as long as the transport */
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    served_open(&f->served, NULL, NULL);
    transports_init(&f->w);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    transports_done(&f->w);
    served_close(&f->served);
    free(f);
    return 0;
}

static void open_transport(struct fixture *f, const char *path) {
    tdg__transport_opts_t opts = {.url = f->url,
                                  .web.connect_timeout_ms = TRANSPORTS_PATIENCE_MS,
                                  .max_message_bytes = MESSAGE};

    snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%d%s", (int)f->served.port, path);
    assert_int_equal(tdg__transport_create(
                         path[1] == 's' ? TDG__TRANSPORT_SSE : TDG__TRANSPORT_HTTP,
                         &f->w.loop, &opts, &transports_calls, &f->w, &f->w.transport),
                     0);
    transports_open(&f->w);
}

static void initialize(struct fixture *f) {
    struct note note = {0};
    char *text = requote("{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
                         "'protocolVersion':'2025-11-25','capabilities':{},"
                         "'clientInfo':{'name':'test','version':'1'}}}");
    tdg__outgoing_t out = transports_parcel("1", "initialize", text);
    tdg__outgoing_t ready = transports_parcel(
        NULL, "notifications/initialized",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");

    out.version = TDG__V_UNKNOWN;
    transports_send(&f->w, &note, &out);
    transports_expect(&note, TDG__DELIVERY_DONE, "'protocolVersion'");
    free(text);
    transports_send(&f->w, &note, &ready);
    transports_expect(&note, TDG__DELIVERY_DONE, NULL);
}

/* ---- Legacy ------------------------------------------------------------- */

static void a_legacy_session_lives_and_ends(void **state) {
    struct fixture *f = *state;
    struct note stream = {0}, note = {0};

    open_transport(f, "/mcp");
    initialize(f);
    transports_listen(&f->w, &stream, NULL, TDG__V_LATEST_LEGACY);
    RUN_UNTIL(&f->w, stream.opened == 1);
    transports_ask(&f->w, &note, 2, "resources/subscribe", "{'uri':'a:1'}");
    transports_expect(&note, TDG__DELIVERY_DONE, "'result'");
    served_change(&f->served, "a:1");
    RUN_UNTIL(&f->w, stream.messages == 1);
    assert_true(transports_has(stream.message[0], "'a:1'"));
    assert_string_not_equal(f->w.last_id, "");
    transports_cancel(&stream);

    /* What happens meanwhile is told to who comes back. */
    served_change(&f->served, "a:1");
    transports_listen(&f->w, &stream, f->w.last_id, TDG__V_LATEST_LEGACY);
    RUN_UNTIL(&f->w, stream.messages == 1);

    f->w.transport->ops->end_session(f->w.transport, true, transports_session_ended);
    RUN_UNTIL(&f->w, f->w.sessions_ended == 1);
    RUN_UNTIL(&f->w, served_counters(&f->served).sessions == 0);
    RUN_UNTIL(&f->w, stream.ended == 1);
}

static void a_late_answer_comes_as_a_stream(void **state) {
    struct fixture *f = *state;
    struct client waiting;
    struct note note = {0};

    open_transport(f, "/mcp");
    initialize(f);
    client_init(&waiting, NULL);
    transports_ask(&f->w, &note, 7, "tools/call", "{'name':'hold'}");
    RUN_UNTIL(&f->w, served_held(&f->served) == 1);
    tdg_request_reply_text(served_take(&f->served, &waiting), "at last");
    transports_expect(&note, TDG__DELIVERY_DONE, "'at last'");
    client_done(&waiting);
}

/* ---- Modern ------------------------------------------------------------- */

static void ask_modern(struct fixture *f, struct note *note, const char *method,
                       const char *name, const char *params, bool stream) {
    char text[2000];
    char *quoted;
    tdg__outgoing_t out;

    snprintf(text, sizeof(text),
             "{'jsonrpc':'2.0','id':'m','method':'%s','params':{'_meta':{"
             "'io.modelcontextprotocol/protocolVersion':'2026-07-28',"
             "'io.modelcontextprotocol/clientInfo':{'name':'test','version':'1'},"
             "'io.modelcontextprotocol/clientCapabilities':{}}%s%s}}",
             method, params != NULL ? "," : "", params != NULL ? params : "");
    quoted = requote(text);
    out = transports_parcel("\"m\"", method, quoted);
    out.version = TDG__V_MODERN;
    out.name = name;
    out.stream = stream;
    transports_send(&f->w, note, &out);
    free(quoted);
}

static void a_modern_server_answers_and_is_listened_to(void **state) {
    struct fixture *f = *state;
    struct note note = {0}, stream = {0};

    open_transport(f, "/mcp");
    ask_modern(f, &note, "server/discover", NULL, NULL, false);
    transports_expect(&note, TDG__DELIVERY_DONE, "2026-07-28");
    ask_modern(f, &note, "resources/read", "a:1", "'uri':'a:1'", false);
    transports_expect(&note, TDG__DELIVERY_DONE, "'text'");
    ask_modern(f, &note, "tools/call", "echo", "'name':'echo','arguments':{'text':'hi'}",
               false);
    transports_expect(&note, TDG__DELIVERY_DONE, "'hi'");

    ask_modern(f, &stream, "subscriptions/listen", NULL,
               "'notifications':{'resourceSubscriptions':['a:1']}", true);
    RUN_UNTIL(&f->w, stream.messages == 1); /* the acknowledgement */
    served_change(&f->served, "a:1");
    RUN_UNTIL(&f->w, stream.messages == 2);
    assert_true(transports_has(stream.message[1], "'a:1'"));
    tdg_server_stop(f->served.server); /* completes it in order */
    transports_expect(&stream, TDG__DELIVERY_DONE, NULL);
}

static void what_a_modern_server_refuses_is_told(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    open_transport(f, "/mcp");
    ask_modern(f, &note, "no/such", NULL, NULL, false);
    transports_expect(&note, TDG__DELIVERY_STATUS, NULL);
    assert_int_equal(note.status, 404);
    assert_true(transports_has(note.body, "-32601"));
    ask_modern(f, &note, "resources/read", "a:2", "'uri':'a:1'", false);
    transports_expect(&note, TDG__DELIVERY_STATUS, NULL);
    assert_int_equal(note.status, 400);
    assert_true(transports_has(note.body, "-32020"));
}

/* A name that no header can hold as it is reaches the server all the same. */
static void names_of_any_kind_are_mirrored(void **state) {
    static const char *const names[] = {"t:caf\xc3\xa9", "t:a b ", "=?base64?eA==?="};
    struct fixture *f = *state;

    open_transport(f, "/mcp");
    for (size_t i = 0; i < COUNT(names); i++) {
        struct note note = {0};
        char params[100];

        snprintf(params, sizeof(params), "'uri':'%s'", names[i]);
        ask_modern(f, &note, "resources/read", names[i], params, false);
        RUN_UNTIL(&f->w, note.ended == 1);
        assert_false(
            transports_has(note.body, "-32020")); /* whatever it thinks of the URI */
    }
}

/* ---- 2024-11-05 --------------------------------------------------------- */

static void the_old_pair_works(void **state) {
    struct fixture *f = *state;
    struct note note = {0};

    open_transport(f, "/sse");
    initialize(f);
    transports_ask(&f->w, &note, 2, "resources/subscribe", "{'uri':'a:1'}");
    transports_expect(&note, TDG__DELIVERY_DONE, "'result'");
    served_change(&f->served, "a:1");
    RUN_UNTIL(&f->w, f->w.messages == 1);
    assert_true(transports_has(f->w.message[0], "'a:1'"));
    tdg_server_stop(f->served.server);
    RUN_UNTIL(&f->w, f->w.lost == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(a_legacy_session_lives_and_ends),
        TEST(a_late_answer_comes_as_a_stream),
        TEST(a_modern_server_answers_and_is_listened_to),
        TEST(what_a_modern_server_refuses_is_told),
        TEST(names_of_any_kind_are_mirrored),
        TEST(the_old_pair_works),
#undef TEST
    };

    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("wire_real", tests, NULL, NULL);
}
