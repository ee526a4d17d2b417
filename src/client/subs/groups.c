/* SPDX-License-Identifier: MIT
 *
 * Options on the wire as JSON, and subscriptions by them. In the modern era options apply
 * to a whole listen, so subscriptions with the same options share a stream; in the legacy
 * era a group only stores the options. The first group has no options, always exists, and
 * carries list changes. */
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs/groups.h"
#include "client/subs/modern_streams.h"
#include "client/subs/subs.h"

enum { MAX_GROUPS = 64 }; /* distinct options: as many streams */

/* The times among the options: their names on the transport, and where they are. */
static const struct time_option {
    const char *name;
    size_t offset;
    bool window; /* one of those that exclude each other */
} time_options[] = {
    {"batchMs", offsetof(tdg_subscribe_opts_t, batch_ms), true},
    {"debounceMs", offsetof(tdg_subscribe_opts_t, debounce_ms), true},
    {"throttleMs", offsetof(tdg_subscribe_opts_t, throttle_ms), true},
    {"rateLimitMs", offsetof(tdg_subscribe_opts_t, rate_limit_ms), false},
};

static int add_times(const tdg_subscribe_opts_t *opts, json_t *options) {
    int windows = 0;

    for (size_t i = 0; i < sizeof(time_options) / sizeof(time_options[0]); i++) {
        const struct time_option *option = &time_options[i];
        int64_t ms =
            *(const int64_t *)(const void *)((const char *)opts + option->offset);

        if (ms == 0)
            continue;
        if (ms < -1 || (option->window && ++windows > 1))
            return TDG_EINVAL;
        if (json_object_set_new(options, option->name, json_integer(ms < 0 ? 0 : ms)) < 0)
            return TDG_ENOMEM;
    }
    return 0;
}

/* The options as an object, new; *ret is NULL where nothing is said. */
static int make_options(const tdg_subscribe_opts_t *opts, json_t **ret) {
    json_t *options, *filter;
    int rv;

    if (opts->since_ms < 0 || (opts->filter != NULL && !json_is_object(opts->filter)))
        return TDG_EINVAL;

    options = json_object();
    if (options == NULL)
        return TDG_ENOMEM;

    rv = add_times(opts, options);
    if (rv == 0 && opts->filter != NULL) {
        filter = json_deep_copy(opts->filter); /* the caller may change his later */
        /* A copy may lack, silently, what there was no memory for. */
        if (json_object_set_new(options, "filter", filter) < 0 ||
            !json_equal(json_object_get(options, "filter"), opts->filter))
            rv = TDG_ENOMEM;
    }
    if (rv < 0 || json_object_size(options) == 0) {
        json_decref(options);
        options = NULL;
    }
    if (rv == 0)
        *ret = options;
    return rv;
}

static tdg__sub_group_t *look_for(const struct tdg__subs *subs, const char *key,
                                  int64_t since_ms) {
    for (tdg__sub_group_t *group = subs->groups; group != NULL; group = group->next) {
        if (group->since_ms == since_ms && strcmp(group->key, key) == 0)
            return group;
    }
    return NULL;
}

static int create(tdg__core_t *core, json_t *options, char *key, int64_t since_ms,
                  tdg__sub_group_t **ret) {
    tdg__sub_group_t **end = &core->subs->groups;
    tdg__sub_group_t *group;
    size_t count = 0;

    for (; *end != NULL; end = &(*end)->next)
        count++;
    if (count >= MAX_GROUPS)
        return TDG_ESTREAMS;

    group = tdg__calloc(1, sizeof(*group));
    if (group == NULL)
        return TDG_ENOMEM;
    if (tdg__lifesign_init(core, &group->life, tdg__sub_stream_silent) < 0) {
        tdg__free(group);
        return TDG_ENOMEM;
    }
    group->options = json_incref(options);
    group->key = key;
    group->since_ms = since_ms;
    group->retry_ms = INT64_MAX;
    *end = group;
    *ret = group;
    return 0;
}

int tdg__group_find(tdg__core_t *core, const tdg_subscribe_opts_t *opts,
                    tdg__sub_group_t **ret) {
    struct tdg__subs *subs = core->subs;
    tdg__sub_group_t *group;
    json_t *options = NULL;
    char *key;
    int rv;

    rv = make_options(opts, &options);
    if (rv < 0)
        return rv;

    key = options != NULL ? json_dumps(options, JSON_COMPACT | JSON_SORT_KEYS)
                          : tdg__strdup("");
    if (key == NULL) {
        json_decref(options);
        return TDG_ENOMEM;
    }

    group = look_for(subs, key, opts->since_ms);
    if (group != NULL) {
        *ret = group;
        tdg__free(key);
    } else {
        rv = create(core, options, key, opts->since_ms, ret);
        if (rv < 0)
            tdg__free(key);
    }
    json_decref(options);
    return rv;
}

void tdg__group_free(tdg__core_t *core, tdg__sub_group_t *group) {
    tdg__waiters_settle(core, &group->waiters, TDG_EENDED, NULL);
    tdg__sub_stream_drop(&group->live);
    tdg__sub_stream_drop(&group->fresh);
    tdg__sub_stream_drop(&group->old);
    tdg__lifesign_done(core, &group->life);
    json_decref(group->options);
    tdg__free(group->key);
    tdg__free(group);
}

void tdg__groups_clean(tdg__core_t *core) {
    tdg__sub_group_t **at = &core->subs->groups->next;

    while (*at != NULL) {
        tdg__sub_group_t *group = *at;

        if (group->count > 0 || group->live != NULL || group->fresh != NULL ||
            group->old != NULL) {
            at = &group->next;
            continue;
        }
        *at = group->next;
        /* No stream will acknowledge an unsubscribe any more. */
        tdg__waiters_settle(core, &group->waiters, 0, NULL);
        tdg__group_free(core, group);
    }
}

json_t *tdg__group_meta(const tdg__sub_group_t *group, const char *cursor, bool since,
                        bool *ret_failed) {
    json_t *meta = json_pack("{s:O*}", "dev.tidings/options", group->options);
    bool failed = meta == NULL;

    if (!failed && cursor[0] != '\0')
        failed = json_object_set_new(meta, "dev.tidings/cursor", json_string(cursor)) < 0;
    if (!failed && since && group->since_ms > 0)
        failed = json_object_set_new(meta, "dev.tidings/sinceMs",
                                     json_integer(group->since_ms)) < 0;
    if (failed || json_object_size(meta) == 0) {
        json_decref(meta);
        meta = NULL;
    }
    *ret_failed = failed;
    return meta;
}
