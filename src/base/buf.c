/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

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
    /* acq_rel: whoever frees must come after every other holder's last read. */
    if (buf != NULL &&
        atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel) == 1)
        tdg__free(buf);
}
