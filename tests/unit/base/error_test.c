/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>

#include "support.h"

static const struct {
    int code;
    const char *name;
    const char *text;
} errors[] = {
#define ROW(name, code, text) {TDG_##name, "TDG_" #name, text},
    TDG_ERROR_MAP(ROW)
#undef ROW
};

static void has_a_name_and_a_text_for_each_code(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(errors); i++) {
        assert_string_equal(tdg_error_name(errors[i].code), errors[i].name);
        assert_string_equal(tdg_strerror(errors[i].code), errors[i].text);
    }
}

static void gives_each_error_its_own_negative_code(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(errors); i++) {
        assert_true(errors[i].code < 0);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(errors[i].code, errors[j].code);
            assert_string_not_equal(errors[i].text, errors[j].text);
        }
    }
}

static void writes_texts_without_a_full_stop(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(errors); i++) {
        size_t len = strlen(errors[i].text);

        assert_true(len > 0);
        assert_int_not_equal(errors[i].text[len - 1], '.');
    }
}

static void calls_zero_success(void **state) {
    (void)state;
    assert_string_equal(tdg_error_name(0), "TDG_OK");
    assert_string_equal(tdg_strerror(0), "success");
}

static void shows_errors_of_the_system_as_they_are(void **state) {
    (void)state;
    assert_int_equal(tdg_system_error(-1000 - EADDRINUSE), EADDRINUSE);
    assert_string_equal(tdg_strerror(-1000 - EADDRINUSE), strerror(EADDRINUSE));
    assert_string_equal(tdg_error_name(-1000 - EADDRINUSE), "EADDRINUSE");
    assert_int_equal(tdg_system_error(TDG_ENOMEM), 0);
    assert_int_equal(tdg_system_error(0), 0);
}

static void the_headers_are_of_the_same_version(void **state) {
    (void)state;
    assert_true(tdg_version_fits());
    assert_int_equal(tdg_version_number(), TDG_VERSION_NUMBER);
    assert_string_equal(tdg_version(), TDG_VERSION);
}

static void answers_for_codes_that_are_none_of_ours(void **state) {
    static const int codes[] = {1, INT_MAX, INT_MIN, -1000};

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        assert_string_equal(tdg_error_name(codes[i]), "TDG_UNKNOWN");
        assert_string_equal(tdg_strerror(codes[i]), "unknown error");
    }
}

static void tells_the_version_it_was_built_as(void **state) {
    (void)state;
    assert_string_equal(tdg_version(), TDG_VERSION);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_a_name_and_a_text_for_each_code),
        cmocka_unit_test(gives_each_error_its_own_negative_code),
        cmocka_unit_test(writes_texts_without_a_full_stop),
        cmocka_unit_test(calls_zero_success),
        cmocka_unit_test(answers_for_codes_that_are_none_of_ours),
        cmocka_unit_test(shows_errors_of_the_system_as_they_are),
        cmocka_unit_test(the_headers_are_of_the_same_version),
        cmocka_unit_test(tells_the_version_it_was_built_as),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("error", tests, NULL, NULL);
}
