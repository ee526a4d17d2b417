/* SPDX-License-Identifier: MIT */
#include "config/timing.h"

#include <tidings/error.h>

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

static int32_t floor_of(int64_t ms) {
    return ms < 0 ? TDG_FLOOR_INHERIT : ms == 0 ? TDG_FLOOR_OFF : (int32_t)ms;
}

void tdg__timing_set_floor(tdg_settings_t *settings, int64_t min_window_ms,
                           int64_t min_rate_limit_ms) {
    settings->min_window_ms = floor_of(min_window_ms);
    settings->min_rate_limit_ms = floor_of(min_rate_limit_ms);
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
