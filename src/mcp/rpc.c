/* SPDX-License-Identifier: MIT */
#include "mcp/rpc.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

/* ---- Errors ------------------------------------------------------------- */

void tdg__rpc_error_set(tdg__rpc_error_t *error, int code, json_t *data,
                        const char *format, ...) {
    char text[sizeof(error->message) + 1] = ""; /* what is cut off begins in it */
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    error->code = code;
    error->data = data;
    text[tdg__utf8_cut(text, strnlen(text, sizeof(error->message) - 1))] = '\0';
    strcpy(error->message, text);
}

void tdg__rpc_error_done(tdg__rpc_error_t *error) {
    json_decref(error->data);
    error->data = NULL;
}

static int refuse(tdg__rpc_error_t *error, const char *why) {
    tdg__rpc_error_set(error, TDG__RPC_INVALID_REQUEST, NULL, "Invalid request: %s", why);
    return TDG_EINVAL;
}

/* ---- Reading ------------------------------------------------------------ */

const char *tdg__rpc_id_text(const json_t *id, char *ret) {
    char text[TDG__RPC_MAX_ID + 1], escaped[TDG__JSON_ESCAPE_MAX];
    const char *string = json_string_value(id);
    size_t len = 0, size;

    if (json_is_integer(id)) {
        snprintf(ret, TDG__RPC_MAX_ID + 1, "%" JSON_INTEGER_FORMAT,
                 json_integer_value(id));
        return NULL;
    }
    if (string == NULL)
        return "the id must be a string or a whole number";

    text[len++] = '"';
    for (size_t i = 0; i < json_string_length(id); i++) {
        size = tdg__json_escape(escaped, string[i]);
        if (len + size + 1 > TDG__RPC_MAX_ID)
            return "the id is too long";
        memcpy(text + len, escaped, size);
        len += size;
    }
    text[len++] = '"';
    text[len++] = '\0';
    memcpy(ret, text, len);
    return NULL;
}

/* A request, or a notification where there is no id. */
static const char *read_call(const json_t *value, tdg__rpc_message_t *ret) {
    const json_t *method = json_object_get(value, "method");

    if (!json_is_string(method))
        return "the method must be a string";
    if (json_object_get(value, "result") != NULL ||
        json_object_get(value, "error") != NULL)
        return "a message with a method has neither result nor error";

    ret->kind = ret->id[0] != '\0' ? TDG__RPC_REQUEST : TDG__RPC_NOTIFICATION;
    ret->method = json_string_value(method);
    ret->params = json_object_get(value, "params");
    if (ret->params != NULL && !json_is_object(ret->params))
        return "params must be an object";
    return NULL;
}

static const char *read_response(const json_t *value, tdg__rpc_message_t *ret) {
    bool has_result = json_object_get(value, "result") != NULL;
    bool has_error = json_object_get(value, "error") != NULL;

    if (!has_result && !has_error)
        return "the method is missing";
    if (has_result && has_error)
        return "a response has either a result or an error";
    if (has_result && ret->id[0] == '\0')
        return "a result needs an id";

    ret->kind = TDG__RPC_RESPONSE;
    return NULL;
}

static const char *read_message(const json_t *value, tdg__rpc_message_t *ret) {
    const json_t *id = json_object_get(value, "id");
    const char *version = json_string_value(json_object_get(value, "jsonrpc"));
    const char *why;
    bool is_call = json_object_get(value, "method") != NULL;

    if (!json_is_object(value))
        return "a message must be an object";

    /* An error may be about a request whose id nobody could read. */
    if (id != NULL && !(json_is_null(id) && !is_call)) {
        why = tdg__rpc_id_text(id, ret->id);
        if (why != NULL)
            return why;
    }
    if (version == NULL || strcmp(version, "2.0") != 0)
        return "jsonrpc must be \"2.0\"";
    return is_call ? read_call(value, ret) : read_response(value, ret);
}

int tdg__rpc_read(json_t *value, tdg__rpc_message_t *ret, tdg__rpc_error_t *error) {
    const char *why;

    *ret = (tdg__rpc_message_t){.kind = TDG__RPC_NOTIFICATION};
    why = read_message(value, ret);
    if (why != NULL) {
        ret->method = NULL;
        ret->params = NULL;
        return refuse(error, why);
    }

    ret->root = json_incref(value);
    return 0;
}

void tdg__rpc_message_done(tdg__rpc_message_t *message) {
    json_decref(message->root);
    *message = (tdg__rpc_message_t){.kind = TDG__RPC_NOTIFICATION};
}

/* ---- Writing ------------------------------------------------------------ */

static void put_start(tdg__text_t *text, const char *id) {
    tdg__text_put(text, "{\"jsonrpc\":\"2.0\"");
    if (id != NULL && id[0] != '\0') {
        tdg__text_put(text, ",\"id\":");
        tdg__text_put(text, id);
    }
}

void tdg__rpc_put_result_start(tdg__text_t *text, const char *id) {
    put_start(text, id);
    tdg__text_put(text, ",\"result\":");
}

void tdg__rpc_put_result(tdg__text_t *text, const char *id, const json_t *result) {
    tdg__rpc_put_result_start(text, id);
    tdg__text_put_json(text, result);
    tdg__text_put(text, "}");
}

void tdg__rpc_put_error(tdg__text_t *text, const char *id,
                        const tdg__rpc_error_t *error) {
    put_start(text, id);
    tdg__text_format(text, ",\"error\":{\"code\":%d,\"message\":", error->code);
    tdg__text_put_quoted(text, error->message, strlen(error->message));
    if (error->data != NULL) {
        tdg__text_put(text, ",\"data\":");
        tdg__text_put_json(text, error->data);
    }
    tdg__text_put(text, "}}");
}

void tdg__rpc_put_request(tdg__text_t *text, const char *id, const char *method,
                          const json_t *params) {
    put_start(text, id);
    tdg__text_put(text, ",\"method\":");
    tdg__text_put_quoted(text, method, strlen(method));
    if (params != NULL) {
        tdg__text_put(text, ",\"params\":");
        tdg__text_put_json(text, params);
    }
    tdg__text_put(text, "}");
}

void tdg__rpc_put_notification(tdg__text_t *text, const char *method,
                               const json_t *params) {
    tdg__rpc_put_request(text, NULL, method, params);
}
