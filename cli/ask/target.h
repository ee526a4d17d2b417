/* SPDX-License-Identifier: MIT
 *
 * The server that a command connects to: an address, or a program to start. The common
 * part of all commands with a TARGET: options, connecting, error messages with advice,
 * exit codes.
 *
 * ask.h is the common part of the commands that query a server. watch and doctor call
 * cli_target_init(), cli_parse(), cli_target_take(), cli_target_connect(),
 * cli_target_close() and cli_target_done() in this order.
 *
 * cli_target_take() consumes TARGET: argv[0] is the next operand afterwards. */
#ifndef TDG_CLI_TARGET_H
#define TDG_CLI_TARGET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <tidings/client.h>

#include "command.h"

enum { CLI_TARGET_SAID = 16, CLI_TARGET_SAID_MAX = 300, CLI_TARGET_NAME_MAX = 512 };

typedef struct cli_target {
    const cli_command_t *command;

    cli_texts_t headers; /* options */
    const char *token_file, *ca_file, *proxy;
    int era; /* a tdg_era_t */
    bool insecure_token, verbose;
    long timeout_ms; /* of the whole command; 0: CLI_TARGET_TOTAL_MS */
    char **program;  /* NULL: it is an address */

    const char *url;                /* borrowed from argv; NULL: it is a program */
    char name[CLI_TARGET_NAME_MAX]; /* for people, without passwords; one line */

    atomic_bool expired;   /* it was stopped because the time is over */
    atomic_bool connected; /* once */

    pthread_mutex_t lock; /* guards all below */
    tdg_client_t *client; /* from its making to its closing, else NULL */
    bool stopped;
    /* The last output of the program on standard error. */
    char said[CLI_TARGET_SAID][CLI_TARGET_SAID_MAX];
    size_t said_count; /* in all; the newest is at (said_count - 1) % CLI_TARGET_SAID */
} cli_target_t;

extern const char *const cli_eras[];

enum { CLI_MAX_TIME_MS = 24 * 3600 * 1000, CLI_TARGET_TOTAL_MS = 60 * 1000 };

#define CLI_TARGET_OPTIONS(type, target)                                                 \
    CLI_PROGRAM_OPTION(type, target.program,                                             \
                       "start this program instead of using a URL, and connect to\n"     \
                       "its standard input and output"),                                 \
        CLI_TEXTS_OPTION(type, target.headers, "header", "TEXT",                         \
                         "send the header 'Name: value' with every request; can be\n"    \
                         "given several times"),                                         \
        CLI_STRING_OPTION(type, target.token_file, "token-file", "FILE",                 \
                          "send the token in this file as Authorization: Bearer; the\n"  \
                          "file is read again when the server refuses the token"),       \
        CLI_CHOICE_OPTION(type, target.era, "era", "NAME", cli_eras,                     \
                          "protocol: modern (2026-07-28), legacy (2025-11-25 and\n"      \
                          "older) or auto (the default: detected)"),                     \
        CLI_STRING_OPTION(type, target.ca_file, "ca-file", "FILE",                       \
                          "trust these certificates instead of the system's"),           \
        CLI_STRING_OPTION(type, target.proxy, "proxy", "URL",                            \
                          "connect through this HTTP proxy"),                            \
        CLI_FLAG_OPTION(type, target.insecure_token, "insecure-token",                   \
                        "allow tokens and headers over http: to other machines"),        \
        CLI_FLAG_OPTION(type, target.verbose, "verbose",                                 \
                        "log the connection, and what the program prints, on\n"          \
                        "standard error")

/* For commands that ask and get an answer. */
#define CLI_TIMEOUT_OPTION(type, field)                                                  \
    CLI_TIME_OPTION(type, field, "timeout", "TIME", 1, CLI_MAX_TIME_MS,                  \
                    "time limit for the whole command, such as 5s [1m]")

/* A line about TARGET, and one about exit codes, for the descriptions of commands. */
#define CLI_TARGET_HELP                                                                  \
    "TARGET is the address of a server, such as http://127.0.0.1:8808, or, at the end\n" \
    "of the line, a server program to start: -- tidings serve --stdio notes. Without\n"  \
    "TARGET, the address comes from the environment variable TIDINGS_URL"
#define CLI_TARGET_EXITS                                                                 \
    "Exit codes: 0 success, 1 failure, 2 wrong command line, 3 server unreachable,\n"    \
    "4 timed out, 5 authentication or authorisation failed, 6 the server does not\n"     \
    "have or support it."

/* The address in TIDINGS_URL, for commands that get none; NULL: there is none. */
const char *cli_default_url(void);

/* Whether an operand is an address: http:// or https://. */
bool cli_is_url(const char *text);

/* Before cli_parse(). Afterwards cli_target_done(), in any case. */
void cli_target_init(cli_target_t *target, const cli_command_t *command);
void cli_target_done(cli_target_t *target);

/* After cli_parse(): finds out what TARGET is. An address is taken off the operands:
 * *argv and *operands are moved on. Returns CLI_OK,
 * or CLI_USAGE with the reason reported. */
int cli_target_take(cli_target_t *target, char ***argv, int *operands);

/* Fills options for a client of this target: all zero but for what the command line says
 * and the log. `user` is the target. */
void cli_target_opts(cli_target_t *target, tdg_client_opts_t *ret);

/* Connects. `opts` as cli_target_opts() made them, perhaps changed. Returns CLI_OK and a
 * new client, or another exit code, with the reason reported. */
int cli_target_connect(cli_target_t *target, const tdg_client_opts_t *opts,
                       tdg_client_t **ret);

/* Begins to close the client, also one that is still connecting: calls that wait for the
 * server return TDG_EENDED, about which cli_target_failed() says nothing. From any
 * thread, until cli_target_done(). */
void cli_target_stop(cli_target_t *target);

/* The same, because the time is over: cli_target_failed() reports that then. */
void cli_target_expire(cli_target_t *target);

/* How long the command may take. */
long cli_target_total_ms(const cli_target_t *target);

/* Closes the client, if there is one. */
void cli_target_close(cli_target_t *target);

/* Says what went wrong, on standard error: what was asked (NULL: nothing), what happened,
 * and what to do about it. Ends `failure`, which may be all zero. Returns the exit code.
 */
int cli_target_failed(cli_target_t *target, const char *what, int code,
                      tdg_failure_t *failure);

/* The exit code for a code of the library. `failure` may be NULL. */
int cli_exit_code(int code, const tdg_failure_t *failure);

#endif
