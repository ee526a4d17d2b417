/* SPDX-License-Identifier: MIT */
#include "serve/live_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum {
    /* For a watch that is owed, the first wait: each further one is twice as long. For
     * all else, every wait. */
    AGAIN_MS = 100,
    LONGEST_AGAIN_MS = 60 * 1000,
};

static void again_in(tdg__live_t *live, uint64_t wait_ms) {
    if (live->closing || (uv_is_active((uv_handle_t *)&live->again) &&
                          uv_timer_get_due_in(&live->again) <= wait_ms))
        return;
    uv_timer_start(&live->again, tdg__live_on_again, wait_ms, 0);
}

static void __attribute__((format(printf, 4, 5)))
log_watch(tdg__live_t *live, const tdg__wanted_t *watch, tdg_log_level_t level,
          const char *format, ...) {
    char message[256], line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    snprintf(line, sizeof(line), "%.160s %s", watch->target->name, message);
    live->ops.log(live->user, level, line);
}

/* The source that has it now does not watch it, though the server counts it as
 * watched. It is asked again where that may help: a table may be there again, a
 * program may have ended. What a kind cannot do at all, it will not do later either. */
static void owe(tdg__live_t *live, tdg__wanted_t *watch, int status) {
    uint64_t wait = AGAIN_MS;

    watch->source = NULL; /* it does not watch, and is not stopped */
    if (status == TDG_ENOTSUP) {
        log_watch(live, watch, TDG_LOG_WARNING,
                  "can no longer be watched: %s; its subscribers are not notified of "
                  "changes",
                  tdg_strerror(status));
        return;
    }
    if (watch->tries == 0)
        log_watch(live, watch, TDG_LOG_WARNING,
                  "can no longer be watched: %s; retrying with growing waits",
                  tdg_strerror(status));
    for (unsigned i = 0; i < watch->tries && wait < LONGEST_AGAIN_MS; i++)
        wait *= 2;
    if (wait > LONGEST_AGAIN_MS)
        wait = LONGEST_AGAIN_MS;
    watch->state = TDG__WANTED_OWED;
    watch->tries++;
    watch->due_ms = uv_now(live->loop) + wait;
    again_in(live, wait);
}

/* Answers a watch of the server. After that, only whether the resource exists may change:
 * another source has it after a reload. A watch that was refused is not stopped later. */
static void answer(tdg__live_t *live, tdg__wanted_t *watch, int status) {
    if (watch->state != TDG__WANTED_ASKED && status < 0) {
        owe(live, watch, status);
        return;
    }
    if (watch->tries > 0)
        log_watch(live, watch, TDG_LOG_NOTICE, "is watched again after %u attempts",
                  watch->tries);
    watch->tries = 0;
    watch->state = TDG__WANTED_ANSWERED;
    tdg_server_watch_done(live->server, watch->target, status);
    if (status < 0)
        tdg__wanted_remove(&live->watches, watch);
}

void tdg__live_on_watched(void *user, tdg__source_t *source, const tdg_target_t *target,
                          int status) {
    struct served *served = user;
    tdg__live_t *live = served->live;
    tdg__wanted_t *watch =
        served->state == LEAVING ? NULL : tdg__wanted_find(&live->watches, target);

    if (watch == NULL || (watch->source != NULL && watch->source != source))
        return;
    if (watch->pending > 0 && --watch->pending > 0)
        return;
    answer(live, watch, target->kind == TDG_TARGET_LIST ? 0 : status);
}

static bool lists(const struct served *served) {
    return (served->source->kind->flags & TDG__SOURCE_LISTS) != 0;
}

/* All that list by themselves; that some of them cannot is no reason to refuse. */
void tdg__live_watch_lists(tdg__live_t *live, tdg__wanted_t *watch) {
    watch->pending = 1;
    for (size_t i = 0; i < live->count; i++)
        if (lists(live->served[i]) &&
            tdg__source_watch(live->served[i]->source, watch->target, NULL) == TDG_EAGAIN)
            watch->pending++;
    if (--watch->pending == 0)
        answer(live, watch, 0);
}

void tdg__live_try_again(tdg__live_t *live) {
    again_in(live, AGAIN_MS);
}

/* No source has it. A URI matches a template whose source cannot have it (a file that is
 * left out, another spelling): not found, unless it was watched before a reload. A
 * template is one that the server does not list: the client asked for it. */
static void answer_unowned(tdg__live_t *live, tdg__wanted_t *watch) {
    int status = watch->state == TDG__WANTED_ASKED ? TDG_ENOTFOUND : TDG_WATCH_ABSENT;

    answer(live, watch, watch->target->kind == TDG_TARGET_URI ? status : 0);
}

void tdg__live_begin_watch(tdg__live_t *live, tdg__wanted_t *watch,
                           const tdg__past_t *past) {
    bool is_new = watch->state == TDG__WANTED_ASKED;

    assert(watch->target->kind != TDG_TARGET_LIST);
    watch->source = tdg__live_watcher_of(live, watch->target);
    if (!is_new)
        watch->state = TDG__WANTED_ANSWERED;
    if (watch->source == NULL) {
        answer_unowned(live, watch);
        return;
    }

    int rv = tdg__source_watch(watch->source, watch->target, past);
    if (rv != TDG_EAGAIN)
        answer(live, watch, rv);
}

/* What changed meanwhile nobody knows, so the first look is published, whatever it finds.
 */
void tdg__live_begin_again(tdg__live_t *live, tdg__wanted_t *watch) {
    assert(watch->state == TDG__WANTED_OWED && watch->source == NULL);
    tdg__live_begin_watch(live, watch, &(tdg__past_t){.unknown = true});
    if (watch->source == NULL && watch->state == TDG__WANTED_ANSWERED &&
        watch->target->kind == TDG_TARGET_URI)
        tdg__live_pass_on(live, watch->target->name);
}

void tdg__live_begin_owed(tdg__live_t *live) {
    tdg__wanted_t *watch = tdg__wanted_next(&live->watches, 0);
    uint64_t now = uv_now(live->loop);

    while (watch != NULL) {
        uint32_t id = watch->id;

        if (watch->state == TDG__WANTED_OWED && watch->due_ms <= now)
            tdg__live_begin_again(live, watch);
        else if (watch->state == TDG__WANTED_OWED)
            again_in(live, watch->due_ms - now);
        watch = tdg__wanted_next(&live->watches, id);
    }
}

struct watch_task {
    tdg__task_t task;
    tdg__live_t *live;
    tdg_target_kind_t kind;
    char name[];
};

static void start_watch(tdg__live_t *live, const tdg_target_t *target) {
    tdg__wanted_t *watch = tdg__wanted_find(&live->watches, target);

    if (watch != NULL) { /* there was no memory to stop it */
        if (watch->state != TDG__WANTED_ASKED)
            tdg_server_watch_done(live->server, target, 0);
        return;
    }
    watch = tdg__wanted_add(&live->watches, target);
    if (watch == NULL)
        tdg_server_watch_done(live->server, target, TDG_ENOMEM);
    else if (target->kind == TDG_TARGET_LIST)
        tdg__live_watch_lists(live, watch);
    else
        tdg__live_begin_watch(live, watch, NULL);
}

static void run_watch(tdg__task_t *task, bool here) {
    struct watch_task *asked = (struct watch_task *)task;
    const tdg_target_t target = {asked->kind, asked->name};

    if (!here)
        tdg_server_watch_done(asked->live->server, &target, TDG_EENDED);
    else
        start_watch(asked->live, &target);
    tdg__free(asked);
}

void tdg__live_unwatch_lists(tdg__live_t *live, const tdg_target_t *target) {
    for (size_t i = 0; i < live->count; i++)
        if (lists(live->served[i]))
            tdg__source_unwatch(live->served[i]->source, target);
}

static void run_unwatch(tdg__task_t *task, bool here) {
    struct watch_task *asked = (struct watch_task *)task;
    const tdg_target_t target = {asked->kind, asked->name};
    tdg__live_t *live = asked->live;
    tdg__wanted_t *watch = here ? tdg__wanted_find(&live->watches, &target) : NULL;

    if (watch != NULL) {
        if (target.kind == TDG_TARGET_LIST)
            tdg__live_unwatch_lists(live, &target);
        else if (watch->source != NULL)
            tdg__source_unwatch(watch->source, &target);
        tdg__wanted_remove(&live->watches, watch);
    }
    tdg__free(asked);
}

/* The server outlives us, and must not wait for, or stop, what was never answered. */
void tdg__live_refuse_watches(tdg__live_t *live) {
    tdg__wanted_t *watch = tdg__wanted_next(&live->watches, 0);

    for (; watch != NULL; watch = tdg__wanted_next(&live->watches, watch->id))
        if (watch->state == TDG__WANTED_ASKED)
            tdg_server_watch_done(live->server, watch->target, TDG_EENDED);
}

static int post_watch(tdg__live_t *live, const tdg_target_t *target,
                      void (*run)(tdg__task_t *task, bool here)) {
    struct watch_task *asked = tdg__malloc(sizeof(*asked) + strlen(target->name) + 1);

    if (asked == NULL)
        return TDG_ENOMEM;
    *asked = (struct watch_task){.task.run = run, .live = live, .kind = target->kind};
    strcpy(asked->name, target->name);
    tdg__live_post(live, &asked->task);
    return 0;
}

/* On a worker's thread, as the next one. */
static int watcher_start(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)server;
    int rv = post_watch(user, target, run_watch);
    return rv < 0 ? rv : TDG_WATCH_PENDING;
}

/* Without memory the watching goes on, and costs what it costs. */
static void watcher_stop(void *user, tdg_server_t *server, const tdg_target_t *target) {
    (void)server;
    post_watch(user, target, run_unwatch);
}

tdg_watcher_t tdg__live_watcher(tdg__live_t *live) {
    return (tdg_watcher_t){watcher_start, watcher_stop, live};
}
