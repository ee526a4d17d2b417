/* SPDX-License-Identifier: MIT
 *
 * Schedules the commands of `tidings watch --exec`. Per URI, one command runs at a time,
 * or as many as allowed; changes that arrive meanwhile merge into one run; URIs take
 * turns in the order of arrival. The queue starts no command and has no clock: the caller
 * runs the commands, requests the next run and reports when one has ended. */
#ifndef TDG_CLI_EXEC_QUEUE_H
#define TDG_CLI_EXEC_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/pool.h"

typedef struct exec_queue {
    size_t max_running, max_per_uri, max_bytes;
    size_t (*merge)(void *older, void *newer);
    void (*release)(void *payload);
    size_t running, waiting, bytes; /* now; bytes are those of what waits */
    tdg__pool_t uris;               /* those about which something runs or waits */
    tdg__map_t by_uri;
    tdg__list_t ready; /* those about which something waits */
    tdg__hash_key_t key;
} exec_queue_t;

/* At most `max_running` in all and `max_per_uri` of one URI run; more than `max_bytes` of
 * what waits make it full. `merge` lets a newer payload stand for an older one, which is
 * released then, and returns how many bytes the newer one costs after that. */
void exec_queue_init(exec_queue_t *queue, size_t max_running, size_t max_per_uri,
                     size_t max_bytes, size_t (*merge)(void *older, void *newer),
                     void (*release)(void *payload));
void exec_queue_done(exec_queue_t *queue);

/* Something about a URI wants a run. The payload is stolen; `bytes` is what it costs to
 * keep. Returns 0 or TDG_ENOMEM. */
int exec_queue_add(exec_queue_t *queue, const char *uri, void *payload, size_t bytes);

/* Whether so much waits that no more should come for now. */
bool exec_queue_is_full(const exec_queue_t *queue);

/* What may run now, yours from then on; NULL: nothing, for now. It counts as running
 * until it is reported to be over. */
void *exec_queue_next(exec_queue_t *queue, uint32_t *ret_id);
void exec_queue_over(exec_queue_t *queue, uint32_t id);

/* Drops what waits, and nothing that runs. */
void exec_queue_drop(exec_queue_t *queue);

#endif
