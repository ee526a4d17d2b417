/* SPDX-License-Identifier: MIT */
#include "mcp/request_params.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

void tdg__param_strings(json_t *container, const char *name, tdg__rpc_error_t *error) {
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
    tdg__param_strings(uris, key, error);
    return filter;
}
