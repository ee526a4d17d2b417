/* SPDX-License-Identifier: MIT
 *
 * The endpoints of webhooks: a route of the server for each source that has one. A
 * request comes in on a worker's thread and goes to the loop of the sources, where the
 * source of that path is looked up again: it may have gone by then. */
#ifndef TDG_SERVE_HOOKS_H
#define TDG_SERVE_HOOKS_H

#include "serve/live.h"

/* For ops->opened and ops->closing of the sources; nothing happens for those without an
 * endpoint. Returns 0, TDG_EINVAL (too many endpoints) or TDG_ENOMEM. */
int tdg__hooks_add(tdg__live_t *live, tdg_server_t *server, tdg__source_t *source);

/* The route stays where another source has the same path now, as after a reload. */
void tdg__hooks_remove(tdg__live_t *live, tdg_server_t *server, tdg__source_t *source);

#endif
