/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C while a program that we have started runs. It has a session of its own and would
 * not notice: nothing tells a program that does not read its input that we are gone. So
 * the signals that end us (SIGINT, SIGTERM, SIGHUP) end the program first, as
 * tdg_client_close() does, and then us. A second one does not wait for that.
 *
 * Once per process. What was ignored when we were started stays ignored. */
#ifndef TDG_CLI_INTERRUPT_H
#define TDG_CLI_INTERRUPT_H

#include "target.h"

/* Before the client is made: threads that are started later leave these signals to us. */
void cli_interrupt_catch(cli_target_t *target);

/* After the client was closed: where a signal has come, ends the process by it. Before
 * cli_target_done(). */
void cli_interrupt_end(void);

#endif
