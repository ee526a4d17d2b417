/* SPDX-License-Identifier: MIT
 *
 * For bash 4.4 and later, without the package bash-completion. Readline takes an address
 * apart at its colons (COMP_WORDBREAKS), so the script puts words together again, and
 * gives back only what comes after the last break. */
#include "complete/completion.h"

#include <stdio.h>
#include <string.h>

/* ---- Tables ------------------------------------------------------------- */

static void print_options(const cli_command_t *command, bool valued_only) {
    const char *separator = "";

    for (const cli_option_t *option = command->options;
         option != NULL && option->name != NULL; option++) {
        if (option->kind == CLI_PROGRAM ||
            (valued_only && (option->kind == CLI_FLAG || option->kind == CLI_PARTS)))
            continue;
        printf("%s--%s", separator, option->name);
        separator = " ";
    }
    if (!valued_only)
        printf("%s--help", separator);
}

/* A word of the script for one operand; its position stands before it. */
static void print_operand(const completion_operand_t *operand) {
    printf(" %zu%s", operand->position, operand->repeats ? "+" : "");
    if (operand->kind == COMPLETION_WORD)
        printf("=%.*s", operand->len, operand->word);
    else
        printf(":%s", completion_kind_name(operand->kind));
}

static void print_command(const cli_command_t *command) {
    completion_operand_t operands[COMPLETION_MAX];
    size_t count = completion_operands(command, operands);

    printf("    %s)\n        options='", command->name);
    print_options(command, false);
    printf("'\n        valued=' ");
    print_options(command, true);
    printf(" '\n        operands='");
    for (size_t i = 0; i < count; i++)
        print_operand(&operands[i]);
    printf("'\n        ;;\n");
}

static void print_values(const cli_command_t *command) {
    for (const cli_option_t *option = command->options;
         option != NULL && option->name != NULL; option++) {
        if (completion_takes_file(option)) {
            printf("    %s:--%s) return 2 ;;\n", command->name, option->name);
        } else if (option->choices != NULL) {
            printf("    %s:--%s) printf '%%s\\n'", command->name, option->name);
            for (size_t i = 0; option->choices[i] != NULL; i++)
                printf(" %s", option->choices[i]);
            printf(" ;;\n");
        }
    }
}

static void print_tables(void) {
    printf("_tidings_commands='");
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        printf("%s%s", i > 0 ? " " : "", cli_commands[i]->name);
    printf("'\n\n"
           "# What a command takes: its options; those that have a value; and operands:\n"
           "# position, + where it repeats, then =WORD or :KIND.\n"
           "_tidings_table() {\n"
           "    options='' valued='' operands=''\n"
           "    case $1 in\n");
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        print_command(cli_commands[i]);
    printf("    esac\n"
           "}\n\n"
           "# Prints what the value of an option can be. Returns 2 where it is a file.\n"
           "_tidings_values() {\n"
           "    case $1:$2 in\n");
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        print_values(cli_commands[i]);
    printf("    esac\n"
           "}\n");
}

void completion_print_bash(void) {
    completion_print_script(completion_bash_script, print_tables);
}
