/* SPDX-License-Identifier: MIT
 *
 * How long after a change a client knows of it, by subscription and by polling, for every
 * kind of source; and what either costs. Once with every change told at once, once with
 * the default settings, and a while without changes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../options.h"
#include "sources.h"

enum { CHANGES = 100, GAP_MS = 2000, MIN_GAP_MS = 50, QUIET_S = 60, SEED = 1 };

static const char *const settings[RUNS] = {
    [AT_ONCE] = "  timing: immediate\n  rate-limit: 0\n",
    [DEFAULTS] = "",
    [QUIET] = "",
};

struct options {
    size_t changes, gap_ms, quiet_s, seed;
    bool json;
    const char *svg;
};

/* ---- Command line ------------------------------------------------------- */

static void print_help(void) {
    printf(
        "usage: sources [OPTION]...\n\n"
        "Serves a resource of every kind of source with the real `tidings serve`,\n"
        "changes them at random moments, and measures for a client that subscribes,\n"
        "one that polls every second and one that polls every 5 s, side by side, how\n"
        "long after a change it has the new content, how many requests and bytes that\n"
        "takes, and the CPU time of the server. Each kind of client has a server of\n"
        "its own, of the same config. Fails when a change is lost.\n\n"
        "Options:\n"
        "  --sources LIST     memory, files, log, command, sqlite, postgres, webhook,\n"
        "                     http (default all that this machine has)\n"
        "  --changes N        changes of each source (default %d)\n"
        "  --gap MS           between two of them, on average (default %d)\n"
        "  --quiet-seconds N  then so long without changes (default %d)\n"
        "  --seed N           other moments (default %d)\n"
        "  --quick            few changes: whether it works, not how fast\n"
        "  --json             one JSON object per run, source and client\n"
        "  --svg DIR          write a plot into this folder\n"
        "  --help             show this text\n\n"
        "The moments are those of a Poisson process with a seed. The clock starts\n"
        "right before the change: the write of a file or line, the UPDATE, the POST.\n"
        "Every content has about %d bytes. Clients are modern, over HTTP on the\n"
        "loopback.\n",
        CHANGES, GAP_MS, QUIET_S, SEED, SOURCES_CONTENT);
}

static void show_help(void *user) {
    (void)user;
    print_help();
    exit(0);
}

static void be_quick(void *user) {
    struct options *options = user;

    options->changes = 3;
    options->gap_ms = 200;
    options->quiet_s = 1;
}

static void parse(int argc, char **argv, struct options *options, bool *used) {
    const char *names[KINDS];
    const bench_option_t table[] = {
        BENCH_CHOICE("sources", used, names, KINDS),
        BENCH_NUMBER("changes", &options->changes, 1, SOURCES_MAX_CHANGES),
        BENCH_NUMBER("gap", &options->gap_ms, MIN_GAP_MS, 60000),
        BENCH_NUMBER("quiet-seconds", &options->quiet_s, 1, 86400),
        BENCH_NUMBER("seed", &options->seed, 0, UINT32_MAX),
        BENCH_CALL("quick", be_quick, options),
        BENCH_FLAG("json", &options->json),
        BENCH_TEXT("svg", &options->svg),
        BENCH_CALL("help", show_help, NULL),
        BENCH_NO_MORE,
    };

    for (int id = 0; id < KINDS; id++)
        names[id] = sources_kinds[id].name;
    bench_parse(argc, argv, table);
}

/* ---- What is run -------------------------------------------------------- */

/* The program lies one folder above this one. */
static void find_tidings(sources_world_t *world) {
    ssize_t len = readlink("/proc/self/exe", world->tidings, sizeof(world->tidings) - 16);
    char *slash;

    if (len < 0)
        sources_fail("cannot find this program: %s", strerror(errno));
    world->tidings[len] = '\0';
    for (int i = 0; i < 2; i++)
        if ((slash = strrchr(world->tidings, '/')) != NULL)
            *slash = '\0';
    strcat(world->tidings, "/tidings");
    if (access(world->tidings, X_OK) < 0)
        sources_fail("there is no %s", world->tidings);
}

static void prepare(sources_world_t *world) {
    const char *missing = sources_postgres_missing();

    if (world->used[POSTGRES] && missing != NULL) {
        fprintf(stderr, "postgres is left out: %s\n", missing);
        world->used[POSTGRES] = false;
    }
    find_tidings(world);
    sources_make_folder(world);
    bench_progress("preparing");
    for (int id = 0; id < KINDS; id++)
        if (world->used[id] && sources_kinds[id].prepare != NULL)
            sources_kinds[id].prepare(world);
}

static void measure(sources_world_t *world, const struct options *options,
                    sources_run_id_t run, sources_table_t *table) {
    sources_plan_t plan = {.settings = settings[run],
                           .gap_ns = options->gap_ms * (uint64_t)1000000,
                           .seed = options->seed};

    if (run == QUIET)
        plan.lasts_ns = options->quiet_s * (uint64_t)1000000000;
    else
        plan.changes = options->changes;
    bench_progress("%s: about %zu s", sources_run_names[run],
                   run == QUIET ? options->quiet_s
                                : options->changes * options->gap_ms / 1000);
    sources_run_phase(world, &plan, &table->runs[run]);
    bench_progress(NULL);
    if (!options->json && run != QUIET)
        sources_print(table, run);
}

int main(int argc, char **argv) {
    static sources_table_t table;
    static sources_world_t world;
    struct options options = {
        .changes = CHANGES, .gap_ms = GAP_MS, .quiet_s = QUIET_S, .seed = SEED};

    memset(world.used, true, sizeof(world.used));
    parse(argc, argv, &options, world.used);
    prepare(&world);
    memcpy(table.used, world.used, sizeof(table.used));
    table.gap_ns = options.gap_ms * (uint64_t)1000000;

    for (int run = 0; run < RUNS; run++)
        measure(&world, &options, (sources_run_id_t)run, &table);
    if (options.json)
        sources_print_json(&table);
    else
        sources_print_cpu(&table);
    if (options.svg != NULL)
        sources_draw(&table, options.svg);
    if (ferror(stdout) || fclose(stdout) != 0)
        sources_fail("cannot write to standard output");
    return 0;
}
