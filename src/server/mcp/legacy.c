/* SPDX-License-Identifier: MIT
 *
 * The methods of a legacy session: those of the protocols before 2026-07-28
 * that are not only about the catalogue. One row per method. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "mcp/cursor.h"
#include "mcp/notice.h"
#include "mcp/result.h"
#include "server/feed/trace.h"
#include "server/mcp/session.h"
#include "server/mcp/target.h"

enum { MAX_CLIENT_INFO = 4096 };

/* The options that the answer to a subscribe depends on. */
struct requested {
    bool wished; /* it brought wishes of its own: its answer is not {} */
    bool cursor; /* a cursor among them: the answer says whether it is resumed */
    bool awaits; /* it takes what does not exist yet */
};

struct tdg__waiting {
    tdg__waiting_t *next;
    tdg__call_t *call;
    struct requested requested;
    tdg__target_t target;
    char name[];
};

static void refuse(tdg__call_t *call, tdg__session_t *session, tdg__fault_t fault,
                   const char *uri, const char *detail) {
    tdg__rpc_error_t error = {0};

    tdg__fault_set(&error, fault, session->version, session->erlmcp, uri, detail);
    tdg__call_refuse(call, &error);
}

/* ---- Handshake ---------------------------------------------------------- */

/* Kept for as long as the session, so it must be small. */
static json_t *keep_client(const json_t *info) {
    if (info == NULL || json_dumpb(info, NULL, 0, JSON_COMPACT) > MAX_CLIENT_INFO)
        return NULL;
    return json_incref((json_t *)(uintptr_t)info);
}

static void on_initialize(tdg__session_t *session, tdg__call_t *call,
                          const tdg__mcp_request_t *request) {
    tdg_server_t *server = session->feed.worker->server;
    tdg__server_info_t info;

    if (session->version != TDG__V_UNKNOWN) {
        tdg__call_refuse_plainly(call, TDG__RPC_INVALID_REQUEST,
                                 "The session is initialised already");
        return;
    }
    session->version = tdg__negotiate(request->requested_version);
    session->client = keep_client(request->client_info);
    session->feed.peer.version = session->version;
    tdg__peer_set_client(&session->feed.peer, request->client_name,
                         request->client_version);
    tdg__trace_connected(&session->feed);
    tdg__server_describe(server, &info);
    tdg__call_answer(
        call, tdg__result_initialize(
                  &info, session->version,
                  session->ops->pings ? tdg__options_keepalive(&server->opts) : 0));
}

/* An initialised session has asked for all list changes that the server advertises. Lists
 * are never refused but for want of memory; then the client only misses a hint that it
 * can do without. */
static void on_initialized(tdg__session_t *session) {
    tdg__worker_t *worker = session->feed.worker;
    tdg__server_info_t info;

    if (session->initialised)
        return;
    tdg__session_initialised(session);
    tdg__server_describe(worker->server, &info);
    const struct {
        const char *name;
        bool offered;
    } lists[] = {
        {"tools", info.tools},
        {"prompts", info.prompts},
        {"resources", info.resources},
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        tdg__target_t list = tdg__target_list(lists[i].name);

        if (!info.list_changed || !lists[i].offered)
            continue;
        /* One whose watcher takes its time is acknowledged when it has settled. */
        if (tdg__feed_subscribe(&session->feed, &list, NULL, NULL) < 0)
            continue;
        tdg__trace_subscribed(&session->feed, &list);
        tdg__engine_acknowledge(worker->engine, session->feed.stream, &list);
    }
}

static void on_ping(tdg__session_t *session, tdg__call_t *call,
                    const tdg__mcp_request_t *request) {
    (void)session, (void)request;
    tdg__call_answer(call, json_object());
}

static void on_set_level(tdg__session_t *session, tdg__call_t *call,
                         const tdg__mcp_request_t *request) {
    tdg__rpc_error_t error = {0};
    unsigned flags = session->feed.worker->server->opts.flags;

    if ((flags & TDG_NO_LOGGING) != 0) {
        tdg__rpc_error_set(&error, TDG__RPC_METHOD_NOT_FOUND, NULL,
                           "Method not found: %s", tdg__method_name(request->method));
        tdg__call_refuse(call, &error);
        return;
    }
    session->log_level = request->level;
    tdg__call_answer(call, json_object());
}

/* ---- Subscribing -------------------------------------------------------- */

/* The answer to a subscribe: {} unless the client speaks our additions. */
static json_t *subscribed_result(const tdg__session_t *session,
                                 const struct requested *requested, bool resumed) {
    char cursor[TDG__CURSOR_MAX + 1];
    tdg__cursor_t now = tdg__feed_cursor(&session->feed);

    if (!requested->wished)
        return json_object();
    cursor[tdg__cursor_put(cursor, now.epoch, now.number)] = '\0';
    if (!requested->cursor)
        return json_pack("{s:{s:s}}", "_meta", "dev.tidings/cursor", cursor);
    return json_pack("{s:{s:s, s:b}}", "_meta", "dev.tidings/cursor", cursor,
                     "dev.tidings/resumed", resumed);
}

/* Whether the channel acknowledges to the engine when the answer has left. */
static bool acknowledges_later(const tdg__call_t *call, const tdg__target_t *target) {
    tdg__channel_t *channel = call->channel;

    return channel != NULL && channel->ops->acknowledges != NULL &&
           channel->ops->acknowledges(channel, call, target);
}

/* Answers, and acknowledges to the engine once the answer has left. */
static void answer_subscribed(tdg__session_t *session, tdg__call_t *call,
                              const tdg__target_t *target,
                              const struct requested *requested, bool resumed) {
    tdg__engine_t *engine = session->feed.worker->engine;
    json_t *result = subscribed_result(session, requested, resumed);
    tdg__stream_t stream = session->feed.stream;

    tdg__trace_subscribed(&session->feed, target);
    bool later = acknowledges_later(call, target);

    tdg__call_answer(call, result);
    if (!later)
        tdg__engine_acknowledge(engine, stream, target);
}

/* Whether the source of a resource says that it does not exist. Known once its watcher is
 * armed. */
static bool is_absent(const tdg__session_t *session, const tdg__target_t *target) {
    tdg_server_t *server = session->feed.worker->server;

    return target->kind == TDG__TARGET_URI && tdg__hub_is_absent(server->hub, target);
}

static tdg__waiting_t **find_waiting(tdg__session_t *session,
                                     const tdg__target_t *target) {
    tdg__waiting_t **at = &session->waiting;

    while (*at != NULL && !tdg__target_equal(&(*at)->target, target))
        at = &(*at)->next;
    return at;
}

static bool waits_for(tdg__session_t *session, const tdg__target_t *target) {
    return *find_waiting(session, target) != NULL;
}

/* Where memory is out, another subscribe may wait for the same subscription: it stays. */
static void wait_for_watcher(tdg__session_t *session, tdg__call_t *call,
                             const tdg__target_t *target,
                             const struct requested *requested) {
    tdg__waiting_t *waiting = tdg__malloc(sizeof(*waiting) + target->len + 1);

    if (waiting == NULL) {
        if (!waits_for(session, target))
            tdg__feed_withdraw(&session->feed, target, TDG_ENOMEM);
        refuse(call, session, TDG__FAULT_SUBSCRIBE_FAILED, target->name,
               tdg_strerror(TDG_ENOMEM));
        return;
    }
    memcpy(waiting->name, target->name, target->len);
    waiting->name[target->len] = '\0';
    waiting->target = (tdg__target_t){target->kind, waiting->name, target->len};
    waiting->call = call;
    waiting->requested = *requested;
    assert(!session->ending);
    waiting->next = session->waiting;
    session->waiting = waiting;
}

static void subscribe_failed(tdg__session_t *session, tdg__call_t *call, const char *uri,
                             int code, const tdg__parse_error_t *why) {
    tdg__rpc_error_t error = {0};

    if (tdg__wishes_blamed(code, why, &error))
        tdg__call_refuse(call, &error);
    else
        refuse(call, session, tdg__subscribe_fault(code), uri, tdg_strerror(code));
}

static void subscribe(tdg__session_t *session, tdg__call_t *call,
                      const tdg__mcp_request_t *request, const tdg__target_t *target) {
    tdg__engine_t *engine = session->feed.worker->engine;
    const tdg__wishes_t *wishes = &request->wishes;
    const struct requested requested = {wishes->any, wishes->cursor != NULL,
                                        wishes->await_creation};
    tdg__parse_error_t why = {0};
    tdg__subscribed_t subscribed;
    tdg__sub_opts_t opts;

    /* A subscription outlives its resource, so subscribing again is fine. */
    bool again =
        tdg__engine_state(engine, session->feed.stream, target) != TDG__NOT_SUBSCRIBED;
    if (!again && session->ops->forget_acks != NULL)
        session->ops->forget_acks(session, target);
    tdg__wishes_to_opts(wishes, &why, &opts);
    opts.cursor = tdg__hub_known_cursor(session->feed.worker->server->hub, opts.cursor);
    int rv = tdg__feed_subscribe(&session->feed, target, &opts, &subscribed);
    if (rv < 0) {
        subscribe_failed(session, call, request->uri, rv, &why);
    } else if (subscribed.state == TDG__SUBSCRIBING) {
        wait_for_watcher(session, call, target, &requested);
    } else if (!again && !requested.awaits && is_absent(session, target)) {
        tdg__feed_withdraw(&session->feed, target, TDG_ENOTFOUND);
        refuse(call, session, TDG__FAULT_NOT_FOUND, request->uri, NULL);
    } else {
        answer_subscribed(session, call, target, &requested, subscribed.resumed);
    }
}

static void refuse_off(tdg__session_t *session, tdg__call_t *call, const char *uri) {
    tdg__target_t target = tdg__target_uri(uri);

    tdg__trace_refused_why(&session->feed, &target, "subscriptions are off");
    refuse(call, session, TDG__FAULT_SUBSCRIPTIONS_OFF, uri, NULL);
}

static void on_subscribe(tdg__session_t *session, tdg__call_t *call,
                         const tdg__mcp_request_t *request) {
    tdg_server_t *server = session->feed.worker->server;
    tdg__resolved_t resolved;

    if ((server->opts.flags & TDG_NO_SUBSCRIBE) != 0) {
        refuse_off(session, call, request->uri);
        return;
    }

    int rv = tdg__resolve(server, request->uri, &resolved);
    if (rv < 0) {
        tdg__trace_refused(&session->feed, &resolved.target, rv);
        refuse(call, session, tdg__subscribe_fault(rv), request->uri, tdg_strerror(rv));
        return;
    }
    subscribe(session, call, request, &resolved.target);
    tdg__resolved_done(&resolved);
}

/* Takes those that wait for this target out of the list; one after the other. */
static tdg__waiting_t *take_waiting(tdg__session_t *session,
                                    const tdg__target_t *target) {
    tdg__waiting_t **at = find_waiting(session, target);
    tdg__waiting_t *waiting = *at;

    if (waiting != NULL)
        *at = waiting->next;
    return waiting;
}

static void fail_waiting(tdg__session_t *session, const tdg__target_t *target,
                         tdg__fault_t fault, const char *detail) {
    tdg__waiting_t *waiting;

    while ((waiting = take_waiting(session, target)) != NULL) {
        refuse(waiting->call, session, fault, waiting->name, detail);
        tdg__free(waiting);
    }
}

static void on_unsubscribe(tdg__session_t *session, tdg__call_t *call,
                           const tdg__mcp_request_t *request) {
    tdg_server_t *server = session->feed.worker->server;
    tdg__resolved_t resolved;

    if ((server->opts.flags & TDG_NO_SUBSCRIBE) != 0) {
        refuse_off(session, call, request->uri);
        return;
    }

    int rv = tdg__resolve_subscribed(&session->feed, request->uri, &resolved);
    if (rv == 0) {
        tdg__feed_unsubscribe(&session->feed, &resolved.target);
        fail_waiting(session, &resolved.target, TDG__FAULT_SUBSCRIBE_FAILED,
                     "unsubscribed before it was acknowledged");
        tdg__resolved_done(&resolved);
    }

    if (rv == 0) {
        tdg__call_answer(call, json_object());
        return;
    }
    tdg__target_t unknown = tdg__target_uri(request->uri);

    tdg__trace_refused_why(&session->feed, &unknown,
                           rv == TDG_EURI ? tdg_strerror(rv) : "not subscribed");
    refuse(call, session,
           rv == TDG_EURI ? TDG__FAULT_INVALID_URI : TDG__FAULT_NOT_SUBSCRIBED,
           request->uri, NULL);
}

/* ---- Callbacks of the engine -------------------------------------------- */

static tdg__session_t *session_of(tdg__feed_t *feed) {
    return TDG__RECORD(tdg__session_t, feed, feed);
}

/* Where a session cannot end without the program, its log is the way to say that a
 * subscription is over. */
static void log_settled(tdg__session_t *session, const tdg__target_t *target,
                        int status) {
    unsigned flags = session->feed.worker->server->opts.flags;
    tdg__text_t text;

    if ((flags & TDG_NO_LOGGING) != 0 || session->log_level > (int)TDG_LOG_ERROR)
        return;

    json_t *data = json_pack("{s:s%, s:s}", "uri", target->name, target->len, "error",
                             status < 0 ? tdg_strerror(status)
                                        : "changes were missed, and it is unknown which");
    tdg__text_init(&text, SIZE_MAX);
    if (data != NULL)
        tdg__put_log(&text, TDG_LOG_ERROR, "subscriptions", data);
    if (text.error == 0 && text.len > 0)
        session->home->ops->notify(session->home, NULL, text.data, text.len);
    tdg__text_done(&text);
    json_decref(data);
}

/* An acknowledged subscription is not in effect: its watcher has failed after all, or
 * what it missed cannot be named. The session ends, so that the client gets 404 and
 * begins anew. The end of a pipe would be the end of the program. */
static void feed_broken(tdg__feed_t *feed, const tdg__target_t *target, int status) {
    tdg__session_t *session = session_of(feed);

    if (session->ops->permanent)
        log_settled(session, target, status);
    else
        session->ops->fail(session);
}

/* Answers the requests that wait for a target that is watched now. A request that does
 * not accept a missing resource is refused, and where all are, the subscription is
 * withdrawn. */
static void settle_waiting(tdg__session_t *session, const tdg__target_t *target,
                           bool resumed) {
    bool absent = is_absent(session, target), kept = false;
    tdg__waiting_t *waiting;

    assert(waits_for(session, target));
    while ((waiting = take_waiting(session, target)) != NULL) {
        if (absent && !waiting->requested.awaits) {
            refuse(waiting->call, session, TDG__FAULT_NOT_FOUND, waiting->name, NULL);
        } else {
            answer_subscribed(session, waiting->call, &waiting->target,
                              &waiting->requested, resumed);
            kept = true;
        }
        tdg__free(waiting);
    }
    if (!kept)
        tdg__feed_withdraw(&session->feed, target, TDG_ENOTFOUND);
}

/* Answers the requests that wait. Where none does, it is a list (of which a client misses
 * only a hint), or a subscription that was acknowledged when its watcher was late. */
static void feed_settled(tdg__feed_t *feed, const tdg__target_t *target, int status,
                         bool resumed) {
    tdg__session_t *session = session_of(feed);
    bool failed = status < 0 && status != TDG_ETIMEDOUT;

    if (!waits_for(session, target)) {
        if (!failed)
            tdg__engine_acknowledge(feed->worker->engine, feed->stream, target);
        if ((failed && target->kind != TDG__TARGET_LIST) ||
            (!resumed && target->kind == TDG__TARGET_TEMPLATE))
            feed_broken(feed, target, status);
        return;
    }
    if (failed) {
        fail_waiting(session, target, tdg__subscribe_fault(status), tdg_strerror(status));
        return;
    }
    settle_waiting(session, target, resumed);
}

/* Too much waits, or memory is out: the session ends. Its client gets 404 (or the end of
 * its stream), initialises again, and its cursor shows what it has missed. */
static void feed_ended(tdg__feed_t *feed, int reason) {
    tdg__session_t *session = session_of(feed);

    (void)reason;
    session->ops->fail(session);
}

static void feed_failed(tdg__feed_t *feed) {
    feed_ended(feed, TDG_ENOMEM);
}

const tdg__feed_ops_t tdg__session_feed_ops = {feed_ended, feed_settled, feed_failed};

void tdg__session_drop_waiting(tdg__session_t *session) {
    while (session->waiting != NULL) {
        tdg__waiting_t *waiting = session->waiting;

        session->waiting = waiting->next;
        refuse(waiting->call, session, TDG__FAULT_SUBSCRIBE_FAILED, waiting->name,
               "the session has ended");
        tdg__free(waiting);
    }
}

/* ---- Cancelling --------------------------------------------------------- */

tdg__call_t *tdg__session_call(tdg__session_t *session, const char *id) {
    if (session->home != NULL)
        return tdg__channel_find(session->home, id);
    return session->ops->find_call != NULL ? session->ops->find_call(session, id) : NULL;
}

static size_t calls_of(const tdg__session_t *session) {
    if (session->home != NULL)
        return session->home->call_count;
    return session->ops->count_calls != NULL ? session->ops->count_calls(session) : 0;
}

/* A subscribe that is not acknowledged yet is taken back. */
static bool cancel_waiting(tdg__session_t *session, tdg__call_t *call) {
    for (tdg__waiting_t **at = &session->waiting; *at != NULL; at = &(*at)->next) {
        tdg__waiting_t *waiting = *at;

        if (waiting->call != call)
            continue;
        *at = waiting->next;
        if (!waits_for(session, &waiting->target))
            tdg__feed_unsubscribe(&session->feed, &waiting->target);
        tdg__free(waiting);
        tdg__call_cancel(call);
        refuse(call, session, TDG__FAULT_SUBSCRIBE_FAILED, NULL, NULL); /* to nobody */
        return true;
    }
    return false;
}

void tdg__legacy_cancel(tdg__session_t *session, tdg__call_t *call) {
    if (call->method != TDG__M_INITIALIZE && !cancel_waiting(session, call))
        tdg__call_cancel(call);
}

static void on_cancelled(tdg__session_t *session, const tdg__mcp_request_t *request) {
    tdg__call_t *call =
        request->cancels != NULL ? tdg__session_call(session, request->cancels) : NULL;

    if (call != NULL)
        tdg__legacy_cancel(session, call);
}

/* ---- Dispatch ----------------------------------------------------------- */

static const struct {
    tdg__method_t method;
    void (*handle)(tdg__session_t *session, tdg__call_t *call,
                   const tdg__mcp_request_t *request);
} methods[] = {
    {TDG__M_INITIALIZE, on_initialize},   {TDG__M_PING, on_ping},
    {TDG__M_SET_LEVEL, on_set_level},     {TDG__M_SUBSCRIBE, on_subscribe},
    {TDG__M_UNSUBSCRIBE, on_unsubscribe},
};

static void serve_notification(tdg__session_t *session,
                               const tdg__mcp_request_t *request) {
    if (request->method == TDG__M_INITIALIZED && session->version != TDG__V_UNKNOWN)
        on_initialized(session);
    else if (request->method == TDG__M_CANCELLED)
        on_cancelled(session, request);
}

static bool has_room(const tdg__session_t *session) {
    const tdg_server_opts_t *opts = &session->feed.worker->server->opts;

    return calls_of(session) < opts->max_calls;
}

static void serve_request(tdg__session_t *session, tdg__channel_t *channel,
                          const tdg__mcp_request_t *request) {
    if (tdg__session_call(session, request->id) != NULL) {
        tdg__channel_refuse_plainly(channel, request->id, TDG__RPC_INVALID_REQUEST,
                                    "A request with this id is being answered already");
        return;
    }
    if (!has_room(session)) {
        tdg__channel_refuse_plainly(channel, request->id, TDG__RPC_INTERNAL,
                                    "Too many unanswered requests in this session");
        return;
    }

    tdg__call_t *call = tdg__call_create(channel, request);
    if (call == NULL) {
        tdg__channel_refuse_plainly(channel, request->id, TDG__RPC_INTERNAL,
                                    "Out of memory");
        return;
    }
    if (request->method != TDG__M_INITIALIZE)
        tdg__session_came_back(session);
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (methods[i].method == request->method) {
            methods[i].handle(session, call, request);
            return;
        }
    }
    if (!tdg__call_handle(call, request, NULL, NULL))
        tdg__call_refuse_plainly(call, TDG__RPC_METHOD_NOT_FOUND, "Method not found");
}

void tdg__legacy_serve(tdg__session_t *session, tdg__channel_t *channel,
                       const tdg__rpc_message_t *message) {
    tdg__rpc_error_t error = {0};
    tdg__mcp_request_t request;

    if (message->kind == TDG__RPC_RESPONSE)
        return;
    channel->log_level = session->log_level;
    if (tdg__mcp_read_legacy(message, session->version, &request, &error) < 0) {
        tdg__trace_rejected(session->feed.worker->server, &session->feed, message,
                            &error);
        if (session->erlmcp)
            tdg__error_to_erlmcp(&error);
        if (message->kind == TDG__RPC_REQUEST)
            tdg__channel_refuse(channel, message->id, &error);
        tdg__rpc_error_done(&error);
    } else if (message->kind == TDG__RPC_NOTIFICATION) {
        serve_notification(session, &request);
    } else {
        if (request.client_info == NULL)
            request.client_info = session->client;
        serve_request(session, channel, &request);
    }
}
