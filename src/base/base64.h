/* SPDX-License-Identifier: MIT
 *
 * Base64 (RFC 4648, section 4): the common alphabet, with padding. */
#ifndef TDG_BASE_BASE64_H
#define TDG_BASE_BASE64_H

#include <stddef.h>

/* A new string, for tdg__free(); NULL when memory is out. `data` may be NULL where `len`
 * is 0. */
char *tdg__base64_encode(const void *data, size_t len);

/* The same into memory of the caller: tdg__base64_len() characters, without a NUL. `len`
 * is at most SIZE_MAX / 2. */
size_t tdg__base64_len(size_t len);
void tdg__base64_put(char *out, const void *data, size_t len);

/* Strict: exactly what tdg__base64_encode() writes. Stores new bytes in *ret, for
 * tdg__free(), with a NUL behind them that *ret_len does not count. Returns 0, TDG_EINVAL
 * or TDG_ENOMEM. */
int tdg__base64_decode(const char *text, size_t len, char **ret, size_t *ret_len);

#endif
