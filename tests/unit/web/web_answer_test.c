/* SPDX-License-Identifier: MIT */
#include "web/web_answer.h"

#include <stdio.h>

#include "support.h"
#include "web/web.h"
#include "web/web_header.h"
#include "web/web_url.h"

enum { NOW = 1000000 }; /* ms of the time of day */

/* ---- Heads -------------------------------------------------------------- */

/* Lines that end in LF, as they come. */
static tdg__web_facts_t facts_of(const char *text) {
    tdg__web_facts_t facts;

    tdg__web_facts_init(&facts);
    while (*text != '\0') {
        size_t len = strcspn(text, "\n") + 1;
        char *copy = malloc(len);

        memcpy(copy, text, len);
        tdg__web_facts_line(&facts, copy, len, NOW);
        free(copy);
        text += len;
    }
    return facts;
}

static void status_and_fields_are_read(void **state) {
    tdg__web_facts_t facts =
        facts_of("HTTP/1.1 401 Unauthorized\r\ncontent-type: Text/Event-Stream; x=Y\r\n"
                 "MCP-SESSION-ID:  abc  \r\nWWW-Authenticate: Bearer realm=\"x\"\r\n"
                 "Location: /there\r\n\r\n");

    (void)state;
    assert_true(facts.complete);
    assert_int_equal(facts.status, 401);
    assert_string_equal(facts.content_type.data, "text/event-stream");
    assert_string_equal(facts.session.data, "abc");
    assert_string_equal(facts.location.data, "/there");
    assert_int_equal(facts.retry_after_ms, -1);
    tdg__web_facts_done(&facts);
}

static void interim_answers_are_passed_over(void **state) {
    tdg__web_facts_t facts =
        facts_of("HTTP/1.1 103 Early Hints\r\nMcp-Session-Id: wrong\r\n\r\n"
                 "HTTP/2 200 \r\nContent-Type: application/json\r\n\r\n");

    (void)state;
    assert_true(facts.complete);
    assert_int_equal(facts.status, 200);
    assert_int_equal(facts.session.len, 0);
    assert_string_equal(facts.content_type.data, "application/json");
    tdg__web_facts_done(&facts);
}

static void trailers_change_nothing(void **state) {
    tdg__web_facts_t facts = facts_of("HTTP/1.1 200 OK\r\n\r\nMcp-Session-Id: late\r\n"
                                      "Content-Type: text/late\r\n\r\n");

    (void)state;
    assert_true(facts.complete);
    assert_int_equal(facts.session.len + facts.content_type.len, 0);
    tdg__web_facts_done(&facts);
}

static void odd_fields_are_as_if_not_there(void **state) {
    static const char *const lines[] = {
        "Content-Type: a/b\rX: y\r\n", "Content-Type: ;a\r\n",
        "Mcp-Session-Id: a b\r\n",     "Mcp-Session-Id: a\tb\r\n",
        "Mcp-Session-Id:\r\n",         "Mcp-Session-Id: \xc3\xa9\r\n",
        "Mcp-Session-Id : a\r\n",      " Mcp-Session-Id: a\r\n",
        "Mcp-Session-Id\r\n",          ": a\r\n",
        "Mcp-Session-Idx: a\r\n",      "Mcp-Session-Id: a\x01\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(lines); i++) {
        char text[256];
        tdg__web_facts_t facts;

        snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\n%s\r\n", lines[i]);
        facts = facts_of(text);
        if (facts.session.len + facts.content_type.len != 0 || !facts.complete)
            fail_msg("%s", lines[i]);
        tdg__web_facts_done(&facts);
    }
}

static void the_first_of_two_counts_and_long_ones_do_not(void **state) {
    char text[8192], filler[TDG__WEB_MAX_SESSION + 2];
    tdg__web_facts_t facts;

    (void)state;
    facts = facts_of("HTTP/1.1 200 OK\r\nMcp-Session-Id: a\r\nMcp-Session-Id: b\r\n\r\n");
    assert_string_equal(facts.session.data, "a");
    tdg__web_facts_done(&facts);

    memset(filler, 's', sizeof(filler));
    filler[TDG__WEB_MAX_SESSION + 1] = '\0';
    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nMcp-Session-Id: %s\r\n\r\n", filler);
    facts = facts_of(text);
    assert_true(facts.complete && facts.session.len == 0 && !facts.no_memory);
    tdg__web_facts_done(&facts);
    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nMcp-Session-Id: %s\r\n\r\n",
             filler + 1);
    facts = facts_of(text);
    assert_int_equal(facts.session.len, TDG__WEB_MAX_SESSION);
    tdg__web_facts_done(&facts);
}

static void retry_after_is_seconds_or_a_date(void **state) {
    static const struct {
        const char *lines;
        int64_t ms;
    } cases[] = {
        {"", -1},
        {"Retry-After: 0\r\n", 0},
        {"Retry-After: 7\r\n", 7000},
        {"Retry-After: 99999999999999999999999\r\n", 86400000},
        {"Retry-After: soon\r\n", -1},
        {"Retry-After: -5\r\n", -1},
        {"Retry-After: 1.5\r\n", -1},
        /* by our clock, which shows 1,000 s after 1970 began */
        {"Retry-After: Thu, 01 Jan 1970 00:17:00 GMT\r\n", 20000},
        {"Retry-After: Thu, 01 Jan 1970 00:16:00 GMT\r\n", 0},
        /* by the server's */
        {"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
         "Retry-After: Sun, 06 Nov 1994 08:50:37 GMT\r\n",
         60000},
        {"Retry-After: Sun, 06 Nov 1994 08:50:37 GMT\r\n"
         "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
         60000},
        {"Retry-After: Sun, 06 Nov 2094 08:50:37 GMT\r\n", 86400000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[512];
        tdg__web_facts_t facts;

        snprintf(text, sizeof(text), "HTTP/1.1 503 Busy\r\n%s\r\n", cases[i].lines);
        facts = facts_of(text);
        if (facts.retry_after_ms != cases[i].ms)
            fail_msg("%s gives %lld", cases[i].lines, (long long)facts.retry_after_ms);
        tdg__web_facts_done(&facts);
    }
}

static void heads_without_memory_say_so(void **state) {
    bool failed = true;

    (void)state;
    for (size_t nth = 1; failed; nth++) {
        tdg__web_facts_t facts;

        memory_fail(nth, MEMORY_ONCE);
        facts = facts_of("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nMcp-Session-Id: a\r\n"
                         "WWW-Authenticate: b\r\nLocation: c\r\n\r\n");
        failed = memory_failed();
        assert_int_equal(facts.no_memory, failed);
        memory_fail(0, MEMORY_ONCE);
        tdg__web_facts_done(&facts);
    }
}

/* ---- URLs --------------------------------------------------------------- */

static void urls_are_read_and_their_secrets_taken_out(void **state) {
    static const struct {
        const char *text, *base, *url, *host, *user;
        unsigned port;
        bool secure, here;
    } cases[] = {
        {"http://h/mcp", NULL, "http://h/mcp", "h", NULL, 80, false, false},
        {"https://h:8443/a?b=c#d", NULL, "https://h:8443/a?b=c", "h", NULL, 8443, true,
         false},
        {"HTTP://u%40x:p@LocalHost/", NULL, "http://LocalHost/", "LocalHost", "u@x", 80,
         false, true},
        {"http://127.0.0.1:9", NULL, "http://127.0.0.1:9/", "127.0.0.1", NULL, 9, false,
         true},
        {"http://127.9.9.9/", NULL, "http://127.9.9.9/", "127.9.9.9", NULL, 80, false,
         true},
        {"http://[::1]:9/x", NULL, "http://[::1]:9/x", "[::1]", NULL, 9, false, true},
        {"http://127.0.0.1.evil.org/", NULL, "http://127.0.0.1.evil.org/",
         "127.0.0.1.evil.org", NULL, 80, false, false},
        {"http://localhost.evil.org/", NULL, "http://localhost.evil.org/",
         "localhost.evil.org", NULL, 80, false, false},
        {"/there", "http://h:7/a/b", "http://h:7/there", "h", NULL, 7, false, false},
        {"there", "http://h:7/a/b", "http://h:7/a/there", "h", NULL, 7, false, false},
        {"//o/x", "https://h/a", "https://o/x", "o", NULL, 443, true, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__web_url_t url;
        const char *why;

        assert_int_equal(tdg__web_url_read(cases[i].text, cases[i].base, &url, &why), 0);
        assert_string_equal(url.url, cases[i].url);
        assert_string_equal(url.host, cases[i].host);
        assert_int_equal(url.port, cases[i].port);
        assert_int_equal(url.secure, cases[i].secure);
        assert_int_equal(tdg__web_url_is_here(&url), cases[i].here);
        if (cases[i].user != NULL)
            assert_string_equal(url.user, cases[i].user);
        else
            assert_null(url.user);
        tdg__web_url_done(&url);
    }
}

static void what_is_no_url_of_ours_is_refused(void **state) {
    static const char *const cases[] = {"",
                                        "h",
                                        "h:80",
                                        "/mcp",
                                        "ftp://h/",
                                        "file:///etc/passwd",
                                        "http://",
                                        "http://?x",
                                        "http://h/a b",
                                        "http://h:99999/",
                                        "http://65%36/",
                                        "http://h/\r\nX: y",
                                        "stdio:x"};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *why = NULL;
        tdg__web_url_t url;

        if (tdg__web_url_read(cases[i], NULL, &url, &why) != TDG_EINVAL)
            fail_msg("%s", cases[i]);
        assert_non_null(why);
        assert_null(url.url);
    }
}

static void it_is_known_how_far_a_redirect_leads(void **state) {
    static const struct {
        const char *from, *to;
        tdg__web_hop_t hop;
    } cases[] = {
        {"http://h/a", "http://h/b", TDG__WEB_HOP_SAME},
        {"http://h/a", "/b", TDG__WEB_HOP_SAME},
        {"http://h/a", "http://H:80/b", TDG__WEB_HOP_SAME},
        {"http://h/", "https://h/", TDG__WEB_HOP_SAME},
        {"https://h:443/", "https://h/x", TDG__WEB_HOP_SAME},
        {"http://h:8080/", "https://h:8443/", TDG__WEB_HOP_SECURED},
        {"http://h:8080/", "https://h/", TDG__WEB_HOP_SECURED},
        {"http://h/", "https://h:8443/", TDG__WEB_HOP_SECURED},
        {"https://h/", "https://h:8443/", TDG__WEB_HOP_OTHER},
        {"http://h/", "http://h:81/", TDG__WEB_HOP_OTHER},
        {"http://h/", "http://h.evil/", TDG__WEB_HOP_OTHER},
        {"http://h/", "//evil/", TDG__WEB_HOP_OTHER},
        {"http://h/", "http://h@evil/", TDG__WEB_HOP_OTHER},
        {"http://h/", "https://evil/", TDG__WEB_HOP_OTHER},
        {"http://localhost/", "http://127.0.0.1/", TDG__WEB_HOP_OTHER},
        {"https://h/", "http://h/", TDG__WEB_HOP_EXPOSED},
        {"https://h/", "http://evil/", TDG__WEB_HOP_EXPOSED},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__web_url_t from, to;
        const char *why;

        assert_int_equal(tdg__web_url_read(cases[i].from, NULL, &from, &why), 0);
        assert_int_equal(tdg__web_url_read(cases[i].to, from.url, &to, &why), 0);
        if (tdg__web_url_hop(&from, &to) != cases[i].hop ||
            tdg__web_url_near(&from, &to) != (cases[i].hop <= TDG__WEB_HOP_SECURED))
            fail_msg("%s and %s", cases[i].from, cases[i].to);
        tdg__web_url_done(&from);
        tdg__web_url_done(&to);
    }
}

static void a_redirect_to_what_is_not_http_leads_nowhere(void **state) {
    static const char *const targets[] = {"file:///y", "ftp://h/y", "javascript:1",
                                          "http:///", "http://h/\x01"};

    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        tdg__web_url_t to;
        const char *why;

        if (tdg__web_url_read(targets[i], "http://h/x", &to, &why) != TDG_EINVAL)
            fail_msg("%s", targets[i]);
    }
}

/* Servers forget to encode them; no other URL may have any. */
static void blanks_in_a_redirect_are_encoded(void **state) {
    tdg__web_url_t to;
    const char *why;

    (void)state;
    assert_int_equal(tdg__web_url_read("/a b?c d", "http://h/x", &to, &why), 0);
    assert_string_equal(to.url, "http://h/a%20b?c+d");
    tdg__web_url_done(&to);
    assert_int_equal(tdg__web_url_read("http://h/a b", NULL, &to, &why), TDG_EINVAL);
}

static void urls_without_memory_leave_nothing(void **state) {
    bool failed = true;

    (void)state;
    for (size_t nth = 1; failed; nth++) {
        tdg__web_url_t url;
        const char *why;
        int rv;

        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__web_url_read("http://u:p@h:1/x", NULL, &url, &why);
        failed = memory_failed();
        assert_int_equal(rv, failed ? TDG_ENOMEM : 0);
        memory_fail(0, MEMORY_ONCE);
        tdg__web_url_done(&url);
    }
}

/* ---- Given headers ------------------------------------------------------ */

static void given_headers_are_checked(void **state) {
    static const struct {
        const char *line, *why; /* NULL: it is fine */
    } cases[] = {
        {"X-Key: secret", NULL},
        {"Authorization: Bearer t", NULL},
        {"X-Key:secret", NULL},
        {"X-Key: caf\xc3\xa9", NULL},
        {"X-Key", "Name: value"},
        {": secret", "Name: value"},
        {"X Key: secret", "Name: value"},
        {"X-Key : secret", "Name: value"},
        {"X-Key: ", "no value"},
        {"X-Key: a\r\nEvil: b", "line break"},
        {"X-Key: a\nEvil: b", "line break"},
        {"host: secret", "the header host is set by tidings itself"},
        {"Content-Length: 5", "Content-Length"},
        {"transfer-encoding: x", "the header transfer-encoding is set"},
        {"Connection: close", "Connection"},
        {"Mcp-Session-Id: 1", "Mcp-Session-Id"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char why[256] = "";
        bool fine = tdg__web_header_is_fine(cases[i].line, why, sizeof(why));

        if (fine != (cases[i].why == NULL) ||
            (!fine && strstr(why, cases[i].why) == NULL) || strstr(why, "secret") != NULL)
            fail_msg("%s: %s", cases[i].line, why);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(status_and_fields_are_read),
        TEST(interim_answers_are_passed_over),
        TEST(trailers_change_nothing),
        TEST(odd_fields_are_as_if_not_there),
        TEST(the_first_of_two_counts_and_long_ones_do_not),
        TEST(retry_after_is_seconds_or_a_date),
        TEST(heads_without_memory_say_so),
        TEST(urls_are_read_and_their_secrets_taken_out),
        TEST(what_is_no_url_of_ours_is_refused),
        TEST(it_is_known_how_far_a_redirect_leads),
        TEST(a_redirect_to_what_is_not_http_leads_nowhere),
        TEST(blanks_in_a_redirect_are_encoded),
        TEST(urls_without_memory_leave_nothing),
        TEST(given_headers_are_checked),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("web_head", tests, NULL, NULL);
}
