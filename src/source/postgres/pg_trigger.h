/* SPDX-License-Identifier: MIT
 *
 * The trigger that notifies of the changes of a table: SQL that `tidings postgres
 * install` prints or runs, and the SQL that removes it.
 *
 * One function per table, named like the default channel, in the table's schema; two
 * triggers, for rows and for TRUNCATE, with fixed names, so that a second install
 * replaces the first. A comment on the function, its mark, has the table and the channel:
 * `tidings notifies of "shop"."orders" on the channel "tidings_shop_orders"`. The event
 * triggers (pg_ddl.h) find it by that, also after the table was replaced by another; a
 * source determines from it whether it will be notified. A notification is {"op": …,
 * "key": {column: text, …}}; without "key" if that does not fit into the 8,000 bytes of a
 * payload, and for TRUNCATE. Keys are text as our own connection writes it, whatever the
 * settings of the session that changes the row. */
#ifndef TDG_SOURCE_PG_TRIGGER_H
#define TDG_SOURCE_PG_TRIGGER_H

#include <stddef.h>

#include "base/text.h"
#include "source/postgres/pg_sql.h"

enum { TDG__PG_MAX_KEYS = 16 };

#define TDG__PG_MARK "tidings notifies of "
#define TDG__PG_ROW_TRIGGER "tidings_row"
#define TDG__PG_TRUNCATE_TRIGGER "tidings_truncate"

typedef struct tdg__pg_trigger {
    tdg__pg_table_t table;
    char keys[TDG__PG_MAX_KEYS][TDG__PG_NAME_SIZE];
    size_t key_count;
    char channel[TDG__PG_NAME_SIZE];
} tdg__pg_trigger_t;

/* Append statements, each with its semicolon, without a transaction around them. Ask the
 * text for its error afterwards. */
void tdg__pg_put_install(tdg__text_t *out, const tdg__pg_trigger_t *trigger);
void tdg__pg_put_uninstall(tdg__text_t *out, const tdg__pg_table_t *table);

/* Appends the end of a mark, from behind the table on, as an SQL literal. */
void tdg__pg_put_mark_end(tdg__text_t *out, const char *channel);

#endif
