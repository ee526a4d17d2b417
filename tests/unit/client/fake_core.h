/* SPDX-License-Identifier: MIT
 *
 * A core that stands in for the library's in tests of the client's thread: it connects to
 * nobody, and answers by the name of the method.
 *
 *     echo       the params
 *     slowly     the params, after 50 ms
 *     refuse     TDG_EREFUSED, -32000 with {"why": "test"}
 *     never      nothing, until it is stopped
 *     event      tells params.count events of params.uri, then answers
 *     close      tells CLOSED, then answers
 *     lose       has no memory for an event, then answers
 *     log        writes a line to the log, then answers
 *     input      asks for roots, then answers
 *     progress   tells the params as progress, then answers
 *     whatever else: {"method": …, "params": …}, or what `answer` is set to
 */
#ifndef TDG_TESTS_CLIENT_FAKE_CORE_H
#define TDG_TESTS_CLIENT_FAKE_CORE_H

#include <stdatomic.h>

#include <jansson.h>
#include <tidings/client.h>

struct fake {
    int connect_code;     /* of tdg__core_connect() */
    atomic_bool hang;     /* stopping takes until this is false */
    tdg_era_t era;        /* in the facts */
    const char *answer;   /* JSON text with ' for ", or NULL */
    atomic_int created;   /* cores, so far */
    atomic_int destroyed; /* of these */
    atomic_int waiting;   /* requests that are not answered */
    char url[128];        /* that the last core was created for */
    uint32_t timeout_ms;  /* of the last request */
    char request[512];    /* the last request: method and params */
};

extern struct fake fake;

void fake_reset(void);

#endif
