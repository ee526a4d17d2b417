/* SPDX-License-Identifier: MIT */
#include "mcp/result.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#define SERVER_INFO "io.modelcontextprotocol/serverInfo"

/* ---- Server info and capabilities --------------------------------------- */

/* Adds a text to an object that was just made; NULL is left out. Returns the object, or
 * frees it and returns NULL. (jansson's "s*" also leaves out what there is no memory
 * for.) */
static json_t *with_text(json_t *object, const char *key, const char *text) {
    if (text != NULL && json_object_set_new(object, key, json_string(text)) < 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *implementation(const tdg__server_info_t *info, bool with_title) {
    json_t *object =
        json_pack("{s:s, s:s}", "name", info->name, "version", info->version);

    return with_text(object, "title", with_title ? info->title : NULL);
}

json_t *tdg__result_server_info(const tdg__server_info_t *info) {
    return implementation(info, true);
}

/* The capabilities that a version advertises: one row each. */
enum {
    LIST_CHANGED = 1 << 0, /* may have "listChanged" */
    SUBSCRIBE = 1 << 1,    /* may have "subscribe" */
};

static json_t *capability(const tdg__server_info_t *info, unsigned parts) {
    json_t *object = json_object();
    int rv = object != NULL ? 0 : -1;

    if (rv == 0 && (parts & SUBSCRIBE) != 0 && info->subscribe)
        rv = json_object_set_new(object, "subscribe", json_true());
    if (rv == 0 && (parts & LIST_CHANGED) != 0 && info->list_changed)
        rv = json_object_set_new(object, "listChanged", json_true());
    if (rv < 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *capabilities(const tdg__server_info_t *info, tdg__version_t version) {
    const struct {
        const char *name;
        bool there;
        unsigned parts;
        tdg__version_t since;
    } rows[] = {
        {"resources", info->resources, LIST_CHANGED | SUBSCRIBE, TDG__V2024_11_05},
        {"tools", info->tools, LIST_CHANGED, TDG__V2024_11_05},
        {"prompts", info->prompts, LIST_CHANGED, TDG__V2024_11_05},
        {"logging", info->logging, 0, TDG__V2024_11_05},
        {"completions", info->completions, 0, TDG__V2025_03_26},
    };
    json_t *all = json_object();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!rows[i].there || version < rows[i].since)
            continue;
        if (json_object_set_new(all, rows[i].name, capability(info, rows[i].parts)) < 0) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

/* ---- initialize and server/discover ------------------------------------- */

tdg__version_t tdg__negotiate(const char *requested) {
    tdg__version_t version = tdg__version_from_text(requested);

    if (version == TDG__V_UNKNOWN || tdg__version_modern(version))
        return TDG__V_LATEST_LEGACY;
    return version;
}

json_t *tdg__result_initialize(const tdg__server_info_t *info, tdg__version_t version,
                               uint32_t keepalive_ms) {
    json_t *can = capabilities(info, version);
    json_t *who = implementation(info, version >= TDG__V2025_06_18);
    json_t *meta = keepalive_ms > 0 ? json_pack("{s:I}", "dev.tidings/keepAliveMs",
                                                (json_int_t)keepalive_ms)
                                    : NULL;

    if (can == NULL || who == NULL || (keepalive_ms > 0 && meta == NULL)) {
        json_decref(can);
        json_decref(who);
        json_decref(meta);
        return NULL;
    }
    return with_text(json_pack("{s:s, s:o, s:o, s:o*}", "protocolVersion",
                               tdg__version_text(version), "capabilities", can,
                               "serverInfo", who, "_meta", meta),
                     "instructions", info->instructions);
}

json_t *tdg__result_discover(const tdg__server_info_t *info) {
    json_t *versions = tdg__versions_list(info->legacy, info->modern);
    json_t *can = capabilities(info, TDG__V_MODERN);

    return with_text(
        json_pack("{s:o, s:o}", "supportedVersions", versions, "capabilities", can),
        "instructions", info->instructions);
}

/* ---- Fields of every result --------------------------------------------- */

static const bool cacheable[TDG__M_COUNT] = {
    [TDG__M_DISCOVER] = true,  [TDG__M_TOOLS] = true,     [TDG__M_PROMPTS] = true,
    [TDG__M_RESOURCES] = true, [TDG__M_TEMPLATES] = true, [TDG__M_READ] = true,
};

/* Sets a field unless it is there. `value` is stolen. */
static int set_default(json_t *object, const char *key, json_t *value) {
    if (json_object_get(object, key) != NULL) {
        json_decref(value);
        return 0;
    }
    return json_object_set_new(object, key, value) < 0 ? TDG_ENOMEM : 0;
}

/* A copy of `_meta` is extended, because the application may still use the original. */
static int add_server_info(json_t *result, json_t *server_info) {
    json_t *meta = json_object_get(result, "_meta");
    json_t *copy = json_is_object(meta) ? json_copy(meta) : json_object();

    /* jansson leaves out of a copy what there is no memory for. */
    if (json_object_size(copy) != json_object_size(meta) ||
        set_default(copy, SERVER_INFO, json_incref(server_info)) < 0) {
        json_decref(copy);
        return TDG_ENOMEM;
    }
    return json_object_set_new(result, "_meta", copy) < 0 ? TDG_ENOMEM : 0;
}

static bool is_complete(const json_t *result) {
    const char *type = json_string_value(json_object_get(result, "resultType"));

    return type != NULL && strcmp(type, "complete") == 0;
}

int tdg__result_finish(json_t *result, tdg__method_t method, tdg__version_t version,
                       const tdg__caching_t *caching, json_t *server_info) {
    static const tdg__caching_t careful = {.ttl_ms = 0, .private_scope = true};
    int rv;

    assert(json_is_object(result));
    if (!tdg__version_modern(version))
        return 0;

    rv = set_default(result, "resultType", json_string("complete"));
    if (rv == 0 && server_info != NULL)
        rv = add_server_info(result, server_info);
    if (rv < 0 || !cacheable[method] || !is_complete(result))
        return rv;

    if (caching == NULL)
        caching = &careful;
    rv = set_default(result, "ttlMs", json_integer(caching->ttl_ms));
    if (rv < 0)
        return rv;
    return set_default(result, "cacheScope",
                       json_string(caching->private_scope ? "private" : "public"));
}

/* ---- Errors ------------------------------------------------------------- */

/* Of an error: its codes, its message, and more where there is some. The modern codes are
 * never in -32000 … -32019, which that revision keeps for others; of the last four, which
 * that era cannot meet, it has the nearest general code. */
static const struct {
    int legacy, modern;
    int erlmcp; /* of legacy requests only: a modern one means another thing by -32022;
                   0: as the era has it */
    const char *message;
    const char *reason; /* of a URI that a listen leaves out */
    bool in_data;       /* it is the "error_type" of an error's data, too */
} faults[TDG__FAULT_COUNT] = {
    [TDG__FAULT_NOT_FOUND] = {TDG__RPC_NOT_FOUND, TDG__RPC_INVALID_PARAMS,
                              TDG__RPC_ERLMCP_NOT_FOUND, "Resource not found",
                              "not_found", false},
    [TDG__FAULT_INVALID_URI] = {TDG__RPC_INVALID_PARAMS, TDG__RPC_INVALID_PARAMS,
                                TDG__RPC_ERLMCP_INVALID_URI, "Invalid URI",
                                "invalid_uri_format", true},
    [TDG__FAULT_NOT_SUBSCRIBABLE] = {TDG__RPC_INVALID_PARAMS, TDG__RPC_INVALID_PARAMS, 0,
                                     "Resource not subscribable", "not_subscribable",
                                     true},
    [TDG__FAULT_NOT_SUBSCRIBED] = {TDG__RPC_SUBSCRIPTION_FAILED, TDG__RPC_INVALID_PARAMS,
                                   0, "Subscription not found", NULL, false},
    [TDG__FAULT_SUBSCRIBE_FAILED] = {TDG__RPC_SUBSCRIPTION_FAILED, TDG__RPC_INTERNAL, 0,
                                     "Subscription failed", "subscription_failed", false},
    [TDG__FAULT_SUBSCRIPTIONS_OFF] = {TDG__RPC_SUBSCRIPTIONS_OFF,
                                      TDG__RPC_METHOD_NOT_FOUND, 0,
                                      "Subscriptions are not supported", NULL, false},
    [TDG__FAULT_NOT_INITIALISED] = {TDG__RPC_NOT_INITIALISED, TDG__RPC_INVALID_REQUEST, 0,
                                    "Not initialized", NULL, false},
};

const char *tdg__fault_reason(tdg__fault_t fault) {
    assert(faults[fault].reason != NULL);
    return faults[fault].reason;
}

void tdg__fault_set(tdg__rpc_error_t *error, tdg__fault_t fault, tdg__version_t version,
                    bool erlmcp, const char *uri, const char *detail) {
    int code = tdg__version_modern(version)          ? faults[fault].modern
               : erlmcp && faults[fault].erlmcp != 0 ? faults[fault].erlmcp
                                                     : faults[fault].legacy;
    json_t *data = NULL;

    if (fault != TDG__FAULT_SUBSCRIBE_FAILED)
        detail = NULL;
    if (faults[fault].in_data || uri != NULL || detail != NULL) {
        data = with_text(json_object(), "error_type",
                         faults[fault].in_data ? faults[fault].reason : NULL);
        data = with_text(data, "uri", uri);
        data = with_text(data, "detail", detail);
    }
    tdg__rpc_error_set(error, code, data, "%s", faults[fault].message);
}

void tdg__error_to_erlmcp(tdg__rpc_error_t *error) {
    if (error->code == TDG__RPC_INVALID_PARAMS &&
        json_object_get(error->data, "detail") != NULL)
        snprintf(error->message, sizeof(error->message), "Invalid params");
}
