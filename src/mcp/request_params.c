/* SPDX-License-Identifier: MIT */
#include "mcp/request_params.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

void tdg__method_unknown(const char *name, tdg__rpc_error_t *error) {
    tdg__rpc_error_set(error, TDG__RPC_METHOD_NOT_FOUND, NULL, "Method not found: %s",
                       name);
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

void tdg__param_fail(tdg__rpc_error_t *error, const char *format, ...) {
    static const char prefix[] = "Invalid params: ";
    char detail[sizeof(error->message)];
    va_list args;

    if (error->code != 0)
        return;
    va_start(args, format);
    vsnprintf(detail, sizeof(detail), format, args);
    va_end(args);

    /* The message is cut at a character; so is the detail when it is taken from there. */
    tdg__rpc_error_set(error, TDG__RPC_INVALID_PARAMS, NULL, "%s%s", prefix, detail);
    error->data = json_pack("{s:s}", "detail", error->message + sizeof(prefix) - 1);
}

/* null is a value: not missing, but of the wrong type wherever one is expected. */
static json_t *find_value(const tdg__place_t *place, const char *key, int required,
                          tdg__rpc_error_t *error) {
    json_t *value = json_object_get(place->object, key);

    if (value == NULL && required == TDG__REQUIRED) {
        if (strcmp(place->name, "params") == 0)
            tdg__param_fail(error, "Missing %s parameter", key);
        else
            tdg__param_fail(error, "%s is missing in %s", key, place->name);
    }
    return error->code == 0 ? value : NULL;
}

static void mistyped(const tdg__place_t *place, const char *key, const char *expected,
                     tdg__rpc_error_t *error) {
    tdg__param_fail(error, "%s in %s must be %s", key, place->name, expected);
}

const char *tdg__param_string(const tdg__place_t *place, const char *key, int required,
                              tdg__rpc_error_t *error) {
    const json_t *value = find_value(place, key, required, error);

    if (value != NULL && !json_is_string(value))
        mistyped(place, key, "a string", error);
    return json_string_value(value);
}

tdg__place_t tdg__param_object(const tdg__place_t *place, const char *key, int required,
                               tdg__rpc_error_t *error) {
    json_t *value = find_value(place, key, required, error);

    if (value != NULL && !json_is_object(value))
        mistyped(place, key, "an object", error);
    return (tdg__place_t){json_is_object(value) ? value : NULL, key};
}

static bool param_bool(const tdg__place_t *place, const char *key,
                       tdg__rpc_error_t *error) {
    const json_t *value = json_object_get(place->object, key);

    if (value != NULL && !json_is_boolean(value))
        mistyped(place, key, "true or false", error);
    return json_is_true(value);
}

/* An array or object all of whose members must be strings; NULL passes. */
static void check_strings(json_t *container, const char *name, tdg__rpc_error_t *error) {
    const char *key;
    const json_t *item;
    size_t i;

    json_array_foreach(container, i, item) {
        if (!json_is_string(item))
            tdg__param_fail(error, "%s must be an array of strings", name);
    }
    json_object_foreach(container, key, item) {
        if (!json_is_string(item))
            tdg__param_fail(error, "%s must be strings: %s", name, key);
    }
}

tdg__listen_filter_t tdg__param_filter(const tdg__place_t *place,
                                       tdg__rpc_error_t *error) {
    static const char key[] = "resourceSubscriptions";
    json_t *uris = json_object_get(place->object, key);
    tdg__listen_filter_t filter = {
        .tools = param_bool(place, "toolsListChanged", error),
        .prompts = param_bool(place, "promptsListChanged", error),
        .resources = param_bool(place, "resourcesListChanged", error),
        .uris = uris,
    };

    if (uris != NULL && !json_is_array(uris))
        tdg__param_fail(error, "%s must be an array of strings", key);
    check_strings(uris, key, error);
    return filter;
}

int tdg__param_level(const tdg__place_t *place, const char *key, int required,
                     tdg__rpc_error_t *error) {
    const char *name = tdg__param_string(place, key, required, error);
    int level = name != NULL ? tdg__log_level_from_name(name) : -1;

    if (name != NULL && level < 0)
        tdg__param_fail(error, "%s in %s is not a log level: %s", key, place->name, name);
    return level;
}

void tdg__param_client(const tdg__place_t *place, const char *key, int required,
                       tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t client = tdg__param_object(place, key, required, error);

    if (client.object == NULL)
        return;
    ret->client_name = tdg__param_string(&client, "name", TDG__REQUIRED, error);
    ret->client_version = tdg__param_string(&client, "version", TDG__REQUIRED, error);
    ret->client_info = client.object;
}

/* ---- Parameters --------------------------------------------------------- */

tdg__place_t tdg__read_meta(json_t *params, tdg__mcp_request_t *ret,
                            tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};
    const tdg__place_t meta = tdg__param_object(&place, "_meta", TDG__OPTIONAL, error);
    const json_t *token = json_object_get(meta.object, "progressToken");

    if (token != NULL && !json_is_string(token) && !json_is_integer(token))
        tdg__param_fail(error, "progressToken in _meta must be a string or a "
                               "whole number");
    ret->progress_token = token;
    return meta;
}

void tdg__read_list(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};

    ret->page = tdg__param_string(&place, "cursor", TDG__OPTIONAL, error);
}

void tdg__read_uri(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};

    ret->uri = tdg__param_string(&place, "uri", TDG__REQUIRED, error);
}

void tdg__read_call(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};

    ret->name = tdg__param_string(&place, "name", TDG__REQUIRED, error);
    ret->arguments = tdg__param_object(&place, "arguments", TDG__OPTIONAL, error).object;
}

void tdg__read_prompt(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    tdg__read_call(params, ret, error);
    check_strings(json_object_get(params, "arguments"), "the arguments of a prompt",
                  error);
}

static void read_ref(const tdg__place_t *place, tdg__mcp_request_t *ret,
                     tdg__rpc_error_t *error) {
    const tdg__place_t ref = tdg__param_object(place, "ref", TDG__REQUIRED, error);
    const char *type = tdg__param_string(&ref, "type", TDG__REQUIRED, error);

    if (type == NULL)
        return;
    ret->ref_is_prompt = strcmp(type, "ref/prompt") == 0;
    if (!ret->ref_is_prompt && strcmp(type, "ref/resource") != 0)
        tdg__param_fail(error, "type in ref must be ref/prompt or ref/resource, not %s",
                        type);
    ret->ref = tdg__param_string(&ref, ret->ref_is_prompt ? "name" : "uri", TDG__REQUIRED,
                                 error);
}

void tdg__read_complete(json_t *params, tdg__mcp_request_t *ret,
                        tdg__rpc_error_t *error) {
    const tdg__place_t place = {params, "params"};

    read_ref(&place, ret, error);
    const tdg__place_t argument =
        tdg__param_object(&place, "argument", TDG__REQUIRED, error);
    ret->argument = tdg__param_string(&argument, "name", TDG__REQUIRED, error);
    ret->value = tdg__param_string(&argument, "value", TDG__REQUIRED, error);
    const tdg__place_t context =
        tdg__param_object(&place, "context", TDG__OPTIONAL, error);
    json_t *known = tdg__param_object(&context, "arguments", TDG__OPTIONAL, error).object;
    check_strings(known, "the arguments in context", error);
    ret->context = known;
}
