/* SPDX-License-Identifier: MIT
 *
 * `tidings check`: checks a config file, and shows what it would serve. Values that
 * contain environment variables are shown as they are written in the file. */
#include <string.h>

#include <tidings/tidings.h>

#include "base/alloc.h"
#include "command.h"
#include "safe_text.h"
#include "serve/config.h"
#include "serve/serve.h"
#include "source/common/source.h"

enum {
    MAX_VALUE = 1 << 20, /* bytes of one value: no file is larger */
    MAX_COLUMN = 48,     /* columns of one value in the table */
};

typedef struct check_options {
    bool json, no_env;
} check_options_t;

static const cli_option_t options[] = {
    CLI_FLAG_OPTION(check_options_t, no_env, "no-env",
                    "accept environment variables that are not set, for\n"
                    "machines without the secrets, such as CI"),
    CLI_FLAG_OPTION(check_options_t, json, "json",
                    "print one JSON object instead, problems included"),
    CLI_END,
};

/* ---- What would be served ------------------------------------------------ */

/* Whether a value holds something from the environment. */
static bool has_variables(const tdg__node_t *node) {
    if (node->kind == TDG__NODE_SCALAR)
        return strstr(node->text, "${") != NULL;
    for (const tdg__node_t *child = node->first; child != NULL; child = child->next)
        if (has_variables(child))
            return true;
    return false;
}

static void put_option(const tdg__option_t *option, const tdg__node_t *node,
                       const tdg__source_t *source, tdg__text_t *out) {
    bool varies =
        node != NULL && (option->flags & TDG__OPTION_RAW) == 0 && has_variables(node);

    tdg__text_put(out, "");
    if (varies && node->kind != TDG__NODE_SCALAR)
        tdg__text_put(out, "(from the environment)");
    else if (varies && (option->flags & TDG__OPTION_SECRET) == 0)
        tdg__text_put(out, node->text);
    else
        tdg__option_write(option, source, out);
}

/* A record with every default, in the place of a source. */
static int make_defaults(const tdg__source_kind_t *kind, tdg__source_t **ret) {
    const tdg__option_t *const tables[] = {kind->options, tdg__source_options, NULL};
    tdg__problems_t ignored; /* options that are required are missing, of course */
    int rv;

    *ret = tdg__calloc(1, kind->size);
    if (*ret == NULL)
        return TDG_ENOMEM;
    tdg__problems_init(&ignored, NULL);
    rv = tdg__options_read(tables, NULL, *ret, &ignored);
    tdg__problems_done(&ignored);
    return rv == TDG_ENOMEM ? rv : 0;
}

/* Adds an option of the entry to `ret` unless it says what holds anyway. */
static int add_option(json_t *ret, const tdg__option_t *option, const tdg__node_t *node,
                      const tdg__source_t *source, const tdg__source_t *defaults) {
    tdg__text_t given, normal;
    int rv = 0;

    tdg__text_init(&given, MAX_VALUE);
    tdg__text_init(&normal, MAX_VALUE);
    put_option(option, node, source, &given);
    tdg__text_put(&normal, "");
    tdg__option_write(option, defaults, &normal);
    if (given.error < 0 || normal.error < 0)
        rv = TDG_ENOMEM;
    else if (strcmp(given.data, normal.data) != 0 &&
             json_object_set_new(ret, option->name, json_string(given.data)) < 0)
        rv = TDG_ENOMEM;
    tdg__text_done(&given);
    tdg__text_done(&normal);
    return rv;
}

/* The options of an entry that differ from their defaults, new: name and text. */
static json_t *options_of(const tdg__source_t *source, const tdg__node_t *entry) {
    const tdg__source_kind_t *kind = source->kind;
    const tdg__option_t *const tables[] = {kind->options, tdg__source_options, NULL};
    tdg__source_t *defaults = NULL;
    json_t *differing = json_object();
    int rv = make_defaults(kind, &defaults);

    for (const tdg__node_t *node = entry->first; node != NULL && rv == 0;
         node = node->next) {
        if (strcmp(node->key, kind->name) != 0 && strcmp(node->key, "uri") != 0)
            rv = add_option(differing, tdg__option_find(tables, node->key), node, source,
                            defaults);
    }
    if (defaults != NULL)
        tdg__options_done(tables, defaults);
    tdg__free(defaults);
    if (rv == 0)
        return differing;
    json_decref(differing);
    return NULL;
}

/* A URI that the environment makes is shown as it is written, and so is the main value of
 * an entry that makes its URI from it, where nobody knows it. */
static void put_uri(const tdg__source_t *source, const tdg__node_t *entry,
                    const tdg__problems_t *problems, tdg__text_t *out) {
    const tdg__node_t *node = tdg__node_get(entry, "uri");
    const tdg__option_t *option = source->kind->options;

    if (node == NULL && tdg__source_uri_is_unset(source, entry, problems))
        put_option(option, tdg__node_get(entry, option->name), source, out);
    else if (node != NULL && has_variables(node))
        tdg__text_put(out, node->text);
    else
        tdg__text_put(out, source->entry.uri != NULL ? source->entry.uri : "");
}

/* One resource as it would be served, new: its kind, its URI (null: the source makes its
 * own), its main value, such as a path (empty where it is secret), and its options. NULL:
 * memory is out. */
static json_t *row_of(const tdg__source_t *source, const tdg__node_t *entry,
                      const tdg__problems_t *problems) {
    const tdg__option_t *main_option = source->kind->options;
    json_t *row = NULL;
    tdg__text_t uri, what;

    tdg__text_init(&uri, MAX_VALUE);
    tdg__text_init(&what, MAX_VALUE);
    put_uri(source, entry, problems, &uri);
    put_option(main_option, tdg__node_get(entry, main_option->name), source, &what);
    if (uri.error == 0 && what.error == 0) /* a table can show what is no UTF-8 */
        row = json_pack("{s:s, s:o, s:o, s:o}", "kind", source->kind->name, "uri",
                        uri.len > 0 ? json_string_nocheck(uri.data) : json_null(), "what",
                        json_string_nocheck(what.data), "options",
                        options_of(source, entry));
    tdg__text_done(&uri);
    tdg__text_done(&what);
    return row;
}

/* Appends `one`, which is stolen, to a list; where that fails the list becomes NULL. */
static void append(json_t **list, json_t *one) {
    if (json_array_append_new(*list, one) == 0)
        return;
    json_decref(*list);
    *list = NULL;
}

/* Everything that is wrong is found, in the file as a whole and in each entry. Stores the
 * rows, new. */
static int examine(const char *path, tdg__problems_t *problems, tdg__config_t **ret,
                   json_t **ret_rows) {
    tdg__live_entry_t *entries = NULL;
    json_t *rows = json_array();
    size_t count = 0;
    int rv = tdg__serve_load(path, NULL, problems, ret, &entries, &count);

    for (size_t i = 0; rv == 0 && i < count; i++)
        append(&rows, row_of(entries[i].source, (*ret)->entries[i], problems));
    if (rv == 0)
        tdg__live_free_entries(entries, count);
    *ret_rows = rows;
    return rows != NULL ? rv : TDG_ENOMEM;
}

/* ---- As a table ---------------------------------------------------------- */

static const char *text_of(const json_t *row, const char *name) {
    const char *text = json_string_value(json_object_get(row, name));

    return text != NULL ? text : "(its own)";
}

static int wider(int width, const char *text) {
    int columns = cli_columns(text);

    columns = columns < MAX_COLUMN ? columns : MAX_COLUMN;
    return columns > width ? columns : width;
}

/* Cut at MAX_COLUMN, and filled up to `width`. */
static void print_cell(const char *text, int width) {
    cli_put_cell(stdout, text, wider(width, text));
}

static void print_options(json_t *given) {
    const char *name, *separator = "";
    json_t *value;

    json_object_foreach(given, name, value) {
        printf("%s%s: ", separator, name);
        print_cell(json_string_value(value), 0);
        separator = ", ";
    }
}

static void print_rows(const json_t *rows) {
    int kind = wider(0, "KIND"), uri = wider(0, "URI"), what = wider(0, "WHAT");
    const json_t *row;
    size_t i;

    json_array_foreach(rows, i, row) {
        kind = wider(kind, text_of(row, "kind"));
        uri = wider(uri, text_of(row, "uri"));
        what = wider(what, text_of(row, "what"));
    }
    printf("\n  %-*s  %-*s  %-*s  OPTIONS\n", kind, "KIND", uri, "URI", what, "WHAT");
    json_array_foreach(rows, i, row) {
        json_t *given = json_object_get(row, "options");

        printf("  %-*s  ", kind, text_of(row, "kind"));
        print_cell(text_of(row, "uri"), uri);
        fputs("  ", stdout);
        print_cell(text_of(row, "what"), json_object_size(given) > 0 ? what : 0);
        if (json_object_size(given) > 0)
            fputs("  ", stdout);
        print_options(given);
        putchar('\n');
    }
}

static void print_listen(const tdg__config_t *config) {
    const tdg__node_t *node =
        tdg__node_get(tdg__node_get(config->tree, "server"), "listen");
    const tdg__node_t *text =
        node != NULL && node->kind == TDG__NODE_LIST ? node->first : node;

    for (size_t i = 0; i < config->listen_count; i++) {
        const tdg__listen_url_t *listen = &config->listen[i];
        bool is_v6 = strchr(listen->host, ':') != NULL;
        const tdg__node_t *written = text;

        text = text != NULL ? text->next : NULL;
        if (written != NULL && has_variables(written)) {
            printf("%s%s", i > 0 ? ", " : "", written->text);
            continue;
        }
        printf("%shttp://%s%s%s:%u", i > 0 ? ", " : "", is_v6 ? "[" : "", listen->host,
               is_v6 ? "]" : "", listen->port);
    }
}

static void print_table(const tdg__config_t *config, const char *file,
                        const json_t *rows) {
    size_t count = json_array_size(rows);

    printf("%s is valid: %zu %s at ", file, count, count == 1 ? "entry" : "entries");
    print_listen(config);
    putchar('\n');
    if (count > 0)
        print_rows(rows);
}

/* ---- As JSON ------------------------------------------------------------- */

static json_t *problems_json(tdg__problems_t *problems) {
    json_t *list = json_array();

    tdg__problems_sort(problems);
    for (size_t i = 0; i < problems->count; i++) {
        const tdg__problem_t *problem = &problems->list[i];

        append(&list,
               json_pack("{s:I, s:I, s:s}", "line", (json_int_t)problem->line, "column",
                         (json_int_t)problem->column, "message", problem->text));
    }
    return list;
}

/* Returns 0 or TDG_ENOMEM. */
static int print_json(tdg__problems_t *problems, json_t *rows) {
    json_t *json =
        json_pack("{s:s, s:b, s:o, s:I, s:O}", "file", problems->file, "ok",
                  tdg__problems_total(problems) == 0, "problems", problems_json(problems),
                  "problems_left_out", (json_int_t)problems->left_out, "resources", rows);
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    int rv = text != NULL ? 0 : TDG_ENOMEM;

    if (text != NULL)
        puts(text);
    tdg__free(text);
    json_decref(json);
    return rv;
}

/* ---- The command --------------------------------------------------------- */

static int show(const tdg__config_t *config, tdg__problems_t *problems, json_t *rows,
                bool json) {
    size_t count = tdg__problems_total(problems);

    if (json)
        return print_json(problems, rows);
    if (count == 0) {
        print_table(config, problems->file, rows);
    } else {
        cli_print_problems(problems, stderr);
        cli_error("check: %zu problem%s in %s", count, count == 1 ? "" : "s",
                  problems->file);
    }
    return 0;
}

static int run_check(const cli_command_t *self, int argc, char **argv) {
    check_options_t opts = {.json = false};
    const char *path = CLI_CONFIG_FILE;
    tdg__config_t *config = NULL;
    tdg__problems_t problems;
    int operands, exit_code, rv;
    json_t *rows;

    if (!cli_parse(self, argc, argv, &opts, &operands, &exit_code))
        return exit_code;
    if (operands > 0)
        path = argv[0];

    tdg__problems_init(&problems, strcmp(path, "-") == 0 ? "standard input" : path);
    problems.no_env = opts.no_env;
    rv = examine(path, &problems, &config, &rows);
    if (rv != TDG_ENOMEM && show(config, &problems, rows, opts.json) < 0)
        rv = TDG_ENOMEM;
    if (rv == TDG_ENOMEM)
        cli_error("check: %s", tdg_strerror(rv));

    json_decref(rows);
    tdg__config_destroy(config);
    tdg__problems_done(&problems);
    return rv < 0 ? CLI_FAILED : CLI_OK;
}

const cli_command_t cli_check = {
    .name = "check",
    .summary = "check a config file, and show what it would serve",
    .operands = "[FILE]",
    .max_operands = 1,
    .description =
        "Checks a config file (default " CLI_CONFIG_FILE
        "; - is standard input). Prints every\n"
        "problem on standard error, as file:line:column: text, and exits with 1. If "
        "there\n"
        "is none, lists the resources that the config would serve, and the options that\n"
        "differ from their defaults. It opens nothing that the config names.",
    .options = options,
    .run = run_check,
};
