/* SPDX-License-Identifier: MIT
 *
 * One HTTP/1.1 connection: reads requests one after the other (pipelined ones wait, up to
 * a bound), writes responses, whole or as a stream of pieces. An idle connection or open
 * stream is small: the reader and its buffers belong to it only while a request comes in.
 *
 * A connection may close while a request is being answered; `closed` of net.h reports
 * it. */
#ifndef TDG_NET_CONN_H
#define TDG_NET_CONN_H

#include "net/exchange.h"
#include "net/net.h"
#include "net/outlet.h"

/* Its requests, one after the other, as those see them who answer. What its owner keeps
 * of the connection is the exchange's user, from one request to the next. */
tdg__exchange_t *tdg__conn_exchange(tdg__conn_t *conn);
void *tdg__conn_user(const tdg__conn_t *conn);

void *tdg__conn_tag(const tdg__conn_t *conn); /* of its listener */

#endif
