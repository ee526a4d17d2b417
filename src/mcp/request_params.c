/* SPDX-License-Identifier: MIT */
#include "mcp/request_params.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "mcp/notice.h"

/* ---- Methods ------------------------------------------------------------ */

static const char *const method_names[TDG__M_COUNT] = {
    [TDG__M_INITIALIZE] = "initialize",
    [TDG__M_INITIALIZED] = "notifications/initialized",
    [TDG__M_PING] = "ping",
    [TDG__M_DISCOVER] = "server/discover",
    [TDG__M_LISTEN] = "subscriptions/listen",
    [TDG__M_SUBSCRIBE] = "resources/subscribe",
    [TDG__M_UNSUBSCRIBE] = "resources/unsubscribe",
    [TDG__M_SET_LEVEL] = "logging/setLevel",
    [TDG__M_RESOURCES] = "resources/list",
    [TDG__M_TEMPLATES] = "resources/templates/list",
    [TDG__M_READ] = "resources/read",
    [TDG__M_TOOLS] = "tools/list",
    [TDG__M_CALL] = "tools/call",
    [TDG__M_PROMPTS] = "prompts/list",
    [TDG__M_PROMPT] = "prompts/get",
    [TDG__M_COMPLETE] = "completion/complete",
    [TDG__M_CANCELLED] = "notifications/cancelled",
};

const char *tdg__method_name(tdg__method_t method) {
    return method > TDG__M_NONE && method < TDG__M_COUNT ? method_names[method] : NULL;
}

const tdg__method_row_t *tdg__method_find(const tdg__method_row_t *rows, size_t count,
                                          const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(method_names[rows[i].method], name) == 0)
            return &rows[i];
    }
    return NULL;
}

int tdg__method_unknown(const char *name, tdg__rpc_error_t *error) {
    tdg__rpc_error_set(error, TDG__RPC_METHOD_NOT_FOUND, NULL, "Method not found: %s",
                       name);
    return TDG_EINVAL;
}

void tdg__request_init(tdg__mcp_request_t *ret, const tdg__rpc_message_t *message,
                       tdg__version_t version) {
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

void tdg__read_notification(const tdg__rpc_message_t *message, tdg__mcp_request_t *ret) {
    const json_t *id;

    ret->method = TDG__M_OTHER_NOTIFICATION;
    if (strcmp(message->method, method_names[TDG__M_INITIALIZED]) == 0 &&
        !tdg__version_modern(ret->version))
        ret->method = TDG__M_INITIALIZED;

    if (strcmp(message->method, method_names[TDG__M_CANCELLED]) == 0) {
        ret->method = TDG__M_CANCELLED;
        id = json_object_get(message->params, "requestId");
        if (tdg__rpc_id_text(id, ret->cancels_text) == NULL)
            ret->cancels = ret->cancels_text;
    }
}

/* ---- Values ------------------------------------------------------------- */

int tdg__param_fail(tdg__rpc_error_t *error, const char *format, ...) {
    static const char prefix[] = "Invalid params: ";
    char detail[sizeof(error->message)];
    va_list args;

    va_start(args, format);
    vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);

    /* The message is cut at a character; so is the detail when it is taken from there. */
    tdg__rpc_error_set(error, TDG__RPC_INVALID_PARAMS, NULL, "%s%s", prefix, detail);
    error->data = json_pack("{s:s}", "detail", error->message + sizeof(prefix) - 1);
    return TDG_EINVAL;
}

/* null is a value: not missing, but of the wrong type wherever one is expected. */
static int find_value(const tdg__place_t *place, const char *key, int required,
                      json_t **ret, tdg__rpc_error_t *error) {
    *ret = json_object_get(place->object, key);
    if (*ret != NULL || required != TDG__REQUIRED)
        return 0;
    if (strcmp(place->name, "params") == 0)
        return tdg__param_fail(error, "Missing %s parameter", key);
    return tdg__param_fail(error, "%s is missing in %s", key, place->name);
}

static int mistyped(const tdg__place_t *place, const char *key, const char *expected,
                    tdg__rpc_error_t *error) {
    return tdg__param_fail(error, "%s in %s must be %s", key, place->name, expected);
}

int tdg__param_string(const tdg__place_t *place, const char *key, int required,
                      const char **ret, tdg__rpc_error_t *error) {
    json_t *value;
    int rv;

    rv = find_value(place, key, required, &value, error);
    if (rv < 0)
        return rv;
    if (value != NULL && !json_is_string(value))
        return mistyped(place, key, "a string", error);

    *ret = json_string_value(value);
    return 0;
}

int tdg__param_object(const tdg__place_t *place, const char *key, int required,
                      json_t **ret, tdg__rpc_error_t *error) {
    json_t *value;
    int rv;

    rv = find_value(place, key, required, &value, error);
    if (rv < 0)
        return rv;
    if (value != NULL && !json_is_object(value))
        return mistyped(place, key, "an object", error);

    *ret = value;
    return 0;
}

int tdg__param_bool(const tdg__place_t *place, const char *key, bool *ret,
                    tdg__rpc_error_t *error) {
    const json_t *value = json_object_get(place->object, key);

    if (value != NULL && !json_is_boolean(value))
        return mistyped(place, key, "true or false", error);

    *ret = json_is_true(value);
    return 0;
}

int tdg__param_all_strings(json_t *container, const char *name, tdg__rpc_error_t *error) {
    const char *key;
    const json_t *item;
    size_t i;

    json_array_foreach(container, i, item) {
        if (!json_is_string(item))
            return tdg__param_fail(error, "%s must be an array of strings", name);
    }
    json_object_foreach(container, key, item) {
        if (!json_is_string(item))
            return tdg__param_fail(error, "%s must be strings: %s", name, key);
    }
    return 0;
}

int tdg__param_filter(const tdg__place_t *place, tdg__listen_filter_t *ret,
                      tdg__rpc_error_t *error) {
    static const char key[] = "resourceSubscriptions";
    json_t *uris = json_object_get(place->object, key);
    int rv;

    rv = tdg__param_bool(place, "toolsListChanged", &ret->tools, error);
    if (rv < 0)
        return rv;

    rv = tdg__param_bool(place, "promptsListChanged", &ret->prompts, error);
    if (rv < 0)
        return rv;

    rv = tdg__param_bool(place, "resourcesListChanged", &ret->resources, error);
    if (rv < 0)
        return rv;

    if (uris != NULL && !json_is_array(uris))
        return tdg__param_fail(error, "%s must be an array of strings", key);
    rv = tdg__param_all_strings(uris, key, error);
    if (rv < 0)
        return rv;
    ret->uris = uris;
    return 0;
}

int tdg__param_level(const tdg__place_t *place, const char *key, int required, int *ret,
                     tdg__rpc_error_t *error) {
    const char *name = NULL;
    int rv, level;

    rv = tdg__param_string(place, key, required, &name, error);
    if (rv < 0)
        return rv;

    level = name != NULL ? tdg__log_level_from_name(name) : -1;
    if (name != NULL && level < 0)
        return tdg__param_fail(error, "%s in %s is not a log level: %s", key, place->name,
                               name);
    *ret = level;
    return 0;
}

int tdg__param_client(const tdg__place_t *place, const char *key, int required,
                      tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    tdg__place_t client = {.name = key};
    json_t *object = NULL;
    int rv;

    rv = tdg__param_object(place, key, required, &object, error);
    if (rv < 0 || object == NULL)
        return rv;

    client.object = object;
    rv = tdg__param_string(&client, "name", TDG__REQUIRED, &ret->client_name, error);
    if (rv < 0)
        return rv;
    rv =
        tdg__param_string(&client, "version", TDG__REQUIRED, &ret->client_version, error);
    if (rv < 0)
        return rv;
    ret->client_info = object;
    return 0;
}

/* ---- Parameters --------------------------------------------------------- */

int tdg__read_meta(json_t *params, tdg__mcp_request_t *ret, json_t **ret_meta,
                   tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};
    const json_t *token;
    json_t *meta = NULL;
    int rv;

    rv = tdg__param_object(&place, "_meta", TDG__OPTIONAL, &meta, error);
    if (rv < 0)
        return rv;

    token = json_object_get(meta, "progressToken");
    if (token != NULL && !json_is_string(token) && !json_is_integer(token))
        return tdg__param_fail(error, "progressToken in _meta must be a string or a "
                                      "whole number");
    ret->progress_token = token;
    *ret_meta = meta;
    return 0;
}

int tdg__read_list(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};

    return tdg__param_string(&place, "cursor", TDG__OPTIONAL, &ret->page, error);
}

int tdg__read_uri(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};

    return tdg__param_string(&place, "uri", TDG__REQUIRED, &ret->uri, error);
}

int tdg__read_call(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};
    json_t *arguments = NULL;
    int rv;

    rv = tdg__param_string(&place, "name", TDG__REQUIRED, &ret->name, error);
    if (rv < 0)
        return rv;

    rv = tdg__param_object(&place, "arguments", TDG__OPTIONAL, &arguments, error);
    ret->arguments = arguments;
    return rv;
}

int tdg__read_prompt(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    int rv = tdg__read_call(params, ret, error);

    if (rv < 0)
        return rv;
    return tdg__param_all_strings(json_object_get(params, "arguments"),
                                  "the arguments of a prompt", error);
}

static int read_ref(const tdg__place_t *place, tdg__mcp_request_t *ret,
                    tdg__rpc_error_t *error) {
    tdg__place_t ref = {.name = "ref"};
    const char *type = NULL;
    json_t *object = NULL;
    int rv;

    rv = tdg__param_object(place, "ref", TDG__REQUIRED, &object, error);
    if (rv < 0)
        return rv;

    ref.object = object;
    rv = tdg__param_string(&ref, "type", TDG__REQUIRED, &type, error);
    if (rv < 0)
        return rv;

    ret->ref_is_prompt = strcmp(type, "ref/prompt") == 0;
    if (!ret->ref_is_prompt && strcmp(type, "ref/resource") != 0)
        return tdg__param_fail(
            error, "type in ref must be ref/prompt or ref/resource, not %s", type);
    return tdg__param_string(&ref, ret->ref_is_prompt ? "name" : "uri", TDG__REQUIRED,
                             &ret->ref, error);
}

int tdg__read_complete(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};
    tdg__place_t argument = {.name = "argument"}, context = {.name = "context"};
    json_t *object = NULL, *known = NULL;
    int rv;

    rv = read_ref(&place, ret, error);
    if (rv < 0)
        return rv;

    rv = tdg__param_object(&place, "argument", TDG__REQUIRED, &object, error);
    if (rv < 0)
        return rv;
    argument.object = object;

    rv = tdg__param_string(&argument, "name", TDG__REQUIRED, &ret->argument, error);
    if (rv < 0)
        return rv;

    rv = tdg__param_string(&argument, "value", TDG__REQUIRED, &ret->value, error);
    if (rv < 0)
        return rv;

    rv = tdg__param_object(&place, "context", TDG__OPTIONAL, &object, error);
    if (rv < 0)
        return rv;
    context.object = object;

    rv = tdg__param_object(&context, "arguments", TDG__OPTIONAL, &known, error);
    if (rv < 0)
        return rv;
    ret->context = known;
    return tdg__param_all_strings(known, "the arguments in context", error);
}
