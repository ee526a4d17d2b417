/* SPDX-License-Identifier: MIT */
#include <tidings/error.h>

#include "base/variables.h"
#include "support.h"

static tdg__template_t *parse(const char *text) {
    tdg__template_t *template_;

    assert_int_equal(tdg__template_parse(text, strlen(text), &template_, NULL), 0);
    return template_;
}

static int create(const tdg__template_t *template_, const char *uri,
                  tdg__variables_t **ret) {
    return tdg__variables_create(template_, uri, strlen(uri), ret);
}

static void expect(const char *text, const char *uri, const char *name,
                   const char *value) {
    tdg__template_t *template_ = parse(text);
    tdg__variables_t *variables;
    const char *found;

    assert_int_equal(create(template_, uri, &variables), 0);
    found = tdg__variables_get(variables, name);
    if (value != NULL && found != NULL)
        assert_string_equal(found, value);
    else
        assert_ptr_equal(found, value);
    tdg__variables_destroy(variables);
    tdg__template_destroy(template_);
}

static void values_are_decoded(void **state) {
    static const struct {
        const char *template_, *uri, *name, *value;
    } rows[] = {
        {"f:{x}", "f:a", "x", "a"},
        {"f:{x}", "f:%20%2F", "x", " /"},
        {"f:{x}", "f:%E2%82%AC", "x", "\xe2\x82\xac"},
        {"f:{+x}", "f:a/b%20c", "x", "a/b c"},
        {"f:{+x}", "f:..%2F..%2Fetc", "x", "../../etc"},
        {"f:{x,y}", "f:1,2", "y", "2"},
        {"f:a{?x,y}", "f:a?y=%3D", "y", "="},
        {"f:a{?x,y}", "f:a?y=%3D", "x", NULL},
        {"f:a{?x}", "f:a?x=", "x", ""},
        {"f:{host}{/path*}", "f:h/a/b%2Fc", "path", "a/b/c"},
        {"f:{host}{/path*}", "f:h/a/b%2Fc", "host", "h"},
        {"f:a{?x*}", "f:a?b=1&c=%32", "x", "b=1&c=2"},
        {"f:{x:2}", "f:%41b", "x", "Ab"},
        {"f:{xy}", "f:a", "x", NULL},
        {"f:{x}", "f:a", "xy", NULL},
        {"f:{x}", "f:a", "", NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        expect(rows[i].template_, rows[i].uri, rows[i].name, rows[i].value);
}

/* As many as there can be, each as long as it can be: there is room for all. */
static void all_variables_fit_in(void **state) {
    char text[16 * TDG__TEMPLATE_MAX_NAMES] = "f:",
                   uri[16 * TDG__TEMPLATE_MAX_NAMES] = "f:";
    tdg__template_t *template_;
    tdg__variables_t *variables;

    (void)state;
    for (int i = 0; i < TDG__TEMPLATE_MAX_NAMES; i++) {
        snprintf(text + strlen(text), 16, "{/v%d}", i);
        snprintf(uri + strlen(uri), 16, "/value%d", i);
    }
    template_ = parse(text);
    assert_int_equal(create(template_, uri, &variables), 0);
    for (int i = 0; i < TDG__TEMPLATE_MAX_NAMES; i++) {
        char name[16], value[16];

        snprintf(name, sizeof(name), "v%d", i);
        snprintf(value, sizeof(value), "value%d", i);
        assert_string_equal(tdg__variables_get(variables, name), value);
    }
    tdg__variables_destroy(variables);
    tdg__template_destroy(template_);
}

static void what_is_no_text_names_nothing(void **state) {
    static const char *const uris[] = {
        "f:%00",    "f:a%00b",  "f:%FF",       "f:%C3",   "f:a%C3%28",
        "f:%C0%AF", "f:%E2%82", "f:%ED%A0%80", "f:a/%80", "f:b/%00/c",
    };
    tdg__template_t *template_ = parse("f:{+x}");
    tdg__variables_t *variables;

    (void)state;
    for (size_t i = 0; i < COUNT(uris); i++)
        assert_int_equal(create(template_, uris[i], &variables), TDG_ENOTFOUND);
    assert_int_equal(create(template_, "g:1", &variables), TDG_ENOTFOUND);
    tdg__template_destroy(template_);
}

static void says_that_memory_is_out(void **state) {
    tdg__template_t *template_ = parse("f:{x}");
    tdg__variables_t *variables;

    (void)state;
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(create(template_, "f:1", &variables), TDG_ENOMEM);
    tdg__variables_destroy(NULL);
    tdg__template_destroy(template_);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(values_are_decoded),
        TEST(all_variables_fit_in),
        TEST(what_is_no_text_names_nothing),
        TEST(says_that_memory_is_out),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("variables", tests, NULL, NULL);
}
