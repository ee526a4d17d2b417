/* SPDX-License-Identifier: MIT
 *
 * Legacy subscriptions: one request per URI, a number of them in flight at a time, and
 * never two about the same URI, because over HTTP nobody can tell which the server takes
 * first. What is wanted may change while a request is under way; its answer is compared
 * with what is wanted then.
 *
 * A session that is lost takes its subscriptions along. They are made again in the next
 * one, each with the cursor up to which it was told everything, if the server has shown
 * any. That is not always the session's last one: what a subscription that goes on from
 * an earlier cursor has missed is told on the GET stream, while it is answered elsewhere.
 * Cursors that arrive there may be from before the server knew of it, however late. So
 * only once it was heard of in the session, the session's cursor counts for it; until
 * then the earlier one does, from which nothing was told since. */
#include <tidings/error.h>

#include "client/subs_internal.h"

void tdg__session_queue(tdg__core_t *core, tdg__sub_t *sub) {
    struct tdg__subs *subs = core->subs;

    if ((sub->flags & (TDG__SUB_QUEUED | TDG__SUB_ASKED)) == 0) {
        sub->flags |= TDG__SUB_QUEUED;
        tdg__list_append(&subs->todo, &subs->pool, offsetof(tdg__sub_t, in_todo),
                         sub->id);
    }
    tdg__subs_kick(core);
}

bool tdg__session_well(const tdg__core_t *core) {
    const struct tdg__subs *subs = core->subs;

    return subs->todo.first == 0 && subs->asked == 0 && subs->failed == 0 &&
           tdg__get_ready(core);
}

/* ---- Answers ------------------------------------------------------------ */

static void answered(tdg__sub_t *sub) {
    sub->asked = NULL;
    sub->flags &= ~(unsigned)TDG__SUB_ASKED;
    sub->core->subs->asked--;
    tdg__subs_kick(sub->core);
}

static void on_unsubscribed(void *user, const tdg__outcome_t *outcome) {
    tdg__sub_t *sub = user;
    tdg__core_t *core = sub->core;

    (void)outcome; /* whatever the server says, it is over */
    answered(sub);
    sub->flags &= ~(unsigned)TDG__SUB_LIVE;
    if (sub->flags & TDG__SUB_GONE) {
        tdg__waiters_settle(core, &sub->waiters, 0, NULL);
        tdg__sub_free(core, sub);
    } else {
        tdg__session_queue(core, sub);
    }
}

static void subscribed(tdg__sub_t *sub, const json_t *result) {
    tdg__core_t *core = sub->core;
    const json_t *meta = json_object_get(result, "_meta");
    const json_t *resumed = json_object_get(meta, "dev.tidings/resumed");
    /* Where the server does not know our cursor, a URI counts as changed there. */
    bool told = json_is_true(resumed) ||
                (json_is_false(resumed) && (sub->flags & TDG__SUB_TEMPLATE) == 0);
    bool back = (sub->flags & (TDG__SUB_ONCE | TDG__SUB_LIVE)) == TDG__SUB_ONCE;
    char cursor[TDG__CURSOR_MAX + 1];

    tdg__update_cursor(core, meta, cursor); /* not kept: only what the stream shows is */
    if (back && sub->resume.known && told)
        sub->flags |= TDG__SUB_OWED;
    else if (back)
        tdg__gap_mark(sub);
    if (sub->flags & (TDG__SUB_GONE | TDG__SUB_STALE)) {
        sub->flags |= TDG__SUB_LIVE;
        tdg__session_queue(core, sub);
        return;
    }
    tdg__sub_live(core, sub);
}

static int refusal_of(const tdg__outcome_t *outcome) {
    int rpc_code = outcome->failure != NULL ? outcome->failure->rpc_code : 0;

    return rpc_code == TDG__RPC_METHOD_NOT_FOUND || rpc_code == TDG__RPC_SUBSCRIPTIONS_OFF
               ? TDG_ENOTSUP
               : outcome->code;
}

static void not_subscribed(tdg__sub_t *sub, const tdg__outcome_t *outcome) {
    tdg__core_t *core = sub->core;
    bool once = (sub->flags & TDG__SUB_ONCE) != 0;

    if (sub->flags & TDG__SUB_GONE) {
        tdg__waiters_settle(core, &sub->waiters, 0, NULL);
        tdg__sub_free(core, sub);
    } else if (tdg__subs_barred(outcome) && once) {
        tdg__connect_give_up(core, outcome->code, outcome->failure->message);
    } else if (tdg__subs_transient(outcome)) {
        if (sub->flags & TDG__SUB_LIVE) /* with the options that it had */
            sub->flags |= TDG__SUB_STALE;
        tdg__sub_put_off(core, sub, outcome->failure);
        tdg__sub_retry(core, outcome->retry_after_ms);
    } else if (sub->flags & TDG__SUB_STALE) { /* not what is wanted by now */
        tdg__session_queue(core, sub);
    } else {
        tdg__sub_refused(core, sub, refusal_of(outcome), outcome->failure);
    }
}

static void on_subscribed(void *user, const tdg__outcome_t *outcome) {
    tdg__sub_t *sub = user;

    answered(sub);
    if (outcome->code == 0)
        subscribed(sub, outcome->result);
    else if (outcome->code != TDG_EENDED)
        not_subscribed(sub, outcome);
}

/* ---- Requests ----------------------------------------------------------- */

/* The parameters of a request about a URI, new; NULL: no memory. `meta` is stolen. */
static json_t *make_params(const tdg__sub_t *sub, json_t *meta) {
    json_t *params = json_object();
    bool failed;

    failed = json_object_set_new(params, "uri", json_stringn(sub->uri, sub->len)) < 0;
    if (meta != NULL)
        failed = json_object_set_new(params, "_meta", meta) < 0 || failed;
    if (failed) {
        json_decref(params);
        return NULL;
    }
    return params;
}

static int send_unsubscribe(tdg__core_t *core, tdg__sub_t *sub) {
    tdg__ask_t ask = {
        .method = "resources/unsubscribe",
        .params = make_params(sub, NULL),
    };

    if (ask.params == NULL)
        return TDG_ENOMEM;
    return tdg__ask(core, &ask, on_unsubscribed, sub, &sub->asked);
}

/* Asks for what does not exist as well. Extends the options in `meta`, which is stolen
 * and may be NULL. New; NULL: no memory. */
static json_t *await_creation(json_t *meta) {
    json_t *given = json_object_get(meta, "dev.tidings/options");
    json_t *options = given != NULL ? json_copy(given) : json_object();

    if (meta == NULL)
        meta = json_object();
    /* jansson leaves out of a copy what there is no memory for. */
    if (json_object_size(options) != json_object_size(given) ||
        json_object_set_new(options, "awaitCreation", json_true()) < 0 ||
        json_object_set(meta, "dev.tidings/options", options) < 0) {
        json_decref(meta);
        meta = NULL;
    }
    json_decref(options);
    return meta;
}

/* What was there once may have been deleted meanwhile: that is told, and no error. */
static int send_subscribe(tdg__core_t *core, tdg__sub_t *sub) {
    bool once = (sub->flags & TDG__SUB_ONCE) != 0;
    bool back = once && (sub->flags & TDG__SUB_LIVE) == 0, no_memory;
    char cursor[TDG__CURSOR_MAX + 1] = "";
    json_t *meta;
    tdg__ask_t ask = {.method = "resources/subscribe"};
    int rv;

    if (back && sub->resume.known)
        cursor[tdg__cursor_put(cursor, sub->resume.epoch, sub->resume.number)] = '\0';
    meta = tdg__group_meta(sub->group, cursor, !once, &no_memory);
    if (!no_memory && (back || (sub->flags & TDG__SUB_AWAITS))) {
        meta = await_creation(meta);
        no_memory = meta == NULL;
    }
    ask.params = no_memory ? NULL : make_params(sub, meta);
    if (ask.params == NULL)
        return TDG_ENOMEM;
    rv = tdg__ask(core, &ask, on_subscribed, sub, &sub->asked);
    if (rv == 0)
        sub->flags &= ~(unsigned)TDG__SUB_STALE;
    return rv;
}

static void send_next(tdg__core_t *core, tdg__sub_t *sub) {
    struct tdg__subs *subs = core->subs;
    const unsigned flags = sub->flags;
    tdg_failure_t failure;
    int rv;

    if ((flags & TDG__SUB_GONE) && (flags & TDG__SUB_LIVE) == 0) {
        tdg__waiters_settle(core, &sub->waiters, 0, NULL);
        tdg__sub_free(core, sub);
        return;
    }
    if ((flags & TDG__SUB_GONE) == 0 && subs->get.missing) {
        tdg__sub_refused(core, sub, TDG_ENOTSUP,
                         tdg__failure_make(&failure, TDG_ENOTSUP,
                                           "the server has no stream for updates"));
        return;
    }
    rv = flags & TDG__SUB_GONE ? send_unsubscribe(core, sub) : send_subscribe(core, sub);
    if (rv < 0) {
        tdg__sub_retry(core, -1);
        return;
    }
    sub->flags |= TDG__SUB_ASKED;
    subs->asked++;
}

/* Legacy servers tell of lists unasked, if they do at all. */
static void settle_lists(tdg__core_t *core) {
    static const struct {
        tdg_list_t list;
        const char *name;
    } lists[] = {
        {TDG_LIST_RESOURCES, "resources"},
        {TDG_LIST_TOOLS,     "tools"    },
        {TDG_LIST_PROMPTS,   "prompts"  },
    };
    struct tdg__subs *subs = core->subs;
    bool missing = subs->lists != 0 && subs->get.missing;
    tdg_failure_t failure;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const json_t *about = json_object_get(core->capabilities, lists[i].name);

        if (subs->lists & 1u << lists[i].list)
            missing = missing || !json_is_true(json_object_get(about, "listChanged"));
    }
    tdg__waiters_settle(core, &subs->list_waiters, missing ? TDG_ENOTSUP : 0,
                        missing ? tdg__failure_make(&failure, TDG_ENOTSUP,
                                                    "the server does not support "
                                                    "notifications of that list")
                                : NULL);
}

void tdg__session_work(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;

    tdg__get_work(core);
    if (!tdg__get_opening(core))
        tdg__calls_release(core);
    if (!tdg__get_ready(core) || !subs->up)
        return;
    settle_lists(core);
    while (subs->todo.first != 0 && subs->asked < TDG__SUBS_MAX_ASKED && subs->up) {
        tdg__sub_t *sub = tdg__sub_get(subs, subs->todo.first);

        tdg__list_remove(&subs->todo, &subs->pool, offsetof(tdg__sub_t, in_todo),
                         sub->id);
        sub->flags &= ~(unsigned)TDG__SUB_QUEUED;
        send_next(core, sub);
    }
}

/* ---- The end of a session ----------------------------------------------- */

void tdg__session_heard(tdg__sub_t *sub) {
    sub->flags &= ~(unsigned)TDG__SUB_OWED;
}

/* Where the session has got to. */
static tdg__place_t place_of(const struct tdg__subs *subs) {
    tdg__place_t place = {0};

    place.known = tdg__cursor_read(subs->cursor, &place.epoch, &place.number) == 0;
    return place;
}

void tdg__session_down(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    const tdg__place_t place = place_of(subs);
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;) {
        if (sub->asked != NULL) {
            tdg__asked_drop(core, sub->asked);
            answered(sub);
        }
        if (sub->flags & TDG__SUB_QUEUED)
            tdg__list_remove(&subs->todo, &subs->pool, offsetof(tdg__sub_t, in_todo),
                             sub->id);
        if ((sub->flags & (TDG__SUB_LIVE | TDG__SUB_OWED)) == TDG__SUB_LIVE)
            sub->resume = place;
        sub->flags &=
            ~(unsigned)(TDG__SUB_QUEUED | TDG__SUB_LIVE | TDG__SUB_STALE | TDG__SUB_OWED);
        tdg__sub_drop_before(sub);
        if (sub->flags & TDG__SUB_GONE) {
            tdg__waiters_settle(core, &sub->waiters, 0, NULL);
            tdg__sub_free(core, sub);
        }
    }
    subs->cursor[0] = '\0';
    subs->failed = 0;
    if (subs->era == TDG_ERA_LEGACY) { /* that of the core may be in doubt now */
        subs->list_gap |= subs->lists;
        core->ours =
            false; /* until the next session shows it: it may be another server */
    }
    tdg__get_drop(core);
}
