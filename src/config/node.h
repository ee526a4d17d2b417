/* SPDX-License-Identifier: MIT
 *
 * A YAML file as a tree with the position of every value. Aliases, anchors, tags,
 * duplicate keys, keys that are not strings and more than one document are refused; size,
 * depth and number of nodes are limited before anything is built. libyaml reads the file;
 * its own memory does not come from our allocator. A build without libyaml reads JSON,
 * which is YAML, too, into the same tree. */
#ifndef TDG_CONFIG_NODE_H
#define TDG_CONFIG_NODE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/problems.h"

enum {
    TDG__NODE_MAX_BYTES = 8 << 20, /* of a file */
    TDG__NODE_MAX_DEPTH = 16,      /* lists and maps inside each other */
    TDG__NODE_MAX_NODES = 250000,  /* 25 for each of 10,000 entries */
    TDG__NODE_MAX_KEYS = 1000,     /* of one map */
};

typedef enum tdg__node_kind {
    TDG__NODE_SCALAR,
    TDG__NODE_LIST,
    TDG__NODE_MAP
} tdg__node_kind_t;

typedef struct tdg__node tdg__node_t;
struct tdg__node {
    tdg__node_kind_t kind;
    bool plain;            /* a scalar without quotes: may be a number, a bool or null */
    char *key;             /* in a map */
    char *text;            /* of a scalar */
    unsigned line, column; /* of the value, from 1 */
    unsigned key_line, key_column; /* of the key */
    tdg__node_t *first, *next;     /* children; siblings in the order of the file */
    tdg__node_t *parent;           /* NULL: the top */
    size_t index;                  /* among its siblings, from 0 */
};

/* Reads a whole file (or a text; "-" is standard input). Stores the tree in *ret, new.
 * Returns 0; TDG_EINVAL where it is no such YAML, with everything in `problems`;
 * TDG_ESYSTEM where it cannot be read, likewise; TDG_ENOMEM. An empty file is an empty
 * map. */
int tdg__node_read_file(const char *path, tdg__problems_t *problems, tdg__node_t **ret);
int tdg__node_read_text(const char *text, size_t len, tdg__problems_t *problems,
                        tdg__node_t **ret);
void tdg__node_destroy(tdg__node_t *node); /* NULL is accepted */

/* For node_read.c, the same of a text that is not too long. It is in node_yaml.c, or, in
 * a build without libyaml, in node_json.c. */
int tdg__node_parse(const char *text, size_t len, tdg__problems_t *problems,
                    tdg__node_t **ret);

/* The child of that name; NULL where there is none or the node is no map. */
const tdg__node_t *tdg__node_get(const tdg__node_t *map, const char *key);

/* Whether it is there without a value: `key:`, `key: ~` or `key: null`. */
bool tdg__node_is_null(const tdg__node_t *node);

/* Whether a value, or one in it, holds a variable that is not set, and `problems` allows
 * that (no_env): nobody knows then what it is. Of NULL, never. */
bool tdg__node_is_unset(const tdg__node_t *node, const tdg__problems_t *problems);

/* Whether two trees say the same; where they stand, and the order of a map, does not
 * matter. */
bool tdg__node_equal(const tdg__node_t *a, const tdg__node_t *b);

/* Adds a problem at the place of the value, or of its key, and puts the way to it in
 * front of the text: "resources[2].every: …". `node` NULL: no place. Of a text or list
 * that tdg__node_is_unset(), nothing is added at its value. */
void tdg__node_problem(tdg__problems_t *problems, const tdg__node_t *node,
                       const char *format, ...) __attribute__((format(printf, 3, 4)));
void tdg__node_key_problem(tdg__problems_t *problems, const tdg__node_t *node,
                           const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same for an option of a map, at its value, or at the map where that is not given.
 * Returns TDG_EINVAL. */
int tdg__node_option_problem(tdg__problems_t *problems, const tdg__node_t *map,
                             const char *option, const char *text);

#endif
