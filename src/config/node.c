/* SPDX-License-Identifier: MIT */
#include "config/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "config/value.h"

enum { WAY_MAX = (TDG__NODE_MAX_DEPTH + 1) * (TDG__QUOTED_MAX + 1) };

void tdg__node_destroy(tdg__node_t *node) {
    tdg__node_t *child, *next;

    if (node == NULL)
        return;
    for (child = node->first; child != NULL; child = next) {
        next = child->next;
        tdg__node_destroy(child); /* never deeper than TDG__NODE_MAX_DEPTH + 1 */
    }
    tdg__free(node->key);
    tdg__free(node->text);
    tdg__free(node);
}

const tdg__node_t *tdg__node_get(const tdg__node_t *map, const char *key) {
    const tdg__node_t *child;

    if (map == NULL || map->kind != TDG__NODE_MAP)
        return NULL;
    for (child = map->first; child != NULL; child = child->next)
        if (strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

bool tdg__node_is_null(const tdg__node_t *node) {
    static const char *const words[] = {"", "~", "null", "Null", "NULL", NULL};

    if (node->kind != TDG__NODE_SCALAR || !node->plain)
        return false;
    for (size_t i = 0; words[i] != NULL; i++)
        if (strcmp(node->text, words[i]) == 0)
            return true;
    return false;
}

static void note_unset(void *arg, const char *name) {
    bool *is_unset = arg;

    *is_unset = *is_unset || getenv(name) == NULL;
}

bool tdg__node_is_unset(const tdg__node_t *node, const tdg__problems_t *problems) {
    bool is_unset = false;

    if (node == NULL || !problems->no_env)
        return false;
    if (node->kind == TDG__NODE_SCALAR)
        tdg__expand_names(node->text, note_unset, &is_unset);
    for (const tdg__node_t *child = node->first; child != NULL && !is_unset;
         child = child->next)
        is_unset = tdg__node_is_unset(child, problems);
    return is_unset;
}

static size_t count_children(const tdg__node_t *node) {
    const tdg__node_t *child;
    size_t count = 0;

    for (child = node->first; child != NULL; child = child->next)
        count++;
    return count;
}

static bool equal_children(const tdg__node_t *a, const tdg__node_t *b) {
    const tdg__node_t *left, *right = b->first;

    if (count_children(a) != count_children(b))
        return false;
    for (left = a->first; left != NULL; left = left->next) {
        if (a->kind == TDG__NODE_MAP)
            right = tdg__node_get(b, left->key);
        if (right == NULL || !tdg__node_equal(left, right))
            return false;
        right = right->next;
    }
    return true;
}

bool tdg__node_equal(const tdg__node_t *a, const tdg__node_t *b) {
    if (a == NULL || b == NULL)
        return a == b;
    if (a->kind != b->kind)
        return false;
    if (a->kind != TDG__NODE_SCALAR)
        return equal_children(a, b);
    return tdg__node_is_null(a) ? tdg__node_is_null(b)
                                : !tdg__node_is_null(b) && strcmp(a->text, b->text) == 0;
}

/* Whether a name can be shown as it is. */
static bool is_plain_name(const char *name) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789-_";
    size_t len = strlen(name);

    return len > 0 && len < TDG__QUOTED_MAX && strspn(name, letters) == len;
}

/* Writes "resources[2].every" and returns its length; WAY_MAX has room for the deepest.
 */
static size_t write_way(const tdg__node_t *node, char *out, size_t room) {
    char quoted[TDG__QUOTED_MAX];
    size_t len;
    int more;

    if (node->parent == NULL)
        return 0;
    len = write_way(node->parent, out, room);
    if (node->key == NULL)
        more = snprintf(out + len, room - len, "[%zu]", node->index);
    else
        more = snprintf(out + len, room - len, "%s%s", len > 0 ? "." : "",
                        is_plain_name(node->key) ? node->key
                                                 : tdg__quoted(quoted, node->key));
    if (more < 0)
        return len;
    return (size_t)more < room - len ? len + (size_t)more : room - 1;
}

static void add_problem(tdg__problems_t *problems, const tdg__node_t *node, unsigned line,
                        unsigned column, const char *format, va_list args)
    __attribute__((format(printf, 5, 0)));

static void add_problem(tdg__problems_t *problems, const tdg__node_t *node, unsigned line,
                        unsigned column, const char *format, va_list args) {
    char way[WAY_MAX] = "", text[1024]; /* longer ones are cut in the end */

    if (node != NULL)
        write_way(node, way, sizeof(way));
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    tdg__problems_add(problems, line, column, "%s%s%s", way, way[0] != '\0' ? ": " : "",
                      text);
}

void tdg__node_problem(tdg__problems_t *problems, const tdg__node_t *node,
                       const char *format, ...) {
    va_list args;

    if (node != NULL && node->kind != TDG__NODE_MAP && tdg__node_is_unset(node, problems))
        return;
    va_start(args, format);
    add_problem(problems, node, node != NULL ? node->line : 0,
                node != NULL ? node->column : 0, format, args);
    va_end(args);
}

void tdg__node_key_problem(tdg__problems_t *problems, const tdg__node_t *node,
                           const char *format, ...) {
    bool has_key = node != NULL && node->key != NULL;
    va_list args;

    va_start(args, format);
    add_problem(problems, node,
                has_key        ? node->key_line
                : node != NULL ? node->line
                               : 0,
                has_key        ? node->key_column
                : node != NULL ? node->column
                               : 0,
                format, args);
    va_end(args);
}

int tdg__node_option_problem(tdg__problems_t *problems, const tdg__node_t *map,
                             const char *option, const char *text) {
    const tdg__node_t *value = tdg__node_get(map, option);

    tdg__node_problem(problems, value != NULL ? value : map, "%s", text);
    return TDG_EINVAL;
}
