/* SPDX-License-Identifier: MIT
 *
 * A client that a test steers by lines of JSON. It uses the public header only, as any
 * program of a stranger would.
 *
 *     driver.c       lines, threads, clients by name
 *     driver_does.c  what can be asked for, one function each
 *     driver_json.c  options from JSON, events to JSON
 *
 * In:   {"id": 1, "do": "connect", "client": "a", "url": "http://127.0.0.1:8808/mcp"}
 * Out:  {"id": 1, "code": "TDG_OK", ...}
 *       {"event": "updated", "client": "a", "uri": "live://a", "version": 5}
 *       {"log": "info", "client": "a", "line": "..."}
 *
 * Every line in is worked on by a thread of its own, so a test may ask for several things
 * at a time; it waits for an answer where the order counts. "client" may be left out:
 * then its name is "". The end of input closes all clients and ends the program. */
#ifndef TIDINGS_TESTS_CLIENT_DRIVER_H
#define TIDINGS_TESTS_CLIENT_DRIVER_H

#include <pthread.h>

#include <tidings/tidings.h>

typedef struct driven {
    struct driven *next;
    char *name;
    tdg_client_t *_Atomic client; /* NULL: not connected, or closed */
    json_t
        *opts; /* the line that connected it; what the client is given points into it */
    json_t *input;     /* what on_input answers, by method; belongs to `opts` */
    pthread_t fetcher; /* hands on events, unless the test asks for them one by one */
    bool fetching;
    int wake[2]; /* a pipe: ends the fetcher */
} driven_t;

/* Writes one line; `object` is stolen. */
void driver_tell(json_t *object);

/* The client that a line is about; made where there was none. Never freed before the end.
 */
driven_t *driver_find(const char *name);

/* Does what a line asks for. Returns the answer, new, without "id". */
json_t *driver_do(const json_t *line);

/* Closes it, where it is open. */
void driver_close(driven_t *driven);

/* ---- driver_json.c ------------------------------------------------------ */

/* Fills *ret from a line. Arrays in it are allocated: driver_opts_done(). */
void driver_opts(const json_t *line, tdg_client_opts_t *ret);
void driver_opts_done(tdg_client_opts_t *opts);

void driver_subscribe_opts(const json_t *line, tdg_subscribe_opts_t *ret);

/* The list of that name, such as "tools"; -1: there is none. */
int driver_list(const char *name);

/* New. */
json_t *driver_event(const char *name, const tdg_event_t *event);
json_t *driver_answer(int code, tdg_failure_t *failure); /* the failure is done with */

/* What can be given of a JSON array of strings: ends with NULL, strings borrowed, the
 * array to be freed. NULL where it is none. */
const char **driver_strings(const json_t *array);

#endif
