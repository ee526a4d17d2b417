/* SPDX-License-Identifier: MIT */
#include "source/common/rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/base64.h"

void tdg__rows_init(tdg__rows_t *rows, tdg__rows_format_t format, int64_t max_rows,
                    size_t max_bytes) {
    *rows = (tdg__rows_t){.format = format, .max_rows = max_rows};
    tdg__text_init(&rows->text, max_bytes);
}

void tdg__rows_done(tdg__rows_t *rows) {
    tdg__text_done(&rows->text);
    tdg__free(rows->names);
}

static int error_of(tdg__rows_t *rows) {
    if (rows->error == 0)
        rows->error = rows->text.error;
    return rows->error;
}

/* ---- Texts -------------------------------------------------------------- */

static void put_csv(tdg__text_t *text, const char *value, size_t len) {
    bool plain = len > 0;

    for (size_t i = 0; i < len && plain; i++)
        plain = value[i] != '\0' && strchr(",\"\r\n", value[i]) == NULL;
    if (plain) {
        tdg__text_add(text, value, len);
        return;
    }
    tdg__text_put(text, "\"");
    while (len > 0) {
        const char *quote = memchr(value, '"', len);
        size_t part = quote != NULL ? (size_t)(quote - value) + 1 : len;

        tdg__text_add(text, value, part);
        if (quote != NULL)
            tdg__text_put(text, "\"");
        value += part;
        len -= part;
    }
    tdg__text_put(text, "\"");
}

static void put_text(tdg__rows_t *rows, const char *value, size_t len) {
    if (rows->format == TDG__ROWS_CSV)
        put_csv(&rows->text, value, len);
    else
        tdg__text_put_quoted(&rows->text, value, len);
}

/* An object with a key twice is read differently by everybody. */
static void check_names(tdg__rows_t *rows) {
    for (size_t i = 1; i < rows->columns; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(rows->names[i], rows->names[j]) == 0) {
                rows->twice = rows->names[i];
                rows->error = TDG_EINVAL;
                return;
            }
}

/* A database may hold any bytes in the name of a column, and JSON may not. */
static void make_utf8(char *name) {
    if (tdg__utf8_is_valid(name, strlen(name)))
        return;
    for (; *name != '\0'; name++)
        if ((unsigned char)*name >= 0x80)
            *name = '?';
}

static int copy_names(tdg__rows_t *rows, const char *const *names, size_t count) {
    size_t size = count * sizeof(*names);
    char *text;

    for (size_t i = 0; i < count; i++)
        size += strlen(names[i]) + 1;
    rows->names = tdg__malloc(size + 1);
    if (rows->names == NULL)
        return TDG_ENOMEM;
    text = (char *)(rows->names + count);
    for (size_t i = 0; i < count; i++) {
        rows->names[i] = strcpy(text, names[i]);
        make_utf8(text);
        text += strlen(text) + 1;
    }
    rows->columns = count;
    return 0;
}

/* ---- Rows --------------------------------------------------------------- */

static bool is_list(const tdg__rows_t *rows) {
    return rows->format == TDG__ROWS_JSON && !rows->one;
}

int tdg__rows_begin(tdg__rows_t *rows, const char *const *names, size_t count) {
    rows->error = copy_names(rows, names, count);
    if (rows->error != 0)
        return rows->error;
    if (is_list(rows))
        tdg__text_put(&rows->text, "[");
    if (rows->format == TDG__ROWS_JSON) {
        check_names(rows);
        return error_of(rows);
    }
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            tdg__text_put(&rows->text, ",");
        put_csv(&rows->text, rows->names[i], strlen(rows->names[i]));
    }
    tdg__text_put(&rows->text, "\r\n");
    return error_of(rows);
}

static void close_row(tdg__rows_t *rows) {
    tdg__text_put(&rows->text, rows->format == TDG__ROWS_JSON ? "}" : "\r\n");
}

int tdg__rows_next(tdg__rows_t *rows) {
    if (rows->error == 0 && rows->count == rows->max_rows)
        rows->error = TDG_ETOOLARGE;
    if (rows->error != 0)
        return rows->error;
    if (rows->format == TDG__ROWS_JSON)
        tdg__text_put(&rows->text, rows->count > 0 ? ",\n{" : "{");
    rows->count++;
    rows->column = 0;
    if (rows->columns == 0)
        close_row(rows);
    return error_of(rows);
}

/* What stands before a value. */
static void open_value(tdg__rows_t *rows) {
    const char *name = rows->names[rows->column];

    if (rows->column > 0)
        tdg__text_put(&rows->text, ",");
    if (rows->format == TDG__ROWS_JSON) {
        tdg__text_put_quoted(&rows->text, name, strlen(name));
        tdg__text_put(&rows->text, ":");
    }
}

/* And behind it. */
static void close_value(tdg__rows_t *rows) {
    if (++rows->column == rows->columns)
        close_row(rows);
    (void)error_of(rows);
}

void tdg__rows_null(tdg__rows_t *rows) {
    open_value(rows);
    if (rows->format == TDG__ROWS_JSON)
        tdg__text_put(&rows->text, "null");
    close_value(rows);
}

void tdg__rows_integer(tdg__rows_t *rows, int64_t value) {
    open_value(rows);
    tdg__text_format(&rows->text, "%" PRId64, value);
    close_value(rows);
}

/* The shortest of two ways that gives the same number again; with a point, whatever the
 * locale says, so that it stays a real number. */
void tdg__rows_real(tdg__rows_t *rows, double value) {
    char digits[40];

    open_value(rows);
    if (!isfinite(value)) {
        const char *name = isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";

        put_text(rows, name, strlen(name));
        close_value(rows);
        return;
    }
    snprintf(digits, sizeof(digits), "%.15g", value);
    if (strtod(digits, NULL) != value)
        snprintf(digits, sizeof(digits), "%.17g", value);
    for (char *c = digits; *c != '\0'; c++)
        if (strchr("0123456789+-e", *c) == NULL)
            *c = '.';
    if (strpbrk(digits, ".e") == NULL)
        strcat(digits, ".0");
    tdg__text_put(&rows->text, digits);
    close_value(rows);
}

static void put_base64(tdg__rows_t *rows, const void *value, size_t len) {
    char *encoded;

    if (len > rows->text.max) { /* before it costs memory */
        rows->text.error = TDG_ETOOLARGE;
        return;
    }
    encoded = tdg__base64_encode(value, len);
    if (encoded == NULL)
        rows->text.error = TDG_ENOMEM;
    else
        put_text(rows, encoded, strlen(encoded));
    tdg__free(encoded);
}

void tdg__rows_text(tdg__rows_t *rows, const char *value, size_t len) {
    if (tdg__utf8_is_valid(value, len))
        tdg__rows_utf8(rows, value, len);
    else
        tdg__rows_bytes(rows, value, len);
}

void tdg__rows_utf8(tdg__rows_t *rows, const char *value, size_t len) {
    open_value(rows);
    put_text(rows, value, len);
    close_value(rows);
}

void tdg__rows_json(tdg__rows_t *rows, const char *value, size_t len) {
    open_value(rows);
    if (rows->format == TDG__ROWS_JSON)
        tdg__text_add(&rows->text, value, len);
    else
        put_csv(&rows->text, value, len);
    close_value(rows);
}

void tdg__rows_bytes(tdg__rows_t *rows, const void *value, size_t len) {
    open_value(rows);
    put_base64(rows, value, len);
    close_value(rows);
}

int tdg__rows_end(tdg__rows_t *rows) {
    if (is_list(rows))
        tdg__text_put(&rows->text, "]");
    return error_of(rows);
}

void tdg__rows_explain(const tdg__rows_t *rows, char *out, size_t size) {
    if (rows->error == TDG_EINVAL)
        snprintf(out, size, "two columns are called %s; give them names with AS",
                 rows->twice);
    else if (rows->error == TDG_ETOOLARGE && rows->text.error != 0)
        snprintf(out, size, "the rows are larger than max-size (%zu bytes)",
                 rows->text.max);
    else if (rows->error == TDG_ETOOLARGE && rows->one)
        snprintf(out, size, "more than one row; `result: rows` shows them all");
    else if (rows->error == TDG_ETOOLARGE)
        snprintf(out, size, "more than max-rows (%" PRId64 ") rows", rows->max_rows);
    else
        snprintf(out, size, "%s", tdg_strerror(rows->error));
}
