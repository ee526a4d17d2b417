/* SPDX-License-Identifier: MIT
 *
 * The values of a template's variables in a URI that it matches, decoded, in one block of
 * memory. Only values that a C string can hold: one with a NUL, or that is not UTF-8,
 * matches nothing. */
#ifndef TDG_BASE_VARIABLES_H
#define TDG_BASE_VARIABLES_H

#include <stddef.h>

#include "base/template.h"

typedef struct tdg__variables tdg__variables_t;

/* Stores new ones in *ret; the template is borrowed for as long as they live. Without a
 * template they are NULL. Returns 0, TDG_ENOTFOUND (no match, or a value as above) or
 * TDG_ENOMEM. */
int tdg__variables_create(const tdg__template_t *template_, const char *uri, size_t len,
                          tdg__variables_t **ret);
void tdg__variables_destroy(tdg__variables_t *variables); /* NULL is accepted */

/* Borrowed; NULL where the URI does not give it or the template, if there is one, has no
 * such variable. */
const char *tdg__variables_get(const tdg__variables_t *variables, const char *name);

#endif
