/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "support.h"
#include "unit/source/http_page.h"
#include "unit/targets.h"

static const char *field(const struct reading *reading, const char *name) {
    return json_string_value(json_object_get(reading->metadata, name));
}

/* ---- Reading ------------------------------------------------------------ */

static void reads_a_page(void **state) {
    struct fixture *f = *state;
    char url[64];

    setenv("TDG_TEST_TOKEN", "secret-token", 1);
    page_open(f, "headers: {Authorization: 'Bearer ${TDG_TEST_TOKEN}', X-Other: b}\n");
    page_set(f, (struct page){.body = "hello",
                              .etag = "\"v1\"",
                              .headers =
                                  "Content-Type: text/x-test; charset=utf-8\r\n"
                                  "Last-Modified: Tue, 15 Nov 1994 12:45:26 GMT\r\n"});

    struct reading reading = harness_read(&f->harness, PAGE);

    assert_int_equal(reading.status, 0);
    assert_string_equal(reading.data, "hello");
    assert_string_equal(reading.mime_type, "text/x-test; charset=utf-8");
    assert_string_equal(field(&reading, "etag"), "\"v1\"");
    assert_string_equal(field(&reading, "last_modified"),
                        "Tue, 15 Nov 1994 12:45:26 GMT");
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/page", http_server_port(f->server));
    assert_string_equal(field(&reading, "url"), url);
    assert_int_equal(json_integer_value(json_object_get(reading.metadata, "status")),
                     200);
    assert_true(json_integer_value(json_object_get(reading.metadata, "updated_at")) ==
                784903526000);
    reading_done(&reading);

    assert_true(page_asked_with(f, 0, "GET /page HTTP/1.1\r\n"));
    assert_true(page_asked_with(f, 0, "\r\nAuthorization: Bearer secret-token\r\n"));
    assert_true(page_asked_with(f, 0, "\r\nX-Other: b\r\n"));
    assert_true(page_asked_with(f, 0, "\r\nUser-Agent: tidings/"));
    assert_true(page_asked_with(f, 0, "\r\nAccept-Encoding: "));
    assert_false(page_asked_with(f, 0, "If-None-Match"));
    page_wait_open(f, 0); /* nothing stays for nobody */
}

static void an_empty_page_is_content(void **state) {
    struct fixture *f = *state;

    page_open(f, "");
    page_set(f, (struct page){.body = ""});
    harness_expect(&f->harness, PAGE, "");
    page_set(f, (struct page){.status = "204 No Content", .manner = RAW});
    harness_expect(&f->harness, PAGE, "");
}

/* "hello" for Content-Encoding: deflate, not compressed. */
static void an_encoded_page_is_decoded(void **state) {
    struct fixture *f = *state;
    static const char encoded[] = "\x78\x01\x01\x05\x00\xfa\xffhello\x06\x2c\x02\x15";

    page_open(f, "");
    page_set(f, (struct page){.body = encoded,
                              .len = sizeof(encoded) - 1,
                              .headers = "Content-Encoding: deflate\r\n"});
    harness_expect(&f->harness, PAGE, "hello");
}

static void secrets_of_the_url_are_not_shown(void **state) {
    struct fixture *f = *state;
    char yaml[256];

    setenv("TDG_TEST_TOKEN", "secret-token", 1);
    snprintf(yaml, sizeof(yaml),
             "http: 'http://127.0.0.1:%d/page?key=${TDG_TEST_TOKEN}'\nuri: " PAGE "\n",
             http_server_port(f->server));
    page_open_yaml(f, yaml);
    assert_null(strstr(f->harness.source->label, "secret-token"));
    http_server_set(f->server, "/page?key=secret-token", &(struct page){.body = "x"});

    struct reading reading = harness_read(&f->harness, PAGE);
    char *metadata = json_dumps(reading.metadata, 0);

    assert_int_equal(reading.status, 0);
    assert_null(strstr(metadata, "secret-token"));
    free(metadata);
    reading_done(&reading);

    http_server_set(f->server, "/page?key=secret-token",
                    &(struct page){.status = "403 Forbidden"});
    reading = harness_read(&f->harness, PAGE);
    assert_int_equal(reading.status, TDG_EINVAL);
    assert_null(strstr(reading.error, "secret-token"));
    reading_done(&reading);
}

/* ---- Watching ----------------------------------------------------------- */

static void a_watched_page_is_polled(void **state) {
    struct fixture *f = *state;

    page_open(f, "every: 100ms\n");
    page_set(f, (struct page){.body = "one"});
    harness_watch(&f->harness, PAGE);
    page_wait_asked(f, 4);
    assert_int_equal(harness_count(&f->harness, CHANGED, NULL), 0); /* all the same */
    for (int i = 0; i < 5; i++) {
        char text[16];

        snprintf(text, sizeof(text), "%d", i);
        page_set(f, (struct page){.body = text});
        harness_wait_for_text(&f->harness, PAGE, text);
    }
}

static void nobody_watches_and_nothing_is_asked(void **state) {
    struct fixture *f = *state;
    size_t count;

    page_open(f, "every: 100ms\n");
    page_set(f, (struct page){.body = "one"});
    page_run_for(f, 500);
    assert_int_equal(http_server_count(f->server, NULL), 0);
    harness_watch(&f->harness, PAGE);
    page_wait_asked(f, 3);
    tdg__source_unwatch(f->harness.source, FOR_URI(PAGE));
    page_wait_open(f, 0); /* one may have been under way */
    count = http_server_count(f->server, NULL);
    page_run_for(f, 1000);
    assert_int_equal(http_server_count(f->server, NULL), count);
}

static void asks_whether_it_has_changed(void **state) {
    struct fixture *f = *state;
    size_t before;

    page_open(f, "every: 100ms\n");
    page_set(f, (struct page){.body = "one", .etag = "\"a\""});
    harness_watch(&f->harness, PAGE);
    page_wait_asked(f, 4);
    assert_false(page_asked_with(f, 0, "If-None-Match"));
    assert_true(page_asked_with(f, 1, "\r\nIf-None-Match: \"a\"\r\n"));
    assert_true(page_asked_with(f, 3, "\r\nIf-None-Match: \"a\"\r\n"));
    assert_int_equal(harness_count(&f->harness, CHANGED, NULL), 0);

    before = http_server_not_modified(f->server);
    harness_expect(&f->harness, PAGE, "one"); /* from what was kept */
    assert_true(http_server_not_modified(f->server) > before);

    page_set(f, (struct page){.body = "two", .etag = "\"b\""});
    harness_wait_for_text(&f->harness, PAGE, "two");
    before = http_server_count(f->server, "/page");
    page_wait_asked(f, before + 2);
    assert_true(page_asked_with(f, before + 1, "\r\nIf-None-Match: \"b\"\r\n"));
    tdg__source_unwatch(f->harness.source, FOR_URI(PAGE)); /* and what was kept goes */
    harness_expect(&f->harness, PAGE, "two");
}

static void a_date_counts_once_its_second_is_over(void **state) {
    struct fixture *f = *state;
    size_t count;

    page_open(f, "every: 100ms\n");
    page_set(f, (struct page){.body = "one",
                              .headers =
                                  "Date: Tue, 15 Nov 1994 12:45:27 GMT\r\n"
                                  "Last-Modified: Tue, 15 Nov 1994 12:45:26 GMT\r\n"});
    harness_watch(&f->harness, PAGE);
    page_wait_asked(f, 3);
    assert_false(page_asked_with(f, 2, "If-Modified-Since"));
    page_set(f, (struct page){.body = "one",
                              .headers =
                                  "Date: Tue, 15 Nov 1994 12:45:29 GMT\r\n"
                                  "Last-Modified: Tue, 15 Nov 1994 12:45:26 GMT\r\n"});
    count = http_server_count(f->server, "/page");
    page_wait_asked(f, count + 3);
    assert_true(page_asked_with(
        f, count + 2, "\r\nIf-Modified-Since: Tue, 15 Nov 1994 12:45:26 GMT\r\n"));
}

static void a_304_that_nobody_asked_for_is_asked_again(void **state) {
    struct fixture *f = *state;

    page_open(f, "");
    page_set(f, (struct page){.status = "304 Not Modified", .manner = RAW});
    page_expect_failure(f, TDG_EUNREACHABLE, "304 to an unconditional request");
    assert_int_equal(http_server_count(f->server, "/page"), 2);
}

static void a_page_comes_and_goes(void **state) {
    struct fixture *f = *state;

    page_open(f, "every: 100ms\n");
    page_expect_failure(f, TDG_ENOTFOUND, "404");
    harness_watch(&f->harness, PAGE);
    page_set(f, (struct page){.body = "here"});

    struct happening *changed = harness_wait(&f->harness, CHANGED, PAGE);

    assert_string_equal(
        json_string_value(json_object_get(changed->metadata, "change_type")), "created");
    page_set(f, (struct page){.status = "410 Gone"});
    harness_wait(&f->harness, DELETED, PAGE);
    page_expect_failure(f, TDG_ENOTFOUND, "410");
}

static void many_are_watched_at_once(void **state) {
    enum { MANY = 100 };
    struct fixture *f = *state;
    char yaml[256], path[64], uri[64];

    snprintf(yaml, sizeof(yaml),
             "http: http://127.0.0.1:%d/item/{id}\nuri: 'it://{id}'\nevery: 500ms\n",
             http_server_port(f->server));
    page_open_yaml(f, yaml);
    assert_int_equal(
        tdg__source_watch(f->harness.source, FOR_TEMPLATE("it://{id}"), NULL),
        TDG_ENOTSUP);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++) {
            snprintf(path, sizeof(path), "/item/%d", i);
            http_server_set(f->server, path,
                            &(struct page){.body = round == 0 ? "old" : "new"});
            snprintf(uri, sizeof(uri), "it://%d", i);
            if (round == 0)
                harness_watch(&f->harness, uri);
        }
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(uri, sizeof(uri), "it://%d", i);
        harness_wait(&f->harness, CHANGED, uri);
    }
}

/* ---- Variables, parts, proxies ------------------------------------------ */

static void values_cannot_leave_their_place(void **state) {
    static const struct {
        const char *uri, *path; /* NULL: nothing is asked */
    } cases[] = {
        {"it://7/a", "/x/7?q=a"},
        {"it://a%20b/c%26d%3De", "/x/a%20b?q=c%26d%3De"},
        {"it://a%2Fb/q", "/x/a%2Fb?q=q"},
        {"it://%3Fa%23b/%23", "/x/%3Fa%23b?q=%23"},
        {"it://%40host%3A80/%0D%0AX", "/x/%40host%3A80?q=%0D%0AX"},
        {"it://%C3%A4/..", "/x/%C3%A4?q=.."},
        {"it://../x", NULL},
        {"it://%2E%2E/x", NULL},
        {"it://./x", NULL},
        {"it://..%2F..%2Fadmin/x", NULL},
        {"it://a%2F..%2Fadmin/x", NULL},
        {"it://a%5C..%5Cadmin/x", NULL},
        {"it://%00/x", NULL},
    };
    struct fixture *f = *state;
    size_t asked = 0;
    char yaml[256];

    snprintf(yaml, sizeof(yaml),
             "http: 'http://127.0.0.1:%d/x/{id}?q={q}'\nuri: 'it://{id}/{q}'\n",
             http_server_port(f->server));
    page_open_yaml(f, yaml);
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (cases[i].path != NULL)
            http_server_set(f->server, cases[i].path, &(struct page){.body = "found"});

        struct reading reading = harness_read(&f->harness, cases[i].uri);

        printf("# %s: %d\n", cases[i].uri, reading.status);
        assert_int_equal(reading.status, cases[i].path != NULL ? 0 : TDG_ENOTFOUND);
        asked += cases[i].path != NULL;
        assert_int_equal(http_server_count(f->server, NULL), asked);
        reading_done(&reading);
    }
}

static void a_part_is_all_that_counts(void **state) {
    struct fixture *f = *state;
    size_t count;

    page_open(f, "every: 100ms\npointer: /items/0\n");
    page_set(f, (struct page){.body = "{\"at\": 1, \"items\": [{\"b\": 1.10, \"a\": [1, "
                                      "null, \"\xc3\xa4\"]}]}"});
    harness_expect(&f->harness, PAGE, "{\"a\":[1,null,\"\xc3\xa4\"],\"b\":1.1}");
    harness_watch(&f->harness, PAGE);

    /* Other parts, blanks, and the order of names. */
    page_set(f, (struct page){.body = "{\"items\":[{\"a\":[1,null,\"\xc3\xa4\"],"
                                      "\"b\":1.1}],\"at\":2}"});
    count = http_server_count(f->server, "/page");
    page_wait_asked(f, count + 3);
    assert_int_equal(harness_count(&f->harness, CHANGED, NULL), 0);

    page_set(f, (struct page){.body = "{\"items\":[\"other\"]}"});
    harness_wait_for_text(&f->harness, PAGE, "\"other\"");

    struct reading reading = harness_read(&f->harness, PAGE);

    assert_string_equal(reading.mime_type, "application/json");
    reading_done(&reading);
    page_set(f, (struct page){.body = "{\"items\":[]}", .etag = "\"none\""});
    harness_wait(&f->harness, DELETED, PAGE);
    count = http_server_not_modified(f->server);
    page_expect_failure(f, TDG_ENOTFOUND, "pointer"); /* also from what is kept */
    assert_true(http_server_not_modified(f->server) > count);
    page_set(f, (struct page){.body = "<html>"});
    harness_wait(&f->harness, CHANGED, PAGE);
    page_expect_failure(f, TDG_EINVAL, "JSON");
    page_set(f, (struct page){.body = ""});
    page_expect_failure(f, TDG_EINVAL, "JSON");
}

static void closing_waits_for_the_part(void **state) {
    enum { VALUES = 400000 };
    struct fixture *f = *state;
    struct reading reading;
    char *many = malloc(2 * VALUES + 2);

    for (size_t i = 0; i < VALUES; i++)
        memcpy(many + 2 * i, i == 0 ? "[1" : ",1", 2);
    memcpy(many + 2 * VALUES, "]", 2);
    page_open(f, "pointer: /0\n");
    page_set(f, (struct page){.body = many});
    free(many);
    harness_start_read(&f->harness, PAGE, &reading);
    page_wait_asked(f, 1);
    page_wait_open(f, 0); /* all is here, and a thread has begun to read it */
    page_close(f);
    assert_true(reading.done);
    reading_done(&reading);
}

static void a_proxy_is_used_only_where_one_is_named(void **state) {
    struct fixture *f = *state;
    char yaml[256], proxy[64];

    snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", http_server_port(f->other));
    setenv("http_proxy", proxy, 1);
    setenv("ALL_PROXY", proxy, 1);
    setenv("no_proxy", "*", 1);
    page_open(f, "");
    page_set(f, (struct page){.body = "direct"});
    harness_expect(&f->harness, PAGE, "direct");
    page_close(f);
    assert_int_equal(http_server_count(f->other, NULL), 0);

    snprintf(yaml, sizeof(yaml),
             "http: http://name.invalid/x\nuri: " PAGE "\nproxy: %s\n", proxy);
    http_server_set(f->other, "http://name.invalid/x",
                    &(struct page){.body = "by proxy"});
    page_open_yaml(f, yaml);
    harness_expect(&f->harness, PAGE, "by proxy");
    unsetenv("http_proxy");
    unsetenv("ALL_PROXY");
    unsetenv("no_proxy");
}

/* ---- Memory, config ----------------------------------------------------- */

static bool is_done(void *reading) {
    return ((struct reading *)reading)->done;
}

static void says_when_memory_is_out(void **state) {
    struct fixture *f = *state;
    bool failed = true;
    size_t live;

    memory_count();
    page_open(f, "every: 1h\nheaders: {X-Key: a}\n");
    page_set(f, (struct page){.body = "some text", .etag = "\"a\""});
    harness_expect(&f->harness, PAGE, "some text");
    for (int watched = 0; watched < 2; watched++) {
        if (watched == 1)
            harness_watch(&f->harness, PAGE);
        live = memory_live();
        failed = true;
        for (size_t n = 1; failed; n++) {
            struct reading reading;

            assert_true(n < 1000);
            memory_fail(n, MEMORY_ONCE);
            harness_start_read(&f->harness, PAGE, &reading);
            harness_until(&f->harness, is_done, &reading);
            failed = memory_failed();
            memory_fail(0, MEMORY_ONCE);
            assert_true(reading.status == 0 || (failed && reading.status == TDG_ENOMEM) ||
                        (failed && reading.status == TDG_EUNREACHABLE));
            if (reading.status == 0)
                assert_string_equal(reading.data, "some text");
            reading_done(&reading);
        }
        if (watched == 0)
            assert_int_equal(memory_live(), live);
    }
}

static void the_config_is_checked(void **state) {
    (void)state;
    harness_refuses("http: http://a/\n", "needs a uri");
    harness_refuses("http: a/b\nuri: x:y\n", "begins with http");
    harness_refuses("http: ftp://a/b\nuri: x:y\n", "begins with http");
    harness_refuses("http: file:///etc/passwd\nuri: x:y\n", "begins with http");
    harness_refuses("http: 'http://'\nuri: x:y\n", "begins with http");
    harness_refuses("http: http://me:secret@a/\nuri: x:y\n", "user name");
    harness_refuses("http: http://a/#b\nuri: x:y\n", "fragment");
    harness_refuses("http: http://a/b/../c\nuri: x:y\n", "segment");
    harness_refuses("http: 'http://a/{id}'\nuri: x:y\n", "no variable {id}");
    harness_refuses("http: 'http://a/{ie}'\nuri: 'x:{id}'\n", "no variable {ie}");
    harness_refuses("http: 'http://{id}/'\nuri: 'x:{id}'\n", "scheme, host or port");
    harness_refuses("http: 'http://a:{id}/'\nuri: 'x:{id}'\n", "scheme, host or port");
    harness_refuses("http: 'http://a/{id'\nuri: 'x:{id}'\n", "written {name}");
    harness_refuses("http: 'http://a/}'\nuri: 'x:{id}'\n", "written {name}");
    harness_refuses("http: http://a/\nuri: x:y\nevery: 1ms\n", "every");
    harness_refuses("http: http://a/\nuri: x:y\npointer: a\n", "begins with '/'");
    harness_refuses("http: http://a/\nuri: x:y\nproxy: ftp://a\n", "socks5");
    harness_refuses("http: http://a/\nuri: x:y\nheaders: {'a b': c}\n", "no name");
    harness_refuses("http: http://a/\nuri: x:y\nheaders: {a: \"b\\r\\nc: d\"}\n", "line");
    harness_refuses("http: http://a/\nuri: x:y\nheaders: {a: ' '}\n", "no value");
    harness_refuses("http: http://a/\nuri: x:y\nheaders: {host: b}\n", "itself");
    harness_refuses("http: http://a/\nuri: x:y\nfollow-redirects: maybe\n", "same-host");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PAGE_TEST(reads_a_page),
        PAGE_TEST(an_empty_page_is_content),
        PAGE_TEST(an_encoded_page_is_decoded),
        PAGE_TEST(secrets_of_the_url_are_not_shown),
        PAGE_TEST(a_watched_page_is_polled),
        PAGE_TEST(nobody_watches_and_nothing_is_asked),
        PAGE_TEST(asks_whether_it_has_changed),
        PAGE_TEST(a_date_counts_once_its_second_is_over),
        PAGE_TEST(a_304_that_nobody_asked_for_is_asked_again),
        PAGE_TEST(a_page_comes_and_goes),
        PAGE_TEST(many_are_watched_at_once),
        PAGE_TEST(values_cannot_leave_their_place),
        PAGE_TEST(a_part_is_all_that_counts),
        PAGE_TEST(closing_waits_for_the_part),
        PAGE_TEST(a_proxy_is_used_only_where_one_is_named),
        PAGE_TEST(the_config_is_checked),
        PAGE_TEST(says_when_memory_is_out), /* the last: from here on memory is counted */
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
