/* SPDX-License-Identifier: MIT
 *
 * Rows and DDL at random, with lost connections in between: when it is quiet, the last
 * notification of every row is about what the row is now. The event triggers are there,
 * and the probe comes once in an hour, so nothing that they miss is found later. */
#include <stdio.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "source/common/checksum.h"
#include "source/postgres/pg_ddl.h"
#include "support.h"
#include "unit/source/harness.h"
#include "unit/source/pg_server.h"

enum { IDS = 6, OPERATIONS = 12, ROUNDS = 12, PATIENCE_MS = 50 * 1000 };

#define TEMPLATE "pg://shop/orders/{id}"
#define CREATE_ORDERS                                                                    \
    "CREATE TABLE orders (id int PRIMARY KEY, item text, total text);"                   \
    "GRANT SELECT ON orders TO PUBLIC;"

struct world {
    struct pg_server server;
    struct harness harness;
    struct harness reader; /* another source: a read would let the first one compare */
    struct dice dice;
    char known[IDS][TDG__CHECKSUM + 1]; /* as last notified; "": there is none */
    size_t heard;                       /* happenings that are in `known` */
};

/* ---- What happens ------------------------------------------------------- */

static void write_rows(struct world *w) {
    unsigned id = roll(&w->dice, IDS), n = roll(&w->dice, 1000);

    switch (roll(&w->dice, 4)) {
    case 0:
        pg_run(&w->server, "DELETE FROM orders WHERE id = %u", id);
        break;
    case 1:
        pg_run(&w->server, "TRUNCATE orders");
        break;
    default:
        pg_run(&w->server,
               "INSERT INTO orders (id, item) VALUES (%u, '%u') "
               "ON CONFLICT (id) DO UPDATE SET item = excluded.item",
               id, n);
    }
}

static void swap(struct world *w) {
    pg_run(&w->server,
           "CREATE TABLE next (LIKE orders INCLUDING ALL);"
           "GRANT SELECT ON next TO PUBLIC;"
           "INSERT INTO next (id, item) VALUES (%u, 'swapped')",
           roll(&w->dice, IDS));
    pg_run(&w->server, "DROP TABLE IF EXISTS before;"
                       "ALTER TABLE orders RENAME TO before;"
                       "ALTER TABLE next RENAME TO orders");
    write_rows(w); /* no trigger fires */
    pg_install(&w->server, "orders", "id", NULL);
}

static void drop_and_create(struct world *w) {
    pg_run(&w->server, "DROP TABLE orders");
    uv_run(&w->harness.loop, UV_RUN_NOWAIT);
    pg_run(&w->server, CREATE_ORDERS);
    write_rows(w);
    pg_install(&w->server, "orders", "id", NULL);
}

static void disable(struct world *w) {
    pg_run(&w->server, "ALTER TABLE orders DISABLE TRIGGER ALL");
    write_rows(w);
    pg_run(&w->server, "ALTER TABLE orders ENABLE ALWAYS TRIGGER tidings_row,"
                       "ENABLE ALWAYS TRIGGER tidings_truncate");
}

static void alter(struct world *w) {
    static const char *const commands[] = {
        "ALTER TABLE orders ALTER item TYPE varchar(100) USING item || '+'",
        "ALTER TABLE orders ALTER item TYPE text USING left(item, 3)",
        "ALTER TABLE orders DROP total; ALTER TABLE orders ADD total text DEFAULT 'x'",
        "BEGIN; ALTER TABLE orders DROP item; ROLLBACK",
        "ALTER SCHEMA public RENAME TO elsewhere",
    };
    unsigned which = roll(&w->dice, COUNT(commands));

    pg_run(&w->server, "%s", commands[which]);
    if (which == COUNT(commands) - 1) {
        uv_run(&w->harness.loop, UV_RUN_NOWAIT);
        pg_run(&w->server, "ALTER SCHEMA elsewhere RENAME TO public");
    }
}

static void cut(struct world *w) {
    pg_run(&w->server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                       "WHERE application_name = 'tidings'");
}

static void do_something(struct world *w) {
    static void (*const things[])(struct world *) = {
        write_rows, write_rows, write_rows, swap, drop_and_create, disable, alter, cut,
    };

    things[roll(&w->dice, COUNT(things))](w);
}

/* ---- What was notified -------------------------------------------------- */

static void uri_of(unsigned id, char out[64]) {
    snprintf(out, 64, "pg://shop/orders/%u", id);
}

static void hear(struct world *w) {
    for (; w->heard < w->harness.count; w->heard++) {
        const struct happening *happening = &w->harness.happenings[w->heard];
        unsigned id;

        if (happening->kind != CHANGED && happening->kind != DELETED)
            continue;
        assert_int_equal(sscanf(happening->uri, "pg://shop/orders/%u", &id), 1);
        snprintf(w->known[id], sizeof(w->known[id]), "%s",
                 happening->kind == DELETED ? ""
                                            : json_string_value(json_object_get(
                                                  happening->metadata, "checksum")));
    }
}

/* "": there is no such row. False while that cannot be known. */
static bool look(struct world *w, unsigned id, char ret[TDG__CHECKSUM + 1]) {
    struct reading reading;
    bool done;
    char uri[64];

    uri_of(id, uri);
    reading = harness_read(&w->reader, uri);
    done = (reading.status == 0 || reading.status == TDG_ENOTFOUND) &&
           !json_is_true(json_object_get(reading.metadata, "stale"));
    ret[0] = '\0';
    if (reading.status == 0)
        assert_int_equal(tdg__checksum(reading.data, reading.len, ret), 0);
    reading_done(&reading);
    return done;
}

static bool agrees(struct world *w, bool show) {
    bool all = true;

    for (unsigned id = 0; id < IDS; id++) {
        char now[TDG__CHECKSUM + 1];
        bool done = look(w, id, now);

        hear(w);
        if (done && strcmp(now, w->known[id]) == 0)
            continue;
        all = false;
        if (show)
            printf("# row %u: '%s', notified '%s'\n", id, done ? now : "?", w->known[id]);
    }
    return all;
}

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
}

static void wait_for_agreement(struct world *w) {
    uint64_t deadline;

    uv_update_time(&w->harness.loop);
    deadline = uv_now(&w->harness.loop) + PATIENCE_MS;
    while (!agrees(w, false) && uv_now(&w->harness.loop) < deadline) {
        nap();
        uv_run(&w->harness.loop, UV_RUN_NOWAIT);
    }
    if (!agrees(w, true))
        fail_msg("they do not agree; TDG_SEED=%llu", (unsigned long long)w->dice.seed);
}

/* ---- The test ----------------------------------------------------------- */

static void open_world(struct world *w) {
    tdg__text_t sql;
    char yaml[512];

    w->dice = dice_from_env();
    printf("# TDG_SEED=%llu\n", (unsigned long long)w->dice.seed);
    pg_server_create(&w->server);
    pg_run(&w->server, "CREATE ROLE reader LOGIN;" CREATE_ORDERS);
    pg_install(&w->server, "orders", "id", NULL);
    tdg__text_init(&sql, 1 << 20);
    tdg__pg_put_ddl_install(&sql);
    pg_run(&w->server, "%s", sql.data);
    tdg__text_done(&sql);

    snprintf(yaml, sizeof(yaml),
             "postgres: %s\ntable: orders\nkey: id\nuri: " TEMPLATE "\nprobe: 1h\n"
             "retry: 5ms\nretry-max: 20ms\n",
             pg_conninfo(&w->server, "reader", 0));
    harness_open(&w->reader, yaml);
    harness_open(&w->harness, yaml);
    harness_watch_template(&w->harness, TEMPLATE);
    harness_watch(&w->harness, "pg://shop/orders/1");
}

static void the_last_notification_is_about_what_is(void **state) {
    struct world *w = calloc(1, sizeof(*w));

    (void)state;
    assert_non_null(w);
    open_world(w);
    for (unsigned round = 0; round < often(ROUNDS); round++) {
        for (unsigned i = 0; i < 1 + roll(&w->dice, OPERATIONS); i++) {
            do_something(w);
            for (unsigned turns = roll(&w->dice, 4); turns > 0; turns--)
                uv_run(&w->harness.loop, UV_RUN_NOWAIT);
        }
        wait_for_agreement(w);
    }
    harness_close(&w->harness);
    harness_close(&w->reader);
    pg_server_destroy(&w->server);
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_notification_is_about_what_is),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("pg_random", tests, NULL, NULL);
}
