/* SPDX-License-Identifier: MIT */
#include "source/common/item_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { LOG_AGAIN_MS = 60 * 1000 };

static void arm(tdg__item_t *item, int64_t wait_ms) {
    tdg__records_arm(&item->source->items->all, &item->record, wait_ms);
}

/* ---- Fetching ----------------------------------------------------------- */

static void start(tdg__item_t *item) {
    tdg__source_t *source = item->source;

    assert(item->look == QUEUED && item->taken == NO_HINT && item->readers == NULL);
    item->look = FETCHING;
    source->items->fetching++;
    tdg__source_hold(source);
    item->readers = item->next_readers;
    item->next_readers = NULL;
    item->taken = item->hint;
    item->hint = NO_HINT;
    item->is_due = false;
    item->fetch =
        (tdg__fetch_t){.source = source, .uri = item->record.name, .item = item};
    arm(item, source->entry.timeout_ms);

    int rv = tdg__variables_create(source->template_, item->record.name,
                                   strlen(item->record.name), &item->variables);
    if (rv < 0)
        tdg__fetch_failed(&item->fetch, rv, "%s", tdg_strerror(rv));
    else
        source->kind->fetch(source, &item->fetch);
}

/* A watched template wants a look that is due, or one in the place of a retry. */
static bool is_wanted(const tdg__item_t *item) {
    return tdg__item_is_watched(item) || item->next_readers != NULL ||
           (item->source->items->template_ != UNWATCHED &&
            (item->is_due || item->hint != NO_HINT || item->tries > 0));
}

/* Takes the readers that have left out of those that wait. */
static struct reader *take_left(tdg__item_t *item) {
    struct reader *left = NULL, **at = &item->next_readers;

    while (*at != NULL) {
        struct reader *reader = *at;

        if (reader->has_left == NULL || !reader->has_left(reader->arg)) {
            at = &reader->next;
            continue;
        }
        *at = reader->next;
        reader->next = left;
        left = reader;
    }
    return left;
}

/* It is the turn of an item. What is not wanted any more is not fetched. */
static void start_if_wanted(tdg__item_t *item) {
    static const char why[] = "the client has disconnected";
    struct reader *left = take_left(item);

    if (is_wanted(item)) {
        start(item);
    } else {
        item->look = IDLE;
        item->is_due = false;
        tdg__item_release(item);
    }
    /* Last: whatever an answer leads to, the item is in a state of its own by now. */
    tdg__readers_answer(
        left, &(tdg__content_t){.status = TDG_EENDED, .error = why, .public = why});
}

static bool has_room(const tdg__source_t *source) {
    unsigned most = source->max_fetches;

    return source->items->fetching < (most != 0 && most < PARALLEL ? most : PARALLEL);
}

/* A fetch may end inside its start, so this is a loop and never nests. */
void tdg__items_pump(tdg__source_t *source) {
    struct tdg__items *items = source->items;

    if (items->pumping)
        return;
    items->pumping = true;
    while (items->queued > 0 && has_room(source) && !source->closing) {
        tdg__item_t *item =
            TDG__RECORD(tdg__item_t, turn, tdg__turns_take(&items->turns));

        assert(item->look == QUEUED);
        items->queued--;
        start_if_wanted(item);
    }
    items->pumping = false;
}

void tdg__item_look(tdg__item_t *item) {
    item->is_due = true;
    tdg__item_look_for(item, TDG__NO_CLIENT);
}

void tdg__item_look_for(tdg__item_t *item, uint64_t client) {
    struct tdg__items *items = item->source->items;

    if (tdg__item_is_fetched(item))
        return; /* its end goes on with those who have asked meanwhile */
    if (item->look == QUEUED) {
        tdg__turns_also(&items->turns, &item->turn, client);
        return;
    }
    tdg__item_recall(item);
    tdg__records_disarm(&items->all, &item->record);
    item->look = QUEUED;
    tdg__turns_put(&items->turns, &item->turn, client);
    items->queued++;
    tdg__items_pump(item->source);
}

void tdg__item_cancel(tdg__item_t *item) {
    tdg__source_t *source = item->source;

    if (item->look != FETCHING || source->kind->cancel == NULL)
        return;
    item->fetch.cancelled = true;
    source->kind->cancel(source, &item->fetch);
}

void tdg__item_due(tdg__record_t *record, void *source) {
    tdg__item_t *item = (tdg__item_t *)record;

    (void)source;
    assert(item->look == IDLE || item->look == FETCHING);
    if (item->look == IDLE)
        tdg__item_look(item);
    else
        tdg__item_cancel(item);
}

/* ---- What was found ----------------------------------------------------- */

const char *tdg__item_mime(const tdg__source_t *source, const tdg__content_t *content) {
    return content->mime_type != NULL ? content->mime_type : source->entry.mime_type;
}

json_t *tdg__item_metadata(const tdg__content_t *content, const char *checksum,
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
        json_object_set_new(metadata, "error",
                            json_string(tdg__content_public(content))) < 0)
        goto fail;
    if (change_type != NULL && json_object_get(metadata, "change_type") == NULL &&
        json_object_set_new(metadata, "change_type", json_string(change_type)) < 0)
        goto fail;
    return metadata;

fail:
    json_decref(metadata);
    return NULL;
}

void tdg__readers_answer(struct reader *readers, const tdg__content_t *content) {
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

    if (kept->data == NULL || source->closing) /* another source may know better */
        return false;

    tdg__content_t content = tdg__kept_content(kept);

    content.metadata = json_copy(kept->metadata);
    if (content.metadata == NULL ||
        json_object_set_new(content.metadata, "stale", json_true()) < 0 ||
        json_object_set_new(content.metadata, "stale_since", json_integer(since)) < 0 ||
        json_object_set_new(content.metadata, "stale_reason", json_string(why)) < 0) {
        json_decref(content.metadata);
        return false;
    }
    tdg__readers_answer(readers, &content);
    json_decref(content.metadata);
    return true;
}

static int notify_host(tdg__item_t *item, const tdg__content_t *content,
                       const char *checksum, const char *change_type) {
    tdg__source_t *source = item->source;
    json_t *metadata = tdg__item_metadata(content, checksum, change_type);

    if (content->status == TDG_ENOTFOUND)
        return source->host.ops->deleted(source->host.user, source, item->record.name,
                                         metadata);
    return source->host.ops->changed(source->host.user, source, item->record.name,
                                     metadata);
}

static bool has_come(const tdg__item_t *item) {
    return item->hint == CAME || item->taken == CAME;
}

static bool awaits_look(const tdg__item_t *item) {
    return item->watch == AWAITS_BOTH || item->watch == AWAITS_LOOK;
}

int tdg__item_publish(tdg__item_t *item, const struct seen *before,
                      const tdg__content_t *content, bool touched, bool always) {
    const tdg__source_t *source = item->source;
    const struct seen *now = &item->seen;
    bool same =
        before->known == now->known && strcmp(before->checksum, now->checksum) == 0;
    bool template_watched = source->items->template_ != UNWATCHED;
    bool observed =
        tdg__item_is_watched(item) || template_watched || tdg__source_is_pushed(source);
    /* A read may come before the touch for the same change. */
    bool owed = touched && item->seen.unreported;

    if (!observed || (same && !always && !owed))
        return 0;
    /* A new subscriber reads it after that;
     * those of the template are owed it where it was touched. */
    if (before->known == UNKNOWN && awaits_look(item) && !(touched && template_watched)) {
        item->seen.unreported = template_watched;
        return 0;
    }
    if (before->known == UNKNOWN && !touched && !tdg__item_is_watched(item)) {
        item->seen.unreported = true; /* through the template: nothing to compare with */
        return 0;
    }

    /* Where content is pushed, what was never seen was not there. */
    bool was_absent = before->known == ABSENT ||
                      (before->known == UNKNOWN && tdg__source_is_pushed(source)) ||
                      ((before->known == UNKNOWN || owed) && has_come(item));

    int rv = notify_host(item, content, now->checksum,
                         now->known == ABSENT                  ? "deleted"
                         : was_absent && now->known == PRESENT ? "created"
                                                               : "content_update");
    if (rv == 0) { /* else it is owed as before */
        item->seen.unreported = false;
        if (item->hint == CAME) /* that is published; what it holds by now is not */
            item->hint = TOUCHED;
    }
    return rv;
}

static enum known known_by(const tdg__content_t *content) {
    return content->status == 0               ? PRESENT
           : content->status == TDG_ENOTFOUND ? ABSENT
                                              : BROKEN;
}

/* Which of many it is, "a:1: "; where the source is one resource its label says it. */
static const char *name_in_log(const tdg__item_t *item, char *name, size_t room) {
    if (item->source->template_ == NULL)
        return "";
    snprintf(name, room, "%s: ", item->record.name);
    return name;
}

/* Details of an error that clients do not get; the same error again after a while. */
static void log_inside(tdg__item_t *item, const tdg__content_t *content) {
    tdg__source_t *source = item->source;
    uint64_t now = uv_now(source->host.loop);
    uint32_t hash;
    char name[256];

    if (content->status == 0 || content->status == TDG_ENOTFOUND ||
        content->public == content->error)
        return;
    hash = (uint32_t)tdg__hash(&source->items->all.key, content->error,
                               strlen(content->error));
    if (source->detail_ms != 0 && hash == source->detail_hash &&
        now - source->detail_ms < LOG_AGAIN_MS)
        return;
    source->detail_ms = now;
    source->detail_hash = hash;
    tdg__source_log(source, TDG_LOG_WARNING, "%scannot be read: %s",
                    name_in_log(item, name, sizeof(name)), content->error);
}

/* What the fetch has taken is still owed. */
static void return_hint(tdg__item_t *item) {
    tdg__item_hint(item, item->taken);
}

/* The fetch failed. It is retried as long as it is watched; where the whole backend is
 * unreachable, the reconnect touches it instead. */
static void failed(tdg__item_t *item, const tdg__content_t *content) {
    char name[256];
    tdg__source_t *source = item->source;
    /* Subscribers of the template are owed what differs from what was seen. */
    bool wanted = tdg__item_is_watched(item) ||
                  (source->items->template_ != UNWATCHED &&
                   (item->taken != NO_HINT || item->seen.known != UNKNOWN));

    return_hint(item);
    if (item->stale_since_ms == 0)
        item->stale_since_ms = tdg__wall_ms();
    if (!wanted && !source->away && !source->closing)
        log_inside(item, content);
    if (wanted && !source->away && !source->closing) {
        int64_t wait = tdg__source_wait_ms(source, item->tries);

        if (item->tries++ == 0)
            tdg__source_log(source, TDG_LOG_WARNING,
                            "%s%s; retrying in %" PRId64 " ms, then with growing waits",
                            name_in_log(item, name, sizeof(name)), content->error, wait);
        arm(item, wait);
    }
}

static void recovered(tdg__item_t *item) {
    char name[256];

    if (item->tries > 0)
        tdg__source_log(item->source, TDG_LOG_NOTICE,
                        "%sreachable again after %u attempts",
                        name_in_log(item, name, sizeof(name)), item->tries);
    item->tries = 0;
    item->stale_since_ms = 0;
}

/* As if it had not been seen: the next look finds it different once more. The backend is
 * reachable, so this is none of the tries that are logged. */
static void publish_later(tdg__item_t *item, const struct seen *before) {
    item->seen = *before;
    return_hint(item);
    tdg__item_hint(item, TOUCHED);
    arm(item, tdg__source_wait_ms(item->source, 0));
}

static int find_checksum(const tdg__content_t *content, char *ret) {
    if (content->checksum == NULL)
        return tdg__checksum(content->data, content->len, ret);
    strcpy(ret, content->checksum);
    return 0;
}

/* What a fetch found: returns true where `content` could be had or is known not to be.
 * *ret_metadata is complete then, where it is there. */
static bool settle(tdg__item_t *item, tdg__content_t *content, json_t **ret_metadata) {
    char checksum[TDG__CHECKSUM + 1] = "";

    if (content->status == 0 && content->len > (size_t)item->source->entry.max_size) {
        content->status = TDG_ETOOLARGE;
        content->public = content->error = "the content is larger than max-size";
    }
    if (content->status == 0) {
        if (find_checksum(content, checksum) == 0)
            *ret_metadata = tdg__item_metadata(content, checksum, NULL);
        if (*ret_metadata == NULL) {
            content->status = TDG_ENOMEM;
            content->public = content->error = tdg_strerror(TDG_ENOMEM);
        }
    }
    if (content->status == TDG_EUNREACHABLE || content->status == TDG_ENOMEM) {
        failed(item, content);
        return false;
    }
    item->source->has_read = item->source->has_read || content->status == 0;
    recovered(item);
    log_inside(item, content);
    /* A new subscriber is owed what differs from a half, too. */
    bool is_basis =
        awaits_look(item) && item->seen.known == UNKNOWN && content->status == 0;

    if (content->passing && !is_basis) {
        return_hint(item);
        return true;
    }

    struct seen before = item->seen;
    struct kept kept;

    item->seen.known = known_by(content);
    memcpy(item->seen.checksum, checksum, sizeof(checksum));
    tdg__item_forget_kept(item);
    if (content->status == 0 && tdg__item_may_keep(item, content->len) &&
        tdg__kept_copy(item->source, content, *ret_metadata, &kept) == 0)
        tdg__item_take_kept(item, &kept);

    int rv = tdg__item_publish(item, &before, content, item->taken != NO_HINT, false);
    if (rv < 0)
        publish_later(item, &before);
    return true;
}

void tdg__fetch_done(tdg__fetch_t *fetch, const tdg__content_t *given) {
    tdg__item_t *item = fetch->item;
    if (tdg__item_digest(item, given))
        return;

    tdg__source_t *source = item->source;
    tdg__content_t content = *given;
    struct reader *readers = item->readers;
    json_t *own = content.metadata, *metadata = NULL;
    char late[64];

    assert(item->look == FETCHING || item->look == DIGESTING);
    tdg__records_disarm(&source->items->all, &item->record);
    tdg__variables_destroy(item->variables);
    item->variables = NULL;
    item->readers = NULL;
    item->look = SETTLING;
    if (content.status != 0 && content.error == NULL)
        content.error = tdg_strerror(content.status);
    if (fetch->cancelled && content.status != 0) {
        snprintf(late, sizeof(late), "no answer within %" PRId64 " ms",
                 source->entry.timeout_ms);
        content.status = TDG_EUNREACHABLE;
        content.public = content.error =
            source->closing ? "the source is being closed" : late;
    }

    bool settled = settle(item, &content, &metadata);

    item->taken = NO_HINT;
    tdg__item_was_looked_at(item);
    content.metadata = metadata;
    content.mime_type = tdg__item_mime(source, &content);
    if (settled || !answer_stale(item, readers, tdg__content_public(&content)))
        tdg__readers_answer(readers, &content);
    json_decref(metadata);
    json_decref(own);

    assert(item->look == SETTLING && source->items->fetching > 0);
    item->look = IDLE;
    source->items->fetching--;
    if (item->is_due || item->next_readers != NULL)
        tdg__item_look_for(item, TDG__NO_CLIENT);
    else
        tdg__item_release(item);
    tdg__items_pump(source);
    tdg__source_let_go(source);
}

void *tdg__fetch_begin(tdg__fetch_t *fetch, size_t size) {
    void *state = tdg__calloc(1, size);

    if (state == NULL)
        tdg__fetch_failed(fetch, TDG_ENOMEM, "%s", tdg_strerror(TDG_ENOMEM));
    else
        fetch->state = state;
    return state;
}

void tdg__fetch_failed(tdg__fetch_t *fetch, int status, const char *format, ...) {
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tdg__fetch_done(fetch,
                    &(tdg__content_t){.status = status, .error = text, .public = text});
}

void tdg__fetch_failed_inside(tdg__fetch_t *fetch, int status, const char *public,
                              const char *format, ...) {
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tdg__fetch_done(fetch,
                    &(tdg__content_t){.status = status, .error = text, .public = public});
}

const char *tdg__content_public(const tdg__content_t *content) {
    if (content->public != NULL)
        return content->public;
    return content->status == TDG_EUNREACHABLE ? "the source is unreachable"
           : content->status == TDG_ETOOLARGE  ? "the content is larger than max-size"
           : content->status == TDG_EINVAL ? "the source does not provide this content"
                                           : tdg_strerror(content->status);
}

const char *tdg__fetch_variable(const tdg__fetch_t *fetch, const char *name) {
    return tdg__variables_get(fetch->item->variables, name);
}
