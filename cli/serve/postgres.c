/* SPDX-License-Identifier: MIT
 *
 * `tidings postgres install` and `uninstall`: the trigger by which a table notifies of
 * its changes. Prints the SQL, to be read or run by other means,
 * or runs it in one transaction. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <libpq-fe.h>

#include <tidings/error.h>

#include "ask/target.h"
#include "base/text.h"
#include "command.h"
#include "config/value.h"
#include "source/postgres/pg_ddl.h"
#include "source/postgres/pg_trigger.h"

enum { SQL_MAX = 1024 * 1024 };

struct options {
    const char *table, *key, *channel;
    bool no_event_triggers, apply;
    long timeout_ms;
};

static const cli_option_t options[] = {
    CLI_STRING_OPTION(struct options, table, "table", "TABLE",
                      "the table, such as orders or shop.orders"),
    CLI_STRING_OPTION(struct options, key, "key", "COLUMN[,COLUMN]...",
                      "install: the column or columns that identify a row"),
    CLI_STRING_OPTION(struct options, channel, "channel", "NAME",
                      "install: the channel to notify\n[tidings_SCHEMA_TABLE]"),
    CLI_FLAG_OPTION(struct options, no_event_triggers, "no-event-triggers",
                    "install: no event triggers; the probe notices DDL"),
    CLI_FLAG_OPTION(struct options, apply, "apply",
                    "connect and run the SQL instead of printing it"),
    CLI_TIMEOUT_OPTION(struct options, timeout_ms),
    CLI_END,
};

/* ---- What is asked for -------------------------------------------------- */

static int read_keys(const char *list, tdg__pg_trigger_t *trigger) {
    tdg__parse_error_t error;

    for (const char *at = list;; at++) {
        if (trigger->key_count == TDG__PG_MAX_KEYS)
            return cli_usage_error("postgres: --key takes at most %d columns",
                                   TDG__PG_MAX_KEYS);
        at = tdg__pg_name_parse(at, ',', trigger->keys[trigger->key_count], &error);
        if (at == NULL)
            return cli_usage_error("postgres: --key: %s", error.text);
        trigger->key_count++;
        if (*at == '\0')
            return CLI_OK;
    }
}

static int read_trigger(const struct options *o, bool install,
                        tdg__pg_trigger_t *trigger) {
    tdg__parse_error_t error;

    if (o->table == NULL || (install && o->key == NULL))
        return cli_usage_error("postgres: %s", o->table == NULL
                                                   ? "--table TABLE is required"
                                                   : "install requires --key COLUMN");
    if (!install && (o->key != NULL || o->channel != NULL || o->no_event_triggers))
        return cli_usage_error("postgres: --key, --channel and --no-event-triggers are "
                               "for install only");
    if (tdg__pg_table_parse(o->table, &trigger->table, &error) < 0)
        return cli_usage_error("postgres: --table: %s", error.text);
    if (install && read_keys(o->key, trigger) != CLI_OK)
        return CLI_USAGE;
    if (o->channel != NULL &&
        (o->channel[0] == '\0' || strlen(o->channel) > TDG__PG_NAME_MAX))
        return cli_usage_error("postgres: --channel takes a name of 1 to %d bytes",
                               TDG__PG_NAME_MAX);
    if (o->channel != NULL)
        strcpy(trigger->channel, o->channel);
    else
        tdg__pg_channel(&trigger->table, trigger->channel);
    return CLI_OK;
}

/* ---- The time-out -------------------------------------------------------- */

/* libpq looks names up without a limit, even where it does not block otherwise, so a
 * signal ends the command. Its handler may call write() and PQcancel(); the messages are
 * made before. */
enum step { CONNECTING, RUNNING, COMMITTING, STEPS };

static char late_messages[STEPS][200];
static volatile sig_atomic_t step;
static PGcancel *volatile canceller; /* NULL: there is no connection */

static void on_alarm(int number) {
    static volatile sig_atomic_t cancelling;
    char why[256];
    ssize_t written;

    (void)number;
    if (!cancelling) {
        cancelling = 1;
        alarm(1); /* standard error or the server may not take what follows */
        written = write(STDERR_FILENO, late_messages[step], strlen(late_messages[step]));
        (void)written;
        if (canceller != NULL)
            PQcancel(canceller, why, sizeof(why));
    }
    _exit(CLI_TIMEOUT);
}

static void make_message(enum step at, const char *what, const char *time,
                         const char *help) {
    snprintf(late_messages[at], sizeof(late_messages[at]),
             "tidings: postgres: %s within %s\n  %s\n", what, time, help);
}

static void begin_timeout(long timeout_ms) {
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_NODEFER};
    const struct itimerval timer = {
        .it_value = {timeout_ms / 1000, timeout_ms % 1000 * 1000}};
    char time[TDG__VALUE_TEXT_MAX];
    sigset_t signals;

    tdg__duration_write(timeout_ms, time);
    make_message(CONNECTING, "no answer", time,
                 "Is the server running, and is this its address?");
    make_message(RUNNING, "not finished", time, "Allow more time with --timeout TIME.");
    make_message(COMMITTING, "not finished", time,
                 "COMMIT was sent; check in the database whether it took effect.");
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&signals);
    sigaddset(&signals, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* ---- In the database ---------------------------------------------------- */

/* A warning is what the SQL could not do; PostgreSQL's notices help nobody here. */
static void show_warning(void *arg, const PGresult *notice) {
    const char *severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);

    (void)arg;
    if (severity != NULL && strcmp(severity, "WARNING") == 0)
        cli_error("postgres: %s", PQresultErrorField(notice, PG_DIAG_MESSAGE_PRIMARY));
}

/* NULL where it does not work, which is reported. */
static PGconn *open_database(const char *conninfo) {
    /* What is behind the connection string counts more than what is in it. */
    const char *keywords[] = {"fallback_application_name", "connect_timeout", "dbname",
                              "client_encoding", NULL};
    const char *values[] = {"tidings postgres", "10", conninfo, "UTF8", NULL};
    PQconninfoOption *parsed = PQconninfoParse(conninfo, NULL);
    PGconn *conn;

    if (parsed == NULL) { /* libpq's words may quote a password */
        cli_error("postgres: this is not a connection string; write a URI such as "
                  "postgresql://user@host/database, or keyword=value pairs");
        return NULL;
    }
    PQconninfoFree(parsed);

    conn = PQconnectdbParams(keywords, values, 1);
    if (PQstatus(conn) == CONNECTION_OK) {
        PQsetNoticeReceiver(conn, show_warning, NULL);
        return conn;
    }
    cli_error("postgres: %.*s", (int)strcspn(PQerrorMessage(conn), "\n"),
              PQerrorMessage(conn));
    PQfinish(conn);
    return NULL;
}

static void explain(const PGconn *conn, const PGresult *result,
                    const tdg__pg_table_t *table) {
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    if (state != NULL && strcmp(state, "42501") == 0)
        cli_error("postgres: %s; the role %s has to own %s.%s and may need CREATE on the "
                  "schema",
                  message, PQuser(conn), table->schema, table->name);
    else
        cli_error("postgres: %s",
                  message != NULL ? message : "the connection to the server was lost");
}

static bool run_sql(PGconn *conn, const char *sql, const tdg__pg_table_t *table) {
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    bool done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;

    if (!done)
        explain(conn, result, table);
    PQclear(result);
    return done;
}

/* Whether a table, or with `column` that column of it, is in the database. False where it
 * is not, or cannot be asked, which is reported. */
static bool exists(PGconn *conn, const tdg__pg_table_t *table, const char *column) {
    const char *values[] = {table->schema, table->name, column};
    PGresult *result = PQexecParams(
        conn,
        "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = "
        "c.relnamespace WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN "
        "('r', 'p') AND ($3::text IS NULL OR EXISTS (SELECT 1 FROM "
        "pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attname = $3 AND "
        "a.attnum > 0 AND NOT a.attisdropped))",
        3, NULL, values, NULL, NULL, 0);
    bool there = PQntuples(result) > 0;

    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        explain(conn, result, table);
    else if (!there && column != NULL)
        cli_error("postgres: the table %s.%s has no column %s", table->schema,
                  table->name, column);
    else if (!there)
        cli_error("postgres: the table %s.%s does not exist in the database %s",
                  table->schema, table->name, PQdb(conn));
    PQclear(result);
    return there;
}

/* Reports what is missing by name, before PostgreSQL says it with a position. */
static bool check_table(PGconn *conn, const tdg__pg_trigger_t *trigger) {
    bool whole = exists(conn, &trigger->table, NULL);

    for (size_t i = 0; whole && i < trigger->key_count; i++)
        whole = exists(conn, &trigger->table, trigger->keys[i]);
    return whole;
}

static bool change_database(const char *conninfo, const tdg__pg_trigger_t *trigger,
                            bool install, const char *sql) {
    const tdg__pg_table_t *table = &trigger->table;
    PGconn *conn = open_database(conninfo);
    PGcancel *cancel;
    bool done;

    if (conn == NULL)
        return false;
    cancel = canceller = PQgetCancel(conn);
    step = RUNNING;

    /* Others may hold a lock on the table for long; waiting for ever helps nobody. */
    done = run_sql(conn, "BEGIN", table) &&
           run_sql(conn, "SET LOCAL lock_timeout = '30s'", table) &&
           (!install || check_table(conn, trigger)) && run_sql(conn, sql, table);
    if (done) {
        step = COMMITTING;
        done = run_sql(conn, "COMMIT", table);
    }
    canceller = NULL;
    PQfreeCancel(cancel);
    PQfinish(conn); /* what was not committed is undone */
    return done;
}

static int apply(const struct options *o, const char *conninfo,
                 const tdg__pg_trigger_t *trigger, bool install, const char *sql) {
    const tdg__pg_table_t *table = &trigger->table;
    bool done;

    begin_timeout(o->timeout_ms);
    done = change_database(conninfo, trigger, install, sql);
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 0}}, NULL);
    if (!done)
        return CLI_FAILED;
    if (install)
        printf("%s.%s notifies of its changes on the channel %s\n", table->schema,
               table->name, trigger->channel);
    else
        printf("%s.%s no longer notifies of its changes\n", table->schema, table->name);
    return CLI_OK;
}

/* ---- The command -------------------------------------------------------- */

static void put_sql(const struct options *o, bool install,
                    const tdg__pg_trigger_t *trigger, tdg__text_t *out) {
    if (install) {
        tdg__pg_put_install(out, trigger);
        if (!o->no_event_triggers)
            tdg__pg_put_ddl_install(out);
    } else {
        tdg__pg_put_uninstall(out, &trigger->table);
        tdg__pg_put_ddl_uninstall(out);
    }
}

static int run_postgres(const cli_command_t *self, int argc, char **argv) {
    struct options o = {.timeout_ms = CLI_TARGET_TOTAL_MS};
    tdg__pg_trigger_t trigger = {.key_count = 0};
    int operands, exit_code;
    tdg__text_t sql;
    bool install;

    if (!cli_parse(self, argc, argv, &o, &operands, &exit_code))
        return exit_code;
    install = operands > 0 && strcmp(argv[0], "install") == 0;
    if (!install && (operands == 0 || strcmp(argv[0], "uninstall") != 0))
        return cli_usage_error("postgres: write install or uninstall");
    if (operands == 2 && !o.apply)
        return cli_usage_error("postgres: CONNINFO requires --apply");
    if (read_trigger(&o, install, &trigger) != CLI_OK)
        return CLI_USAGE;

    tdg__text_init(&sql, SQL_MAX);
    put_sql(&o, install, &trigger, &sql);
    if (sql.error < 0)
        exit_code = cli_error("postgres: %s", tdg_strerror(sql.error));
    else if (o.apply)
        exit_code = apply(&o, operands == 2 ? argv[1] : "", &trigger, install, sql.data);
    else
        printf("BEGIN;\n%sCOMMIT;\n", sql.data);
    tdg__text_done(&sql);
    return exit_code;
}

const cli_command_t cli_postgres = {
    .name = "postgres",
    .summary = "create the trigger that makes a PostgreSQL table notify",
    .operands = "install|uninstall [CONNINFO]",
    .max_operands = 2,
    .description =
        "Prints the SQL of a trigger by which a table notifies tidings of its changes, "
        "or\n"
        "(uninstall) the SQL that removes it. With --apply, runs that SQL in one\n"
        "transaction. CONNINFO is a URI or keywords as for psql; defaults come from the\n"
        "environment (PGHOST, PGDATABASE, ...) and ~/.pgpass. Installing again replaces\n"
        "the trigger.\n\n"
        "DDL fires no trigger of a table. If the role may create event triggers, "
        "install\n"
        "creates those that notify of it, one set for the database; uninstall removes\n"
        "them with the last table.",
    .options = options,
    .run = run_postgres,
};
