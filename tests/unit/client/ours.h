/* SPDX-License-Identifier: MIT
 *
 * A real server for tests of the client, in the same process over HTTP, or as a program
 * of its own on stdio. It serves resources a:1 and a:2, a:mute, which is not
 * subscribable, the template t:{x}, the prompt p, and tools by which a client makes
 * things happen:
 *
 *     change {uri, times}   the content of a resource changes, so many times [1]
 *     delete {uri}          it is gone
 *     add {uri}             one more resource
 *     echo {text}           answers with the text
 *     hold                  is not answered before the server ends
 *
 * The content of a resource is how often anything has changed so far. */
#ifndef TDG_TESTS_CLIENT_OURS_H
#define TDG_TESTS_CLIENT_OURS_H

#include <stdatomic.h>
#include <stdint.h>

#include <tidings/tidings.h>

struct ours {
    tdg_server_t *server;
    char url[64];
    uint16_t port;
};

extern atomic_int ours_held; /* calls of hold so far */

/* Starts on a port (0: a free one), with TDG_NO_… flags. False: it could not. */
bool ours_open(struct ours *ours, unsigned flags, uint16_t port);
void ours_close(struct ours *ours); /* may be called twice */

/* Serves standard input and output until the end. Returns the exit code. With `deaf` it
 * does not end then, nor by SIGTERM. */
int ours_serve_stdio(bool deaf);

#endif
