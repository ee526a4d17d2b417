/* SPDX-License-Identifier: MIT
 *
 * Completion for shells: completion.c determines from the tables of the commands what is
 * valid at each place; completion_bash.c and completion_zsh.c write that for their shell.
 *
 * Names from a server are data: the scripts read them line by line, quote them, and never
 * expand or evaluate them. They contact a server only if its address is on the command
 * line already, for two seconds by default, and never start a program. */
#ifndef TDG_CLI_COMPLETION_H
#define TDG_CLI_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>

#include "command.h"

/* What an operand can be. */
typedef enum completion_kind {
    COMPLETION_WORD, /* this very word */
    COMPLETION_FILES,
    COMPLETION_COMMANDS, /* of tidings */
    COMPLETION_TARGET,   /* the address of a server */
    COMPLETION_RESOURCES,
    COMPLETION_TEMPLATES,
    COMPLETION_TOOLS,
    COMPLETION_PROMPTS,
} completion_kind_t;

/* One operand of a command, from its usage line. */
typedef struct completion_operand {
    size_t position; /* from 0; several may have the same */
    completion_kind_t kind;
    const char *word; /* as it stands in the usage line, borrowed */
    int len;
    bool repeats; /* and so does every one after it */
} completion_operand_t;

enum { COMPLETION_MAX = 16 };

/* Fills `ret` with what the operands of a command can be. Returns how many. */
size_t completion_operands(const cli_command_t *command,
                           completion_operand_t ret[COMPLETION_MAX]);

/* The name of a kind in the scripts, for lists as `tidings ls --NAME` has it; NULL: that
 * of words. */
const char *completion_kind_name(completion_kind_t kind);

/* Whether the value of an option is a file. */
bool completion_takes_file(const cli_option_t *option);

/* An address to offer where none was typed yet. */
#define COMPLETION_ADDRESS "http://127.0.0.1:8808/mcp"

void completion_print_bash(void);
void completion_print_zsh(void);

/* The files completion.bash and completion.zsh, put into the program by the build. They
 * have a line @TABLES@ for what comes from the tables, and @ADDRESS@. */
extern const char completion_bash_script[], completion_zsh_script[];

/* Prints such a file; `print_tables` fills in the tables. */
void completion_print_script(const char *script, void (*print_tables)(void));

#endif
