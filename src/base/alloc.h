/* SPDX-License-Identifier: MIT
 *
 * All memory comes through here, so that an embedder can replace the allocator and the
 * tests can make the n-th allocation fail. A size of 0 is a mistake of the caller. */
#ifndef TDG_BASE_ALLOC_H
#define TDG_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

void *tdg__malloc(size_t size);
void *tdg__calloc(size_t count, size_t size); /* zeroed; NULL also on overflow */
void *tdg__realloc(void *ptr, size_t size);
/* As realloc for an array; NULL on overflow, with `ptr` still valid. */
void *tdg__reallocarray(void *ptr, size_t count, size_t size);
void tdg__free(void *ptr); /* NULL is accepted */

/* Gives memory that is free, but not at the end of its heap, back to the system, where
 * the allocator is the C library's and that can do so. May take milliseconds; from any
 * thread. */
void tdg__memory_trim(void);

/* A copy of a text, or of its first bytes; NULL where memory is out, or for NULL. */
char *tdg__strdup(const char *text);
char *tdg__strndup(const char *text, size_t len);

/* The same into *ret, for a text that may be NULL. False: memory is out. */
bool tdg__copy(const char *text, char **ret);

/* A list of texts that ends in NULL, for tdg__free_strings(); NULL gives NULL. False:
 * memory is out, and *ret is NULL. */
bool tdg__copy_strings(const char *const *strings, char ***ret);
void tdg__free_strings(char **strings); /* NULL is accepted */

#endif
