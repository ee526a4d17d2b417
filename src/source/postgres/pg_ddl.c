/* SPDX-License-Identifier: MIT */
#include "source/postgres/pg_ddl.h"

#include "source/postgres/pg_trigger.h"

#define TRIGGERS                                                                         \
    "('tidings_ddl_command_end', 'tidings_sql_drop', 'tidings_table_rewrite')"
#define SCHEMA_MARK "'made by tidings postgres install'"

/* ---- The function ------------------------------------------------------- */

/* Every command pays for the plans of these statements, so they are made once. */
static const char head[] =
    "    CREATE OR REPLACE FUNCTION tidings.notify_of_ddl() RETURNS event_trigger\n"
    "        LANGUAGE plpgsql\n"
    "        SET search_path = pg_catalog, pg_temp\n"
    "        SET plan_cache_mode = force_generic_plan\n"
    "        AS $ddl$\n"
    "#variable_conflict use_column\n"
    "DECLARE\n"
    "    classes oid[]; -- catalogues, and in them\n"
    "    objects oid[]; -- what the command has made or altered\n"
    "    schemas text[]; -- of\n"
    "    tables text[]; -- the names that are concerned\n"
    "    functions oid[]; -- the triggers' functions\n"
    "    lost text[]; -- those that were dropped\n"
    "BEGIN\n";

/* After a drop there are only names. A function of ours goes with its schema; its name is
 * the default channel. A trigger does not say of which table its table was a partition.
 */
static const char look_at_drop[] =
    "    IF TG_EVENT = 'sql_drop' THEN\n"
    "        SELECT array_agg(address_names[1]), array_agg(address_names[2]),\n"
    "               array_agg(address_names[2]) FILTER (WHERE object_type = 'function'\n"
    "                   AND starts_with(address_names[2], 'tidings_'))\n"
    "          INTO schemas, tables, lost\n"
    "          FROM pg_event_trigger_dropped_objects()\n"
    "         WHERE NOT is_temporary AND cardinality(address_names) > 1;\n"
    "        IF tables IS NULL THEN\n"
    "            RETURN;\n"
    "        END IF;\n"
    "        IF EXISTS (SELECT FROM pg_event_trigger_dropped_objects()\n"
    "                    WHERE object_type = 'trigger' AND address_names[3] = "
    "'" TDG__PG_ROW_TRIGGER "') THEN\n"
    "            functions := ARRAY(SELECT tgfoid FROM pg_partitioned_table JOIN "
    "pg_trigger\n"
    "                ON tgrelid = partrelid AND tgname = '" TDG__PG_ROW_TRIGGER "');\n"
    "        END IF;\n";

static const char look_at_command[] =
    "    ELSE\n"
    "        IF TG_EVENT = 'table_rewrite' THEN\n"
    "            classes := ARRAY['pg_class'::regclass];\n"
    "            objects := ARRAY[pg_event_trigger_table_rewrite_oid()];\n"
    "        ELSE\n"
    "            SELECT array_agg(classid), array_agg(objid) INTO classes, objects\n"
    "              FROM pg_event_trigger_ddl_commands()\n"
    "             WHERE schema_name IS DISTINCT FROM 'pg_temp';\n"
    "        END IF;\n"
    "        IF classes IS NULL THEN\n"
    "            RETURN; -- temporary tables, which are made often\n"
    "        END IF;\n";

/* A type concerns the tables that use it, a partition its parents. A table that had
 * another name before is known by its trigger. */
static const char find_tables[] =
    "        WITH RECURSIVE concerned(class, object) AS (\n"
    "            SELECT * FROM unnest(classes, objects)\n"
    "            UNION\n"
    "            SELECT further.* FROM concerned, LATERAL (\n"
    "                SELECT classid, objid FROM pg_depend\n"
    "                 WHERE class = 'pg_type'::regclass\n"
    "                   AND refclassid = class AND refobjid = object\n"
    "                UNION ALL SELECT 'pg_type'::regclass, reltype FROM pg_class c\n"
    "                 WHERE class = 'pg_class'::regclass AND c.oid = object AND relkind "
    "= 'c'\n"
    "                UNION ALL SELECT 'pg_class'::regclass, inhparent FROM pg_inherits\n"
    "                 WHERE class = 'pg_class'::regclass AND inhrelid = object\n"
    "                UNION ALL SELECT 'pg_class'::regclass, tgrelid FROM pg_trigger t\n"
    "                 WHERE class = 'pg_trigger'::regclass AND t.oid = object\n"
    "                UNION ALL SELECT 'pg_class'::regclass, polrelid FROM pg_policy p\n"
    "                 WHERE class = 'pg_policy'::regclass AND p.oid = object) AS "
    "further\n"
    "        )\n"
    "        SELECT array_agg(nspname), array_agg(relname),\n"
    "               array_agg(tgfoid) FILTER (WHERE tgfoid IS NOT NULL)\n"
    "          INTO schemas, tables, functions\n"
    "          FROM concerned\n"
    "          JOIN pg_class c ON class = 'pg_class'::regclass AND c.oid = object\n"
    "          JOIN pg_namespace n ON n.oid = relnamespace\n"
    "          LEFT JOIN pg_trigger ON tgrelid = c.oid AND tgname = '" TDG__PG_ROW_TRIGGER
    "';\n"
    "        IF 'pg_namespace'::regclass = ANY (classes) THEN\n"
    "            functions := functions || ARRAY(\n"
    "                SELECT p.oid FROM pg_proc p, pg_namespace n\n"
    "                 WHERE proname >= 'tidings_' AND proname < 'tidings`'\n"
    "                   AND n.oid = ANY (objects) AND (pronamespace = n.oid OR "
    "starts_with(\n"
    "                       obj_description(p.oid, 'pg_proc'),\n"
    "                       format('" TDG__PG_MARK
    "\"%s\".', replace(nspname, '\"', '\"\"')))));\n"
    "        END IF;\n"
    "    END IF;\n";

/* The function of a table is named after it. If that is too long for a name, it is one of
 * all of ours: names are compared byte by byte, and '`' follows '_'. */
static const char find_functions[] =
    "    functions := functions || ARRAY(\n"
    "        SELECT p.oid FROM (SELECT DISTINCT s, t, concat('tidings_', s, '_', t)\n"
    "                             FROM unnest(schemas, tables) AS pairs(s, t)\n"
    "                          ) AS named(s, t, f)\n"
    "          JOIN pg_proc p ON proname >= CAST(\n"
    "                   CASE WHEN octet_length(f) < 64 THEN f ELSE 'tidings_' END AS "
    "name)\n"
    "               AND proname <= CAST(\n"
    "                   CASE WHEN octet_length(f) < 64 THEN f ELSE 'tidings`' END AS "
    "name)\n"
    "         WHERE starts_with(obj_description(p.oid, 'pg_proc'),\n"
    "                   format('" TDG__PG_MARK "\"%s\".\"%s\" on the channel \"',\n"
    "                       replace(s, '\"', '\"\"'), replace(t, '\"', '\"\"'))));\n";

static const char notify[] =
    "    IF cardinality(functions) = 0 AND lost IS NULL THEN\n"
    "        RETURN;\n"
    "    END IF;\n"
    "    PERFORM pg_notify(channel, '{\"op\":\"DDL\"}')\n"
    "       FROM (SELECT replace((regexp_match(obj_description(f, 'pg_proc'),\n"
    "                        '^" TDG__PG_MARK
    ".* on the channel \"((?:[^\"]|\"\")*)\"$'))[1], '\"\"', '\"')\n"
    "               FROM unnest(functions) AS f\n"
    "              UNION SELECT unnest(lost)) AS found(channel)\n"
    "      WHERE octet_length(channel) BETWEEN 1 AND 63;\n"
    "EXCEPTION WHEN OTHERS THEN\n"
    "    RAISE LOG 'tidings: could not notify of this %: %', TG_TAG, SQLERRM;\n"
    "END\n"
    "$ddl$;\n";

/* ---- The event triggers ------------------------------------------------- */

/* The owner of an earlier function of this name could change what it does. */
static const char take_function[] =
    "    ALTER FUNCTION tidings.notify_of_ddl() OWNER TO CURRENT_USER;\n";

static const char drop_triggers[] =
    "    DROP EVENT TRIGGER IF EXISTS tidings_ddl_command_end;\n"
    "    DROP EVENT TRIGGER IF EXISTS tidings_sql_drop;\n"
    "    DROP EVENT TRIGGER IF EXISTS tidings_table_rewrite;\n";

/* The commands after which another relation may have a table's name, or the table other
 * columns, rows or triggers. */
static const char create_triggers[] =
    "    CREATE EVENT TRIGGER tidings_ddl_command_end ON ddl_command_end\n"
    "        WHEN TAG IN ('ALTER FOREIGN TABLE', 'ALTER MATERIALIZED VIEW',\n"
    "            'ALTER POLICY', 'ALTER SCHEMA', 'ALTER TABLE', 'ALTER TRIGGER',\n"
    "            'ALTER TYPE', 'ALTER VIEW', 'CREATE FOREIGN TABLE',\n"
    "            'CREATE MATERIALIZED VIEW', 'CREATE POLICY', 'CREATE SCHEMA',\n"
    "            'CREATE TABLE', 'CREATE TABLE AS', 'CREATE TRIGGER', 'CREATE VIEW',\n"
    "            'IMPORT FOREIGN SCHEMA', 'REFRESH MATERIALIZED VIEW', 'SELECT INTO')\n"
    "        EXECUTE FUNCTION tidings.notify_of_ddl();\n"
    "    CREATE EVENT TRIGGER tidings_sql_drop ON sql_drop\n"
    "        EXECUTE FUNCTION tidings.notify_of_ddl();\n"
    "    CREATE EVENT TRIGGER tidings_table_rewrite ON table_rewrite\n"
    "        EXECUTE FUNCTION tidings.notify_of_ddl();\n"
    "    ALTER EVENT TRIGGER tidings_ddl_command_end ENABLE ALWAYS;\n"
    "    ALTER EVENT TRIGGER tidings_sql_drop ENABLE ALWAYS;\n"
    "    ALTER EVENT TRIGGER tidings_table_rewrite ENABLE ALWAYS;\n";

void tdg__pg_put_ddl_install(tdg__text_t *out) {
    tdg__text_put(out, "DO $tidings$\n"
                       "BEGIN\n"
                       "    IF pg_catalog.to_regnamespace('tidings') IS NULL THEN\n"
                       "        CREATE SCHEMA tidings;\n"
                       "        COMMENT ON SCHEMA tidings IS " SCHEMA_MARK ";\n"
                       "    END IF;\n");
    tdg__text_put(out, head);
    tdg__text_put(out, look_at_drop);
    tdg__text_put(out, look_at_command);
    tdg__text_put(out, find_tables);
    tdg__text_put(out, find_functions);
    tdg__text_put(out, notify);
    tdg__text_put(out, take_function);
    tdg__text_put(out, drop_triggers);
    tdg__text_put(out, create_triggers);
    tdg__text_put(out, "EXCEPTION WHEN OTHERS THEN\n"
                       "    IF (SELECT count(*) FROM pg_catalog.pg_event_trigger\n"
                       "         WHERE evtname IN " TRIGGERS "\n"
                       "           AND evtenabled = 'A') < 3 THEN\n"
                       "        RAISE WARNING 'no event triggers (%): changes by DDL are "
                       "noticed at the next probe', SQLERRM;\n"
                       "    END IF;\n"
                       "END\n"
                       "$tidings$;\n");
}

/* The schema may hold things of others, or have been there before. */
static const char drop_schema[] =
    "        BEGIN\n"
    "            IF pg_catalog.obj_description(pg_catalog.to_regnamespace('tidings'),\n"
    "                   'pg_namespace') = " SCHEMA_MARK " THEN\n"
    "                DROP SCHEMA tidings;\n"
    "            END IF;\n"
    "        EXCEPTION WHEN dependent_objects_still_exist THEN\n"
    "            NULL;\n"
    "        END;\n";

void tdg__pg_put_ddl_uninstall(tdg__text_t *out) {
    tdg__text_put(out,
                  "DO $tidings$\n"
                  "BEGIN\n"
                  "    IF EXISTS (SELECT FROM pg_catalog.pg_event_trigger\n"
                  "               WHERE evtname IN " TRIGGERS ")\n"
                  "       AND NOT EXISTS (SELECT FROM pg_catalog.pg_description\n"
                  "               WHERE classoid = 'pg_catalog.pg_proc'::regclass\n"
                  "                 AND description LIKE '" TDG__PG_MARK "%') THEN\n");
    tdg__text_put(out, drop_triggers);
    tdg__text_put(out, "        DROP FUNCTION IF EXISTS tidings.notify_of_ddl();\n");
    tdg__text_put(out, drop_schema);
    tdg__text_put(out, "    END IF;\n"
                       "EXCEPTION WHEN OTHERS THEN\n"
                       "    RAISE WARNING 'the event triggers tidings_* stay: %', "
                       "SQLERRM;\n"
                       "END\n"
                       "$tidings$;\n");
}
