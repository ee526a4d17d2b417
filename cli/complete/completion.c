/* SPDX-License-Identifier: MIT
 *
 * `tidings completion`: a script for a shell. It is generated from the tables that also
 * parse the command line and print the help, so it cannot differ from them. */
#include "complete/completion.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char *const shells[] = {"bash", "zsh", NULL};

/* ---- Operands ----------------------------------------------------------- */

/* Names in usage lines. Where a command is given, it holds for that one only. */
static const struct {
    const char *name, *command;
    completion_kind_t kind;
} kinds[] = {
    {"PATH", NULL, COMPLETION_FILES},       {"FILE", NULL, COMPLETION_FILES},
    {"COMMAND", NULL, COMPLETION_COMMANDS}, {"TARGET", NULL, COMPLETION_TARGET},
    {"URI", "read", COMPLETION_RESOURCES},  {"URI", "watch", COMPLETION_RESOURCES},
    {"URI", "watch", COMPLETION_TEMPLATES}, {"TOOL", "call", COMPLETION_TOOLS},
    {"NAME", "prompt", COMPLETION_PROMPTS},
};

const char *completion_kind_name(completion_kind_t kind) {
    static const char *const names[] = {
        [COMPLETION_FILES] = "files",         [COMPLETION_COMMANDS] = "commands",
        [COMPLETION_TARGET] = "target",       [COMPLETION_RESOURCES] = "resources",
        [COMPLETION_TEMPLATES] = "templates", [COMPLETION_TOOLS] = "tools",
        [COMPLETION_PROMPTS] = "prompts",
    };

    return names[kind];
}

/* Adds what a name of a usage line stands for. A name in small letters is a word. */
static size_t add_name(const cli_command_t *command, completion_operand_t name,
                       completion_operand_t *ret, size_t count) {
    if (islower((unsigned char)name.word[0])) {
        name.kind = COMPLETION_WORD;
        if (count < COMPLETION_MAX)
            ret[count++] = name;
        return count;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strlen(kinds[i].name) != (size_t)name.len ||
            memcmp(kinds[i].name, name.word, (size_t)name.len) != 0 ||
            (kinds[i].command != NULL && strcmp(kinds[i].command, command->name) != 0))
            continue;
        name.kind = kinds[i].kind;
        if (count < COMPLETION_MAX)
            ret[count++] = name;
    }
    return count;
}

/* A usage line is names, parted by spaces; "|" between two of them makes them choices for
 * the same place, "..." after one repeats it; brackets do not matter here. */
size_t completion_operands(const cli_command_t *command,
                           completion_operand_t ret[COMPLETION_MAX]) {
    const char *at = command->operands != NULL ? command->operands : "";
    completion_operand_t name = {0};
    size_t count = 0;
    bool choice = true; /* the next name has the same position as the one before */

    for (;;) {
        at += strspn(at, " []");
        if (*at == '|') {
            choice = true;
            at++;
            continue;
        }
        if (*at == '\0')
            return count;
        name.word = at;
        name.len = (int)strcspn(at, " []|.");
        if (name.len == 0)
            return count; /* the repetition of something in brackets */
        at += name.len;
        name.repeats = strncmp(at + strspn(at, "]"), "...", 3) == 0;
        if (!choice)
            name.position++;
        choice = false;
        count = add_name(command, name, ret, count);
        at += strspn(at, "].");
    }
}

bool completion_takes_file(const cli_option_t *option) {
    return option->value != NULL && strcmp(option->value, "FILE") == 0;
}

/* ---- Scripts ------------------------------------------------------------ */

void completion_print_script(const char *script, void (*print_tables)(void)) {
    static const char tables[] = "@TABLES@\n", address[] = "@ADDRESS@";

    while (*script != '\0') {
        if (strncmp(script, tables, strlen(tables)) == 0) {
            print_tables();
            script += strlen(tables);
        } else if (strncmp(script, address, strlen(address)) == 0) {
            fputs(COMPLETION_ADDRESS, stdout);
            script += strlen(address);
        } else {
            putchar(*script++);
        }
    }
}

/* ---- The command -------------------------------------------------------- */

static int run(const cli_command_t *self, int argc, char **argv) {
    int operands, code;

    if (!cli_parse(self, argc, argv, NULL, &operands, &code))
        return code;
    if (operands == 1 && strcmp(argv[0], shells[0]) == 0) {
        completion_print_bash();
        return CLI_OK;
    }
    if (operands == 1 && strcmp(argv[0], shells[1]) == 0) {
        completion_print_zsh();
        return CLI_OK;
    }
    if (operands == 0)
        cli_error("completion: missing shell: bash or zsh");
    else
        cli_error("completion: unknown shell '%s': write bash or zsh", argv[0]);
    return CLI_USAGE;
}

const cli_command_t cli_completion = {
    .name = "completion",
    .summary = "print a completion script for bash or zsh",
    .operands = "bash | zsh",
    .max_operands = 1,
    .description =
        "Prints a script by which the Tab key completes commands, options and their\n"
        "values, and after the address of a server also its resources, tools and "
        "prompts,\n"
        "which the script requests from the server. Packages install it. Without a\n"
        "package, in ~/.bashrc:\n"
        "\n"
        "    source <(tidings completion bash)\n"
        "\n"
        "and for zsh, in a folder of $fpath:\n"
        "\n"
        "    tidings completion zsh >~/.zfunc/_tidings",
    .run = run,
};
