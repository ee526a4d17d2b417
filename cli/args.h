/* SPDX-License-Identifier: MIT
 *
 * Arguments of tools and prompts, from the words of a command line:
 *
 *     city=Oslo      a value of the type that the schema gives to `city`
 *     days:=[1,2]    JSON as it stands, whatever the schema says
 *
 * A schema is JSON Schema as far as types go: `type`, `enum`, `const`, `anyOf`, `oneOf`,
 * `allOf` and `$ref` inside the same schema. A word is read as JSON where that gives one
 * of the allowed types, else as a string where strings are allowed; a property without a
 * known type is a string. The schema comes from a server and may be anything: what takes
 * too many steps to find out counts as not known. */
#ifndef TDG_CLI_ARGS_H
#define TDG_CLI_ARGS_H

#include <stddef.h>

#include <jansson.h>

enum { CLI_ARGS_WHY = 512 }; /* bytes of a reason, with NUL */

/* Parses the text of --arguments: a JSON object, new in *ret; of NULL an empty one.
 * Returns 0, TDG_EINVAL with what is wrong in `why`, or TDG_ENOMEM. */
int cli_args_parse(const char *text, json_t **ret, char why[CLI_ARGS_WHY]);

/* Adds the words to `arguments`, an object. `schema` is that of the whole object; NULL:
 * there is none. Returns 0, TDG_EINVAL with what is wrong in `why`, or TDG_ENOMEM; the
 * arguments may have grown then. */
int cli_args_add(json_t *arguments, const json_t *schema, char *const *words,
                 size_t count, char why[CLI_ARGS_WHY]);

/* Whether everything is there that the schema requires: 0, or TDG_EINVAL with the names
 * of what is missing in `why`. */
int cli_args_complete(const json_t *arguments, const json_t *schema,
                      char why[CLI_ARGS_WHY]);

/* A schema for the arguments of a prompt, as prompts/list has it: all are strings. New;
 * NULL: memory is out. */
json_t *cli_args_prompt_schema(const json_t *prompt);

#endif
