/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "served.h"
#include "server/log/log.h"

/* ---- What was said ------------------------------------------------------ */

enum { MAX_LINES = 200 };

struct lines {
    pthread_mutex_t lock;
    size_t count;
    struct {
        tdg_log_level_t level;
        char text[TDG_LOG_MAX + 1];
    } lines[MAX_LINES];
};

static void write_down(void *user, tdg_log_level_t level, const char *message) {
    struct lines *lines = user;

    pthread_mutex_lock(&lines->lock);
    assert_true(lines->count < MAX_LINES);
    assert_true(strlen(message) <= TDG_LOG_MAX);
    lines->lines[lines->count].level = level;
    strcpy(lines->lines[lines->count].text, message);
    lines->count++;
    pthread_mutex_unlock(&lines->lock);
}

/* Servers with threads: memory that is counted is for one thread. */
static int setup(void **state) {
    struct lines *lines = calloc(1, sizeof(*lines));

    if (lines == NULL)
        return -1;
    pthread_mutex_init(&lines->lock, NULL);
    *state = lines;
    return 0;
}

static int teardown(void **state) {
    struct lines *lines = *state;

    pthread_mutex_destroy(&lines->lock);
    free(lines);
    return 0;
}

/* How many lines hold the text. */
static size_t said(struct lines *lines, const char *text) {
    size_t count = 0;

    pthread_mutex_lock(&lines->lock);
    for (size_t i = 0; i < lines->count; i++)
        count += strstr(lines->lines[i].text, text) != NULL;
    pthread_mutex_unlock(&lines->lock);
    return count;
}

static void expect_line(const struct lines *lines, size_t index, tdg_log_level_t level,
                        const char *text) {
    assert_true(index < lines->count);
    assert_string_equal(lines->lines[index].text, text);
    assert_int_equal(lines->lines[index].level, level);
}

/* ---- Events ------------------------------------------------------------- */

#define REFUSED                                                                          \
    "a connection was refused: the limit max_connections (config: max-connections) is "  \
    "reached"
#define NOT_ACCEPTED "connections cannot be accepted at the moment"

static void what_repeats_is_counted_for_a_second(void **state) {
    struct lines *lines = *state;
    tdg__log_t log;

    tdg__log_init(&log, write_down, lines);
    for (int i = 0; i < 10; i++)
        tdg__log_event(&log, TDG__EVENT_CONNECTION_REFUSED, NULL, 5000 + i);
    tdg__log_event(&log, TDG__EVENT_NOT_ACCEPTED, "why", 5005); /* another kind */
    tdg__log_settle(&log, 5999);
    assert_int_equal(lines->count, 2);
    expect_line(lines, 0, TDG_LOG_WARNING, REFUSED);
    expect_line(lines, 1, TDG_LOG_ERROR, NOT_ACCEPTED ": why");

    /* The count is told though nothing else happens, and begins a second as well. */
    tdg__log_settle(&log, 6000);
    tdg__log_settle(&log, 6001);
    assert_int_equal(lines->count, 3);
    expect_line(lines, 2, TDG_LOG_WARNING, REFUSED " (9 more)");
    tdg__log_event(&log, TDG__EVENT_CONNECTION_REFUSED, NULL, 6500);
    assert_int_equal(lines->count, 3);

    /* Nor does it wait for the next one of its kind. */
    tdg__log_event(&log, TDG__EVENT_NOT_ACCEPTED, "again", 7000);
    assert_int_equal(lines->count, 5);
    expect_line(lines, 3, TDG_LOG_WARNING, REFUSED " (1 more)");
    expect_line(lines, 4, TDG_LOG_ERROR, NOT_ACCEPTED ": again");

    tdg__log_event(&log, TDG__EVENT_NOT_ACCEPTED, "last", 7001);
    tdg__log_settle(&log, INT64_MAX); /* the end */
    assert_int_equal(lines->count, 6);
    expect_line(lines, 5, TDG_LOG_ERROR, NOT_ACCEPTED " (1 more)");
    tdg__log_done(&log);
}

static void every_event_has_words(void **state) {
    struct lines *lines = *state;
    tdg__log_t log;

    tdg__log_init(&log, write_down, lines);
    for (int i = 0; i < TDG__EVENT_COUNT; i++) {
        tdg__log_event(&log, (tdg__event_t)i, NULL, 0);
        assert_int_equal(lines->count, i + 1);
        assert_true(strlen(lines->lines[i].text) > 10);
        assert_true(lines->lines[i].level >= TDG_LOG_WARNING);
    }
    tdg__log_done(&log);
}

static void nobody_needs_to_listen(void **state) {
    tdg__log_t log;

    (void)state;
    tdg__log_init(&log, NULL, NULL);
    tdg__log_event(&log, TDG__EVENT_NOT_ACCEPTED, NULL, 0);
    tdg__log_event(&log, TDG__EVENT_NOT_ACCEPTED, NULL, 0);
    tdg__log_settle(&log, INT64_MAX);
    tdg__log_done(&log);
}

/* ---- Lines -------------------------------------------------------------- */

static void a_message_is_one_line_of_text(void **state) {
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"plain", "plain"},
        {"a\nb\r\tc\x1b[", "a?b??c?["},
        {"\x7f", "?"},
        {"\xc3\xa4", "\xc3\xa4"},
        {"\xc2\x9b\xc2\xa0", "??\xc2\xa0"},
        {"\xff \xc3\xa4", "? ??"},
    };
    struct lines *lines = *state;
    tdg_server_opts_t opts = {.log = write_down, .log_user = lines};
    tdg_server_t *server;

    assert_int_equal(tdg_server_create(&opts, &server), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        tdg__server_log(server, TDG_LOG_DEBUG, "%s", rows[i].text);
        expect_line(lines, i, TDG_LOG_DEBUG, rows[i].expected);
    }
    tdg_server_destroy(server);
    assert_int_equal(lines->count, COUNT(rows)); /* it never ran */
}

static void a_long_message_is_cut_between_characters(void **state) {
    struct lines *lines = *state;
    tdg_server_opts_t opts = {.log = write_down, .log_user = lines};
    char text[2 * TDG_LOG_MAX + 1];
    tdg_server_t *server;

    assert_int_equal(tdg_server_create(&opts, &server), 0);
    for (size_t shift = 0; shift < 4; shift++) {
        const size_t at = TDG_LOG_MAX - shift;

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        memcpy(text + at, "\xf0\x9f\x98\x80", 4);
        tdg__server_log(server, TDG_LOG_INFO, "%s", text);
        assert_int_equal(strlen(lines->lines[shift].text), at);
    }
    tdg_server_destroy(server);
}

/* ---- What a server says ------------------------------------------------- */

static void tells_where_it_listens_and_that_it_stops(void **state) {
    struct lines *lines = *state;
    tdg_server_opts_t opts = {
        .log = write_down, .log_user = lines, .workers = 2, .name = "n", .version = "v"};
    char listening[100];
    struct served served;

    served_open(&served, &opts, NULL);
    snprintf(listening, sizeof(listening), "listening on http://127.0.0.1:%u/mcp",
             served.port);
    assert_int_equal(said(lines, "stop"), 0);
    tdg_server_stop(served.server);
    tdg_server_stop(served.server);
    served_destroy(&served);

    assert_int_equal(lines->count, 4);
    expect_line(lines, 0, TDG_LOG_INFO, listening);
    expect_line(lines, 1, TDG_LOG_INFO, "started: n v, 2 workers");
    expect_line(lines, 2, TDG_LOG_INFO, "stopping");
    expect_line(lines, 3, TDG_LOG_INFO, "stopped");
}

static void tells_that_a_stop_was_forced(void **state) {
    struct lines *lines = *state;
    tdg_server_opts_t opts = {
        .log = write_down, .log_user = lines, .stop_timeout_ms = 50};
    tdg_request_t *request;
    struct client client;
    struct served served;

    served_open(&served, &opts, NULL);
    served_client(&served, &client);
    legacy_initialize(&client, LATEST_LEGACY);
    legacy_send(&client, HOLD);
    request = served_take(&served, &client);
    tdg_server_stop(served.server);
    assert_int_equal(said(lines, "stop_timeout_ms (config: stop-timeout) has expired; "
                                 "connections cut: 1"),
                     1);
    expect_line(lines, lines->count - 1, TDG_LOG_INFO, "stopped");
    tdg_request_reply_text(request, "late");
    client_done(&client);
    served_destroy(&served);
}

static void tells_that_connections_are_refused(void **state) {
    struct lines *lines = *state;
    tdg_server_opts_t opts = {.log = write_down, .log_user = lines, .max_connections = 1};
    struct client first, other;
    struct served served;
    size_t refused = 0;

    served_open(&served, &opts, NULL);
    served_client(&served, &first);
    legacy_initialize(&first, LATEST_LEGACY);
    /* Two within a second are enough: then the count comes by itself. */
    for (uint64_t until = now_ms() + CLIENT_PATIENCE_MS;
         said(lines, " more)") == 0 && now_ms() < until; refused++) {
        served_client(&served, &other);
        assert_int_equal(client_response(&other), 503);
        client_done(&other);
    }
    assert_true(said(lines, " more)") > 0);
    client_done(&first);
    served_close(&served);
    assert_in_range(said(lines, REFUSED), 2, refused);
}

static void tells_that_sessions_are_refused(void **state) {
    struct lines *lines = *state;
    tdg_server_opts_t opts = {.log = write_down, .log_user = lines, .max_sessions = 1};
    struct client client;
    struct served served;

    served_open(&served, &opts, NULL);
    served_client(&served, &client);
    legacy_initialize(&client, LATEST_LEGACY);
    assert_int_equal(legacy_post(&client, "{'jsonrpc':'2.0','id':1,'method':'ping'}"),
                     200);
    client_request(&client, "POST", "/mcp", NULL,
                   "{'jsonrpc':'2.0','id':1,'method':'initialize','params':"
                   "{'protocolVersion':'2025-11-25','capabilities':{},"
                   "'clientInfo':{'name':'c','version':'1'}}}");
    assert_int_equal(client_response(&client), 503);
    client_request(&client, "GET", "/sse", NULL, NULL);
    assert_int_equal(client_response(&client), 503);
    assert_int_equal(said(lines, "a session was refused: the limit max_sessions (config: "
                                 "max-sessions) is reached"),
                     1);
    assert_int_equal(said(lines, "max_streams"), 0);
    client_done(&client);
    served_close(&served);
}

/* Without descriptors; the client has its own already. */
static void tells_that_it_cannot_accept(void **state) {
    struct lines *lines = *state;
    tdg_server_opts_t opts = {.log = write_down, .log_user = lines};
    struct rlimit before, none;
    struct client client;
    struct served served;

    served_open(&served, &opts, NULL);
    client_init(&client, NULL);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)dup(0) + 1; /* one more than are open: the client's */
    close((int)none.rlim_cur - 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    client_connect(&client, served.port);
    WAIT_UNTIL(&client, said(lines, NOT_ACCEPTED ": too many open files") > 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    client_request(&client, "GET", "/nowhere", NULL, NULL);
    assert_int_equal(client_response(&client), 404);
    client_done(&client);
    served_close(&served);
}

static void tells_what_was_lost_for_want_of_memory(void **state) {
    struct lines *lines = *state;
    tdg_server_opts_t opts = {.log = write_down, .log_user = lines};
    struct served served;

    memory_setup(NULL);
    served_create(&served, &opts);
    memory_fail(1, MEMORY_FROM_THEN_ON);
    assert_int_equal(tdg_server_remove_tool(served.server, "echo"), 0);
    memory_fail(0, MEMORY_ONCE);
    assert_int_equal(lines->count, 1);
    expect_line(lines, 0, TDG_LOG_ERROR,
                "could not notify clients that a list has changed: tools");
    served_destroy(&served);
    assert_int_equal(memory_teardown(NULL), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_repeats_is_counted_for_a_second),
        TEST(every_event_has_words),
        TEST(nobody_needs_to_listen),
        TEST(a_message_is_one_line_of_text),
        TEST(a_long_message_is_cut_between_characters),
        TEST(tells_where_it_listens_and_that_it_stops),
        TEST(tells_that_a_stop_was_forced),
        TEST(tells_that_connections_are_refused),
        TEST(tells_that_sessions_are_refused),
        TEST(tells_that_it_cannot_accept),
        TEST(tells_what_was_lost_for_want_of_memory), /* last: it counts from then on */
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
