/* SPDX-License-Identifier: MIT
 *
 * A server over files, databases, web servers and programs, as a config file describes
 * it: what `tidings serve` does, for programs of your own. In libtidings-sources; link
 * with `pkg-config --cflags --libs tidings-sources`. */
#ifndef TIDINGS_SOURCES_H
#define TIDINGS_SOURCES_H

#include <stdbool.h>
#include <stddef.h>

#include <tidings/error.h>
#include <tidings/export.h>
#include <tidings/server.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NULL or false in any field takes the default in brackets. */
typedef struct tdg_sources_opts {
    const char *config_file;   /* docs/config.md describes it [none] */
    const char *const *paths;  /* files and folders to serve as well; ends with NULL */
    const char *const *listen; /* URLs such as "http://127.0.0.1:8808", instead of those
                                  in the config; ends with NULL [as the config says] */
    bool stdio; /* serve one client on standard input and output; HTTP only with
                   `listen` */

    tdg_log_fn log; /* for the operator [no log] */

    /* The server runs: resources, tools and prompts of your own can be added to it.
     * Called once, on the thread that serves. The server is borrowed until
     * tdg_sources_serve() returns. */
    void (*started)(void *user, tdg_server_t *server);
    void *user; /* passed to both */
} tdg_sources_opts_t;

/* Serves until SIGINT, SIGTERM, the end of standard input (`stdio`) or
 * tdg_server_stop_soon(); SIGHUP reloads the config. One at a time per process, whose
 * signal handlers it replaces meanwhile. Returns 0, or, with the reason in the log:
 *
 *   a code of the system, as tdg_system_error() has it
 *                an address cannot be bound: EADDRINUSE, EACCES, ...
 *   TDG_EINVAL   a config or path is wrong: each problem is a line of the log
 *   TDG_ENOMEM   out of memory
 *   TDG_ESYSTEM  a file cannot be read, or no thread or descriptor is available
 *
 * or, with nothing in the log, TDG_EINVAL: `opts` is NULL; or TDG_ENOTSUP: it sets a
 * field that this release of the library does not know. */
TDG_API int tdg_sources_serve_sized(const tdg_sources_opts_t *opts, size_t opts_size);

static inline int tdg_sources_serve(const tdg_sources_opts_t *opts) {
    return tdg_sources_serve_sized(opts, sizeof(*opts));
}

#ifdef __cplusplus
}
#endif

#endif
