/* SPDX-License-Identifier: MIT */
#include "server/api/options.h"

#include <stddef.h>
#include <string.h>

#include <uv.h>

#include <tidings/tidings.h>

#include "base/alloc.h"
#include "base/sized.h"
#include "base/text.h"

enum { MAX_WORKERS = 64 };

static const struct {
    size_t offset;
    uint32_t value;
} defaults[] = {
    {offsetof(tdg_server_opts_t, page_size), 250},
    {offsetof(tdg_server_opts_t, linger_ms), 5000},
    {offsetof(tdg_server_opts_t, keepalive_ms), 15000},
    {offsetof(tdg_server_opts_t, request_timeout_ms), 30000},
    {offsetof(tdg_server_opts_t, idle_timeout_ms), 75000},
    {offsetof(tdg_server_opts_t, session_idle_ms), 5 * 60 * 1000},
    {offsetof(tdg_server_opts_t, handshake_timeout_ms), 30000},
    {offsetof(tdg_server_opts_t, retry_ms), 1000},
    {offsetof(tdg_server_opts_t, stop_timeout_ms), 3000},
    {offsetof(tdg_server_opts_t, max_connections), 16384},
    {offsetof(tdg_server_opts_t, max_sessions), 10000},
    {offsetof(tdg_server_opts_t, max_calls), 100},
    {offsetof(tdg_server_opts_t, max_streams), 16},
    {offsetof(tdg_server_opts_t, max_header_bytes), 16384},
    {offsetof(tdg_server_opts_t, max_message_bytes), 4 * 1024 * 1024},
    {offsetof(tdg_server_opts_t, max_subscriptions), 10000},
    {offsetof(tdg_server_opts_t, max_total_subscriptions), 1000000},
    {offsetof(tdg_server_opts_t, max_subscribed_bytes), 64 * 1024 * 1024},
    {offsetof(tdg_server_opts_t, max_pending), 10000},
    {offsetof(tdg_server_opts_t, max_history), 65536},
};

static void fill_in(tdg_server_opts_t *opts) {
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        uint32_t *field = (uint32_t *)(void *)((char *)opts + defaults[i].offset);

        if (*field == 0)
            *field = defaults[i].value;
    }
    if (opts->max_sessions_per_address == 0)
        opts->max_sessions_per_address = (opts->max_sessions - 1) / 2 + 1;
    if (opts->workers == 0)
        opts->workers = uv_available_parallelism();
    if (opts->workers > MAX_WORKERS)
        opts->workers = MAX_WORKERS;
    if (opts->name == NULL)
        opts->name = "tidings";
    if (opts->version == NULL)
        opts->version = tdg_version();
}

static const char **const_strings(tdg_server_opts_t *opts, size_t i) {
    const char **strings[] = {&opts->name, &opts->title, &opts->version,
                              &opts->instructions};

    return i < sizeof(strings) / sizeof(strings[0]) ? strings[i] : NULL;
}

/* Complete copies, which are ours. */
static int copy_nested(const tdg_server_opts_t *opts, const tdg__given_opts_t *sizes,
                       tdg_server_opts_t *ret) {
    tdg_settings_t *settings = tdg__malloc(sizeof(*settings));
    tdg_watcher_t *watcher = tdg__malloc(sizeof(*watcher));
    int rv = settings != NULL && watcher != NULL ? 0 : TDG_ENOMEM;

    ret->settings = settings;
    ret->watcher = watcher;
    if (rv == 0)
        rv = tdg__sized_read(settings, sizeof(*settings), opts->settings,
                             sizes->settings_size);
    if (rv == 0)
        rv = tdg__sized_read(watcher, sizeof(*watcher), opts->watcher,
                             sizes->watcher_size);
    return rv;
}

int tdg__options_copy(const tdg__given_opts_t *sizes, tdg_server_opts_t *ret) {
    tdg_server_opts_t given;
    int rv = tdg__sized_read(&given, sizeof(given), sizes->opts, sizes->opts_size);

    if (rv < 0)
        return rv;
    if (given.workers > MAX_WORKERS || (given.flags & (TDG_NO_LEGACY | TDG_NO_MODERN)) ==
                                           (TDG_NO_LEGACY | TDG_NO_MODERN))
        return TDG_EINVAL;
    fill_in(&given);
    for (size_t i = 0; const_strings(&given, i) != NULL; i++) {
        const char *text = *const_strings(&given, i);

        if (text != NULL && !tdg__utf8_is_valid(text, strlen(text)))
            return TDG_EINVAL;
    }
    *ret = given;
    for (size_t i = 0; const_strings(ret, i) != NULL; i++)
        *const_strings(ret, i) = NULL;
    rv = copy_nested(&given, sizes, ret);
    for (size_t i = 0; rv == 0 && const_strings(ret, i) != NULL; i++) {
        char *copy;

        rv = tdg__copy(*const_strings(&given, i), &copy) ? 0 : TDG_ENOMEM;
        *const_strings(ret, i) = copy;
    }
    return rv;
}

void tdg__options_free(tdg_server_opts_t *opts) {
    for (size_t i = 0; const_strings(opts, i) != NULL; i++)
        tdg__free((void *)(uintptr_t)*const_strings(opts, i));
    tdg__free((void *)(uintptr_t)opts->settings);
    tdg__free((void *)(uintptr_t)opts->watcher);
}
