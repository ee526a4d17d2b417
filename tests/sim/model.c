/* SPDX-License-Identifier: MIT
 *
 * Every rule of docs/engine.md is one function here, named after it. Where that page is
 * silent, a comment that starts with "Decided:" says what the model does. */
#include "model.h"

#include <string.h>

#include <tidings/error.h>

static void hit(struct model *model, enum situation situation) {
    model->hits[situation]++;
}

static bool same_wishes(struct wishes a, struct wishes b) {
    return a.timing == b.timing && a.rate == b.rate && a.filter == b.filter;
}

static struct subscription *sub_of(struct model *model, int client, int target) {
    return &model->streams[client].subs[target];
}

/* Whether a template subscription has something in flight on a resource, or remembers its
 * limit. */
static bool has_derived(const struct subscription *sub, int resource) {
    return sub->used && (sub->flights[resource].used || sub->taken[resource]);
}

/* Rights are asked of those of whom nothing is in flight or remembered. */
static bool is_refused(const struct model *model, int client, int target, int resource) {
    return cast_is_template(target) && !model->may_read[client][resource] &&
           !has_derived(&model->streams[client].subs[target], resource);
}

/* ---- Settings ----------------------------------------------------------- */

/* The configured template with the most literal bytes that matches, then the oldest. */
static int template_configured(const struct model *model, int resource) {
    int best = -1;
    int t;

    for (t = RESOURCES; t < TARGETS; t++) {
        if (!cast_covers(t, resource) ||
            (model->configs[t].timing == 0 && model->configs[t].rate == 0))
            continue;
        if (best == -1 || cast_literals(t) > cast_literals(best) ||
            (cast_literals(t) == cast_literals(best) &&
             model->configs[t].order < model->configs[best].order))
            best = t;
    }
    return best;
}

static tdg__timing_t timing_of(const struct model *model, struct wishes wishes,
                               int resource) {
    int template_ = template_configured(model, resource);
    int timing = wishes.timing;
    tdg__timing_t ret;

    if (timing == 0)
        timing = model->configs[resource].timing;
    if (timing == 0 && template_ != -1)
        timing = model->configs[template_].timing;
    if (timing == 0)
        timing = model->defaults.timing;
    if (timing == 0)
        return (tdg__timing_t){TDG__TIMING_BATCH, 100, 0};

    ret = cast_timings[timing];
    if (ret.longest_ms == 0)
        ret.longest_ms = 10 * ret.window_ms;
    return ret;
}

/* 0: none. */
static int64_t limit_of(const struct model *model, struct wishes wishes, int resource) {
    int template_ = template_configured(model, resource);
    int rate = wishes.rate;

    if (rate == 0)
        rate = model->configs[resource].rate;
    if (rate == 0 && template_ != -1)
        rate = model->configs[template_].rate;
    if (rate == 0)
        rate = model->defaults.rate;
    if (rate == 0)
        return 1000;
    return cast_rates[rate] == TDG__RATE_OFF ? 0 : cast_rates[rate];
}

/* ---- Cursor ------------------------------------------------------------- */

/* `first` of the oldest in flight on a stream; one more than the last number if none. */
static uint64_t oldest_first(const struct model *model, int client) {
    uint64_t oldest = model->last_number + 1;
    int t;
    int r;

    for (t = 0; t < TARGETS; t++) {
        const struct subscription *sub = &model->streams[client].subs[t];

        for (r = 0; sub->used && r < RESOURCES; r++)
            if (sub->flights[r].used && sub->flights[r].first < oldest)
                oldest = sub->flights[r].first;
    }
    return oldest;
}

/* `first` 0 is that of a change before this epoch. */
static tdg__cursor_t cursor_before(const struct model *model, uint64_t first) {
    if (first == 0)
        return (tdg__cursor_t){0, 0};
    return (tdg__cursor_t){model->epoch, first - 1};
}

static tdg__cursor_t cursor_of(const struct model *model, int client) {
    if (model->streams[client].ended)
        return model->streams[client].end_cursor;
    return cursor_before(model, oldest_first(model, client));
}

int model_cursor(const struct model *model, int client, tdg__cursor_t *ret) {
    if (!model->streams[client].open)
        return TDG_ENOTFOUND;
    *ret = cursor_of(model, client);
    return 0;
}

/* ---- Windows ------------------------------------------------------------ */

static struct window *find_window(struct model *model, int target, int resource,
                                  struct wishes wishes) {
    int i;

    for (i = 0; i < model->windows_end; i++) {
        struct window *window = &model->windows[i];

        if (window->used && window->target == target && window->resource == resource &&
            same_wishes(window->wishes, wishes))
            return window;
    }
    return NULL;
}

static struct window *get_window(struct model *model, int target, int resource,
                                 struct wishes wishes) {
    struct window *window = find_window(model, target, resource, wishes);
    int i;

    if (window != NULL)
        return window;

    for (i = 0; model->windows[i].used; i++)
        ;
    if (i == model->windows_end)
        model->windows_end++;
    window = &model->windows[i];
    *window = (struct window){
        .used = true, .target = target, .resource = resource, .wishes = wishes};
    return window;
}

static int64_t window_deadline(const struct model *model, const struct window *window) {
    tdg__timing_t timing = timing_of(model, window->wishes, window->resource);
    int64_t quiet = window->last_ms + timing.window_ms;
    int64_t longest = window->first_ms + timing.longest_ms;

    switch (timing.mode) {
    case TDG__TIMING_BATCH:
        return window->first_ms + timing.window_ms;
    case TDG__TIMING_DEBOUNCE:
        return quiet < longest ? quiet : longest;
    case TDG__TIMING_THROTTLE:
        return window->fired ? window->fired_ms + timing.window_ms : window->first_ms;
    default:
        return window->first_ms;
    }
}

/* ---- From window to limit to ready -------------------------------------- */

static bool limit_runs(const struct model *model, const struct subscription *sub,
                       int resource) {
    return sub->taken[resource] && model->now_ms - sub->taken_ms[resource] <
                                       limit_of(model, sub->wishes, resource);
}

static void make_ready(struct model *model, struct subscription *sub, int resource) {
    sub->flights[resource].wait = ITS_TURN;
    sub->flights[resource].ready_ms = model->now_ms;
    if (sub->state != TDG__SUBSCRIBED)
        hit(model, HIT_KEPT);
}

static void go_on_to_limit(struct model *model, struct subscription *sub, int resource) {
    if (limit_runs(model, sub, resource)) {
        sub->flights[resource].wait = LIMIT;
        model->counters.rate_limited++;
        hit(model, HIT_LIMITED);
    } else {
        make_ready(model, sub, resource);
    }
}

static void fire(struct model *model, struct window *window, bool deletion) {
    int c;

    window->runs = false;
    window->look = true;
    window->fired = true;
    window->fired_ms = model->now_ms;

    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = sub_of(model, c, window->target);
        struct flight *flight = &sub->flights[window->resource];

        if (!sub->used || !same_wishes(sub->wishes, window->wishes) || !flight->used)
            continue;
        if (deletion && flight->wait != ITS_TURN) {
            if (limit_runs(model, sub, window->resource))
                hit(model, HIT_LIMIT_SKIPPED);
            make_ready(model, sub, window->resource);
        } else if (flight->wait == WINDOW) {
            go_on_to_limit(model, sub, window->resource);
        }
    }
}

static void count_firing(struct model *model, const struct window *window) {
    tdg__timing_t timing = timing_of(model, window->wishes, window->resource);

    switch (timing.mode) {
    case TDG__TIMING_BATCH:
        hit(model, HIT_BATCHED);
        break;
    case TDG__TIMING_DEBOUNCE:
        hit(model, HIT_DEBOUNCED);
        if (window->first_ms + timing.longest_ms < window->last_ms + timing.window_ms)
            hit(model, HIT_DEBOUNCED_LONGEST);
        break;
    case TDG__TIMING_THROTTLE:
        hit(model, HIT_THROTTLED);
        break;
    default:
        break;
    }
}

/* ---- Forgetting --------------------------------------------------------- */

static int users_of(const struct model *model, int target) {
    int users = 0;
    int c;

    for (c = 0; c < CLIENTS; c++)
        users += model->streams[c].subs[target].used;
    return users;
}

static bool in_history(const struct model *model, int resource) {
    uint32_t i;

    for (i = 0; i < model->history_count; i++)
        if (model->history[i].resource == resource)
            return true;
    return false;
}

static bool template_needs(const struct model *model, int resource) {
    int c;
    int i;

    for (i = 0; i < model->windows_end; i++)
        if (model->windows[i].used && cast_is_template(model->windows[i].target) &&
            model->windows[i].resource == resource)
            return true;
    for (c = 0; c < CLIENTS; c++)
        for (i = RESOURCES; i < TARGETS; i++)
            if (has_derived(&model->streams[c].subs[i], resource))
                return true;
    return false;
}

/* Decided: a resource on which a template subscription has something in flight, or a
 * window or limit that runs, is not forgotten either. */
static void forget_resources(struct model *model) {
    int r;

    for (r = 0; r < RESOURCES; r++) {
        struct knowledge *known = &model->known[r];

        if ((known->last == 0 && !known->known) || users_of(model, r) > 0 ||
            model->watchers[r].used || in_history(model, r) || template_needs(model, r))
            continue;
        if (known->last > model->floor)
            model->floor = known->last;
        if (known->last != 0)
            hit(model, HIT_FORGOTTEN);
        *known = (struct knowledge){0};
    }
}

/* A template is forgotten with its last subscription and watcher. */
static void forget_templates(struct model *model) {
    int t;

    for (t = RESOURCES; t < TARGETS; t++)
        if (users_of(model, t) == 0 && !model->watchers[t].used)
            model->known[t] = (struct knowledge){0};
}

static bool cools_down(const struct model *model, const struct window *window) {
    tdg__timing_t timing = timing_of(model, window->wishes, window->resource);

    return timing.mode == TDG__TIMING_THROTTLE && window->fired &&
           window->fired_ms + timing.window_ms > model->now_ms;
}

/* Decided: what a template subscription remembers about a URI (when it was last taken)
 * goes when its limit is over. The window of its group on that URI goes when it does not
 * run, no throttle holds and nobody remembers anything: that is looked at when it fires,
 * when the last one forgets, and when the throttle lets go. What a subscription to the
 * URI itself remembers, and its group, stays with it. */
static bool is_manned(struct model *model, struct window *window, bool *ret_wanted) {
    bool manned = false;
    bool in_flight = false;
    int c;

    *ret_wanted = false;
    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = sub_of(model, c, window->target);

        if (!sub->used || !same_wishes(sub->wishes, window->wishes))
            continue;
        *ret_wanted = true;
        in_flight |= sub->flights[window->resource].used;
        manned |= !cast_is_template(window->target) || has_derived(sub, window->resource);
    }
    if (!in_flight)
        window->newest = 0;
    return manned;
}

static void forget_windows(struct model *model) {
    int i;

    for (i = 0; i < model->windows_end; i++) {
        struct window *window = &model->windows[i];
        bool wanted;
        bool manned;

        if (!window->used)
            continue;
        manned = is_manned(model, window, &wanted);
        if (!wanted ||
            (!manned && window->look && !window->runs && !cools_down(model, window)))
            window->used = false;
        window->look = manned;
    }
    while (model->windows_end > 0 && !model->windows[model->windows_end - 1].used)
        model->windows_end--;
}

static void tidy(struct model *model) {
    forget_windows(model);
    forget_resources(model);
    forget_templates(model);
}

/* ---- Catch-up ----------------------------------------------------------- */

/* URIs in flight on a stream through templates, each template subscription by itself. */
static uint32_t pending_through_templates(const struct model *model, int client) {
    uint32_t count = 0;
    int t;
    int r;

    for (t = RESOURCES; t < TARGETS; t++)
        for (r = 0; r < RESOURCES; r++)
            count += model->streams[client].subs[t].used &&
                     model->streams[client].subs[t].flights[r].used;
    return count;
}

/* Puts something in flight, past filter, window and limit: what is there, else an assumed
 * change. Returns false where that would pass max_pending. */
static bool assume(struct model *model, int client, int target, int resource,
                   uint64_t first, uint64_t above) {
    struct subscription *sub = sub_of(model, client, target);
    struct flight *flight = &sub->flights[resource];
    const struct knowledge *known = &model->known[resource];
    uint64_t oldest = oldest_first(model, client);

    if (!flight->used) {
        if (cast_is_template(target) &&
            pending_through_templates(model, client) >= model->opts.max_pending)
            return false;
        *flight = (struct flight){
            .used = true,
            .wait = WINDOW,
            .first = UINT64_MAX,
            .newest = model->last_number,
            .assumed = true,
            .real_too = known->last == model->last_number,
            .deleted = known->last > above && known->deleted,
        };
    } else {
        hit(model, HIT_MET_IN_FLIGHT);
    }

    if (first < flight->first)
        flight->first = first;
    if (oldest < flight->first)
        flight->first = oldest;
    if (flight->wait != ITS_TURN)
        make_ready(model, sub, resource);
    return true;
}

/* While a watcher is not armed nothing is known. */
static uint64_t known_from(const struct model *model, int target) {
    if (!model->world->watch)
        return 0;
    return model->watchers[target].armed ? model->known[target].known_from : UINT64_MAX;
}

static bool missed(struct model *model, int resource, uint64_t c) {
    uint64_t last = model->known[resource].last;

    if (last > c)
        return true;
    if (c < known_from(model, resource)) {
        hit(model, HIT_BELOW_KNOWN);
        return true;
    }
    if (last == 0)
        hit(model, c < model->floor ? HIT_BELOW_FLOOR : HIT_ABOVE_FLOOR);
    return last == 0 && c < model->floor;
}

static void catch_up_resource(struct model *model, int client, int target) {
    struct subscription *sub = sub_of(model, client, target);

    if (sub->cursor.epoch != model->epoch) {
        hit(model, HIT_FOREIGN);
        assume(model, client, target, target, 0, 0);
    } else if (missed(model, target, sub->cursor.number)) {
        assume(model, client, target, target, sub->cursor.number + 1, sub->cursor.number);
    } else {
        hit(model, HIT_NOTHING_MISSED);
    }
}

/* Decided: the newest entries of the history come first, then the listed ones. */
static bool catch_up_history(struct model *model, int client, int target, uint64_t first,
                             uint64_t c) {
    bool seen[RESOURCES] = {0};
    bool all = true;
    uint32_t i;

    for (i = model->history_count; i-- > 0;) {
        int r = model->history[i].resource;

        if (seen[r] || model->history[i].number <= c || !cast_covers(target, r) ||
            is_refused(model, client, target, r))
            continue;
        seen[r] = true;
        all = assume(model, client, target, r, first, c) && all;
    }
    return all;
}

static bool catch_up_listed(struct model *model, int client, int target, uint64_t first,
                            uint64_t c) {
    uint32_t listed = 0;
    bool all = true;
    int r;

    if (!model->world->list_matches)
        return true;
    for (r = 0; r < RESOURCES && listed < model->opts.max_listed; r++) {
        if (!cast_is_listed(r) || !cast_covers(target, r))
            continue;
        listed++;
        if (is_refused(model, client, target, r))
            continue;
        hit(model, HIT_TEMPLATE_LISTED);
        all = assume(model, client, target, r, first, c) && all;
    }
    return all;
}

static bool catch_up_template(struct model *model, int client, int target) {
    struct subscription *sub = sub_of(model, client, target);
    bool foreign = sub->cursor.epoch != model->epoch;
    uint64_t c = foreign ? 0 : sub->cursor.number;
    uint64_t first = foreign ? 0 : c + 1;
    bool all = catch_up_history(model, client, target, first, c);
    bool complete = !foreign && c >= model->dropped && c >= known_from(model, target);

    if (foreign)
        hit(model, HIT_FOREIGN);
    hit(model, complete ? HIT_TEMPLATE_CATCH_UP : HIT_TEMPLATE_INCOMPLETE);
    if (!complete)
        all = catch_up_listed(model, client, target, first, c) && all;
    if (!all)
        hit(model, HIT_TEMPLATE_OVERFULL);
    return complete && all;
}

/* Decided: of a URI the last change counts also where it has left the history. */
static void catch_up_since(struct model *model, int client, int target) {
    struct subscription *sub = sub_of(model, client, target);
    uint32_t i;

    hit(model, HIT_SINCE);
    if (!cast_is_template(target)) {
        if (model->known[target].last != 0 &&
            model->known[target].last_ms >= sub->since_ms)
            assume(model, client, target, target, model->known[target].last, 0);
        return;
    }
    for (i = model->history_count; i-- > 0;) {
        int r = model->history[i].resource;

        if (model->history[i].ms < sub->since_ms || !cast_covers(target, r) ||
            is_refused(model, client, target, r) ||
            model->history[i].number != model->known[r].last)
            continue;
        assume(model, client, target, r, model->known[r].last, 0);
    }
}

/* Returns `resumed`. */
static bool catch_up(struct model *model, int client, int target) {
    struct subscription *sub = sub_of(model, client, target);
    bool resumed = true;

    if (sub->has_cursor) {
        hit(model, HIT_RESUMED);
        if (cast_is_template(target))
            resumed = catch_up_template(model, client, target);
        else
            catch_up_resource(model, client, target);
    } else if (sub->has_since) {
        catch_up_since(model, client, target);
    }
    sub->has_cursor = false;
    sub->has_since = false;
    return resumed;
}

/* ---- Watchers ----------------------------------------------------------- */

static void settle(struct model *model, int client, int target, int status) {
    struct subscription *sub = sub_of(model, client, target);

    sub->state = TDG__ARMED;
    sub->must_settle = true;
    sub->settle_status = status;
}

static void unwatch(struct model *model, int target) {
    model->unwatched[target]++;
    model->watchers[target] = (struct watcher){0};
    hit(model, HIT_UNWATCHED);
}

/* The last subscription may be gone. */
static void linger(struct model *model, int target) {
    struct watcher *watcher = &model->watchers[target];

    if (!watcher->used || watcher->lingers || users_of(model, target) > 0)
        return;

    watcher->lingers = true;
    watcher->linger_ms = model->now_ms;
    if (model->opts.linger_ms == TDG__NO_LINGER)
        unwatch(model, target);
}

static void time_out(struct model *model, int target) {
    int c;

    hit(model, HIT_WATCH_TIMEOUT);
    model->watchers[target].late = true;
    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = sub_of(model, c, target);

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
        struct subscription *sub = sub_of(model, c, target);

        if (!sub->used || !sub->late)
            continue;
        if (cast_is_template(target))
            catch_up_listed(model, c, target, model->last_number, UINT64_MAX);
        else
            assume(model, c, target, target, model->last_number, UINT64_MAX);
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

static void armed(struct model *model, int target, bool unchanged) {
    struct knowledge *known = &model->known[target];
    struct watcher *watcher = &model->watchers[target];
    int c;

    watcher->armed = true;
    if (watcher->late)
        hit(model, unchanged ? HIT_LATE_UNCHANGED : HIT_LATE_ARMED);
    if (unchanged && known->known) {
        hit(model, HIT_UNCHANGED);
    } else {
        known->known = true;
        known->known_from = arming_number(model);
    }
    if (!unchanged)
        tell_late_ones(model, target);

    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = sub_of(model, c, target);

        sub->late = false;
        if (sub->used && sub->state == TDG__SUBSCRIBING)
            settle(model, c, target, 0);
    }
}

static void failed(struct model *model, int target, int error) {
    int c;

    hit(model, HIT_WATCH_FAILED);
    model->watchers[target] = (struct watcher){0};
    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = sub_of(model, c, target);

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
        armed(model, target, result == TDG__WATCH_UNCHANGED);
    model->reached = false;
    tidy(model);
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
    count_firing(model, &model->windows[due.target]);
    fire(model, &model->windows[due.target], false);
}

static void on_cooled_down(struct model *model, struct due due) {
    model->windows[due.target].used = false;
}

static void on_limit_over(struct model *model, struct due due) {
    hit(model, HIT_LIMIT_OVER);
    make_ready(model, sub_of(model, due.client, due.target), due.resource);
}

static void on_limit_forgotten(struct model *model, struct due due) {
    sub_of(model, due.client, due.target)->taken[due.resource] = false;
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
            consider(first, (struct due){.ms = window_deadline(model, window),
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
                    consider(first, (struct due){.ms = sub->taken_ms[r] +
                                                       limit_of(model, sub->wishes, r),
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
            consider(first, (struct due){.ms = window_deadline(model, window),
                                         .act = on_cooled_down,
                                         .target = t});
    }
    for (c = 0; c < CLIENTS; c++)
        for (t = RESOURCES; t < TARGETS; t++) {
            const struct subscription *sub = &model->streams[c].subs[t];

            for (r = 0; sub->used && r < RESOURCES; r++)
                if (!sub->flights[r].used && sub->taken[r])
                    consider(first, (struct due){.ms = sub->taken_ms[r] +
                                                       limit_of(model, sub->wishes, r),
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
        tidy(model);
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
    struct subscription *sub = sub_of(model, client, target);
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
    return !sub->used || catch_up(model, client, target) == resumed;
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

/* ---- Streams ------------------------------------------------------------ */

static uint32_t open_streams(const struct model *model) {
    uint32_t count = 0;
    int c;

    for (c = 0; c < CLIENTS; c++)
        count += model->streams[c].open;
    return count;
}

int model_open(struct model *model, int client) {
    if (open_streams(model) >= model->opts.max_streams) {
        hit(model, HIT_REFUSED_LIMIT);
        return TDG_ESTREAMS;
    }
    model->streams[client] = (struct stream_model){.open = true};
    return 0;
}

static void drop_subs(struct model *model, int client) {
    int t;

    memset(model->streams[client].subs, 0, sizeof(model->streams[client].subs));
    for (t = 0; t < TARGETS; t++)
        linger(model, t);
    tidy(model);
}

void model_close(struct model *model, int client) {
    drop_subs(model, client);
    model->streams[client] = (struct stream_model){0};
}

static void end_stream(struct model *model, int client, int reason,
                       tdg__cursor_t cursor) {
    struct stream_model *stream = &model->streams[client];

    stream->ended = true;
    stream->reason = reason;
    stream->end_cursor = cursor;
    drop_subs(model, client);
}

int model_end(struct model *model, int client, int reason) {
    if (!model->streams[client].open)
        return TDG_ENOTFOUND;
    if (!model->streams[client].ended)
        end_stream(model, client, reason, cursor_of(model, client));
    return 0;
}

int model_block(struct model *model, int client, bool blocked) {
    if (!model->streams[client].open)
        return TDG_ENOTFOUND;
    model->streams[client].blocked = blocked;
    return 0;
}

/* ---- Subscriptions ------------------------------------------------------ */

static uint32_t subs_between(const struct model *model, int client, int from, int to) {
    uint32_t count = 0;
    int t;

    for (t = from; t < to; t++)
        count += model->streams[client].subs[t].used;
    return count;
}

static int check_limits(const struct model *model, int client, int target) {
    uint32_t total = 0;
    int c;

    for (c = 0; c < CLIENTS; c++)
        total += subs_between(model, c, 0, TARGETS);
    if (subs_between(model, client, 0, TARGETS) >= model->opts.max_subscriptions)
        return TDG_ESUBSCRIPTIONS;
    if (cast_is_template(target) &&
        subs_between(model, client, RESOURCES, TARGETS) >= model->opts.max_templates)
        return TDG_ETEMPLATES;
    if (total >= model->opts.max_total)
        return TDG_ETOTAL;
    return 0;
}

/* The state of a new subscription, or what `watch` refused with. */
static int start_watching(struct model *model, int target, int answer,
                          tdg__sub_state_t *ret) {
    struct watcher *watcher = &model->watchers[target];

    if (!model->world->watch) {
        *ret = TDG__ARMED;
        return 0;
    }

    if (!watcher->used) {
        model->watched[target]++;
        if (answer < 0 && answer != TDG_EAGAIN) {
            hit(model, HIT_WATCH_REFUSED);
            return answer;
        }
        *watcher = (struct watcher){.used = true, .since_ms = model->now_ms};
        if (answer == 0)
            armed(model, target, false);
    } else if (watcher->lingers) {
        hit(model, HIT_LINGERED);
        watcher->lingers = false;
    }

    /* Nobody waited while it lingered, but the time-out may be over. */
    if (!watcher->armed &&
        watcher->since_ms + model->opts.watch_timeout_ms <= model->now_ms)
        watcher->late = true;
    if (!watcher->armed && watcher->late)
        hit(model, HIT_LATE_SUBSCRIBER);
    *ret = watcher->armed || watcher->late ? TDG__ARMED : TDG__SUBSCRIBING;
    return 0;
}

/* Decided: who comes to a group with something in flight shares the newest change that
 * the group has in flight, though it passed only the new filter. */
static void share_newest(struct model *model, struct subscription *sub, int target,
                         int resource) {
    struct flight *flight = &sub->flights[resource];
    const struct window *window = find_window(model, target, resource, sub->wishes);

    if (window != NULL && window->newest > flight->newest) {
        flight->newest = window->newest;
        flight->deleted = window->newest_deleted;
        flight->assumed = false;
    }
}

static void rewish(struct model *model, int client, int target, struct wishes wishes) {
    struct subscription *sub = sub_of(model, client, target);
    int r;

    if (same_wishes(sub->wishes, wishes))
        return;

    hit(model, HIT_REWISHED);
    sub->wishes = wishes;
    for (r = 0; r < RESOURCES; r++) {
        struct flight *flight = &sub->flights[r];

        if (!flight->used)
            continue;
        hit(model, HIT_REWISHED_IN_FLIGHT);
        share_newest(model, sub, target, r);
        if (flight->wait == WINDOW)
            go_on_to_limit(model, sub, r);
        else if (flight->wait == LIMIT && !limit_runs(model, sub, r))
            make_ready(model, sub, r);
    }
}

/* Decided: what is ready stands at the end of those with its new priority. */
static void set_priority(struct model *model, struct subscription *sub, int priority) {
    int r;

    if (sub->priority == priority)
        return;
    sub->priority = priority;
    for (r = 0; r < RESOURCES; r++)
        if (sub->flights[r].used && sub->flights[r].wait == ITS_TURN)
            sub->flights[r].ready_ms = model->now_ms;
}

int model_subscribe(struct model *model, const struct model_subscribe *request,
                    tdg__subscribed_t *ret) {
    struct subscription *sub = sub_of(model, request->client, request->target);
    struct stream_model *stream = &model->streams[request->client];
    tdg__sub_state_t state;
    int rv;

    if (!stream->open)
        return TDG_ENOTFOUND;
    if (stream->ended)
        return TDG_EENDED;
    if (cast_is_list(request->target) && request->wishes.filter != 0)
        return TDG_EINVAL;

    if (sub->used) {
        rewish(model, request->client, request->target, request->wishes);
        set_priority(model, sub, request->priority);
        tidy(model);
        *ret = (tdg__subscribed_t){sub->state, true};
        return 0;
    }

    rv = check_limits(model, request->client, request->target);
    if (rv < 0) {
        hit(model, HIT_REFUSED_LIMIT);
        return rv;
    }
    rv = start_watching(model, request->target, request->watch, &state);
    if (rv < 0)
        return rv;

    *sub = (struct subscription){
        .used = true,
        .uid = ++model->next_uid,
        .state = state,
        .wishes = request->wishes,
        .priority = request->priority,
        .has_cursor = request->has_cursor,
        .cursor = request->cursor,
        .has_since = !request->has_cursor && request->since_ms > 0,
        .since_ms = model->now_ms - request->since_ms,
        .late = state == TDG__ARMED && model->world->watch &&
                !model->watchers[request->target].armed,
    };
    *ret = (tdg__subscribed_t){state, true};
    if (state == TDG__ARMED)
        ret->resumed = catch_up(model, request->client, request->target);
    tidy(model);
    return 0;
}

static void acknowledge(struct model *model, struct subscription *sub) {
    int r;

    sub->state = TDG__SUBSCRIBED;
    for (r = 0; r < RESOURCES; r++)
        if (sub->flights[r].used && sub->flights[r].wait == ITS_TURN)
            sub->flights[r].ready_ms = model->now_ms;
}

int model_acknowledge(struct model *model, int client, int target) {
    struct subscription *sub;
    int t;

    if (!model->streams[client].open)
        return TDG_ENOTFOUND;

    if (target == -1) {
        for (t = 0; t < TARGETS; t++)
            if (sub_of(model, client, t)->used &&
                sub_of(model, client, t)->state == TDG__ARMED)
                acknowledge(model, sub_of(model, client, t));
        return 0;
    }

    sub = sub_of(model, client, target);
    if (!sub->used)
        return TDG_ENOTFOUND;
    if (sub->state == TDG__SUBSCRIBING)
        return TDG_EAGAIN;
    if (sub->state == TDG__ARMED)
        acknowledge(model, sub);
    return 0;
}

int model_unsubscribe(struct model *model, int client, int target) {
    struct subscription *sub = sub_of(model, client, target);

    if (!model->streams[client].open || !sub->used)
        return TDG_ENOTFOUND;
    *sub = (struct subscription){0};
    linger(model, target);
    tidy(model);
    return 0;
}

/* ---- Changes ------------------------------------------------------------ */

static void note_in_history(struct model *model, int resource, uint64_t number) {
    if (model->history_count == model->opts.history) {
        model->dropped = model->history[0].number;
        model->history_count--;
        memmove(&model->history[0], &model->history[1],
                model->history_count * sizeof(model->history[0]));
    }
    model->history[model->history_count].resource = resource;
    model->history[model->history_count].number = number;
    model->history[model->history_count].ms = model->now_ms;
    model->history_count++;
}

/* One more change that passed a subscription. Returns false where the stream cannot take
 * one more. */
static bool put_in_flight(struct model *model, int client, int target,
                          const struct cast_news *news, uint64_t number) {
    struct flight *flight = &sub_of(model, client, target)->flights[news->resource];

    if (!flight->used) {
        if (cast_is_template(target) &&
            pending_through_templates(model, client) >= model->opts.max_pending)
            return false;
        *flight = (struct flight){.used = true, .wait = WINDOW, .first = number};
    }
    flight->newest = number;
    flight->deleted = news->deleted;
    flight->assumed = false;
    flight->passed++;
    return true;
}

static void window_sees(struct model *model, struct window *window, uint64_t number,
                        bool deleted) {
    window->newest = number;
    window->newest_deleted = deleted;
    if (!window->runs) {
        window->runs = true;
        window->first_ms = model->now_ms;
    }
    window->last_ms = model->now_ms;

    /* Decided: a window that is due because its settings changed, and has not seen an
     * advance since, fires with the next change. */
    if (deleted || window_deadline(model, window) <= model->now_ms)
        fire(model, window, deleted);
}

/* Those of a target with the same wishes as this subscription; each such group is looked
 * at once, with its first member. */
static void tell_group(struct model *model, int client, int target,
                       const struct cast_news *news, uint64_t number, bool *full) {
    struct wishes wishes = sub_of(model, client, target)->wishes;
    int c;

    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = sub_of(model, c, target);

        if (!sub->used || !same_wishes(sub->wishes, wishes))
            continue;
        if (c < client)
            return;
        if (!cast_passes(wishes.filter, news)) {
            model->counters.filtered++;
            hit(model, HIT_FILTERED);
        } else if (is_refused(model, c, target, news->resource)) {
            hit(model, HIT_FORBIDDEN);
        } else if (!put_in_flight(model, c, target, news, number)) {
            full[c] = true;
        }
    }
    /* The window runs also where nobody of the group may read the URI. */
    if (cast_passes(wishes.filter, news))
        window_sees(model, get_window(model, target, news->resource, wishes), number,
                    news->deleted);
}

void model_changed(struct model *model, const struct cast_news *news, uint64_t number) {
    tdg__cursor_t before[CLIENTS];
    bool full[CLIENTS] = {0};
    int c;
    int t;

    /* Numbers between the last one and this one concern nobody here. */
    model->last_number = number - 1;
    for (c = 0; c < CLIENTS; c++)
        before[c] = cursor_of(model, c);

    model->last_number = number;
    model->reached = false;
    model->known[news->resource].last = number;
    model->known[news->resource].last_ms = model->now_ms;
    model->known[news->resource].deleted = news->deleted;
    model->counters.changes++;
    note_in_history(model, news->resource, number);

    for (t = 0; t < TARGETS; t++)
        for (c = 0; c < CLIENTS; c++)
            if (cast_covers(t, news->resource) && sub_of(model, c, t)->used)
                tell_group(model, c, t, news, number, full);

    for (c = 0; c < CLIENTS; c++)
        if (full[c]) {
            hit(model, HIT_PENDING_END);
            model->counters.ended++;
            end_stream(model, c, TDG_EPENDING, before[c]);
        }
    tidy(model);
}

/* ---- Delivery ----------------------------------------------------------- */

static bool may_be_taken(const struct subscription *sub, int resource) {
    return sub->used && sub->state == TDG__SUBSCRIBED && sub->flights[resource].used &&
           sub->flights[resource].wait == ITS_TURN;
}

bool model_ready(const struct model *model, int client) {
    const struct stream_model *stream = &model->streams[client];
    int t;
    int r;

    if (!stream->open || stream->blocked)
        return false;
    if (stream->ended)
        return !stream->end_taken;
    for (t = 0; t < TARGETS; t++)
        for (r = 0; r < RESOURCES; r++)
            if (may_be_taken(&stream->subs[t], r))
                return true;
    return false;
}

/* The resource to take: highest priority, then longest ready; among equals the hint. */
static int choose(struct model *model, int client, int hint) {
    const struct subscription *best = NULL;
    int best_resource = -1;
    int t;
    int r;

    for (t = 0; t < TARGETS; t++)
        for (r = 0; r < RESOURCES; r++) {
            const struct subscription *sub = sub_of(model, client, t);
            int64_t ms = sub->flights[r].ready_ms;

            if (!may_be_taken(sub, r))
                continue;
            if (best != NULL && best->priority != sub->priority)
                hit(model, HIT_PRIORITY);
            if (best == NULL || sub->priority > best->priority ||
                (sub->priority == best->priority &&
                 (ms < best->flights[best_resource].ready_ms ||
                  (ms == best->flights[best_resource].ready_ms && r == hint)))) {
                best = sub;
                best_resource = r;
            }
        }
    return best_resource;
}

static int take_end(struct model *model, int client, struct model_note *ret) {
    struct stream_model *stream = &model->streams[client];

    if (stream->end_taken)
        return 0;
    stream->end_taken = true;
    *ret = (struct model_note){.kind = TDG__NOTE_END,
                               .resource = -1,
                               .reason = stream->reason,
                               .cursor = stream->end_cursor};
    return 1;
}

static bool takes_part(const struct subscription *sub, int resource) {
    return sub->used && sub->state == TDG__SUBSCRIBED && sub->flights[resource].used;
}

/* The newest change and the largest number of changes among those who take part. */
static void look_around(struct model *model, int client, int resource,
                        struct model_note *note) {
    uint32_t most = 1;
    int parts = 0;
    int t;

    for (t = 0; t < TARGETS; t++) {
        const struct subscription *sub = sub_of(model, client, t);
        const struct flight *flight = &sub->flights[resource];

        if (!takes_part(sub, resource))
            continue;
        if (parts > 0 && flight->newest == note->number)
            note->deleted_too |= flight->deleted != note->deleted;
        else if (flight->newest > note->number)
            note->deleted_too = false;
        if (parts++ == 0 || flight->newest > note->number ||
            (flight->newest == note->number && note->assumed)) {
            note->number = flight->newest;
            note->deleted = flight->deleted;
            note->assumed = flight->assumed;
            note->real_too = flight->real_too;
        }
        if (flight->passed > most)
            most = flight->passed;
    }
    note->merged = most - 1;
    if (parts > 1)
        hit(model, HIT_SIBLINGS);
    if (note->merged > 0)
        hit(model, HIT_MERGED);
}

static uint32_t remembered_through_templates(const struct model *model, int client) {
    uint32_t count = 0;
    int t;
    int r;

    for (t = RESOURCES; t < TARGETS; t++)
        for (r = 0; r < RESOURCES; r++)
            count += has_derived(&model->streams[client].subs[t], r);
    return count;
}

static void serve(struct model *model, int client, int target, int resource,
                  uint64_t number, bool room) {
    struct subscription *sub = sub_of(model, client, target);
    struct flight *flight = &sub->flights[resource];

    if (takes_part(sub, resource)) {
        flight->used = false;
        sub->taken[resource] = !cast_is_template(target) ||
                               (room && limit_of(model, sub->wishes, resource) > 0);
        sub->taken_ms[resource] = model->now_ms;
    } else if (sub->used && flight->used) {
        hit(model, flight->newest <= number ? HIT_SIBLING_SERVED : HIT_SIBLING_NEWER);
        if (flight->newest <= number)
            flight->used = false;
    }
}

void model_set_right(struct model *model, int client, int resource, bool may_read) {
    model->may_read[client][resource] = may_read;
}

/* Whether something of a resource may come first, with the priority and time it has. */
static bool may_come_first(struct model *model, int client, int resource) {
    return choose(model, client, resource) == resource;
}

bool model_refused(struct model *model, int client, int resource) {
    bool anything = false;
    int t;

    if (model->may_read[client][resource] || !may_come_first(model, client, resource))
        return false;
    for (t = RESOURCES; t < TARGETS; t++) {
        struct subscription *sub = sub_of(model, client, t);

        anything |= may_be_taken(sub, resource);
        sub->flights[resource].used = false;
        sub->taken[resource] = false;
    }
    hit(model, HIT_RIGHT_GONE);
    tidy(model);
    return anything;
}

int model_take(struct model *model, int client, int hint, struct model_note *ret) {
    bool room = remembered_through_templates(model, client) <= model->opts.max_pending;
    struct model_note note = {0};
    int t;

    if (!model->streams[client].open)
        return TDG_ENOTFOUND;
    if (model->streams[client].ended)
        return take_end(model, client, ret);

    note.resource = choose(model, client, hint);
    if (note.resource == -1)
        return 0;

    note.kind = cast_is_list(note.resource) ? TDG__NOTE_LIST : TDG__NOTE_UPDATED;
    look_around(model, client, note.resource, &note);
    for (t = 0; t < TARGETS; t++)
        serve(model, client, t, note.resource, note.number, room);
    note.cursor = cursor_of(model, client);
    model->counters.delivered++;
    model->counters.merged += note.merged;
    tidy(model);
    *ret = note;
    return 1;
}

/* ---- Settings while running
 * ------------------------------------------------------------ */

static void count_remeasured(struct model *model) {
    if (model_next_deadline(model) != INT64_MAX)
        hit(model, HIT_REMEASURED);
}

static void set_config(struct model *model, int target, int timing, int rate) {
    bool fresh = model->configs[target].timing == 0 && model->configs[target].rate == 0;

    model->configs[target].timing = timing;
    model->configs[target].rate = rate;
    if (fresh)
        model->configs[target].order = ++model->next_order;
    count_remeasured(model);
}

void model_configure(struct model *model, int target, int timing, int rate) {
    set_config(model, target, timing, rate);
}

void model_set_rate(struct model *model, int target, int rate) {
    set_config(model, target, model->configs[target].timing, rate);
}

void model_set_defaults(struct model *model, int timing, int rate) {
    model->defaults.timing = timing;
    model->defaults.rate = rate;
    count_remeasured(model);
}

/* ---- Introspection
 * --------------------------------------------------------------------- */

tdg__sub_state_t model_state(const struct model *model, int client, int target) {
    const struct subscription *sub = &model->streams[client].subs[target];

    return sub->used ? sub->state : TDG__NOT_SUBSCRIBED;
}

bool model_pending(const struct model *model, int client, int target) {
    int r;

    for (r = 0; r < RESOURCES; r++)
        if (model->streams[client].subs[target].flights[r].used)
            return true;
    return false;
}

static void count_subscriptions(const struct model *model, tdg__counters_t *ret) {
    int c;
    int t;
    int r;

    for (t = 0; t < TARGETS; t++) {
        ret->watchers += model->watchers[t].used;
        ret->templates += cast_is_template(t) && users_of(model, t) > 0;
        for (c = 0; c < CLIENTS; c++) {
            const struct subscription *sub = &model->streams[c].subs[t];

            ret->subscriptions += sub->used;
            for (r = 0; sub->used && r < RESOURCES; r++)
                ret->pending += sub->flights[r].used;
        }
    }
}

void model_counters(const struct model *model, tdg__counters_t *ret) {
    *ret = model->counters;
    ret->streams = open_streams(model);
    ret->last_number = model->last_number;
    ret->epoch = model->epoch;
    count_subscriptions(model, ret);
}

/* ---- Beginning
 * -------------------------------------------------------------------------- */

static void fill_in(uint32_t *value, uint32_t otherwise) {
    if (*value == 0)
        *value = otherwise;
}

void model_init(struct model *model, const struct cast_world *world, uint64_t epoch,
                uint64_t *hits) {
    int c;
    int r;

    memset(model, 0, sizeof(*model));
    model->world = world;
    for (c = 0; c < CLIENTS; c++)
        for (r = 0; r < RESOURCES; r++)
            model->may_read[c][r] = !world->may_read || cast_may_read(c, r);
    model->opts = world->opts;
    model->hits = hits;
    model->epoch = epoch;
    model->last_number = world->opts.first_number == 0 ? 0 : world->opts.first_number - 1;
    model->dropped = model->last_number;
    model->numbering = model->last_number;
    model->defaults.timing = world->timing;
    model->defaults.rate = world->rate;
    fill_in(&model->opts.linger_ms, 5000);
    fill_in(&model->opts.watch_timeout_ms, 10000);
    fill_in(&model->opts.max_streams, 1000000);
    fill_in(&model->opts.max_subscriptions, 10000);
    fill_in(&model->opts.max_templates, 100);
    fill_in(&model->opts.max_total, 10000000);
    fill_in(&model->opts.max_pending, 10000);
    fill_in(&model->opts.max_listed, 1000);
}
