/* SPDX-License-Identifier: MIT
 *
 * The endpoints of webhooks: a route of the server for each source that has one. A
 * request arrives on a worker's thread and goes to the loop of the sources, where the
 * source of that path is looked up again: it may have been removed meanwhile. */
#ifndef TDG_SERVE_HOOKS_H
#define TDG_SERVE_HOOKS_H

#include "serve/live.h"
#include "server/http/route.h"

/* Before a source is opened: all of its endpoint that needs memory. *ret is NULL for
 * a source that has none. Returns 0 or TDG_ENOMEM. */
int tdg__hooks_prepare(tdg__live_t *live, const tdg__source_t *source,
                       tdg__route_entry_t **ret);

/* The source is open: what was prepared, which is stolen, takes the place of the endpoint
 * with the same path. NULL is accepted. Returns 0 or TDG_EINVAL (too many endpoints). */
int tdg__hooks_add(tdg_server_t *server, tdg__route_entry_t *prepared);

/* The source closes. The route stays where another source has the same path now, as after
 * a reload. */
void tdg__hooks_remove(tdg__live_t *live, tdg_server_t *server, tdg__source_t *source);

#endif
