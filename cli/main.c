/* SPDX-License-Identifier: MIT
 *
 * The program: finds the subcommand in a table and runs it. Exit codes are those of
 * command.h: 0 success, 1 failure, 2 wrong command line. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <tidings/tidings.h>

#include "base/nearest.h"
#include "command.h"
#include "config/left_out.h"
#include "serve/config.h"

const cli_command_t *const cli_commands[] = {
    &cli_init,     &cli_check, &cli_serve,
#ifndef TDG_WITHOUT_POSTGRES
    &cli_postgres,
#endif
    &cli_demo,
#ifndef TDG_WITHOUT_CLIENT
    &cli_publish,  &cli_watch, &cli_ls,     &cli_read,       &cli_call,
    &cli_prompt,   &cli_info,  &cli_doctor, &cli_completion,
#endif
    &cli_help,     NULL,
};

static void print_version(void) {
    printf("tidings %s\n", tdg_version());
    for (const tdg__left_out_t *out = tdg__left_out; out->name != NULL; out++)
        printf("%s%s%s", out == tdg__left_out ? "without: " : ", ", out->name,
               out[1].name == NULL ? "\n" : "");
}

static const char *command_at(const void *table, size_t i) {
    const cli_command_t *const *rows = table;

    return rows[i] != NULL ? rows[i]->name : NULL;
}

static const cli_command_t *find_command(const char *name) {
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        if (strcmp(cli_commands[i]->name, name) == 0)
            return cli_commands[i];
    return NULL;
}

static int unknown_command(const char *name) {
    const char *nearest = tdg__nearest(name, command_at, cli_commands);

    if (nearest != NULL)
        return cli_usage_error("unknown command '%s'; did you mean '%s'?", name, nearest);
    return cli_usage_error("unknown command '%s'%s; `tidings --help` lists them", name,
                           tdg__left_out[0].name != NULL ? " in this build" : "");
}

static void print_overview(FILE *out) {
    fprintf(out, "usage: tidings COMMAND [ARGUMENT]...\n\n"
                 "Live resources for the Model Context Protocol.\n\n"
                 "Commands:\n");
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        fprintf(out, "  %-10s %s\n", cli_commands[i]->name, cli_commands[i]->summary);
    fprintf(out,
            "\nOptions:\n"
            "  --help     show this text; after a command, its description and options\n"
            "  --version  print the version, and the parts that this build leaves out\n\n"
            "`man tidings-COMMAND` describes a command in detail.\n");
}

typedef struct help_options {
    int format; /* a tdg__reference_format_t */
} help_options_t;

static const char *const formats[] = {"text", "markdown", "mdoc", NULL};

static const cli_option_t help_table[] = {
    CLI_CHOICE_OPTION(help_options_t, format, "format", "NAME", formats,
                      "format of `help config`: text (the default), markdown\n"
                      "or mdoc"),
    CLI_END,
};

static int run_help(const cli_command_t *self, int argc, char **argv) {
    help_options_t opts = {.format = TDG__REFERENCE_TEXT};
    const cli_command_t *command;
    int operands, exit_code;

    if (!cli_parse(self, argc, argv, &opts, &operands, &exit_code))
        return exit_code;
    if (operands == 0) {
        print_overview(stdout);
        return CLI_OK;
    }

    if (strcmp(argv[0], "config") == 0)
        return cli_print_reference((tdg__reference_format_t)opts.format);
    command = find_command(argv[0]);
    if (command == NULL)
        return unknown_command(argv[0]);
    cli_print_help(command);
    return CLI_OK;
}

const cli_command_t cli_help = {
    .name = "help",
    .summary = "show the description and options of a command",
    .operands = "[COMMAND | config]",
    .max_operands = 1,
    .description =
        "Shows the description and options of a command; without COMMAND, lists the\n"
        "commands. `tidings help config` shows every option of a config file.",
    .options = help_table,
    .run = run_help,
};

static int run(int argc, char **argv) {
    const cli_command_t *command;
    const char *name;

    if (argc < 2) {
        print_overview(stderr);
        return CLI_USAGE;
    }

    name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_overview(stdout);
        return CLI_OK;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        print_version();
        return CLI_OK;
    }
    if (name[0] == '-')
        return cli_usage_error("unknown option %s before a command; see `tidings --help`",
                               name);

    command = find_command(name);
    if (command == NULL)
        return unknown_command(name);
    return command->run(command, argc - 2, argv + 2);
}

int main(int argc, char **argv) {
    int exit_code;
    bool lost;

    setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the write, reported below */
    /* The program that starts us may ignore it;
     * then the end of our own children would be lost. */
    signal(SIGCHLD, SIG_DFL);

    exit_code = run(argc, argv);

    /* A full disk or a closed pipe may show only now, when the buffer is written. */
    errno = 0;
    lost = ferror(stdout) != 0;
    if (fclose(stdout) != 0 || lost) {
        if (errno != EPIPE) /* who reads no more, as `head` does, knows it */
            cli_error("cannot write to standard output%s%s", errno != 0 ? ": " : "",
                      errno != 0 ? strerror(errno) : "");
        return exit_code != CLI_OK ? exit_code : CLI_FAILED;
    }
    return exit_code;
}
