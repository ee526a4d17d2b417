/* SPDX-License-Identifier: MIT
 *
 * The parts of bench/fanout. One process leads (fanout.c). It starts the servers that are
 * compared (peers.c), and for each of them forks a load client (load.c), because one
 * process may not open enough files for all. Servers run on one core, load clients on the
 * other.
 *
 *   fanout.c   options, rounds, the order of peers
 *   peers.c    starting and stopping servers
 *   load.c     a load client: streams, events, latency; speak.c opens its streams
 *   proc.c     what the kernel uses for sockets
 *   report.c   table, JSON, plots, targets
 *   raw.c      the raw sender, and server.c tidings: programs of their own */
#ifndef TDG_BENCH_FANOUT_H
#define TDG_BENCH_FANOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../common.h"
#include "../options.h"
#include "../process.h"

enum {
    FANOUT_SIZES = BENCH_MAX_SIZES, /* numbers of subscribers in one run */
    FANOUT_BURST = 16,              /* updates that leave together in the burst form */
    FANOUT_BURST_WINDOW_MS = 5,     /* in which tidings collects them */
    FANOUT_SERVER_CORE = 0,
    FANOUT_LOAD_CORE = 1,
};

/* What is measured. */
typedef enum fanout_form { FORM_LEGACY, FORM_MODERN, FORM_BURST, FORMS } fanout_form_t;

extern const char *const fanout_form_names[FORMS];

/* How a stream is opened. */
typedef enum fanout_speech {
    SPEAK_ABSENT,      /* takes no part in this form */
    SPEAK_NOTHING,     /* connected is subscribed */
    SPEAK_EVENTSOURCE, /* one GET */
    SPEAK_LEGACY,      /* initialize, subscribe, GET stream */
    SPEAK_MODERN,      /* subscriptions/listen */
} fanout_speech_t;

/* ---- Peers -------------------------------------------------------------- */

typedef enum fanout_peer { TIDINGS, RAW, NCHAN, SDK_V1, SDK_V2, PEERS } fanout_peer_t;

typedef struct fanout_paths {
    const char *programs;     /* folder of fanout-server and fanout-raw */
    const char *peers;        /* folder of the peers' scripts and configurations */
    const char *node_modules; /* packages of the SDKs and of Node itself */
    const char *temporary;    /* our own, for nginx */
} fanout_paths_t;

extern const char *const fanout_peer_names[PEERS];

/* How the peer is spoken to in this form. */
fanout_speech_t fanout_peer_speech(fanout_peer_t peer, fanout_form_t form);

/* How many resources each stream subscribes to. The SDK v1 gets its burst from one, which
 * it does not merge: sixteen requests for each of many sessions take it minutes. */
uint32_t fanout_peer_resources(fanout_peer_t peer, fanout_form_t form);

/* Why this peer cannot take part here, or NULL. `text` may be used for the answer. */
const char *fanout_peer_missing(fanout_peer_t peer, const fanout_paths_t *paths,
                                char *text, size_t size);

typedef struct fanout_server {
    fanout_peer_t peer;
    bench_child_t child; /* takes "publish COUNT", "size BYTES" and "settle", unless its
                            input is closed; says "port N" and "settled" */
    pid_t worker;        /* a second process that belongs to it, or 0 */
    uint16_t port;
} fanout_server_t;

/* Starts a server and waits until it can be reached; or fails. */
void fanout_server_start(fanout_server_t *server, fanout_peer_t peer, fanout_form_t form,
                         const fanout_paths_t *paths);

/* Lets it collect its garbage, if it has any. */
void fanout_server_settle(const fanout_server_t *server);
void fanout_server_stop(fanout_server_t *server);

/* ---- Load --------------------------------------------------------------- */

typedef struct fanout_load {
    pid_t pid;
    int channel;
} fanout_load_t;

typedef struct fanout_drive {
    uint32_t updates;
    uint32_t burst;       /* published together, to as many resources */
    uint32_t interval_us; /* between publishes; 0: as soon as everybody has the last */
} fanout_drive_t;

typedef struct fanout_driven {
    uint64_t deliveries;
    double cpu_ns;   /* of the server, per delivery */
    double wall_ns;  /* per delivery */
    double p50, p99; /* from publish to client, ns */
    double bytes;    /* on the wire, per delivery */
} fanout_driven_t;

/* Forks a load client for this server. `speech` and `resources` are what each of its
 * streams subscribes with and to. */
void fanout_load_start(fanout_load_t *load, const fanout_server_t *server,
                       fanout_speech_t speech, uint32_t resources);

/* Opens streams until there are so many. */
void fanout_load_connect(const fanout_load_t *load, uint32_t streams);

/* Tells a sender that has no protocol how long its messages are to be, on the wire. */
void fanout_load_size(const fanout_load_t *load, uint32_t bytes);

/* Publishes and waits until every stream has everything. Fails where something is lost,
 * doubled or out of order. */
void fanout_load_drive(const fanout_load_t *load, const fanout_drive_t *drive,
                       fanout_driven_t *ret);

void fanout_load_stop(fanout_load_t *load);

/* Opens one stream to a server on this machine, and returns its socket once the server
 * has acknowledged. */
int fanout_speak(fanout_speech_t speech, uint16_t port, uint32_t resources);

/* A socket that is connected to that port, or -1. */
int fanout_connect(uint16_t port);

/* ---- Memory ------------------------------------------------------------- */

/* What the kernel has set aside for sockets, on both ends, in bytes; 0 where it does not
 * tell (only root may read /proc/slabinfo). */
double fanout_kernel_memory(void);

/* ---- Report ------------------------------------------------------------- */

/* Of one peer, form and number of subscribers; a sample per round. */
typedef struct fanout_cell {
    bench_samples_t cpu_ns, rate, p50, p99, memory, kernel, bytes;
    bench_samples_t to_raw; /* cpu_ns as a multiple of the raw sender's in that round */
} fanout_cell_t;

typedef struct fanout_table {
    size_t sizes[FANOUT_SIZES];
    size_t size_count;
    fanout_cell_t cells[FORMS][FANOUT_SIZES][PEERS];
} fanout_table_t;

void fanout_print(const fanout_table_t *table, fanout_form_t form, size_t size);
void fanout_print_json(const fanout_table_t *table, fanout_form_t form, size_t size);

/* Prints each target and whether it was reached. */
void fanout_print_targets(const fanout_table_t *table);
void fanout_write_plots(const fanout_table_t *table, const char *folder);

#endif
