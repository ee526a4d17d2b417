/* SPDX-License-Identifier: MIT */
#include "server/get.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "mcp/cursor.h"
#include "mcp/notice.h"
#include "server/post.h"
#include "server/sse.h"

struct tdg__get {
    tdg__sse_link_t link; /* in the session's list */
    tdg__occupant_t occupant;
    tdg__session_t *session; /* NULL: it is being ended */
    tdg__conn_t *conn;
    tdg__cursor_t began; /* where the session was when this stream began */
    uint64_t began_event;
    uint32_t number;
    bool accounted; /* its client has said how far it has read this stream */
};

/* A session of 2024-11-05 has one stream and one channel for as long as it lives. */
struct old_sse {
    tdg__get_t get;
    tdg__channel_t channel;
};

static tdg__get_t *occupies(tdg__occupant_t *occupant) {
    return (tdg__get_t *)((char *)occupant - offsetof(tdg__get_t, occupant));
}

static struct old_sse *old_sse_of(tdg__get_t *get) {
    return (struct old_sse *)((char *)get - offsetof(struct old_sse, get));
}

/* ---- Streams of a session ----------------------------------------------- */

/* The newest stream is where notifications go. */
static void attach_newest(tdg__session_t *session) {
    tdg__get_t *newest = session->streams;

    if (newest == NULL) {
        tdg__feed_attach(&session->feed, NULL);
        return;
    }
    newest->accounted = false; /* not for what it carries from now on */
    session->feed.stream_number = newest->number;
    session->began = newest->began;
    session->began_event = newest->began_event;
    tdg__feed_attach(&session->feed, tdg__conn_outlet(newest->conn));
}

static void link_stream(tdg__session_t *session, tdg__get_t *get) {
    get->session = session;
    get->number = ++session->last_stream;
    get->began = tdg__feed_cursor(&session->feed);
    get->began_event = session->feed.event_number;
    session->streams = tdg__sse_link(session->streams, get);
    session->stream_count++;
}

static void unlink_stream(tdg__get_t *get) {
    tdg__session_t *session = get->session;

    session->streams = tdg__sse_unlink(session->streams, get);
    get->session = NULL;
    session->stream_count--;
}

static void destroy(tdg__get_t *get, tdg__session_kind_t kind) {
    if (kind == TDG__SESSION_SSE)
        tdg__channel_done(&old_sse_of(get)->channel);
    tdg__free(kind == TDG__SESSION_SSE ? (void *)old_sse_of(get) : (void *)get);
}

static void drained(tdg__occupant_t *occupant) {
    tdg__get_t *get = occupies(occupant);

    if (get->session->streams == get)
        tdg__feed_drained(&get->session->feed);
}

/* Whether a stream that goes may have lost events. While no other stream is left that is
 * the business of the next one, whose client says where it is; where the server stops, of
 * the next server. */
static bool may_have_lost(const tdg__get_t *get) {
    const tdg__session_t *session = get->session;
    const tdg__get_t *newer = get->link.newer;
    uint64_t last = newer != NULL ? newer->began_event : session->feed.event_number;

    return session->stream_count > 1 && !get->accounted && last > get->began_event &&
           !tdg__server_stopping(tdg__worker_server(session->feed.worker));
}

/* The session goes on without the stream: others carry what it may have lost. */
static void go_on_without(tdg__get_t *get) {
    tdg__session_t *session = get->session;
    bool lost = may_have_lost(get);

    unlink_stream(get);
    if (lost && tdg__session_rewind(session, get->began) < 0) {
        tdg__session_destroy(session);
        return;
    }
    if (lost) { /* it carries that from now on, and may lose it as well */
        tdg__get_t *newest = session->streams;

        newest->began = tdg__cursor_lower(newest->began, get->began);
        newest->accounted = false;
    }
    attach_newest(session);
    tdg__session_touch(session);
}

/* A session of 2024-11-05 ends with its stream. */
static void closed(tdg__occupant_t *occupant) {
    tdg__get_t *get = occupies(occupant);
    tdg__session_t *session = get->session;
    tdg__session_kind_t kind = session->kind;

    if (kind == TDG__SESSION_SSE) {
        unlink_stream(get);
        tdg__feed_attach(&session->feed, NULL);
        tdg__channel_done(
            &old_sse_of(get)->channel); /* nothing can be answered any more */
        session->home = NULL;
        tdg__session_destroy(session);
    } else {
        go_on_without(get);
    }
    destroy(get, kind);
}

/* The newest stream carries what the session has. */
static bool has_more(const tdg__occupant_t *occupant) {
    const tdg__get_t *get =
        (const tdg__get_t *)((const char *)occupant - offsetof(tdg__get_t, occupant));

    return get->session->streams == get && tdg__feed_has_more(&get->session->feed);
}

/* Says when to come back, and ends the stream. */
static void end_stream(tdg__get_t *get) {
    char text[TDG__SSE_RETRY_MAX + 1];
    size_t len = tdg__sse_put_retry(get->session->feed.worker, text);

    text[len++] = '\n';
    tdg__outlet_piece(tdg__conn_outlet(get->conn), text, len);
    tdg__conn_set_user(get->conn, NULL);
    tdg__conn_end(get->conn);
}

static void finish(tdg__occupant_t *occupant) {
    end_stream(occupies(occupant));
    closed(occupant);
}

void tdg__gets_close(tdg__session_t *session) {
    while (session->streams != NULL) {
        tdg__get_t *get = session->streams;

        end_stream(get);
        unlink_stream(get);
        destroy(get, session->kind);
    }
    session->home = NULL;
}

static void init(tdg__get_t *get, tdg__worker_t *worker, tdg__conn_t *conn) {
    get->occupant.drained = drained;
    get->occupant.closed = closed;
    get->occupant.has_more = has_more;
    get->occupant.finish = finish;
    get->occupant.streaming = true;
    get->occupant.started_ms = tdg__worker_now(worker);
    get->conn = conn;
}

/* ---- GET on /mcp -------------------------------------------------------- */

static void account(tdg__session_t *session, uint32_t number) {
    for (tdg__get_t *get = session->streams; get != NULL; get = get->link.older)
        get->accounted |= get->number == number;
}

/* Goes back to where the client says it is, unless it has seen the last event. An id that
 * we cannot read, or never gave out, says nothing: everything counts as changed. Without
 * an id the client may have missed all that its last stream has carried; where that is
 * still there, it is looked at when it goes. */
static int rewind_to(tdg__session_t *session, const char *last_event_id,
                     tdg__event_id_t *id) {
    if (last_event_id == NULL || last_event_id[0] == '\0') {
        if (session->streams != NULL ||
            session->feed.event_number <= session->began_event)
            return 0;
        session->owes = false; /* the last stream carried that, too */
        return tdg__session_rewind(session, session->began);
    }
    if (tdg__event_id_read(last_event_id, id) < 0)
        return tdg__session_rewind(session, (tdg__cursor_t){0, 0});
    if (id->post)
        return 0;
    account(session, id->stream);
    if (id->event > session->owed_event)
        session->owes = false;
    if (id->stream == session->feed.stream_number &&
        id->event == session->feed.event_number)
        return 0;
    tdg__cursor_t cursor = {id->epoch, id->number};

    return tdg__session_rewind(
        session, tdg__hub_known_cursor(
                     tdg__server_hub(tdg__worker_server(session->feed.worker)), cursor));
}

static void put_opening(tdg__session_t *session, uint32_t stream, tdg__text_t *text) {
    tdg__cursor_t cursor = tdg__feed_cursor(&session->feed);
    tdg__event_id_t event = {
        .stream = stream, .epoch = cursor.epoch, .number = cursor.number};

    tdg__sse_put_opening(session->feed.worker,
                         session->version < TDG__V2025_11_25 ? NULL : &event, text);
}

static int open_stream(tdg__session_t *session, tdg__conn_t *conn, const char *fields) {
    tdg__text_t opening;
    tdg__get_t *get = tdg__calloc(1, sizeof(*get));
    if (get == NULL)
        return TDG_ENOMEM;

    tdg__text_init(&opening, SIZE_MAX);
    put_opening(session, session->last_stream + 1, &opening);
    if (opening.error != 0) {
        tdg__text_done(&opening);
        tdg__free(get);
        return TDG_ENOMEM;
    }
    init(get, session->feed.worker, conn);
    link_stream(session, get);
    tdg__conn_set_user(conn, &get->occupant);
    tdg__conn_begin(conn, fields, opening.data, opening.len);
    tdg__text_done(&opening);
    attach_newest(session);
    return 0;
}

int tdg__get_open(tdg__session_t *session, tdg__conn_t *conn, const char *last_event_id,
                  const char *fields) {
    const tdg_server_opts_t *opts =
        tdg__server_opts(tdg__worker_server(session->feed.worker));
    tdg__event_id_t id = {0};

    if (session->stream_count >= opts->max_streams)
        return TDG_ESTREAMS;
    if (rewind_to(session, last_event_id, &id) < 0) {
        tdg__session_destroy(session);
        return TDG_EENDED;
    }
    tdg__session_touch(session);
    tdg__session_came_back(session);
    if (id.post)
        return tdg__post_resume(session, &id, conn, fields);
    return open_stream(session, conn, fields);
}

/* ---- 2024-11-05 --------------------------------------------------------- */

/* What may wait for a client that posts and does not read. Answers count as large ones
 * do once there are 64 KiB of them (limits.h). */
enum {
    CROWDED = 1 << 20,      /* bytes; then even small reads are refused as busy */
    MAX_COPIED = 256 << 10, /* bytes that do not count (messages of errors, mostly); then
                               the stream is closed */
    MAX_QUEUED = 8 << 20,   /* bytes of large answers; the same */
};

static struct old_sse *channel_of(const tdg__channel_t *channel) {
    return (struct old_sse *)((uintptr_t)channel - offsetof(struct old_sse, channel));
}

static size_t old_uncounted(const tdg__channel_t *channel) {
    return tdg__outlet_copied(tdg__conn_outlet(channel_of(channel)->get.conn));
}

static bool old_crowded(const tdg__channel_t *channel) {
    const tdg__outlet_t *outlet = tdg__conn_outlet(channel_of(channel)->get.conn);

    return outlet->queued > CROWDED || tdg__outlet_copied(outlet) > MAX_COPIED / 4 * 3;
}

static void old_answer(tdg__channel_t *channel, tdg__call_t *call,
                       const tdg__rope_t *message, int code) {
    struct old_sse *old = channel_of(channel);
    tdg__outlet_t *outlet = tdg__conn_outlet(old->get.conn);
    tdg__rope_t event;

    (void)call, (void)code;
    tdg__rope_init(&event, SIZE_MAX);
    tdg__put_event_start(&event.text, NULL, NULL);
    tdg__rope_append(&event, message);
    tdg__text_put(&event.text, "\n\n");
    if (event.text.error == 0 && tdg__outlet_copied(outlet) < MAX_COPIED &&
        outlet->queued < MAX_QUEUED)
        tdg__outlet_piece_rope(outlet, &event);
    else
        tdg__conn_close(old->get.conn);
    tdg__rope_done(&event);
}

static void old_notify(tdg__channel_t *channel, tdg__call_t *call, const char *text,
                       size_t len) {
    tdg__rope_t message = {
        .text = {.data = (char *)(uintptr_t)text, .len = len}
    };

    /* Progress and log messages are left out first, so that the answer has its place. */
    if (old_uncounted(channel) > MAX_COPIED / 2)
        return;
    old_answer(channel, call, &message, 0);
}

static const tdg__channel_ops_t old_ops = {.notify = old_notify,
                                           .answer = old_answer,
                                           .uncounted = old_uncounted,
                                           .crowded = old_crowded};

int tdg__old_sse_open(tdg__worker_t *worker, tdg__conn_t *conn, bool erlmcp,
                      const tdg__address_t *caller, const char *fields) {
    static const char endpoint[] = "event: endpoint\ndata: /messages?sessionId=";
    char opening[sizeof(endpoint) + TDG__SESSION_ID + 2];
    tdg__session_t *session;
    struct old_sse *old = tdg__calloc(1, sizeof(*old));
    if (old == NULL)
        return TDG_ENOMEM;

    int rv = tdg__session_create(tdg__worker_sessions(worker), TDG__SESSION_SSE, erlmcp,
                                 caller, &session);
    if (rv < 0) {
        tdg__free(old);
        return rv;
    }
    init(&old->get, worker, conn);
    tdg__channel_init(&old->channel, &old_ops, worker, erlmcp);
    old->channel.client = (uintptr_t)session;
    session->home = &old->channel;
    link_stream(session, &old->get);
    tdg__conn_set_user(conn, &old->get.occupant);

    size_t len = sizeof(endpoint) - 1;
    memcpy(opening, endpoint, len);
    memcpy(opening + len, session->id, TDG__SESSION_ID);
    memcpy(opening + len + TDG__SESSION_ID, "\n\n", 2);
    tdg__conn_begin(conn, fields, opening, len + TDG__SESSION_ID + 2);
    attach_newest(session);
    return 0;
}

tdg__channel_t *tdg__old_sse_channel(tdg__session_t *session) {
    return session->home;
}
