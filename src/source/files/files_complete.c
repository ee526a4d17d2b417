/* SPDX-License-Identifier: MIT
 *
 * Completion of paths, one folder at a time, as in shells: "do" becomes "docs/", and
 * "docs/" the names in that folder. Folders end in a slash. */
#include <string.h>

#include <tidings/error.h>

#include "base/text.h"
#include "source/files/files.h"

/* The first names in order, among those that fit. */
struct found {
    const tdg__files_node_t *nodes[TDG__COMPLETIONS];
    size_t count; /* of those that are kept */
    size_t total;
};

static void keep(struct found *found, const tdg__files_node_t *node) {
    size_t at = found->count;

    found->total++;
    while (at > 0 && strcmp(node->name, found->nodes[at - 1]->name) < 0)
        at--;
    if (at == TDG__COMPLETIONS)
        return;
    if (found->count < TDG__COMPLETIONS)
        found->count++;
    memmove(&found->nodes[at + 1], &found->nodes[at],
            (found->count - at - 1) * sizeof(found->nodes[0]));
    found->nodes[at] = node;
}

/* What the protocol can carry, and a client can read. */
static bool fits(const tdg__files_node_t *node, const char *start) {
    bool there =
        (node->flags & TDG__NODE_IS_FOLDER) != 0 || (node->flags & TDG__NODE_LISTED) != 0;

    return there && (node->flags & TDG__NODE_ABSENT) == 0 &&
           strncmp(node->name, start, strlen(start)) == 0 &&
           tdg__utf8_is_valid(node->name, strlen(node->name));
}

static void search(const tdg__files_tree_t *tree, uint32_t folder, const char *start,
                   struct found *found) {
    uint32_t id = tdg__files_node(tree, folder)->u.folder.children.first;

    while (id != 0) {
        const tdg__files_node_t *node = tdg__files_node(tree, id);

        if (fits(node, start))
            keep(found, node);
        id = node->link.next;
    }
}

/* `value` up to and with its last slash goes in front of each name. */
static int put(const struct found *found, const char *value, size_t folder_len,
               json_t *values) {
    for (size_t i = 0; i < found->count; i++) {
        const tdg__files_node_t *node = found->nodes[i];
        bool is_folder = (node->flags & TDG__NODE_IS_FOLDER) != 0;
        json_t *text = json_sprintf("%.*s%s%s", (int)folder_len, value, node->name,
                                    is_folder ? "/" : "");

        if (json_array_append_new(values, text) < 0)
            return TDG_ENOMEM;
    }
    return 0;
}

int tdg__files_complete(tdg__source_t *source, const char *variable, const char *value,
                        json_t *values, size_t *ret_total) {
    const tdg__files_tree_t *tree = &((tdg__files_t *)source)->tree;
    const char *slash = strrchr(value, '/'), *start = slash != NULL ? slash + 1 : value;
    size_t folder_len = (size_t)(start - value);
    char path[TDG__FILES_MAX_PATH];
    struct found found = {.count = 0};

    *ret_total = 0;
    if (strcmp(variable, "path") != 0 || folder_len >= sizeof(path) ||
        strstr(value, "//") != NULL)
        return 0;
    memcpy(path, value, folder_len);
    path[folder_len > 0 ? folder_len - 1 : 0] = '\0'; /* without its slash */

    uint32_t folder = folder_len == 1 ? 0 : tdg__files_find(tree, path);

    if (folder != 0 && (tdg__files_node(tree, folder)->flags & TDG__NODE_IS_FOLDER) != 0)
        search(tree, folder, start, &found);
    *ret_total = found.total;
    return put(&found, value, folder_len, values);
}
