/* SPDX-License-Identifier: MIT
 *
 * Our extensions in the `_meta` of a subscribe or listen:
 *
 *     "dev.tidings/cursor": "…",    go on where another stream ended
 *     "dev.tidings/fresh": {…},     but not with these, which that one did not have
 *     "dev.tidings/sinceMs": 60000, also notify what has changed in the last minute
 *     "dev.tidings/options": {"debounceMs": 200, "rateLimitMs": 0, "filter": {…}, …}
 *
 * `fresh` has the form of the listen's own `notifications`.
 *
 * An unknown option is refused: a subscription that behaves differently than requested
 * helps nobody. */
#include "mcp/request_params.h"

#include <string.h>

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

static void read_ms(const json_t *value, const char *where, const char *name,
                    int64_t *ret, tdg__rpc_error_t *error) {
    json_int_t ms = json_integer_value(value);

    if (!json_is_integer(value) || ms < 0 || ms > MAX_MS)
        tdg__param_fail(error, "%s%s must be a whole number from 0 to %d", where, name,
                        MAX_MS);
    else
        *ret = ms;
}

static void read_option(const char *name, const json_t *value, tdg__wishes_t *ret,
                        tdg__rpc_error_t *error) {
    json_int_t number = json_integer_value(value);

    for (size_t i = 0; i < sizeof(time_options) / sizeof(time_options[0]); i++) {
        if (strcmp(name, time_options[i].name) == 0) {
            read_ms(value, "", name,
                    (int64_t *)(void *)((char *)ret + time_options[i].offset), error);
            return;
        }
    }
    if (strcmp(name, "filter") == 0) {
        if (!json_is_object(value))
            tdg__param_fail(error, "filter must be an object");
        ret->filter = value;
    } else if (strcmp(name, "priority") == 0) {
        if (!json_is_integer(value) || number < -1 || number > 1)
            tdg__param_fail(error, "priority must be -1, 0 or 1");
        ret->priority = (int)number;
    } else if (strcmp(name, "awaitCreation") == 0) {
        if (!json_is_boolean(value))
            tdg__param_fail(error, "awaitCreation must be true or false");
        ret->await_creation = json_is_true(value);
    } else {
        tdg__param_fail(error, "unknown option: %s", name);
    }
}

static void read_options(json_t *options, tdg__wishes_t *ret, tdg__rpc_error_t *error) {
    const json_t *value;
    const char *name;
    int windows = 0;

    json_object_foreach(options, name, value) read_option(name, value, ret, error);

    for (size_t i = 0; i < sizeof(time_options) / sizeof(time_options[0]); i++) {
        if (time_options[i].window &&
            json_object_get(options, time_options[i].name) != NULL)
            windows++;
    }
    if (windows > 1)
        tdg__param_fail(error, "only one of batchMs, debounceMs and throttleMs can "
                               "be chosen");
}

void tdg__read_wishes(const tdg__place_t *params, tdg__wishes_t *wishes,
                      tdg__rpc_error_t *error) {
    const tdg__place_t meta = {json_object_get(params->object, "_meta"), "_meta"};
    const json_t *since = json_object_get(meta.object, "dev.tidings/sinceMs");

    wishes->cursor = tdg__param_string(&meta, "dev.tidings/cursor", TDG__OPTIONAL, error);
    if (wishes->cursor != NULL && strlen(wishes->cursor) > MAX_CURSOR)
        tdg__param_fail(error, "%scursor is longer than %d bytes", prefix, MAX_CURSOR);

    const tdg__place_t fresh =
        tdg__param_object(&meta, "dev.tidings/fresh", TDG__OPTIONAL, error);
    wishes->fresh = tdg__param_filter(&fresh, error);
    if (since != NULL)
        read_ms(since, prefix, "sinceMs", &wishes->since_ms, error);

    const tdg__place_t options =
        tdg__param_object(&meta, "dev.tidings/options", TDG__OPTIONAL, error);
    wishes->any = wishes->cursor != NULL || since != NULL || options.object != NULL;
    read_options(options.object, wishes, error);
}
