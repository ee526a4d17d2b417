/* SPDX-License-Identifier: MIT
 *
 * Single values of a config file: durations, sizes, numbers, as text and back; and the
 * environment in them. */
#ifndef TDG_CONFIG_VALUE_H
#define TDG_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/parse_error.h"

/* "500ms", "2s", "5m", "1h", "1d" in milliseconds; "0" needs no unit. "64KiB" and such in
 * bytes; a unit is not needed. A whole number, which may be negative. Return false where
 * the text is no such thing, or does not fit into 63 bits. */
bool tdg__duration_parse(const char *text, int64_t *ret_ms);
bool tdg__size_parse(const char *text, int64_t *ret_bytes);
bool tdg__number_parse(const char *text, int64_t *ret);

/* The other way, with the largest unit that leaves a whole number. */
enum { TDG__VALUE_TEXT_MAX = 32 };
void tdg__duration_write(int64_t ms, char out[TDG__VALUE_TEXT_MAX]);
void tdg__size_write(int64_t bytes, char out[TDG__VALUE_TEXT_MAX]);

enum { TDG__EXPANDED_MAX = 64 * 1024 }; /* bytes of a text with what was put in */

/* Puts the environment into a text: ${NAME} is replaced, ${NAME:-text} too, with the text
 * where the variable is not set or empty; $${ is a literal ${. With `no_env` a variable
 * that is not set is replaced by its name. Stores a new string. Returns 0, TDG_EINVAL
 * with *error filled, or TDG_ENOMEM. */
int tdg__expand(const char *text, bool no_env, char **ret, tdg__parse_error_t *error);

/* Calls `visit` with the name of every variable that is used for that: those that have to
 * be set, and of those with a default the ones that are. */
void tdg__expand_names(const char *text, void (*visit)(void *arg, const char *name),
                       void *arg);

/* Makes a path absolute: relative to the folder of `file` (NULL, or without a slash: to
 * the working directory); `~/` is the home directory. "." and empty parts are left out.
 * Stores a new string. Returns as tdg__expand(). */
int tdg__path_resolve(const char *path, const char *file, char **ret,
                      tdg__parse_error_t *error);

#endif
