/* SPDX-License-Identifier: MIT */
#include "serve/live.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "serve/handover.h"
#include "serve/listing.h"
#include "serve/wanted.h"
#include "server/worker.h"
#include "source/checksum.h"

enum { AGAIN_MS = 100 };

/* A source that is served, or that is on its way out. */
struct slot {
    struct slot *next;
    tdg__live_t *live;
    tdg__source_t *source;
    tdg__listing_t *listing;
    char *identity;
    bool stays;    /* while the sources are being replaced */
    bool is_new;   /* in the last replacement */
    bool unlisted; /* memory ran out when its entry was to be listed */
    bool arming;   /* its template is to be watched, and it is not ready for that yet */
};

struct tdg__live {
    uv_loop_t *loop;
    tdg__live_ops_t ops;
    void *user;
    tdg_server_t *server;
    tdg__handover_t handover;
    struct slot *slots;       /* served, in the order of the config */
    struct slot *retiring;    /* go on until those that follow them notice changes */
    struct slot *leaving;     /* closing */
    tdg__listing_t *outdated; /* of sources that left; goes when the others are ready */
    tdg__wanted_set_t watches;
    bool waits_for_ready, closing;
    uv_timer_t again; /* for what memory was missing for, once all had been taken over */
    uv_idle_t closer; /* says ops->closed() from the loop */
};

static void log_line(tdg__live_t *live, const tdg__source_t *source,
                     tdg_log_level_t level, const char *message) {
    char line[1280];

    snprintf(line, sizeof(line), "%s: %s", source->label, message);
    live->ops.log(live->user, level, line);
}

/* ---- Which source has what ---------------------------------------------- */

/* A resource of its own goes before a template, and the first in the config before
 * others. */
static struct slot *owner_of(tdg__live_t *live, const char *uri) {
    struct slot *first = NULL;

    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next) {
        if (!tdg__source_owns(slot->source, uri))
            continue;
        if (slot->source->template_ == NULL)
            return slot;
        if (first == NULL)
            first = slot;
    }
    return first;
}

tdg__source_t *tdg__live_owner(tdg__live_t *live, const char *uri) {
    struct slot *slot = owner_of(live, uri);

    return slot != NULL ? slot->source : NULL;
}

static bool is_template_of(const tdg__source_t *source, const char *target) {
    return source->template_ != NULL && strcmp(source->entry.uri, target) == 0;
}

/* The same for what is watched: a URI or one of the templates. */
static struct slot *watcher_of(tdg__live_t *live, const char *target) {
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        if (is_template_of(slot->source, target))
            return slot;
    return owner_of(live, target);
}

static bool is_list(const char *target) {
    return strncmp(target, "list:", 5) == 0;
}

/* ---- What sources tell -------------------------------------------------- */

static int check_told(struct slot *slot, const char *uri, int rv) {
    char text[256];

    if (rv < 0) {
        snprintf(text, sizeof(text), "a change of %.100s could not be told: %s", uri,
                 tdg_strerror(rv));
        log_line(slot->live, slot->source, TDG_LOG_ERROR, text);
    }
    return rv;
}

static int on_changed(void *user, tdg__source_t *source, const char *uri,
                      json_t *metadata) {
    struct slot *slot = user;

    (void)source;
    return check_told(slot, uri,
                      tdg_server_notify_updated(slot->live->server, uri, metadata));
}

static int on_deleted(void *user, tdg__source_t *source, const char *uri,
                      json_t *metadata) {
    struct slot *slot = user;

    (void)source;
    return check_told(slot, uri,
                      tdg_server_notify_deleted(slot->live->server, uri, metadata));
}

/* ---- Reads -------------------------------------------------------------- */

struct read_task {
    tdg__errand_t task;
    tdg__live_t *live;
    tdg_request_t *request;
    char uri[];
};

static void on_read(void *arg, const tdg__content_t *content) {
    struct read_task *read = arg;

    tdg__reply_content(read->request, read->uri, content);
    tdg__free(read);
}

static void run_read(tdg__errand_t *task) {
    struct read_task *read = (struct read_task *)task;
    struct slot *slot = task->refused ? NULL : owner_of(read->live, read->uri);

    if (slot != NULL) {
        tdg__source_read(slot->source, read->uri, on_read, read);
        return;
    }
    on_read(read, task->refused ? &(tdg__content_t){.status = TDG_EAWAY,
                                                    .error = "the server stops"}
                                : &(tdg__content_t){.status = TDG_ENOTFOUND});
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
    strcpy(read->uri, uri);
    tdg__handover_post(&live->handover, &read->task);
}

static int on_list(void *user, tdg__source_t *source, const tdg__listed_t *listed) {
    struct slot *slot = user;

    return tdg__listing_add(slot->listing, slot->live->server, source, listed,
                            read_resource);
}

static void on_unlist(void *user, tdg__source_t *source, const char *uri, bool told) {
    tdg_server_t *server = ((struct slot *)user)->live->server;

    (void)source;
    if (told)
        tdg__server_unlist(server, uri);
    else
        tdg_server_remove_resource(server, uri);
}

/* ---- Watching ----------------------------------------------------------- */

static void check_retiring(tdg__live_t *live);

/* Tells the server, once, how its wish ended. One that was refused is not stopped later.
 */
static void answer(tdg__live_t *live, tdg__wanted_t *watch, int status) {
    if (watch->answered)
        return;
    watch->answered = true;
    tdg_server_watch_done(live->server, watch->target, status);
    if (status < 0)
        tdg__wanted_remove(&live->watches, watch);
}

static void on_watched(void *user, tdg__source_t *source, const char *target,
                       int status) {
    struct slot *slot = user;
    tdg__live_t *live = slot->live;
    tdg__wanted_t *watch = tdg__wanted_find(&live->watches, target);

    if (is_template_of(source, target)) {
        slot->arming = false;
        check_retiring(live);
    }
    if (watch == NULL || (watch->source != NULL && watch->source != source))
        return;
    if (watch->pending > 0 && --watch->pending > 0)
        return;
    answer(live, watch, is_list(target) ? 0 : status);
}

/* All that list by themselves; that some of them cannot is no reason to refuse. */
static void watch_lists(tdg__live_t *live, tdg__wanted_t *watch) {
    watch->pending = 1;
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        if ((slot->source->kind->flags & TDG__SOURCE_LISTS) != 0 &&
            tdg__source_watch(slot->source, watch->target, NULL) == TDG_EAGAIN)
            watch->pending++;
    if (--watch->pending == 0)
        answer(live, watch, 0);
}

static void on_again(uv_timer_t *timer);

static void try_again(tdg__live_t *live) {
    if (!live->closing)
        uv_timer_start(&live->again, on_again, AGAIN_MS, 0);
}

/* Lets the source that has the target watch it. `checksum` is what was last told. */
static void begin(tdg__live_t *live, tdg__wanted_t *watch, const char *checksum) {
    struct slot *slot = watcher_of(live, watch->target);

    watch->source = slot != NULL ? slot->source : NULL;
    if (slot == NULL) { /* what the server lists and no source has: a tool's, say */
        answer(live, watch, 0);
        return;
    }

    int rv = tdg__source_watch(slot->source, watch->target, checksum);
    slot->arming |= rv == TDG_EAGAIN && is_template_of(slot->source, watch->target);
    watch->again = rv == TDG_ENOMEM && watch->answered;
    if (watch->again) {
        watch->source = NULL; /* which is not to be told to stop */
        try_again(live);
    } else if (rv != TDG_EAGAIN) {
        answer(live, watch, rv);
    }
}

/* What changed meanwhile nobody knows, so it counts as changed. */
static void begin_again(tdg__live_t *live, tdg__wanted_t *watch) {
    begin(live, watch, NULL);
    if (watch->source == NULL || strchr(watch->target, '{') != NULL ||
        tdg_server_notify_updated(live->server, watch->target, NULL) == 0)
        return;
    tdg__source_unwatch(watch->source, watch->target);
    watch->source = NULL;
    watch->again = true;
    try_again(live);
}

struct watch_task {
    tdg__errand_t task;
    tdg__live_t *live;
    char target[];
};

static void start_watch(tdg__live_t *live, const char *target) {
    tdg__wanted_t *watch = tdg__wanted_find(&live->watches, target);

    if (watch != NULL) { /* there was no memory to stop it */
        if (watch->answered)
            tdg_server_watch_done(live->server, target, 0);
        return;
    }
    watch = tdg__wanted_add(&live->watches, target);
    if (watch == NULL)
        tdg_server_watch_done(live->server, target, TDG_ENOMEM);
    else if (is_list(target))
        watch_lists(live, watch);
    else
        begin(live, watch, NULL);
}

static void run_watch(tdg__errand_t *task) {
    struct watch_task *wish = (struct watch_task *)task;
    tdg__live_t *live = wish->live;

    if (!task->refused)
        start_watch(live, wish->target);
    tdg__free(wish);
}

static void unwatch(struct slot *slot, const char *target) {
    if (is_template_of(slot->source, target))
        slot->arming = false;
    tdg__source_unwatch(slot->source, target);
}

static void run_unwatch(tdg__errand_t *task) {
    struct watch_task *wish = (struct watch_task *)task;
    tdg__live_t *live = wish->live;
    tdg__wanted_t *watch =
        task->refused ? NULL : tdg__wanted_find(&live->watches, wish->target);

    if (watch != NULL) {
        for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
            if (slot->source == watch->source ||
                (is_list(wish->target) &&
                 (slot->source->kind->flags & TDG__SOURCE_LISTS) != 0))
                unwatch(slot, wish->target);
        tdg__wanted_remove(&live->watches, watch);
        check_retiring(live);
    }
    tdg__free(wish);
}

static int post_watch(tdg__live_t *live, const char *target,
                      void (*run)(tdg__errand_t *task)) {
    struct watch_task *wish = tdg__malloc(sizeof(*wish) + strlen(target) + 1);

    if (wish == NULL)
        return TDG_ENOMEM;
    *wish = (struct watch_task){.task.run = run, .live = live};
    strcpy(wish->target, target);
    tdg__handover_post(&live->handover, &wish->task);
    return 0;
}

/* On a worker's thread, as the next one. */
static int watcher_start(void *user, tdg_server_t *server, const char *target) {
    (void)server;
    int rv = post_watch(user, target, run_watch);
    return rv < 0 ? rv : TDG_EAGAIN;
}

/* Without memory the watching goes on, and costs what it costs. */
static void watcher_stop(void *user, tdg_server_t *server, const char *target) {
    (void)server;
    post_watch(user, target, run_unwatch);
}

tdg_watcher_t tdg__live_watcher(tdg__live_t *live) {
    return (tdg_watcher_t){watcher_start, watcher_stop, live};
}

/* ---- Coming and going --------------------------------------------------- */

static void free_slot(struct slot *slot) {
    tdg__source_destroy(slot->source);
    tdg__listing_unref(slot->listing);
    tdg__free(slot->identity);
    tdg__free(slot);
}

static void on_closer_closed(uv_handle_t *handle) {
    tdg__live_t *live = handle->data;

    live->ops.closed(live->user);
}

static void check_closed(tdg__live_t *live) {
    if (live->closing && live->slots == NULL && live->leaving == NULL &&
        !uv_is_closing((uv_handle_t *)&live->closer))
        uv_close((uv_handle_t *)&live->closer, on_closer_closed);
}

static void on_closed(void *user, tdg__source_t *source) {
    struct slot *slot = user, **at = &slot->live->leaving;
    tdg__live_t *live = slot->live;

    (void)source;
    while (*at != slot)
        at = &(*at)->next;
    *at = slot->next;
    free_slot(slot);
    check_closed(live);
}

static void on_log(void *user, tdg__source_t *source, tdg_log_level_t level,
                   const char *message) {
    log_line(((struct slot *)user)->live, source, level, message);
}

static void drop_outdated(tdg__live_t *live) {
    while (live->outdated != NULL) {
        tdg__listing_t *listing = live->outdated;

        live->outdated = listing->next;
        tdg__listing_remove_all(listing, live->server);
        tdg__listing_unref(listing);
    }
}

/* Once all have their lists, what only those had that left is gone. Not earlier: what is
 * listed by another one now has not been away. */
static void check_ready(tdg__live_t *live) {
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        if (!slot->source->ready)
            return;
    if (!live->waits_for_ready)
        return;
    live->waits_for_ready = false;
    drop_outdated(live);
    live->ops.ready(live->user);
}

static void on_ready(void *user, tdg__source_t *source) {
    tdg__live_t *live = ((struct slot *)user)->live;

    (void)source;
    check_ready(live);
    check_retiring(live);
}

static const tdg__source_host_ops_t host_ops = {
    on_changed, on_deleted, on_list, on_unlist, on_ready, on_watched, on_closed, on_log,
};

/* Begins to close a source that is in no list any more. */
static void leave(struct slot *slot) {
    tdg__live_t *live = slot->live;

    if (live->ops.closing != NULL)
        live->ops.closing(live->user, slot->source);
    slot->next = live->leaving;
    live->leaving = slot;
    slot->listing->next = live->outdated;
    live->outdated = slot->listing;
    slot->listing = NULL;
    tdg__source_close(slot->source);
}

static void leave_all(struct slot *list) {
    while (list != NULL) {
        struct slot *slot = list;

        list = slot->next;
        leave(slot);
    }
}

/* Who watches a template is told of what is noticed, and there is nothing to compare with
 * later: the old source goes on noticing until the new one has begun to. */
static bool has_to_stay(tdg__live_t *live, const struct slot *old) {
    const tdg__wanted_t *watch =
        old->source->template_ != NULL
            ? tdg__wanted_find(&live->watches, old->source->entry.uri)
            : NULL;

    return watch != NULL && watch->source != NULL && watch->source != old->source &&
           (old->source->kind->flags & TDG__SOURCE_PUSHED) == 0;
}

static void check_retiring(tdg__live_t *live) {
    struct slot *retiring = live->retiring;

    if (live->waits_for_ready || retiring == NULL)
        return;
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        if (!slot->source->ready || slot->arming)
            return;
    live->retiring = NULL;
    leave_all(retiring);
    drop_outdated(live);
}

static void list_entry(struct slot *slot) {
    tdg__live_t *live = slot->live;
    char text[256];

    int rv =
        tdg__listing_add_entry(slot->listing, live->server, slot->source, read_resource);
    slot->unlisted = rv == TDG_ENOMEM;
    if (rv < 0) {
        snprintf(text, sizeof(text), "cannot be listed%s: %s",
                 slot->unlisted ? " now" : "", tdg_strerror(rv));
        log_line(live, slot->source, TDG_LOG_ERROR, text);
    }
    if (slot->unlisted)
        try_again(live);
}

static void on_again(uv_timer_t *timer) {
    tdg__live_t *live = timer->data;
    tdg__wanted_t *watch = tdg__wanted_next(&live->watches, 0);

    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        if (slot->unlisted)
            list_entry(slot);
    while (watch != NULL) {
        uint32_t id = watch->id;

        if (watch->again)
            begin_again(live, watch);
        watch = tdg__wanted_next(&live->watches, id);
    }
}

/* Lists and opens a source. Returns false where it cannot work: it leaves then. */
static bool enter(struct slot *slot) {
    tdg__live_t *live = slot->live;
    tdg__source_host_t host = {&host_ops, slot, live->loop};
    int rv;

    list_entry(slot);
    rv = tdg__source_open(slot->source, &host);
    if (rv == 0 && live->ops.opened != NULL)
        live->ops.opened(live->user, slot->source);
    return rv == 0;
}

/* ---- Replacing ---------------------------------------------------------- */

static void put_node(tdg__text_t *text, const tdg__node_t *node) {
    if (node->kind == TDG__NODE_SCALAR) {
        tdg__text_put(text, node->plain ? "p" : "q");
        tdg__text_put_quoted(text, node->text, strlen(node->text));
        return;
    }
    tdg__text_put(text, node->kind == TDG__NODE_MAP ? "{" : "[");
    for (const tdg__node_t *child = node->first; child != NULL; child = child->next) {
        if (child->key != NULL)
            tdg__text_put_quoted(text, child->key, strlen(child->key));
        put_node(text, child);
    }
    tdg__text_put(text, "}");
}

char *tdg__live_identity(const tdg__node_t *entry) {
    tdg__text_t text;

    tdg__text_init(&text, SIZE_MAX);
    put_node(&text, entry); /* as deep as the reader of the file allows */
    if (text.error == 0)
        return text.data;
    tdg__text_done(&text);
    return NULL;
}

static void destroy_entry(tdg__live_entry_t *entry) {
    tdg__free(entry->identity);
    tdg__source_destroy(entry->source);
}

void tdg__live_free_entries(tdg__live_entry_t *entries, size_t count) {
    for (size_t i = 0; i < count; i++)
        destroy_entry(&entries[i]);
    tdg__free(entries);
}

static struct slot *find_same(tdg__live_t *live, const char *identity) {
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        if (!slot->stays && strcmp(slot->identity, identity) == 0)
            return slot;
    return NULL;
}

/* Makes a slot for each entry; those that stay are marked and take NULL. */
static int make_slots(tdg__live_t *live, tdg__live_entry_t *entries, size_t count,
                      struct slot **slots) {
    for (size_t i = 0; i < count; i++) {
        struct slot *same = find_same(live, entries[i].identity);

        if (same != NULL) {
            same->stays = true;
            slots[i] = same;
            continue;
        }
        slots[i] = tdg__calloc(1, sizeof(*slots[i]));
        if (slots[i] == NULL)
            return TDG_ENOMEM;
        slots[i]->live = live;
        slots[i]->listing = tdg__listing_create(live);
        if (slots[i]->listing == NULL)
            return TDG_ENOMEM;
    }
    return 0;
}

static void undo_slots(tdg__live_t *live, struct slot **slots, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (slots[i] == NULL || slots[i]->stays)
            continue;
        tdg__listing_unref(slots[i]->listing);
        tdg__free(slots[i]);
    }
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        slot->stays = false;
}

/* Nobody has it any more. What is listed is told as deleted when it leaves the list; this
 * is for what a template stood for. */
static void tell_gone(tdg__live_t *live, const tdg__source_t *before, const char *uri) {
    tdg__entry_t *entry =
        tdg__catalogue_find(tdg__server_catalogue(live->server), TDG__RESOURCE, uri);

    if (entry == NULL && tdg_server_notify_deleted(live->server, uri, NULL) < 0)
        log_line(live, before, TDG_LOG_ERROR, "that it is gone could not be told");
    tdg__entry_unref(entry);
}

/* Lets what is watched move to whoever has it now, with the checksum of what was told.
 * Where that was nothing, all that is found is news. */
static void move_watch(tdg__live_t *live, tdg__wanted_t *watch) {
    struct slot *slot = watcher_of(live, watch->target);
    tdg__source_t *before = watch->source;
    const char *checksum;
    char told[TDG__CHECKSUM + 1] = "";

    if ((slot != NULL ? slot->source : NULL) == before)
        return;
    if (before != NULL) {
        checksum = tdg__source_checksum(before, watch->target);
        if (checksum != NULL)
            memcpy(told, checksum, sizeof(told));
        if (slot == NULL || !is_template_of(before, watch->target))
            tdg__source_unwatch(before, watch->target);
        if (slot == NULL && told[0] != '\0')
            tell_gone(live, before, watch->target);
    }
    begin(live, watch, watch->answered ? told : NULL);
}

/* Begins anew, so that all are asked once, whoever has not answered yet. */
static void move_lists(tdg__live_t *live, tdg__wanted_t *watch) {
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        if (!slot->is_new && (slot->source->kind->flags & TDG__SOURCE_LISTS) != 0)
            tdg__source_unwatch(slot->source, watch->target);
    watch_lists(live, watch);
}

static void move_watches(tdg__live_t *live) {
    tdg__wanted_t *watch = tdg__wanted_next(&live->watches, 0);

    while (watch != NULL) {
        uint32_t id = watch->id;

        if (is_list(watch->target))
            move_lists(live, watch);
        else
            move_watch(live, watch);
        watch = tdg__wanted_next(&live->watches, id);
    }
}

/* What was pushed to a source that leaves is nowhere else. */
static void adopt(tdg__live_t *live, struct slot *leaving) {
    const tdg__source_t *from = leaving->source;

    if ((from->kind->flags & TDG__SOURCE_PUSHED) == 0 || from->entry.uri == NULL)
        return;
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        if (slot->source->kind == from->kind && slot->source->entry.uri != NULL &&
            strcmp(slot->source->entry.uri, from->entry.uri) == 0)
            tdg__source_adopt(slot->source, leaving->source);
}

/* Takes over the new list: opens what is new, moves what is watched, closes what is not
 * in it any more. */
static void take_over(tdg__live_t *live, tdg__live_entry_t *entries, struct slot **slots,
                      size_t count) {
    struct slot *old = live->slots, *failed = NULL, **last = &live->slots;

    for (struct slot **at = &old; *at != NULL;) /* what stays is taken out of it */
        if ((*at)->stays)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    live->slots = NULL;
    live->waits_for_ready = false; /* some are ready at once; that is for later */
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = slots[i];
        bool works = true;

        slot->is_new = !slot->stays;
        if (slot->stays) {
            destroy_entry(&entries[i]);
        } else {
            slot->source = entries[i].source;
            slot->identity = entries[i].identity;
            works = enter(slot);
        }
        slot->stays = false;
        slot->next = NULL;
        if (works) {
            *last = slot;
            last = &slot->next;
        } else {
            slot->next = failed;
            failed = slot;
        }
    }
    for (struct slot *list = old; list != NULL; list = list->next)
        adopt(live, list);
    move_watches(live);
    leave_all(live->retiring); /* of a reload before */
    live->retiring = NULL;
    for (struct slot *slot = old, *next; slot != NULL; slot = next) {
        next = slot->next;
        if (has_to_stay(live, slot)) {
            slot->next = live->retiring;
            live->retiring = slot;
        } else {
            leave(slot);
        }
    }
    leave_all(failed);
    live->waits_for_ready = true;
    check_ready(live);
    check_retiring(live);
}

int tdg__live_replace(tdg__live_t *live, tdg__live_entry_t *entries, size_t count) {
    struct slot **slots = tdg__calloc(count + 1, sizeof(*slots));

    int rv = slots != NULL ? make_slots(live, entries, count, slots) : TDG_ENOMEM;
    if (rv == 0) {
        take_over(live, entries, slots, count);
    } else {
        if (slots != NULL)
            undo_slots(live, slots, count);
        for (size_t i = 0; i < count; i++)
            destroy_entry(&entries[i]);
    }
    tdg__free(slots);
    return rv;
}

void tdg__live_each(tdg__live_t *live, void (*visit)(void *arg, tdg__source_t *source),
                    void *arg) {
    for (struct slot *slot = live->slots; slot != NULL; slot = slot->next)
        visit(arg, slot->source);
}

/* ---- Life --------------------------------------------------------------- */

int tdg__live_create(uv_loop_t *loop, const tdg__live_ops_t *ops, void *user,
                     tdg__live_t **ret) {
    tdg__live_t *live = tdg__calloc(1, sizeof(*live));
    if (live == NULL)
        return TDG_ENOMEM;

    int rv = tdg__wanted_init(&live->watches);
    if (rv == 0)
        rv = tdg__handover_init(&live->handover, loop);
    if (rv < 0) {
        tdg__free(live);
        return rv;
    }
    live->loop = loop;
    live->ops = *ops;
    live->user = user;
    uv_timer_init(loop, &live->again);
    live->again.data = live;
    uv_idle_init(loop, &live->closer);
    live->closer.data = live;
    *ret = live;
    return 0;
}

void tdg__live_bind(tdg__live_t *live, tdg_server_t *server) {
    live->server = server;
}

void tdg__live_post(tdg__live_t *live, tdg__errand_t *task) {
    tdg__handover_post(&live->handover, task);
}

void tdg__live_close(tdg__live_t *live) {
    if (live->closing)
        return;
    live->closing = true;
    uv_close((uv_handle_t *)&live->again, NULL);
    tdg__handover_close(&live->handover);

    struct slot *served = live->slots, *retiring = live->retiring;

    live->slots = live->retiring = NULL;
    leave_all(served);
    leave_all(retiring);
    check_closed(live);
}

void tdg__live_destroy(tdg__live_t *live) {
    if (live == NULL)
        return;
    while (live->outdated != NULL) {
        tdg__listing_t *listing = live->outdated;

        live->outdated = listing->next;
        tdg__listing_unref(listing);
    }
    tdg__handover_done(&live->handover);
    tdg__wanted_done(&live->watches);
    tdg__free(live);
}
