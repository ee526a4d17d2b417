/* SPDX-License-Identifier: MIT
 *
 * Legacy subscriptions: one request per URI, a limited number in flight at a time, and
 * never two about the same URI, because over HTTP it is unknown which the server
 * processes first. The subscription may change while a request is in flight; the response
 * is compared with its state at that time.
 *
 * Subscriptions are lost with their session. The client resubscribes in the next one,
 * each with the cursor up to which its changes were reported, if the server sends
 * cursors. That is not always the session's last cursor: the missed changes of a
 * subscription that resumes from an earlier cursor arrive on the GET stream, while its
 * response arrives elsewhere. Cursors that arrive there may be from before the server
 * knew of it, however late. So the session's cursor applies to a subscription only after
 * its first update in the session; until then the earlier one does, since which nothing
 * was reported. */
#include <assert.h>

#include <tidings/error.h>

#include "client/subs/groups.h"
#include "client/subs/legacy.h"
#include "client/subs/subs.h"
#include "client/subs/updates.h"

enum { MAX_REQUESTS = 32 }; /* in flight */

void tdg__legacy_subs_queue(tdg__core_t *core, tdg__sub_t *sub) {
    struct tdg__subs *subs = core->subs;

    if (sub->sending == TDG__SENDING_NONE) {
        sub->sending = TDG__SENDING_QUEUED;
        tdg__queue_append(&subs->todo, &sub->in_todo);
    }
    tdg__subs_kick(core);
}

bool tdg__legacy_subs_well(const tdg__core_t *core) {
    const struct tdg__subs *subs = core->subs;

    return tdg__queue_is_empty(&subs->todo) && subs->requests == 0 &&
           tdg__legacy_get_ready(core);
}

/* The server does not have it, and nobody wants it. */
static void forget_gone(tdg__core_t *core, tdg__sub_t *sub) {
    assert(sub->role == TDG__SUB_GONE);
    tdg__waiters_settle(core, &sub->waiters, 0, NULL);
    tdg__sub_free(core, sub);
}

/* ---- Answers ------------------------------------------------------------ */

/* Returns whether something else is wanted by now than was asked for. */
static bool answered(tdg__sub_t *sub) {
    bool outdated = sub->sending == TDG__SENDING_OUTDATED;

    assert(outdated || sub->sending == TDG__SENDING_SENT);
    sub->request = NULL;
    sub->sending = TDG__SENDING_NONE;
    sub->core->subs->requests--;
    tdg__subs_kick(sub->core);
    return outdated;
}

static void on_unsubscribed(void *user, const tdg__outcome_t *outcome) {
    tdg__sub_t *sub = user;
    tdg__core_t *core = sub->core;

    (void)outcome; /* whatever the server says, it is over */
    answered(sub);
    tdg__sub_lost(sub);
    if (sub->role == TDG__SUB_GONE) {
        forget_gone(core, sub);
    } else {
        tdg__legacy_subs_queue(core, sub);
    }
}

static void subscribed(tdg__sub_t *sub, const json_t *result, bool outdated) {
    tdg__core_t *core = sub->core;
    const json_t *meta = json_object_get(result, "_meta");
    const json_t *resumed = json_object_get(meta, "dev.tidings/resumed");
    /* Where the server does not know our cursor, a URI counts as changed there. */
    bool told =
        json_is_true(resumed) || (json_is_false(resumed) && !tdg__sub_is_template(sub));
    bool back = sub->ever_live && !tdg__sub_is_live(sub);
    char cursor[TDG__CURSOR_MAX + 1];

    tdg__update_cursor(core, meta, cursor); /* not kept: only what the stream shows is */
    if (back && sub->resume.known && told)
        sub->owed = true;
    else if (back)
        tdg__gap_mark(sub);
    if (sub->role == TDG__SUB_GONE || outdated) {
        tdg__sub_enter(sub, TDG__SUB_STALE);
        tdg__legacy_subs_queue(core, sub);
        return;
    }
    tdg__sub_live(core, sub);
}

static int refusal_of(const tdg__outcome_t *outcome) {
    int rpc_code = outcome->failure->rpc_code;

    return rpc_code == TDG__RPC_METHOD_NOT_FOUND || rpc_code == TDG__RPC_SUBSCRIPTIONS_OFF
               ? TDG_ENOTSUP
               : outcome->code;
}

static void not_subscribed(tdg__sub_t *sub, const tdg__outcome_t *outcome,
                           bool outdated) {
    tdg__core_t *core = sub->core;

    if (sub->role == TDG__SUB_GONE) {
        forget_gone(core, sub);
    } else if (tdg__failure_barred(outcome->failure) && sub->ever_live) {
        tdg__connect_give_up(core, outcome->code, outcome->failure->message);
    } else if (tdg__subs_transient(outcome)) {
        tdg__sub_put_off(core, sub, outcome->failure);
        sub->retry_ms = tdg__subs_retry(core, outcome->retry_after_ms);
    } else if (outdated) {
        tdg__legacy_subs_queue(core, sub);
    } else {
        tdg__sub_refused(core, sub, refusal_of(outcome), outcome->failure);
    }
}

static void on_subscribed(void *user, const tdg__outcome_t *outcome) {
    tdg__sub_t *sub = user;
    bool outdated = answered(sub);

    if (outcome->code == 0)
        subscribed(sub, outcome->result, outdated);
    else if (outcome->code != TDG_EENDED)
        not_subscribed(sub, outcome, outdated);
}

/* ---- Requests ----------------------------------------------------------- */

static int send_unsubscribe(tdg__core_t *core, tdg__sub_t *sub) {
    tdg__client_request_opts_t wanted = {
        .method = "resources/unsubscribe",
        .params = tdg__sub_params(sub, NULL),
    };

    if (wanted.params == NULL)
        return TDG_ENOMEM;
    return tdg__client_request_begin(core, &wanted, on_unsubscribed, sub, &sub->request);
}

/* Asks for what does not exist as well. Extends the options in `meta`, which is stolen
 * and may be NULL. New; NULL: no memory. */
static json_t *await_creation(json_t *meta) {
    json_t *given = json_object_get(meta, "dev.tidings/options");
    json_t *options = tdg__compose_copy(given);

    if (meta == NULL)
        meta = json_object();
    if (json_object_set_new(options, "awaitCreation", json_true()) < 0 ||
        json_object_set(meta, "dev.tidings/options", options) < 0) {
        json_decref(meta);
        meta = NULL;
    }
    json_decref(options);
    return meta;
}

/* What was there once may have been deleted meanwhile: that is reported, and no error. */
static int send_subscribe(tdg__core_t *core, tdg__sub_t *sub) {
    bool back = sub->ever_live && !tdg__sub_is_live(sub), no_memory;
    char cursor[TDG__CURSOR_MAX + 1] = "";
    json_t *meta;
    tdg__client_request_opts_t wanted = {.method = "resources/subscribe"};

    if (back && sub->resume.known)
        cursor[tdg__cursor_put(cursor, sub->resume.epoch, sub->resume.number)] = '\0';
    meta = tdg__group_meta(sub->group, cursor, !sub->ever_live, &no_memory);
    if (!no_memory && (back || sub->awaits)) {
        meta = await_creation(meta);
        no_memory = meta == NULL;
    }
    wanted.params = no_memory ? NULL : tdg__sub_params(sub, meta);
    if (wanted.params == NULL)
        return TDG_ENOMEM;
    return tdg__client_request_begin(core, &wanted, on_subscribed, sub, &sub->request);
}

static void send_next(tdg__core_t *core, tdg__sub_t *sub) {
    struct tdg__subs *subs = core->subs;
    const bool gone = sub->role == TDG__SUB_GONE;
    tdg_failure_t failure;
    int rv;

    assert(sub->sending == TDG__SENDING_NONE);
    assert(gone || sub->state != TDG__SUB_LIVE);
    if (gone && !tdg__sub_is_live(sub)) {
        forget_gone(core, sub);
        return;
    }
    if (!gone && subs->get.state == TDG__LEGACY_GET_MISSING) {
        tdg__sub_refused(core, sub, TDG_ENOTSUP,
                         tdg__failure_set(&failure, TDG_ENOTSUP,
                                          "the server has no stream for updates"));
        return;
    }
    rv = gone ? send_unsubscribe(core, sub) : send_subscribe(core, sub);
    if (rv < 0) {
        if (!gone)
            tdg__sub_put_off(core, sub, NULL);
        sub->retry_ms = tdg__subs_retry(core, -1);
        return;
    }
    sub->sending = TDG__SENDING_SENT;
    subs->requests++;
}

/* Legacy servers notify of lists unasked, if they do at all. */
static void settle_lists(tdg__core_t *core) {
    static const struct {
        tdg_list_kind_t list;
        const char *name;
    } lists[] = {
        {TDG_LIST_RESOURCES, "resources"},
        {TDG_LIST_TOOLS, "tools"},
        {TDG_LIST_PROMPTS, "prompts"},
    };
    struct tdg__subs *subs = core->subs;
    bool missing = subs->lists != 0 && subs->get.state == TDG__LEGACY_GET_MISSING;
    tdg_failure_t failure;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const json_t *about = json_object_get(core->capabilities, lists[i].name);

        if (subs->lists & 1u << lists[i].list)
            missing = missing || !json_is_true(json_object_get(about, "listChanged"));
    }
    tdg__waiters_settle(core, &subs->list_waiters, missing ? TDG_ENOTSUP : 0,
                        missing ? tdg__failure_set(&failure, TDG_ENOTSUP,
                                                   "the server does not support "
                                                   "notifications of that list")
                                : NULL);
}

void tdg__legacy_subs_work(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    tdg__queue_t *first;

    tdg__legacy_get_work(core);
    if (subs->get.state != TDG__LEGACY_GET_OPENING)
        tdg__client_requests_release(core);
    if (!tdg__legacy_get_ready(core) || !subs->up)
        return;
    settle_lists(core);
    while (subs->requests < MAX_REQUESTS && subs->up &&
           (first = tdg__queue_take(&subs->todo)) != NULL) {
        tdg__sub_t *sub = TDG__RECORD(tdg__sub_t, in_todo, first);

        sub->sending = TDG__SENDING_NONE;
        send_next(core, sub);
    }
}

/* ---- The end of a session ----------------------------------------------- */

/* Where the session has got to. */
static tdg__resume_point_t place_of(const struct tdg__subs *subs) {
    tdg__resume_point_t place = {0};

    place.known = tdg__cursor_read(subs->cursor, &place.epoch, &place.number) == 0;
    return place;
}

void tdg__legacy_subs_down(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    const tdg__resume_point_t place = place_of(subs);
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;) {
        if (sub->request != NULL) {
            tdg__client_request_drop(sub->request);
            answered(sub);
        }
        if (sub->sending == TDG__SENDING_QUEUED)
            tdg__queue_remove(&sub->in_todo);
        if (tdg__sub_is_live(sub) && !sub->owed)
            sub->resume = place;
        sub->sending = TDG__SENDING_NONE;
        sub->owed = false;
        tdg__sub_lost(sub);
        if (sub->role == TDG__SUB_GONE) {
            forget_gone(core, sub);
        }
    }
    subs->cursor[0] = '\0';
    if (subs->era == TDG_ERA_LEGACY) { /* that of the core may be in doubt now */
        subs->list_gap |= subs->lists;
        core->ours =
            false; /* until the next session shows it: it may be another server */
    }
    tdg__legacy_get_drop(core);
}
