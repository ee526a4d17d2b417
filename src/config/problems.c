/* SPDX-License-Identifier: MIT */
#include "config/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

enum {
    MAX_TEXT = 1000, /* bytes of one message */
    SHOWN = 60,      /* bytes of a text from the file */
};

void tdg__problems_init(tdg__problems_t *problems, const char *file) {
    *problems = (tdg__problems_t){.file = file};
}

void tdg__problems_done(tdg__problems_t *problems) {
    for (size_t i = 0; i < problems->count; i++)
        tdg__free(problems->list[i].text);
    tdg__free(problems->list);
    *problems = (tdg__problems_t){.file = problems->file};
}

static char *format_text(const char *format, va_list args)
    __attribute__((format(printf, 1, 0)));

static char *format_text(const char *format, va_list args) {
    char text[MAX_TEXT + 4];
    int len = vsnprintf(text, sizeof(text), format, args);

    if (len < 0)
        return NULL;
    if ((size_t)len > MAX_TEXT) {
        size_t kept = tdg__utf8_cut(text, MAX_TEXT - strlen("…"));

        memcpy(text + kept, "…", strlen("…") + 1);
    }
    return tdg__strdup(text);
}

void tdg__problems_add(tdg__problems_t *problems, unsigned line, unsigned column,
                       const char *format, ...) {
    char *text = NULL;
    va_list args;

    if (problems->list == NULL)
        problems->list = tdg__calloc(TDG__MAX_PROBLEMS, sizeof(*problems->list));
    if (problems->list != NULL && problems->count < TDG__MAX_PROBLEMS) {
        va_start(args, format);
        text = format_text(format, args);
        va_end(args);
    }
    if (text == NULL)
        problems->left_out++;
    else
        problems->list[problems->count++] = (tdg__problem_t){line, column, text};
}

size_t tdg__problems_total(const tdg__problems_t *problems) {
    return problems->count + problems->left_out;
}

const char *tdg__quoted(char out[TDG__QUOTED_MAX], const char *text) {
    size_t len = strlen(text), at = 0;

    if (len > SHOWN)
        len = tdg__utf8_cut(text, SHOWN);
    out[at++] = '"';
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool is_c1 = byte == 0xc2 && (unsigned char)text[i + 1] < 0xa0;

        i += is_c1; /* a terminal may take U+0080 to U+009F for commands as well */
        out[at++] = byte < 0x20 || byte == 0x7f || is_c1 ? '?' : text[i];
    }
    if (text[len] != '\0') {
        memcpy(out + at, "…", strlen("…"));
        at += strlen("…");
    }
    out[at++] = '"';
    out[at] = '\0';
    return out;
}

static int by_place(const void *left, const void *right) {
    const tdg__problem_t *a = left, *b = right;

    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return strcmp(a->text, b->text);
}

void tdg__problems_sort(tdg__problems_t *problems) {
    if (problems->count > 1)
        qsort(problems->list, problems->count, sizeof(*problems->list), by_place);
}
