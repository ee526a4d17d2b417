/* SPDX-License-Identifier: MIT
 *
 * Headers that a tool requires (x-mcp-header in its input schema): whether the
 * annotations are valid, and the headers of one call. Modern, over HTTP. */
#ifndef TDG_CLIENT_TOOL_HEADERS_H
#define TDG_CLIENT_TOOL_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "web/web.h"

enum {
    TDG__TOOL_MAX_HEADERS = 32, /* that one tool may ask for */
    TDG__TOOL_MAX_NAME = 100,   /* bytes of what stands behind Mcp-Param- */
};

/* Whether a tool's x-mcp-header annotations are valid; else `why` says what is wrong. */
bool tdg__tool_headers_valid(const json_t *tool, char *why, size_t why_size);

bool tdg__tool_has_headers(const json_t *input_schema);

typedef struct tdg__tool_headers {
    tdg__web_field_t fields[TDG__TOOL_MAX_HEADERS]; /* names and values are owned */
    size_t count;
} tdg__tool_headers_t;

/* The headers of a call with these arguments, encoded. `input_schema` is of a tool that
 * is valid. Returns 0, TDG_EINVAL (a whole number beyond 53 bits) or TDG_ENOMEM; then
 * there is nothing to release. */
int tdg__tool_headers(const json_t *input_schema, const json_t *arguments,
                      tdg__tool_headers_t *ret);
void tdg__tool_headers_done(tdg__tool_headers_t *headers);

#endif
