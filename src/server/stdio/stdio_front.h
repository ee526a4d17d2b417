/* SPDX-License-Identifier: MIT
 *
 * One client on a pipe (stdio): both eras at once, in lines. A legacy session begins with
 * initialize and lasts as long as the pipe; any number of modern listens (bounded) share
 * it. When the client does not read, nothing is read from it either. */
#ifndef TDG_SERVER_STDIO_FRONT_H
#define TDG_SERVER_STDIO_FRONT_H

#include <stdbool.h>

#include "server/context/context.h"

/* Opens the pipe as a front of the worker, which has HTTP already. `over` is called when
 * input has ended or the pipe is broken, perhaps several times: the server has no client
 * any more. Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__stdio_open(tdg__worker_t *worker, int input, int output, bool erlmcp,
                    void (*over)(tdg_server_t *server));

#endif
