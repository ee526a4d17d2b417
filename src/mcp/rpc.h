/* SPDX-License-Identifier: MIT
 *
 * JSON-RPC 2.0 as MCP uses it: one message from a JSON value, and messages as text. Ids
 * are kept as their JSON text (`1` and `"1"` differ), because they are only ever returned
 * unchanged. */
#ifndef TDG_MCP_RPC_H
#define TDG_MCP_RPC_H

#include <stddef.h>

#include <jansson.h>

#include "base/text.h"

enum {
    TDG__RPC_PARSE_ERROR = -32700,
    TDG__RPC_INVALID_REQUEST = -32600,
    TDG__RPC_METHOD_NOT_FOUND = -32601,
    TDG__RPC_INVALID_PARAMS = -32602,
    TDG__RPC_INTERNAL = -32603,
    TDG__RPC_HEADER_MISMATCH = -32020,     /* modern */
    TDG__RPC_MISSING_CAPABILITY = -32021,  /* modern */
    TDG__RPC_UNSUPPORTED_VERSION = -32022, /* modern */
    TDG__RPC_NOT_FOUND = -32002,           /* legacy: no such resource */
    TDG__RPC_SUBSCRIPTIONS_OFF = -32004,   /* legacy */
    TDG__RPC_NOT_INITIALISED = -32005,     /* legacy */
    TDG__RPC_SUBSCRIPTION_FAILED = -32006, /* legacy: also no such subscription */
    TDG__RPC_ERLMCP_NOT_FOUND = -32001,    /* erlmcp dialect */
    TDG__RPC_ERLMCP_INVALID_URI = -32022,  /* erlmcp dialect */
};

enum { TDG__RPC_MAX_ID = 256 }; /* bytes of an id's JSON text */

/* What a request fails with. */
typedef struct tdg__rpc_error {
    int code;
    char message[240];
    json_t *data; /* owned; NULL: none */
} tdg__rpc_error_t;

/* Fills in an error (printf-like; too long is cut at a character). `data` is stolen. */
void tdg__rpc_error_set(tdg__rpc_error_t *error, int code, json_t *data,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));
void tdg__rpc_error_done(tdg__rpc_error_t *error); /* frees the data; may be all zero */

typedef enum tdg__rpc_kind {
    TDG__RPC_REQUEST,
    TDG__RPC_NOTIFICATION,
    TDG__RPC_RESPONSE, /* to a request of ours; also an error */
} tdg__rpc_kind_t;

typedef struct tdg__rpc_message {
    tdg__rpc_kind_t kind;
    char id[TDG__RPC_MAX_ID + 1]; /* JSON text; "" for a notification */
    const char *method;           /* NULL for a response */
    json_t *params;               /* an object, or NULL; borrowed from root */
    json_t *root;                 /* owned */
} tdg__rpc_message_t;

/* Writes the JSON text of an id and a NUL to `ret`, up to TDG__RPC_MAX_ID + 1 bytes.
 * Returns NULL, or what is wrong with the id; then nothing has been written. */
const char *tdg__rpc_id_text(const json_t *id, char *ret);

/* Reads one message (an object; a batch is the caller's loop). `value` is borrowed, *ret
 * takes a reference. Returns 0, or TDG_EINVAL with *error filled in (-32600, and why);
 * ret->id is set even then where the message has a valid one, "" where it has not. Fields
 * checked: jsonrpc is "2.0"; id is a string or whole number; method is a string; params
 * is an object where present; a response has exactly one of result and error. */
int tdg__rpc_read(json_t *value, tdg__rpc_message_t *ret, tdg__rpc_error_t *error);
void tdg__rpc_message_done(tdg__rpc_message_t *message);

/* Append one message without a line end. `id` is JSON text; NULL or "": the error is
 * about no request in particular (the field is left out, as both eras of the protocol
 * allow). `params` may be NULL. */
void tdg__rpc_put_result(tdg__text_t *text, const char *id, const json_t *result);
void tdg__rpc_put_result_start(tdg__text_t *text, const char *id); /* up to the result */
void tdg__rpc_put_error(tdg__text_t *text, const char *id, const tdg__rpc_error_t *error);
void tdg__rpc_put_request(tdg__text_t *text, const char *id, const char *method,
                          const json_t *params);
void tdg__rpc_put_notification(tdg__text_t *text, const char *method,
                               const json_t *params);

#endif
