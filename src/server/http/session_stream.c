/* SPDX-License-Identifier: MIT */
#include "server/http/session_stream.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "mcp/cursor.h"
#include "mcp/notice.h"
#include "server/http/occupant.h"
#include "server/http/post_channel.h"
#include "server/http/sse.h"

struct stream {
    tdg__queue_t link; /* in the session's list */
    tdg__occupant_t occupant;
    tdg__session_t *session; /* NULL: it is being ended */
    tdg__exchange_t *exchange;
    tdg__cursor_t began; /* where the session was when this stream began */
    uint64_t began_event;
    uint32_t number;
    bool accounted; /* its client has said how far it has read this stream */
};

/* A session of 2024-11-05 has one stream and one channel for as long as it lives. */
struct old_sse {
    struct stream stream;
    tdg__channel_t channel;
};

static struct stream *occupies(const tdg__occupant_t *occupant) {
    return TDG__RECORD(struct stream, occupant, occupant);
}

static struct old_sse *old_sse_of(struct stream *stream) {
    return TDG__RECORD(struct old_sse, stream, stream);
}

/* ---- Streams of a session ----------------------------------------------- */

/* NULL: it has none. */
static struct stream *newest_of(const tdg__session_t *session) {
    return session->http.stream_count > 0
               ? TDG__RECORD(struct stream, link, session->http.streams.next)
               : NULL;
}

/* The newest stream is where notifications go. */
static void attach_newest(tdg__session_t *session) {
    struct stream *newest = newest_of(session);

    if (newest == NULL) {
        tdg__feed_attach(&session->feed, NULL);
        return;
    }
    newest->accounted = false; /* not for what it carries from now on */
    session->feed.stream_number = newest->number;
    session->http.began = newest->began;
    session->http.began_event = newest->began_event;
    tdg__feed_attach(&session->feed, &newest->exchange->outlet);
}

static void link_stream(tdg__session_t *session, struct stream *stream) {
    stream->session = session;
    stream->number = ++session->http.last_stream;
    stream->began = tdg__feed_cursor(&session->feed);
    stream->began_event = session->feed.event_number;
    tdg__queue_prepend(&session->http.streams, &stream->link);
    session->http.stream_count++;
}

static void unlink_stream(struct stream *stream) {
    tdg__session_t *session = stream->session;

    tdg__queue_remove(&stream->link);
    assert(session->http.stream_count > 0);
    stream->session = NULL;
    session->http.stream_count--;
}

static bool is_old_sse(const tdg__session_t *session) {
    return session->ops == &tdg__sse_session_ops;
}

static void destroy(struct stream *stream, bool old_sse) {
    if (old_sse)
        tdg__channel_done(&old_sse_of(stream)->channel);
    tdg__free(old_sse ? (void *)old_sse_of(stream) : (void *)stream);
}

static void drained(tdg__occupant_t *occupant) {
    struct stream *stream = occupies(occupant);

    if (newest_of(stream->session) == stream)
        tdg__feed_drained(&stream->session->feed);
}

/* Whether a stream that goes may have lost events. While no other stream is left that is
 * the business of the next one, whose client says where it is; where the server stops, of
 * the next server. */
static bool may_have_lost(const struct stream *stream) {
    const tdg__session_t *session = stream->session;
    uint64_t last =
        newest_of(session) == stream
            ? session->feed.event_number
            : TDG__RECORD(struct stream, link, stream->link.prev)->began_event;

    return session->http.stream_count > 1 && !stream->accounted &&
           last > stream->began_event &&
           !tdg__server_stopping(session->feed.worker->server);
}

/* The session goes on without the stream: others carry what it may have lost. */
static void go_on_without(struct stream *stream) {
    tdg__session_t *session = stream->session;
    bool lost = may_have_lost(stream);

    unlink_stream(stream);
    if (lost && tdg__session_rewind(session, stream->began) < 0) {
        tdg__session_destroy(session);
        return;
    }
    if (lost) { /* it carries that from now on, and may lose it as well */
        struct stream *newest = newest_of(session);

        newest->began = tdg__cursor_lower(newest->began, stream->began);
        newest->accounted = false;
    }
    attach_newest(session);
    tdg__session_touch(session);
}

/* A session of 2024-11-05 ends with its stream. */
static void closed(tdg__occupant_t *occupant) {
    struct stream *stream = occupies(occupant);
    tdg__session_t *session = stream->session;
    bool old_sse = is_old_sse(session);

    if (old_sse) {
        unlink_stream(stream);
        tdg__feed_attach(&session->feed, NULL);
        tdg__channel_done(
            &old_sse_of(stream)->channel); /* nothing can be answered any more */
        session->home = NULL;
        tdg__session_destroy(session);
    } else {
        go_on_without(stream);
    }
    destroy(stream, old_sse);
}

/* The newest stream carries what the session has, and what it will have once the engine
 * has heard of all acknowledgements: the client knows of those already. */
static bool has_more(const tdg__occupant_t *occupant) {
    const struct stream *stream = occupies(occupant);

    return newest_of(stream->session) == stream &&
           (tdg__feed_has_more(&stream->session->feed) ||
            tdg__posts_owe(stream->session));
}

/* Says when to come back, and ends the stream. */
static void end_stream(struct stream *stream) {
    char text[TDG__SSE_RETRY_MAX + 1];
    size_t len = tdg__sse_put_retry(stream->session->feed.worker, text);

    text[len++] = '\n';
    tdg__outlet_piece(&stream->exchange->outlet, text, len);
    stream->exchange->user = NULL;
    tdg__exchange_end(stream->exchange);
}

static void finish(tdg__occupant_t *occupant) {
    end_stream(occupies(occupant));
    closed(occupant);
}

static void close_session(tdg__session_t *session) {
    struct stream *stream;

    while ((stream = newest_of(session)) != NULL) {
        end_stream(stream);
        unlink_stream(stream);
        destroy(stream, is_old_sse(session));
    }
    session->home = NULL;
    tdg__posts_orphan(session);
}

static const tdg__occupant_ops_t occupant_ops = {
    .drained = drained,
    .closed = closed,
    .has_more = has_more,
    .finish = finish,
};

static void init(struct stream *stream, tdg__worker_t *worker,
                 tdg__exchange_t *exchange) {
    tdg__occupant_init(&stream->occupant, &occupant_ops, worker, true);
    stream->exchange = exchange;
}

/* ---- GET on /mcp -------------------------------------------------------- */

static void account(tdg__session_t *session, uint32_t number) {
    const tdg__queue_t *list = &session->http.streams;

    for (tdg__queue_t *link = list->next; link != list; link = link->next) {
        struct stream *stream = TDG__RECORD(struct stream, link, link);

        stream->accounted |= stream->number == number;
    }
}

/* Goes back to where the client says it is, unless it has seen the last event. An id that
 * we cannot read, or never gave out, says nothing: everything counts as changed. Without
 * an id the client may have missed all that its last stream has carried; where that is
 * still there, it is looked at when it goes. */
static int rewind_to(tdg__session_t *session, const char *last_event_id) {
    tdg__event_id_t id;

    if (last_event_id == NULL || last_event_id[0] == '\0') {
        if (session->http.stream_count > 0 ||
            session->feed.event_number <= session->http.began_event)
            return 0;
        session->owes = false; /* the last stream carried that, too */
        return tdg__session_rewind(session, session->http.began);
    }
    if (tdg__event_id_read(last_event_id, &id) < 0)
        return tdg__session_rewind(session, (tdg__cursor_t){0, 0});
    account(session, id.stream);
    if (id.event > session->owed_event)
        session->owes = false;
    if (id.stream == session->feed.stream_number &&
        id.event == session->feed.event_number)
        return 0;
    tdg__cursor_t cursor = {id.epoch, id.number};

    return tdg__session_rewind(
        session, tdg__hub_known_cursor(session->feed.worker->server->hub, cursor));
}

static void put_opening(tdg__session_t *session, uint32_t stream, tdg__text_t *text) {
    tdg__cursor_t cursor = tdg__feed_cursor(&session->feed);
    tdg__event_id_t event = {
        .stream = stream, .epoch = cursor.epoch, .number = cursor.number};

    tdg__sse_put_opening(session->feed.worker,
                         session->version < TDG__V2025_11_25 ? NULL : &event, text);
}

static int open_stream(tdg__session_t *session, tdg__exchange_t *exchange,
                       const char *fields) {
    tdg__text_t opening;
    struct stream *stream = tdg__calloc(1, sizeof(*stream));
    if (stream == NULL)
        return TDG_ENOMEM;

    tdg__text_init(&opening, SIZE_MAX);
    put_opening(session, session->http.last_stream + 1, &opening);
    if (opening.error != 0) {
        tdg__text_done(&opening);
        tdg__free(stream);
        return TDG_ENOMEM;
    }
    init(stream, session->feed.worker, exchange);
    link_stream(session, stream);
    exchange->user = &stream->occupant;
    tdg__exchange_begin(exchange, fields, opening.data, opening.len);
    tdg__text_done(&opening);
    attach_newest(session);
    return 0;
}

int tdg__session_stream_open(tdg__session_t *session, tdg__exchange_t *exchange,
                             const char *last_event_id, const char *fields) {
    const tdg_server_opts_t *opts = &session->feed.worker->server->opts;
    tdg__event_id_t id;
    bool resumes_post = tdg__event_id_read(last_event_id, &id) == 0 && id.post;

    /* The answer to a POST is none of these streams. */
    if (!resumes_post && session->http.stream_count >= opts->max_streams)
        return TDG_ESTREAMS;
    if (!resumes_post && rewind_to(session, last_event_id) < 0) {
        tdg__session_destroy(session);
        return TDG_EENDED;
    }
    tdg__session_touch(session);
    tdg__session_came_back(session);
    if (resumes_post)
        return tdg__post_channel_resume(session, &id, exchange, fields);
    return open_stream(session, exchange, fields);
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
    return TDG__RECORD(struct old_sse, channel, channel);
}

static size_t old_uncounted(const tdg__channel_t *channel) {
    return tdg__outlet_copied(&channel_of(channel)->stream.exchange->outlet);
}

static bool old_crowded(const tdg__channel_t *channel) {
    const tdg__outlet_t *outlet = &channel_of(channel)->stream.exchange->outlet;

    return outlet->queued > CROWDED || tdg__outlet_copied(outlet) > MAX_COPIED / 4 * 3;
}

static void old_answer(tdg__channel_t *channel, tdg__call_t *call,
                       const tdg__rope_t *message, int code) {
    struct old_sse *old = channel_of(channel);
    tdg__outlet_t *outlet = &old->stream.exchange->outlet;
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
        tdg__exchange_close(old->stream.exchange);
    tdg__rope_done(&event);
}

static void old_notify(tdg__channel_t *channel, tdg__call_t *call, const char *text,
                       size_t len) {
    tdg__rope_t message = {.text = {.data = (char *)(uintptr_t)text, .len = len}};

    /* Progress and log messages are left out first, so that the answer has its place. */
    if (old_uncounted(channel) > MAX_COPIED / 2)
        return;
    old_answer(channel, call, &message, 0);
}

static const tdg__channel_ops_t old_ops = {.notify = old_notify,
                                           .answer = old_answer,
                                           .uncounted = old_uncounted,
                                           .crowded = old_crowded};

int tdg__old_sse_open(tdg__worker_t *worker, tdg__exchange_t *exchange, bool erlmcp,
                      const tdg__address_t *caller, const char *fields) {
    static const char endpoint[] = "event: endpoint\ndata: /messages?sessionId=";
    char opening[sizeof(endpoint) + TDG__SESSION_ID + 2];
    tdg__session_t *session;
    struct old_sse *old = tdg__calloc(1, sizeof(*old));
    if (old == NULL)
        return TDG_ENOMEM;

    int rv = tdg__session_create(worker->sessions, &tdg__sse_session_ops, erlmcp, caller,
                                 &session);
    if (rv < 0) {
        tdg__free(old);
        return rv;
    }
    init(&old->stream, worker, exchange);
    tdg__channel_init(&old->channel, &old_ops, worker, erlmcp);
    old->channel.client = (uintptr_t)session;
    session->home = &old->channel;
    link_stream(session, &old->stream);
    exchange->user = &old->stream.occupant;

    size_t len = sizeof(endpoint) - 1;
    memcpy(opening, endpoint, len);
    memcpy(opening + len, session->id, TDG__SESSION_ID);
    memcpy(opening + len + TDG__SESSION_ID, "\n\n", 2);
    tdg__exchange_begin(exchange, fields, opening, len + TDG__SESSION_ID + 2);
    attach_newest(session);
    return 0;
}

tdg__channel_t *tdg__old_sse_channel(tdg__session_t *session) {
    return session->home;
}

/* ---- The kinds of session ----------------------------------------------- */

static bool in_use(const tdg__session_t *session) {
    return session->http.stream_count > 0 || tdg__posts_busy(session);
}

const tdg__session_ops_t tdg__http_session_ops = {
    .transport = "http",
    .frame = TDG__FRAME_SSE_IDS,
    .before = TDG__FRESH,
    .after = TDG__QUIET,
    .pings = true,
    .find_call = tdg__posts_find,
    .count_calls = tdg__posts_calls,
    .forget_acks = tdg__posts_forget_acks,
    .in_use = in_use,
    .tidy = tdg__posts_drop_old,
    .fail = tdg__session_destroy,
    .close = close_session,
};

/* It has a stream for as long as it lives, so it is in use once it is initialised. */
const tdg__session_ops_t tdg__sse_session_ops = {
    .transport = "sse",
    .frame = TDG__FRAME_SSE,
    .before = TDG__FRESH,
    .after = TDG__SETTLED,
    .pings = true,
    .find_call = tdg__posts_find, /* of none, once its stream has gone */
    .count_calls = tdg__posts_calls,
    .fail = tdg__session_destroy,
    .close = close_session,
};
