/* SPDX-License-Identifier: MIT
 *
 * A real database in a temporary folder, written to by another connection. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <sqlite3.h>

#include "support.h"
#include "unit/source/folder.h"
#include "unit/source/harness.h"
#include "unit/source/namespace.h"
#include "unit/targets.h"

struct fixture {
    struct folder folder;
    struct harness harness;
    sqlite3 *db; /* the other connection */
};

static void sql(struct fixture *f, const char *text) {
    char *error = NULL;

    if (sqlite3_exec(f->db, text, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", text, error);
}

static void connect_to(struct fixture *f, const char *name) {
    char path[FOLDER_PATH];

    folder_path(&f->folder, name, path);
    assert_int_equal(sqlite3_open(path, &f->db), SQLITE_OK);
    sqlite3_busy_timeout(f->db, 60000);
}

#define SCHEMA "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT);"

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));

    folder_create(&f->folder);
    connect_to(f, "a.db");
    sql(f, SCHEMA "INSERT INTO t VALUES(1, 'one')");
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    sqlite3_close(f->db);
    folder_destroy(&f->folder);
    free(f);
    return 0;
}

#define ALL "query: SELECT * FROM t ORDER BY id\nuri: db:t\n"

static void open_db(struct fixture *f, const char *name, const char *yaml) {
    char text[4096];

    snprintf(text, sizeof(text), "sqlite: %s/%s\n%s", f->folder.path, name, yaml);
    harness_open(&f->harness, text);
}

static void expect_failure(struct fixture *f, const char *uri, int status,
                           const char *part) {
    struct reading reading = harness_read(&f->harness, uri);

    if (reading.status != status || reading.error == NULL ||
        strstr(reading.error, part) == NULL)
        fail_msg("%d %s", reading.status, reading.error != NULL ? reading.error : "-");
    reading_done(&reading);
}

/* ---- Reading ------------------------------------------------------------ */

static void rows_are_json(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    sql(f, "CREATE TABLE v(a, b, c, d, e);"
           "INSERT INTO v VALUES(NULL, 9223372036854775807, 1.5, 'text \"x\"', x'00ff');"
           "INSERT INTO v VALUES(-1, 2.0, CAST(x'ff' AS TEXT), '', x'')");
    open_db(f, "a.db", "query: SELECT * FROM v\nuri: db:v\n");
    reading = harness_read(&f->harness, "db:v");
    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data,
                        "[{\"a\":null,\"b\":9223372036854775807,\"c\":1.5,"
                        "\"d\":\"text \\\"x\\\"\",\"e\":\"AP8=\"},\n"
                        "{\"a\":-1,\"b\":2.0,\"c\":\"/w==\",\"d\":\"\",\"e\":\"\"}]");
    assert_string_equal(reading.mime_type, "application/json");
    assert_int_equal(json_integer_value(json_object_get(reading.metadata, "rows")), 2);
    assert_true(json_is_integer(json_object_get(reading.metadata, "data_version")));
    reading_done(&reading);
    harness_close(&f->harness);

    open_db(f, "a.db", "query: SELECT * FROM v\nuri: db:v\nformat: csv\n");
    reading = harness_read(&f->harness, "db:v");
    assert_string_equal(reading.data,
                        "a,b,c,d,e\r\n"
                        ",9223372036854775807,1.5,\"text \"\"x\"\"\",AP8=\r\n"
                        "-1,2.0,/w==,\"\",\"\"\r\n");
    assert_string_equal(reading.mime_type, "text/csv");
    reading_done(&reading);
    harness_close(&f->harness);
}

static void variables_are_bound(void **state) {
    struct fixture *f = *state;

    sql(f, "INSERT INTO t VALUES(2, 'two'), (3, 'it''s')");
    open_db(f, "a.db", "query: SELECT name FROM t WHERE id = :id\nuri: 'db:t/{id}'\n");
    harness_expect(&f->harness, "db:t/2", "[{\"name\":\"two\"}]");
    harness_expect(&f->harness, "db:t/9", "[]");
    /* Text is text, whatever is in it. */
    harness_expect(&f->harness, "db:t/1%20OR%201%3D1", "[]");
    harness_expect(&f->harness, "db:t/1%3B%20DROP%20TABLE%20t%3B--", "[]");
    harness_close(&f->harness);

    open_db(f, "a.db",
            "query: SELECT id FROM t WHERE name = :name\nuri: 'db:n/{name}'\n");
    harness_expect(&f->harness, "db:n/it%27s", "[{\"id\":3}]");
    harness_expect(&f->harness, "db:n/x%27%20OR%20%271%27%3D%271", "[]");
    harness_close(&f->harness);
    sql(f, "SELECT * FROM t"); /* it is still there */
}

static void a_wrong_query_says_so_and_is_not_retried(void **state) {
    static const struct {
        const char *query, *error;
    } cases[] = {
        {"SELECT * FROM nowhere", "no such table: nowhere"},
        {"SELECT 1; SELECT 2", "one statement"},
        {"SELECT 1 AS a, 2 AS a", "two columns are called a"},
        {"SELECT :idd", "not a variable of the uri"},
        {"SELECT ?", "without a name"},
        {"SELECT load_extension('x')", "not authorized"},
        {"SELECT * FROM pragma_database_list", "not authorized"},
        {"WITH x AS (SELECT 1) DELETE FROM t", "not authorized"},
        {"WITH x AS (SELECT 1) INSERT INTO t SELECT 5, 5", "not authorized"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        char yaml[512];

        snprintf(yaml, sizeof(yaml),
                 "query: \"%s\"\nuri: db:x\nretry: 1ms\nretry-max: 1ms\n",
                 cases[i].query);
        open_db(f, "a.db", yaml);
        expect_failure(f, "db:x", TDG_EINVAL, cases[i].error);
        harness_watch(&f->harness, "db:x");
        for (int turn = 0; turn < 20; turn++) {
            usleep(1000);
            uv_run(&f->harness.loop, UV_RUN_NOWAIT);
        }
        assert_int_equal(harness_count(&f->harness, LOGGED, "retrying"), 0);
        harness_close(&f->harness);
    }
    harness_refuses("sqlite: a.db\nquery: DELETE FROM t\nuri: db:t\n",
                    "must be a SELECT");
    harness_refuses("sqlite: a.db\nquery: ATTACH 'x' AS y\nuri: db:t\n",
                    "must be a SELECT");
    harness_refuses("sqlite: a.db\nuri: db:t\n", "query is missing");
}

static void there_are_limits(void **state) {
    struct fixture *f = *state;

    sql(f, "INSERT INTO t VALUES(2, 'two'), (3, 'three')");
    open_db(f, "a.db", ALL "max-rows: 2\n");
    expect_failure(f, "db:t", TDG_ETOOLARGE, "more than max-rows (2) rows");
    harness_close(&f->harness);
    open_db(f, "a.db", ALL "max-size: 50\n");
    expect_failure(f, "db:t", TDG_ETOOLARGE, "larger than max-size");
    harness_close(&f->harness);
    open_db(f, "a.db", "query: SELECT zeroblob(500000000) AS z\nuri: db:t\n");
    expect_failure(f, "db:t", TDG_ETOOLARGE, "larger than max-size");
    harness_close(&f->harness);
}

static void a_long_query_is_interrupted(void **state) {
    struct fixture *f = *state;

    open_db(f, "a.db",
            "query: WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT count(*) FROM n\nuri: db:t\ntimeout: 200ms\n");
    expect_failure(f, "db:t", TDG_EUNREACHABLE, "no answer within 200 ms");
    /* And so is one that runs when the source closes. */
    struct reading reading;

    harness_start_read(&f->harness, "db:t", &reading);
    for (int i = 0; i < 5; i++)
        uv_run(&f->harness.loop, UV_RUN_NOWAIT);
    harness_close(&f->harness);
    assert_int_equal(reading.status, TDG_EUNREACHABLE);
    reading_done(&reading);
}

/* ---- Watching ----------------------------------------------------------- */

static void changes_are_noticed(struct fixture *f) {
    open_db(f, "a.db", ALL "every: 30s\n"); /* by the file alone */
    harness_watch(&f->harness, "db:t");
    harness_expect(&f->harness, "db:t", "[{\"id\":1,\"name\":\"one\"}]");
    sql(f, "INSERT INTO t VALUES(2, 'two')");
    harness_wait_for_text(&f->harness, "db:t",
                          "[{\"id\":1,\"name\":\"one\"},\n{\"id\":2,\"name\":\"two\"}]");
    sql(f, "UPDATE t SET name = 'zwei' WHERE id = 2");
    harness_wait_for_text(&f->harness, "db:t",
                          "[{\"id\":1,\"name\":\"one\"},\n{\"id\":2,\"name\":\"zwei\"}]");
    sql(f, "DELETE FROM t WHERE id = 2");
    harness_wait_for_text(&f->harness, "db:t", "[{\"id\":1,\"name\":\"one\"}]");
    /* What is rolled back was never there. */
    sql(f, "BEGIN IMMEDIATE; UPDATE t SET name = 'x'; ROLLBACK");
    /* Another table is none of our business. */
    sql(f, "CREATE TABLE u(x); INSERT INTO u VALUES(1)");
    assert_int_equal(harness_count(&f->harness, CHANGED, NULL), 0);
    sql(f, "UPDATE t SET name = 'last'");
    harness_wait_for_text(&f->harness, "db:t", "[{\"id\":1,\"name\":\"last\"}]");
    assert_int_equal(harness_count(&f->harness, CHANGED, NULL), 0);
    for (int i = 0; i < 300; i++) { /* the last of many */
        char text[64];

        snprintf(text, sizeof(text), "UPDATE t SET name = '%d'", i);
        sql(f, text);
        uv_run(&f->harness.loop, UV_RUN_NOWAIT);
    }
    harness_wait_for_text(&f->harness, "db:t", "[{\"id\":1,\"name\":\"299\"}]");
    harness_close(&f->harness);
}

static void changes_are_noticed_with_a_journal(void **state) {
    changes_are_noticed(*state);
}

static void changes_are_noticed_with_a_wal(void **state) {
    sql(*state, "PRAGMA journal_mode = WAL");
    changes_are_noticed(*state);
}

static void changes_are_noticed_with_a_kept_journal(void **state) {
    sql(*state, "PRAGMA journal_mode = PERSIST");
    changes_are_noticed(*state);
}

static void a_template_cannot_be_watched_but_its_uris_can(void **state) {
    struct fixture *f = *state;

    open_db(f, "a.db",
            "query: SELECT name FROM t WHERE id = :id\nuri: 'db:t/{id}'\n"
            "every: 50ms\n");
    assert_int_equal(
        tdg__source_watch(f->harness.source, FOR_TEMPLATE("db:t/{id}"), NULL),
        TDG_ENOTSUP);
    harness_watch(&f->harness, "db:t/1");
    harness_watch(&f->harness, "db:t/2");
    harness_expect(&f->harness, "db:t/2", "[]");
    sql(f, "INSERT INTO t VALUES(2, 'two')");
    harness_wait(&f->harness, CHANGED, "db:t/2");
    assert_int_equal(harness_count(&f->harness, CHANGED, "db:t/1"), 0);
    sql(f, "UPDATE t SET name = 'eins' WHERE id = 1");
    harness_wait(&f->harness, CHANGED, "db:t/1");
    tdg__source_unwatch(f->harness.source, FOR_URI("db:t/1"));
    tdg__source_unwatch(f->harness.source, FOR_URI("db:t/2"));
    harness_close(&f->harness);
}

static void a_locked_database_is_waited_for(void **state) {
    struct fixture *f = *state;

    open_db(f, "a.db", ALL "retry: 10ms\nretry-max: 50ms\n");
    harness_watch(&f->harness, "db:t");
    sql(f, "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");

    struct reading reading = harness_read(&f->harness, "db:t");

    assert_int_equal(reading.status, 0); /* what was there before */
    assert_true(json_is_true(json_object_get(reading.metadata, "stale")));
    assert_string_equal(
        json_string_value(json_object_get(reading.metadata, "stale_reason")),
        "the database is locked by another process");
    reading_done(&reading);
    sql(f, "UPDATE t SET name = 'new'; COMMIT; PRAGMA locking_mode = NORMAL;"
           "SELECT * FROM t");
    harness_wait_for_text(&f->harness, "db:t", "[{\"id\":1,\"name\":\"new\"}]");
    harness_close(&f->harness);
}

static void another_file_takes_its_place(void **state) {
    struct fixture *f = *state;

    open_db(f, "a.db", ALL);
    harness_watch(&f->harness, "db:t");
    sqlite3_close(f->db);
    connect_to(f, "b.db");
    sql(f, SCHEMA "INSERT INTO t VALUES(7, 'other')");
    sqlite3_close(f->db);
    folder_rename(&f->folder, "b.db", "a.db");
    harness_wait_for_text(&f->harness, "db:t", "[{\"id\":7,\"name\":\"other\"}]");
    connect_to(f, "a.db");
    sql(f, "UPDATE t SET name = 'still'");
    harness_wait_for_text(&f->harness, "db:t", "[{\"id\":7,\"name\":\"still\"}]");
    harness_close(&f->harness);
}

static bool is_later(void *arg) {
    return uv_hrtime() >= *(const uint64_t *)arg;
}

/* A look gives up after two seconds. The next one must not compare the version of the new
 * file with that of the old one: both are small numbers. */
static void another_file_that_is_locked_takes_its_place(void **state) {
    uint64_t until = uv_hrtime() + 2500000000;
    struct fixture *f = *state;

    open_db(f, "a.db", ALL "every: 50ms\n");
    harness_watch(&f->harness, "db:t");
    sqlite3_close(f->db);
    connect_to(f, "b.db");
    sql(f, SCHEMA "INSERT INTO t VALUES(7, 'other'); BEGIN EXCLUSIVE");
    folder_rename(&f->folder, "b.db", "a.db");
    harness_ask_until(&f->harness, is_later, &until);
    sql(f, "ROLLBACK");
    harness_wait(&f->harness, CHANGED, "db:t");
    harness_close(&f->harness);
}

static void a_fifo_is_not_opened(void **state) {
    struct fixture *f = *state;
    int guard = folder_guard_fifo(&f->folder, "fifo");

    open_db(f, "fifo", ALL "timeout: 50s\n");
    expect_failure(f, "db:t", TDG_EUNREACHABLE, "not a regular file");
    assert_false(folder_was_opened(guard));
    harness_close(&f->harness);
}

/* SQLite finds it by its name, as it finds the database that takes the place of another
 * one after a look. */
static void nor_is_one_in_the_place_of_its_journal(void **state) {
    struct fixture *f = *state;
    int guard = folder_guard_fifo(&f->folder, "a.db-journal");
    struct reading reading;

    open_db(f, "a.db", ALL "timeout: 50s\n");
    reading = harness_read(&f->harness, "db:t");
    assert_int_not_equal(reading.status, 0);
    assert_null(strstr(reading.error, "no answer"));
    reading_done(&reading);
    assert_false(folder_was_opened(guard));
    folder_remove(&f->folder, "a.db-journal");
    harness_expect(&f->harness, "db:t", "[{\"id\":1,\"name\":\"one\"}]");
    harness_close(&f->harness);
}

static void missing_and_then_there(void **state) {
    struct fixture *f = *state;

    sqlite3_close(f->db);
    open_db(f, "later.db", ALL "every: 30s\n");
    expect_failure(f, "db:t", TDG_EUNREACHABLE, "No such file");
    harness_watch(&f->harness, "db:t");
    connect_to(f, "later.db");
    sql(f, SCHEMA "INSERT INTO t VALUES(1, 'here')");
    harness_wait_for_text(&f->harness, "db:t", "[{\"id\":1,\"name\":\"here\"}]");
    /* Gone, and back. */
    folder_rename(&f->folder, "later.db", "away.db");
    harness_wait(&f->harness, LOGGED, "unreachable");

    struct reading reading = harness_read(&f->harness, "db:t");

    assert_int_equal(reading.status, 0);
    assert_true(json_is_true(json_object_get(reading.metadata, "stale")));
    reading_done(&reading);
    sqlite3_close(f->db); /* SQLite does not write to a file that was moved */
    connect_to(f, "away.db");
    sql(f, "UPDATE t SET name = 'elsewhere'");
    folder_rename(&f->folder, "away.db", "later.db");
    harness_wait_for_text(&f->harness, "db:t", "[{\"id\":1,\"name\":\"elsewhere\"}]");
    harness_close(&f->harness);
}

static void what_is_no_database_says_so(void **state) {
    struct fixture *f = *state;

    folder_write(&f->folder, "no.db",
                 "this is not a database, it is a text file that is "
                 "long enough to have a header of 100 bytes, yes it is");
    open_db(f, "no.db", ALL);
    expect_failure(f, "db:t", TDG_EUNREACHABLE, "not a database");
    harness_close(&f->harness);
}

static void the_connection_goes_with_the_watchers(void **state) {
    struct fixture *f = *state;
    char link[64], target[FOLDER_PATH], path[FOLDER_PATH];
    bool open = true;

    folder_path(&f->folder, "a.db", path);
    sqlite3_close(f->db);
    f->db = NULL;
    open_db(f, "a.db", ALL);
    harness_watch(&f->harness, "db:t");
    tdg__source_unwatch(f->harness.source, FOR_URI("db:t"));
    for (int turn = 0; turn < 30000 && open; turn++) {
        open = false;
        for (int fd = 3; fd < 256; fd++) {
            ssize_t len;

            snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
            len = readlink(link, target, sizeof(target) - 1);
            if (len > 0) {
                target[len] = '\0';
                open = open || strcmp(target, path) == 0;
            }
        }
        usleep(1000);
        uv_run(&f->harness.loop, UV_RUN_NOWAIT);
    }
    assert_false(open);
    harness_close(&f->harness);
}

static void closing_at_any_moment(void **state) {
    struct fixture *f = *state;
    struct reading readings[3];

    for (int turns = 0; turns < 15; turns++) {
        open_db(f, "a.db", "query: SELECT :x AS x\nuri: 'db:{x}'\n");
        harness_start_read(&f->harness, "db:1", &readings[0]);
        harness_start_read(&f->harness, "db:2", &readings[1]);
        harness_start_read(&f->harness, "db:1", &readings[2]);
        (void)tdg__source_watch(f->harness.source, FOR_URI("db:1"), NULL);
        (void)tdg__source_watch(f->harness.source, FOR_URI("db:3"), NULL);
        for (int i = 0; i < turns; i++)
            uv_run(&f->harness.loop, UV_RUN_NOWAIT);
        if (turns % 3 == 0)
            tdg__source_unwatch(f->harness.source, FOR_URI("db:1"));
        harness_close(&f->harness);
        for (size_t i = 0; i < COUNT(readings); i++) {
            assert_true(readings[i].done);
            reading_done(&readings[i]);
        }
    }
}

static void write_again(uv_idle_t *idle) {
    assert_int_equal(pwrite(*(int *)idle->data, "S", 1, 0), 1); /* as it was */
}

static bool is_done(void *arg) {
    return ((struct reading *)arg)->done;
}

static void a_writer_without_pause_keeps_nobody_from_reading(void **state) {
    struct fixture *f = *state;
    struct reading reading;
    char path[FOLDER_PATH];
    uv_idle_t idle;

    open_db(f, "a.db", ALL);
    harness_watch(&f->harness, "db:t");
    folder_path(&f->folder, "a.db", path);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    uv_idle_init(&f->harness.loop, &idle);
    idle.data = &fd;
    uv_idle_start(&idle, write_again);
    for (int i = 0; i < 5; i++) {
        harness_start_read(&f->harness, "db:t", &reading);
        harness_until(&f->harness, is_done, &reading);
        assert_int_equal(reading.status, 0);
        assert_null(json_object_get(reading.metadata, "stale"));
        reading_done(&reading);
    }
    uv_close((uv_handle_t *)&idle, NULL);
    close(fd);
    harness_close(&f->harness);
}

/* ---- In a namespace ----------------------------------------------------- */

static void without_inotify_inside(void **state) {
    struct fixture *f = *state;

    open_db(f, "a.db", ALL "every: 50ms\n");
    harness_watch(&f->harness, "db:t");
    harness_wait(&f->harness, LOGGED, "inotify does not work");
    sql(f, "UPDATE t SET name = 'two'");
    harness_wait_for_text(&f->harness, "db:t", "[{\"id\":1,\"name\":\"two\"}]");
    harness_close(&f->harness);
}

static void asking_helps_without_inotify(void **state) {
    (void)state;
    in_namespace("without_inotify_inside", 0, "/proc/sys/user/max_inotify_instances",
                 "0");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(rows_are_json),
        CASE(variables_are_bound),
        CASE(a_wrong_query_says_so_and_is_not_retried),
        CASE(there_are_limits),
        CASE(a_long_query_is_interrupted),
        CASE(changes_are_noticed_with_a_journal),
        CASE(changes_are_noticed_with_a_wal),
        CASE(changes_are_noticed_with_a_kept_journal),
        CASE(a_template_cannot_be_watched_but_its_uris_can),
        CASE(a_locked_database_is_waited_for),
        CASE(another_file_takes_its_place),
        CASE(another_file_that_is_locked_takes_its_place),
        CASE(a_fifo_is_not_opened),
        CASE(nor_is_one_in_the_place_of_its_journal),
        CASE(missing_and_then_there),
        CASE(what_is_no_database_says_so),
        CASE(the_connection_goes_with_the_watchers),
        CASE(closing_at_any_moment),
        CASE(a_writer_without_pause_keeps_nobody_from_reading),
        cmocka_unit_test(asking_helps_without_inotify),
    };
    const struct CMUnitTest inside[] = {
        CASE(without_inotify_inside),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return is_in_namespace()
               ? cmocka_run_group_tests_name("sqlite_inside", inside, NULL, NULL)
               : cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
}
