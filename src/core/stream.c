/* SPDX-License-Identifier: MIT
 *
 * Streams: their changes in flight, ready and taken.
 *
 * The subscriptions in flight are one list per stream, ordered by `first`: a change that
 * puts a subscription in flight is the newest, so it goes to the end, and the stream's
 * cursor is one less than the head's `first`, without a search. Only catch-up puts older
 * changes in flight; these go to the head with a `first` no larger than the head's, which
 * keeps the order and makes the cursor at worst too small: the client is notified once
 * too often, never too little. */
#include "core/internal.h"

#include <assert.h>

#include <tidings/error.h>

/* ---- Handles ------------------------------------------------------------ */

uint32_t tdg__stream_find(const tdg__engine_t *engine, tdg__stream_t handle) {
    uint32_t id = (uint32_t)handle;
    struct stream *stream;

    if (id == 0 || id >= tdg__pool_end(&engine->streams))
        return 0;

    stream = stream_at(engine, id);
    if (stream == NULL || stream->generation == 0 || stream->generation != handle >> 32)
        return 0;
    return id;
}

tdg__stream_t tdg__stream_handle(const tdg__engine_t *engine, uint32_t id) {
    return (uint64_t)stream_at(engine, id)->generation << 32 | id;
}

/* ---- In flight ---------------------------------------------------------- */

static uint64_t oldest_in_flight(const tdg__engine_t *engine,
                                 const struct stream *stream) {
    if (stream->flight.first == 0)
        return engine->last_number + 1;
    return sub_at(engine, stream->flight.first)->first;
}

/* The number of the oldest change that the stream may not have been notified of. */
static uint64_t first_unnotified(const tdg__engine_t *engine,
                                 const struct stream *stream) {
    uint64_t first = oldest_in_flight(engine, stream);

    if (stream->ended)
        return stream->end_first;
    return stream->holds != 0 && stream->held_first < first ? stream->held_first : first;
}

static void enter_flight(tdg__engine_t *engine, struct sub *sub, uint64_t first,
                         uint32_t passed) {
    struct group *group = group_at(engine, sub->group);

    sub->first = first;
    sub->mark = group->passed - passed;
    sub->wait = WAIT_WINDOW;
    group->in_flight++;
    engine->counters.pending++;
    if (sub->kind == SUB_DERIVED)
        stream_at(engine, sub->stream)->derived_in_flight++;
}

void tdg__flight_append(tdg__engine_t *engine, uint32_t id, uint64_t first) {
    struct sub *sub = sub_at(engine, id);

    enter_flight(engine, sub, first, 1);
    tdg__list_append(&stream_at(engine, sub->stream)->flight, &engine->subs, FLIGHT, id);
}

void tdg__flight_prepend(tdg__engine_t *engine, uint32_t id, uint64_t first) {
    struct sub *sub = sub_at(engine, id);
    struct stream *stream = stream_at(engine, sub->stream);
    uint64_t head;

    if (sub->wait == IDLE) {
        enter_flight(engine, sub, first, 0);
    } else {
        tdg__list_remove(&stream->flight, &engine->subs, FLIGHT, id);
        if (first < sub->first)
            sub->first = first;
    }

    head = oldest_in_flight(engine, stream);
    if (head < sub->first)
        sub->first = head;
    tdg__list_prepend(&stream->flight, &engine->subs, FLIGHT, id);
}

void tdg__flight_leave(tdg__engine_t *engine, uint32_t id) {
    struct sub *sub = sub_at(engine, id);
    struct stream *stream = stream_at(engine, sub->stream);
    struct group *group = group_at(engine, sub->group);

    if (sub->wait == IDLE)
        return;

    tdg__list_remove(&stream->flight, &engine->subs, FLIGHT, id);
    if (sub->queued == QUEUE_READY)
        tdg__queue_leave(engine, id);
    if (sub->wait == WAIT_LIMIT)
        group->limited--;
    if (sub->kind == SUB_DERIVED)
        stream->derived_in_flight--;
    sub->wait = IDLE;
    tdg__change_unref(sub->held);
    sub->held = NULL;
    engine->counters.pending--;
    group->in_flight--;
    tdg__group_unwait(engine, sub);
    tdg__group_forget_newest(group);
}

/* `first` 0 stands for a change before this epoch. */
static tdg__cursor_t cursor_of(const tdg__engine_t *engine, const struct stream *stream) {
    uint64_t first = first_unnotified(engine, stream);

    if (first == 0)
        return (tdg__cursor_t){0, 0};
    return (tdg__cursor_t){engine->opts.epoch, first - 1};
}

int tdg__engine_cursor(const tdg__engine_t *engine, tdg__stream_t handle,
                       tdg__cursor_t *ret) {
    uint32_t id = tdg__stream_find(engine, handle);

    if (id == 0)
        return TDG_ENOTFOUND;
    *ret = cursor_of(engine, stream_at(engine, id));
    return 0;
}

/* ---- Queues ------------------------------------------------------------- */

static tdg__list_t *ready_list(const tdg__engine_t *engine, const struct sub *sub) {
    return &stream_at(engine, sub->stream)->ready[TDG__PRIORITY_HIGH - sub->priority];
}

static tdg__list_t *queue_of(tdg__engine_t *engine, const struct sub *sub) {
    struct group *group = group_at(engine, sub->group);

    if (sub->queued == QUEUE_READY)
        return ready_list(engine, sub);
    return sub->queued == QUEUE_RECENT ? &group->recent
                                       : &subject_of(engine, group)->watch.waiting;
}

static bool has_note(const struct stream *stream) {
    bool something = stream->ended ? !stream->end_taken : false;

    for (int level = 0; level < PRIORITIES; level++)
        something |= stream->ready[level].first != 0;
    return something;
}

bool tdg__engine_has_note(const tdg__engine_t *engine, tdg__stream_t handle) {
    uint32_t id = tdg__stream_find(engine, handle);

    return id != 0 && has_note(stream_at(engine, id));
}

static void update_ready(tdg__engine_t *engine, uint32_t id) {
    const struct stream *stream = stream_at(engine, id);

    if (has_note(stream) && !stream->blocked)
        tdg__bitset_add(&engine->ready, id);
    else
        tdg__bitset_remove(&engine->ready, id);
}

void tdg__queue_leave(tdg__engine_t *engine, uint32_t id) {
    struct sub *sub = sub_at(engine, id);
    bool was_ready = sub->queued == QUEUE_READY;
    tdg__list_t *list;

    if (sub->queued == QUEUE_NONE)
        return;

    list = queue_of(engine, sub);
    tdg__list_remove(list, &engine->subs, QUEUE, id);
    sub->queued = QUEUE_NONE;
    if (was_ready && list->first == 0)
        update_ready(engine, sub->stream);
}

void tdg__stream_make_ready(tdg__engine_t *engine, uint32_t id) {
    struct sub *sub = sub_at(engine, id);

    tdg__queue_leave(engine, id);
    sub->wait = WAIT_READER;
    sub->queued = QUEUE_READY;
    tdg__list_append(ready_list(engine, sub), &engine->subs, QUEUE, id);
    if (!stream_at(engine, sub->stream)->blocked)
        tdg__bitset_add(&engine->ready, sub->stream);
}

/* ---- Life of a stream --------------------------------------------------- */

int tdg__engine_open(tdg__engine_t *engine, void *user, tdg__stream_t *ret) {
    struct stream *stream;
    uint32_t id;

    if (engine->streams.count >= engine->opts.max_streams)
        return TDG_ESTREAMS;

    stream = tdg__pool_alloc(&engine->streams, &id);
    if (stream == NULL)
        return TDG_ENOMEM;

    if (tdg__bitset_reserve(&engine->ready, id + 1) < 0) {
        tdg__pool_free(&engine->streams, id);
        return TDG_ENOMEM;
    }

    engine->generation++;
    if (engine->generation == 0)
        engine->generation = 1;
    stream->generation = engine->generation;
    stream->user = user;
    *ret = tdg__stream_handle(engine, id);
    return 0;
}

static void drop_subs(tdg__engine_t *engine, struct stream *stream) {
    while (stream->own.first != 0)
        tdg__sub_remove(engine, stream->own.first);
    assert(stream->subs == 0 && stream->derived == 0 && stream->flight.first == 0);
    assert(stream->holds == 0 && stream->templates == 0);
}

void tdg__engine_close(tdg__engine_t *engine, tdg__stream_t handle) {
    uint32_t id = tdg__stream_find(engine, handle);

    if (id == 0)
        return;

    drop_subs(engine, stream_at(engine, id));
    tdg__bitset_remove(&engine->ready, id);
    tdg__pool_free(&engine->streams, id);
}

static void end_stream(tdg__engine_t *engine, uint32_t id, int reason, uint64_t first) {
    struct stream *stream = stream_at(engine, id);

    assert(!stream->ended);
    drop_subs(engine, stream);
    stream->ended = true;
    stream->end_reason = reason;
    stream->end_first = first;
    update_ready(engine, id);
}

int tdg__engine_end(tdg__engine_t *engine, tdg__stream_t handle, int reason) {
    uint32_t id = tdg__stream_find(engine, handle);
    struct stream *stream;

    if (id == 0)
        return TDG_ENOTFOUND;

    stream = stream_at(engine, id);
    if (!stream->ended)
        end_stream(engine, id, reason, first_unnotified(engine, stream));
    return 0;
}

void tdg__stream_doom(tdg__engine_t *engine, uint32_t id, uint64_t number) {
    struct stream *stream = stream_at(engine, id);

    if (stream->end_reason != 0)
        return;

    stream->end_reason = TDG_EPENDING;
    stream->end_first = first_unnotified(engine, stream);
    if (number < stream->end_first)
        stream->end_first = number;
    stream->next_doomed = engine->first_doomed;
    engine->first_doomed = id;
}

void tdg__streams_end_doomed(tdg__engine_t *engine) {
    while (engine->first_doomed != 0) {
        uint32_t id = engine->first_doomed;
        struct stream *stream = stream_at(engine, id);

        engine->first_doomed = stream->next_doomed;
        engine->counters.ended++;
        end_stream(engine, id, TDG_EPENDING, stream->end_first);
    }
}

bool tdg__engine_has_ended(const tdg__engine_t *engine, tdg__stream_t handle) {
    uint32_t id = tdg__stream_find(engine, handle);

    return id != 0 && stream_at(engine, id)->ended;
}

void *tdg__engine_stream_user(const tdg__engine_t *engine, tdg__stream_t handle) {
    uint32_t id = tdg__stream_find(engine, handle);

    return id == 0 ? NULL : stream_at(engine, id)->user;
}

int tdg__engine_block(tdg__engine_t *engine, tdg__stream_t handle, bool blocked) {
    uint32_t id = tdg__stream_find(engine, handle);

    if (id == 0)
        return TDG_ENOTFOUND;
    stream_at(engine, id)->blocked = blocked;
    update_ready(engine, id);
    return 0;
}

/* ---- Taking ------------------------------------------------------------- */

static uint32_t first_ready(const struct stream *stream) {
    for (int level = 0; level < PRIORITIES; level++)
        if (stream->ready[level].first != 0)
            return stream->ready[level].first;
    return 0;
}

tdg__stream_t tdg__engine_next_ready(const tdg__engine_t *engine, tdg__stream_t after) {
    uint32_t id = tdg__bitset_next(&engine->ready, (uint32_t)after + 1);
    uint32_t next;

    if (id == UINT32_MAX)
        return 0;

    /* While the caller writes, the next one's records come closer. */
    next = tdg__bitset_next(&engine->ready, id + 1);
    if (next != UINT32_MAX) {
        uint32_t sub = first_ready(stream_at(engine, next));

        if (sub != 0)
            prefetch(sub_at(engine, sub), sizeof(struct sub));
    }
    return tdg__stream_handle(engine, id);
}

tdg__change_t *tdg__flight_newest(const tdg__engine_t *engine, const struct sub *sub) {
    tdg__change_t *newest = group_at(engine, sub->group)->newest;

    if (newest == NULL || (sub->held != NULL && sub->held->number > newest->number))
        return sub->held;
    return newest;
}

static bool takes_part(const tdg__engine_t *engine, const struct sub *sub) {
    return sub->wait != IDLE && tdg__sub_state(engine, sub) == TDG__SUBSCRIBED;
}

/* Of two changes of one resource: the newer one, then the one that the source made, then
 * the one that knows of a deletion. */
static bool says_more(const tdg__change_t *change, const tdg__change_t *than) {
    if (change->number != than->number)
        return change->number > than->number;
    return than->assumed && (!change->assumed || change->deleted);
}

/* From what the ring of siblings around a sub has in flight: the newest change and the
 * largest number of changes. */
static void look_around(const tdg__engine_t *engine, uint32_t id, tdg__note_t *note) {
    uint32_t at = id;
    uint32_t most = 1;

    do {
        struct sub *sub = sub_at(engine, at);

        if (takes_part(engine, sub)) {
            tdg__change_t *change = tdg__flight_newest(engine, sub);
            uint32_t count = group_at(engine, sub->group)->passed - sub->mark;

            if (note->change == NULL || says_more(change, note->change))
                note->change = change;
            if (count > most)
                most = count;
        }
        at = sub->sibling;
    } while (at != 0 && at != id);
    note->merged = most - 1;
}

/* Keeps what the note points to until the next take. */
static void lend(tdg__engine_t *engine, tdg__change_t *change) {
    tdg__change_t *before = engine->loan;

    engine->loan = tdg__change_ref(change);
    tdg__change_unref(before);
}

/* One that is not acknowledged yet is served as well if the note is as new as what it
 * has. Nothing is kept of a derived one then: no limit begins. */
static void serve_unacknowledged(tdg__engine_t *engine, uint32_t id, uint64_t number) {
    const struct sub *sub = sub_at(engine, id);

    if (sub->wait == IDLE || tdg__flight_newest(engine, sub)->number > number)
        return;
    tdg__flight_leave(engine, id);
    if (sub->kind == SUB_DERIVED) {
        sub_at(engine, sub->parent)->flags |= SUB_SERVED;
        tdg__sub_remove(engine, id);
    }
}

/* All siblings that take part are served by one note. Some may be gone afterwards. */
static void serve_siblings(tdg__engine_t *engine, uint32_t id, uint64_t number) {
    const struct stream *stream = stream_at(engine, sub_at(engine, id)->stream);
    bool keep = stream->derived <= engine->opts.max_pending;
    uint32_t next = sub_at(engine, id)->sibling;

    while (next != 0 && next != id) {
        uint32_t at = next;

        next = sub_at(engine, at)->sibling;
        if (takes_part(engine, sub_at(engine, at))) {
            tdg__flight_leave(engine, at);
            tdg__group_taken(engine, at, keep);
        } else {
            serve_unacknowledged(engine, at, number);
        }
    }
    tdg__flight_leave(engine, id);
    tdg__group_taken(engine, id, keep);
}

/* Removes what templates have on a URI that the stream may no longer read. */
static void remove_derived(tdg__engine_t *engine, uint32_t id) {
    uint32_t next = sub_at(engine, id)->sibling;

    while (next != 0 && next != id) {
        uint32_t at = next;

        next = sub_at(engine, at)->sibling;
        if (sub_at(engine, at)->kind == SUB_DERIVED)
            tdg__sub_remove(engine, at);
    }
    tdg__sub_remove(engine, id);
}

/* The next one to be taken, or 0. A right may have gone since the change came. */
static uint32_t next_to_take(tdg__engine_t *engine, struct stream *stream) {
    uint32_t id;

    while ((id = first_ready(stream)) != 0) {
        const struct sub *sub = sub_at(engine, id);

        if (sub->kind != SUB_DERIVED ||
            tdg__may_read(engine, sub->stream, group_at(engine, sub->group)->owner))
            break;
        remove_derived(engine, id);
    }
    return id;
}

static int take_end(tdg__engine_t *engine, uint32_t id, tdg__note_t *ret) {
    struct stream *stream = stream_at(engine, id);

    if (stream->end_taken)
        return 0;

    stream->end_taken = true;
    update_ready(engine, id);
    *ret = (tdg__note_t){.kind = TDG__NOTE_END,
                         .reason = stream->end_reason,
                         .cursor = cursor_of(engine, stream)};
    return 1;
}

int tdg__engine_take(tdg__engine_t *engine, tdg__stream_t handle, tdg__note_t *ret) {
    uint32_t stream_id = tdg__stream_find(engine, handle);
    struct stream *stream;
    tdg__note_t note = {0};
    uint32_t id;

    if (stream_id == 0)
        return TDG_ENOTFOUND;
    stream = stream_at(engine, stream_id);
    if (stream->ended)
        return take_end(engine, stream_id, ret);
    id = next_to_take(engine, stream);
    if (id == 0)
        return 0;

    look_around(engine, id, &note);
    lend(engine, note.change);
    serve_siblings(engine, id, note.change->number);
    note.kind =
        note.change->kind == TDG__TARGET_LIST ? TDG__NOTE_LIST : TDG__NOTE_UPDATED;
    note.cursor = cursor_of(engine, stream);
    engine->counters.delivered++;
    engine->counters.merged += note.merged;
    *ret = note;
    return 1;
}
