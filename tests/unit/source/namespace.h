/* SPDX-License-Identifier: MIT
 *
 * Runs one test of this program in a user namespace of its own, in which limits of the
 * kernel can be set and file systems mounted. */
#ifndef TDG_TESTS_SOURCE_NAMESPACE_H
#define TDG_TESTS_SOURCE_NAMESPACE_H

#include <stdbool.h>

/* Starts the program again, with TDG_TEST set to `test`, in a namespace with `flags` of
 * unshare() in addition, after `value` was written to the file `limit` (NULL: none).
 * Skips the test where that is not allowed. */
void in_namespace(const char *test, int flags, const char *limit, const char *value);

/* Whether we are in there: main() then runs the tests that are meant for it. */
bool is_in_namespace(void);

#endif
