/* SPDX-License-Identifier: MIT
 *
 * The client as programs use it: a core (core.h) on a thread of its own, with its
 * transports, its clock and a queue of events.
 *
 * How a request is handled, with the one noun for what is in flight at each step:
 *
 *     any thread       task       what a call of the public header wants; it waits on its
 *        │                        own stack (client_wait.c), or does not (client_send.c)
 *        │ a list under a lock, uv_async_send()
 *        ▼
 *     client's thread
 *     core             request    waits for the session, has a deadline, is sent again
 *        │    ▲                   where that does no harm (../session/requests.c)
 *        │    │ outcome
 *        ▼    │
 *     transport        delivery   one message on its way: written once, what comes with
 *        │    ▲                   its answer, one report of its end (../transport/)
 *        ▼    │
 *     web              exchange   one HTTP request with its response (src/web)
 *     child                       or a line of a program's input
 *
 * Threads meet in one place, the list of tasks. Only the client's thread accesses the
 * core and the transports. */
#ifndef TDG_CLIENT_H
#define TDG_CLIENT_H

#include <stdbool.h>

#include <tidings/client.h>

#include "client/session/core.h"

/* ---- Options (client_opts.c) -------------------------------------------- */

enum { TDG__CLIENT_MAX_URL = 8192, TDG__CLIENT_MAX_HEADERS = 100 };
enum { TDG__CLIENT_TEXTS = 6, TDG__CLIENT_LISTS = 3 }; /* in them */

/* A copy of the options that owns all its texts, with defaults filled in. */
typedef struct tdg__client_opts {
    tdg_client_opts_t opts;
    char *url, *texts[TDG__CLIENT_TEXTS]; /* what `opts` points to */
    char **lists[TDG__CLIENT_LISTS];
} tdg__client_opts_t;

/* Checks and copies. Returns 0, TDG_ENOMEM, or TDG_EINVAL with what is wrong in *failure.
 * Release with _done(), which also takes what is all zero. */
int tdg__client_opts_init(tdg__client_opts_t *own, const tdg_client_opts_t *given,
                          tdg_failure_t *failure);
void tdg__client_opts_done(tdg__client_opts_t *own);

/* tdg__sized_read() for options, with *failure filled. */
int tdg__client_opts_read(void *ret, size_t size, const void *given, size_t given_size,
                          tdg_failure_t *failure);

/* Fills a failure, which may be NULL, and returns its code. */
int tdg__client_fail(tdg_failure_t *failure, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether a text can go into JSON: it is UTF-8, or NULL. */
bool tdg__client_is_text(const char *text);

/* ---- Commands (client.c) ------------------------------------------------ */

/* Something for the client's thread to do. Lives until `run` has been called. */
typedef struct tdg__client_task tdg__client_task_t;
struct tdg__client_task {
    tdg__client_task_t *next;
    /* On the client's thread. */
    void (*run)(tdg__core_t *core, tdg__client_task_t *task);
};

/* Whether this is the client's own thread. */
bool tdg__client_is_here(const tdg_client_t *client);

/* On that thread: whether the core is in the middle of something, which is where it asks
 * for input or logs. What it works on must not be taken away from it then. */
bool tdg__client_is_amidst(const tdg_client_t *client);

/* A call from outside begins, and ends. Between the two the client is not freed. False:
 * it is being closed. */
bool tdg__client_enter(tdg_client_t *client);
void tdg__client_leave(tdg_client_t *client);

/* Has it run, in order. Returns 0, TDG_EENDED (it is being closed) or TDG_EAGAIN (too
 * much waits already). */
int tdg__client_post(tdg_client_t *client, tdg__client_task_t *task);

/* The two halves of tdg_client_connect(), for who wants to be able to stop the second: a
 * new client, not connected; and waiting until it is (client_wait.c). */
int tdg__client_create(const tdg_client_opts_t *opts, tdg_client_t **ret,
                       tdg_failure_t *failure);
int tdg__client_connect(tdg_client_t *client, tdg_failure_t *failure);

/* Whether the owner is gone: nothing of it may be touched, and no callback called. On the
 * client's thread. */
bool tdg__client_is_left(tdg_client_t *client);

/* Wakes who waits for events that were reported in this turn of the loop. On the client's
 * thread, before a callback: nobody knows how long that takes. */
void tdg__client_wake(tdg_client_t *client);

size_t tdg__client_waiting(tdg_client_t *client);    /* events */
uint64_t tdg__client_lost(tdg_client_t *client);     /* events, in all */
tdg__core_t *tdg__client_core(tdg_client_t *client); /* on the client's thread only */
uint32_t tdg__client_timeout(const tdg_client_t *client);

#endif
