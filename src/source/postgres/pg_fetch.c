/* SPDX-License-Identifier: MIT
 *
 * Reads a URI: one statement, whose rows become text as they arrive. In JSON, numbers,
 * booleans, json and null keep their types (NaN and the infinities are strings);
 * everything else is the text that PostgreSQL writes. */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "source/common/rows.h"
#include "source/postgres/pg_source.h"

/* What the server says when it ends a statement that takes too long. */
#define QUERY_CANCELED "57014"

/* Types whose text is JSON as it is. Their numbers are part of PostgreSQL's catalogue and
 * never change. */
enum {
    OID_BOOL = 16,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_OID = 26,
    OID_JSON = 114,
    OID_FLOAT4 = 700,
    OID_FLOAT8 = 701,
    OID_NUMERIC = 1700,
    OID_JSONB = 3802,
};

/* One fetch under way. */
struct look {
    tdg__pg_query_t query;
    tdg__pg_source_t *postgres;
    tdg__fetch_t *fetch;
    tdg__rows_t rows;
    bool digests; /* the last column is one, and is not shown */
    uint64_t digest;
    tdg__pg_op_t op;
    bool notified; /* a notification is the reason */
    const char *values[TDG__PG_MAX_PARAMS_SQL];
};

/* ---- Rows --------------------------------------------------------------- */

static int begin_rows(struct look *look, const PGresult *result) {
    int fields = PQnfields(result), count = fields > 0 ? fields - look->digests : 0, rv;
    const char **names = tdg__calloc((size_t)count + 1, sizeof(*names));

    if (names == NULL)
        return look->rows.error = TDG_ENOMEM;
    for (int i = 0; i < count; i++)
        names[i] = PQfname(result, i);
    rv = tdg__rows_begin(&look->rows, names, (size_t)count);
    tdg__free(names);
    return rv;
}

static void put_value(tdg__rows_t *rows, Oid type, const char *value, size_t len) {
    switch (type) {
    case OID_BOOL:
        if (rows->format == TDG__ROWS_CSV)
            break;
        value = value[0] == 't' ? "true" : "false";
        tdg__rows_json(rows, value, strlen(value));
        return;
    case OID_FLOAT4:
    case OID_FLOAT8:
    case OID_NUMERIC:
        if (strpbrk(value, "NI") != NULL) /* NaN, Infinity, -Infinity */
            break;
        /* fall through */
    case OID_INT2:
    case OID_INT4:
    case OID_INT8:
    case OID_OID:
    case OID_JSON:
    case OID_JSONB:
        tdg__rows_json(rows, value, len);
        return;
    default:
        break;
    }
    tdg__rows_utf8(rows, value, len);
}

static bool on_row(tdg__pg_query_t *query, const PGresult *row) {
    struct look *look = query->user;
    tdg__rows_t *rows = &look->rows;

    if (look->digests && PQnfields(row) > 0)
        look->digest += tdg__pg_digest(PQgetvalue(row, 0, PQnfields(row) - 1));
    if (rows->count == 0 && begin_rows(look, row) < 0)
        return false;
    if (tdg__rows_next(rows) < 0)
        return false;
    for (int i = 0; i < (int)rows->columns; i++) {
        if (PQgetisnull(row, 0, i)) /* or there is no such column in this row */
            tdg__rows_null(rows);
        else
            put_value(rows, PQftype(row, i), PQgetvalue(row, 0, i),
                      (size_t)PQgetlength(row, 0, i));
    }
    return rows->error == 0;
}

/* Where there was no row, `result` has the columns. */
static int end_rows(struct look *look, const PGresult *result) {
    int rv = look->rows.count == 0 ? begin_rows(look, result) : 0;

    return rv < 0 ? rv : tdg__rows_end(&look->rows);
}

/* ---- The answer --------------------------------------------------------- */

/* Remembers what was found. Where it differs from what was known without a notification,
 * it is touched for subscribers of the template: a read may come before one. */
static void note_seen(struct look *look, bool *ret_new) {
    tdg__pg_source_t *postgres = look->postgres;
    const char *uri = look->fetch->uri;
    bool here = look->rows.count > 0, known;
    uint64_t before = 0;

    *ret_new = false;
    if (!postgres->baseline)
        return;
    known = tdg__pg_seen_get(&postgres->seen, uri, &before);
    *ret_new = here && !known;
    if (!here)
        tdg__pg_seen_remove(&postgres->seen, uri);
    else if (tdg__pg_seen_set(&postgres->seen, uri, look->digest) < 0)
        postgres->seen.complete = false;
    if (!look->notified && (known != here || (here && before != look->digest)))
        tdg__source_touch(&postgres->source, uri);
}

static json_t *metadata_of(const struct look *look, bool created) {
    const tdg__pg_plan_t *plan = &look->postgres->plan;
    const char *op = tdg__pg_op_name(look->op);
    json_t *metadata = json_object(), *key;
    bool failed = false;

    if (plan->by_table)
        failed |= json_object_set_new(metadata, "table", json_string(plan->table_name));
    if (plan->template_ != NULL) {
        key = json_object();
        for (size_t i = 0; i < plan->variable_count; i++) {
            const char *value = tdg__fetch_variable(look->fetch, plan->variables[i]);

            if (value != NULL)
                failed |= json_object_set_new(key, plan->columns[i], json_string(value));
        }
        failed |= json_object_set_new(metadata, "key", key);
    }
    if (op != NULL)
        failed |= json_object_set_new(metadata, "op", json_string(op));
    if (created)
        failed |= json_object_set_new(metadata, "change_type", json_string("created"));
    failed |= json_object_set_new(metadata, "rows", json_integer(look->rows.count));
    if (failed) { /* rather none than half of it */
        json_decref(metadata);
        return NULL;
    }
    return metadata;
}

static void answer(struct look *look, const PGresult *result) {
    const tdg__pg_plan_t *plan = &look->postgres->plan;
    bool is_new;
    tdg__content_t content = {.mime_type = look->postgres->format == TDG__ROWS_CSV
                                               ? "text/csv"
                                               : "application/json"};

    if (look->rows.count == 0 && (plan->one || plan->template_ != NULL)) {
        content.status = TDG_ENOTFOUND;
        content.public = content.error = "no such row";
    } else if (end_rows(look, result) < 0) {
        return;
    }
    content.data = look->rows.text.data != NULL ? look->rows.text.data : "";
    content.len = look->rows.text.len;
    note_seen(look, &is_new);
    content.metadata = metadata_of(look, is_new && look->op == TDG__PG_INSERT);
    tdg__fetch_done(look->fetch, &content);
    look->fetch = NULL;
}

/* The rows are not what was asked for. */
static void refuse_rows(struct look *look) {
    const tdg__rows_t *rows = &look->rows;
    bool is_second = rows->error == TDG_ETOOLARGE && rows->one && rows->text.error == 0;
    char why[200];

    tdg__rows_explain(rows, why, sizeof(why));
    tdg__fetch_failed(look->fetch, is_second ? TDG_EINVAL : rows->error, "%s", why);
    look->fetch = NULL;
}

/* A value that cannot be one of the column's, such as "abc" for a number, names no row.
 * In a query of somebody's own, such an error can have other reasons. */
static bool is_no_value(const tdg__pg_source_t *postgres, const tdg__pg_end_t *end) {
    return postgres->plan.by_table && postgres->plan.template_ != NULL &&
           strncmp(end->sqlstate, "22", 2) == 0;
}

/* The server's words may name anything; those of libpq name the server. */
static void fail_inside(tdg__fetch_t *fetch, const tdg__pg_end_t *end) {
    bool is_refused = end->status == TDG_EINVAL && end->sqlstate[0] != '\0';
    char public[64];

    snprintf(public, sizeof(public), "the database refuses the query (SQLSTATE %s)",
             end->sqlstate);
    tdg__fetch_failed_inside(fetch, end->status, is_refused ? public : NULL, "%s",
                             end->error);
}

static void fail_stopped(tdg__fetch_t *fetch, const tdg__pg_end_t *end,
                         int64_t timeout_ms) {
    char public[80];

    snprintf(public, sizeof(public), "the query was stopped (timeout: %" PRId64 " ms)",
             timeout_ms);
    tdg__fetch_failed_inside(fetch, end->status, public, "%s (timeout: %" PRId64 " ms)",
                             end->error, timeout_ms);
}

static void on_fetched(tdg__pg_query_t *query, const tdg__pg_end_t *end) {
    struct look *look = query->user;
    tdg__fetch_t *fetch = look->fetch;
    tdg__pg_source_t *postgres = look->postgres;

    fetch->state = NULL;
    if (end->status == 0)
        answer(look, end->result);
    else if (is_no_value(postgres, end))
        answer(look, NULL);
    else if (strcmp(end->sqlstate, QUERY_CANCELED) == 0) {
        fail_stopped(fetch, end, postgres->source.entry.timeout_ms);
        look->fetch = NULL;
    } else if (end->status != TDG_ETOOLARGE) {
        fail_inside(fetch, end);
        look->fetch = NULL;
    }
    if (look->fetch != NULL)
        refuse_rows(look);
    tdg__rows_done(&look->rows);
    tdg__free(look);
    tdg__pg_source_rest(postgres);
}

/* ---- Life --------------------------------------------------------------- */

static void take_op(struct look *look, const char *uri) {
    uint64_t op;

    if (!tdg__pg_seen_get(&look->postgres->ops, uri, &op))
        return;
    look->op = (tdg__pg_op_t)op;
    look->notified = true;
    tdg__pg_seen_remove(&look->postgres->ops, uri);
}

void tdg__pg_source_fetch(tdg__source_t *source, tdg__fetch_t *fetch) {
    tdg__pg_source_t *postgres = (tdg__pg_source_t *)source;
    struct look *look;

    if (tdg__pg_source_waits(postgres)) {
        tdg__fetch_failed_inside(fetch, TDG_EUNREACHABLE, NULL, "%s",
                                 source->away_why != NULL ? source->away_why
                                                          : "not connected");
        return;
    }
    look = tdg__fetch_begin(fetch, sizeof(*look));
    if (look == NULL)
        return;
    look->postgres = postgres;
    look->fetch = fetch;
    look->digests = postgres->plan.by_table && postgres->plan.template_ != NULL;
    tdg__rows_init(&look->rows, (tdg__rows_format_t)postgres->format,
                   postgres->plan.one ? 1 : postgres->entry.max_rows,
                   (size_t)source->entry.max_size);
    look->rows.one = postgres->plan.one;
    for (size_t i = 0; i < postgres->plan.param_count; i++)
        look->values[i] = tdg__fetch_variable(fetch, postgres->plan.params[i]);
    take_op(look, fetch->uri);
    look->query = (tdg__pg_query_t){
        .sql = postgres->plan.by_table ? postgres->plan.read : postgres->plan.bound.text,
        .values = look->values,
        .count = (int)postgres->plan.param_count,
        .row = on_row,
        .done = on_fetched,
        .user = look,
    };
    tdg__pg_submit(postgres->pg, &look->query, false);
    tdg__pg_source_need(postgres);
}

void tdg__pg_source_cancel(tdg__source_t *source, tdg__fetch_t *fetch) {
    tdg__pg_source_t *postgres = (tdg__pg_source_t *)source;
    struct look *look = fetch->state;

    if (look == NULL)
        return;
    tdg__pg_abandon(&look->query);
    tdg__rows_done(&look->rows);
    tdg__free(look);
    fetch->state = NULL;
    tdg__fetch_failed(fetch, TDG_EUNREACHABLE, "no answer in time");
    tdg__pg_source_rest(postgres);
}
