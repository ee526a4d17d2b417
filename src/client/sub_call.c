/* SPDX-License-Identifier: MIT
 *
 * Calls about subscriptions that wait for their outcome. One call waits for many things
 * (URIs); each is a waiter inside of the call, in the list of what it waits for. When the
 * last has its outcome the call is finished, and `done` is called from the timer `soon`,
 * never from inside. */
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs_internal.h"

const tdg_failure_t *tdg__failure_make(tdg_failure_t *failure, int code,
                                       const char *message) {
    tdg__failure_set(failure, code, "%s", message);
    return failure;
}

static void take_out(struct tdg__subs *subs, tdg__sub_call_t *call) {
    if (call->prev != NULL)
        call->prev->next = call->next;
    else
        subs->calls = call->next;
    if (call->next != NULL)
        call->next->prev = call->prev;
    call->next = call->prev = NULL;
}

static void finish(tdg__core_t *core, tdg__sub_call_t *call) {
    struct tdg__subs *subs = core->subs;

    tdg__core_timer_done(core, &call->timeout);
    take_out(subs, call);
    *subs->finished_end = call;
    subs->finished_end = &call->next;
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
    tdg__sub_call_t *call = waiter->call;
    size_t index = (size_t)(waiter - call->waiters);

    if (call->kind == TDG__CALL_UNSUBSCRIBE && code != TDG_EENDED)
        code = 0; /* whatever the server says, it is over */
    if (waiter->list != NULL)
        unlink_waiter(waiter);
    waiter->code = code;
    if (call->codes != NULL)
        call->codes[index] = code;

    if (code != 0 && index < call->failed_at) {
        call->failed_at = index;
        json_decref(call->failure.data);
        if (failure != NULL) {
            call->failure = *failure;
            json_incref(call->failure.data);
            call->failure.code = code;
        } else {
            tdg__failure_make(&call->failure, code, tdg_strerror(code));
        }
    }

    call->left--;
    if (call->left == 0)
        finish(core, call);
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
static void explain_timeout(const tdg__core_t *core, const tdg__sub_call_t *call,
                            tdg_failure_t *ret) {
    const bool away = !core->subs->up || core->subs->told_down;
    const int code = call->kind == TDG__CALL_UNSUBSCRIBE ? 0
                     : away                              ? TDG_EAWAY
                                                         : TDG_ETIMEDOUT;

    tdg__failure_make(ret, code,
                      away ? "the server could not be reached in time"
                           : "the server did not acknowledge it in time");
}

static void explain_refusal(const tdg__refusal_t *refusal, tdg_failure_t *ret) {
    tdg__failure_make(ret, refusal->code, refusal->message);
    ret->rpc_code = refusal->rpc_code;
    ret->http_status = refusal->http_status;
    ret->passing = refusal->answered;
}

/* What was wanted and never came about is not wanted any more. */
static void give_up(tdg__core_t *core, tdg__waiter_t *waiter, tdg__sub_t *sub,
                    const tdg_failure_t *why) {
    tdg__waiter_settle(core, waiter, why->code, why);
    if (sub != NULL && sub->waiters == NULL && (sub->flags & TDG__SUB_ONCE) == 0)
        tdg__sub_refused(core, sub, why->code, why);
}

static void arm(tdg__core_t *core, tdg__sub_call_t *call, int64_t due_ms) {
    call->due_ms = due_ms;
    tdg__core_timer_at(core, &call->timeout, due_ms);
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
    tdg__sub_call_t *call = (void *)((char *)timer - offsetof(tdg__sub_call_t, timeout));
    const bool over = tdg__core_now(core) >= call->end_ms;
    int64_t next_ms = call->end_ms;
    tdg_failure_t timeout, refused;

    explain_timeout(core, call, &timeout);
    for (size_t i = 0; i < call->count; i++) {
        tdg__waiter_t *waiter = &call->waiters[i];
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
    if (call->left > 0)
        arm(core, call, next_ms);
}

void tdg__waiters_put_off(tdg__core_t *core, tdg__waiter_t *list) {
    const bool retries = (core->client->flags & TDG_CLIENT_ONE_LIFE) == 0;
    const uint32_t patience_ms =
        retries ? core->client->timeout_ms / (uint32_t)TDG__SUBS_PATIENCE_PART : 0;
    const int64_t due_ms = tdg__core_now(core) + patience_ms;

    for (tdg__waiter_t *waiter = list; waiter != NULL; waiter = waiter->next) {
        tdg__sub_call_t *call = waiter->call;

        if (waiter->give_up_ms != INT64_MAX)
            continue;
        waiter->give_up_ms = due_ms;
        if (due_ms < call->due_ms)
            arm(core, call, due_ms);
    }
}

tdg__sub_call_t *tdg__sub_call_create(tdg__core_t *core, tdg__sub_call_kind_t kind,
                                      size_t count, tdg__core_done_fn done, void *user) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_call_t *call = NULL;

    if (count < SIZE_MAX / 2 / sizeof(tdg__waiter_t))
        call = tdg__calloc(1, sizeof(*call) + count * sizeof(tdg__waiter_t));
    if (call == NULL || tdg__core_timer_init(core, &call->timeout, on_timeout) < 0) {
        tdg__free(call);
        tdg__sub_call_late(core, TDG_ENOMEM, done, user);
        return NULL;
    }

    call->kind = kind;
    call->done = done;
    call->user = user;
    call->count = call->left = call->failed_at = count;
    for (size_t i = 0; i < count; i++) {
        call->waiters[i].call = call;
        call->waiters[i].give_up_ms = INT64_MAX;
    }
    call->next = subs->calls;
    if (call->next != NULL)
        call->next->prev = call;
    subs->calls = call;
    call->end_ms = tdg__core_now(core) + core->client->timeout_ms;
    arm(core, call, call->end_ms);
    return call;
}

/* There is a little room for calls that there is no memory for. Whoever goes on calling
 * when that is full as well gets the answer from inside. */
void tdg__sub_call_late(tdg__core_t *core, int code, tdg__core_done_fn done, void *user) {
    struct tdg__subs *subs = core->subs;
    tdg_failure_t failure;

    if (subs->late_count == TDG__SUBS_MAX_LATE) {
        done(user, code, NULL,
             code != 0 ? tdg__failure_make(&failure, code, tdg_strerror(code)) : NULL);
        return;
    }
    subs->late[subs->late_count].done = done;
    subs->late[subs->late_count].user = user;
    subs->late[subs->late_count++].code = code;
    tdg__subs_kick(core);
}

static void flush_late(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    tdg_failure_t failure;

    while (subs->late_count > 0) {
        tdg__core_done_fn done = subs->late[0].done;
        void *user = subs->late[0].user;
        int code = subs->late[0].code;

        subs->late_count--;
        memmove(&subs->late[0], &subs->late[1], subs->late_count * sizeof(subs->late[0]));
        done(user, code, NULL,
             code != 0 ? tdg__failure_make(&failure, code, tdg_strerror(code)) : NULL);
    }
}

void tdg__sub_calls_flush(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;

    flush_late(core);
    while (subs->finished != NULL) {
        tdg__sub_call_t *call = subs->finished;
        bool failed = call->failed_at < call->count;

        subs->finished = call->next;
        if (subs->finished == NULL)
            subs->finished_end = &subs->finished;
        call->done(call->user, failed ? call->failure.code : 0, NULL,
                   failed ? &call->failure : NULL);
        json_decref(call->failure.data);
        tdg__free(call);
    }
}

void tdg__sub_calls_end(tdg__core_t *core) {
    tdg_failure_t failure;

    tdg__failure_make(&failure, TDG_EENDED, "the client is being closed");
    while (core->subs->calls != NULL) {
        tdg__sub_call_t *call = core->subs->calls;

        for (size_t i = 0; i < call->count; i++) {
            if (call->waiters[i].list != NULL)
                tdg__waiter_settle(core, &call->waiters[i], TDG_EENDED, &failure);
        }
    }
}
