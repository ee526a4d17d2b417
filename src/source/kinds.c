/* SPDX-License-Identifier: MIT */
#include "source/source.h"

/* One line per kind, in the order of the reference. */
#define KINDS(X)

#define DECLARE(name) extern const tdg__source_kind_t tdg__source_##name;
KINDS(DECLARE)

#define ROW(name) &tdg__source_##name,
const tdg__source_kind_t *const tdg__source_kinds[] = {KINDS(ROW) NULL};
