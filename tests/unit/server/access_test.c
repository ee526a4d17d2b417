/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <unistd.h>

#include "net/net.h"
#include "served.h"
#include "server/http/http.h"

static void by_default_a_loopback_listener_takes_loopback_names(void **state) {
    static const char *const fine[] = {"localhost",
                                       "LocalHost",
                                       "localhost:80",
                                       "127.0.0.1",
                                       "127.0.0.1:1",
                                       "127.0.0.2",
                                       "[::1]",
                                       "[::1]:65535",
                                       "localhost:",
                                       "127.0.0.2:80",
                                       "[0:0:0:0:0:0:0:1]:80",
                                       "[::ffff:127.0.0.1]"};
    static const char *const bad[] = {"",
                                      "example.com",
                                      "localhost.evil",
                                      "127.evil",
                                      "localhost:80:80",
                                      "::1",
                                      "[::1",
                                      "localhost:80evil",
                                      "evil:localhost",
                                      "[::1]evil",
                                      "localhost/",
                                      "127.0.0.1@evil",
                                      "10.0.0.1",
                                      "[::2]",
                                      "[127.0.0.1]"};
    const tdg__listener_t listener = {.loopback = true};

    (void)state;
    for (size_t i = 0; i < COUNT(fine); i++)
        assert_true(tdg__listener_allows_host(&listener, fine[i]));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(tdg__listener_allows_host(&listener, bad[i]));
}

static void by_default_others_take_addresses_and_the_machine_and_no_page(void **state) {
    static const char *const fine[] = {"localhost:80",     "127.0.0.1", "10.1.2.3:8808",
                                       "[fe80::1]:80",     "[::1]",     "This-Machine",
                                       "THIS-machine:8808"};
    static const char *const bad[] = {"example.com",
                                      "example.com:80",
                                      "this-machine.evil",
                                      "10.1.2.3.evil.example",
                                      "",
                                      ":80",
                                      "::1",
                                      "[this-machine]",
                                      "10.1.2",
                                      "[10.1.2.3]"};
    const tdg__listener_t listener = {.machine = "this-machine"};

    (void)state;
    for (size_t i = 0; i < COUNT(fine); i++)
        assert_true(tdg__listener_allows_host(&listener, fine[i]));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(tdg__listener_allows_host(&listener, bad[i]));
    assert_false(tdg__listener_allows_origin(&listener, "http://localhost"));
    assert_false(tdg__listener_allows_origin(&listener, "https://example.com"));
}

static void by_default_pages_of_this_machine_may_call(void **state) {
    static const char *const fine[] = {"http://localhost", "http://localhost:5173",
                                       "https://127.0.0.1:1", "http://[::1]:80"};
    static const char *const bad[] = {"null",
                                      "",
                                      "localhost",
                                      "http://example.com",
                                      "http://localhost.evil",
                                      "http://evil/localhost",
                                      "http://localhost@evil",
                                      "http://"};
    const tdg__listener_t listener = {.loopback = true};

    (void)state;
    for (size_t i = 0; i < COUNT(fine); i++)
        assert_true(tdg__listener_allows_origin(&listener, fine[i]));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(tdg__listener_allows_origin(&listener, bad[i]));
}

static void addresses_are_allowed_however_they_are_written(void **state) {
    char a[] = "[::1]", b[] = "10.0.0.1:80", c[] = "[2001:DB8::1]:80";
    char *hosts[] = {a, b, c, NULL};
    static const char *const fine[] = {"[0:0:0:0:0:0:0:1]:9921", "[::1]",
                                       "[::ffff:10.0.0.1]:80", "[2001:db8:0::1]:80"};
    static const char *const bad[] = {
        "[::2]", "::1", "[2001:db8:0::1]", "10.0.0.1", "[2001:db8:0::1]:81", "localhost"};
    const tdg__listener_t listener = {.hosts = hosts, .loopback = true};

    (void)state;
    for (size_t i = 0; i < COUNT(fine); i++)
        assert_true(tdg__listener_allows_host(&listener, fine[i]));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(tdg__listener_allows_host(&listener, bad[i]));
}

static void lists_take_the_place_of_the_default(void **state) {
    char a[] = "api.example.com", b[] = "other:8080", c[] = "https://app.example.com";
    char *hosts[] = {a, b, NULL}, *origins[] = {c, NULL}, *none[] = {NULL};
    const tdg__listener_t listener = {
        .hosts = hosts, .origins = origins, .loopback = true};
    const tdg__listener_t nobody = {.hosts = none, .origins = none, .loopback = true};

    (void)state;
    assert_true(tdg__listener_allows_host(&listener, "api.example.com"));
    assert_true(tdg__listener_allows_host(&listener, "API.example.com:443"));
    assert_true(tdg__listener_allows_host(&listener, "other:8080"));
    assert_false(tdg__listener_allows_host(&listener, "other:8081"));
    assert_false(tdg__listener_allows_host(&listener, "other"));
    assert_false(tdg__listener_allows_host(&listener, "localhost"));
    assert_true(tdg__listener_allows_origin(&listener, "https://app.example.com"));
    assert_false(tdg__listener_allows_origin(&listener, "http://app.example.com"));
    assert_false(tdg__listener_allows_origin(&listener, "https://app.example.com:1"));
    assert_false(tdg__listener_allows_origin(&listener, "http://localhost"));
    assert_false(tdg__listener_allows_host(&nobody, "localhost"));
    assert_false(tdg__listener_allows_origin(&nobody, "http://localhost"));
}

static void a_star_is_anybody(void **state) {
    char star[] = "*";
    char *any[] = {star, NULL};
    const tdg__listener_t listener = {.hosts = any, .origins = any, .loopback = true};

    (void)state;
    assert_true(tdg__listener_allows_host(&listener, "example.com"));
    assert_true(tdg__listener_allows_origin(&listener, "https://example.com"));
    assert_true(tdg__listener_allows_origin(&listener, "null"));
}

/* Over the wire: 403, and for pages the header that lets them read the answer. */
static void strangers_get_403(void **state) {
    struct client client;
    struct served served;
    char value[256];

    (void)state;
    served_open(&served, NULL, NULL);
    served_client(&served, &client);
    client_send(&client, "GET /mcp HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_int_equal(client_response(&client), 403);
    client_connect(&client, served.port);
    client_request(&client, "GET", "/mcp", "Origin: http://evil.example\r\n", NULL);
    assert_int_equal(client_response(&client), 403);
    client_connect(&client, served.port);
    client_request(&client, "OPTIONS", "/mcp", "Origin: http://localhost:1\r\n", NULL);
    assert_int_equal(client_response(&client), 204);
    client_header(&client, "Access-Control-Allow-Origin", value);
    assert_string_equal(value, "http://localhost:1");
    client_done(&client);
    served_close(&served);
}

/* However the address is written, what the socket is bound to decides. */
static void the_bound_address_decides(void **state) {
    static const struct {
        const char *host, *call;
        bool loopback;
    } rows[] = {
        {"127.0.0.1", "127.0.0.1", true}, {"127.3.2.1", "127.3.2.1", true},
        {"0:0:0:0:0:0:0:1", "::1", true}, {"::ffff:127.0.0.1", "127.0.0.1", true},
        {"0.0.0.0", "127.0.0.1", false},  {"::", "127.0.0.1", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint16_t port;
        int fd;

        if (tdg__net_bind(rows[i].host, 0, false, &fd, &port) < 0)
            continue; /* a machine without IPv6 */
        assert_int_equal(tdg__net_bound_to_loopback(fd), rows[i].loopback);
        assert_int_equal(tdg__net_is_loopback(rows[i].host), rows[i].loopback);
        close(fd);
    }
}

static void on_another_address_the_refusal_says_what_to_do(void **state) {
    tdg_listen_opts_t http = {.host = "0.0.0.0"};
    char machine[256] = "", text[400];
    struct client client;
    struct served served;

    (void)state;
    served_create(&served, NULL);
    assert_int_equal(tdg_server_listen(served.server, &http), 0);
    served.port = tdg_server_port(served.server, 0);
    assert_int_equal(tdg_server_start(served.server), 0);
    served_client(&served, &client);
    client_send(&client, "GET /health HTTP/1.1\r\nHost: rebound.example\r\n\r\n");
    assert_int_equal(client_response(&client), 403);
    assert_body(&client, "allowed-hosts");
    assert_int_equal(gethostname(machine, sizeof(machine) - 1), 0);
    snprintf(text, sizeof(text), "GET /health HTTP/1.1\r\nHost: %s:80\r\n\r\n", machine);
    client_send(&client, text);
    assert_int_equal(client_response(&client), 200);
    client_done(&client);
    served_close(&served);
}

static void a_stream_is_for_those_who_accept_one(void **state) {
    static const struct {
        const char *accept;
        bool fine;
    } rows[] = {
        {"text/event-stream", true},
        {"*/*", true},
        {"text/*", true},
        {"application/json", false},
        {"text/event-stream;q=0", false},
        {"text/event-stream ; Q=0.000", false},
        {"text/event-stream;a=b;\tq=0 ", false},
        {"text/event-stream;q=0.001", true},
        {"text/event-stream;q=0.5", true},
        {"text/event-stream;freq=0", true},
        {"text/event-stream;freq=0;q=0", false},
        {"text/event-stream;q=", true},
        {"text/event-stream;q=.", true},
        {"text/event-stream;q=0, */*", true},
        {"text/event-stream;", true},
        {"application/json, text/event-stream;freq=0", true},
    };
    struct client client;
    struct served served;

    (void)state;
    served_open(&served, NULL, NULL);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char request[200];

        snprintf(request, sizeof(request),
                 "GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\n\r\n",
                 rows[i].accept);
        served_client(&served, &client);
        client_send(&client, request);
        assert_int_equal(client_response(&client), rows[i].fine ? 200 : 406);
        client_done(&client);
    }
    served_close(&served);
}

static void expect_health(struct client *client, const char *method, const char *body) {
    char length[256];

    client_request(client, method, "/health", NULL, NULL);
    if (strcmp(method, "HEAD") == 0) { /* the client would wait for a body */
        WAIT_UNTIL(client, client->data != NULL && strstr(client->data, "\r\n\r\n"));
        assert_memory_equal(client->data, "HTTP/1.1 200 OK\r\n", 17);
        assert_true(strstr(client->data, "\r\n\r\n")[4] == '\0');
        return;
    }
    assert_int_equal(client_response(client), 200);
    assert_string_equal(client->body, body);
    client_header(client, "Cache-Control", length);
    assert_string_equal(length, "no-store");
}

static void who_looks_after_the_server_finds_it_well(void **state) {
    static const unsigned flags[] = {0, TDG_NO_LEGACY, TDG_NO_MODERN};
    struct client client;
    struct served served;
    char allow[256];

    (void)state;
    for (size_t i = 0; i < COUNT(flags); i++) {
        const tdg_server_opts_t opts = {.flags = flags[i]};

        served_open(&served, &opts, NULL);
        served_client(&served, &client);
        expect_health(&client, "GET", "ok\n");
        client_request(&client, "POST", "/health", NULL, "{}");
        assert_int_equal(client_response(&client), 405);
        client_header(&client, "Allow", allow);
        assert_string_equal(allow, "GET, HEAD, OPTIONS");
        client_request(&client, "HEAD", "/mcp", NULL, NULL);
        assert_int_equal(client_response(&client), 200);
        expect_health(&client, "HEAD", "");
        client_connect(&client, served.port);
        client_send(&client, "GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
        assert_int_equal(client_response(&client), 403);
        client_done(&client);
        served_close(&served);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_default_a_loopback_listener_takes_loopback_names),
        cmocka_unit_test(by_default_others_take_addresses_and_the_machine_and_no_page),
        cmocka_unit_test(the_bound_address_decides),
        cmocka_unit_test(on_another_address_the_refusal_says_what_to_do),
        cmocka_unit_test(by_default_pages_of_this_machine_may_call),
        cmocka_unit_test(lists_take_the_place_of_the_default),
        cmocka_unit_test(addresses_are_allowed_however_they_are_written),
        cmocka_unit_test(a_star_is_anybody),
        cmocka_unit_test(strangers_get_403),
        cmocka_unit_test(a_stream_is_for_those_who_accept_one),
        cmocka_unit_test(who_looks_after_the_server_finds_it_well),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
