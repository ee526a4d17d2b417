/* SPDX-License-Identifier: MIT
 *
 * The file that `tidings init` writes. */
#include <string.h>

#include "config/file.h"
#include "config/reference.h"

enum { WIDTH = 78 };

/* Where a line stands: its indent, and whether it is a comment. In an entry that is a
 * comment as a whole, the # stands before the indent of its options. */
typedef struct margin {
    const char *prose;   /* before a line of prose */
    const char *example; /* before an option with its value */
} margin_t;

/* Whether YAML would take the text for something else than itself. */
static bool needs_quotes(const char *text) {
    size_t len = strlen(text);

    return len == 0 || strchr("!&*?|>%@`#,[]{}'\"", text[0]) != NULL ||
           strstr(text, ": ") != NULL || strstr(text, " #") != NULL ||
           (text[0] == '-' && text[1] == ' ') || text[len - 1] == ':' || text[0] == ' ' ||
           text[len - 1] == ' ';
}

/* The value as one would write it: the example, or else the default. */
static void put_value(const tdg__option_t *option, tdg__text_t *out) {
    const char *value = option->example != NULL ? option->example : option->fallback;
    bool is_text = option->type == TDG__OPTION_STRING || option->type == TDG__OPTION_PATH;
    size_t len = strlen(value);
    bool is_quoted =
        len >= 2 && (value[0] == '"' || value[0] == '\'') && value[len - 1] == value[0];

    if (is_text && !is_quoted && needs_quotes(value))
        tdg__text_put_quoted(out, value, len);
    else
        tdg__text_put(out, value);
}

static bool has_value(const tdg__option_t *option) {
    return option->example != NULL || option->fallback != NULL;
}

static void put_option(const tdg__option_t *option, const margin_t *margin,
                       tdg__text_t *out) {
    tdg__wrap(option->help, margin->prose, WIDTH, out);
    tdg__text_format(out, "%s%s: ", margin->example, option->name);
    put_value(option, out);
    tdg__text_put(out, "\n");
}

/* Options that have a value to show, but not the one of that name. */
static void put_options(const tdg__option_t *options, const char *except,
                        const margin_t *margin, tdg__text_t *out) {
    for (; options->name != NULL; options++)
        if (has_value(options) && (except == NULL || strcmp(options->name, except) != 0))
            put_option(options, margin, out);
}

static void put_part(const tdg__section_t *part, tdg__text_t *out) {
    static const margin_t at_top = {"# ", "#"}, inside = {"  # ", "  #"};
    bool is_top = part == tdg__config_sections; /* the first has no name in the file */

    tdg__text_put(out, "\n");
    if (!is_top) {
        tdg__wrap(part->help, "# ", WIDTH, out);
        tdg__text_format(out, "%s:\n", part->name);
    }
    put_options(part->options, NULL, is_top ? &at_top : &inside, out);
}

/* The entry that is served as it stands. */
static void put_live_entry(const tdg__section_t *kind, const tdg__option_t *common,
                           tdg__text_t *out) {
    static const margin_t margin = {"    # ", "    #"};

    tdg__wrap(kind->help, "  # ", WIDTH, out);
    tdg__text_format(out, "  - %s: .\n", kind->name);
    put_options(kind->options, kind->name, &margin, out);
    tdg__wrap("The following options are valid for entries of every kind.", margin.prose,
              WIDTH, out);
    put_options(common, "uri", &margin, out);
}

static void put_example_entry(const tdg__section_t *kind, tdg__text_t *out) {
    static const margin_t margin = {"  #  # ", "  #  "};

    tdg__text_put(out, "\n");
    tdg__wrap(kind->help, "  # ", WIDTH, out);
    tdg__text_format(out, "  #- %s: ", kind->name);
    if (has_value(&kind->options[0]))
        put_value(&kind->options[0], out);
    tdg__text_put(out, "\n");
    if (kind->uri != NULL && kind->uri[0] != '\0')
        tdg__text_format(out, "  #  uri: %s\n", kind->uri);
    else if (kind->uri != NULL)
        tdg__text_format(out, "  #  uri: example://%s\n", kind->name);
    put_options(kind->options, kind->name, &margin, out);
}

void tdg__starter_write(const tdg__option_t *common, const tdg__section_t *kinds,
                        tdg__text_t *out) {
    static const char begin[] =
        "# The config of tidings. `tidings check` lists mistakes in this file and shows\n"
        "# what it would serve; `tidings help config` and tidings.yaml(5) describe all\n"
        "# options.\n"
        "#\n"
        "# A # directly before a name switches an option off: remove it to set the\n"
        "# option. The value is an example, or the default.\n";

    tdg__text_put(out, begin);
    for (const tdg__section_t *part = tdg__config_sections; part->name != NULL; part++)
        put_part(part, out);

    tdg__text_put(out, "\n# What is served. Each entry begins with a dash and its kind.\n"
                       "resources:\n");
    for (const tdg__section_t *kind = kinds; kind->name != NULL; kind++)
        if (strcmp(kind->name, "files") == 0)
            put_live_entry(kind, common, out);
    for (; kinds->name != NULL; kinds++)
        if (strcmp(kinds->name, "files") != 0)
            put_example_entry(kinds, out);
}
