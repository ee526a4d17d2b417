/* SPDX-License-Identifier: MIT
 *
 * Globs over relative paths, for the lists `include` and `exclude` of a folder.
 *
 *     *       any characters but '/'            [abc] [a-z] [!a-z]   one character
 *     ?       one character but '/'             {md,txt}             either of them
 *     **      whole folders, also none: "docs/" + "**" + "/x.md"
 *     \c      the character c
 *
 * A pattern without a '/' is compared with each name on the way, so "*.md" and "build"
 * hold at any depth; one with a '/' is compared from the root ("/x" only there). A
 * pattern that matches a folder holds for everything in it; one with a '/' at its end,
 * which counts for nothing else, holds only for what is in the folder. Characters are
 * those of UTF-8; a byte that is none of it counts as one.
 *
 * Matching walks the path once with the set of places in the pattern that can be reached:
 * its cost is length of pattern times length of path, whatever the pattern. */
#ifndef TDG_SOURCE_FILES_GLOB_H
#define TDG_SOURCE_FILES_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/parse_error.h"

enum {
    TDG__GLOB_MAX_LEN = 512, /* bytes of a pattern, also after {a,b} was written out */
    TDG__GLOB_MAX_BRANCHES = 64, /* of all {a,b} in a pattern together */
    TDG__GLOBS_MAX = 256,        /* patterns in a list */
};

typedef struct tdg__globs tdg__globs_t; /* immutable; may be read by any thread */

/* Compiles a list that ends with NULL; NULL is an empty list. Returns 0, TDG_ENOMEM or
 * TDG_EINVAL, with *error and the position of the pattern in *ret_bad. */
int tdg__globs_create(const char *const *patterns, tdg__globs_t **ret, size_t *ret_bad,
                      tdg__parse_error_t *error);
void tdg__globs_destroy(tdg__globs_t *globs); /* NULL is accepted */

bool tdg__globs_are_empty(const tdg__globs_t *globs);

/* Whether one of them matches the path or a folder on the way to it. */
bool tdg__globs_match(const tdg__globs_t *globs, const char *path);

#endif
