/* SPDX-License-Identifier: MIT
 *
 * Values that contain environment variables are shown as they are written in the file. */
#include <string.h>

#include <tidings/tidings.h>

#include "base/alloc.h"
#include "safe_text.h"
#include "serve/check.h"

enum {
    MAX_VALUE = 1 << 20, /* bytes of one value: no file is larger */
    MAX_COLUMN = 48,     /* columns of one value in the table */
};

/* ---- Rows ---------------------------------------------------------------- */

/* Appends the text of a scalar if something of it comes from the environment. */
static bool put_as_written(const tdg__node_t *node, const tdg__option_t *option,
                           tdg__text_t *out) {
    if (node == NULL || node->kind != TDG__NODE_SCALAR ||
        (option->flags & (TDG__OPTION_SECRET | TDG__OPTION_RAW)) != 0 ||
        strstr(node->text, "${") == NULL)
        return false;
    tdg__text_put(out, node->text);
    return true;
}

/* Whether a list or map holds something from the environment. */
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
    tdg__text_put(out, "");
    if (put_as_written(node, option, out))
        return;
    if (node != NULL && node->kind != TDG__NODE_SCALAR && has_variables(node) &&
        (option->flags & TDG__OPTION_RAW) == 0)
        tdg__text_put(out, "(from the environment)");
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

/* Adds an option of the entry unless it says what holds anyway. */
static int add_option(check_row_t *row, const tdg__option_t *option,
                      const tdg__node_t *node, const tdg__source_t *source,
                      const tdg__source_t *defaults) {
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
             json_object_set_new(row->options, option->name, json_string(given.data)) < 0)
        rv = TDG_ENOMEM;
    tdg__text_done(&given);
    tdg__text_done(&normal);
    return rv;
}

static int add_options(check_row_t *row, const tdg__source_t *source,
                       const tdg__node_t *entry) {
    const tdg__option_t *const tables[] = {row->kind->options, tdg__source_options, NULL};
    tdg__source_t *defaults = NULL;
    int rv = make_defaults(row->kind, &defaults);

    for (const tdg__node_t *node = entry->first; node != NULL && rv == 0;
         node = node->next) {
        if (strcmp(node->key, row->kind->name) != 0 && strcmp(node->key, "uri") != 0)
            rv = add_option(row, tdg__option_find(tables, node->key), node, source,
                            defaults);
    }
    if (defaults != NULL)
        tdg__options_done(tables, defaults);
    tdg__free(defaults);
    return rv;
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

int check_row_init(check_row_t *row, const tdg__source_t *source,
                   const tdg__node_t *entry, const tdg__problems_t *problems) {
    const tdg__option_t *main_option = source->kind->options;

    row->kind = source->kind;
    tdg__text_init(&row->uri, MAX_VALUE);
    tdg__text_init(&row->what, MAX_VALUE);
    put_uri(source, entry, problems, &row->uri);
    put_option(main_option, tdg__node_get(entry, main_option->name), source, &row->what);
    row->options = json_object();
    if (row->options == NULL || row->uri.error < 0 || row->what.error < 0)
        return TDG_ENOMEM;
    return add_options(row, source, entry);
}

void check_row_done(check_row_t *row) {
    tdg__text_done(&row->uri);
    tdg__text_done(&row->what);
    json_decref(row->options);
}

/* ---- As a table ---------------------------------------------------------- */

static const char *uri_of(const check_row_t *row) {
    return row->uri.len > 0 ? row->uri.data : "(its own)";
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

static void print_options(const json_t *options) {
    const char *name, *separator = "";
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)options, name, value) {
        printf("%s%s: ", separator, name);
        print_cell(json_string_value(value), 0);
        separator = ", ";
    }
}

static void print_rows(const check_report_t *report) {
    int kind = wider(0, "KIND"), uri = wider(0, "URI"), what = wider(0, "WHAT");

    for (size_t i = 0; i < report->row_count; i++) {
        const check_row_t *row = &report->rows[i];

        kind = wider(kind, row->kind->name);
        uri = wider(uri, uri_of(row));
        what = wider(what, row->what.data);
    }
    printf("\n  %-*s  %-*s  %-*s  OPTIONS\n", kind, "KIND", uri, "URI", what, "WHAT");
    for (size_t i = 0; i < report->row_count; i++) {
        const check_row_t *row = &report->rows[i];

        printf("  %-*s  ", kind, row->kind->name);
        print_cell(uri_of(row), uri);
        fputs("  ", stdout);
        print_cell(row->what.data, json_object_size(row->options) > 0 ? what : 0);
        if (json_object_size(row->options) > 0)
            fputs("  ", stdout);
        print_options(row->options);
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

int check_print_table(const check_report_t *report) {
    size_t count = report->row_count;

    printf("%s is valid: %zu %s at ", report->problems->file, count,
           count == 1 ? "entry" : "entries");
    print_listen(report->config);
    putchar('\n');
    if (count > 0)
        print_rows(report);
    return 0;
}

/* ---- As JSON ------------------------------------------------------------- */

/* Appends `one`, which is stolen, to a list; where that fails the list becomes NULL. */
static void append(json_t **list, json_t *one) {
    if (json_array_append_new(*list, one) == 0)
        return;
    json_decref(*list);
    *list = NULL;
}

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

static json_t *rows_json(const check_report_t *report) {
    json_t *list = json_array();

    for (size_t i = 0; i < report->row_count; i++) {
        const check_row_t *row = &report->rows[i];

        append(&list, json_pack("{s:s, s:s?, s:s, s:O}", "kind", row->kind->name, "uri",
                                row->uri.len > 0 ? row->uri.data : NULL, "what",
                                row->what.data, "options", row->options));
    }
    return list;
}

int check_print_json(const check_report_t *report) {
    json_t *problems = problems_json(report->problems), *rows = rows_json(report);
    json_t *json = json_pack("{s:s, s:b, s:o, s:I, s:o}", "file", report->problems->file,
                             "ok", tdg__problems_total(report->problems) == 0, "problems",
                             problems, "problems_left_out",
                             (json_int_t)report->problems->left_out, "resources", rows);
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    int rv = text != NULL ? 0 : TDG_ENOMEM;

    if (text != NULL)
        puts(text);
    tdg__free(text);
    json_decref(json);
    return rv;
}
