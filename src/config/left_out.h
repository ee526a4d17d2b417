/* SPDX-License-Identifier: MIT
 *
 * The parts that a build leaves out (meson_options.txt), for messages about them. */
#ifndef TDG_CONFIG_LEFT_OUT_H
#define TDG_CONFIG_LEFT_OUT_H

#include <stdbool.h>

/* Options of the build that are off, by their names there; the last has no name. */
typedef struct tdg__left_out {
    const char *name;
    const char *kind; /* of resources, that is missing for it; may be NULL */
} tdg__left_out_t;
extern const tdg__left_out_t tdg__left_out[];

/* Whether `name` is a kind of resource that this build leaves out. */
bool tdg__is_left_out_kind(const char *name);

#endif
