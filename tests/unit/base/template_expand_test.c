/* SPDX-License-Identifier: MIT */
#include "base/template_expand.h"
#include "base/uri.h"
#include "support.h"

static tdg__template_t *parse(const char *text) {
    tdg__parse_error_t error = {0};
    tdg__template_t *t = NULL;

    if (tdg__template_parse(text, strlen(text), &t, &error) != 0)
        fail_msg("%s: at %zu: %s", text, error.at, error.text);
    return t;
}

/* Values by name: "a" is at [0], "b" at [1]. */
struct values {
    const char *text[2];
};

static const char *value_of(void *arg, const char *name, size_t name_len,
                            size_t *ret_len) {
    const struct values *values = arg;
    const char *text;

    assert_int_equal(name_len, 1);
    assert_true(name[0] == 'a' || name[0] == 'b');
    text = values->text[name[0] - 'a'];
    *ret_len = text != NULL ? strlen(text) : 0;
    return text;
}

static const struct {
    const char *template_;
    struct values values;
    const char *uri; /* NULL: a value is missing */
} cases[] = {
    {"pg://x/{a}", {{"42", NULL}}, "pg://x/42"},
    {"pg://x/{a}/{b}/c", {{"1", "two"}}, "pg://x/1/two/c"},
    {"pg://x/{a}", {{"a b/c?d#e", NULL}}, "pg://x/a%20b%2Fc%3Fd%23e"},
    {"pg://x/{+a}", {{"a b/c?d", NULL}}, "pg://x/a%20b/c?d"},
    {"pg://x/{+a}", {{"50%25", NULL}}, "pg://x/50%2525"},
    {"pg://x/{a}", {{"-._~", NULL}}, "pg://x/-._~"},
    {"pg://x/{a}", {{"\xc3\xa4{}'\"", NULL}}, "pg://x/%C3%A4%7B%7D%27%22"},
    {"pg://x/{a}-{b}", {{"1", NULL}}, NULL},
    {"pg://x/{a}", {{"", NULL}}, NULL},
};

static void a_uri_is_made_from_values(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__template_t *t = parse(cases[i].template_);
        struct values values = cases[i].values;
        tdg__text_t text;
        int rv;

        tdg__text_init(&text, 1000);
        rv = tdg__template_expand(t, value_of, &values, &text);
        assert_int_equal(rv, cases[i].uri != NULL ? 0 : TDG_ENOTFOUND);
        if (cases[i].uri != NULL)
            assert_string_equal(text.data, cases[i].uri);
        tdg__text_done(&text);
        tdg__template_destroy(t);
    }
}

/* Random bytes but NUL, there and back. */
static void what_is_expanded_is_extracted_again(void **state) {
    static const char *const templates[] = {"pg://x/{a}", "pg://x/{+a}", "pg://x/{a}/y"};
    struct dice dice = dice_from_env();

    (void)state;
    for (size_t round = 0; round < 3000; round++) {
        tdg__template_t *t = parse(templates[round % COUNT(templates)]);
        tdg__template_value_t found[TDG__TEMPLATE_MAX_NAMES];
        char value[17] = "", back[64];
        struct values values = {{value, NULL}};
        size_t len = 1 + roll(&dice, sizeof(value) - 1), count;
        tdg__text_t text;

        for (size_t i = 0; i < len; i++)
            value[i] = (char)(1 + roll(&dice, 255));
        tdg__text_init(&text, 1000);
        assert_int_equal(tdg__template_expand(t, value_of, &values, &text), 0);
        assert_true(tdg__template_extract(t, text.data, text.len, found, &count));
        assert_int_equal(tdg__uri_decode(found[0].text, found[0].len, back), len);
        assert_memory_equal(back, value, len);
        tdg__text_done(&text);
        tdg__template_destroy(t);
    }
}

static void other_expressions_cannot_be_expanded(void **state) {
    static const char *const no[] = {"x:{/a}", "x:{?a}", "x:{a,b}", "x:{a:3}",  "x:{a*}",
                                     "x:{.a}", "x:{;a}", "x:{#a}",  "x:{a}{&b}"};
    struct values values = {{"1", "2"}};
    tdg__template_t *t;
    tdg__text_t text;

    (void)state;
    for (size_t i = 0; i < COUNT(no); i++) {
        t = parse(no[i]);
        assert_false(tdg__template_can_expand(t));
        tdg__text_init(&text, 1000);
        assert_int_equal(tdg__template_expand(t, value_of, &values, &text), TDG_ENOTSUP);
        tdg__text_done(&text);
        tdg__template_destroy(t);
    }

    t = parse("x:{a.b}/{+c}");
    assert_true(tdg__template_can_expand(t));
    tdg__template_destroy(t);
}

static void variables_have_names(void **state) {
    tdg__template_t *t = parse("x:{first}/{?b,c_3}");
    size_t len;

    (void)state;
    assert_memory_equal(tdg__template_name(t, 0, &len), "first", 5);
    assert_int_equal(len, 5);
    assert_memory_equal(tdg__template_name(t, 2, &len), "c_3", 3);
    assert_int_equal(len, 3);
    assert_null(tdg__template_name(t, 3, &len));
    tdg__template_destroy(t);
}

static void a_limit_of_the_text_is_kept(void **state) {
    tdg__template_t *t = parse("pg://x/{a}");
    struct values values = {{"0123456789", NULL}};
    tdg__text_t text;

    (void)state;
    tdg__text_init(&text, 10);
    assert_int_equal(tdg__template_expand(t, value_of, &values, &text), 0);
    assert_int_equal(text.error, TDG_ETOOLARGE);
    tdg__text_done(&text);
    tdg__template_destroy(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_uri_is_made_from_values, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(what_is_expanded_is_extracted_again, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(other_expressions_cannot_be_expanded,
                                        memory_setup, memory_teardown),
        cmocka_unit_test_setup_teardown(variables_have_names, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(a_limit_of_the_text_is_kept, memory_setup,
                                        memory_teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("template_expand", tests, NULL, NULL);
}
