/* SPDX-License-Identifier: MIT */
#include "server/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/json.h"
#include "server/get.h"
#include "server/limits.h"
#include "server/listen.h"
#include "server/modern.h"
#include "server/post.h"
#include "server/session.h"

enum { MAX_ORIGIN = 256 };

/* One request on its way through this file. */
struct visit {
    tdg__worker_t *worker;
    tdg__conn_t *conn;
    const tdg__http_request_t *http;
    const tdg__listener_t *listener;
    char fields[MAX_ORIGIN + 128]; /* of every response: what browsers want to hear */
};

/* ---- Plain answers ------------------------------------------------------ */

static void respond(struct visit *visit, int status, const char *fields) {
    char all[sizeof(visit->fields) + 128];

    snprintf(all, sizeof(all), "%s%s", visit->fields, fields != NULL ? fields : "");
    tdg__conn_respond(visit->conn, status, NULL, all, NULL, 0);
}

/* A refusal that no request of the protocol gets: an error without an id. */
static void refuse(struct visit *visit, int status, int code, const char *message) {
    tdg__rpc_error_t error = {0};
    tdg__text_t text;

    tdg__rpc_error_set(&error, code, NULL, "%s", message);
    tdg__text_init(&text, SIZE_MAX);
    tdg__rpc_put_error(&text, NULL, &error);
    tdg__rpc_error_done(&error);
    if (text.error == 0)
        tdg__conn_respond(visit->conn, status, "application/json", visit->fields,
                          text.data, text.len);
    else
        respond(visit, 500, NULL);
    tdg__text_done(&text);
}

/* ---- What the client accepts -------------------------------------------- */

/* Whether an Accept header allows a type; without the header everything is fine. */
static bool accepts(const tdg__http_request_t *http, const char *type) {
    const char *accept = tdg__http_field(http, "accept");
    size_t major = strcspn(type, "/") + 1;

    if (accept == NULL)
        return true;
    while (*accept != '\0') {
        accept += strspn(accept, " \t,");
        size_t len = strcspn(accept, " \t,;");
        if ((len == 3 && memcmp(accept, "*/*", 3) == 0) ||
            (len == strlen(type) && strncasecmp(accept, type, len) == 0) ||
            (len == major + 1 && accept[major] == '*' &&
             strncasecmp(accept, type, major) == 0))
            return true;
        accept += strcspn(accept, ",");
    }
    return false;
}

static bool is_json(const char *content_type) {
    size_t len = content_type != NULL ? strcspn(content_type, "; \t") : 0;

    return len == strlen("application/json") &&
           strncasecmp(content_type, "application/json", len) == 0;
}

/* ---- Modern ------------------------------------------------------------- */

static const char *find_header(void *user, const char *name) {
    return tdg__http_field(user, name);
}

static int create_post(struct visit *visit, tdg__session_t *session,
                       tdg__version_t version, bool batch, unsigned expected,
                       tdg__post_t **ret) {
    tdg__post_opts_t opts = {
        .worker = visit->worker,
        .conn = visit->conn,
        .session = session,
        .version = version,
        .introduces = session != NULL && session->version == TDG__V_UNKNOWN,
        .accepts_sse = accepts(visit->http, "text/event-stream"),
        .batch = batch,
        .erlmcp = visit->listener->erlmcp,
        .expected = expected,
        .fields = visit->fields,
    };

    int rv = tdg__post_create(&opts, ret);
    if (rv < 0)
        refuse(visit, 500, TDG__RPC_INTERNAL, "Out of memory");
    return rv;
}

/* Refuses a modern request as such; the status follows from the error's code. */
static void refuse_modern(struct visit *visit, const char *id, tdg__rpc_error_t *error) {
    tdg__post_t *post;

    if (create_post(visit, NULL, TDG__V_MODERN, false, 1, &post) < 0) {
        tdg__rpc_error_done(error);
        return;
    }
    tdg__post_set_malformed(post);
    tdg__channel_refuse(tdg__post_channel(post), id, error);
}

/* Reads the request and compares it with its headers. What is missing in the body comes
 * first, then what differs between both, then what we do not speak. */
static int read_modern(struct visit *visit, const tdg__rpc_message_t *message,
                       tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    unsigned flags = tdg__server_opts(tdg__worker_server(visit->worker))->flags;
    tdg__rpc_error_t mismatch = {0};
    tdg__mcp_headers_t headers = {
        .protocol_version = tdg__http_field(visit->http, "mcp-protocol-version"),
        .method = tdg__http_field(visit->http, "mcp-method"),
        .name = tdg__http_field(visit->http, "mcp-name"),
    };

    int rv = tdg__mcp_read_modern(message, (flags & TDG_NO_LEGACY) == 0, ret, error);
    if (rv < 0 && error->code == TDG__RPC_INVALID_PARAMS)
        return rv;
    if (tdg__mcp_check_headers(&headers, message, &mismatch) < 0) {
        tdg__rpc_error_done(error);
        *error = mismatch;
        return TDG_EINVAL;
    }
    return rv;
}

static void serve_listen(struct visit *visit, const tdg__mcp_request_t *request) {
    tdg__rpc_error_t error = {0};
    tdg__listen_opts_t opts = {
        .worker = visit->worker,
        .conn = visit->conn,
        .fields = visit->fields,
        .erlmcp = visit->listener->erlmcp,
    };

    if (!accepts(visit->http, "text/event-stream"))
        refuse(visit, 406, TDG__RPC_INVALID_REQUEST,
               "subscriptions/listen is answered by a stream: accept text/event-stream");
    else if (tdg__listen_open(&opts, request, &error) < 0)
        refuse_modern(visit, request->id, &error);
}

static void serve_modern(struct visit *visit, const tdg__rpc_message_t *message) {
    tdg__rpc_error_t error = {0};
    tdg__mcp_request_t request;
    tdg__post_t *post;

    if (message->kind != TDG__RPC_REQUEST) {
        respond(visit, 202, NULL); /* no notification has an effect here */
    } else if (read_modern(visit, message, &request, &error) < 0) {
        refuse_modern(visit, message->id, &error);
    } else if (request.method == TDG__M_LISTEN) {
        serve_listen(visit, &request);
    } else if (create_post(visit, NULL, request.version, false, 1, &post) == 0) {
        tdg__modern_serve(tdg__post_channel(post), &request, find_header,
                          (void *)(uintptr_t)visit->http);
    }
}

/* ---- Sessions ----------------------------------------------------------- */

/* A connection on its way to the worker of its session. */
struct move {
    tdg__task_t task;
    tdg__worker_t *to;
    tdg__parcel_t *parcel;
};

static void arrive(tdg__task_t *task, bool here) {
    struct move *move = (struct move *)(void *)task;

    if (here)
        tdg__net_adopt(tdg__worker_net(move->to), move->parcel);
    else
        tdg__parcel_destroy(move->parcel);
    tdg__free(move);
}

static void move_to(struct visit *visit, tdg__worker_t *to) {
    struct move *move = tdg__calloc(1, sizeof(*move));

    if (move == NULL || tdg__conn_move(visit->conn, &move->parcel) < 0) {
        tdg__free(move);
        refuse(visit, 503, TDG__RPC_INTERNAL, "The server is short of memory; try again");
        return;
    }
    move->task.run = arrive;
    move->to = to;
    tdg__inbox_post(tdg__worker_inbox(to), &move->task);
}

/* The session of a request, by its id. NULL: the request has been answered, or moved to
 * the worker of the session. */
static tdg__session_t *find_session(struct visit *visit, const char *id,
                                    tdg__session_kind_t kind) {
    int index = id != NULL ? tdg__session_worker(id) : -1;
    tdg__worker_t *owner = tdg__server_worker(tdg__worker_server(visit->worker), index);

    if (id == NULL) {
        refuse(visit, 400, TDG__RPC_INVALID_REQUEST,
               kind == TDG__SESSION_SSE
                   ? "The sessionId is missing in the query"
                   : "The Mcp-Session-Id header is missing: initialize first, or speak "
                     "the protocol of 2026-07-28");
        return NULL;
    }
    if (owner != NULL && owner != visit->worker) {
        move_to(visit, owner);
        return NULL;
    }

    tdg__session_t *session =
        owner != NULL ? tdg__session_find(tdg__worker_sessions(owner), id) : NULL;
    if (session == NULL || session->kind != kind) {
        refuse(visit, 404, TDG__RPC_INVALID_REQUEST,
               "There is no such session (any more): initialize again");
        return NULL;
    }
    tdg__session_touch(session);
    return session;
}

/* A request of a session may name the protocol version; one that we do not speak is an
 * error even there. */
static bool version_is_fine(struct visit *visit) {
    const char *version = tdg__http_field(visit->http, "mcp-protocol-version");

    if (version == NULL || tdg__version_from_text(version) != TDG__V_UNKNOWN)
        return true;
    refuse(visit, 400, TDG__RPC_INVALID_REQUEST,
           "The MCP-Protocol-Version header names a version that is not spoken here");
    return false;
}

/* ---- Legacy ------------------------------------------------------------- */

static bool is_initialize(const tdg__rpc_message_t *message) {
    return message->kind == TDG__RPC_REQUEST &&
           strcmp(message->method, "initialize") == 0;
}

static void serve_initialize(struct visit *visit, const tdg__rpc_message_t *message) {
    tdg__session_t *session;
    tdg__post_t *post;

    int rv = tdg__session_create(tdg__worker_sessions(visit->worker), TDG__SESSION_HTTP,
                                 visit->listener->erlmcp, &session);
    if (rv < 0) {
        refuse(visit, 503, TDG__RPC_INTERNAL, "The server cannot take one more session");
        return;
    }
    if (create_post(visit, session, TDG__V_UNKNOWN, false, 1, &post) == 0)
        tdg__legacy_serve(session, tdg__post_channel(post), message);
    if (session->version == TDG__V_UNKNOWN)
        tdg__session_destroy(session);
}

static void serve_legacy(struct visit *visit, const tdg__rpc_message_t *message) {
    tdg__session_t *session;
    tdg__post_t *post;

    if (!version_is_fine(visit))
        return;
    if (is_initialize(message)) {
        serve_initialize(visit, message);
        return;
    }
    session = find_session(visit, tdg__http_field(visit->http, "mcp-session-id"),
                           TDG__SESSION_HTTP);
    if (session == NULL)
        return;
    if (message->kind == TDG__RPC_REQUEST) {
        if (create_post(visit, session, session->version, false, 1, &post) == 0)
            tdg__legacy_serve(session, tdg__post_channel(post), message);
        return;
    }
    tdg__channel_t nobody; /* what is no request gets no answer */
    tdg__channel_init(&nobody, NULL, visit->worker, session->erlmcp);
    tdg__legacy_serve(session, &nobody, message);
    respond(visit, 202, NULL);
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
        tdg__rpc_error_set(&error, TDG__RPC_INVALID_REQUEST, NULL,
                           "initialize must not be part of a batch");
        tdg__channel_refuse(channel, message.id, &error);
    } else {
        tdg__legacy_serve(session, channel, &message);
    }
    tdg__rpc_message_done(&message);
}

static void serve_batch(struct visit *visit, json_t *values) {
    unsigned expected = tdg__count_answers(values);
    tdg__channel_t nobody;
    tdg__post_t *post;
    json_t *value;
    size_t i;

    tdg__session_t *session = find_session(
        visit, tdg__http_field(visit->http, "mcp-session-id"), TDG__SESSION_HTTP);
    if (session == NULL)
        return;
    if (session->version != TDG__V2025_03_26 || json_array_size(values) == 0) {
        refuse(visit, 400, TDG__RPC_INVALID_REQUEST,
               "Batches exist in protocol 2025-03-26 only, and are not empty");
        return;
    }
    if (tdg__batch_too_long(tdg__server_opts(tdg__worker_server(visit->worker)),
                            values)) {
        refuse(visit, 400, TDG__RPC_INVALID_REQUEST, "The batch has too many parts");
        return;
    }
    if (expected == 0) {
        tdg__channel_init(&nobody, NULL, visit->worker, session->erlmcp);
        json_array_foreach(values, i, value) serve_part(session, &nobody, value);
        respond(visit, 202, NULL);
        return;
    }
    /* One more than will come, so that the post lives until all parts are served. */
    if (create_post(visit, session, session->version, true, expected + 1, &post) < 0)
        return;
    tdg__channel_t *channel = tdg__post_channel(post);
    json_array_foreach(values, i, value) serve_part(session, channel, value);
    channel->ops->cancelled(channel, NULL);
}

/* ---- POST --------------------------------------------------------------- */

static json_t *read_body(struct visit *visit) {
    tdg__json_limits_t limits =
        tdg__message_limits(tdg__server_opts(tdg__worker_server(visit->worker)));
    tdg__parse_error_t why = {0};
    json_t *value;

    if (!is_json(tdg__http_field(visit->http, "content-type"))) {
        refuse(visit, 415, TDG__RPC_INVALID_REQUEST,
               "The Content-Type must be application/json");
        return NULL;
    }

    int rv =
        tdg__json_parse(visit->http->body, visit->http->body_len, &limits, &value, &why);
    if (rv == 0)
        return value;
    refuse(visit, rv == TDG_ENOMEM ? 500 : 400,
           rv == TDG_EJSON ? TDG__RPC_PARSE_ERROR : TDG__RPC_INVALID_REQUEST,
           why.text[0] != '\0' ? why.text : tdg_strerror(rv));
    return NULL;
}

/* Modern is what says so, in the body or in the header. */
static bool is_modern(struct visit *visit, const tdg__rpc_message_t *message) {
    unsigned flags = tdg__server_opts(tdg__worker_server(visit->worker))->flags;
    const char *version = tdg__http_field(visit->http, "mcp-protocol-version");

    if ((flags & TDG_NO_LEGACY) != 0)
        return true;
    if ((flags & TDG_NO_MODERN) != 0 || message->kind == TDG__RPC_RESPONSE)
        return false;
    return tdg__mcp_is_modern(message) ||
           (version != NULL && tdg__version_modern(tdg__version_from_text(version)));
}

static void serve_message(struct visit *visit, json_t *value) {
    tdg__rpc_error_t error = {0};
    tdg__rpc_message_t message;

    if (tdg__rpc_read(value, &message, &error) < 0) {
        refuse_modern(visit, message.id, &error);
        return;
    }
    tdg__worker_count_request(visit->worker);
    if (is_modern(visit, &message))
        serve_modern(visit, &message);
    else
        serve_legacy(visit, &message);
    tdg__rpc_message_done(&message);
}

static void on_post(struct visit *visit) {
    unsigned flags = tdg__server_opts(tdg__worker_server(visit->worker))->flags;
    json_t *value = read_body(visit);

    if (value == NULL)
        return;
    if (!json_is_array(value))
        serve_message(visit, value);
    else if ((flags & TDG_NO_LEGACY) != 0)
        refuse(visit, 400, TDG__RPC_INVALID_REQUEST, "There are no batches");
    else
        serve_batch(visit, value);
    json_decref(value);
}

/* ---- GET and DELETE ----------------------------------------------------- */

static void respond_not_opened(struct visit *visit, int code) {
    switch (code) {
    case TDG_ESTREAMS:
        refuse(visit, 409, TDG__RPC_INVALID_REQUEST, "Too many streams");
        break;
    case TDG_ENOTFOUND:
        refuse(visit, 400, TDG__RPC_INVALID_REQUEST,
               "What followed that Last-Event-ID is not kept any more");
        break;
    default:
        refuse(visit, 503, TDG__RPC_INTERNAL, tdg_strerror(code));
    }
}

static bool wants_stream(struct visit *visit) {
    if (accepts(visit->http, "text/event-stream"))
        return true;
    refuse(visit, 406, TDG__RPC_INVALID_REQUEST,
           "This is a stream: the Accept header must allow text/event-stream");
    return false;
}

static void on_get(struct visit *visit) {
    if (!wants_stream(visit) || !version_is_fine(visit))
        return;

    tdg__session_t *session = find_session(
        visit, tdg__http_field(visit->http, "mcp-session-id"), TDG__SESSION_HTTP);
    if (session == NULL)
        return;

    int rv = tdg__get_open(session, visit->conn,
                           tdg__http_field(visit->http, "last-event-id"), visit->fields);
    if (rv < 0)
        respond_not_opened(visit, rv);
}

static void on_delete(struct visit *visit) {
    tdg__session_t *session = find_session(
        visit, tdg__http_field(visit->http, "mcp-session-id"), TDG__SESSION_HTTP);

    if (session == NULL)
        return;
    tdg__session_destroy(session);
    respond(visit, 204, NULL);
}

/* ---- The endpoints of 2024-11-05 ---------------------------------------- */

static void on_sse(struct visit *visit) {
    if (!wants_stream(visit))
        return;

    int rv = tdg__old_sse_open(visit->worker, visit->conn, visit->listener->erlmcp,
                               visit->fields);
    if (rv < 0)
        respond_not_opened(visit, rv);
}

/* The value of sessionId in a query, copied; NULL: none, or too long to be one. */
static const char *session_in_query(const char *query, char *ret) {
    static const char name[] = "sessionId=";

    while (*query != '\0') {
        size_t len = strcspn(query, "&");

        if (strncmp(query, name, sizeof(name) - 1) == 0 &&
            len == sizeof(name) - 1 + TDG__SESSION_ID) {
            memcpy(ret, query + sizeof(name) - 1, TDG__SESSION_ID);
            ret[TDG__SESSION_ID] = '\0';
            return ret;
        }
        query += len + (query[len] == '&');
    }
    return NULL;
}

static void on_messages(struct visit *visit) {
    char id[TDG__SESSION_ID + 1];
    tdg__rpc_error_t error = {0};
    tdg__rpc_message_t message;

    tdg__session_t *session =
        find_session(visit, session_in_query(visit->http->query, id), TDG__SESSION_SSE);
    if (session == NULL)
        return;

    json_t *value = read_body(visit);
    if (value == NULL)
        return;
    if (tdg__rpc_read(value, &message, &error) < 0) {
        refuse_modern(visit, message.id, &error);
        json_decref(value);
        return;
    }
    /* Accepted before it is served: the answer comes by the stream. */
    tdg__worker_count_request(visit->worker);
    respond(visit, 202, NULL);
    tdg__legacy_serve(session, tdg__old_sse_channel(session), &message);
    tdg__rpc_message_done(&message);
    json_decref(value);
}

/* ---- Routes ------------------------------------------------------------- */

static const struct route {
    const char *path;
    tdg__http_method_t method;
    void (*serve)(struct visit *visit);
    bool legacy; /* not there when legacy is switched off */
    const char *allow;
} routes[] = {
    {"/mcp",      TDG__HTTP_POST,   on_post,     false, "GET, POST, DELETE, OPTIONS"},
    {"/mcp",      TDG__HTTP_GET,    on_get,      true,  "POST, OPTIONS"             },
    {"/mcp",      TDG__HTTP_DELETE, on_delete,   true,  "POST, OPTIONS"             },
    {"/sse",      TDG__HTTP_GET,    on_sse,      true,  "GET, OPTIONS"              },
    {"/events",   TDG__HTTP_GET,    on_sse,      true,  "GET, OPTIONS"              },
    {"/messages", TDG__HTTP_POST,   on_messages, true,  "POST, OPTIONS"             },
};

/* What a browser asks before it sends a request of another origin. */
static void respond_preflight(struct visit *visit, const char *allow) {
    char fields[256];

    snprintf(fields, sizeof(fields),
             "Allow: %s\r\n"
             "Access-Control-Allow-Methods: %s\r\n"
             "Access-Control-Allow-Headers: *, Authorization\r\n"
             "Access-Control-Max-Age: 86400\r\n",
             allow, allow);
    char all[sizeof(visit->fields) + sizeof(fields)];
    snprintf(all, sizeof(all), "%s%s", visit->fields, fields);
    tdg__conn_respond(visit->conn, 204, NULL, all, NULL, 0);
}

static void route(struct visit *visit) {
    bool legacy =
        (tdg__server_opts(tdg__worker_server(visit->worker))->flags & TDG_NO_LEGACY) == 0;
    const char *allow = NULL;
    char fields[64];

    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
        const struct route *at = &routes[i];

        if (strcmp(at->path, visit->http->path) != 0)
            continue;
        if (at->legacy && !legacy && strcmp(at->path, "/mcp") != 0)
            continue;
        allow =
            legacy || !at->legacy ? (allow != NULL ? allow : at->allow) : "POST, OPTIONS";
        if (at->method == visit->http->method && (legacy || !at->legacy)) {
            at->serve(visit);
            return;
        }
    }
    if (allow == NULL) {
        refuse(visit, 404, TDG__RPC_INVALID_REQUEST,
               "Nothing is served under this path; the endpoint is /mcp");
    } else if (visit->http->method == TDG__HTTP_OPTIONS) {
        respond_preflight(visit, allow);
    } else {
        snprintf(fields, sizeof(fields), "Allow: %s\r\n", allow);
        respond(visit, 405, fields);
    }
}

/* Refuses callers that have no business here. A request without an Origin is no page. */
static bool may_call(struct visit *visit) {
    const char *host = tdg__http_field(visit->http, "host");
    const char *origin = tdg__http_field(visit->http, "origin");

    if (host != NULL && !tdg__listener_allows_host(visit->listener, host)) {
        refuse(visit, 403, TDG__RPC_INVALID_REQUEST,
               "This Host is not allowed here (protection against DNS rebinding)");
        return false;
    }
    if (origin == NULL)
        return true;
    if (strlen(origin) > MAX_ORIGIN ||
        !tdg__listener_allows_origin(visit->listener, origin)) {
        refuse(visit, 403, TDG__RPC_INVALID_REQUEST, "This Origin is not allowed here");
        return false;
    }
    snprintf(visit->fields, sizeof(visit->fields),
             "Access-Control-Allow-Origin: %s\r\n"
             "Access-Control-Expose-Headers: Mcp-Session-Id\r\n"
             "Vary: Origin\r\n",
             origin);
    return true;
}

void tdg__http_serve(tdg__worker_t *worker, tdg__conn_t *conn,
                     const tdg__http_request_t *request) {
    struct visit visit = {
        .worker = worker,
        .conn = conn,
        .http = request,
        .listener = tdg__conn_tag(conn),
    };

    visit.fields[0] = '\0';
    if (may_call(&visit))
        route(&visit);
}
