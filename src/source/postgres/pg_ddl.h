/* SPDX-License-Identifier: MIT
 *
 * The event triggers that notify of DDL, which fires no row trigger: the SQL by which
 * `tidings postgres install` makes them, and that which removes them.
 *
 * There is one set for a database, whatever the number of tables: three event triggers
 * and one function, in a schema of its own, so that it does not go with the schema of a
 * table. The function finds the tables of tidings by the marks of their trigger functions
 * (see pg_trigger.h), so that the owner of a table can install and uninstall it without a
 * right to event triggers. It sends {"op": "DDL"} on the channel of a table that a
 * command concerns, and nothing for any other table: a transaction that has notified
 * cannot be prepared for two-phase commit.
 *
 * It never fails: an error is written to the server's log, and the command goes on. */
#ifndef TDG_SOURCE_PG_DDL_H
#define TDG_SOURCE_PG_DDL_H

#include "base/text.h"

/* Appends a statement, with its semicolon. If the role may not create event triggers, and
 * there are none, the statement raises one warning that says so and changes nothing. */
void tdg__pg_put_ddl_install(tdg__text_t *out);

/* The same for their removal, if no table of tidings is left in the database. */
void tdg__pg_put_ddl_uninstall(tdg__text_t *out);

#endif
