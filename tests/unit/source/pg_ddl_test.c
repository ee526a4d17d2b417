/* SPDX-License-Identifier: MIT
 *
 * DDL with the event triggers in place. Except where the test is about probing, the probe
 * comes once in an hour, so that nothing but an event trigger can explain what is
 * noticed. */
#include <stdio.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "source/postgres/pg_ddl.h"
#include "support.h"
#include "unit/source/harness.h"
#include "unit/source/pg_server.h"
#include "unit/targets.h"

static struct pg_server server;

struct fixture {
    struct harness harness;
    bool open;
};

#define ORDERS                                                                           \
    "CREATE TABLE orders (id int PRIMARY KEY, item text, total numeric);"                \
    "INSERT INTO orders VALUES (1, 'tea', 4.50), (2, 'cake', 3);"                        \
    "GRANT SELECT ON orders TO PUBLIC;"

static void set_up_tables(void) {
    pg_run(&server, "DROP SCHEMA IF EXISTS tidings, \"Odd \"\"schema\"\"\" CASCADE;"
                    "DROP SCHEMA IF EXISTS public, spare CASCADE; CREATE SCHEMA public;"
                    "GRANT USAGE ON SCHEMA public TO PUBLIC;" ORDERS);
}

static int setup(void **state) {
    *state = calloc(1, sizeof(struct fixture));
    set_up_tables();
    return 0;
}

static void close_source(struct fixture *f) {
    if (f->open)
        harness_close(&f->harness);
    f->open = false;
}

static int teardown(void **state) {
    close_source(*state);
    free(*state);
    return 0;
}

static int start_server(void **state) {
    (void)state;
    pg_server_create(&server);
    pg_run(&server, "CREATE ROLE reader LOGIN; CREATE ROLE owner LOGIN");
    return 0;
}

static int stop_server(void **state) {
    (void)state;
    pg_server_destroy(&server);
    return 0;
}

static void install_event_triggers(void) {
    tdg__text_t sql;

    tdg__text_init(&sql, 1 << 20);
    tdg__pg_put_ddl_install(&sql);
    assert_int_equal(sql.error, 0);
    pg_run(&server, "%s", sql.data);
    tdg__text_done(&sql);
    assert_int_equal(pg_number(&server, "SELECT count(*) FROM pg_event_trigger WHERE "
                                        "evtname LIKE 'tidings%' AND evtenabled = 'A'"),
                     3);
}

#define ROW_TEMPLATE "pg://shop/orders/{id}"
#define ROWS "table: orders\nkey: id\nuri: " ROW_TEMPLATE "\n"

static struct harness *open_source(struct fixture *f, const char *more) {
    char yaml[4096];

    snprintf(yaml, sizeof(yaml), "postgres: %s\n%s", pg_conninfo(&server, "reader", 0),
             more);
    harness_open(&f->harness, yaml);
    f->open = true;
    return &f->harness;
}

static struct harness *watch_orders(struct fixture *f) {
    struct harness *h;

    pg_install(&server, "orders", "id", NULL);
    install_event_triggers();
    h = open_source(f, ROWS "probe: 1h\n");
    harness_watch_template(h, ROW_TEMPLATE);
    harness_watch(h, "pg://shop/orders/1");
    return h;
}

/* ---- What is noticed ---------------------------------------------------- */

/* `session_replication_role` of whoever runs DDL. */
static const char *replication_role = "origin";

/* Each statement for itself, as some of them need. */
static PGconn *connect_as(const char *role) {
    PGconn *conn = PQconnectdb(pg_conninfo(&server, role, 0));

    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(conn));
    return conn;
}

static void run_on(PGconn *conn, const char *sql) {
    PGresult *result = PQexec(conn, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK &&
        PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQresultErrorMessage(result));
    PQclear(result);
}

static void run_ddl(const char *sql) {
    PGconn *conn = connect_as("postgres");
    char set[64];

    snprintf(set, sizeof(set), "SET session_replication_role = %s", replication_role);
    run_on(conn, set);
    run_on(conn, "SET client_min_messages = warning");
    run_on(conn, sql);
    PQfinish(conn);
}

static void a_table_that_is_altered(struct fixture *f) {
    static const char *const commands[] = {
        "ALTER TABLE orders ALTER total TYPE text USING 'USD ' || total", /* rewrites */
        "ALTER TABLE orders ADD paid boolean DEFAULT false",              /* does not */
        "ALTER TABLE orders RENAME item TO article",
        "ALTER TABLE orders DROP total",
    };
    struct harness *h = watch_orders(f);

    for (size_t i = 0; i < COUNT(commands); i++) {
        run_ddl(commands[i]);
        harness_wait(h, CHANGED, "pg://shop/orders/1");
        harness_wait(h, CHANGED, "pg://shop/orders/2");
    }
}

static void a_table_that_is_dropped_and_made_anew(struct fixture *f) {
    struct harness *h = watch_orders(f);

    run_ddl("DROP TABLE orders");
    harness_wait(h, LOGGED, "cannot inspect public.orders");
    run_ddl("CREATE TABLE orders (id int PRIMARY KEY, item text);"
            "INSERT INTO orders VALUES (1, 'tea'), (3, 'jam');"
            "GRANT SELECT ON orders TO PUBLIC");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    harness_wait(h, DELETED, "pg://shop/orders/2");
    harness_wait(h, CHANGED, "pg://shop/orders/3");
    harness_wait(h, LOGGED, "has no trigger");
}

static void tables_that_swap_their_names(struct fixture *f) {
    struct harness *h = watch_orders(f);

    pg_run(&server, "CREATE TABLE next (LIKE orders INCLUDING ALL);"
                    "INSERT INTO next VALUES (1, 'coffee', 4.50), (3, 'jam', 2);"
                    "GRANT SELECT ON next TO PUBLIC");
    run_ddl("BEGIN; ALTER TABLE orders RENAME TO before;"
            "ALTER TABLE next RENAME TO orders; COMMIT");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    harness_wait(h, DELETED, "pg://shop/orders/2");
    harness_wait(h, CHANGED, "pg://shop/orders/3");

    /* And back; then away, with our trigger, which shows whose name it had. */
    run_ddl("BEGIN; ALTER TABLE orders RENAME TO next;"
            "ALTER TABLE before RENAME TO orders; COMMIT");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    harness_wait(h, DELETED, "pg://shop/orders/3");
    run_ddl("ALTER TABLE orders RENAME TO before");
    harness_wait(h, LOGGED, "cannot inspect public.orders");
}

static void a_view_in_the_place_of_a_table(struct fixture *f) {
    struct harness *h = watch_orders(f);

    run_ddl("BEGIN; ALTER TABLE orders RENAME TO data;"
            "CREATE VIEW orders AS SELECT id, item FROM data;"
            "GRANT SELECT ON orders TO PUBLIC; COMMIT");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    run_ddl("CREATE OR REPLACE VIEW orders AS SELECT id, upper(item) AS item FROM data");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
}

static void schemas_that_swap_their_names(struct fixture *f) {
    struct harness *h = watch_orders(f);

    pg_run(&server, "CREATE SCHEMA spare; GRANT USAGE ON SCHEMA spare TO PUBLIC;"
                    "CREATE TABLE spare.orders AS SELECT 1 AS id, 'coffee' AS item;"
                    "GRANT SELECT ON spare.orders TO PUBLIC");
    run_ddl("ALTER SCHEMA public RENAME TO before");
    harness_wait(h, LOGGED, "cannot inspect public.orders");
    run_ddl("ALTER SCHEMA spare RENAME TO public");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    harness_wait(h, DELETED, "pg://shop/orders/2");
    run_ddl("DROP SCHEMA before CASCADE");
}

static void a_schema_that_is_dropped(struct fixture *f) {
    struct harness *h = watch_orders(f);

    run_ddl("DROP SCHEMA public CASCADE");
    harness_wait(h, LOGGED, "cannot inspect public.orders");
}

static void a_type_that_a_column_uses(struct fixture *f) {
    struct harness *h;

    pg_run(&server, "CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE DOMAIN moods AS "
                    "mood[]; ALTER TABLE orders ADD mood mood, ADD moods moods;"
                    "UPDATE orders SET mood = 'glad', moods = '{sad}'");
    h = watch_orders(f);
    run_ddl("ALTER TYPE mood RENAME VALUE 'glad' TO 'happy'");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    pg_run(&server, "ALTER TABLE orders DROP mood");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    run_ddl("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
}

static void the_type_of_a_table(struct fixture *f) {
    struct harness *h;

    pg_run(&server, "DROP TABLE orders; CREATE TYPE made AS (id int, total int);"
                    "CREATE TABLE orders OF made; GRANT SELECT ON orders TO PUBLIC;"
                    "INSERT INTO orders VALUES (1, 2)");
    h = watch_orders(f);
    run_ddl("ALTER TYPE made ADD ATTRIBUTE item text CASCADE");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    run_ddl("ALTER TYPE made ALTER ATTRIBUTE id TYPE bigint CASCADE"); /* rewrites */
    harness_wait(h, LOGGED, "fires no trigger");
    harness_wait(h, LOGGED, "fires no trigger");
}

static void partitions(struct fixture *f) {
    struct harness *h;

    pg_run(&server, "DROP TABLE orders;"
                    "CREATE TABLE orders (id int PRIMARY KEY, item text) "
                    "PARTITION BY RANGE (id);"
                    "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (9);"
                    "CREATE TABLE high (id int PRIMARY KEY, item text);"
                    "INSERT INTO orders VALUES (1, 'tea');"
                    "INSERT INTO high VALUES (11, 'jam');"
                    "GRANT SELECT ON orders TO PUBLIC");
    h = watch_orders(f);
    run_ddl("ALTER TABLE orders ATTACH PARTITION high FOR VALUES FROM (10) TO (19)");
    harness_wait(h, CHANGED, "pg://shop/orders/11");
    run_ddl("ALTER TABLE orders DETACH PARTITION high");
    harness_wait(h, DELETED, "pg://shop/orders/11");
    run_ddl("ALTER TABLE orders ATTACH PARTITION high FOR VALUES FROM (10) TO (19)");
    harness_wait(h, CHANGED, "pg://shop/orders/11");
    run_ddl("ALTER TABLE orders DETACH PARTITION high CONCURRENTLY");
    harness_wait(h, DELETED, "pg://shop/orders/11");
    run_ddl("ALTER TABLE low DISABLE TRIGGER tidings_row");
    harness_wait(h, LOGGED, "has a disabled trigger");
    run_ddl("DROP TABLE low");
    harness_wait(h, DELETED, "pg://shop/orders/1");
}

static void row_policies(struct fixture *f) {
    struct harness *h = watch_orders(f);

    /* Both, each time: one that is looked at only after the next command may be as it
     * was. */
    run_ddl("ALTER TABLE orders ENABLE ROW LEVEL SECURITY");
    harness_wait(h, DELETED, "pg://shop/orders/1");
    harness_wait(h, DELETED, "pg://shop/orders/2");
    run_ddl("CREATE POLICY cheap ON orders USING (total < 4)");
    harness_wait(h, CHANGED, "pg://shop/orders/2");
    run_ddl("ALTER POLICY cheap ON orders USING (total > 4)");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    harness_wait(h, DELETED, "pg://shop/orders/2");
    run_ddl("DROP POLICY cheap ON orders");
    harness_wait(h, DELETED, "pg://shop/orders/1");
}

static void a_trigger_that_is_disabled(struct fixture *f) {
    struct harness *h = watch_orders(f);

    run_ddl("BEGIN; ALTER TABLE orders DISABLE TRIGGER tidings_row;"
            "UPDATE orders SET total = 9 WHERE id = 1;"
            "ALTER TABLE orders ENABLE ALWAYS TRIGGER tidings_row; COMMIT");
    harness_wait(h, CHANGED, "pg://shop/orders/1");
    run_ddl("ALTER TABLE orders DISABLE TRIGGER tidings_row");
    harness_wait(h, LOGGED, "has a disabled trigger");
    run_ddl("DROP TRIGGER tidings_row ON orders");
    harness_wait(h, LOGGED, "has no trigger");
}

typedef void scenario_fn(struct fixture *fixture);

static scenario_fn *const scenarios[] = {
    a_table_that_is_altered,
    a_table_that_is_dropped_and_made_anew,
    tables_that_swap_their_names,
    a_view_in_the_place_of_a_table,
    schemas_that_swap_their_names,
    a_schema_that_is_dropped,
    a_type_that_a_column_uses,
    the_type_of_a_table,
    partitions,
    row_policies,
    a_trigger_that_is_disabled,
};

static void run_scenarios(struct fixture *f) {
    for (size_t i = 0; i < COUNT(scenarios); i++) {
        set_up_tables();
        scenarios[i](f);
        close_source(f);
    }
}

static void ddl_is_noticed_at_once(void **state) {
    replication_role = "origin";
    run_scenarios(*state);
}

static void ddl_of_a_replica_is_noticed_at_once(void **state) {
    replication_role = "replica";
    run_scenarios(*state);
    replication_role = "origin";
}

static void a_plain_uri_is_looked_at_too(void **state) {
    struct harness *h;

    pg_install(&server, "orders", "id", "mine");
    install_event_triggers();
    h = open_source(*state, "table: orders\nkey: id\nuri: pg://shop/orders\n"
                            "channel: mine\nprobe: 1h\n");
    harness_watch(h, "pg://shop/orders");
    run_ddl("ALTER TABLE orders DROP total");
    harness_wait_for_text(h, "pg://shop/orders",
                          "[{\"id\":1,\"item\":\"tea\"},\n{\"id\":2,\"item\":\"cake\"}]");
}

/* Of a query nobody knows the tables, but it may listen to one of them. */
static void a_query_is_looked_at_by_the_channel_of_a_table(void **state) {
    struct harness *h;

    pg_install(&server, "orders", "id", NULL);
    install_event_triggers();
    h = open_source(*state, "query: SELECT count(*) AS n FROM orders\n"
                            "uri: pg://shop/count\nchannel: tidings_public_orders\n");
    harness_watch(h, "pg://shop/count");
    run_ddl("BEGIN; DROP TABLE orders; CREATE TABLE orders (id int);"
            "GRANT SELECT ON orders TO PUBLIC; COMMIT");
    harness_wait_for_text(h, "pg://shop/count", "[{\"n\":0}]");
}

/* ---- What is sent ------------------------------------------------------- */

/* The channels that were notified since the last call, each with a space behind it; the
 * payload is always the same. */
static const char *notified(PGconn *listener) {
    static char channels[1024];
    PGnotify *notification;

    run_on(listener, "SELECT 1"); /* what was committed before comes with the answer */
    channels[0] = '\0';
    while ((notification = PQnotifies(listener)) != NULL) {
        assert_string_equal(notification->extra, "{\"op\":\"DDL\"}");
        strcat(strcat(channels, notification->relname), " ");
        PQfreemem(notification);
    }
    return channels;
}

static PGconn *listen_to(const char *listens) {
    PGconn *listener = connect_as("postgres");

    run_on(listener, listens);
    return listener;
}

static void other_tables_notify_of_nothing(void **state) {
    PGconn *listener;

    (void)state;
    pg_install(&server, "orders", "id", NULL);
    install_event_triggers();
    listener = listen_to("LISTEN tidings_public_orders; LISTEN tidings_public_other");
    run_ddl("CREATE TABLE other (id int PRIMARY KEY); ALTER TABLE other ADD a int;"
            "CREATE TYPE kind AS ENUM ('a'); ALTER TYPE kind RENAME VALUE 'a' TO 'b';"
            "CREATE VIEW shown AS SELECT id FROM other; ALTER TABLE other ALTER a TYPE "
            "text; CREATE TEMP TABLE orders (id int); ALTER TABLE orders ADD b int;"
            "DROP TABLE orders; DROP TABLE other CASCADE; CREATE SCHEMA spare;"
            "ALTER SCHEMA spare RENAME TO used; DROP SCHEMA used; CREATE INDEX ON "
            "public.orders (item)");
    run_ddl("BEGIN; CREATE TABLE other (id int); PREPARE TRANSACTION 'other'");
    run_ddl("COMMIT PREPARED 'other'");
    run_ddl("BEGIN; ALTER TABLE orders DROP total; DROP TABLE orders; ROLLBACK");
    assert_string_equal(notified(listener), "");
    run_ddl("ALTER TABLE orders DROP total");
    assert_string_equal(notified(listener), "tidings_public_orders ");
    PQfinish(listener);
}

#define ODD "\"Odd \"\"schema\"\"\".\"It's \"\"odd\"\" on the channel \"\"x\"\"\""
#define LONG                                                                             \
    "\"a_name_of_sixty_three_bytes_with_\u00e4\u00f6\u00fc_which_no_function_could\""

static void each_table_has_its_channel(void **state) {
    PGconn *listener;

    (void)state;
    pg_run(&server,
           "CREATE SCHEMA \"Odd \"\"schema\"\"\"; CREATE TABLE %s (id int);"
           "CREATE TABLE %s (id int); CREATE SCHEMA spare;"
           "CREATE TABLE spare.orders (id int)",
           ODD, LONG);
    pg_install(&server, "orders", "id", NULL);
    pg_install(&server, "spare.orders", "id", "an \"odd\" channel's");
    pg_install(&server, ODD, "id", "odd");
    pg_install(&server, LONG, "id", "long");
    install_event_triggers();
    listener = listen_to("LISTEN tidings_public_orders; LISTEN odd; LISTEN long;"
                         "LISTEN \"an \"\"odd\"\" channel's\"");

    run_ddl("ALTER TABLE orders ADD a int");
    assert_string_equal(notified(listener), "tidings_public_orders ");
    run_ddl("ALTER TABLE spare.orders ADD a int");
    assert_string_equal(notified(listener), "an \"odd\" channel's ");
    run_ddl("ALTER TABLE " ODD " ADD a int");
    assert_string_equal(notified(listener), "odd ");
    run_ddl("DROP TABLE " ODD);
    assert_string_equal(notified(listener), "odd ");
    run_ddl("CREATE TABLE " ODD " (id int)");
    assert_string_equal(notified(listener), "odd ");
    run_ddl("DROP TABLE " LONG);
    assert_string_equal(notified(listener), "long ");
    run_ddl("ALTER SCHEMA spare RENAME TO other; ALTER SCHEMA other RENAME TO spare");
    assert_string_equal(notified(listener), "an \"odd\" channel's ");
    PQfinish(listener);
}

/* ---- DDL of others goes on ---------------------------------------------- */

static void the_ddl_of_others_goes_on_whatever_happens(void **state) {
    PGconn *owner;

    (void)state;
    pg_install(&server, "orders", "id", NULL);
    install_event_triggers();
    pg_run(&server,
           "GRANT ALL ON SCHEMA public TO owner; ALTER TABLE orders OWNER TO owner;"
           "CREATE FUNCTION tidings_public_next() RETURNS trigger LANGUAGE plpgsql "
           "AS 'BEGIN RETURN NULL; END'; COMMENT ON FUNCTION tidings_public_next() IS "
           "'tidings notifies of \"public\".\"next\" on the channel \"%s\"'",
           "a channel that has more bytes than a name in PostgreSQL may have");
    owner = connect_as("owner");
    run_on(owner, "CREATE TABLE next (id int)"); /* that channel cannot be notified */

    /* Every statement of the function fails, for everybody but superusers. */
    pg_run(&server, "REVOKE SELECT ON pg_catalog.pg_class, pg_catalog.pg_proc, "
                    "pg_catalog.pg_description FROM PUBLIC");
    run_on(owner, "ALTER TABLE orders ADD a int");
    run_on(owner, "ALTER TABLE orders ALTER a TYPE text");
    run_on(owner, "SET plpgsql.extra_errors = 'all'; SET search_path = public;"
                  "SET standard_conforming_strings = off;"
                  "ALTER TABLE orders RENAME TO next_orders");
    run_on(owner, "DROP TABLE next_orders, next");
    pg_run(&server, "GRANT SELECT ON pg_catalog.pg_class, pg_catalog.pg_proc, "
                    "pg_catalog.pg_description TO PUBLIC");
    run_on(owner, "CREATE TABLE orders (id int); DROP TABLE orders");

    /* Their function goes with the table's schema, the event triggers with theirs. */
    pg_run(&server, "DROP FUNCTION tidings_public_orders CASCADE");
    run_on(owner, "CREATE TABLE orders (id int)");
    pg_run(&server, "DROP SCHEMA tidings CASCADE");
    run_on(owner, "DROP TABLE orders");
    PQfinish(owner);
}

/* ---- Without them ------------------------------------------------------- */

static void keep_warning(void *arg, const char *message) {
    snprintf(arg, 256, "%s", message);
}

static void a_role_without_the_right_is_served_by_the_probe(void **state) {
    char warning[256] = "";
    tdg__text_t sql;
    struct harness *h;
    PGconn *owner;

    pg_run(&server, "GRANT ALL ON SCHEMA public TO owner; GRANT CREATE ON DATABASE "
                    "postgres TO owner; ALTER TABLE orders OWNER TO owner");
    pg_install(&server, "orders", "id", NULL);
    tdg__text_init(&sql, 1 << 20);
    tdg__pg_put_ddl_install(&sql);
    owner = connect_as("owner");
    PQsetNoticeProcessor(owner, keep_warning, warning);
    run_on(owner, sql.data);
    if (strstr(warning, "permission denied to create event trigger") == NULL ||
        strstr(warning, "next probe") == NULL)
        fail_msg("%s", warning);
    assert_int_equal(pg_number(&server, "SELECT count(*) FROM pg_namespace WHERE "
                                        "nspname = 'tidings'"),
                     0);

    h = open_source(*state, ROWS "probe: 100ms\n");
    harness_watch_template(h, ROW_TEMPLATE);
    run_on(owner, "ALTER TABLE orders DROP total");
    harness_wait(h, CHANGED, "pg://shop/orders/1");

    /* Those of somebody else serve it as well. */
    install_event_triggers();
    warning[0] = '\0';
    run_on(owner, sql.data);
    assert_string_equal(warning, "");
    tdg__text_done(&sql);
    PQfinish(owner);
}

/* Otherwise who makes a function of this name first runs it with the rights of all. */
static void a_function_of_this_name_is_taken_from_its_owner(void **state) {
    (void)state;
    pg_run(&server, "CREATE SCHEMA tidings AUTHORIZATION owner; SET ROLE owner;"
                    "CREATE FUNCTION tidings.notify_of_ddl() RETURNS event_trigger "
                    "LANGUAGE plpgsql AS 'BEGIN END'");
    install_event_triggers();
    assert_int_equal(pg_number(&server, "SELECT count(*) FROM pg_proc WHERE proowner = "
                                        "'owner'::regrole"),
                     0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(ddl_is_noticed_at_once),
        TEST(ddl_of_a_replica_is_noticed_at_once),
        TEST(a_plain_uri_is_looked_at_too),
        TEST(a_query_is_looked_at_by_the_channel_of_a_table),
        TEST(other_tables_notify_of_nothing),
        TEST(each_table_has_its_channel),
        TEST(the_ddl_of_others_goes_on_whatever_happens),
        TEST(a_role_without_the_right_is_served_by_the_probe),
        TEST(a_function_of_this_name_is_taken_from_its_owner),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("pg_ddl", tests, start_server, stop_server);
}
