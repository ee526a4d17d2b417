/* SPDX-License-Identifier: MIT
 *
 * The options of a server, complete: copies of what was given, defaults for the rest. */
#ifndef TDG_SERVER_OPTIONS_H
#define TDG_SERVER_OPTIONS_H

#include <tidings/server.h>

/* `opts` may be NULL. Returns 0, TDG_EINVAL or TDG_ENOMEM; frees nothing on failure: see
 * tdg__options_free(), which takes all zero as well. */
int tdg__options_copy(const tdg_server_opts_t *opts, tdg_server_opts_t *ret);
void tdg__options_free(tdg_server_opts_t *opts);

/* NULL gives NULL. Return 0 or TDG_ENOMEM. */
int tdg__copy_string(const char *string, char **ret);
int tdg__copy_strings(const char *const *strings, char ***ret);

#endif
