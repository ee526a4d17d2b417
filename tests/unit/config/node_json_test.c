/* SPDX-License-Identifier: MIT
 *
 * Linked with node_json.c, which takes the place of node_yaml.c. */
#include "config/node.h"

#include <stdio.h>

#include "said.h"
#include "support.h"

static int read_text(const char *text, size_t len, char **ret_said, tdg__node_t **ret) {
    tdg__problems_t problems;
    int rv;

    *ret = NULL;
    tdg__problems_init(&problems, "t.json");
    rv = tdg__node_read_text(text, len, &problems, ret);
    *ret_said = said(&problems);
    tdg__problems_done(&problems);
    return rv;
}

static tdg__node_t *tree_of(const char *text) {
    tdg__node_t *node;
    char *what;

    if (read_text(text, strlen(text), &what, &node) != 0)
        fail_msg("%s: %s", text, what);
    assert_string_equal(what, "");
    free(what);
    return node;
}

static void assert_refused(const char *text, const char *expected) {
    tdg__node_t *node;
    char *what;
    int rv = read_text(text, strlen(text), &what, &node);

    if (rv != TDG_EINVAL || strcmp(what, expected) != 0)
        fail_msg("%.80s: %d\n  is:       %s\n  expected: %s", text, rv, what, expected);
    assert_null(node);
    free(what);
}

static void assert_place(const tdg__node_t *node, unsigned line, unsigned column) {
    assert_int_equal(node->line, line);
    assert_int_equal(node->column, column);
}

static void everything_knows_its_place(void **state) {
    tdg__node_t *top =
        tree_of("{\n  \"server\": {\"name\": \"ä \\u00e9\"},\n"
                "  \"é\": [ {\"files\":\n\"x\", \"hidden\": true} , [] ]}\n");
    const tdg__node_t *server = tdg__node_get(top, "server");
    const tdg__node_t *name = tdg__node_get(server, "name");
    const tdg__node_t *list = tdg__node_get(top, "é");
    const tdg__node_t *hidden = tdg__node_get(list->first, "hidden");

    (void)state;
    assert_int_equal(top->kind, TDG__NODE_MAP);
    assert_place(top, 1, 1);
    assert_place(server, 2, 13);
    assert_int_equal(server->key_line, 2);
    assert_int_equal(server->key_column, 3);
    assert_string_equal(name->text, "ä é");
    assert_place(name, 2, 22);
    assert_int_equal(list->kind, TDG__NODE_LIST);
    assert_place(list, 3, 8); /* columns count characters */
    assert_place(list->first, 3, 10);
    assert_place(tdg__node_get(list->first, "files"), 4, 1);
    assert_int_equal(hidden->key_column, 6);
    assert_place(hidden, 4, 16);
    assert_ptr_equal(hidden->parent, list->first);
    assert_int_equal(list->first->next->index, 1);
    assert_null(list->first->next->first);
    tdg__node_destroy(top);
}

static void words_and_numbers_are_what_is_written(void **state) {
    tdg__node_t *top = tree_of("[true,false,null,-1.50e+3,12,\"null\",\"\"]");
    static const char *const texts[] = {"true", "false", "null", "-1.50e+3",
                                        "12",   "null",  ""};
    const tdg__node_t *node = top->first;

    (void)state;
    for (size_t i = 0; i < 7; i++, node = node->next) {
        assert_string_equal(node->text, texts[i]);
        assert_int_equal(node->plain, i < 5);
        assert_int_equal(tdg__node_is_null(node), i == 2);
    }
    assert_null(node);
    tdg__node_destroy(top);
}

static void nothing_is_a_map_of_nothing(void **state) {
    static const char *const texts[] = {"", " \n\t\r\n", "{}"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        tdg__node_t *top = tree_of(texts[i]);

        assert_int_equal(top->kind, TDG__NODE_MAP);
        assert_null(top->first);
        assert_place(top, 1, 1);
        tdg__node_destroy(top);
    }
}

static void what_is_no_json_is_refused(void **state) {
#define NO_YAML "this is not valid JSON, and this build of tidings has no YAML: "
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"server:\n  name: a\n", "1:1: " NO_YAML "expected a value"},
        {"# only\n", "1:1: " NO_YAML "expected a value"},
        {"{\"é\": 1,\n  \"b\" 2}", "2:7: " NO_YAML "expected a colon"},
        {"{\"a\": 1,\n \"a\": 2}", "2:2: " NO_YAML "this key appears twice"},
        {"[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]",
         "1:17: " NO_YAML "nested more than 16 deep"},
        {"{} {}", "1:4: " NO_YAML "expected the end"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_refused(cases[i].text, cases[i].expected);
}

static void a_map_of_many_names_is_refused(void **state) {
    enum { NAMES = TDG__NODE_MAX_KEYS + 1 };
    char *text = malloc(NAMES * 16 + 16), *at = text;

    (void)state;
    assert_non_null(text);
    at += sprintf(at, "{\"a\":{");
    for (int i = 0; i < NAMES; i++)
        at += sprintf(at, "%s\"n%d\":1", i > 0 ? "," : "", i);
    sprintf(at, "}}");
    assert_refused(text, "1:6: a: there are more than 1,000 names in one map");
    free(text);
}

static void every_allocation_may_fail(void **state) {
    static const char text[] = "{\"a\": [\"b\", 1, {\"c\": null}], \"d\": \"\\n\"}";
    bool complete = false;

    (void)state;
    for (size_t nth = 1; !complete; nth++) {
        tdg__problems_t problems;
        tdg__node_t *node = NULL;
        int rv;

        tdg__problems_init(&problems, NULL);
        memory_fail(nth, nth % 2 ? MEMORY_ONCE : MEMORY_FROM_THEN_ON);
        rv = tdg__node_read_text(text, strlen(text), &problems, &node);
        complete = !memory_failed();
        memory_fail(0, MEMORY_ONCE);
        assert_int_equal(rv, complete ? 0 : TDG_ENOMEM);
        assert_int_equal(tdg__problems_total(&problems), 0);
        tdg__problems_done(&problems);
        tdg__node_destroy(node);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(everything_knows_its_place),     TEST(words_and_numbers_are_what_is_written),
        TEST(nothing_is_a_map_of_nothing),    TEST(what_is_no_json_is_refused),
        TEST(a_map_of_many_names_is_refused), TEST(every_allocation_may_fail),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("node_json", tests, NULL, NULL);
}
