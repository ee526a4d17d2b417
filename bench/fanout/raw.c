/* SPDX-License-Identifier: MIT
 *
 * The physical limit: accepts sockets and, when told to publish, hands the same bytes to
 * the kernel once per socket. No protocol, no records, nothing that waits. Commands come
 * as lines on the input: "size BYTES" (of a message from now on), "publish COUNT" (that
 * many messages in one send) and "settle". */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MIN_SIZE = 96, MAX_SIZE = 65536, MAX_BATCH = 64 };

static struct {
    int *sockets;
    size_t count, max;
    size_t message_bytes;
    unsigned long long sequence;
    char *buffer;
} sender = {.message_bytes = 400};

static void fail(const char *what) {
    fprintf(stderr, "fanout-raw: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int listen_anywhere(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 ||
        listen(fd, 4096) < 0 || getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        fail("cannot listen");
    printf("port %u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void accept_all(int listener) {
    int fd, on = 1;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (sender.count == sender.max) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        sender.sockets[sender.count++] = fd;
    }
}

/* One message of exactly message_bytes: an event with number, time and filling. */
static void put_message(char *at) {
    struct timespec now;
    size_t len;

    clock_gettime(CLOCK_MONOTONIC, &now);
    len = (size_t)snprintf(
        at, MIN_SIZE, "data: {\"seq\":%llu,\"t\":%llu,\"pad\":\"", ++sender.sequence,
        (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec);
    memset(at + len, '.', sender.message_bytes - len);
    memcpy(at + sender.message_bytes - 4, "\"}\n\n", 4);
}

static void publish(size_t count) {
    size_t len = count * sender.message_bytes;

    if (count == 0 || count > MAX_BATCH)
        return;
    for (size_t i = 0; i < count; i++)
        put_message(sender.buffer + i * sender.message_bytes);
    for (size_t i = 0; i < sender.count; i++) {
        ssize_t sent = send(sender.sockets[i], sender.buffer, len, MSG_NOSIGNAL);

        if (sent != (ssize_t)len && (sent >= 0 || errno == EAGAIN))
            fail("a reader is too slow");
    }
}

static void obey(const char *line) {
    unsigned long number;

    if (sscanf(line, "publish %lu", &number) == 1) {
        publish(number);
    } else if (sscanf(line, "size %lu", &number) == 1) {
        if (number >= MIN_SIZE && number <= MAX_SIZE)
            sender.message_bytes = number;
    } else if (strncmp(line, "settle", 6) == 0) {
        printf("settled\n");
        fflush(stdout);
    }
}

/* Reads what there is of commands. Returns false at the end of input. */
static bool read_commands(void) {
    static char text[4096];
    static size_t len;
    ssize_t got = read(STDIN_FILENO, text + len, sizeof(text) - 1 - len);
    char *start = text, *end;

    if (got <= 0)
        return false;
    len += (size_t)got;
    text[len] = '\0';
    while ((end = strchr(start, '\n')) != NULL) {
        *end = '\0';
        obey(start);
        start = end + 1;
    }
    len -= (size_t)(start - text);
    memmove(text, start, len);
    return len < sizeof(text) - 1;
}

int main(void) {
    struct rlimit files;
    struct pollfd polled[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.events = POLLIN}};

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        fail("cannot read the limit of open files");
    sender.max = files.rlim_cur;
    sender.sockets = calloc(sender.max, sizeof(sender.sockets[0]));
    sender.buffer = malloc((size_t)MAX_BATCH * MAX_SIZE);
    if (sender.sockets == NULL || sender.buffer == NULL)
        fail("cannot start");

    polled[1].fd = listen_anywhere();
    for (;;) {
        if (poll(polled, 2, -1) < 0)
            fail("cannot wait");
        if (polled[1].revents != 0)
            accept_all(polled[1].fd);
        if (polled[0].revents != 0 && !read_commands())
            return 0;
    }
}
