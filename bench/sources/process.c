/* SPDX-License-Identifier: MIT
 *
 * Children are started by the main thread only: they are killed with the thread that
 * started them. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sources.h"

enum { MAX_CHILDREN = 16, STOP_MS = 10000 };

static struct {
    pid_t children[MAX_CHILDREN];
    char folder[256];
} state;

static pthread_mutex_t ending = PTHREAD_MUTEX_INITIALIZER;

/* ---- The end ------------------------------------------------------------ */

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void clean_up(void) {
    for (size_t i = 0; i < MAX_CHILDREN; i++)
        if (state.children[i] > 0)
            sources_stop(state.children[i], SIGINT);
    nftw(state.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void sources_end_alone(void) {
    pthread_mutex_lock(&ending); /* and it stays locked */
}

static void *await_signal(void *signals) {
    int number;

    sigwait(signals, &number);
    sources_end_alone();
    exit(1); /* whatever was going on is worth nothing now */
}

static void prepare_end(void) {
    static sigset_t signals;
    pthread_t thread;

    atexit(clean_up);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (pthread_create(&thread, NULL, await_signal, &signals) != 0)
        sources_fail("cannot start a thread");
}

void sources_make_folder(sources_world_t *world) {
    const char *tmp = getenv("TMPDIR");

    snprintf(world->folder, sizeof(world->folder), "%s/tidings-bench-XXXXXX",
             tmp != NULL ? tmp : P_tmpdir);
    if (mkdtemp(world->folder) == NULL || chmod(world->folder, 0755) < 0)
        sources_fail("cannot make a folder: %s", strerror(errno));
    strcpy(state.folder, world->folder);
    prepare_end();
}

/* ---- Children ----------------------------------------------------------- */

static void log_path(const sources_world_t *world, const char *log, char *path,
                     size_t size) {
    snprintf(path, size, "%s/%s", world->folder, log);
}

static void show_log(const sources_world_t *world, const char *log) {
    char path[512], line[512];
    FILE *file;

    log_path(world, log, path, sizeof(path));
    file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        fprintf(stderr, "%s: %s", log, line);
    if (file != NULL)
        fclose(file);
}

_Noreturn static void become(const char *const *argv, const struct passwd *user,
                             int log) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGPIPE};
    sigset_t none;

    if (user != NULL && (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 ||
                         setuid(user->pw_uid) != 0))
        _exit(126);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGINT); /* a fast shutdown of PostgreSQL, too */
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        signal(numbers[i], SIG_DFL); /* a shell may have let us ignore them */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(open("/dev/null", O_RDONLY), 0) >= 0 && dup2(log, 1) >= 0 &&
        dup2(log, 2) >= 0)
        execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

pid_t sources_start(const sources_world_t *world, const char *const *argv,
                    const char *log, bool as_other) {
    struct passwd *user = NULL;
    char path[512];
    size_t slot = 0;
    pid_t pid;
    int fd;

    if (as_other && geteuid() == 0) {
        user = getpwnam("postgres");
        if (user == NULL)
            user = getpwnam("nobody");
    }
    log_path(world, log, path, sizeof(path));
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    pid = fd >= 0 ? fork() : -1;
    if (pid < 0)
        sources_fail("cannot start %s: %s", argv[0], strerror(errno));
    if (pid == 0)
        become(argv, user, fd);
    close(fd);
    while (slot < MAX_CHILDREN && state.children[slot] != 0)
        slot++;
    if (slot < MAX_CHILDREN)
        state.children[slot] = pid;
    return pid;
}

static void forget(pid_t pid) {
    for (size_t i = 0; i < MAX_CHILDREN; i++)
        if (state.children[i] == pid)
            state.children[i] = 0;
}

void sources_stop(pid_t pid, int number) {
    kill(pid, number);
    for (int waited = 0; waitpid(pid, NULL, WNOHANG) == 0; waited += 5) {
        if (waited == STOP_MS)
            kill(-pid, SIGKILL);
        sources_sleep_until(bench_now_ns() + 5000000);
    }
    forget(pid);
}

void sources_run(const sources_world_t *world, const char *const *argv, const char *log,
                 bool as_other) {
    pid_t pid = sources_start(world, argv, log, as_other);
    int status;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    forget(pid);
    if (status == 0)
        return;
    show_log(world, log);
    sources_fail("%s failed", argv[0]);
}

/* ---- The server --------------------------------------------------------- */

static void write_config(const sources_world_t *world, const char *path,
                         const char *settings) {
    FILE *config = fopen(path, "w");

    if (config == NULL)
        sources_fail("cannot write %s: %s", path, strerror(errno));
    fprintf(config, "server:\n  listen: \"http://127.0.0.1:0\"\n  idle-timeout: 1d\n%s",
            settings);
    fprintf(config, "publish:\n  key: bench\nresources:\n");
    for (int id = 0; id < KINDS; id++)
        if (world->used[id])
            sources_kinds[id].configure(world, config);
    if (fclose(config) != 0)
        sources_fail("cannot write %s: %s", path, strerror(errno));
}

/* The port that the server says it has; 0: it has not said so yet. */
static uint16_t port_in_log(const sources_world_t *world, const char *log) {
    char path[512], line[8192];
    unsigned port = 0;
    FILE *file;

    log_path(world, log, path, sizeof(path));
    file = fopen(path, "r");
    while (file != NULL && port == 0 && fgets(line, sizeof(line), file) != NULL) {
        const char *url = strstr(line, "http://127.0.0.1:");

        if (url != NULL && strstr(line, "\"urls\"") != NULL)
            sscanf(url, "http://127.0.0.1:%u/mcp", &port);
    }
    if (file != NULL)
        fclose(file);
    return (uint16_t)port;
}

pid_t sources_serve(sources_world_t *world, sources_audience_t audience,
                    const char *settings) {
    char config[512], log[32];
    const char *argv[] = {world->tidings, "serve", "--config", config, "--json", NULL};
    uint64_t end = bench_now_ns() + SOURCES_PATIENCE_S * (uint64_t)1000000000;
    pid_t pid;

    snprintf(log, sizeof(log), "serve-%d.log", (int)audience);
    log_path(world, "tidings.yaml", config, sizeof(config));
    write_config(world, config, settings);
    pid = sources_start(world, argv, log, false);
    while ((world->ports[audience] = port_in_log(world, log)) == 0) {
        if (bench_now_ns() > end || waitpid(pid, NULL, WNOHANG) == pid) {
            show_log(world, log);
            sources_fail("tidings serve did not start");
        }
        sources_sleep_until(bench_now_ns() + 5000000);
    }
    return pid;
}

uint64_t sources_cpu_ns(pid_t pid) {
    struct timespec time;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) < 0)
        sources_fail("tidings serve has gone");
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void sources_sleep_until(uint64_t ns) {
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000),
                            .tv_nsec = (long)(ns % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        continue;
}
