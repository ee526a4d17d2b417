/* SPDX-License-Identifier: MIT
 *
 * Subscriptions: creation, new wishes, acknowledgement, end. They are found from both
 * sides: by their stream's list, and by (stream, target). */
#include "core/internal.h"

#include <assert.h>

#include <tidings/error.h>

/* ---- Finding ------------------------------------------------------------ */

/* Tells a template from a resource among the targets of the pair map. */
#define TEMPLATE_TARGET UINT32_C(0x80000000)

struct pair {
    uint32_t stream;
    uint32_t target; /* a resource, or a template with TEMPLATE_TARGET */
};

/* Where a pair is in the map: its hash, and one of the subs there, or 0. */
struct place {
    uint32_t hash;
    uint32_t sub;
};

static uint32_t target_of(const tdg__engine_t *engine, const struct sub *sub) {
    const struct group *group = group_at(engine, sub->group);

    return group->kind == GROUP_TEMPLATE ? group->owner | TEMPLATE_TARGET : group->owner;
}

static bool has_pair(const void *engine, uint32_t id, const void *key) {
    const struct sub *sub = sub_at(engine, id);
    const struct pair *pair = key;

    return sub->stream == pair->stream && target_of(engine, sub) == pair->target;
}

static uint32_t hash_pair(const tdg__engine_t *engine, const struct pair *pair) {
    return (uint32_t)tdg__hash(&engine->key, pair, sizeof(*pair));
}

static struct place find_place(const tdg__engine_t *engine, uint32_t stream,
                               uint32_t target) {
    struct pair pair = {stream, target};
    struct place place = {.hash = hash_pair(engine, &pair)};

    place.sub = tdg__map_find(&engine->pair_map, place.hash, has_pair, engine, &pair);
    return place;
}

/* Walks the ring of siblings for the one with this parent (0: the direct one). */
static uint32_t among_siblings(const tdg__engine_t *engine, uint32_t id,
                               uint32_t parent) {
    uint32_t at = id;

    if (id == 0)
        return 0;
    do {
        const struct sub *sub = sub_at(engine, at);

        if (parent == 0 ? sub->kind == SUB_DIRECT
                        : sub->kind == SUB_DERIVED && sub->parent == parent)
            return at;
        at = sub->sibling;
    } while (at != 0 && at != id);
    return 0;
}

uint32_t tdg__derived_find(const tdg__engine_t *engine, uint32_t parent_id,
                           uint32_t resource) {
    uint32_t stream = sub_at(engine, parent_id)->stream;

    return among_siblings(engine, find_place(engine, stream, resource).sub, parent_id);
}

static uint32_t pair_target(const struct subject *subject) {
    return subject->kind == TDG__TARGET_TEMPLATE ? subject->id | TEMPLATE_TARGET
                                                 : subject->id;
}

/* The stream's own subscription among those at a place. */
static uint32_t own_at(const tdg__engine_t *engine, const struct subject *subject,
                       const struct place *place) {
    return subject->kind == TDG__TARGET_TEMPLATE ? place->sub
                                                 : among_siblings(engine, place->sub, 0);
}

uint32_t tdg__sub_find_own(const tdg__engine_t *engine, uint32_t stream,
                           const tdg__target_t *target) {
    const struct subject *subject = tdg__subject_find(engine, target);
    struct place place;

    if (subject == NULL)
        return 0;
    place = find_place(engine, stream, pair_target(subject));
    return own_at(engine, subject, &place);
}

tdg__sub_state_t tdg__sub_state(const tdg__engine_t *engine, const struct sub *sub) {
    if (sub->kind == SUB_DERIVED)
        sub = sub_at(engine, sub->parent);
    return sub->state;
}

/* ---- Creating ----------------------------------------------------------- */

/* The list that a sub is its owner's in: a stream's, or a template sub's. */
static tdg__list_t *own_list(const tdg__engine_t *engine, const struct sub *sub) {
    return sub->kind == SUB_DERIVED ? &sub_at(engine, sub->parent)->derived
                                    : &stream_at(engine, sub->stream)->own;
}

/* Into the ring of the stream's subs on the same target, and the map that finds it. */
static void link_pair(tdg__engine_t *engine, uint32_t id, const struct place *place) {
    struct sub *sub = sub_at(engine, id);
    struct sub *other;

    if (place->sub == 0) {
        tdg__map_insert(&engine->pair_map, place->hash, id);
        return;
    }

    other = sub_at(engine, place->sub);
    sub->sibling = other->sibling != 0 ? other->sibling : place->sub;
    other->sibling = id;
}

static void unlink_pair(tdg__engine_t *engine, uint32_t id) {
    struct sub *sub = sub_at(engine, id);
    struct pair pair = {sub->stream, target_of(engine, sub)};
    struct place place = {.hash = hash_pair(engine, &pair)};
    uint32_t before = sub->sibling;

    if (before == 0) {
        tdg__map_remove(&engine->pair_map, place.hash, id);
        return;
    }

    while (sub_at(engine, before)->sibling != id)
        before = sub_at(engine, before)->sibling;
    place = find_place(engine, pair.stream, pair.target);
    if (place.sub == id)
        tdg__map_replace(&engine->pair_map, place.hash, id, before);
    sub_at(engine, before)->sibling = before == sub->sibling ? 0 : sub->sibling;
}

/* A new sub in its group, linked on all sides; 0 when memory is out. */
static uint32_t create_sub(tdg__engine_t *engine, enum sub_kind kind, uint32_t stream_id,
                           uint32_t group_id, uint32_t parent,
                           const struct place *place) {
    const struct group *group = group_at(engine, group_id);
    struct stream *stream = stream_at(engine, stream_id);
    struct sub *sub;
    uint32_t id;

    assert((kind == SUB_DERIVED) == (group->kind == GROUP_DERIVED));
    assert((kind == SUB_DERIVED) == (parent != 0) && !stream->ended);
    if (tdg__group_reserve(engine, group_id) < 0 ||
        tdg__map_reserve(&engine->pair_map) < 0)
        return 0;
    sub = tdg__pool_alloc(&engine->subs, &id);
    if (sub == NULL)
        return 0;

    sub->kind = (uint8_t)kind;
    sub->stream = stream_id;
    sub->parent = parent;
    tdg__group_join(engine, group_id, id);
    link_pair(engine, id, place);
    tdg__list_append(own_list(engine, sub), &engine->subs, OWN, id);
    if (kind == SUB_DERIVED) {
        sub->priority = sub_at(engine, parent)->priority;
        stream->derived++;
    } else {
        stream->subs++;
        stream->templates += kind == SUB_TEMPLATE;
        engine->counters.subscriptions++;
        subject_of(engine, group)->watch.users++;
    }
    if (kind == SUB_DIRECT) {
        struct resource *resource = resource_at(engine, group->owner);

        resource->likely_sub = id;
        resource->likely_stream = stream_id;
    }
    return id;
}

uint32_t tdg__derived_create(tdg__engine_t *engine, uint32_t parent_id, uint32_t group) {
    uint32_t stream = sub_at(engine, parent_id)->stream;
    struct place place = find_place(engine, stream, group_at(engine, group)->owner);

    return create_sub(engine, SUB_DERIVED, stream, group, parent_id, &place);
}

/* ---- Removing ----------------------------------------------------------- */

void tdg__sub_release_hold(tdg__engine_t *engine, struct sub *sub) {
    if ((sub->flags & SUB_HOLDS) == 0)
        return;
    assert(stream_at(engine, sub->stream)->holds > 0);
    sub->flags &= (uint8_t)~SUB_HOLDS;
    stream_at(engine, sub->stream)->holds--;
}

static void count_out(tdg__engine_t *engine, const struct sub *sub) {
    struct stream *stream = stream_at(engine, sub->stream);

    assert((sub->kind == SUB_DERIVED ? stream->derived : stream->subs) > 0);
    if (sub->kind == SUB_DERIVED) {
        stream->derived--;
    } else {
        stream->subs--;
        stream->templates -= sub->kind == SUB_TEMPLATE;
        engine->counters.subscriptions--;
        tdg__tally_give(engine, 1, 0);
    }
}

void tdg__sub_ground(tdg__engine_t *engine, uint32_t id) {
    struct sub *sub = sub_at(engine, id);

    if (sub->kind != SUB_TEMPLATE)
        tdg__flight_leave(engine, id);
    else
        while (sub->derived.first != 0)
            tdg__sub_remove(engine, sub->derived.first);
}

void tdg__sub_remove(tdg__engine_t *engine, uint32_t id) {
    struct sub *sub = sub_at(engine, id);
    uint32_t group_id = sub->group;
    bool watches = sub->kind != SUB_DERIVED;
    struct subject *subject = subject_of(engine, group_at(engine, group_id));

    assert(sub->kind != SUB_FREE);
    /* Far apart in memory, and all needed below: have them on their way. */
    prefetch(stream_at(engine, sub->stream), sizeof(struct stream));
    tdg__group_prefetch_leave(engine, sub);

    tdg__sub_ground(engine, id);
    tdg__queue_leave(engine, id);
    tdg__sub_release_hold(engine, sub);
    unlink_pair(engine, id);
    tdg__list_remove(own_list(engine, sub), &engine->subs, OWN, id);
    count_out(engine, sub);
    tdg__group_leave(engine, id);
    tdg__pool_free(&engine->subs, id);

    /* The watcher counts this sub until here, which keeps its target alive. */
    tdg__group_release(engine, group_id);
    if (watches)
        tdg__watch_leave(engine, subject);
}

int tdg__engine_unsubscribe(tdg__engine_t *engine, tdg__stream_t handle,
                            const tdg__target_t *target) {
    uint32_t stream = tdg__stream_find(engine, handle);
    uint32_t id;

    if (stream == 0 || !tdg__target_valid(target))
        return TDG_ENOTFOUND;

    id = tdg__sub_find_own(engine, stream, target);
    if (id == 0)
        return TDG_ENOTFOUND;
    tdg__sub_remove(engine, id);
    return 0;
}

/* ---- Subscribing -------------------------------------------------------- */

/* The bytes that one more subscription adds: a name counts once. */
static size_t added_bytes(const struct subject *subject) {
    return subject->watch.users == 0 ? subject->len : 0;
}

/* Takes its place among all subscriptions, if there is one. */
static int check_limits(tdg__engine_t *engine, const struct stream *stream,
                        const struct subject *subject) {
    if (stream->subs >= engine->opts.max_subscriptions)
        return TDG_ESUBSCRIPTIONS;
    if (subject->kind == TDG__TARGET_TEMPLATE &&
        stream->templates >= engine->opts.max_templates)
        return TDG_ETEMPLATES;
    return tdg__tally_take(engine, 1, added_bytes(subject)) ? 0 : TDG_ETOTAL;
}

static struct comeback comeback_of(const tdg__engine_t *engine,
                                   const tdg__sub_opts_t *opts) {
    struct comeback from = {0};

    if (opts->has_cursor) {
        from.flags = SUB_CURSOR;
        from.at = (int64_t)opts->cursor.number;
        if (tdg__cursor_is_foreign(engine, opts->cursor))
            from.flags |= SUB_FOREIGN;
    } else if (opts->since_ms > 0) {
        from.flags = SUB_SINCE;
        from.at = engine->now_ms - opts->since_ms;
    }
    return from;
}

/* For when it is settled. Of two cursors, or two times, the older one counts; there is
 * room for one, so a time beside a cursor makes one that is older than everything. */
static void remember_cursor(struct sub *sub, const struct comeback *from) {
    uint8_t kind = from->flags & (SUB_CURSOR | SUB_SINCE);
    uint8_t had = sub->flags & (SUB_CURSOR | SUB_SINCE);

    if (kind == 0)
        return;
    if (had == 0)
        sub->resume = from->at;
    else if (had != kind)
        sub->flags |= SUB_CURSOR | SUB_FOREIGN;
    else if (kind == SUB_SINCE ? from->at < sub->resume
                               : (uint64_t)from->at < (uint64_t)sub->resume)
        sub->resume = from->at;
    sub->flags |= from->flags;
    if ((sub->flags & SUB_CURSOR) != 0)
        sub->flags &= (uint8_t)~SUB_SINCE;
}

/* The changes that it missed are known only when it is settled; until then its stream
 * must not claim more than its cursor did. */
static void hold_cursor(tdg__engine_t *engine, struct sub *sub) {
    struct stream *stream = stream_at(engine, sub->stream);
    uint64_t first = (sub->flags & SUB_FOREIGN) != 0 ? 0 : (uint64_t)sub->resume + 1;

    if ((sub->flags & SUB_CURSOR) == 0)
        return;
    if (stream->holds == 0 || first < stream->held_first)
        stream->held_first = first;
    stream->holds += (sub->flags & SUB_HOLDS) == 0;
    sub->flags |= SUB_HOLDS;
}

/* Starts or joins the watcher, and catches up if that is settled at once. */
static int settle_or_wait(tdg__engine_t *engine, uint32_t id, tdg__subscribed_t *ret) {
    struct sub *sub = sub_at(engine, id);
    struct subject *subject = subject_of(engine, group_at(engine, sub->group));
    tdg__sub_state_t state;
    int rv;

    rv = tdg__watch_join(engine, subject, &state);
    if (rv < 0)
        return rv;

    sub->state = (uint8_t)state;
    ret->state = state;
    ret->resumed = true;
    if (state == TDG__SUBSCRIBING) {
        tdg__watch_wait(engine, &subject->watch, id);
        hold_cursor(engine, sub);
        return 0;
    }
    if (subject->watch.state == WATCH_LATE)
        sub->flags |= SUB_LATE;
    return tdg__catch_up(engine, id, &ret->resumed);
}

/* check_limits() has counted it. */
static int subscribe_new(tdg__engine_t *engine, uint32_t stream_id,
                         struct subject *subject, const struct place *place,
                         const tdg__sub_opts_t *opts, tdg__shared_filter_t *filter,
                         tdg__subscribed_t *ret) {
    enum sub_kind kind =
        subject->kind == TDG__TARGET_TEMPLATE ? SUB_TEMPLATE : SUB_DIRECT;
    struct comeback from = comeback_of(engine, opts);
    uint32_t group, id;
    int rv;

    group = tdg__group_get(engine, subject, &opts->settings, filter);
    id = group != 0 ? create_sub(engine, kind, stream_id, group, 0, place) : 0;
    if (id == 0) {
        tdg__tally_give(engine, 1, added_bytes(subject));
        if (group != 0)
            tdg__group_release(engine, group);
        return TDG_ENOMEM;
    }

    sub_at(engine, id)->priority = (int8_t)opts->priority;
    tdg__sub_begin(engine, sub_at(engine, id));
    remember_cursor(sub_at(engine, id), &from);
    rv = settle_or_wait(engine, id, ret);
    if (rv < 0)
        tdg__sub_remove(engine, id);
    return rv;
}

/* ---- New wishes for a subscription that is there ------------------------ */

static void set_priority(tdg__engine_t *engine, uint32_t id, int priority) {
    struct sub *sub = sub_at(engine, id);
    bool ready = sub->queued == QUEUE_READY;

    if (sub->priority == priority)
        return;
    if (ready)
        tdg__queue_leave(engine, id);
    sub->priority = (int8_t)priority;
    if (ready)
        tdg__stream_make_ready(engine, id);
}

/* Where a derived sub goes when its parent moves to another group. */
static uint32_t derived_target(tdg__engine_t *engine, uint32_t id, uint32_t source) {
    const struct group *from = group_at(engine, sub_at(engine, id)->group);

    return tdg__group_get_derived(engine, from->owner, source);
}

static int reserve_derived(tdg__engine_t *engine, const struct sub *sub,
                           uint32_t source) {
    for (uint32_t id = sub->derived.first; id != 0; id = sub_at(engine, id)->own.next) {
        uint32_t group = derived_target(engine, id, source);

        if (group == 0 || tdg__group_reserve(engine, group) < 0)
            return TDG_ENOMEM;
    }
    return 0;
}

/* Frees those of the derived groups that nobody moved to. */
static void release_derived(tdg__engine_t *engine, const struct sub *sub,
                            uint32_t source) {
    for (uint32_t id = sub->derived.first; id != 0; id = sub_at(engine, id)->own.next) {
        uint32_t resource = group_at(engine, sub_at(engine, id)->group)->owner;
        uint32_t group = tdg__group_find_derived(engine, resource, source);

        if (group != 0)
            tdg__group_release(engine, group);
    }
}

static int move_template(tdg__engine_t *engine, uint32_t id, uint32_t to) {
    struct sub *sub = sub_at(engine, id);
    uint32_t from = sub->group;
    int rv;

    rv = reserve_derived(engine, sub, to);
    if (rv < 0) {
        release_derived(engine, sub, to);
        tdg__group_release(engine, to);
        return rv;
    }

    tdg__group_leave(engine, id);
    tdg__group_join(engine, to, id);
    for (uint32_t d = sub->derived.first; d != 0; d = sub_at(engine, d)->own.next)
        tdg__group_move(engine, d, derived_target(engine, d, to));
    tdg__group_release(engine, from);
    return 0;
}

static int move_to(tdg__engine_t *engine, uint32_t id, uint32_t to) {
    int rv;

    if (sub_at(engine, id)->kind == SUB_TEMPLATE)
        return move_template(engine, id, to);

    rv = tdg__group_reserve(engine, to);
    if (rv == 0)
        tdg__group_move(engine, id, to);
    else
        tdg__group_release(engine, to);
    return rv;
}

static int rewish(tdg__engine_t *engine, uint32_t id, const tdg__sub_opts_t *opts,
                  tdg__shared_filter_t *filter) {
    struct sub *sub = sub_at(engine, id);
    const struct group *group = group_at(engine, sub->group);
    uint32_t to =
        tdg__group_get(engine, subject_of(engine, group), &opts->settings, filter);
    int rv;

    if (to == 0)
        return TDG_ENOMEM;
    if (to != sub->group) {
        rv = move_to(engine, id, to);
        if (rv < 0)
            return rv;
    }

    set_priority(engine, id, opts->priority);
    if (sub->kind == SUB_TEMPLATE)
        for (uint32_t d = sub->derived.first; d != 0; d = sub_at(engine, d)->own.next)
            set_priority(engine, d, opts->priority);
    return 0;
}

/* A cursor counts as that of a first subscribe does: the client may have lost what it was
 * notified of, or have been elsewhere meanwhile. */
static int subscribe_again(tdg__engine_t *engine, uint32_t id,
                           const tdg__sub_opts_t *opts, tdg__shared_filter_t *filter,
                           tdg__subscribed_t *ret) {
    struct sub *sub = sub_at(engine, id);
    struct comeback from = comeback_of(engine, opts);
    int rv = 0;

    *ret = (tdg__subscribed_t){.state = sub->state, .resumed = true};
    if (from.flags != 0 && sub->state == TDG__SUBSCRIBING) {
        remember_cursor(sub, &from);
        hold_cursor(engine, sub);
    } else if (from.flags != 0) {
        rv = tdg__catch_up_again(engine, id, &from, &ret->resumed);
    }
    return rv < 0 ? rv : rewish(engine, id, opts, filter);
}

/* ---- The calls ---------------------------------------------------------- */

static int check_request(const tdg__engine_t *engine, const tdg__target_t *target,
                         const tdg__sub_opts_t *opts) {
    if (!tdg__target_valid(target) || !tdg__settings_valid(&opts->settings) ||
        opts->priority < TDG__PRIORITY_LOW || opts->priority > TDG__PRIORITY_HIGH ||
        opts->since_ms < 0 ||
        (target->kind == TDG__TARGET_LIST &&
         (opts->filter != NULL || opts->shared != NULL)))
        return TDG_EINVAL;
    if (target->kind != TDG__TARGET_LIST && target->len > engine->opts.max_name_bytes)
        return TDG_EURILEN;
    return 0;
}

static int subscribe(tdg__engine_t *engine, uint32_t stream, const tdg__target_t *target,
                     const tdg__sub_opts_t *opts, tdg__shared_filter_t *filter,
                     tdg__subscribed_t *ret) {
    struct subject *subject;
    struct place place;
    uint32_t id;
    int rv;

    rv = tdg__subject_get(engine, target, opts->error, &subject);
    if (rv < 0)
        return rv;

    subject->pins++;
    place = find_place(engine, stream, pair_target(subject));
    id = own_at(engine, subject, &place);
    if (id != 0)
        rv = subscribe_again(engine, id, opts, filter, ret);
    else
        rv = check_limits(engine, stream_at(engine, stream), subject);
    if (id == 0 && rv == 0)
        rv = subscribe_new(engine, stream, subject, &place, opts, filter, ret);
    subject->pins--;
    tdg__subject_release(engine, subject);
    return rv;
}

int tdg__engine_subscribe(tdg__engine_t *engine, tdg__stream_t handle,
                          const tdg__target_t *target, const tdg__sub_opts_t *opts,
                          tdg__subscribed_t *ret) {
    static const tdg__sub_opts_t no_wishes;
    uint32_t stream = tdg__stream_find(engine, handle);
    tdg__subscribed_t result = {0};
    tdg__shared_filter_t *filter;
    int rv;

    if (stream == 0)
        return TDG_ENOTFOUND;
    if (stream_at(engine, stream)->ended)
        return TDG_EENDED;
    if (opts == NULL)
        opts = &no_wishes;

    rv = check_request(engine, target, opts);
    if (rv < 0)
        return rv;
    filter = tdg__shared_filter_ref(opts->shared);
    if (filter == NULL)
        rv = tdg__engine_filter_get(engine, opts->filter, opts->error, &filter);
    if (rv < 0)
        return rv;

    rv = subscribe(engine, stream, target, opts, filter, &result);
    tdg__engine_filter_unref(engine, filter);
    if (rv == 0 && ret != NULL)
        *ret = result;
    return rv;
}

/* Makes ready what was kept for the acknowledgement. */
static void release_kept(tdg__engine_t *engine, uint32_t id) {
    const struct sub *sub = sub_at(engine, id);

    if (sub->wait == WAIT_ACK && tdg__sub_state(engine, sub) == TDG__SUBSCRIBED)
        tdg__stream_make_ready(engine, id);
}

static void acknowledge_one(tdg__engine_t *engine, uint32_t id) {
    struct sub *sub = sub_at(engine, id);

    assert(sub->state == TDG__ARMED || sub->state == TDG__SUBSCRIBED);
    sub->state = TDG__SUBSCRIBED;
    if (sub->kind == SUB_DIRECT)
        release_kept(engine, id);
    else
        for (uint32_t d = sub->derived.first; d != 0; d = sub_at(engine, d)->own.next)
            release_kept(engine, d);
}

static void acknowledge_all(tdg__engine_t *engine, const struct stream *stream) {
    for (uint32_t id = stream->own.first; id != 0; id = sub_at(engine, id)->own.next)
        if (sub_at(engine, id)->state == TDG__ARMED)
            sub_at(engine, id)->state = TDG__SUBSCRIBED;
    for (uint32_t id = stream->flight.first; id != 0;
         id = sub_at(engine, id)->flight.next)
        release_kept(engine, id);
}

int tdg__engine_acknowledge(tdg__engine_t *engine, tdg__stream_t handle,
                            const tdg__target_t *target) {
    uint32_t stream = tdg__stream_find(engine, handle);
    uint32_t id;

    if (stream == 0)
        return TDG_ENOTFOUND;
    if (target == NULL) {
        acknowledge_all(engine, stream_at(engine, stream));
        return 0;
    }

    id = tdg__target_valid(target) ? tdg__sub_find_own(engine, stream, target) : 0;
    if (id == 0)
        return TDG_ENOTFOUND;
    if (sub_at(engine, id)->state == TDG__SUBSCRIBING)
        return TDG_EAGAIN;
    acknowledge_one(engine, id);
    return 0;
}
