/* SPDX-License-Identifier: MIT
 *
 * A reload moves URIs to another source. Subscribers stay, and have been notified by the
 * previous source: the first look of the new one is compared with that. The previous one
 * is not closed yet but inactive, since all of this is one turn of the loop. */
#include "source/common/item_internal.h"

#include <string.h>

/* ---- One URI ------------------------------------------------------------ */

/* What subscribers know. Where the one before could not say, they know nothing, and
 * whatever is found differs from that. */
static struct seen seen_before(const tdg__past_t *past, const char *uri) {
    const tdg__source_t *from = past->source;
    const tdg__item_t *item = from != NULL ? tdg__item_find(from, uri) : NULL;

    if (past->unknown)
        return (struct seen){.known = BROKEN};
    if (item != NULL && item->seen.known != UNKNOWN) {
        struct seen seen = item->seen;

        seen.unreported = false; /* that is for those who watch the template */
        return seen;
    }
    return (struct seen){.known = from == NULL || tdg__source_is_pushed(from) ? ABSENT
                                                                              : BROKEN};
}

/* What is pushed is known at once. Returns 0 or why subscribers could not be notified. */
static int publish_pushed(tdg__item_t *item, const struct seen *before) {
    bool here = item->kept.data != NULL;
    tdg__content_t content = tdg__kept_content(&item->kept);

    if (!here) {
        content.status = TDG_ENOTFOUND;
        item->seen = (struct seen){.known = ABSENT};
    }
    return tdg__item_publish(item, before, &content, true, false);
}

int tdg__item_follow(tdg__item_t *item, const tdg__past_t *past) {
    struct seen before = seen_before(past, item->record.name);

    if (tdg__source_is_pushed(item->source))
        return publish_pushed(item, &before);
    before.unreported = item->seen.unreported;
    item->seen = before;
    return 0;
}

/* ---- A template --------------------------------------------------------- */

static bool is_owed(const tdg__item_t *item) {
    return item->hint != NO_HINT || item->taken != NO_HINT;
}

/* Everything is looked at, unless the kind itself compares. */
static void follow(tdg__source_t *source, const tdg__item_t *from) {
    tdg__item_t *item = tdg__item_make(source, from->record.name);

    if (item == NULL) { /* rather once too often than never */
        source->host.ops->changed(source->host.user, source, from->record.name, NULL);
        return;
    }
    if (tdg__source_is_pushed(source)) {
        if (publish_pushed(item, &from->seen) < 0)
            item->seen = from->seen;
        tdg__item_release(item);
        return;
    }
    if (item->seen.known == UNKNOWN) /* else it has been looked at already */
        item->seen = from->seen;
    tdg__item_hint(item, from->hint);
    tdg__item_hint(item, from->taken);
    if (item->hint != NO_HINT || !source->inherited)
        tdg__item_look(item);
    else
        tdg__item_release(item);
}

/* It existed, and nobody has looked at it. */
static void look_at(void *arg, const char *uri) {
    tdg__source_t *source = arg;

    if (!tdg__source_owns(source, uri))
        return;
    if (!tdg__source_is_pushed(source))
        tdg__source_touch(source, uri);
    else if (tdg__item_find(source, uri) == NULL)
        source->host.ops->deleted(source->host.user, source, uri, NULL);
}

void tdg__items_follow(tdg__source_t *source, const tdg__source_t *from) {
    const tdg__item_t *item;

    for (uint32_t at = 0; (item = tdg__items_next(from, &at)) != NULL;)
        if ((item->seen.known != UNKNOWN || is_owed(item)) &&
            tdg__source_owns(source, item->record.name))
            follow(source, item);
    if (!source->inherited && from->kind->each != NULL)
        from->kind->each(from, look_at, source);
}

/* ---- For the host ------------------------------------------------------- */

bool tdg__source_succeeds(const tdg__source_t *source, const tdg__source_t *from) {
    return source->kind == from->kind && source->entry.uri != NULL &&
           from->entry.uri != NULL && strcmp(source->entry.uri, from->entry.uri) == 0;
}

void tdg__source_inherit(tdg__source_t *source, tdg__source_t *from) {
    if (tdg__source_is_pushed(source))
        tdg__items_adopt(source, from);
    if (source->kind->inherit != NULL)
        source->inherited = source->kind->inherit(source, from);
}

static bool may_exist(const tdg__item_t *item) {
    return item->seen.known == PRESENT || item->seen.known == BROKEN || is_owed(item);
}

bool tdg__source_may_have(const tdg__source_t *source, const char *uri) {
    const tdg__item_t *item = tdg__item_find(source, uri);

    return item != NULL && may_exist(item);
}

void tdg__source_each(const tdg__source_t *source,
                      void (*visit)(void *arg, const char *uri), void *arg) {
    const tdg__item_t *item;

    for (uint32_t at = 0; (item = tdg__items_next(source, &at)) != NULL;)
        if (may_exist(item))
            visit(arg, item->record.name);
    if (source->kind->each != NULL)
        source->kind->each(source, visit, arg);
}
