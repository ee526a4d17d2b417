/* SPDX-License-Identifier: MIT
 *
 * Structs of the public headers that may grow. A program passes the size that the struct
 * had when it was compiled (the headers do that in inline functions); fields are only
 * ever added at the end, and zero means what was there before the field (docs/abi.md). */
#ifndef TDG_BASE_SIZED_H
#define TDG_BASE_SIZED_H

#include <stddef.h>

enum { TDG__SIZED_MAX = 4096 }; /* bytes; none of ours will ever have so many */

/* Copies a struct of the caller, `given_size` bytes as the caller knows it, into ours;
 * fields that the caller does not know are zero. NULL gives all zero. Returns 0, or, and
 * *ret is undefined then, TDG_ENOTSUP where the caller sets a field that we do not know,
 * or TDG_EINVAL where the size is that of no struct. */
int tdg__sized_read(void *ret, size_t size, const void *given, size_t given_size);

/* The other way: as much of our struct as the caller has room for. What the caller knows
 * and we do not is zero. Returns 0, or TDG_EINVAL where the size is that of no struct;
 * nothing is written then. */
int tdg__sized_write(void *ret, size_t ret_size, const void *ours, size_t size);

#endif
