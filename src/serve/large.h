/* SPDX-License-Identifier: MIT
 *
 * Large reads: their common limit, their turns, and shared responses.
 *
 *     read ──▶ admitted? ──▶ fetch ──▶ encoded (thread) ──▶ answered
 *                │  no room, or enough under way
 *                └──▶ waits its turn, for a bounded time ──▶ busy
 *
 * Before a fetch of known size starts, its bytes are reserved in the budget of the
 * server's large responses; when it is encoded, the response takes over the reservation,
 * until its last reader has received it. Reads of one URI share a reservation; equal
 * contents, by checksum, share one encoded response, while anybody still reads it.
 *
 * Waiting reads take turns by client, as reads of slow sources do (turns.h). If too many
 * wait, the last one of the client with the most of them is refused.
 *
 * Everything here happens on the loop of the sources. */
#ifndef TDG_SERVE_LARGE_H
#define TDG_SERVE_LARGE_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/queue.h"
#include "source/common/heavy.h"
#include "source/common/source.h"
#include "source/common/turns.h"

enum { TDG__LARGE_WAITING = 1000 }; /* reads that wait at a time */

typedef struct tdg__large tdg__large_t;
typedef struct tdg__large_read tdg__large_read_t;

/* Embedded in the record of a read. */
struct tdg__large_read {
    tdg__queue_t link;          /* first; while it waits for its turn, or for an answer */
    tdg__turn_t turn;           /* while it waits for its turn */
    uint64_t client;            /* whose it is */
    const char *uri;            /* borrowed until it has left */
    uint64_t size;              /* as far as known; 0: unknown */
    struct tdg__ticket *ticket; /* NULL: it has none, or needs none */
    uint64_t until_ms;          /* while it waits for its turn */

    /* Its turn has come, or will not come: busy. */
    void (*admitted)(tdg__large_read_t *read, bool busy);

    /* `member` is borrowed. NULL: `status` says why, TDG_EAGAIN is busy. */
    void (*encoded)(tdg__large_read_t *read, tdg__buf_t *member, int status);

    /* Whether its client needs no answer any more. */
    bool (*cancelled)(const tdg__large_read_t *read);
};

struct tdg__large {
    uv_loop_t *loop;
    tdg__heavy_t *heavy;
    tdg__budget_t *budget; /* a reference; NULL: no limit */
    uv_timer_t timer;      /* runs while there is something to look after */
    tdg__queue_t tickets;  /* of reads that are under way */
    unsigned ticket_count;
    tdg__queue_t waiting; /* reads, in the order of arrival */
    unsigned waiting_count;
    tdg__turns_t turns;   /* of the same */
    tdg__queue_t encoded; /* answers that are being read, or encoded */
    unsigned encoding;
    bool closing;
    void (*idle)(void *user); /* closing: nothing is being encoded any more */
    void *user;
};

void tdg__large_init(tdg__large_t *large, uv_loop_t *loop, tdg__heavy_t *heavy);
void tdg__large_bind(tdg__large_t *large, tdg__budget_t *budget);

/* Refuses those that wait, and closes the handle. `idle` is called once nothing is being
 * encoded, at once or later. Then it can be done. */
void tdg__large_close(tdg__large_t *large, void (*idle)(void *user), void *user);
void tdg__large_done(tdg__large_t *large);

/* Calls read->admitted(), at once or later. */
void tdg__large_admit(tdg__large_t *large, tdg__large_read_t *read);

/* Calls read->encoded() with the content as text, at once or later. The content is
 * borrowed for the call; its metadata is complete. */
void tdg__large_encode(tdg__large_t *large, tdg__large_read_t *read,
                       const tdg__content_t *content);

/* The read has come to its end: gives back what was taken for it. Also for one that was
 * never admitted. */
void tdg__large_leave(tdg__large_t *large, tdg__large_read_t *read);

#endif
