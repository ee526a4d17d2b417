/* SPDX-License-Identifier: MIT
 *
 * The common part of the event streams of a session, opened by a GET or as the response
 * to a POST: the text at their start and end. */
#ifndef TDG_SERVER_SSE_H
#define TDG_SERVER_SSE_H

#include <stddef.h>

#include "base/text.h"
#include "mcp/cursor.h"
#include "server/context/context.h"

enum { TDG__SSE_RETRY_MAX = 40 };

/* Says how long to wait before coming back: writes at most TDG__SSE_RETRY_MAX bytes.
 * Returns how many. An event may follow, or an empty line. */
size_t tdg__sse_put_retry(const tdg__worker_t *worker, char *out);

/* The same as the beginning of a stream. Its first event has no data, and the id to come
 * back with if no other follows; NULL: there is none, as clients before 2025-11-25 choke
 * on it. */
void tdg__sse_put_opening(const tdg__worker_t *worker, const tdg__event_id_t *id,
                          tdg__text_t *text);

#endif
