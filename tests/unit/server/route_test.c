/* SPDX-License-Identifier: MIT
 *
 * Further paths on the listeners of a server: who gets which request, answers at once and
 * from other threads, and requests whose client or server goes first. */
#include "server/http/route.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "served.h"

enum { MAX_WAITING = 16, HAMMERS = 3, BLOWS = 150 };

struct fixture {
    struct served served;
    struct client client;
    pthread_mutex_t lock;
    pthread_cond_t came;
    tdg__route_request_t *waiting[MAX_WAITING]; /* oldest first */
    size_t waiting_count;
    atomic_int released;
    atomic_bool stop;
};

/* ---- Handlers ----------------------------------------------------------- */

/* Says what it was asked. */
static void say(void *user, tdg__route_request_t *request) {
    const tdg__http_request_t *http = tdg__route_http(request);
    const char *field = tdg__http_field(http, "x-word");
    char text[512];

    int len = snprintf(text, sizeof(text), "%s|%d|%s|%s|%s|%s|%.*s", (const char *)user,
                       (int)http->method, http->path, http->query,
                       field != NULL ? field : "none", tdg__route_peer(request),
                       (int)http->body_len, http->body);
    tdg__route_reply(request, 200, "text/plain", "X-Answer: yes\r\n", text, (size_t)len);
}

static void measure(void *user, tdg__route_request_t *request) {
    char text[32];
    int len =
        snprintf(text, sizeof(text), "%zu bytes", tdg__route_http(request)->body_len);

    (void)user;
    tdg__route_reply(request, 200, "text/plain", NULL, text, (size_t)len);
}

static void keep(void *user, tdg__route_request_t *request) {
    struct fixture *f = user;

    pthread_mutex_lock(&f->lock);
    if (f->waiting_count == MAX_WAITING)
        abort();
    f->waiting[f->waiting_count++] = request;
    pthread_cond_signal(&f->came);
    pthread_mutex_unlock(&f->lock);
}

static size_t count_waiting(struct fixture *f) {
    pthread_mutex_lock(&f->lock);
    size_t count = f->waiting_count;
    pthread_mutex_unlock(&f->lock);
    return count;
}

static tdg__route_request_t *pop(struct fixture *f) {
    tdg__route_request_t *request = f->waiting[0];

    f->waiting_count--;
    memmove(f->waiting, f->waiting + 1, f->waiting_count * sizeof(request));
    return request;
}

static tdg__route_request_t *take(struct fixture *f) {
    WAIT_UNTIL(&f->client, count_waiting(f) > 0);
    pthread_mutex_lock(&f->lock);
    tdg__route_request_t *request = pop(f);
    pthread_mutex_unlock(&f->lock);
    return request;
}

static void release(void *user) {
    struct fixture *f = user;

    atomic_fetch_add(&f->released, 1);
}

/* ---- Fixture ------------------------------------------------------------ */

static char one[] = "one", two[] = "two", deep[] = "deep";

static void add_route(struct fixture *f, const tdg__route_t *route) {
    tdg__route_t all = *route;

    if (all.methods == 0)
        all.methods = 1u << TDG__HTTP_POST;
    if (all.max_body_bytes == 0)
        all.max_body_bytes = 1024;
    assert_int_equal(tdg__server_route(f->served.server, &all), 0);
}

static void add_say(struct fixture *f, const char *path, char *word) {
    add_route(f, &(tdg__route_t){.path = path, .handler = say, .user = word});
}

static void add_keep(struct fixture *f, uint32_t timeout_ms) {
    add_route(f, &(tdg__route_t){.path = "/keep",
                                 .handler = keep,
                                 .user = f,
                                 .release = release,
                                 .timeout_ms = timeout_ms});
}

static int setup(void **state) {
    static const tdg_server_opts_t opts = {.workers = 3,
                                           .max_message_bytes = 4096,
                                           .keepalive_ms = 40,
                                           .stop_timeout_ms = 300};
    struct fixture *f = calloc(1, sizeof(*f));

    if (f == NULL)
        return 1;
    *state = f;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->came, NULL);
    served_open(&f->served, &opts, NULL);
    served_client(&f->served, &f->client);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    client_done(&f->client);
    if (f->served.server != NULL)
        served_close(&f->served);
    pthread_cond_destroy(&f->came);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return 0;
}

static int call(struct client *client, const char *method, const char *path,
                const char *fields, const char *body) {
    client_request(client, method, path, fields, body);
    return client_response(client);
}

/* ---- Who gets what ------------------------------------------------------ */

static void a_request_comes_with_all_that_was_sent(void **state) {
    struct fixture *f = *state;
    char value[256];

    add_say(f, "/say", one);
    assert_int_equal(
        call(&f->client, "POST", "/say?a=b%20c", "X-Word: hello\r\n", "the body"), 200);
    assert_body(&f->client, "one|5|/say|a=b%20c|hello|127.0.0.1|the body");
    client_header(&f->client, "Content-Type", value);
    assert_string_equal(value, "text/plain");
    client_header(&f->client, "X-Answer", value);
    assert_string_equal(value, "yes");
    client_header(&f->client, "Connection", value);
    assert_string_equal(value, "keep-alive");

    /* ... and the connection goes on. */
    assert_int_equal(call(&f->client, "POST", "/say", NULL, ""), 200);
    assert_body(&f->client, "one|5|/say||none|127.0.0.1|");
    legacy_initialize(&f->client, LATEST_LEGACY);
}

static void the_longest_path_counts(void **state) {
    struct fixture *f = *state;

    add_say(f, "/hooks/", one);
    add_say(f, "/hooks/two", two);
    add_say(f, "/hooks/deep/", deep);
    assert_int_equal(call(&f->client, "POST", "/hooks/a", NULL, ""), 200);
    assert_body(&f->client, "one|5|/hooks/a|");
    assert_int_equal(call(&f->client, "POST", "/hooks/two", NULL, ""), 200);
    assert_body(&f->client, "two|");
    assert_int_equal(call(&f->client, "POST", "/hooks/two/more", NULL, ""), 200);
    assert_body(&f->client, "one|");
    assert_int_equal(call(&f->client, "POST", "/hooks/deep/er", NULL, ""), 200);
    assert_body(&f->client, "deep|");
    assert_int_equal(call(&f->client, "POST", "/hooks", NULL, ""), 404);
}

static void the_paths_of_the_protocol_stay(void **state) {
    struct fixture *f = *state;

    add_say(f, "/mcp", one);
    add_say(f, "/", two);
    legacy_initialize(&f->client, LATEST_LEGACY);
    assert_int_equal(call(&f->client, "PUT", "/mcp", NULL, NULL), 405);
    assert_int_equal(call(&f->client, "POST", "/any", NULL, ""), 200);
    assert_body(&f->client, "two|");
}

static void another_method_is_told_which_there_are(void **state) {
    struct fixture *f = *state;
    char value[256];

    add_route(f, &(tdg__route_t){.path = "/say",
                                 .handler = say,
                                 .user = one,
                                 .methods = 1u << TDG__HTTP_POST | 1u << TDG__HTTP_PUT});
    assert_int_equal(call(&f->client, "GET", "/say", NULL, NULL), 405);
    client_header(&f->client, "Allow", value);
    assert_string_equal(value, "POST, PUT, OPTIONS");
    assert_int_equal(call(&f->client, "OPTIONS", "/say", NULL, NULL), 204);
    client_header(&f->client, "Access-Control-Allow-Methods", value);
    assert_string_equal(value, "POST, PUT, OPTIONS");
    assert_int_equal(call(&f->client, "PUT", "/say", NULL, "x"), 200);
}

static void what_is_no_route_is_not_taken(void **state) {
    struct fixture *f = *state;
    const tdg__route_t good = {
        .path = "/x", .handler = say, .methods = 1, .max_body_bytes = 1};
    tdg__route_t bad[5] = {good, good, good, good, good};

    bad[0].path = NULL;
    bad[1].path = "x";
    bad[2].handler = NULL;
    bad[3].methods = 0;
    bad[4].max_body_bytes = (size_t)TDG__ROUTE_MAX_BODY + 1;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(tdg__server_route(f->served.server, &bad[i]), TDG_EINVAL);
    assert_int_equal(tdg__server_unroute(f->served.server, "/x"), TDG_ENOTFOUND);
}

static void there_is_a_limit_to_routes(void **state) {
    struct fixture *f = *state;
    char path[32];
    tdg__route_t more = {.path = "/one-more", .handler = say, .methods = 1};

    for (int i = 0; i < TDG__ROUTE_MAX; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        add_say(f, path, one);
    }
    assert_int_equal(tdg__server_route(f->served.server, &more), TDG_EINVAL);
    add_say(f, "/7", two); /* replacing one is fine */
    assert_int_equal(call(&f->client, "POST", "/7", NULL, ""), 200);
    assert_body(&f->client, "two|");
}

static void host_and_origin_are_checked_before(void **state) {
    struct fixture *f = *state;
    char value[256];

    add_say(f, "/say", one);
    assert_int_equal(
        call(&f->client, "POST", "/say", "Origin: http://evil.example\r\n", ""), 403);
    assert_int_equal(
        call(&f->client, "POST", "/say", "Origin: http://localhost:5173\r\n", ""), 200);
    client_header(&f->client, "Access-Control-Allow-Origin", value);
    assert_string_equal(value, "http://localhost:5173");

    client_send(&f->client, "POST /say HTTP/1.1\r\nHost: evil.example\r\n"
                            "Content-Length: 0\r\n\r\n");
    assert_int_equal(client_response(&f->client), 403);
}

/* ---- Bodies ------------------------------------------------------------- */

static void a_body_that_is_too_large_is_refused_before_it_is_read(void **state) {
    struct fixture *f = *state;

    add_say(f, "/say", one);
    client_send(&f->client, "POST /say HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Length: 1025\r\n\r\n");
    assert_int_equal(client_response(&f->client), 413);

    client_connect(&f->client, f->served.port);
    client_send(&f->client, "POST /say HTTP/1.1\r\nHost: localhost\r\n"
                            "Transfer-Encoding: chunked\r\n\r\n400\r\n");
    for (int i = 0; i < 1024 / 16; i++)
        client_send(&f->client, "0123456789abcdef");
    client_send(&f->client, "\r\n1\r\n");
    assert_int_equal(client_response(&f->client), 413);

    client_connect(&f->client, f->served.port);
    client_send(&f->client, "POST /say HTTP/1.1\r\nHost: localhost\r\n"
                            "Expect: 100-continue\r\nContent-Length: 1025\r\n\r\n");
    assert_int_equal(client_response(&f->client), 413);
}

/* Sends a head that promises a body, and no body. Returns the status. */
static int send_head(struct fixture *f, const char *start, const char *fields) {
    char text[512];

    client_connect(&f->client, f->served.port);
    snprintf(text, sizeof(text),
             "%s HTTP/1.1\r\n%sContent-Length: 9\r\nExpect: 100-continue\r\n\r\n", start,
             fields);
    client_send(&f->client, text);
    return client_response(&f->client);
}

#define LOCAL "Host: localhost\r\n"
#define JSON "Content-Type: application/json\r\n"

static void the_head_is_judged_before_the_body_is_read(void **state) {
    struct fixture *f = *state;
    static const struct {
        const char *start, *fields;
        int status;
    } rows[] = {
        {"POST /mcp", "Host: evil.example\r\n" JSON, 403},
        {"POST /mcp", LOCAL "Origin: http://a.example\r\n", 403},
        {"POST /mcp", LOCAL "Content-Type: text/plain\r\n", 415},
        {"PUT /mcp", LOCAL JSON, 405},
        {"POST /nowhere", LOCAL JSON, 404},
        {"POST /health", LOCAL JSON, 405},
        {"DELETE /say", LOCAL JSON, 405},
        {"POST /messages", LOCAL, 415},
        {"POST /mcp", LOCAL JSON, 100},
        {"POST /say", LOCAL, 100},
    };
    char connection[256], word[] = "a";

    add_say(f, "/say", word);
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(send_head(f, rows[i].start, rows[i].fields), rows[i].status);
        client_header(&f->client, "Connection", connection);
        assert_string_equal(connection, rows[i].status == 100 ? "" : "close");
    }
}

static void each_route_has_its_own_limit(void **state) {
    struct fixture *f = *state;
    size_t len = 100000; /* more than the protocol's own messages may have here */
    char *body = malloc(len + 1);

    assert_non_null(body);
    memset(body, 'x', len);
    body[len] = '\0';
    add_route(f, &(tdg__route_t){
                     .path = "/large", .handler = measure, .max_body_bytes = 100000});
    assert_int_equal(call(&f->client, "POST", "/large", NULL, body), 200);
    assert_body(&f->client, "100000 bytes");
    free(body);

    client_send(&f->client, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Length: 4097\r\n\r\n");
    assert_int_equal(client_response(&f->client), 413);
}

/* ---- Answers that come later -------------------------------------------- */

static void an_answer_may_come_later_from_another_thread(void **state) {
    struct fixture *f = *state;

    add_keep(f, 0);
    for (int i = 0; i < 3; i++) {
        client_request(&f->client, "POST", "/keep?x", "X-Word: w\r\n", "body");
        tdg__route_request_t *request = take(f);
        const tdg__http_request_t *http = tdg__route_http(request);

        /* All of it is there still, and another client is served meanwhile. */
        assert_string_equal(http->path, "/keep");
        assert_string_equal(http->query, "x");
        assert_string_equal(tdg__http_field(http, "x-word"), "w");
        assert_int_equal(http->body_len, 4);
        assert_memory_equal(http->body, "body", 5);
        assert_int_equal(client_response_within(&f->client, 100), -1);
        tdg__route_reply(request, 202, NULL, "X-Late: yes\r\n", NULL, 0);
        assert_int_equal(client_response(&f->client), 202);
        assert_true(strstr(f->client.head, "X-Late: yes\r\n") != NULL);
    }
}

static void an_answer_to_nobody_goes_nowhere(void **state) {
    struct fixture *f = *state;

    add_keep(f, 0);
    client_request(&f->client, "POST", "/keep", NULL, "body");
    tdg__route_request_t *request = take(f);
    client_reset(&f->client);
    WAIT_COUNTER(&f->served, &f->client, connections, 0);
    tdg__route_reply(request, 200, "text/plain", NULL, "x", 1);

    client_connect(&f->client, f->served.port);
    client_request(&f->client, "POST", "/keep", NULL, "again");
    tdg__route_reply(take(f), 200, "text/plain", NULL, "fine", 4);
    assert_int_equal(client_response(&f->client), 200);
    assert_body(&f->client, "fine");
}

static void who_waits_too_long_gets_504(void **state) {
    struct fixture *f = *state;

    add_keep(f, 50);
    client_request(&f->client, "POST", "/keep", NULL, "body");
    tdg__route_request_t *request = take(f);
    assert_int_equal(client_response(&f->client), 504);
    tdg__route_reply(request, 200, "text/plain", NULL, "x", 1);

    add_say(f, "/say",
            one); /* the connection goes on, and the late answer is not on it */
    assert_int_equal(call(&f->client, "POST", "/say", NULL, ""), 200);
    assert_body(&f->client, "one|");
}

static void what_is_unanswered_when_the_server_stops_gets_503(void **state) {
    struct fixture *f = *state;

    add_keep(f, 0);
    client_request(&f->client, "POST", "/keep", NULL, "body");
    tdg__route_request_t *request = take(f);
    tdg_server_stop_soon(f->served.server);
    assert_int_equal(client_response(&f->client), 503);
    served_close(&f->served);
    assert_int_equal(f->released, 0);
    tdg__route_reply(request, 200, "text/plain", NULL, "x", 1); /* the server is gone */
    assert_int_equal(f->released, 1);
}

/* ---- While it runs ------------------------------------------------------ */

static void a_route_can_be_replaced_and_removed(void **state) {
    struct fixture *f = *state;

    add_keep(f, 0);
    client_request(&f->client, "POST", "/keep", NULL, "body");
    tdg__route_request_t *request = take(f);
    add_say(f, "/keep", two);
    assert_int_equal(f->released, 0); /* one is being answered */
    tdg__route_reply(request, 200, NULL, NULL, NULL, 0);
    assert_int_equal(client_response(&f->client), 200);
    WAIT_UNTIL(&f->client, f->released == 1);

    assert_int_equal(call(&f->client, "POST", "/keep", NULL, ""), 200);
    assert_body(&f->client, "two|");
    assert_int_equal(tdg__server_unroute(f->served.server, "/keep"), 0);
    assert_int_equal(call(&f->client, "POST", "/keep", NULL, ""), 404);
    add_keep(f, 0);
    assert_int_equal(tdg__server_unroute(f->served.server, "/keep"), 0);
    assert_int_equal(f->released, 2);
}

/* Answers what is kept, on a thread of its own. */
static void *answer_all(void *arg) {
    struct fixture *f = arg;

    pthread_mutex_lock(&f->lock);
    while (!f->stop) {
        if (f->waiting_count == 0) {
            pthread_cond_wait(&f->came, &f->lock);
            continue;
        }
        tdg__route_request_t *request = pop(f);
        pthread_mutex_unlock(&f->lock);
        tdg__route_reply(request, 200, "text/plain", NULL, "answered", 8);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static void *hammer(void *arg) {
    struct fixture *f = arg;
    struct client client;

    served_client(&f->served, &client);
    for (int i = 0; i < BLOWS; i++) {
        client_request(&client, "POST", "/keep", NULL, "body");
        if (i % 10 == 9) { /* and does not wait for the answer */
            client_reset(&client);
            client_connect(&client, f->served.port);
        } else if (client_response(&client) != 200) {
            abort();
        }
    }
    client_done(&client);
    return NULL;
}

static void many_ask_while_routes_come_and_go(void **state) {
    struct fixture *f = *state;
    pthread_t answering, hammers[HAMMERS];

    add_keep(f, 0);
    assert_int_equal(pthread_create(&answering, NULL, answer_all, f), 0);
    for (int i = 0; i < HAMMERS; i++)
        assert_int_equal(pthread_create(&hammers[i], NULL, hammer, f), 0);
    for (int i = 0; i < 300; i++) {
        add_keep(f, 0);
        add_say(f, "/other", one);
        tdg__server_unroute(f->served.server, "/other");
        usleep(500);
    }
    for (int i = 0; i < HAMMERS; i++)
        pthread_join(hammers[i], NULL);
    WAIT_COUNTER(&f->served, &f->client, connections, 1);
    WAIT_UNTIL(&f->client, count_waiting(f) == 0);
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_signal(&f->came);
    pthread_mutex_unlock(&f->lock);
    pthread_join(answering, NULL);
    assert_int_equal(tdg__server_unroute(f->served.server, "/keep"), 0);
    WAIT_UNTIL(&f->client, f->released == 301); /* each of them, once */
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_request_comes_with_all_that_was_sent),
        CASE(the_longest_path_counts),
        CASE(the_paths_of_the_protocol_stay),
        CASE(another_method_is_told_which_there_are),
        CASE(what_is_no_route_is_not_taken),
        CASE(there_is_a_limit_to_routes),
        CASE(host_and_origin_are_checked_before),
        CASE(a_body_that_is_too_large_is_refused_before_it_is_read),
        CASE(the_head_is_judged_before_the_body_is_read),
        CASE(each_route_has_its_own_limit),
        CASE(an_answer_may_come_later_from_another_thread),
        CASE(an_answer_to_nobody_goes_nowhere),
        CASE(who_waits_too_long_gets_504),
        CASE(what_is_unanswered_when_the_server_stops_gets_503),
        CASE(a_route_can_be_replaced_and_removed),
        CASE(many_ask_while_routes_come_and_go),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
