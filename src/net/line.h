/* SPDX-License-Identifier: MIT
 *
 * Messages as lines on two file descriptors: pipes, sockets, terminals or files. Used for
 * stdio. Partial reads are put together; a line that is too long is reported and skipped
 * up to its end, so that the next one is understood again. */
#ifndef TDG_NET_LINE_H
#define TDG_NET_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "net/net.h"
#include "net/outlet.h"

typedef struct tdg__line tdg__line_t;

typedef struct tdg__line_calls {
    /* A line without its end ("\n" or "\r\n"); borrowed. Empty lines are skipped. NULL: a
     * line was longer than allowed. */
    void (*line)(void *user, const char *data, size_t len);
    void (*drained)(void *user);
    /* Input has ended or failed (what came before a missing last newline was reported
     * first); once. Output still works. */
    void (*ended)(void *user);
} tdg__line_calls_t;

/* Starts reading. The descriptors stay the caller's: they are duplicated. Returns 0,
 * TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__line_open(tdg__net_t *net, int input, int output, size_t max_bytes,
                   const tdg__line_calls_t *calls, void *user, tdg__line_t **ret);

/* For writing; never NULL, never chunked. Every message must bring its "\n". */
tdg__outlet_t *tdg__line_outlet(tdg__line_t *line);

/* Reads no further until resumed: for when too much waits to be written. Lines that were
 * read already are not reported before the resume. */
void tdg__line_pause(tdg__line_t *line, bool paused);

/* Closes, once what is queued has been written or `timeout_ms` is over; then frees itself
 * and calls done(arg). No other call comes from now on. */
void tdg__line_close(tdg__line_t *line, uint32_t timeout_ms, void (*done)(void *arg),
                     void *arg);

#endif
