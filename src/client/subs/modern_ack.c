/* SPDX-License-Identifier: MIT
 *
 * Acknowledgements: which subscriptions are live, which were left out and so are refused,
 * where the stream begins, and whether anything was missed before. */
#include <string.h>

#include <tidings/error.h>

#include "client/subs/cover.h"
#include "client/subs/modern_streams.h"
#include "client/subs/subs.h"
#include "client/subs/updates.h"

/* The record that an acknowledged URI stands for. A server may spell a template with
 * braces that we spelled with %7B and %7D, or the other way round; looking for that is
 * not cheap, so no more often than there are templates. */
static tdg__sub_t *find_named(const tdg__sub_stream_t *stream, const json_t *uri,
                              size_t *searches) {
    const struct tdg__subs *subs = stream->core->subs;
    const char *text = json_string_value(uri);
    size_t len = json_string_length(uri);
    tdg__sub_t *sub;

    if (text == NULL)
        return NULL;
    sub = tdg__subs_lookup(subs, text, len);
    if (sub != NULL || len > TDG__TEMPLATE_MAX_LEN || strpbrk(text, "{%") == NULL ||
        *searches >= subs->template_count)
        return sub;
    ++*searches;

    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;) {
        if (tdg__sub_is_template(sub) && tdg__cover_same(sub->uri, sub->len, text, len))
            return sub;
    }
    return NULL;
}

static void note_named(tdg__sub_stream_t *stream, const json_t *uris) {
    tdg__sub_t *sub;
    const json_t *uri;
    size_t index, searches = 0;

    json_array_foreach(uris, index, uri) {
        sub = find_named(stream, uri, &searches);
        if (sub != NULL && (sub->leaving == stream->group || sub->group == stream->group))
            sub->acked = stream->serial;
    }
}

/* Settles the calls that wait for lists, and for an unsubscribe. */
static void settle_waiters(tdg__sub_stream_t *stream) {
    tdg__core_t *core = stream->core;
    tdg_failure_t failure;

    while (stream->waiters != NULL) {
        tdg__waiter_t *waiter = stream->waiters;
        bool missing = waiter->pending->kind == TDG__PENDING_LISTS &&
                       (stream->lists & ~stream->honoured) != 0;

        tdg__waiter_settle(core, waiter, missing ? TDG_ENOTSUP : 0,
                           missing ? tdg__failure_set(&failure, TDG_ENOTSUP,
                                                      "the server does not support "
                                                      "notifications of that list")
                                   : NULL);
    }
}

/* What happened since the last stream, as far as we may not hear of it. */
enum gap { NO_GAP, GAP_IN_TEMPLATES, GAP };

/* A server that knows our cursor, or says that it does not, sends an update for each URI
 * and list that has changed or may have; only of what templates match it may not name
 * all. */
static enum gap find_gap(tdg__sub_stream_t *stream, const json_t *meta) {
    const json_t *resumed = json_object_get(meta, "dev.tidings/resumed");
    char cursor[TDG__CURSOR_MAX + 1] = "";
    bool shown = tdg__update_cursor(stream->core, meta, cursor);

    if (!shown)
        stream->core->ours = false;
    memcpy(stream->group->cursor, cursor, sizeof(cursor));
    if (stream->had_cursor && shown && json_is_boolean(resumed))
        return json_is_true(resumed) ? NO_GAP : GAP_IN_TEMPLATES;
    return stream->group->gap || (stream->had_cursor && json_is_false(resumed)) ? GAP
                                                                                : NO_GAP;
}

/* It takes the place of the stream before. */
static void take_over(tdg__sub_stream_t *stream, uint32_t announced) {
    tdg__core_t *core = stream->core;
    tdg__sub_group_t *group = stream->group;

    tdg__sub_stream_drop(&group->old);
    group->old = group->live;
    if (group->old != NULL)
        group->old->left = group->left;
    group->live = stream;
    group->fresh = NULL;
    tdg__lifesign_watch(core, &group->life, announced,
                        !group->refused && (group->gap || group->old == NULL));
    if (core->transport->ops->shared)
        tdg__lifesign_rest(core, &group->life); /* a pipe is silent as long as it likes */
    group->gap = group->left = group->checked = group->refused = false;
    if (group->old != NULL && core->ours)
        tdg__sub_stream_drop(&group->old);
    else if (group->old != NULL)
        tdg__core_timer_at(core, &group->old->timer,
                           tdg__core_now(core) + TDG__SUBS_OVERLAP_MS);
    tdg__core_timer_stop(core, &stream->timer);
    core->subs->suspected = false;
    tdg__backoff_up(&core->backoff, tdg__core_now(core));
}

/* Nobody has it any more: it is asked for again, and reported then. */
static void strand(tdg__sub_t *sub) {
    sub->leaving = NULL;
    tdg__sub_lost(sub);
    sub->group->dirty = true;
    tdg__gap_mark(sub);
}

/* Whether the stream has it now. One that the listen did not ask for in the name of its
 * group may have been there and back while it was under way. */
static bool has_now(tdg__sub_t *sub, uint32_t serial) {
    if (sub->serial == serial)
        return sub->acked == serial;
    if (sub->leaving != NULL || !sub->ever_live || tdg__sub_is_polled(sub))
        return false; /* the next listen asks for it */
    if (sub->acked != serial)
        strand(sub);
    return sub->acked == serial;
}

static void make_live(const tdg__sub_stream_t *stream, enum gap gap, bool checked) {
    tdg__core_t *core = stream->core;
    const tdg__sub_group_t *group = stream->group;
    uint32_t serial = stream->serial;
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (sub->leaving == group && sub->acked != serial)
            strand(sub); /* left out while it is on its way to another group */
        if (sub->group != group || !has_now(sub, serial))
            continue;
        if (checked)
            tdg__gap_compare(sub);
        if (sub->ever_live && (gap == GAP || checked ||
                               (gap == GAP_IN_TEMPLATES && tdg__sub_is_template(sub))))
            tdg__gap_mark(sub);
        tdg__sub_live(core, sub);
    }
}

static bool is_left_out(const tdg__sub_t *sub, const tdg__sub_stream_t *stream) {
    return sub->group == stream->group && sub->serial == stream->serial &&
           sub->acked != stream->serial;
}

/* `refused` has the reasons by URI; it may be anything, or NULL. */
static bool may_pass(const tdg__sub_t *sub, const json_t *refused,
                     tdg_failure_t *failure) {
    return tdg__failure_left_out(failure,
                                 json_string_value(json_object_get(refused, sub->uri)));
}

/* Those that are left out for a passing reason. Nobody watches them until they are
 * acknowledged. */
static void put_off_some(const tdg__sub_stream_t *stream, const json_t *refused) {
    tdg__core_t *core = stream->core;
    tdg_failure_t failure;
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (!is_left_out(sub, stream) || !may_pass(sub, refused, &failure))
            continue;
        if (sub->ever_live && sub->leaving == NULL) {
            tdg__sub_lost(sub); /* it was, on the stream before */
            tdg__gap_mark(sub);
        }
        tdg__sub_put_off(core, sub, &failure);
        sub->retry_ms = tdg__subs_retry(core, -1);
    }
}

/* Last: this reports, and the owner may then do anything. */
static void refuse_rest(const tdg__sub_stream_t *stream, const json_t *refused) {
    tdg__core_t *core = stream->core;
    tdg_failure_t failure;
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (is_left_out(sub, stream) && !may_pass(sub, refused, &failure))
            tdg__sub_refused(core, sub, failure.code, &failure);
    }
}

void tdg__sub_stream_acknowledged(tdg__sub_stream_t *stream, json_t *params) {
    tdg__core_t *core = stream->core;
    tdg__sub_group_t *group = stream->group;
    const json_t *meta = json_object_get(params, "_meta");
    const json_t *refused = json_object_get(meta, "dev.tidings/refused");
    json_t *notifications = json_object_get(params, "notifications");
    enum gap gap;
    bool checked;

    if (stream != group->fresh)
        return; /* once is enough */

    note_named(stream, json_object_get(notifications, "resourceSubscriptions"));
    stream->honoured = tdg__sub_stream_lists(notifications);
    settle_waiters(stream);
    gap = find_gap(stream, meta);
    checked = group->checked && !core->ours; /* ours go on from the cursor */
    if (gap == GAP || checked)
        core->subs->list_gap |= stream->lists;
    core->subs->lists_once |= stream->lists & core->subs->lists;
    take_over(stream, tdg__lifesign_announced(meta));
    make_live(stream, gap, checked);
    put_off_some(stream, refused);
    tdg__subs_kick(core);

    tdg__subs_check_up(core);
    refuse_rest(stream, refused);
    tdg__gaps_tell(core);
}
