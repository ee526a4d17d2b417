/* SPDX-License-Identifier: MIT
 *
 * Settings of URIs and templates, for future engines. An engine without subscribers
 * stores them, and checks them as every other one does. */
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

static tdg_settings_t settings_from_engine(const tdg__settings_t *settings) {
    return (tdg_settings_t){
        .timing = (tdg_timing_mode_t)settings->timing.mode,
        .window_ms = settings->timing.window_ms,
        .longest_ms = settings->timing.longest_ms,
        .rate_limit_ms = settings->rate_limit_ms,
        .min_window_ms = settings->min_window_ms,
        .min_rate_limit_ms = settings->min_rate_limit_ms,
    };
}

struct tdg__configured {
    pthread_mutex_t lock;
    tdg__engine_t *engine; /* without subscribers */
};

int tdg__configured_create(const tdg_settings_t *defaults, tdg__configured_t **ret) {
    tdg__engine_opts_t opts = {.defaults = tdg__settings_to_engine(defaults)};
    tdg__configured_t *configured = tdg__calloc(1, sizeof(*configured));
    if (configured == NULL)
        return TDG_ENOMEM;

    pthread_mutex_init(&configured->lock, NULL);
    int rv = tdg__engine_create(&opts, &configured->engine);
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
    tdg__engine_destroy(configured->engine);
    pthread_mutex_destroy(&configured->lock);
    tdg__free(configured);
}

static int configure(tdg__engine_t *engine, const tdg_target_t *target,
                     const tdg_settings_t *settings) {
    tdg__target_t what = tdg__target_to_engine(target);
    tdg__settings_t how = tdg__settings_to_engine(settings);

    return tdg__engine_configure(engine, &what, &how);
}

int tdg__configured_set(tdg__configured_t *configured, const tdg_target_t *target,
                        const tdg_settings_t *settings) {
    pthread_mutex_lock(&configured->lock);
    int rv = configure(configured->engine, target, settings);
    pthread_mutex_unlock(&configured->lock);
    return rv;
}

tdg_settings_t tdg__configured_get(tdg__configured_t *configured,
                                   const tdg_target_t *target) {
    tdg__target_t what = tdg__target_to_engine(target);

    pthread_mutex_lock(&configured->lock);
    tdg__settings_t settings = tdg__engine_configured(configured->engine, &what);
    pthread_mutex_unlock(&configured->lock);
    return settings_from_engine(&settings);
}

int tdg__configured_apply(tdg__configured_t *configured, tdg__engine_t *engine) {
    pthread_mutex_lock(&configured->lock);
    int rv = tdg__engine_configure_as(engine, configured->engine);
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
