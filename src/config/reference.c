/* SPDX-License-Identifier: MIT
 *
 * A format is a table of functions; all formats have the same content in the same
 * order. */
#include "config/reference.h"

#include <string.h>

#include "config/file.h"
#include "config/option_value.h"

enum { WIDTH = 78, MAX_TEXT = 8192 };

typedef struct writer writer_t;
struct writer {
    void (*heading)(const char *name, const char *help, tdg__text_t *out);
    void (*begin)(tdg__text_t *out); /* of the options of a section */
    void (*option)(const tdg__option_t *option, tdg__text_t *out);
    void (*end)(tdg__text_t *out);
};

/* ---- What an option takes ------------------------------------------------ */

static const char *const type_names[] = {
    [TDG__OPTION_STRING] = "text",
    [TDG__OPTION_PATH] = "path",
    [TDG__OPTION_BOOL] = "true or false",
    [TDG__OPTION_NUMBER] = "number",
    [TDG__OPTION_DURATION] = "duration",
    [TDG__OPTION_SIZE] = "size",
    [TDG__OPTION_STRINGS] = "text or list of texts",
    [TDG__OPTION_MAP] = "map of texts",
};

static void put_range(const tdg__option_t *option, tdg__text_t *out) {
    int64_t max = tdg__option_max(option);

    if (max == INT64_MAX && option->min == 0)
        return;
    tdg__text_put(out, max == INT64_MAX ? ", at least " : ", ");
    tdg__option_write_amount(option, option->min, out);
    if (max == INT64_MAX)
        return;
    tdg__text_put(out, " to ");
    tdg__option_write_amount(option, max, out);
}

/* "duration, 1s to 1d" */
static void put_type(const tdg__option_t *option, tdg__text_t *out) {
    if (option->type == TDG__OPTION_CHOICE) {
        tdg__option_write_choices(option, out);
        return;
    }
    tdg__text_put(out, type_names[option->type]);
    if (option->type == TDG__OPTION_NUMBER || option->type == TDG__OPTION_DURATION ||
        option->type == TDG__OPTION_SIZE)
        put_range(option, out);
    if (option->flags & TDG__OPTION_SECRET)
        tdg__text_put(out, ", never shown");
    if (option->flags & TDG__OPTION_RAW)
        tdg__text_put(out, ", ${NAME} is not replaced");
}

/* ---- Plain text ---------------------------------------------------------- */

static void nothing(tdg__text_t *out) {
    (void)out;
}

static void text_heading(const char *name, const char *help, tdg__text_t *out) {
    tdg__text_format(out, "%s%s\n", out->len > 0 ? "\n" : "", name);
    tdg__wrap(help, "  ", WIDTH, out);
}

static void text_option(const tdg__option_t *option, tdg__text_t *out) {
    tdg__text_format(out, "\n  %s: ", option->name);
    put_type(option, out);
    if (option->flags & TDG__OPTION_REQUIRED)
        tdg__text_put(out, " (required)");
    if (option->fallback != NULL)
        tdg__text_format(out, " (default %s)", option->fallback);
    tdg__text_put(out, "\n");
    tdg__wrap(option->help, "      ", WIDTH, out);
    if (option->example != NULL)
        tdg__text_format(out, "      Example: %s\n", option->example);
}

/* ---- Markdown ------------------------------------------------------------ */

static void markdown_heading(const char *name, const char *help, tdg__text_t *out) {
    tdg__text_format(out, "%s### %s\n\n%s\n", out->len > 0 ? "\n" : "", name, help);
}

static void markdown_begin(tdg__text_t *out) {
    tdg__text_put(out, "\n| option | value | default | purpose |\n"
                       "|---|---|---|---|\n");
}

/* A bar would end the cell. */
static void put_cell(const char *text, tdg__text_t *out) {
    for (; *text != '\0'; text++) {
        if (*text == '|')
            tdg__text_put(out, "\\");
        tdg__text_add(out, text, 1);
    }
}

static void put_code(const char *text, tdg__text_t *out) {
    tdg__text_put(out, "`");
    put_cell(text, out);
    tdg__text_put(out, "`");
}

static void markdown_option(const tdg__option_t *option, tdg__text_t *out) {
    tdg__text_put(out, "| ");
    put_code(option->name, out);
    tdg__text_put(out, " | ");
    put_type(option, out);
    tdg__text_put(out, " | ");
    if (option->flags & TDG__OPTION_REQUIRED)
        tdg__text_put(out, "required");
    else if (option->fallback != NULL)
        put_code(option->fallback, out);
    tdg__text_put(out, " | ");
    put_cell(option->help, out);
    if (option->example != NULL) {
        tdg__text_put(out, " Example: ");
        put_code(option->example, out);
    }
    tdg__text_put(out, " |\n");
}

/* ---- mdoc ---------------------------------------------------------------- */

/* Text without what roff takes for its own: `words` become bold, each sentence begins a
 * line. */
static void put_roff(const char *text, tdg__text_t *out) {
    bool bold = false, begins_word = true;
    tdg__text_t line;

    tdg__text_init(&line, MAX_TEXT);
    for (; *text != '\0'; text++) {
        /* Any word may come to stand at the beginning of a line. */
        if (begins_word && (*text == '.' || *text == '\''))
            tdg__text_put(&line, "\\&");
        begins_word = *text == ' ';
        if (*text == '`') {
            tdg__text_put(&line, bold ? "\\fP" : "\\fB");
            bold = !bold;
        } else if (*text == '\\') {
            tdg__text_put(&line, "\\e");
        } else if (*text == ' ' && line.len > 0 && text[-1] == '.') {
            tdg__wrap(line.data, "", WIDTH, out);
            tdg__text_clear(&line);
        } else {
            tdg__text_add(&line, text, 1);
        }
    }
    if (line.len > 0)
        tdg__wrap(line.data, "", WIDTH, out);
    if (line.error < 0)
        out->error = line.error;
    tdg__text_done(&line);
}

/* A line of its own, through put_roff(). */
static void put_roff_value(const char *before, const char *value, tdg__text_t *out) {
    tdg__text_t line;

    tdg__text_init(&line, MAX_TEXT);
    tdg__text_format(&line, "%s%s`.", before, value);
    if (line.error < 0)
        out->error = line.error;
    else
        put_roff(line.data, out);
    tdg__text_done(&line);
}

static void mdoc_heading(const char *name, const char *help, tdg__text_t *out) {
    tdg__text_format(out, ".Ss %s\n", name);
    put_roff(help, out);
}

static void mdoc_begin(tdg__text_t *out) {
    tdg__text_put(out, ".Bl -tag -width Ds\n");
}

static void mdoc_option(const tdg__option_t *option, tdg__text_t *out) {
    tdg__text_format(out, ".It Cm %s : Ar \"", option->name);
    put_type(option, out);
    tdg__text_put(out, "\"\n");
    put_roff(option->help, out);
    if (option->flags & TDG__OPTION_REQUIRED)
        tdg__text_put(out, "It is required.\n");
    else if (option->fallback != NULL)
        put_roff_value("The default is `", option->fallback, out);
    if (option->example != NULL)
        put_roff_value("Example: `", option->example, out);
}

static void mdoc_end(tdg__text_t *out) {
    tdg__text_put(out, ".El\n");
}

/* ---- All of it ----------------------------------------------------------- */

static const writer_t writers[] = {
    [TDG__REFERENCE_TEXT] = {text_heading, nothing, text_option, nothing},
    [TDG__REFERENCE_MARKDOWN] = {markdown_heading, markdown_begin, markdown_option,
                                 nothing},
    [TDG__REFERENCE_MDOC] = {mdoc_heading, mdoc_begin, mdoc_option, mdoc_end},
};

static void write_section(const writer_t *writer, const char *heading, const char *help,
                          const tdg__option_t *options, tdg__text_t *out) {
    writer->heading(heading, help, out);
    if (options->name == NULL)
        return;
    writer->begin(out);
    for (; options->name != NULL; options++)
        writer->option(options, out);
    writer->end(out);
}

void tdg__reference_write(tdg__reference_format_t format, const tdg__option_t *common,
                          const tdg__section_t *kinds, tdg__text_t *out) {
    const writer_t *writer = &writers[format];

    for (const tdg__section_t *part = tdg__config_sections; part->name != NULL; part++)
        write_section(writer, part->name, part->help, part->options, out);
    write_section(writer, "resources",
                  "The list of what is served. Each entry begins with a dash, names one "
                  "kind with its value, and may have the options of that kind and these.",
                  common, out);
    for (; kinds->name != NULL; kinds++) {
        char heading[64] = "resources: ";

        strncat(heading, kinds->name, sizeof(heading) - strlen(heading) - 1);
        write_section(writer, heading, kinds->help, kinds->options, out);
    }
}
