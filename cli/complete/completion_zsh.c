/* SPDX-License-Identifier: MIT
 *
 * For zsh 5 and later: specifications for its _arguments. compadd quotes what it is
 * given, so words from a server need no care beyond being an array. */
#include "complete/completion.h"

#include <stdio.h>
#include <string.h>

/* ---- Tables ------------------------------------------------------------- */

/* A text inside single quotes and brackets. */
static void print_help(const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]\\:", *text) != NULL)
            printf("\\%c", *text);
        else
            putchar(*text == '\n' ? ' ' : *text);
    }
}

static void print_option(const cli_option_t *option) {
    bool optional = option->kind == CLI_PARTS;

    printf("            '%s--%s%s[", option->kind == CLI_TEXTS ? "*" : "", option->name,
           option->kind == CLI_FLAG ? ""
           : optional               ? "=-"
                                    : "=");
    print_help(option->help);
    putchar(']');
    if (option->kind != CLI_FLAG) {
        fputs(optional ? "::" : ":", stdout);
        print_help(option->value);
        putchar(':');
        if (completion_takes_file(option))
            fputs("_files", stdout);
        else if (option->choices == NULL)
            putchar(' ');
        else
            for (size_t i = 0; option->choices[i] != NULL; i++)
                printf("%s%s%s", i == 0 ? "(" : " ", option->choices[i],
                       option->choices[i + 1] == NULL ? ")" : "");
    }
    printf("'\n");
}

/* Everything that can stand at one position, as one specification with a state. */
static size_t print_position(const completion_operand_t *operands, size_t count,
                             size_t first) {
    size_t position = operands[first].position, i;

    if (operands[first].repeats)
        printf("            '*: :->");
    else
        printf("            '%zu: :->", position + 1);
    for (i = first; i < count && operands[i].position == position; i++) {
        if (i > first)
            putchar(' ');
        if (operands[i].kind == COMPLETION_WORD)
            printf("=%.*s", operands[i].len, operands[i].word);
        else
            fputs(completion_kind_name(operands[i].kind), stdout);
    }
    printf("'\n");
    return i;
}

static void print_command(const cli_command_t *command) {
    completion_operand_t operands[COMPLETION_MAX];
    size_t count = completion_operands(command, operands);

    printf("    %s)\n        specs=(\n", command->name);
    for (const cli_option_t *option = command->options;
         option != NULL && option->name != NULL; option++)
        if (option->kind != CLI_PROGRAM)
            print_option(option);
    printf("            '--help[show what the command takes]'\n");
    for (size_t i = 0; i < count;)
        i = print_position(operands, count, i);
    printf("        )\n        ;;\n");
}

static void print_tables(void) {
    printf("_tidings_commands() {\n"
           "    local -a commands\n"
           "    commands=(\n");
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        printf("        '%s:", cli_commands[i]->name);
        print_help(cli_commands[i]->summary);
        printf("'\n");
    }
    printf("    )\n"
           "    _describe -t commands command commands\n"
           "}\n\n"
           "# What a command takes, for _arguments, in `specs`.\n"
           "_tidings_table() {\n"
           "    specs=()\n"
           "    case $1 in\n");
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        print_command(cli_commands[i]);
    printf("    esac\n"
           "}\n");
}

void completion_print_zsh(void) {
    completion_print_script(completion_zsh_script, print_tables);
}
