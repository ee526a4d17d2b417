/* SPDX-License-Identifier: MIT */
#include "server/log/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include <uv.h>

#include "base/text.h"
#include "server/context/context.h"

enum { QUIET_MS = 1000 };

static const struct {
    tdg_log_level_t level;
    const char *text;
} events[TDG__EVENT_COUNT] = {
    [TDG__EVENT_CONNECTION_REFUSED] =
        {TDG_LOG_WARNING, "a connection was refused: the limit max_connections (config: "
                          "max-connections) is reached"},
    [TDG__EVENT_SESSION_REFUSED] =
        {TDG_LOG_WARNING, "a session was refused: the limit max_sessions (config: "
                          "max-sessions) is reached"},
    [TDG__EVENT_CALLER_REFUSED] =
        {TDG_LOG_WARNING, "a session was refused: the limit max_sessions_per_address "
                          "(config: max-sessions-per-address) is reached"},
    [TDG__EVENT_CALL_REFUSED] =
        {TDG_LOG_WARNING,
         "a request was refused: the limit max_calls (config: max-calls) is reached"},
    [TDG__EVENT_STREAM_REFUSED] =
        {TDG_LOG_WARNING,
         "a stream was refused: the limit max_streams (config: max-streams) is reached"},
    [TDG__EVENT_SUBSCRIPTION_REFUSED] = {TDG_LOG_WARNING, "a subscription was refused"},
    [TDG__EVENT_ANSWER_REFUSED] =
        {TDG_LOG_WARNING,
         "a request was refused: large responses use all of their memory"},
    [TDG__EVENT_NOT_ACCEPTED] = {TDG_LOG_ERROR,
                                 "connections cannot be accepted at the moment"},
    [TDG__EVENT_LIST_CHANGE_LOST] = {TDG_LOG_ERROR,
                                     "could not notify clients that a list has changed"},
    [TDG__EVENT_SETTING_LOST] = {TDG_LOG_ERROR,
                                 "a setting was not applied in every worker"},
};

void tdg__log_init(tdg__log_t *log, tdg_log_fn call, void *user) {
    *log = (tdg__log_t){.call = call, .user = user};
    for (int i = 0; i < TDG__EVENT_COUNT; i++)
        log->events[i].quiet_until_ms = INT64_MIN;
    pthread_mutex_init(&log->lock, NULL);
}

void tdg__log_done(tdg__log_t *log) {
    pthread_mutex_destroy(&log->lock);
}

/* ---- Lines -------------------------------------------------------------- */

/* A character that was cut leaves at most three bytes. */
static void trim_cut(char *line) {
    size_t len = strlen(line);

    for (int i = 0; i < 3 && len > 0 && !tdg__utf8_is_valid(line, len); i++)
        line[--len] = '\0';
}

/* Text from outside may neither begin a line of its own nor move the cursor of a
 * terminal. */
static void clean(char *line) {
    bool valid = tdg__utf8_is_valid(line, strlen(line));

    for (unsigned char *at = (unsigned char *)line; *at != '\0'; at++)
        if (*at < 0x20 || *at == 0x7f || (*at >= 0x80 && !valid))
            *at = '?';
        else if (*at == 0xc2 && at[1] < 0xa0) /* C1 controls */
            at[0] = at[1] = '?';
}

void tdg__log_line(tdg__log_t *log, tdg_log_level_t level, const char *format,
                   va_list args) {
    char line[TDG_LOG_MAX + 1];

    if (log->call == NULL)
        return;
    if (vsnprintf(line, sizeof(line), format, args) >= (int)sizeof(line))
        trim_cut(line);
    clean(line);
    log->call(log->user, level, line);
}

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void
write_line(tdg__log_t *log, tdg_log_level_t level, const char *format, ...) {
    va_list args;

    va_start(args, format);
    tdg__log_line(log, level, format, args);
    va_end(args);
}

/* ---- Events ------------------------------------------------------------- */

/* Whether it is to be logged now. */
static bool count_event(tdg__log_t *log, tdg__event_t event, int64_t now_ms) {
    bool quiet;

    assert(event >= 0 && event < TDG__EVENT_COUNT);
    pthread_mutex_lock(&log->lock);
    quiet = now_ms < log->events[event].quiet_until_ms;
    if (quiet) {
        log->events[event].left_out++;
        atomic_store(&log->owes, true);
    } else {
        log->events[event].quiet_until_ms = now_ms + QUIET_MS;
    }
    pthread_mutex_unlock(&log->lock);
    return !quiet;
}

void tdg__log_event(tdg__log_t *log, tdg__event_t event, const char *detail,
                    int64_t now_ms) {
    if (log->call == NULL)
        return;

    tdg__log_settle(log, now_ms); /* what was left out comes first */
    if (!count_event(log, event, now_ms))
        return;
    write_line(log, events[event].level, "%s%s%s", events[event].text,
               detail != NULL ? ": " : "", detail != NULL ? detail : "");
}

/* Takes the count of one event that is due; 0: none. Logging it begins a quiet second as
 * well, or a flood would be logged twice in a moment. */
static unsigned take_count(tdg__log_t *log, int event, int64_t now_ms) {
    unsigned count = 0;

    pthread_mutex_lock(&log->lock);
    if (now_ms >= log->events[event].quiet_until_ms && log->events[event].left_out > 0) {
        count = log->events[event].left_out;
        log->events[event].left_out = 0;
        if (now_ms < INT64_MAX - QUIET_MS)
            log->events[event].quiet_until_ms = now_ms + QUIET_MS;
    } else if (log->events[event].left_out > 0) {
        atomic_store(&log->owes, true);
    }
    pthread_mutex_unlock(&log->lock);
    return count;
}

void tdg__log_settle(tdg__log_t *log, int64_t now_ms) {
    if (!atomic_exchange(&log->owes, false))
        return;
    for (int i = 0; i < TDG__EVENT_COUNT; i++) {
        unsigned count = take_count(log, i, now_ms);

        if (count > 0)
            write_line(log, events[i].level, "%s (%u more)", events[i].text, count);
    }
}

/* ---- For all of the server ---------------------------------------------- */

static int64_t now_ms(void) {
    return (int64_t)(uv_hrtime() / 1000000);
}

void tdg__server_log(tdg_server_t *server, tdg_log_level_t level, const char *format,
                     ...) {
    va_list args;

    va_start(args, format);
    tdg__log_line(server->log, level, format, args);
    va_end(args);
}

void tdg__server_log_event(tdg_server_t *server, tdg__event_t event, const char *detail) {
    tdg__log_event(server->log, event, detail, now_ms());
}

void tdg__server_log_settle(tdg_server_t *server) {
    tdg__log_settle(server->log, now_ms());
}
