/* SPDX-License-Identifier: MIT */
#include "server/loop/recheck.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "server/feed/feed.h"
#include "server/feed/trace.h"
#include "server/loop/worker.h"

/* Ending one may end a session with all that it has, so a turn ends few of them. */
enum { PER_TURN = 1024, ENDS_PER_TURN = 16 };

static tdg__catalogue_t *catalogue_of(const tdg__recheck_t *recheck) {
    return recheck->worker->server->catalogue;
}

static bool is_taken_back(const tdg__recheck_t *recheck, const tdg__target_t *target) {
    tdg__catalogue_t *catalogue = catalogue_of(recheck);

    switch (target->kind) {
    case TDG__TARGET_URI:
        return tdg__catalogue_may_watch(catalogue, target->name) == TDG_ENOTSUP;
    case TDG__TARGET_TEMPLATE:
        return tdg__catalogue_may_watch_template(catalogue, target->name) == TDG_ENOTSUP;
    default:
        return false;
    }
}

/* NULL: it is closed. What its stream has ready is written first, such as the deletion,
 * which may close it. */
static tdg__feed_t *flushed_feed(const tdg__recheck_t *recheck, tdg__stream_t stream) {
    tdg__engine_t *engine = recheck->worker->engine;
    tdg__feed_t *feed = tdg__engine_stream_user(engine, stream);

    if (feed != NULL)
        tdg__feed_flush(feed);
    return tdg__engine_stream_user(engine, stream);
}

/* As if its watcher had failed; the feed may be gone afterwards. */
static void end_subscription(tdg__recheck_t *recheck, const tdg__sub_info_t *info) {
    char name[TDG__ENTRY_MAX_KEY + 1]; /* the engine's own goes with the subscription */
    tdg__target_t target = {info->target.kind, name, info->target.len};
    tdg__feed_t *feed;

    assert(target.len < sizeof(name));
    memcpy(name, info->target.name, target.len);
    name[target.len] = '\0';
    feed = flushed_feed(recheck, info->stream);
    if (feed == NULL)
        return;
    tdg__trace_settled(feed, &target, TDG_ENOTSUP);
    tdg__feed_unsubscribe(feed, &target);
    feed->ops->settled(feed, &target, TDG_ENOTSUP, true);
}

/* Whether a subscription is to end. Not while a removal is not due yet, which may be that
 * of its resource: the round for that one comes by again. */
static bool has_to_end(const tdg__recheck_t *recheck, const tdg__target_t *target) {
    return is_taken_back(recheck, target) &&
           tdg__catalogue_removals(catalogue_of(recheck)) == recheck->due.removals;
}

/* Returns whether there is more to look at. One at a time: ending one may end others. */
static bool go_on(tdg__recheck_t *recheck) {
    tdg__engine_t *engine = recheck->worker->engine;
    unsigned ends = 0;

    for (unsigned i = 0; i < PER_TURN && ends < ENDS_PER_TURN; i++) {
        tdg__sub_info_t info;

        if (tdg__engine_page(engine, &recheck->position, NULL, false, &info, 1) == 1 &&
            has_to_end(recheck, &info.target)) {
            end_subscription(recheck, &info);
            ends++;
        }
        if (recheck->position == 0)
            return false;
    }
    return true;
}

/* It only causes another turn: in this one, what was announced may have been looked at
 * before. */
static void run(tdg__task_t *task, bool here) {
    tdg__recheck_t *recheck = (tdg__recheck_t *)(void *)task;

    atomic_store(&recheck->posted, false);
    if (here)
        tdg__worker_wake(recheck->worker);
}

void tdg__recheck_init(tdg__recheck_t *recheck, tdg__worker_t *worker) {
    *recheck = (tdg__recheck_t){.task = {.run = run}, .worker = worker};
}

void tdg__recheck_ask(tdg__recheck_t *recheck) {
    if (!atomic_exchange(&recheck->posted, true))
        tdg__inbox_post(recheck->worker->inbox, &recheck->task);
}

tdg__announced_t tdg__recheck_turn(tdg__recheck_t *recheck) {
    tdg__announced_t announced = tdg__catalogue_announced(catalogue_of(recheck));

    if (recheck->position == 0 && recheck->due.all == recheck->done)
        return announced;
    if (recheck->position == 0)
        recheck->begun = recheck->due.all;
    if (go_on(recheck) || recheck->begun != recheck->due.all)
        tdg__worker_wake(recheck->worker);
    if (recheck->position == 0)
        recheck->done = recheck->begun;
    return announced;
}

void tdg__recheck_let(tdg__recheck_t *recheck, tdg__announced_t announced) {
    if (recheck->due.all != announced.all)
        tdg__worker_wake(recheck->worker);
    recheck->due = announced;
}
