/* SPDX-License-Identifier: MIT
 *
 * The engine's records, and the functions that its files share. docs/engine.md has the
 * rules that they implement.
 *
 *     stream ──owns──▶ sub ──member of──▶ group ──of──▶ resource
 *                       │                   ▲
 *                       └─ template sub ──▶ group of a template: per URI that changes,
 *                          each member gets a derived sub in a derived group, which lives
 *                          while something is in flight, a window or a limit runs
 *
 * All records live in pools and name each other by identifier; 0 is nobody. A pool keeps
 * its own link in the first four bytes of a free record, so no record begins with a field
 * that shows whether it is in use. */
#ifndef TDG_CORE_INTERNAL_H
#define TDG_CORE_INTERNAL_H

#include <stddef.h>

#include "base/bitset.h"
#include "base/filter.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/template.h"
#include "base/template_index.h"
#include "core/engine.h"

enum timer_kind { TIMER_WINDOW, TIMER_LIMIT, TIMER_WATCH };

/* ---- Watching a target -------------------------------------------------- */

enum watch_state {
    WATCH_NONE,
    WATCH_ARMING,
    WATCH_LATE, /* arming, but those that waited were notified of the time-out */
    WATCH_ARMED,
};

struct watch {
    uint8_t state;
    bool known;         /* known_from was valid when watching last ended */
    bool unsettled;     /* armed, but memory was out before all were notified */
    tdg__timer_t timer; /* arming time-out, or linger */
    int64_t since_ms;   /* when arming began */
    uint64_t known_from;
    tdg__list_t waiting; /* subs that are SUBSCRIBING, by their queue link */
    uint32_t users;      /* subscriptions to exactly this target */
};

/* ---- Subscriptions ------------------------------------------------------ */

enum sub_kind {
    SUB_FREE,
    SUB_DIRECT,   /* to a URI or a list */
    SUB_TEMPLATE, /* to a template: never in flight itself */
    SUB_DERIVED,  /* what a template subscription is on one URI, for a while */
};

/* How far a notification is. Everything but IDLE is in flight. */
enum wait_for { IDLE, WAIT_WINDOW, WAIT_LIMIT, WAIT_ACK, WAIT_READER };

/* Which list the queue link is in. */
enum queue { QUEUE_NONE, QUEUE_ARMING, QUEUE_READY, QUEUE_RECENT };

enum sub_flags {
    SUB_TAKEN = 1 << 0,   /* taken_ms is valid */
    SUB_SERVED = 1 << 0,  /* of a template's sub, which has no such time: another sub was
                             taken for it before it was acknowledged */
    SUB_CURSOR = 1 << 1,  /* `resume` holds a number to catch up from when settled */
    SUB_SINCE = 1 << 2,   /* `resume` holds a time to catch up from when settled */
    SUB_FOREIGN = 1 << 3, /* the cursor was of another epoch; also once settled */
    SUB_LATE = 1 << 4,    /* settled by time-out: may have missed something */
    SUB_FAILED = 1 << 5,  /* its watcher failed */
    SUB_HOLDS = 1 << 6,   /* its stream's cursor is held back until it is settled */
    SUB_ASSUMED = 1 << 7, /* was notified of an assumed change that no number shows; a
                             template: of its listed matches. A rewind repeats that */
};

/* What a subscription came with to be compared with what has happened since. */
struct comeback {
    uint8_t flags; /* SUB_CURSOR, maybe with SUB_FOREIGN; or SUB_SINCE; 0: nothing */
    int64_t at;    /* the cursor's number, or the time */
};

enum { SUB_COMEBACK = SUB_CURSOR | SUB_SINCE | SUB_FOREIGN };

struct sub {
    uint32_t stream;
    uint32_t group;
    uint32_t slot;    /* among the group's members */
    uint32_t sibling; /* ring of the stream's subs on the same resource; 0: alone */
    union {
        uint32_t parent;    /* of a derived sub: the template's */
        uint32_t began_low; /* of the others: see tdg__sub_began() */
    };
    uint32_t mark;   /* the group's `passed` before the first change in flight */
    tdg__link_t own; /* the stream's subs; of a derived one: the parent's derived */
    /* What the stream has in flight; of a template's sub: the members of its group. */
    tdg__link_t flight;
    tdg__link_t queue;
    union {
        uint64_t first;      /* the number of the first change in flight */
        tdg__list_t derived; /* of a template's sub, which is never in flight */
    };
    union {
        int64_t taken_ms; /* when the last notification was taken */
        int64_t resume;   /* while SUBSCRIBING: a cursor's number or a time; of a
                             template's sub then: one less than the first number that it
                             was notified of, or could have been */
    };
    tdg__change_t *held; /* an assumed change, or one from a group it has left */
    uint8_t kind;
    uint8_t state; /* tdg__sub_state_t; of a derived sub: see its parent */
    uint8_t wait;
    uint8_t queued; /* which list `queue` is in */
    uint8_t flags;
    int8_t priority;
    uint16_t began_high;
};

#define OWN offsetof(struct sub, own)
#define FLIGHT offsetof(struct sub, flight)
#define QUEUE offsetof(struct sub, queue)

/* ---- Groups ------------------------------------------------------------- */

enum { FEW_MEMBERS = 2, NEVER_FIRED = -1 };

/* The kind of its members. */
enum group_kind { GROUP_DIRECT, GROUP_TEMPLATE, GROUP_DERIVED };

/* A window runs while the group is OPEN or VACANT_OPEN. A derived group without members
 * stays, VACANT, while a window or a throttle runs: members that join again find it.
 *
 *                       a change that is not due yet
 *      ┌──────▶ CALM ────────────────────────────────▶ OPEN ◀──────┐
 *      │         │ ▲              the group fires        │         │
 *      │         │ └─────────────────────────────────────┘         │
 *  a member      │ the last member leaves, and       the last      │ a member
 *    joins       │ the throttle still runs        member leaves    │  joins
 *      │         ▼             a change                  ▼         │
 *      └────── VACANT ◀──────────────────────────▶ VACANT_OPEN ────┘
 *                │             the group fires
 *                ▼
 *              freed, when the throttle is over, or for another group (MAX_VACANT)
 *
 * A direct group and a template's are CALM or OPEN, and freed with their last member. */
enum group_state { GROUP_CALM, GROUP_OPEN, GROUP_VACANT, GROUP_VACANT_OPEN };

struct group {
    uint32_t owner; /* resource; of a template's group: the template */
    uint32_t id;
    uint32_t hash;
    uint32_t source;       /* of a derived group: the template's group; else 0 */
    tdg__link_t by_owner;  /* groups of one subject */
    tdg__link_t by_source; /* derived groups of one source */
    tdg__list_t derived;   /* of a template's group: these */
    tdg__link_t by_age;    /* vacant groups */
    tdg__settings_t wishes;
    tdg__shared_filter_t *filter;
    tdg__change_t *newest;     /* held while a member is in flight */
    uint32_t passed;           /* changes that passed, counted round */
    uint32_t in_flight;        /* members */
    int64_t first_ms, last_ms; /* of the changes in the window */
    int64_t fired_ms;          /* or NEVER_FIRED */
    tdg__timer_t window_timer, limit_timer;
    tdg__list_t recent; /* members by taken_ms; of a template's group: all members in the
                           order they came */
    uint32_t limited;   /* members with WAIT_LIMIT */
    uint32_t waiting;   /* the first so many members take part in the open window */
    uint32_t count, room;
    union {
        uint32_t few[FEW_MEMBERS];
        uint32_t *many;
    };
    uint8_t kind, state;
    bool passes; /* prepare()'s verdict on the change at hand, for commit() */
};

#define BY_OWNER offsetof(struct group, by_owner)
#define BY_SOURCE offsetof(struct group, by_source)
#define BY_AGE offsetof(struct group, by_age)

/* ---- Subjects ----------------------------------------------------------- */

/* What resources and templates have in common; they begin with it. */
struct subject {
    uint32_t hash;
    uint32_t id;
    const char *name; /* a resource owns its own; a template's is that of `parsed` */
    uint32_t len;
    uint32_t pins; /* somebody up the stack needs it */
    tdg__list_t groups;
    uint8_t kind;       /* tdg__target_kind_t */
    bool lingers;       /* watched, without users */
    tdg__link_t by_age; /* of those that linger */
    struct watch watch;
};

#define LINGERER offsetof(struct subject, by_age)

/* A short name stands in the record: looking it up then touches one place less. */
enum { SHORT_NAME = 48 };

struct resource {
    struct subject subject;
    char short_name[SHORT_NAME]; /* with its NUL; longer ones are allocated */
    bool last_deleted;
    uint64_t last_number; /* 0: none that is remembered */
    int64_t last_ms, last_wall_ms;
    uint32_t config, template_config;
    uint32_t likely_sub, likely_stream; /* who subscribed last: a hint for prefetching */
};

struct template_ {
    struct subject subject;
    tdg__template_t *parsed;
    uint64_t marked; /* in the last look for subscribers that it takes part in */
};

struct tdg__shared_filter {
    uint32_t id;
    uint32_t refs;
    tdg__filter_t *parsed;
    uint64_t seen; /* the last attempt it was asked in, and its answer */
    bool verdict;
};

struct config {
    uint32_t hash;
    uint32_t order;
    tdg__link_t by_order;
    char *name;
    uint32_t len;
    uint8_t kind;
    tdg__template_t *parsed; /* of a template */
    tdg__settings_t settings;
};

/* ---- Streams ------------------------------------------------------------ */

enum { PRIORITIES = 3 };

struct stream {
    uint32_t next_doomed;
    uint32_t generation;
    void *user;
    tdg__list_t own;    /* subs, but for derived ones */
    tdg__list_t flight; /* subs in flight, by `first` */
    tdg__list_t
        ready[PRIORITIES]; /* subs that can be taken, the highest priority first */
    uint32_t subs, templates;
    uint32_t derived, derived_in_flight;
    uint32_t holds; /* subs that wait for their watcher with a cursor */
    uint64_t
        held_first;     /* the smallest number after such a cursor, while there are any */
    uint64_t end_first; /* of an ended stream: what `first` of its oldest in flight was */
    int32_t end_reason;
    bool blocked, ended, end_taken;
};

/* ---- The engine --------------------------------------------------------- */

struct past {
    uint64_t number;
    int64_t ms;
    uint32_t resource;
};

struct tdg__engine {
    tdg__engine_opts_t opts; /* defaults filled in */
    tdg__hash_key_t key;
    int64_t now_ms, wall_ms;
    int64_t taking_ms; /* when something is taken, if later */
    uint64_t last_number;
    bool reached;      /* shared numbers: the last number is not that of a change */
    uint64_t armed_at; /* shared numbers: of the next arming; 0: not said */
    uint64_t attempts; /* changes that came in, whether they took effect or not */
    uint32_t generation;

    tdg__pool_t streams, subs, groups, resources, templates, filters, configs;
    tdg__map_t resource_map, template_map, pair_map, group_map, filter_map, config_map;
    tdg__template_index_t *template_index, *config_index;
    uint32_t config_order;
    tdg__list_t configured; /* by order */
    bool has_floor;         /* one was configured at some time */
    tdg__heap_t timers;
    tdg__bitset_t ready;
    uint32_t first_doomed; /* streams to be ended for TDG_EPENDING */
    struct lingerers {
        tdg__list_t list; /* the oldest first */
        uint32_t count;
    } lingering[2];     /* resources, templates */
    tdg__list_t vacant; /* groups, the oldest first */
    uint32_t vacant_count;

    struct past *history; /* a ring of opts.history */
    uint32_t past_first, past_count;
    uint64_t dropped; /* number of the newest entry that left the history */
    uint64_t floor;   /* largest last_number of a resource that was forgotten */

    tdg__change_t *loan; /* what the last take() lent */
    uint64_t looks;      /* for subscribers through templates, page by page */
    size_t member_bytes, name_bytes;
    tdg__tally_t *tally; /* of this and other engines, or: */
    tdg__tally_t own_tally;
    size_t subscribed_bytes; /* this engine's in it: of the names that have subscriptions,
                                and of filters */
    tdg__counters_t counters;
};

static inline struct stream *stream_at(const tdg__engine_t *engine, uint32_t id) {
    return tdg__pool_get(&engine->streams, id);
}

static inline struct sub *sub_at(const tdg__engine_t *engine, uint32_t id) {
    return tdg__pool_get(&engine->subs, id);
}

static inline struct group *group_at(const tdg__engine_t *engine, uint32_t id) {
    return tdg__pool_get(&engine->groups, id);
}

static inline struct resource *resource_at(const tdg__engine_t *engine, uint32_t id) {
    return tdg__pool_get(&engine->resources, id);
}

static inline struct template_ *template_at(const tdg__engine_t *engine, uint32_t id) {
    return tdg__pool_get(&engine->templates, id);
}

static inline struct subject *subject_of(const tdg__engine_t *engine,
                                         const struct group *group) {
    return tdg__pool_get(group->kind == GROUP_TEMPLATE ? &engine->templates
                                                       : &engine->resources,
                         group->owner);
}

static inline bool tdg__group_is_open(const struct group *group) {
    return group->state == GROUP_OPEN || group->state == GROUP_VACANT_OPEN;
}

/* Whether a cursor is not one of this engine's: of another epoch, or with a number that
 * it has not given out. Where numbers are shared, another engine may be ahead. */
static inline bool tdg__cursor_is_foreign(const tdg__engine_t *engine,
                                          tdg__cursor_t cursor) {
    return cursor.epoch != engine->opts.epoch ||
           (cursor.number > engine->last_number && !engine->opts.shared_numbers);
}

/* The last number when a subscription was made, or when it caught up, if later: a cursor
 * up to there is older than what catch-up has notified it of. Kept as 48 bits above the
 * first number, which last for 89 years of 100,000 changes a second, so that records do
 * not grow. */
static inline uint64_t tdg__sub_began(const tdg__engine_t *engine,
                                      const struct sub *sub) {
    return engine->opts.first_number - 1 +
           ((uint64_t)sub->began_high << 32 | sub->began_low);
}

static inline void tdg__sub_begin(const tdg__engine_t *engine, struct sub *sub) {
    uint64_t offset = engine->last_number - (engine->opts.first_number - 1);

    sub->began_low = (uint32_t)offset;
    sub->began_high = (uint16_t)(offset >> 32);
}

static inline uint32_t *tdg__group_members(struct group *group) {
    return group->room > FEW_MEMBERS ? group->many : group->few;
}

/* Fetches a record that will be needed soon, both ends of it: records straddle cache
 * lines. Without always_inline gcc sees no effect in it and drops the call. */
__attribute__((always_inline)) static inline void prefetch(const void *record,
                                                           size_t size) {
    __builtin_prefetch(record, 1);
    __builtin_prefetch((const char *)record + size - 1, 1);
}

/* ---- stream.c: streams, what is in flight on them, what is ready -------- */

/* The identifier behind a handle, or 0. */
uint32_t tdg__stream_find(const tdg__engine_t *engine, tdg__stream_t handle);
tdg__stream_t tdg__stream_handle(const tdg__engine_t *engine, uint32_t id);

/* Puts a sub in flight, behind all others (`first` is the newest number); or in front of
 * them, where `first` may be older, even if it is in flight already. */
void tdg__flight_append(tdg__engine_t *engine, uint32_t id, uint64_t first);
void tdg__flight_prepend(tdg__engine_t *engine, uint32_t id, uint64_t first);
/* Takes it out, wherever it waits, and releases what it held. */
void tdg__flight_leave(tdg__engine_t *engine, uint32_t id);

/* The newest change that passed a sub in flight. Borrowed. */
tdg__change_t *tdg__flight_newest(const tdg__engine_t *engine, const struct sub *sub);

void tdg__stream_make_ready(tdg__engine_t *engine, uint32_t sub_id);
/* Marks a stream to be ended for TDG_EPENDING by tdg__streams_end_doomed(). */
void tdg__stream_doom(tdg__engine_t *engine, uint32_t id, uint64_t number);
void tdg__streams_end_doomed(tdg__engine_t *engine);
/* Out of the queue that it is in, if any. */
void tdg__queue_leave(tdg__engine_t *engine, uint32_t sub_id);

/* ---- group.c: members, windows, limits ---------------------------------- */

/* The group of those who subscribe to `subject` itself with these wishes, made where it
 * is missing; 0 when memory is out. `filter` is borrowed. */
uint32_t tdg__group_get(tdg__engine_t *engine, const struct subject *subject,
                        const tdg__settings_t *wishes, tdg__shared_filter_t *filter);
/* The same for the derived group of a template's group, `source`, on a resource; and that
 * group where there is one, else 0. */
uint32_t tdg__group_get_derived(tdg__engine_t *engine, uint32_t resource,
                                uint32_t source);
uint32_t tdg__group_find_derived(const tdg__engine_t *engine, uint32_t resource,
                                 uint32_t source);
/* Makes room for one more member, so that joining cannot fail. */
int tdg__group_reserve(tdg__engine_t *engine, uint32_t group_id);
void tdg__group_join(tdg__engine_t *engine, uint32_t group_id, uint32_t sub_id);
/* Follow it by tdg__group_release(). */
void tdg__group_leave(tdg__engine_t *engine, uint32_t sub_id);
void tdg__group_prefetch_leave(const tdg__engine_t *engine, const struct sub *sub);
/* Frees the group if it has no member and no window that matters. */
void tdg__group_release(tdg__engine_t *engine, uint32_t group_id);
/* The member no longer takes part in the open window. */
void tdg__group_unwait(tdg__engine_t *engine, struct sub *sub);
/* A change passed the group's filter. */
void tdg__group_change(tdg__engine_t *engine, uint32_t group_id, tdg__change_t *change);
/* A sub in flight is due: on to limit, acknowledgement or reader. */
void tdg__group_due(tdg__engine_t *engine, uint32_t sub_id, bool skip_limit);
/* A notification of this sub was taken now. A derived sub is freed, unless a limit begins
 * and is to be kept. */
void tdg__group_taken(tdg__engine_t *engine, uint32_t sub_id, bool keep);
/* Moves a member to another group, with what it has in flight. Needs room there; the
 * group it leaves may be freed. */
void tdg__group_move(tdg__engine_t *engine, uint32_t sub_id, uint32_t to);
void tdg__group_on_window(tdg__engine_t *engine, struct group *group);
void tdg__group_on_limit(tdg__engine_t *engine, struct group *group);
/* Window and limits of a group of a resource end now; the group may be freed. */
void tdg__group_end_windows(tdg__engine_t *engine, struct group *group);
/* Settings changed: windows and limits are measured anew. */
void tdg__group_rearm(tdg__engine_t *engine, uint32_t group_id);
/* Releases the newest change once no member waits for it. */
void tdg__group_forget_newest(struct group *group);

/* ---- subscribe.c -------------------------------------------------------- */

/* Takes out of flight what a subscription has there, itself or derived from it. */
void tdg__sub_ground(tdg__engine_t *engine, uint32_t id);
/* Its stream's cursor no longer waits for it. */
void tdg__sub_release_hold(tdg__engine_t *engine, struct sub *sub);
/* Removes a subscription, of whatever kind, with everything it had. */
void tdg__sub_remove(tdg__engine_t *engine, uint32_t id);
/* The stream's own subscription to exactly this target. */
uint32_t tdg__sub_find_own(const tdg__engine_t *engine, uint32_t stream,
                           const tdg__target_t *target);

/* A new derived sub of a template sub, in a derived group; 0 when memory is out. */
uint32_t tdg__derived_create(tdg__engine_t *engine, uint32_t parent_id, uint32_t group);
/* The derived sub of a template sub on a resource, or 0. */
uint32_t tdg__derived_find(const tdg__engine_t *engine, uint32_t parent_id,
                           uint32_t resource);
tdg__sub_state_t tdg__sub_state(const tdg__engine_t *engine, const struct sub *sub);

/* ---- resource.c: resources, templates, history -------------------------- */

/* The resource or template of a target; NULL where there is none. */
struct subject *tdg__subject_find(const tdg__engine_t *engine,
                                  const tdg__target_t *target);
/* The same, made where it is missing. Returns 0, TDG_ENOMEM, TDG_ETEMPLATE or
 * TDG_EAMBIGUOUS. */
int tdg__subject_get(tdg__engine_t *engine, const tdg__target_t *target,
                     tdg__parse_error_t *error, struct subject **ret);
/* Frees it if it is no longer needed. */
void tdg__subject_release(tdg__engine_t *engine, struct subject *subject);
tdg__target_t tdg__subject_target(const struct subject *subject);
/* Frees a name that is not short. */
void tdg__resource_free_name(struct resource *resource);

void tdg__history_add(tdg__engine_t *engine, uint32_t resource,
                      const tdg__change_t *change);

/* ---- tally.c ------------------------------------------------------------ */

/* So many subscriptions and bytes more; false: there is no room for them. */
bool tdg__tally_take(tdg__engine_t *engine, uint32_t subscriptions, size_t bytes);
void tdg__tally_give(tdg__engine_t *engine, uint64_t subscriptions, size_t bytes);

/* ---- shared_filter.c ---------------------------------------------------- */

/* One reference more, for tdg__engine_filter_unref(). */
tdg__shared_filter_t *
tdg__shared_filter_ref(tdg__shared_filter_t *filter); /* NULL is accepted */
bool tdg__shared_filter_pass(tdg__engine_t *engine, tdg__shared_filter_t *filter,
                             const tdg__change_t *change);

/* ---- watch.c ------------------------------------------------------------ */

/* One more subscription: watches if need be. Returns 0 with the state the subscription is
 * in then, or what `watch` refused with. */
int tdg__watch_join(tdg__engine_t *engine, struct subject *subject,
                    tdg__sub_state_t *ret_state);
/* One subscription less; the subject may go with it. */
void tdg__watch_leave(tdg__engine_t *engine, struct subject *subject);
void tdg__watch_wait(tdg__engine_t *engine, struct watch *watch, uint32_t sub_id);
void tdg__watch_on_timer(tdg__engine_t *engine, struct subject *subject);
/* Calls unwatch for every watcher, at the end of the engine. */
void tdg__watches_done(tdg__engine_t *engine);

/* ---- engine.c ----------------------------------------------------------- */

/* The number of a watcher that is armed now. */
uint64_t tdg__arming_number(tdg__engine_t *engine);

/* ---- apply.c ------------------------------------------------------------ */

/* Whether a stream may read a URI that a template of its matches. */
bool tdg__may_read(const tdg__engine_t *engine, uint32_t stream, uint32_t resource);
/* The derived sub of a template sub on a resource, made where it is missing: *ret is 0
 * where it may not read. Returns 0 or TDG_ENOMEM. */
int tdg__derived_get(tdg__engine_t *engine, uint32_t parent_id, uint32_t resource,
                     uint32_t group, uint32_t *ret);

/* ---- catchup.c ---------------------------------------------------------- */

/* Puts in flight what a subscription missed, by its cursor or `since`. Returns 0 or
 * TDG_ENOMEM (call again). */
int tdg__catch_up(tdg__engine_t *engine, uint32_t sub_id, bool *ret_resumed);
/* The same for one that has caught up before, and comes with another cursor or `since`.
 */
int tdg__catch_up_again(tdg__engine_t *engine, uint32_t sub_id,
                        const struct comeback *from, bool *ret_resumed);
/* Whatever the subscription names may have changed before `first`. Returns 0 or
 * TDG_ENOMEM (call again). */
int tdg__assume_changed(tdg__engine_t *engine, uint32_t sub_id, uint64_t first);

/* ---- settings.c --------------------------------------------------------- */

bool tdg__settings_valid(const tdg__settings_t *settings);
tdg__timing_t tdg__timing_of(const tdg__engine_t *engine, const struct group *group);
int64_t tdg__limit_of(const tdg__engine_t *engine,
                      const struct group *group); /* 0: none */
void tdg__resource_configure(tdg__engine_t *engine, struct resource *resource);
void tdg__configs_done(tdg__engine_t *engine);

#endif
