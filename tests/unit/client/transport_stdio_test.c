/* SPDX-License-Identifier: MIT
 *
 * Servers are shell scripts: each line that they read is a request. */
#include <signal.h>
#include <stdio.h>

#include "transports.h"

enum { MESSAGE = 4000 };

/* Answers each line with a result of the same id; ids are numbers here. */
#define ANSWER                                                                           \
    "while read -r line; do id=${line#*'\"id\":'}; id=${id%%,*};"                        \
    " echo '{\"jsonrpc\":\"2.0\",\"id\":'$id',\"result\":{\"to\":'$id'}}'; done"

static int setup(void **state) {
    transports_init(state_create(state, sizeof(struct transports)));
    return 0;
}

static int teardown(void **state) {
    transports_done(*state);
    return state_destroy(state);
}

static int create_from(struct transports *w, const char *const *argv,
                       const char *const *env, const char *cwd) {
    const tdg__transport_opts_t opts = {
        .argv = argv, .env = env, .cwd = cwd, .max_message_bytes = MESSAGE};

    return tdg__transport_create(TDG__TRANSPORT_STDIO, &w->loop, &opts, &transports_calls,
                                 w, &w->transport);
}

static void create(struct transports *w, const char *script) {
    static const char *argv[] = {"/bin/sh", "-c", NULL, NULL};

    argv[2] = script;
    assert_int_equal(create_from(w, argv, NULL, NULL), 0);
}

static void open_script(struct transports *w, const char *script) {
    create(w, script);
    transports_open(w);
}

/* ---- Messages ----------------------------------------------------------- */

static void a_request_gets_its_response(void **state) {
    struct transports *w = *state;
    struct note note = {0};

    open_script(w, ANSWER);
    transports_ask(w, &note, 7, "ping", NULL);
    transports_expect(&note, TDG__DELIVERY_DONE, "'to':7");
    assert_int_equal(note.opened, 1);
    assert_int_equal(note.messages, 1);
    assert_int_equal(w->messages, 0);
}

static void responses_find_their_requests_in_any_order(void **state) {
    struct transports *w = *state;
    struct note a = {0}, b = {0};

    open_script(w, "read -r a; read -r b; for id in 2 1; do"
                   " echo '{\"jsonrpc\":\"2.0\",\"id\":'$id',\"result\":{\"to\":'$id'}}';"
                   " done; cat >/dev/null");
    transports_ask(w, &a, 1, "ping", NULL);
    transports_ask(w, &b, 2, "ping", NULL);
    transports_expect(&b, TDG__DELIVERY_DONE, "'to':2");
    transports_expect(&a, TDG__DELIVERY_DONE, "'to':1");
}

static void a_notification_is_done_when_written(void **state) {
    struct transports *w = *state;
    struct note note = {0};
    tdg__outgoing_t out = transports_parcel(NULL, "notifications/x", "{\"a\":1}");

    open_script(w, "read -r line; echo \"$line\" >&2; cat");
    transports_send(w, &note, &out);
    transports_expect(&note, TDG__DELIVERY_DONE, NULL);
    assert_true(note.sent);
    RUN_UNTIL(w, w->said == 1);
    assert_string_equal(w->word, "{\"a\":1}");
}

static void everything_else_goes_to_the_transport(void **state) {
    struct transports *w = *state;
    struct note note = {0};

    open_script(w, "read -r a; echo '{\"jsonrpc\":\"2.0\",\"method\":\"n\"}';"
                   "echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}';"
                   "echo '{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{}}';"
                   "echo '{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}';"
                   "echo '{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"result\":{}}';"
                   "echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}'; cat >/dev/null");
    transports_ask(w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_DONE, "'result':{}");
    assert_int_equal(w->messages, 5);
    assert_int_equal(note.messages, 1);
}

static void a_batch_is_several_messages(void **state) {
    struct transports *w = *state;
    struct note a = {0}, b = {0};

    open_script(w,
                "read -r a; read -r b; echo '[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":"
                "{}},{\"jsonrpc\":\"2.0\",\"method\":\"n\"},{\"jsonrpc\":\"2.0\","
                "\"id\":2,\"error\":{\"code\":1,\"message\":\"m\"}}]'; cat >/dev/null");
    transports_ask(w, &a, 1, "x", NULL);
    transports_ask(w, &b, 2, "x", NULL);
    transports_expect(&a, TDG__DELIVERY_DONE, "'result'");
    transports_expect(&b, TDG__DELIVERY_DONE, "'error'");
    assert_int_equal(w->messages, 1);
}

static void nonsense_is_warned_of_and_survived(void **state) {
    struct transports *w = *state;
    struct note note = {0};

    open_script(w,
                "echo Hello; echo '{}'; echo '[]'; head -c 9000 /dev/zero | tr '\\0' x;"
                " echo; " ANSWER);
    transports_ask(w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_DONE, "'to':1");
    assert_int_equal(w->warned, 4);
    assert_int_equal(w->lost, 0);
}

static void a_second_response_belongs_to_nobody(void **state) {
    struct transports *w = *state;
    struct note note = {0};

    open_script(w, "read -r a; for i in 1 2; do echo '{\"jsonrpc\":\"2.0\",\"id\":1,"
                   "\"result\":{}}'; done; cat >/dev/null");
    transports_ask(w, &note, 1, "x", NULL);
    transports_expect(&note, TDG__DELIVERY_DONE, "'result'");
    RUN_UNTIL(w, w->messages == 1);
    assert_int_equal(note.messages, 1);
}

static void thousands_of_requests_at_once(void **state) {
    struct transports *w = *state;
    static struct note notes[2000];

    open_script(w, ANSWER);
    for (size_t i = 0; i < COUNT(notes); i++)
        transports_ask(w, &notes[i], (int)i + 1, "x", NULL);
    for (size_t i = 0; i < COUNT(notes); i++)
        transports_expect(&notes[i], TDG__DELIVERY_DONE, "'to'");
}

/* ---- Losses ------------------------------------------------------------- */

static void an_end_breaks_all_and_is_told(void **state) {
    struct transports *w = *state;
    struct note a = {0}, b = {0}, late = {0};

    open_script(w, "read -r a; read -r b; exit 3");
    transports_ask(w, &a, 1, "x", NULL);
    transports_ask(w, &b, 2, "x", NULL);
    transports_expect(&a, TDG__DELIVERY_BROKEN, NULL);
    assert_true(a.sent);
    transports_expect(&b, TDG__DELIVERY_BROKEN, NULL);
    RUN_UNTIL(w, w->lost == 1);
    assert_true(transports_has(w->why, "exit status 3"));

    transports_ask(w, &late, 3, "x", NULL);
    transports_expect(&late, TDG__DELIVERY_BROKEN, NULL);
    assert_false(late.sent);
    assert_int_equal(w->lost, 1);
}

static void a_program_that_cannot_be_started_is_lost(void **state) {
    struct transports *w = *state;
    const char *const argv[] = {"no-such-program-here", NULL};

    assert_int_equal(create_from(w, argv, NULL, NULL), 0);
    assert_int_equal(w->transport->ops->open(w->transport, transports_opened), 0);
    RUN_UNTIL(w, w->lost == 1);
    assert_int_equal(w->opened, 0);
}

static void a_program_that_does_not_read_is_not_waited_for(void **state) {
    struct transports *w = *state;
    size_t len = 1 << 20, count = 0;
    char *text = malloc(len + 1);
    static struct note notes[100];
    tdg__outgoing_t out;

    memset(text, 'x', len);
    text[len] = '\0';
    out = transports_parcel("1", "x", text);
    open_script(w, "exec sleep 1000");
    while (count < COUNT(notes))
        transports_send(w, &notes[count++], &out);
    free(text);
    transports_expect(&notes[99], TDG__DELIVERY_BROKEN, NULL);
    assert_false(notes[99].sent);
    assert_int_equal(notes[0].ended, 0);
}

/* ---- Cancelling and closing --------------------------------------------- */

static void nothing_is_told_after_cancelling(void **state) {
    struct transports *w = *state;
    struct note a = {0}, b = {0};

    open_script(w, ANSWER);
    transports_ask(w, &a, 1, "x", NULL);
    transports_cancel(&a);
    transports_ask(w, &b, 2, "x", NULL);
    transports_expect(&b, TDG__DELIVERY_DONE, "'to':2");
    assert_int_equal(a.opened + a.messages + a.ended, 0);
    assert_int_equal(w->messages, 1); /* its response belongs to nobody */
}

static void may_be_cancelled_from_each_call(void **state) {
    struct transports *w = *state;
    struct note a = {.cancel_at = IN_OPENED}, b = {.cancel_at = IN_MESSAGE}, c = {0};

    open_script(w, ANSWER);
    transports_ask(w, &a, 1, "x", NULL);
    transports_ask(w, &b, 2, "x", NULL);
    transports_ask(w, &c, 3, "x", NULL);
    transports_expect(&c, TDG__DELIVERY_DONE, "'to':3");
    assert_int_equal(a.opened, 1);
    assert_int_equal(a.ended, 0);
    assert_int_equal(b.messages, 1);
    assert_int_equal(b.ended, 0);
}

static void may_be_closed_from_each_call(void **state) {
    static const enum moment moments[] = {IN_OPENED, IN_MESSAGE, IN_ENDED, IN_LOST};

    for (size_t i = 0; i < COUNT(moments); i++) {
        struct transports *w = *state;
        struct note notes[3] = {{0}};

        open_script(w, "read -r a; echo '[{\"jsonrpc\":\"2.0\",\"method\":\"n\"},"
                       "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}]'; exit 1");
        w->close_at = moments[i];
        for (int n = 0; n < 3; n++)
            transports_ask(w, &notes[n], n + 1, "x", NULL);
        RUN_UNTIL(w, w->transport == NULL);
        w->close_at = NEVER;
        w->opened = 0;
        assert_int_equal(w->closed, i + 1);
    }
}

static void may_be_closed_while_things_run(void **state) {
    struct transports *w = *state;
    struct note notes[5] = {{0}};

    open_script(w, "exec cat >/dev/null");
    for (int n = 0; n < 5; n++)
        transports_ask(w, &notes[n], n + 1, "x", NULL);
    transports_close(w);
    for (int n = 0; n < 5; n++)
        assert_int_equal(notes[n].ended, 0);

    create(w, "exec cat"); /* never opened */
    transports_close(w);

    create(w, "exec cat"); /* opening */
    w->opened = 0;
    assert_int_equal(w->transport->ops->open(w->transport, transports_opened), 0);
    transports_close(w);
    assert_int_equal(w->opened, 0);
}

static void a_session_ends_with_the_program(void **state) {
    struct transports *w = *state;
    struct note note = {0};

    open_script(w, "echo up >&2; cat >/dev/null; echo bye >&2");
    transports_ask(w, &note, 1, "x", NULL);
    RUN_UNTIL(w, w->said == 1); /* it has the time for all that follows */
    w->transport->ops->end_session(w->transport, true, transports_session_ended);
    RUN_UNTIL(w, w->sessions_ended == 1);
    assert_int_equal(w->said, 2);
    transports_expect(&note, TDG__DELIVERY_BROKEN, NULL);
    assert_int_equal(w->lost, 0);

    w->transport->ops->end_session(w->transport, true,
                                   transports_session_ended); /* again */
    RUN_UNTIL(w, w->sessions_ended == 2);
}

/* ---- Memory ------------------------------------------------------------- */

static void memory_may_run_out(void **state) {
    struct transports *w = *state;
    const char *const argv[] = {"/bin/sh", "-c", ANSWER, NULL};
    const char *const env[] = {"PATH=/bin:/usr/bin", NULL};
    struct note note = {0};
    size_t n;

    for (n = 1; n < 200; n++) {
        int rv;

        w->opened = 0;
        memory_fail(n, MEMORY_ONCE);
        rv = create_from(w, argv, env, "/");
        if (rv == 0)
            rv = w->transport->ops->open(w->transport, transports_opened);
        if (rv == 0) {
            RUN_UNTIL(w, w->opened == 1);
            transports_ask(w, &note, 1, "x", NULL);
            RUN_UNTIL(w, note.ended == 1);
        } else {
            assert_int_equal(rv, TDG_ENOMEM);
        }
        if (w->transport != NULL)
            transports_close(w);
        if (!memory_failed())
            break;
        /* The text of a message is the test's, and needs memory, too. */
        assert_true(rv < 0 || note.end != TDG__DELIVERY_DONE ||
                    note.message[0][0] == '\0');
    }
    memory_fail(0, MEMORY_ONCE);
    assert_in_range(n, 10, 199);
    assert_int_equal(note.end, TDG__DELIVERY_DONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(a_request_gets_its_response),
        TEST(responses_find_their_requests_in_any_order),
        TEST(a_notification_is_done_when_written),
        TEST(everything_else_goes_to_the_transport),
        TEST(a_batch_is_several_messages),
        TEST(nonsense_is_warned_of_and_survived),
        TEST(a_second_response_belongs_to_nobody),
        TEST(thousands_of_requests_at_once),
        TEST(an_end_breaks_all_and_is_told),
        TEST(a_program_that_cannot_be_started_is_lost),
        TEST(a_program_that_does_not_read_is_not_waited_for),
        TEST(nothing_is_told_after_cancelling),
        TEST(may_be_cancelled_from_each_call),
        TEST(may_be_closed_from_each_call),
        TEST(may_be_closed_while_things_run),
        TEST(a_session_ends_with_the_program),
        TEST(memory_may_run_out),
#undef TEST
    };

    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("wire_stdio", tests, NULL, NULL);
}
