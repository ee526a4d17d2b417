/* SPDX-License-Identifier: MIT
 *
 * All memory comes through here, so that an embedder can replace the allocator and the
 * tests can make the n-th allocation fail. A size of 0 is a mistake of the caller. */
#ifndef TDG_BASE_ALLOC_H
#define TDG_BASE_ALLOC_H

#include <stddef.h>

void *tdg__malloc(size_t size);
void *tdg__calloc(size_t count, size_t size); /* zeroed; NULL also on overflow */
void *tdg__realloc(void *ptr, size_t size);
/* As realloc for an array; NULL on overflow, with `ptr` still valid. */
void *tdg__reallocarray(void *ptr, size_t count, size_t size);
void tdg__free(void *ptr); /* NULL is accepted */

#endif
