/* SPDX-License-Identifier: MIT
 *
 * Inspecting the engine: subscriptions, counters, memory. */
#include "core/internal.h"

#include <tidings/error.h>

tdg__sub_state_t tdg__engine_state(const tdg__engine_t *engine, tdg__stream_t handle,
                                   const tdg__target_t *target) {
    uint32_t stream = tdg__stream_find(engine, handle);
    uint32_t id;

    if (stream == 0 || !tdg__target_valid(target))
        return TDG__NOT_SUBSCRIBED;
    id = tdg__sub_find_own(engine, stream, target);
    return id == 0 ? TDG__NOT_SUBSCRIBED : sub_at(engine, id)->state;
}

static bool has_pending(const tdg__engine_t *engine, const struct sub *sub) {
    if (sub->kind == SUB_DIRECT)
        return sub->wait != IDLE;
    for (uint32_t id = sub->derived.first; id != 0; id = sub_at(engine, id)->own.next)
        if (sub_at(engine, id)->wait != IDLE)
            return true;
    return false;
}

static tdg__sub_info_t info_of(const tdg__engine_t *engine, const struct sub *sub) {
    const struct group *group = group_at(engine, sub->group);
    tdg__sub_info_t info = {
        .stream = tdg__stream_handle(engine, sub->stream),
        .target = tdg__subject_target(subject_of(engine, group)),
        .state = sub->state,
        .settings = group->wishes,
        .priority = sub->priority,
        .pending = has_pending(engine, sub),
    };

    if (group->filter != NULL)
        info.filter = tdg__filter_text(group->filter->parsed)->data;
    return info;
}

/* ---- By target ---------------------------------------------------------- */

struct visitor {
    tdg__engine_t *engine;
    tdg__sub_visit_fn visit;
    void *arg;
    size_t left;    /* records that may still be looked at */
    bool exhausted; /* that was not enough */
    bool stopped;
};

/* One more record is looked at. */
static bool may_go_on(struct visitor *visitor) {
    if (visitor->stopped)
        return false;
    if (visitor->left == 0)
        visitor->stopped = visitor->exhausted = true;
    else
        visitor->left--;
    return !visitor->stopped;
}

static void visit_sub(struct visitor *visitor, uint32_t id) {
    tdg__sub_info_t info = info_of(visitor->engine, sub_at(visitor->engine, id));

    visitor->stopped = !visitor->visit(visitor->arg, &info);
}

/* The subscriptions to the subject itself, not the derived ones. */
static void visit_subject(struct visitor *visitor, const struct subject *subject) {
    tdg__engine_t *engine = visitor->engine;

    for (uint32_t g = subject->groups.first; g != 0 && may_go_on(visitor);
         g = group_at(engine, g)->by_owner.next) {
        struct group *group = group_at(engine, g);

        if (group->kind == GROUP_TEMPLATE) {
            for (uint32_t id = group->recent.first; id != 0 && may_go_on(visitor);
                 id = sub_at(engine, id)->flight.next)
                visit_sub(visitor, id);
        } else if (group->kind == GROUP_DIRECT) {
            const uint32_t *members = tdg__group_members(group);

            for (uint32_t i = 0; i < group->count && may_go_on(visitor); i++)
                visit_sub(visitor, members[i]);
        }
    }
}

static void visit_template(void *arg, uint32_t id) {
    struct visitor *visitor = arg;

    visit_subject(visitor, &template_at(visitor->engine, id)->subject);
}

bool tdg__engine_each_subscriber(tdg__engine_t *engine, const tdg__target_t *target,
                                 bool through_templates, size_t max_steps,
                                 tdg__sub_visit_fn visit, void *arg) {
    struct visitor visitor = {engine, visit, arg, max_steps, false, false};
    const struct subject *subject;

    if (!tdg__target_valid(target))
        return true;

    subject = tdg__subject_find(engine, target);
    if (subject != NULL)
        visit_subject(&visitor, subject);
    if (through_templates && target->kind == TDG__TARGET_URI)
        tdg__template_index_match(engine->template_index, target->name, target->len,
                                  visit_template, &visitor);
    return !visitor.exhausted;
}

struct tally {
    tdg__engine_t *engine;
    uint64_t count;
};

static void tally_subject(struct tally *tally, const struct subject *subject) {
    for (uint32_t g = subject->groups.first; g != 0;
         g = group_at(tally->engine, g)->by_owner.next) {
        const struct group *group = group_at(tally->engine, g);

        if (group->kind != GROUP_DERIVED)
            tally->count += group->count;
    }
}

static void tally_template(void *arg, uint32_t id) {
    struct tally *tally = arg;

    tally_subject(tally, &template_at(tally->engine, id)->subject);
}

uint64_t tdg__engine_count_subscribers(tdg__engine_t *engine,
                                       const tdg__target_t *target) {
    struct tally tally = {engine, 0};
    const struct subject *subject;

    if (!tdg__target_valid(target))
        return 0;

    subject = tdg__subject_find(engine, target);
    if (subject != NULL)
        tally_subject(&tally, subject);
    if (target->kind == TDG__TARGET_URI)
        tdg__template_index_match(engine->template_index, target->name, target->len,
                                  tally_template, &tally);
    return tally.count;
}

/* ---- By stream, and all ------------------------------------------------- */

int tdg__engine_each_subscription(tdg__engine_t *engine, tdg__stream_t handle,
                                  tdg__sub_visit_fn visit, void *arg) {
    struct visitor visitor = {engine, visit, arg, SIZE_MAX, false, false};
    uint32_t stream = tdg__stream_find(engine, handle);

    if (stream == 0)
        return TDG_ENOTFOUND;
    for (uint32_t id = stream_at(engine, stream)->own.first; id != 0 && !visitor.stopped;
         id = sub_at(engine, id)->own.next)
        visit_sub(&visitor, id);
    return 0;
}

static void mark_template(void *arg, uint32_t id) {
    tdg__engine_t *engine = arg;

    template_at(engine, id)->marked = engine->looks;
}

/* The selected subscriptions. */
struct meant {
    bool all;
    const struct subject *subject; /* NULL: nobody's but those of the marked templates */
};

static struct meant find_meant(tdg__engine_t *engine, const tdg__target_t *target,
                               bool through_templates) {
    struct meant meant = {.all = target == NULL};

    engine->looks++;
    if (meant.all || !tdg__target_valid(target))
        return meant;
    meant.subject = tdg__subject_find(engine, target);
    if (through_templates && target->kind == TDG__TARGET_URI)
        tdg__template_index_match(engine->template_index, target->name, target->len,
                                  mark_template, engine);
    return meant;
}

static bool is_meant(const tdg__engine_t *engine, const struct sub *sub,
                     const struct meant *meant) {
    const struct group *group;

    if (sub == NULL || (sub->kind != SUB_DIRECT && sub->kind != SUB_TEMPLATE))
        return false;
    if (meant->all)
        return true;
    group = group_at(engine, sub->group);
    return subject_of(engine, group) == meant->subject ||
           (group->kind == GROUP_TEMPLATE &&
            template_at(engine, group->owner)->marked == engine->looks);
}

size_t tdg__engine_page(tdg__engine_t *engine, uint32_t *position,
                        const tdg__target_t *target, bool through_templates,
                        tdg__sub_info_t *page, size_t max) {
    struct meant meant = find_meant(engine, target, through_templates);
    uint32_t end = tdg__pool_end(&engine->subs);
    uint32_t id = *position + 1;
    size_t n = 0;

    for (size_t looked = 0; id < end && looked < max; looked++, id++) {
        const struct sub *sub = sub_at(engine, id);

        if (is_meant(engine, sub, &meant))
            page[n++] = info_of(engine, sub);
    }
    *position = id < end ? id - 1 : 0;
    return n;
}

/* ---- Figures ------------------------------------------------------------ */

static uint64_t subscribed_templates(const tdg__engine_t *engine) {
    uint64_t count = 0;

    for (uint32_t id = 1; id < tdg__pool_end(&engine->templates); id++) {
        const struct template_ *template_ = template_at(engine, id);

        count += template_ != NULL && template_->subject.watch.users != 0;
    }
    return count;
}

void tdg__engine_counters(const tdg__engine_t *engine, tdg__counters_t *ret) {
    *ret = engine->counters;
    ret->streams = engine->streams.count;
    ret->resources = engine->resources.count;
    ret->templates = subscribed_templates(engine);
    ret->last_number = engine->last_number;
    ret->epoch = engine->opts.epoch;
}

void tdg__engine_memory(const tdg__engine_t *engine, tdg__memory_t *ret) {
    *ret = (tdg__memory_t){
        .subscriptions = tdg__pool_bytes(&engine->subs) +
                         tdg__map_bytes(&engine->pair_map) + engine->member_bytes,
        .streams = tdg__pool_bytes(&engine->streams) + tdg__bitset_bytes(&engine->ready),
        .resources =
            tdg__pool_bytes(&engine->resources) + tdg__pool_bytes(&engine->groups) +
            tdg__pool_bytes(&engine->templates) + tdg__map_bytes(&engine->resource_map) +
            tdg__map_bytes(&engine->template_map) + tdg__map_bytes(&engine->group_map) +
            tdg__heap_bytes(&engine->timers),
        .names = engine->name_bytes,
        .history = engine->opts.history * sizeof(*engine->history),
    };
}
