/* SPDX-License-Identifier: MIT
 *
 * The options of a config file, as tables: one row per option. The same rows read the
 * file, fill in defaults, write error messages with the expected value, and generate the
 * reference, the man page and the file of `tidings init`. A kind of source has its own
 * table; no other code knows its options. */
#ifndef TDG_CONFIG_OPTION_H
#define TDG_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/text.h"
#include "config/node.h"
#include "config/problems.h"

typedef enum tdg__option_type {
    TDG__OPTION_STRING,   /* char *; NULL: not given */
    TDG__OPTION_PATH,     /* char *; relative to the folder of the config file, made
                             absolute; ~/ is the home directory. Not looked at */
    TDG__OPTION_BOOL,     /* bool */
    TDG__OPTION_NUMBER,   /* int64_t, from `min` to `max` */
    TDG__OPTION_DURATION, /* int64_t in ms: "500ms", "2s", "5m", "1h", "1d", "0" */
    TDG__OPTION_SIZE,     /* int64_t in bytes: "4096", "64KiB", "10MiB" */
    TDG__OPTION_CHOICE,   /* int, the position in `choices` */
    TDG__OPTION_STRINGS,  /* char **, ends with NULL; NULL: not given. A single string is
                             a list of one */
    TDG__OPTION_MAP,      /* json_t *, an object of strings; NULL: not given */
} tdg__option_type_t;

enum {
    TDG__OPTION_REQUIRED = 1 << 0,
    TDG__OPTION_SECRET = 1 << 1, /* its value is never shown. (What came from the
                                    environment is never shown anywhere) */
    TDG__OPTION_RAW = 1 << 2, /* ${NAME} is left as it is; elsewhere it is replaced from
                                 the environment, ${NAME:-text} gives a default, and
                                 $${ is a literal ${ */
    TDG__OPTION_UINT32 =
        1 << 3, /* of a NUMBER, DURATION or SIZE: the field is an uint32_t,
                                    and 0 where it is not given */
};

typedef struct tdg__option {
    const char *name; /* as in the file, "max-size"; NULL ends the table */
    tdg__option_type_t type;
    size_t offset; /* of its field in the record */
    unsigned flags;
    const char *fallback; /* the default as one would write it, of STRINGS the only text,
                             never of a MAP; NULL: none, and a number, duration or size
                             that is not given is -1 then */
    int64_t min, max; /* NUMBER, DURATION (ms), SIZE (bytes); a max of 0 where min is not
                         below it: no limit */
    const char *const *choices; /* ends with NULL */
    const char *example;        /* a value, for the reference and `tidings init`, whose
                                   examples of one kind must go together; NULL: the
                                   fallback, or `init` leaves the option out */
    const char *help;           /* one or two plain sentences */
} tdg__option_t;

/* A mapping of the file with these options and no others. */
typedef struct tdg__section {
    const char *name; /* "server", "files" */
    const char *help; /* one or two plain sentences */
    const tdg__option_t *options;
    const char *uri; /* of a kind of resource: an example, or "" where any will do; NULL:
                        it makes its own */
} tdg__section_t;

/* Reads a mapping into the record at `fields`, which is all zero; every option that is
 * not given, or is wrong, takes its fallback. The node may be NULL: nothing is given.
 * `tables` are the tables that hold together, ends with NULL (a source has its own and
 * the common ones; a name appears once). What is wrong is added to `problems`, with its
 * place, and reading goes on. Returns 0, TDG_EINVAL where something was wrong, or
 * TDG_ENOMEM; free the record with tdg__options_done() in any case. */
int tdg__options_read(const tdg__option_t *const *tables, const tdg__node_t *node,
                      void *fields, tdg__problems_t *problems);

void tdg__options_done(const tdg__option_t *const *tables, void *fields);

/* The row of that name; NULL where there is none. */
const tdg__option_t *tdg__option_find(const tdg__option_t *const *tables,
                                      const char *name);

/* Appends a value as one would write it on one line; nothing where it is not given, and
 * "(secret)" for one that is not to be shown. */
void tdg__option_write(const tdg__option_t *option, const void *fields, tdg__text_t *out);

#endif
