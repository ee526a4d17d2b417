/* SPDX-License-Identifier: MIT
 *
 * Catch-up: what did a subscription miss since its cursor? Answered from numbers
 * alone: the last one of each resource, the one at which its watcher began, and how
 * far the history reaches back. If these are not sufficient, the answer is "it may
 * have changed". */
#include "core/internal.h"

#include <assert.h>

#include <tidings/error.h>

/* ---- Assumed changes ---------------------------------------------------- */

static bool is_absent(const tdg__engine_t *engine, const tdg__target_t *target) {
    return target->kind == TDG__TARGET_URI && engine->opts.calls.absent != NULL &&
           engine->opts.calls.absent(engine->opts.user, target);
}

/* A new change that stands for what happened meanwhile. It carries the last number there
 * is, not that of the resource's last change: a stream may have been notified of this one
 * with an assumed number already, and versions never go back. Its metadata says when the
 * last change was where that is known (`last` is not NULL), and no more. */
static int make_assumed(tdg__engine_t *engine, const tdg__target_t *target,
                        const struct resource *last, tdg__change_t **ret) {
    bool deleted = last != NULL ? last->last_deleted : is_absent(engine, target);
    int64_t wall_ms = last != NULL ? last->last_wall_ms : engine->wall_ms;
    int rv;

    rv = tdg__change_create(target, NULL, deleted, wall_ms, 0, ret);
    if (rv < 0)
        return rv;

    (*ret)->number =
        engine->last_number; /* 0 before the first change: that is no stamp */
    (*ret)->assumed = true;
    return 0;
}

/* Puts a resource in flight on a sub that may have missed something. A change that it has
 * in flight anyway says as much as an assumed one, and more. The last change counts as
 * known where it is newer than `after`. */
static int assume(tdg__engine_t *engine, uint32_t id, uint64_t after, uint64_t first) {
    struct sub *sub = sub_at(engine, id);
    const struct resource *resource =
        resource_at(engine, group_at(engine, sub->group)->owner);
    tdg__target_t target = tdg__subject_target(&resource->subject);
    tdg__change_t *change = NULL;
    int rv;

    if (sub->wait == IDLE) {
        rv = make_assumed(engine, &target,
                          resource->last_number > after ? resource : NULL, &change);
        if (rv < 0)
            return rv;
    }

    tdg__flight_prepend(engine, id, first);
    if (change != NULL)
        sub->held = change;
    if (sub->wait == WAIT_WINDOW || sub->wait == WAIT_LIMIT)
        tdg__group_due(engine, id, true);
    return 0;
}

/* ---- One resource ------------------------------------------------------- */

static uint64_t known_from(const tdg__engine_t *engine, const struct watch *watch) {
    if (engine->opts.calls.watch == NULL)
        return 0;
    return watch->state == WATCH_ARMED ? watch->known_from : UINT64_MAX;
}

/* The cursor that a subscription came with. Where numbers are shared it may be ahead of
 * this engine, which then will see, and notify, what is in between. */
static uint64_t cursor_of(const tdg__engine_t *engine, const struct comeback *from) {
    uint64_t cursor = (uint64_t)from->at;

    return cursor < engine->last_number ? cursor : engine->last_number;
}

/* *ret_known is false where it counts as changed because nobody can know better. */
static int catch_up_resource(tdg__engine_t *engine, uint32_t id,
                             const struct comeback *from, bool *ret_known) {
    struct sub *sub = sub_at(engine, id);
    const struct resource *resource =
        resource_at(engine, group_at(engine, sub->group)->owner);
    uint64_t cursor = cursor_of(engine, from);
    bool changed = resource->last_number > cursor;

    if ((from->flags & SUB_FOREIGN) != 0) {
        *ret_known = false;
        sub->flags |= SUB_ASSUMED;
        return assume(engine, id, 0, 0);
    }
    *ret_known = changed || (cursor >= known_from(engine, &resource->subject.watch) &&
                             (resource->last_number != 0 || cursor >= engine->floor));
    if (*ret_known && !changed)
        return 0;
    sub->flags |= SUB_ASSUMED;
    return assume(engine, id, cursor, cursor + 1);
}

static int since_resource(tdg__engine_t *engine, uint32_t id, int64_t from_ms) {
    const struct resource *resource =
        resource_at(engine, group_at(engine, sub_at(engine, id)->group)->owner);

    if (resource->last_number == 0 || resource->last_ms < from_ms)
        return 0;
    sub_at(engine, id)->flags |= SUB_ASSUMED;
    return assume(engine, id, 0, resource->last_number);
}

/* ---- A template --------------------------------------------------------- */

struct search {
    tdg__engine_t *engine;
    uint32_t sub;   /* to the template */
    uint64_t after; /* the cursor */
    uint64_t first;
    uint64_t oldest; /* that was found in the history; 0: nothing was */
    uint32_t left;   /* how many listed ones may still be reported */
    uint64_t work;   /* done so far, in steps of matching */
    bool complete;
    int rv;
};

/* Puts one URI in flight on the template's subscription, unless that would be too many or
 * it may not read it. */
static int report(struct search *search, struct resource *resource, uint32_t group) {
    tdg__engine_t *engine = search->engine;
    struct sub *sub;
    uint32_t id;
    int rv;

    rv = tdg__derived_get(engine, search->sub, resource->subject.id, group, &id);
    if (rv < 0 || id == 0)
        return rv;

    sub = sub_at(engine, id);
    if (sub->wait == IDLE &&
        stream_at(engine, sub->stream)->derived_in_flight >= engine->opts.max_pending) {
        search->complete = false;
        if (sub->queued == QUEUE_NONE)
            tdg__sub_remove(engine, id);
        return 0;
    }
    rv = assume(engine, id, search->after, search->first);
    if (rv < 0 && sub->queued == QUEUE_NONE)
        tdg__sub_remove(engine, id);
    return rv;
}

/* The same, in the derived group; false: memory is out. */
static bool found(struct search *search, struct resource *resource) {
    tdg__engine_t *engine = search->engine;
    uint32_t source_id = sub_at(engine, search->sub)->group;
    uint32_t group = tdg__group_get_derived(engine, resource->subject.id, source_id);

    search->rv = TDG_ENOMEM;
    if (group == 0)
        return false;

    /* The group may go with the sub, and must not take the resource along. */
    resource->subject.pins++;
    search->rv = report(search, resource, group);
    group = tdg__group_find_derived(engine, resource->subject.id, source_id);
    if (group != 0)
        tdg__group_release(engine, group);
    resource->subject.pins--;
    tdg__subject_release(engine, &resource->subject);
    return search->rv == 0;
}

static bool matches(const struct search *search, const struct resource *resource) {
    const struct group *group =
        group_at(search->engine, sub_at(search->engine, search->sub)->group);

    return resource->subject.kind == TDG__TARGET_URI &&
           tdg__template_match(template_at(search->engine, group->owner)->parsed,
                               resource->subject.name, resource->subject.len);
}

/* Matching a template costs its length times that of the URI, and any client may resume
 * from a cursor of long ago: beyond a bound, the rest counts as not in the history. */
static bool may_go_on(struct search *search, const struct resource *resource) {
    enum { MAX_WORK = 1 << 24, PER_URI = 32 };
    const struct group *group =
        group_at(search->engine, sub_at(search->engine, search->sub)->group);
    size_t len;

    tdg__template_text(template_at(search->engine, group->owner)->parsed, &len);
    search->work +=
        (uint64_t)(resource->subject.len + PER_URI) * (len + PER_URI) / PER_URI;
    return search->work <= MAX_WORK;
}

/* From the newest back, as far as `cursor`, or where that is not wanted `from_ms`. Only
 * the last entry of each resource counts. */
static void search_history(struct search *search, uint64_t cursor, int64_t from_ms) {
    tdg__engine_t *engine = search->engine;

    for (uint32_t i = engine->past_count; i-- > 0;) {
        const struct past *past =
            &engine->history[(engine->past_first + i) % engine->opts.history];
        struct resource *resource = resource_at(engine, past->resource);

        if (past->number <= cursor || past->ms < from_ms)
            return;
        if (from_ms != INT64_MIN)
            search->first = past->number;
        if (!may_go_on(search, resource)) {
            search->complete = false;
            return;
        }
        if (resource->last_number != past->number || !matches(search, resource))
            continue;
        search->oldest = past->number;
        if (!found(search, resource))
            return;
    }
}

static bool visit_listed(void *arg, const tdg__target_t *uri) {
    struct search *search = arg;
    struct subject *subject;
    bool more;

    if (!tdg__target_valid(uri) || uri->kind != TDG__TARGET_URI ||
        uri->len > search->engine->opts.max_name_bytes)
        return true;
    if (search->left == 0)
        return false;

    search->rv = tdg__subject_get(search->engine, uri, NULL, &subject);
    if (search->rv < 0)
        return false;

    search->left--;
    subject->pins++;
    more = !matches(search, (struct resource *)subject) ||
           found(search, (struct resource *)subject);
    subject->pins--;
    tdg__subject_release(search->engine, subject);
    return more;
}

static void search_listed(struct search *search) {
    tdg__engine_t *engine = search->engine;
    const struct group *group = group_at(engine, sub_at(engine, search->sub)->group);
    tdg__target_t target = tdg__subject_target(subject_of(engine, group));

    search->left = engine->opts.max_listed;
    if (engine->opts.calls.list_matches != NULL)
        engine->opts.calls.list_matches(engine->opts.user, &target, visit_listed, search);
}

static void catch_up_template(struct search *search, const struct comeback *from) {
    tdg__engine_t *engine = search->engine;
    struct sub *sub = sub_at(engine, search->sub);
    const struct subject *subject = subject_of(engine, group_at(engine, sub->group));
    bool foreign = (from->flags & SUB_FOREIGN) != 0;
    uint64_t cursor = cursor_of(engine, from);

    search->after = foreign ? 0 : cursor;
    search->first = foreign ? 0 : cursor + 1;
    search_history(search, search->after, INT64_MIN);
    if (foreign || cursor < engine->dropped ||
        cursor < known_from(engine, &subject->watch)) {
        search->complete = false;
        sub->flags |= SUB_ASSUMED;
        if (search->rv == 0)
            search_listed(search);
    }
}

/* From where on its stream is notified again after a rewind: where its changes began to
 * count, or the oldest that it was notified of, if that is older. */
static uint64_t base_of(uint64_t before, uint64_t oldest) {
    return oldest != 0 && oldest <= before ? oldest - 1 : before;
}

/* ---- The calls ---------------------------------------------------------- */

/* Puts in flight what a subscription missed, and marks it where no number shows that. */
static int compare(struct search *search, const struct comeback *from) {
    tdg__engine_t *engine = search->engine;
    bool of_template = sub_at(engine, search->sub)->kind == SUB_TEMPLATE;

    search->complete = true;
    if ((from->flags & SUB_CURSOR) != 0) {
        if (of_template)
            catch_up_template(search, from);
        else
            search->rv = catch_up_resource(engine, search->sub, from, &search->complete);
    } else if ((from->flags & SUB_SINCE) != 0) {
        if (of_template)
            search_history(search, 0, from->at);
        else
            search->rv = since_resource(engine, search->sub, from->at);
        search->complete = true;
    }
    return search->rv;
}

/* The changes that a template misses until its watcher is armed after all cannot be named
 * either. */
static bool is_resumed(const struct search *search) {
    const tdg__engine_t *engine = search->engine;
    const struct sub *sub = sub_at(engine, search->sub);
    const struct subject *subject = subject_of(engine, group_at(engine, sub->group));

    return search->complete && !(sub->kind == SUB_TEMPLATE &&
                                 known_from(engine, &subject->watch) == UINT64_MAX);
}

int tdg__catch_up(tdg__engine_t *engine, uint32_t id, bool *ret_resumed) {
    struct sub *sub = sub_at(engine, id);
    struct comeback from = {sub->flags & SUB_COMEBACK, sub->resume};
    struct search search = {.engine = engine, .sub = id};

    assert(sub->kind != SUB_DERIVED && sub->state != TDG__SUBSCRIBING);
    if (compare(&search, &from) < 0)
        return search.rv;

    sub->resume = 0;
    if (sub->kind == SUB_TEMPLATE)
        sub->resume = (int64_t)base_of(tdg__sub_began(engine, sub), search.oldest);
    if (search.oldest != 0 || (sub->flags & SUB_ASSUMED) != 0)
        tdg__sub_begin(engine, sub);
    sub->flags &= (uint8_t) ~(SUB_CURSOR | SUB_SINCE);
    tdg__sub_release_hold(engine, sub);
    *ret_resumed = is_resumed(&search);
    return 0;
}

int tdg__catch_up_again(tdg__engine_t *engine, uint32_t id, const struct comeback *from,
                        bool *ret_resumed) {
    struct sub *sub = sub_at(engine, id);
    uint8_t assumed_before = sub->flags & SUB_ASSUMED;
    struct search search = {.engine = engine, .sub = id};
    bool notified;

    assert(sub->kind != SUB_DERIVED && sub->state != TDG__SUBSCRIBING);
    sub->flags &= (uint8_t)~SUB_ASSUMED;
    compare(&search, from);
    notified = search.oldest != 0 || (sub->flags & SUB_ASSUMED) != 0;
    sub->flags |= assumed_before | (from->flags & SUB_FOREIGN);

    /* The part that memory was left for is in flight and may be lost like the rest. */
    if (sub->kind == SUB_TEMPLATE)
        sub->resume = (int64_t)base_of((uint64_t)sub->resume, search.oldest);
    if (notified)
        tdg__sub_begin(engine, sub);
    if (search.rv == 0)
        *ret_resumed = is_resumed(&search);
    return search.rv;
}

int tdg__assume_changed(tdg__engine_t *engine, uint32_t id, uint64_t first) {
    struct search search = {.engine = engine, .sub = id, .first = first};

    if (sub_at(engine, id)->kind == SUB_DIRECT)
        return assume(engine, id, UINT64_MAX, first);
    search.after = UINT64_MAX;
    search_listed(&search);
    return search.rv;
}

/* ---- Rewinding ---------------------------------------------------------- */

/* Where a stream goes back to. */
struct back {
    uint64_t cursor; /* 0 where it is foreign */
    bool foreign;
};

/* Whether a sub was notified, after the cursor, of an assumed change that no number
 * shows: when it caught up, or when its watcher was armed after all. */
static bool was_assumed(const struct sub *sub, const struct watch *watch, uint64_t began,
                        uint64_t cursor) {
    return (sub->flags & SUB_ASSUMED) != 0 &&
           (cursor <= began ||
            (watch->state == WATCH_ARMED && cursor < watch->known_from));
}

/* The smallest `first` that a sub may have had, where what it caught up from is no longer
 * known: no cursor given out meanwhile may claim that it was notified. */
static uint64_t first_ever(const struct sub *sub) {
    return (sub->flags & SUB_FOREIGN) != 0 ? 0 : 1;
}

static int rewind_resource(tdg__engine_t *engine, uint32_t id, const struct back *back) {
    const struct sub *sub = sub_at(engine, id);
    const struct resource *resource =
        resource_at(engine, group_at(engine, sub->group)->owner);
    uint64_t began = tdg__sub_began(engine, sub);
    uint64_t after = back->cursor > began ? back->cursor : began;

    if (back->foreign)
        return assume(engine, id, 0, 0);
    if (was_assumed(sub, &resource->subject.watch, began, back->cursor))
        return assume(engine, id, 0,
                      back->cursor <= began ? first_ever(sub) : back->cursor + 1);
    return resource->last_number > after ? assume(engine, id, after, after + 1) : 0;
}

static int rewind_template(tdg__engine_t *engine, uint32_t id, const struct back *back,
                           bool *complete) {
    const struct sub *sub = sub_at(engine, id);
    const struct subject *subject = subject_of(engine, group_at(engine, sub->group));
    bool waits = sub->state == TDG__SUBSCRIBING;
    uint64_t began = tdg__sub_began(engine, sub);
    bool notified = was_assumed(sub, &subject->watch, began, back->cursor);
    struct search search = {.engine = engine, .sub = id, .complete = true};

    if (sub->state != TDG__SUBSCRIBED && (sub->flags & SUB_SERVED) == 0)
        return 0; /* all that it has is still in flight */

    /* One that has yet to catch up was notified of nothing before it began. */
    search.after = back->cursor > began ? back->cursor
                   : waits              ? began
                                        : (uint64_t)sub->resume;
    search.first = notified && back->cursor <= began ? first_ever(sub) : search.after + 1;
    if (search.after < engine->dropped)
        *complete = false;
    notified = notified || back->foreign || search.after < engine->dropped;
    if (back->foreign)
        search.after = search.first = 0;

    search_history(&search, search.after, INT64_MIN);
    if (search.rv == 0 && notified)
        search_listed(&search);
    *complete = *complete && search.complete;
    return search.rv;
}

int tdg__engine_rewind(tdg__engine_t *engine, tdg__stream_t handle, tdg__cursor_t cursor,
                       bool *ret_complete) {
    uint32_t stream = tdg__stream_find(engine, handle);
    struct back back = {.foreign = tdg__cursor_is_foreign(engine, cursor)};
    bool complete = true;
    int rv = 0;

    if (stream == 0)
        return TDG_ENOTFOUND;
    if (stream_at(engine, stream)->ended)
        return TDG_EENDED;
    if (!back.foreign)
        back.cursor =
            cursor.number < engine->last_number ? cursor.number : engine->last_number;

    for (uint32_t id = stream_at(engine, stream)->own.first; id != 0 && rv == 0;
         id = sub_at(engine, id)->own.next)
        rv = sub_at(engine, id)->kind == SUB_TEMPLATE
                 ? rewind_template(engine, id, &back, &complete)
                 : rewind_resource(engine, id, &back);
    if (rv == 0)
        *ret_complete = complete;
    return rv;
}
