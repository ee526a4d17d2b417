/* SPDX-License-Identifier: MIT
 *
 * What the files about commands share: command.c (the options, and programs that run and
 * end), command_daemon.c (programs that stay and write lines) and command_args.c. */
#ifndef TDG_SOURCE_COMMAND_H
#define TDG_SOURCE_COMMAND_H

#include "base/queue.h"
#include "net/process.h"
#include "source/common/source.h"

typedef struct tdg__command_source {
    tdg__source_t source;
    char **argv;
    bool shell;
    int mode;
    int64_t every_ms;
    int64_t max_programs;
    char *cwd;
    json_t *env;

    tdg__queue_t runs;    /* command.c's */
    tdg__queue_t daemons; /* command_daemon.c's */
    int64_t running;      /* programs, also those that are being stopped */
    uv_timer_t timer;     /* the next turn of the interval */
    uint64_t logged_ms;   /* when a line of standard error was last logged */
    unsigned not_logged;  /* lines since then */
} tdg__command_source_t;

enum { TDG__COMMAND_INTERVAL, TDG__COMMAND_LINES, TDG__COMMAND_NUL };

enum { TDG__COMMAND_WHY = TDG__PROCESS_LINE + 100 };

/* Room for the first line that a program wrote to its standard error. */
typedef struct tdg__command_words {
    char first[TDG__PROCESS_LINE + 1];
} tdg__command_words_t;

/* ---- command_args.c ----------------------------------------------------- */

/* The arguments and the environment for a URI, for tdg__free_strings(). Return 0,
 * TDG_ENOMEM, or TDG_ENOTFOUND where a variable has a value that the program would take
 * for an option. */
int tdg__command_argv(const tdg__command_source_t *command, const char *uri, char ***ret);
int tdg__command_env(const tdg__command_source_t *command, const char *uri, char ***ret);

/* ---- command.c ---------------------------------------------------------- */

/* Whether one more program may run now. */
bool tdg__command_has_room(const tdg__command_source_t *command);

/* Starts the program for a URI; the caller decrements `running` when it has ended.
 * Returns 0, or a code with a text in `why`. */
int tdg__command_start(tdg__command_source_t *command, const char *uri,
                       const tdg__process_ops_t *ops, void *user, tdg__process_t **ret,
                       char why[TDG__COMMAND_WHY]);

/* How a program ended, for people: "exit status 3: no such host". */
void tdg__command_describe(const tdg__command_source_t *command,
                           const tdg__process_end_t *end,
                           const tdg__command_words_t *words, char why[TDG__COMMAND_WHY]);

/* A line of standard error: the first is remembered, and one is logged now and then. */
void tdg__command_log_line(tdg__command_source_t *command, tdg__command_words_t *words,
                           const char *line);

/* ---- command_daemon.c ---------------------------------------------------- */

int tdg__daemon_watch(tdg__command_source_t *command, const char *uri);
void tdg__daemon_unwatch(tdg__command_source_t *command, const char *uri);
void tdg__daemon_fetch(tdg__command_source_t *command, tdg__fetch_t *fetch);
void tdg__daemon_cancel(tdg__command_source_t *command, tdg__fetch_t *fetch);
void tdg__daemons_close(tdg__command_source_t *command);

#endif
