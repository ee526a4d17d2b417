/* SPDX-License-Identifier: MIT
 *
 * Notifications of both eras and of the erlmcp dialect become events. One costs a look-up
 * by hash and the JSON values that were parsed anyway, however much is subscribed.
 *
 * Each update is reported once: a version that is not above the last one of that URI, in
 * the same epoch, was reported before; the cursor in the same update has the epoch.
 * Without both nothing is dropped; but while two streams are open, and for a moment
 * after, updates are collected per URI and reported once. When such updates merge, the
 * higher metadata.version wins (event.h). */
#include <string.h>

#include <tidings/error.h>

#include "client/session/connect.h"
#include "client/subs/cover.h"
#include "client/subs/legacy.h"
#include "client/subs/modern_streams.h"
#include "client/subs/reread.h"
#include "client/subs/subs.h"
#include "client/subs/updates.h"

enum { COLLECT_MS = 1000 }; /* no update waits longer for that */

/* ---- To the owner ------------------------------------------------------- */

void tdg__update_emit(tdg__core_t *core, tdg_event_t *event) {
    tdg__event_discharge(event);
    if (core->subs->stopped)
        tdg_event_free(event);
    else
        core->opts.event(core->opts.user, event);
}

tdg_event_t *tdg__update_merge(tdg_event_t *older, tdg_event_t *newer) {
    if (older == NULL || newer == NULL)
        return newer != NULL ? newer : older;
    tdg__event_merge(older, newer);
    if (newer->version == 0)
        newer->version = older->version;
    tdg_event_free(older);
    return newer;
}

/* Before it waits in the record of its URI: for a read, or for the end of an overlap. */
static void charge(tdg__core_t *core, tdg_event_t *event) {
    tdg__event_charge(event, &core->subs->held_bytes, TDG__SUBS_MAX_HELD_BYTES);
}

void tdg__update_tell(tdg__core_t *core, tdg__sub_t *sub, tdg_event_t *event) {
    if (event == NULL) {
        tdg__update_emit(core, NULL);
        return;
    }
    if (event->kind == TDG_EVENT_UPDATED && sub->reread && !tdg__sub_is_template(sub)) {
        charge(core, event);
        sub->held = tdg__update_merge(sub->held, event);
        tdg__reread_queue(core, sub);
        return;
    }
    if (event->kind == TDG_EVENT_DELETED) { /* there is nothing to read any more */
        event = tdg__update_merge(sub->told_read, tdg__update_merge(sub->held, event));
        sub->held = sub->told_read = NULL;
        tdg__reread_end(core, sub);
    }
    tdg__reread_changed(sub, event->kind == TDG_EVENT_DELETED);
    tdg__update_emit(core, event);
}

/* ---- While streams overlap ---------------------------------------------- */

static bool collecting(const tdg__core_t *core) {
    return tdg__sub_streams_overlap(core) ||
           tdg__core_now(core) < core->subs->overlap_end + TDG__SUBS_OVERLAP_MS;
}

/* What is collected is reported when the overlap has been over for a moment, and no later
 * than COLLECT_MS after the first: a server that takes its time must not delay updates
 * that another stream brings. */
void tdg__updates_settle(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    int64_t due = subs->collected_ms + COLLECT_MS;

    if (tdg__queue_is_empty(&subs->collected) && subs->list_collected == 0)
        return;
    if (!tdg__sub_streams_overlap(core) && subs->overlap_end + TDG__SUBS_OVERLAP_MS < due)
        due = subs->overlap_end + TDG__SUBS_OVERLAP_MS;
    tdg__core_timer_at(core, &subs->settle, due);
}

static void begin_collecting(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;

    if (tdg__queue_is_empty(&subs->collected) && subs->list_collected == 0)
        subs->collected_ms = tdg__core_now(core);
}

static void collect(tdg__core_t *core, tdg__sub_t *sub, tdg_event_t *event) {
    struct tdg__subs *subs = core->subs;

    if (event == NULL) {
        tdg__update_emit(core, NULL);
        return;
    }
    begin_collecting(core);
    if (sub->collected == NULL)
        tdg__queue_append(&subs->collected, &sub->in_collected);
    else
        core->counts.repeated++;
    charge(core, event);
    if (sub->collected != NULL)
        tdg__event_keep_higher(sub->collected, event);
    tdg_event_free(sub->collected);
    sub->collected = event;
    tdg__updates_settle(core);
}

/* What is collected about it: reported now, by whoever asks. */
static tdg_event_t *take_collected(tdg__sub_t *sub) {
    tdg_event_t *event = sub->collected;

    if (event != NULL)
        tdg__queue_remove(&sub->in_collected);
    sub->collected = NULL;
    return event;
}

tdg_event_t *tdg__update_take(tdg__sub_t *sub) {
    tdg_event_t *event = tdg__update_merge(sub->told_read, sub->held);

    sub->told_read = sub->held = NULL;
    return tdg__update_merge(event, take_collected(sub));
}

void tdg__updates_flush(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    unsigned lists = subs->list_collected;

    subs->list_collected = 0;
    tdg__update_lists(core, lists, false);
    while (!tdg__queue_is_empty(&subs->collected)) {
        tdg__sub_t *sub = TDG__RECORD(tdg__sub_t, in_collected, subs->collected.next);

        tdg__update_tell(core, sub, take_collected(sub));
    }
}

/* ---- Cursors and versions ----------------------------------------------- */

bool tdg__update_cursor(tdg__core_t *core, const json_t *meta, char *ret) {
    const json_t *value = json_object_get(meta, "dev.tidings/cursor");
    const char *text = json_string_value(value);
    uint64_t number;

    if (text == NULL || json_string_length(value) > TDG__CURSOR_MAX ||
        tdg__cursor_read(text, &core->subs->epoch, &number) < 0)
        return false;
    core->ours = true;
    memcpy(ret, text, json_string_length(value) + 1);
    return true;
}

/* Keeps the cursor of the stream; not of one that was replaced. Returns whether there is
 * one. */
static bool keep_cursor(tdg__core_t *core, const tdg__sub_stream_t *stream,
                        const json_t *meta) {
    char aside[TDG__CURSOR_MAX + 1];
    char *place = aside;

    if (stream != NULL && stream == stream->group->live)
        place = stream->group->cursor;
    else if (stream == NULL && core->era == TDG_ERA_LEGACY)
        place = core->subs->cursor;
    return tdg__update_cursor(core, meta, place);
}

/* Whether it is news; remembers it then. `version` is 0 where nothing can be said. */
static bool is_newer(tdg__core_t *core, tdg__sub_t *sub, int64_t version) {
    uint64_t epoch = core->subs->epoch;

    if (version > 0 && sub->version >= version && sub->epoch == epoch) {
        core->counts.repeated++;
        return false;
    }
    sub->version = version;
    sub->epoch = epoch;
    return true;
}

/* Servers that give no version of ours may number changes by metadata.version. What is
 * lower than the one before is reported all the same, because an application may count
 * anew. */
static void mark_older(tdg__core_t *core, tdg__sub_t *sub, tdg_event_t *event) {
    json_t *number = json_object_get(event->metadata, "version");

    if (event->version != 0 || !json_is_number(number))
        return;
    event->older = tdg__event_is_lower(number, sub->number);
    core->counts.older += event->older ? 1 : 0;
    json_decref(sub->number);
    sub->number = json_incref(number);
}

/* ---- Notifications ------------------------------------------------------ */

struct notice;

struct kind {
    const char *method;
    void (*take)(const struct notice *notice);
    int list;
    bool deleted;
};

struct notice {
    tdg__core_t *core;
    tdg__sub_stream_t *stream; /* that it came on; NULL: on none, or nobody knows */
    json_t *params;
    const json_t *meta;
    const struct kind *kind;
    tdg__lifesign_t *life; /* of the stream that it came on; NULL: nobody knows */
};

/* The record that an update is about; NULL: nobody has asked for it. */
static tdg__sub_t *addressee(tdg__core_t *core, const json_t *uri) {
    const char *text = json_string_value(uri);
    size_t len = json_string_length(uri);
    tdg__sub_t *sub;

    if (text == NULL || len == 0)
        return NULL;
    sub = tdg__subs_lookup(core->subs, text, len);
    if (sub != NULL && tdg__sub_wanted(sub)) {
        sub->owed = false;
        return sub;
    }
    return tdg__cover_hear(core, text, len);
}

static json_t *metadata_of(const struct notice *notice) {
    json_t *metadata = json_object_get(notice->params, "metadata");

    if (!json_is_object(metadata))
        metadata = json_object_get(notice->meta, "dev.tidings/metadata");
    return json_is_object(metadata) ? metadata : NULL;
}

/* A stream that brings a change is checked as often as at first when it is silent the
 * next time. Where it has just taken the place of another, that one did not bring it. */
static void note_change(const struct notice *notice) {
    if (notice->life != NULL)
        tdg__lifesign_restart(notice->core, notice->life);
}

static void on_changed(const struct notice *notice) {
    tdg__core_t *core = notice->core;
    tdg__sub_t *sub = addressee(core, json_object_get(notice->params, "uri"));
    json_int_t merged =
        json_integer_value(json_object_get(notice->meta, "dev.tidings/merged"));
    int64_t version =
        json_integer_value(json_object_get(notice->meta, "dev.tidings/version"));
    json_t *metadata = metadata_of(notice);
    const char *type = json_string_value(json_object_get(metadata, "change_type"));
    tdg_event_t *event;
    bool comparable, deleted;

    core->counts.updates++;
    /* Versions are compared where it is known whose they are. A server that has begun
     * anew counts anew; ours show that by the epoch, and epoch 0 while they report what a
     * cursor from before has missed. */
    comparable = keep_cursor(core, notice->stream, notice->meta) &&
                 core->subs->epoch != 0 && version > 0;
    if (sub == NULL)
        return;
    sub->heard_ms = tdg__core_now(core);
    if (!is_newer(core, sub, comparable ? version : 0))
        return;
    note_change(notice);

    deleted = notice->kind->deleted || (type != NULL && strcmp(type, "deleted") == 0);
    event = tdg__event_create(deleted ? TDG_EVENT_DELETED : TDG_EVENT_UPDATED, sub->uri,
                              metadata, NULL, 0, NULL);
    if (event != NULL) {
        event->version = version > 0 ? version : 0;
        event->merged = merged > 0 && merged < UINT32_MAX ? (uint32_t)merged : 0;
        mark_older(core, sub, event);
    }
    if (tdg__sub_is_live(sub)) /* this says what a gap would */
        sub->gap = false;
    if (!comparable && collecting(core)) {
        collect(core, sub, event);
        return;
    }
    tdg_event_free(take_collected(sub)); /* older than this one */
    tdg__update_tell(core, sub, event);
}

void tdg__update_lists(tdg__core_t *core, unsigned lists, bool maybe) {
    for (unsigned list = 0; list <= TDG_LIST_PROMPTS; list++) {
        tdg_event_t *event;

        if ((lists & 1u << list) == 0)
            continue;
        event = tdg__event_create(TDG_EVENT_LIST_CHANGED, NULL, NULL, NULL, 0, NULL);
        if (event != NULL) {
            event->list = (tdg_list_kind_t)list;
            event->maybe = maybe;
        }
        tdg__update_emit(core, event);
    }
}

static void on_list_changed(const struct notice *notice) {
    tdg__core_t *core = notice->core;
    struct tdg__subs *subs = core->subs;
    unsigned bit = 1u << notice->kind->list;

    keep_cursor(core, notice->stream, notice->meta);
    if ((subs->lists & bit) == 0)
        return;
    subs->list_gap &= ~bit;
    note_change(notice);
    if (collecting(core)) {
        begin_collecting(core);
        subs->list_collected |= bit;
        tdg__updates_settle(core);
    } else {
        tdg__update_lists(core, bit, false);
    }
}

static void on_log(const struct notice *notice) {
    tdg__core_t *core = notice->core;

    if ((core->client->flags & TDG_CLIENT_LOGS) && notice->params != NULL)
        tdg__update_emit(core, tdg__event_create(TDG_EVENT_MESSAGE, NULL, notice->params,
                                                 NULL, 0, NULL));
}

static void on_acknowledged(const struct notice *notice) {
    if (notice->stream != NULL)
        tdg__sub_stream_acknowledged(notice->stream, notice->params);
}

/* A server that ends a stream of a pipe cancels it, after the response or without. */
static void on_cancelled(const struct notice *notice) {
    tdg__sub_stream_t *stream =
        tdg__sub_stream_by_id(notice->core, json_object_get(notice->params, "requestId"));

    if (stream != NULL)
        tdg__sub_stream_cancelled(stream);
}

static void on_progress(const struct notice *notice) {
    const tdg__core_t *core = notice->core;

    if (core->opts.progress != NULL &&
        json_is_number(json_object_get(notice->params, "progress")))
        core->opts.progress(core->opts.user, notice->params);
}

static const struct kind kinds[] = {
    {"notifications/resources/updated", on_changed, 0, false},
    {"notifications/resources/deleted", on_changed, 0, true},
    {"notifications/resources/list_changed", on_list_changed, TDG_LIST_RESOURCES, false},
    {"notifications/tools/list_changed", on_list_changed, TDG_LIST_TOOLS, false},
    {"notifications/prompts/list_changed", on_list_changed, TDG_LIST_PROMPTS, false},
    {"notifications/subscriptions/acknowledged", on_acknowledged, 0, false},
    {"notifications/message", on_log, 0, false},
    {"notifications/progress", on_progress, 0, false},
    {"notifications/cancelled", on_cancelled, 0, false},
    {"resources/updated", on_changed, 0, false},
    {"resources/deleted", on_changed, 0, true},
    {"resources/list_changed", on_list_changed, TDG_LIST_RESOURCES, false},
    {"tools/list_changed", on_list_changed, TDG_LIST_TOOLS, false},
    {"prompts/list_changed", on_list_changed, TDG_LIST_PROMPTS, false},
};

static const struct kind *find_kind(const char *method) {
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].method, method) == 0)
            return &kinds[i];
    }
    return NULL;
}

void tdg__updates_notification(tdg__core_t *core, const tdg__client_request_t *on,
                               tdg__sub_stream_t *stream,
                               const tdg__rpc_message_t *message) {
    const struct kind *kind = find_kind(message->method);
    struct notice notice = {
        .core = core,
        .kind = kind,
        .stream = stream,
        .params = message->params,
        .meta = json_object_get(message->params, "_meta"),
    };

    if (kind == NULL || core->subs->stopped)
        return;
    if (on == NULL && core->era == TDG_ERA_MODERN && kind->take != on_cancelled &&
        json_object_get(notice.meta, "io.modelcontextprotocol/subscriptionId") != NULL)
        return; /* of a stream that is over */
    if (stream != NULL) {
        notice.life = &stream->group->life;
        tdg__lifesign_message(core, notice.life);
    } else if (on == NULL && core->era == TDG_ERA_LEGACY) {
        notice.life = core->transport_kind == TDG__TRANSPORT_SSE ? &core->connect->life
                                                                 : &core->subs->get.life;
    }
    kind->take(&notice);
}
