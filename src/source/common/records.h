/* SPDX-License-Identifier: MIT
 *
 * The records of a source for its URIs, or paths: by name, each with a timer where there
 * is `due`. A record begins with a tdg__record_t and does not move. Used on the thread of
 * a loop. */
#ifndef TDG_SOURCE_RECORDS_H
#define TDG_SOURCE_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#include <uv.h>

#include "base/hash.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/pool.h"

typedef struct tdg__record {
    uint32_t id, hash;
    char *name; /* owned; NULL: not in use */
    tdg__timer_t timer;
} tdg__record_t;

/* The time of a record has come; its timer is not armed any more. Any record may be
 * added, removed or armed. */
typedef void (*tdg__record_due_fn)(tdg__record_t *record, void *user);

typedef struct tdg__records {
    tdg__pool_t pool;
    tdg__map_t by_name;
    tdg__hash_key_t key;
    tdg__heap_t timers;
    uv_timer_t timer; /* for the first of them; its data is the owner's */
    tdg__record_due_fn due;
    void *user;
} tdg__records_t;

/* Empty; `due` may be NULL. Returns 0 or TDG_ESYSTEM; in any case it is to be `done`
 * with, which frees the names, and nothing else that is in records.
 * All zero is accepted there. */
int tdg__records_init(tdg__records_t *records, size_t record_size, tdg__record_due_fn due,
                      void *user);
void tdg__records_done(tdg__records_t *records);

/* From here on timers run. The caller also closes them, with uv_close() of `timer`. */
void tdg__records_open(tdg__records_t *records, uv_loop_t *loop);

/* The record with this name. The second adds one that is not there, all zero; NULL:
 * memory is out. */
void *tdg__records_find(const tdg__records_t *records, const char *name);
void *tdg__records_add(tdg__records_t *records, const char *name);
void tdg__records_remove(tdg__records_t *records, tdg__record_t *record);

/* Walks them: begin with *at = 0; NULL ends. Records may come and go meanwhile. */
void *tdg__records_next(const tdg__records_t *records, uint32_t *at);

/* Sets the timer of a record, or moves it; stops it. Never fails. */
void tdg__records_arm(tdg__records_t *records, tdg__record_t *record, int64_t wait_ms);
void tdg__records_disarm(tdg__records_t *records, tdg__record_t *record);

#endif
