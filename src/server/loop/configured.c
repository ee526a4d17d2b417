/* SPDX-License-Identifier: MIT
 *
 * Settings that were made for URIs and templates, for engines to come. An engine that
 * nobody subscribes to checks them as every other one will. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "server/log/log.h"
#include "server/loop/configured.h"

_Static_assert((int)TDG_TARGET_URI == (int)TDG__TARGET_URI &&
                   (int)TDG_TARGET_TEMPLATE == (int)TDG__TARGET_TEMPLATE &&
                   (int)TDG_TARGET_LIST == (int)TDG__TARGET_LIST,
               "the engine has the kinds of the public header");

tdg__target_t tdg__target_to_engine(const tdg_target_t *target) {
    const char *name = target != NULL ? target->name : NULL;

    return (tdg__target_t){
        .kind = target != NULL ? (tdg__target_kind_t)target->kind : TDG__TARGET_URI,
        .name = name,
        .len = name != NULL ? strlen(name) : 0,
    };
}

tdg__settings_t tdg__settings_to_engine(const tdg_settings_t *settings) {
    return (tdg__settings_t){
        .timing = {(tdg__timing_mode_t)settings->timing, settings->window_ms,
                   settings->longest_ms},
        .rate_limit_ms = settings->rate_limit_ms,
        .min_window_ms = settings->min_window_ms,
        .min_rate_limit_ms = settings->min_rate_limit_ms,
    };
}

enum { KINDS = TDG_TARGET_LIST + 1 };

struct tdg__configured {
    pthread_mutex_t lock;
    json_t *rows[KINDS]; /* per kind, name: the fields of tdg_settings_t in order */
    tdg__engine_t *checker;
};

static int create_rows(tdg__configured_t *configured) {
    for (int kind = 0; kind < KINDS; kind++) {
        configured->rows[kind] = json_object();
        if (configured->rows[kind] == NULL)
            return TDG_ENOMEM;
    }
    return 0;
}

int tdg__configured_create(const tdg_settings_t *defaults, tdg__configured_t **ret) {
    tdg__engine_opts_t opts = {.defaults = tdg__settings_to_engine(defaults)};
    tdg__configured_t *configured = tdg__calloc(1, sizeof(*configured));
    if (configured == NULL)
        return TDG_ENOMEM;

    pthread_mutex_init(&configured->lock, NULL);
    int rv = create_rows(configured);
    if (rv == 0)
        rv = tdg__engine_create(&opts, &configured->checker);
    if (rv < 0) {
        tdg__configured_destroy(configured);
        return rv;
    }
    *ret = configured;
    return 0;
}

void tdg__configured_destroy(tdg__configured_t *configured) {
    if (configured == NULL)
        return;
    for (int kind = 0; kind < KINDS; kind++)
        json_decref(configured->rows[kind]);
    tdg__engine_destroy(configured->checker);
    pthread_mutex_destroy(&configured->lock);
    tdg__free(configured);
}

static int configure(tdg__engine_t *engine, const tdg_target_t *target,
                     const tdg_settings_t *settings) {
    tdg__target_t what = tdg__target_to_engine(target);
    tdg__settings_t how = tdg__settings_to_engine(settings);

    return tdg__engine_configure(engine, &what, &how);
}

static int remember(json_t *rows, const char *name, const tdg_settings_t *settings) {
    static const tdg_settings_t none;
    json_t *row;

    if (memcmp(settings, &none, sizeof(none)) == 0) {
        json_object_del(rows, name);
        return 0;
    }
    row = json_pack(
        "[i,I,I,I,I,I]", (int)settings->timing, (json_int_t)settings->window_ms,
        (json_int_t)settings->longest_ms, (json_int_t)settings->rate_limit_ms,
        (json_int_t)settings->min_window_ms, (json_int_t)settings->min_rate_limit_ms);
    return json_object_set_new(rows, name, row) == 0 ? 0 : TDG_ENOMEM;
}

static tdg_settings_t recall(const json_t *row) {
    return (tdg_settings_t){
        .timing = (tdg_timing_mode_t)json_integer_value(json_array_get(row, 0)),
        .window_ms = (uint32_t)json_integer_value(json_array_get(row, 1)),
        .longest_ms = (uint32_t)json_integer_value(json_array_get(row, 2)),
        .rate_limit_ms = (int32_t)json_integer_value(json_array_get(row, 3)),
        .min_window_ms = (int32_t)json_integer_value(json_array_get(row, 4)),
        .min_rate_limit_ms = (int32_t)json_integer_value(json_array_get(row, 5)),
    };
}

int tdg__configured_set(tdg__configured_t *configured, const tdg_target_t *target,
                        const tdg_settings_t *settings) {
    pthread_mutex_lock(&configured->lock);
    int rv = configure(configured->checker, target, settings);
    if (rv == 0) /* which has checked the kind as well */
        rv = remember(configured->rows[target->kind], target->name, settings);
    pthread_mutex_unlock(&configured->lock);
    return rv;
}

tdg_settings_t tdg__configured_get(tdg__configured_t *configured,
                                   const tdg_target_t *target) {
    pthread_mutex_lock(&configured->lock);
    tdg_settings_t settings =
        recall(json_object_get(configured->rows[target->kind], target->name));
    pthread_mutex_unlock(&configured->lock);
    return settings;
}

static int apply_rows(const tdg__configured_t *configured, tdg_target_kind_t kind,
                      tdg__engine_t *engine) {
    const char *name;
    json_t *row;

    json_object_foreach(configured->rows[kind], name, row) {
        tdg_settings_t settings = recall(row);

        int rv = configure(engine, &(tdg_target_t){kind, name}, &settings);
        if (rv < 0)
            return rv;
    }
    return 0;
}

int tdg__configured_apply(tdg__configured_t *configured, tdg__engine_t *engine) {
    int rv = 0;

    pthread_mutex_lock(&configured->lock);
    for (int kind = 0; rv == 0 && kind < KINDS; kind++)
        rv = apply_rows(configured, (tdg_target_kind_t)kind, engine);
    pthread_mutex_unlock(&configured->lock);
    return rv;
}

/* ---- To workers that run ------------------------------------------------ */

struct sent {
    tdg__task_t task;
    tdg__worker_t *worker;
    tdg_settings_t settings;
    tdg_target_kind_t kind;
    char name[];
};

static void arrive(tdg__task_t *task, bool here) {
    struct sent *sent = (struct sent *)(void *)task;
    const tdg_target_t target = {sent->kind, sent->name};

    if (here && configure(sent->worker->engine, &target, &sent->settings) < 0)
        tdg__server_log_event(sent->worker->server, TDG__EVENT_SETTING_LOST, sent->name);
    tdg__free(sent);
}

int tdg__configured_send(tdg__worker_t *worker, const tdg_target_t *target,
                         const tdg_settings_t *settings) {
    struct sent *sent = tdg__malloc(sizeof(*sent) + strlen(target->name) + 1);
    if (sent == NULL)
        return TDG_ENOMEM;
    sent->task.run = arrive;
    sent->worker = worker;
    sent->settings = *settings;
    sent->kind = target->kind;
    strcpy(sent->name, target->name);
    tdg__inbox_post(worker->inbox, &sent->task);
    return 0;
}
