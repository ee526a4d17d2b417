/* SPDX-License-Identifier: MIT */
#include "core/change.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

static tdg__target_t target_of(tdg__target_kind_t kind, const char *name) {
    return (tdg__target_t){kind, name, name == NULL ? 0 : strlen(name)};
}

tdg__target_t tdg__target_uri(const char *uri) {
    return target_of(TDG__TARGET_URI, uri);
}

tdg__target_t tdg__target_template(const char *template_) {
    return target_of(TDG__TARGET_TEMPLATE, template_);
}

tdg__target_t tdg__target_list(const char *name) {
    return target_of(TDG__TARGET_LIST, name);
}

bool tdg__target_valid(const tdg__target_t *target) {
    static const char *const lists[] = {"tools", "prompts", "resources"};

    if (target == NULL || target->name == NULL || target->len == 0)
        return false;
    if (target->kind != TDG__TARGET_LIST)
        return target->kind == TDG__TARGET_URI || target->kind == TDG__TARGET_TEMPLATE;

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        if (strlen(lists[i]) == target->len &&
            memcmp(lists[i], target->name, target->len) == 0)
            return true;
    return false;
}

/* What an application need not say itself. */
static int fill_in(json_t *metadata, bool deleted, int64_t wall_ms) {
    if (json_object_get(metadata, "updated_at") == NULL &&
        json_object_set_new(metadata, "updated_at", json_integer(wall_ms)) < 0)
        return TDG_ENOMEM;

    if (deleted || json_object_get(metadata, "change_type") == NULL) {
        json_t *type = json_string(deleted ? "deleted" : "content_update");

        if (json_object_set_new(metadata, "change_type", type) < 0)
            return TDG_ENOMEM;
    }
    return 0;
}

static int copy_metadata(const json_t *metadata, bool deleted, int64_t wall_ms,
                         size_t max_bytes, json_t **ret) {
    json_t *copy;
    int rv;

    if (metadata != NULL && !json_is_object(metadata))
        return TDG_EINVAL;

    copy = metadata != NULL ? json_deep_copy(metadata) : json_object();
    if (copy == NULL)
        return TDG_ENOMEM;

    rv = fill_in(copy, deleted, wall_ms);
    if (rv == 0 && json_dumpb(copy, NULL, 0, JSON_COMPACT) > max_bytes)
        rv = TDG_EMETADATA;
    if (rv < 0) {
        json_decref(copy);
        return rv;
    }

    *ret = copy;
    return 0;
}

int tdg__change_create(const tdg__target_t *target, const json_t *metadata, bool deleted,
                       int64_t wall_ms, size_t max_metadata_bytes, tdg__change_t **ret) {
    tdg__change_t *change;
    json_t *copy = NULL;
    int rv;

    if (!tdg__target_valid(target) || target->kind == TDG__TARGET_TEMPLATE)
        return TDG_EINVAL;
    if (target->kind == TDG__TARGET_LIST && (metadata != NULL || deleted))
        return TDG_EINVAL;

    if (target->kind == TDG__TARGET_URI) {
        rv = copy_metadata(metadata, deleted, wall_ms, max_metadata_bytes, &copy);
        if (rv < 0)
            return rv;
    }

    change = tdg__malloc(sizeof(*change) + target->len + 1);
    if (change == NULL) {
        json_decref(copy);
        return TDG_ENOMEM;
    }

    memset(change, 0, sizeof(*change));
    atomic_init(&change->refs, 1);
    change->kind = target->kind;
    change->deleted = deleted;
    change->metadata = copy;
    change->len = target->len;
    memcpy(change->name, target->name, target->len);
    change->name[target->len] = '\0';
    *ret = change;
    return 0;
}

int tdg__change_stamp(tdg__change_t *change, uint64_t number) {
    if (number == 0 || change->number != 0)
        return TDG_EINVAL;

    if (change->metadata != NULL &&
        json_object_get(change->metadata, "version") == NULL &&
        json_object_set_new(change->metadata, "version",
                            json_integer((json_int_t)number)) < 0)
        return TDG_ENOMEM;

    change->number = number;
    return 0;
}

tdg__change_t *tdg__change_ref(tdg__change_t *change) {
    atomic_fetch_add_explicit(&change->refs, 1, memory_order_relaxed);
    return change;
}

void tdg__change_unref(tdg__change_t *change) {
    /* acq_rel: whoever frees must come after every other holder's last read. */
    if (change == NULL ||
        atomic_fetch_sub_explicit(&change->refs, 1, memory_order_acq_rel) != 1)
        return;
    json_decref(change->metadata);
    tdg__free(change);
}
