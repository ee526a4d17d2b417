/* SPDX-License-Identifier: MIT
 *
 * Sockets that do not block, in a row: each has its turn when it is due. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "abuse.h"

enum { NICE = 10 }; /* the good share the core, and are what is measured */

int abuse_connect(uint16_t port, bool blocking) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger reset = {.l_onoff = 1}; /* leaves no port behind in TIME_WAIT */
    struct timeval timeout = {.tv_sec = 60};
    int on = 1;
    int fd =
        socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK), 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0 &&
        errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

size_t abuse_put_post(char *text, const char *path, const char *fields,
                      const char *body) {
    return (size_t)snprintf(text, ABUSE_REQUEST_MAX,
                            "POST %s HTTP/1.1\r\nHost: localhost\r\n"
                            "Content-Type: application/json\r\n"
                            "Accept: application/json, text/event-stream\r\n"
                            "%sContent-Length: %zu\r\n\r\n%s",
                            path, fields, strlen(body), body);
}

size_t abuse_put_modern(char *text, const char *method, const char *name,
                        const char *params) {
    char fields[512], body[2048];

    snprintf(fields, sizeof(fields),
             "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n%s%s%s", method,
             name != NULL ? "Mcp-Name: " : "", name != NULL ? name : "",
             name != NULL ? "\r\n" : "");
    snprintf(
        body, sizeof(body),
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{\"_meta\":{"
        "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
        "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"abuse\",\"version\":\"1\"},"
        "\"io.modelcontextprotocol/clientCapabilities\":{}},%s}}",
        method, params);
    return abuse_put_post(text, "/mcp", fields, body);
}

/* ---- One abuser --------------------------------------------------------- */

struct abuser {
    const abuse_kind_t *kind;
    int fd; /* -1: not connected */
    size_t number, step;
};

static void leave(struct abuser *abuser) {
    if (abuser->fd >= 0)
        close(abuser->fd);
    abuser->fd = -1;
    abuser->step = 0;
}

/* Takes what there is; where nobody reads, only whether the server has closed. */
static void take(struct abuser *abuser) {
    char data[16384];
    int flags = MSG_DONTWAIT | (abuser->kind->reads ? 0 : MSG_PEEK);
    ssize_t n = recv(abuser->fd, data, abuser->kind->reads ? sizeof(data) : 1, flags);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        leave(abuser);
}

static void act(const abuse_plan_t *plan, struct abuser *abuser) {
    char text[ABUSE_REQUEST_MAX];

    if (abuser->fd >= 0)
        take(abuser);
    if (abuser->kind->reconnects)
        leave(abuser);
    if (abuser->fd < 0)
        abuser->fd = abuse_connect(plan->port, false);
    if (abuser->fd < 0)
        return;

    size_t len = abuser->kind->put(plan, abuser->number, abuser->step, text);
    ssize_t sent = len > 0 ? send(abuser->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

    if (sent == (ssize_t)len && len > 0)
        abuser->step++;
    else if (sent >= 0 && (size_t)sent < len)
        leave(abuser); /* half a request is of no use */
    else if (sent < 0 && errno != EAGAIN && errno != ENOTCONN)
        leave(abuser);
}

/* ---- All of them -------------------------------------------------------- */

static void wait_until(uint64_t due_ns) {
    uint64_t now = bench_now_ns();

    if (now < due_ns) {
        struct timespec pause = {.tv_sec = (time_t)((due_ns - now) / 1000000000),
                                 .tv_nsec = (long)((due_ns - now) % 1000000000)};

        nanosleep(&pause, NULL);
    }
}

static _Noreturn void misbehave(const abuse_plan_t *plan, struct abuser *abusers) {
    uint64_t step_ns = plan->rate > 0 ? 1000000000 / plan->rate / plan->connections : 0;
    uint64_t due_ns = bench_now_ns();

    for (size_t i = 0;; i = (i + 1) % plan->connections) {
        act(plan, &abusers[i]);
        due_ns += step_ns;
        if (step_ns > 0 && i % 16 == 0)
            wait_until(due_ns);
    }
}

static void assign(const abuse_plan_t *plan, struct abuser *abusers) {
    size_t kinds[ABUSE_KINDS], count = 0;

    for (size_t i = 0; i < ABUSE_KINDS; i++)
        if (plan->chosen[i])
            kinds[count++] = i;
    for (size_t i = 0; i < plan->connections; i++)
        abusers[i] = (struct abuser){
            .kind = &abuse_kinds[kinds[i % count]], .fd = -1, .number = i / count};
}

pid_t abuse_crowd_start(const abuse_plan_t *plan) {
    pid_t leader = getpid(), pid = fork();

    if (pid < 0)
        bench_fail("cannot fork: %s", strerror(errno));
    if (pid > 0)
        return pid;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != leader)
        _exit(1);
    if (nice(NICE) < 0)
        errno = 0; /* then not */
    struct abuser *abusers = bench_alloc(plan->connections, sizeof(*abusers));

    assign(plan, abusers);
    misbehave(plan, abusers);
}
