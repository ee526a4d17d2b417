/* SPDX-License-Identifier: MIT */
#include "server/modern.h"

#include "mcp/result.h"
#include "server/session.h"
#include "server/worker.h"

void tdg__modern_serve(tdg__channel_t *channel, const tdg__mcp_request_t *request,
                       const char *(*find_header)(void *user, const char *name),
                       void *user) {
    tdg__rpc_error_t error = {0};
    tdg__server_info_t info;

    tdg__call_t *call = tdg__call_create(channel, request);
    if (call == NULL) {
        tdg__rpc_error_set(&error, TDG__RPC_INTERNAL, NULL, "Out of memory");
        tdg__channel_refuse(channel, request->id, &error);
        return;
    }
    tdg__call_set_mark(call, channel->mark);
    if (request->method == TDG__M_DISCOVER) {
        tdg__server_describe(tdg__worker_server(channel->worker), &info);
        tdg__call_answer(call, tdg__result_discover(&info));
    } else if (!tdg__call_handle(call, request, find_header, user)) {
        tdg__rpc_error_set(&error, TDG__RPC_METHOD_NOT_FOUND, NULL, "Method not found");
        tdg__call_refuse(call, &error);
    }
}
