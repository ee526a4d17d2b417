/* SPDX-License-Identifier: MIT */
#include "net/http_request.h"

#include <stdio.h>

#include "support.h"
#include "unit/net/http_fixture.h"

struct fixture {
    tdg__http_reader_t *reader;
};

static int setup(void **state) {
    struct fixture *f = state_create(state, sizeof(*f));

    return tdg__http_reader_create(&http_wide, &f->reader);
}

static int teardown(void **state) {
    struct fixture *f = *state;

    tdg__http_reader_destroy(f->reader);
    return state_destroy(state);
}

/* Feeds text, in which "|" is CR LF, in one piece. */
static struct outcome feed(struct fixture *f, const char *text) {
    char *bytes = http_wire(text);
    struct outcome outcome = http_feed(f->reader, bytes, strlen(bytes), SIZE_MAX, 1);

    free(bytes);
    return outcome;
}

/* The request that the text is, and nothing is left over. */
static const tdg__http_request_t *read_all(struct fixture *f, const char *text) {
    char *bytes = http_wire(text);
    struct outcome outcome;

    tdg__http_reader_reset(f->reader);
    outcome = feed(f, text);
    if (outcome.step != TDG__HTTP_READY || outcome.used != strlen(bytes))
        fail_msg("%s: step %d, status %d: %s", text, (int)outcome.step, outcome.status,
                 outcome.reason);
    outcome_done(&outcome);
    free(bytes);
    return tdg__http_reader_request(f->reader);
}

/* ---- What is accepted --------------------------------------------------- */

struct accepted {
    const char *text;
    const char *expected; /* as http_text() tells it */
};

static const struct accepted heads[] = {
    {"GET / HTTP/1.1|Host:a||", "GET /? 1.1|host=a|"},
    {"GET / HTTP/1.0|Host: a||", "GET /? 1.0 close|host=a|"},
    {"GET /a/%20b?c=d?e HTTP/1.1|Host: a||", "GET /a/%20b?c=d?e 1.1|host=a|"},
    {"GET /? HTTP/1.1|Host: a||", "GET /? 1.1|host=a|"},
    {"GET //a HTTP/1.1|Host: a||", "GET //a? 1.1|host=a|"},
    {"GET /http://b/ HTTP/1.1|Host: a||", "GET /http://b/? 1.1|host=a|"},
    {"GET /\"<\\^`>~ HTTP/1.1|Host: a||", "GET /\"<\\^`>~? 1.1|host=a|"},
    {"OPTIONS * HTTP/1.1|Host: a||", "OPTIONS *? 1.1|host=a|"},
    {"OPTIONS /* HTTP/1.1|Host: a||", "OPTIONS /*? 1.1|host=a|"},
    {"||GET / HTTP/1.1|Host: a||", "GET /? 1.1|host=a|"},
    {"||||||||GET / HTTP/1.1|Host: a||", "GET /? 1.1|host=a|"},
    {"GET / HTTP/1.1|Host:   [::1]:80  ||", "GET /? 1.1|host=[::1]:80|"},
    {"GET / HTTP/1.1|B: \t c  d \t|Host: a||", "GET /? 1.1|b=c  d|host=a|"},
    {"GET / HTTP/1.1|B:|Host: a|C: \t|D:||", "GET /? 1.1|b=|host=a|c=|d=|"},
    {"GET / HTTP/1.1|Host: a|B: c:d:||", "GET /? 1.1|host=a|b=c:d:|"},
    {"GET / HTTP/1.1|Host: a|B: \xc3\xa4\xff||", "GET /? 1.1|host=a|b=\xc3\xa4\xff|"},
    {"GET / HTTP/1.1|Host: a|!#$%&'*+-.^_`~Z9:b||",
     "GET /? 1.1|host=a|!#$%&'*+-.^_`~z9=b|"},
    {"GET / HTTP/1.1|Host: a|B: c|b: d||", "GET /? 1.1|host=a|b=c|b=d|"},
    {"GET / HTTP/1.1|Host: a|Mcp-B: c|Mcp-D: e||", "GET /? 1.1|host=a|mcp-b=c|mcp-d=e|"},
    {"POST / HTTP/1.1|Host: a||", "POST /? 1.1|host=a|"},
};

/* What follows Host in a POST, and its body. */
static const struct accepted bodies[] = {
    {"Content-Length: 3||b\nc", "b\\0ac"},
    {"Content-Length: 4||b|c", "b|c"},
    {"Content-Length:0003  ||bcd", "bcd"},
    {"Content-Length: 0||", ""},
    {"Transfer-Encoding: chunked||3|b||A|0123456789|0||", "b|0123456789"},
    {"transfer-encoding:  CHUNKED ||0000000000000001|b|00||", "b"},
    {"Transfer-Encoding: chunked||1|b|1|c|1|d|0||", "bcd"},
    {"Transfer-Encoding: chunked||3|\n0\r|0||", "\\0a0\\0d"},
    {"Transfer-Encoding: chunked||0||", ""},
    {"Connection: Upgrade|Upgrade: h2c||", ""},
    {"Connection: Upgrade|Upgrade: h2c|Content-Length: 2||bc", "bc"},
    {"Connection: upgrade|Upgrade: b|Transfer-Encoding:chunked||1|b|0||", "b"},
    {"Connection: close|Content-Length: 1||b", "b"},
    {"Expect: 100-Continue|Content-Length: 1||b", "b"},
    {"Expect: 100-continue|Transfer-Encoding: chunked||1|b|0||", "b"},
};

static const size_t good_count = COUNT(heads) + COUNT(bodies);

/* Every accepted request, as text; borrowed until the next call. */
static const char *good(size_t i) {
    static char text[256];

    if (i < COUNT(heads))
        return heads[i].text;
    assert_in_range(snprintf(text, sizeof(text), "POST / HTTP/1.1|Host: a|%s",
                             bodies[i - COUNT(heads)].text),
                    1, sizeof(text) - 1);
    return text;
}

static void assert_text(const tdg__http_request_t *request, const char *expected) {
    char *text = http_text(request);

    assert_string_equal(text, expected);
    free(text);
}

static void heads_are_taken_apart(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(heads); i++)
        assert_text(read_all(f, heads[i].text), heads[i].expected);
}

static void bodies_are_put_together(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(bodies); i++) {
        tdg__http_request_t body = *read_all(f, good(COUNT(heads) + i));
        char expected[64];

        assert_int_equal(body.method, TDG__HTTP_POST);
        body.field_count = 0;
        snprintf(expected, sizeof(expected), "POST /? 1.1%s|%s",
                 body.keep_alive ? "" : " close", bodies[i].expected);
        assert_text(&body, expected);
    }
}

static void good_requests_may_come_in_any_pieces(void **state) {
    (void)state;
    for (size_t i = 0; i < good_count; i++) {
        char *bytes = http_wire(good(i));

        assert_cuts_do_not_matter(&http_wide, good(i), bytes, strlen(bytes));
        free(bytes);
    }
}

static void methods_are_told_apart(void **state) {
    static const struct {
        const char *name;
        tdg__http_method_t method;
    } methods[] = {
        {"DELETE", TDG__HTTP_DELETE},  {"GET", TDG__HTTP_GET},
        {"HEAD", TDG__HTTP_HEAD},      {"OPTIONS", TDG__HTTP_OPTIONS},
        {"POST", TDG__HTTP_POST},      {"PUT", TDG__HTTP_PUT},
        {"PATCH", TDG__HTTP_OTHER},    {"TRACE", TDG__HTTP_OTHER},
        {"M-SEARCH", TDG__HTTP_OTHER},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(methods); i++) {
        char text[64];

        snprintf(text, sizeof(text), "%s / HTTP/1.1|Host: a|Content-Length: 1||b",
                 methods[i].name);
        assert_int_equal(read_all(f, text)->method, methods[i].method);
        assert_int_equal(read_all(f, text)->body_len, 1); /* whatever the method */
    }
}

/* How often a field of that name is there. */
static size_t field_times(const tdg__http_request_t *request, const char *name) {
    size_t times = 0;

    for (size_t i = 0; i < request->field_count; i++)
        times += strcmp(request->fields[i].name, name) == 0;
    return times;
}

static void fields_are_found_by_name_and_counted(void **state) {
    struct fixture *f = *state;
    const tdg__http_request_t *request =
        read_all(f, "GET / HTTP/1.1|Host: a|Accept: b|ACCEPT: c|D:||");

    assert_int_equal(request->field_count, 4);
    assert_string_equal(tdg__http_field(request, "host"), "a");
    assert_string_equal(tdg__http_field(request, "accept"), "b");
    assert_string_equal(tdg__http_field(request, "d"), "");
    assert_null(tdg__http_field(request, "accep"));
    assert_int_equal(field_times(request, "accept"), 2);
    assert_int_equal(field_times(request, "d"), 1);
    assert_int_equal(field_times(request, "e"), 0);
}

static void the_client_decides_whether_to_go_on(void **state) {
    static const struct {
        const char *text; /* after HTTP/1. */
        bool keep_alive;
    } cases[] = {
        {"1|Host: a||", true},
        {"1|Host: a|Connection: keep-alive||", true},
        {"1|Host: a|Connection:||", true},
        {"1|Host: a|Connection: closed||", true},
        {"1|Host: a|Connection: clos||", true},
        {"1|Host: a|Connection: x-close||", true},
        {"1|Host: a|Connection: close||", false},
        {"1|Host: a|Connection: \tCLOSE \t||", false},
        {"1|Host: a|Connection: te, close||", false},
        {"1|Host: a|Connection: , ,close,te||", false},
        {"1|Host: a|Connection: te|Connection: close||", false},
        {"0|Host: a||", false},
        {"0|Host: a|Connection: te||", false},
        {"0|Host: a|Connection: Keep-Alive||", true},
        {"0|Host: a|Connection: keep-alive,close||", false},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[96];

        snprintf(text, sizeof(text), "GET / HTTP/1.%s", cases[i].text);
        if (read_all(f, text)->keep_alive != cases[i].keep_alive)
            fail_msg("%s", text);
    }
}

static void a_body_may_hold_any_byte_and_ends_in_a_nul(void **state) {
    struct fixture *f = *state;
    char *head = http_wire("POST / HTTP/1.1|Host: a|Content-Length: 256||"), body[256];
    const tdg__http_request_t *request;
    size_t used;

    for (int i = 0; i < 256; i++)
        body[i] = (char)i;
    assert_int_equal(tdg__http_reader_feed(f->reader, head, strlen(head), &used),
                     TDG__HTTP_HEADED);
    assert_false(tdg__http_reader_expects(f->reader));
    assert_int_equal(tdg__http_reader_request(f->reader)->method, TDG__HTTP_POST);
    assert_int_equal(tdg__http_reader_feed(f->reader, body, sizeof(body), &used),
                     TDG__HTTP_READY);
    request = tdg__http_reader_request(f->reader);
    assert_int_equal(request->body_len, sizeof(body));
    assert_memory_equal(request->body, body, sizeof(body));
    assert_int_equal(request->body[sizeof(body)], '\0');
    free(head);
}

static void no_body_is_an_empty_one(void **state) {
    struct fixture *f = *state;

    assert_string_equal(read_all(f, "GET / HTTP/1.1|Host: a||")->body, "");
}

/* Written down again and read again, a request is the same request. */
static void what_is_accepted_has_one_meaning(void **state) {
    struct fixture *f = *state;

    for (size_t i = 0; i < good_count; i++) {
        tdg__http_request_t request = *read_all(f, good(i));
        size_t len;
        char *bytes = http_bytes(&request, &len), *text = http_text(&request);
        struct outcome again = http_read(&http_wide, bytes, len);

        assert_int_equal(again.step, TDG__HTTP_READY);
        assert_int_equal(again.used, len);
        if (tdg__http_field(&request, "transfer-encoding") == NULL)
            assert_string_equal(again.text, text);
        else /* the length is said in another way, the body is the same */
            assert_string_equal(strrchr(again.text, '|'), strrchr(text, '|'));
        outcome_done(&again);
        free(text);
        free(bytes);
    }
}

/* ---- One after the other ------------------------------------------------ */

static void pipelined_requests_come_one_by_one(void **state) {
    struct fixture *f = *state;
    char text[8192] = "", *bytes;
    size_t at = 0;

    for (size_t i = 0; i < good_count; i++) {
        assert_true(strlen(text) + strlen(good(i)) < sizeof(text));
        strcat(text, good(i));
    }
    bytes = http_wire(text);

    for (size_t i = 0; i < good_count; i++) {
        char *alone = http_wire(good(i));
        struct outcome expected = http_read(&http_wide, alone, strlen(alone));
        struct outcome is =
            http_feed(f->reader, bytes + at, strlen(bytes + at), SIZE_MAX, 1);

        assert_int_equal(is.step, TDG__HTTP_READY);
        assert_same_outcome(good(i), &is, &expected);
        at += is.used;
        outcome_done(&is);
        outcome_done(&expected);
        free(alone);
        tdg__http_reader_reset(f->reader);
    }
    assert_int_equal(at, strlen(bytes));
    free(bytes);
}

static void nothing_is_taken_between_the_end_and_the_reset(void **state) {
    struct fixture *f = *state;
    size_t used = 9;

    read_all(f, "GET /a HTTP/1.1|Host: a||");
    assert_int_equal(tdg__http_reader_feed(f->reader, "GET", 3, &used), TDG__HTTP_READY);
    assert_int_equal(used, 0);
    assert_string_equal(tdg__http_reader_request(f->reader)->path, "/a");

    tdg__http_reader_reset(f->reader);
    assert_int_equal(tdg__http_reader_feed(f->reader, "\n", 1, &used), TDG__HTTP_REFUSED);
    used = 9;
    assert_int_equal(tdg__http_reader_feed(f->reader, "GET", 3, &used),
                     TDG__HTTP_REFUSED);
    assert_int_equal(used, 0);
    assert_int_equal(tdg__http_reader_status(f->reader), 400);
}

static void a_reset_reader_is_like_a_new_one(void **state) {
    static const char *const before[] = {
        "POST / HTTP/1.1|Host: a|Content-Length: 9||abc",
        "POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked||5|ab",
        "POST / HTTP/1.1|Host: a|Expect: 100-continue|Content-Length: 9||",
        "POST / HTTP/1.1|Host: a|Expect: coffee||",
        "GET / HTTP/1.1|Host: a\r",
        "GET / HTTP/1.1|Host: a\n",
        "GET / HTTP/1.1|Host: a|Mcp-Name: a|Mcp-Name: a||",
        "||||||||",
        "GET /",
        "",
    };
    struct fixture *f = *state;

    for (size_t b = 0; b < COUNT(before); b++)
        for (size_t i = 0; i < good_count; i++) {
            char *bytes = http_wire(good(i));
            struct outcome expected = http_read(&http_wide, bytes, strlen(bytes)), is;

            tdg__http_reader_reset(f->reader);
            assert_int_not_equal(feed(f, before[b]).step, TDG__HTTP_READY);
            tdg__http_reader_reset(f->reader);
            is = feed(f, good(i));
            assert_same_outcome(good(i), &is, &expected);
            outcome_done(&is);
            outcome_done(&expected);
            free(bytes);
        }
}

static void a_request_has_begun_with_its_first_byte(void **state) {
    struct fixture *f = *state;

    assert_false(tdg__http_reader_begun(f->reader));
    assert_int_equal(feed(f, "|\r").step, TDG__HTTP_MORE);
    assert_false(tdg__http_reader_begun(f->reader));
    assert_int_equal(feed(f, "\n").step, TDG__HTTP_MORE);
    assert_false(tdg__http_reader_begun(f->reader));
    assert_int_equal(feed(f, "G").step, TDG__HTTP_MORE);
    assert_true(tdg__http_reader_begun(f->reader));
    read_all(f, "GET / HTTP/1.1|Host: a||");
    assert_true(tdg__http_reader_begun(f->reader));
    tdg__http_reader_reset(f->reader);
    assert_false(tdg__http_reader_begun(f->reader));
}

/* ---- 100 Continue ------------------------------------------------------- */

static void the_client_is_asked_to_continue_once_and_only_for_a_body(void **state) {
    static const struct {
        const char *text; /* after HTTP/1. */
        unsigned continues;
    } cases[] = {
        {"1|Host: a|Expect: 100-continue|Content-Length: 1||b", 1},
        {"1|Host: a|Expect: 100-continue|Transfer-Encoding: chunked||1|b|0||", 1},
        {"1|Host: a|Expect: 100-continue|Transfer-Encoding: chunked||0||", 1},
        {"1|Host: a|Expect: 100-continue|Content-Length: 0||", 0},
        {"1|Host: a|Expect: 100-continue, 100-continue|Content-Length: 1||b", 1},
        {"1|Host: a|Expect: , 100-Continue\t,|Content-Length: 1||b", 1},
        {"1|Host: a|Expect:\t100-continue|Content-Length: 1||b", 1},
        {"1|Host: a|Expect:|Content-Length: 1||b", 0},
        {"1|Host: a|Expect: ,\t, |Content-Length: 1||b", 0},
        {"1|Host: a|Expect: 100-continue||", 0},
        {"0|Host: a|Expect: 100-continue|Content-Length: 1||b", 0},
        {"1|Host: a|Content-Length: 1||b", 0},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct outcome outcome;
        char text[128];

        snprintf(text, sizeof(text), "POST / HTTP/1.%s", cases[i].text);
        tdg__http_reader_reset(f->reader);
        outcome = feed(f, text);
        assert_int_equal(outcome.step, TDG__HTTP_READY);
        assert_int_equal(outcome.continues, cases[i].continues);
        outcome_done(&outcome);
    }
}

static void continue_comes_right_after_the_head(void **state) {
    struct fixture *f = *state;
    char *bytes =
        http_wire("POST / HTTP/1.1|Host: a|Expect: 100-continue|Content-Length: 2||bcd");
    size_t head = strlen(bytes) - 3, used;

    assert_int_equal(tdg__http_reader_feed(f->reader, bytes, head + 3, &used),
                     TDG__HTTP_HEADED);
    assert_true(tdg__http_reader_expects(f->reader));
    assert_int_equal(used, head);
    assert_int_equal(tdg__http_reader_feed(f->reader, "", 0, &used), TDG__HTTP_MORE);
    assert_int_equal(tdg__http_reader_feed(f->reader, "b", 1, &used), TDG__HTTP_MORE);
    assert_int_equal(tdg__http_reader_feed(f->reader, "cd", 2, &used), TDG__HTTP_READY);
    assert_int_equal(used, 1);
    assert_string_equal(tdg__http_reader_request(f->reader)->body, "bc");
    free(bytes);
}

/* ---- Memory ------------------------------------------------------------- */

/* Fails the n-th allocation. Returns whether there was one. */
static bool read_with_failure(const char *bytes, size_t len, size_t nth) {
    tdg__http_reader_t *reader = NULL;
    struct outcome outcome;
    bool failed;

    memory_fail(nth, MEMORY_ONCE);
    if (tdg__http_reader_create(&http_wide, &reader) == TDG_ENOMEM) {
        assert_null(reader);
        return true;
    }

    outcome = http_feed(reader, bytes, len, 100, 100);
    failed = memory_failed();
    assert_int_equal(outcome.step, failed ? TDG__HTTP_REFUSED : TDG__HTTP_READY);
    assert_int_equal(outcome.status, failed ? 500 : 0);
    outcome_done(&outcome);

    memory_fail(0, MEMORY_ONCE);
    tdg__http_reader_reset(reader);
    outcome = http_feed(reader, bytes, len, 100, 100);
    assert_int_equal(outcome.step, TDG__HTTP_READY);
    outcome_done(&outcome);
    tdg__http_reader_destroy(reader);
    return failed;
}

static void every_failed_allocation_is_a_refusal_and_no_more(void **state) {
    char text[2048], *bytes;
    size_t nth = 1;

    (void)state;
    snprintf(text, sizeof(text),
             "POST / HTTP/1.1|Host: a|B: %0600d|Transfer-Encoding: chunked||"
             "300|%0768d|0||",
             1, 2);
    bytes = http_wire(text);
    while (read_with_failure(bytes, strlen(bytes), nth))
        nth++;
    assert_int_equal(nth - 1, 6); /* the reader, the head twice, fields, the body twice */
    free(bytes);
}

static void nobody_is_destroyed_without_harm(void **state) {
    (void)state;
    tdg__http_reader_destroy(NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(heads_are_taken_apart),
        TEST(bodies_are_put_together),
        TEST(good_requests_may_come_in_any_pieces),
        TEST(methods_are_told_apart),
        TEST(fields_are_found_by_name_and_counted),
        TEST(the_client_decides_whether_to_go_on),
        TEST(a_body_may_hold_any_byte_and_ends_in_a_nul),
        TEST(no_body_is_an_empty_one),
        TEST(what_is_accepted_has_one_meaning),
        TEST(pipelined_requests_come_one_by_one),
        TEST(nothing_is_taken_between_the_end_and_the_reset),
        TEST(a_reset_reader_is_like_a_new_one),
        TEST(a_request_has_begun_with_its_first_byte),
        TEST(the_client_is_asked_to_continue_once_and_only_for_a_body),
        TEST(continue_comes_right_after_the_head),
        TEST(every_failed_allocation_is_a_refusal_and_no_more),
        TEST(nobody_is_destroyed_without_harm),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("http_reader", tests, NULL, NULL);
}
