/* SPDX-License-Identifier: MIT */
#include "core/change.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

enum { MAX_DEPTH = 32, BYTES_PER_VALUE = 8 };

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

bool tdg__target_equal(const tdg__target_t *a, const tdg__target_t *b) {
    return a->kind == b->kind && a->len == b->len &&
           memcmp(a->name, b->name, a->len) == 0;
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

const char *tdg__change_type(const tdg__change_t *change) {
    return change->deleted ? "deleted" : "content_update";
}

/* jansson says the same where memory is out and where a value cannot be written: text
 * that is not UTF-8, or an object inside itself. Only the latter stays so. */
static int why_not_written(const json_t *metadata) {
    void *probe = tdg__malloc(1);
    bool memory = probe != NULL;

    tdg__free(probe);
    if (!memory || json_dumpb(metadata, NULL, 0, JSON_COMPACT) > 0)
        return TDG_ENOMEM;
    return TDG_EINVAL;
}

/* Whether there are no more than *left values, nested no deeper than `depth`. An empty
 * object takes three bytes of text and seventy times that in memory: counting bytes alone
 * would bound nothing. */
static bool few_values(const json_t *json, int depth, size_t *left) {
    const char *key;
    json_t *value;
    size_t i;

    if (depth == 0 || *left == 0)
        return false;
    --*left;
    if (json_is_array(json)) {
        json_array_foreach(json, i, value) {
            if (!few_values(value, depth - 1, left))
                return false;
        }
    } else if (json_is_object(json)) {
        /* jansson iterates by a pointer to non-const, though it only reads. */
        json_object_foreach((json_t *)(uintptr_t)json, key, value) {
            if (!few_values(value, depth - 1, left))
                return false;
        }
    }
    return true;
}

static int check_metadata(const tdg__target_t *target, const json_t *metadata,
                          size_t max_bytes) {
    size_t values = max_bytes / BYTES_PER_VALUE;
    size_t bytes;

    if (metadata == NULL)
        return 0;
    if (target->kind == TDG__TARGET_LIST || !json_is_object(metadata))
        return TDG_EINVAL;

    if (!few_values(metadata, MAX_DEPTH, &values))
        return TDG_EMETADATA;
    bytes = json_dumpb(metadata, NULL, 0, JSON_COMPACT);
    if (bytes == 0)
        return why_not_written(metadata);
    return bytes > max_bytes ? TDG_EMETADATA : 0;
}

int tdg__change_create(const tdg__target_t *target, json_t *metadata, bool deleted,
                       int64_t wall_ms, size_t max_metadata_bytes, tdg__change_t **ret) {
    tdg__change_t *change;
    int rv;

    if (!tdg__target_valid(target) || target->kind == TDG__TARGET_TEMPLATE ||
        (target->kind == TDG__TARGET_LIST && deleted))
        return TDG_EINVAL;
    rv = check_metadata(target, metadata, max_metadata_bytes);
    if (rv < 0)
        return rv;

    change = tdg__malloc(sizeof(*change) + target->len + 1);
    if (change == NULL)
        return TDG_ENOMEM;

    memset(change, 0, sizeof(*change));
    atomic_init(&change->refs, 1);
    for (size_t i = 0; i < TDG__CHANGE_FORMS; i++)
        atomic_init(&change->forms[i], NULL);
    change->kind = target->kind;
    change->deleted = deleted;
    change->wall_ms = wall_ms;
    change->metadata = json_incref(metadata);
    change->len = target->len;
    memcpy(change->name, target->name, target->len);
    change->name[target->len] = '\0';
    *ret = change;
    return 0;
}

int tdg__change_stamp(tdg__change_t *change, uint64_t number) {
    if (number == 0 || change->number != 0)
        return TDG_EINVAL;
    change->number = number;
    return 0;
}

/* Sets a member that is absent; `value` is stolen. */
static int fill_in(json_t *object, const char *key, json_t *value) {
    if (json_object_get(object, key) == NULL)
        return json_object_set_new(object, key, value) < 0 ? TDG_ENOMEM : 0;
    json_decref(value);
    return 0;
}

int tdg__change_metadata(const tdg__change_t *change, json_t **ret) {
    json_t *object;

    if (change->kind == TDG__TARGET_LIST)
        return TDG_EINVAL;

    /* A deep copy only reads what other threads may be reading too; a flat one would
     * count references there. */
    object = change->metadata != NULL ? json_deep_copy(change->metadata) : json_object();
    if (object == NULL)
        return TDG_ENOMEM;
    if (change->deleted)
        json_object_del(object, "change_type");
    if (fill_in(object, "updated_at", json_integer(change->wall_ms)) < 0 ||
        fill_in(object, "change_type", json_string(tdg__change_type(change))) < 0 ||
        fill_in(object, "version", json_integer((json_int_t)change->number)) < 0) {
        json_decref(object);
        return TDG_ENOMEM;
    }
    *ret = object;
    return 0;
}

/* Acquire and release: a thread that finds a form also sees its bytes. */
tdg__buf_t *tdg__change_form(tdg__change_t *change, unsigned index) {
    assert(index < TDG__CHANGE_FORMS);
    return atomic_load_explicit(&change->forms[index], memory_order_acquire);
}

tdg__buf_t *tdg__change_set_form(tdg__change_t *change, unsigned index,
                                 tdg__buf_t *form) {
    tdg__buf_t *first = NULL;

    assert(index < TDG__CHANGE_FORMS && form != NULL);
    if (atomic_compare_exchange_strong_explicit(&change->forms[index], &first, form,
                                                memory_order_acq_rel,
                                                memory_order_acquire))
        return form;
    tdg__buf_unref(form);
    return first;
}

tdg__change_t *tdg__change_ref(tdg__change_t *change) {
    atomic_fetch_add_explicit(&change->refs, 1, memory_order_relaxed);
    return change;
}

void tdg__change_unref(tdg__change_t *change) {
    /* acq_rel: the free follows every other holder's last read. */
    if (change == NULL ||
        atomic_fetch_sub_explicit(&change->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < TDG__CHANGE_FORMS; i++)
        tdg__buf_unref(atomic_load_explicit(&change->forms[i], memory_order_relaxed));
    json_decref(change->metadata);
    tdg__free(change);
}
