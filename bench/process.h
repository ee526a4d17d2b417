/* SPDX-License-Identifier: MIT
 *
 * Programs that a benchmark starts and talks to by lines: on which core they run, what
 * they use, and that they end when we do, however we end. */
#ifndef TDG_BENCH_PROCESS_H
#define TDG_BENCH_PROCESS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Set by SIGINT and SIGTERM once bench_catch_signals() was called: whoever waits is
 * interrupted, fails, and cleans up on exit. */
extern volatile sig_atomic_t bench_interrupted;
void bench_catch_signals(void);

typedef struct bench_child {
    const char *name; /* for messages; borrowed */
    pid_t pid;        /* 0: not running */
    int input;        /* what we write is its standard input; -1: closed */
    int output;       /* what it says */
} bench_child_t;

/* Runs argv[0], a path, in a process group of its own on that core (see bench_pin()). */
void bench_child_start(bench_child_t *child, const char *name, const char *const *argv,
                       int core);

/* Writes a line to it, with its end; or fails. */
void bench_child_tell(const bench_child_t *child, const char *line);

/* Reads one line that it says, without its end; fails when none comes. */
void bench_child_hear(const bench_child_t *child, char *line, size_t size);

/* SIGTERM, and SIGKILL where that does not help. Again does nothing. */
void bench_child_stop(bench_child_t *child);

/* The folder of this program, where those that belong to it are too. */
const char *bench_own_folder(void);

/* Whether this file can be read. */
bool bench_exists(const char *folder, const char *file);

void bench_send_all(int fd, const char *data, size_t len);
void bench_pause_ms(long ms);

/* How many cores we may use. Where there are two or more, bench_pin() keeps the calling
 * process on the first (0) or the second (1). */
int bench_cores(void);
void bench_pin(int which);

/* A process's share of its own core so far, all of its threads. */
uint64_t bench_process_cpu_ns(pid_t pid);

/* CPU time that other machines on the same host took from this one so far. */
double bench_stolen_seconds(void);

/* Memory of the process in bytes, its share of what it shares (PSS). */
double bench_process_memory(pid_t pid);

/* The most that was in memory at any moment (VmHWM), in bytes. */
double bench_process_peak(pid_t pid);

#endif
