/* SPDX-License-Identifier: MIT
 *
 * The resources, templates, tools and prompts of a server, each in the order in which
 * they were added. Thread-safe: one lock inside, which is held shortly and never during a
 * callback. Look-ups return new references to entries, which are immutable (entry.h).
 *
 * Pages are stable: an entry that exists from the first page to the last appears exactly
 * once, whatever is added or removed meanwhile. Changing an entry keeps its place. */
#ifndef TDG_SERVER_CATALOGUE_H
#define TDG_SERVER_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include <tidings/server.h>

#include "core/change.h"
#include "server/catalogue/entry.h"

typedef struct tdg__catalogue tdg__catalogue_t;

/* `taken_back` is called, without the lock, after something was added or removed that
 * makes URIs or a template not subscribable which may have been so before; NULL: none.
 * Returns 0, TDG_ENOMEM or TDG_ESYSTEM. */
int tdg__catalogue_create(void (*taken_back)(void *user), void *user,
                          tdg__catalogue_t **ret);
void tdg__catalogue_destroy(tdg__catalogue_t *catalogue); /* NULL is accepted */

/* ---- Changing it -------------------------------------------------------- */

/* Adds a new entry, or changes the one with the same URI, template text or name. `entry`
 * is stolen. Returns 0 or TDG_ENOMEM: then nothing has changed, and its `user` stays the
 * caller's. */
int tdg__catalogue_add(tdg__catalogue_t *catalogue, tdg__entry_t *entry);

/* By exactly the URI, template text or name. Returns 0, TDG_EINVAL (NULL) or
 * TDG_ENOTFOUND. */
int tdg__catalogue_remove(tdg__catalogue_t *catalogue, tdg__kind_t kind, const char *key);

/* The same, and stores what was removed in *ret: the catalogue's reference is the
 * caller's now, so nobody's user_free runs in here. Neither does `taken_back`:
 * *ret_taken_back says whether the caller has to announce it. */
int tdg__catalogue_take(tdg__catalogue_t *catalogue, tdg__kind_t kind, const char *key,
                        tdg__entry_t **ret, bool *ret_taken_back);

/* Calls `taken_back` for it, after the deletion has been published. */
void tdg__catalogue_announce_removal(tdg__catalogue_t *catalogue);

/* How often `taken_back` was called, and for removals; counted round. Where there were
 * more removals than have been announced, a deletion may still be on its way. */
typedef struct tdg__announced {
    unsigned all, removals;
} tdg__announced_t;

tdg__announced_t tdg__catalogue_announced(tdg__catalogue_t *catalogue);
unsigned tdg__catalogue_removals(tdg__catalogue_t *catalogue);

/* ---- Looking up --------------------------------------------------------- */

/* The entry with this URI, template text (also spelled with %7B and %7D for braces) or
 * name; new, or NULL. */
tdg__entry_t *tdg__catalogue_find(tdg__catalogue_t *catalogue, tdg__kind_t kind,
                                  const char *key);

/* Stores the most specific template that matches a URI (most literal characters, then the
 * older one) in *ret, new. Does not ask whether a resource has that URI. Returns 0 or
 * TDG_ENOTFOUND. */
int tdg__catalogue_match(tdg__catalogue_t *catalogue, const char *uri,
                         tdg__entry_t **ret);

/* Whether a URI may be subscribed to: some resource has it, else the most specific
 * template that matches decides. The second asks the same about a listed template.
 * Returns 0, TDG_ENOTSUP (not subscribable) or TDG_ENOTFOUND (nothing here has or could
 * have it). */
int tdg__catalogue_may_watch(tdg__catalogue_t *catalogue, const char *uri);
int tdg__catalogue_may_watch_template(tdg__catalogue_t *catalogue, const char *text);

/* How many there are now; whether there is or ever was one, so that what was advertised
 * stays true; whether any of those that are there completes arguments. */
size_t tdg__catalogue_count(tdg__catalogue_t *catalogue, tdg__kind_t kind);
bool tdg__catalogue_ever_had(tdg__catalogue_t *catalogue, tdg__kind_t kind);
bool tdg__catalogue_completes(tdg__catalogue_t *catalogue);

/* ---- Lists -------------------------------------------------------------- */

/* Stores a new array of up to `max` (at least 1) definitions in *ret_items and, where
 * more follow, a new string in *ret_next: the cursor of the next page; NULL otherwise.
 * `cursor` NULL is the first page. Takes O(max + log n). Returns 0, TDG_EINVAL (not a
 * cursor that this catalogue has given for this kind) or TDG_ENOMEM. */
int tdg__catalogue_page(tdg__catalogue_t *catalogue, tdg__kind_t kind, const char *cursor,
                        size_t max, json_t **ret_items, json_t **ret_next);

/* Visits entries of a kind, in order, until `visit` returns false. The lock is not held
 * then. The entry is borrowed. What is there all the time is visited exactly once. */
typedef bool (*tdg__entry_visit_fn)(void *arg, tdg__entry_t *entry);
void tdg__catalogue_each(tdg__catalogue_t *catalogue, tdg__kind_t kind,
                         tdg__entry_visit_fn visit, void *arg);

/* The same for the URIs of resources that a template matches, listed or not: what the
 * engine's `list_matches` wants. Returns 0; TDG_ETEMPLATE, TDG_EAMBIGUOUS or TDG_ENOMEM
 * where the template is not listed and cannot be read. */
int tdg__catalogue_list_matches(tdg__catalogue_t *catalogue,
                                const tdg__target_t *template_,
                                bool (*visit)(void *arg, const tdg__target_t *uri),
                                void *arg);

#endif
