/* SPDX-License-Identifier: MIT
 *
 * Timing and rate limits in a config, for the server or for one entry. */
#ifndef TDG_CONFIG_TIMING_H
#define TDG_CONFIG_TIMING_H

#include <tidings/server.h>

#include "config/node.h"

/* The durations of the options; -1: not given. */
typedef struct tdg__timing_options {
    int64_t window_ms, longest_ms, rate_limit_ms;
    int64_t min_window_ms, min_rate_limit_ms; /* the operator's floor; 0: none */
} tdg__timing_options_t;

/* Without a window it is 100 ms for batch, 500 ms for debounce, 1 s for throttle; without
 * a longest wait that is ten windows; the rate limit and the floor are inherited. */
tdg_settings_t tdg__timing_settings(tdg_timing_mode_t mode,
                                    const tdg__timing_options_t *timing);

/* Whether they go together, as `section` has them: adds problems, at the places there.
 * Returns 0 or TDG_EINVAL. */
int tdg__timing_check(const tdg_settings_t *settings, const tdg__node_t *section,
                      tdg__problems_t *problems);

#endif
