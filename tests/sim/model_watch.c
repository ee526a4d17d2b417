/* SPDX-License-Identifier: MIT
 *
 * The model's watchers, and what happens by itself when its time has come. */
#include "model_internal.h"

#include <tidings/error.h>

/* ---- Watchers ----------------------------------------------------------- */

static void settle(struct model *model, int client, int target, int status) {
    struct subscription *sub = model__sub_of(model, client, target);

    sub->state = TDG__ARMED;
    sub->must_settle = true;
    sub->settle_status = status;
}

static void unwatch(struct model *model, int target) {
    model->unwatched[target]++;
    model->watchers[target] = (struct watcher){0};
    model__hit(model, HIT_UNWATCHED);
}

/* The last subscription may be gone. */
void model__linger(struct model *model, int target) {
    struct watcher *watcher = &model->watchers[target];

    if (!watcher->used || watcher->lingers || model__users_of(model, target) > 0)
        return;

    watcher->lingers = true;
    watcher->linger_ms = model->now_ms;
    if (model->opts.linger_ms == TDG__NO_LINGER)
        unwatch(model, target);
}

static void time_out(struct model *model, int target) {
    int c;

    model__hit(model, HIT_WATCH_TIMEOUT);
    model->watchers[target].late = true;
    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = model__sub_of(model, c, target);

        if (sub->used && sub->state == TDG__SUBSCRIBING) {
            sub->late = true;
            settle(model, c, target, TDG_ETIMEDOUT);
        }
    }
}

/* Those who were settled by time-out may have missed something. */
static void tell_late_ones(struct model *model, int target) {
    int c;

    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = model__sub_of(model, c, target);

        if (!sub->used || !sub->late)
            continue;
        if (cast_is_template(target))
            model__catch_up_listed(model, c, target, model->last_number, UINT64_MAX);
        else
            model__assume(model, c, target, target, model->last_number, UINT64_MAX);
        sub->told = true;
    }
}

uint64_t model_number(struct model *model, uint64_t gap) {
    model->numbering += 1 + gap;
    return model->numbering;
}

void model_reach(struct model *model, uint64_t number) {
    model->last_number = number;
    model->reached = true;
}

/* Arming takes a number. Where numbers are shared, somebody else has taken it, or any
 * cursor so far counts as older. */
static uint64_t arming_number(struct model *model) {
    if (!model->world->opts.shared_numbers) {
        model->last_number = model_number(model, 0);
        return model->last_number;
    }
    return model->reached ? model->last_number : model->last_number + 1;
}

void model__armed(struct model *model, int target, bool unchanged) {
    struct knowledge *known = &model->known[target];
    struct watcher *watcher = &model->watchers[target];
    int c;

    watcher->armed = true;
    if (watcher->late)
        model__hit(model, unchanged ? HIT_LATE_UNCHANGED : HIT_LATE_ARMED);
    if (unchanged && known->known) {
        model__hit(model, HIT_UNCHANGED);
    } else {
        known->known = true;
        known->known_from = arming_number(model);
    }
    if (!unchanged)
        tell_late_ones(model, target);

    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = model__sub_of(model, c, target);

        sub->late = false;
        if (sub->used && sub->state == TDG__SUBSCRIBING)
            settle(model, c, target, 0);
    }
}

static void failed(struct model *model, int target, int error) {
    int c;

    model__hit(model, HIT_WATCH_FAILED);
    model->watchers[target] = (struct watcher){0};
    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = model__sub_of(model, c, target);

        if (sub->used)
            *sub = (struct subscription){.must_settle = true, .settle_status = error};
    }
}

int model_watch_done(struct model *model, int target, tdg__watch_result_t result,
                     int error) {
    if (!model->watchers[target].used || model->watchers[target].armed) {
        model->reached = false;
        return 0;
    }
    if (result == TDG__WATCH_FAILED)
        failed(model, target, error);
    else
        model__armed(model, target, result == TDG__WATCH_UNCHANGED);
    model->reached = false;
    model__tidy(model);
    return 0;
}

/* ---- Time --------------------------------------------------------------- */

/* One thing that happens by itself when its time has come. */
struct due {
    int64_t ms;
    void (*act)(struct model *model, struct due due);
    int client;
    int target; /* or which window */
    int resource;
};

static void on_time_out(struct model *model, struct due due) {
    time_out(model, due.target);
}

static void on_linger_over(struct model *model, struct due due) {
    unwatch(model, due.target);
}

static void on_window_over(struct model *model, struct due due) {
    model__count_firing(model, &model->windows[due.target]);
    model__fire(model, &model->windows[due.target], false);
}

static void on_cooled_down(struct model *model, struct due due) {
    model->windows[due.target].used = false;
}

static void on_limit_over(struct model *model, struct due due) {
    model__hit(model, HIT_LIMIT_OVER);
    model__make_ready(model, model__sub_of(model, due.client, due.target), due.resource);
}

static void on_limit_forgotten(struct model *model, struct due due) {
    model__sub_of(model, due.client, due.target)->taken[due.resource] = false;
}

static void consider(struct due *first, struct due other) {
    if (other.ms < first->ms)
        *first = other;
}

static void consider_watchers(const struct model *model, struct due *first) {
    int t;

    for (t = 0; t < TARGETS; t++) {
        const struct watcher *watcher = &model->watchers[t];

        if (!watcher->used)
            continue;
        if (!watcher->armed && !watcher->late && !watcher->lingers)
            consider(first,
                     (struct due){.ms = watcher->since_ms + model->opts.watch_timeout_ms,
                                  .act = on_time_out,
                                  .target = t});
        if (watcher->lingers)
            consider(first, (struct due){.ms = watcher->linger_ms + model->opts.linger_ms,
                                         .act = on_linger_over,
                                         .target = t});
    }
}

static void consider_windows(const struct model *model, struct due *first) {
    int i;

    for (i = 0; i < model->windows_end; i++) {
        const struct window *window = &model->windows[i];

        if (window->used && window->runs)
            consider(first, (struct due){.ms = model__window_deadline(model, window),
                                         .act = on_window_over,
                                         .target = i});
    }
}

static void consider_limits(const struct model *model, struct due *first) {
    int c;
    int t;
    int r;

    for (c = 0; c < CLIENTS; c++)
        for (t = 0; t < TARGETS; t++) {
            const struct subscription *sub = &model->streams[c].subs[t];

            for (r = 0; sub->used && r < RESOURCES; r++)
                if (sub->flights[r].used && sub->flights[r].wait == LIMIT)
                    consider(first,
                             (struct due){.ms = sub->taken_ms[r] +
                                                model__limit_of(model, sub->wishes, r),
                                          .act = on_limit_over,
                                          .client = c,
                                          .target = t,
                                          .resource = r});
        }
}

/* What is remembered of template subscriptions only. */
static void consider_memories(const struct model *model, struct due *first) {
    int c;
    int t;
    int r;

    for (t = 0; t < model->windows_end; t++) {
        const struct window *window = &model->windows[t];

        if (window->used && !window->runs && !window->look)
            consider(first, (struct due){.ms = model__window_deadline(model, window),
                                         .act = on_cooled_down,
                                         .target = t});
    }
    for (c = 0; c < CLIENTS; c++)
        for (t = RESOURCES; t < TARGETS; t++) {
            const struct subscription *sub = &model->streams[c].subs[t];

            for (r = 0; sub->used && r < RESOURCES; r++)
                if (!sub->flights[r].used && sub->taken[r])
                    consider(first,
                             (struct due){.ms = sub->taken_ms[r] +
                                                model__limit_of(model, sub->wishes, r),
                                          .act = on_limit_forgotten,
                                          .client = c,
                                          .target = t,
                                          .resource = r});
        }
}

static struct due next_due(const struct model *model, bool memories) {
    struct due first = {.ms = INT64_MAX};

    consider_watchers(model, &first);
    consider_windows(model, &first);
    consider_limits(model, &first);
    if (memories)
        consider_memories(model, &first);
    return first;
}

/* Does what is due before a time, the earliest first. */
static void work_until(struct model *model, int64_t ms) {
    struct due due;

    while ((due = next_due(model, true)).ms < ms) {
        due.act(model, due);
        model__tidy(model);
    }
}

void model_advance(struct model *model, int64_t mono_ms, int64_t wall_ms) {
    if (mono_ms > model->now_ms)
        model->now_ms = mono_ms;
    model->wall_ms = wall_ms;
}

void model_work(struct model *model) {
    work_until(model, model->now_ms + 1);
}

int64_t model_next_deadline(const struct model *model) {
    return next_due(model, false).ms;
}

bool model_settled(struct model *model, int client, int target, int status,
                   bool resumed) {
    struct subscription *sub = model__sub_of(model, client, target);
    struct watcher *watcher = &model->watchers[target];

    if (watcher->used && !watcher->armed && !watcher->late) {
        int64_t ms = watcher->since_ms + model->opts.watch_timeout_ms;

        if (ms > model->now_ms)
            return false;
        work_until(model, ms);
        time_out(model, target);
    }

    if (!sub->must_settle || sub->settle_status != status)
        return false;
    sub->must_settle = false;
    return !sub->used || model__catch_up(model, client, target) == resumed;
}

bool model_unsettled(const struct model *model) {
    int c;
    int t;

    for (c = 0; c < CLIENTS; c++)
        for (t = 0; t < TARGETS; t++)
            if (model->streams[c].subs[t].must_settle)
                return true;
    return false;
}
