/* SPDX-License-Identifier: MIT
 *
 * What timing and rate limit mean that stand in a config, for the server or for one
 * entry. */
#ifndef TDG_CONFIG_TIMING_H
#define TDG_CONFIG_TIMING_H

#include <tidings/server.h>

/* Durations that are not given are -1: then the window is 100 ms for batch, 500 ms for
 * debounce, 1 s for throttle; the longest wait ten windows; and the rate limit is
 * inherited. */
tdg_settings_t tdg__timing_settings(tdg_timing_mode_t mode, int64_t window_ms,
                                    int64_t longest_ms, int64_t rate_limit_ms);

#endif
