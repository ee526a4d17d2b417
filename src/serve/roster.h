/* SPDX-License-Identifier: MIT
 *
 * An index of sources: by the URI or template of their entry, by the URIs that their
 * templates match, and by the path of a webhook. A new set of sources gets its own
 * roster. */
#ifndef TDG_SERVE_ROSTER_H
#define TDG_SERVE_ROSTER_H

#include "source/common/source.h"

typedef struct tdg__roster tdg__roster_t;

tdg__roster_t *tdg__roster_create(size_t max_sources); /* NULL where memory is out */
void tdg__roster_destroy(tdg__roster_t *roster);       /* NULL is accepted */

/* The source is borrowed until it is removed, or as long as the roster lives. Those that
 * were added first go before others. Returns 0 or TDG_ENOMEM. */
int tdg__roster_add(tdg__roster_t *roster, tdg__source_t *source);

/* For the rare source that cannot be opened: takes time linear in the sources. */
void tdg__roster_remove(tdg__roster_t *roster, const tdg__source_t *source);

/* Of a NULL roster, nobody has anything; nor has a source that is closing. */

/* The source whose entry says exactly this URI or template; or NULL. */
tdg__source_t *tdg__roster_named(const tdg__roster_t *roster, const char *uri);

/* The source that has a URI; or NULL. A resource of its own goes before a template. */
tdg__source_t *tdg__roster_owner(const tdg__roster_t *roster, const char *uri);

/* Visits the sources that list the same URIs as one of them by themselves, by their
 * numbers in the order of adding, from 0: folders that it lies inside of. */
void tdg__roster_enclosing(const tdg__roster_t *roster, const tdg__source_t *source,
                           void (*visit)(void *arg, size_t number), void *arg);

/* Whether a source that lists by itself, or to which content is pushed, may lose URIs of
 * its template to another one. Says so rather once too often. Takes time n log n in the
 * sources. */
bool tdg__roster_overlaps(const tdg__roster_t *roster);

/* The webhook with this path; or NULL. */
tdg__source_t *tdg__roster_hook(const tdg__roster_t *roster, const char *path);

#endif
