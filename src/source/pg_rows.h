/* SPDX-License-Identifier: MIT
 *
 * Rows of a result as text, one after the other as they arrive: JSON, or CSV as in
 * RFC 4180 with a line of names.
 *
 * JSON: an array of objects, one per line, or the object of the only row; columns in
 * their order. Numbers, booleans, json and null are what they are (NaN and the infinities
 * are strings, since JSON has no such numbers), all else is the text that PostgreSQL
 * writes. CSV: null is empty, an empty string is "". */
#ifndef TDG_SOURCE_PG_ROWS_H
#define TDG_SOURCE_PG_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/text.h"

typedef enum tdg__pg_format { TDG__PG_JSON, TDG__PG_CSV } tdg__pg_format_t;

typedef struct tdg__pg_rows {
    tdg__text_t text;
    tdg__pg_format_t format;
    bool one;         /* JSON: the row itself instead of a list */
    int hidden;       /* so many columns at the end are not shown */
    int64_t count;    /* rows so far */
    int64_t max_rows; /* one more is TDG_ETOOLARGE */
    int error;        /* sticky: 0, TDG_ETOOLARGE (text.error tells size from rows),
                         TDG_EINVAL (two columns of one name) or TDG_ENOMEM */
    char name[64];    /* of the column that there are two of */
} tdg__pg_rows_t;

void tdg__pg_rows_init(tdg__pg_rows_t *rows, tdg__pg_format_t format, bool one,
                       int hidden, int64_t max_rows, size_t max_bytes);
void tdg__pg_rows_done(tdg__pg_rows_t *rows);

/* Adds every row of a result. Returns the error. */
int tdg__pg_rows_add(tdg__pg_rows_t *rows, const PGresult *result);

/* Ends the text; `result` tells the columns where there was no row. */
int tdg__pg_rows_end(tdg__pg_rows_t *rows, const PGresult *result);

#endif
