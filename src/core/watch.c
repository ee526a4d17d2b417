/* SPDX-License-Identifier: MIT
 *
 * Watchers: the first subscription of a target starts one, and is settled when it is
 * armed; the watcher stops some time after the last subscription. */
#include "core/internal.h"

#include <assert.h>

#include <tidings/error.h>

/* ---- Starting and stopping ---------------------------------------------- */

/* Arming takes a number of its own: a client that resumes from a smaller one was last
 * notified of the target before it was watched, even if nothing else has changed since.
 */
static void set_armed(tdg__engine_t *engine, struct watch *watch, bool unchanged) {
    assert(watch->state != WATCH_ARMED);
    watch->state = WATCH_ARMED;
    if (!unchanged || !watch->known)
        watch->known_from = tdg__arming_number(engine);
    watch->known = true;
    if (watch->users != 0)
        tdg__heap_disarm(&engine->timers, &watch->timer); /* otherwise it lingers on */
}

static tdg__pool_t *pool_of(tdg__engine_t *engine, const struct subject *subject) {
    return subject->kind == TDG__TARGET_TEMPLATE ? &engine->templates
                                                 : &engine->resources;
}

static void stop_lingering(tdg__engine_t *engine, struct subject *subject) {
    struct lingerers *all = &engine->lingering[subject->kind == TDG__TARGET_TEMPLATE];

    if (!subject->lingers)
        return;
    subject->lingers = false;
    tdg__list_remove(&all->list, pool_of(engine, subject), LINGERER, subject->id);
    all->count--;
    tdg__heap_disarm(&engine->timers, &subject->watch.timer);
}

static int start(tdg__engine_t *engine, struct subject *subject) {
    struct watch *watch = &subject->watch;
    tdg__target_t target = tdg__subject_target(subject);
    int rv = engine->opts.calls.watch(engine->opts.user, &target);

    assert(watch->state == WATCH_NONE);
    if (rv < 0 && rv != TDG_EAGAIN)
        return rv;

    engine->counters.watchers++;
    if (rv == TDG_EAGAIN) {
        watch->state = WATCH_ARMING;
        watch->since_ms = engine->now_ms;
    } else {
        set_armed(engine, watch, false);
    }
    return 0;
}

static void arm_time_out(tdg__engine_t *engine, struct watch *watch) {
    tdg__heap_arm(&engine->timers, &watch->timer,
                  watch->since_ms + engine->opts.watch_timeout_ms);
}

int tdg__watch_join(tdg__engine_t *engine, struct subject *subject,
                    tdg__sub_state_t *ret_state) {
    struct watch *watch = &subject->watch;
    int rv;

    *ret_state = TDG__ARMED;
    if (engine->opts.calls.watch == NULL)
        return 0;

    stop_lingering(engine, subject);
    if (watch->state == WATCH_NONE) {
        rv = start(engine, subject);
        if (rv < 0)
            return rv;
    }
    if (watch->state == WATCH_ARMING && watch->waiting.first == 0 &&
        watch->since_ms + engine->opts.watch_timeout_ms <= engine->now_ms)
        watch->state = WATCH_LATE; /* its time ran out while nobody waited */
    if (watch->state == WATCH_ARMING) {
        if (watch->waiting.first == 0)
            arm_time_out(engine, watch);
        *ret_state = TDG__SUBSCRIBING;
    }
    return 0;
}

void tdg__watch_wait(tdg__engine_t *engine, struct watch *watch, uint32_t id) {
    assert(sub_at(engine, id)->state == TDG__SUBSCRIBING);
    assert(sub_at(engine, id)->queued == QUEUE_NONE);
    sub_at(engine, id)->queued = QUEUE_ARMING;
    tdg__list_append(&watch->waiting, &engine->subs, QUEUE, id);
}

static void forget(tdg__engine_t *engine, struct subject *subject) {
    struct watch *watch = &subject->watch;

    assert(watch->state != WATCH_NONE && engine->counters.watchers > 0);
    stop_lingering(engine, subject);
    watch->state = WATCH_NONE;
    tdg__heap_disarm(&engine->timers, &watch->timer);
    engine->counters.watchers--;
}

static void stop(tdg__engine_t *engine, struct subject *subject) {
    tdg__target_t target = tdg__subject_target(subject);

    forget(engine, subject);
    if (engine->opts.calls.unwatch != NULL)
        engine->opts.calls.unwatch(engine->opts.user, &target);
}

/* Names are the client's: were there no limit, it could leave a watcher behind for each.
 */
static void linger(tdg__engine_t *engine, struct subject *subject) {
    struct lingerers *all = &engine->lingering[subject->kind == TDG__TARGET_TEMPLATE];

    if (all->count == engine->opts.max_lingering) {
        struct subject *oldest = tdg__pool_get(pool_of(engine, subject), all->list.first);

        stop(engine, oldest);
        tdg__subject_release(engine, oldest);
    }
    assert(!subject->lingers && subject->watch.users == 0);
    subject->lingers = true;
    tdg__list_append(&all->list, pool_of(engine, subject), LINGERER, subject->id);
    all->count++;
    tdg__heap_arm(&engine->timers, &subject->watch.timer,
                  engine->now_ms + engine->opts.linger_ms);
}

void tdg__watch_leave(tdg__engine_t *engine, struct subject *subject) {
    struct watch *watch = &subject->watch;

    assert(watch->users > 0);
    watch->users--;
    if (watch->users != 0)
        return;
    tdg__tally_give(engine, 0, subject->len);

    if (watch->state != WATCH_NONE) {
        if (engine->opts.linger_ms == TDG__NO_LINGER)
            stop(engine, subject);
        else
            linger(engine, subject);
    }
    tdg__subject_release(engine, subject);
}

/* ---- Settling ----------------------------------------------------------- */

static void call_settled(tdg__engine_t *engine, tdg__stream_t stream,
                         const struct subject *subject, int status, bool resumed) {
    tdg__target_t target = tdg__subject_target(subject);

    if (engine->opts.calls.settled != NULL)
        engine->opts.calls.settled(engine->opts.user, stream, &target, status, resumed);
}

/* Settles those that wait, one by one: after each call the list may be another, and where
 * the last one left and somebody else came, even the watcher. Stops with TDG_ENOMEM where
 * one cannot catch up; it and those behind it wait on. */
static int settle_waiting(tdg__engine_t *engine, struct subject *subject, int status) {
    struct watch *watch = &subject->watch;
    uint8_t state = watch->state;

    assert(state == WATCH_ARMED || state == WATCH_LATE);
    while (watch->state == state && watch->waiting.first != 0) {
        uint32_t id = watch->waiting.first;
        struct sub *sub = sub_at(engine, id);
        tdg__stream_t stream = tdg__stream_handle(engine, sub->stream);
        bool resumed = true;

        tdg__queue_leave(engine, id);
        sub->state = TDG__ARMED;
        if (tdg__catch_up(engine, id, &resumed) < 0) {
            sub->state = TDG__SUBSCRIBING;
            tdg__watch_wait(engine, watch, id);
            return TDG_ENOMEM;
        }
        if (status == TDG_ETIMEDOUT)
            sub->flags |= SUB_LATE;
        call_settled(engine, stream, subject, status, resumed);
    }
    return 0;
}

/* Calls `act` for every direct or template sub of a target until it fails, the last to
 * come first: one that leaves the window meanwhile changes places with one behind it. */
static int each_user(tdg__engine_t *engine, const struct subject *subject,
                     int (*act)(tdg__engine_t *engine, uint32_t id)) {
    for (uint32_t g = subject->groups.first; g != 0;
         g = group_at(engine, g)->by_owner.next) {
        struct group *group = group_at(engine, g);
        uint32_t next;
        int rv = 0;

        if (group->kind == GROUP_TEMPLATE) {
            for (uint32_t id = group->recent.last; id != 0 && rv == 0; id = next) {
                next = sub_at(engine, id)->flight.prev;
                rv = act(engine, id);
            }
        } else if (group->kind == GROUP_DIRECT) {
            const uint32_t *members = tdg__group_members(group);

            for (uint32_t i = group->count; i-- > 0 && rv == 0;)
                rv = act(engine, members[i]);
        }
        if (rv != 0)
            return rv;
    }
    return 0;
}

static int assume_if_late(tdg__engine_t *engine, uint32_t id) {
    struct sub *sub = sub_at(engine, id);

    if ((sub->flags & SUB_LATE) == 0)
        return 0;
    if (tdg__assume_changed(engine, id, engine->last_number) < 0)
        return TDG_ENOMEM;
    sub->flags &= (uint8_t)~SUB_LATE;
    sub->flags |= SUB_ASSUMED;
    return 0;
}

static int forgive_late(tdg__engine_t *engine, uint32_t id) {
    sub_at(engine, id)->flags &= (uint8_t)~SUB_LATE;
    return 0;
}

/* Puts a sub in front of those that wait, with nothing in flight. As it waits, no change
 * that comes meanwhile can make it ready and take it out of that list. */
static int doom(tdg__engine_t *engine, uint32_t id) {
    struct sub *sub = sub_at(engine, id);
    struct watch *watch = &subject_of(engine, group_at(engine, sub->group))->watch;

    tdg__sub_ground(engine, id);
    tdg__queue_leave(engine, id);
    sub->flags |= SUB_FAILED;
    sub->state = TDG__SUBSCRIBING;

    sub->queued = QUEUE_ARMING;
    tdg__list_prepend(&watch->waiting, &engine->subs, QUEUE, id);
    return 0;
}

/* Ends all subscriptions of a target. A stream may subscribe anew when `settled` is
 * called: the list is made first, and new subscriptions stand behind the doomed ones. */
static void fail(tdg__engine_t *engine, struct subject *subject, int error) {
    struct watch *watch = &subject->watch;
    uint32_t id;

    forget(engine, subject);
    each_user(engine, subject, doom);

    while ((id = watch->waiting.first) != 0 &&
           (sub_at(engine, id)->flags & SUB_FAILED) != 0) {
        tdg__stream_t stream = tdg__stream_handle(engine, sub_at(engine, id)->stream);

        tdg__sub_remove(engine, id);
        call_settled(engine, stream, subject, error, true);
    }
}

static int succeed(tdg__engine_t *engine, struct subject *subject, bool unchanged) {
    struct watch *watch = &subject->watch;
    int rv;

    if (watch->state != WATCH_ARMED)
        set_armed(engine, watch, unchanged);
    rv = each_user(engine, subject, unchanged ? forgive_late : assume_if_late);
    if (rv < 0)
        return rv;
    return settle_waiting(engine, subject, 0);
}

static int take_answer(tdg__engine_t *engine, const tdg__target_t *target,
                       tdg__watch_result_t result, int error) {
    struct subject *subject;
    int rv = 0;

    if (!tdg__target_valid(target) || (int)result < TDG__WATCH_ARMED ||
        (int)result > TDG__WATCH_FAILED || (result == TDG__WATCH_FAILED) != (error < 0))
        return TDG_EINVAL;

    subject = tdg__subject_find(engine, target);
    if (subject == NULL || subject->watch.state == WATCH_NONE ||
        (subject->watch.state == WATCH_ARMED && !subject->watch.unsettled))
        return 0;

    subject->pins++;
    if (result == TDG__WATCH_FAILED)
        fail(engine, subject, error);
    else
        rv = succeed(engine, subject, result == TDG__WATCH_UNCHANGED);
    subject->watch.unsettled = rv < 0;
    subject->pins--;
    tdg__subject_release(engine, subject);
    return rv;
}

int tdg__engine_watch_done(tdg__engine_t *engine, const tdg__target_t *target,
                           tdg__watch_result_t result, int error) {
    int rv = take_answer(engine, target, result, error);

    engine->reached = false; /* the number was for this answer, needed or not */
    engine->armed_at = 0;
    return rv;
}

/* ---- Time --------------------------------------------------------------- */

void tdg__watch_on_timer(tdg__engine_t *engine, struct subject *subject) {
    struct watch *watch = &subject->watch;

    assert(watch->users == 0 ? subject->lingers : watch->state == WATCH_ARMING);
    subject->pins++;
    if (watch->users == 0) {
        stop(engine, subject);
    } else {
        watch->state = WATCH_LATE;
        if (settle_waiting(engine, subject, TDG_ETIMEDOUT) < 0 &&
            watch->state == WATCH_LATE) {
            /* Without memory: wait and try again. */
            watch->state = WATCH_ARMING;
            tdg__heap_arm(&engine->timers, &watch->timer, engine->now_ms + 100);
        }
    }
    subject->pins--;
    tdg__subject_release(engine, subject);
}

static void stop_all(tdg__engine_t *engine, const tdg__pool_t *pool) {
    for (uint32_t id = 1; id < tdg__pool_end(pool); id++) {
        struct subject *subject = tdg__pool_get(pool, id);

        if (subject != NULL && subject->watch.state != WATCH_NONE)
            stop(engine, subject);
    }
}

void tdg__watches_done(tdg__engine_t *engine) {
    stop_all(engine, &engine->resources);
    stop_all(engine, &engine->templates);
}
