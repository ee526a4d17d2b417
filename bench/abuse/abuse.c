/* SPDX-License-Identifier: MIT
 *
 * What abusers cost the good: the time from a publish to its subscribers, and of a small
 * read, without and with a crowd that misbehaves; and what the server takes of memory. */
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abuse.h"

enum { START_MS = 30000, SETTLE_MS = 2000, AFTER_MS = 15000 };

static const char help[] =
    "usage: abuse [OPTION]...\n"
    "\n"
    "Starts `tidings serve` on one core, and on the other 100 good subscribers, a\n"
    "publisher, a reader of a small file, and a crowd that misbehaves. Measures how\n"
    "long an update and a read take without the crowd and with it, what is lost, and\n"
    "the memory of the server. Everything is on this machine. The typical p99 is\n"
    "the median of those of equal parts, one for each two seconds.\n"
    "\n"
    "  --kind LIST         of abusers [all]: slow-head, slow-body, not-reading,\n"
    "                      large-reads, bad-key, initialize, churn, malformed,\n"
    "                      connect-close, oversized\n"
    "  --clients N         connections of abusers in all [5000]\n"
    "  --rate N            actions of each per second [1]; 0 is as many as one core\n"
    "                      makes\n"
    "  --files N           files of 4 MB that large-reads ask for [1]\n"
    "  --good N            good subscribers [100]\n"
    "  --seconds N         of each of the two phases [10]\n"
    "  --quick             a small run: 200 clients, 10 good ones, one second\n"
    "  --json              one object on one line\n"
    "  --help              show this text\n";

static struct {
    abuse_plan_t plan;
    bench_child_t server;
    pid_t crowd;
    bool json;
} run = {
    .plan = {.connections = 5000, .rate = 1, .seconds = 10, .good = 100, .files = 1}};

/* ---- Options ------------------------------------------------------------ */

static void show_help(void *user) {
    (void)user;
    fputs(help, stdout);
    exit(0);
}

static void choose_quick(void *user) {
    (void)user;
    run.plan.connections = 200;
    run.plan.good = 10;
    run.plan.seconds = 1;
}

static void parse(int argc, char **argv) {
    abuse_plan_t *plan = &run.plan;
    const bench_option_t options[] = {
        BENCH_CALL("quick", choose_quick, NULL),
        BENCH_CHOICE("kind", plan->chosen, abuse_kind_names, ABUSE_KINDS),
        BENCH_NUMBER("clients", &plan->connections, 1, 20000),
        BENCH_NUMBER("rate", &plan->rate, 0, 1000),
        BENCH_NUMBER("files", &plan->files, 1, 1000),
        BENCH_NUMBER("good", &plan->good, 1, 1000),
        BENCH_NUMBER("seconds", &plan->seconds, 1, 600),
        BENCH_FLAG("json", &run.json),
        BENCH_CALL("help", show_help, NULL),
        BENCH_NO_MORE,
    };
    bool any = false;

    bench_parse(argc, argv, options);
    for (size_t i = 0; i < ABUSE_KINDS; i++)
        any = any || plan->chosen[i];
    for (size_t i = 0; i < ABUSE_KINDS; i++)
        plan->chosen[i] = plan->chosen[i] || !any;
}

/* ---- The end ------------------------------------------------------------ */

static int remove_one(const char *path, const struct stat *st, int type,
                      struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void stop_crowd(void) {
    if (run.crowd <= 0)
        return;
    kill(run.crowd, SIGKILL);
    waitpid(run.crowd, NULL, 0);
    run.crowd = 0;
}

static void clean_up(void) {
    stop_crowd();
    bench_child_stop(&run.server);
    if (run.plan.folder[0] != '\0')
        nftw(run.plan.folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- The server --------------------------------------------------------- */

static FILE *create_file(const char *name) {
    char path[200];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", run.plan.folder, name);
    file = fopen(path, "w");
    if (file == NULL)
        bench_fail("cannot write %s: %s", path, strerror(errno));
    return file;
}

/* Large files are sparse, and each begins with something else. */
static void make_files(void) {
    char name[32];
    FILE *file = create_file("small");

    fputs("small\n", file);
    fclose(file);
    for (size_t i = 0; i < run.plan.files; i++) {
        snprintf(name, sizeof(name), "large-%zu", i);
        file = create_file(name);
        fprintf(file, "%zu\n", i);
        if (fflush(file) != 0 || ftruncate(fileno(file), ABUSE_LARGE_BYTES) < 0)
            bench_fail("cannot write a large file: %s", strerror(errno));
        fclose(file);
    }
}

static void make_config(void) {
    FILE *file = create_file(".config.yaml"); /* hidden: not served */

    fprintf(file,
            "server: {workers: 1, timing: immediate, rate-limit: 0}\n"
            "publish: {key: " ABUSE_KEY "}\n"
            "resources:\n- memory: 'bench://resource/{n}'\n- files: %s\n",
            run.plan.folder);
    fclose(file);
}

static void make_folder(void) {
    const char *base = getenv("TMPDIR");

    snprintf(run.plan.folder, sizeof(run.plan.folder), "%s/tidings-abuse-XXXXXX",
             base != NULL && strlen(base) < 80 ? base : "/tmp");
    if (mkdtemp(run.plan.folder) == NULL)
        bench_fail("cannot make a folder: %s", strerror(errno));
    make_files();
    make_config();
}

static void start_server(void) {
    char program[512], config[200], url[64];
    const char *argv[] = {
        "/bin/sh",
        "-c",
        "exec \"$0\" serve --quiet --config \"$1\" --listen \"$2\" >/dev/null 2>&1",
        program,
        config,
        url,
        NULL};

    run.plan.port = bench_free_port();
    snprintf(program, sizeof(program), "%s/../tidings", bench_own_folder());
    snprintf(config, sizeof(config), "%s/.config.yaml", run.plan.folder);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", run.plan.port);
    bench_child_start(&run.server, "tidings", argv, ABUSE_SERVER_CORE);
    for (int ms = 0; ms < START_MS; ms += 50) {
        int fd = abuse_connect(run.plan.port, true);

        if (fd >= 0) {
            close(fd);
            return;
        }
        bench_pause_ms(50);
    }
    bench_fail("the server does not start");
}

/* Both sides need a descriptor for each connection. */
static void allow_files(void) {
    struct rlimit limit;
    size_t needed = run.plan.connections + run.plan.good + 200;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < needed)
        bench_fail("%zu files have to be open at a time, and %zu may be", needed,
                   (size_t)limit.rlim_max);
}

/* ---- Report ------------------------------------------------------------- */

struct memory {
    double start, peak, after; /* MB */
};

static double ratio(double with, double without) {
    return without > 0 ? with / without : 0;
}

static void print_times(const char *what, const abuse_times_t *quiet,
                        const abuse_times_t *abused) {
    const struct {
        const char *name;
        double quiet, abused;
    } rows[] = {
        {"p50", quiet->p50, abused->p50},
        {"p99", quiet->p99, abused->p99},
        {"typical p99", quiet->typical_p99, abused->typical_p99},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char a[32], b[32];

        printf("%-22s %-12s %9s -> %9s   x %.2f\n", i == 0 ? what : "", rows[i].name,
               bench_duration(rows[i].quiet, a, sizeof(a)),
               bench_duration(rows[i].abused, b, sizeof(b)),
               ratio(rows[i].abused, rows[i].quiet));
    }
}

static void print(const abuse_measured_t *quiet, const abuse_measured_t *abused,
                  const struct memory *memory) {
    printf("%zu good subscribers, %zu abusers at ", run.plan.good, run.plan.connections);
    if (run.plan.rate > 0)
        printf("%zu actions a second each, %zu s without and with them\n", run.plan.rate,
               run.plan.seconds);
    else
        printf("as many actions as one core makes, %zu s without and with them\n",
               run.plan.seconds);
    print_times("update to subscriber", &quiet->update, &abused->update);
    print_times("small read", &quiet->read, &abused->read);
    printf("updates %zu -> %zu, reads %zu -> %zu, lost subscribers %zu -> %zu\n",
           quiet->updates, abused->updates, quiet->reads, abused->reads, quiet->lost,
           abused->lost);
    printf("the server used %.0f %% -> %.0f %% of its core\n", 100 * quiet->cpu,
           100 * abused->cpu);
    printf("other machines took %.1f %% -> %.1f %% of the cores\n", 100 * quiet->stolen,
           100 * abused->stolen);
    printf(
        "memory of the server: %.1f MB at first, %.1f MB at most, %.1f MB afterwards\n",
        memory->start, memory->peak, memory->after);
}

static void put_times(const char *name, const abuse_times_t *times) {
    printf("\"%s_p50_ns\":%.0f,\"%s_p99_ns\":%.0f,\"%s_typical_p99_ns\":%.0f,", name,
           times->p50, name, times->p99, name, times->typical_p99);
}

static void put_json(const char *name, const abuse_measured_t *measured) {
    printf("\"%s\":{", name);
    put_times("update", &measured->update);
    put_times("read", &measured->read);
    printf("\"updates\":%zu,\"reads\":%zu,\"lost\":%zu,\"cpu\":%.3f,\"stolen\":%.4f}",
           measured->updates, measured->reads, measured->lost, measured->cpu,
           measured->stolen);
}

static void print_json(const abuse_measured_t *quiet, const abuse_measured_t *abused,
                       const struct memory *memory) {
    printf("{\"bench\":\"abuse\",\"good\":%zu,\"clients\":%zu,\"rate\":%zu,\"files\":%zu,"
           "\"seconds\":%zu,\"kinds\":[",
           run.plan.good, run.plan.connections, run.plan.rate, run.plan.files,
           run.plan.seconds);
    for (size_t i = 0, count = 0; i < ABUSE_KINDS; i++)
        if (run.plan.chosen[i])
            printf("%s\"%s\"", count++ > 0 ? "," : "", abuse_kind_names[i]);
    printf("],");
    put_json("quiet", quiet);
    printf(",");
    put_json("abused", abused);
    printf(",\"update_ratio\":%.3f,\"read_ratio\":%.3f,\"memory_start_mb\":%.1f,"
           "\"memory_peak_mb\":%.1f,\"memory_after_mb\":%.1f}\n",
           ratio(abused->update.typical_p99, quiet->update.typical_p99),
           ratio(abused->read.typical_p99, quiet->read.typical_p99), memory->start,
           memory->peak, memory->after);
}

/* ---- Phases ------------------------------------------------------------- */

static double mb(double bytes) {
    return bytes / (1 << 20);
}

static void pause_for(size_t ms) {
    for (; ms >= 100 && !bench_interrupted; ms -= 100)
        bench_pause_ms(100);
}

static void measure_phase(abuse_good_t *good, abuse_measured_t *ret) {
    uint64_t cpu_ns = bench_process_cpu_ns(run.server.pid), began_ns = bench_now_ns();
    double stolen_s = bench_stolen_seconds(), passed_ns;

    abuse_good_measure(good, ret);
    passed_ns = (double)(bench_now_ns() - began_ns);
    ret->cpu = (double)(bench_process_cpu_ns(run.server.pid) - cpu_ns) / passed_ns;
    ret->stolen = (bench_stolen_seconds() - stolen_s) / (passed_ns / 1e9) /
                  (double)sysconf(_SC_NPROCESSORS_ONLN);
}

static void measure(abuse_measured_t *quiet, abuse_measured_t *abused,
                    struct memory *memory) {
    abuse_good_t *good = abuse_good_open(&run.plan);

    bench_progress("without abusers");
    measure_phase(good, quiet);
    memory->start = mb(bench_process_memory(run.server.pid));
    bench_progress("with %zu abusers", run.plan.connections);
    run.crowd = abuse_crowd_start(&run.plan);
    pause_for(run.plan.seconds > 2 ? SETTLE_MS : 200);
    measure_phase(good, abused);
    memory->peak = mb(bench_process_peak(run.server.pid));
    stop_crowd();
    bench_progress("after them");
    pause_for(run.plan.seconds > 2 ? AFTER_MS : 200);
    memory->after = mb(bench_process_memory(run.server.pid));
    bench_progress(NULL);
}

int main(int argc, char **argv) {
    abuse_measured_t quiet, abused;
    struct memory memory;

    parse(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    atexit(clean_up);
    bench_catch_signals();
    allow_files();
    make_folder();
    start_server();
    bench_pin(ABUSE_LOAD_CORE);
    measure(&quiet, &abused, &memory);
    if (bench_interrupted)
        bench_fail("interrupted");
    if (run.json)
        print_json(&quiet, &abused, &memory);
    else
        print(&quiet, &abused, &memory);
    return quiet.lost + abused.lost > 0;
}
