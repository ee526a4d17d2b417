/* SPDX-License-Identifier: MIT
 *
 * Input: rows as a database gives them. The first byte chooses the format, the second how
 * many columns; then values, each a byte for its type, a byte for its length, and its
 * bytes. Whatever they hold, JSON is valid JSON with a member per column, and CSV has a
 * line of fields per row. */
#include <string.h>

#include <tidings/error.h>

#include "fuzz.h"
#include "source/common/rows.h"

enum { MAX_COLUMNS = 4, MAX_ROWS = 64, MAX_BYTES = 1 << 20 };

/* Puts one value, and returns how many bytes it took; 0: there is none left. */
static size_t put_value(tdg__rows_t *rows, const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;

    size_t len = data[1] < size - 2 ? data[1] : size - 2;
    const char *bytes = (const char *)data + 2;
    int64_t whole = 0;
    double real = 0;

    memcpy(&whole, bytes, len < sizeof(whole) ? len : sizeof(whole));
    memcpy(&real, bytes, len < sizeof(real) ? len : sizeof(real));
    switch (data[0] % 5) {
    case 0:
        tdg__rows_null(rows);
        break;
    case 1:
        tdg__rows_integer(rows, whole);
        break;
    case 2:
        tdg__rows_real(rows, real);
        break;
    case 3:
        tdg__rows_text(rows, bytes, len);
        break;
    default:
        tdg__rows_bytes(rows, bytes, len);
    }
    return 2 + len;
}

static void check_json(const tdg__rows_t *rows) {
    /* A text of a database may hold a NUL, which is \u0000 here. */
    json_t *json = json_loadb(rows->text.data, rows->text.len, JSON_ALLOW_NUL, NULL);
    json_t *row;
    size_t i;

    require(json != NULL);
    require(json_array_size(json) == (size_t)rows->count);
    json_array_foreach(json, i, row) require(json_object_size(row) == rows->columns);
    json_decref(json);
}

/* Counts what is outside of quotes; a quote in a field is written twice. */
static void check_csv(const tdg__rows_t *rows) {
    size_t commas = 0, lines = 0;
    bool quoted = false;

    for (size_t i = 0; i < rows->text.len; i++) {
        quoted ^= rows->text.data[i] == '"';
        commas += !quoted && rows->text.data[i] == ',';
        lines += !quoted && rows->text.data[i] == '\n';
    }
    require(!quoted && lines == (size_t)rows->count + 1);
    require(commas == lines * (rows->columns - 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[MAX_COLUMNS] = {"id", "a,\"b\"\n", "", "\xff"};
    tdg__rows_t rows;
    size_t at = 2, taken = 1;

    if (size < 2)
        return 0;
    tdg__rows_init(&rows, data[0] % 2 == 0 ? TDG__ROWS_JSON : TDG__ROWS_CSV, MAX_ROWS,
                   MAX_BYTES);
    size_t columns = 1 + data[1] % MAX_COLUMNS;
    int rv = tdg__rows_begin(&rows, names, columns);
    while (rv == 0 && taken > 0 && at < size) {
        rv = tdg__rows_next(&rows);
        for (size_t i = 0; i < columns && rv == 0; i++) {
            taken = put_value(&rows, data + at, size - at);
            if (taken == 0)
                tdg__rows_null(&rows);
            at += taken;
        }
    }
    if (rv == 0)
        rv = tdg__rows_end(&rows);
    require(rv == 0 || rv == TDG_ETOOLARGE);
    if (rv == 0 && rows.format == TDG__ROWS_JSON)
        check_json(&rows);
    else if (rv == 0)
        check_csv(&rows);
    tdg__rows_done(&rows);
    return 0;
}
