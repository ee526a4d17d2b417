/* SPDX-License-Identifier: MIT
 *
 * A real HTTP server on 127.0.0.1 for the tests of the client: a thread per connection
 * reads requests with their bodies, writes them down and leaves the answer to a function
 * of the test. With TLS where wanted, with a certificate made on the spot. */
#ifndef TDG_TESTS_CLIENT_PEER_H
#define TDG_TESTS_CLIENT_PEER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct peer peer_t;
typedef struct peer_visit peer_visit_t; /* one connection */

/* Answers one request. Returns whether the connection stays open. */
typedef bool (*peer_answer_fn)(peer_visit_t *visit, const char *path, const char *head,
                               const char *body);

/* `tls`: with a certificate for 127.0.0.1, made for this run. */
peer_t *peer_start(peer_answer_fn answer, bool tls);
void peer_stop(peer_t *peer);
int peer_port(const peer_t *peer);
const char *peer_ca_file(const peer_t *peer); /* the certificate, as a file */

/* For answers. peer_send(): all of it; false: the other side has gone. peer_wait(): until
 * it has gone, or sends more, or the test lets go on; true: the last. */
bool peer_send(peer_visit_t *visit, const char *text);
bool peer_send_bytes(peer_visit_t *visit, const char *bytes, size_t len);
bool peer_wait(peer_visit_t *visit);
int peer_of(const peer_visit_t *visit); /* the port */

/* Lets `count` more waits go on. */
void peer_let(peer_t *peer, size_t count);

/* Requests so far for a path (NULL: any); the n-th from 0, head and body: new, for
 * free(). Waits until it is there. */
size_t peer_count(peer_t *peer, const char *path);
char *peer_request(peer_t *peer, const char *path, size_t n);

/* Waits until no connection is open. False: that took too long. */
bool peer_alone(peer_t *peer);

#endif
