/* SPDX-License-Identifier: MIT */
#include "config/timing.h"

tdg_settings_t tdg__timing_settings(tdg_timing_mode_t mode, int64_t window_ms,
                                    int64_t longest_ms, int64_t rate_limit_ms) {
    static const uint32_t windows[] = {[TDG_TIMING_BATCH] = 100,
                                       [TDG_TIMING_DEBOUNCE] = 500,
                                       [TDG_TIMING_THROTTLE] = 1000};
    tdg_settings_t settings = {.timing = mode};

    if (mode > TDG_TIMING_IMMEDIATE)
        settings.window_ms = window_ms >= 0 ? (uint32_t)window_ms : windows[mode];
    if (longest_ms > 0)
        settings.longest_ms = (uint32_t)longest_ms;
    settings.rate_limit_ms = rate_limit_ms < 0    ? TDG_RATE_INHERIT
                             : rate_limit_ms == 0 ? TDG_RATE_OFF
                                                  : (int32_t)rate_limit_ms;
    return settings;
}
