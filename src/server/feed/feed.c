/* SPDX-License-Identifier: MIT */
#include "server/feed/feed.h"

#include <assert.h>
#include <string.h>

#include <uv.h>

#include "base/alloc.h"
#include "mcp/cursor.h"
#include "server/feed/trace.h"

/* The bytes that framing adds to head and tail: "data: ", the event id, line ends. */
enum {
    FRAME_MAX = 32 + TDG__EVENT_ID_MAX,
    FEEDS_AT_ONCE = 128, /* about a millisecond */
};

_Static_assert(TDG__FORM_COUNT <= (int)TDG__CHANGE_FORMS,
               "a change has room for each of its forms");

int tdg__feed_open(tdg__feed_t *feed, tdg__worker_t *worker, const tdg__feed_ops_t *ops) {
    assert(feed->stream == 0 && ops->ended != NULL && ops->settled != NULL &&
           ops->failed != NULL);
    feed->ops = ops;
    feed->worker = worker;
    feed->blocked = false;

    int rv = tdg__engine_open(worker->engine, feed, &feed->stream);
    if (rv < 0)
        feed->stream = 0;
    else
        feed->id = atomic_fetch_add(&worker->server->streams, 1) + 1;
    return rv;
}

void tdg__feed_close(tdg__feed_t *feed) {
    if (feed->stream != 0 && feed->peer.version != TDG__V_UNKNOWN)
        tdg__trace_gone(feed);
    if (feed->stream != 0)
        tdg__engine_close(feed->worker->engine, feed->stream);
    feed->stream = 0;
    feed->outlet = NULL;
    tdg__peer_done(&feed->peer);
}

int tdg__feed_subscribe(tdg__feed_t *feed, const tdg__target_t *target,
                        const tdg__sub_opts_t *opts, tdg__subscribed_t *ret) {
    assert(feed->stream != 0);
    int rv = tdg__engine_subscribe(feed->worker->engine, feed->stream, target, opts, ret);

    if (rv < 0)
        tdg__trace_refused(feed, target, rv);
    return rv;
}

void tdg__feed_withdraw(tdg__feed_t *feed, const tdg__target_t *target, int code) {
    tdg__trace_refused(feed, target, code);
    tdg__engine_unsubscribe(feed->worker->engine, feed->stream, target);
}

void tdg__feed_unsubscribe(tdg__feed_t *feed, const tdg__target_t *target) {
    assert(feed->stream != 0);
    tdg__trace_unsubscribed(feed, target); /* whose name may be the engine's */
    tdg__engine_unsubscribe(feed->worker->engine, feed->stream, target);
}

static void set_blocked(tdg__feed_t *feed, bool blocked) {
    if (feed->stream == 0 || feed->blocked == blocked)
        return;
    feed->blocked = blocked;
    tdg__engine_block(feed->worker->engine, feed->stream, blocked);
}

void tdg__feed_attach(tdg__feed_t *feed, tdg__outlet_t *outlet) {
    assert(feed->stream != 0 || outlet == NULL);
    feed->outlet = outlet;
    set_blocked(feed, outlet == NULL || outlet->queued > 0);
}

void tdg__feed_drained(tdg__feed_t *feed) {
    set_blocked(feed, feed->outlet == NULL);
}

bool tdg__feed_has_more(const tdg__feed_t *feed) {
    return tdg__engine_has_note(feed->worker->engine, feed->stream);
}

tdg__cursor_t tdg__feed_cursor(const tdg__feed_t *feed) {
    tdg__cursor_t cursor = {0, 0};

    tdg__engine_cursor(feed->worker->engine, feed->stream, &cursor);
    return cursor;
}

/* ---- One notification --------------------------------------------------- */

/* The head of a change in the form of the feed, encoded by the first feed that needs it.
 */
static tdg__buf_t *head_of(const tdg__feed_t *feed, tdg__change_t *change) {
    tdg__buf_t *head = tdg__change_form(change, feed->form);
    if (head != NULL)
        return head;

    unsigned flags = feed->worker->server->opts.flags;
    tdg__notice_t notice = {
        .uri = change->name,
        .uri_len = change->len,
        .deleted = change->deleted,
        .version = change->number,
        .in_params = (flags & TDG_NO_PARAMS_METADATA) == 0,
        .in_meta = (flags & TDG_NO_META_METADATA) == 0,
    };
    json_t *metadata = NULL;

    if (change->kind == TDG__TARGET_LIST)
        notice.list = change->name;
    else if (tdg__change_metadata(change, &metadata) < 0)
        return NULL;
    notice.metadata = metadata;
    head = tdg__notice_head(&notice, feed->form);
    json_decref(metadata);

    if (head == NULL)
        return NULL;
    return tdg__change_set_form(change, feed->form, head);
}

static char *put(char *out, const char *data, size_t len) {
    memcpy(out, data, len);
    return out + len;
}

static char *put_event_id(char *out, tdg__feed_t *feed, const tdg__cursor_t *cursor) {
    tdg__event_id_t id = {
        .stream = feed->stream_number,
        .event = ++feed->event_number,
        .epoch = cursor->epoch,
        .number = cursor->number,
    };

    out = put(out, "\nid: ", 5);
    return out + tdg__event_id_put(out, &id);
}

/* Writes head, tail and framing; there is room for them. Returns the end. */
static char *put_note(char *out, tdg__feed_t *feed, const tdg__note_t *note,
                      const tdg__buf_t *head) {
    tdg__tail_t tail = {
        .subscription = feed->subscription,
        .subscription_len = feed->subscription_len,
        .epoch = note->cursor.epoch,
        .number = note->cursor.number,
        .merged = note->merged,
    };

    if (feed->frame != TDG__FRAME_LINE)
        out = put(out, "data: ", 6);
    out = put(out, head->data, head->len);
    if (tdg__notice_has_tail(note->change->kind == TDG__TARGET_LIST, feed->form))
        out += tdg__notice_tail(out, &tail);
    if (feed->frame == TDG__FRAME_SSE_IDS)
        out = put_event_id(out, feed, &note->cursor);
    if (feed->frame != TDG__FRAME_LINE)
        *out++ = '\n';
    *out++ = '\n';
    return out;
}

/* For the rare notification that is larger than the scratch buffer. */
static int write_large(tdg__feed_t *feed, const tdg__note_t *note, const tdg__buf_t *head,
                       size_t room) {
    char *data = tdg__malloc(room);
    if (data == NULL)
        return TDG_ENOMEM;

    size_t len = (size_t)(put_note(data, feed, note, head) - data);
    int rv = tdg__outlet_piece(feed->outlet, data, len);
    tdg__free(data);
    return rv;
}

/* ---- All that is ready -------------------------------------------------- */

static int flush_scratch(tdg__feed_t *feed, size_t *len) {
    int rv = *len > 0 ? tdg__outlet_flush(feed->outlet, *len) : 0;

    *len = 0;
    return rv;
}

/* Takes and writes what one stream has ready, as much as the outlet takes. Returns 0,
 * TDG_EAGAIN (the outlet is full), TDG_EENDED (the outlet is broken; its owner will
 * notice), TDG_ENOMEM; *ret_end is set when the stream has ended. */
static int flush_feed(tdg__feed_t *feed, tdg__engine_t *engine, char *scratch,
                      tdg__note_t *ret_end) {
    tdg__note_t note;
    size_t len = 0;

    while (tdg__engine_take(engine, feed->stream, &note) == 1) {
        if (note.kind == TDG__NOTE_END) {
            *ret_end = note;
            break;
        }

        const tdg__buf_t *head = head_of(feed, note.change);
        if (head == NULL) {
            flush_scratch(feed, &len);
            return TDG_ENOMEM;
        }

        size_t room = head->len + TDG__TAIL_MAX + feed->subscription_len + FRAME_MAX;
        int rv = 0;
        if (len > 0 && room > TDG__NET_SCRATCH - len)
            rv = flush_scratch(feed, &len);
        if (room > TDG__NET_SCRATCH) {
            int large = write_large(feed, &note, head, room);
            rv = rv == 0 ? large : rv;
        } else {
            /* A note that was taken must be written, even where the outlet is full
             * already. */
            len = (size_t)(put_note(scratch + len, feed, &note, head) - scratch);
        }
        if (rv < 0) {
            int last = flush_scratch(feed, &len);
            return last == 0 || last == TDG_EAGAIN ? rv : last;
        }
    }
    return flush_scratch(feed, &len);
}

/* The loop's time is that of the beginning of its turn. Where the machine is busy, the
 * write may be much later; the next one keeps its distance from that, rounded up. */
static void set_taking_time(tdg__engine_t *engine) {
    tdg__engine_set_taking_time(engine, (int64_t)((uv_hrtime() + 999999) / 1000000));
}

static void flush_or_end(tdg__feed_t *feed, tdg__engine_t *engine, char *scratch) {
    tdg__note_t end = {.kind = TDG__NOTE_UPDATED};

    if (feed->outlet == NULL || feed->outlet->queued > 0) {
        set_blocked(feed, true);
        return;
    }

    set_taking_time(engine);
    int rv = flush_feed(feed, engine, scratch, &end);
    if (end.kind == TDG__NOTE_END)
        feed->ops->ended(feed, end.reason);
    else if (rv == TDG_ENOMEM)
        feed->ops->failed(feed);
    else if (rv < 0)
        set_blocked(feed, true);
}

void tdg__feed_flush(tdg__feed_t *feed) {
    if (tdg__feed_has_more(feed))
        flush_or_end(feed, feed->worker->engine, tdg__net_scratch(feed->worker->net));
}

bool tdg__feeds_flush(tdg__worker_t *worker, tdg__stream_t *at) {
    tdg__engine_t *engine = worker->engine;
    char *scratch = tdg__net_scratch(worker->net);
    unsigned left = FEEDS_AT_ONCE;

    while (left-- > 0 && (*at = tdg__engine_next_ready(engine, *at)) != 0)
        flush_or_end(tdg__engine_stream_user(engine, *at), engine, scratch);
    return tdg__engine_next_ready(engine, 0) != 0;
}
