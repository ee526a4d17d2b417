/* SPDX-License-Identifier: MIT */
#include "server/http/post_channel.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "mcp/notice.h"
#include "server/http/occupant.h"
#include "server/http/replay.h"
#include "server/http/sse.h"
#include "server/http/visit.h"
#include "server/mcp/acks.h"

enum {
    KEPT_MS = 60000,      /* that a stream is kept after its answer */
    MAX_DETACHED = 16,    /* POSTs per session that wait for their client to come back */
    MAX_QUEUED = 1 << 20, /* bytes that wait for a slow client; then its progress and log
                              messages are left out, never its answer */
};

struct post {
    tdg__queue_t link; /* in the session's list */
    tdg__occupant_t occupant;
    tdg__channel_t channel;
    tdg__exchange_t *exchange; /* NULL: broken, or released */
    tdg__session_t *session;   /* NULL: modern */
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
    char *fields;        /* further header lines of the response */
    tdg__acked_t *acks;
    tdg__replay_t replay;
};

static struct post *post_of(const tdg__channel_t *channel) {
    return TDG__RECORD(struct post, channel, channel);
}

static struct post *occupies(tdg__occupant_t *occupant) {
    return TDG__RECORD(struct post, occupant, occupant);
}

/* The next older post of a session; of NULL the newest. NULL: there is none. */
static struct post *next_post(const tdg__session_t *session, const struct post *post) {
    const tdg__queue_t *list = &session->http.posts;
    const tdg__queue_t *link = post != NULL ? post->link.next : list->next;

    return link != list ? TDG__RECORD(struct post, link, link) : NULL;
}

/* ---- Life --------------------------------------------------------------- */

static void destroy(struct post *post);

void tdg__posts_drop_old(tdg__session_t *session) {
    int64_t now = tdg__worker_now(session->feed.worker);
    struct post *next;

    for (struct post *post = next_post(session, NULL); post != NULL; post = next) {
        next = next_post(session, post);
        if (post->done && post->exchange == NULL && now - post->done_ms > KEPT_MS)
            destroy(post);
    }
}

static void link_to_session(struct post *post, tdg__session_t *session) {
    tdg__posts_drop_old(session);
    assert(post->session == NULL);
    post->session = session;
    post->number = ++session->http.last_post;
    tdg__queue_prepend(&session->http.posts, &post->link);
}

/* Tells the engine that the answers are out. */
static void acknowledge(struct post *post) {
    if (post->session != NULL)
        tdg__acks_settle(&post->acks, post->channel.worker->engine,
                         post->session->feed.stream);
    else
        tdg__acks_drop(&post->acks);
}

/* Once a response is with the kernel, the next request may have taken its place. */
static bool occupies_still(const struct post *post) {
    return post->exchange != NULL && post->exchange->user == &post->occupant;
}

static void destroy(struct post *post) {
    acknowledge(post);
    if (occupies_still(post))
        post->exchange->user = NULL;
    if (post->session != NULL)
        tdg__queue_remove(&post->link);
    tdg__channel_done(&post->channel);
    tdg__replay_done(&post->replay);
    tdg__rope_done(&post->answers);
    tdg__free(post->fields);
    tdg__free(post);
}

/* ---- Streaming ---------------------------------------------------------- */

/* Streams of a session can be resumed; clients before 2025-11-25 do not understand the
 * first, empty event, so theirs begin with a comment. */
static void put_opening(struct post *post, tdg__text_t *text) {
    tdg__event_id_t event = {.post = true, .stream = post->number, .event = 0};

    if (post->session != NULL && post->version >= TDG__V2025_11_25)
        tdg__sse_put_opening(post->channel.worker, &event, text);
    else
        tdg__text_put(text, ":\n\n");
}

/* What is in `message`, and behind that `data`. */
static void write_event(struct post *post, const tdg__rope_t *message, const char *data,
                        size_t len) {
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
static void write_answers(struct post *post) {
    if (post->answers.text.error == 0)
        write_event(post, &post->answers, "]", 1);
    else if (post->exchange != NULL)
        tdg__exchange_close(post->exchange);
    tdg__rope_done(&post->answers);
    tdg__rope_init(&post->answers, SIZE_MAX);
}

static bool begin_stream(struct post *post) {
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

static int status_of(const struct post *post, int code) {
    if (code == 0 || post->session != NULL)
        return 200;
    for (size_t i = 0; i < sizeof(modern_statuses) / sizeof(modern_statuses[0]); i++) {
        if (modern_statuses[i].code == code)
            return modern_statuses[i].status;
    }
    return post->malformed ? 400 : 200;
}

/* `body` NULL: without one. */
static void respond(struct post *post, int status, const tdg__rope_t *body) {
    static const tdg__rope_t nothing = {0};
    bool introduces = post->introduces && post->session != NULL &&
                      post->session->version != TDG__V_UNKNOWN;
    char fields[512];

    snprintf(fields, sizeof(fields), "%s%s%s%s", introduces ? "Mcp-Session-Id: " : "",
             introduces ? post->session->id : "", introduces ? "\r\n" : "", post->fields);
    tdg__exchange_respond_rope(post->exchange, status, "application/json", fields,
                               body != NULL ? body : &nothing);
}

/* Whether all that was written is with the kernel. */
static bool is_out(const struct post *post) {
    const tdg__outlet_t *outlet = &post->exchange->outlet;

    return !outlet->broken && !outlet->in_flight;
}

/* Answers of a batch may have just left on a stream that goes on. Where they wait for the
 * kernel, drained() follows. */
static void acknowledge_if_out(struct post *post) {
    if (post->streaming && post->exchange != NULL && is_out(post))
        acknowledge(post);
}

/* At most so many that are answered wait for their clients to come back; the one that was
 * answered first goes. Those that are not are bounded as calls. */
static void bound_detached(tdg__session_t *session) {
    struct post *oldest = NULL;
    unsigned count = 0;

    for (struct post *post = next_post(session, NULL); post != NULL;
         post = next_post(session, post)) {
        if (post->exchange == NULL && post->done) {
            oldest = post;
            count++;
        }
    }
    if (count > MAX_DETACHED)
        destroy(oldest);
}

/* In the order of their answers, bound_detached() finds the oldest of these. */
static void put_first(struct post *post) {
    tdg__queue_remove(&post->link);
    tdg__queue_prepend(&post->session->http.posts, &post->link);
}

static void detach(struct post *post) {
    assert(post->session != NULL); /* nobody else would free it */
    if (occupies_still(post))
        post->exchange->user = NULL;
    post->exchange = NULL;
    post->occupant.streaming = false;
    bound_detached(post->session);
}

/* All has been answered and written. What is with the kernel is not with the client yet:
 * a stream that can be resumed is kept for a while. */
static void settle(struct post *post) {
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
static void conclude(struct post *post) {
    assert(post->expected == 0);
    post->done = true;
    if (post->exchange != NULL && post->streaming)
        tdg__exchange_end(post->exchange);
    if (post->exchange == NULL || post->acks == NULL || is_out(post))
        settle(post);
}

static void add_to_batch(struct post *post, const tdg__rope_t *message) {
    tdg__text_put(&post->answers.text, tdg__rope_len(&post->answers) == 0 ? "[" : ",");
    tdg__rope_append(&post->answers, message);
}

/* The last answer of a batch is there, or was cancelled. */
static void respond_batch(struct post *post) {
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

/* One answer less will come: it was `answered`, or none will be. */
static void count_down(struct post *post, bool answered) {
    assert(post->expected > 0);
    if (--post->expected > 0)
        return;
    if (post->batch && !post->streaming)
        respond_batch(post);
    else if (!answered && post->exchange != NULL && !post->streaming)
        respond(post, 202, NULL);
    conclude(post);
}

static void answer(tdg__channel_t *channel, tdg__call_t *call, const tdg__rope_t *message,
                   int code) {
    struct post *post = post_of(channel);

    (void)call;
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
    count_down(post, true);
}

static void notify(tdg__channel_t *channel, tdg__call_t *call, const char *text,
                   size_t len) {
    struct post *post = post_of(channel);

    (void)call;
    if (post->exchange != NULL && post->exchange->outlet.queued > MAX_QUEUED)
        return;
    if (begin_stream(post))
        write_event(post, NULL, text, len);
    acknowledge_if_out(post);
}

static void cancelled(tdg__channel_t *channel, void *mark) {
    (void)mark;
    count_down(post_of(channel), false);
}

void tdg__post_channel_all_served(tdg__channel_t *channel) {
    count_down(post_of(channel), false);
}

/* The client goes and comes back for the rest. Only those who know the empty first event
 * do that. */
static void release(tdg__channel_t *channel, tdg__call_t *call) {
    struct post *post = post_of(channel);

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
    const struct post *post = post_of(channel);
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
    struct post *post = occupies(occupant);

    if (post->streaming)
        acknowledge(post);
    if (post->done)
        settle(post);
}

/* A modern client that goes has cancelled; a legacy one may have lost its connection: the
 * work goes on, and what was said on a stream is kept for its return. */
static void closed(tdg__occupant_t *occupant) {
    struct post *post = occupies(occupant);

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
    struct post *post = occupies(occupant);

    if (tdg__version_modern(post->version) && post->exchange != NULL)
        tdg__exchange_close(post->exchange);
}

/* The answer takes its time: from now on there are signs of life. */
static void late(tdg__occupant_t *occupant) {
    struct post *post = occupies(occupant);

    if (post->done)
        return;
    begin_stream(post);
    acknowledge_if_out(post);
}

/* Where a stream has begun, the close has to say it. The calls stay unanswered: they are
 * the application's. */
static void give_up(tdg__occupant_t *occupant) {
    struct post *post = occupies(occupant);
    const tdg__call_t *call = post->batch ? NULL : tdg__channel_newest(&post->channel);
    tdg__rpc_error_t error = {0};
    tdg__rope_t message;

    if (post->done || post->streaming || post->exchange == NULL)
        return;
    tdg__rpc_error_set(&error, TDG__RPC_INTERNAL, NULL, "The server is stopping");
    tdg__rope_init(&message, SIZE_MAX);
    tdg__rpc_put_error(&message.text, call != NULL ? call->id : NULL, &error);
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

/* Clients take turns (tdg__request_client()): a session, or without one an address. */
static uint64_t client_of(const tdg__visit_t *visit, const tdg__session_t *session) {
    tdg__address_t caller;

    if (session != NULL)
        return (uintptr_t)session;
    if (tdg__visit_caller(visit, &caller) == NULL)
        return 1;
    tdg__address_shorten(&caller);
    return tdg__number_of_bytes(1, &caller, sizeof(caller));
}

int tdg__visit_post(tdg__visit_t *visit, tdg__session_t *session, tdg__version_t version,
                    bool batch, unsigned expected, tdg__channel_t **ret) {
    struct post *post = tdg__calloc(1, sizeof(*post));

    assert(expected > 0);
    if (post == NULL || !tdg__copy(visit->fields, &post->fields)) {
        tdg__free(post);
        tdg__visit_refuse(visit, 500, TDG__RPC_INTERNAL, "Out of memory");
        return TDG_ENOMEM;
    }

    tdg__occupant_init(&post->occupant, &occupant_ops, visit->worker, false);
    tdg__channel_init(&post->channel, &ops, visit->worker, visit->listener->erlmcp);
    post->channel.client = client_of(visit, session);
    tdg__replay_init(&post->replay, visit->worker);
    tdg__rope_init(&post->answers, SIZE_MAX);
    post->version = version;
    post->introduces = session != NULL && session->version == TDG__V_UNKNOWN;
    post->accepts_sse = tdg__visit_accepts(visit, "text/event-stream");
    post->batch = batch;
    post->expected = expected;
    if (session != NULL)
        link_to_session(post, session);
    post->exchange = visit->exchange;
    post->exchange->outlet.prompt = true; /* acknowledgements wait for it */
    post->exchange->user = &post->occupant;
    *ret = &post->channel;
    return 0;
}

void tdg__post_channel_set_malformed(tdg__channel_t *channel) {
    post_of(channel)->malformed = true;
}

/* ---- Of a session ------------------------------------------------------- */

tdg__call_t *tdg__posts_find(tdg__session_t *session, const char *id) {
    for (struct post *post = next_post(session, NULL); post != NULL;
         post = next_post(session, post)) {
        tdg__call_t *call = tdg__channel_find(&post->channel, id);

        if (call != NULL)
            return call;
    }
    return NULL;
}

bool tdg__posts_busy(const tdg__session_t *session) {
    for (const struct post *post = next_post(session, NULL); post != NULL;
         post = next_post(session, post)) {
        if (!post->done)
            return true;
    }
    return false;
}

bool tdg__posts_owe(const tdg__session_t *session) {
    for (const struct post *post = next_post(session, NULL); post != NULL;
         post = next_post(session, post)) {
        if (post->acks != NULL)
            return true;
    }
    return false;
}

void tdg__posts_forget_acks(tdg__session_t *session, const tdg__target_t *target) {
    for (struct post *post = next_post(session, NULL); post != NULL;
         post = next_post(session, post))
        tdg__acks_remove(&post->acks, target);
}

size_t tdg__posts_calls(const tdg__session_t *session) {
    size_t count = 0;

    for (const struct post *post = next_post(session, NULL); post != NULL;
         post = next_post(session, post))
        count += post->channel.call_count;
    return count;
}

void tdg__posts_orphan(tdg__session_t *session) {
    struct post *post;

    while ((post = next_post(session, NULL)) != NULL) {
        if (post->exchange != NULL && !post->done && post->streaming)
            tdg__exchange_end(post->exchange);
        else if (post->exchange != NULL && !post->done)
            respond(post, 404, NULL);
        destroy(post);
    }
}

int tdg__post_channel_resume(tdg__session_t *session, const tdg__event_id_t *after,
                             tdg__exchange_t *exchange, const char *fields) {
    struct post *post = next_post(session, NULL);

    while (post != NULL && post->number != after->stream)
        post = next_post(session, post);
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
