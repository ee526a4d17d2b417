/* SPDX-License-Identifier: MIT
 *
 * What hub.c and hub_watch.c share. Locks are taken in the order of their declaration
 * here, an inbox's own comes last; callbacks of the user are called without any. */
#ifndef TDG_SERVER_HUB_INTERNAL_H
#define TDG_SERVER_HUB_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/queue.h"
#include "server/hub/hub.h"

enum { MAX_MEMBERS = 64 };

/* A worker that has joined. */
struct member {
    tdg__inbox_t *inbox; /* a reference */
    size_t room; /* at least so many changes fit in: only the hub makes it less, so there
                    is no need to ask before every change */
    uint64_t joined_at;  /* it has seen every change after this one */
    tdg__queue_t failed; /* wants that were answered with an error, oldest first */
};

struct tdg__hub {
    tdg__hub_opts_t opts;
    uint64_t epoch;

    pthread_mutex_t watch_lock; /* for what follows */
    tdg__hash_key_t key;
    tdg__pool_t watches; /* of struct watch */
    tdg__map_t watch_map;
    atomic_size_t unsettled; /* watches of what does not exist, and start() that run: a
                                change says more of those; may be looked at without the
                                lock */

    pthread_mutex_t lock; /* for what follows; who joins or leaves has both */
    uint64_t last_number;
    struct member *members[MAX_MEMBERS];
    size_t n_members;
};

/* Issues every number: of changes, and of watchers' starts. With `lock`. */
static inline uint64_t tdg__hub_next_number(tdg__hub_t *hub) {
    return ++hub->last_number;
}

/* Inboxes to wake once the locks are open again. All zero: none. */
struct wakes {
    tdg__inbox_t *inboxes[MAX_MEMBERS]; /* references */
    size_t count;
};

/* Notes an inbox that was put into; with `lock`. `rv` is what putting returned. */
void tdg__hub_note_wake(struct wakes *wakes, tdg__inbox_t *inbox, int rv);
void tdg__hub_wake(struct wakes *wakes); /* without a lock; none is left */

/* NULL where it has not joined. With either lock. */
struct member *tdg__hub_member(const tdg__hub_t *hub, const tdg__inbox_t *inbox);

/* ---- hub_watch.c -------------------------------------------------------- */

void tdg__hub_init_watches(tdg__hub_t *hub);

/* A resource was published as changed or deleted: whether it exists is kept current where
 * its watcher has said so, or may be about to. With the lock of watches; need not be
 * called for a change while nothing is unsettled. */
void tdg__hub_note_existence(tdg__hub_t *hub, const tdg__target_t *target, bool deleted);

/* Stops all watchers and frees what is known of them; for destroy. */
void tdg__hub_stop_all(tdg__hub_t *hub);

/* Drops what a member wants. With watch_lock, which it may leave meanwhile. */
void tdg__hub_give_up(tdg__hub_t *hub, struct member *member, struct wakes *wakes);

#endif
