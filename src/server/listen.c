/* SPDX-License-Identifier: MIT */
#include "server/listen.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "server/target.h"

struct tdg__listen {
    tdg__feed_t feed;
    tdg__occupant_t occupant;
    tdg__conn_t *conn;            /* NULL: in a pipe */
    tdg__listen_t *next, **place; /* in a pipe */
    json_t *uris;                 /* honoured so far; NULL once acknowledged */
    unsigned waiting;             /* watchers that have not answered */
    const char *fields;           /* while opening: header lines of the response */
    bool opening;                 /* nothing has been written yet */
    bool acknowledged;
    bool tools, prompts, resources;
    bool asked_uris, had_cursor, resumed;
    char id[]; /* JSON text */
};

static tdg__listen_t *listen_of(tdg__feed_t *feed) {
    return (tdg__listen_t *)((char *)feed - offsetof(tdg__listen_t, feed));
}

static tdg__listen_t *occupies(tdg__occupant_t *occupant) {
    return (tdg__listen_t *)((char *)occupant - offsetof(tdg__listen_t, occupant));
}

static void destroy(tdg__listen_t *listen) {
    tdg__feed_close(&listen->feed);
    if (listen->conn != NULL)
        tdg__conn_set_user(listen->conn, NULL);
    if (listen->place != NULL) {
        *listen->place = listen->next;
        if (listen->next != NULL)
            listen->next->place = listen->place;
    }
    json_decref(listen->uris);
    tdg__free(listen);
}

/* ---- Acknowledging ------------------------------------------------------ */

/* Writes one message in the framing of the listen. Returns 0, TDG_EAGAIN or an error. */
static int write_message(tdg__listen_t *listen, const tdg__text_t *message) {
    tdg__text_t framed;

    if (message->error != 0)
        return message->error;
    tdg__text_init(&framed, SIZE_MAX);
    if (listen->conn != NULL) {
        tdg__put_event(&framed, NULL, NULL, message->data, message->len);
    } else {
        tdg__text_add(&framed, message->data, message->len);
        tdg__text_put(&framed, "\n");
    }
    int rv = framed.error;
    if (rv == 0 && listen->opening && listen->conn != NULL)
        rv = tdg__conn_begin(listen->conn, listen->fields, framed.data, framed.len);
    else if (rv == 0)
        rv = tdg__outlet_piece(listen->feed.outlet, framed.data, framed.len);
    tdg__text_done(&framed);
    return rv;
}

/* The connection is cut, so that the client notices. */
static void fail(tdg__listen_t *listen) {
    tdg__conn_t *conn = listen->conn;
    tdg__worker_t *worker = listen->feed.worker;

    destroy(listen);
    if (conn != NULL)
        tdg__conn_close(conn);
    else
        tdg__worker_pipe_ended(worker);
}

/* All watchers have answered. From here on notifications may follow: they go by the same
 * outlet, behind the acknowledgement. */
static void acknowledge(tdg__listen_t *listen) {
    tdg__cursor_t cursor = tdg__feed_cursor(&listen->feed);
    tdg__text_t text;
    tdg__ack_t ack = {
        .subscription = listen->id,
        .tools = listen->tools,
        .prompts = listen->prompts,
        .resources = listen->resources,
        .uris = listen->asked_uris ? listen->uris : NULL,
        .epoch = cursor.epoch,
        .number = cursor.number,
        .had_cursor = listen->had_cursor,
        .resumed = listen->resumed,
    };

    tdg__text_init(&text, SIZE_MAX);
    tdg__put_acknowledged(&text, &ack);
    int rv = write_message(listen, &text);
    tdg__text_done(&text);
    if (rv < 0 && rv != TDG_EAGAIN) {
        fail(listen);
        return;
    }

    json_decref(listen->uris);
    listen->uris = NULL;
    listen->fields = NULL;
    listen->opening = false;
    listen->acknowledged = true;
    tdg__engine_acknowledge(tdg__worker_engine(listen->feed.worker), listen->feed.stream,
                            NULL);
    tdg__feed_attach(&listen->feed, listen->feed.outlet);
}

/* ---- Subscribing -------------------------------------------------------- */

static void honour_list(tdg__listen_t *listen, const char *name, bool asked, bool *ret) {
    tdg__worker_t *worker = listen->feed.worker;
    unsigned flags = tdg__server_opts(tdg__worker_server(worker))->flags;
    tdg__target_t list = tdg__target_list(name);
    tdg__subscribed_t subscribed;

    if (!asked || (flags & TDG_NO_LIST_CHANGED) != 0)
        return;
    if (tdg__engine_subscribe(tdg__worker_engine(worker), listen->feed.stream, &list,
                              NULL, &subscribed) < 0)
        return;
    *ret = true;
    if (subscribed.state == TDG__SUBSCRIBING)
        listen->waiting++;
}

/* Subscribes to one URI, or leaves it out: who asked does not learn why. Returns 0, or an
 * error that is the client's fault or ours. */
static int honour_uri(tdg__listen_t *listen, json_t *uri, const tdg__sub_opts_t *opts) {
    tdg__worker_t *worker = listen->feed.worker;
    tdg__engine_t *engine = tdg__worker_engine(worker);
    tdg__subscribed_t subscribed = {TDG__NOT_SUBSCRIBED, true};
    tdg__resolved_t resolved;

    int rv = tdg__resolve(tdg__worker_server(worker), json_string_value(uri), &resolved);
    if (rv < 0)
        return rv == TDG_ENOMEM ? rv : 0;

    bool again = tdg__engine_state(engine, listen->feed.stream, &resolved.target) !=
                 TDG__NOT_SUBSCRIBED;
    if (!again)
        rv = tdg__engine_subscribe(engine, listen->feed.stream, &resolved.target, opts,
                                   &subscribed);
    tdg__resolved_done(&resolved);
    if (again)
        return 0;
    if (rv < 0)
        return rv == TDG_ENOMEM || tdg__wishes_blamed(rv, opts->error, NULL) ? rv : 0;
    if (subscribed.state == TDG__SUBSCRIBING)
        listen->waiting++;
    listen->resumed &= subscribed.resumed;
    return json_array_append(listen->uris, uri) == 0 ? 0 : TDG_ENOMEM;
}

static int honour_all(tdg__listen_t *listen, const tdg__mcp_request_t *request,
                      tdg__parse_error_t *why) {
    unsigned flags = tdg__server_opts(tdg__worker_server(listen->feed.worker))->flags;
    tdg__sub_opts_t opts;
    json_t *uri;
    size_t i;
    int rv = 0;

    honour_list(listen, "tools", request->listen_tools, &listen->tools);
    honour_list(listen, "prompts", request->listen_prompts, &listen->prompts);
    honour_list(listen, "resources", request->listen_resources, &listen->resources);
    if (request->listen_uris == NULL || (flags & TDG_NO_SUBSCRIBE) != 0)
        return 0;
    listen->asked_uris = true;
    listen->had_cursor = request->wishes.cursor != NULL;
    tdg__wishes_to_opts(&request->wishes, why, &opts);
    json_array_foreach(request->listen_uris, i, uri) {
        rv = honour_uri(listen, uri, &opts);
        if (rv < 0)
            break;
    }
    return rv;
}

/* ---- What happens to it ------------------------------------------------- */

/* A target whose watcher could not be armed is not honoured. */
static void leave_out(tdg__listen_t *listen, const tdg__target_t *target) {
    tdg_server_t *server = tdg__worker_server(listen->feed.worker);
    json_t *uri;
    size_t i;

    json_array_foreach(listen->uris, i, uri) {
        tdg__resolved_t resolved;

        if (tdg__resolve(server, json_string_value(uri), &resolved) < 0)
            continue;
        bool same = resolved.target.kind == target->kind &&
                    resolved.target.len == target->len &&
                    memcmp(resolved.target.name, target->name, target->len) == 0;
        tdg__resolved_done(&resolved);
        if (same) {
            json_array_remove(listen->uris, i);
            return;
        }
    }
}

static void feed_settled(tdg__feed_t *feed, const tdg__target_t *target, int status,
                         bool resumed) {
    tdg__listen_t *listen = listen_of(feed);

    if (listen->acknowledged || listen->waiting == 0)
        return; /* a watcher that failed later: nothing more can be said */
    listen->resumed &= resumed;
    if (status < 0 && status != TDG_ETIMEDOUT)
        leave_out(listen, target);
    if (--listen->waiting == 0 && !listen->opening)
        acknowledge(listen);
}

static void feed_ended(tdg__feed_t *feed, int reason) {
    (void)reason;
    tdg__listen_complete(listen_of(feed));
}

static void feed_failed(tdg__feed_t *feed) {
    fail(listen_of(feed));
}

static const tdg__feed_ops_t feed_ops = {feed_ended, feed_settled, feed_failed};

static void drained(tdg__occupant_t *occupant) {
    tdg__feed_drained(&occupies(occupant)->feed);
}

static void closed(tdg__occupant_t *occupant) {
    tdg__listen_t *listen = occupies(occupant);

    listen->conn = NULL;
    destroy(listen);
}

static void finish(tdg__occupant_t *occupant) {
    tdg__listen_complete(occupies(occupant));
}

void tdg__listen_complete(tdg__listen_t *listen) {
    tdg__conn_t *conn = listen->conn;
    tdg__text_t text;

    tdg__text_init(&text, SIZE_MAX);
    tdg__put_listen_complete(&text, listen->id, tdg__worker_info(listen->feed.worker));
    int rv = write_message(listen, &text);
    if (conn == NULL && (rv == 0 || rv == TDG_EAGAIN)) {
        tdg__text_clear(&text);
        tdg__put_cancelled(&text, listen->id, "the server has ended the subscription");
        write_message(listen, &text);
    }
    tdg__text_done(&text);
    destroy(listen);
    if (conn != NULL)
        tdg__conn_end(conn);
}

void tdg__listen_cancel(tdg__listen_t *listen) {
    destroy(listen);
}

/* ---- Opening ------------------------------------------------------------ */

static tdg__listen_t *create(const tdg__listen_opts_t *opts,
                             const tdg__mcp_request_t *request) {
    size_t len = strlen(request->id);
    tdg__listen_t *listen = tdg__calloc(1, sizeof(*listen) + len + 1);
    if (listen == NULL)
        return NULL;

    memcpy(listen->id, request->id, len);
    listen->resumed = true;
    listen->opening = true;
    listen->uris = json_array();
    if (listen->uris == NULL ||
        tdg__feed_open(&listen->feed, opts->worker, &feed_ops) < 0) {
        json_decref(listen->uris);
        tdg__free(listen);
        return NULL;
    }
    listen->feed.subscription = listen->id;
    listen->feed.subscription_len = (uint32_t)len;
    listen->feed.frame = opts->conn != NULL ? TDG__FRAME_SSE : TDG__FRAME_LINE;
    listen->feed.form = opts->erlmcp ? TDG__FORM_ERLMCP : TDG__FORM_STANDARD;
    return listen;
}

static void occupy(tdg__listen_t *listen, const tdg__listen_opts_t *opts) {
    if (opts->conn == NULL) {
        listen->next = *opts->pipe;
        listen->place = opts->pipe;
        if (listen->next != NULL)
            listen->next->place = &listen->next;
        *opts->pipe = listen;
        tdg__feed_attach(&listen->feed, opts->outlet);
        return;
    }
    listen->conn = opts->conn;
    listen->fields = opts->fields;
    listen->occupant.drained = drained;
    listen->occupant.closed = closed;
    listen->occupant.finish = finish;
    listen->occupant.streaming = true;
    listen->occupant.started_ms = tdg__worker_now(opts->worker);
    tdg__conn_set_user(opts->conn, &listen->occupant);
    tdg__feed_attach(&listen->feed, tdg__conn_outlet(opts->conn));
}

int tdg__listen_open(const tdg__listen_opts_t *opts, const tdg__mcp_request_t *request,
                     tdg__rpc_error_t *error) {
    tdg__parse_error_t why = {0};
    tdg__listen_t *listen = create(opts, request);

    if (listen == NULL) {
        tdg__rpc_error_set(error, TDG__RPC_INTERNAL, NULL,
                           "The server cannot take one more stream");
        return TDG_EINVAL;
    }

    int rv = honour_all(listen, request, &why);
    if (rv < 0) {
        if (!tdg__wishes_blamed(rv, &why, error))
            tdg__rpc_error_set(error, TDG__RPC_INTERNAL, NULL, "%s", tdg_strerror(rv));
        destroy(listen);
        return TDG_EINVAL;
    }
    occupy(listen, opts);
    if (listen->waiting == 0) {
        acknowledge(listen);
        return 0;
    }
    /* The first byte leaves at once, so that nobody on the way gives up. */
    if (listen->conn != NULL)
        tdg__conn_begin(listen->conn, opts->fields, ":\n\n", 3);
    listen->opening = false;
    listen->fields = NULL;
    return 0;
}

/* ---- In a pipe ---------------------------------------------------------- */

tdg__listen_t *tdg__listen_find(tdg__listen_t *first, const char *id) {
    while (first != NULL && strcmp(first->id, id) != 0)
        first = first->next;
    return first;
}

size_t tdg__listen_count(const tdg__listen_t *first) {
    size_t count = 0;

    for (; first != NULL; first = first->next)
        count++;
    return count;
}

void tdg__listens_drained(tdg__listen_t *first) {
    for (; first != NULL; first = first->next)
        tdg__feed_drained(&first->feed);
}
