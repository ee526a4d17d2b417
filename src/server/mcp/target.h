/* SPDX-License-Identifier: MIT
 *
 * From the text of a client to a target of the engine, and from its wishes to the
 * engine's options. Used by both eras. */
#ifndef TDG_SERVER_TARGET_H
#define TDG_SERVER_TARGET_H

#include "core/engine.h"
#include "mcp/request.h"
#include "mcp/result.h"
#include "server/context/context.h"
#include "server/feed/feed.h"

typedef struct tdg__resolved {
    tdg__target_t target; /* valid until tdg__resolved_done() */
    char *owned;          /* NULL: the name is borrowed from the request */
} tdg__resolved_t;

/* Resolves a URI, or a template (also spelled with %7B…%7D) that the server lists.
 * Returns 0, TDG_EURI (not a URI), TDG_EURILEN, TDG_ENOTFOUND (nothing here has or could
 * have that URI), TDG_ENOTSUP (not subscribable) or TDG_ENOMEM. */
int tdg__resolve(tdg_server_t *server, const char *text, tdg__resolved_t *ret);

/* The fault for a client where tdg__resolve() or a subscription has failed with a code. A
 * watcher may know better than the catalogue what can be watched. */
tdg__fault_t tdg__subscribe_fault(int code);

/* What a stream is subscribed to under that name, whatever is served by now. Returns 0,
 * TDG_EURI (empty), TDG_ENOTFOUND or TDG_ENOMEM. */
int tdg__resolve_subscribed(const tdg__feed_t *feed, const char *text,
                            tdg__resolved_t *ret);

void tdg__resolved_done(tdg__resolved_t *resolved);

/* Fills *ret from a client's wishes; `error` is where the engine says what is wrong with
 * a filter or template. A cursor that we cannot read is one of a foreign epoch:
 * everything counts as changed. */
void tdg__wishes_to_opts(const tdg__wishes_t *wishes, tdg__parse_error_t *error,
                         tdg__sub_opts_t *ret);

/* Whether the client's own wishes caused an error of tdg__engine_subscribe(), so that it
 * gets -32602: fills in *error then, unless NULL. */
bool tdg__wishes_blamed(int code, const tdg__parse_error_t *why, tdg__rpc_error_t *error);

#endif
