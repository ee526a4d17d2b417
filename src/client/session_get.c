/* SPDX-License-Identifier: MIT
 *
 * The GET stream of a legacy session over HTTP. It is opened before the first request of
 * the session is sent, because what a server asks while that runs comes by the stream,
 * and kept open while something is wanted; when it is lost it is opened again in due
 * time, with the id of the last event. A server that does not answer for LAZY_HEAD_MS may
 * only be waiting for a first event: the stream counts as open then. Other transports
 * bring everything by themselves. */
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs_internal.h"

enum { MAX_EVENT_ID = 1024 };

static bool needed(const tdg__core_t *core) {
    const struct tdg__subs *subs = core->subs;

    if (core->wire == NULL || core->wire->ops->listen == NULL)
        return false;
    /* What a server asks of us, or logs, may come by no other way. */
    return core->counts.subscriptions > 0 || subs->lists != 0 ||
           core->opts.input != NULL || (core->client->flags & TDG_CLIENT_LOGS) != 0;
}

bool tdg__get_ready(const tdg__core_t *core) {
    const struct tdg__get *get = &core->subs->get;

    return get->open || get->missing || !needed(core);
}

bool tdg__get_opening(const tdg__core_t *core) {
    return core->subs->get.carry != NULL && !core->subs->get.open;
}

/* ---- It is open --------------------------------------------------------- */

/* It counts as open. Where that is because the server has `shown` it after we had taken
 * it for granted, nobody knows since when it has been there. */
static void opened(tdg__core_t *core, bool shown) {
    struct tdg__subs *subs = core->subs;
    struct tdg__get *get = &subs->get;
    bool gap = get->gap || (shown && get->assumed);
    tdg__sub_t *sub;

    if (get->open && !(shown && get->assumed))
        return;
    get->open = true;
    get->assumed = !shown;
    get->gap = get->renewed = false;
    tdg__core_timer_stop(core, &get->lazy);
    tdg__backoff_up(&core->backoff, tdg__core_now(core));

    /* Our servers go on where the last stream ended; of others nobody knows. */
    for (uint32_t id = 0;
         gap && !core->ours && (sub = tdg__subs_next(subs, &id)) != NULL;) {
        if (sub->flags & TDG__SUB_LIVE)
            tdg__gap_mark(sub);
    }
    if (gap && !core->ours)
        subs->list_gap |= subs->lists;
    tdg__subs_kick(core);
    tdg__subs_check_up(core);
    tdg__gaps_tell(core);
}

static void on_lazy(tdg__core_t *core, tdg__core_timer_t *timer) {
    (void)timer;
    opened(core, false);
}

static void on_opened(void *user, int status, uint32_t elapsed_ms) {
    (void)elapsed_ms;
    if (status < 300)
        opened(user, true);
}

static void on_message(void *user, tdg__rpc_message_t *message) {
    tdg__core_t *core = user;

    tdg__lifesign_message(&core->subs->get.life, tdg__core_now(core));
    opened(core, true);
    tdg__calls_message(core, NULL, message);
}

static void on_alive(void *user) {
    tdg__core_t *core = user;
    struct tdg__get *get = &core->subs->get;
    uint32_t quiet_ms, before = get->life.quiet_ms;

    if (tdg__lifesign_seen(&get->life, tdg__core_now(core), &quiet_ms))
        core->counts.keepalives++;
    if (core->client->quiet_ms == 0 && quiet_ms != before)
        get->wire->ops->set_quiet(get->wire, get->carry, quiet_ms);
}

static void on_retry_hint(void *user, uint32_t ms) {
    tdg__core_t *core = user;

    tdg__backoff_floor(&core->backoff, ms);
}

/* Called with the user of the wire, which is the core. */
static void on_event_id(void *user, const char *id) {
    tdg__core_t *core = user;
    struct tdg__get *get = &core->subs->get;
    tdg__event_id_t parts;
    char *copy;

    if (strlen(id) > MAX_EVENT_ID)
        return;
    copy = tdg__strdup(id);
    if (copy == NULL)
        return; /* the one before makes the server tell more than needed, no less */
    tdg__free(get->event_id);
    get->event_id = copy;

    if (tdg__event_id_read(id, &parts) == 0 && !parts.post) {
        core->ours = true;
        core->subs
            ->cursor[tdg__cursor_put(core->subs->cursor, parts.epoch, parts.number)] =
            '\0';
    }
}

/* ---- It is over --------------------------------------------------------- */

static void try_later(tdg__core_t *core, int64_t retry_after_ms) {
    core->subs->get.waits = true;
    tdg__subs_retry(core, retry_after_ms);
}

static void barred(tdg__core_t *core, const tdg__carry_report_t *report, bool was_open) {
    struct tdg__get *get = &core->subs->get;

    if (report->status == 401 && !get->renewed && core->wire->ops->renew != NULL &&
        core->wire->ops->renew(core->wire)) {
        get->renewed = true;
        tdg__subs_kick(core);
    } else if (was_open) {
        tdg__connect_give_up(core, TDG_EREFUSED, report->error);
    } else {
        get->missing = true;
        tdg__subs_kick(core);
    }
}

static void on_status(tdg__core_t *core, const tdg__carry_report_t *report,
                      bool was_open) {
    struct tdg__get *get = &core->subs->get;
    int status = report->status;

    if (status == 401 || status == 403) {
        barred(core, report, was_open);
    } else if (was_open && status >= 400 && status < 500 && status != 408 &&
               status != 409 && status != 429) {
        /* It had a stream: the session is gone where that is not said by 404, or another
         * server has taken its place. */
        tdg__connect_lost(core, TDG_EAWAY, report->error);
    } else if (was_open || status == 409 || status == 429 || status >= 500 ||
               status < 400) {
        try_later(core, report->retry_after_ms);
    } else {
        tdg__core_log(core, TDG_CLIENT_LOG_WARNING,
                      "the server has no stream for updates: %s", report->error);
        get->missing = true;
        tdg__subs_kick(core);
    }
}

static void on_ended(void *user, const tdg__carry_report_t *report) {
    tdg__core_t *core = user;
    struct tdg__get *get = &core->subs->get;
    bool was_open = get->open || get->gap;

    get->carry = NULL;
    tdg__core_timer_stop(core, &get->lazy);
    if (get->open)
        get->gap = true;
    get->open = get->assumed = false;

    if (report->end == TDG__CARRY_NO_SESSION) {
        tdg__connect_lost(core, TDG_EAWAY, "the server has ended the session");
        return;
    }
    if (was_open && (core->client->flags & TDG_CLIENT_ONE_LIFE) != 0) {
        tdg__connect_give_up(core, TDG_EAWAY, report->error);
        return;
    }
    if (report->end == TDG__CARRY_STATUS)
        on_status(core, report, was_open);
    else
        try_later(core, report->retry_after_ms);
    if (was_open)
        tdg__subs_tell_down(core, report->end == TDG__CARRY_DONE ? TDG_EENDED : TDG_EAWAY,
                            report->end == TDG__CARRY_DONE
                                ? "the server has ended the stream"
                                : report->error);
}

static const tdg__carry_calls_t carry_calls = {
    .opened = on_opened,
    .message = on_message,
    .alive = on_alive,
    .retry = on_retry_hint,
    .ended = on_ended,
};

/* ---- Upkeep ------------------------------------------------------------- */

void tdg__get_drop(tdg__core_t *core) {
    struct tdg__get *get = &core->subs->get;

    if (get->carry != NULL)
        get->wire->ops->cancel(get->wire, get->carry);
    tdg__core_timer_stop(core, &get->lazy);
    tdg__free(get->event_id);
    get->event_id = NULL;
    get->carry = NULL;
    get->open = get->assumed = get->gap = false;
    get->missing = get->waits = get->renewed = false;
}

void tdg__get_work(tdg__core_t *core) {
    struct tdg__get *get = &core->subs->get;
    int rv;

    if (!needed(core)) {
        bool missing = get->missing; /* in this session, whoever asks */

        if (core->subs->asked == 0)
            tdg__get_drop(core);
        get->missing = missing;
        return;
    }
    if (get->carry != NULL || get->waits || get->missing)
        return;

    get->wire = core->wire;
    tdg__lifesign_init(&get->life, tdg__core_now(core));
    rv = get->wire->ops->listen(get->wire, get->event_id, core->client->quiet_ms,
                                core->version, on_event_id, &carry_calls, core,
                                &get->carry);
    if (rv < 0) {
        get->carry = NULL;
        try_later(core, -1);
        return;
    }
    core->counts.streams++;
    if (get->gap)
        core->counts.reconnects++;
    else
        tdg__core_timer_at(core, &get->lazy,
                           tdg__core_now(core) + TDG__SUBS_LAZY_HEAD_MS);
}

int tdg__get_init(tdg__core_t *core) {
    return tdg__core_timer_init(core, &core->subs->get.lazy, on_lazy);
}

void tdg__get_done(tdg__core_t *core) {
    tdg__get_drop(core);
    tdg__core_timer_done(core, &core->subs->get.lazy);
}
