/* SPDX-License-Identifier: MIT
 *
 * The hub numbers changes and puts them into the inbox of every worker, in one short
 * critical section: so every worker sees the same order. It also starts and stops
 * watchers: once per target, however many workers have subscribers. */
#ifndef TDG_SERVER_HUB_H
#define TDG_SERVER_HUB_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "core/change.h"
#include "core/engine.h"
#include "server/hub/inbox.h"

typedef struct tdg__hub tdg__hub_t;

/* start() and stop() are called without a lock, on the thread that causes them (of a
 * worker, or of the caller of tdg__hub_watch_done()), for one target never two at a time.
 * They may call tdg__hub_publish() and tdg__hub_watch_done(). Names in targets end in NUL
 * and are borrowed for the call. */
typedef struct tdg__hub_opts {
    /* As tdg_watcher_t, with targets of the engine. `start` NULL: nothing needs watching,
     * every watch is armed at once. */
    int (*start)(void *user, const tdg__target_t *target);
    void (*stop)(void *user, const tdg__target_t *target); /* may be NULL */
    void *user;
    size_t max_metadata_bytes; /* [16,384] */
    size_t max_name_bytes;     /* [4,096] */
} tdg__hub_opts_t;

/* Returns 0, TDG_ENOMEM or TDG_ESYSTEM (no randomness for the epoch). */
int tdg__hub_create(const tdg__hub_opts_t *opts, tdg__hub_t **ret);

/* Stops watchers, also those whose start() has not been answered. No other thread may be
 * inside. NULL is accepted. */
void tdg__hub_destroy(tdg__hub_t *hub);

uint64_t tdg__hub_epoch(const tdg__hub_t *hub); /* never 0 */
uint64_t tdg__hub_last_number(tdg__hub_t *hub);

/* A cursor of this epoch with a number that was not given out yet is made up: returns
 * {0, 0} for it, which is foreign, and any other as it is. An engine cannot know, because
 * another worker may be ahead of it. */
tdg__cursor_t tdg__hub_known_cursor(tdg__hub_t *hub, tdg__cursor_t cursor);

/* A worker comes and goes. One that joins sees every change with a number above
 * *ret_number. The hub takes a reference to the inbox. Leaving gives up what the worker
 * watches and waits for; nothing is put in afterwards. Returns 0, TDG_EINVAL (more than
 * 64, or twice), TDG_ENOMEM. */
int tdg__hub_join(tdg__hub_t *hub, tdg__inbox_t *inbox, uint64_t *ret_number);
void tdg__hub_leave(tdg__hub_t *hub, tdg__inbox_t *inbox);

/* Stamps and distributes a change of a URI or list, from any thread. `metadata` is
 * borrowed (a reference is taken, and nobody may modify it from now on). Returns 0 or as
 * tdg_server_notify_updated(): where one inbox has no room, nobody gets it. Where one
 * inbox merges it, it is unfiltered for all: a client that was notified of its successor
 * by one worker may reconnect to another. */
int tdg__hub_publish(tdg__hub_t *hub, const tdg__target_t *target, json_t *metadata,
                     bool deleted);

/* The same with something that happens together with the change: `commit` is called once
 * nothing else can fail, and before any worker can see the change. Where it returns an
 * error, that is returned and there is no change. It runs under the hub's lock: it must
 * be short, and must not call the hub. */
int tdg__hub_publish_with(tdg__hub_t *hub, const tdg__target_t *target, json_t *metadata,
                          bool deleted, int (*commit)(void *arg), void *arg);

/* Several at once, all or none, in steps. First each becomes a change: *ret is new, for
 * tdg__change_unref(); what can be wrong with it is found here. Returns 0, TDG_EINVAL,
 * TDG_EURILEN, TDG_EMETADATA or TDG_ENOMEM. */
int tdg__hub_prepare(tdg__hub_t *hub, const tdg__target_t *target, json_t *metadata,
                     bool deleted, tdg__change_t **ret);

/* Then all are stamped, with numbers that follow each other, and distributed in one
 * critical section. Returns 0, or TDG_EAGAIN (there is no room for all of them; nothing
 * is merged) or TDG_ENOMEM: then nothing has happened. */
int tdg__hub_publish_all(tdg__hub_t *hub, tdg__change_t *const *changes, size_t count);

/* Whether tdg__hub_publish_all() would find room now. */
int tdg__hub_has_room(tdg__hub_t *hub, size_t count);

/* ---- Watchers (hub_watch.c) --------------------------------------------- */

/* The calls of one inbox are those of one worker: they come one at a time, and from the
 * thread that takes. */

/* The engine's watch call-out: this worker wants the target watched. Returns TDG_EAGAIN,
 * and the answer comes by the inbox; or at once the error of start(); or TDG_ENOMEM, or
 * TDG_EINVAL (not joined). After an answer with an error the worker watches no more. */
int tdg__hub_watch(tdg__hub_t *hub, tdg__inbox_t *inbox, const tdg__target_t *target);

/* The engine's unwatch call-out; an answer that waits is dropped. stop() is called when
 * no worker wants the target watched; where a start is under way, once that has answered.
 */
void tdg__hub_unwatch(tdg__hub_t *hub, tdg__inbox_t *inbox, const tdg__target_t *target);

/* The answer to a start() that returned TDG_EAGAIN, or is about to: 0, TDG_WATCH_…, or an
 * error for those who wait. Arming takes a number; all changes below it come before the
 * answer. A target that is armed or answered already is only corrected in whether it
 * exists. Returns 0, TDG_EINVAL (no such answer; TDG_EAGAIN is none) or TDG_ENOTFOUND (no
 * start() waits for one). Needs no memory. */
int tdg__hub_watch_done(tdg__hub_t *hub, const tdg__target_t *target, int answer);

/* Whether a watched target does not exist, by the word of its watcher and by what was
 * published since. False where nobody knows. */
bool tdg__hub_is_absent(tdg__hub_t *hub, const tdg__target_t *target);

#endif
