/* SPDX-License-Identifier: MIT
 *
 * What the files of live.h share: live.c (who has what, reads, coming and going),
 * live_watch.c (watching) and live_replace.c (another set of sources). */
#ifndef TDG_SERVE_LIVE_INTERNAL_H
#define TDG_SERVE_LIVE_INTERNAL_H

#include "serve/handover.h"
#include "serve/large.h"
#include "serve/listing.h"
#include "serve/live.h"
#include "serve/wanted.h"

/* A source that is served, or that is on its way out. */
struct slot {
    struct slot *next;
    tdg__live_t *live;
    tdg__source_t *source;
    tdg__listing_t *listing;
    char *identity;
    bool stays;    /* while the sources are being replaced */
    bool is_new;   /* in the last replacement */
    bool unlisted; /* memory ran out when its entry was to be listed */
    bool arming;   /* its template is to be watched, and it is not ready for that yet */
};

struct tdg__live {
    uv_loop_t *loop;
    tdg__live_ops_t ops;
    void *user;
    tdg_server_t *server;
    tdg__handover_t handover;
    tdg__heavy_t heavy;
    tdg__large_t large;
    struct slot *slots;       /* served, in the order of the config */
    struct slot *retiring;    /* go on until those that follow them notice changes */
    struct slot *leaving;     /* closing */
    tdg__listing_t *outdated; /* of sources that left; goes when the others are ready */
    tdg__wanted_set_t watches;
    tdg__stale_t stale; /* of all sources */
    bool waits_for_ready, closing;
    uv_timer_t again; /* for what memory was missing for, once all had been taken over */
    uv_idle_t closer; /* says ops->closed() from the loop */
};

void tdg__live_log(tdg__live_t *live, const tdg__source_t *source, tdg_log_level_t level,
                   const char *message);

/* ---- live.c ------------------------------------------------------------- */

/* Which slot is to watch a URI or a template; or NULL. */
struct slot *tdg__live_slot_of(tdg__live_t *live, const tdg_target_t *target);

/* Lists and opens a source. Returns false where it cannot work: it leaves then. */
bool tdg__slot_enter(struct slot *slot);

/* Begins to close a source that is in no list any more; all of a list. */
void tdg__slot_leave(struct slot *slot);
void tdg__slots_leave(struct slot *list);

/* Whether an old source has to go on for a while; and whether those may go now. */
bool tdg__slot_has_to_stay(tdg__live_t *live, const struct slot *old);
void tdg__live_check_retiring(tdg__live_t *live);

void tdg__live_check_ready(tdg__live_t *live);
void tdg__live_on_again(uv_timer_t *timer);

/* ---- live_watch.c ------------------------------------------------------- */

void tdg__live_on_watched(void *user, tdg__source_t *source, const tdg_target_t *target,
                          int status);
void tdg__live_watch_lists(tdg__live_t *live, tdg__wanted_t *watch);

/* Lets the source that has the target watch it. `checksum` is what was last told. The
 * second is for what memory was missing for, and tells that it may have changed. */
void tdg__live_begin_watch(tdg__live_t *live, tdg__wanted_t *watch, const char *checksum);
void tdg__live_begin_again(tdg__live_t *live, tdg__wanted_t *watch);

/* Looks again, soon, at what memory was missing for. */
void tdg__live_try_again(tdg__live_t *live);

#endif
