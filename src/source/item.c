/* SPDX-License-Identifier: MIT
 *
 *      touch, read, first watch              PARALLEL at a time
 *     IDLE ───────────────────▶ QUEUED ──────────────────────▶ FETCHING
 *      ▲                          ▲                              │
 *      │                          └── asked again meanwhile ─────┤
 *      └──────────────────── settled ────────────────────────────┘
 *
 * An item stays while it is watched, wanted by a reader, or kept for a kind that has its
 * content pushed. While the source's template is watched, items that were told of are
 * remembered, within a limit, so that the next look at them can be compared. */
#include "source/item.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/variables.h"
#include "source/checksum.h"

enum {
    PARALLEL = 16,                 /* fetches of one source at a time */
    REMEMBERED = 10000,            /* items that only a template's watching keeps */
    KEEP_EACH = 1024 * 1024,       /* of content, for when the backend is away */
    KEEP_TOTAL = 16 * 1024 * 1024, /* in one source */
};

enum known {
    UNKNOWN,
    PRESENT, /* with the checksum */
    ABSENT,
    BROKEN, /* it is there and cannot be had: too large, the query is wrong, ... */
};

enum state { IDLE, QUEUED, FETCHING };

struct reader {
    struct reader *next;
    tdg__read_done_fn done;
    void *arg;
};

/* Content that was seen last, for reads while nobody can look. */
struct kept {
    void *data; /* NULL: nothing is kept */
    size_t len;
    char *mime_type;
    json_t *metadata;
    int64_t updated_ms;
};

struct tdg__item {
    uint32_t id, hash;
    tdg__source_t *source;
    char *uri;

    bool watched;     /* by itself, not through the template */
    bool kind_arming; /* the kind has not said tdg__source_watched() yet */
    bool first_fetch; /* of the watching: nothing to compare with, nobody to tell */
    bool touched;     /* since the last fetch began */
    bool was_touched; /* before that */
    bool again;       /* asked while FETCHING */
    bool remembered;  /* in by_use */
    bool busy;        /* callbacks run that may let go of it */

    enum known known;
    char checksum[TDG__CHECKSUM + 1];
    struct kept kept;
    int64_t stale_since_ms; /* 0: it is not */
    char *stale_why;
    unsigned tries;

    enum state state;
    tdg__fetch_t fetch;
    tdg__timer_t timer; /* FETCHING: its time is over; IDLE: try again */
    struct reader *readers, *next_readers; /* of this fetch, of the next */
    tdg__link_t queue;
    tdg__link_t by_use;
    tdg__link_t by_keep;
    tdg__variables_t *variables; /* while FETCHING, where the source has a template */
};

struct tdg__items {
    tdg__pool_t pool;
    tdg__map_t by_uri;
    tdg__hash_key_t key;
    tdg__heap_t timers;
    uv_timer_t timer; /* for the first of them */
    bool template_watched;
    bool pumping;
    tdg__list_t queue;
    unsigned fetching;
    tdg__list_t by_use; /* remembered ones, the longest unused first */
    unsigned remembered;
    tdg__list_t by_keep; /* those with kept content, the oldest first */
    size_t kept_bytes;
    bool kind_closed, timer_closing;
    void (*closed)(tdg__source_t *source);
};

#define LINK(field) offsetof(tdg__item_t, field)

static bool is_pushed(const tdg__source_t *source) {
    return (source->kind->flags & TDG__SOURCE_PUSHED) != 0;
}

/* ---- Records ------------------------------------------------------------ */

static uint32_t hash_of(const struct tdg__items *items, const char *uri) {
    return (uint32_t)tdg__hash(&items->key, uri, strlen(uri));
}

static bool has_uri(const void *ctx, uint32_t id, const void *uri) {
    const tdg__item_t *item = tdg__pool_get(&((const struct tdg__items *)ctx)->pool, id);

    return strcmp(item->uri, uri) == 0;
}

static tdg__item_t *find(const tdg__source_t *source, const char *uri) {
    const struct tdg__items *items = source->items;
    uint32_t id = tdg__map_find(&items->by_uri, hash_of(items, uri), has_uri, items, uri);

    return id != 0 ? tdg__pool_get(&items->pool, id) : NULL;
}

static char *copy_of(const char *text) {
    char *copy = text != NULL ? tdg__malloc(strlen(text) + 1) : NULL;

    return copy != NULL ? strcpy(copy, text) : NULL;
}

static tdg__item_t *find_or_create(tdg__source_t *source, const char *uri) {
    struct tdg__items *items = source->items;
    tdg__item_t *item = find(source, uri);
    uint32_t id;

    if (item != NULL)
        return item;
    if (tdg__map_reserve(&items->by_uri) < 0)
        return NULL;
    item = tdg__pool_alloc(&items->pool, &id);
    if (item == NULL)
        return NULL;
    item->uri = copy_of(uri);
    if (item->uri == NULL || tdg__heap_add(&items->timers, &item->timer, 0) < 0) {
        tdg__free(item->uri);
        tdg__pool_free(&items->pool, id);
        return NULL;
    }
    item->id = id;
    item->hash = hash_of(items, uri);
    item->source = source;
    tdg__map_insert(&items->by_uri, item->hash, id);
    return item;
}

static void forget_kept(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    if (item->kept.data == NULL)
        return;
    if (!is_pushed(item->source)) {
        tdg__list_remove(&items->by_keep, &items->pool, LINK(by_keep), item->id);
        items->kept_bytes -= item->kept.len;
    }
    tdg__free(item->kept.data);
    tdg__free(item->kept.mime_type);
    json_decref(item->kept.metadata);
    item->kept = (struct kept){0};
}

static void forget_stale(tdg__item_t *item) {
    tdg__free(item->stale_why);
    item->stale_why = NULL;
    item->stale_since_ms = 0;
}

static void destroy(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    forget_kept(item);
    forget_stale(item);
    if (item->remembered) {
        tdg__list_remove(&items->by_use, &items->pool, LINK(by_use), item->id);
        items->remembered--;
    }
    tdg__heap_remove(&items->timers, &item->timer);
    tdg__map_remove(&items->by_uri, item->hash, item->id);
    tdg__free(item->uri);
    tdg__pool_free(&items->pool, item->id);
}

/* Remembers an item that only a watched template is interested in; the oldest goes. */
static void remember(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    if (item->remembered)
        tdg__list_remove(&items->by_use, &items->pool, LINK(by_use), item->id);
    else
        items->remembered++;
    item->remembered = true;
    tdg__list_append(&items->by_use, &items->pool, LINK(by_use), item->id);
    if (items->remembered > REMEMBERED)
        destroy(tdg__pool_get(&items->pool, items->by_use.first));
}

static void recall(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    if (!item->remembered)
        return;
    item->remembered = false;
    items->remembered--;
    tdg__list_remove(&items->by_use, &items->pool, LINK(by_use), item->id);
}

/* Lets go of an item that nobody needs. */
static void release(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    if (item->busy || item->watched || item->state != IDLE ||
        item->next_readers != NULL ||
        (is_pushed(item->source) && item->kept.data != NULL))
        return;
    forget_kept(item);
    if (items->template_watched && (item->known != UNKNOWN || item->touched))
        remember(item);
    else
        destroy(item);
}

/* ---- Time --------------------------------------------------------------- */

static int64_t now_ms(const tdg__source_t *source) {
    return (int64_t)uv_now(source->host.loop);
}

static void on_time(uv_timer_t *timer);

static void set_timer(struct tdg__items *items) {
    int64_t next = tdg__heap_next(&items->timers);

    if (items->timer_closing)
        return;
    if (next == INT64_MAX) {
        uv_timer_stop(&items->timer);
        return;
    }

    int64_t now = (int64_t)uv_now(items->timer.loop);

    uv_timer_start(&items->timer, on_time, next > now ? (uint64_t)(next - now) : 0, 0);
}

static void arm(tdg__item_t *item, int64_t wait_ms) {
    struct tdg__items *items = item->source->items;

    tdg__heap_arm(&items->timers, &item->timer, now_ms(item->source) + wait_ms);
    set_timer(items);
}

/* ---- Fetching ----------------------------------------------------------- */

static void start(tdg__item_t *item) {
    tdg__source_t *source = item->source;

    item->state = FETCHING;
    source->items->fetching++;
    item->readers = item->next_readers;
    item->next_readers = NULL;
    item->was_touched = item->touched;
    item->touched = false;
    item->again = false;
    item->fetch = (tdg__fetch_t){.source = source, .uri = item->uri, .item = item};
    arm(item, source->entry.timeout_ms);

    int rv = source->template_ == NULL
                 ? 0
                 : tdg__variables_create(source->template_, item->uri, strlen(item->uri),
                                         &item->variables);
    if (rv < 0)
        tdg__fetch_failed(&item->fetch, rv, "%s", tdg_strerror(rv));
    else
        source->kind->fetch(source, &item->fetch);
}

/* A fetch may end inside its start, so this is a loop and never nests. */
static void pump(tdg__source_t *source) {
    struct tdg__items *items = source->items;

    if (items->pumping)
        return;
    items->pumping = true;
    while (items->queue.first != 0 && items->fetching < PARALLEL && !source->closing) {
        tdg__item_t *item = tdg__pool_get(&items->pool, items->queue.first);

        tdg__list_remove(&items->queue, &items->pool, LINK(queue), item->id);
        start(item);
    }
    items->pumping = false;
}

static void look(tdg__item_t *item) {
    struct tdg__items *items = item->source->items;

    if (item->state == FETCHING) {
        item->again = true;
        return;
    }
    if (item->state == QUEUED)
        return;
    recall(item);
    tdg__heap_disarm(&items->timers, &item->timer);
    item->state = QUEUED;
    tdg__list_append(&items->queue, &items->pool, LINK(queue), item->id);
    pump(item->source);
}

static void on_time(uv_timer_t *timer) {
    tdg__source_t *source = timer->data;
    struct tdg__items *items = source->items;
    tdg__timer_t *due;

    while ((due = tdg__heap_pop(&items->timers, now_ms(source))) != NULL) {
        tdg__item_t *item = (tdg__item_t *)((char *)due - offsetof(tdg__item_t, timer));

        if (item->state == IDLE) {
            look(item);
        } else if (item->state == FETCHING && source->kind->cancel != NULL) {
            item->fetch.cancelled = true;
            source->kind->cancel(source, &item->fetch);
        }
    }
    set_timer(items);
}

/* ---- What was found ----------------------------------------------------- */

static const char *mime_of(const tdg__source_t *source, const tdg__content_t *content) {
    return content->mime_type != NULL ? content->mime_type : source->entry.mime_type;
}

/* The complete metadata of content: the kind's own fields, and those of every kind. New;
 * NULL where memory is out. */
static json_t *metadata_of(const tdg__content_t *content, const char *checksum,
                           const char *change_type) {
    int64_t updated = content->updated_ms != 0 ? content->updated_ms : tdg__wall_ms();
    json_t *metadata =
        content->metadata != NULL ? json_copy(content->metadata) : json_object();

    if (metadata == NULL)
        return NULL;
    if (json_object_set_new(metadata, "updated_at", json_integer(updated)) < 0)
        goto fail;
    if (content->status == 0 &&
        (json_object_set_new(metadata, "size", json_integer((json_int_t)content->len)) <
             0 ||
         json_object_set_new(metadata, "checksum", json_string(checksum)) < 0))
        goto fail;
    if (content->status != 0 && content->status != TDG_ENOTFOUND &&
        json_object_set_new(metadata, "error", json_string(content->error)) < 0)
        goto fail;
    if (change_type != NULL && json_object_get(metadata, "change_type") == NULL &&
        json_object_set_new(metadata, "change_type", json_string(change_type)) < 0)
        goto fail;
    return metadata;

fail:
    json_decref(metadata);
    return NULL;
}

static void answer(struct reader *readers, const tdg__content_t *content) {
    while (readers != NULL) {
        struct reader *reader = readers;

        readers = reader->next;
        reader->done(reader->arg, content);
        tdg__free(reader);
    }
}

/* Answers with what was kept, marked as stale. Returns false where nothing is. */
static bool answer_stale(tdg__item_t *item, struct reader *readers, const char *why) {
    const tdg__source_t *source = item->source;
    const struct kept *kept = &item->kept;
    int64_t since = source->away ? source->away_since_ms : item->stale_since_ms;

    if (kept->data == NULL)
        return false;

    tdg__content_t content = {.data = kept->data,
                              .len = kept->len,
                              .mime_type = kept->mime_type,
                              .updated_ms = kept->updated_ms,
                              .metadata = json_copy(kept->metadata)};

    if (content.metadata == NULL ||
        json_object_set_new(content.metadata, "stale", json_true()) < 0 ||
        json_object_set_new(content.metadata, "stale_since", json_integer(since)) < 0 ||
        json_object_set_new(content.metadata, "stale_reason", json_string(why)) < 0) {
        json_decref(content.metadata);
        return false;
    }
    answer(readers, &content);
    json_decref(content.metadata);
    return true;
}

/* Keeps a copy of content, with complete metadata; where there is no memory for it,
 * nothing is kept. */
static int keep(tdg__item_t *item, const tdg__content_t *content, json_t *metadata) {
    struct tdg__items *items = item->source->items;
    const char *mime_type = mime_of(item->source, content);
    struct kept kept = {.data = tdg__malloc(content->len + 1),
                        .len = content->len,
                        .mime_type = copy_of(mime_type),
                        .metadata = json_incref(metadata),
                        .updated_ms = content->updated_ms};

    if (kept.data == NULL || (mime_type != NULL && kept.mime_type == NULL)) {
        tdg__free(kept.data);
        tdg__free(kept.mime_type);
        json_decref(metadata);
        return TDG_ENOMEM;
    }
    if (content->len > 0)
        memcpy(kept.data, content->data, content->len);
    forget_kept(item);
    item->kept = kept;
    if (is_pushed(item->source))
        return 0;
    tdg__list_append(&items->by_keep, &items->pool, LINK(by_keep), item->id);
    items->kept_bytes += kept.len;
    while (items->kept_bytes > KEEP_TOTAL)
        forget_kept(tdg__pool_get(&items->pool, items->by_keep.first));
    return 0;
}

static void tell(tdg__item_t *item, const tdg__content_t *content, const char *checksum,
                 const char *change_type) {
    tdg__source_t *source = item->source;
    json_t *metadata = metadata_of(content, checksum, change_type);

    if (content->status == TDG_ENOTFOUND)
        source->host.ops->deleted(source->host.user, source, item->uri, metadata);
    else
        source->host.ops->changed(source->host.user, source, item->uri, metadata);
}

static enum known known_by(const tdg__content_t *content) {
    return content->status == 0               ? PRESENT
           : content->status == TDG_ENOTFOUND ? ABSENT
                                              : BROKEN;
}

/* Notes what the item holds now, and tells whoever has to know. `checksum` is of content
 * that is there, else "". */
static void note(tdg__item_t *item, const tdg__content_t *content, const char *checksum,
                 bool touched, bool always) {
    const struct tdg__items *items = item->source->items;
    enum known before = item->known, now = known_by(content);
    bool same = before == now && strcmp(item->checksum, checksum) == 0;
    bool observed = item->watched || items->template_watched || is_pushed(item->source);

    item->known = now;
    memcpy(item->checksum, checksum, strlen(checksum) + 1);
    if (!observed || (same && !always))
        return;
    if (before == UNKNOWN && item->first_fetch)
        return; /* who begins to watch reads it after that */
    if (before == UNKNOWN && !touched && !item->watched)
        return; /* read through the template: nothing to compare with */
    tell(item, content, checksum,
         now == ABSENT                        ? "deleted"
         : before == ABSENT && now == PRESENT ? "created"
                                              : "content_update");
}

/* The watching of an item is complete once the kind is ready and a first look was had. */
static void check_armed(tdg__item_t *item, int status) {
    tdg__source_t *source = item->source;

    if (item->watched && !item->kind_arming && !item->first_fetch)
        source->host.ops->watched(source->host.user, source, item->uri, status);
}

/* Nobody could look. It is tried again as long as somebody is interested; where the kind
 * says that the whole backend is away, its return is what to wait for. */
static void failed(tdg__item_t *item, const tdg__content_t *content) {
    tdg__source_t *source = item->source;
    bool wanted = item->watched || (source->items->template_watched && item->was_touched);

    item->touched = item->touched || item->was_touched;
    if (item->stale_since_ms == 0)
        item->stale_since_ms = tdg__wall_ms();
    tdg__free(item->stale_why);
    item->stale_why = copy_of(content->error);
    if (wanted && !source->away && !source->closing) {
        int64_t wait = tdg__source_wait_ms(source, item->tries);

        if (item->tries++ == 0)
            tdg__source_log(source, TDG_LOG_WARNING,
                            "%s: %s; trying again in %" PRId64 " ms, then less often",
                            item->uri, content->error, wait);
        arm(item, wait);
    }
}

static void recovered(tdg__item_t *item) {
    if (item->tries > 0)
        tdg__source_log(item->source, TDG_LOG_NOTICE, "%s: is back after %u tries",
                        item->uri, item->tries);
    item->tries = 0;
    forget_stale(item);
}

/* What a fetch found: returns true where `content` could be had or is known not to be.
 * *ret_metadata is complete then, where it is there. */
static bool settle(tdg__item_t *item, tdg__content_t *content, json_t **ret_metadata) {
    char checksum[TDG__CHECKSUM + 1] = "";

    if (content->status == 0 && content->len > (size_t)item->source->entry.max_size) {
        content->status = TDG_ETOOLARGE;
        content->error = "the content is larger than max-size";
    }
    if (content->status == 0) {
        if (tdg__checksum(content->data, content->len, checksum) == 0)
            *ret_metadata = metadata_of(content, checksum, NULL);
        if (*ret_metadata == NULL) {
            content->status = TDG_ENOMEM;
            content->error = tdg_strerror(TDG_ENOMEM);
        }
    }
    if (content->status == TDG_EAWAY || content->status == TDG_ENOMEM) {
        failed(item, content);
        return false;
    }
    recovered(item);
    note(item, content, checksum, item->was_touched, false);
    if (content->status == 0 && item->watched && content->len <= KEEP_EACH)
        keep(item, content, *ret_metadata);
    else
        forget_kept(item);
    return true;
}

/* The last fetch of a source that closes, or its kind, has come to an end. */
static void check_closed(tdg__source_t *source);

void tdg__fetch_done(tdg__fetch_t *fetch, const tdg__content_t *given) {
    tdg__item_t *item = fetch->item;
    tdg__source_t *source = item->source;
    tdg__content_t content = *given;
    struct reader *readers = item->readers;
    json_t *own = content.metadata, *metadata = NULL;
    char late[64];

    tdg__heap_disarm(&source->items->timers, &item->timer);
    tdg__variables_destroy(item->variables);
    item->variables = NULL;
    item->readers = NULL;
    item->state = IDLE;
    item->busy = true;
    source->items->fetching--;
    if (content.status != 0 && content.error == NULL)
        content.error = tdg_strerror(content.status);
    if (fetch->cancelled && content.status != 0) {
        snprintf(late, sizeof(late), "no answer within %" PRId64 " ms",
                 source->entry.timeout_ms);
        content.status = TDG_EAWAY;
        content.error = source->closing ? "the source is being closed" : late;
    }

    bool settled = settle(item, &content, &metadata);

    if (item->first_fetch) {
        item->first_fetch = false;
        check_armed(item, 0);
    }
    content.metadata = metadata;
    content.mime_type = mime_of(source, &content);
    if (settled || !answer_stale(item, readers, content.error))
        answer(readers, &content);
    json_decref(metadata);
    json_decref(own);

    item->busy = false;
    if (item->again || item->next_readers != NULL)
        look(item);
    else
        release(item);
    set_timer(source->items);
    pump(source);
    check_closed(source);
}

void tdg__fetch_failed(tdg__fetch_t *fetch, int status, const char *format, ...) {
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tdg__fetch_done(fetch, &(tdg__content_t){.status = status, .error = text});
}

const char *tdg__fetch_variable(const tdg__fetch_t *fetch, const char *name) {
    return fetch->item->variables != NULL
               ? tdg__variables_get(fetch->item->variables, name)
               : NULL;
}

/* ---- Watching ----------------------------------------------------------- */

static bool is_template(const tdg__source_t *source, const char *target) {
    return source->template_ != NULL && strcmp(target, source->entry.uri) == 0;
}

static int watch_uri(tdg__source_t *source, const char *uri, const char *checksum) {
    tdg__item_t *item = find_or_create(source, uri);
    if (item == NULL)
        return TDG_ENOMEM;

    int rv = source->kind->watch != NULL ? source->kind->watch(source, uri) : 0;
    if (rv < 0 && rv != TDG_EAGAIN) {
        release(item);
        return rv;
    }
    item->watched = true;
    recall(item);
    if (checksum != NULL && item->known == UNKNOWN && strlen(checksum) == TDG__CHECKSUM) {
        item->known = PRESENT;
        strcpy(item->checksum, checksum);
    }
    if (is_pushed(source) && rv == 0)
        return 0;
    item->kind_arming = rv == TDG_EAGAIN;
    if (!is_pushed(source)) {
        item->first_fetch = true;
        look(item);
    }
    return TDG_EAGAIN;
}

int tdg__source_watch(tdg__source_t *source, const char *target, const char *checksum) {
    bool template_ = is_template(source, target);

    if (source->closing)
        return TDG_EENDED;
    if (!template_ && strncmp(target, "list:", 5) != 0)
        return watch_uri(source, target, checksum);

    int rv = source->kind->watch != NULL ? source->kind->watch(source, target) : 0;
    if (template_ && (rv == 0 || rv == TDG_EAGAIN))
        source->items->template_watched = true;
    return rv;
}

/* Nobody watches the template any more: what it had remembered goes. */
static void unwatch_template(struct tdg__items *items) {
    items->template_watched = false;
    while (items->by_use.first != 0)
        destroy(tdg__pool_get(&items->pool, items->by_use.first));
}

void tdg__source_unwatch(tdg__source_t *source, const char *target) {
    tdg__item_t *item = find(source, target);

    if (source->closing)
        return;
    if (is_template(source, target)) {
        unwatch_template(source->items);
    } else if (item != NULL && item->watched) {
        item->watched = item->kind_arming = item->first_fetch = false;
        if (item->state == IDLE)
            tdg__heap_disarm(&source->items->timers, &item->timer);
    }
    if (source->kind->unwatch != NULL)
        source->kind->unwatch(source, target);
    if (item != NULL)
        release(item);
}

void tdg__source_watched(tdg__source_t *source, const char *target, int status) {
    tdg__item_t *item = find(source, target);

    if (source->closing)
        return;
    if (item == NULL || !item->watched) { /* the template, or a list */
        if (status < 0 && is_template(source, target))
            unwatch_template(source->items);
        source->host.ops->watched(source->host.user, source, target, status);
        return;
    }
    item->kind_arming = false;
    if (status < 0) {
        item->watched = item->first_fetch = false;
        source->host.ops->watched(source->host.user, source, target, status);
        release(item);
    } else {
        check_armed(item, 0);
    }
}

const char *tdg__source_checksum(tdg__source_t *source, const char *uri) {
    const tdg__item_t *item = find(source, uri);

    return item != NULL && item->known == PRESENT ? item->checksum : NULL;
}

/* ---- Reading ------------------------------------------------------------ */

static void refuse(tdg__read_done_fn done, void *arg, int status, const char *error) {
    done(arg, &(tdg__content_t){.status = status, .error = error});
}

static void read_pushed(const tdg__item_t *item, tdg__read_done_fn done, void *arg) {
    if (item == NULL || item->kept.data == NULL) {
        refuse(done, arg, TDG_ENOTFOUND, "nothing has been published there yet");
        return;
    }
    done(arg, &(tdg__content_t){.data = item->kept.data,
                                .len = item->kept.len,
                                .mime_type = item->kept.mime_type,
                                .metadata = item->kept.metadata,
                                .updated_ms = item->kept.updated_ms});
}

void tdg__source_read(tdg__source_t *source, const char *uri, tdg__read_done_fn done,
                      void *arg) {
    if (source->closing) {
        refuse(done, arg, TDG_EAWAY, "the source is being closed");
        return;
    }
    if (is_pushed(source)) {
        read_pushed(find(source, uri), done, arg);
        return;
    }

    struct reader *reader = tdg__malloc(sizeof(*reader));
    tdg__item_t *item = reader != NULL ? find_or_create(source, uri) : NULL;

    if (item == NULL) {
        tdg__free(reader);
        refuse(done, arg, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
        return;
    }
    *reader = (struct reader){item->next_readers, done, arg};
    item->next_readers = reader;
    look(item);
}

/* ---- For the kinds ------------------------------------------------------ */

void tdg__source_touch(tdg__source_t *source, const char *uri) {
    struct tdg__items *items = source->items;
    tdg__item_t *item = find(source, uri);

    if (source->closing)
        return;
    if (item == NULL && items->template_watched && tdg__source_owns(source, uri)) {
        item = find_or_create(source, uri);
        if (item == NULL) /* rather once too often than never */
            source->host.ops->changed(source->host.user, source, uri, NULL);
    }
    if (item == NULL || !(item->watched || items->template_watched))
        return;
    item->touched = true;
    look(item);
}

void tdg__source_touch_all(tdg__source_t *source) {
    struct tdg__items *items = source->items;

    if (source->closing)
        return;
    /* Nothing is fetched meanwhile, so that no item goes while they are walked. */
    bool pumping = items->pumping;

    items->pumping = true;
    for (uint32_t id = 1; id < tdg__pool_end(&items->pool); id++) {
        tdg__item_t *item = tdg__pool_get(&items->pool, id);

        if (item != NULL && item->uri != NULL && (item->watched || item->remembered))
            look(item);
    }
    items->pumping = pumping;
    pump(source);
}

int tdg__source_put(tdg__source_t *source, const char *uri, const tdg__content_t *given,
                    bool always) {
    tdg__content_t content = *given;
    char checksum[TDG__CHECKSUM + 1] = "";
    tdg__item_t *item = NULL;
    json_t *metadata = NULL;
    int rv = TDG_ENOMEM;

    if (source->closing) {
        rv = TDG_EENDED;
    } else if (content.status == 0 && content.len > (size_t)source->entry.max_size) {
        rv = TDG_ETOOLARGE;
    } else if (content.status != 0 ||
               tdg__checksum(content.data, content.len, checksum) == 0) {
        metadata = metadata_of(&content, checksum, NULL);
        item = metadata != NULL ? find_or_create(source, uri) : NULL;
    }
    if (item != NULL)
        rv = content.status == 0 ? keep(item, &content, metadata) : 0;
    if (rv == 0) {
        if (content.status != 0)
            forget_kept(item);
        note(item, &content, checksum, true, always);
    }
    if (item != NULL)
        release(item);
    json_decref(metadata);
    json_decref(given->metadata);
    return rv;
}

void tdg__item_gone(tdg__source_t *source, const char *uri) {
    tdg__item_t *item = find(source, uri);

    if (item == NULL)
        return;
    item->known = ABSENT;
    item->checksum[0] = '\0';
    forget_kept(item);
}

/* ---- Life --------------------------------------------------------------- */

int tdg__items_create(tdg__source_t *source) {
    struct tdg__items *items = tdg__calloc(1, sizeof(*items));
    if (items == NULL)
        return TDG_ENOMEM;

    int rv = tdg__random(&items->key, sizeof(items->key));
    if (rv < 0) {
        tdg__free(items);
        return rv;
    }
    tdg__pool_init(&items->pool, sizeof(tdg__item_t));
    tdg__map_init(&items->by_uri);
    tdg__heap_init(&items->timers);
    source->items = items;
    return 0;
}

void tdg__items_open(tdg__source_t *source) {
    uv_timer_init(source->host.loop, &source->items->timer);
    source->items->timer.data = source;
}

void tdg__items_close(tdg__source_t *source, void (*done)(tdg__source_t *source)) {
    struct tdg__items *items = source->items;

    items->closed = done;
    for (uint32_t id = 1; id < tdg__pool_end(&items->pool); id++) {
        tdg__item_t *item = tdg__pool_get(&items->pool, id);

        if (item == NULL || item->uri == NULL)
            continue;

        struct reader *waiting = item->next_readers;

        item->next_readers = NULL;
        answer(waiting, &(tdg__content_t){.status = TDG_EAWAY,
                                          .error = "the source is being closed"});
        if (item->state == FETCHING && source->kind->cancel != NULL) {
            item->fetch.cancelled = true;
            source->kind->cancel(source, &item->fetch);
        }
    }
}

static void timer_closed(uv_handle_t *handle) {
    tdg__source_t *source = handle->data;

    source->items->closed(source);
}

static void check_closed(tdg__source_t *source) {
    struct tdg__items *items = source->items;

    if (!items->kind_closed || items->fetching > 0 || items->timer_closing)
        return;
    items->timer_closing = true;
    uv_close((uv_handle_t *)&items->timer, timer_closed);
}

void tdg__items_kind_closed(tdg__source_t *source) {
    source->items->kind_closed = true;
    check_closed(source);
}

void tdg__items_destroy(tdg__source_t *source) {
    struct tdg__items *items = source->items;

    if (items == NULL)
        return;
    for (uint32_t id = 1; id < tdg__pool_end(&items->pool); id++) {
        tdg__item_t *item = tdg__pool_get(&items->pool, id);

        if (item != NULL && item->uri != NULL)
            destroy(item);
    }
    tdg__heap_done(&items->timers);
    tdg__map_done(&items->by_uri);
    tdg__pool_done(&items->pool);
    tdg__free(items);
    source->items = NULL;
}
