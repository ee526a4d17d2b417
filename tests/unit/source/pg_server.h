/* SPDX-License-Identifier: MIT
 *
 * A PostgreSQL of our own: a new cluster in a temporary folder, on a free port of
 * 127.0.0.1 and on a socket in that folder. It ends with the test, however that ends.
 * PostgreSQL refuses root, so as root it runs as the user that its package has made. */
#ifndef TDG_TESTS_PG_SERVER_H
#define TDG_TESTS_PG_SERVER_H

#include <stdbool.h>
#include <sys/types.h>

struct pg_server {
    char dir[256];
    int port;
    pid_t pid; /* 0: it does not run */
};

/* Makes the cluster and starts it; fails the test where that cannot be. */
void pg_server_create(struct pg_server *server);
void pg_server_destroy(struct pg_server *server);

/* SIGINT is a fast shutdown, SIGQUIT an immediate one, SIGKILL a crash. Waits until it
 * has ended. */
void pg_server_stop(struct pg_server *server, int signal);
void pg_server_start(struct pg_server *server); /* waits until it answers */

/* Runs statements as the superuser and expects success. */
void pg_run(const struct pg_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The triggers of a table, as `tidings postgres install --no-event-triggers` makes them.
 * Keys are separated by commas; the channel may be NULL. */
void pg_install(const struct pg_server *server, const char *table, const char *keys,
                const char *channel);

/* The only value of the only row that a query gives; as a number. */
long pg_number(const struct pg_server *server, const char *sql);

/* A connection string for this role through TCP on `port` (0: the server's own). Good
 * until the next call. */
const char *pg_conninfo(const struct pg_server *server, const char *role, int port);

/* Forwards connections to the server, in a process of its own: SIGSTOP makes the
 * network silent without closing anything, SIGCONT lets it go on. From SIGUSR1 to
 * SIGUSR2 only new connections are met with silence. */
struct pg_proxy {
    pid_t pid;
    int port;
};

void pg_proxy_start(struct pg_proxy *proxy, const struct pg_server *server);
void pg_proxy_stop(struct pg_proxy *proxy);

#endif
