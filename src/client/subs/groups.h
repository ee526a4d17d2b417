/* SPDX-License-Identifier: MIT
 *
 * Options on the wire, and the subscriptions that share them. */
#ifndef TDG_CLIENT_GROUPS_H
#define TDG_CLIENT_GROUPS_H

#include "client/session/lifesign.h"
#include "client/subs/pending.h"
#include "client/subs/sub.h"
#include "mcp/cursor.h"

/* Subscriptions with the same wire options, and in the modern era their streams. */
struct tdg__sub_group {
    tdg__sub_group_t *next;
    json_t *options; /* dev.tidings/options; NULL: none */
    char *key;       /* the same as text; "" for none */
    int64_t since_ms;
    size_t count;     /* subscriptions */
    int64_t retry_ms; /* waits for the retry timer: not before; INT64_MAX: it does not */
    tdg_failure_t refusal; /* ... why, if the server asks for the wait; else code is 0 */

    tdg__sub_stream_t *live;  /* acknowledged */
    tdg__sub_stream_t *fresh; /* not yet */
    tdg__sub_stream_t *old;   /* was replaced, and is still listened to for a moment */
    bool dirty;   /* what it has differs from what the newest listen asks for */
    bool gap;     /* nobody listened for a while */
    bool left;    /* a subscription has gone to another group */
    bool refused; /* a check was: the next stream goes on with its wait */
    bool checked; /* `live` is silent: what `fresh` brings shows whether it lives */
    tdg__lifesign_t life;             /* of `live` */
    tdg__waiter_t *waiters;           /* for the next listen to be acknowledged */
    char cursor[TDG__CURSOR_MAX + 1]; /* "": none */
};

/* The group for these options, made where there is none. Returns 0, TDG_EINVAL,
 * TDG_ESTREAMS or TDG_ENOMEM. */
int tdg__group_find(tdg__core_t *core, const tdg_subscribe_opts_t *opts,
                    tdg__sub_group_t **ret);
void tdg__group_free(tdg__core_t *core, tdg__sub_group_t *group);
void tdg__groups_clean(tdg__core_t *core); /* frees those without anything */

/* Its options, and a cursor where not empty, as the `_meta` of a request: new, or NULL
 * where there is nothing to say. *ret_failed: memory is out. */
json_t *tdg__group_meta(const tdg__sub_group_t *group, const char *cursor, bool since,
                        bool *ret_failed);

#endif
