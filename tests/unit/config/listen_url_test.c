/* SPDX-License-Identifier: MIT */
#include "config/listen_url.h"

#include "support.h"

static void addresses_are_read(void **state) {
    static const struct {
        const char *url, *host;
        uint16_t port;
    } cases[] = {
        {TDG__LISTEN_DEFAULT, "127.0.0.1", 8808},
        {"http://0.0.0.0:80/", "0.0.0.0", 80},
        {"HTTP://localhost", "localhost", 8808},
        {"http://localhost/", "localhost", 8808},
        {"http://[::1]:0", "::1", 0},
        {"http://[::]", "::", 8808},
        {"http://10.0.0.1:65535", "10.0.0.1", 65535},
        {"http://LOCALHOST:1", "LOCALHOST", 1},
        {"http://[fe80::1%25]", "fe80::1%25", 8808},
        {"http://[fe80::1%eth-0.1_x]:2", "fe80::1%eth-0.1_x", 2},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__parse_error_t error = {.text = ""};
        tdg__listen_url_t listen;

        if (tdg__listen_url_parse(cases[i].url, &listen, &error) != 0)
            fail_msg("%s: %s", cases[i].url, error.text);
        assert_string_equal(listen.host, cases[i].host);
        assert_int_equal(listen.port, cases[i].port);
    }
}

static void an_address_may_say_what_is_spoken_there(void **state) {
    static const struct {
        const char *url;
        tdg__dialect_t dialect;
    } cases[] = {
        {"http://[::1]:9", TDG__DIALECT_UNSAID},
        {"erlmcp+http://[::1]:9", TDG__DIALECT_ERLMCP},
        {"ERLMCP+HTTP://[::1]:9", TDG__DIALECT_ERLMCP},
        {"mcp+http://[::1]:9", TDG__DIALECT_MCP},
    };
    char url[TDG__LISTEN_URL_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__listen_url_t listen;

        assert_int_equal(tdg__listen_url_parse(cases[i].url, &listen, NULL), 0);
        assert_int_equal(listen.dialect, cases[i].dialect);
        tdg__listen_url_put(&listen, url);
        assert_string_equal(url, "http://[::1]:9"); /* what clients call */
    }
}

static void addresses_are_written_as_they_are_read(void **state) {
    static const char *const urls[] = {TDG__LISTEN_DEFAULT, "http://[::1]:0",
                                       "http://10.0.0.1:65535"};
    char url[TDG__LISTEN_URL_MAX];

    (void)state;
    for (size_t i = 0; i < COUNT(urls); i++) {
        tdg__listen_url_t listen;

        assert_int_equal(tdg__listen_url_parse(urls[i], &listen, NULL), 0);
        tdg__listen_url_put(&listen, url);
        assert_string_equal(url, urls[i]);
    }
}

static void what_is_no_address_is_said(void **state) {
    static const char no_host[] = "the host is missing; write an address, such as "
                                  "http://127.0.0.1:8808 or http://[::1]:8808";
    static const char no_scheme[] =
        "it must begin with http://, such as http://127.0.0.1:8808";
    static const char bad_port[] = "a port must be from 0 to 65535";
    static const char too_much[] =
        "only a port may follow the host, such as http://127.0.0.1:8808";
    static const char no_name[] =
        "the host must be an IP address of this machine or localhost, such as "
        "http://127.0.0.1:8808 or http://0.0.0.0:8808";
    static const struct {
        const char *url, *says;
    } cases[] = {
        {"klingon+http://a", no_scheme},
        {"", no_scheme},
        {"127.0.0.1:80", no_scheme},
        {"tcp://127.0.0.1:80", no_scheme},
        {"https://127.0.0.1:443", "https is not supported; listen on http and put a "
                                  "TLS proxy in front"},
        {"http://", no_host},
        {"http://:80", no_host},
        {"http://[::1:80", no_host},
        {"http://[]:80", no_host},
        {"http://[127.0.0.1]:80", no_host},
        {"http://[fe80::1%]:80", no_host},
        {"http://[127.0.0.1%5]", no_host},
        {"http:///mcp", no_host},
        {"http://a:", bad_port},
        {"http://a:65536", bad_port},
        {"http://a:999999999999", bad_port},
        {"http://a:8x", too_much},
        {"http://a:80/mcp", too_much},
        {"http://a/mcp", too_much},
        {"http://me@a:80", too_much},
        {"http://a b", too_much},
        {"http://[::1]x", too_much},
        {"http://a-b.c_d:80", no_name},
        {"http://1.2.3.4.5:80", no_name},
        {"http://[127.0.0.1::]", no_name},
    };
    char longest[300] = "http://";

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg__parse_error_t error = {.text = ""};
        tdg__listen_url_t listen;

        assert_int_equal(tdg__listen_url_parse(cases[i].url, &listen, &error),
                         TDG_EINVAL);
        if (strcmp(error.text, cases[i].says) != 0)
            fail_msg("%s: %s", cases[i].url, error.text);
    }
    memset(longest + 7, '1', 256);
    assert_int_equal(tdg__listen_url_parse(longest, &(tdg__listen_url_t){0}, NULL),
                     TDG_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read),
        cmocka_unit_test(an_address_may_say_what_is_spoken_there),
        cmocka_unit_test(addresses_are_written_as_they_are_read),
        cmocka_unit_test(what_is_no_address_is_said),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("listen", tests, NULL, NULL);
}
