/* SPDX-License-Identifier: MIT
 *
 * Headers that a tool requires (x-mcp-header in its input schema): whether the
 * annotations are valid, and the headers of one call. Modern, over HTTP. */
#ifndef TDG_CLIENT_TOOL_HEADERS_H
#define TDG_CLIENT_TOOL_HEADERS_H

#include <stddef.h>

#include <jansson.h>

#include "web/web.h"

enum {
    TDG__TOOL_MAX_HEADERS = 32, /* that one tool may ask for */
    TDG__TOOL_MAX_NAME = 100,   /* bytes of what stands behind Mcp-Param- */
};

/* How many headers a tool asks for (x-mcp-header), or TDG_EINVAL: `why` says what is
 * wrong with one. */
int tdg__tool_headers_check(const json_t *tool, char *why, size_t why_size);

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
