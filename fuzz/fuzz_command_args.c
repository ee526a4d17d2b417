/* SPDX-License-Identifier: MIT
 *
 * Input: arguments of a config, one per line, an empty line, then a URI of a client for
 * the template "x:{a}/{b}". A program gets as many arguments as the config has, none of
 * them an option that the config did not write; and with a shell its script is the
 * config's. */
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "source/command/command.h"

enum { MAX_BYTES = 4096, MAX_ARGS = 16 };

static tdg__template_t *template_;

static void check_argv(const tdg__command_source_t *command, char **argv, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *given = command->argv[i];

        require(argv[i] != NULL);
        require(argv[i][0] != '-' || given[0] == '-');
        require(strchr(given, '{') != NULL || strcmp(argv[i], given) == 0);
    }
    require(argv[count] == NULL);
}

static void check_shell(const tdg__command_source_t *command, char **argv) {
    require(strcmp(argv[0], "/bin/sh") == 0 && strcmp(argv[1], "-c") == 0);
    require(strcmp(argv[2], command->argv[0]) == 0 && argv[3] == NULL);
}

/* Every entry is NAME=value, and a name stands once. */
static void check_env(char **env) {
    size_t uris = 0;

    for (; *env != NULL; env++) {
        require(strchr(*env, '=') != NULL);
        uris += strncmp(*env, "TIDINGS_URI=", 12) == 0;
    }
    require(uris == 1);
}

static void start_with(const tdg__command_source_t *command, const char *uri,
                       size_t count) {
    char **argv, **env;

    int rv = tdg__command_argv(command, uri, &argv);
    require(rv == 0 || rv == TDG_ENOTFOUND);
    if (rv == 0) {
        if (command->shell)
            check_shell(command, argv);
        else
            check_argv(command, argv, count);
        tdg__free_strings(argv);
    }
    rv = tdg__command_env(command, uri, &env);
    require(rv == 0 || rv == TDG_ENOTFOUND);
    if (rv == 0) {
        check_env(env);
        tdg__free_strings(env);
    }
}

/* Cuts lines off until an empty one. Returns how many there are. */
static size_t read_args(char **text, char **args) {
    size_t count = 0;

    while (count < MAX_ARGS && **text != '\0' && **text != '\n') {
        char *end = strchr(*text, '\n');

        args[count++] = *text;
        *text = end != NULL ? end + 1 : *text + strlen(*text);
        if (end != NULL)
            *end = '\0';
    }
    *text += **text == '\n';
    args[count] = NULL;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char pattern[] = "x:{a}/{b}";
    char text[MAX_BYTES + 1], *args[MAX_ARGS + 1], *rest = text;
    tdg__parse_error_t error;
    tdg__command_source_t command = {.argv = args};

    if (size > MAX_BYTES)
        return 0;
    if (template_ == NULL)
        require(tdg__template_parse(pattern, strlen(pattern), &template_, &error) == 0);
    command.source.template_ = template_;
    memcpy(text, data, size);
    text[size] = '\0';

    size_t count = read_args(&rest, args);
    if (count == 0)
        return 0;
    start_with(&command, rest, count);
    command.shell = true;
    start_with(&command, rest, count);
    return 0;
}
