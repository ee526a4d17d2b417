/* SPDX-License-Identifier: MIT
 *
 * What the files of live.h share: live.c (which source has which URI, reads, adding
 * and removing), live_watch.c (watching) and live_replace.c (replacing the set of
 * sources). */
#ifndef TDG_SERVE_LIVE_INTERNAL_H
#define TDG_SERVE_LIVE_INTERNAL_H

#include "serve/hooks.h"
#include "serve/large.h"
#include "serve/listing.h"
#include "serve/live.h"
#include "serve/roster.h"
#include "serve/wanted.h"

/* A source that is served, as one of a set. Every replacement makes the next set:
 *
 *                  in the next set               not in the next set, or live_close()
 *     PREPARED ───────────────────────▶ SERVING ───────────────────────▶ LEAVING
 *         │                             ▲     │ cannot work                 │ closed
 *         └─ memory ran out: freed      └─────┘ in the next set, too        ▼ freed
 *
 * One that cannot work leaves as soon as it was opened. One that is LEAVING neither
 * publishes nor lists anything. */
enum serving { PREPARED, SERVING, LEAVING };

struct served {
    tdg__live_t *live;
    enum serving state;
    unsigned first_set, last_set; /* numbers of the sets it is in */
    tdg__source_t *source;        /* NULL: PREPARED */
    tdg__listing_t *listing;      /* NULL: LEAVING */
    char *identity;
    tdg__route_entry_t *endpoint; /* NULL: none, or the source is open */
    struct served
        *before;   /* whose place it takes, while the sources are being replaced */
    bool unlisted; /* memory ran out when its entry was to be listed */
    uint64_t logged_lag_ms; /* of the loop: when the log got that subscribers cannot be
                               notified now; 0: not yet */
};

struct tdg__live {
    uv_loop_t *loop;
    tdg__live_ops_t ops;
    void *user;
    tdg_server_t *server;
    tdg__inbox_t *inbox; /* of tasks for the loop, and nothing else */
    uv_async_t async;    /* wakes it for them */
    tdg__heavy_t heavy;
    tdg__large_t large;
    struct served **served; /* in the order of the config; all are SERVING */
    size_t count;
    unsigned set;          /* the number of this set */
    tdg__roster_t *roster; /* of these */
    size_t not_ready;      /* of these */
    size_t leaving;        /* others, whose sources are not closed yet */
    bool has_outdated; /* listed by sources that left: it goes when those are ready that
                          may list it again */
    bool overlaps;     /* sources may have lost URIs to others, or won them, in the last
                          replacement */
    bool lists_again;  /* all that they have, for that reason */
    tdg__queue_t owed; /* URIs that were to be passed on when subscribers could not be
                          notified (live.c) */
    bool lags;         /* for that reason something waits, which is logged */
    tdg__wanted_set_t watches;
    tdg__stale_t stale; /* of all sources */
    bool waits_for_ready, closing;
    uv_timer_t again; /* for what memory was missing for, once all had been taken over,
                         for what is outdated, and for URIs and watches that are owed */
    uv_idle_t closer; /* says ops->closed() from the loop */
};

/* ---- live.c ------------------------------------------------------------- */

/* Which source is to watch a URI or a template; or NULL. */
tdg__source_t *tdg__live_watcher_of(tdg__live_t *live, const tdg_target_t *target);

/* Lists and opens a source. Returns false where it cannot work: it is to leave then. */
bool tdg__served_enter(struct served *served);

/* Begins to close a source that is not one of the set any more. */
void tdg__served_leave(struct served *served);

/* A URI is another source's now, which is to look at it; or nobody's. Where subscribers
 * cannot be notified now, that is retried. */
void tdg__live_pass_on(tdg__live_t *live, const char *uri);

/* Takes from the lists what was listed by sources that left and what no other will list;
 * what a source has lost or won otherwise changes hands. */
void tdg__live_drop_outdated(tdg__live_t *live);

void tdg__live_check_ready(tdg__live_t *live);
void tdg__live_on_again(uv_timer_t *timer);

/* ---- live_watch.c ------------------------------------------------------- */

void tdg__live_on_watched(void *user, tdg__source_t *source, const tdg_target_t *target,
                          int status);

/* A list is watched in all sources that have one. */
void tdg__live_watch_lists(tdg__live_t *live, tdg__wanted_t *watch);
void tdg__live_unwatch_lists(tdg__live_t *live, const tdg_target_t *target);

/* Lets the source that has the target watch it; `past` as in tdg__source_watch(). The
 * second is for what is owed, and publishes whatever is found; the third does that with
 * all that are due. */
void tdg__live_begin_watch(tdg__live_t *live, tdg__wanted_t *watch,
                           const tdg__past_t *past);
void tdg__live_begin_again(tdg__live_t *live, tdg__wanted_t *watch);
void tdg__live_begin_owed(tdg__live_t *live);

/* The end: what was not answered is refused. */
void tdg__live_refuse_watches(tdg__live_t *live);

/* Looks again, soon, at what memory was missing for, at what is outdated, and at the URIs
 * that are owed. */
void tdg__live_try_again(tdg__live_t *live);

#endif
