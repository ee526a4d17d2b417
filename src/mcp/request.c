/* SPDX-License-Identifier: MIT
 *
 * Requests of both eras, by one table of methods.
 *
 * 2024-11-05 to 2025-11-25: `initialize` first, then everything else. The four revisions
 * have the same requests. Tasks, experimental in the last one, are left out.
 *
 * 2026-07-28: each request brings its version and the client's capabilities itself.
 * Checked in this order: the required fields, the version, the method, its parameters. */
#include "mcp/request.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "mcp/notice.h"
#include "mcp/request_params.h"

#define META "io.modelcontextprotocol/"

/* ---- Parameters --------------------------------------------------------- */

/* Reads the parameters of one method. What is wrong goes to *error, as in
 * request_params.h. */
typedef void read_fn(const tdg__place_t *params, tdg__mcp_request_t *ret,
                     tdg__rpc_error_t *error);

/* `_meta` of params, and its progressToken. */
static tdg__place_t read_meta(const tdg__place_t *params, tdg__mcp_request_t *ret,
                              tdg__rpc_error_t *error) {
    const tdg__place_t meta = tdg__param_object(params, "_meta", TDG__OPTIONAL, error);
    const json_t *token = json_object_get(meta.object, "progressToken");

    if (token != NULL && !json_is_string(token) && !json_is_integer(token))
        tdg__param_fail(error, "progressToken in _meta must be a string or a "
                               "whole number");
    ret->progress_token = token;
    return meta;
}

static int read_level(const tdg__place_t *place, const char *key, int required,
                      tdg__rpc_error_t *error) {
    const char *name = tdg__param_string(place, key, required, error);
    int level = name != NULL ? tdg__log_level_from_name(name) : -1;

    if (name != NULL && level < 0)
        tdg__param_fail(error, "%s in %s is not a log level: %s", key, place->name, name);
    return level;
}

/* {"name", "version"}, both required, and whatever else stands there. */
static void read_client(const tdg__place_t *place, const char *key, int required,
                        tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t client = tdg__param_object(place, key, required, error);

    if (client.object == NULL)
        return;
    ret->client_name = tdg__param_string(&client, "name", TDG__REQUIRED, error);
    ret->client_version = tdg__param_string(&client, "version", TDG__REQUIRED, error);
    ret->client_info = client.object;
}

static void read_initialize(const tdg__place_t *params, tdg__mcp_request_t *ret,
                            tdg__rpc_error_t *error) {
    ret->requested_version =
        tdg__param_string(params, "protocolVersion", TDG__REQUIRED, error);
    ret->client_capabilities =
        tdg__param_object(params, "capabilities", TDG__REQUIRED, error).object;
    read_client(params, "clientInfo", TDG__REQUIRED, ret, error);
}

static void read_listen(const tdg__place_t *params, tdg__mcp_request_t *ret,
                        tdg__rpc_error_t *error) {
    const tdg__place_t wanted =
        tdg__param_object(params, "notifications", TDG__REQUIRED, error);

    ret->listen = tdg__param_filter(&wanted, error);
    tdg__read_wishes(params, &ret->wishes, error);
}

static void read_uri(const tdg__place_t *params, tdg__mcp_request_t *ret,
                     tdg__rpc_error_t *error) {
    ret->uri = tdg__param_string(params, "uri", TDG__REQUIRED, error);
}

static void read_subscribe(const tdg__place_t *params, tdg__mcp_request_t *ret,
                           tdg__rpc_error_t *error) {
    read_uri(params, ret, error);
    tdg__read_wishes(params, &ret->wishes, error);
}

static void read_set_level(const tdg__place_t *params, tdg__mcp_request_t *ret,
                           tdg__rpc_error_t *error) {
    ret->level = read_level(params, "level", TDG__REQUIRED, error);
}

static void read_list(const tdg__place_t *params, tdg__mcp_request_t *ret,
                      tdg__rpc_error_t *error) {
    ret->page = tdg__param_string(params, "cursor", TDG__OPTIONAL, error);
}

static void read_call(const tdg__place_t *params, tdg__mcp_request_t *ret,
                      tdg__rpc_error_t *error) {
    ret->name = tdg__param_string(params, "name", TDG__REQUIRED, error);
    ret->arguments = tdg__param_object(params, "arguments", TDG__OPTIONAL, error).object;
}

static void read_prompt(const tdg__place_t *params, tdg__mcp_request_t *ret,
                        tdg__rpc_error_t *error) {
    read_call(params, ret, error);
    tdg__param_strings(json_object_get(params->object, "arguments"),
                       "the arguments of a prompt", error);
}

static void read_complete(const tdg__place_t *params, tdg__mcp_request_t *ret,
                          tdg__rpc_error_t *error) {
    const tdg__place_t ref = tdg__param_object(params, "ref", TDG__REQUIRED, error);
    const char *type = tdg__param_string(&ref, "type", TDG__REQUIRED, error);

    if (type == NULL)
        return; /* that has failed, and nothing more is reported */
    ret->ref_is_prompt = strcmp(type, "ref/prompt") == 0;
    if (!ret->ref_is_prompt && strcmp(type, "ref/resource") != 0)
        tdg__param_fail(error, "type in ref must be ref/prompt or ref/resource, not %s",
                        type);
    ret->ref = tdg__param_string(&ref, ret->ref_is_prompt ? "name" : "uri", TDG__REQUIRED,
                                 error);

    const tdg__place_t argument =
        tdg__param_object(params, "argument", TDG__REQUIRED, error);
    ret->argument = tdg__param_string(&argument, "name", TDG__REQUIRED, error);
    ret->value = tdg__param_string(&argument, "value", TDG__REQUIRED, error);
    const tdg__place_t context =
        tdg__param_object(params, "context", TDG__OPTIONAL, error);
    json_t *known = tdg__param_object(&context, "arguments", TDG__OPTIONAL, error).object;
    tdg__param_strings(known, "the arguments in context", error);
    ret->context = known;
}

/* ---- Methods ------------------------------------------------------------ */

enum {
    LEGACY = 1 << 0, /* a request of these eras */
    MODERN = 1 << 1,
    EARLY = 1 << 2, /* accepted before initialize */
};

static const struct {
    const char *name; /* NULL: it stands for no single one */
    unsigned flags;
    read_fn *read; /* NULL: has no parameters */
} methods[TDG__M_COUNT] = {
    [TDG__M_INITIALIZE] = {"initialize", LEGACY | EARLY, read_initialize},
    [TDG__M_INITIALIZED] = {"notifications/initialized", 0, NULL},
    [TDG__M_PING] = {"ping", LEGACY | EARLY, NULL},
    [TDG__M_DISCOVER] = {"server/discover", MODERN, NULL},
    [TDG__M_LISTEN] = {"subscriptions/listen", MODERN, read_listen},
    [TDG__M_SUBSCRIBE] = {"resources/subscribe", LEGACY, read_subscribe},
    [TDG__M_UNSUBSCRIBE] = {"resources/unsubscribe", LEGACY, read_uri},
    [TDG__M_SET_LEVEL] = {"logging/setLevel", LEGACY, read_set_level},
    [TDG__M_RESOURCES] = {"resources/list", LEGACY | MODERN, read_list},
    [TDG__M_TEMPLATES] = {"resources/templates/list", LEGACY | MODERN, read_list},
    [TDG__M_READ] = {"resources/read", LEGACY | MODERN, read_uri},
    [TDG__M_TOOLS] = {"tools/list", LEGACY | MODERN, read_list},
    [TDG__M_CALL] = {"tools/call", LEGACY | MODERN, read_call},
    [TDG__M_PROMPTS] = {"prompts/list", LEGACY | MODERN, read_list},
    [TDG__M_PROMPT] = {"prompts/get", LEGACY | MODERN, read_prompt},
    [TDG__M_COMPLETE] = {"completion/complete", LEGACY | MODERN, read_complete},
    [TDG__M_CANCELLED] = {"notifications/cancelled", 0, NULL},
};

const char *tdg__method_name(tdg__method_t method) {
    return method > TDG__M_NONE && method < TDG__M_COUNT ? methods[method].name : NULL;
}

/* The request of that name; NONE, with *error, where the era has none. */
static tdg__method_t find_method(const char *name, unsigned era,
                                 tdg__rpc_error_t *error) {
    for (int method = 0; method < TDG__M_COUNT; method++)
        if ((methods[method].flags & era) != 0 && strcmp(methods[method].name, name) == 0)
            return (tdg__method_t)method;
    tdg__rpc_error_set(error, TDG__RPC_METHOD_NOT_FOUND, NULL, "Method not found: %s",
                       name);
    return TDG__M_NONE;
}

/* ---- Both eras ---------------------------------------------------------- */

static void begin(const tdg__rpc_message_t *message, tdg__version_t version,
                  tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    assert(message->kind != TDG__RPC_RESPONSE);
    *error = (tdg__rpc_error_t){0};
    *ret = (tdg__mcp_request_t){
        .version = version,
        .id = message->id,
        .log_level = -1,
        .level = -1,
        .wishes = {.batch_ms = -1,
                   .debounce_ms = -1,
                   .throttle_ms = -1,
                   .rate_limit_ms = -1},
    };
}

/* A notification is never refused, as there is no reply to one. A request's method
 * without an id is ignored. */
static int read_notification(const tdg__rpc_message_t *message, tdg__mcp_request_t *ret) {
    const json_t *id = json_object_get(message->params, "requestId");

    ret->method = TDG__M_OTHER_NOTIFICATION;
    if (strcmp(message->method, methods[TDG__M_INITIALIZED].name) == 0 &&
        !tdg__version_modern(ret->version))
        ret->method = TDG__M_INITIALIZED;
    if (strcmp(message->method, methods[TDG__M_CANCELLED].name) == 0) {
        ret->method = TDG__M_CANCELLED;
        if (tdg__rpc_id_text(id, ret->cancels_text) == NULL)
            ret->cancels = ret->cancels_text;
    }
    return 0;
}

/* The rest of a request, unless what comes before it has failed. */
static int finish(tdg__method_t method, const tdg__place_t *params,
                  tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    if (error->code == 0)
        ret->method = method;
    if (error->code == 0 && methods[method].read != NULL)
        methods[method].read(params, ret, error);
    return error->code != 0 ? TDG_EINVAL : 0;
}

/* ---- Legacy ------------------------------------------------------------- */

int tdg__mcp_read_legacy(const tdg__rpc_message_t *message, tdg__version_t version,
                         tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t params = {message->params, "params"};
    tdg__method_t method;

    assert(!tdg__version_modern(version));
    begin(message, version, ret, error);
    if (message->kind == TDG__RPC_NOTIFICATION)
        return read_notification(message, ret);

    method = find_method(message->method, LEGACY, error);
    if (method == TDG__M_NONE)
        return TDG_EINVAL;
    if (version == TDG__V_UNKNOWN && !(methods[method].flags & EARLY)) {
        tdg__rpc_error_set(error, TDG__RPC_NOT_INITIALISED, NULL,
                           "Not initialized: send initialize first");
        return TDG_EINVAL;
    }
    read_meta(&params, ret, error);
    return finish(method, &params, ret, error);
}

/* ---- Modern ------------------------------------------------------------- */

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
           strcmp(method, methods[TDG__M_DISCOVER].name) == 0 ||
           strcmp(method, methods[TDG__M_LISTEN].name) == 0;
}

static void refuse_version(const char *requested, bool legacy_too,
                           tdg__rpc_error_t *error) {
    json_t *supported = tdg__versions_list(legacy_too, true);
    json_t *data = json_pack("{s:o,s:s}", "supported", supported, "requested", requested);

    if (data == NULL)
        tdg__rpc_error_set(error, TDG__RPC_INTERNAL, NULL, "Out of memory");
    else
        tdg__rpc_error_set(error, TDG__RPC_UNSUPPORTED_VERSION, data,
                           "Unsupported protocol version");
}

/* The fields that every request has. */
static void read_fields(const tdg__place_t *params, bool legacy_too,
                        tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t meta = read_meta(params, ret, error);
    const char *version =
        tdg__param_string(&meta, META "protocolVersion", TDG__REQUIRED, error);

    if (error->code == 0 && tdg__version_from_text(version) != TDG__V_MODERN)
        refuse_version(version, legacy_too, error);
    ret->client_capabilities =
        tdg__param_object(&meta, META "clientCapabilities", TDG__REQUIRED, error).object;
    read_client(&meta, META "clientInfo", TDG__OPTIONAL, ret, error);
    ret->log_level = read_level(&meta, META "logLevel", TDG__OPTIONAL, error);
}

int tdg__mcp_read_modern(const tdg__rpc_message_t *message, bool legacy_too,
                         tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t params = {message->params, "params"};
    tdg__method_t method;

    begin(message, TDG__V_MODERN, ret, error);
    if (message->kind == TDG__RPC_NOTIFICATION)
        return read_notification(message, ret);

    read_fields(&params, legacy_too, ret, error);
    if (error->code != 0)
        return TDG_EINVAL;
    method = find_method(message->method, MODERN, error);
    return finish(method, &params, ret, error);
}
