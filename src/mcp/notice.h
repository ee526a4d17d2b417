/* SPDX-License-Identifier: MIT
 *
 * Notifications as bytes. The part that all streams of one form share is encoded once per
 * change: everything up to and including the opening of `_meta`, ready for the tail. The
 * tail is the part that differs per stream, written without JSON values:
 *
 *     {"jsonrpc":"2.0","method":"notifications/resources/updated",         | head
 *     "params":{"uri":"…","metadata":{…},"_meta":{"dev.tidings/version":7, |
 *     "dev.tidings/metadata":{…},                                          |
 *     "dev.tidings/cursor":"…","dev.tidings/merged":2,                     | tail
 *     "io.modelcontextprotocol/subscriptionId":1}}}                        |
 *
 * without line breaks. */
#ifndef TDG_MCP_NOTICE_H
#define TDG_MCP_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/text.h"
#include "mcp/rpc.h"

/* Which wording a stream gets. Modern and legacy differ in the tail only. */
typedef enum tdg__form {
    TDG__FORM_STANDARD,
    TDG__FORM_ERLMCP, /* resources/updated, resources/deleted; list changes as above, but
                         with empty params */
    TDG__FORM_COUNT,
} tdg__form_t;

typedef struct tdg__notice {
    const char
        *list; /* "tools", "prompts", "resources": their list changed; or NULL and */
    const char *uri; /* this resource changed; UTF-8 */
    size_t uri_len;
    bool deleted;
    uint64_t version;        /* ours */
    const json_t *metadata;  /* complete; NULL: none */
    bool in_params, in_meta; /* where the metadata goes */
} tdg__notice_t;

/* A new buffer with the head; NULL when memory is out. */
tdg__buf_t *tdg__notice_head(const tdg__notice_t *notice, tdg__form_t form);

/* Whether a tail follows the head: not where a list change has empty params. */
bool tdg__notice_has_tail(bool is_list, tdg__form_t form);

/* At most this many bytes beside the subscription id. */
enum { TDG__TAIL_MAX = 160 };

typedef struct tdg__tail {
    const char *subscription; /* JSON text of the listen's id; NULL on legacy streams */
    size_t subscription_len;
    uint64_t epoch, number; /* cursor */
    uint32_t merged;        /* left out where 0 */
} tdg__tail_t;

/* Writes the tail, up to TDG__TAIL_MAX + subscription_len bytes, without NUL, line end or
 * framing. Returns its length. Runs for every delivery: neither allocates nor formats. */
size_t tdg__notice_tail(char *out, const tdg__tail_t *tail);

/* ---- Single messages ---------------------------------------------------- */

/* All of these append one message without line breaks or line end. Ids are JSON text. */

/* `notifications/subscriptions/acknowledged`. */
typedef struct tdg__ack {
    const char *subscription;       /* the listen's id */
    bool tools, prompts, resources; /* lists that are honoured */
    const json_t *uris;       /* array of those honoured; NULL: none was asked for */
    const json_t *refused;    /* reasons by URI; NULL or empty: none was refused */
    uint64_t epoch, number;   /* cursor */
    bool had_cursor, resumed; /* `resumed` is said where the client had a cursor */
    uint32_t keepalive_ms;    /* of the stream; 0: its transport has no signs of life */
} tdg__ack_t;
void tdg__put_acknowledged(tdg__text_t *text, const tdg__ack_t *ack);

/* The result that completes a listen; then, for pipes, the cancellation of the listen. */
void tdg__put_listen_complete(tdg__text_t *text, const char *subscription,
                              const json_t *server_info);
void tdg__put_cancelled(tdg__text_t *text, const char *subscription, const char *reason);

/* `total` 0 (or less) is unknown; `message` may be NULL. Where `progress` is no finite
 * number, nothing is appended. */
void tdg__put_progress(tdg__text_t *text, const json_t *token, double progress,
                       double total, const char *message);

/* `logger` may be NULL. */
void tdg__put_log(tdg__text_t *text, int level, const char *logger, const json_t *data);

const char *tdg__log_level_name(int level);     /* 0 debug … 7 emergency; NULL: none */
int tdg__log_level_from_name(const char *name); /* -1: none */

/* ---- SSE ---------------------------------------------------------------- */

/* Appends one event: "id: …\n" where `id` is not NULL, "event: …\n" where `event` is not
 * NULL, "data: …\n" (the data must not hold line breaks; NULL data writes "data: \n"),
 * "\n". */
void tdg__put_event(tdg__text_t *text, const char *id, const char *event,
                    const char *data, size_t len);
void tdg__put_event_start(tdg__text_t *text, const char *id,
                          const char *event); /* up to the data */

#endif
