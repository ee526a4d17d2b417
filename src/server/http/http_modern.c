/* SPDX-License-Identifier: MIT
 *
 * Modern requests by POST: the body and its headers must agree, then each is served for
 * itself. */
#include "server/feed/trace.h"
#include "server/http/visit.h"

static const char *find_header(void *user, const char *name) {
    return tdg__http_field(user, name);
}

/* Reads the request and compares it with its headers. What is missing in the body comes
 * first, then what differs between both, then what we do not speak. */
static int read_modern(tdg__visit_t *visit, const tdg__rpc_message_t *message,
                       tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    unsigned flags = visit->worker->server->opts.flags;
    tdg__rpc_error_t mismatch = {0};
    tdg__mcp_headers_t headers = {
        .protocol_version = tdg__http_field(visit->http, "mcp-protocol-version"),
        .method = tdg__http_field(visit->http, "mcp-method"),
        .name = tdg__http_field(visit->http, "mcp-name"),
    };

    int rv = tdg__mcp_read_modern(message, (flags & TDG_NO_LEGACY) == 0, ret, error);
    if (rv < 0 && error->code == TDG__RPC_INVALID_PARAMS)
        return rv;
    if (tdg__mcp_check_headers(&headers, message, &mismatch) < 0) {
        tdg__rpc_error_done(error);
        *error = mismatch;
        return TDG_EINVAL;
    }
    return rv;
}

static void serve_listen(tdg__visit_t *visit, const tdg__mcp_request_t *request) {
    tdg__rpc_error_t error = {0};

    if (!tdg__visit_accepts(visit, "text/event-stream"))
        tdg__visit_refuse(
            visit, 406, TDG__RPC_INVALID_REQUEST,
            "subscriptions/listen is answered by a stream: accept text/event-stream");
    else if (tdg__visit_listen(visit, request, &error) < 0)
        tdg__visit_refuse_message(visit, request->id, &error);
}

void tdg__visit_serve_modern(tdg__visit_t *visit, const tdg__rpc_message_t *message) {
    tdg__rpc_error_t error = {0};
    tdg__mcp_request_t request;
    tdg__channel_t *channel;

    if (message->kind != TDG__RPC_REQUEST) {
        tdg__visit_respond(visit, 202, NULL); /* no notification has an effect here */
    } else if (read_modern(visit, message, &request, &error) < 0) {
        tdg__trace_rejected(visit->worker->server, NULL, message, &error);
        tdg__visit_refuse_message(visit, message->id, &error);
    } else if (request.method == TDG__M_LISTEN) {
        serve_listen(visit, &request);
    } else if (tdg__visit_post(visit, NULL, request.version, false, 1, &channel) == 0) {
        tdg__modern_serve(channel, &request, find_header, (void *)(uintptr_t)visit->http);
    }
}
