/* SPDX-License-Identifier: MIT
 *
 * The common part of both eras: looking up methods, reading typed values from objects,
 * and the parameters of the methods that both have. Every error is -32602, with the field
 * in data.detail. */
#ifndef TDG_MCP_REQUEST_PARAMS_H
#define TDG_MCP_REQUEST_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "mcp/request.h"
#include "mcp/rpc.h"

/* ---- Methods ------------------------------------------------------------ */

/* Reads the parameters of one method, `params` or NULL. What is wrong goes to *error, all
 * zero at first; failure is sticky: after the first one nothing else is reported, and
 * values are NULL, false or -1. So a reader reads all, and its caller asks once. */
typedef void (*tdg__params_fn)(json_t *params, tdg__mcp_request_t *ret,
                               tdg__rpc_error_t *error);

enum { TDG__EARLY = 1 << 0 }; /* accepted before initialize */

/* One row of an era's table of requests. */
typedef struct tdg__method_row {
    tdg__method_t method;
    unsigned flags;
    tdg__params_fn read; /* NULL: has no parameters */
} tdg__method_row_t;

/* NULL where the table has no method of this name. */
const tdg__method_row_t *tdg__method_find(const tdg__method_row_t *rows, size_t count,
                                          const char *name);

/* -32601 */
void tdg__method_unknown(const char *name, tdg__rpc_error_t *error);

/* An empty request for this message. */
void tdg__request_init(tdg__mcp_request_t *ret, const tdg__rpc_message_t *message,
                       tdg__version_t version);

/* A notification is never refused, as there is no reply to one. A request's method
 * without an id is ignored. */
void tdg__read_notification(const tdg__rpc_message_t *message, tdg__mcp_request_t *ret);

/* ---- Values ------------------------------------------------------------- */

/* Fills in -32602 with the detail (printf-like; what comes from the client goes last, as
 * too much is cut), unless something has failed before. */
void tdg__param_fail(tdg__rpc_error_t *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Where a value is looked for, and how errors call that place. */
typedef struct tdg__place {
    json_t *object; /* NULL: everything is missing */
    const char *name;
} tdg__place_t;

enum { TDG__OPTIONAL, TDG__REQUIRED };

/* Return the value; NULL (an object: a place without one) where there is none. */
const char *tdg__param_string(const tdg__place_t *place, const char *key, int required,
                              tdg__rpc_error_t *error);
tdg__place_t tdg__param_object(const tdg__place_t *place, const char *key, int required,
                               tdg__rpc_error_t *error);

/* The members of a listen's `notifications`, all optional; others are ignored. */
tdg__listen_filter_t tdg__param_filter(const tdg__place_t *place,
                                       tdg__rpc_error_t *error);

int tdg__param_level(const tdg__place_t *place, const char *key, int required,
                     tdg__rpc_error_t *error); /* -1 where there is none */

/* {"name", "version"}, both required, into client_name and client_version,
 * and with all else that stands there into client_info. */
void tdg__param_client(const tdg__place_t *place, const char *key, int required,
                       tdg__mcp_request_t *ret, tdg__rpc_error_t *error);

/* ---- Parameters --------------------------------------------------------- */

/* `_meta` of params, and its progressToken. */
tdg__place_t tdg__read_meta(json_t *params, tdg__mcp_request_t *ret,
                            tdg__rpc_error_t *error);

void tdg__read_wishes(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error);
void tdg__read_list(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error);
void tdg__read_uri(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error);
void tdg__read_call(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error);
void tdg__read_prompt(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error);
void tdg__read_complete(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error);

#endif
