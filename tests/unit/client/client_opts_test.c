/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "client/api/client.h"
#include "support.h"

#define TEST(name) cmocka_unit_test_setup_teardown(name, memory_setup, memory_teardown)

static const char *const program[] = {"server", "--stdio", NULL};

static void a_url_without_a_path_gets_one(void **state) {
    static const struct {
        const char *given, *made;
    } cases[] = {
        {"http://localhost", "http://localhost/mcp"},
        {"http://localhost:8808", "http://localhost:8808/mcp"},
        {"HTTPS://Example.org?key=1", "HTTPS://Example.org/mcp?key=1"},
        {"http://[::1]:80", "http://[::1]:80/mcp"},
        {"http://localhost/", "http://localhost/"},
        {"http://localhost/a?b=/c", "http://localhost/a?b=/c"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg_client_opts_t opts = {.url = cases[i].given};
        tdg__client_opts_t own;

        assert_int_equal(tdg__client_opts_init(&own, &opts, NULL), 0);
        assert_string_equal(own.opts.url, cases[i].made);
        tdg__client_opts_done(&own);
    }
}

static void zero_means_the_default(void **state) {
    tdg_client_opts_t opts = {.url = "http://localhost/mcp"};
    tdg__client_opts_t own;

    (void)state;
    assert_int_equal(tdg__client_opts_init(&own, &opts, NULL), 0);
    assert_int_equal(own.opts.connect_timeout_ms, 30000);
    assert_int_equal(own.opts.timeout_ms, 60000);
    assert_int_equal(own.opts.quiet_ms, 60000);
    assert_int_equal(own.opts.retry_ms, 500);
    assert_int_equal(own.opts.retry_max_ms, 30000);
    assert_int_equal(own.opts.retry_per_minute, 20);
    assert_int_equal(own.opts.max_message_bytes, 16 << 20);
    assert_int_equal(own.opts.max_subscriptions, 100000);
    assert_string_equal(own.opts.name, "tidings");
    assert_string_equal(own.opts.version, TDG_VERSION);
    tdg__client_opts_done(&own);
}

static void the_longest_wait_is_no_shorter_than_the_first(void **state) {
    tdg_client_opts_t opts = {.url = "http://localhost/mcp", .retry_ms = 60000};
    tdg__client_opts_t own;

    (void)state;
    assert_int_equal(tdg__client_opts_init(&own, &opts, NULL), 0);
    assert_int_equal(own.opts.retry_max_ms, 60000);
    tdg__client_opts_done(&own);
}

static void everything_is_copied(void **state) {
    char word[] = "server", entry[] = "A=1", cwd[] = "/", name[] = "me", version[] = "2";
    const char *argv[] = {word, NULL}, *env[] = {entry, NULL};
    tdg_client_opts_t opts = {
        .argv = argv, .env = env, .cwd = cwd, .name = name, .version = version};
    tdg__client_opts_t own;

    (void)state;
    assert_int_equal(tdg__client_opts_init(&own, &opts, NULL), 0);
    word[0] = entry[0] = cwd[0] = name[0] = version[0] = '#';
    argv[0] = env[0] = NULL;
    assert_string_equal(own.opts.argv[0], "server");
    assert_null(own.opts.argv[1]);
    assert_string_equal(own.opts.env[0], "A=1");
    assert_null(own.opts.env[1]);
    assert_string_equal(own.opts.cwd, "/");
    assert_string_equal(own.opts.name, "me");
    assert_string_equal(own.opts.version, "2");
    tdg__client_opts_done(&own);
}

static void headers_and_files_are_copied(void **state) {
    char header[] = "X-Key: secret", token[] = "token", ca[] = "ca", proxy[] = "http://p";
    const char *headers[] = {header, NULL};
    tdg_client_opts_t opts = {.url = "https://example.org",
                              .headers = headers,
                              .token_file = token,
                              .ca_file = ca,
                              .proxy = proxy};
    tdg__client_opts_t own;

    (void)state;
    assert_int_equal(tdg__client_opts_init(&own, &opts, NULL), 0);
    header[0] = token[0] = ca[0] = proxy[0] = '#';
    assert_string_equal(own.opts.headers[0], "X-Key: secret");
    assert_null(own.opts.headers[1]);
    assert_string_equal(own.opts.token_file, "token");
    assert_string_equal(own.opts.ca_file, "ca");
    assert_string_equal(own.opts.proxy, "http://p");
    tdg__client_opts_done(&own);
}

#define URL .url = "http://localhost/mcp"
#define HEADERS(...)                                                                     \
    .headers = (const char *const[]) {                                                   \
        __VA_ARGS__, NULL                                                                \
    }

static void what_is_wrong_is_said(void **state) {
    const struct {
        tdg_client_opts_t opts;
        const char *said;
    } cases[] = {
        {{.url = NULL}, "required"},
        {{URL, .argv = program}, "not both"},
        {{.argv = (const char *const[]){NULL}}, "no name"},
        {{.argv = (const char *const[]){"", NULL}}, "no name"},
        {{.argv = program, .token_file = "t"}, "require a URL"},
        {{.argv = program, .proxy = "http://p"}, "require a URL"},
        {{URL, .cwd = "/"}, "require a program"},
        {{URL, .proxy = "socks5://p"}, "proxy"},

        {{.url = "localhost:8808"}, "http:// or https://"},
        {{.url = "ftp://localhost"}, "http:// or https://"},
        {{.url = ""}, "http:// or https://"},
        {{.url = "http://"}, "no host"},
        {{.url = "http:///mcp"}, "no host"},
        {{.url = "http://:80/mcp"}, "host or port"},
        {{.url = "http://localhost:/mcp"}, "host or port"},
        {{.url = "http://localhost:0/mcp"}, "host or port"},
        {{.url = "http://localhost:65536/mcp"}, "host or port"},
        {{.url = "http://localhost:8o/mcp"}, "host or port"},
        {{.url = "http://[::1/mcp"}, "host or port"},
        {{.url = "http://[]/mcp"}, "host or port"},
        {{.url = "http://localhost/mcp#top"}, "fragment"},
        {{.url = "http://me:secret@localhost/mcp"}, "token file"},
        {{.url = "http://me@localhost#x"}, "token file"},
        {{.url = "http://localhost/a b"}, "characters"},
        {{.url = "http://localhost/%zz"}, "characters"},
        {{.url = "http://localhost/\xc3\xa4"}, "characters"},

        {{URL, HEADERS("X-Key")}, "Name: value"},
        {{URL, HEADERS("A: b", ": b")}, "header 2"},
        {{URL, HEADERS("X Key: b")}, "Name: value"},
        {{URL, HEADERS("A: b\r\nEvil: yes")}, "control character"},
        {{URL, HEADERS("Content-Type: text/plain")}, "itself"},
        {{URL, HEADERS("mcp-session-id: 1")}, "itself"},
        {{URL, HEADERS("Host: elsewhere")}, "itself"},
        {{URL, HEADERS("authorization: Bearer x"), .token_file = "t"}, "exclude"},

        {{URL, .flags = 1U << 20}, "0x100000"},
        {{URL, .era = (tdg_era_t)3}, "era"},
        {{URL, .retry_per_minute = 121}, "120"},
        {{URL, .max_message_bytes = 1023}, "1024"},
        {{URL, .retry_ms = 5, .retry_max_ms = 4}, "retry_ms"},
        {{URL, .name = "\xff"}, "UTF-8"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg_failure_t failure = {0};
        tdg__client_opts_t own;

        if (tdg__client_opts_init(&own, &cases[i].opts, &failure) != TDG_EINVAL ||
            strstr(failure.message, cases[i].said) == NULL)
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, failure.message,
                     cases[i].said);
        assert_int_equal(failure.code, TDG_EINVAL);
        assert_int_equal(tdg__client_opts_init(&own, &cases[i].opts, NULL), TDG_EINVAL);
    }
}

static void secrets_are_not_said(void **state) {
    const tdg_client_opts_t cases[] = {
        {.url = "http://me:secret@localhost/mcp"},
        {.url = "http://localhost/mcp?key=secret#x"},
        {URL, HEADERS("Authorization: secret\n")},
        {URL, HEADERS("Content-Type: secret")},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tdg_failure_t failure = {0};
        tdg__client_opts_t own;

        assert_int_equal(tdg__client_opts_init(&own, &cases[i], &failure), TDG_EINVAL);
        assert_null(strstr(failure.message, "secret"));
    }
}

static void too_long_and_too_many_are_refused(void **state) {
    char *url = test_malloc(TDG__CLIENT_MAX_URL + 2);
    const char *headers[TDG__CLIENT_MAX_HEADERS + 2];
    tdg_client_opts_t opts = {.url = url};
    tdg_failure_t failure = {0};
    tdg__client_opts_t own;

    (void)state;
    memset(url, 'a', TDG__CLIENT_MAX_URL + 1);
    url[TDG__CLIENT_MAX_URL + 1] = '\0';
    memcpy(url, "http://a/", 9);
    assert_int_equal(tdg__client_opts_init(&own, &opts, &failure), TDG_EINVAL);
    assert_non_null(strstr(failure.message, "too long"));
    url[TDG__CLIENT_MAX_URL] = '\0';
    assert_int_equal(tdg__client_opts_init(&own, &opts, &failure), 0);
    tdg__client_opts_done(&own);

    for (size_t i = 0; i <= TDG__CLIENT_MAX_HEADERS; i++)
        headers[i] = "A: b";
    headers[TDG__CLIENT_MAX_HEADERS + 1] = NULL;
    opts.headers = headers;
    assert_int_equal(tdg__client_opts_init(&own, &opts, &failure), TDG_EINVAL);
    assert_non_null(strstr(failure.message, "too many"));
    headers[TDG__CLIENT_MAX_HEADERS] = NULL;
    assert_int_equal(tdg__client_opts_init(&own, &opts, &failure), 0);
    tdg__client_opts_done(&own);
    test_free(url);
}

static void without_memory_nothing_is_left(void **state) {
    tdg_client_opts_t opts = {URL, HEADERS("A: b", "C: d"), .ca_file = "ca",
                              .name = "me"};
    tdg_failure_t failure = {0};
    tdg__client_opts_t own;
    size_t failures = 0;

    (void)state;
    for (size_t nth = 1;; nth++) {
        memory_fail(nth, MEMORY_ONCE);
        if (tdg__client_opts_init(&own, &opts, &failure) == 0)
            break;
        assert_true(memory_failed());
        assert_int_equal(failure.code, TDG_ENOMEM);
        failures++;
    }
    memory_fail(0, MEMORY_ONCE);
    assert_true(failures >= 7);
    tdg__client_opts_done(&own);
}

static void a_failure_gives_its_data_back(void **state) {
    tdg_failure_t failure = {.code = TDG_EREFUSED, .data = json_from("{'a': 1}")};

    (void)state;
    tdg_failure_done(&failure);
    assert_null(failure.data);
    assert_int_equal(failure.code, 0);
    tdg_failure_done(&failure);
    tdg_failure_done(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_url_without_a_path_gets_one),
        TEST(zero_means_the_default),
        TEST(the_longest_wait_is_no_shorter_than_the_first),
        TEST(everything_is_copied),
        TEST(headers_and_files_are_copied),
        TEST(what_is_wrong_is_said),
        TEST(secrets_are_not_said),
        TEST(too_long_and_too_many_are_refused),
        TEST(without_memory_nothing_is_left),
        TEST(a_failure_gives_its_data_back),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("client_opts", tests, NULL, NULL);
}
