/* SPDX-License-Identifier: MIT
 *
 * Requests of 2026-07-28: each brings its version and the client's capabilities itself.
 * Checked in this order: the required fields, the version, the method, its parameters. */
#include "mcp/request.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "mcp/request_params.h"

#define META "io.modelcontextprotocol/"

static void read_listen(json_t *params, tdg__mcp_request_t *ret,
                        tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};
    const tdg__place_t wanted =
        tdg__param_object(&place, "notifications", TDG__REQUIRED, error);

    ret->listen = tdg__param_filter(&wanted, error);
    tdg__read_wishes(params, ret, error);
}

static const tdg__method_row_t methods[] = {
    {TDG__M_DISCOVER, 0, NULL},
    {TDG__M_LISTEN, 0, read_listen},
    {TDG__M_RESOURCES, 0, tdg__read_list},
    {TDG__M_TEMPLATES, 0, tdg__read_list},
    {TDG__M_READ, 0, tdg__read_uri},
    {TDG__M_TOOLS, 0, tdg__read_list},
    {TDG__M_CALL, 0, tdg__read_call},
    {TDG__M_PROMPTS, 0, tdg__read_list},
    {TDG__M_PROMPT, 0, tdg__read_prompt},
    {TDG__M_COMPLETE, 0, tdg__read_complete},
};

bool tdg__mcp_is_modern(const tdg__rpc_message_t *message) {
    const json_t *meta = json_object_get(message->params, "_meta");
    const char *method = message->method;

    if (method == NULL)
        return false;

    /* A request that lacks one of its fields is a modern one still, and is refused as
     * one. */
    return json_object_get(meta, META "protocolVersion") != NULL ||
           json_object_get(meta, META "clientCapabilities") != NULL ||
           json_object_get(meta, META "clientInfo") != NULL ||
           strcmp(method, tdg__method_name(TDG__M_DISCOVER)) == 0 ||
           strcmp(method, tdg__method_name(TDG__M_LISTEN)) == 0;
}

static void refuse_version(const char *requested, bool legacy_too,
                           tdg__rpc_error_t *error) {
    int oldest = legacy_too ? TDG__V_UNKNOWN + 1 : TDG__V_MODERN;
    json_t *supported = json_array(), *data;

    for (int v = TDG__V_COUNT - 1; v >= oldest; v--) {
        if (json_array_append_new(
                supported, json_string(tdg__version_text((tdg__version_t)v))) < 0) {
            json_decref(supported);
            supported = NULL;
        }
    }

    data = json_pack("{s:o,s:s}", "supported", supported, "requested", requested);
    if (data == NULL)
        tdg__rpc_error_set(error, TDG__RPC_INTERNAL, NULL, "Out of memory");
    else
        tdg__rpc_error_set(error, TDG__RPC_UNSUPPORTED_VERSION, data,
                           "Unsupported protocol version");
}

/* The fields that every request has. */
static void read_fields(json_t *params, bool legacy_too, tdg__mcp_request_t *ret,
                        tdg__rpc_error_t *error) {
    const tdg__place_t meta = tdg__read_meta(params, ret, error);
    const char *version =
        tdg__param_string(&meta, META "protocolVersion", TDG__REQUIRED, error);

    if (error->code == 0 && tdg__version_from_text(version) != TDG__V_MODERN)
        refuse_version(version, legacy_too, error);
    ret->client_capabilities =
        tdg__param_object(&meta, META "clientCapabilities", TDG__REQUIRED, error).object;
    tdg__param_client(&meta, META "clientInfo", TDG__OPTIONAL, ret, error);
    ret->log_level = tdg__param_level(&meta, META "logLevel", TDG__OPTIONAL, error);
}

int tdg__mcp_read_modern(const tdg__rpc_message_t *message, bool legacy_too,
                         tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__method_row_t *row;

    assert(message->kind != TDG__RPC_RESPONSE);
    *error = (tdg__rpc_error_t){0};
    tdg__request_init(ret, message, TDG__V_MODERN);
    if (message->kind == TDG__RPC_NOTIFICATION) {
        tdg__read_notification(message, ret);
        return 0;
    }

    read_fields(message->params, legacy_too, ret, error);
    if (error->code != 0)
        return TDG_EINVAL;

    row =
        tdg__method_find(methods, sizeof(methods) / sizeof(methods[0]), message->method);
    if (row == NULL) {
        tdg__method_unknown(message->method, error);
        return TDG_EINVAL;
    }

    ret->method = row->method;
    if (row->read != NULL)
        row->read(message->params, ret, error);
    return error->code != 0 ? TDG_EINVAL : 0;
}
