/* SPDX-License-Identifier: MIT
 *
 * The parts of bench/abuse. One process leads (abuse.c): it starts `tidings serve` on one
 * core, and on the other the good (good.c), who measure, and the crowd (crowd.c), which
 * misbehaves in the ways of kinds.c. Everything is on the loopback, and bounded in number
 * and time. */
#ifndef TDG_BENCH_ABUSE_H
#define TDG_BENCH_ABUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../common.h"
#include "../options.h"
#include "../process.h"

#define ABUSE_KEY "the-publish-key"

enum {
    ABUSE_SERVER_CORE = 0,
    ABUSE_LOAD_CORE = 1,
    ABUSE_KINDS = 10,
    ABUSE_LARGE_BYTES = 4 << 20,
    ABUSE_REQUEST_MAX = 4096,
};

/* What abusers do, and with what. */
typedef struct abuse_plan {
    uint16_t port;
    size_t connections;
    size_t rate;    /* actions of each per second; 0: as many as one core makes */
    size_t seconds; /* of each phase */
    size_t good;    /* subscribers */
    size_t files;   /* large ones, 0 … files-1 */
    bool chosen[ABUSE_KINDS];
    char folder[128]; /* that is served */
} abuse_plan_t;

/* ---- Kinds -------------------------------------------------------------- */

typedef struct abuse_kind {
    const char *name;
    bool reads;      /* takes the answers; otherwise it never reads */
    bool reconnects; /* makes a new connection for every action */

    /* Writes what it sends as its `step`-th action on a connection; returns the length,
     * 0: nothing more. */
    size_t (*put)(const abuse_plan_t *plan, size_t number, size_t step, char *text);
} abuse_kind_t;

extern const abuse_kind_t abuse_kinds[ABUSE_KINDS];
extern const char *const abuse_kind_names[ABUSE_KINDS];

/* ---- Crowd -------------------------------------------------------------- */

/* Forks the crowd, which goes on until it is killed. */
pid_t abuse_crowd_start(const abuse_plan_t *plan);

/* ---- The good ----------------------------------------------------------- */

typedef struct abuse_good abuse_good_t;

typedef struct abuse_times {
    double p50, p99, typical_p99; /* ns */
} abuse_times_t;

typedef struct abuse_measured {
    abuse_times_t update; /* from publish to subscriber */
    abuse_times_t read;   /* of a small resource */
    size_t updates, reads;
    size_t lost;   /* subscribers that were cut off, or never had the last update */
    double cpu;    /* of the server, as a share of its core; the leader's */
    double stolen; /* by other machines on the same host, of all cores; the leader's */
} abuse_measured_t;

/* Subscribes them all. */
abuse_good_t *abuse_good_open(const abuse_plan_t *plan);

/* Publishes and reads for so many seconds, and waits for the last update. */
void abuse_good_measure(abuse_good_t *good, abuse_measured_t *ret);

/* ---- Sockets ------------------------------------------------------------ */

int abuse_connect(uint16_t port, bool blocking); /* -1: not now */

/* A POST with a body, as text; returns its length. */
size_t abuse_put_post(char *text, const char *path, const char *fields, const char *body);

/* The same for a request of the modern era; `name` is mirrored, or NULL. */
size_t abuse_put_modern(char *text, const char *method, const char *name,
                        const char *params);

#endif
