/* SPDX-License-Identifier: MIT
 *
 * Modern streams. Every group has one; when the group changes, a new stream is opened for
 * all of it, and the old one is closed once the new one is acknowledged: so there is no
 * gap. Changes meanwhile wait for the next replacement.
 *
 *     fresh ──acknowledged──▶ live ──replaced──▶ old (for a moment) ──▶ gone
 *       │                      │
 *       └───── ended: gone, and if need be opened again in due time
 *
 * A live stream that is silent for too long (lifesign.h), of a server that announces no
 * interval, is checked: a fresh one is opened as if the group had changed. If it is
 * acknowledged, it replaces the old one, and the subscribed resources are read and
 * compared. If it is refused, or not acknowledged in time, the old one cannot be trusted:
 * it is closed and reopened.
 *
 * With servers that send cursors the replacement is exact: the new stream resumes where
 * the old one ends, so the old one is closed at once. With others the old one may still
 * carry updates that were on their way when the new one was acknowledged. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs/modern_streams.h"
#include "client/subs/subs.h"
#include "client/subs/updates.h"

/* ---- Finding ------------------------------------------------------------ */

static tdg__sub_stream_t **slots_of(tdg__sub_group_t *group, size_t index) {
    tdg__sub_stream_t **const slots[] = {&group->live, &group->fresh, &group->old};

    return index < sizeof(slots) / sizeof(slots[0]) ? slots[index] : NULL;
}

tdg__sub_stream_t *tdg__sub_stream_by_id(const tdg__core_t *core, const json_t *id) {
    char text[TDG__RPC_MAX_ID + 1];
    tdg__sub_stream_t **slot;

    if (id == NULL || tdg__rpc_id_text(id, text) != NULL)
        return NULL;
    for (tdg__sub_group_t *group = core->subs->groups; group != NULL;
         group = group->next) {
        for (size_t i = 0; (slot = slots_of(group, i)) != NULL; i++) {
            if (*slot != NULL &&
                strcmp(tdg__client_request_id((*slot)->request), text) == 0)
                return *slot;
        }
    }
    return NULL;
}

bool tdg__sub_streams_overlap(const tdg__core_t *core) {
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

/* It is closed; its memory is all that is left of it. */
static void release(tdg__sub_stream_t *stream) {
    tdg__core_t *core = stream->core;

    /* What it reported may come again on the one that takes its place. */
    core->subs->overlap_end = tdg__core_now(core);
    tdg__updates_settle(core);
    tdg__waiters_move(&stream->waiters, &stream->group->waiters);
    tdg__core_timer_done(core, &stream->timer);
}

void tdg__sub_stream_drop(tdg__sub_stream_t **stream) {
    tdg__sub_stream_t *dropped = *stream;

    if (dropped == NULL)
        return;
    *stream = NULL;
    tdg__client_request_drop(dropped->request);
    release(dropped);
    tdg__free(dropped);
}

/* Nobody notifies of the subscriptions of the group any more. */
static void lose(tdg__core_t *core, tdg__sub_group_t *group) {
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (sub->leaving == group) /* the other group knows of no gap */
            tdg__gap_mark(sub);
        if (sub->leaving == group || (sub->group == group && sub->leaving == NULL)) {
            sub->leaving = NULL;
            tdg__sub_lost(sub);
        }
    }
    group->gap = true;
    group->checked = false;
    tdg__lifesign_rest(core, &group->life);
}

void tdg__sub_streams_down(tdg__core_t *core) {
    for (tdg__sub_group_t *group = core->subs->groups; group != NULL;
         group = group->next) {
        if (group->live != NULL || group->fresh != NULL || group->retry_ms != INT64_MAX)
            group->dirty = true;
        if (group->live != NULL)
            lose(core, group);
        tdg__sub_stream_drop(&group->live);
        tdg__sub_stream_drop(&group->fresh);
        tdg__sub_stream_drop(&group->old);
        group->retry_ms = INT64_MAX;
        group->checked = false;
    }
}

static void try_later(tdg__core_t *core, tdg__sub_group_t *group,
                      const tdg__outcome_t *outcome) {
    group->retry_ms = tdg__subs_retry(core, outcome->retry_after_ms);
    group->refusal.code = 0;
    if (outcome->retry_after_ms > 0 && outcome->failure != NULL) {
        group->refusal = *outcome->failure;
        group->refusal.data = NULL;
    }
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
 * is no LOST for lists that were reported before: those are asked for again in due time.
 */
static void refuse_lists(tdg__core_t *core, tdg__sub_group_t *group,
                         const tdg__outcome_t *outcome) {
    core->subs->lists &= core->subs->lists_once;
    if (core->subs->lists != 0 && group->live == NULL)
        try_later(core, group, outcome);
}

/* Whether the listen asked for it, and it is not live by an earlier one. */
static bool is_request(const tdg__sub_t *sub, const tdg__sub_stream_t *stream) {
    return sub->group == stream->group && sub->serial == stream->serial &&
           sub->state != TDG__SUB_LIVE;
}

/* Whether it came after the listen, and waits for the next one. */
static bool is_next(const tdg__sub_t *sub, const tdg__sub_stream_t *stream) {
    return sub->group == stream->group && sub->serial == 0 && sub->state == TDG__SUB_OUT;
}

/* It will not be acknowledged: those that are not live by an earlier one are refused. */
static void refuse(const tdg__sub_stream_t *stream, const tdg__outcome_t *outcome) {
    tdg__core_t *core = stream->core;
    tdg__sub_group_t *group = stream->group;
    const bool plain = group == core->subs->groups;
    const bool all_lists = (core->subs->lists & ~stream->lists) == 0;
    tdg_failure_t failure = *outcome->failure;
    tdg__sub_t *sub;
    int code = outcome->code;

    if (failure.rpc_code == TDG__RPC_METHOD_NOT_FOUND)
        code = TDG_ENOTSUP;
    json_incref(failure.data);
    /* A wish that came after it waits, with all others, for the next one's answer. */
    if (!plain || all_lists)
        tdg__waiters_settle(core, &group->waiters, code, &failure);
    if (plain && all_lists)
        refuse_lists(core, group, outcome);
    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (is_request(sub, stream))
            tdg__sub_refused(core, sub, code, &failure);
    }
    json_decref(failure.data);
    tdg__subs_kick(core);
}

/* The same for now: the group is tried again in due time. Where the server says when, the
 * answer holds for those that wait for that, too. */
static void put_off(const tdg__sub_stream_t *stream, const tdg__outcome_t *outcome) {
    tdg__core_t *core = stream->core;
    const bool asked = outcome->retry_after_ms > 0;
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (is_request(sub, stream) || (asked && is_next(sub, stream)))
            tdg__sub_put_off(core, sub, outcome->failure);
    }
    try_later(core, stream->group, outcome);
}

/* Why a stream is over, to whom it matters. */
static void tell_over(tdg__core_t *core, const tdg__outcome_t *outcome,
                      void (*tell)(tdg__core_t *core, int code, const char *why)) {
    if (outcome->code != 0)
        tell(core, outcome->code, outcome->failure->message);
    else
        tell(core, TDG_EENDED, "the server has ended the stream");
}

static bool has_one_life(const tdg__core_t *core) {
    return (core->client->flags & TDG_CLIENT_ONE_LIFE) != 0;
}

static void on_live_ended(tdg__core_t *core, tdg__sub_group_t *group,
                          const tdg__outcome_t *outcome) {
    if (group->fresh == NULL && has_one_life(core)) {
        tell_over(core, outcome, tdg__connect_give_up);
        return;
    }
    lose(core, group);
    if (group->fresh == NULL)
        try_later(core, group, outcome);
    tell_over(core, outcome, tdg__subs_tell_down);
}

/* The stream beside a silent one is over before it was acknowledged. Where the server has
 * answered, it may allow only one: then that is not lost, but closed by us, and opened
 * again. */
static void on_check_ended(tdg__core_t *core, tdg__sub_group_t *group,
                           const tdg__outcome_t *outcome) {
    const tdg_failure_t *failure = outcome->failure;

    tdg__subs_compare(core, group);
    group->refused =
        (outcome->code != TDG_ETIMEDOUT && outcome->code != TDG_EUNREACHABLE) ||
        (failure != NULL && failure->http_status != 0);
    tdg__sub_stream_drop(&group->live);
    if (group->refused && has_one_life(core)) {
        lose(core, group);
        try_later(core, group, outcome);
    } else {
        on_live_ended(core, group, outcome);
    }
}

static bool asks_for_more(const tdg__sub_stream_t *stream) {
    const tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(stream->core->subs, &id)) != NULL;) {
        if (is_request(sub, stream))
            return true;
    }
    return false;
}

/* Whether it asked for lists that no stream has had. */
static bool asks_for_lists(const tdg__sub_stream_t *stream) {
    const struct tdg__subs *subs = stream->core->subs;

    return stream->group == subs->groups &&
           (stream->lists & subs->lists & ~subs->lists_once) != 0;
}

/* That may be why it was refused: what was there before is asked for without. */
static void refuse_wish(tdg__core_t *core, tdg__sub_group_t *group,
                        const tdg__outcome_t *outcome) {
    const bool unknown = outcome->failure->rpc_code == TDG__RPC_METHOD_NOT_FOUND;

    tdg__waiters_settle(core, &group->waiters, unknown ? TDG_ENOTSUP : outcome->code,
                        outcome->failure);
    core->subs->lists &= core->subs->lists_once;
    try_later(core, group, outcome);
}

static void on_fresh_ended(const tdg__sub_stream_t *stream,
                           const tdg__outcome_t *outcome) {
    tdg__core_t *core = stream->core;
    tdg__sub_group_t *group = stream->group;

    if (outcome->code == TDG_EENDED)
        return;
    if (group->checked && group->live != NULL) {
        /* A refusal of what is new says nothing of the live one: checked without it. */
        if ((asks_for_more(stream) || asks_for_lists(stream)) &&
            !tdg__subs_transient(outcome)) {
            group->dirty = true;
            refuse(stream, outcome);
        } else {
            on_check_ended(core, group, outcome);
        }
        return;
    }
    if (group->gap && has_one_life(core)) {
        tell_over(core, outcome, tdg__connect_give_up);
        return;
    }
    if (tdg__failure_barred(outcome->failure) && group->gap) {
        tdg__connect_give_up(core, outcome->code, outcome->failure->message);
    } else if (tdg__subs_transient(outcome)) {
        put_off(stream, outcome);
    } else if (is_another(core, group, outcome->failure)) {
        core->subs->suspected = true;
        group->dirty = true;
        tdg__connect_lost(core, TDG_EUNREACHABLE, outcome->failure->message);
    } else if (group->gap && asks_for_lists(stream)) {
        refuse_wish(core, group, outcome);
    } else {
        refuse(stream, outcome);
    }
}

/* One that was replaced ended before its time. Where it broke, what was on its way is
 * lost, and the other one began after that. */
static void on_old_ended(const tdg__sub_stream_t *stream, const tdg__outcome_t *outcome) {
    tdg__core_t *core = stream->core;
    tdg__sub_t *sub;

    tdg__subs_kick(core); /* the group may wait for it to go */
    if (outcome->code == 0)
        return; /* the server had written all */
    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (tdg__sub_is_live(sub) && (stream->left || sub->group == stream->group))
            tdg__gap_mark(sub);
    }
    core->subs->list_gap |= stream->lists & core->subs->lists;
}

/* A stream is over, however it came to that; it is gone for whoever looks. */
static void ended(tdg__sub_stream_t *stream, const tdg__outcome_t *outcome) {
    tdg__sub_group_t *group = stream->group;
    bool live = group->live == stream, fresh = group->fresh == stream;
    tdg__sub_stream_t **slot;

    for (size_t i = 0; (slot = slots_of(group, i)) != NULL; i++) {
        if (*slot == stream)
            *slot = NULL;
    }
    release(stream);
    if (fresh)
        on_fresh_ended(stream, outcome);
    else if (live)
        on_live_ended(stream->core, group, outcome);
    else
        on_old_ended(stream, outcome);
    tdg__free(stream);
}

static void on_done(void *user, const tdg__outcome_t *outcome) {
    ended(user, outcome);
}

static void end_myself(tdg__sub_stream_t *stream, int code, const char *why) {
    tdg_failure_t failure;
    const tdg__outcome_t outcome = {
        .code = code,
        .failure = code != 0 ? tdg__failure_set(&failure, code, "%s", why) : NULL,
        .retry_after_ms = -1,
    };

    tdg__client_request_drop(stream->request);
    ended(stream, &outcome);
}

void tdg__sub_stream_cancelled(tdg__sub_stream_t *stream) {
    end_myself(stream, 0, "");
}

static void on_timer(tdg__core_t *core, tdg__core_timer_t *timer) {
    tdg__sub_stream_t *stream =
        (void *)((char *)timer - offsetof(tdg__sub_stream_t, timer));

    if (stream == stream->group->old) {
        tdg__sub_stream_drop(&stream->group->old);
        tdg__subs_kick(core);
    } else {
        end_myself(stream, TDG_ETIMEDOUT, "the server did not acknowledge the stream");
    }
}

/* ---- Silence ------------------------------------------------------------ */

/* For the acknowledgement. */
static uint32_t patience(const tdg__core_t *core, const tdg__sub_group_t *group) {
    return group->checked ? tdg__lifesign_patience(core) : core->client->timeout_ms;
}

void tdg__sub_stream_silent(tdg__core_t *core, tdg__lifesign_t *life, const char *dead) {
    tdg__sub_group_t *group = (void *)((char *)life - offsetof(tdg__sub_group_t, life));

    if (group->live == NULL) {
        tdg__lifesign_rest(core, life);
        return;
    }
    if (dead != NULL) {
        end_myself(group->live, TDG_EUNREACHABLE, dead);
        return;
    }
    tdg__core_log(core, TDG_LOG_DEBUG, "checking a silent stream");
    group->checked = group->dirty = true;
    if (group->fresh != NULL) /* that one shows it, and must not take its time */
        tdg__core_timer_at(core, &group->fresh->timer,
                           tdg__core_now(core) + patience(core, group));
    tdg__subs_kick(core);
}

/* ---- Opening ------------------------------------------------------------ */

/* That it is open means nothing: what counts is the acknowledgement. */
static void on_message(void *user, const tdg__rpc_message_t *message) {
    tdg__sub_stream_t *stream = user;

    tdg__updates_notification(stream->core, stream->request, stream, message);
}

static void on_alive(void *user) {
    tdg__sub_stream_t *stream = user;

    if (stream == stream->group->live)
        tdg__lifesign_heard(stream->core, &stream->group->life);
}

static void on_retry_hint(void *user, uint32_t ms) {
    tdg__sub_stream_t *stream = user;

    tdg__backoff_floor(&stream->core->backoff, ms);
}

static const tdg__stream_calls_t stream_calls = {
    .message = on_message,
    .alive = on_alive,
    .retry = on_retry_hint,
};

static int open_listen(tdg__core_t *core, tdg__sub_group_t *group, json_t *uris,
                       uint32_t serial, bool since) {
    const unsigned lists = group == core->subs->groups ? core->subs->lists : 0;
    tdg__sub_stream_t *stream = tdg__calloc(1, sizeof(*stream));
    bool had_cursor = false;
    const tdg__client_request_opts_t wanted = {
        .method = "subscriptions/listen",
        .params = tdg__sub_stream_params(core, group, uris, lists, since, &had_cursor),
        .timeout_ms = core->client->timeout_ms,
        .stream = &stream_calls,
    };

    if (stream == NULL || wanted.params == NULL ||
        tdg__core_timer_init(core, &stream->timer, on_timer) < 0) {
        tdg__free(stream);
        json_decref(wanted.params);
        return TDG_ENOMEM;
    }
    stream->core = core;
    stream->group = group;
    stream->serial = serial;
    stream->had_cursor = had_cursor;
    stream->lists = lists;
    if (tdg__client_request_begin(core, &wanted, on_done, stream, &stream->request) < 0) {
        tdg__core_timer_done(core, &stream->timer);
        tdg__free(stream);
        return TDG_ENOMEM;
    }
    tdg__core_timer_at(core, &stream->timer, tdg__core_now(core) + patience(core, group));
    tdg__waiters_move(&group->waiters, &stream->waiters);
    group->fresh = stream;
    core->counts.streams++;
    if (group->gap)
        core->counts.reconnects++;
    return 0;
}

/* Nobody wants anything of the group. Where its last one went to another group, what is
 * on its way to here is still wanted. */
static void close_group(tdg__core_t *core, tdg__sub_group_t *group) {
    if (group->left && group->live != NULL && !core->ours) {
        tdg__sub_stream_drop(&group->old);
        group->old = group->live;
        group->old->left = true;
        group->live = NULL;
        tdg__core_timer_at(core, &group->old->timer,
                           tdg__core_now(core) + TDG__SUBS_OVERLAP_MS);
    } else {
        tdg__sub_stream_drop(&group->live);
    }
    tdg__sub_stream_drop(&group->fresh);
    group->left = false;
    group->dirty = group->gap = group->checked = false;
    group->retry_ms = INT64_MAX;
    tdg__lifesign_rest(core, &group->life);
    group->cursor[0] = '\0';
    tdg__waiters_settle(core, &group->waiters, 0, NULL);
}

static void work_on(tdg__core_t *core, tdg__sub_group_t *group) {
    static const tdg__outcome_t no_memory = {.code = TDG_ENOMEM, .retry_after_ms = -1};
    bool plain = group == core->subs->groups, some_new;
    bool busy = group->fresh != NULL || group->retry_ms != INT64_MAX;
    uint32_t serial;
    json_t *uris;

    if (!group->dirty || (group->count > 0 && busy))
        return;

    /* What the one before may still bring is waited for. */
    if (group->old != NULL && (group->count > 0 || group->left))
        return;

    serial = ++core->subs->serials;
    uris = tdg__sub_stream_uris(core, group, serial, &some_new);
    if (uris == NULL) {
        try_later(core, group, &no_memory);
        return;
    }
    if (json_array_size(uris) == 0 && (!plain || core->subs->lists == 0)) {
        json_decref(uris);
        close_group(core, group);
        return;
    }
    if (busy) {
        json_decref(uris);
        return;
    }
    group->dirty = false;
    if (open_listen(core, group, uris, serial, some_new) < 0) {
        group->dirty = true;
        try_later(core, group, &no_memory);
    }
}

void tdg__sub_streams_work(tdg__core_t *core) {
    for (tdg__sub_group_t *group = core->subs->groups; group != NULL; group = group->next)
        work_on(core, group);
}
