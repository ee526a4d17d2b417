/* SPDX-License-Identifier: MIT */
#include "config/timing.h"

#include <tidings/error.h>

static int32_t floor_of(int64_t ms) {
    return ms < 0 ? TDG_FLOOR_INHERIT : ms == 0 ? TDG_FLOOR_OFF : (int32_t)ms;
}

tdg_settings_t tdg__timing_settings(tdg_timing_mode_t mode,
                                    const tdg__timing_options_t *timing) {
    static const uint32_t windows[] = {[TDG_TIMING_BATCH] = 100,
                                       [TDG_TIMING_DEBOUNCE] = 500,
                                       [TDG_TIMING_THROTTLE] = 1000};
    tdg_settings_t settings = {
        .timing = mode,
        .min_window_ms = floor_of(timing->min_window_ms),
        .min_rate_limit_ms = floor_of(timing->min_rate_limit_ms),
    };

    if (mode > TDG_TIMING_IMMEDIATE)
        settings.window_ms =
            timing->window_ms >= 0 ? (uint32_t)timing->window_ms : windows[mode];
    if (timing->longest_ms > 0)
        settings.longest_ms = (uint32_t)timing->longest_ms;
    settings.rate_limit_ms = timing->rate_limit_ms < 0 ? TDG_RATE_INHERIT
                             : timing->rate_limit_ms == 0
                                 ? TDG_RATE_OFF
                                 : (int32_t)timing->rate_limit_ms;
    return settings;
}

/* An option that would mean nothing without `timing`. */
static int check_use(const tdg_settings_t *settings, const tdg__node_t *option,
                     tdg__problems_t *problems) {
    if (option == NULL || settings->timing > TDG_TIMING_IMMEDIATE)
        return 0;
    tdg__node_problem(problems, option,
                      settings->timing == TDG_TIMING_INHERIT
                          ? "this has no effect without `timing`; set that to batch, "
                            "debounce or throttle"
                          : "this has no effect with `timing: immediate`");
    return TDG_EINVAL;
}

int tdg__timing_check(const tdg_settings_t *settings, const tdg__node_t *section,
                      tdg__problems_t *problems) {
    const tdg__node_t *window = tdg__node_get(section, "window");
    const tdg__node_t *longest = tdg__node_get(section, "longest-wait");
    int rv, other;

    if (tdg__node_is_unset(tdg__node_get(section, "timing"), problems) ||
        tdg__node_is_unset(window, problems) || tdg__node_is_unset(longest, problems))
        return 0;
    rv = check_use(settings, window, problems);
    other = check_use(settings, longest, problems);
    if (rv < 0 || other < 0)
        return TDG_EINVAL;
    if (settings->longest_ms > 0 && settings->longest_ms < settings->window_ms) {
        tdg__node_problem(problems, longest,
                          "the longest wait is shorter than the window");
        return TDG_EINVAL;
    }
    return 0;
}
