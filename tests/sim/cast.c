/* SPDX-License-Identifier: MIT */
#include "cast.h"

#include <stdio.h>
#include <string.h>

#include "base/template.h"

/* The first two templates match note://a/1 both, with as many literal bytes. */
static const char *const names[TARGETS] = {
    "note://a/1",     "note://a/2",        "note://b/1",   "note://b/2",
    "db://t/1",       "db://t/2",          "db://u/1",     "log://x",
    "tools",          "prompts",           "resources",    "note://a/{id}",
    "note://{box}/1", "note://{box}/{id}", "db://{+rest}", "db://t/{id}",
    "{+any}",
};

const tdg__timing_t cast_timings[TIMINGS] = {
    {TDG__TIMING_INHERIT, 0, 0},    {TDG__TIMING_IMMEDIATE, 0, 0},
    {TDG__TIMING_BATCH, 20, 0},     {TDG__TIMING_BATCH, 70, 0},
    {TDG__TIMING_DEBOUNCE, 15, 0},  {TDG__TIMING_DEBOUNCE, 30, 50},
    {TDG__TIMING_THROTTLE, 40, 0},  {TDG__TIMING_THROTTLE, 110, 0},
    {TDG__TIMING_DEBOUNCE, 12, 12},
};

const int32_t cast_rates[RATES] = {TDG__RATE_INHERIT, TDG__RATE_OFF, 25, 80, 200};

static const int32_t floors[4] = {TDG__FLOOR_INHERIT, TDG__FLOOR_OFF, 30, 90};

int32_t cast_min_window(int floor) {
    return floors[floor % 4];
}

int32_t cast_min_rate(int floor) {
    return floors[floor / 4];
}

static const char *const filters[FILTERS] = {
    NULL,
    "{\"metadata.size\": {\"gt\": 10}}",
    "{\"metadata.kind\": {\"in\": [\"a\", \"b\"]}}",
    "{\"metadata.change_type\": {\"eq\": \"deleted\"}}",
    "{\"uri\": {\"glob\": \"*1\"}, \"metadata.kind\": {\"ne\": \"a\"}}",
    "{\"age_ms\": {\"lt\": 100}}",
    "{\"not\": {\"any\": [{\"metadata.size\": {\"lte\": 10}}, {\"metadata.kind\": "
    "{\"exists\": false}}]}}",
};

const struct cast_world cast_worlds[WORLDS] = {
    {
        .name = "pushed, long memory",
        .opts = {.history = 4096},
    },
    {
        .name = "watched, short memory",
        .watch = true,
        .may_read = true,
        .list_matches = true,
        .timing = 2,
        .rate = 2,
        .opts = {.history = 8,
                 .linger_ms = 53,
                 .watch_timeout_ms = 97,
                 .max_pending = 6,
                 .max_listed = 3},
    },
    {
        .name = "watched, no linger, small limits",
        .watch = true,
        .list_matches = true,
        .timing = 1,
        .rate = 1,
        .opts = {.history = 16,
                 .linger_ms = TDG__NO_LINGER,
                 .watch_timeout_ms = 41,
                 .max_pending = 3,
                 .max_subscriptions = 6,
                 .max_templates = 2,
                 .max_streams = 4,
                 .max_total = 14,
                 .first_number = 1000},
    },
    {
        .name = "pushed, short memory, some forbidden",
        .may_read = true,
        .list_matches = true,
        .timing = 3,
        .rate = 3,
        .opts = {.history = 8, .max_pending = 12, .max_listed = 2},
    },
    {
        .name = "watched, long memory",
        .watch = true,
        .timing = 6,
        .rate = 2,
        .opts =
            {.history = 512, .linger_ms = 211, .watch_timeout_ms = 67, .max_pending = 20},
    },
    {
        .name = "pushed, hardly any memory, readers at their limit",
        .timing = 2,
        .rate = 3,
        .opts = {.history = 2, .max_pending = 2, .first_number = UINT64_C(1) << 40},
    },
    {
        .name = "watched, hardly any memory",
        .watch = true,
        .may_read = true,
        .list_matches = true,
        .timing = 5,
        .rate = 1,
        .opts = {.history = 3,
                 .linger_ms = 29,
                 .watch_timeout_ms = 151,
                 .max_pending = 5,
                 .max_listed = 8},
    },
    {
        .name = "watched, everything allowed, everything listed",
        .watch = true,
        .list_matches = true,
        .timing = 7,
        .rate = 4,
        .opts = {.history = 16, .linger_ms = 83, .watch_timeout_ms = 37},
    },
    {
        .name = "watched, numbers shared with others",
        .watch = true,
        .list_matches = true,
        .timing = 4,
        .rate = 2,
        .opts = {.history = 16,
                 .linger_ms = 61,
                 .watch_timeout_ms = 73,
                 .max_pending = 10,
                 .shared_numbers = true,
                 .first_number = 50},
    },
};

static tdg__template_t *templates[TEMPLATES];
static json_t *parsed[FILTERS];
static bool covers[TARGETS][RESOURCES];

tdg__target_t cast_target(int target) {
    tdg__target_kind_t kind = target < URIS        ? TDG__TARGET_URI
                              : target < RESOURCES ? TDG__TARGET_LIST
                                                   : TDG__TARGET_TEMPLATE;

    return (tdg__target_t){kind, names[target], strlen(names[target])};
}

int cast_find(const tdg__target_t *target) {
    int t;

    for (t = 0; t < TARGETS; t++) {
        tdg__target_t other = cast_target(t);

        if (target->kind == other.kind && target->len == other.len &&
            memcmp(target->name, other.name, other.len) == 0)
            return t;
    }
    return -1;
}

bool cast_is_list(int target) {
    return target >= URIS && target < RESOURCES;
}

bool cast_is_template(int target) {
    return target >= RESOURCES;
}

bool cast_covers(int target, int resource) {
    return covers[target][resource];
}

size_t cast_literals(int target) {
    return tdg__template_literal_len(templates[target - RESOURCES]);
}

bool cast_may_read(int client, int resource) {
    return (client + resource) % 5 != 0;
}

bool cast_is_listed(int resource) {
    return resource < URIS && resource != 3;
}

const json_t *cast_filter(int filter) {
    return parsed[filter];
}

static bool ends_in_1(int resource) {
    const char *name = names[resource];

    return name[strlen(name) - 1] == '1';
}

bool cast_passes(int filter, const struct cast_news *news) {
    switch (filter) {
    case 0:
        return true;
    case 1:
        return news->size > 10;
    case 2:
        return news->kind == 1 || news->kind == 2;
    case 3:
        return news->deleted;
    case 4:
        return ends_in_1(news->resource) && news->kind > 1;
    case 5:
        return news->age_ms < 100;
    default:
        return !((news->size != 0 && news->size <= 10) || news->kind == 0);
    }
}

json_t *cast_metadata(const struct cast_news *news, int64_t wall_ms) {
    static const char *const kinds[KINDS] = {NULL, "a", "b", "c"};
    json_t *metadata = json_object();

    if (news->size != 0)
        json_object_set_new(metadata, "size", json_integer(news->size));
    if (news->kind != 0)
        json_object_set_new(metadata, "kind", json_string(kinds[news->kind]));
    if (news->age_ms != 0)
        json_object_set_new(metadata, "updated_at", json_integer(wall_ms - news->age_ms));
    return metadata;
}

static bool parse_templates(void) {
    int t;
    int r;

    for (t = RESOURCES; t < TARGETS; t++) {
        tdg__parse_error_t error = {0};

        if (tdg__template_parse(names[t], strlen(names[t]), &templates[t - RESOURCES],
                                &error) < 0) {
            fprintf(stderr, "sim: %s: %s\n", names[t], error.text);
            return false;
        }
        for (r = 0; r < URIS; r++)
            covers[t][r] =
                tdg__template_match(templates[t - RESOURCES], names[r], strlen(names[r]));
    }
    return true;
}

bool cast_init(void) {
    int i;

    for (i = 0; i < RESOURCES; i++)
        covers[i][i] = true;
    if (!parse_templates())
        return false;

    for (i = 1; i < FILTERS; i++) {
        json_error_t error;

        parsed[i] = json_loads(filters[i], 0, &error);
        if (parsed[i] == NULL) {
            fprintf(stderr, "sim: %s: %s\n", filters[i], error.text);
            return false;
        }
    }
    return true;
}

void cast_done(void) {
    int i;

    for (i = 0; i < TEMPLATES; i++)
        tdg__template_destroy(templates[i]);
    for (i = 1; i < FILTERS; i++)
        json_decref(parsed[i]);
}
