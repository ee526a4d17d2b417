/* SPDX-License-Identifier: MIT
 *
 * The client at the other end of a stream, for introspection and for the log. Nothing of
 * it is read while notifications are delivered. If memory runs out, missing facts count
 * as unknown. */
#ifndef TDG_SERVER_PEER_H
#define TDG_SERVER_PEER_H

#include <jansson.h>

#include "base/network.h"
#include "mcp/version.h"

typedef struct tdg__peer {
    const char *transport;  /* "http", "sse" or "stdio"; static */
    const char *session;    /* its id; borrowed from the session, NULL: modern */
    tdg__version_t version; /* of the protocol; UNKNOWN before initialize */
    char *address;          /* owned; NULL: not known, or none */
    char *client; /* its name, and behind the NUL its version; owned; NULL: it has
                     not introduced itself */
} tdg__peer_t;

void tdg__peer_set_address(tdg__peer_t *peer, const tdg__address_t *address);

/* As the client has introduced itself; either may be NULL. Long ones are cut. */
void tdg__peer_set_client(tdg__peer_t *peer, const char *name, const char *version);

void tdg__peer_done(tdg__peer_t *peer);

/* For the log: never NULL. */
const char *tdg__peer_name(const tdg__peer_t *peer);

/* Adds what is known to an object. Returns 0 or TDG_ENOMEM. */
int tdg__peer_describe(const tdg__peer_t *peer, json_t *object);

#endif
