/* SPDX-License-Identifier: MIT
 *
 * What ends a command before it has a result: its time-out, or a signal.
 *
 * The time-out is a total: it covers connecting, every request and every page of a list.
 * When it expires, the client is stopped, and the waiting call reports it.
 *
 * A program that we have started has a session of its own and gets no Ctrl-C, and if it
 * does not read its input, it does not notice our exit. So the signals that end us
 * (SIGINT, SIGTERM, SIGHUP) first end the program, as tdg_client_close() does, and then
 * us. A second signal does not wait for that. Without a program, signals have their usual
 * effect.
 *
 * Once per process. Signals that were ignored at the start stay ignored. */
#ifndef TDG_CLI_INTERRUPT_H
#define TDG_CLI_INTERRUPT_H

#include "ask/target.h"

/* The signals that end us: SIGINT, SIGTERM and SIGHUP, without those that are ignored.
 * Returns how many. */
enum { CLI_ENDING_SIGNALS = 3 };
size_t cli_ending_signals(int ret[CLI_ENDING_SIGNALS]);

/* Sets a handler for them, with these flags of sigaction(). */
void cli_handle_ending_signals(void (*handler)(int number), int flags);

/* Before the client is made: threads that are started later leave these signals to us.
 * Returns CLI_OK, or another exit code with the reason reported. */
int cli_interrupt_begin(cli_target_t *target);

/* After the client was closed: where a signal has come, ends the process by it. Before
 * cli_target_done(). */
void cli_interrupt_end(void);

#endif
