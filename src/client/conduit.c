/* SPDX-License-Identifier: MIT */
#include "client/conduit.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { ALARM_SOON, ALARM_CARRY };

uint64_t tdg__conduit_now(void) {
    return uv_hrtime() / 1000000;
}

void tdg__conduit_warn(const tdg__conduit_t *conduit, const char *format, ...) {
    char line[400];
    va_list args;

    if (conduit->closing)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    conduit->base.calls->warn(conduit->base.user, line);
}

/* ---- Carries ------------------------------------------------------------ */

int tdg__conduit_add(tdg__conduit_t *conduit, const tdg__parcel_out_t *out,
                     const tdg__carry_calls_t *calls, void *user, tdg__carry_t **ret) {
    const char *id = out->id != NULL ? out->id : "";
    tdg__carry_t *carry = tdg__calloc(1, conduit->kind->carry_size);

    assert(strlen(id) <= TDG__RPC_MAX_ID);
    if (carry == NULL)
        return TDG_ENOMEM;
    if (tdg__heap_add(&conduit->alarms, &carry->alarm, ALARM_CARRY) < 0) {
        tdg__free(carry);
        return TDG_ENOMEM;
    }
    carry->conduit = conduit;
    carry->calls = *calls;
    carry->user = user;
    carry->began_ms = tdg__conduit_now();
    carry->timeout_ms = out->stream ? 0 : out->timeout_ms;
    strcpy(carry->id, id);
    carry->self = conduit->last;
    *conduit->last = carry;
    conduit->last = &carry->next;
    *ret = carry;
    return 0;
}

static void unlink_carry(tdg__carry_t *carry) {
    tdg__conduit_t *conduit = carry->conduit;

    *carry->self = carry->next;
    if (carry->next != NULL)
        carry->next->self = carry->self;
    else
        conduit->last = carry->self;
    tdg__heap_remove(&conduit->alarms, &carry->alarm);
    if (conduit->current == carry)
        conduit->current = NULL;
    if (conduit->kind->stop != NULL)
        conduit->kind->stop(carry);
}

static void free_carry(tdg__carry_t *carry) {
    if (carry->conduit->kind->release != NULL)
        carry->conduit->kind->release(carry);
    else
        tdg__free(carry);
}

void tdg__conduit_drop(tdg__carry_t *carry) {
    unlink_carry(carry);
    free_carry(carry);
}

void tdg__conduit_end(tdg__carry_t *carry, const tdg__carry_report_t *report) {
    unlink_carry(carry);
    carry->calls.ended(carry->user, report);
    free_carry(carry);
}

static void end_as(tdg__carry_t *carry, tdg__carry_end_t end, const char *why) {
    tdg__carry_report_t report = {
        .end = end, .error = why, .retry_after_ms = -1, .sent = carry->sent};

    tdg__conduit_end(carry, &report);
}

void tdg__conduit_break(tdg__conduit_t *conduit, const char *why) {
    size_t count = 0;

    /* Those that are sent from inside of a call end by themselves. */
    for (const tdg__carry_t *carry = conduit->first; carry != NULL; carry = carry->next)
        count++;
    while (count-- > 0 && conduit->first != NULL)
        end_as(conduit->first, TDG__CARRY_BROKEN, why);
}

/* ---- Turns of the loop -------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

static void set_timer(tdg__conduit_t *conduit) {
    int64_t at = tdg__heap_next(&conduit->alarms), now = (int64_t)tdg__conduit_now();

    if (at == INT64_MAX) {
        uv_timer_stop(&conduit->timer);
        return;
    }
    uv_update_time(conduit->timer.loop);
    uv_timer_start(&conduit->timer, on_timer, at > now ? (uint64_t)(at - now) : 0, 0);
}

static void arm(tdg__conduit_t *conduit, tdg__timer_t *alarm, uint64_t at) {
    tdg__heap_arm(&conduit->alarms, alarm, (int64_t)at);
    set_timer(conduit);
}

void tdg__conduit_alarm(tdg__carry_t *carry, uint64_t at_ms) {
    arm(carry->conduit, &carry->alarm, at_ms);
}

void tdg__conduit_soon(tdg__conduit_t *conduit) {
    arm(conduit, &conduit->soon, tdg__conduit_now());
}

void tdg__conduit_sent(tdg__carry_t *carry, tdg__carry_end_t fate, const char *why) {
    carry->sent = fate == TDG__CARRY_DONE;
    carry->fate = fate;
    carry->why = why;
    arm(carry->conduit, &carry->alarm, tdg__conduit_now());
}

bool tdg__conduit_tell(tdg__carry_t *carry, tdg__rpc_message_t *message) {
    tdg__conduit_t *conduit = carry->conduit;
    bool stays;

    conduit->current = carry;
    carry->calls.message(carry->user, message);
    stays = conduit->current == carry;
    conduit->current = NULL;
    return stays;
}

bool tdg__conduit_opened(tdg__carry_t *carry, int status) {
    tdg__conduit_t *conduit = carry->conduit;
    bool stays;

    if (carry->told_opened || carry->calls.opened == NULL)
        return true;
    carry->told_opened = true;
    conduit->current = carry;
    carry->calls.opened(carry->user, status,
                        (uint32_t)(tdg__conduit_now() - carry->began_ms));
    stays = conduit->current == carry;
    conduit->current = NULL;
    return stays;
}

/* Of a carry on a channel: first it was written, then its time is over. */
static void carry_turn(tdg__carry_t *carry) {
    if (carry->fate != TDG__CARRY_DONE) {
        end_as(carry, carry->fate, carry->why);
    } else if (carry->written) {
        end_as(carry, TDG__CARRY_TIMEOUT, "no response in time");
    } else if (tdg__conduit_opened(carry, 0)) {
        carry->written = true;
        if (carry->id[0] == '\0')
            end_as(carry, TDG__CARRY_DONE, "");
        else if (carry->timeout_ms != 0)
            tdg__conduit_alarm(carry, carry->began_ms + carry->timeout_ms);
    }
}

static void on_timer(uv_timer_t *timer) {
    tdg__conduit_t *conduit = timer->data;
    int64_t now = (int64_t)tdg__conduit_now();
    tdg__timer_t *alarm;

    while (!conduit->closing && (alarm = tdg__heap_pop(&conduit->alarms, now)) != NULL) {
        void *carry = (char *)alarm - offsetof(tdg__carry_t, alarm);

        if (alarm->kind == ALARM_SOON)
            conduit->kind->soon(conduit);
        else if (conduit->kind->turn != NULL)
            conduit->kind->turn(carry);
        else
            carry_turn(carry);
    }
    if (!conduit->closing)
        set_timer(conduit);
}

/* ---- Messages ----------------------------------------------------------- */

static tdg__carry_t *find(const tdg__conduit_t *conduit, const char *id) {
    tdg__carry_t *carry = conduit->first;

    while (carry != NULL && strcmp(carry->id, id) != 0)
        carry = carry->next;
    return carry;
}

static void on_message(void *arg, tdg__rpc_message_t *message) {
    tdg__conduit_t *conduit = arg;
    tdg__carry_t *carry = NULL;

    if (conduit->closing)
        return;
    if (message->kind == TDG__RPC_RESPONSE && message->id[0] != '\0')
        carry = find(conduit, message->id);
    if (carry == NULL) {
        conduit->base.calls->message(conduit->base.user, message);
        return;
    }
    carry->sent = true;
    if (tdg__conduit_tell(carry, message))
        end_as(carry, TDG__CARRY_DONE, "");
}

int tdg__conduit_read(tdg__conduit_t *conduit, const char *text, size_t len) {
    char why[200];
    int rv =
        tdg__wire_read(&conduit->base, text, len, on_message, conduit, why, sizeof(why));

    if (rv < 0 && rv != TDG_ENOMEM)
        tdg__conduit_warn(conduit, "the server sent what is no message: %s", why);
    return rv == TDG_ENOMEM ? rv : 0;
}

/* ---- Beginning and end -------------------------------------------------- */

int tdg__conduit_init(tdg__conduit_t *conduit, uv_loop_t *loop,
                      const tdg__conduit_kind_t *kind, const tdg__wire_calls_t *calls,
                      void *user, size_t max_message_bytes) {
    tdg__heap_init(&conduit->alarms);
    if (tdg__heap_add(&conduit->alarms, &conduit->soon, ALARM_SOON) < 0)
        return TDG_ENOMEM;
    conduit->base = (tdg__wire_t){.ops = &kind->ops,
                                  .calls = calls,
                                  .user = user,
                                  .max_message_bytes = max_message_bytes};
    conduit->kind = kind;
    conduit->last = &conduit->first;
    uv_timer_init(loop, &conduit->timer);
    conduit->timer.data = conduit;
    return 0;
}

void tdg__conduit_silence(tdg__conduit_t *conduit, void (*closed)(void *arg), void *arg) {
    conduit->closing = true;
    conduit->closed = closed;
    conduit->closed_arg = arg;
    uv_timer_stop(&conduit->timer);
    while (conduit->first != NULL)
        tdg__conduit_drop(conduit->first);
}

static void on_closed(uv_handle_t *handle) {
    tdg__conduit_t *conduit = handle->data;
    void (*closed)(void *arg) = conduit->closed;
    void *arg = conduit->closed_arg;

    conduit->kind->destroy(conduit);
    if (closed != NULL)
        closed(arg);
}

void tdg__conduit_done(tdg__conduit_t *conduit) {
    tdg__heap_remove(&conduit->alarms, &conduit->soon);
    tdg__heap_done(&conduit->alarms);
    uv_close((uv_handle_t *)&conduit->timer, on_closed);
}
