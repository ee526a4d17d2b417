/* SPDX-License-Identifier: MIT
 *
 * Listening sockets. We accept connections ourselves instead of through uv_listen(): when
 * the process runs out of descriptors, libuv accepts and drops waiting clients, or
 * retries for ever. Here the socket pauses for a moment, and clients wait in the kernel's
 * queue. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "net/internal.h"

enum {
    ACCEPT_AT_ONCE = 64, /* then others have their turn */
    REST_MS = 100,
    UNSENT_BYTES = 256 * 1024, /* that the kernel takes beyond what it can send */
};

struct listener {
    uv_poll_t poll;
    uv_timer_t rest;
    tdg__net_t *net;
    struct listener *next;
    void *tag;
    int fd;
    int open_handles;
};

/* ---- Binding ------------------------------------------------------------ */

static int parse_address(const char *host, uint16_t port, struct sockaddr_storage *ret,
                         socklen_t *ret_len) {
    if (strcasecmp(host, "localhost") == 0)
        host = "127.0.0.1";
    memset(ret, 0, sizeof(*ret));
    if (uv_ip4_addr(host, port, (struct sockaddr_in *)ret) == 0)
        *ret_len = sizeof(struct sockaddr_in);
    else if (uv_ip6_addr(host, port, (struct sockaddr_in6 *)ret) == 0)
        *ret_len = sizeof(struct sockaddr_in6);
    else
        return TDG_EINVAL;
    return 0;
}

static bool is_loopback(const struct sockaddr_storage *address) {
    const struct in6_addr *ip6 = &((const struct sockaddr_in6 *)address)->sin6_addr;

    if (address->ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(ip6) ||
            (IN6_IS_ADDR_V4MAPPED(ip6) && ip6->s6_addr[12] == 127));
}

bool tdg__net_is_loopback(const char *host) {
    struct sockaddr_storage address;
    socklen_t len;

    return parse_address(host, 0, &address, &len) == 0 && is_loopback(&address);
}

bool tdg__net_is_address(const char *text) {
    struct sockaddr_storage address;
    socklen_t len;

    return strcasecmp(text, "localhost") != 0 &&
           parse_address(text, 0, &address, &len) == 0;
}

bool tdg__net_bound_to_loopback(int fd) {
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);

    return getsockname(fd, (struct sockaddr *)&address, &len) == 0 &&
           is_loopback(&address);
}

static int bind_and_listen(int fd, bool reuse_port, struct sockaddr_storage *address,
                           socklen_t len) {
    const int on = 1, off = 0;

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
        return -1;
    if (reuse_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0)
        return -1;
    if (address->ss_family == AF_INET6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0)
        return -1;
    /* On Linux, connections inherit it: one call less for each. */
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)address, len) < 0 || listen(fd, SOMAXCONN) < 0)
        return -1;
    return getsockname(fd, (struct sockaddr *)address, &len);
}

int tdg__net_bind(const char *host, uint16_t port, bool reuse_port, int *ret_fd,
                  uint16_t *ret_port) {
    struct sockaddr_storage address;
    socklen_t len;
    int fd, rv, saved;

    rv = parse_address(host, port, &address, &len);
    if (rv < 0)
        return rv;

    fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return TDG_ESYSTEM;
    if (bind_and_listen(fd, reuse_port, &address, len) < 0) {
        saved = errno;
        close(fd);
        errno = saved;
        return TDG_ESYSTEM;
    }

    *ret_fd = fd;
    *ret_port = ntohs(address.ss_family == AF_INET
                          ? ((struct sockaddr_in *)&address)->sin_port
                          : ((struct sockaddr_in6 *)&address)->sin6_port);
    return 0;
}

/* ---- Accepting ---------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle) {
    struct listener *listener = handle->data;
    tdg__net_t *net = listener->net;

    if (--listener->open_handles > 0)
        return;
    tdg__free(listener);
    tdg__net_release(net);
}

static void close_listener(struct listener *listener) {
    uv_close((uv_handle_t *)&listener->rest, on_handle_closed);
    uv_close((uv_handle_t *)&listener->poll, on_handle_closed);
    tdg__net_close_fd(listener->fd);
}

static void report(const tdg__net_t *net, int error) {
    if (net->opts.calls.not_taken != NULL)
        net->opts.calls.not_taken(net->opts.user, error);
}

/* Above the limit. Beyond another limit there is not even the time to say so in a way
 * that surely arrives. */
static void turn_away(tdg__net_t *net, int fd, void *tag) {
    static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\n"
                                 "Content-Length: 0\r\n"
                                 "Connection: close\r\n\r\n";
    tdg__conn_t *conn;

    if (net->refusals >= SPARE_REFUSALS) {
        (void)!send(fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        tdg__net_close_fd(fd);
    } else if (tdg__conn_create(net, fd, tag, true, &conn) == 0) {
        tdg__conn_refuse(conn, 503, "there are too many connections");
    }
}

/* The limit of the net, and that of all nets together. */
static bool is_full(const tdg__net_t *net) {
    const tdg__net_opts_t *opts = &net->opts;

    return net->connections >= opts->max_connections ||
           (opts->total != NULL &&
            atomic_load_explicit(opts->total, memory_order_relaxed) >= opts->max_total);
}

static void welcome(struct listener *listener, int fd) {
    tdg__net_t *net = listener->net;
    tdg__conn_t *conn;

    if (is_full(net)) {
        turn_away(net, fd, listener->tag);
        report(net, 0);
    } else if (tdg__conn_create(net, fd, listener->tag, false, &conn) < 0) {
        report(net, UV_ENOMEM);
    }
}

static void on_acceptable(uv_poll_t *poll, int status, int events);

static void on_rested(uv_timer_t *timer) {
    struct listener *listener = timer->data;

    uv_poll_start(&listener->poll, UV_READABLE, on_acceptable);
}

static void rest(struct listener *listener) {
    uv_poll_stop(&listener->poll);
    uv_timer_start(&listener->rest, on_rested, REST_MS, 0);
}

static bool is_passing(int error) {
    return error == ECONNABORTED || error == EINTR || error == EPROTO || error == EPERM;
}

static void on_acceptable(uv_poll_t *poll, int status, int events) {
    struct listener *listener = poll->data;

    (void)events;
    if (status < 0) {
        rest(listener);
        return;
    }
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            welcome(listener, fd);
        } else if (errno == EAGAIN) {
            return;
        } else if (!is_passing(errno)) { /* out of descriptors or memory */
            int error = uv_translate_sys_error(errno);

            rest(listener);
            report(listener->net, error);
            return;
        }
    }
}

int tdg__net_listen(tdg__net_t *net, int fd, void *tag) {
    struct listener *listener = tdg__calloc(1, sizeof(*listener));
    int unsent = UNSENT_BYTES;

    if (listener == NULL) {
        tdg__net_close_fd(fd);
        return TDG_ENOMEM;
    }
    *listener = (struct listener){.net = net, .tag = tag, .fd = fd};
    /* A reader that does not read costs what the kernel has taken for it: megabytes,
     * unless told otherwise. What is on its way to one that reads does not count. Then,
     * for a client that vanished without a word: the kernel would take what is written
     * for a quarter of an hour. Connections inherit both. Not vital, so they may fail. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &net->opts.write_timeout_ms,
                     sizeof(net->opts.write_timeout_ms));
    listener->poll.data = listener->rest.data = listener;
    if (uv_poll_init(net->loop, &listener->poll, fd) < 0) {
        tdg__net_close_fd(fd);
        tdg__free(listener);
        return TDG_ESYSTEM;
    }

    uv_timer_init(net->loop, &listener->rest);
    listener->open_handles = 2;
    tdg__net_hold(net);
    if (uv_poll_start(&listener->poll, UV_READABLE, on_acceptable) < 0) {
        close_listener(listener);
        return TDG_ESYSTEM;
    }
    listener->next = net->listeners;
    net->listeners = listener;
    return 0;
}

void tdg__net_stop_listening(tdg__net_t *net) {
    while (net->listeners != NULL) {
        struct listener *listener = net->listeners;

        net->listeners = listener->next;
        close_listener(listener);
    }
}
