/* SPDX-License-Identifier: MIT
 *
 * The calls of the owner: subscribing, unsubscribing, and lists to watch. They are only
 * stored here; the rest follows with the timer `soon`. */
#include "client/subs/subscribing.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs/cover.h"
#include "client/subs/legacy.h"
#include "client/subs/modern_streams.h"
#include "client/subs/reread.h"
#include "client/subs/subs.h"
#include "client/subs/updates.h"

enum { MAX_URI = 65536 }; /* bytes of a URI to subscribe to */

/* ---- What the owner asks for -------------------------------------------- */

static int check_uri(const char *uri, size_t *ret_len) {
    size_t len;

    if (uri == NULL || uri[0] == '\0')
        return TDG_EINVAL;
    len = strlen(uri);
    if (len > MAX_URI)
        return TDG_EURILEN;
    *ret_len = len;
    return 0;
}

/* Legacy: what the server has, or is being asked for, is not what is wanted now. */
static void outdate(tdg__sub_t *sub) {
    if (tdg__sub_is_live(sub))
        tdg__sub_enter(sub, TDG__SUB_STALE);
    if (sub->sending == TDG__SENDING_SENT)
        sub->sending = TDG__SENDING_OUTDATED;
}

static void change_group(tdg__core_t *core, tdg__sub_t *sub, tdg__sub_group_t *group) {
    tdg__sub_group_t *before = sub->group;

    if (before == group)
        return;
    if (before != NULL) {
        before->count--;
        if (core->era != TDG_ERA_MODERN) {
            outdate(sub);
            if (tdg__sub_is_live(sub) && sub->before == NULL) {
                sub->before = before;
                before->count++;
            }
        } else if (sub->leaving == group) { /* back to what still has it */
            sub->leaving = NULL;
            tdg__sub_enter(sub, TDG__SUB_LIVE);
            before->dirty = true;
        } else if (tdg__sub_is_live(sub)) {
            /* The stream that has it goes on having it until the other one does. */
            if (sub->leaving == NULL)
                sub->leaving = before;
            else
                before->dirty = true;
            tdg__sub_enter(sub, TDG__SUB_STALE);
        } else {
            before->dirty = true;
            if (sub->ever_live) /* nobody can say what it has missed */
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

    if (sub != NULL && sub->role == TDG__SUB_GONE) {
        /* legacy: its unsubscribe is still under way */
        tdg__waiters_settle(core, &sub->waiters, 0, NULL);
        sub->role = TDG__SUB_WANTED;
        sub->ever_live = sub->owed = false;
        outdate(sub); /* whatever it had, it is asked for anew */
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

/* A call that finds it, or the stream it needs, refused and waiting for a retry, which
 * may not come in its time, is treated as if the server had refused it now. */
static void join_wait(tdg__core_t *core, tdg__sub_t *sub) {
    const bool group_waits = sub->group->retry_ms != INT64_MAX;

    if (!sub->put_off && group_waits && sub->group->refusal.code != 0) {
        tdg__sub_put_off(core, sub, &sub->group->refusal);
    } else if ((group_waits || sub->retry_ms != INT64_MAX) && sub->refusal != NULL &&
               sub->refusal->answered) {
        tdg__waiters_put_off(core, sub->waiters);
    }
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
        if (!sub->ever_live && sub->role != TDG__SUB_HEARD && sub->waiters == NULL)
            tdg__sub_free(core, sub);
        return rv;
    }
    if (sub->role == TDG__SUB_HEARD) {
        tdg__cover_leave(core, sub);
        sub->role = TDG__SUB_WANTED;
        core->counts.subscriptions++;
    }
    change_group(core, sub, group);
    sub->reread = opts->reread;
    sub->awaits = opts->await_creation;

    waiter->sub = sub->id;
    tdg__waiter_add(&sub->waiters, waiter);
    if (sub->state == TDG__SUB_POLLED && sub->poll_ms != 0) {
        sub->ever_live = true;
        tdg__waiters_settle(core, &sub->waiters, 0, NULL);
    } else if (sub->state == TDG__SUB_LIVE) {
        tdg__sub_clear_put_off(core,
                               sub); /* what was, were the options that it had gone to */
        tdg__waiters_settle(core, &sub->waiters, 0, NULL);
    } else {
        join_wait(core, sub);
        tdg__sub_place(core, sub); /* may end it at once */
    }
    return 0;
}

void tdg__core_subscribe(tdg__core_t *core, const char *const *uris, size_t count,
                         const tdg_subscribe_opts_t *opts, int *codes,
                         tdg__core_done_fn done, void *user) {
    static const tdg_subscribe_opts_t none = {0};
    tdg__sub_group_t *group = NULL;
    tdg__pending_t *pending;
    int rv;

    if (core->subs->stopped || count == 0) {
        tdg__pending_late(core, core->subs->stopped ? TDG_EENDED : 0, done, user);
        return;
    }
    pending = tdg__pending_create(core, TDG__PENDING_SUBSCRIBE, count, done, user);
    if (pending == NULL)
        return;

    pending->codes = codes;
    opts = opts != NULL ? opts : &none;
    rv = tdg__group_find(core, opts, &group);
    for (size_t i = 0; i < count; i++) {
        int code = rv;

        if (code == 0)
            code = subscribe_one(core, uris[i], opts, group, &pending->waiters[i]);
        if (code < 0)
            tdg__waiter_settle(core, &pending->waiters[i], code, NULL);
    }
    tdg__subs_kick(core);
}

void tdg__core_unsubscribe(tdg__core_t *core, const char *uri, tdg__core_done_fn done,
                           void *user) {
    tdg__sub_t *sub = uri != NULL ? tdg__subs_find(core, uri) : NULL;
    tdg__sub_group_t *group;
    tdg__pending_t *pending;
    tdg_failure_t failure;
    bool known;

    if (sub == NULL || core->subs->stopped) {
        tdg__pending_late(core, sub == NULL ? TDG_ENOTFOUND : TDG_EENDED, done, user);
        return;
    }
    /* Silence comes first, whether there is memory to wait for the server or not. */
    tdg__waiters_settle(
        core, &sub->waiters, TDG_EENDED,
        tdg__failure_set(&failure, TDG_EENDED, "the subscription was removed meanwhile"));
    pending = tdg__pending_create(core, TDG__PENDING_UNSUBSCRIBE, 1, done, user);
    group = sub->group;
    known = tdg__sub_is_live(sub) || sub->request != NULL;

    if (core->era != TDG_ERA_MODERN && known && core->subs->up) {
        tdg__sub_silence(core, sub);
        tdg__poll_set(core, sub, 0);
        if (pending != NULL)
            tdg__waiter_add(&sub->waiters, &pending->waiters[0]);
        tdg__legacy_subs_queue(core, sub);
    } else {
        tdg__sub_end(core, sub);
        if (pending != NULL && group->live != NULL)
            tdg__waiter_add(&group->waiters, &pending->waiters[0]);
        else if (pending != NULL)
            tdg__waiter_settle(core, &pending->waiters[0], 0, NULL);
    }
    tdg__subs_kick(core);
}

/* Whether the server is known to notify of them. */
static bool has_lists(const struct tdg__subs *subs, unsigned lists) {
    const tdg__sub_stream_t *live = subs->groups->live;

    return lists == subs->lists &&
           (lists == 0 || (live != NULL && (lists & ~live->honoured) == 0));
}

void tdg__core_watch_lists(tdg__core_t *core, unsigned lists, tdg__core_done_fn done,
                           void *user) {
    const unsigned all = 1u << TDG_LIST_RESOURCES | 1u << TDG_LIST_TEMPLATES |
                         1u << TDG_LIST_TOOLS | 1u << TDG_LIST_PROMPTS;
    struct tdg__subs *subs = core->subs;
    tdg__pending_t *pending;

    if ((lists & ~all) != 0 || subs->stopped) {
        tdg__pending_late(core, subs->stopped ? TDG_EENDED : TDG_EINVAL, done, user);
        return;
    }
    if (lists & 1u << TDG_LIST_TEMPLATES) /* they change together */
        lists = (lists & ~(1u << TDG_LIST_TEMPLATES)) | 1u << TDG_LIST_RESOURCES;

    pending = tdg__pending_create(core, TDG__PENDING_LISTS, 1, done, user);
    if (pending == NULL)
        return;
    if (has_lists(subs, lists)) {
        tdg__waiter_settle(core, &pending->waiters[0], 0, NULL);
        return;
    }

    subs->lists = lists;
    subs->lists_once &= lists;
    subs->list_gap &= lists;
    subs->list_collected &= lists;
    subs->groups->dirty = true;
    tdg__waiter_add(core->era == TDG_ERA_LEGACY ? &subs->list_waiters
                                                : &subs->groups->waiters,
                    &pending->waiters[0]);
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
