/* SPDX-License-Identifier: MIT */
#ifndef TIDINGS_EXPORT_H
#define TIDINGS_EXPORT_H

/* Marks what the shared library exports; everything else is hidden. */
#if defined(__GNUC__) || defined(__clang__)
#define TDG_API __attribute__((visibility("default")))
#else
#define TDG_API
#endif

#endif
