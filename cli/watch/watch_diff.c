/* SPDX-License-Identifier: MIT
 *
 * The previous content for --diff: the text of every resource, within a limit. */
#include "watch/watch.h"

#include <string.h>

#include "watch/diff.h"

enum { MAX_TEXT = 4 << 20, MAX_BASE = 128 << 20, MAX_URIS = 100000 };

static size_t cost_of(const json_t *base) {
    return json_is_string(base) ? json_string_length(base) : 0;
}

void watch_forget_base(watch_t *watch, const char *uri) {
    watch->base_bytes -= cost_of(json_object_get(watch->base, uri));
    json_object_del(watch->base, uri);
}

static void set_base(watch_t *watch, const char *uri, json_t *base) {
    watch->base_bytes -= cost_of(json_object_get(watch->base, uri));
    if (watch->base_bytes + cost_of(base) > MAX_BASE) {
        json_decref(base);
        base = json_true();
    }
    bool known = json_object_get(watch->base, uri) != NULL;
    if (base == NULL || (!known && json_object_size(watch->base) >= MAX_URIS) ||
        json_object_set(watch->base, uri, base) < 0)
        json_object_del(watch->base, uri);
    else
        watch->base_bytes += cost_of(base);
    json_decref(base);
}

/* The content as it is kept: new. */
static json_t *base_of(const body_t *content) {
    return content->is_text && content->len <= MAX_TEXT
               ? json_stringn(content->data, content->len)
               : json_true();
}

void watch_set_base(watch_t *watch, const char *uri, const json_t *contents) {
    body_t content;

    if (contents == NULL) {
        set_base(watch, uri, json_null());
        return;
    }
    if (body_init(&content, contents) == 0)
        set_base(watch, uri, base_of(&content));
    body_done(&content);
}

static bool is_new(const watch_item_t *item, const json_t *base) {
    const char *type =
        json_string_value(json_object_get(item->event->metadata, "change_type"));

    return item->kind == WATCH_LISTED || json_is_null(base) ||
           (base == NULL && type != NULL && strcmp(type, "created") == 0);
}

static watch_diff_t compare_texts(const watch_item_t *item, const json_t *base,
                                  const json_t *now, tdg__text_t *ret) {
    diff_side_t before = {"/dev/null", "", 0}, after = {"/dev/null", "", 0};
    size_t len = ret->len;

    if (json_is_string(base))
        before = (diff_side_t){item->event->uri, json_string_value(base),
                               json_string_length(base)};
    if (json_is_string(now))
        after = (diff_side_t){item->event->uri, json_string_value(now),
                              json_string_length(now)};
    if (diff_unified(&before, &after, ret) < 0)
        return WATCH_DIFF_LARGE;
    return ret->len > len ? WATCH_DIFF_TEXT : WATCH_DIFF_SAME;
}

watch_diff_t watch_compare(watch_t *watch, const watch_item_t *item, tdg__text_t *ret) {
    bool gone = item->kind == WATCH_DELETED || item->kind == WATCH_UNLISTED;
    json_t *base, *now;
    watch_diff_t result;
    body_t content;

    if (item->kind > WATCH_UNLISTED || (!gone && item->event->contents == NULL))
        return WATCH_DIFF_NONE;
    if (body_init(&content, item->event->contents) < 0)
        return WATCH_DIFF_NONE;
    base = json_incref(json_object_get(watch->base, item->event->uri));
    now = gone ? json_null() : base_of(&content);

    if (!gone && !content.is_text)
        result = WATCH_DIFF_BINARY;
    else if (json_is_true(now) || now == NULL)
        result = WATCH_DIFF_LARGE;
    else if (json_is_true(base) || (base == NULL && !is_new(item, base)))
        result = gone ? WATCH_DIFF_NONE : WATCH_DIFF_UNKNOWN;
    else
        result = compare_texts(item, base, now, ret);

    set_base(watch, item->event->uri, now);
    json_decref(base);
    body_done(&content);
    return result;
}
