/* SPDX-License-Identifier: MIT
 *
 * The connection: connecting, losing it, reconnecting, closing. One attempt opens a
 * transport and performs the handshake (handshake.c). All waits between attempts come
 * from the one backoff of the client, so that no server is flooded, whatever it does.
 *
 *     NEW ─▶ CONNECTING ─▶ UP ─▶ WAITING ─▶ CONNECTING …
 *                 │                             any ─▶ STOPPING ─▶ OVER
 *                 └─▶ OVER, or WAITING where the client is patient
 *
 * The first connect fails for good unless the client is patient; later ones are repeated
 * for ever, unless authentication or authorisation fails. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "client/session/connect.h"

enum {
    GOODBYE_MS = 2500,     /* for the server to answer to the end of a session */
    LAST_CHANCE_MS = 1000, /* from the last attempt to the end of the first connect */
};

/* ---- Transports -------------------------------------------------------------- */

static void finish_stop(tdg__core_t *core);

static void on_closed(void *arg) {
    tdg__core_t *core = arg;

    core->connect->closing--;
    if (core->state == TDG__CORE_STOPPING && core->connect->said_goodbye)
        finish_stop(core);
}

static void close_transport(tdg__core_t *core) {
    tdg__transport_t *transport = core->transport;

    if (transport == NULL)
        return;

    tdg__client_requests_forget_wire(core, transport);
    core->transport = NULL;
    core->connect->transport_open = false;
    core->connect->closing++;
    transport->ops->close(transport, on_closed, core);
}

static void restart(tdg__core_t *core);

static void on_session_forgotten(void *user) {
    (void)user;
}

/* What an attempt, or a lost session, leaves behind. */
static void clean_up(tdg__core_t *core) {
    tdg__handshake_drop(core);
    tdg__lifesign_rest(core, &core->connect->life);
    if (core->transport == NULL)
        return;
    if (core->transport->ops->shared || !core->connect->transport_open)
        close_transport(core);
    else
        core->transport->ops->end_session(core->transport, false, on_session_forgotten);
}

static void on_message(void *user, tdg__rpc_message_t *message) {
    tdg__core_t *core = user;

    tdg__lifesign_message(core, &core->connect->life);
    tdg__incoming_message(core, NULL, message);
}

static void on_lost(void *user, const char *why) {
    tdg__core_t *core = user;
    struct tdg__connect *connect = core->connect;

    if (core->state == TDG__CORE_UP) {
        tdg__connect_lost(core, TDG_EUNREACHABLE, why);
    } else if (core->state == TDG__CORE_CONNECTING) {
        if (connect->phase == TDG__PHASE_PROBING && core->client->era == TDG_ERA_FIND &&
            !connect->ends_when_probed) {
            restart(core);
            return;
        }
        connect->ends_when_probed = false;
        tdg__connect_fail(core, TDG_EUNREACHABLE, "%s", why);
    }
}

static void on_alive(void *user) {
    tdg__core_t *core = user;

    tdg__lifesign_heard(core, &core->connect->life);
}

static void on_retry(void *user, uint32_t ms) {
    tdg__core_t *core = user;

    core->connect->floor_asked = false;
    tdg__backoff_floor(&core->backoff, ms);
}

static void on_said(void *user, const char *line) {
    tdg__core_program_line(user, line);
}

static void on_warning(void *user, const char *line) {
    tdg__core_odd(user, TDG__ODD_WIRE, "%s", line);
}

static const tdg__transport_calls_t transport_calls = {
    .message = on_message,
    .lost = on_lost,
    .alive = on_alive,
    .retry = on_retry,
    .said = on_said,
    .warn = on_warning,
};

/* ---- An attempt --------------------------------------------------------- */

static void on_opened(void *user, int code, const char *why) {
    tdg__core_t *core = user;
    struct tdg__connect *connect = core->connect;
    tdg_failure_t failure;

    if (connect->phase != TDG__PHASE_OPENING)
        return;

    connect->phase = TDG__PHASE_NONE;
    if (code == 0) {
        connect->transport_open = true;
        tdg__handshake_begin(core);
        return;
    }

    tdg__failure_set(&failure, code, "%s", why);
    /* What was answered to POST says more about a wrong address. */
    if (core->transport_kind == TDG__TRANSPORT_SSE && connect->initialised) {
        core->transport_kind = TDG__TRANSPORT_HTTP;
        failure = connect->failure;
        failure.data = NULL;
    }
    tdg__connect_failed(core, &failure);
}

static int open_transport(tdg__core_t *core) {
    int rv;

    rv = core->opts.make_transport(core->opts.user, core->transport_kind,
                                   &transport_calls, core, &core->transport);
    if (rv < 0)
        return rv;

    core->connect->phase = TDG__PHASE_OPENING;
    rv = core->transport->ops->open(core->transport, on_opened);
    if (rv < 0)
        core->connect->phase = TDG__PHASE_NONE;
    return rv;
}

static void attempt(tdg__core_t *core) {
    struct tdg__connect *connect = core->connect;
    int rv = 0;

    core->state = TDG__CORE_CONNECTING;
    connect->probes = 0;
    connect->initialised = false;
    connect->silent = false;
    connect->offer = TDG__V_LATEST_LEGACY;
    if (connect->ever_up)
        tdg__core_timer_at(core, &connect->limit,
                           tdg__core_now(core) + core->client->connect_timeout_ms);

    if (core->transport != NULL)
        tdg__handshake_begin(core);
    else
        rv = open_transport(core);
    if (rv < 0)
        tdg__connect_fail(core, rv, "cannot start a connection: %s", tdg_strerror(rv));
}

void tdg__connect_use_sse(tdg__core_t *core) {
    int rv;

    tdg__core_log(core, TDG_LOG_DEBUG,
                  "this URL does not answer MCP by POST; trying the transport of "
                  "2024-11-05");
    close_transport(core);
    core->transport_kind = TDG__TRANSPORT_SSE;
    rv = open_transport(core);
    if (rv < 0) {
        core->transport_kind = TDG__TRANSPORT_HTTP;
        tdg__connect_fail(core, rv, "cannot start a connection: %s", tdg_strerror(rv));
    }
}

void tdg__connect_up(tdg__core_t *core) {
    struct tdg__connect *connect = core->connect;
    tdg__core_done_fn done = connect->done;

    core->state = TDG__CORE_UP;
    if (connect->ever_up && core->transport->ops->shared)
        core->counts.reconnects++; /* its channel is its stream */
    connect->phase = TDG__PHASE_NONE;
    connect->ever_up = true;
    connect->ends_when_probed = false;
    tdg__core_timer_stop(core, &connect->limit);
    tdg__backoff_up(&core->backoff, tdg__core_now(core));
    if (connect->floor_asked)
        tdg__backoff_floor(&core->backoff, 0);
    connect->floor_asked = false;
    if (core->transport_kind == TDG__TRANSPORT_SSE)
        tdg__lifesign_watch(core, &connect->life, core->keepalive_ms, true);
    tdg__core_log(core, TDG_LOG_INFO, "connected: %s over %s",
                  tdg__version_text(core->version), core->transport->ops->name);

    tdg__client_requests_hold(core);
    core->opts.upper->up(core);
    connect->done = NULL;
    if (done != NULL)
        done(connect->user, 0, NULL, NULL);
}

/* ---- When it fails ------------------------------------------------------ */

/* What waiting may help against; and what nothing helps against. */
static bool is_passing(const tdg_failure_t *failure) {
    return failure->code == TDG_EUNREACHABLE || failure->code == TDG_ETIMEDOUT ||
           failure->code == TDG_ENOMEM || failure->code == TDG_ESYSTEM;
}

static void keep_failure(struct tdg__connect *connect, const tdg_failure_t *failure) {
    json_t *data = json_incref(failure->data);

    json_decref(connect->failure.data);
    connect->failure = *failure;
    connect->failure.data = data;
}

void tdg__connect_fail(tdg__core_t *core, int code, const char *format, ...) {
    tdg_failure_t failure;
    char why[sizeof(failure.message)];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    tdg__failure_set(&failure, code, "%s", why);
    tdg__connect_failed(core, &failure);
}

/* The first connect has failed for good. */
static void report(tdg__core_t *core, const tdg_failure_t *failure) {
    struct tdg__connect *connect = core->connect;
    tdg__core_done_fn done = connect->done;

    if (core->state != TDG__CORE_STOPPING)
        core->state = TDG__CORE_OVER;
    tdg__core_timer_stop(core, &connect->next);
    tdg__core_timer_stop(core, &connect->limit);
    clean_up(core);
    close_transport(core);
    tdg__client_requests_fail(core, failure->code, failure->message, true);
    connect->done = NULL;
    if (done != NULL)
        done(connect->user, failure->code, NULL, failure);
}

/* When to try for the last time, where the next attempt would fall behind the end of the
 * first connect: shortly before it. Not where the server, or the limit of attempts, asks
 * for a longer wait: then nothing is tried any more. */
static int64_t last_attempt(const tdg__core_t *core, int64_t now) {
    int64_t give_up_at = core->connect->give_up_at;
    bool request_to_wait = core->backoff.floor_ms > LAST_CHANCE_MS ||
                           core->backoff.attempt_count >= core->backoff.per_minute;

    return request_to_wait || give_up_at - LAST_CHANCE_MS <= now
               ? give_up_at
               : give_up_at - LAST_CHANCE_MS;
}

/* Waits for the next attempt; false: there is no time for another. */
static bool schedule(tdg__core_t *core) {
    struct tdg__connect *connect = core->connect;
    int64_t now = tdg__core_now(core);
    int64_t at = tdg__backoff_next(&core->backoff, now, tdg__core_random(core));

    if (!connect->ever_up && at >= connect->give_up_at)
        at = last_attempt(core, now);
    if (!connect->ever_up && at >= connect->give_up_at)
        return false;

    core->state = TDG__CORE_WAITING;
    if (connect->ever_up)
        tdg__core_timer_stop(core, &connect->limit);
    tdg__core_timer_at(core, &connect->next, at);
    tdg__core_log(core, TDG_LOG_DEBUG, "retrying in %" PRId64 " ms", at - now);
    return true;
}

void tdg__connect_failed(tdg__core_t *core, const tdg_failure_t *failure) {
    struct tdg__connect *connect = core->connect;

    keep_failure(connect, failure);
    clean_up(core);
    tdg__core_log(core, TDG_LOG_WARNING, "not connected: %s", connect->failure.message);

    if (!connect->ever_up) {
        bool patient = (core->client->flags & TDG_CLIENT_PATIENT) != 0;

        if (!patient || !is_passing(failure))
            report(core, &connect->failure);
        else if (!schedule(core))
            core->state = TDG__CORE_WAITING; /* for `limit`, which reports it */
        return;
    }

    if (tdg__failure_barred(failure)) {
        tdg__connect_give_up(core, TDG_EREFUSED, connect->failure.message);
        return;
    }
    /* The server may have been replaced by one of the other era. */
    if (!is_passing(failure)) {
        core->era = core->client->era;
        if (core->transport_kind == TDG__TRANSPORT_SSE) {
            close_transport(core);
            core->transport_kind = TDG__TRANSPORT_HTTP;
        }
    }
    schedule(core);
}

/* The server's program ended when it was probed: once more without. */
static void restart(tdg__core_t *core) {
    struct tdg__connect *connect = core->connect;
    tdg_failure_t failure;

    clean_up(core);
    connect->ends_when_probed = true;
    tdg__core_log(core, TDG_LOG_DEBUG,
                  "the program ended after server/discover; restarting it without");
    if (!schedule(core)) {
        tdg__failure_set(&failure, TDG_EUNREACHABLE,
                         "the program exits right after it starts");
        report(core, &failure);
    }
}

void tdg__connect_lost(tdg__core_t *core, int code, const char *why) {
    if (core->state != TDG__CORE_UP)
        return;

    core->state = TDG__CORE_WAITING;
    tdg__core_log(core, TDG_LOG_INFO, "connection lost: %s", why);
    if ((core->client->flags & TDG_CLIENT_ONE_LIFE) != 0) {
        tdg__connect_give_up(core, code, why);
        return;
    }

    core->opts.upper->down(core, code, why);
    clean_up(core);
    schedule(core);
}

/* Whoever waits for events for ever has to learn that none will come, even where memory
 * is out. */
static tdg_event_t *make_closed(struct tdg__connect *connect, int code, const char *why) {
    tdg_event_t *event = tdg__event_create(TDG_EVENT_CLOSED, NULL, NULL, NULL, code, why);

    if (event == NULL) {
        event = connect->closed;
        connect->closed = NULL; /* it happens once */
        event->at_ms = tdg__wall_ms();
        event->code = code;
        event->message = tdg_strerror(code);
    }
    return event;
}

void tdg__connect_give_up(tdg__core_t *core, int code, const char *why) {

    if (core->state >= TDG__CORE_STOPPING || core->state == TDG__CORE_NEW)
        return;

    core->state = TDG__CORE_OVER;
    tdg__core_log(core, TDG_LOG_WARNING, "giving up: %s", why);
    tdg__core_timer_stop(core, &core->connect->next);
    tdg__core_timer_stop(core, &core->connect->limit);
    core->opts.upper->down(core, code, why);
    core->opts.upper->stop(core);
    tdg__client_requests_fail(core, code, why, true);
    clean_up(core);
    close_transport(core);

    core->opts.event(core->opts.user, make_closed(core->connect, code, why));
}

/* ---- Beginning and end -------------------------------------------------- */

void tdg__core_connect(tdg__core_t *core, tdg__core_done_fn done, void *user) {
    struct tdg__connect *connect = core->connect;
    int64_t now = tdg__core_now(core);

    connect->done = done;
    connect->user = user;
    connect->give_up_at = now + core->client->connect_timeout_ms;
    core->state = TDG__CORE_CONNECTING;
    tdg__core_timer_at(core, &connect->next, now);
    tdg__core_timer_at(core, &connect->limit, connect->give_up_at);
}

static void finish_stop(tdg__core_t *core) {
    struct tdg__connect *connect = core->connect;

    if (core->transport != NULL || connect->closing > 0)
        return; /* on_closed() comes back here */

    core->state = TDG__CORE_OVER;
    connect->stopped(connect->stop_user);
}

static void on_session_ended(void *user) {
    tdg__core_t *core = user;

    if (core->state == TDG__CORE_STOPPING)
        close_transport(core);
}

/* Everything under way ends, then the connection does. */
static void say_goodbye(tdg__core_t *core) {
    struct tdg__connect *connect = core->connect;
    bool session = core->era == TDG_ERA_LEGACY && connect->ever_up;
    tdg_failure_t ended;

    core->opts.upper->stop(core);
    tdg__handshake_drop(core);
    tdg__failure_set(&ended, TDG_EENDED, "the client is being closed");
    tdg__client_requests_fail(core, TDG_EENDED, ended.message, true);
    if (connect->done != NULL) {
        report(core, &ended);
    } else if (core->transport != NULL && !core->transport->ops->shared && session) {
        tdg__core_timer_at(core, &connect->limit, tdg__core_now(core) + GOODBYE_MS);
        core->transport->ops->end_session(core->transport, true, on_session_ended);
    } else {
        close_transport(core);
    }

    /* Behind the timers that report that it is over. */
    connect->said_goodbye = true;
    tdg__core_timer_at(core, &connect->next, tdg__core_now(core));
}

void tdg__core_stop(tdg__core_t *core, void (*done)(void *user), void *user) {
    struct tdg__connect *connect = core->connect;

    connect->stopped = done;
    connect->stop_user = user;
    core->state = TDG__CORE_STOPPING;
    tdg__handshake_drop(core); /* an answer to it would have us connect after all */
    tdg__core_timer_stop(core, &connect->limit);
    tdg__core_timer_at(core, &connect->next, tdg__core_now(core));
}

static void on_next(tdg__core_t *core, tdg__core_timer_t *timer) {
    (void)timer;
    if (core->state != TDG__CORE_STOPPING)
        attempt(core);
    else if (!core->connect->said_goodbye)
        say_goodbye(core);
    else
        finish_stop(core);
}

static void on_limit(tdg__core_t *core, tdg__core_timer_t *timer) {
    struct tdg__connect *connect = core->connect;
    tdg_failure_t failure;

    (void)timer;
    if (core->state == TDG__CORE_STOPPING) {
        close_transport(core);
        return;
    }

    tdg__failure_set(&failure, TDG_ETIMEDOUT, "not connected within %" PRIu32 " ms",
                     core->client->connect_timeout_ms);
    if (connect->ever_up)
        tdg__connect_failed(core, &failure);
    else
        report(core, connect->failure.code != 0 ? &connect->failure : &failure);
}

/* ---- Life ---------------------------------------------------------------- */

int tdg__connect_init(tdg__core_t *core) {
    struct tdg__connect *connect = tdg__calloc(1, sizeof(*connect));
    int rv;

    if (connect == NULL)
        return TDG_ENOMEM;

    core->connect = connect;
    core->transport_kind =
        core->client->argv != NULL ? TDG__TRANSPORT_STDIO : TDG__TRANSPORT_HTTP;
    connect->closed = tdg__event_create(TDG_EVENT_CLOSED, NULL, NULL, NULL, 0, NULL);
    rv = connect->closed != NULL ? tdg__core_timer_init(core, &connect->next, on_next)
                                 : TDG_ENOMEM;
    if (rv == 0)
        rv = tdg__core_timer_init(core, &connect->limit, on_limit);
    if (rv == 0)
        rv = tdg__lifesign_init(core, &connect->life, tdg__doubt_silence);
    return rv;
}

void tdg__connect_done(tdg__core_t *core) {
    struct tdg__connect *connect = core->connect;

    if (connect == NULL)
        return;

    tdg__core_timer_done(core, &connect->next);
    tdg__core_timer_done(core, &connect->limit);
    tdg__lifesign_done(core, &connect->life);
    json_decref(connect->failure.data);
    tdg_event_free(connect->closed);
    tdg__free(connect);
    core->connect = NULL;
}
