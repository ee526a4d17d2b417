/* SPDX-License-Identifier: MIT
 *
 * Settings that were made for URIs and templates. They are remembered by an engine that
 * nobody subscribes to, which checks them as every other engine will. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
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

static tdg__settings_t to_engine(const tdg_settings_t *settings) {
    return (tdg__settings_t){
        .timing = {(tdg__timing_mode_t)settings->timing, settings->window_ms,
                   settings->longest_ms},
        .rate_limit_ms = settings->rate_limit_ms,
    };
}

struct one {
    struct one *next;
    tdg_settings_t settings;
    char target[];
};

struct tdg__configured {
    pthread_mutex_t lock;
    struct one *first;
    tdg__engine_t *checker;
};

int tdg__configured_create(tdg__configured_t **ret) {
    tdg__configured_t *configured = tdg__calloc(1, sizeof(*configured));
    if (configured == NULL)
        return TDG_ENOMEM;

    int rv = tdg__engine_create(NULL, &configured->checker);
    if (rv < 0) {
        tdg__free(configured);
        return rv;
    }
    pthread_mutex_init(&configured->lock, NULL);
    *ret = configured;
    return 0;
}

void tdg__configured_destroy(tdg__configured_t *configured) {
    if (configured == NULL)
        return;
    while (configured->first != NULL) {
        struct one *one = configured->first;

        configured->first = one->next;
        tdg__free(one);
    }
    tdg__engine_destroy(configured->checker);
    pthread_mutex_destroy(&configured->lock);
    tdg__free(configured);
}

static int configure(tdg__engine_t *engine, const char *target,
                     const tdg_settings_t *settings) {
    tdg__target_t what = tdg__target_from_text(target);
    tdg__settings_t how = to_engine(settings);

    return tdg__engine_configure(engine, &what, &how);
}

/* Puts an entry in the place of an earlier one for the same target; all zero: in no
 * place. */
static void remember(tdg__configured_t *configured, struct one *one) {
    static const tdg_settings_t none;
    struct one **at = &configured->first;

    while (*at != NULL && strcmp((*at)->target, one->target) != 0)
        at = &(*at)->next;
    if (*at != NULL) {
        struct one *before = *at;

        *at = before->next;
        tdg__free(before);
    }
    if (memcmp(&one->settings, &none, sizeof(none)) == 0) {
        tdg__free(one);
        return;
    }
    one->next = configured->first;
    configured->first = one;
}

int tdg__configured_set(tdg__configured_t *configured, const char *target,
                        const tdg_settings_t *settings) {
    struct one *one = tdg__malloc(sizeof(*one) + strlen(target) + 1);
    if (one == NULL)
        return TDG_ENOMEM;
    one->settings = *settings;
    strcpy(one->target, target);

    pthread_mutex_lock(&configured->lock);
    int rv = configure(configured->checker, target, settings);
    if (rv == 0)
        remember(configured, one);
    else
        tdg__free(one);
    pthread_mutex_unlock(&configured->lock);
    return rv;
}

int tdg__configured_apply(tdg__configured_t *configured, tdg__engine_t *engine) {
    int rv = 0;

    pthread_mutex_lock(&configured->lock);
    for (struct one *one = configured->first; rv == 0 && one != NULL; one = one->next)
        rv = configure(engine, one->target, &one->settings);
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

    if (here)
        configure(tdg__worker_engine(sent->worker), sent->target, &sent->settings);
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
