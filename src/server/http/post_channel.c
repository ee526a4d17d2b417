/* SPDX-License-Identifier: MIT */
#include "server/http/post_channel.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "mcp/notice.h"
#include "server/http/replay.h"
#include "server/http/sse.h"
#include "server/mcp/acks.h"

enum {
    KEPT_MS = 60000,      /* that a stream is kept after its answer */
    MAX_DETACHED = 16,    /* POSTs per session that wait for their client to come back */
    MAX_QUEUED = 1 << 20, /* bytes that wait for a slow client; then its progress and log
                              messages are left out, never its answer */
};

struct tdg__post_channel {
    tdg__sse_link_t link; /* in the session's list */
    tdg__occupant_t occupant;
    tdg__channel_t channel;
    tdg__exchange_t *exchange; /* NULL: broken, or released */
    tdg__session_t *session;   /* NULL: modern, or the session has ended */
    tdg__version_t version;
    bool introduces, accepts_sse, batch, malformed;
    bool streaming; /* events are being written */
    bool ids;       /* ... that can be resumed */
    bool done;      /* all answers have been given */
    unsigned expected;
    uint32_t number;
    uint64_t event;
    int64_t done_ms;
    tdg__rope_t answers; /* of a batch */
    char *fields;
    tdg__acked_t *acks;
    tdg__replay_t replay;
};

static tdg__post_channel_t *post_of(tdg__channel_t *channel) {
    return (tdg__post_channel_t *)((char *)channel -
                                   offsetof(tdg__post_channel_t, channel));
}

static tdg__post_channel_t *occupies(tdg__occupant_t *occupant) {
    return (tdg__post_channel_t *)((char *)occupant -
                                   offsetof(tdg__post_channel_t, occupant));
}

/* ---- Life --------------------------------------------------------------- */

static void destroy(tdg__post_channel_t *post);

void tdg__posts_drop_old(tdg__session_t *session) {
    int64_t now = tdg__worker_now(session->feed.worker);
    tdg__post_channel_t *next;

    for (tdg__post_channel_t *post = session->http.posts; post != NULL; post = next) {
        next = post->link.older;
        if (post->done && post->exchange == NULL && now - post->done_ms > KEPT_MS)
            destroy(post);
    }
}

static void link_to_session(tdg__post_channel_t *post, tdg__session_t *session) {
    tdg__posts_drop_old(session);
    assert(post->session == NULL);
    post->session = session;
    post->number = ++session->http.last_post;
    session->http.posts = tdg__sse_link(session->http.posts, post);
}

static void unlink_from_session(tdg__post_channel_t *post) {
    tdg__session_t *session = post->session;

    if (session == NULL)
        return;
    session->http.posts = tdg__sse_unlink(session->http.posts, post);
    post->session = NULL;
}

/* Tells the engine that the answers are out. */
static void acknowledge(tdg__post_channel_t *post) {
    if (post->session != NULL)
        tdg__acks_settle(&post->acks, post->channel.worker->engine,
                         post->session->feed.stream);
    else
        tdg__acks_drop(&post->acks);
}

/* Once a response is with the kernel, the next request may have taken its place. */
static bool occupies_still(const tdg__post_channel_t *post) {
    return post->exchange != NULL && post->exchange->user == &post->occupant;
}

static void destroy(tdg__post_channel_t *post) {
    acknowledge(post);
    if (occupies_still(post))
        post->exchange->user = NULL;
    unlink_from_session(post);
    tdg__channel_done(&post->channel);
    tdg__replay_done(&post->replay);
    tdg__rope_done(&post->answers);
    tdg__free(post->fields);
    tdg__free(post);
}

/* ---- Streaming ---------------------------------------------------------- */

/* Streams of a session can be resumed; clients before 2025-11-25 do not understand the
 * first, empty event, so theirs begin with a comment. */
static void put_opening(tdg__post_channel_t *post, tdg__text_t *text) {
    tdg__event_id_t event = {.post = true, .stream = post->number, .event = 0};

    if (post->session != NULL && post->version >= TDG__V2025_11_25)
        tdg__sse_put_opening(post->channel.worker, &event, text);
    else
        tdg__text_put(text, ":\n\n");
}

/* What is in `message`, and behind that `data`. */
static void write_event(tdg__post_channel_t *post, const tdg__rope_t *message,
                        const char *data, size_t len) {
    char id[TDG__EVENT_ID_MAX + 1];
    tdg__event_id_t event_id = {
        .post = true, .stream = post->number, .event = ++post->event};
    tdg__rope_t event;

    id[tdg__event_id_put(id, &event_id)] = '\0';
    tdg__rope_init(&event, SIZE_MAX);
    tdg__put_event_start(&event.text, post->ids ? id : NULL, NULL);
    if (message != NULL)
        tdg__rope_append(&event, message);
    tdg__text_add(&event.text, data, len);
    tdg__text_put(&event.text, "\n\n");
    if (event.text.error == 0) {
        /* What cannot be kept makes the stream one that cannot be resumed. */
        post->ids = post->ids && tdg__replay_keep(&post->replay, post->event, &event);
        if (post->exchange != NULL)
            tdg__outlet_piece_rope(&post->exchange->outlet, &event);
    } else if (post->exchange != NULL) {
        tdg__exchange_close(
            post->exchange); /* the client sees that something is missing */
    }
    tdg__rope_done(&event);
}

/* What was gathered of a batch before its stream began. */
static void write_answers(tdg__post_channel_t *post) {
    if (post->answers.text.error == 0)
        write_event(post, &post->answers, "]", 1);
    else if (post->exchange != NULL)
        tdg__exchange_close(post->exchange);
    tdg__rope_done(&post->answers);
    tdg__rope_init(&post->answers, SIZE_MAX);
}

static bool begin_stream(tdg__post_channel_t *post) {
    tdg__text_t opening;

    if (post->streaming)
        return true;
    if (post->exchange == NULL || !post->accepts_sse)
        return false;
    tdg__text_init(&opening, SIZE_MAX);
    put_opening(post, &opening);
    if (opening.error == 0) { /* only what has begun can be resumed */
        post->streaming = true;
        post->ids = post->session != NULL;
        post->occupant.streaming = true;
        tdg__exchange_begin(post->exchange, post->fields, opening.data, opening.len);
    }
    tdg__text_done(&opening);
    if (post->streaming && tdg__rope_len(&post->answers) > 0)
        write_answers(post);
    return post->streaming;
}

/* ---- Answering ---------------------------------------------------------- */

static const struct {
    int code, status;
} modern_statuses[] = {
    {TDG__RPC_PARSE_ERROR, 400},        {TDG__RPC_INVALID_REQUEST, 400},
    {TDG__RPC_METHOD_NOT_FOUND, 404},   {TDG__RPC_HEADER_MISMATCH, 400},
    {TDG__RPC_MISSING_CAPABILITY, 400}, {TDG__RPC_UNSUPPORTED_VERSION, 400},
};

static int status_of(const tdg__post_channel_t *post, int code) {
    if (code == 0 || post->session != NULL)
        return 200;
    for (size_t i = 0; i < sizeof(modern_statuses) / sizeof(modern_statuses[0]); i++) {
        if (modern_statuses[i].code == code)
            return modern_statuses[i].status;
    }
    return post->malformed ? 400 : 200;
}

/* `body` NULL: without one. */
static void respond(tdg__post_channel_t *post, int status, const tdg__rope_t *body) {
    static const tdg__rope_t nothing = {0};
    bool introduces = post->introduces && post->session != NULL &&
                      post->session->version != TDG__V_UNKNOWN;
    char fields[512];

    snprintf(fields, sizeof(fields), "%s%s%s%s", introduces ? "Mcp-Session-Id: " : "",
             introduces ? post->session->id : "", introduces ? "\r\n" : "",
             post->fields != NULL ? post->fields : "");
    tdg__exchange_respond_rope(post->exchange, status, "application/json", fields,
                               body != NULL ? body : &nothing);
}

/* Whether all that was written is with the kernel. */
static bool is_out(const tdg__post_channel_t *post) {
    const tdg__outlet_t *outlet = &post->exchange->outlet;

    return !outlet->broken && !outlet->in_flight;
}

/* Answers of a batch may have just left on a stream that goes on. Where they wait for the
 * kernel, drained() follows. */
static void acknowledge_if_out(tdg__post_channel_t *post) {
    if (post->streaming && post->exchange != NULL && is_out(post))
        acknowledge(post);
}

/* At most so many that are answered wait for their clients to come back; the one that was
 * answered first goes. Those that are not are bounded as calls. */
static void bound_detached(tdg__session_t *session) {
    tdg__post_channel_t *oldest = NULL;
    unsigned count = 0;

    for (tdg__post_channel_t *post = session->http.posts; post != NULL;
         post = post->link.older) {
        if (post->exchange == NULL && post->done) {
            oldest = post;
            count++;
        }
    }
    if (count > MAX_DETACHED)
        destroy(oldest);
}

/* In the order of their answers, bound_detached() finds the oldest of these. */
static void put_first(tdg__post_channel_t *post) {
    tdg__session_t *session = post->session;

    session->http.posts = tdg__sse_unlink(session->http.posts, post);
    session->http.posts = tdg__sse_link(session->http.posts, post);
}

static void detach(tdg__post_channel_t *post) {
    assert(post->session != NULL); /* nobody else would free it */
    if (occupies_still(post))
        post->exchange->user = NULL;
    post->exchange = NULL;
    post->occupant.streaming = false;
    bound_detached(post->session);
}

/* All has been answered and written. What is with the kernel is not with the client yet:
 * a stream that can be resumed is kept for a while. */
static void settle(tdg__post_channel_t *post) {
    assert(post->done);
    acknowledge(post);
    post->done_ms = tdg__worker_now(post->channel.worker);
    if (post->session != NULL)
        tdg__session_touch(post->session);
    if (post->ids && post->session != NULL) {
        put_first(post);
        detach(post);
    } else {
        destroy(post);
    }
}

/* Everything has been answered. What the answers acknowledge is acknowledged when they
 * are with the kernel; until then the post stays. */
static void conclude(tdg__post_channel_t *post) {
    assert(post->expected == 0);
    post->done = true;
    if (post->exchange != NULL && post->streaming)
        tdg__exchange_end(post->exchange);
    if (post->exchange == NULL || post->acks == NULL || is_out(post))
        settle(post);
}

static void add_to_batch(tdg__post_channel_t *post, const tdg__rope_t *message) {
    tdg__text_put(&post->answers.text, tdg__rope_len(&post->answers) == 0 ? "[" : ",");
    tdg__rope_append(&post->answers, message);
}

/* The last answer of a batch is there, or was cancelled. */
static void respond_batch(tdg__post_channel_t *post) {
    tdg__rope_t *answers = &post->answers;

    tdg__text_put(&answers->text, "]");
    if (post->exchange == NULL)
        return;
    if (answers->text.error != 0)
        respond(post, 500, NULL);
    else if (tdg__rope_len(answers) > 1)
        respond(post, 200, answers);
    else
        respond(post, 202, NULL);
}

static void answer(tdg__channel_t *channel, tdg__call_t *call, const tdg__rope_t *message,
                   int code) {
    tdg__post_channel_t *post = post_of(channel);

    (void)call;
    assert(post->expected > 0);
    post->expected--;
    /* Anybody may begin sessions without end. */
    if (code == 0 && !post->introduces && post->exchange != NULL)
        tdg__exchange_prove(post->exchange);
    if (post->streaming)
        write_event(post, message, NULL, 0);
    else if (post->batch)
        add_to_batch(post, message);
    else if (post->exchange != NULL)
        respond(post, status_of(post, code), message);
    acknowledge_if_out(post);
    if (post->expected > 0)
        return;
    if (post->batch && !post->streaming)
        respond_batch(post);
    conclude(post);
}

static void notify(tdg__channel_t *channel, tdg__call_t *call, const char *text,
                   size_t len) {
    tdg__post_channel_t *post = post_of(channel);

    (void)call;
    if (post->exchange != NULL && post->exchange->outlet.queued > MAX_QUEUED)
        return;
    if (begin_stream(post))
        write_event(post, NULL, text, len);
    acknowledge_if_out(post);
}

/* One answer less will come. */
static void count_down(tdg__post_channel_t *post) {
    assert(post->expected > 0);
    post->expected--;
    if (post->expected > 0)
        return;
    if (post->batch && !post->streaming)
        respond_batch(post);
    else if (post->exchange != NULL && !post->streaming)
        respond(post, 202, NULL);
    conclude(post);
}

static void cancelled(tdg__channel_t *channel, void *mark) {
    (void)mark;
    count_down(post_of(channel));
}

void tdg__post_channel_all_served(tdg__channel_t *channel) {
    count_down(post_of(channel));
}

/* The client goes and comes back for the rest. Only those who know the empty first event
 * do that. */
static void release(tdg__channel_t *channel, tdg__call_t *call) {
    tdg__post_channel_t *post = post_of(channel);

    (void)call;
    if (post->session == NULL || post->version < TDG__V2025_11_25 ||
        !begin_stream(post) || !post->ids || post->exchange == NULL)
        return;
    tdg__exchange_end(post->exchange);
    detach(post);
}

/* Notifications leave by another connection, so they have to wait until the answer is
 * with the kernel. */
static bool acknowledges(tdg__channel_t *channel, const tdg__call_t *call,
                         const tdg__target_t *target) {
    (void)call;
    return tdg__acks_add(&post_of(channel)->acks, target);
}

/* What a batch has gathered, or has written on its stream. */
static size_t uncounted(const tdg__channel_t *channel) {
    const tdg__post_channel_t *post =
        (const tdg__post_channel_t *)((const char *)channel -
                                      offsetof(tdg__post_channel_t, channel));
    size_t written = post->streaming && post->exchange != NULL
                         ? tdg__outlet_copied(&post->exchange->outlet)
                         : 0;

    return post->answers.text.len + written;
}

static const tdg__channel_ops_t ops = {.notify = notify,
                                       .answer = answer,
                                       .release = release,
                                       .acknowledges = acknowledges,
                                       .cancelled = cancelled,
                                       .uncounted = uncounted};

/* ---- Its connection ----------------------------------------------------- */

static void drained(tdg__occupant_t *occupant) {
    tdg__post_channel_t *post = occupies(occupant);

    if (post->streaming)
        acknowledge(post);
    if (post->done)
        settle(post);
}

/* A modern client that goes has cancelled; a legacy one may have lost its connection: the
 * work goes on, and what was said on a stream is kept for its return. */
static void closed(tdg__occupant_t *occupant) {
    tdg__post_channel_t *post = occupies(occupant);

    post->exchange = NULL;
    post->occupant.streaming = false;
    if (post->session == NULL)
        destroy(post);
    else if (post->done)
        settle(post);
    else
        bound_detached(post->session);
}

/* For a modern client that is how a request is cancelled. */
static void half_closed(tdg__occupant_t *occupant) {
    tdg__post_channel_t *post = occupies(occupant);

    if (tdg__version_modern(post->version) && post->exchange != NULL)
        tdg__exchange_close(post->exchange);
}

/* The answer takes its time: from now on there are signs of life. */
static void late(tdg__occupant_t *occupant) {
    tdg__post_channel_t *post = occupies(occupant);

    if (post->done)
        return;
    begin_stream(post);
    acknowledge_if_out(post);
}

/* Where a stream has begun, the close has to say it. The calls stay unanswered: they are
 * the application's. */
static void give_up(tdg__occupant_t *occupant) {
    tdg__post_channel_t *post = occupies(occupant);
    const tdg__call_t *call = post->batch ? NULL : tdg__channel_newest(&post->channel);
    tdg__rpc_error_t error = {0};
    tdg__rope_t message;

    if (post->done || post->streaming || post->exchange == NULL)
        return;
    tdg__rpc_error_set(&error, TDG__RPC_INTERNAL, NULL, "The server is stopping");
    tdg__rope_init(&message, SIZE_MAX);
    tdg__rpc_put_error(&message.text, call != NULL ? tdg__call_id(call) : NULL, &error);
    tdg__rpc_error_done(&error);
    respond(post, 503, message.text.error == 0 ? &message : NULL);
    tdg__rope_done(&message);
}

static const tdg__occupant_ops_t occupant_ops = {
    .drained = drained,
    .closed = closed,
    .half_closed = half_closed,
    .late = late,
    .give_up = give_up,
};

static int init(tdg__post_channel_t *post, const tdg__post_channel_opts_t *opts) {
    assert(opts->exchange != NULL && opts->expected > 0);
    tdg__occupant_init(&post->occupant, &occupant_ops, opts->worker, false);
    tdg__channel_init(&post->channel, &ops, opts->worker, opts->erlmcp);
    opts->exchange->outlet.prompt = true; /* acknowledgements wait for it */
    tdg__replay_init(&post->replay, opts->worker);
    post->channel.client = opts->client;
    tdg__rope_init(&post->answers, SIZE_MAX);
    post->exchange = opts->exchange;
    post->version = opts->version;
    post->introduces = opts->introduces;
    post->accepts_sse = opts->accepts_sse;
    post->batch = opts->batch;
    post->expected = opts->expected;
    if (opts->fields != NULL) {
        size_t len = strlen(opts->fields) + 1;

        post->fields = tdg__malloc(len);
        if (post->fields == NULL)
            return TDG_ENOMEM;
        memcpy(post->fields, opts->fields, len);
    }
    return 0;
}

int tdg__post_channel_create(const tdg__post_channel_opts_t *opts, tdg__channel_t **ret) {
    tdg__post_channel_t *post = tdg__calloc(1, sizeof(*post));
    if (post == NULL)
        return TDG_ENOMEM;

    int rv = init(post, opts);
    if (rv < 0) {
        tdg__free(post);
        return rv;
    }
    if (opts->session != NULL)
        link_to_session(post, opts->session);
    opts->exchange->user = &post->occupant;
    *ret = &post->channel;
    return 0;
}

void tdg__post_channel_set_malformed(tdg__channel_t *channel) {
    post_of(channel)->malformed = true;
}

/* ---- Of a session ------------------------------------------------------- */

tdg__call_t *tdg__posts_find(tdg__session_t *session, const char *id) {
    for (tdg__post_channel_t *post = session->http.posts; post != NULL;
         post = post->link.older) {
        tdg__call_t *call = tdg__channel_find(&post->channel, id);

        if (call != NULL)
            return call;
    }
    return NULL;
}

bool tdg__posts_busy(const tdg__session_t *session) {
    for (const tdg__post_channel_t *post = session->http.posts; post != NULL;
         post = post->link.older) {
        if (!post->done)
            return true;
    }
    return false;
}

bool tdg__posts_owe(const tdg__session_t *session) {
    for (const tdg__post_channel_t *post = session->http.posts; post != NULL;
         post = post->link.older) {
        if (post->acks != NULL)
            return true;
    }
    return false;
}

size_t tdg__posts_calls(const tdg__session_t *session) {
    size_t count = 0;

    for (const tdg__post_channel_t *post = session->http.posts; post != NULL;
         post = post->link.older)
        count += post->channel.call_count;
    return count;
}

void tdg__posts_orphan(tdg__session_t *session) {
    while (session->http.posts != NULL) {
        tdg__post_channel_t *post = session->http.posts;

        if (post->exchange != NULL && !post->done && post->streaming)
            tdg__exchange_end(post->exchange);
        else if (post->exchange != NULL && !post->done)
            respond(post, 404, NULL);
        destroy(post);
    }
}

int tdg__post_channel_resume(tdg__session_t *session, const tdg__event_id_t *after,
                             tdg__exchange_t *exchange, const char *fields) {
    tdg__post_channel_t *post = session->http.posts;

    while (post != NULL && post->number != after->stream)
        post = post->link.older;
    if (post == NULL || !post->ids)
        return TDG_ENOTFOUND;
    if (post->exchange != NULL) { /* the client has noticed the break before we have */
        post->exchange->user = NULL;
        tdg__exchange_close(post->exchange);
    }
    post->exchange = exchange;
    exchange->outlet.prompt = true;
    post->occupant.streaming = true;
    exchange->user = &post->occupant;
    tdg__exchange_begin(exchange, fields, ":\n\n", 3);
    tdg__replay_write(&post->replay, after->event, &exchange->outlet);
    acknowledge_if_out(post);
    if (post->done)
        conclude(post);
    return 0;
}
