/* SPDX-License-Identifier: MIT
 *
 * What a client that knows us may wish for in the `_meta` of a subscribe or listen:
 *
 *     "dev.tidings/cursor": "…",    go on where another stream ended
 *     "dev.tidings/fresh": {…},     but not with these, which that one did not have
 *     "dev.tidings/sinceMs": 60000, also notify what has changed in the last minute
 *     "dev.tidings/options": {"debounceMs": 200, "rateLimitMs": 0, "filter": {…}, …}
 *
 * `fresh` has the form of the listen's own `notifications`.
 *
 * A wish that is not understood is refused: a subscription that behaves otherwise than
 * requested helps nobody. */
#include "mcp/request_params.h"

#include <string.h>

#include <tidings/error.h>

enum { MAX_CURSOR = 64, MAX_MS = 24 * 60 * 60 * 1000 };

static const char prefix[] = "dev.tidings/";

/* The options that are times, and where they go. */
static const struct time_option {
    const char *name;
    size_t offset;
    bool window; /* one of those that exclude each other */
} time_options[] = {
    {"batchMs", offsetof(tdg__wishes_t, batch_ms), true},
    {"debounceMs", offsetof(tdg__wishes_t, debounce_ms), true},
    {"throttleMs", offsetof(tdg__wishes_t, throttle_ms), true},
    {"rateLimitMs", offsetof(tdg__wishes_t, rate_limit_ms), false},
};

static int read_ms(const json_t *value, const char *where, const char *name, int64_t *ret,
                   tdg__rpc_error_t *error) {
    json_int_t ms = json_integer_value(value);

    if (!json_is_integer(value) || ms < 0 || ms > MAX_MS)
        return tdg__param_fail(error, "%s%s must be a whole number from 0 to %d", where,
                               name, MAX_MS);
    *ret = ms;
    return 0;
}

static int read_priority(const json_t *value, int *ret, tdg__rpc_error_t *error) {
    json_int_t priority = json_integer_value(value);

    if (!json_is_integer(value) || priority < -1 || priority > 1)
        return tdg__param_fail(error, "priority must be -1, 0 or 1");
    *ret = (int)priority;
    return 0;
}

static int read_filter(const json_t *value, const json_t **ret, tdg__rpc_error_t *error) {
    if (!json_is_object(value))
        return tdg__param_fail(error, "filter must be an object");
    *ret = value;
    return 0;
}

static int read_await_creation(const json_t *value, bool *ret, tdg__rpc_error_t *error) {
    if (!json_is_boolean(value))
        return tdg__param_fail(error, "awaitCreation must be true or false");
    *ret = json_is_true(value);
    return 0;
}

static int read_option(const char *name, const json_t *value, tdg__wishes_t *ret,
                       tdg__rpc_error_t *error) {
    int64_t *ms;

    for (size_t i = 0; i < sizeof(time_options) / sizeof(time_options[0]); i++) {
        if (strcmp(name, time_options[i].name) == 0) {
            ms = (int64_t *)(void *)((char *)ret + time_options[i].offset);
            return read_ms(value, "", name, ms, error);
        }
    }
    if (strcmp(name, "filter") == 0)
        return read_filter(value, &ret->filter, error);
    if (strcmp(name, "priority") == 0)
        return read_priority(value, &ret->priority, error);
    if (strcmp(name, "awaitCreation") == 0)
        return read_await_creation(value, &ret->await_creation, error);
    return tdg__param_fail(error, "unknown option: %s", name);
}

static int read_options(json_t *options, tdg__wishes_t *ret, tdg__rpc_error_t *error) {
    const json_t *value;
    const char *name;
    int rv, windows = 0;

    json_object_foreach(options, name, value) {
        rv = read_option(name, value, ret, error);
        if (rv < 0)
            return rv;
    }

    for (size_t i = 0; i < sizeof(time_options) / sizeof(time_options[0]); i++) {
        if (time_options[i].window &&
            json_object_get(options, time_options[i].name) != NULL)
            windows++;
    }
    if (windows > 1)
        return tdg__param_fail(error,
                               "only one of batchMs, debounceMs and throttleMs can "
                               "be chosen");
    return 0;
}

static int read_fresh(const tdg__place_t *meta, tdg__listen_filter_t *ret,
                      tdg__rpc_error_t *error) {
    tdg__place_t fresh = {.name = "dev.tidings/fresh"};
    json_t *object = NULL;
    int rv;

    rv = tdg__param_object(meta, fresh.name, TDG__OPTIONAL, &object, error);
    if (rv < 0 || object == NULL)
        return rv;
    fresh.object = object;
    return tdg__param_filter(&fresh, ret, error);
}

int tdg__read_wishes(json_t *params, tdg__mcp_request_t *ret, tdg__rpc_error_t *error) {
    const tdg__place_t meta = {json_object_get(params, "_meta"), "_meta"};
    const json_t *since = json_object_get(meta.object, "dev.tidings/sinceMs");
    tdg__wishes_t *wishes = &ret->wishes;
    json_t *options = NULL;
    int rv;

    rv = tdg__param_string(&meta, "dev.tidings/cursor", TDG__OPTIONAL, &wishes->cursor,
                           error);
    if (rv < 0)
        return rv;
    if (wishes->cursor != NULL && strlen(wishes->cursor) > MAX_CURSOR)
        return tdg__param_fail(error, "%scursor is longer than %d bytes", prefix,
                               MAX_CURSOR);

    rv = read_fresh(&meta, &wishes->fresh, error);
    if (rv < 0)
        return rv;

    if (since != NULL) {
        rv = read_ms(since, prefix, "sinceMs", &wishes->since_ms, error);
        if (rv < 0)
            return rv;
    }

    rv = tdg__param_object(&meta, "dev.tidings/options", TDG__OPTIONAL, &options, error);
    if (rv < 0)
        return rv;

    wishes->any = wishes->cursor != NULL || since != NULL || options != NULL;
    return read_options(options, wishes, error);
}
