/* SPDX-License-Identifier: MIT
 *
 * The problems of a config file: all of them at once, each with its position. */
#ifndef TDG_CONFIG_PROBLEMS_H
#define TDG_CONFIG_PROBLEMS_H

#include <stdbool.h>
#include <stddef.h>

enum { TDG__MAX_PROBLEMS = 100 }; /* those beyond are only counted */

typedef struct tdg__problem {
    unsigned line, column; /* from 1; 0: no place */
    char *text;            /* what is wrong, and what was expected */
} tdg__problem_t;

typedef struct tdg__problems {
    const char *file; /* borrowed; how the file is called in messages. Paths in the file
                         are relative to its folder; where it has none or is NULL, to
                         the working directory */
    tdg__problem_t *list;
    size_t count;    /* in the list */
    size_t left_out; /* beyond the limit, or when memory was out */
    bool no_env;     /* variables that are not set are no problem, nor is anything about
                        a value that holds one */
} tdg__problems_t;

void tdg__problems_init(tdg__problems_t *problems, const char *file);
void tdg__problems_done(tdg__problems_t *problems);

/* The text is cut at 1,000 bytes. */
void tdg__problems_add(tdg__problems_t *problems, unsigned line, unsigned column,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* How many there are, those beyond the limit included. */
size_t tdg__problems_total(const tdg__problems_t *problems);

/* A text from the file as messages show it: in quotes, cut where it is long, without
 * control characters. Writes into `out`, which is returned. */
enum { TDG__QUOTED_MAX = 96 };
const char *tdg__quoted(char out[TDG__QUOTED_MAX], const char *text);

/* By line and column; call once, before they are shown. */
void tdg__problems_sort(tdg__problems_t *problems);

#endif
