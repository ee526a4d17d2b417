/* SPDX-License-Identifier: MIT
 *
 * What a kind with its own endpoint (webhook) needs of HTTP: a request arrives as bytes
 * and header fields, a response leaves. The host listens. */
#ifndef TDG_SOURCE_WEBHOOK_H
#define TDG_SOURCE_WEBHOOK_H

#include "source/common/source.h"

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

/* What every request has to bring in its head: so that it can be judged on any thread,
 * while the source comes and goes. */
typedef enum tdg__hook_proof {
    TDG__HOOK_SIGNED, /* a signature, of which the head shows only whether it is one */
    TDG__HOOK_BEARER, /* the secret */
    TDG__HOOK_OPEN,   /* nothing */
} tdg__hook_proof_t;

typedef struct tdg__hook_key {
    tdg__hook_proof_t proof;
    unsigned char digest[32]; /* BEARER: of the secret */
} tdg__hook_key_t;

/* Whether the head of a request may be followed by its body; `authorization` and
 * `signature` (X-Hub-Signature-256) are fields of it, or NULL. Returns 1: yes, 0: the
 * request would be refused whatever its body is, or TDG_ENOMEM. */
int tdg__hook_key_fits(const tdg__hook_key_t *key, const char *authorization,
                       const char *signature);

/* The path of its endpoint, "/hooks/deploys"; NULL: the source is no webhook. */
const char *tdg__webhook_path(const tdg__source_t *source);

/* What the head of a request must have. Returns 0 or TDG_ENOMEM. */
int tdg__webhook_key(const tdg__source_t *source, tdg__hook_key_t *ret);

/* The answer to a request without the key. */
extern const tdg__hook_answer_t tdg__webhook_refusal;

/* On the loop of the source, which is open, as the next one. `count` requests were
 * refused by their heads; the last came from `peer`. */
void tdg__webhook_refused(tdg__source_t *source, uint64_t count, const char *peer);
tdg__hook_answer_t tdg__webhook_handle(tdg__source_t *source,
                                       const tdg__hook_call_t *call);

#endif
