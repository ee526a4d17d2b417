/* SPDX-License-Identifier: MIT
 *
 * All subscriptions together: whether updates arrive, when refused ones are retried, and
 * what happens when requests become possible or impossible. */
#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs/legacy.h"
#include "client/subs/modern_streams.h"
#include "client/subs/reread.h"
#include "client/subs/subs.h"
#include "client/subs/subscribing.h"
#include "client/subs/updates.h"

/* ---- Whether updates arrive --------------------------------------------- */

void tdg__subs_tell_down(tdg__core_t *core, int code, const char *why) {
    struct tdg__subs *subs = core->subs;

    if (subs->told_down || subs->stopped ||
        (core->counts.subscriptions == 0 && subs->lists == 0))
        return;
    subs->told_down = true;
    tdg__update_emit(core,
                     tdg__event_create(TDG_EVENT_DOWN, NULL, NULL, NULL, code, why));
}

static bool all_well(const tdg__core_t *core) {
    const struct tdg__subs *subs = core->subs;

    if (!subs->up)
        return false;
    if (subs->put_off > 0)
        return false;
    if (core->era != TDG_ERA_MODERN)
        return tdg__legacy_subs_well(core);

    for (const tdg__sub_group_t *group = subs->groups; group != NULL;
         group = group->next) {
        if (group->live == NULL &&
            (group->dirty || group->fresh != NULL || group->retry_ms != INT64_MAX))
            return false;
    }
    return true;
}

void tdg__subs_check_up(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;

    if (!subs->told_down || !all_well(core))
        return;
    subs->told_down = false;
    tdg__update_emit(core, tdg__event_create(TDG_EVENT_UP, NULL, NULL, NULL, 0, NULL));
}

/* ---- Trying again ------------------------------------------------------- */

/* What a server that is starting, stopping or in trouble answers. */
bool tdg__subs_transient(const tdg__outcome_t *outcome) {
    const tdg_failure_t *failure = outcome->failure;

    if (outcome->code == 0 || failure == NULL)
        return true;
    if (failure->http_status == 429 || failure->http_status == 409 ||
        failure->http_status >= 500)
        return true;
    if (failure->rpc_code != 0)
        return failure->rpc_code == TDG__RPC_INTERNAL ||
               failure->rpc_code == TDG__RPC_SUBSCRIPTION_FAILED;
    return failure->http_status < 400;
}

int64_t tdg__subs_retry(tdg__core_t *core, int64_t retry_after_ms) {
    struct tdg__subs *subs = core->subs;
    int64_t at =
        tdg__backoff_earliest(&core->backoff, tdg__core_now(core), retry_after_ms);

    if (at < subs->allowed_ms)
        subs->allowed_ms = at;
    subs->failed = true;
    tdg__subs_kick(core);
    return at;
}

/* What fails while an attempt is planned joins that one. */
static void plan_attempt(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    int64_t now = tdg__core_now(core);

    subs->failed = false;
    if (subs->told_down && (core->client->flags & TDG_CLIENT_ONE_LIFE) != 0)
        /* Over HTTP the stream is what can be lost. */
        tdg__connect_give_up(core, TDG_EUNREACHABLE, "the stream of updates was lost");
    else if (subs->attempt_ms < now)
        subs->attempt_ms = tdg__backoff_next(&core->backoff, now, tdg__core_random(core));
}

/* Not before `soon`: when a channel goes that everything shares, its streams end first,
 * and connecting anew is not ours to count. */
static void arm_retry(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;

    if (subs->failed)
        plan_attempt(core);
    if (!subs->stopped && subs->allowed_ms != INT64_MAX)
        tdg__core_timer_at(core, &subs->retry,
                           subs->attempt_ms > subs->allowed_ms ? subs->attempt_ms
                                                               : subs->allowed_ms);
}

bool tdg__subs_retry_now(tdg__core_t *core, int64_t *retry_ms) {
    struct tdg__subs *subs = core->subs;

    if (*retry_ms <= tdg__core_now(core)) {
        *retry_ms = INT64_MAX;
        return true;
    }
    if (*retry_ms < subs->allowed_ms)
        subs->allowed_ms = *retry_ms;
    return false;
}

static void on_retry(tdg__core_t *core, tdg__core_timer_t *timer) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_t *sub;

    (void)timer;
    subs->attempt_ms = 0;
    subs->allowed_ms = INT64_MAX;
    for (tdg__sub_group_t *group = subs->groups; group != NULL; group = group->next) {
        if (tdg__subs_retry_now(core, &group->retry_ms))
            group->dirty = true;
    }
    tdg__legacy_get_retry(core);
    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;) {
        if (tdg__subs_retry_now(core, &sub->retry_ms))
            tdg__sub_place(core, sub);
    }
    tdg__subs_kick(core);
}

/* ---- Soon --------------------------------------------------------------- */

void tdg__subs_kick(tdg__core_t *core) {
    tdg__core_timer_at(core, &core->subs->soon, tdg__core_now(core));
}

static void on_soon(tdg__core_t *core, tdg__core_timer_t *timer) {
    struct tdg__subs *subs = core->subs;

    (void)timer;
    if (subs->up && !subs->stopped) {
        if (core->era == TDG_ERA_MODERN)
            tdg__sub_streams_work(core);
        else
            tdg__legacy_subs_work(core);
        tdg__groups_clean(core);
        tdg__subs_check_up(core);
        tdg__gaps_tell(core);
        tdg__reread_work(core);
        arm_retry(core);
    }
    tdg__pending_flush(core);
}

static void on_settle(tdg__core_t *core, tdg__core_timer_t *timer) {
    (void)timer;
    tdg__updates_flush(core);
}

/* ---- Up and down -------------------------------------------------------- */

static void up(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    bool modern = core->era == TDG_ERA_MODERN;
    tdg__sub_t *sub;

    if (subs->stopped)
        return;
    subs->up = true;
    /* Where the era has turned out to be another one, so have those that wait. */
    tdg__waiters_move(modern ? &subs->list_waiters : &subs->groups->waiters,
                      modern ? &subs->groups->waiters : &subs->list_waiters);
    subs->groups->dirty = subs->groups->dirty || subs->lists != 0;
    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;) {
        /* What one era knows of a gap the other does not. */
        if (subs->era != TDG_ERA_FIND && subs->era != core->era && sub->ever_live)
            tdg__gap_mark(sub);
        tdg__sub_place(core, sub);
    }
    if (subs->era != TDG_ERA_FIND && subs->era != core->era)
        subs->list_gap |= subs->lists;
    subs->era = core->era;
    if (modern || tdg__legacy_get_ready(core))
        tdg__client_requests_release(core);
    tdg__subs_kick(core);
}

static void down(tdg__core_t *core, int code, const char *why) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_t *sub;

    subs->up = false;
    subs->failed = false;
    subs->attempt_ms = 0;
    subs->allowed_ms = INT64_MAX;
    tdg__core_timer_stop(core, &subs->retry);
    tdg__sub_streams_down(core);
    tdg__legacy_subs_down(core);
    tdg__reread_down(core);
    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;)
        tdg__sub_clear_put_off(core, sub);
    tdg__subs_tell_down(core, code, why);
}

void tdg__subs_compare(const tdg__core_t *core, const tdg__sub_group_t *group) {
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (group == NULL || sub->group == group)
            tdg__gap_compare(sub);
    }
}

static void compare_all(const tdg__core_t *core) {
    tdg__subs_compare(core, NULL);
}

static void notification(tdg__core_t *core, const tdg__client_request_t *on,
                         const tdg__rpc_message_t *message) {
    tdg__updates_notification(core, on, NULL, message);
}

static void stop(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_t *sub;

    if (subs->stopped)
        return;
    subs->stopped = true;
    subs->up = false;
    tdg__core_timer_stop(core, &subs->retry);
    tdg__core_timer_stop(core, &subs->settle);
    tdg__sub_streams_down(core);
    tdg__legacy_subs_down(core);
    tdg__pending_end(core);
    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;)
        tdg__reread_end(core, sub);
    tdg__subs_kick(core);
}

/* ---- All of it ---------------------------------------------------------- */

static int init(tdg__core_t *core) {
    static const tdg_subscribe_opts_t none = {0};
    struct tdg__subs *subs;
    tdg__sub_group_t *plain;
    int rv;

    subs = tdg__calloc(1, sizeof(*subs));
    if (subs == NULL)
        return TDG_ENOMEM;

    core->subs = subs;
    tdg__queue_init(&subs->calls);
    tdg__queue_init(&subs->finished);
    tdg__queue_init(&subs->todo);
    tdg__queue_init(&subs->to_read);
    tdg__queue_init(&subs->collected);
    tdg__queue_init(&subs->heard);
    subs->overlap_end = INT64_MIN / 2;
    subs->allowed_ms = INT64_MAX;
    tdg__map_init(&subs->by_uri);
    tdg__pool_init(&subs->pool, (sizeof(tdg__sub_t) + 7) / 8 * 8);
    subs->key.k0 = tdg__core_random(core);
    subs->key.k1 = tdg__core_random(core);

    rv = tdg__legacy_get_init(core);
    if (rv == 0)
        rv = tdg__core_timer_init(core, &subs->soon, on_soon);
    if (rv == 0)
        rv = tdg__core_timer_init(core, &subs->retry, on_retry);
    if (rv == 0)
        rv = tdg__core_timer_init(core, &subs->settle, on_settle);
    if (rv == 0)
        rv = tdg__template_index_create(&subs->templates);
    if (rv == 0)
        rv = tdg__group_find(core, &none, &plain);
    subs->stopped = rv < 0; /* nothing is to be done any more */
    return rv;
}

static void done(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_t *sub;

    if (subs == NULL)
        return;
    stop(core);
    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;)
        tdg__sub_free(core, sub);
    /* Calls that still wait end here: there is no other occasion. */
    tdg__pending_flush(core);
    while (subs->groups != NULL) {
        tdg__sub_group_t *group = subs->groups;

        subs->groups = group->next;
        tdg__group_free(core, group);
    }
    tdg__template_index_destroy(subs->templates);
    tdg__legacy_get_done(core);
    tdg__core_timer_done(core, &subs->settle);
    tdg__core_timer_done(core, &subs->retry);
    tdg__core_timer_done(core, &subs->soon);
    tdg__map_done(&subs->by_uri);
    tdg__pool_done(&subs->pool);
    tdg__free(subs);
    core->subs = NULL;
}

const tdg__core_upper_t tdg__core_subs = {
    .init = init,
    .done = done,
    .up = up,
    .down = down,
    .stop = stop,
    .compare = compare_all,
    .read_begun = tdg__reread_begun,
    .read_noted = tdg__reread_noted,
    .notification = notification,
};
