/* SPDX-License-Identifier: MIT
 *
 * What is wrong with a config file: all of it at once, each with its place. */
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
    const char *file; /* borrowed; how the file is called in messages */
    tdg__problem_t *list;
    size_t count;    /* in the list */
    size_t left_out; /* beyond the limit, or when memory was out */
} tdg__problems_t;

void tdg__problems_init(tdg__problems_t *problems, const char *file);
void tdg__problems_done(tdg__problems_t *problems);

void tdg__problems_add(tdg__problems_t *problems, unsigned line, unsigned column,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* By line and column; call once, before they are shown. */
void tdg__problems_sort(tdg__problems_t *problems);

#endif
