/* SPDX-License-Identifier: MIT */
#include "serve/store.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { WHY = 160 };

/* ---- To the loop of the sources ----------------------------------------- */

struct entering {
    tdg__task_t task;
    void (*work)(void *arg, bool here);
    void *arg;
};

static void run_entering(tdg__task_t *task, bool here) {
    struct entering *entering = (struct entering *)task;

    entering->work(entering->arg, here);
    tdg__free(entering);
}

static void enter(void *user, void (*work)(void *arg, bool here), void *arg) {
    struct entering *entering = tdg__malloc(sizeof(*entering));

    if (entering == NULL) {
        work(arg, false);
        return;
    }
    *entering = (struct entering){.task.run = run_entering, .work = work, .arg = arg};
    tdg__live_post(user, &entering->task);
}

/* ---- Checking ----------------------------------------------------------- */

static bool takes_content(const tdg__source_t *source) {
    return source != NULL && (source->kind->flags & TDG__SOURCE_PUBLISH) != 0;
}

static int refuse_content(const tdg__source_t *source, char why[WHY]) {
    if (source == NULL)
        snprintf(why, WHY,
                 "No entry of the config has this URI; a `memory:` entry would accept "
                 "content");
    else
        snprintf(why, WHY,
                 "This URI belongs to a `%s:` entry, which has its own content; "
                 "only `memory:` entries accept content",
                 source->kind->name);
    return TDG_ENOTFOUND;
}

/* The time that the publisher gives is that of reads, too. */
static int64_t updated_ms(const json_t *metadata) {
    json_int_t said = json_integer_value(json_object_get(metadata, "updated_at"));

    return said > 0 ? said : 0;
}

/* Adds whatever the publisher did not give. */
static int complete(tdg__publish_item_t *item, const json_t *metadata,
                    const char *change_type) {
    if (item->metadata == NULL)
        item->metadata = json_object();
    if (item->metadata == NULL ||
        json_object_update_missing(item->metadata, (json_t *)(uintptr_t)metadata) < 0)
        return TDG_ENOMEM;
    if (json_object_get(item->metadata, "change_type") == NULL &&
        json_object_set_new(item->metadata, "change_type", json_string(change_type)) < 0)
        return TDG_ENOMEM;
    return 0;
}

static int prepare_content(tdg__source_t *source, tdg__publish_item_t *item,
                           tdg__prepared_t **ret) {
    bool known = tdg__source_checksum(source, item->uri) != NULL;
    tdg__content_t content = {.data = item->content,
                              .len = item->content_len,
                              .mime_type = item->mime_type,
                              .metadata = item->metadata,
                              .updated_ms = updated_ms(item->metadata)};

    int rv = tdg__source_prepare(source, item->uri, &content, ret);
    if (rv < 0)
        return rv;
    rv = complete(item, tdg__prepared_metadata(*ret),
                  known ? "content_update" : "created");
    if (rv < 0)
        tdg__source_abandon(*ret);
    return rv;
}

static int explain(const tdg__source_t *source, int rv, char why[WHY]) {
    if (rv == TDG_ETOOLARGE)
        snprintf(why, WHY, "The content is larger than max-size, %lld bytes",
                 (long long)source->entry.max_size);
    else if (rv == TDG_ETOTAL)
        snprintf(
            why, WHY,
            "The `memory:` entry is full; max-items is %lld, max-total is %lld bytes",
            (long long)source->max_items, (long long)source->max_total);
    return rv == TDG_EENDED ? TDG_EUNREACHABLE : rv;
}

static int check(void *user, tdg__publish_item_t *item, char why[WHY]) {
    tdg__source_t *source = tdg__live_owner(user, item->uri);
    tdg__prepared_t *prepared = NULL;
    int rv = 0;

    item->unserved = source == NULL;
    if (item->content != NULL && !takes_content(source))
        return refuse_content(source, why);
    if (item->content != NULL)
        rv = prepare_content(source, item, &prepared);
    else if (item->deleted && takes_content(source))
        rv = tdg__source_prepare(source, item->uri,
                                 &(tdg__content_t){.status = TDG_ENOTFOUND}, &prepared);
    if (rv < 0)
        return explain(source, rv, why);
    item->prepared = prepared;
    return 0;
}

/* ---- Keeping ------------------------------------------------------------ */

/* A source that finds out for itself what it holds does so now. */
static void commit(void *user, tdg__publish_item_t *item) {
    tdg__source_t *source;

    if (item->prepared != NULL) {
        tdg__source_commit(item->prepared);
        return;
    }
    source = tdg__live_owner(user, item->uri);
    if (source != NULL && (source->kind->flags & TDG__SOURCE_PUSHED) == 0)
        tdg__source_touch(source, item->uri);
}

static void abandon(void *user, tdg__publish_item_t *item) {
    (void)user;
    if (item->prepared != NULL)
        tdg__source_abandon(item->prepared);
}

int tdg__live_publish(tdg__live_t *live, tdg_server_t *server, const char *key) {
    tdg__publish_store_t store = {enter, check, commit, abandon, live};
    const char *const keys[] = {key, NULL};
    tdg__publish_opts_t opts = {.keys = keys, .store = &store};

    return tdg__server_enable_publish(server, &opts);
}
