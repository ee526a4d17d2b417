/* SPDX-License-Identifier: MIT
 *
 * What is measured. A scenario is a situation that is built up once per round; its rows
 * are the operations that are timed in it, each beside a bare map that does the same
 * look-ups with the same keys in the same order, right after the engine, in the same
 * process. */
#ifndef TDG_BENCH_SCENARIOS_H
#define TDG_BENCH_SCENARIOS_H

#include <stddef.h>

#include "common.h"

enum bench_row_id {
    HOT_SUBSCRIBE,
    HOT_CHANGE,
    HOT_CHURNED,
    HOT_LIMITED,
    HOT_BATCH,
    HOT_UNSUBSCRIBE,
    OWN_SUBSCRIBE,
    OWN_CHANGE,
    OWN_CHURNED,
    OWN_UNSUBSCRIBE,
    OWN_SINGLE,
    DROP,
    TEMPLATE_PREFIX,
    TEMPLATE_MIDDLE,
    TEMPLATE_FANOUT,
    BENCH_ROWS
};

typedef struct bench_row {
    const char *name;
    const char *what;    /* one operation is … */
    const char *lookups; /* what the bare map does for one */
} bench_row_t;

extern const bench_row_t bench_rows[BENCH_ROWS];

/* What one row has shown at one size. */
typedef struct bench_measured {
    bench_samples_t ns, map_ns;
    bench_samples_t spread[3], map_spread[3]; /* p50, p99, max of single calls */
    double record_bytes, stream_bytes, resource_bytes, name_bytes, process_bytes;
} bench_measured_t;

typedef struct bench_round {
    size_t n;
    size_t operations; /* that a sample should have at least, to be worth something */
    bench_measured_t *rows;
} bench_round_t;

typedef struct bench_scenario {
    const char *name;
    enum bench_row_id first_row, last_row;
    size_t max_n;
    void (*run)(const bench_round_t *round); /* adds one sample to each of its rows */
} bench_scenario_t;

enum { BENCH_SCENARIOS = 7 };

extern const bench_scenario_t bench_scenarios[BENCH_SCENARIOS];

#endif
