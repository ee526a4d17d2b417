/* SPDX-License-Identifier: MIT */
#include "net/http_guard.h"

#include <stdio.h>

#include "support.h"
#include "unit/net/http_fixture.h"

/* ---- What is refused ---------------------------------------------------- */

struct refused {
    const char *text; /* "|" is CR LF */
    int status;
    const char *reason; /* a part of it */
};

/* The texts come after `before`. */
static void assert_refused(const char *before, const struct refused *cases,
                           size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct refused *c = &cases[i];
        char text[256], *bytes;
        struct outcome outcome;

        assert_in_range(snprintf(text, sizeof(text), "%s%s", before, c->text), 1, 255);
        bytes = http_wire(text);
        outcome = http_read(&http_wide, bytes, strlen(bytes));
        if (outcome.step != TDG__HTTP_REFUSED || outcome.status != c->status ||
            strstr(outcome.reason, c->reason) == NULL)
            fail_msg("%s: step %d, status %d: %s", text, (int)outcome.step,
                     outcome.status, outcome.reason);
        outcome_done(&outcome);
        assert_cuts_do_not_matter(&http_wide, text, bytes, strlen(bytes));
        free(bytes);
    }
}

static void lines_end_in_cr_lf_and_hold_no_control_characters(void **state) {
    static const struct refused cases[] = {
        {"GET / HTTP/1.1\nHost: a||", 400, "line feed"},
        {"GET / HTTP/1.1|Host: a\nB: c||", 400, "line feed"},
        {"GET / HTTP/1.1|Host: a|\n", 400, "line feed"},
        {"\nGET / HTTP/1.1|Host: a||", 400, "line feed"},
        {"GET / HTTP/1.1\rHost: a||", 400, "carriage"},
        {"GET / HTTP/1.1|Host: a\rb||", 400, "carriage"},
        {"GET / HTTP/1.1|Ho\rst: a||", 400, "carriage"},
        {"GET / HTTP/1.1|Host: a\r||", 400, "carriage"},
        {"GET / HTTP/1.1|Host: a|\rB: c|", 400, "carriage"},
        {"\rGET / HTTP/1.1|Host: a||", 400, "carriage"},
        {"GET / HTTP/1.1|Host: a|B: \x1b", 400, "control"},
        {"GET / HTTP/1.1|Host: a|B: \x7f", 400, "control"},
        {"GET / HTTP/1.1|Host:\fa||", 400, "control"},
        {"\x16\x03\x01\x02", 400, "control"}, /* TLS */
        {"GET / HTTP/1.1|Host: a| b|", 400, "starts with"},
        {"GET / HTTP/1.1|Host: a|\tb|", 400, "starts with"},
        {"GET / HTTP/1.1| Host: a||", 400, "starts with"},
        {"GET / HTTP/1.1|Host: a| |", 400, "starts with"},
        {"|||||||||", 400, "empty lines"},
    };

    (void)state;
    assert_refused("", cases, COUNT(cases));
}

static void names_are_tokens_up_to_the_colon(void **state) {
    static const struct refused cases[] = {
        {": b||", 400, "name"},
        {"B c: d||", 400, "name"},
        {"B : d||", 400, "name"},
        {"B\t: d||", 400, "name"},
        {"Content-Length : 1||x", 400, "name"},
        {"B(c): d||", 400, "name"},
        {"\"B\": d||", 400, "name"},
        {"B/c: d||", 400, "name"},
        {"B@c: d||", 400, "name"},
        {"B\xc3\xa4: d||", 400, "name"},
        {"Bcd||", 400, "no colon"},
    };

    (void)state;
    assert_refused("GET / HTTP/1.1|Host: a|", cases, COUNT(cases));
}

static void the_request_line_has_one_shape(void **state) {
    static const struct refused cases[] = {
        {"GET /|", 400, "request line"}, /* HTTP/0.9 */
        {"GET|", 400, "request line"},
        {" GET / HTTP/1.1|", 400, "request line"},
        {"GET  / HTTP/1.1|", 400, "request line"},
        {"GET /  HTTP/1.1|", 400, "request line"},
        {"GET / HTTP/1.1 |", 400, "request line"},
        {"GET\t/\tHTTP/1.1|", 400, "request line"},
        {"GET / HTTP/1.1\t|", 400, "request line"},
        {"GET /a b HTTP/1.1|", 400, "request line"},
        {"GE(T / HTTP/1.1|", 400, "request line"},
        {"G\xc3\x8aT / HTTP/1.1|", 400, "request line"},
        {"GET / http/1.1|", 400, "request line"},
        {"SOURCE / ICE/1.0|", 400, "request line"},
        {"GET / HTTP/1|", 400, "request line"},
        {"GET / HTTP/1.10|", 400, "request line"},
        {"GET / HTTP/1.x|", 400, "request line"},
        {"GET / HTTP/x.1|", 400, "request line"},
        {"GET / HTTP/1_1|", 400, "request line"},
        {"GET  HTTP/1.1|", 400, "target"},
        {"GET / HTTP/x.y|", 400, "request line"},
        {"GET / HTTP/0.9|", 505, "HTTP/1.1"},
        {"GET / HTTP/1.2|", 505, "HTTP/1.1"},
        {"GET / HTTP/2.0|", 505, "HTTP/1.1"},
        {"PRI * HTTP/2.0||SM||", 505, "HTTP/1.1"},
        {"BREW / HTTP/1.1|Host: a||", 501, "method"},
        {"get / HTTP/1.1|Host: a||", 501, "method"},
        {"GETS / HTTP/1.1|Host: a||", 501, "method"},
        {"PLAY / HTTP/1.1|Host: a||", 501, "method"}, /* RTSP */
    };

    (void)state;
    assert_refused("", cases, COUNT(cases));
}

static void the_target_is_a_path(void **state) {
    static const struct refused cases[] = {
        {"GET http://a/ HTTP/1.1|", 400, "target"},
        {"CONNECT a:80 HTTP/1.1|", 400, "target"},
        {"GET mcp HTTP/1.1|", 400, "target"},
        {"GET ?a HTTP/1.1|", 400, "target"},
        {"GET * HTTP/1.1|", 400, "target"},
        {"OPTIONS ** HTTP/1.1|", 400, "target"},
        {"OPTIONS *?a HTTP/1.1|", 400, "target"},
        {"GET /a#b HTTP/1.1|", 400, "target"},
        {"GET /a?b#c HTTP/1.1|", 400, "target"},
        {"GET /\xc3\xa4 HTTP/1.1|", 400, "target"},
        {"GET /a\tb HTTP/1.1|", 400, "target"},
        {"CONNECT / HTTP/1.1|Host: a||", 400, "target"},
        {"PRI / HTTP/1.1|Host: a||", 400, "target"},
    };

    (void)state;
    assert_refused("", cases, COUNT(cases));
}

static void the_length_is_one_number_and_the_only_one(void **state) {
    static const struct refused cases[] = {
        {"Content-Length: +1|", 400, "number"},
        {"Content-Length: -1|", 400, "number"},
        {"Content-Length:|", 400, "number"},
        {"Content-Length: 0x1|", 400, "number"},
        {"Content-Length: 1, 1|", 400, "number"},
        {"Content-Length: 1 1|", 400, "number"},
        {"Content-Length: 1.0|", 400, "number"},
        {"Content-Length: 1\t|", 400, "number"},
        {"Content-Length: 18446744073709551616|", 400, "number"},
        {"Content-Length: 99999999999999999999|", 400, "number"},
        {"Content-Length: 1|Content-Length: 1|", 400, "twice"},
        {"Content-Length: 1|cONTENT-lENGTH: 2|", 400, "twice"},
        {"Content-Length: 1|Transfer-Encoding: chunked||", 400, "both"},
        {"Transfer-Encoding: chunked|Content-Length: 1||", 400, "both"},
        {"Transfer-Encoding: gzip|Content-Length: 1||", 400, "both"},
        {"Content-Length: 0|Transfer-Encoding: identity||", 400, "both"},
    };

    (void)state;
    assert_refused("POST / HTTP/1.1|Host: a|", cases, COUNT(cases));
}

static void the_transfer_coding_is_chunked_and_nothing_else(void **state) {
    static const struct refused cases[] = {
        {"gzip||", 501, "chunked"},
        {"identity||", 501, "chunked"},
        {"||", 501, "chunked"},
        {"gzip, chunked||", 501, "chunked"},
        {"chunked, chunked||", 501, "chunked"},
        {"chunked, gzip||", 501, "chunked"},
        {"chunked,||", 501, "chunked"},
        {"xchunked||", 501, "chunked"},
        {"chunkedx||", 501, "chunked"},
        {"\"chunked\"||", 501, "chunked"},
        {"chunked;a=b||", 501, "chunked"},
        {"\tchunked||", 501, "chunked"},
        {"\vchunked||", 400, "control"},
        {"chunked|Transfer-Encoding: gzip|", 400, "twice"},
        {"chunked|Transfer-Encoding:|", 400, "twice"},
    };
    static const struct refused old[] = {
        {"chunked||", 400, "HTTP/1.0"},
        {"gzip||", 400, "HTTP/1.0"},
    };

    (void)state;
    assert_refused("POST / HTTP/1.1|Host: a|Transfer-Encoding: ", cases, COUNT(cases));
    assert_refused("POST / HTTP/1.0|Host: a|Transfer-Encoding: ", old, COUNT(old));
}

static void chunks_are_as_long_as_they_say_and_bring_nothing_else(void **state) {
    static const struct refused cases[] = {
        {"|abc|0||", 400, "size"},
        {"g|", 400, "size"},
        {"+3|abc|0||", 400, "size"},
        {"0x3|abc|0||", 400, "size"},
        {" 3|abc|0||", 400, "size"},
        {"3\nabc|0||", 400, "size"},
        {"00000000000000003|abc|0||", 400, "size"},
        {"3;a=b|abc|0||", 400, "extension"},
        {"3;|abc|0||", 400, "extension"},
        {"3 |abc|0||", 400, "extension"},
        {"3\t|abc|0||", 400, "extension"},
        {"3|abc|0;a||", 400, "extension"},
        {"3\rabc|0||", 400, "carriage"},
        {"3|abc\n0||", 400, "does not"},
        {"3|abc\r0||", 400, "carriage"},
        {"3|abcd|0||", 400, "does not"},
        {"4|abc|0||", 400, "does not"},
        {"0|\n", 400, "line feed"},
        {"0|\rGET", 400, "carriage"},
        {"0|A: b||", 400, "trailers"},
        {"0|Content-Length: 9||", 400, "trailers"},
        {"0|GET / HTTP/1.1|", 400, "trailers"},
        {"1001", 413, "large"},
        {"ffffffffffffffff|", 413, "large"},
        {"10000000000000003|abc|0||", 413, "large"},
    };

    (void)state;
    assert_refused("POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked||", cases,
                   COUNT(cases));
}

static void there_is_one_host(void **state) {
    static const struct refused cases[] = {
        {"1|X-Host: a||", 400, "Host header is missing"},
        {"1||", 400, "Host header is missing"},
        {"0||", 400, "Host header is missing"},
        {"1|Host:||", 400, "a host"},
        {"1|Host:  ||", 400, "a host"},
        {"1|Host: \t||", 400, "a host"},
        {"1|Host: a b||", 400, "a host"},
        {"1|Host: a,b||", 400, "a host"},
        {"1|Host: a/b||", 400, "a host"},
        {"1|Host: a@b||", 400, "a host"},
        {"1|Host: \xc3\xa4||", 400, "a host"},
        {"1|Host: a|host: a||", 400, "twice"},
    };

    (void)state;
    assert_refused("GET / HTTP/1.", cases, COUNT(cases));
}

static void what_has_one_meaning_comes_once(void **state) {
    static const struct refused cases[] = {
        {"Content-Type: a|content-type: a||", 400, "twice"},
        {"Origin: a|Origin: b||", 400, "twice"},
        {"Last-Event-ID: a|Last-Event-ID: a||", 400, "twice"},
        {"Authorization: a|Authorization: b||", 400, "twice"},
        {"Expect: 100-continue|Expect: 100-continue||", 400, "twice"},
        {"Mcp-Session-Id: a|Mcp-Session-Id: a||", 400, "twice"},
        {"MCP-Protocol-Version: a|mcp-protocol-version: a||", 400, "twice"},
        {"Mcp-Param-City: a|B: c|D: e|Mcp-Param-City: f||", 400, "twice"},
    };

    (void)state;
    assert_refused("GET / HTTP/1.1|Host: a|", cases, COUNT(cases));
}

static void no_other_expectation_is_met(void **state) {
    static const struct refused cases[] = {
        {"Expect: 200-ok||", 417, "100-continue"},
        {"Expect: 100-continu||", 417, "100-continue"},
        {"Expect: 100-continue, b||", 417, "100-continue"},
        {"Expect: coffee|Content-Length: 99999||", 417, "100-continue"},
    };

    (void)state;
    assert_refused("POST / HTTP/1.1|Host: a|", cases, COUNT(cases));
}

/* Puts each byte into each place of the request that `%` marks. */
static void every_byte(const char *pattern, bool (*allowed)(unsigned char c)) {
    char *bytes = http_wire(pattern), *mark = strchr(bytes, '%');
    size_t len = strlen(bytes);

    for (unsigned c = 0; c < 256; c++) {
        struct outcome outcome;

        *mark = (char)c;
        outcome = http_read(&http_wide, bytes, len);
        if ((outcome.step == TDG__HTTP_READY) != allowed((unsigned char)c))
            fail_msg("byte 0x%02x in %s: step %d", c, pattern, (int)outcome.step);
        outcome_done(&outcome);
    }
    free(bytes);
}

static bool in_value(unsigned char c) {
    return (c >= ' ' && c != 0x7f) || c == '\t';
}

static bool in_name(unsigned char c) {
    return c != '\0' && strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789!#$%&'*+-.^_`|~:",
                               c) != NULL; /* by ":" the name is shorter */
}

static bool in_target(unsigned char c) {
    return c > ' ' && c < 0x7f && c != '#';
}

static bool in_length(unsigned char c) {
    return c == '0' || c == '1' || c == ' '; /* behind a 0, and with one byte of body */
}

static bool in_size(unsigned char c) {
    return c == '1';
}

static void every_byte_is_allowed_or_refused_by_its_place(void **state) {
    (void)state;
    every_byte("GET / HTTP/1.1|Host: a|B: c%d||", in_value);
    every_byte("GET / HTTP/1.1|Host: a|B: %||", in_value);
    every_byte("GET / HTTP/1.1|Host: a|B%c: d||", in_name);
    every_byte("GET /a%b HTTP/1.1|Host: a||", in_target);
    every_byte("GET /a?%b HTTP/1.1|Host: a||", in_target);
    every_byte("POST / HTTP/1.1|Host: a|Content-Length: 0%||x", in_length);
    every_byte("POST / HTTP/1.1|Host: a|Transfer-Encoding: chunked||0%|x|0||", in_size);
}

static void a_nul_is_refused_wherever_it_stands_in_the_head(void **state) {
    static const char head[] = "GET /a HTTP/1.1\r\nHost: b\r\nC: d\r\n\r\n";
    char bytes[sizeof(head)];

    (void)state;
    for (size_t i = 0; i < sizeof(head) - 1; i++) {
        struct outcome outcome;

        memcpy(bytes, head, sizeof(head));
        bytes[i] = '\0';
        outcome = http_read(&http_wide, bytes, sizeof(head) - 1);
        assert_int_equal(outcome.step, TDG__HTTP_REFUSED);
        assert_int_equal(outcome.status, 400);
    }
}

/* Nothing to be gained from a request whose last byte never comes. */
static void noise_is_refused_before_its_line_ends(void **state) {
    struct outcome outcome = http_read(&http_wide, "GET /\x01", 6);

    (void)state;
    assert_int_equal(outcome.status, 400);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_end_in_cr_lf_and_hold_no_control_characters),
        cmocka_unit_test(names_are_tokens_up_to_the_colon),
        cmocka_unit_test(the_request_line_has_one_shape),
        cmocka_unit_test(the_target_is_a_path),
        cmocka_unit_test(the_length_is_one_number_and_the_only_one),
        cmocka_unit_test(the_transfer_coding_is_chunked_and_nothing_else),
        cmocka_unit_test(chunks_are_as_long_as_they_say_and_bring_nothing_else),
        cmocka_unit_test(there_is_one_host),
        cmocka_unit_test(what_has_one_meaning_comes_once),
        cmocka_unit_test(no_other_expectation_is_met),
        cmocka_unit_test(every_byte_is_allowed_or_refused_by_its_place),
        cmocka_unit_test(a_nul_is_refused_wherever_it_stands_in_the_head),
        cmocka_unit_test(noise_is_refused_before_its_line_ends),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("http_guard", tests, NULL, NULL);
}
