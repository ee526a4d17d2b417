/* SPDX-License-Identifier: MIT */
#include "source/sqlite/sqlite_db.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <sqlite3.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/template_expand.h"

enum {
    BUSY_MS = 2000, /* for others to finish writing; a thread waits for so long */
    BUSY_STEP_MS = 10,
    LATE_MS = 1000, /* who waits for a query stops it first, and says so */
    STEPS = 1000,   /* of the virtual machine, between two looks at the clock */
    MAX_COLUMNS = 500,
};

struct tdg__sqlite_db {
    tdg__sqlite_opts_t opts;
    sqlite3 *handle; /* NULL: not open */
    sqlite3_stmt *version, *query;
    dev_t dev; /* of the file that is open */
    ino_t ino;
    bool own; /* a statement of ours is prepared: it may be a pragma */
    atomic_bool stop;
    int64_t deadline_ms, busy_until_ms; /* of the call that runs */
};

static int64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- What a query may do ------------------------------------------------- */

static int authorize(void *user, int action, const char *first, const char *second,
                     const char *schema, const char *trigger) {
    const tdg__sqlite_db_t *db = user;

    (void)schema, (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return strcasecmp(second, "load_extension") == 0 ||
                       strcasecmp(second, "fts3_tokenizer") == 0
                   ? SQLITE_DENY
                   : SQLITE_OK;
    case SQLITE_PRAGMA:
        return db->own && strcasecmp(first, "data_version") == 0 ? SQLITE_OK
                                                                 : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

static bool is_over(const tdg__sqlite_db_t *db, int64_t end_ms) {
    return atomic_load(&db->stop) || now_ms() >= end_ms;
}

static int on_progress(void *user) {
    const tdg__sqlite_db_t *db = user;

    return is_over(db, db->deadline_ms);
}

static int on_busy(void *user, int tries) {
    const tdg__sqlite_db_t *db = user;
    struct timespec step = {.tv_nsec = BUSY_STEP_MS * 1000000L};

    (void)tries;
    if (is_over(db, db->busy_until_ms))
        return 0;
    nanosleep(&step, NULL);
    return 1;
}

/* ---- What went wrong ----------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void
fail(tdg__sqlite_result_t *ret, int status, const char *format, ...) {
    va_list args;

    ret->status = status;
    va_start(args, format);
    vsnprintf(ret->error, sizeof(ret->error), format, args);
    va_end(args);
}

/* What a code of SQLite means for the reader. Its message may name tables, columns, or
 * anything that a schema makes it print. */
static void fail_with(const tdg__sqlite_db_t *db, tdg__sqlite_result_t *ret, int code) {
    const char *text = sqlite3_errmsg(db->handle);

    switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        fail(ret, TDG_EUNREACHABLE, "the database is locked by another process");
        break;
    case SQLITE_INTERRUPT:
        fail(ret, TDG_EUNREACHABLE, "the query takes longer than `timeout`");
        break;
    case SQLITE_NOMEM:
        fail(ret, TDG_ENOMEM, "out of memory");
        break;
    case SQLITE_TOOBIG:
        fail(ret, TDG_ETOOLARGE, "a value is larger than max-size");
        break;
    case SQLITE_CANTOPEN:
    case SQLITE_NOTADB:
    case SQLITE_IOERR:
    case SQLITE_CORRUPT:
        fail(ret, TDG_EUNREACHABLE, "the database cannot be read: %s", text);
        ret->public = "the database cannot be read";
        ret->unreachable = true;
        break;
    case SQLITE_SCHEMA: /* it changed too often meanwhile */
    case SQLITE_PROTOCOL:
        fail(ret, TDG_EUNREACHABLE, "%s", text);
        ret->public = "the database cannot be read";
        break;
    default:
        fail(ret, TDG_EINVAL, "the query is refused: %s", text);
        ret->public = "the database refuses the query";
    }
}

/* ---- What SQLite may open -------------------------------------------------- */

/* It also opens folders, to sync them, and its source of random numbers. */
static bool may_open(const char *path, const struct stat *st) {
    return S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) ||
           strcmp(path, "/dev/urandom") == 0;
}

/* SQLite opens the database, its journal and its WAL by name, whatever is there, and
 * would wait for the other end of a FIFO for ever. What is no file is not opened; where
 * one takes the place of a file between look and opening, nothing waits. */
static int open_file_only(const char *path, int flags, int mode) {
    struct stat st;
    int fd;

    if (stat(path, &st) == 0 && !may_open(path, &st)) {
        errno = EINVAL;
        return -1;
    }
    fd = open(path, flags | O_NONBLOCK | O_NOCTTY, mode);
    if (fd < 0 || (fstat(fd, &st) == 0 && may_open(path, &st)))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

/* For the whole process, in which nobody else uses SQLite. */
static void replace_open(void) {
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

    if (vfs != NULL && vfs->iVersion >= 3 && vfs->xSetSystemCall != NULL)
        (void)vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)open_file_only);
}

/* ---- Opening -------------------------------------------------------------- */

void tdg__sqlite_db_close(tdg__sqlite_db_t *db) {
    sqlite3_finalize(db->version);
    sqlite3_finalize(db->query);
    sqlite3_close(db->handle);
    db->version = db->query = NULL;
    db->handle = NULL;
}

bool tdg__sqlite_db_is_open(const tdg__sqlite_db_t *db) {
    return db->handle != NULL;
}

static void set_up(tdg__sqlite_db_t *db) {
    size_t max = db->opts.max_bytes + 1;

    (void)sqlite3_extended_result_codes(db->handle, 1);
    (void)sqlite3_busy_handler(db->handle, on_busy, db);
    sqlite3_progress_handler(db->handle, STEPS, on_progress, db);
    (void)sqlite3_limit(db->handle, SQLITE_LIMIT_ATTACHED, 0);
    (void)sqlite3_limit(db->handle, SQLITE_LIMIT_WORKER_THREADS, 0);
    (void)sqlite3_limit(db->handle, SQLITE_LIMIT_COLUMN, MAX_COLUMNS);
    /* Of one value; the schema has to fit, too. */
    (void)sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH,
                        max < 1000000 ? 1000000 : (int)max);
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    (void)sqlite3_exec(db->handle, "PRAGMA query_only = ON", NULL, NULL, NULL);
    (void)sqlite3_set_authorizer(db->handle, authorize, db);
}

static bool stat_file(const tdg__sqlite_db_t *db, struct stat *st,
                      tdg__sqlite_result_t *ret) {
    bool exists = stat(db->opts.path, st) == 0;

    if (exists && S_ISREG(st->st_mode))
        return true;
    fail(ret, TDG_EUNREACHABLE, "the database cannot be opened: %s",
         exists ? "it is not a regular file" : strerror(errno));
    ret->unreachable = true;
    return false;
}

static bool open_file(tdg__sqlite_db_t *db, struct stat *before,
                      tdg__sqlite_result_t *ret) {
    int rv = sqlite3_open_v2(db->opts.path, &db->handle,
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    struct stat after;

    if (db->handle == NULL) {
        fail(ret, TDG_ENOMEM, "out of memory");
        return false;
    }
    if (rv != SQLITE_OK) {
        fail_with(db, ret, rv);
        ret->unreachable = true;
    } else if (stat_file(db, &after, ret) &&
               (after.st_dev != before->st_dev || after.st_ino != before->st_ino)) {
        fail(ret, TDG_EUNREACHABLE, "the database was replaced while it was opened");
    }
    if (ret->status != 0) {
        tdg__sqlite_db_close(db);
        return false;
    }
    db->dev = after.st_dev;
    db->ino = after.st_ino;
    ret->reopened = true;
    set_up(db);
    return true;
}

/* Begins a call: the file at the path is open. */
static bool begin(tdg__sqlite_db_t *db, tdg__sqlite_result_t *ret) {
    struct stat st;

    *ret = (tdg__sqlite_result_t){0};
    db->deadline_ms = now_ms() + db->opts.timeout_ms + LATE_MS;
    db->busy_until_ms = now_ms() + BUSY_MS;
    if (!stat_file(db, &st, ret)) {
        tdg__sqlite_db_close(db);
        return false;
    }
    if (db->handle != NULL && (st.st_dev != db->dev || st.st_ino != db->ino))
        tdg__sqlite_db_close(db);
    return db->handle != NULL || open_file(db, &st, ret);
}

/* ---- The version ---------------------------------------------------------- */

static bool read_version(tdg__sqlite_db_t *db, tdg__sqlite_result_t *ret) {
    int rv = SQLITE_OK;

    db->own = true;
    if (db->version == NULL)
        rv =
            sqlite3_prepare_v2(db->handle, "PRAGMA data_version", -1, &db->version, NULL);
    if (rv == SQLITE_OK)
        rv = sqlite3_step(db->version);
    if (rv == SQLITE_ROW)
        ret->version = sqlite3_column_int64(db->version, 0);
    else
        fail_with(db, ret, rv);
    (void)sqlite3_reset(db->version);
    db->own = false;
    return ret->status == 0;
}

/* A file that cannot be read may be another one soon. */
static void end(tdg__sqlite_db_t *db, const tdg__sqlite_result_t *ret) {
    if (ret->unreachable)
        tdg__sqlite_db_close(db);
}

void tdg__sqlite_db_version(tdg__sqlite_db_t *db, tdg__sqlite_result_t *ret) {
    if (begin(db, ret))
        (void)read_version(db, ret);
    end(db, ret);
}

/* ---- The query ------------------------------------------------------------ */

static bool check_parameters(const tdg__sqlite_db_t *db, tdg__sqlite_result_t *ret) {
    int count = sqlite3_bind_parameter_count(db->query);

    for (int i = 1; i <= count; i++) {
        const char *name = sqlite3_bind_parameter_name(db->query, i);

        if (name == NULL || name[0] == '?')
            fail(ret, TDG_EINVAL,
                 "the query has a parameter without a name; write :name");
        else if (!tdg__template_has_name(db->opts.template_, name + 1))
            fail(ret, TDG_EINVAL,
                 "the query has the parameter %s, which is not a variable of the uri",
                 name);
        if (ret->status != 0)
            return false;
    }
    return true;
}

/* Whether there is nothing behind the statement. */
static bool is_blank(const char *sql) {
    return sql[strspn(sql, " \t\r\n;")] == '\0';
}

static bool prepare(tdg__sqlite_db_t *db, tdg__sqlite_result_t *ret) {
    const char *rest = "";
    int rv;

    if (db->query != NULL)
        return true;
    rv = sqlite3_prepare_v3(db->handle, db->opts.query, -1, SQLITE_PREPARE_PERSISTENT,
                            &db->query, &rest);
    if (rv != SQLITE_OK)
        fail_with(db, ret, rv);
    else if (db->query == NULL || !is_blank(rest))
        fail(ret, TDG_EINVAL, "the query must be one statement");
    else if (!sqlite3_stmt_readonly(db->query) || sqlite3_column_count(db->query) == 0)
        fail(ret, TDG_EINVAL, "the query must be a SELECT");
    else if (check_parameters(db, ret))
        return true;
    sqlite3_finalize(db->query);
    db->query = NULL;
    return false;
}

static int bind(tdg__sqlite_db_t *db, const tdg__variables_t *variables) {
    int count = sqlite3_bind_parameter_count(db->query), rv = SQLITE_OK;

    (void)sqlite3_clear_bindings(db->query);
    for (int i = 1; i <= count && rv == SQLITE_OK; i++) {
        const char *name = sqlite3_bind_parameter_name(db->query, i);
        const char *value = tdg__variables_get(variables, name + 1);

        if (value != NULL) /* otherwise it is NULL there, too */
            rv = sqlite3_bind_text(db->query, i, value, -1, SQLITE_TRANSIENT);
    }
    return rv;
}

static void put_value(tdg__rows_t *rows, sqlite3_stmt *query, int column) {
    switch (sqlite3_column_type(query, column)) {
    case SQLITE_INTEGER:
        tdg__rows_integer(rows, sqlite3_column_int64(query, column));
        break;
    case SQLITE_FLOAT:
        tdg__rows_real(rows, sqlite3_column_double(query, column));
        break;
    case SQLITE_TEXT: {
        const char *text = (const char *)sqlite3_column_text(query, column);
        size_t len = (size_t)sqlite3_column_bytes(query, column);

        if (text == NULL)
            rows->error = TDG_ENOMEM;
        else
            tdg__rows_text(rows, text, len);
        break;
    }
    case SQLITE_BLOB: {
        const void *bytes = sqlite3_column_blob(query, column);

        tdg__rows_bytes(rows, bytes, (size_t)sqlite3_column_bytes(query, column));
        break;
    }
    default:
        tdg__rows_null(rows);
    }
}

static void read_rows(tdg__sqlite_db_t *db, tdg__rows_t *rows,
                      tdg__sqlite_result_t *ret) {
    /* The first step may prepare the query again, with other columns. */
    int rv = sqlite3_step(db->query), columns = sqlite3_column_count(db->query);
    const char **names = tdg__calloc((size_t)columns + 1, sizeof(*names));

    if (names == NULL) {
        fail(ret, TDG_ENOMEM, "out of memory");
        return;
    }
    for (int i = 0; i < columns; i++) {
        names[i] = sqlite3_column_name(db->query, i);
        if (names[i] == NULL)
            names[i] = "";
    }
    (void)tdg__rows_begin(rows, names, (size_t)columns);
    for (; rv == SQLITE_ROW && tdg__rows_next(rows) == 0;
         rv = rows->error == 0 ? sqlite3_step(db->query) : rv)
        for (int i = 0; i < columns; i++)
            put_value(rows, db->query, i);
    if (rows->error == 0 && rv != SQLITE_DONE)
        fail_with(db, ret, rv);
    else
        ret->status = tdg__rows_end(rows);
    if (rows->error != 0)
        tdg__rows_explain(rows, ret->error, sizeof(ret->error));
    tdg__free(names);
}

static void run(tdg__sqlite_db_t *db, const tdg__variables_t *variables,
                tdg__sqlite_result_t *ret) {
    tdg__rows_t rows;
    int rv;

    tdg__rows_init(&rows, db->opts.format, db->opts.max_rows, db->opts.max_bytes);
    rv = bind(db, variables);
    if (rv != SQLITE_OK)
        fail_with(db, ret, rv);
    else
        read_rows(db, &rows, ret);
    (void)sqlite3_reset(db->query);
    if (ret->status == 0) {
        ret->data = rows.text.data; /* its own from now on */
        ret->len = rows.text.len;
        ret->rows = rows.count;
        rows.text.data = NULL;
    }
    tdg__rows_done(&rows);
}

void tdg__sqlite_db_query(tdg__sqlite_db_t *db, const char *uri,
                          tdg__sqlite_result_t *ret) {
    tdg__variables_t *variables = NULL;

    /* The version first: what is written after it makes another one. */
    if (begin(db, ret) && read_version(db, ret) && prepare(db, ret)) {
        int rv = tdg__variables_create(db->opts.template_, uri, strlen(uri), &variables);

        if (rv < 0)
            fail(ret, rv, "%s", tdg_strerror(rv));
        else
            run(db, variables, ret);
        tdg__variables_destroy(variables);
    }
    end(db, ret);
}

/* ---- Life ------------------------------------------------------------------ */

tdg__sqlite_db_t *tdg__sqlite_db_create(const tdg__sqlite_opts_t *opts) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    tdg__sqlite_db_t *db = tdg__calloc(1, sizeof(*db));

    (void)pthread_once(&once, replace_open);
    if (db != NULL)
        db->opts = *opts;
    return db;
}

void tdg__sqlite_db_destroy(tdg__sqlite_db_t *db) {
    if (db == NULL)
        return;
    tdg__sqlite_db_close(db);
    tdg__free(db);
}

void tdg__sqlite_db_stop(tdg__sqlite_db_t *db, bool stop) {
    atomic_store(&db->stop, stop);
}
