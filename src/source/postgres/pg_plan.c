/* SPDX-License-Identifier: MIT */
#include "source/postgres/pg_plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/template_expand.h"

/* No column is called like this, so that it means the row. */
#define ROW "tidings__row"

enum { MAX_URI = TDG__TEMPLATE_MAX_LEN };

/* What making a plan needs beside the plan. */
struct maker {
    tdg__pg_plan_t *plan;
    const tdg__pg_entry_t *entry;
    const tdg__node_t *node;
    tdg__problems_t *problems;
    int failed; /* 0 or the first code */
};

static void __attribute__((format(printf, 3, 4)))
problem(struct maker *maker, const char *option, const char *format, ...) {
    const tdg__node_t *place = tdg__node_get(maker->node, option);
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (place == NULL)
        place = maker->node;
    tdg__problems_add(maker->problems, place->line, place->column, "%s", text);
    if (maker->failed == 0)
        maker->failed = TDG_EINVAL;
}

/* ---- The template ------------------------------------------------------- */

static int copy_names(tdg__pg_plan_t *plan) {
    const char *name;
    size_t len;

    while ((name = tdg__template_name(plan->template_, plan->variable_count, &len)) !=
           NULL) {
        char *copy = tdg__strndup(name, len);

        if (copy == NULL)
            return TDG_ENOMEM;
        plan->variables[plan->variable_count] = copy;
        plan->columns[plan->variable_count++] = copy;
    }
    return 0;
}

/* A URI that is none is a problem that the common half finds. */
static void read_template(struct maker *maker) {
    const char *uri = maker->entry->uri;
    int rv;

    if (uri == NULL || strchr(uri, '{') == NULL)
        return;
    rv = tdg__template_parse(uri, strlen(uri), &maker->plan->template_, NULL);
    if (rv == 0)
        rv = copy_names(maker->plan);
    if (rv < 0)
        maker->failed = rv;
}

/* ---- A table ------------------------------------------------------------ */

static void read_keys(struct maker *maker) {
    tdg__pg_trigger_t *trigger = &maker->plan->trigger;
    tdg__parse_error_t error;

    for (char *const *key = maker->entry->keys; key != NULL && *key != NULL; key++) {
        if (trigger->key_count == TDG__PG_MAX_KEYS) {
            problem(maker, "key", "key: at most %d columns", TDG__PG_MAX_KEYS);
            return;
        }
        if (tdg__pg_name_parse(*key, '\0', trigger->keys[trigger->key_count], &error) ==
            NULL)
            problem(maker, "key", "key: number %d of it is not a column name: %s",
                    (int)(key - maker->entry->keys) + 1, error.text);
        else
            trigger->key_count++;
    }
    if (trigger->key_count == 0 && maker->failed == 0)
        problem(maker, "table",
                "`table` needs `key`: the column or columns that identify a row");
}

static const char *column_of(const tdg__pg_trigger_t *trigger, const char *variable) {
    for (size_t i = 0; i < trigger->key_count; i++)
        if (strcmp(trigger->keys[i], variable) == 0)
            return trigger->keys[i];
    return NULL;
}

static void pair_variables(struct maker *maker) {
    tdg__pg_plan_t *plan = maker->plan;

    if (plan->template_ == NULL)
        return;
    if (!tdg__template_can_expand(plan->template_)) {
        problem(maker, "uri", "uri: with `table`, variables are written {x} or {+x}");
        return;
    }
    if (plan->variable_count == 1 && plan->trigger.key_count == 1) {
        plan->columns[0] = plan->trigger.keys[0];
        return;
    }
    for (size_t i = 0; i < plan->variable_count; i++) {
        plan->columns[i] = column_of(&plan->trigger, plan->variables[i]);
        if (plan->columns[i] == NULL)
            problem(maker, "uri", "uri: the variable {%s} is not a column of `key`",
                    plan->variables[i]);
    }
}

static void put_column(tdg__text_t *out, const char *column) {
    tdg__text_put(out, ROW ".");
    tdg__pg_put_name(out, column);
}

static void put_column_text(tdg__text_t *out, const char *column) {
    tdg__text_put(out, "CAST(");
    put_column(out, column);
    tdg__text_put(out, " AS text)");
}

static void put_from(tdg__text_t *out, const tdg__pg_plan_t *plan) {
    tdg__text_put(out, " FROM ");
    tdg__pg_put_table(out, &plan->trigger.table);
    tdg__text_put(out, " AS " ROW);
}

/* The column is compared twice: as what it is, where an index helps, and as text. */
static void put_where(tdg__text_t *out, tdg__pg_plan_t *plan) {
    for (size_t i = 0; i < plan->variable_count; i++) {
        tdg__text_put(out, i == 0 ? " WHERE " : " AND ");
        put_column(out, plan->columns[i]);
        tdg__text_format(out, " = $%zu AND ", plan->param_count + 1);
        put_column_text(out, plan->columns[i]);
        tdg__text_format(out, " = $%zu", plan->param_count + 2);
        plan->params[plan->param_count++] = plan->variables[i];
        plan->params[plan->param_count++] = plan->variables[i];
    }
}

static char *steal(struct maker *maker, tdg__text_t *text) {
    if (text->error < 0 && maker->failed == 0)
        maker->failed = text->error;
    if (text->error < 0)
        tdg__text_done(text);
    return text->data;
}

static void write_read(struct maker *maker) {
    tdg__pg_plan_t *plan = maker->plan;
    tdg__text_t out;

    tdg__text_init(&out, TDG__PG_SQL_MAX);
    tdg__text_put(&out, "SELECT " ROW ".*");
    if (plan->template_ != NULL)
        tdg__text_put(&out, ", md5(CAST(" ROW " AS text))");
    put_from(&out, plan);
    put_where(&out, plan);
    for (size_t i = 0; i < plan->trigger.key_count; i++) {
        tdg__text_put(&out, i == 0 ? " ORDER BY " : ", ");
        put_column(&out, plan->trigger.keys[i]);
    }
    tdg__text_format(&out, " LIMIT %" PRId64, maker->entry->max_rows + 1);
    plan->read = steal(maker, &out);
}

static void write_snapshot(struct maker *maker) {
    tdg__pg_plan_t *plan = maker->plan;
    tdg__text_t out;

    if (plan->template_ == NULL)
        return;
    tdg__text_init(&out, TDG__PG_SQL_MAX);
    tdg__text_put(&out, "SELECT ");
    for (size_t i = 0; i < plan->variable_count; i++) {
        put_column_text(&out, plan->columns[i]);
        tdg__text_put(&out, ", ");
    }
    tdg__text_put(&out, "md5(CAST(" ROW " AS text))");
    put_from(&out, plan);
    plan->snapshot = steal(maker, &out);
}

/* The table with its partitions and children, each with how its trigger is enabled: as
 * pg_trigger has it, '-' for none, 'C' for one that notifies on another channel, 'I' for
 * a child by INHERITS without one. An older install has left no mark; its function is
 * named as the channel. */
static void put_tree(tdg__text_t *out, const tdg__pg_plan_t *plan, const char *table) {
    tdg__text_put(out, "WITH RECURSIVE tree (relid, is_child) AS (SELECT "
                       "pg_catalog.to_regclass(");
    tdg__pg_put_literal(out, table);
    tdg__text_put(
        out,
        ")::oid, false UNION SELECT inhrelid, true FROM tree JOIN pg_catalog.pg_inherits "
        "ON inhparent = relid), part AS (SELECT r.oid, r.relfilenode, coalesce((SELECT "
        "CASE WHEN CASE WHEN starts_with(d.description, '" TDG__PG_MARK
        "') THEN right(d.description, length(");
    tdg__pg_put_mark_end(out, plan->trigger.channel);
    tdg__text_put(out, ")) = ");
    tdg__pg_put_mark_end(out, plan->trigger.channel);
    tdg__text_put(out, " ELSE f.proname = ");
    tdg__pg_put_literal(out, plan->trigger.channel);
    tdg__text_put(
        out,
        " END THEN t.tgenabled::text ELSE 'C' END FROM pg_catalog.pg_trigger t "
        "JOIN pg_catalog.pg_proc f ON f.oid = t.tgfoid "
        "LEFT JOIN pg_catalog.pg_description d ON d.objoid = f.oid AND d.objsubid = 0 "
        "AND d.classoid = 'pg_catalog.pg_proc'::regclass "
        "WHERE t.tgrelid = r.oid AND t.tgname = '" TDG__PG_ROW_TRIGGER "'), "
        "CASE WHEN is_child AND NOT r.relispartition THEN 'I' ELSE '-' END) "
        "AS enabled FROM tree JOIN pg_catalog.pg_class r ON r.oid = relid) ");
}

/* A table may hold other rows though no trigger has fired: another table has its name, it
 * was rewritten, its columns, its partitions, what a view shows or who may see which rows
 * are others, its trigger was off for a while. Of rows that were written while it was
 * off, only the statistics know.
 *
 * Names the table as a table, too, for nothing but the error where it does not exist or
 * may not be read. */
static void put_state(tdg__text_t *out, const char *table) {
    tdg__text_put(
        out,
        "SELECT (SELECT substr('" TDG__PG_ENABLED "', min(strpos('" TDG__PG_ENABLED
        "', enabled)), 1) FROM part), "
        "md5(concat_ws(' ', c.oid, c.relacl, c.relrowsecurity, c.relforcerowsecurity, "
        "(SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, "
        "a.attisdropped, a.attmissingval, a.attacl, a.attgenerated, g.oid, g.xmin), ',' "
        "ORDER BY a.attnum) FROM pg_catalog.pg_attribute a LEFT JOIN "
        "pg_catalog.pg_attrdef g ON g.adrelid = a.attrelid AND g.adnum = a.attnum AND "
        "a.attgenerated <> '' WHERE a.attrelid = c.oid AND a.attnum > 0), "
        "(SELECT string_agg(concat_ws(' ', t.oid, t.xmin), ',' ORDER BY t.oid) FROM "
        "part JOIN pg_catalog.pg_trigger t ON t.tgrelid = part.oid AND t.tgname IN "
        "('" TDG__PG_ROW_TRIGGER "', '" TDG__PG_TRUNCATE_TRIGGER "')), "
        "(SELECT string_agg(concat_ws(' ', oid, xmin), ',' ORDER BY oid) FROM "
        "pg_catalog.pg_policy WHERE polrelid = c.oid), "
        "(SELECT string_agg(concat_ws(' ', oid, xmin), ',' ORDER BY oid) FROM "
        "pg_catalog.pg_rewrite WHERE ev_class = c.oid), "
        "(SELECT string_agg(concat_ws(' ', oid, relfilenode), ',' ORDER BY oid) FROM "
        "part))), "
        "(SELECT sum(pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid) "
        "+ pg_stat_get_tuples_deleted(oid)) FROM part WHERE enabled <> 'A') "
        "FROM pg_catalog.pg_class c WHERE c.oid = pg_catalog.to_regclass(");
    tdg__pg_put_literal(out, table);
    tdg__text_format(out, ") AND NOT EXISTS (SELECT 1 FROM %s LIMIT 0)", table);
}

static void write_state(struct maker *maker) {
    tdg__text_t out, table;

    tdg__text_init(&out, TDG__PG_SQL_MAX);
    tdg__text_init(&table, TDG__PG_SQL_MAX);
    tdg__pg_put_table(&table, &maker->plan->trigger.table);
    if (table.error < 0) {
        maker->failed = table.error;
    } else {
        put_tree(&out, maker->plan, table.data);
        put_state(&out, table.data);
        maker->plan->state = steal(maker, &out);
    }
    tdg__text_done(&table);
}

static void plan_table(struct maker *maker) {
    tdg__pg_plan_t *plan = maker->plan;
    tdg__parse_error_t error;
    size_t covered = 0;

    plan->by_table = true;
    if (tdg__pg_table_parse(maker->entry->table, &plan->trigger.table, &error) < 0)
        /* Not what it is: it may come from the environment, and be a secret. */
        problem(maker, "table", "table: this is not a table name: %s", error.text);
    read_keys(maker);
    pair_variables(maker);
    if (maker->failed < 0)
        return;

    snprintf(plan->table_name, sizeof(plan->table_name), "%s.%s",
             plan->trigger.table.schema, plan->trigger.table.name);
    for (size_t i = 0; i < plan->trigger.key_count; i++)
        for (size_t j = 0; j < plan->variable_count; j++)
            covered += strcmp(plan->trigger.keys[i], plan->columns[j]) == 0;
    plan->one = maker->entry->shape == TDG__PG_ONE ||
                (maker->entry->shape == TDG__PG_AUTO && plan->template_ != NULL &&
                 covered == plan->trigger.key_count);
    write_read(maker);
    write_snapshot(maker);
}

/* ---- A query ------------------------------------------------------------ */

static bool has_name(char *const *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void plan_query(struct maker *maker) {
    tdg__pg_plan_t *plan = maker->plan;
    tdg__pg_sql_t *bound = &plan->bound;
    tdg__parse_error_t error = {0};
    int rv = tdg__pg_sql_parse(maker->entry->query, strlen(maker->entry->query), bound,
                               &error);

    if (rv == TDG_ENOMEM) {
        maker->failed = rv;
        return;
    }
    if (rv < 0) {
        problem(maker, "query", "query: at byte %zu: %s", error.at, error.text);
        return;
    }
    for (size_t i = 0; i < bound->count; i++) {
        if (!has_name(plan->variables, plan->variable_count, bound->names[i]))
            problem(maker, "query", "query: `uri` has no variable {%s} for :%s",
                    bound->names[i], bound->names[i]);
        plan->params[plan->param_count++] = bound->names[i];
    }
    for (size_t i = 0; i < plan->variable_count; i++)
        if (!has_name(bound->names, bound->count, plan->variables[i]))
            problem(maker, "query", "query: it does not use the variable {%s}: write :%s",
                    plan->variables[i], plan->variables[i]);
    plan->one = maker->entry->shape == TDG__PG_ONE;
}

/* ---- All of it ---------------------------------------------------------- */

static void plan_channel(struct maker *maker) {
    tdg__pg_plan_t *plan = maker->plan;
    const char *wanted = maker->entry->channel;
    tdg__text_t out;

    if (wanted == NULL && !plan->by_table)
        return;
    plan->listens = true;
    plan->derived = wanted == NULL;
    if (plan->derived)
        tdg__pg_channel(&plan->trigger.table, plan->trigger.channel);
    else if (wanted[0] == '\0' || strlen(wanted) > TDG__PG_NAME_MAX)
        problem(maker, "channel", "channel: a name of 1 to %d bytes", TDG__PG_NAME_MAX);
    else
        snprintf(plan->trigger.channel, sizeof(plan->trigger.channel), "%s", wanted);

    tdg__text_init(&out, TDG__PG_SQL_MAX);
    tdg__text_put(&out, "LISTEN ");
    tdg__pg_put_name(&out, plan->trigger.channel);
    plan->listen = steal(maker, &out);
}

int tdg__pg_plan_init(tdg__pg_plan_t *plan, const tdg__pg_entry_t *entry,
                      const tdg__node_t *node, tdg__problems_t *problems) {
    struct maker maker = {plan, entry, node, problems, 0};

    *plan = (tdg__pg_plan_t){.template_ = NULL};
    read_template(&maker);
    if (maker.failed == TDG_ENOMEM)
        return maker.failed;
    if ((entry->table != NULL) == (entry->query != NULL)) {
        problem(&maker, entry->table != NULL ? "query" : "postgres",
                "a postgres entry has either `table` with `key`, or `query`");
        return maker.failed;
    }
    if (entry->query != NULL && entry->keys != NULL)
        problem(&maker, "key", "`key` requires `table`; it cannot be used with `query`");
    if (entry->table != NULL)
        plan_table(&maker);
    else
        plan_query(&maker);
    plan_channel(&maker);
    if (plan->by_table && maker.failed == 0)
        write_state(&maker); /* which names the channel */
    return maker.failed;
}

void tdg__pg_plan_done(tdg__pg_plan_t *plan) {
    tdg__template_destroy(plan->template_);
    tdg__pg_sql_done(&plan->bound);
    tdg__free(plan->read);
    tdg__free(plan->snapshot);
    tdg__free(plan->listen);
    tdg__free(plan->state);
    for (size_t i = 0; i < plan->variable_count; i++)
        tdg__free(plan->variables[i]);
    *plan = (tdg__pg_plan_t){.template_ = NULL};
}

/* ---- Payloads ----------------------------------------------------------- */

static const char *const op_names[] = {NULL,     "INSERT",   "UPDATE",
                                       "DELETE", "TRUNCATE", "DDL"};

const char *tdg__pg_op_name(tdg__pg_op_t op) {
    return op == TDG__PG_DDL ? NULL : op_names[op];
}

static tdg__pg_op_t op_of(const json_t *value) {
    const char *name = json_string_value(value);

    for (size_t i = 1; name != NULL && i < sizeof(op_names) / sizeof(op_names[0]); i++)
        if (strcmp(op_names[i], name) == 0)
            return (tdg__pg_op_t)i;
    return TDG__PG_NO_OP;
}

struct values {
    const tdg__pg_plan_t *plan;
    const char *const *texts;
};

static const char *value_of(void *arg, const char *name, size_t name_len,
                            size_t *ret_len) {
    const struct values *values = arg;

    for (size_t i = 0; i < values->plan->variable_count; i++) {
        const char *variable = values->plan->variables[i];

        if (strlen(variable) == name_len && memcmp(variable, name, name_len) == 0) {
            *ret_len = values->texts[i] != NULL ? strlen(values->texts[i]) : 0;
            return values->texts[i];
        }
    }
    return NULL;
}

int tdg__pg_plan_uri(const tdg__pg_plan_t *plan, const char *const *values,
                     tdg__text_t *out) {
    struct values all = {plan, values};
    size_t before = out->len;
    int rv;

    if (plan->template_ == NULL)
        return TDG_ENOTFOUND;
    rv = tdg__template_expand(plan->template_, value_of, &all, out);
    if (rv == 0 && out->error < 0)
        rv = out->error == TDG_ENOMEM ? TDG_ENOMEM : TDG_ENOTFOUND;
    if (rv == 0 && out->len - before > MAX_URI)
        rv = TDG_ENOTFOUND;
    return rv == TDG_ENOTSUP ? TDG_ENOTFOUND : rv;
}

/* A value of a key as text: strings as they are, numbers and booleans as in JSON. */
static const char *text_of(const json_t *value, char *room, size_t size) {
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_integer(value)) {
        snprintf(room, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return room;
    }
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    return NULL; /* how others write a fraction is not known */
}

static int uri_of_key(const tdg__pg_plan_t *plan, const json_t *key, tdg__text_t *out) {
    const char *values[TDG__TEMPLATE_MAX_NAMES] = {NULL};
    char room[TDG__TEMPLATE_MAX_NAMES][24];

    if (!json_is_object(key))
        return TDG_ENOTFOUND;
    for (size_t i = 0; i < plan->variable_count; i++)
        values[i] =
            text_of(json_object_get(key, plan->columns[i]), room[i], sizeof(room[i]));
    return tdg__pg_plan_uri(plan, values, out);
}

int tdg__pg_plan_payload(const tdg__pg_plan_t *plan, const char *payload,
                         tdg__pg_op_t *ret_op, tdg__text_t *out) {
    static const tdg__json_limits_t limits = {8192, 8, 256};
    const char *values[TDG__TEMPLATE_MAX_NAMES] = {payload};
    json_t *root = NULL;
    int rv = TDG_EJSON;

    *ret_op = TDG__PG_NO_OP;
    if (payload[0] == '{')
        rv = tdg__json_parse(payload, strlen(payload), &limits, &root, NULL);
    if (rv == TDG_ENOMEM)
        return rv;
    if (rv == 0) {
        *ret_op = op_of(json_object_get(root, "op"));
        rv = uri_of_key(plan, json_object_get(root, "key"), out);
        json_decref(root);
        return rv;
    }
    /* JSON that is too large for us, or has such a number, is no value of a key. */
    if (rv != TDG_EJSON || payload[0] == '\0' || plan->variable_count != 1)
        return TDG_ENOTFOUND;
    return tdg__pg_plan_uri(plan, values, out);
}
