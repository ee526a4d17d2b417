/* SPDX-License-Identifier: MIT
 *
 * Timing and rate limits in a config, for the server or for one entry. */
#ifndef TDG_CONFIG_TIMING_H
#define TDG_CONFIG_TIMING_H

#include <tidings/server.h>

#include "config/node.h"

/* Durations that are not given are -1: then the window is 100 ms for batch, 500 ms for
 * debounce, 1 s for throttle; the longest wait ten windows; and the rate limit is
 * inherited. */
tdg_settings_t tdg__timing_settings(tdg_timing_mode_t mode, int64_t window_ms,
                                    int64_t longest_ms, int64_t rate_limit_ms);

/* Adds the operator's floor: -1 is inherited, 0 none. */
void tdg__timing_set_floor(tdg_settings_t *settings, int64_t min_window_ms,
                           int64_t min_rate_limit_ms);

/* Whether they go together, as `section` has them: adds problems, at the places there.
 * Returns 0 or TDG_EINVAL. */
int tdg__timing_check(const tdg_settings_t *settings, const tdg__node_t *section,
                      tdg__problems_t *problems);

#endif
