/* SPDX-License-Identifier: MIT
 *
 * A database file and one query on it. Everything here blocks, within limits, and is for
 * the thread pool: one call at a time, on any thread.
 *
 * The connection cannot write: the file is opened for reading only, the query must be a
 * single statement that returns rows, and an authorizer permits only SELECT. The
 * connection is opened when it is needed, and again when another file has replaced the
 * database. */
#ifndef TDG_SOURCE_SQLITE_DB_H
#define TDG_SOURCE_SQLITE_DB_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/variables.h"
#include "source/common/rows.h"

typedef struct tdg__sqlite_db tdg__sqlite_db_t;

typedef struct tdg__sqlite_opts {
    const char *path, *query;         /* borrowed for as long as it lives */
    const tdg__template_t *template_; /* of the variables; NULL: none */
    tdg__rows_format_t format;
    int64_t max_rows;
    size_t max_bytes;
    int64_t timeout_ms; /* of one call */
} tdg__sqlite_opts_t;

enum { TDG__SQLITE_ERROR = 300 };

typedef struct tdg__sqlite_result {
    int status;       /* 0, TDG_EUNREACHABLE, TDG_EINVAL, TDG_ETOOLARGE, TDG_ENOMEM */
    bool unreachable; /* with TDG_EUNREACHABLE: there is no database to ask at all */
    bool reopened;    /* versions cannot be compared with those before */
    char error[TDG__SQLITE_ERROR];
    const char *public; /* the same without the words of SQLite, which name what is
                           inside; NULL: there are none in it */
    int64_t version; /* PRAGMA data_version: another number after others have written */
    int64_t rows;
    char *data; /* of a query; new */
    size_t len;
} tdg__sqlite_result_t;

tdg__sqlite_db_t *
tdg__sqlite_db_create(const tdg__sqlite_opts_t *opts); /* NULL: memory */
void tdg__sqlite_db_destroy(
    tdg__sqlite_db_t *db); /* blocks where it is open; NULL is fine */

/* Interrupts the call that runs on another thread, and every later one until it is
 * cleared. */
void tdg__sqlite_db_stop(tdg__sqlite_db_t *db, bool stop);

/* The version; the query, with the variables of the URI as its parameters. */
void tdg__sqlite_db_version(tdg__sqlite_db_t *db, tdg__sqlite_result_t *ret);
void tdg__sqlite_db_query(tdg__sqlite_db_t *db, const char *uri,
                          tdg__sqlite_result_t *ret);
void tdg__sqlite_db_close(tdg__sqlite_db_t *db);
bool tdg__sqlite_db_is_open(const tdg__sqlite_db_t *db);

#endif
