/* SPDX-License-Identifier: MIT
 *
 * Targets of the public header: comparing and copying. */
#ifndef TDG_BASE_TARGET_H
#define TDG_BASE_TARGET_H

#include <stdbool.h>

#include <tidings/target.h>

/* A target on the stack, for the length of a call; the name is borrowed. */
#define TDG__URI_TARGET(uri) (&(const tdg_target_t){TDG_TARGET_URI, uri})

bool tdg__same_target(const tdg_target_t *a, const tdg_target_t *b);

/* New, with a name of its own, in one block for tdg__free(); NULL: no memory. */
tdg_target_t *tdg__copy_target(const tdg_target_t *target);

#endif
