/* SPDX-License-Identifier: MIT */
#include "ask/body.h"
#include "support.h"

/* Whatever the contents are, they give these bytes. */
static void gives(const char *contents, const char *data, size_t len, bool is_text,
                  const char *mime_type) {
    json_t *json = json_from(contents);
    body_t body;

    assert_int_equal(body_init(&body, json), 0);
    assert_int_equal(body.len, len);
    assert_memory_equal(body.data, data, len + 1);
    assert_int_equal(body.is_text, is_text);
    assert_string_equal(body.mime_type, mime_type);
    body_done(&body);
    json_decref(json);
}

static void a_text_is_its_bytes(void **state) {
    (void)state;
    gives("[{'uri': 'a:1', 'text': 'hello', 'mimeType': 'text/plain'}]", "hello", 5, true,
          "text/plain");
    gives("[{'uri': 'a:1', 'text': ''}]", "", 0, true, "");
}

static void a_blob_is_decoded(void **state) {
    (void)state;
    gives("[{'uri': 'a:1', 'blob': 'AAEC', 'mimeType': 'image/png'}]", "\0\1\2", 3, false,
          "image/png");
    gives("[{'uri': 'a:1', 'blob': ''}]", "", 0, false, "");
}

static void parts_are_joined(void **state) {
    (void)state;
    gives("[{'text': 'a\\n', 'mimeType': 'text/x'}, {'text': 'b'}]", "a\nb", 3, true,
          "text/x");
    gives("[{'text': 'a'}, {'blob': 'Yg=='}]", "ab", 2, false, "");
}

static void what_has_nothing_in_it_is_empty(void **state) {
    (void)state;
    gives(NULL, "", 0, true, "");
    gives("[]", "", 0, true, "");
    gives("{}", "", 0, true, "");
    gives("[3, {'text': 4, 'mimeType': 5}]", "", 0, false, "");
}

static void a_blob_that_is_none_is_refused(void **state) {
    json_t *json = json_from("[{'blob': 'no base64'}]");
    body_t body;

    (void)state;
    assert_int_equal(body_init(&body, json), TDG_EINVAL);
    assert_int_equal(body.len, 0);
    assert_string_equal(body.data, "");
    body_done(&body);
    json_decref(json);
}

static void survives_a_lack_of_memory(void **state) {
    json_t *json = json_from("[{'text': 'a'}, {'blob': 'Yg=='}]");
    int rv = TDG_ENOMEM;

    (void)state;
    for (size_t nth = 1; rv < 0; nth++) {
        body_t body;

        assert_true(nth < 20);
        memory_fail(nth, MEMORY_ONCE);
        rv = body_init(&body, json);
        memory_fail(0, MEMORY_ONCE);
        assert_true(rv == 0 || rv == TDG_ENOMEM);
        body_done(&body);
    }
    json_decref(json);
}

int main(void) {
#define CASE(test) cmocka_unit_test_setup_teardown(test, memory_setup, memory_teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_text_is_its_bytes),
        CASE(a_blob_is_decoded),
        CASE(parts_are_joined),
        CASE(what_has_nothing_in_it_is_empty),
        CASE(a_blob_that_is_none_is_refused),
        CASE(survives_a_lack_of_memory),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("body", tests, NULL, NULL);
}
