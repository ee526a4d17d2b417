/* SPDX-License-Identifier: MIT */
#include "config/reference.h"

#include "base/alloc.h"
#include "config/file.h"
#include "said.h"
#include "source/common/source.h"
#include "support.h"

static const char *const formats[] = {"json", "csv", NULL};

typedef struct record {
    char *path, *query, *key;
    int64_t every, count;
    int format;
    bool hidden;
    char **include;
} record_t;

#define AT(field) offsetof(record_t, field)

static const tdg__option_t files_options[] = {
    {.name = "files",
     .type = TDG__OPTION_PATH,
     .offset = AT(path),
     .flags = TDG__OPTION_REQUIRED,
     .example = "docs",
     .help = "A folder."},
    {.name = "include",
     .type = TDG__OPTION_STRINGS,
     .offset = AT(include),
     .example = "[\"*.md\"]",
     .help = "Only these. `*` is any | all."},
    {.name = NULL},
};

static const tdg__option_t sql_options[] = {
    {.name = "sql",
     .type = TDG__OPTION_STRING,
     .offset = AT(key),
     .flags = TDG__OPTION_REQUIRED | TDG__OPTION_SECRET,
     .example = "host: x # y",
     .help = "Where."},
    {.name = "query",
     .type = TDG__OPTION_STRING,
     .offset = AT(query),
     .flags = TDG__OPTION_RAW,
     .help = "What. .It is not taken for a macro, nor is C:\\dir."},
    {.name = "every",
     .type = TDG__OPTION_DURATION,
     .offset = AT(every),
     .fallback = "30s",
     .min = 1000,
     .help = "How often."},
    {.name = "count",
     .type = TDG__OPTION_NUMBER,
     .offset = AT(count),
     .fallback = "3",
     .min = 1,
     .max = 9,
     .help = "How many."},
    {.name = "format",
     .type = TDG__OPTION_CHOICE,
     .offset = AT(format),
     .fallback = "csv",
     .choices = formats,
     .help = "How."},
    {.name = NULL},
};

static const tdg__option_t common[] = {
    {.name = "uri", .type = TDG__OPTION_STRING, .example = "a://b", .help = "Its URI."},
    {.name = "hidden",
     .type = TDG__OPTION_BOOL,
     .offset = AT(hidden),
     .fallback = "false",
     .help = "Not seen."},
    {.name = NULL},
};

static const tdg__section_t kinds[] = {
    {.name = "files", .help = "Folders.", .options = files_options},
    {.name = "sql", .help = "Rows.", .options = sql_options, .uri = ""},
    {.name = NULL},
};

static char *written(tdg__reference_format_t format) {
    tdg__text_t out;

    tdg__text_init(&out, 1 << 20);
    tdg__reference_write(format, common, kinds, &out);
    assert_int_equal(out.error, 0);
    assert_non_null(out.data);
    return out.data;
}

static void assert_has(const char *text, const char *part) {
    if (text == NULL || strstr(text, part) == NULL)
        fail_msg("there is no %s in\n%s", part, text != NULL ? text : "");
}

static void as_plain_text(void **state) {
    char *text = written(TDG__REFERENCE_TEXT);

    (void)state;
    assert_has(text, "\nserver\n  How clients reach");
    assert_has(text, "\n  workers: number, 1 to 64\n      Threads");
    assert_has(text, "\n  key: text, never shown\n");
    assert_has(text, "\nresources: sql\n  Rows.\n"
                     "\n  sql: text, never shown (required)\n      Where.\n"
                     "      Example: host: x # y\n"
                     "\n  query: text, ${NAME} is not replaced\n");
    assert_has(text, "\n  every: duration, at least 1s (default 30s)\n      How often.\n"
                     "\n  count: number, 1 to 9 (default 3)\n      How many.\n"
                     "\n  format: json or csv (default csv)\n");
    tdg__free(text);
}

static void as_markdown(void **state) {
    char *text = written(TDG__REFERENCE_MARKDOWN);

    (void)state;
    assert_has(text, "\n### resources: files\n\nFolders.\n\n"
                     "| option | value | default | purpose |\n|---|---|---|---|\n"
                     "| `files` | path | required | A folder. Example: `docs` |\n"
                     "| `include` | text or list of texts |  | Only these. `*` is any "
                     "\\| all. Example: `[\"*.md\"]` |\n");
    tdg__free(text);
}

static void as_a_man_page(void **state) {
    char *text = written(TDG__REFERENCE_MDOC);

    (void)state;
    assert_has(text, ".Ss resources: sql\nRows.\n.Bl -tag -width Ds\n"
                     ".It Cm sql : Ar \"text, never shown\"\nWhere.\nIt is required.\n");
    assert_has(text, "\nWhat.\n\\&.It is not taken for a macro, nor is C:\\edir.\n");
    assert_has(text, "\nOnly these.\n\\fB*\\fP is any | all.\n");
    assert_has(text, "\nHow often.\nThe default is \\fB30s\\fP.\n");
    for (const char *line = text; line != NULL; line = strchr(line + 1, '\n'))
        assert_true(strcspn(line + 1, "\n") <= 78);
    tdg__free(text);
}

static char *starter(void) {
    tdg__text_t out;

    tdg__text_init(&out, 1 << 20);
    tdg__starter_write(common, kinds, &out);
    assert_int_equal(out.error, 0);
    return out.data;
}

static void the_starter_serves_one_folder(void **state) {
    char *text = starter();

    (void)state;
    assert_has(text,
               "\n  # How the server introduces itself to clients.\n  #name: shop\n");
    assert_has(text, "\n  #key: ${TIDINGS_PUBLISH_KEY}\n");
    assert_has(text, "\nresources:\n  # Folders.\n  - files: .\n"
                     "    # Only these. `*` is any | all.\n    #include: [\"*.md\"]\n");
    assert_has(text, "\n    # Not seen.\n    #hidden: false\n");
    assert_has(text, "\n  # Rows.\n  #- sql: \"host: x # y\"\n  #  uri: example://sql\n"
                     "  #  # How often.\n  #  every: 30s\n");
    assert_null(strstr(text, "query")); /* it has nothing to show */
    tdg__free(text);
}

/* What `sed -E 's/^( *)#(  +|[^ #])/\1\2/'` does. */
static void uncomment(char *text) {
    char *out = text;

    while (*text != '\0') {
        size_t indent = strspn(text, " "), len = strcspn(text, "\n");
        bool example = text[indent] == '#' && text[indent + 1] != '#' &&
                       text[indent + 1] != '\n' &&
                       (text[indent + 1] != ' ' || text[indent + 2] == ' ');

        memmove(out, text, indent);
        out += indent;
        text += indent + example;
        len -= indent + example;
        memmove(out, text, len);
        out += len;
        text += len;
        if (*text == '\n')
            *out++ = *text++;
    }
    *out = '\0';
}

static void the_starter_is_right_with_and_without_its_comments(void **state) {
    static const tdg__option_t *const sql_tables[] = {sql_options, common, NULL};
    tdg__problems_t problems;
    char *text = starter(), *what;

    (void)state;
    setenv("TIDINGS_PUBLISH_KEY", "placeholder", 1);
    tdg__problems_init(&problems, NULL);
    for (int round = 0; round < 2; round++) {
        tdg__config_t *config;
        int rv;

        if (round == 1)
            uncomment(text);
        rv = tdg__config_read_text(text, strlen(text), kinds, &problems, &config);
        what = said(&problems);
        if (rv != 0)
            fail_msg("%d: %s", rv, what);
        free(what);
        assert_int_equal(config->entry_count, round == 0 ? 1 : 2);
        if (round == 1) {
            record_t record = {0};

            assert_string_equal(config->opts.name, "shop");
            assert_int_equal(
                tdg__options_read(sql_tables, config->entries[1], &record, &problems), 0);
            assert_string_equal(record.key, "host: x # y");
            tdg__options_done(sql_tables, &record);
        }
        tdg__config_destroy(config);
    }
    tdg__problems_done(&problems);
    tdg__free(text);
}

/* Reads the option from `node`, or its default; nothing must be wrong. */
static void read_alone(const tdg__option_t *option, const tdg__node_t *node) {
    static union {
        char *text;
        int64_t amount;
        void *room[8];
    } field;
    const tdg__option_t one[2] = {*option, {.name = NULL}};
    const tdg__option_t *const tables[] = {one, NULL};
    tdg__problems_t problems;
    char *what;

    memset(&field, 0, sizeof(field));
    tdg__problems_init(&problems, NULL);
    problems.no_env = true;
    tdg__options_read(tables, node, &field, &problems);
    what = said(&problems);
    if (what[0] != '\0')
        fail_msg("%s: %s", option->name, what);
    free(what);
    tdg__options_done(tables, &field);
    tdg__problems_done(&problems);
}

/* The example is one text, or a list or map in YAML. */
static void read_example(const tdg__option_t *option) {
    char name[64], text[512];
    tdg__node_t value = {.kind = TDG__NODE_SCALAR, .key = name, .text = text};
    tdg__node_t map = {.kind = TDG__NODE_MAP, .first = &value};
    tdg__node_t *tree = NULL;

    assert_true(snprintf(name, sizeof(name), "%s", option->name) < (int)sizeof(name));
    assert_true(snprintf(text, sizeof(text), "%s", option->example) < (int)sizeof(text));
    if (option->type == TDG__OPTION_STRINGS || option->type == TDG__OPTION_MAP) {
        tdg__problems_t problems;

        tdg__problems_init(&problems, NULL);
        assert_int_equal(tdg__node_read_text(text, strlen(text), &problems, &tree), 0);
        value = *tree;
        value.key = name;
    }
    read_alone(option, &map);
    tdg__node_destroy(tree);
}

/* Nothing in the tables is wrong: defaults and examples are values that can be read, no
 * name is there twice, and no option is called like a kind. */
static void check_table(const tdg__option_t *options) {
    for (; options->name != NULL; options++) {
        tdg__option_t optional = *options;

        optional.offset = 0;
        optional.flags &= ~(unsigned)TDG__OPTION_REQUIRED;
        assert_non_null(options->help);
        assert_true(strlen(options->help) > 0);
        read_alone(&optional, NULL);
        if (options->example != NULL)
            read_example(&optional);
    }
}

static bool has_name(const tdg__option_t *options, const char *name) {
    for (; options->name != NULL; options++)
        if (strcmp(options->name, name) == 0)
            return true;
    return false;
}

static void the_tables_of_the_program_are_sound(void **state) {
    const tdg__section_t *real = tdg__source_sections();

    (void)state;
    for (const tdg__section_t *part = tdg__config_sections; part->name != NULL; part++)
        check_table(part->options);
    check_table(tdg__source_options);
    for (const tdg__section_t *kind = real; kind->name != NULL; kind++) {
        check_table(kind->options);
        assert_non_null(kind->help);
        assert_string_equal(kind->options[0].name, kind->name);
        assert_true(kind->options[0].flags & TDG__OPTION_REQUIRED ||
                    kind->options[0].fallback != NULL);
        for (const tdg__option_t *own = kind->options; own->name != NULL; own++)
            if (has_name(own + 1, own->name) || has_name(tdg__source_options, own->name))
                fail_msg("%s: %s is there twice", kind->name, own->name);
        for (const tdg__section_t *other = real; other->name != NULL; other++)
            if (other != kind && has_name(kind->options, other->name))
                fail_msg("%s has an option called like a kind: %s", kind->name,
                         other->name);
    }
}

static void long_texts_are_broken_into_lines(void **state) {
    tdg__text_t out;

    (void)state;
    tdg__text_init(&out, 1000);
    tdg__wrap("one two three  four averyveryverylongword €€€€ x", "  ", 12, &out);
    assert_string_equal(out.data,
                        "  one two\n  three four\n  averyveryverylongword\n  €€€€ x\n");
    tdg__text_done(&out);
}

static void memory_may_be_out(void **state) {
    (void)state;
    for (int format = TDG__REFERENCE_TEXT; format <= TDG__REFERENCE_MDOC + 1; format++) {
        bool complete = false;

        for (size_t nth = 1; !complete; nth++) {
            tdg__text_t out;

            tdg__text_init(&out, 1 << 20);
            memory_fail(nth, MEMORY_FROM_THEN_ON);
            if (format <= TDG__REFERENCE_MDOC)
                tdg__reference_write((tdg__reference_format_t)format, common, kinds,
                                     &out);
            else
                tdg__starter_write(common, kinds, &out);
            complete = !memory_failed();
            memory_fail(0, MEMORY_ONCE);
            assert_int_equal(out.error, complete ? 0 : TDG_ENOMEM);
            tdg__text_done(&out);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(as_plain_text),
        TEST(as_markdown),
        TEST(as_a_man_page),
        TEST(the_starter_serves_one_folder),
        TEST(the_starter_is_right_with_and_without_its_comments),
        TEST(the_tables_of_the_program_are_sound),
        TEST(long_texts_are_broken_into_lines),
        TEST(memory_may_be_out),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
