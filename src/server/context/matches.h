/* SPDX-License-Identifier: MIT
 *
 * How many subscriptions match some URIs, in all workers. */
#ifndef TDG_SERVER_MATCHES_H
#define TDG_SERVER_MATCHES_H

#include "server/context/context.h"

/* Counts the subscriptions that match the URI of each change, directly or through a
 * template, on all workers. Subscriptions, not clients: a client that subscribes to a URI
 * twice counts twice, though it is notified once; filters are not applied. Never blocks:
 * `done` is called once, on any thread, perhaps before this returns. When the server
 * stops meanwhile it is called with what is known; `counts` is borrowed for the call, and
 * `changes` until then. Returns 0 or TDG_ENOMEM (`done` is not called). */
typedef atomic_uint_fast64_t tdg__matches_t;
typedef void (*tdg__matches_fn)(void *arg, const tdg__matches_t *counts, size_t count);
int tdg__server_count_matches(tdg_server_t *server, tdg__change_t *const *changes,
                              size_t count, tdg__matches_fn done, void *arg);

#endif
