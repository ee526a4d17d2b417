/* SPDX-License-Identifier: MIT
 *
 * Targets of the public header, for the length of a call. */
#ifndef TDG_TESTS_TARGETS_H
#define TDG_TESTS_TARGETS_H

#include <tidings/target.h>

#define FOR_URI(uri) (&(const tdg_target_t){TDG_TARGET_URI, uri})
#define FOR_TEMPLATE(text) (&(const tdg_target_t){TDG_TARGET_TEMPLATE, text})
#define FOR_LIST(name) (&(const tdg_target_t){TDG_TARGET_LIST, name})

#endif
