/* SPDX-License-Identifier: MIT
 *
 * The origin of a request: the other end of its connection, or, if that is a trusted
 * proxy, the address that the proxy forwards.
 */
#ifndef TDG_SERVER_CALLER_H
#define TDG_SERVER_CALLER_H

#include <stdbool.h>

#include "base/network.h"
#include "net/http_request.h"

/* The proxies that the operator trusts. */
typedef struct tdg__proxies {
    tdg__networks_t *networks; /* NULL: none */
    bool forwarded;            /* they write Forwarded; else X-Forwarded-For */
} tdg__proxies_t;

/* Whom a request comes from: the peer; where that is a trusted proxy, the last address in
 * the header of such proxies that is not one. The other header says nothing: a proxy may
 * pass on what a client wrote there. False: the peer has no address, as on a Unix socket.
 * Whoever counts by it shortens it first (network.h). */
bool tdg__caller_find(const tdg__proxies_t *proxies, const char *peer,
                      const tdg__http_request_t *http, tdg__address_t *ret);

#endif
