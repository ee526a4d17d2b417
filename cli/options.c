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
void cli_error(const char *format, ...) {
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fputs("tidings: ", stderr);
    cli_put_line(stderr, text);
    fputc('\n', stderr);
}

static const char *option_at(const void *options, size_t i) {
    return ((const cli_option_t *)options)[i].name;
}

static const cli_option_t *find_option(const cli_command_t *command, const char *name,
                                       size_t len) {
    const cli_option_t *option = command->options;

    for (; option != NULL && option->name != NULL; option++)
        if (option->kind != CLI_PROGRAM && strlen(option->name) == len &&
            memcmp(option->name, name, len) == 0)
            return option;
    return NULL;
}

static void unknown_option(const cli_command_t *command, const char *name, size_t len) {
    char word[TDG__NEAREST_MAX + 1];
    const char *nearest = NULL;

    if (len <= TDG__NEAREST_MAX && command->options != NULL) {
        memcpy(word, name, len);
        word[len] = '\0';
        nearest = tdg__nearest(word, option_at, command->options);
        if (nearest != NULL && nearest[0] == '\0')
            nearest = NULL; /* the row of a program */
    }

    if (nearest != NULL)
        cli_error("%s: unknown option --%.*s; did you mean --%s?", command->name,
                  (int)len, name, nearest);
    else
        cli_error("%s: unknown option --%.*s; `tidings %s --help` lists them",
                  command->name, (int)len, name, command->name);
}

static bool set_number(const cli_command_t *command, const cli_option_t *option,
                       const char *value, long *ret) {
    char *end;
    long number;

    errno = 0;
    number = strtol(value, &end, 10);
    if (end == value || *end != '\0' || errno != 0 || number < option->min ||
        number > option->max) {
        cli_error("%s: --%s takes a whole number from %ld to %ld, not '%s'",
                  command->name, option->name, option->min, option->max, value);
        return false;
    }
    *ret = number;
    return true;
}

/* The position of a choice; -1 where it is none of them, which is reported. */
static int find_choice(const cli_command_t *command, const cli_option_t *option,
                       const char *value, size_t len) {
    for (int i = 0; option->choices[i] != NULL; i++)
        if (strlen(option->choices[i]) == len &&
            memcmp(option->choices[i], value, len) == 0)
            return i;

    fprintf(stderr, "tidings: %s: --%s takes ", command->name, option->name);
    for (int i = 0; option->choices[i] != NULL; i++)
        fprintf(stderr, "%s%s",
                i == 0                           ? ""
                : option->choices[i + 1] == NULL ? " or "
                                                 : ", ",
                option->choices[i]);
    fprintf(stderr, ", not '%.*s'\n", (int)len, value);
    return -1;
}

static bool set_choice(const cli_command_t *command, const cli_option_t *option,
                       const char *value, int *ret) {
    int i = find_choice(command, option, value, strlen(value));

    if (i >= 0)
        *ret = i;
    return i >= 0;
}

static bool add_parts(const cli_command_t *command, const cli_option_t *option,
                      const char *value, unsigned *ret) {
    for (int i = 0; value == NULL && option->choices[i] != NULL; i++)
        *ret |= 1u << i;
    while (value != NULL) {
        size_t len = strcspn(value, ",");
        int i = find_choice(command, option, value, len);

        if (i < 0)
            return false;
        *ret |= 1u << i;
        value = value[len] == ',' ? value + len + 1 : NULL;
    }
    return true;
}

static bool set_time(const cli_command_t *command, const cli_option_t *option,
                     const char *value, long *ret) {
    char least[TDG__VALUE_TEXT_MAX], most[TDG__VALUE_TEXT_MAX];
    int64_t ms;

    if (!tdg__duration_parse(value, &ms)) {
        cli_error("%s: --%s takes a time such as 500ms, 2s or 5m, not '%s'",
                  command->name, option->name, value);
        return false;
    }
    if (ms < option->min || ms > option->max) {
        tdg__duration_write(option->min, least);
        tdg__duration_write(option->max, most);
        cli_error("%s: --%s takes a time from %s to %s, not '%s'", command->name,
                  option->name, least, most, value);
        return false;
    }
    *ret = (long)ms;
    return true;
}

static bool add_text(const cli_command_t *command, const cli_option_t *option,
                     const char *value, cli_texts_t *texts) {
    if (texts->count == CLI_TEXTS_MAX) {
        cli_error("%s: --%s can be given at most %d times", command->name, option->name,
                  CLI_TEXTS_MAX);
        return false;
    }
    texts->items[texts->count++] = value;
    texts->items[texts->count] = NULL;
    return true;
}

static bool set_option(const cli_command_t *command, const cli_option_t *option,
                       const char *value, void *fields) {
    void *field = (char *)fields + option->offset;

    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)field = true;
        return true;
    case CLI_NUMBER:
        return set_number(command, option, value, field);
    case CLI_CHOICE:
        return set_choice(command, option, value, field);
    case CLI_STRING:
        *(const char **)field = value;
        return true;
    case CLI_TEXTS:
        return add_text(command, option, value, field);
    case CLI_TIME:
        return set_time(command, option, value, field);
    case CLI_PARTS:
        return add_parts(command, option, value, field);
    case CLI_PROGRAM:
        break; /* has no name, and so is not found as an option */
    }
    return false;
}

/* Hands the arguments after "--" to the command that takes a program. Returns false where
 * the table has none. */
static bool take_program(const cli_command_t *command, char **rest, void *fields) {
    const cli_option_t *option = command->options;

    for (; option != NULL && option->name != NULL; option++)
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

    *ret_exit = CLI_USAGE;
    for (int i = 0; i < argc; i++) {
        const cli_option_t *option;
        const char *arg = argv[i], *value;
        size_t len;

        if (only_operands || arg[0] != '-' || arg[1] == '\0') {
            if (operands == command->max_operands) {
                cli_error("%s: unexpected argument '%s'; see `tidings %s --help`",
                          command->name, arg, command->name);
                return false;
            }
            argv[operands++] = argv[i];
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            if (take_program(command, argv + i + 1, fields))
                break;
            only_operands = true;
            continue;
        }
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            cli_print_help(command);
            *ret_exit = CLI_OK;
            return false;
        }
        if (arg[1] != '-') {
            cli_error("%s: unknown option %s; options start with two dashes",
                      command->name, arg);
            return false;
        }

        arg += 2;
        len = strcspn(arg, "=");
        option = find_option(command, arg, len);
        if (option == NULL) {
            unknown_option(command, arg, len);
            return false;
        }

        value = arg[len] == '=' ? arg + len + 1 : NULL;
        if (option->kind == CLI_FLAG && value != NULL) {
            cli_error("%s: --%s takes no value", command->name, option->name);
            return false;
        }
        if (option->kind != CLI_FLAG && option->kind != CLI_PARTS && value == NULL) {
            if (i + 1 == argc) {
                cli_error("%s: --%s needs a value: %s", command->name, option->name,
                          option->value);
                return false;
            }
            value = argv[++i];
        }
        if (!set_option(command, option, value, fields))
            return false;
    }

    if (ret_operands != NULL)
        *ret_operands = operands;
    *ret_exit = CLI_OK;
    return true;
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
           command->options != NULL ? " [OPTION]..." : "",
           command->operands != NULL ? " " : "",
           command->operands != NULL ? command->operands : "", command->description);

    for (option = command->options; option != NULL && option->name != NULL; option++) {
        size_t len = strlen("  --  ") + strlen(option->name) +
                     (option->value == NULL       ? 0
                      : option->kind == CLI_PARTS ? strlen("[=]") + strlen(option->value)
                                                  : 1 + strlen(option->value));

        if ((int)len > width)
            width = (int)len;
    }

    printf("Options:\n");
    for (option = command->options; option != NULL && option->name != NULL; option++)
        print_entry(option->name, option->value, option->kind == CLI_PARTS, option->help,
                    width);
    print_entry("help", NULL, false, "show this text", width);
}
