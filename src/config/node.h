/* SPDX-License-Identifier: MIT
 *
 * A YAML file as a tree that remembers where everything stands. Aliases, anchors, tags,
 * duplicate keys, keys that are no strings and more than one document are refused; size,
 * depth and number of nodes are bounded before anything is built. */
#ifndef TDG_CONFIG_NODE_H
#define TDG_CONFIG_NODE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/problems.h"

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
};

/* Reads a whole file (or a text). Stores the tree in *ret, new. Returns 0; TDG_EINVAL
 * where it is no such YAML, with everything in `problems`; TDG_ESYSTEM where it cannot be
 * read, likewise; TDG_ENOMEM. An empty file is an empty map. */
int tdg__node_read_file(const char *path, tdg__problems_t *problems, tdg__node_t **ret);
int tdg__node_read_text(const char *text, size_t len, tdg__problems_t *problems,
                        tdg__node_t **ret);
void tdg__node_destroy(tdg__node_t *node); /* NULL is accepted */

/* The child of that name; NULL where there is none or the node is no map. */
const tdg__node_t *tdg__node_get(const tdg__node_t *map, const char *key);

/* Whether two trees say the same; where they stand does not matter. */
bool tdg__node_equal(const tdg__node_t *a, const tdg__node_t *b);

#endif
