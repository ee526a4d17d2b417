/* SPDX-License-Identifier: MIT
 *
 * What a modern client says and is told: every request stands for itself. */
#ifndef TDG_SERVER_MODERN_H
#define TDG_SERVER_MODERN_H

#include "mcp/request.h"
#include "server/call.h"

/* Serves a checked request that is not a listen; the answer goes to `channel`. For HTTP,
 * `find_header` gives the fields of the request, else it is NULL. */
void tdg__modern_serve(tdg__channel_t *channel, const tdg__mcp_request_t *request,
                       const char *(*find_header)(void *user, const char *name),
                       void *user);

#endif
