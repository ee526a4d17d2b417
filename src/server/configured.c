/* SPDX-License-Identifier: MIT
 *
 * Settings that were made for URIs and templates, for engines to come. An engine that
 * nobody subscribes to checks them as every other one will. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "server/log.h"
#include "server/server.h"

const char *tdg__target_text(const tdg__target_t *target, char *room) {
    size_t prefix = target->kind == TDG__TARGET_LIST ? strlen("list:") : 0;

    memcpy(room, "list:", prefix);
    memcpy(room + prefix, target->name, target->len);
    room[prefix + target->len] = '\0';
    return room;
}

tdg__target_t tdg__target_from_text(const char *text) {
    if (strncmp(text, "list:", 5) == 0)
        return tdg__target_list(text + 5);
    if (strchr(text, '{') != NULL)
        return tdg__target_template(text);
    return tdg__target_uri(text);
}

tdg__settings_t tdg__settings_to_engine(const tdg_settings_t *settings) {
    return (tdg__settings_t){
        .timing = {(tdg__timing_mode_t)settings->timing, settings->window_ms,
                   settings->longest_ms},
        .rate_limit_ms = settings->rate_limit_ms,
    };
}

/* By the text of the target, in a jansson object: it has the hash table. */
struct tdg__configured {
    pthread_mutex_t lock;
    json_t *targets; /* text: [timing, window, longest, rate limit] */
    tdg__engine_t *checker;
};

int tdg__configured_create(const tdg_settings_t *defaults, tdg__configured_t **ret) {
    tdg__engine_opts_t opts = {.defaults = tdg__settings_to_engine(defaults)};
    tdg__configured_t *configured = tdg__calloc(1, sizeof(*configured));
    if (configured == NULL)
        return TDG_ENOMEM;

    pthread_mutex_init(&configured->lock, NULL);
    configured->targets = json_object();
    int rv = configured->targets != NULL ? tdg__engine_create(&opts, &configured->checker)
                                         : TDG_ENOMEM;
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
    json_decref(configured->targets);
    tdg__engine_destroy(configured->checker);
    pthread_mutex_destroy(&configured->lock);
    tdg__free(configured);
}

static int configure(tdg__engine_t *engine, const char *target,
                     const tdg_settings_t *settings) {
    tdg__target_t what = tdg__target_from_text(target);
    tdg__settings_t how = tdg__settings_to_engine(settings);

    return tdg__engine_configure(engine, &what, &how);
}

static int remember(json_t *targets, const char *target, const tdg_settings_t *settings) {
    static const tdg_settings_t none;
    json_t *row;

    if (memcmp(settings, &none, sizeof(none)) == 0) {
        json_object_del(targets, target);
        return 0;
    }
    row =
        json_pack("[i,I,I,I]", (int)settings->timing, (json_int_t)settings->window_ms,
                  (json_int_t)settings->longest_ms, (json_int_t)settings->rate_limit_ms);
    return json_object_set_new(targets, target, row) == 0 ? 0 : TDG_ENOMEM;
}

static tdg_settings_t recall(const json_t *row) {
    return (tdg_settings_t){
        .timing = (tdg_timing_mode_t)json_integer_value(json_array_get(row, 0)),
        .window_ms = (uint32_t)json_integer_value(json_array_get(row, 1)),
        .longest_ms = (uint32_t)json_integer_value(json_array_get(row, 2)),
        .rate_limit_ms = (int32_t)json_integer_value(json_array_get(row, 3)),
    };
}

int tdg__configured_set(tdg__configured_t *configured, const char *target,
                        const tdg_settings_t *settings) {
    pthread_mutex_lock(&configured->lock);
    int rv = configure(configured->checker, target, settings);
    if (rv == 0)
        rv = remember(configured->targets, target, settings);
    pthread_mutex_unlock(&configured->lock);
    return rv;
}

tdg_settings_t tdg__configured_get(tdg__configured_t *configured, const char *target) {
    pthread_mutex_lock(&configured->lock);
    tdg_settings_t settings = recall(json_object_get(configured->targets, target));
    pthread_mutex_unlock(&configured->lock);
    return settings;
}

int tdg__configured_apply(tdg__configured_t *configured, tdg__engine_t *engine) {
    const char *target;
    json_t *row;
    int rv = 0;

    pthread_mutex_lock(&configured->lock);
    json_object_foreach(configured->targets, target, row) {
        tdg_settings_t settings = recall(row);

        rv = configure(engine, target, &settings);
        if (rv < 0)
            break;
    }
    pthread_mutex_unlock(&configured->lock);
    return rv;
}

/* ---- To workers that run ------------------------------------------------ */

struct sent {
    tdg__task_t task;
    tdg__worker_t *worker;
    tdg_settings_t settings;
    char target[];
};

static void arrive(tdg__task_t *task, bool here) {
    struct sent *sent = (struct sent *)(void *)task;

    if (here &&
        configure(tdg__worker_engine(sent->worker), sent->target, &sent->settings) < 0)
        tdg__server_log_event(tdg__worker_server(sent->worker), TDG__EVENT_SETTING_LOST,
                              sent->target);
    tdg__free(sent);
}

int tdg__configured_send(tdg__worker_t *worker, const char *target,
                         const tdg_settings_t *settings) {
    struct sent *sent = tdg__malloc(sizeof(*sent) + strlen(target) + 1);
    if (sent == NULL)
        return TDG_ENOMEM;
    sent->task.run = arrive;
    sent->worker = worker;
    sent->settings = *settings;
    strcpy(sent->target, target);
    tdg__inbox_post(tdg__worker_inbox(worker), &sent->task);
    return 0;
}
