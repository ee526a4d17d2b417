/* SPDX-License-Identifier: MIT
 *
 * Watchers: one per target, for all workers together.
 *
 *             wanted           0, or the answer
 *     IDLE ──────────▶ STARTING ──────────▶ ARMED ──┐ nobody wants it
 *      ▲ ▲                │ ╲ TDG_EAGAIN     ▲      ▼
 *      │ └── error ───────┘  ▶ WAITING ──────┘   STOPPING
 *      └─────────────────────────────────────────────┘
 *
 * In STARTING and STOPPING a callback runs on some thread, without the lock. Whatever
 * happens meanwhile is only noted in the watch, and that thread goes on from there: so
 * there are never two callbacks at a time, and start() and stop() take turns. */
#include "server/hub/hub.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>
#include <tidings/server.h> /* TDG_WATCH_… */

#include "base/alloc.h"
#include "server/hub/hub_internal.h"

enum state { IDLE, STARTING, WAITING, ARMED, STOPPING };

/* That a worker wants a target watched. A want that was answered with an error is kept
 * until the answer was taken, so that the worker can still withdraw it and not get the
 * answer. */
struct want {
    tdg__queue_t link; /* in the watch's `wants` */
    struct watch *watch;
    struct member *member;
    tdg__answer_t *answer;
    bool answered;
    int error;           /* as answered; below 0: it has failed */
    tdg__queue_t failed; /* in the member's list of that name, while it has */
};

struct watch {
    uint32_t id;
    uint32_t hash;
    enum state state;
    tdg__target_t target; /* owns the name; NULL: the record is not in use */
    tdg__queue_t wants;   /* newest first */
    bool answered;        /* while STARTING: tdg__hub_watch_done() was faster */
    int answer;
    int existence; /* TDG_WATCH_…; 0: its watcher says nothing about that */
    int meanwhile; /* while STARTING: the same as published or said since; 0: nothing */
    uint64_t armed_at; /* the number of its arming, while ARMED */
};

/* ---- Records ------------------------------------------------------------ */

void tdg__hub_init_watches(tdg__hub_t *hub) {
    tdg__pool_init(&hub->watches, sizeof(struct watch));
    tdg__map_init(&hub->watch_map);
}

static uint32_t hash_of(const tdg__hub_t *hub, const tdg__target_t *target) {
    return (uint32_t)tdg__hash(&hub->key, target->name, target->len) +
           (uint32_t)target->kind;
}

static bool is_watch_of(const void *hub, uint32_t id, const void *key) {
    const struct watch *watch = tdg__pool_get(&((const tdg__hub_t *)hub)->watches, id);
    const tdg__target_t *target = key;

    return watch->target.kind == target->kind && watch->target.len == target->len &&
           memcmp(watch->target.name, target->name, target->len) == 0;
}

static struct watch *find_watch(const tdg__hub_t *hub, const tdg__target_t *target) {
    uint32_t id =
        tdg__map_find(&hub->watch_map, hash_of(hub, target), is_watch_of, hub, target);

    return id == 0 ? NULL : tdg__pool_get(&hub->watches, id);
}

static struct watch *create_watch(tdg__hub_t *hub, const tdg__target_t *target) {
    char *name = tdg__strndup(target->name, target->len);
    struct watch *watch;
    uint32_t id;

    if (name == NULL || tdg__map_reserve(&hub->watch_map) < 0)
        goto fail_name;
    watch = tdg__pool_alloc(&hub->watches, &id);
    if (watch == NULL)
        goto fail_name;

    watch->id = id;
    tdg__queue_init(&watch->wants);
    watch->hash = hash_of(hub, target);
    watch->target = (tdg__target_t){target->kind, name, target->len};
    tdg__map_insert(&hub->watch_map, watch->hash, id);
    return watch;

fail_name:
    tdg__free(name);
    return NULL;
}

static void set_existence(tdg__hub_t *hub, struct watch *watch, int existence) {
    assert(existence >= 0 && existence <= TDG_WATCH_ABSENT);
    if (watch->existence == TDG_WATCH_ABSENT)
        atomic_fetch_sub(&hub->unsettled, 1);
    if (existence == TDG_WATCH_ABSENT)
        atomic_fetch_add(&hub->unsettled, 1);
    watch->existence = existence;
}

static void free_if_unused(tdg__hub_t *hub, struct watch *watch) {
    if (watch->state != IDLE || !tdg__queue_is_empty(&watch->wants))
        return;
    assert(watch->target.name != NULL);
    set_existence(hub, watch, 0);
    tdg__map_remove(&hub->watch_map, watch->hash, watch->id);
    tdg__free((char *)(uintptr_t)watch->target.name);
    tdg__pool_free(&hub->watches, watch->id);
}

static struct want *find_want(const struct watch *watch, const struct member *member) {
    for (tdg__queue_t *at = watch->wants.next; at != &watch->wants; at = at->next) {
        struct want *want = TDG__RECORD(struct want, link, at);

        if (want->member == member)
            return want;
    }
    return NULL;
}

static struct want *create_want(struct watch *watch, struct member *member) {
    struct want *want = tdg__calloc(1, sizeof(*want));

    if (want == NULL || tdg__inbox_prepare_answer(&watch->target, &want->answer) < 0) {
        tdg__free(want);
        return NULL;
    }
    want->watch = watch;
    want->member = member;
    tdg__queue_prepend(&watch->wants, &want->link);
    return want;
}

/* The watch stays, even if it is no longer needed. */
static void drop_want(struct want *want) {
    assert((want->error < 0) == tdg__queue_has(&want->failed));
    tdg__queue_remove(&want->link);
    if (want->error < 0)
        tdg__queue_remove(&want->failed);
    tdg__inbox_drop_answer(want->member->inbox, want->answer);
    tdg__free(want);
}

/* Forgets the wants of a member whose errors it has taken. Answers are taken in the order
 * in which they were given, so whatever still waits is at the end. */
static void sweep(tdg__hub_t *hub, struct member *member) {
    while (!tdg__queue_is_empty(&member->failed)) {
        struct want *want = TDG__RECORD(struct want, failed, member->failed.next);
        struct watch *watch = want->watch;

        if (tdg__inbox_answer_waits(member->inbox, want->answer))
            return;
        drop_want(want);
        free_if_unused(hub, watch);
    }
}

/* ---- Answering ---------------------------------------------------------- */

static bool is_wanted(const struct watch *watch) {
    for (tdg__queue_t *at = watch->wants.next; at != &watch->wants; at = at->next)
        if (TDG__RECORD(struct want, link, at)->error == 0)
            return true;
    return false;
}

static bool somebody_waits(const struct watch *watch) {
    for (tdg__queue_t *at = watch->wants.next; at != &watch->wants; at = at->next)
        if (!TDG__RECORD(struct want, link, at)->answered)
            return true;
    return false;
}

/* From which number on a member knows of a target that is watched: the arming, unless it
 * has joined later and may have missed something since. */
static uint64_t armed_since(tdg__hub_t *hub, const struct watch *watch,
                            const struct member *member) {
    if (watch->state != ARMED)
        return 0;
    return member->joined_at <= watch->armed_at ? watch->armed_at
                                                : tdg__hub_next_number(hub);
}

/* Answers the members that wait. The number of an arming is taken where changes get
 * theirs, and the answers are put in before the next change is. */
static void answer_all(tdg__hub_t *hub, struct watch *watch, int error,
                       struct wakes *wakes) {
    bool armed_before = watch->state == ARMED;

    assert(watch->state != IDLE && watch->state != STOPPING);
    assert(error == 0 || (error < 0 && !armed_before));
    watch->state = error == 0 ? ARMED : IDLE;
    if (!somebody_waits(watch))
        return;

    pthread_mutex_lock(&hub->lock);
    if (error == 0 && !armed_before)
        watch->armed_at = tdg__hub_next_number(hub);
    for (tdg__queue_t *at = watch->wants.next; at != &watch->wants; at = at->next) {
        struct want *want = TDG__RECORD(struct want, link, at);
        int rv;

        if (want->answered)
            continue;
        want->answered = true;
        rv = tdg__inbox_put_answer(want->member->inbox, want->answer, error,
                                   armed_since(hub, watch, want->member));
        tdg__hub_note_wake(wakes, want->member->inbox, rv);
        want->error = error;
        if (error < 0)
            tdg__queue_append(&want->member->failed, &want->failed);
    }
    pthread_mutex_unlock(&hub->lock);
}

/* ---- Driving ------------------------------------------------------------ */

static int call_start(tdg__hub_t *hub, struct watch *watch, struct wakes *wakes) {
    int rv;

    if (hub->opts.start == NULL)
        return 0;

    atomic_fetch_add(&hub->unsettled, 1);
    pthread_mutex_unlock(&hub->watch_lock);
    tdg__hub_wake(wakes);
    rv = hub->opts.start(hub->opts.user, &watch->target);
    pthread_mutex_lock(&hub->watch_lock);
    atomic_fetch_sub(&hub->unsettled, 1);
    return rv;
}

/* It is not known when start() looked: what was published or answered while it ran is
 * newer than what it returns. */
static void run_start(tdg__hub_t *hub, struct watch *watch, struct wakes *wakes) {
    int rv;

    assert(watch->state == IDLE);
    watch->state = STARTING;
    watch->answered = false;
    watch->meanwhile = 0;
    set_existence(hub, watch, 0);
    rv = call_start(hub, watch, wakes);

    if (rv == TDG_EAGAIN && watch->answered)
        rv = watch->answer;
    else if (rv > 0 && rv <= TDG_WATCH_ABSENT)
        set_existence(hub, watch, watch->meanwhile != 0 ? watch->meanwhile : rv);
    if (rv == TDG_EAGAIN)
        watch->state = WAITING;
    else
        answer_all(hub, watch, rv < 0 ? rv : 0, wakes);
}

static void run_stop(tdg__hub_t *hub, struct watch *watch, struct wakes *wakes) {
    assert(watch->state == ARMED);
    watch->state = STOPPING;
    if (hub->opts.stop != NULL) {
        pthread_mutex_unlock(&hub->watch_lock);
        tdg__hub_wake(wakes);
        hub->opts.stop(hub->opts.user, &watch->target);
        pthread_mutex_lock(&hub->watch_lock);
    }
    watch->state = IDLE;
}

/* Does what the watch needs by now, with watch_lock, but for the callbacks. Afterwards
 * the watch may be gone. */
static void drive(tdg__hub_t *hub, struct watch *watch, struct wakes *wakes) {
    for (;;) {
        bool wanted = is_wanted(watch);

        if (watch->state == IDLE && wanted)
            run_start(hub, watch, wakes);
        else if (watch->state == ARMED && !wanted)
            run_stop(hub, watch, wakes);
        else
            break;
    }
    free_if_unused(hub, watch);
}

/* ---- Calls of workers and sources --------------------------------------- */

/* A watch with a new want of the member in it. */
static struct want *add_want(tdg__hub_t *hub, struct member *member,
                             const tdg__target_t *target) {
    struct watch *watch = find_watch(hub, target);
    struct want *before, *want;

    if (watch == NULL)
        watch = create_watch(hub, target);
    if (watch == NULL)
        return NULL;

    before = find_want(watch, member);
    want = create_want(watch, member);
    if (want == NULL)
        free_if_unused(hub, watch);
    else if (before != NULL)
        drop_want(before);
    return want;
}

int tdg__hub_watch(tdg__hub_t *hub, tdg__inbox_t *inbox, const tdg__target_t *target) {
    struct wakes wakes = {.count = 0};
    struct member *member;
    struct want *want = NULL;
    int rv = TDG_EINVAL;

    pthread_mutex_lock(&hub->watch_lock);
    member = tdg__hub_member(hub, inbox);
    if (member != NULL && tdg__target_valid(target)) {
        sweep(hub, member);
        want = add_want(hub, member, target);
        rv = want == NULL ? TDG_ENOMEM : TDG_EAGAIN;
    }
    if (want != NULL) {
        struct watch *watch = want->watch;

        if (watch->state == ARMED)
            answer_all(hub, watch, 0, &wakes);
        drive(hub, watch, &wakes); /* the want keeps it here */
        if (want->error < 0) {
            rv = want->error;
            drop_want(want);
            free_if_unused(hub, watch);
        }
    }
    pthread_mutex_unlock(&hub->watch_lock);
    tdg__hub_wake(&wakes);
    return rv;
}

void tdg__hub_unwatch(tdg__hub_t *hub, tdg__inbox_t *inbox, const tdg__target_t *target) {
    struct wakes wakes = {.count = 0};
    struct member *member;
    struct watch *watch;
    struct want *want;

    pthread_mutex_lock(&hub->watch_lock);
    member = tdg__hub_member(hub, inbox);
    if (member != NULL)
        sweep(hub, member);
    watch = member == NULL ? NULL : find_watch(hub, target);
    want = watch == NULL ? NULL : find_want(watch, member);
    if (want != NULL) {
        drop_want(want);
        drive(hub, watch, &wakes);
    }
    pthread_mutex_unlock(&hub->watch_lock);
    tdg__hub_wake(&wakes);
}

/* Takes the answer of a start() that still runs: the first one counts, and whether the
 * resource exists also by later ones. Returns whether it was the first. */
static bool answer_early(tdg__hub_t *hub, struct watch *watch, int answer) {
    bool first = !watch->answered;

    assert(watch->state == STARTING);
    if (first) {
        watch->answered = true;
        watch->answer = answer < 0 ? answer : 0;
    }
    if (first || answer >= 0) {
        watch->meanwhile = answer > 0 ? answer : 0;
        set_existence(hub, watch, watch->meanwhile);
    }
    return first;
}

/* Whether it exists counts from now on, not from when those who wait are answered: what
 * is published meanwhile knows better. */
int tdg__hub_watch_done(tdg__hub_t *hub, const tdg__target_t *target, int answer) {
    struct wakes wakes = {.count = 0};
    int error = answer < 0 ? answer : 0;
    struct watch *watch;
    int rv = 0;

    if (!tdg__target_valid(target) || answer > TDG_WATCH_ABSENT || answer == TDG_EAGAIN)
        return TDG_EINVAL;

    pthread_mutex_lock(&hub->watch_lock);
    watch = find_watch(hub, target);
    if (watch != NULL && watch->state == STARTING) {
        rv = answer_early(hub, watch, answer) ? 0 : TDG_ENOTFOUND;
    } else if (watch != NULL && watch->state == WAITING) {
        set_existence(hub, watch, answer > 0 ? answer : 0);
        answer_all(hub, watch, error, &wakes);
        drive(hub, watch, &wakes);
    } else {
        if (watch != NULL && watch->state == ARMED && error == 0)
            set_existence(hub, watch, answer);
        rv = TDG_ENOTFOUND;
    }
    pthread_mutex_unlock(&hub->watch_lock);
    tdg__hub_wake(&wakes);
    return rv;
}

bool tdg__hub_is_absent(tdg__hub_t *hub, const tdg__target_t *target) {
    const struct watch *watch;
    bool absent;

    pthread_mutex_lock(&hub->watch_lock);
    watch = find_watch(hub, target);
    absent = watch != NULL && watch->existence == TDG_WATCH_ABSENT;
    pthread_mutex_unlock(&hub->watch_lock);
    return absent;
}

void tdg__hub_note_existence(tdg__hub_t *hub, const tdg__target_t *target, bool deleted) {
    struct watch *watch = find_watch(hub, target);
    int existence = deleted ? TDG_WATCH_ABSENT : TDG_WATCH_EXISTS;

    if (watch != NULL && watch->state == STARTING)
        watch->meanwhile = existence;
    if (watch != NULL && watch->existence != 0)
        set_existence(hub, watch, existence);
}

/* ---- Leaving ------------------------------------------------------------ */

static struct watch *watch_at(const tdg__hub_t *hub, uint32_t id) {
    struct watch *watch = tdg__pool_get(&hub->watches, id);

    return watch == NULL || watch->target.name == NULL ? NULL : watch;
}

void tdg__hub_give_up(tdg__hub_t *hub, struct member *member, struct wakes *wakes) {
    for (uint32_t id = 1; id < tdg__pool_end(&hub->watches); id++) {
        struct watch *watch = watch_at(hub, id);
        struct want *want = watch == NULL ? NULL : find_want(watch, member);

        if (want != NULL) {
            drop_want(want);
            drive(hub, watch, wakes);
        }
    }
}

void tdg__hub_stop_all(tdg__hub_t *hub) {
    for (uint32_t id = 1; id < tdg__pool_end(&hub->watches); id++) {
        struct watch *watch = watch_at(hub, id);

        if (watch == NULL)
            continue;
        if (watch->state != IDLE) {
            watch->state = STOPPING;
            if (hub->opts.stop != NULL)
                hub->opts.stop(hub->opts.user, &watch->target);
            watch->state = IDLE;
        }
        while (!tdg__queue_is_empty(&watch->wants))
            drop_want(TDG__RECORD(struct want, link, watch->wants.next));
        free_if_unused(hub, watch);
    }
    tdg__pool_done(&hub->watches);
    tdg__map_done(&hub->watch_map);
}
