/* SPDX-License-Identifier: MIT
 *
 * The parts of bench/client. One process leads (client.c). For each contender it starts a
 * client and a server that floods that client (flood.c), on a core each. Contenders are
 * ours.c, which is our client or a reader without protocol, and the official SDKs
 * (bench/peers/client-*.mjs). report.c has table, JSON and plots. */
#ifndef TDG_BENCH_CLIENT_H
#define TDG_BENCH_CLIENT_H

#include "../common.h"
#include "../options.h"
#include "../process.h"

enum { CLIENT_SERVER_CORE = 0, CLIENT_CLIENT_CORE = 1 };

typedef enum client_form { FORM_LEGACY, FORM_MODERN, FORMS } client_form_t;

typedef enum client_peer { RAW, NEXT, CALLBACK, SDK_V1, SDK_V2, PEERS } client_peer_t;

extern const char *const client_form_names[FORMS];
extern const char *const client_peer_names[PEERS];

/* Of one contender, form and number of subscriptions; a sample per round. */
typedef struct client_cell {
    bench_samples_t rate, cpu_ns; /* updates per second; CPU per update */
    bench_samples_t to_ours;      /* cpu_ns as a multiple of NEXT's in that round */
    bench_samples_t setup_ns;     /* to subscribe to all of them */
    bench_samples_t again_ns;     /* to be subscribed again after a lost session */
    bench_samples_t memory, peak; /* per subscription; the most in all; bytes */
} client_cell_t;

typedef struct client_table {
    bench_sizes_t sizes;
    client_cell_t cells[FORMS][BENCH_MAX_SIZES][PEERS];
} client_table_t;

void client_print(const client_table_t *table, client_form_t form, size_t size);
void client_print_json(const client_table_t *table, client_form_t form, size_t size);
void client_write_plots(const client_table_t *table, const char *folder);

#endif
