/* SPDX-License-Identifier: MIT */
#include "serve/live_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "server/api/server.h"
#include "server/log/log.h"
#include "server/mcp/call.h"

enum { LOG_AGAIN_MS = 60 * 1000 };

static void __attribute__((format(printf, 3, 4)))
log_of(const struct served *served, tdg_log_level_t level, const char *format, ...) {
    char message[1024], line[1280];
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    snprintf(line, sizeof(line), "%s: %s", served->source->label, message);
    served->live->ops.log(served->live->user, level, line);
}

/* ---- Tasks of other threads --------------------------------------------- */

static void run_tasks(tdg__live_t *live, bool here) {
    tdg__task_t *next;

    for (tdg__task_t *task = tdg__inbox_take_tasks(live->inbox); task != NULL;
         task = next) {
        next = task->next;
        task->run(task, here);
    }
}

static void on_async(uv_async_t *async) {
    run_tasks(async->data, true);
}

static void wake(void *user) {
    uv_async_send(&((tdg__live_t *)user)->async);
}

void tdg__live_post(tdg__live_t *live, tdg__task_t *task) {
    tdg__inbox_post(live->inbox, task);
}

/* ---- Which source has what ---------------------------------------------- */

tdg__source_t *tdg__live_owner(tdg__live_t *live, const char *uri) {
    return tdg__roster_owner(live->roster, uri);
}

tdg__source_t *tdg__live_hook(tdg__live_t *live, const char *path) {
    return tdg__roster_hook(live->roster, path);
}

tdg__source_t *tdg__live_watcher_of(tdg__live_t *live, const tdg_target_t *target) {
    tdg__source_t *named;

    if (target->kind != TDG_TARGET_TEMPLATE)
        return tdg__live_owner(live, target->name);
    named = tdg__roster_named(live->roster, target->name);
    return named != NULL && named->template_ != NULL ? named : NULL;
}

/* ---- What sources report ------------------------------------------------ */

/* While the workers have too much to do, or there is no memory, sources retry several
 * times a second; once in a while is enough for the log. */
static bool may_log(struct served *served, int why) {
    uint64_t now = uv_now(served->live->loop);

    if (why != TDG_EAGAIN && why != TDG_ENOMEM)
        return true;
    if (served->logged_lag_ms != 0 && now - served->logged_lag_ms < LOG_AGAIN_MS)
        return false;
    served->logged_lag_ms = now;
    return true;
}

static int check_published(struct served *served, const char *uri, int rv) {
    if (rv == TDG_EENDED) /* the server stops, and the sources follow */
        return 0;
    if (rv < 0 && may_log(served, rv))
        log_of(served, TDG_LOG_ERROR, "could not notify the subscribers of %.100s: %s",
               uri, tdg_strerror(rv));
    return rv;
}

/* A source also notices changes of URIs that another one has: a resource of its own, or
 * an earlier template. Of a URI that none has, it may report that it was deleted. */
static bool speaks_for(const struct served *served, const char *uri) {
    const tdg__source_t *owner;

    if (served->state == LEAVING)
        return false;
    owner = tdg__live_owner(served->live, uri);
    return owner == NULL || owner == served->source;
}

static int publish(struct served *served, const char *uri, json_t *metadata,
                   int (*notify)(tdg_server_t *server, const char *uri,
                                 json_t *metadata)) {
    if (speaks_for(served, uri))
        return check_published(served, uri, notify(served->live->server, uri, metadata));
    json_decref(metadata);
    return 0;
}

static int on_changed(void *user, tdg__source_t *source, const char *uri,
                      json_t *metadata) {
    (void)source;
    return publish(user, uri, metadata, tdg_server_notify_updated);
}

static int on_deleted(void *user, tdg__source_t *source, const char *uri,
                      json_t *metadata) {
    (void)source;
    return publish(user, uri, metadata, tdg_server_notify_deleted);
}

/* ---- Reads -------------------------------------------------------------- */

struct read_task {
    tdg__task_t task;
    tdg__live_t *live;
    tdg_request_t *request;
    const tdg__source_t *source; /* that was asked last */
    uint64_t asked_ms;           /* of the loop: when the first was; 0: none yet */
    tdg__large_read_t large;
    json_t *item; /* of a large answer, but for its content; NULL: none yet */
    char uri[];
};

static struct read_task *task_of(const tdg__large_read_t *large) {
    return TDG__RECORD(struct read_task, large, large);
}

static void end_read(struct read_task *read) {
    tdg__large_leave(&read->live->large, &read->large);
    json_decref(read->item);
    tdg__free(read);
}

/* Nothing is logged for a client that has left. */
static void refuse_busy(struct read_task *read) {
    if (!tdg_request_cancelled(read->request))
        tdg__server_log_event(read->live->server, TDG__EVENT_ANSWER_REFUSED, NULL);
    tdg__request_fail_busy(read->request);
}

static void on_encoded(tdg__large_read_t *large, tdg__buf_t *member, int status) {
    struct read_task *read = task_of(large);

    if (status == 0)
        tdg__reply_encoded(read->request, read->item, member);
    else if (status == TDG_EAGAIN)
        refuse_busy(read);
    else
        tdg_request_reply(read->request, NULL);
    end_read(read);
}

/* Whether a reload has given the resource to another source, or to none. */
static bool has_moved(const struct read_task *read) {
    return !read->live->closing && read->source != NULL &&
           tdg__live_owner(read->live, read->uri) != read->source;
}

static bool is_overdue(const struct read_task *read) {
    const tdg__source_t *owner = tdg__live_owner(read->live, read->uri);

    return owner != NULL &&
           uv_now(read->live->loop) - read->asked_ms >= (uint64_t)owner->entry.timeout_ms;
}

/* The source that has the resource now is asked instead, for as long as one source may
 * take: reloads may go on and on. */
static void read_again(struct read_task *read) {
    static const char why[] = "the config was reloaded repeatedly before this was read; "
                              "retry later";

    if (is_overdue(read)) {
        tdg__reply_content(
            read->request, read->uri,
            &(tdg__content_t){.status = TDG_EUNREACHABLE, .error = why, .public = why});
        end_read(read);
        return;
    }
    read->source = NULL;
    tdg__large_leave(&read->live->large, &read->large);
    tdg__live_post(read->live, &read->task);
}

static void on_read(void *arg, const tdg__content_t *content) {
    struct read_task *read = arg;

    if (content->status == TDG_EUNREACHABLE && has_moved(read)) {
        read_again(read);
        return;
    }
    if (content->status == 0 && content->len > TDG__HEAVY_BYTES) {
        read->item = tdg__content_item(read->uri, content);
        tdg__large_encode(&read->live->large, &read->large, content);
        return;
    }
    tdg__reply_content(read->request, read->uri, content);
    end_read(read);
}

static bool has_left(const void *arg) {
    const struct read_task *read = arg;

    return tdg_request_cancelled(read->request);
}

/* The sources may be others than those that there were when the read came. */
static void on_admitted(tdg__large_read_t *large, bool busy) {
    struct read_task *read = task_of(large);
    tdg__source_t *source = tdg__live_owner(read->live, read->uri);

    if (busy) {
        refuse_busy(read);
        end_read(read);
    } else if (source == NULL) {
        on_read(read, &(tdg__content_t){.status = TDG_ENOTFOUND});
    } else {
        read->source = source;
        if (read->asked_ms == 0)
            read->asked_ms = uv_now(read->live->loop);
        tdg__source_read(source, read->uri, tdg__request_client(read->request), on_read,
                         has_left, read);
    }
}

static bool is_cancelled(const tdg__large_read_t *large) {
    return tdg_request_cancelled(task_of(large)->request);
}

static void run_read(tdg__task_t *task, bool here) {
    struct read_task *read = (struct read_task *)task;

    if (!here)
        on_read(read, &(tdg__content_t){.status = TDG_EUNREACHABLE,
                                        .error = "the server is stopping",
                                        .public = "the server is stopping"});
    else
        tdg__large_admit(&read->live->large, &read->large);
}

/* On a worker's thread. */
static void read_resource(void *user, tdg_request_t *request, const char *uri) {
    tdg__live_t *live = ((tdg__listing_t *)user)->owner;
    struct read_task *read = tdg__malloc(sizeof(*read) + strlen(uri) + 1);

    if (read == NULL) {
        tdg_request_reply(request, NULL);
        return;
    }
    *read = (struct read_task){.task.run = run_read, .live = live, .request = request};
    read->large = (tdg__large_read_t){.client = tdg__request_client(request),
                                      .uri = read->uri,
                                      .size = tdg__request_size(request),
                                      .admitted = on_admitted,
                                      .encoded = on_encoded,
                                      .cancelled = is_cancelled};
    strcpy(read->uri, uri);
    tdg__live_post(live, &read->task);
}

/* ---- Completion --------------------------------------------------------- */

struct complete_task {
    tdg__task_t task;
    tdg__live_t *live;
    tdg_request_t *request;
    const tdg__listing_t *listing; /* of the source; the request keeps it */
    char *variable, *value;        /* in the same block */
};

static struct served *served_by(tdg__live_t *live, const tdg__listing_t *listing) {
    for (size_t i = 0; i < live->count; i++)
        if (live->served[i]->listing == listing)
            return live->served[i];
    return NULL;
}

/* A source that a reload has taken away suggests nothing. */
static void run_complete(tdg__task_t *task, bool here) {
    struct complete_task *asked = (struct complete_task *)task;
    struct served *served = here ? served_by(asked->live, asked->listing) : NULL;
    json_t *values = json_array();
    size_t total = 0;

    if (served != NULL && values != NULL &&
        served->source->kind->complete(served->source, asked->variable, asked->value,
                                       values, &total) < 0) {
        json_decref(values);
        values = NULL;
    }
    tdg_request_reply_completion(asked->request, values, (uint32_t)total,
                                 total > json_array_size(values));
    tdg__free(asked);
}

/* On a worker's thread. */
static void complete_variable(void *user, tdg_request_t *request, const char *argument,
                              const char *value, const json_t *context) {
    tdg__live_t *live = ((tdg__listing_t *)user)->owner;
    size_t variable_size = strlen(argument) + 1, value_size = strlen(value) + 1;
    struct complete_task *asked =
        tdg__malloc(sizeof(*asked) + variable_size + value_size);

    (void)context;
    if (asked == NULL) {
        tdg_request_reply(request, NULL);
        return;
    }
    *asked = (struct complete_task){.task.run = run_complete,
                                    .live = live,
                                    .request = request,
                                    .listing = user,
                                    .variable = (char *)(asked + 1)};
    asked->value = asked->variable + variable_size;
    memcpy(asked->variable, argument, variable_size);
    memcpy(asked->value, value, value_size);
    tdg__live_post(live, &asked->task);
}

/* It came with the last replacement. */
static bool is_new(const struct served *served) {
    return served->first_set == served->live->set;
}

/* It was another source's, and has other content from now on. What was pushed to a new
 * source is inherited, and did not change. */
static void publish_regained(struct served *served, const char *uri) {
    tdg__live_t *live = served->live;

    if ((served->source->kind->flags & TDG__SOURCE_PUSHED) == 0)
        tdg__live_pass_on(live, uri);
    else if (!is_new(served))
        check_published(served, uri, tdg_server_notify_updated(live->server, uri, NULL));
}

static int on_list(void *user, tdg__source_t *source, const tdg__listed_t *listed) {
    struct served *served = user;
    tdg__live_t *live = served->live;

    if (served->state == LEAVING)
        return TDG_EENDED;
    if (!speaks_for(served, listed->uri))
        return 0;

    bool is_regained = live->lists_again &&
                       !tdg__listing_has(served->listing, live->server, listed->uri);
    int rv =
        tdg__listing_add(served->listing, live->server, source, listed, read_resource);
    if (rv == 0 && is_regained)
        publish_regained(served, listed->uri);
    return rv;
}

static int on_unlist(void *user, tdg__source_t *source, const char *uri, bool published) {
    struct served *served = user;

    (void)source;
    if (served->state == LEAVING)
        return 0;
    return tdg__listing_remove(served->listing, served->live->server, uri,
                               published || !speaks_for(served, uri));
}

/* ---- Coming and going --------------------------------------------------- */

static void free_served(struct served *served) {
    assert(served->state == LEAVING && served->listing == NULL);
    tdg__source_destroy(served->source);
    tdg__free(served->identity);
    tdg__free(served);
}

static void on_closer_closed(uv_handle_t *handle) {
    tdg__live_t *live = handle->data;

    live->ops.closed(live->user);
}

static void check_closed(tdg__live_t *live) {
    if (live->closing && live->count == 0 && live->leaving == 0 &&
        live->large.encoding == 0 && !uv_is_closing((uv_handle_t *)&live->closer))
        uv_close((uv_handle_t *)&live->closer, on_closer_closed);
}

static void on_closed(void *user, tdg__source_t *source) {
    struct served *served = user;
    tdg__live_t *live = served->live;

    (void)source;
    assert(live->leaving > 0);
    live->leaving--;
    free_served(served);
    check_closed(live);
}

static void on_log(void *user, tdg__source_t *source, tdg_log_level_t level,
                   const char *message) {
    (void)source;
    log_of(user, level, "%s", message);
}

static bool has_nothing(tdg__source_t *owner, const char *uri) {
    return owner == NULL || ((owner->kind->flags & TDG__SOURCE_PUSHED) != 0 &&
                             tdg__source_checksum(owner, uri) == NULL);
}

/* A URI that is to be passed on once subscribers can be notified. */
struct owed {
    tdg__queue_t link;
    char uri[];
};

static void log_lost(tdg__live_t *live) {
    live->ops.log(live->user, TDG_LOG_ERROR,
                  "could not notify the subscribers of a deleted resource");
}

/* The workers have too much to do, or there is no memory. That is logged once for all
 * that waits, which may be many thousands of URIs. */
static void begin_lagging(tdg__live_t *live, int why) {
    char text[160];

    if (!live->lags) {
        snprintf(text, sizeof(text),
                 "subscribers of deleted resources cannot be notified now: %s; retrying",
                 tdg_strerror(why));
        live->ops.log(live->user, TDG_LOG_WARNING, text);
    }
    live->lags = true;
    tdg__live_try_again(live);
}

/* Returns 0, or TDG_EAGAIN or TDG_ENOMEM: then it has to be passed on once more. */
static int pass_on(tdg__live_t *live, const char *uri) {
    tdg__source_t *owner = tdg__live_owner(live, uri);

    if (!has_nothing(owner, uri)) {
        if ((owner->kind->flags & TDG__SOURCE_PUSHED) == 0)
            tdg__source_touch(owner, uri);
        return 0;
    }

    /* An entry of one resource is listed also while it holds nothing. */
    bool is_listed = owner != NULL && owner->template_ == NULL &&
                     tdg__listing_has(((const struct served *)owner->host.user)->listing,
                                      live->server, uri);
    int rv = is_listed ? TDG_ENOTFOUND : tdg_server_remove_resource(live->server, uri);
    if (rv == TDG_ENOTFOUND)
        rv = tdg_server_notify_deleted(live->server, uri, NULL);
    if (rv == TDG_EAGAIN || rv == TDG_ENOMEM) {
        begin_lagging(live, rv);
        return rv;
    }
    if (rv < 0 && rv != TDG_EENDED)
        log_lost(live);
    return 0;
}

/* Whether nothing of this is left to do. */
static bool pass_on_owed(tdg__live_t *live) {
    while (!tdg__queue_is_empty(&live->owed)) {
        struct owed *owed = TDG__RECORD(struct owed, link, live->owed.next);

        if (pass_on(live, owed->uri) < 0)
            return false;
        tdg__queue_remove(&owed->link);
        tdg__free(owed);
    }
    return true;
}

static void forget_owed(tdg__live_t *live) {
    tdg__queue_t *link;

    while ((link = tdg__queue_take(&live->owed)) != NULL)
        tdg__free(TDG__RECORD(struct owed, link, link));
}

void tdg__live_pass_on(tdg__live_t *live, const char *uri) {
    if (pass_on(live, uri) == 0)
        return;

    struct owed *owed = tdg__malloc(sizeof(*owed) + strlen(uri) + 1);
    if (owed == NULL) {
        log_lost(live);
        return;
    }
    *owed = (struct owed){0};
    strcpy(owed->uri, uri);
    tdg__queue_append(&live->owed, &owed->link);
}

/* It is listed by a source that has left, and by no other. A source that is not ready
 * may still list it: then it was listed all the time. Where subscribers cannot be
 * notified, it stays in the list, and so do the others. */
static bool unlist_outdated(void *user, const char *uri) {
    tdg__live_t *live = user;
    tdg__source_t *owner = tdg__live_owner(live, uri);

    if (owner != NULL && !owner->ready) {
        live->has_outdated = true;
        return true;
    }
    if (!has_nothing(owner, uri))
        tdg__server_unlist(live->server, uri);
    if (pass_on(live, uri) == 0)
        return true;
    live->has_outdated = true;
    return false;
}

/* It is listed by a source that has lost it to another one. */
static bool is_displaced(void *user, const char *uri, const tdg__listing_t *listing) {
    const tdg__source_t *owner = tdg__live_owner(user, uri);

    return owner != NULL && ((const struct served *)owner->host.user)->listing != listing;
}

void tdg__live_drop_outdated(tdg__live_t *live) {
    const tdg__listings_drop_t how = {.drop = unlist_outdated,
                                      .is_displaced =
                                          live->overlaps ? is_displaced : NULL,
                                      .arg = live};

    /* What is owed goes first: the same URI may be listed, too. */
    if (!pass_on_owed(live) || !live->has_outdated)
        return;
    live->has_outdated = false;
    tdg__listings_drop_outdated(live->server, &how);
    if (!live->overlaps)
        return;
    live->lists_again = true;
    for (size_t i = 0; i < live->count; i++)
        tdg__source_list_again(live->served[i]->source);
    live->lists_again = false;
}

void tdg__live_check_ready(tdg__live_t *live) {
    if (live->not_ready > 0 || !live->waits_for_ready)
        return;
    live->waits_for_ready = false;
    tdg__live_drop_outdated(live);
    live->ops.ready(live->user);
}

static void on_ready(void *user, tdg__source_t *source) {
    struct served *served = user;
    tdg__live_t *live = served->live;

    (void)source;
    assert(served->state == SERVING && live->not_ready > 0);
    live->not_ready--;
    tdg__live_check_ready(live);
    /* Others may take long: what this one would have listed goes soon, and that of many
     * that are ready by then at once. */
    if (live->has_outdated && live->waits_for_ready)
        tdg__live_try_again(live);
}

static const tdg__source_host_ops_t host_ops = {
    on_changed, on_deleted,           on_list,   on_unlist,
    on_ready,   tdg__live_on_watched, on_closed, on_log,
};

void tdg__served_leave(struct served *served) {
    tdg__live_t *live = served->live;

    assert(served->state == SERVING);
    served->state = LEAVING;
    live->leaving++;
    if (!served->source->ready)
        live->not_ready--;
    tdg__hooks_remove(live, live->server, served->source);
    served->listing->outdated = live->has_outdated = true;
    tdg__listing_unref(served->listing); /* what is listed by it keeps it */
    served->listing = NULL;
    tdg__source_close(served->source);
}

static void list_entry(struct served *served) {
    tdg__live_t *live = served->live;

    int rv = tdg__listing_add_entry(served->listing, live->server, served->source,
                                    read_resource, complete_variable);
    served->unlisted = rv == TDG_ENOMEM;
    if (rv < 0)
        log_of(served, TDG_LOG_ERROR, "cannot be listed%s: %s",
               served->unlisted ? " now" : "", tdg_strerror(rv));
    if (served->unlisted)
        tdg__live_try_again(live);
}

void tdg__live_on_again(uv_timer_t *timer) {
    tdg__live_t *live = timer->data;

    tdg__live_drop_outdated(live);
    live->lags = live->lags && (!tdg__queue_is_empty(&live->owed) || live->has_outdated);
    for (size_t i = 0; i < live->count; i++)
        if (live->served[i]->unlisted)
            list_entry(live->served[i]);
    tdg__live_begin_owed(live);
}

static void add_endpoint(struct served *served) {
    int rv = tdg__hooks_add(served->live->server, served->endpoint);

    if (rv < 0)
        log_of(served, TDG_LOG_ERROR, "cannot accept calls: %s", tdg_strerror(rv));
}

bool tdg__served_enter(struct served *served) {
    tdg__live_t *live = served->live;
    tdg__source_host_t host = {&host_ops, served, live->loop, &live->heavy, &live->stale};

    assert(served->state == PREPARED);
    served->state = SERVING;
    list_entry(served);
    live->not_ready++;
    bool works = tdg__source_open(served->source, &host) == 0;
    if (works)
        add_endpoint(served);
    else
        tdg__route_abandon(served->endpoint);
    served->endpoint = NULL;
    return works;
}

/* ---- Life --------------------------------------------------------------- */

int tdg__live_create(uv_loop_t *loop, const tdg__live_ops_t *ops, void *user,
                     tdg__live_t **ret) {
    tdg__live_t *live = tdg__calloc(1, sizeof(*live));
    if (live == NULL)
        return TDG_ENOMEM;

    int rv = tdg__wanted_init(&live->watches);
    if (rv == 0)
        rv = tdg__inbox_create(1, wake, live, &live->inbox);
    if (rv == 0 && uv_async_init(loop, &live->async, on_async) != 0)
        rv = TDG_ESYSTEM;
    if (rv < 0) {
        tdg__inbox_unref(live->inbox);
        tdg__free(live);
        return rv;
    }
    live->async.data = live;
    live->loop = loop;
    live->ops = *ops;
    live->user = user;
    tdg__stale_init(&live->stale);
    tdg__queue_init(&live->owed);
    uv_timer_init(loop, &live->again);
    live->again.data = live;
    tdg__heavy_init(&live->heavy, loop);
    tdg__large_init(&live->large, loop, &live->heavy);
    uv_idle_init(loop, &live->closer);
    live->closer.data = live;
    *ret = live;
    return 0;
}

void tdg__live_bind(tdg__live_t *live, tdg_server_t *server) {
    live->server = server;
    tdg__large_bind(&live->large, server->answers);
}

void tdg__live_set_stale_size(tdg__live_t *live, size_t max_bytes) {
    live->stale.max_bytes = max_bytes;
}

static void on_large_idle(void *user) {
    check_closed(user);
}

void tdg__live_close(tdg__live_t *live) {
    if (live->closing)
        return;
    live->closing = true;
    uv_close((uv_handle_t *)&live->again, NULL);
    forget_owed(live);
    tdg__inbox_close(live->inbox);
    run_tasks(live, false);
    uv_close((uv_handle_t *)&live->async, NULL);
    tdg__live_refuse_watches(live);
    tdg__large_close(&live->large, on_large_idle, live);

    size_t count = live->count;

    live->count = 0;
    live->waits_for_ready = false;
    for (size_t i = 0; i < count; i++)
        tdg__served_leave(live->served[i]);
    check_closed(live);
}

void tdg__live_destroy(tdg__live_t *live) {
    if (live == NULL)
        return;
    assert(live->count == 0 && live->leaving == 0);
    tdg__roster_destroy(live->roster);
    tdg__free(live->served);
    tdg__inbox_unref(live->inbox);
    tdg__large_done(&live->large);
    tdg__wanted_done(&live->watches);
    tdg__free(live);
}
