/* SPDX-License-Identifier: MIT
 *
 * A server program on our side of its stdio: lines go to its standard input, lines come
 * from its standard output, and its standard error is passed on. It runs in its own
 * process group and is stopped with everything that it started: its input is closed,
 * SIGTERM follows after `grace_ms`, SIGKILL after the same time again. */
#ifndef TDG_CLIENT_CHILD_H
#define TDG_CLIENT_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

typedef struct tdg__child tdg__child_t;

enum { TDG__CHILD_ERROR_LINE = 1000, TDG__CHILD_MAX_QUEUED = 64 << 20 };

typedef struct tdg__child_calls {
    /* A line of its output without its end; borrowed. NULL: it was longer than allowed,
     * and was skipped. Empty lines are not reported. */
    void (*line)(void *user, const char *data, size_t len);
    void (*said)(void *user, const char *line); /* standard error; control characters
                                                   replaced, valid UTF-8, cut */
    /* Its output has ended, it has exited, or could not be started: `why` is one line.
     * Once; then only `gone` follows. */
    void (*ended)(void *user, const char *why);
    void (*gone)(void *user); /* after tdg__child_stop(): the last call, from the loop */
} tdg__child_calls_t;

/* Everything is borrowed for the call. */
typedef struct tdg__child_opts {
    const char *const *argv; /* argv[0] is looked up in PATH */
    const char *const *env;  /* NULL: ours */
    const char *cwd;         /* NULL: ours */
    size_t max_line_bytes;
    uint32_t grace_ms;
} tdg__child_opts_t;

/* Starts it. Where that fails `ended` says why, from the loop. Returns 0 or TDG_ENOMEM.
 */
int tdg__child_start(uv_loop_t *loop, const tdg__child_opts_t *opts,
                     const tdg__child_calls_t *calls, void *user, tdg__child_t **ret);

/* Writes a line; its end is added. Returns 0, TDG_EENDED (its input is closed),
 * TDG_ETOOLARGE (it does not read, and too much waits) or TDG_ENOMEM. */
int tdg__child_send(tdg__child_t *child, const char *line, size_t len);

/* Ends it as said above; of the calls only `said` and `gone` come any more. */
void tdg__child_stop(tdg__child_t *child);

/* The process, or 0: for tests. */
int tdg__child_pid(const tdg__child_t *child);

#endif
