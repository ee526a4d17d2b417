/* SPDX-License-Identifier: MIT
 *
 * A connection string as the parameters that libpq gets: those of the string, those that
 * we add, and for each name of a host the addresses that it stands for. libpq would look
 * names up by itself, but it would hold the loop while it does; with `hostaddr` it does
 * not, and `host` stays for certificates and ~/.pgpass.
 *
 * What we add unless the string says otherwise: an application name, keepalives and a
 * time-out for what is sent, so that a cut network is noticed. What we always set: UTF-8,
 * read-only transactions, a time limit for statements, and the settings that decide how
 * values are written. A string with `service` is left as it is: its host is in a file
 * that only libpq reads, and its name is looked up by libpq. */
#ifndef TDG_SOURCE_PG_PARAMS_H
#define TDG_SOURCE_PG_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/socket.h>

enum {
    TDG__PG_MAX_HOSTS = 16,     /* in one string */
    TDG__PG_MAX_ADDRESSES = 32, /* of all of them together */
    TDG__PG_MAX_PARAMS = 80,    /* libpq 15 knows 43 */
};

typedef struct tdg__pg_params {
    const char *keywords[TDG__PG_MAX_PARAMS]; /* borrowed from `options` or static */
    const char *values[TDG__PG_MAX_PARAMS];   /* likewise, or from below */
    size_t count;
    struct _PQconninfoOption *options; /* libpq's */
    char *settings;                    /* the parameter "options" */
    char *hosts[TDG__PG_MAX_HOSTS];    /* names to look up; "": not one of those */
    char *ports[TDG__PG_MAX_HOSTS];
    size_t host_count;
    char *host_list, *address_list, *port_list; /* what came of them */
    size_t address_count;
} tdg__pg_params_t;

/* Returns 0; TDG_EINVAL where it is no connection string (what libpq says of it is not
 * for logs: it may quote the password); TDG_ENOMEM. */
int tdg__pg_params_init(tdg__pg_params_t *params, const char *conninfo,
                        int64_t timeout_ms);
void tdg__pg_params_done(tdg__pg_params_t *params); /* all zero is accepted */

/* Whether hosts[i] is a name to look up. */
bool tdg__pg_params_wants(const tdg__pg_params_t *params, size_t i);

/* Forgets all addresses; adds one of hosts[i], or with NULL the host as it is. Each host
 * in its order. Addresses beyond the limit are left out. Returns 0 or TDG_ENOMEM. */
void tdg__pg_params_forget(tdg__pg_params_t *params);
int tdg__pg_params_add(tdg__pg_params_t *params, size_t i, const struct sockaddr *addr);

/* Fills keywords and values from what was added, with NULL at the end. */
void tdg__pg_params_finish(tdg__pg_params_t *params);

#endif
