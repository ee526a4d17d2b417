/* SPDX-License-Identifier: MIT
 *
 * Bytes that are written once and then shared: encode a notification once, send the same
 * bytes to all. The count is atomic, so buffers may cross threads. */
#ifndef TDG_BASE_BUF_H
#define TDG_BASE_BUF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/budget.h"

typedef struct tdg__buf {
    atomic_size_t refs;
    size_t len;
    tdg__budget_t *budget; /* a reference: where its bytes count; NULL: nowhere */
    char data[];           /* `len` bytes and a NUL that does not count */
} tdg__buf_t;

/* A new buffer with one reference, holding a copy of the bytes; NULL when memory is out.
 * With `data` NULL the bytes are left for the caller to fill before anybody else looks.
 */
tdg__buf_t *tdg__buf_create(const void *data, size_t len);

tdg__buf_t *tdg__buf_ref(tdg__buf_t *buf); /* returns `buf` */
void tdg__buf_unref(tdg__buf_t *buf);      /* NULL is accepted */

/* Counts its bytes in `budget` until it is freed, in the place of `before` bytes that
 * were taken for it. By its only holder, once. False: there is no room, and `before` is
 * still taken. */
bool tdg__buf_charge(tdg__buf_t *buf, tdg__budget_t *budget, size_t before);

/* The same whether there is room or not, with nothing taken before. */
void tdg__buf_overcharge(tdg__buf_t *buf, tdg__budget_t *budget);

#endif
