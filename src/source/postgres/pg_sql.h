/* SPDX-License-Identifier: MIT
 *
 * The SQL that we write, and the SQL that others wrote for us.
 *
 * A query of the config names its parameters (`WHERE id = :id`); the server wants them
 * numbered. tdg__pg_sql_parse() replaces the names and nothing else: values never become
 * part of the text. It knows what is no parameter: strings ('…', E'…'), identifiers
 * ("…"), dollar quotes ($$…$$, $tag$…$tag$), comments (nested ones too), casts (::) and
 * named arguments (:=). `a[1:n]` reads as a parameter; write `a[1 : n]`.
 *
 * Names of tables and columns are read as SQL reads them: without quotes in small
 * letters, in double quotes as they are. */
#ifndef TDG_SOURCE_PG_SQL_H
#define TDG_SOURCE_PG_SQL_H

#include <stddef.h>

#include "base/parse_error.h"
#include "base/template.h"
#include "base/text.h"

enum {
    TDG__PG_NAME_MAX = 63, /* bytes of a name in PostgreSQL */
    TDG__PG_NAME_SIZE = TDG__PG_NAME_MAX + 1,
    TDG__PG_SQL_MAX = 256 * 1024, /* bytes of a query */
};

typedef struct tdg__pg_sql {
    char *text;                           /* with $1, $2, … */
    char *names[TDG__TEMPLATE_MAX_NAMES]; /* names[0] is $1; each name once */
    size_t count;
} tdg__pg_sql_t;

/* Returns 0; TDG_EINVAL with *error where a quote does not end, a number ($1) stands
 * where a name should, or there are too many names; TDG_ETOOLARGE; TDG_ENOMEM. Write
 * *ret off with tdg__pg_sql_done() in the case of success only. */
int tdg__pg_sql_parse(const char *sql, size_t len, tdg__pg_sql_t *ret,
                      tdg__parse_error_t *error);
void tdg__pg_sql_done(tdg__pg_sql_t *sql); /* all zero is accepted */

typedef struct tdg__pg_table {
    char schema[TDG__PG_NAME_SIZE]; /* "public" where none is given */
    char name[TDG__PG_NAME_SIZE];
} tdg__pg_table_t;

/* Reads `table`, `schema.table`, `"Schema"."a.b"`. Returns 0 or TDG_EINVAL, with *error.
 */
int tdg__pg_table_parse(const char *text, tdg__pg_table_t *ret,
                        tdg__parse_error_t *error);

/* Reads one name at the start of `text`, up to `stop` or the end (not inside quotes).
 * Returns where that is, or NULL with *error. */
const char *tdg__pg_name_parse(const char *text, char stop, char ret[TDG__PG_NAME_SIZE],
                               tdg__parse_error_t *error);

/* "tidings_SCHEMA_TABLE": the channel on which the trigger of a table notifies,
 * and the trigger's function. Too long a name is cut and ends in a hash of the whole. */
void tdg__pg_channel(const tdg__pg_table_t *table, char ret[TDG__PG_NAME_SIZE]);

/* With quotes around it, and those inside doubled. A literal also stands for itself where
 * standard_conforming_strings is off. */
void tdg__pg_put_name(tdg__text_t *out, const char *name);
void tdg__pg_put_table(tdg__text_t *out, const tdg__pg_table_t *table);
void tdg__pg_put_literal(tdg__text_t *out, const char *value);

#endif
