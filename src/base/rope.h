/* SPDX-License-Identifier: MIT
 *
 * Text with shared buffers in between: small parts are copied, large ones are
 * reference-counted. So a response of megabytes for many readers is in memory once, and
 * each reader has only its own beginning and end. */
#ifndef TDG_BASE_ROPE_H
#define TDG_BASE_ROPE_H

#include "base/buf.h"
#include "base/text.h"

typedef struct tdg__splice {
    size_t at; /* bytes of the text in front of it */
    tdg__buf_t *buf;
} tdg__splice_t;

typedef struct tdg__rope {
    tdg__text_t text; /* append to it at will; its error is the rope's */
    tdg__splice_t *splices;
    size_t splice_count, splice_room;
    size_t spliced; /* bytes of all of them */
} tdg__rope_t;

void tdg__rope_init(tdg__rope_t *rope, size_t max_bytes);
void tdg__rope_done(tdg__rope_t *rope); /* init again to use it again */

/* Appends a buffer, with a reference of its own; a rope. Failure is sticky, as that of a
 * text: TDG_ENOMEM or TDG_ETOOLARGE. */
void tdg__rope_splice(tdg__rope_t *rope, tdg__buf_t *buf);
void tdg__rope_append(tdg__rope_t *rope, const tdg__rope_t *other);

size_t tdg__rope_len(const tdg__rope_t *rope);

/* Writes all of it, tdg__rope_len() bytes, without a NUL. */
void tdg__rope_copy(const tdg__rope_t *rope, char *to);

/* Calls `visit` for each stretch in order: `shared` is NULL where it is text. */
void tdg__rope_each(const tdg__rope_t *rope,
                    void (*visit)(void *arg, const char *data, size_t len,
                                  tdg__buf_t *shared),
                    void *arg);

#endif
