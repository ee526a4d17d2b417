/* SPDX-License-Identifier: MIT
 *
 * Where published content goes: to the sources that take it, which are those of
 * `memory:` entries. What is published without content is a change of whatever source has
 * the URI, which looks for itself as well. */
#ifndef TDG_SERVE_STORE_H
#define TDG_SERVE_STORE_H

#include "serve/live.h"
#include "server/http/publish.h"

/* Switches POST /publish on with this key, or off where it is NULL; before the start, or
 * while the server runs. The sources must outlive the server's workers. Returns as
 * tdg__server_enable_publish(). */
int tdg__live_publish(tdg__live_t *live, tdg_server_t *server, const char *key);

#endif
