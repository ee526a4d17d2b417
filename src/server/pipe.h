/* SPDX-License-Identifier: MIT
 *
 * One client on a pipe (stdio): both eras at once, in lines. A legacy session begins with
 * initialize and lasts as long as the pipe; any number of modern listens (bounded) share
 * it. When the client does not read, nothing is read from it either. */
#ifndef TDG_SERVER_PIPE_H
#define TDG_SERVER_PIPE_H

#include <stdbool.h>

#include "server/call.h"
#include "server/worker.h"

typedef struct tdg__pipe tdg__pipe_t;

/* Returns 0, TDG_ENOMEM or TDG_ESYSTEM. When input has ended, or the pipe is beyond
 * repair, the worker hears tdg__worker_pipe_ended(). */
int tdg__pipe_open(tdg__worker_t *worker, int input, int output, bool erlmcp,
                   tdg__pipe_t **ret);

/* No further request is taken. */
void tdg__pipe_stop(tdg__pipe_t *pipe);

/* Completes the listens that have nothing more to write. */
void tdg__pipe_finish(tdg__pipe_t *pipe);

/* Whether something is still to be answered or written. */
bool tdg__pipe_busy(const tdg__pipe_t *pipe);

/* For legacy.c: the call, which is answered next, acknowledges a subscription. True: it
 * is part of a batch, and the engine is told once the answers of that have left. False:
 * it is not, or memory is out. */
bool tdg__pipe_acknowledges(const tdg__call_t *call, const tdg__target_t *target);

/* Closes; done(arg) follows when the pipe is freed. */
void tdg__pipe_close(tdg__pipe_t *pipe, uint32_t timeout_ms, void (*done)(void *arg),
                     void *arg);

#endif
