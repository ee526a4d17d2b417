/* SPDX-License-Identifier: MIT
 *
 * A forward is held by its two halves, and by all that is in transit between them:
 * events, a refusal or cut, records of batches. The last one frees it. Each half ends
 * once: the near one when the kernel has the response or the connection has closed; the
 * far one when it is informed of that, or earlier, when it refuses the request or its
 * worker closes. */
#include "server/http/forward.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/queue.h"
#include "server/context/limits.h"
#include "server/http/occupant.h"
#include "server/mcp/session.h"

enum {
    WINDOW = 16 * 1024,      /* bytes that a twin may be ahead of its connection */
    BATCH_BYTES = 32 * 1024, /* of one task: the other worker has more to do */
};

/* Requests that have arrived get a share of each turn of the loop, as connections do
 * (turn.c): changes must not wait for them. Those of a session stay in order. */
enum lane_of { SESSIONS, STRANGERS, LANES };

static const uint64_t slices_ns[LANES] = {[SESSIONS] = 1000000, [STRANGERS] = 300000};

struct lane {
    tdg__queue_t waiting; /* by there.link */
    uint64_t spent_ns;    /* in this turn */
};

/* What the near half reports. */
enum event {
    WRITTEN = 1 << 0, /* `written` has grown */
    LATE = 1 << 1,    /* as the calls of an occupant */
    FINISH = 1 << 2,
    DONE = 1 << 3,   /* all of the answer is with the kernel */
    CLOSED = 1 << 4, /* the connection has gone */
};

struct tdg__forward {
    tdg__task_t task;  /* the request on its way, or a refusal on its way back */
    tdg__task_t event; /* to the far half */
    atomic_uint refs;
    atomic_uint events; /* that wait for the far half; 0: `event` is not on its way */
    atomic_size_t written;
    tdg__worker_t *near, *far; /* there as long as the server is */

    struct {
        tdg__occupant_t occupant;
        tdg__exchange_t *exchange; /* NULL: it has ended */
        size_t received;           /* bytes of the stream */
        bool begun, complete;      /* the answer */
        bool reports;              /* once all is with the kernel: it is waited for */
        unsigned told;             /* events that are reported once */
    } here;

    struct {
        tdg__exchange_t twin;
        tdg__queue_t link; /* of its worker, while it is open, or waits to be served */
        bool waits, event_waits; /* the event until it is served; it holds a reference */
        size_t sent;             /* bytes of the stream */
        bool complete, cut;
        bool proves; /* the request deserves to be served */
    } there;

    /* Until it is served: */
    void (*serve)(tdg__visit_t *visit);
    json_t *body;
    tdg__http_request_t *http; /* with its strings, and without its body */
    const tdg__listener_t *listener;
    size_t charged;
    bool strange; /* it counts among those without a session, too */
    char session[TDG__SESSION_ID + 1];

    char peer[TDG__PEER_MAX];
    bool has_id;
    char *fields; /* of every response */
    char id[];    /* and behind it the fields */
};

struct tdg__forwards {
    tdg__worker_t *worker;
    tdg__queue_t open; /* here */
    size_t count;      /* of these, and of those that wait */
    struct lane lanes[LANES];
    tdg__task_t pump;                        /* serves those that wait */
    bool pump_waits;                         /* it is in the inbox */
    bool destroyed;                          /* and frees the record */
    struct batch *batches[TDG__MAX_WORKERS]; /* that are being filled, by worker */
};

/* ---- Life --------------------------------------------------------------- */

static void unref(tdg__forward_t *forward) {
    if (atomic_fetch_sub_explicit(&forward->refs, 1, memory_order_acq_rel) != 1)
        return;
    assert(!tdg__queue_has(&forward->there.link) && forward->here.exchange == NULL);
    assert(forward->body == NULL && forward->charged == 0);
    tdg__free(forward->http);
    tdg__free(forward);
}

static void ref(tdg__forward_t *forward) {
    atomic_fetch_add_explicit(&forward->refs, 1, memory_order_relaxed);
}

/* The request was served, or will not be. */
static void drop_request(tdg__forward_t *forward) {
    tdg_server_t *server = forward->near->server;

    json_decref(forward->body);
    forward->body = NULL;
    tdg__free(forward->http);
    forward->http = NULL;
    if (forward->strange)
        tdg__budget_give(server->strange_forwards, forward->charged);
    tdg__budget_give(server->forwards, forward->charged);
    forward->strange = false;
    forward->charged = 0;
}

/* ---- From the connection to the twin ------------------------------------ */

static void run_event(tdg__task_t *task, bool here);

static void tell(tdg__forward_t *forward, unsigned events) {
    if (atomic_fetch_or(&forward->events, events) != 0)
        return; /* those before are on their way */
    ref(forward);
    forward->event.run = run_event;
    tdg__inbox_post(forward->far->inbox, &forward->event);
}

static void tell_once(tdg__forward_t *forward, unsigned event) {
    if ((forward->here.told & event) != 0)
        return;
    forward->here.told |= event;
    tell(forward, event);
}

/* The connection has no more to do with it. */
static void leave(tdg__forward_t *forward, unsigned event) {
    tdg__exchange_t *exchange = forward->here.exchange;

    assert(exchange != NULL);
    if (exchange->user == &forward->here.occupant)
        exchange->user = NULL;
    forward->here.exchange = NULL;
    tell(forward, event);
    unref(forward);
}

/* Something was written. May end the half. What a broken connection did not take is not
 * written: closed() follows. */
static void report(tdg__forward_t *forward) {
    const tdg__outlet_t *outlet = &forward->here.exchange->outlet;

    if (outlet->in_flight)
        return; /* drained() follows, or closed() */
    if (forward->here.complete) {
        leave(forward, DONE);
    } else if (forward->here.reports && !outlet->broken) {
        forward->here.reports = false;
        atomic_store(&forward->written, forward->here.received);
        tell(forward, WRITTEN);
    }
}

static tdg__forward_t *occupies(tdg__occupant_t *occupant) {
    return TDG__RECORD(tdg__forward_t, here.occupant, occupant);
}

static void drained(tdg__occupant_t *occupant) {
    report(occupies(occupant));
}

static void closed(tdg__occupant_t *occupant) {
    leave(occupies(occupant), CLOSED);
}

static void late(tdg__occupant_t *occupant) {
    tell_once(occupies(occupant), LATE);
}

static void finish(tdg__occupant_t *occupant) {
    tell_once(occupies(occupant), FINISH);
}

/* Where the server stops, the worker of the session ends its streams: only that one knows
 * what they have to carry. */
static bool has_more(const tdg__occupant_t *occupant) {
    (void)occupant;
    return true;
}

static void refuse(tdg__forward_t *forward, const char *why) {
    tdg__visit_t visit = {.worker = forward->near, .exchange = forward->here.exchange};

    snprintf(visit.fields, sizeof(visit.fields), "%sRetry-After: 1\r\n", forward->fields);
    forward->here.complete = true;
    tdg__visit_refuse_id(&visit, 503, forward->has_id ? forward->id : NULL,
                         TDG__RPC_INTERNAL, why);
    report(forward);
}

static void give_up(tdg__occupant_t *occupant) {
    tdg__forward_t *forward = occupies(occupant);

    if (!forward->here.begun && !forward->here.complete)
        refuse(forward, "The server is stopping");
}

/* What occupies the twin leaves out what is not for it: the stream of a session is never
 * late, and the answer to a POST, also when it is resumed by GET, ends by itself. */
static const tdg__occupant_ops_t occupant_ops = {
    .drained = drained,
    .closed = closed,
    .late = late,
    .has_more = has_more,
    .finish = finish,
    .give_up = give_up,
};

/* ---- Batches ------------------------------------------------------------ */

struct batch {
    tdg__task_t task;
    size_t used, size;
    char data[]; /* records */
};

enum kind { RESPOND, BEGIN, PIECE, END, CLOSE };

/* One call of the twin. Behind it are its splices, its fields with a NUL, its text. */
struct record {
    tdg__forward_t *forward;  /* a reference */
    const char *content_type; /* a constant, or NULL */
    size_t size;              /* of all of it */
    size_t text_len, splice_count, spliced, fields_len;
    int status;
    uint8_t kind;
    bool proves, reports;
};

static tdg__splice_t *splices_of(struct record *record) {
    return (tdg__splice_t *)(record + 1);
}

static char *fields_of(struct record *record) {
    return (char *)(splices_of(record) + record->splice_count);
}

static size_t size_of(const struct record *record) {
    size_t size = sizeof(*record) + record->splice_count * sizeof(tdg__splice_t) +
                  record->fields_len + 1 + record->text_len;

    return (size + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) *
           _Alignof(max_align_t);
}

/* On the connection. May end the half. */
static void replay(struct record *record, const tdg__rope_t *body) {
    tdg__forward_t *forward = record->forward;
    tdg__exchange_t *exchange = forward->here.exchange;
    const char *fields = fields_of(record);

    if (record->proves)
        tdg__exchange_prove(exchange);
    forward->here.reports |= record->reports;
    forward->here.complete |= record->kind == RESPOND || record->kind == END;
    forward->here.received += tdg__rope_len(body);
    switch ((enum kind)record->kind) {
    case RESPOND:
        tdg__exchange_respond_rope(exchange, record->status, record->content_type, fields,
                                   body);
        break;
    case BEGIN:
        forward->here.begun = true;
        forward->here.occupant.streaming = true;
        tdg__exchange_begin(exchange, fields, body->text.data, body->text.len);
        break;
    case PIECE:
        tdg__outlet_piece_rope(&exchange->outlet, body);
        break;
    case END:
        forward->here.occupant.streaming = false;
        tdg__exchange_end(exchange);
        break;
    case CLOSE:
        tdg__exchange_close(exchange);
        return; /* closed() follows */
    }
    report(forward);
}

static void run_record(struct record *record, bool here) {
    const tdg__rope_t body = {
        .text = {.data = fields_of(record) + record->fields_len + 1,
                 .len = record->text_len},
        .splices = splices_of(record),
        .splice_count = record->splice_count,
        .spliced = record->spliced,
    };

    if (here && record->forward->here.exchange != NULL && !record->forward->here.complete)
        replay(record, &body);
    for (size_t i = 0; i < record->splice_count; i++)
        tdg__buf_unref(body.splices[i].buf);
    unref(record->forward);
}

static void run_batch(tdg__task_t *task, bool here) {
    struct batch *batch = (struct batch *)(void *)task;
    size_t next;

    for (size_t at = 0; at < batch->used; at = next) {
        struct record *record = (struct record *)(void *)(batch->data + at);

        next = at + record->size;
        run_record(record, here);
    }
    tdg__free(batch);
}

static void send_batch(tdg__forwards_t *forwards, unsigned to) {
    struct batch *batch = forwards->batches[to];

    if (batch == NULL)
        return;
    forwards->batches[to] = NULL;
    batch->task.run = run_batch;
    tdg__inbox_post(forwards->worker->server->workers[to]->inbox, &batch->task);
}

void tdg__forwards_send(tdg__forwards_t *forwards) {
    for (int lane = 0; lane < LANES; lane++)
        forwards->lanes[lane].spent_ns = 0;
    for (unsigned i = 0; i < forwards->worker->server->worker_count; i++)
        send_batch(forwards, i);
}

/* Room for a record in what goes to a worker; NULL: out of memory. */
static struct record *make_room(tdg__forwards_t *forwards, unsigned to, size_t size) {
    struct batch *batch = forwards->batches[to];

    if (batch != NULL && size > batch->size - batch->used)
        send_batch(forwards, to);
    if (forwards->batches[to] == NULL) {
        size_t room = size > BATCH_BYTES ? size : BATCH_BYTES;

        batch = tdg__malloc(sizeof(*batch) + room);
        if (batch == NULL)
            return NULL;
        batch->used = 0;
        batch->size = room;
        forwards->batches[to] = batch;
    }
    batch = forwards->batches[to];
    batch->used += size;
    return (struct record *)(void *)(batch->data + batch->used - size);
}

/* ---- The twin ----------------------------------------------------------- */

static tdg__forward_t *of_twin(const tdg__exchange_t *twin) {
    return TDG__RECORD(tdg__forward_t, there.twin, twin);
}

static bool awaits_answer(const tdg__forward_t *forward, bool here) {
    return here && forward->here.exchange != NULL && !forward->here.complete;
}

static void run_refusal(tdg__task_t *task, bool here) {
    tdg__forward_t *forward = (tdg__forward_t *)(void *)task;

    if (awaits_answer(forward, here))
        refuse(forward, "The server cannot answer now; retry");
    unref(forward);
}

static void run_cut(tdg__task_t *task, bool here) {
    tdg__forward_t *forward = (tdg__forward_t *)(void *)task;

    if (awaits_answer(forward, here))
        tdg__exchange_close(forward->here.exchange);
    unref(forward);
}

/* The answer will not be completed. Its task is at hand: the request has arrived. */
static void send_back(tdg__forward_t *forward,
                      void (*run)(tdg__task_t *task, bool here)) {
    forward->there.twin.outlet.broken = true;
    if (forward->there.cut)
        return;
    forward->there.cut = true;
    ref(forward);
    forward->task.run = run;
    tdg__inbox_post(forward->near->inbox, &forward->task);
}

/* After the request was served. A refusal would ask for a retry, and what the request
 * calls for would be done twice. */
static void cut(tdg__forward_t *forward) {
    send_back(forward, run_cut);
}

/* Hands over one call. False: out of memory, and the connection is cut. */
static bool put(tdg__forward_t *forward, struct record head, const char *fields,
                const tdg__rope_t *body) {
    static const tdg__rope_t nothing = {0};
    struct record *record;

    body = body != NULL ? body : &nothing;
    head.forward = forward;
    head.text_len = body->text.len;
    head.splice_count = body->splice_count;
    head.spliced = body->spliced;
    head.fields_len = fields != NULL ? strlen(fields) : 0;
    head.proves = forward->there.proves;
    head.size = size_of(&head);
    record = make_room(forward->far->forwards, forward->near->index, head.size);
    if (record == NULL) {
        cut(forward);
        return false;
    }
    ref(forward);
    *record = head;
    for (size_t i = 0; i < head.splice_count; i++) {
        splices_of(record)[i] = body->splices[i];
        tdg__buf_ref(body->splices[i].buf);
    }
    memcpy(fields_of(record), fields != NULL ? fields : "", head.fields_len + 1);
    if (head.text_len > 0)
        memcpy(fields_of(record) + head.fields_len + 1, body->text.data, head.text_len);
    return true;
}

static void twin_respond(tdg__exchange_t *twin, int status, const char *content_type,
                         const char *fields, const tdg__rope_t *body) {
    tdg__forward_t *forward = of_twin(twin);
    struct record head = {
        .kind = RESPOND, .status = status, .content_type = content_type};

    if (forward->there.complete || twin->outlet.broken)
        return;
    forward->there.complete = put(forward, head, fields, body);
    twin->outlet.in_flight = true;
}

/* Bytes of the stream go, `own` of them copied. Returns as tdg__outlet_write(). */
static int count_sent(tdg__forward_t *forward, size_t len, size_t own) {
    tdg__outlet_t *outlet = &forward->there.twin.outlet;
    size_t ahead;

    forward->there.sent += len;
    ahead = forward->there.sent - atomic_load(&forward->written);
    outlet->in_flight = true;
    outlet->waiting += own;
    outlet->queued = ahead > WINDOW ? ahead : 0;
    return outlet->queued > 0 ? TDG_EAGAIN : 0;
}

/* Whether the connection has to report these bytes: where somebody waits for that, and
 * before the window is full. */
static bool is_reported(const tdg__forward_t *forward, size_t len) {
    size_t ahead = forward->there.sent + len - atomic_load(&forward->written);

    return forward->there.twin.outlet.prompt || ahead > WINDOW / 2;
}

static int twin_begin(tdg__exchange_t *twin, const char *fields, const void *first,
                      size_t len) {
    const tdg__rope_t body = {.text = {.data = (char *)(uintptr_t)first, .len = len}};
    tdg__forward_t *forward = of_twin(twin);
    struct record head = {.kind = BEGIN, .reports = is_reported(forward, len)};

    if (forward->there.complete || twin->outlet.broken)
        return TDG_EENDED;
    if (!put(forward, head, fields, &body))
        return TDG_ENOMEM;
    return count_sent(forward, len, len);
}

static int twin_take(tdg__outlet_t *outlet, const char *data, size_t len,
                     tdg__buf_t *shared) {
    tdg__forward_t *forward = of_twin((tdg__exchange_t *)(void *)outlet);
    struct record head = {.kind = PIECE, .reports = is_reported(forward, len)};
    tdg__splice_t splice = {0, shared};
    tdg__rope_t body = {.text = {.data = (char *)(uintptr_t)data, .len = len}};

    if (shared != NULL)
        body =
            (tdg__rope_t){.splices = &splice, .splice_count = 1, .spliced = shared->len};
    if (forward->there.complete)
        return TDG_EENDED;
    if (!put(forward, head, NULL, &body))
        return TDG_ENOMEM;
    return count_sent(forward, len, shared != NULL ? 0 : len);
}

static void twin_end(tdg__exchange_t *twin) {
    tdg__forward_t *forward = of_twin(twin);

    if (forward->there.complete || twin->outlet.broken)
        return;
    forward->there.complete = put(forward, (struct record){.kind = END}, NULL, NULL);
    twin->outlet.in_flight = true;
}

static void twin_close(tdg__exchange_t *twin) {
    tdg__forward_t *forward = of_twin(twin);

    if (forward->there.complete || twin->outlet.broken)
        return;
    put(forward, (struct record){.kind = CLOSE}, NULL, NULL);
    twin->outlet.broken = true;
}

static void twin_peer(const tdg__exchange_t *twin, char ret[TDG__PEER_MAX]) {
    memcpy(ret, of_twin(twin)->peer, TDG__PEER_MAX);
}

static void twin_prove(tdg__exchange_t *twin) {
    of_twin(twin)->there.proves = true;
}

static tdg__occupant_t *occupant_of(const tdg__forward_t *forward) {
    return forward->there.twin.user;
}

static void twin_drained(tdg__outlet_t *outlet) {
    tdg__occupant_t *occupant =
        occupant_of(of_twin((const tdg__exchange_t *)(const void *)outlet));

    if (occupant != NULL && occupant->ops->drained != NULL)
        occupant->ops->drained(occupant);
}

static const tdg__exchange_ops_t twin_ops = {
    .outlet = {.drained = twin_drained, .take = twin_take},
    .respond = twin_respond,
    .begin = twin_begin,
    .end = twin_end,
    .close = twin_close,
    .peer = twin_peer,
    .prove = twin_prove,
};

/* ---- The far half ------------------------------------------------------- */

static tdg__forward_t *of_link(tdg__queue_t *link) {
    return TDG__RECORD(tdg__forward_t, there.link, link);
}

static void open_twin(tdg__forwards_t *forwards, tdg__forward_t *forward) {
    forward->there.twin.outlet.net = forwards->worker->net;
    forward->there.twin.outlet.calls = &twin_ops.outlet;
    tdg__queue_prepend(&forwards->open, &forward->there.link);
}

static void close_twin(tdg__forwards_t *forwards, tdg__forward_t *forward) {
    assert(occupant_of(forward) == NULL);
    tdg__queue_remove(&forward->there.link);
    forwards->count--;
    unref(forward);
}

/* Its connection has gone, or need not be waited for. */
static void close_occupant(tdg__forward_t *forward) {
    tdg__occupant_t *occupant = occupant_of(forward);

    forward->there.twin.outlet.broken = true;
    forward->there.twin.user = NULL;
    if (occupant != NULL)
        occupant->ops->closed(occupant);
}

static void on_written(tdg__forward_t *forward, bool done) {
    tdg__outlet_t *outlet = &forward->there.twin.outlet;
    size_t ahead = forward->there.sent - atomic_load(&forward->written);

    if (ahead > 0 && !done) {
        outlet->queued = ahead > WINDOW ? ahead : 0;
        return;
    }
    outlet->in_flight = false;
    outlet->queued = outlet->waiting = 0;
    outlet->calls->drained(outlet);
}

/* The occupant may have left in any of these. */
static void serve_events(tdg__forward_t *forward, unsigned events) {
    tdg__occupant_t *occupant;

    if ((events & (WRITTEN | DONE)) != 0)
        on_written(forward, (events & DONE) != 0);
    occupant = occupant_of(forward);
    if ((events & LATE) != 0 && occupant != NULL && occupant->ops->late != NULL)
        occupant->ops->late(occupant);
    occupant = occupant_of(forward);
    if ((events & FINISH) != 0 && occupant != NULL && occupant->ops->finish != NULL)
        occupant->ops->finish(occupant);
    if ((events & (DONE | CLOSED)) == 0)
        return;
    close_occupant(forward);
    close_twin(forward->far->forwards, forward);
}

static void run_event(tdg__task_t *task, bool here) {
    tdg__forward_t *forward = TDG__RECORD(tdg__forward_t, event, task);

    if (forward->there.waits) {
        forward->there.event_waits = true;
        return;
    }
    unsigned events = atomic_exchange(&forward->events, 0);

    if (here && tdg__queue_has(&forward->there.link))
        serve_events(forward, events);
    unref(forward);
}

/* ---- Requests that arrive ------------------------------------------------ */

/* What has happened to its connection meanwhile. May free it. */
static void run_late_event(tdg__forward_t *forward, bool here) {
    if (!forward->there.event_waits)
        return;
    forward->there.event_waits = false;
    run_event(&forward->event, here);
}

static void serve_request(tdg__forwards_t *forwards, tdg__forward_t *forward) {
    open_twin(forwards, forward);
    tdg__visit_t visit = {
        .worker = forward->far,
        .exchange = &forward->there.twin,
        .http = forward->http,
        .body = forward->body,
        .listener = forward->listener,
    };
    snprintf(visit.fields, sizeof(visit.fields), "%s", forward->fields);
    forward->body = NULL;
    forward->serve(&visit);
    assert(visit.forward == NULL); /* it is where its session is, if that exists */
    json_decref(visit.body);
    drop_request(forward);
    run_late_event(forward, true);
}

static void refuse_request(tdg__forward_t *forward) {
    drop_request(forward);
    send_back(forward, run_refusal);
    run_late_event(forward, false);
    unref(forward);
}

static void run_pump(tdg__task_t *task, bool here);

static void wait_in_lane(tdg__forwards_t *forwards, enum lane_of of,
                         tdg__forward_t *forward) {
    tdg__queue_append(&forwards->lanes[of].waiting, &forward->there.link);
    forward->there.waits = true;
    forwards->count++;
}

/* NULL: nobody waits. */
static tdg__forward_t *next_in_lane(tdg__forwards_t *forwards, enum lane_of of) {
    tdg__queue_t *link = tdg__queue_take(&forwards->lanes[of].waiting);

    if (link == NULL)
        return NULL;
    tdg__forward_t *forward = of_link(link);
    forward->there.waits = false;
    return forward;
}

/* Serves those that wait as long as there is time in this turn; the rest in the next. */
static void serve_lane(tdg__forwards_t *forwards, enum lane_of of) {
    struct lane *lane = &forwards->lanes[of];
    tdg__forward_t *forward;

    while (lane->spent_ns < slices_ns[of] &&
           (forward = next_in_lane(forwards, of)) != NULL) {
        uint64_t began_ns = uv_hrtime();

        serve_request(forwards, forward);
        lane->spent_ns += uv_hrtime() - began_ns;
    }
}

/* From the inbox: a task that it gets now is run in the next turn. */
static void request_pump(tdg__forwards_t *forwards) {
    if (forwards->pump_waits ||
        (tdg__queue_is_empty(&forwards->lanes[SESSIONS].waiting) &&
         tdg__queue_is_empty(&forwards->lanes[STRANGERS].waiting)))
        return;
    forwards->pump_waits = true;
    forwards->pump.run = run_pump;
    tdg__inbox_post(forwards->worker->inbox, &forwards->pump);
}

static void run_pump(tdg__task_t *task, bool here) {
    tdg__forwards_t *forwards = TDG__RECORD(tdg__forwards_t, pump, task);

    forwards->pump_waits = false;
    if (forwards->destroyed) {
        tdg__free(forwards);
        return;
    }
    assert(here); /* the front closes before the inbox does */
    (void)here;
    serve_lane(forwards, SESSIONS);
    serve_lane(forwards, STRANGERS);
    request_pump(forwards);
}

/* Takes room for a request without a session. They have a part of it only, so that those
 * of sessions find some. */
static bool may_wait_as_stranger(tdg__forward_t *forward) {
    forward->strange =
        tdg__budget_take(forward->far->server->strange_forwards, forward->charged);
    return forward->strange;
}

static void run_request(tdg__task_t *task, bool here) {
    tdg__forward_t *forward = (tdg__forward_t *)(void *)task;
    tdg__forwards_t *forwards = here ? forward->far->forwards : NULL;

    if (forwards == NULL) { /* the worker is closing */
        refuse_request(forward);
    } else if (tdg__session_find(forward->far->sessions, forward->session) != NULL) {
        wait_in_lane(forwards, SESSIONS, forward);
        serve_lane(forwards, SESSIONS);
    } else if (may_wait_as_stranger(forward)) {
        wait_in_lane(forwards, STRANGERS, forward);
    } else {
        refuse_request(forward);
    }
    if (forwards != NULL)
        request_pump(forwards);
}

/* ---- Of a worker -------------------------------------------------------- */

int tdg__forwards_create(tdg__worker_t *worker, tdg__forwards_t **ret) {
    tdg__forwards_t *forwards = tdg__calloc(1, sizeof(*forwards));

    if (forwards == NULL)
        return TDG_ENOMEM;
    tdg__queue_init(&forwards->open);
    for (int lane = 0; lane < LANES; lane++)
        tdg__queue_init(&forwards->lanes[lane].waiting);
    forwards->worker = worker;
    *ret = forwards;
    return 0;
}

void tdg__forwards_destroy(tdg__forwards_t *forwards) {
    tdg__forward_t *waiting;

    if (forwards == NULL)
        return;
    for (int lane = 0; lane < LANES; lane++)
        while ((waiting = next_in_lane(forwards, lane)) != NULL)
            refuse_request(waiting);
    tdg__forwards_send(forwards); /* what was said comes before the cut */
    while (!tdg__queue_is_empty(&forwards->open)) {
        tdg__forward_t *forward = of_link(forwards->open.next);

        close_occupant(forward);
        cut(forward);
        close_twin(forwards, forward);
    }
    tdg__forwards_send(forwards);
    forwards->destroyed = true;
    if (!forwards->pump_waits)
        tdg__free(forwards);
}

size_t tdg__forwards_count(const tdg__forwards_t *forwards) {
    return forwards->count;
}

void tdg__forwards_each(tdg__forwards_t *forwards,
                        void (*visit)(void *arg, tdg__exchange_t *exchange), void *arg) {
    tdg__queue_t *next;

    for (tdg__queue_t *at = forwards->open.next; at != &forwards->open; at = next) {
        next = at->next;
        visit(arg, &of_link(at)->there.twin);
    }
}

/* ---- Forwarding --------------------------------------------------------- */

static tdg__forward_t *create(const tdg__visit_t *visit, const char *id) {
    tdg__http_request_t head = *visit->http;
    size_t id_size = (id != NULL ? strlen(id) : 0) + 1;
    size_t fields_size = strlen(visit->fields) + 1;
    tdg__forward_t *forward = tdg__calloc(1, sizeof(*forward) + id_size + fields_size);

    if (forward == NULL)
        return NULL;
    head.body = "";
    head.body_len = 0;
    forward->http = tdg__http_request_copy(&head);
    if (forward->http == NULL) {
        tdg__free(forward);
        return NULL;
    }
    atomic_init(&forward->refs, 2);
    atomic_init(&forward->events, 0);
    atomic_init(&forward->written, 0);
    forward->has_id = id != NULL;
    memcpy(forward->id, id != NULL ? id : "", id_size);
    forward->fields = memcpy(forward->id + id_size, visit->fields, fields_size);
    tdg__exchange_peer(visit->exchange, forward->peer);
    return forward;
}

void tdg__forward_prepare(tdg__visit_t *visit, tdg__worker_t *to, const char *session,
                          void (*serve)(tdg__visit_t *visit), const char *id) {
    tdg__budget_t *budget = visit->worker->server->forwards;
    size_t charged = sizeof(tdg__forward_t) + tdg__http_request_size(visit->http) +
                     tdg__json_weigh(visit->body);
    tdg__forward_t *forward = NULL;

    assert(to != visit->worker && visit->forward == NULL);
    if (tdg__budget_take(budget, charged)) {
        forward = create(visit, id);
        if (forward == NULL)
            tdg__budget_give(budget, charged);
    }
    if (forward == NULL) {
        size_t len = strlen(visit->fields);

        snprintf(visit->fields + len, sizeof(visit->fields) - len, "Retry-After: 1\r\n");
        tdg__visit_refuse_id(visit, 503, id, TDG__RPC_INTERNAL,
                             "The server is busy with other requests; retry");
        return;
    }
    forward->charged = charged;
    forward->near = visit->worker;
    forward->far = to;
    forward->serve = serve;
    snprintf(forward->session, sizeof(forward->session), "%s", session);
    forward->listener = visit->listener;
    visit->forward = forward;
}

void tdg__forward_send(tdg__visit_t *visit) {
    tdg__forward_t *forward = visit->forward;

    tdg__occupant_init(&forward->here.occupant, &occupant_ops, visit->worker, false);
    forward->here.exchange = visit->exchange;
    visit->exchange->user = &forward->here.occupant;
    forward->body = visit->body;
    visit->body = NULL;
    visit->forward = NULL;
    forward->task.run = run_request;
    tdg__inbox_post(forward->far->inbox, &forward->task);
}
