/* SPDX-License-Identifier: MIT
 *
 * The options of a server, complete: copies of the given ones, defaults for the rest. */
#ifndef TDG_SERVER_OPTIONS_H
#define TDG_SERVER_OPTIONS_H

#include <stdint.h>

#include <tidings/server.h>

/* The structs of a caller, and their sizes as the caller knows them. */
typedef struct tdg__given_opts {
    const tdg_server_opts_t *opts; /* may be NULL */
    size_t opts_size, settings_size, watcher_size;
} tdg__given_opts_t;

/* In *ret, `settings` and `watcher` are never NULL. Returns 0, TDG_EINVAL, TDG_ENOMEM or
 * TDG_ENOTSUP; frees nothing on failure: see tdg__options_free(), which takes all zero as
 * well. */
int tdg__options_copy(const tdg__given_opts_t *given, tdg_server_opts_t *ret);
void tdg__options_free(tdg_server_opts_t *opts);

#endif
