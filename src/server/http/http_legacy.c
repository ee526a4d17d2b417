/* SPDX-License-Identifier: MIT
 *
 * Legacy requests: by their session, which lives on one worker. A request that arrives at
 * another one is forwarded (forward.h), and passes through here again on that worker. */
#include <string.h>

#include "server/context/limits.h"
#include "server/http/forward.h"
#include "server/http/session_stream.h"
#include "server/http/visit.h"
#include "server/log/log.h"
#include "server/mcp/session.h"

/* ---- Sessions ----------------------------------------------------------- */

/* The session of a request, by its id. NULL: the request has been answered, or goes to
 * the worker of the session, where serve(visit) is called. `request_id` NULL: it is none
 * of JSON-RPC's. */
static tdg__session_t *find_session(tdg__visit_t *visit, const char *id,
                                    const tdg__session_ops_t *ops,
                                    void (*serve)(tdg__visit_t *visit),
                                    const char *request_id) {
    int code = request_id != NULL ? TDG__RPC_NOT_INITIALISED : TDG__RPC_INVALID_REQUEST;
    int index = id != NULL ? tdg__session_worker(id) : -1;
    tdg__worker_t *owner = tdg__server_worker(visit->worker->server, index);

    if (id == NULL) {
        tdg__visit_refuse_id(
            visit, 400, request_id, code,
            ops == &tdg__sse_session_ops
                ? "The sessionId is missing in the query"
                : "The Mcp-Session-Id header is missing: initialize first, or speak "
                  "the protocol of 2026-07-28");
        return NULL;
    }
    if (owner != NULL && owner != visit->worker) {
        tdg__forward_prepare(visit, owner, id, serve, request_id);
        return NULL;
    }

    tdg__session_t *session =
        owner != NULL ? tdg__session_find(owner->sessions, id) : NULL;
    /* One that the engine has ended while it had no stream to say so on. */
    if (session != NULL &&
        tdg__engine_has_ended(visit->worker->engine, session->feed.stream)) {
        tdg__session_destroy(session);
        session = NULL;
    }
    if (session == NULL || session->ops != ops) {
        tdg__visit_refuse_id(visit, 404, request_id, code,
                             "No such session: initialize again");
        return NULL;
    }
    tdg__session_touch(session);
    return session;
}

/* ---- Legacy ------------------------------------------------------------- */

static bool is_initialize(const tdg__rpc_message_t *message) {
    return message->kind == TDG__RPC_REQUEST &&
           strcmp(message->method, "initialize") == 0;
}

static void serve_initialize(tdg__visit_t *visit, const tdg__rpc_message_t *message) {
    tdg__address_t caller;
    tdg__session_t *session;
    tdg__channel_t *channel;

    int rv = tdg__session_create(visit->worker->sessions, &tdg__http_session_ops,
                                 visit->listener->erlmcp,
                                 tdg__visit_caller(visit, &caller), &session);
    if (rv < 0) {
        tdg__visit_refuse(visit, 503, TDG__RPC_INTERNAL,
                          "The server cannot take one more session");
        return;
    }
    if (tdg__visit_post(visit, session, TDG__V_UNKNOWN, false, 1, &channel) == 0)
        tdg__legacy_serve(session, channel, message);
    if (session->version == TDG__V_UNKNOWN)
        tdg__session_destroy(session);
}

/* A single message, on the worker of its session. */
static void serve_forwarded(tdg__visit_t *visit) {
    tdg__rpc_message_t message;

    if (!tdg__visit_read_message(visit, &message))
        return;
    tdg__visit_serve_legacy(visit, &message);
    tdg__rpc_message_done(&message);
}

void tdg__visit_serve_legacy(tdg__visit_t *visit, const tdg__rpc_message_t *message) {
    tdg__session_t *session;
    tdg__channel_t *channel;

    if (is_initialize(message)) {
        serve_initialize(visit, message);
        return;
    }
    session = find_session(visit, tdg__http_field(visit->http, "mcp-session-id"),
                           &tdg__http_session_ops, serve_forwarded,
                           message->kind == TDG__RPC_REQUEST ? message->id : NULL);
    if (session == NULL)
        return;
    if (message->kind == TDG__RPC_REQUEST) {
        if (tdg__visit_post(visit, session, session->version, false, 1, &channel) == 0)
            tdg__legacy_serve(session, channel, message);
        return;
    }
    tdg__channel_t nobody; /* what is no request gets no answer */
    tdg__channel_init(&nobody, NULL, visit->worker, session->erlmcp);
    tdg__legacy_serve(session, &nobody, message);
    tdg__visit_respond(visit, 202, NULL);
}

/* Serves one of several messages, all of which answer to the same channel. */
static void serve_part(tdg__session_t *session, tdg__channel_t *channel, json_t *value) {
    tdg__rpc_error_t error = {0};
    tdg__rpc_message_t message;

    if (tdg__rpc_read(value, &message, &error) < 0) {
        tdg__channel_refuse(channel, message.id, &error);
        return;
    }
    if (is_initialize(&message)) {
        tdg__channel_refuse_plainly(channel, message.id, TDG__RPC_INVALID_REQUEST,
                                    "initialize must not be part of a batch");
    } else {
        tdg__legacy_serve(session, channel, &message);
    }
    tdg__rpc_message_done(&message);
}

void tdg__visit_serve_batch(tdg__visit_t *visit) {
    json_t *values = visit->body;
    tdg__channel_t nobody;
    tdg__channel_t *channel;
    json_t *value;
    size_t i;

    tdg__session_t *session =
        find_session(visit, tdg__http_field(visit->http, "mcp-session-id"),
                     &tdg__http_session_ops, tdg__visit_serve_batch, NULL);
    if (session == NULL)
        return;
    if (session->version != TDG__V2025_03_26 || json_array_size(values) == 0) {
        tdg__visit_refuse(
            visit, 400, TDG__RPC_INVALID_REQUEST,
            "Batches exist in protocol 2025-03-26 only, and are never empty");
        return;
    }
    if (tdg__batch_too_long(&visit->worker->server->opts, values)) {
        tdg__visit_refuse(visit, 400, TDG__RPC_INVALID_REQUEST,
                          "The batch has too many messages");
        return;
    }

    unsigned expected = tdg__count_answers(values);
    if (expected == 0) {
        tdg__channel_init(&nobody, NULL, visit->worker, session->erlmcp);
        json_array_foreach(values, i, value) serve_part(session, &nobody, value);
        tdg__visit_respond(visit, 202, NULL);
        return;
    }
    /* One more than will come, so that the post lives until all parts are served. */
    if (tdg__visit_post(visit, session, session->version, true, expected + 1, &channel) <
        0)
        return;
    json_array_foreach(values, i, value) serve_part(session, channel, value);
    tdg__post_channel_all_served(channel);
}

/* ---- GET and DELETE ----------------------------------------------------- */

static void respond_not_opened(tdg__visit_t *visit, int code) {
    switch (code) {
    case TDG_ESTREAMS:
        tdg__server_log_event(visit->worker->server, TDG__EVENT_STREAM_REFUSED, NULL);
        tdg__visit_refuse(visit, 409, TDG__RPC_INVALID_REQUEST, "Too many streams");
        break;
    case TDG_ENOTFOUND:
        tdg__visit_refuse(visit, 400, TDG__RPC_INVALID_REQUEST,
                          "The events after that Last-Event-ID are no longer available");
        break;
    case TDG_EENDED:
        tdg__visit_refuse(visit, 404, TDG__RPC_INVALID_REQUEST,
                          "The missed changes are no longer known: initialize again");
        break;
    case TDG_EAGAIN: /* of a new session, which is logged */
        tdg__visit_refuse(visit, 503, TDG__RPC_INTERNAL,
                          "The server cannot take one more session");
        break;
    default:
        tdg__visit_refuse(visit, 503, TDG__RPC_INTERNAL, tdg_strerror(code));
    }
}

void tdg__visit_get(tdg__visit_t *visit) {
    if (!tdg__visit_wants_stream(visit))
        return;

    tdg__session_t *session =
        find_session(visit, tdg__http_field(visit->http, "mcp-session-id"),
                     &tdg__http_session_ops, tdg__visit_get, NULL);
    if (session == NULL)
        return;

    int rv = tdg__session_stream_open(session, visit->exchange,
                                      tdg__http_field(visit->http, "last-event-id"),
                                      visit->fields);
    if (rv < 0)
        respond_not_opened(visit, rv);
}

void tdg__visit_delete(tdg__visit_t *visit) {
    tdg__session_t *session =
        find_session(visit, tdg__http_field(visit->http, "mcp-session-id"),
                     &tdg__http_session_ops, tdg__visit_delete, NULL);

    if (session == NULL)
        return;
    tdg__session_destroy(session);
    tdg__visit_respond(visit, 204, NULL);
}

/* ---- The endpoints of 2024-11-05 ---------------------------------------- */

void tdg__visit_sse(tdg__visit_t *visit) {
    tdg__address_t caller;

    if (!tdg__visit_wants_stream(visit))
        return;

    int rv = tdg__old_sse_open(visit->worker, visit->exchange, visit->listener->erlmcp,
                               tdg__visit_caller(visit, &caller), visit->fields);
    if (rv < 0)
        respond_not_opened(visit, rv);
}

const char *tdg__visit_query_session(const char *query, char *room) {
    static const char name[] = "sessionId=";

    while (*query != '\0') {
        size_t len = strcspn(query, "&");

        if (strncmp(query, name, sizeof(name) - 1) == 0) {
            size_t value = len - (sizeof(name) - 1);

            value = value <= TDG__SESSION_ID ? value : 0; /* no session has that name */
            memcpy(room, query + sizeof(name) - 1, value);
            room[value] = '\0';
            return room;
        }
        query += len + (query[len] == '&');
    }
    return NULL;
}

void tdg__visit_messages(tdg__visit_t *visit) {
    char id[TDG__SESSION_ID + 1];
    tdg__rpc_message_t message;

    if (!tdg__visit_read_body(visit)) /* first: it may have to go to another worker */
        return;

    tdg__session_t *session =
        find_session(visit, tdg__visit_query_session(visit->http->query, id),
                     &tdg__sse_session_ops, tdg__visit_messages, NULL);
    if (session == NULL)
        return;
    if (!tdg__visit_read_message(visit, &message))
        return;
    /* Accepted before it is served: the answer comes by the stream. */
    visit->worker->requests++;
    tdg__visit_respond(visit, 202, NULL);
    tdg__legacy_serve(session, tdg__old_sse_channel(session), &message);
    tdg__rpc_message_done(&message);
}
