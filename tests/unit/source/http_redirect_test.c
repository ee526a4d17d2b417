/* SPDX-License-Identifier: MIT */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "unit/source/http_page.h"

/* ---- Redirects ---------------------------------------------------------- */

static void redirect(http_server_t *server, const char *path, const char *to) {
    char header[256];

    snprintf(header, sizeof(header), "Location: %s\r\n", to);
    http_server_set(
        server, path,
        &(struct page){.status = "302 Found", .headers = header, .body = "go"});
}

static void follows_on_the_same_host(void **state) {
    struct fixture *f = *state;
    char *request;

    page_open(f, "every: 100ms\nheaders: {X-Key: secret-token}\n");
    redirect(f->server, "/page", "/there");
    http_server_set(f->server, "/there",
                    &(struct page){.body = "arrived", .etag = "\"t\""});
    harness_expect(&f->harness, PAGE, "arrived");
    request = http_server_request(f->server, "/there", 0);
    assert_non_null(strstr(request, "X-Key: secret-token"));
    free(request);

    /* What is known belongs to the last URL, and is asked there only. */
    harness_watch(&f->harness, PAGE);
    page_wait_asked(f, 4);
    assert_false(page_asked_with(f, 3, "If-None-Match"));
    request = http_server_request(f->server, "/there", 2);
    assert_non_null(strstr(request, "If-None-Match: \"t\""));
    free(request);
}

static void secrets_stay_on_their_host(void **state) {
    struct fixture *f = *state;
    char to[64], back[64], *request;

    page_open(f, "follow-redirects: any\n"
                 "headers: {X-Key: secret-token, Authorization: secret-token}\n");
    snprintf(to, sizeof(to), "http://127.0.0.1:%d/far", http_server_port(f->other));
    snprintf(back, sizeof(back), "http://127.0.0.1:%d/home", http_server_port(f->server));
    redirect(f->server, "/page", to);
    redirect(f->other, "/far", back);
    http_server_set(f->server, "/home", &(struct page){.body = "home"});
    harness_expect(&f->harness, PAGE, "home");
    assert_true(page_asked_with(f, 0, "secret-token"));
    request = http_server_request(f->other, "/far", 0);
    assert_null(strstr(request, "secret-token"));
    free(request);
    request = http_server_request(f->server, "/home", 0); /* the other chose the path */
    assert_null(strstr(request, "secret-token"));
    free(request);
}

static void a_user_in_a_redirect_is_neither_used_nor_shown(void **state) {
    struct fixture *f = *state;
    struct reading reading;
    char to[128], shown[64], *request;

    page_open(f, "follow-redirects: any\n");
    snprintf(to, sizeof(to), "http://me:secret@127.0.0.1:%d/b/c?key=secret#secret",
             http_server_port(f->other));
    snprintf(shown, sizeof(shown), "http://127.0.0.1:%d/b/c", http_server_port(f->other));
    redirect(f->server, "/page", to);
    http_server_set(f->other, "/b/c?key=secret", &(struct page){.body = "arrived"});
    reading = harness_read(&f->harness, PAGE);
    assert_int_equal(reading.status, 0);
    assert_string_equal(json_string_value(json_object_get(reading.metadata, "url")),
                        shown);
    reading_done(&reading);
    request = http_server_request(f->other, "/b/c?key=secret", 0);
    assert_null(strstr(request, "Authorization"));
    free(request);
}

static void does_not_go_elsewhere_unless_told(void **state) {
    struct fixture *f = *state;
    char to[64];

    page_open(f, "");
    snprintf(to, sizeof(to), "http://127.0.0.1:%d/far", http_server_port(f->other));
    redirect(f->server, "/page", to);
    page_expect_failure(f, TDG_EINVAL, "another host");
    snprintf(to, sizeof(to), "http://localhost:%d/far", http_server_port(f->server));
    redirect(f->server, "/page", to);
    page_expect_failure(f, TDG_EINVAL, "another host");
    assert_int_equal(http_server_count(f->other, NULL), 0);
    page_close(f);
    page_open(f, "follow-redirects: no\n");
    redirect(f->server, "/page", "/there");
    page_expect_failure(f, TDG_EINVAL, "302");
}

static void never_leaves_http(void **state) {
    static const char *const targets[] = {"file:///etc/passwd", "ftp://127.0.0.1/x",
                                          "gopher://127.0.0.1/x", "dict://127.0.0.1/x",
                                          "javascript:1"};
    struct fixture *f = *state;

    page_open(f, "follow-redirects: any\n");
    for (size_t i = 0; i < COUNT(targets); i++) {
        struct reading reading;

        redirect(f->server, "/page", targets[i]);
        reading = harness_read(&f->harness, PAGE);
        printf("# %s: %d %s\n", targets[i], reading.status, reading.error);
        assert_true(reading.status == TDG_EINVAL || reading.status == TDG_ENOTFOUND);
        assert_int_equal(reading.len, 0);
        reading_done(&reading);
    }
}

static void does_not_run_in_circles(void **state) {
    struct fixture *f = *state;

    page_open(f, "");
    redirect(f->server, "/page", "/page");
    page_expect_failure(f, TDG_EINVAL, "too often");
    assert_int_equal(http_server_count(f->server, "/page"), 6);
}

/* ---- TLS ---------------------------------------------------------------- */

struct tls {
    char folder[64];
    pid_t pid;
    int out;
    int port;
};

/* Starts a shell command in the folder; `out` is its output. */
static pid_t start_command(const char *folder, const char *command, int out) {
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out, 1);
        if (chdir(folder) == 0 && freopen("log", "a", stderr) != NULL)
            execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static bool run(const char *folder, const char *command) {
    int status = 1;

    waitpid(start_command(folder, command, 1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Reads the line "ACCEPT 127.0.0.1:PORT". */
static int read_port(int fd) {
    char text[1024] = "";
    size_t len = 0;
    int port = 0;

    while (len + 1 < sizeof(text)) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        const char *line, *colon;
        ssize_t n;

        if (poll(&poller, 1, 60000) <= 0)
            return 0;
        n = read(fd, text + len, sizeof(text) - len - 1);
        if (n <= 0)
            return 0;
        len += (size_t)n;
        text[len] = '\0';
        line = strstr(text, "ACCEPT ");
        if (line == NULL || strchr(line, '\n') == NULL)
            continue;
        colon = strchr(line, ':');
        if (colon != NULL)
            port = atoi(colon + 1);
        return port;
    }
    return 0;
}

/* The server of the openssl program, which serves the files of its folder. */
static bool tls_start(struct tls *tls) {
    static const char prepare[] =
        "printf secure >page && exec openssl req -x509 -newkey ec -pkeyopt "
        "ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out cert.pem -days 2 "
        "-subj /CN=test -addext subjectAltName=IP:127.0.0.1";
    static const char serve[] = "exec openssl s_server -accept 127.0.0.1:0 "
                                "-cert cert.pem -key key.pem -WWW";
    int ends[2];

    *tls = (struct tls){.folder = "tidings-tls-XXXXXX"};
    assert_non_null(mkdtemp(tls->folder));
    if (!run(tls->folder, prepare))
        return false;
    assert_int_equal(pipe(ends), 0);
    tls->pid = start_command(tls->folder, serve, ends[1]);
    close(ends[1]);
    tls->out = ends[0];
    tls->port = read_port(tls->out);
    assert_true(tls->port > 0);
    return true;
}

static void tls_stop(struct tls *tls) {
    static const char *const names[] = {"key.pem", "cert.pem", "page", "log"};
    char path[96];

    if (tls->pid > 0) {
        kill(tls->pid, SIGKILL);
        waitpid(tls->pid, NULL, 0);
        close(tls->out);
    }
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", tls->folder, names[i]);
        unlink(path);
    }
    rmdir(tls->folder);
}

static struct reading read_tls(struct fixture *f, const char *host, const struct tls *tls,
                               const char *more) {
    char yaml[512], cwd[256];
    struct reading reading;

    assert_non_null(getcwd(cwd, sizeof(cwd)));
    snprintf(yaml, sizeof(yaml), "http: https://%s:%d/page\nuri: " PAGE "\n%s%s/%s%s\n",
             host, tls->port, more, cwd, tls->folder, "/cert.pem");
    page_open_yaml(f, yaml);
    reading = harness_read(&f->harness, PAGE);
    page_close(f);
    return reading;
}

static void a_certificate_is_always_verified(void **state) {
    struct fixture *f = *state;
    struct reading trusted, unknown, misnamed;
    struct tls tls;

    if (!tls_start(&tls)) {
        tls_stop(&tls);
        skip();
    }
    trusted = read_tls(f, "127.0.0.1", &tls, "ca-file: ");
    unknown = read_tls(f, "127.0.0.1", &tls, "description: ");
    misnamed = read_tls(f, "localhost", &tls, "ca-file: ");
    tls_stop(&tls);
    printf("# %s; %s\n", unknown.error, misnamed.error);
    assert_int_equal(trusted.status, 0);
    assert_string_equal(trusted.data, "secure");
    assert_int_equal(unknown.status, TDG_EUNREACHABLE);
    assert_non_null(strstr(unknown.error, "the certificate of 127.0.0.1 port "));
    assert_int_equal(misnamed.status, TDG_EUNREACHABLE);
    reading_done(&trusted);
    reading_done(&unknown);
    reading_done(&misnamed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        PAGE_TEST(follows_on_the_same_host),
        PAGE_TEST(secrets_stay_on_their_host),
        PAGE_TEST(a_user_in_a_redirect_is_neither_used_nor_shown),
        PAGE_TEST(does_not_go_elsewhere_unless_told),
        PAGE_TEST(never_leaves_http),
        PAGE_TEST(does_not_run_in_circles),
        PAGE_TEST(a_certificate_is_always_verified),
    };

    cmocka_set_test_filter(getenv("TDG_TEST"));
    return cmocka_run_group_tests_name("http_redirect", tests, NULL, NULL);
}
