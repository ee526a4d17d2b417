/* SPDX-License-Identifier: MIT
 *
 * tidings: live resources for the Model Context Protocol. There are three libraries, and
 * this header includes the headers of those that are installed:
 *
 *     libtidings          servers                         tidings/server.h
 *     libtidings-client   clients, over HTTP and stdio    tidings/client.h
 *     libtidings-sources  servers over files, databases,
 *                         web servers and programs        tidings/sources.h
 *
 * Link with `pkg-config --cflags --libs tidings`, and the same for the others. */
#ifndef TIDINGS_TIDINGS_H
#define TIDINGS_TIDINGS_H

#include <stddef.h>

#include <tidings/error.h>
#include <tidings/export.h>
#include <tidings/log.h>
#include <tidings/server.h>
#include <tidings/target.h>
#include <tidings/version.h>

#ifdef __has_include
#if __has_include(<tidings/client.h>)
#include <tidings/client.h>
#endif
#if __has_include(<tidings/sources.h>)
#include <tidings/sources.h>
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The source of all memory of the library. The three have the contracts of malloc,
 * realloc and free, and are called from any thread. */
typedef struct tdg_allocator {
    void *(*malloc_fn)(size_t size);
    void *(*realloc_fn)(void *ptr, size_t size);
    void (*free_fn)(void *ptr);
} tdg_allocator_t;

/* Replaces the allocator of all our libraries in the process, and that of jansson
 * (metadata is allocated there). Call it before any other function of theirs and before
 * any other thread starts; NULL restores malloc.
 *
 * It does not affect the other dependencies: libuv, libcurl, libpq, SQLite, libyaml and
 * OpenSSL keep their own allocators, since the rest of the process may use them already.
 * To replace those, call uv_replace_allocator(), curl_global_init_mem() and the like,
 * before anything else.
 *
 * Returns 0, or TDG_EINVAL: a function is missing. */
TDG_API int tdg_set_allocator(const tdg_allocator_t *allocator);

#ifdef __cplusplus
}
#endif

#endif
