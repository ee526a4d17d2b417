/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "support.h"
#include "unit/source/harness.h"
#include "unit/source/pg_server.h"
#include "unit/targets.h"

static struct pg_server server;

struct fixture {
    struct harness harness;
    bool open;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));

    pg_run(&server, "DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public;"
                    "GRANT USAGE ON SCHEMA public TO PUBLIC;"
                    "DROP SCHEMA IF EXISTS \"Odd schema\" CASCADE;"
                    "CREATE TABLE orders (id int PRIMARY KEY, item text, total numeric);"
                    "INSERT INTO orders VALUES (1, 'tea', 4.50), (2, 'cake', 3);"
                    "GRANT SELECT ON orders TO PUBLIC");
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    if (f->open)
        harness_close(&f->harness);
    free(f);
    return 0;
}

static int start_server(void **state) {
    (void)state;
    pg_server_create(&server);
    pg_run(&server, "CREATE ROLE reader LOGIN");
    return 0;
}

static int stop_server(void **state) {
    (void)state;
    pg_server_destroy(&server);
    return 0;
}

/* Opens a source; `more` is the rest of the entry, from its second line on. */
static struct harness *open_as(struct fixture *f, const char *role, const char *more) {
    char yaml[4096];

    snprintf(yaml, sizeof(yaml), "postgres: %s\n%s", pg_conninfo(&server, role, 0), more);
    harness_open(&f->harness, yaml);
    f->open = true;
    return &f->harness;
}

static struct harness *open_source(struct fixture *f, const char *more) {
    return open_as(f, "reader", more);
}

static void install(const char *table, const char *key, const char *channel) {
    pg_install(&server, table, key, channel);
}

#define ROWS "table: orders\nkey: id\nuri: pg://shop/orders/{id}\n"
#define ROW_TEMPLATE "pg://shop/orders/{id}"

static void expect_status(struct harness *h, const char *uri, int status,
                          const char *error) {
    struct reading reading = harness_read(h, uri);

    assert_int_equal(reading.status, status);
    if (error != NULL && strstr(reading.error, error) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", error, reading.error);
    reading_done(&reading);
}

/* ---- Reading ------------------------------------------------------------ */

static void a_table_is_a_list_of_objects(void **state) {
    struct harness *h =
        open_source(*state, "table: orders\nkey: id\nuri: pg://shop/orders\n");
    struct reading reading = harness_read(h, "pg://shop/orders");

    assert_string_equal(reading.data, "[{\"id\":1,\"item\":\"tea\",\"total\":4.50},\n"
                                      "{\"id\":2,\"item\":\"cake\",\"total\":3}]");
    assert_string_equal(reading.mime_type, "application/json");
    assert_string_equal(json_string_value(json_object_get(reading.metadata, "table")),
                        "public.orders");
    assert_int_equal(json_integer_value(json_object_get(reading.metadata, "rows")), 2);
    reading_done(&reading);

    pg_run(&server, "DELETE FROM orders");
    harness_expect(h, "pg://shop/orders", "[]");
}

static void a_row_is_an_object(void **state) {
    struct harness *h = open_source(*state, ROWS);
    struct reading reading = harness_read(h, "pg://shop/orders/2");

    assert_string_equal(reading.data, "{\"id\":2,\"item\":\"cake\",\"total\":3}");
    assert_json_equal(json_object_get(reading.metadata, "key"), "{'id': '2'}");
    reading_done(&reading);
    expect_status(h, "pg://shop/orders/3", TDG_ENOTFOUND, NULL);
}

/* One row has one URI; other spellings of its key name nothing. */
static void a_key_is_spelled_as_the_database_does(void **state) {
    static const char *const none[] = {"02", "%202", "2.0", "abc", "99999999999999999",
                                       "-",  "2%00", "%ff"};
    struct harness *h = open_source(*state, ROWS);
    char uri[64];

    for (size_t i = 0; i < COUNT(none); i++) {
        snprintf(uri, sizeof(uri), "pg://shop/orders/%s", none[i]);
        expect_status(h, uri, TDG_ENOTFOUND, NULL);
    }
}

static void values_are_bound_and_never_pasted(void **state) {
    static const char *const attacks[] = {
        "1%20OR%201=1",
        "1;%20DROP%20TABLE%20orders",
        "%27%20OR%20%27%27=%27",
        "%24%24;%20DROP%20TABLE%20orders;%20--",
        "%27);DELETE%20FROM%20orders;--",
        "%5C%27;DELETE%20FROM%20orders;--",
    };
    struct harness *h =
        open_source(*state, "query: SELECT item FROM orders WHERE item = :item\n"
                            "uri: pg://shop/items/{+item}\n");
    char uri[256];

    for (size_t i = 0; i < COUNT(attacks); i++) {
        snprintf(uri, sizeof(uri), "pg://shop/items/%s", attacks[i]);
        expect_status(h, uri, TDG_ENOTFOUND, NULL);
    }
    assert_int_equal(pg_number(&server, "SELECT count(*) FROM orders"), 2);
    pg_run(&server, "INSERT INTO orders VALUES (3, ''' OR ''''=''', 1)");
    harness_expect(h, "pg://shop/items/%27%20OR%20%27%27=%27",
                   "[{\"item\":\"' OR ''='\"}]");
}

static void a_query_takes_named_parameters(void **state) {
    struct harness *h = open_source(
        *state,
        "query: |\n"
        "  SELECT id, ':low' AS \":low\", $$ :low $$ AS d, -- :low\n"
        "         total::text FROM orders\n"
        "   WHERE total BETWEEN :low AND :high AND :low::numeric > 0 ORDER BY id\n"
        "uri: pg://shop/orders/from/{low}/to/{high}\n");

    harness_expect(h, "pg://shop/orders/from/1/to/4",
                   "[{\"id\":2,\":low\":\":low\",\"d\":\" :low \",\"total\":\"3\"}]");
    expect_status(h, "pg://shop/orders/from/a/to/4", TDG_EINVAL, "numeric");
}

static void types_become_json_types(void **state) {
    struct harness *h;

    pg_run(&server,
           "CREATE TABLE kinds (k int, b bool, i bigint, f float8, n float8, inf float4,"
           " j json, jb jsonb, t text, nothing text, a int[], ts timestamptz, by bytea);"
           "INSERT INTO kinds VALUES (1, true, 9223372036854775807, 1e300, 'NaN',"
           " '-Infinity', '{\"a\" : [1]}', '{\"b\": null}', E'q\"\\\\\\n\u00e4', NULL,"
           " '{1,NULL}', '2024-02-29 12:00:00+01', '\\x00ff');"
           "GRANT SELECT ON kinds TO PUBLIC");
    h = open_source(*state, "table: kinds\nkey: k\nuri: pg://shop/kinds/{k}\n");
    harness_expect(h, "pg://shop/kinds/1",
                   "{\"k\":1,\"b\":true,\"i\":9223372036854775807,\"f\":1e+300,"
                   "\"n\":\"NaN\",\"inf\":\"-Infinity\",\"j\":{\"a\" : [1]},"
                   "\"jb\":{\"b\": null},\"t\":\"q\\\"\\\\\\n\u00e4\",\"nothing\":null,"
                   "\"a\":\"{1,NULL}\",\"ts\":\"2024-02-29 11:00:00+00\","
                   "\"by\":\"\\\\x00ff\"}");
}

/* The database has another encoding than we ask for. */
static void text_is_utf8_whatever_the_database_has(void **state) {
    struct fixture *f = *state;
    char yaml[512];

    pg_run(&server, "DROP DATABASE IF EXISTS latin");
    pg_run(&server, "CREATE DATABASE latin TEMPLATE template0 ENCODING LATIN1");
    snprintf(
        yaml, sizeof(yaml),
        "postgres: host=%s port=%d user=postgres dbname=latin client_encoding=LATIN1\n"
        "query: SELECT chr(228) AS a\nuri: pg://latin/a\n",
        server.dir, server.port);
    harness_open(&f->harness, yaml);
    f->open = true;
    harness_expect(&f->harness, "pg://latin/a", "[{\"a\":\"\u00e4\"}]");
}

static void csv_is_quoted_where_it_must_be(void **state) {
    struct harness *h = open_source(
        *state, "query: >\n"
                "  SELECT 1 AS \"a,b\", 'x\"y' AS q, E'two\\nlines' AS l, '' AS empty,\n"
                "  NULL AS nothing, ' s ' AS s\n"
                "uri: pg://shop/csv\nformat: csv\n");
    struct reading reading = harness_read(h, "pg://shop/csv");

    assert_string_equal(reading.data, "\"a,b\",q,l,empty,nothing,s\r\n"
                                      "1,\"x\"\"y\",\"two\nlines\",\"\",, s \r\n");
    assert_string_equal(reading.mime_type, "text/csv");
    reading_done(&reading);
}

static void csv_without_rows_has_its_names(void **state) {
    struct harness *h =
        open_source(*state, "query: SELECT id, item FROM orders WHERE false\n"
                            "uri: pg://shop/csv\nformat: csv\n");

    harness_expect(h, "pg://shop/csv", "id,item\r\n");
}

static void a_part_of_the_key_names_several_rows(void **state) {
    struct harness *h;

    pg_run(&server, "CREATE TABLE lines (\"order\" int, \"No\" int, PRIMARY KEY "
                    "(\"order\", \"No\")); INSERT INTO lines VALUES (1,2),(1,1),(2,1);"
                    "GRANT SELECT ON lines TO PUBLIC");
    h = open_source(*state, "table: lines\nkey: [order, '\"No\"']\n"
                            "uri: pg://shop/orders/{order}/lines\n");
    harness_expect(h, "pg://shop/orders/1/lines",
                   "[{\"order\":1,\"No\":1},\n{\"order\":1,\"No\":2}]");
    expect_status(h, "pg://shop/orders/3/lines", TDG_ENOTFOUND, NULL);
}

/* ---- Limits and errors -------------------------------------------------- */

static void more_rows_than_allowed_are_refused(void **state) {
    struct harness *h =
        open_source(*state, "query: SELECT generate_series(1, 100000000) AS n\n"
                            "uri: pg://shop/many\nmax-rows: 5\n");

    expect_status(h, "pg://shop/many", TDG_ETOOLARGE, "max-rows (5)");
    /* The connection is fit for use after the server was stopped. */
    expect_status(h, "pg://shop/many", TDG_ETOOLARGE, "max-rows (5)");
    assert_int_equal(pg_number(&server, "SELECT count(*) FROM pg_stat_activity WHERE "
                                        "application_name = 'tidings'"),
                     1);
}

static void content_larger_than_allowed_is_refused(void **state) {
    struct harness *h = open_source(*state, "query: SELECT repeat('x', 5000000) AS x\n"
                                            "uri: pg://shop/large\nmax-size: 1MiB\n");

    expect_status(h, "pg://shop/large", TDG_ETOOLARGE, "max-size (1048576 bytes)");
}

static void a_key_that_is_not_unique_is_said(void **state) {
    struct harness *h;

    pg_run(&server, "INSERT INTO orders VALUES (3, 'tea', 1)");
    h = open_source(*state, "table: orders\nkey: item\nuri: pg://shop/items/{item}\n");
    expect_status(h, "pg://shop/items/tea", TDG_EINVAL, "result: rows");
    harness_expect(h, "pg://shop/items/cake", "{\"id\":2,\"item\":\"cake\",\"total\":3}");
}

/* What the server says is for the log; clients get the SQLSTATE, or words of ours. */
static void expect_public(struct harness *h, const char *uri, const char *expected) {
    struct reading reading = harness_read(h, uri);

    assert_string_equal(reading.public, expected);
    reading_done(&reading);
}

#define REFUSES "the database refuses the query (SQLSTATE "

static const struct {
    const char *query, *error, *public;
} wrong_queries[] = {
    {"SELECT * FROM missing", "\"missing\" does not exist", REFUSES "42P01)"},
    {"SELECT nothing FROM orders", "\"nothing\" does not exist", REFUSES "42703)"},
    {"SELEKT 1", "syntax error", REFUSES "42601)"},
    {"SELECT 1 AS a, 2 AS a", "two columns are called a",
     "two columns are called a; give them names with AS"},
    {"INSERT INTO orders VALUES (9) RETURNING id", "read-only transaction",
     REFUSES "25006)"},
    {"SELECT pg_read_file('/etc/passwd')", "permission denied", REFUSES "42501)"},
    {"SELECT 1; SELECT 2", "multiple commands", REFUSES "42601)"},
    {"COPY orders TO STDOUT", "returns no rows",
     "the source does not provide this content"},
};

static void a_wrong_query_is_an_error_that_tells(void **state) {
    for (size_t i = 0; i < COUNT(wrong_queries); i++) {
        struct harness *h;
        char yaml[512];

        snprintf(yaml, sizeof(yaml), "query: %s\nuri: pg://shop/q\n",
                 wrong_queries[i].query);
        h = open_source(*state, yaml);
        expect_status(h, "pg://shop/q", TDG_EINVAL, wrong_queries[i].error);
        expect_public(h, "pg://shop/q", wrong_queries[i].public);
        harness_close(h);
        ((struct fixture *)*state)->open = false;
    }
}

static void a_query_that_takes_too_long_is_stopped(void **state) {
    struct harness *h = open_source(*state, "query: SELECT pg_sleep(600)\n"
                                            "uri: pg://shop/slow\ntimeout: 500ms\n");

    expect_status(h, "pg://shop/slow", TDG_EUNREACHABLE, "500 ms");
}

/* Whoever writes a function chooses the words and the SQLSTATE. */
static void the_words_of_a_function_are_not_for_clients(void **state) {
    struct harness *h;

    pg_run(&server, "CREATE FUNCTION fail() RETURNS int LANGUAGE plpgsql AS 'BEGIN "
                    "RAISE EXCEPTION ''inner words'' USING ERRCODE = ''57014''; END'");
    h = open_source(*state, "query: SELECT fail()\nuri: pg://shop/q\n");
    expect_status(h, "pg://shop/q", TDG_EUNREACHABLE, "inner words");
    expect_public(h, "pg://shop/q", "the query was stopped (timeout: 30000 ms)");
    harness_wait(h, LOGGED, "inner words");
}

static const struct {
    const char *more, *expected;
} wrong_entries[] = {
    {"uri: pg://a", "either `table` with `key`"},
    {"uri: pg://a\ntable: t\nkey: k\nquery: SELECT 1", "either `table` with `key`"},
    {"uri: pg://a\ntable: t", "needs `key`"},
    {"uri: pg://a\nquery: SELECT 1\nkey: k", "`key` requires `table`"},
    {"uri: pg://a/{x}/{y}\ntable: t\nkey: x", "{y} is not a column of `key`"},
    {"uri: pg://a{?x}\ntable: t\nkey: x", "written {x} or {+x}"},
    {"uri: pg://a/{x}\nquery: SELECT :y, :x", "no variable {y} for :y"},
    {"uri: pg://a/{x}\nquery: SELECT 1", "does not use the variable {x}"},
    {"uri: pg://a\nquery: SELECT 'a", "this string does not end"},
    {"uri: pg://a/{x}\nquery: SELECT $1", "have names here"},
    {"uri: pg://a\ntable: a b\nkey: x", "table: this is not a table name"},
};

static void a_wrong_entry_is_refused(void **state) {
    char yaml[512];

    (void)state;
    for (size_t i = 0; i < COUNT(wrong_entries); i++) {
        snprintf(yaml, sizeof(yaml), "postgres: dbname=x\n%s\n", wrong_entries[i].more);
        harness_refuses(yaml, wrong_entries[i].expected);
    }
    harness_refuses("postgres: 'nonsense hunter2'\nuri: pg://a\nquery: SELECT 1\n",
                    "this is not a connection string");
}

#define OURS "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidings'"

struct expected {
    const char *sql;
    long number;
};

static bool is_number(void *arg) {
    struct expected *expected = arg;

    return pg_number(&server, expected->sql) == expected->number;
}

static void wait_for_number(struct harness *h, const char *sql, long number) {
    struct expected expected = {sql, number};

    harness_ask_until(h, is_number, &expected);
}

/* ---- Changes ------------------------------------------------------------ */

static void expect_change(struct harness *h, enum happening_kind kind, const char *uri,
                          const char *op, const char *change_type) {
    struct happening *told = harness_wait(h, kind, uri);

    assert_string_equal(json_string_value(json_object_get(told->metadata, "op")), op);
    assert_string_equal(json_string_value(json_object_get(told->metadata, "change_type")),
                        change_type);
    assert_string_equal(json_string_value(json_object_get(told->metadata, "table")),
                        "public.orders");
}

static void rows_that_come_change_and_go_are_told(void **state) {
    struct harness *h;

    install("orders", "id", NULL);
    h = open_source(*state, ROWS);
    harness_watch_template(h, ROW_TEMPLATE);
    pg_run(&server, "INSERT INTO orders VALUES (3, 'jam', 2)");
    expect_change(h, CHANGED, "pg://shop/orders/3", "INSERT", "created");
    pg_run(&server, "UPDATE orders SET total = 5 WHERE id = 1");
    expect_change(h, CHANGED, "pg://shop/orders/1", "UPDATE", "content_update");
    pg_run(&server, "DELETE FROM orders WHERE id = 1");
    expect_change(h, DELETED, "pg://shop/orders/1", "DELETE", "deleted");
    pg_run(&server, "INSERT INTO orders VALUES (1, 'back', 2)");
    expect_change(h, CHANGED, "pg://shop/orders/1", "INSERT", "created");
    assert_int_equal(harness_count(h, CHANGED, NULL), 0);
    assert_int_equal(harness_count(h, DELETED, NULL), 0);
    assert_int_equal(harness_count(h, LOGGED, "trigger"), 0);
}

static void a_truncated_table_tells_every_row(void **state) {
    struct harness *h;

    install("orders", "id", NULL);
    h = open_source(*state, ROWS);
    harness_watch_template(h, ROW_TEMPLATE);
    harness_watch(h, "pg://shop/orders/1");
    pg_run(&server, "TRUNCATE orders");
    harness_wait(h, DELETED, "pg://shop/orders/1");
    harness_wait(h, DELETED, "pg://shop/orders/2");
    assert_int_equal(harness_count(h, DELETED, NULL), 0);
}

/* A marker shows that everything before it has been looked at. */
static void wait_for_marker(struct harness *h, int id) {
    char uri[64];

    snprintf(uri, sizeof(uri), "pg://shop/orders/%d", id);
    pg_run(&server, "INSERT INTO orders VALUES (%d, 'marker', 0)", id);
    harness_wait(h, CHANGED, uri);
}

/* ---- Changes that fire no trigger --------------------------------------- */

#define PROBED ROWS "probe: 100ms\n"

static struct harness *watch_all(struct fixture *f, const char *entry) {
    struct harness *h;

    install("orders", "id", NULL);
    h = open_source(f, entry);
    harness_watch_template(h, ROW_TEMPLATE);
    harness_watch(h, "pg://shop/orders/1");
    return h;
}

/* As a replication does it; at once, not by probing. */
static void what_a_replica_writes_is_told(void **state) {
    struct harness *h = watch_all(*state, ROWS "probe: 1h\n");

    pg_run(&server, "SET session_replication_role = replica;"
                    "UPDATE orders SET total = 9 WHERE id = 1;"
                    "DELETE FROM orders WHERE id = 2");
    expect_change(h, CHANGED, "pg://shop/orders/1", "UPDATE", "content_update");
    expect_change(h, DELETED, "pg://shop/orders/2", "DELETE", "deleted");
    pg_run(&server, "SET session_replication_role = replica; TRUNCATE orders");
    harness_wait(h, DELETED, "pg://shop/orders/1");
}

static void what_was_written_without_the_trigger_is_told(void **state) {
    struct harness *h = watch_all(*state, PROBED);

    pg_run(&server, "BEGIN; ALTER TABLE orders DISABLE TRIGGER tidings_row;"
                    "UPDATE orders SET total = 9 WHERE id = 1;"
                    "ALTER TABLE orders ENABLE ALWAYS TRIGGER tidings_row; COMMIT");
    harness_wait(h, CHANGED, "pg://shop/orders/1");

    /* It stays off: the statistics know. */
    pg_run(&server, "ALTER TABLE orders DISABLE TRIGGER tidings_row");
    harness_wait(h, LOGGED, "has a disabled trigger");
    pg_run(&server, "UPDATE orders SET total = 10 WHERE id = 1;"
                    "INSERT INTO orders VALUES (3, 'jam', 2)");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    harness_wait(h, CHANGED, "pg://shop/orders/3");
    /* Of the next one nothing else can know: the look at the trigger is over. */
    pg_run(&server, "UPDATE orders SET total = 11 WHERE id = 1");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
}

static void a_table_that_takes_the_place_of_another_is_told(void **state) {
    struct harness *h = watch_all(*state, PROBED);

    pg_run(&server, "CREATE TABLE next (LIKE orders INCLUDING ALL);"
                    "INSERT INTO next VALUES (1, 'coffee', 4.50), (3, 'jam', 2);"
                    "GRANT SELECT ON next TO PUBLIC;"
                    "BEGIN; ALTER TABLE orders RENAME TO before;"
                    "ALTER TABLE next RENAME TO orders; COMMIT");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    harness_wait(h, DELETED, "pg://shop/orders/2");
    harness_wait(h, CHANGED, "pg://shop/orders/3");
    harness_wait(h, LOGGED, "has no trigger");

    /* Dropped, and made anew. */
    pg_run(&server, "BEGIN; DROP TABLE orders; ALTER TABLE before RENAME TO orders;"
                    "INSERT INTO orders VALUES (4, 'bun', 1); COMMIT");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    harness_wait(h, DELETED, "pg://shop/orders/3");
    harness_wait(h, CHANGED, "pg://shop/orders/4");
}

static void other_columns_are_told(void **state) {
    static const char *const changes[] = {
        "ALTER TABLE orders ALTER total TYPE text USING 'USD ' || total", /* rewrites */
        "ALTER TABLE orders ADD paid boolean DEFAULT false",              /* does not */
        "ALTER TABLE orders RENAME item TO article",
        "ALTER TABLE orders DROP total",
    };
    struct harness *h = watch_all(*state, PROBED);

    for (size_t i = 0; i < COUNT(changes); i++) {
        pg_run(&server, "%s", changes[i]);
        harness_wait(h, CHANGED, "pg://shop/orders/1");
        harness_wait(h, CHANGED, "pg://shop/orders/2");
    }
}

static void partitions_that_come_and_go_are_told(void **state) {
    struct harness *h;

    pg_run(&server, "DROP TABLE orders;"
                    "CREATE TABLE orders (id int PRIMARY KEY, item text) "
                    "PARTITION BY RANGE (id);"
                    "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (9);"
                    "CREATE TABLE high (id int PRIMARY KEY, item text);"
                    "INSERT INTO orders VALUES (1, 'tea');"
                    "INSERT INTO high VALUES (11, 'jam');"
                    "GRANT SELECT ON orders TO PUBLIC");
    h = watch_all(*state, PROBED);
    pg_run(&server,
           "ALTER TABLE orders ATTACH PARTITION high FOR VALUES FROM (10) TO (19)");
    harness_wait(h, CHANGED, "pg://shop/orders/11");
    pg_run(&server, "SET session_replication_role = replica;"
                    "UPDATE orders SET item = 'bun' WHERE id = 11");
    harness_wait(h, CHANGED, "pg://shop/orders/11");
    pg_run(&server, "ALTER TABLE orders DETACH PARTITION high");
    harness_wait(h, DELETED, "pg://shop/orders/11");
}

/* Its writes go through the table that has the trigger, and fire it for no other. */
static void a_partition_with_a_disabled_trigger_is_told(void **state) {
    struct harness *h;

    pg_run(&server, "DROP TABLE orders;"
                    "CREATE TABLE orders (id int PRIMARY KEY, item text) "
                    "PARTITION BY RANGE (id);"
                    "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (9);"
                    "INSERT INTO orders VALUES (1, 'tea');"
                    "GRANT SELECT ON orders TO PUBLIC");
    h = watch_all(*state, PROBED);
    pg_run(&server, "ALTER TABLE low DISABLE TRIGGER tidings_row");
    harness_wait(h, LOGGED, "has a disabled trigger, or a partition with one");
    for (int i = 0; i < 2; i++) {
        pg_run(&server, "UPDATE orders SET item = 'jam %d' WHERE id = 1", i);
        harness_wait(h, CHANGED, "pg://shop/orders/1");
    }
    pg_run(&server, "TRUNCATE low"); /* which fires no trigger of the table */
    harness_wait(h, DELETED, "pg://shop/orders/1");
}

static void rows_of_children_are_told(void **state) {
    struct harness *h = watch_all(*state, PROBED);

    pg_run(&server, "CREATE TABLE old () INHERITS (orders)");
    harness_wait(h, LOGGED, "has children by INHERITS");
    for (int i = 11; i < 13; i++) {
        char uri[64];

        pg_run(&server, "INSERT INTO old VALUES (%d, 'bun', 1)", i);
        snprintf(uri, sizeof(uri), "pg://shop/orders/%d", i);
        harness_wait(h, CHANGED, uri);
    }
    pg_run(&server, "ALTER TABLE old NO INHERIT orders");
    harness_wait(h, DELETED, "pg://shop/orders/11");
}

static void children_may_have_triggers_of_their_own(void **state) {
    struct harness *h;

    pg_run(&server, "CREATE TABLE old () INHERITS (orders)");
    install("old", "id", "tidings_public_orders");
    h = watch_all(*state, ROWS "probe: 1h\n");
    pg_run(&server, "INSERT INTO old VALUES (11, 'bun', 1)");
    expect_change(h, CHANGED, "pg://shop/orders/11", "INSERT", "created");
    assert_int_equal(harness_count(h, LOGGED, "trigger"), 0);
}

/* The trigger is there, always fires, and notifies nobody who listens to this table. */
static void a_trigger_for_another_channel_is_no_help(void **state) {
    struct harness *h;

    install("orders", "id", NULL);
    pg_run(&server, "ALTER TABLE orders RENAME TO sold");
    h = open_source(*state, "table: sold\nkey: id\nuri: pg://shop/orders/{id}\n"
                            "probe: 100ms\n");
    harness_watch_template(h, ROW_TEMPLATE);
    harness_wait(h, LOGGED, "has a trigger that notifies on another channel");
    pg_run(&server, "UPDATE sold SET total = 9 WHERE id = 1");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    install("sold", "id", "mine");
    pg_run(&server, "UPDATE sold SET total = 10 WHERE id = 1");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
}

static void our_trigger_on_a_channel_of_ones_own_is_looked_at(void **state) {
    struct harness *h;

    install("orders", "id", "mine");
    h = open_source(*state, PROBED "channel: mine\n");
    harness_watch_template(h, ROW_TEMPLATE);
    pg_run(&server, "UPDATE orders SET total = 9 WHERE id = 1");
    expect_change(h, CHANGED, "pg://shop/orders/1", "UPDATE", "content_update");
    assert_int_equal(harness_count(h, LOGGED, "trigger"), 0);
    pg_run(&server, "ALTER TABLE orders DISABLE TRIGGER tidings_row");
    harness_wait(h, LOGGED, "has a disabled trigger");
    pg_run(&server, "UPDATE orders SET total = 10 WHERE id = 1");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
}

/* A trigger of an older tidings has no mark. */
static void a_trigger_without_a_mark_is_known_by_its_name(void **state) {
    struct harness *h;

    install("orders", "id", NULL);
    pg_run(&server, "COMMENT ON FUNCTION tidings_public_orders() IS NULL");
    h = open_source(*state, ROWS);
    harness_watch_template(h, ROW_TEMPLATE);
    wait_for_marker(h, 5);
    assert_int_equal(harness_count(h, LOGGED, "trigger"), 0);
}

static void another_view_of_the_same_name_is_told(void **state) {
    struct harness *h;

    pg_run(&server, "ALTER TABLE orders RENAME TO data;"
                    "CREATE VIEW orders AS SELECT id, item FROM data;"
                    "GRANT SELECT ON orders TO PUBLIC");
    h = open_source(*state, PROBED);
    harness_watch_template(h, ROW_TEMPLATE);
    pg_run(&server,
           "CREATE OR REPLACE VIEW orders AS SELECT id, upper(item) AS item FROM data");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    harness_expect(h, "pg://shop/orders/1", "{\"id\":1,\"item\":\"TEA\"}");
}

static void rights_on_columns_are_compared(void **state) {
    struct harness *h;

    pg_run(&server, "REVOKE ALL ON orders FROM PUBLIC; GRANT SELECT (id, item, total) ON "
                    "orders TO reader");
    h = watch_all(*state, PROBED);
    pg_run(&server, "REVOKE SELECT (total) ON orders FROM reader");
    harness_wait(h, LOGGED, "permission denied for table orders");
}

/* Where nothing of that happens, the probe finds nothing. */
static void a_probe_of_a_quiet_table_tells_nothing(void **state) {
    struct harness *h = watch_all(*state, PROBED);

    for (int i = 0; i < 3; i++) {
        pg_run(&server, "UPDATE orders SET total = total + 1 WHERE id = 2");
        harness_wait(h, CHANGED, "pg://shop/orders/2");
        wait_for_number(h,
                        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE "
                        "'WITH RECURSIVE tree%'",
                        1);
    }
    assert_int_equal(harness_count(h, LOGGED, "fires no trigger"), 0);
}

static void a_key_that_changes_tells_both(void **state) {
    struct harness *h;

    install("orders", "id", NULL);
    h = open_source(*state, ROWS);
    harness_watch_template(h, ROW_TEMPLATE);
    pg_run(&server, "UPDATE orders SET id = 7 WHERE id = 1");
    harness_wait(h, DELETED, "pg://shop/orders/1");
    harness_wait(h, CHANGED, "pg://shop/orders/7");
}

static void what_was_rolled_back_or_changes_nothing_is_not_told(void **state) {
    struct harness *h;

    install("orders", "id", NULL);
    h = open_source(*state, ROWS);
    harness_watch_template(h, ROW_TEMPLATE);
    pg_run(&server, "BEGIN; UPDATE orders SET total = 9; ROLLBACK");
    pg_run(&server, "UPDATE orders SET total = total");
    wait_for_marker(h, 100);
    assert_int_equal(harness_count(h, CHANGED, NULL), 0);
    assert_int_equal(harness_count(h, DELETED, NULL), 0);
}

static void a_burst_is_told_with_its_last_state(void **state) {
    struct harness *h;

    install("orders", "id", NULL);
    h = open_source(*state, ROWS);
    harness_watch(h, "pg://shop/orders/1");
    pg_run(&server, "DO $$ BEGIN FOR i IN 1..1000 LOOP "
                    "UPDATE orders SET total = i WHERE id = 1; END LOOP; END $$");
    harness_wait_for_text(h, "pg://shop/orders/1",
                          "{\"id\":1,\"item\":\"tea\",\"total\":1000}");
    assert_true(harness_count(h, CHANGED, NULL) < 10);
}

/* A read may see a change before its notification comes; who watches the template has to
 * hear of it all the same. The lock makes the read wait for the change. */
static void a_read_that_overtakes_a_notification_hides_nothing(void **state) {
    struct harness *h;
    struct reading reading;
    PGconn *conn;

    install("orders", "id", NULL);
    h = open_source(*state, ROWS);
    harness_watch_template(h, ROW_TEMPLATE);
    conn = PQconnectdb(pg_conninfo(&server, "postgres", 0));
    PQclear(PQexec(conn, "BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE;"
                         "UPDATE orders SET total = 77 WHERE id = 1"));
    harness_start_read(h, "pg://shop/orders/1", &reading);
    wait_for_number(h,
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = "
                    "'tidings' AND wait_event_type = 'Lock'",
                    1);
    PQclear(PQexec(conn, "COMMIT"));
    PQfinish(conn);
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    assert_true(reading.done);
    assert_non_null(strstr(reading.data, "77"));
    reading_done(&reading);
}

static void a_whole_table_is_told_as_one(void **state) {
    struct harness *h;

    install("orders", "id", NULL);
    h = open_source(*state, "table: orders\nkey: id\nuri: pg://shop/orders\n");
    harness_watch(h, "pg://shop/orders");
    pg_run(&server, "DELETE FROM orders WHERE id = 1");
    expect_change(h, CHANGED, "pg://shop/orders", "DELETE", "content_update");
    pg_run(&server, "TRUNCATE orders");
    expect_change(h, CHANGED, "pg://shop/orders", "TRUNCATE", "content_update");
    harness_expect(h, "pg://shop/orders", "[]");
}

static void odd_names_and_keys_work(void **state) {
    struct harness *h;
    char key[2400];

    pg_run(&server,
           "CREATE SCHEMA \"Odd schema\"; GRANT USAGE ON SCHEMA \"Odd schema\" TO PUBLIC;"
           "CREATE TABLE \"Odd schema\".\"It's a \"\"$tidings$\"\" \\ table\" ("
           "\"Key's\" text, at timestamptz, PRIMARY KEY (\"Key's\", at), v json);"
           "GRANT SELECT ON ALL TABLES IN SCHEMA \"Odd schema\" TO PUBLIC;");
    install("\"Odd schema\".\"It's a \"\"$tidings$\"\" \\ table\"", "\"Key's\",at", NULL);
    h = open_source(*state,
                    "table: '\"Odd schema\".\"It''s a \"\"$tidings$\"\" \\ table\"'\n"
                    "key: ['\"Key''s\"']\nuri: pg://odd/{key}\nresult: rows\n");
    harness_watch_template(h, "pg://odd/{key}");
    pg_run(&server, "SET TimeZone = 'Asia/Tokyo'; SET DateStyle = 'German';"
                    "INSERT INTO \"Odd schema\".\"It's a \"\"$tidings$\"\" \\ table\" "
                    "VALUES ('a/b c\u00e4''\"{}\\', '2024-01-01', '{}')");
    harness_wait(h, CHANGED, "pg://odd/a%2Fb%20c%C3%A4%27%22%7B%7D%5C");

    /* Too long for a payload: it names nothing, and is found all the same. */
    memset(key, 'x', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    memcpy(key, "pg://odd/", 9);
    pg_run(
        &server,
        "INSERT INTO \"Odd schema\".\"It's a \"\"$tidings$\"\" \\ table\" VALUES "
        "(repeat('x', %zu), now(), NULL), (repeat('\"', 2000) || repeat('\u00e4', 2000),"
        " now(), NULL)",
        strlen(key) - 9);
    harness_wait(h, CHANGED, key);
}

static void composite_keys_with_times_are_told(void **state) {
    struct harness *h;

    pg_run(&server, "CREATE TABLE slots (at timestamptz, room int, who text,"
                    " PRIMARY KEY (at, room)); GRANT SELECT ON slots TO PUBLIC");
    install("slots", "at,room", NULL);
    h = open_source(*state,
                    "table: slots\nkey: [at, room]\nuri: pg://slots/{room}/{at}\n");
    harness_watch_template(h, "pg://slots/{room}/{at}");
    pg_run(&server, "SET TimeZone = 'America/New_York'; SET DateStyle = 'SQL, DMY';"
                    "INSERT INTO slots VALUES ('2024-05-06 07:08:09.5+00', 3, 'me')");
    harness_wait(h, CHANGED, "pg://slots/3/2024-05-06%2007%3A08%3A09.5%2B00");
}

static void a_query_is_told_by_its_channel(void **state) {
    struct harness *h = open_source(
        *state, "query: SELECT count(*) AS n FROM orders\nuri: pg://shop/count\n"
                "channel: Orders changed\n");

    harness_watch(h, "pg://shop/count");
    pg_run(&server, "INSERT INTO orders VALUES (3, 'x', 1); NOTIFY \"Orders changed\"");
    harness_wait(h, CHANGED, "pg://shop/count");
    harness_expect(h, "pg://shop/count", "[{\"n\":3}]");
}

static void a_payload_of_ones_own_names_a_uri(void **state) {
    struct harness *h =
        open_source(*state, "query: SELECT item FROM orders WHERE id = CAST(:id AS int)\n"
                            "uri: pg://shop/items/{id}\nchannel: c\n");

    harness_watch_template(h, "pg://shop/items/{id}");
    pg_run(&server, "UPDATE orders SET item = 'a'; SELECT pg_notify('c', '2')");
    harness_wait(h, CHANGED, "pg://shop/items/2");
    pg_run(&server, "SELECT pg_notify('c', '{\"key\": {\"id\": 1}}')");
    harness_wait(h, CHANGED, "pg://shop/items/1");
    /* Nonsense harms nobody. */
    pg_run(&server,
           "SELECT pg_notify('c', x) FROM unnest(ARRAY['{', '{\"key\": 3}', '[]', "
           "'{\"key\": {\"id\": {}}}', '', repeat('y', 7000)]) AS x;"
           "UPDATE orders SET item = 'b'; SELECT pg_notify('c', '2')");
    harness_wait(h, CHANGED, "pg://shop/items/2");
}

static void a_query_without_a_channel_is_polled(void **state) {
    struct harness *h = open_source(*state, "query: SELECT count(*) AS n FROM orders\n"
                                            "uri: pg://shop/count\nevery: 100ms\n");

    harness_watch(h, "pg://shop/count");
    pg_run(&server, "INSERT INTO orders VALUES (3, 'x', 1)");
    harness_wait(h, CHANGED, "pg://shop/count");
}

static void the_template_of_a_polled_query_cannot_be_watched(void **state) {
    struct harness *h =
        open_source(*state, "query: SELECT item FROM orders WHERE id = CAST(:id AS int)\n"
                            "uri: pg://shop/items/{id}\n");

    assert_int_equal(
        tdg__source_watch(h->source, FOR_TEMPLATE("pg://shop/items/{id}"), NULL),
        TDG_ENOTSUP);
}

static void a_missing_trigger_is_logged(void **state) {
    struct harness *h = open_source(*state, ROWS);

    harness_watch_template(h, ROW_TEMPLATE);
    harness_wait(h, LOGGED, "has no trigger");
}

/* Not that it has no trigger, which is true, but no help. */
static void why_a_table_cannot_be_looked_at_is_logged(void **state) {
    struct harness *h =
        open_source(*state, "table: missing\nkey: id\nuri: pg://shop/missing/{id}\n");

    harness_watch(h, "pg://shop/missing/1");
    harness_wait(h, LOGGED, "cannot inspect public.missing: ");
    assert_int_equal(harness_count(h, LOGGED, "trigger"), 0);
}

static void a_table_that_may_not_be_read_is_logged(void **state) {
    struct harness *h;

    install("orders", "id", NULL);
    pg_run(&server, "REVOKE SELECT ON orders FROM PUBLIC");
    h = open_source(*state, ROWS);
    harness_watch(h, "pg://shop/orders/1");
    harness_wait(h, LOGGED, "cannot inspect public.orders: permission denied");
    assert_int_equal(harness_count(h, LOGGED, "trigger"), 0);
}

static void a_template_of_a_missing_table_cannot_be_watched(void **state) {
    struct harness *h =
        open_source(*state, "table: missing\nkey: id\nuri: pg://shop/missing/{id}\n"
                            "idle: 50ms\n");

    assert_int_equal(
        tdg__source_watch(h->source, FOR_TEMPLATE("pg://shop/missing/{id}"), NULL),
        TDG_EAGAIN);
    assert_int_equal(harness_wait(h, WATCHED, "pg://shop/missing/{id}")->status,
                     TDG_EREFUSED);
    harness_wait(h, LOGGED, "\"public.missing\" does not exist");
    wait_for_number(h, OURS, 0); /* nobody has use for the connection */
}

/* ---- The connection ----------------------------------------------------- */

static void a_connection_is_there_while_it_is_needed(void **state) {
    struct harness *h;

    install("orders", "id", NULL);
    h = open_source(*state, ROWS "idle: 50ms\n");
    assert_int_equal(pg_number(&server, OURS), 0);
    expect_status(h, "pg://shop/orders/1", 0, NULL);
    wait_for_number(h, OURS, 0);

    harness_watch(h, "pg://shop/orders/1");
    pg_run(&server, "UPDATE orders SET total = 0 WHERE id = 1");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    assert_int_equal(pg_number(&server, OURS), 1);
    tdg__source_unwatch(h->source, FOR_URI("pg://shop/orders/1"));
    wait_for_number(h, OURS, 0);

    /* And again. */
    harness_watch_template(h, ROW_TEMPLATE);
    wait_for_marker(h, 5);
    tdg__source_unwatch(h->source, FOR_TEMPLATE(ROW_TEMPLATE));
    harness_watch_template(h, ROW_TEMPLATE);
    wait_for_marker(h, 6);
}

static void an_idle_connection_may_be_lost(void **state) {
    struct harness *h = open_source(*state, ROWS);

    expect_status(h, "pg://shop/orders/1", 0, NULL);
    pg_run(&server, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
                    "WHERE application_name = 'tidings'");
    for (int i = 0; i < 10; i++)
        uv_run(&h->loop, UV_RUN_NOWAIT);
    expect_status(h, "pg://shop/orders/1", 0, NULL);
    assert_int_equal(harness_count(h, LOGGED, "unreachable"), 0);
}

/* And one that cannot be found is left out. */
static void a_name_of_a_host_is_looked_up(void **state) {
    struct fixture *f = *state;
    char yaml[512];

    snprintf(yaml, sizeof(yaml),
             "postgres: host=no-such-host.invalid,localhost port=%d user=reader "
             "dbname=postgres\nquery: SELECT 1 AS one\nuri: pg://one\n",
             server.port);
    harness_open(&f->harness, yaml);
    f->open = true;
    harness_expect(&f->harness, "pg://one", "[{\"one\":1}]");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_table_is_a_list_of_objects),
        TEST(a_row_is_an_object),
        TEST(a_key_is_spelled_as_the_database_does),
        TEST(values_are_bound_and_never_pasted),
        TEST(a_query_takes_named_parameters),
        TEST(types_become_json_types),
        TEST(text_is_utf8_whatever_the_database_has),
        TEST(csv_is_quoted_where_it_must_be),
        TEST(csv_without_rows_has_its_names),
        TEST(a_part_of_the_key_names_several_rows),
        TEST(more_rows_than_allowed_are_refused),
        TEST(content_larger_than_allowed_is_refused),
        TEST(a_key_that_is_not_unique_is_said),
        TEST(a_wrong_query_is_an_error_that_tells),
        TEST(a_query_that_takes_too_long_is_stopped),
        TEST(the_words_of_a_function_are_not_for_clients),
        TEST(a_wrong_entry_is_refused),
        TEST(rows_that_come_change_and_go_are_told),
        TEST(a_truncated_table_tells_every_row),
        TEST(what_a_replica_writes_is_told),
        TEST(what_was_written_without_the_trigger_is_told),
        TEST(a_table_that_takes_the_place_of_another_is_told),
        TEST(other_columns_are_told),
        TEST(partitions_that_come_and_go_are_told),
        TEST(a_partition_with_a_disabled_trigger_is_told),
        TEST(rows_of_children_are_told),
        TEST(children_may_have_triggers_of_their_own),
        TEST(a_trigger_for_another_channel_is_no_help),
        TEST(our_trigger_on_a_channel_of_ones_own_is_looked_at),
        TEST(a_trigger_without_a_mark_is_known_by_its_name),
        TEST(another_view_of_the_same_name_is_told),
        TEST(rights_on_columns_are_compared),
        TEST(a_probe_of_a_quiet_table_tells_nothing),
        TEST(a_key_that_changes_tells_both),
        TEST(what_was_rolled_back_or_changes_nothing_is_not_told),
        TEST(a_burst_is_told_with_its_last_state),
        TEST(a_read_that_overtakes_a_notification_hides_nothing),
        TEST(a_whole_table_is_told_as_one),
        TEST(odd_names_and_keys_work),
        TEST(composite_keys_with_times_are_told),
        TEST(a_query_is_told_by_its_channel),
        TEST(a_payload_of_ones_own_names_a_uri),
        TEST(a_query_without_a_channel_is_polled),
        TEST(the_template_of_a_polled_query_cannot_be_watched),
        TEST(a_missing_trigger_is_logged),
        TEST(why_a_table_cannot_be_looked_at_is_logged),
        TEST(a_table_that_may_not_be_read_is_logged),
        TEST(a_template_of_a_missing_table_cannot_be_watched),
        TEST(a_connection_is_there_while_it_is_needed),
        TEST(an_idle_connection_may_be_lost),
        TEST(a_name_of_a_host_is_looked_up),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("postgres", tests, start_server, stop_server);
}
