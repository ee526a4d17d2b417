/* SPDX-License-Identifier: MIT */
#include "server/http/replay.h"

#include <assert.h>

#include "base/alloc.h"

enum {
    MAX_BYTES = 256 * 1024,      /* per stream, ... */
    MAX_BYTES_IN_ALL = 64 << 20, /* ... and per worker */
};

struct tdg__kept {
    tdg__kept_t *next;
    uint64_t number;
    size_t len;
    char data[];
};

void tdg__replay_init(tdg__replay_t *replay, tdg__worker_t *worker) {
    *replay = (tdg__replay_t){.worker = worker};
}

void tdg__replay_done(tdg__replay_t *replay) {
    while (replay->first != NULL) {
        tdg__kept_t *kept = replay->first;

        replay->first = kept->next;
        tdg__free(kept);
    }
    assert(replay->worker->kept_bytes >= replay->bytes);
    replay->worker->kept_bytes -= replay->bytes;
    tdg__replay_init(replay, replay->worker);
}

bool tdg__replay_keep(tdg__replay_t *replay, uint64_t number, const tdg__rope_t *event) {
    size_t len = tdg__rope_len(event);
    tdg__kept_t *kept = NULL;

    assert(replay->last == NULL || replay->last->number < number);
    if (replay->bytes + len <= MAX_BYTES &&
        len <= MAX_BYTES_IN_ALL - replay->worker->kept_bytes)
        kept = tdg__malloc(sizeof(*kept) + len);
    if (kept == NULL)
        return false;

    *kept = (tdg__kept_t){.number = number, .len = len};
    tdg__rope_copy(event, kept->data);
    replay->bytes += len;
    replay->worker->kept_bytes += len;
    if (replay->last != NULL)
        replay->last->next = kept;
    else
        replay->first = kept;
    replay->last = kept;
    return true;
}

void tdg__replay_write(const tdg__replay_t *replay, uint64_t number,
                       tdg__outlet_t *outlet) {
    for (const tdg__kept_t *kept = replay->first; kept != NULL; kept = kept->next) {
        if (kept->number > number)
            tdg__outlet_piece(outlet, kept->data, kept->len);
    }
}
