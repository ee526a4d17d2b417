/* SPDX-License-Identifier: MIT
 *
 * The server stops, crashes, is silent, refuses us: what was missed is told afterwards,
 * and nothing else. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "source/common/checksum.h"
#include "source/postgres/pg_trigger.h"
#include "support.h"
#include "unit/source/harness.h"
#include "unit/source/pg_server.h"
#include "unit/targets.h"

static struct pg_server server;

struct fixture {
    struct harness harness;
    bool open;
    struct pg_proxy proxy;
};

#define TEMPLATE "pg://shop/orders/{id}"
#define ROWS "table: orders\nkey: id\nuri: " TEMPLATE "\nretry: 50ms\nretry-max: 200ms\n"

static void install(void) {
    tdg__pg_trigger_t trigger = {.table = {"public", "orders"}, .key_count = 1};
    tdg__text_t sql;

    strcpy(trigger.keys[0], "id");
    tdg__pg_channel(&trigger.table, trigger.channel);
    tdg__text_init(&sql, 1 << 20);
    tdg__pg_put_install(&sql, &trigger);
    pg_run(&server, "%s", sql.data);
    tdg__text_done(&sql);
}

static int setup(void **state) {
    pg_run(&server, "ALTER ROLE reader LOGIN; DROP TABLE IF EXISTS orders CASCADE;"
                    "CREATE TABLE orders (id int PRIMARY KEY, item text);"
                    "INSERT INTO orders SELECT i, 'item ' || i FROM "
                    "generate_series(1, 20) AS i; GRANT SELECT ON orders TO PUBLIC");
    install();
    *state = calloc(1, sizeof(struct fixture));
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    pg_proxy_stop(&f->proxy);
    if (f->open)
        harness_close(&f->harness);
    if (server.pid == 0)
        pg_server_start(&server);
    free(f);
    return 0;
}

static int start_server(void **state) {
    (void)state;
    memory_count();
    pg_server_create(&server);
    pg_run(&server,
           "CREATE ROLE reader LOGIN; CREATE ROLE locked LOGIN PASSWORD 'right'");
    return 0;
}

static int stop_server(void **state) {
    (void)state;
    pg_server_destroy(&server);
    return 0;
}

static struct harness *open_at(struct fixture *f, const char *conninfo,
                               const char *more) {
    char yaml[2048];

    snprintf(yaml, sizeof(yaml), "postgres: %s\n%s", conninfo, more);
    harness_open(&f->harness, yaml);
    f->open = true;
    return &f->harness;
}

static struct harness *open_source(struct fixture *f, const char *more) {
    return open_at(f, pg_conninfo(&server, "reader", 0), more);
}

/* Takes our connection away and keeps us out, while others change the table. */
static void shut_out(struct harness *h) {
    pg_run(&server, "ALTER ROLE reader NOLOGIN");
    pg_run(&server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE usename = 'reader'");
    harness_wait(h, LOGGED, "unreachable");
}

static void let_in(struct harness *h) {
    pg_run(&server, "ALTER ROLE reader LOGIN");
    harness_wait(h, LOGGED, "reachable again");
}

static void expect_nothing_more(struct harness *h) {
    /* A marker that comes through shows that the rest has been looked at. */
    pg_run(&server, "INSERT INTO orders VALUES (1000, 'marker')");
    harness_wait(h, CHANGED, "pg://shop/orders/1000");
    assert_int_equal(harness_count(h, CHANGED, NULL), 0);
    assert_int_equal(harness_count(h, DELETED, NULL), 0);
}

static void changes_while_we_are_shut_out_are_told(void **state) {
    struct harness *h = open_source(*state, ROWS);

    harness_watch_template(h, TEMPLATE);
    for (int round = 0; round < 3; round++) {
        shut_out(h);
        pg_run(&server, "INSERT INTO orders VALUES (%d, 'new')", 100 + round);
        pg_run(&server, "UPDATE orders SET item = 'other' WHERE id = %d", 1 + round);
        pg_run(&server, "DELETE FROM orders WHERE id = %d", 11 + round);
        let_in(h);
        char uri[3][64];
        for (int i = 0; i < 3; i++)
            snprintf(uri[i], sizeof(uri[i]), "pg://shop/orders/%d",
                     (i == 0   ? 100
                      : i == 1 ? 1
                               : 11) +
                         round);
        harness_wait(h, CHANGED, uri[0]);
        harness_wait(h, CHANGED, uri[1]);
        harness_wait(h, DELETED, uri[2]);
    }
    expect_nothing_more(h);
}

/* What was told before the outage is not told again after it. */
static void what_was_seen_before_the_outage_is_not_told_again(void **state) {
    struct harness *h = open_source(*state, ROWS);

    harness_watch_template(h, TEMPLATE);
    pg_run(&server, "UPDATE orders SET item = 'other' WHERE id = 5; DELETE FROM orders "
                    "WHERE id = 6; INSERT INTO orders VALUES (50, 'x')");
    harness_wait(h, CHANGED, "pg://shop/orders/5");
    harness_wait(h, DELETED, "pg://shop/orders/6");
    harness_wait(h, CHANGED, "pg://shop/orders/50");
    shut_out(h);
    let_in(h);
    expect_nothing_more(h);
}

static void a_watched_row_is_looked_at_after_the_outage(void **state) {
    struct harness *h = open_source(*state, ROWS);
    struct reading reading;
    const char *why;

    harness_watch(h, "pg://shop/orders/1");
    shut_out(h);
    reading = harness_read(h, "pg://shop/orders/1");
    assert_int_equal(reading.status, 0);
    assert_true(json_is_true(json_object_get(reading.metadata, "stale")));
    why = json_string_value(json_object_get(reading.metadata, "stale_reason"));
    assert_string_equal(why, "the source is unreachable");
    reading_done(&reading);

    pg_run(&server, "UPDATE orders SET item = 'other' WHERE id = 1");
    let_in(h);
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    harness_expect(h, "pg://shop/orders/1", "{\"id\":1,\"item\":\"other\"}");
}

static void more_rows_than_max_keys_are_warned_about(void **state) {
    struct harness *h = open_source(*state, ROWS "max-keys: 10\n");

    harness_watch_template(h, TEMPLATE);
    harness_wait(h, LOGGED, "more than max-keys (10) rows");
    shut_out(h);
    pg_run(&server, "UPDATE orders SET item = 'other'");
    let_in(h);
    harness_wait(h, LOGGED, "may have been missed");
    for (int i = 0; i < 10; i++)
        harness_wait(h, CHANGED, NULL);
}

/* Without anything to compare with, every row may have changed. */
static void a_template_watched_during_an_outage_tells_all(void **state) {
    struct harness *h;

    pg_run(&server, "ALTER ROLE reader NOLOGIN");
    h = open_source(*state, ROWS);
    assert_int_equal(tdg__source_watch(h->source, FOR_TEMPLATE(TEMPLATE), NULL),
                     TDG_EAGAIN);
    assert_int_equal(harness_wait(h, WATCHED, TEMPLATE)->status, 0);
    pg_run(&server, "DELETE FROM orders WHERE id > 3");
    let_in(h);
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    harness_wait(h, CHANGED, "pg://shop/orders/2");
    harness_wait(h, CHANGED, "pg://shop/orders/3");
}

static void on_time(uv_timer_t *timer) {
    *(bool *)timer->data = true;
}

static bool is_true(void *arg) {
    return *(bool *)arg;
}

/* Comes back when every timer has fired that is due by then. */
static void let_pass(struct harness *h, uint64_t wait_ms) {
    bool over = false;
    uv_timer_t timer;

    uv_timer_init(&h->loop, &timer);
    timer.data = &over;
    uv_timer_start(&timer, on_time, wait_ms, 0);
    harness_until(h, is_true, &over);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&h->loop, UV_RUN_NOWAIT);
}

/* It is watched because the server was unreachable, and cannot be compared afterwards.
 * That this is possible again shows in nothing of the table: a role was granted. */
static void a_table_that_cannot_be_compared_after_an_outage_is_retried(void **state) {
    struct harness *h;

    pg_run(&server, "ALTER ROLE reader NOLOGIN; CREATE ROLE team; "
                    "REVOKE ALL ON orders FROM PUBLIC; GRANT SELECT ON orders TO team; "
                    "GRANT SELECT (id) ON orders TO PUBLIC");
    h = open_source(*state, ROWS "probe: 100ms\n");
    assert_int_equal(tdg__source_watch(h->source, FOR_TEMPLATE(TEMPLATE),
                                       &(tdg__past_t){.unknown = true}),
                     TDG_EAGAIN);
    assert_int_equal(harness_wait(h, WATCHED, TEMPLATE)->status, 0);
    harness_wait(h, LOGGED, "unreachable");
    let_in(h);
    harness_wait(h, LOGGED, "cannot inspect");
    let_pass(h, 500);
    assert_int_equal(harness_count(h, LOGGED, NULL), 0);
    pg_run(&server, "GRANT team TO reader");
    for (int i = 1; i <= 20; i++)
        harness_wait(h, CHANGED, NULL);
    expect_nothing_more(h);
    pg_run(&server, "DROP TABLE orders; DROP ROLE team");
}

static void restart(struct harness *h, int signal) {
    pg_server_stop(&server, signal);
    harness_wait(h, LOGGED, "unreachable");
    pg_server_start(&server);
    pg_run(&server, "UPDATE orders SET item = item || '!' WHERE id IN (3, 4)");
    harness_wait(h, LOGGED, "reachable again");
    harness_wait(h, CHANGED, "pg://shop/orders/3");
    harness_wait(h, CHANGED, "pg://shop/orders/4");
}

static void a_server_that_restarts_or_crashes_is_found_again(void **state) {
    struct harness *h = open_source(*state, ROWS);

    harness_watch_template(h, TEMPLATE);
    harness_watch(h, "pg://shop/orders/3");
    restart(h, SIGINT);
    restart(h, SIGQUIT);
    restart(h, SIGKILL);
    expect_nothing_more(h);
}

static void a_silent_network_is_noticed(void **state) {
    struct fixture *f = *state;
    struct harness *h;

    pg_proxy_start(&f->proxy, &server);
    h = open_at(f, pg_conninfo(&server, "reader", f->proxy.port),
                ROWS "probe: 2s\nconnect-timeout: 5s\n");
    harness_watch_template(h, TEMPLATE);
    kill(f->proxy.pid, SIGSTOP);
    pg_run(&server, "UPDATE orders SET item = 'other' WHERE id = 9");
    harness_wait(h, LOGGED, "no answer within 2000 ms");
    kill(f->proxy.pid, SIGCONT);
    harness_wait(h, LOGGED, "reachable again");
    harness_wait(h, CHANGED, "pg://shop/orders/9");
    expect_nothing_more(h);
}

static void a_silent_server_ends_reads_in_time(void **state) {
    struct fixture *f = *state;
    struct harness *h;
    struct reading reading;

    pg_proxy_start(&f->proxy, &server);
    kill(f->proxy.pid, SIGSTOP);
    h = open_at(f, pg_conninfo(&server, "reader", f->proxy.port),
                ROWS "connect-timeout: 300ms\n");
    reading = harness_read(h, "pg://shop/orders/1");
    assert_int_equal(reading.status, TDG_EUNREACHABLE);
    assert_non_null(strstr(reading.error, "no connection within 300 ms"));
    reading_done(&reading);
}

static bool nobody_is_connected(void *arg) {
    (void)arg;
    return pg_number(&server, "SELECT count(*) FROM pg_stat_activity "
                              "WHERE usename = 'reader'") == 0;
}

/* `idle` is over while the server has not yet answered that we listen no more. */
static void a_slow_answer_keeps_no_connection_open(void **state) {
    struct fixture *f = *state;
    struct harness *h;

    pg_proxy_start(&f->proxy, &server);
    h = open_at(f, pg_conninfo(&server, "reader", f->proxy.port), ROWS "idle: 20ms\n");
    harness_watch(h, "pg://shop/orders/1");
    kill(f->proxy.pid, SIGSTOP);
    tdg__source_unwatch(h->source, FOR_URI("pg://shop/orders/1"));
    let_pass(h, 100);
    kill(f->proxy.pid, SIGCONT);
    harness_ask_until(h, nobody_is_connected, NULL);
}

static void a_wrong_password_is_said_without_it(void **state) {
    struct fixture *f = *state;
    struct harness *h;
    struct reading reading;
    char conninfo[256];

    snprintf(conninfo, sizeof(conninfo),
             "postgresql://locked:hunter2@127.0.0.1:%d/postgres", server.port);
    h = open_at(f, conninfo, "query: SELECT 1 AS one\nuri: pg://one\nretry: 10s\n");
    reading = harness_read(h, "pg://one");
    assert_int_equal(reading.status, TDG_EUNREACHABLE);
    assert_non_null(strstr(reading.error, "password authentication failed"));
    reading_done(&reading);

    /* Not tried again at once. */
    reading = harness_read(h, "pg://one");
    assert_int_equal(reading.status, TDG_EUNREACHABLE);
    reading_done(&reading);
    for (size_t i = 0; i < h->count; i++)
        assert_null(strstr(h->happenings[i].uri, "hunter2"));
    assert_null(strstr(h->source->label, "hunter2"));
}

static void the_password_may_come_from_the_environment(void **state) {
    struct harness *h;

    assert_int_equal(setenv("PGPASSWORD", "right", 1), 0);
    h = open_at(*state, pg_conninfo(&server, "locked", 0),
                "query: SELECT 1 AS one\nuri: pg://one\n");
    harness_expect(h, "pg://one", "[{\"one\":1}]");
    unsetenv("PGPASSWORD");
}

static void a_server_that_is_not_there_yet_is_waited_for(void **state) {
    struct harness *h;

    pg_server_stop(&server, SIGINT);
    h = open_source(*state, ROWS);
    assert_int_equal(tdg__source_watch(h->source, FOR_URI("pg://shop/orders/2"), NULL),
                     TDG_EAGAIN);
    harness_wait(h, WATCHED, "pg://shop/orders/2");
    pg_server_start(&server);
    harness_wait(h, LOGGED, "reachable again");
    harness_wait_for_text(h, "pg://shop/orders/2", "{\"id\":2,\"item\":\"item 2\"}");
}

/* At every moment of connecting, listening and reading. */
static void it_can_be_closed_at_any_time(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    for (int turns = 0; turns < 40; turns++) {
        struct harness *h = open_source(f, ROWS);

        assert_int_equal(tdg__source_watch(h->source, FOR_TEMPLATE(TEMPLATE), NULL),
                         TDG_EAGAIN);
        harness_start_read(h, "pg://shop/orders/1", &reading);
        for (int i = 0; i < turns; i++)
            uv_run(&h->loop, UV_RUN_NOWAIT);
        harness_close(h);
        f->open = false;
        assert_true(reading.done);
        reading_done(&reading);
    }
}

static void many_rows_that_change_at_once_are_all_told(void **state) {
    struct harness *h = open_source(*state, ROWS);

    harness_watch_template(h, TEMPLATE);
    pg_run(&server,
           "INSERT INTO orders SELECT i, 'x' FROM generate_series(2001, 4000) i");
    for (int i = 2001; i <= 4000; i++) {
        char uri[64];

        snprintf(uri, sizeof(uri), "pg://shop/orders/%d", i);
        harness_wait(h, CHANGED, uri);
    }
    pg_run(&server, "TRUNCATE orders");
    for (int i = 0; i < 2020; i++)
        harness_wait(h, DELETED, NULL);
    expect_nothing_more(h);
}

/* ---- Chance ------------------------------------------------------------- */

enum { ROWS_AT_FIRST = 20, ROWS_OF_CHANCE = 30, ROUNDS_OF_CHANCE = 60 };

struct model {
    struct harness *harness;
    int value[ROWS_OF_CHANCE + 1]; /* of the row with this id; 0: there is none */
    bool changed[ROWS_OF_CHANCE + 1];
};

/* What was told last of a row is what it holds. */
static bool is_told(const struct model *m, int id) {
    const struct happening *last = NULL;
    char uri[64], content[64], checksum[TDG__CHECKSUM + 1];

    snprintf(uri, sizeof(uri), "pg://shop/orders/%d", id);
    for (size_t i = 0; i < m->harness->count; i++) {
        const struct happening *told = &m->harness->happenings[i];

        if ((told->kind == CHANGED || told->kind == DELETED) &&
            strcmp(told->uri, uri) == 0)
            last = told;
    }
    if (last == NULL) /* it came and went while we were away */
        return m->value[id] == 0 && id > ROWS_AT_FIRST;
    if (m->value[id] == 0)
        return last->kind == DELETED;
    snprintf(content, sizeof(content), "{\"id\":%d,\"item\":\"%d\"}", id, m->value[id]);
    assert_int_equal(tdg__checksum(content, strlen(content), checksum), 0);
    return last->kind == CHANGED &&
           strcmp(json_string_value(json_object_get(last->metadata, "checksum")),
                  checksum) == 0;
}

static bool all_is_told(void *arg) {
    const struct model *m = arg;

    for (int id = 1; id <= ROWS_OF_CHANCE; id++)
        if (m->changed[id] && !is_told(m, id))
            return false;
    return true;
}

static void change_a_row(struct model *m, int id, int value) {
    m->changed[id] = true;
    if (m->value[id] == 0)
        pg_run(&server, "INSERT INTO orders VALUES (%d, '%d')", id, value);
    else if (value % 3 == 0)
        pg_run(&server, "DELETE FROM orders WHERE id = %d", id);
    else
        pg_run(&server, "UPDATE orders SET item = '%d' WHERE id = %d", value, id);
    m->value[id] = m->value[id] != 0 && value % 3 == 0 ? 0 : value;
}

/* Rows come, change and go, others read, and our connection is lost again and again. */
static void the_last_state_is_told_whatever_happens(void **state) {
    struct dice dice = dice_from_env();
    struct model m = {NULL, {0}, {false}};
    int value = 1;

    pg_run(&server, "UPDATE orders SET item = 1");
    for (int id = 1; id <= ROWS_AT_FIRST; id++)
        m.value[id] = 1;
    m.harness = open_source(*state, ROWS);
    harness_watch_template(m.harness, TEMPLATE);
    for (int round = 0; round < ROUNDS_OF_CHANCE; round++) {
        struct reading reading;
        char uri[64];

        for (uint32_t i = roll(&dice, 6); i > 0; i--)
            change_a_row(&m, 1 + (int)roll(&dice, ROWS_OF_CHANCE), ++value);
        if (roll(&dice, 4) == 0)
            pg_run(&server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                            "WHERE usename = 'reader'");
        for (uint32_t i = roll(&dice, 20); i > 0; i--)
            uv_run(&m.harness->loop, UV_RUN_NOWAIT);
        if (roll(&dice, 3) == 0) {
            snprintf(uri, sizeof(uri), "pg://shop/orders/%u",
                     1 + roll(&dice, ROWS_OF_CHANCE));
            reading = harness_read(m.harness, uri);
            reading_done(&reading);
        }
    }
    print_message("# seed %llu\n", (unsigned long long)dice.seed);
    harness_until(m.harness, all_is_told, &m);
}

static bool is_done(void *arg) {
    return ((struct reading *)arg)->done;
}

/* The n-th allocation of watching, reading and being notified fails, for every n: nothing
 * hangs, nothing leaks, and afterwards all is well. */
static void any_allocation_may_fail(void **state) {
    struct fixture *f = *state;
    struct reading reading;
    bool failed = true;

    for (size_t nth = 1; failed; nth++) {
        size_t before = memory_live();
        struct harness *h = open_source(f, ROWS);
        int rv;

        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__source_watch(h->source, FOR_TEMPLATE(TEMPLATE), NULL);
        harness_start_read(h, "pg://shop/orders/1", &reading);
        if (rv == TDG_EAGAIN)
            rv = harness_wait(h, WATCHED, TEMPLATE)->status;
        if (rv == 0) {
            pg_run(&server, "UPDATE orders SET item = '%zu' WHERE id = 1", nth);
            harness_wait(h, CHANGED, "pg://shop/orders/1");
        }
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        harness_until(h, is_done, &reading);
        reading_done(&reading);
        reading = harness_read(h, "pg://shop/orders/2");
        assert_int_equal(reading.status, 0);
        reading_done(&reading);
        harness_close(h);
        f->open = false;
        assert_int_equal(memory_live(), before);
    }
}

static bool is_read(void *arg) {
    return ((struct reading *)arg)->done;
}

/* The connection works, and the cancel request, which has one of its own, is neither
 * refused nor answered. */
static void a_cancel_request_that_hangs_holds_up_nothing(void **state) {
    struct fixture *f = *state;
    struct reading large, small;
    struct harness *h;

    pg_proxy_start(&f->proxy, &server);
    h = open_at(f, pg_conninfo(&server, "reader", f->proxy.port),
                "query: SELECT n FROM generate_series(1, :rows::int) n\n"
                "uri: n:{rows}\nmax-rows: 5\nretry: 50ms\nretry-max: 200ms\n");
    harness_watch(h, "n:1");
    kill(f->proxy.pid, SIGUSR1);
    harness_start_read(h, "n:1000000", &large);
    harness_until(h, is_read, &large);
    assert_int_equal(large.status, TDG_ETOOLARGE);
    harness_start_read(h, "n:2", &small);
    harness_wait(h, LOGGED, "a cancel request was not answered");
    kill(f->proxy.pid, SIGUSR2);
    harness_until(h, is_read, &small);
    harness_wait(h, LOGGED, "reachable again");
    harness_expect(h, "n:1", "[{\"n\":1}]");
    reading_done(&large);
    reading_done(&small);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(changes_while_we_are_shut_out_are_told),
        TEST(what_was_seen_before_the_outage_is_not_told_again),
        TEST(a_watched_row_is_looked_at_after_the_outage),
        TEST(more_rows_than_max_keys_are_warned_about),
        TEST(a_template_watched_during_an_outage_tells_all),
        TEST(a_table_that_cannot_be_compared_after_an_outage_is_retried),
        TEST(a_server_that_restarts_or_crashes_is_found_again),
        TEST(a_silent_network_is_noticed),
        TEST(a_silent_server_ends_reads_in_time),
        TEST(a_slow_answer_keeps_no_connection_open),
        TEST(a_wrong_password_is_said_without_it),
        TEST(the_password_may_come_from_the_environment),
        TEST(a_server_that_is_not_there_yet_is_waited_for),
        TEST(a_cancel_request_that_hangs_holds_up_nothing),
        TEST(it_can_be_closed_at_any_time),
        TEST(many_rows_that_change_at_once_are_all_told),
        TEST(the_last_state_is_told_whatever_happens),
        TEST(any_allocation_may_fail),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("postgres_fault", tests, start_server,
                                       stop_server);
}
