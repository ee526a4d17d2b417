/* SPDX-License-Identifier: MIT
 *
 * HTTP headers that mirror fields of a modern request, so that proxies can route without
 * parsing bodies. A header that differs from the body could bypass the rules of a proxy:
 * it is refused with -32020, and so is a missing one. Errors in the body itself are
 * reported by the reader of the request. */
#include "mcp/request.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/text.h"

enum {
    MAX_SHOWN = 64,   /* bytes of a value in an error message */
    MAX_NESTING = 16, /* of objects in a tool's arguments */
    MAX_HEADER = 128, /* bytes of a header's name */
};

/* ---- Text in headers ---------------------------------------------------- */

static bool is_plain(const char *value) {
    for (; *value != '\0'; value++) {
        if (*value != '\t' && (*value < 0x20 || *value > 0x7e))
            return false;
    }
    return true;
}

static int decode(const char *text, size_t len, char **ret) {
    char *decoded;
    size_t size;
    int rv;

    rv = tdg__base64_decode(text, len, &decoded, &size);
    if (rv < 0)
        return rv;
    if (strlen(decoded) != size || !tdg__utf8_is_valid(decoded, size)) {
        tdg__free(decoded);
        return TDG_EINVAL;
    }

    *ret = decoded;
    return 0;
}

static const char opening[] = "=?base64?", closing[] = "?=";
enum { OPENING_LEN = sizeof(opening) - 1, CLOSING_LEN = sizeof(closing) - 1 };

static bool is_encoded(const char *value, size_t len) {
    return len >= OPENING_LEN + CLOSING_LEN && memcmp(value, opening, OPENING_LEN) == 0 &&
           memcmp(value + len - CLOSING_LEN, closing, CLOSING_LEN) == 0;
}

int tdg__mcp_header_text(const char *value, char **ret) {
    size_t len = strlen(value);

    if (!is_plain(value))
        return TDG_EINVAL;
    if (is_encoded(value, len))
        return decode(value + OPENING_LEN, len - OPENING_LEN - CLOSING_LEN, ret);

    *ret = tdg__strdup(value);
    return *ret != NULL ? 0 : TDG_ENOMEM;
}

/* Spaces at either end would be lost on the way, and so would a header without value. */
char *tdg__mcp_header_value(const char *text) {
    size_t len = strlen(text), size;
    char *encoded, *value;

    if (len > 0 && is_plain(text) && !is_encoded(text, len) &&
        strchr(" \t", text[0]) == NULL && strchr(" \t", text[len - 1]) == NULL)
        return tdg__strdup(text);

    encoded = tdg__base64_encode(text, len);
    if (encoded == NULL)
        return NULL;
    size = OPENING_LEN + strlen(encoded) + CLOSING_LEN + 1;
    value = tdg__malloc(size);
    if (value != NULL)
        snprintf(value, size, "%s%s%s", opening, encoded, closing);
    tdg__free(encoded);
    return value;
}

/* ---- Errors ------------------------------------------------------------- */

/* A value as it stands in a message: cut, and without bytes that could do harm in a log.
 */
static const char *shown(const char *value, char *out) {
    size_t len = 0;

    for (; len < MAX_SHOWN && value[len] != '\0'; len++)
        out[len] = value[len] >= 0x20 && value[len] < 0x7f ? value[len] : '?';
    strcpy(out + len, value[len] != '\0' ? "..." : "");
    return out;
}

static int mismatch(tdg__rpc_error_t *error, const char *header, const char *value,
                    const char *body) {
    char shown_value[MAX_SHOWN + 4], shown_body[MAX_SHOWN + 4];

    if (value == NULL)
        tdg__rpc_error_set(error, TDG__RPC_HEADER_MISMATCH, NULL,
                           "Header mismatch: the %s header is missing", header);
    else if (body == NULL)
        tdg__rpc_error_set(
            error, TDG__RPC_HEADER_MISMATCH, NULL,
            "Header mismatch: the %s header has no counterpart in the body", header);
    else
        tdg__rpc_error_set(
            error, TDG__RPC_HEADER_MISMATCH, NULL,
            "Header mismatch: %s header value '%s' does not match body value '%s'",
            header, shown(value, shown_value), shown(body, shown_body));
    return TDG_EINVAL;
}

/* Why tdg__mcp_header_text() failed. */
static int refuse_text(tdg__rpc_error_t *error, int reason, const char *header) {
    if (reason == TDG_ENOMEM)
        tdg__rpc_error_set(error, TDG__RPC_INTERNAL, NULL, "Out of memory");
    else
        tdg__rpc_error_set(error, TDG__RPC_HEADER_MISMATCH, NULL,
                           "Header mismatch: the %s header has bad base64 or characters",
                           header);
    return TDG_EINVAL;
}

/* ---- Standard headers --------------------------------------------------- */

/* Methods whose Mcp-Name mirrors a field. */
static const struct named {
    tdg__method_t method;
    const char *field;
} named[] = {
    {TDG__M_CALL, "name"},
    {TDG__M_PROMPT, "name"},
    {TDG__M_READ, "uri"},
};

const char *tdg__mcp_name_field(const char *method) {
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
        if (strcmp(method, tdg__method_name(named[i].method)) == 0)
            return named[i].field;
    }
    return NULL;
}

static int check_name(const char *value, const tdg__rpc_message_t *message,
                      const char *field, tdg__rpc_error_t *error) {
    const char *body = json_string_value(json_object_get(message->params, field));
    char *text;
    int rv;

    if (body == NULL)
        return 0;
    if (value == NULL)
        return mismatch(error, "Mcp-Name", NULL, body);

    rv = tdg__mcp_header_text(value, &text);
    if (rv < 0)
        return refuse_text(error, rv, "Mcp-Name");

    rv = strcmp(text, body) == 0 ? 0 : mismatch(error, "Mcp-Name", text, body);
    tdg__free(text);
    return rv;
}

int tdg__mcp_check_headers(const tdg__mcp_headers_t *headers,
                           const tdg__rpc_message_t *message, tdg__rpc_error_t *error) {
    const json_t *meta = json_object_get(message->params, "_meta");
    const char *version = json_string_value(
        json_object_get(meta, "io.modelcontextprotocol/protocolVersion"));
    const char *field = tdg__mcp_name_field(message->method);

    assert(message->kind == TDG__RPC_REQUEST);
    if (headers->protocol_version == NULL ||
        (version != NULL && strcmp(headers->protocol_version, version) != 0))
        return mismatch(error, "MCP-Protocol-Version", headers->protocol_version,
                        version);
    if (headers->method == NULL || strcmp(headers->method, message->method) != 0)
        return mismatch(error, "Mcp-Method", headers->method, message->method);

    return field != NULL ? check_name(headers->name, message, field, error) : 0;
}

/* ---- Headers from the parameters of tools ------------------------------- */

struct params {
    const char *(*find)(void *user, const char *name);
    void *user;
    tdg__rpc_error_t *error;
};

/* "mcp-param-" and the name, in lower case. False where it would be too long, and nobody
 * can send it. */
static bool header_name(const char *name, char *ret) {
    static const char prefix[] = "mcp-param-";
    size_t len = sizeof(prefix) - 1;

    memcpy(ret, prefix, len);
    for (; *name != '\0'; name++) {
        if (len == MAX_HEADER)
            return false;
        ret[len++] = (char)(*name >= 'A' && *name <= 'Z' ? *name - 'A' + 'a' : *name);
    }
    ret[len] = '\0';
    return true;
}

/* Numbers are equal by value: 42 and 42.0. Returns 1, 0 or TDG_ENOMEM; so does the next.
 */
static int equals_number(const char *text, const json_t *value) {
    static const tdg__json_limits_t limits = {.max_bytes = 64, .max_values = 1};
    json_t *number = NULL;
    int rv;

    rv = tdg__json_parse(text, strlen(text), &limits, &number, NULL);
    if (rv < 0)
        return rv == TDG_ENOMEM ? rv : 0;

    if (json_is_integer(number) && json_is_integer(value))
        rv = json_integer_value(number) == json_integer_value(value);
    else
        rv = json_is_number(number) &&
             json_number_value(number) == json_number_value(value);
    json_decref(number);
    return rv;
}

static int equals(const char *text, const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_STRING:
        return strcmp(text, json_string_value(value)) == 0;
    case JSON_TRUE:
        return strcmp(text, "true") == 0;
    case JSON_FALSE:
        return strcmp(text, "false") == 0;
    case JSON_INTEGER:
    case JSON_REAL:
        return equals_number(text, value);
    default:
        return 0; /* no header can mirror an array or object */
    }
}

static int check_param(const struct params *params, const char *name,
                       const json_t *value) {
    char header[MAX_HEADER + 1];
    const char *sent;
    char *text;
    int rv;

    if (!header_name(name, header))
        return 0;

    sent = params->find(params->user, header);
    if (value == NULL || json_is_null(value))
        return sent == NULL ? 0 : mismatch(params->error, header, sent, NULL);
    if (sent == NULL)
        return mismatch(params->error, header, NULL, NULL);

    rv = tdg__mcp_header_text(sent, &text);
    if (rv < 0)
        return refuse_text(params->error, rv, header);

    rv = equals(text, value);
    if (rv < 0)
        refuse_text(params->error, rv, header);
    else if (rv == 0)
        mismatch(params->error, header, text,
                 json_is_string(value) ? json_string_value(value) : "another value");
    tdg__free(text);
    return rv == 1 ? 0 : TDG_EINVAL;
}

/* jansson's iteration wants what it does not change as if it would. */
static json_t *iterable(const json_t *json) {
    return (json_t *)(uintptr_t)json;
}

static int check_properties(const struct params *params, const json_t *schema,
                            const json_t *arguments, int depth) {
    const json_t *property, *value;
    const char *key, *name;
    int rv = 0;

    if (depth > MAX_NESTING)
        return 0;

    json_object_foreach(iterable(json_object_get(schema, "properties")), key, property) {
        name = json_string_value(json_object_get(property, "x-mcp-header"));
        value = json_object_get(arguments, key);
        if (name != NULL)
            rv = check_param(params, name, value);
        else
            rv = check_properties(params, property, value, depth + 1);
        if (rv < 0)
            return rv;
    }
    return 0;
}

int tdg__mcp_check_param_headers(const json_t *input_schema, const json_t *arguments,
                                 const char *(*find)(void *user, const char *name),
                                 void *user, tdg__rpc_error_t *error) {
    const struct params params = {find, user, error};

    return check_properties(&params, input_schema, arguments, 0);
}
