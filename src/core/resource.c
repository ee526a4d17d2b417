/* SPDX-License-Identifier: MIT
 *
 * Resources (lists among them) and templates, and the history of resources without
 * subscribers. A resource exists while it has a subscriber, a watcher, a group, or its
 * last change is in the history; the history is a ring of numbers, so its size bounds the
 * memory. */
#include "core/internal.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"

/* ---- Names -------------------------------------------------------------- */

tdg__target_t tdg__subject_target(const struct subject *subject) {
    return (tdg__target_t){subject->kind, subject->name, subject->len};
}

static bool is_target(const struct subject *subject, const tdg__target_t *target) {
    return subject->len == target->len && subject->kind == target->kind &&
           memcmp(subject->name, target->name, target->len) == 0;
}

static bool is_resource(const void *engine, uint32_t id, const void *target) {
    return is_target(&resource_at(engine, id)->subject, target);
}

static bool is_template(const void *engine, uint32_t id, const void *target) {
    return is_target(&template_at(engine, id)->subject, target);
}

static uint32_t hash_target(const tdg__engine_t *engine, const tdg__target_t *target) {
    return (uint32_t)tdg__hash(&engine->key, target->name, target->len);
}

static struct subject *find(const tdg__engine_t *engine, const tdg__target_t *target,
                            uint32_t hash) {
    uint32_t id;

    if (target->kind == TDG__TARGET_TEMPLATE) {
        id = tdg__map_find(&engine->template_map, hash, is_template, engine, target);
        return id == 0 ? NULL : &template_at(engine, id)->subject;
    }
    id = tdg__map_find(&engine->resource_map, hash, is_resource, engine, target);
    return id == 0 ? NULL : &resource_at(engine, id)->subject;
}

struct subject *tdg__subject_find(const tdg__engine_t *engine,
                                  const tdg__target_t *target) {
    return find(engine, target, hash_target(engine, target));
}

/* ---- Creating ----------------------------------------------------------- */

/* A copy of the name, in the record where it is short; NULL when memory is out. */
static char *copy_name(tdg__engine_t *engine, struct resource *resource,
                       const tdg__target_t *target) {
    char *name = resource->short_name;

    if (target->len >= SHORT_NAME) {
        name = tdg__malloc(target->len + 1);
        if (name == NULL)
            return NULL;
        engine->name_bytes += target->len + 1;
    }
    memcpy(name, target->name, target->len);
    name[target->len] = '\0';
    return name;
}

static void name_subject(struct subject *subject, tdg__target_kind_t kind,
                         const char *name, size_t len, uint32_t id, uint32_t hash) {
    subject->id = id;
    subject->hash = hash;
    subject->kind = (uint8_t)kind;
    subject->name = name;
    subject->len = (uint32_t)len;
}

static int create_resource(tdg__engine_t *engine, const tdg__target_t *target,
                           uint32_t hash, struct subject **ret) {
    struct resource *resource;
    char *name;
    uint32_t id;

    if (tdg__map_reserve(&engine->resource_map) < 0)
        return TDG_ENOMEM;
    resource = tdg__pool_alloc(&engine->resources, &id);
    if (resource == NULL)
        return TDG_ENOMEM;
    if (tdg__heap_add(&engine->timers, &resource->subject.watch.timer, TIMER_WATCH) < 0)
        goto fail_resource;
    name = copy_name(engine, resource, target);
    if (name == NULL)
        goto fail_timer;

    name_subject(&resource->subject, target->kind, name, target->len, id, hash);
    tdg__map_insert(&engine->resource_map, hash, id);
    tdg__resource_configure(engine, resource);
    *ret = &resource->subject;
    return 0;

fail_timer:
    tdg__heap_remove(&engine->timers, &resource->subject.watch.timer);
fail_resource:
    tdg__pool_free(&engine->resources, id);
    return TDG_ENOMEM;
}

static int create_template(tdg__engine_t *engine, const tdg__target_t *target,
                           uint32_t hash, tdg__parse_error_t *error,
                           struct subject **ret) {
    struct template_ *template_;
    const char *name;
    size_t len;
    uint32_t id;
    int rv = TDG_ENOMEM;

    if (tdg__map_reserve(&engine->template_map) < 0)
        return TDG_ENOMEM;
    template_ = tdg__pool_alloc(&engine->templates, &id);
    if (template_ == NULL)
        return TDG_ENOMEM;
    if (tdg__heap_add(&engine->timers, &template_->subject.watch.timer, TIMER_WATCH) < 0)
        goto fail_template;
    rv = tdg__template_parse(target->name, target->len, &template_->parsed, error);
    if (rv < 0)
        goto fail_timer;
    rv = tdg__template_index_add(engine->template_index, template_->parsed, id);
    if (rv < 0)
        goto fail_parsed;

    name = tdg__template_text(template_->parsed, &len);
    name_subject(&template_->subject, target->kind, name, len, id, hash);
    tdg__map_insert(&engine->template_map, hash, id);
    *ret = &template_->subject;
    return 0;

fail_parsed:
    tdg__template_destroy(template_->parsed);
fail_timer:
    tdg__heap_remove(&engine->timers, &template_->subject.watch.timer);
fail_template:
    tdg__pool_free(&engine->templates, id);
    return rv;
}

int tdg__subject_get(tdg__engine_t *engine, const tdg__target_t *target,
                     tdg__parse_error_t *error, struct subject **ret) {
    uint32_t hash = hash_target(engine, target);

    *ret = find(engine, target, hash);
    if (*ret != NULL)
        return 0;
    return target->kind == TDG__TARGET_TEMPLATE
               ? create_template(engine, target, hash, error, ret)
               : create_resource(engine, target, hash, ret);
}

/* ---- Removing ----------------------------------------------------------- */

void tdg__resource_free_name(struct resource *resource) {
    if (resource->subject.name != resource->short_name)
        tdg__free((char *)(uintptr_t)resource->subject.name);
}

static void free_resource(tdg__engine_t *engine, struct resource *resource) {
    uint32_t id = resource->subject.id;

    assert(!resource->subject.lingers);
    if (resource->last_number > engine->floor)
        engine->floor = resource->last_number;
    tdg__map_remove(&engine->resource_map, resource->subject.hash, id);
    tdg__heap_remove(&engine->timers, &resource->subject.watch.timer);
    if (resource->subject.len >= SHORT_NAME)
        engine->name_bytes -= resource->subject.len + 1;
    tdg__resource_free_name(resource);
    tdg__pool_free(&engine->resources, id);
}

static void free_template(tdg__engine_t *engine, struct template_ *template_) {
    uint32_t id = template_->subject.id;

    tdg__map_remove(&engine->template_map, template_->subject.hash, id);
    tdg__template_index_remove(engine->template_index, template_->parsed, id);
    tdg__heap_remove(&engine->timers, &template_->subject.watch.timer);
    tdg__template_destroy(template_->parsed);
    tdg__pool_free(&engine->templates, id);
}

void tdg__subject_release(tdg__engine_t *engine, struct subject *subject) {
    if (subject->pins != 0 || subject->groups.first != 0 || subject->watch.users != 0 ||
        subject->watch.state != WATCH_NONE)
        return;

    if (subject->kind == TDG__TARGET_TEMPLATE)
        free_template(engine, (struct template_ *)subject);
    else if (((struct resource *)subject)->last_number <= engine->dropped)
        free_resource(engine, (struct resource *)subject);
}

/* ---- History ------------------------------------------------------------ */

void tdg__history_add(tdg__engine_t *engine, uint32_t id, const tdg__change_t *change) {
    struct resource *resource = resource_at(engine, id);
    uint32_t at = (engine->past_first + engine->past_count) % engine->opts.history;
    struct past gone = {0};

    if (engine->past_count == engine->opts.history) {
        gone = engine->history[at];
        engine->past_first = (engine->past_first + 1) % engine->opts.history;
    } else {
        engine->past_count++;
    }

    engine->history[at] = (struct past){change->number, engine->now_ms, id};
    resource->last_number = change->number;
    resource->last_ms = engine->now_ms;
    resource->last_wall_ms = change->wall_ms;
    resource->last_deleted = change->deleted;

    if (gone.resource != 0) {
        const struct past *next = &engine->history[engine->past_first];

        /* The one that leaves with the next change has not been looked at for long. */
        if (engine->past_count > 1)
            prefetch(resource_at(engine, next->resource), sizeof(struct resource));
        engine->dropped = gone.number;
        resource = resource_at(engine, gone.resource);
        if (resource->last_number == gone.number)
            tdg__subject_release(engine, &resource->subject);
    }
}
