/* SPDX-License-Identifier: MIT */
#include "command.h"
#include "support.h"

struct fields {
    cli_texts_t texts;
    long time_ms;
    char **program;
    bool flag;
    unsigned parts;
};

static const char *const parts[] = {"one", "two", "three", NULL};

static const cli_option_t options[] = {
    CLI_TEXTS_OPTION(struct fields, texts, "text", "TEXT", "any"),
    CLI_TIME_OPTION(struct fields, time_ms, "time", "TIME", 10, 60000, "any"),
    CLI_FLAG_OPTION(struct fields, flag, "flag", "any"),
    CLI_PARTS_OPTION(struct fields, parts, "parts", "PART,...", parts, "any"),
    CLI_PROGRAM_OPTION(struct fields, program, "any"),
    CLI_END,
};

static const cli_command_t with_program = {
    .name = "test",
    .operands = "[WORD]...",
    .max_operands = 2,
    .options = options,
};

static const cli_option_t no_options[] = {CLI_END};

static const cli_command_t without_program = {
    .name = "test",
    .operands = "[WORD]...",
    .max_operands = 5,
    .options = no_options,
};

enum { MAX_WORDS = 200 };

struct line {
    char *argv[MAX_WORDS + 1];
    int argc, operands, exit_code;
    struct fields fields;
};

/* Parses words that are parted by spaces. */
static bool parse(struct line *line, const cli_command_t *command, const char *words) {
    static char copy[4096];

    *line = (struct line){0};
    assert_true(strlen(words) < sizeof(copy));
    strcpy(copy, words);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        line->argv[line->argc++] = word;
    return cli_parse(command, line->argc, line->argv, &line->fields, &line->operands,
                     &line->exit_code);
}

static void parts_are_some_or_all(void **state) {
    struct line line;

    (void)state;
    assert_true(parse(&line, &with_program, "word"));
    assert_int_equal(line.fields.parts, 0);
    assert_true(parse(&line, &with_program, "--parts word"));
    assert_int_equal(line.fields.parts, 7);
    assert_int_equal(line.operands, 1); /* the value stands behind = or nowhere */
    assert_true(parse(&line, &with_program, "--parts=three,one"));
    assert_int_equal(line.fields.parts, 5);
    assert_true(parse(&line, &with_program, "--parts=one --parts=two"));
    assert_int_equal(line.fields.parts, 3);
    assert_false(parse(&line, &with_program, "--parts=one,four"));
    assert_int_equal(line.exit_code, CLI_USAGE);
    assert_false(parse(&line, &with_program, "--parts=one,"));
    assert_false(parse(&line, &with_program, "--parts="));
}

static void texts_are_all_kept_in_order(void **state) {
    struct line line;

    (void)state;
    assert_true(parse(&line, &with_program, "--text a --text=b --text c"));
    assert_int_equal(line.fields.texts.count, 3);
    assert_string_equal(line.fields.texts.items[0], "a");
    assert_string_equal(line.fields.texts.items[1], "b");
    assert_string_equal(line.fields.texts.items[2], "c");
    assert_null(line.fields.texts.items[3]);
}

static void texts_have_a_limit(void **state) {
    char words[2048] = "";
    struct line line;

    (void)state;
    for (int i = 0; i < CLI_TEXTS_MAX; i++)
        strcat(words, "--text=x ");
    assert_true(parse(&line, &with_program, words));
    strcat(words, "--text=x");
    assert_false(parse(&line, &with_program, words));
    assert_int_equal(line.exit_code, CLI_USAGE);
}

static void times_have_units(void **state) {
    static const struct {
        const char *words;
        long ms;
    } good[] = {
        {"--time 10ms", 10},
        {"--time 2s", 2000},
        {"--time=1m", 60000},
    };
    static const char *const bad[] = {"--time 2",   "--time 9ms", "--time 2m",
                                      "--time -1s", "--time x",   "--time= "};
    struct line line;

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(parse(&line, &with_program, good[i].words));
        assert_int_equal(line.fields.time_ms, good[i].ms);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(parse(&line, &with_program, bad[i]));
        assert_int_equal(line.exit_code, CLI_USAGE);
    }
}

static void a_program_is_what_follows_two_dashes(void **state) {
    struct line line;

    (void)state;
    assert_true(parse(&line, &with_program, "a --flag b -- run --time -- x"));
    assert_int_equal(line.operands, 2);
    assert_string_equal(line.argv[0], "a");
    assert_string_equal(line.argv[1], "b");
    assert_true(line.fields.flag);
    assert_string_equal(line.fields.program[0], "run");
    assert_string_equal(line.fields.program[1], "--time");
    assert_string_equal(line.fields.program[2], "--");
    assert_string_equal(line.fields.program[3], "x");
    assert_null(line.fields.program[4]);

    assert_true(parse(&line, &with_program, "a --"));
    assert_null(line.fields.program[0]);
    assert_true(parse(&line, &with_program, "a"));
    assert_null(line.fields.program);
}

static void a_value_may_be_two_dashes(void **state) {
    struct line line;

    (void)state;
    assert_true(parse(&line, &with_program, "--text -- a"));
    assert_string_equal(line.fields.texts.items[0], "--");
    assert_int_equal(line.operands, 1);
    assert_null(line.fields.program);
}

static void a_program_has_no_name(void **state) {
    struct line line;

    (void)state;
    assert_false(parse(&line, &with_program, "--=x"));
    assert_int_equal(line.exit_code, CLI_USAGE);
}

static void without_a_program_two_dashes_end_options(void **state) {
    struct line line;

    (void)state;
    assert_true(parse(&line, &without_program, "a -- --b -- c"));
    assert_int_equal(line.operands, 4);
    assert_string_equal(line.argv[1], "--b");
    assert_string_equal(line.argv[2], "--");
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        CASE(parts_are_some_or_all),
        CASE(texts_are_all_kept_in_order),
        CASE(texts_have_a_limit),
        CASE(times_have_units),
        CASE(a_program_is_what_follows_two_dashes),
        CASE(a_value_may_be_two_dashes),
        CASE(a_program_has_no_name),
        CASE(without_a_program_two_dashes_end_options),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("cli_options", tests, NULL, NULL);
}
