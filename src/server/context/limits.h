/* SPDX-License-Identifier: MIT
 *
 * The limits of one message of a client, and of those that are being read together. */
#ifndef TDG_SERVER_LIMITS_H
#define TDG_SERVER_LIMITS_H

#include <stdbool.h>

#include <tidings/server.h>

#include "base/json.h"
#include "mcp/rpc.h"

enum {
    TDG__MESSAGE_DEPTH = 64,
    TDG__BODIES_MAX = 64 << 20, /* bytes of all large bodies that one worker reads */

    /* Bytes of memory, of parsed requests on their way to the workers of their sessions,
     * of the whole server: a body of small values takes up to 80 times its size. */
    TDG__FORWARDS_MAX = 64 << 20,

    /* The same, of those whose session the worker does not know (it was made up, or is
     * over) while they wait there, on all workers together. One that is larger waits
     * where no other does, or its client would never get its 404: it has the rest of
     * TDG__FORWARDS_MAX at most, unless it is alone in that, too. */
    TDG__STRANGE_FORWARDS_MAX = TDG__FORWARDS_MAX / 4,

    /* Bytes of all large answers that are being made or wait for their readers; so many
     * per worker, shared by all of them, since one answer may go out on several. Answers
     * up to TDG__SMALL_ANSWER do not count and are never refused, as long as those that
     * wait for one client (in a batch, on an old stream) are no more together. */
    TDG__ANSWERS_MAX = 64 << 20,
    TDG__SMALL_ANSWER = 64 * 1024,

    /* Bytes of small ones beyond that, in the same way: apart, so that neither kind takes
     * the room of the other. Tiny ones are copied in any case. */
    TDG__SMALL_ANSWERS_MAX = 16 << 20,
    TDG__TINY_ANSWER = 1024,

    /* Reads that run beside TDG__FREE_READS requests of the same batch or old stream; so
     * many per worker, shared by all of them. What they have read is in memory before it
     * counts as an answer. */
    TDG__PARALLEL_READS = 256,
    TDG__FREE_READS = 4,
    TDG__BUSY_RETRY_MS = 2000, /* after which a client that meets no room retries */

    /* While requests meet no room, a client that takes a large answer more slowly than
     * this is cut: 16 KiB/s, which is less than a bad mobile connection. */
    TDG__PACE_WINDOW_MS = 30000,
    TDG__PACE_MIN_BYTES = 30 * 16 * 1024,
};

/* A value costs up to some 230 bytes of memory (an empty object does): one for every 32
 * bytes of the largest message is beyond what people send, and keeps the cost of a
 * message to a few times the size of the largest. */
static inline tdg__json_limits_t tdg__message_limits(const tdg_server_opts_t *opts) {
    return (tdg__json_limits_t){
        .max_bytes = opts->max_message_bytes,
        .max_depth = TDG__MESSAGE_DEPTH,
        .max_values =
            opts->max_message_bytes / 32 < 1024 ? 1024 : opts->max_message_bytes / 32,
    };
}

/* A batch of small requests can ask for answers of any size, all of which are kept until
 * the last is there; so it has no more parts than a session may have calls. */
static inline bool tdg__batch_too_long(const tdg_server_opts_t *opts,
                                       const json_t *values) {
    return json_array_size(values) > opts->max_calls;
}

/* What is wrong with a text that is no message: where, too, if it is not JSON. */
static inline void tdg__json_error_set(tdg__rpc_error_t *error, int code,
                                       const tdg__parse_error_t *why) {
    const char *text = why->text[0] != '\0' ? why->text : tdg_strerror(code);

    if (code == TDG_EJSON)
        tdg__rpc_error_set(error, TDG__RPC_PARSE_ERROR, NULL,
                           "Invalid JSON at byte %zu: %s", why->at, text);
    else
        tdg__rpc_error_set(error, TDG__RPC_INVALID_REQUEST, NULL, "Invalid message: %s",
                           text);
}

/* There is no room for a large answer now: when to retry. `uri` and `name`, what was
 * asked for, may be NULL. */
static inline void tdg__busy_error_set(tdg__rpc_error_t *error, const char *uri,
                                       const char *name) {
    json_t *data = json_pack("{s:s*, s:s*, s:s, s:i}", "uri", uri, "name", name,
                             "error_type", "busy", "retryAfterMs", TDG__BUSY_RETRY_MS);

    tdg__rpc_error_set(error, TDG__RPC_INTERNAL, data,
                       "The server is busy with large responses; retry in %d s",
                       TDG__BUSY_RETRY_MS / 1000);
}

/* How many answers a batch will get: one per request, and per message that is none. */
static inline unsigned tdg__count_answers(const json_t *values) {
    unsigned count = 0;
    json_t *value;
    size_t i;

    json_array_foreach(values, i, value) {
        tdg__rpc_error_t error = {0};
        tdg__rpc_message_t message;
        int rv = tdg__rpc_read(value, &message, &error);

        if (rv < 0 || message.kind == TDG__RPC_REQUEST)
            count++;
        if (rv == 0)
            tdg__rpc_message_done(&message);
        tdg__rpc_error_done(&error);
    }
    return count;
}

#endif
