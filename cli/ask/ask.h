/* SPDX-License-Identifier: MIT
 *
 * The frame of commands that ask a server something and print the answer: ls, read, call,
 * prompt, info. */
#ifndef TDG_CLI_ASK_H
#define TDG_CLI_ASK_H

#include "ask/target.h"

/* What a command does between connecting and leaving. `options` is what cli_ask() was
 * given; argv are the operands after TARGET. Returns an exit code. */
typedef int (*cli_ask_fn)(void *options, tdg_client_t *client, char **argv, int count);

/* Reads the command line into `options`, whose first member is a cli_target_t and whose
 * other members have their defaults; takes TARGET; looks whether what is left can be
 * right (`check`, may be NULL: returns CLI_OK or an exit code, with the reason said);
 * connects, asks, leaves. Returns the exit code. */
int cli_ask(const cli_command_t *command, int argc, char **argv, void *options,
            int (*check)(const void *options, char **argv, int count), cli_ask_fn ask);

/* Everything in a list, new in *ret. Returns CLI_OK, or an exit code with the reason
 * said. */
int cli_ask_list(cli_target_t *target, tdg_client_t *client, tdg_list_kind_t list,
                 json_t **ret);

/* What is called `name` in a list, borrowed. NULL: there is none, which has been said,
 * with what was perhaps meant. `what` is "tool" or "prompt". */
const json_t *cli_find_named(const cli_target_t *target, const json_t *list,
                             const char *what, const char *name);

/* The text of a member; "" where it is none. Borrowed. */
const char *cli_string(const json_t *object, const char *name);

/* A value in one line, on standard output. A terminal gets ASCII only. */
void cli_print_json(const json_t *value);

#endif
