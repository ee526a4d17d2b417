/* SPDX-License-Identifier: MIT
 *
 * `tidings ls`: the lists of a server. A table per list for people; one JSON document, or
 * bare names, for programs. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ask/ask.h"
#include "base/alloc.h"
#include "safe_text.h"
#include "terminal.h"

enum {
    MAX_ALIGNED = 48, /* columns: longer cells stand out instead of widening all */
    MIN_LAST = 24,    /* columns that the last one gets, however narrow the terminal */
    LISTS = 4,
    MAX_CELLS = 4,
    MAX_ARGUMENTS = 256, /* bytes of the names of arguments, with NUL */
};

struct options {
    cli_target_t target; /* first, for cli_ask() */
    bool wanted[LISTS];  /* by tdg_list_kind_t; none: all */
    bool json, names;
};

static const cli_option_t options[] = {
    CLI_FLAG_OPTION(struct options, wanted[TDG_LIST_RESOURCES], "resources",
                    "list the resources; without this and the next three\n"
                    "options, lists everything"),
    CLI_FLAG_OPTION(struct options, wanted[TDG_LIST_TEMPLATES], "templates",
                    "list the templates of resources"),
    CLI_FLAG_OPTION(struct options, wanted[TDG_LIST_TOOLS], "tools", "list the tools"),
    CLI_FLAG_OPTION(struct options, wanted[TDG_LIST_PROMPTS], "prompts",
                    "list the prompts"),
    CLI_FLAG_OPTION(struct options, names, "names",
                    "print only URIs and names, one per line, without those\n"
                    "that have control characters"),
    CLI_FLAG_OPTION(struct options, json, "json",
                    "print the lists as the server sent them, as one line of\n"
                    "JSON: resources, resourceTemplates, tools, prompts"),
    CLI_TARGET_OPTIONS(struct options, target),
    CLI_TIMEOUT_OPTION(struct options, target.timeout_ms),
    CLI_END,
};

/* ---- Lists -------------------------------------------------------------- */

/* The text of a cell, borrowed until the next call. */
typedef const char *(*cell_fn)(const json_t *item, const char *member);

struct list {
    const char *json, *title;
    struct column {
        const char *title, *member;
        cell_fn cell;     /* NULL: the text of the member */
    } columns[MAX_CELLS]; /* the first one names an item */
};

/* A title is for people and wins over the name. */
static const char *title_or_name(const json_t *item, const char *member) {
    const char *title = cli_string(item, member);

    if (title[0] == '\0') /* where tools had it until 2025-06-18 */
        title = cli_string(json_object_get(item, "annotations"), member);
    return title[0] != '\0' ? title : cli_string(item, "name");
}

/* Appends the name of an argument, in brackets where it is not required. Returns false
 * where there is no room, and says so with "…". */
static bool put_argument(char text[MAX_ARGUMENTS], const char *name, bool required) {
    size_t used = strlen(text), room = MAX_ARGUMENTS - used;

    if (used + strlen(name) + strlen(" [] …") >= MAX_ARGUMENTS) {
        snprintf(text + used, room, "%s…", used > 0 ? " " : "");
        return false;
    }
    snprintf(text + used, room, "%s%s%s%s", used > 0 ? " " : "", required ? "" : "[",
             name, required ? "" : "]");
    return true;
}

/* Of a tool, and of a prompt. The next call overwrites the text. */
static const char *tool_arguments(const json_t *item, const char *member) {
    static char text[MAX_ARGUMENTS];
    json_t *schema = json_object_get(item, member);
    json_t *properties = json_object_get(schema, "properties"), *property;
    const char *name;

    text[0] = '\0';
    json_object_foreach(properties, name, property) {
        if (!put_argument(text, name,
                          cli_lists(json_object_get(schema, "required"), name)))
            break;
    }
    return text;
}

static const char *prompt_arguments(const json_t *item, const char *member) {
    static char text[MAX_ARGUMENTS];
    const json_t *argument;
    size_t i;

    text[0] = '\0';
    json_array_foreach(json_object_get(item, member), i, argument) {
        if (!put_argument(text, cli_string(argument, "name"),
                          json_is_true(json_object_get(argument, "required"))))
            break;
    }
    return text;
}

static const struct list lists[LISTS] = {
    [TDG_LIST_RESOURCES] = {"resources",
                            "Resources",
                            {{"URI", "uri", NULL},
                             {"NAME", "title", title_or_name},
                             {"TYPE", "mimeType", NULL},
                             {"DESCRIPTION", "description", NULL}}},
    [TDG_LIST_TEMPLATES] = {"resourceTemplates",
                            "Templates",
                            {{"TEMPLATE", "uriTemplate", NULL},
                             {"NAME", "title", title_or_name},
                             {"TYPE", "mimeType", NULL},
                             {"DESCRIPTION", "description", NULL}}},
    [TDG_LIST_TOOLS] = {"tools",
                        "Tools",
                        {{"NAME", "name", NULL},
                         {"ARGUMENTS", "inputSchema", tool_arguments},
                         {"DESCRIPTION", "description", NULL}}},
    [TDG_LIST_PROMPTS] = {"prompts",
                          "Prompts",
                          {{"NAME", "name", NULL},
                           {"ARGUMENTS", "arguments", prompt_arguments},
                           {"DESCRIPTION", "description", NULL}}},
};

/* ---- For people --------------------------------------------------------- */

static const char *cell_of(const struct column *column, const json_t *item) {
    return column->cell != NULL ? column->cell(item, column->member)
                                : cli_string(item, column->member);
}

static bool is_last(const struct list *list, size_t i) {
    return i + 1 == MAX_CELLS || list->columns[i + 1].title == NULL;
}

/* How wide a column is; 0: it is empty throughout, and left out. */
static int width_of(const struct column *column, const json_t *items) {
    int width = 0;
    const json_t *item;
    size_t i;

    json_array_foreach(items, i, item) {
        int columns = cli_columns(cell_of(column, item));

        if (columns > width)
            width = columns < MAX_ALIGNED ? columns : MAX_ALIGNED;
    }
    if (width > 0 && width < (int)strlen(column->title))
        width = (int)strlen(column->title);
    return width;
}

/* The description: its first line is enough, and only this column is ever cut, because
 * the others may be needed to copy them. `room` 0: nothing is cut. */
static void print_description(const char *text, int room) {
    char *line = tdg__strndup(text, strcspn(text, "\r\n"));

    if (line == NULL)
        return;
    if (room > 0 && cli_columns(line) > room)
        cli_put_cell(stdout, line, room);
    else
        cli_put_line(stdout, line);
    tdg__free(line);
}

static void print_cell(const char *text, int width, bool last) {
    int columns = cli_columns(text);

    if (last)
        cli_put_line(stdout, text);
    else
        cli_put_cell(stdout, text, columns > width ? columns : width);
}

/* An item, or where that is NULL, the titles of the columns. */
static void print_row(const struct list *list, const json_t *item, const int *widths,
                      int room) {
    size_t end = 0; /* after the last cell that is not empty */

    for (size_t i = 0; i < MAX_CELLS && list->columns[i].title != NULL; i++)
        if (widths[i] > 0 &&
            (item == NULL || cell_of(&list->columns[i], item)[0] != '\0'))
            end = i + 1;

    for (size_t i = 0; i < end; i++) {
        const struct column *column = &list->columns[i];
        const char *cell = item != NULL ? cell_of(column, item) : column->title;

        if (widths[i] == 0)
            continue;
        fputs("  ", stdout);
        if (is_last(list, i))
            print_description(cell, room);
        else
            print_cell(cell, widths[i], i + 1 == end);
    }
    putchar('\n');
}

static void print_table(const struct list *list, const json_t *items) {
    int widths[MAX_CELLS] = {0}, used = 0, room = 0, lines;
    const json_t *item;
    size_t i;

    cli_terminal_size(STDOUT_FILENO, &room, &lines); /* elsewhere nothing is cut */
    for (i = 0; i < MAX_CELLS && list->columns[i].title != NULL; i++) {
        widths[i] = width_of(&list->columns[i], items);
        if (widths[i] > 0 && !is_last(list, i))
            used += 2 + widths[i];
    }
    if (room > 0)
        room = room - used - 2 > MIN_LAST ? room - used - 2 : MIN_LAST;

    printf("%s (%zu)\n", list->title, json_array_size(items));
    print_row(list, NULL, widths, room);
    json_array_foreach(items, i, item) {
        print_row(list, item, widths, room);
    }
}

/* ---- The command -------------------------------------------------------- */

static void print_names(const struct list *list, const json_t *items) {
    const json_t *item;
    size_t i;

    json_array_foreach(items, i, item) {
        const char *name = cli_string(item, list->columns[0].member);

        if (name[0] != '\0' && cli_is_plain(name))
            puts(name);
    }
}

static void print_lists(const struct options *opts, const json_t *all) {
    size_t shown = 0;

    for (size_t i = 0; i < LISTS; i++) {
        const json_t *items = json_object_get(all, lists[i].json);

        if (opts->names) {
            print_names(&lists[i], items);
        } else if (json_array_size(items) > 0) {
            if (shown++ > 0)
                putchar('\n');
            print_table(&lists[i], items);
        }
    }
    if (shown == 0 && !opts->names)
        puts("The server lists nothing.");
}

static int ask(void *options_, tdg_client_t *client, char **argv, int count) {
    struct options *opts = options_;
    const bool *wanted = opts->wanted;
    bool any = wanted[0] || wanted[1] || wanted[2] || wanted[3];
    json_t *all = json_object(), *items;
    int code = CLI_OK;

    (void)argv;
    (void)count;
    for (int i = 0; i < LISTS && code == CLI_OK; i++) {
        if (any && !wanted[i])
            continue;
        code = cli_ask_list(&opts->target, client, (tdg_list_kind_t)i, &items);
        if (code == CLI_OK && json_object_set_new(all, lists[i].json, items) < 0)
            code = cli_error("ls: out of memory");
    }
    if (code == CLI_OK && opts->json)
        cli_print_json(all);
    else if (code == CLI_OK)
        print_lists(opts, all);
    json_decref(all);
    return code;
}

static int check(const void *options_, int count) {
    const struct options *opts = options_;

    (void)count;
    if (!opts->json || !opts->names)
        return CLI_OK;
    return cli_usage_error("ls: --json and --names cannot be combined");
}

static int run(const cli_command_t *self, int argc, char **argv) {
    static const cli_asking_t asking = {.ask = ask, .check = check};
    struct options opts = {0};

    return cli_ask(self, &asking, argc, argv, &opts);
}

const cli_command_t cli_ls = {
    .name = "ls",
    .summary = "list what a server offers",
    .operands = "[TARGET]",
    .max_operands = 1,
    .description = "Lists the resources, templates, tools and prompts of a server."
                   "\n\n" CLI_TARGET_HELP ".\n\n" CLI_TARGET_EXITS,
    .options = options,
    .run = run,
};
