/* SPDX-License-Identifier: MIT
 *
 * One subscription: its record, found by hash, its states, its start and end.
 * modern_ack.c and legacy_subs.c keep track of what the server has acknowledged. */
#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs/cover.h"
#include "client/subs/legacy.h"
#include "client/subs/reread.h"
#include "client/subs/subs.h"
#include "client/subs/updates.h"

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
    sub->retry_ms = INT64_MAX;
    tdg__map_insert(&subs->by_uri, sub->hash, id);
    return sub;
}

void tdg__sub_free(tdg__core_t *core, tdg__sub_t *sub) {
    struct tdg__subs *subs = core->subs;

    tdg__waiters_settle(core, &sub->waiters, TDG_EENDED, NULL);
    tdg__sub_clear_put_off(core, sub);
    if (sub->request != NULL) {
        tdg__client_request_drop(sub->request);
        subs->requests--;
    }
    tdg__reread_end(core, sub);
    tdg__core_timer_done(core, &sub->poll);
    if (sub->collected != NULL) {
        tdg_event_free(sub->collected);
        tdg__queue_remove(&sub->in_collected);
    }
    if (sub->sending == TDG__SENDING_QUEUED)
        tdg__queue_remove(&sub->in_todo);
    if (sub->role == TDG__SUB_HEARD)
        tdg__cover_leave(core, sub);
    if (tdg__sub_is_template(sub))
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

/* ---- Requests about it -------------------------------------------------- */

json_t *tdg__sub_params(const tdg__sub_t *sub, json_t *meta) {
    return json_pack("{s:s%, s:o*}", "uri", sub->uri, sub->len, "_meta", meta);
}

/* ---- States ------------------------------------------------------------- */

void tdg__sub_enter(tdg__sub_t *sub, tdg__sub_phase_t state) {
    static const unsigned next[] = {
        [TDG__SUB_OUT] = 1u << TDG__SUB_OUT | 1u << TDG__SUB_LIVE | 1u << TDG__SUB_STALE |
                         1u << TDG__SUB_POLL_BEGINS | 1u << TDG__SUB_POLLED,
        [TDG__SUB_LIVE] = 1u << TDG__SUB_OUT | 1u << TDG__SUB_LIVE |
                          1u << TDG__SUB_STALE | 1u << TDG__SUB_POLLED,
        [TDG__SUB_STALE] = 1u << TDG__SUB_OUT | 1u << TDG__SUB_LIVE |
                           1u << TDG__SUB_STALE | 1u << TDG__SUB_POLL_BEGINS |
                           1u << TDG__SUB_POLLED,
        [TDG__SUB_POLL_BEGINS] = 1u << TDG__SUB_OUT | 1u << TDG__SUB_LIVE |
                                 1u << TDG__SUB_STALE | 1u << TDG__SUB_POLLED,
        [TDG__SUB_POLLED] =
            1u << TDG__SUB_OUT | 1u << TDG__SUB_LIVE | 1u << TDG__SUB_STALE,
    };

    assert(next[sub->state] & 1u << state);
    assert(state == TDG__SUB_STALE || (sub->leaving == NULL && sub->before == NULL));
    assert(sub->role != TDG__SUB_HEARD);
    sub->state = state;
}

void tdg__sub_lost(tdg__sub_t *sub) {
    tdg__sub_drop_before(sub);
    if (tdg__sub_is_live(sub))
        tdg__sub_enter(sub, TDG__SUB_OUT);
}

/* ---- Refused for now ---------------------------------------------------- */

/* A copy, for calls that wait or will; NULL: there is no reason, or no memory for it. */
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

    tdg__free(sub->refusal);
    sub->refusal = keep_refusal(failure);
    if (sub->refusal != NULL && sub->refusal->answered)
        tdg__waiters_put_off(core, sub->waiters);
    if (failure != NULL) {
        tdg__core_odd(core, TDG__ODD_PUT_OFF,
                      "%.200s is temporarily refused, retrying: %s", sub->uri,
                      failure->message);
    }
    if (!sub->put_off) {
        sub->put_off = true;
        core->counts.retrying++;
        subs->put_off += sub->ever_live ? 1 : 0;
    }
}

void tdg__sub_clear_put_off(tdg__core_t *core, tdg__sub_t *sub) {
    sub->retry_ms = INT64_MAX;
    if (!sub->put_off)
        return;
    sub->put_off = false;
    tdg__free(sub->refusal);
    sub->refusal = NULL;
    core->counts.retrying--;
    core->subs->put_off -= sub->ever_live ? 1 : 0;
}

void tdg__sub_missed(tdg__core_t *core, tdg__sub_t *sub) {
    tdg__lifesign_restart(core, core->era == TDG_ERA_MODERN ? &sub->group->life
                                                            : &core->subs->get.life);
}

/* ---- One subscription --------------------------------------------------- */

static bool can_subscribe(const tdg__core_t *core) {
    const json_t *resources = json_object_get(core->capabilities, "resources");

    return json_is_true(json_object_get(resources, "subscribe"));
}

/* It was there before: what changed while nobody watched it shows by what is known of it.
 * Where nothing is, it may have changed. The last thing that happens to the record: this
 * reports where memory is out. */
static void poll_on(tdg__core_t *core, tdg__sub_t *sub) {
    tdg_event_t *event;

    tdg__waiters_settle(core, &sub->waiters, 0, NULL);
    if (tdg__reread_knows(sub)) {
        tdg__reread_queue(core, sub);
        return;
    }
    event = tdg__event_create(TDG_EVENT_UPDATED, sub->uri, NULL, NULL, 0, NULL);
    if (event != NULL)
        event->maybe = true;
    tdg__reread_compare(core, sub, event);
}

static void poll_only(tdg__core_t *core, tdg__sub_t *sub) {
    const bool begins = !tdg__sub_is_polled(sub);

    sub->gap = false;
    tdg__sub_drop_before(sub);
    if (sub->leaving != NULL) { /* which nobody asks for it any more */
        sub->leaving->dirty = true;
        sub->leaving = NULL;
        tdg__subs_kick(core);
    }
    if (begins)
        tdg__sub_enter(sub, sub->ever_live ? TDG__SUB_POLLED : TDG__SUB_POLL_BEGINS);
    if (sub->state == TDG__SUB_POLL_BEGINS)
        tdg__reread_queue(core, sub);
    else if (begins)
        poll_on(core, sub);
}

void tdg__sub_place(tdg__core_t *core, tdg__sub_t *sub) {
    tdg_failure_t failure;

    if (!core->subs->up || sub->role == TDG__SUB_HEARD)
        return;
    if (core->era != TDG_ERA_MODERN && sub->role == TDG__SUB_GONE) {
        tdg__legacy_subs_queue(core, sub);
        return;
    }
    if (sub->state == TDG__SUB_LIVE)
        return;
    if (sub->retry_ms != INT64_MAX && sub->retry_ms > tdg__core_now(core))
        return; /* the retry timer comes back to it */

    if (!can_subscribe(core)) {
        tdg__sub_refused(
            core, sub, TDG_ENOTSUP,
            tdg__failure_set(&failure, TDG_ENOTSUP, "the server has no subscriptions"));
        return;
    }
    if (tdg__sub_is_polled(sub))
        tdg__sub_enter(sub, TDG__SUB_OUT);
    if (core->era == TDG_ERA_MODERN)
        sub->group->dirty = true;
    else
        tdg__legacy_subs_queue(core, sub);
}

void tdg__sub_drop_before(tdg__sub_t *sub) {
    if (sub->before != NULL)
        sub->before->count--;
    sub->before = NULL;
}

void tdg__sub_live(tdg__core_t *core, tdg__sub_t *sub) {
    bool first = !sub->ever_live;

    tdg__sub_clear_put_off(core, sub);
    if (sub->leaving != NULL)
        sub->leaving->dirty = sub->leaving->left = true;
    sub->leaving = NULL;
    tdg__sub_drop_before(sub);
    sub->ever_live = true;
    tdg__sub_enter(sub, TDG__SUB_LIVE);
    tdg__waiters_settle(core, &sub->waiters, 0, NULL);
    if (first && sub->poll_ms != 0)
        tdg__reread_queue(core, sub); /* what later polls compare with */
}

/* From here on nothing is reported because of it. */
static void quieten(tdg__core_t *core, tdg__sub_t *sub) {
    tdg__sub_clear_put_off(core, sub);
    core->counts.subscriptions--;
    sub->role = TDG__SUB_GONE;
    sub->gap = false;
    tdg__reread_end(core, sub);
    tdg__cover_forget(core, sub);
}

void tdg__sub_silence(tdg__core_t *core, tdg__sub_t *sub) {
    core->opts.forget(core->opts.user, sub->uri);
    quieten(core, sub);
}

void tdg__sub_end(tdg__core_t *core, tdg__sub_t *sub) {
    tdg__sub_silence(core, sub);
    tdg__sub_free(core, sub);
}

/* What waits in a subscription that never was live came because of what covers its URI,
 * if anything does, and is reported because of that. The event is stolen, and may be
 * NULL. */
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

    tdg__sub_clear_put_off(core,
                           sub); /* it is not retried any more, also where it lives on */
    if (code == TDG_ENOTSUP && sub->poll_ms != 0 && !tdg__sub_is_template(sub)) {
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
        tdg__sub_enter(sub, TDG__SUB_LIVE);
        return;
    }
    if (core->era != TDG_ERA_MODERN && tdg__sub_is_live(sub)) {
        if (!sub->ever_live) { /* left from an earlier subscription */
            tdg__sub_silence(core, sub);
            tdg__legacy_subs_queue(core, sub);
            return;
        }
        if (sub->before != NULL) { /* likewise */
            sub->group->count--;
            sub->group = sub->before;
            sub->before = NULL;
        }
        tdg__sub_enter(sub, TDG__SUB_LIVE);
        return;
    }

    if (sub->ever_live) {
        event = tdg__event_create(TDG_EVENT_LOST, sub->uri, NULL, NULL, code, why);
        tdg__sub_end(core, sub);
        tdg__update_emit(core, event);
        return;
    }
    event = tdg__update_take(sub);
    if (tdg__cover_has(core, sub)) /* so are those that wait to be fetched */
        quieten(core, sub);
    else
        tdg__sub_silence(core, sub);
    tdg__sub_free(core, sub);
    tell_covered(core, event);
}
