/* SPDX-License-Identifier: MIT */
#include "base/sized.h"

#include <string.h>

#include <tidings/error.h>

int tdg__sized_read(void *ret, size_t size, const void *given, size_t given_size) {
    const unsigned char *bytes = given;
    size_t known = given_size < size ? given_size : size;

    memset(ret, 0, size);
    if (given == NULL)
        return 0;
    memcpy(ret, given, known);
    for (size_t i = known; i < given_size; i++) {
        if (bytes[i] != 0)
            return TDG_ENOTSUP;
    }
    return 0;
}

void tdg__sized_write(void *ret, size_t ret_size, const void *ours, size_t size) {
    memset(ret, 0, ret_size);
    memcpy(ret, ours, ret_size < size ? ret_size : size);
}
