/* SPDX-License-Identifier: MIT */
#include "source/pg_rows.h"

#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

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

void tdg__pg_rows_init(tdg__pg_rows_t *rows, tdg__pg_format_t format, bool one,
                       int hidden, int64_t max_rows, size_t max_bytes) {
    *rows = (tdg__pg_rows_t){
        .format = format, .one = one, .hidden = hidden, .max_rows = max_rows};
    tdg__text_init(&rows->text, max_bytes);
}

void tdg__pg_rows_done(tdg__pg_rows_t *rows) {
    tdg__text_done(&rows->text);
}

static int columns_of(const tdg__pg_rows_t *rows, const PGresult *result) {
    return PQnfields(result) - rows->hidden;
}

/* An object with a key twice is read differently by everybody. */
static void check_names(tdg__pg_rows_t *rows, const PGresult *result) {
    int count = columns_of(rows, result);

    for (int i = 1; i < count; i++) {
        for (int j = 0; j < i; j++) {
            if (strcmp(PQfname(result, i), PQfname(result, j)) == 0) {
                snprintf(rows->name, sizeof(rows->name), "%s", PQfname(result, i));
                rows->error = TDG_EINVAL;
                return;
            }
        }
    }
}

static void put_json_value(tdg__text_t *text, Oid type, const char *value, size_t len) {
    switch (type) {
    case OID_BOOL:
        tdg__text_put(text, value[0] == 't' ? "true" : "false");
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
        tdg__text_add(text, value, len);
        return;
    default:
        break;
    }
    tdg__text_put_quoted(text, value, len);
}

static void put_json_row(tdg__pg_rows_t *rows, const PGresult *result, int row) {
    int count = columns_of(rows, result);

    tdg__text_put(&rows->text, "{");
    for (int i = 0; i < count; i++) {
        const char *name = PQfname(result, i);

        if (i > 0)
            tdg__text_put(&rows->text, ",");
        tdg__text_put_quoted(&rows->text, name, strlen(name));
        tdg__text_put(&rows->text, ":");
        if (PQgetisnull(result, row, i))
            tdg__text_put(&rows->text, "null");
        else
            put_json_value(&rows->text, PQftype(result, i), PQgetvalue(result, row, i),
                           (size_t)PQgetlength(result, row, i));
    }
    tdg__text_put(&rows->text, "}");
}

static void put_csv_field(tdg__text_t *text, const char *value) {
    if (value[0] != '\0' && strpbrk(value, ",\"\r\n") == NULL) {
        tdg__text_put(text, value);
        return;
    }

    tdg__text_put(text, "\"");
    for (;;) {
        size_t plain = strcspn(value, "\"");

        tdg__text_add(text, value, plain);
        value += plain;
        if (*value++ == '\0')
            break;
        tdg__text_put(text, "\"\"");
    }
    tdg__text_put(text, "\"");
}

static void put_csv_names(tdg__pg_rows_t *rows, const PGresult *result) {
    int count = columns_of(rows, result);

    for (int i = 0; i < count; i++) {
        if (i > 0)
            tdg__text_put(&rows->text, ",");
        put_csv_field(&rows->text, PQfname(result, i));
    }
    tdg__text_put(&rows->text, "\r\n");
}

static void put_csv_row(tdg__pg_rows_t *rows, const PGresult *result, int row) {
    int count = columns_of(rows, result);

    for (int i = 0; i < count; i++) {
        if (i > 0)
            tdg__text_put(&rows->text, ",");
        if (!PQgetisnull(result, row, i))
            put_csv_field(&rows->text, PQgetvalue(result, row, i));
    }
    tdg__text_put(&rows->text, "\r\n");
}

static void begin(tdg__pg_rows_t *rows, const PGresult *result) {
    if (rows->format == TDG__PG_CSV)
        put_csv_names(rows, result);
    else
        check_names(rows, result);
    if (rows->format == TDG__PG_JSON && !rows->one)
        tdg__text_put(&rows->text, "[");
}

static void add_row(tdg__pg_rows_t *rows, const PGresult *result, int row) {
    if (rows->count == rows->max_rows) {
        rows->error = TDG_ETOOLARGE;
        return;
    }

    if (rows->count == 0)
        begin(rows, result);
    if (rows->format == TDG__PG_CSV) {
        put_csv_row(rows, result, row);
    } else {
        if (rows->count > 0)
            tdg__text_put(&rows->text, ",\n");
        put_json_row(rows, result, row);
    }
    rows->count++;
    if (rows->error == 0)
        rows->error = rows->text.error;
}

int tdg__pg_rows_add(tdg__pg_rows_t *rows, const PGresult *result) {
    int count = PQntuples(result);

    for (int row = 0; row < count && rows->error == 0; row++)
        add_row(rows, result, row);
    return rows->error;
}

int tdg__pg_rows_end(tdg__pg_rows_t *rows, const PGresult *result) {
    if (rows->error == 0 && rows->count == 0)
        begin(rows, result);
    if (rows->format == TDG__PG_JSON && !rows->one)
        tdg__text_put(&rows->text, "]");
    if (rows->error == 0)
        rows->error = rows->text.error;
    return rows->error;
}
