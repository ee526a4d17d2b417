/* SPDX-License-Identifier: MIT
 *
 * Timing and rate limits, from the most specific to the most general: the wishes of a
 * subscription, the settings of its URI, of a template that matches it, of the engine.
 */
#include "core/internal.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { DEFAULT_BATCH_MS = 100, DEFAULT_RATE_LIMIT_MS = 1000, LONGEST_IN_WINDOWS = 10 };

#define BY_ORDER offsetof(struct config, by_order)

static struct config *config_at(const tdg__engine_t *engine, uint32_t id) {
    return tdg__pool_get(&engine->configs, id);
}

/* ---- Valid settings ----------------------------------------------------- */

bool tdg__settings_valid(const tdg__settings_t *settings) {
    const tdg__timing_t *timing = &settings->timing;

    return (int)timing->mode >= TDG__TIMING_INHERIT &&
           (int)timing->mode <= TDG__TIMING_THROTTLE &&
           timing->window_ms <= TDG__MAX_WINDOW_MS &&
           timing->longest_ms <= TDG__MAX_WINDOW_MS &&
           settings->rate_limit_ms >= TDG__RATE_OFF &&
           settings->rate_limit_ms <= TDG__MAX_WINDOW_MS &&
           settings->min_window_ms >= TDG__FLOOR_OFF &&
           settings->min_window_ms <= TDG__MAX_WINDOW_MS &&
           settings->min_rate_limit_ms >= TDG__FLOOR_OFF &&
           settings->min_rate_limit_ms <= TDG__MAX_WINDOW_MS;
}

static const struct resource *resource_of(const tdg__engine_t *engine,
                                          const struct group *group) {
    return resource_at(engine, group->owner);
}

/* ---- The operator's floor ----------------------------------------------- */

static const tdg__settings_t *configured(const tdg__engine_t *engine, uint32_t config) {
    static const tdg__settings_t none;

    return config != 0 ? &config_at(engine, config)->settings : &none;
}

static uint32_t first_floor(int32_t own, int32_t of_template, int32_t of_engine) {
    int32_t floor = own != TDG__FLOOR_INHERIT           ? own
                    : of_template != TDG__FLOOR_INHERIT ? of_template
                                                        : of_engine;

    return floor > 0 ? (uint32_t)floor : 0;
}

/* Raised to the floor, "at once" is a batch. */
static void raise_timing(const tdg__engine_t *engine, const struct resource *resource,
                         tdg__timing_t *timing) {
    uint32_t floor =
        first_floor(configured(engine, resource->config)->min_window_ms,
                    configured(engine, resource->template_config)->min_window_ms,
                    engine->opts.defaults.min_window_ms);

    if (timing->mode == TDG__TIMING_IMMEDIATE)
        timing->window_ms = 0;
    if (timing->window_ms >= floor)
        return;
    timing->window_ms = floor;
    if (timing->mode == TDG__TIMING_IMMEDIATE)
        timing->mode = TDG__TIMING_BATCH;
}

static uint32_t limit_floor(const tdg__engine_t *engine,
                            const struct resource *resource) {
    return first_floor(configured(engine, resource->config)->min_rate_limit_ms,
                       configured(engine, resource->template_config)->min_rate_limit_ms,
                       engine->opts.defaults.min_rate_limit_ms);
}

static void note_floor(tdg__engine_t *engine, const tdg__settings_t *settings) {
    if (settings->min_window_ms > 0 || settings->min_rate_limit_ms > 0)
        engine->has_floor = true;
}

/* ---- The effective settings --------------------------------------------- */

/* The wished, else the configured, else the default timing. */
static const tdg__timing_t *choose_timing(const tdg__engine_t *engine,
                                          const struct group *group) {
    const struct resource *resource = resource_of(engine, group);
    uint32_t configs[] = {resource->config, resource->template_config};

    if (group->wishes.timing.mode != TDG__TIMING_INHERIT)
        return &group->wishes.timing;
    for (int i = 0; i < 2; i++)
        if (configs[i] != 0 &&
            config_at(engine, configs[i])->settings.timing.mode != TDG__TIMING_INHERIT)
            return &config_at(engine, configs[i])->settings.timing;
    return &engine->opts.defaults.timing;
}

tdg__timing_t tdg__timing_of(const tdg__engine_t *engine, const struct group *group) {
    tdg__timing_t timing = *choose_timing(engine, group);

    if (engine->has_floor)
        raise_timing(engine, resource_of(engine, group), &timing);
    if (timing.window_ms == 0)
        timing.mode = TDG__TIMING_IMMEDIATE;
    if (timing.longest_ms == 0)
        timing.longest_ms = timing.window_ms * LONGEST_IN_WINDOWS;
    if (timing.longest_ms < timing.window_ms)
        timing.longest_ms = timing.window_ms;
    return timing;
}

static int32_t choose_limit(const tdg__engine_t *engine, const struct group *group) {
    const struct resource *resource = resource_of(engine, group);
    uint32_t configs[] = {resource->config, resource->template_config};

    if (group->wishes.rate_limit_ms != TDG__RATE_INHERIT)
        return group->wishes.rate_limit_ms;
    for (int i = 0; i < 2; i++)
        if (configs[i] != 0 &&
            config_at(engine, configs[i])->settings.rate_limit_ms != TDG__RATE_INHERIT)
            return config_at(engine, configs[i])->settings.rate_limit_ms;
    return engine->opts.defaults.rate_limit_ms;
}

int64_t tdg__limit_of(const tdg__engine_t *engine, const struct group *group) {
    int32_t chosen = choose_limit(engine, group);
    int64_t limit = chosen == TDG__RATE_OFF ? 0 : chosen;
    int64_t floor =
        engine->has_floor ? limit_floor(engine, resource_of(engine, group)) : 0;

    return limit > floor ? limit : floor;
}

/* ---- Finding what is configured ----------------------------------------- */

static bool is_config(const void *engine, uint32_t id, const void *key) {
    const struct config *config = config_at(engine, id);
    const tdg__target_t *target = key;

    return config->len == target->len && config->kind == target->kind &&
           memcmp(config->name, target->name, target->len) == 0;
}

static uint32_t find_config(const tdg__engine_t *engine, const tdg__target_t *target,
                            uint32_t *ret_hash) {
    *ret_hash = (uint32_t)tdg__hash(&engine->key, target->name, target->len);
    return tdg__map_find(&engine->config_map, *ret_hash, is_config, engine, target);
}

struct best {
    const tdg__engine_t *engine;
    uint32_t id;
};

/* The more literal one wins, then the older one. */
static void on_match(void *arg, uint32_t id) {
    struct best *best = arg;
    const struct config *other = config_at(best->engine, id);
    const struct config *own;

    if (best->id != 0) {
        size_t other_len = tdg__template_literal_len(other->parsed);
        size_t own_len;

        own = config_at(best->engine, best->id);
        own_len = tdg__template_literal_len(own->parsed);
        if (other_len < own_len || (other_len == own_len && other->order > own->order))
            return;
    }
    best->id = id;
}

void tdg__resource_configure(tdg__engine_t *engine, struct resource *resource) {
    tdg__target_t target = tdg__subject_target(&resource->subject);
    struct best best = {engine, 0};
    uint32_t hash;

    if (engine->configs.count == 0) {
        resource->config = resource->template_config = 0;
        return;
    }
    resource->config = find_config(engine, &target, &hash);
    if (target.kind == TDG__TARGET_URI)
        tdg__template_index_match(engine->config_index, target.name, target.len, on_match,
                                  &best);
    resource->template_config = best.id;
}

/* ---- Changing ----------------------------------------------------------- */

static void configure_anew(tdg__engine_t *engine, struct resource *resource) {
    tdg__resource_configure(engine, resource);
    for (uint32_t g = resource->subject.groups.first; g != 0;
         g = group_at(engine, g)->by_owner.next)
        tdg__group_rearm(engine, g);
}

/* Looks at every resource: settings change seldom. */
static void configure_all(tdg__engine_t *engine) {
    for (uint32_t id = 1; id < tdg__pool_end(&engine->resources); id++) {
        struct resource *resource = resource_at(engine, id);

        if (resource != NULL && resource->subject.name != NULL)
            configure_anew(engine, resource);
    }
}

static void configure_one(tdg__engine_t *engine, const tdg__target_t *target) {
    struct subject *subject = tdg__subject_find(engine, target);

    if (subject != NULL)
        configure_anew(engine, (struct resource *)subject);
}

static int create_config(tdg__engine_t *engine, const tdg__target_t *target,
                         uint32_t hash, uint32_t *ret) {
    struct config *config;
    uint32_t id;
    int rv = TDG_ENOMEM;

    if (tdg__map_reserve(&engine->config_map) < 0)
        return TDG_ENOMEM;
    config = tdg__pool_alloc(&engine->configs, &id);
    if (config == NULL)
        return TDG_ENOMEM;
    config->name = tdg__malloc(target->len);
    if (config->name == NULL)
        goto fail_config;
    if (target->kind == TDG__TARGET_TEMPLATE) {
        rv = tdg__template_parse(target->name, target->len, &config->parsed, NULL);
        if (rv < 0)
            goto fail_name;
        rv = tdg__template_index_add(engine->config_index, config->parsed, id);
        if (rv < 0)
            goto fail_parsed;
    }

    memcpy(config->name, target->name, target->len);
    config->len = (uint32_t)target->len;
    config->kind = (uint8_t)target->kind;
    config->hash = hash;
    config->order = engine->config_order++;
    tdg__map_insert(&engine->config_map, hash, id);
    tdg__list_append(&engine->configured, &engine->configs, BY_ORDER, id);
    *ret = id;
    return 0;

fail_parsed:
    tdg__template_destroy(config->parsed);
fail_name:
    tdg__free(config->name);
fail_config:
    tdg__pool_free(&engine->configs, id);
    return rv;
}

static void destroy_config(tdg__engine_t *engine, uint32_t id) {
    struct config *config = config_at(engine, id);

    assert(config->name != NULL);
    if (config->parsed != NULL)
        tdg__template_index_remove(engine->config_index, config->parsed, id);
    tdg__map_remove(&engine->config_map, config->hash, id);
    tdg__list_remove(&engine->configured, &engine->configs, BY_ORDER, id);
    tdg__template_destroy(config->parsed);
    tdg__free(config->name);
    tdg__pool_free(&engine->configs, id);
}

void tdg__configs_done(tdg__engine_t *engine) {
    for (uint32_t id = 1; id < tdg__pool_end(&engine->configs); id++) {
        struct config *config = config_at(engine, id);

        if (config != NULL && config->name != NULL) {
            tdg__template_destroy(config->parsed);
            tdg__free(config->name);
        }
    }
}

static bool says_nothing(const tdg__settings_t *settings) {
    return settings->timing.mode == TDG__TIMING_INHERIT &&
           settings->rate_limit_ms == TDG__RATE_INHERIT &&
           settings->min_window_ms == TDG__FLOOR_INHERIT &&
           settings->min_rate_limit_ms == TDG__FLOOR_INHERIT;
}

static int check_configured(const tdg__engine_t *engine, const tdg__target_t *target,
                            const tdg__settings_t *settings) {
    if (!tdg__target_valid(target) || settings == NULL || !tdg__settings_valid(settings))
        return TDG_EINVAL;
    if (target->kind != TDG__TARGET_LIST && target->len > engine->opts.max_name_bytes)
        return TDG_EURILEN;
    return 0;
}

int tdg__engine_configure(tdg__engine_t *engine, const tdg__target_t *target,
                          const tdg__settings_t *settings) {
    uint32_t hash, id;
    int rv;

    rv = check_configured(engine, target, settings);
    if (rv < 0)
        return rv;

    id = find_config(engine, target, &hash);
    if (says_nothing(settings)) {
        if (id == 0)
            return 0;
        destroy_config(engine, id);
    } else {
        rv = id != 0 ? 0 : create_config(engine, target, hash, &id);
        if (rv < 0)
            return rv;
        config_at(engine, id)->settings = *settings;
        note_floor(engine, settings);
    }

    if (target->kind == TDG__TARGET_TEMPLATE)
        configure_all(engine);
    else
        configure_one(engine, target);
    return 0;
}

tdg__settings_t tdg__engine_configured(const tdg__engine_t *engine,
                                       const tdg__target_t *target) {
    uint32_t hash;
    uint32_t id = tdg__target_valid(target) ? find_config(engine, target, &hash) : 0;

    return *configured(engine, id);
}

int tdg__engine_configure_as(tdg__engine_t *engine, const tdg__engine_t *other) {
    for (uint32_t id = other->configured.first; id != 0;
         id = config_at(other, id)->by_order.next) {
        const struct config *config = config_at(other, id);
        tdg__target_t target = {config->kind, config->name, config->len};
        int rv = tdg__engine_configure(engine, &target, &config->settings);

        if (rv < 0)
            return rv;
    }
    return 0;
}

int tdg__engine_set_defaults(tdg__engine_t *engine, const tdg__settings_t *settings) {
    tdg__settings_t filled;

    if (settings == NULL || !tdg__settings_valid(settings))
        return TDG_EINVAL;

    filled = *settings;
    if (filled.timing.mode == TDG__TIMING_INHERIT)
        filled.timing =
            (tdg__timing_t){.mode = TDG__TIMING_BATCH, .window_ms = DEFAULT_BATCH_MS};
    if (filled.rate_limit_ms == TDG__RATE_INHERIT)
        filled.rate_limit_ms = DEFAULT_RATE_LIMIT_MS;
    engine->opts.defaults = filled;
    note_floor(engine, settings);
    configure_all(engine);
    return 0;
}
