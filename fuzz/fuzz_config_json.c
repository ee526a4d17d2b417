/* SPDX-License-Identifier: MIT
 *
 * Input: a config file, as a build without libyaml reads it. It is a tree or something is
 * said, never both. Each value and each name stands in the text where the tree says, in
 * order. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <tidings/error.h>

#include "config/node.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct walk {
    const char *text;
    size_t size, at;
    unsigned line, column;
} walk_t;

/* Stays on with NDEBUG, and is what the fuzzer reports. */
static void require(bool holds) {
    if (!holds)
        abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    json_object_seed(1); /* the same input takes the same path in each run */
    return 0;
}

/* Goes on to a place, which is further on than the one before, and returns what is
 * there. */
static char go_to(walk_t *walk, unsigned line, unsigned column) {
    while (walk->line != line || walk->column != column) {
        unsigned char byte;

        require(walk->at < walk->size);
        byte = (unsigned char)walk->text[walk->at++];
        if (byte == '\n') {
            walk->line++;
            walk->column = 0;
        }
        /* A character begins here, and the one before has ended. */
        while (walk->at < walk->size &&
               ((unsigned char)walk->text[walk->at] & 0xc0) == 0x80)
            walk->at++;
        walk->column++;
    }
    require(walk->at < walk->size);
    return walk->text[walk->at];
}

static void check_node(walk_t *walk, const tdg__node_t *node) {
    char first;

    if (node->key != NULL)
        require(go_to(walk, node->key_line, node->key_column) == '"');
    first = go_to(walk, node->line, node->column);
    switch (node->kind) {
    case TDG__NODE_MAP:
        require(first == '{');
        break;
    case TDG__NODE_LIST:
        require(first == '[');
        break;
    case TDG__NODE_SCALAR:
        require(node->plain == (first != '"') && node->text != NULL);
        require(!node->plain ||
                strncmp(walk->text + walk->at, node->text, strlen(node->text)) == 0);
        break;
    }
    for (const tdg__node_t *at = node->first; at != NULL; at = at->next) {
        require(at->parent == node);
        check_node(walk, at);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    walk_t walk = {.size = size, .line = 1, .column = 1};
    tdg__problems_t problems;
    tdg__node_t *node = NULL;
    char *text = malloc(size + 1); /* with an end, as a file that was read */
    int rv;

    require(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    walk.text = text;

    tdg__problems_init(&problems, "/etc/t.json");
    rv = tdg__node_read_text(text, size, &problems, &node);
    require(rv == 0 || rv == TDG_EINVAL);
    require((rv == 0) == (tdg__problems_total(&problems) == 0));
    require((rv == 0) == (node != NULL));
    if (node != NULL && size > 0 && strspn(text, " \t\r\n") < size)
        check_node(&walk, node);

    tdg__node_destroy(node);
    tdg__problems_done(&problems);
    free(text);
    return 0;
}
