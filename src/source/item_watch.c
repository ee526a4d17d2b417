/* SPDX-License-Identifier: MIT */
#include "source/item_internal.h"

#include <string.h>

#include "base/alloc.h"

/* ---- Watching ----------------------------------------------------------- */

static void stop_watching(tdg__item_t *item) {
    item->watched = item->kind_arming = item->first_fetch = false;
    if (item->source->kind->unwatch != NULL)
        item->source->kind->unwatch(item->source, TDG__URI_TARGET(item->uri));
    tdg__item_release(item);
}

static int watch_uri(tdg__source_t *source, const tdg_target_t *target,
                     const tdg__past_t *past) {
    tdg__item_t *item = tdg__item_make(source, target->name);
    if (item == NULL)
        return TDG_ENOMEM;

    int rv = source->kind->watch != NULL ? source->kind->watch(source, target) : 0;
    if (rv < 0 && rv != TDG_EAGAIN) {
        tdg__item_release(item);
        return rv;
    }
    item->watched = true;
    item->kind_arming = rv == TDG_EAGAIN;
    tdg__item_recall(item);
    if (past != NULL && tdg__item_follow(item, past) < 0) {
        stop_watching(item);
        return TDG_ENOMEM;
    }
    if (!tdg__source_is_pushed(source)) {
        item->first_fetch = true;
        tdg__item_look(item);
    }
    return tdg__source_is_pushed(source) ? rv : TDG_EAGAIN;
}

static int watch_template(tdg__source_t *source, const tdg_target_t *target,
                          const tdg__past_t *past) {
    source->compares = past != NULL;

    int rv = source->kind->watch != NULL ? source->kind->watch(source, target) : 0;
    if (rv != 0 && rv != TDG_EAGAIN)
        return rv;
    source->items->template_watched = true;
    if (past != NULL && past->source != NULL)
        tdg__items_follow(source, past->source);
    return rv;
}

int tdg__source_watch(tdg__source_t *source, const tdg_target_t *target,
                      const tdg__past_t *past) {
    if (source->closing)
        return TDG_EENDED;
    if (target->kind == TDG_TARGET_URI)
        return watch_uri(source, target, past);
    if (target->kind == TDG_TARGET_TEMPLATE)
        return watch_template(source, target, past);
    return source->kind->watch != NULL ? source->kind->watch(source, target) : 0;
}

/* Nobody watches the template any more: what it had remembered goes. */
static void unwatch_template(tdg__source_t *source) {
    struct tdg__items *items = source->items;

    source->compares = items->template_watched = false;
    while (items->by_use.first != 0) {
        tdg__item_t *item = tdg__pool_get(&items->pool, items->by_use.first);

        tdg__item_recall(item);
        tdg__item_release(item);
    }
}

static tdg__item_t *item_of(tdg__source_t *source, const tdg_target_t *target) {
    return target->kind == TDG_TARGET_URI ? tdg__item_find(source, target->name) : NULL;
}

void tdg__source_unwatch(tdg__source_t *source, const tdg_target_t *target) {
    tdg__item_t *item = item_of(source, target);

    if (source->closing)
        return;
    if (target->kind == TDG_TARGET_TEMPLATE) {
        unwatch_template(source);
    } else if (item != NULL && item->watched) {
        item->watched = item->kind_arming = item->first_fetch = false;
        if (item->state == IDLE)
            tdg__heap_disarm(&source->items->timers, &item->timer);
    }
    if (source->kind->unwatch != NULL)
        source->kind->unwatch(source, target);
    if (item != NULL)
        tdg__item_release(item);
}

void tdg__source_watched(tdg__source_t *source, const tdg_target_t *target, int status) {
    tdg__item_t *item = item_of(source, target);

    if (source->closing)
        return;
    if (item == NULL || !item->watched) { /* the template, or a list */
        if (status < 0 && target->kind == TDG_TARGET_TEMPLATE)
            unwatch_template(source);
        source->host.ops->watched(source->host.user, source, target, status);
        return;
    }
    item->kind_arming = false;
    if (status < 0) {
        item->watched = item->first_fetch = false;
        source->host.ops->watched(source->host.user, source, target, status);
        tdg__item_release(item);
    } else {
        tdg__item_check_armed(item);
    }
}

const char *tdg__source_checksum(tdg__source_t *source, const char *uri) {
    const tdg__item_t *item = tdg__item_find(source, uri);

    return item != NULL && item->seen.known == PRESENT ? item->seen.checksum : NULL;
}

/* ---- Reading ------------------------------------------------------------ */

static void refuse(tdg__read_done_fn done, void *arg, int status, const char *error) {
    done(arg, &(tdg__content_t){.status = status, .error = error, .public = error});
}

static void read_pushed(const tdg__item_t *item, tdg__read_done_fn done, void *arg) {
    if (item == NULL || item->kept.data == NULL) {
        refuse(done, arg, TDG_ENOTFOUND, "nothing has been published there yet");
        return;
    }
    done(arg, &(tdg__content_t){.bytes = item->kept.bytes,
                                .data = item->kept.data,
                                .len = item->kept.len,
                                .mime_type = item->kept.mime_type,
                                .metadata = item->kept.metadata,
                                .updated_ms = item->kept.updated_ms});
}

void tdg__source_read(tdg__source_t *source, const char *uri, uint64_t client,
                      tdg__read_done_fn done, tdg__read_has_left_fn has_left, void *arg) {
    if (source->closing) {
        refuse(done, arg, TDG_EAWAY, "the source is being closed");
        return;
    }
    if (tdg__source_is_pushed(source)) {
        read_pushed(tdg__item_find(source, uri), done, arg);
        return;
    }

    struct reader *reader = tdg__malloc(sizeof(*reader));
    tdg__item_t *item = reader != NULL ? tdg__item_make(source, uri) : NULL;

    if (item == NULL) {
        tdg__free(reader);
        refuse(done, arg, TDG_ENOMEM, tdg_strerror(TDG_ENOMEM));
        return;
    }
    *reader = (struct reader){item->next_readers, done, has_left, arg};
    item->next_readers = reader;
    tdg__item_look_for(item, client);
}

/* ---- For the kinds ------------------------------------------------------ */

static void touch(tdg__source_t *source, const char *uri, bool came) {
    struct tdg__items *items = source->items;
    tdg__item_t *item = tdg__item_find(source, uri);

    if (source->closing)
        return;
    if (item == NULL && items->template_watched && tdg__source_owns(source, uri)) {
        item = items->queued < QUEUED_MAX ? tdg__item_make(source, uri) : NULL;
        if (item == NULL) /* rather once too often than never */
            source->host.ops->changed(source->host.user, source, uri, NULL);
    }
    if (item == NULL || !(item->watched || items->template_watched))
        return;
    item->touched = true;
    item->came = item->came || came;
    tdg__item_look(item);
}

void tdg__source_touch(tdg__source_t *source, const char *uri) {
    touch(source, uri, false);
}

void tdg__source_came(tdg__source_t *source, const char *uri) {
    touch(source, uri, true);
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

        if (item == NULL || item->uri == NULL)
            continue;
        /* What a template has is not remembered while it is fetched, and that fetch may
         * have begun too early; nor while it waits for its turn, which a reader that
         * leaves may have asked for. */
        if (item->watched || item->remembered ||
            (items->template_watched && item->state != IDLE))
            tdg__item_look(item);
    }
    items->pumping = pumping;
    tdg__items_pump(source);
}

bool tdg__item_gone(tdg__source_t *source, const char *uri) {
    tdg__item_t *item = tdg__item_find(source, uri);

    if (item == NULL)
        return false;

    /* A look that found nothing there may have come first. */
    bool told = item->seen.known == ABSENT && !item->only_read &&
                (item->watched || source->items->template_watched);

    item->seen = (struct seen){.known = ABSENT};
    item->only_read = false; /* who is not told now is told by the caller */
    tdg__item_forget_kept(item);
    if (!item->remembered)
        tdg__item_release(item);
    return told;
}
