/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"

tdg__buf_t *tdg__buf_create(const void *data, size_t len) {
    tdg__buf_t *buf;

    if (len > SIZE_MAX - sizeof(*buf) - 1)
        return NULL;

    buf = tdg__malloc(sizeof(*buf) + len + 1);
    if (buf == NULL)
        return NULL;

    atomic_init(&buf->refs, 1);
    buf->len = len;
    buf->budget = NULL;
    if (data != NULL && len > 0)
        memcpy(buf->data, data, len);
    buf->data[len] = '\0';
    return buf;
}

tdg__buf_t *tdg__buf_ref(tdg__buf_t *buf) {
    atomic_fetch_add_explicit(&buf->refs, 1, memory_order_relaxed);
    return buf;
}

void tdg__buf_unref(tdg__buf_t *buf) {
    /* acq_rel: the free follows every other holder's last read. */
    if (buf == NULL ||
        atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (buf->budget != NULL)
        tdg__budget_give(buf->budget, buf->len);
    tdg__budget_unref(buf->budget);
    tdg__free(buf);
}

bool tdg__buf_charge(tdg__buf_t *buf, tdg__budget_t *budget, size_t before) {
    assert(buf->budget == NULL);
    if (!tdg__budget_exchange(budget, before, buf->len))
        return false;
    buf->budget = tdg__budget_ref(budget);
    return true;
}

void tdg__buf_overcharge(tdg__buf_t *buf, tdg__budget_t *budget) {
    assert(buf->budget == NULL);
    tdg__budget_overdraw(budget, buf->len);
    buf->budget = tdg__budget_ref(budget);
}
