/* SPDX-License-Identifier: MIT
 *
 * Failures as in the public header. They contain texts from servers: control characters
 * are replaced, and long texts are cut at a character. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "client/session/core_internal.h"

static void make_clean(char *text) {
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = '?';
    }
    for (int cut = 0; cut < 4 && len > 0 && !tdg__utf8_is_valid(text, len); cut++)
        text[--len] = '\0';
}

const tdg_failure_t *tdg__failure_set(tdg_failure_t *failure, int code,
                                      const char *format, ...) {
    va_list args;

    *failure = (tdg_failure_t){.code = code};
    va_start(args, format);
    (void)vsnprintf(failure->message, sizeof(failure->message), format, args);
    va_end(args);
    make_clean(failure->message);
    return failure;
}

bool tdg__failure_barred(const tdg_failure_t *failure) {
    return failure != NULL &&
           (failure->http_status == 401 || failure->http_status == 403);
}

/* ---- Reasons of refused subscriptions ----------------------------------- */

/* What a server of ours says why a resource is not for subscribing: in `error_type` of a
 * legacy error, or in dev.tidings/refused of an acknowledgement. */
static const struct reason {
    const char *name;
    int code;
    bool passing; /* it may work later */
    const char *message;
} reasons[] = {
    {"invalid_uri_format", TDG_EURI, false, "the server rejects the URI as invalid"},
    {"not_subscribable", TDG_ENOTSUP, false, "the resource is not subscribable"},
    {"not_found", TDG_ENOTFOUND, false, "the server has no such resource"},
    {"subscription_failed", TDG_EREFUSED, true,
     "the server could not create the subscription"},
};

static const struct reason *find_reason(const char *name) {
    for (size_t i = 0; name != NULL && i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (strcmp(reasons[i].name, name) == 0)
            return &reasons[i];
    }
    return NULL;
}

bool tdg__failure_left_out(tdg_failure_t *failure, const char *reason) {
    const struct reason *known = find_reason(reason);

    if (known != NULL)
        tdg__failure_set(failure, known->code, "%s", known->message);
    else
        tdg__failure_set(failure, TDG_EREFUSED, "the server did not acknowledge it");
    return known != NULL && known->passing;
}

/* ---- Errors of JSON-RPC ------------------------------------------------- */

/* A row holds for methods that begin like this; "": all. */
static const struct meaning {
    int rpc_code;
    const char *method;
    bool names_uri; /* only where data.uri, and nothing else, says what is missing */
    int code;
} meanings[] = {
    {TDG__RPC_METHOD_NOT_FOUND, "", false, TDG_ENOTSUP},
    {TDG__RPC_NOT_FOUND, "", false, TDG_ENOTFOUND},
    {TDG__RPC_INVALID_PARAMS, "resources/", true, TDG_ENOTFOUND}, /* modern */
    {TDG__RPC_ERLMCP_NOT_FOUND, "resources/", true, TDG_ENOTFOUND},
    {TDG__RPC_SUBSCRIPTIONS_OFF, "resources/", false, TDG_ENOTSUP},
};

/* Not with an error_type or a detail: then it is another thing that is wrong with it. */
static bool names_uri(const json_t *data) {
    return json_is_string(json_object_get(data, "uri")) && json_object_size(data) == 1;
}

static int meaning_of(int rpc_code, const char *method, const json_t *data) {
    const char *type = json_string_value(json_object_get(data, "error_type"));
    const struct reason *reason =
        strncmp(method, "resources/", 10) == 0 ? find_reason(type) : NULL;

    if (reason != NULL)
        return reason->code;
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        const struct meaning *m = &meanings[i];

        if (m->rpc_code == rpc_code &&
            strncmp(method, m->method, strlen(m->method)) == 0 &&
            (!m->names_uri || names_uri(data)))
            return m->code;
    }
    return TDG_EREFUSED;
}

void tdg__failure_rpc(tdg_failure_t *failure, const char *method, const json_t *error) {
    const char *message = json_string_value(json_object_get(error, "message"));
    json_int_t rpc_code = json_integer_value(json_object_get(error, "code"));
    json_t *data = json_object_get(error, "data");

    /* 0 would say that there was no error; beyond 32 bits it is nobody's. */
    if (rpc_code == 0 || rpc_code < INT32_MIN || rpc_code > INT32_MAX)
        rpc_code = TDG__RPC_INTERNAL;
    tdg__failure_set(failure, meaning_of((int)rpc_code, method, data),
                     "%s: the server answered with error %d: %s", method, (int)rpc_code,
                     message != NULL ? message : "");
    failure->rpc_code = (int)rpc_code;
    failure->data = data;
}
