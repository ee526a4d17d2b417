/* SPDX-License-Identifier: MIT */
#include "config/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "said.h"
#include "support.h"

static int read_text(const char *text, size_t len, char **ret_said, tdg__node_t **ret) {
    tdg__problems_t problems;
    int rv;

    *ret = NULL;
    tdg__problems_init(&problems, "t.yaml");
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

static void assert_refused(const char *text, size_t len, const char *expected) {
    tdg__node_t *node;
    char *what;
    int rv = read_text(text, len, &what, &node);

    if (rv != TDG_EINVAL || strcmp(what, expected) != 0)
        fail_msg("%s: %d\n  is:       %s\n  expected: %s", text, rv, what, expected);
    assert_null(node);
    free(what);
}

static void everything_knows_its_place(void **state) {
    tdg__node_t *top = tree_of("# c\nserver:\n  name: \"a b\"\nresources:\n"
                               "  - files: x\n    hidden: true\n  - [1, ~]\n");
    const tdg__node_t *name = tdg__node_get(tdg__node_get(top, "server"), "name");
    const tdg__node_t *list = tdg__node_get(top, "resources");
    const tdg__node_t *hidden = tdg__node_get(list->first, "hidden");

    (void)state;
    assert_int_equal(top->kind, TDG__NODE_MAP);
    assert_string_equal(name->text, "a b");
    assert_false(name->plain);
    assert_int_equal(name->line, 3);
    assert_int_equal(name->column, 9);
    assert_int_equal(name->key_line, 3);
    assert_int_equal(name->key_column, 3);
    assert_int_equal(list->kind, TDG__NODE_LIST);
    assert_true(hidden->plain);
    assert_int_equal(hidden->line, 6);
    assert_int_equal(hidden->index, 1);
    assert_ptr_equal(hidden->parent->parent, list);
    assert_int_equal(list->first->next->index, 1);
    assert_string_equal(list->first->next->first->text, "1");
    assert_true(tdg__node_is_null(list->first->next->first->next));
    assert_null(tdg__node_get(top, "nothing"));
    assert_null(tdg__node_get(list, "files"));
    assert_null(tdg__node_get(NULL, "files"));
    tdg__node_destroy(top);
}

static void a_file_of_nothing_is_an_empty_map(void **state) {
    static const char *const texts[] = {"",
                                        "\n\n",
                                        "# nothing\n",
                                        "---\n",
                                        "~",
                                        "{}",
                                        "\xef\xbb\xbf# with a byte order mark\n"};

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        tdg__node_t *node = tree_of(texts[i]);

        assert_int_equal(node->kind, TDG__NODE_MAP);
        assert_null(node->first);
        tdg__node_destroy(node);
    }
}

static void says_what_is_not_understood(void **state) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"a: &x 1\nb: *x\n",
         "1:4: anchors (&name) are not supported; repeat the value where it is "
         "needed\n2:4: aliases (*name) are not supported; repeat the value"},
        {"a: &x {b: 1}\nc: &y [1]\n",
         "1:4: anchors (&name) are not supported; repeat the value where it is "
         "needed\n2:4: anchors (&name) are not supported; repeat the value where "
         "it is needed"},
        {"a: !!str 1\nb: !x y\nc: !z [1]\nd: !z {}\n",
         "1:4: tags (!name) are not supported; remove it, or put the text in quotes\n"
         "2:4: tags (!name) are not supported; remove it, or put the text in quotes\n"
         "3:4: tags (!name) are not supported; remove it, or put the text in quotes\n"
         "4:4: tags (!name) are not supported; remove it, or put the text in quotes"},
        {"a: 1\nb: 2\na: 3\n", "3:1: \"a\" appears twice in the same map"},
        {"? [1]\n: 2\n", "1:3: expected a name, followed by a colon"},
        {"? {a: 1}\n: 2\n", "1:3: expected a name, followed by a colon"},
        {"a: 1\n---\nb: 2\n",
         "2:1: a second document begins here; there can be only one"},
        {"a: \"x\\0y\"\n", "1:4: a text cannot contain a NUL byte"},
        {"\"x\\0y\": 1\n", "1:1: a name cannot contain a NUL byte"},
        {"a:\n\tb: 1\n", "2:1: this line begins with a tab; indent with spaces"},
        {"a: [1\nb: 2\n",
         "2:2: this is not valid YAML: did not find expected ',' or ']' (while "
         "parsing a flow sequence that begins in line 1)"},
        {"a: 1\n  b: 2\n",
         "2:4: this is not valid YAML: mapping values are not allowed in this "
         "context"},
        {"a: @b\n",
         "1:4: this is not valid YAML: found character that cannot start any token "
         "(while scanning for the next token that begins in line 1)"},
        {"a: 1\nb: \xff\n",
         "2:4: this is not valid UTF-8, or contains control characters"},
        {"a: \x01\n", "1:4: this is not valid UTF-8, or contains control characters"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_refused(cases[i].text, strlen(cases[i].text), cases[i].says);
    assert_refused("a: \0b", 5, /* a NUL in the file itself */
                   "1:4: this is not valid UTF-8, or contains control characters");
}

static void bounds_hold(void **state) {
    static char text[TDG__NODE_MAX_BYTES + 2];
    char *end = text;
    tdg__node_t *node;

    (void)state;
    memset(text, '[', TDG__NODE_MAX_DEPTH);
    memset(text + TDG__NODE_MAX_DEPTH, ']', TDG__NODE_MAX_DEPTH);
    tdg__node_destroy(tree_of(text));
    memset(text, '[', TDG__NODE_MAX_DEPTH + 1);
    memset(text + TDG__NODE_MAX_DEPTH + 1, ']', TDG__NODE_MAX_DEPTH + 1);
    assert_refused(text, strlen(text),
                   "1:17: lists and maps are nested more than 16 deep");

    for (int i = 0; i < TDG__NODE_MAX_KEYS; i++)
        end += sprintf(end, "k%d: 1\n", i);
    node = tree_of(text);
    tdg__node_destroy(node);
    sprintf(end, "last: 1\n");
    assert_refused(text, strlen(text),
                   "1001:7: there are more than 1,000 names in one map");

    end = text;
    for (int i = 1; i < TDG__NODE_MAX_NODES; i++) /* the list is one too */
        end += sprintf(end, "- 1\n");
    tdg__node_destroy(tree_of(text));
    sprintf(end, "- 1\n");
    assert_refused(text, strlen(text), "250000:3: the file has more than 250,000 values");

    memset(text, '#', TDG__NODE_MAX_BYTES + 1);
    assert_refused(text, TDG__NODE_MAX_BYTES + 1, "0:0: the file is larger than 8 MiB");
    text[TDG__NODE_MAX_BYTES] = '\0';
    tdg__node_destroy(tree_of(text));
}

static void deep_and_broken_files_end_soon(void **state) {
    static const char *const pieces[] = {"[",      "{",  "- ", "? ",   "{a: ", "&a ",
                                         "a: b: ", "\"", "' ", "[a, ", "!!x "};
    char *text = malloc(TDG__NODE_MAX_BYTES + 1);

    (void)state;
    for (size_t i = 0; i < COUNT(pieces); i++) {
        size_t len = strlen(pieces[i]), at = 0;
        tdg__node_t *node;
        char *what;

        for (; at + len <= TDG__NODE_MAX_BYTES; at += len)
            memcpy(text + at, pieces[i], len);
        assert_int_equal(read_text(text, at, &what, &node), TDG_EINVAL);
        assert_true(strlen(what) > 0);
        free(what);
    }
    free(text);
}

static void trees_are_equal_by_what_they_say(void **state) {
    static const struct {
        const char *a, *b;
        bool equal;
    } cases[] = {
        {"a: 1\nb: [x, y]\n", "b: ['x', \"y\"]\n\na:   1\n", true},
        {"a: 1\n", "a: 1\nb: 2\n", false},
        {"a: 1\nb: 2\n", "a: 1\nc: 2\n", false},
        {"a: [1, 2]\n", "a: [2, 1]\n", false},
        {"a: [1, 2]\n", "a: [1]\n", false},
        {"a: 1\n", "a: [1]\n", false},
        {"a: ~\n", "a:\n", true},
        {"a: null\n", "a: 'null'\n", false},
        {"a: 'null'\n", "a: null\n", false},
        {"a: {b: {c: 1}}\n", "a: {b: {c: 2}}\n", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__node_t *a = tree_of(cases[i].a), *b = tree_of(cases[i].b);

        assert_false(tdg__node_equal(a, NULL) || tdg__node_equal(NULL, a));
        if (tdg__node_equal(a, b) != cases[i].equal)
            fail_msg("%s and %s", cases[i].a, cases[i].b);
        tdg__node_destroy(a);
        tdg__node_destroy(b);
    }
}

static void the_way_has_no_control_characters(void **state) {
    tdg__node_t *top = tree_of("\"a\\e[2J\": {\"\": {ä: 1}}\n");
    tdg__problems_t problems;

    (void)state;
    tdg__problems_init(&problems, NULL);
    tdg__node_problem(&problems, top->first->first->first, "x");
    assert_string_equal(problems.list[0].text, "\"a?[2J\".\"\".\"ä\": x");
    tdg__problems_done(&problems);
    tdg__node_destroy(top);
}

static void problems_name_the_way(void **state) {
    tdg__node_t *top = tree_of("resources:\n  - x: 1\n    \"a b\": {c: [1, 2]}\n");
    const tdg__node_t *item = tdg__node_get(top, "resources")->first;
    const tdg__node_t *c = tdg__node_get(tdg__node_get(item, "a b"), "c");
    tdg__problems_t problems;
    char *what;

    (void)state;
    tdg__problems_init(&problems, NULL);
    tdg__node_problem(&problems, c->first->next, "%s", "one");
    tdg__node_key_problem(&problems, c, "two");
    tdg__node_key_problem(&problems, c->first, "three");
    tdg__node_problem(&problems, top, "four");
    tdg__node_problem(&problems, NULL, "five");
    tdg__node_key_problem(&problems, NULL, "six");
    what = said(&problems);
    assert_string_equal(what, "0:0: five\n0:0: six\n1:1: four\n"
                              "3:13: resources[0].\"a b\".c: two\n"
                              "3:17: resources[0].\"a b\".c[0]: three\n"
                              "3:20: resources[0].\"a b\".c[1]: one");
    free(what);
    tdg__problems_done(&problems);
    tdg__node_destroy(top);
}

/* ---- Files --------------------------------------------------------------- */

static void assert_file_says(const char *path, int code, const char *expected) {
    tdg__problems_t problems;
    tdg__node_t *node = NULL;
    char *what;
    int rv;

    tdg__problems_init(&problems, path);
    rv = tdg__node_read_file(path, &problems, &node);
    what = said(&problems);
    if (rv != code || strcmp(what, expected) != 0)
        fail_msg("%s: %d: %s", path, rv, what);
    free(what);
    tdg__node_destroy(node);
    tdg__problems_done(&problems);
}

static void files_are_read(void **state) {
    char folder[] = "node_test_XXXXXX", path[64];
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/a.yaml", folder);
    assert_file_says(path, TDG_ESYSTEM, "0:0: cannot open it: No such file or directory");
    assert_file_says(folder, TDG_ESYSTEM, "0:0: cannot read it: Is a directory");

    file = fopen(path, "w");
    assert_non_null(file);
    fputs("a: 1\n", file);
    fclose(file);
    assert_file_says(path, 0, "");

    assert_int_equal(truncate(path, TDG__NODE_MAX_BYTES + 1), 0);
    assert_file_says(path, TDG_EINVAL, "0:0: the file is larger than 8 MiB");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void standard_input_is_read(void **state) {
    int ends[2], saved = dup(STDIN_FILENO);

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "a: [", 4), 4);
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    assert_file_says(
        "-", TDG_EINVAL,
        "2:1: this is not valid YAML: did not find expected node content (while "
        "parsing a flow node that begins in line 2)");
    dup2(saved, STDIN_FILENO);
    close(saved);
}

static void every_allocation_may_fail(void **state) {
    static const char text[] = "a: {b: [1, 'x'], c: d}\ne:\n  - f: 1\n  - *x\na: 2\n";
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
        assert_null(node);
        if (complete)
            assert_int_equal(problems.count, 2);
        else
            assert_true(rv == TDG_ENOMEM || tdg__problems_total(&problems) == 2);
        tdg__problems_done(&problems);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(everything_knows_its_place),
        TEST(a_file_of_nothing_is_an_empty_map),
        TEST(says_what_is_not_understood),
        TEST(bounds_hold),
        TEST(deep_and_broken_files_end_soon),
        TEST(trees_are_equal_by_what_they_say),
        TEST(problems_name_the_way),
        TEST(the_way_has_no_control_characters),
        TEST(files_are_read),
        TEST(standard_input_is_read),
        TEST(every_allocation_may_fail),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
