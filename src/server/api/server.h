/* SPDX-License-Identifier: MIT
 *
 * Functions of the server that are not public, and waiting for its workers. */
#ifndef TDG_SERVER_SERVER_H
#define TDG_SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>

#include <tidings/server.h>

#include "server/context/context.h"

/* As tdg_server_remove_resource(), for one whose subscribers know already. */
int tdg__server_unlist(tdg_server_t *server, const char *uri);

/* ---- Waiting for a worker ----------------------------------------------- */

/* Waits until a worker has set *done, the server is to stop, or uv_hrtime() is
 * `until_ns`. Returns 0, TDG_EENDED (it stops) or TDG_ETIMEDOUT. */
int tdg__server_await(tdg_server_t *server, const bool *done, uint64_t until_ns);

/* Sets *done, which is under the server's lock, and wakes whoever waits for it. */
void tdg__server_finish(tdg_server_t *server, bool *done);

/* ---- Looking inside ----------------------------------------------------- */

/* Appends what is subscribed to on a worker to `all`, up to `max` of the query in all;
 * waits for the worker unless this is its thread. Returns 0, TDG_ENOMEM or as
 * tdg__server_await(). */
int tdg__inspect_worker(tdg__worker_t *worker, const tdg_subscription_query_t *query,
                        uint64_t until_ns, json_t *all);

#endif
