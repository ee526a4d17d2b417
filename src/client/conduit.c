/* SPDX-License-Identifier: MIT */
#include "client/conduit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { ALARM_SOON, ALARM_CARRY };

static uint64_t now_ms(void) {
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
    tdg__carry_t *carry = tdg__calloc(1, sizeof(*carry) + strlen(id) + 1);

    if (carry == NULL)
        return TDG_ENOMEM;
    if (tdg__heap_add(&conduit->alarms, &carry->alarm, ALARM_CARRY) < 0) {
        tdg__free(carry);
        return TDG_ENOMEM;
    }
    carry->conduit = conduit;
    carry->calls = *calls;
    carry->user = user;
    carry->began_ms = now_ms();
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
    if (conduit->release != NULL)
        conduit->release(carry);
}

void tdg__conduit_drop(tdg__carry_t *carry) {
    unlink_carry(carry);
    tdg__free(carry);
}

void tdg__conduit_end(tdg__carry_t *carry, const tdg__carry_report_t *report) {
    unlink_carry(carry);
    carry->calls.ended(carry->user, report);
    tdg__free(carry);
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
    int64_t at = tdg__heap_next(&conduit->alarms), now = (int64_t)now_ms();

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

void tdg__conduit_soon(tdg__conduit_t *conduit) {
    arm(conduit, &conduit->soon, now_ms());
}

void tdg__conduit_sent(tdg__carry_t *carry, tdg__carry_end_t fate, const char *why) {
    carry->sent = fate == TDG__CARRY_DONE;
    carry->fate = fate;
    carry->why = why;
    arm(carry->conduit, &carry->alarm, now_ms());
}

static void carry_turn(tdg__carry_t *carry) {
    tdg__conduit_t *conduit = carry->conduit;
    uint64_t now = now_ms();

    if (carry->fate != TDG__CARRY_DONE) {
        end_as(carry, carry->fate, carry->why);
        return;
    }
    if (!carry->told_opened) {
        carry->told_opened = true;
        conduit->current = carry;
        if (carry->calls.opened != NULL)
            carry->calls.opened(carry->user, 0, (uint32_t)(now - carry->began_ms));
        if (conduit->current != carry)
            return;
        conduit->current = NULL;
        if (carry->id[0] == '\0')
            end_as(carry, TDG__CARRY_DONE, "");
        else if (carry->timeout_ms != 0)
            arm(conduit, &carry->alarm, carry->began_ms + carry->timeout_ms);
        return;
    }
    end_as(carry, TDG__CARRY_TIMEOUT, "no response in time");
}

static void on_timer(uv_timer_t *timer) {
    tdg__conduit_t *conduit = timer->data;
    int64_t now = (int64_t)now_ms();
    tdg__timer_t *alarm;

    while (!conduit->closing && (alarm = tdg__heap_pop(&conduit->alarms, now)) != NULL) {
        if (alarm->kind == ALARM_SOON)
            conduit->on_soon(conduit);
        else
            carry_turn(
                (tdg__carry_t *)(void *)((char *)alarm - offsetof(tdg__carry_t, alarm)));
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
    conduit->current = carry;
    carry->calls.message(carry->user, message);
    if (conduit->current != carry)
        return;
    conduit->current = NULL;
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
                      const tdg__wire_ops_t *ops, const tdg__wire_calls_t *calls,
                      void *user, size_t max_message_bytes) {
    tdg__heap_init(&conduit->alarms);
    if (tdg__heap_add(&conduit->alarms, &conduit->soon, ALARM_SOON) < 0)
        return TDG_ENOMEM;
    conduit->base = (tdg__wire_t){
        .ops = ops, .calls = calls, .user = user, .max_message_bytes = max_message_bytes};
    conduit->last = &conduit->first;
    uv_timer_init(loop, &conduit->timer);
    conduit->timer.data = conduit;
    return 0;
}

void tdg__conduit_silence(tdg__conduit_t *conduit) {
    conduit->closing = true;
    uv_timer_stop(&conduit->timer);
    while (conduit->first != NULL)
        tdg__conduit_drop(conduit->first);
}

void tdg__conduit_done(tdg__conduit_t *conduit, uv_close_cb closed) {
    tdg__heap_remove(&conduit->alarms, &conduit->soon);
    tdg__heap_done(&conduit->alarms);
    uv_close((uv_handle_t *)&conduit->timer, closed);
}
