/* SPDX-License-Identifier: MIT */
#include "unit/source/pg_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "source/postgres/pg_trigger.h"
#include "support.h"

enum { PATIENCE_S = 120, PROXY_CONNECTIONS = 16, PROXY_TICK_MS = 50 };

/* ---- Programs ----------------------------------------------------------- */

static void find_program(const char *name, char *out, size_t size) {
    char pattern[128];
    glob_t found;

    snprintf(pattern, sizeof(pattern), "/usr/lib/postgresql/*/bin/%s", name);
    if (glob(pattern, 0, NULL, &found) == 0)
        snprintf(out, size, "%s", found.gl_pathv[found.gl_pathc - 1]);
    else
        snprintf(out, size, "%s", name); /* by PATH */
    globfree(&found);
}

/* The user to run it as: root may not. */
static struct passwd *other_user(void) {
    struct passwd *user;

    if (geteuid() != 0)
        return NULL;
    user = getpwnam("postgres");
    if (user == NULL)
        user = getpwnam("nobody");
    assert_non_null(user);
    return user;
}

static void become(pid_t parent, const struct passwd *user, int death_signal) {
    if (user != NULL && (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 ||
                         setuid(user->pw_uid) != 0))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, death_signal);
    if (getppid() != parent)
        _exit(126);
}

static pid_t spawn(const struct pg_server *server, const char *const *argv) {
    struct passwd *user = other_user();
    char log[300];
    pid_t parent = getpid(), pid;

    snprintf(log, sizeof(log), "%s/log", server->dir);
    pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;

    become(parent, user, SIGQUIT);
    setsid();
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int null = open("/dev/null", O_RDONLY);
    if (fd < 0 || null < 0 || chdir(server->dir) != 0)
        _exit(126);
    dup2(null, 0);
    dup2(fd, 1);
    dup2(fd, 2);
    execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static void show_log(const struct pg_server *server) {
    char path[300], line[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/log", server->dir);
    file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        print_message("# %s", line);
    if (file != NULL)
        fclose(file);
}

static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* ---- The server --------------------------------------------------------- */

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
}

static PGconn *connect_admin(const struct pg_server *server) {
    char conninfo[512];

    snprintf(conninfo, sizeof(conninfo), "host=%s port=%d user=postgres dbname=postgres",
             server->dir, server->port);
    return PQconnectdb(conninfo);
}

/* Starts the process and waits until it answers. False where it ends before. */
static bool try_start(struct pg_server *server) {
    char program[256], port[16], data[300];
    const char *argv[] = {program,
                          "-D",
                          data,
                          "-p",
                          port,
                          "-k",
                          server->dir,
                          "-c",
                          "listen_addresses=127.0.0.1",
                          "-c",
                          "fsync=off",
                          "-c",
                          "max_connections=30",
                          "-c",
                          "max_prepared_transactions=2",
                          NULL};
    time_t end = time(NULL) + PATIENCE_S;

    find_program("postgres", program, sizeof(program));
    snprintf(port, sizeof(port), "%d", server->port);
    snprintf(data, sizeof(data), "%s/data", server->dir);
    server->pid = spawn(server, argv);
    while (time(NULL) < end) {
        PGconn *conn = connect_admin(server);
        bool up = PQstatus(conn) == CONNECTION_OK;

        PQfinish(conn);
        if (up)
            return true;
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            return false;
        }
        nap();
    }
    show_log(server);
    fail_msg("PostgreSQL does not answer");
    return false;
}

void pg_server_start(struct pg_server *server) {
    time_t end = time(NULL) + PATIENCE_S;

    /* After a crash the old processes need a moment to notice it. */
    while (!try_start(server)) {
        if (time(NULL) >= end) {
            show_log(server);
            fail_msg("PostgreSQL does not start");
        }
        nap();
    }
}

void pg_server_stop(struct pg_server *server, int signal) {
    if (server->pid == 0)
        return;
    kill(server->pid, SIGCONT);
    kill(server->pid, signal);
    assert_int_equal(waitpid(server->pid, NULL, 0), server->pid);
    server->pid = 0;
}

static void append(const char *path, const char *text) {
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

void pg_server_create(struct pg_server *server) {
    const char *tmp = getenv("TMPDIR");
    char program[256], path[300];
    const char *argv[] = {program, "-D", "data", "-U",         "postgres",  "-A",
                          "trust", "-E", "UTF8", "--locale=C", "--no-sync", NULL};
    struct passwd *user = other_user();
    int status;

    *server = (struct pg_server){.port = free_port()};
    snprintf(server->dir, sizeof(server->dir), "%s/tidings-pg-XXXXXX",
             tmp != NULL ? tmp : P_tmpdir);
    assert_non_null(mkdtemp(server->dir));
    if (user != NULL)
        assert_int_equal(chown(server->dir, user->pw_uid, user->pw_gid), 0);
    assert_int_equal(chmod(server->dir, 0700), 0);

    find_program("initdb", program, sizeof(program));
    pid_t pid = spawn(server, argv);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0) {
        show_log(server);
        fail_msg("initdb failed; is the package postgresql installed?");
    }

    /* Passwords count for one role only. */
    snprintf(path, sizeof(path), "%s/data/pg_hba.conf", server->dir);
    append(path, "host all locked 127.0.0.1/32 scram-sha-256\n"
                 "host all all 127.0.0.1/32 trust\n"
                 "local all all trust\n");
    pg_server_start(server);
}

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void pg_server_destroy(struct pg_server *server) {
    pg_server_stop(server, SIGQUIT);
    nftw(server->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- SQL ---------------------------------------------------------------- */

static PGresult *run(const struct pg_server *server, PGconn **ret, const char *sql) {
    PGresult *result;

    *ret = connect_admin(server);
    if (PQstatus(*ret) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(*ret));
    PQclear(PQexec(*ret, "SET client_min_messages = warning"));
    result = PQexec(*ret, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK &&
        PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQresultErrorMessage(result));
    return result;
}

void pg_run(const struct pg_server *server, const char *format, ...) {
    PGconn *conn;
    char *sql;
    va_list args;

    va_start(args, format);
    assert_true(vasprintf(&sql, format, args) >= 0);
    va_end(args);
    PQclear(run(server, &conn, sql));
    PQfinish(conn);
    free(sql);
}

void pg_install(const struct pg_server *server, const char *table, const char *keys,
                const char *channel) {
    tdg__pg_trigger_t trigger = {.key_count = 0};
    tdg__text_t sql;
    char copy[256], *next = copy, *one;

    assert_int_equal(tdg__pg_table_parse(table, &trigger.table, NULL), 0);
    snprintf(copy, sizeof(copy), "%s", keys);
    while ((one = strsep(&next, ",")) != NULL)
        assert_non_null(
            tdg__pg_name_parse(one, '\0', trigger.keys[trigger.key_count++], NULL));
    if (channel != NULL)
        snprintf(trigger.channel, sizeof(trigger.channel), "%s", channel);
    else
        tdg__pg_channel(&trigger.table, trigger.channel);
    tdg__text_init(&sql, 1 << 20);
    tdg__pg_put_install(&sql, &trigger);
    assert_int_equal(sql.error, 0);
    pg_run(server, "%s", sql.data);
    tdg__text_done(&sql);
}

long pg_number(const struct pg_server *server, const char *sql) {
    PGconn *conn;
    PGresult *result = run(server, &conn, sql);
    long number;

    assert_int_equal(PQntuples(result), 1);
    number = atol(PQgetvalue(result, 0, 0));
    PQclear(result);
    PQfinish(conn);
    return number;
}

const char *pg_conninfo(const struct pg_server *server, const char *role, int port) {
    static char conninfo[512];

    snprintf(conninfo, sizeof(conninfo), "postgresql://%s@127.0.0.1:%d/postgres", role,
             port != 0 ? port : server->port);
    return conninfo;
}

/* ---- The proxy ---------------------------------------------------------- */

static int dial(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static volatile sig_atomic_t accepts = 1;

static void on_user_signal(int signal) {
    accepts = signal == SIGUSR2;
}

/* fds[0] accepts; behind it, pairs that belong together. */
static void forward(int listener, int port) {
    struct pollfd fds[1 + 2 * PROXY_CONNECTIONS] = {{.fd = listener, .events = POLLIN}};
    nfds_t count = 1;
    char bytes[4096];

    for (;;) {
        fds[0].events = accepts ? POLLIN : 0;
        fds[0].revents = 0;
        if (poll(fds, count, PROXY_TICK_MS) <= 0) /* a signal may come before it waits */
            continue;
        for (nfds_t i = 1; i < count; i++) {
            nfds_t other = (i - 1) % 2 == 0 ? i + 1 : i - 1;
            ssize_t got;

            if (fds[i].fd < 0 || fds[i].revents == 0)
                continue;
            got = read(fds[i].fd, bytes, sizeof(bytes));
            if (got > 0 && send(fds[other].fd, bytes, (size_t)got, MSG_NOSIGNAL) == got)
                continue;
            close(fds[i].fd);
            close(fds[other].fd);
            fds[i].fd = fds[other].fd = -1;
        }
        if (accepts && fds[0].revents != 0 && count + 2 <= COUNT(fds)) {
            int near = accept(listener, NULL, NULL), far = near >= 0 ? dial(port) : -1;

            if (far < 0) {
                close(near);
                continue;
            }
            fds[count++] = (struct pollfd){.fd = near, .events = POLLIN};
            fds[count++] = (struct pollfd){.fd = far, .events = POLLIN};
        }
    }
}

void pg_proxy_start(struct pg_proxy *proxy, const struct pg_server *server) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pid_t parent = getpid();

    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 16), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    proxy->port = ntohs(address.sin_port);
    proxy->pid = fork();
    assert_true(proxy->pid >= 0);
    if (proxy->pid == 0) {
        become(parent, NULL, SIGKILL);
        signal(SIGUSR1, on_user_signal);
        signal(SIGUSR2, on_user_signal);
        forward(listener, server->port);
        _exit(0);
    }
    close(listener);
}

void pg_proxy_stop(struct pg_proxy *proxy) {
    if (proxy->pid <= 0)
        return;
    kill(proxy->pid, SIGKILL);
    waitpid(proxy->pid, NULL, 0);
    proxy->pid = 0;
}
