/* SPDX-License-Identifier: MIT
 *
 * The reports of a transport about a request: it is open, it is alive, a message has
 * arrived, it has ended. Decides from the way it ended whether to retry once. */
#include <string.h>

#include <tidings/error.h>

#include "client/session/requests.h"

static void on_opened(void *user, int status) {
    tdg__client_request_t *request = user;

    (void)status;
    if (request->state != TDG__CLIENT_REQUEST_SENT || request->stream == NULL ||
        request->opened)
        return;

    request->opened = true;
    tdg__core_timer_stop(request->core, &request->timer);
}

static void on_alive(void *user) {
    tdg__client_request_t *request = user;

    if (request->state == TDG__CLIENT_REQUEST_SENT && request->stream != NULL)
        request->stream->alive(request->user);
}

static void on_retry(void *user, uint32_t ms) {
    tdg__client_request_t *request = user;

    if (request->state == TDG__CLIENT_REQUEST_SENT && request->stream != NULL)
        request->stream->retry(request->user, ms);
}

static void on_message(void *user, tdg__rpc_message_t *message) {
    tdg__client_request_t *request = user;

    tdg__incoming_message(request->core, request, message);
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
static bool may_repeat(tdg__client_request_t *request,
                       const tdg__delivery_report_t *report) {
    tdg__core_t *core = request->core;
    bool refused = report->status == 401 || report->status == 403;

    if (report->end == TDG__DELIVERY_STATUS && refused && !request->renewed &&
        request->transport == core->transport &&
        tdg__transport_renew(request->transport)) {
        request->renewed = true;
        tdg__client_request_send(request);
        return true;
    }
    if (request->early || request->stream != NULL || request->repeated)
        return false;

    if (report->end == TDG__DELIVERY_NO_SESSION) {
        request->repeated = true;
        request->state = TDG__CLIENT_REQUEST_WAITING;
        tdg__connect_lost(core, TDG_EUNREACHABLE, "the server has forgotten the session");
        return true;
    }
    if ((report->end == TDG__DELIVERY_BROKEN || report->end == TDG__DELIVERY_DONE) &&
        (!report->sent || repeatable(request->method))) {
        request->repeated = true;
        if (request->transport->ops->shared || !tdg__client_requests_go(core))
            request->state = TDG__CLIENT_REQUEST_WAITING; /* the loss is reported next */
        else
            tdg__client_request_send(request);
        return true;
    }
    return false;
}

static int code_of(const tdg__delivery_report_t *report) {
    static const int codes[] = {
        [TDG__DELIVERY_DONE] = TDG_EUNREACHABLE,
        [TDG__DELIVERY_STATUS] = TDG_EREFUSED,
        [TDG__DELIVERY_NO_SESSION] = TDG_EUNREACHABLE,
        [TDG__DELIVERY_BROKEN] = TDG_EUNREACHABLE,
        [TDG__DELIVERY_TIMEOUT] = TDG_ETIMEDOUT,
        [TDG__DELIVERY_NONSENSE] = TDG_EJSON,
        [TDG__DELIVERY_AWAY] = TDG_EUNREACHABLE,
        [TDG__DELIVERY_REFUSED] = TDG_EREFUSED,
        [TDG__DELIVERY_NO_MEMORY] = TDG_ENOMEM,
    };

    if (report->end == TDG__DELIVERY_STATUS &&
        (report->status >= 500 || report->status == 429 || report->status == 408))
        return TDG_EUNREACHABLE;
    return report->code != 0 ? report->code : codes[report->end];
}

static void read_report(const tdg__client_request_t *request,
                        const tdg__delivery_report_t *report, tdg_failure_t *ret) {
    const json_t *error =
        report->body != NULL ? json_object_get(report->body->root, "error") : NULL;
    int code = code_of(report);

    if (error != NULL) {
        tdg__failure_rpc(ret, request->method, error);
        if (code == TDG_EUNREACHABLE) /* 5xx: later it may be another */
            ret->code = code;
    } else if (report->end == TDG__DELIVERY_DONE) {
        tdg__failure_set(ret, code, "%s: it ended without a response", request->method);
    } else {
        tdg__failure_set(ret, code, "%s: %s", request->method,
                         report->error != NULL && report->error[0] != '\0'
                             ? report->error
                             : tdg_strerror(code));
    }
    if (report->end == TDG__DELIVERY_STATUS || report->end == TDG__DELIVERY_NO_SESSION)
        ret->http_status = report->status;
}

static void on_ended(void *user, const tdg__delivery_report_t *report) {
    tdg__client_request_t *request = user;
    tdg_failure_t failure;

    if (report->end == TDG__DELIVERY_TIMEOUT &&
        request->state == TDG__CLIENT_REQUEST_SENT)
        tdg__client_request_tell_cancelled(request, "timed out");
    request->delivery = NULL;

    if (request->state == TDG__CLIENT_REQUEST_OVER) {
        tdg__client_request_remove(request);
    } else if (request->state == TDG__CLIENT_REQUEST_ROUND) {
        tdg__client_request_start_time(request);
        tdg__client_request_send(request);
    } else if (request->state == TDG__CLIENT_REQUEST_SENT &&
               !may_repeat(request, report)) {
        read_report(request, report, &failure);
        tdg__client_request_failed(request, &failure, report->end,
                                   report->retry_after_ms);
    }
}

const tdg__delivery_calls_t tdg__client_request_delivery_calls = {
    .opened = on_opened,
    .message = on_message,
    .alive = on_alive,
    .retry = on_retry,
    .ended = on_ended,
};
