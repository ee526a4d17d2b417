/* SPDX-License-Identifier: MIT
 *
 * Any bytes as what a server answers, through libcurl and all: the exchange ends exactly
 * once, in time, in the order that the header promises, and leaves nothing behind. The
 * first byte of the input chooses the method and what is done in which call, the second
 * how the bytes are cut. The server is a Unix socket in the same loop. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <tidings/error.h>

#include "fuzz.h"
#include "web/web.h"

enum { MAX_VISITS = 16, MAX_BYTES = 100 * 1024 };

enum { NEVER, AT_HEAD, AT_DATA, AT_DONE };

struct run {
    uv_loop_t loop;
    tdg__web_t *web;
    tdg__web_exchange_t *exchange;
    uv_poll_t door;
    int visits[MAX_VISITS];
    size_t visit_count;
    const char *bytes;
    size_t len, piece;
    int cancel_at, close_at;
    int heads, ends;
    bool closing, closed, cancelled;
};

static int door = -1;
static char door_name[64];
static char authority_name[64];

/* One certificate instead of the system's: an answer may lead to https, and reading all
 * of theirs for each input would take a hundred times longer than the rest. */
static const char authority[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBbjCCARWgAwIBAgIUQxO9seDQ6tcIor8MpC/WyedD4ZwwCgYIKoZIzj0EAwIw\n"
    "DDEKMAgGA1UEAwwBdDAgFw0yNjExMTcwMzMxMjNaGA8yMTI2MTAyNDAzMzEyM1ow\n"
    "DDEKMAgGA1UEAwwBdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPYtZ0KvTA0o\n"
    "NtDYyFLL0TCoYCUGItc0rSqqsNb/n7i/ULayKVA0P9axM3uoMpc1wuAZocBz0C0O\n"
    "oyvwFNy4Ur+jUzBRMB0GA1UdDgQWBBTsLRNrqap04zoZmCc5EY6cQQ2vxjAfBgNV\n"
    "HSMEGDAWgBTsLRNrqap04zoZmCc5EY6cQQ2vxjAPBgNVHRMBAf8EBTADAQH/MAoG\n"
    "CCqGSM49BAMCA0cAMEQCID+VbpFDTiY5qXSkq/OGFKK0txIb3BpITxIarmmwYj6U\n"
    "AiAfKxYMi95jm1qkV2zKUScR9YazcMrsgugNomd/xKXfTQ==\n"
    "-----END CERTIFICATE-----\n";

static void write_authority(void) {
    int fd = memfd_create("authority", MFD_CLOEXEC);

    require(fd >= 0 && write(fd, authority, sizeof(authority) - 1) > 0);
    snprintf(authority_name, sizeof(authority_name), "/proc/self/fd/%d", fd);
}

/* ---- The server --------------------------------------------------------- */

static void open_door(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int len = snprintf(door_name, sizeof(door_name), "tidings-fuzz-%ld", (long)getpid());

    memcpy(address.sun_path + 1, door_name, (size_t)len);
    door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    require(bind(door, (struct sockaddr *)&address,
                 (socklen_t)(sizeof(sa_family_t) + 1 + (size_t)len)) == 0);
    require(listen(door, MAX_VISITS) == 0);
}

/* Says all at once: what the other side does not read in one piece, it reads in several,
 * because a buffer of the kernel stands for each. Stays open for reading until the end,
 * so that the other side can send its request. */
static void on_visit(uv_poll_t *poll_handle, int status, int events) {
    struct run *run = poll_handle->data;
    int fd = accept(door, NULL, NULL);

    (void)status;
    (void)events;
    if (fd < 0)
        return;
    require(run->visit_count < MAX_VISITS);
    run->visits[run->visit_count++] = fd;
    for (size_t at = 0; at < run->len; at += run->piece) {
        size_t left = run->len - at;

        if (send(fd, run->bytes + at, left < run->piece ? left : run->piece,
                 MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
    }
    shutdown(fd, SHUT_WR);
}

/* ---- The client --------------------------------------------------------- */

static void on_closed(void *arg) {
    struct run *run = arg;

    run->closed = true;
    uv_close((uv_handle_t *)&run->door, NULL);
}

static void close_all(struct run *run) {
    if (run->closing)
        return;
    run->closing = true;
    tdg__web_close(run->web, on_closed, run);
}

static void act(struct run *run, int now) {
    if (run->cancel_at == now) {
        run->cancelled = true;
        tdg__web_exchange_cancel(run->exchange);
    }
    if (run->close_at == now)
        close_all(run);
}

static void on_head(void *user, const tdg__web_head_t *head) {
    struct run *run = user;

    require(run->heads++ == 0 && run->ends == 0 && !run->closing && !run->cancelled);
    require(head->status >= 200 && head->status <= 999);
    require(strpbrk(head->content_type, "; \t\r\n") == NULL);
    for (const char *c = head->content_type; *c != '\0'; c++)
        require(*c < 'A' || *c > 'Z');
    require(head->session == NULL || strlen(head->session) <= TDG__WEB_MAX_SESSION);
    for (const char *c = head->session; c != NULL && *c != '\0'; c++)
        require(*c >= '!' && *c <= '~');
    require(head->retry_after_ms >= -1 && head->retry_after_ms <= 24 * 3600 * 1000);
    require(strncmp(head->url, "http://127.0.0.1:1/", 19) == 0 ||
            strncmp(head->url, "https://127.0.0.1", 17) == 0);
    act(run, AT_HEAD);
}

static void on_data(void *user, const char *data, size_t len) {
    struct run *run = user;
    volatile char last = data[len - 1];

    (void)last;
    require(run->heads == 1 && run->ends == 0 && len > 0);
    require(!run->closing && !run->cancelled);
    act(run, AT_DATA);
}

static void on_done(void *user, const tdg__web_end_t *end) {
    struct run *run = user;

    require(run->ends++ == 0 && !run->closing && !run->cancelled);
    require(end->code == 0 ? end->error == NULL && run->heads == 1 : end->error != NULL);
    require(end->code == 0 || end->code == TDG_EUNREACHABLE || end->code == TDG_EREFUSED);
    require(end->error == NULL || strpbrk(end->error, "\r\n") == NULL);
    act(run, AT_DONE);
    close_all(run);
}

static void begin(struct run *run, tdg__web_method_t method) {
    static const tdg__web_exchange_calls_t calls = {on_head, on_data, on_done};
    const tdg__web_opts_t opts = {.connect_timeout_ms = 60000,
                                  .ca_file = authority_name,
                                  .abstract_socket = door_name};
    const tdg__web_request_t wish = {
        .method = method,
        .url = "http://127.0.0.1:1/mcp",
        .accept = "text/event-stream",
        .body = method == TDG__WEB_POST ? "{}" : NULL,
        .body_len = method == TDG__WEB_POST ? 2 : 0,
        .total_timeout_ms = 60000, /* libFuzzer's own limit is shorter */
    };

    require(tdg__web_create(&run->loop, &opts, &run->web) == 0);
    require(tdg__web_exchange_begin(run->web, &wish, &calls, run, &run->exchange) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct run run = {.closed = false};

    if (size < 2 || size > MAX_BYTES)
        return 0;
    if (door < 0) {
        open_door();
        write_authority();
    }
    run.cancel_at = data[0] >> 2 & 3;
    run.close_at = data[0] >> 4 & 3;
    run.piece = data[1] == 0 ? MAX_BYTES : data[1] * 16U;
    run.bytes = (const char *)data + 2;
    run.len = size - 2;
    require(uv_loop_init(&run.loop) == 0);
    require(uv_poll_init(&run.loop, &run.door, door) == 0);
    run.door.data = &run;
    uv_poll_start(&run.door, UV_READABLE, on_visit);
    begin(&run, (tdg__web_method_t)(data[0] % 3));

    while (!run.closed) {
        if (run.cancelled)
            close_all(&run);
        uv_run(&run.loop, UV_RUN_ONCE);
    }
    uv_run(&run.loop, UV_RUN_DEFAULT);
    require(uv_loop_close(&run.loop) == 0);
    require(run.ends == 1 || run.cancelled || run.close_at == AT_HEAD ||
            run.close_at == AT_DATA);
    for (size_t i = 0; i < run.visit_count; i++)
        close(run.visits[i]);
    return 0;
}
