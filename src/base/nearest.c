/* SPDX-License-Identifier: MIT */
#include "base/nearest.h"

#include <stdint.h>
#include <string.h>

static size_t min_of(size_t a, size_t b) {
    return a < b ? a : b;
}

/* How many letters have to be inserted, removed, replaced or swapped with their neighbour
 * to turn one word into the other. */
static size_t distance(const char *a, const char *b) {
    size_t rows[TDG__NEAREST_MAX + 1][TDG__NEAREST_MAX + 1];
    size_t a_len = strlen(a), b_len = strlen(b);

    if (a_len > TDG__NEAREST_MAX || b_len > TDG__NEAREST_MAX)
        return SIZE_MAX;

    for (size_t i = 0; i <= a_len; i++) {
        for (size_t j = 0; j <= b_len; j++) {
            size_t best;

            if (i == 0 || j == 0) {
                rows[i][j] = i + j;
                continue;
            }
            best = rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = min_of(best, rows[i - 1][j] + 1);
            best = min_of(best, rows[i][j - 1] + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = min_of(best, rows[i - 2][j - 2] + 1);
            rows[i][j] = best;
        }
    }
    return rows[a_len][b_len];
}

const char *tdg__nearest(const char *word, tdg__name_at_fn name_at, const void *names) {
    const char *nearest = NULL, *name;
    size_t best = 3; /* two slips of the finger are near enough */

    for (size_t i = 0; (name = name_at(names, i)) != NULL; i++) {
        size_t slips = distance(word, name);

        if (slips >= strlen(name))
            continue; /* nothing of the name is in the word */
        if (strlen(word) >= 2 && strncmp(word, name, strlen(word)) == 0)
            slips = min_of(slips, 1);
        if (slips < best) {
            best = slips;
            nearest = name;
        }
    }
    return nearest;
}

static const char *string_at(const void *names, size_t i) {
    return ((const char *const *)names)[i];
}

const char *tdg__nearest_of(const char *word, const char *const *names) {
    return tdg__nearest(word, string_at, names);
}
