/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <time.h>

#include "support.h"
#include "unit/source/http_page.h"
#include "unit/targets.h"

static const char *field(const struct reading *reading, const char *name) {
    return json_string_value(json_object_get(reading->metadata, name));
}

/* ---- When the server does not like it ----------------------------------- */

static void a_refusal_is_asked_again_at_the_interval(void **state) {
    struct fixture *f = *state;

    page_open(f, "every: 100ms\nheaders: {Authorization: secret-token}\n");
    page_set(f, (struct page){.status = "401 Unauthorized"});
    page_expect_failure(f, TDG_EINVAL, "401");
    harness_watch(&f->harness, PAGE);
    page_set(f, (struct page){.status = "403 Forbidden"});
    page_wait_asked(f, 4);
    page_expect_failure(f, TDG_EINVAL, "check `headers`");
    page_set(f, (struct page){.body = "welcome"});
    harness_wait_for_text(&f->harness, PAGE, "welcome");
    assert_int_equal(harness_count(&f->harness, LOGGED, "secret-token"), 0);
}

static void comes_back_after_an_error(void **state) {
    struct fixture *f = *state;

    page_open(f, "every: 100ms\nretry: 50ms\nretry-max: 200ms\n");
    page_set(f, (struct page){.body = "one", .etag = "\"a\""});
    harness_watch(&f->harness, PAGE);
    page_set(f, (struct page){.status = "500 Internal Server Error", .body = "oops"});
    harness_wait(&f->harness, LOGGED, "500");

    struct reading reading = harness_read(&f->harness, PAGE);

    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data, "one");
    assert_true(json_is_true(json_object_get(reading.metadata, "stale")));
    assert_non_null(strstr(field(&reading, "stale_reason"), "500"));
    reading_done(&reading);
    assert_int_equal(harness_count(&f->harness, CHANGED, NULL), 0);

    page_set(f, (struct page){.body = "one", .etag = "\"a\""});
    harness_wait(&f->harness, LOGGED, "reachable again");
    assert_int_equal(harness_count(&f->harness, CHANGED, NULL), 0);
    page_set(f, (struct page){.body = "two", .etag = "\"b\""});
    harness_wait_for_text(&f->harness, PAGE, "two");
}

static void the_wait_grows_while_it_is_away(void **state) {
    struct fixture *f = *state;

    page_open(f, "every: 100ms\nretry: 400ms\nretry-max: 1d\n");
    page_set(f, (struct page){.status = "500 Internal Server Error"});
    harness_watch(&f->harness, PAGE);
    page_wait_asked(f, 4);
    /* Waits of 400, 800 and 1,600 ms, each less its random half; never the interval. */
    assert_true(http_server_time(f->server, "/page", 3) -
                    http_server_time(f->server, "/page", 0) >=
                1000);
}

static void nobody_listens(void **state) {
    struct fixture *f = *state;
    http_server_t *gone = http_server_start();
    char yaml[128];

    snprintf(yaml, sizeof(yaml), "http: http://127.0.0.1:%d/\nuri: " PAGE "\n",
             http_server_port(gone));
    http_server_stop(gone);
    page_open_yaml(f, yaml);
    page_expect_failure(f, TDG_EUNREACHABLE, "cannot connect to 127.0.0.1 port ");
}

static void is_left_alone_as_long_as_it_asks(void **state) {
    struct fixture *f = *state;
    char header[128], date[64];
    time_t then;
    size_t count;
    int64_t gap;

    page_open(f, "every: 100ms\nretry: 20ms\nretry-max: 50ms\n");
    page_set(f, (struct page){.body = "one"});
    harness_watch(&f->harness, PAGE);

    page_set(f, (struct page){.status = "503 Service Unavailable",
                              .headers = "Retry-After: 2\r\n"});
    harness_wait(&f->harness, LOGGED, "503");
    count = http_server_count(f->server, "/page");

    struct reading reading = harness_read(&f->harness, PAGE);

    assert_int_equal(reading.status, 0); /* what was last seen */
    assert_true(json_is_true(json_object_get(reading.metadata, "stale")));
    reading_done(&reading);
    page_wait_asked(f, count + 1);
    gap = http_server_time(f->server, "/page", count) -
          http_server_time(f->server, "/page", count - 1);
    assert_in_range(gap, 1990, 30000);

    /* The same with a date, in full seconds. */
    then = time(NULL) + 4;
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", gmtime(&then));
    snprintf(header, sizeof(header), "Retry-After: %s\r\n", date);
    page_set(f, (struct page){.status = "429 Too Many Requests", .headers = header});
    count = http_server_count(f->server, "/page");
    page_wait_asked(f, count + 1);
    page_set(f, (struct page){.body = "two"});
    harness_wait(&f->harness, CHANGED, PAGE);
    assert_true(time(NULL) >= then - 1);
}

static void retry_after_0_is_no_reason_to_hurry(void **state) {
    struct fixture *f = *state;

    page_open(f, "every: 100ms\nretry: 300ms\n");
    page_set(f, (struct page){.status = "503 Service Unavailable",
                              .headers = "Retry-After: 0\r\n"});
    harness_watch(&f->harness, PAGE);
    page_wait_asked(f, 4);
    assert_true(http_server_time(f->server, "/page", 3) -
                    http_server_time(f->server, "/page", 0) >=
                800);
}

static void is_asked_again_after_a_day_at_last(void **state) {
    struct fixture *f = *state;

    page_open(f, "every: 100ms\nretry: 20ms\nretry-max: 50ms\n");
    page_set(f, (struct page){.status = "429 Too Many Requests",
                              .headers = "Retry-After: 99999999999\r\n"});
    harness_watch(&f->harness, PAGE);
    page_expect_failure(f, TDG_EUNREACHABLE, "another 86400 s");
    page_run_for(f, 500);
    assert_int_equal(http_server_count(f->server, "/page"), 1);
}

/* ---- When the server misbehaves ----------------------------------------- */

static void a_server_that_hangs_is_left(void **state) {
    struct fixture *f = *state;

    page_open(f, "timeout: 300ms\n");
    page_set(f, (struct page){.manner = HANG, .headers = "Content-Length: 5\r\n"});
    page_expect_failure(f, TDG_EUNREACHABLE, "within 300 ms");
    page_wait_open(f, 0);
}

static void a_server_that_drips_is_left(void **state) {
    struct fixture *f = *state;

    page_open(f, "timeout: 500ms\n");
    page_set(f, (struct page){.manner = DRIP, .headers = "Content-Length: 1000000\r\n"});
    page_expect_failure(f, TDG_EUNREACHABLE, "within 500 ms");
    page_wait_open(f, 0);
}

static void half_a_body_is_no_content(void **state) {
    struct fixture *f = *state;

    page_open(f, "");
    page_set(f, (struct page){
                    .manner = RAW, .headers = "Content-Length: 10\r\n", .body = "half"});
    page_expect_failure(f, TDG_EUNREACHABLE,
                        " closed the connection in the middle of its response");
    page_set(f, (struct page){.manner = RAW,
                              .headers = "Transfer-Encoding: chunked\r\n",
                              .body = "4\r\nhalf\r\n"});
    page_expect_failure(f, TDG_EUNREACHABLE,
                        " closed the connection in the middle of its response");
    page_set(f, (struct page){.manner = RAW,
                              .headers = "Transfer-Encoding: chunked\r\n",
                              .body = "4\r\nhalf\r\n0\r\n\r\n"});
    harness_expect(&f->harness, PAGE, "half");
}

static void too_much_is_not_read(void **state) {
    struct fixture *f = *state;
    char *large = calloc(1, 100001);

    page_open(f, "max-size: 100000\n");
    memset(large, 'x', 100000);
    page_set(f, (struct page){.body = large});
    harness_expect(&f->harness, PAGE, large);
    memset(large, 'x', 100001);
    page_set(f, (struct page){.body = large, .len = 100001});
    page_expect_failure(f, TDG_ETOOLARGE, "max-size");
    page_set(f, (struct page){.manner = FLOOD, .body = "endless "});
    page_expect_failure(f, TDG_ETOOLARGE, "max-size");
    page_set(f, (struct page){.manner = HANG,
                              .headers = "Content-Length: 9000000000\r\n",
                              .body = "a"});
    page_expect_failure(f, TDG_ETOOLARGE, "max-size"); /* without waiting for it */
    page_set(
        f, (struct page){.status = "404 Not Found", .manner = FLOOD, .body = "endless "});
    page_expect_failure(f, TDG_ENOTFOUND, "404");
    page_wait_open(f, 0);
    free(large);
}

/* Writes bits from the lowest on, as deflate wants it. */
static void put_bits(unsigned char *out, size_t *at, unsigned bits, unsigned count) {
    for (unsigned i = 0; i < count; i++, ++*at)
        out[*at / 8] |= (unsigned char)((bits >> i & 1) << *at % 8);
}

/* A gzip of one byte and then "the last byte 258 times", 13 bits for each 258. */
static void a_small_answer_that_unpacks_to_a_huge_one(void **state) {
    enum { TIMES = 200000 };
    struct fixture *f = *state;
    unsigned char *bomb = calloc(1, 32 + TIMES * 2);
    size_t at = 80;

    memcpy(bomb, "\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
    put_bits(bomb, &at, 1 | 1 << 1, 3); /* the last block, with the fixed codes */
    put_bits(bomb, &at, 0x0c, 8);       /* the byte 0: 00110000, from the highest bit */
    for (int i = 0; i < TIMES; i++) {
        put_bits(bomb, &at, 0xa3, 8); /* length 258: 11000101 */
        put_bits(bomb, &at, 0, 5);    /* distance 1 */
    }
    page_open(f, "max-size: 1MiB\n");
    page_set(f, (struct page){.body = (char *)bomb,
                              .len = at / 8,
                              .headers = "Content-Encoding: gzip\r\n"});
    page_expect_failure(f, TDG_ETOOLARGE, "max-size");
    free(bomb);
}

static void too_many_headers_end_it(void **state) {
    struct fixture *f = *state;
    size_t line = strlen("X-Flood: 0123456789\r\n"), count = 30000;
    char *headers = calloc(1, line * count + 1);

    for (size_t i = 0; i < count; i++)
        memcpy(headers + i * line, "X-Flood: 0123456789\r\n", line);
    page_open(f, "");
    page_set(f, (struct page){.headers = headers, .body = "x"});
    page_expect_failure(f, TDG_EUNREACHABLE, " are larger than 262144 bytes");
    free(headers);
}

static void what_is_no_http_is_no_answer(void **state) {
    struct fixture *f = *state;

    page_open(f, "timeout: 2s\n");
    page_set(f, (struct page){.status = "9999 \x01", .manner = RAW, .body = "x"});
    page_expect_failure(f, TDG_EUNREACHABLE, " does not speak HTTP");
}

static void closing_does_not_wait(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    page_open(f, "timeout: 1h\n");
    page_set(f, (struct page){.manner = HANG});
    harness_start_read(&f->harness, PAGE, &reading);
    page_wait_asked(f, 1);
    page_close(f);
    assert_true(reading.done);
    assert_int_equal(reading.status, TDG_EUNREACHABLE);
    reading_done(&reading);
}

static void watching_may_end_in_the_middle(void **state) {
    struct fixture *f = *state;
    struct reading reading;

    page_open(f, "every: 1h\ntimeout: 2s\n");
    page_set(f, (struct page){.body = "one", .etag = "\"a\""});
    harness_watch(&f->harness, PAGE);
    page_set(f, (struct page){.manner = HANG, .headers = "Content-Length: 9\r\n"});
    harness_start_read(&f->harness, PAGE, &reading);
    page_wait_asked(f, 2);
    tdg__source_unwatch(f->harness.source, FOR_URI(PAGE));
    page_close(f);
    assert_true(reading.done);
    reading_done(&reading);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PAGE_TEST(a_refusal_is_asked_again_at_the_interval),
        PAGE_TEST(comes_back_after_an_error),
        PAGE_TEST(the_wait_grows_while_it_is_away),
        PAGE_TEST(nobody_listens),
        PAGE_TEST(is_left_alone_as_long_as_it_asks),
        PAGE_TEST(retry_after_0_is_no_reason_to_hurry),
        PAGE_TEST(is_asked_again_after_a_day_at_last),
        PAGE_TEST(a_server_that_hangs_is_left),
        PAGE_TEST(a_server_that_drips_is_left),
        PAGE_TEST(half_a_body_is_no_content),
        PAGE_TEST(too_much_is_not_read),
        PAGE_TEST(a_small_answer_that_unpacks_to_a_huge_one),
        PAGE_TEST(too_many_headers_end_it),
        PAGE_TEST(what_is_no_http_is_no_answer),
        PAGE_TEST(closing_does_not_wait),
        PAGE_TEST(watching_may_end_in_the_middle),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("http_fault", tests, NULL, NULL);
}
