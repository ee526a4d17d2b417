/* SPDX-License-Identifier: MIT
 *
 * The difference between two texts, line by line, in the format of `diff -u`, so that
 * patch(1) can apply it. The search (Myers, O(ND)) is bounded; if texts differ more than
 * that, everything between the first and the last difference is replaced, which is
 * correct but longer. */
#ifndef TDG_CLI_DIFF_H
#define TDG_CLI_DIFF_H

#include <stddef.h>

#include "base/text.h"

typedef struct diff_side {
    const char *name; /* for the header; control characters in it are replaced */
    const char *text; /* may be NULL where `len` is 0 */
    size_t len;
} diff_side_t;

/* Appends nothing where the texts are equal. Returns 0, TDG_ENOMEM, or TDG_ETOOLARGE
 * where a text has more than a million lines; errors of `out` are its own. */
int diff_unified(const diff_side_t *before, const diff_side_t *after, tdg__text_t *out);

#endif
