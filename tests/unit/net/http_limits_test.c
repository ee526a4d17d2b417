/* SPDX-License-Identifier: MIT
 *
 * What is exactly as long as allowed is read; a byte more is refused, before it is kept.
 */
#include <stdio.h>

#include "net/http_request.h"

#include "support.h"
#include "unit/net/http_fixture.h"

#define GET "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"

static void assert_status(const tdg__http_limits_t *limits, const char *bytes,
                          int status) {
    struct outcome outcome = http_read(limits, bytes, strlen(bytes));

    assert_int_equal(outcome.step, status == 0 ? TDG__HTTP_READY : TDG__HTTP_REFUSED);
    assert_int_equal(outcome.status, status);
    outcome_done(&outcome);
    assert_cuts_do_not_matter(limits, "limit", bytes, strlen(bytes));
}

static void a_head_may_be_as_long_as_the_limit(void **state) {
    tdg__http_limits_t limits = http_wide;

    (void)state;
    limits.max_header_bytes = strlen(GET);
    assert_status(&limits, GET, 0);
    assert_status(&limits, "\r\n\r\n" GET, 0); /* empty lines do not count */
    limits.max_header_bytes--;
    assert_status(&limits, GET, 431);
}

static void a_long_request_line_has_a_status_of_its_own(void **state) {
    tdg__http_limits_t limits = http_wide;

    (void)state;
    limits.max_header_bytes = strlen("GET / HTTP/1.1\r\n");
    assert_status(&limits, GET, 431);
    limits.max_header_bytes--;
    assert_status(&limits, GET, 414);
    limits.max_header_bytes = 0;
    assert_status(&limits, GET, 414);
}

/* What comes behind the limit is not looked at. */
static void the_limit_is_refused_before_what_is_behind_it(void **state) {
    tdg__http_limits_t limits = http_wide;

    (void)state;
    limits.max_header_bytes = 20;
    assert_status(&limits, "GET / HTTP/1.1\r\nB: c\x01\r\n", 431);
    limits.max_header_bytes = 21;
    assert_status(&limits, "GET / HTTP/1.1\r\nB: c\x01\r\n", 400);
}

static void there_may_be_as_many_fields_as_the_limit(void **state) {
    tdg__http_limits_t limits = http_wide;

    (void)state;
    limits.max_fields = 3;
    assert_status(&limits, "GET / HTTP/1.1\r\nHost: a\r\nB:\r\nC:\r\n\r\n", 0);
    assert_status(&limits, "GET / HTTP/1.1\r\nHost: a\r\nB:\r\nC:\r\nD:\r\n\r\n", 431);
}

static void a_body_may_be_as_long_as_the_limit(void **state) {
    tdg__http_limits_t limits = http_wide;

    (void)state;
    limits.max_body_bytes = 3;
    assert_status(&limits, POST "Content-Length: 3\r\n\r\nabc", 0);
    assert_status(&limits, POST "Content-Length: 4\r\n\r\n", 413);
    assert_status(&limits, POST "Content-Length: 18446744073709551615\r\n\r\n", 413);
    limits.max_body_bytes = 0;
    assert_status(&limits, POST "Content-Length: 0\r\n\r\n", 0);
    assert_status(&limits, POST "Content-Length: 1\r\n\r\n", 413);
}

#define CHUNKED POST "Transfer-Encoding: chunked\r\n\r\n"

static void chunks_together_may_be_as_long_as_the_limit(void **state) {
    tdg__http_limits_t limits = http_wide;

    (void)state;
    limits.max_body_bytes = 3;
    assert_status(&limits, CHUNKED "3\r\nabc\r\n0\r\n\r\n", 0);
    assert_status(&limits, CHUNKED "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 0);
    assert_status(&limits, CHUNKED "2\r\nab\r\n2", 413);
    assert_status(&limits, CHUNKED "4", 413);
    limits.max_body_bytes = 0;
    assert_status(&limits, CHUNKED "0\r\n\r\n", 0);
    assert_status(&limits, CHUNKED "1", 413);
}

/* Who asks first is not told to go on and then refused. */
static void a_body_that_is_too_long_is_not_asked_for(void **state) {
    static const char text[] = POST "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    tdg__http_limits_t limits = http_wide;
    struct outcome outcome;

    (void)state;
    limits.max_body_bytes = 3;
    outcome = http_read(&limits, text, strlen(text));
    assert_int_equal(outcome.status, 413);
    assert_int_equal(outcome.continues, 0);
}

static size_t by_path(void *user, const tdg__http_request_t *head) {
    assert_string_equal(user, "mine");
    return strcmp(head->path, "/") == 0 ? 3 : SIZE_MAX;
}

static void a_path_may_have_a_smaller_limit(void **state) {
    tdg__http_limits_t limits = http_wide;
    char mine[] = "mine";

    (void)state;
    limits.max_body_bytes = 5;
    limits.body_limit = by_path;
    limits.user = mine;
    assert_status(&limits, GET, 0);
    assert_status(&limits, POST "Content-Length: 3\r\n\r\nabc", 0);
    assert_status(&limits, POST "Content-Length: 4\r\n\r\n", 413);
    assert_status(&limits, CHUNKED "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 0);
    assert_status(&limits, CHUNKED "2\r\nab\r\n2", 413);
    assert_status(&limits,
                  "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde", 0);
    assert_status(&limits, "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\n",
                  413);
}

static void limits_may_be_as_large_as_numbers_go(void **state) {
    const tdg__http_limits_t limits = {SIZE_MAX, SIZE_MAX, SIZE_MAX, NULL, NULL};

    (void)state;
    assert_status(&limits, GET, 0);
    assert_status(&limits, CHUNKED "3\r\nabc\r\n0\r\n\r\n", 0);
    assert_status(&limits, CHUNKED "3\r\nabc\r\nffffffffffffffff", 413);
    assert_status(&limits, POST "Content-Length: 18446744073709551615\r\n\r\n", 413);
}

/* ---- Memory and work ---------------------------------------------------- */

static const tdg__http_limits_t large = {1 << 20, 1000, 8 << 20, NULL, NULL};

static void feed_times(tdg__http_reader_t *reader, const char *text, size_t times) {
    size_t len = strlen(text), used;

    for (size_t i = 0; i < times; i++) {
        tdg__http_step_t step = tdg__http_reader_feed(reader, text, len, &used);

        assert_true(step == TDG__HTTP_MORE || step == TDG__HTTP_HEADED);
        assert_int_equal(used, len);
    }
}

/* Who announces much and sends nothing costs nothing. */
static void memory_comes_with_the_bytes_not_with_the_promise(void **state) {
    tdg__http_reader_t *reader;
    size_t before;

    (void)state;
    assert_int_equal(tdg__http_reader_create(&large, &reader), 0);
    feed_times(reader, POST "Content-Length: 8388608\r\n\r\n", 1);
    before = memory_calls();
    feed_times(reader, "0123456789abcdef", 1 << 15); /* 512 KiB in 32,768 pieces */
    assert_true(memory_calls() - before < 16);       /* by doubling */
    tdg__http_reader_destroy(reader);
}

static void a_long_head_byte_by_byte_grows_by_doubling(void **state) {
    tdg__http_reader_t *reader;
    size_t before;

    (void)state;
    assert_int_equal(tdg__http_reader_create(&large, &reader), 0);
    feed_times(reader, POST "B: ", 1);
    before = memory_calls();
    feed_times(reader, "c", 500000);
    assert_true(memory_calls() - before < 16);
    tdg__http_reader_destroy(reader);
}

static void a_small_request_after_another_needs_no_new_memory(void **state) {
    tdg__http_reader_t *reader;
    size_t used, before = 0;

    (void)state;
    assert_int_equal(tdg__http_reader_create(&large, &reader), 0);
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            before = memory_calls();
        assert_int_equal(tdg__http_reader_feed(reader, GET, strlen(GET), &used),
                         TDG__HTTP_READY);
        tdg__http_reader_reset(reader);
    }
    assert_int_equal(memory_calls(), before);
    tdg__http_reader_destroy(reader);
}

static void a_reset_gives_large_buffers_back(void **state) {
    tdg__http_reader_t *reader;
    size_t fresh, live;

    (void)state;
    fresh = memory_live();
    assert_int_equal(tdg__http_reader_create(&large, &reader), 0);
    feed_times(reader, POST, 1);
    feed_times(reader, "B: 0123456789abcdef\r\n", 900);
    feed_times(reader, "Content-Length: 100000\r\n\r\n", 1);
    feed_times(reader, "0123456789abcdef", 1000);
    live = memory_live() - fresh;
    assert_int_equal(live, 4); /* the reader, head, fields and body */
    tdg__http_reader_reset(reader);
    assert_int_equal(memory_live() - fresh, 1);
    tdg__http_reader_destroy(reader);
}

static void one_allocation_makes_a_reader(void **state) {
    size_t before = memory_live();
    tdg__http_reader_t *reader;

    (void)state;
    assert_int_equal(tdg__http_reader_create(&large, &reader), 0);
    assert_int_equal(memory_live() - before, 1);
    tdg__http_reader_destroy(reader);
}

#define TEST(function)                                                                   \
    cmocka_unit_test_setup_teardown(function, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_head_may_be_as_long_as_the_limit),
        TEST(a_long_request_line_has_a_status_of_its_own),
        TEST(the_limit_is_refused_before_what_is_behind_it),
        TEST(there_may_be_as_many_fields_as_the_limit),
        TEST(a_body_may_be_as_long_as_the_limit),
        TEST(chunks_together_may_be_as_long_as_the_limit),
        TEST(a_body_that_is_too_long_is_not_asked_for),
        TEST(a_path_may_have_a_smaller_limit),
        TEST(limits_may_be_as_large_as_numbers_go),
        TEST(memory_comes_with_the_bytes_not_with_the_promise),
        TEST(a_long_head_byte_by_byte_grows_by_doubling),
        TEST(a_small_request_after_another_needs_no_new_memory),
        TEST(a_reset_gives_large_buffers_back),
        TEST(one_allocation_makes_a_reader),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("http_limits", tests, NULL, NULL);
}
