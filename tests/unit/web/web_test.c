/* SPDX-License-Identifier: MIT
 *
 * Exchanges with a real server, which also behaves badly. Nothing waits for time to pass,
 * but where a time-out is what is tested. */
#include "web/web.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support.h"
#include "unit/client/peer.h"

enum { DEADLINE_MS = 60000, LONG_MS = 120000 };

/* ---- One exchange ------------------------------------------------------- */

enum when { NEVER, AT_HEAD, AT_DATA, AT_DONE };

struct fixture;

struct talk {
    struct fixture *f;
    tdg__web_exchange_t *exchange;
    enum when cancel_at, close_at, begin_at; /* from inside of that call */
    struct talk *next;                       /* what `begin_at` begins */
    const char *next_url;

    int heads, ends;
    int status;
    char type[128], session[128], url[512];
    int64_t retry_after_ms;
    unsigned hops;
    tdg__web_unfollowed_t unfollowed;
    int64_t connected_us;
    char lines[2048]; /* of heads, where they were wished for */
    char body[1 << 17];
    size_t len, pieces;
    int code;
    char error[512];
    bool sent;
};

struct fixture {
    uv_loop_t loop;
    uv_timer_t deadline;
    tdg__web_t *web;
    peer_t *peer;
    bool closed, closing, too_late;
    char path[64]; /* of a token file */
    struct talk talk, other;
};

static void on_closed(void *arg) {
    ((struct fixture *)arg)->closed = true;
}

static void close_web(struct fixture *f) {
    if (f->closing)
        return;
    f->closing = true;
    tdg__web_close(f->web, on_closed, f);
}

static void begin(struct fixture *f, struct talk *talk,
                  const tdg__web_request_t *request);
static const char *url_of(struct fixture *f, const char *path);

static void act(struct talk *talk, enum when now) {
    if (talk->begin_at == now)
        begin(talk->f, talk->next,
              &(tdg__web_request_t){.method = TDG__WEB_GET, .url = talk->next_url});
    if (talk->cancel_at == now)
        tdg__web_exchange_cancel(talk->exchange);
    if (talk->close_at == now)
        close_web(talk->f);
}

static void copy_text(char *out, size_t room, const char *text) {
    snprintf(out, room, "%s", text != NULL ? text : "(null)");
}

static void on_head(void *user, const tdg__web_head_t *head) {
    struct talk *talk = user;

    assert_int_equal(talk->ends, 0);
    talk->heads++;
    talk->status = head->status;
    talk->retry_after_ms = head->retry_after_ms;
    talk->hops = head->hops;
    talk->unfollowed = head->unfollowed;
    talk->connected_us = head->connected_us;
    copy_text(talk->type, sizeof(talk->type), head->content_type);
    copy_text(talk->session, sizeof(talk->session), head->session);
    copy_text(talk->url, sizeof(talk->url), head->url);
    act(talk, AT_HEAD);
}

static void on_data(void *user, const char *data, size_t len) {
    struct talk *talk = user;

    assert_int_equal(talk->heads, 1);
    assert_int_equal(talk->ends, 0);
    assert_true(len > 0);
    if (talk->len + len < sizeof(talk->body)) {
        memcpy(talk->body + talk->len, data, len);
        talk->len += len;
        talk->body[talk->len] = '\0';
    }
    talk->pieces++;
    act(talk, AT_DATA);
}

static void on_done(void *user, const tdg__web_end_t *end) {
    struct talk *talk = user;

    assert_int_equal(++talk->ends, 1);
    assert_true((end->code == 0) == (end->error == NULL));
    talk->code = end->code;
    talk->sent = end->sent;
    copy_text(talk->error, sizeof(talk->error), end->error);
    assert_null(strpbrk(talk->error, "\r\n"));
    act(talk, AT_DONE);
}

static const tdg__web_exchange_calls_t calls = {on_head, on_data, on_done};

static void begin(struct fixture *f, struct talk *talk,
                  const tdg__web_request_t *request) {
    talk->f = f;
    assert_int_equal(
        tdg__web_exchange_begin(f->web, request, &calls, talk, &talk->exchange), 0);
    assert_int_equal(talk->heads + talk->ends, 0); /* never from inside */
}

/* ---- The loop ----------------------------------------------------------- */

static void on_deadline(uv_timer_t *timer) {
    ((struct fixture *)timer->data)->too_late = true;
}

static void run_until(struct fixture *f, bool (*enough)(struct fixture *f)) {
    uv_timer_start(&f->deadline, on_deadline, DEADLINE_MS, 0);
    while (!enough(f)) {
        assert_false(f->too_late);
        uv_run(&f->loop, UV_RUN_ONCE);
    }
    uv_timer_stop(&f->deadline);
}

static bool has_ended(struct fixture *f) {
    return f->talk.ends > 0;
}

static bool has_head(struct fixture *f) {
    return f->talk.heads > 0;
}

static bool is_closed(struct fixture *f) {
    return f->closed;
}

static void make_web(struct fixture *f, const tdg__web_opts_t *opts) {
    tdg__web_opts_t wide = *opts;

    if (wide.connect_timeout_ms == 0)
        wide.connect_timeout_ms = LONG_MS;
    if (wide.agent == NULL)
        wide.agent = "test/1";
    assert_int_equal(tdg__web_create(&f->loop, &wide, &f->web), 0);
    f->closed = f->closing = false;
}

/* Another one in the place of the fixture's. */
static void remake_web(struct fixture *f, const tdg__web_opts_t *opts) {
    close_web(f);
    run_until(f, is_closed);
    make_web(f, opts);
}

static bool answer(peer_visit_t *visit, const char *path, const char *head,
                   const char *body);

static int setup_with(void **state, bool tls) {
    struct fixture *f = state_create(state, sizeof(*f));

    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->deadline);
    f->deadline.data = f;
    f->peer = peer_start(answer, tls);
    make_web(f, &(tdg__web_opts_t){.headers = NULL});
    return 0;
}

static int setup(void **state) {
    return setup_with(state, false);
}

static int setup_tls(void **state) {
    return setup_with(state, true);
}

static int teardown(void **state) {
    struct fixture *f = *state;

    memory_fail(0, MEMORY_ONCE);
    close_web(f);
    run_until(f, is_closed);
    uv_close((uv_handle_t *)&f->deadline, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    peer_stop(f->peer);
    if (f->path[0] != '\0')
        unlink(f->path);
    return state_destroy(state);
}

static const char *url_of(struct fixture *f, const char *path) {
    static char url[512];

    snprintf(url, sizeof(url), "%s://127.0.0.1:%d%s",
             peer_ca_file(f->peer)[0] != '\0' ? "https" : "http", peer_port(f->peer),
             path);
    return url;
}

static void get(struct fixture *f, const char *path) {
    memset(&f->talk, 0, sizeof(f->talk));
    begin(f, &f->talk,
          &(tdg__web_request_t){.method = TDG__WEB_GET,
                                .url = url_of(f, path),
                                .accept = "text/event-stream"});
}

static void get_all(struct fixture *f, const char *path) {
    get(f, path);
    run_until(f, has_ended);
}

static void post_all(struct fixture *f, const char *path, const char *body) {
    memset(&f->talk, 0, sizeof(f->talk));
    begin(f, &f->talk,
          &(tdg__web_request_t){.url = url_of(f, path),
                                .accept = "application/json, text/event-stream",
                                .body = body,
                                .body_len = strlen(body)});
    run_until(f, has_ended);
}

/* ---- What the server does ----------------------------------------------- */

static bool say(peer_visit_t *visit, const char *status, const char *headers,
                const char *body) {
    char head[1024];

    snprintf(head, sizeof(head), "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n", status,
             headers, strlen(body));
    return peer_send(visit, head) && peer_send(visit, body);
}

static bool redirect(peer_visit_t *visit, const char *status, const char *to) {
    char header[512];

    snprintf(header, sizeof(header), "Location: %s\r\n", to);
    return say(visit, status, header, "moved");
}

static bool elsewhere(peer_visit_t *visit, const char *path) {
    char to[256];

    snprintf(to, sizeof(to), "http://localhost:%d%s", peer_of(visit), path);
    return redirect(visit, "307 Temporary Redirect", to);
}

static bool pieces(peer_visit_t *visit) {
    static const char *const parts[] = {
        ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
         "Transfer-Encoding: chunked\r\n\r\n"),
        "8\r\ndata: a\n\r\n",
        "1\r\n\n\r\n",
        "9\r\ndata: b\n\n\r\n",
        "0\r\n\r\n",
    };

    for (size_t i = 0; i < COUNT(parts); i++)
        if (!peer_send(visit, parts[i]) || (i < 4 && !peer_wait(visit)))
            return false;
    return true;
}

static bool flood_of_headers(peer_visit_t *visit) {
    bool ok = peer_send(visit, "HTTP/1.1 200 OK\r\n");

    for (int i = 0; i < 100000 && ok; i++)
        ok = peer_send(visit, "X-Filler: 0123456789012345678901234567890123456789\r\n");
    return false;
}

/* Never silent, never done. */
static bool dribble(peer_visit_t *visit) {
    bool ok = peer_send(visit, "HTTP/1.1 200 OK\r\nX-Slow: ");

    while (ok) {
        ok = peer_send(visit, "x");
        usleep(20000);
    }
    return false;
}

static bool large(peer_visit_t *visit) {
    enum { LEN = 100000 };
    char *body = malloc(LEN + 1);
    bool ok;

    memset(body, 'x', LEN);
    body[LEN] = '\0';
    ok = say(visit, "200 OK", "", body);
    free(body);
    return ok;
}

static bool answer(peer_visit_t *visit, const char *path, const char *head,
                   const char *body) {
    static const struct {
        const char *path, *status, *headers, *body;
    } pages[] = {
        {"/json", "200 OK",
         "Content-Type: Application/JSON; charset=utf-8\r\nMcp-Session-Id: s-1\r\n",
         "{\"a\":1}"},
        {"/empty", "202 Accepted", "", ""},
        {"/busy", "503 Busy", "Retry-After: 7\r\n", "later"},
        {"/dated", "503 Busy",
         "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:50:37 "
         "GMT\r\n",
         ""},
        {"/who", "401 Unauthorized", "WWW-Authenticate: Bearer realm=\"x\"\r\n", "who?"},
        {"/302", "302 Found", "Location: /json\r\n", "there"},
        {"/307", "307 Temporary Redirect", "Location: /json\r\n", "there"},
        {"/308", "308 Permanent Redirect", "Location: /json\r\n", "there"},
        {"/bare", "307 Temporary Redirect", "", "nowhere"},
        {"/file", "307 Temporary Redirect", "Location: file:///etc/passwd\r\n", "no"},
        {"/loop", "307 Temporary Redirect", "Location: /loop\r\n", "round"},
        {"/gzip", "200 OK", "Content-Encoding: gzip\r\n", "not really"},
    };

    for (size_t i = 0; i < COUNT(pages); i++)
        if (strcmp(pages[i].path, path) == 0)
            return say(visit, pages[i].status, pages[i].headers, pages[i].body);
    if (strcmp(path, "/echo") == 0)
        return say(visit, "200 OK", "", body);
    if (strcmp(path, "/picky") == 0)
        return strstr(head, "Expect:") != NULL
                   ? say(visit, "417 Expectation Failed", "", "never heard of it")
                   : say(visit, "200 OK", "", body);
    if (strcmp(path, "/elsewhere") == 0)
        return elsewhere(visit, "/json");
    if (strcmp(path, "/pieces") == 0)
        return pieces(visit);
    if (strcmp(path, "/large") == 0)
        return large(visit);
    if (strcmp(path, "/headers") == 0)
        return flood_of_headers(visit);
    if (strcmp(path, "/dribble") == 0)
        return dribble(visit);
    if (strcmp(path, "/never") == 0)
        return peer_wait(visit) && false;
    if (strcmp(path, "/hangs") == 0)
        return peer_send(visit, "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\nsome") &&
               peer_wait(visit) && false;
    if (strcmp(path, "/slow-redirect") == 0)
        return peer_send(visit, "HTTP/1.1 307 There\r\nLocation: /json\r\n\r\nsome") &&
               peer_wait(visit) && false;
    if (strcmp(path, "/cut") == 0)
        return peer_send(visit, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome") &&
               false;
    if (strcmp(path, "/closes") == 0)
        return false;
    if (strcmp(path, "/garbage") == 0)
        return peer_send(visit, "220 mail.example ESMTP\r\n") && false;
    if (strcmp(path, "/switch") == 0)
        return peer_send(visit, "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nx") && false;
    if (strcmp(path, "/continue") == 0)
        return peer_send(visit, "HTTP/1.1 100 Continue\r\nMcp-Session-Id: x\r\n\r\n") &&
               say(visit, "200 OK", "", "after");
    return say(visit, "404 Not Found", "", "none");
}

/* ---- Answers ------------------------------------------------------------ */

static void an_answer_arrives_with_its_head(void **state) {
    struct fixture *f = *state;

    get_all(f, "/json");
    assert_int_equal(f->talk.code, 0);
    assert_int_equal(f->talk.status, 200);
    assert_string_equal(f->talk.type, "application/json");
    assert_string_equal(f->talk.session, "s-1");
    assert_string_equal(f->talk.url, url_of(f, "/json"));
    assert_int_equal(f->talk.retry_after_ms, -1);
    assert_string_equal(f->talk.body, "{\"a\":1}");
    assert_true(f->talk.sent);
}

static void a_request_has_what_was_wished(void **state) {
    struct fixture *f = *state;
    const tdg__web_field_t fields[] = {{"Mcp-Method", "tools/call"},
                                       {"Last-Event-ID", ""}};
    char *request;

    begin(f, &f->talk,
          &(tdg__web_request_t){.url = url_of(f, "/echo"),
                                .accept = "a/b",
                                .fields = fields,
                                .field_count = COUNT(fields),
                                .body = "{\"b\":2}",
                                .body_len = 7});
    run_until(f, has_ended);
    assert_string_equal(f->talk.body, "{\"b\":2}");
    request = peer_request(f->peer, "/echo", 0);
    assert_int_equal(strncmp(request, "POST /echo HTTP/1.1\r\n", 21), 0);
    assert_non_null(strstr(request, "\r\nAccept: a/b\r\n"));
    assert_non_null(strstr(request, "\r\nContent-Type: application/json\r\n"));
    assert_non_null(strstr(request, "\r\nContent-Length: 7\r\n"));
    assert_non_null(strstr(request, "\r\nMcp-Method: tools/call\r\n"));
    assert_non_null(strstr(request, "\r\nUser-Agent: test/1\r\n"));
    assert_null(strstr(request, "Last-Event-ID"));
    assert_null(strstr(request, "Expect")); /* that is for large ones */
    assert_null(strstr(request, "Accept-Encoding"));
    assert_null(strstr(request, "Authorization"));
    free(request);
}

/* Some servers know no expectation; the request is repeated without one. */
static void a_large_body_is_sent_without_an_expectation_that_is_refused(void **state) {
    enum { LARGE = 100000 };
    struct fixture *f = *state;
    char *large = malloc(LARGE + 1), *request;

    assert_non_null(large);
    memset(large, 'x', LARGE);
    large[LARGE] = '\0';
    begin(f, &f->talk,
          &(tdg__web_request_t){
              .url = url_of(f, "/picky"), .body = large, .body_len = LARGE});
    run_until(f, has_ended);
    assert_int_equal(f->talk.code, 0);
    assert_int_equal(f->talk.status, 200);
    assert_string_equal(f->talk.body, large);
    assert_int_equal(peer_count(f->peer, "/picky"), 2);
    request = peer_request(f->peer, "/picky", 0);
    assert_non_null(strstr(request, "\r\nExpect: 100-continue\r\n"));
    free(request);
    free(large);
}

static void delete_and_get_have_no_body(void **state) {
    struct fixture *f = *state;
    char *request;

    begin(f, &f->talk,
          &(tdg__web_request_t){.method = TDG__WEB_DELETE, .url = url_of(f, "/empty")});
    run_until(f, has_ended);
    assert_int_equal(f->talk.status, 202);
    request = peer_request(f->peer, "/empty", 0);
    assert_int_equal(strncmp(request, "DELETE /empty ", 14), 0);
    assert_null(strstr(request, "Content-"));
    free(request);
    get_all(f, "/json");
    request = peer_request(f->peer, "/json", 0);
    assert_int_equal(strncmp(request, "GET /json ", 10), 0);
    assert_null(strstr(request, "Content-"));
    free(request);
}

static void a_large_body_goes_and_comes(void **state) {
    enum { LEN = 60000 };
    struct fixture *f = *state;
    char *body = calloc(1, LEN + 1);

    memset(body, 'b', LEN);
    post_all(f, "/echo", body);
    assert_int_equal(f->talk.code, 0);
    assert_string_equal(f->talk.body, body);
    free(body);
    get_all(f, "/large");
    assert_int_equal(f->talk.len, 100000);
}

static bool has_first(struct fixture *f) {
    return f->talk.len >= strlen("data: a\n");
}

static void pieces_arrive_as_they_come(void **state) {
    struct fixture *f = *state;

    get(f, "/pieces");
    run_until(f, has_head);
    assert_string_equal(f->talk.type, "text/event-stream");
    assert_int_equal(f->talk.len, 0);
    peer_let(f->peer, 1);
    run_until(f, has_first);
    assert_string_equal(f->talk.body, "data: a\n");
    assert_int_equal(f->talk.ends, 0);
    peer_let(f->peer, 3);
    run_until(f, has_ended);
    assert_int_equal(f->talk.code, 0);
    assert_string_equal(f->talk.body, "data: a\n\ndata: b\n\n");
}

static void other_statuses_are_answers(void **state) {
    struct fixture *f = *state;

    get_all(f, "/busy");
    assert_int_equal(f->talk.code, 0);
    assert_int_equal(f->talk.status, 503);
    assert_int_equal(f->talk.retry_after_ms, 7000);
    assert_string_equal(f->talk.body, "later");
    get_all(f, "/dated");
    assert_int_equal(f->talk.retry_after_ms, 60000);
    get_all(f, "/who");
    assert_int_equal(f->talk.status, 401);
    get_all(f, "/continue");
    assert_int_equal(f->talk.heads, 1);
    assert_string_equal(f->talk.session, "(null)");
    assert_string_equal(f->talk.body, "after");
    get_all(f, "/gzip"); /* that nobody asked for: as it is */
    assert_string_equal(f->talk.body, "not really");
}

static void connections_are_kept_for_the_next(void **state) {
    struct fixture *f = *state;

    for (int i = 0; i < 20; i++) {
        post_all(f, "/echo", "x");
        assert_int_equal(f->talk.code, 0);
    }
    close_web(f);
    run_until(f, is_closed);
    assert_true(peer_alone(f->peer));
}

/* ---- Redirects ---------------------------------------------------------- */

static void redirects_307_and_308_are_followed_with_the_body(void **state) {
    struct fixture *f = *state;
    char *request;

    post_all(f, "/307", "{\"n\":1}");
    assert_int_equal(f->talk.heads, 1);
    assert_int_equal(f->talk.status, 200);
    assert_string_equal(f->talk.body, "{\"a\":1}");
    assert_string_equal(f->talk.url, url_of(f, "/json"));
    request = peer_request(f->peer, "/json", 0);
    assert_int_equal(strncmp(request, "POST ", 5), 0);
    assert_non_null(strstr(request, "{\"n\":1}"));
    free(request);
}

static void keep_line(void *user, const char *line, size_t len) {
    struct talk *talk = user;

    assert_int_equal(talk->heads, 0);
    strncat(talk->lines, line, len);
}

static void who_examines_a_server_sees_heads_hops_and_times(void **state) {
    struct fixture *f = *state;
    char *request;

    begin(f, &f->talk,
          &(tdg__web_request_t){.url = url_of(f, "/307"),
                                .body = "x",
                                .body_len = 1,
                                .content_type = "text/plain",
                                .line = keep_line});
    run_until(f, has_ended);
    assert_int_equal(f->talk.hops, 1);
    assert_true(f->talk.connected_us >= 0);
    assert_non_null(strstr(f->talk.lines, "HTTP/1.1 307"));
    assert_non_null(strstr(f->talk.lines, "HTTP/1.1 200"));
    assert_non_null(strstr(f->talk.lines, "Mcp-Session-Id: s-1\r\n"));
    request = peer_request(f->peer, "/json", 0);
    assert_non_null(strstr(request, "\r\nContent-Type: text/plain\r\n"));
    assert_null(strstr(request, "application/json"));
    free(request);
}

static void what_has_moved_for_good_is_request_at_its_new_place(void **state) {
    struct fixture *f = *state;

    for (int i = 0; i < 3; i++) {
        post_all(f, "/308", "{}");
        assert_int_equal(f->talk.status, 200);
    }
    assert_int_equal(peer_count(f->peer, "/308"), 1);
    assert_int_equal(peer_count(f->peer, "/json"), 3);
    for (int i = 0; i < 3; i++)
        post_all(f, "/307", "{}");
    assert_int_equal(peer_count(f->peer, "/307"), 3);
}

static void other_redirects_are_answers(void **state) {
    static const struct {
        const char *path;
        int status;
        const char *body;
    } cases[] = {
        {"/302", 302, "there"},       {"/bare", 307, "nowhere"}, {"/file", 307, "no"},
        {"/elsewhere", 307, "moved"}, {"/loop", 307, "round"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        post_all(f, cases[i].path, "{}");
        assert_int_equal(f->talk.code, 0);
        assert_int_equal(f->talk.heads, 1);
        assert_int_equal(f->talk.status, cases[i].status);
        assert_string_equal(f->talk.body, cases[i].body);
    }
    assert_int_equal(peer_count(f->peer, "/loop"), 6);
    assert_int_equal(peer_count(f->peer, "/json"), 0);
}

/* ---- Time and trouble --------------------------------------------------- */

static void limited(struct fixture *f, const char *path, uint32_t head_ms,
                    uint32_t quiet_ms, uint32_t total_ms) {
    memset(&f->talk, 0, sizeof(f->talk));
    begin(f, &f->talk,
          &(tdg__web_request_t){.method = TDG__WEB_GET,
                                .url = url_of(f, path),
                                .head_timeout_ms = head_ms,
                                .quiet_timeout_ms = quiet_ms,
                                .total_timeout_ms = total_ms});
    run_until(f, has_ended);
    assert_int_equal(f->talk.code, TDG_ETIMEDOUT);
    assert_true(f->talk.sent);
}

static void every_wait_has_a_limit(void **state) {
    struct fixture *f = *state;

    limited(f, "/never", 100, 0, 0);
    assert_int_equal(f->talk.heads, 0);
    assert_non_null(strstr(f->talk.error, "has not answered within 100 ms"));
    limited(f, "/never", 0, 1, 100);
    assert_non_null(strstr(f->talk.error, "has not sent everything within 100 ms"));
    limited(f, "/dribble", 200, 1000, 0);
    assert_int_equal(f->talk.heads, 0);
}

static void silence_has_a_limit(void **state) {
    struct fixture *f = *state;

    limited(f, "/hangs", LONG_MS, 100, LONG_MS);
    assert_int_equal(f->talk.heads, 1);
    assert_string_equal(f->talk.body, "some");
    assert_non_null(strstr(f->talk.error, "has sent nothing for 100 ms"));
    limited(f, "/hangs", LONG_MS, LONG_MS, 100);
    limited(f, "/slow-redirect", 100, 0, 0);
    assert_int_equal(f->talk.heads, 0);
    assert_true(peer_alone(f->peer));
}

static void the_limit_of_silence_can_be_changed(void **state) {
    struct fixture *f = *state;

    get(f, "/hangs"); /* without one */
    run_until(f, has_head);
    tdg__web_exchange_set_quiet(f->talk.exchange, 50);
    run_until(f, has_ended);
    assert_int_equal(f->talk.code, TDG_ETIMEDOUT);

    memset(&f->talk, 0, sizeof(f->talk));
    begin(f, &f->talk,
          &(tdg__web_request_t){.method = TDG__WEB_GET,
                                .url = url_of(f, "/pieces"),
                                .quiet_timeout_ms = LONG_MS});
    run_until(f, has_head);
    tdg__web_exchange_set_quiet(f->talk.exchange, 0);
    peer_let(f->peer, 4);
    run_until(f, has_ended);
    assert_int_equal(f->talk.code, 0);
}

/* A loop that was kept busy looks into the socket before it says that nothing came. */
static void a_busy_loop_is_not_taken_for_silence(void **state) {
    struct fixture *f = *state;
    uint32_t ms = 300;

    /* The peer is a thread of its own: where it has not answered, it gets more time. */
    do {
        size_t before = peer_count(f->peer, "/json");

        memset(&f->talk, 0, sizeof(f->talk));
        begin(f, &f->talk,
              &(tdg__web_request_t){.method = TDG__WEB_GET,
                                    .url = url_of(f, "/json"),
                                    .head_timeout_ms = ms});
        while (peer_count(f->peer, "/json") == before && !has_ended(f))
            uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(2 * ms * 1000);
        run_until(f, has_ended);
        ms *= 4;
    } while (f->talk.code == TDG_ETIMEDOUT && ms < 20000);
    assert_int_equal(f->talk.code, 0);
}

static void broken_answers_end_as_away(void **state) {
    static const struct {
        const char *path, *error;
        int heads;
    } cases[] = {
        {"/cut", "in the middle of its response", 1},
        {"/closes", "without a response", 0},
        {"/garbage", "does not speak HTTP", 0},
        {"/switch", "does not speak HTTP", 0},
        {"/headers", "headers from 127.0.0.1", 0},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        post_all(f, cases[i].path, "{}");
        if (f->talk.code != TDG_EUNREACHABLE || f->talk.heads != cases[i].heads ||
            strstr(f->talk.error, cases[i].error) == NULL)
            fail_msg("%s: %d, %s", cases[i].path, f->talk.code, f->talk.error);
        assert_true(f->talk.sent);
        assert_int_equal(peer_count(f->peer, cases[i].path), 1); /* not again */
    }
}

/* On a connection that was kept open libcurl would send the request once more. */
static void a_request_that_may_have_worked_is_not_repeated(void **state) {
    struct fixture *f = *state;

    for (int i = 0; i < 5; i++) {
        post_all(f, "/echo", "warm");
        post_all(f, "/closes", "{}");
        assert_int_equal(f->talk.code, TDG_EUNREACHABLE);
        assert_true(f->talk.sent);
        assert_int_equal(peer_count(f->peer, "/closes"), (size_t)i + 1);
    }
}

/* A port that nobody listens on. */
static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    close(fd);
    return ntohs(address.sin_port);
}

static void nobody_there_is_said_clearly(void **state) {
    struct fixture *f = *state;
    char url[128], expected[128];
    int port = free_port();

    snprintf(url, sizeof(url), "http://user:geheim@127.0.0.1:%d/mcp", port);
    snprintf(expected, sizeof(expected),
             "cannot connect to 127.0.0.1 port %d: Connection refused", port);
    begin(f, &f->talk, &(tdg__web_request_t){.url = url, .body = "{}", .body_len = 2});
    run_until(f, has_ended);
    assert_int_equal(f->talk.code, TDG_EUNREACHABLE);
    assert_string_equal(f->talk.error, expected);
    assert_false(f->talk.sent);
}

/* A socket of the test itself, with no peer behind it. */
static int listen_myself(struct sockaddr_in *address, char url[128]) {
    socklen_t len = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)address, len), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &len), 0);
    snprintf(url, 128, "http://127.0.0.1:%d/", ntohs(address->sin_port));
    return fd;
}

static struct {
    int listener, visitor;
    uint64_t until;
    uv_prepare_t prepare;
} flood;

static bool is_visited(struct fixture *f) {
    (void)f;
    flood.visitor = accept(flood.listener, NULL, NULL);
    return flood.visitor >= 0;
}

/* Before the loop looks at its sockets: there is something to read at every turn. */
static void fill(uv_prepare_t *prepare) {
    static const char much[1 << 16];

    (void)prepare;
    if (uv_hrtime() >= flood.until)
        shutdown(flood.visitor, SHUT_RDWR);
    while (send(flood.visitor, much, sizeof(much), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
    }
}

static void a_server_that_never_pauses_is_timed_out(void **state) {
    static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";
    struct fixture *f = *state;
    struct sockaddr_in address;
    char url[128];

    flood.listener = listen_myself(&address, url);
    begin(f, &f->talk,
          &(tdg__web_request_t){
              .method = TDG__WEB_GET, .url = url, .total_timeout_ms = 100});
    run_until(f, is_visited);
    assert_int_equal(send(flood.visitor, head, strlen(head), 0), strlen(head));
    flood.until = uv_hrtime() + UINT64_C(2000000000);
    uv_prepare_init(&f->loop, &flood.prepare);
    uv_prepare_start(&flood.prepare, fill);
    run_until(f, has_ended);
    uv_close((uv_handle_t *)&flood.prepare, NULL);
    close(flood.visitor);
    close(flood.listener);
    assert_int_equal(f->talk.code, TDG_ETIMEDOUT);
    assert_non_null(strstr(f->talk.error, "has not sent everything within 100 ms"));
}

static void connecting_has_a_limit(void **state) {
    struct fixture *f = *state;
    struct sockaddr_in address;
    socklen_t len = sizeof(address);
    char url[128];
    int fd = listen_myself(&address, url), full[8];

    /* A queue that is full does not answer. */
    remake_web(f, &(tdg__web_opts_t){.connect_timeout_ms = 200});
    for (size_t i = 0; i < COUNT(full); i++) {
        full[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(full[i], (struct sockaddr *)&address, len);
    }
    begin(f, &f->talk, &(tdg__web_request_t){.method = TDG__WEB_GET, .url = url});
    run_until(f, has_ended);
    assert_int_equal(f->talk.code, TDG_ETIMEDOUT);
    assert_non_null(strstr(f->talk.error, "no connection to 127.0.0.1 port"));
    assert_false(f->talk.sent);
    for (size_t i = 0; i < COUNT(full); i++)
        close(full[i]);
    close(fd);
}

/* ---- Cancelling and closing --------------------------------------------- */

static void cancelling_inside_any_call_is_safe(void **state) {
    static const char *const paths[] = {"/json", "/pieces", "/hangs", "/large"};
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(paths); i++)
        for (int when = AT_HEAD; when <= AT_DONE; when++) {
            if (when == AT_DONE && i > 0)
                continue;
            get(f, paths[i]);
            f->talk.cancel_at = (enum when)when;
            memset(&f->other, 0, sizeof(f->other));
            f->talk.begin_at = (enum when)when;
            f->talk.next = &f->other;
            f->talk.next_url = strdup(url_of(f, "/json"));
            if (i == 1)
                peer_let(f->peer, 4);
            while (f->other.ends == 0)
                uv_run(&f->loop, UV_RUN_ONCE);
            assert_int_equal(f->other.code, 0);
            assert_string_equal(f->other.body, "{\"a\":1}");
            assert_int_equal(f->talk.heads, 1);
            assert_int_equal(f->talk.ends, when == AT_DONE);
            assert_int_equal(f->talk.pieces > 0, when != AT_HEAD);
            free((char *)(uintptr_t)f->talk.next_url);
        }
}

static void cancelling_closes_the_connection(void **state) {
    struct fixture *f = *state;

    get(f, "/never");
    while (peer_count(f->peer, "/never") == 0)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    tdg__web_exchange_cancel(f->talk.exchange);
    assert_true(peer_alone(f->peer));
    assert_int_equal(f->talk.heads + f->talk.ends, 0);
    get(f, "/json");
    tdg__web_exchange_cancel(f->talk.exchange); /* before it could begin */
    get_all(f, "/json");
    assert_int_equal(f->talk.code, 0);
}

static void closing_inside_any_call_is_safe(void **state) {
    static const char *const paths[] = {"/json", "/hangs"};
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(paths); i++)
        for (int when = AT_HEAD; when <= (i == 0 ? AT_DONE : AT_DATA); when++) {
            get(f, paths[i]);
            f->talk.close_at = (enum when)when;
            memset(&f->other, 0, sizeof(f->other));
            begin(f, &f->other,
                  &(tdg__web_request_t){.method = TDG__WEB_GET,
                                        .url = url_of(f, "/never")});
            run_until(f, is_closed);
            assert_int_equal(f->talk.heads, 1);
            assert_int_equal(f->talk.ends, when == AT_DONE);
            assert_int_equal(f->other.heads + f->other.ends, 0);
            make_web(f, &(tdg__web_opts_t){.headers = NULL});
        }
}

static void closing_ends_what_runs_without_calls(void **state) {
    struct fixture *f = *state;

    get(f, "/hangs");
    run_until(f, has_head);
    memset(&f->other, 0, sizeof(f->other));
    begin(f, &f->other,
          &(tdg__web_request_t){.method = TDG__WEB_GET, .url = url_of(f, "/never")});
    close_web(f);
    run_until(f, is_closed);
    assert_int_equal(f->talk.ends + f->other.ends, 0);
    assert_true(peer_alone(f->peer));
    make_web(f, &(tdg__web_opts_t){.headers = NULL});
}

/* ---- Credentials -------------------------------------------------------- */

static void write_token(struct fixture *f, const char *text) {
    FILE *file;

    if (f->path[0] == '\0') {
        strcpy(f->path, P_tmpdir "/token-XXXXXX");
        close(mkstemp(f->path));
    }
    file = fopen(f->path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void assert_authorization(struct fixture *f, size_t n, const char *line) {
    char *request = peer_request(f->peer, "/json", n);

    assert_non_null(strstr(request, line));
    free(request);
}

static void the_token_is_sent_and_read_again_when_told(void **state) {
    struct fixture *f = *state;

    assert_false(tdg__web_renew_token(f->web));
    write_token(f, "  first-token \r\nanother line\n");
    remake_web(f, &(tdg__web_opts_t){.token_file = f->path});
    get_all(f, "/json");
    assert_authorization(f, 0, "\r\nAuthorization: Bearer first-token\r\n");
    write_token(f, "second-token");
    get_all(f, "/json");
    assert_authorization(f, 1, "\r\nAuthorization: Bearer first-token\r\n");
    assert_true(tdg__web_renew_token(f->web));
    get_all(f, "/json");
    assert_authorization(f, 2, "\r\nAuthorization: Bearer second-token\r\n");
}

static void mistakes_with_the_token_are_said(void **state) {
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "is not a token"},
        {"\nsecond-line", "is not a token"},
        {"geheim geheim", "is not a token"},
        {"geheim\xc3\xa9", "is not a token"},
        {"geheim\x01", "is not a token"},
    };
    struct fixture *f = *state;
    char *huge = calloc(1, 20000);

    for (size_t i = 0; i < COUNT(cases); i++) {
        write_token(f, cases[i].text);
        remake_web(f, &(tdg__web_opts_t){.token_file = f->path});
        get_all(f, "/json");
        assert_int_equal(f->talk.code, TDG_EINVAL);
        assert_non_null(strstr(f->talk.error, cases[i].error));
        assert_non_null(strstr(f->talk.error, f->path));
        assert_null(strstr(f->talk.error, "geheim"));
        assert_false(f->talk.sent);
    }
    memset(huge, 't', 19999);
    write_token(f, huge);
    free(huge);
    get_all(f, "/json");
    assert_non_null(strstr(f->talk.error, "larger than 16384 bytes"));
    write_token(f, "now-good"); /* read again without being told, as it never worked */
    get_all(f, "/json");
    assert_int_equal(f->talk.code, 0);

    remake_web(f, &(tdg__web_opts_t){.token_file = "/nonexistent/token"});
    get_all(f, "/json");
    assert_int_equal(f->talk.code, TDG_EINVAL);
    assert_string_equal(
        f->talk.error,
        "cannot read the token file /nonexistent/token: No such file or directory");
    remake_web(f, &(tdg__web_opts_t){.token_file = "/"});
    get_all(f, "/json");
    assert_non_null(strstr(f->talk.error, "Is a directory"));
    assert_int_equal(peer_count(f->peer, NULL), 1);
}

static void given_headers_are_sent(void **state) {
    const char *const headers[] = {"X-Key: geheim", "Authorization: Basic eDp5", NULL};
    struct fixture *f = *state;

    remake_web(f, &(tdg__web_opts_t){.headers = headers});
    get_all(f, "/307");
    assert_authorization(f, 0, "\r\nX-Key: geheim\r\n");
    assert_authorization(f, 0, "\r\nAuthorization: Basic eDp5\r\n");
}

static void headers_that_cannot_be_sent_are_refused(void **state) {
    const char *const headers[] = {"X-Key: geheim\r\nX-Evil: 1", NULL};
    const tdg__web_field_t field = {"Last-Event-ID", "1\r\nX-Evil: 1"};
    struct fixture *f = *state;

    begin(f, &f->talk,
          &(tdg__web_request_t){.method = TDG__WEB_GET,
                                .url = url_of(f, "/json"),
                                .fields = &field,
                                .field_count = 1});
    run_until(f, has_ended);
    assert_int_equal(f->talk.code, TDG_EINVAL);
    remake_web(f, &(tdg__web_opts_t){.headers = headers});
    get_all(f, "/json");
    assert_int_equal(f->talk.code, TDG_EINVAL);
    assert_null(strstr(f->talk.error, "geheim"));
    assert_int_equal(peer_count(f->peer, NULL), 0);
}

static void a_user_in_the_url_is_sent_and_not_shown(void **state) {
    struct fixture *f = *state;
    char url[128];

    snprintf(url, sizeof(url), "http://x:y@127.0.0.1:%d/json", peer_port(f->peer));
    begin(f, &f->talk, &(tdg__web_request_t){.method = TDG__WEB_GET, .url = url});
    run_until(f, has_ended);
    assert_authorization(f, 0, "\r\nAuthorization: Basic eDp5\r\n");
    assert_string_equal(f->talk.url, url_of(f, "/json"));
}

static void credentials_do_not_go_to_other_machines_unprotected(void **state) {
    const char *const headers[] = {"X-Key: geheim", NULL};
    static const char *const urls[] = {"http://192.0.2.1/mcp", "http://host.invalid/mcp",
                                       "http://user@192.0.2.1/mcp"};
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(urls); i++) {
        memset(&f->talk, 0, sizeof(f->talk));
        remake_web(f, &(tdg__web_opts_t){.headers = i < 2 ? headers : NULL});
        begin(f, &f->talk, &(tdg__web_request_t){.method = TDG__WEB_GET, .url = urls[i]});
        run_until(f, has_ended);
        assert_int_equal(f->talk.code, TDG_EREFUSED);
        assert_non_null(strstr(f->talk.error, "use https"));
        assert_null(strstr(f->talk.error, "geheim"));
        assert_null(strstr(f->talk.error, "user@"));
    }
}

/* By a proxy, so that the request for the other machine arrives here. */
static void credentials_go_unprotected_where_that_is_allowed(void **state) {
    const char *const headers[] = {"X-Key: geheim", NULL};
    struct fixture *f = *state;
    tdg__web_opts_t opts = {.headers = headers, .proxy = url_of(f, "")};
    char *request;

    for (int allowed = 0; allowed < 2; allowed++) {
        opts.insecure_token = allowed == 1;
        remake_web(f, &opts);
        memset(&f->talk, 0, sizeof(f->talk));
        begin(f, &f->talk,
              &(tdg__web_request_t){.method = TDG__WEB_GET,
                                    .url = "http://192.0.2.1/json"});
        run_until(f, has_ended);
        assert_int_equal(f->talk.code, allowed ? 0 : TDG_EREFUSED);
    }
    assert_int_equal(f->talk.status, 404);
    request = peer_request(f->peer, "http://192.0.2.1/json", 0);
    assert_non_null(strstr(request, "\r\nX-Key: geheim\r\n"));
    free(request);
}

static void nothing_goes_to_another_place_than_the_first(void **state) {
    struct fixture *f = *state;
    char url[128];

    get_all(f, "/json");
    snprintf(url, sizeof(url), "http://localhost:%d/json", peer_port(f->peer));
    memset(&f->talk, 0, sizeof(f->talk));
    begin(f, &f->talk, &(tdg__web_request_t){.method = TDG__WEB_GET, .url = url});
    run_until(f, has_ended);
    assert_int_equal(f->talk.code, TDG_EREFUSED);
    assert_non_null(
        strstr(f->talk.error, "differs from the address that this client was given"));
    assert_int_equal(peer_count(f->peer, NULL), 1);
}

static struct talk *get_following(struct fixture *f, const char *url,
                                  tdg__web_follow_t follow) {
    memset(&f->talk, 0, sizeof(f->talk));
    begin(f, &f->talk,
          &(tdg__web_request_t){.method = TDG__WEB_GET, .url = url, .follow = follow});
    run_until(f, has_ended);
    return &f->talk;
}

static void secrets_do_not_go_along_to_another_place(void **state) {
    const char *const headers[] = {"X-Key: geheim", NULL};
    const tdg__web_field_t secret = {"X-Other", "geheim"};
    struct fixture *f = *state;
    char url[128], *request;

    remake_web(
        f, &(tdg__web_opts_t){.headers = headers, .secrets = &secret, .secret_count = 1});
    snprintf(url, sizeof(url), "http://x:geheim@127.0.0.1:%d/elsewhere",
             peer_port(f->peer));
    get_following(f, url, TDG__WEB_FOLLOW_ANY);
    assert_int_equal(f->talk.status, 200);
    assert_int_equal(f->talk.hops, 1);

    request = peer_request(f->peer, "/elsewhere", 0);
    assert_non_null(strstr(request, "X-Key: geheim"));
    assert_non_null(strstr(request, "X-Other: geheim"));
    assert_non_null(strstr(request, "Authorization: Basic"));
    free(request);
    request = peer_request(f->peer, "/json", 0);
    assert_null(strstr(request, "geheim"));
    assert_null(strstr(request, "Authorization"));
    free(request);

    snprintf(url, sizeof(url), "http://127.0.0.1:%d/302", peer_port(f->peer));
    get_following(f, url, TDG__WEB_FOLLOW_HOST);
    request = peer_request(f->peer, "/json", 1);
    assert_non_null(strstr(request, "X-Key: geheim"));
    assert_non_null(strstr(request, "Authorization: Basic"));
    free(request);
}

static void who_asks_says_which_redirects_are_followed(void **state) {
    static const struct {
        const char *path;
        tdg__web_follow_t follow;
        int status;
        unsigned hops;
        tdg__web_unfollowed_t unfollowed;
    } cases[] = {
        {"/302", TDG__WEB_FOLLOW_NEAR, 302, 0, TDG__WEB_NO_REDIRECT},
        {"/302", TDG__WEB_FOLLOW_NONE, 302, 0, TDG__WEB_NO_REDIRECT},
        {"/302", TDG__WEB_FOLLOW_HOST, 200, 1, TDG__WEB_NO_REDIRECT},
        {"/308", TDG__WEB_FOLLOW_NONE, 308, 0, TDG__WEB_NO_REDIRECT},
        {"/308", TDG__WEB_FOLLOW_HOST, 200, 1, TDG__WEB_NO_REDIRECT},
        {"/elsewhere", TDG__WEB_FOLLOW_HOST, 307, 0, TDG__WEB_ELSEWHERE},
        {"/elsewhere", TDG__WEB_FOLLOW_ANY, 200, 1, TDG__WEB_NO_REDIRECT},
        {"/file", TDG__WEB_FOLLOW_ANY, 307, 0, TDG__WEB_NEVER},
        {"/loop", TDG__WEB_FOLLOW_ANY, 307, 5, TDG__WEB_TOO_OFTEN},
        {"/bare", TDG__WEB_FOLLOW_ANY, 307, 0, TDG__WEB_NO_REDIRECT},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        get_following(f, url_of(f, cases[i].path), cases[i].follow);
        if (f->talk.code != 0 || f->talk.status != cases[i].status ||
            f->talk.hops != cases[i].hops || f->talk.unfollowed != cases[i].unfollowed)
            fail_msg("%s: %d after %u, %d", cases[i].path, f->talk.status, f->talk.hops,
                     (int)f->talk.unfollowed);
    }
}

static void validators_are_sent_where_they_belong(void **state) {
    const tdg__web_field_t validator = {"If-None-Match", "\"1\""};
    struct fixture *f = *state;
    char url[128], *request;

    snprintf(url, sizeof(url), "%s", url_of(f, "/json"));
    begin(f, &f->talk,
          &(tdg__web_request_t){.method = TDG__WEB_GET,
                                .url = url_of(f, "/302"),
                                .validators = &validator,
                                .validator_count = 1,
                                .validated_url = url,
                                .follow = TDG__WEB_FOLLOW_HOST});
    run_until(f, has_ended);
    request = peer_request(f->peer, "/302", 0);
    assert_null(strstr(request, "If-None-Match"));
    free(request);
    request = peer_request(f->peer, "/json", 0);
    assert_non_null(strstr(request, "\r\nIf-None-Match: \"1\"\r\n"));
    free(request);
}

static void a_body_has_a_limit(void **state) {
    static const struct {
        const char *path;
        size_t max_bytes;
        int code;
    } cases[] = {{"/json", 7, 0},
                 {"/json", 6, TDG_ETOOLARGE}, /* it was announced */
                 {"/hangs", 3, TDG_ETOOLARGE},
                 {"/large", 0, 0}};
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        memset(&f->talk, 0, sizeof(f->talk));
        begin(f, &f->talk,
              &(tdg__web_request_t){.method = TDG__WEB_GET,
                                    .url = url_of(f, cases[i].path),
                                    .max_bytes = cases[i].max_bytes});
        run_until(f, has_ended);
        assert_int_equal(f->talk.code, cases[i].code);
        if (cases[i].code != 0)
            assert_non_null(strstr(f->talk.error, "is larger than"));
    }
}

static void bodies_of_errors_may_be_left_out(void **state) {
    struct fixture *f = *state;

    begin(f, &f->talk,
          &(tdg__web_request_t){
              .method = TDG__WEB_GET, .url = url_of(f, "/busy"), .only_success = true});
    run_until(f, has_ended);
    assert_int_equal(f->talk.code, 0);
    assert_int_equal(f->talk.status, 503);
    assert_int_equal(f->talk.len, 0);
}

static void what_is_no_url_is_refused(void **state) {
    static const char *const urls[] = {"", "mcp", "ftp://127.0.0.1/", "http://u:geheim@/",
                                       "http://127.0.0.1/\r\nX: y"};
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(urls); i++) {
        memset(&f->talk, 0, sizeof(f->talk));
        begin(f, &f->talk, &(tdg__web_request_t){.method = TDG__WEB_GET, .url = urls[i]});
        run_until(f, has_ended);
        assert_int_equal(f->talk.code, TDG_EINVAL);
        assert_null(strstr(f->talk.error, "geheim"));
    }
}

/* ---- TLS ---------------------------------------------------------------- */

static void an_unknown_certificate_is_refused(void **state) {
    struct fixture *f = *state;

    get_all(f, "/json");
    assert_int_equal(f->talk.code, TDG_EREFUSED);
    assert_non_null(strstr(f->talk.error, "certificate of 127.0.0.1"));
    assert_false(f->talk.sent);
    assert_int_equal(peer_count(f->peer, NULL), 0);
    remake_web(f, &(tdg__web_opts_t){.ca_file = "/nonexistent/ca.pem"});
    get_all(f, "/json");
    assert_int_equal(f->talk.code, TDG_EREFUSED);
    assert_non_null(strstr(f->talk.error, "/nonexistent/ca.pem"));
}

static void a_certificate_that_is_given_is_trusted(void **state) {
    struct fixture *f = *state;

    remake_web(f, &(tdg__web_opts_t){.ca_file = peer_ca_file(f->peer)});
    post_all(f, "/echo", "{}");
    assert_int_equal(f->talk.code, 0);
    assert_string_equal(f->talk.body, "{}");
    get(f, "/pieces");
    peer_let(f->peer, 4);
    run_until(f, has_ended);
    assert_string_equal(f->talk.body, "data: a\n\ndata: b\n\n");
}

static void a_certificate_of_another_name_is_refused(void **state) {
    struct fixture *f = *state;
    char url[128];

    remake_web(f, &(tdg__web_opts_t){.ca_file = peer_ca_file(f->peer)});
    snprintf(url, sizeof(url), "https://localhost:%d/json", peer_port(f->peer));
    begin(f, &f->talk, &(tdg__web_request_t){.method = TDG__WEB_GET, .url = url});
    run_until(f, has_ended);
    assert_int_equal(f->talk.code, TDG_EREFUSED);
    assert_int_equal(peer_count(f->peer, NULL), 0);
}

/* ---- Memory ------------------------------------------------------------- */

/* Whichever allocation fails: the exchange works, or says why not, once. */
static void failing_allocations_end_an_exchange_in_order(void **state) {
    struct fixture *f = *state;
    bool failed = true;

    write_token(f, "token");
    remake_web(f, &(tdg__web_opts_t){.token_file = f->path});
    /* Where there is no memory to wait for a socket, only a time-out ends the exchange;
     * which one depends on how much of the answer came before. */
    for (size_t nth = 1; failed; nth++) {
        int rv;

        memset(&f->talk, 0, sizeof(f->talk));
        f->talk.f = f;
        tdg__web_renew_token(f->web);
        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__web_exchange_begin(f->web,
                                     &(tdg__web_request_t){.url = url_of(f, "/307"),
                                                           .accept = "a/b",
                                                           .body = "{}",
                                                           .body_len = 2,
                                                           .total_timeout_ms = 2000},
                                     &calls, &f->talk, &f->talk.exchange);
        if (rv == 0)
            run_until(f, has_ended);
        failed = memory_failed();
        memory_fail(0, MEMORY_ONCE);
        assert_true(rv == 0 || rv == TDG_ENOMEM);
        if (rv == 0 && f->talk.code != 0)
            assert_true(f->talk.code == TDG_ENOMEM || f->talk.code == TDG_ETIMEDOUT);
        if (!failed)
            assert_int_equal(f->talk.code, 0);
    }
}

static void failing_allocations_at_the_start(void **state) {
    const char *const headers[] = {"A: b", "C: d", NULL};
    const tdg__web_opts_t opts = {.headers = headers,
                                  .token_file = "t",
                                  .ca_file = "c",
                                  .proxy = "p",
                                  .agent = "a"};
    struct fixture *f = *state;
    int rv = TDG_ENOMEM;

    close_web(f);
    run_until(f, is_closed);
    for (size_t nth = 1; rv != 0; nth++) {
        memory_fail(nth, MEMORY_ONCE);
        rv = tdg__web_create(&f->loop, &opts, &f->web);
        assert_int_equal(rv, memory_failed() ? TDG_ENOMEM : 0);
    }
    f->closed = f->closing = false;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, setup_tls, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_answer_arrives_with_its_head),
        TEST(a_request_has_what_was_wished),
        TEST(a_large_body_is_sent_without_an_expectation_that_is_refused),
        TEST(delete_and_get_have_no_body),
        TEST(a_large_body_goes_and_comes),
        TEST(pieces_arrive_as_they_come),
        TEST(other_statuses_are_answers),
        TEST(connections_are_kept_for_the_next),
        TEST(redirects_307_and_308_are_followed_with_the_body),
        TEST(who_examines_a_server_sees_heads_hops_and_times),
        TEST(what_has_moved_for_good_is_request_at_its_new_place),
        TEST(other_redirects_are_answers),
        TEST(every_wait_has_a_limit),
        TEST(silence_has_a_limit),
        TEST(the_limit_of_silence_can_be_changed),
        TEST(a_busy_loop_is_not_taken_for_silence),
        TEST(broken_answers_end_as_away),
        TEST(a_request_that_may_have_worked_is_not_repeated),
        TEST(nobody_there_is_said_clearly),
        TEST(a_server_that_never_pauses_is_timed_out),
        TEST(connecting_has_a_limit),
        TEST(cancelling_inside_any_call_is_safe),
        TEST(cancelling_closes_the_connection),
        TEST(closing_inside_any_call_is_safe),
        TEST(closing_ends_what_runs_without_calls),
        TEST(the_token_is_sent_and_read_again_when_told),
        TEST(mistakes_with_the_token_are_said),
        TEST(given_headers_are_sent),
        TEST(headers_that_cannot_be_sent_are_refused),
        TEST(a_user_in_the_url_is_sent_and_not_shown),
        TEST(credentials_do_not_go_to_other_machines_unprotected),
        TEST(credentials_go_unprotected_where_that_is_allowed),
        TEST(nothing_goes_to_another_place_than_the_first),
        TEST(secrets_do_not_go_along_to_another_place),
        TEST(who_asks_says_which_redirects_are_followed),
        TEST(validators_are_sent_where_they_belong),
        TEST(a_body_has_a_limit),
        TEST(bodies_of_errors_may_be_left_out),
        TEST(what_is_no_url_is_refused),
        TLS_TEST(an_unknown_certificate_is_refused),
        TLS_TEST(a_certificate_that_is_given_is_trusted),
        TLS_TEST(a_certificate_of_another_name_is_refused),
        TEST(failing_allocations_end_an_exchange_in_order),
        TEST(failing_allocations_at_the_start),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("web", tests, NULL, NULL);
}
