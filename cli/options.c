/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/nearest.h"
#include "command.h"
#include "config/value.h"
#include "safe_text.h"

int64_t cli_now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A message may quote a server, so it is made safe for a terminal. */
__attribute__((format(printf, 1, 0))) static void report(const char *format,
                                                         va_list args) {
    char text[2048];

    vsnprintf(text, sizeof(text), format, args);
    fputs("tidings: ", stderr);
    cli_put_line(stderr, text);
    fputc('\n', stderr);
}

int cli_error(const char *format, ...) {
    va_list args;

    va_start(args, format);
    report(format, args);
    va_end(args);
    return CLI_FAILED;
}

int cli_usage_error(const char *format, ...) {
    va_list args;

    va_start(args, format);
    report(format, args);
    va_end(args);
    return CLI_USAGE;
}

static const char *option_at(const void *options, size_t i) {
    return ((const cli_option_t *)options)[i].name;
}

static const cli_option_t *find_option(const cli_command_t *command, const char *name,
                                       size_t len) {
    const cli_option_t *option = command->options;

    for (; option->name != NULL; option++)
        if (option->kind != CLI_PROGRAM && strlen(option->name) == len &&
            memcmp(option->name, name, len) == 0)
            return option;
    return NULL;
}

static int unknown_option(const cli_command_t *command, const char *name, size_t len) {
    char word[TDG__NEAREST_MAX + 1];
    const char *nearest = NULL;

    if (len <= TDG__NEAREST_MAX) {
        memcpy(word, name, len);
        word[len] = '\0';
        nearest = tdg__nearest(word, option_at, command->options);
        if (nearest != NULL && nearest[0] == '\0')
            nearest = NULL; /* the row of a program */
    }

    if (nearest != NULL)
        return cli_usage_error("%s: unknown option --%.*s; did you mean --%s?",
                               command->name, (int)len, name, nearest);
    return cli_usage_error("%s: unknown option --%.*s; `tidings %s --help` lists them",
                           command->name, (int)len, name, command->name);
}

/* The following store a value. They return CLI_OK,
 * or CLI_USAGE with the reason reported. */
static int set_number(const cli_command_t *command, const cli_option_t *option,
                      const char *value, long *ret) {
    char *end;
    long number;

    errno = 0;
    number = strtol(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || number < option->min ||
        number > option->max)
        return cli_usage_error("%s: --%s takes a whole number from %ld to %ld, not '%s'",
                               command->name, option->name, option->min, option->max,
                               value);
    *ret = number;
    return CLI_OK;
}

/* Stores the position of a choice. */
static int find_choice(const cli_command_t *command, const cli_option_t *option,
                       const char *value, size_t len, int *ret) {
    for (int i = 0; option->choices[i] != NULL; i++)
        if (strlen(option->choices[i]) == len &&
            memcmp(option->choices[i], value, len) == 0) {
            *ret = i;
            return CLI_OK;
        }

    fprintf(stderr, "tidings: %s: --%s takes ", command->name, option->name);
    for (int i = 0; option->choices[i] != NULL; i++)
        fprintf(stderr, "%s%s",
                i == 0                           ? ""
                : option->choices[i + 1] == NULL ? " or "
                                                 : ", ",
                option->choices[i]);
    fprintf(stderr, ", not '%.*s'\n", (int)len, value);
    return CLI_USAGE;
}

static int add_parts(const cli_command_t *command, const cli_option_t *option,
                     const char *value, unsigned *ret) {
    for (int i = 0; value == NULL && option->choices[i] != NULL; i++)
        *ret |= 1u << i;
    while (value != NULL) {
        size_t len = strcspn(value, ",");
        int i;

        if (find_choice(command, option, value, len, &i) != CLI_OK)
            return CLI_USAGE;
        *ret |= 1u << i;
        value = value[len] == ',' ? value + len + 1 : NULL;
    }
    return CLI_OK;
}

static int set_time(const cli_command_t *command, const cli_option_t *option,
                    const char *value, long *ret) {
    char least[TDG__VALUE_TEXT_MAX], most[TDG__VALUE_TEXT_MAX];
    int64_t ms;

    if (!tdg__duration_parse(value, &ms))
        return cli_usage_error("%s: --%s takes a time such as 500ms, 2s or 5m, not '%s'",
                               command->name, option->name, value);
    if (ms < option->min || ms > option->max) {
        tdg__duration_write(option->min, least);
        tdg__duration_write(option->max, most);
        return cli_usage_error("%s: --%s takes a time from %s to %s, not '%s'",
                               command->name, option->name, least, most, value);
    }
    *ret = (long)ms;
    return CLI_OK;
}

static int add_text(const cli_command_t *command, const cli_option_t *option,
                    const char *value, cli_texts_t *texts) {
    if (texts->count == CLI_TEXTS_MAX)
        return cli_usage_error("%s: --%s can be given at most %d times", command->name,
                               option->name, CLI_TEXTS_MAX);
    texts->items[texts->count++] = value;
    texts->items[texts->count] = NULL;
    return CLI_OK;
}

static int set_option(const cli_command_t *command, const cli_option_t *option,
                      const char *value, void *fields) {
    void *field = (char *)fields + option->offset;

    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)field = true;
        break;
    case CLI_NUMBER:
        return set_number(command, option, value, field);
    case CLI_CHOICE:
        return find_choice(command, option, value, strlen(value), field);
    case CLI_STRING:
        *(const char **)field = value;
        break;
    case CLI_TEXTS:
        return add_text(command, option, value, field);
    case CLI_TIME:
        return set_time(command, option, value, field);
    case CLI_PARTS:
        return add_parts(command, option, value, field);
    case CLI_PROGRAM:
        break; /* has no name, and so is not found as an option */
    }
    return CLI_OK;
}

/* Reads the option at argv[*at], and moves on to its value where that is the next one. */
static int read_option(const cli_command_t *command, int argc, char **argv, int *at,
                       void *fields) {
    const char *name = argv[*at] + 2, *value;
    size_t len = strcspn(name, "=");
    const cli_option_t *option;

    if (argv[*at][1] != '-')
        return cli_usage_error("%s: unknown option %s; options start with two dashes",
                               command->name, argv[*at]);
    option = find_option(command, name, len);
    if (option == NULL)
        return unknown_option(command, name, len);

    value = name[len] == '=' ? name + len + 1 : NULL;
    if (option->kind == CLI_FLAG && value != NULL)
        return cli_usage_error("%s: --%s takes no value", command->name, option->name);
    if (option->kind != CLI_FLAG && option->kind != CLI_PARTS && value == NULL) {
        if (*at + 1 == argc)
            return cli_usage_error("%s: --%s needs a value: %s", command->name,
                                   option->name, option->value);
        value = argv[++*at];
    }
    return set_option(command, option, value, fields);
}

/* Hands the arguments after "--" to the command that takes a program. Returns false where
 * the table has none. */
static bool take_program(const cli_command_t *command, char **rest, void *fields) {
    const cli_option_t *option = command->options;

    for (; option->name != NULL; option++)
        if (option->kind == CLI_PROGRAM) {
            *(char ***)(void *)((char *)fields + option->offset) = rest;
            return true;
        }
    return false;
}

bool cli_parse(const cli_command_t *command, int argc, char **argv, void *fields,
               int *ret_operands, int *ret_exit) {
    int operands = 0;
    bool only_operands = false;

    *ret_exit = CLI_OK;
    for (int i = 0; i < argc && *ret_exit == CLI_OK; i++) {
        const char *arg = argv[i];

        if (only_operands || arg[0] != '-' || arg[1] == '\0') {
            if (operands == command->max_operands)
                *ret_exit = cli_usage_error(
                    "%s: unexpected argument '%s'; see `tidings %s --help`",
                    command->name, arg, command->name);
            else
                argv[operands++] = argv[i];
        } else if (strcmp(arg, "--") == 0) {
            if (take_program(command, argv + i + 1, fields))
                break;
            only_operands = true;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            cli_print_help(command);
            return false;
        } else {
            *ret_exit = read_option(command, argc, argv, &i, fields);
        }
    }
    if (ret_operands != NULL && *ret_exit == CLI_OK)
        *ret_operands = operands;
    return *ret_exit == CLI_OK;
}

/* One entry of a list of options: its spelling, then its text, aligned. */
static void print_entry(const char *name, const char *value, bool optional,
                        const char *help, int width) {
    int len = value == NULL ? printf("  --%s", name)
              : optional    ? printf("  --%s[=%s]", name, value)
                            : printf("  --%s %s", name, value);

    for (;;) {
        size_t line = strcspn(help, "\n");

        printf("%*s%.*s\n", width - len, "", (int)line, help);
        if (help[line] == '\0')
            return;
        help += line + 1;
        len = 0;
    }
}

void cli_print_help(const cli_command_t *command) {
    const cli_option_t *option;
    int width = (int)strlen("  --help  ");

    printf("usage: tidings %s%s%s%s\n\n%s\n\n", command->name,
           command->options->name != NULL ? " [OPTION]..." : "",
           command->operands != NULL ? " " : "",
           command->operands != NULL ? command->operands : "", command->description);

    for (option = command->options; option->name != NULL; option++) {
        size_t len = strlen("  --  ") + strlen(option->name) +
                     (option->value == NULL       ? 0
                      : option->kind == CLI_PARTS ? strlen("[=]") + strlen(option->value)
                                                  : 1 + strlen(option->value));

        if ((int)len > width)
            width = (int)len;
    }

    printf("Options:\n");
    for (option = command->options; option->name != NULL; option++)
        print_entry(option->name, option->value, option->kind == CLI_PARTS, option->help,
                    width);
    print_entry("help", NULL, false, "show this text", width);
}
