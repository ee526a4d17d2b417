/* SPDX-License-Identifier: MIT
 *
 * The command line of a benchmark as a table: one row per option, ended by a row without
 * a name. What is wrong ends the program with 2 and one line, as bench_usage() does. */
#ifndef TDG_BENCH_OPTIONS_H
#define TDG_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Numbers, as an option with commas has them. */
enum { BENCH_MAX_SIZES = 8 };

typedef struct bench_sizes {
    size_t values[BENCH_MAX_SIZES];
    size_t count;
} bench_sizes_t;

/* One option, "--NAME". Of the targets one is given, and it says what the option takes.
 */
typedef struct bench_option {
    const char *name;

    bool *flag;           /* nothing: becomes true */
    void (*call)(void *); /* nothing: is called with `user` */
    void *user;
    const char **text;    /* any text */
    size_t *number;       /* a number from `min` to `max` */
    bench_sizes_t *sizes; /* such numbers, with commas between them */
    size_t min, max;
    bool *chosen; /* some of `names`, with commas; as many elements */
    const char *const *names;
    size_t name_count;
} bench_option_t;

/* The rows. */
#define BENCH_FLAG(n, target)                                                            \
    { .name = (n), .flag = (target) }
#define BENCH_CALL(n, function, argument)                                                \
    { .name = (n), .call = (function), .user = (argument) }
#define BENCH_TEXT(n, target)                                                            \
    { .name = (n), .text = (target) }
#define BENCH_NUMBER(n, target, from, to)                                                \
    { .name = (n), .number = (target), .min = (from), .max = (to) }
#define BENCH_SIZES(n, target, from, to)                                                 \
    { .name = (n), .sizes = (target), .min = (from), .max = (to) }
#define BENCH_CHOICE(n, target, list, count)                                             \
    { .name = (n), .chosen = (target), .names = (list), .name_count = (count) }
#define BENCH_NO_MORE                                                                    \
    { .name = NULL }

void bench_parse(int argc, char **argv, const bench_option_t *options);

#endif
