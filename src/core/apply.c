/* SPDX-License-Identifier: MIT
 *
 * Applies a change. First everything that needs memory is prepared, which may fail and
 * then has no effect; then the change takes effect, which cannot fail. */
#include "core/internal.h"

#include <assert.h>

#include <tidings/error.h>

/* ---- Through templates -------------------------------------------------- */

bool tdg__may_read(const tdg__engine_t *engine, uint32_t stream, uint32_t resource) {
    const tdg__engine_calls_t *calls = &engine->opts.calls;
    tdg__target_t uri;

    if (calls->may_read == NULL)
        return true;
    uri = tdg__subject_target(&resource_at(engine, resource)->subject);
    return calls->may_read(engine->opts.user, tdg__stream_handle(engine, stream), &uri);
}

int tdg__derived_get(tdg__engine_t *engine, uint32_t parent_id, uint32_t resource,
                     uint32_t group, uint32_t *ret) {
    *ret = tdg__derived_find(engine, parent_id, resource);
    if (*ret != 0 || !tdg__may_read(engine, sub_at(engine, parent_id)->stream, resource))
        return 0;

    *ret = tdg__derived_create(engine, parent_id, group);
    return *ret == 0 ? TDG_ENOMEM : 0;
}

/* Gives every member of a template's group its derived sub on the resource. A member has
 * at most one, so where there are as many of these as members, all have one. */
static int derive_group(tdg__engine_t *engine, uint32_t resource, struct group *source) {
    uint32_t id = tdg__group_get_derived(engine, resource, source->id);
    uint32_t derived;

    if (id == 0)
        return TDG_ENOMEM;

    group_at(engine, id)->passes = true;
    if (group_at(engine, id)->count == source->count)
        return 0;
    for (uint32_t sub = source->recent.first; sub != 0;
         sub = sub_at(engine, sub)->flight.next)
        if (tdg__derived_get(engine, sub, resource, id, &derived) < 0)
            return TDG_ENOMEM;
    return 0;
}

struct match {
    tdg__engine_t *engine;
    uint32_t resource;
    const tdg__change_t *change;
    bool unfiltered;   /* every filter counts as passed */
    uint64_t filtered; /* subscriptions whose filter keeps it away */
    int rv;
};

static bool passes(const struct match *match, tdg__shared_filter_t *filter) {
    return match->unfiltered ||
           tdg__shared_filter_pass(match->engine, filter, match->change);
}

static void on_match(void *arg, uint32_t template_id) {
    struct match *match = arg;
    tdg__engine_t *engine = match->engine;

    for (uint32_t g = template_at(engine, template_id)->subject.groups.first;
         g != 0 && match->rv == 0; g = group_at(engine, g)->by_owner.next) {
        struct group *source = group_at(engine, g);

        if (passes(match, source->filter))
            match->rv = derive_group(engine, match->resource, source);
        else
            match->filtered += source->count;
    }
}

/* ---- Preparing ---------------------------------------------------------- */

static int prepare(tdg__engine_t *engine, struct resource *resource,
                   const tdg__change_t *change, bool unfiltered, uint64_t *ret_filtered) {
    struct match match = {.engine = engine, .resource = resource->subject.id};

    match.change = change;
    match.unfiltered = unfiltered;
    engine->attempts++; /* filters remember their verdict until the next one */

    for (uint32_t g = resource->subject.groups.first; g != 0;
         g = group_at(engine, g)->by_owner.next) {
        struct group *group = group_at(engine, g);

        group->passes = group->kind == GROUP_DIRECT && passes(&match, group->filter);
        if (group->kind == GROUP_DIRECT && !group->passes)
            match.filtered += group->count;
    }
    if (resource->subject.kind == TDG__TARGET_URI)
        tdg__template_index_match(engine->template_index, change->name, change->len,
                                  on_match, &match);
    *ret_filtered = match.filtered;
    return match.rv;
}

/* Frees the derived subs of a group that have nothing to do. */
static void sweep_group(tdg__engine_t *engine, struct group *group) {
    for (uint32_t i = group->count; i-- > 0;) {
        uint32_t id = tdg__group_members(group)[i];
        const struct sub *sub = sub_at(engine, id);
        bool last = group->count == 1;

        if (sub->wait != IDLE || sub->queued != QUEUE_NONE)
            continue;
        tdg__sub_remove(engine, id);
        if (last)
            return; /* the group may be gone */
    }
}

static void sweep(tdg__engine_t *engine, const struct resource *resource) {
    uint32_t next;

    for (uint32_t g = resource->subject.groups.first; g != 0; g = next) {
        struct group *group = group_at(engine, g);

        next = group->by_owner.next;
        if (group->kind != GROUP_DERIVED)
            continue;
        if (group->count == 0)
            tdg__group_release(engine, g);
        else
            sweep_group(engine, group);
    }
}

/* ---- Taking effect ------------------------------------------------------ */

static void commit(tdg__engine_t *engine, struct resource *resource,
                   tdg__change_t *change) {
    uint32_t next;

    assert(change->number > engine->last_number && engine->first_doomed == 0);
    engine->last_number = change->number;
    engine->reached = false;
    engine->counters.changes++;
    tdg__history_add(engine, resource->subject.id, change);
    for (uint32_t g = resource->subject.groups.first; g != 0; g = next) {
        next = group_at(engine, g)->by_owner.next;
        if (group_at(engine, g)->passes) {
            tdg__group_change(engine, g, change);
            tdg__group_release(engine, g); /* derived, and nobody may read it */
        }
    }
    tdg__streams_end_doomed(engine);
}

/* Group, sub and stream lie on three pages, each found through the one before. Most
 * resources have one subscriber, so all three can be on their way at once. The hint may
 * be stale. */
__attribute__((always_inline)) static inline void
prefetch_likely(const tdg__engine_t *engine, const struct resource *resource) {
    if (resource->subject.groups.first == 0 || resource->likely_sub == 0 ||
        resource->likely_sub >= tdg__pool_end(&engine->subs) ||
        resource->likely_stream >= tdg__pool_end(&engine->streams))
        return;
    prefetch(group_at(engine, resource->subject.groups.first), sizeof(struct group));
    prefetch(sub_at(engine, resource->likely_sub), sizeof(struct sub));
    prefetch(stream_at(engine, resource->likely_stream), sizeof(struct stream));
}

static int apply(tdg__engine_t *engine, tdg__change_t *change, bool unfiltered) {
    tdg__target_t target = {change->kind, change->name, change->len};
    struct subject *subject;
    struct resource *resource;
    uint64_t filtered;
    int rv;

    if (change->number == 0)
        return TDG_EINVAL;
    if (change->number <= engine->last_number)
        return TDG_EORDER;
    if (change->kind == TDG__TARGET_URI && change->len > engine->opts.max_name_bytes)
        return TDG_EURILEN;

    rv = tdg__subject_get(engine, &target, NULL, &subject);
    if (rv < 0)
        return rv;

    subject->pins++;
    resource = (struct resource *)subject;
    prefetch_likely(engine, resource);
    rv = prepare(engine, resource, change, unfiltered, &filtered);
    if (rv == 0) {
        engine->counters.filtered += filtered;
        commit(engine, resource, change);
    } else {
        sweep(engine, resource);
    }
    subject->pins--;
    tdg__subject_release(engine, subject);
    return rv;
}

int tdg__engine_apply(tdg__engine_t *engine, tdg__change_t *change) {
    return apply(engine, change, false);
}

int tdg__engine_apply_unfiltered(tdg__engine_t *engine, tdg__change_t *change) {
    return apply(engine, change, true);
}

int tdg__engine_publish(tdg__engine_t *engine, const tdg__target_t *target,
                        json_t *metadata, bool deleted, uint64_t *ret_number) {
    uint64_t number = engine->last_number + 1;
    tdg__change_t *change;
    int rv;

    if (engine->opts.shared_numbers)
        return TDG_ENOTSUP;
    rv = tdg__change_create(target, metadata, deleted, engine->wall_ms,
                            engine->opts.max_metadata_bytes, &change);
    if (rv < 0)
        return rv;

    rv = tdg__change_stamp(change, number);
    if (rv == 0)
        rv = tdg__engine_apply(engine, change);
    tdg__change_unref(change);
    if (rv == 0 && ret_number != NULL)
        *ret_number = number;
    return rv;
}
