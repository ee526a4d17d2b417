/* SPDX-License-Identifier: MIT
 *
 * Log lines, of servers and of clients. The levels are those of MCP. */
#ifndef TIDINGS_LOG_H
#define TIDINGS_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tdg_log_level {
    TDG_LOG_DEBUG,
    TDG_LOG_INFO,
    TDG_LOG_NOTICE,
    TDG_LOG_WARNING,
    TDG_LOG_ERROR,
    TDG_LOG_CRITICAL,
    TDG_LOG_ALERT,
    TDG_LOG_EMERGENCY,
} tdg_log_level_t;

/* One line of UTF-8 without its end, in English, at most TDG_LOG_MAX bytes; borrowed. The
 * comments of the options `log` describe on which thread and how often it is called. */
typedef void (*tdg_log_fn)(void *user, tdg_log_level_t level, const char *message);

enum { TDG_LOG_MAX = 1000 };

#ifdef __cplusplus
}
#endif

#endif
