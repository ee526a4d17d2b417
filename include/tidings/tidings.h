/* SPDX-License-Identifier: MIT
 *
 * libtidings: live resources for the Model Context Protocol. This header includes
 * the others; link with `pkg-config --cflags --libs tidings`. */
#ifndef TIDINGS_TIDINGS_H
#define TIDINGS_TIDINGS_H

#include <stddef.h>

#include <tidings/client.h>
#include <tidings/error.h>
#include <tidings/export.h>
#include <tidings/server.h>
#include <tidings/target.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is loaded, such as "0.1.0". Borrowed for ever. */
TDG_API const char *tdg_version(void);

/* Where all memory of the library comes from. The three have the contracts of
 * malloc, realloc and free, and are called from any thread. */
typedef struct tdg_allocator {
    void *(*malloc_fn)(size_t size);
    void *(*realloc_fn)(void *ptr, size_t size);
    void (*free_fn)(void *ptr);
} tdg_allocator_t;

/* Replaces the allocator of the process, jansson's included (metadata lives there).
 * Call it before anything else of this library and before any other thread starts;
 * NULL restores malloc. Returns 0, or TDG_EINVAL when a function is missing. */
TDG_API int tdg_set_allocator(const tdg_allocator_t *allocator);

#ifdef __cplusplus
}
#endif

#endif
