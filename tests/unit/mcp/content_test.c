/* SPDX-License-Identifier: MIT */
#include "mcp/content.h"

#include <jansson.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "support.h"

/* As jansson reads it back: {"text": …} or {"blob": …}. */
static json_t *read_back(const tdg__buf_t *member) {
    char *text = malloc(member->len + 3);
    json_t *value;

    assert_non_null(text);
    sprintf(text, "{%s}", member->data);
    value = json_loads(text, 0, NULL);
    free(text);
    assert_non_null(value);
    return value;
}

static void text_comes_back_as_it_was(void **state) {
    static const char *const rows[] = {
        "",
        "plain",
        "\"quoted\" \\ and\nlines\t\r\b\f",
        "\x01\x1f\x7f",
        "grüße \xf0\x9f\x8e\x88 /",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        tdg__buf_t *member = tdg__content_member(rows[i], strlen(rows[i]));
        json_t *value = read_back(member);

        assert_true(tdg__content_member_is_text(member));
        assert_int_equal(strlen(member->data), member->len);
        assert_string_equal(json_string_value(json_object_get(value, "text")), rows[i]);
        json_decref(value);
        tdg__buf_unref(member);
    }
}

static void anything_else_is_a_blob(void **state) {
    static const struct {
        const char *data;
        size_t len;
    } rows[] = {
        {"a\0b", 3},
        {"\xff", 1},
        {"ab\xc3", 3},
        {"\xc0\xaf!", 3},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        tdg__buf_t *member = tdg__content_member(rows[i].data, rows[i].len);
        json_t *value = read_back(member);
        const char *blob = json_string_value(json_object_get(value, "blob"));
        char *bytes;
        size_t len;

        assert_false(tdg__content_member_is_text(member));
        assert_int_equal(tdg__base64_decode(blob, strlen(blob), &bytes, &len), 0);
        assert_int_equal(len, rows[i].len);
        assert_memory_equal(bytes, rows[i].data, len);
        tdg__free(bytes);
        json_decref(value);
        tdg__buf_unref(member);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_comes_back_as_it_was, memory_setup,
                                        memory_teardown),
        cmocka_unit_test_setup_teardown(anything_else_is_a_blob, memory_setup,
                                        memory_teardown),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("content", tests, NULL, NULL);
}
