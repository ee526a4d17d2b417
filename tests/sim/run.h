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

/* Adds to `hits`, HITS numbers. With `verbose` every operation is printed first. */
void run_script(const struct script *script, bool verbose, uint64_t *hits,
                struct verdict *ret);

/* To be called once, before anything else: counts what the library allocates. */
void run_count_memory(void);

#endif
