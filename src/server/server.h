/* SPDX-License-Identifier: MIT
 *
 * Parts of the server that stand beside its workers: settings that were made for targets,
 * and a look at who is subscribed. */
#ifndef TDG_SERVER_SERVER_H
#define TDG_SERVER_SERVER_H

#include <stddef.h>

#include <tidings/server.h>

#include "core/engine.h"
#include "server/worker.h"

/* ---- From the public header to the engine ------------------------------- */

/* Borrows the name; NULL becomes a target that is not valid. */
tdg__target_t tdg__target_to_engine(const tdg_target_t *target);

tdg__settings_t tdg__settings_to_engine(const tdg_settings_t *settings);

/* ---- Settings made for targets ------------------------------------------ */

typedef struct tdg__configured tdg__configured_t;

/* `defaults` are those of the engines to come. Returns 0, TDG_EINVAL or TDG_ENOMEM. */
int tdg__configured_create(const tdg_settings_t *defaults, tdg__configured_t **ret);
void tdg__configured_destroy(tdg__configured_t *configured); /* NULL is accepted */

/* Remembers them for engines to come; all zero forgets. Checks them, too. Returns 0,
 * TDG_EINVAL, TDG_EURILEN, TDG_ETEMPLATE, TDG_EAMBIGUOUS or TDG_ENOMEM. */
int tdg__configured_set(tdg__configured_t *configured, const tdg_target_t *target,
                        const tdg_settings_t *settings);

/* What was set; all zero where nothing was. */
tdg_settings_t tdg__configured_get(tdg__configured_t *configured,
                                   const tdg_target_t *target);

/* Tells an engine all of them. */
int tdg__configured_apply(tdg__configured_t *configured, tdg__engine_t *engine);

/* Tells the engine of a worker that runs. Returns 0 or TDG_ENOMEM. */
int tdg__configured_send(tdg__worker_t *worker, const tdg_target_t *target,
                         const tdg_settings_t *settings);

/* ---- Several changes at once -------------------------------------------- */

typedef struct tdg__publication {
    const char *uri;
    json_t *metadata; /* stolen, even on failure; NULL: nothing to say */
    bool deleted;
    uint64_t number;  /* written on success: its position in the epoch */
    uint64_t version; /* and that of the resource: the same number, today */
} tdg__publication_t;

/* Tells of all changes or of none, from any thread. All are checked first: *ret_index
 * (may be NULL) is the first that is wrong, or `count` where it is none of them. Returns
 * 0, TDG_EINVAL, TDG_EURILEN, TDG_EMETADATA, TDG_ENOMEM, or TDG_EAGAIN: a worker has so
 * much to do that they do not fit into its inbox now. */
int tdg__server_publish(tdg_server_t *server, tdg__publication_t *list, size_t count,
                        size_t *ret_index);

/* Counts the subscriptions that match each URI, directly or through a template, on all
 * workers. Subscriptions, not clients: who asked for a URI twice counts twice, though it
 * is told once; what a filter would say is not asked. Never blocks: `done` is called
 * once, on any thread, perhaps before this returns. When the server stops meanwhile it is
 * called with what is known; `counts` is borrowed for the call. Returns 0 or TDG_ENOMEM
 * (`done` is not called). */
typedef void (*tdg__matches_fn)(void *arg, const uint64_t *counts, size_t count);
int tdg__server_count_matches(tdg_server_t *server, const char *const *uris, size_t count,
                              tdg__matches_fn done, void *arg);

/* ---- Waiting for a worker ----------------------------------------------- */

/* Something that a worker is to finish and another thread waits for; all zero at first,
 * and under the server's lock. */
typedef struct tdg__awaited {
    bool finished, left;
} tdg__awaited_t;

/* Waits until it is finished, the server is to stop, or uv_hrtime() is `until_ns`.
 * Returns 0; TDG_EENDED (it stops) or TDG_ETIMEDOUT: then it is not finished, and belongs
 * to whoever finishes it. */
int tdg__server_await(tdg_server_t *server, tdg__awaited_t *awaited, uint64_t until_ns);

/* Whether somebody still waits for it, or will. */
bool tdg__server_is_awaited(tdg_server_t *server, const tdg__awaited_t *awaited);

/* It is finished. Returns whether somebody waits for it, who has it from now on. */
bool tdg__server_finish(tdg_server_t *server, tdg__awaited_t *awaited);

/* ---- Looking inside ----------------------------------------------------- */

/* Appends what is subscribed to on a worker to `all`, up to `max` of the query in all;
 * waits for the worker unless this is its thread. Returns 0, TDG_ENOMEM or as
 * tdg__server_await(). */
int tdg__inspect_worker(tdg__worker_t *worker, const tdg_subscription_query_t *query,
                        uint64_t until_ns, json_t *all);

#endif
