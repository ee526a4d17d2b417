/* SPDX-License-Identifier: MIT
 *
 * What an acknowledgement says: which subscriptions are live, which were left out and so
 * are refused, where the stream begins, and whether anything was missed before. */
#include <string.h>

#include <tidings/error.h>

#include "client/subs_internal.h"

/* The record that an acknowledged URI stands for. A server may spell a template with
 * braces that we spelled with %7B and %7D, or the other way round; looking for that is
 * not cheap, so no more often than there are templates. */
static tdg__sub_t *find_named(const tdg__listen_t *listen, const json_t *uri,
                              size_t *searches) {
    const struct tdg__subs *subs = listen->core->subs;
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
        if ((sub->flags & TDG__SUB_TEMPLATE) &&
            tdg__cover_same(sub->uri, sub->len, text, len))
            return sub;
    }
    return NULL;
}

static void note_named(tdg__listen_t *listen, const json_t *uris) {
    tdg__sub_t *sub;
    const json_t *uri;
    size_t index, searches = 0;

    json_array_foreach(uris, index, uri) {
        sub = find_named(listen, uri, &searches);
        if (sub != NULL && (sub->leaving == listen->group || sub->group == listen->group))
            sub->acked = listen->serial;
    }
}

/* Lists: those who wait for the wish are told; so is whoever waits for an unsubscribe. */
static void settle_waiters(tdg__listen_t *listen) {
    tdg__core_t *core = listen->core;
    tdg_failure_t failure;

    while (listen->waiters != NULL) {
        tdg__waiter_t *waiter = listen->waiters;
        bool missing = waiter->call->kind == TDG__CALL_LISTS &&
                       (listen->lists & ~listen->honoured) != 0;

        tdg__waiter_settle(core, waiter, missing ? TDG_ENOTSUP : 0,
                           missing ? tdg__failure_make(&failure, TDG_ENOTSUP,
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
static enum gap find_gap(tdg__listen_t *listen, const json_t *meta) {
    const json_t *resumed = json_object_get(meta, "dev.tidings/resumed");
    char cursor[TDG__CURSOR_MAX + 1] = "";
    bool shown = tdg__update_cursor(listen->core, meta, cursor);

    if (!shown)
        listen->core->ours = false;
    memcpy(listen->group->cursor, cursor, sizeof(cursor));
    if (listen->had_cursor && shown && json_is_boolean(resumed))
        return json_is_true(resumed) ? NO_GAP : GAP_IN_TEMPLATES;
    return listen->group->gap || (listen->had_cursor && json_is_false(resumed)) ? GAP
                                                                                : NO_GAP;
}

/* It takes the place of the stream before. */
static void take_over(tdg__listen_t *listen, uint32_t announced) {
    tdg__core_t *core = listen->core;
    tdg__sub_group_t *group = listen->group;

    tdg__listen_drop(core, &group->old);
    group->old = group->live;
    if (group->old != NULL)
        group->old->left = group->left;
    group->live = listen;
    group->fresh = NULL;
    tdg__lifesign_watch(core, &group->life, announced,
                        !group->refused && (group->gap || group->old == NULL));
    if (core->wire->ops->shared)
        tdg__lifesign_rest(core, &group->life); /* a pipe is silent as long as it likes */
    group->gap = group->left = group->checked = group->refused = false;
    if (group->old != NULL && core->ours)
        tdg__listen_drop(core, &group->old);
    else if (group->old != NULL)
        tdg__core_timer_at(core, &group->old->timer,
                           tdg__core_now(core) + TDG__SUBS_OVERLAP_MS);
    tdg__core_timer_stop(core, &listen->timer);
    core->subs->suspected = false;
    tdg__backoff_up(&core->backoff, tdg__core_now(core));
}

/* Nobody has it any more: it is asked for again, and told then. */
static void strand(tdg__sub_t *sub) {
    sub->leaving = NULL;
    sub->flags &= ~(unsigned)TDG__SUB_LIVE;
    sub->group->dirty = true;
    tdg__gap_mark(sub);
}

/* Whether the stream has it now. One that the listen did not ask for in the name of its
 * group may have been there and back while it was under way. */
static bool has_now(tdg__sub_t *sub, uint32_t serial) {
    if (sub->serial == serial)
        return sub->acked == serial;
    if (sub->leaving != NULL || (sub->flags & TDG__SUB_ONCE) == 0 ||
        (sub->flags & TDG__SUB_POLLED))
        return false; /* the next listen asks for it */
    if (sub->acked != serial)
        strand(sub);
    return sub->acked == serial;
}

static void make_live(tdg__core_t *core, tdg__sub_group_t *group, uint32_t serial,
                      enum gap gap, bool checked) {
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (sub->leaving == group && sub->acked != serial)
            strand(sub); /* left out while it is on its way to another group */
        if (sub->group != group || !has_now(sub, serial))
            continue;
        if (checked)
            tdg__gap_compare(sub);
        if ((sub->flags & TDG__SUB_ONCE) != 0 &&
            (gap == GAP || checked ||
             (gap == GAP_IN_TEMPLATES && (sub->flags & TDG__SUB_TEMPLATE) != 0)))
            tdg__gap_mark(sub);
        tdg__sub_live(core, sub);
    }
}

static bool is_left_out(const tdg__sub_t *sub, const tdg__sub_group_t *group,
                        uint32_t serial) {
    return sub->group == group && sub->serial == serial && sub->acked != serial;
}

/* `refused` has the reasons by URI; it may be anything, or NULL. */
static bool may_pass(const tdg__sub_t *sub, const json_t *refused,
                     tdg_failure_t *failure) {
    return tdg__failure_left_out(failure,
                                 json_string_value(json_object_get(refused, sub->uri)));
}

/* Those that are left out for a passing reason. Nobody watches them until they are
 * acknowledged. */
static void put_off_some(tdg__core_t *core, const tdg__sub_group_t *group,
                         uint32_t serial, const json_t *refused) {
    tdg_failure_t failure;
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (!is_left_out(sub, group, serial) || !may_pass(sub, refused, &failure))
            continue;
        if ((sub->flags & TDG__SUB_ONCE) != 0 && sub->leaving == NULL) {
            sub->flags &= ~(unsigned)TDG__SUB_LIVE; /* it was, on the stream before */
            tdg__gap_mark(sub);
        }
        tdg__sub_put_off(core, sub, &failure);
        tdg__sub_retry(core, -1);
    }
}

/* Last: this tells, and whoever is told may do anything. */
static void refuse_rest(tdg__core_t *core, const tdg__sub_group_t *group, uint32_t serial,
                        const json_t *refused) {
    tdg_failure_t failure;
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (is_left_out(sub, group, serial) && !may_pass(sub, refused, &failure))
            tdg__sub_refused(core, sub, failure.code, &failure);
    }
}

void tdg__listen_acknowledged(tdg__listen_t *listen, json_t *params) {
    tdg__core_t *core = listen->core;
    tdg__sub_group_t *group = listen->group;
    const json_t *meta = json_object_get(params, "_meta");
    const json_t *refused = json_object_get(meta, "dev.tidings/refused");
    json_t *notifications = json_object_get(params, "notifications");
    uint32_t serial = listen->serial;
    enum gap gap;
    bool checked;

    if (listen != group->fresh)
        return; /* once is enough */

    note_named(listen, json_object_get(notifications, "resourceSubscriptions"));
    listen->honoured = tdg__listen_lists(notifications);
    settle_waiters(listen);
    gap = find_gap(listen, meta);
    checked = group->checked && !core->ours; /* ours go on from the cursor */
    if (gap == GAP || checked)
        core->subs->list_gap |= listen->lists;
    core->subs->lists_once |= listen->lists & core->subs->lists;
    take_over(listen, tdg__lifesign_announced(meta));
    make_live(core, group, serial, gap, checked);
    put_off_some(core, group, serial, refused);
    tdg__subs_kick(core);

    tdg__subs_check_up(core);
    refuse_rest(core, group, serial, refused);
    tdg__gaps_tell(core);
}
