/* SPDX-License-Identifier: MIT
 *
 * Runs a script on an engine and on the model beside it, compares the two after every
 * operation, and holds the engine to the promise. */
#ifndef TDG_SIM_RUN_H
#define TDG_SIM_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "model.h"
#include "script.h"

/* What came of a run. Plain data: it may live in memory that two processes share. */
struct verdict {
    bool failed;
    uint64_t op;     /* how many operations were begun */
    char kind[96];   /* what was compared; equal for failures of the same kind */
    char text[1024]; /* what was expected and what came */
};

struct run_opts {
    bool verbose;      /* every operation is printed first */
    bool promise_only; /* what differs from the model does not count: shows how much the
                          promise alone would notice */
};

/* Adds to `hits`, HITS numbers. */
void run_script(const struct script *script, const struct run_opts *opts, uint64_t *hits,
                struct verdict *ret);

/* To be called once, before anything else: counts what the library allocates. */
void run_count_memory(void);

#endif
