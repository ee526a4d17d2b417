/* SPDX-License-Identifier: MIT
 *
 * Batches (2025-03-26) on a pipe: their answers leave together. Server and client are in
 * one thread. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "served.h"

struct fixture {
    uv_loop_t loop;
    struct served served;
    struct client waiter; /* runs the loop while the test waits */
    int in[2], out[2];
    char data[16384]; /* read and not taken yet; ends in 0 */
    char line[16384];
};

static int setup(void **state) {
    const tdg_server_opts_t opts = {0};
    struct fixture *f = state_create(state, sizeof(*f));

    assert_int_equal(uv_loop_init(&f->loop), 0);
    assert_int_equal(pipe(f->in), 0);
    assert_int_equal(pipe2(f->out, O_NONBLOCK), 0);
    served_create(&f->served, &opts);
    f->served.loop = &f->loop;
    assert_int_equal(tdg_server_pipe(f->served.server, f->in[0], f->out[1], false), 0);
    assert_int_equal(tdg_server_attach(f->served.server, &f->loop), 0);
    client_init(&f->waiter, &f->loop);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    memory_fail(0, MEMORY_ONCE);
    close(f->in[1]);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0); /* ends by itself */
    served_destroy(&f->served);
    client_done(&f->waiter);
    close(f->in[0]);
    close(f->out[0]);
    close(f->out[1]);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    return state_destroy(state);
}

static void say(struct fixture *f, const char *line) {
    char *text = requote(line);

    assert_int_equal(write(f->in[1], text, strlen(text)), strlen(text));
    assert_int_equal(write(f->in[1], "\n", 1), 1);
    free(text);
}

/* All that the server has to do now is done. */
static void run(struct fixture *f) {
    for (int i = 0; i < 10; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
}

static bool has_line(struct fixture *f) {
    size_t len = strlen(f->data);
    ssize_t n = read(f->out[0], f->data + len, sizeof(f->data) - 1 - len);

    if (n > 0)
        f->data[len + (size_t)n] = '\0';
    return strchr(f->data, '\n') != NULL;
}

/* Fails unless the next line holds the text (requoted). */
static void expect(struct fixture *f, const char *text) {
    WAIT_UNTIL(&f->waiter, has_line(f));
    size_t len = (size_t)(strchr(f->data, '\n') - f->data);

    memcpy(f->line, f->data, len);
    f->line[len] = '\0';
    memmove(f->data, f->data + len + 1, strlen(f->data + len + 1) + 1);
    if (!has(f->line, text))
        fail_msg("%s is not in %s", text, f->line);
}

static void initialize(struct fixture *f) {
    say(f, "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
           "'protocolVersion':'2025-03-26','capabilities':{},"
           "'clientInfo':{'name':'c','version':'1'}}}");
    expect(f, "'id':1");
    say(f, "{'jsonrpc':'2.0','method':'notifications/initialized'}");
}

#define SUBSCRIBE(id, uri)                                                               \
    "{'jsonrpc':'2.0','id':" #id ",'method':'resources/subscribe',"                      \
    "'params':{'uri':'" uri "'}}"

/* No update comes before the answer that acknowledges its subscription, however long that
 * waits for others of its batch. */
static void a_batch_acknowledges_when_it_leaves(void **state) {
    struct fixture *f = *state;

    initialize(f);
    say(f, "[" SUBSCRIBE(2, "a:1") "," SUBSCRIBE(3, "a:2") "," HOLD "]");
    tdg_request_t *request = served_take(&f->served, &f->waiter);
    served_change(&f->served, "a:1");
    run(f);
    tdg_request_reply_text(request, "at last");
    expect(f, "at last");
    assert_true(has(f->line, "'id':2"));
    assert_true(has(f->line, "'id':3"));
    expect(f, "'uri':'a:1'");
    served_change(&f->served, "a:2");
    expect(f, "'uri':'a:2'");
}

/* The client has unsubscribed in between. */
static void an_old_batch_does_not_acknowledge_a_new_subscription(void **state) {
    struct fixture *f = *state;

    initialize(f);
    say(f, SUBSCRIBE(2, "a:2"));
    expect(f, "'id':2");
    say(f, "[" SUBSCRIBE(3, "a:1") "," HOLD "]");
    tdg_request_t *first = served_take(&f->served, &f->waiter);
    say(f, "{'jsonrpc':'2.0','id':4,'method':'resources/unsubscribe',"
           "'params':{'uri':'a:1'}}");
    expect(f, "'id':4");
    say(f, "[" SUBSCRIBE(5, "a:1") ",{'jsonrpc':'2.0','id':6,'method':'tools/call',"
                                   "'params':{'name':'hold'}}]");
    tdg_request_t *second = served_take(&f->served, &f->waiter);
    tdg_request_reply_text(first, "done");
    expect(f, "'id':3");
    served_change(&f->served, "a:1");
    served_change(&f->served, "a:2");
    expect(f, "'uri':'a:2'");
    tdg_request_reply_text(second, "done");
    expect(f, "'id':5");
    expect(f, "'uri':'a:1'");
}

static void a_batch_whose_last_call_is_cancelled_acknowledges(void **state) {
    struct fixture *f = *state;

    initialize(f);
    say(f, "[" SUBSCRIBE(2, "a:1") "," HOLD "]");
    tdg_request_t *request = served_take(&f->served, &f->waiter);
    served_change(&f->served, "a:1");
    run(f);
    say(f, "{'jsonrpc':'2.0','method':'notifications/cancelled',"
           "'params':{'requestId':7}}");
    expect(f, "'id':2");
    expect(f, "'uri':'a:1'");
    tdg_request_reply_text(request, "to nobody");
}

/* The pipe ends before its batch has left. */
static void a_batch_that_never_leaves_is_dropped(void **state) {
    struct fixture *f = *state;

    initialize(f);
    say(f, "[" SUBSCRIBE(2, "a:1") "," HOLD "]");
    tdg_request_t *request = served_take(&f->served, &f->waiter);
    tdg_server_stop(f->served.server);
    clock_hurry(true);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    clock_hurry(false);
    tdg_request_reply_text(request, "to nobody");
}

#define META                                                                             \
    "'_meta':{'io.modelcontextprotocol/protocolVersion':'2026-07-28',"                   \
    "'io.modelcontextprotocol/clientInfo':{'name':'c','version':'1'},"                   \
    "'io.modelcontextprotocol/clientCapabilities':{}}"
#define PING "{'jsonrpc':'2.0','id':3,'method':'ping'}"

/* Its answer comes with its end; the others of the batch do not wait for that. */
static void a_listen_in_a_batch_is_refused(void **state) {
    struct fixture *f = *state;

    initialize(f);
    say(f, "[" PING ",{'jsonrpc':'2.0','id':4,'method':'subscriptions/listen',"
           "'params':{'notifications':{}," META "}}]");
    expect(f, "'id':3,'result':{}");
    assert_true(has(f->line, "-32600"));
}

static void a_cancelled_modern_call_does_not_hold_up_its_batch(void **state) {
    struct fixture *f = *state;

    initialize(f);
    say(f, "[" PING ",{'jsonrpc':'2.0','id':7,'method':'tools/call',"
           "'params':{'name':'hold'," META "}}]");
    tdg_request_t *request = served_take(&f->served, &f->waiter);
    say(f, "{'jsonrpc':'2.0','method':'notifications/cancelled',"
           "'params':{'requestId':7," META "}}");
    expect(f, "[{'jsonrpc':'2.0','id':3,'result':{}}]");
    tdg_request_reply_text(request, "to nobody");
}

/* ---- Without memory ----------------------------------------------------- */

/* Fails unless lines are JSON, and there is one. */
static void expect_json(struct fixture *f, size_t nth) {
    if (!has_line(f))
        fail_msg("allocation %zu: no answer", nth);
    for (const char *at = f->data; *at != '\0'; at = strchr(at, '\n') + 1) {
        json_t *value = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);

        if (value == NULL)
            fail_msg("allocation %zu: %s", nth, at);
        json_decref(value);
    }
    f->data[0] = '\0';
}

static void say_without_memory(struct fixture *f, const char *text, int how) {
    bool failed = true;

    for (size_t nth = 1; failed; nth++) {
        memory_fail(nth, how);
        say(f, text);
        run(f);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        run(f);
        expect_json(f, nth);
    }
}

/* Whatever allocation fails, a request or batch gets something, and that is JSON. */
static void an_answer_without_memory_is_not_silence(void **state) {
    struct fixture *f = *state;

    initialize(f);
    for (int how = MEMORY_ONCE; how <= MEMORY_FROM_THEN_ON; how++) {
        say_without_memory(f, PING, how);
        say_without_memory(f, "[" PING ",{'jsonrpc':'2.0','id':4,'method':'ping'}]", how);
        say_without_memory(f, "[" PING ",7]", how); /* which has no id */
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_batch_acknowledges_when_it_leaves),
        CASE(an_old_batch_does_not_acknowledge_a_new_subscription),
        CASE(a_batch_whose_last_call_is_cancelled_acknowledges),
        CASE(a_batch_that_never_leaves_is_dropped),
        CASE(a_listen_in_a_batch_is_refused),
        CASE(a_cancelled_modern_call_does_not_hold_up_its_batch),
        CASE(an_answer_without_memory_is_not_silence),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("stdio_front", tests, NULL, NULL);
}
