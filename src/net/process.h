/* SPDX-License-Identifier: MIT
 *
 * A child process in its own process group (and session). Its standard input is empty or
 * written by us, its output is passed on unchanged, its standard error line by line. It
 * is stopped with everything that it started: SIGTERM to the group, SIGKILL two seconds
 * (`grace_ms`) later. When the program itself has ended, the rest of its group may finish
 * its output for as long and is then killed; only processes that left the group (setsid)
 * continue.
 *
 * Everything happens on the loop; only the fork itself blocks. If you write input, block
 * or ignore SIGPIPE in the thread of the loop: libuv writes with write(). */
#ifndef TDG_NET_PROCESS_H
#define TDG_NET_PROCESS_H

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

    /* A line of its standard error, cut at `line_bytes`, control characters replaced; not
     * valid UTF-8 where the program does not write such. */
    void (*said)(void *user, const char *line);

    /* It has ended and is gone: the last call, always from the loop and never from
     * inside of tdg__process_start() or _stop(). */
    void (*ended)(void *user, const tdg__process_end_t *end);

    /* Its output has ended, though it may live on. May be NULL; not called any more once
     * it was told to stop. */
    void (*output_ended)(void *user);
} tdg__process_ops_t;

enum { TDG__PROCESS_LINE = 300, TDG__PROCESS_LONG_LINE = 1000 };

typedef struct tdg__process_opts {
    char *const *argv; /* borrowed for the call; argv[0] is looked up in PATH */
    char *const *env;  /* likewise: the whole environment; NULL: ours */
    const char *cwd;   /* NULL: ours */
    size_t max_input;  /* bytes that may wait until it reads, below 2 GiB; 0: no input */
    size_t line_bytes; /* of standard error; 0: TDG__PROCESS_LINE; at most _LONG_LINE */
    uint32_t grace_ms; /* 0: 2000 */
    const tdg__process_ops_t *ops;
    void *user;
} tdg__process_opts_t;

/* Starts a program; where that fails, ended() says why. Returns 0 or TDG_ENOMEM. */
int tdg__process_start(uv_loop_t *loop, const tdg__process_opts_t *opts,
                       tdg__process_t **ret);

/* Ends it, with its group; ended() follows. Again does no harm. */
void tdg__process_stop(tdg__process_t *process);

/* The same in peace: its input ends, once what waits is written; tdg__process_stop() only
 * follows where it still runs after `grace_ms`. */
void tdg__process_finish(tdg__process_t *process);

/* A line to its input; copied, and its end is added. Returns 0, TDG_EENDED (it has closed
 * its input, or was told to end), TDG_ETOOLARGE (it does not read, and too much waits) or
 * TDG_ENOMEM: then nothing of it is written. */
int tdg__process_write_line(tdg__process_t *process, const char *line, size_t len);

/* Whether it has exited; *ret is how. */
bool tdg__process_exited(const tdg__process_t *process, tdg__process_end_t *ret);

int tdg__process_pid(const tdg__process_t *process); /* 0: it was not started */

/* Takes no output for a while, so that a program that writes without end waits. */
void tdg__process_rest(tdg__process_t *process, uint64_t ms);

/* So many bytes of the output that just came were of no use. A program that writes much
 * of that has to wait, as it has with much standard error. */
void tdg__process_wasted(tdg__process_t *process, size_t bytes);

#endif
