/* SPDX-License-Identifier: MIT
 *
 * One option: from a node to its field. Between option.c, which handles tables, and
 * value.h, which handles texts. */
#ifndef TDG_CONFIG_OPTION_VALUE_H
#define TDG_CONFIG_OPTION_VALUE_H

#include "config/option.h"

/* Reads a value that was given. What is wrong is added to `problems`, and the field is
 * left as it was. Returns 0, TDG_EINVAL or TDG_ENOMEM. */
int tdg__option_read(const tdg__option_t *option, const tdg__node_t *node, void *fields,
                     tdg__problems_t *problems);

/* Sets the default of the table. */
int tdg__option_fall_back(const tdg__option_t *option, void *fields,
                          tdg__problems_t *problems);

/* Frees the value; the field is all zero then. */
void tdg__option_free(const tdg__option_t *option, void *fields);

/* The largest value of a number, duration or size. */
int64_t tdg__option_max(const tdg__option_t *option);

/* The words of a CHOICE: "a, b or c". */
void tdg__option_write_choices(const tdg__option_t *option, tdg__text_t *out);

/* The amount as one would write it. */
void tdg__option_write_amount(const tdg__option_t *option, int64_t amount,
                              tdg__text_t *out);

#endif
