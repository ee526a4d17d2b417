/* SPDX-License-Identifier: MIT */
#ifndef TIDINGS_VERSION_H
#define TIDINGS_VERSION_H

#include <stdbool.h>

#include <tidings/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of these headers. A release with the same major number, or before 1.0 the
 * same minor number, runs programs that were compiled with an earlier one. */
#define TDG_VERSION_MAJOR 0
#define TDG_VERSION_MINOR 1
#define TDG_VERSION_PATCH 0
#define TDG_VERSION "0.1.0"

/* Comparable: TDG_VERSION_NUMBER >= TDG_VERSION_OF(0, 2, 0). */
#define TDG_VERSION_OF(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define TDG_VERSION_NUMBER                                                               \
    TDG_VERSION_OF(TDG_VERSION_MAJOR, TDG_VERSION_MINOR, TDG_VERSION_PATCH)

/* The version of the library that is loaded, such as "0.1.0". Borrowed for ever. */
TDG_API const char *tdg_version(void);

/* The same as TDG_VERSION_NUMBER of that library. */
TDG_API int tdg_version_number(void);

/* Whether the library that is loaded runs programs that were compiled with these headers:
 * it is of the same series, and not older. */
static inline bool tdg_version_fits(void) {
    int loaded = tdg_version_number();

    return loaded >= TDG_VERSION_NUMBER && loaded / 1000000 == TDG_VERSION_MAJOR &&
           (TDG_VERSION_MAJOR > 0 || loaded / 1000 == TDG_VERSION_MINOR);
}

#ifdef __cplusplus
}
#endif

#endif
