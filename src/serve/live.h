/* SPDX-License-Identifier: MIT
 *
 * Live resources: the sources of a config, bound to a server. Reads and watchers come
 * from the server's threads and are handed over to the loop of the sources; changes that
 * the sources report go to the server, which takes calls from any thread.
 *
 *     server: read, watcher.start, watcher.stop ──▶ inbox ──▶ source that has the URI
 *     server: notify, add, remove  ◀──────────────────────────── source
 *
 * A set of sources can be replaced by another one while clients are subscribed: unchanged
 * entries stay, and watched targets move to the source that has them now. That happens in
 * one turn of the loop. The new source inherits the state of the old one and what it had
 * reported, its first look is compared with that, and the old one is silent from then on:
 * the new one finds every change in between, and no late report of the old one can
 * contradict it. */
#ifndef TDG_SERVE_LIVE_H
#define TDG_SERVE_LIVE_H

#include <tidings/server.h>

#include "server/hub/inbox.h"
#include "source/common/source.h"

typedef struct tdg__live tdg__live_t;

/* Callbacks to the owner, on the loop. */
typedef struct tdg__live_ops {
    /* All sources have their first list, once per tdg__live_replace(). */
    void (*ready)(void *user);
    void (*closed)(void *user); /* after tdg__live_close() */

    void (*log)(void *user, tdg_log_level_t level, const char *message);
} tdg__live_ops_t;

/* Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__live_create(uv_loop_t *loop, const tdg__live_ops_t *ops, void *user,
                     tdg__live_t **ret);

/* After tdg__live_close() has come to its end, or before tdg__live_bind(); the loop has
 * to run once more before it is closed. NULL is accepted. */
void tdg__live_destroy(tdg__live_t *live);

/* How much of what was read last is kept for when its source is unreachable; before there
 * are sources. */
void tdg__live_set_stale_size(tdg__live_t *live, size_t max_bytes);

/* For the options of the server. */
tdg_watcher_t tdg__live_watcher(tdg__live_t *live);

/* The server, which is not started yet. It must be stopped before tdg__live_close() and
 * destroyed after tdg__live_destroy(). */
void tdg__live_bind(tdg__live_t *live, tdg_server_t *server);

/* One entry of a config: what it says, as a text to compare with, and the source that was
 * made from it. Both are stolen. */
typedef struct tdg__live_entry {
    char *identity;
    tdg__source_t *source;
} tdg__live_entry_t;

/* Destroys entries that are not served, and the array. */
void tdg__live_free_entries(tdg__live_entry_t *entries, size_t count);

/* The text to compare with; new, NULL where memory is out. */
char *tdg__live_identity(const tdg__node_t *entry);

/* Serves these from now on. An entry that is served already is destroyed, and the source
 * that is there stays. Returns 0, or TDG_ENOMEM: then nothing has changed, and all of
 * them are destroyed. */
int tdg__live_replace(tdg__live_t *live, tdg__live_entry_t *entries, size_t count);

/* Ends all sources; ops->closed() follows, never from inside. */
void tdg__live_close(tdg__live_t *live);

/* The source that has a URI, the webhook that has a path; or NULL. On the loop. */
tdg__source_t *tdg__live_owner(tdg__live_t *live, const char *uri);
tdg__source_t *tdg__live_hook(tdg__live_t *live, const char *path);

/* Visits the sources that are served, in the order of the config. */
void tdg__live_each(tdg__live_t *live, void (*visit)(void *arg, tdg__source_t *source),
                    void *arg);

/* Posts to the loop, from any thread: tasks run there in the order of posting, or, once
 * the sources are being closed, at once and only to clean up (server/hub/inbox.h). */
void tdg__live_post(tdg__live_t *live, tdg__task_t *task);

#endif
