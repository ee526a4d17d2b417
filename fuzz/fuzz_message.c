/* SPDX-License-Identifier: MIT
 *
 * Input: a JSON-RPC message from a client. It is read in both eras; what is taken is
 * within its bounds, what is refused gets an answer that is itself good JSON. Headers
 * that mirror the message are taken. For the headers of tools, params.inputSchema stands
 * for the schema and params.headers for what was sent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "fuzz.h"
#include "mcp/request.h"

static const tdg__json_limits_t limits = {
    .max_bytes = 4096, .max_depth = 32, .max_values = 1000};

/* The answer is one line of JSON with the id, code and message that belong in it. */
static void check_answer(const char *id, tdg__rpc_error_t *error) {
    tdg__text_t text;
    json_t *json = NULL, *expected;

    require(strlen(error->message) > 0);
    tdg__text_init(&text, 1 << 16);
    tdg__rpc_put_error(&text, id, error);
    require(text.error == 0 && strchr(text.data, '\n') == NULL);
    require(tdg__json_parse(text.data, text.len, &limits, &json, NULL) == 0 ||
            text.len > limits.max_bytes);
    if (json != NULL) {
        expected = json_loads(id, JSON_DECODE_ANY, NULL);
        require(json_equal(json_object_get(json, "id"), expected) == 1 ||
                (id[0] == '\0' && json_object_get(json, "id") == NULL));
        json_decref(expected);
    }
    json_decref(json);
    tdg__text_done(&text);
    tdg__rpc_error_done(error);
    *error = (tdg__rpc_error_t){0};
}

static void check_wishes(const tdg__wishes_t *wishes) {
    const int64_t times[] = {wishes->batch_ms, wishes->debounce_ms, wishes->throttle_ms,
                             wishes->rate_limit_ms};

    for (size_t i = 0; i < 4; i++)
        require(times[i] >= -1 && times[i] <= 86400000);
    require((times[0] >= 0) + (times[1] >= 0) + (times[2] >= 0) <= 1);
    require(wishes->since_ms >= 0 && wishes->since_ms <= 86400000);
    require(wishes->priority >= -1 && wishes->priority <= 1);
    require(wishes->cursor == NULL || strlen(wishes->cursor) <= 64);
    require(wishes->filter == NULL || json_is_object(wishes->filter));
}

static void check_request(const tdg__rpc_message_t *message,
                          const tdg__mcp_request_t *request) {
    const char *name = tdg__method_name(request->method);
    size_t i;
    const json_t *uri;

    require(request->id == message->id);
    require((message->kind == TDG__RPC_NOTIFICATION) == (request->id[0] == '\0'));
    require(request->method > TDG__M_NONE && request->method < TDG__M_COUNT);
    require(name == NULL ? request->method == TDG__M_OTHER_NOTIFICATION
                         : strcmp(name, message->method) == 0);
    require(request->log_level >= -1 && request->log_level <= 7);
    require(request->level >= -1 && request->level <= 7);
    require(request->cancels == NULL || strlen(request->cancels) <= TDG__RPC_MAX_ID);
    require(request->arguments == NULL || json_is_object(request->arguments));
    json_array_foreach(request->listen.uris, i, uri) require(json_is_string(uri));
    check_wishes(&request->wishes);
}

/* Reads the message once; version UNKNOWN + COUNT is modern. */
static void read_as(const tdg__rpc_message_t *message, bool modern, int version) {
    static const int codes[] = {TDG__RPC_METHOD_NOT_FOUND, TDG__RPC_INVALID_PARAMS,
                                TDG__RPC_UNSUPPORTED_VERSION, TDG__RPC_NOT_INITIALISED};
    tdg__mcp_request_t request;
    tdg__rpc_error_t error = {0};
    bool known = false;
    int rv;

    rv = modern
             ? tdg__mcp_read_modern(message, version % 2 == 0, &request, &error)
             : tdg__mcp_read_legacy(message, (tdg__version_t)version, &request, &error);
    if (rv == 0) {
        check_request(message, &request);
        return;
    }

    require(rv == TDG_EINVAL && message->kind == TDG__RPC_REQUEST);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        known = known || error.code == codes[i];
    require(known && (!modern || error.code != TDG__RPC_NOT_INITIALISED));
    check_answer(message->id, &error);
}

/* Headers as a client writes them that does it right. */
static void check_mirrored(const tdg__rpc_message_t *message) {
    const json_t *meta = json_object_get(message->params, "_meta");
    const char *field = strcmp(message->method, "resources/read") == 0 ? "uri" : "name";
    const char *name = json_string_value(json_object_get(message->params, field));
    const char *version = json_string_value(
        json_object_get(meta, "io.modelcontextprotocol/protocolVersion"));
    tdg__mcp_headers_t headers = {version != NULL ? version : "x", message->method, NULL};
    tdg__rpc_error_t error = {0};
    char *encoded, *header = NULL;

    if (name != NULL) {
        encoded = tdg__base64_encode(name, strlen(name));
        require(encoded != NULL && asprintf(&header, "=?base64?%s?=", encoded) > 0);
        tdg__free(encoded);
    }
    headers.name = header;
    require(tdg__mcp_check_headers(&headers, message, &error) == 0);

    headers.name = name;
    if (tdg__mcp_check_headers(&headers, message, &error) < 0)
        check_answer(message->id, &error);
    headers.name = NULL;
    if (tdg__mcp_check_headers(&headers, message, &error) < 0)
        check_answer(message->id, &error);
    free(header);
}

static const char *find_header(void *user, const char *name) {
    return json_string_value(json_object_get(user, name));
}

static void check_param_headers(const tdg__rpc_message_t *message) {
    tdg__rpc_error_t error = {0};

    if (tdg__mcp_check_param_headers(
            json_object_get(message->params, "inputSchema"),
            json_object_get(message->params, "arguments"), find_header,
            json_object_get(message->params, "headers"), &error) < 0) {
        require(error.code == TDG__RPC_HEADER_MISMATCH);
        check_answer(message->id, &error);
    }
}

static void check_message(const tdg__rpc_message_t *message) {
    if (message->kind == TDG__RPC_RESPONSE) {
        require(message->method == NULL && !tdg__mcp_is_modern(message));
        return;
    }

    for (int v = TDG__V_UNKNOWN; v <= TDG__V_LATEST_LEGACY; v++)
        read_as(message, false, v);
    read_as(message, true, 0);
    read_as(message, true, 1);
    tdg__mcp_is_modern(message);
    if (message->kind == TDG__RPC_REQUEST)
        check_mirrored(message);
    check_param_headers(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdg__rpc_error_t error = {0};
    tdg__rpc_message_t message;
    json_t *json = NULL;

    if (tdg__json_parse((const char *)data, size, &limits, &json, NULL) < 0)
        return 0;

    if (tdg__rpc_read(json, &message, &error) == 0) {
        check_message(&message);
    } else {
        require(error.code == TDG__RPC_INVALID_REQUEST);
        check_answer(message.id, &error);
    }
    tdg__rpc_message_done(&message);
    json_decref(json);
    return 0;
}
