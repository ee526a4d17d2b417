/* SPDX-License-Identifier: MIT
 *
 * What is wanted: one record per URI, found by hash. Which of it the server has
 * acknowledged is the business of listen.c (modern) and session.c (legacy); here is what
 * both share: how a subscription begins and ends, and whether updates arrive. */
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs_internal.h"

/* ---- Records ------------------------------------------------------------ */

struct uri_key {
    const char *uri;
    size_t len;
};

static bool has_uri(const void *ctx, uint32_t value, const void *key) {
    const struct tdg__subs *subs = ctx;
    const struct uri_key *wanted = key;
    const tdg__sub_t *sub = tdg__sub_get(subs, value);

    return sub->len == wanted->len && memcmp(sub->uri, wanted->uri, wanted->len) == 0;
}

tdg__sub_t *tdg__subs_lookup(const struct tdg__subs *subs, const char *uri, size_t len) {
    const struct uri_key key = {uri, len};
    uint32_t hash = (uint32_t)tdg__hash(&subs->key, uri, len);
    uint32_t id = tdg__map_find(&subs->by_uri, hash, has_uri, subs, &key);

    return id != 0 ? tdg__sub_get(subs, id) : NULL;
}

tdg__sub_t *tdg__subs_find(const tdg__core_t *core, const char *uri) {
    tdg__sub_t *sub = tdg__subs_lookup(core->subs, uri, strlen(uri));

    return sub != NULL && tdg__sub_wanted(sub) ? sub : NULL;
}

tdg__sub_t *tdg__subs_next(const struct tdg__subs *subs, uint32_t *id) {
    uint32_t end = tdg__pool_end(&subs->pool);

    for (uint32_t at = *id + 1; at < end; at++) {
        tdg__sub_t *sub = tdg__sub_get(subs, at);

        if (sub != NULL && sub->uri != NULL) {
            *id = at;
            return sub;
        }
    }
    return NULL;
}

tdg__sub_t *tdg__sub_create(tdg__core_t *core, const char *uri, size_t len) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_t *sub;
    uint32_t id;
    char *copy;

    if (tdg__map_reserve(&subs->by_uri) < 0)
        return NULL;

    copy = tdg__strndup(uri, len);
    if (copy == NULL)
        return NULL;

    sub = tdg__pool_alloc(&subs->pool, &id);
    if (sub == NULL) {
        tdg__free(copy);
        return NULL;
    }

    sub->id = id;
    sub->core = core;
    sub->uri = copy;
    sub->len = len;
    sub->hash = (uint32_t)tdg__hash(&subs->key, uri, len);
    sub->heard_ms = tdg__core_now(core);
    tdg__map_insert(&subs->by_uri, sub->hash, id);
    return sub;
}

static void clear_put_off(tdg__core_t *core, tdg__sub_t *sub);

void tdg__sub_free(tdg__core_t *core, tdg__sub_t *sub) {
    struct tdg__subs *subs = core->subs;

    tdg__waiters_settle(core, &sub->waiters, TDG_EENDED, NULL);
    clear_put_off(core, sub);
    if (sub->asked != NULL) {
        tdg__asked_drop(core, sub->asked);
        subs->asked--;
    }
    tdg__reread_end(core, sub);
    if (sub->poll_ready)
        tdg__core_timer_done(core, &sub->poll);
    if (sub->collected != NULL) {
        tdg_event_free(sub->collected);
        tdg__list_remove(&subs->collected, &subs->pool,
                         offsetof(tdg__sub_t, in_collected), sub->id);
    }
    if (sub->flags & TDG__SUB_QUEUED)
        tdg__list_remove(&subs->todo, &subs->pool, offsetof(tdg__sub_t, in_todo),
                         sub->id);
    if (sub->flags & TDG__SUB_HEARD)
        tdg__cover_leave(core, sub);
    if (sub->flags & TDG__SUB_TEMPLATE)
        tdg__cover_remove(core, sub);
    if (sub->group != NULL) {
        sub->group->count--;
        sub->group->dirty = true;
    }
    if (sub->leaving != NULL)
        sub->leaving->dirty = true;
    tdg__sub_drop_before(sub);
    if (tdg__sub_wanted(sub))
        core->counts.subscriptions--;

    tdg__map_remove(&subs->by_uri, sub->hash, sub->id);
    json_decref(sub->number);
    tdg__free(sub->uri);
    tdg__pool_free(&subs->pool, sub->id);
    tdg__subs_kick(core);
}

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
    if (core->era != TDG_ERA_MODERN)
        return tdg__session_well(core);
    if (subs->put_off > 0)
        return false;

    for (const tdg__sub_group_t *group = subs->groups; group != NULL;
         group = group->next) {
        if (group->live == NULL && (group->dirty || group->fresh != NULL || group->waits))
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

bool tdg__subs_barred(const tdg__outcome_t *outcome) {
    const tdg_failure_t *failure = outcome->failure;

    return failure != NULL &&
           (failure->http_status == 401 || failure->http_status == 403);
}

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

void tdg__sub_missed(tdg__core_t *core, tdg__sub_t *sub) {
    tdg__lifesign_restart(core, core->era == TDG_ERA_MODERN ? &sub->group->life
                                                            : &core->subs->get.life);
}

void tdg__subs_retry(tdg__core_t *core, int64_t retry_after_ms) {
    struct tdg__subs *subs = core->subs;

    if (retry_after_ms >= 0)
        tdg__backoff_floor_once(&core->backoff, retry_after_ms > UINT32_MAX
                                                    ? UINT32_MAX
                                                    : (uint32_t)retry_after_ms);
    subs->retry_wanted = true;
    tdg__subs_kick(core);
}

/* Not before `soon`: when a channel goes that everything shares, its streams end first,
 * and connecting anew is not ours to count. */
static void arm_retry(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;

    if (!subs->retry_wanted || subs->retry.timer.pos != 0)
        return;
    subs->retry_wanted = false;
    if (subs->told_down && (core->client->flags & TDG_CLIENT_ONE_LIFE) != 0) {
        /* Over HTTP the stream is what can be lost. */
        tdg__connect_give_up(core, TDG_EAWAY, "the stream of updates was lost");
        return;
    }
    tdg__core_timer_at(core, &subs->retry,
                       tdg__backoff_next(&core->backoff, tdg__core_now(core),
                                         core->opts.random(core->opts.user)));
}

static void on_retry(tdg__core_t *core, tdg__core_timer_t *timer) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_t *sub;

    (void)timer;
    for (tdg__sub_group_t *group = subs->groups; group != NULL; group = group->next) {
        if (group->waits)
            group->dirty = true;
        group->waits = false;
    }
    subs->get.waits = false;
    if (subs->failed > 0) {
        subs->failed = 0;
        for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;)
            tdg__sub_place(core, sub);
    }
    tdg__subs_kick(core);
}

/* ---- Refused for now ---------------------------------------------------- */

/* A copy, for those who wait; NULL: there is no reason, or no memory for it. */
static tdg__refusal_t *keep_refusal(const tdg_failure_t *failure) {
    size_t size = failure != NULL ? strlen(failure->message) + 1 : 0;
    tdg__refusal_t *refusal =
        failure != NULL ? tdg__malloc(sizeof(*refusal) + size) : NULL;

    if (refusal == NULL)
        return NULL;
    *refusal = (tdg__refusal_t){
        .code = failure->code,
        .rpc_code = failure->rpc_code,
        .http_status = failure->http_status,
        .answered = failure->rpc_code != 0 || failure->http_status != 0 ||
                    failure->code == TDG_EREFUSED,
    };
    memcpy(refusal->message, failure->message, size);
    return refusal;
}

void tdg__sub_put_off(tdg__core_t *core, tdg__sub_t *sub, const tdg_failure_t *failure) {
    struct tdg__subs *subs = core->subs;
    bool once = (sub->flags & TDG__SUB_ONCE) != 0;

    tdg__free(sub->refusal);
    sub->refusal = sub->waiters != NULL ? keep_refusal(failure) : NULL;
    if (sub->refusal != NULL && sub->refusal->answered)
        tdg__waiters_put_off(core, sub->waiters);
    if (failure != NULL) {
        tdg__core_odd(core, TDG__ODD_PUT_OFF, "%.200s is refused for now, retrying: %s",
                      sub->uri, failure->message);
    }
    if ((sub->flags & TDG__SUB_PUT_OFF) == 0) {
        sub->flags |= TDG__SUB_PUT_OFF;
        core->counts.retrying++;
        subs->put_off += once ? 1 : 0;
    }
}

static void clear_put_off(tdg__core_t *core, tdg__sub_t *sub) {
    if ((sub->flags & TDG__SUB_PUT_OFF) == 0)
        return;
    sub->flags &= ~(unsigned)TDG__SUB_PUT_OFF;
    tdg__free(sub->refusal);
    sub->refusal = NULL;
    core->counts.retrying--;
    core->subs->put_off -= (sub->flags & TDG__SUB_ONCE) != 0 ? 1 : 0;
}

void tdg__sub_retry(tdg__core_t *core, int64_t retry_after_ms) {
    core->subs->failed++;
    tdg__subs_retry(core, retry_after_ms);
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
            tdg__listen_work(core);
        else
            tdg__session_work(core);
        tdg__groups_clean(core);
        tdg__subs_check_up(core);
        tdg__gaps_tell(core);
        tdg__reread_work(core);
        arm_retry(core);
    }
    tdg__sub_calls_flush(core);
}

static void on_settle(tdg__core_t *core, tdg__core_timer_t *timer) {
    (void)timer;
    tdg__updates_flush(core);
}

/* ---- One subscription --------------------------------------------------- */

static bool can_subscribe(const tdg__core_t *core) {
    const json_t *resources = json_object_get(core->capabilities, "resources");

    return json_is_true(json_object_get(resources, "subscribe"));
}

/* It was there before: what changed while nobody watched it shows by what is known of it.
 * Where nothing is, it may have changed. The last thing that happens to the record: this
 * tells where memory is out. */
static void poll_on(tdg__core_t *core, tdg__sub_t *sub) {
    const unsigned known = sub->flags & (TDG__SUB_KNOWN | TDG__SUB_CHANGED);
    tdg_event_t *event;

    tdg__waiters_settle(core, &sub->waiters, 0, NULL);
    if (known == TDG__SUB_KNOWN) {
        tdg__reread_queue(core, sub, true);
        return;
    }
    event = tdg__event_create(TDG_EVENT_UPDATED, sub->uri, NULL, NULL, 0, NULL);
    if (event != NULL)
        event->maybe = true;
    tdg__reread_compare(core, sub, event);
}

static void poll_only(tdg__core_t *core, tdg__sub_t *sub) {
    const bool begins = (sub->flags & TDG__SUB_POLLED) == 0;

    sub->flags &= ~(unsigned)(TDG__SUB_LIVE | TDG__SUB_STALE | TDG__SUB_GAP);
    sub->flags |= TDG__SUB_POLLED;
    tdg__sub_drop_before(sub);
    if (sub->leaving != NULL) { /* which nobody asks for it any more */
        sub->leaving->dirty = true;
        sub->leaving = NULL;
        tdg__subs_kick(core);
    }
    if (begins && (sub->flags & TDG__SUB_ONCE)) {
        poll_on(core, sub);
        return;
    }
    if (begins)
        sub->flags |= TDG__SUB_BASE;
    if (sub->flags & TDG__SUB_BASE)
        tdg__reread_queue(core, sub, true);
}

void tdg__sub_place(tdg__core_t *core, tdg__sub_t *sub) {
    tdg_failure_t failure;

    if (!core->subs->up || (sub->flags & TDG__SUB_HEARD))
        return;
    if (core->era != TDG_ERA_MODERN && (sub->flags & TDG__SUB_GONE)) {
        tdg__session_queue(core, sub);
        return;
    }
    if ((sub->flags & TDG__SUB_LIVE) && sub->leaving == NULL &&
        (sub->flags & TDG__SUB_STALE) == 0)
        return;

    if (!can_subscribe(core)) {
        tdg__sub_refused(
            core, sub, TDG_ENOTSUP,
            tdg__failure_make(&failure, TDG_ENOTSUP, "the server has no subscriptions"));
        return;
    }
    sub->flags &= ~(unsigned)(TDG__SUB_POLLED | TDG__SUB_BASE);
    if (core->era == TDG_ERA_MODERN)
        sub->group->dirty = true;
    else
        tdg__session_queue(core, sub);
}

void tdg__sub_drop_before(tdg__sub_t *sub) {
    if (sub->before != NULL)
        sub->before->count--;
    sub->before = NULL;
}

void tdg__sub_live(tdg__core_t *core, tdg__sub_t *sub) {
    bool first = (sub->flags & TDG__SUB_ONCE) == 0;

    clear_put_off(core, sub);
    sub->flags |= TDG__SUB_LIVE | TDG__SUB_ONCE;
    sub->flags &= ~(unsigned)TDG__SUB_STALE;
    if (sub->leaving != NULL)
        sub->leaving->dirty = sub->leaving->left = true;
    sub->leaving = NULL;
    tdg__sub_drop_before(sub);
    tdg__waiters_settle(core, &sub->waiters, 0, NULL);
    if (first && sub->poll_ms != 0)
        tdg__reread_queue(core, sub, true); /* what later polls compare with */
}

/* From here on nothing is told because of it. */
static void quieten(tdg__core_t *core, tdg__sub_t *sub) {
    clear_put_off(core, sub);
    core->counts.subscriptions--;
    sub->flags = (sub->flags | TDG__SUB_GONE) & ~(unsigned)TDG__SUB_GAP;
    tdg__reread_end(core, sub);
    tdg__cover_forget(core, sub);
}

/* Nor what waits to be fetched. */
static void silence(tdg__core_t *core, tdg__sub_t *sub) {
    core->opts.forget(core->opts.user, sub->uri);
    quieten(core, sub);
}

void tdg__sub_end(tdg__core_t *core, tdg__sub_t *sub) {
    silence(core, sub);
    tdg__sub_free(core, sub);
}

/* What waits in a subscription that never was live came because of what covers its URI,
 * if anything does, and is told because of that. The event is stolen, and may be NULL. */
static void tell_covered(tdg__core_t *core, tdg_event_t *event) {
    tdg__sub_t *sub = NULL;

    if (event != NULL && !event->maybe) /* no doubt of ours */
        sub = tdg__cover_hear(core, event->uri, strlen(event->uri));
    if (sub != NULL)
        tdg__update_tell(core, sub, event);
    else
        tdg_event_free(event);
}

void tdg__sub_refused(tdg__core_t *core, tdg__sub_t *sub, int code,
                      const tdg_failure_t *failure) {
    const char *why = failure != NULL ? failure->message : tdg_strerror(code);
    tdg_event_t *event;

    clear_put_off(core, sub); /* it is not retried any more, also where it lives on */
    if (code == TDG_ENOTSUP && sub->poll_ms != 0 &&
        (sub->flags & TDG__SUB_TEMPLATE) == 0) {
        poll_only(core, sub);
        return;
    }

    tdg__waiters_settle(core, &sub->waiters, code, failure);
    if (sub->leaving != NULL) { /* the options are refused: it keeps those it had */
        if (--sub->group->count == 0) { /* its stream, if any, is not needed */
            sub->group->dirty = true;
            tdg__subs_kick(core);
        }
        sub->group = sub->leaving;
        sub->group->count++;
        sub->leaving = NULL;
        return;
    }
    if (core->era != TDG_ERA_MODERN && (sub->flags & TDG__SUB_LIVE)) {
        if ((sub->flags & TDG__SUB_ONCE) == 0) { /* left from an earlier subscription */
            silence(core, sub);
            tdg__session_queue(core, sub);
        } else if (sub->before != NULL) { /* likewise */
            sub->group->count--;
            sub->group = sub->before;
            sub->before = NULL;
            sub->flags &= ~(unsigned)TDG__SUB_STALE;
        }
        return;
    }

    if (sub->flags & TDG__SUB_ONCE) {
        event = tdg__event_create(TDG_EVENT_LOST, sub->uri, NULL, NULL, code, why);
        tdg__sub_end(core, sub);
        tdg__update_emit(core, event);
        return;
    }
    event = tdg__update_take(core, sub);
    if (tdg__cover_has(core, sub)) /* so are those that wait to be fetched */
        quieten(core, sub);
    else
        silence(core, sub);
    tdg__sub_free(core, sub);
    tell_covered(core, event);
}

/* ---- What the owner asks for -------------------------------------------- */

static int check_uri(const char *uri, size_t *ret_len) {
    size_t len;

    if (uri == NULL || uri[0] == '\0')
        return TDG_EINVAL;
    len = strlen(uri);
    if (len > TDG__SUBS_MAX_URI)
        return TDG_EURILEN;
    *ret_len = len;
    return 0;
}

static void change_group(tdg__core_t *core, tdg__sub_t *sub, tdg__sub_group_t *group) {
    tdg__sub_group_t *before = sub->group;

    if (before == group)
        return;
    if (before != NULL) {
        before->count--;
        if (core->era != TDG_ERA_MODERN) {
            if (sub->flags & (TDG__SUB_LIVE | TDG__SUB_ASKED))
                sub->flags |= TDG__SUB_STALE;
            if ((sub->flags & TDG__SUB_LIVE) && sub->before == NULL) {
                sub->before = before;
                before->count++;
            }
        } else if (sub->leaving == group) { /* back to what still has it */
            sub->leaving = NULL;
            before->dirty = true;
        } else if (sub->flags & TDG__SUB_LIVE) {
            /* The stream that has it goes on having it until the other one does. */
            if (sub->leaving == NULL)
                sub->leaving = before;
            else
                before->dirty = true;
        } else {
            before->dirty = true;
            if (sub->flags & TDG__SUB_ONCE) /* nobody can say what it has missed */
                tdg__gap_mark(sub);
        }
    }
    group->count++;
    sub->group = group;
    sub->serial = 0;
}

/* The record for a URI that is to be subscribed to. One that is only heard of is still
 * that: what waits in it must not be lost where there is no memory for the rest. */
static int want(tdg__core_t *core, const char *uri, size_t len, tdg__sub_t **ret) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_t *sub = tdg__subs_lookup(subs, uri, len);
    int rv;

    if (sub != NULL && tdg__sub_wanted(sub)) {
        *ret = sub;
        return 0;
    }
    if (core->counts.subscriptions >= core->client->max_subscriptions)
        return TDG_ESUBSCRIPTIONS;

    if (sub != NULL && (sub->flags & TDG__SUB_GONE)) {
        /* legacy: its unsubscribe is still under way */
        tdg__waiters_settle(core, &sub->waiters, 0, NULL);
        sub->flags &= ~(unsigned)(TDG__SUB_GONE | TDG__SUB_ONCE | TDG__SUB_OWED);
        sub->flags |= TDG__SUB_STALE; /* whatever it had, it is asked for anew */
        core->counts.subscriptions++;
        *ret = sub;
        return 0;
    }

    if (sub == NULL) {
        sub = tdg__sub_create(core, uri, len);
        if (sub == NULL)
            return TDG_ENOMEM;
        core->counts.subscriptions++;
    }
    rv = tdg__cover_add(core, sub);
    if (rv < 0) {
        if (tdg__sub_wanted(sub))
            tdg__sub_free(core, sub);
        return rv;
    }
    *ret = sub;
    return 0;
}

static int subscribe_one(tdg__core_t *core, const char *uri,
                         const tdg_subscribe_opts_t *opts, tdg__sub_group_t *group,
                         tdg__waiter_t *waiter) {
    tdg__sub_t *sub;
    size_t len;
    int rv;

    rv = check_uri(uri, &len);
    if (rv < 0)
        return rv;

    rv = want(core, uri, len, &sub);
    if (rv < 0)
        return rv;

    rv = tdg__poll_set(core, sub, opts->poll_ms);
    if (rv < 0) {
        if ((sub->flags & (TDG__SUB_ONCE | TDG__SUB_HEARD)) == 0 && sub->waiters == NULL)
            tdg__sub_free(core, sub);
        return rv;
    }
    if (sub->flags & TDG__SUB_HEARD) {
        tdg__cover_leave(core, sub);
        sub->flags &= ~(unsigned)TDG__SUB_HEARD;
        core->counts.subscriptions++;
    }
    change_group(core, sub, group);
    sub->flags &= ~(unsigned)(TDG__SUB_REREAD | TDG__SUB_AWAITS);
    if (opts->reread)
        sub->flags |= TDG__SUB_REREAD;
    if (opts->await_creation)
        sub->flags |= TDG__SUB_AWAITS;

    waiter->sub = sub->id;
    tdg__waiter_add(&sub->waiters, waiter);
    if ((sub->flags & TDG__SUB_POLLED) && (sub->flags & TDG__SUB_BASE) == 0 &&
        sub->poll_ms != 0) {
        sub->flags |= TDG__SUB_ONCE;
        tdg__waiters_settle(core, &sub->waiters, 0, NULL);
    } else if (sub->leaving == NULL && (sub->flags & (TDG__SUB_LIVE | TDG__SUB_STALE |
                                                      TDG__SUB_ASKED)) == TDG__SUB_LIVE) {
        clear_put_off(core, sub); /* what was, were the options that it had gone to */
        tdg__waiters_settle(core, &sub->waiters, 0, NULL);
    } else {
        tdg__sub_place(core, sub); /* may end it at once */
    }
    return 0;
}

void tdg__core_subscribe(tdg__core_t *core, const char *const *uris, size_t count,
                         const tdg_subscribe_opts_t *opts, int *codes,
                         tdg__core_done_fn done, void *user) {
    static const tdg_subscribe_opts_t none = {0};
    tdg__sub_group_t *group = NULL;
    tdg__sub_call_t *call;
    int rv;

    if (core->subs->stopped || count == 0) {
        tdg__sub_call_late(core, core->subs->stopped ? TDG_EENDED : 0, done, user);
        return;
    }
    call = tdg__sub_call_create(core, TDG__CALL_SUBSCRIBE, count, done, user);
    if (call == NULL)
        return;

    call->codes = codes;
    opts = opts != NULL ? opts : &none;
    rv = tdg__group_find(core, opts, &group);
    for (size_t i = 0; i < count; i++) {
        int code = rv;

        if (code == 0)
            code = subscribe_one(core, uris[i], opts, group, &call->waiters[i]);
        if (code < 0)
            tdg__waiter_settle(core, &call->waiters[i], code, NULL);
    }
    tdg__subs_kick(core);
}

void tdg__core_unsubscribe(tdg__core_t *core, const char *uri, tdg__core_done_fn done,
                           void *user) {
    tdg__sub_t *sub = uri != NULL ? tdg__subs_find(core, uri) : NULL;
    tdg__sub_group_t *group;
    tdg__sub_call_t *call;
    tdg_failure_t failure;
    bool known;

    if (sub == NULL || core->subs->stopped) {
        tdg__sub_call_late(core, sub == NULL ? TDG_ENOTFOUND : TDG_EENDED, done, user);
        return;
    }
    /* Silence comes first, whether there is memory to wait for the server or not. */
    tdg__waiters_settle(
        core, &sub->waiters, TDG_EENDED,
        tdg__failure_make(&failure, TDG_EENDED, "it was unsubscribed from meanwhile"));
    call = tdg__sub_call_create(core, TDG__CALL_UNSUBSCRIBE, 1, done, user);
    group = sub->group;
    known = (sub->flags & (TDG__SUB_LIVE | TDG__SUB_ASKED)) != 0;

    if (core->era != TDG_ERA_MODERN && known && core->subs->up) {
        silence(core, sub);
        tdg__poll_set(core, sub, 0);
        if (call != NULL)
            tdg__waiter_add(&sub->waiters, &call->waiters[0]);
        tdg__session_queue(core, sub);
    } else {
        tdg__sub_end(core, sub);
        if (call != NULL && group->live != NULL)
            tdg__waiter_add(&group->waiters, &call->waiters[0]);
        else if (call != NULL)
            tdg__waiter_settle(core, &call->waiters[0], 0, NULL);
    }
    tdg__subs_kick(core);
}

/* Whether the server is known to notify of them. */
static bool has_lists(const struct tdg__subs *subs, unsigned lists) {
    const tdg__listen_t *live = subs->groups->live;

    return lists == subs->lists &&
           (lists == 0 || (live != NULL && (lists & ~live->honoured) == 0));
}

void tdg__core_watch_lists(tdg__core_t *core, unsigned lists, tdg__core_done_fn done,
                           void *user) {
    const unsigned all = 1u << TDG_LIST_RESOURCES | 1u << TDG_LIST_TEMPLATES |
                         1u << TDG_LIST_TOOLS | 1u << TDG_LIST_PROMPTS;
    struct tdg__subs *subs = core->subs;
    tdg__sub_call_t *call;

    if ((lists & ~all) != 0 || subs->stopped) {
        tdg__sub_call_late(core, subs->stopped ? TDG_EENDED : TDG_EINVAL, done, user);
        return;
    }
    if (lists & 1u << TDG_LIST_TEMPLATES) /* they change together */
        lists = (lists & ~(1u << TDG_LIST_TEMPLATES)) | 1u << TDG_LIST_RESOURCES;

    call = tdg__sub_call_create(core, TDG__CALL_LISTS, 1, done, user);
    if (call == NULL)
        return;
    if (has_lists(subs, lists)) {
        tdg__waiter_settle(core, &call->waiters[0], 0, NULL);
        return;
    }

    subs->lists = lists;
    subs->lists_once &= lists;
    subs->list_gap &= lists;
    subs->list_collected &= lists;
    subs->groups->dirty = true;
    tdg__waiter_add(core->era == TDG_ERA_LEGACY ? &subs->list_waiters
                                                : &subs->groups->waiters,
                    &call->waiters[0]);
    tdg__subs_kick(core);
}

bool tdg__core_is_subscribed(const tdg__core_t *core, const char *uri) {
    return tdg__subs_find(core, uri) != NULL;
}

json_t *tdg__core_subscriptions(const tdg__core_t *core) {
    json_t *uris = json_array();
    tdg__sub_t *sub;

    for (uint32_t id = 0;
         uris != NULL && (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (tdg__sub_wanted(sub) &&
            json_array_append_new(uris, json_stringn(sub->uri, sub->len)) < 0) {
            json_decref(uris);
            uris = NULL;
        }
    }
    return uris;
}

/* ---- Up and down -------------------------------------------------------- */

void tdg__subs_up(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    bool modern = core->era == TDG_ERA_MODERN;
    tdg__sub_t *sub;

    if (subs->stopped)
        return;
    subs->up = true;
    subs->failed = 0;
    /* Where the era has turned out to be another one, so have those that wait. */
    tdg__waiters_move(modern ? &subs->list_waiters : &subs->groups->waiters,
                      modern ? &subs->groups->waiters : &subs->list_waiters);
    for (tdg__sub_group_t *group = subs->groups; group != NULL; group = group->next)
        group->waits = false;
    subs->groups->dirty = subs->groups->dirty || subs->lists != 0;
    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;) {
        /* What one era knows of a gap the other does not. */
        if (subs->era != TDG_ERA_FIND && subs->era != core->era &&
            (sub->flags & TDG__SUB_ONCE) != 0)
            tdg__gap_mark(sub);
        tdg__sub_place(core, sub);
    }
    if (subs->era != TDG_ERA_FIND && subs->era != core->era)
        subs->list_gap |= subs->lists;
    subs->era = core->era;
    if (modern || tdg__get_ready(core))
        tdg__calls_release(core);
    tdg__subs_kick(core);
}

void tdg__subs_down(tdg__core_t *core, int code, const char *why) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_t *sub;

    subs->up = false;
    subs->retry_wanted = false;
    tdg__core_timer_stop(core, &subs->retry);
    tdg__listen_down(core);
    tdg__session_down(core);
    tdg__reread_down(core);
    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;)
        clear_put_off(core, sub);
    tdg__subs_tell_down(core, code, why);
}

void tdg__subs_compare(tdg__core_t *core) {
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;)
        tdg__gap_compare(sub);
}

void tdg__subs_stop(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_t *sub;

    if (subs->stopped)
        return;
    subs->stopped = true;
    subs->up = false;
    tdg__core_timer_stop(core, &subs->retry);
    tdg__core_timer_stop(core, &subs->settle);
    tdg__listen_down(core);
    tdg__session_down(core);
    tdg__sub_calls_end(core);
    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;)
        tdg__reread_end(core, sub);
    tdg__subs_kick(core);
}

/* ---- All of it ---------------------------------------------------------- */

int tdg__subs_init(tdg__core_t *core) {
    static const tdg_subscribe_opts_t none = {0};
    struct tdg__subs *subs;
    tdg__sub_group_t *plain;
    int rv;

    subs = tdg__calloc(1, sizeof(*subs));
    if (subs == NULL)
        return TDG_ENOMEM;

    core->subs = subs;
    subs->finished_end = &subs->finished;
    subs->overlap_end = INT64_MIN / 2;
    tdg__map_init(&subs->by_uri);
    tdg__pool_init(&subs->pool, (sizeof(tdg__sub_t) + 7) / 8 * 8);
    subs->key.k0 = core->opts.random(core->opts.user);
    subs->key.k1 = core->opts.random(core->opts.user);

    rv = tdg__core_timer_init(core, &subs->soon, on_soon);
    if (rv < 0)
        goto fail_subs;
    rv = tdg__core_timer_init(core, &subs->retry, on_retry);
    if (rv < 0)
        goto fail_soon;
    rv = tdg__core_timer_init(core, &subs->settle, on_settle);
    if (rv < 0)
        goto fail_retry;
    rv = tdg__get_init(core);
    if (rv < 0)
        goto fail_settle;
    rv = tdg__template_index_create(&subs->templates);
    if (rv < 0)
        goto fail_get;
    rv = tdg__group_find(core, &none, &plain);
    if (rv < 0)
        goto fail_templates;
    return 0;

fail_templates:
    tdg__template_index_destroy(subs->templates);
fail_get:
    tdg__get_done(core);
fail_settle:
    tdg__core_timer_done(core, &subs->settle);
fail_retry:
    tdg__core_timer_done(core, &subs->retry);
fail_soon:
    tdg__core_timer_done(core, &subs->soon);
fail_subs:
    core->subs = NULL;
    tdg__free(subs);
    return rv;
}

void tdg__subs_done(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_t *sub;

    if (subs == NULL)
        return;
    tdg__subs_stop(core);
    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;)
        tdg__sub_free(core, sub);
    /* Whoever still waits is told here: there will be no other occasion. */
    tdg__sub_calls_flush(core);
    while (subs->groups != NULL) {
        tdg__sub_group_t *group = subs->groups;

        subs->groups = group->next;
        tdg__group_free(core, group);
    }
    tdg__template_index_destroy(subs->templates);
    tdg__get_done(core);
    tdg__core_timer_done(core, &subs->settle);
    tdg__core_timer_done(core, &subs->retry);
    tdg__core_timer_done(core, &subs->soon);
    tdg__map_done(&subs->by_uri);
    tdg__pool_done(&subs->pool);
    tdg__free(subs);
    core->subs = NULL;
}
