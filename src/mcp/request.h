/* SPDX-License-Identifier: MIT
 *
 * From a JSON-RPC message to a checked request: its method, whether the era has that
 * method, and its parameters as C values. Nothing here depends on the content of the
 * server. */
#ifndef TDG_MCP_REQUEST_H
#define TDG_MCP_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "mcp/rpc.h"
#include "mcp/version.h"

typedef enum tdg__method {
    TDG__M_NONE,
    TDG__M_INITIALIZE,         /* legacy */
    TDG__M_INITIALIZED,        /* legacy notification */
    TDG__M_PING,               /* legacy */
    TDG__M_DISCOVER,           /* modern */
    TDG__M_LISTEN,             /* modern */
    TDG__M_SUBSCRIBE,          /* legacy */
    TDG__M_UNSUBSCRIBE,        /* legacy */
    TDG__M_SET_LEVEL,          /* legacy */
    TDG__M_RESOURCES,          /* resources/list */
    TDG__M_TEMPLATES,          /* resources/templates/list */
    TDG__M_READ,               /* resources/read */
    TDG__M_TOOLS,              /* tools/list */
    TDG__M_CALL,               /* tools/call */
    TDG__M_PROMPTS,            /* prompts/list */
    TDG__M_PROMPT,             /* prompts/get */
    TDG__M_COMPLETE,           /* completion/complete */
    TDG__M_CANCELLED,          /* notification */
    TDG__M_OTHER_NOTIFICATION, /* known and unknown ones that we do not act on */
    TDG__M_COUNT,
} tdg__method_t;

/* As on the wire; NULL for those that stand for no single name. */
const char *tdg__method_name(tdg__method_t method);

/* What a listen is about. */
typedef struct tdg__listen_filter {
    bool tools, prompts, resources; /* changes of the list */
    const json_t *uris;             /* an array of strings, or NULL */
} tdg__listen_filter_t;

/* What a subscribe or listen brings in `_meta` under "dev.tidings/". */
typedef struct tdg__wishes {
    bool any; /* at least one was there: a legacy subscribe then answers more than {} */
    const char *cursor;         /* NULL: none; see mcp/cursor.h */
    tdg__listen_filter_t fresh; /* LISTEN: what the cursor does not hold for */
    int64_t since_ms;           /* 0: none */
    int64_t batch_ms;           /* -1: not said; at most one of the three is */
    int64_t debounce_ms;        /* -1 */
    int64_t throttle_ms;        /* -1 */
    int64_t rate_limit_ms;      /* -1 */
    const json_t *filter;       /* an object, or NULL */
    int priority;               /* -1, 0 or 1 */
    bool await_creation;        /* SUBSCRIBE: also what does not exist yet */
} tdg__wishes_t;

/* Everything is borrowed from the message. */
typedef struct tdg__mcp_request {
    tdg__method_t method;
    tdg__version_t version;
    const char *id; /* JSON text; "" for notifications */

    const json_t *progress_token; /* a string or whole number, or NULL */
    int log_level; /* modern: index as in tdg_log_level_t (0 debug … 7), -1: not wanted */

    const char *uri;         /* SUBSCRIBE, UNSUBSCRIBE, READ */
    const char *name;        /* CALL, PROMPT */
    const json_t *arguments; /* CALL, PROMPT: an object, or NULL */
    const char *page;        /* lists: where to go on; NULL: from the start */
    int level;               /* SET_LEVEL */
    const char *cancels; /* CANCELLED: the id, as JSON text; NULL: malformed, ignore */

    const char *requested_version; /* INITIALIZE, as sent */
    const char *client_name,
        *client_version;               /* INITIALIZE, or modern _meta; may be NULL */
    const json_t *client_info;         /* the same: all of it, or NULL */
    const json_t *client_capabilities; /* the same: an object, NULL elsewhere */

    bool ref_is_prompt;    /* COMPLETE */
    const char *ref;       /* ... prompt name or URI template */
    const char *argument;  /* ... */
    const char *value;     /* ... */
    const json_t *context; /* ... {"name": "value"} or NULL */

    tdg__listen_filter_t listen; /* LISTEN */
    tdg__wishes_t wishes;        /* LISTEN, SUBSCRIBE */

    char cancels_text[TDG__RPC_MAX_ID + 1]; /* where `cancels` points to */
} tdg__mcp_request_t;

/* Whether a message speaks the modern protocol: its `_meta` has one of the fields
 * protocolVersion, clientCapabilities and clientInfo under "io.modelcontextprotocol/", or
 * its method exists only there (server/discover, subscriptions/listen). Over HTTP, a
 * modern MCP-Protocol-Version header says so as well: a request without any `_meta` is
 * then to be read, and refused, as a modern one. */
bool tdg__mcp_is_modern(const tdg__rpc_message_t *message);

/* Checks a modern request or notification (not a response). Notifications are never
 * refused. *ret is written even on failure, its method only where that is known. Errors
 * (TDG_EINVAL with *error): -32602 where required _meta is missing (protocolVersion,
 * clientCapabilities) or mistyped (also clientInfo and logLevel, which may be absent),
 * -32022 with {"supported", "requested"} for another version (`legacy_too` adds the
 * legacy ones to "supported"), -32601 with the method's name, -32602 with data.detail for
 * wrong parameters. */
int tdg__mcp_read_modern(const tdg__rpc_message_t *message, bool legacy_too,
                         tdg__mcp_request_t *ret, tdg__rpc_error_t *error);

/* The same for a legacy message in a session of `version` (UNKNOWN: before initialize,
 * when all requests but initialize and ping are -32005). Errors: -32601 and -32602 as
 * above. */
int tdg__mcp_read_legacy(const tdg__rpc_message_t *message, tdg__version_t version,
                         tdg__mcp_request_t *ret, tdg__rpc_error_t *error);

/* ---- Mirrored headers (modern, HTTP) ------------------------------------ */

/* Header values as sent; NULL: absent. */
typedef struct tdg__mcp_headers {
    const char *protocol_version;
    const char *method;
    const char *name;
} tdg__mcp_headers_t;

/* The field of a method's parameters that Mcp-Name mirrors; NULL: it has none. */
const char *tdg__mcp_name_field(const char *method);

/* Compares them with a modern request (not for notifications). Returns 0 or TDG_EINVAL
 * with -32020 and a message that names header and both values (cut to a sane length). */
int tdg__mcp_check_headers(const tdg__mcp_headers_t *headers,
                           const tdg__rpc_message_t *message, tdg__rpc_error_t *error);

/* Compares the Mcp-Param-* headers that a tool's input schema asks for (x-mcp-header)
 * with the arguments. `find` returns the value of a header by its lower-case name, or
 * NULL. */
int tdg__mcp_check_param_headers(const json_t *input_schema, const json_t *arguments,
                                 const char *(*find)(void *user, const char *name),
                                 void *user, tdg__rpc_error_t *error);

/* Stores the text of a header value in plain or `=?base64?…?=` form in *ret, new. Returns
 * 0, TDG_EINVAL (bad base64, bad UTF-8, characters that a header must not have) or
 * TDG_ENOMEM. */
int tdg__mcp_header_text(const char *value, char **ret);

/* The other way round: the value of a header for a text, in plain form where that can be.
 * New; NULL: no memory. */
char *tdg__mcp_header_value(const char *text);

#endif
