/* SPDX-License-Identifier: MIT
 *
 * Possibly missed changes: resources and lists that were not subscribed to for a while,
 * if the server does not know what happened meanwhile. Each is reported once, with
 * `maybe`, when it is subscribed to again; after a check of a silent stream (lifesign.h),
 * in which probably nothing was missed, it is read first, and reported if it differs. */
#include "client/subs/reread.h"
#include "client/subs/subs.h"
#include "client/subs/updates.h"

void tdg__gap_mark(tdg__sub_t *sub) {
    if (!tdg__sub_wanted(sub))
        return; /* the server has yet to know; nobody else cares */
    sub->gap = true;
    sub->core->subs->gaps = true;
}

void tdg__gap_compare(tdg__sub_t *sub) {
    if (tdg__sub_wanted(sub) && !tdg__sub_is_template(sub))
        sub->compare_gap = true;
}

static void tell_lists(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    unsigned lists = subs->list_gap & subs->lists;

    if (core->era == TDG_ERA_MODERN ? subs->groups->live == NULL
                                    : !tdg__legacy_get_ready(core))
        return;
    subs->list_gap = 0;
    tdg__update_lists(core, lists, true);
}

void tdg__gaps_tell(tdg__core_t *core) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_t *sub;

    if (!subs->up || (!subs->gaps && subs->list_gap == 0))
        return;
    /* UP comes first, which in a legacy session takes as long as all its requests. */
    if (core->era != TDG_ERA_MODERN && subs->told_down &&
        (subs->requests > 0 || !tdg__queue_is_empty(&subs->todo)))
        return;

    tell_lists(core);
    subs->gaps = false;
    for (uint32_t id = 0; (sub = tdg__subs_next(subs, &id)) != NULL;) {
        tdg_event_t *event;
        bool compare;

        if (!sub->gap)
            continue;
        if (!tdg__sub_is_live(sub)) {
            subs->gaps = true;
            continue;
        }
        compare = sub->compare_gap;
        sub->gap = sub->compare_gap = false;
        event = tdg__event_create(TDG_EVENT_UPDATED, sub->uri, NULL, NULL, 0, NULL);
        if (event != NULL)
            event->maybe = true;
        if (compare)
            tdg__reread_compare(core, sub, event);
        else
            tdg__update_tell(core, sub, event);
    }
}
