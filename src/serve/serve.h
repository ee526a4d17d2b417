/* SPDX-License-Identifier: MIT
 *
 * `tidings serve`: a config file and paths of the command line become sources and a
 * server, until a signal or the end of the pipe. SIGHUP reloads the config. */
#ifndef TDG_SERVE_SERVE_H
#define TDG_SERVE_SERVE_H

#include <tidings/server.h>

#include "config/file.h"
#include "serve/live.h"

typedef struct tdg__serve tdg__serve_t;

typedef struct tdg__serve_opts {
    const char *config_file;  /* NULL: none */
    const char *const *paths; /* files and folders to serve as well; ends with NULL */
    const char *const
        *listen;            /* URLs, instead of those in the config; NULL: as it says */
    tdg__dialect_t dialect; /* of stdio, and of URLs that do not say; UNSAID: as the
                               config says */
    bool stdio; /* serve standard input and output; HTTP only where `listen` is given */

    unsigned debug; /* TDG_DEBUG_...: parts of the server that log each step */

    /* All on the thread that runs it; but `log` on any. */
    void (*log)(void *user, tdg_log_level_t level, const char *message);
    void (*problems)(void *user, tdg__problems_t *problems); /* of the config */
    void (*started)(void *user, tdg__serve_t *serve);
    void (*reloaded)(void *user, tdg__serve_t *serve);
    void *user;
} tdg__serve_opts_t;

/* Reads config and paths, and makes everything; nothing is served yet. Returns 0;
 * TDG_EINVAL (problems() was called), or another code (log() was called). */
int tdg__serve_create(const tdg__serve_opts_t *opts, tdg__serve_t **ret);
void tdg__serve_destroy(tdg__serve_t *serve); /* NULL is accepted */

/* Serves until it is to stop. A second signal ends the process at once. Returns 0 or a
 * code (log() was called). */
int tdg__serve_run(tdg__serve_t *serve);

/* For started() and reloaded(). */
tdg_server_t *tdg__serve_server(tdg__serve_t *serve);
const tdg__config_t *tdg__serve_config(tdg__serve_t *serve);
tdg__live_t *tdg__serve_live(tdg__serve_t *serve);

/* Whether a listener whose URL says this speaks the erlmcp dialect. */
bool tdg__serve_speaks_erlmcp(const tdg__serve_t *serve, tdg__dialect_t said);

/* The sources of a config, and of paths: reads and checks everything, for `tidings check`
 * as well. Stores a new config in *ret_config, and a new array in *ret, for
 * tdg__live_free_entries(). Everything that is wrong is in `problems`. Returns 0,
 * TDG_EINVAL or TDG_ENOMEM. `config_file` may be NULL. */
int tdg__serve_load(const char *config_file, const char *const *paths,
                    tdg__problems_t *problems, tdg__config_t **ret_config,
                    tdg__live_entry_t **ret, size_t *ret_count);

#endif
