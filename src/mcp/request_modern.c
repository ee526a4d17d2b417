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

static int read_listen(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};
    tdg__place_t wanted = {.name = "notifications"};
    json_t *object = NULL;
    int rv;

    rv = tdg__param_object(&place, "notifications", TDG__REQUIRED, &object, error);
    if (rv < 0)
        return rv;
    wanted.object = object;
    rv = tdg__param_filter(&wanted, &ret->listen, error);
    if (rv < 0)
        return rv;
    return tdg__read_wishes(params, ret, error);
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

static int refuse_version(const char *requested, bool legacy_too,
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
    return TDG_EINVAL;
}

/* The fields that every request has. */
static int read_fields(json_t *params, bool legacy_too, tdg__mcp_request_t *ret,
                       tdg__rpc_error_t *error) {
    tdg__place_t place = {.name = "_meta"};
    json_t *meta = NULL, *capabilities = NULL;
    const char *version = NULL;
    int rv;

    rv = tdg__read_meta(params, ret, &meta, error);
    if (rv < 0)
        return rv;
    place.object = meta;

    rv =
        tdg__param_string(&place, META "protocolVersion", TDG__REQUIRED, &version, error);
    if (rv < 0)
        return rv;
    if (tdg__version_from_text(version) != TDG__V_MODERN)
        return refuse_version(version, legacy_too, error);

    rv = tdg__param_object(&place, META "clientCapabilities", TDG__REQUIRED,
                           &capabilities, error);
    if (rv < 0)
        return rv;
    ret->client_capabilities = capabilities;

    rv = tdg__param_client(&place, META "clientInfo", TDG__OPTIONAL, ret, error);
    if (rv < 0)
        return rv;
    return tdg__param_level(&place, META "logLevel", TDG__OPTIONAL, &ret->log_level,
                            error);
}

int tdg__mcp_read_modern(const tdg__rpc_message_t *message, bool legacy_too,
                         tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__method_row_t *row;
    int rv;

    assert(message->kind != TDG__RPC_RESPONSE);
    tdg__request_init(ret, message, TDG__V_MODERN);
    if (message->kind == TDG__RPC_NOTIFICATION) {
        tdg__read_notification(message, ret);
        return 0;
    }

    rv = read_fields(message->params, legacy_too, ret, error);
    if (rv < 0)
        return rv;

    row =
        tdg__method_find(methods, sizeof(methods) / sizeof(methods[0]), message->method);
    if (row == NULL)
        return tdg__method_unknown(message->method, error);

    ret->method = row->method;
    return row->read != NULL ? row->read(message->params, ret, error) : 0;
}
