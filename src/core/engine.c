/* SPDX-License-Identifier: MIT
 *
 * The engine as a whole: creation, destruction, and time. */
#include "core/internal.h"

#include <stddef.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { MAX_FIRST_NUMBER_BITS = 62 };

#define MAX_TIME_MS (INT64_MAX / 2)

/* ---- Beginning ---------------------------------------------------------- */

static void set_default(uint32_t *option, uint32_t value) {
    if (*option == 0)
        *option = value;
}

static int fill_options(tdg__engine_opts_t *opts) {
    static const uint8_t no_key[sizeof(opts->hash_key)];
    int rv = 0;

    set_default(&opts->linger_ms, 5000);
    set_default(&opts->watch_timeout_ms, 10000);
    set_default(&opts->max_lingering, 256);
    set_default(&opts->max_streams, 1000000);
    set_default(&opts->max_subscriptions, 10000);
    set_default(&opts->max_templates, 100);
    set_default(&opts->max_total, 10000000);
    set_default(&opts->max_name_bytes, 4096);
    set_default(&opts->max_metadata_bytes, 16384);
    set_default(&opts->max_filter_bytes, 4096);
    set_default(&opts->max_filter_depth, 8);
    set_default(&opts->max_pending, 10000);
    set_default(&opts->history, 16384);
    set_default(&opts->max_listed, 1000);
    if (opts->first_number == 0)
        opts->first_number = 1;
    if (opts->max_streams >= TDG__BITSET_MAX ||
        opts->max_name_bytes > TDG__TEMPLATE_MAX_LEN ||
        opts->first_number >> MAX_FIRST_NUMBER_BITS != 0 ||
        !tdg__settings_valid(&opts->defaults))
        return TDG_EINVAL;

    if (memcmp(opts->hash_key, no_key, sizeof(no_key)) == 0)
        rv = tdg__random(opts->hash_key, sizeof(opts->hash_key));
    while (rv == 0 && opts->epoch == 0)
        rv = tdg__random(&opts->epoch, sizeof(opts->epoch));
    return rv;
}

static void init_records(tdg__engine_t *engine) {
    tdg__pool_init(&engine->streams, sizeof(struct stream));
    tdg__pool_init(&engine->subs, sizeof(struct sub));
    tdg__pool_init(&engine->groups, sizeof(struct group));
    tdg__pool_init(&engine->resources, sizeof(struct resource));
    tdg__pool_init(&engine->templates, sizeof(struct template_));
    tdg__pool_init(&engine->filters, sizeof(tdg__shared_filter_t));
    tdg__pool_init(&engine->configs, sizeof(struct config));
}

int tdg__engine_create(const tdg__engine_opts_t *opts, tdg__engine_t **ret) {
    tdg__engine_t *engine = tdg__calloc(1, sizeof(*engine));
    int rv;

    if (engine == NULL)
        return TDG_ENOMEM;

    if (opts != NULL)
        engine->opts = *opts;
    rv = fill_options(&engine->opts);
    if (rv < 0)
        goto fail_engine;

    engine->tally = engine->opts.tally != NULL ? engine->opts.tally : &engine->own_tally;
    memcpy(&engine->key, engine->opts.hash_key, sizeof(engine->key));
    engine->last_number = engine->opts.first_number - 1;
    engine->dropped = engine->last_number; /* of what came before, nothing is known */
    engine->floor = engine->last_number;
    init_records(engine);
    tdg__engine_set_defaults(engine, &engine->opts.defaults);

    rv = TDG_ENOMEM;
    engine->history = tdg__calloc(engine->opts.history, sizeof(*engine->history));
    if (engine->history == NULL)
        goto fail_engine;
    rv = tdg__template_index_create(&engine->template_index);
    if (rv < 0)
        goto fail_history;
    rv = tdg__template_index_create(&engine->config_index);
    if (rv < 0)
        goto fail_index;

    *ret = engine;
    return 0;

fail_index:
    tdg__template_index_destroy(engine->template_index);
fail_history:
    tdg__free(engine->history);
fail_engine:
    tdg__free(engine);
    return rv;
}

/* ---- End ---------------------------------------------------------------- */

/* Frees what records own besides themselves; the records go with their pools. */
static void free_owned(tdg__engine_t *engine) {
    for (uint32_t id = 1; id < tdg__pool_end(&engine->subs); id++) {
        struct sub *sub = sub_at(engine, id);

        if (sub != NULL)
            tdg__change_unref(sub->held);
    }
    for (uint32_t id = 1; id < tdg__pool_end(&engine->groups); id++) {
        struct group *group = group_at(engine, id);

        if (group != NULL) {
            tdg__change_unref(group->newest);
            if (group->room > FEW_MEMBERS)
                tdg__free(group->many);
        }
    }
    for (uint32_t id = 1; id < tdg__pool_end(&engine->resources); id++) {
        struct resource *resource = resource_at(engine, id);

        if (resource != NULL)
            tdg__resource_free_name(resource);
    }
    for (uint32_t id = 1; id < tdg__pool_end(&engine->templates); id++) {
        struct template_ *template_ = template_at(engine, id);

        if (template_ != NULL)
            tdg__template_destroy(template_->parsed);
    }
    for (uint32_t id = 1; id < tdg__pool_end(&engine->filters); id++) {
        tdg__shared_filter_t *filter = tdg__pool_get(&engine->filters, id);

        if (filter != NULL)
            tdg__filter_destroy(filter->parsed);
    }
}

void tdg__engine_destroy(tdg__engine_t *engine) {
    if (engine == NULL)
        return;

    tdg__watches_done(engine);
    tdg__tally_give(engine, engine->counters.subscriptions, engine->subscribed_bytes);
    tdg__template_index_destroy(engine->template_index);
    tdg__template_index_destroy(engine->config_index);
    tdg__configs_done(engine);
    free_owned(engine);
    tdg__change_unref(engine->loan);

    tdg__pool_t *pools[] = {&engine->streams,   &engine->subs,      &engine->groups,
                            &engine->resources, &engine->templates, &engine->filters,
                            &engine->configs};
    for (size_t i = 0; i < sizeof(pools) / sizeof(pools[0]); i++)
        tdg__pool_done(pools[i]);

    tdg__map_t *maps[] = {&engine->resource_map, &engine->template_map,
                          &engine->pair_map,     &engine->group_map,
                          &engine->filter_map,   &engine->config_map};
    for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
        tdg__map_done(maps[i]);

    tdg__heap_done(&engine->timers);
    tdg__bitset_done(&engine->ready);
    tdg__free(engine->history);
    tdg__free(engine);
}

/* ---- Time and numbers --------------------------------------------------- */

uint64_t tdg__arming_number(tdg__engine_t *engine) {
    bool reached = engine->reached;

    if (!engine->opts.shared_numbers)
        return ++engine->last_number;
    if (engine->armed_at != 0)
        return engine->armed_at;
    /* One number is for one arming. Without one, any cursor so far counts as older. */
    engine->reached = false;
    return reached ? engine->last_number : engine->last_number + 1;
}

void tdg__engine_reach(tdg__engine_t *engine, uint64_t number) {
    if (number <= engine->last_number)
        return;
    engine->last_number = number;
    engine->reached = true;
}

void tdg__engine_armed_at(tdg__engine_t *engine, uint64_t number) {
    tdg__engine_reach(engine, number);
    engine->armed_at = number;
}

static void on_timer(tdg__engine_t *engine, tdg__timer_t *timer) {
    char *at = (char *)timer;

    switch (timer->kind) {
    case TIMER_WINDOW:
        tdg__group_on_window(engine, (void *)(at - offsetof(struct group, window_timer)));
        break;
    case TIMER_LIMIT:
        tdg__group_on_limit(engine, (void *)(at - offsetof(struct group, limit_timer)));
        break;
    default:
        tdg__watch_on_timer(engine, (void *)(at - offsetof(struct subject, watch.timer)));
    }
}

void tdg__engine_advance(tdg__engine_t *engine, int64_t mono_ms, int64_t wall_ms) {
    tdg__timer_t *timer;

    if (mono_ms > MAX_TIME_MS)
        mono_ms = MAX_TIME_MS; /* so that no deadline overflows */
    if (mono_ms > engine->now_ms)
        engine->now_ms = mono_ms;
    engine->wall_ms = wall_ms;
    while ((timer = tdg__heap_pop(&engine->timers, engine->now_ms)) != NULL)
        on_timer(engine, timer);
}

void tdg__engine_set_taking_time(tdg__engine_t *engine, int64_t mono_ms) {
    if (mono_ms > MAX_TIME_MS)
        mono_ms = MAX_TIME_MS;
    if (mono_ms > engine->taking_ms)
        engine->taking_ms = mono_ms;
}

int64_t tdg__engine_next_deadline(const tdg__engine_t *engine) {
    return tdg__heap_next(&engine->timers);
}

void tdg__engine_end_windows(tdg__engine_t *engine) {
    for (uint32_t id = 1; id < tdg__pool_end(&engine->groups); id++) {
        struct group *group = group_at(engine, id);

        if (group != NULL && group->id != 0 && group->kind != GROUP_TEMPLATE)
            tdg__group_end_windows(engine, group);
    }
}
