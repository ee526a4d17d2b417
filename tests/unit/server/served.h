/* SPDX-License-Identifier: MIT
 *
 * The server that the tests of this folder call: resources a:1 and a:2, template t:{x},
 * tools echo and hold (which is answered by the test), prompt p. Changes are notified at
 * once, and no stream is kept alive, unless options say otherwise. */
#ifndef TDG_TESTS_SERVER_SERVED_H
#define TDG_TESTS_SERVER_SERVED_H

#include <pthread.h>

#include "client.h"

enum { MAX_HELD = 64 };

struct served {
    tdg_server_t *server;
    uint16_t port;
    uv_loop_t *loop; /* where it is attached to; NULL: it has threads */
    pthread_mutex_t lock;
    tdg_request_t *held[MAX_HELD]; /* oldest first */
    size_t held_count;
};

/* Creates a server and adds what is served; `opts` may be NULL. One worker unless the
 * options say otherwise. */
void served_create(struct served *served, const tdg_server_opts_t *opts);

/* The same, listens and starts; with `loop` it is attached there. */
void served_open(struct served *served, const tdg_server_opts_t *opts, uv_loop_t *loop);

/* Creates, listens at a free port with these options, and starts; `opts` may be NULL. */
void served_open_at(struct served *served, const tdg_server_opts_t *opts,
                    const tdg_listen_opts_t *http);

/* The same with threads of its own, and nothing served. */
void served_open_empty(struct served *served, const tdg_server_opts_t *opts);

/* Stops and frees; an attached one's loop is run to its end. */
void served_close(struct served *served);

/* The same without stopping first. */
void served_destroy(struct served *served);

/* Waits for a call of `hold`, and takes it out. */
tdg_request_t *served_take(struct served *served, struct client *client);
size_t served_held(struct served *served);

void served_client(struct served *served, struct client *ret); /* a connected one */

void served_change(struct served *served, const char *uri); /* fails unless it works */

/* What tdg_server_subscriptions() stores, new; NULL where it fails. */
json_t *served_subscriptions(struct served *served,
                             const tdg_subscription_query_t *query);

/* Waits until a number of tdg_server_counters_t is as expected. */
#define WAIT_COUNTER(served, client, field, value)                                       \
    WAIT_UNTIL(client, served_counters(served).field == (value))
tdg_server_counters_t served_counters(struct served *served);

#define HOLD "{'jsonrpc':'2.0','id':7,'method':'tools/call','params':{'name':'hold'}}"

#endif
