/* SPDX-License-Identifier: MIT
 *
 * Messages for the operator: tdg_server_opts_t.log. Messages that a client can cause
 * repeatedly are events: at most one message of each per second. Those in between are
 * counted, and the count is logged when the second is over, so the last count is always
 * right. Thread-safe; the operator's function runs without a lock. */
#ifndef TDG_SERVER_LOG_H
#define TDG_SERVER_LOG_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

#include <tidings/server.h>

typedef enum tdg__event {
    TDG__EVENT_CONNECTION_REFUSED,
    TDG__EVENT_SESSION_REFUSED,
    TDG__EVENT_CALLER_REFUSED,
    TDG__EVENT_CALL_REFUSED,
    TDG__EVENT_STREAM_REFUSED,
    TDG__EVENT_SUBSCRIPTION_REFUSED,
    TDG__EVENT_ANSWER_REFUSED,
    TDG__EVENT_NOT_ACCEPTED,
    TDG__EVENT_LIST_CHANGE_LOST,
    TDG__EVENT_SETTING_LOST,
    TDG__EVENT_COUNT,
} tdg__event_t;

/* ---- For all of the server ---------------------------------------------- */

/* One line. What was not ours to write (control characters, bytes that are no UTF-8) is
 * replaced, and what is too long is cut. Not with a lock that the operator's function
 * could need: those of server.c and the hub. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void tdg__server_log(tdg_server_t *server, tdg_log_level_t level, const char *format,
                     ...);

/* `detail` says more and may be NULL; of those that are left out it is lost. */
void tdg__server_log_event(tdg_server_t *server, tdg__event_t event, const char *detail);

/* Logs the counts whose second is over. Cheap where there are none; call it now and
 * then. */
void tdg__server_log_settle(tdg_server_t *server);

/* ---- For the server itself ---------------------------------------------- */

typedef struct tdg__log {
    tdg_log_fn call; /* NULL: nothing is logged */
    void *user;
    atomic_bool owes; /* some count is not logged yet */
    pthread_mutex_t lock;
    struct {
        int64_t quiet_until_ms;
        unsigned left_out;
    } events[TDG__EVENT_COUNT]; /* under the lock */
} tdg__log_t;

void tdg__log_init(tdg__log_t *log, tdg_log_fn call, void *user);
void tdg__log_done(tdg__log_t *log);
void tdg__log_line(tdg__log_t *log, tdg_log_level_t level, const char *format,
                   va_list args) __attribute__((format(printf, 3, 0)));
void tdg__log_event(tdg__log_t *log, tdg__event_t event, const char *detail,
                    int64_t now_ms);

/* With INT64_MAX for `now_ms`, all counts. */
void tdg__log_settle(tdg__log_t *log, int64_t now_ms);

#endif
