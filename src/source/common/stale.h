/* SPDX-License-Identifier: MIT
 *
 * The last known contents of all sources, kept for reads while a backend is unreachable.
 * One such cache serves all sources of a host, so that its limits apply to all of them
 * together; the least recently read content is dropped first. On the thread of the loop.
 */
#ifndef TDG_SOURCE_STALE_H
#define TDG_SOURCE_STALE_H

#include <stddef.h>

#include "base/queue.h"

enum {
    TDG__STALE_BYTES = 16 * 1024 * 1024, /* where nobody says otherwise */
    TDG__STALE_COUNT = 10000,            /* contents */
    TDG__STALE_PARTS = 4,                /* one content takes up to this part of it all */
};

typedef struct tdg__stale {
    size_t max_bytes;
    size_t bytes, count;
    tdg__queue_t items; /* the oldest first */
} tdg__stale_t;

static inline void tdg__stale_init(tdg__stale_t *stale) {
    *stale = (tdg__stale_t){.max_bytes = TDG__STALE_BYTES};
    tdg__queue_init(&stale->items);
}

#endif
