/* SPDX-License-Identifier: MIT
 *
 * Completion of the paths in a folder. */
#include <stdio.h>

#include "source/files/files.h"
#include "support.h"
#include "unit/source/folder.h"
#include "unit/source/harness.h"

struct fixture {
    struct folder folder;
    struct harness harness;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    folder_create(&f->folder);
    folder_mkdir(&f->folder, "root/docs/deep");
    folder_mkdir(&f->folder, "root/.git");
    folder_write(&f->folder, "root/dog.md", "");
    folder_write(&f->folder, "root/docs/b c.md", "");
    folder_write(&f->folder, "root/docs/a.md", "");
    folder_write(&f->folder, "root/docs/deep/x.md", "");
    folder_write(&f->folder, "root/.git/config", "");
    folder_write(&f->folder, "root/cat.bin", "");
    folder_write(&f->folder, "root/no\xff.md", ""); /* which JSON cannot carry */
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    harness_close(&f->harness);
    folder_destroy(&f->folder);
    return state_destroy(state);
}

static void serve(struct fixture *f) {
    char yaml[1024];

    snprintf(yaml, sizeof(yaml),
             "files: %s/root\nuri: f:/{+path}\ninclude: ['**/*.md']\n", f->folder.path);
    harness_open(&f->harness, yaml);
    harness_wait(&f->harness, READY, NULL);
}

static void expect(struct fixture *f, const char *value, const char *expected) {
    json_t *values = json_array();
    size_t total = 99;

    assert_int_equal(
        tdg__files_complete(f->harness.source, "path", value, values, &total), 0);
    assert_json_equal(values, expected);
    assert_int_equal(total, json_array_size(values));
    json_decref(values);
}

static void paths_are_completed_one_folder_at_a_time(void **state) {
    struct fixture *f = *state;

    serve(f);
    expect(f, "", "['docs/', 'dog.md']");
    expect(f, "do", "['docs/', 'dog.md']");
    expect(f, "dog", "['dog.md']");
    expect(f, "docs", "['docs/']");
    expect(f, "docs/", "['docs/a.md', 'docs/b c.md', 'docs/deep/']");
    expect(f, "docs/b", "['docs/b c.md']");
    expect(f, "docs/deep/x", "['docs/deep/x.md']");
}

static void what_is_not_served_is_not_suggested(void **state) {
    struct fixture *f = *state;

    serve(f);
    expect(f, "cat", "[]");
    expect(f, ".", "[]");
    expect(f, ".git/", "[]");
    expect(f, "no", "[]");
    expect(f, "none/", "[]");
    expect(f, "dog.md/", "[]");
    expect(f, "../", "[]");
    expect(f, "/", "[]");
    expect(f, "/do", "[]");
    expect(f, "docs//", "[]");
    expect(f, "docs/../do", "[]");
}

static void only_the_variable_of_the_template_is_completed(void **state) {
    struct fixture *f = *state;
    json_t *values = json_array();
    size_t total = 99;

    serve(f);
    assert_int_equal(tdg__files_complete(f->harness.source, "other", "d", values, &total),
                     0);
    assert_int_equal(json_array_size(values), 0);
    assert_int_equal(total, 0);
    json_decref(values);
}

static void the_first_hundred_come_in_order(void **state) {
    struct fixture *f = *state;
    json_t *values = json_array();
    size_t total = 0;
    char name[64];

    folder_mkdir(&f->folder, "root/many");
    for (int i = 0; i < 150; i++) {
        snprintf(name, sizeof(name), "root/many/%03d.md", (i * 37) % 150);
        folder_write(&f->folder, name, "");
    }
    serve(f);
    assert_int_equal(
        tdg__files_complete(f->harness.source, "path", "many/", values, &total), 0);
    assert_int_equal(total, 150);
    assert_int_equal(json_array_size(values), TDG__COMPLETIONS);
    for (size_t i = 0; i < TDG__COMPLETIONS; i++) {
        snprintf(name, sizeof(name), "many/%03zu.md", i);
        assert_string_equal(json_string_value(json_array_get(values, i)), name);
    }
    json_decref(values);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(paths_are_completed_one_folder_at_a_time),
        TEST(what_is_not_served_is_not_suggested),
        TEST(only_the_variable_of_the_template_is_completed),
        TEST(the_first_hundred_come_in_order),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("files_complete", tests, NULL, NULL);
}
