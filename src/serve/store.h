/* SPDX-License-Identifier: MIT
 *
 * Routes published content to the sources that accept it, those of `memory:` entries. A
 * publish without content is a change of the source that has the URI, which checks for
 * itself as well. */
#ifndef TDG_SERVE_STORE_H
#define TDG_SERVE_STORE_H

#include "serve/live.h"
#include "server/http/publish.h"

/* Switches POST /publish on with this key, or off where it is NULL; before the start, or
 * while the server runs. The sources must outlive the server's workers. Returns as
 * tdg__server_enable_publish(). */
int tdg__live_publish(tdg__live_t *live, tdg_server_t *server, const char *key);

#endif
