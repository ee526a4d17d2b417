/* SPDX-License-Identifier: MIT
 *
 * The common part of commands that query a server and print the result: ls, read, call,
 * prompt, info. */
#ifndef TDG_CLI_ASK_H
#define TDG_CLI_ASK_H

#include "ask/target.h"

/* A command of this kind. `options` is what cli_ask() was given. */
typedef struct cli_asking {
    /* What it does between connecting and leaving; argv are the operands after TARGET.
     * Returns an exit code. */
    int (*ask)(void *options, tdg_client_t *client, char **argv, int count);

    /* What the first of these operands is, "the URI of a resource; ..."; NULL: it takes
     * none. */
    const char *needs;

    /* What else can be wrong with them, or with the options: CLI_OK, or an exit code with
     * the reason reported. May be NULL. */
    int (*check)(const void *options, int count);
} cli_asking_t;

/* Reads the command line into `options`, whose first member is a cli_target_t and whose
 * other members have their defaults; takes TARGET; checks what is left; connects, asks,
 * leaves. Returns the exit code. */
int cli_ask(const cli_command_t *command, const cli_asking_t *asking, int argc,
            char **argv, void *options);

/* Everything in a list, new in *ret. Returns CLI_OK, or an exit code with the reason
 * reported. */
int cli_ask_list(cli_target_t *target, tdg_client_t *client, tdg_list_kind_t list,
                 json_t **ret);

/* What is called `name` in a list, borrowed. NULL: there is none, which is reported,
 * with what was perhaps meant. `what` is "tool" or "prompt". */
const json_t *cli_find_named(const cli_target_t *target, const json_t *list,
                             const char *what, const char *name);

/* The text of a member; "" where it is none. Borrowed. */
const char *cli_string(const json_t *object, const char *name);

/* Whether a text is one of an array. */
bool cli_lists(const json_t *array, const char *text);

/* A value in one line, on standard output. A terminal gets ASCII only. */
void cli_print_json(const json_t *value);

#endif
