/* SPDX-License-Identifier: MIT
 *
 * Functions of the server that are not public, and waiting for its workers. */
#ifndef TDG_SERVER_SERVER_H
#define TDG_SERVER_SERVER_H

#include <stddef.h>

#include <tidings/server.h>

#include "server/context/context.h"

/* As tdg_server_remove_resource(), for one whose subscribers know already. */
int tdg__server_unlist(tdg_server_t *server, const char *uri);

/* ---- Waiting for a worker ----------------------------------------------- */

/* Something that a worker is to finish and another thread waits for; all zero at first,
 * and under the server's lock. */
typedef struct tdg__awaited {
    bool finished, left;
} tdg__awaited_t;

/* Waits until it is finished, the server is to stop, or uv_hrtime() is `until_ns`.
 * Returns 0; TDG_EENDED (it stops) or TDG_ETIMEDOUT: then it is not finished, and belongs
 * to the worker that finishes it. */
int tdg__server_await(tdg_server_t *server, tdg__awaited_t *awaited, uint64_t until_ns);

/* Whether somebody still waits for it, or will. */
bool tdg__server_is_awaited(tdg_server_t *server, const tdg__awaited_t *awaited);

/* It is finished. Returns whether somebody waits for it, who has it from now on. */
bool tdg__server_finish(tdg_server_t *server, tdg__awaited_t *awaited);

/* ---- Looking inside ----------------------------------------------------- */

/* Appends what is subscribed to on a worker to `all`, up to `max` of the query in all;
 * waits for the worker unless this is its thread. Returns 0, TDG_ENOMEM or as
 * tdg__server_await(). */
int tdg__inspect_worker(tdg__worker_t *worker, const tdg_subscription_query_t *query,
                        uint64_t until_ns, json_t *all);

#endif
