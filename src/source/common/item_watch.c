/* SPDX-License-Identifier: MIT */
#include "source/common/item_internal.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

/* ---- Watching ----------------------------------------------------------- */

static bool awaits_kind(enum watch watch) {
    return watch == AWAITS_BOTH || watch == AWAITS_KIND;
}

/* Where each state may lead (drawn in item.c). */
static const unsigned next_states[] = {
    [UNWATCHED] = 1u << AWAITS_BOTH | 1u << AWAITS_KIND,
    [AWAITS_BOTH] = 1u << AWAITS_KIND | 1u << AWAITS_LOOK | 1u << UNWATCHED,
    [AWAITS_KIND] = 1u << WATCHING | 1u << UNWATCHED,
    [AWAITS_LOOK] = 1u << WATCHING | 1u << UNWATCHED,
    [WATCHING] = 1u << UNWATCHED,
};

/* All changes of what is watched go through here. */
static void enter(struct tdg__items *items, enum watch *at, enum watch next) {
    assert(*at == next || (next_states[*at] & 1u << next) != 0);
    assert(next != UNWATCHED || items->watched > 0);
    if (*at == UNWATCHED && next != UNWATCHED)
        items->watched++;
    if (*at != UNWATCHED && next == UNWATCHED)
        items->watched--;
    *at = next;
}

static void enter_item(tdg__item_t *item, enum watch next) {
    struct tdg__items *items = item->source->items;

    if (awaits_kind(next) && !awaits_kind(item->watch))
        items->awaiting++;
    if (!awaits_kind(next) && awaits_kind(item->watch))
        items->awaiting--;
    enter(items, &item->watch, next);
}

static int ask_kind(tdg__source_t *source, const tdg_target_t *target) {
    return source->kind->watch != NULL ? source->kind->watch(source, target) : 0;
}

static void stop_watching(tdg__item_t *item) {
    enter_item(item, UNWATCHED);
    if (item->source->kind->unwatch != NULL)
        item->source->kind->unwatch(item->source, TDG__URI_TARGET(item->record.name));
    tdg__item_release(item);
}

static int watch_uri(tdg__source_t *source, const tdg_target_t *target,
                     const tdg__past_t *past) {
    bool is_pushed = tdg__source_is_pushed(source);
    tdg__item_t *item = tdg__item_make(source, target->name);
    if (item == NULL)
        return TDG_ENOMEM;

    assert(!tdg__item_is_watched(item));
    tdg__item_recall(item);
    enter_item(item, is_pushed ? AWAITS_KIND : AWAITS_BOTH);

    int rv = ask_kind(source, target);
    if (rv < 0 && rv != TDG_EAGAIN) {
        enter_item(item, UNWATCHED);
        tdg__item_release(item);
        return rv;
    }
    if (rv == 0)
        enter_item(item, is_pushed ? WATCHING : AWAITS_LOOK);
    if (past != NULL && tdg__item_follow(item, past) < 0) {
        stop_watching(item);
        return TDG_ENOMEM;
    }
    if (!is_pushed)
        tdg__item_look(item);
    return is_pushed ? rv : TDG_EAGAIN;
}

/* The template or the list. */
static int watch_other(tdg__source_t *source, const tdg_target_t *target,
                       enum watch *at) {
    assert(*at == UNWATCHED);
    enter(source->items, at, AWAITS_KIND);

    int rv = ask_kind(source, target);
    if (rv != TDG_EAGAIN)
        enter(source->items, at, rv < 0 ? UNWATCHED : WATCHING);
    return rv;
}

static int watch_template(tdg__source_t *source, const tdg_target_t *target,
                          const tdg__past_t *past) {
    source->compares = past != NULL;

    int rv = watch_other(source, target, &source->items->template_);
    if ((rv == 0 || rv == TDG_EAGAIN) && past != NULL && past->source != NULL)
        tdg__items_follow(source, past->source);
    return rv;
}

/* A source has resources, and neither tools nor prompts. */
static bool is_our_list(const tdg_target_t *target) {
    return strcmp(target->name, "resources") == 0;
}

int tdg__source_watch(tdg__source_t *source, const tdg_target_t *target,
                      const tdg__past_t *past) {
    if (source->closing)
        return TDG_EENDED;
    if (target->kind == TDG_TARGET_URI)
        return watch_uri(source, target, past);
    if (target->kind == TDG_TARGET_TEMPLATE)
        return watch_template(source, target, past);
    return is_our_list(target) ? watch_other(source, target, &source->items->list) : 0;
}

/* The template is not watched any more: forgets what was remembered for it. */
static void forget_remembered(tdg__source_t *source) {
    struct tdg__items *items = source->items;

    source->compares = false;
    while (items->by_use.first != 0) {
        tdg__item_t *item = tdg__pool_get(&items->all.pool, items->by_use.first);

        tdg__item_recall(item);
        tdg__item_release(item);
    }
}

/* The record of a target that is no URI; NULL: it is nothing of ours. */
static enum watch *other_of(tdg__source_t *source, const tdg_target_t *target) {
    return target->kind == TDG_TARGET_TEMPLATE ? &source->items->template_
           : is_our_list(target)               ? &source->items->list
                                               : NULL;
}

static void unwatch_other(tdg__source_t *source, const tdg_target_t *target) {
    enum watch *at = other_of(source, target);

    if (at == NULL || *at == UNWATCHED)
        return;
    enter(source->items, at, UNWATCHED);
    if (target->kind == TDG_TARGET_TEMPLATE)
        forget_remembered(source);
    if (source->kind->unwatch != NULL)
        source->kind->unwatch(source, target);
}

void tdg__source_unwatch(tdg__source_t *source, const tdg_target_t *target) {
    tdg__item_t *item;

    if (source->closing)
        return;
    if (target->kind != TDG_TARGET_URI) {
        unwatch_other(source, target);
        return;
    }
    item = tdg__item_find(source, target->name);
    if (item == NULL || !tdg__item_is_watched(item))
        return;
    if (item->look == IDLE)
        tdg__records_disarm(&source->items->all, &item->record);
    stop_watching(item);
}

bool tdg__source_is_watched(const tdg__source_t *source) {
    return source->items->watched > 0;
}

bool tdg__source_template_is_watched(const tdg__source_t *source) {
    return source->items->template_ != UNWATCHED;
}

bool tdg__source_awaits_template(const tdg__source_t *source) {
    return source->items->template_ == AWAITS_KIND;
}

/* ---- Watching is complete ----------------------------------------------- */

static void report(tdg__source_t *source, const tdg_target_t *target, int status) {
    source->host.ops->watched(source->host.user, source, target, status);
}

/* What is pushed or awaited may be subscribed to before it is there. What cannot be
 * reached is not known to be absent. */
static int existence_of(const tdg__item_t *item) {
    if (tdg__source_is_pushed(item->source) || item->source->awaited)
        return 0;
    return item->seen.known == ABSENT ? TDG_WATCH_ABSENT : TDG_WATCH_EXISTS;
}

static void complete(tdg__item_t *item) {
    enter_item(item, WATCHING);
    report(item->source, TDG__URI_TARGET(item->record.name), existence_of(item));
}

void tdg__item_was_looked_at(tdg__item_t *item) {
    if (item->watch == AWAITS_BOTH)
        enter_item(item, AWAITS_KIND);
    else if (item->watch == AWAITS_LOOK)
        complete(item);
}

static void kind_is_ready(tdg__item_t *item) {
    if (item->watch == AWAITS_BOTH)
        enter_item(item, AWAITS_LOOK);
    else if (item->watch == AWAITS_KIND)
        complete(item);
}

static void refuse_item(tdg__item_t *item, int status) {
    enter_item(item, UNWATCHED);
    report(item->source, TDG__URI_TARGET(item->record.name), status);
    tdg__item_release(item);
}

static void other_watched(tdg__source_t *source, const tdg_target_t *target, int status) {
    enum watch *at = other_of(source, target);

    if (at == NULL || *at != AWAITS_KIND)
        return;
    enter(source->items, at, status < 0 ? UNWATCHED : WATCHING);
    if (status < 0 && target->kind == TDG_TARGET_TEMPLATE)
        forget_remembered(source);
    report(source, target, status);
}

void tdg__source_watched(tdg__source_t *source, const tdg_target_t *target, int status) {
    tdg__item_t *item;

    if (source->closing)
        return;
    if (target->kind != TDG_TARGET_URI) {
        other_watched(source, target, status);
        return;
    }
    item = tdg__item_find(source, target->name);
    if (item == NULL || !awaits_kind(item->watch))
        return;
    if (status < 0)
        refuse_item(item, status);
    else
        kind_is_ready(item);
}

void tdg__source_uris_armed(tdg__source_t *source) {
    tdg__item_t *item;

    for (uint32_t at = 0; source->items->awaiting > 0 && !source->closing &&
                          (item = tdg__items_next(source, &at)) != NULL;)
        kind_is_ready(item);
}

void tdg__source_armed(tdg__source_t *source) {
    tdg__source_uris_armed(source);
    if (source->template_ != NULL)
        tdg__source_watched(source,
                            &(tdg_target_t){TDG_TARGET_TEMPLATE, source->entry.uri}, 0);
    tdg__source_watched(source, &(tdg_target_t){TDG_TARGET_LIST, "resources"}, 0);
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
    tdg__content_t content;

    if (item == NULL || item->kept.data == NULL) {
        refuse(done, arg, TDG_ENOTFOUND, "nothing has been published there yet");
        return;
    }
    content = tdg__kept_content(&item->kept);
    done(arg, &content);
}

void tdg__source_read(tdg__source_t *source, const char *uri, uint64_t client,
                      tdg__read_done_fn done, tdg__read_has_left_fn has_left, void *arg) {
    if (source->closing) {
        refuse(done, arg, TDG_EUNREACHABLE, "the source is being closed");
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

void tdg__item_hint(tdg__item_t *item, enum hint hint) {
    if (hint > item->hint)
        item->hint = hint;
}

static void touch(tdg__source_t *source, const char *uri, enum hint hint) {
    struct tdg__items *items = source->items;
    tdg__item_t *item = tdg__item_find(source, uri);

    if (source->closing)
        return;
    if (item == NULL && items->template_ != UNWATCHED && tdg__source_owns(source, uri)) {
        item = items->queued < QUEUED_MAX ? tdg__item_make(source, uri) : NULL;
        if (item == NULL) /* rather once too often than never */
            source->host.ops->changed(source->host.user, source, uri, NULL);
    }
    if (item == NULL || (!tdg__item_is_watched(item) && items->template_ == UNWATCHED))
        return;
    tdg__item_hint(item, hint);
    tdg__item_look(item);
}

void tdg__source_touch(tdg__source_t *source, const char *uri) {
    touch(source, uri, TOUCHED);
}

void tdg__source_came(tdg__source_t *source, const char *uri) {
    touch(source, uri, CAME);
}

void tdg__source_touch_all(tdg__source_t *source) {
    struct tdg__items *items = source->items;
    tdg__item_t *item;

    if (source->closing)
        return;
    /* Nothing is fetched meanwhile, so that no item goes while they are walked. */
    bool pumping = items->pumping;

    items->pumping = true;
    for (uint32_t at = 0; (item = tdg__items_next(source, &at)) != NULL;)
        /* What a template has is not remembered while it is fetched, and that fetch may
         * have begun too early; nor while it waits for its turn, which a reader that
         * leaves may have asked for. */
        if (tdg__item_is_watched(item) || item->remembered ||
            (items->template_ != UNWATCHED && item->look != IDLE))
            tdg__item_look(item);
    items->pumping = pumping;
    tdg__items_pump(source);
}

bool tdg__item_is_known_gone(const tdg__source_t *source, const char *uri) {
    const tdg__item_t *item = tdg__item_find(source, uri);

    return item != NULL && item->seen.known == ABSENT && !item->seen.unreported &&
           (tdg__item_is_watched(item) || source->items->template_ != UNWATCHED);
}

void tdg__item_gone(tdg__source_t *source, const char *uri) {
    tdg__item_t *item = tdg__item_find(source, uri);

    if (item == NULL)
        return;
    item->seen = (struct seen){.known = ABSENT};
    tdg__item_forget_kept(item);
    if (!item->remembered)
        tdg__item_release(item);
}
