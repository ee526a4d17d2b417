/* SPDX-License-Identifier: MIT */
#include "safe_text.h"

#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/text.h"
#include "terminal.h"

enum { MAX_GROWTH = 8 }; /* a byte is shown in so many, at most */

/* The text as one safe line, in `ret`; where memory is out, nothing. */
static const char *make_line(tdg__text_t *ret, const char *text) {
    size_t len = strlen(text);

    tdg__text_init(ret, len * MAX_GROWTH + 1);
    for (size_t i = 0; i < len;) {
        size_t piece = strcspn(text + i, "\t\r\n");

        cli_put_plain(ret, text + i, piece, false);
        i += piece;
        if (i < len) {
            tdg__text_put(ret, " ");
            i += strncmp(text + i, "\r\n", 2) == 0 ? 2 : 1;
        }
    }
    return ret->len > 0 && ret->error == 0 ? ret->data : "";
}

/* The bytes of the character that comes next in a safe line, and its columns. */
static size_t measure(const char *text, int *ret_columns) {
    size_t bytes;
    int width = wcwidth((wchar_t)cli_decode(text, strlen(text), &bytes));

    *ret_columns = width >= 0 ? width : 1;
    return bytes;
}

/* Up to where a safe line fits into `room` columns; *ret_used are those that it takes. */
static size_t fit(const char *line, int room, int *ret_used) {
    size_t at = 0;
    int columns;

    *ret_used = 0;
    while (line[at] != '\0') {
        size_t bytes = measure(line + at, &columns);

        if (columns > room - *ret_used)
            break;
        at += bytes;
        *ret_used += columns;
    }
    return at;
}

void cli_put_line(FILE *out, const char *text) {
    tdg__text_t line;

    fputs(make_line(&line, text), out);
    tdg__text_done(&line);
}

int cli_columns(const char *text) {
    tdg__text_t line;
    int used;

    fit(make_line(&line, text), INT32_MAX, &used);
    tdg__text_done(&line);
    return used;
}

void cli_put_cell(FILE *out, const char *text, int columns) {
    tdg__text_t made;
    const char *line = make_line(&made, text);
    int used;
    size_t end = fit(line, columns, &used);

    if (line[end] != '\0' && columns > 0) {
        end = fit(line, columns - 1, &used);
        fprintf(out, "%.*s…", (int)end, line);
        used++;
    } else {
        fprintf(out, "%.*s", (int)end, line);
    }
    fprintf(out, "%*s", columns - used, "");
    tdg__text_done(&made);
}

void cli_put_content(FILE *out, const char *text, size_t len) {
    tdg__text_t shown;

    if (!isatty(fileno(out))) {
        fwrite(text, 1, len, out);
        return;
    }
    tdg__text_init(&shown, len * MAX_GROWTH + 1);
    cli_put_plain(&shown, text, len, true);
    if (shown.error == 0)
        fwrite(shown.data, 1, shown.len, out);
    tdg__text_done(&shown);
}

void cli_put_wrapped(FILE *out, const char *text, int indent, int width) {
    int column = indent;

    while (*text != '\0') {
        int bytes = (int)strcspn(text, " "), columns = 0;

        for (int i = 0; i < bytes; i++)
            columns += ((unsigned char)text[i] & 0xc0) != 0x80;
        if (column > indent && column + 1 + columns > width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        }
        fprintf(out, "%s%.*s", column > indent ? " " : "", bytes, text);
        column += columns + (column > indent);
        text += bytes;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

bool cli_is_plain(const char *text) {
    size_t len = strlen(text);
    tdg__text_t shown;
    bool same;

    tdg__text_init(&shown, len * MAX_GROWTH + 1);
    cli_put_plain(&shown, text, len, false);
    same = shown.error == 0 && shown.len == len;
    tdg__text_done(&shown);
    return same;
}
