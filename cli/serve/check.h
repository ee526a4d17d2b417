/* SPDX-License-Identifier: MIT
 *
 * What `tidings check` shows: check.c reads the file, check_show.c prints. */
#ifndef TDG_CLI_CHECK_H
#define TDG_CLI_CHECK_H

#include "serve/config.h"
#include "source/common/source.h"

/* One resource as it would be served. */
typedef struct check_row {
    const tdg__source_kind_t *kind;
    tdg__text_t uri;  /* empty: the source makes its own */
    tdg__text_t what; /* the main value: a path, a URL; empty where it is secret */
    json_t *options;  /* what was given and differs from the default: name and text */
} check_row_t;

typedef struct check_report {
    const tdg__config_t *config; /* NULL: the file could not be read */
    tdg__problems_t *problems;
    check_row_t *rows;
    size_t row_count;
} check_report_t;

/* Fills a row from a source and its entry; `problems` says whether variables may be
 * missing. Returns 0 or TDG_ENOMEM; give the row to
 * check_row_done() in any case. */
int check_row_init(check_row_t *row, const tdg__source_t *source,
                   const tdg__node_t *entry, const tdg__problems_t *problems);
void check_row_done(check_row_t *row);

/* Prints to stdout. Returns 0 or TDG_ENOMEM. */
int check_print_table(const check_report_t *report);
int check_print_json(const check_report_t *report);

#endif
