/* SPDX-License-Identifier: MIT
 *
 * The GET stream of a legacy session over HTTP. It is opened before the first request of
 * the session is sent, because requests of the server arrive on it, and kept open while
 * there are subscriptions; when it is lost it is reopened after the backoff, with the id
 * of the last event. A server that does not respond for LAZY_HEAD_MS may be waiting for a
 * first event: the stream counts as open then. Other transports need no such stream.
 *
 * A stream that is silent for too long (lifesign.h), of a server that announces no
 * interval, is checked with a second one. Servers that allow one stream per session
 * refuse that; then the first is closed and reopened, and if the server has not noticed
 * that, as with a frozen connection, the session cannot be used any longer:
 *
 *     UNCHECKED ──silent──▶ BESIDE ──opened──▶ COMPARING ──all was read──▶ UNCHECKED
 *         ▲                   │                 (the first one goes last)
 *         │                   └──refused──▶ closed, opened again ──409──▶ a new session
 *         └──────────────────── opened; everything is compared ◀┘                │
 *                                        everything is compared there ◀──────────┘
 *
 * If the server does not respond at all, that is a loss like any other. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs/legacy.h"
#include "client/subs/reread.h"
#include "client/subs/subs.h"
#include "client/subs/updates.h"

enum {
    LAZY_HEAD_MS = 2000, /* a stream without a head counts as open */
    MAX_EVENT_ID = 1024,
    MAX_CONFLICTS = 2, /* answers 409 to a stream that is opened again */
};

static bool needed(const tdg__core_t *core) {
    const struct tdg__subs *subs = core->subs;

    if (core->transport == NULL || core->transport->ops->listen == NULL)
        return false;
    /* What a server asks of us, or logs, may come by no other way. */
    return core->counts.subscriptions > 0 || subs->lists != 0 ||
           core->opts.input != NULL || (core->client->flags & TDG_CLIENT_LOGS) != 0;
}

static bool is_open(const struct tdg__legacy_get *get) {
    return get->state >= TDG__LEGACY_GET_ASSUMED;
}

/* The only way from state to state. */
static void enter(struct tdg__legacy_get *get, tdg__legacy_get_state_t state) {
    static const unsigned next[] = {
        [TDG__LEGACY_GET_CLOSED] = 1u << TDG__LEGACY_GET_WAITING |
                                   1u << TDG__LEGACY_GET_MISSING |
                                   1u << TDG__LEGACY_GET_OPENING,
        [TDG__LEGACY_GET_OPENING] =
            1u << TDG__LEGACY_GET_ASSUMED | 1u << TDG__LEGACY_GET_OPEN,
        [TDG__LEGACY_GET_ASSUMED] =
            1u << TDG__LEGACY_GET_ASSUMED | 1u << TDG__LEGACY_GET_OPEN,
        [TDG__LEGACY_GET_OPEN] =
            1u << TDG__LEGACY_GET_ASSUMED | 1u << TDG__LEGACY_GET_OPEN,
    };

    assert(state == TDG__LEGACY_GET_CLOSED || (next[get->state] & 1u << state));
    assert((state >= TDG__LEGACY_GET_OPENING) == (get->now->delivery != NULL));
    get->state = state;
}

bool tdg__legacy_get_ready(const tdg__core_t *core) {
    const struct tdg__legacy_get *get = &core->subs->get;

    return is_open(get) || get->state == TDG__LEGACY_GET_MISSING || !needed(core);
}

void tdg__legacy_get_retry(tdg__core_t *core) {
    struct tdg__legacy_get *get = &core->subs->get;

    if (get->state == TDG__LEGACY_GET_WAITING &&
        tdg__subs_retry_now(core, &get->retry_ms))
        enter(get, TDG__LEGACY_GET_CLOSED);
}

static tdg__legacy_get_request_t *other_of(struct tdg__legacy_get *get) {
    return &get->streams[get->now == &get->streams[0] ? 1 : 0];
}

static void cancel(const struct tdg__legacy_get *get, tdg__legacy_get_request_t *stream) {
    if (stream->delivery != NULL)
        get->transport->ops->cancel(get->transport, stream->delivery);
    stream->delivery = NULL;
}

/* The second stream goes. */
static void end_check(tdg__core_t *core) {
    struct tdg__legacy_get *get = &core->subs->get;

    cancel(get, other_of(get));
    get->check = TDG__LEGACY_GET_UNCHECKED;
    tdg__core_timer_stop(core, &get->timer);
}

/* Nobody knows what was missed. Where it is to be compared, see tdg__gap_compare(); and
 * not `now`: what comes next may show it. */
static void doubt_all(tdg__core_t *core, bool compare, bool now) {
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (!tdg__sub_is_live(sub))
            continue;
        if (compare)
            tdg__gap_compare(sub);
        if (now)
            tdg__gap_mark(sub);
    }
    if (now)
        core->subs->list_gap |= core->subs->lists;
    tdg__subs_kick(core);
}

/* ---- It is open --------------------------------------------------------- */

/* It counts as open. Where that is because the server has `shown` it after we had taken
 * it for granted, nobody knows since when it has been there. */
static void opened(tdg__core_t *core, bool shown) {
    struct tdg__legacy_get *get = &core->subs->get;
    bool gap = get->gap || get->state == TDG__LEGACY_GET_ASSUMED;

    if (get->state == TDG__LEGACY_GET_OPEN || (is_open(get) && !shown))
        return;
    if (get->state == TDG__LEGACY_GET_OPENING)
        get->lazy_head = !shown;
    enter(get, shown ? TDG__LEGACY_GET_OPEN : TDG__LEGACY_GET_ASSUMED);
    get->gap = get->renewed = false;
    get->conflicts = 0;
    tdg__core_timer_stop(core, &get->timer);
    tdg__lifesign_watch(core, &get->life, core->keepalive_ms, !get->refused);
    get->refused = false;
    tdg__backoff_up(&core->backoff, tdg__core_now(core));

    /* Our servers go on where the last stream ended; of others nobody knows. */
    if (gap && !core->ours)
        doubt_all(core, false, true);
    tdg__subs_kick(core);
    tdg__subs_check_up(core);
    tdg__gaps_tell(core);
}

/* The one beside takes over; the one before is listened to until everything was read. */
static void beside_opened(tdg__core_t *core, bool shown) {
    struct tdg__legacy_get *get = &core->subs->get;

    get->now = other_of(get);
    get->check = TDG__LEGACY_GET_COMPARING;
    enter(get, shown ? TDG__LEGACY_GET_OPEN : TDG__LEGACY_GET_ASSUMED);
    get->renewed = false;
    tdg__core_timer_at(core, &get->timer,
                       tdg__core_now(core) + tdg__lifesign_patience(core));
    tdg__lifesign_watch(core, &get->life, core->keepalive_ms, false);
    if (!core->ours)
        doubt_all(core, true, true);
    tdg__subs_kick(core);
}

static void shown(tdg__legacy_get_request_t *stream) {
    struct tdg__legacy_get *get = &stream->core->subs->get;

    if (stream == get->now)
        opened(stream->core, true);
    else if (get->check == TDG__LEGACY_GET_BESIDE)
        beside_opened(stream->core, true);
}

static void on_opened(void *user, int status) {
    if (status < 300)
        shown(user);
}

static void on_message(void *user, tdg__rpc_message_t *message) {
    tdg__legacy_get_request_t *stream = user;
    tdg__core_t *core = stream->core;

    tdg__lifesign_message(core, &core->subs->get.life);
    shown(stream);
    tdg__incoming_message(core, NULL, message);
}

static void on_alive(void *user) {
    tdg__legacy_get_request_t *stream = user;
    struct tdg__legacy_get *get = &stream->core->subs->get;

    if (stream == get->now)
        tdg__lifesign_heard(stream->core, &get->life);
}

static void on_retry_hint(void *user, uint32_t ms) {
    tdg__legacy_get_request_t *stream = user;

    tdg__backoff_floor(&stream->core->backoff, ms);
}

static void on_event_id(void *user, const char *id) {
    tdg__legacy_get_request_t *stream = user;
    tdg__core_t *core = stream->core;
    struct tdg__legacy_get *get = &core->subs->get;
    tdg__event_id_t parts;
    char *copy;

    if (stream != get->now || strlen(id) > MAX_EVENT_ID)
        return;
    copy = tdg__strdup(id);
    if (copy == NULL)
        return; /* the one before makes the server send more than needed, no less */
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
    enter(&core->subs->get, TDG__LEGACY_GET_WAITING);
    core->subs->get.retry_ms = tdg__subs_retry(core, retry_after_ms);
}

static void barred(tdg__core_t *core, const tdg__delivery_report_t *report,
                   bool was_open) {
    struct tdg__legacy_get *get = &core->subs->get;

    if (report->status == 401 && !get->renewed && tdg__transport_renew(core->transport)) {
        get->renewed = true;
        tdg__subs_kick(core);
    } else if (was_open) {
        tdg__connect_give_up(core, TDG_EREFUSED, report->error);
    } else {
        enter(get, TDG__LEGACY_GET_MISSING);
        tdg__subs_kick(core);
    }
}

/* The server says that the session has a stream, which we have not. It may only have to
 * notice; or it cannot, because the connection of that stream is frozen. */
static bool is_stuck(struct tdg__legacy_get *get, int status, bool was_open) {
    return was_open && status == 409 && ++get->conflicts >= MAX_CONFLICTS;
}

static void on_status(tdg__core_t *core, const tdg__delivery_report_t *report,
                      bool was_open) {
    struct tdg__legacy_get *get = &core->subs->get;
    int status = report->status;

    if (status == 401 || status == 403) {
        barred(core, report, was_open);
    } else if (is_stuck(get, status, was_open) ||
               (was_open && status >= 400 && status < 500 && status != 408 &&
                status != 409 && status != 429)) {
        /* It had a stream: the session is gone where that is not said by 404, or another
         * server has taken its place. */
        tdg__connect_lost(core, TDG_EUNREACHABLE, report->error);
    } else if (was_open || status == 409 || status == 429 || status >= 500 ||
               status < 400) {
        try_later(core, report->retry_after_ms);
    } else {
        tdg__core_log(core, TDG_LOG_WARNING, "the server has no stream for updates: %s",
                      report->error);
        enter(get, TDG__LEGACY_GET_MISSING);
        tdg__subs_kick(core);
    }
}

static void now_ended(tdg__core_t *core, const tdg__delivery_report_t *report) {
    struct tdg__legacy_get *get = &core->subs->get;
    bool was_open = is_open(get) || get->gap;

    end_check(core);
    tdg__lifesign_rest(core, &get->life);
    get->gap = was_open;
    enter(get, TDG__LEGACY_GET_CLOSED);

    if (report->end == TDG__DELIVERY_NO_SESSION) {
        tdg__connect_lost(core, TDG_EUNREACHABLE, "the server has ended the session");
        return;
    }
    if (was_open && (core->client->flags & TDG_CLIENT_ONE_LIFE) != 0) {
        tdg__connect_give_up(core, TDG_EUNREACHABLE, report->error);
        return;
    }
    if (report->end == TDG__DELIVERY_STATUS)
        on_status(core, report, was_open);
    else
        try_later(core, report->retry_after_ms);
    if (was_open)
        tdg__subs_tell_down(
            core, report->end == TDG__DELIVERY_DONE ? TDG_EENDED : TDG_EUNREACHABLE,
            report->end == TDG__DELIVERY_DONE ? "the server has ended the stream"
                                              : report->error);
}

/* Where the one beside has been refused, the first one is closed, and opened again; where
 * nobody has answered, it is lost. */
static void beside_ended(tdg__core_t *core, const tdg__delivery_report_t *report) {
    struct tdg__legacy_get *get = &core->subs->get;

    end_check(core);
    if (report->end == TDG__DELIVERY_STATUS &&
        (report->status == 401 || report->status == 403)) {
        barred(core, report, true);
        return;
    }
    cancel(get, get->now);
    doubt_all(core, true, false);
    if (report->end != TDG__DELIVERY_STATUS) {
        now_ended(core, report);
        return;
    }
    tdg__lifesign_rest(core, &get->life);
    enter(get, TDG__LEGACY_GET_CLOSED);
    get->gap = true;
    get->conflicts = report->status == 409 ? 1 : 0;
    get->refused = true;
    try_later(core, report->retry_after_ms);
}

static void on_ended(void *user, const tdg__delivery_report_t *report) {
    tdg__legacy_get_request_t *stream = user;
    tdg__core_t *core = stream->core;
    struct tdg__legacy_get *get = &core->subs->get;

    stream->delivery = NULL;
    if (stream == get->now) {
        now_ended(core, report);
    } else if (get->check == TDG__LEGACY_GET_BESIDE) {
        beside_ended(core, report);
    } else { /* what was on its way to the one before is lost */
        end_check(core);
        doubt_all(core, true, !core->ours);
    }
}

static const tdg__delivery_calls_t delivery_calls = {
    .opened = on_opened,
    .message = on_message,
    .alive = on_alive,
    .retry = on_retry_hint,
    .ended = on_ended,
};

/* ---- It is silent ------------------------------------------------------- */

static int open_stream(tdg__core_t *core, tdg__legacy_get_request_t *stream) {
    struct tdg__legacy_get *get = &core->subs->get;
    int rv;

    rv = get->transport->ops->listen(get->transport, get->event_id, core->version,
                                     on_event_id, &delivery_calls, stream,
                                     &stream->delivery);
    if (rv < 0)
        stream->delivery = NULL;
    else
        core->counts.streams++;
    return rv;
}

static void on_silent(tdg__core_t *core, tdg__lifesign_t *life, const char *dead) {
    struct tdg__legacy_get *get = &core->subs->get;
    tdg__delivery_report_t report = {.end = TDG__DELIVERY_BROKEN, .retry_after_ms = -1};

    if (!is_open(get)) {
        tdg__lifesign_rest(core, life);
    } else if (dead != NULL) {
        report.error = dead;
        cancel(get, get->now);
        now_ended(core, &report);
    } else if (get->check == TDG__LEGACY_GET_UNCHECKED &&
               open_stream(core, other_of(get)) == 0) {
        tdg__core_log(core, TDG_LOG_DEBUG, "checking a silent stream");
        get->check = TDG__LEGACY_GET_BESIDE;
        tdg__core_timer_at(core, &get->timer,
                           tdg__core_now(core) + (get->lazy_head
                                                      ? LAZY_HEAD_MS
                                                      : tdg__lifesign_patience(core)));
    }
}

static void on_timer(tdg__core_t *core, tdg__core_timer_t *timer) {
    static const tdg__delivery_report_t no_answer = {
        .end = TDG__DELIVERY_TIMEOUT,
        .error = "the server does not respond, and its stream is silent",
        .retry_after_ms = -1,
    };
    struct tdg__legacy_get *get = &core->subs->get;

    (void)timer;
    if (get->check == TDG__LEGACY_GET_UNCHECKED)
        opened(core, false);
    else if (get->check == TDG__LEGACY_GET_COMPARING)
        end_check(core);
    else if (get->lazy_head)
        beside_opened(core, false);
    else
        beside_ended(core, &no_answer);
}

/* ---- Upkeep ------------------------------------------------------------- */

void tdg__legacy_get_drop(tdg__core_t *core) {
    struct tdg__legacy_get *get = &core->subs->get;

    end_check(core);
    cancel(get, get->now);
    tdg__lifesign_rest(core, &get->life);
    tdg__free(get->event_id);
    get->event_id = NULL;
    get->conflicts = 0;
    get->gap = get->renewed = false;
    enter(get, TDG__LEGACY_GET_CLOSED);
}

void tdg__legacy_get_work(tdg__core_t *core) {
    struct tdg__legacy_get *get = &core->subs->get;

    if (!needed(core)) {
        bool missing = get->state == TDG__LEGACY_GET_MISSING;

        if (core->subs->requests == 0)
            tdg__legacy_get_drop(core);
        if (missing && get->state == TDG__LEGACY_GET_CLOSED) /* whoever asks */
            enter(get, TDG__LEGACY_GET_MISSING);
        return;
    }
    if (get->check == TDG__LEGACY_GET_COMPARING && !core->subs->gaps &&
        tdg__reread_idle(core))
        end_check(core);
    if (get->state != TDG__LEGACY_GET_CLOSED)
        return;

    get->transport = core->transport;
    if (open_stream(core, get->now) < 0) {
        try_later(core, -1);
        return;
    }
    enter(get, TDG__LEGACY_GET_OPENING);
    if (get->gap)
        core->counts.reconnects++;
    /* A server that is back shows it by the head, if it sends one before an event. */
    if (!get->gap || get->lazy_head)
        tdg__core_timer_at(core, &get->timer, tdg__core_now(core) + LAZY_HEAD_MS);
}

int tdg__legacy_get_init(tdg__core_t *core) {
    struct tdg__legacy_get *get = &core->subs->get;
    int rv;

    get->streams[0].core = get->streams[1].core = core;
    get->now = &get->streams[0];
    rv = tdg__core_timer_init(core, &get->timer, on_timer);
    return rv == 0 ? tdg__lifesign_init(core, &get->life, on_silent) : rv;
}

void tdg__legacy_get_done(tdg__core_t *core) {
    tdg__legacy_get_drop(core);
    tdg__lifesign_done(core, &core->subs->get.life);
    tdg__core_timer_done(core, &core->subs->get.timer);
}
