/* SPDX-License-Identifier: MIT
 *
 * What a wire says about a request that it carries: it is open, it lives, here is a
 * message, it has ended. Judges how it ended, and whether to try once more. */
#include <string.h>

#include <tidings/error.h>

#include "client/calls_internal.h"

static void on_opened(void *user, int status, uint32_t elapsed_ms) {
    tdg__asked_t *asked = user;

    (void)status;
    (void)elapsed_ms;
    if (asked->state != TDG__ASKED_SENT || asked->stream == NULL || asked->opened)
        return;

    asked->opened = true;
    tdg__core_timer_stop(asked->core, &asked->timer);
    asked->stream->opened(asked->user, asked);
}

static void on_alive(void *user) {
    tdg__asked_t *asked = user;

    if (asked->state == TDG__ASKED_SENT && asked->stream != NULL)
        asked->stream->alive(asked->user);
}

static void on_retry(void *user, uint32_t ms) {
    tdg__asked_t *asked = user;

    if (asked->state == TDG__ASKED_SENT && asked->stream != NULL)
        asked->stream->retry(asked->user, ms);
}

static void on_message(void *user, tdg__rpc_message_t *message) {
    tdg__asked_t *asked = user;

    tdg__calls_message(asked->core, asked, message);
}

/* Requests that do no harm when they are processed twice. */
static bool repeatable(const char *method) {
    static const char *const methods[] = {
        "completion/complete",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "tools/list",
    };

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(methods[i], method) == 0)
            return true;
    }
    return false;
}

/* Whether the request was sent again, or will be. */
static bool may_repeat(tdg__asked_t *asked, const tdg__carry_report_t *report) {
    tdg__core_t *core = asked->core;
    bool refused = report->status == 401 || report->status == 403;

    if (report->end == TDG__CARRY_STATUS && refused && !asked->renewed &&
        asked->wire == core->wire && asked->wire->ops->renew(asked->wire)) {
        asked->renewed = true;
        tdg__asked_send(asked);
        return true;
    }
    if (asked->early || asked->stream != NULL || asked->repeated)
        return false;

    if (report->end == TDG__CARRY_NO_SESSION) {
        asked->repeated = true;
        asked->state = TDG__ASKED_WAITING;
        tdg__connect_lost(core, TDG_EAWAY, "the server has forgotten the session");
        return true;
    }
    if ((report->end == TDG__CARRY_BROKEN || report->end == TDG__CARRY_DONE) &&
        (!report->sent || repeatable(asked->method))) {
        asked->repeated = true;
        if (asked->wire->ops->shared || !tdg__calls_go(core))
            asked->state = TDG__ASKED_WAITING; /* that the channel is lost is told next */
        else
            tdg__asked_send(asked);
        return true;
    }
    return false;
}

static int code_of(const tdg__carry_report_t *report) {
    static const int codes[] = {
        [TDG__CARRY_DONE] = TDG_EAWAY,        [TDG__CARRY_STATUS] = TDG_EREFUSED,
        [TDG__CARRY_NO_SESSION] = TDG_EAWAY,  [TDG__CARRY_BROKEN] = TDG_EAWAY,
        [TDG__CARRY_TIMEOUT] = TDG_ETIMEDOUT, [TDG__CARRY_NONSENSE] = TDG_EJSON,
        [TDG__CARRY_AWAY] = TDG_EAWAY,        [TDG__CARRY_REFUSED] = TDG_EREFUSED,
        [TDG__CARRY_NO_MEMORY] = TDG_ENOMEM,
    };

    if (report->end == TDG__CARRY_STATUS &&
        (report->status >= 500 || report->status == 429 || report->status == 408))
        return TDG_EAWAY;
    return report->code != 0 ? report->code : codes[report->end];
}

static void read_report(const tdg__asked_t *asked, const tdg__carry_report_t *report,
                        tdg_failure_t *ret) {
    const json_t *error =
        report->body != NULL ? json_object_get(report->body->root, "error") : NULL;
    int code = code_of(report);

    if (error != NULL) {
        tdg__failure_rpc(ret, asked->method, error);
        if (code == TDG_EAWAY) /* 5xx: later it may be another */
            ret->code = code;
    } else if (report->end == TDG__CARRY_DONE) {
        tdg__failure_set(ret, code, "%s: it ended before there was an answer",
                         asked->method);
    } else {
        tdg__failure_set(ret, code, "%s: %s", asked->method,
                         report->error != NULL && report->error[0] != '\0'
                             ? report->error
                             : tdg_strerror(code));
    }
    if (report->end == TDG__CARRY_STATUS || report->end == TDG__CARRY_NO_SESSION)
        ret->http_status = report->status;
}

static void on_ended(void *user, const tdg__carry_report_t *report) {
    tdg__asked_t *asked = user;
    tdg_failure_t failure;

    if (report->end == TDG__CARRY_TIMEOUT && asked->state == TDG__ASKED_SENT)
        tdg__asked_tell_cancelled(asked, "timed out");
    asked->carry = NULL;

    if (asked->state == TDG__ASKED_OVER) {
        tdg__asked_remove(asked);
    } else if (asked->state == TDG__ASKED_ROUND) {
        tdg__asked_start_time(asked);
        tdg__asked_send(asked);
    } else if (asked->state == TDG__ASKED_SENT && !may_repeat(asked, report)) {
        read_report(asked, report, &failure);
        tdg__asked_failed(asked, &failure, report->end, report->retry_after_ms);
    }
}

const tdg__carry_calls_t tdg__carried_calls = {
    .opened = on_opened,
    .message = on_message,
    .alive = on_alive,
    .retry = on_retry,
    .ended = on_ended,
};
