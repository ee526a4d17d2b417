/* SPDX-License-Identifier: MIT */
#include "source/postgres/pg_trigger.h"

#include <string.h>

static void put_function_name(tdg__text_t *out, const tdg__pg_table_t *table) {
    char name[TDG__PG_NAME_SIZE];

    tdg__pg_channel(table, name);
    tdg__pg_put_name(out, table->schema);
    tdg__text_put(out, ".");
    tdg__pg_put_name(out, name);
}

/* json_build_object('id', OLD."id"::text, …) */
static void put_key(tdg__text_t *out, const tdg__pg_trigger_t *trigger, const char *row) {
    tdg__text_put(out, "json_build_object(");
    for (size_t i = 0; i < trigger->key_count; i++) {
        if (i > 0)
            tdg__text_put(out, ", ");
        tdg__pg_put_literal(out, trigger->keys[i]);
        tdg__text_format(out, ", %s.", row);
        tdg__pg_put_name(out, trigger->keys[i]);
        tdg__text_put(out, "::text");
    }
    tdg__text_put(out, ")::text");
}

static void put_body(tdg__text_t *out, const char *channel, const char *old_key,
                     const char *new_key) {
    tdg__text_format(out,
                     "\nDECLARE\n"
                     "    old_key text;\n"
                     "    new_key text;\n"
                     "BEGIN\n"
                     "    IF TG_OP = 'UPDATE' THEN\n"
                     "        IF OLD *= NEW THEN\n"
                     "            RETURN NULL; -- nothing has changed\n"
                     "        END IF;\n"
                     "    END IF;\n"
                     "    IF TG_OP IN ('UPDATE', 'DELETE') THEN\n"
                     "        old_key := %s;\n"
                     "    END IF;\n"
                     "    IF TG_OP IN ('UPDATE', 'INSERT') THEN\n"
                     "        new_key := %s;\n"
                     "    END IF;\n"
                     "    IF new_key = old_key THEN\n"
                     "        new_key := NULL; -- one notification is enough\n"
                     "    END IF;\n"
                     "    IF TG_OP = 'TRUNCATE' OR octet_length(old_key) > 7900\n"
                     "       OR octet_length(new_key) > 7900 THEN\n"
                     "        PERFORM pg_notify(%s, '{\"op\":\"' || TG_OP || '\"}');\n"
                     "        RETURN NULL;\n"
                     "    END IF;\n"
                     "    PERFORM pg_notify(%s, '{\"op\":\"' || TG_OP || "
                     "'\",\"key\":' || key || '}')\n"
                     "       FROM unnest(ARRAY[old_key, new_key]) AS key\n"
                     "      WHERE key IS NOT NULL;\n"
                     "    RETURN NULL;\n"
                     "END\n",
                     old_key, new_key, channel, channel);
}

/* One text as a literal of another. */
static void put_as_literal(tdg__text_t *out, tdg__text_t *text) {
    if (text->error < 0)
        out->error = text->error;
    else
        tdg__pg_put_literal(out, text->data);
    tdg__text_done(text);
}

/* A body in dollar quotes must not contain its own end, and a name may be any text. */
static void put_in_quotes(tdg__text_t *out, tdg__text_t *body) {
    const char *tag = "$tidings$";

    if (body->error < 0) {
        out->error = body->error;
    } else if (strstr(body->data, tag) == NULL) {
        tdg__text_put(out, tag);
        tdg__text_add(out, body->data, body->len);
        tdg__text_put(out, tag);
    } else {
        tdg__pg_put_literal(out, body->data);
    }
    tdg__text_done(body);
}

static void put_quoted_body(tdg__text_t *out, const tdg__pg_trigger_t *trigger) {
    tdg__text_t body, parts[3];

    tdg__text_init(&body, TDG__PG_SQL_MAX);
    for (size_t i = 0; i < 3; i++)
        tdg__text_init(&parts[i], TDG__PG_SQL_MAX);
    tdg__pg_put_literal(&parts[0], trigger->channel);
    put_key(&parts[1], trigger, "OLD");
    put_key(&parts[2], trigger, "NEW");
    for (size_t i = 0; i < 3; i++)
        if (parts[i].error < 0)
            body.error = parts[i].error;
    if (body.error == 0)
        put_body(&body, parts[0].data, parts[1].data, parts[2].data);
    put_in_quotes(out, &body);
    for (size_t i = 0; i < 3; i++)
        tdg__text_done(&parts[i]);
}

/* ---- The owner of the function ------------------------------------------ */

static void put_is_owned(tdg__text_t *out, const tdg__pg_table_t *table) {
    tdg__text_t function, relation;

    tdg__text_init(&function, TDG__PG_SQL_MAX);
    tdg__text_init(&relation, TDG__PG_SQL_MAX);
    put_function_name(&function, table);
    tdg__text_put(&function, "()");
    tdg__pg_put_table(&relation, table);

    tdg__text_put(out, "EXISTS (SELECT FROM pg_catalog.pg_proc\n"
                       "         WHERE oid = pg_catalog.to_regprocedure(");
    put_as_literal(out, &function);
    tdg__text_put(out, ")\n"
                       "           AND proowner IN (\n"
                       "               SELECT oid FROM pg_catalog.pg_roles\n"
                       "                WHERE rolname = current_user\n"
                       "               UNION SELECT relowner FROM pg_catalog.pg_class\n"
                       "                WHERE oid = pg_catalog.to_regclass(");
    put_as_literal(out, &relation);
    tdg__text_put(out, ")))");
}

/* The owner of the function can change what it does with the rights of those who write to
 * the table. Any role that may create functions in the schema may have made one of this
 * name before, and replacing a function does not change its owner. */
static void put_owner(tdg__text_t *out, const tdg__pg_table_t *table) {
    tdg__text_t body;

    tdg__text_init(&body, TDG__PG_SQL_MAX);
    tdg__text_put(&body, "\nBEGIN\n    IF NOT ");
    put_is_owned(&body, table);
    tdg__text_put(&body, " THEN\n        ALTER FUNCTION ");
    put_function_name(&body, table);
    tdg__text_put(&body, "() OWNER TO CURRENT_USER;\n"
                         "    END IF;\n"
                         "END\n");
    tdg__text_put(out, "DO ");
    put_in_quotes(out, &body);
    tdg__text_put(out, ";\n");
}

/* ---- The mark ----------------------------------------------------------- */

static void put_channel(tdg__text_t *mark, const char *channel) {
    tdg__text_put(mark, " on the channel ");
    tdg__pg_put_name(mark, channel);
}

void tdg__pg_put_mark_end(tdg__text_t *out, const char *channel) {
    tdg__text_t end;

    tdg__text_init(&end, TDG__PG_SQL_MAX);
    put_channel(&end, channel);
    put_as_literal(out, &end);
}

static void put_mark(tdg__text_t *out, const tdg__pg_trigger_t *trigger) {
    tdg__text_t mark;

    tdg__text_init(&mark, TDG__PG_SQL_MAX);
    tdg__text_put(&mark, TDG__PG_MARK);
    tdg__pg_put_table(&mark, &trigger->table);
    put_channel(&mark, trigger->channel);

    tdg__text_put(out, "COMMENT ON FUNCTION ");
    put_function_name(out, &trigger->table);
    tdg__text_put(out, "() IS ");
    put_as_literal(out, &mark);
    tdg__text_put(out, ";\n");
}

/* ---- The triggers ------------------------------------------------------- */

static void put_drop_triggers(tdg__text_t *out, const tdg__pg_table_t *table) {
    static const char *const names[] = {TDG__PG_ROW_TRIGGER, TDG__PG_TRUNCATE_TRIGGER};

    for (size_t i = 0; i < 2; i++) {
        tdg__text_format(out, "DROP TRIGGER IF EXISTS %s ON ", names[i]);
        tdg__pg_put_table(out, table);
        tdg__text_put(out, ";\n");
    }
}

static void put_trigger(tdg__text_t *out, const tdg__pg_table_t *table, const char *name,
                        const char *when, const char *each) {
    tdg__text_format(out, "CREATE TRIGGER %s\n    AFTER %s ON ", name, when);
    tdg__pg_put_table(out, table);
    tdg__text_format(out, "\n    FOR EACH %s EXECUTE FUNCTION ", each);
    put_function_name(out, table);
    tdg__text_put(out, "();\nALTER TABLE ");
    tdg__pg_put_table(out, table);
    /* Also for what a replication writes, or a session that says it is one. */
    tdg__text_format(out, " ENABLE ALWAYS TRIGGER %s;\n", name);
}

void tdg__pg_put_install(tdg__text_t *out, const tdg__pg_trigger_t *trigger) {
    tdg__text_put(out, "CREATE OR REPLACE FUNCTION ");
    put_function_name(out, &trigger->table);
    /* The settings decide how keys are written, and which operators are meant. */
    tdg__text_put(out, "() RETURNS trigger\n"
                       "    LANGUAGE plpgsql\n"
                       "    SET search_path = pg_catalog, pg_temp\n"
                       "    SET \"DateStyle\" = 'ISO, YMD'\n"
                       "    SET \"TimeZone\" = 'UTC'\n"
                       "    SET \"IntervalStyle\" = 'postgres'\n"
                       "    SET extra_float_digits = '1'\n"
                       "    SET bytea_output = 'hex'\n"
                       "    AS ");
    put_quoted_body(out, trigger);
    tdg__text_put(out, ";\n");
    put_owner(out, &trigger->table);
    put_mark(out, trigger);

    put_drop_triggers(out, &trigger->table);
    put_trigger(out, &trigger->table, TDG__PG_ROW_TRIGGER, "INSERT OR UPDATE OR DELETE",
                "ROW");
    put_trigger(out, &trigger->table, TDG__PG_TRUNCATE_TRIGGER, "TRUNCATE", "STATEMENT");
}

void tdg__pg_put_uninstall(tdg__text_t *out, const tdg__pg_table_t *table) {
    put_drop_triggers(out, table);
    tdg__text_put(out, "DROP FUNCTION IF EXISTS ");
    put_function_name(out, table);
    /* A table that was renamed keeps its triggers. */
    tdg__text_put(out, "() CASCADE;\n");
}
