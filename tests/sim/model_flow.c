/* SPDX-License-Identifier: MIT
 *
 * The model's way of a change: filter, window, limit, ready, taken; and what is forgotten
 * on the way. */
#include "model_internal.h"

#include <string.h>

#include <tidings/error.h>

/* ---- Windows ------------------------------------------------------------ */

struct window *model__find_window(struct model *model, int target, int resource,
                                  struct wishes wishes) {
    int i;

    for (i = 0; i < model->windows_end; i++) {
        struct window *window = &model->windows[i];

        if (window->used && window->target == target && window->resource == resource &&
            model__same_wishes(window->wishes, wishes))
            return window;
    }
    return NULL;
}

static struct window *get_window(struct model *model, int target, int resource,
                                 struct wishes wishes) {
    struct window *window = model__find_window(model, target, resource, wishes);
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

int64_t model__window_deadline(const struct model *model, const struct window *window) {
    tdg__timing_t timing = model__timing_of(model, window->wishes, window->resource);
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

bool model__limit_runs(const struct model *model, const struct subscription *sub,
                       int resource) {
    int64_t limit = model__limit_of(model, sub->wishes, resource);

    return limit > 0 && sub->taken[resource] &&
           model->now_ms - sub->taken_ms[resource] < limit;
}

void model__make_ready(struct model *model, struct subscription *sub, int resource) {
    sub->flights[resource].wait = ITS_TURN;
    sub->flights[resource].ready_ms = model->now_ms;
    if (sub->state != TDG__SUBSCRIBED)
        model__hit(model, HIT_KEPT);
}

void model__go_on_to_limit(struct model *model, struct subscription *sub, int resource) {
    if (model__limit_runs(model, sub, resource)) {
        sub->flights[resource].wait = LIMIT;
        model->counters.rate_limited++;
        model__hit(model, HIT_LIMITED);
    } else {
        model__make_ready(model, sub, resource);
    }
}

void model__fire(struct model *model, struct window *window, bool deletion) {
    int c;

    window->runs = false;
    window->look = true;
    window->fired = true;
    window->fired_ms = model->now_ms;

    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = model__sub_of(model, c, window->target);
        struct flight *flight = &sub->flights[window->resource];

        if (!sub->used || !model__same_wishes(sub->wishes, window->wishes) ||
            !flight->used)
            continue;
        if (deletion && flight->wait != ITS_TURN) {
            if (model__limit_runs(model, sub, window->resource))
                model__hit(model, HIT_LIMIT_SKIPPED);
            model__make_ready(model, sub, window->resource);
        } else if (flight->wait == WINDOW) {
            model__go_on_to_limit(model, sub, window->resource);
        }
    }
}

void model_held_up(struct model *model, int64_t ms) {
    if (model->now_ms + ms > model->taking_ms)
        model->taking_ms = model->now_ms + ms;
}

void model_end_windows(struct model *model) {
    for (int i = 0; i < model->windows_end; i++) {
        if (model->windows[i].used && model->windows[i].runs)
            model__fire(model, &model->windows[i], true);
        model->windows[i].look = true; /* as all are gone through */
    }
    for (int c = 0; c < CLIENTS; c++)
        for (int t = 0; t < TARGETS; t++)
            for (int r = 0; r < RESOURCES; r++) {
                struct subscription *sub = model__sub_of(model, c, t);

                if (sub->used && sub->flights[r].used &&
                    sub->flights[r].wait != ITS_TURN) {
                    model__hit(model, HIT_ENDED_EARLY);
                    model__make_ready(model, sub, r);
                }
            }
    model__tidy(model);
}

void model__count_firing(struct model *model, const struct window *window) {
    tdg__timing_t timing = model__timing_of(model, window->wishes, window->resource);

    switch (timing.mode) {
    case TDG__TIMING_BATCH:
        model__hit(model, HIT_BATCHED);
        break;
    case TDG__TIMING_DEBOUNCE:
        model__hit(model, HIT_DEBOUNCED);
        if (window->first_ms + timing.longest_ms < window->last_ms + timing.window_ms)
            model__hit(model, HIT_DEBOUNCED_LONGEST);
        break;
    case TDG__TIMING_THROTTLE:
        model__hit(model, HIT_THROTTLED);
        break;
    default:
        break;
    }
}

/* ---- Forgetting --------------------------------------------------------- */

int model__users_of(const struct model *model, int target) {
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
            if (model__has_derived(&model->streams[c].subs[i], resource))
                return true;
    return false;
}

/* A resource on which a template subscription has something in flight, or a window or
 * limit that runs, is not forgotten either. */
static void forget_resources(struct model *model) {
    int r;

    for (r = 0; r < RESOURCES; r++) {
        struct knowledge *known = &model->known[r];

        if ((known->last == 0 && !known->known) || model__users_of(model, r) > 0 ||
            model->watchers[r].used || in_history(model, r) || template_needs(model, r))
            continue;
        if (known->last > model->floor)
            model->floor = known->last;
        if (known->last != 0)
            model__hit(model, HIT_FORGOTTEN);
        *known = (struct knowledge){0};
    }
}

/* A template is forgotten with its last subscription and watcher. */
static void forget_templates(struct model *model) {
    int t;

    for (t = RESOURCES; t < TARGETS; t++)
        if (model__users_of(model, t) == 0 && !model->watchers[t].used)
            model->known[t] = (struct knowledge){0};
}

static bool cools_down(const struct model *model, const struct window *window) {
    tdg__timing_t timing = model__timing_of(model, window->wishes, window->resource);

    return timing.mode == TDG__TIMING_THROTTLE && window->fired &&
           window->fired_ms + timing.window_ms > model->now_ms;
}

/* What a template subscription remembers about a URI (when it was last taken)
 * goes when its limit is over. The window of its group on that URI goes when it does not
 * run, no throttle holds and nobody remembers anything: that is looked at when it fires,
 * when the last one forgets, when the throttle lets go, when a member catches up with the
 * URI and when all windows end. What a subscription to the URI itself remembers, and its
 * group, stays with it. */
static bool is_manned(struct model *model, struct window *window, bool *ret_wanted) {
    bool manned = false;
    bool in_flight = false;
    int c;

    *ret_wanted = false;
    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = model__sub_of(model, c, window->target);

        if (!sub->used || !model__same_wishes(sub->wishes, window->wishes))
            continue;
        *ret_wanted = true;
        in_flight |= sub->flights[window->resource].used;
        manned |= !cast_is_template(window->target) ||
                  model__has_derived(sub, window->resource);
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

void model__tidy(struct model *model) {
    forget_windows(model);
    forget_resources(model);
    forget_templates(model);
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
    struct flight *flight =
        &model__sub_of(model, client, target)->flights[news->resource];

    if (!flight->used) {
        if (cast_is_template(target) &&
            model__pending_through_templates(model, client) >= model->opts.max_pending)
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

    /* A window may be due because its settings changed, without an advance since. */
    if (deleted || model__window_deadline(model, window) <= model->now_ms)
        model__fire(model, window, deleted);
}

/* Those of a target with the same wishes as this subscription; each such group is looked
 * at once, with its first member. */
static void tell_group(struct model *model, int client, int target,
                       const struct cast_news *news, uint64_t number, bool *full) {
    struct wishes wishes = model__sub_of(model, client, target)->wishes;
    int c;

    for (c = 0; c < CLIENTS; c++) {
        struct subscription *sub = model__sub_of(model, c, target);

        if (!sub->used || !model__same_wishes(sub->wishes, wishes))
            continue;
        if (c < client)
            return;
        if (!cast_passes(wishes.filter, news)) {
            model->counters.filtered++;
            model__hit(model, HIT_FILTERED);
        } else if (model__is_refused(model, c, target, news->resource)) {
            model__hit(model, HIT_FORBIDDEN);
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
        before[c] = model__cursor_of(model, c);

    model->last_number = number;
    model->reached = false;
    model->known[news->resource].last = number;
    model->known[news->resource].last_ms = model->now_ms;
    model->known[news->resource].deleted = news->deleted;
    model->counters.changes++;
    note_in_history(model, news->resource, number);

    for (t = 0; t < TARGETS; t++)
        for (c = 0; c < CLIENTS; c++)
            if (cast_covers(t, news->resource) && model__sub_of(model, c, t)->used)
                tell_group(model, c, t, news, number, full);

    for (c = 0; c < CLIENTS; c++)
        if (full[c]) {
            model__hit(model, HIT_PENDING_END);
            model->counters.ended++;
            model__end_stream(model, c, TDG_EPENDING, before[c]);
        }
    model__tidy(model);
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
            const struct subscription *sub = model__sub_of(model, client, t);
            int64_t ms = sub->flights[r].ready_ms;

            if (!may_be_taken(sub, r))
                continue;
            if (best != NULL && best->priority != sub->priority)
                model__hit(model, HIT_PRIORITY);
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
        const struct subscription *sub = model__sub_of(model, client, t);
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
        model__hit(model, HIT_SIBLINGS);
    if (note->merged > 0)
        model__hit(model, HIT_MERGED);
}

static uint32_t remembered_through_templates(const struct model *model, int client) {
    uint32_t count = 0;
    int t;
    int r;

    for (t = RESOURCES; t < TARGETS; t++)
        for (r = 0; r < RESOURCES; r++)
            count += model__has_derived(&model->streams[client].subs[t], r);
    return count;
}

static void serve(struct model *model, int client, int target, int resource,
                  uint64_t number, bool room) {
    struct subscription *sub = model__sub_of(model, client, target);
    struct flight *flight = &sub->flights[resource];

    if (takes_part(sub, resource)) {
        flight->used = false;
        sub->taken[resource] =
            !cast_is_template(target) ||
            (room && model__limit_of(model, sub->wishes, resource) > 0);
        sub->taken_ms[resource] = model->now_ms;
        if (model->taking_ms > model->now_ms) {
            sub->taken_ms[resource] = model->taking_ms;
            model__hit(model, HIT_HELD_UP);
        }
    } else if (sub->used && flight->used) {
        model__hit(model,
                   flight->newest <= number ? HIT_SIBLING_SERVED : HIT_SIBLING_NEWER);
        if (flight->newest <= number) {
            flight->used = false;
            sub->served = true;
        }
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
        struct subscription *sub = model__sub_of(model, client, t);

        anything |= may_be_taken(sub, resource);
        sub->flights[resource].used = false;
        sub->taken[resource] = false;
    }
    model__hit(model, HIT_RIGHT_GONE);
    model__tidy(model);
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
    note.cursor = model__cursor_of(model, client);
    model->counters.delivered++;
    model->counters.merged += note.merged;
    model__tidy(model);
    *ret = note;
    return 1;
}
