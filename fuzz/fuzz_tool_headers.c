/* SPDX-License-Identifier: MIT
 *
 * Input: a tool as a server lists it, with the arguments of a call as its member
 * "arguments". Where its x-mcp-header annotations are valid, the headers of the call can
 * be sent, and our own server finds that they mirror the arguments. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <tidings/error.h>

#include "base/json.h"
#include "client/session/tool_headers.h"
#include "fuzz.h"
#include "mcp/request.h"

static const tdg__json_limits_t limits = {
    .max_bytes = 4096, .max_depth = 32, .max_values = 1000};

static const char *find_header(void *user, const char *name) {
    const tdg__tool_headers_t *headers = user;

    for (size_t i = 0; i < headers->count; i++)
        if (strcasecmp(headers->fields[i].name, name) == 0)
            return headers->fields[i].value;
    return NULL;
}

/* Neither name nor value ends its line, or begins another. */
static void check_field(const tdg__web_field_t *field) {
    require(strncmp(field->name, "Mcp-Param-", 10) == 0 && field->name[10] != '\0');
    for (const char *c = field->name; *c != '\0'; c++)
        require(*c > ' ' && *c < 0x7f && *c != ':');
    for (const char *c = field->value; *c != '\0'; c++)
        require((*c >= ' ' && *c < 0x7f) || *c == '\t');
}

static void check_call(const json_t *schema, size_t most, const json_t *arguments) {
    tdg__tool_headers_t headers;
    tdg__rpc_error_t error = {0};

    int rv = tdg__tool_headers(schema, arguments, &headers);
    if (rv < 0) {
        require(rv == TDG_EINVAL);
        return;
    }
    require(headers.count <= most && most <= TDG__TOOL_MAX_HEADERS);
    for (size_t i = 0; i < headers.count; i++)
        check_field(&headers.fields[i]);
    if (tdg__mcp_check_param_headers(schema, arguments, find_header, &headers, &error) <
        0) {
        /* A list or object has no header, which the server is right to refuse. */
        require(error.code == TDG__RPC_HEADER_MISMATCH);
        require(strstr(error.message, "does not match") == NULL);
        tdg__rpc_error_done(&error);
    }
    tdg__tool_headers_done(&headers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char why[200] = "";
    json_t *tool = NULL;
    int count;

    if (tdg__json_parse((const char *)data, size, &limits, &tool, NULL) < 0)
        return 0;
    count = tdg__tool_headers_check(tool, why, sizeof(why));
    if (count >= 0)
        check_call(json_object_get(tool, "inputSchema"), (size_t)count,
                   json_object_get(tool, "arguments"));
    else
        require(why[0] != '\0');
    json_decref(tool);
    return 0;
}
