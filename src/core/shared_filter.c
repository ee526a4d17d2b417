/* SPDX-License-Identifier: MIT
 *
 * Filters that several groups share: one per distinct text, evaluated once per change. */
#include "core/internal.h"

#include <assert.h>
#include <string.h>

#include <tidings/error.h>

static bool is_filter(const void *engine, uint32_t id, const void *key) {
    const tdg__engine_t *own = engine;
    const tdg__shared_filter_t *filter = tdg__pool_get(&own->filters, id);
    const tdg__buf_t *text = tdg__filter_text(filter->parsed);
    const tdg__buf_t *other = key;

    return text->len == other->len && memcmp(text->data, other->data, text->len) == 0;
}

static uint32_t hash_filter(const tdg__engine_t *engine, const tdg__filter_t *parsed) {
    const tdg__buf_t *text = tdg__filter_text(parsed);

    return (uint32_t)tdg__hash(&engine->key, text->data, text->len);
}

/* Shares the parsed filter with those of the same text; it is stolen. */
static int share_filter(tdg__engine_t *engine, tdg__filter_t *parsed,
                        tdg__shared_filter_t **ret) {
    uint32_t hash = hash_filter(engine, parsed);
    uint32_t id = tdg__map_find(&engine->filter_map, hash, is_filter, engine,
                                tdg__filter_text(parsed));
    tdg__shared_filter_t *filter;
    int rv = TDG_ENOMEM;

    if (id != 0) {
        tdg__filter_destroy(parsed);
        *ret = tdg__shared_filter_ref(tdg__pool_get(&engine->filters, id));
        return 0;
    }

    if (!tdg__tally_take(engine, 0, tdg__filter_bytes(parsed))) {
        rv = TDG_ETOTAL;
        goto fail_parsed;
    }
    if (tdg__map_reserve(&engine->filter_map) < 0)
        goto fail_tally;
    filter = tdg__pool_alloc(&engine->filters, &id);
    if (filter == NULL)
        goto fail_tally;

    filter->parsed = parsed;
    filter->id = id;
    filter->refs = 1;
    tdg__map_insert(&engine->filter_map, hash, id);
    *ret = filter;
    return 0;

fail_tally:
    tdg__tally_give(engine, 0, tdg__filter_bytes(parsed));
fail_parsed:
    tdg__filter_destroy(parsed);
    return rv;
}

int tdg__engine_filter_get(tdg__engine_t *engine, const json_t *json,
                           tdg__parse_error_t *error, tdg__shared_filter_t **ret) {
    tdg__filter_limits_t limits = {engine->opts.max_filter_bytes,
                                   engine->opts.max_filter_depth};
    tdg__filter_t *parsed;
    int rv;

    *ret = NULL;
    if (json == NULL || (json_is_object(json) && json_object_size(json) == 0))
        return 0;

    rv = tdg__filter_parse(json, &limits, &parsed, error);
    if (rv < 0)
        return rv;
    return share_filter(engine, parsed, ret);
}

tdg__shared_filter_t *tdg__shared_filter_ref(tdg__shared_filter_t *filter) {
    if (filter != NULL)
        filter->refs++;
    return filter;
}

void tdg__engine_filter_unref(tdg__engine_t *engine, tdg__shared_filter_t *filter) {
    assert(filter == NULL || filter->refs > 0);
    if (filter == NULL || --filter->refs > 0)
        return;
    tdg__map_remove(&engine->filter_map, hash_filter(engine, filter->parsed), filter->id);
    tdg__tally_give(engine, 0, tdg__filter_bytes(filter->parsed));
    tdg__filter_destroy(filter->parsed);
    tdg__pool_free(&engine->filters, filter->id);
}

bool tdg__shared_filter_pass(tdg__engine_t *engine, tdg__shared_filter_t *filter,
                             const tdg__change_t *change) {
    if (filter == NULL)
        return true;
    if (filter->seen != engine->attempts) {
        tdg__filter_known_t known = {change->wall_ms, change->number,
                                     tdg__change_type(change), change->deleted};
        tdg__filter_input_t input = {change->name, change->len, change->metadata,
                                     engine->wall_ms, &known};

        filter->seen = engine->attempts;
        filter->verdict = tdg__filter_match(filter->parsed, &input);
    }
    return filter->verdict;
}
