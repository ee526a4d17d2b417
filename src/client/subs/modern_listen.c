/* SPDX-License-Identifier: MIT
 *
 * The request of a listen: the URIs and lists of a group, the cursor from which it
 * resumes, and which of them were on no stream before. */
#include <string.h>

#include <tidings/error.h>

#include "client/subs/modern_streams.h"
#include "client/subs/subs.h"
#include "client/subs/updates.h"

json_t *tdg__sub_stream_uris(tdg__core_t *core, tdg__sub_group_t *group, uint32_t serial,
                             bool *ret_new) {
    json_t *uris = json_array();
    tdg__sub_t *sub;

    *ret_new = false;
    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if ((sub->group != group && sub->leaving != group) || !tdg__sub_wanted(sub) ||
            tdg__sub_is_polled(sub))
            continue;
        if (json_array_append_new(uris, json_stringn(sub->uri, sub->len)) < 0) {
            json_decref(uris);
            return NULL;
        }
        if (sub->group != group)
            continue;
        sub->serial = serial;
        if (!sub->ever_live)
            *ret_new = true;
    }
    return uris;
}

static const struct list_wish {
    tdg_list_kind_t list;
    const char *name;
} list_wishes[] = {
    {TDG_LIST_RESOURCES, "resourcesListChanged"},
    {TDG_LIST_TOOLS, "toolsListChanged"},
    {TDG_LIST_PROMPTS, "promptsListChanged"},
};

unsigned tdg__sub_stream_lists(const json_t *notifications) {
    unsigned lists = 0;

    for (size_t i = 0; i < sizeof(list_wishes) / sizeof(list_wishes[0]); i++) {
        if (json_is_true(json_object_get(notifications, list_wishes[i].name)))
            lists |= 1u << list_wishes[i].list;
    }
    return lists;
}

/* What a listen is about, as the protocol has it; new. NULL: no memory. `uris` is stolen,
 * and NULL is no memory. */
static json_t *make_filter(json_t *uris, unsigned lists) {
    json_t *filter = json_object();
    bool failed = filter == NULL || uris == NULL;

    for (size_t i = 0; i < sizeof(list_wishes) / sizeof(list_wishes[0]); i++) {
        if (lists & 1u << list_wishes[i].list)
            failed = json_object_set_new(filter, list_wishes[i].name, json_true()) < 0 ||
                     failed;
    }
    if (json_array_size(uris) > 0)
        failed = json_object_set(filter, "resourceSubscriptions", uris) < 0 || failed;
    json_decref(uris);
    if (failed) {
        json_decref(filter);
        return NULL;
    }
    return filter;
}

/* Whether the second cursor lies further back than the first; *ret_same: whether they are
 * of one epoch at all. */
static bool is_further_back(const char *first, const char *second, bool *ret_same) {
    uint64_t epochs[2] = {0, 0}, numbers[2] = {0, 0};

    *ret_same = tdg__cursor_read(first, &epochs[0], &numbers[0]) == 0 &&
                tdg__cursor_read(second, &epochs[1], &numbers[1]) == 0 &&
                epochs[0] == epochs[1];
    return *ret_same && numbers[1] < numbers[0];
}

/* Where to go on: where the group's last stream is; and where subscriptions come from
 * another group, no later than that one's, which may still owe something. Where that
 * cannot be compared, those count as missed. */
static const char *choose_cursor(tdg__core_t *core, const tdg__sub_group_t *group) {
    const char *cursor = group->cursor;
    bool same;
    tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        const char *other = sub->leaving != NULL ? sub->leaving->cursor : "";

        if (sub->group != group || sub->leaving == NULL)
            continue;
        if (cursor[0] == '\0' && !group->gap)
            cursor = other;
        else if (is_further_back(cursor, other, &same))
            cursor = other;
        else if (!same && core->ours)
            tdg__gap_mark(sub);
    }
    return cursor;
}

/* Says for what the cursor does not hold: what no stream had so far. Else a server that
 * begins to watch it now would have to take it for changed. */
static int put_fresh(const tdg__core_t *core, const tdg__sub_group_t *group,
                     unsigned lists, json_t *meta) {
    json_t *uris = json_array(), *fresh;
    const tdg__sub_t *sub;

    for (uint32_t id = 0; (sub = tdg__subs_next(core->subs, &id)) != NULL;) {
        if (sub->group == group && tdg__sub_wanted(sub) && !tdg__sub_is_polled(sub) &&
            !sub->ever_live &&
            json_array_append_new(uris, json_stringn(sub->uri, sub->len)) < 0) {
            json_decref(uris);
            return TDG_ENOMEM;
        }
    }
    fresh = make_filter(uris, lists & ~core->subs->lists_once);
    if (fresh != NULL && json_object_size(fresh) == 0) {
        json_decref(fresh);
        return 0;
    }
    return json_object_set_new(meta, "dev.tidings/fresh", fresh) == 0 ? 0 : TDG_ENOMEM;
}

json_t *tdg__sub_stream_params(tdg__core_t *core, const tdg__sub_group_t *group,
                               json_t *uris, unsigned lists, bool since,
                               bool *ret_had_cursor) {
    const char *cursor = choose_cursor(core, group);
    json_t *filter = make_filter(uris, lists);
    bool failed;
    json_t *meta = tdg__group_meta(group, cursor, since, &failed);

    if (cursor[0] != '\0' && !failed)
        failed = put_fresh(core, group, lists, meta) < 0;
    if (failed) {
        json_decref(filter);
        json_decref(meta);
        return NULL;
    }
    *ret_had_cursor = cursor[0] != '\0';
    return json_pack("{s:o, s:o*}", "notifications", filter, "_meta", meta);
}
