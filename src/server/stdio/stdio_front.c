/* SPDX-License-Identifier: MIT */
#include "server/stdio/stdio_front.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "net/line.h"
#include "server/context/front.h"
#include "server/context/limits.h"
#include "server/feed/trace.h"
#include "server/log/log.h"
#include "server/mcp/acks.h"
#include "server/mcp/listen.h"
#include "server/mcp/session.h"

/* When so much waits for the client to read, its requests wait, too; progress and log
 * messages are left out. */
enum { MAX_QUEUED = 1024 * 1024 };

/* Answers of a JSON-RPC batch (2025-03-26) are gathered, and leave together. */
struct batch {
    tdg__queue_t link;
    unsigned expected;
    tdg__rope_t answers;
    tdg__acked_t *acks; /* for when they have left */
};

struct stdio {
    tdg__front_t front;
    tdg__channel_t channel; /* its mark is the batch that is being read, or NULL */
    tdg__line_t *line;
    tdg__session_t *session; /* NULL: no legacy client has spoken yet */
    tdg__queue_t listens, batches;
    bool finishing;
    void (*over)(tdg_server_t *server);
    void (*done)(void *arg);
    void *done_arg;
};

static struct stdio *stdio_of(tdg__channel_t *channel) {
    return TDG__RECORD(struct stdio, channel, channel);
}

static void end(struct stdio *stdio) {
    stdio->over(stdio->channel.worker->server);
}

/* ---- Writing ------------------------------------------------------------ */

/* After a write, the client may have to be waited for, or may have disconnected. */
static void look_after_writing(struct stdio *stdio) {
    const tdg__outlet_t *outlet = tdg__line_outlet(stdio->line);

    if (outlet->queued > MAX_QUEUED)
        tdg__line_pause(stdio->line, true);
    if (outlet->broken)
        end(stdio);
}

static void write_line(struct stdio *stdio, const char *text, size_t len) {
    tdg__outlet_t *outlet = tdg__line_outlet(stdio->line);
    char *scratch = tdg__net_scratch(stdio->channel.worker->net);

    if (len < TDG__NET_SCRATCH) {
        memcpy(scratch, text, len);
        scratch[len] = '\n';
        tdg__outlet_flush(outlet, len + 1);
    } else {
        tdg__outlet_write(outlet, text, len);
        tdg__outlet_write(outlet, "\n", 1);
    }
    look_after_writing(stdio);
}

static void write_message(struct stdio *stdio, const tdg__rope_t *message) {
    if (message->splice_count == 0) {
        write_line(stdio, message->text.data, message->text.len);
        return;
    }
    tdg__outlet_write_rope(tdg__line_outlet(stdio->line), message);
    tdg__outlet_write(tdg__line_outlet(stdio->line), "\n", 1);
    look_after_writing(stdio);
}

static struct batch *create_batch(struct stdio *stdio, unsigned expected) {
    struct batch *batch = tdg__calloc(1, sizeof(*batch));

    if (batch == NULL)
        return NULL;
    batch->expected = expected;
    tdg__queue_prepend(&stdio->batches, &batch->link);
    tdg__rope_init(&batch->answers, SIZE_MAX);
    return batch;
}

static void destroy_batch(struct batch *batch) {
    tdg__queue_remove(&batch->link);
    tdg__acks_drop(&batch->acks);
    tdg__rope_done(&batch->answers);
    tdg__free(batch);
}

/* There was no memory to gather the answers of a batch. Only an answer without an id can
 * say so. */
static void write_out_of_memory(struct stdio *stdio) {
    char text[TDG__OUT_OF_MEMORY_MAX];

    write_line(stdio, text, tdg__out_of_memory("null", text));
}

/* One answer less to wait for; after the last, they leave. */
static void count_down(struct stdio *stdio, struct batch *batch) {
    assert(batch->expected > 0);
    if (--batch->expected > 0)
        return;
    tdg__text_put(&batch->answers.text, "]");
    if (batch->answers.text.error != 0)
        write_out_of_memory(stdio);
    else if (tdg__rope_len(&batch->answers) > 1)
        write_message(stdio, &batch->answers);
    /* Notifications share the outlet, so they are behind the answers. */
    tdg__acks_settle(&batch->acks, stdio->channel.worker->engine,
                     stdio->session->feed.stream);
    destroy_batch(batch);
}

static void add_to_batch(struct stdio *stdio, struct batch *batch,
                         const tdg__rope_t *message) {
    tdg__text_put(&batch->answers.text, tdg__rope_len(&batch->answers) == 0 ? "[" : ",");
    tdg__rope_append(&batch->answers, message);
    count_down(stdio, batch);
}

static void notify(tdg__channel_t *channel, tdg__call_t *call, const char *text,
                   size_t len) {
    struct stdio *stdio = stdio_of(channel);

    (void)call;
    if (tdg__line_outlet(stdio->line)->queued <= MAX_QUEUED)
        write_line(stdio, text, len);
}

static void answer(tdg__channel_t *channel, tdg__call_t *call, const tdg__rope_t *message,
                   int code) {
    struct batch *batch = call != NULL ? call->mark : channel->mark;

    (void)code;
    if (batch != NULL)
        add_to_batch(stdio_of(channel), batch, message);
    else
        write_message(stdio_of(channel), message);
}

/* Its batch, if any, has one answer less to wait for. */
static void cancelled(tdg__channel_t *channel, void *mark) {
    if (mark != NULL)
        count_down(stdio_of(channel), mark);
}

/* Notifications share the outlet, so they stay behind the answer, unless that waits for
 * others of its batch. */
static bool acknowledges(tdg__channel_t *channel, const tdg__call_t *call,
                         const tdg__target_t *target) {
    struct batch *batch = call->mark;

    (void)channel;
    return batch != NULL && tdg__acks_add(&batch->acks, target);
}

static const tdg__channel_ops_t ops = {.notify = notify,
                                       .answer = answer,
                                       .acknowledges = acknowledges,
                                       .cancelled = cancelled};

static void refuse(struct stdio *stdio, const char *id, int code, const char *message) {
    tdg__channel_refuse_plainly(&stdio->channel, id, code, message);
}

/* ---- Reading ------------------------------------------------------------ */

static bool era_is_off(const struct stdio *stdio, unsigned flag) {
    return (stdio->channel.worker->server->opts.flags & flag) != 0;
}

static bool in_flight(const struct stdio *stdio, const char *id) {
    return tdg__channel_find(&stdio->channel, id) != NULL ||
           tdg__listen_find(&stdio->listens, id) != NULL;
}

static void listen_over(void *owner, bool broken) {
    if (broken)
        end(owner);
}

static const tdg__listen_ops_t listen_ops = {
    .over = listen_over,
    .transport = "stdio",
    .frame = TDG__FRAME_LINE,
    .shares_outlet = true,
};

static void open_listen(struct stdio *stdio, const tdg__mcp_request_t *request) {
    tdg__rpc_error_t error = {0};
    tdg__listen_opts_t opts = {
        .ops = &listen_ops,
        .owner = stdio,
        .worker = stdio->channel.worker,
        .outlet = tdg__line_outlet(stdio->line),
        .list = &stdio->listens,
    };

    if (tdg__listen_open(&opts, request, &error) < 0)
        tdg__channel_refuse(&stdio->channel, request->id, &error);
}

static void cancel(struct stdio *stdio, const char *id) {
    tdg__listen_stream_t *listen = tdg__listen_find(&stdio->listens, id);
    tdg__call_t *call = tdg__channel_find(&stdio->channel, id);

    if (listen != NULL)
        tdg__listen_cancel(listen);
    else if (call != NULL && tdg__version_modern(call->version))
        tdg__call_cancel(call);
    else if (call != NULL)
        tdg__legacy_cancel(stdio->session, call);
}

static void serve_modern(struct stdio *stdio, const tdg__rpc_message_t *message) {
    tdg_server_t *server = stdio->channel.worker->server;
    const tdg_server_opts_t *opts = &server->opts;
    tdg__rpc_error_t error = {0};
    tdg__mcp_request_t request;

    if (tdg__mcp_read_modern(message, !era_is_off(stdio, TDG_NO_LEGACY), &request,
                             &error) < 0) {
        tdg__trace_rejected(server, NULL, message, &error);
        if (message->kind == TDG__RPC_REQUEST)
            tdg__channel_refuse(&stdio->channel, message->id, &error);
        tdg__rpc_error_done(&error);
    } else if (message->kind == TDG__RPC_NOTIFICATION) {
        if (request.method == TDG__M_CANCELLED && request.cancels != NULL)
            cancel(stdio, request.cancels);
    } else if (in_flight(stdio, request.id)) {
        refuse(stdio, request.id, TDG__RPC_INVALID_REQUEST,
               "A request with this id is being answered already");
    } else if (stdio->channel.call_count >= opts->max_calls) {
        tdg__server_log_event(server, TDG__EVENT_CALL_REFUSED, NULL);
        refuse(stdio, request.id, TDG__RPC_INTERNAL, "Too many unanswered requests");
    } else if (request.method != TDG__M_LISTEN) {
        tdg__modern_serve(&stdio->channel, &request, NULL, NULL);
    } else if (stdio->channel.mark != NULL) { /* the others would wait for its end */
        refuse(stdio, request.id, TDG__RPC_INVALID_REQUEST,
               "subscriptions/listen must not be part of a batch");
    } else if (tdg__listen_count(&stdio->listens) >= opts->max_streams) {
        tdg__server_log_event(server, TDG__EVENT_STREAM_REFUSED, NULL);
        refuse(stdio, request.id, TDG__RPC_INTERNAL,
               "Too many streams on this connection");
    } else {
        open_listen(stdio, &request);
    }
}

static void forget_acks(tdg__session_t *session, const tdg__target_t *target) {
    const struct stdio *stdio = stdio_of(session->home);
    const tdg__queue_t *list = &stdio->batches;

    for (const tdg__queue_t *link = list->next; link != list; link = link->next)
        tdg__acks_remove(&TDG__RECORD(struct batch, link, link)->acks, target);
}

/* Its end would be the end of the program. */
static void fail_session(tdg__session_t *session) {
    end(stdio_of(session->home));
}

static const tdg__session_ops_t session_ops = {
    .transport = "stdio",
    .frame = TDG__FRAME_LINE,
    .before = TDG__SETTLED,
    .after = TDG__SETTLED,
    .permanent = true,
    .forget_acks = forget_acks,
    .fail = fail_session,
};

/* Notifications without modern _meta may be about a modern request (a cancellation, say)
 * or belong to the legacy session: ids are unique on the pipe, so both may look. */
static void serve_legacy(struct stdio *stdio, const tdg__rpc_message_t *message) {
    if (stdio->session == NULL) {
        tdg__sessions_t *sessions = stdio->channel.worker->sessions;

        if (tdg__session_create(sessions, &session_ops, stdio->channel.erlmcp, NULL,
                                &stdio->session) < 0) {
            if (message->kind == TDG__RPC_REQUEST)
                refuse(stdio, message->id, TDG__RPC_INTERNAL,
                       "The server cannot take one more session");
            return;
        }
        stdio->session->home = &stdio->channel;
        tdg__feed_attach(&stdio->session->feed, tdg__line_outlet(stdio->line));
    }
    if (message->kind == TDG__RPC_REQUEST &&
        tdg__listen_find(&stdio->listens, message->id) != NULL)
        refuse(stdio, message->id, TDG__RPC_INVALID_REQUEST,
               "A request with this id is being answered already");
    else
        tdg__legacy_serve(stdio->session, &stdio->channel, message);
}

static bool cancels_listen(struct stdio *stdio, const tdg__rpc_message_t *message) {
    tdg__rpc_error_t error = {0};
    tdg__mcp_request_t request;

    if (message->kind != TDG__RPC_NOTIFICATION || tdg__queue_is_empty(&stdio->listens))
        return false;
    if (tdg__mcp_read_legacy(message, TDG__V_LATEST_LEGACY, &request, &error) < 0) {
        tdg__rpc_error_done(&error);
        return false;
    }
    if (request.method != TDG__M_CANCELLED || request.cancels == NULL ||
        tdg__listen_find(&stdio->listens, request.cancels) == NULL)
        return false;
    cancel(stdio, request.cancels);
    return true;
}

static void serve(struct stdio *stdio, json_t *value) {
    tdg__rpc_error_t error = {0};
    tdg__rpc_message_t message;

    if (tdg__rpc_read(value, &message, &error) < 0) {
        tdg__channel_refuse(&stdio->channel, message.id, &error);
        tdg__rpc_error_done(&error);
        return;
    }
    stdio->channel.worker->requests++;
    if (message.kind == TDG__RPC_RESPONSE)
        ;
    else if (tdg__mcp_is_modern(&message) && !era_is_off(stdio, TDG_NO_MODERN))
        serve_modern(stdio, &message);
    else if (era_is_off(stdio, TDG_NO_LEGACY))
        serve_modern(stdio, &message);
    else if (!cancels_listen(stdio, &message))
        serve_legacy(stdio, &message);
    tdg__rpc_message_done(&message);
}

/* Only 2025-03-26 has batches. */
static void serve_batch(struct stdio *stdio, json_t *values) {
    bool allowed = stdio->session != NULL && stdio->session->version == TDG__V2025_03_26;
    unsigned expected = tdg__count_answers(values);
    struct batch *batch = NULL;
    json_t *value;
    size_t i;

    if (!allowed || json_array_size(values) == 0) {
        refuse(stdio, NULL, TDG__RPC_INVALID_REQUEST,
               allowed ? "An empty batch" : "Batches exist in protocol 2025-03-26 only");
        return;
    }
    if (tdg__batch_too_long(&stdio->channel.worker->server->opts, values)) {
        refuse(stdio, NULL, TDG__RPC_INVALID_REQUEST, "The batch has too many messages");
        return;
    }
    if (expected > 0) {
        batch = create_batch(stdio, expected + 1); /* it lives until all are served */
        if (batch == NULL) {
            refuse(stdio, NULL, TDG__RPC_INTERNAL, "Out of memory");
            return;
        }
    }
    json_array_foreach(values, i, value) {
        stdio->channel.mark = batch;
        serve(stdio, value);
    }
    stdio->channel.mark = NULL;
    if (batch != NULL)
        count_down(stdio, batch);
}

static void on_line(void *user, const char *data, size_t len) {
    struct stdio *stdio = user;
    tdg__json_limits_t limits = tdg__message_limits(&stdio->channel.worker->server->opts);
    tdg__parse_error_t why = {0};
    tdg__rpc_error_t error = {0};
    json_t *value;

    tdg__worker_refresh(stdio->channel.worker);
    if (stdio->finishing)
        return;
    if (data == NULL) {
        refuse(stdio, NULL, TDG__RPC_INVALID_REQUEST, "The message is too long");
        return;
    }

    int rv = tdg__json_parse(data, len, &limits, &value, &why);
    if (rv < 0) {
        tdg__json_error_set(&error, rv, &why);
        tdg__channel_refuse(&stdio->channel, NULL, &error);
        return;
    }
    if (json_is_array(value))
        serve_batch(stdio, value);
    else
        serve(stdio, value);
    json_decref(value);
}

/* ---- Life --------------------------------------------------------------- */

static void on_drained(void *user) {
    struct stdio *stdio = user;

    tdg__worker_refresh(stdio->channel.worker);
    if (tdg__line_outlet(stdio->line)->broken)
        end(stdio);
    tdg__line_pause(stdio->line, false);
    if (stdio->session != NULL)
        tdg__feed_drained(&stdio->session->feed);
    tdg__listens_drained(&stdio->listens);
}

static void on_ended(void *user) {
    end(user);
}

static void stop(tdg__front_t *front) {
    ((struct stdio *)front)->finishing = true;
}

static void finish(tdg__front_t *front) {
    tdg__listens_finish(&((struct stdio *)front)->listens);
}

static size_t busy(const tdg__front_t *front) {
    const struct stdio *stdio = (const struct stdio *)front;
    const tdg__outlet_t *outlet = tdg__line_outlet(stdio->line);

    return !outlet->broken &&
           (stdio->channel.call_count > 0 || outlet->queued > 0 ||
            !tdg__queue_is_empty(&stdio->listens) ||
            (stdio->session != NULL && tdg__feed_has_more(&stdio->session->feed)));
}

static void on_closed(void *arg) {
    struct stdio *stdio = arg;

    stdio->done(stdio->done_arg);
    tdg__free(stdio);
}

static void close_front(tdg__front_t *front, void (*done)(void *arg), void *arg) {
    struct stdio *stdio = (struct stdio *)front;

    tdg__listens_cancel(&stdio->listens);
    while (!tdg__queue_is_empty(&stdio->batches))
        destroy_batch(TDG__RECORD(struct batch, link, stdio->batches.next));
    tdg__channel_done(&stdio->channel);
    if (stdio->session != NULL) {
        stdio->session->home = NULL;
        tdg__session_destroy(stdio->session);
    }
    stdio->done = done;
    stdio->done_arg = arg;
    tdg__line_close(stdio->line, 0, on_closed, stdio);
}

static const tdg__front_ops_t front_ops = {
    .stop = stop,
    .finish = finish,
    .busy = busy,
    .close = close_front,
    .alone = "the pipe",
};

int tdg__stdio_open(tdg__worker_t *worker, int input, int output, bool erlmcp,
                    void (*over)(tdg_server_t *server)) {
    assert(worker->net != NULL); /* whose scratch buffer it writes by */
    static const tdg__line_calls_t calls = {on_line, on_drained, on_ended};
    const tdg_server_opts_t *opts = &worker->server->opts;
    struct stdio *stdio = tdg__calloc(1, sizeof(*stdio));
    if (stdio == NULL)
        return TDG_ENOMEM;

    stdio->over = over;
    tdg__queue_init(&stdio->listens);
    tdg__queue_init(&stdio->batches);
    tdg__channel_init(&stdio->channel, &ops, worker, erlmcp);
    int rv = tdg__line_open(worker->net, input, output, opts->max_message_bytes, &calls,
                            stdio, &stdio->line);
    if (rv < 0) {
        tdg__free(stdio);
        return rv;
    }
    tdg__front_join(&stdio->front, &front_ops, worker);
    return 0;
}
