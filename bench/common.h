/* SPDX-License-Identifier: MIT
 *
 * What a benchmark needs besides its subject: a clock, numbers that come out the same
 * every time, medians, progress, and results as a table or as JSON lines. */
#ifndef TDG_BENCH_COMMON_H
#define TDG_BENCH_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Prints "bench: …" to stderr and exits with 1. A measurement that went wrong is worth
 * nothing, so there is no other way to handle it. */
_Noreturn void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The command line makes no sense: prints "PROGRAM: WHAT 'VALUE'; --help tells more" to
 * stderr and exits with 2. */
_Noreturn void bench_usage(const char *what, const char *value);

/* The number that an option was given; bench_usage() with `message` where it is none from
 * `min` to `max`. */
size_t bench_number(const char *value, size_t min, size_t max, const char *message);

/* Fails unless `rv` is 0. */
void bench_check(int rv, const char *what);

/* Memory, or failure. */
void *bench_alloc(size_t count, size_t size);

/* A port of this machine that is free now, and most likely a moment later: for programs
 * that cannot choose one by themselves. */
uint16_t bench_free_port(void);

/* ---- Time and memory ---------------------------------------------------- */

/* The clock on the wall, for single calls; and what this thread has used of a core, which
 * other programs on the machine do not lengthen, for everything else. */
uint64_t bench_now_ns(void);
uint64_t bench_cpu_ns(void);

/* What malloc has handed out at this moment, in bytes, its own overhead included. */
size_t bench_heap_bytes(void);

/* Keeps the compiler from removing work whose result nobody uses. */
void bench_use(uint64_t value);

/* ---- Order -------------------------------------------------------------- */

/* A generator with a fixed seed: every run sees the same order. */
typedef struct bench_random {
    uint64_t state;
} bench_random_t;

uint64_t bench_random(bench_random_t *random);
void bench_shuffle(bench_random_t *random, uint32_t *items, size_t count);

/* A new array of 0 … count-1, shuffled. */
uint32_t *bench_shuffled(bench_random_t *random, size_t count);

/* ---- Samples ------------------------------------------------------------ */

enum { BENCH_MAX_SAMPLES = 25 };

typedef struct bench_samples {
    double values[BENCH_MAX_SAMPLES];
    size_t count;
} bench_samples_t;

void bench_add(bench_samples_t *samples, double value);
double bench_median(const bench_samples_t *samples); /* 0 where there is none */

/* Of single calls, in ns. `times` is sorted by this. */
typedef struct bench_spread {
    double p50, p99, max;
} bench_spread_t;

bench_spread_t bench_spread(uint64_t *times, size_t count);

/* ---- Results ------------------------------------------------------------ */

/* One line of the result. What is 0 does not apply. */
typedef struct bench_result {
    const char *name;
    size_t n;
    double ns, map_ns;               /* per operation: the engine, the bare map */
    double spread[3], map_spread[3]; /* p50, p99, max of single calls, ns */
    double record_bytes; /* per subscription: its record and its share of the indexes */
    double stream_bytes, resource_bytes, name_bytes; /* per subscription, apart */
    double process_bytes; /* per subscription: what malloc handed out while subscribing */
} bench_result_t;

/* A heading, then the lines of one row with growing n; `what` is the operation. */
void bench_print_heading(FILE *out);
void bench_print_rows(FILE *out, const char *what, const bench_result_t *results,
                      size_t count);
void bench_print_spread(FILE *out, const bench_result_t *results, size_t count);
void bench_print_memory_heading(FILE *out);
void bench_print_memory(FILE *out, const bench_result_t *results, size_t count);

/* Aligned in so many columns of the terminal, whatever the number of bytes. */
void bench_put_left(FILE *out, const char *text, int width);
void bench_put_right(FILE *out, const char *text, int width);

void bench_print_json(FILE *out, const bench_result_t *result);

/* 85.3 → "85.3 ns", 12345 → "12.3 µs". */
const char *bench_duration(double ns, char *text, size_t size);
/* 11700000 → "11.7 M". */
const char *bench_count(double count, char *text, size_t size);
/* 1000 → "10³"; other numbers as they are. */
const char *bench_power(size_t n, char *text, size_t size);

/* Says on stderr what is being done: one line that is rewritten on a terminal; elsewhere
 * a line each. NULL wipes it. */
void bench_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
