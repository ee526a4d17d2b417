/* SPDX-License-Identifier: MIT
 *
 * Groups: the subscriptions of one resource with the same wishes. A group has one window
 * and one newest change, so that a change costs the same whatever the number of members
 * until the group fires.
 *
 * The first `waiting` members take part in the open window; a member that joins, or is
 * served early, is behind them. The next change includes it.
 *
 * A limit costs a timer per group, not per member: all members have the same limit, so
 * their windows end in the order in which their notifications were taken, and that is the
 * order of the list of recent ones. */
#include "core/internal.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

/* ---- Finding and making ------------------------------------------------- */

enum { MAX_VACANT = 8192 };

struct group_key {
    uint32_t kind;
    uint32_t owner;
    uint32_t source;
    int32_t rate_limit_ms;
    uint32_t mode;
    uint32_t window_ms;
    uint32_t longest_ms;
    uint32_t filter;
};

/* A derived group has the wishes and the filter of its source. */
static struct group_key derived_key(uint32_t resource, uint32_t source) {
    return (struct group_key){.kind = GROUP_DERIVED, .owner = resource, .source = source};
}

static struct group_key own_key(enum group_kind kind, uint32_t owner,
                                const tdg__settings_t *wishes,
                                const tdg__shared_filter_t *filter) {
    struct group_key key = {.kind = kind, .owner = owner};

    key.rate_limit_ms = wishes->rate_limit_ms;
    key.mode = (uint32_t)wishes->timing.mode;
    key.window_ms = wishes->timing.window_ms;
    key.longest_ms = wishes->timing.longest_ms;
    key.filter = filter == NULL ? 0 : filter->id;
    return key;
}

static bool has_key(const void *engine, uint32_t id, const void *key) {
    const struct group *group = group_at(engine, id);
    struct group_key own = group->kind == GROUP_DERIVED
                               ? derived_key(group->owner, group->source)
                               : own_key((enum group_kind)group->kind, group->owner,
                                         &group->wishes, group->filter);

    return memcmp(&own, key, sizeof(own)) == 0;
}

static uint32_t hash_key(const tdg__engine_t *engine, const struct group_key *key) {
    return (uint32_t)tdg__hash(&engine->key, key, sizeof(*key));
}

static uint32_t create_group(tdg__engine_t *engine, const struct group_key *key,
                             uint32_t hash) {
    struct group *group;
    uint32_t id;

    if (tdg__map_reserve(&engine->group_map) < 0)
        return 0;
    group = tdg__pool_alloc(&engine->groups, &id);
    if (group == NULL)
        return 0;
    if (tdg__heap_add(&engine->timers, &group->window_timer, TIMER_WINDOW) < 0)
        goto fail_group;
    if (tdg__heap_add(&engine->timers, &group->limit_timer, TIMER_LIMIT) < 0)
        goto fail_timer;

    group->id = id;
    group->owner = key->owner;
    group->kind = (uint8_t)key->kind;
    group->source = key->source;
    group->fired_ms = NEVER_FIRED;
    group->hash = hash;
    group->room = FEW_MEMBERS;
    tdg__map_insert(&engine->group_map, hash, id);
    tdg__list_append(&subject_of(engine, group)->groups, &engine->groups, BY_OWNER, id);
    if (group->kind == GROUP_DERIVED)
        tdg__list_append(&group_at(engine, group->source)->derived, &engine->groups,
                         BY_SOURCE, id);
    return id;

fail_timer:
    tdg__heap_remove(&engine->timers, &group->window_timer);
fail_group:
    tdg__pool_free(&engine->groups, id);
    return 0;
}

/* The group of this key on the subject, made where it is missing. */
static uint32_t get(tdg__engine_t *engine, const struct subject *subject,
                    const struct group_key *key, const tdg__settings_t *wishes,
                    tdg__shared_filter_t *filter) {
    uint32_t first = subject->groups.first;
    uint32_t hash, id;

    if (first != 0 && has_key(engine, first, key))
        return first; /* nearly always: most resources have one group */

    hash = hash_key(engine, key);
    id = first == 0 ? 0 : tdg__map_find(&engine->group_map, hash, has_key, engine, key);
    if (id != 0)
        return id;

    id = create_group(engine, key, hash);
    if (id != 0) {
        group_at(engine, id)->wishes = *wishes;
        group_at(engine, id)->filter = tdg__shared_filter_ref(filter);
    }
    return id;
}

uint32_t tdg__group_get(tdg__engine_t *engine, const struct subject *subject,
                        const tdg__settings_t *wishes, tdg__shared_filter_t *filter) {
    enum group_kind kind =
        subject->kind == TDG__TARGET_TEMPLATE ? GROUP_TEMPLATE : GROUP_DIRECT;
    struct group_key key = own_key(kind, subject->id, wishes, filter);

    return get(engine, subject, &key, wishes, filter);
}

uint32_t tdg__group_get_derived(tdg__engine_t *engine, uint32_t resource,
                                uint32_t source) {
    const struct group *from = group_at(engine, source);
    struct group_key key = derived_key(resource, source);

    assert(from->kind == GROUP_TEMPLATE);
    return get(engine, &resource_at(engine, resource)->subject, &key, &from->wishes,
               from->filter);
}

uint32_t tdg__group_find_derived(const tdg__engine_t *engine, uint32_t resource,
                                 uint32_t source) {
    struct group_key key = derived_key(resource, source);

    return tdg__map_find(&engine->group_map, hash_key(engine, &key), has_key, engine,
                         &key);
}

/* ---- The end of a group ------------------------------------------------- */

static bool is_vacant(const struct group *group) {
    return group->state == GROUP_VACANT || group->state == GROUP_VACANT_OPEN;
}

static void leave_vacant(tdg__engine_t *engine, struct group *group) {
    if (!is_vacant(group))
        return;
    assert(engine->vacant_count > 0);
    group->state = group->state == GROUP_VACANT ? GROUP_CALM : GROUP_OPEN;
    tdg__list_remove(&engine->vacant, &engine->groups, BY_AGE, group->id);
    engine->vacant_count--;
}

static void free_group(tdg__engine_t *engine, struct group *group) {
    struct subject *subject = subject_of(engine, group);

    assert(group->count == 0 && group->in_flight == 0 && group->derived.first == 0);
    leave_vacant(engine, group);

    tdg__list_remove(&subject->groups, &engine->groups, BY_OWNER, group->id);
    if (group->kind == GROUP_DERIVED)
        tdg__list_remove(&group_at(engine, group->source)->derived, &engine->groups,
                         BY_SOURCE, group->id);
    tdg__heap_remove(&engine->timers, &group->window_timer);
    tdg__heap_remove(&engine->timers, &group->limit_timer);
    tdg__map_remove(&engine->group_map, group->hash, group->id);
    tdg__change_unref(group->newest);
    tdg__engine_filter_unref(engine, group->filter);
    if (group->room > FEW_MEMBERS) {
        engine->member_bytes -= group->room * sizeof(*group->many);
        tdg__free(group->many);
    }
    tdg__pool_free(&engine->groups, group->id);
    tdg__subject_release(engine, subject);
}

static int64_t deadline_of(const tdg__engine_t *engine, const struct group *group) {
    tdg__timing_t timing = tdg__timing_of(engine, group);
    int64_t quiet, longest;

    switch (timing.mode) {
    case TDG__TIMING_BATCH:
        return group->first_ms + timing.window_ms;
    case TDG__TIMING_DEBOUNCE:
        quiet = group->last_ms + timing.window_ms;
        longest = group->first_ms + timing.longest_ms;
        return quiet < longest ? quiet : longest;
    case TDG__TIMING_THROTTLE:
        return group->fired_ms != NEVER_FIRED ? group->fired_ms + timing.window_ms
                                              : group->first_ms;
    default:
        return group->first_ms;
    }
}

/* Whether a throttle would still hold the next change back. */
static bool cools_down(const tdg__engine_t *engine, const struct group *group) {
    tdg__timing_t timing = tdg__timing_of(engine, group);

    return group->fired_ms != NEVER_FIRED && timing.mode == TDG__TIMING_THROTTLE &&
           group->fired_ms + timing.window_ms > engine->now_ms;
}

/* Keeps a derived group without members for its window. One client could ask for long
 * windows on a template that matches without end, so only so many are kept: the URI whose
 * window is forgotten may be reported sooner. */
static void keep_vacant(tdg__engine_t *engine, struct group *group) {
    assert(group->kind == GROUP_DERIVED && group->count == 0);
    if (is_vacant(group))
        return;
    if (engine->vacant_count == MAX_VACANT)
        free_group(engine, group_at(engine, engine->vacant.first));
    group->state = group->state == GROUP_OPEN ? GROUP_VACANT_OPEN : GROUP_VACANT;
    tdg__list_append(&engine->vacant, &engine->groups, BY_AGE, group->id);
    engine->vacant_count++;
}

void tdg__group_release(tdg__engine_t *engine, uint32_t id) {
    struct group *group = group_at(engine, id);

    if (group->count != 0)
        return;

    if (group->kind == GROUP_TEMPLATE) {
        while (group->derived.first != 0)
            free_group(engine, group_at(engine, group->derived.first));
    } else if (group->kind == GROUP_DERIVED &&
               group_at(engine, group->source)->count != 0) {
        /* The template still has subscribers, and their window runs. */
        if (!tdg__group_is_open(group) && cools_down(engine, group))
            tdg__heap_arm(&engine->timers, &group->window_timer,
                          deadline_of(engine, group));
        if (tdg__group_is_open(group) || cools_down(engine, group)) {
            keep_vacant(engine, group);
            return;
        }
    }
    free_group(engine, group);
}

/* ---- Members ------------------------------------------------------------ */

static int set_room(tdg__engine_t *engine, struct group *group, uint32_t room) {
    uint32_t before = group->room > FEW_MEMBERS ? group->room : 0;
    uint32_t *many =
        tdg__reallocarray(before != 0 ? group->many : NULL, room, sizeof(*many));

    if (many == NULL)
        return TDG_ENOMEM;

    if (before == 0)
        memcpy(many, group->few, group->count * sizeof(*many));
    group->many = many;
    group->room = room;
    engine->member_bytes += room * sizeof(*many);
    engine->member_bytes -= before * sizeof(*many);
    return 0;
}

static inline void put_member(tdg__engine_t *engine, struct group *group, uint32_t slot,
                              uint32_t sub_id) {
    tdg__group_members(group)[slot] = sub_id;
    sub_at(engine, sub_id)->slot = slot;
}

int tdg__group_reserve(tdg__engine_t *engine, uint32_t group_id) {
    struct group *group = group_at(engine, group_id);

    if (group->kind == GROUP_TEMPLATE || group->count < group->room)
        return 0;
    return set_room(engine, group, group->room * 2);
}

void tdg__group_join(tdg__engine_t *engine, uint32_t group_id, uint32_t sub_id) {
    struct group *group = group_at(engine, group_id);

    assert(group->kind == GROUP_TEMPLATE || group->count < group->room);
    sub_at(engine, sub_id)->group = group_id;
    leave_vacant(engine, group);
    if (group->kind == GROUP_TEMPLATE) /* its members are walked, never picked out */
        tdg__list_append(&group->recent, &engine->subs, FLIGHT, sub_id);
    else
        put_member(engine, group, group->count, sub_id);
    group->count++;
}

void tdg__group_unwait(tdg__engine_t *engine, struct sub *sub) {
    struct group *group = group_at(engine, sub->group);
    uint32_t slot = sub->slot;
    uint32_t *members;

    if (slot >= group->waiting)
        return;

    members = tdg__group_members(group);
    group->waiting--;
    if (slot != group->waiting) {
        uint32_t last = members[group->waiting];
        uint32_t own = members[slot];

        put_member(engine, group, slot, last);
        put_member(engine, group, group->waiting, own);
    }
}

/* A member that leaves gives its place to the last one. */
void tdg__group_prefetch_leave(const tdg__engine_t *engine, const struct sub *sub) {
    struct group *group = group_at(engine, sub->group);

    if (group->kind == GROUP_TEMPLATE || group->room <= FEW_MEMBERS)
        return;
    __builtin_prefetch(&group->many[sub->slot], 1);
    prefetch(sub_at(engine, group->many[group->count - 1]), sizeof(struct sub));
}

void tdg__group_leave(tdg__engine_t *engine, uint32_t sub_id) {
    struct sub *sub = sub_at(engine, sub_id);
    struct group *group = group_at(engine, sub->group);

    assert(group->count > 0);
    if (group->kind == GROUP_TEMPLATE) {
        tdg__list_remove(&group->recent, &engine->subs, FLIGHT, sub_id);
        group->count--;
    } else {
        tdg__group_unwait(engine, sub);
        group->count--;
        if (sub->slot != group->count)
            put_member(engine, group, sub->slot, tdg__group_members(group)[group->count]);
        if (group->room > 2 * FEW_MEMBERS && group->count < group->room / 4)
            (void)set_room(engine, group, group->room / 2); /* failing is harmless */
    }
}

/* ---- Windows ------------------------------------------------------------ */

void tdg__group_forget_newest(struct group *group) {
    if (group->in_flight == 0 && group->newest != NULL) {
        tdg__change_unref(group->newest);
        group->newest = NULL;
    }
}

/* Without a limit nothing runs, although the taking time may be ahead of ours. */
static bool limit_runs(const tdg__engine_t *engine, const struct group *group,
                       const struct sub *sub) {
    int64_t limit = tdg__limit_of(engine, group);

    return limit > 0 && (sub->flags & SUB_TAKEN) != 0 &&
           sub->taken_ms + limit > engine->now_ms;
}

static void arm_limit(tdg__engine_t *engine, struct group *group) {
    struct sub *oldest;

    if (group->recent.first == 0 ||
        (group->limited == 0 && group->kind != GROUP_DERIVED)) {
        tdg__heap_disarm(&engine->timers, &group->limit_timer);
        return;
    }

    oldest = sub_at(engine, group->recent.first);
    tdg__heap_arm(&engine->timers, &group->limit_timer,
                  oldest->taken_ms + tdg__limit_of(engine, group));
}

/* Puts a sub among the recent ones, by the time it was taken. Only a sub that changes its
 * wishes, or whose limit was over and is longer now, was taken before the last one; the
 * walk to its place is bounded, and beyond that it counts as taken as late as its
 * neighbour: one notification is delayed, by less than its limit. */
static void remember(tdg__engine_t *engine, uint32_t id) {
    struct sub *sub = sub_at(engine, id);
    struct group *group = group_at(engine, sub->group);
    uint32_t prev = group->recent.last;

    if (sub->queued == QUEUE_RECENT)
        return;

    for (int steps = 0; prev != 0; steps++) {
        const struct sub *other = sub_at(engine, prev);

        if (other->taken_ms <= sub->taken_ms)
            break;
        if (steps == 64) {
            sub->taken_ms = other->taken_ms;
            break;
        }
        prev = other->queue.prev;
    }
    sub->queued = QUEUE_RECENT;
    tdg__list_insert(&group->recent, &engine->subs, QUEUE, id, prev);
}

void tdg__group_due(tdg__engine_t *engine, uint32_t sub_id, bool skip_limit) {
    struct sub *sub = sub_at(engine, sub_id);
    struct group *group = group_at(engine, sub->group);

    group->limited -= sub->wait == WAIT_LIMIT;
    if (tdg__sub_state(engine, sub) != TDG__SUBSCRIBED) {
        sub->wait = WAIT_ACK;
    } else if (!skip_limit && limit_runs(engine, group, sub)) {
        if (sub->wait != WAIT_LIMIT)
            engine->counters.rate_limited++;
        sub->wait = WAIT_LIMIT;
        group->limited++;
        remember(engine, sub_id);
        if (group->limited == 1 || group->recent.first == sub_id)
            arm_limit(engine, group);
    } else {
        tdg__stream_make_ready(engine, sub_id);
    }
}

/* Walking the members of a large group waits for memory more than for anything else: what
 * is far ahead is fetched meanwhile, first the subs, then, once those are there, the
 * streams. */
__attribute__((always_inline)) static inline void
prefetch_ahead(const tdg__engine_t *engine, const uint32_t *members, uint32_t i,
               uint32_t n) {
    enum { SUBS_AHEAD = 16, STREAMS_AHEAD = 8 };

    if (i + SUBS_AHEAD < n)
        prefetch(sub_at(engine, members[i + SUBS_AHEAD]), sizeof(struct sub));
    if (i + STREAMS_AHEAD < n) {
        const struct sub *sub = sub_at(engine, members[i + STREAMS_AHEAD]);

        prefetch(stream_at(engine, sub->stream), sizeof(struct stream));
    }
}

/* Calls in the members that do not take part in the window yet. A stream on which too
 * much waits through templates is doomed instead. */
static void call_in(tdg__engine_t *engine, struct group *group, uint64_t number) {
    uint32_t *members = tdg__group_members(group);

    for (uint32_t i = group->waiting; i < group->count; i++) {
        struct sub *sub = sub_at(engine, members[i]);

        prefetch_ahead(engine, members, i, group->count);
        if (sub->wait != IDLE)
            continue;
        if (group->kind == GROUP_DERIVED &&
            stream_at(engine, sub->stream)->derived_in_flight >= engine->opts.max_pending)
            tdg__stream_doom(engine, sub->stream, number);
        else
            tdg__flight_append(engine, members[i], number);
    }
    group->waiting = group->count;
}

/* Ends the window. The members that waited for it go on; the others wait for something
 * else, or are ready already. */
static void fire(tdg__engine_t *engine, struct group *group, bool skip_limit) {
    uint32_t *members = tdg__group_members(group);
    uint32_t n = group->waiting;

    assert(tdg__group_is_open(group));
    group->state = group->state == GROUP_OPEN ? GROUP_CALM : GROUP_VACANT;
    group->fired_ms = engine->now_ms;
    group->waiting = 0;
    tdg__heap_disarm(&engine->timers, &group->window_timer);

    for (uint32_t i = 0; i < n; i++) {
        struct sub *sub = sub_at(engine, members[i]);

        prefetch_ahead(engine, members, i, n);
        if (sub->wait == WAIT_WINDOW || (skip_limit && sub->wait == WAIT_LIMIT))
            tdg__group_due(engine, members[i], skip_limit);
    }
}

void tdg__group_change(tdg__engine_t *engine, uint32_t id, tdg__change_t *change) {
    struct group *group = group_at(engine, id);
    int64_t deadline;

    tdg__change_unref(group->newest);
    group->newest = tdg__change_ref(change);
    group->passed++;
    call_in(engine, group, change->number);

    if (!tdg__group_is_open(group)) {
        group->state = group->state == GROUP_CALM ? GROUP_OPEN : GROUP_VACANT_OPEN;
        group->first_ms = engine->now_ms;
    }
    group->last_ms = engine->now_ms;

    deadline = deadline_of(engine, group);
    if (change->deleted || deadline <= engine->now_ms)
        fire(engine, group, change->deleted);
    else
        tdg__heap_arm(&engine->timers, &group->window_timer, deadline);
    tdg__group_forget_newest(group);
}

void tdg__group_on_window(tdg__engine_t *engine, struct group *group) {
    if (tdg__group_is_open(group))
        fire(engine, group, false);
    tdg__group_release(engine, group->id);
}

/* Members that waited for their limit, and did not take part in the window, are left. */
void tdg__group_end_windows(tdg__engine_t *engine, struct group *group) {
    uint32_t next;

    if (tdg__group_is_open(group))
        fire(engine, group, true);
    for (uint32_t id = group->recent.first; group->limited > 0 && id != 0; id = next) {
        next = sub_at(engine, id)->queue.next;
        if (sub_at(engine, id)->wait == WAIT_LIMIT)
            tdg__group_due(engine, id, true);
    }
    arm_limit(engine, group);
    tdg__group_release(engine, group->id);
}

/* ---- Limits ------------------------------------------------------------- */

void tdg__group_taken(tdg__engine_t *engine, uint32_t id, bool keep) {
    struct sub *sub = sub_at(engine, id);
    struct group *group = group_at(engine, sub->group);
    bool derived = sub->kind == SUB_DERIVED;

    if (derived && (!keep || tdg__limit_of(engine, group) == 0)) {
        tdg__sub_remove(engine, id);
        return;
    }

    tdg__queue_leave(engine, id);
    sub->taken_ms =
        engine->taking_ms > engine->now_ms ? engine->taking_ms : engine->now_ms;
    sub->flags |= SUB_TAKEN;
    remember(engine, id);
    if (derived && group->limit_timer.pos == 0)
        arm_limit(engine, group);
}

void tdg__group_on_limit(tdg__engine_t *engine, struct group *group) {
    int64_t limit = tdg__limit_of(engine, group);
    bool derived = group->kind == GROUP_DERIVED;

    while (group->recent.first != 0) {
        uint32_t id = group->recent.first;
        struct sub *sub = sub_at(engine, id);

        if (sub->taken_ms + limit > engine->now_ms)
            break;

        tdg__queue_leave(engine, id);
        if (sub->wait == WAIT_LIMIT)
            tdg__group_due(engine, id, true);
        else if (derived && sub->wait == IDLE) {
            bool last = group->count == 1;

            tdg__sub_remove(engine, id);
            if (last)
                return; /* the group may be gone */
        }
    }
    arm_limit(engine, group);
}

void tdg__group_move(tdg__engine_t *engine, uint32_t id, uint32_t to) {
    struct sub *sub = sub_at(engine, id);
    uint32_t from = sub->group;
    struct group *group = group_at(engine, from);
    uint32_t count = group->passed - sub->mark;
    bool in_flight = sub->wait != IDLE;
    bool due = sub->wait == WAIT_WINDOW || sub->wait == WAIT_LIMIT;

    assert(to != from && group->kind != GROUP_TEMPLATE);
    assert(group_at(engine, to)->kind == group->kind);
    if (in_flight) {
        tdg__change_t *newest = tdg__change_ref(tdg__flight_newest(engine, sub));

        tdg__change_unref(sub->held);
        sub->held = newest;
        group->in_flight--;
        tdg__group_forget_newest(group);
    }
    if (sub->queued == QUEUE_RECENT)
        tdg__queue_leave(engine, id);
    group->limited -= sub->wait == WAIT_LIMIT;
    tdg__group_leave(engine, id);

    tdg__group_join(engine, to, id);
    group = group_at(engine, to);
    group->limited += sub->wait == WAIT_LIMIT;
    if (in_flight) {
        sub->mark = group->passed - count;
        group->in_flight++;
    }
    if (due)
        tdg__group_due(engine, id, false);
    if ((sub->flags & SUB_TAKEN) != 0 && sub->queued == QUEUE_NONE)
        remember(engine, id);
    arm_limit(engine, group);
    tdg__group_release(engine, from);
}

void tdg__group_rearm(tdg__engine_t *engine, uint32_t id) {
    struct group *group = group_at(engine, id);

    if (group->kind == GROUP_TEMPLATE)
        return;
    if (tdg__group_is_open(group) || group->window_timer.pos != 0)
        tdg__heap_arm(&engine->timers, &group->window_timer, deadline_of(engine, group));
    arm_limit(engine, group);
}
