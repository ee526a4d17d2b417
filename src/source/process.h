/* SPDX-License-Identifier: MIT
 *
 * A program that runs beside us, in a group (and session) of its own. Its standard input
 * is empty, its output comes to us as it is, its standard error line by line. It is
 * stopped with all that it has started: SIGTERM to the group, SIGKILL two seconds later.
 * When the program itself has ended, what is left of its group may finish its output for
 * two seconds and is killed then; only what left the group (setsid) lives on.
 *
 * Everything happens on the loop; nothing waits for the program but the fork itself. */
#ifndef TDG_SOURCE_PROCESS_H
#define TDG_SOURCE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <uv.h>

typedef struct tdg__process tdg__process_t;

typedef struct tdg__process_end {
    int error;       /* it could not be started: a code of libuv; else 0 */
    int exit_status; /* as it said, where no signal ended it */
    int signal;      /* that ended it; else 0 */
    int64_t duration_ms;
} tdg__process_end_t;

typedef struct tdg__process_ops {
    /* Bytes of its output. Not called any more once it was told to stop. */
    void (*output)(void *user, const char *data, size_t len);

    /* A line of its standard error, cut at TDG__PROCESS_LINE bytes, control characters
     * replaced; not valid UTF-8 where the program does not write such. */
    void (*said)(void *user, const char *line);

    /* It has ended and is gone: the last call, always from the loop and never from
     * inside of tdg__process_start() or _stop(). */
    void (*ended)(void *user, const tdg__process_end_t *end);
} tdg__process_ops_t;

enum { TDG__PROCESS_LINE = 300 };

typedef struct tdg__process_opts {
    char *const *argv; /* borrowed for the call; argv[0] is looked up in PATH */
    char *const *env;  /* likewise: the whole environment */
    const char *cwd;
    const tdg__process_ops_t *ops;
    void *user;
} tdg__process_opts_t;

/* Starts a program; where that fails, ended() says why. Returns 0 or TDG_ENOMEM. */
int tdg__process_start(uv_loop_t *loop, const tdg__process_opts_t *opts,
                       tdg__process_t **ret);

/* Ends it, with its group; ended() follows. Again does no harm. */
void tdg__process_stop(tdg__process_t *process);

/* Takes no output for a while, so that a program that writes without end waits. */
void tdg__process_rest(tdg__process_t *process, uint64_t ms);

/* So many bytes of the output that just came were of no use. A program that writes much
 * of that has to wait, as it has with much standard error. */
void tdg__process_wasted(tdg__process_t *process, size_t bytes);

#endif
