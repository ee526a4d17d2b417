/* SPDX-License-Identifier: MIT */
#include "client/session/lifesign.h"

#include <inttypes.h>
#include <stdio.h>

static void arm(tdg__core_t *core, tdg__lifesign_t *life) {
    uint32_t limit_ms = life->dead_ms != 0 ? life->dead_ms : life->wait_ms;

    life->late = false;
    if (life->watched && limit_ms != 0)
        tdg__core_timer_at(core, &life->timer, life->heard_ms + limit_ms);
    else
        tdg__core_timer_stop(core, &life->timer);
}

static void on_due(tdg__core_t *core, tdg__core_timer_t *timer) {
    tdg__lifesign_t *life = (void *)((char *)timer - offsetof(tdg__lifesign_t, timer));
    bool dead = life->dead_ms != 0;
    int64_t now = tdg__core_now(core);
    char why[64];

    if (now < life->heard_ms + (dead ? life->dead_ms : life->wait_ms)) {
        arm(core, life);
        return;
    }
    /* Timers come before sockets. Where the process was kept from running, what came in
     * time may still lie in the socket: look there first. */
    if (!life->late) {
        life->late = true;
        tdg__core_timer_at(core, timer, now + 1);
        return;
    }

    if (!dead)
        life->wait_ms = life->wait_ms < TDG__LIFESIGN_MOST_MS / 2 ? 2 * life->wait_ms
                        : life->wait_ms < TDG__LIFESIGN_MOST_MS   ? TDG__LIFESIGN_MOST_MS
                                                                  : life->wait_ms;
    /* Whatever keeps the stream silent may have happened to other connections, too. */
    if (core->transport != NULL && core->transport->ops->distrust != NULL)
        core->transport->ops->distrust(core->transport);
    life->heard_ms = now; /* where the owner does nothing, it comes again */
    arm(core, life);
    if (dead)
        snprintf(why, sizeof(why), "no byte for %" PRIu32 " ms", life->dead_ms);
    life->silent(core, life, dead ? why : NULL);
}

int tdg__lifesign_init(tdg__core_t *core, tdg__lifesign_t *life,
                       void (*silent)(tdg__core_t *core, tdg__lifesign_t *life,
                                      const char *dead)) {
    *life = (tdg__lifesign_t){.silent = silent};
    return tdg__core_timer_init(core, &life->timer, on_due);
}

void tdg__lifesign_done(tdg__core_t *core, tdg__lifesign_t *life) {
    tdg__core_timer_done(core, &life->timer);
}

void tdg__lifesign_watch(tdg__core_t *core, tdg__lifesign_t *life, uint32_t keepalive_ms,
                         bool anew) {
    uint64_t dead_ms = (uint64_t)keepalive_ms * TDG__LIFESIGN_TIMES;

    if (keepalive_ms != 0 && dead_ms < TDG__LIFESIGN_LEAST_MS)
        dead_ms = TDG__LIFESIGN_LEAST_MS;
    life->dead_ms = dead_ms < UINT32_MAX ? (uint32_t)dead_ms : UINT32_MAX;
    if (anew || life->wait_ms == 0)
        life->wait_ms = core->client->quiet_ms;
    life->watched = true;
    life->heard_ms = tdg__core_now(core);
    life->message_ms = INT64_MIN;
    life->candidate = false;
    arm(core, life);
}

void tdg__lifesign_rest(tdg__core_t *core, tdg__lifesign_t *life) {
    life->watched = false;
    arm(core, life);
}

/* A keep-alive is a sign on a silent stream that brings no message. Whether a sign stands
 * alone shows when the next one comes: the message that it belongs to may follow it in
 * the same moment, or some pieces later. */
static void count_keepalive(tdg__core_t *core, tdg__lifesign_t *life, int64_t pause) {
    bool silent = pause >= TDG__LIFESIGN_PAUSE_MS;

    if (silent && life->candidate && life->message_ms < life->heard_ms)
        core->counts.keepalives++;
    if (pause > 0)
        life->candidate = silent;
}

void tdg__lifesign_heard(tdg__core_t *core, tdg__lifesign_t *life) {
    int64_t now = tdg__core_now(core);

    count_keepalive(core, life, now - life->heard_ms);
    life->heard_ms = now;
}

void tdg__lifesign_message(tdg__core_t *core, tdg__lifesign_t *life) {
    life->message_ms = tdg__core_now(core);
}

uint32_t tdg__lifesign_patience(const tdg__core_t *core) {
    uint32_t quiet_ms = core->client->quiet_ms, timeout_ms = core->client->timeout_ms;
    uint32_t least = quiet_ms < timeout_ms ? quiet_ms : timeout_ms;

    return least < TDG__LIFESIGN_CHECK_MS ? least : TDG__LIFESIGN_CHECK_MS;
}

void tdg__lifesign_restart(tdg__core_t *core, tdg__lifesign_t *life) {
    if (life->wait_ms == core->client->quiet_ms)
        return;
    life->wait_ms = core->client->quiet_ms;
    arm(core, life);
}

uint32_t tdg__lifesign_announced(const json_t *meta) {
    json_int_t ms = json_integer_value(json_object_get(meta, "dev.tidings/keepAliveMs"));

    return ms <= 0 ? 0 : ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}
