/* SPDX-License-Identifier: MIT
 *
 * Results that the protocol itself defines, and what each era adds to every result. */
#ifndef TDG_MCP_RESULT_H
#define TDG_MCP_RESULT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "mcp/request.h"
#include "mcp/version.h"

typedef struct tdg__server_info {
    const char *name, *version;
    const char *title, *instructions; /* may be NULL */
    bool legacy, modern;              /* eras that are spoken */
    bool subscribe, list_changed, logging, completions;
    bool tools, prompts, resources; /* what is offered, now or later */
} tdg__server_info_t;

/* {"name", "version", "title"?}; new, NULL when memory is out. So are the others. Texts
 * must be UTF-8. */
json_t *tdg__result_server_info(const tdg__server_info_t *info);

/* The version that answers an initialize: the one asked for where it is a legacy one that
 * we speak, else our latest legacy one. `requested` may be NULL. */
tdg__version_t tdg__negotiate(const char *requested);

/* The result of initialize, as the negotiated version knows it (completions since
 * 2025-03-26; title since 2025-06-18). `keepalive_ms` is that of the session's streams;
 * 0: its transport has no signs of life. */
json_t *tdg__result_initialize(const tdg__server_info_t *info, tdg__version_t version,
                               uint32_t keepalive_ms);

/* The result of server/discover, before tdg__result_finish(). Lists every version that is
 * spoken, latest first, as -32022 does. */
json_t *tdg__result_discover(const tdg__server_info_t *info);

typedef struct tdg__caching {
    uint32_t ttl_ms;
    bool private_scope;
} tdg__caching_t;

/* Adds what the era demands: for modern ones `resultType` "complete" (unless the result
 * has one), serverInfo in `_meta`, and for complete results of the cacheable methods
 * ttlMs and cacheScope unless they are there. `caching` NULL: not fresh, private. Legacy
 * results stay as they are. `result` is modified, so nobody else may look at it; its
 * `_meta` is replaced, not modified. `server_info` may be NULL; a reference is taken, and
 * it must not change from then on. Returns 0 or TDG_ENOMEM. */
int tdg__result_finish(json_t *result, tdg__method_t method, tdg__version_t version,
                       const tdg__caching_t *caching, json_t *server_info);

/* Errors whose code or data differ by era and dialect. */
typedef enum tdg__fault {
    TDG__FAULT_NOT_FOUND,        /* resource; data {"uri"} */
    TDG__FAULT_INVALID_URI,      /* data {"error_type", "uri"} */
    TDG__FAULT_NOT_SUBSCRIBABLE, /* data {"error_type", "uri"} */
    TDG__FAULT_NOT_SUBSCRIBED,   /* legacy unsubscribe; data {"uri"} */
    TDG__FAULT_SUBSCRIBE_FAILED, /* legacy; data {"uri", "detail"} */
    TDG__FAULT_SUBSCRIPTIONS_OFF,
    TDG__FAULT_NOT_INITIALISED,
    TDG__FAULT_COUNT,
} tdg__fault_t;

/* Fills in an error. `version` UNKNOWN (before initialize) counts as legacy. `uri` and
 * `detail` may be NULL and are copied; where memory is out, the error has no data. */
void tdg__fault_set(tdg__rpc_error_t *error, tdg__fault_t fault, tdg__version_t version,
                    bool erlmcp, const char *uri, const char *detail);

/* Why a listen leaves a URI out, in one word: "not_found". */
const char *tdg__fault_reason(tdg__fault_t fault);

/* Gives an error of a legacy request the words of the erlmcp dialect: what is wrong with
 * a parameter is in data.detail only. */
void tdg__error_to_erlmcp(tdg__rpc_error_t *error);

#endif
