/* SPDX-License-Identifier: MIT
 *
 * Typed values from the objects of a request. Every error is -32602, with the field in
 * data.detail. Failure is sticky: after the first error no other is reported, and values
 * are NULL or false. So a reader reads everything, and its caller checks the error once,
 * which was all zero at first. */
#ifndef TDG_MCP_REQUEST_PARAMS_H
#define TDG_MCP_REQUEST_PARAMS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "mcp/request.h"
#include "mcp/rpc.h"

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

/* All members of an array or object must be strings; NULL passes. */
void tdg__param_strings(json_t *container, const char *name, tdg__rpc_error_t *error);

/* The members of a listen's `notifications`, all optional; others are ignored. */
tdg__listen_filter_t tdg__param_filter(const tdg__place_t *place,
                                       tdg__rpc_error_t *error);

/* What `_meta` has under "dev.tidings/". (request_wishes.c) */
void tdg__read_wishes(const tdg__place_t *params, tdg__wishes_t *ret,
                      tdg__rpc_error_t *error);

#endif
