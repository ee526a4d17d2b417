/* SPDX-License-Identifier: MIT
 *
 * Requests of legacy sessions that arrive at another worker than the session's: they are
 * served as if they had arrived there. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>

#include "served.h"
#include "server/context/context.h"
#include "server/context/limits.h"
#include "server/mcp/session.h"
#include "unit/targets.h"

#define PING "{'jsonrpc':'2.0','id':1,'method':'ping'}"
#define BLOCK "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{'name':'block'}}"

/* `post` has brought the session, `get` has a stream of it,
 * `far` is for another worker. */
struct fixture {
    struct served served;
    struct client post, get, far;
    atomic_int starts;  /* of the watcher of a:2, which the test answers for */
    atomic_int counted; /* calls of `count` */
    atomic_int blocked; /* calls of `block`, which keeps its worker until `gate` opens */
    sem_t gate;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));

    *state = f;
    return f == NULL || sem_init(&f->gate, 0, 0) < 0;
}

static void block(void *user, tdg_request_t *request, const json_t *arguments) {
    struct fixture *f = user;

    (void)arguments;
    atomic_fetch_add(&f->blocked, 1);
    while (sem_wait(&f->gate) < 0)
        ;
    tdg_request_reply_text(request, "unblocked");
}

static void count(void *user, tdg_request_t *request, const json_t *arguments) {
    struct fixture *f = user;

    (void)arguments;
    atomic_fetch_add(&f->counted, 1);
    tdg_request_reply_text(request, "counted");
}

static int start(void *user, tdg_server_t *server, const tdg_target_t *target) {
    struct fixture *f = user;

    (void)server;
    if (strcmp(target->name, "a:2") != 0)
        return 0;
    atomic_fetch_add(&f->starts, 1);
    return TDG_WATCH_PENDING;
}

static void stop(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)user, (void)server, (void)target;
}

static void delete_session(struct client *client) {
    char fields[128];

    snprintf(fields, sizeof(fields), "Mcp-Session-Id: %s\r\n", client->session);
    client_request(client, "DELETE", "/mcp", fields, NULL);
}

/* Connects until the kernel chooses the worker, or with `other` another one. A worker
 * shows by the session that it creates, which the client has then. */
static void connect_by_worker(struct fixture *f, struct client *client, int worker,
                              bool other) {
    for (int i = 0; i < 1000; i++) {
        client_connect(client, f->served.port);
        legacy_initialize(client, LATEST_LEGACY);
        if ((tdg__session_worker(client->session) == worker) != other)
            return;
        delete_session(client);
        assert_int_equal(client_response(client), 204);
    }
    fail_msg("connections do not arrive at all workers");
}

static void connect_at(struct fixture *f, struct client *client, int worker) {
    connect_by_worker(f, client, worker, false);
}

/* At another worker than that of the session, which the client joins. */
static void connect_far(struct fixture *f, struct client *client) {
    connect_by_worker(f, client, tdg__session_worker(f->post.session), true);
    delete_session(client);
    assert_int_equal(client_response(client), 204);
    legacy_join(client, &f->post);
}

/* A session id that was made up, of the same worker as another one. */
static void forge_session(struct client *client, const struct client *other) {
    legacy_join(client, other);
    memset(client->session + 2, '0', TDG__SESSION_ID - 2);
}

static struct fixture *open_with(void **state, const tdg_server_opts_t *given,
                                 const char *version) {
    struct fixture *f = *state;
    tdg_server_opts_t opts = given != NULL ? *given : (tdg_server_opts_t){0};

    if (opts.workers == 0)
        opts.workers = 2;
    served_open(&f->served, &opts, NULL);
    const tdg_tool_t tools[] = {
        {.name = "block", .call = block, .user = f},
        {.name = "count", .call = count, .user = f},
    };

    for (size_t i = 0; i < COUNT(tools); i++)
        assert_int_equal(tdg_server_add_tool(f->served.server, &tools[i]), 0);
    served_client(&f->served, &f->post);
    client_init(&f->get, NULL);
    client_init(&f->far, NULL);
    legacy_initialize(&f->post, version);
    connect_far(f, &f->far);
    connect_far(f, &f->get);
    return f;
}

static tdg__budget_t *budget_of(const struct fixture *f) {
    return f->served.server->forwards;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    client_done(&f->post);
    client_done(&f->get);
    client_done(&f->far);
    for (int i = 0; i < f->blocked; i++) /* where the test has failed before it did so */
        sem_post(&f->gate);
    if (f->served.server != NULL)
        served_close(&f->served);
    sem_destroy(&f->gate);
    free(f);
    return 0;
}

static void open_get(struct client *client) {
    assert_int_equal(legacy_get(client, NULL), 200);
    client_event(client); /* its opening */
}

/* ---- Requests ----------------------------------------------------------- */

static void every_kind_of_request_is_served(void **state) {
    struct fixture *f = open_with(state, NULL, "2025-03-26");
    int home = tdg__session_worker(f->post.session);

    assert_int_equal(legacy_post(&f->far, PING), 200);
    assert_body(&f->far, "'id':1");
    assert_int_equal(legacy_post(&f->far, "{'jsonrpc':'2.0','method':'notifications/x'}"),
                     202);
    assert_int_equal(legacy_post(&f->far, "[" PING ",{'jsonrpc':'2.0','id':'b','method':"
                                          "'tools/call','params':{'name':'echo'}}]"),
                     200);
    assert_body(&f->far, "'id':'b'");
    assert_int_equal(legacy_post(&f->far, "{'jsonrpc':'2.0','id':2,'method':'none'}"),
                     200);
    assert_body(&f->far, "-32601");
    assert_int_equal(legacy_post(&f->far, "{'jsonrpc':"), 400);
    connect_far(f, &f->far);
    delete_session(&f->far);
    assert_int_equal(client_response(&f->far), 204);
    assert_int_equal(legacy_post(&f->far, PING), 404);
    assert_int_equal(legacy_get(&f->far, NULL), 404);
    delete_session(&f->far);
    assert_int_equal(client_response(&f->far), 404);

    /* The connection has stayed where it was. */
    legacy_initialize(&f->far, LATEST_LEGACY);
    assert_int_not_equal(tdg__session_worker(f->far.session), home);
    assert_int_equal(tdg__budget_used(budget_of(f)), 0);
}

static void pipelined_requests_are_answered_in_order(void **state) {
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);
    char text[64];

    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof(text), "{'jsonrpc':'2.0','id':%d,'method':'ping'}", i);
        legacy_send(&f->far, text);
    }
    for (int i = 0; i < 50; i++) {
        snprintf(text, sizeof(text), "'id':%d", i);
        assert_int_equal(client_response(&f->far), 200);
        assert_body(&f->far, text);
    }
}

static void messages_of_the_old_pair_are_served(void **state) {
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);
    char path[128], *end;

    client_connect(&f->get, f->served.port);
    client_request(&f->get, "GET", "/sse", NULL, NULL);
    assert_int_equal(client_response(&f->get), 200);
    assert_true(event_field(client_event(&f->get), "data", path, sizeof(path)));
    end = strchr(path, '=');
    assert_non_null(end);
    snprintf(f->post.session, sizeof(f->post.session), "%s", end + 1);
    connect_far(f, &f->far);
    client_request(&f->far, "POST", path, NULL,
                   "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{"
                   "'protocolVersion':'2024-11-05','capabilities':{},"
                   "'clientInfo':{'name':'c','version':'1'}}}");
    assert_int_equal(client_response(&f->far), 202);
    client_expect(&f->get, "'id':1");
    client_request(&f->far, "POST", path, NULL,
                   "{'jsonrpc':'2.0','id':2,'method':'resources/subscribe','params':{"
                   "'uri':'a:1'}}");
    assert_int_equal(client_response(&f->far), 202);
    client_expect(&f->get, "'id':2");
    served_change(&f->served, "a:1");
    client_expect(&f->get, "'uri':'a:1'");
    client_request(&f->far, "POST", path, NULL, "[");
    assert_int_equal(client_response(&f->far), 400);
}

/* ---- Turns -------------------------------------------------------------- */

enum { STRANGERS = 100 };

/* After its worker has sent on what came before: a request counts a little earlier. */
static void pass_worker(struct client *client) {
    assert_int_equal(modern_post(client, "tools/call", "echo", "'name':'echo'"), 200);
}

/* Sends a request that is forwarded, and waits until it is on its way; `far` is at the
 * same worker. Returns as how much it counts. */
static size_t send_forwarded(struct fixture *f, struct client *client, const char *body) {
    size_t before = tdg__budget_used(budget_of(f));

    legacy_send(client, body);
    WAIT_UNTIL(client, tdg__budget_used(budget_of(f)) > before);
    pass_worker(&f->far);
    return tdg__budget_used(budget_of(f)) - before;
}

/* With an id that its answer repeats, so that answers leave before the turn is over. */
static void ping_with_a_long_id(struct client *client) {
    char id[241], body[320];

    memset(id, 'x', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    snprintf(body, sizeof(body), "{'jsonrpc':'2.0','id':'%s','method':'ping'}", id);
    legacy_send(client, body);
}

/* Those that a worker can already know: it has served requests that came after them. */
static int count_answered(struct fixture *f, struct client *strangers) {
    int answered = 0;

    for (int i = 0; i < 2; i++)
        pass_worker(&f->far);
    for (int i = 0; i < STRANGERS; i++)
        answered += client_response_within(&strangers[i], 0) > 0;
    return answered;
}

/* Requests without a session arrive first, while the worker is busy; the call of a
 * session is served before them. Half of the strangers do not wait. */
static void requests_without_a_session_wait_for_those_with_one(void **state) {
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);
    struct client strangers[STRANGERS];

    for (int i = 0; i < STRANGERS; i++) {
        client_init(&strangers[i], NULL);
        connect_far(f, &strangers[i]);
        forge_session(&strangers[i], &f->post);
    }
    legacy_send(&f->post, BLOCK);
    WAIT_UNTIL(&f->get, f->blocked == 1);
    uint64_t connections = served_counters(&f->served).connections;
    ping_with_a_long_id(&strangers[0]);
    WAIT_UNTIL(&f->get, tdg__budget_used(budget_of(f)) > 0);
    size_t each = tdg__budget_used(budget_of(f));

    for (int i = 1; i < STRANGERS; i++)
        ping_with_a_long_id(&strangers[i]);
    WAIT_UNTIL(&f->get, tdg__budget_used(budget_of(f)) == STRANGERS * each);
    for (int i = 0; i < STRANGERS; i += 2)
        client_reset(&strangers[i]);
    WAIT_COUNTER(&f->served, &f->get, connections, connections - STRANGERS / 2);
    send_forwarded(f, &f->get, BLOCK);
    sem_post(&f->gate);
    WAIT_UNTIL(&f->far, f->blocked == 2);
    assert_int_equal(count_answered(f, strangers), 0);

    sem_post(&f->gate);
    assert_int_equal(client_response(&f->post), 200);
    assert_int_equal(client_response(&f->get), 200);
    for (int i = 1; i < STRANGERS; i += 2)
        assert_int_equal(client_response(&strangers[i]), 404);
    for (int i = 0; i < STRANGERS; i++)
        client_done(&strangers[i]);
    WAIT_UNTIL(&f->far, tdg__budget_used(budget_of(f)) == 0);
}

/* ---- Streams ------------------------------------------------------------ */

static void a_stream_carries_what_changes(void **state) {
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);

    open_get(&f->get);
    legacy_subscribe(&f->far, "a:1");
    served_change(&f->served, "a:1");
    client_expect(&f->get, "'uri':'a:1'");
    legacy_subscribe(&f->post, "a:2");
    served_change(&f->served, "a:2");
    client_expect(&f->get, "'uri':'a:2'");
    legacy_unsubscribe(&f->far, "a:1");
    served_change(&f->served, "a:1");
    served_change(&f->served, "a:2");
    client_expect(&f->get, "'uri':'a:2'");
    delete_session(&f->far);
    assert_int_equal(client_response(&f->far), 204);
    client_expect_end(&f->get);
}

/* More than a stream may be ahead, the sockets hold and a write takes: what is in between
 * merges, and the last change arrives. */
static void a_slow_reader_learns_the_last_state(void **state) {
    enum { CHANGES = 2000, BYTES = 10000 };
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);
    static char filler[BYTES];
    int last = 0, seen = 0;

    memset(filler, 'x', sizeof(filler) - 1);
    open_get(&f->get);
    legacy_subscribe(&f->far, "a:1");
    for (int i = 1; i <= CHANGES; i++) {
        json_t *metadata = json_pack("{s:i, s:s}", "n", i, "filler", filler);
        assert_int_equal(tdg_server_notify_updated(f->served.server, "a:1", metadata), 0);
        /* One after the other, or they merge before they are written. */
        WAIT_UNTIL(&f->post, served_counters(&f->served).changes >= (uint64_t)i);
    }
    while (last < CHANGES) {
        static char data[BYTES + 1000];
        const char *event = client_event(&f->get);

        assert_non_null(event);
        if (!event_field(event, "data", data, sizeof(data)))
            continue;
        const char *n = strstr(data, "\"n\":");
        if (n == NULL)
            continue;
        assert_true(atoi(n + 4) > last);
        last = atoi(n + 4);
        seen++;
    }
    print_message("# %d of %d were written\n", seen, CHANGES);
    assert_true(seen < CHANGES);
}

static void an_answer_that_takes_long_becomes_a_stream(void **state) {
    const tdg_server_opts_t opts = {.keepalive_ms = 40};
    struct fixture *f = open_with(state, &opts, LATEST_LEGACY);

    legacy_send(&f->far, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);
    assert_int_equal(client_response(&f->far), 200);
    client_event(&f->far); /* its opening */
    assert_string_equal(client_event(&f->far), ":\n");
    tdg_request_reply_text(request, "at last");
    client_expect(&f->far, "at last");
    client_expect_end(&f->far);
    assert_int_equal(legacy_post(&f->far, PING), 200);
}

/* It has its own end; until then there are signs of life. */
static void an_answer_has_no_lifetime(void **state) {
    const tdg_server_opts_t opts = {.keepalive_ms = 40, .stream_lifetime_ms = 60};
    struct fixture *f = open_with(state, &opts, LATEST_LEGACY);

    legacy_send(&f->far, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);
    assert_int_equal(client_response(&f->far), 200);
    client_event(&f->far); /* its opening */
    for (int i = 0; i < 5; i++)
        assert_string_equal(client_event(&f->far), ":\n");
    tdg_request_reply_text(request, "at last");
    client_expect(&f->far, "at last");
    client_expect_end(&f->far);
}

/* The same for a client that comes back for it. */
static void a_resumed_answer_has_no_lifetime(void **state) {
    const tdg_server_opts_t opts = {.keepalive_ms = 40, .stream_lifetime_ms = 60};
    struct fixture *f = open_with(state, &opts, LATEST_LEGACY);
    char id[64];

    legacy_send(&f->far, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);
    tdg_request_release_connection(request);
    assert_int_equal(client_response(&f->far), 200);
    assert_true(event_field(client_event(&f->far), "id", id, sizeof(id)));
    client_expect_end(&f->far);
    assert_int_equal(legacy_get(&f->far, id), 200);
    for (int i = 0; i < 6; i++) /* its opening looks the same */
        assert_string_equal(client_event(&f->far), ":\n");
    tdg_request_reply_text(request, "at last");
    client_expect(&f->far, "at last");
    client_expect_end(&f->far);
}

static void a_stream_whose_time_is_over_ends(void **state) {
    const tdg_server_opts_t opts = {.stream_lifetime_ms = 50};
    struct fixture *f = open_with(state, &opts, LATEST_LEGACY);

    open_get(&f->get);
    client_expect_end(&f->get);
    assert_int_equal(legacy_post(&f->far, PING), 200);
}

/* ---- Connections that go ------------------------------------------------ */

/* The work goes on, and the client comes back for its answer. */
static void an_answer_waits_for_a_client_that_lost_its_connection(void **state) {
    const tdg_server_opts_t opts = {.keepalive_ms = 40};
    struct fixture *f = open_with(state, &opts, LATEST_LEGACY);
    char id[64];

    legacy_send(&f->far, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);
    assert_int_equal(client_response(&f->far), 200);
    assert_true(event_field(client_event(&f->far), "id", id, sizeof(id)));
    client_reset(&f->far);
    WAIT_COUNTER(&f->served, &f->post, connections, 2);
    assert_int_equal(legacy_post(&f->post, PING), 200); /* its worker has heard of it */
    tdg_request_reply_text(request, "kept");
    assert_int_equal(legacy_get(&f->get, id), 200);
    client_expect(&f->get, "kept");
    client_expect_end(&f->get);
}

static void what_leaves_in_the_middle_leaves_nothing_behind(void **state) {
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);

    for (int i = 0; i < 60; i++) {
        struct client client;

        served_client(&f->served, &client);
        legacy_join(&client, &f->post);
        if (i % 3 == 0)
            (void)legacy_get(&client, NULL);
        else
            legacy_send(&client, i % 3 == 1 ? PING : "[" PING "]");
        client_reset(&client);
        client_done(&client);
    }
    WAIT_COUNTER(&f->served, &f->post, connections, 3);
    assert_int_equal(legacy_post(&f->far, PING), 200);
    WAIT_UNTIL(&f->post, tdg__budget_used(budget_of(f)) == 0);
    open_get(&f->get); /* the limit of streams is not used up */
}

/* The answer to a subscribe comes to a connection that is broken, whose worker has not
 * noticed: it is not acknowledged before the client has come back for it, or before all
 * of the batch is answered. */
static void an_answer_that_was_not_written_acknowledges_nothing(void **state) {
    struct fixture *f = *state;
    const tdg_server_opts_t opts = {.keepalive_ms = 40,
                                    .watcher = &(tdg_watcher_t){start, stop, f}};
    uint64_t connections;

    open_with(state, &opts, "2025-03-26");
    legacy_subscribe(&f->post, "a:1");
    legacy_send(&f->far, "[{'jsonrpc':'2.0','id':1,'method':'resources/subscribe',"
                         "'params':{'uri':'a:2'}}," HOLD "]");
    tdg_request_t *request = served_take(&f->served, &f->post);
    WAIT_UNTIL(&f->post, f->starts == 1);
    assert_int_equal(client_response(&f->far), 200); /* a stream */
    open_get(&f->post);

    modern_send(&f->get, "tools/call", "block", "'name':'block'");
    WAIT_UNTIL(&f->post, f->blocked == 1);
    connections = served_counters(&f->served).connections;
    client_reset(&f->far);
    assert_int_equal(tdg_server_watch_done(f->served.server, FOR_URI("a:2"), 0), 0);
    for (int i = 0; i < 2; i++) { /* the second is read in the turn after the answer's */
        served_change(&f->served, "a:1");
        client_expect(&f->post, "'uri':'a:1'");
    }
    sem_post(&f->gate);
    assert_int_equal(client_response(&f->get), 200);
    WAIT_COUNTER(&f->served, &f->post, connections, connections - 1);
    for (int i = 0; i < 2; i++) /* what the worker reported has arrived */
        assert_int_equal(legacy_post(&f->get, PING), 200);

    served_change(&f->served, "a:2");
    served_change(&f->served, "a:1");
    client_expect(&f->post, "'uri':'a:1'");
    tdg_request_reply_text(request, "done");
    client_expect(&f->post, "'uri':'a:2'");
}

/* ---- Room --------------------------------------------------------------- */

static void without_room_a_request_is_refused_for_a_while(void **state) {
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);
    char retry[256];

    assert_true(tdg__budget_take(budget_of(f), TDG__FORWARDS_MAX));
    assert_int_equal(legacy_post(&f->far, PING), 503);
    assert_body(&f->far, "'id':1");
    client_header(&f->far, "Retry-After", retry);
    assert_string_equal(retry, "1");
    assert_int_equal(legacy_get(&f->get, NULL), 503);
    assert_int_equal(legacy_post(&f->post, PING), 200);
    tdg__budget_give(budget_of(f), TDG__FORWARDS_MAX);
    assert_int_equal(legacy_post(&f->far, PING), 200);
    open_get(&f->get);
}

enum { MAX_VALUES = 100000 };

/* A ping whose parsed body is much larger than its text; valid until the next call.
 * Returns how long the text is. */
static size_t large_ping(int values, const char **ret) {
    static char body[3 * MAX_VALUES + 100];
    size_t len = (size_t)snprintf(body, sizeof(body),
                                  "{'jsonrpc':'2.0','id':1,'method':'ping','x':[");

    assert_in_range(values, 1, MAX_VALUES);
    for (int i = 0; i < values; i++)
        len += (size_t)snprintf(body + len, sizeof(body) - len, "{},");
    snprintf(body + len - 1, sizeof(body) - len + 1, "]}");
    *ret = body;
    return len;
}

/* What a body takes in memory counts, not what it is. */
static void a_body_counts_as_what_it_takes(void **state) {
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);
    const char *body;
    size_t len = large_ping(20000, &body);

    assert_int_equal(legacy_post(&f->far, body), 200);
    assert_true(tdg__budget_take(budget_of(f), TDG__FORWARDS_MAX - 2 * len));
    assert_int_equal(legacy_post(&f->far, body), 503);
    assert_int_equal(legacy_post(&f->far, PING), 200);
    forge_session(&f->far, &f->post);
    assert_int_equal(legacy_post(&f->far, body), 503);
    assert_int_equal(legacy_post(&f->far, PING), 404);
    tdg__budget_give(budget_of(f), TDG__FORWARDS_MAX - 2 * len);
}

/* Requests without a session wait at the worker of `post`, which is busy with a call that
 * has come behind them. `get` is where they are, so that all arrive in order. Returns as
 * how much they count. */
static size_t keep_strangers_waiting(struct fixture *f, struct client *strangers,
                                     int count, const char *body) {
    size_t charged = 0;

    legacy_send(&f->post, BLOCK);
    WAIT_UNTIL(&f->post, f->blocked == 1);
    for (int i = 0; i < count; i++)
        charged += send_forwarded(f, &strangers[i], body);
    send_forwarded(f, &f->get, BLOCK);
    sem_post(&f->gate);
    WAIT_UNTIL(&f->post, f->blocked == 2);
    return charged;
}

static void release(struct fixture *f) {
    sem_post(&f->gate);
    assert_int_equal(client_response(&f->post), 200);
    assert_int_equal(client_response(&f->get), 200);
}

/* With three workers, one of which is idle: `idle` has a session there. All others arrive
 * at the same one; `stranger` at first with an id of the worker of `post`. */
static struct fixture *open_three(void **state, struct client *stranger,
                                  struct client *idle) {
    const tdg_server_opts_t opts = {.workers = 3};
    struct fixture *f = open_with(state, &opts, LATEST_LEGACY);
    int home = tdg__session_worker(f->post.session), via = (home + 1) % 3;

    client_init(stranger, NULL);
    client_init(idle, NULL);
    connect_at(f, &f->get, via);
    connect_at(f, &f->far, via);
    connect_at(f, stranger, via);
    connect_at(f, idle, (home + 2) % 3);
    legacy_join(&f->get, &f->post);
    forge_session(stranger, &f->post);
    return f;
}

/* All workers together keep so many requests without a session: the rest of the memory is
 * for those of sessions. */
static void requests_without_a_session_share_a_quarter(void **state) {
    struct client stranger, idle;
    struct fixture *f = open_three(state, &stranger, &idle);
    const char *body;

    large_ping(50000, &body);
    size_t charged = keep_strangers_waiting(f, &stranger, 1, body);
    assert_in_range(charged, TDG__FORWARDS_MAX / 8 + 1, TDG__FORWARDS_MAX / 4);
    forge_session(&f->far, &idle);
    assert_int_equal(legacy_post(&f->far, body), 503);
    assert_int_equal(legacy_post(&f->far, PING), 404);
    legacy_join(&f->far, &idle);
    assert_int_equal(legacy_post(&f->far, body), 200);

    release(f);
    assert_int_equal(client_response(&stranger), 404);
    forge_session(&f->far, &idle);
    assert_int_equal(legacy_post(&f->far, body), 404);
    client_done(&stranger);
    client_done(&idle);
    WAIT_UNTIL(&f->far, tdg__budget_used(budget_of(f)) == 0);
}

/* Its client has to learn that the session is over, too. */
static void a_larger_request_is_answered_where_it_is_the_only_one(void **state) {
    struct client stranger, idle;
    struct fixture *f = open_three(state, &stranger, &idle);
    const char *body;

    large_ping(MAX_VALUES, &body);
    size_t charged = keep_strangers_waiting(f, &stranger, 1, body);
    assert_in_range(charged, TDG__FORWARDS_MAX / 4 + 1, TDG__FORWARDS_MAX / 2);
    forge_session(&f->far, &idle);
    assert_int_equal(legacy_post(&f->far, PING), 503);
    legacy_join(&f->far, &idle);
    assert_int_equal(legacy_post(&f->far, PING), 200);

    release(f);
    assert_int_equal(client_response(&stranger), 404);
    client_done(&stranger);
    client_done(&idle);
}

static void a_body_is_refused_before_it_is_read(void **state) {
    const tdg_server_opts_t opts = {.max_message_bytes = 2000};
    struct fixture *f = open_with(state, &opts, LATEST_LEGACY);
    char text[300];

    snprintf(text, sizeof(text),
             "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nMcp-Session-Id: %s\r\n"
             "Content-Type: application/json\r\nContent-Length: 5000\r\n\r\n",
             f->post.session);
    client_send(&f->far, text);
    assert_int_equal(client_response(&f->far), 413);
}

/* ---- The end ------------------------------------------------------------ */

static void a_stop_lets_streams_say_what_they_have(void **state) {
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);

    open_get(&f->get);
    legacy_subscribe(&f->far, "a:1");
    served_change(&f->served, "a:1");
    tdg_server_stop_soon(f->served.server);
    client_expect(&f->get, "'uri':'a:1'");
    client_expect_end(&f->get);
    tdg_server_wait(f->served.server);
}

static void a_stop_waits_for_answers(void **state) {
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);

    legacy_send(&f->far, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);
    tdg_server_stop_soon(f->served.server);
    assert_int_equal(client_response_within(&f->far, 30), -1);
    tdg_request_reply_text(request, "still");
    assert_int_equal(client_response(&f->far), 200);
    assert_body(&f->far, "still");
    tdg_server_wait(f->served.server);
}

static void a_stop_does_not_wait_for_ever(void **state) {
    const tdg_server_opts_t opts = {.stop_timeout_ms = 50};
    struct fixture *f = open_with(state, &opts, LATEST_LEGACY);

    legacy_send(&f->far, HOLD);
    tdg_request_t *request = served_take(&f->served, &f->post);
    tdg_server_stop_soon(f->served.server);
    assert_int_equal(client_response(&f->far), 503);
    assert_body(&f->far, "'id':7");
    tdg_server_wait(f->served.server);
    tdg_request_reply_text(request, "too late");
}

/* Serving one takes longer than they have in a turn, and the next turn is the last. */
static void a_stop_refuses_what_still_waits(void **state) {
    enum { WAITING = 3 };
    const tdg_server_opts_t opts = {.stop_timeout_ms = 50};
    struct fixture *f = open_with(state, &opts, LATEST_LEGACY);
    struct client strangers[WAITING];
    const char *body;

    for (int i = 0; i < WAITING; i++) {
        client_init(&strangers[i], NULL);
        connect_far(f, &strangers[i]);
        forge_session(&strangers[i], &f->post);
    }
    large_ping(15000, &body);
    size_t charged = keep_strangers_waiting(f, strangers, WAITING, body);
    assert_true(charged <= TDG__FORWARDS_MAX / 4); /* so they all wait */
    tdg_server_stop_soon(f->served.server);
    for (int i = 0; i < WAITING; i++) /* by the worker of its connection, which stops */
        assert_int_equal(client_response(&strangers[i]), 503);
    sem_post(&f->gate);
    tdg_server_wait(f->served.server);
    assert_int_equal(tdg__budget_used(budget_of(f)), 0);
    for (int i = 0; i < WAITING; i++)
        client_done(&strangers[i]);
}

/* ---- Without memory ----------------------------------------------------- */

static atomic_long fails_in; /* allocations; 0: none fails */

static bool fails_now(void) {
    return atomic_load(&fails_in) > 0 && atomic_fetch_sub(&fails_in, 1) == 1;
}

static void *allocate(size_t size) {
    return fails_now() ? NULL : malloc(size);
}

static void *reallocate(void *ptr, size_t size) {
    return fails_now() ? NULL : realloc(ptr, size);
}

/* Answered, or refused, or the connection is closed; and the next one works. */
static void a_request_without_memory_ends(void **state) {
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);
    static const char *const bodies[] = {
        PING,
        "{'jsonrpc':'2.0','id':1,'method':'resources/subscribe','params':{'uri':'a:1'}}",
    };

    for (size_t i = 0; i < COUNT(bodies); i++) {
        int left = 1;

        for (int nth = 1; nth < 80 && left > 0; nth++) {
            atomic_store(&fails_in, nth);
            legacy_send(&f->far, bodies[i]);
            int status = client_response(&f->far);
            left = atomic_exchange(&fails_in, 0) <= 0;
            assert_true(status == 200 || status == 500 || status == 503 || status == 0);
            if (status == 0)
                connect_far(f, &f->far);
            assert_int_equal(legacy_post(&f->far, bodies[i]), 200);
        }
        assert_int_equal(left, 0);
    }
    for (int nth = 1; nth < 60; nth++) {
        connect_far(f, &f->get);
        atomic_store(&fails_in, nth);
        int status = legacy_get(&f->get, NULL);
        bool all = atomic_exchange(&fails_in, 0) > 0;
        client_reset(&f->get);
        if (legacy_post(&f->far, PING) == 404)
            break; /* a session whose stream had no memory has ended */
        if (all && status == 200)
            break;
    }
    WAIT_UNTIL(&f->post, tdg__budget_used(budget_of(f)) == 0);
}

/* 503 asks for a retry, which would run a tool twice. */
static void a_call_that_has_run_is_not_refused(void **state) {
    struct fixture *f = open_with(state, NULL, LATEST_LEGACY);
    int left = 1;

    for (int nth = 1; nth < 120 && left > 0; nth++) {
        int before = f->counted;

        atomic_store(&fails_in, nth);
        legacy_send(&f->far, "{'jsonrpc':'2.0','id':1,'method':'tools/call','params':{"
                             "'name':'count'}}");
        int status = client_response(&f->far);
        left = atomic_exchange(&fails_in, 0) <= 0;
        assert_in_range(f->counted - before, 0, 1);
        if (f->counted > before)
            assert_int_not_equal(status, 503);
        if (status == 0)
            connect_far(f, &f->far);
    }
    assert_int_equal(left, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_kind_of_request_is_served),
        TEST(pipelined_requests_are_answered_in_order),
        TEST(messages_of_the_old_pair_are_served),
        TEST(requests_without_a_session_wait_for_those_with_one),
        TEST(a_stream_carries_what_changes),
        TEST(a_slow_reader_learns_the_last_state),
        TEST(an_answer_that_takes_long_becomes_a_stream),
        TEST(an_answer_has_no_lifetime),
        TEST(a_resumed_answer_has_no_lifetime),
        TEST(a_stream_whose_time_is_over_ends),
        TEST(an_answer_waits_for_a_client_that_lost_its_connection),
        TEST(what_leaves_in_the_middle_leaves_nothing_behind),
        TEST(an_answer_that_was_not_written_acknowledges_nothing),
        TEST(without_room_a_request_is_refused_for_a_while),
        TEST(a_body_counts_as_what_it_takes),
        TEST(requests_without_a_session_share_a_quarter),
        TEST(a_larger_request_is_answered_where_it_is_the_only_one),
        TEST(a_body_is_refused_before_it_is_read),
        TEST(a_stop_lets_streams_say_what_they_have),
        TEST(a_stop_waits_for_answers),
        TEST(a_stop_does_not_wait_for_ever),
        TEST(a_stop_refuses_what_still_waits),
        TEST(a_request_without_memory_ends),
        TEST(a_call_that_has_run_is_not_refused),
    };

    tdg_set_allocator(&(tdg_allocator_t){allocate, reallocate, free});
    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("forward", tests, NULL, NULL);
}
