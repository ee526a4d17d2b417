/* SPDX-License-Identifier: MIT
 *
 * The model's catch-up: what a subscription missed, and what a stream that goes back is
 * told again. */
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
bool model__assume(struct model *model, int client, int target, int resource,
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
/* A number above the last one was never given out: as good as another epoch. */
bool model__is_foreign(const struct model *model, tdg__cursor_t cursor) {
    return cursor.epoch != model->epoch ||
           (cursor.number > model->last_number && !model->world->opts.shared_numbers);
}

static uint64_t known_from(const struct model *model, int target) {
    if (!model->world->watch)
        return 0;
    return model->watchers[target].armed ? model->known[target].known_from : UINT64_MAX;
}

/* No change was seen since the cursor; that may be for want of looking. */
static bool may_have_missed(struct model *model, int resource, uint64_t c) {
    uint64_t last = model->known[resource].last;

    if (c < known_from(model, resource)) {
        model__hit(model, HIT_BELOW_KNOWN);
        return true;
    }
    if (last == 0)
        model__hit(model, c < model->floor ? HIT_BELOW_FLOOR : HIT_ABOVE_FLOOR);
    return last == 0 && c < model->floor;
}

/* Returns whether it is known what has happened since the cursor. */
static bool catch_up_resource(struct model *model, int client, int target) {
    struct subscription *sub = model__sub_of(model, client, target);
    uint64_t c = sub->cursor.number;

    if (sub->cursor.epoch != model->epoch) {
        model__hit(model, HIT_FOREIGN);
        sub->told = true;
        model__assume(model, client, target, target, 0, 0);
        return false;
    }
    if (model->known[target].last > c) {
        sub->told = true;
        model__assume(model, client, target, target, c + 1, c);
        return true;
    }
    if (may_have_missed(model, target, c)) {
        sub->told = true;
        model__assume(model, client, target, target, c + 1, c);
        return false;
    }
    model__hit(model, HIT_NOTHING_MISSED);
    return true;
}

/* A URI that a template subscription comes across: in flight on it, unless the client may
 * not read it. Its window, where one is remembered, is looked at. Returns false where
 * that would pass max_pending. */
static bool come_across(struct model *model, int client, int target, int resource,
                        uint64_t first, uint64_t above) {
    struct wishes wishes = model__sub_of(model, client, target)->wishes;

    for (int i = 0; i < model->windows_end; i++) {
        struct window *window = &model->windows[i];

        if (window->used && window->target == target && window->resource == resource &&
            model__same_wishes(window->wishes, wishes))
            window->look = true;
    }
    return model__is_refused(model, client, target, resource) ||
           model__assume(model, client, target, resource, first, above);
}

/* The newest entries of the history come first, then the listed ones. */
static bool catch_up_history(struct model *model, int client, int target, uint64_t first,
                             uint64_t c) {
    struct subscription *sub = model__sub_of(model, client, target);
    bool seen[RESOURCES] = {0};
    bool all = true;
    uint32_t i;

    for (i = model->history_count; i-- > 0;) {
        int r = model->history[i].resource;

        if (seen[r] || model->history[i].number <= c || !cast_covers(target, r))
            continue;
        seen[r] = true;
        sub->oldest = model->history[i].number;
        all = come_across(model, client, target, r, first, c) && all;
    }
    return all;
}

bool model__catch_up_listed(struct model *model, int client, int target, uint64_t first,
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
        model__hit(model, HIT_TEMPLATE_LISTED);
        all = come_across(model, client, target, r, first, c) && all;
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
    sub->told |= !complete;
    if (!complete)
        all = model__catch_up_listed(model, client, target, first, c) && all;
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
            model->known[target].last_ms >= sub->since_ms) {
            sub->told = true;
            model__assume(model, client, target, target, model->known[target].last, 0);
        }
        return;
    }
    for (i = model->history_count; i-- > 0;) {
        int r = model->history[i].resource;

        if (model->history[i].ms < sub->since_ms || !cast_covers(target, r) ||
            model->history[i].number != model->known[r].last)
            continue;
        sub->oldest = model->history[i].number;
        come_across(model, client, target, r, model->known[r].last, 0);
    }
}

/* Compares with what the subscription came with. Returns `resumed`. */
static bool compare(struct model *model, int client, int target) {
    struct subscription *sub = model__sub_of(model, client, target);
    bool resumed = true;

    sub->oldest = 0;
    if (sub->has_cursor) {
        model__hit(model, HIT_RESUMED);
        if (cast_is_template(target))
            resumed = catch_up_template(model, client, target);
        else
            resumed = catch_up_resource(model, client, target);
    } else if (sub->has_since) {
        catch_up_since(model, client, target);
    }
    sub->foreign |= sub->has_cursor && sub->cursor.epoch != model->epoch;
    sub->has_cursor = false;
    sub->has_since = false;
    if (sub->oldest != 0 && sub->oldest <= sub->base)
        sub->base = sub->oldest - 1;
    if (sub->oldest != 0 || sub->told)
        sub->began = model->last_number;
    if (cast_is_template(target) && model->world->watch && !model->watchers[target].armed)
        resumed = false; /* nobody can name what it misses until then */
    return resumed;
}

bool model__catch_up(struct model *model, int client, int target) {
    struct subscription *sub = model__sub_of(model, client, target);

    sub->base = sub->began;
    return compare(model, client, target);
}

/* What it was told of before does not count as told now. */
bool model__catch_up_again(struct model *model, int client, int target) {
    struct subscription *sub = model__sub_of(model, client, target);
    bool told_before = sub->told;
    bool resumed;

    sub->told = false;
    resumed = compare(model, client, target);
    if (sub->told || sub->oldest != 0)
        model__hit(model, HIT_AGAIN_TOLD);
    sub->told |= told_before;
    return resumed;
}

/* ---- Going back --------------------------------------------------------- */

/* Told after `c` of something that no number shows. */
static bool was_told(const struct model *model, const struct subscription *sub,
                     int target, uint64_t c) {
    const struct watcher *watcher = &model->watchers[target];

    return sub->told && (c <= sub->began || (watcher->used && watcher->armed &&
                                             c < model->known[target].known_from));
}

static uint64_t first_untold(const struct subscription *sub, bool told, uint64_t c,
                             uint64_t after) {
    if (told && c <= sub->began)
        return sub->foreign ? 0 : 1;
    return (told ? c : after) + 1;
}

static void rewind_resource(struct model *model, int client, int target, bool foreign,
                            uint64_t c) {
    struct subscription *sub = model__sub_of(model, client, target);
    bool told = was_told(model, sub, target, c);
    uint64_t after = c > sub->began ? c : sub->began;

    if (foreign)
        model__assume(model, client, target, target, 0, 0);
    else if (told)
        model__assume(model, client, target, target, first_untold(sub, told, c, after),
                      0);
    else if (model->known[target].last > after)
        model__assume(model, client, target, target, after + 1, after);
    else if (c < known_from(model, target) && sub->state != TDG__SUBSCRIBING)
        model__hit(model, HIT_REWOUND_BELOW_KNOWN);
}

/* Returns whether it is complete. */
static bool rewind_template(struct model *model, int client, int target, bool foreign,
                            uint64_t c) {
    struct subscription *sub = model__sub_of(model, client, target);
    bool told = was_told(model, sub, target, c);
    bool waits = sub->state == TDG__SUBSCRIBING;
    uint64_t after = c > sub->began ? c : waits ? sub->began : sub->base;
    uint64_t first = first_untold(sub, told, c, after);
    bool complete = after >= model->dropped;
    bool all;

    if (sub->state != TDG__SUBSCRIBED && !sub->served)
        return true; /* it has not been told of anything */
    if (foreign)
        after = first = 0;
    all = catch_up_history(model, client, target, first, after);
    if (foreign || told || !complete)
        all = model__catch_up_listed(model, client, target, first, after) && all;
    if (!complete)
        model__hit(model, HIT_REWOUND_INCOMPLETE);
    else if (!foreign && !told && c < known_from(model, target) && !waits)
        model__hit(model, HIT_REWOUND_BELOW_KNOWN);
    return complete && all;
}

static void count_rewind(struct model *model, const struct subscription *sub, int target,
                         bool foreign, uint64_t c) {
    model__hit(model, foreign ? HIT_REWOUND_FOREIGN : HIT_REWOUND);
    if (sub->state == TDG__SUBSCRIBING)
        model__hit(model, HIT_REWOUND_ARMING);
    if (sub->state == TDG__ARMED)
        model__hit(model, HIT_REWOUND_UNACKNOWLEDGED);
    if (sub->late)
        model__hit(model, HIT_REWOUND_LATE);
    if (was_told(model, sub, target, c))
        model__hit(model, HIT_REWOUND_TOLD);
}

static void count_mixed(struct model *model, int client) {
    const struct subscription *subs = model->streams[client].subs;

    for (int r = 0; r < RESOURCES; r++)
        for (int t = RESOURCES; t < TARGETS; t++)
            if (subs[r].used && subs[r].flights[r].used && subs[t].used &&
                subs[t].flights[r].used)
                model__hit(model, HIT_REWOUND_MIXED);
}

/* The next subscription of a stream in the order they were made, or -1. */
static int next_made(const struct model *model, int client, uint64_t after) {
    int next = -1;
    int t;

    for (t = 0; t < TARGETS; t++) {
        const struct subscription *subs = model->streams[client].subs;

        if (subs[t].used && subs[t].uid > after &&
            (next == -1 || subs[t].uid < subs[next].uid))
            next = t;
    }
    return next;
}

int model_rewind(struct model *model, int client, tdg__cursor_t cursor,
                 bool *ret_complete) {
    struct stream_model *stream = &model->streams[client];
    bool foreign = model__is_foreign(model, cursor);
    uint64_t c = cursor.number < model->last_number ? cursor.number : model->last_number;
    uint64_t uid = 0;
    int t;

    if (foreign)
        c = 0;
    if (!stream->open)
        return TDG_ENOTFOUND;
    if (stream->ended)
        return TDG_EENDED;

    *ret_complete = true;
    while ((t = next_made(model, client, uid)) != -1) {
        uid = stream->subs[t].uid;
        count_rewind(model, &stream->subs[t], t, foreign, c);
        if (!cast_is_template(t))
            rewind_resource(model, client, t, foreign, c);
        else if (!rewind_template(model, client, t, foreign, c))
            *ret_complete = false;
    }
    count_mixed(model, client);
    model__tidy(model);
    return 0;
}
