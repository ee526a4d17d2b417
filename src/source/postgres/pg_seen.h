/* SPDX-License-Identifier: MIT
 *
 * Numbers by URI. A source has two such tables: the previous state of its table, as a
 * digest for each URI (NOTIFY is not stored for a lost connection, so after an outage the
 * table is compared with this), and the last notified operation on a row. */
#ifndef TDG_SOURCE_PG_SEEN_H
#define TDG_SOURCE_PG_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "source/common/records.h"

typedef struct tdg__pg_seen {
    tdg__records_t rows; /* by URI, without timers */
    size_t max;
    bool complete; /* the owner's: nothing is missing */
} tdg__pg_seen_t;

/* `max` is below UINT32_MAX. Returns 0 or TDG_ESYSTEM. */
int tdg__pg_seen_init(tdg__pg_seen_t *seen, size_t max);
void tdg__pg_seen_done(tdg__pg_seen_t *seen); /* all zero is accepted */

/* Adds a row: rows of one URI sum up, in any order. Returns 0, TDG_ETOOLARGE or
 * TDG_ENOMEM. */
int tdg__pg_seen_add(tdg__pg_seen_t *seen, const char *uri, uint64_t digest);

/* What a URI holds now, where it was looked at by itself; that it holds nothing. A set
 * that fails leaves the URI out, and it counts as new at the next comparison. */
int tdg__pg_seen_set(tdg__pg_seen_t *seen, const char *uri, uint64_t digest);
void tdg__pg_seen_remove(tdg__pg_seen_t *seen, const char *uri);

/* Whether the URI is there, and its number. */
bool tdg__pg_seen_get(const tdg__pg_seen_t *seen, const char *uri, uint64_t *ret);

/* Calls for each URI that is in one only, or with another digest. `differs` changes
 * neither. */
void tdg__pg_seen_compare(const tdg__pg_seen_t *before, const tdg__pg_seen_t *after,
                          void (*differs)(void *arg, const char *uri), void *arg);

/* Calls for each. */
void tdg__pg_seen_each(const tdg__pg_seen_t *seen,
                       void (*visit)(void *arg, const char *uri), void *arg);

/* The first 64 bits of a digest in hexadecimal, such as md5() gives; 0 where it is none.
 */
uint64_t tdg__pg_digest(const char *hex);

#endif
