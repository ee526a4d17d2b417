/* SPDX-License-Identifier: MIT */
#include "server/pipe.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "net/line.h"
#include "server/acks.h"
#include "server/limits.h"
#include "server/listen.h"
#include "server/log.h"
#include "server/modern.h"
#include "server/session.h"
#include "server/trace.h"

/* When so much waits for the client to read, its requests wait, too; progress and log
 * messages are left out. */
enum { MAX_QUEUED = 1024 * 1024 };

/* Answers of a JSON-RPC batch (2025-03-26) are gathered, and leave together. */
struct batch {
    struct batch *next, **place;
    unsigned expected;
    tdg__rope_t answers;
    tdg__acked_t *acks; /* for when they have left */
};

struct tdg__pipe {
    tdg__channel_t channel; /* its mark is the batch that is being read, or NULL */
    tdg__line_t *line;
    tdg__session_t *session; /* NULL: no legacy client has spoken yet */
    tdg__listen_t *listens;
    struct batch *batches;
    bool finishing;
    void (*done)(void *arg);
    void *done_arg;
};

static tdg__pipe_t *pipe_of(tdg__channel_t *channel) {
    return (tdg__pipe_t *)((char *)channel - offsetof(tdg__pipe_t, channel));
}

/* ---- Writing ------------------------------------------------------------ */

/* What was written may have to wait, or the client may have gone. */
static void look_after_writing(tdg__pipe_t *pipe) {
    const tdg__outlet_t *outlet = tdg__line_outlet(pipe->line);

    if (outlet->queued > MAX_QUEUED)
        tdg__line_pause(pipe->line, true);
    if (outlet->broken)
        tdg__worker_pipe_ended(pipe->channel.worker);
}

static void write_line(tdg__pipe_t *pipe, const char *text, size_t len) {
    tdg__outlet_t *outlet = tdg__line_outlet(pipe->line);
    char *scratch = tdg__net_scratch(tdg__worker_net(pipe->channel.worker));

    if (len < TDG__NET_SCRATCH) {
        memcpy(scratch, text, len);
        scratch[len] = '\n';
        tdg__outlet_flush(outlet, len + 1);
    } else {
        tdg__outlet_write(outlet, text, len);
        tdg__outlet_write(outlet, "\n", 1);
    }
    look_after_writing(pipe);
}

static void write_message(tdg__pipe_t *pipe, const tdg__rope_t *message) {
    if (message->splice_count == 0) {
        write_line(pipe, message->text.data, message->text.len);
        return;
    }
    tdg__outlet_write_rope(tdg__line_outlet(pipe->line), message);
    tdg__outlet_write(tdg__line_outlet(pipe->line), "\n", 1);
    look_after_writing(pipe);
}

static struct batch *create_batch(tdg__pipe_t *pipe, unsigned expected) {
    struct batch *batch = tdg__calloc(1, sizeof(*batch));

    if (batch == NULL)
        return NULL;
    batch->expected = expected;
    batch->next = pipe->batches;
    batch->place = &pipe->batches;
    if (batch->next != NULL)
        batch->next->place = &batch->next;
    pipe->batches = batch;
    tdg__rope_init(&batch->answers, SIZE_MAX);
    return batch;
}

static void destroy_batch(struct batch *batch) {
    *batch->place = batch->next;
    if (batch->next != NULL)
        batch->next->place = batch->place;
    tdg__acks_drop(&batch->acks);
    tdg__rope_done(&batch->answers);
    tdg__free(batch);
}

/* There was no memory to gather the answers of a batch. Only an answer without an id can
 * say so. */
static void write_out_of_memory(tdg__pipe_t *pipe) {
    static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":"
                               "{\"code\":-32603,\"message\":\"Out of memory\"}}";

    write_line(pipe, text, sizeof(text) - 1);
}

/* One answer less to wait for; after the last, they leave. */
static void count_down(tdg__pipe_t *pipe, struct batch *batch) {
    if (--batch->expected > 0)
        return;
    tdg__text_put(&batch->answers.text, "]");
    if (batch->answers.text.error != 0)
        write_out_of_memory(pipe);
    else if (tdg__rope_len(&batch->answers) > 1)
        write_message(pipe, &batch->answers);
    /* Notifications share the outlet, so they are behind the answers. */
    tdg__acks_settle(&batch->acks, tdg__worker_engine(pipe->channel.worker),
                     pipe->session->feed.stream);
    destroy_batch(batch);
}

static void add_to_batch(tdg__pipe_t *pipe, struct batch *batch,
                         const tdg__rope_t *message) {
    tdg__text_put(&batch->answers.text, tdg__rope_len(&batch->answers) == 0 ? "[" : ",");
    tdg__rope_append(&batch->answers, message);
    count_down(pipe, batch);
}

static void notify(tdg__channel_t *channel, tdg__call_t *call, const char *text,
                   size_t len) {
    tdg__pipe_t *pipe = pipe_of(channel);

    (void)call;
    if (tdg__line_outlet(pipe->line)->queued <= MAX_QUEUED)
        write_line(pipe, text, len);
}

static void answer(tdg__channel_t *channel, tdg__call_t *call, const tdg__rope_t *message,
                   int code) {
    struct batch *batch = call != NULL ? tdg__call_mark(call) : channel->mark;

    (void)code;
    if (batch != NULL)
        add_to_batch(pipe_of(channel), batch, message);
    else
        write_message(pipe_of(channel), message);
}

static void cancelled(tdg__channel_t *channel, void *mark) {
    if (mark != NULL)
        count_down(pipe_of(channel), mark);
}

static const tdg__channel_ops_t ops = {
    .notify = notify, .answer = answer, .cancelled = cancelled};

static void refuse(tdg__pipe_t *pipe, const char *id, int code, const char *message) {
    tdg__rpc_error_t error = {0};

    tdg__rpc_error_set(&error, code, NULL, "%s", message);
    tdg__channel_refuse(&pipe->channel, id, &error);
}

/* ---- Reading ------------------------------------------------------------ */

static bool era_is_off(const tdg__pipe_t *pipe, unsigned flag) {
    return (tdg__server_opts(tdg__worker_server(pipe->channel.worker))->flags & flag) !=
           0;
}

static bool in_flight(const tdg__pipe_t *pipe, const char *id) {
    return tdg__channel_find(&pipe->channel, id) != NULL ||
           tdg__listen_find(pipe->listens, id) != NULL;
}

static void open_listen(tdg__pipe_t *pipe, const tdg__mcp_request_t *request) {
    tdg__rpc_error_t error = {0};
    tdg__listen_opts_t opts = {
        .worker = pipe->channel.worker,
        .outlet = tdg__line_outlet(pipe->line),
        .pipe = &pipe->listens,
    };

    if (tdg__listen_open(&opts, request, &error) < 0)
        tdg__channel_refuse(&pipe->channel, request->id, &error);
}

/* Its batch, if any, has one answer less to wait for. */
static void cancel_modern(tdg__pipe_t *pipe, tdg__call_t *call) {
    void *mark = tdg__call_mark(call);

    tdg__call_cancel(call);
    cancelled(&pipe->channel, mark);
}

static void cancel(tdg__pipe_t *pipe, const char *id) {
    tdg__listen_t *listen = tdg__listen_find(pipe->listens, id);
    tdg__call_t *call = tdg__channel_find(&pipe->channel, id);

    if (listen != NULL)
        tdg__listen_cancel(listen);
    else if (call != NULL && tdg__version_modern(tdg__call_version(call)))
        cancel_modern(pipe, call);
    else if (call != NULL)
        tdg__legacy_cancel(pipe->session, call);
}

static void serve_modern(tdg__pipe_t *pipe, const tdg__rpc_message_t *message) {
    tdg_server_t *server = tdg__worker_server(pipe->channel.worker);
    const tdg_server_opts_t *opts = tdg__server_opts(server);
    tdg__rpc_error_t error = {0};
    tdg__mcp_request_t request;

    if (tdg__mcp_read_modern(message, !era_is_off(pipe, TDG_NO_LEGACY), &request,
                             &error) < 0) {
        tdg__trace_rejected(server, NULL, message, &error);
        if (message->kind == TDG__RPC_REQUEST)
            tdg__channel_refuse(&pipe->channel, message->id, &error);
        tdg__rpc_error_done(&error);
    } else if (message->kind == TDG__RPC_NOTIFICATION) {
        if (request.method == TDG__M_CANCELLED && request.cancels != NULL)
            cancel(pipe, request.cancels);
    } else if (in_flight(pipe, request.id)) {
        refuse(pipe, request.id, TDG__RPC_INVALID_REQUEST,
               "A request with this id is being answered already");
    } else if (pipe->channel.call_count >= opts->max_calls) {
        tdg__server_log_event(server, TDG__EVENT_CALL_REFUSED, NULL);
        refuse(pipe, request.id, TDG__RPC_INTERNAL,
               "Too many requests are being answered");
    } else if (request.method != TDG__M_LISTEN) {
        tdg__modern_serve(&pipe->channel, &request, NULL, NULL);
    } else if (pipe->channel.mark != NULL) { /* the others would wait for its end */
        refuse(pipe, request.id, TDG__RPC_INVALID_REQUEST,
               "subscriptions/listen must not be part of a batch");
    } else if (tdg__listen_count(pipe->listens) >= opts->max_streams) {
        tdg__server_log_event(server, TDG__EVENT_STREAM_REFUSED, NULL);
        refuse(pipe, request.id, TDG__RPC_INTERNAL,
               "Too many streams on this connection");
    } else {
        open_listen(pipe, &request);
    }
}

/* Notifications without modern _meta may be about a modern request (a cancellation, say)
 * or belong to the legacy session: ids are unique in the pipe, so both may look. */
static void serve_legacy(tdg__pipe_t *pipe, const tdg__rpc_message_t *message) {
    if (pipe->session == NULL) {
        tdg__sessions_t *sessions = tdg__worker_sessions(pipe->channel.worker);

        if (tdg__session_create(sessions, TDG__SESSION_PIPE, pipe->channel.erlmcp, NULL,
                                &pipe->session) < 0) {
            if (message->kind == TDG__RPC_REQUEST)
                refuse(pipe, message->id, TDG__RPC_INTERNAL,
                       "The server cannot take one more session");
            return;
        }
        pipe->session->home = &pipe->channel;
        tdg__feed_attach(&pipe->session->feed, tdg__line_outlet(pipe->line));
    }
    if (message->kind == TDG__RPC_REQUEST &&
        tdg__listen_find(pipe->listens, message->id) != NULL)
        refuse(pipe, message->id, TDG__RPC_INVALID_REQUEST,
               "A request with this id is being answered already");
    else
        tdg__legacy_serve(pipe->session, &pipe->channel, message);
}

static bool cancels_listen(tdg__pipe_t *pipe, const tdg__rpc_message_t *message) {
    tdg__rpc_error_t error = {0};
    tdg__mcp_request_t request;

    if (message->kind != TDG__RPC_NOTIFICATION || pipe->listens == NULL)
        return false;
    if (tdg__mcp_read_legacy(message, TDG__V_LATEST_LEGACY, &request, &error) < 0) {
        tdg__rpc_error_done(&error);
        return false;
    }
    if (request.method != TDG__M_CANCELLED || request.cancels == NULL ||
        tdg__listen_find(pipe->listens, request.cancels) == NULL)
        return false;
    cancel(pipe, request.cancels);
    return true;
}

static void serve(tdg__pipe_t *pipe, json_t *value) {
    tdg__rpc_error_t error = {0};
    tdg__rpc_message_t message;

    if (tdg__rpc_read(value, &message, &error) < 0) {
        tdg__channel_refuse(&pipe->channel, message.id, &error);
        tdg__rpc_error_done(&error);
        return;
    }
    tdg__worker_count_request(pipe->channel.worker);
    if (message.kind == TDG__RPC_RESPONSE)
        ;
    else if (tdg__mcp_is_modern(&message) && !era_is_off(pipe, TDG_NO_MODERN))
        serve_modern(pipe, &message);
    else if (era_is_off(pipe, TDG_NO_LEGACY))
        serve_modern(pipe, &message);
    else if (!cancels_listen(pipe, &message))
        serve_legacy(pipe, &message);
    tdg__rpc_message_done(&message);
}

/* Only 2025-03-26 has batches. */
static void serve_batch(tdg__pipe_t *pipe, json_t *values) {
    bool allowed = pipe->session != NULL && pipe->session->version == TDG__V2025_03_26;
    unsigned expected = tdg__count_answers(values);
    struct batch *batch = NULL;
    json_t *value;
    size_t i;

    if (!allowed || json_array_size(values) == 0) {
        refuse(pipe, NULL, TDG__RPC_INVALID_REQUEST,
               allowed ? "An empty batch" : "Batches exist in protocol 2025-03-26 only");
        return;
    }
    if (tdg__batch_too_long(tdg__server_opts(tdg__worker_server(pipe->channel.worker)),
                            values)) {
        refuse(pipe, NULL, TDG__RPC_INVALID_REQUEST, "The batch has too many parts");
        return;
    }
    if (expected > 0) {
        batch = create_batch(pipe, expected + 1); /* it lives until all are served */
        if (batch == NULL) {
            refuse(pipe, NULL, TDG__RPC_INTERNAL, "Out of memory");
            return;
        }
    }
    json_array_foreach(values, i, value) {
        pipe->channel.mark = batch;
        serve(pipe, value);
    }
    pipe->channel.mark = NULL;
    if (batch != NULL)
        count_down(pipe, batch);
}

static void on_line(void *user, const char *data, size_t len) {
    tdg__pipe_t *pipe = user;
    tdg__json_limits_t limits =
        tdg__message_limits(tdg__server_opts(tdg__worker_server(pipe->channel.worker)));
    tdg__parse_error_t why = {0};
    tdg__rpc_error_t error = {0};
    json_t *value;

    tdg__worker_refresh(pipe->channel.worker);
    if (pipe->finishing)
        return;
    if (data == NULL) {
        refuse(pipe, NULL, TDG__RPC_INVALID_REQUEST, "The message is too long");
        return;
    }

    int rv = tdg__json_parse(data, len, &limits, &value, &why);
    if (rv < 0) {
        tdg__json_error_set(&error, rv, &why);
        tdg__channel_refuse(&pipe->channel, NULL, &error);
        return;
    }
    if (json_is_array(value))
        serve_batch(pipe, value);
    else
        serve(pipe, value);
    json_decref(value);
}

bool tdg__pipe_acknowledges(const tdg__call_t *call, const tdg__target_t *target) {
    struct batch *batch = tdg__call_channel(call) != NULL ? tdg__call_mark(call) : NULL;

    return batch != NULL && tdg__acks_add(&batch->acks, target);
}

/* ---- Life --------------------------------------------------------------- */

static void on_drained(void *user) {
    tdg__pipe_t *pipe = user;

    tdg__worker_refresh(pipe->channel.worker);
    if (tdg__line_outlet(pipe->line)->broken)
        tdg__worker_pipe_ended(pipe->channel.worker);
    tdg__line_pause(pipe->line, false);
    if (pipe->session != NULL)
        tdg__feed_drained(&pipe->session->feed);
    tdg__listens_drained(pipe->listens);
}

static void on_ended(void *user) {
    tdg__pipe_t *pipe = user;

    tdg__worker_pipe_ended(pipe->channel.worker);
}

int tdg__pipe_open(tdg__worker_t *worker, int input, int output, bool erlmcp,
                   tdg__pipe_t **ret) {
    static const tdg__line_calls_t calls = {on_line, on_drained, on_ended};
    const tdg_server_opts_t *opts = tdg__server_opts(tdg__worker_server(worker));
    tdg__pipe_t *pipe = tdg__calloc(1, sizeof(*pipe));
    if (pipe == NULL)
        return TDG_ENOMEM;

    tdg__channel_init(&pipe->channel, &ops, worker, erlmcp);
    int rv = tdg__line_open(tdg__worker_net(worker), input, output,
                            opts->max_message_bytes, &calls, pipe, &pipe->line);
    if (rv < 0) {
        tdg__free(pipe);
        return rv;
    }
    *ret = pipe;
    return 0;
}

void tdg__pipe_stop(tdg__pipe_t *pipe) {
    pipe->finishing = true;
}

void tdg__pipe_finish(tdg__pipe_t *pipe) {
    tdg__listens_finish(pipe->listens);
}

bool tdg__pipe_busy(const tdg__pipe_t *pipe) {
    const tdg__outlet_t *outlet = tdg__line_outlet(pipe->line);

    return !outlet->broken &&
           (pipe->channel.call_count > 0 || outlet->queued > 0 || pipe->listens != NULL ||
            (pipe->session != NULL && tdg__feed_has_more(&pipe->session->feed)));
}

static void on_closed(void *arg) {
    tdg__pipe_t *pipe = arg;

    pipe->done(pipe->done_arg);
    tdg__free(pipe);
}

void tdg__pipe_close(tdg__pipe_t *pipe, uint32_t timeout_ms, void (*done)(void *arg),
                     void *arg) {
    while (pipe->listens != NULL)
        tdg__listen_cancel(pipe->listens);
    while (pipe->batches != NULL)
        destroy_batch(pipe->batches);
    tdg__channel_done(&pipe->channel);
    if (pipe->session != NULL) {
        pipe->session->home = NULL;
        tdg__session_destroy(pipe->session);
    }
    pipe->done = done;
    pipe->done_arg = arg;
    tdg__line_close(pipe->line, timeout_ms, on_closed, pipe);
}
