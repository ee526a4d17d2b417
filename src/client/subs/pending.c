/* SPDX-License-Identifier: MIT
 *
 * Calls about subscriptions that wait for their outcome. One call waits for many URIs;
 * each is a waiter inside the call, in the list of its subscription. When the last one
 * has its outcome the call is finished, and `done` is called from the timer `soon`, never
 * from inside. */
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs/pending.h"
#include "client/subs/subs.h"

enum { PATIENCE_PART = 10 }; /* of a call's time: until it returns a refusal */

static void finish(tdg__core_t *core, tdg__pending_t *pending) {
    struct tdg__subs *subs = core->subs;

    tdg__core_timer_done(core, &pending->timeout);
    tdg__queue_remove(&pending->in_calls);
    tdg__queue_append(&subs->finished, &pending->in_calls);
    tdg__subs_kick(core);
}

/* ---- Waiters ------------------------------------------------------------ */

void tdg__waiter_add(tdg__waiter_t **list, tdg__waiter_t *waiter) {
    waiter->list = list;
    waiter->next = *list;
    *list = waiter;
}

static void unlink_waiter(tdg__waiter_t *waiter) {
    for (tdg__waiter_t **at = waiter->list; *at != NULL; at = &(*at)->next) {
        if (*at == waiter) {
            *at = waiter->next;
            break;
        }
    }
    waiter->next = NULL;
    waiter->list = NULL;
}

void tdg__waiter_settle(tdg__core_t *core, tdg__waiter_t *waiter, int code,
                        const tdg_failure_t *failure) {
    tdg__pending_t *pending = waiter->pending;
    size_t index = (size_t)(waiter - pending->waiters);

    if (pending->kind == TDG__PENDING_UNSUBSCRIBE && code != TDG_EENDED)
        code = 0; /* whatever the server says, it is over */
    if (waiter->list != NULL)
        unlink_waiter(waiter);
    waiter->code = code;
    if (pending->codes != NULL)
        pending->codes[index] = code;

    if (code != 0 && index < pending->failed_at) {
        pending->failed_at = index;
        json_decref(pending->failure.data);
        if (failure != NULL) {
            pending->failure = *failure;
            json_incref(pending->failure.data);
            pending->failure.code = code;
        } else {
            tdg__failure_set(&pending->failure, code, "%s", tdg_strerror(code));
        }
    }

    pending->left--;
    if (pending->left == 0)
        finish(core, pending);
}

void tdg__waiters_settle(tdg__core_t *core, tdg__waiter_t **list, int code,
                         const tdg_failure_t *failure) {
    while (*list != NULL)
        tdg__waiter_settle(core, *list, code, failure);
}

void tdg__waiters_move(tdg__waiter_t **from, tdg__waiter_t **to) {
    while (*from != NULL) {
        tdg__waiter_t *waiter = *from;

        unlink_waiter(waiter);
        tdg__waiter_add(to, waiter);
    }
}

/* ---- Calls -------------------------------------------------------------- */

/* What the call returns where its time is over. An unsubscribe does not matter to the
 * server any more. */
static void explain_timeout(const tdg__core_t *core, const tdg__pending_t *pending,
                            tdg_failure_t *ret) {
    const bool away = !core->subs->up || core->subs->told_down;
    const int code = pending->kind == TDG__PENDING_UNSUBSCRIBE ? 0
                     : away                                    ? TDG_EUNREACHABLE
                                                               : TDG_ETIMEDOUT;

    tdg__failure_set(ret, code, "%s",
                     away ? "the server could not be reached in time"
                          : "the server did not acknowledge it in time");
}

static void explain_refusal(const tdg__refusal_t *refusal, tdg_failure_t *ret) {
    tdg__failure_set(ret, refusal->code, "%s", refusal->message);
    ret->rpc_code = refusal->rpc_code;
    ret->http_status = refusal->http_status;
    ret->passing = refusal->answered;
}

/* What was wanted and never came about is no longer needed. */
static void give_up(tdg__core_t *core, tdg__waiter_t *waiter, tdg__sub_t *sub,
                    const tdg_failure_t *why) {
    tdg__waiter_settle(core, waiter, why->code, why);
    if (sub != NULL && sub->waiters == NULL && !sub->ever_live)
        tdg__sub_refused(core, sub, why->code, why);
}

static void arm(tdg__core_t *core, tdg__pending_t *pending, int64_t due_ms) {
    pending->due_ms = due_ms;
    tdg__core_timer_at(core, &pending->timeout, due_ms);
}

/* Whether the server has refused it for long enough. Where it was unreachable last, the
 * next refusal is the first one again. */
static bool is_refused_for_long(const tdg__core_t *core, tdg__waiter_t *waiter,
                                const tdg__refusal_t *refusal) {
    if (tdg__core_now(core) < waiter->give_up_ms)
        return false;
    if (refusal != NULL && refusal->answered)
        return true;
    waiter->give_up_ms = INT64_MAX;
    return false;
}

/* Its time is over; or only that of those which the server refuses again and again. */
static void on_timeout(tdg__core_t *core, tdg__core_timer_t *timer) {
    tdg__pending_t *pending = (void *)((char *)timer - offsetof(tdg__pending_t, timeout));
    const bool over = tdg__core_now(core) >= pending->end_ms;
    int64_t next_ms = pending->end_ms;
    tdg_failure_t timeout, refused;

    explain_timeout(core, pending, &timeout);
    for (size_t i = 0; i < pending->count; i++) {
        tdg__waiter_t *waiter = &pending->waiters[i];
        const tdg__refusal_t *refusal;
        tdg__sub_t *sub;

        if (waiter->list == NULL)
            continue; /* its record may be gone, and with the last one all of the pool */
        sub = waiter->sub != 0 ? tdg__sub_get(core->subs, waiter->sub) : NULL;
        refusal = sub != NULL ? sub->refusal : NULL;
        if (!over && !is_refused_for_long(core, waiter, refusal)) {
            if (waiter->give_up_ms < next_ms)
                next_ms = waiter->give_up_ms;
            continue;
        }
        if (refusal != NULL) /* the server's reason says more */
            explain_refusal(refusal, &refused);
        give_up(core, waiter, sub, refusal != NULL ? &refused : &timeout);
    }
    if (pending->left > 0)
        arm(core, pending, next_ms);
}

void tdg__waiters_put_off(tdg__core_t *core, tdg__waiter_t *list) {
    const bool retries = (core->client->flags & TDG_CLIENT_ONE_LIFE) == 0;
    const uint32_t patience_ms =
        retries ? core->client->timeout_ms / (uint32_t)PATIENCE_PART : 0;
    const int64_t due_ms = tdg__core_now(core) + patience_ms;

    for (tdg__waiter_t *waiter = list; waiter != NULL; waiter = waiter->next) {
        tdg__pending_t *pending = waiter->pending;

        if (waiter->give_up_ms != INT64_MAX)
            continue;
        waiter->give_up_ms = due_ms;
        if (due_ms < pending->due_ms)
            arm(core, pending, due_ms);
    }
}

tdg__pending_t *tdg__pending_create(tdg__core_t *core, tdg__pending_kind_t kind,
                                    size_t count, tdg__core_done_fn done, void *user) {
    struct tdg__subs *subs = core->subs;
    tdg__pending_t *pending = NULL;

    if (count < SIZE_MAX / 2 / sizeof(tdg__waiter_t))
        pending = tdg__calloc(1, sizeof(*pending) + count * sizeof(tdg__waiter_t));
    if (pending == NULL ||
        tdg__core_timer_init(core, &pending->timeout, on_timeout) < 0) {
        tdg__free(pending);
        tdg__pending_late(core, TDG_ENOMEM, done, user);
        return NULL;
    }

    pending->kind = kind;
    pending->done = done;
    pending->user = user;
    pending->count = pending->left = pending->failed_at = count;
    for (size_t i = 0; i < count; i++) {
        pending->waiters[i].pending = pending;
        pending->waiters[i].give_up_ms = INT64_MAX;
    }
    tdg__queue_prepend(&subs->calls, &pending->in_calls);
    pending->end_ms = tdg__core_now(core) + core->client->timeout_ms;
    arm(core, pending, pending->end_ms);
    return pending;
}

static void finish_late(int code, tdg__core_done_fn done, void *user) {
    if (code != 0)
        tdg__core_refuse(done, user, code);
    else
        done(user, 0, NULL, NULL);
}

/* There is a little room for calls that there is no memory for. Whoever goes on calling
 * when that is full as well gets the answer from inside. */
void tdg__pending_late(tdg__core_t *core, int code, tdg__core_done_fn done, void *user) {
    struct tdg__subs *subs = core->subs;

    if (subs->late_count == TDG__SUBS_MAX_LATE) {
        finish_late(code, done, user);
        return;
    }
    subs->late[subs->late_count].done = done;
    subs->late[subs->late_count].user = user;
    subs->late[subs->late_count++].code = code;
    tdg__subs_kick(core);
}

static void flush_late(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;

    while (subs->late_count > 0) {
        tdg__core_done_fn done = subs->late[0].done;
        void *user = subs->late[0].user;
        int code = subs->late[0].code;

        subs->late_count--;
        memmove(&subs->late[0], &subs->late[1], subs->late_count * sizeof(subs->late[0]));
        finish_late(code, done, user);
    }
}

void tdg__pending_flush(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    tdg__queue_t *first;

    flush_late(core);
    while ((first = tdg__queue_take(&subs->finished)) != NULL) {
        tdg__pending_t *pending = TDG__RECORD(tdg__pending_t, in_calls, first);
        bool failed = pending->failed_at < pending->count;

        pending->done(pending->user, failed ? pending->failure.code : 0, NULL,
                      failed ? &pending->failure : NULL);
        json_decref(pending->failure.data);
        tdg__free(pending);
    }
}

void tdg__pending_end(tdg__core_t *core) {
    tdg_failure_t failure;

    tdg__failure_set(&failure, TDG_EENDED, "the client is being closed");
    while (!tdg__queue_is_empty(&core->subs->calls)) {
        tdg__pending_t *pending =
            TDG__RECORD(tdg__pending_t, in_calls, core->subs->calls.next);

        for (size_t i = 0; i < pending->count; i++) {
            if (pending->waiters[i].list != NULL)
                tdg__waiter_settle(core, &pending->waiters[i], TDG_EENDED, &failure);
        }
    }
}
