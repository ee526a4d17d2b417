/* SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/base64.h"
#include "support.h"

static const struct {
    const char *plain, *encoded;
} pairs[] = {
    {"", ""},
    {"f", "Zg=="},
    {"fo", "Zm8="},
    {"foo", "Zm9v"},
    {"foobar", "Zm9vYmFy"},
    {" padded ", "IHBhZGRlZCA="},
    {"Hello, 世界", "SGVsbG8sIOS4lueVjA=="},
    {"\xfb\xff\xfe", "+//+"},
};

static void encodes(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        char *text = tdg__base64_encode(pairs[i].plain, strlen(pairs[i].plain));

        assert_non_null(text);
        assert_string_equal(text, pairs[i].encoded);
        tdg__free(text);
    }
}

static void decodes(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        size_t len = 99;
        char *data;

        assert_int_equal(
            tdg__base64_decode(pairs[i].encoded, strlen(pairs[i].encoded), &data, &len),
            0);
        assert_int_equal(len, strlen(pairs[i].plain));
        assert_string_equal(data, pairs[i].plain);
        tdg__free(data);
    }
}

static void refuses_what_it_would_not_write(void **state) {
    static const char *const bad[] = {
        "Z",       "Zg",      "Zg=",         "Zm9",  "=",    "==",
        "====",    "Z===",    "Zg==Zg==",    "Zm=v", "=m9v", "Zm9v\n",
        "Zm9 ",    "Zm-_",    "Zm9v====",    "Zh==", /* bits that no byte has */
        "Zm9=",                                      /* the same */
        "Zm\x80v", "SGVsbG8", "SGVs!!!bG8=",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        char *data = NULL;
        size_t len;

        if (tdg__base64_decode(bad[i], strlen(bad[i]), &data, &len) != TDG_EINVAL)
            fail_msg("%s was taken", bad[i]);
        assert_null(data);
    }
}

static void gives_all_bytes_back(void **state) {
    char bytes[300];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7);
    for (size_t n = 0; n <= sizeof(bytes); n++) {
        char *text = tdg__base64_encode(bytes, n), *data;
        size_t len;

        assert_non_null(text);
        assert_int_equal(tdg__base64_decode(text, strlen(text), &data, &len), 0);
        assert_int_equal(len, n);
        assert_memory_equal(data, bytes, n);
        tdg__free(data);
        tdg__free(text);
    }
}

static void says_when_memory_is_out(void **state) {
    char *data = NULL;
    size_t len;

    (void)state;
    memory_fail(1, MEMORY_ONCE);
    assert_null(tdg__base64_encode("foo", 3));
    memory_fail(1, MEMORY_ONCE);
    assert_int_equal(tdg__base64_decode("Zm9v", 4, &data, &len), TDG_ENOMEM);
    assert_null(data);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        CASE(encodes),
        CASE(decodes),
        CASE(refuses_what_it_would_not_write),
        CASE(gives_all_bytes_back),
        CASE(says_when_memory_is_out),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
