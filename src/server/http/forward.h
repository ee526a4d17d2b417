/* SPDX-License-Identifier: MIT
 *
 * A request of a legacy session that has arrived at another worker than the session's: it
 * is parsed, forwarded and served there, and the response returns to the connection.
 *
 *     worker of the connection                    worker of the session
 *
 *     visit ──▶ forward ─────── request ────────▶ visit, on a twin of the exchange
 *                 │ occupies                        │ occupied by a POST or a stream
 *     connection ◀┴──── batches of what it writes ──┘
 *                  ──── written, late, closed ────▶
 *
 * Everything that all twins of a worker write for another one in one turn of the loop is
 * sent as one task, so a delivery costs neither a lock nor an allocation. A twin may be
 * ahead of what the connection has given to the kernel by one window; beyond that it is
 * full, like an outlet from which the kernel accepts no more. */
#ifndef TDG_SERVER_FORWARD_H
#define TDG_SERVER_FORWARD_H

#include "server/http/visit.h"

typedef struct tdg__forwards tdg__forwards_t; /* of one worker */

/* Returns 0 or TDG_ENOMEM. */
int tdg__forwards_create(tdg__worker_t *worker, tdg__forwards_t **ret);

/* The worker closes: those whose requests are answered here are closed as connections
 * are, and requests that arrive later are refused. NULL is accepted. */
void tdg__forwards_destroy(tdg__forwards_t *forwards);

/* Requests of other workers that are being answered here, or wait for that. */
size_t tdg__forwards_count(const tdg__forwards_t *forwards);

/* Visits those that are being answered, not those that wait. The visitor may write to any
 * of them and end it: they stay until their connections have reported that. */
void tdg__forwards_each(tdg__forwards_t *forwards,
                        void (*visit)(void *arg, tdg__exchange_t *exchange), void *arg);

/* The turn of the loop ends: what was written in it leaves. */
void tdg__forwards_send(tdg__forwards_t *forwards);

/* Prepares to forward a visit to worker `to`, where serve(visit) is called: in the order
 * of arrival among those of its session, whose id is `session`. `id` is that of its
 * request (JSON text), or NULL. Without room it has been refused. */
void tdg__forward_prepare(tdg__visit_t *visit, tdg__worker_t *to, const char *session,
                          void (*serve)(tdg__visit_t *visit), const char *id);

/* Sends what was prepared, and the body of the visit; nobody here holds a part of that
 * any more. */
void tdg__forward_send(tdg__visit_t *visit);

#endif
