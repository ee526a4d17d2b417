/* SPDX-License-Identifier: MIT
 *
 * What a kind with an endpoint of its own (webhook) has to do with HTTP: a request comes
 * in as bytes and header fields, an answer goes out. Who listens, and how, is somebody
 * else's business. */
#ifndef TDG_SOURCE_WEBHOOK_H
#define TDG_SOURCE_WEBHOOK_H

#include "source/source.h"

/* One POST to the endpoint; borrowed for the call. */
typedef struct tdg__hook_call {
    const char *body;
    size_t len;
    const char *(*field)(const void *arg, const char *name); /* by its name in lower case;
                                                                NULL: not there */
    const void *arg;
    const char *peer; /* the address, or "" */
} tdg__hook_call_t;

typedef struct tdg__hook_answer {
    int status;         /* of HTTP */
    const char *text;   /* one line for people; static */
    const char *fields; /* further header lines, each with CR LF; static, or NULL */
} tdg__hook_answer_t;

struct tdg__hook_ops {
    const char *(*path)(const tdg__source_t *source); /* "/hooks/deploys" */
    size_t (*max_body)(const tdg__source_t *source);

    /* On the loop of the source, which is open. */
    void (*handle)(tdg__source_t *source, const tdg__hook_call_t *call,
                   tdg__hook_answer_t *ret);
};

#endif
