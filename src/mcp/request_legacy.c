/* SPDX-License-Identifier: MIT
 *
 * Requests of 2024-11-05 to 2025-11-25: `initialize` first, then everything else. The
 * four revisions have the same requests. Tasks, experimental in the last one, are left
 * out. */
#include "mcp/request.h"

#include <assert.h>
#include <tidings/error.h>

#include "mcp/request_params.h"

static void read_initialize(json_t *params, tdg__mcp_request_t *ret,
                            tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};

    ret->requested_version =
        tdg__param_string(&place, "protocolVersion", TDG__REQUIRED, error);
    ret->client_capabilities =
        tdg__param_object(&place, "capabilities", TDG__REQUIRED, error).object;
    tdg__param_client(&place, "clientInfo", TDG__REQUIRED, ret, error);
}

static void read_subscribe(json_t *params, tdg__mcp_request_t *ret,
                           tdg__rpc_error_t *error) {
    tdg__read_uri(params, ret, error);
    tdg__read_wishes(params, ret, error);
}

static void read_set_level(json_t *params, tdg__mcp_request_t *ret,
                           tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};

    ret->level = tdg__param_level(&place, "level", TDG__REQUIRED, error);
}

static const tdg__method_row_t methods[] = {
    {TDG__M_INITIALIZE, TDG__EARLY, read_initialize},
    {TDG__M_PING, TDG__EARLY, NULL},
    {TDG__M_SUBSCRIBE, 0, read_subscribe},
    {TDG__M_UNSUBSCRIBE, 0, tdg__read_uri},
    {TDG__M_SET_LEVEL, 0, read_set_level},
    {TDG__M_RESOURCES, 0, tdg__read_list},
    {TDG__M_TEMPLATES, 0, tdg__read_list},
    {TDG__M_READ, 0, tdg__read_uri},
    {TDG__M_TOOLS, 0, tdg__read_list},
    {TDG__M_CALL, 0, tdg__read_call},
    {TDG__M_PROMPTS, 0, tdg__read_list},
    {TDG__M_PROMPT, 0, tdg__read_prompt},
    {TDG__M_COMPLETE, 0, tdg__read_complete},
};

int tdg__mcp_read_legacy(const tdg__rpc_message_t *message, tdg__version_t version,
                         tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__method_row_t *row;

    assert(message->kind != TDG__RPC_RESPONSE && !tdg__version_modern(version));
    *error = (tdg__rpc_error_t){0};
    tdg__request_init(ret, message, version);
    if (message->kind == TDG__RPC_NOTIFICATION) {
        tdg__read_notification(message, ret);
        return 0;
    }

    row =
        tdg__method_find(methods, sizeof(methods) / sizeof(methods[0]), message->method);
    if (row == NULL) {
        tdg__method_unknown(message->method, error);
        return TDG_EINVAL;
    }
    if (version == TDG__V_UNKNOWN && !(row->flags & TDG__EARLY)) {
        tdg__rpc_error_set(error, TDG__RPC_NOT_INITIALISED, NULL,
                           "Not initialized: send initialize first");
        return TDG_EINVAL;
    }

    tdg__read_meta(message->params, ret, error);
    if (error->code == 0)
        ret->method = row->method;
    if (row->read != NULL)
        row->read(message->params, ret, error);
    return error->code != 0 ? TDG_EINVAL : 0;
}
