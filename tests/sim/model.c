/* SPDX-License-Identifier: MIT
 *
 * Every rule of docs/engine.md is one function here, named after it. Where that page is
 * silent, a comment that starts with "Decided:" says what the model does. */
#include "model_internal.h"

#include <string.h>

#include <tidings/error.h>

void model__hit(struct model *model, enum situation situation) {
    model->hits[situation]++;
}

bool model__same_wishes(struct wishes a, struct wishes b) {
    return a.timing == b.timing && a.rate == b.rate && a.filter == b.filter;
}

struct subscription *model__sub_of(struct model *model, int client, int target) {
    return &model->streams[client].subs[target];
}

/* Whether a template subscription has something in flight on a resource, or remembers its
 * limit. */
bool model__has_derived(const struct subscription *sub, int resource) {
    return sub->used && (sub->flights[resource].used || sub->taken[resource]);
}

/* Rights are asked of those of whom nothing is in flight or remembered. */
bool model__is_refused(const struct model *model, int client, int target, int resource) {
    return cast_is_template(target) && !model->may_read[client][resource] &&
           !model__has_derived(&model->streams[client].subs[target], resource);
}

/* ---- Settings ----------------------------------------------------------- */

/* The configured template with the most literal bytes that matches, then the oldest. */
static int template_configured(const struct model *model, int resource) {
    int best = -1;
    int t;

    for (t = RESOURCES; t < TARGETS; t++) {
        if (!cast_covers(t, resource) ||
            (model->configs[t].timing == 0 && model->configs[t].rate == 0 &&
             model->configs[t].floor == 0))
            continue;
        if (best == -1 || cast_literals(t) > cast_literals(best) ||
            (cast_literals(t) == cast_literals(best) &&
             model->configs[t].order < model->configs[best].order))
            best = t;
    }
    return best;
}

/* 0: none. */
static int64_t floor_of(const struct model *model, int resource, int32_t (*part)(int)) {
    int template_ = template_configured(model, resource);
    int32_t floor = part(model->configs[resource].floor);

    if (floor == TDG__FLOOR_INHERIT && template_ != -1)
        floor = part(model->configs[template_].floor);
    if (floor == TDG__FLOOR_INHERIT)
        floor = part(model->default_floor);
    return floor > 0 ? floor : 0;
}

static tdg__timing_t chosen_timing(const struct model *model, struct wishes wishes,
                                   int resource) {
    int template_ = template_configured(model, resource);
    int timing = wishes.timing;

    if (timing == 0)
        timing = model->configs[resource].timing;
    if (timing == 0 && template_ != -1)
        timing = model->configs[template_].timing;
    if (timing == 0)
        timing = model->defaults.timing;
    if (timing == 0)
        return (tdg__timing_t){TDG__TIMING_BATCH, 100, 0};

    return cast_timings[timing];
}

tdg__timing_t model__timing_of(const struct model *model, struct wishes wishes,
                               int resource) {
    tdg__timing_t ret = chosen_timing(model, wishes, resource);
    uint32_t floor = (uint32_t)floor_of(model, resource, cast_min_window);
    bool immediate = ret.mode == TDG__TIMING_IMMEDIATE;

    if (floor > 0 && (immediate || ret.window_ms < floor)) {
        model->hits[HIT_RAISED_WINDOW]++;
        ret.window_ms = floor;
        ret.mode = immediate ? TDG__TIMING_BATCH : ret.mode;
    }
    if (ret.longest_ms == 0)
        ret.longest_ms = 10 * ret.window_ms;
    if (ret.longest_ms < ret.window_ms)
        ret.longest_ms = ret.window_ms;
    return ret;
}

/* 0: none. */
static int64_t chosen_limit(const struct model *model, struct wishes wishes,
                            int resource) {
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

int64_t model__limit_of(const struct model *model, struct wishes wishes, int resource) {
    int64_t limit = chosen_limit(model, wishes, resource);
    int64_t floor = floor_of(model, resource, cast_min_rate);

    model->hits[HIT_RAISED_LIMIT] += limit < floor;
    return limit < floor ? floor : limit;
}

/* ---- Cursor ------------------------------------------------------------- */

/* `first` of the oldest in flight on a stream; one more than the last number if none. */
uint64_t model__oldest_first(const struct model *model, int client) {
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

/* Whether some subscription of a stream waits for its watcher and has a cursor. */
static bool holds_cursor(const struct stream_model *stream) {
    for (int t = 0; t < TARGETS; t++)
        if (stream->subs[t].used && stream->subs[t].state == TDG__SUBSCRIBING &&
            stream->subs[t].has_cursor)
            return true;
    return false;
}

static void hold_cursor(struct model *model, struct stream_model *stream,
                        bool held_before, tdg__cursor_t cursor) {
    uint64_t first = cursor.epoch == model->epoch ? cursor.number + 1 : 0;

    if (!held_before || first < stream->held_first)
        stream->held_first = first;
}

tdg__cursor_t model__cursor_of(const struct model *model, int client) {
    const struct stream_model *stream = &model->streams[client];
    uint64_t first = model__oldest_first(model, client);

    if (stream->ended)
        return stream->end_cursor;
    if (holds_cursor(stream) && stream->held_first < first)
        first = stream->held_first;
    return cursor_before(model, first);
}

int model_cursor(const struct model *model, int client, tdg__cursor_t *ret) {
    if (!model->streams[client].open)
        return TDG_ENOTFOUND;
    *ret = model__cursor_of(model, client);
    return 0;
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
        model__hit(model, HIT_REFUSED_LIMIT);
        return TDG_ESTREAMS;
    }
    model->streams[client] = (struct stream_model){.open = true};
    return 0;
}

static void drop_subs(struct model *model, int client) {
    int t;

    memset(model->streams[client].subs, 0, sizeof(model->streams[client].subs));
    for (t = 0; t < TARGETS; t++)
        model__linger(model, t);
    model__tidy(model);
}

void model_close(struct model *model, int client) {
    drop_subs(model, client);
    model->streams[client] = (struct stream_model){0};
}

void model__end_stream(struct model *model, int client, int reason,
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
        model__end_stream(model, client, reason, model__cursor_of(model, client));
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
            model__hit(model, HIT_WATCH_REFUSED);
            return answer;
        }
        *watcher = (struct watcher){.used = true, .since_ms = model->now_ms};
        if (answer == 0)
            model__armed(model, target, false);
    } else if (watcher->lingers) {
        model__hit(model, HIT_LINGERED);
        watcher->lingers = false;
    }

    /* Nobody waited while it lingered, but the time-out may be over. */
    if (!watcher->armed &&
        watcher->since_ms + model->opts.watch_timeout_ms <= model->now_ms)
        watcher->late = true;
    if (!watcher->armed && watcher->late)
        model__hit(model, HIT_LATE_SUBSCRIBER);
    *ret = watcher->armed || watcher->late ? TDG__ARMED : TDG__SUBSCRIBING;
    return 0;
}

/* Who comes to a group with something in flight shares the newest change that the group
 * has in flight, though it passed only the new filter. */
static void share_newest(struct model *model, struct subscription *sub, int target,
                         int resource) {
    struct flight *flight = &sub->flights[resource];
    const struct window *window =
        model__find_window(model, target, resource, sub->wishes);

    if (window != NULL && window->newest > flight->newest) {
        flight->newest = window->newest;
        flight->deleted = window->newest_deleted;
        flight->assumed = false;
    }
}

static void rewish(struct model *model, int client, int target, struct wishes wishes) {
    struct subscription *sub = model__sub_of(model, client, target);
    int r;

    if (model__same_wishes(sub->wishes, wishes))
        return;

    model__hit(model, HIT_REWISHED);
    sub->wishes = wishes;
    for (r = 0; r < RESOURCES; r++) {
        struct flight *flight = &sub->flights[r];

        if (!flight->used)
            continue;
        model__hit(model, HIT_REWISHED_IN_FLIGHT);
        share_newest(model, sub, target, r);
        if (flight->wait == WINDOW)
            model__go_on_to_limit(model, sub, r);
        else if (flight->wait == LIMIT && !model__limit_runs(model, sub, r))
            model__make_ready(model, sub, r);
    }
}

/* What is ready stands at the end of those with its new priority. */
static void set_priority(struct model *model, struct subscription *sub, int priority) {
    int r;

    if (sub->priority == priority)
        return;
    sub->priority = priority;
    for (r = 0; r < RESOURCES; r++)
        if (sub->flights[r].used && sub->flights[r].wait == ITS_TURN)
            sub->flights[r].ready_ms = model->now_ms;
}

/* What a request for a subscription that waits brings is kept beside what it has: the
 * older cursor or the longer time; a cursor and a time together are a foreign cursor. */
static void keep_older(const struct model *model, struct subscription *sub,
                       const struct model_subscribe *request) {
    int64_t from_ms = model->now_ms - request->since_ms;

    if (request->has_cursor && sub->has_cursor) {
        sub->cursor = tdg__cursor_lower(sub->cursor, request->cursor);
    } else if (request->has_cursor ? sub->has_since : sub->has_cursor) {
        sub->cursor = (tdg__cursor_t){0, 0};
    } else if (request->has_cursor) {
        sub->cursor = request->cursor;
    } else {
        sub->since_ms =
            sub->has_since && sub->since_ms < from_ms ? sub->since_ms : from_ms;
    }
    sub->has_cursor |= request->has_cursor;
    sub->has_since = !sub->has_cursor;
}

/* A subscription that is there is compared with a cursor or a time as a new one is.
 * Returns `resumed`. */
static bool compare_again(struct model *model, const struct model_subscribe *request) {
    struct subscription *sub = model__sub_of(model, request->client, request->target);
    struct stream_model *stream = &model->streams[request->client];
    bool held_before = holds_cursor(stream);

    if (!request->has_cursor && request->since_ms == 0)
        return true;
    if (sub->state == TDG__SUBSCRIBING) {
        model__hit(model, HIT_AGAIN_ARMING);
        keep_older(model, sub, request);
        if (sub->has_cursor)
            hold_cursor(model, stream, held_before, sub->cursor);
        return true;
    }

    model__hit(model, HIT_AGAIN);
    sub->has_cursor = request->has_cursor;
    sub->cursor = request->cursor;
    sub->has_since = !request->has_cursor;
    sub->since_ms = model->now_ms - request->since_ms;
    return model__catch_up_again(model, request->client, request->target);
}

static void subscribe_again(struct model *model, const struct model_subscribe *request,
                            tdg__subscribed_t *ret) {
    struct subscription *sub = model__sub_of(model, request->client, request->target);

    *ret = (tdg__subscribed_t){sub->state, compare_again(model, request)};
    rewish(model, request->client, request->target, request->wishes);
    set_priority(model, sub, request->priority);
    model__tidy(model);
}

static int subscribe(struct model *model, const struct model_subscribe *request,
                     tdg__subscribed_t *ret) {
    struct subscription *sub = model__sub_of(model, request->client, request->target);
    struct stream_model *stream = &model->streams[request->client];
    bool held_before = holds_cursor(stream);
    uint64_t began = model->last_number;
    tdg__sub_state_t state;
    int rv;

    if (!stream->open)
        return TDG_ENOTFOUND;
    if (stream->ended)
        return TDG_EENDED;
    if (cast_is_list(request->target) && request->wishes.filter != 0)
        return TDG_EINVAL;

    if (sub->used) {
        subscribe_again(model, request, ret);
        return 0;
    }

    rv = check_limits(model, request->client, request->target);
    if (rv < 0) {
        model__hit(model, HIT_REFUSED_LIMIT);
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
        .began = began,
    };
    *ret = (tdg__subscribed_t){state, true};
    if (state == TDG__SUBSCRIBING && sub->has_cursor)
        hold_cursor(model, stream, held_before, sub->cursor);
    if (state == TDG__ARMED)
        ret->resumed = model__catch_up(model, request->client, request->target);
    model__tidy(model);
    return 0;
}

int model_subscribe(struct model *model, const struct model_subscribe *request,
                    tdg__subscribed_t *ret) {
    struct model_subscribe known = *request;

    /* As of now: its watcher may take a number, or be armed much later. */
    if (known.has_cursor && model__is_foreign(model, known.cursor))
        known.cursor = (tdg__cursor_t){0, 0};
    return subscribe(model, &known, ret);
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
            if (model__sub_of(model, client, t)->used &&
                model__sub_of(model, client, t)->state == TDG__ARMED)
                acknowledge(model, model__sub_of(model, client, t));
        return 0;
    }

    sub = model__sub_of(model, client, target);
    if (!sub->used)
        return TDG_ENOTFOUND;
    if (sub->state == TDG__SUBSCRIBING)
        return TDG_EAGAIN;
    if (sub->state == TDG__ARMED)
        acknowledge(model, sub);
    return 0;
}

int model_unsubscribe(struct model *model, int client, int target) {
    struct subscription *sub = model__sub_of(model, client, target);

    if (!model->streams[client].open || !sub->used)
        return TDG_ENOTFOUND;
    *sub = (struct subscription){0};
    model__linger(model, target);
    model__tidy(model);
    return 0;
}

/* ---- Settings while running --------------------------------------------- */

static void count_remeasured(struct model *model) {
    if (model_next_deadline(model) != INT64_MAX)
        model__hit(model, HIT_REMEASURED);
}

static void set_config(struct model *model, int target, int timing, int rate, int floor) {
    bool fresh = model->configs[target].timing == 0 && model->configs[target].rate == 0 &&
                 model->configs[target].floor == 0;

    model->configs[target].timing = timing;
    model->configs[target].rate = rate;
    model->configs[target].floor = floor;
    if (fresh)
        model->configs[target].order = ++model->next_order;
    count_remeasured(model);
}

void model_configure(struct model *model, int target, int timing, int rate, int floor) {
    set_config(model, target, timing, rate, floor);
}

void model_set_rate(struct model *model, int target, int rate) {
    set_config(model, target, model->configs[target].timing, rate,
               model->configs[target].floor);
}

void model_set_defaults(struct model *model, int timing, int rate, int floor) {
    model->default_floor = floor;
    model->defaults.timing = timing;
    model->defaults.rate = rate;
    count_remeasured(model);
}

/* ---- Introspection ------------------------------------------------------ */

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
        ret->templates += cast_is_template(t) && model__users_of(model, t) > 0;
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

/* ---- Beginning ---------------------------------------------------------- */

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
