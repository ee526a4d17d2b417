/* SPDX-License-Identifier: MIT
 *
 * The model's watchers, catch-up, and what happens by itself when its time has come. */
#include "model_internal.h"

#include <tidings/error.h>

/* ---- Catch-up ----------------------------------------------------------- */

/* URIs in flight on a stream through templates, each template subscription by itself. */
uint32_t model__pending_through_templates(const struct model *model, int client) {
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
    struct subscription *sub = model__sub_of(model, client, target);
    struct flight *flight = &sub->flights[resource];
    const struct knowledge *known = &model->known[resource];
    uint64_t oldest = model__oldest_first(model, client);

    if (!flight->used) {
        if (cast_is_template(target) &&
            model__pending_through_templates(model, client) >= model->opts.max_pending)
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
        model__hit(model, HIT_MET_IN_FLIGHT);
    }

    if (first < flight->first)
        flight->first = first;
    if (oldest < flight->first)
        flight->first = oldest;
    if (flight->wait != ITS_TURN)
        model__make_ready(model, sub, resource);
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
        model__hit(model, HIT_BELOW_KNOWN);
        return true;
    }
    if (last == 0)
        model__hit(model, c < model->floor ? HIT_BELOW_FLOOR : HIT_ABOVE_FLOOR);
    return last == 0 && c < model->floor;
}

static void catch_up_resource(struct model *model, int client, int target) {
    struct subscription *sub = model__sub_of(model, client, target);

    if (sub->cursor.epoch != model->epoch) {
        model__hit(model, HIT_FOREIGN);
        assume(model, client, target, target, 0, 0);
    } else if (missed(model, target, sub->cursor.number)) {
        assume(model, client, target, target, sub->cursor.number + 1, sub->cursor.number);
    } else {
        model__hit(model, HIT_NOTHING_MISSED);
    }
}

/* The newest entries of the history come first, then the listed ones. */
static bool catch_up_history(struct model *model, int client, int target, uint64_t first,
                             uint64_t c) {
    bool seen[RESOURCES] = {0};
    bool all = true;
    uint32_t i;

    for (i = model->history_count; i-- > 0;) {
        int r = model->history[i].resource;

        if (seen[r] || model->history[i].number <= c || !cast_covers(target, r) ||
            model__is_refused(model, client, target, r))
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
        if (model__is_refused(model, client, target, r))
            continue;
        model__hit(model, HIT_TEMPLATE_LISTED);
        all = assume(model, client, target, r, first, c) && all;
    }
    return all;
}

static bool catch_up_template(struct model *model, int client, int target) {
    struct subscription *sub = model__sub_of(model, client, target);
    bool foreign = sub->cursor.epoch != model->epoch;
    uint64_t c = foreign ? 0 : sub->cursor.number;
    uint64_t first = foreign ? 0 : c + 1;
    bool all = catch_up_history(model, client, target, first, c);
    bool complete = !foreign && c >= model->dropped && c >= known_from(model, target);

    if (foreign)
        model__hit(model, HIT_FOREIGN);
    model__hit(model, complete ? HIT_TEMPLATE_CATCH_UP : HIT_TEMPLATE_INCOMPLETE);
    if (!complete)
        all = catch_up_listed(model, client, target, first, c) && all;
    if (!all)
        model__hit(model, HIT_TEMPLATE_OVERFULL);
    return complete && all;
}

/* Of a URI the last change counts also where it has left the history. */
static void catch_up_since(struct model *model, int client, int target) {
    struct subscription *sub = model__sub_of(model, client, target);
    uint32_t i;

    model__hit(model, HIT_SINCE);
    if (!cast_is_template(target)) {
        if (model->known[target].last != 0 &&
            model->known[target].last_ms >= sub->since_ms)
            assume(model, client, target, target, model->known[target].last, 0);
        return;
    }
    for (i = model->history_count; i-- > 0;) {
        int r = model->history[i].resource;

        if (model->history[i].ms < sub->since_ms || !cast_covers(target, r) ||
            model__is_refused(model, client, target, r) ||
            model->history[i].number != model->known[r].last)
            continue;
        assume(model, client, target, r, model->known[r].last, 0);
    }
}

/* Returns `resumed`. */
bool model__catch_up(struct model *model, int client, int target) {
    struct subscription *sub = model__sub_of(model, client, target);
    bool resumed = true;

    if (sub->has_cursor) {
        model__hit(model, HIT_RESUMED);
        if (cast_is_template(target))
            resumed = catch_up_template(model, client, target);
        else
            catch_up_resource(model, client, target);
    } else if (sub->has_since) {
        catch_up_since(model, client, target);
    }
    sub->has_cursor = false;
    sub->has_since = false;
    if (cast_is_template(target) && model->world->watch && !model->watchers[target].armed)
        resumed = false; /* nobody can name what it misses until then */
    return resumed;
}

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
