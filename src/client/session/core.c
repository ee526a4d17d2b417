/* SPDX-License-Identifier: MIT
 *
 * The core as a whole: it is created and freed here, its timers run here, and its
 * knowledge of the server is reported here. */
#include "client/session/core.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/session/core_internal.h"

enum {
    MAX_LINE = 1000,     /* bytes of a line in the log */
    ODD_EVERY_MS = 1000, /* between two warnings of one kind */
    TICK_MIN = 64,       /* timers that one tick runs, at least */
};

/* ---- From creation to the end ------------------------------------------- */

int tdg__core_create(const tdg__core_opts_t *opts, tdg__core_t **ret) {
    tdg__core_t *core;
    int rv;

    core = tdg__calloc(1, sizeof(*core));
    if (core == NULL)
        return TDG_ENOMEM;

    core->opts = *opts;
    core->client = opts->client;
    core->era = opts->client->era;
    core->state = TDG__CORE_NEW;
    tdg__heap_init(&core->timers);
    tdg__backoff_init(&core->backoff, core->client->retry_ms, core->client->retry_max_ms,
                      core->client->retry_per_minute);
    for (int kind = 0; kind < TDG__ODD_COUNT; kind++)
        core->odd_at[kind] = INT64_MIN;

    rv = tdg__client_requests_init(core);
    if (rv == 0)
        rv = core->opts.upper->init(core);
    if (rv == 0)
        rv = tdg__connect_init(core);
    if (rv < 0) {
        tdg__core_destroy(core);
        return rv;
    }
    *ret = core;
    return 0;
}

void tdg__core_destroy(tdg__core_t *core) {
    if (core == NULL)
        return;

    core->opts.upper->done(core);
    tdg__client_requests_done(core);
    tdg__connect_done(core);
    tdg__heap_done(&core->timers);
    json_decref(core->server_info);
    json_decref(core->capabilities);
    json_decref(core->supported);
    json_decref(core->tool_schemas);
    tdg__free(core->instructions);
    tdg__free(core);
}

/* ---- Time --------------------------------------------------------------- */

int64_t tdg__core_now(const tdg__core_t *core) {
    return core->opts.now(core->opts.user);
}

uint64_t tdg__core_random(tdg__core_t *core) {
    return core->opts.random(core->opts.user);
}

int tdg__core_timer_init(tdg__core_t *core, tdg__core_timer_t *timer,
                         void (*due)(tdg__core_t *core, tdg__core_timer_t *timer)) {
    int rv = tdg__heap_add(&core->timers, &timer->timer, 0);

    timer->due = rv == 0 ? due : NULL;
    return rv;
}

void tdg__core_timer_done(tdg__core_t *core, tdg__core_timer_t *timer) {
    if (timer->due != NULL)
        tdg__heap_remove(&core->timers, &timer->timer);
    timer->due = NULL;
}

void tdg__core_timer_at(tdg__core_t *core, tdg__core_timer_t *timer, int64_t at_ms) {
    tdg__heap_arm(&core->timers, &timer->timer, at_ms);
}

void tdg__core_timer_stop(tdg__core_t *core, tdg__core_timer_t *timer) {
    tdg__heap_disarm(&core->timers, &timer->timer);
}

void tdg__core_tick(tdg__core_t *core) {
    int64_t now = tdg__core_now(core);
    size_t left = TICK_MIN + 4 * core->timers.count;
    tdg__timer_t *due;

    /* Bounded: a timer that is armed for at once again and again must not keep the loop
     * from its sockets. What is left is due at the next call. */
    while (left-- > 0 && (due = tdg__heap_pop(&core->timers, now)) != NULL) {
        tdg__core_timer_t *timer =
            (void *)((char *)due - offsetof(tdg__core_timer_t, timer));

        timer->due(core, timer);
    }
}

int64_t tdg__core_deadline(const tdg__core_t *core) {
    return tdg__heap_next(&core->timers);
}

/* ---- Lines for people --------------------------------------------------- */

static void make_printable(char *line) {
    for (char *c = line; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    }
}

__attribute__((format(printf, 3, 0))) static void
write_line(tdg__core_t *core, tdg_log_level_t level, const char *format, va_list args) {
    char line[MAX_LINE];

    if (core->opts.log == NULL)
        return;

    if (vsnprintf(line, sizeof(line), format, args) < 0)
        return;
    make_printable(line);
    core->opts.log(core->opts.user, level, line);
}

void tdg__core_program_line(tdg__core_t *core, const char *text) {
    char line[MAX_LINE];

    if (core->opts.program_line == NULL)
        return;

    snprintf(line, sizeof(line), "%s", text);
    make_printable(line);
    core->opts.program_line(core->opts.user, line);
}

void tdg__core_log(tdg__core_t *core, tdg_log_level_t level, const char *format, ...) {
    va_list args;

    va_start(args, format);
    write_line(core, level, format, args);
    va_end(args);
}

void tdg__core_odd(tdg__core_t *core, tdg__odd_t kind, const char *format, ...) {
    int64_t now = tdg__core_now(core);
    va_list args;

    if (core->odd_at[kind] != INT64_MIN && now - core->odd_at[kind] < ODD_EVERY_MS)
        return;
    core->odd_at[kind] = now;

    va_start(args, format);
    write_line(core, TDG_LOG_WARNING, format, args);
    va_end(args);
}

/* ---- What is known ------------------------------------------------------ */

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

/* A new reference; an empty one where it is not known. */
static json_t *share(json_t *known, json_t *(*make)(void)) {
    return known != NULL ? json_incref(known) : make();
}

int tdg__core_facts(const tdg__core_t *core, tdg_server_facts_t *ret) {
    static const char *const transports[] = {
        [TDG__TRANSPORT_HTTP] = "http",
        [TDG__TRANSPORT_SSE] = "sse",
        [TDG__TRANSPORT_STDIO] = "stdio",
    };
    const char *protocol = tdg__version_text(core->version);
    const json_t *resources = json_object_get(core->capabilities, "resources");
    tdg_server_facts_t facts = {
        .era = core->era,
        .protocol = protocol != NULL ? protocol : "",
        .transport = transports[core->transport_kind],
        .name = text_of(core->server_info, "name"),
        .version = text_of(core->server_info, "version"),
        .info = share(core->server_info, json_object),
        .capabilities = share(core->capabilities, json_object),
        .supported = share(core->supported, json_array),
        .instructions = core->instructions,
        .subscribe = json_is_true(json_object_get(resources, "subscribe")),
        .ours = core->ours,
    };

    if (facts.info == NULL || facts.capabilities == NULL || facts.supported == NULL) {
        json_decref(facts.info);
        json_decref(facts.capabilities);
        json_decref(facts.supported);
        return TDG_ENOMEM;
    }

    *ret = facts;
    return 0;
}

void tdg__core_count(const tdg__core_t *core, tdg_client_counters_t *ret) {
    *ret = core->counts;
}
