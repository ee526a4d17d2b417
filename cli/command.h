/* SPDX-License-Identifier: MIT
 *
 * A subcommand is one file and one row in the table of main.c. Its options are a table,
 * too: the same rows parse the command line, report errors in it, and print the help. */
#ifndef TDG_CLI_COMMAND_H
#define TDG_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the program exits with. Scripts rely on them: the man page lists them all, and
 * none changes its meaning. Those after CLI_USAGE come from commands that talk to a
 * server (target.h). */
enum {
    CLI_OK = 0,
    CLI_FAILED = 1,      /* it was understood, and did not work */
    CLI_USAGE = 2,       /* the command line is wrong; nothing was done */
    CLI_UNREACHABLE = 3, /* the server cannot be reached, or was lost for good */
    CLI_TIMEOUT = 4,     /* the time was over before it happened */
    CLI_DENIED = 5,      /* the server asks who we are, or does not let us */
    CLI_NOT_FOUND = 6,   /* the server has no such thing, or does not offer it */
};

typedef enum cli_kind {
    CLI_FLAG,   /* takes no value; its field is a bool */
    CLI_NUMBER, /* a whole number from `min` to `max`; its field is a long */
    CLI_CHOICE, /* one of `choices`; its field is an int, the position in the list */
    CLI_STRING, /* any text, also an empty one; its field is a const char *, borrowed from
                   argv. Given twice, the last one counts */
    CLI_TEXTS,  /* the same, but every one counts; its field is a cli_texts_t */
    CLI_TIME,   /* such as 500ms, 2s or 5m, from `min` to `max` ms; its field is a long */
    CLI_PARTS,  /* some of `choices`, given by --name=ONE,OTHER; --name alone is all of
                   them. Its field is an unsigned with a bit per choice */
    CLI_PROGRAM, /* everything after "--"; its name is "" and its field a char **, which
                    ends with NULL and is borrowed from argv */
} cli_kind_t;

/* The values of an option that may be given several times. */
enum { CLI_TEXTS_MAX = 64 };
typedef struct cli_texts {
    const char *items[CLI_TEXTS_MAX + 1]; /* ends with NULL */
    size_t count;
} cli_texts_t;

typedef struct cli_option {
    const char *name; /* without its dashes; NULL ends the table */
    cli_kind_t kind;
    size_t offset;              /* of its field in what cli_parse() fills */
    const char *value;          /* what the help calls its value; NULL for a flag */
    const char *help;           /* may run over several lines, parted by \n */
    long min, max;              /* of a number or a time */
    const char *const *choices; /* ends with NULL */
} cli_option_t;

/* Rows of such a table, for the field of a struct; CLI_END is the last. */
#define CLI_FLAG_OPTION(type, field, name, help)                                         \
    { name, CLI_FLAG, offsetof(type, field), NULL, help, 0, 0, NULL }
#define CLI_NUMBER_OPTION(type, field, name, value, min, max, help)                      \
    { name, CLI_NUMBER, offsetof(type, field), value, help, min, max, NULL }
#define CLI_CHOICE_OPTION(type, field, name, value, choices, help)                       \
    { name, CLI_CHOICE, offsetof(type, field), value, help, 0, 0, choices }
#define CLI_STRING_OPTION(type, field, name, value, help)                                \
    { name, CLI_STRING, offsetof(type, field), value, help, 0, 0, NULL }
#define CLI_TEXTS_OPTION(type, field, name, value, help)                                 \
    { name, CLI_TEXTS, offsetof(type, field), value, help, 0, 0, NULL }
#define CLI_TIME_OPTION(type, field, name, value, min, max, help)                        \
    { name, CLI_TIME, offsetof(type, field), value, help, min, max, NULL }
#define CLI_PARTS_OPTION(type, field, name, value, choices, help)                        \
    { name, CLI_PARTS, offsetof(type, field), value, help, 0, 0, choices }
#define CLI_PROGRAM_OPTION(type, field, help)                                            \
    { "", CLI_PROGRAM, offsetof(type, field), "PROGRAM [ARG]...", help, 0, 0, NULL }
#define CLI_END                                                                          \
    { NULL, CLI_FLAG, 0, NULL, NULL, 0, 0, NULL }

typedef struct cli_command cli_command_t;
struct cli_command {
    const char *name;
    const char *summary;         /* one line of `tidings --help` */
    const char *operands;        /* as the usage line shows them; NULL: it takes none */
    int max_operands;            /* how many */
    const char *description;     /* some lines of `tidings NAME --help` */
    const cli_option_t *options; /* besides --help */

    /* argv[0] is the first argument after the name. Returns an exit code. Errors of
     * writing to stdout are noticed in main() and need no care here. */
    int (*run)(const cli_command_t *self, int argc, char **argv);
};

extern const cli_command_t cli_check;
extern const cli_command_t cli_demo;
extern const cli_command_t cli_serve;
extern const cli_command_t cli_help;
extern const cli_command_t cli_postgres;
extern const cli_command_t cli_publish;
extern const cli_command_t cli_init;
extern const cli_command_t cli_watch;
extern const cli_command_t cli_ls;
extern const cli_command_t cli_read;
extern const cli_command_t cli_call;
extern const cli_command_t cli_prompt;
extern const cli_command_t cli_info;
extern const cli_command_t cli_doctor;
extern const cli_command_t cli_completion;

/* All of them, as the help lists them; ends with NULL. */
extern const cli_command_t *const cli_commands[];

/* Reads the command line into the struct at `fields`, whose defaults the caller has set.
 * Options may be spelled `--name value` and `--name=value`; `--` ends them, and what is
 * after it belongs to a CLI_PROGRAM where the table has one. What is no option is moved
 * to the front of argv and counted in *ret_operands (may be NULL).
 * Returns true to go on. Returns false when the command is over: help was asked for and
 * printed, or something was wrong, which is reported; *ret_exit is the exit code then. */
bool cli_parse(const cli_command_t *command, int argc, char **argv, void *fields,
               int *ret_operands, int *ret_exit);

/* What `tidings NAME --help` prints. */
void cli_print_help(const cli_command_t *command);

/* The time in ms, by a clock that never steps. */
int64_t cli_now_ms(void);

/* Report what is wrong on stderr: "tidings: …" and a new line. The exit codes of commands
 * that end by it: CLI_FAILED, and CLI_USAGE where the command line is wrong. */
int cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
int cli_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
