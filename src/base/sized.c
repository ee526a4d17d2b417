/* SPDX-License-Identifier: MIT */
#include "base/sized.h"

#include <stdbool.h>
#include <string.h>

#include <tidings/error.h>

/* A larger one comes from a call by hand, or from memory that was overwritten. */
static bool is_size(size_t size) {
    return size > 0 && size <= TDG__SIZED_MAX;
}

int tdg__sized_read(void *ret, size_t size, const void *given, size_t given_size) {
    const unsigned char *bytes = given;
    size_t known = given_size < size ? given_size : size;

    memset(ret, 0, size);
    if (given == NULL)
        return 0;
    if (!is_size(given_size))
        return TDG_EINVAL;
    memcpy(ret, given, known);
    for (size_t i = known; i < given_size; i++) {
        if (bytes[i] != 0)
            return TDG_ENOTSUP;
    }
    return 0;
}

int tdg__sized_write(void *ret, size_t ret_size, const void *ours, size_t size) {
    if (!is_size(ret_size))
        return TDG_EINVAL;
    memset(ret, 0, ret_size);
    memcpy(ret, ours, ret_size < size ? ret_size : size);
    return 0;
}
