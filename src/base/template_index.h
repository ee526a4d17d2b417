/* SPDX-License-Identifier: MIT
 *
 * Finds the templates that match a URI without trying every template. */
#ifndef TDG_BASE_TEMPLATE_INDEX_H
#define TDG_BASE_TEMPLATE_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/template.h"

typedef struct tdg__template_index tdg__template_index_t;

/* Returns 0, TDG_ENOMEM or TDG_ESYSTEM (no randomness). */
int tdg__template_index_create(tdg__template_index_t **ret);
void tdg__template_index_destroy(tdg__template_index_t *index); /* NULL is accepted */

/* Adds a template under a value of the caller's choice (not 0). The template is borrowed
 * until it is removed. Each pair is added at most once. Returns 0 or TDG_ENOMEM; on
 * failure the index is as it was. */
int tdg__template_index_add(tdg__template_index_t *index,
                            const tdg__template_t *template_, uint32_t value);

/* Removes what was added with the same template and value. Never fails. Takes time for
 * the length of the template, not for how many others look like it. */
void tdg__template_index_remove(tdg__template_index_t *index,
                                const tdg__template_t *template_, uint32_t value);

size_t tdg__template_index_count(const tdg__template_index_t *index);

/* Called once for each template that matches. Must not change the index. */
typedef void (*tdg__template_visit_fn)(void *user, uint32_t value);

/* Visits every template that matches the URI, each once, in no particular order. Neither
 * allocates nor fails. */
void tdg__template_index_match(tdg__template_index_t *index, const char *uri, size_t len,
                               tdg__template_visit_fn visit, void *user);

#endif
