/* SPDX-License-Identifier: MIT
 *
 * A whole config file: the options of the server, and the entries. The sources interpret
 * an entry; here it only has to name one kind. */
#ifndef TDG_CONFIG_FILE_H
#define TDG_CONFIG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tidings/server.h>

#include "config/listen_url.h"
#include "config/option.h"
#include "config/timing.h"

enum { TDG__PROXY_X_FORWARDED_FOR, TDG__PROXY_FORWARDED };

/* Options of the section `server`. Most are what the server itself takes, and are read
 * into tdg__config_t.opts. */
typedef struct tdg__config_server {
    char **listen;
    char **allowed_hosts, **allowed_origins, **trusted_proxies;
    int proxy_header; /* TDG__PROXY_... */
    int dialect;      /* tdg__dialect_t, never UNSAID */
    int mode;         /* tdg_timing_mode_t, less one: there is nothing to inherit from */
    tdg__timing_options_t timing;

    bool legacy, modern, subscriptions, list_changes, log_messages, params_metadata,
        meta_metadata, any_template;
    int64_t stale_size; /* not the server's: of the sources */
} tdg__config_server_t;

typedef struct tdg__config_publish {
    char *key; /* NULL: nobody may publish */
} tdg__config_publish_t;

typedef struct tdg__config_top {
    bool reload_on_change;
} tdg__config_top_t;

typedef struct tdg__config {
    tdg__config_server_t server;
    tdg__config_publish_t publish;
    tdg__config_top_t top;

    tdg_settings_t settings;
    tdg_server_opts_t opts;    /* owns its texts, borrows `settings`; no watcher */
    tdg__listen_url_t *listen; /* at least one */
    size_t listen_count;

    tdg__node_t *tree;
    const tdg__node_t **entries; /* of `resources`, in the order of the file */
    size_t entry_count;
} tdg__config_t;

/* Its parts, for the reference: what stands at the top, `server` and `publish`. The last
 * has no name. */
extern const tdg__section_t tdg__config_sections[];

/* Reads a file, or a text. `kinds` are the kinds of resources that an entry may name; the
 * last has no name. Returns 0, TDG_EINVAL, TDG_ESYSTEM (the file cannot be read) or
 * TDG_ENOMEM; what is wrong is in `problems`, which must name the file: paths are
 * relative to its folder.
 *
 * On TDG_EINVAL *ret holds what could be read, or NULL: the entries that name one kind
 * can still be looked at, so that everything that is wrong is told at once. */
int tdg__config_read_file(const char *path, const tdg__section_t *kinds,
                          tdg__problems_t *problems, tdg__config_t **ret);
int tdg__config_read_text(const char *text, size_t len, const tdg__section_t *kinds,
                          tdg__problems_t *problems, tdg__config_t **ret);

void tdg__config_destroy(tdg__config_t *config); /* NULL is accepted */

/* Calls `visit` for every ${NAME} in it that has no default, also again for the same. */
void tdg__config_variables(const tdg__config_t *config, const tdg__section_t *kinds,
                           void (*visit)(void *arg, const char *name), void *arg);

/* For file.c: fills the rest of `opts`, and `listen`, from `server`. `complete`: none of
 * its options was wrong; those that were have their defaults. */
int tdg__config_finish_server(tdg__config_t *config, const tdg__node_t *section,
                              bool complete, tdg__problems_t *problems);

#endif
