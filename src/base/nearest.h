/* SPDX-License-Identifier: MIT
 *
 * The closest name to a mistyped one. */
#ifndef TDG_BASE_NEAREST_H
#define TDG_BASE_NEAREST_H

#include <stddef.h>

enum { TDG__NEAREST_MAX = 32 }; /* longer words than this get no suggestion */

/* The `i`-th name; NULL ends. */
typedef const char *(*tdg__name_at_fn)(const void *names, size_t i);

/* The name that somebody who typed `word` may have meant: at most two slips of the finger
 * away, or begun with the word. Returns NULL where nothing is near. */
const char *tdg__nearest(const char *word, tdg__name_at_fn name_at, const void *names);

/* The same for a list of names that ends with NULL. */
const char *tdg__nearest_of(const char *word, const char *const *names);

#endif
