/* SPDX-License-Identifier: MIT
 *
 * What a config test compares: all problems as one text. */
#ifndef TDG_TESTS_CONFIG_SAID_H
#define TDG_TESTS_CONFIG_SAID_H

#include "config/problems.h"

/* "1:2: text\n3:4: text", sorted; for free(). */
char *said(tdg__problems_t *problems);

#endif
