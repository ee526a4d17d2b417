/* SPDX-License-Identifier: MIT
 *
 * What the files of the HTTP side share: one request on its way from its connection to
 * its handler. */
#ifndef TDG_SERVER_VISIT_H
#define TDG_SERVER_VISIT_H

#include <stdbool.h>

#include "mcp/request.h"
#include "mcp/rpc.h"
#include "mcp/version.h"
#include "net/conn.h"
#include "server/context/context.h"
#include "server/http/http.h"
#include "server/http/post_channel.h"

enum { TDG__MAX_ORIGIN = 256 };

typedef struct tdg__forward tdg__forward_t; /* forward.c */

typedef struct tdg__visit {
    tdg__worker_t *worker;
    tdg__exchange_t *exchange;
    const tdg__http_request_t *http;
    json_t *body; /* once it was read; NULL: it was not, or there is none */
    const tdg__listener_t *listener;
    tdg__forward_t *forward; /* what is to go to another worker; NULL: nothing */
    char
        fields[TDG__MAX_ORIGIN + 160]; /* of every response: what browsers want to hear */
} tdg__visit_t;

/* Answers without a body; `fields` are further header lines, or NULL. */
void tdg__visit_respond(tdg__visit_t *visit, int status, const char *fields);

/* A refusal that no request of the protocol gets: an error without an id. */
void tdg__visit_refuse(tdg__visit_t *visit, int status, int code, const char *message);

/* The same for a request of the protocol; `id` is JSON text, or NULL. */
void tdg__visit_refuse_id(tdg__visit_t *visit, int status, const char *id, int code,
                          const char *message);

/* The version of the protocol is none that is spoken here: 400 and -32022. */
void tdg__visit_refuse_version(tdg__visit_t *visit, const char *id,
                               const char *requested);

/* Whom it comes from, behind trusted proxies too (caller.h); NULL: nobody knows. `room`
 * is for the answer. The same as text; "": nobody knows. */
const tdg__address_t *tdg__visit_caller(const tdg__visit_t *visit, tdg__address_t *room);
void tdg__visit_address(const tdg__visit_t *visit, char ret[TDG__ADDRESS_TEXT]);

/* Whether the client accepts a type; without the header everything is fine. */
bool tdg__visit_accepts(const tdg__visit_t *visit, const char *type);
bool tdg__visit_wants_stream(tdg__visit_t *visit); /* else it has been refused */

/* Whether the body is of the type that messages have; else it has been refused. */
bool tdg__visit_brings_json(tdg__visit_t *visit);

/* Reads the message in the body, once. False: it has been refused. */
bool tdg__visit_read_body(tdg__visit_t *visit);

/* Reads a message of JSON-RPC from a body that was read. False: it has been refused. */
bool tdg__visit_read_message(tdg__visit_t *visit, tdg__rpc_message_t *ret);

/* Refuses a request as such: the status follows from the error's code. */
void tdg__visit_refuse_message(tdg__visit_t *visit, const char *id,
                               tdg__rpc_error_t *error);

/* Whether an era is switched off: TDG_NO_LEGACY or TDG_NO_MODERN. */
bool tdg__visit_era_is_off(const tdg__visit_t *visit, unsigned flag);

/* ---- post_channel.c ----------------------------------------------------- */

/* Begins to answer: the channel, in *ret, occupies the connection. `session` NULL is
 * modern; so many answers are expected. Returns 0, or TDG_ENOMEM: it has been refused. */
int tdg__visit_post(tdg__visit_t *visit, tdg__session_t *session, tdg__version_t version,
                    bool batch, unsigned expected, tdg__channel_t **ret);

/* ---- http_modern.c ------------------------------------------------------ */

void tdg__visit_serve_modern(tdg__visit_t *visit, const tdg__rpc_message_t *message);

/* Answers by a stream of notifications; returns as tdg__listen_open() (http_listen.c). */
int tdg__visit_listen(tdg__visit_t *visit, const tdg__mcp_request_t *request,
                      tdg__rpc_error_t *error);

/* ---- http_legacy.c ------------------------------------------------------ */

void tdg__visit_serve_legacy(tdg__visit_t *visit, const tdg__rpc_message_t *message);
void tdg__visit_serve_batch(tdg__visit_t *visit);

void tdg__visit_get(tdg__visit_t *visit);      /* GET on /mcp: a stream of a session */
void tdg__visit_delete(tdg__visit_t *visit);   /* DELETE on /mcp: the end of one */
void tdg__visit_sse(tdg__visit_t *visit);      /* GET on /sse, of 2024-11-05 */
void tdg__visit_messages(tdg__visit_t *visit); /* POST on /messages, of 2024-11-05 */

/* The value of sessionId in a query, copied to `room`, which has TDG__SESSION_ID + 1
 * bytes (session.h); "" where it is longer. NULL: there is none. */
const char *tdg__visit_query_session(const char *query, char *room);

#endif
