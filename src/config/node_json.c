/* SPDX-License-Identifier: MIT
 *
 * In a build without libyaml a config is JSON. jansson's objects keep the order of the
 * text, and the parser stores the position of each value and key. */
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/json_scalar.h"
#include "config/node.h"

enum { MAX_VALUES = 2 * TDG__NODE_MAX_NODES }; /* names are counted, too */

typedef struct reader {
    tdg__problems_t *problems;
    const char *text;
    size_t len;
    const size_t *next; /* the place of the value or name that is converted next */
    size_t at;          /* a place in the text that only moves forward */
    unsigned line, column;
} reader_t;

static void go_to(reader_t *r, size_t at, unsigned *ret_line, unsigned *ret_column) {
    for (; r->at < at; r->at++) {
        if (r->text[r->at] == '\n') {
            r->line++;
            r->column = 1;
        } else if (((unsigned char)r->text[r->at] & 0xc0) != 0x80) {
            r->column++;
        }
    }
    *ret_line = r->line;
    *ret_column = r->column;
}

/* A string, or the word or number as it is written. */
static char *copy_scalar(const reader_t *r, const json_t *value) {
    static const char letters[] = "+-.0123456789Eaeflnrstu";
    size_t end = r->at;

    if (json_is_string(value))
        return tdg__strdup(json_string_value(value));
    while (end < r->len && memchr(letters, r->text[end], sizeof(letters) - 1) != NULL)
        end++;
    return tdg__strndup(r->text + r->at, end - r->at);
}

static int convert(reader_t *r, json_t *value, const char *key, tdg__node_t *parent,
                   tdg__node_t **ret);

/* Of the two loops one has nothing to do. */
static int convert_children(reader_t *r, json_t *value, tdg__node_t *node) {
    tdg__node_t **end = &node->first;
    json_t *child;
    const char *key;
    size_t i;
    int rv;

    if (json_object_size(value) > TDG__NODE_MAX_KEYS) {
        tdg__node_problem(r->problems, node,
                          "there are more than 1,000 names in one map");
        return TDG_EINVAL;
    }
    json_array_foreach(value, i, child) {
        rv = convert(r, child, NULL, node, end);
        if (rv < 0)
            return rv;
        (*end)->index = i;
        end = &(*end)->next;
    }
    json_object_foreach(value, key, child) {
        rv = convert(r, child, key, node, end);
        if (rv < 0)
            return rv;
        end = &(*end)->next;
    }
    return 0;
}

/* Puts the node into the tree at once, so that it is freed with that. */
static int convert(reader_t *r, json_t *value, const char *key, tdg__node_t *parent,
                   tdg__node_t **ret) {
    tdg__node_t *node = tdg__calloc(1, sizeof(*node));

    *ret = node;
    if (node == NULL)
        return TDG_ENOMEM;

    node->parent = parent;
    if (key != NULL) {
        go_to(r, *r->next++, &node->key_line, &node->key_column);
        node->key = tdg__strdup(key);
        if (node->key == NULL)
            return TDG_ENOMEM;
    }
    go_to(r, *r->next++, &node->line, &node->column);
    if (json_is_array(value) || json_is_object(value)) {
        node->kind = json_is_array(value) ? TDG__NODE_LIST : TDG__NODE_MAP;
        return convert_children(r, value, node);
    }
    node->plain = !json_is_string(value);
    node->text = copy_scalar(r, value);
    return node->text != NULL ? 0 : TDG_ENOMEM;
}

static int refused(reader_t *r, int code, const tdg__parse_error_t *error) {
    unsigned line, column;

    if (code == TDG_ENOMEM)
        return code;
    go_to(r, error->at, &line, &column);
    tdg__problems_add(r->problems, line, column,
                      "this is not valid JSON, and this build of tidings has no YAML: %s",
                      error->text);
    return TDG_EINVAL;
}

int tdg__node_parse(const char *text, size_t len, tdg__problems_t *problems,
                    tdg__node_t **ret) {
    static const tdg__json_limits_t limits = {TDG__NODE_MAX_BYTES, TDG__NODE_MAX_DEPTH,
                                              MAX_VALUES};
    size_t most = len < MAX_VALUES ? len + 2 : MAX_VALUES; /* each is a byte or more */
    size_t *places = tdg__calloc(most, sizeof(*places));
    reader_t r = {problems, text, len, places, 0, 1, 1};
    tdg__json_input_t in = {.data = text, .len = len};
    tdg__node_t *tree = NULL;
    tdg__parse_error_t error;
    json_t *json = NULL;
    int rv;

    if (places == NULL)
        return TDG_ENOMEM;
    tdg__json_skip_blanks(&in);
    if (in.at == len) { /* a map of nothing, as in YAML */
        text = "{}";
        len = strlen(text);
    }
    rv = tdg__json_parse_placed(text, len, &limits, places, &json, &error);
    rv = rv < 0 ? refused(&r, rv, &error) : convert(&r, json, NULL, NULL, &tree);
    json_decref(json);
    tdg__free(places);
    if (rv < 0)
        tdg__node_destroy(tree);
    else
        *ret = tree;
    return rv;
}
