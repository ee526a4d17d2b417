/* SPDX-License-Identifier: MIT */
#include "source/http/http_url.h"

#include "support.h"

static int check(const char *url, const char *uri, const char *why) {
    tdg__template_t *template_ = NULL;
    tdg__parse_error_t error = {0};
    int rv;

    if (uri != NULL)
        assert_int_equal(tdg__template_parse(uri, strlen(uri), &template_, &error), 0);
    rv = tdg__http_url_check(url, template_, &error);
    if (why != NULL)
        assert_non_null(strstr(error.text, why));
    tdg__template_destroy(template_);
    return rv;
}

static void takes_what_can_be_asked(void **state) {
    (void)state;
    assert_int_equal(check("http://a", NULL, NULL), 0);
    assert_int_equal(check("HTTPS://a.example:8443/x/y?z=%20&w", NULL, NULL), 0);
    assert_int_equal(check("https://[::1]:80/", NULL, NULL), 0);
    assert_int_equal(check("http://a/{x}/b{y}?c={x}", "i://{x}/{y}", NULL), 0);
    assert_int_equal(check("http://a?{x}", "i://{x}", NULL), 0);
    assert_int_equal(check("http://a/..b/.c/d..", NULL, NULL), 0);
}

static void says_what_cannot(void **state) {
    char longest[TDG__HTTP_URL_MAX + 2] = "http://a/";

    (void)state;
    assert_int_equal(check("", NULL, "begins with"), TDG_EINVAL);
    assert_int_equal(check("//a/b", NULL, "begins with"), TDG_EINVAL);
    assert_int_equal(check("http://a b/", NULL, "begins with"), TDG_EINVAL);
    assert_int_equal(check("http://u@a/", NULL, "user name"), TDG_EINVAL);
    assert_int_equal(check("http://{x}@a/", "i://{x}", "host"), TDG_EINVAL);
    assert_int_equal(check("{x}://a/", "i://{x}", "host"), TDG_EINVAL);
    assert_int_equal(check("http:{x}", "i://{x}", ""), TDG_EINVAL);
    assert_int_equal(check("http:/a/{x}", "i://{x}", "begins with"), TDG_EINVAL);
    assert_int_equal(check("http:/{x}/", "i://{x}", "begins with"), TDG_EINVAL);
    assert_int_equal(check("http://a/%2e%2E/", NULL, "segment"), TDG_EINVAL);
    assert_int_equal(check("http://a/x/.", NULL, "segment"), TDG_EINVAL);
    assert_int_equal(check("http://a/{}", "i://{x}", "written"), TDG_EINVAL);
    assert_int_equal(check("http://a/{+x}", "i://{x}", "no variable"), TDG_EINVAL);
    memset(longest + 9, 'a', TDG__HTTP_URL_MAX - 8);
    assert_int_equal(check(longest, NULL, "at most"), TDG_EINVAL);
}

static const char *value(void *arg, const char *name) {
    const char *const *values = arg;

    return strcmp(name, "x") == 0 ? values[0] : values[1];
}

static void expect(const char *url, const char *x, const char *y, const char *expected) {
    const char *values[] = {x, y};
    tdg__text_t out;
    int rv;

    tdg__text_init(&out, TDG__HTTP_URL_MAX);
    rv = tdg__http_url_expand(url, value, values, &out);
    assert_int_equal(rv, expected != NULL ? 0 : TDG_ENOTFOUND);
    if (expected != NULL)
        assert_string_equal(out.data, expected);
    tdg__text_done(&out);
}

static void puts_values_in(void **state) {
    (void)state;
    expect("http://a/b", NULL, NULL, "http://a/b");
    expect("http://a/{x}-{y}", "1", "2", "http://a/1-2");
    expect("http://a/{x}", "/?#[]@!$&'()*+,;=:%", NULL,
           "http://a/%2F%3F%23%5B%5D%40%21%24%26%27%28%29%2A%2B%2C%3B%3D%3A%25");
    expect("http://a/{x}", "%2e%2e", NULL, "http://a/%252e%252e"); /* means itself */
    expect("http://a/{x}", "\xc3\xa4 \r\n", NULL, "http://a/%C3%A4%20%0D%0A");
    expect("http://a/{x}", "{y}", "1", "http://a/%7By%7D");
    expect("http://a/b?x={x}", "", NULL, "http://a/b?x=");
    expect("http://a/b?x={x}", NULL, NULL, "http://a/b?x=");
    expect("http://a/b?x={x}", "../..", NULL, "http://a/b?x=..%2F..");
    expect("http://a/.{x}", "b", NULL, "http://a/.b");
}

static void refuses_values_that_move(void **state) {
    (void)state;
    expect("http://a/{x}", NULL, NULL, NULL);
    expect("http://a/{x}", "", NULL, NULL);
    expect("http://a/{x}/b", ".", NULL, NULL);
    expect("http://a/b/{x}", "..", NULL, NULL);
    expect("http://a/b/{x}?c", "..", NULL, NULL);
    expect("http://a/b/.{x}", ".", NULL, NULL);
    expect("http://a/b/{x}{y}", ".", ".", NULL);
    expect("http://a/b/{x}", "../c", NULL, NULL);
    expect("http://a/b/{x}", "c/../../d", NULL, NULL);
    expect("http://a/b/{x}", "c\\..\\d", NULL, NULL);
    expect("http://a/b/{x}", "c/..", NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_can_be_asked),
        cmocka_unit_test(says_what_cannot),
        cmocka_unit_test(puts_values_in),
        cmocka_unit_test(refuses_values_that_move),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("http_url", tests, NULL, NULL);
}
