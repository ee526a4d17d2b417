/* SPDX-License-Identifier: MIT
 *
 * What an entry of the config means in SQL: the statement that reads a URI and which
 * variable of the template each of its parameters is, the channel to listen on, and the
 * way from the payload of a notification to a URI. Made once; does no I/O.
 *
 * With `table` and `key`, a template's variables are columns of the key, by name (one
 * variable and one column belong together whatever their names). A URI has to spell a
 * value as the database does ("42", not "042"): otherwise one row would have many URIs,
 * and a notification could name one of them only. */
#ifndef TDG_SOURCE_PG_PLAN_H
#define TDG_SOURCE_PG_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/template.h"
#include "config/node.h"
#include "source/postgres/pg_sql.h"
#include "source/postgres/pg_trigger.h"

/* How the trigger of a table, or of one of its partitions or children, is enabled, the
 * worst first: there is none, it is disabled, it notifies on another channel, it fires
 * for replicated changes only, a child by INHERITS has none, it fires for other changes
 * only, always. */
#define TDG__PG_ENABLED "-DCRIOA"

enum { TDG__PG_MAX_PARAMS_SQL = 2 * TDG__TEMPLATE_MAX_NAMES };

enum {
    TDG__PG_AUTO, /* one row where the template names the whole key, else many */
    TDG__PG_ONE,
    TDG__PG_MANY
};

typedef struct tdg__pg_entry { /* as the config has it; borrowed */
    const char *uri, *table, *query, *channel;
    char *const *keys; /* ends with NULL; may be NULL */
    int shape;
    int64_t max_rows;
} tdg__pg_entry_t;

typedef struct tdg__pg_plan {
    tdg__template_t *template_; /* NULL: a plain URI */
    bool by_table;
    bool one;                  /* a URI is one row */
    bool listens;              /* there is a channel */
    bool derived;              /* and it is that of the table's own trigger */
    tdg__pg_trigger_t trigger; /* by_table: table, key; channel in any case */
    char table_name[2 * TDG__PG_NAME_SIZE]; /* "public.orders" */

    tdg__pg_sql_t bound; /* the query with numbers */
    char *read;          /* reads a URI */
    char *snapshot;      /* by_table and a template: keys and digest of every row */
    char *listen;
    char *state; /* by_table: what changes when rows do without a notification, as one
                    row: the trigger that notifies of least (see TDG__PG_ENABLED), a
                    digest of the table's definition and storage, a count of rows
                    written where the trigger does not always fire; an error if the
                    table cannot be looked at */

    char *variables[TDG__TEMPLATE_MAX_NAMES]; /* of the template */
    const char
        *columns[TDG__TEMPLATE_MAX_NAMES]; /* of a variable: of the key, or itself */
    size_t variable_count;
    const char *params[TDG__PG_MAX_PARAMS_SQL]; /* the variable of each parameter */
    size_t param_count;
} tdg__pg_plan_t;

/* Adds what is wrong to `problems`, at the places of `node`. Returns 0, TDG_EINVAL or
 * TDG_ENOMEM; write it off with tdg__pg_plan_done() in any case. */
int tdg__pg_plan_init(tdg__pg_plan_t *plan, const tdg__pg_entry_t *entry,
                      const tdg__node_t *node, tdg__problems_t *problems);
void tdg__pg_plan_done(tdg__pg_plan_t *plan); /* all zero is accepted */

typedef enum tdg__pg_op {
    TDG__PG_NO_OP, /* not said */
    TDG__PG_INSERT,
    TDG__PG_UPDATE,
    TDG__PG_DELETE,
    TDG__PG_TRUNCATE,
    TDG__PG_DDL /* of the event triggers: the table itself may be another */
} tdg__pg_op_t;

/* NULL unless it is something that happens to rows. */
const char *tdg__pg_op_name(tdg__pg_op_t op);

/* What a payload says: stores the operation in *ret_op, and appends the URI of the row to
 * `out` where the payload names it. Returns 0; TDG_ENOTFOUND where it names no row;
 * TDG_ENOMEM. Payloads are {"op": "UPDATE", "key": {"id": 42}}, or the only value of a
 * key as plain text. */
int tdg__pg_plan_payload(const tdg__pg_plan_t *plan, const char *payload,
                         tdg__pg_op_t *ret_op, tdg__text_t *out);

/* The same from the values of the variables, in their order; NULL is no value. */
int tdg__pg_plan_uri(const tdg__pg_plan_t *plan, const char *const *values,
                     tdg__text_t *out);

#endif
