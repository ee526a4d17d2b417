/* SPDX-License-Identifier: MIT
 *
 * POST /publish: a client with the key publishes changes, one or several, all or nothing.
 * Content goes to a store, if one accepts it. The order is: everything is checked, the
 * store stores the content, the changes are numbered and distributed, the matching
 * subscriptions are counted, the response is written. So a notified client can read the
 * content.
 *
 * docs/protocol.md describes the wire format. */
#ifndef TDG_SERVER_PUBLISH_H
#define TDG_SERVER_PUBLISH_H

#include <tidings/server.h>

#include "server/http/publish_body.h"

/* Where content goes: the sources, on the thread of their loop. It sees every change that
 * is published, also those without content and the deletions, and decides what they mean
 * for what it keeps. */
typedef struct tdg__publish_store {
    /* Brings `work` to the thread on which the functions below may be called: calls
     * work(arg, true) there, at once or soon. Where that cannot be any more,
     * work(arg, false), on any thread, which only cleans up; from the moment on when the
     * server is being destroyed it must be that. Always one of the two, once. Called on
     * workers' threads, on several at a time; must not block. */
    void (*enter)(void *user, void (*work)(void *arg, bool here), void *arg);

    /* Whether the change can be kept. Does everything that can fail, and leaves in
     * item->prepared what is needed later; may add to item->metadata or replace it (size,
     * checksum, …). Returns 0; TDG_ENOTFOUND (content for a URI that takes none: 409);
     * TDG_ETOOLARGE or TDG_ETOTAL (413); TDG_ENOMEM, TDG_EUNREACHABLE or TDG_EENDED
     * (503); any other code (422).
     * `why` (may be left empty) is a sentence for the caller. */
    int (*check)(void *user, tdg__publish_item_t *item, char why[160]);

    /* After all were checked: keeps it; cannot fail. Subscribers are notified afterwards,
     * not from here. Or instead: forgets what was prepared, since another one failed. */
    void (*commit)(void *user, tdg__publish_item_t *item);
    void (*abandon)(void *user, tdg__publish_item_t *item);

    void *user;
} tdg__publish_store_t;

typedef struct tdg__publish_opts {
    const char *const
        *keys; /* ends in NULL; none is empty. NULL or empty: switched off */
    const tdg__publish_store_t *store; /* copied; NULL: content is refused */
    uint32_t timeout_ms;               /* for the answer; 0: that of route.h */
} tdg__publish_opts_t;

/* Switches POST /publish on with these options, or off; before the start or while the
 * server runs (requests that are being answered go on with the old ones). Returns 0,
 * TDG_EINVAL or TDG_ENOMEM; on failure all is as it was. */
int tdg__server_enable_publish(tdg_server_t *server, const tdg__publish_opts_t *opts);

#endif
