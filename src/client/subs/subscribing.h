/* SPDX-License-Identifier: MIT
 *
 * Subscriptions of a core, as its owner sees them; core.h has the rest. */
#ifndef TDG_CLIENT_SUBSCRIBING_H
#define TDG_CLIENT_SUBSCRIBING_H

#include "client/session/core.h"

/* The upper half of every core. */
extern const tdg__core_upper_t tdg__core_subs;

/* `codes`, of `count` elements, is borrowed until `done` and gets the outcome of each;
 * may be NULL. `uris` and `opts` are borrowed for the call. */
void tdg__core_subscribe(tdg__core_t *core, const char *const *uris, size_t count,
                         const tdg_subscribe_opts_t *opts, int *codes,
                         tdg__core_done_fn done, void *user);

/* Nothing is reported any more once this returned; `done` comes when the server knows it,
 * or does not matter any more. */
void tdg__core_unsubscribe(tdg__core_t *core, const char *uri, tdg__core_done_fn done,
                           void *user);

void tdg__core_watch_lists(tdg__core_t *core, unsigned lists, tdg__core_done_fn done,
                           void *user);

json_t *tdg__core_subscriptions(const tdg__core_t *core); /* new array; NULL: no memory */
bool tdg__core_is_subscribed(const tdg__core_t *core, const char *uri);

#endif
