/* SPDX-License-Identifier: MIT
 *
 * Rows of a query as text, value by value as they come: JSON, or CSV as in RFC 4180 with
 * a line of names. It knows no database.
 *
 * JSON: an array of objects, one per line, or the object of the only row; columns in
 * their order; bytes are base64, and so is text that is not UTF-8 (in a name, ? stands
 * for what is not); the infinities are
 * strings, since JSON has no such numbers. CSV: null is empty, an empty string is "". */
#ifndef TDG_SOURCE_ROWS_H
#define TDG_SOURCE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

typedef enum tdg__rows_format { TDG__ROWS_JSON, TDG__ROWS_CSV } tdg__rows_format_t;

typedef struct tdg__rows {
    tdg__text_t text;
    tdg__rows_format_t format;
    bool one;           /* JSON: the row itself instead of a list; to be set by hand */
    const char **names; /* in one block with their texts */
    size_t columns, column; /* of the row that is being written */
    int64_t count;          /* rows so far */
    int64_t max_rows;       /* one more is TDG_ETOOLARGE */
    int error;              /* sticky: 0, TDG_ETOOLARGE (text.error is set where it is the
                               size, not the rows), TDG_EINVAL (two columns of one name)
                               or TDG_ENOMEM */
    const char *twice;      /* the name of those; one of `names` */
} tdg__rows_t;

void tdg__rows_init(tdg__rows_t *rows, tdg__rows_format_t format, int64_t max_rows,
                    size_t max_bytes);
void tdg__rows_done(tdg__rows_t *rows);

/* First the names, which are copied; then each row with a value for each column; then the
 * end. All return the error. */
int tdg__rows_begin(tdg__rows_t *rows, const char *const *names, size_t count);
int tdg__rows_next(tdg__rows_t *rows);
void tdg__rows_null(tdg__rows_t *rows);
void tdg__rows_integer(tdg__rows_t *rows, int64_t value);
void tdg__rows_real(tdg__rows_t *rows, double value);
void tdg__rows_text(tdg__rows_t *rows, const char *value, size_t len);
void tdg__rows_utf8(tdg__rows_t *rows, const char *value, size_t len); /* unchecked */
void tdg__rows_json(tdg__rows_t *rows, const char *value, size_t len); /* as it is */
void tdg__rows_bytes(tdg__rows_t *rows, const void *value, size_t len);
int tdg__rows_end(tdg__rows_t *rows);

/* Why the rows are of no use, where rows->error is not 0; for clients, too. */
void tdg__rows_explain(const tdg__rows_t *rows, char *out, size_t size);

#endif
