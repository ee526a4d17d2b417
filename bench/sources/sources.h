/* SPDX-License-Identifier: MIT
 *
 * The parts of bench/sources: the real `tidings serve`, one resource of every kind of
 * source, and clients that subscribe to it or poll it, side by side.
 *
 *   sources.c    options, and what is run after what
 *   phase.c      the servers, the changes and the clients of a phase, all threads
 *   client.c     a subscriber and a poller: when each of them knew of which change
 *   wire.c       requests over HTTP, blocking, with every byte counted
 *   kinds.c      the table of sources: what the config says, how a change is made
 *   postgres.c   the database for it; backend.c the HTTP server that is polled
 *   process.c    children, their logs, their CPU time; the temporary folder
 *   report.c     table and JSON; draw.c the plot
 *
 * The n-th change of a source carries its number in the content. So a client that has
 * read the content knows which changes it has seen, and one that was never seen is found.
 */
#ifndef TDG_BENCH_SOURCES_H
#define TDG_BENCH_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "../common.h"

enum {
    SOURCES_CONTENT = 1000, /* bytes of a resource */
    SOURCES_LINES = 10,     /* that the tail of a log holds, of as many bytes together */
    SOURCES_MAX_CHANGES = 100000,
    SOURCES_PATIENCE_S = 60, /* for anything that must happen */
};

/* ---- Wire --------------------------------------------------------------- */

/* One connection; what it has sent and received, header fields included. */
typedef struct sources_wire {
    int fd;
    uint64_t requests, bytes;
    char *text; /* the last answer, or what has come of a stream; ends with a NUL */
    size_t len;
} sources_wire_t;

void sources_wire_open(sources_wire_t *wire, uint16_t port);
void sources_wire_close(sources_wire_t *wire);

/* POSTs and waits for the whole answer, which has to be a success. `headers` end with a
 * line end each. */
void sources_wire_post(sources_wire_t *wire, const char *path, const char *headers,
                       const char *body);

/* resources/read: the number in the content; 0 where the resource is not there yet. */
uint32_t sources_wire_read(sources_wire_t *wire, const char *uri);

/* subscriptions/listen; returns when it is acknowledged. */
void sources_wire_listen(sources_wire_t *wire, const char *uri);

/* Waits up to a tenth of a second; whether an update came. */
bool sources_wire_told(sources_wire_t *wire);

/* ---- Audiences ---------------------------------------------------------- */

/* Every kind of client has a server of its own, of the same config: a read makes a source
 * look, so on one server the polls would help the subscription; and CPU time would be
 * nobody's. One server has no clients at all. */
typedef enum sources_audience {
    SUBSCRIBER,
    POLL_1S,
    POLL_5S,
    NOBODY,
    AUDIENCES,
    CLIENTS = NOBODY
} sources_audience_t;

extern const char *const sources_audience_names[AUDIENCES];

/* ---- Kinds -------------------------------------------------------------- */

typedef enum sources_kind_id {
    MEMORY,
    FILES,
    LOG,
    COMMAND,
    SQLITE,
    POSTGRES,
    WEBHOOK,
    HTTP,
    KINDS
} sources_kind_id_t;

/* What is there in every phase. */
typedef struct sources_world {
    char folder[256]; /* temporary */
    char tidings[4096];
    uint16_t ports[AUDIENCES]; /* of each `tidings serve` */
    bool used[KINDS];
} sources_world_t;

typedef struct sources_kind {
    const char *name;
    const char *uri;
    void (*prepare)(const sources_world_t *world); /* once; NULL: nothing to do */
    void (*configure)(const sources_world_t *world, FILE *config);
    /* Makes a change and waits until it is made. `wires` lead to the servers. */
    void (*change)(const sources_world_t *world, sources_wire_t *wires, uint32_t number);
} sources_kind_t;

extern const sources_kind_t sources_kinds[KINDS];

/* Writes "change=00000042 " and fills up to `size` bytes, a NUL included. */
void sources_content(uint32_t number, char *text, size_t size);

/* The largest number in a text that holds any of them; 0: none. */
uint32_t sources_number(const char *text);

/* ---- Backends ----------------------------------------------------------- */

/* Why there can be no PostgreSQL here, or NULL. */
const char *sources_postgres_missing(void);
void sources_postgres_prepare(const sources_world_t *world);
void sources_postgres_configure(const sources_world_t *world, FILE *config);
void sources_postgres_change(const sources_world_t *world, sources_wire_t *wires,
                             uint32_t number);

void sources_backend_prepare(const sources_world_t *world);
void sources_backend_configure(const sources_world_t *world, FILE *config);
void sources_backend_change(const sources_world_t *world, sources_wire_t *wires,
                            uint32_t number);

/* ---- Processes ---------------------------------------------------------- */

/* When something is wrong, several threads notice. The first one ends the program; the
 * others wait here until that has happened. */
void sources_end_alone(void);
#define sources_fail(...) (sources_end_alone(), bench_fail(__VA_ARGS__))

/* A temporary folder that goes, as all children do, when this process ends. */
void sources_make_folder(sources_world_t *world);

/* Runs a program with its output in FOLDER/LOG; as root, `as_other` is for a program that
 * refuses to run as root. */
pid_t sources_start(const sources_world_t *world, const char *const *argv,
                    const char *log, bool as_other);
void sources_stop(pid_t pid, int signal);

/* Runs it to its end, which has to be a good one. */
void sources_run(const sources_world_t *world, const char *const *argv, const char *log,
                 bool as_other);

/* Starts the `tidings serve` of an audience, with this in its config, and sets its port.
 */
pid_t sources_serve(sources_world_t *world, sources_audience_t audience,
                    const char *settings);

uint64_t sources_cpu_ns(pid_t pid);
void sources_sleep_until(uint64_t ns);

/* ---- Phases ------------------------------------------------------------- */

typedef struct sources_spread {
    double p50, p95, max; /* ns */
} sources_spread_t;

/* What one client saw of one source. */
typedef struct sources_seen {
    sources_spread_t told;    /* from the change to the notification; subscriber only */
    sources_spread_t known;   /* from the change to the new content */
    uint64_t requests, bytes; /* without those that opened the stream: */
    uint64_t opening_bytes;
} sources_seen_t;

typedef struct sources_plan {
    const char *settings; /* lines of the config, in the section server */
    size_t changes;       /* of each source; may be 0 */
    uint64_t gap_ns;      /* between two of them, on average */
    uint64_t lasts_ns;    /* at least */
    uint64_t seed;
} sources_plan_t;

typedef struct sources_outcome {
    size_t changes; /* of each source */
    double minutes;
    sources_seen_t seen[KINDS][CLIENTS];
    double cpu_ns[AUDIENCES]; /* of its server */
} sources_outcome_t;

void sources_run_phase(sources_world_t *world, const sources_plan_t *plan,
                       sources_outcome_t *ret);

/* A change, and when each client knew of it. 0: not yet. */
typedef struct sources_change {
    _Atomic uint64_t made, told, known[CLIENTS];
} sources_change_t;

/* One source in a phase. */
typedef struct sources_track {
    const sources_world_t *world;
    const sources_kind_t *kind;
    uint32_t first; /* the number of changes[0] */
    size_t count;
    sources_change_t *changes;
    uint64_t *due; /* when each is made */
    _Atomic bool *stop;
} sources_track_t;

/* A client of one source, on a thread of its own. */
typedef struct sources_client {
    sources_track_t *track;
    sources_audience_t id;
    uint64_t every_ns, first_ns; /* of a poller: between polls; when it begins */
    _Atomic bool ready;
    uint64_t requests, bytes, opening_bytes;
} sources_client_t;

/* Thread functions; the argument is a sources_client_t. */
void *sources_subscribe(void *client);
void *sources_poll(void *client);

/* ---- Report ------------------------------------------------------------- */

/* What is run: everything side by side with two settings, then without changes. */
typedef enum sources_run_id { AT_ONCE, DEFAULTS, QUIET, RUNS } sources_run_id_t;

typedef struct sources_table {
    bool used[KINDS];
    sources_outcome_t runs[RUNS];
    uint64_t gap_ns;
} sources_table_t;

extern const char *const sources_run_names[RUNS];

void sources_print(const sources_table_t *table, sources_run_id_t run);
void sources_print_cpu(const sources_table_t *table);
void sources_print_json(const sources_table_t *table);
void sources_draw(const sources_table_t *table, const char *folder);

#endif
