/* SPDX-License-Identifier: MIT */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

enum { ANSWER_TIMEOUT_MS = 60000, STOP_TIMEOUT_MS = 5000, ARGS = 12 };

volatile sig_atomic_t bench_interrupted;

static void on_signal(int number) {
    (void)number;
    bench_interrupted = true;
}

void bench_catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* ---- Children ----------------------------------------------------------- */

_Noreturn static void become(const char *const *argv, int core, int input, int output) {
    char *args[ARGS] = {NULL};

    for (size_t i = 0; i < ARGS - 1 && argv[i] != NULL; i++)
        memcpy(&args[i], &argv[i], sizeof(args[i])); /* execv() does not write to them */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    bench_pin(core);
    if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0)
        execv(args[0], args);
    fprintf(stderr, "bench: cannot run %s: %s\n", args[0], strerror(errno));
    _exit(127);
}

void bench_child_start(bench_child_t *child, const char *name, const char *const *argv,
                       int core) {
    int input[2], output[2];

    if (pipe2(input, O_CLOEXEC) < 0 || pipe2(output, O_CLOEXEC) < 0)
        bench_fail("cannot make a pipe: %s", strerror(errno));
    *child = (bench_child_t){.name = name, .input = input[1], .output = output[0]};
    child->pid = fork();
    if (child->pid < 0)
        bench_fail("cannot start a process: %s", strerror(errno));
    if (child->pid == 0)
        become(argv, core, input[0], output[1]);
    close(input[0]);
    close(output[1]);
}

void bench_child_tell(const bench_child_t *child, const char *line) {
    bench_send_all(child->input, line, strlen(line));
}

void bench_child_hear(const bench_child_t *child, char *line, size_t size) {
    struct pollfd polled = {.fd = child->output, .events = POLLIN};
    size_t len = 0;

    while (len < size - 1) {
        if (poll(&polled, 1, ANSWER_TIMEOUT_MS) <= 0 ||
            read(child->output, line + len, 1) != 1)
            bench_fail("%s does not answer or has gone", child->name);
        if (line[len] == '\n')
            break;
        len++;
    }
    line[len] = '\0';
}

void bench_child_stop(bench_child_t *child) {
    int waited = 0;

    if (child->pid <= 0)
        return;
    kill(child->pid, SIGTERM);
    while (waitpid(child->pid, NULL, WNOHANG) == 0) {
        if (waited == STOP_TIMEOUT_MS)
            kill(-child->pid, SIGKILL);
        bench_pause_ms(5);
        waited += 5;
    }
    if (child->input >= 0)
        close(child->input);
    close(child->output);
    child->pid = 0;
}

const char *bench_own_folder(void) {
    static char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

    if (len < 0)
        bench_fail("cannot find this program: %s", strerror(errno));
    path[len] = '\0';
    *strrchr(path, '/') = '\0';
    return path;
}

bool bench_exists(const char *folder, const char *file) {
    char path[4096];

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    return access(path, R_OK) == 0;
}

void bench_send_all(int fd, const char *data, size_t len) {
    while (len > 0) {
        ssize_t sent = write(fd, data, len);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            bench_fail("cannot send: %s", strerror(errno));
        data += sent;
        len -= (size_t)sent;
    }
}

void bench_pause_ms(long ms) {
    struct timespec time = {.tv_nsec = ms * 1000000};

    nanosleep(&time, NULL);
}

/* ---- What a process uses ------------------------------------------------ */

int bench_cores(void) {
    cpu_set_t allowed;

    return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

void bench_pin(int which) {
    cpu_set_t allowed, one;

    if (bench_cores() < 2 || sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
        return;
    CPU_ZERO(&one);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed) || which-- > 0)
            continue;
        CPU_SET(core, &one);
        break;
    }
    if (sched_setaffinity(0, sizeof(one), &one) < 0)
        bench_fail("cannot stay on one core: %s", strerror(errno));
}

uint64_t bench_process_cpu_ns(pid_t pid) {
    struct timespec time;
    clockid_t clock;

    if (pid == 0)
        return 0;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) < 0)
        bench_fail("process %d has gone", (int)pid);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

double bench_stolen_seconds(void) {
    FILE *in = fopen("/proc/stat", "r");
    unsigned long ticks = 0;

    if (in == NULL)
        return 0;
    if (fscanf(in, "cpu %*u %*u %*u %*u %*u %*u %*u %lu", &ticks) != 1)
        ticks = 0;
    fclose(in);
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* The number after `field` in a file of /proc, which is in KiB, as bytes. */
static double read_field(pid_t pid, const char *file, const char *field) {
    char path[64], line[256];
    unsigned long kib = 0;
    FILE *in;

    if (pid == 0)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    in = fopen(path, "r");
    if (in == NULL)
        bench_fail("cannot read %s", path);
    while (fgets(line, sizeof(line), in) != NULL)
        if (strncmp(line, field, strlen(field)) == 0 &&
            sscanf(line + strlen(field), "%lu", &kib) == 1)
            break;
    fclose(in);
    return (double)kib * 1024;
}

double bench_process_memory(pid_t pid) {
    return read_field(pid, "smaps_rollup", "Pss:");
}

double bench_process_peak(pid_t pid) {
    return read_field(pid, "status", "VmHWM:");
}
