/* SPDX-License-Identifier: MIT
 *
 * The client's thread, and the calls that wait for it, with a core that answers by itself
 * (fake_core.h). What a client does with a server is in client_test.c. */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "fake_core.h"
#include "support.h"

enum { PATIENCE_MS = 60000 };

static int64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

#define WAIT_UNTIL(condition)                                                            \
    do {                                                                                 \
        int64_t deadline_ = now_ms() + PATIENCE_MS;                                      \
                                                                                         \
        while (!(condition)) {                                                           \
            if (now_ms() > deadline_)                                                    \
                fail_msg("never happened: %s", #condition);                              \
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);                     \
        }                                                                                \
    } while (0)

static int setup(void **state) {
    (void)state;
    fake_reset();
    return 0;
}

/* Every client is gone, with its core. */
static int teardown(void **state) {
    (void)state;
    return atomic_load(&fake.created) == atomic_load(&fake.destroyed) ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static tdg_client_t *connected(const tdg_client_opts_t *given) {
    tdg_client_opts_t opts = given != NULL ? *given : (tdg_client_opts_t){0};
    tdg_failure_t failure = {0};
    tdg_client_t *client = NULL;

    if (opts.url == NULL && opts.argv == NULL)
        opts.url = "http://127.0.0.1:1";
    if (tdg_client_connect(&opts, &client, &failure) != 0)
        fail_msg("not connected: %s", failure.message);
    return client;
}

/* ---- Beginning and end -------------------------------------------------- */

static void a_client_connects_and_is_closed(void **state) {
    tdg_client_t *client = connected(NULL);

    (void)state;
    assert_string_equal(fake.url, "http://127.0.0.1:1/mcp");
    tdg_client_close(client);
    assert_int_equal(atomic_load(&fake.destroyed), 1);
    tdg_client_close(NULL);
    tdg_client_stop(NULL);
}

static void who_cannot_connect_is_told_why(void **state) {
    tdg_client_opts_t opts = {.url = "http://127.0.0.1:1/mcp"};
    tdg_failure_t failure = {0};
    tdg_client_t *client = NULL;

    (void)state;
    fake.connect_code = TDG_EREFUSED;
    assert_int_equal(tdg_client_connect(&opts, &client, &failure), TDG_EREFUSED);
    assert_null(client);
    assert_int_equal(failure.code, TDG_EREFUSED);
    assert_int_equal(failure.rpc_code, -32000);
    assert_json_equal(failure.data, "{'why': 'test'}");
    tdg_failure_done(&failure);
    assert_int_equal(tdg_client_connect(&opts, &client, NULL), TDG_EREFUSED);

    opts.url = "nonsense";
    assert_int_equal(tdg_client_connect(&opts, &client, &failure), TDG_EINVAL);
    assert_non_null(strstr(failure.message, "http://"));
    assert_int_equal(tdg_client_connect(NULL, &client, &failure), TDG_EINVAL);
    assert_int_equal(tdg_client_connect(&opts, NULL, NULL), TDG_EINVAL);
}

struct call {
    tdg_client_t *client;
    pthread_t thread;
    int rv;
};

static void *wait_for_ever(void *arg) {
    struct call *call = arg;
    json_t *result = NULL;

    call->rv = tdg_client_request(call->client, "never", NULL, 0, &result, NULL);
    return NULL;
}

static void *wait_for_an_event(void *arg) {
    struct call *call = arg;
    tdg_event_t *event = NULL;

    call->rv = tdg_client_next(call->client, -1, &event);
    return NULL;
}

/* Starts calls that wait, half of them for an answer, and half for an event. */
static void start_calls(struct call *calls, int count, tdg_client_t *client) {
    for (int i = 0; i < count; i++) {
        calls[i] = (struct call){.client = client};
        assert_int_equal(pthread_create(&calls[i].thread, NULL,
                                        i % 2 == 0 ? wait_for_ever : wait_for_an_event,
                                        &calls[i]),
                         0);
    }
    WAIT_UNTIL(atomic_load(&fake.waiting) == count / 2);
}

static void expect_ended(struct call *calls, int count) {
    for (int i = 0; i < count; i++) {
        pthread_join(calls[i].thread, NULL);
        assert_int_equal(calls[i].rv, TDG_EENDED);
    }
}

static void stopping_ends_all_calls(void **state) {
    enum { CALLS = 8 };
    tdg_client_t *client = connected(NULL);
    tdg_client_counters_t counts = {.requests = 7};
    tdg_server_facts_t facts;
    struct call calls[CALLS];
    tdg_event_t *event = NULL;
    tdg_failure_t failure = {0};
    json_t *result = NULL;

    (void)state;
    start_calls(calls, CALLS, client);
    tdg_client_stop(client);
    expect_ended(calls, CALLS);

    /* Until it is closed all functions may be called. */
    tdg_client_stop(client);
    assert_int_equal(tdg_client_read(client, "a:1", &result, &failure), TDG_EENDED);
    assert_int_equal(failure.code, TDG_EENDED);
    assert_int_equal(tdg_client_next(client, -1, &event), TDG_EENDED);
    assert_int_equal(tdg_client_send(client, "echo", json_object(), 0, NULL, NULL),
                     TDG_EENDED);
    assert_int_equal(tdg_client_facts(client, &facts), TDG_EENDED);
    assert_int_equal(tdg_client_subscriptions(client, &result), TDG_EENDED);
    tdg_client_counters(client, &counts);
    assert_int_equal(counts.requests, 0);
    tdg_client_close(client);
}

/* The requests are known to wait when it is closed. Calls for events might come too late,
 * so there are none. */
static void closing_ends_calls_that_wait(void **state) {
    enum { CALLS = 8 };
    tdg_client_t *client = connected(NULL);
    struct call calls[CALLS];

    (void)state;
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct call){.client = client};
        assert_int_equal(pthread_create(&calls[i].thread, NULL, wait_for_ever, &calls[i]),
                         0);
    }
    WAIT_UNTIL(atomic_load(&fake.waiting) == CALLS);
    tdg_client_close(client);
    expect_ended(calls, CALLS);
}

static void closing_takes_five_seconds_at_most(void **state) {
    tdg_client_t *client = connected(NULL);
    int64_t began = now_ms(), took;

    (void)state;
    atomic_store(&fake.hang, true);
    tdg_client_close(client);
    took = now_ms() - began;
    assert_true(took >= 4900);
    assert_true(took < 20000); /* a slow machine's 5 s */
    assert_int_equal(atomic_load(&fake.destroyed), 0);

    /* The thread that was left behind cleans up after itself. */
    atomic_store(&fake.hang, false);
    WAIT_UNTIL(atomic_load(&fake.destroyed) == 1);
}

/* ---- Requests ----------------------------------------------------------- */

static void results_come_back(void **state) {
    tdg_client_t *client = connected(&(tdg_client_opts_t){.timeout_ms = 1234});
    json_t *result = NULL;

    (void)state;
    assert_int_equal(
        tdg_client_request(client, "echo", json_from("{'a': [1]}"), 0, &result, NULL), 0);
    assert_json_equal(result, "{'a': [1]}");
    json_decref(result);
    assert_int_equal(fake.timeout_ms, 1234);

    assert_int_equal(
        tdg_client_request(client, "slowly", json_from("{}"), 77, &result, NULL), 0);
    assert_json_equal(result, "{}");
    json_decref(result);
    assert_int_equal(fake.timeout_ms, 77);
    tdg_client_close(client);
}

static void time_passes(void **state) {
    tdg_client_t *client = connected(NULL);
    int64_t began = now_ms();
    json_t *result;

    (void)state;
    assert_int_equal(
        tdg_client_request(client, "slowly", json_object(), 0, &result, NULL), 0);
    assert_true(now_ms() - began >= 49);
    json_decref(result);
    tdg_client_close(client);
}

static void failures_come_back(void **state) {
    tdg_client_t *client = connected(NULL);
    tdg_failure_t failure = {0};
    json_t *result = NULL;

    (void)state;
    assert_int_equal(tdg_client_request(client, "refuse", NULL, 0, &result, &failure),
                     TDG_EREFUSED);
    assert_null(result);
    assert_int_equal(failure.code, TDG_EREFUSED);
    assert_int_equal(failure.rpc_code, -32000);
    assert_string_equal(failure.message, "as the test wants it");
    assert_json_equal(failure.data, "{'why': 'test'}");
    tdg_failure_done(&failure);
    assert_int_equal(tdg_client_request(client, "refuse", NULL, 0, &result, NULL),
                     TDG_EREFUSED);
    tdg_client_close(client);
}

/* Fails unless the last call was right, and asked for this. */
static void expect_request(int rv, json_t *result, const char *text) {
    assert_int_equal(rv, 0);
    assert_json_equal(result, text);
    json_decref(result);
}

/* Fails unless this was the last request. */
static void expect_sent(const char *method_and_params) {
    char *text = requote(method_and_params);

    assert_string_equal(fake.request, text);
    free(text);
}

static void requests_are_made_as_the_protocol_has_them(void **state) {
    tdg_client_t *client = connected(NULL);
    json_t *result = NULL;
    int rv;

    (void)state;
    rv = tdg_client_prompt(client, "p", json_from("{'a': 'b'}"), &result, NULL);
    expect_request(rv, result,
                   "{'method': 'prompts/get',"
                   " 'params': {'name': 'p', 'arguments': {'a': 'b'}}}");
    rv = tdg_client_prompt(client, "p", NULL, &result, NULL);
    expect_request(rv, result, "{'method': 'prompts/get', 'params': {'name': 'p'}}");

    rv = tdg_client_call(client, "t", json_from("{'a': 1}"), &result, NULL);
    expect_request(rv, result, "{'tool': 't', 'arguments': {'a': 1}}");
    rv = tdg_client_list(client, TDG_LIST_TOOLS, &result, NULL);
    expect_request(rv, result, "[2]");

    fake.answer = "{'contents': []}";
    rv = tdg_client_read(client, "a:1", &result, NULL);
    expect_request(rv, result, "{'contents': []}");
    expect_sent("resources/read {'uri':'a:1'}");
    tdg_client_close(client);
}

struct answer {
    atomic_bool done;
    int code;
    json_t *result;
};

static void keep_answer(void *user, const json_t *result, const tdg_failure_t *failure) {
    struct answer *answer = user;

    answer->code = failure != NULL ? failure->code : 0;
    answer->result = result != NULL ? json_deep_copy(result) : NULL;
    atomic_store(&answer->done, true);
}

static void completion_refers_to_a_prompt_or_a_template(void **state) {
    static const struct {
        const char *ref, *context, *sent;
    } cases[] = {
        {"p", NULL,
         "completion/complete {'argument':{'name':'a','value':'v'},"
         "'ref':{'name':'p','type':'ref/prompt'}}"},
        {"t:{x}", NULL,
         "completion/complete {'argument':{'name':'a','value':'v'},"
         "'ref':{'type':'ref/resource','uri':'t:{x}'}}"},
        {"a://b", "{'y': 'z'}",
         "completion/complete {'argument':{'name':'a','value':'v'},"
         "'context':{'arguments':{'y':'z'}},"
         "'ref':{'type':'ref/resource','uri':'a://b'}}"},
    };
    tdg_client_t *client = connected(NULL);
    tdg_failure_t failure = {0};
    json_t *result = NULL;

    (void)state;
    fake.answer = "{'completion': {'values': ['x']}}";
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(tdg_client_complete(client, cases[i].ref, "a", "v",
                                             json_from(cases[i].context), &result, NULL),
                         0);
        assert_json_equal(result, "{'values': ['x']}");
        json_decref(result);
        expect_sent(cases[i].sent);
    }
    fake.answer = "{'completion': 1}";
    assert_int_equal(tdg_client_complete(client, "p", "a", "v", NULL, &result, &failure),
                     TDG_EJSON);
    assert_non_null(strstr(failure.message, "completion"));
    tdg_client_close(client);
}

static void answers_without_what_they_are_about_are_no_answers(void **state) {
    static const char *const answers[] = {"{}", "{'contents': {}}", "[]", "1"};
    tdg_client_t *client = connected(NULL);

    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        tdg_failure_t failure = {0};
        json_t *result = NULL;

        fake.answer = answers[i];
        assert_int_equal(tdg_client_read(client, "a:1", &result, &failure), TDG_EJSON);
        assert_int_equal(failure.code, TDG_EJSON);
        assert_null(result);
    }
    tdg_client_close(client);
}

static void a_sign_of_life_is_request_for(void **state) {
    tdg_client_t *client = connected(NULL);

    (void)state;
    assert_int_equal(tdg_client_ping(client, NULL), 0);
    expect_sent("ping -");
    tdg_client_close(client);
}

#define INVALID(call) assert_int_equal((call), TDG_EINVAL)

/* What is stolen is released: the sanitizer would tell. */
static void wrong_arguments_are_refused(void **state) {
    tdg_client_t *client = connected(NULL);
    const char *uris[] = {"a:1", NULL};
    tdg_event_t *event;
    json_t *result;

    (void)state;
    INVALID(tdg_client_request(NULL, "echo", json_object(), 0, &result, NULL));
    INVALID(tdg_client_request(client, NULL, json_object(), 0, &result, NULL));
    INVALID(tdg_client_request(client, "echo", json_object(), 0, NULL, NULL));
    INVALID(tdg_client_request(client, "echo", json_array(), 0, &result, NULL));
    INVALID(tdg_client_request(client, "\xff", json_object(), 0, &result, NULL));
    INVALID(tdg_client_send(client, "echo", json_array(), 0, NULL, NULL));
    INVALID(tdg_client_send(client, "\xff", json_object(), 0, NULL, NULL));
    INVALID(tdg_client_read(client, NULL, &result, NULL));
    INVALID(tdg_client_read(client, "a:\xff", &result, NULL));
    INVALID(tdg_client_list(client, (tdg_list_kind_t)4, &result, NULL));
    INVALID(tdg_client_call(client, NULL, json_object(), &result, NULL));
    INVALID(tdg_client_call(client, "t", json_array(), &result, NULL));
    INVALID(tdg_client_prompt(client, "p", json_array(), &result, NULL));
    INVALID(tdg_client_prompt(client, "\xff", json_object(), &result, NULL));
    INVALID(tdg_client_complete(client, "p", NULL, "v", json_object(), &result, NULL));
    INVALID(tdg_client_complete(client, "p", "a", "\xff", json_object(), &result, NULL));
    INVALID(tdg_client_subscribe(client, NULL, NULL, NULL));
    INVALID(tdg_client_subscribe(client, "a:\xff", NULL, NULL));
    INVALID(tdg_client_subscribe_all(client, uris, 2, NULL, NULL, NULL));
    INVALID(tdg_client_subscribe_all(client, NULL, 1, NULL, NULL, NULL));
    INVALID(tdg_client_unsubscribe(client, NULL, NULL));
    INVALID(tdg_client_watch_lists(client, 16, NULL));
    INVALID(tdg_client_next(client, 0, NULL));
    INVALID(tdg_client_next(NULL, 0, &event));
    INVALID(tdg_client_facts(client, NULL));
    INVALID(tdg_client_ping(NULL, NULL));
    assert_int_equal(tdg_client_fd(NULL), -1);
    INVALID(tdg_client_subscriptions(NULL, &result));
    INVALID(tdg_client_subscriptions(client, NULL));
    tdg_client_close(client);
}

static void sending_does_not_wait(void **state) {
    tdg_client_t *client = connected(NULL);
    struct answer answers[3] = {0};

    (void)state;
    assert_int_equal(tdg_client_send(client, "slowly", json_from("{'n': 1}"), 0,
                                     keep_answer, &answers[0]),
                     0);
    assert_int_equal(tdg_client_send(client, "refuse", NULL, 0, keep_answer, &answers[1]),
                     0);
    assert_int_equal(tdg_client_send(client, "never", NULL, 0, keep_answer, &answers[2]),
                     0);
    assert_int_equal(tdg_client_send(client, "echo", NULL, 0, NULL, NULL), 0);
    WAIT_UNTIL(atomic_load(&answers[0].done) && atomic_load(&answers[1].done));
    assert_json_equal(answers[0].result, "{'n': 1}");
    assert_int_equal(answers[1].code, TDG_EREFUSED);
    assert_null(answers[1].result);
    tdg_client_close(client);
    assert_true(atomic_load(&answers[2].done));
    assert_int_equal(answers[2].code, TDG_EENDED);
    json_decref(answers[0].result);
}

static void *make_requests(void *arg) {
    struct call *call = arg;

    for (int i = 0; i < 200 && call->rv == 0; i++) {
        json_t *result = NULL;

        call->rv = tdg_client_request(call->client, "echo", json_pack("{s:i}", "n", i), 0,
                                      &result, NULL);
        if (call->rv == 0 && json_integer_value(json_object_get(result, "n")) != i)
            call->rv = -1000;
        json_decref(result);
    }
    return NULL;
}

static void every_thread_gets_its_own_answers(void **state) {
    enum { THREADS = 8 };
    tdg_client_t *client = connected(NULL);
    struct call calls[THREADS];
    tdg_client_counters_t counts;

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        calls[i] = (struct call){.client = client};
        assert_int_equal(pthread_create(&calls[i].thread, NULL, make_requests, &calls[i]),
                         0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(calls[i].thread, NULL);
        assert_int_equal(calls[i].rv, 0);
    }
    tdg_client_counters(client, &counts);
    assert_int_equal(counts.requests, THREADS * 200);
    tdg_client_close(client);
}

/* ---- What is known, and subscriptions ----------------------------------- */

static void facts_are_copies(void **state) {
    tdg_client_t *client = connected(NULL);
    tdg_server_facts_t facts;

    (void)state;
    assert_int_equal(tdg_client_facts(client, &facts), 0);
    tdg_client_close(client);
    assert_int_equal(facts.era, TDG_ERA_MODERN);
    assert_string_equal(facts.protocol, "fake");
    assert_string_equal(facts.name, "server");
    assert_string_equal(facts.version, "");
    assert_null(facts.instructions);
    assert_json_equal(facts.supported, "[]");
    tdg_server_facts_done(&facts);
    assert_null(facts.name);
    tdg_server_facts_done(&facts);
    tdg_server_facts_done(NULL);
}

static void subscriptions_are_known(void **state) {
    const char *uris[] = {"a:1", "bad:1", "a:2"}, *wrong[] = {"a:3", "a:\xff"};
    tdg_client_t *client = connected(NULL);
    tdg_client_counters_t counts;
    int codes[3];
    json_t *list;

    (void)state;
    assert_int_equal(tdg_client_subscribe_all(client, uris, 3, NULL, codes, NULL),
                     TDG_EREFUSED);
    assert_int_equal(codes[0], 0);
    assert_int_equal(codes[1], TDG_EREFUSED);
    assert_int_equal(codes[2], 0);
    assert_int_equal(tdg_client_subscribe_all(client, uris, 0, NULL, NULL, NULL), 0);
    assert_int_equal(tdg_client_subscribe_all(client, wrong, 2, NULL, codes, NULL),
                     TDG_EINVAL);
    assert_int_equal(codes[0], TDG_EINVAL); /* none of them was asked for */
    assert_int_equal(codes[1], TDG_EINVAL);
    assert_int_equal(tdg_client_unsubscribe(client, "a:1", NULL), 0);
    assert_int_equal(tdg_client_unsubscribe(client, "a:1", NULL), TDG_ENOTFOUND);
    assert_int_equal(tdg_client_subscriptions(client, &list), 0);
    assert_json_equal(list, "['a:2']");
    json_decref(list);
    tdg_client_counters(client, &counts);
    assert_int_equal(counts.subscriptions, 1);
    tdg_client_close(client);
}

/* ---- Events ------------------------------------------------------------- */

static void make_events(tdg_client_t *client, const char *uri, int count) {
    json_t *result;

    assert_int_equal(
        tdg_client_request(client, "event",
                           json_pack("{s:s, s:i}", "uri", uri, "count", count), 0,
                           &result, NULL),
        0);
    json_decref(result);
}

static void events_wait_until_they_are_fetched(void **state) {
    tdg_client_t *client = connected(NULL);
    struct pollfd fd = {.fd = tdg_client_fd(client), .events = POLLIN};
    tdg_client_counters_t counts;
    tdg_event_t *event = NULL;

    (void)state;
    assert_int_equal(tdg_client_next(client, 0, &event), TDG_ETIMEDOUT);
    assert_int_equal(poll(&fd, 1, 0), 0);
    make_events(client, "a:1", 3);
    make_events(client, "a:2", 1);
    assert_int_equal(poll(&fd, 1, 0), 1);
    tdg_client_counters(client, &counts);
    assert_int_equal(counts.pending, 2);
    assert_int_equal(tdg_client_next(client, -1, &event), 0);
    assert_string_equal(event->uri, "a:1");
    assert_int_equal(event->merged, 2);
    tdg_event_free(event);
    assert_int_equal(tdg_client_unsubscribe(client, "a:2", NULL), TDG_ENOTFOUND);
    assert_int_equal(tdg_client_next(client, 0, &event), TDG_ETIMEDOUT);
    assert_int_equal(poll(&fd, 1, 0), 0);
    tdg_client_close(client);
}

static void after_the_last_event_comes_the_end(void **state) {
    tdg_client_t *client = connected(NULL);
    tdg_event_t *event = NULL;
    json_t *result;

    (void)state;
    make_events(client, "a:1", 1);
    assert_int_equal(tdg_client_request(client, "close", NULL, 0, &result, NULL), 0);
    json_decref(result);
    assert_int_equal(tdg_client_next(client, -1, &event), 0);
    assert_int_equal(event->kind, TDG_EVENT_UPDATED);
    tdg_event_free(event);
    assert_int_equal(tdg_client_next(client, -1, &event), 0);
    assert_int_equal(event->kind, TDG_EVENT_CLOSED);
    tdg_event_free(event);
    assert_int_equal(tdg_client_next(client, -1, &event), TDG_EENDED);
    tdg_client_close(client);
}

static void ignore_event(void *user, tdg_client_t *client, const tdg_event_t *event) {
    (void)user;
    (void)client;
    (void)event;
}

static void lost_events_are_counted(void **state) {
    (void)state;
    for (int callback = 0; callback < 2; callback++) {
        tdg_client_t *client =
            connected(&(tdg_client_opts_t){.on_event = callback ? ignore_event : NULL});
        tdg_client_counters_t counts;
        json_t *result = NULL;

        for (uint64_t lost = 0; lost < 3; lost++) {
            tdg_client_counters(client, &counts);
            assert_int_equal(counts.lost, lost);
            assert_int_equal(tdg_client_request(client, "lose", NULL, 0, &result, NULL),
                             0);
            json_decref(result);
        }
        make_events(client, "a:1", 1);
        tdg_client_counters(client, &counts);
        assert_int_equal(counts.lost, 3);
        tdg_client_close(client);
    }
}

/* ---- Callbacks ---------------------------------------------------------- */

struct called {
    atomic_int events;
    struct answer sent;
    int read_code, next_code, send_code, facts_code;
    tdg_failure_t failure;
    size_t subscriptions;
    sigset_t blocked;
    bool stop;
};

static void on_event(void *user, tdg_client_t *client, const tdg_event_t *event) {
    struct called *called = user;
    tdg_server_facts_t facts;
    json_t *result, *list;
    tdg_event_t *none;

    assert_string_equal(event->uri, "a:1");
    if (atomic_fetch_add(&called->events, 1) > 0)
        return;
    called->read_code = tdg_client_read(client, "a:1", &result, &called->failure);
    called->next_code = tdg_client_next(client, 0, &none);
    called->facts_code = tdg_client_facts(client, &facts);
    if (called->facts_code == 0)
        tdg_server_facts_done(&facts);
    assert_int_equal(tdg_client_subscriptions(client, &list), 0);
    called->subscriptions = json_array_size(list);
    json_decref(list);
    called->send_code = tdg_client_send(client, "echo", json_pack("{s:i}", "n", 1), 0,
                                        keep_answer, &called->sent);
    pthread_sigmask(SIG_BLOCK, NULL, &called->blocked);
    tdg_client_close(client); /* does nothing here */
    if (called->stop)
        tdg_client_stop(client);
}

static void callbacks_do_not_wait_but_send(void **state) {
    struct called called = {0};
    tdg_client_t *client =
        connected(&(tdg_client_opts_t){.on_event = on_event, .user = &called});
    tdg_event_t *event;

    (void)state;
    assert_int_equal(tdg_client_subscribe(client, "a:1", NULL, NULL), 0);
    make_events(client, "a:1", 3);
    assert_int_equal(atomic_load(&called.events), 3); /* none was merged */
    assert_int_equal(called.read_code, TDG_EINVAL);
    assert_non_null(strstr(called.failure.message, "callback"));
    assert_int_equal(called.next_code, TDG_EINVAL);
    assert_int_equal(called.facts_code, 0);
    assert_int_equal(called.subscriptions, 1);
    assert_int_equal(called.send_code, 0);
    WAIT_UNTIL(atomic_load(&called.sent.done));
    assert_json_equal(called.sent.result, "{'n': 1}");
    json_decref(called.sent.result);

    assert_int_equal(tdg_client_next(client, 0, &event), TDG_EINVAL);
    assert_int_equal(tdg_client_fd(client), -1);
    tdg_client_close(client);
}

struct leaving {
    tdg_client_t *client;
    atomic_int events;
    int code, again, not_utf8, logged;
};

static void leave_in_the_log(void *user, tdg_log_level_t level, const char *line) {
    struct leaving *leaving = user;

    (void)level;
    (void)line;
    leaving->logged = tdg_client_unsubscribe(leaving->client, "a:1", NULL);
}

static void leave_at_once(void *user, tdg_client_t *client, const tdg_event_t *event) {
    struct leaving *leaving = user;

    if (atomic_fetch_add(&leaving->events, 1) > 0)
        return;
    leaving->code = tdg_client_unsubscribe(client, event->uri, NULL);
    leaving->again = tdg_client_unsubscribe(client, event->uri, NULL);
    leaving->not_utf8 = tdg_client_unsubscribe(client, "a:\xff", NULL);
}

static void a_callback_may_unsubscribe(void **state) {
    struct leaving leaving = {0};
    tdg_client_t *client = connected(&(tdg_client_opts_t){
        .on_event = leave_at_once, .log = leave_in_the_log, .user = &leaving});
    tdg_client_counters_t counts;
    json_t *result = NULL;

    (void)state;
    leaving.client = client;
    assert_int_equal(tdg_client_subscribe(client, "a:1", NULL, NULL), 0);
    assert_int_equal(tdg_client_request(client, "log", NULL, 0, &result, NULL), 0);
    assert_int_equal(leaving.logged, TDG_EINVAL);
    json_decref(result);
    make_events(client, "a:1", 1);
    assert_int_equal(atomic_load(&leaving.events), 1);
    assert_int_equal(leaving.code, 0);
    assert_int_equal(leaving.again, TDG_ENOTFOUND);
    assert_int_equal(leaving.not_utf8, TDG_EINVAL);
    tdg_client_counters(client, &counts);
    assert_int_equal(counts.subscriptions, 0);
    tdg_client_close(client);
}

static void a_callback_may_stop_its_client(void **state) {
    struct called called = {.stop = true};
    tdg_client_t *client =
        connected(&(tdg_client_opts_t){.on_event = on_event, .user = &called});
    json_t *result = NULL;
    int rv;

    (void)state;
    rv = tdg_client_request(client, "event", json_from("{'uri': 'a:1', 'count': 3}"), 0,
                            &result, NULL);
    assert_int_equal(rv, TDG_EENDED);
    assert_int_equal(atomic_load(&called.events), 1);
    tdg_client_close(client);
    assert_true(atomic_load(&called.sent.done)); /* also what was sent is answered */
    json_decref(called.sent.result);
}

/* One callback that takes its time, and how many came after it. */
struct slow {
    sem_t running, let_go;
    atomic_int events, inputs, progress, lines, answers;
};

static void take_your_time(void *user, tdg_client_t *client, const tdg_event_t *event) {
    struct slow *slow = user;

    (void)client;
    (void)event;
    atomic_fetch_add(&slow->events, 1);
    sem_post(&slow->running);
    sem_wait(&slow->let_go);
}

static json_t *count_input(void *user, const char *method, const json_t *params) {
    struct slow *slow = user;

    (void)method;
    (void)params;
    atomic_fetch_add(&slow->inputs, 1);
    return NULL;
}

static void count_progress(void *user, const json_t *params) {
    struct slow *slow = user;

    (void)params;
    atomic_fetch_add(&slow->progress, 1);
}

static void count_line(void *user, tdg_log_level_t level, const char *line) {
    struct slow *slow = user;

    (void)level;
    (void)line;
    atomic_fetch_add(&slow->lines, 1);
}

static void count_answer(void *user, const json_t *result, const tdg_failure_t *failure) {
    struct slow *slow = user;

    (void)result;
    (void)failure;
    atomic_fetch_add(&slow->answers, 1);
}

static void send_counted(tdg_client_t *client, const char *method, struct slow *slow) {
    assert_int_equal(tdg_client_send(client, method, json_from("{'uri': 'a:1'}"), 0,
                                     count_answer, slow),
                     0);
}

/* All of it waits behind the first event when the client is closed, which is 5 s later:
 * the owner may have freed what the callbacks use. */
static void no_callback_begins_after_closing(void **state) {
    struct slow slow = {0};
    tdg_client_t *client = connected(&(tdg_client_opts_t){.on_event = take_your_time,
                                                          .on_input = count_input,
                                                          .on_progress = count_progress,
                                                          .log = count_line,
                                                          .user = &slow});

    (void)state;
    sem_init(&slow.running, 0, 0);
    sem_init(&slow.let_go, 0, 0);
    assert_int_equal(tdg_client_send(client, "event",
                                     json_from("{'uri': 'a:1', 'count': 3}"), 0,
                                     count_answer, &slow),
                     0);
    sem_wait(&slow.running);
    send_counted(client, "event", &slow);
    send_counted(client, "input", &slow);
    send_counted(client, "progress", &slow);
    send_counted(client, "log", &slow);
    tdg_client_close(client);

    sem_post(&slow.let_go);
    WAIT_UNTIL(atomic_load(&fake.destroyed) == 1);
    assert_int_equal(atomic_load(&slow.events), 1);
    assert_int_equal(atomic_load(&slow.inputs), 0);
    assert_int_equal(atomic_load(&slow.progress), 0);
    assert_int_equal(atomic_load(&slow.lines), 0);
    assert_int_equal(atomic_load(&slow.answers), 0);
    sem_destroy(&slow.running);
    sem_destroy(&slow.let_go);
}

static void signals_are_for_other_threads(void **state) {
    static const char *const argv[] = {"program", NULL};

    (void)state;
    for (int program = 0; program < 2; program++) {
        struct called called = {0};
        tdg_client_opts_t opts = {.on_event = on_event, .user = &called};
        sigset_t before, after;
        tdg_client_t *client;

        if (program)
            opts.argv = argv;
        pthread_sigmask(SIG_BLOCK, NULL, &before);
        client = connected(&opts);
        pthread_sigmask(SIG_BLOCK, NULL, &after);
        make_events(client, "a:1", 1);
        WAIT_UNTIL(atomic_load(&called.sent.done));
        assert_int_equal(sigismember(&called.blocked, SIGTERM), 1);
        assert_int_equal(sigismember(&called.blocked, SIGINT), 1);
        assert_int_equal(sigismember(&called.blocked, SIGPIPE), 1);
        assert_int_equal(sigismember(&called.blocked, SIGSEGV), 0);
        assert_int_equal(sigismember(&called.blocked, SIGCHLD), !program);
        for (int signal = 1; signal < 32; signal++) /* ours are as before */
            assert_int_equal(sigismember(&before, signal), sigismember(&after, signal));
        json_decref(called.sent.result);
        tdg_client_close(client);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_client_connects_and_is_closed),
        TEST(who_cannot_connect_is_told_why),
        TEST(stopping_ends_all_calls),
        TEST(closing_ends_calls_that_wait),
        TEST(closing_takes_five_seconds_at_most),

        TEST(results_come_back),
        TEST(time_passes),
        TEST(failures_come_back),
        TEST(requests_are_made_as_the_protocol_has_them),
        TEST(completion_refers_to_a_prompt_or_a_template),
        TEST(answers_without_what_they_are_about_are_no_answers),
        TEST(a_sign_of_life_is_request_for),
        TEST(wrong_arguments_are_refused),
        TEST(sending_does_not_wait),
        TEST(every_thread_gets_its_own_answers),

        TEST(facts_are_copies),
        TEST(subscriptions_are_known),
        TEST(events_wait_until_they_are_fetched),
        TEST(lost_events_are_counted),
        TEST(after_the_last_event_comes_the_end),

        TEST(callbacks_do_not_wait_but_send),
        TEST(a_callback_may_unsubscribe),
        TEST(a_callback_may_stop_its_client),
        TEST(no_callback_begins_after_closing),
        TEST(signals_are_for_other_threads),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client_thread", tests, NULL, NULL);
}
