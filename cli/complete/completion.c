/* SPDX-License-Identifier: MIT
 *
 * `tidings completion`: a script for a shell. It is generated from the tables that also
 * parse the command line and print the help, so it cannot differ from them.
 *
 * Names from a server are data: the scripts read them line by line, quote them, and never
 * expand or evaluate them. They contact a server only if its address is on the command
 * line already, for two seconds by default, and never start a program. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "command.h"

/* The files completion.bash and completion.zsh, put into the program by the build. They
 * have a line @TABLES@ for what comes from the tables. */
extern const char completion_bash_script[], completion_zsh_script[];

enum { MAX_OPERANDS = 16 };

/* ---- Operands ----------------------------------------------------------- */

/* What an operand of a command can be, from its usage line. */
typedef struct operand {
    size_t position;  /* from 0; several may have the same */
    const char *text; /* the name of its kind in the scripts, or the word; borrowed */
    int len;
    bool is_word; /* it is this very word */
    bool repeats; /* and so does every one after it */
} operand_t;

/* Names in usage lines. Where a command is given, it holds for that one only. Lists are
 * called as by `tidings ls --NAME`. */
static const struct {
    const char *name, *command, *kind;
} kinds[] = {
    {"PATH", NULL, "files"},       {"FILE", NULL, "files"},
    {"COMMAND", NULL, "commands"}, {"TARGET", NULL, "target"},
    {"URI", "read", "resources"},  {"URI", "watch", "resources"},
    {"URI", "watch", "templates"}, {"TOOL", "call", "tools"},
    {"NAME", "prompt", "prompts"},
};

/* Adds what a name of a usage line stands for. A name in small letters is a word. */
static size_t add_name(const cli_command_t *command, operand_t name, operand_t *ret,
                       size_t count) {
    name.is_word = islower((unsigned char)name.text[0]);
    if (name.is_word && count < MAX_OPERANDS)
        ret[count++] = name;
    for (size_t i = 0; !name.is_word && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strlen(kinds[i].name) != (size_t)name.len ||
            memcmp(kinds[i].name, name.text, (size_t)name.len) != 0 ||
            (kinds[i].command != NULL && strcmp(kinds[i].command, command->name) != 0))
            continue;
        if (count < MAX_OPERANDS)
            ret[count++] = (operand_t){.position = name.position,
                                       .text = kinds[i].kind,
                                       .len = (int)strlen(kinds[i].kind),
                                       .repeats = name.repeats};
    }
    return count;
}

/* A usage line is names, parted by spaces; "|" between two of them makes them choices for
 * the same place, "..." after one repeats it; brackets do not matter here. */
static size_t find_operands(const cli_command_t *command, operand_t ret[MAX_OPERANDS]) {
    const char *at = command->operands != NULL ? command->operands : "";
    operand_t name = {0};
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
        name.text = at;
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

static bool takes_file(const cli_option_t *option) {
    return option->value != NULL && strcmp(option->value, "FILE") == 0;
}

/* ---- Scripts ------------------------------------------------------------ */

/* Prints such a file; `print_tables` fills in the tables. */
static void print_script(const char *script, void (*print_tables)(void)) {
    static const char mark[] = "@TABLES@\n";
    const char *tables = strstr(script, mark);

    printf("%.*s", (int)(tables - script), script);
    print_tables();
    fputs(tables + strlen(mark), stdout);
}

/* ---- bash --------------------------------------------------------------- */

/* For bash 4.4 and later, without the package bash-completion. Readline takes an address
 * apart at its colons (COMP_WORDBREAKS), so the script puts words together again, and
 * gives back only what comes after the last break. */

static void print_bash_options(const cli_command_t *command, bool valued_only) {
    const char *separator = "";

    for (const cli_option_t *option = command->options; option->name != NULL; option++) {
        if (option->kind == CLI_PROGRAM ||
            (valued_only && (option->kind == CLI_FLAG || option->kind == CLI_PARTS)))
            continue;
        printf("%s--%s", separator, option->name);
        separator = " ";
    }
    if (!valued_only)
        printf("%s--help", separator);
}

static void print_bash_command(const cli_command_t *command) {
    operand_t operands[MAX_OPERANDS];
    size_t count = find_operands(command, operands);

    printf("    %s)\n        options='", command->name);
    print_bash_options(command, false);
    printf("'\n        valued=' ");
    print_bash_options(command, true);
    printf(" '\n        operands='");
    for (size_t i = 0; i < count; i++)
        printf(" %zu%s%s%.*s", operands[i].position, operands[i].repeats ? "+" : "",
               operands[i].is_word ? "=" : ":", operands[i].len, operands[i].text);
    printf("'\n        ;;\n");
}

static void print_bash_values(const cli_command_t *command) {
    for (const cli_option_t *option = command->options; option->name != NULL; option++) {
        if (takes_file(option)) {
            printf("    %s:--%s) return 2 ;;\n", command->name, option->name);
        } else if (option->choices != NULL) {
            printf("    %s:--%s) printf '%%s\\n'", command->name, option->name);
            for (size_t i = 0; option->choices[i] != NULL; i++)
                printf(" %s", option->choices[i]);
            printf(" ;;\n");
        }
    }
}

static void print_bash_tables(void) {
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
        print_bash_command(cli_commands[i]);
    printf("    esac\n"
           "}\n\n"
           "# Prints what the value of an option can be. Returns 2 where it is a file.\n"
           "_tidings_values() {\n"
           "    case $1:$2 in\n");
    for (size_t i = 0; cli_commands[i] != NULL; i++)
        print_bash_values(cli_commands[i]);
    printf("    esac\n"
           "}\n");
}

/* ---- zsh ---------------------------------------------------------------- */

/* For zsh 5 and later: specifications for its _arguments. compadd quotes what it is
 * given, so words from a server need no care beyond being an array. */

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

static void print_zsh_option(const cli_option_t *option) {
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
        if (takes_file(option))
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
static size_t print_zsh_position(const operand_t *operands, size_t count, size_t first) {
    size_t position = operands[first].position, i;

    if (operands[first].repeats)
        printf("            '*: :->");
    else
        printf("            '%zu: :->", position + 1);
    for (i = first; i < count && operands[i].position == position; i++)
        printf("%s%s%.*s", i > first ? " " : "", operands[i].is_word ? "=" : "",
               operands[i].len, operands[i].text);
    printf("'\n");
    return i;
}

static void print_zsh_command(const cli_command_t *command) {
    operand_t operands[MAX_OPERANDS];
    size_t count = find_operands(command, operands);

    printf("    %s)\n        specs=(\n", command->name);
    for (const cli_option_t *option = command->options; option->name != NULL; option++)
        if (option->kind != CLI_PROGRAM)
            print_zsh_option(option);
    printf("            '--help[show the description and options]'\n");
    for (size_t i = 0; i < count;)
        i = print_zsh_position(operands, count, i);
    printf("        )\n        ;;\n");
}

static void print_zsh_tables(void) {
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
        print_zsh_command(cli_commands[i]);
    printf("    esac\n"
           "}\n");
}

/* ---- The command -------------------------------------------------------- */

static int run(const cli_command_t *self, int argc, char **argv) {
    int operands, code;

    if (!cli_parse(self, argc, argv, NULL, &operands, &code))
        return code;
    if (operands == 0)
        return cli_usage_error("completion: missing shell: bash or zsh");
    if (strcmp(argv[0], "bash") == 0)
        print_script(completion_bash_script, print_bash_tables);
    else if (strcmp(argv[0], "zsh") == 0)
        print_script(completion_zsh_script, print_zsh_tables);
    else
        return cli_usage_error("completion: unknown shell '%s': write bash or zsh",
                               argv[0]);
    return CLI_OK;
}

static const cli_option_t options[] = {CLI_END};

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
    .options = options,
    .run = run,
};
