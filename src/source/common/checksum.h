/* SPDX-License-Identifier: MIT
 *
 * Checksums of content, as in metadata: "sha256:" and 64 hex digits. */
#ifndef TDG_SOURCE_CHECKSUM_H
#define TDG_SOURCE_CHECKSUM_H

#include <stddef.h>

enum { TDG__CHECKSUM = 7 + 64 }; /* characters */

/* Writes the checksum and a NUL. Returns 0 or TDG_ENOMEM. */
int tdg__checksum(const void *data, size_t len, char ret[TDG__CHECKSUM + 1]);

#endif
