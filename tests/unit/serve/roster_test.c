/* SPDX-License-Identifier: MIT
 *
 * Who has what, among sources that are not opened. */
#include "serve/roster.h"

#include <stdio.h>

#include "support.h"

struct fixture {
    tdg__roster_t *roster;
    tdg__source_t *sources[16];
    size_t count;
    bool enclosing[16];
};

static tdg__source_t *make(const char *yaml) {
    tdg__source_t *source = NULL;
    tdg__problems_t problems;
    tdg__node_t *node = NULL;

    tdg__problems_init(&problems, "test.yaml");
    assert_int_equal(tdg__node_read_text(yaml, strlen(yaml), &problems, &node), 0);
    assert_int_equal(tdg__source_create(node, &problems, &source), 0);
    tdg__node_destroy(node);
    tdg__problems_done(&problems);
    return source;
}

static tdg__source_t *add(struct fixture *f, const char *yaml) {
    tdg__source_t *source = f->sources[f->count++] = make(yaml);

    assert_int_equal(tdg__roster_add(f->roster, source), 0);
    return source;
}

static int setup(void **state) {
    struct fixture *f = *state = calloc(1, sizeof(*f));

    f->roster = tdg__roster_create(COUNT(f->sources));
    assert_non_null(f->roster);
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tdg__roster_destroy(f->roster);
    for (size_t i = 0; i < f->count; i++)
        tdg__source_destroy(f->sources[i]);
    free(f);
    return 0;
}

static void a_resource_goes_before_templates_and_these_in_their_order(void **state) {
    struct fixture *f = *state;
    tdg__source_t *wide = add(f, "memory: 'a:{+x}'"),
                  *narrow = add(f, "memory: 'a:b/{x}'");
    tdg__source_t *one = add(f, "memory: a:b/c");

    assert_ptr_equal(tdg__roster_owner(f->roster, "a:b/c"), one);
    assert_ptr_equal(tdg__roster_owner(f->roster, "a:b/d"), wide);
    assert_null(tdg__roster_owner(f->roster, "c:d"));
    assert_ptr_equal(tdg__roster_named(f->roster, "a:b/{x}"), narrow);
    assert_ptr_equal(tdg__roster_named(f->roster, "a:b/c"), one);
    assert_null(tdg__roster_named(f->roster, "a:b/d"));
}

/* Of each two of these entries, whether the first may lose URIs to the second, or the
 * other way round. */
static void it_is_known_which_entries_may_overlap(void **state) {
    static const struct {
        const char *one, *other;
        bool overlap;
    } cases[] = {
        {"memory: 'a:{x}'", "memory: a:1", true},
        {"memory: 'a:{x}'", "memory: b:1", false},
        {"memory: 'a:{x}'", "memory: 'a:b{y}'", true},
        {"memory: 'a:{x}/{y}'", "memory: 'a:{z}/end'", true},
        {"memory: 'a:b/{x}'", "memory: 'a:c/{x}'", false},
        {"memory: a:1", "memory: a:2", false},
        {"files: /tmp\nuri: 'f:{+path}'", "command: [a, '{x}']\nuri: 'f:x{x}'", true},
        {"command: [a, '{x}']\nuri: 'f:{x}'", "command: [b, '{x}']\nuri: 'f:x{x}'",
         false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fixture *f;

        setup((void **)&f);
        add(f, cases[i].one);
        add(f, cases[i].other);
        if (tdg__roster_overlaps(f->roster) != cases[i].overlap)
            fail_msg("%s and %s", cases[i].one, cases[i].other);
        teardown((void **)&f);
    }
}

static void a_source_that_closes_has_nothing(void **state) {
    struct fixture *f = *state;
    tdg__source_t *wide = add(f, "memory: 'a:{+x}'"), *one = add(f, "memory: a:b");

    one->closing = true;
    assert_ptr_equal(tdg__roster_owner(f->roster, "a:b"), wide);
    assert_null(tdg__roster_named(f->roster, "a:b"));
    wide->closing = true;
    assert_null(tdg__roster_owner(f->roster, "a:b"));
}

static void a_source_that_is_removed_is_not_looked_at_any_more(void **state) {
    static const char *const entries[] = {"memory: 'a:{+x}'", "memory: a:b",
                                          "{webhook: /hooks/a, uri: 'h:1', open: true}"};
    struct fixture *f = *state;
    tdg__source_t *stays = add(f, "memory: 'a:{x}'");

    for (size_t i = 0; i < COUNT(entries); i++) {
        tdg__source_t *source = make(entries[i]);

        assert_int_equal(tdg__roster_add(f->roster, source), 0);
        tdg__roster_remove(f->roster, source);
        tdg__source_destroy(source);
    }
    assert_ptr_equal(tdg__roster_owner(f->roster, "a:b"), stays);
    assert_null(tdg__roster_owner(f->roster, "a:b/c"));
    assert_null(tdg__roster_named(f->roster, "a:{+x}"));
    assert_null(tdg__roster_named(f->roster, "h:1"));
    assert_null(tdg__roster_hook(f->roster, "/hooks/a"));
}

static void a_webhook_is_found_by_its_path(void **state) {
    struct fixture *f = *state;
    tdg__source_t *hook = add(f, "{webhook: /hooks/a, uri: 'h:1', open: true}");

    add(f, "{webhook: /hooks/b, uri: 'h:2', open: true}");
    assert_ptr_equal(tdg__roster_hook(f->roster, "/hooks/a"), hook);
    assert_null(tdg__roster_hook(f->roster, "/hooks/c"));
    assert_null(tdg__roster_hook(NULL, "/hooks/a"));
    assert_null(tdg__roster_owner(NULL, "h:1"));
}

static void note(void *arg, size_t number) {
    ((struct fixture *)arg)->enclosing[number] = true;
}

static void expect_enclosing(struct fixture *f, const tdg__source_t *source,
                             const char *expected) {
    char found[64] = "";

    memset(f->enclosing, 0, sizeof(f->enclosing));
    tdg__roster_enclosing(f->roster, source, note, f);
    for (size_t i = 0; i < f->count; i++)
        if (f->enclosing[i])
            snprintf(found + strlen(found), sizeof(found) - strlen(found), "%zu ", i);
    assert_string_equal(found, expected);
}

static void a_folder_knows_the_folders_around_it(void **state) {
    struct fixture *f = *state;
    tdg__source_t *inner = add(f, "{files: /nowhere/b, uri: 'f:a/b/{+path}'}");
    tdg__source_t *outer = add(f, "{files: /nowhere, uri: 'f:a/{+path}'}");
    tdg__source_t *same = add(f, "{files: /elsewhere, uri: 'f:a/{+other}'}");
    tdg__source_t *file = add(f, "{files: /nowhere/x, uri: 'f:a/b/x'}");
    tdg__source_t *beside = add(f, "{files: /nowhere/c, uri: 'f:ab/{+path}'}");

    add(f, "memory: 'f:{+path}'"); /* lists nothing by itself */
    expect_enclosing(f, inner, "1 2 ");
    expect_enclosing(f, outer, "2 ");
    expect_enclosing(f, same, "1 ");
    expect_enclosing(f, file, "0 1 2 ");
    expect_enclosing(f, beside, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_resource_goes_before_templates_and_these_in_their_order),
        cmocka_unit_test(it_is_known_which_entries_may_overlap),
        TEST(a_source_that_closes_has_nothing),
        TEST(a_source_that_is_removed_is_not_looked_at_any_more),
        TEST(a_webhook_is_found_by_its_path),
        TEST(a_folder_knows_the_folders_around_it),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("roster", tests, NULL, NULL);
}
