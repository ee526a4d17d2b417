/* SPDX-License-Identifier: MIT
 *
 * Modern streams. Every group has one; when what the group has changes, another stream is
 * opened that asks for all of it, and the present one is dropped once that is
 * acknowledged: so there is no gap. Changes meanwhile wait for the next replacement.
 *
 *     fresh ──acknowledged──▶ live ──replaced──▶ old (for a moment) ──▶ gone
 *       │                      │
 *       └───── ended: gone, and if need be opened again in due time
 *
 * A live one that is silent for too long (lifesign.h) and whose server announces nothing
 * is checked: a fresh one is opened beside it as if the group had changed. Acknowledged,
 * it takes over, and what is subscribed is read and compared. Refused, or not
 * acknowledged in time, it proves nothing good of the live one: that is dropped, and
 * opened again.
 *
 * Servers that show cursors make the change exact: the new stream goes on where the old
 * one ends, so that can go at once. From others the old one may still bring what was on
 * its way when the new one was acknowledged. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs_internal.h"

/* ---- Finding ------------------------------------------------------------ */

static tdg__listen_t **slots_of(tdg__sub_group_t *group, size_t index) {
    tdg__listen_t **const slots[] = {&group->live, &group->fresh, &group->old};

    return index < sizeof(slots) / sizeof(slots[0]) ? slots[index] : NULL;
}

tdg__listen_t *tdg__listen_of(const tdg__core_t *core, const tdg__asked_t *asked) {
    tdg__listen_t **slot;

    for (tdg__sub_group_t *group = core->subs->groups; group != NULL;
         group = group->next) {
        for (size_t i = 0; (slot = slots_of(group, i)) != NULL; i++) {
            if (*slot != NULL && (*slot)->asked == asked)
                return *slot;
        }
    }
    return NULL;
}

tdg__listen_t *tdg__listen_by_id(const tdg__core_t *core, const json_t *id) {
    char text[TDG__RPC_MAX_ID + 1];
    tdg__listen_t **slot;

    if (id == NULL || tdg__rpc_id_text(id, text) != NULL)
        return NULL;
    for (tdg__sub_group_t *group = core->subs->groups; group != NULL;
         group = group->next) {
        for (size_t i = 0; (slot = slots_of(group, i)) != NULL; i++) {
            if (*slot != NULL && strcmp(tdg__asked_id((*slot)->asked), text) == 0)
                return *slot;
        }
    }
    return NULL;
}

bool tdg__listens_overlap(const tdg__core_t *core) {
    bool live = false, fresh = false;

    for (tdg__sub_group_t *group = core->subs->groups; group != NULL;
         group = group->next) {
        if (group->old != NULL)
            return true;
        live = live || group->live != NULL;
        fresh = fresh || group->fresh != NULL;
    }
    return live && fresh;
}

/* ---- Ending ------------------------------------------------------------- */

static void free_listen(tdg__listen_t *listen) {
    tdg__core_t *core = listen->core;

    /* What it told may come again on the one that takes its place. */
    core->subs->overlap_end = tdg__core_now(core);
    tdg__updates_settle(core);
    tdg__waiters_move(&listen->waiters, &listen->group->waiters);
    tdg__core_timer_done(core, &listen->timer);
    tdg__free(listen);
}

void tdg__listen_drop(tdg__core_t *core, tdg__listen_t **listen) {
    tdg__listen_t *dropped = *listen;

    if (dropped == NULL)
        return;
    *listen = NULL;
    tdg__asked_drop(core, dropped->asked);
    free_listen(dropped);
}

/* Nobody tells about the subscriptions of the group any more. */
static void lose(tdg__core_t *core, tdg__sub_group_t *group) {
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (sub->leaving == group) /* the other group knows of no gap */
            tdg__gap_mark(sub);
        if (sub->leaving == group || (sub->group == group && sub->leaving == NULL)) {
            sub->flags &= ~(unsigned)TDG__SUB_LIVE;
            sub->leaving = NULL;
        }
    }
    group->gap = true;
    group->checked = false;
    tdg__lifesign_rest(core, &group->life);
}

void tdg__listen_down(tdg__core_t *core) {
    for (tdg__sub_group_t *group = core->subs->groups; group != NULL;
         group = group->next) {
        if (group->live != NULL || group->fresh != NULL || group->waits)
            group->dirty = true;
        if (group->live != NULL)
            lose(core, group);
        tdg__listen_drop(core, &group->live);
        tdg__listen_drop(core, &group->fresh);
        tdg__listen_drop(core, &group->old);
        group->waits = group->checked = false;
    }
}

static void try_later(tdg__core_t *core, tdg__sub_group_t *group,
                      int64_t retry_after_ms) {
    group->waits = true;
    tdg__subs_retry(core, retry_after_ms);
}

/* The server does not know listen at all: has another one taken its place? A legacy one
 * misses its session, and has any code for that: modern errors have no such codes. */
static bool is_another(const tdg__core_t *core, const tdg__sub_group_t *group,
                       const tdg_failure_t *failure) {
    int status = failure->http_status, code = failure->rpc_code;

    if (core->subs->suspected || !group->gap)
        return false;
    if (code == TDG__RPC_METHOD_NOT_FOUND || code == TDG__RPC_UNSUPPORTED_VERSION)
        return true;
    return ((code == 0 || code == TDG__RPC_INVALID_REQUEST ||
             (code <= -32000 && code > -32020)) &&
            (status == 400 || status == 404 || status == 405));
}

/* A wish that is refused is none any more: it must not have others refused with it. There
 * is no LOST for lists that were told before: those are asked for again in due time. */
static void refuse_lists(tdg__core_t *core, tdg__sub_group_t *group,
                         const tdg__outcome_t *outcome) {
    core->subs->lists &= core->subs->lists_once;
    if (core->subs->lists != 0 && group->live == NULL)
        try_later(core, group, outcome->retry_after_ms);
}

/* Whether the listen of this serial asked for it, and it is not live by an earlier one.
 */
static bool is_asked(const tdg__sub_t *sub, const tdg__sub_group_t *group,
                     uint32_t serial) {
    return sub->group == group && sub->serial == serial &&
           ((sub->flags & TDG__SUB_LIVE) == 0 || sub->leaving != NULL);
}

/* It will not be acknowledged: those that are not live by an earlier one are refused. */
static void refuse(tdg__core_t *core, tdg__sub_group_t *group, uint32_t serial,
                   unsigned lists, const tdg__outcome_t *outcome) {
    const bool plain = group == core->subs->groups;
    tdg_failure_t failure = *outcome->failure;
    tdg__sub_t *sub;
    int code = outcome->code;

    if (failure.rpc_code == TDG__RPC_METHOD_NOT_FOUND)
        code = TDG_ENOTSUP;
    json_incref(failure.data);
    /* A wish that came after it waits, with all others, for the next one's answer. */
    if (!plain || (core->subs->lists & ~lists) == 0)
        tdg__waiters_settle(core, &group->waiters, code, &failure);
    if (plain && (core->subs->lists & ~lists) == 0)
        refuse_lists(core, group, outcome);
    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (is_asked(sub, group, serial))
            tdg__sub_refused(core, sub, code, &failure);
    }
    json_decref(failure.data);
    tdg__subs_kick(core);
}

/* The same for now: the group is tried again in due time. */
static void put_off(tdg__core_t *core, tdg__sub_group_t *group, uint32_t serial,
                    const tdg__outcome_t *outcome) {
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (is_asked(sub, group, serial))
            tdg__sub_put_off(core, sub, outcome->failure);
    }
    try_later(core, group, outcome->retry_after_ms);
}

static void on_live_ended(tdg__core_t *core, tdg__sub_group_t *group,
                          const tdg__outcome_t *outcome);

static void compare_all(const tdg__core_t *core, const tdg__sub_group_t *group) {
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (sub->group == group)
            tdg__gap_compare(sub);
    }
}

static bool has_one_life(const tdg__core_t *core) {
    return (core->client->flags & TDG_CLIENT_ONE_LIFE) != 0;
}

/* The stream beside a silent one is over before it was acknowledged. Where the server has
 * answered, it may allow only one: then that is not lost, but closed by us, and opened
 * again. */
static void on_check_ended(tdg__core_t *core, tdg__sub_group_t *group,
                           const tdg__outcome_t *outcome) {
    const tdg_failure_t *failure = outcome->failure;

    compare_all(core, group);
    group->refused = (outcome->code != TDG_ETIMEDOUT && outcome->code != TDG_EAWAY) ||
                     (failure != NULL && failure->http_status != 0);
    tdg__listen_drop(core, &group->live);
    if (group->refused && has_one_life(core)) {
        lose(core, group);
        try_later(core, group, outcome->retry_after_ms);
    } else {
        on_live_ended(core, group, outcome);
    }
}

static bool asks_for_more(const tdg__core_t *core, const tdg__sub_group_t *group,
                          uint32_t serial) {
    const tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (is_asked(sub, group, serial))
            return true;
    }
    return false;
}

/* Whether it asked for lists that no stream has had. */
static bool asks_for_lists(const tdg__core_t *core, const tdg__sub_group_t *group,
                           unsigned lists) {
    return group == core->subs->groups &&
           (lists & core->subs->lists & ~core->subs->lists_once) != 0;
}

/* That may be why it was refused: what was there before is asked for without. */
static void refuse_wish(tdg__core_t *core, tdg__sub_group_t *group,
                        const tdg__outcome_t *outcome) {
    const bool unknown = outcome->failure->rpc_code == TDG__RPC_METHOD_NOT_FOUND;

    tdg__waiters_settle(core, &group->waiters, unknown ? TDG_ENOTSUP : outcome->code,
                        outcome->failure);
    core->subs->lists &= core->subs->lists_once;
    try_later(core, group, outcome->retry_after_ms);
}

static void on_fresh_ended(tdg__core_t *core, tdg__sub_group_t *group, uint32_t serial,
                           unsigned lists, const tdg__outcome_t *outcome) {
    if (outcome->code == TDG_EENDED)
        return;
    if (group->checked && group->live != NULL) {
        /* A refusal of what is new says nothing of the live one: checked without it. */
        if ((asks_for_more(core, group, serial) || asks_for_lists(core, group, lists)) &&
            !tdg__subs_transient(outcome)) {
            group->dirty = true;
            refuse(core, group, serial, lists, outcome);
        } else {
            on_check_ended(core, group, outcome);
        }
        return;
    }
    if (group->gap && has_one_life(core)) {
        tdg__connect_give_up(core, outcome->code != 0 ? outcome->code : TDG_EENDED,
                             outcome->failure != NULL
                                 ? outcome->failure->message
                                 : "the server has ended the stream");
        return;
    }
    if (tdg__subs_barred(outcome) && group->gap) {
        tdg__connect_give_up(core, outcome->code, outcome->failure->message);
    } else if (tdg__subs_transient(outcome)) {
        put_off(core, group, serial, outcome);
    } else if (is_another(core, group, outcome->failure)) {
        core->subs->suspected = true;
        group->dirty = true;
        tdg__connect_lost(core, TDG_EAWAY, outcome->failure->message);
    } else if (group->gap && asks_for_lists(core, group, lists)) {
        refuse_wish(core, group, outcome);
    } else {
        refuse(core, group, serial, lists, outcome);
    }
}

static void on_live_ended(tdg__core_t *core, tdg__sub_group_t *group,
                          const tdg__outcome_t *outcome) {
    const bool graceful = outcome->code == 0;

    if (group->fresh == NULL && has_one_life(core)) {
        tdg__connect_give_up(core, graceful ? TDG_EENDED : outcome->code,
                             graceful || outcome->failure == NULL
                                 ? "the server has ended the stream"
                                 : outcome->failure->message);
        return;
    }
    lose(core, group);
    if (group->fresh == NULL)
        try_later(core, group, outcome->retry_after_ms);
    tdg__subs_tell_down(core, graceful ? TDG_EENDED : outcome->code,
                        graceful || outcome->failure == NULL
                            ? "the server has ended the stream"
                            : outcome->failure->message);
}

/* One that was replaced ended before its time. Where it broke, what was on its way is
 * lost, and the other one began after that. */
static void on_old_ended(tdg__core_t *core, const tdg__sub_group_t *group, bool left,
                         unsigned lists, const tdg__outcome_t *outcome) {
    tdg__sub_t *sub;

    tdg__subs_kick(core); /* the group may wait for it to go */
    if (outcome->code == 0)
        return; /* the server had written all */
    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if ((sub->flags & TDG__SUB_LIVE) && (left || sub->group == group))
            tdg__gap_mark(sub);
    }
    core->subs->list_gap |= lists & core->subs->lists;
}

/* A stream is over, however it came to that; it is gone for whoever looks. */
static void ended(tdg__listen_t *listen, const tdg__outcome_t *outcome) {
    tdg__core_t *core = listen->core;
    tdg__sub_group_t *group = listen->group;
    uint32_t serial = listen->serial;
    unsigned lists = listen->lists;
    bool live = group->live == listen, fresh = group->fresh == listen;
    bool left = listen->left;
    tdg__listen_t **slot;

    for (size_t i = 0; (slot = slots_of(group, i)) != NULL; i++) {
        if (*slot == listen)
            *slot = NULL;
    }
    free_listen(listen);
    if (fresh)
        on_fresh_ended(core, group, serial, lists, outcome);
    else if (live)
        on_live_ended(core, group, outcome);
    else
        on_old_ended(core, group, left, lists, outcome);
}

static void on_done(void *user, const tdg__outcome_t *outcome) {
    ended(user, outcome);
}

static void end_myself(tdg__listen_t *listen, int code, const char *why) {
    tdg_failure_t failure;
    const tdg__outcome_t outcome = {
        .code = code,
        .failure = code != 0 ? tdg__failure_make(&failure, code, why) : NULL,
        .retry_after_ms = -1,
    };

    tdg__asked_drop(listen->core, listen->asked);
    ended(listen, &outcome);
}

void tdg__listen_cancelled(tdg__listen_t *listen) {
    end_myself(listen, 0, "");
}

static void on_timer(tdg__core_t *core, tdg__core_timer_t *timer) {
    tdg__listen_t *listen = (void *)((char *)timer - offsetof(tdg__listen_t, timer));

    if (listen == listen->group->old) {
        tdg__listen_drop(core, &listen->group->old);
        tdg__subs_kick(core);
    } else {
        end_myself(listen, TDG_ETIMEDOUT, "the server did not acknowledge the stream");
    }
}

/* ---- Silence ------------------------------------------------------------ */

/* For the acknowledgement. */
static uint32_t patience(const tdg__core_t *core, const tdg__sub_group_t *group) {
    return group->checked ? tdg__lifesign_patience(core) : core->client->timeout_ms;
}

void tdg__listen_silent(tdg__core_t *core, tdg__lifesign_t *life, bool dead) {
    tdg__sub_group_t *group = (void *)((char *)life - offsetof(tdg__sub_group_t, life));
    char why[64];

    if (group->live == NULL) {
        tdg__lifesign_rest(core, life);
        return;
    }
    if (dead) {
        snprintf(why, sizeof(why), "no sign of life for %" PRIu32 " ms", life->dead_ms);
        end_myself(group->live, TDG_EAWAY, why);
        return;
    }
    tdg__core_log(core, TDG_CLIENT_LOG_DEBUG, "a silent stream is checked");
    group->checked = group->dirty = true;
    if (group->fresh != NULL) /* that one shows it, and must not take its time */
        tdg__core_timer_at(core, &group->fresh->timer,
                           tdg__core_now(core) + patience(core, group));
    tdg__subs_kick(core);
}

/* ---- Opening ------------------------------------------------------------ */

static void on_opened(void *user, tdg__asked_t *asked) {
    (void)user; /* what counts is the acknowledgement */
    (void)asked;
}

static void on_message(void *user, const tdg__rpc_message_t *message) {
    tdg__listen_t *listen = user;

    tdg__updates_notification(listen->core, listen->asked, message);
}

static void on_alive(void *user) {
    tdg__listen_t *listen = user;

    if (listen == listen->group->live)
        tdg__lifesign_heard(listen->core, &listen->group->life);
}

static void on_retry_hint(void *user, uint32_t ms) {
    tdg__listen_t *listen = user;

    tdg__backoff_floor(&listen->core->backoff, ms);
}

static const tdg__stream_calls_t stream_calls = {
    .opened = on_opened,
    .message = on_message,
    .alive = on_alive,
    .retry = on_retry_hint,
};

/* What the group wants: an array of URIs, new; NULL: no memory. *ret_new: one of them was
 * never live. Those that are leaving are named until they have left. */
static json_t *wanted_uris(tdg__core_t *core, tdg__sub_group_t *group, uint32_t serial,
                           bool *ret_new) {
    json_t *uris = json_array();
    tdg__sub_t *sub;

    *ret_new = false;
    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if ((sub->group != group && sub->leaving != group) || !tdg__sub_wanted(sub) ||
            (sub->flags & TDG__SUB_POLLED))
            continue;
        if (json_array_append_new(uris, json_stringn(sub->uri, sub->len)) < 0) {
            json_decref(uris);
            return NULL;
        }
        if (sub->group != group)
            continue;
        sub->serial = serial;
        if ((sub->flags & TDG__SUB_ONCE) == 0)
            *ret_new = true;
    }
    return uris;
}

static const struct list_wish {
    tdg_list_t list;
    const char *name;
} list_wishes[] = {
    {TDG_LIST_RESOURCES, "resourcesListChanged"},
    {TDG_LIST_TOOLS,     "toolsListChanged"    },
    {TDG_LIST_PROMPTS,   "promptsListChanged"  },
};

unsigned tdg__listen_lists(const json_t *notifications) {
    unsigned lists = 0;

    for (size_t i = 0; i < sizeof(list_wishes) / sizeof(list_wishes[0]); i++) {
        if (json_is_true(json_object_get(notifications, list_wishes[i].name)))
            lists |= 1u << list_wishes[i].list;
    }
    return lists;
}

/* What a listen is about, as the protocol has it; new. NULL: no memory. `uris` is stolen,
 * and NULL is no memory. */
static json_t *make_filter(json_t *uris, unsigned lists) {
    json_t *filter = json_object();
    bool failed = filter == NULL || uris == NULL;

    for (size_t i = 0; i < sizeof(list_wishes) / sizeof(list_wishes[0]); i++) {
        if (lists & 1u << list_wishes[i].list)
            failed = json_object_set_new(filter, list_wishes[i].name, json_true()) < 0 ||
                     failed;
    }
    if (json_array_size(uris) > 0)
        failed = json_object_set(filter, "resourceSubscriptions", uris) < 0 || failed;
    json_decref(uris);
    if (failed) {
        json_decref(filter);
        return NULL;
    }
    return filter;
}

/* The `params` of a listen, new; NULL: no memory. `uris` and `meta` are stolen; they may
 * be NULL, which is no memory, and nothing to say. */
static json_t *make_params(json_t *uris, json_t *meta, unsigned lists) {
    json_t *params = json_object();
    bool failed = params == NULL;

    failed = json_object_set_new(params, "notifications", make_filter(uris, lists)) < 0 ||
             failed;
    if (meta != NULL)
        failed = json_object_set_new(params, "_meta", meta) < 0 || failed;
    if (failed) {
        json_decref(params);
        return NULL;
    }
    return params;
}

/* Whether the second cursor lies further back than the first; *ret_same: whether they are
 * of one epoch at all. */
static bool is_further_back(const char *first, const char *second, bool *ret_same) {
    uint64_t epochs[2] = {0, 0}, numbers[2] = {0, 0};

    *ret_same = tdg__cursor_read(first, &epochs[0], &numbers[0]) == 0 &&
                tdg__cursor_read(second, &epochs[1], &numbers[1]) == 0 &&
                epochs[0] == epochs[1];
    return *ret_same && numbers[1] < numbers[0];
}

/* Where to go on: where the group's last stream is; and where subscriptions come from
 * another group, no later than that one's, which may still owe something. Where that
 * cannot be compared, those count as missed. */
static const char *choose_cursor(tdg__core_t *core, const tdg__sub_group_t *group) {
    const char *cursor = group->cursor;
    bool same;
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        const char *other = sub->leaving != NULL ? sub->leaving->cursor : "";

        if (sub->group != group || sub->leaving == NULL)
            continue;
        if (cursor[0] == '\0' && !group->gap)
            cursor = other;
        else if (is_further_back(cursor, other, &same))
            cursor = other;
        else if (!same && core->ours)
            tdg__gap_mark(sub);
    }
    return cursor;
}

/* Says for what the cursor does not hold: what no stream had so far. Else a server that
 * begins to watch it now would have to take it for changed. */
static int put_fresh(const tdg__core_t *core, const tdg__sub_group_t *group,
                     unsigned lists, json_t *meta) {
    json_t *uris = json_array(), *fresh;
    const tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (sub->group == group && tdg__sub_wanted(sub) &&
            (sub->flags & (TDG__SUB_POLLED | TDG__SUB_ONCE)) == 0 &&
            json_array_append_new(uris, json_stringn(sub->uri, sub->len)) < 0) {
            json_decref(uris);
            return TDG_ENOMEM;
        }
    }
    fresh = make_filter(uris, lists & ~core->subs->lists_once);
    if (fresh != NULL && json_object_size(fresh) == 0) {
        json_decref(fresh);
        return 0;
    }
    return json_object_set_new(meta, "dev.tidings/fresh", fresh) == 0 ? 0 : TDG_ENOMEM;
}

static int open_listen(tdg__core_t *core, tdg__sub_group_t *group, json_t *uris,
                       uint32_t serial, bool since) {
    const char *cursor = choose_cursor(core, group);
    unsigned lists = group == core->subs->groups ? core->subs->lists : 0;
    bool no_memory;
    json_t *meta = tdg__group_meta(group, cursor, since, &no_memory);
    tdg__listen_t *listen = tdg__calloc(1, sizeof(*listen));
    tdg__ask_t ask = {
        .method = "subscriptions/listen",
        .timeout_ms = core->client->timeout_ms,
        .stream = &stream_calls,
    };

    if (listen == NULL || no_memory ||
        (cursor[0] != '\0' && put_fresh(core, group, lists, meta) < 0) ||
        tdg__core_timer_init(core, &listen->timer, on_timer) < 0) {
        tdg__free(listen);
        json_decref(uris);
        json_decref(meta);
        return TDG_ENOMEM;
    }
    listen->core = core;
    listen->group = group;
    listen->serial = serial;
    listen->had_cursor = cursor[0] != '\0';
    listen->lists = lists;

    ask.params = make_params(uris, meta, listen->lists);
    if (ask.params == NULL || tdg__ask(core, &ask, on_done, listen, &listen->asked) < 0) {
        tdg__core_timer_done(core, &listen->timer);
        tdg__free(listen);
        return TDG_ENOMEM;
    }
    tdg__core_timer_at(core, &listen->timer, tdg__core_now(core) + patience(core, group));
    tdg__waiters_move(&group->waiters, &listen->waiters);
    group->fresh = listen;
    core->counts.streams++;
    if (group->gap)
        core->counts.reconnects++;
    return 0;
}

/* Nobody wants anything of the group. Where its last one went to another group, what is
 * on its way to here is still wanted. */
static void close_group(tdg__core_t *core, tdg__sub_group_t *group) {
    if (group->left && group->live != NULL && !core->ours) {
        tdg__listen_drop(core, &group->old);
        group->old = group->live;
        group->old->left = true;
        group->live = NULL;
        tdg__core_timer_at(core, &group->old->timer,
                           tdg__core_now(core) + TDG__SUBS_OVERLAP_MS);
    } else {
        tdg__listen_drop(core, &group->live);
    }
    tdg__listen_drop(core, &group->fresh);
    group->left = false;
    group->dirty = group->gap = group->waits = group->checked = false;
    tdg__lifesign_rest(core, &group->life);
    group->cursor[0] = '\0';
    tdg__waiters_settle(core, &group->waiters, 0, NULL);
}

static void work_on(tdg__core_t *core, tdg__sub_group_t *group) {
    bool plain = group == core->subs->groups, some_new;
    uint32_t serial;
    json_t *uris;

    if (!group->dirty || (group->count > 0 && (group->fresh != NULL || group->waits)))
        return;

    /* What the one before may still bring is waited for. */
    if (group->old != NULL && (group->count > 0 || group->left))
        return;

    serial = ++core->subs->serials;
    uris = wanted_uris(core, group, serial, &some_new);
    if (uris == NULL) {
        try_later(core, group, -1);
        return;
    }
    if (json_array_size(uris) == 0 && (!plain || core->subs->lists == 0)) {
        json_decref(uris);
        close_group(core, group);
        return;
    }
    if (group->fresh != NULL || group->waits) {
        json_decref(uris);
        return;
    }
    group->dirty = false;
    if (open_listen(core, group, uris, serial, some_new) < 0) {
        group->dirty = true;
        try_later(core, group, -1);
    }
}

void tdg__listen_work(tdg__core_t *core) {
    for (tdg__sub_group_t *group = core->subs->groups; group != NULL; group = group->next)
        work_on(core, group);
}
